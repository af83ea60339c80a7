/* Peak memory of each device, and what was live at the peak.
 *
 * From the allocations and frees of the trace, in the order of the commands that made them: the
 * host's order, which is the allocator's. Bytes of buffers are as asked for, and count under the
 * role that the buffer had at the time. A device's counter "memory bytes" is the runtime's own
 * figure, rounded as the allocator does, and, where the trace has it, replaces the sum; the counter
 * "reserved bytes" is what the allocator had taken from the device.
 *
 *     at the moment of the (first) peak:
 *     |<------------------------ reserved ------------------------->|
 *     |<------------- memory bytes -------------->| fragmentation   |
 *     |  roles, as asked for  | rounding          |
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_MEMORY_PEAK_H
#define ORR_ANALYZER_MEMORY_PEAK_H

#include <stdbool.h>

#include "runtime/error.h"
#include "runtime/memory.h"
#include "trace/timeline.h"

enum { ORR_MEMORY_TOP = 8, ORR_MEMORY_LINES = 8 };

struct orr_memory_top {
    const char *label;
    uint64_t bytes, count; /* of buffers with that label live at the peak */
};

/* What one line of the program had allocated for one role and was live at the peak. */
struct orr_memory_line {
    const char *site; /* "" unknown */
    enum orr_role role;
    uint64_t bytes, count;
};

struct orr_memory_peak {
    uint32_t device;             /* the source's number */
    uint64_t peak_bytes;         /* largest known */
    uint64_t capacity_bytes;     /* 0 unknown */
    uint64_t buffer_peak_bytes;  /* from buffers, as asked for; 0 without buffers */
    uint64_t counter_peak_bytes; /* from the counter; 0 without */
    bool knows_reserved;         /* the next two, from the counter; else 0 */
    uint64_t reserved_bytes;     /* when the counter was at its peak: fragmentation is what of it is
                                  * beyond peak_bytes */
    uint64_t reserved_peak_bytes;
    uint64_t allocations;
    uint64_t live_at_end;                     /* bytes never freed */
    uint64_t peak_cmd;                        /* allocation that reached the peak, 0 none */
    uint64_t role_bytes[ORR_ROLE_COUNT];      /* then; sum: buffer_peak_bytes */
    uint64_t role_peak_bytes[ORR_ROLE_COUNT]; /* each at its own time */
    unsigned top_count;
    struct orr_memory_top top[ORR_MEMORY_TOP];
    size_t line_total; /* lines, of which the largest come first in: */
    unsigned line_count;
    struct orr_memory_line lines[ORR_MEMORY_LINES]; /* by bytes, site, role */
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

/* The reserved bytes that no buffer has at the peak; 0 unknown. */
uint64_t orr_memory_fragmentation(const struct orr_memory_peak *peak);

/* --- between memory_peak.c and memory_live.c --- */

/* Index of a device's entry, or ORR_ID_NONE. */
uint32_t orr__memory_peak_of(const struct orr_memory_peaks *peaks, uint32_t device);
/* Is it memory of a device? */
bool orr__memory_on_device(const struct orr_timeline_buffer *buffer);
/* Index of a buffer in the timeline, or ORR_ID_NONE. */
uint32_t orr__memory_buffer_index(const struct orr_timeline *timeline, uint64_t id);
/* Fills in top and lines, once the peaks are known. */
enum orr_status orr__memory_live(const struct orr_timeline *timeline,
                                 const struct orr_memory *memory,
                                 struct orr_memory_peaks *peaks) ORR_MUST_CHECK;

#endif
