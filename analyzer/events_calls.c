/* Our own timelines: the calls that enqueued commands. */
#include "analyzer/events_fill.h"
#include "analyzer/sort.h"

/* A graph launch and its nodes carry the same stamps and are one call; this finds the launch. */
struct orr__graph_call {
    uint32_t host;
    int64_t enqueue_ns, enqueued_ns;
    uint32_t call;
};

static bool graph_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr__graph_call *x = (const struct orr__graph_call *)context + a;
    const struct orr__graph_call *y = (const struct orr__graph_call *)context + b;
    if (x->host != y->host) {
        return x->host < y->host;
    }
    if (x->enqueue_ns != y->enqueue_ns) {
        return x->enqueue_ns < y->enqueue_ns;
    }
    return x->enqueued_ns < y->enqueued_ns;
}

static uint32_t call_flags(const struct orr_timeline_command *c) {
    uint32_t flags = orr__is_op_kind(c->kind) ? ORR_CALL_LAUNCH : 0;
    if (c->kind == ORR_COMMAND_GRAPH) {
        flags |= ORR_CALL_LAUNCH | ORR_CALL_GRAPH;
    }
    bool allocates = c->kind == ORR_COMMAND_ALLOC || c->kind == ORR_COMMAND_FREE;
    if (allocates && c->stream == ORR_ID_NONE) {
        flags |= ORR_CALL_BREAKING; /* stream-ordered allocation can be captured, other can't */
    }
    return flags;
}

static bool has_call(const struct orr__filler *b, const struct orr_timeline_command *c,
                     uint32_t *out_thread) {
    *out_thread = orr__find_host(b->timeline, c->host);
    if (c->kind == ORR_COMMAND_MARKER && c->stream == ORR_ID_NONE) {
        return false; /* a message to another host is no call of a device's API */
    }
    return *out_thread != ORR_EVENTS_NONE && orr__good_time(c->enqueue_ns) &&
           orr__good_time(c->enqueued_ns) && c->enqueued_ns >= c->enqueue_ns;
}

static enum orr_status add_call(struct orr__filler *b, size_t command, uint32_t thread) {
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

static enum orr_status add_graph_calls(struct orr__filler *b) {
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
            (struct orr__graph_call){c->host, c->enqueue_ns, c->enqueued_ns, b->call_of[i]};
    }
    return orr__sort_indices(b->memory, b->graph_order, b->graph_count, graph_before, b->graphs);
}

/* The graph launch that a command belongs to, or NONE. */
static uint32_t graph_call_of(const struct orr__filler *b, const struct orr_timeline_command *c) {
    size_t low = 0, high = b->graph_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct orr__graph_call *g = &b->graphs[b->graph_order[middle]];
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
    const struct orr__graph_call *g = &b->graphs[b->graph_order[low]];
    bool same =
        g->host == c->host && g->enqueue_ns == c->enqueue_ns && g->enqueued_ns == c->enqueued_ns;
    return same ? g->call : ORR_EVENTS_NONE;
}

enum orr_status orr__fill_calls(struct orr__filler *b) {
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
