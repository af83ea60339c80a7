#include "analyzer/whatif.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/launch.h"
#include "analyzer/replay_internal.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"
#include "analyzer/whatif_internal.h"

enum { PINNED_PERCENT_MAX = 10 }; /* of the ops: above, what is left to move says too little */

const char *orr_whatif_assumption(enum orr_whatif_key key) {
    switch (key) {
    case ORR_WHATIF_LAUNCH_COST: return "time between calls, and from call to start, stays";
    case ORR_WHATIF_HOST: return "calls and the time between them shrink alike; waiting stays";
    case ORR_WHATIF_KERNEL:
    case ORR_WHATIF_CLASS: return "what runs beside these ops is neither slowed down nor sped up";
    case ORR_WHATIF_BANDWIDTH: return "an op left of the ridge takes its time from memory alone";
    case ORR_WHATIF_NETWORK: return "latency and bandwidth of links improve alike";
    case ORR_WHATIF_OVERLAP:
        return "a ceiling: compute is not slowed down by the communication beside it";
    case ORR_WHATIF_STRAGGLER: return "hosts, links and the other devices stay as they are";
    case ORR_WHATIF_GRAPH: return "shapes and addresses do not change, and the graph exists";
    case ORR_WHATIF_FUSE: return "one kernel can do it, at the speed of its parts";
    default: return "";
    }
}

void orr_whatif_destroy(struct orr_whatif **whatif) {
    struct orr_whatif *w = *whatif;
    if (!w) {
        return;
    }
    if (w->replay) {
        orr_replay_times_free(w->memory, &w->times);
    }
    orr_replay_destroy(&w->replay);
    orr_memory_free(w->memory, w->devices);
    orr_memory_free(w->memory, w);
    *whatif = NULL;
}

enum orr_path_kind orr_whatif_limit(const struct orr_whatif *whatif) {
    int most = 0;
    for (int k = 1; k < ORR_PATH_COUNT; k++) {
        most = whatif->path_after[k] > whatif->path_after[most] ? k : most;
    }
    return (enum orr_path_kind)most;
}

/* ------------------------------------------------------------------------------------------------
 * Communication that delays nothing */

struct hidden {
    int64_t *streams; /* by stream: its communication, as the settings left it */
};

static enum orr_status hide_comm(struct orr__whatif_state *state, struct hidden *hidden) {
    const struct orr_events *events = state->events;
    hidden->streams =
        orr_memory_alloc(state->replay->memory, events->stream_count * sizeof(int64_t));
    if (!hidden->streams) {
        return ORR_NO_MEMORY;
    }
    for (size_t o = 0; o < events->op_count; o++) {
        uint32_t item = state->replay->item_of[o];
        if (events->ops[o].activity == ORR_ACTIVITY_COMM && item != ORR_EVENTS_NONE) {
            int64_t *sum = &hidden->streams[events->ops[o].stream];
            *sum = orr__add_ns(*sum, state->values->duration[item]);
            state->values->duration[item] = state->values->lag[item] = 0;
            state->values->fraction[item] = 0;
        }
    }
    return ORR_OK;
}

