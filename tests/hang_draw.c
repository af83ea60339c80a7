#include "tests/hang_draw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "runtime/splitmix.h"
#include "tests/hang_naive.h"

enum { MIRRORED_MAX = NAIVE_OPS_MAX - 4 }; /* calls of several hosts come before this one */

struct draw {
    struct orr_stream_program *program;
    uint64_t seed;
    uint32_t hosts, streams, events, locks, flags, comms, ranks, devices;
    uint32_t depth[NAIVE_HOSTS_MAX];
    uint32_t comm_share, lock_share, sync_share, mirrored_share; /* in 16ths */
    bool keeps_to_own; /* hosts use their own streams and ranks */
};

static uint32_t below(struct draw *d, uint32_t n) {
    return (uint32_t)(orr_splitmix_next(&d->seed) % n);
}

static bool chance(struct draw *d, uint32_t sixteenths) {
    return below(d, 16) < sixteenths;
}

static void name_all(struct draw *d, enum orr_name_space space, const char *letter,
                     uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char text[16];
        uint32_t id;
        snprintf(text, sizeof text, "%s%u", letter, i);
        if (space == ORR_NAME_HOST && i == 0)
            snprintf(text, sizeof text, "h");
        assert_int_equal(orr_stream_program_name(d->program, space, text, &id), ORR_OK);
        assert_int_equal(id, i);
    }
}

static void draw_streams(struct draw *d) {
    bool has_legacy[4] = {false};
    bool plain = chance(d, 8);
    for (uint32_t i = 0; i < d->streams; i++) {
        char text[16];
        uint32_t id,
            device = d->devices > 1 && chance(d, 12) ? i % d->devices : below(d, d->devices);
        const enum orr_stream_sync kinds[] = {ORR_STREAM_NB, ORR_STREAM_NB, ORR_STREAM_BL,
                                              ORR_STREAM_PTDS, ORR_STREAM_LEGACY};
        enum orr_stream_sync sync = plain ? ORR_STREAM_NB : kinds[below(d, 5)];
        if (sync == ORR_STREAM_LEGACY && has_legacy[device])
            sync = ORR_STREAM_BL;
        has_legacy[device] = has_legacy[device] || sync == ORR_STREAM_LEGACY;
        snprintf(text, sizeof text, "s%u", i);
        assert_int_equal(orr_stream_program_stream(d->program, text, device, sync, &id), ORR_OK);
    }
}

static void draw_comms(struct draw *d) {
    name_all(d, ORR_NAME_RANK, "r", d->ranks);
    for (uint32_t i = 0; i < d->comms; i++) {
        uint32_t listed[8], count = 0, id;
        char text[16];
        for (uint32_t r = 0; r < d->ranks; r++)
            if (chance(d, 15))
                listed[count++] = r;
        snprintf(text, sizeof text, "c%u", i);
        assert_int_equal(orr_stream_program_comm(d->program, text, listed, count, &id), ORR_OK);
    }
    name_all(d, ORR_NAME_WORD, "w", 3);
}

static void add(struct draw *d, const struct orr_stream_op *op) {
    assert_int_equal(orr_stream_program_add(d->program, op, NULL, 0), ORR_OK);
}

/* The same call by every host for its own rank, in a stream of its own. */
static void draw_everybodys(struct draw *d, struct orr_stream_op *op) {
    op->kind = ORR_OP_COLL;
    op->object = below(d, d->comms);
    uint32_t odd = chance(d, 3) ? below(d, d->hosts) : ORR_NONE;
    for (uint32_t h = 0; h < d->hosts && h < d->ranks && d->program->op_count < MIRRORED_MAX; h++) {
        op->host = op->rank = h;
        op->stream = h % d->streams;
        op->count = h == odd ? 2 : ORR_NONE;
        add(d, op);
    }
}

static void draw_message(struct draw *d, struct orr_stream_op *op) {
    op->object = below(d, d->comms);
    op->rank = op->host % d->ranks;
    op->other = below(d, d->ranks);
    op->kind = ORR_OP_SEND;
    add(d, op);
    op->kind = ORR_OP_RECV;
    uint32_t rank = op->rank;
    op->rank = op->other;
    op->other = rank;
    op->host = op->rank % d->hosts;
    op->stream = chance(d, 12) ? op->host % d->streams : below(d, d->streams);
    add(d, op);
}

static void draw_comm_op(struct draw *d, struct orr_stream_op *op) {
    if (chance(d, d->mirrored_share) && d->program->op_count < MIRRORED_MAX) {
        if (chance(d, 11))
            draw_everybodys(d, op);
        else
            draw_message(d, op);
        return;
    }
    op->kind = chance(d, 9) ? ORR_OP_COLL : chance(d, 8) ? ORR_OP_SEND : ORR_OP_RECV;
    op->object = below(d, d->comms);
    op->rank = d->keeps_to_own ? op->host % d->ranks : below(d, d->ranks);
    if (op->kind != ORR_OP_COLL)
        op->other = below(d, d->ranks);
    else if (chance(d, 2))
        op->word = below(d, 2);
    if (op->kind == ORR_OP_COLL && chance(d, 1))
        op->count = 2;
    add(d, op);
}

static void draw_hostfn(struct draw *d, struct orr_stream_op *op) {
    op->kind = ORR_OP_HOSTFN;
    add(d, op);
    uint32_t lock = below(d, d->locks), count = below(d, 4);
    for (uint32_t i = 0; i < count; i++) {
        struct orr_stream_step step = {.kind = ORR_OP_LOCK, .object = lock};
        if (chance(d, 3)) {
            step = (struct orr_stream_step){.kind = ORR_OP_SYNC_STREAM,
                                            .object = below(d, d->streams)};
        } else if (i % 2 == 1 && chance(d, 13)) {
            step.kind = ORR_OP_UNLOCK;
        } else if (chance(d, 4)) {
            step.object = below(d, d->locks);
        }
        assert_int_equal(orr_stream_program_add_step(d->program, step), ORR_OK);
    }
}

