#include "hazards/explore/queue_machine.h"

#include <assert.h>
#include <string.h>

#include "hazards/explore/order_run.h"

void orr__queue_reset(const struct orr__queue_plan *plan, uint32_t *state) {
    memset(state, 0, plan->at.words * sizeof *state);
}

/* --- parts of a state --- */

static bool is_host(const struct orr__queue_plan *plan, uint32_t actor) {
    return actor >= plan->stream_count;
}

/* The next call of a host, ORR_NONE after the last. */
static uint32_t next_call(const struct orr__queue_plan *plan, const uint32_t *state,
                          uint32_t host) {
    uint32_t at = plan->host_first[host] + state[plan->at.calls + host];
    return at < plan->host_first[host + 1] ? plan->host_ops[at] : ORR_NONE;
}

/* The first unfinished entry of a stream, ORR_NONE if all are finished. */
static uint32_t head_entry(const struct orr__queue_plan *plan, const uint32_t *state,
                           uint32_t stream) {
    uint32_t head = state[plan->at.heads + stream];
    return head < state[plan->at.lengths + stream] ? state[plan->queue_first[stream] + head]
                                                   : ORR_NONE;
}

static const uint32_t *event_row(const struct orr__queue_plan *plan, const uint32_t *state,
                                 uint32_t event) {
    return state + plan->at.events + (size_t)event * (1 + plan->stream_count);
}

static bool is_drained(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t stream) {
    for (uint32_t i = 0; i < plan->stream_count; i++)
        if (orr__queue_covers(plan, stream, i) &&
            state[plan->at.heads + i] < state[plan->at.lengths + i])
            return false;
    return true;
}

/* The first n entries of every stream are finished, n by stream in `row`. */
static bool is_met(const struct orr__queue_plan *plan, const uint32_t *state, const uint32_t *row) {
    for (uint32_t i = 0; i < plan->stream_count; i++)
        if (state[plan->at.heads + i] < row[i])
            return false;
    return true;
}

static bool has_room(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t stream) {
    return state[plan->at.lengths + stream] - state[plan->at.heads + stream] <
           plan->program->queue_depth;
}

/* --- can it? --- */

static bool is_matched(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t op) {
    const struct orr__channel *channel = &plan->channels[plan->calls[op].channel];
    uint32_t number = state[plan->at.numbers + op];
    if (channel->kind != ORR_OP_COLL) {
        if (channel->match == ORR_NONE)
            return false;
        const struct orr__channel *other = &plan->channels[channel->match];
        return number < other->count && state[other->started + number] != 0;
    }
    uint32_t started = 0;
    for (uint32_t i = plan->comm_first[channel->comm]; i < plan->comm_first[channel->comm + 1];
         i++) {
        const struct orr__channel *other = &plan->channels[plan->comm_channels[i]];
        if (number < other->count && state[other->started + number] != 0)
            started += other->listed; /* a rank listed twice counts twice on both sides */
    }
    return started == plan->program->comms[channel->comm].member_count;
}

static bool can_call(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t host) {
    uint32_t index = next_call(plan, state, host);
    if (index == ORR_NONE)
        return false;
    const struct orr_stream_op *op = &plan->program->ops[index];
    const struct orr__call *call = &plan->calls[index];
    bool is_unset_wait =
        op->kind == ORR_OP_WAIT && !op->ignored && !event_row(plan, state, op->object)[0];
    for (uint32_t i = 0; i < call->entry_count && !is_unset_wait; i++)
        if (!has_room(plan, state, plan->entries[call->entry_first + i].stream))
            return false;
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_SYNC_STREAM: return is_drained(plan, state, op->stream);
    case ORR_OP_SYNC_EVENT: return is_met(plan, state, event_row(plan, state, op->object) + 1);
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC:
        for (uint32_t i = 0; i < plan->stream_count; i++)
            if (orr__queue_syncs_device(plan, op, i) && head_entry(plan, state, i) != ORR_NONE)
                return false;
        return true;
    case ORR_OP_LOCK: return state[plan->at.locks + op->object] == 0;
    case ORR_OP_AWAIT: return state[plan->at.flags + op->object] != 0;
    default: return true;
    }
}

static bool can_communicate(const struct orr__queue_plan *plan, const uint32_t *state,
                            uint32_t stream, const struct orr__entry *entry) {
    if (state[plan->at.progress + stream] == 0)
        return state[plan->at.running + plan->device_of[stream]] < plan->program->slots;
    for (uint32_t i = 0; i < entry->member_count; i++)
        if (!is_matched(plan, state, plan->members[entry->member_first + i]))
            return false;
    return true;
}

