/* Interned strings: names of commands, sites ("file:line"), labels. Each distinct text has one id.
 *
 * Records carry ids of 32 bits instead of texts; a sink looks the text up when it writes. Id 0 is
 * the empty text. Ids are given in order of first use, so they are the same in every run of the
 * same program.
 *
 * Threads: intern from one thread at a time; looking up an id that was handed over through a
 * release/acquire pair (the trace ring) is safe from another one, because texts never move. */
#ifndef ORR_RUNTIME_NAMES_H
#define ORR_RUNTIME_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/status.h"

struct orr_names;

/* Creates an empty table. `memory` is borrowed until destroy. At most 2^24 texts. */
enum orr_status orr_names_create(const struct orr_memory *memory,
                                 struct orr_names **out_names) ORR_MUST_CHECK;
/* Destroys and nulls; accepts a NULL table. */
void orr_names_destroy(struct orr_names **names);

/* The id of a text of `length` bytes (copied when new). ORR_NO_MEMORY when it can't be kept. */
enum orr_status orr_names_intern(struct orr_names *names, const char *text, size_t length,
                                 uint32_t *out_id) ORR_MUST_CHECK;

/* The text of an id, NUL-terminated, borrowed until destroy; "" for 0 and for ids never given. */
const char *orr_names_text(const struct orr_names *names, uint32_t id);

/* Number of ids in use, 0 included. */
uint32_t orr_names_count(const struct orr_names *names);

#endif
