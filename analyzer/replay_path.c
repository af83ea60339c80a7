/* The path of a run: from the end of its last op back along what bound each time. */
#include <string.h>

#include "analyzer/critical_path.h"
#include "analyzer/replay_internal.h"
#include "analyzer/times.h"

struct walker {
    const struct orr_replay *replay;
    const struct orr_replay_values *values;
    const struct orr_replay_times *times;
    int64_t begin_ns, now_ns; /* everything from now_ns on is taken */
    int64_t *kinds;
    uint32_t item, point; /* where it is; both NONE: it is over */
};

static void take(struct walker *w, int64_t from_ns, enum orr_path_kind kind) {
    from_ns = orr__max_ns(from_ns, w->begin_ns);
    if (from_ns < w->now_ns) {
        w->kinds[kind] += w->now_ns - from_ns;
        w->now_ns = from_ns;
    }
}

static void stop(struct walker *w, enum orr_path_kind kind) {
    take(w, w->begin_ns, kind);
    w->item = w->point = ORR_EVENTS_NONE;
}

/* The item at a node, NULL for a point. */
static const struct orr_replay_item *item_at(const struct orr_replay *replay, size_t node) {
    return node < replay->point_count ? NULL : &replay->items[node - replay->point_count];
}

/* Whether of two edges with one time the path takes `a`: first what is before it in its stream, the
 * nearest of all, then by what they come from, since links are in no order of their own. */
static bool goes_first(const struct orr_replay *replay, size_t node,
                       const struct orr_replay_edge *a, const struct orr_replay_edge *b) {
    const struct orr_replay_item *item = item_at(replay, node);
    bool own_a =
        item && a->kind != ORR_REPLAY_POINT && replay->items[a->source].stream == item->stream;
    bool own_b =
        item && b->kind != ORR_REPLAY_POINT && replay->items[b->source].stream == item->stream;
    if (own_a != own_b || own_a) {
        return own_a != own_b ? own_a : a->source > b->source;
    }
    return a->kind != b->kind ? a->kind < b->kind : a->source < b->source;
}

/* The edge of a node that is latest; NULL without edges. */
static const struct orr_replay_edge *latest(const struct walker *w, size_t node, int64_t *out_ns) {
    const struct orr_replay_edge *found = NULL;
    *out_ns = INT64_MIN;
    for (size_t e = w->replay->edge_first[node]; e < w->replay->edge_first[node + 1]; e++) {
        const struct orr_replay_edge *edge = &w->replay->edges[e];
        int64_t ns = edge->kind == ORR_REPLAY_POINT      ? w->times->point[edge->source]
                     : edge->kind == ORR_REPLAY_ITEM_END ? w->times->end[edge->source]
                                                         : w->times->start[edge->source];
        if (!found || ns > *out_ns || (ns == *out_ns && goes_first(w->replay, node, edge, found))) {
            found = edge;
            *out_ns = ns;
        }
    }
    return found;
}

static void follow(struct walker *w, const struct orr_replay_edge *edge) {
    bool point = edge->kind == ORR_REPLAY_POINT;
    w->point = point ? edge->source : ORR_EVENTS_NONE;
    w->item = point ? ORR_EVENTS_NONE : edge->source;
}

static enum orr_path_kind kind_of(const struct walker *w, uint32_t item) {
    uint32_t op = w->replay->items[item].op;
    if (op == ORR_EVENTS_NONE) {
        return ORR_PATH_DEP_WAIT; /* a host function, in its stream */
    }
    uint8_t activity = w->replay->events->ops[op].activity;
    return activity == ORR_ACTIVITY_COMPUTE ? ORR_PATH_COMPUTE
           : activity == ORR_ACTIVITY_COMM  ? ORR_PATH_COMM
                                            : ORR_PATH_COPY;
}

/* The member of a group that started last. */
static uint32_t last_member(const struct walker *w, uint32_t group) {
    const struct orr_replay *replay = w->replay;
    uint32_t last = replay->members[replay->member_first[group]];
    for (size_t m = replay->member_first[group]; m < replay->member_first[group + 1]; m++) {
        last =
            w->times->start[replay->members[m]] > w->times->start[last] ? replay->members[m] : last;
    }
    return last;
}