static bool can_work(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t stream) {
    uint32_t index = head_entry(plan, state, stream);
    if (index == ORR_NONE)
        return false;
    const struct orr__entry *entry = &plan->entries[index];
    if (entry->dependencies != ORR_NONE &&
        !is_met(plan, state,
                state + plan->at.dependencies + (size_t)entry->dependencies * plan->stream_count))
        return false;
    if (entry->kind == ORR_ENTRY_COMM)
        return can_communicate(plan, state, stream, entry);
    const struct orr_stream_op *op = &plan->program->ops[entry->op];
    uint32_t progress = state[plan->at.progress + stream];
    if (progress >= op->step_count)
        return true;
    const struct orr_stream_step *step = &plan->program->steps[op->step_first + progress];
    if (step->kind == ORR_OP_LOCK)
        return state[plan->at.locks + step->object] == 0;
    return step->kind != ORR_OP_SYNC_STREAM || is_drained(plan, state, step->object);
}

bool orr__queue_can(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t actor) {
    return is_host(plan, actor) ? can_call(plan, state, actor - plan->stream_count)
                                : can_work(plan, state, actor);
}

/* --- steps --- */

static void set_event(const struct orr__queue_plan *plan, uint32_t *state,
                      const struct orr_stream_op *op) {
    uint32_t *row = state + plan->at.events + (size_t)op->object * (1 + plan->stream_count);
    row[0] = 1;
    for (uint32_t i = 0; i < plan->stream_count; i++)
        row[1 + i] = orr__queue_covers(plan, op->stream, i) ? state[plan->at.lengths + i] : 0;
}

static void add_entry(const struct orr__queue_plan *plan, uint32_t *state, uint32_t index) {
    const struct orr__entry *entry = &plan->entries[index];
    if (entry->dependencies != ORR_NONE) {
        uint32_t *row =
            state + plan->at.dependencies + (size_t)entry->dependencies * plan->stream_count;
        const uint32_t *event = entry->kind == ORR_ENTRY_WAIT
                                    ? event_row(plan, state, plan->program->ops[entry->op].object)
                                    : NULL;
        for (uint32_t i = 0; i < plan->stream_count; i++) {
            if (event)
                row[i] = event[1 + i];
            if (orr__queue_follows(plan, entry->stream, i))
                row[i] = state[plan->at.lengths + i]; /* never less than an event's */
        }
    }
    uint32_t length = state[plan->at.lengths + entry->stream]++;
    state[plan->queue_first[entry->stream] + length] = index;
}

static void call(const struct orr__queue_plan *plan, uint32_t *state, uint32_t host) {
    uint32_t index = next_call(plan, state, host);
    const struct orr_stream_op *op = &plan->program->ops[index];
    const struct orr__call *made = &plan->calls[index];
    state[plan->at.calls + host]++;
    if (made->channel != ORR_NONE)
        state[plan->at.numbers + index] = state[plan->at.counters + made->channel]++;
    if (op->kind != ORR_OP_WAIT || event_row(plan, state, op->object)[0])
        for (uint32_t i = 0; i < made->entry_count; i++)
            add_entry(plan, state, made->entry_first + i);
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_RECORD: set_event(plan, state, op); break;
    case ORR_OP_LOCK: state[plan->at.locks + op->object] = 1 + host; break;
    case ORR_OP_UNLOCK:
        if (state[plan->at.locks + op->object] == 1 + host)
            state[plan->at.locks + op->object] = 0;
        break;
    case ORR_OP_NOTIFY: state[plan->at.flags + op->object] = 1; break;
    default: break;
    }
}

/* Kind or count differ. */
static bool differ(const struct orr__queue_plan *plan, uint32_t a, uint32_t b) {
    const struct orr_stream_op *ops = plan->program->ops;
    return ops[a].word != ops[b].word || ops[a].count != ops[b].count;
}

