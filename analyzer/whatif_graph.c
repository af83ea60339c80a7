/* Settings that join launches: captured graphs, and fusion of chains. */
#include <stdio.h>
#include <string.h>

#include "analyzer/times.h"
#include "analyzer/whatif_internal.h"

/* ------------------------------------------------------------------------------------------------
 * Captured graphs */

/* Launches of one thread that follow each other. */
struct series {
    uint32_t first, last; /* calls */
    uint32_t count;
};

struct capture {
    struct orr__whatif_state *state;
    uint32_t *begins;  /* by point: the call that begins there, or NONE */
    uint8_t *captured; /* by call: 1 the first of a graph, 2 in one behind it */
    struct orr_whatif_effect *effect;
};

/* What the host does between the first launch's return and the last one's takes no time. */
static void capture_series(struct capture *c, const struct series *series) {
    const struct orr_replay *replay = c->state->replay;
    struct orr_replay_values *values = c->state->values;
    if (series->count < 2) {
        return;
    }
    uint32_t begin = replay->calls[series->first].begin_point;
    uint32_t end = replay->calls[series->first].end_point;
    uint32_t last = replay->calls[series->last].end_point;
    if (c->state->options->graph_launch_ns > 0) {
        for (uint32_t p = begin + 1; p < end; p++) {
            values->delta[p] = 0;
        }
        values->delta[end] = c->state->options->graph_launch_ns;
    }
    for (uint32_t p = end + 1; p <= last; p++) {
        uint32_t call = c->begins[p];
        values->delta[p] = 0;
        if (call != ORR_EVENTS_NONE && replay->calls[call].launching) {
            c->captured[call] = 2;
        }
    }
    c->captured[series->first] = 1;
    c->effect->affected += series->count;
}

static bool can_be_captured(const struct orr_replay_call *call) {
    return !call->waiting && !call->breaking && !call->graph;
}

static void find_series(struct capture *c) {
    const struct orr_replay *replay = c->state->replay;
    struct series series = {0};
    for (uint32_t p = 0; p < replay->point_count; p++) {
        uint32_t call = c->begins[p];
        bool ends = replay->points[p].first ||
                    (call != ORR_EVENTS_NONE && !can_be_captured(&replay->calls[call]));
        if (ends) {
            capture_series(c, &series);
            series = (struct series){0};
        }
        if (call == ORR_EVENTS_NONE || !replay->calls[call].launching ||
            !can_be_captured(&replay->calls[call])) {
            continue;
        }
        series.first = series.count == 0 ? call : series.first;
        series.last = call;
        series.count++;
    }
    capture_series(c, &series);
}

/* What held an op back, other than its call, as observed. */
static int64_t bound_by_others(const struct orr_replay *replay, uint32_t item) {
    size_t node = replay->point_count + item;
    int64_t latest = INT64_MIN;
    for (size_t e = replay->edge_first[node]; e < replay->edge_first[node + 1]; e++) {
        const struct orr_replay_edge *edge = &replay->edges[e];
        int64_t time = edge->kind == ORR_REPLAY_ITEM_END     ? replay->items[edge->source].end_ns
                       : edge->kind == ORR_REPLAY_ITEM_START ? replay->items[edge->source].start_ns
                                                             : INT64_MIN;
        latest = orr__max_ns(latest, time);
    }
    return latest;
}

/* A node follows what is before it at once, or behind the machine's gap; what the device took to
 * react to a launch of its own is gone. */
static void place_nodes(struct capture *c) {
    const struct orr_replay *replay = c->state->replay;
    struct orr_replay_values *values = c->state->values;
    int64_t gap = c->state->options->graph_node_ns;
    for (uint32_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        if (item->op == ORR_EVENTS_NONE || item->call == ORR_EVENTS_NONE || item->pinned ||
            c->captured[item->call] != 2) {
            continue;
        }
        bool by_call = bound_by_others(replay, i) < item->start_ns - values->lag[i];
        values->lag[i] = gap > 0 ? gap : by_call ? 0 : values->lag[i];
        values->offset[i] = item->latent ? values->offset[i] : 0;
    }
}

