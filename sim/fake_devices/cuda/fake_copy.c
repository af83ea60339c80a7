/* Copies and fills. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

/* Durations in virtual time: round figures, of the order of a PCIe 4 link, of NVLink and of HBM. */
enum {
    COPY_FIXED_NS = 1500,
    HOST_BYTES_PER_NS = 25,
    PEER_BYTES_PER_NS = 100,
    DEVICE_BYTES_PER_NS = 1000 /* read once, written once */
};

struct copy {
    void *to;
    const void *from;
    uint64_t bytes;
};

static void run_copy(struct orr__fake_work *work, void *argument) {
    const struct copy *c = argument;
    (void)work;
    memmove(c->to, c->from, c->bytes);
}

/* What pageable memory held at the call goes with the work. */
static void run_staged_copy(struct orr__fake_work *work, void *argument) {
    const struct copy *c = argument;
    (void)work;
    memcpy(c->to, c + 1, c->bytes);
}

struct ends {
    enum orr__fake_place to, from;
    uint32_t to_device, from_device;
};

/* The kind of a copy by where its ends are, or -1 if there is no such place. */
static int kind_of(const struct ends *ends) {
    bool to_device = ends->to == ORR__FAKE_DEVICE, from_device = ends->from == ORR__FAKE_DEVICE;
    if (ends->to == ORR__FAKE_NOWHERE || ends->from == ORR__FAKE_NOWHERE) {
        return -1;
    }
    return to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                     : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
}

static int64_t duration_of(int kind, const struct ends *ends, uint64_t bytes) {
    uint64_t rate = kind != cudaMemcpyDeviceToDevice       ? HOST_BYTES_PER_NS
                    : ends->to_device != ends->from_device ? PEER_BYTES_PER_NS
                                                           : DEVICE_BYTES_PER_NS;
    return COPY_FIXED_NS + (int64_t)(bytes / rate);
}

/* Pageable memory: an upload takes its bytes with it, a download is over when the call returns. In
 * a capture the addresses are all that counts. */
static cudaError_t enqueue_pageable(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                    struct orr__fake_task *task, const struct ends *ends) {
    const struct copy *copy = task->argument;
    if (ends->to == ORR__FAKE_PAGEABLE) {
        cudaError_t code = orr__fake_enqueue(fake, stream, task);
        if (code == cudaSuccess) {
            orr__fake_stream_wait(fake, stream);
            code = orr__fake_found(fake);
        }
        return code;
    }
    struct copy *staged = orr_memory_resize(fake->memory, NULL, sizeof *staged + copy->bytes);
    if (!staged) {
        return cudaErrorMemoryAllocation;
    }
    *staged = *copy;
    memcpy(staged + 1, copy->from, copy->bytes);
    task->run = run_staged_copy;
    task->argument = staged;
    task->argument_bytes = sizeof *staged + copy->bytes;
    cudaError_t code = orr__fake_enqueue(fake, stream, task);
    orr_memory_free(fake->memory, staged);
    return code;
}

static cudaError_t copy(struct orr_fake_cuda *fake, struct orr__fake_stream *stream, void *to,
                        const void *from, uint64_t bytes, enum cudaMemcpyKind asked) {
    struct ends ends;
    if (asked < cudaMemcpyHostToHost || asked > cudaMemcpyDefault) {
        return cudaErrorInvalidMemcpyDirection;
    }
    if (bytes == 0) {
        return cudaSuccess;
    }
    ends.to = orr__fake_where(fake, to, bytes, &ends.to_device);
    ends.from = orr__fake_where(fake, from, bytes, &ends.from_device);
    int kind = kind_of(&ends);
    if (!to || !from || kind < 0 || (asked != cudaMemcpyDefault && (int)asked != kind)) {
        return cudaErrorInvalidValue;
    }
    struct copy argument = {to, from, bytes};
    struct orr__fake_task task = {.kind = ORR__FAKE_MEMCPY,
                                  .run = run_copy,
                                  .argument = &argument,
                                  .argument_bytes = sizeof argument,
                                  .duration_ns = duration_of(kind, &ends, bytes),
                                  .bytes = bytes,
                                  .copy_kind = kind};
    bool pageable = ends.to == ORR__FAKE_PAGEABLE || ends.from == ORR__FAKE_PAGEABLE;
    return pageable && !stream->capture ? enqueue_pageable(fake, stream, &task, &ends)
                                        : orr__fake_enqueue(fake, stream, &task);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemcpyAsync);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    if (!stream) {
        return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
    }
    return orr__fake_leave(fake, copy(fake, stream, to, from, bytes, kind));
}

struct fill {
    void *to;
    uint64_t bytes;
    int value;
};

static void run_fill(struct orr__fake_work *work, void *argument) {
    const struct fill *f = argument;
    (void)work;
    memset(f->to, f->value, f->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemsetAsync);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    uint32_t device;
    if (!stream) {
        return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
    }
    if (bytes == 0) {
        return orr__fake_leave(fake, cudaSuccess);
    }
    enum orr__fake_place place = orr__fake_where(fake, to, bytes, &device);
    if (place != ORR__FAKE_DEVICE && place != ORR__FAKE_PINNED) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    struct fill argument = {to, bytes, value};
    struct orr__fake_task task = {.kind = ORR__FAKE_MEMSET,
                                  .run = run_fill,
                                  .argument = &argument,
                                  .argument_bytes = sizeof argument,
                                  .duration_ns =
                                      COPY_FIXED_NS + (int64_t)(bytes / DEVICE_BYTES_PER_NS),
                                  .bytes = bytes};
    return orr__fake_leave(fake, orr__fake_enqueue(fake, stream, &task));
}
