/* The check for happens-before: takes the operations of a program in order, and finds for each the
 * earliest access that it conflicts with and that nothing orders before it.
 *
 * The access trees say quickly whether there is such an access at all. Only if there is, the
 * operations before are looked through for the earliest, by the stamps that they were given. */
#include <assert.h>

#include "hazards/order_check_internal.h"

/* --- life --- */

static void clear(struct orr__order_check *check) {
    const struct orr_memory *memory = check->program->memory;
    orr__order_memory_clear(&check->names);
    orr__access_trees_clear(&check->trees);
    orr__order_model_clear(&check->model);
    orr_memory_free(memory, check->states);
    orr_memory_free(memory, check->stamps);
    orr_memory_free(memory, check->recorded);
    orr_memory_free(memory, check->reported);
    orr_memory_free(memory, check->makers.events);
    orr_memory_free(memory, check->makers.flags);
    orr_memory_free(memory, check->makers.replaced);
}

static uint32_t *no_makers(const struct orr_memory *memory, uint32_t count) {
    uint32_t *makers = orr_memory_alloc(memory, count * sizeof *makers);
    for (uint32_t i = 0; makers && i < count; i++)
        makers[i] = ORR_NONE;
    return makers;
}

static enum orr_status init_makers(struct orr__order_check *check) {
    const struct orr__name_table *names = check->program->names;
    const struct orr_memory *memory = check->program->memory;
    check->makers.events = no_makers(memory, names[ORR_NAME_EVENT].count);
    check->makers.flags = no_makers(memory, names[ORR_NAME_FLAG].count);
    check->makers.replaced =
        orr_memory_alloc(memory, names[ORR_NAME_EVENT].count * sizeof *check->makers.replaced);
    return check->makers.events && check->makers.flags && check->makers.replaced ? ORR_OK
                                                                                 : ORR_NO_MEMORY;
}

static enum orr_status init(struct orr__order_check *check,
                            const struct orr_stream_program *program, const bool *skip) {
    const struct orr_memory *memory = program->memory;
    uint32_t name_count = program->names[ORR_NAME_BUFFER].count;
    check->program = check->names.program = check->model.program = program;
    check->trees.memory = memory;
    enum orr_status status = orr__order_memory_init(&check->names, program, skip);
    if (status == ORR_OK)
        status = orr__access_trees_init(&check->trees, &check->names);
    if (status == ORR_OK)
        status = orr__order_model_init(&check->model, program);
    check->states = orr_memory_alloc(memory, name_count * sizeof *check->states);
    check->stamps = orr_memory_alloc(memory, check->names.op_end * sizeof *check->stamps);
    if (status != ORR_OK || !check->states || !check->stamps)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < name_count; i++) {
        uint32_t end = check->names.names[i].end;
        check->states[i].recorded_first = ORR_NONE;
        check->states[i].end_is_checked = end != ORR_NONE && program->ops[end].kind != ORR_OP_FREE;
    }
    return ORR_OK;
}

/* --- communication --- */

static enum orr_status communication(struct orr__order_check *check,
                                     const struct orr_stream_op *op) {
    if (!check->program->nccl_serial)
        return orr__order_stream_action(check, op->stream, ORR__PART_ALL);
    enum orr_status status =
        orr__order_model_comm_enter(&check->model, op->object, op->host, op->stream);
    if (status == ORR_OK)
        status = orr__order_stream_action(check, op->stream, ORR__PART_ALL);
    if (status == ORR_OK)
        status = orr__order_model_comm_leave(&check->model, op->object, op->host, op->stream);
    return status;
}

/* --- copies --- */

static uint32_t first_buffer(const struct orr_stream_program *program,
                             const struct orr_stream_op *op, bool is_write) {
    uint32_t first = op->access_first;
    for (uint32_t i = first; i < first + op->access_count; i++)
        if (program->accesses[i].is_write == is_write)
            return program->accesses[i].buffer;
    return ORR_NONE;
}

/* Whether the host reads a copy's source at the call, if it is staged at all. */
static bool is_stageable(const struct orr_stream_program *program, uint32_t source,
                         uint32_t target) {
    return program->buffers[source] == ORR_MEMORY_PAGEABLE &&
           !orr__order_is_host_memory(program, target);
}

static enum orr_status staged_copy(struct orr__order_check *check, uint32_t stream) {
    enum orr_status status = orr__order_host_action(check, ORR__PART_READS);
    return status == ORR_OK && !check->is_stopped
               ? orr__order_stream_action(check, stream, ORR__PART_WRITES)
               : status;
}

static enum orr_status memcpy_async(struct orr__order_check *check,
                                    const struct orr_stream_op *op) {
    const struct orr_stream_program *program = check->program;
    uint32_t source = first_buffer(program, op, false), target = first_buffer(program, op, true);
    if (program->is_staged && is_stageable(program, source, target))
        return staged_copy(check, op->stream);
    enum orr_status status = orr__order_stream_action(check, op->stream, ORR__PART_ALL);
    if (status == ORR_OK && orr__order_is_host_memory(program, source) &&
        orr__order_is_host_memory(program, target))
        status = orr__order_model_sync_stream(&check->model, op->host, op->stream);
    return status;
}

