/* The operators of a framework that launched a trace's kernels: roofline by operator and shape.
 *
 * Other tools record kernels and, apart from them, which operator of a framework (aten::addmm) a
 * kernel belongs to and what the shapes of its inputs were. One operator may launch several
 * kernels; its cost (imported_cost.h) is charged to them together:
 *
 *     operator's call i          |---- aten::addmm ----|
 *     its kernels                   [--k1--)[-k2-)          time_i = length of their union
 *     row (name, inputs, dtype)  sum of F_i, Q_i, time_i over all calls i
 *
 * A row's class is that of its sums; a kernel's, for phases, that of its operator's call. Copies
 * and fills that an operator launched are not counted here: they have no part in its arithmetic.
 * Products of f32 whose kernels say tf32 are compared with a TF32 peak only: the device's matrix
 * peak of f32 where it is known or given, else they stay without a class.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_FRAMEWORK_H
#define ORR_ANALYZER_FRAMEWORK_H

#include "analyzer/imported_cost.h"
#include "analyzer/roofline.h"
#include "trace/timeline.h"

struct orr_framework_row {
    const char *name, *inputs, *kind; /* as in imported_cost.h; borrowed from the timeline */
    uint8_t dtype, unit;
    uint32_t device;                 /* first device that ran it: its peaks */
    uint64_t count;                  /* calls of the operator that launched kernels */
    uint64_t kernels;                /* of all of them */
    int64_t time_ns, min_ns, max_ns; /* of unions as above: summed, and of one call */
    bool has_cost;                   /* else the next four are 0, and `why` says why */
    orr_u128 flops, bytes_read, bytes_written, bytes_broadcast;
    uint64_t peak, bandwidth; /* 0 unknown */
    enum orr_bound bound;
    bool above_roof;
    bool tf32;               /* its kernels say so */
    const char *why;         /* static; why there is no cost, "" if there is */
    const char *main_kernel; /* the one that took most time in its longest call */
    uint64_t blocks;         /* of that one's grid, 0 not recorded */
};

struct orr_framework {
    struct orr_framework_row *rows; /* by time, largest first; owned */
    size_t row_count;
    uint64_t kernels;          /* compute kernels that belong to an operator */
    uint64_t other_kernels;    /* those that belong to none that is recorded */
    int64_t costed_ns, all_ns; /* time of rows with a cost, of all rows */
};

/* Rows of a timeline that `events` were made of, and the classes of their kernels in
 * roofline->bounds. Empty for our own traces, whose operators are the roofline's. ORR_NO_MEMORY. */
enum orr_status orr_framework_compute(const struct orr_timeline *timeline,
                                      const struct orr_events *events,
                                      const struct orr_analysis_options *options,
                                      const struct orr_memory *memory,
                                      struct orr_roofline *roofline,
                                      struct orr_framework *out_framework) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_framework_free(const struct orr_memory *memory, struct orr_framework *framework);

/* The measurement that a row is. */
struct orr_roof orr_framework_roof(const struct orr_framework_row *row);

#endif
