#include "hazards/hang_run_internal.h"

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
    bool is_empty = orr__hang_get(run, run->head + stream) == ORR_NONE;
    for (uint32_t i = 0; i < info->rule_count; i++) {
        uint32_t last = orr__hang_get(run, run->tail + run->model->rules[info->rule_first + i]);
        size_t seen = run->seen + info->rule_first + i;
        if (last == ORR_NONE || (!is_empty && orr__hang_get(run, seen) == last))
            continue;
        orr__hang_set(run, seen, last);
        orr__hang_list_put(run, last);
    }
}

static uint32_t waits_of(struct orr__hang_run *run, uint32_t stream, uint32_t event_list) {
    if (run->model->streams[stream].rule_count == 0)
        return event_list;
    uint32_t list = orr__hang_list_open(run);
    for (uint32_t i = 1; event_list != ORR_NONE && !run->failed && i <= run->lists[event_list];
         i++) {
        uint32_t entry = run->lists[event_list + i];
        if (orr__hang_get(run, run->status + entry) != ORR__HANG_FINISHED)
            orr__hang_list_put(run, entry);
    }
    rule_waits(run, stream);
    orr__hang_list_close(run, list);
    return list;
}

static void push(struct orr__hang_run *run, uint32_t entry, uint32_t event_list) {
    uint32_t stream = run->model->entries[entry].stream;
    orr__hang_set(run, run->waits + entry, waits_of(run, stream, event_list));
    orr__hang_set(run, run->status + entry, ORR__HANG_QUEUED);
    uint32_t tail = orr__hang_get(run, run->tail + stream);
    if (tail == ORR_NONE) {
        orr__hang_set(run, run->head + stream, entry);
        orr__hang_wake(run, run->model->host_count + stream);
    } else {
        orr__hang_set(run, run->next + tail, entry);
    }
    orr__hang_set(run, run->tail + stream, entry);
    orr__hang_add(run, run->count + stream, 1);
}

/* The event stands for the last entry of each stream that the record covers. */
static void record(struct orr__hang_run *run, const struct orr_stream_op *op) {
    const struct orr__hang_model *model = run->model;
    const struct orr__hang_stream *info = &model->streams[op->stream];
    uint32_t list = orr__hang_list_open(run);
    for (uint32_t i = 0; i < info->cover_count; i++) {
        uint32_t last = orr__hang_get(run, run->tail + model->covers[info->cover_first + i]);
        if (last != ORR_NONE)
            orr__hang_list_put(run, last);
    }
    orr__hang_list_close(run, list);
    orr__hang_set(run, run->event + op->object, list);
    /* A host that waits for what the event stood for may be free to go. */
    uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_USE, op->object)];
    for (; user != ORR_NONE; user = model->users[user].next) {
        orr__hang_leave(run, model->users[user].process);
        orr__hang_wake(run, model->users[user].process);
    }
}

static void take_number(struct orr__hang_run *run, uint32_t member) {
    uint32_t counter = run->model->members[member].counter;
    uint32_t number = orr__hang_get(run, run->taken + counter);
    orr__hang_set(run, run->taken + counter, number + 1);
    orr__hang_set(run, run->instance + member,
                  run->model->counters[counter].instance_first + number);
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
        waits = orr__hang_get(run, run->event + op->object);
        adds = waits != ORR_NONE;
        break;
    case ORR_OP_LOCK: orr__hang_set(run, run->lock + op->object, 1 + host); break;
    case ORR_OP_UNLOCK:
        if (orr__hang_get(run, run->lock + op->object) == 1 + host) {
            orr__hang_set(run, run->lock + op->object, 0);
            orr__hang_wake_all(run, ORR__HANG_FREE, op->object);
        }
        break;
    case ORR_OP_NOTIFY:
        orr__hang_set(run, run->flag + op->object, 1);
        orr__hang_wake_all(run, ORR__HANG_FLAG, op->object);
        break;
    default: break;
    }
    for (uint32_t i = 0; adds && i < call->entry_count; i++)
        push(run, call->entry_first + i, waits);
    orr__hang_add(run, run->pc + host, 1);
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
    uint32_t instance = orr__hang_get(run, run->instance + member);
    if (counter->kind != ORR_OP_COLL) {
        orr__hang_add(run, run->started + instance, counter->kind == ORR_OP_SEND ? 1 : 2);
    } else if (counter->is_listed) {
        orr__hang_add(run, run->started + instance, 1);
        uint32_t first = orr__hang_get(run, run->first + instance);
        if (first == ORR_NONE) {
            orr__hang_set(run, run->first + instance, member);
        } else if (run->mismatch_a == ORR_NONE && differs(model, first, member)) {
            run->mismatch_a = first;
            run->mismatch_b = member;
        }
    }
    if (orr__hang_is_matched(run, member))
        orr__hang_wake_all(run, ORR__HANG_INSTANCE, instance);
}

