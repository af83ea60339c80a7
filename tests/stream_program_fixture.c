#include "tests/stream_program_fixture.h"

#include <stdio.h>
#include <string.h>

#include "hazards/stream_op_fields.h"
#include "tests/support.h"

enum { STREAMS = 4, BUFFERS = 4, NAMES = 3 };

/* Names that a reader must take wherever no access is meant. */
static const char *const odd_names[NAMES] = {"n0", "two words", "q\"\\\n\xc3\xa4\xc0\x80"};
static const char *const ranks[] = {"\"n0\"", "0", "1", "\"1\"", "15e-1"};
static const char *const kinds[] = {"\"allreduce\"", "\"bar\\nrier\"", "\"\""};
static const char *const counts[] = {"4", "0", "25e-1", "1e30"};

struct draw {
    struct orr_stream_program *program;
    uint64_t *random;
    bool failed;
    uint32_t open_groups[NAMES + 1];
};

static uint32_t below(struct draw *draw, uint32_t limit) {
    return (uint32_t)random_below(draw->random, limit);
}

static bool flip(struct draw *draw) {
    return below(draw, 2) == 0;
}

static uint32_t name(struct draw *draw, enum orr_name_space space, const char *text) {
    uint32_t id = 0;
    if (orr_stream_program_name(draw->program, space, text, &id) != ORR_OK)
        draw->failed = true;
    return id;
}

static uint32_t any(struct draw *draw, enum orr_name_space space) {
    return name(draw, space, odd_names[below(draw, NAMES)]);
}

static uint32_t any_buffer(struct draw *draw) {
    char text[16];
    snprintf(text, sizeof text, "b_%u", below(draw, BUFFERS));
    return name(draw, ORR_NAME_BUFFER, text);
}

/* Kinds of a device each: stream 0 legacy of device 0, the rest as it comes. */
static void declare(struct draw *draw) {
    struct orr_stream_program *program = draw->program;
    uint32_t id, members[NAMES];
    for (uint32_t i = 0; i < STREAMS; i++) {
        char text[16];
        snprintf(text, sizeof text, "s%u", i);
        enum orr_stream_sync sync =
            i == 0 ? ORR_STREAM_LEGACY : (enum orr_stream_sync)below(draw, 3);
        draw->failed |= orr_stream_program_stream(program, text, i == 3, sync, &id) != ORR_OK;
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        char text[16];
        snprintf(text, sizeof text, "b_%u", i);
        draw->failed |= orr_stream_program_buffer(
                            program, text, (enum orr_memory_kind)below(draw, 5), &id) != ORR_OK;
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        for (uint32_t k = 0; k < NAMES; k++)
            members[k] = name(draw, ORR_NAME_RANK, ranks[below(draw, 5)]);
        draw->failed |= orr_stream_program_comm(program, odd_names[i], members,
                                                below(draw, NAMES + 1), &id) != ORR_OK;
    }
    program->is_staged = flip(draw);
    program->nccl_serial = flip(draw);
    program->capture_mode = (enum orr_capture_mode)below(draw, 3);
    program->slots = flip(draw) ? 99 : below(draw, 4);
    program->queue_depth = flip(draw) ? ORR_NO_LIMIT : below(draw, 4);
}

static uint32_t draw_access(struct draw *draw, enum orr_stream_op_kind kind,
                            struct orr_stream_access *accesses) {
    bool is_copy = kind == ORR_OP_MEMCPY || kind == ORR_OP_MEMCPY_SYNC;
    bool is_set = kind == ORR_OP_MEMSET_SYNC;
    uint32_t reads = is_copy ? 1 : is_set ? 0 : below(draw, 3);
    uint32_t writes = is_copy || is_set ? 1 : below(draw, 3);
    for (uint32_t i = 0; i < reads + writes; i++) {
        accesses[i] = (struct orr_stream_access){
            .buffer = any_buffer(draw), .is_write = i >= reads, .hi = ORR_RANGE_WHOLE};
        if (flip(draw)) {
            accesses[i].lo = below(draw, 8);
            accesses[i].hi = flip(draw) ? below(draw, 8) : ORR_RANGE_WHOLE - 1;
        }
    }
    return reads + writes;
}

