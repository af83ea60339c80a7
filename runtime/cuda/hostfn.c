/* Host functions: commands whose `run` is called in the order of a CUDA stream, on a thread of
 * CUDA's. They call no function of CUDA's, which would be an error there. */
#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

/* Kernels before it in its stream are over; what they found wrong the host may not know yet. If it
 * does, the stream is poisoned; else the kernel's slot is still in use. */
static void check_faults(struct cuda_stream *stream, uint64_t seq) {
    for (uint64_t at = stream->host_checked + 1; at < seq; at++) {
        const struct orr__cuda_fault *fault = &stream->faults[(at - 1) & stream->mask];
        struct orr_error error = {0};
        if (!orr__cuda_fault_text(fault, &error))
            continue;
        pthread_mutex_lock(&stream->backend->poison_lock);
        if (!orr__cuda_is_poisoned(stream, at))
            orr__cuda_slot(stream, at)->failed = true;
        orr__cuda_poison_locked(stream, at, &error);
        pthread_mutex_unlock(&stream->backend->poison_lock);
        break;
    }
    stream->host_checked = seq;
}

static bool is_to_be_skipped(struct cuda_slot *slot) {
    struct cuda_backend *backend = slot->stream->backend;
    uint64_t seq = slot->command.record.seq;
    check_faults(slot->stream, seq);
    if (!atomic_load_explicit(&backend->poisoned, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&backend->poison_lock);
    orr__cuda_resolve_locked(slot->stream, seq);
    pthread_mutex_unlock(&backend->poison_lock);
    return orr__cuda_is_poisoned(slot->stream, seq);
}

/* A failure of the function gets a text if it has none. */
static void run(struct cuda_slot *slot) {
    const struct orr_record_command *record = &slot->command.record;
    struct orr_error error = {0};
    enum orr_status status = slot->command.run(&slot->command, &error);
    if (status == ORR_OK)
        return;
    (void)orr_error_set(&error, status, "command %llu of stream %u failed: %s",
                        (unsigned long long)record->seq, record->stream, orr_status_text(status));
    orr__cuda_fail(slot, &error);
}

static void CUDART_CB host_main(void *context) {
    struct cuda_slot *slot = context;
    struct cuda_stream *stream = slot->stream;
    int launched = CUDA_HOST_LAUNCHED;
    if (atomic_compare_exchange_strong(&slot->host_state, &launched, CUDA_HOST_RUNNING)) {
        struct orr__cuda_times *times = stream->backend->times;
        slot->stamp.host_start_ns = orr__cuda_times_now(times);
        if (!is_to_be_skipped(slot))
            run(slot);
        slot->stamp.host_finish_ns = orr__cuda_times_now(times);
        atomic_store(&slot->host_state, CUDA_HOST_DONE);
    }
    atomic_fetch_sub(&stream->callbacks, 1); /* the stream may be gone from here on */
}

enum orr_status orr__cuda_host_launch(struct cuda_slot *slot, struct orr_error *error) {
    struct orr__cuda_api *api = slot->stream->backend->api;
    atomic_store(&slot->host_state, CUDA_HOST_LAUNCHED);
    atomic_fetch_add(&slot->stream->callbacks, 1);
    enum orr_status status = orr__cuda_check(
        api, api->rt.cudaLaunchHostFunc(slot->stream->queue.stream, host_main, slot),
        "cudaLaunchHostFunc", error);
    if (status != ORR_OK) {
        atomic_fetch_sub(&slot->stream->callbacks, 1);
        atomic_store(&slot->host_state, CUDA_HOST_NONE);
    }
    return status;
}

void orr__cuda_host_quiet(struct cuda_stream *stream) {
    const struct orr__cuda_api *api = stream->backend->api;
    for (int64_t waited_ns = 0; atomic_load(&stream->callbacks) > 0; waited_ns += CUDA_REST_NS) {
        if (waited_ns > CUDA_CALLBACK_NS || !api->rest)
            return;
        api->rest(api, CUDA_REST_NS);
    }
}

void orr__cuda_host_cancel(struct cuda_slot *slot) {
    struct orr__cuda_api *api = slot->stream->backend->api;
    int launched = CUDA_HOST_LAUNCHED;
    if (atomic_compare_exchange_strong(&slot->host_state, &launched, CUDA_HOST_CANCELLED))
        return;
    while (atomic_load(&slot->host_state) == CUDA_HOST_RUNNING)
        if (api->rest)
            api->rest(api, CUDA_REST_NS);
}
