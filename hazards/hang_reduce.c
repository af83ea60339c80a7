#include "hazards/hang_reduce.h"

#include <assert.h>

/* --- harmless streams and events --- */

struct harm {
    const struct orr__hang_model *model;
    bool *stream, *event; /* harmful */
    bool *is_recorded;    /* event: anywhere */
    uint32_t *todo;       /* harmful streams whose consequences are still to be drawn */
    uint32_t todo_count;
    /* Chains of operations: records of a stream, waits for an event. */
    uint32_t *first_record, *first_wait, *next;
};

static void harm_stream(struct harm *harm, uint32_t stream) {
    if (harm->stream[stream])
        return;
    harm->stream[stream] = true;
    harm->todo[harm->todo_count++] = stream;
}

static void harm_event(struct harm *harm, uint32_t event) {
    if (harm->event[event])
        return;
    harm->event[event] = true;
    for (uint32_t i = harm->first_wait[event]; i != ORR_NONE; i = harm->next[i])
        harm_stream(harm, harm->model->program->ops[i].stream);
}

/* What begins to be harmful, and the chains. */
static void look_at_ops(struct harm *harm) {
    const struct orr_stream_program *program = harm->model->program;
    for (uint32_t i = program->op_count; i-- > 0;) {
        const struct orr_stream_op *op = &program->ops[i];
        switch (op->kind) {
        case ORR_OP_COLL:
        case ORR_OP_SEND:
        case ORR_OP_RECV: harm_stream(harm, op->stream); break;
        case ORR_OP_HOSTFN:
            if (orr__hang_body_waits(harm->model, op))
                harm_stream(harm, op->stream);
            break;
        case ORR_OP_RECORD:
            harm->is_recorded[op->object] = true;
            harm->next[i] = harm->first_record[op->stream];
            harm->first_record[op->stream] = i;
            break;
        case ORR_OP_WAIT:
            if (op->ignored)
                break;
            harm->next[i] = harm->first_wait[op->object];
            harm->first_wait[op->object] = i;
            break;
        default: break;
        }
    }
}

static void spread(struct harm *harm) {
    const struct orr__hang_model *model = harm->model;
    while (harm->todo_count > 0) {
        uint32_t stream = harm->todo[--harm->todo_count];
        for (uint32_t i = harm->first_record[stream]; i != ORR_NONE; i = harm->next[i])
            harm_event(harm, model->program->ops[i].object);
        const struct orr__hang_stream *info = &model->streams[stream];
        for (uint32_t i = 0; i < info->rule_count; i++)
            harm_stream(harm, model->rules[info->rule_first + i]);
    }
}

static bool harm_find(struct harm *harm, struct orr__arena *arena) {
    const struct orr__hang_model *model = harm->model;
    harm->stream = orr__arena_alloc(arena, model->stream_count, sizeof(bool));
    harm->event = orr__arena_alloc(arena, model->event_count, sizeof(bool));
    harm->is_recorded = orr__arena_alloc(arena, model->event_count, sizeof(bool));
    harm->todo = orr__arena_alloc(arena, model->stream_count, sizeof(uint32_t));
    harm->first_record = orr__arena_alloc(arena, model->stream_count, sizeof(uint32_t));
    harm->first_wait = orr__arena_alloc(arena, model->event_count, sizeof(uint32_t));
    harm->next = orr__arena_alloc(arena, model->program->op_count, sizeof(uint32_t));
    if (!harm->stream || !harm->event || !harm->is_recorded || !harm->todo || !harm->first_record ||
        !harm->first_wait || !harm->next)
        return false;
    for (uint32_t i = 0; i < model->stream_count; i++)
        harm->first_record[i] = ORR_NONE;
    for (uint32_t i = 0; i < model->event_count; i++)
        harm->first_wait[i] = ORR_NONE;
    look_at_ops(harm);
    if (model->program->queue_depth == 0)
        for (uint32_t i = 0; i < model->stream_count; i++)
            harm_stream(harm, i);
    spread(harm);
    return true;
}

/* --- what to keep --- */

static bool keep_wait(const struct harm *harm, const struct orr_stream_op *op) {
    const struct orr__hang_model *model = harm->model;
    if (op->ignored || !harm->is_recorded[op->object] || !harm->stream[op->stream])
        return false;
    return !model->has_room || model->streams[op->stream].rule_count > 0 || harm->event[op->object];
}

