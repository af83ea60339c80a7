#include "hazards/hang_run_internal.h"

#include <assert.h>
#include <string.h>

struct orr__hang_change {
    size_t at;
    uint32_t before;
};

/* --- words, lists, waiting --- */

void orr__hang_set(struct orr__hang_run *run, size_t at, uint32_t value) {
    if (run->is_logging) {
        if (orr_memory_grow(run->model->program->memory, &run->log, &run->log_capacity,
                            run->log_count + 1, sizeof *run->log,
                            SIZE_MAX / sizeof *run->log) != ORR_OK) {
            run->failed = true;
            return;
        }
        run->log[run->log_count++] = (struct orr__hang_change){.at = at, .before = run->words[at]};
    }
    run->words[at] = value;
}

void orr__hang_list_put(struct orr__hang_run *run, uint32_t value) {
    uint32_t top = orr__hang_get(run, run->list_top);
    if (orr_memory_grow(run->model->program->memory, &run->lists, &run->list_capacity,
                        (size_t)top + 1, sizeof *run->lists, ORR_NONE - 1) != ORR_OK) {
        run->failed = true;
        return;
    }
    run->lists[top] = value;
    orr__hang_set(run, run->list_top, top + 1);
}

/* Begins a list at the end; its count is set by list_close. */
uint32_t orr__hang_list_open(struct orr__hang_run *run) {
    uint32_t list = orr__hang_get(run, run->list_top);
    orr__hang_list_put(run, 0);
    return list;
}

void orr__hang_list_close(struct orr__hang_run *run, uint32_t list) {
    if (!run->failed)
        run->lists[list] = orr__hang_get(run, run->list_top) - list - 1;
}

uint32_t orr__hang_wait_key(const struct orr__hang_model *model, enum orr__hang_wait what,
                            uint32_t object) {
    switch (what) {
    case ORR__HANG_FINISH: return object;
    case ORR__HANG_FREE: return model->stream_count + object;
    case ORR__HANG_FLAG: return model->stream_count + model->lock_count + object;
    case ORR__HANG_SLOT:
        return model->stream_count + model->lock_count + model->flag_count + object;
    default:
        assert(what == ORR__HANG_INSTANCE);
        return model->stream_count + model->lock_count + model->flag_count + model->device_count +
               object;
    }
}

void orr__hang_wake(struct orr__hang_run *run, uint32_t process) {
    if (run->is_todo[process])
        return;
    run->is_todo[process] = true;
    run->todo[run->todo_count++] = process;
}

void orr__hang_wake_all(struct orr__hang_run *run, enum orr__hang_wait what, uint32_t object) {
    uint32_t key = orr__hang_wait_key(run->model, what, object);
    uint32_t process = run->waiting_first[key];
    run->waiting_first[key] = ORR_NONE;
    while (process != ORR_NONE) {
        uint32_t next = run->waiting_next[process];
        run->waiting_key[process] = ORR_NONE;
        orr__hang_wake(run, process);
        process = next;
    }
}

void orr__hang_await(struct orr__hang_run *run, uint32_t process) {
    if (run->waiting_key[process] == run->key)
        return;
    assert(run->waiting_key[process] == ORR_NONE);
    run->waiting_key[process] = run->key;
    run->waiting_next[process] = run->waiting_first[run->key];
    run->waiting_first[run->key] = process;
}

/* Waits no longer. */
void orr__hang_leave(struct orr__hang_run *run, uint32_t process) {
    if (run->waiting_key[process] == ORR_NONE)
        return;
    uint32_t *at = &run->waiting_first[run->waiting_key[process]];
    while (*at != process)
        at = &run->waiting_next[*at];
    *at = run->waiting_next[process];
    run->waiting_key[process] = ORR_NONE;
}

static void everybody_looks(struct orr__hang_run *run) {
    uint32_t count = run->model->host_count + run->model->stream_count;
    run->todo_count = 0;
    for (uint32_t p = count; p-- > 0;) {
        if (run->waiting_key[p] != ORR_NONE)
            run->waiting_first[run->waiting_key[p]] = ORR_NONE;
        run->waiting_key[p] = ORR_NONE;
        run->is_todo[p] = false;
        orr__hang_wake(run, p);
    }
}

