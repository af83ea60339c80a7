#include "hazards/explore/queue_plan.h"

#include <assert.h>
#include <string.h>

enum { ITEMS_MAX = 1 << 24 };

bool orr__queue_follows(const struct orr__queue_plan *plan, uint32_t stream, uint32_t other) {
    const struct orr_stream_info *a = &plan->program->streams[stream];
    const struct orr_stream_info *b = &plan->program->streams[other];
    if (a->device != b->device || a->sync == ORR_STREAM_NB || b->sync == ORR_STREAM_NB)
        return false;
    return (a->sync == ORR_STREAM_LEGACY) != (b->sync == ORR_STREAM_LEGACY);
}

bool orr__queue_covers(const struct orr__queue_plan *plan, uint32_t stream, uint32_t other) {
    return stream == other || (plan->program->streams[stream].sync == ORR_STREAM_LEGACY &&
                               orr__queue_follows(plan, stream, other));
}

bool orr__queue_syncs_device(const struct orr__queue_plan *plan, const struct orr_stream_op *op,
                             uint32_t stream) {
    uint32_t device = plan->program->streams[stream].device;
    for (uint32_t i = 0; i < op->device_count; i++)
        if (plan->program->devices[op->device_first + i] == device)
            return true;
    return op->device_count == 0 && op->device == device;
}

static bool is_communication(uint32_t kind) {
    return kind == ORR_OP_COLL || kind == ORR_OP_SEND || kind == ORR_OP_RECV;
}

static bool is_work(uint32_t kind) {
    return kind == ORR_OP_KERNEL || kind == ORR_OP_MEMCPY || kind == ORR_OP_MEMSET ||
           kind == ORR_OP_HOSTFN;
}

/* --- calls by host --- */

static enum orr_status list_calls(struct orr__queue_plan *plan) {
    const struct orr_stream_program *program = plan->program;
    plan->host_ops = orr_memory_alloc(plan->memory, program->op_count * sizeof *plan->host_ops);
    plan->host_first =
        orr_memory_alloc(plan->memory, (plan->host_count + 1) * sizeof *plan->host_first);
    plan->calls = orr_memory_alloc(plan->memory, program->op_count * sizeof *plan->calls);
    if (!plan->host_ops || !plan->host_first || !plan->calls)
        return ORR_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t host = 0; host < plan->host_count; host++) {
        plan->host_first[host] = count;
        for (uint32_t i = 0; i < program->op_count; i++)
            if (program->ops[i].host == host)
                plan->host_ops[count++] = i;
    }
    plan->host_first[plan->host_count] = count;
    return ORR_OK;
}

/* --- channels --- */

static uint32_t count_listed(const struct orr_stream_program *program, uint32_t comm,
                             uint32_t rank) {
    const struct orr_comm_info *info = &program->comms[comm];
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->member_count; i++)
        count += program->members[info->member_first + i] == rank;
    return count;
}

static uint32_t find_channel(const struct orr__queue_plan *plan, uint32_t kind, uint32_t comm,
                             uint32_t rank, uint32_t peer) {
    for (uint32_t i = 0; i < plan->channel_count; i++) {
        const struct orr__channel *channel = &plan->channels[i];
        if (channel->kind == kind && channel->comm == comm && channel->rank == rank &&
            channel->peer == peer)
            return i;
    }
    return ORR_NONE;
}

static enum orr_status add_channel(struct orr__queue_plan *plan, uint32_t index) {
    const struct orr_stream_op *op = &plan->program->ops[index];
    uint32_t peer = op->kind == ORR_OP_COLL ? ORR_NONE : op->other;
    uint32_t channel = find_channel(plan, op->kind, op->object, op->rank, peer);
    if (channel == ORR_NONE) {
        enum orr_status status =
            orr_memory_grow(plan->memory, &plan->channels, &plan->channel_capacity,
                            (size_t)plan->channel_count + 1, sizeof *plan->channels, ITEMS_MAX);
        if (status != ORR_OK)
            return status;
        channel = plan->channel_count++;
        plan->channels[channel] = (struct orr__channel){
            .kind = op->kind,
            .comm = op->object,
            .rank = op->rank,
            .peer = peer,
            .listed =
                op->kind == ORR_OP_COLL ? count_listed(plan->program, op->object, op->rank) : 0};
    }
    plan->channels[channel].count++;
    plan->calls[index].channel = channel;
    return ORR_OK;
}

