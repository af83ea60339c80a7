/* What fails, and who ends with it. */
#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

/* --- poison --- */

bool orr__cuda_is_poisoned(const struct cuda_stream *stream, uint64_t seq) {
    uint64_t first = atomic_load_explicit(&stream->poisoned_seq, memory_order_acquire);
    return first != 0 && first <= seq;
}

/* A failure that is found later may be of an earlier command: a kernel's fault is seen when the
 * kernel is retired, that of a host function behind it at once. */
void orr__cuda_poison_locked(struct cuda_stream *stream, uint64_t seq,
                             const struct orr_error *cause) {
    if (orr__cuda_is_poisoned(stream, seq))
        return;
    assert(cause->status != ORR_OK);
    stream->cause = *cause;
    atomic_store_explicit(&stream->poisoned_seq, seq, memory_order_release);
    atomic_store_explicit(&stream->backend->poisoned, true, memory_order_relaxed);
}

void orr__cuda_poison(struct cuda_stream *stream, uint64_t seq, const struct orr_error *cause) {
    pthread_mutex_lock(&stream->backend->poison_lock);
    orr__cuda_poison_locked(stream, seq, cause);
    pthread_mutex_unlock(&stream->backend->poison_lock);
}

void orr__cuda_fail(struct cuda_slot *slot, const struct orr_error *cause) {
    pthread_mutex_lock(&slot->stream->backend->poison_lock);
    slot->failed = true;
    orr__cuda_poison_locked(slot->stream, slot->command.record.seq, cause);
    pthread_mutex_unlock(&slot->stream->backend->poison_lock);
}

static bool inherit_locked(struct cuda_stream *stream, const struct cuda_slot *slot) {
    uint64_t seq = slot->command.record.seq;
    for (uint32_t i = 0; i < slot->wait_count; i++)
        if (orr__cuda_is_poisoned(slot->waits[i].stream, slot->waits[i].seq))
            orr__cuda_poison_locked(stream, seq, &slot->waits[i].stream->cause);
    const struct cuda_group *group = slot->group;
    for (uint32_t i = 0; group && i < group->count; i++)
        if (orr__cuda_is_poisoned(group->members[i].stream, group->members[i].seq))
            orr__cuda_poison_locked(stream, seq, &group->members[i].stream->cause);
    return orr__cuda_is_poisoned(stream, seq);
}

bool orr__cuda_inherit(struct cuda_stream *stream, struct cuda_slot *slot) {
    struct cuda_backend *backend = stream->backend;
    if (!atomic_load_explicit(&backend->poisoned, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&backend->poison_lock);
    bool poisoned = inherit_locked(stream, slot);
    pthread_mutex_unlock(&backend->poison_lock);
    return poisoned;
}

/* What a command awaits was submitted before it, so that walks end; each stream is resolved in its
 * order, so that a walk comes back to a stream only for what is resolved there. */
static void resolve_one(struct cuda_stream *stream, const struct cuda_slot *slot) {
    const struct cuda_group *group = slot->group;
    for (uint32_t i = 0; i < slot->wait_count; i++)
        orr__cuda_resolve_locked(slot->waits[i].stream, slot->waits[i].seq);
    for (uint32_t i = 0; group && i < group->count; i++)
        if (group->members[i].stream != stream)
            orr__cuda_resolve_locked(group->members[i].stream, group->members[i].seq - 1);
    (void)inherit_locked(stream, slot);
}

void orr__cuda_resolve_locked(struct cuda_stream *stream, uint64_t seq) {
    while (stream->resolved < seq) {
        uint64_t next = stream->resolved + 1;
        if (!orr__cuda_is_poisoned(stream, next))
            resolve_one(stream, orr__cuda_slot(stream, next));
        stream->resolved = next;
    }
}

/* --- causes --- */

bool orr__cuda_fault_text(const struct orr__cuda_fault *fault, struct orr_error *out_error) {
    if (fault->code == ORR__FAULT_NONE)
        return false;
    (void)orr_error_set(out_error, ORR_DEVICE_FAILED,
                        "index %lld is out of range, expected 0 .. %lld", (long long)fault->value,
                        (long long)fault->bound - 1);
    return true;
}

bool orr__cuda_check_lost(struct cuda_backend *backend, const struct orr_error *cause) {
    if (backend->lost)
        return true;
    (void)backend->api->rt.cudaGetLastError(); /* forgets an error that doesn't stay */
    if (backend->api->rt.cudaGetLastError() == cudaSuccess)
        return false;
    backend->lost = true;
    backend->loss = *cause;
    return true;
}

/* If it can't even be waited for, nothing of what is left can be relied on. */
void orr__cuda_quiet(struct cuda_stream *stream) {
    struct cuda_backend *backend = stream->backend;
    struct orr_error error = {0};
    enum orr_status status = orr__cuda_use(backend, stream->device->gpu, &error);
    for (int attempt = 0; attempt < 2 && !backend->lost; attempt++) {
        status = orr__cuda_check(backend->api,
                                 backend->api->rt.cudaStreamSynchronize(stream->queue.stream),
                                 "cudaStreamSynchronize", &error);
        if (status == ORR_OK) {
            stream->done = stream->submitted;
            return;
        }
        (void)orr__cuda_check_lost(backend, &error);
    }
    if (!backend->lost) {
        backend->lost = true;
        backend->loss = error;
    }
}

/* --- the end of a command --- */

/* What was on the GPU when its context was lost: one is blamed, whichever it was. */
static void lose_locked(struct cuda_slot *slot) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    if (!slot->own || slot->command.record.seq <= stream->done ||
        orr__cuda_is_poisoned(stream, slot->command.record.seq))
        return;
    slot->failed = !backend->blamed;
    backend->blamed = true;
    orr__cuda_poison_locked(stream, slot->command.record.seq, &backend->loss);
}

enum orr_command_status orr__cuda_settle(struct cuda_slot *slot, struct orr_error *out_cause) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_backend *backend = stream->backend;
    uint64_t seq = slot->command.record.seq;
    struct orr_error fault = {0};
    enum orr_command_status status = ORR_COMMAND_STATUS_OK;
    if (backend->lost)
        orr__cuda_host_cancel(slot);
    pthread_mutex_lock(&backend->poison_lock);
    if (backend->lost)
        lose_locked(slot);
    if (atomic_load_explicit(&backend->poisoned, memory_order_relaxed))
        orr__cuda_resolve_locked(stream, seq);
    stream->resolved = seq > stream->resolved ? seq : stream->resolved;
    if (!orr__cuda_is_poisoned(stream, seq) && !slot->bypassed &&
        orr__cuda_fault_text(slot->fault, &fault)) {
        slot->failed = true;
        orr__cuda_poison_locked(stream, seq, &fault);
    }
    if (orr__cuda_is_poisoned(stream, seq)) {
        bool first = atomic_load_explicit(&stream->poisoned_seq, memory_order_relaxed) == seq;
        status = first && slot->failed ? ORR_COMMAND_STATUS_FAILED : ORR_COMMAND_STATUS_SKIPPED;
        *out_cause = stream->cause;
    }
    pthread_mutex_unlock(&backend->poison_lock);
    return status;
}
