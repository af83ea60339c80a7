/* Works: how tasks get into streams, and how the host learns that they are done.
 *
 * A work is held by its stream until the host has collected it, by the events that it is the record
 * of, by the works that wait for it, and by its stream as the last one; only the host counts. */
#include <assert.h>
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum { ARGUMENT_ALIGNMENT = 16 };

static size_t rounded(size_t bytes) {
    return (bytes + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
}

void orr__fake_work_run(struct orr__fake_work *work, _Atomic int *device_error) {
    if (atomic_load_explicit(device_error, memory_order_relaxed) != 0) {
        return;
    }
    if (work->task.fails_with) {
        atomic_store_explicit(device_error, work->task.fails_with, memory_order_relaxed);
    } else if (work->task.run) {
        work->task.run(work, (void *)work->task.argument);
    }
}

/* One block: the work, what it waits for, the argument. */
static struct orr__fake_work *make(struct orr_fake_cuda *fake, const struct orr__fake_task *task,
                                   struct orr__fake_work *const *waits, uint32_t wait_count) {
    size_t head = rounded(sizeof(struct orr__fake_work));
    size_t list = rounded(wait_count * sizeof *waits);
    char *block = orr_memory_alloc(fake->memory, head + list + task->argument_bytes);
    if (!block) {
        return NULL;
    }
    struct orr__fake_work *work = (struct orr__fake_work *)block;
    work->task = *task;
    work->waits = (struct orr__fake_work **)(void *)(block + head);
    work->wait_count = wait_count;
    for (uint32_t i = 0; i < wait_count; i++) {
        work->waits[i] = waits[i];
        orr__fake_work_hold(waits[i]);
    }
    work->task.argument = block + head + list;
    if (task->argument_bytes > 0) {
        memcpy(block + head + list, task->argument, task->argument_bytes);
    }
    work->references = 1;
    return work;
}

void orr__fake_work_hold(struct orr__fake_work *work) {
    work->references++;
}

/* Works that waited for one another hang on each other; but those that were collected have let go
 * of theirs, so that this goes one level deep. */
void orr__fake_work_release(struct orr_fake_cuda *fake, struct orr__fake_work **work) {
    struct orr__fake_work *released = *work;
    *work = NULL;
    if (!released || --released->references > 0) {
        return;
    }
    for (uint32_t i = 0; i < released->wait_count; i++) {
        orr__fake_work_release(fake, &released->waits[i]);
    }
    orr_memory_free(fake->memory, released);
}

static void put_in_stream(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                          struct orr__fake_work *work) {
    if (stream->last) {
        stream->last->after = work;
    } else {
        stream->first = work;
    }
    stream->last = work;
    orr__fake_work_release(fake, &stream->tail);
    stream->tail = work;
    orr__fake_work_hold(work);
}

cudaError_t orr__fake_submit(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                             const struct orr__fake_task *task, struct orr__fake_work *const *waits,
                             uint32_t wait_count, uint64_t node, struct orr__fake_work **out_work) {
    if (out_work) {
        *out_work = NULL;
    }
    struct orr__fake_work *work = make(fake, task, waits, wait_count);
    if (!work) {
        return cudaErrorMemoryAllocation;
    }
    work->stream = stream;
    work->device = stream->device;
    work->stream_id = stream->id;
    work->number = ++fake->works;
    work->correlation = fake->correlation;
    work->node = node;
    work->enqueue_ns = orr__fake_now(fake);
    if (fake->engine->verbs->submit(fake->engine, stream->own, work) != ORR_OK) {
        orr__fake_work_release(fake, &work);
        return cudaErrorMemoryAllocation;
    }
    put_in_stream(fake, stream, work);
    if (fake->observer.enqueued) {
        fake->observer.enqueued(fake->observer.context, work);
    }
    if (out_work) {
        *out_work = work;
        orr__fake_work_hold(work);
    }
    return cudaSuccess;
}

cudaError_t orr__fake_enqueue(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                              const struct orr__fake_task *task) {
    if (stream->capture) {
        return orr__fake_capture_task(fake, stream, task, NULL);
    }
    return orr__fake_submit(fake, stream, task, NULL, 0, 0, NULL);
}

cudaError_t orr__fake_order(struct orr_fake_cuda *fake, struct orr__fake_stream *before,
                            struct orr__fake_stream *after) {
    if (before == after) {
        return cudaSuccess;
    }
    if (before->capture || after->capture) {
        return orr__fake_capture_join(fake, after, before->capture, before->frontier,
                                      before->frontier_count);
    }
    if (!before->tail) {
        return cudaSuccess;
    }
    struct orr__fake_task wait = {.kind = ORR__FAKE_WAIT};
    return orr__fake_submit(fake, after, &wait, &before->tail, 1, 0, NULL);
}

/* The first of the stream's works has finished, and the host knows it. */
static void collect_first(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    struct orr__fake_work *work = stream->first;
    stream->first = work->after;
    if (!stream->first) {
        stream->last = NULL;
    }
    if (fake->observer.finished) {
        fake->observer.finished(fake->observer.context, work);
    }
    work->collected = true;
    work->stream = NULL;
    work->after = NULL;
    for (uint32_t i = 0; i < work->wait_count; i++) {
        orr__fake_work_release(fake, &work->waits[i]);
    }
    work->wait_count = 0;
    orr__fake_work_release(fake, &work);
}

/* `work` is done. */
static void collect_up_to(struct orr_fake_cuda *fake, struct orr__fake_work *work) {
    struct orr__fake_stream *stream = work->stream;
    while (!work->collected) {
        assert(stream->first);
        bool last = stream->first == work;
        collect_first(fake, stream);
        if (last) {
            break;
        }
    }
}

bool orr__fake_work_done(struct orr_fake_cuda *fake, struct orr__fake_work *work) {
    if (work->collected) {
        return true;
    }
    if (!fake->engine->verbs->done(fake->engine, work)) {
        return false;
    }
    collect_up_to(fake, work);
    return true;
}

void orr__fake_work_wait(struct orr_fake_cuda *fake, struct orr__fake_work *work) {
    if (!work->collected) {
        fake->engine->verbs->wait(fake->engine, work);
        collect_up_to(fake, work);
    }
}

bool orr__fake_is_idle(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    return !stream->last || orr__fake_work_done(fake, stream->last);
}

void orr__fake_stream_wait(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    if (stream->last) {
        orr__fake_work_wait(fake, stream->last);
    }
}

void orr__fake_device_wait(struct orr_fake_cuda *fake, uint32_t device) {
    for (struct orr__fake_stream *s = fake->streams; s; s = s->next) {
        if (s->device == device) {
            orr__fake_stream_wait(fake, s);
        }
    }
}

void orr__fake_collect(struct orr_fake_cuda *fake) {
    for (struct orr__fake_stream *s = fake->streams; s; s = s->next) {
        while (s->first && fake->engine->verbs->done(fake->engine, s->first)) {
            collect_first(fake, s);
        }
    }
}

int64_t orr__fake_now(struct orr_fake_cuda *fake) {
    return fake->engine->verbs->now(fake->engine);
}

void orr__fake_spend(struct orr_fake_cuda *fake, int64_t ns) {
    fake->engine->verbs->spend(fake->engine, ns);
}
