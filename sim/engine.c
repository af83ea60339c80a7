/* The engine: heads of streams become ready, enter service, and finish, in the agenda's order. */
#include <assert.h>

#include "sim/perturb.h"

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
    producer->observed = true;
    stream->waiting_on = point.stream;
    stream->waiting_seq = point.seq;
    stream->waiter_before = after;
    stream->waiter_next = after ? after->waiter_next : producer->waiters_first;
    *(after ? &after->waiter_next : &producer->waiters_first) = stream;
    *(stream->waiter_next ? &stream->waiter_next->waiter_before : &producer->waiters_last) = stream;
}

/* False: the point has not retired, and the stream stands in line for it. A failed point makes the
 * head a skipped one. */
static bool point_is_over(struct orr__sim *sim, struct orr__stream *stream,
                          struct orr_point point) {
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
    return true;
}

/* True once every awaited point has retired. */
static bool waits_are_over(struct orr__sim *sim, struct orr__stream *stream,
                           struct orr__sim_command *head) {
    if (head->bits & ORR__SLOT_WAITS) {
        return point_is_over(
            sim, stream, (struct orr_point){.stream = head->wait_stream, .seq = head->wait_seq});
    }
    struct orr__wait_list *list = head->list;
    for (; list->done < list->count; list->done++) {
        if (!point_is_over(sim, stream, list->points[list->done])) {
            return false;
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
    bool works = head->kind <= ORR_COMMAND_HOSTFN; /* no record, wait, join */
    if ((head->bits & ORR__SLOT_NODE) && works && stream->retired > 0) {
        int64_t gap_ns = sim->devices[stream->device].spec->graph_node_ns;
        start_ns = latest(start_ns, stream->tail_ns + gap_ns);
    }
    return start_ns;
}

static void begin_uses(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns) {
    const struct orr__sim_command *head = orr__stream_head(stream);
    if (!sim->timing_only && (head->bits & ORR__SLOT_ACCESSES) &&
        orr__uses_begin(sim->memories, sim->memory, head->command, stream->id, start_ns) !=
            ORR_OK) {
        sim->out_of_memory = true;
    }
}

/* Sets what the head has to do: its work and what rounding left over from the command right before
 * it. What takes no time, or less than its predecessor was rounded up by, hands that on. */
static void take_over(struct orr__stream *stream, uint64_t work, int64_t start_ns) {
    bool follows = stream->retired > 0 && start_ns == stream->tail_ns;
    int64_t carry = follows ? stream->carry : 0;
    stream->rem = 0;
    stream->owed = 0;
    if (work == 0 || (carry < 0 && work < (uint64_t)-carry)) {
        stream->owed = (int64_t)work + carry;
    } else {
        stream->rem = (int64_t)(work + (uint64_t)carry);
    }
}

/* The command will be written when it ends, and the next slot read: by then they are here. */
static inline __attribute__((always_inline)) void fetch_ahead(const struct orr__stream *stream,
                                                              const struct orr__sim_command *head) {
    orr__lines_fetch(&stream->ring[(stream->head + 1) & (stream->capacity - 1)], sizeof *head);
    orr__lines_fetch(head->command, head->bits & ORR__SLOT_ACCESSES ? ORR_COMMAND_FETCH_BYTES
                                                                    : sizeof *head->command);
}

/* Notes when the head was ready and starts, and whether it is to be skipped; returns the start. */
static int64_t look_at_head(struct orr__sim *sim, struct orr__stream *stream,
                            struct orr__sim_command *head) {
    int64_t start_ns = start_of(sim, stream, head);
    int64_t ready_ns = latest(latest(head->enqueued_ns, stream->tail_ns), sim->now_ns);
    if (stream->start_ns == ORR_TIME_NONE) {
        stream->start_ns = start_ns;
    }
    stream->ready_ns = ready_ns < stream->start_ns ? ready_ns : stream->start_ns;
    stream->skipped = stream->failed;
    if (stream->failed) {
        head->work = (struct orr__work){0};
    }
    return start_ns;
}

/* False: its device is lost by then. Otherwise the head gets what it has to do besides. */
static bool takes_up(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns) {
    struct orr__sim_command *head = orr__stream_head(stream);
    if (orr__perturb_lost(sim, stream, start_ns)) {
        stream->lost = true;
        return false;
    }
    if (!head->group) {
        head->work.work = orr__perturb_work(sim, stream, head->work.work, start_ns);
    }
    return true;
}

/* Tries to bring the head of a stream into service; finishes it at once if it takes no time. */
static void try_head(struct orr__sim *sim, struct orr__stream *stream) {
    if (stream->count == 0 || stream->in_service || stream->waiting_on != ORR_ID_NONE ||
        stream->lost) {
        return;
    }
    struct orr__sim_command *head = orr__stream_head(stream);
    if (head->kind == ORR_COMMAND_WAIT && stream->start_ns == ORR_TIME_NONE) {
        stream->start_ns = latest(head->enqueued_ns, stream->tail_ns);
    }
    if ((head->bits & (ORR__SLOT_WAITS | ORR__SLOT_LISTS)) && !waits_are_over(sim, stream, head)) {
        return;
    }
    int64_t start_ns = look_at_head(sim, stream, head);
    if (sim->perturb && !takes_up(sim, stream, start_ns)) {
        return;
    }
    if (head->group) {
        begin_uses(sim, stream, start_ns);
        orr__group_arrive(sim, stream, start_ns);
        return;
    }
    take_over(stream, head->work.work, start_ns);
    if (stream->rem == 0 && start_ns == sim->now_ns && !(head->bits & ORR__SLOT_ACCESSES)) {
        stream->carry = stream->owed;
        orr__finish_head(sim, stream, start_ns);
        return;
    }
    fetch_ahead(stream, head);
    begin_uses(sim, stream, start_ns);
    stream->on_engine = (head->bits & ORR__SLOT_ENGINE) != 0;
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

/* Does the head, whose time is over, not end for a fault? */
static bool is_lost(struct orr__sim *sim, struct orr__stream *stream) {
    struct orr_error error = {0};
    return !orr__stream_head(stream)->group &&
           orr__perturb_fate(sim, stream, sim->now_ns, &error) == ORR__FATE_LOST;
}

static void finish_stream(struct orr__sim *sim, struct orr__stream *stream) {
    orr__service_leave(sim, stream);
    if (sim->perturb && is_lost(sim, stream)) {
        stream->lost = true;
        return;
    }
    orr__finish_head(sim, stream, sim->now_ns);
}

void orr__engine_step(struct orr__sim *sim) {
    struct orr__event event = *orr__agenda_top(&sim->agenda);
    assert(event.time_ns >= sim->now_ns);
    sim->now_ns = event.time_ns;
    struct orr__device *device = &sim->devices[orr__event_device(&event)];
    struct orr__stream *stream;
    if (device->running_count == 1) {
        if (device->sole->finish_ns == event.time_ns) {
            finish_stream(sim, device->sole);
        }
    } else {
        while ((stream = ending(device, event.time_ns)) != NULL) {
            finish_stream(sim, stream);
        }
    }
    orr__engine_drain(sim);
    if (device->changed || orr__event_class(&event) == ORR__EVENT_START) {
        orr__service_reschedule(sim, orr__event_device(&event));
    }
}
