/* Our own runs -> calls, items and links of a replay. Beside the model's ops, what streams hold
 * otherwise: records, waits, host functions, marks. Their edges are complete, so that with other
 * durations something else than in the run may hold a command back. */
#include <string.h>

#include "analyzer/replay_internal.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

struct filler {
    struct orr__replay_plan *plan;
    const struct orr_timeline *timeline;
    const struct orr_events *events;
    /* By index of a command. */
    uint32_t *call_of, *item_of, *op_of;
    uint32_t *stream_of; /* by timeline stream: index in the events, or NONE */
    uint32_t *order;     /* commands by stream and seq */
    uint32_t *syncs;     /* waiting calls (of the replay) by thread and end */
    size_t sync_count;
    uint32_t *sync_rows; /* by sync: its call, or NONE */
};

/* ------------------------------------------------------------------------------------------------
 * Lookups: ids are normally dense */

static uint32_t command_index(const struct orr_timeline *t, uint64_t id) {
    if (id > 0 && id <= t->command_count && t->commands[id - 1].id == id) {
        return (uint32_t)(id - 1);
    }
    const struct orr_timeline_command *c = orr_timeline_command(t, id);
    return c ? (uint32_t)(c - t->commands) : ORR_EVENTS_NONE;
}

static uint32_t host_index(const struct orr_timeline *t, uint32_t id) {
    if (id < t->host_count && t->hosts[id].id == id) {
        return id;
    }
    const struct orr_timeline_host *host = orr_timeline_host(t, id);
    return host ? (uint32_t)(host - t->hosts) : ORR_EVENTS_NONE;
}

static uint32_t stream_index(const struct orr_timeline *t, uint32_t id) {
    if (id < t->stream_count && t->streams[id].id == id) {
        return id;
    }
    const struct orr_timeline_stream *stream = orr_timeline_stream(t, id);
    return stream ? (uint32_t)(stream - t->streams) : ORR_EVENTS_NONE;
}

static bool good(int64_t time_ns) {
    return time_ns <= ORR_EVENTS_TIME_MAX && time_ns >= -ORR_EVENTS_TIME_MAX;
}

static bool is_device_work(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL || kind == ORR_COMMAND_COLLECTIVE ||
           kind == ORR_COMMAND_COPY || kind == ORR_COMMAND_FILL;
}

/* ------------------------------------------------------------------------------------------------
 * Calls */

static void find_ops(struct filler *f) {
    for (size_t i = 0; i < f->timeline->command_count; i++) {
        f->call_of[i] = f->item_of[i] = f->op_of[i] = ORR_EVENTS_NONE;
    }
    for (size_t o = 0; o < f->events->op_count; o++) {
        uint32_t command = command_index(f->timeline, f->events->ops[o].correlation);
        if (command != ORR_EVENTS_NONE) {
            f->op_of[command] = (uint32_t)o;
        }
    }
    size_t known = 0;
    for (size_t s = 0; s < f->timeline->stream_count; s++) { /* both in the order of ids */
        bool same = known < f->events->stream_count &&
                    f->events->streams[known].id == f->timeline->streams[s].id;
        f->stream_of[s] = same ? (uint32_t)known : ORR_EVENTS_NONE;
        known += same;
    }
}

static enum orr_status add_call(struct filler *f, size_t command) {
    const struct orr_timeline_command *c = &f->timeline->commands[command];
    uint32_t thread = host_index(f->timeline, c->host);
    if (thread == ORR_EVENTS_NONE || !good(c->enqueue_ns) || !good(c->enqueued_ns) ||
        c->enqueued_ns < c->enqueue_ns) {
        return ORR_OK;
    }
    bool allocates = c->kind == ORR_COMMAND_ALLOC || c->kind == ORR_COMMAND_FREE;
    uint32_t op = f->op_of[command];
    uint32_t owner = op == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : f->events->ops[op].call;
    struct orr_replay_call call = {
        .begin_ns = c->enqueue_ns,
        .end_ns = c->enqueued_ns,
        .thread = thread,
        .launching = is_device_work(c->kind) || c->kind == ORR_COMMAND_HOSTFN ||
                     c->kind == ORR_COMMAND_GRAPH,
        .breaking = allocates && c->stream == ORR_ID_NONE,
        .graph = c->kind == ORR_COMMAND_GRAPH ||
                 (owner != ORR_EVENTS_NONE && f->events->calls[owner].flags & ORR_CALL_GRAPH)};
    return orr__replay_call(f->plan, &call, &f->call_of[command]);
}

