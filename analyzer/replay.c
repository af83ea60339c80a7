#include "analyzer/replay.h"

#include <assert.h>
#include <string.h>

#include "analyzer/replay_internal.h"
#include "analyzer/times.h"

/* ------------------------------------------------------------------------------------------------
 * What fillers add */

enum orr_status orr__replay_call(struct orr__replay_plan *plan, const struct orr_replay_call *call,
                                 uint32_t *out_index) {
    struct orr_replay *replay = plan->replay;
    enum orr_status status =
        orr_memory_grow(plan->memory, &replay->calls, &plan->call_capacity, replay->call_count + 1,
                        sizeof *replay->calls, ORR__REPLAY_MAX);
    if (status == ORR_OK) {
        assert(call->begin_ns <= call->end_ns);
        replay->calls[replay->call_count] = *call;
        *out_index = (uint32_t)replay->call_count++;
    }
    return status;
}

enum orr_status orr__replay_item(struct orr__replay_plan *plan, const struct orr_replay_item *item,
                                 uint32_t *out_index) {
    struct orr_replay *replay = plan->replay;
    enum orr_status status =
        orr_memory_grow(plan->memory, &replay->items, &plan->item_capacity, replay->item_count + 1,
                        sizeof *replay->items, ORR__REPLAY_MAX);
    if (status == ORR_OK) {
        replay->items[replay->item_count] = *item;
        *out_index = (uint32_t)replay->item_count++;
    }
    return status;
}

