/* A growing text, and how the reports write numbers: from integers, with a fixed number of
 * decimals, the same on every machine.
 *
 *     struct orr_text text = {.memory = memory};
 *     orr__text_add(&text, "%s took %s\n", name, orr__time_text(ns, buffer));
 *     if (text.failed) ...                   // out of memory somewhere on the way
 *     orr__text_free(&text);
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_TEXT_H
#define ORR_ANALYZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/roofline.h"
#include "runtime/memory.h"

struct orr_text {
    const struct orr_memory *memory;
    char *data; /* NUL-terminated once something was added; owned */
    size_t length, capacity;
    bool failed; /* out of memory: what follows is not added */
};

/* Frees and empties. */
void orr__text_free(struct orr_text *text);
/* Appends as printf does. */
void orr__text_add(struct orr_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends `length` bytes. */
void orr__text_append(struct orr_text *text, const char *bytes, size_t length);

/* A name of a class as people write it, with hyphens; `buffer` holds ORR_HYPHENS_MAX bytes;
 * returned. */
enum { ORR_HYPHENS_MAX = 32 };
const char *orr__text_hyphens(const char *name, char *buffer);

/* A string as JSON, with its quotes: control characters and quotes escaped, bytes that are not
 * UTF-8 replaced by U+FFFD. */
void orr__text_json_string(struct orr_text *text, const char *string);

enum { ORR_NUMBER_TEXT_MAX = 64 };

/* All write into `buffer` of ORR_NUMBER_TEXT_MAX (at most 52 characters) and return it; halves are
 * rounded away from zero. */
const char *orr__u128_text(orr_u128 value, char *buffer);
/* numerator / denominator with `decimals` (0 to 9) decimals; "-" for a denominator of 0. */
const char *orr__ratio_text(orr_u128 numerator, orr_u128 denominator, unsigned decimals,
                            char *buffer);
/* 100 numerator / denominator with two decimals, without overflow; "-" for a denominator of 0. */
const char *orr__hundredfold_text(orr_u128 numerator, orr_u128 denominator, char *buffer);
/* 100 part / whole with two decimals, as "12.21 %"; "-" for a whole of 0. */
const char *orr__percent_text(int64_t part, int64_t whole, char *buffer);
/* "417 ns", "16.97 us", "5.00 ms", "1.25 s". */
const char *orr__time_text(int64_t ns, char *buffer);
/* "512 B", "33.55 MB", "1.64 TB": powers of 1000. `suffix`: "B", "FLOP", "B/s", "FLOP/s". */
const char *orr__amount_text(orr_u128 value, const char *suffix, char *buffer);

#endif
