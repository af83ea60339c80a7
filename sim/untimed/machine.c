/* Queues: commands enter at the call, and leave when they are chosen, or at once if they are no
 * steps. */
#include "sim/untimed/untimed_internal.h"

uint32_t orr__x_process_new(struct orr_untimed *x, bool is_host, uint32_t index) {
    if (x->process_count == ORR__X_PROCESSES) {
        x->over = true;
        x->outcome = ORR_UNTIMED_TOO_LONG;
        return ORR_ID_NONE;
    }
    uint32_t process = x->process_count++;
    x->lanes = (x->process_count + 7) / 8 * 8;
    x->processes[process] = (struct orr__x_process){.is_host = is_host, .index = (uint8_t)index};
    orr__x_process_appears(x, process);
    return process;
}

enum orr_status orr__x_stream_create(struct orr_backend *backend, uint32_t device,
                                     enum orr_stream_kind kind, uint32_t *out_stream,
                                     struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    (void)kind;
    *out_stream = ORR_ID_NONE;
    uint32_t process = orr__x_process_new(x, false, x->stream_count);
    if (process == ORR_ID_NONE) {
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "exploration is for at most %d streams and hosts together",
                             ORR_UNTIMED_PROCESSES_MAX);
    }
    struct orr__x_stream *stream = &x->streams[x->stream_count];
    struct orr__x_slot *slots = stream->slots;
    struct orr__x_retired *retireds = stream->retireds;
    *stream = (struct orr__x_stream){.slots = slots,
                                     .slot_capacity = stream->slot_capacity,
                                     .retireds = retireds,
                                     .retired_capacity = stream->retired_capacity,
                                     .device = device,
                                     .process = process,
                                     .waits_for = ORR_ID_NONE};
    *out_stream = x->stream_count++;
    return ORR_OK;
}

/* --- retiring --- */

/* The head has ended with this status; the next slot is the head. */
static void retire_head(struct orr_untimed *x, uint32_t id, enum orr_command_status status) {
    struct orr__x_stream *stream = &x->streams[id];
    struct orr__x_slot *head = orr__x_head(stream);
    struct orr_command *command = head->command;
    stream->head++;
    stream->count--;
    stream->ready = false;
    if (!command) {
        return;
    }
    assert(head->seq == stream->retired + 1);
    stream->retireds[stream->retired] =
        (struct orr__x_retired){.clock = stream->clock, .cause = stream->cause};
    stream->retired++;
    bool failed = status == ORR_COMMAND_STATUS_FAILED || status == ORR_COMMAND_STATUS_SKIPPED;
    if (failed && !stream->failed) {
        stream->failed = true;
        stream->failed_seq = head->seq;
    }
    struct orr_record_command *record = &command->record;
    int64_t now_ns = x->hosts[record->host].now_ns;
    record->ready_ns = record->start_ns = record->finish_ns = now_ns;
    record->header.c = (uint8_t)status;
    x->retire.retired(x->retire.context, command, failed ? stream->failure : NULL);
}

static void inherit_failure(struct orr_untimed *x, struct orr__x_stream *stream,
                            struct orr_point point) {
    const struct orr__x_stream *other = &x->streams[point.stream];
    if (!stream->failed && other->failed && other->failed_seq <= point.seq) {
        stream->failed = true;
        stream->failed_seq = stream->retired + 1;
        stream->failure = other->failure;
    }
}

/* Whether the head's waits are over. What it waited for comes before it. */
static bool make_ready(struct orr_untimed *x, uint32_t id) {
    struct orr__x_stream *stream = &x->streams[id];
    const struct orr__x_slot *head = orr__x_head(stream);
    for (uint32_t i = 0; i < head->wait_count; i++) {
        struct orr_point point = x->waits[head->first_wait + i];
        if (!orr__x_retired(x, point)) {
            x->streams[point.stream].waiters |= ORR__X_BIT(id);
            stream->waits_for = point.stream;
            stream->waits_seq = point.seq;
            return false;
        }
    }
    stream->waits_for = ORR_ID_NONE;
    stream->clock = orr__x_clock_join(x, stream->clock, head->clock);
    for (uint32_t i = 0; i < head->wait_count; i++) {
        struct orr_point point = x->waits[head->first_wait + i];
        if (point.seq > 0) {
            struct orr__x_retired other = x->streams[point.stream].retireds[point.seq - 1];
            stream->clock = orr__x_clock_join(x, stream->clock, other.clock);
            stream->cause = other.cause > stream->cause ? other.cause : stream->cause;
            inherit_failure(x, stream, point);
        }
    }
    stream->ready = true;
    return true;
}