static enum orr_status memcpy_sync(struct orr__order_check *check, const struct orr_stream_op *op) {
    const struct orr_stream_program *program = check->program;
    uint32_t source = first_buffer(program, op, false), target = first_buffer(program, op, true);
    uint32_t stream = orr__order_legacy(&check->model, op->device);
    assert(stream != ORR_NONE); /* a program without it is malformed */
    if (is_stageable(program, source, target)) {
        enum orr_status status = orr__order_model_sync_stream(&check->model, op->host, stream);
        return status == ORR_OK ? staged_copy(check, stream) : status;
    }
    enum orr_status status = orr__order_stream_action(check, stream, ORR__PART_ALL);
    if (status == ORR_OK &&
        (orr__order_is_host_memory(program, source) || orr__order_is_host_memory(program, target)))
        status = orr__order_model_sync_stream(&check->model, op->host, stream);
    return status;
}

static enum orr_status memset_sync(struct orr__order_check *check, const struct orr_stream_op *op) {
    enum orr_memory_kind kind = check->program->buffers[first_buffer(check->program, op, true)];
    uint32_t stream = orr__order_legacy(&check->model, op->device);
    assert(stream != ORR_NONE); /* a program without it is malformed */
    enum orr_status status = orr__order_stream_action(check, stream, ORR__PART_ALL);
    if (status == ORR_OK && (kind == ORR_MEMORY_PINNED || kind == ORR_MEMORY_MANAGED))
        status = orr__order_model_sync_stream(&check->model, op->host, stream);
    return status;
}

/* --- operations --- */

static enum orr_status take_op(struct orr__order_check *check, const struct orr_stream_op *op) {
    struct orr__order_model *model = &check->model;
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_KERNEL:
    case ORR_OP_HOSTFN:
    case ORR_OP_MEMSET: return orr__order_stream_action(check, op->stream, ORR__PART_ALL);
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: return communication(check, op);
    case ORR_OP_MEMCPY: return memcpy_async(check, op);
    case ORR_OP_MEMCPY_SYNC: return memcpy_sync(check, op);
    case ORR_OP_MEMSET_SYNC: return memset_sync(check, op);
    case ORR_OP_HOST_READ:
    case ORR_OP_HOST_WRITE: return orr__order_host_action(check, ORR__PART_ALL);
    case ORR_OP_RECORD: return orr__order_model_record(model, op->object, op->stream, op->host);
    case ORR_OP_WAIT:
        return op->ignored ? ORR_OK
                           : orr__order_model_wait(model, op->stream, op->object, op->host);
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK: return orr__order_model_sync_event(model, op->host, op->object);
    case ORR_OP_SYNC_STREAM:
    case ORR_OP_STREAM_QUERY_OK: return orr__order_model_sync_stream(model, op->host, op->stream);
    case ORR_OP_SYNC_DEVICE: return orr__order_model_sync_device(model, op->host, op->device);
    case ORR_OP_EVENT_CREATE:
    case ORR_OP_EVENT_DESTROY: orr__order_model_event_clear(model, op->object); return ORR_OK;
    case ORR_OP_NOTIFY: return orr__order_model_notify(model, op->host, op->object);
    case ORR_OP_AWAIT: return orr__order_model_await(model, op->host, op->object);
    default: return orr__order_take_life(check, op);
    }
}

/* --- effects --- */

static void set_effective(struct orr__order_check *check, uint32_t op) {
    if (op != ORR_NONE)
        check->effective[op] = true;
}

/* After an operation: whether it had an effect, and who had a part in that. */
static void note_effect(struct orr__order_check *check, const struct orr_stream_op *op,
                        bool changed) {
    struct orr__order_makers *makers = &check->makers;
    if (changed)
        set_effective(check, check->index);
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_WAIT:
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK:
        if (changed || makers->replaced[op->object])
            set_effective(check, makers->events[op->object]);
        break;
    case ORR_OP_RECORD:
        makers->replaced[op->object] = makers->events[op->object] != ORR_NONE;
        makers->events[op->object] = check->index;
        break;
    case ORR_OP_EVENT_CREATE:
    case ORR_OP_EVENT_DESTROY:
        makers->replaced[op->object] = false;
        makers->events[op->object] = ORR_NONE;
        break;
    case ORR_OP_NOTIFY: makers->flags[op->object] = check->index; break;
    /* A flag that is awaited has to be notified, even if that tells nobody anything. */
    case ORR_OP_AWAIT: set_effective(check, makers->flags[op->object]); break;
    default: break;
    }
}

enum orr_status orr__order_check(const struct orr_stream_program *program,
                                 const struct orr__order_request *request,
                                 struct orr_order_malformed *out_malformed) {
    struct orr__order_check check = {
        .found = request->found, .context = request->context, .effective = request->effective};
    enum orr_status status = init(&check, program, request->skip);
    if (status == ORR_OK && check.effective)
        status = init_makers(&check);
    for (uint32_t i = 0; status == ORR_OK && !check.is_stopped && i < check.names.op_end; i++) {
        if (request->skip && request->skip[i])
            continue;
        uint64_t effects = check.model.effects;
        check.index = i;
        check.reported_count = 0;
        status = take_op(&check, &program->ops[i]);
        if (check.effective && status == ORR_OK)
            note_effect(&check, &program->ops[i], check.model.effects > effects);
    }
    *out_malformed = (struct orr_order_malformed){.op = ORR_NONE};
    if (check.names.malformed && !check.is_stopped)
        *out_malformed = (struct orr_order_malformed){.op = check.names.op_end,
                                                      .what = check.names.malformed,
                                                      .space = check.names.malformed_space,
                                                      .name = check.names.malformed_name};
    clear(&check);
    return status;
}
