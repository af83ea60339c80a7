#include "hazards/hang_explain.h"

#include <assert.h>
#include <string.h>

#include "hazards/hang_text.h"

struct explaining {
    struct orr__hang_run *run;
    const struct orr__hang_model *model;
    struct orr_hang_result *result;
};

/* --- partners --- */

/* The member that gets number `number` of a counter, ORR_NONE if there is none, or nobody knows. */
static uint32_t member_of_number(const struct orr__hang_run *run, uint32_t counter,
                                 uint32_t number) {
    const struct orr__hang_counter *info = &run->model->counters[counter];
    const uint32_t *members = run->model->counter_members + info->member_first;
    if (!info->is_shared)
        return number < info->member_count ? members[number] : ORR_NONE;
    for (uint32_t i = 0; i < info->member_count; i++)
        if (run->words[run->instance + members[i]] == info->instance_first + number)
            return members[i];
    return ORR_NONE;
}

/* A member that a started one waits for: fills rank, other_op and whom to wait for. False: this
 * rank has started it. */
static bool missing_call(const struct explaining *in, struct orr_hang_blocked *out,
                         uint32_t counter, uint32_t rank) {
    const struct orr__hang_run *run = in->run;
    uint32_t member = counter == ORR_NONE ? ORR_NONE : member_of_number(run, counter, out->number);
    out->rank = rank;
    out->other_op = out->next = ORR_NONE;
    out->calls = counter == ORR_NONE ? 0 : in->model->counters[counter].member_count;
    if (member == ORR_NONE)
        return true;
    const struct orr__hang_member *info = &in->model->members[member];
    if (info->entry != ORR_NONE && orr__hang_has_started(run, info->entry))
        return false;
    out->other_op = info->op;
    out->next = info->host;
    out->next_is_stream =
        info->entry != ORR_NONE && run->words[run->status + info->entry] == ORR__HANG_QUEUED;
    if (out->next_is_stream)
        out->next = in->model->entries[info->entry].stream;
    return true;
}

static void find_partner(const struct explaining *in, struct orr_hang_blocked *out,
                         const struct orr__hang_entry *entry) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_model *model = in->model;
    for (uint32_t i = 0; i < entry->member_count; i++) {
        uint32_t member = model->entry_members[entry->member_first + i];
        if (orr__hang_is_matched(run, member))
            continue;
        const struct orr__hang_counter *counter = &model->counters[model->members[member].counter];
        out->op = model->members[member].op;
        out->object = counter->comm;
        out->number = run->words[run->instance + member] - counter->instance_first;
        if (counter->kind != ORR_OP_COLL) {
            missing_call(in, out, counter->partner, counter->peer);
            return;
        }
        const struct orr__hang_comm *comm = &model->comms[counter->comm];
        for (uint32_t k = 0; k < comm->rank_count; k++) {
            uint32_t other = model->ranks[comm->rank_first + k];
            uint32_t name = model->rank_names[comm->rank_first + k];
            if (missing_call(in, out, other, name))
                return;
        }
    }
}

/* --- whom somebody waits for --- */

static void wait_for_stream(const struct explaining *in, struct orr_hang_blocked *out,
                            uint32_t stream) {
    uint32_t head = in->run->words[in->run->head + stream];
    out->object = out->next = stream;
    out->next_is_stream = true;
    out->other_op = head == ORR_NONE ? ORR_NONE : in->model->entries[head].op;
}

static void wait_for_lock(const struct explaining *in, struct orr_hang_blocked *out,
                          uint32_t lock) {
    uint32_t owner = in->run->words[in->run->lock + lock] - 1, hosts = in->model->host_count;
    out->reason = ORR_HANG_FOR_LOCK;
    out->object = lock;
    if (owner < hosts) {
        out->next = owner;
        return;
    }
    const struct orr__hang_entry *entry = &in->model->entries[owner - hosts];
    out->other_op = entry->op;
    if (in->run->words[in->run->status + owner - hosts] == ORR__HANG_FINISHED)
        return;
    out->next = entry->stream;
    out->next_is_stream = true;
}