void orr__hang_undo(struct orr__hang_run *run, size_t log_count, size_t step_count) {
    while (run->log_count > log_count) {
        struct orr__hang_change change = run->log[--run->log_count];
        run->words[change.at] = change.before;
    }
    run->step_count = step_count;
    everybody_looks(run);
}

/* --- questions --- */

const struct orr__hang_call *orr__hang_next_call(const struct orr__hang_run *run, uint32_t host) {
    const struct orr__hang_host *info = &run->model->hosts[host];
    uint32_t pc = orr__hang_get(run, run->pc + host);
    return pc < info->call_count ? &run->model->calls[info->call_first + pc] : NULL;
}

const struct orr_stream_step *orr__hang_next_body(const struct orr__hang_run *run,
                                                  uint32_t stream) {
    const struct orr_stream_program *program = run->model->program;
    const struct orr_stream_op *op =
        &program->ops[run->model->entries[orr__hang_get(run, run->head + stream)].op];
    uint32_t done = orr__hang_get(run, run->progress + stream);
    return done < op->step_count ? &program->steps[op->step_first + done] : NULL;
}

bool orr__hang_has_started(const struct orr__hang_run *run, uint32_t entry) {
    uint32_t status = orr__hang_get(run, run->status + entry);
    uint32_t stream = run->model->entries[entry].stream;
    return status == ORR__HANG_FINISHED ||
           (status == ORR__HANG_QUEUED && orr__hang_get(run, run->head + stream) == entry &&
            orr__hang_get(run, run->progress + stream) > 0);
}

uint32_t orr__hang_first_unfinished(const struct orr__hang_run *run, uint32_t list) {
    if (list == ORR_NONE)
        return ORR_NONE;
    for (uint32_t i = 1; i <= run->lists[list]; i++)
        if (orr__hang_get(run, run->status + run->lists[list + i]) != ORR__HANG_FINISHED)
            return run->lists[list + i];
    return ORR_NONE;
}

bool orr__hang_is_matched(const struct orr__hang_run *run, uint32_t member) {
    const struct orr__hang_counter *counter =
        &run->model->counters[run->model->members[member].counter];
    uint32_t started =
        orr__hang_get(run, run->started + orr__hang_get(run, run->instance + member));
    return counter->kind == ORR_OP_COLL ? started == run->model->comms[counter->comm].rank_count
                                        : started == 3;
}

/* --- can it go on? --- */

static enum orr__hang_look wait_for(struct orr__hang_run *run, enum orr__hang_wait what,
                                    uint32_t object) {
    run->key = orr__hang_wait_key(run->model, what, object);
    return ORR__HANG_WAITING;
}

static enum orr__hang_look look_cover(struct orr__hang_run *run, uint32_t stream) {
    const struct orr__hang_stream *info = &run->model->streams[stream];
    for (uint32_t i = 0; i < info->cover_count; i++) {
        uint32_t covered = run->model->covers[info->cover_first + i];
        if (orr__hang_get(run, run->count + covered) > 0)
            return wait_for(run, ORR__HANG_FINISH, covered);
    }
    return ORR__HANG_READY;
}

static enum orr__hang_look look_devices(struct orr__hang_run *run, const struct orr_stream_op *op) {
    const struct orr__hang_model *model = run->model;
    uint32_t number;
    for (uint32_t i = 0; orr__hang_sync_device(model, op, i, &number); i++) {
        if (number == ORR_NONE)
            continue;
        const struct orr__hang_device *device = &model->devices[number];
        for (uint32_t k = 0; k < device->stream_count; k++) {
            uint32_t stream = model->device_streams[device->stream_first + k];
            if (orr__hang_get(run, run->count + stream) > 0)
                return wait_for(run, ORR__HANG_FINISH, stream);
        }
    }
    return ORR__HANG_READY;
}

static enum orr__hang_look look_list(struct orr__hang_run *run, uint32_t list) {
    uint32_t entry = orr__hang_first_unfinished(run, list);
    return entry == ORR_NONE ? ORR__HANG_READY
                             : wait_for(run, ORR__HANG_FINISH, run->model->entries[entry].stream);
}

