#include <assert.h>
#include <stdio.h>

#include "hazards/check.h"
#include "hazards/stream_program_rules.h"

/* Oracle capture: which call of a program breaks a rule of stream capture, and with which code.
 *
 * A captured action is a node with up to two others before it: the action before it on its stream,
 * and for a wait the last action that its event covers.
 *
 *     origin   begin - k ----- record e ------------- wait f - end      nodes: k <- wait f
 *     side                        \- wait e - k2 - record f /                    |
 *                                                                 k <- wait e <- k2
 *
 * What comes before a point of a stream is then everything that its last node reaches. A capture is
 * closed if the origin's last node reaches the last node of every other stream: what precedes the
 * last action on a stream are all its actions. Every node is visited once, at the end of its
 * capture, so the whole check is linear in the program. */

enum code {
    UNSUPPORTED,
    INVALIDATED,
    MERGE,
    UNMATCHED,
    UNJOINED,
    ISOLATION,
    IMPLICIT,
    CAPTURED,
    THREAD,
    ILLEGAL
};

static const struct {
    int number;
    const char *name;
} codes[] = {
    [UNSUPPORTED] = {900, "cudaErrorStreamCaptureUnsupported"},
    [INVALIDATED] = {901, "cudaErrorStreamCaptureInvalidated"},
    [MERGE] = {902, "cudaErrorStreamCaptureMerge"},
    [UNMATCHED] = {903, "cudaErrorStreamCaptureUnmatched"},
    [UNJOINED] = {904, "cudaErrorStreamCaptureUnjoined"},
    [ISOLATION] = {905, "cudaErrorStreamCaptureIsolation"},
    [IMPLICIT] = {906, "cudaErrorStreamCaptureImplicit"},
    [CAPTURED] = {907, "cudaErrorCapturedEvent"},
    [THREAD] = {908, "cudaErrorStreamCaptureWrongThread"},
    [ILLEGAL] = {401, "cudaErrorIllegalState"},
};

struct node {
    uint32_t before, covered; /* ORR_NONE: none */
    uint32_t op;
    bool is_reached;
};

struct stream {
    uint32_t capture, last; /* ORR_NONE: in none; no action yet */
    uint32_t next;          /* in the same capture, in the order of joining */
    uint32_t legacy;        /* of a blocking stream: the legacy stream of its device */
    uint32_t captured;      /* of a legacy stream: how many of its blocking streams are captured */
    uint32_t joined_op;
};

struct capture {
    uint32_t origin, host, begin_op, end_op; /* end_op ORR_NONE: active */
    uint32_t last_stream;
};

struct event {
    uint32_t record_op; /* ORR_NONE: never recorded */
    uint32_t capture, node;
};

struct rules {
    const struct orr_stream_program *program;
    struct orr_check_verdict *verdict;
    struct stream *streams;
    struct event *events;
    struct capture *captures;
    struct node *nodes;
    uint32_t *active_of_host; /* captures that a host began and that are active */
    uint32_t *stack;          /* of the walk at an end */
    size_t capture_capacity, node_capacity, stack_capacity;
    uint32_t capture_count, node_count, active;
};

enum { ITEMS_MAX = 1 << 28, SHORT_MAX = 160 };

/* --- texts --- */

static const char *stream_name(const struct rules *rules, uint32_t stream) {
    return orr_stream_program_text(rules->program, ORR_NAME_STREAM, stream);
}

static const char *host_name(const struct rules *rules, uint32_t host) {
    return orr_stream_program_text(rules->program, ORR_NAME_HOST, host);
}

static const char *event_name(const struct rules *rules, uint32_t event) {
    return orr_stream_program_text(rules->program, ORR_NAME_EVENT, event);
}

/* The finding: the call, its code, why, and what to do. The latter two are printf's. */
static enum orr_status fail(struct rules *rules, uint32_t index, enum code code, const char *why,
                            const char *fix) {
    char call[SHORT_MAX];
    orr_stream_op_short(rules->program, index, call, sizeof call);
    rules->verdict->kind = ORR_CHECK_ERROR;
    rules->verdict->op_b = index;
    enum orr_status status =
        orr_check_verdict_message(rules->verdict, "op %u '%s' (host %s): error %d, %s: %s", index,
                                  call, host_name(rules, rules->program->ops[index].host),
                                  codes[code].number, codes[code].name, why);
    return status == ORR_OK ? orr_check_verdict_fix(rules->verdict, "%s", fix) : status;
}

