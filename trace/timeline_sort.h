/* Internal to trace/: the order of a timeline's arrays that have no id.
 *
 * Threads: as the timeline. */
#ifndef ORR_TRACE_TIMELINE_SORT_H
#define ORR_TRACE_TIMELINE_SORT_H

#include "trace/timeline.h"

/* Sorts edges, accesses, members of collectives and counters as trace/timeline.h says; what is
 * equal keeps its order. ORR_NO_MEMORY, with some of it sorted. */
enum orr_status orr__timeline_sort(struct orr_timeline *timeline,
                                   const struct orr_memory *memory) ORR_MUST_CHECK;

#endif
