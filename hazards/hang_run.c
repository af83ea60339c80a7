#include "hazards/hang_run.h"

#include <assert.h>
#include <string.h>

struct orr__hang_change {
    size_t at;
    uint32_t before;
};

/* --- words, lists, waiting --- */

static uint32_t get(const struct orr__hang_run *run, size_t at) {
    return run->words[at];
}

static void set(struct orr__hang_run *run, size_t at, uint32_t value) {
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

static void add(struct orr__hang_run *run, size_t at, uint32_t value) {
    set(run, at, get(run, at) + value);
}

static void list_put(struct orr__hang_run *run, uint32_t value) {
    uint32_t top = get(run, run->list_top);
    if (orr_memory_grow(run->model->program->memory, &run->lists, &run->list_capacity,
                        (size_t)top + 1, sizeof *run->lists, ORR_NONE - 1) != ORR_OK) {
        run->failed = true;
        return;
    }
    run->lists[top] = value;
    set(run, run->list_top, top + 1);
}

/* Begins a list at the end; its count is set by list_close. */
static uint32_t list_open(struct orr__hang_run *run) {
    uint32_t list = get(run, run->list_top);
    list_put(run, 0);
    return list;
}

static void list_close(struct orr__hang_run *run, uint32_t list) {
    if (!run->failed)
        run->lists[list] = get(run, run->list_top) - list - 1;
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

static void wake_all(struct orr__hang_run *run, enum orr__hang_wait what, uint32_t object) {
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
static void leave(struct orr__hang_run *run, uint32_t process) {
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
    uint32_t pc = get(run, run->pc + host);
    return pc < info->call_count ? &run->model->calls[info->call_first + pc] : NULL;
}

const struct orr_stream_step *orr__hang_next_body(const struct orr__hang_run *run,
                                                  uint32_t stream) {
    const struct orr_stream_program *program = run->model->program;
    const struct orr_stream_op *op =
        &program->ops[run->model->entries[get(run, run->head + stream)].op];
    uint32_t done = get(run, run->progress + stream);
    return done < op->step_count ? &program->steps[op->step_first + done] : NULL;
}

bool orr__hang_has_started(const struct orr__hang_run *run, uint32_t entry) {
    uint32_t status = get(run, run->status + entry);
    uint32_t stream = run->model->entries[entry].stream;
    return status == ORR__HANG_FINISHED ||
           (status == ORR__HANG_QUEUED && get(run, run->head + stream) == entry &&
            get(run, run->progress + stream) > 0);
}

uint32_t orr__hang_first_unfinished(const struct orr__hang_run *run, uint32_t list) {
    if (list == ORR_NONE)
        return ORR_NONE;
    for (uint32_t i = 1; i <= run->lists[list]; i++)
        if (get(run, run->status + run->lists[list + i]) != ORR__HANG_FINISHED)
            return run->lists[list + i];
    return ORR_NONE;
}

bool orr__hang_is_matched(const struct orr__hang_run *run, uint32_t member) {
    const struct orr__hang_counter *counter =
        &run->model->counters[run->model->members[member].counter];
    uint32_t started = get(run, run->started + get(run, run->instance + member));
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
        if (get(run, run->count + covered) > 0)
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
            if (get(run, run->count + stream) > 0)
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
    return get(run, run->lock + lock) == 0 ? ORR__HANG_READY : wait_for(run, ORR__HANG_FREE, lock);
}

static enum orr__hang_look look_room(struct orr__hang_run *run, const struct orr__hang_call *call) {
    uint64_t depth = run->model->program->queue_depth;
    for (uint32_t i = 0; i < call->entry_count; i++) {
        uint32_t stream = run->model->entries[call->entry_first + i].stream;
        if (get(run, run->count + stream) >= depth)
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
        return op->ignored || get(run, run->event + op->object) == ORR_NONE ? ORR__HANG_READY
                                                                            : look_room(run, call);
    case ORR_OP_SYNC_STREAM: return look_cover(run, op->stream);
    case ORR_OP_SYNC_EVENT: return look_list(run, get(run, run->event + op->object));
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC: return look_devices(run, op);
    case ORR_OP_LOCK: return look_lock(run, op->object);
    case ORR_OP_AWAIT:
        return get(run, run->flag + op->object) ? ORR__HANG_READY
                                                : wait_for(run, ORR__HANG_FLAG, op->object);
    default: return look_room(run, call);
    }
}

static enum orr__hang_look look_comm(struct orr__hang_run *run, uint32_t stream,
                                     const struct orr__hang_entry *entry) {
    const struct orr__hang_model *model = run->model;
    if (get(run, run->progress + stream) == 0) {
        uint32_t device = model->streams[stream].device;
        return get(run, run->used + device) < model->program->slots
                   ? ORR__HANG_READY
                   : wait_for(run, ORR__HANG_SLOT, device);
    }
    for (uint32_t i = 0; i < entry->member_count; i++) {
        uint32_t member = model->entry_members[entry->member_first + i];
        if (!orr__hang_is_matched(run, member))
            return wait_for(run, ORR__HANG_INSTANCE, get(run, run->instance + member));
    }
    return ORR__HANG_READY;
}

static enum orr__hang_look look_stream(struct orr__hang_run *run, uint32_t stream) {
    uint32_t head = get(run, run->head + stream);
    if (head == ORR_NONE)
        return ORR__HANG_OVER;
    const struct orr__hang_entry *entry = &run->model->entries[head];
    if (get(run, run->progress + stream) == 0) {
        enum orr__hang_look look = look_list(run, get(run, run->waits + head));
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

/* --- steps of hosts --- */

static void put_down(struct orr__hang_run *run, enum orr_hang_step_kind kind, uint32_t who,
                     uint32_t op, uint32_t step) {
    if (orr_memory_grow(run->model->program->memory, &run->steps, &run->step_capacity,
                        run->step_count + 1, sizeof *run->steps,
                        SIZE_MAX / sizeof *run->steps) != ORR_OK) {
        run->failed = true;
        return;
    }
    run->steps[run->step_count++] =
        (struct orr_hang_step){.kind = (uint8_t)kind, .who = who, .op = op, .step = step};
}

/* What an entry waits for by the default-stream rules: the last entries of other streams. Those
 * that the stream's last entry waits for already need not be said again. */
static void rule_waits(struct orr__hang_run *run, uint32_t stream) {
    const struct orr__hang_stream *info = &run->model->streams[stream];
    bool is_empty = get(run, run->head + stream) == ORR_NONE;
    for (uint32_t i = 0; i < info->rule_count; i++) {
        uint32_t last = get(run, run->tail + run->model->rules[info->rule_first + i]);
        size_t seen = run->seen + info->rule_first + i;
        if (last == ORR_NONE || (!is_empty && get(run, seen) == last))
            continue;
        set(run, seen, last);
        list_put(run, last);
    }
}

static uint32_t waits_of(struct orr__hang_run *run, uint32_t stream, uint32_t event_list) {
    if (run->model->streams[stream].rule_count == 0)
        return event_list;
    uint32_t list = list_open(run);
    for (uint32_t i = 1; event_list != ORR_NONE && !run->failed && i <= run->lists[event_list];
         i++) {
        uint32_t entry = run->lists[event_list + i];
        if (get(run, run->status + entry) != ORR__HANG_FINISHED)
            list_put(run, entry);
    }
    rule_waits(run, stream);
    list_close(run, list);
    return list;
}

static void push(struct orr__hang_run *run, uint32_t entry, uint32_t event_list) {
    uint32_t stream = run->model->entries[entry].stream;
    set(run, run->waits + entry, waits_of(run, stream, event_list));
    set(run, run->status + entry, ORR__HANG_QUEUED);
    uint32_t tail = get(run, run->tail + stream);
    if (tail == ORR_NONE) {
        set(run, run->head + stream, entry);
        orr__hang_wake(run, run->model->host_count + stream);
    } else {
        set(run, run->next + tail, entry);
    }
    set(run, run->tail + stream, entry);
    add(run, run->count + stream, 1);
}

/* The event stands for the last entry of each stream that the record covers. */
static void record(struct orr__hang_run *run, const struct orr_stream_op *op) {
    const struct orr__hang_model *model = run->model;
    const struct orr__hang_stream *info = &model->streams[op->stream];
    uint32_t list = list_open(run);
    for (uint32_t i = 0; i < info->cover_count; i++) {
        uint32_t last = get(run, run->tail + model->covers[info->cover_first + i]);
        if (last != ORR_NONE)
            list_put(run, last);
    }
    list_close(run, list);
    set(run, run->event + op->object, list);
    /* A host that waits for what the event stood for may be free to go. */
    uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_USE, op->object)];
    for (; user != ORR_NONE; user = model->users[user].next) {
        leave(run, model->users[user].process);
        orr__hang_wake(run, model->users[user].process);
    }
}

static void take_number(struct orr__hang_run *run, uint32_t member) {
    uint32_t counter = run->model->members[member].counter;
    uint32_t number = get(run, run->taken + counter);
    set(run, run->taken + counter, number + 1);
    set(run, run->instance + member, run->model->counters[counter].instance_first + number);
}

static void step_host(struct orr__hang_run *run, uint32_t host) {
    const struct orr__hang_model *model = run->model;
    const struct orr__hang_call *call = orr__hang_next_call(run, host);
    const struct orr_stream_op *op = &model->program->ops[call->op];
    put_down(run, ORR_HANG_CALL, host, call->op, 0);
    uint32_t waits = ORR_NONE;
    bool adds = true;
    switch (op->kind) {
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: take_number(run, call->member); break;
    case ORR_OP_RECORD: record(run, op); break;
    case ORR_OP_WAIT:
        waits = get(run, run->event + op->object);
        adds = waits != ORR_NONE;
        break;
    case ORR_OP_LOCK: set(run, run->lock + op->object, 1 + host); break;
    case ORR_OP_UNLOCK:
        if (get(run, run->lock + op->object) == 1 + host) {
            set(run, run->lock + op->object, 0);
            wake_all(run, ORR__HANG_FREE, op->object);
        }
        break;
    case ORR_OP_NOTIFY:
        set(run, run->flag + op->object, 1);
        wake_all(run, ORR__HANG_FLAG, op->object);
        break;
    default: break;
    }
    for (uint32_t i = 0; adds && i < call->entry_count; i++)
        push(run, call->entry_first + i, waits);
    add(run, run->pc + host, 1);
}

/* --- steps of streams --- */

static bool differs(const struct orr__hang_model *model, uint32_t a, uint32_t b) {
    const struct orr_stream_op *x = &model->program->ops[model->members[a].op];
    const struct orr_stream_op *y = &model->program->ops[model->members[b].op];
    return x->word != y->word || x->count != y->count;
}

static void start_member(struct orr__hang_run *run, uint32_t member) {
    const struct orr__hang_model *model = run->model;
    const struct orr__hang_counter *counter = &model->counters[model->members[member].counter];
    uint32_t instance = get(run, run->instance + member);
    if (counter->kind != ORR_OP_COLL) {
        add(run, run->started + instance, counter->kind == ORR_OP_SEND ? 1 : 2);
    } else if (counter->is_listed) {
        add(run, run->started + instance, 1);
        uint32_t first = get(run, run->first + instance);
        if (first == ORR_NONE) {
            set(run, run->first + instance, member);
        } else if (run->mismatch_a == ORR_NONE && differs(model, first, member)) {
            run->mismatch_a = first;
            run->mismatch_b = member;
        }
    }
    if (orr__hang_is_matched(run, member))
        wake_all(run, ORR__HANG_INSTANCE, instance);
}

static void start(struct orr__hang_run *run, uint32_t stream, const struct orr__hang_entry *entry) {
    put_down(run, ORR_HANG_START, stream, entry->op, 0);
    set(run, run->progress + stream, 1);
    add(run, run->comm_left + stream, UINT32_MAX);
    add(run, run->used + run->model->streams[stream].device, 1);
    for (uint32_t i = 0; i < entry->member_count; i++)
        start_member(run, run->model->entry_members[entry->member_first + i]);
}

static void finish(struct orr__hang_run *run, uint32_t stream,
                   const struct orr__hang_entry *entry) {
    uint32_t head = get(run, run->head + stream), next = get(run, run->next + head);
    put_down(run, ORR_HANG_FINISH, stream, entry->op, 0);
    set(run, run->progress + stream, 0);
    set(run, run->status + head, ORR__HANG_FINISHED);
    set(run, run->head + stream, next);
    if (next == ORR_NONE)
        set(run, run->tail + stream, ORR_NONE);
    add(run, run->count + stream, UINT32_MAX);
    if (entry->kind == ORR__HANG_BODY)
        add(run, run->body_left + stream, UINT32_MAX);
    if (entry->kind == ORR__HANG_COMM) {
        uint32_t device = run->model->streams[stream].device;
        add(run, run->used + device, UINT32_MAX);
        if (get(run, run->comm_left + stream) == 0)
            add(run, run->active + device, UINT32_MAX);
        wake_all(run, ORR__HANG_SLOT, device);
    }
    wake_all(run, ORR__HANG_FINISH, stream);
}

static void step_body(struct orr__hang_run *run, uint32_t stream, uint32_t head,
                      const struct orr_stream_step *step) {
    const struct orr__hang_model *model = run->model;
    uint32_t done = get(run, run->progress + stream), owner = 1 + model->host_count + head;
    put_down(run, ORR_HANG_BODY, stream, model->entries[head].op, done);
    set(run, run->progress + stream, done + 1);
    if (step->kind == ORR_OP_SYNC_STREAM || model->lock_is_harmless[step->object])
        return;
    size_t lock = run->lock + step->object;
    if (step->kind == ORR_OP_LOCK) {
        set(run, lock, owner);
    } else if (get(run, lock) == owner) {
        set(run, lock, 0);
        wake_all(run, ORR__HANG_FREE, step->object);
    }
}

static void step_stream(struct orr__hang_run *run, uint32_t stream) {
    uint32_t head = get(run, run->head + stream);
    const struct orr__hang_entry *entry = &run->model->entries[head];
    const struct orr_stream_step *step =
        entry->kind == ORR__HANG_BODY ? orr__hang_next_body(run, stream) : NULL;
    if (step)
        step_body(run, stream, head, step);
    else if (entry->kind == ORR__HANG_COMM && get(run, run->progress + stream) == 0)
        start(run, stream, entry);
    else
        finish(run, stream, entry);
}

void orr__hang_step(struct orr__hang_run *run, uint32_t process) {
    uint32_t hosts = run->model->host_count;
    run->made++;
    if (process < hosts)
        step_host(run, process);
    else
        step_stream(run, process - hosts);
    orr__hang_wake(run, process);
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
