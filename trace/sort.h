/* Sorting of rows by a 64-bit key, and of rows with equal keys by a comparison.
 *
 * Rows stay where they are; what is sorted is an array of (key, index of the row). Both sorts are
 * stable, take their scratch room from the caller and never fail, so that the order of a result
 * depends on nothing but its rows (qsort is neither stable nor free of allocation). A radix sort
 * goes first, because exports of millions of events are ordered by time, then the ties.
 *
 *     for (size_t i = 0; i < count; i++) keys[i] = (struct orr__sort_key){rows[i].start_ns, i};
 *     orr__sort_keys(keys, scratch, count);
 *     orr__sort_ties(keys, scratch, count, compare_rows, rows);
 *
 * Threads: pure functions over the caller's arrays. */
#ifndef ORR_TRACE_SORT_H
#define ORR_TRACE_SORT_H

#include <stddef.h>
#include <stdint.h>

struct orr__sort_key {
    uint64_t key;
    uint32_t index;
    uint32_t unused;
};

/* Negative, 0 or positive as row `a` comes before, with or after row `b`. */
typedef int orr__sort_compare(const void *context, uint32_t a, uint32_t b);

/* Sorts `count` entries by key; equal keys keep their order. `scratch` has room for `count`
 * entries. Costs one pass for every 11 bits in which keys differ. */
void orr__sort_keys(struct orr__sort_key *keys, struct orr__sort_key *scratch, size_t count);

/* Sorts the entries of each run of equal keys by `compare`; entries that compare as 0 keep their
 * order. A run that is in order costs one comparison an entry. */
void orr__sort_ties(struct orr__sort_key *keys, struct orr__sort_key *scratch, size_t count,
                    orr__sort_compare *compare, const void *context);

#endif
