/* Is a device starved by the pace of its host's launches (2.5), with every term of the answer.
 *
 *   H   host_launch + host_other of the window
 *   T   thread with most calls that own its ops
 *   Pl  median time between successive call starts on T
 *   n   gaps that have a host part and end in an op of T
 *   Pg  median time between the ends of successive such gaps
 *
 *   launch_bound = no if H < 50 % of W; else unknown if n < 8; else |Pg - Pl| <= 25 % of Pl
 *
 * The graph ceiling is what a captured graph could save at most: host_launch, host_other and
 * dispatch of the gaps between two ops of T with nothing in between that cannot be captured.
 * Ceilings of different fixes do not add up.
 *
 *     orr_launch_begin(&launch, events, device, &scratch, memory);   // T and its calls
 *     ... orr_launch_add_gap(&launch, &gap) for each gap of the walk ...
 *     orr_launch_finish(&launch);
 *     orr_launch_free(memory, &launch);
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_LAUNCH_H
#define ORR_ANALYZER_LAUNCH_H

#include "analyzer/classes.h"

enum orr_answer { ORR_ANSWER_NO, ORR_ANSWER_YES, ORR_ANSWER_UNKNOWN };

/* X(name, text): what keeps a gap out of the graph ceiling. */
#define ORR_GRAPH_REASON_LIST(X)                                                                   \
    X(ELIGIBLE, "eligible")                                                                        \
    X(UNLINKED, "op without a call, or that starts before it")                                     \
    X(THREAD, "launched by another thread")                                                        \
    X(GRAPH, "already in a graph")                                                                 \
    X(BREAKING, "a wait or an allocation in between")

enum orr_graph_reason {
#define ORR_GRAPH_REASON_ENUM(name, text) ORR_GRAPH_REASON_##name,
    ORR_GRAPH_REASON_LIST(ORR_GRAPH_REASON_ENUM)
#undef ORR_GRAPH_REASON_ENUM
        ORR_GRAPH_REASON_COUNT
};
/* The text above: static storage. */
const char *orr_graph_reason_text(enum orr_graph_reason reason);

/* Periods of an interval: has_* is false where there are fewer than two calls or gaps. */
struct orr_launch_terms {
    int64_t host_ns, window_ns;
    uint64_t feed_gaps;
    bool has_launch_period, has_gap_period;
    int64_t launch_period_ns, gap_period_ns;
    enum orr_answer bound;
};

struct orr_launch {
    uint64_t calls;                    /* calls that own an op of the device, each once */
    int64_t sum_ns, median_ns, p95_ns; /* of their durations; 0 without calls */
    uint32_t thread;                   /* T, ORR_EVENTS_NONE without calls */
    uint64_t feed_calls;
    uint64_t graph_gaps;
    int64_t graph_gap_ns;
    int64_t graph_repeated_ns; /* of it: in pairs of operators that occur at least twice */
    uint64_t graph_gap_counts[ORR_GRAPH_REASON_COUNT]; /* gaps by what keeps them out */
    int64_t graph_gap_times[ORR_GRAPH_REASON_COUNT]; /* their host_launch + host_other + dispatch */

    /* Kept for intervals: call starts on T and ends of its gaps, ascending; owned. */
    int64_t *feed_starts, *gap_ends;
    size_t feed_start_count, gap_end_count, gap_end_capacity;

    /* While gaps are added. */
    const struct orr_events *events;
    const struct orr_memory *memory;
    const int64_t *breaking; /* the scratch's, of T */
    size_t breaking_count;
    struct orr_launch_pair {
        uint32_t first, second; /* operators */
        int64_t ns;
    } * pairs; /* of eligible gaps; owned */
    size_t pair_count, pair_capacity;
    enum orr_status status; /* first failure of add_gap */
};

/* Space shared by all devices of one analysis, so that each costs only what it has. */
struct orr_launch_scratch {
    uint32_t *seen_by; /* by call: 1 + the device that counted it last; owned */
    size_t *counts;    /* by thread, 0 between devices; owned */
    /* Begins of calls of thread t that cannot be captured, ascending: breaking[breaking_first[t] ..
     * breaking_first[t + 1]); owned. */
    int64_t *breaking;
    size_t *breaking_first;
};

/* For all calls and threads of the events. ORR_NO_MEMORY leaves nothing behind. */
enum orr_status orr_launch_scratch_create(const struct orr_events *events,
                                          const struct orr_memory *memory,
                                          struct orr_launch_scratch *out_scratch) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_launch_scratch_free(const struct orr_memory *memory, struct orr_launch_scratch *scratch);

/* Finds T and measures the calls that own ops of the device. ORR_NO_MEMORY. */
enum orr_status orr_launch_begin(struct orr_launch *launch, const struct orr_events *events,
                                 uint32_t device, struct orr_launch_scratch *scratch,
                                 const struct orr_memory *memory) ORR_MUST_CHECK;
/* A failure (ORR_NO_MEMORY) is kept and reported by finish. */
void orr_launch_add_gap(struct orr_launch *launch, const struct orr_gap *gap);
/* Sums what the gaps told. Returns the first failure of any of them. */
enum orr_status orr_launch_finish(struct orr_launch *launch) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_launch_free(const struct orr_memory *memory, struct orr_launch *launch);

/* Terms and answer for the interval [begin, end) in which the host part took host_ns. Calls count
 * by their start, gaps by their end. `whole`: the interval is all the device's ops: every call and
 * gap counts. */
enum orr_status orr_launch_judge(const struct orr_launch *launch,
                                 const struct orr_analysis_options *options, bool whole,
                                 int64_t begin_ns, int64_t end_ns, int64_t window_ns,
                                 int64_t host_ns,
                                 struct orr_launch_terms *out_terms) ORR_MUST_CHECK;

/* True if part is at least, or more than, percent of whole; exact. */
bool orr__share_reaches(int64_t part, unsigned percent, int64_t whole);
bool orr__share_exceeds(int64_t part, unsigned percent, int64_t whole);

#endif
