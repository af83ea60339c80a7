/* Commands on their way back: what is done, when it ran, and how it ended. */
#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

/* --- what is done --- */

static cudaError_t look_at(struct cuda_stream *stream, uint64_t seq) {
    cudaError_t code = stream->backend->api->rt.cudaEventQuery(orr__cuda_slot(stream, seq)->own);
    if (code == cudaSuccess) {
        stream->done = seq;
        stream->backend->observed_ns = ORR_TIME_NONE;
    }
    return code;
}

bool orr__cuda_is_over(struct cuda_stream *stream, uint64_t seq) {
    return seq <= stream->done || look_at(stream, seq) != cudaErrorNotReady;
}

/* A look that fails says that something has gone wrong in the stream, and not what. */
static void fail_look(struct cuda_slot *slot, cudaError_t code) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    struct orr_error cause = {0};
    enum orr_status status = orr__cuda_check(backend->api, code, "cudaEventQuery", &cause);
    assert(status != ORR_OK);
    (void)status;
    if (orr__cuda_check_lost(backend, &cause))
        return;
    orr__cuda_fail(slot, &cause);
    orr__cuda_quiet(stream);
}

/* Of the command at the head. The newest one is looked at first: mostly all are done, or none. */
static bool event_is_over(struct cuda_stream *stream, struct cuda_slot *slot) {
    struct cuda_backend *backend = stream->backend;
    uint64_t seq = slot->covered ? slot->covered : slot->command.record.seq;
    if ((!slot->own && !slot->covered) || seq <= stream->done || backend->lost)
        return true;
    if (stream->look == backend->look || seq > stream->submitted ||
        !orr__cuda_slot(stream, seq)->own)
        return false; /* the launch is not complete yet */
    cudaError_t code = cudaErrorNotReady;
    if (stream->behind > seq + 1)
        code = look_at(stream, stream->behind);
    if (code == cudaErrorNotReady)
        code = look_at(stream, seq);
    if (code == cudaErrorNotReady) {
        stream->look = backend->look;
        return false;
    }
    if (code != cudaSuccess)
        fail_look(slot, code);
    return true;
}

static bool head_is_over(struct cuda_stream *stream) {
    struct cuda_slot *slot = orr__cuda_slot(stream, stream->retired + 1);
    if (!event_is_over(stream, slot))
        return false;
    for (uint32_t i = 0; i < slot->wait_count; i++)
        if (slot->waits[i].stream->retired < slot->waits[i].seq)
            return false;
    return true;
}

static bool group_is_over(const struct cuda_group *group) {
    for (uint32_t i = 0; i < group->count; i++) {
        struct cuda_stream *stream = group->members[i].stream;
        if (stream->retired + 1 != group->members[i].seq || !head_is_over(stream))
            return false;
    }
    return true;
}

/* --- when it ran --- */

/* ORR_TIME_NONE if that is so long ago that its entry holds the time of a later command. */
static int64_t finish_of(const struct cuda_stream *stream, uint64_t seq) {
    assert(seq <= stream->retired);
    return stream->retired - seq > stream->finish_mask
               ? ORR_TIME_NONE
               : stream->finishes[seq & stream->finish_mask];
}

/* What is found done by one look has one time at which it was. */
static struct orr__cuda_bounds bounds_of(const struct cuda_slot *slot) {
    struct cuda_backend *backend = slot->stream->backend;
    if (backend->observed_ns == ORR_TIME_NONE)
        backend->observed_ns = orr__cuda_now(backend);
    struct orr__cuda_bounds bounds = {.enqueue_ns = slot->command.record.enqueue_ns,
                                      .enqueued_ns = slot->enqueued_ns,
                                      .before_ns = slot->stream->last_finish_ns,
                                      .awaited_ns = ORR_TIME_NONE,
                                      .observed_ns = backend->observed_ns};
    for (uint32_t i = 0; i < slot->wait_count; i++) {
        int64_t finish_ns = finish_of(slot->waits[i].stream, slot->waits[i].seq);
        bounds.awaited_ns = finish_ns > bounds.awaited_ns ? finish_ns : bounds.awaited_ns;
    }
    return bounds;
}

/* The event that is recorded when its work is over. */
static cudaEvent_t end_of(const struct cuda_slot *slot) {
    return slot->covered ? slot->end : slot->own;
}

/* Fills in the times of a command that is over. False: they are not known yet. What did not run, or
 * ran for nothing, has none of its own. */
