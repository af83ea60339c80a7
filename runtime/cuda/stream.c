/* Streams: their life, what commands in them wait for, room. */
#include <assert.h>
#include <string.h>

#include "runtime/cuda/cuda_internal.h"

/* --- life --- */

static uint64_t power_of_two_from(uint64_t n) {
    uint64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

/* Communication goes first: it is what others wait for. */
static enum orr_status cuda_stream_open(struct cuda_stream *stream, enum orr_stream_kind kind,
                                        struct orr_error *error) {
    struct cuda_backend *backend = stream->backend;
    struct cuda_gpu *gpu = stream->device->gpu;
    struct orr__cuda_api *api = backend->api;
    int priority = kind == ORR_STREAM_COMMUNICATE ? gpu->priority_high : gpu->priority_low;
    uint64_t fault_bytes = (stream->mask + 1) * sizeof *stream->faults;
    void *faults = NULL;
    enum orr_status status = orr__cuda_use(backend, gpu, error);
    if (status == ORR_OK)
        status = orr__cuda_check(api,
                                 api->rt.cudaStreamCreateWithPriority(
                                     &stream->queue.stream, cudaStreamNonBlocking, priority),
                                 "cudaStreamCreateWithPriority", error);
    if (status != ORR_OK) {
        stream->queue.stream = NULL;
        return status;
    }
    status =
        orr__cuda_check(api, api->rt.cudaMallocHost(&faults, fault_bytes), "cudaMallocHost", error);
    if (status != ORR_OK)
        return status;
    memset(faults, 0, fault_bytes);
    stream->faults = faults;
    return ORR_OK;
}

static enum orr_status stream_open(struct cuda_stream *stream, enum orr_stream_kind kind,
                                   struct orr_error *error) {
    const struct orr_memory *memory = stream->backend->memory;
    size_t finishes = (size_t)stream->finish_mask + 1, slots = (size_t)stream->mask + 1;
    stream->finishes = orr_memory_alloc(memory, finishes * sizeof *stream->finishes);
    stream->slots = orr_memory_alloc(memory, slots * sizeof *stream->slots);
    if (!stream->finishes || !stream->slots)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a stream of %llu commands",
                             (unsigned long long)stream->depth);
    return cuda_stream_open(stream, kind, error);
}

static struct cuda_stream *stream_new(struct cuda_backend *backend, uint32_t device_id) {
    struct cuda_stream *stream = orr_memory_alloc_lines(backend->memory, sizeof *stream);
    if (!stream)
        return NULL;
    struct cuda_device *device = &backend->devices[device_id];
    stream->backend = backend;
    stream->device = device;
    stream->device_id = device_id;
    stream->id = (uint32_t)backend->stream_count;
    stream->depth = device->depth;
    stream->mask = power_of_two_from(stream->depth) - 1;
    stream->finish_mask = stream->mask < CUDA_FINISHES_MIN ? CUDA_FINISHES_MIN - 1 : stream->mask;
    stream->last_finish_ns = ORR_TIME_NONE;
    stream->queue = (struct orr__cuda_queue){.api = backend->api,
                                             .code = &device->gpu->images.code,
                                             .memory = backend->memory,
                                             .sm_count = device->gpu->sm_count,
                                             .pool = device->pool};
    return stream;
}

enum orr_status orr__cuda_stream_create(struct orr_backend *base, uint32_t device,
                                        enum orr_stream_kind kind, uint32_t *out_stream,
                                        struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    *out_stream = ORR_ID_NONE;
    if (device >= backend->config.device_count)
        return orr_error_set(error, ORR_INVALID, "no device %u, there are %u", device,
                             backend->config.device_count);
    size_t count = backend->stream_count + 1;
    struct cuda_stream *stream = NULL;
    if (orr_memory_grow(backend->memory, &backend->streams, &backend->stream_capacity, count,
                        sizeof *backend->streams, CUDA_STREAMS_MAX) == ORR_OK &&
        orr_memory_grow(backend->memory, &backend->busy, &backend->busy_capacity, count,
                        sizeof *backend->busy, CUDA_STREAMS_MAX) == ORR_OK)
        stream = stream_new(backend, device);
    if (!stream)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for stream %zu",
                             backend->stream_count);
    enum orr_status status = stream_open(stream, kind, error);
    if (status != ORR_OK) {
        if (status != ORR_NO_MEMORY && error)
            (void)orr__cuda_check_lost(backend, error);
        orr__cuda_stream_free(stream);
        return status;
    }
    backend->streams[backend->stream_count++] = stream;
    *out_stream = stream->id;
    return ORR_OK;
}

