/* The trace as a forward graph, which can be replayed with other durations (2.9, second view).
 *
 *     host     --[p0]--call--[p1]-----[p2]--call--[p3]---..---[p4]==wait==[p5]--
 *                             \                    \                     /
 *     stream                   +-lag->[=item 0=]-lag->[====item 1====]--'
 *
 * Host threads are chains of points, the begins and ends of their calls, with the time between them
 * as it was observed; a waiting call ends when what it waits for ends, and a lag later. What runs
 * in a stream is an item: it starts a lag after the latest of its call, the items before it, and
 * what its stream waits for. Members of a collective end together, each its transfer after the last
 * of them has started.
 *
 *     start = max(call + offset, end of the item before, ends of what it waits for) + lag
 *     end   = start + duration              or  last start of the members + transfer
 *     point = max(point before, ends of what the call waits for) + delta
 *
 * Lags, offsets, deltas and durations are the observed ones, so that an unchanged replay gives
 * every time of the trace exactly. With other values it says what the trace would have been, if
 * the order of calls and what waits for what stay as they are. Where the trace contradicts a rule
 * (an op without a call, one that starts before its call, a cycle of bad records), the item stays
 * at its observed time: it is *pinned*, and counted.
 *
 *     struct orr_replay *replay;
 *     orr_replay_create(&events, timeline, &options, &memory, &replay, &error);
 *     orr_replay_values_copy(replay, &values);          // change some of them
 *     orr_replay_run(replay, &values, &times);
 *     orr_replay_window(replay, &times, device, &begin_ns, &end_ns);
 *
 * Durations have a fraction of 2^-20 ns, as simulated devices count: what rounding to ns left is
 * carried into the next item that starts when this one ends.
 *
 * Threads: a replay is immutable once created; any number of runs at a time, each with its own
 * values and times. */
#ifndef ORR_ANALYZER_REPLAY_H
#define ORR_ANALYZER_REPLAY_H

#include "analyzer/events.h"

enum { ORR_REPLAY_FRACTION_BITS = 20 };

/* What a thread was doing in the interval that ends at a point. */
enum orr_replay_doing {
    ORR_REPLAY_THINKING, /* in no call */
    ORR_REPLAY_CALLING,  /* in a call that enqueues nothing and waits for nothing */
    ORR_REPLAY_LAUNCHING,
    ORR_REPLAY_WAITING
};

struct orr_replay_call {
    int64_t begin_ns, end_ns;
    uint32_t thread;
    uint32_t begin_point, end_point;
    uint8_t waiting, launching, breaking, graph;
};

struct orr_replay_point {
    int64_t observed_ns;
    uint32_t call;  /* in which the interval before the point lies, ORR_EVENTS_NONE: in none */
    uint8_t doing;  /* enum orr_replay_doing, in that interval */
    uint8_t first;  /* of its thread */
    uint8_t pinned; /* its rules go in a circle: it stays where it was */
};

struct orr_replay_item {
    int64_t start_ns, end_ns; /* observed */
    uint32_t stream, call;    /* call: of the replay, ORR_EVENTS_NONE without */
    uint32_t op;              /* of the events; ORR_EVENTS_NONE: a record, a wait, ... */
    uint32_t group;           /* of the replay: a collective whose members end together, or NONE */
    uint32_t point;           /* what its call says: this point + offset; NONE without */
    uint8_t pinned;           /* enum orr_replay_pinned */
    uint8_t latent;           /* behind its call by the device's launch latency */
};

/* Why an item is pinned. One without a usable call keeps its observed start, unless what is before
 * it in its stream ends later; one in a circle keeps both its times. */
enum orr_replay_pinned { ORR_REPLAY_FREE, ORR_REPLAY_UNCALLED, ORR_REPLAY_CIRCULAR };

/* An item's rule or a call's end: `source` counts from its start or from its end. */
struct orr_replay_edge {
    uint32_t source; /* an item, or a point */
    uint8_t kind;    /* enum orr_replay_edge_kind */
};
enum orr_replay_edge_kind {
    ORR_REPLAY_ITEM_END,
    ORR_REPLAY_ITEM_START, /* they overlap in one stream: only the order of starts holds */
    ORR_REPLAY_POINT
};

/* What a run may change. Of items that are members of a group, duration is the transfer. */
struct orr_replay_values {
    int64_t *delta;                   /* by point */
    int64_t *lag, *offset, *duration; /* by item */
    int32_t *fraction;                /* by item, 2^-20 ns, 0 .. 2^20 - 1 */
};

struct orr_replay_times {
    int64_t *point;       /* by point */
    int64_t *start, *end; /* by item */
    int64_t *joined;      /* by group: when the last member started */
    int32_t *carry;       /* by item: what rounding left, 2^-20 ns */
};

