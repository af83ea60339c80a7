/* The check for happens-before: takes the operations of a program in order, and finds for each the
 * earliest access that it conflicts with and that nothing orders before it.
 *
 * The access trees say quickly whether there is such an access at all. Only if there is, the
 * operations before are looked through for the earliest, by the stamps that they were given. */
#include "hazards/order_internal.h"

#include <assert.h>

#include "hazards/access_tree.h"
#include "hazards/order_memory.h"
#include "hazards/order_model.h"

/* One of record_stream's streams, in a list per name. */
struct recorded {
    uint32_t stream, next, op;
};

/* What is known of a name, besides struct orr__order_name. */
struct name_state {
    struct orr__stamps uses;  /* accesses by this name, if its end is to come after them */
    struct orr__view at_free; /* for the next owner of the block */
    uint32_t recorded_first;  /* in `recorded`; ORR_NONE */
    bool end_is_checked;
};

/* Who made what an event holds, or notified a flag. */
struct makers {
    uint32_t *events, *flags; /* operations; ORR_NONE */
    bool *replaced;           /* the event held something else before, that would be back */
};

/* The stamps of an operation's actions. A staged copy has two: its read is the host's. */
struct op_stamps {
    struct orr__stamp read, write;
};

struct order_check {
    const struct orr_stream_program *program;
    struct orr__order_memory names;
    struct orr__access_trees trees;
    struct orr__order_model model;
    struct name_state *states;
    struct op_stamps *stamps;
    struct recorded *recorded;
    size_t recorded_capacity;
    uint32_t recorded_count;
    orr_order_found found;
    void *context;
    /* Of the operation at hand. */
    uint32_t index;
    struct orr_order_finding *reported; /* findings of this operation */
    size_t reported_capacity;
    uint32_t reported_count;
    bool is_stopped;
    bool *effective; /* per operation, if asked for: whether it changed what somebody knows */
    struct makers makers;
};

/* --- life --- */

