/* What bounds an op: arithmetic, memory, or neither (2.6).
 *
 * With F floating-point operations, Q bytes (each operand read once, each result written once),
 * time t, peak P in FLOP/s and bandwidth B in byte/s:
 *
 *     compute_bound   F/Q >= P/B  and  F/t >= 60 % of P
 *     memory_bound    F/Q <  P/B  and  Q/t >= 60 % of B
 *     latency_bound   otherwise, and when t = 0
 *     no_cost         F and Q, or the peak they would be compared with, are unknown
 *
 * Compared by products of 192 bits, without division. More than 100 % of the roof is reported as
 * above_roof (cache reuse, or a wrong cost) and never clipped. Broadcast operands are small and
 * stay in cache; their bytes are counted apart and are not in Q.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_ROOFLINE_H
#define ORR_ANALYZER_ROOFLINE_H

#include "analyzer/events.h"
#include "analyzer/options.h"

__extension__ typedef unsigned __int128 orr_u128;

/* X(name, text): in the order in which phases rank them. */
#define ORR_BOUND_LIST(X)                                                                          \
    X(COMPUTE, "compute_bound")                                                                    \
    X(MEMORY, "memory_bound")                                                                      \
    X(LATENCY, "latency_bound")                                                                    \
    X(NO_COST, "no_cost")

enum orr_bound {
#define ORR_BOUND_ENUM(name, text) ORR_BOUND_##name,
    ORR_BOUND_LIST(ORR_BOUND_ENUM)
#undef ORR_BOUND_ENUM
        ORR_BOUND_COUNT
};

/* "compute_bound", ...: static storage. */
const char *orr_bound_text(enum orr_bound bound);

struct orr_roof {
    orr_u128 flops, bytes;
    int64_t time_ns;
    uint64_t ops;       /* whose times were added: each may be up to 1 ns short by rounding */
    uint64_t peak;      /* FLOP/s, 0 unknown */
    uint64_t bandwidth; /* byte/s, 0 unknown */
};

/* Class of a measurement; `percent` is the 60 above. *out_above (may be NULL): beyond the roof by
 * more than the rounding of its times to ns explains. */
enum orr_bound orr_roof_classify(const struct orr_roof *roof, unsigned percent, bool *out_above);

/* F/Q >= P/B: right of the ridge, where arithmetic is the roof. Without a peak there is nothing to
 * compute, and an op is left of any ridge. */
bool orr_roof_right(const struct orr_roof *roof);

/* Achieved share of the roof that applies, as numerator / denominator (both 0 if unknown): of the
 * peak right of the ridge, of the bandwidth left of it. */
void orr_roof_fraction(const struct orr_roof *roof, orr_u128 *out_numerator,
                       orr_u128 *out_denominator);

/* One row per operator, shape, dtype and kind of machine. */
struct orr_operator_row {
    uint32_t operator_index; /* of events->operators */
    uint32_t device;         /* first device that ran it: its peaks */
    uint64_t count, no_cost; /* ops; those without a cost */
    orr_u128 flops, bytes_read, bytes_written, bytes_broadcast;
    int64_t time_ns, min_ns, max_ns; /* summed device time: not wall time where ops overlap */
    int64_t
        host_ns; /* calls that launched one op each; what a graph launches has no call of its own */
    uint64_t peak, bandwidth;
    enum orr_bound bound;
    bool above_roof;
    /* GEMM y[M, N] = x[M, K] w[K, N]: bytes of the weight w per op, as shape and traffic tell; 0 if
     * they don't. */
    uint64_t weight_bytes;
};

/* What all ops of one kind ("gemm", "pointwise", ...) took together. */
struct orr_kind_row {
    const char *kind;
    uint64_t count;
    int64_t time_ns, host_ns; /* as in a row */
};

/* Collectives of one kind, group and size. Bus bandwidth = bytes x factor / transfer time, with the
 * factors of nccl-tests doc/PERFORMANCE.md: 2(n-1)/n for all_reduce, (n-1)/n for all_gather,
 * reduce_scatter, all_to_all, gather and scatter, 1 for broadcast, reduce, send and recv. */
struct orr_collective_row {
    const char *kind, *group;
    uint32_t size;  /* n: members of the group */
    uint64_t bytes; /* of one collective, as recorded */
    uint64_t count;
    uint64_t mismatched; /* those whose members do not overlap: no transfer, left out of its sum */
    uint64_t partial;    /* those with members in no trace: in neither of the sums below */
    int64_t transfer_ns; /* sum over collectives of smallest end - largest start */
    int64_t arrival_ns;  /* sum over members of largest start - own start */
    uint64_t bus_bandwidth; /* byte/s, 0 unknown */
    uint64_t emulated;      /* those by a kernel on one GPU: transfer is time of its memory */
    int64_t modelled_ns;    /* sum of what the device spec's links would take; 0: not known */
};

struct orr_roofline {
    struct orr_operator_row *rows;          /* by time, largest first; owned */
    struct orr_kind_row *kinds;             /* by time, largest first; owned */
    struct orr_collective_row *collectives; /* by transfer, largest first; owned */
    size_t row_count, kind_count, collective_count;
    uint8_t *bounds; /* by op: enum orr_bound; means something for compute ops; owned */
};

/* The measurement that a row is. */
struct orr_roof orr_roof_of_row(const struct orr_operator_row *row);

/* Classes of all compute ops, rows of operators, kinds and collectives. ORR_NO_MEMORY. */
enum orr_status orr_roofline_compute(const struct orr_events *events,
                                     const struct orr_analysis_options *options,
                                     const struct orr_memory *memory,
                                     struct orr_roofline *out_roofline) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_roofline_free(const struct orr_memory *memory, struct orr_roofline *roofline);

/* Order of operators by their texts, dtype and unit: decides ties, so that results do not depend on
 * the order of the arrays. */
int orr__operator_compare(const struct orr_events_operator *a, const struct orr_events_operator *b);

/* Peak and bandwidth that apply to an operator on a device: the options' if given, else the
 * trace's; a peak falls back from matrix to vector and from its dtype to f32. */
uint64_t orr__peak_of(const struct orr_events *events, const struct orr_analysis_options *options,
                      uint32_t device, uint8_t unit, uint8_t dtype);
uint64_t orr__bandwidth_of(const struct orr_events *events,
                           const struct orr_analysis_options *options, uint32_t device);

#endif
