/* Our own timelines: what ops waited for, and what hosts waited for. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/events_fill.h"
#include "analyzer/sort.h"

static bool seq_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_timeline *t = context;
    return t->commands[a].seq < t->commands[b].seq;
}

/* The stream in which a command has a place, or NONE. Allocations and host accesses name a stream
 * but are done in the order of the host: they have no seq. */
static uint32_t place_of(const struct orr_timeline *t, size_t command) {
    const struct orr_timeline_command *c = &t->commands[command];
    bool placed = c->seq > 0 || orr__is_op_kind(c->kind);
    return placed ? orr__find_stream(t, c->stream) : ORR_EVENTS_NONE;
}

/* Commands of each stream in the order of their places in it. */
static enum orr_status order_stream_commands(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->command_count; i++) {
        uint32_t stream = place_of(t, i);
        if (stream != ORR_EVENTS_NONE) {
            b->stream_first[stream + 1]++;
        }
    }
    for (size_t s = 0; s < t->stream_count; s++) {
        b->stream_first[s + 1] += b->stream_first[s];
    }
    for (size_t i = 0; i < t->command_count; i++) {
        uint32_t stream = place_of(t, i);
        if (stream != ORR_EVENTS_NONE) {
            b->stream_commands[b->stream_first[stream]++] = (uint32_t)i;
        }
    }
    for (size_t s = t->stream_count; s > 0; s--) {
        b->stream_first[s] = b->stream_first[s - 1];
    }
    b->stream_first[0] = 0;
    enum orr_status status = ORR_OK;
    for (size_t s = 0; s < t->stream_count && status == ORR_OK; s++) {
        size_t first = b->stream_first[s];
        status = orr__sort_indices(b->memory, b->stream_commands + first,
                                   b->stream_first[s + 1] - first, seq_before, t);
    }
    return status;
}

static void find_ops_before(struct orr__filler *b) {
    for (size_t i = 0; i < b->timeline->command_count; i++) {
        b->op_before[i] = b->op_of[i];
    }
    for (size_t s = 0; s < b->timeline->stream_count; s++) {
        uint32_t last = ORR_EVENTS_NONE;
        for (size_t i = b->stream_first[s]; i < b->stream_first[s + 1]; i++) {
            uint32_t command = b->stream_commands[i];
            if (b->op_of[command] != ORR_EVENTS_NONE) {
                last = b->op_of[command];
            }
            b->op_before[command] = last;
        }
    }
}

/* The latest finish that a stream has been told to wait for so far. */
struct pending {
    int64_t finish_ns;
    uint32_t op, call;
};

static size_t first_edge_to(const struct orr_timeline *t, uint64_t command) {
    return orr__find_u64(t->edges, t->edge_count, sizeof *t->edges,
                         offsetof(struct orr_timeline_edge, dst), command);
}

/* Edges between members of one collective say that they belong together, not that one ends
 * first. */
static bool same_collective(const struct orr__filler *b, uint32_t x, uint32_t y) {
    return b->collective_of && b->collective_of[x] != ORR_EVENTS_NONE &&
           b->collective_of[x] == b->collective_of[y];
}

/* An edge that can make its command wait. The order of streams is known without them; what a host
 * knew to be done was done before the call, and when it waited for that stands in its syncs. */
static bool is_awaited(const struct orr_timeline_edge *edge) {
    return edge->kind != ORR_EDGE_STREAM && edge->kind != ORR_EDGE_HOST;
}

/* Most commands have no edge but that of their stream: a bit saves the search for the others. */
static void mark_awaiting(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t e = 0; e < t->edge_count; e++) {
        if (!is_awaited(&t->edges[e])) {
            continue;
        }
        uint32_t command = orr__find_command(t, t->edges[e].dst);
        if (command != ORR_EVENTS_NONE) {
            b->awaits[command / 8] |= (uint8_t)(1u << (command % 8));
        }
    }
}

/* Returns true if an event edge leads to the command. */
static bool add_edges(const struct orr__filler *b, uint32_t command, struct pending *pending) {
    const struct orr_timeline *t = b->timeline;
    uint64_t id = t->commands[command].id;
    bool event = false;
    if (!(b->awaits[command / 8] & (1u << (command % 8)))) {
        return false;
    }
    for (size_t e = first_edge_to(t, id); e < t->edge_count && t->edges[e].dst == id; e++) {
        uint32_t source = orr__find_command(t, t->edges[e].src);
        event = event || t->edges[e].kind == ORR_EDGE_EVENT;
        if (!is_awaited(&t->edges[e]) || source == ORR_EVENTS_NONE ||
            same_collective(b, source, command)) {
            continue;
        }
        int64_t finish = t->commands[source].finish_ns;
        if (orr__good_time(finish) && finish > pending->finish_ns) {
            *pending = (struct pending){finish, b->op_before[source], b->call_of[source]};
        }
    }
    return event;
}