static void meet(const struct orr__queue_plan *plan, uint32_t *state, uint32_t op) {
    const struct orr__channel *channel = &plan->channels[plan->calls[op].channel];
    uint32_t number = state[plan->at.numbers + op];
    state[channel->started + number] = op + 1;
    if (channel->listed == 0)
        return;
    for (uint32_t i = plan->comm_first[channel->comm]; i < plan->comm_first[channel->comm + 1];
         i++) {
        const struct orr__channel *other = &plan->channels[plan->comm_channels[i]];
        if (other->listed == 0 || number >= other->count || state[other->started + number] == 0)
            continue;
        uint32_t met = state[other->started + number] - 1;
        if (differ(plan, op, met) && state[plan->at.mismatch] == 0) {
            state[plan->at.mismatch] = 1 + (op < met ? op : met);
            state[plan->at.mismatch + 1] = 1 + (op < met ? met : op);
        }
    }
}

static void finish(const struct orr__queue_plan *plan, uint32_t *state, uint32_t stream,
                   uint32_t entry) {
    state[plan->at.heads + stream]++;
    state[plan->at.progress + stream] = 0;
    state[plan->at.finished + entry] = 1;
}

static void body_step(const struct orr__queue_plan *plan, uint32_t *state, uint32_t stream,
                      uint32_t entry, const struct orr_stream_step *step) {
    uint32_t owner = 1 + plan->host_count + entry;
    uint32_t *lock = state + plan->at.locks + step->object;
    if (step->kind == ORR_OP_LOCK)
        *lock = owner;
    else if (step->kind == ORR_OP_UNLOCK && *lock == owner)
        *lock = 0;
    state[plan->at.progress + stream]++;
}

static void work(const struct orr__queue_plan *plan, uint32_t *state, uint32_t stream) {
    uint32_t index = head_entry(plan, state, stream);
    const struct orr__entry *entry = &plan->entries[index];
    uint32_t progress = state[plan->at.progress + stream];
    uint32_t *running = state + plan->at.running + plan->device_of[stream];
    if (entry->kind == ORR_ENTRY_COMM && progress == 0) {
        ++*running;
        state[plan->at.progress + stream] = 1;
        for (uint32_t i = 0; i < entry->member_count; i++)
            meet(plan, state, plan->members[entry->member_first + i]);
        return;
    }
    const struct orr_stream_op *op = &plan->program->ops[entry->op];
    if (entry->kind == ORR_ENTRY_WORK && progress < op->step_count) {
        body_step(plan, state, stream, index, &plan->program->steps[op->step_first + progress]);
        return;
    }
    *running -= entry->kind == ORR_ENTRY_COMM;
    finish(plan, state, stream, index);
}

void orr__queue_step(const struct orr__queue_plan *plan, uint32_t *state, uint32_t actor) {
    assert(orr__queue_can(plan, state, actor));
    if (is_host(plan, actor))
        call(plan, state, actor - plan->stream_count);
    else
        work(plan, state, actor);
}

bool orr__queue_is_done(const struct orr__queue_plan *plan, const uint32_t *state) {
    for (uint32_t i = 0; i < plan->host_count; i++)
        if (next_call(plan, state, i) != ORR_NONE)
            return false;
    for (uint32_t i = 0; i < plan->stream_count; i++)
        if (head_entry(plan, state, i) != ORR_NONE)
            return false;
    return true;
}

bool orr__queue_mismatch(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t *out_a,
                         uint32_t *out_b) {
    *out_a = state[plan->at.mismatch] - 1; /* 0 - 1: ORR_NONE */
    *out_b = state[plan->at.mismatch + 1] - 1;
    return state[plan->at.mismatch] != 0;
}

bool orr__queue_next(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t actor,
                     struct orr_schedule_step *out_step) {
    *out_step = (struct orr_schedule_step){.actor = actor, .what = ORR_STEP_CALL};
    if (is_host(plan, actor)) {
        out_step->op = next_call(plan, state, actor - plan->stream_count);
        return out_step->op != ORR_NONE;
    }
    uint32_t index = head_entry(plan, state, actor);
    if (index == ORR_NONE)
        return false;
    const struct orr__entry *entry = &plan->entries[index];
    uint32_t progress = state[plan->at.progress + actor];
    out_step->op = entry->op;
    out_step->what = ORR_STEP_RUN;
    if (entry->kind == ORR_ENTRY_COMM)
        out_step->what = progress == 0 ? ORR_STEP_START : ORR_STEP_FINISH;
    else if (entry->kind == ORR_ENTRY_WORK && progress < plan->program->ops[entry->op].step_count)
        out_step->what = ORR_STEP_BODY;
    return true;
}