/* ------------------------------------------------------------------------------------------------
 * Dispatch hosts: the caller hands a launch over in 1 ns, and the device's dispatch host makes the
 * call once it is free. When it was handed over is not recorded, but follows: an idle dispatch host
 * calls at once; a busy one was given it 1 ns after what the caller did before. */

enum { HAND_OVER_NS = 1 };

struct hand_over {
    int64_t *clocks;      /* by host: its last known time */
    int64_t *busy_until;  /* by host: its last call's end */
    uint32_t *next_sync;  /* by host: the first of its syncs that is not behind its clock */
    uint32_t *after_sync; /* by sync: the next one of its host */
};

static bool is_handed_over(const struct orr_timeline_command *c) {
    return c->caller != c->host && c->caller != ORR_ID_NONE && c->host != ORR_ID_NONE;
}

/* Syncs by host, in their order. */
static void chain_syncs(const struct orr_timeline *t, struct hand_over *h) {
    for (size_t i = 0; i < t->host_count; i++) {
        h->clocks[i] = h->busy_until[i] = INT64_MIN;
        h->next_sync[i] = ORR_EVENTS_NONE;
    }
    for (size_t i = t->sync_count; i > 0; i--) {
        uint32_t host = host_index(t, t->syncs[i - 1].host);
        if (host != ORR_EVENTS_NONE) {
            h->after_sync[i - 1] = h->next_sync[host];
            h->next_sync[host] = (uint32_t)(i - 1);
        }
    }
}

/* The caller's time at its next hand-over, if the dispatch host begins it at begin_ns: waits that
 * it had reached, or that were over by then, are behind it. */
static int64_t time_of_hand_over(const struct orr_timeline *t, struct hand_over *h, uint32_t caller,
                                 uint32_t host, int64_t begin_ns) {
    int64_t *clock = &h->clocks[caller];
    for (uint32_t s = h->next_sync[caller]; s != ORR_EVENTS_NONE; s = h->next_sync[caller]) {
        const struct orr_timeline_sync *sync = &t->syncs[s];
        if (*clock < sync->begin_ns && begin_ns < sync->end_ns) {
            break;
        }
        *clock = orr__max_ns(*clock, sync->end_ns);
        h->next_sync[caller] = h->after_sync[s];
    }
    bool idle = begin_ns > h->busy_until[host] || *clock == INT64_MIN;
    int64_t earliest = idle ? begin_ns : *clock + HAND_OVER_NS;
    *clock = orr__max_ns(*clock, orr__min_ns(earliest, begin_ns));
    return orr__min_ns(*clock, begin_ns);
}

static enum orr_status add_hand_over(struct filler *f, struct hand_over *h, size_t command) {
    const struct orr_timeline_command *c = &f->timeline->commands[command];
    uint32_t call = f->call_of[command];
    if (call == ORR_EVENTS_NONE) {
        return ORR_OK;
    }
    uint32_t host = f->plan->replay->calls[call].thread;
    uint32_t caller = host_index(f->timeline, c->caller);
    enum orr_status status = ORR_OK;
    if (!is_handed_over(c) || caller == ORR_EVENTS_NONE) {
        h->clocks[host] = orr__max_ns(h->clocks[host], c->enqueued_ns);
    } else if (c->enqueue_ns >= h->busy_until[host]) { /* else it is part of the call before it */
        int64_t at_ns = time_of_hand_over(f->timeline, h, caller, host, c->enqueue_ns);
        struct orr_replay_call given = {.begin_ns = at_ns, .end_ns = at_ns, .thread = caller};
        uint32_t index;
        status = orr__replay_call(f->plan, &given, &index);
        if (status == ORR_OK) {
            status = orr__replay_link(f->plan, ORR__AT_CALL_END, index, ORR__AT_CALL_BEGIN, call);
        }
    }
    h->busy_until[host] = orr__max_ns(h->busy_until[host], c->enqueued_ns);
    return status;
}