struct orr_replay_counts {
    uint64_t unlinked;  /* items pinned: ops without a call */
    uint64_t early;     /* items pinned: they start before their call */
    uint64_t circular;  /* nodes pinned: their rules go in a circle */
    uint64_t overlaps;  /* items that start before the one before them in their stream ends */
    uint64_t violated;  /* dependencies dropped: what was waited for ended later */
    uint64_t unjoined;  /* collectives whose members do not end behind the last one's start */
    uint64_t unwatched; /* waiting calls that were not searched: too many for their streams */
};

struct orr_replay {
    const struct orr_memory *memory;
    const struct orr_events *events; /* borrowed */
    struct orr_replay_call *calls;
    struct orr_replay_point *points; /* by thread and time */
    struct orr_replay_item *items;   /* by stream and place in it */
    struct orr_replay_edge *edges;   /* of nodes: edge_first[node] .. edge_first[node + 1] */
    size_t *edge_first;
    uint32_t *order; /* nodes, each behind those that it needs: points, then items, then groups */
    int64_t *latency_ns; /* by device: the shortest time from a call's return to its op's start */
    uint32_t *item_of;   /* by op of the events: its item */
    uint32_t *members;   /* items of groups: member_first[group] .. member_first[group + 1] */
    size_t *member_first;
    size_t call_count, point_count, item_count, group_count, node_count, edge_count;
    struct orr_replay_values values; /* observed */
    struct orr_replay_counts counts;
    uint64_t pinned_ops; /* ops of the events that are pinned */
};

struct orr_replay_options {
    /* With a launch latency, what starts at its call's return + latency is bound by its call, even
     * if something before it ended in between; without, by the latest of all, as the critical path
     * has it. For what-if, and for slack. */
    bool latency;
    uint32_t queue_depth; /* launches that a stream holds before a call blocks, 0: not known */
};

/* Builds the graph of a prepared model. With the timeline that the model was made from, if it is
 * one of our own runs, records and waits of streams are items of their own; NULL: what the model
 * says. Both are borrowed. ORR_NO_MEMORY; ORR_UNSUPPORTED for more than 2^31 calls or items. */
enum orr_status orr_replay_create(const struct orr_events *events,
                                  const struct orr_timeline *timeline,
                                  const struct orr_replay_options *options,
                                  const struct orr_memory *memory, struct orr_replay **out_replay,
                                  struct orr_error *error) ORR_MUST_CHECK;
/* Frees and nulls; accepts NULL. */
void orr_replay_destroy(struct orr_replay **replay);

/* The observed values, to change some. ORR_NO_MEMORY leaves nothing behind. */
enum orr_status orr_replay_values_copy(const struct orr_replay *replay,
                                       struct orr_replay_values *out_values) ORR_MUST_CHECK;
void orr_replay_values_free(const struct orr_memory *memory, struct orr_replay_values *values);

/* Room for the times of a run. ORR_NO_MEMORY leaves nothing behind. */
enum orr_status orr_replay_times_create(const struct orr_replay *replay,
                                        struct orr_replay_times *out_times) ORR_MUST_CHECK;
void orr_replay_times_free(const struct orr_memory *memory, struct orr_replay_times *times);

/* Computes all times. Never fails: times that pass 2^62 ns stay there. */
void orr_replay_run(const struct orr_replay *replay, const struct orr_replay_values *values,
                    struct orr_replay_times *times);

/* Gives items exact durations: work[item] in 2^-20 ns, negative where not known. Those that would
 * not give the observed times (what ran beside them slowed them down) keep the observed ones.
 * Returns how many were taken. ORR_NO_MEMORY. */
enum orr_status orr_replay_refine(struct orr_replay *replay, const int64_t *work,
                                  uint64_t *out_taken) ORR_MUST_CHECK;

/* The largest difference of any start or end of a run from the observed one. */
int64_t orr_replay_difference(const struct orr_replay *replay,
                              const struct orr_replay_times *times);

/* How much later each op of the events may start without ending the trace later: latest - earliest
 * start, by op; INT64_MAX for one that nothing at the end depends on. `times` are those of a run
 * with `values`. ORR_NO_MEMORY. */
enum orr_status orr_replay_slack(const struct orr_replay *replay,
                                 const struct orr_replay_values *values,
                                 const struct orr_replay_times *times,
                                 int64_t *out_slack) ORR_MUST_CHECK;

/* First start and last end of a device's ops in a run; false without ops. ORR_EVENTS_NONE: of all
 * devices. */
bool orr_replay_window(const struct orr_replay *replay, const struct orr_replay_times *times,
                       uint32_t device, int64_t *out_begin_ns, int64_t *out_end_ns);

/* Where the time of a run went, from the end of its last op back to `begin_ns`: ns by enum
 * orr_path_kind (critical_path.h), which sum to that interval. */
void orr_replay_path(const struct orr_replay *replay, const struct orr_replay_values *values,
                     const struct orr_replay_times *times, int64_t begin_ns, int64_t *out_kinds);

#endif
