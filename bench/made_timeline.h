/* A made timeline: 8 devices with a compute and a communicate stream each, kernels of 40 operators,
 * a record, a wait and a collective every 20 kernels, a host sync every 1,000, gaps of the host's
 * making in between. `with_memory` also what a training step leaves beside them: for four commands
 * one buffer, two counter values and three accesses.
 *
 *     struct orr_timeline *timeline = made_timeline(1000000, false, &memory);
 *     ...
 *     orr_timeline_destroy(&timeline);
 *
 * Threads: pure function; ends the program when there is no memory. */
#ifndef ORR_BENCH_MADE_TIMELINE_H
#define ORR_BENCH_MADE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/timeline.h"

/* `memory` is borrowed until the timeline is destroyed. */
struct orr_timeline *made_timeline(uint64_t commands, bool with_memory,
                                   const struct orr_memory *memory);

/* Rows of all tables. */
uint64_t made_timeline_records(const struct orr_timeline *timeline);

#endif
