#include "tests/hang_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support.h"

enum { HOSTS_MAX = 3 };

struct maker {
    struct orr_stream_program *program;
    uint64_t *state;
    uint32_t hosts, streams, events, locks, flags, comms, depth[HOSTS_MAX];
};

static uint32_t below(struct maker *maker, uint32_t count) {
    return (uint32_t)random_below(maker->state, count);
}

static uint32_t name(struct maker *maker, enum orr_name_space space, char letter, uint32_t number) {
    char text[16];
    uint32_t id;
    snprintf(text, sizeof text, "%c%u", letter, number);
    assert_int_equal(orr_stream_program_name(maker->program, space, text, &id), ORR_OK);
    return id;
}

static void declare_streams(struct maker *maker) {
    bool has_legacy[2] = {false, false};
    uint32_t devices = 1 + below(maker, 2), plain = below(maker, 2);
    for (uint32_t i = 0; i < maker->streams; i++) {
        char text[16];
        uint32_t id, device = below(maker, devices);
        snprintf(text, sizeof text, "s%u", i);
        enum orr_stream_sync sync = plain ? ORR_STREAM_NB : (enum orr_stream_sync)below(maker, 4);
        if (sync == ORR_STREAM_LEGACY && has_legacy[device])
            sync = ORR_STREAM_BL;
        has_legacy[device] |= sync == ORR_STREAM_LEGACY;
        assert_int_equal(orr_stream_program_stream(maker->program, text, device, sync, &id),
                         ORR_OK);
    }
}

/* Ranks r0, r1, ... are those of hosts 0, 1, ...; a communicator may leave some out. */
static void declare_comms(struct maker *maker) {
    for (uint32_t i = 0; i < maker->comms; i++) {
        uint32_t ranks[HOSTS_MAX], count = 0, id;
        char text[16];
        for (uint32_t k = 0; k < maker->hosts; k++)
            if (below(maker, 8) > 0)
                ranks[count++] = name(maker, ORR_NAME_RANK, 'r', k);
        snprintf(text, sizeof text, "c%u", i);
        assert_int_equal(orr_stream_program_comm(maker->program, text, ranks, count, &id), ORR_OK);
    }
}

static void draw_communication(struct maker *maker, struct orr_stream_op *op) {
    uint32_t rank = below(maker, 12) > 0 ? op->host : below(maker, maker->hosts);
    op->kind = below(maker, 3) > 0 ? ORR_OP_COLL : below(maker, 2) ? ORR_OP_SEND : ORR_OP_RECV;
    op->object = below(maker, maker->comms);
    op->rank = name(maker, ORR_NAME_RANK, 'r', rank);
    if (op->kind != ORR_OP_COLL)
        op->other = name(maker, ORR_NAME_RANK, 'r', (rank + 1) % maker->hosts);
    else if (below(maker, 4) == 0)
        op->word = name(maker, ORR_NAME_WORD, 'w', below(maker, 2));
}

static void draw_body(struct maker *maker) {
    uint32_t count = below(maker, 4);
    for (uint32_t i = 0; i < count; i++) {
        static const enum orr_stream_op_kind kinds[] = {ORR_OP_LOCK, ORR_OP_UNLOCK,
                                                        ORR_OP_SYNC_STREAM};
        struct orr_stream_step step = {.kind = kinds[below(maker, 3)]};
        step.object = step.kind == ORR_OP_SYNC_STREAM
                          ? below(maker, maker->streams)
                          : name(maker, ORR_NAME_LOCK, 'l', below(maker, maker->locks));
        assert_int_equal(orr_stream_program_add_step(maker->program, step), ORR_OK);
    }
}

static enum orr_stream_op_kind draw_kind(struct maker *maker) {
    static const enum orr_stream_op_kind kinds[] = {
        ORR_OP_KERNEL,     ORR_OP_HOSTFN,        ORR_OP_COLL,        ORR_OP_COLL,
        ORR_OP_COLL,       ORR_OP_RECORD,        ORR_OP_WAIT,        ORR_OP_SYNC_STREAM,
        ORR_OP_SYNC_EVENT, ORR_OP_SYNC_DEVICE,   ORR_OP_LOCK,        ORR_OP_UNLOCK,
        ORR_OP_NOTIFY,     ORR_OP_AWAIT,         ORR_OP_GROUP_START, ORR_OP_GROUP_END,
        ORR_OP_COLL,       ORR_OP_IMPLICIT_SYNC, ORR_OP_HOST_READ,   ORR_OP_RECORD,
    };
    return kinds[below(maker, sizeof kinds / sizeof kinds[0])];
}

static void draw_op(struct maker *maker) {
    struct orr_stream_op op = orr_stream_op(draw_kind(maker));
    op.host = below(maker, maker->hosts);
    op.stream = below(maker, maker->streams);
    switch ((enum orr_stream_op_kind)op.kind) {
    case ORR_OP_COLL: draw_communication(maker, &op); break;
    case ORR_OP_RECORD:
    case ORR_OP_WAIT:
    case ORR_OP_SYNC_EVENT:
        op.object = name(maker, ORR_NAME_EVENT, 'e', below(maker, maker->events));
        break;
    case ORR_OP_LOCK:
    case ORR_OP_UNLOCK:
        op.object = name(maker, ORR_NAME_LOCK, 'l', below(maker, maker->locks));
        break;
    case ORR_OP_NOTIFY:
    case ORR_OP_AWAIT:
        op.object = name(maker, ORR_NAME_FLAG, 'f', below(maker, maker->flags));
        break;
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC: op.device = below(maker, 2); break;
    case ORR_OP_GROUP_START: maker->depth[op.host]++; break;
    case ORR_OP_GROUP_END:
        if (maker->depth[op.host] == 0)
            op.kind = ORR_OP_KERNEL;
        else
            maker->depth[op.host]--;
        break;
    default: break;
    }
    assert_int_equal(orr_stream_program_add(maker->program, &op, NULL, 0), ORR_OK);
    if (op.kind == ORR_OP_HOSTFN)
        draw_body(maker);
}

static void end_groups(struct maker *maker) {
    for (uint32_t host = 0; host < maker->hosts; host++) {
        while (maker->depth[host] > 0 && below(maker, 8) > 0) {
            struct orr_stream_op op = orr_stream_op(ORR_OP_GROUP_END);
            op.host = host;
            maker->depth[host]--;
            assert_int_equal(orr_stream_program_add(maker->program, &op, NULL, 0), ORR_OK);
        }
        maker->depth[host] = 0;
    }
}

struct orr_stream_program *hang_random(const struct orr_memory *memory, uint32_t ops,
                                       uint64_t *state) {
    struct maker maker = {.state = state};
    assert_int_equal(orr_stream_program_create(memory, &maker.program), ORR_OK);
    maker.program->oracle = ORR_ORACLE_HANG;
    maker.hosts = 1 + below(&maker, HOSTS_MAX);
    maker.streams = 1 + below(&maker, 4);
    maker.events = maker.locks = maker.flags = 2;
    maker.comms = 1 + below(&maker, 2);
    for (uint32_t i = 1; i < maker.hosts; i++)
        name(&maker, ORR_NAME_HOST, 'h', i);
    declare_streams(&maker);
    declare_comms(&maker);
    if (below(&maker, 3) == 0)
        maker.program->slots = 1 + below(&maker, 2);
    if (below(&maker, 4) == 0)
        maker.program->queue_depth = 1 + below(&maker, 2);
    uint32_t count = 1 + below(&maker, ops);
    for (uint32_t i = 0; i < count; i++)
        draw_op(&maker);
    end_groups(&maker);
    return maker.program;
}