static bool keep_work(const struct harm *harm, const struct orr_stream_op *op) {
    const struct orr__hang_model *model = harm->model;
    if (!harm->stream[op->stream])
        return false;
    return !model->has_room || model->streams[op->stream].rule_count > 0 ||
           (op->kind == ORR_OP_HOSTFN && orr__hang_body_waits(model, op));
}

static bool keep_device_sync(const struct harm *harm, const struct orr_stream_op *op) {
    const struct orr__hang_model *model = harm->model;
    uint32_t number;
    for (uint32_t i = 0; orr__hang_sync_device(model, op, i, &number); i++) {
        if (number == ORR_NONE)
            continue;
        const struct orr__hang_device *device = &model->devices[number];
        for (uint32_t k = 0; k < device->stream_count; k++)
            if (harm->stream[model->device_streams[device->stream_first + k]])
                return true;
    }
    return false;
}

static bool keep_op(const struct harm *harm, const struct orr_stream_op *op, const bool *needed) {
    switch (op->kind) {
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV:
    case ORR_OP_GROUP_START:
    case ORR_OP_GROUP_END:
    case ORR_OP_NOTIFY:
    case ORR_OP_AWAIT: return true;
    case ORR_OP_KERNEL:
    case ORR_OP_MEMCPY:
    case ORR_OP_MEMSET:
    case ORR_OP_HOSTFN: return keep_work(harm, op);
    case ORR_OP_RECORD: return needed[op->object];
    case ORR_OP_WAIT: return keep_wait(harm, op);
    case ORR_OP_SYNC_EVENT: return harm->event[op->object];
    case ORR_OP_SYNC_STREAM: return harm->stream[op->stream];
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC: return keep_device_sync(harm, op);
    case ORR_OP_LOCK: return !harm->model->lock_is_harmless[op->object];
    case ORR_OP_UNLOCK: return true; /* so that a witness gives back what it has taken */
    default: return false;
    }
}

enum orr_status orr__hang_reduce(const struct orr__hang_model *model, bool *keep) {
    const struct orr_stream_program *program = model->program;
    struct orr__arena arena = {.memory = program->memory};
    struct harm harm = {.model = model};
    bool *needed = orr__arena_alloc(&arena, model->event_count, sizeof *needed);
    enum orr_status status = needed && harm_find(&harm, &arena) ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t i = 0; status == ORR_OK && i < program->op_count; i++) {
        const struct orr_stream_op *op = &program->ops[i];
        if (op->kind == ORR_OP_WAIT && keep_wait(&harm, op))
            needed[op->object] = true;
        if (op->kind == ORR_OP_SYNC_EVENT && harm.event[op->object])
            needed[op->object] = true;
    }
    for (uint32_t i = 0; status == ORR_OK && i < program->op_count; i++)
        keep[i] = keep_op(&harm, &program->ops[i], needed);
    orr__arena_clear(&arena);
    return status;
}

/* --- harmless locks --- */

enum { HELD_MAX = 8 }; /* locks held at once beyond which all of them are taken for real */

/* Lock `outer` is held while `inner` is asked for. */
struct nesting {
    uint32_t outer, inner;
};

struct lock_walk {
    const struct orr__hang_model *model;
    bool *is_real;
    struct nesting *nestings;
    size_t nesting_count, nesting_capacity;
    uint32_t held[HELD_MAX], held_count;
};

static void all_held_are_real(struct lock_walk *walk) {
    for (uint32_t i = 0; i < walk->held_count; i++)
        walk->is_real[walk->held[i]] = true;
}

static enum orr_status take(struct lock_walk *walk, uint32_t lock) {
    for (uint32_t i = 0; i < walk->held_count; i++) {
        if (walk->held[i] == lock)
            walk->is_real[lock] = true; /* waits for itself */
        enum orr_status status = orr_memory_grow(
            walk->model->program->memory, &walk->nestings, &walk->nesting_capacity,
            walk->nesting_count + 1, sizeof *walk->nestings, SIZE_MAX / sizeof *walk->nestings);
        if (status != ORR_OK)
            return status;
        walk->nestings[walk->nesting_count++] =
            (struct nesting){.outer = walk->held[i], .inner = lock};
    }
    if (walk->held_count < HELD_MAX) {
        walk->held[walk->held_count++] = lock;
    } else {
        all_held_are_real(walk);
        walk->is_real[lock] = true;
    }
    return ORR_OK;
}

static void give(struct lock_walk *walk, uint32_t lock) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < walk->held_count; i++)
        if (walk->held[i] != lock)
            walk->held[kept++] = walk->held[i];
    walk->held_count = kept;
}

