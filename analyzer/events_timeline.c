/* Our own timelines -> the event model. See events.h. */
#include "analyzer/events.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/operator_set.h"
#include "analyzer/sort.h"

/* A graph launch and its nodes carry the same stamps and are one call; this finds the launch. */
struct graph_call {
    uint32_t host;
    int64_t enqueue_ns, enqueued_ns;
    uint32_t call;
};

struct builder {
    const struct orr_timeline *timeline;
    struct orr_events *events;
    const struct orr_memory *memory;
    /* By index of a command: its call, its op, and the last op at or before it in its stream. */
    uint32_t *call_of, *op_of, *op_before;
    uint32_t *operator_of;     /* by index of a timeline op: its row in events->operators */
    uint32_t *collective_of;   /* by index of a command; NULL without collectives */
    uint32_t *stream_commands; /* indices of commands, by stream and seq */
    size_t *stream_first;      /* of each stream in stream_commands */
    uint32_t *stream_index; /* by index of a timeline stream: index of the event stream, or NONE */
    struct graph_call *graphs;
    uint32_t *graph_order;
    size_t graph_count;
    uint8_t *awaits;          /* a bit per command: an edge leads to it */
    uint64_t *last_broadcast; /* by device: the operator whose broadcast bytes were charged last */
};

/* ------------------------------------------------------------------------------------------------
 * Lookups. Ids are normally dense, so the place is guessed before it is searched. */

static size_t find_u64(const void *items, size_t count, size_t size, size_t offset, uint64_t id) {
    const char *bytes = items;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t here;
        memcpy(&here, bytes + middle * size + offset, sizeof here);
        if (here < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint32_t command_index(const struct orr_timeline *t, uint64_t id) {
    if (id == 0) {
        return ORR_EVENTS_NONE;
    }
    size_t i = id - 1;
    if (i >= t->command_count || t->commands[i].id != id) {
        i = find_u64(t->commands, t->command_count, sizeof *t->commands,
                     offsetof(struct orr_timeline_command, id), id);
    }
    return i < t->command_count && t->commands[i].id == id ? (uint32_t)i : ORR_EVENTS_NONE;
}

static uint32_t op_index(const struct orr_timeline *t, uint64_t id) {
    if (id == 0) {
        return ORR_EVENTS_NONE;
    }
    size_t i = id - 1;
    if (i >= t->op_count || t->ops[i].id != id) {
        i = find_u64(t->ops, t->op_count, sizeof *t->ops, offsetof(struct orr_timeline_op, id), id);
    }
    return i < t->op_count && t->ops[i].id == id ? (uint32_t)i : ORR_EVENTS_NONE;
}

/* Index of the row with a 32-bit id in an array sorted by it. */
static uint32_t find_u32(const void *items, size_t count, size_t size, uint32_t id) {
    const char *bytes = items;
    uint32_t here;
    if (id < count) {
        memcpy(&here, bytes + id * size, sizeof here);
        if (here == id) {
            return id;
        }
    }
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        memcpy(&here, bytes + middle * size, sizeof here);
        if (here < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == count) {
        return ORR_EVENTS_NONE;
    }
    memcpy(&here, bytes + low * size, sizeof here);
    return here == id ? (uint32_t)low : ORR_EVENTS_NONE;
}

_Static_assert(offsetof(struct orr_timeline_stream, id) == 0, "find_u32 looks there");
_Static_assert(offsetof(struct orr_timeline_host, id) == 0, "find_u32 looks there");
_Static_assert(offsetof(struct orr_timeline_device, id) == 0, "find_u32 looks there");
_Static_assert(offsetof(struct orr_timeline_communicator, id) == 0, "find_u32 looks there");

static uint32_t stream_find(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->streams, t->stream_count, sizeof *t->streams, id);
}

static uint32_t host_find(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->hosts, t->host_count, sizeof *t->hosts, id);
}

