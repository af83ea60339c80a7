#include "hazards/hang_rivals.h"

#include <assert.h>

struct telling {
    const struct orr__hang_run *run;
    uint32_t process;
    orr__hang_tell *tell;
    void *context;
};

static bool has_left(const struct orr__hang_run *run, const struct orr__hang_user *user) {
    uint32_t hosts = run->model->host_count;
    return user->process < hosts ? run->words[run->pc + user->process] <= user->last
                                 : run->words[run->body_left + user->process - hosts] > 0;
}

static bool tell_users(const struct telling *in, enum orr__hang_thing thing, uint32_t object) {
    const struct orr__hang_model *model = in->run->model;
    uint32_t user = model->first_users[orr__hang_key(model, thing, object)];
    for (; user != ORR_NONE; user = model->users[user].next)
        if (model->users[user].process != in->process && has_left(in->run, &model->users[user]) &&
            !in->tell(in->context, model->users[user].process))
            return false;
    return true;
}

static bool tell_of_thing(void *context, enum orr__hang_thing thing, uint32_t object) {
    const struct telling *in = context;
    switch (thing) {
    case ORR__HANG_ADD:
        return tell_users(in, ORR__HANG_ADD, object) && tell_users(in, ORR__HANG_SEE, object);
    case ORR__HANG_SEE: return tell_users(in, ORR__HANG_ADD, object);
    case ORR__HANG_RECORD:
        return tell_users(in, ORR__HANG_RECORD, object) && tell_users(in, ORR__HANG_USE, object);
    case ORR__HANG_USE: return tell_users(in, ORR__HANG_RECORD, object);
    case ORR__HANG_NOTIFY: return true;
    default: return tell_users(in, thing, object);
    }
}

/* Starts that slots may keep waiting: all others of the device that are still to come. */
static bool tell_of_starts(const struct telling *in, uint32_t stream) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_model *model = run->model;
    uint32_t number = model->streams[stream].device;
    if (run->words[run->active + number] <= model->program->slots)
        return true;
    const struct orr__hang_device *device = &model->devices[number];
    for (uint32_t i = 0; i < device->stream_count; i++) {
        uint32_t other = model->device_streams[device->stream_first + i];
        if (other != stream && run->words[run->comm_left + other] > 0 &&
            !in->tell(in->context, model->host_count + other))
            return false;
    }
    return true;
}

bool orr__hang_rivals(const struct orr__hang_run *run, uint32_t process, orr__hang_tell *tell,
                      void *context) {
    const struct orr__hang_model *model = run->model;
    struct telling in = {.run = run, .process = process, .tell = tell, .context = context};
    if (process < model->host_count) {
        const struct orr__hang_call *call = orr__hang_next_call(run, process);
        return call->is_alone || orr__hang_call_things(model, call, tell_of_thing, &in);
    }
    uint32_t stream = process - model->host_count;
    const struct orr__hang_entry *entry = &model->entries[run->words[run->head + stream]];
    if (entry->kind == ORR__HANG_COMM)
        return run->words[run->progress + stream] > 0 || tell_of_starts(&in, stream);
    const struct orr_stream_step *step =
        entry->kind == ORR__HANG_BODY ? orr__hang_next_body(run, stream) : NULL;
    return !step || step->kind == ORR_OP_UNLOCK ||
           orr__hang_body_things(model, step, tell_of_thing, &in);
}

static bool say_no(void *context, uint32_t process) {
    (void)context;
    (void)process;
    return false;
}

bool orr__hang_goes_alone(const struct orr__hang_run *run, uint32_t process) {
    return orr__hang_rivals(run, process, say_no, NULL);
}

/* --- what is needed --- */

static void need_lock(const struct telling *in, uint32_t lock) {
    const struct orr__hang_model *model = in->run->model;
    uint32_t owner = in->run->words[in->run->lock + lock] - 1;
    if (owner >= model->host_count) {
        uint32_t entry = owner - model->host_count;
        if (in->run->words[in->run->status + entry] == ORR__HANG_FINISHED)
            return; /* ended without unlocking */
        owner = model->host_count + model->entries[entry].stream;
    }
    if (owner != in->process)
        in->tell(in->context, owner);
}