#define TEXT(buffer, ...) snprintf(buffer, sizeof buffer, __VA_ARGS__)

/* --- captured actions --- */

static enum orr_status add_action(struct rules *rules, uint32_t index, uint32_t covered) {
    struct stream *stream = &rules->streams[rules->program->ops[index].stream];
    enum orr_status status =
        orr_memory_grow(rules->program->memory, &rules->nodes, &rules->node_capacity,
                        (size_t)rules->node_count + 1, sizeof *rules->nodes, ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    rules->nodes[rules->node_count] =
        (struct node){.before = stream->last, .covered = covered, .op = index};
    stream->last = rules->node_count++;
    return ORR_OK;
}

static enum orr_status reach(struct rules *rules, uint32_t node, uint32_t *depth) {
    if (node == ORR_NONE || rules->nodes[node].is_reached)
        return ORR_OK;
    rules->nodes[node].is_reached = true;
    enum orr_status status =
        orr_memory_grow(rules->program->memory, &rules->stack, &rules->stack_capacity,
                        (size_t)*depth + 1, sizeof *rules->stack, ITEMS_MAX);
    if (status == ORR_OK)
        rules->stack[(*depth)++] = node;
    return status;
}

/* Marks everything that comes before the end of a stream. */
static enum orr_status walk(struct rules *rules, uint32_t last) {
    uint32_t depth = 0;
    enum orr_status status = reach(rules, last, &depth);
    while (depth > 0 && status == ORR_OK) {
        struct node node = rules->nodes[rules->stack[--depth]];
        status = reach(rules, node.before, &depth);
        if (status == ORR_OK)
            status = reach(rules, node.covered, &depth);
    }
    return status;
}

/* --- joining and leaving --- */

static void join(struct rules *rules, uint32_t stream, uint32_t capture, uint32_t index) {
    struct stream *joining = &rules->streams[stream];
    joining->capture = capture;
    joining->last = joining->next = ORR_NONE;
    joining->joined_op = index;
    if (joining->legacy != ORR_NONE)
        rules->streams[joining->legacy].captured++;
    struct capture *joined = &rules->captures[capture];
    if (joined->last_stream != ORR_NONE)
        rules->streams[joined->last_stream].next = stream;
    joined->last_stream = stream;
}

static void end_capture(struct rules *rules, uint32_t capture, uint32_t index) {
    struct capture *ended = &rules->captures[capture];
    for (uint32_t at = ended->origin; at != ORR_NONE;) {
        struct stream *stream = &rules->streams[at];
        if (stream->legacy != ORR_NONE)
            rules->streams[stream->legacy].captured--;
        stream->capture = ORR_NONE;
        at = stream->next;
    }
    ended->end_op = index;
    rules->active--;
    rules->active_of_host[ended->host]--;
}

/* --- calls --- */

static enum orr_status begin(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    char why[512];
    if (rules->program->streams[op->stream].sync == ORR_STREAM_LEGACY) {
        TEXT(why, "'%s' is the legacy default stream, which can't be captured",
             stream_name(rules, op->stream));
        return fail(rules, index, UNSUPPORTED, why,
                    "capture on a stream that the program created (kind nb or bl)");
    }
    uint32_t capture = rules->streams[op->stream].capture;
    if (capture != ORR_NONE) {
        TEXT(why, "stream '%s' is already in the capture that op %u began",
             stream_name(rules, op->stream), rules->captures[capture].begin_op);
        return fail(rules, index, ILLEGAL, why,
                    "end the capture before the next one begins, or capture on another stream");
    }
    enum orr_status status =
        orr_memory_grow(rules->program->memory, &rules->captures, &rules->capture_capacity,
                        (size_t)rules->capture_count + 1, sizeof *rules->captures, ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    rules->captures[rules->capture_count] = (struct capture){.origin = op->stream,
                                                             .host = op->host,
                                                             .begin_op = index,
                                                             .end_op = ORR_NONE,
                                                             .last_stream = ORR_NONE};
    join(rules, op->stream, rules->capture_count++, index);
    rules->active++;
    rules->active_of_host[op->host]++;
    return ORR_OK;
}

static enum orr_status say_unmatched(struct rules *rules, uint32_t index) {
    uint32_t stream = rules->program->ops[index].stream;
    uint32_t capture = rules->streams[stream].capture;
    char why[512], fix[512];
    if (capture == ORR_NONE) {
        TEXT(why, "stream '%s' is in no capture", stream_name(rules, stream));
        return fail(rules, index, UNMATCHED, why,
                    "begin the capture on this stream, and end it once");
    }
    const struct capture *active = &rules->captures[capture];
    TEXT(why, "stream '%s' is in the capture that op %u began on stream '%s', its origin",
         stream_name(rules, stream), active->begin_op, stream_name(rules, active->origin));
    TEXT(fix, "end the capture on stream '%s'", stream_name(rules, active->origin));
    return fail(rules, index, UNMATCHED, why, fix);
}

static enum orr_status say_unjoined(struct rules *rules, uint32_t index, uint32_t unjoined) {
    const struct stream *stream = &rules->streams[unjoined];
    const char *origin = stream_name(rules, rules->program->ops[index].stream);
    char why[768], fix[512], last[SHORT_MAX];
    orr_stream_op_short(rules->program, rules->nodes[stream->last].op, last, sizeof last);
    TEXT(why,
         "stream '%s' joined the capture at op %u, and its last captured action, op "
         "%u '%s', is not ordered before the end on stream '%s'",
         stream_name(rules, unjoined), stream->joined_op, rules->nodes[stream->last].op, last,
         origin);
    TEXT(fix,
         "record an event on stream '%s' after op %u and let stream '%s' wait for it before "
         "op %u",
         stream_name(rules, unjoined), rules->nodes[stream->last].op, origin, index);
    return fail(rules, index, UNJOINED, why, fix);
}

static enum orr_status end(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    uint32_t capture = rules->streams[op->stream].capture;
    if (capture == ORR_NONE || rules->captures[capture].origin != op->stream)
        return say_unmatched(rules, index);
    const struct capture *active = &rules->captures[capture];
    if (active->host != op->host && rules->program->capture_mode != ORR_CAPTURE_RELAXED) {
        char why[512], fix[512];
        TEXT(why, "host '%s' began the capture, at op %u", host_name(rules, active->host),
             active->begin_op);
        TEXT(fix, "end the capture on host '%s', or capture in mode relaxed",
             host_name(rules, active->host));
        return fail(rules, index, THREAD, why, fix);
    }
    enum orr_status status = walk(rules, rules->streams[op->stream].last);
    if (status != ORR_OK)
        return status;
    for (uint32_t at = active->origin; at != ORR_NONE; at = rules->streams[at].next) {
        uint32_t last = rules->streams[at].last;
        if (last != ORR_NONE && !rules->nodes[last].is_reached)
            return say_unjoined(rules, index, at);
    }
    end_capture(rules, capture, index);
    return ORR_OK;
}

static void record(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    const struct stream *stream = &rules->streams[op->stream];
    rules->events[op->object] =
        (struct event){.record_op = index, .capture = stream->capture, .node = stream->last};
}

/* A wait of stream `op->stream` for an event that was recorded in a capture. */
static enum orr_status wait_captured(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    const struct event *event = &rules->events[op->object];
    const struct capture *capture = &rules->captures[event->capture];
    const char *name = event_name(rules, op->object), *stream = stream_name(rules, op->stream);
    char why[768], fix[512];
    if (capture->end_op != ORR_NONE) {
        TEXT(why,
             "event '%s' was recorded by op %u in a capture that op %u ended; such an "
             "event stands for nothing outside",
             name, event->record_op, capture->end_op);
        TEXT(fix,
             "record an event after the graph's launch and wait for that, or record '%s' again",
             name);
        return fail(rules, index, CAPTURED, why, fix);
    }
    uint32_t current = rules->streams[op->stream].capture;
    if (current != ORR_NONE && current != event->capture) {
        TEXT(why,
             "stream '%s' is in the capture that op %u began, event '%s' in the one that "
             "op %u began; captures can't be merged",
             stream, rules->captures[current].begin_op, name, capture->begin_op);
        return fail(rules, index, MERGE, why,
                    "capture both as one graph from one origin stream, or order their launches by "
                    "events outside the captures");
    }
    if (current == ORR_NONE && rules->program->streams[op->stream].sync == ORR_STREAM_LEGACY) {
        TEXT(why, "'%s' is the legacy default stream, which can't join the capture of event '%s'",
             stream, name);
        return fail(rules, index, UNSUPPORTED, why,
                    "let a stream of kind nb or bl wait, or wait after the capture's end");
    }
    if (current == ORR_NONE)
        join(rules, op->stream, event->capture, index);
    return add_action(rules, index, event->node);
}

static enum orr_status wait(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    const struct event *event = &rules->events[op->object];
    if (op->ignored || event->record_op == ORR_NONE)
        return ORR_OK;
    if (event->capture != ORR_NONE)
        return wait_captured(rules, index);
    uint32_t current = rules->streams[op->stream].capture;
    if (current == ORR_NONE)
        return ORR_OK;
    char why[768], fix[512];
    const char *name = event_name(rules, op->object);
    TEXT(why,
         "event '%s' was recorded by op %u outside of the capture that op %u began; "
         "captured work can't wait for work that is not captured",
         name, event->record_op, rules->captures[current].begin_op);
    TEXT(fix,
         "wait for '%s' on stream '%s' before op %u begins the capture, or record it on a "
         "stream of the capture",
         name, stream_name(rules, op->stream), rules->captures[current].begin_op);
    return fail(rules, index, ISOLATION, why, fix);
}

/* A blocking stream of this legacy stream that is in a capture. */
static uint32_t find_captured(const struct rules *rules, uint32_t legacy) {
    uint32_t stream = 0;
    while (rules->streams[stream].legacy != legacy || rules->streams[stream].capture == ORR_NONE)
        stream++;
    return stream;
}

static enum orr_status work(struct rules *rules, uint32_t index) {
    uint32_t stream = rules->program->ops[index].stream;
    if (rules->streams[stream].captured > 0) {
        uint32_t captured = find_captured(rules, stream);
        char why[768], fix[512];
        TEXT(why,
             "work on the legacy stream '%s' would come after that of blocking stream '%s', which "
             "is in the capture that op %u began",
             stream_name(rules, stream), stream_name(rules, captured),
             rules->captures[rules->streams[captured].capture].begin_op);
        TEXT(fix, "run it on a stream of kind nb, capture on one, or move it before the capture or "
                  "behind its end");
        return fail(rules, index, IMPLICIT, why, fix);
    }
    return rules->streams[stream].capture == ORR_NONE ? ORR_OK : add_action(rules, index, ORR_NONE);
}

/* --- calls of the host --- */

static bool is_forbidden(const struct rules *rules, uint32_t host) {
    switch (rules->program->capture_mode) {
    case ORR_CAPTURE_GLOBAL: return rules->active > 0;
    case ORR_CAPTURE_THREAD_LOCAL: return rules->active_of_host[host] > 0;
    default: return false;
    }
}

/* A call that an active capture forbids; it also breaks the capture. */
static enum orr_status say_forbidden(struct rules *rules, uint32_t index) {
    uint32_t host = rules->program->ops[index].host;
    bool is_global = rules->program->capture_mode == ORR_CAPTURE_GLOBAL;
    uint32_t found = 0;
    while (rules->captures[found].end_op != ORR_NONE ||
           (!is_global && rules->captures[found].host != host))
        found++;
    const struct capture *capture = &rules->captures[found];
    char why[768], fix[512];
    TEXT(why,
         "host '%s' is capturing stream '%s' since op %u in mode %s, which forbids this "
         "call; the capture is invalidated (%d, %s)",
         host_name(rules, capture->host), stream_name(rules, capture->origin), capture->begin_op,
         is_global ? "global" : "thread_local", codes[INVALIDATED].number, codes[INVALIDATED].name);
    bool is_other = capture->host != host;
    TEXT(fix, "make the call before the capture or after its end, or capture in mode %s",
         is_other ? "thread_local" : "relaxed");
    return fail(rules, index, UNSUPPORTED, why, fix);
}

static enum orr_status use_event(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    const struct event *event = &rules->events[op->object];
    if (event->record_op == ORR_NONE || event->capture == ORR_NONE)
        return is_forbidden(rules, op->host) ? say_forbidden(rules, index) : ORR_OK;
    char why[768];
    TEXT(why,
         "event '%s' was recorded by op %u in the capture that op %u began; the host "
         "can't ask for captured work",
         event_name(rules, op->object), event->record_op, rules->captures[event->capture].begin_op);
    return fail(rules, index, CAPTURED, why,
                "record an event after the graph's launch, outside of a capture, and ask for that");
}

static enum orr_status sync_stream(struct rules *rules, uint32_t index) {
    uint32_t stream = rules->program->ops[index].stream;
    uint32_t capture = rules->streams[stream].capture;
    if (capture == ORR_NONE)
        return ORR_OK;
    char why[768];
    TEXT(why, "stream '%s' is in the capture that op %u began: its work does not run yet",
         stream_name(rules, stream), rules->captures[capture].begin_op);
    return fail(rules, index, UNSUPPORTED, why,
                "synchronize after the capture's end and the graph's launch");
}

static enum orr_status call(struct rules *rules, uint32_t index) {
    const struct orr_stream_op *op = &rules->program->ops[index];
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_CAPTURE_BEGIN: return begin(rules, index);
    case ORR_OP_CAPTURE_END: return end(rules, index);
    case ORR_OP_RECORD: record(rules, index); return ORR_OK;
    case ORR_OP_WAIT: return wait(rules, index);
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_EVENT_QUERY: return use_event(rules, index);
    case ORR_OP_CUDA_MALLOC:
        return is_forbidden(rules, op->host) ? say_forbidden(rules, index) : ORR_OK;
    case ORR_OP_SYNC_STREAM: return sync_stream(rules, index);
    case ORR_OP_KERNEL:
    case ORR_OP_MEMCPY:
    case ORR_OP_MEMSET:
    case ORR_OP_HOSTFN:
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: return work(rules, index);
    default: return ORR_OK;
    }
}

/* --- the whole program --- */

static enum orr_status prepare(struct rules *rules) {
    const struct orr_stream_program *program = rules->program;
    const struct orr_memory *memory = program->memory;
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    uint32_t events = program->names[ORR_NAME_EVENT].count;
    rules->streams = orr_memory_alloc(memory, streams * sizeof *rules->streams);
    rules->events = orr_memory_alloc(memory, events * sizeof *rules->events);
    rules->active_of_host = orr_memory_alloc(memory, program->names[ORR_NAME_HOST].count *
                                                         sizeof *rules->active_of_host);
    struct orr__legacy *legacy;
    uint32_t count;
    if (!rules->streams || !rules->events || !rules->active_of_host ||
        orr__legacy_streams(program, &legacy, &count) != ORR_OK)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < events; i++)
        rules->events[i].record_op = ORR_NONE;
    for (uint32_t i = 0; i < streams; i++) {
        bool is_blocking = program->streams[i].sync == ORR_STREAM_BL ||
                           program->streams[i].sync == ORR_STREAM_PTDS;
        rules->streams[i].capture = rules->streams[i].last = rules->streams[i].next = ORR_NONE;
        rules->streams[i].legacy =
            is_blocking ? orr__legacy_stream(legacy, count, program->streams[i].device) : ORR_NONE;
    }
    orr_memory_free(memory, legacy);
    return ORR_OK;
}

enum orr_status orr_check_capture(const struct orr_stream_program *program,
                                  struct orr_check_verdict *out_verdict) {
    *out_verdict = (struct orr_check_verdict){
        .kind = ORR_CHECK_NO_ERROR, .op_a = ORR_NONE, .op_b = ORR_NONE, .memory = program->memory};
    struct rules rules = {.program = program, .verdict = out_verdict};
    enum orr_status status = prepare(&rules);
    for (uint32_t i = 0; i < program->op_count && status == ORR_OK; i++) {
        status = call(&rules, i);
        if (out_verdict->kind == ORR_CHECK_ERROR)
            break;
    }
    orr_memory_free(program->memory, rules.streams);
    orr_memory_free(program->memory, rules.events);
    orr_memory_free(program->memory, rules.captures);
    orr_memory_free(program->memory, rules.nodes);
    orr_memory_free(program->memory, rules.active_of_host);
    orr_memory_free(program->memory, rules.stack);
    return status;
}
