/* Disjoint sorted interval lists: unions, lengths, intersections and the sweep over several lists.
 *
 * An interval is half-open, [begin, end). A list holds disjoint, non-adjacent intervals in
 * ascending order; it is filled in ascending order of begin and merges what overlaps or touches.
 *
 *     struct orr_intervals compute = {0};
 *     orr__intervals_reserve(memory, &compute, count);
 *     orr__intervals_add(&compute, op->start_ns, op->end_ns);      // ascending start_ns
 *     busy = orr__intervals_length(&compute);
 *     orr__intervals_free(memory, &compute);
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_INTERVALS_H
#define ORR_ANALYZER_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"

struct orr_interval {
    int64_t begin_ns, end_ns;
};

struct orr_intervals {
    struct orr_interval *items; /* owned */
    size_t count, capacity;
};

/* Room for `count` intervals in all; the list keeps what it has. */
enum orr_status orr__intervals_reserve(const struct orr_memory *memory, struct orr_intervals *list,
                                       size_t count) ORR_MUST_CHECK;
/* Frees and empties. */
void orr__intervals_free(const struct orr_memory *memory, struct orr_intervals *list);

/* Adds [begin, end), begin not before that of the last one added; empty ones add nothing. There
 * must be room. */
void orr__intervals_add(struct orr_intervals *list, int64_t begin_ns, int64_t end_ns);

/* Sum of the lengths. */
int64_t orr__intervals_length(const struct orr_intervals *list);

/* Length of the intersection of two lists. */
int64_t orr__intervals_common(const struct orr_intervals *a, const struct orr_intervals *b);

/* Index of the first interval that ends after `time`; count if there is none. */
size_t orr__intervals_find(const struct orr_intervals *list, int64_t time);

/* Cuts the union of `count` (at most 8) lists into pieces, in ascending order, each named after the
 * first list that covers it. */
void orr__intervals_sweep(const struct orr_intervals *lists, unsigned count,
                          void (*piece)(void *context, unsigned list, int64_t begin_ns,
                                        int64_t end_ns),
                          void *context);

#endif
