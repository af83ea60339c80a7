/* Our own timelines: ops, what is equal for many of them, and collectives. */
#include "analyzer/events_fill.h"
#include "analyzer/operator_set.h"

/* The row of a command: its logical operator's name, kind and shape, else its own name and kind.
 * The unit is the command's: one operator may be lowered to kernels of both sorts. */
static enum orr_status operator_row(struct orr__filler *b, struct orr__operator_set *set,
                                    size_t command, uint32_t *out_row) {
    const struct orr_timeline_command *c = &b->timeline->commands[command];
    uint32_t op = orr__find_op(b->timeline, c->op);
    struct orr_events_operator item = {
        .name = c->name,
        .kind = c->kind == ORR_COMMAND_KERNEL ? "" : orr_command_kind_text(c->kind),
        .shape = "",
        .dtype = (uint8_t)c->dtype,
        .unit = c->unit ? 1 : 0};
    if (op == ORR_EVENTS_NONE) {
        return orr__operator_intern(b->events, set, &item, out_row);
    }
    const struct orr_timeline_op *o = &b->timeline->ops[op];
    if (c->kind == ORR_COMMAND_KERNEL) {
        item.name = o->name;
        item.kind = o->kind;
    }
    item.shape = o->shape;
    /* Most operators launch one kernel each, or equal ones on many devices: remember the last
     * row. */
    uint32_t known = b->operator_of[op];
    if (known != ORR_EVENTS_NONE && orr__operator_same(&b->events->operators[known], &item)) {
        *out_row = known;
        return ORR_OK;
    }
    enum orr_status status = orr__operator_intern(b->events, set, &item, out_row);
    b->operator_of[op] = *out_row;
    return status;
}

static void count_status(struct orr_events_source *source, enum orr_command_status status) {
    source->failed_ops += status == ORR_COMMAND_STATUS_FAILED;
    source->poisoned_ops += status == ORR_COMMAND_STATUS_POISONED;
    source->skipped_ops += status == ORR_COMMAND_STATUS_SKIPPED;
}

/* Broadcast operands are counted once per operator and device. */
static uint64_t broadcast_of(struct orr__filler *b, const struct orr_timeline_command *c,
                             uint32_t device) {
    uint32_t op = orr__find_op(b->timeline, c->op);
    if (c->kind != ORR_COMMAND_KERNEL || op == ORR_EVENTS_NONE ||
        b->last_broadcast[device] == c->op) {
        return 0;
    }
    b->last_broadcast[device] = c->op;
    return b->timeline->ops[op].bytes_broadcast;
}

static enum orr_op_kind op_kind(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL       ? ORR_DEVICE_OP_KERNEL
           : kind == ORR_COMMAND_COLLECTIVE ? ORR_DEVICE_OP_COLLECTIVE
           : kind == ORR_COMMAND_COPY       ? ORR_DEVICE_OP_COPY
                                            : ORR_DEVICE_OP_FILL;
}

static enum orr_activity op_activity(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL       ? ORR_ACTIVITY_COMPUTE
           : kind == ORR_COMMAND_COLLECTIVE ? ORR_ACTIVITY_COMM
                                            : ORR_ACTIVITY_COPY;
}

