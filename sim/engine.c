/* The engine: heads of streams become ready, enter service, and finish, in the agenda's order. */
#include <assert.h>

#include "sim/sim_internal.h"

void orr__engine_ready(struct orr__sim *sim, struct orr__stream *stream) {
    if (stream->ready) {
        return;
    }
    stream->ready = true;
    stream->ready_next = NULL;
    if (sim->ready_last) {
        sim->ready_last->ready_next = stream;
    } else {
        sim->ready_first = stream;
    }
    sim->ready_last = stream;
}

static struct orr__stream *take_ready(struct orr__sim *sim) {
    struct orr__stream *stream = sim->ready_first;
    sim->ready_first = stream->ready_next;
    if (!sim->ready_first) {
        sim->ready_last = NULL;
    }
    stream->ready = false;
    return stream;
}

/* Puts the stream into the list of those that wait for `point`, by ascending seq. Equal seqs stay
 * in order of arrival. */
static void wait_in_line(struct orr__sim *sim, struct orr__stream *stream, struct orr_point point) {
    struct orr__stream *producer = sim->streams[point.stream], *after = producer->waiters_last;
    while (after && after->waiting_seq > point.seq) {
        after = after->waiter_before;
    }
    stream->waiting_on = point.stream;
    stream->waiting_seq = point.seq;
    stream->waiter_before = after;
    stream->waiter_next = after ? after->waiter_next : producer->waiters_first;
    *(after ? &after->waiter_next : &producer->waiters_first) = stream;
    *(stream->waiter_next ? &stream->waiter_next->waiter_before : &producer->waiters_last) = stream;
}

/* True once every awaited point has retired; otherwise the stream stands in line for the first that
 * has not. A failed point makes the head a skipped one. */
static bool waits_are_over(struct orr__sim *sim, struct orr__stream *stream,
                           struct orr__sim_command *head) {
    const struct orr_point *waits = head->more_waits ? head->more_waits : head->waits;
    for (; head->waits_done < head->wait_count; head->waits_done++) {
        struct orr_point point = waits[head->waits_done];
        const struct orr__stream *producer = sim->streams[point.stream];
        if (producer->retired < point.seq) {
            wait_in_line(sim, stream, point);
            return false;
        }
        if (producer->failed && point.seq >= producer->failed_seq && !stream->failed) {
            stream->failed = true;
            stream->failed_seq = stream->retired + 1;
            stream->cause = producer->cause;
        }
    }
    return true;
}

static int64_t latest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* When the head starts, now that nothing holds it back but time. */
static int64_t start_of(const struct orr__sim *sim, const struct orr__stream *stream,
                        const struct orr__sim_command *head) {
    int64_t start_ns = latest(latest(head->eligible_ns, stream->tail_ns), sim->now_ns);
    bool works = head->command.record.header.a <= ORR_COMMAND_HOSTFN; /* no record, wait, join */
    if ((head->command.flags & ORR_COMMAND_GRAPH_NODE) && works && stream->retired > 0) {
        int64_t gap_ns = sim->devices[stream->device].spec->graph_node_ns;
        start_ns = latest(start_ns, stream->tail_ns + gap_ns);
    }
    return start_ns;
}

static void begin_uses(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns) {
    const struct orr_command *command = &orr__stream_head(stream)->command;
    if (!sim->timing_only && command->access_count &&
        orr__uses_begin(sim->memories, sim->memory, command, stream->id, start_ns) != ORR_OK) {
        sim->out_of_memory = true;
    }
}

/* Work of the head, with what rounding left over from the command right before it. */
static uint64_t work_with_carry(const struct orr__stream *stream, uint64_t work, int64_t start_ns) {
    if (stream->retired == 0 || start_ns != stream->tail_ns) {
        return work;
    }
    if (stream->carry < 0 && work < (uint64_t)-stream->carry) {
        return 0;
    }
    return work + (uint64_t)stream->carry;
}

/* Tries to bring the head of a stream into service; finishes it at once if it takes no time. */
static void try_head(struct orr__sim *sim, struct orr__stream *stream) {
    if (stream->count == 0 || stream->in_service || stream->waiting_on != ORR_ID_NONE) {
        return;
    }
    struct orr__sim_command *head = orr__stream_head(stream);
    struct orr_record_command *record = &head->command.record;
    if (record->header.a == ORR_COMMAND_WAIT && record->start_ns == ORR_TIME_NONE) {
        record->start_ns = latest(record->enqueued_ns, stream->tail_ns);
    }
    if (!waits_are_over(sim, stream, head)) {
        return;
    }
    int64_t start_ns = start_of(sim, stream, head);
    int64_t ready_ns = latest(latest(record->enqueued_ns, stream->tail_ns), sim->now_ns);
    record->ready_ns = ready_ns < start_ns ? ready_ns : start_ns;
    if (record->start_ns == ORR_TIME_NONE) {
        record->start_ns = start_ns;
    }
    if (stream->failed) {
        record->header.c = ORR_COMMAND_STATUS_SKIPPED;
        head->work = (struct orr__work){0};
    }
    if (head->group) {
        begin_uses(sim, stream, start_ns);
        orr__group_arrive(sim, stream, start_ns);
        return;
    }
    stream->rem = work_with_carry(stream, head->work.work, start_ns);
    if (head->work.work == 0) {
        stream->rem = 0;
    }
    if (stream->rem == 0 && start_ns == sim->now_ns && head->command.access_count == 0) {
        if (head->work.work != 0 || start_ns != stream->tail_ns) {
            stream->carry = 0;
        }
        orr__finish_head(sim, stream, start_ns);
        return;
    }
    begin_uses(sim, stream, start_ns);
    stream->on_engine =
        record->header.a == ORR_COMMAND_COPY && head->work.sm == 0 && head->work.work > 0;
    orr__service_enter(sim, stream, start_ns);
    orr__service_reschedule(sim, stream->device);
}

void orr__engine_drain(struct orr__sim *sim) {
    while (sim->ready_first) {
        try_head(sim, take_ready(sim));
    }
}

/* The stream whose head ends at `now`: the one with the smallest id, so that the order does not
 * depend on who entered service when. */
static struct orr__stream *ending(const struct orr__device *device, int64_t now_ns) {
    struct orr__stream *found = NULL;
    for (uint32_t i = 0; i < device->running_count; i++) {
        struct orr__stream *stream = device->running[i];
        if (stream->finish_ns == now_ns && (!found || stream->id < found->id)) {
            found = stream;
        }
    }
    return found;
}

void orr__engine_step(struct orr__sim *sim) {
    struct orr__event event = *orr__agenda_top(&sim->agenda);
    assert(event.time_ns >= sim->now_ns);
    sim->now_ns = event.time_ns;
    struct orr__device *device = &sim->devices[event.device];
    struct orr__stream *stream;
    while ((stream = ending(device, event.time_ns)) != NULL) {
        orr__service_leave(sim, stream);
        orr__finish_head(sim, stream, event.time_ns);
    }
    orr__engine_drain(sim);
    if (device->changed || event.class == ORR__EVENT_START) {
        orr__service_reschedule(sim, event.device);
    }
}