static void step_item(struct walker *w) {
    const struct orr_replay *replay = w->replay;
    uint32_t i = w->item;
    const struct orr_replay_item *item = &replay->items[i];
    enum orr_path_kind kind = kind_of(w, i);
    if (item->group != ORR_EVENTS_NONE && w->now_ns > w->times->joined[item->group]) {
        take(w, w->times->joined[item->group], kind);
        i = last_member(w, item->group);
        item = &replay->items[i];
    }
    take(w, w->times->start[i], kind);
    int64_t base;
    const struct orr_replay_edge *edge = latest(w, replay->point_count + i, &base);
    if (item->pinned == ORR_REPLAY_CIRCULAR || (!edge && item->point == ORR_EVENTS_NONE)) {
        stop(w, ORR_PATH_UNKNOWN);
        return;
    }
    if (item->pinned) {
        take(w, base, ORR_PATH_UNKNOWN);
        follow(w, edge);
        return;
    }
    int64_t point_ns = INT64_MIN, called = INT64_MIN;
    if (item->point != ORR_EVENTS_NONE) {
        point_ns = w->times->point[item->point];
        called = orr__replay_add(point_ns, w->values->offset[i]);
    }
    take(w, orr__max_ns(base, called), ORR_PATH_DISPATCH);
    if (edge && base >= called) {
        follow(w, edge);
        return;
    }
    take(w, point_ns, item->latent ? ORR_PATH_DISPATCH : ORR_PATH_LAUNCH);
    w->point = item->point;
    w->item = ORR_EVENTS_NONE;
}

static void step_point(struct walker *w) {
    static const enum orr_path_kind kinds[] = {
        [ORR_REPLAY_THINKING] = ORR_PATH_HOST,
        [ORR_REPLAY_CALLING] = ORR_PATH_HOST,
        [ORR_REPLAY_LAUNCHING] = ORR_PATH_LAUNCH,
        [ORR_REPLAY_WAITING] = ORR_PATH_SYNC,
    };
    uint32_t p = w->point;
    const struct orr_replay_point *point = &w->replay->points[p];
    int64_t base;
    const struct orr_replay_edge *edge = latest(w, p, &base);
    if (point->pinned || (point->first && !edge)) {
        stop(w, point->pinned ? ORR_PATH_UNKNOWN : ORR_PATH_HOST);
        return;
    }
    int64_t before = point->first ? INT64_MIN : w->times->point[p - 1];
    take(w, orr__max_ns(base, before), kinds[point->doing]);
    if (edge && base >= before) {
        follow(w, edge);
    } else {
        w->point = p - 1;
    }
}

static uint32_t last_item(const struct orr_replay *replay, const struct orr_replay_times *times) {
    uint32_t last = ORR_EVENTS_NONE;
    for (uint32_t i = 0; i < replay->item_count; i++) {
        if (replay->items[i].op != ORR_EVENTS_NONE &&
            (last == ORR_EVENTS_NONE || times->end[i] > times->end[last])) {
            last = i;
        }
    }
    return last;
}

void orr_replay_path(const struct orr_replay *replay, const struct orr_replay_values *values,
                     const struct orr_replay_times *times, int64_t begin_ns, int64_t *out_kinds) {
    struct walker w = {.replay = replay,
                       .values = values,
                       .times = times,
                       .begin_ns = begin_ns,
                       .kinds = out_kinds,
                       .item = last_item(replay, times),
                       .point = ORR_EVENTS_NONE};
    memset(out_kinds, 0, ORR_PATH_COUNT * sizeof *out_kinds);
    if (w.item == ORR_EVENTS_NONE) {
        return;
    }
    w.now_ns = times->end[w.item];
    /* Each step goes to a node that comes earlier in the order; the bound is for bad records. */
    for (size_t steps = 0; steps <= 2 * replay->node_count && w.now_ns > begin_ns; steps++) {
        if (w.item != ORR_EVENTS_NONE) {
            step_item(&w);
        } else if (w.point != ORR_EVENTS_NONE) {
            step_point(&w);
        } else {
            break;
        }
    }
    take(&w, begin_ns, ORR_PATH_UNKNOWN);
}
