/* A growing text: messages, JSON lines. A missing block is kept in it, so that a sequence of
 * additions is checked once, at its end.
 *
 *     struct orr__builder line = {.memory = memory};
 *     orr__build_format(&line, "{\"host\": ");
 *     orr__build_json_string(&line, name);
 *     if (line.failed) ...                  // out of memory somewhere on the way
 *     orr__builder_clear(&line);
 *
 * Threads: plain data. */
#ifndef ORR_HAZARDS_TEXT_BUILDER_H
#define ORR_HAZARDS_TEXT_BUILDER_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/memory.h"

struct orr__builder {
    const struct orr_memory *memory;
    char *data; /* NUL-terminated once something was added; owned */
    size_t length, capacity;
    bool failed; /* out of memory: what follows is not added */
};

/* Frees and empties. */
void orr__builder_clear(struct orr__builder *builder);
/* Empties, keeps the room. */
void orr__builder_restart(struct orr__builder *builder);
/* Appends bytes, a text, what printf would print. */
void orr__build_bytes(struct orr__builder *builder, const char *bytes, size_t length);
void orr__build_text(struct orr__builder *builder, const char *text);
void orr__build_format(struct orr__builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A string as JSON, with its quotes. U+0000 stands in texts of this room as the two bytes C0 80,
 * which UTF-8 never has, and an escaped half of a surrogate pair as the three bytes that encode it;
 * both are written as the escapes they were. Every other byte comes out as it is, or as the
 * shortest escape; bytes that are no UTF-8 as U+FFFD. */
void orr__build_json_string(struct orr__builder *builder, const char *text);

/* The length of the UTF-8 sequence at `at`, of at most `size` bytes; half a surrogate pair is one
 * too. 0: it is none. */
size_t orr__utf8_length(const unsigned char *at, size_t size);

/* A JSON number in the form that equal numbers share: digits without leading zeros, and for what is
 * no integer of 20 digits or less, digits without trailing zeros and an exponent ("15e-1"). */
void orr__build_json_number(struct orr__builder *builder, const char *text);

/* A text on one line and at most 60 bytes long, for messages that quote what came in; `buffer`
 * holds ORR__SHOWN_MAX bytes; returned. */
enum { ORR__SHOWN_MAX = 64 };
const char *orr__shown(const char *text, char *buffer);

#endif
