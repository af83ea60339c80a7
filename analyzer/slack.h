/* Slack: how much later an op could start without the trace ending later (2.9, second view).
 *
 *     [==== a ====][== c ==]          a and c have none,
 *     [= b =]      ^                  b has as much as a takes longer
 *            ------'  slack of b
 *
 * Of the graph of replay.h without launch latencies, so that it agrees with the critical path: what
 * the path goes through has none. A member of a collective that waits for the last one has what it
 * waits. Ops at the end of a device that others outlast have what is left of the trace.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_SLACK_H
#define ORR_ANALYZER_SLACK_H

#include "analyzer/events.h"

struct orr_slack_operator {
    uint32_t operator_index;
    uint64_t count, without; /* ops; those without slack */
    int64_t least_ns;        /* smallest slack of any of them */
    int64_t time_ns;         /* device time of those without slack */
};

struct orr_slack {
    bool known;      /* false: the trace has more than the options' slack_nodes */
    int64_t *ops_ns; /* by op of the events, INT64_MAX: nothing at the end depends on it; owned */
    uint64_t op_count, without; /* ops; those without slack */
    int64_t replay_error_ns;    /* of the graph, replayed unchanged: 0 */
    uint64_t pinned;            /* ops that no rule places: they stay where they were observed */
    /* By time without slack, largest first; owned. */
    struct orr_slack_operator *operators;
    size_t operator_count;
};

/* Slack of all ops, if ops and calls are at most `nodes_max`. `timeline` as orr_replay_create.
 * ORR_NO_MEMORY leaves nothing behind. */
enum orr_status orr_slack_compute(const struct orr_events *events,
                                  const struct orr_timeline *timeline, size_t nodes_max,
                                  const struct orr_memory *memory,
                                  struct orr_slack *out_slack) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_slack_free(const struct orr_memory *memory, struct orr_slack *slack);

#endif