static enum orr__hang_look look_lock(struct orr__hang_run *run, uint32_t lock) {
    return orr__hang_get(run, run->lock + lock) == 0 ? ORR__HANG_READY
                                                     : wait_for(run, ORR__HANG_FREE, lock);
}

static enum orr__hang_look look_room(struct orr__hang_run *run, const struct orr__hang_call *call) {
    uint64_t depth = run->model->program->queue_depth;
    for (uint32_t i = 0; i < call->entry_count; i++) {
        uint32_t stream = run->model->entries[call->entry_first + i].stream;
        if (orr__hang_get(run, run->count + stream) >= depth)
            return wait_for(run, ORR__HANG_FINISH, stream);
    }
    return ORR__HANG_READY;
}

static enum orr__hang_look look_host(struct orr__hang_run *run, uint32_t host) {
    const struct orr__hang_call *call = orr__hang_next_call(run, host);
    if (!call)
        return ORR__HANG_OVER;
    const struct orr_stream_op *op = &run->model->program->ops[call->op];
    switch (op->kind) {
    case ORR_OP_WAIT:
        return op->ignored || orr__hang_get(run, run->event + op->object) == ORR_NONE
                   ? ORR__HANG_READY
                   : look_room(run, call);
    case ORR_OP_SYNC_STREAM: return look_cover(run, op->stream);
    case ORR_OP_SYNC_EVENT: return look_list(run, orr__hang_get(run, run->event + op->object));
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC: return look_devices(run, op);
    case ORR_OP_LOCK: return look_lock(run, op->object);
    case ORR_OP_AWAIT:
        return orr__hang_get(run, run->flag + op->object)
                   ? ORR__HANG_READY
                   : wait_for(run, ORR__HANG_FLAG, op->object);
    default: return look_room(run, call);
    }
}

static enum orr__hang_look look_comm(struct orr__hang_run *run, uint32_t stream,
                                     const struct orr__hang_entry *entry) {
    const struct orr__hang_model *model = run->model;
    if (orr__hang_get(run, run->progress + stream) == 0) {
        uint32_t device = model->streams[stream].device;
        return orr__hang_get(run, run->used + device) < model->program->slots
                   ? ORR__HANG_READY
                   : wait_for(run, ORR__HANG_SLOT, device);
    }
    for (uint32_t i = 0; i < entry->member_count; i++) {
        uint32_t member = model->entry_members[entry->member_first + i];
        if (!orr__hang_is_matched(run, member))
            return wait_for(run, ORR__HANG_INSTANCE, orr__hang_get(run, run->instance + member));
    }
    return ORR__HANG_READY;
}

static enum orr__hang_look look_stream(struct orr__hang_run *run, uint32_t stream) {
    uint32_t head = orr__hang_get(run, run->head + stream);
    if (head == ORR_NONE)
        return ORR__HANG_OVER;
    const struct orr__hang_entry *entry = &run->model->entries[head];
    if (orr__hang_get(run, run->progress + stream) == 0) {
        enum orr__hang_look look = look_list(run, orr__hang_get(run, run->waits + head));
        if (look != ORR__HANG_READY)
            return look;
    }
    if (entry->kind == ORR__HANG_COMM)
        return look_comm(run, stream, entry);
    if (entry->kind != ORR__HANG_BODY)
        return ORR__HANG_READY;
    const struct orr_stream_step *step = orr__hang_next_body(run, stream);
    if (!step || step->kind == ORR_OP_UNLOCK)
        return ORR__HANG_READY;
    if (step->kind == ORR_OP_SYNC_STREAM)
        return look_cover(run, step->object);
    return run->model->lock_is_harmless[step->object] ? ORR__HANG_READY
                                                      : look_lock(run, step->object);
}

enum orr__hang_look orr__hang_look(struct orr__hang_run *run, uint32_t process) {
    uint32_t hosts = run->model->host_count;
    return process < hosts ? look_host(run, process) : look_stream(run, process - hosts);
}

/* --- life --- */

static size_t place(size_t *top, size_t count) {
    size_t first = *top;
    *top += count;
    return first;
}

