#include "tests/order_naive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ACTORS = 320, NAMES = 64, EVENTS = 64, HISTORY = 4096, COMMS = 4, HOSTS = 16 };

struct count {
    uint32_t of[ACTORS];
};

struct entry {
    uint32_t block, name, op, actor, number;
    struct orr_stream_access access;
};

struct naive {
    const struct orr_stream_program *p;
    uint32_t streams;
    struct count clocks[ACTORS], events[EVENTS], flags[EVENTS], freed[NAMES], comms[COMMS][HOSTS];
    bool event_is[EVENTS], flag_is[EVENTS], comm_is[COMMS][HOSTS], recorded[NAMES][ACTORS];
    uint32_t block[NAMES], intro[NAMES], end[NAMES], alloc_actor[NAMES], alloc_number[NAMES];
    bool reused[NAMES];
    uint32_t blocks, op;
    struct entry history[HISTORY];
    uint32_t history_count;
    struct orr_check_verdict verdict;
    bool is_over;
    uint8_t *found; /* goes on after findings, and marks them here */
};

static void join(struct count *to, const struct count *from) {
    for (int i = 0; i < ACTORS; i++)
        if (from->of[i] > to->of[i])
            to->of[i] = from->of[i];
}

static void over(struct naive *n, enum orr_check_verdict_kind kind, uint32_t a) {
    if (n->found && kind != ORR_CHECK_INVALID) {
        n->found[n->op] = 1;
        return;
    }
    if (n->is_over)
        return;
    n->is_over = true;
    n->verdict.kind = kind;
    if (kind != ORR_CHECK_INVALID) {
        n->verdict.op_a = a;
        n->verdict.op_b = n->op;
    }
}

static bool legacy(const struct naive *n, uint32_t s) {
    return n->p->streams[s].sync == ORR_STREAM_LEGACY;
}

/* Whether b is one of the blocking streams of legacy stream s. */
static bool blocking_of(const struct naive *n, uint32_t s, uint32_t b) {
    return n->p->streams[b].device == n->p->streams[s].device &&
           (n->p->streams[b].sync == ORR_STREAM_BL || n->p->streams[b].sync == ORR_STREAM_PTDS);
}

static struct count *host(struct naive *n, uint32_t h) {
    return &n->clocks[n->streams + h];
}

static void step1(struct naive *n, uint32_t s) {
    for (uint32_t b = 0; legacy(n, s) && b < n->streams; b++)
        if (blocking_of(n, s, b))
            join(&n->clocks[s], &n->clocks[b]);
}

static void step5(struct naive *n, uint32_t s) {
    for (uint32_t b = 0; legacy(n, s) && b < n->streams; b++)
        if (blocking_of(n, s, b))
            join(&n->clocks[b], &n->clocks[s]);
}

static void host_waits(struct naive *n, uint32_t h, uint32_t s) {
    join(host(n, h), &n->clocks[s]);
    for (uint32_t b = 0; legacy(n, s) && b < n->streams; b++)
        if (blocking_of(n, s, b))
            join(host(n, h), &n->clocks[b]);
}

static bool is_host_memory(const struct naive *n, uint32_t b) {
    return n->p->buffers[b] == ORR_MEMORY_PINNED || n->p->buffers[b] == ORR_MEMORY_PAGEABLE;
}