static enum orr_status list_channels(struct orr__queue_plan *plan) {
    uint32_t comms = plan->program->names[ORR_NAME_COMM].count, count = 0;
    plan->comm_first = orr_memory_alloc(plan->memory, (comms + 1) * sizeof *plan->comm_first);
    plan->comm_channels =
        orr_memory_alloc(plan->memory, plan->channel_count * sizeof *plan->comm_channels);
    if (!plan->comm_first || !plan->comm_channels)
        return ORR_NO_MEMORY;
    for (uint32_t comm = 0; comm < comms; comm++) {
        plan->comm_first[comm] = count;
        for (uint32_t i = 0; i < plan->channel_count; i++)
            if (plan->channels[i].kind == ORR_OP_COLL && plan->channels[i].comm == comm)
                plan->comm_channels[count++] = i;
    }
    plan->comm_first[comms] = count;
    return ORR_OK;
}

static enum orr_status make_channels(struct orr__queue_plan *plan) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < plan->program->op_count; i++) {
        plan->calls[i].channel = ORR_NONE;
        if (is_communication(plan->program->ops[i].kind))
            status = add_channel(plan, i);
    }
    for (uint32_t i = 0; status == ORR_OK && i < plan->channel_count; i++) {
        struct orr__channel *channel = &plan->channels[i];
        channel->match = ORR_NONE;
        if (channel->kind != ORR_OP_COLL)
            channel->match =
                find_channel(plan, channel->kind == ORR_OP_SEND ? ORR_OP_RECV : ORR_OP_SEND,
                             channel->comm, channel->peer, channel->rank);
    }
    return status == ORR_OK ? list_channels(plan) : status;
}

/* --- entries --- */

static enum orr_status add_entry(struct orr__queue_plan *plan, uint32_t op, uint32_t stream,
                                 enum orr__entry_kind kind) {
    enum orr_status status =
        orr_memory_grow(plan->memory, &plan->entries, &plan->entry_capacity,
                        (size_t)plan->entry_count + 1, sizeof *plan->entries, ITEMS_MAX);
    if (status != ORR_OK)
        return status;
    plan->entries[plan->entry_count++] = (struct orr__entry){.op = op,
                                                             .stream = stream,
                                                             .kind = (uint8_t)kind,
                                                             .member_first = plan->member_count,
                                                             .dependencies = ORR_NONE};
    plan->calls[op].entry_count++;
    return ORR_OK;
}

static void add_member(struct orr__queue_plan *plan, uint32_t op) {
    plan->members[plan->member_count++] = op;
    plan->entries[plan->entry_count - 1].member_count++;
}

/* The communication that a host kept between positions first and last of its calls: one entry per
 * stream, streams in order of first use. */
static enum orr_status end_group(struct orr__queue_plan *plan, uint32_t first, uint32_t last) {
    const struct orr_stream_op *ops = plan->program->ops;
    for (uint32_t i = first; i < last; i++) {
        const struct orr_stream_op *op = &ops[plan->host_ops[i]];
        if (!is_communication(op->kind))
            continue;
        bool is_first = true;
        for (uint32_t k = first; k < i && is_first; k++)
            is_first = !is_communication(ops[plan->host_ops[k]].kind) ||
                       ops[plan->host_ops[k]].stream != op->stream;
        if (!is_first)
            continue;
        enum orr_status status = add_entry(plan, plan->host_ops[last], op->stream, ORR_ENTRY_COMM);
        if (status != ORR_OK)
            return status;
        for (uint32_t k = i; k < last; k++)
            if (is_communication(ops[plan->host_ops[k]].kind) &&
                ops[plan->host_ops[k]].stream == op->stream)
                add_member(plan, plan->host_ops[k]);
    }
    return ORR_OK;
}

