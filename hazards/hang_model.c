#include "hazards/hang_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/hang_build.h"
#include "hazards/hang_reduce.h"

/* --- devices and streams --- */

static int by_value(const void *a, const void *b) {
    uint32_t x = ((const struct orr__hang_device *)a)->value;
    uint32_t y = ((const struct orr__hang_device *)b)->value;
    return (x > y) - (x < y);
}

uint32_t orr__hang_device(const struct orr__hang_model *model, uint32_t value) {
    uint32_t low = 0, high = model->device_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (model->devices[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < model->device_count && model->devices[low].value == value ? low : ORR_NONE;
}

bool orr__hang_sync_device(const struct orr__hang_model *model, const struct orr_stream_op *op,
                           uint32_t index, uint32_t *out_device) {
    *out_device = ORR_NONE;
    if (index >= (op->device_count > 0 ? op->device_count : 1))
        return false;
    uint32_t value =
        op->device_count > 0 ? model->program->devices[op->device_first + index] : op->device;
    *out_device = orr__hang_device(model, value);
    return true;
}

bool orr__hang_body_waits(const struct orr__hang_model *model, const struct orr_stream_op *op) {
    for (uint32_t i = 0; i < op->step_count; i++) {
        struct orr_stream_step step = model->program->steps[op->step_first + i];
        if (step.kind == ORR_OP_SYNC_STREAM || !model->lock_is_harmless[step.object])
            return true;
    }
    return false;
}

static void list_devices(struct orr__hang_model *model) {
    const struct orr_stream_program *program = model->program;
    for (uint32_t i = 0; i < model->stream_count; i++)
        model->devices[i].value = program->streams[i].device;
    qsort(model->devices, model->stream_count, sizeof *model->devices, by_value);
    for (uint32_t i = 0; i < model->stream_count; i++)
        if (i == 0 || model->devices[model->device_count - 1].value != model->devices[i].value)
            model->devices[model->device_count++] = model->devices[i];
    for (uint32_t i = 0; i < model->stream_count; i++) {
        model->streams[i].device = orr__hang_device(model, program->streams[i].device);
        model->devices[model->streams[i].device].stream_count++;
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < model->device_count; i++) {
        model->devices[i].stream_first = first;
        first += model->devices[i].stream_count;
        model->devices[i].stream_count = 0;
    }
    for (uint32_t i = 0; i < model->stream_count; i++) {
        struct orr__hang_device *device = &model->devices[model->streams[i].device];
        model->device_streams[device->stream_first + device->stream_count++] = i;
    }
}

static bool is_blocking(const struct orr_stream_program *program, uint32_t stream) {
    return program->streams[stream].sync == ORR_STREAM_BL ||
           program->streams[stream].sync == ORR_STREAM_PTDS;
}

/* What a sync of a stream waits for, and what its entries wait for. A device has one legacy stream
 * at most, so that both tables have at most two items for each stream. */
static void relate_streams(struct orr__hang_model *model) {
    const struct orr_stream_program *program = model->program;
    uint32_t covers = 0;
    for (uint32_t i = 0; i < model->stream_count; i++) {
        struct orr__hang_stream *stream = &model->streams[i];
        const struct orr__hang_device *device = &model->devices[stream->device];
        stream->cover_first = covers;
        stream->rule_first = model->rule_count;
        model->covers[covers++] = i;
        bool is_legacy = program->streams[i].sync == ORR_STREAM_LEGACY;
        for (uint32_t k = 0; (is_legacy || is_blocking(program, i)) && k < device->stream_count;
             k++) {
            uint32_t other = model->device_streams[device->stream_first + k];
            if (is_legacy && is_blocking(program, other)) {
                model->covers[covers++] = other;
                model->rules[model->rule_count++] = other;
            } else if (!is_legacy && program->streams[other].sync == ORR_STREAM_LEGACY) {
                model->rules[model->rule_count++] = other;
            }
        }
        stream->cover_count = covers - stream->cover_first;
        stream->rule_count = model->rule_count - stream->rule_first;
    }
}

static enum orr_status make_streams(struct orr__hang_model *model) {
    struct orr__arena *arena = &model->arena;
    uint32_t count = model->stream_count;
    model->streams = orr__arena_alloc(arena, count, sizeof *model->streams);
    model->devices = orr__arena_alloc(arena, count, sizeof *model->devices);
    model->device_streams = orr__arena_alloc(arena, count, sizeof *model->device_streams);
    model->covers = orr__arena_alloc(arena, 2 * (size_t)count, sizeof *model->covers);
    model->rules = orr__arena_alloc(arena, 2 * (size_t)count, sizeof *model->rules);
    if (!model->streams || !model->devices || !model->device_streams || !model->covers ||
        !model->rules)
        return ORR_NO_MEMORY;
    list_devices(model);
    relate_streams(model);
    return ORR_OK;
}

/* --- things --- */

uint32_t orr__hang_key(const struct orr__hang_model *model, enum orr__hang_thing thing,
                       uint32_t object) {
    uint32_t streams = model->stream_count, events = model->event_count;
    switch (thing) {
    case ORR__HANG_ADD: return object;
    case ORR__HANG_SEE: return streams + object;
    case ORR__HANG_RECORD: return 2 * streams + object;
    case ORR__HANG_USE: return 2 * streams + events + object;
    case ORR__HANG_LOCK: return 2 * streams + 2 * events + object;
    case ORR__HANG_NUMBER: return 2 * streams + 2 * events + model->lock_count + object;
    default:
        assert(thing == ORR__HANG_NOTIFY);
        return 2 * streams + 2 * events + model->lock_count + model->counter_count + object;
    }
}

static bool see_cover(const struct orr__hang_model *model, uint32_t stream, orr__hang_visit *visit,
                      void *context) {
    const struct orr__hang_stream *info = &model->streams[stream];
    for (uint32_t i = 0; i < info->cover_count; i++)
        if (!visit(context, ORR__HANG_SEE, model->covers[info->cover_first + i]))
            return false;
    return true;
}

static bool see_devices(const struct orr__hang_model *model, const struct orr_stream_op *op,
                        orr__hang_visit *visit, void *context) {
    uint32_t number;
    for (uint32_t i = 0; orr__hang_sync_device(model, op, i, &number); i++) {
        if (number == ORR_NONE)
            continue;
        const struct orr__hang_device *device = &model->devices[number];
        for (uint32_t k = 0; k < device->stream_count; k++)
            if (!visit(context, ORR__HANG_SEE, model->device_streams[device->stream_first + k]))
                return false;
    }
    return true;
}

static bool add_entry(const struct orr__hang_model *model, uint32_t stream, orr__hang_visit *visit,
                      void *context) {
    const struct orr__hang_stream *info = &model->streams[stream];
    if (!visit(context, ORR__HANG_ADD, stream))
        return false;
    for (uint32_t i = 0; i < info->rule_count; i++)
        if (!visit(context, ORR__HANG_SEE, model->rules[info->rule_first + i]))
            return false;
    return true;
}

bool orr__hang_call_things(const struct orr__hang_model *model, const struct orr__hang_call *call,
                           orr__hang_visit *visit, void *context) {
    const struct orr_stream_op *op = &model->program->ops[call->op];
    for (uint32_t i = 0; i < call->entry_count; i++)
        if (!add_entry(model, model->entries[call->entry_first + i].stream, visit, context))
            return false;
    if (call->member != ORR_NONE &&
        !visit(context, ORR__HANG_NUMBER, model->members[call->member].counter))
        return false;
    switch (op->kind) {
    case ORR_OP_RECORD:
        return visit(context, ORR__HANG_RECORD, op->object) &&
               see_cover(model, op->stream, visit, context);
    case ORR_OP_WAIT:
    case ORR_OP_SYNC_EVENT: return visit(context, ORR__HANG_USE, op->object);
    case ORR_OP_SYNC_STREAM: return see_cover(model, op->stream, visit, context);
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC: return see_devices(model, op, visit, context);
    case ORR_OP_LOCK: return visit(context, ORR__HANG_LOCK, op->object);
    case ORR_OP_NOTIFY: return visit(context, ORR__HANG_NOTIFY, op->object);
    default: return true;
    }
}

bool orr__hang_body_things(const struct orr__hang_model *model, const struct orr_stream_step *step,
                           orr__hang_visit *visit, void *context) {
    if (step->kind == ORR_OP_SYNC_STREAM)
        return see_cover(model, step->object, visit, context);
    if (step->kind == ORR_OP_LOCK && !model->lock_is_harmless[step->object])
        return visit(context, ORR__HANG_LOCK, step->object);
    return true;
}

/* --- users --- */

struct registering {
    struct orr__hang_model *model;
    uint32_t process, position;
    enum orr_status status;
};

/* Users are registered host by host, then stream by stream: the newest of a list is its first. */
static bool register_user(void *context, enum orr__hang_thing thing, uint32_t object) {
    struct registering *in = context;
    struct orr__hang_model *model = in->model;
    uint32_t *first = &model->first_users[orr__hang_key(model, thing, object)];
    if (*first != ORR_NONE && model->users[*first].process == in->process) {
        model->users[*first].last = in->position;
        return true;
    }
    in->status = orr_memory_grow(model->program->memory, &model->users, &model->user_capacity,
                                 (size_t)model->user_count + 1, sizeof *model->users, ORR_NONE - 1);
    if (in->status != ORR_OK)
        return false;
    model->users[model->user_count] =
        (struct orr__hang_user){.process = in->process, .last = in->position, .next = *first};
    *first = model->user_count++;
    return true;
}

static enum orr_status make_users(struct orr__hang_model *model) {
    uint32_t keys = orr__hang_key(model, ORR__HANG_NOTIFY, model->flag_count);
    model->first_users = orr__arena_alloc(&model->arena, keys, sizeof *model->first_users);
    if (!model->first_users)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < keys; i++)
        model->first_users[i] = ORR_NONE;
    struct registering in = {.model = model, .status = ORR_OK};
    for (uint32_t h = 0; h < model->host_count; h++) {
        in.process = h;
        for (uint32_t i = 0; i < model->hosts[h].call_count; i++) {
            in.position = i;
            const struct orr__hang_call *call = &model->calls[model->hosts[h].call_first + i];
            if (!orr__hang_call_things(model, call, register_user, &in))
                return in.status;
        }
    }
    for (uint32_t e = 0; e < model->entry_count; e++) {
        if (model->entries[e].kind != ORR__HANG_BODY)
            continue;
        in.process = model->host_count + model->entries[e].stream;
        const struct orr_stream_op *op = &model->program->ops[model->entries[e].op];
        for (uint32_t i = 0; i < op->step_count; i++)
            if (!orr__hang_body_things(model, &model->program->steps[op->step_first + i],
                                       register_user, &in))
                return in.status;
    }
    return ORR_OK;
}

/* --- what is alone, and what is fixed --- */

static bool only_user(const struct orr__hang_model *model, enum orr__hang_thing thing,
                      uint32_t object, uint32_t process) {
    uint32_t user = model->first_users[orr__hang_key(model, thing, object)];
    for (; user != ORR_NONE; user = model->users[user].next)
        if (model->users[user].process != process)
            return false;
    return true;
}

static bool is_undisturbed(void *context, enum orr__hang_thing thing, uint32_t object) {
    const struct registering *in = context;
    const struct orr__hang_model *model = in->model;
    switch (thing) {
    case ORR__HANG_ADD:
        return only_user(model, ORR__HANG_ADD, object, in->process) &&
               only_user(model, ORR__HANG_SEE, object, in->process);
    case ORR__HANG_SEE: return only_user(model, ORR__HANG_ADD, object, in->process);
    case ORR__HANG_RECORD:
        return only_user(model, ORR__HANG_RECORD, object, in->process) &&
               only_user(model, ORR__HANG_USE, object, in->process);
    case ORR__HANG_USE: return only_user(model, ORR__HANG_RECORD, object, in->process);
    case ORR__HANG_NOTIFY: return true;
    default: return only_user(model, thing, object, in->process);
    }
}

static bool fix_stream(const struct orr__hang_model *model, uint32_t stream) {
    uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_ADD, stream)];
    if (user == ORR_NONE)
        return true;
    uint32_t host = model->users[user].process;
    const struct orr__hang_stream *info = &model->streams[stream];
    bool is_fixed = only_user(model, ORR__HANG_ADD, stream, host);
    for (uint32_t i = 0; is_fixed && i < info->rule_count; i++)
        is_fixed = only_user(model, ORR__HANG_ADD, model->rules[info->rule_first + i], host);
    return is_fixed;
}

