/* The rules of default streams (races.md 2-5), as points. `legacy` is a device's legacy default
 * stream, s1 and s2 are blocking streams of that device; each command waits for what is drawn left
 * of it:
 *
 *     s1      [a]----+            +--[c]
 *     s2         [b]-+->          |
 *     legacy            [barrier]-+
 *
 * A command of the legacy stream waits for the blocking streams as they are at its call, and is
 * the barrier that their later commands wait for. A record is no barrier: it only stands for what
 * was there. Nor is a wait for nothing, as for an event that was never recorded. Of what a stream
 * waits for already it isn't told again: it is in order. */
#include <assert.h>

#include "runtime/runtime_internal.h"

static bool is_blocking(const struct orr_stream *stream) {
    return stream->sync == ORR_STREAM_BL || stream->sync == ORR_STREAM_PTDS;
}

/* The points that an action of the stream has to come after, besides its own stream's; `all`: also
 * those that it waits for already. There is room for one a stream. */
static uint32_t gather(const struct orr_stream *stream, bool all, struct orr_point *points) {
    const struct orr__device *device = &stream->runtime->devices[stream->device];
    uint32_t count = 0;
    if (is_blocking(stream)) {
        if (device->legacy && (all || device->legacy->barrier.seq > stream->awaits_seq) &&
            device->legacy->barrier.seq > 0)
            points[count++] = device->legacy->barrier;
        return count;
    }
    assert(stream->sync == ORR_STREAM_LEGACY);
    for (const struct orr_stream *it = device->all; it; it = it->next)
        if (is_blocking(it) && (all || it->last.seq > it->awaited_seq) && it->last.seq > 0)
            points[count++] = it->last;
    return count;
}

uint32_t orr__default_stream_points(const struct orr_stream *stream, struct orr_point *points) {
    uint32_t count = 0;
    points[count++] = stream->last;
    if (stream->sync != ORR_STREAM_NB)
        count += gather(stream, true, points + count);
    return count;
}

/* races.md rule 28, code 906. A host's own calls never come here while they are recorded. */
static enum orr_status check_capture(const struct orr_stream *stream) {
    struct orr_runtime *runtime = stream->runtime;
    if (!runtime->capture || stream->sync != ORR_STREAM_LEGACY)
        return ORR_OK;
    const struct orr_stream *it = runtime->devices[stream->device].all;
    while (it && !(is_blocking(it) && orr__capture_uses(it)))
        it = it->next;
    if (!it)
        return ORR_OK;
    return orr__runtime_fail(runtime, ORR_UNSUPPORTED,
                             "%s%sdependency on a capturing stream from the legacy default stream "
                             "of device %u (code 906): its blocking stream '%s' is being recorded",
                             runtime->site_text, *runtime->site_text ? ": " : "",
                             (unsigned)stream->device, orr_stream_name(it));
}

enum orr_status orr__default_stream_waits(struct orr_stream *stream, const struct orr_point **waits,
                                          uint32_t *wait_count) {
    struct orr_runtime *runtime = stream->runtime;
    enum orr_status status = check_capture(stream);
    if (status != ORR_OK)
        return status;
    if (orr_memory_grow(runtime->memory, &runtime->default_waits, &runtime->default_wait_capacity,
                        runtime->stream_count + *wait_count, sizeof *runtime->default_waits,
                        UINT32_MAX) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    uint32_t count = gather(stream, false, runtime->default_waits);
    for (uint32_t i = 0; i < *wait_count; i++)
        runtime->default_waits[count++] = (*waits)[i];
    *waits = runtime->default_waits;
    *wait_count = count;
    return ORR_OK;
}

void orr__default_stream_enqueued(struct orr_stream *stream, enum orr_command_kind kind,
                                  bool waited) {
    const struct orr__device *device = &stream->runtime->devices[stream->device];
    if (is_blocking(stream)) {
        if (waited && device->legacy)
            stream->awaits_seq = device->legacy->barrier.seq;
        return;
    }
    assert(stream->sync == ORR_STREAM_LEGACY);
    for (struct orr_stream *it = device->all; waited && it; it = it->next)
        if (is_blocking(it))
            it->awaited_seq = it->last.seq;
    if (kind != ORR_COMMAND_RECORD)
        stream->barrier = stream->last;
}

enum orr_status orr__default_stream_settle(struct orr_stream *stream) {
    struct orr_runtime *runtime = stream->runtime;
    if (stream->sync == ORR_STREAM_NB || gather(stream, false, runtime->point_scratch) == 0)
        return ORR_OK;
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_MARKER, runtime->id_wait, 0);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    return orr__runtime_submit(stream, pending, NULL, 0, NULL);
}

struct orr_stream *orr_device_legacy_stream(struct orr_runtime *runtime, uint32_t device) {
    if (device < runtime->device_count && runtime->devices[device].legacy)
        return runtime->devices[device].legacy;
    struct orr_stream *stream;
    enum orr_status status = orr_stream_create_blocking(runtime, device, ORR_STREAM_COMPUTE,
                                                        ORR_STREAM_LEGACY, "legacy", &stream);
    return status == ORR_OK ? stream : NULL;
}