/* A command that ran to its end becomes an op; others are counted by what they lack. */
static enum orr_status add_op(struct orr__filler *b, struct orr__operator_set *set, size_t index) {
    const struct orr_timeline_command *c = &b->timeline->commands[index];
    struct orr_events *events = b->events;
    count_status(&events->source, c->status);
    if (c->start_ns == ORR_TIME_NONE || c->finish_ns == ORR_TIME_NONE) {
        events->source.never_started++;
        events->source.unfinished += c->start_ns != ORR_TIME_NONE;
        return ORR_OK;
    }
    uint32_t stream = orr__find_stream(b->timeline, c->stream);
    stream = stream == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : b->stream_index[stream];
    if (stream == ORR_EVENTS_NONE) {
        events->source.bad_ops++;
        return ORR_OK;
    }
    struct orr_events_op op = {
        .start_ns = c->start_ns,
        .end_ns = c->finish_ns,
        .ready_ns = orr__good_time(c->ready_ns) ? c->ready_ns : ORR_TIME_NONE,
        .wait_ns = ORR_TIME_NONE,
        .wait_op = ORR_EVENTS_NONE,
        .wait_call = ORR_EVENTS_NONE,
        .correlation = c->id,
        .flops = c->flops,
        .bytes_read = c->bytes_read,
        .bytes_written = c->bytes_written,
        .bytes_broadcast = broadcast_of(b, c, events->streams[stream].device),
        .stream = stream,
        .call = b->call_of[index],
        .collective = b->collective_of ? b->collective_of[index] : ORR_EVENTS_NONE,
        .command = (uint32_t)index,
        .name = c->name,
        .kind = (uint8_t)op_kind(c->kind),
        .activity = (uint8_t)op_activity(c->kind),
        .has_cost = 1,
        .status = (uint8_t)c->status,
    };
    enum orr_status status = operator_row(b, set, index, &op.operator_index);
    return status == ORR_OK ? orr_events_add_op(events, &op, &b->op_of[index]) : status;
}

enum orr_status orr__fill_ops(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    struct orr__operator_set set = {0};
    for (size_t i = 0; i < t->op_count; i++) {
        b->operator_of[i] = ORR_EVENTS_NONE;
    }
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        b->op_of[i] = ORR_EVENTS_NONE;
        if (orr__is_op_kind(t->commands[i].kind)) {
            status = add_op(b, &set, i);
        }
    }
    orr__operator_set_free(b->memory, &set);
    return status;
}
/* ------------------------------------------------------------------------------------------------
 * Collectives */

/* Members of each communicator. */
static void count_members(const struct orr_timeline *t, uint32_t *sizes) {
    for (size_t i = 0; i < t->member_count; i++) {
        uint32_t communicator = orr__find_communicator(t, t->members[i].communicator);
        if (communicator != ORR_EVENTS_NONE) {
            sizes[communicator]++;
        }
    }
}

static enum orr_status add_collective_rows(struct orr__filler *b, const uint32_t *sizes) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->collective_count; i++) {
        const struct orr_timeline_collective *c = &t->collectives[i];
        uint32_t group = orr__find_communicator(t, c->communicator);
        bool known = group != ORR_EVENTS_NONE;
        struct orr_events_collective item = {
            .kind = c->kind,
            .group = known ? t->communicators[group].name : "",
            .seq = c->seq,
            .bytes = c->bytes,
            .modelled_ns = c->modelled_ns == ORR_TIME_NONE ? 0 : c->modelled_ns,
            .emulated = c->emulated,
            .size = known ? sizes[group] : 0};
        enum orr_status status = orr_events_add_collective(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

enum orr_status orr__fill_collectives(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    if (t->collective_count == 0) {
        return ORR_OK;
    }
    b->collective_of = orr_memory_alloc(b->memory, t->command_count * sizeof *b->collective_of);
    uint32_t *sizes = orr_memory_alloc(b->memory, t->communicator_count * sizeof *sizes);
    enum orr_status status = b->collective_of && sizes ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        count_members(t, sizes);
        status = add_collective_rows(b, sizes);
    }
    orr_memory_free(b->memory, sizes);
    if (status != ORR_OK) {
        return status;
    }
    for (size_t i = 0; i < t->command_count; i++) {
        b->collective_of[i] = ORR_EVENTS_NONE;
    }
    for (size_t i = 0; i < t->collective_member_count; i++) {
        const struct orr_timeline_collective_member *m = &t->collective_members[i];
        uint32_t command = orr__find_command(t, m->cmd);
        size_t row = orr__find_u64(t->collectives, t->collective_count, sizeof *t->collectives,
                                   offsetof(struct orr_timeline_collective, id), m->collective);
        if (command != ORR_EVENTS_NONE && row < t->collective_count &&
            t->collectives[row].id == m->collective) {
            b->collective_of[command] = (uint32_t)row;
        }
    }
    return ORR_OK;
}