/* The head is a step that can be chosen, once all members of its collective are there. */
static void offer(struct orr_untimed *x, uint32_t id) {
    const struct orr__x_slot *head = orr__x_head(&x->streams[id]);
    uint32_t process = x->streams[id].process;
    if (head->group) {
        struct orr__x_group *group = &x->groups[head->group - 1];
        if (++group->arrived < group->count) {
            return;
        }
        process = x->streams[x->group_streams[group->first]].process;
    }
    x->enabled |= ORR__X_BIT(process);
    x->orders[process] = head->order;
}

/* Streams (bits) go on as far as they can without a step. */
static void settle(struct orr_untimed *x, uint64_t streams) {
    while (streams) {
        uint32_t id = (uint32_t)__builtin_ctzll(streams);
        struct orr__x_stream *stream = &x->streams[id];
        streams &= streams - 1;
        while (stream->count > 0 && !stream->ready && make_ready(x, id)) {
            if (orr__x_head(stream)->works && !stream->failed) {
                offer(x, id);
                break;
            }
            if (orr__x_head(stream)->group) {
                offer(x, id); /* a failed member: the others must not wait for ever */
                break;
            }
            if (stream->failed) {
                orr__x_skip(x, orr__x_head(stream)->command);
            }
            retire_head(x, id, stream->failed ? ORR_COMMAND_STATUS_SKIPPED : ORR_COMMAND_STATUS_OK);
            streams |= stream->waiters;
            stream->waiters = 0;
        }
    }
}

static void execute_group(struct orr_untimed *x, uint32_t number) {
    const struct orr__x_group group = x->groups[number];
    const uint32_t *streams = &x->group_streams[group.first];
    enum orr_command_status status = orr__x_compute_group(x, &group);
    uint32_t clock = x->events[x->cause].clock;
    uint64_t dirty = 0;
    for (uint32_t i = 0; i < group.count; i++) {
        struct orr__x_stream *stream = &x->streams[streams[i]];
        stream->clock = clock;
        stream->cause = x->cause + 1;
        retire_head(x, streams[i], status);
        dirty |= ORR__X_BIT(streams[i]) | stream->waiters;
        stream->waiters = 0;
    }
    settle(x, dirty);
}

void orr__x_execute(struct orr_untimed *x, uint32_t process) {
    uint32_t id = x->processes[process].index;
    struct orr__x_stream *stream = &x->streams[id];
    const struct orr__x_slot *head = orr__x_head(stream);
    assert(stream->ready && (x->enabled & ORR__X_BIT(process)));
    x->enabled &= ~ORR__X_BIT(process);
    x->cause = x->step_count - 1;
    if (head->group) {
        execute_group(x, head->group - 1);
    } else {
        enum orr_command_status status = ORR_COMMAND_STATUS_OK;
        if (head->command) {
            status = orr__x_compute(x, id, head->command);
        } else if (orr__range_undefine(&x->memories[head->undefines.memory], x->memory,
                                       head->undefines.offset,
                                       head->undefines.offset + head->undefines.bytes) != ORR_OK) {
            x->out_of_memory = true;
        }
        stream->clock = x->events[x->cause].clock;
        stream->cause = x->cause + 1;
        retire_head(x, id, status);
        uint64_t dirty = ORR__X_BIT(id) | stream->waiters;
        stream->waiters = 0;
        settle(x, dirty);
    }
    x->cause = ORR_ID_NONE;
}

