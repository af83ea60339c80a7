#include <stdio.h>
#include <string.h>

#include "hazards/stream_op_fields.h"
#include "tests/stream_program_fixture.h"

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
