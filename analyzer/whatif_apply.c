/* Settings that scale what is there: calls, hosts, ops by name, class, bandwidth, transfers. */
#include <stdio.h>
#include <string.h>

#include "analyzer/roofline.h"
#include "analyzer/times.h"
#include "analyzer/whatif_internal.h"

enum { ONE = 1 << ORR_REPLAY_FRACTION_BITS };

static const int64_t TIME_MAX = INT64_C(1) << 61;

int64_t orr__whatif_scale_ns(int64_t ns, uint64_t ppm) {
    orr_u128 scaled = ((orr_u128)(uint64_t)ns * ppm + ORR_WHATIF_MILLION / 2) / ORR_WHATIF_MILLION;
    return scaled > (orr_u128)TIME_MAX ? TIME_MAX : (int64_t)scaled;
}

void orr__whatif_scale_item(struct orr__whatif_state *state, uint32_t item, uint64_t ppm) {
    struct orr_replay_values *values = state->values;
    orr_u128 work = ((orr_u128)(uint64_t)values->duration[item] << ORR_REPLAY_FRACTION_BITS) +
                    (orr_u128)(uint32_t)values->fraction[item];
    orr_u128 scaled = (work * ppm + ORR_WHATIF_MILLION / 2) / ORR_WHATIF_MILLION;
    if (scaled >> ORR_REPLAY_FRACTION_BITS > (orr_u128)TIME_MAX) {
        scaled = (orr_u128)TIME_MAX << ORR_REPLAY_FRACTION_BITS;
    }
    values->duration[item] = (int64_t)(scaled >> ORR_REPLAY_FRACTION_BITS);
    values->fraction[item] = (int32_t)(scaled & (ONE - 1));
}