static enum orr_status add_entries_of_call(struct orr__queue_plan *plan, uint32_t index,
                                           bool is_in_group) {
    const struct orr_stream_op *op = &plan->program->ops[index];
    struct orr__call *call = &plan->calls[index];
    enum orr_status status = ORR_OK;
    if (is_work(op->kind)) {
        status = add_entry(plan, index, op->stream, ORR_ENTRY_WORK);
    } else if (op->kind == ORR_OP_WAIT && !op->ignored) {
        status = add_entry(plan, index, op->stream, ORR_ENTRY_WAIT);
    } else if (is_communication(op->kind)) {
        call->is_in_group = is_in_group;
        if (!is_in_group) {
            status = add_entry(plan, index, op->stream, ORR_ENTRY_COMM);
            if (status == ORR_OK)
                add_member(plan, index);
        }
    }
    return status;
}

static enum orr_status make_entries_of(struct orr__queue_plan *plan, uint32_t host,
                                       struct orr_error *error) {
    uint32_t depth = 0, group_first = 0;
    enum orr_status status = ORR_OK;
    for (uint32_t i = plan->host_first[host]; status == ORR_OK && i < plan->host_first[host + 1];
         i++) {
        uint32_t index = plan->host_ops[i];
        plan->calls[index].entry_first = plan->entry_count;
        switch ((enum orr_stream_op_kind)plan->program->ops[index].kind) {
        case ORR_OP_GROUP_START:
            if (depth++ == 0)
                group_first = i + 1;
            break;
        case ORR_OP_GROUP_END:
            if (depth == 0)
                return orr_error_set(error, ORR_INVALID, "ops[%u]: group_end without an open group",
                                     index);
            plan->calls[index].is_outermost = --depth == 0;
            if (depth == 0)
                status = end_group(plan, group_first, i);
            break;
        default: status = add_entries_of_call(plan, index, depth > 0); break;
        }
    }
    return status;
}

static enum orr_status make_entries(struct orr__queue_plan *plan, struct orr_error *error) {
    plan->members = orr_memory_alloc(plan->memory, plan->program->op_count * sizeof *plan->members);
    if (!plan->members)
        return ORR_NO_MEMORY;
    enum orr_status status = ORR_OK;
    for (uint32_t host = 0; status == ORR_OK && host < plan->host_count; host++)
        status = make_entries_of(plan, host, error);
    return status;
}

/* --- what steps touch --- */

static enum orr_status add_use(struct orr__queue_plan *plan, uint32_t object, bool is_write) {
    enum orr_status status =
        orr_memory_grow(plan->memory, &plan->uses, &plan->use_capacity, (size_t)plan->use_count + 1,
                        sizeof *plan->uses, ITEMS_MAX);
    if (status == ORR_OK)
        plan->uses[plan->use_count++] = (struct orr__use){object, is_write};
    return status;
}

/* The ends of the streams that adding to `stream` looks at. */
static enum orr_status use_followed(struct orr__queue_plan *plan, uint32_t stream) {
    enum orr_status status = add_use(plan, stream, true);
    for (uint32_t i = 0; status == ORR_OK && i < plan->stream_count; i++)
        if (orr__queue_follows(plan, stream, i))
            status = add_use(plan, i, false);
    return status;
}

static enum orr_status use_covered(struct orr__queue_plan *plan, uint32_t stream) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < plan->stream_count; i++)
        if (orr__queue_covers(plan, stream, i))
            status = add_use(plan, i, false);
    return status;
}

static enum orr_status use_devices(struct orr__queue_plan *plan, const struct orr_stream_op *op) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < plan->stream_count; i++)
        if (orr__queue_syncs_device(plan, op, i))
            status = add_use(plan, i, false);
    return status;
}