bool orr__x_would_retire(const struct orr_untimed *x, uint32_t by, struct orr_point point) {
    if (orr__x_retired(x, point)) {
        return true;
    }
    const struct orr__x_stream *stream = &x->streams[point.stream];
    const struct orr__x_slot *head = &x->streams[by].slots[x->streams[by].head];
    for (uint32_t i = 0; i < stream->count; i++) {
        const struct orr__x_slot *slot = &stream->slots[stream->head + i];
        if (slot->command && slot->seq > point.seq) {
            return true;
        }
        if (slot->works) {
            bool is_it = slot == head || (slot->group && slot->group == head->group);
            if (!is_it) {
                return false;
            }
            continue;
        }
        for (uint32_t k = 0; k < slot->wait_count; k++) {
            if (!orr__x_would_retire(x, by, x->waits[slot->first_wait + k])) {
                return false;
            }
        }
    }
    return true;
}

/* --- submitting --- */

static struct orr__x_slot *push_slot(struct orr_untimed *x, uint32_t id) {
    struct orr__x_stream *stream = &x->streams[id];
    size_t used = stream->head + stream->count;
    if (orr__x_reserve(x, &stream->slots, &stream->slot_capacity, used + 1, sizeof *stream->slots,
                       ORR__X_SLOTS) != ORR_OK ||
        orr__x_reserve(x, &stream->retireds, &stream->retired_capacity, stream->submitted + 1,
                       sizeof *stream->retireds, ORR__X_SLOTS) != ORR_OK) {
        return NULL;
    }
    stream->count++;
    return &stream->slots[used];
}

static bool push_command(struct orr_untimed *x, uint32_t id, const struct orr_command *command,
                         const struct orr_point *waits, uint32_t wait_count, uint32_t group) {
    if (orr__x_reserve(x, &x->waits, &x->wait_capacity, x->wait_count + wait_count,
                       sizeof *x->waits, ORR__X_SLOTS) != ORR_OK) {
        return false;
    }
    struct orr__x_slot *slot = push_slot(x, id);
    if (!slot) {
        return false;
    }
    struct orr__x_stream *stream = &x->streams[id];
    struct orr__x_host *host = &x->hosts[command->record.host];
    assert(command->in_place);
    *slot = (struct orr__x_slot){.command = command->in_place,
                                 .id = (uint64_t)command->record.host << 32 | host->commands++,
                                 .seq = ++stream->submitted,
                                 .clock = host->clock,
                                 .order = x->order_count++,
                                 .first_wait = (uint32_t)x->wait_count,
                                 .wait_count = wait_count,
                                 .group = group,
                                 .works = command->access_count > 0 || group > 0};
    for (uint32_t i = 0; i < wait_count; i++) {
        x->waits[x->wait_count++] = waits[i];
    }
    struct orr_record_command *record = &slot->command->record;
    record->seq = slot->seq;
    record->enqueue_ns = host->now_ns++;
    record->enqueued_ns = host->now_ns;
    return true;
}

/* With several hosts a submit is a step of its host. */
static enum orr__x_turn turn_to_submit(struct orr_untimed *x, const struct orr_command *command,
                                       const uint32_t *streams, uint32_t count) {
    if (x->over) {
        return ORR__X_OTHERS;
    }
    if (!x->multi || (command->flags & (ORR_COMMAND_GRAPH_NODE | ORR_COMMAND_IN_CALL))) {
        return ORR__X_MINE;
    }
    struct orr__x_call *call = &x->hosts[command->record.host].call;
    orr__x_call_begin(call, ORR_UNTIMED_HOST_CALL);
    call->command_kind = (enum orr_command_kind)command->record.header.a;
    call->name = command->record.name;
    call->site = command->record.site;
    for (uint32_t i = 0; i < count; i++) {
        orr__x_call_touch(x, call, ORR__X_OF_STREAMS, streams[i], 1, ORR_ACCESS_WRITE);
    }
    if (command->record.event) {
        bool records = command->record.header.a == ORR_COMMAND_RECORD;
        orr__x_call_touch(x, call, ORR__X_OF_EVENTS, command->record.event, 1,
                          records ? ORR_ACCESS_WRITE : ORR_ACCESS_READ);
    }
    return orr__x_take_turn(x, command->record.host);
}