enum orr_status orr__replay_link(struct orr__replay_plan *plan, enum orr__replay_place before_at,
                                 uint32_t before, enum orr__replay_place after_at, uint32_t after) {
    enum orr_status status =
        orr_memory_grow(plan->memory, &plan->links, &plan->link_capacity, plan->link_count + 1,
                        sizeof *plan->links, SIZE_MAX / sizeof *plan->links);
    if (status == ORR_OK) {
        plan->links[plan->link_count++] = (struct orr__replay_link){.before = before,
                                                                    .after = after,
                                                                    .before_at = (uint8_t)before_at,
                                                                    .after_at = (uint8_t)after_at};
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Calls of items */

/* An item starts behind its call's return, or, if it had started by then (or the call waits for it
 * itself), behind the call's begin. */
static void anchor(struct orr_replay *replay, struct orr_replay_item *item) {
    item->point = ORR_EVENTS_NONE;
    if (item->call == ORR_EVENTS_NONE) {
        item->pinned = ORR_REPLAY_UNCALLED;
        replay->counts.unlinked += item->op != ORR_EVENTS_NONE;
        return;
    }
    const struct orr_replay_call *call = &replay->calls[item->call];
    if (item->start_ns < call->begin_ns) {
        item->pinned = ORR_REPLAY_UNCALLED;
        replay->counts.early += item->op != ORR_EVENTS_NONE;
        return;
    }
    bool inside = item->start_ns < call->end_ns || call->waiting;
    item->latent = !inside && item->op != ORR_EVENTS_NONE;
    item->point = inside ? call->begin_point : call->end_point;
}

/* The shortest time from a call's return to its op's start, by device. */
static enum orr_status find_latencies(struct orr_replay *replay, bool wanted) {
    const struct orr_events *events = replay->events;
    replay->latency_ns =
        orr_memory_alloc(replay->memory, (events->device_count + 1) * sizeof(int64_t));
    if (!replay->latency_ns) {
        return ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < events->device_count; d++) {
        replay->latency_ns[d] = -1;
    }
    for (size_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        if (item->op == ORR_EVENTS_NONE || item->point == ORR_EVENTS_NONE || item->pinned) {
            continue;
        }
        int64_t *least = &replay->latency_ns[events->streams[item->stream].device];
        int64_t here = item->latent ? item->start_ns - replay->calls[item->call].end_ns : 0;
        *least = *least < 0 || here < *least ? here : *least;
    }
    for (size_t d = 0; d < events->device_count; d++) {
        replay->latency_ns[d] = wanted ? orr__max_ns(replay->latency_ns[d], 0) : 0;
    }
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Edges */

static int64_t source_ns(const struct orr_replay *replay, const struct orr_replay_edge *edge) {
    return edge->kind == ORR_REPLAY_POINT      ? replay->points[edge->source].observed_ns
           : edge->kind == ORR_REPLAY_ITEM_END ? replay->items[edge->source].end_ns
                                               : replay->items[edge->source].start_ns;
}

static uint32_t target_node(const struct orr_replay *replay, const struct orr__replay_link *link) {
    const struct orr_replay_call *calls = replay->calls;
    return link->after_at == ORR__AT_ITEM         ? (uint32_t)replay->point_count + link->after
           : link->after_at == ORR__AT_CALL_BEGIN ? calls[link->after].begin_point
                                                  : calls[link->after].end_point;
}

static int64_t target_ns(const struct orr_replay *replay, uint32_t node) {
    return node < replay->point_count ? replay->points[node].observed_ns
                                      : replay->items[node - replay->point_count].start_ns;
}

static struct orr_replay_edge edge_of(const struct orr_replay *replay,
                                      const struct orr__replay_link *link) {
    struct orr_replay_edge edge = {.source = link->before, .kind = ORR_REPLAY_ITEM_END};
    if (link->before_at != ORR__AT_ITEM) {
        const struct orr_replay_call *call = &replay->calls[link->before];
        edge.kind = ORR_REPLAY_POINT;
        edge.source = link->before_at == ORR__AT_CALL_BEGIN ? call->begin_point : call->end_point;
    }
    return edge;
}

/* Edges of links that the times agree with; the others are dropped, and counted once. */
static void add_links(const struct orr__replay_plan *plan, bool fill) {
    struct orr_replay *replay = plan->replay;
    for (size_t i = 0; i < plan->link_count; i++) {
        uint32_t node = target_node(replay, &plan->links[i]);
        struct orr_replay_edge edge = edge_of(replay, &plan->links[i]);
        if (source_ns(replay, &edge) > target_ns(replay, node)) {
            replay->counts.violated += !fill;
        } else if (fill) {
            replay->edges[replay->edge_first[node]++] = edge;
        } else {
            replay->edge_first[node + 1]++;
        }
    }
}

static void add_edge(struct orr_replay *replay, uint32_t item, uint32_t source, bool at_end,
                     bool fill) {
    size_t node = replay->point_count + item;
    if (!fill) {
        replay->edge_first[node + 1]++;
        return;
    }
    replay->edges[replay->edge_first[node]++] = (struct orr_replay_edge){
        source, (uint8_t)(at_end ? ORR_REPLAY_ITEM_END : ORR_REPLAY_ITEM_START)};
}

/* An item comes behind the one before it in its stream, and behind the one that ends last of those
 * before it. Where they overlap, only their starts are in order. */
static void add_order(struct orr_replay *replay, bool fill) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        if (i == 0 || item->stream != item[-1].stream) {
            longest = i;
            continue;
        }
        const struct orr_replay_item *before = item - 1;
        replay->counts.overlaps += !fill && replay->items[longest].end_ns > item->start_ns;
        if (before->start_ns <= item->start_ns) {
            add_edge(replay, i, i - 1, before->end_ns <= item->start_ns, fill);
        }
        if (longest != i - 1 && replay->items[longest].end_ns <= item->start_ns) {
            add_edge(replay, i, longest, true, fill);
        }
        longest = item->end_ns >= replay->items[longest].end_ns ? i : longest;
    }
}

static enum orr_status make_edges(struct orr__replay_plan *plan) {
    struct orr_replay *replay = plan->replay;
    size_t nodes = replay->node_count;
    replay->edge_first = orr_memory_alloc(plan->memory, (nodes + 1) * sizeof(size_t));
    if (!replay->edge_first) {
        return ORR_NO_MEMORY;
    }
    add_links(plan, false);
    add_order(replay, false);
    for (size_t n = 0; n < nodes; n++) {
        replay->edge_first[n + 1] += replay->edge_first[n];
    }
    replay->edge_count = replay->edge_first[nodes];
    replay->edges =
        orr_memory_resize(plan->memory, NULL, (replay->edge_count + 1) * sizeof *replay->edges);
    if (!replay->edges) {
        return ORR_NO_MEMORY;
    }
    add_order(replay, true); /* the one before comes first: whose carry goes on */
    add_links(plan, true);
    for (size_t n = nodes; n > 0; n--) {
        replay->edge_first[n] = replay->edge_first[n - 1];
    }
    replay->edge_first[0] = 0;
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Groups: collectives that end together */

static bool is_joined(const struct orr_replay *replay, uint32_t group) {
    size_t first = replay->member_first[group], end = replay->member_first[group + 1];
    int64_t last_start = INT64_MIN;
    for (size_t m = first; m < end; m++) {
        last_start = orr__max_ns(last_start, replay->items[replay->members[m]].start_ns);
    }
    for (size_t m = first; m < end; m++) {
        const struct orr_replay_item *item = &replay->items[replay->members[m]];
        if (item->end_ns < last_start || item->pinned) {
            return false;
        }
    }
    return end - first > 1;
}

/* Collectives with one member in the trace, or whose members do not wait for each other, are none;
 * the others are numbered anew. */
static void keep_joined(struct orr_replay *replay, size_t collectives) {
    size_t kept = 0, members = 0;
    for (uint32_t c = 0; c < collectives; c++) {
        size_t first = replay->member_first[c], end = replay->member_first[c + 1];
        bool joined = is_joined(replay, c);
        replay->counts.unjoined += !joined && end - first > 1;
        for (size_t m = first; m < end; m++) {
            struct orr_replay_item *item = &replay->items[replay->members[m]];
            item->group = joined ? (uint32_t)kept : ORR_EVENTS_NONE;
        }
        if (joined) {
            memmove(replay->members + members, replay->members + first,
                    (end - first) * sizeof *replay->members);
            replay->member_first[kept++] = members;
            members += end - first;
        }
    }
    replay->member_first[kept] = members;
    replay->group_count = kept;
}

static enum orr_status make_groups(struct orr_replay *replay) {
    size_t count = replay->events->collective_count, members = 0;
    for (size_t i = 0; i < replay->item_count; i++) {
        members += replay->items[i].group != ORR_EVENTS_NONE;
    }
    replay->member_first = orr_memory_alloc(replay->memory, (count + 2) * sizeof(size_t));
    replay->members = orr_memory_alloc(replay->memory, (members + 1) * sizeof(uint32_t));
    if (!replay->member_first || !replay->members) {
        return ORR_NO_MEMORY;
    }
    size_t *first = replay->member_first + 1;
    for (size_t i = 0; i < replay->item_count; i++) {
        if (replay->items[i].group != ORR_EVENTS_NONE) {
            first[replay->items[i].group]++;
        }
    }
    size_t sum = 0;
    for (size_t c = 0; c < count; c++) { /* first[c]: where c's members begin, then their end */
        size_t here = first[c];
        first[c] = sum;
        sum += here;
    }
    for (size_t i = 0; i < replay->item_count; i++) {
        if (replay->items[i].group != ORR_EVENTS_NONE) {
            replay->members[first[replay->items[i].group]++] = (uint32_t)i;
        }
    }
    keep_joined(replay, count);
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Observed values */

static int64_t group_start(const struct orr_replay *replay, uint32_t group) {
    int64_t last = INT64_MIN;
    for (size_t m = replay->member_first[group]; m < replay->member_first[group + 1]; m++) {
        last = orr__max_ns(last, replay->items[replay->members[m]].start_ns);
    }
    return last;
}

/* The latest of what a node waits for, as observed, INT64_MIN for nothing. */
static int64_t observed_base(const struct orr_replay *replay, size_t node) {
    int64_t base = INT64_MIN;
    for (size_t e = replay->edge_first[node]; e < replay->edge_first[node + 1]; e++) {
        base = orr__max_ns(base, source_ns(replay, &replay->edges[e]));
    }
    return base;
}

static void observe_points(struct orr_replay *replay) {
    for (size_t p = 0; p < replay->point_count; p++) {
        const struct orr_replay_point *point = &replay->points[p];
        int64_t base = observed_base(replay, p);
        if (!point->first) {
            base = orr__max_ns(base, point[-1].observed_ns);
        }
        replay->values.delta[p] = point->observed_ns - (base == INT64_MIN ? 0 : base);
    }
}

static void observe_items(struct orr_replay *replay) {
    const struct orr_events *events = replay->events;
    for (size_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        int64_t base = observed_base(replay, replay->point_count + i), offset = 0;
        if (item->point != ORR_EVENTS_NONE) {
            int64_t point_ns = replay->points[item->point].observed_ns;
            const struct orr_replay_call *call = &replay->calls[item->call];
            uint32_t device = events->streams[item->stream].device;
            offset = item->latent                       ? replay->latency_ns[device]
                     : item->point == call->begin_point ? item->start_ns - call->begin_ns
                                                        : 0;
            base = orr__max_ns(base, point_ns + offset);
        }
        replay->values.offset[i] = offset;
        replay->values.lag[i] = base == INT64_MIN || item->pinned ? 0 : item->start_ns - base;
        replay->values.duration[i] =
            item->end_ns -
            (item->group == ORR_EVENTS_NONE ? item->start_ns : group_start(replay, item->group));
    }
}

/* ------------------------------------------------------------------------------------------------
 * Values and times */

enum orr_status orr_replay_values_copy(const struct orr_replay *replay,
                                       struct orr_replay_values *out_values) {
    const struct orr_memory *memory = replay->memory;
    const struct orr_replay_values *from = &replay->values;
    size_t points = replay->point_count, items = replay->item_count;
    *out_values =
        (struct orr_replay_values){.delta = orr_memory_alloc(memory, points * sizeof(int64_t)),
                                   .lag = orr_memory_alloc(memory, items * sizeof(int64_t)),
                                   .offset = orr_memory_alloc(memory, items * sizeof(int64_t)),
                                   .duration = orr_memory_alloc(memory, items * sizeof(int64_t)),
                                   .fraction = orr_memory_alloc(memory, items * sizeof(int32_t))};
    if (!out_values->delta || !out_values->lag || !out_values->offset || !out_values->duration ||
        !out_values->fraction) {
        orr_replay_values_free(memory, out_values);
        return ORR_NO_MEMORY;
    }
    if (from->delta) {
        memcpy(out_values->delta, from->delta, points * sizeof(int64_t));
        memcpy(out_values->lag, from->lag, items * sizeof(int64_t));
        memcpy(out_values->offset, from->offset, items * sizeof(int64_t));
        memcpy(out_values->duration, from->duration, items * sizeof(int64_t));
        memcpy(out_values->fraction, from->fraction, items * sizeof(int32_t));
    }
    return ORR_OK;
}

void orr_replay_values_free(const struct orr_memory *memory, struct orr_replay_values *values) {
    orr_memory_free(memory, values->delta);
    orr_memory_free(memory, values->lag);
    orr_memory_free(memory, values->offset);
    orr_memory_free(memory, values->duration);
    orr_memory_free(memory, values->fraction);
    *values = (struct orr_replay_values){0};
}

enum orr_status orr_replay_times_create(const struct orr_replay *replay,
                                        struct orr_replay_times *out_times) {
    const struct orr_memory *memory = replay->memory;
    *out_times = (struct orr_replay_times){
        .point = orr_memory_alloc(memory, replay->point_count * sizeof(int64_t)),
        .start = orr_memory_alloc(memory, replay->item_count * sizeof(int64_t)),
        .end = orr_memory_alloc(memory, replay->item_count * sizeof(int64_t)),
        .joined = orr_memory_alloc(memory, replay->group_count * sizeof(int64_t)),
        .carry = orr_memory_alloc(memory, replay->item_count * sizeof(int32_t))};
    if (!out_times->point || !out_times->start || !out_times->end || !out_times->joined ||
        !out_times->carry) {
        orr_replay_times_free(memory, out_times);
        return ORR_NO_MEMORY;
    }
    return ORR_OK;
}

void orr_replay_times_free(const struct orr_memory *memory, struct orr_replay_times *times) {
    orr_memory_free(memory, times->point);
    orr_memory_free(memory, times->start);
    orr_memory_free(memory, times->end);
    orr_memory_free(memory, times->joined);
    orr_memory_free(memory, times->carry);
    *times = (struct orr_replay_times){0};
}

/* ---------------------------------------------------------------------------------------------- */

static enum orr_status map_items(struct orr_replay *replay) {
    replay->item_of =
        orr_memory_resize(replay->memory, NULL, (replay->events->op_count + 1) * sizeof(uint32_t));
    if (!replay->item_of) {
        return ORR_NO_MEMORY;
    }
    for (size_t o = 0; o < replay->events->op_count; o++) {
        replay->item_of[o] = ORR_EVENTS_NONE;
    }
    for (size_t i = 0; i < replay->item_count; i++) {
        if (replay->items[i].op != ORR_EVENTS_NONE) {
            replay->item_of[replay->items[i].op] = (uint32_t)i;
        }
    }
    return ORR_OK;
}

/* From what the filler added to a graph with observed values. */
static enum orr_status finish(struct orr__replay_plan *plan) {
    struct orr_replay *replay = plan->replay;
    enum orr_status status = orr__replay_make_points(plan);
    for (size_t i = 0; i < replay->item_count && status == ORR_OK; i++) {
        anchor(replay, &replay->items[i]);
    }
    if (status == ORR_OK) {
        status = find_latencies(replay, plan->options.latency);
    }
    if (status == ORR_OK) {
        status = make_groups(replay);
    }
    replay->node_count = replay->point_count + replay->item_count + replay->group_count;
    if (status == ORR_OK) {
        status = make_edges(plan);
    }
    if (status == ORR_OK) {
        status = orr__replay_make_order(replay);
    }
    if (status == ORR_OK) {
        status = orr_replay_values_copy(replay, &replay->values);
    }
    if (status == ORR_OK) {
        status = map_items(replay);
    }
    if (status == ORR_OK) {
        observe_points(replay);
        observe_items(replay);
        for (size_t i = 0; i < replay->item_count; i++) {
            bool pinned = replay->items[i].pinned && replay->items[i].op != ORR_EVENTS_NONE;
            replay->pinned_ops += pinned;
        }
    }
    return status;
}

enum orr_status orr_replay_create(const struct orr_events *events,
                                  const struct orr_timeline *timeline,
                                  const struct orr_replay_options *options,
                                  const struct orr_memory *memory, struct orr_replay **out_replay,
                                  struct orr_error *error) {
    assert(events->prepared);
    *out_replay = NULL;
    size_t calls = events->call_count, ops = events->op_count;
    if (calls >= ORR__REPLAY_MAX || ops >= ORR__REPLAY_MAX ||
        (timeline && timeline->command_count >= ORR__REPLAY_MAX / 2)) {
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "replay: %zu ops and %zu calls; at most %u are supported", ops, calls,
                             ORR__REPLAY_MAX - 1);
    }
    struct orr__replay_plan plan = {.replay = orr_memory_alloc(memory, sizeof *plan.replay),
                                    .timeline = timeline,
                                    .memory = memory,
                                    .options = *options};
    enum orr_status status = plan.replay ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        plan.replay->memory = memory;
        plan.replay->events = events;
        status = timeline ? orr__replay_fill_timeline(&plan) : orr__replay_fill_events(&plan);
    }
    if (status == ORR_OK) {
        status = finish(&plan);
    }
    orr_memory_free(memory, plan.links);
    if (status != ORR_OK) {
        orr_replay_destroy(&plan.replay);
        return orr_error_set(error, status, "replay: %zu ops and %zu calls do not fit in memory",
                             ops, calls);
    }
    *out_replay = plan.replay;
    return ORR_OK;
}

void orr_replay_destroy(struct orr_replay **replay) {
    struct orr_replay *r = *replay;
    if (!r) {
        return;
    }
    void *arrays[] = {r->calls, r->points,     r->items,   r->edges,   r->edge_first,
                      r->order, r->latency_ns, r->item_of, r->members, r->member_first};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(r->memory, arrays[i]);
    }
    orr_replay_values_free(r->memory, &r->values);
    orr_memory_free(r->memory, r);
    *replay = NULL;
}
