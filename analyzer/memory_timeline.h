/* Memory over time: the counters of a device, in at most ORR_SERIES_CELLS equal cells.
 *
 * Counters are "memory bytes" and "reserved bytes" (of the allocator): our runtime's own, or what
 * PyTorch's profiler records with profile_memory. A cell has the largest value that the counter had
 * in it, the one it begins with among them, and the value at its end: between two samples the
 * earlier one holds.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_MEMORY_TIMELINE_H
#define ORR_ANALYZER_MEMORY_TIMELINE_H

#include "trace/timeline.h"

enum { ORR_SERIES_CELLS = 256 };

struct orr_memory_series {
    uint32_t device;     /* the source's number */
    const char *counter; /* borrowed from the timeline */
    uint64_t samples;
    int64_t begin_ns, end_ns; /* from the first sample to the last */
    int64_t cell_ns;
    unsigned cells;  /* at least 1 */
    int64_t peak_ns; /* when the largest value was reached first */
    uint64_t peak, last;
    uint64_t cell_max[ORR_SERIES_CELLS], cell_last[ORR_SERIES_CELLS];
};

struct orr_memory_timeline {
    struct orr_memory_series *items; /* by device, counter; owned */
    size_t count;
};

/* Of all devices of a timeline. Values that are no byte counts (negative, not finite, 2^63 or more)
 * are left out. ORR_NO_MEMORY. */
enum orr_status
orr_memory_timeline_compute(const struct orr_timeline *timeline, const struct orr_memory *memory,
                            struct orr_memory_timeline *out_timeline) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_memory_timeline_free(const struct orr_memory *memory,
                              struct orr_memory_timeline *timeline);

#endif