/* Recorded and used by one host only, in streams that only it adds to. */
static void fix_events(struct orr__hang_model *model) {
    for (uint32_t e = 0; e < model->event_count; e++) {
        uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_RECORD, e)];
        uint32_t host = user == ORR_NONE ? ORR_NONE : model->users[user].process;
        model->event_is_fixed[e] =
            user == ORR_NONE || (only_user(model, ORR__HANG_RECORD, e, host) &&
                                 only_user(model, ORR__HANG_USE, e, host));
    }
    for (uint32_t i = 0; i < model->call_count; i++) {
        const struct orr_stream_op *op = &model->program->ops[model->calls[i].op];
        if (op->kind != ORR_OP_RECORD)
            continue;
        const struct orr__hang_stream *info = &model->streams[op->stream];
        for (uint32_t k = 0; k < info->cover_count; k++)
            if (!only_user(model, ORR__HANG_ADD, model->covers[info->cover_first + k], op->host))
                model->event_is_fixed[op->object] = false;
    }
}

static void find_fixed(struct orr__hang_model *model) {
    fix_events(model);
    for (uint32_t s = 0; s < model->stream_count; s++)
        model->streams[s].is_fixed = fix_stream(model, s);
    for (uint32_t e = 0; e < model->entry_count; e++) {
        const struct orr__hang_entry *entry = &model->entries[e];
        if (entry->kind == ORR__HANG_WAIT &&
            !model->event_is_fixed[model->program->ops[entry->op].object])
            model->streams[entry->stream].is_fixed = false;
    }
    for (uint32_t m = 0; m < model->member_count; m++) /* who gets which number is not fixed */
        if (model->counters[model->members[m].counter].is_shared &&
            model->members[m].entry != ORR_NONE)
            model->streams[model->entries[model->members[m].entry].stream].is_fixed = false;
    struct registering in = {.model = model};
    for (uint32_t h = 0; h < model->host_count; h++) {
        in.process = h;
        for (uint32_t i = 0; i < model->hosts[h].call_count; i++) {
            struct orr__hang_call *call = &model->calls[model->hosts[h].call_first + i];
            call->is_alone = orr__hang_call_things(model, call, is_undisturbed, &in);
        }
    }
}

