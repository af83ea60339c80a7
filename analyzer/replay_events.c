/* Any event model -> calls, items and links of a replay. */
#include <string.h>

#include "analyzer/replay_internal.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

enum {
    LOOK_MAX = 64,       /* places of a stream looked at for one waiting call */
    SEARCH_MAX = 1 << 26 /* searches of streams in all: above, waiting calls stay as observed */
};

struct filler {
    struct orr__replay_plan *plan;
    const struct orr_events *events;
    uint32_t *item_of; /* by op */
    uint32_t *call_of; /* by call: that of the replay */
    uint32_t *sync_of; /* by call: its sync, or NONE */
    uint64_t searches;
    /* Streams of device d: device_streams[device_first[d]] .. */
    uint32_t *device_streams;
    size_t *device_first;
};

/* ------------------------------------------------------------------------------------------------
 * Calls and items */

static enum orr_status add_calls(struct filler *f) {
    enum orr_status status = ORR_OK;
    for (size_t c = 0; c < f->events->call_count && status == ORR_OK; c++) {
        const struct orr_events_call *call = &f->events->calls[f->events->thread_order[c]];
        struct orr_replay_call item = {
            .begin_ns = call->begin_ns,
            .end_ns = call->end_ns,
            .thread = call->thread,
            .waiting = (call->flags & ORR_CALL_WAITING) != 0,
            .launching = (call->flags & (ORR_CALL_LAUNCH | ORR_CALL_GRAPH)) || call->op_count > 0,
            .breaking = (call->flags & ORR_CALL_BREAKING) != 0,
            .graph = (call->flags & ORR_CALL_GRAPH) != 0};
        status = orr__replay_call(f->plan, &item, &f->call_of[f->events->thread_order[c]]);
    }
    return status;
}

