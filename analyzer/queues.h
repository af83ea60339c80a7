/* Queue depth of each device: how many ops it has been given and has not begun.
 *
 *     call of op     +1 when it begins: its op is in the device's queues
 *     start of op    -1
 *     unlinked op    was queued before the trace began: in the depth from the beginning, -1 when it
 *                    starts
 *
 * A graph launch puts all its ops in the queue at once. Ops that start before their call (clock
 * violations) are left out, on both sides, so the depth is never negative. An empty queue while the
 * device is idle is a host that is too slow; a deep one is a device that is behind.
 *
 * Figures are weighted by time, over the window clipped to [first start, last start) of the
 * device's ops: after the last start nothing is queued by definition. p50, p95: least depth that
 * the queue did not exceed in that share of the time.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_QUEUES_H
#define ORR_ANALYZER_QUEUES_H

#include "analyzer/roofline.h"

enum { ORR_QUEUE_CELLS = 256 };

struct orr_queue {
    uint32_t device;          /* index */
    int64_t begin_ns, end_ns; /* as above; equal: nothing to measure, all figures 0 */
    uint64_t linked, initial; /* ops that are counted; unlinked ones: the depth at the beginning */
    uint64_t left_out;        /* clock violations */
    uint64_t max, p50, p95;
    int64_t empty_ns; /* depth 0 */
    orr_u128 area;    /* integral of the depth, op x ns */
    /* Largest depth in each of `cells` equal cells of [begin, end), the last may be shorter. */
    int64_t cell_ns;
    unsigned cells;
    uint64_t cell_max[ORR_QUEUE_CELLS];
};

struct orr_queues {
    struct orr_queue *items; /* one per device, by index; owned */
    size_t count;
};

/* Of a window [begin, end). ORR_NO_MEMORY. */
enum orr_status orr_queues_compute(const struct orr_events *events, int64_t begin_ns,
                                   int64_t end_ns, const struct orr_memory *memory,
                                   struct orr_queues *out_queues) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_queues_free(const struct orr_memory *memory, struct orr_queues *queues);

#endif
