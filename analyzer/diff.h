/* Two traces side by side: what takes longer, what shorter, what is new, and how sure that is.
 *
 * Traces of one program are seldom equally long, so figures are compared per *unit*, the first of
 * these that both traces have:
 *
 *     step       as annotations or graph launches mark them (analyzer/steps.h), without the first
 *                and the last of a process if there are more than three
 *     iteration  the longest stretch of work that repeats itself: from a kernel's start to the next
 *                start of the same one, on every device, at least eight times if there is one
 *     run        the whole trace; both are simulated, so nothing is random
 *     second     of the device's window, if nothing repeats
 *
 * A row is work of equal name, shape (or grid) and role of stream, or calls or ranges of equal
 * name. What is left over on both sides with one name is one row, too, whose shape has changed. A
 * row, a class of device time, or the unit itself has *changed* if its sum per unit differs by at
 * least 1 % of the unit and a two-sided rank test of the durations (or of the sums per unit, where
 * the number per unit differs) gives p < 0.01 with at least 8 values on both sides; in simulated
 * traces, if it differs by 1 %. It is *unchanged* if there are 8 values and the sums differ by
 * less, or if all values are the same. All else is *inconclusive*, which is not "unchanged".
 *
 *     struct orr_diff_options options = orr_diff_options_default();
 *     struct orr_diff *diff;
 *     if (orr_diff_make(before, after, &options, &memory, &diff, &error) != ORR_OK) ...
 *     puts(diff->verdict);
 *     if (diff->regression) ...
 *     orr_diff_destroy(&diff);
 *
 * diff(a, b) mirrors diff(b, a): the same rows with the sides exchanged and the signs of all
 * differences turned, the same p, appeared for vanished, faster for slower.
 *
 * Threads: immutable once made. */
#ifndef ORR_ANALYZER_DIFF_H
#define ORR_ANALYZER_DIFF_H

#include "analyzer/analysis.h"

struct orr_diff_options {
    unsigned share_percent; /* 1: of the unit, that a sum must differ by */
    double p_max;           /* 0.01 */
    unsigned values_min;    /* 8: on both sides, and units of an iteration */
    double max_regression;  /* percent; negative: nobody asks */
    unsigned rows_max;      /* 15: rows of each sort that the text shows */
    const char *names[2];   /* of the traces, for reports; borrowed until destroy */
};

/* The defaults above: no bound on regressions, thresholds of analysis 2.11. */
struct orr_diff_options orr_diff_options_default(void);

/* X(name, text) */
#define ORR_DIFF_UNIT_LIST(X)                                                                      \
    X(STEP, "step")                                                                                \
    X(ITERATION, "iteration")                                                                      \
    X(RUN, "run")                                                                                  \
    X(SECOND, "second")

enum orr_diff_unit {
#define ORR_DIFF_UNIT_ENUM(name, text) ORR_DIFF_UNIT_##name,
    ORR_DIFF_UNIT_LIST(ORR_DIFF_UNIT_ENUM)
#undef ORR_DIFF_UNIT_ENUM
        ORR_DIFF_UNIT_COUNT
};
/* Its text in the list: static storage. */
const char *orr_diff_unit_text(enum orr_diff_unit unit);

/* X(name, text) */
#define ORR_DIFF_STATUS_LIST(X)                                                                    \
    X(UNCHANGED, "unchanged")                                                                      \
    X(CHANGED, "changed")                                                                          \
    X(APPEARED, "appeared") /* only after */                                                       \
    X(VANISHED, "vanished") /* only before */                                                      \
    X(INCONCLUSIVE, "inconclusive")

enum orr_diff_status {
#define ORR_DIFF_STATUS_ENUM(name, text) ORR_DIFF_##name,
    ORR_DIFF_STATUS_LIST(ORR_DIFF_STATUS_ENUM)
#undef ORR_DIFF_STATUS_ENUM
        ORR_DIFF_STATUS_COUNT
};
/* Its text in the list: static storage. */
const char *orr_diff_status_text(enum orr_diff_status status);

/* X(name, text) */
#define ORR_DIFF_OUTCOME_LIST(X)                                                                   \
    X(SAME, "unchanged")                                                                           \
    X(SLOWER, "slower")                                                                            \
    X(FASTER, "faster")                                                                            \
    X(UNKNOWN, "inconclusive")

enum orr_diff_outcome {
#define ORR_DIFF_OUTCOME_ENUM(name, text) ORR_DIFF_OUTCOME_##name,
    ORR_DIFF_OUTCOME_LIST(ORR_DIFF_OUTCOME_ENUM)
#undef ORR_DIFF_OUTCOME_ENUM
        ORR_DIFF_OUTCOME_COUNT
};
/* Its text in the list: static storage. */
const char *orr_diff_outcome_text(enum orr_diff_outcome outcome);

/* X(name, text): sorts of rows. */
#define ORR_DIFF_SORT_LIST(X)                                                                      \
    X(WORK, "work") /* of devices */                                                               \
    X(CALL, "call") /* of the API, by hosts; not in our own traces, whose calls are the work's */  \
    X(RANGE, "range") /* what users and frameworks named; nested ones count in each */

