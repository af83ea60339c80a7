#include "hazards/order_memory.h"

/* Says what is wrong with operation `op`; nothing from it on will be looked at. */
static void malformed(struct orr__order_memory *memory, uint32_t op, const char *what,
                      enum orr_name_space space, uint32_t name) {
    memory->op_end = op;
    memory->malformed = what;
    memory->malformed_space = space;
    memory->malformed_name = name;
}

static bool is_well_reused(const struct orr__order_memory *memory, const struct orr_stream_op *op) {
    const struct orr__order_name *old = &memory->names[op->other];
    uint8_t wanted = op->kind == ORR_OP_ALLOC ? ORR_OP_FREE : ORR_OP_FREE_ASYNC;
    return old->end != ORR_NONE && memory->program->ops[old->end].kind == wanted &&
           old->reused_by == ORR_NONE;
}

static void introduce(struct orr__order_memory *memory, uint32_t index) {
    const struct orr_stream_op *op = &memory->program->ops[index];
    struct orr__order_name *name = &memory->names[op->object];
    bool reuses = op->kind != ORR_OP_ALIAS && op->other != ORR_NONE;
    if (name->intro != ORR_NONE || name->end != ORR_NONE) {
        malformed(memory, index,
                  name->end != ORR_NONE ? "is introduced after it was ended"
                                        : "is introduced a second time",
                  ORR_NAME_BUFFER, op->object);
        return;
    }
    if (reuses && !is_well_reused(memory, op)) {
        malformed(memory, index,
                  memory->names[op->other].reused_by != ORR_NONE
                      ? "is reused a second time"
                      : "is reused, but was not ended by the matching operation before",
                  ORR_NAME_BUFFER, op->other);
        return;
    }
    if (reuses)
        memory->names[op->other].reused_by = index;
    name->block = reuses || op->kind == ORR_OP_ALIAS ? orr__order_block(memory, op->other, index)
                                                     : memory->block_count++;
    name->intro = index;
}

static void end_name(struct orr__order_memory *memory, uint32_t index) {
    const struct orr_stream_op *op = &memory->program->ops[index];
    struct orr__order_name *name = &memory->names[op->object];
    if (name->end != ORR_NONE) {
        malformed(memory, index, "is ended a second time", ORR_NAME_BUFFER, op->object);
        return;
    }
    if (op->kind == ORR_OP_FREE_ASYNC &&
        (name->intro == ORR_NONE || memory->program->ops[name->intro].kind != ORR_OP_ALLOC_ASYNC)) {
        malformed(memory, index, "is not from alloc_async", ORR_NAME_BUFFER, op->object);
        return;
    }
    name->end = index;
}

static void take_op(struct orr__order_memory *memory, uint32_t index, bool *notified) {
    const struct orr_stream_op *op = &memory->program->ops[index];
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_ALLOC:
    case ORR_OP_ALLOC_ASYNC:
    case ORR_OP_ALIAS: introduce(memory, index); break;
    case ORR_OP_FREE:
    case ORR_OP_FREE_ASYNC:
    case ORR_OP_CUDA_FREE:
    case ORR_OP_HOST_FREE: end_name(memory, index); break;
    case ORR_OP_NOTIFY: notified[op->object] = true; break;
    case ORR_OP_AWAIT:
        if (!notified[op->object])
            malformed(memory, index, "is awaited before it is notified", ORR_NAME_FLAG, op->object);
        break;
    default: break;
    }
}

enum orr_status orr__order_memory_init(struct orr__order_memory *memory,
                                       const struct orr_stream_program *program, const bool *skip) {
    uint32_t count = program->names[ORR_NAME_BUFFER].count;
    uint32_t flags = program->names[ORR_NAME_FLAG].count;
    *memory = (struct orr__order_memory){
        .program = program, .block_count = count, .op_end = program->op_count};
    memory->names = orr_memory_alloc(program->memory, count * sizeof *memory->names);
    bool *notified = orr_memory_alloc(program->memory, flags * sizeof *notified);
    if (!memory->names || !notified) {
        orr_memory_free(program->memory, notified);
        orr__order_memory_clear(memory);
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++)
        memory->names[i] = (struct orr__order_name){
            .block = i, .intro = ORR_NONE, .end = ORR_NONE, .reused_by = ORR_NONE};
    for (uint32_t i = 0; i < memory->op_end; i++)
        if (!skip || !skip[i])
            take_op(memory, i, notified);
    orr_memory_free(program->memory, notified);
    return ORR_OK;
}

void orr__order_memory_clear(struct orr__order_memory *memory) {
    orr_memory_free(memory->program->memory, memory->names);
    memory->names = NULL;
}
