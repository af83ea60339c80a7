/* Running a replay: all times from the values, in the order of the nodes; and back again for
 * slack. */
#include <assert.h>

#include "analyzer/critical_path.h"
#include "analyzer/replay.h"
#include "analyzer/replay_internal.h"
#include "analyzer/times.h"

enum { ONE = 1 << ORR_REPLAY_FRACTION_BITS };

struct run {
    const struct orr_replay *replay;
    const struct orr_replay_values *values;
    struct orr_replay_times *times;
};

static int64_t edge_ns(const struct run *run, const struct orr_replay_edge *edge) {
    return edge->kind == ORR_REPLAY_POINT      ? run->times->point[edge->source]
           : edge->kind == ORR_REPLAY_ITEM_END ? run->times->end[edge->source]
                                               : run->times->start[edge->source];
}

/* The latest of a node's edges, INT64_MIN without. */
static int64_t latest(const struct run *run, size_t node) {
    const struct orr_replay *replay = run->replay;
    int64_t base = INT64_MIN;
    for (size_t e = replay->edge_first[node]; e < replay->edge_first[node + 1]; e++) {
        base = orr__max_ns(base, edge_ns(run, &replay->edges[e]));
    }
    return base;
}

static void run_point(const struct run *run, uint32_t p) {
    const struct orr_replay_point *point = &run->replay->points[p];
    if (point->pinned) {
        run->times->point[p] = point->observed_ns;
        return;
    }
    int64_t base = latest(run, p);
    if (!point->first) {
        base = orr__max_ns(base, run->times->point[p - 1]);
    }
    run->times->point[p] = orr__replay_add(base == INT64_MIN ? 0 : base, run->values->delta[p]);
}

/* The item whose carry goes on in this one: the one before it in its stream, if it ends where this
 * one starts. */
static int32_t carry_into(const struct run *run, uint32_t i) {
    const struct orr_replay *replay = run->replay;
    size_t node = replay->point_count + i;
    if (replay->edge_first[node] == replay->edge_first[node + 1]) {
        return 0;
    }
    const struct orr_replay_edge *edge = &replay->edges[replay->edge_first[node]];
    bool follows = edge->kind == ORR_REPLAY_ITEM_END && i > 0 && edge->source == i - 1 &&
                   replay->items[i].stream == replay->items[i - 1].stream &&
                   run->times->end[i - 1] == run->times->start[i];
    return follows ? run->times->carry[i - 1] : 0;
}

/* Its duration, to the nearest ns with what the one before it left; what takes no time, or less
 * than that was rounded up by, hands it on. */
static void run_alone(const struct run *run, uint32_t i) {
    int64_t start = run->times->start[i], duration = run->values->duration[i];
    int32_t rest = run->values->fraction[i] + carry_into(run, i); /* > -2^20, < 2^21 */
    if (duration == 0 && (rest < 0 || run->values->fraction[i] == 0)) {
        run->times->end[i] = start;
        run->times->carry[i] = rest;
        return;
    }
    int32_t whole = (rest + ONE / 2) >> ORR_REPLAY_FRACTION_BITS;
    run->times->end[i] = orr__replay_add(start, duration + whole);
    run->times->carry[i] = rest - whole * ONE;
}

static void run_item(const struct run *run, uint32_t i) {
    const struct orr_replay *replay = run->replay;
    const struct orr_replay_item *item = &replay->items[i];
    struct orr_replay_times *times = run->times;
    if (item->pinned == ORR_REPLAY_CIRCULAR) {
        times->start[i] = item->start_ns;
        times->end[i] = item->end_ns;
        times->carry[i] = 0;
        return;
    }
    int64_t base = latest(run, replay->point_count + i);
    if (item->pinned) {
        times->start[i] = orr__max_ns(item->start_ns, base);
    } else {
        if (item->point != ORR_EVENTS_NONE) {
            int64_t called = orr__replay_add(times->point[item->point], run->values->offset[i]);
            base = orr__max_ns(base, called);
        }
        times->start[i] = orr__replay_add(base == INT64_MIN ? 0 : base, run->values->lag[i]);
    }
    if (item->group == ORR_EVENTS_NONE) {
        run_alone(run, i);
    } else {
        times->carry[i] = 0;
    }
}

static void run_group(const struct run *run, uint32_t g) {
    const struct orr_replay *replay = run->replay;
    int64_t last = INT64_MIN;
    for (size_t m = replay->member_first[g]; m < replay->member_first[g + 1]; m++) {
        last = orr__max_ns(last, run->times->start[replay->members[m]]);
    }
    run->times->joined[g] = last;
    for (size_t m = replay->member_first[g]; m < replay->member_first[g + 1]; m++) {
        uint32_t i = replay->members[m];
        if (replay->items[i].pinned == ORR_REPLAY_CIRCULAR) {
            run->times->end[i] = replay->items[i].end_ns;
            continue;
        }
        int32_t whole = (run->values->fraction[i] + ONE / 2) >> ORR_REPLAY_FRACTION_BITS;
        run->times->end[i] = orr__replay_add(last, run->values->duration[i] + whole);
    }
}