static enum orr_status use_objects(struct orr__queue_plan *plan, uint32_t index) {
    const struct orr_stream_op *op = &plan->program->ops[index];
    struct orr__call *call = &plan->calls[index];
    enum orr_status status = ORR_OK;
    call->use_first = plan->use_count;
    for (uint32_t i = 0; status == ORR_OK && i < call->entry_count; i++)
        status = use_followed(plan, plan->entries[call->entry_first + i].stream);
    if (status == ORR_OK && call->channel != ORR_NONE)
        status = add_use(plan, plan->first_channel_object + call->channel, true);
    if (status != ORR_OK)
        return status;
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_RECORD:
        status = add_use(plan, plan->first_event_object + op->object, true);
        if (status == ORR_OK)
            status = use_covered(plan, op->stream);
        break;
    case ORR_OP_WAIT:
        if (!op->ignored)
            status = add_use(plan, plan->first_event_object + op->object, false);
        break;
    case ORR_OP_SYNC_EVENT:
        status = add_use(plan, plan->first_event_object + op->object, false);
        break;
    case ORR_OP_SYNC_STREAM: status = use_covered(plan, op->stream); break;
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC: status = use_devices(plan, op); break;
    case ORR_OP_LOCK:
    case ORR_OP_UNLOCK: status = add_use(plan, plan->first_lock_object + op->object, true); break;
    default: break;
    }
    call->use_count = plan->use_count - call->use_first;
    return status;
}

/* Slots of a device can run out only if more streams communicate there, as each has one entry at
 * most that is started and unfinished. */
static enum orr_status find_binding_slots(struct orr__queue_plan *plan) {
    plan->slots_bind = orr_memory_alloc(plan->memory, plan->device_count);
    bool *communicates = orr_memory_alloc(plan->memory, plan->stream_count);
    if (plan->slots_bind && communicates) {
        for (uint32_t i = 0; i < plan->entry_count; i++)
            if (plan->entries[i].kind == ORR_ENTRY_COMM)
                communicates[plan->entries[i].stream] = true;
        for (uint32_t device = 0; device < plan->device_count; device++) {
            uint64_t streams = 0;
            for (uint32_t i = 0; i < plan->stream_count; i++)
                streams += communicates[i] && plan->device_of[i] == device;
            plan->slots_bind[device] = streams > plan->program->slots;
        }
    }
    bool is_done = plan->slots_bind && communicates;
    orr_memory_free(plan->memory, communicates);
    return is_done ? ORR_OK : ORR_NO_MEMORY;
}

static enum orr_status make_uses(struct orr__queue_plan *plan) {
    const struct orr_stream_program *program = plan->program;
    plan->first_event_object = plan->stream_count;
    plan->first_lock_object = plan->first_event_object + program->names[ORR_NAME_EVENT].count;
    plan->first_channel_object = plan->first_lock_object + program->names[ORR_NAME_LOCK].count;
    plan->first_slot_object = plan->first_channel_object + plan->channel_count;
    plan->object_count = plan->first_slot_object + plan->device_count;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < program->op_count; i++)
        status = use_objects(plan, i);
    return status;
}

/* --- who touches what --- */

struct users {
    struct orr__queue_plan *plan;
    bool is_counting; /* else filling */
};

static void add_user(struct users *users, uint32_t object, struct orr__user user) {
    struct orr__queue_plan *plan = users->plan;
    if (!users->is_counting)
        plan->users[plan->user_first[object]] = user;
    plan->user_first[object + (users->is_counting ? 1 : 0)]++;
}

static void add_users_of_body(struct users *users, uint32_t index, const struct orr__entry *entry) {
    struct orr__queue_plan *plan = users->plan;
    const struct orr_stream_op *op = &plan->program->ops[entry->op];
    struct orr__user user = {.actor = entry->stream, .entry = index};
    for (uint32_t i = 0; i < op->step_count; i++) {
        const struct orr_stream_step *step = &plan->program->steps[op->step_first + i];
        user.is_write = step->kind != ORR_OP_SYNC_STREAM;
        if (user.is_write)
            add_user(users, plan->first_lock_object + step->object, user);
        for (uint32_t k = 0; !user.is_write && k < plan->stream_count; k++)
            if (orr__queue_covers(plan, step->object, k))
                add_user(users, k, user);
    }
}