/* d of the stream's ops. What is in the stream but no op (a wait, a host function) holds back what
 * follows it until its own finish. */
static void link_stream_waits(const struct orr__filler *b, size_t stream) {
    const struct orr_timeline *t = b->timeline;
    struct orr_events_source *source = &b->events->source;
    struct pending pending = {ORR_TIME_NONE, ORR_EVENTS_NONE, ORR_EVENTS_NONE};
    for (size_t i = b->stream_first[stream]; i < b->stream_first[stream + 1]; i++) {
        uint32_t index = b->stream_commands[i];
        const struct orr_timeline_command *c = &t->commands[index];
        bool event = add_edges(b, index, &pending);
        if (c->kind == ORR_COMMAND_WAIT) {
            source->event_waits++;
            source->event_waits_unresolved += !event;
        }
        uint32_t op = b->op_of[index];
        if (op != ORR_EVENTS_NONE) {
            b->events->ops[op].wait_ns = pending.finish_ns;
            b->events->ops[op].wait_op = pending.op;
            b->events->ops[op].wait_call = pending.call;
        } else if (!orr__is_op_kind(c->kind) && orr__good_time(c->finish_ns) &&
                   c->finish_ns > pending.finish_ns) {
            pending = (struct pending){c->finish_ns, b->op_before[index], b->call_of[index]};
        }
    }
}

enum orr_status orr__fill_dependencies(struct orr__filler *b) {
    enum orr_status status = order_stream_commands(b);
    if (status != ORR_OK) {
        return status;
    }
    find_ops_before(b);
    mark_awaiting(b);
    for (size_t s = 0; s < b->timeline->stream_count; s++) {
        link_stream_waits(b, s);
    }
    return ORR_OK;
}

/* The device that a device wait was for. The command that it saw last is not always on it: an
 * allocation waits for all devices. */
static uint32_t waited_device(const struct orr_timeline *t, const struct orr_timeline_sync *sync,
                              uint32_t command) {
    static const char prefix[] = "device ";
    if (strncmp(sync->target, prefix, sizeof prefix - 1) == 0) {
        return orr__find_device(t, (uint32_t)strtoul(sync->target + sizeof prefix - 1, NULL, 10));
    }
    return command == ORR_EVENTS_NONE ? ORR_EVENTS_NONE
                                      : orr__find_device(t, t->commands[command].device);
}

/* What a sync record waited for: the op it observed, or for a device sync the whole device, even if
 * the command that it saw last is in a stream without ops. */
static void set_target(const struct orr__filler *b, const struct orr_timeline_sync *sync,
                       struct orr_events_sync *item) {
    uint32_t command = orr__find_command(b->timeline, sync->cmd);
    bool device = sync->kind == ORR_SYNC_DEVICE;
    uint32_t target = device                       ? waited_device(b->timeline, sync, command)
                      : command == ORR_EVENTS_NONE ? ORR_EVENTS_NONE
                                                   : b->op_before[command];
    if (target != ORR_EVENTS_NONE) {
        item->kind = device ? ORR_SYNC_TARGET_DEVICE : ORR_SYNC_TARGET_OP;
        item->target = target;
    }
}

enum orr_status orr__fill_syncs(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->sync_count; i++) {
        const struct orr_timeline_sync *sync = &t->syncs[i];
        uint32_t thread = orr__find_host(t, sync->host);
        if (thread == ORR_EVENTS_NONE || !orr__good_time(sync->begin_ns) ||
            !orr__good_time(sync->end_ns) || sync->end_ns < sync->begin_ns) {
            continue;
        }
        struct orr_events_call call = {.begin_ns = sync->begin_ns,
                                       .end_ns = sync->end_ns,
                                       .thread = thread,
                                       .records = 1,
                                       .flags = ORR_CALL_WAITING | ORR_CALL_BREAKING,
                                       .name = orr_sync_kind_text(sync->kind)};
        struct orr_events_sync item = {.kind = ORR_SYNC_TARGET_UNKNOWN};
        enum orr_status status = orr_events_add_call(b->events, &call, &item.call);
        if (status != ORR_OK) {
            return status;
        }
        set_target(b, sync, &item);
        status = orr_events_add_sync(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}
