/* Internal to trace/: numbers for texts, equal ones for equal texts.
 *
 *     struct orr__text_ids *ids;
 *     status = orr__text_ids_create(memory, &ids);
 *     uint32_t id = orr__text_ids_of(ids, "aten::mm");      // 1, 2, ... in order of first use
 *     const char *text = orr__text_ids_text(ids, id);
 *     orr__text_ids_destroy(&ids);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_TEXT_IDS_H
#define ORR_TRACE_TEXT_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"

struct orr__text_ids;

/* An empty one; `memory` is borrowed until destroy. ORR_NO_MEMORY. */
enum orr_status orr__text_ids_create(const struct orr_memory *memory,
                                     struct orr__text_ids **out_ids) ORR_MUST_CHECK;
/* Frees and nulls; accepts NULL. */
void orr__text_ids_destroy(struct orr__text_ids **ids);

/* The text's number; 0 without memory. The text is borrowed until destroy. Asking again with the
 * same pointer is cheap. */
uint32_t orr__text_ids_of(struct orr__text_ids *ids, const char *text);

/* Numbers given so far, plus one: valid ones are below. */
uint32_t orr__text_ids_count(const struct orr__text_ids *ids);

/* The text of a number that was given. */
const char *orr__text_ids_text(const struct orr__text_ids *ids, uint32_t id);

#endif