static void draw_sync(struct draw *d, struct orr_stream_op *op) {
    const enum orr_stream_op_kind kinds[] = {ORR_OP_SYNC_STREAM, ORR_OP_SYNC_EVENT,
                                             ORR_OP_SYNC_DEVICE, ORR_OP_IMPLICIT_SYNC};
    op->kind = (uint8_t)kinds[below(d, 4)];
    if (op->kind == ORR_OP_SYNC_EVENT)
        op->object = below(d, d->events);
    op->device = below(d, d->devices);
    add(d, op);
    if (op->kind > ORR_OP_SYNC_STREAM && op->kind != ORR_OP_SYNC_EVENT && chance(d, 4))
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(orr_stream_program_add_device(d->program, i), ORR_OK);
}

/* A lock, or giving it back: mostly what the host took last. */
static void draw_lock(struct draw *d, struct orr_stream_op *op) {
    op->kind = chance(d, 8) ? ORR_OP_LOCK : ORR_OP_UNLOCK;
    op->object = below(d, d->locks);
    const struct orr_stream_program *p = d->program;
    for (uint32_t i = p->op_count; op->kind == ORR_OP_UNLOCK && i-- > 0;)
        if (p->ops[i].host == op->host && p->ops[i].kind == ORR_OP_LOCK) {
            op->object = p->ops[i].object;
            break;
        }
    add(d, op);
}

static void draw_group(struct draw *d, struct orr_stream_op *op) {
    bool ends = d->depth[op->host] > 0 && chance(d, 12);
    op->kind = ends ? ORR_OP_GROUP_END : ORR_OP_GROUP_START;
    d->depth[op->host] += ends ? UINT32_MAX : 1;
    add(d, op);
}

static void draw_op(struct draw *d) {
    struct orr_stream_op op = orr_stream_op(ORR_OP_KERNEL);
    op.host = below(d, d->hosts);
    op.stream = below(d, d->streams);
    if (d->keeps_to_own && chance(d, 15))
        op.stream = op.host + d->hosts * below(d, (d->streams + d->hosts - 1) / d->hosts);
    if (op.stream >= d->streams)
        op.stream = op.host % d->streams;
    if (chance(d, d->comm_share)) {
        draw_comm_op(d, &op);
    } else if (chance(d, d->lock_share)) {
        if (chance(d, 11))
            draw_lock(d, &op);
        else
            draw_hostfn(d, &op);
    } else if (chance(d, d->sync_share)) {
        draw_sync(d, &op);
    } else if (chance(d, 4)) {
        op.kind = ORR_OP_RECORD;
        op.object = below(d, d->events);
        add(d, &op);
    } else if (chance(d, 6)) {
        op.kind = ORR_OP_WAIT;
        op.object = below(d, d->events);
        op.ignored = chance(d, 1);
        add(d, &op);
    } else if (chance(d, 3)) {
        op.kind = chance(d, 12) ? ORR_OP_NOTIFY : ORR_OP_AWAIT;
        op.object = below(d, d->flags);
        add(d, &op);
    } else if (chance(d, 4)) {
        draw_group(d, &op);
    } else {
        add(d, &op);
    }
}

struct orr_stream_program *hang_draw(const struct orr_memory *memory, uint64_t seed) {
    struct draw draw = {.seed = seed}, *d = &draw;
    assert_int_equal(orr_stream_program_create(memory, &d->program), ORR_OK);
    d->program->oracle = ORR_ORACLE_HANG;
    d->hosts = 1 + below(d, NAIVE_HOSTS_MAX);
    d->streams = 1 + below(d, NAIVE_STREAMS_MAX);
    d->devices = 1 + below(d, 3);
    d->events = 1 + below(d, NAIVE_EVENTS_MAX);
    d->locks = 1 + below(d, NAIVE_LOCKS_MAX);
    d->flags = 1 + below(d, NAIVE_FLAGS_MAX);
    d->comms = 1 + below(d, 2);
    d->ranks = 1 + below(d, 3);
    d->keeps_to_own = chance(d, 8);
    d->comm_share = 2 + below(d, 9);
    d->mirrored_share = chance(d, 4) ? 0 : 12 + below(d, 5);
    d->lock_share = chance(d, 8) ? 0 : below(d, 8);
    d->sync_share = below(d, 6);
    if (chance(d, 8))
        d->program->slots = below(d, 8) == 0 ? 0 : 1 + below(d, 2);
    if (chance(d, 4))
        d->program->queue_depth = below(d, 8) == 0 ? 0 : 1 + below(d, 3);
    name_all(d, ORR_NAME_HOST, "h", d->hosts);
    name_all(d, ORR_NAME_EVENT, "e", d->events);
    name_all(d, ORR_NAME_LOCK, "l", d->locks);
    name_all(d, ORR_NAME_FLAG, "f", d->flags);
    draw_streams(d);
    draw_comms(d);
    uint32_t ops = 2 + below(d, NAIVE_OPS_MAX - 5);
    while (d->program->op_count < ops)
        draw_op(d);
    for (uint32_t h = 0; h < d->hosts && d->program->op_count < NAIVE_OPS_MAX; h++)
        if (d->depth[h] > 0 && chance(d, 15)) {
            struct orr_stream_op end = orr_stream_op(ORR_OP_GROUP_END);
            end.host = h;
            add(d, &end);
        }
    return d->program;
}
