#include "tests/program_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support.h"

enum { NAMES_MAX = 64, ACCESSES_MAX = 4 };

enum life {
    LIFE_START,
    LIFE_ALLOC,
    LIFE_ASYNC,
    LIFE_ALIAS,
    LIFE_FREED,
    LIFE_FREED_ASYNC,
    LIFE_OVER
};

struct maker {
    struct orr_stream_program *program;
    const struct program_random *options;
    uint64_t *state;
    enum life lives[NAMES_MAX];
    bool notified[NAMES_MAX];
    struct orr_stream_access accesses[ACCESSES_MAX];
    uint32_t access_count;
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

static void declare(struct maker *maker) {
    const struct program_random *options = maker->options;
    bool has_legacy[NAMES_MAX] = {false};
    uint32_t id;
    for (uint32_t i = 0; i < options->streams; i++) {
        char text[16];
        snprintf(text, sizeof text, "s%u", i);
        uint32_t device = below(maker, options->devices);
        enum orr_stream_sync sync = (enum orr_stream_sync)below(maker, 4);
        if (sync == ORR_STREAM_LEGACY && has_legacy[device])
            sync = ORR_STREAM_BL;
        has_legacy[device] |= sync == ORR_STREAM_LEGACY;
        assert_int_equal(orr_stream_program_stream(maker->program, text, device, sync, &id),
                         ORR_OK);
    }
    for (uint32_t i = 1; i < options->hosts; i++)
        name(maker, ORR_NAME_HOST, 'h', i);
    for (uint32_t i = 0; i < options->buffers; i++) {
        static const uint8_t kinds[] = {
            ORR_MEMORY_DEV,      ORR_MEMORY_DEV,      ORR_MEMORY_DEV,     ORR_MEMORY_PINNED,
            ORR_MEMORY_PAGEABLE, ORR_MEMORY_PAGEABLE, ORR_MEMORY_MANAGED, ORR_MEMORY_EMPTY};
        id = name(maker, ORR_NAME_BUFFER, 'B', i);
        maker->program->buffers[id] = (enum orr_memory_kind)kinds[below(maker, sizeof kinds)];
    }
    for (uint32_t i = 0; i < options->events; i++)
        name(maker, ORR_NAME_EVENT, 'e', i);
    name(maker, ORR_NAME_COMM, 'c', 0);
    name(maker, ORR_NAME_COMM, 'c', 1);
    for (uint32_t i = 0; i < 3; i++)
        name(maker, ORR_NAME_FLAG, 'f', i);
    maker->program->is_staged = below(maker, 2) == 0;
    maker->program->nccl_serial = below(maker, 3) == 0;
}

static bool is_dead(enum life life) {
    return life >= LIFE_FREED;
}

/* A name, a live one most of the time. */
static uint32_t live_name(struct maker *maker) {
    uint32_t buffer = below(maker, maker->options->buffers);
    for (int i = 0; i < 6 && is_dead(maker->lives[buffer]) && below(maker, 40) > 0; i++)
        buffer = below(maker, maker->options->buffers);
    return buffer;
}

static void access(struct maker *maker, bool is_write) {
    struct orr_stream_access made = {
        .buffer = live_name(maker), .hi = ORR_RANGE_WHOLE, .is_write = is_write};
    if (below(maker, 2) == 0) {
        made.lo = below(maker, maker->options->range);
        made.hi = below(maker, maker->options->range + 1);
    }
    maker->accesses[maker->access_count++] = made;
}

static void work(struct maker *maker, struct orr_stream_op *op) {
    static const uint8_t kinds[] = {
        ORR_OP_KERNEL,    ORR_OP_KERNEL,     ORR_OP_KERNEL,      ORR_OP_HOSTFN,     ORR_OP_MEMSET,
        ORR_OP_MEMCPY,    ORR_OP_MEMCPY,     ORR_OP_COLL,        ORR_OP_SEND,       ORR_OP_RECV,
        ORR_OP_HOST_READ, ORR_OP_HOST_WRITE, ORR_OP_MEMCPY_SYNC, ORR_OP_MEMSET_SYNC};
    op->kind = kinds[below(maker, sizeof kinds)];
    uint32_t reads = below(maker, 3), writes = below(maker, 2);
    if (op->kind == ORR_OP_MEMCPY || op->kind == ORR_OP_MEMCPY_SYNC)
        reads = writes = 1;
    if (op->kind == ORR_OP_MEMSET_SYNC || op->kind == ORR_OP_HOST_WRITE) {
        reads = 0;
        writes = 1;
    }
    if (op->kind == ORR_OP_HOST_READ)
        writes = 0;
    for (uint32_t i = 0; i < reads + writes; i++)
        access(maker, i >= reads);
    op->object = below(maker, 2);
    if (op->kind != ORR_OP_MEMCPY_SYNC && op->kind != ORR_OP_MEMSET_SYNC)
        return;
    /* The device of some legacy stream, or a plain kernel. */
    for (uint32_t i = 0; i < maker->options->streams; i++)
        if (maker->program->streams[i].sync == ORR_STREAM_LEGACY) {
            op->device = maker->program->streams[i].device;
            return;
        }
    op->kind = ORR_OP_KERNEL;
}

static void order(struct maker *maker, struct orr_stream_op *op) {
    static const uint8_t kinds[] = {
        ORR_OP_RECORD,        ORR_OP_RECORD,      ORR_OP_RECORD,      ORR_OP_RECORD,
        ORR_OP_WAIT,          ORR_OP_WAIT,        ORR_OP_WAIT,        ORR_OP_WAIT,
        ORR_OP_SYNC_EVENT,    ORR_OP_QUERY_OK,    ORR_OP_SYNC_STREAM, ORR_OP_STREAM_QUERY_OK,
        ORR_OP_SYNC_DEVICE,   ORR_OP_NOTIFY,      ORR_OP_AWAIT,       ORR_OP_EVENT_CREATE,
        ORR_OP_EVENT_DESTROY, ORR_OP_GROUP_START, ORR_OP_GROUP_END};
    op->kind = kinds[below(maker, sizeof kinds)];
    op->object = below(maker, maker->options->events);
    op->device = below(maker, maker->options->devices);
    op->ignored = op->kind == ORR_OP_WAIT && below(maker, 20) == 0;
    if (op->kind == ORR_OP_NOTIFY || op->kind == ORR_OP_AWAIT) {
        op->object = below(maker, 3);
        if (op->kind == ORR_OP_AWAIT && !maker->notified[op->object] &&
            below(maker, 1000) >= maker->options->malformed_permille)
            op->kind = ORR_OP_NOTIFY;
        maker->notified[op->object] |= op->kind == ORR_OP_NOTIFY;
    }
}

/* A name in state `life`; ORR_NONE if a few draws find none. */
static uint32_t name_in(struct maker *maker, enum life life) {
    for (int i = 0; i < 12; i++) {
        uint32_t buffer = below(maker, maker->options->buffers);
        if (maker->lives[buffer] == life)
            return buffer;
    }
    return ORR_NONE;
}

static void allocate(struct maker *maker, struct orr_stream_op *op) {
    bool is_async = below(maker, 2) == 0;
    op->kind = is_async ? ORR_OP_ALLOC_ASYNC : ORR_OP_ALLOC;
    op->object = name_in(maker, LIFE_START);
    op->other =
        below(maker, 3) > 0 ? name_in(maker, is_async ? LIFE_FREED_ASYNC : LIFE_FREED) : ORR_NONE;
    if (op->object == ORR_NONE) {
        op->kind = ORR_OP_VIEW;
        op->object = 0;
        return;
    }
    if (op->other != ORR_NONE)
        maker->lives[op->other] = LIFE_OVER;
    maker->lives[op->object] = is_async ? LIFE_ASYNC : LIFE_ALLOC;
}

static void end(struct maker *maker, struct orr_stream_op *op) {
    static const uint8_t kinds[] = {ORR_OP_FREE, ORR_OP_FREE, ORR_OP_CUDA_FREE, ORR_OP_HOST_FREE};
    uint32_t buffer = name_in(maker, below(maker, 2) == 0 ? LIFE_ASYNC : LIFE_ALLOC);
    if (buffer == ORR_NONE)
        buffer = live_name(maker);
    op->object = buffer;
    if (is_dead(maker->lives[buffer])) {
        op->kind = ORR_OP_VIEW;
        return;
    }
    op->kind = kinds[below(maker, sizeof kinds)];
    if (maker->lives[buffer] == LIFE_ASYNC && below(maker, 4) > 0)
        op->kind = ORR_OP_FREE_ASYNC;
    maker->lives[buffer] = op->kind == ORR_OP_FREE         ? LIFE_FREED
                           : op->kind == ORR_OP_FREE_ASYNC ? LIFE_FREED_ASYNC
                                                           : LIFE_OVER;
}

static void memory(struct maker *maker, struct orr_stream_op *op) {
    uint32_t what = below(maker, 8);
    if (below(maker, 1000) < maker->options->malformed_permille) {
        static const uint8_t kinds[] = {ORR_OP_ALLOC, ORR_OP_ALLOC_ASYNC, ORR_OP_FREE,
                                        ORR_OP_FREE_ASYNC};
        op->kind = kinds[below(maker, sizeof kinds)];
        op->object = below(maker, maker->options->buffers);
        op->other = op->kind == ORR_OP_ALLOC || op->kind == ORR_OP_ALLOC_ASYNC
                        ? below(maker, maker->options->buffers)
                        : ORR_NONE;
        return;
    }
    if (what < 3) {
        allocate(maker, op);
    } else if (what < 6) {
        end(maker, op);
    } else if (what == 6) {
        op->kind = ORR_OP_RECORD_STREAM;
        op->object = live_name(maker);
    } else {
        op->kind = ORR_OP_ALIAS;
        op->object = name_in(maker, LIFE_START);
        op->other = below(maker, maker->options->buffers);
        if (op->object == ORR_NONE || below(maker, 2) == 0) {
            op->kind = ORR_OP_VIEW;
            op->object = 0;
            op->other = ORR_NONE;
            return;
        }
        maker->lives[op->object] = LIFE_ALIAS;
    }
}

struct program_random program_random_small(uint64_t *state) {
    return (struct program_random){.ops = 4 + (uint32_t)random_below(state, 40),
                                   .streams = 1 + (uint32_t)random_below(state, 6),
                                   .hosts = 1 + (uint32_t)random_below(state, 3),
                                   .buffers = 2 + (uint32_t)random_below(state, 14),
                                   .events = 1 + (uint32_t)random_below(state, 5),
                                   .devices = 1 + (uint32_t)random_below(state, 2),
                                   .sync_percent = 30 + (uint32_t)random_below(state, 50),
                                   .range = 8,
                                   .malformed_permille = random_below(state, 4) == 0 ? 60 : 0};
}

struct program_random program_random_wide(uint64_t *state) {
    return (struct program_random){.ops = 100 + (uint32_t)random_below(state, 500),
                                   .streams = 10 + (uint32_t)random_below(state, 290),
                                   .hosts = 1 + (uint32_t)random_below(state, 12),
                                   .buffers = 2 + (uint32_t)random_below(state, 60),
                                   .events = 1 + (uint32_t)random_below(state, 50),
                                   .devices = 1 + (uint32_t)random_below(state, 4),
                                   .range = 4 + (uint32_t)random_below(state, 100),
                                   .sync_percent = 75 + (uint32_t)random_below(state, 9)};
}

struct orr_stream_program *program_random(const struct orr_memory *table,
                                          const struct program_random *options, uint64_t *state) {
    struct maker maker = {.options = options, .state = state};
    assert_true(options->buffers <= NAMES_MAX && options->devices <= NAMES_MAX);
    assert_int_equal(orr_stream_program_create(table, &maker.program), ORR_OK);
    declare(&maker);
    for (uint32_t i = 0; i < options->ops; i++) {
        struct orr_stream_op op = orr_stream_op(ORR_OP_KERNEL);
        maker.access_count = 0;
        op.host = below(&maker, options->hosts);
        op.stream = below(&maker, options->streams);
        uint32_t roll = below(&maker, 100);
        if (roll < options->sync_percent)
            order(&maker, &op);
        else if (roll < options->sync_percent + 15)
            memory(&maker, &op);
        else
            work(&maker, &op);
        assert_int_equal(
            orr_stream_program_add(maker.program, &op, maker.accesses, maker.access_count), ORR_OK);
    }
    return maker.program;
}