static void clear(struct order_check *check) {
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

static enum orr_status init_makers(struct order_check *check) {
    const struct orr__name_table *names = check->program->names;
    const struct orr_memory *memory = check->program->memory;
    check->makers.events = no_makers(memory, names[ORR_NAME_EVENT].count);
    check->makers.flags = no_makers(memory, names[ORR_NAME_FLAG].count);
    check->makers.replaced =
        orr_memory_alloc(memory, names[ORR_NAME_EVENT].count * sizeof *check->makers.replaced);
    return check->makers.events && check->makers.flags && check->makers.replaced ? ORR_OK
                                                                                 : ORR_NO_MEMORY;
}

static enum orr_status init(struct order_check *check, const struct orr_stream_program *program,
                            const bool *skip) {
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

/* --- findings --- */

/* Passes a finding on, unless the operation already has one of this kind with this partner. */
static enum orr_status report(struct order_check *check, enum orr_check_verdict_kind kind,
                              uint32_t op_a, uint32_t access_a, uint32_t access_b) {
    for (uint32_t i = 0; i < check->reported_count; i++)
        if (check->reported[i].kind == kind && check->reported[i].op_a == op_a)
            return ORR_OK;
    enum orr_status status =
        orr_memory_grow(check->program->memory, &check->reported, &check->reported_capacity,
                        (size_t)check->reported_count + 1, sizeof *check->reported, UINT32_MAX);
    if (status != ORR_OK)
        return status;
    struct orr_order_finding finding = {.kind = kind,
                                        .op_a = op_a,
                                        .op_b = check->index,
                                        .access_a = access_a,
                                        .access_b = access_b};
    check->reported[check->reported_count++] = finding;
    check->is_stopped = !check->found(check->context, &finding);
    return ORR_OK;
}

static struct orr__stamp stamp_of(const struct order_check *check, uint32_t op, bool is_write) {
    return is_write ? check->stamps[op].write : check->stamps[op].read;
}

/* The first access before the operation at hand that conflicts with `access` and that the view does
 * not know. */
static enum orr_status report_history(struct order_check *check, uint32_t access_b,
                                      const struct orr__view *view) {
    const struct orr_stream_program *program = check->program;
    const struct orr_stream_access *b = &program->accesses[access_b];
    uint32_t block = orr__order_block(&check->names, b->buffer, check->index);
    for (uint32_t op = 0; op < check->index; op++) {
        for (uint32_t i = 0; i < program->ops[op].access_count; i++) {
            uint32_t access_a = program->ops[op].access_first + i;
            const struct orr_stream_access *a = &program->accesses[access_a];
            if (a->lo < b->hi && b->lo < a->hi && (a->is_write || b->is_write) &&
                !orr__order_is_void(program, a) &&
                orr__order_block(&check->names, a->buffer, op) == block &&
                !orr__view_knows(&check->model.clocks, view, stamp_of(check, op, a->is_write)))
                return report(check,
                              a->buffer == b->buffer ? ORR_CHECK_RACE : ORR_CHECK_USE_AFTER_FREE,
                              op, access_a, access_b);
        }
    }
    return ORR_OK; /* only after earlier findings, whose accesses replaced others all the same */
}

/* The first use of a name that the view, of who ends its life, does not know. What was accessed
 * by this name while it meant another block does not count. */
static enum orr_status report_use(struct order_check *check, uint32_t name,
                                  const struct orr__view *view) {
    const struct orr_stream_program *program = check->program;
    uint32_t block = check->names.names[name].block;
    for (uint32_t op = 0; op < check->index; op++) {
        for (uint32_t i = 0; i < program->ops[op].access_count; i++) {
            uint32_t access_a = program->ops[op].access_first + i;
            const struct orr_stream_access *a = &program->accesses[access_a];
            if (a->buffer == name && !orr__order_is_void(program, a) &&
                orr__order_block(&check->names, name, op) == block &&
                !orr__view_knows(&check->model.clocks, view, stamp_of(check, op, a->is_write)))
                return report(check, ORR_CHECK_USE_AFTER_FREE, op, access_a, ORR_NONE);
        }
    }
    return ORR_OK;
}

static bool is_before_alloc(const struct order_check *check, uint32_t name,
                            const struct orr__view *view) {
    uint32_t intro = check->names.names[name].intro;
    return intro < check->index && check->program->ops[intro].kind == ORR_OP_ALLOC_ASYNC &&
           !orr__view_knows(&check->model.clocks, view, check->stamps[intro].write);
}

static enum orr_status check_access(struct order_check *check, uint32_t index,
                                    const struct orr__view *view) {
    const struct orr_stream_access *access = &check->program->accesses[index];
    const struct orr__order_name *name = &check->names.names[access->buffer];
    if (orr__order_is_void(check->program, access))
        return ORR_OK;
    if (is_before_alloc(check, access->buffer, view))
        return report(check, ORR_CHECK_USE_BEFORE_ALLOC, name->intro, ORR_NONE, index);
    if (orr__order_is_ended(&check->names, access->buffer, check->index))
        return report(check, ORR_CHECK_USE_AFTER_FREE, name->end, ORR_NONE, index);
    uint32_t block = orr__order_block(&check->names, access->buffer, check->index);
    if (orr__access_is_ordered(&check->trees, &check->model.clocks, block, access, view))
        return ORR_OK;
    return report_history(check, index, view);
}

static enum orr_status add_access(struct order_check *check, uint32_t index,
                                  struct orr__stamp stamp, bool is_ordered) {
    const struct orr_stream_access *access = &check->program->accesses[index];
    struct name_state *state = &check->states[access->buffer];
    if (orr__order_is_void(check->program, access))
        return ORR_OK;
    uint32_t block = orr__order_block(&check->names, access->buffer, check->index);
    enum orr_status status = ORR_OK;
    if (state->end_is_checked && block == check->names.names[access->buffer].block)
        status = orr__stamps_add(&check->model.clocks, &state->uses, stamp);
    if (status != ORR_OK)
        return status;
    return orr__access_add(&check->trees, &check->model.clocks, block, access, stamp, is_ordered);
}

/* --- actions --- */

/* Which of an operation's accesses an action makes. */
enum part { PART_ALL, PART_READS, PART_WRITES };

static bool is_in(enum part part, const struct orr_stream_access *access) {
    return part == PART_ALL || access->is_write == (part == PART_WRITES);
}

/* Step 4 of an action: all accesses are checked, and then added. */
static enum orr_status take_accesses(struct order_check *check, const struct orr__view *view,
                                     struct orr__stamp stamp, enum part part) {
    const struct orr_stream_op *op = &check->program->ops[check->index];
    struct op_stamps *stamps = &check->stamps[check->index];
    uint32_t reported = check->reported_count, end = op->access_first + op->access_count;
    enum orr_status status = ORR_OK;
    if (part != PART_WRITES)
        stamps->read = stamp;
    if (part != PART_READS)
        stamps->write = stamp;
    for (uint32_t i = op->access_first; status == ORR_OK && !check->is_stopped && i < end; i++)
        if (is_in(part, &check->program->accesses[i]))
            status = check_access(check, i, view);
    bool is_ordered = check->reported_count == reported;
    for (uint32_t i = op->access_first; status == ORR_OK && !check->is_stopped && i < end; i++)
        if (is_in(part, &check->program->accesses[i]))
            status = add_access(check, i, stamp, is_ordered);
    return status;
}

static enum orr_status stream_action(struct order_check *check, uint32_t stream, enum part part) {
    struct orr__stamp stamp;
    enum orr_status status = orr__order_model_begin(&check->model, stream,
                                                    check->program->ops[check->index].host, &stamp);
    if (status == ORR_OK)
        status = take_accesses(check, &check->model.views[stream], stamp, part);
    return status == ORR_OK ? orr__order_model_end(&check->model, stream) : status;
}

static enum orr_status host_action(struct order_check *check, enum part part) {
    uint32_t host = check->program->ops[check->index].host;
    struct orr__stamp stamp = orr__order_model_host_action(&check->model, host);
    return take_accesses(check, &check->model.views[orr__order_host(&check->model, host)], stamp,
                         part);
}

static enum orr_status communication(struct order_check *check, const struct orr_stream_op *op) {
    if (!check->program->nccl_serial)
        return stream_action(check, op->stream, PART_ALL);
    enum orr_status status =
        orr__order_model_comm_enter(&check->model, op->object, op->host, op->stream);
    if (status == ORR_OK)
        status = stream_action(check, op->stream, PART_ALL);
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

static enum orr_status staged_copy(struct order_check *check, uint32_t stream) {
    enum orr_status status = host_action(check, PART_READS);
    return status == ORR_OK && !check->is_stopped ? stream_action(check, stream, PART_WRITES)
                                                  : status;
}

static enum orr_status memcpy_async(struct order_check *check, const struct orr_stream_op *op) {
    const struct orr_stream_program *program = check->program;
    uint32_t source = first_buffer(program, op, false), target = first_buffer(program, op, true);
    if (program->is_staged && is_stageable(program, source, target))
        return staged_copy(check, op->stream);
    enum orr_status status = stream_action(check, op->stream, PART_ALL);
    if (status == ORR_OK && orr__order_is_host_memory(program, source) &&
        orr__order_is_host_memory(program, target))
        status = orr__order_model_sync_stream(&check->model, op->host, op->stream);
    return status;
}

static enum orr_status memcpy_sync(struct order_check *check, const struct orr_stream_op *op) {
    const struct orr_stream_program *program = check->program;
    uint32_t source = first_buffer(program, op, false), target = first_buffer(program, op, true);
    uint32_t stream = orr__order_legacy(&check->model, op->device);
    assert(stream != ORR_NONE); /* a program without it is malformed */
    if (is_stageable(program, source, target)) {
        enum orr_status status = orr__order_model_sync_stream(&check->model, op->host, stream);
        return status == ORR_OK ? staged_copy(check, stream) : status;
    }
    enum orr_status status = stream_action(check, stream, PART_ALL);
    if (status == ORR_OK &&
        (orr__order_is_host_memory(program, source) || orr__order_is_host_memory(program, target)))
        status = orr__order_model_sync_stream(&check->model, op->host, stream);
    return status;
}

static enum orr_status memset_sync(struct order_check *check, const struct orr_stream_op *op) {
    enum orr_memory_kind kind = check->program->buffers[first_buffer(check->program, op, true)];
    uint32_t stream = orr__order_legacy(&check->model, op->device);
    assert(stream != ORR_NONE); /* a program without it is malformed */
    enum orr_status status = stream_action(check, stream, PART_ALL);
    if (status == ORR_OK && (kind == ORR_MEMORY_PINNED || kind == ORR_MEMORY_MANAGED))
        status = orr__order_model_sync_stream(&check->model, op->host, stream);
    return status;
}

/* --- memory --- */

static enum orr_status record_stream(struct order_check *check, const struct orr_stream_op *op) {
    enum orr_status status =
        orr_memory_grow(check->program->memory, &check->recorded, &check->recorded_capacity,
                        (size_t)check->recorded_count + 1, sizeof *check->recorded, UINT32_MAX);
    if (status != ORR_OK)
        return status;
    struct name_state *state = &check->states[op->object];
    check->recorded[check->recorded_count] =
        (struct recorded){.stream = op->stream, .next = state->recorded_first, .op = check->index};
    state->recorded_first = check->recorded_count++;
    return ORR_OK;
}

static enum orr_status free_cached(struct order_check *check, const struct orr_stream_op *op) {
    struct orr__order_model *model = &check->model;
    struct name_state *state = &check->states[op->object];
    state->at_free =
        orr__view_save(&model->clocks, &model->views[orr__order_host(model, op->host)]);
    enum orr_status status = ORR_OK;
    if (state->recorded_first == ORR_NONE)
        return status;
    bool is_reused = check->names.names[op->object].reused_by != ORR_NONE;
    /* A sum of several views belongs to nobody. */
    struct orr__view sum = {.actor = ORR_NO_ACTOR};
    status = orr__view_join(&model->clocks, &sum, &state->at_free, NULL);
    for (uint32_t i = state->recorded_first; status == ORR_OK && i != ORR_NONE;
         i = check->recorded[i].next) {
        const struct orr__view *view;
        status = orr__order_model_stream_view(model, check->recorded[i].stream, &view);
        bool changed = false;
        if (status == ORR_OK)
            status = orr__view_join(&model->clocks, &sum, view, &changed);
        if (check->effective && changed && is_reused)
            check->effective[check->recorded[i].op] = true;
    }
    orr__view_drop(&model->clocks, &state->at_free);
    state->at_free = sum;
    return status;
}

static enum orr_status alloc_cached(struct order_check *check, const struct orr_stream_op *op) {
    if (op->other == ORR_NONE)
        return ORR_OK;
    struct orr__order_model *model = &check->model;
    return orr__view_join(&model->clocks, &model->views[orr__order_host(model, op->host)],
                          &check->states[op->other].at_free, NULL);
}

static enum orr_status alloc_async(struct order_check *check, const struct orr_stream_op *op) {
    enum orr_status status = ORR_OK;
    if (op->other != ORR_NONE)
        status =
            orr__order_model_learn(&check->model, op->stream, &check->states[op->other].at_free);
    return status == ORR_OK ? stream_action(check, op->stream, PART_ALL) : status;
}

static enum orr_status free_async(struct order_check *check, const struct orr_stream_op *op) {
    struct orr__order_model *model = &check->model;
    struct name_state *state = &check->states[op->object];
    struct orr__stamp stamp;
    enum orr_status status = orr__order_model_begin(model, op->stream, op->host, &stamp);
    const struct orr__view *view = &model->views[op->stream];
    if (status == ORR_OK && is_before_alloc(check, op->object, view))
        status = report(check, ORR_CHECK_USE_BEFORE_ALLOC, check->names.names[op->object].intro,
                        ORR_NONE, ORR_NONE);
    if (status == ORR_OK && !check->is_stopped &&
        !orr__stamps_known(&model->clocks, &state->uses, view))
        status = report_use(check, op->object, view);
    if (status == ORR_OK)
        status = orr__order_model_end(model, op->stream);
    if (status == ORR_OK)
        state->at_free = orr__view_save(&model->clocks, view);
    return status;
}

static enum orr_status free_on_host(struct order_check *check, const struct orr_stream_op *op) {
    const struct orr__view *view = &check->model.views[orr__order_host(&check->model, op->host)];
    if (orr__stamps_known(&check->model.clocks, &check->states[op->object].uses, view))
        return ORR_OK;
    return report_use(check, op->object, view);
}

/* --- operations --- */

static enum orr_status take_memory(struct order_check *check, const struct orr_stream_op *op) {
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_ALLOC: return alloc_cached(check, op);
    case ORR_OP_FREE: return free_cached(check, op);
    case ORR_OP_RECORD_STREAM: return record_stream(check, op);
    case ORR_OP_ALLOC_ASYNC: return alloc_async(check, op);
    case ORR_OP_FREE_ASYNC: return free_async(check, op);
    case ORR_OP_CUDA_FREE:
    case ORR_OP_HOST_FREE: return free_on_host(check, op);
    default: return ORR_OK; /* alias, view, groups, creating and destroying streams: no effect */
    }
}

static enum orr_status take_op(struct order_check *check, const struct orr_stream_op *op) {
    struct orr__order_model *model = &check->model;
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_KERNEL:
    case ORR_OP_HOSTFN:
    case ORR_OP_MEMSET: return stream_action(check, op->stream, PART_ALL);
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: return communication(check, op);
    case ORR_OP_MEMCPY: return memcpy_async(check, op);
    case ORR_OP_MEMCPY_SYNC: return memcpy_sync(check, op);
    case ORR_OP_MEMSET_SYNC: return memset_sync(check, op);
    case ORR_OP_HOST_READ:
    case ORR_OP_HOST_WRITE: return host_action(check, PART_ALL);
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
    default: return take_memory(check, op);
    }
}

/* --- effects --- */

static void set_effective(struct order_check *check, uint32_t op) {
    if (op != ORR_NONE)
        check->effective[op] = true;
}

/* After an operation: whether it had an effect, and who had a part in that. */
static void note_effect(struct order_check *check, const struct orr_stream_op *op, bool changed) {
    struct makers *makers = &check->makers;
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
    struct order_check check = {
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