/* A device takes as long as its longest stream of communication. */
static void keep_busy(struct orr_whatif *whatif, const struct hidden *hidden) {
    const struct orr_events *events = &whatif->analysis->events;
    for (size_t s = 0; s < events->stream_count; s++) {
        struct orr_whatif_window *window = &whatif->devices[events->streams[s].device];
        window->predicted_end_ns =
            orr__max_ns(window->predicted_end_ns,
                        orr__replay_add(window->predicted_begin_ns, hidden->streams[s]));
        whatif->all.predicted_end_ns =
            orr__max_ns(whatif->all.predicted_end_ns, window->predicted_end_ns);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Windows, and ops that come to overlap */

/* Windows of all devices in one pass. */
static void set_windows(struct orr_whatif *whatif) {
    const struct orr_events *events = &whatif->analysis->events;
    const struct orr_replay *replay = whatif->replay;
    const struct orr_whatif_window empty = {INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN};
    for (size_t d = 0; d < events->device_count; d++) {
        whatif->devices[d] = empty;
    }
    whatif->all = empty;
    for (size_t o = 0; o < events->op_count; o++) {
        const struct orr_events_op *op = &events->ops[o];
        uint32_t item = replay->item_of[o];
        struct orr_whatif_window *windows[] = {&whatif->devices[events->streams[op->stream].device],
                                               &whatif->all};
        for (int w = 0; w < 2 && item != ORR_EVENTS_NONE; w++) {
            struct orr_whatif_window *window = windows[w];
            window->begin_ns = orr__min_ns(window->begin_ns, op->start_ns);
            window->end_ns = orr__max_ns(window->end_ns, op->end_ns);
            window->predicted_begin_ns =
                orr__min_ns(window->predicted_begin_ns, whatif->times.start[item]);
            window->predicted_end_ns =
                orr__max_ns(window->predicted_end_ns, whatif->times.end[item]);
        }
    }
    for (size_t d = 0; d <= events->device_count; d++) {
        struct orr_whatif_window *window =
            d < events->device_count ? &whatif->devices[d] : &whatif->all;
        *window = window->begin_ns == INT64_MAX ? (struct orr_whatif_window){0} : *window;
    }
}

struct starts {
    const int64_t *start, *end; /* by op */
};

static bool starts_before(const void *context, uint32_t a, uint32_t b) {
    const struct starts *s = context;
    return s->start[a] < s->start[b];
}

/* Marks ops of a device that run beside another one. */
static enum orr_status mark_overlaps(const struct orr_events *events, uint32_t device,
                                     const struct starts *s, uint32_t *order, uint8_t *marks,
                                     uint8_t bit) {
    size_t count = events->device_first[device + 1] - events->device_first[device];
    memcpy(order, events->device_order + events->device_first[device], count * sizeof *order);
    enum orr_status status = orr__sort_indices(events->memory, order, count, starts_before, s);
    uint32_t longest = ORR_EVENTS_NONE;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        uint32_t op = order[i];
        if (s->start[op] == s->end[op]) {
            continue;
        }
        if (longest != ORR_EVENTS_NONE && s->start[op] < s->end[longest]) {
            marks[op] |= bit;
            marks[longest] |= bit;
        }
        longest = longest == ORR_EVENTS_NONE || s->end[op] > s->end[longest] ? op : longest;
    }
    return status;
}

/* Ops that ran beside others and will not, or will and did not: how fast they are would change. */
static enum orr_status count_overlaps(struct orr_whatif *whatif) {
    const struct orr_events *events = &whatif->analysis->events;
    const struct orr_memory *memory = whatif->memory;
    size_t ops = events->op_count;
    int64_t *times = orr_memory_alloc(memory, 4 * ops * sizeof *times);
    uint32_t *order = orr_memory_alloc(memory, ops * sizeof *order);
    uint8_t *marks = orr_memory_alloc(memory, ops);
    enum orr_status status = times && order && marks ? ORR_OK : ORR_NO_MEMORY;
    for (size_t o = 0; o < ops && status == ORR_OK; o++) {
        uint32_t item = whatif->replay->item_of[o];
        bool known = item != ORR_EVENTS_NONE;
        times[o] = events->ops[o].start_ns;
        times[ops + o] = events->ops[o].end_ns;
        times[2 * ops + o] = known ? whatif->times.start[item] : times[o];
        times[3 * ops + o] = known ? whatif->times.end[item] : times[ops + o];
    }
    for (int after = 0; after < 2; after++) {
        struct starts s = {times + (after ? 2 * ops : 0), times + (after ? 3 * ops : ops)};
        for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
            status = mark_overlaps(events, d, &s, order, marks, after ? 2 : 1);
        }
    }
    for (size_t o = 0; o < ops && status == ORR_OK; o++) {
        whatif->overlap_changed += marks[o] == 1 || marks[o] == 2;
    }
    orr_memory_free(memory, times);
    orr_memory_free(memory, order);
    orr_memory_free(memory, marks);
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

/* Exact works of those ops whose machine is known. */
static enum orr_status refine(struct orr_whatif *whatif, const struct orr_whatif_options *options) {
    struct orr_replay *replay = whatif->replay;
    if (!options->work) {
        return ORR_OK;
    }
    int64_t *work =
        orr_memory_resize(whatif->memory, NULL, (replay->item_count + 1) * sizeof *work);
    if (!work) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < replay->item_count; i++) {
        uint32_t op = replay->items[i].op;
        work[i] = op == ORR_EVENTS_NONE
                      ? -1
                      : options->work(options->context, &whatif->analysis->events, op);
    }
    enum orr_status status = orr_replay_refine(replay, work, &whatif->refined);
    orr_memory_free(whatif->memory, work);
    return status;
}

static void abstain(struct orr_whatif *whatif) {
    whatif->answers = true;
    if (whatif->ops == 0) {
        whatif->answers = false;
        snprintf(whatif->why, sizeof whatif->why, "the trace has no op of a device");
    } else if (orr__share_exceeds((int64_t)whatif->pinned, PINNED_PERCENT_MAX,
                                  (int64_t)whatif->ops)) {
        whatif->answers = false;
        snprintf(whatif->why, sizeof whatif->why,
                 "%llu of %llu ops have no call, start before it, or wait in a circle: more than "
                 "%d %% stay where they were whatever changes",
                 (unsigned long long)whatif->pinned, (unsigned long long)whatif->ops,
                 PINNED_PERCENT_MAX);
    } else if (whatif->replay_error_ns != 0) {
        whatif->answers = false;
        snprintf(whatif->why, sizeof whatif->why,
                 "the unchanged replay differs from the trace by up to %lld ns",
                 (long long)whatif->replay_error_ns);
    }
    for (size_t i = 0; i < whatif->setting_count && whatif->answers; i++) {
        if (!whatif->effects[i].answers) {
            whatif->answers = false;
            snprintf(whatif->why, sizeof whatif->why, "%.60s: %.130s", whatif->settings[i].text,
                     whatif->effects[i].why);
        }
    }
}

