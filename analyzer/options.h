/* What the analysis takes as given: thresholds and limits. The definitions mark them as choices,
 * not measurements; every report prints the values used.
 *
 *     struct orr_analysis_options options = orr_analysis_options_default();
 *     options.dispatch_max_ns = 50000;
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_OPTIONS_H
#define ORR_ANALYZER_OPTIONS_H

#include <stdint.h>

#include "runtime/dtype.h"

/* Peaks that replace those of every device of the trace where they are not 0. */
struct orr_analysis_peaks {
    uint64_t bandwidth;                 /* byte/s */
    uint64_t flops[2][ORR_DTYPE_COUNT]; /* FLOP/s by enum orr_unit and dtype */
};

struct orr_analysis_options {
    const char *file; /* name of the trace for reports, "" none; borrowed until destroy */
    const char
        *name; /* the same for the exact figures: "ARCHIVE/member"; NULL or "": the last part of
                       * `file` */
    int64_t begin_ns; /* window; ORR_TIME_NONE: the first start of any op */
    int64_t end_ns;   /* ORR_TIME_NONE: the last end of any op */

    int64_t short_gap_ns;     /* 30: idle of a stream below it is "short" (2.4) */
    int64_t dispatch_max_ns;  /* 100,000: unexplained waits up to it are dispatch (2.3) */
    unsigned host_percent;    /* 50: share of the window that makes the host the suspect (2.5) */
    unsigned launch_gaps_min; /* 8: gaps below which launch-bound is unknown (2.5) */
    unsigned period_percent;  /* 25: gap and launch period are alike within it (2.5) */
    unsigned unknown_percent; /* 10: unknown_* above it makes a verdict unreliable (2.5) */
    unsigned sync_percent;    /* 50: host_sync share of sync_bound (2.5) */
    unsigned busy_percent;    /* 80: busy share of device_bound (2.5) */
    unsigned roof_percent;    /* 60: share of a peak that counts as bound by it (2.6) */
    int64_t cell_min_ns;      /* 100,000: width of a phase cell, at least (2.7) */
    unsigned cells;           /* 1,000: cells that a window is cut into, about (2.7) */
    unsigned smooth;          /* 2: cells on each side that a label looks at (2.7) */
    unsigned command_rows;    /* 64: traces with at most so many ops get a row for each */
    unsigned path_rows;       /* 1,000: segments of the critical path that reports list */
    unsigned slack_nodes;     /* 100,000: ops and calls above which slack is not computed */
    struct orr_analysis_peaks peaks; /* all 0: the trace's own */
};

/* The defaults above. */
struct orr_analysis_options orr_analysis_options_default(void);

#endif