static void check(struct naive *n, const struct orr_stream_access *x, const struct count *clock) {
    uint32_t b = x->buffer;
    if (n->p->buffers[b] == ORR_MEMORY_EMPTY || x->hi <= x->lo)
        return;
    if (n->intro[b] != ORR_NONE && n->p->ops[n->intro[b]].kind == ORR_OP_ALLOC_ASYNC &&
        n->alloc_number[b] > clock->of[n->alloc_actor[b]])
        over(n, ORR_CHECK_USE_BEFORE_ALLOC, n->intro[b]);
    if (n->end[b] != ORR_NONE)
        over(n, ORR_CHECK_USE_AFTER_FREE, n->end[b]);
    for (uint32_t i = 0; i < n->history_count; i++) {
        const struct entry *e = &n->history[i];
        if (e->block != n->block[b] || e->op == n->op || e->access.lo >= x->hi ||
            x->lo >= e->access.hi || !(e->access.is_write || x->is_write) ||
            e->number <= clock->of[e->actor])
            continue;
        over(n, e->name == b ? ORR_CHECK_RACE : ORR_CHECK_USE_AFTER_FREE, e->op);
    }
}

/* which: 0 all, 1 reads, 2 writes. */
static void accesses(struct naive *n, uint32_t actor, int which) {
    const struct orr_stream_op *op = &n->p->ops[n->op];
    const struct orr_stream_access *x = n->p->accesses + op->access_first;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (which == 0 || x[i].is_write == (which == 2))
            check(n, &x[i], &n->clocks[actor]);
    for (uint32_t i = 0; i < op->access_count; i++) {
        if ((which != 0 && x[i].is_write != (which == 2)) || x[i].hi <= x[i].lo ||
            n->p->buffers[x[i].buffer] == ORR_MEMORY_EMPTY)
            continue;
        assert_true(n->history_count < HISTORY);
        n->history[n->history_count++] = (struct entry){.block = n->block[x[i].buffer],
                                                        .name = x[i].buffer,
                                                        .op = n->op,
                                                        .actor = actor,
                                                        .number = n->clocks[actor].of[actor],
                                                        .access = x[i]};
    }
}

static void stream_action(struct naive *n, uint32_t s, int which) {
    step1(n, s);
    join(&n->clocks[s], host(n, n->p->ops[n->op].host));
    n->clocks[s].of[s]++;
    accesses(n, s, which);
    step5(n, s);
}

static void host_action(struct naive *n, int which) {
    uint32_t actor = n->streams + n->p->ops[n->op].host;
    n->clocks[actor].of[actor]++;
    accesses(n, actor, which);
}

static uint32_t legacy_stream(const struct naive *n, uint32_t device) {
    for (uint32_t s = 0; s < n->streams; s++)
        if (legacy(n, s) && n->p->streams[s].device == device)
            return s;
    fail();
    return 0;
}

static void copies(struct naive *n, const struct orr_stream_op *op) {
    const struct orr_stream_access *x = n->p->accesses + op->access_first;
    uint32_t s = op->kind == ORR_OP_MEMCPY ? op->stream : legacy_stream(n, op->device);
    if (op->kind == ORR_OP_MEMSET_SYNC) {
        stream_action(n, s, 0);
        if (n->p->buffers[x[0].buffer] == ORR_MEMORY_PINNED ||
            n->p->buffers[x[0].buffer] == ORR_MEMORY_MANAGED)
            join(host(n, op->host), &n->clocks[s]);
        return;
    }
    bool from = is_host_memory(n, x[0].buffer), to = is_host_memory(n, x[1].buffer);
    bool staged = n->p->buffers[x[0].buffer] == ORR_MEMORY_PAGEABLE && !to &&
                  (op->kind == ORR_OP_MEMCPY_SYNC || n->p->is_staged);
    if (staged && op->kind == ORR_OP_MEMCPY_SYNC)
        host_waits(n, op->host, s);
    if (staged)
        host_action(n, 1);
    stream_action(n, s, staged ? 2 : 0);
    if (!staged && (op->kind == ORR_OP_MEMCPY ? from && to : from || to))
        join(host(n, op->host), &n->clocks[s]);
}

static void communication(struct naive *n, const struct orr_stream_op *op) {
    if (n->p->nccl_serial && n->comm_is[op->object][op->host])
        join(&n->clocks[op->stream], &n->comms[op->object][op->host]);
    stream_action(n, op->stream, 0);
    n->comms[op->object][op->host] = n->clocks[op->stream];
    n->comm_is[op->object][op->host] = true;
}