static void add_users(struct users *users) {
    struct orr__queue_plan *plan = users->plan;
    for (uint32_t i = 0; i < plan->entry_count; i++) {
        const struct orr__entry *entry = &plan->entries[i];
        uint32_t device = plan->device_of[entry->stream];
        if (entry->kind == ORR_ENTRY_COMM && plan->slots_bind[device])
            add_user(users, plan->first_slot_object + device,
                     (struct orr__user){.actor = entry->stream, .entry = i, .is_write = true});
        if (plan->program->ops[entry->op].kind == ORR_OP_HOSTFN)
            add_users_of_body(users, i, entry);
    }
    for (uint32_t host = 0; host < plan->host_count; host++) {
        for (uint32_t i = plan->host_first[host]; i < plan->host_first[host + 1]; i++) {
            const struct orr__call *call = &plan->calls[plan->host_ops[i]];
            for (uint32_t k = 0; k < call->use_count; k++)
                add_user(users, plan->uses[call->use_first + k].object,
                         (struct orr__user){.actor = plan->stream_count + host,
                                            .call = i,
                                            .entry = ORR_NONE,
                                            .is_write = plan->uses[call->use_first + k].is_write});
        }
    }
}

static enum orr_status list_users(struct orr__queue_plan *plan) {
    plan->user_first =
        orr_memory_alloc(plan->memory, (plan->object_count + 2) * sizeof *plan->user_first);
    if (!plan->user_first)
        return ORR_NO_MEMORY;
    struct users users = {.plan = plan, .is_counting = true};
    add_users(&users);
    for (uint32_t i = 0; i < plan->object_count; i++)
        plan->user_first[i + 1] += plan->user_first[i];
    plan->users =
        orr_memory_alloc(plan->memory, plan->user_first[plan->object_count] * sizeof *plan->users);
    if (!plan->users)
        return ORR_NO_MEMORY;
    users.is_counting = false;
    add_users(&users); /* moves every beginning to its end, which is the next one's beginning */
    for (uint32_t i = plan->object_count; i > 0; i--)
        plan->user_first[i] = plan->user_first[i - 1];
    plan->user_first[0] = 0;
    return ORR_OK;
}

/* --- the state --- */

static enum orr_status number_devices(struct orr__queue_plan *plan) {
    plan->device_of = orr_memory_alloc(plan->memory, plan->stream_count * sizeof *plan->device_of);
    if (!plan->device_of)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < plan->stream_count; i++) {
        uint32_t k = 0;
        while (k < i && plan->program->streams[k].device != plan->program->streams[i].device)
            k++;
        plan->device_of[i] = k < i ? plan->device_of[k] : plan->device_count++;
    }
    return ORR_OK;
}

static void number_dependencies(struct orr__queue_plan *plan, uint32_t *out_rows) {
    *out_rows = 0;
    for (uint32_t i = 0; i < plan->entry_count; i++) {
        struct orr__entry *entry = &plan->entries[i];
        bool has = entry->kind == ORR_ENTRY_WAIT;
        for (uint32_t k = 0; k < plan->stream_count && !has; k++)
            has = orr__queue_follows(plan, entry->stream, k);
        if (has)
            entry->dependencies = (*out_rows)++;
    }
}

static uint32_t take(uint64_t *words, uint64_t count) {
    uint64_t at = *words;
    *words += count;
    return at > ORR_QUEUE_STATE_WORDS_MAX ? ORR_QUEUE_STATE_WORDS_MAX : (uint32_t)at;
}