enum orr_diff_sort {
#define ORR_DIFF_SORT_ENUM(name, text) ORR_DIFF_SORT_##name,
    ORR_DIFF_SORT_LIST(ORR_DIFF_SORT_ENUM)
#undef ORR_DIFF_SORT_ENUM
        ORR_DIFF_SORT_COUNT
};
/* Its text in the list: static storage. */
const char *orr_diff_sort_text(enum orr_diff_sort sort);

/* One side of a row: 0 before, 1 after. Only what lies in units counts. */
struct orr_diff_side {
    uint64_t count;
    int64_t sum_ns;                        /* of durations: not time, where they overlap */
    int64_t lower_ns, median_ns, upper_ns; /* quartiles; 0 without any */
    int64_t unit_ns;                       /* of the sum, per unit (and device or process) */
};

struct orr_diff_row {
    enum orr_diff_sort sort;
    enum orr_diff_status status;
    const char *name, *shape; /* shape "": none, or reshaped; borrowed from the traces */
    enum orr_activity role;   /* of the stream: what most of its time goes to */
    bool reshaped;            /* equal by name only: shapes or grids have changed */
    bool waiting;             /* calls in which the host waits: their time says little */
    struct orr_diff_side sides[2];
    int64_t delta_ns; /* of unit_ns, after - before */
    bool tested;      /* there were values enough */
    double p;         /* of the test that decided; 1 if none was made */
};

/* A figure per unit on both sides, with the test of its values per unit. */
struct orr_diff_figure {
    int64_t unit_ns[2];
    int64_t delta_ns;
    double p;
    enum orr_diff_status status;
};

struct orr_diff_device {
    uint32_t ids[2]; /* numbers in either trace; devices are paired in their order */
    uint64_t units[2];
    struct orr_diff_figure unit; /* its length */
    struct orr_diff_figure classes[ORR_CLASS_COUNT];
};

/* X(name, text): why a unit is longer or shorter: classes of device time, put together by who must
 * act. */
#define ORR_DIFF_CAUSE_LIST(X)                                                                     \
    X(COMPUTE, "computing")                                                                        \
    X(COMM, "communication that nothing hides")                                                    \
    X(COPY, "copies that nothing hides")                                                           \
    X(HOST, "devices idle until their host launches")                                              \
    X(SYNC, "devices idle while their host waits")                                                 \
    X(PROFILER, "the profiler's own work")                                                         \
    X(DEPENDENCY, "waiting for other devices")                                                     \
    X(DISPATCH, "dispatch of launched work")                                                       \
    X(EDGE, "before a device's first work and after its last")                                     \
    X(UNKNOWN, "idle time of unknown cause")

enum orr_diff_cause {
#define ORR_DIFF_CAUSE_ENUM(name, text) ORR_DIFF_CAUSE_##name,
    ORR_DIFF_CAUSE_LIST(ORR_DIFF_CAUSE_ENUM)
#undef ORR_DIFF_CAUSE_ENUM
        ORR_DIFF_CAUSE_COUNT
};
/* Its text in the list: static storage. */
const char *orr_diff_cause_text(enum orr_diff_cause cause);

enum { ORR_DIFF_VERDICT_MAX = 768 };

struct orr_diff {
    const struct orr_memory *memory;
    struct orr_diff_options options;
    enum orr_diff_unit by;
    const char *by_name[2]; /* iteration: the kernel; step: what marks them; else "" */
    const struct orr_timeline *timelines[2]; /* borrowed: what was wrong with the traces */
    bool exact;                              /* simulated on both sides: nothing is random */
    bool modelled[2];
    uint64_t units[2];           /* of all devices */
    struct orr_diff_figure unit; /* mean over all devices; p of the first device's */
    enum orr_diff_outcome outcome;
    int64_t causes[2][ORR_DIFF_CAUSE_COUNT]; /* per unit, mean over devices: they add up to it */
    enum orr_diff_cause main_cause;          /* that with the largest part of the difference */
    bool has_main;
    struct orr_diff_device *devices;     /* owned */
    size_t device_count, device_only[2]; /* devices without a counterpart */
    struct orr_diff_row *rows; /* by sort, then size of the difference, then name; owned */
    size_t row_count;
    size_t counts[ORR_DIFF_SORT_COUNT][ORR_DIFF_STATUS_COUNT];
    bool regression;   /* something grew by more than options.max_regression */
    const char *grown; /* what: the name of a row, or "" for the unit */
    double grown_percent;
    char verdict[ORR_DIFF_VERDICT_MAX]; /* one line */
};

/* Compares. Both analyses come from timelines and must live as long as the diff. Traces that cannot
 * be compared (no work on a side, different programs) are fine: the verdict says so. ORR_NO_MEMORY.
 * The diff is the caller's. */
enum orr_status orr_diff_make(const struct orr_analysis *before, const struct orr_analysis *after,
                              const struct orr_diff_options *options,
                              const struct orr_memory *memory, struct orr_diff **out_diff,
                              struct orr_error *error) ORR_MUST_CHECK;
/* Frees and nulls; accepts NULL. */
void orr_diff_destroy(struct orr_diff **diff);

/* The report as text, and as one JSON document. NUL-terminated, owned by the caller, freed with the
 * diff's memory. ORR_NO_MEMORY. */
enum orr_status orr_diff_text(const struct orr_diff *diff, char **out_text,
                              size_t *out_length) ORR_MUST_CHECK;
enum orr_status orr_diff_json(const struct orr_diff *diff, char **out_text,
                              size_t *out_length) ORR_MUST_CHECK;

#endif