void orr__cuda_stream_drop(struct cuda_stream *stream) {
    struct cuda_backend *backend = stream->backend;
    assert(stream->retired == stream->submitted);
    orr__cuda_host_quiet(stream);
    for (uint64_t i = 0; stream->slots && i <= stream->mask; i++)
        orr_memory_free(backend->memory, stream->slots[i].many_waits);
    orr_memory_free(backend->memory, stream->slots);
    stream->slots = NULL;
    if (!stream->queue.stream)
        return;
    (void)orr__cuda_use(backend, stream->device->gpu, NULL);
    orr__cuda_queue_clear(&stream->queue);
    (void)backend->api->rt.cudaStreamDestroy(stream->queue.stream);
    stream->queue.stream = NULL;
    if (stream->faults)
        (void)backend->api->rt.cudaFreeHost(stream->faults);
    stream->faults = NULL;
}

void orr__cuda_stream_destroy(struct orr_backend *base, uint32_t id) {
    struct cuda_backend *backend = orr__cuda(base);
    assert(id < backend->stream_count && !backend->streams[id]->destroyed);
    struct cuda_stream *stream = backend->streams[id];
    stream->destroyed = true;
    (void)orr__cuda_retire(backend, false);
    if (!stream->busy && stream->slots)
        orr__cuda_stream_drop(stream);
}

void orr__cuda_stream_free(struct cuda_stream *stream) {
    orr__cuda_stream_drop(stream);
    orr_memory_free(stream->backend->memory, stream->finishes);
    orr_memory_free_lines(stream->backend->memory, stream);
}

enum orr_status orr__cuda_stream_find(struct cuda_backend *backend, uint32_t id,
                                      struct cuda_stream **out_stream, struct orr_error *error) {
    if (id >= backend->stream_count)
        return orr_error_set(error, ORR_INVALID, "no stream %u, there are %zu", id,
                             backend->stream_count);
    if (backend->streams[id]->destroyed)
        return orr_error_set(error, ORR_INVALID, "stream %u was destroyed", id);
    *out_stream = backend->streams[id];
    return ORR_OK;
}

/* --- waits and room --- */

enum orr_status orr__cuda_check_waits(struct cuda_backend *backend, const struct orr_point *waits,
                                      uint32_t count, struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        if (waits[i].stream >= backend->stream_count)
            return orr_error_set(error, ORR_INVALID, "a wait names stream %u, there are %zu",
                                 waits[i].stream, backend->stream_count);
        uint64_t submitted = backend->streams[waits[i].stream]->submitted;
        if (waits[i].seq > submitted)
            return orr_error_set(
                error, ORR_INVALID, "a wait for command %llu of stream %u, which has only %llu",
                (unsigned long long)waits[i].seq, waits[i].stream, (unsigned long long)submitted);
    }
    return ORR_OK;
}

/* True if waiting for the point would do nothing at all: neither now nor by a failure. */
static bool wait_is_void(const struct cuda_stream *stream, const struct cuda_stream *awaited,
                         uint64_t seq) {
    return seq == 0 || awaited == stream ||
           (awaited->retired >= seq && !orr__cuda_is_poisoned(awaited, seq));
}

enum orr_status orr__cuda_set_waits(struct cuda_stream *stream, const struct orr_point *waits,
                                    uint32_t count, struct orr_error *error) {
    struct cuda_backend *backend = stream->backend;
    struct cuda_slot *slot = orr__cuda_slot(stream, stream->submitted + 1);
    struct cuda_wait *kept = slot->few_waits;
    if (count > CUDA_FEW_WAITS) {
        if (orr_memory_grow(backend->memory, &slot->many_waits, &slot->many_capacity, count,
                            sizeof *slot->many_waits, CUDA_WAITS_MAX) != ORR_OK)
            return orr_error_set(error, ORR_NO_MEMORY, "no memory for %u waits", count);
        kept = slot->many_waits;
    }
    slot->waits = kept;
    slot->wait_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct cuda_stream *awaited = backend->streams[waits[i].stream];
        if (!wait_is_void(stream, awaited, waits[i].seq))
            kept[slot->wait_count++] = (struct cuda_wait){awaited, waits[i].seq};
    }
    return ORR_OK;
}

enum orr_status orr__cuda_make_room(struct cuda_stream *stream, struct orr_point *out_point) {
    uint64_t half = (stream->depth + 1) / 2;
    if (stream->submitted - stream->retired >= half)
        (void)orr__cuda_retire(stream->backend, false);
    if (stream->submitted - stream->retired < stream->depth)
        return ORR_OK;
    /* Half of the queue, so that a host that sleeps until then wakes up seldom. */
    *out_point = (struct orr_point){.stream = stream->id, .seq = stream->retired + half};
    return ORR_FULL;
}

cudaEvent_t orr__cuda_event_of(const struct cuda_stream *stream, uint64_t seq) {
    if (seq <= stream->retired)
        return NULL;
    uint64_t behind = orr__cuda_slot(stream, seq)->behind;
    return behind > stream->retired ? orr__cuda_slot(stream, behind)->own : NULL;
}