static enum orr_status add_items(struct filler *f) {
    const struct orr_events *events = f->events;
    for (size_t i = 0; i < events->op_count; i++) {
        uint32_t op = events->stream_order[i];
        const struct orr_events_op *o = &events->ops[op];
        struct orr_replay_item item = {.start_ns = o->start_ns,
                                       .end_ns = o->end_ns,
                                       .stream = o->stream,
                                       .call = orr_events_linked(o) ? f->call_of[o->call]
                                                                    : ORR_EVENTS_NONE,
                                       .op = op,
                                       .group = o->collective};
        enum orr_status status = orr__replay_item(f->plan, &item, &f->item_of[op]);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Waits between streams */

static int64_t enqueue_ns(const struct orr_events *events, uint32_t op) {
    const struct orr_events_op *o = &events->ops[op];
    return orr_events_linked(o) ? events->calls[o->call].begin_ns : o->start_ns;
}

/* What was enqueued in `stream` before `before_ns`, the one that ends last, if it ends by
 * `until_ns`; looking back from the last start by then. */
static uint32_t last_before(struct filler *f, uint32_t stream, int64_t until_ns,
                            int64_t before_ns) {
    const struct orr_events *events = f->events;
    size_t low = events->stream_first[stream], high = events->stream_first[stream + 1];
    size_t first = low;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (events->ops[events->stream_order[middle]].start_ns <= until_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t best = ORR_EVENTS_NONE;
    f->searches++;
    for (unsigned looked = 0; low > first; looked++) {
        low--;
        if (best != ORR_EVENTS_NONE &&
            (looked >= LOOK_MAX || events->stream_reach[low] <= events->ops[best].end_ns)) {
            break;
        }
        if (looked >= LOOK_MAX) {
            f->searches++; /* far back: it is paid for */
        }
        uint32_t op = events->stream_order[low];
        bool later = best == ORR_EVENTS_NONE || events->ops[op].end_ns > events->ops[best].end_ns;
        if (events->ops[op].end_ns <= until_ns && enqueue_ns(events, op) < before_ns && later) {
            best = op;
        }
        if (f->searches > SEARCH_MAX) {
            break;
        }
    }
    return best;
}

/* The first op of a stream, by start, that was called after `at_ns`: whoever comes behind it starts
 * later. */
static uint32_t first_after(const struct orr_events *events, uint32_t stream, int64_t at_ns) {
    size_t low = events->stream_first[stream], high = events->stream_first[stream + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (enqueue_ns(events, events->stream_order[middle]) <= at_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < events->stream_first[stream + 1] ? events->stream_order[low] : ORR_EVENTS_NONE;
}

/* An op waits for what its model says bound it; and what is behind a wait for what the wait is for,
 * whether it was late or not: with other durations it may be. */
static enum orr_status link_waits(struct filler *f) {
    const struct orr_events *events = f->events;
    enum orr_status status = ORR_OK;
    uint32_t last = ORR_EVENTS_NONE;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        uint32_t op = events->stream_order[i];
        uint32_t source = events->ops[op].wait_op;
        bool new_stream =
            i == 0 || f->plan->replay->items[i].stream != f->plan->replay->items[i - 1].stream;
        if (source != ORR_EVENTS_NONE && (new_stream || source != last)) {
            status = orr__replay_link(f->plan, ORR__AT_ITEM, f->item_of[source], ORR__AT_ITEM,
                                      f->item_of[op]);
        }
        last = source;
    }
    for (size_t w = 0; w < events->wait_count && status == ORR_OK; w++) {
        const struct orr_events_wait *wait = &events->waits[w];
        if (!wait->resolved || wait->source >= events->stream_count || f->searches > SEARCH_MAX) {
            continue;
        }
        uint32_t op = first_after(events, wait->stream, wait->at_ns);
        uint32_t source =
            op == ORR_EVENTS_NONE
                ? ORR_EVENTS_NONE
                : last_before(f, wait->source, events->ops[op].start_ns, wait->record_ns);
        if (source != ORR_EVENTS_NONE) {
            status = orr__replay_link(f->plan, ORR__AT_ITEM, f->item_of[source], ORR__AT_ITEM,
                                      f->item_of[op]);
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Waiting calls */

static enum orr_status watch_stream(struct filler *f, uint32_t call, uint32_t stream) {
    const struct orr_events_call *c = &f->events->calls[call];
    uint32_t op = last_before(f, stream, c->end_ns, c->begin_ns);
    return op == ORR_EVENTS_NONE ? ORR_OK
                                 : orr__replay_link(f->plan, ORR__AT_ITEM, f->item_of[op],
                                                    ORR__AT_CALL_END, f->call_of[call]);
}

static enum orr_status watch_device(struct filler *f, uint32_t call, uint32_t device) {
    enum orr_status status = ORR_OK;
    for (size_t i = f->device_first[device]; i < f->device_first[device + 1] && status == ORR_OK;
         i++) {
        status = watch_stream(f, call, f->device_streams[i]);
    }
    return status;
}

static enum orr_status watch_call(struct filler *f, uint32_t call) {
    const struct orr_events *events = f->events;
    const struct orr_events_sync *sync =
        f->sync_of[call] == ORR_EVENTS_NONE ? NULL : &events->syncs[f->sync_of[call]];
    enum orr_sync_target kind = sync ? sync->kind : ORR_SYNC_TARGET_UNKNOWN;
    if (kind == ORR_SYNC_TARGET_OP) {
        return orr__replay_link(f->plan, ORR__AT_ITEM, f->item_of[sync->target], ORR__AT_CALL_END,
                                f->call_of[call]);
    }
    if (f->searches > SEARCH_MAX) {
        f->plan->replay->counts.unwatched++;
        return ORR_OK;
    }
    if (kind == ORR_SYNC_TARGET_STREAM) {
        return watch_stream(f, call, sync->target);
    }
    enum orr_status status = ORR_OK;
    for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        if (kind == ORR_SYNC_TARGET_UNKNOWN || d == sync->target) {
            status = watch_device(f, call, d);
        }
    }
    return status;
}

/* What a blocking copy enqueues itself, it waits for, too. */
static enum orr_status watch_own(struct filler *f) {
    const struct orr_events *events = f->events;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        const struct orr_events_op *op = &events->ops[events->stream_order[i]];
        if (orr_events_linked(op) && (events->calls[op->call].flags & ORR_CALL_WAITING) &&
            op->end_ns <= events->calls[op->call].end_ns) {
            status = orr__replay_link(f->plan, ORR__AT_ITEM, (uint32_t)i, ORR__AT_CALL_END,
                                      f->call_of[op->call]);
        }
    }
    return status;
}

/* In the order of the definitions, so that what the searches are not enough for does not depend on
 * the order of the arrays. */
static enum orr_status link_syncs(struct filler *f) {
    const struct orr_events *events = f->events;
    orr__events_find_syncs(events, f->sync_of);
    enum orr_status status = watch_own(f);
    for (size_t c = 0; c < events->call_count && status == ORR_OK; c++) {
        if (events->calls[events->thread_order[c]].flags & ORR_CALL_WAITING) {
            status = watch_call(f, events->thread_order[c]);
        }
    }
    return status;
}

static void sort_streams(struct filler *f) {
    const struct orr_events *events = f->events;
    for (size_t s = 0; s < events->stream_count; s++) {
        f->device_first[events->streams[s].device + 1]++;
    }
    for (size_t d = 0; d < events->device_count; d++) {
        f->device_first[d + 1] += f->device_first[d];
    }
    for (size_t s = 0; s < events->stream_count; s++) {
        f->device_streams[f->device_first[events->streams[s].device]++] = (uint32_t)s;
    }
    for (size_t d = events->device_count; d > 0; d--) {
        f->device_first[d] = f->device_first[d - 1];
    }
    f->device_first[0] = 0;
}

enum orr_status orr__replay_fill_events(struct orr__replay_plan *plan) {
    const struct orr_events *events = plan->replay->events;
    const struct orr_memory *memory = plan->memory;
    struct filler f = {
        .plan = plan,
        .events = events,
        .item_of = orr_memory_alloc(memory, events->op_count * sizeof(uint32_t)),
        .call_of = orr_memory_alloc(memory, events->call_count * sizeof(uint32_t)),
        .sync_of = orr_memory_alloc(memory, events->call_count * sizeof(uint32_t)),
        .device_streams = orr_memory_alloc(memory, events->stream_count * sizeof(uint32_t)),
        .device_first = orr_memory_alloc(memory, (events->device_count + 1) * sizeof(size_t))};
    bool all = f.item_of && f.call_of && f.sync_of && f.device_streams && f.device_first;
    enum orr_status status = all ? ORR_OK : ORR_NO_MEMORY;
    enum orr_status (*const steps[])(struct filler *) = {add_calls, add_items, link_waits,
                                                         link_syncs};
    if (all) {
        sort_streams(&f);
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == ORR_OK; i++) {
        status = steps[i](&f);
    }
    void *arrays[] = {f.item_of, f.call_of, f.sync_of, f.device_streams, f.device_first};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(memory, arrays[i]);
    }
    return status;
}