/* --- the model --- */

static enum orr_status build(struct orr__hang_model *model) {
    const struct orr_stream_program *program = model->program;
    bool *keep = orr__arena_alloc(&model->arena, program->op_count, sizeof *keep);
    model->event_is_fixed =
        orr__arena_alloc(&model->arena, model->event_count, sizeof *model->event_is_fixed);
    if (!keep || !model->event_is_fixed)
        return ORR_NO_MEMORY;
    enum orr_status status = make_streams(model);
    memset(keep, true, program->op_count);
    if (status == ORR_OK && !model->is_exact)
        status = orr__hang_reduce(model, keep);
    if (status == ORR_OK)
        status = orr__hang_build(model, keep);
    if (status == ORR_OK)
        status = make_users(model);
    if (status == ORR_OK)
        find_fixed(model);
    return status;
}

static void drop_tables(struct orr__hang_model *model) {
    orr__arena_clear(&model->arena);
    orr_memory_free(model->program->memory, model->users);
}

/* What is left of a model before it is built again with more harmless locks. */
static void prepare(struct orr__hang_model *model) {
    const struct orr_stream_program *program = model->program;
    bool *locks = model->lock_is_harmless, is_exact = model->is_exact;
    drop_tables(model);
    *model = (struct orr__hang_model){
        .is_exact = is_exact,
        .program = program,
        .arena = {.memory = program->memory},
        .lock_is_harmless = locks,
        .host_count = program->names[ORR_NAME_HOST].count,
        .stream_count = program->names[ORR_NAME_STREAM].count,
        .event_count = program->names[ORR_NAME_EVENT].count,
        .lock_count = program->names[ORR_NAME_LOCK].count,
        .flag_count = program->names[ORR_NAME_FLAG].count,
        .comm_count = program->names[ORR_NAME_COMM].count,
        .has_room = program->queue_depth == ORR_NO_LIMIT,
    };
}

enum { ROUNDS_MAX = 16 }; /* harmless locks found later than this are taken for real */

enum orr_status orr__hang_model_create(const struct orr_stream_program *program, bool is_exact,
                                       struct orr__hang_model *out_model) {
    *out_model = (struct orr__hang_model){.program = program, .is_exact = is_exact};
    size_t locks = program->names[ORR_NAME_LOCK].count;
    out_model->lock_is_harmless = orr_memory_alloc(program->memory, locks * sizeof(bool));
    if (!out_model->lock_is_harmless)
        return ORR_NO_MEMORY;
    enum orr_status status = ORR_OK;
    bool again = true;
    for (int round = 0; status == ORR_OK && again && round < ROUNDS_MAX; round++) {
        prepare(out_model);
        status = build(out_model);
        again = false;
        if (status == ORR_OK && !is_exact)
            status = orr__hang_free_locks(out_model, &again);
    }
    if (status == ORR_OK && again) {
        prepare(out_model);
        status = build(out_model);
    }
    return status;
}

void orr__hang_model_clear(struct orr__hang_model *model) {
    if (!model->program)
        return;
    drop_tables(model);
    orr_memory_free(model->program->memory, model->lock_is_harmless);
    *model = (struct orr__hang_model){0};
}