bool orr_whatif_matches(const char *pattern, const char *name) {
    const char *star = NULL, *again = NULL; /* the last *, and where what it took ends */
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            again = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

/* ------------------------------------------------------------------------------------------------
 * Hosts */

/* What a call takes now, in all, and is to take. */
static int64_t new_cost(const struct orr__whatif_state *state,
                        const struct orr_whatif_setting *setting, int64_t cost_ns) {
    if (cost_ns <= 0) {
        return cost_ns;
    }
    int64_t changed =
        setting->scaled ? orr__whatif_scale_ns(cost_ns, setting->time_ppm) : setting->ns;
    return orr__max_ns(changed, state->least_call_ns);
}

/* The times that thread points belong to, summed by call. */
static int64_t *sum_calls(const struct orr__whatif_state *state, bool launches_only) {
    const struct orr_replay *replay = state->replay;
    int64_t *sums = orr_memory_alloc(replay->memory, replay->call_count * sizeof *sums);
    for (size_t p = 0; p < replay->point_count && sums; p++) {
        const struct orr_replay_point *point = &replay->points[p];
        bool counts = point->doing == ORR_REPLAY_LAUNCHING ||
                      (!launches_only && point->doing == ORR_REPLAY_CALLING);
        if (counts && !point->first && state->values->delta[p] > 0) {
            sums[point->call] = orr__add_ns(sums[point->call], state->values->delta[p]);
        }
    }
    return sums;
}

/* part x to / from, half up; from > 0. */
static int64_t share(int64_t part, int64_t to, int64_t from) {
    orr_u128 product = (orr_u128)(uint64_t)part * (uint64_t)to + (uint64_t)from / 2;
    return (int64_t)(product / (uint64_t)from);
}

/* Intervals inside a call keep their shares of it, and so do ops that start within it. */
static void scale_calls(struct orr__whatif_state *state, const struct orr_whatif_setting *setting,
                        const int64_t *sums, struct orr_whatif_effect *effect) {
    const struct orr_replay *replay = state->replay;
    struct orr_replay_values *values = state->values;
    for (size_t p = 0; p < replay->point_count; p++) {
        const struct orr_replay_point *point = &replay->points[p];
        int64_t sum = point->call == ORR_EVENTS_NONE ? 0 : sums[point->call];
        if (sum > 0 && !point->first && values->delta[p] > 0 &&
            point->doing != ORR_REPLAY_WAITING) {
            values->delta[p] = share(values->delta[p], new_cost(state, setting, sum), sum);
        }
    }
    for (size_t i = 0; i < replay->item_count; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        int64_t sum = item->call == ORR_EVENTS_NONE ? 0 : sums[item->call];
        if (sum > 0 && !item->latent && item->point != ORR_EVENTS_NONE && values->offset[i] > 0) {
            values->offset[i] = share(values->offset[i], new_cost(state, setting, sum), sum);
        }
    }
    for (size_t c = 0; c < replay->call_count; c++) {
        effect->total += replay->calls[c].launching;
        effect->affected += sums[c] > 0;
    }
}

static enum orr_status apply_calls(struct orr__whatif_state *state,
                                   const struct orr_whatif_setting *setting,
                                   struct orr_whatif_effect *effect) {
    bool launches_only = setting->key == ORR_WHATIF_LAUNCH_COST;
    int64_t *sums = sum_calls(state, launches_only);
    if (!sums) {
        return ORR_NO_MEMORY;
    }
    scale_calls(state, setting, sums, effect);
    orr_memory_free(state->replay->memory, sums);
    if (launches_only) {
        return ORR_OK;
    }
    *effect = (struct orr_whatif_effect){.answers = true};
    for (size_t p = 0; p < state->replay->point_count; p++) {
        const struct orr_replay_point *point = &state->replay->points[p];
        effect->total++;
        effect->affected += point->doing != ORR_REPLAY_WAITING && !point->first;
        if (point->doing == ORR_REPLAY_THINKING && !point->first) {
            state->values->delta[p] =
                orr__whatif_scale_ns(state->values->delta[p], setting->time_ppm);
        }
    }
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Ops */

static bool is_meant(const struct orr__whatif_state *state,
                     const struct orr_whatif_setting *setting, const struct orr_events_op *op) {
    switch (setting->key) {
    case ORR_WHATIF_KERNEL:
        return orr_whatif_matches(setting->name, op->name) ||
               orr_whatif_matches(setting->name, state->events->operators[op->operator_index].name);
    case ORR_WHATIF_CLASS:
        return op->activity == (strcmp(setting->name, "compute") == 0 ? ORR_ACTIVITY_COMPUTE
                                : strcmp(setting->name, "comm") == 0  ? ORR_ACTIVITY_COMM
                                                                      : ORR_ACTIVITY_COPY);
    default: return op->activity == ORR_ACTIVITY_COMM;
    }
}

/* Lets whoever knows the machine say what an op takes then, unless another setting has changed it
 * before; false if nobody does. */
static bool ask_machine(struct orr__whatif_state *state, const struct orr_whatif_setting *setting,
                        uint32_t o, uint32_t item) {
    struct orr_replay_values *values = state->values;
    const struct orr_replay_values *before = &state->replay->values;
    bool untouched = values->duration[item] == before->duration[item] &&
                     values->fraction[item] == before->fraction[item] &&
                     values->duration[item] < INT64_C(1) << 42;
    if (!state->options->changed || !untouched) {
        return false;
    }
    int64_t work = values->duration[item] * ONE + values->fraction[item];
    int64_t changed =
        state->options->changed(state->options->context, setting, state->events, o, work);
    if (changed < 0) {
        return false;
    }
    values->duration[item] = changed >> ORR_REPLAY_FRACTION_BITS;
    values->fraction[item] = (int32_t)(changed & (ONE - 1));
    return true;
}

static void apply_ops(struct orr__whatif_state *state, const struct orr_whatif_setting *setting,
                      struct orr_whatif_effect *effect) {
    uint64_t whole = 0;
    bool links = setting->key == ORR_WHATIF_NETWORK;
    for (uint32_t o = 0; o < state->events->op_count; o++) {
        const struct orr_events_op *op = &state->events->ops[o];
        uint32_t item = state->replay->item_of[o];
        effect->total++;
        if (item != ORR_EVENTS_NONE && links && ask_machine(state, setting, o, item)) {
            effect->affected++;
            continue;
        }
        if (item == ORR_EVENTS_NONE || !is_meant(state, setting, op)) {
            continue;
        }
        effect->affected++;
        whole += op->activity == ORR_ACTIVITY_COMM &&
                 state->replay->items[item].group == ORR_EVENTS_NONE;
        orr__whatif_scale_item(state, item, setting->time_ppm);
    }
    if (effect->affected == 0) {
        effect->answers = false;
        snprintf(effect->why, sizeof effect->why, "no op of the trace is meant by it");
    } else if (whole > 0) {
        snprintf(effect->why, sizeof effect->why,
                 "%llu of its communication ops have no other members in the trace: waiting for "
                 "them is scaled, too",
                 (unsigned long long)whole);
    }
}

static struct orr_roof roof_of(const struct orr__whatif_state *state, uint32_t o) {
    const struct orr_events_op *op = &state->events->ops[o];
    const struct orr_events_operator *row = &state->events->operators[op->operator_index];
    const struct orr_analysis_options *options = &state->whatif->analysis->options;
    uint32_t device = state->events->streams[op->stream].device;
    return (struct orr_roof){
        .flops = op->flops,
        .bytes = (orr_u128)op->bytes_read + op->bytes_written,
        .time_ns = op->end_ns - op->start_ns,
        .ops = 1,
        .peak = orr__peak_of(state->events, options, device, row->unit, row->dtype),
        .bandwidth = orr__bandwidth_of(state->events, options, device)};
}

bool orr__whatif_memory_side(const struct orr__whatif_state *state, uint32_t o) {
    struct orr_roof roof = roof_of(state, o);
    return state->events->ops[o].has_cost &&
           state->events->ops[o].activity == ORR_ACTIVITY_COMPUTE && roof.bytes > 0 &&
           roof.bandwidth > 0 && !orr_roof_right(&roof);
}

/* Millionths of its time that an op's arithmetic needs at its peak. */
static uint64_t arithmetic_ppm(const struct orr__whatif_state *state, uint32_t o) {
    struct orr_roof roof = roof_of(state, o);
    if (roof.flops == 0 || roof.peak == 0 || roof.time_ns <= 0) {
        return 0;
    }
    const uint64_t second = 1000000000;
    orr_u128 needed = roof.flops * second / roof.peak * ORR_WHATIF_MILLION;
    orr_u128 ppm = needed / (uint64_t)roof.time_ns;
    return ppm > ORR_WHATIF_MILLION ? ORR_WHATIF_MILLION : (uint64_t)ppm;
}

static void apply_bandwidth(struct orr__whatif_state *state,
                            const struct orr_whatif_setting *setting,
                            struct orr_whatif_effect *effect) {
    for (uint32_t o = 0; o < state->events->op_count; o++) {
        uint32_t item = state->replay->item_of[o];
        effect->total += state->events->ops[o].activity == ORR_ACTIVITY_COMPUTE;
        if (item != ORR_EVENTS_NONE && ask_machine(state, setting, o, item)) {
            effect->affected++;
            continue;
        }
        if (item == ORR_EVENTS_NONE || !orr__whatif_memory_side(state, o)) {
            continue;
        }
        uint64_t least = arithmetic_ppm(state, o);
        effect->affected++;
        orr__whatif_scale_item(state, item, setting->time_ppm > least ? setting->time_ppm : least);
    }
    if (effect->affected == 0) {
        effect->answers = false;
        snprintf(effect->why, sizeof effect->why,
                 "no op is known to be bound by memory: costs, or the device's peaks, are not in "
                 "the trace");
    }
}

enum orr_status orr__whatif_apply(struct orr__whatif_state *state,
                                  const struct orr_whatif_setting *setting,
                                  struct orr_whatif_effect *effect) {
    *effect = (struct orr_whatif_effect){.answers = true};
    switch (setting->key) {
    case ORR_WHATIF_LAUNCH_COST:
    case ORR_WHATIF_HOST: return apply_calls(state, setting, effect);
    case ORR_WHATIF_BANDWIDTH: apply_bandwidth(state, setting, effect); return ORR_OK;
    case ORR_WHATIF_OVERLAP:
        state->hide_comm = true;
        for (size_t o = 0; o < state->events->op_count; o++) {
            effect->total++;
            effect->affected += state->events->ops[o].activity == ORR_ACTIVITY_COMM;
        }
        return ORR_OK;
    case ORR_WHATIF_STRAGGLER: return orr__whatif_straggler(state, effect);
    case ORR_WHATIF_GRAPH: return orr__whatif_graph(state, effect);
    case ORR_WHATIF_FUSE: return orr__whatif_fuse(state, setting, effect);
    default: apply_ops(state, setting, effect); return ORR_OK;
    }
}
