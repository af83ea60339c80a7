/* straggler=none: the device that takes longest for what several devices run takes what the others
 * take. */
#include <stdio.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"
#include "analyzer/whatif_internal.h"

struct ranking {
    struct orr__whatif_state *state;
    uint32_t *ordinals; /* by op: how many ops of its operator its device had run before */
    uint32_t *order;    /* ops by operator and ordinal: those that are alike are together */
    size_t count;
    int64_t *excess; /* by device: its ops' time above the medians */
};

static uint32_t device_of(const struct ranking *r, uint32_t op) {
    return r->state->events->streams[r->state->events->ops[op].stream].device;
}

static bool is_ranked(const struct ranking *r, uint32_t op) {
    return r->state->events->ops[op].activity != ORR_ACTIVITY_COMM &&
           r->state->replay->item_of[op] != ORR_EVENTS_NONE;
}

static bool alike_before(const void *context, uint32_t a, uint32_t b) {
    const struct ranking *r = context;
    const struct orr_events_op *ops = r->state->events->ops;
    if (ops[a].operator_index != ops[b].operator_index) {
        return ops[a].operator_index < ops[b].operator_index;
    }
    return r->ordinals[a] < r->ordinals[b];
}

static enum orr_status number_ops(struct ranking *r) {
    const struct orr_events *events = r->state->events;
    const struct orr_memory *memory = r->state->replay->memory;
    uint32_t *counts = orr_memory_alloc(memory, events->operator_count * sizeof *counts);
    uint32_t *seen_by = orr_memory_alloc(memory, events->operator_count * sizeof *seen_by);
    enum orr_status status = counts && seen_by ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        for (size_t i = events->device_first[d]; i < events->device_first[d + 1]; i++) {
            uint32_t op = events->device_order[i], row = events->ops[op].operator_index;
            if (!is_ranked(r, op)) {
                continue;
            }
            counts[row] = seen_by[row] == d + 1 ? counts[row] : 0;
            seen_by[row] = d + 1;
            r->ordinals[op] = counts[row]++;
            r->order[r->count++] = op;
        }
    }
    orr_memory_free(memory, counts);
    orr_memory_free(memory, seen_by);
    return status == ORR_OK ? orr__sort_indices(memory, r->order, r->count, alike_before, r)
                            : status;
}

static bool is_shorter(const void *context, uint32_t a, uint32_t b) {
    const struct ranking *r = context;
    const struct orr_replay_values *values = r->state->values;
    uint32_t x = r->state->replay->item_of[a], y = r->state->replay->item_of[b];
    if (values->duration[x] != values->duration[y]) {
        return values->duration[x] < values->duration[y];
    }
    return values->fraction[x] < values->fraction[y];
}

static size_t end_of_alike(const struct ranking *r, size_t first) {
    size_t end = first + 1;
    while (end < r->count && !alike_before(r, r->order[first], r->order[end])) {
        end++;
    }
    return end;
}

/* Sorts what is alike by duration, and sums up who takes longer than the (lower) median. */
static enum orr_status sum_excess(struct ranking *r) {
    const struct orr_replay *replay = r->state->replay;
    enum orr_status status = ORR_OK;
    for (size_t first = 0, end; first < r->count && status == ORR_OK; first = end) {
        end = end_of_alike(r, first);
        status = orr__sort_indices(replay->memory, r->order + first, end - first, is_shorter, r);
        uint32_t middle = replay->item_of[r->order[first + (end - first - 1) / 2]];
        for (size_t i = first; i < end; i++) {
            int64_t more = r->state->values->duration[replay->item_of[r->order[i]]] -
                           r->state->values->duration[middle];
            int64_t *sum = &r->excess[device_of(r, r->order[i])];
            *sum = more > 0 ? orr__add_ns(*sum, more) : *sum;
        }
    }
    return status;
}

/* The ops of one device take the (lower) median of the others' times, where those are shorter. */
static void heal(struct ranking *r, uint32_t device, struct orr_whatif_effect *effect) {
    const struct orr_replay *replay = r->state->replay;
    struct orr_replay_values *values = r->state->values;
    for (size_t first = 0, end; first < r->count; first = end) {
        end = end_of_alike(r, first);
        uint32_t own = ORR_EVENTS_NONE;
        size_t at = 0;
        for (size_t i = first; i < end; i++) {
            if (device_of(r, r->order[i]) == device) {
                own = r->order[i];
                at = i - first;
            }
        }
        if (own == ORR_EVENTS_NONE || end - first < 2) {
            continue;
        }
        size_t middle = (end - first - 2) / 2;
        middle += middle >= at;
        uint32_t from = replay->item_of[r->order[first + middle]], to = replay->item_of[own];
        if (is_shorter(r, r->order[first + middle], own)) {
            values->duration[to] = values->duration[from];
            values->fraction[to] = values->fraction[from];
            effect->affected++;
        }
    }
}

static enum orr_status remove_slowest(struct ranking *r, struct orr_whatif_effect *effect) {
    enum orr_status status = number_ops(r);
    if (status == ORR_OK) {
        status = sum_excess(r);
    }
    uint32_t slowest = 0;
    for (uint32_t d = 1; d < r->state->events->device_count; d++) {
        slowest = r->excess[d] > r->excess[slowest] ? d : slowest;
    }
    effect->total = r->count;
    if (status == ORR_OK && r->state->events->device_count > 0 && r->excess[slowest] > 0) {
        heal(r, slowest, effect);
        snprintf(effect->why, sizeof effect->why,
                 "the slowest is device %u: %lld ns above the "
                 "medians of its ops",
                 (unsigned)r->state->events->devices[slowest].id, (long long)r->excess[slowest]);
    }
    if (status == ORR_OK && effect->affected == 0) {
        effect->answers = false;
        snprintf(effect->why, sizeof effect->why,
                 "no device takes longer than the others for the same ops: who comes late does so "
                 "for its host, or for what it waits for");
    }
    return status;
}

enum orr_status orr__whatif_straggler(struct orr__whatif_state *state,
                                      struct orr_whatif_effect *effect) {
    const struct orr_memory *memory = state->replay->memory;
    size_t ops = state->events->op_count;
    struct ranking r = {
        .state = state,
        .ordinals = orr_memory_alloc(memory, ops * sizeof(uint32_t)),
        .order = orr_memory_alloc(memory, ops * sizeof(uint32_t)),
        .excess = orr_memory_alloc(memory, (state->events->device_count + 1) * sizeof(int64_t))};
    bool all = r.ordinals && r.order && r.excess;
    enum orr_status status = all ? remove_slowest(&r, effect) : ORR_NO_MEMORY;
    orr_memory_free(memory, r.ordinals);
    orr_memory_free(memory, r.order);
    orr_memory_free(memory, r.excess);
    return status;
}
