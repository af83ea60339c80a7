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

/* --- comparing --- */

static bool same(const char *what, uint32_t index, const char *a, const char *b) {
    if (strcmp(a, b) == 0)
        return true;
    fprintf(stderr, "ops[%u].%s: '%s' and '%s'\n", index, what, a, b);
    return false;
}

static bool same_number(const char *what, uint32_t index, uint64_t a, uint64_t b) {
    if (a == b)
        return true;
    fprintf(stderr, "ops[%u].%s: %llu and %llu\n", index, what, (unsigned long long)a,
            (unsigned long long)b);
    return false;
}

static bool same_name(const struct orr_stream_program *a, const struct orr_stream_program *b,
                      uint32_t index, enum orr_name_space space, uint32_t in_a, uint32_t in_b) {
    return same("name", index, orr_stream_program_text(a, space, in_a),
                orr_stream_program_text(b, space, in_b)) &&
           same_number("presence", index, in_a == ORR_NONE, in_b == ORR_NONE);
}

static bool same_lists(const struct orr_stream_program *a, const struct orr_stream_program *b,
                       uint32_t index) {
    const struct orr_stream_op *x = &a->ops[index], *y = &b->ops[index];
    if (!same_number("accesses", index, x->access_count, y->access_count) ||
        !same_number("steps", index, x->step_count, y->step_count) ||
        !same_number("devices", index, x->device_count, y->device_count))
        return false;
    for (uint32_t i = 0; i < x->access_count; i++) {
        const struct orr_stream_access *p = &a->accesses[x->access_first + i];
        const struct orr_stream_access *q = &b->accesses[y->access_first + i];
        if (!same_name(a, b, index, ORR_NAME_BUFFER, p->buffer, q->buffer) ||
            !same_number("write", index, p->is_write, q->is_write) ||
            !same_number("lo", index, p->lo, q->lo) || !same_number("hi", index, p->hi, q->hi))
            return false;
    }
    for (uint32_t i = 0; i < x->step_count; i++) {
        const struct orr_stream_step *p = &a->steps[x->step_first + i];
        const struct orr_stream_step *q = &b->steps[y->step_first + i];
        if (!same_number("step", index, p->kind, q->kind) ||
            !same_name(a, b, index, p->kind == ORR_OP_SYNC_STREAM ? ORR_NAME_STREAM : ORR_NAME_LOCK,
                       p->object, q->object))
            return false;
    }
    for (uint32_t i = 0; i < x->device_count; i++)
        if (!same_number("devs", index, a->devices[x->device_first + i],
                         b->devices[y->device_first + i]))
            return false;
    return true;
}

static bool same_op(const struct orr_stream_program *a, const struct orr_stream_program *b,
                    uint32_t index) {
    const struct orr_stream_op *x = &a->ops[index], *y = &b->ops[index];
    if (!same_number("op", index, x->kind, y->kind))
        return false;
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)x->kind;
    enum orr__op_field object = orr__op_object_field(kind), other = orr__op_other_field(kind);
    return same_number("ignored", index, x->ignored, y->ignored) &&
           same_number("dev", index, x->device, y->device) &&
           same_name(a, b, index, ORR_NAME_HOST, x->host, y->host) &&
           same_name(a, b, index, ORR_NAME_STREAM, x->stream, y->stream) &&
           same_name(a, b, index, orr__op_field_space(object), x->object, y->object) &&
           same_name(a, b, index, orr__op_field_space(other), x->other, y->other) &&
           same_name(a, b, index, ORR_NAME_RANK, x->rank, y->rank) &&
           same_name(a, b, index, ORR_NAME_WORD, x->word, y->word) &&
           same_name(a, b, index, ORR_NAME_WORD, x->count, y->count) &&
           same_name(a, b, index, ORR_NAME_WORD, x->site, y->site) &&
           same_name(a, b, index, ORR_NAME_WORD, x->label, y->label) && same_lists(a, b, index);
}

static bool same_declarations(const struct orr_stream_program *a,
                              const struct orr_stream_program *b) {
    for (uint32_t i = 0; i < a->names[ORR_NAME_STREAM].count; i++) {
        const char *text = orr_stream_program_text(a, ORR_NAME_STREAM, i);
        uint32_t k = orr__name_table_find(&b->names[ORR_NAME_STREAM], text);
        if (k == UINT32_MAX || !same_number("dev", i, a->streams[i].device, b->streams[k].device) ||
            !same_number("kind", i, a->streams[i].sync, b->streams[k].sync))
            return false;
    }
    for (uint32_t i = 0; i < a->names[ORR_NAME_BUFFER].count; i++) {
        const char *text = orr_stream_program_text(a, ORR_NAME_BUFFER, i);
        uint32_t k = orr__name_table_find(&b->names[ORR_NAME_BUFFER], text);
        enum orr_memory_kind kind = k == UINT32_MAX ? ORR_MEMORY_DEV : b->buffers[k];
        if (!same_number("memory", i, a->buffers[i], kind))
            return false;
    }
    for (uint32_t i = 0; i < a->names[ORR_NAME_COMM].count; i++) {
        const char *text = orr_stream_program_text(a, ORR_NAME_COMM, i);
        uint32_t k = orr__name_table_find(&b->names[ORR_NAME_COMM], text);
        uint32_t count = k == UINT32_MAX ? 0 : b->comms[k].member_count;
        if (!same_number("members", i, a->comms[i].member_count, count))
            return false;
        for (uint32_t m = 0; m < count; m++)
            if (!same_name(a, b, i, ORR_NAME_RANK, a->members[a->comms[i].member_first + m],
                           b->members[b->comms[k].member_first + m]))
                return false;
    }
    return true;
}

bool stream_program_equal(const struct orr_stream_program *a, const struct orr_stream_program *b) {
    if (!same_number("oracle", 0, a->oracle, b->oracle) ||
        !same_number("staged", 0, a->is_staged, b->is_staged) ||
        !same_number("serial", 0, a->nccl_serial, b->nccl_serial) ||
        !same_number("mode", 0, a->capture_mode, b->capture_mode) ||
        !same_number("slots", 0, a->slots, b->slots) ||
        !same_number("depth", 0, a->queue_depth, b->queue_depth) ||
        !same_number("count", 0, a->op_count, b->op_count) || !same_declarations(a, b))
        return false;
    for (uint32_t i = 0; i < a->op_count; i++)
        if (!same_op(a, b, i))
            return false;
    return true;
}