/* The host that would set the flag, if one is still on its way there. */
static void wait_for_flag(const struct explaining *in, struct orr_hang_blocked *out,
                          uint32_t flag) {
    const struct orr__hang_model *model = in->model;
    out->reason = ORR_HANG_FOR_FLAG;
    out->object = flag;
    uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_NOTIFY, flag)];
    for (; user != ORR_NONE; user = model->users[user].next) {
        const struct orr__hang_user *info = &model->users[user];
        if (in->run->words[in->run->pc + info->process] > info->last)
            continue;
        out->next = info->process;
        out->other_op = model->calls[model->hosts[info->process].call_first + info->last].op;
    }
}

static void wait_for_slot(const struct explaining *in, struct orr_hang_blocked *out,
                          uint32_t number) {
    const struct orr__hang_model *model = in->model;
    const struct orr__hang_device *device = &model->devices[number];
    out->reason = ORR_HANG_FOR_SLOT;
    out->object = device->value;
    for (uint32_t i = device->stream_count; i-- > 0;) {
        uint32_t stream = model->device_streams[device->stream_first + i];
        uint32_t head = in->run->words[in->run->head + stream];
        if (head == ORR_NONE || model->entries[head].kind != ORR__HANG_COMM ||
            in->run->words[in->run->progress + stream] == 0)
            continue;
        out->next = stream;
        out->next_is_stream = true;
        out->other_op = model->entries[head].op;
    }
}

static void find_reason(const struct explaining *in, struct orr_hang_blocked *out,
                        const struct orr__hang_entry *entry) {
    const struct orr__hang_model *model = in->model;
    uint32_t object = in->run->key;
    out->object = out->other_op = out->next = out->rank = ORR_NONE;
    if (object < model->stream_count) {
        out->reason = ORR_HANG_FOR_STREAM;
        wait_for_stream(in, out, object);
        return;
    }
    object -= model->stream_count;
    if (object < model->lock_count) {
        wait_for_lock(in, out, object);
        return;
    }
    object -= model->lock_count;
    if (object < model->flag_count) {
        wait_for_flag(in, out, object);
        return;
    }
    object -= model->flag_count;
    if (object < model->device_count) {
        wait_for_slot(in, out, object);
        return;
    }
    out->reason = ORR_HANG_FOR_PARTNER;
    find_partner(in, out, entry);
}

static bool adds_something(const struct orr__hang_run *run, uint32_t host) {
    const struct orr__hang_call *call = orr__hang_next_call(run, host);
    return call->entry_count > 0;
}

/* False: this one is not blocked. */
static bool explain_process(const struct explaining *in, uint32_t process,
                            struct orr_hang_blocked *out) {
    struct orr__hang_run *run = in->run;
    const struct orr__hang_model *model = in->model;
    uint32_t hosts = model->host_count;
    if (orr__hang_look(run, process) != ORR__HANG_WAITING)
        return false;
    *out = (struct orr_hang_blocked){.is_stream = process >= hosts,
                                     .who = process < hosts ? process : process - hosts};
    const struct orr__hang_entry *entry = NULL;
    if (out->is_stream) {
        entry = &model->entries[run->words[run->head + out->who]];
        out->op = entry->op;
    } else {
        out->op = orr__hang_next_call(run, process)->op;
    }
    find_reason(in, out, entry);
    if (!out->is_stream && out->reason == ORR_HANG_FOR_STREAM && adds_something(run, process))
        out->reason = ORR_HANG_FOR_ROOM;
    return true;
}

/* --- results --- */

