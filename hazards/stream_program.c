#include "hazards/stream_program.h"

#include <assert.h>
#include <string.h>

enum { NAMES_MAX = 1 << 24, ITEMS_MAX = 1 << 28 };

static const char *const op_texts[] = {
#define TEXT(name, text) [ORR_OP_##name] = text,
    ORR_STREAM_OP_LIST(TEXT)
#undef TEXT
};

const char *orr_stream_op_text(enum orr_stream_op_kind kind) {
    assert((unsigned)kind < ORR_OP_COUNT);
    return op_texts[kind];
}

struct orr_stream_op orr_stream_op(enum orr_stream_op_kind kind) {
    return (struct orr_stream_op){.kind = (uint8_t)kind,
                                  .stream = ORR_NONE,
                                  .object = ORR_NONE,
                                  .other = ORR_NONE,
                                  .rank = ORR_NONE,
                                  .word = ORR_NONE,
                                  .count = ORR_NONE,
                                  .site = ORR_NONE,
                                  .label = ORR_NONE};
}

/* --- names --- */

/* Room for what belongs to the last name of its space, with its default. */
static enum orr_status grow_space(struct orr_stream_program *program, enum orr_name_space space,
                                  uint32_t count) {
    const struct orr_memory *memory = program->memory;
    switch (space) {
    case ORR_NAME_STREAM:
        return orr_memory_grow(memory, &program->streams, &program->stream_capacity, count,
                               sizeof *program->streams, NAMES_MAX);
    case ORR_NAME_BUFFER:
        return orr_memory_grow(memory, &program->buffers, &program->buffer_capacity, count,
                               sizeof *program->buffers, NAMES_MAX);
    case ORR_NAME_COMM:
        return orr_memory_grow(memory, &program->comms, &program->comm_capacity, count,
                               sizeof *program->comms, NAMES_MAX);
    default: return ORR_OK;
    }
}

enum orr_status orr_stream_program_name(struct orr_stream_program *program,
                                        enum orr_name_space space, const char *text,
                                        uint32_t *out_id) {
    assert((unsigned)space < ORR_NAME_SPACES);
    enum orr_status status = grow_space(program, space, program->names[space].count + 1);
    if (status != ORR_OK)
        return status;
    return orr__name_table_add(&program->names[space], program->memory, text, out_id);
}

const char *orr_stream_program_text(const struct orr_stream_program *program,
                                    enum orr_name_space space, uint32_t id) {
    return id == ORR_NONE ? "" : program->names[space].texts[id];
}

enum orr_status orr_stream_program_stream(struct orr_stream_program *program, const char *name,
                                          uint32_t device, enum orr_stream_sync sync,
                                          uint32_t *out_id) {
    enum orr_status status = orr_stream_program_name(program, ORR_NAME_STREAM, name, out_id);
    if (status == ORR_OK)
        program->streams[*out_id] = (struct orr_stream_info){.device = device, .sync = sync};
    return status;
}

enum orr_status orr_stream_program_buffer(struct orr_stream_program *program, const char *name,
                                          enum orr_memory_kind kind, uint32_t *out_id) {
    enum orr_status status = orr_stream_program_name(program, ORR_NAME_BUFFER, name, out_id);
    if (status == ORR_OK)
        program->buffers[*out_id] = kind;
    return status;
}

enum orr_status orr_stream_program_comm(struct orr_stream_program *program, const char *name,
                                        const uint32_t *ranks, uint32_t count, uint32_t *out_id) {
    enum orr_status status =
        orr_memory_grow(program->memory, &program->members, &program->member_capacity,
                        (size_t)program->member_count + count, sizeof *program->members, ITEMS_MAX);
    if (status == ORR_OK)
        status = orr_stream_program_name(program, ORR_NAME_COMM, name, out_id);
    if (status != ORR_OK)
        return status;
    if (count > 0)
        memcpy(program->members + program->member_count, ranks, count * sizeof *ranks);
    program->comms[*out_id] =
        (struct orr_comm_info){.member_first = program->member_count, .member_count = count};
    program->member_count += count;
    return ORR_OK;
}

/* --- life --- */

enum orr_status orr_stream_program_create(const struct orr_memory *memory,
                                          struct orr_stream_program **out_program) {
    *out_program = NULL;
    struct orr_stream_program *program = orr_memory_alloc(memory, sizeof *program);
    if (!program)
        return ORR_NO_MEMORY;
    program->memory = memory;
    program->slots = 99;
    program->queue_depth = ORR_NO_LIMIT;
    uint32_t host;
    enum orr_status status = orr_stream_program_name(program, ORR_NAME_HOST, "h", &host);
    if (status != ORR_OK)
        orr_stream_program_destroy(&program);
    *out_program = program;
    return status;
}

void orr_stream_program_destroy(struct orr_stream_program **handle) {
    struct orr_stream_program *program = *handle;
    if (!program)
        return;
    const struct orr_memory *memory = program->memory;
    for (int i = 0; i < ORR_NAME_SPACES; i++)
        orr__name_table_clear(&program->names[i], memory);
    orr_memory_free(memory, program->streams);
    orr_memory_free(memory, program->buffers);
    orr_memory_free(memory, program->comms);
    orr_memory_free(memory, program->ops);
    orr_memory_free(memory, program->accesses);
    orr_memory_free(memory, program->steps);
    orr_memory_free(memory, program->devices);
    orr_memory_free(memory, program->members);
    orr_memory_free(memory, program);
    *handle = NULL;
}

/* --- operations --- */