static void need_slot(const struct telling *in, uint32_t number) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_model *model = run->model;
    const struct orr__hang_device *device = &model->devices[number];
    for (uint32_t i = 0; i < device->stream_count; i++) {
        uint32_t other = model->device_streams[device->stream_first + i];
        uint32_t head = run->words[run->head + other];
        if (head != ORR_NONE && model->entries[head].kind == ORR__HANG_COMM &&
            run->words[run->progress + other] > 0)
            in->tell(in->context, model->host_count + other);
    }
}

/* Somebody who could start the member; false: it has started. */
static bool need_member(const struct telling *in, uint32_t member) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_member *info = &run->model->members[member];
    uint32_t host = info->host;
    if (info->entry == ORR_NONE) {
        if (run->words[run->instance + member] == ORR_NONE)
            in->tell(in->context, host);
        return true;
    }
    if (orr__hang_has_started(run, info->entry))
        return false;
    if (run->words[run->status + info->entry] == ORR__HANG_ABSENT)
        in->tell(in->context, host);
    else
        in->tell(in->context, run->model->host_count + run->model->entries[info->entry].stream);
    return true;
}

/* The same for whoever gets number `number` of a counter. */
static bool need_number(const struct telling *in, uint32_t counter, uint32_t number) {
    const struct orr__hang_run *run = in->run;
    if (counter == ORR_NONE)
        return true;
    const struct orr__hang_counter *info = &run->model->counters[counter];
    const uint32_t *members = run->model->counter_members + info->member_first;
    if (number >= info->member_count)
        return true;
    if (!info->is_shared)
        return need_member(in, members[number]);
    for (uint32_t i = 0; i < info->member_count; i++)
        if (run->words[run->instance + members[i]] == info->instance_first + number)
            return need_member(in, members[i]);
    for (uint32_t i = 0; i < info->member_count; i++)
        if (run->words[run->instance + members[i]] == ORR_NONE)
            in->tell(in->context, run->model->members[members[i]].host);
    return true;
}

static void need_partner(const struct telling *in, uint32_t stream) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_model *model = run->model;
    const struct orr__hang_entry *entry = &model->entries[run->words[run->head + stream]];
    for (uint32_t i = 0; i < entry->member_count; i++) {
        uint32_t member = model->entry_members[entry->member_first + i];
        if (orr__hang_is_matched(run, member))
            continue;
        const struct orr__hang_counter *counter = &model->counters[model->members[member].counter];
        uint32_t number = run->words[run->instance + member] - counter->instance_first;
        if (counter->kind != ORR_OP_COLL) {
            need_number(in, counter->partner, number);
            return;
        }
        const struct orr__hang_comm *comm = &model->comms[counter->comm];
        for (uint32_t k = 0; k < comm->rank_count; k++)
            if (need_number(in, model->ranks[comm->rank_first + k], number))
                return;
    }
}

static void need_key(const struct telling *in) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_model *model = run->model;
    uint32_t object = run->key;
    if (object < model->stream_count) {
        in->tell(in->context, model->host_count + object);
        return;
    }
    object -= model->stream_count;
    if (object < model->lock_count) {
        need_lock(in, object);
        return;
    }
    object -= model->lock_count;
    if (object < model->flag_count) {
        tell_users(in, ORR__HANG_NOTIFY, object);
        return;
    }
    object -= model->flag_count;
    if (object < model->device_count)
        need_slot(in, object);
    else
        need_partner(in, in->process - model->host_count);
}

void orr__hang_needed(const struct orr__hang_run *run, uint32_t process, orr__hang_tell *tell,
                      void *context) {
    const struct orr__hang_model *model = run->model;
    struct telling in = {.run = run, .process = process, .tell = tell, .context = context};
    if (process >= model->host_count) {
        uint32_t stream = process - model->host_count;
        if (run->words[run->head + stream] == ORR_NONE)
            tell_users(&in, ORR__HANG_ADD, stream);
        else
            need_key(&in);
        return;
    }
    const struct orr__hang_call *call = orr__hang_next_call(run, process);
    if (!call)
        return;
    need_key(&in);
    const struct orr_stream_op *op = &model->program->ops[call->op];
    if (op->kind == ORR_OP_SYNC_EVENT) /* or somebody records the event again */
        tell_users(&in, ORR__HANG_RECORD, op->object);
}