static bool may_wait(const struct orr__hang_model *model, enum orr_stream_op_kind kind,
                     const struct orr__hang_call *call) {
    switch (kind) {
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_SYNC_STREAM:
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC:
    case ORR_OP_AWAIT: return true;
    default: return !model->has_room && call->entry_count > 0;
    }
}

static enum orr_status walk_host(struct lock_walk *walk, const struct orr__hang_host *host) {
    const struct orr__hang_model *model = walk->model;
    enum orr_status status = ORR_OK;
    walk->held_count = 0;
    for (uint32_t i = 0; status == ORR_OK && i < host->call_count; i++) {
        const struct orr__hang_call *call = &model->calls[host->call_first + i];
        const struct orr_stream_op *op = &model->program->ops[call->op];
        if (op->kind == ORR_OP_LOCK)
            status = take(walk, op->object);
        else if (op->kind == ORR_OP_UNLOCK)
            give(walk, op->object);
        else if (!call->is_alone || may_wait(model, op->kind, call))
            all_held_are_real(walk);
    }
    all_held_are_real(walk);
    return status;
}

static enum orr_status walk_body(struct lock_walk *walk, const struct orr_stream_op *op) {
    enum orr_status status = ORR_OK;
    walk->held_count = 0;
    for (uint32_t i = 0; status == ORR_OK && i < op->step_count; i++) {
        struct orr_stream_step step = walk->model->program->steps[op->step_first + i];
        if (step.kind == ORR_OP_LOCK)
            status = take(walk, step.object);
        else if (step.kind == ORR_OP_UNLOCK)
            give(walk, step.object);
        else
            all_held_are_real(walk);
    }
    all_held_are_real(walk);
    return status;
}

/* A lock becomes harmless after all that are asked for under it. */
static bool settle(const struct lock_walk *walk, struct orr__arena *arena, bool *harmless,
                   bool *out_found) {
    uint32_t count = walk->model->lock_count, todo_count = 0;
    uint32_t *waiting = orr__arena_alloc(arena, count, sizeof *waiting);
    uint32_t *todo = orr__arena_alloc(arena, count, sizeof *todo);
    size_t *first = orr__arena_alloc(arena, (size_t)count + 1, sizeof *first);
    uint32_t *outers = orr__arena_alloc(arena, walk->nesting_count, sizeof *outers);
    if (!waiting || !todo || !first || !outers)
        return false;
    for (size_t i = 0; i < walk->nesting_count; i++) {
        first[walk->nestings[i].inner]++;
        waiting[walk->nestings[i].outer]++;
    }
    for (uint32_t i = 0; i < count; i++)
        first[i + 1] += first[i];
    for (size_t i = walk->nesting_count; i-- > 0;)
        outers[--first[walk->nestings[i].inner]] = walk->nestings[i].outer;
    for (uint32_t i = 0; i < count; i++)
        if (waiting[i] == 0 && !walk->is_real[i])
            todo[todo_count++] = i;
    while (todo_count > 0) {
        uint32_t lock = todo[--todo_count];
        *out_found = *out_found || !harmless[lock];
        harmless[lock] = true;
        size_t end = lock + 1 < count ? first[lock + 1] : walk->nesting_count;
        for (size_t i = first[lock]; i < end; i++)
            if (--waiting[outers[i]] == 0 && !walk->is_real[outers[i]])
                todo[todo_count++] = outers[i];
    }
    return true;
}

enum orr_status orr__hang_free_locks(struct orr__hang_model *model, bool *out_found) {
    const struct orr_memory *memory = model->program->memory;
    *out_found = false;
    if (model->lock_count == 0)
        return ORR_OK;
    struct orr__arena arena = {.memory = memory};
    struct lock_walk walk = {.model = model,
                             .is_real = orr__arena_alloc(&arena, model->lock_count, sizeof(bool))};
    enum orr_status status = walk.is_real ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t i = 0; status == ORR_OK && i < model->host_count; i++)
        status = walk_host(&walk, &model->hosts[i]);
    for (uint32_t i = 0; status == ORR_OK && i < model->program->op_count; i++)
        if (model->program->ops[i].kind == ORR_OP_HOSTFN)
            status = walk_body(&walk, &model->program->ops[i]);
    if (status == ORR_OK && !settle(&walk, &arena, model->lock_is_harmless, out_found))
        status = ORR_NO_MEMORY;
    orr_memory_free(memory, walk.nestings);
    orr__arena_clear(&arena);
    return status;
}