enum orr_status orr_stream_program_add(struct orr_stream_program *program,
                                       const struct orr_stream_op *op,
                                       const struct orr_stream_access *accesses, uint32_t count) {
    const struct orr_memory *memory = program->memory;
    enum orr_status status =
        orr_memory_grow(memory, &program->ops, &program->op_capacity, (size_t)program->op_count + 1,
                        sizeof *program->ops, ITEMS_MAX);
    if (status == ORR_OK)
        status = orr_memory_grow(memory, &program->accesses, &program->access_capacity,
                                 (size_t)program->access_count + count, sizeof *program->accesses,
                                 ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    struct orr_stream_op *added = &program->ops[program->op_count++];
    *added = *op;
    added->access_first = program->access_count;
    added->access_count = count;
    added->step_first = program->step_count;
    added->device_first = program->device_count;
    added->step_count = added->device_count = 0;
    if (count > 0)
        memcpy(program->accesses + program->access_count, accesses, count * sizeof *accesses);
    program->access_count += count;
    return ORR_OK;
}

enum orr_status orr_stream_program_add_step(struct orr_stream_program *program,
                                            struct orr_stream_step step) {
    assert(program->op_count > 0);
    enum orr_status status =
        orr_memory_grow(program->memory, &program->steps, &program->step_capacity,
                        (size_t)program->step_count + 1, sizeof *program->steps, ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    program->steps[program->step_count++] = step;
    program->ops[program->op_count - 1].step_count++;
    return ORR_OK;
}

enum orr_status orr_stream_program_add_device(struct orr_stream_program *program, uint32_t device) {
    assert(program->op_count > 0);
    enum orr_status status =
        orr_memory_grow(program->memory, &program->devices, &program->device_capacity,
                        (size_t)program->device_count + 1, sizeof *program->devices, ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    program->devices[program->device_count++] = device;
    program->ops[program->op_count - 1].device_count++;
    return ORR_OK;
}

enum orr_status orr_stream_program_insert(struct orr_stream_program *program, uint32_t index,
                                          const struct orr_stream_op *op) {
    assert(index <= program->op_count);
    enum orr_status status = orr_stream_program_add(program, op, NULL, 0);
    if (status != ORR_OK)
        return status;
    struct orr_stream_op added = program->ops[program->op_count - 1];
    memmove(program->ops + index + 1, program->ops + index,
            (program->op_count - 1 - index) * sizeof *program->ops);
    program->ops[index] = added;
    return ORR_OK;
}

/* --- copies --- */

static enum orr_status copy_names(const struct orr_stream_program *from,
                                  struct orr_stream_program *to) {
    for (int space = 0; space < ORR_NAME_SPACES; space++) {
        for (uint32_t i = 0; i < from->names[space].count; i++) {
            uint32_t id;
            const char *text = orr_stream_program_text(from, (enum orr_name_space)space, i);
            enum orr_status status =
                orr_stream_program_name(to, (enum orr_name_space)space, text, &id);
            if (status != ORR_OK)
                return status;
            assert(id == i);
        }
    }
    for (uint32_t i = 0; i < from->names[ORR_NAME_STREAM].count; i++)
        to->streams[i] = from->streams[i];
    for (uint32_t i = 0; i < from->names[ORR_NAME_BUFFER].count; i++)
        to->buffers[i] = from->buffers[i];
    for (uint32_t i = 0; i < from->names[ORR_NAME_COMM].count; i++)
        to->comms[i] = from->comms[i];
    return ORR_OK;
}

static enum orr_status copy_members(const struct orr_stream_program *from,
                                    struct orr_stream_program *to) {
    enum orr_status status = orr_memory_grow(to->memory, &to->members, &to->member_capacity,
                                             from->member_count, sizeof *to->members, ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    if (from->member_count > 0)
        memcpy(to->members, from->members, from->member_count * sizeof *to->members);
    to->member_count = from->member_count;
    return ORR_OK;
}

static enum orr_status copy_op(const struct orr_stream_program *from, uint32_t index,
                               struct orr_stream_program *to) {
    const struct orr_stream_op *op = &from->ops[index];
    const struct orr_stream_access *accesses =
        op->access_count > 0 ? from->accesses + op->access_first : NULL;
    enum orr_status status = orr_stream_program_add(to, op, accesses, op->access_count);
    for (uint32_t i = 0; status == ORR_OK && i < op->step_count; i++)
        status = orr_stream_program_add_step(to, from->steps[op->step_first + i]);
    for (uint32_t i = 0; status == ORR_OK && i < op->device_count; i++)
        status = orr_stream_program_add_device(to, from->devices[op->device_first + i]);
    return status;
}

/* `keep` NULL: everything. */
static enum orr_status copy_program(const struct orr_stream_program *from, const bool *keep,
                                    struct orr_stream_program **out_copy) {
    struct orr_stream_program *to;
    enum orr_status status = orr_stream_program_create(from->memory, &to);
    *out_copy = NULL;
    if (status != ORR_OK)
        return status;
    to->oracle = from->oracle;
    to->is_staged = from->is_staged;
    to->nccl_serial = from->nccl_serial;
    to->capture_mode = from->capture_mode;
    to->slots = from->slots;
    to->queue_depth = from->queue_depth;
    status = copy_names(from, to);
    if (status == ORR_OK)
        status = copy_members(from, to);
    for (uint32_t i = 0; status == ORR_OK && i < from->op_count; i++)
        if (!keep || keep[i])
            status = copy_op(from, i, to);
    if (status != ORR_OK)
        orr_stream_program_destroy(&to);
    *out_copy = to;
    return status;
}

enum orr_status orr_stream_program_copy(const struct orr_stream_program *program,
                                        struct orr_stream_program **out_copy) {
    return copy_program(program, NULL, out_copy);
}

enum orr_status orr_stream_program_subset(const struct orr_stream_program *program,
                                          const bool *keep, struct orr_stream_program **out_copy) {
    return copy_program(program, keep, out_copy);
}