static uint32_t device_find(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->devices, t->device_count, sizeof *t->devices, id);
}

static bool is_op_kind(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL || kind == ORR_COMMAND_COLLECTIVE ||
           kind == ORR_COMMAND_COPY || kind == ORR_COMMAND_FILL;
}

static bool good_time(int64_t time) {
    return time <= ORR_EVENTS_TIME_MAX && time >= -ORR_EVENTS_TIME_MAX;
}

/* ------------------------------------------------------------------------------------------------
 * Devices, streams, hosts, operators */

static enum orr_status add_devices(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->device_count; i++) {
        const struct orr_timeline_device *device = &t->devices[i];
        struct orr_events_device item = {.id = device->id,
                                         .name = device->name,
                                         .mem_bytes = device->mem_bytes,
                                         .bandwidth = device->bandwidth};
        memcpy(item.peak, device->peak, sizeof item.peak);
        enum orr_status status = orr_events_add_device(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* Streams of unknown devices are left out, and so is what runs in them. */
static enum orr_status add_streams(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->stream_count; i++) {
        const struct orr_timeline_stream *stream = &t->streams[i];
        uint32_t device = device_find(t, stream->device);
        b->stream_index[i] = ORR_EVENTS_NONE;
        if (device == ORR_EVENTS_NONE) {
            continue;
        }
        struct orr_events_stream item = {.device = device, .id = stream->id, .name = stream->name};
        enum orr_status status = orr_events_add_stream(b->events, &item, &b->stream_index[i]);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

static enum orr_status add_threads(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->host_count; i++) {
        struct orr_events_thread item = {.name = t->hosts[i].name};
        snprintf(item.label, sizeof item.label, "%u", t->hosts[i].id);
        enum orr_status status = orr_events_add_thread(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* The row of a command: its logical operator's name, kind and shape, else its own name and kind.
 * The unit is the command's: one operator may be lowered to kernels of both sorts. */
static enum orr_status operator_row(struct builder *b, struct orr__operator_set *set,
                                    size_t command, uint32_t *out_row) {
    const struct orr_timeline_command *c = &b->timeline->commands[command];
    uint32_t op = op_index(b->timeline, c->op);
    struct orr_events_operator item = {
        .name = c->name,
        .kind = c->kind == ORR_COMMAND_KERNEL ? "" : orr_command_kind_text(c->kind),
        .shape = "",
        .dtype = (uint8_t)c->dtype,
        .unit = c->unit ? 1 : 0};
    if (op == ORR_EVENTS_NONE) {
        return orr__operator_intern(b->events, set, &item, out_row);
    }
    const struct orr_timeline_op *o = &b->timeline->ops[op];
    if (c->kind == ORR_COMMAND_KERNEL) {
        item.name = o->name;
        item.kind = o->kind;
    }
    item.shape = o->shape;
    /* Most operators launch one kernel each, or equal ones on many devices: remember the last
     * row. */
    uint32_t known = b->operator_of[op];
    if (known != ORR_EVENTS_NONE && orr__operator_same(&b->events->operators[known], &item)) {
        *out_row = known;
        return ORR_OK;
    }
    enum orr_status status = orr__operator_intern(b->events, set, &item, out_row);
    b->operator_of[op] = *out_row;
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Calls */

static bool graph_before(const void *context, uint32_t a, uint32_t b) {
    const struct graph_call *x = (const struct graph_call *)context + a;
    const struct graph_call *y = (const struct graph_call *)context + b;
    if (x->host != y->host) {
        return x->host < y->host;
    }
    if (x->enqueue_ns != y->enqueue_ns) {
        return x->enqueue_ns < y->enqueue_ns;
    }
    return x->enqueued_ns < y->enqueued_ns;
}

static uint32_t call_flags(const struct orr_timeline_command *c) {
    uint32_t flags = is_op_kind(c->kind) ? ORR_CALL_LAUNCH : 0;
    if (c->kind == ORR_COMMAND_GRAPH) {
        flags |= ORR_CALL_LAUNCH | ORR_CALL_GRAPH;
    }
    bool allocates = c->kind == ORR_COMMAND_ALLOC || c->kind == ORR_COMMAND_FREE;
    if (allocates && c->stream == ORR_ID_NONE) {
        flags |= ORR_CALL_BREAKING; /* stream-ordered allocation can be captured, other can't */
    }
    return flags;
}

static bool has_call(const struct builder *b, const struct orr_timeline_command *c,
                     uint32_t *out_thread) {
    *out_thread = host_find(b->timeline, c->host);
    if (c->kind == ORR_COMMAND_MARKER && c->stream == ORR_ID_NONE) {
        return false; /* a message to another host is no call of a device's API */
    }
    return *out_thread != ORR_EVENTS_NONE && good_time(c->enqueue_ns) &&
           good_time(c->enqueued_ns) && c->enqueued_ns >= c->enqueue_ns;
}

static enum orr_status add_call(struct builder *b, size_t command, uint32_t thread) {
    const struct orr_timeline_command *c = &b->timeline->commands[command];
    struct orr_events_call call = {.begin_ns = c->enqueue_ns,
                                   .end_ns = c->enqueued_ns,
                                   .thread = thread,
                                   .records = 1,
                                   .flags = call_flags(c),
                                   .name = c->name};
    b->events->source.api_calls++;
    return orr_events_add_call(b->events, &call, &b->call_of[command]);
}

static enum orr_status add_graph_calls(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    size_t count = 0;
    for (size_t i = 0; i < t->command_count; i++) {
        count += t->commands[i].kind == ORR_COMMAND_GRAPH;
    }
    b->graphs = orr_memory_alloc(b->memory, count * sizeof *b->graphs);
    b->graph_order = orr_memory_alloc(b->memory, count * sizeof *b->graph_order);
    if (!b->graphs || !b->graph_order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < t->command_count && count > 0; i++) {
        const struct orr_timeline_command *c = &t->commands[i];
        uint32_t thread;
        if (c->kind != ORR_COMMAND_GRAPH || !has_call(b, c, &thread)) {
            continue;
        }
        enum orr_status status = add_call(b, i, thread);
        if (status != ORR_OK) {
            return status;
        }
        b->graph_order[b->graph_count] = (uint32_t)b->graph_count;
        b->graphs[b->graph_count++] =
            (struct graph_call){c->host, c->enqueue_ns, c->enqueued_ns, b->call_of[i]};
    }
    return orr__sort_indices(b->memory, b->graph_order, b->graph_count, graph_before, b->graphs);
}

/* The graph launch that a command belongs to, or NONE. */
static uint32_t graph_call_of(const struct builder *b, const struct orr_timeline_command *c) {
    size_t low = 0, high = b->graph_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct graph_call *g = &b->graphs[b->graph_order[middle]];
        bool before = g->host != c->host               ? g->host < c->host
                      : g->enqueue_ns != c->enqueue_ns ? g->enqueue_ns < c->enqueue_ns
                                                       : g->enqueued_ns < c->enqueued_ns;
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == b->graph_count) {
        return ORR_EVENTS_NONE;
    }
    const struct graph_call *g = &b->graphs[b->graph_order[low]];
    bool same =
        g->host == c->host && g->enqueue_ns == c->enqueue_ns && g->enqueued_ns == c->enqueued_ns;
    return same ? g->call : ORR_EVENTS_NONE;
}

static enum orr_status add_calls(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->command_count; i++) {
        b->call_of[i] = ORR_EVENTS_NONE;
    }
    enum orr_status status = add_graph_calls(b);
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        const struct orr_timeline_command *c = &t->commands[i];
        uint32_t thread;
        if (c->kind == ORR_COMMAND_GRAPH || !has_call(b, c, &thread)) {
            continue;
        }
        if (b->graph_count > 0) {
            b->call_of[i] = graph_call_of(b, c);
        }
        if (b->call_of[i] == ORR_EVENTS_NONE) {
            status = add_call(b, i, thread);
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Ops */

static void count_status(struct orr_events_source *source, enum orr_command_status status) {
    source->failed_ops += status == ORR_COMMAND_STATUS_FAILED;
    source->poisoned_ops += status == ORR_COMMAND_STATUS_POISONED;
    source->skipped_ops += status == ORR_COMMAND_STATUS_SKIPPED;
}

/* Broadcast operands are counted once per operator and device. */
static uint64_t broadcast_of(struct builder *b, const struct orr_timeline_command *c,
                             uint32_t device) {
    uint32_t op = op_index(b->timeline, c->op);
    if (c->kind != ORR_COMMAND_KERNEL || op == ORR_EVENTS_NONE ||
        b->last_broadcast[device] == c->op) {
        return 0;
    }
    b->last_broadcast[device] = c->op;
    return b->timeline->ops[op].bytes_broadcast;
}

static enum orr_op_kind op_kind(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL       ? ORR_DEVICE_OP_KERNEL
           : kind == ORR_COMMAND_COLLECTIVE ? ORR_DEVICE_OP_COLLECTIVE
           : kind == ORR_COMMAND_COPY       ? ORR_DEVICE_OP_COPY
                                            : ORR_DEVICE_OP_FILL;
}

static enum orr_activity op_activity(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL       ? ORR_ACTIVITY_COMPUTE
           : kind == ORR_COMMAND_COLLECTIVE ? ORR_ACTIVITY_COMM
                                            : ORR_ACTIVITY_COPY;
}

/* A command that ran to its end becomes an op; others are counted by what they lack. */
static enum orr_status add_op(struct builder *b, struct orr__operator_set *set, size_t index) {
    const struct orr_timeline_command *c = &b->timeline->commands[index];
    struct orr_events *events = b->events;
    count_status(&events->source, c->status);
    if (c->start_ns == ORR_TIME_NONE || c->finish_ns == ORR_TIME_NONE) {
        events->source.never_started++;
        events->source.unfinished += c->start_ns != ORR_TIME_NONE;
        return ORR_OK;
    }
    uint32_t stream = stream_find(b->timeline, c->stream);
    stream = stream == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : b->stream_index[stream];
    if (stream == ORR_EVENTS_NONE) {
        events->source.bad_ops++;
        return ORR_OK;
    }
    struct orr_events_op op = {
        .start_ns = c->start_ns,
        .end_ns = c->finish_ns,
        .ready_ns = good_time(c->ready_ns) ? c->ready_ns : ORR_TIME_NONE,
        .wait_ns = ORR_TIME_NONE,
        .wait_op = ORR_EVENTS_NONE,
        .wait_call = ORR_EVENTS_NONE,
        .correlation = c->id,
        .flops = c->flops,
        .bytes_read = c->bytes_read,
        .bytes_written = c->bytes_written,
        .bytes_broadcast = broadcast_of(b, c, events->streams[stream].device),
        .stream = stream,
        .call = b->call_of[index],
        .collective = b->collective_of ? b->collective_of[index] : ORR_EVENTS_NONE,
        .name = c->name,
        .kind = (uint8_t)op_kind(c->kind),
        .activity = (uint8_t)op_activity(c->kind),
        .has_cost = 1,
        .status = (uint8_t)c->status,
    };
    enum orr_status status = operator_row(b, set, index, &op.operator_index);
    return status == ORR_OK ? orr_events_add_op(events, &op, &b->op_of[index]) : status;
}

static enum orr_status add_ops(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    struct orr__operator_set set = {0};
    for (size_t i = 0; i < t->op_count; i++) {
        b->operator_of[i] = ORR_EVENTS_NONE;
    }
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        b->op_of[i] = ORR_EVENTS_NONE;
        if (is_op_kind(t->commands[i].kind)) {
            status = add_op(b, &set, i);
        }
    }
    orr__operator_set_free(b->memory, &set);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Collectives */

/* Index of a communicator, or NONE. */
static uint32_t communicator_find(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->communicators, t->communicator_count, sizeof *t->communicators, id);
}

/* Members of each communicator. */
static void count_members(const struct orr_timeline *t, uint32_t *sizes) {
    for (size_t i = 0; i < t->member_count; i++) {
        uint32_t communicator = communicator_find(t, t->members[i].communicator);
        if (communicator != ORR_EVENTS_NONE) {
            sizes[communicator]++;
        }
    }
}

static enum orr_status add_collective_rows(struct builder *b, const uint32_t *sizes) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->collective_count; i++) {
        const struct orr_timeline_collective *c = &t->collectives[i];
        uint32_t group = communicator_find(t, c->communicator);
        bool known = group != ORR_EVENTS_NONE;
        struct orr_events_collective item = {
            .kind = c->kind,
            .group = known ? t->communicators[group].name : "",
            .seq = c->seq,
            .bytes = c->bytes,
            .modelled_ns = c->modelled_ns == ORR_TIME_NONE ? 0 : c->modelled_ns,
            .emulated = c->emulated,
            .size = known ? sizes[group] : 0};
        enum orr_status status = orr_events_add_collective(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

static enum orr_status add_collectives(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    if (t->collective_count == 0) {
        return ORR_OK;
    }
    b->collective_of = orr_memory_alloc(b->memory, t->command_count * sizeof *b->collective_of);
    uint32_t *sizes = orr_memory_alloc(b->memory, t->communicator_count * sizeof *sizes);
    enum orr_status status = b->collective_of && sizes ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        count_members(t, sizes);
        status = add_collective_rows(b, sizes);
    }
    orr_memory_free(b->memory, sizes);
    if (status != ORR_OK) {
        return status;
    }
    for (size_t i = 0; i < t->command_count; i++) {
        b->collective_of[i] = ORR_EVENTS_NONE;
    }
    for (size_t i = 0; i < t->collective_member_count; i++) {
        const struct orr_timeline_collective_member *m = &t->collective_members[i];
        uint32_t command = command_index(t, m->cmd);
        size_t row = find_u64(t->collectives, t->collective_count, sizeof *t->collectives,
                              offsetof(struct orr_timeline_collective, id), m->collective);
        if (command != ORR_EVENTS_NONE && row < t->collective_count &&
            t->collectives[row].id == m->collective) {
            b->collective_of[command] = (uint32_t)row;
        }
    }
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Dependencies */

static bool seq_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_timeline *t = context;
    return t->commands[a].seq < t->commands[b].seq;
}

/* The stream in which a command has a place, or NONE. Allocations and host accesses name a stream
 * but are done in the order of the host: they have no seq. */
static uint32_t place_of(const struct orr_timeline *t, size_t command) {
    const struct orr_timeline_command *c = &t->commands[command];
    bool placed = c->seq > 0 || is_op_kind(c->kind);
    return placed ? stream_find(t, c->stream) : ORR_EVENTS_NONE;
}

/* Commands of each stream in the order of their places in it. */
static enum orr_status order_stream_commands(struct builder *b) {
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

static void find_ops_before(struct builder *b) {
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
    return find_u64(t->edges, t->edge_count, sizeof *t->edges,
                    offsetof(struct orr_timeline_edge, dst), command);
}

/* Edges between members of one collective say that they belong together, not that one ends
 * first. */
static bool same_collective(const struct builder *b, uint32_t x, uint32_t y) {
    return b->collective_of && b->collective_of[x] != ORR_EVENTS_NONE &&
           b->collective_of[x] == b->collective_of[y];
}

/* An edge that can make its command wait. The order of streams is known without them; what a host
 * knew to be done was done before the call, and when it waited for that stands in its syncs. */
static bool is_awaited(const struct orr_timeline_edge *edge) {
    return edge->kind != ORR_EDGE_STREAM && edge->kind != ORR_EDGE_HOST;
}

/* Most commands have no edge but that of their stream: a bit saves the search for the others. */
static void mark_awaiting(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t e = 0; e < t->edge_count; e++) {
        if (!is_awaited(&t->edges[e])) {
            continue;
        }
        uint32_t command = command_index(t, t->edges[e].dst);
        if (command != ORR_EVENTS_NONE) {
            b->awaits[command / 8] |= (uint8_t)(1u << (command % 8));
        }
    }
}

/* Returns true if an event edge leads to the command. */
static bool add_edges(const struct builder *b, uint32_t command, struct pending *pending) {
    const struct orr_timeline *t = b->timeline;
    uint64_t id = t->commands[command].id;
    bool event = false;
    if (!(b->awaits[command / 8] & (1u << (command % 8)))) {
        return false;
    }
    for (size_t e = first_edge_to(t, id); e < t->edge_count && t->edges[e].dst == id; e++) {
        uint32_t source = command_index(t, t->edges[e].src);
        event = event || t->edges[e].kind == ORR_EDGE_EVENT;
        if (!is_awaited(&t->edges[e]) || source == ORR_EVENTS_NONE ||
            same_collective(b, source, command)) {
            continue;
        }
        int64_t finish = t->commands[source].finish_ns;
        if (good_time(finish) && finish > pending->finish_ns) {
            *pending = (struct pending){finish, b->op_before[source], b->call_of[source]};
        }
    }
    return event;
}

/* d of the stream's ops. What is in the stream but no op (a wait, a host function) holds back what
 * follows it until its own finish. */
static void link_stream_waits(const struct builder *b, size_t stream) {
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
        } else if (!is_op_kind(c->kind) && good_time(c->finish_ns) &&
                   c->finish_ns > pending.finish_ns) {
            pending = (struct pending){c->finish_ns, b->op_before[index], b->call_of[index]};
        }
    }
}

static enum orr_status add_dependencies(struct builder *b) {
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

/* ------------------------------------------------------------------------------------------------
 * Host waits */

/* The device that a device wait was for. The command that it saw last is not always on it: an
 * allocation waits for all devices. */
static uint32_t waited_device(const struct orr_timeline *t, const struct orr_timeline_sync *sync,
                              uint32_t command) {
    static const char prefix[] = "device ";
    if (strncmp(sync->target, prefix, sizeof prefix - 1) == 0) {
        return device_find(t, (uint32_t)strtoul(sync->target + sizeof prefix - 1, NULL, 10));
    }
    return command == ORR_EVENTS_NONE ? ORR_EVENTS_NONE
                                      : device_find(t, t->commands[command].device);
}

/* What a sync record waited for: the op it observed, or for a device sync the whole device, even if
 * the command that it saw last is in a stream without ops. */
static void set_target(const struct builder *b, const struct orr_timeline_sync *sync,
                       struct orr_events_sync *item) {
    uint32_t command = command_index(b->timeline, sync->cmd);
    bool device = sync->kind == ORR_SYNC_DEVICE;
    uint32_t target = device                       ? waited_device(b->timeline, sync, command)
                      : command == ORR_EVENTS_NONE ? ORR_EVENTS_NONE
                                                   : b->op_before[command];
    if (target != ORR_EVENTS_NONE) {
        item->kind = device ? ORR_SYNC_TARGET_DEVICE : ORR_SYNC_TARGET_OP;
        item->target = target;
    }
}

static enum orr_status add_syncs(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->sync_count; i++) {
        const struct orr_timeline_sync *sync = &t->syncs[i];
        uint32_t thread = host_find(t, sync->host);
        if (thread == ORR_EVENTS_NONE || !good_time(sync->begin_ns) || !good_time(sync->end_ns) ||
            sync->end_ns < sync->begin_ns) {
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

/* ---------------------------------------------------------------------------------------------- */

static uint64_t meta_number(const struct orr_timeline *t, const char *key) {
    const char *text = orr_timeline_meta(t, key);
    uint64_t value = 0;
    for (; text && *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

static void set_source(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    const char *backend = orr_timeline_meta(t, "backend");
    const char *status = orr_timeline_meta(t, "status");
    struct orr_events_source *source = &b->events->source;
    source->format = "orrery";
    source->status = status ? status : "";
    source->modelled = backend && strcmp(backend, "sim") == 0;
    source->knows_waits = true;
    source->knows_syncs = true;
    source->dropped = meta_number(t, "dropped");
}

static void free_builder(struct builder *b) {
    void *arrays[] = {b->call_of,       b->op_of,           b->op_before,    b->operator_of,
                      b->collective_of, b->stream_commands, b->stream_first, b->stream_index,
                      b->graphs,        b->graph_order,     b->awaits,       b->last_broadcast};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(b->memory, arrays[i]);
    }
}

/* Exact room for ops and calls. */
static enum orr_status count_rows(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    size_t ops = 0;
    for (size_t i = 0; i < t->command_count; i++) {
        ops += is_op_kind(t->commands[i].kind);
    }
    return orr_events_reserve(b->events, ops, t->command_count + t->sync_count);
}

static enum orr_status create_builder(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    const struct orr_memory *m = b->memory;
    size_t commands = t->command_count;
    b->call_of = orr_memory_resize(m, NULL, commands * sizeof *b->call_of);
    b->op_of = orr_memory_resize(m, NULL, commands * sizeof *b->op_of);
    b->op_before = orr_memory_resize(m, NULL, commands * sizeof *b->op_before);
    b->operator_of = orr_memory_resize(m, NULL, t->op_count * sizeof *b->operator_of);
    b->stream_commands = orr_memory_resize(m, NULL, commands * sizeof *b->stream_commands);
    b->stream_first = orr_memory_alloc(m, (t->stream_count + 1) * sizeof *b->stream_first);
    b->stream_index = orr_memory_alloc(m, t->stream_count * sizeof *b->stream_index);
    b->awaits = orr_memory_alloc(m, commands / 8 + 1);
    b->last_broadcast = orr_memory_alloc(m, t->device_count * sizeof *b->last_broadcast);
    bool all = b->call_of && b->op_of && b->op_before && b->operator_of && b->stream_commands &&
               b->stream_first && b->stream_index && b->awaits && b->last_broadcast;
    return all ? count_rows(b) : ORR_NO_MEMORY;
}

static enum orr_status build(struct builder *b) {
    enum orr_status (*const steps[])(struct builder *) = {
        create_builder,  add_devices, add_streams,      add_threads, add_calls,
        add_collectives, add_ops,     add_dependencies, add_syncs};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        enum orr_status status = steps[i](b);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

enum orr_status orr_events_from_timeline(const struct orr_timeline *timeline,
                                         const struct orr_memory *memory,
                                         struct orr_events *out_events, struct orr_error *error) {
    orr_events_init(out_events, memory);
    if (timeline->command_count >= ORR_EVENTS_NONE || timeline->op_count >= ORR_EVENTS_NONE) {
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "analyze: %zu commands; at most %u are supported",
                             timeline->command_count, ORR_EVENTS_NONE - 1);
    }
    struct builder builder = {.timeline = timeline, .events = out_events, .memory = memory};
    enum orr_status status = build(&builder);
    if (status == ORR_OK) {
        set_source(&builder);
        status = orr_events_prepare(out_events, error);
    } else {
        orr_error_set(error, status, "analyze: %zu commands do not fit in memory",
                      timeline->command_count);
    }
    free_builder(&builder);
    if (status != ORR_OK) {
        orr_events_free(out_events);
    }
    return status;
}
