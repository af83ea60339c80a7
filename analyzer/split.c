#include "analyzer/split.h"

#include <assert.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

bool orr_split_of(const struct orr_events *events, uint32_t index,
                  struct orr_split_parts *out_parts) {
    const struct orr_events_op *op = &events->ops[index];
    if (!orr_events_linked(op) || orr_events_early(events, op)) {
        return false;
    }
    const struct orr_events_call *call = &events->calls[op->call];
    int64_t a = call->begin_ns, s = op->start_ns, e = op->end_ns;
    /* An absent p or d is INT64_MIN and loses every max. */
    int64_t x = orr__min_ns(call->end_ns, s);
    int64_t y = orr__max_ns(x, orr__min_ns(orr_events_previous_end(events, op), s));
    int64_t z = orr__max_ns(y, orr__min_ns(op->wait_ns, s));
    *out_parts = (struct orr_split_parts){.submit = x - a,
                                          .stream_wait = y - x,
                                          .dep_wait = z - y,
                                          .dispatch = s - z,
                                          .device = e - s};
    assert(a <= x && x <= y && y <= z && z <= s && s <= e);
    return true;
}

int64_t orr_split_sync(const struct orr_events *events, uint32_t op, uint32_t call) {
    const struct orr_events_call *sync = &events->calls[call];
    return sync->end_ns - orr__max_ns(sync->begin_ns, events->ops[op].end_ns);
}

/* ------------------------------------------------------------------------------------------------
 * Which waiting call observes an op first: per stream, the calls that watch it in order of their
 * ends, and one cursor over the stream's ops. */

struct watches {
    const struct orr_events *events;
    uint32_t *streams;    /* streams by device */
    size_t *device_first; /* of each device in streams */
    size_t *stream_first; /* of each stream in syncs */
    uint32_t *syncs;      /* indices into events->syncs, by stream and end of the call */
};

static bool sync_ends_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events *events = context;
    const struct orr_events_call *x = &events->calls[events->syncs[a].call];
    const struct orr_events_call *y = &events->calls[events->syncs[b].call];
    if (x->end_ns != y->end_ns || x->begin_ns != y->begin_ns) {
        return x->end_ns != y->end_ns ? x->end_ns < y->end_ns : x->begin_ns < y->begin_ns;
    }
    return orr__events_sync_before(events, a, b);
}

static void list_streams(struct watches *w) {
    const struct orr_events *events = w->events;
    for (size_t s = 0; s < events->stream_count; s++) {
        w->device_first[events->streams[s].device + 1]++;
    }
    for (size_t d = 0; d < events->device_count; d++) {
        w->device_first[d + 1] += w->device_first[d];
    }
    for (size_t s = 0; s < events->stream_count; s++) {
        w->streams[w->device_first[events->streams[s].device]++] = (uint32_t)s;
    }
    for (size_t d = events->device_count; d > 0; d--) {
        w->device_first[d] = w->device_first[d - 1];
    }
    w->device_first[0] = 0;
}

/* The streams that a sync watches: a range of w->streams, or one stream put into *one. */
static size_t watched(const struct watches *w, const struct orr_events_sync *sync, uint32_t *one,
                      const uint32_t **out_streams) {
    *out_streams = one;
    switch (sync->kind) {
    case ORR_SYNC_TARGET_OP: *one = w->events->ops[sync->target].stream; return 1;
    case ORR_SYNC_TARGET_STREAM: *one = sync->target; return 1;
    case ORR_SYNC_TARGET_DEVICE:
        *out_streams = w->streams + w->device_first[sync->target];
        return w->device_first[sync->target + 1] - w->device_first[sync->target];
    case ORR_SYNC_TARGET_UNKNOWN: break;
    }
    return 0;
}

static enum orr_status list_syncs(struct watches *w, const struct orr_memory *memory) {
    const struct orr_events *events = w->events;
    uint32_t one;
    const uint32_t *streams;
    for (size_t i = 0; i < events->sync_count; i++) {
        size_t count = watched(w, &events->syncs[i], &one, &streams);
        for (size_t k = 0; k < count; k++) {
            w->stream_first[streams[k] + 1]++;
        }
    }
    for (size_t s = 0; s < events->stream_count; s++) {
        w->stream_first[s + 1] += w->stream_first[s];
    }
    w->syncs = orr_memory_alloc(memory, w->stream_first[events->stream_count] * sizeof *w->syncs);
    if (!w->syncs) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < events->sync_count; i++) {
        size_t count = watched(w, &events->syncs[i], &one, &streams);
        for (size_t k = 0; k < count; k++) {
            w->syncs[w->stream_first[streams[k]]++] = (uint32_t)i;
        }
    }
    for (size_t s = events->stream_count; s > 0; s--) {
        w->stream_first[s] = w->stream_first[s - 1];
    }
    w->stream_first[0] = 0;
    enum orr_status status = ORR_OK;
    for (size_t s = 0; s < events->stream_count && status == ORR_OK; s++) {
        size_t first = w->stream_first[s];
        status = orr__sort_indices(memory, w->syncs + first, w->stream_first[s + 1] - first,
                                   sync_ends_before, events);
    }
    return status;
}

static bool observes(const struct orr_events *events, const struct orr_events_sync *sync,
                     size_t position) {
    const struct orr_events_call *call = &events->calls[sync->call];
    const struct orr_events_op *op = &events->ops[events->stream_order[position]];
    if (op->end_ns > call->end_ns) {
        return false;
    }
    if (sync->kind == ORR_SYNC_TARGET_OP) {
        return position <= events->op_position[sync->target];
    }
    int64_t enqueued = orr_events_linked(op) ? events->calls[op->call].begin_ns : op->start_ns;
    return enqueued < call->begin_ns;
}