static void walk(const struct orr_whatif *whatif, const struct orr_replay_values *values,
                 int64_t *out_kinds) {
    int64_t begin_ns = 0, end_ns = 0;
    for (int k = 0; k < ORR_PATH_COUNT; k++) {
        out_kinds[k] = 0;
    }
    if (orr_replay_window(whatif->replay, &whatif->times, ORR_EVENTS_NONE, &begin_ns, &end_ns)) {
        orr_replay_path(whatif->replay, values, &whatif->times, begin_ns, out_kinds);
    }
}

/* What the settings, in the order in which they were given, make of the values. */
static enum orr_status predict(struct orr_whatif *whatif, const struct orr_whatif_options *options,
                               struct orr_replay_values *values) {
    const struct orr_events *events = &whatif->analysis->events;
    bool own = strcmp(events->source.format, "orrery") == 0;
    struct orr__whatif_state state = {.whatif = whatif,
                                      .options = options,
                                      .events = events,
                                      .replay = whatif->replay,
                                      .values = values,
                                      .least_call_ns = own ? 1 : 0};
    struct hidden hidden = {0};
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < whatif->setting_count && status == ORR_OK; i++) {
        status = orr__whatif_apply(&state, &whatif->settings[i], &whatif->effects[i]);
    }
    if (status == ORR_OK && state.hide_comm) {
        status = hide_comm(&state, &hidden);
    }
    if (status == ORR_OK) {
        orr_replay_run(whatif->replay, values, &whatif->times);
        walk(whatif, values, whatif->path_after);
        set_windows(whatif);
        if (state.hide_comm) {
            keep_busy(whatif, &hidden);
        }
        status = count_overlaps(whatif);
    }
    orr_memory_free(whatif->memory, hidden.streams);
    return status;
}

static enum orr_status compute(struct orr_whatif *whatif,
                               const struct orr_whatif_options *options) {
    struct orr_replay *replay = whatif->replay;
    struct orr_replay_values values = {0};
    enum orr_status status = refine(whatif, options);
    if (status == ORR_OK) {
        status = orr_replay_times_create(replay, &whatif->times);
    }
    if (status == ORR_OK) {
        orr_replay_run(replay, &replay->values, &whatif->times);
        whatif->replay_error_ns = orr_replay_difference(replay, &whatif->times);
        walk(whatif, &replay->values, whatif->path_before);
        status = orr_replay_values_copy(replay, &values);
    }
    if (status == ORR_OK) {
        status = predict(whatif, options, &values);
    }
    orr_replay_values_free(whatif->memory, &values);
    whatif->ops = whatif->analysis->events.op_count;
    whatif->pinned = replay->pinned_ops;
    abstain(whatif);
    return status;
}

enum orr_status orr_whatif_compute(const struct orr_analysis *analysis,
                                   const struct orr_whatif_setting *settings, size_t count,
                                   const struct orr_whatif_options *options,
                                   const struct orr_memory *memory, struct orr_whatif **out_whatif,
                                   struct orr_error *error) {
    *out_whatif = NULL;
    if (count > ORR_WHATIF_SETTINGS_MAX) {
        return orr_error_set(error, ORR_INVALID, "what-if: %zu settings; at most %d are supported",
                             count, ORR_WHATIF_SETTINGS_MAX);
    }
    const struct orr_events *events = &analysis->events;
    const struct orr_timeline *timeline =
        strcmp(events->source.format, "orrery") == 0 ? analysis->timeline : NULL;
    struct orr_replay_options graph = {.latency = true, .queue_depth = options->queue_depth};
    struct orr_whatif *whatif = orr_memory_alloc(memory, sizeof *whatif);
    enum orr_status status = whatif ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        whatif->memory = memory;
        whatif->analysis = analysis;
        whatif->setting_count = count;
        for (size_t i = 0; i < count; i++) {
            whatif->settings[i] = settings[i];
        }
        whatif->devices = orr_memory_alloc(memory, events->device_count * sizeof *whatif->devices);
        status = whatif->devices
                     ? orr_replay_create(events, timeline, &graph, memory, &whatif->replay, error)
                     : ORR_NO_MEMORY;
    }
    if (status == ORR_OK) {
        status = compute(whatif, options);
    }
    if (status != ORR_OK) {
        orr_whatif_destroy(&whatif);
        if (status == ORR_NO_MEMORY) {
            orr_error_set(error, status, "what-if: %zu ops do not fit in memory", events->op_count);
        }
        return status;
    }
    *out_whatif = whatif;
    return ORR_OK;
}