static void place_words(struct orr__hang_run *run) {
    const struct orr__hang_model *model = run->model;
    size_t top = 0, streams = model->stream_count;
    run->pc = place(&top, model->host_count);
    run->head = place(&top, streams);
    run->tail = place(&top, streams);
    run->count = place(&top, streams);
    run->progress = place(&top, streams);
    run->comm_left = place(&top, streams);
    run->body_left = place(&top, streams);
    run->seen = place(&top, model->rule_count);
    run->status = place(&top, model->entry_count);
    run->next = place(&top, model->entry_count);
    run->waits = place(&top, model->entry_count);
    run->event = place(&top, model->event_count);
    run->lock = place(&top, model->lock_count);
    run->flag = place(&top, model->flag_count);
    run->taken = place(&top, model->counter_count);
    run->instance = place(&top, model->member_count);
    run->started = place(&top, model->instance_count);
    run->first = place(&top, model->instance_count);
    run->used = place(&top, model->device_count);
    run->active = place(&top, model->device_count);
    run->list_top = place(&top, 1);
    run->word_count = top;
}

static void nothing_yet(struct orr__hang_run *run, size_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        run->words[first + i] = ORR_NONE;
}

static void begin(struct orr__hang_run *run) {
    const struct orr__hang_model *model = run->model;
    nothing_yet(run, run->head, model->stream_count);
    nothing_yet(run, run->tail, model->stream_count);
    nothing_yet(run, run->seen, model->rule_count);
    nothing_yet(run, run->next, model->entry_count);
    nothing_yet(run, run->waits, model->entry_count);
    nothing_yet(run, run->event, model->event_count);
    nothing_yet(run, run->instance, model->member_count);
    nothing_yet(run, run->first, model->instance_count);
    for (uint32_t s = 0; s < model->stream_count; s++) {
        run->words[run->comm_left + s] = model->streams[s].comm_count;
        run->words[run->body_left + s] = model->streams[s].body_count;
        run->words[run->active + model->streams[s].device] += model->streams[s].comm_count > 0;
    }
}

enum orr_status orr__hang_run_create(const struct orr__hang_model *model,
                                     struct orr__hang_run *out_run) {
    struct orr__hang_run *run = out_run;
    const struct orr_memory *memory = model->program->memory;
    *run = (struct orr__hang_run){.model = model, .mismatch_a = ORR_NONE, .mismatch_b = ORR_NONE};
    place_words(run);
    size_t processes = (size_t)model->host_count + model->stream_count;
    size_t keys = orr__hang_wait_key(model, ORR__HANG_INSTANCE, model->instance_count);
    run->words = orr_memory_alloc(memory, run->word_count * sizeof *run->words);
    run->waiting_first = orr_memory_alloc(memory, keys * sizeof *run->waiting_first);
    run->waiting_next = orr_memory_alloc(memory, processes * sizeof *run->waiting_next);
    run->waiting_key = orr_memory_alloc(memory, processes * sizeof *run->waiting_key);
    run->todo = orr_memory_alloc(memory, processes * sizeof *run->todo);
    run->is_todo = orr_memory_alloc(memory, processes * sizeof *run->is_todo);
    if (!run->words || !run->waiting_first || !run->waiting_next || !run->waiting_key ||
        !run->todo || !run->is_todo)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < keys; i++)
        run->waiting_first[i] = ORR_NONE;
    for (size_t i = 0; i < processes; i++)
        run->waiting_key[i] = ORR_NONE;
    begin(run);
    everybody_looks(run);
    return ORR_OK;
}

void orr__hang_run_destroy(struct orr__hang_run *run) {
    if (!run->model)
        return;
    const struct orr_memory *memory = run->model->program->memory;
    orr_memory_free(memory, run->words);
    orr_memory_free(memory, run->lists);
    orr_memory_free(memory, run->log);
    orr_memory_free(memory, run->steps);
    orr_memory_free(memory, run->waiting_first);
    orr_memory_free(memory, run->waiting_next);
    orr_memory_free(memory, run->waiting_key);
    orr_memory_free(memory, run->todo);
    orr_memory_free(memory, run->is_todo);
    *run = (struct orr__hang_run){0};
}