static void observe_stream(const struct watches *w, size_t stream, uint32_t *sync_call) {
    const struct orr_events *events = w->events;
    size_t at = events->stream_first[stream], end = events->stream_first[stream + 1];
    for (size_t i = w->stream_first[stream]; i < w->stream_first[stream + 1]; i++) {
        const struct orr_events_sync *sync = &events->syncs[w->syncs[i]];
        while (at < end && observes(events, sync, at)) {
            sync_call[events->stream_order[at++]] = sync->call;
        }
    }
}

static enum orr_status observe_all(const struct orr_events *events, const struct orr_memory *memory,
                                   uint32_t *sync_call) {
    struct watches w = {.events = events};
    w.streams = orr_memory_alloc(memory, events->stream_count * sizeof *w.streams);
    w.device_first = orr_memory_alloc(memory, (events->device_count + 1) * sizeof *w.device_first);
    w.stream_first = orr_memory_alloc(memory, (events->stream_count + 1) * sizeof *w.stream_first);
    enum orr_status status = w.streams && w.device_first && w.stream_first ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        list_streams(&w);
        status = list_syncs(&w, memory);
    }
    for (size_t s = 0; s < events->stream_count && status == ORR_OK; s++) {
        observe_stream(&w, s, sync_call);
    }
    orr_memory_free(memory, w.streams);
    orr_memory_free(memory, w.device_first);
    orr_memory_free(memory, w.stream_first);
    orr_memory_free(memory, w.syncs);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Sums */

static void add_host_waits(const struct orr_events *events, struct orr_split *split) {
    for (size_t t = 0; t < events->thread_count; t++) {
        int64_t reach = INT64_MIN;
        for (size_t i = events->thread_first[t]; i < events->thread_first[t + 1]; i++) {
            const struct orr_events_call *call = &events->calls[events->thread_order[i]];
            if (!(call->flags & ORR_CALL_WAITING)) {
                continue;
            }
            split->host_waits++;
            int64_t begin = orr__max_ns(call->begin_ns, reach);
            if (call->end_ns > begin) {
                split->host_wait_ns = orr__add_ns(split->host_wait_ns, call->end_ns - begin);
                reach = call->end_ns;
            }
        }
    }
}

static void count_order(const struct orr_events *events, const struct orr_events_op *op,
                        struct orr_split *split) {
    int64_t p = orr_events_previous_end(events, op);
    if (op->start_ns < p) {
        split->overlaps++;
        split->overlap_max_ns = orr__max_ns(split->overlap_max_ns, p - op->start_ns);
    }
    if (!orr_events_linked(op)) {
        split->unlinked++;
        return;
    }
    split->linked++;
    const struct orr_events_call *call = &events->calls[op->call];
    if (op->start_ns < call->begin_ns) {
        split->early++;
        split->early_max_ns = orr__max_ns(split->early_max_ns, call->begin_ns - op->start_ns);
    } else if (op->start_ns < call->end_ns) {
        split->during++;
    }
}

static void add_parts(const struct orr_events *events, uint32_t index, struct orr_split *split) {
    const struct orr_events_op *op = &events->ops[index];
    struct orr_split_parts parts;
    if (!orr_split_of(events, index, &parts)) {
        return;
    }
    const struct orr_events_call *call = &events->calls[op->call];
    split->ops++;
    split->submit_ns = orr__add_ns(split->submit_ns, parts.submit);
    split->stream_wait_ns = orr__add_ns(split->stream_wait_ns, parts.stream_wait);
    split->dep_wait_ns = orr__add_ns(split->dep_wait_ns, parts.dep_wait);
    split->dispatch_ns = orr__add_ns(split->dispatch_ns, parts.dispatch);
    split->device_ns = orr__add_ns(split->device_ns, parts.device);
    split->total_ns = orr__add_ns(split->total_ns, op->end_ns - call->begin_ns);
    split->call_ns_per_op = orr__add_ns(split->call_ns_per_op, call->end_ns - call->begin_ns);
    if (op->wait_ns != ORR_TIME_NONE && op->start_ns < op->wait_ns) {
        split->dep_violations++;
        split->dep_violation_max_ns =
            orr__max_ns(split->dep_violation_max_ns, op->wait_ns - op->start_ns);
    }
    uint32_t sync = split->sync_call[index];
    if (sync != ORR_EVENTS_NONE) {
        split->sync_ops++;
        split->sync_ns = orr__add_ns(split->sync_ns, orr_split_sync(events, index, sync));
    }
}

enum orr_status orr_split_compute(const struct orr_events *events, const struct orr_memory *memory,
                                  struct orr_split *out_split) {
    *out_split = (struct orr_split){0};
    out_split->sync_call =
        orr_memory_resize(memory, NULL, events->op_count * sizeof *out_split->sync_call);
    if (!out_split->sync_call) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        out_split->sync_call[i] = ORR_EVENTS_NONE;
    }
    enum orr_status status = observe_all(events, memory, out_split->sync_call);
    if (status != ORR_OK) {
        orr_split_free(memory, out_split);
        return status;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        count_order(events, &events->ops[i], out_split);
        add_parts(events, (uint32_t)i, out_split);
    }
    for (size_t c = 0; c < events->call_count; c++) {
        const struct orr_events_call *call = &events->calls[c];
        if (call->op_count > 0) {
            out_split->call_ns_once =
                orr__add_ns(out_split->call_ns_once, call->end_ns - call->begin_ns);
        }
    }
    add_host_waits(events, out_split);
    return ORR_OK;
}

void orr_split_free(const struct orr_memory *memory, struct orr_split *split) {
    orr_memory_free(memory, split->sync_call);
    *split = (struct orr_split){0};
}
