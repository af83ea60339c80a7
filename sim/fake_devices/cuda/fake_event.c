/* Events. An event is what was recorded last: a work, or the front of a capture. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum { RESTING = 256 }; /* destroyed events whose handles are not given out again yet */

struct orr__fake_event *orr__fake_event_find(struct orr_fake_cuda *fake, cudaEvent_t handle) {
    struct orr__fake_event *event = (struct orr__fake_event *)handle;
    (void)fake;
    return event && event->alive ? event : NULL;
}

static void forget_record(struct orr_fake_cuda *fake, struct orr__fake_event *event) {
    orr__fake_work_release(fake, &event->work);
    orr_memory_free(fake->memory, event->frontier);
    event->frontier = NULL;
    event->frontier_count = 0;
    event->capture = 0;
}

void orr__fake_event_set(struct orr_fake_cuda *fake, struct orr__fake_event *event,
                         struct orr__fake_work *work) {
    forget_record(fake, event);
    event->work = work;
    orr__fake_work_hold(work);
}

/* Handles stay readable until close, so that a destroyed one is told from a good one. */
static struct orr__fake_event *take(struct orr_fake_cuda *fake) {
    struct orr__fake_event *event = fake->events_destroyed;
    if (event && fake->events_resting > RESTING) {
        fake->events_destroyed = event->next_destroyed;
        fake->events_resting--;
        return event;
    }
    event = orr_memory_alloc(fake->memory, sizeof *event);
    if (event) {
        event->next = fake->events;
        fake->events = event;
    }
    return event;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out_event, unsigned int flags) {
    ORR__FAKE_ENTER(cudaError_t, cudaEventCreateWithFlags);
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
    if (!out_event || (flags & ~known) != 0) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    struct orr__fake_event *event = take(fake);
    if (!event) {
        return orr__fake_leave(fake, cudaErrorMemoryAllocation);
    }
    event->alive = ++fake->events_made;
    event->device = (uint32_t)fake->device;
    event->untimed = (flags & cudaEventDisableTiming) != 0;
    fake->census.events++;
    *out_event = (cudaEvent_t)event;
    return orr__fake_leave(fake, cudaSuccess);
}

static void rest(struct orr_fake_cuda *fake, struct orr__fake_event *event) {
    event->alive = 0;
    event->next_destroyed = NULL;
    if (fake->events_resting++ == 0) {
        fake->events_destroyed = event;
    } else {
        fake->events_destroyed_last->next_destroyed = event;
    }
    fake->events_destroyed_last = event;
}

void orr__fake_events_close(struct orr_fake_cuda *fake) {
    while (fake->events) {
        struct orr__fake_event *event = fake->events;
        fake->events = event->next;
        forget_record(fake, event);
        orr_memory_free(fake->memory, event);
    }
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaEventDestroy, &fake);
    struct orr__fake_event *event = fake ? orr__fake_event_find(fake, handle) : NULL;
    if (event) {
        forget_record(fake, event);
        rest(fake, event);
        fake->census.events--;
    } else if (!fault) {
        return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, cudaSuccess);
}

static cudaError_t record_in_stream(struct orr_fake_cuda *fake, struct orr__fake_event *event,
                                    struct orr__fake_stream *stream) {
    struct orr__fake_task record = {.kind = ORR__FAKE_RECORD};
    struct orr__fake_work *work;
    cudaError_t code = orr__fake_submit(fake, stream, &record, NULL, 0, 0, &work);
    if (code == cudaSuccess) {
        orr__fake_event_set(fake, event, work);
        orr__fake_work_release(fake, &work);
    }
    return code;
}

/* In a capture a record is no work: the event holds what the stream has come to. */
static cudaError_t record_in_capture(struct orr_fake_cuda *fake, struct orr__fake_event *event,
                                     struct orr__fake_stream *stream) {
    if (stream->capture->invalid) {
        return cudaErrorStreamCaptureInvalidated;
    }
    size_t bytes = stream->frontier_count * sizeof *stream->frontier;
    uint32_t *frontier = orr_memory_alloc(fake->memory, bytes);
    if (!frontier) {
        return cudaErrorMemoryAllocation;
    }
    if (bytes > 0) {
        memcpy(frontier, stream->frontier, bytes);
    }
    forget_record(fake, event);
    event->frontier = frontier;
    event->frontier_count = stream->frontier_count;
    event->capture = stream->capture->id;
    return cudaSuccess;
}