uint64_t orr__queue_hash_blocked(const struct orr__queue_plan *plan, const uint32_t *state,
                                 const uint32_t *op_of) {
    uint64_t sum = 0;
    for (uint32_t actor = 0; actor < plan->actor_count; actor++) {
        struct orr_schedule_step step;
        if (!orr__queue_next(plan, state, actor, &step))
            continue;
        uint64_t op = op_of ? op_of[step.op] : step.op;
        sum += orr__mix(16 * op + 2 * (uint64_t)step.what + is_host(plan, actor) + 1);
    }
    return sum;
}

/* --- what commutes --- */

/* Objects of an actor's next step, as (first, count) of the plan's uses for a host; a stream's
 * step touches few, which are made up here. */
enum { USES_MAX = 1 };

struct step_uses {
    const struct orr__use *uses;
    uint32_t count;
    struct orr__use own[USES_MAX];
    uint32_t drains; /* a stream whose end the step looks at, ORR_NONE */
};

static void find_uses(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t actor,
                      struct step_uses *out) {
    *out = (struct step_uses){.drains = ORR_NONE};
    out->uses = out->own;
    if (is_host(plan, actor)) {
        uint32_t index = next_call(plan, state, actor - plan->stream_count);
        if (index == ORR_NONE)
            return;
        out->uses = plan->uses ? plan->uses + plan->calls[index].use_first : out->own;
        out->count = plan->calls[index].use_count;
        return;
    }
    uint32_t entry = head_entry(plan, state, actor);
    if (entry == ORR_NONE)
        return;
    uint32_t progress = state[plan->at.progress + actor], device = plan->device_of[actor];
    const struct orr_stream_op *op = &plan->program->ops[plan->entries[entry].op];
    if (plan->entries[entry].kind == ORR_ENTRY_COMM) {
        if (progress == 0 && plan->slots_bind[device])
            out->own[out->count++] = (struct orr__use){plan->first_slot_object + device, true};
    } else if (plan->entries[entry].kind == ORR_ENTRY_WORK && progress < op->step_count) {
        const struct orr_stream_step *step = &plan->program->steps[op->step_first + progress];
        if (step->kind == ORR_OP_SYNC_STREAM)
            out->drains = step->object;
        else
            out->own[out->count++] =
                (struct orr__use){plan->first_lock_object + step->object, true};
    }
}

static bool uses_conflict(const struct orr__queue_plan *plan, const struct step_uses *a,
                          const struct step_uses *b) {
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++)
            if (a->uses[i].object == b->uses[k].object &&
                (a->uses[i].is_write || b->uses[k].is_write))
                return true;
        if (b->drains != ORR_NONE && a->uses[i].is_write &&
            a->uses[i].object < plan->stream_count &&
            orr__queue_covers(plan, b->drains, a->uses[i].object))
            return true;
    }
    return false;
}

bool orr__queue_depends(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t a,
                        uint32_t b) {
    struct step_uses uses_a, uses_b;
    find_uses(plan, state, a, &uses_a);
    find_uses(plan, state, b, &uses_b);
    return uses_conflict(plan, &uses_a, &uses_b) || uses_conflict(plan, &uses_b, &uses_a);
}

/* Whether that use is still to come. */
static bool is_to_come(const struct orr__queue_plan *plan, const uint32_t *state,
                       const struct orr__user *user) {
    if (user->entry != ORR_NONE)
        return !state[plan->at.finished + user->entry];
    uint32_t host = user->actor - plan->stream_count;
    return user->call >= plan->host_first[host] + state[plan->at.calls + host];
}

static bool find_users(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t actor,
                       uint32_t object, bool is_write, bool *others) {
    bool found = false;
    for (uint32_t i = plan->user_first[object]; i < plan->user_first[object + 1]; i++) {
        const struct orr__user *user = &plan->users[i];
        if (user->actor == actor || !(is_write || user->is_write) || !is_to_come(plan, state, user))
            continue;
        others[user->actor] = found = true;
    }
    return found;
}

bool orr__queue_disturbers(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t a,
                           bool *others) {
    struct step_uses uses;
    find_uses(plan, state, a, &uses);
    bool found = false;
    for (uint32_t i = 0; i < uses.count; i++)
        if (find_users(plan, state, a, uses.uses[i].object, uses.uses[i].is_write, others))
            found = true;
    for (uint32_t i = 0; i < plan->stream_count && uses.drains != ORR_NONE; i++)
        if (orr__queue_covers(plan, uses.drains, i) && find_users(plan, state, a, i, false, others))
            found = true;
    return found;
}