/* Whom each waits for among the blocked, and whether that goes in a circle. */
static enum orr_status join_blocked(const struct explaining *in) {
    struct orr_hang_result *result = in->result;
    uint32_t hosts = in->model->host_count, processes = hosts + in->model->stream_count;
    struct orr__arena arena = {.memory = result->memory};
    uint32_t *at = orr__arena_alloc(&arena, processes, sizeof *at); /* index + 1, by process */
    uint32_t *mark = orr__arena_alloc(&arena, processes, sizeof *mark);
    result->circle = ORR_NONE;
    enum orr_status status = at && mark ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t i = 0; status == ORR_OK && i < result->blocked_count; i++)
        at[result->blocked[i].who + (result->blocked[i].is_stream ? hosts : 0)] = i + 1;
    for (uint32_t i = 0; status == ORR_OK && i < result->blocked_count; i++) {
        struct orr_hang_blocked *one = &result->blocked[i];
        uint32_t next =
            one->next == ORR_NONE ? 0 : at[one->next + (one->next_is_stream ? hosts : 0)];
        one->next_blocked = next == 0 ? ORR_NONE : next - 1;
    }
    for (uint32_t i = 0; status == ORR_OK && i < result->blocked_count; i++) {
        uint32_t one = i; /* who is met again in the same walk is in a circle */
        for (; one != ORR_NONE && mark[one] == 0; one = result->blocked[one].next_blocked)
            mark[one] = i + 1;
        if (one != ORR_NONE && mark[one] == i + 1) {
            result->circle = one;
            break;
        }
    }
    orr__arena_clear(&arena);
    return status;
}

static enum orr_status explain_blocked(struct explaining *in) {
    struct orr_hang_result *result = in->result;
    uint32_t processes = in->model->host_count + in->model->stream_count;
    result->blocked = orr_memory_alloc(result->memory, processes * sizeof *result->blocked);
    if (!result->blocked)
        return ORR_NO_MEMORY;
    for (uint32_t p = 0; p < processes; p++)
        if (explain_process(in, p, &result->blocked[result->blocked_count]))
            result->blocked_count++;
    return join_blocked(in);
}

static void explain_mismatch(struct explaining *in) {
    const struct orr__hang_model *model = in->model;
    uint32_t a = in->run->mismatch_a, b = in->run->mismatch_b;
    if (model->members[b].op < model->members[a].op) {
        a = in->run->mismatch_b;
        b = in->run->mismatch_a;
    }
    const struct orr__hang_counter *counter = &model->counters[model->members[a].counter];
    in->result->mismatch = (struct orr_hang_mismatch){
        .op_a = model->members[a].op,
        .op_b = model->members[b].op,
        .rank_a = counter->rank,
        .rank_b = model->counters[model->members[b].counter].rank,
        .number = in->run->words[in->run->instance + a] - counter->instance_first};
}

enum orr_status orr__hang_explain(struct orr__hang_run *run, struct orr_hang_result *result) {
    struct explaining in = {.run = run, .model = run->model, .result = result};
    enum orr_status status = ORR_OK;
    size_t size = run->step_count * sizeof *result->steps;
    result->steps = orr_memory_alloc(result->memory, size);
    if (!result->steps)
        return ORR_NO_MEMORY;
    if (size > 0)
        memcpy(result->steps, run->steps, size);
    result->step_count = (uint32_t)run->step_count;
    if (result->kind == ORR_CHECK_MISMATCH)
        explain_mismatch(&in);
    else
        status = explain_blocked(&in);
    if (status == ORR_OK)
        status = orr__hang_say(run->model->program, result);
    return status;
}

void orr_hang_result_clear(struct orr_hang_result *result) {
    if (!result->memory)
        return;
    for (uint32_t i = 0; i < result->blocked_count; i++)
        orr_memory_free(result->memory, result->blocked[i].text);
    orr_memory_free(result->memory, result->blocked);
    orr_memory_free(result->memory, result->steps);
    *result = (struct orr_hang_result){.memory = result->memory};
}