static bool slot_time(struct cuda_slot *slot, bool must) {
    struct cuda_backend *backend = slot->stream->backend;
    struct orr_record_command *record = &slot->command.record;
    struct orr_error cause = {0};
    if (slot->timed)
        return true;
    enum orr_command_status ended = orr__cuda_settle(slot, &cause);
    bool counts = ended != ORR_COMMAND_STATUS_SKIPPED && !slot->bypassed && !backend->lost;
    if (!counts) {
        orr__cuda_times_discard(backend->times, &slot->stamp);
        slot->stamp = (struct orr__cuda_stamp){0};
    } else if (slot->stamp.on_host) {
        slot->stamp.host_start_ns -= slot->perturbed.delay_ns;
        slot->perturbed.delay_ns = 0;
    }
    const struct orr__cuda_bounds bounds = bounds_of(slot);
    enum orr_ts_source source;
    if (orr__cuda_times_resolve(backend->times, &slot->stamp, counts ? end_of(slot) : NULL, &bounds,
                                must, record, &source) != ORR_OK)
        return false;
    record->enqueued_ns = slot->enqueued_ns;
    record->ready_ns = orr_record_ready_ns(slot->enqueued_ns, bounds.before_ns, bounds.awaited_ns,
                                           record->start_ns);
    if (backend->config.ts_sources)
        record->ts_source = backend->config.ts_sources[source];
    slot->timed = true;
    return true;
}

/* Members finish together. */
static bool group_time(const struct cuda_group *group, bool must) {
    int64_t finish_ns = ORR_TIME_NONE;
    for (uint32_t i = 0; i < group->count; i++) {
        struct cuda_slot *slot = orr__cuda_slot(group->members[i].stream, group->members[i].seq);
        if (!slot_time(slot, must))
            return false;
        if (slot->command.record.finish_ns > finish_ns)
            finish_ns = slot->command.record.finish_ns;
    }
    for (uint32_t i = 0; i < group->count; i++)
        orr__cuda_slot(group->members[i].stream, group->members[i].seq)->command.record.finish_ns =
            finish_ns;
    return true;
}

/* --- handing back --- */

static void slot_retire(struct cuda_slot *slot) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    struct orr_record_command *record = &slot->command.record;
    struct orr_error cause = {0};
    enum orr_command_status status = orr__cuda_settle(slot, &cause);
    record->header.c = (uint8_t)status;
    assert(record->seq == stream->retired + 1 && record->start_ns <= record->finish_ns);
    stream->last_finish_ns = record->finish_ns;
    stream->finishes[record->seq & stream->finish_mask] = record->finish_ns;
    orr__cuda_event_give(stream->device->gpu, &slot->own);
    if (slot->recording)
        slot->recording->in_flight--;
    slot->recording = NULL;
    slot->group = NULL;
    stream->retired++;
    backend->config.retire.retired(backend->config.retire.context, &slot->command,
                                   status == ORR_COMMAND_STATUS_OK ? NULL : &cause);
}

static void group_retire(struct cuda_backend *backend, struct cuda_group *group) {
    for (uint32_t i = 0; i < group->count; i++)
        slot_retire(orr__cuda_slot(group->members[i].stream, group->members[i].seq));
    orr_memory_free(backend->memory, group);
}

static bool retire_one(struct cuda_stream *stream, bool must) {
    if (stream->retired == stream->submitted || !head_is_over(stream))
        return false;
    struct cuda_slot *slot = orr__cuda_slot(stream, stream->retired + 1);
    struct cuda_group *group = slot->group;
    if (group ? !group_is_over(group) || !group_time(group, must) : !slot_time(slot, must))
        return false;
    if (group)
        group_retire(stream->backend, group);
    else
        slot_retire(slot);
    return true;
}

/* Takes streams without commands off the list, and the slots from destroyed ones. */
static void sweep(struct cuda_backend *backend) {
    size_t kept = 0;
    for (size_t i = 0; i < backend->busy_count; i++) {
        struct cuda_stream *stream = backend->busy[i];
        stream->busy = stream->retired < stream->submitted;
        if (stream->busy)
            backend->busy[kept++] = stream;
        else if (stream->destroyed)
            orr__cuda_stream_drop(stream);
    }
    backend->busy_count = kept;
}

bool orr__cuda_retire(struct cuda_backend *backend, bool must) {
    if (backend->retiring || backend->busy_count == 0)
        return false; /* called from within the callback: the outer call goes on */
    if (orr__cuda_graph_captures(backend))
        return false; /* queries are prohibited to a thread that captures */
    bool any = false, more = true;
    backend->retiring = true;
    backend->look++;
    backend->observed_ns = ORR_TIME_NONE;
    while (more) {
        more = false;
        for (size_t i = 0; i < backend->busy_count; i++)
            while (retire_one(backend->busy[i], must))
                more = any = true;
    }
    sweep(backend);
    backend->retiring = false;
    return any;
}

void orr__cuda_poll(struct orr_backend *backend) {
    (void)orr__cuda_retire(orr__cuda(backend), false);
}
