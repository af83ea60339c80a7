/* The exact figures of a trace, with the keys and rules that traces of other tools are checked by:
 * counts, the split, idle time by stream, and each device over the span of its own ops.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_EXACT_H
#define ORR_ANALYZER_EXACT_H

#include "analyzer/events.h"

enum { ORR_EXACT_TOP = 3 };

struct orr_exact_kernel {
    const char *name;
    uint64_t count;
    int64_t sum_ns, min_ns, max_ns;
};

struct orr_exact {
    uint64_t gpu_ops, kernels, memcpys, memsets; /* kernels include collectives */
    uint64_t memcpy_bytes;
    unsigned top_count;
    struct orr_exact_kernel top_kernels[ORR_EXACT_TOP]; /* by (-sum, name) */
    uint64_t zero_len_ops;
    uint64_t ops_multi_api; /* linked ops whose call has more than one API record */
    uint64_t fanout_corrs, max_ops_per_corr;
    uint64_t graph_launches, graph_launches_no_op, graph_ops;
};

/* Counts over all ops and calls. ORR_NO_MEMORY. */
enum orr_status orr_exact_compute(const struct orr_events *events, const struct orr_memory *memory,
                                  struct orr_exact *out_exact) ORR_MUST_CHECK;

#endif
