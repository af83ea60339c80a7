/* Peak memory of each device, and what was live at the peak.
 *
 * From the allocations and frees of the trace, in the order of the commands that made them: the
 * host's order, which is the allocator's. A device's counter "memory bytes" is the runtime's own
 * figure and, where the trace has it, replaces the sum.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_MEMORY_PEAK_H
#define ORR_ANALYZER_MEMORY_PEAK_H

#include "runtime/error.h"
#include "runtime/memory.h"
#include "trace/timeline.h"

enum { ORR_MEMORY_TOP = 3 };

struct orr_memory_top {
    const char *label;
    uint64_t bytes, count; /* of buffers with that label live at the peak */
};

struct orr_memory_peak {
    uint32_t device;             /* the source's number */
    uint64_t peak_bytes;         /* largest known */
    uint64_t capacity_bytes;     /* 0 unknown */
    uint64_t buffer_peak_bytes;  /* from buffers, as asked for; 0 without buffers */
    uint64_t counter_peak_bytes; /* from the counter; 0 without */
    uint64_t allocations;
    uint64_t live_at_end; /* bytes never freed */
    uint64_t peak_cmd;    /* allocation that reached the peak, 0 none */
    unsigned top_count;
    struct orr_memory_top top[ORR_MEMORY_TOP];
};

struct orr_memory_peaks {
    struct orr_memory_peak *items; /* one per device of the timeline; owned */
    size_t count;
};

/* Peaks of all devices of a timeline. ORR_NO_MEMORY. Freed with orr_memory_peaks_free. */
enum orr_status orr_memory_peaks_compute(const struct orr_timeline *timeline,
                                         const struct orr_memory *memory,
                                         struct orr_memory_peaks *out_peaks) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_memory_peaks_free(const struct orr_memory *memory, struct orr_memory_peaks *peaks);

#endif
