/* Streams. A destroyed one lives on until its work is done. */
#include "sim/fake_devices/cuda/fake_internal.h"

enum { PRIORITY_LEAST = 0, PRIORITY_GREATEST = -5 }; /* as GPUs since compute capability 7.0 say */

struct orr__fake_stream *orr__fake_stream_find(struct orr_fake_cuda *fake, cudaStream_t handle) {
    for (struct orr__fake_stream *s = fake->streams; s; s = s->next) {
        if ((cudaStream_t)s == handle) {
            return s->destroyed || s->hidden ? NULL : s;
        }
    }
    return NULL;
}

static void append(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    struct orr__fake_stream **end = &fake->streams;
    while (*end) {
        end = &(*end)->next;
    }
    *end = stream;
}

/* Streams that have been destroyed, and have nothing left to do. */
static void reap(struct orr_fake_cuda *fake, bool wait) {
    for (struct orr__fake_stream **at = &fake->streams; *at;) {
        struct orr__fake_stream *stream = *at;
        if (stream->destroyed && wait) {
            orr__fake_stream_wait(fake, stream);
        }
        if (!stream->destroyed || !orr__fake_is_idle(fake, stream)) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        orr__fake_work_release(fake, &stream->tail);
        fake->engine->verbs->stream_destroy(fake->engine, stream->own);
        orr_memory_free(fake->memory, stream->frontier);
        orr_memory_free(fake->memory, stream);
    }
}

cudaError_t orr__fake_stream_make(struct orr_fake_cuda *fake, uint32_t device, int priority,
                                  struct orr__fake_stream **out_stream) {
    *out_stream = NULL;
    reap(fake, false);
    struct orr__fake_stream *stream = orr_memory_alloc(fake->memory, sizeof *stream);
    if (!stream) {
        return cudaErrorMemoryAllocation;
    }
    *stream = (struct orr__fake_stream){
        .fake = fake, .id = ++fake->next_stream, .device = device, .priority = priority};
    struct orr_error error = {0};
    if (fake->engine->verbs->stream_create(fake->engine, device, stream->id, &stream->own,
                                           &error) != ORR_OK) {
        orr_memory_free(fake->memory, stream);
        return cudaErrorMemoryAllocation;
    }
    append(fake, stream);
    *out_stream = stream;
    return cudaSuccess;
}

void orr__fake_stream_end(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    orr__fake_capture_abandon(fake, stream);
    stream->destroyed = true;
    reap(fake, false);
}

void orr__fake_streams_close(struct orr_fake_cuda *fake) {
    for (struct orr__fake_stream *s = fake->streams; s; s = s->next) {
        orr__fake_capture_abandon(fake, s);
        s->destroyed = true;
    }
    reap(fake, true);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    ORR__FAKE_ENTER(cudaError_t, cudaDeviceGetStreamPriorityRange);
    *least = PRIORITY_LEAST;
    *greatest = PRIORITY_GREATEST;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out_stream, unsigned int flags,
                                         int priority) {
    ORR__FAKE_ENTER(cudaError_t, cudaStreamCreateWithPriority);
    if (!out_stream) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    if (flags != cudaStreamNonBlocking) {
        return orr__fake_leave(fake, cudaErrorNotSupported); /* the header says so */
    }
    /* CUDA takes any number, and makes it one of the range. */
    priority = priority > PRIORITY_LEAST      ? PRIORITY_LEAST
               : priority < PRIORITY_GREATEST ? PRIORITY_GREATEST
                                              : priority;
    struct orr__fake_stream *stream;
    cudaError_t code = orr__fake_stream_make(fake, (uint32_t)fake->device, priority, &stream);
    if (code == cudaSuccess) {
        fake->census.streams++;
        *out_stream = (cudaStream_t)stream;
    }
    return orr__fake_leave(fake, code);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaStreamDestroy, &fake);
    struct orr__fake_stream *stream = fake ? orr__fake_stream_find(fake, handle) : NULL;
    if (stream) {
        fake->census.streams--;
        orr__fake_stream_end(fake, stream);
    } else if (!fault) {
        return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, cudaSuccess);
}

/* What a call that waits for a stream, or asks for its state, has to answer while it is captured:
 * the capture is lost by it. */
static cudaError_t not_while_captured(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    if (!stream) {
        return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture) {
        return orr__fake_capture_invalidate(fake, stream->capture,
                                            cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

cudaError_t orr__fake_fault_after_wait(struct orr_fake_cuda *fake, int fault) {
    if (fake && fake->sticky[ORR__CUDA_RUNTIME]) {
        for (uint32_t i = 0; i < fake->options.gpu_count; i++) {
            orr__fake_device_wait(fake, i);
        }
    }
    return (cudaError_t)fault;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaStreamSynchronize, &fake);
    if (fault) {
        return orr__fake_fault_after_wait(fake, fault);
    }
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    cudaError_t code = not_while_captured(fake, stream);
    if (code == cudaSuccess) {
        orr__fake_stream_wait(fake, stream);
        code = orr__fake_found(fake);
    }
    return orr__fake_leave(fake, code);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaStreamQuery);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    cudaError_t code = not_while_captured(fake, stream);
    if (code == cudaSuccess) {
        bool idle = orr__fake_is_idle(fake, stream);
        code = orr__fake_found(fake);
        code = code == cudaSuccess && !idle ? cudaErrorNotReady : code;
    }
    return orr__fake_leave(fake, code);
}

cudaError_t cudaDeviceSynchronize(void) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaDeviceSynchronize, &fake);
    if (fault) {
        return orr__fake_fault_after_wait(fake, fault);
    }
    cudaError_t code = orr__fake_capture_forbids(fake);
    if (code == cudaSuccess) {
        orr__fake_device_wait(fake, (uint32_t)fake->device);
        code = orr__fake_found(fake);
    }
    return orr__fake_leave(fake, code);
}

static void run_host_function(struct orr__fake_work *work, void *argument) {
    struct {
        cudaHostFn_t function;
        void *data;
    } *call = argument;
    (void)work;
    call->function(call->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data) {
    ORR__FAKE_ENTER(cudaError_t, cudaLaunchHostFunc);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    if (!stream || !function) {
        return orr__fake_leave(fake,
                               stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    }
    struct {
        cudaHostFn_t function;
        void *data;
    } call = {function, data};
    struct orr__fake_task task = {.kind = ORR__FAKE_HOSTFN,
                                  .run = run_host_function,
                                  .argument = &call,
                                  .argument_bytes = sizeof call,
                                  .duration_ns = ORR__FAKE_HOSTFN_NS};
    return orr__fake_leave(fake, orr__fake_enqueue(fake, stream, &task));
}