static cudaError_t record(struct orr_fake_cuda *fake, cudaEvent_t event_handle,
                          cudaStream_t stream_handle, unsigned int flags) {
    struct orr__fake_event *event = orr__fake_event_find(fake, event_handle);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, stream_handle);
    if (!event || !stream || event->device != stream->device) {
        return cudaErrorInvalidResourceHandle;
    }
    if (flags != cudaEventRecordDefault && flags != cudaEventRecordExternal) {
        return cudaErrorInvalidValue;
    }
    if (!stream->capture) {
        /* "External" says something about captures only. */
        return flags == cudaEventRecordExternal ? cudaErrorInvalidValue
                                                : record_in_stream(fake, event, stream);
    }
    if (flags == cudaEventRecordExternal) {
        struct orr__fake_task task = {.kind = ORR__FAKE_RECORD};
        return orr__fake_capture_task(fake, stream, &task, event);
    }
    return record_in_capture(fake, event, stream);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ORR__FAKE_ENTER(cudaError_t, cudaEventRecord);
    return orr__fake_leave(fake, record(fake, event, stream, cudaEventRecordDefault));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    ORR__FAKE_ENTER(cudaError_t, cudaEventRecordWithFlags);
    return orr__fake_leave(fake, record(fake, event, stream, flags));
}

/* Of the event's record at this moment; what is recorded later does not matter. */
static cudaError_t wait_for(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                            struct orr__fake_event *event) {
    if (event->capture) {
        struct orr__fake_capture *capture = orr__fake_capture_find(fake, event->capture);
        if (!capture && !stream->capture) {
            return cudaErrorCapturedEvent;
        }
        return orr__fake_capture_join(fake, stream, capture, event->frontier,
                                      event->frontier_count);
    }
    if (stream->capture) {
        return orr__fake_capture_invalidate(fake, stream->capture, cudaErrorStreamCaptureIsolation);
    }
    if (!event->work || event->work->collected) {
        return cudaSuccess;
    }
    struct orr__fake_task wait = {.kind = ORR__FAKE_WAIT};
    return orr__fake_submit(fake, stream, &wait, &event->work, 1, 0, NULL);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle,
                                unsigned int flags) {
    ORR__FAKE_ENTER(cudaError_t, cudaStreamWaitEvent);
    struct orr__fake_event *event = orr__fake_event_find(fake, event_handle);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, stream_handle);
    if (!event || !stream) {
        return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
    }
    if (flags != cudaEventWaitDefault) {
        return orr__fake_leave(fake, cudaErrorNotSupported);
    }
    return orr__fake_leave(fake, wait_for(fake, stream, event));
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaEventQuery);
    struct orr__fake_event *event = orr__fake_event_find(fake, handle);
    if (!event || event->capture) {
        return orr__fake_leave(fake, event ? orr__fake_capture_touched(fake, event)
                                           : cudaErrorInvalidResourceHandle);
    }
    cudaError_t code = orr__fake_capture_forbids(fake);
    if (code != cudaSuccess) {
        return orr__fake_leave(fake, code);
    }
    bool done = !event->work || orr__fake_work_done(fake, event->work);
    code = orr__fake_found(fake);
    return orr__fake_leave(fake, code == cudaSuccess && !done ? cudaErrorNotReady : code);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaEventSynchronize, &fake);
    if (fault) {
        return orr__fake_fault_after_wait(fake, fault);
    }
    struct orr__fake_event *event = orr__fake_event_find(fake, handle);
    if (!event || event->capture) {
        return orr__fake_leave(fake, event ? orr__fake_capture_touched(fake, event)
                                           : cudaErrorInvalidResourceHandle);
    }
    cudaError_t code = orr__fake_capture_forbids(fake);
    if (code != cudaSuccess) {
        return orr__fake_leave(fake, code);
    }
    if (event->work) {
        orr__fake_work_wait(fake, event->work);
    }
    return orr__fake_leave(fake, orr__fake_found(fake));
}

static cudaError_t elapsed(struct orr_fake_cuda *fake, struct orr__fake_event *start,
                           struct orr__fake_event *end, float *out_ms) {
    const double ns_per_ms = 1e6;
    if (!start || !end || start->untimed || end->untimed || !start->work || !end->work ||
        start->device != end->device) {
        return cudaErrorInvalidResourceHandle;
    }
    bool ready = orr__fake_work_done(fake, start->work) && orr__fake_work_done(fake, end->work);
    cudaError_t code = orr__fake_found(fake);
    if (code == cudaSuccess && !ready) {
        return cudaErrorNotReady;
    }
    if (code == cudaSuccess) {
        *out_ms = (float)((double)(end->work->finish_ns - start->work->finish_ns) / ns_per_ms);
    }
    return code;
}

cudaError_t cudaEventElapsedTime(float *out_ms, cudaEvent_t start, cudaEvent_t end) {
    ORR__FAKE_ENTER(cudaError_t, cudaEventElapsedTime);
    if (!out_ms) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    return orr__fake_leave(fake, elapsed(fake, orr__fake_event_find(fake, start),
                                         orr__fake_event_find(fake, end), out_ms));
}
