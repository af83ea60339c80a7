/* Building a replay: what its files share. Internal to analyzer/.
 *
 * A filler (replay_events.c for any model, replay_timeline.c for our own runs) adds calls, items by
 * stream and place, and what has to end before what; orr__replay_finish makes points, edges and
 * their order of it. Ties are broken by the places of calls and items, so fillers add them in an
 * order that follows from what they are, not from where the source has them; the order of links
 * does not matter.
 *
 * Threads: one. */
#ifndef ORR_ANALYZER_REPLAY_INTERNAL_H
#define ORR_ANALYZER_REPLAY_INTERNAL_H

#include "analyzer/replay.h"

#define ORR__REPLAY_MAX UINT32_C(0x7fffffff) /* calls, or items: two points a call fit 32 bits */

enum orr__replay_place { ORR__AT_ITEM, ORR__AT_CALL_BEGIN, ORR__AT_CALL_END };

/* "`after` does not happen before `before` has ended": an item's end or a call's end before an
 * item's start, a call's begin or a (waiting) call's end. */
struct orr__replay_link {
    uint32_t before, after;
    uint8_t before_at, after_at; /* enum orr__replay_place */
};

struct orr__replay_plan {
    struct orr_replay *replay;
    const struct orr_timeline *timeline; /* of our own runs, or NULL */
    const struct orr_memory *memory;
    struct orr_replay_options options;
    struct orr__replay_link *links;
    size_t link_count, link_capacity, call_capacity, item_capacity;
};

/* Appends. ORR_NO_MEMORY. */
enum orr_status orr__replay_call(struct orr__replay_plan *plan, const struct orr_replay_call *call,
                                 uint32_t *out_index) ORR_MUST_CHECK;
enum orr_status orr__replay_item(struct orr__replay_plan *plan, const struct orr_replay_item *item,
                                 uint32_t *out_index) ORR_MUST_CHECK;
enum orr_status orr__replay_link(struct orr__replay_plan *plan, enum orr__replay_place before_at,
                                 uint32_t before, enum orr__replay_place after_at,
                                 uint32_t after) ORR_MUST_CHECK;

/* The fillers. */
enum orr_status orr__replay_fill_events(struct orr__replay_plan *plan) ORR_MUST_CHECK;
enum orr_status orr__replay_fill_timeline(struct orr__replay_plan *plan) ORR_MUST_CHECK;

/* replay_points.c: the threads' chains. */
enum orr_status orr__replay_make_points(struct orr__replay_plan *plan) ORR_MUST_CHECK;

/* replay_order.c: an order in which each node comes behind what it needs. */
enum orr_status orr__replay_make_order(struct orr_replay *replay) ORR_MUST_CHECK;

/* The node whose time an edge's source has. */
static inline uint32_t orr__replay_node(const struct orr_replay *replay,
                                        const struct orr_replay_edge *edge) {
    if (edge->kind == ORR_REPLAY_POINT) {
        return edge->source;
    }
    uint32_t group = replay->items[edge->source].group;
    bool joins = edge->kind == ORR_REPLAY_ITEM_END && group != ORR_EVENTS_NONE;
    return (uint32_t)replay->point_count +
           (joins ? (uint32_t)replay->item_count + group : edge->source);
}

/* Sums that stay within +-2^62. */
static inline int64_t orr__replay_add(int64_t a, int64_t b) {
    const int64_t most = INT64_C(1) << 62;
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return a < 0 ? -most : most;
    }
    return sum > most ? most : sum < -most ? -most : sum;
}

#endif