static void introduce(struct naive *n, const struct orr_stream_op *op) {
    uint32_t b = op->object, r = op->other;
    if (n->intro[b] != ORR_NONE || n->end[b] != ORR_NONE) {
        over(n, ORR_CHECK_INVALID, 0);
        return;
    }
    if (op->kind == ORR_OP_ALIAS) {
        n->block[b] = n->block[r];
    } else if (r == ORR_NONE) {
        n->block[b] = n->blocks++;
    } else {
        uint8_t matching = op->kind == ORR_OP_ALLOC ? ORR_OP_FREE : ORR_OP_FREE_ASYNC;
        if (n->end[r] == ORR_NONE || n->p->ops[n->end[r]].kind != matching || n->reused[r]) {
            over(n, ORR_CHECK_INVALID, 0);
            return;
        }
        n->reused[r] = true;
        n->block[b] = n->block[r];
        join(op->kind == ORR_OP_ALLOC ? host(n, op->host) : &n->clocks[op->stream], &n->freed[r]);
    }
    n->intro[b] = n->op;
    if (op->kind == ORR_OP_ALLOC_ASYNC) {
        stream_action(n, op->stream, 0);
        n->alloc_actor[b] = op->stream;
        n->alloc_number[b] = n->clocks[op->stream].of[op->stream];
    }
}

static void unordered_use(struct naive *n, uint32_t b, const struct count *clock) {
    for (uint32_t i = 0; i < n->history_count; i++)
        if (n->history[i].name == b && n->history[i].block == n->block[b] &&
            n->history[i].number > clock->of[n->history[i].actor])
            over(n, ORR_CHECK_USE_AFTER_FREE, n->history[i].op);
}

static void end(struct naive *n, const struct orr_stream_op *op) {
    uint32_t b = op->object;
    bool async = op->kind == ORR_OP_FREE_ASYNC;
    if (n->end[b] != ORR_NONE ||
        (async && (n->intro[b] == ORR_NONE || n->p->ops[n->intro[b]].kind != ORR_OP_ALLOC_ASYNC))) {
        over(n, ORR_CHECK_INVALID, 0);
        return;
    }
    struct count *clock = async ? &n->clocks[op->stream] : host(n, op->host);
    if (async) {
        step1(n, op->stream);
        join(clock, host(n, op->host));
        clock->of[op->stream]++;
        if (n->alloc_number[b] > clock->of[n->alloc_actor[b]])
            over(n, ORR_CHECK_USE_BEFORE_ALLOC, n->intro[b]);
    }
    if (op->kind != ORR_OP_FREE)
        unordered_use(n, b, clock);
    if (async)
        step5(n, op->stream);
    n->end[b] = n->op;
    n->freed[b] = *clock;
    for (uint32_t s = 0; op->kind == ORR_OP_FREE && s < n->streams; s++)
        if (n->recorded[b][s])
            join(&n->freed[b], &n->clocks[s]);
}

static void record(struct naive *n, const struct orr_stream_op *op) {
    join(&n->clocks[op->stream], host(n, op->host));
    n->events[op->object] = n->clocks[op->stream];
    n->event_is[op->object] = true;
    for (uint32_t b = 0; legacy(n, op->stream) && b < n->streams; b++)
        if (blocking_of(n, op->stream, b))
            join(&n->events[op->object], &n->clocks[b]);
}

static void wait(struct naive *n, const struct orr_stream_op *op) {
    if (op->ignored || !n->event_is[op->object])
        return;
    step1(n, op->stream);
    join(&n->clocks[op->stream], host(n, op->host));
    join(&n->clocks[op->stream], &n->events[op->object]);
    step5(n, op->stream);
}