static enum orr_status add_hand_overs(struct filler *f) {
    const struct orr_timeline *t = f->timeline;
    const struct orr_memory *memory = f->plan->memory;
    bool any = false;
    for (size_t i = 0; i < t->command_count && !any; i++) {
        any = is_handed_over(&t->commands[i]);
    }
    if (!any) {
        return ORR_OK;
    }
    struct hand_over h = {
        .clocks = orr_memory_alloc(memory, t->host_count * sizeof *h.clocks),
        .busy_until = orr_memory_alloc(memory, t->host_count * sizeof *h.busy_until),
        .next_sync = orr_memory_alloc(memory, t->host_count * sizeof *h.next_sync),
        .after_sync = orr_memory_alloc(memory, t->sync_count * sizeof *h.after_sync)};
    bool all = h.clocks && h.busy_until && h.next_sync && h.after_sync;
    enum orr_status status = all ? ORR_OK : ORR_NO_MEMORY;
    if (all) {
        chain_syncs(t, &h);
    }
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        status = add_hand_over(f, &h, i);
    }
    orr_memory_free(memory, h.clocks);
    orr_memory_free(memory, h.busy_until);
    orr_memory_free(memory, h.next_sync);
    orr_memory_free(memory, h.after_sync);
    return status;
}

static enum orr_status add_calls(struct filler *f) {
    const struct orr_timeline *t = f->timeline;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        status = add_call(f, i);
    }
    if (status == ORR_OK) {
        status = add_hand_overs(f);
    }
    for (size_t i = 0; i < t->sync_count && status == ORR_OK; i++) {
        const struct orr_timeline_sync *sync = &t->syncs[i];
        uint32_t thread = host_index(t, sync->host);
        f->sync_rows[i] = ORR_EVENTS_NONE;
        if (thread == ORR_EVENTS_NONE || !good(sync->begin_ns) || !good(sync->end_ns) ||
            sync->end_ns < sync->begin_ns) {
            continue;
        }
        struct orr_replay_call call = {.begin_ns = sync->begin_ns,
                                       .end_ns = sync->end_ns,
                                       .thread = thread,
                                       .waiting = 1,
                                       .breaking = 1};
        status = orr__replay_call(f->plan, &call, &f->sync_rows[i]);
        if (status == ORR_OK) {
            f->syncs[f->sync_count++] = f->sync_rows[i];
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Items */

/* Of a command's time in its stream: what takes none is done when it finishes, whatever its record
 * says of when its wait began. */
static bool times_of(const struct orr_timeline_command *c, int64_t *out_start, int64_t *out_end) {
    if (!good(c->start_ns) || !good(c->finish_ns) || c->finish_ns < c->start_ns) {
        return false;
    }
    bool works = is_device_work(c->kind) || c->kind == ORR_COMMAND_HOSTFN;
    *out_start = works ? c->start_ns : c->finish_ns;
    *out_end = c->finish_ns;
    return true;
}

static uint32_t place_of(const struct filler *f, size_t command) {
    const struct orr_timeline_command *c = &f->timeline->commands[command];
    uint32_t row = c->seq > 0 || is_device_work(c->kind) ? stream_index(f->timeline, c->stream)
                                                         : ORR_EVENTS_NONE;
    return row == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : f->stream_of[row];
}

static bool placed_before(const void *context, uint32_t a, uint32_t b) {
    const struct filler *f = context;
    uint32_t stream_a = place_of(f, a), stream_b = place_of(f, b);
    if (stream_a != stream_b) {
        return stream_a < stream_b;
    }
    return f->timeline->commands[a].seq < f->timeline->commands[b].seq;
}

static enum orr_status add_item(struct filler *f, uint32_t command) {
    const struct orr_timeline_command *c = &f->timeline->commands[command];
    uint32_t op = f->op_of[command];
    struct orr_replay_item item = {.stream = place_of(f, command),
                                   .call = f->call_of[command],
                                   .op = op,
                                   .group = op == ORR_EVENTS_NONE ? ORR_EVENTS_NONE
                                                                  : f->events->ops[op].collective};
    bool known = times_of(c, &item.start_ns, &item.end_ns);
    bool bad = is_device_work(c->kind) && op == ORR_EVENTS_NONE; /* the model left it out */
    return known && !bad ? orr__replay_item(f->plan, &item, &f->item_of[command]) : ORR_OK;
}

/* Streams are told apart by counting; within one, commands are normally in order. */
static enum orr_status add_items(struct filler *f) {
    size_t count = 0, streams = f->events->stream_count;
    size_t *first = orr_memory_alloc(f->plan->memory, (streams + 1) * sizeof *first);
    if (!first) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < f->timeline->command_count; i++) {
        uint32_t stream = place_of(f, i);
        if (stream != ORR_EVENTS_NONE) {
            first[stream + 1]++;
            count++;
        }
    }
    for (size_t s = 0; s < streams; s++) {
        first[s + 1] += first[s];
    }
    for (size_t i = 0; i < f->timeline->command_count; i++) {
        uint32_t stream = place_of(f, i);
        if (stream != ORR_EVENTS_NONE) {
            f->order[first[stream]++] = (uint32_t)i;
        }
    }
    orr_memory_free(f->plan->memory, first);
    enum orr_status status = orr__sort_indices(f->plan->memory, f->order, count, placed_before, f);
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        status = add_item(f, f->order[i]);
    }
    return status;
}