static void draw_fields(struct draw *draw, struct orr_stream_op *op) {
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)op->kind;
    uint32_t fields = orr__op_fields(kind);
    enum orr__op_field object = orr__op_object_field(kind), other = orr__op_other_field(kind);
    op->host = flip(draw) ? 0 : any(draw, ORR_NAME_HOST);
    if (object != ORR__FIELDS)
        op->object =
            object == ORR__FIELD_BUF ? any_buffer(draw) : any(draw, orr__op_field_space(object));
    if (other == ORR__FIELD_PEER)
        op->other = name(draw, ORR_NAME_RANK, ranks[below(draw, 5)]);
    else if (other == ORR__FIELD_OF || (other == ORR__FIELD_REUSE && flip(draw)))
        op->other = any_buffer(draw);
    if (fields & ORR__FIELD_BIT(STREAM))
        op->stream = below(draw, STREAMS);
    if (fields & ORR__FIELD_BIT(RANK))
        op->rank = name(draw, ORR_NAME_RANK, ranks[below(draw, 5)]);
    if ((fields & ORR__FIELD_BIT(KIND)) && flip(draw))
        op->word = name(draw, ORR_NAME_WORD, kinds[below(draw, 3)]);
    if ((fields & ORR__FIELD_BIT(COUNT)) && flip(draw))
        op->count = name(draw, ORR_NAME_WORD, counts[below(draw, 4)]);
    op->ignored = (fields & ORR__FIELD_BIT(IGNORED)) && flip(draw);
    if (fields & ORR__FIELD_BIT(DEVS))
        op->device = below(draw, 2);
    if (below(draw, 8) == 0)
        op->site = name(draw, ORR_NAME_WORD, "file.lua:3");
    if (below(draw, 8) == 0)
        op->label = name(draw, ORR_NAME_WORD, "a \"label\"");
}

static void draw_lists(struct draw *draw, enum orr_stream_op_kind kind) {
    if ((orr__op_fields(kind) & ORR__FIELD_BIT(BODY)) && flip(draw))
        for (uint32_t i = below(draw, 3); i > 0; i--) {
            struct orr_stream_step step = {.kind = ORR_OP_SYNC_STREAM,
                                           .object = below(draw, STREAMS)};
            if (flip(draw)) {
                step.kind = flip(draw) ? ORR_OP_LOCK : ORR_OP_UNLOCK;
                step.object = any(draw, ORR_NAME_LOCK);
            }
            draw->failed |= orr_stream_program_add_step(draw->program, step) != ORR_OK;
        }
    if ((orr__op_fields(kind) & ORR__FIELD_BIT(DEVS)) && flip(draw)) {
        uint32_t count = below(draw, 3);
        for (uint32_t i = 0; i < count; i++)
            draw->failed |= orr_stream_program_add_device(draw->program, below(draw, 2)) != ORR_OK;
        if (count == 0)
            draw->failed |= orr_stream_program_add_device(draw->program, ORR_NONE) != ORR_OK;
    }
}

static void draw_op(struct draw *draw) {
    enum orr_stream_op_kind kind;
    do
        kind = (enum orr_stream_op_kind)below(draw, ORR_OP_COUNT);
    while (!orr__op_is_listed(kind, draw->program->oracle));
    struct orr_stream_op op = orr_stream_op(kind);
    struct orr_stream_access accesses[4];
    draw_fields(draw, &op);
    if (draw->failed)
        return;
    uint32_t *open = &draw->open_groups[op.host];
    if (kind == ORR_OP_GROUP_END && *open == 0)
        op.kind = ORR_OP_GROUP_START;
    *open += op.kind == ORR_OP_GROUP_START;
    *open -= op.kind == ORR_OP_GROUP_END;
    uint32_t count =
        orr__op_fields(kind) & ORR__FIELD_BIT(READS) ? draw_access(draw, kind, accesses) : 0;
    if (draw->failed || orr_stream_program_add(draw->program, &op, accesses, count) != ORR_OK)
        draw->failed = true;
    else
        draw_lists(draw, kind);
}

struct orr_stream_program *stream_program_draw(uint64_t *random, enum orr_oracle oracle,
                                               uint32_t op_count, const struct orr_memory *memory) {
    struct draw draw = {.random = random};
    if (orr_stream_program_create(memory, &draw.program) != ORR_OK)
        return NULL;
    draw.program->oracle = oracle;
    declare(&draw);
    for (uint32_t i = 0; i < op_count && !draw.failed; i++)
        draw_op(&draw);
    if (draw.failed)
        orr_stream_program_destroy(&draw.program);
    return draw.program;
}