static void sync(struct naive *n, const struct orr_stream_op *op) {
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK:
        if (n->event_is[op->object])
            join(host(n, op->host), &n->events[op->object]);
        break;
    case ORR_OP_SYNC_STREAM:
    case ORR_OP_STREAM_QUERY_OK: host_waits(n, op->host, op->stream); break;
    case ORR_OP_SYNC_DEVICE:
        for (uint32_t s = 0; s < n->streams; s++)
            if (n->p->streams[s].device == op->device)
                join(host(n, op->host), &n->clocks[s]);
        break;
    case ORR_OP_NOTIFY:
        host_action(n, 0);
        n->flags[op->object] = *host(n, op->host);
        n->flag_is[op->object] = true;
        break;
    case ORR_OP_AWAIT:
        if (!n->flag_is[op->object])
            over(n, ORR_CHECK_INVALID, 0);
        join(host(n, op->host), &n->flags[op->object]);
        break;
    default: fail();
    }
}

static void take(struct naive *n, const struct orr_stream_op *op) {
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_KERNEL:
    case ORR_OP_HOSTFN:
    case ORR_OP_MEMSET: stream_action(n, op->stream, 0); break;
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: communication(n, op); break;
    case ORR_OP_MEMCPY:
    case ORR_OP_MEMCPY_SYNC:
    case ORR_OP_MEMSET_SYNC: copies(n, op); break;
    case ORR_OP_HOST_READ:
    case ORR_OP_HOST_WRITE: host_action(n, 0); break;
    case ORR_OP_RECORD: record(n, op); break;
    case ORR_OP_WAIT: wait(n, op); break;
    case ORR_OP_EVENT_CREATE:
    case ORR_OP_EVENT_DESTROY: n->event_is[op->object] = false; break;
    case ORR_OP_ALLOC:
    case ORR_OP_ALLOC_ASYNC:
    case ORR_OP_ALIAS: introduce(n, op); break;
    case ORR_OP_FREE:
    case ORR_OP_FREE_ASYNC:
    case ORR_OP_CUDA_FREE:
    case ORR_OP_HOST_FREE: end(n, op); break;
    case ORR_OP_RECORD_STREAM: n->recorded[op->object][op->stream] = true; break;
    case ORR_OP_VIEW:
    case ORR_OP_GROUP_START:
    case ORR_OP_GROUP_END:
    case ORR_OP_STREAM_CREATE:
    case ORR_OP_STREAM_DESTROY: break;
    default: sync(n, op); break;
    }
}

static struct orr_check_verdict judge(const struct orr_stream_program *program, uint8_t *found) {
    const struct orr__name_table *names = program->names;
    struct naive *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->p = program;
    n->found = found;
    n->streams = names[ORR_NAME_STREAM].count;
    assert_true(n->streams + names[ORR_NAME_HOST].count <= ACTORS &&
                names[ORR_NAME_BUFFER].count <= NAMES && names[ORR_NAME_EVENT].count <= EVENTS &&
                names[ORR_NAME_FLAG].count <= EVENTS && names[ORR_NAME_COMM].count <= COMMS &&
                names[ORR_NAME_HOST].count <= HOSTS);
    n->verdict =
        (struct orr_check_verdict){.kind = ORR_CHECK_NO_RACE, .op_a = ORR_NONE, .op_b = ORR_NONE};
    n->blocks = names[ORR_NAME_BUFFER].count;
    for (uint32_t i = 0; i < NAMES; i++) {
        n->block[i] = i;
        n->intro[i] = n->end[i] = ORR_NONE;
    }
    for (n->op = 0; n->op < program->op_count && !n->is_over; n->op++)
        take(n, &program->ops[n->op]);
    struct orr_check_verdict verdict = n->verdict;
    free(n);
    return verdict;
}

struct orr_check_verdict order_naive(const struct orr_stream_program *program) {
    return judge(program, NULL);
}

void order_naive_all(const struct orr_stream_program *program, uint8_t *found) {
    (void)judge(program, found);
}