void orr_replay_run(const struct orr_replay *replay, const struct orr_replay_values *values,
                    struct orr_replay_times *times) {
    struct run run = {replay, values, times};
    for (size_t n = 0; n < replay->node_count; n++) {
        uint32_t node = replay->order[n];
        if (node < replay->point_count) {
            run_point(&run, node);
        } else if (node < replay->point_count + replay->item_count) {
            run_item(&run, node - (uint32_t)replay->point_count);
        } else {
            run_group(&run, node - (uint32_t)(replay->point_count + replay->item_count));
        }
    }
}

static int64_t distance(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

int64_t orr_replay_difference(const struct orr_replay *replay,
                              const struct orr_replay_times *times) {
    int64_t most = 0;
    for (size_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        most = orr__max_ns(most, distance(item->start_ns, times->start[i]));
        most = orr__max_ns(most, distance(item->end_ns, times->end[i]));
    }
    for (size_t p = 0; p < replay->point_count; p++) {
        most = orr__max_ns(most, distance(replay->points[p].observed_ns, times->point[p]));
    }
    return most;
}

bool orr_replay_window(const struct orr_replay *replay, const struct orr_replay_times *times,
                       uint32_t device, int64_t *out_begin_ns, int64_t *out_end_ns) {
    const struct orr_events *events = replay->events;
    bool any = false;
    *out_begin_ns = INT64_MAX;
    *out_end_ns = INT64_MIN;
    for (size_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        if (item->op == ORR_EVENTS_NONE ||
            (device != ORR_EVENTS_NONE && events->streams[item->stream].device != device)) {
            continue;
        }
        any = true;
        *out_begin_ns = orr__min_ns(*out_begin_ns, times->start[i]);
        *out_end_ns = orr__max_ns(*out_end_ns, times->end[i]);
    }
    return any;
}

/* ------------------------------------------------------------------------------------------------
 * Refinement */

/* One item's exact work, if it gives the observed end; else the observed one, with nothing left. */
static bool refine_item(struct orr_replay *replay, struct orr_replay_times *times, uint32_t i,
                        int64_t work) {
    struct run run = {replay, &replay->values, times};
    const struct orr_replay_item *item = &replay->items[i];
    int64_t duration = replay->values.duration[i];
    if (work >= 0) {
        replay->values.duration[i] = work >> ORR_REPLAY_FRACTION_BITS;
        replay->values.fraction[i] = (int32_t)(work & (ONE - 1));
        run_alone(&run, i);
        if (times->end[i] == item->end_ns) {
            return true;
        }
    }
    /* Slowed down by others, or not known: what it takes over is in the observed time. */
    replay->values.duration[i] = duration;
    replay->values.fraction[i] = 0;
    times->end[i] = item->end_ns;
    times->carry[i] = 0;
    int32_t carry = carry_into(&run, i);
    if (duration > 0 && carry != 0) {
        replay->values.duration[i] = carry > 0 ? duration - 1 : duration;
        replay->values.fraction[i] = carry > 0 ? ONE - carry : -carry;
    }
    return false;
}

enum orr_status orr_replay_refine(struct orr_replay *replay, const int64_t *work,
                                  uint64_t *out_taken) {
    struct orr_replay_times times;
    enum orr_status status = orr_replay_times_create(replay, &times);
    *out_taken = 0;
    if (status != ORR_OK) {
        return status;
    }
    struct run run = {replay, &replay->values, &times};
    for (size_t n = 0; n < replay->node_count; n++) {
        uint32_t node = replay->order[n];
        if (node < replay->point_count) {
            times.point[node] = replay->points[node].observed_ns;
            continue;
        }
        uint32_t i = node - (uint32_t)replay->point_count;
        if (i >= replay->item_count) {
            i -= (uint32_t)replay->item_count;
            for (size_t m = replay->member_first[i]; m < replay->member_first[i + 1]; m++) {
                times.end[replay->members[m]] = replay->items[replay->members[m]].end_ns;
            }
            continue;
        }
        times.start[i] = replay->items[i].start_ns;
        if (replay->items[i].group != ORR_EVENTS_NONE || replay->items[i].pinned) {
            times.end[i] = replay->items[i].end_ns;
        } else if (replay->items[i].op == ORR_EVENTS_NONE) {
            run_alone(&run, i);
        } else {
            *out_taken += refine_item(replay, &times, i, work[i]);
        }
    }
    orr_replay_times_free(replay->memory, &times);
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Slack */

struct slack {
    struct run run;
    int64_t *point;       /* latest time of a point */
    int64_t *start, *end; /* latest times of an item */
};

static void bound(int64_t *latest_ns, int64_t by_ns) {
    *latest_ns = orr__min_ns(*latest_ns, by_ns);
}

static int64_t less(int64_t time_ns, int64_t by_ns) {
    return time_ns == INT64_MAX ? INT64_MAX : orr__replay_add(time_ns, -by_ns);
}

/* What a node waits for may be as late as `by_ns`. */
static void bound_sources(struct slack *s, size_t node, int64_t by_ns) {
    const struct orr_replay *replay = s->run.replay;
    for (size_t e = replay->edge_first[node]; e < replay->edge_first[node + 1]; e++) {
        const struct orr_replay_edge *edge = &replay->edges[e];
        int64_t *latest_ns = edge->kind == ORR_REPLAY_POINT      ? &s->point[edge->source]
                             : edge->kind == ORR_REPLAY_ITEM_END ? &s->end[edge->source]
                                                                 : &s->start[edge->source];
        bound(latest_ns, by_ns);
    }
}

static void back_point(struct slack *s, uint32_t p) {
    int64_t base = less(s->point[p], s->run.values->delta[p]);
    bound_sources(s, p, base);
    if (!s->run.replay->points[p].first) {
        bound(&s->point[p - 1], base);
    }
}

static void back_item(struct slack *s, uint32_t i) {
    const struct orr_replay *replay = s->run.replay;
    const struct orr_replay_item *item = &replay->items[i];
    const struct orr_replay_times *times = s->run.times;
    if (item->group == ORR_EVENTS_NONE) {
        bound(&s->start[i], less(s->end[i], times->end[i] - times->start[i]));
    }
    int64_t base = item->pinned ? s->start[i] : less(s->start[i], s->run.values->lag[i]);
    bound_sources(s, replay->point_count + i, base);
    if (item->point != ORR_EVENTS_NONE && !item->pinned) {
        bound(&s->point[item->point], less(base, s->run.values->offset[i]));
    }
}

static void back_group(struct slack *s, uint32_t g) {
    const struct orr_replay *replay = s->run.replay;
    int64_t last = INT64_MAX;
    for (size_t m = replay->member_first[g]; m < replay->member_first[g + 1]; m++) {
        uint32_t i = replay->members[m];
        last = orr__min_ns(last, less(s->end[i], s->run.times->end[i] - s->run.times->joined[g]));
    }
    for (size_t m = replay->member_first[g]; m < replay->member_first[g + 1]; m++) {
        bound(&s->start[replay->members[m]], last);
    }
}

static void back(struct slack *s) {
    const struct orr_replay *replay = s->run.replay;
    for (size_t n = replay->node_count; n > 0; n--) {
        uint32_t node = replay->order[n - 1];
        if (node < replay->point_count) {
            back_point(s, node);
        } else if (node < replay->point_count + replay->item_count) {
            back_item(s, node - (uint32_t)replay->point_count);
        } else {
            back_group(s, node - (uint32_t)(replay->point_count + replay->item_count));
        }
    }
}

enum orr_status orr_replay_slack(const struct orr_replay *replay,
                                 const struct orr_replay_values *values,
                                 const struct orr_replay_times *times, int64_t *out_slack) {
    const struct orr_memory *memory = replay->memory;
    size_t items = replay->item_count;
    struct orr_replay_times own = *times; /* read only */
    struct slack s = {
        .run = {replay, values, &own},
        .point = orr_memory_resize(memory, NULL, (replay->point_count + 1) * sizeof(int64_t)),
        .start = orr_memory_resize(memory, NULL, (2 * items + 1) * sizeof(int64_t))};
    enum orr_status status = s.point && s.start ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        int64_t begin_ns, end_ns;
        (void)orr_replay_window(replay, times, ORR_EVENTS_NONE, &begin_ns, &end_ns);
        s.end = s.start + items;
        for (size_t p = 0; p < replay->point_count; p++) {
            s.point[p] = INT64_MAX;
        }
        for (size_t i = 0; i < items; i++) {
            s.start[i] = INT64_MAX;
            s.end[i] = replay->items[i].op == ORR_EVENTS_NONE ? INT64_MAX : end_ns;
        }
        back(&s);
        for (size_t o = 0; o < replay->events->op_count; o++) {
            uint32_t i = replay->item_of[o];
            bool known = i != ORR_EVENTS_NONE && s.start[i] != INT64_MAX;
            out_slack[o] = known ? s.start[i] - times->start[i] : INT64_MAX;
        }
    }
    orr_memory_free(memory, s.point);
    orr_memory_free(memory, s.start);
    return status;
}