static void start(struct orr__hang_run *run, uint32_t stream, const struct orr__hang_entry *entry) {
    put_down(run, ORR_HANG_START, stream, entry->op, 0);
    orr__hang_set(run, run->progress + stream, 1);
    orr__hang_add(run, run->comm_left + stream, UINT32_MAX);
    orr__hang_add(run, run->used + run->model->streams[stream].device, 1);
    for (uint32_t i = 0; i < entry->member_count; i++)
        start_member(run, run->model->entry_members[entry->member_first + i]);
}

static void finish(struct orr__hang_run *run, uint32_t stream,
                   const struct orr__hang_entry *entry) {
    uint32_t head = orr__hang_get(run, run->head + stream),
             next = orr__hang_get(run, run->next + head);
    put_down(run, ORR_HANG_FINISH, stream, entry->op, 0);
    orr__hang_set(run, run->progress + stream, 0);
    orr__hang_set(run, run->status + head, ORR__HANG_FINISHED);
    orr__hang_set(run, run->head + stream, next);
    if (next == ORR_NONE)
        orr__hang_set(run, run->tail + stream, ORR_NONE);
    orr__hang_add(run, run->count + stream, UINT32_MAX);
    if (entry->kind == ORR__HANG_BODY)
        orr__hang_add(run, run->body_left + stream, UINT32_MAX);
    if (entry->kind == ORR__HANG_COMM) {
        uint32_t device = run->model->streams[stream].device;
        orr__hang_add(run, run->used + device, UINT32_MAX);
        if (orr__hang_get(run, run->comm_left + stream) == 0)
            orr__hang_add(run, run->active + device, UINT32_MAX);
        orr__hang_wake_all(run, ORR__HANG_SLOT, device);
    }
    orr__hang_wake_all(run, ORR__HANG_FINISH, stream);
}

static void step_body(struct orr__hang_run *run, uint32_t stream, uint32_t head,
                      const struct orr_stream_step *step) {
    const struct orr__hang_model *model = run->model;
    uint32_t done = orr__hang_get(run, run->progress + stream),
             owner = 1 + model->host_count + head;
    put_down(run, ORR_HANG_BODY, stream, model->entries[head].op, done);
    orr__hang_set(run, run->progress + stream, done + 1);
    if (step->kind == ORR_OP_SYNC_STREAM || model->lock_is_harmless[step->object])
        return;
    size_t lock = run->lock + step->object;
    if (step->kind == ORR_OP_LOCK) {
        orr__hang_set(run, lock, owner);
    } else if (orr__hang_get(run, lock) == owner) {
        orr__hang_set(run, lock, 0);
        orr__hang_wake_all(run, ORR__HANG_FREE, step->object);
    }
}

static void step_stream(struct orr__hang_run *run, uint32_t stream) {
    uint32_t head = orr__hang_get(run, run->head + stream);
    const struct orr__hang_entry *entry = &run->model->entries[head];
    const struct orr_stream_step *step =
        entry->kind == ORR__HANG_BODY ? orr__hang_next_body(run, stream) : NULL;
    if (step)
        step_body(run, stream, head, step);
    else if (entry->kind == ORR__HANG_COMM && orr__hang_get(run, run->progress + stream) == 0)
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