static enum orr_status lay_out(struct orr__queue_plan *plan, struct orr_error *error) {
    const struct orr_stream_program *program = plan->program;
    struct orr__queue_layout *at = &plan->at;
    plan->queue_first =
        orr_memory_alloc(plan->memory, plan->stream_count * sizeof *plan->queue_first);
    if (!plan->queue_first)
        return ORR_NO_MEMORY;
    uint64_t words = 0;
    uint32_t rows;
    number_dependencies(plan, &rows);
    at->calls = take(&words, plan->host_count);
    at->counters = take(&words, plan->channel_count);
    at->numbers = take(&words, program->op_count);
    at->lengths = take(&words, plan->stream_count);
    at->heads = take(&words, plan->stream_count);
    at->progress = take(&words, plan->stream_count);
    at->running = take(&words, plan->device_count);
    at->flags = take(&words, program->names[ORR_NAME_FLAG].count);
    at->locks = take(&words, program->names[ORR_NAME_LOCK].count);
    at->finished = take(&words, plan->entry_count);
    at->mismatch = take(&words, 2);
    at->events =
        take(&words, (uint64_t)program->names[ORR_NAME_EVENT].count * (1 + plan->stream_count));
    at->dependencies = take(&words, (uint64_t)rows * plan->stream_count);
    for (uint32_t i = 0; i < plan->stream_count; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < plan->entry_count; k++)
            count += plan->entries[k].stream == i;
        plan->queue_first[i] = take(&words, count);
    }
    for (uint32_t i = 0; i < plan->channel_count; i++)
        plan->channels[i].started = take(&words, plan->channels[i].count);
    if (words > ORR_QUEUE_STATE_WORDS_MAX)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "too large to explore: a state of %llu words, and %d are the limit",
                             (unsigned long long)words, ORR_QUEUE_STATE_WORDS_MAX);
    at->words = (uint32_t)words;
    plan->step_max = program->op_count + 2 * plan->entry_count + program->step_count;
    return ORR_OK;
}

/* --- life --- */

static enum orr_status build(struct orr__queue_plan *plan, struct orr_error *error) {
    if (plan->program->op_count > ORR_QUEUE_OPS_MAX)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "too large to explore: %u operations, and %d are the limit",
                             plan->program->op_count, ORR_QUEUE_OPS_MAX);
    enum orr_status status = list_calls(plan);
    if (status == ORR_OK)
        status = number_devices(plan);
    if (status == ORR_OK)
        status = make_channels(plan);
    if (status == ORR_OK)
        status = make_entries(plan, error);
    if (status == ORR_OK)
        status = find_binding_slots(plan);
    if (status == ORR_OK)
        status = make_uses(plan);
    if (status == ORR_OK)
        status = list_users(plan);
    if (status == ORR_OK)
        status = lay_out(plan, error);
    return status;
}

enum orr_status orr__queue_plan_create(const struct orr_stream_program *program,
                                       struct orr__queue_plan **out_plan, struct orr_error *error) {
    assert(program->oracle == ORR_ORACLE_HANG);
    struct orr__queue_plan *plan = orr_memory_alloc(program->memory, sizeof *plan);
    *out_plan = NULL;
    if (!plan)
        return ORR_NO_MEMORY;
    plan->program = program;
    plan->memory = program->memory;
    plan->stream_count = program->names[ORR_NAME_STREAM].count;
    plan->host_count = program->names[ORR_NAME_HOST].count;
    plan->actor_count = plan->stream_count + plan->host_count;
    enum orr_status status = build(plan, error);
    if (status != ORR_OK)
        orr__queue_plan_destroy(&plan);
    *out_plan = plan;
    return status;
}

void orr__queue_plan_destroy(struct orr__queue_plan **handle) {
    struct orr__queue_plan *plan = *handle;
    if (!plan)
        return;
    const struct orr_memory *memory = plan->memory;
    orr_memory_free(memory, plan->calls);
    orr_memory_free(memory, plan->host_ops);
    orr_memory_free(memory, plan->host_first);
    orr_memory_free(memory, plan->entries);
    orr_memory_free(memory, plan->members);
    orr_memory_free(memory, plan->queue_first);
    orr_memory_free(memory, plan->device_of);
    orr_memory_free(memory, plan->slots_bind);
    orr_memory_free(memory, plan->channels);
    orr_memory_free(memory, plan->comm_channels);
    orr_memory_free(memory, plan->comm_first);
    orr_memory_free(memory, plan->uses);
    orr_memory_free(memory, plan->users);
    orr_memory_free(memory, plan->user_first);
    orr_memory_free(memory, plan);
    *handle = NULL;
}
