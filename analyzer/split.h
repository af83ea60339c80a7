/* Where each op's time went (2.2): submit, stream wait, dependency wait, dispatch, device; and sync
 * beside them.
 *
 *      a        b             p            d            s              e      q1
 *      |-submit-|-stream_wait-|--dep_wait--|--dispatch--|----device----|-sync-|
 *
 * The first five sum to e - a exactly. Ops without a call and ops that start before their call
 * (clock violations) have no split. Sync lies after e and is in no sum: it is the rest of the first
 * waiting call that observes e.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_SPLIT_H
#define ORR_ANALYZER_SPLIT_H

#include "analyzer/events.h"

struct orr_split_parts { /* ns */
    int64_t submit, stream_wait, dep_wait, dispatch, device;
};

struct orr_split {
    uint64_t ops; /* ops that have a split */
    int64_t submit_ns, stream_wait_ns, dep_wait_ns, dispatch_ns, device_ns,
        total_ns;         /* sums over them */
    uint64_t sync_ops;    /* ops whose end a waiting call observed */
    int64_t sync_ns;      /* sum of their sync parts */
    uint64_t host_waits;  /* waiting calls */
    int64_t host_wait_ns; /* their time, per thread as a union, summed over threads */
    uint64_t linked, unlinked;
    uint64_t early; /* clock violations: start before the call */
    int64_t early_max_ns;
    uint64_t during;   /* start while the call still runs: legal */
    uint64_t overlaps; /* start before p, on one stream */
    int64_t overlap_max_ns;
    uint64_t dep_violations; /* start before d */
    int64_t dep_violation_max_ns;
    int64_t call_ns_once;   /* time of the calls that own ops, each once */
    int64_t call_ns_per_op; /* the same charged to every op: only to show the error of doing so */
    uint32_t *sync_call;    /* by op: the waiting call that observes it first, or NONE; owned */
};

/* True if an op has a split; then *out_parts is filled. */
bool orr_split_of(const struct orr_events *events, uint32_t op, struct orr_split_parts *out_parts);

/* Sync part of an op for the waiting call that observes it: end of the call minus the later of its
 * begin and the op's end. */
int64_t orr_split_sync(const struct orr_events *events, uint32_t op, uint32_t call);

/* Sums over all ops. Freed with orr_split_free. */
enum orr_status orr_split_compute(const struct orr_events *events, const struct orr_memory *memory,
                                  struct orr_split *out_split) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_split_free(const struct orr_memory *memory, struct orr_split *split);

#endif