/* A full queue: a call returns once what stands `depth` places before it has retired. */
static enum orr_status link_queues(struct filler *f) {
    const struct orr_replay *replay = f->plan->replay;
    uint32_t depth = f->plan->options.queue_depth;
    enum orr_status status = ORR_OK;
    for (uint32_t i = depth; depth > 0 && i < replay->item_count && status == ORR_OK; i++) {
        const struct orr_replay_item *item = &replay->items[i];
        if (item->call != ORR_EVENTS_NONE && replay->items[i - depth].stream == item->stream) {
            status =
                orr__replay_link(f->plan, ORR__AT_ITEM, i - depth, ORR__AT_CALL_END, item->call);
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Edges */

static bool sync_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_replay_call *calls = context;
    if (calls[a].thread != calls[b].thread) {
        return calls[a].thread < calls[b].thread;
    }
    return calls[a].end_ns < calls[b].end_ns;
}

/* The last waiting call of a thread that ended by `time_ns`, or NONE. */
static uint32_t sync_by(const struct filler *f, uint32_t thread, int64_t time_ns) {
    const struct orr_replay_call *calls = f->plan->replay->calls;
    size_t low = 0, high = f->sync_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct orr_replay_call *c = &calls[f->syncs[middle]];
        if (c->thread < thread || (c->thread == thread && c->end_ns <= time_ns)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && calls[f->syncs[low - 1]].thread == thread ? f->syncs[low - 1]
                                                                : ORR_EVENTS_NONE;
}

/* "The host knew that src was done before it called dst": from the last wait it made, if src is in
 * a stream; else src is a message of another host. */
static enum orr_status link_host(struct filler *f, uint32_t src, uint32_t dst) {
    const struct orr_timeline_command *caller = &f->timeline->commands[dst];
    if (f->call_of[dst] == ORR_EVENTS_NONE) {
        return ORR_OK;
    }
    if (f->item_of[src] == ORR_EVENTS_NONE) {
        return f->call_of[src] == ORR_EVENTS_NONE
                   ? ORR_OK
                   : orr__replay_link(f->plan, ORR__AT_CALL_END, f->call_of[src],
                                      ORR__AT_CALL_BEGIN, f->call_of[dst]);
    }
    uint32_t thread = host_index(f->timeline, caller->caller);
    uint32_t sync = thread == ORR_EVENTS_NONE
                        ? ORR_EVENTS_NONE
                        : sync_by(f, thread, f->plan->replay->calls[f->call_of[dst]].begin_ns);
    return sync == ORR_EVENTS_NONE
               ? ORR_OK
               : orr__replay_link(f->plan, ORR__AT_ITEM, f->item_of[src], ORR__AT_CALL_END, sync);
}

static enum orr_status link_edge(struct filler *f, const struct orr_timeline_edge *edge) {
    uint32_t src = command_index(f->timeline, edge->src);
    uint32_t dst = command_index(f->timeline, edge->dst);
    if (src == ORR_EVENTS_NONE || dst == ORR_EVENTS_NONE || edge->kind == ORR_EDGE_STREAM) {
        return ORR_OK;
    }
    if (edge->kind == ORR_EDGE_HOST) {
        return link_host(f, src, dst);
    }
    const struct orr_replay_item *items = f->plan->replay->items;
    uint32_t before = f->item_of[src], after = f->item_of[dst];
    if (before == ORR_EVENTS_NONE || after == ORR_EVENTS_NONE) {
        return ORR_OK;
    }
    bool members =
        items[before].group != ORR_EVENTS_NONE && items[before].group == items[after].group;
    return members ? ORR_OK : orr__replay_link(f->plan, ORR__AT_ITEM, before, ORR__AT_ITEM, after);
}

static enum orr_status link_edges(struct filler *f) {
    enum orr_status status = orr__sort_indices(f->plan->memory, f->syncs, f->sync_count,
                                               sync_before, f->plan->replay->calls);
    for (size_t e = 0; e < f->timeline->edge_count && status == ORR_OK; e++) {
        status = link_edge(f, &f->timeline->edges[e]);
    }
    for (size_t i = 0; i < f->timeline->sync_count && status == ORR_OK; i++) {
        uint32_t command = command_index(f->timeline, f->timeline->syncs[i].cmd);
        if (f->sync_rows[i] != ORR_EVENTS_NONE && command != ORR_EVENTS_NONE &&
            f->item_of[command] != ORR_EVENTS_NONE) {
            status = orr__replay_link(f->plan, ORR__AT_ITEM, f->item_of[command], ORR__AT_CALL_END,
                                      f->sync_rows[i]);
        }
    }
    return status;
}

enum orr_status orr__replay_fill_timeline(struct orr__replay_plan *plan) {
    const struct orr_timeline *t = plan->timeline;
    const struct orr_memory *memory = plan->memory;
    size_t row = t->command_count * sizeof(uint32_t) + 1;
    struct filler f = {.plan = plan,
                       .timeline = t,
                       .events = plan->replay->events,
                       .call_of = orr_memory_resize(memory, NULL, row),
                       .item_of = orr_memory_resize(memory, NULL, row),
                       .op_of = orr_memory_resize(memory, NULL, row),
                       .order = orr_memory_resize(memory, NULL, row),
                       .stream_of = orr_memory_alloc(memory, t->stream_count * sizeof(uint32_t)),
                       .syncs = orr_memory_alloc(memory, t->sync_count * sizeof(uint32_t)),
                       .sync_rows = orr_memory_alloc(memory, t->sync_count * sizeof(uint32_t))};
    bool all =
        f.call_of && f.item_of && f.op_of && f.order && f.stream_of && f.syncs && f.sync_rows;
    enum orr_status status = all ? ORR_OK : ORR_NO_MEMORY;
    enum orr_status (*const steps[])(struct filler *) = {add_calls, add_items, link_queues,
                                                         link_edges};
    if (all) {
        find_ops(&f);
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == ORR_OK; i++) {
        status = steps[i](&f);
    }
    void *arrays[] = {f.call_of, f.item_of, f.op_of, f.order, f.stream_of, f.syncs, f.sync_rows};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(memory, arrays[i]);
    }
    return status;
}
