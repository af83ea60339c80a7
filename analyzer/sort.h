/* Sorting for the analyzer: arrays of indices by a caller's order, and arrays of times by value.
 *
 * Traces are nearly sorted: a stream's commands are in order, and a device's ops are a few such
 * runs. The index sort is a natural merge sort: n comparisons for sorted input, n log r for r runs,
 * never worse than n log n. Times are sorted by radix, which skips bytes that are equal in all of
 * them. Both are stable and allocate scratch space only when there is something to do.
 *
 *     status = orr__sort_indices(memory, order, count, op_before, events);
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_SORT_H
#define ORR_ANALYZER_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"

/* Sorts `count` indices so that before(context, next, previous) is never true. `before` is a strict
 * order. ORR_NO_MEMORY leaves the array as it was. */
enum orr_status orr__sort_indices(const struct orr_memory *memory, uint32_t *indices, size_t count,
                                  bool (*before)(const void *context, uint32_t a, uint32_t b),
                                  const void *context) ORR_MUST_CHECK;

/* Sorts `count` values, smallest first. */
enum orr_status orr__sort_times(const struct orr_memory *memory, int64_t *values,
                                size_t count) ORR_MUST_CHECK;

/* Lower median and nearest-rank 95th percentile of sorted values: element (n-1)/2 and element
 * ceil(0.95 n) - 1 (traces' convention). `count` is not 0. */
int64_t orr__sorted_median(const int64_t *values, size_t count);
int64_t orr__sorted_p95(const int64_t *values, size_t count);

#endif
