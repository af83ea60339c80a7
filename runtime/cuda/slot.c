/* Commands in their slots: filled, put into their streams, or taken back. */
#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

struct cuda_slot *orr__cuda_slot_fill(struct cuda_stream *stream, const struct orr_command *command,
                                      struct cuda_group *group, int64_t begin_ns) {
    struct cuda_backend *backend = stream->backend;
    uint64_t seq = stream->submitted + 1;
    struct cuda_slot *slot = orr__cuda_slot(stream, seq);
    assert(!slot->own);
    slot->command = *command;
    slot->command.collective = NULL; /* the group has a copy */
    slot->stream = stream;
    slot->group = group;
    slot->behind = stream->behind > stream->retired ? stream->behind : 0;
    slot->timed = slot->bypassed = slot->failed = false;
    slot->stamp = (struct orr__cuda_stamp){0};
    slot->covered = 0;
    slot->end = NULL;
    slot->fault = &stream->faults[(seq - 1) & stream->mask];
    atomic_store_explicit(&slot->host_state, CUDA_HOST_NONE, memory_order_relaxed);
    struct orr_record_command *record = &slot->command.record;
    record->seq = seq;
    record->device = stream->device_id;
    record->stream = stream->id;
    if (backend->config.runner == ORR_RUNNER_PER_DEVICE) {
        record->host = 1 + stream->device_id;
        record->enqueue_ns = begin_ns;
    }
    if (record->enqueue_ns == ORR_TIME_NONE)
        record->enqueue_ns = begin_ns;
    slot->perturbed = orr__perturb_command(backend->perturb, record);
    return slot;
}

void orr__cuda_slot_commit(struct cuda_slot *slot, struct orr_point *out_point) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    uint64_t seq = ++stream->submitted;
    if (slot->own)
        slot->behind = seq;
    if (slot->own && !slot->covered) /* events of a capture are nothing to look at */
        stream->behind = seq;
    if (!stream->busy) {
        assert(backend->busy_count < backend->busy_capacity);
        backend->busy[backend->busy_count++] = stream;
        stream->busy = true;
    }
    slot->enqueued_ns = orr__cuda_now(backend);
    *out_point =
        (struct orr_point){.stream = stream->id, .seq = seq, .cmd = slot->command.record.id};
}

void orr__cuda_slot_abandon(struct cuda_slot *slot, const struct orr_error *cause) {
    struct cuda_stream *stream = slot->stream;
    orr__cuda_fail(slot, cause);
    stream->backend->blamed |= orr__cuda_check_lost(stream->backend, cause);
    if (!stream->backend->lost)
        orr__cuda_quiet(stream);
    orr__cuda_times_discard(stream->backend->times, &slot->stamp);
    orr__cuda_event_give(stream->device->gpu, &slot->own);
}

void orr__cuda_slot_refuse(struct cuda_slot *slot) {
    struct cuda_stream *stream = slot->stream;
    orr__cuda_quiet(stream);
    orr__cuda_times_discard(stream->backend->times, &slot->stamp);
    orr__cuda_event_give(stream->device->gpu, &slot->own);
}

enum orr_status orr__cuda_slot_record(struct cuda_slot *slot, struct orr_error *error) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    if (!slot->own)
        return ORR_OK;
    enum orr_status status = orr__cuda_use(backend, stream->device->gpu, error);
    if (status == ORR_OK)
        status = orr__cuda_graph_record(slot, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_check(backend->api,
                           backend->api->rt.cudaEventRecord(slot->own, stream->queue.stream),
                           "cudaEventRecord", error);
}

bool orr__cuda_slot_bypasses(struct cuda_slot *slot) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    struct orr_error error = {0};
    uint64_t seq = slot->command.record.seq;
    if (backend->lost)
        orr__cuda_poison(stream, seq, &backend->loss);
    slot->bypassed = orr__cuda_is_poisoned(stream, seq) || orr__cuda_inherit(stream, slot);
    if (!slot->bypassed && slot->perturbed.fault) {
        (void)orr__perturb_fail(slot->perturbed.fault, stream->device_id, &error);
        orr__cuda_fail(slot, &error);
        slot->bypassed = true;
    }
    return slot->bypassed;
}