enum orr_status orr__x_submit(struct orr_backend *backend, uint32_t id,
                              const struct orr_command *command, const struct orr_point *waits,
                              uint32_t wait_count, struct orr_point *out_point,
                              struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    *out_point = (struct orr_point){.stream = id};
    if (turn_to_submit(x, command, &id, 1) != ORR__X_MINE) {
        return ORR_BLOCKED;
    }
    if (!push_command(x, id, command, waits, wait_count, 0)) {
        return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
    }
    out_point->seq = x->streams[id].submitted;
    if (x->streams[id].count == 1) {
        settle(x, ORR__X_BIT(id));
    }
    return ORR_OK;
}

/* A group of the commands, with all that they touch; its number + 1, or 0 without memory. */
static uint32_t make_group(struct orr_untimed *x, const uint32_t *streams,
                           const struct orr_command *commands, uint32_t count) {
    size_t accesses = 0;
    for (uint32_t i = 0; i < count; i++) {
        accesses += commands[i].access_count;
    }
    if (orr__x_reserve(x, &x->groups, &x->group_capacity, x->group_count + 1, sizeof *x->groups,
                       ORR__X_SLOTS) != ORR_OK ||
        orr__x_reserve(x, &x->group_streams, &x->group_stream_capacity,
                       x->group_stream_count + count, sizeof *x->group_streams,
                       ORR__X_SLOTS) != ORR_OK ||
        orr__x_reserve(x, &x->group_accesses, &x->group_access_capacity,
                       x->group_access_count + accesses, sizeof *x->group_accesses,
                       ORR__X_SLOTS) != ORR_OK ||
        orr__x_reserve(x, (void *)&x->members, &x->member_capacity, count, sizeof *x->members,
                       ORR__X_SLOTS) != ORR_OK) {
        return 0;
    }
    x->groups[x->group_count++] =
        (struct orr__x_group){.count = count,
                              .first = (uint32_t)x->group_stream_count,
                              .first_access = (uint32_t)x->group_access_count,
                              .access_count = (uint32_t)accesses};
    for (uint32_t i = 0; i < count; i++) {
        x->group_streams[x->group_stream_count++] = streams[i];
        for (uint32_t k = 0; k < commands[i].access_count; k++) {
            x->group_accesses[x->group_access_count++] = commands[i].accesses[k];
        }
    }
    return (uint32_t)x->group_count;
}

enum orr_status orr__x_submit_group(struct orr_backend *backend, const uint32_t *streams,
                                    const struct orr_command *commands, uint32_t count,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_points, struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    out_points[0] = (struct orr_point){.stream = streams[0]};
    if (turn_to_submit(x, &commands[0], streams, count) != ORR__X_MINE) {
        return ORR_BLOCKED;
    }
    uint32_t group = make_group(x, streams, commands, count);
    uint64_t dirty = 0;
    for (uint32_t i = 0; group && i < count; i++) {
        if (!push_command(x, streams[i], &commands[i], waits, wait_count, group)) {
            group = 0;
        }
        out_points[i] =
            (struct orr_point){.stream = streams[i], .seq = x->streams[streams[i]].submitted};
        dirty |= ORR__X_BIT(streams[i]);
    }
    if (!group) { /* nothing can be taken back: the exploration is over */
        return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
    }
    settle(x, dirty);
    return ORR_OK;
}

void orr__x_undefine(struct orr_untimed *x, uint32_t id, uint32_t memory, uint64_t offset,
                     uint64_t bytes) {
    uint32_t host = x->current;
    struct orr__x_slot *slot = push_slot(x, id);
    if (!slot) {
        return;
    }
    *slot = (struct orr__x_slot){
        .id = (uint64_t)host << 32 | x->hosts[host].commands++,
        .clock = x->hosts[host].clock,
        .order = x->order_count++,
        .works = true,
        .undefines = {
            .memory = memory, .mode = ORR_ACCESS_WRITE, .offset = offset, .bytes = bytes}};
    if (x->streams[id].count == 1) {
        settle(x, ORR__X_BIT(id));
    }
}

void orr__x_retire_all(struct orr_untimed *x) {
    for (uint32_t i = 0; i < x->stream_count; i++) {
        while (x->streams[i].count > 0) {
            retire_head(x, i, ORR_COMMAND_STATUS_PENDING);
        }
    }
}