enum orr_status orr__whatif_graph(struct orr__whatif_state *state,
                                  struct orr_whatif_effect *effect) {
    const struct orr_replay *replay = state->replay;
    const struct orr_memory *memory = replay->memory;
    struct capture c = {
        .state = state,
        .begins = orr_memory_resize(memory, NULL, (replay->point_count + 1) * sizeof(uint32_t)),
        .captured = orr_memory_alloc(memory, replay->call_count),
        .effect = effect};
    enum orr_status status = c.begins && c.captured ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        for (size_t p = 0; p < replay->point_count; p++) {
            c.begins[p] = ORR_EVENTS_NONE;
        }
        for (uint32_t i = 0; i < replay->call_count; i++) {
            c.begins[replay->calls[i].begin_point] = i;
            effect->total += replay->calls[i].launching;
        }
        find_series(&c);
        place_nodes(&c);
    }
    if (effect->affected == 0) {
        effect->answers = false;
        snprintf(effect->why, sizeof effect->why,
                 "no two launches of a thread follow each other without a wait, an allocation or "
                 "a graph in between");
    }
    orr_memory_free(memory, c.begins);
    orr_memory_free(memory, c.captured);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Fusion */

struct fusion {
    struct orr__whatif_state *state;
    char names[ORR_WHATIF_NAME_MAX]; /* of the chain, each with its NUL */
    size_t name_count;
    bool elementwise;
    uint32_t *waits_before; /* by point: intervals of waiting up to it, from the first point on */
    struct orr_whatif_effect *effect;
};

static const char *chain_name(const struct fusion *f, size_t index) {
    const char *name = f->names;
    for (; index > 0; index--) {
        name += strlen(name) + 1;
    }
    return name;
}

/* Is the op what stands at this place of a chain? */
static bool fits(const struct fusion *f, uint32_t item, size_t place) {
    const struct orr_events *events = f->state->events;
    uint32_t op = f->state->replay->items[item].op;
    if (op == ORR_EVENTS_NONE || events->ops[op].activity != ORR_ACTIVITY_COMPUTE) {
        return false;
    }
    const struct orr_events_operator *row = &events->operators[events->ops[op].operator_index];
    if (f->elementwise) {
        return strcmp(row->kind, "pointwise") == 0 ||
               orr_whatif_matches("*elementwise*", events->ops[op].name);
    }
    const char *name = chain_name(f, place);
    return orr_whatif_matches(name, row->name) || orr_whatif_matches(name, events->ops[op].name);
}

/* The second follows the first in its stream, behind nothing else, and its thread waited for
 * nothing in between. */
static bool follows(const struct fusion *f, uint32_t second) {
    const struct orr_replay *replay = f->state->replay;
    const struct orr_replay_item *b = &replay->items[second], *a = b - 1;
    size_t node = replay->point_count + second;
    if (a->stream != b->stream || a->pinned || b->pinned || a->call == ORR_EVENTS_NONE ||
        b->call == ORR_EVENTS_NONE || a->call == b->call ||
        replay->edge_first[node + 1] - replay->edge_first[node] != 1) {
        return false;
    }
    const struct orr_replay_call *x = &replay->calls[a->call], *y = &replay->calls[b->call];
    return x->thread == y->thread && x->end_point < y->begin_point && !y->graph && !y->waiting &&
           f->waits_before[x->end_point] == f->waits_before[y->begin_point];
}

/* Bytes that a fused op neither writes nor reads, taken off its time, if memory bounds it. */
static void save_traffic(const struct fusion *f, uint32_t item, uint64_t bytes) {
    const struct orr_events_op *op = &f->state->events->ops[f->state->replay->items[item].op];
    orr_u128 all = (orr_u128)op->bytes_read + op->bytes_written;
    if (bytes == 0 || all == 0 ||
        !orr__whatif_memory_side(f->state, f->state->replay->items[item].op)) {
        return;
    }
    orr_u128 left = all > bytes ? all - bytes : 0;
    orr__whatif_scale_item(f->state, item, (uint64_t)(left * ORR_WHATIF_MILLION / all));
}

static uint64_t handed_on(const struct fusion *f, uint32_t first) {
    const struct orr_events *events = f->state->events;
    const struct orr_replay_item *items = f->state->replay->items;
    const struct orr_events_op *a = &events->ops[items[first].op];
    const struct orr_events_op *b = &events->ops[items[first + 1].op];
    bool known = a->has_cost && b->has_cost;
    return !known ? 0 : a->bytes_written < b->bytes_read ? a->bytes_written : b->bytes_read;
}

/* The first of the chain takes the time of all; the others, and their calls, take none. */
static void fuse_chain(struct fusion *f, uint32_t first, uint32_t count) {
    struct orr_replay *replay = f->state->replay;
    struct orr_replay_values *values = f->state->values;
    for (uint32_t i = first; i < first + count; i++) {
        uint64_t read = i > first ? handed_on(f, i - 1) : 0;
        uint64_t written = i + 1 < first + count ? handed_on(f, i) : 0;
        save_traffic(f, i, read > UINT64_MAX - written ? UINT64_MAX : read + written);
    }
    for (uint32_t i = first + 1; i < first + count; i++) {
        int32_t fraction = values->fraction[first] + values->fraction[i];
        values->duration[first] = orr__add_ns(values->duration[first], values->duration[i]) +
                                  (fraction >> ORR_REPLAY_FRACTION_BITS);
        values->fraction[first] = fraction & ((1 << ORR_REPLAY_FRACTION_BITS) - 1);
        values->duration[i] = values->lag[i] = 0;
        values->fraction[i] = 0;
        values->offset[i] = replay->items[i].latent ? values->offset[i] : 0;
        const struct orr_replay_call *call = &replay->calls[replay->items[i].call];
        for (uint32_t p = call->begin_point + 1; p <= call->end_point; p++) {
            values->delta[p] = 0;
        }
        if (replay->points[call->begin_point].doing == ORR_REPLAY_THINKING) {
            values->delta[call->begin_point] = 0; /* what led to that call */
        }
    }
    f->effect->affected += count;
}

static void find_chains(struct fusion *f) {
    const struct orr_replay *replay = f->state->replay;
    uint32_t next;
    for (uint32_t i = 0; i < replay->item_count; i = next) {
        uint32_t count = 0;
        while (i + count < replay->item_count && (f->elementwise || count < f->name_count) &&
               fits(f, i + count, count) && (count == 0 || follows(f, i + count))) {
            count++;
        }
        bool whole = f->elementwise ? count >= 2 : count == f->name_count;
        next = i + (whole ? count : 1);
        if (whole) {
            fuse_chain(f, i, count);
        }
    }
}

static void read_chain(struct fusion *f, const char *text) {
    f->elementwise = strcmp(text, "elementwise") == 0;
    memcpy(f->names, text, strlen(text) + 1);
    f->name_count = 1;
    for (char *at = f->names; (at = strchr(at, '+')) != NULL; at++) {
        *at = '\0';
        f->name_count++;
    }
}

enum orr_status orr__whatif_fuse(struct orr__whatif_state *state,
                                 const struct orr_whatif_setting *setting,
                                 struct orr_whatif_effect *effect) {
    const struct orr_replay *replay = state->replay;
    struct fusion f = {.state = state,
                       .effect = effect,
                       .waits_before = orr_memory_resize(
                           replay->memory, NULL, (replay->point_count + 1) * sizeof(uint32_t))};
    if (!f.waits_before) {
        return ORR_NO_MEMORY;
    }
    uint32_t waits = 0;
    for (size_t p = 0; p < replay->point_count; p++) {
        waits += replay->points[p].doing == ORR_REPLAY_WAITING;
        f.waits_before[p] = waits;
    }
    read_chain(&f, setting->name);
    find_chains(&f);
    effect->total = state->events->op_count;
    if (effect->affected == 0) {
        effect->answers = false;
        snprintf(effect->why, sizeof effect->why,
                 "no ops of these names follow each other in a stream with nothing in between");
    }
    orr_memory_free(replay->memory, f.waits_before);
    return ORR_OK;
}
