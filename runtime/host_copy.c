/* Copies that concern the host: those that it waits for, and those from pageable memory, whose
 * source it reads itself (races.md rules 16-18).
 *
 * Such a call has several steps, each of which may have to let another host run first. The caller
 * then repeats the call; the host remembers which steps are done. */
#include <assert.h>

#include "runtime/buffer.h"
#include "runtime/runtime_internal.h"

struct copy {
    struct orr_stream *stream;
    struct orr_range to, from;
};

enum step { STEP_FIRST, STEP_JOINED, STEP_STAGING, STEP_READ, STEP_ENQUEUED };

static bool is_host_memory(const struct orr_buffer *buffer) {
    return !buffer->stream;
}

/* The end of a call, or of an attempt at one. */
static enum orr_status end_call(struct orr_runtime *runtime, enum orr_status status) {
    struct orr__host *host = &runtime->hosts[runtime->host];
    if (status == ORR_BLOCKED)
        return status;
    host->step = STEP_FIRST;
    orr_buffer_free(&host->staging);
    return status;
}

/* A command, then the host waits for its stream. */
static enum orr_status copy_and_join(const struct copy *copy) {
    struct orr_runtime *runtime = copy->stream->runtime;
    struct orr__host *host = &runtime->hosts[runtime->host];
    enum orr_status status = ORR_OK;
    if (host->step < STEP_ENQUEUED)
        status = orr__stream_copy(copy->stream, &copy->to, &copy->from);
    if (status == ORR_OK) {
        host->step = STEP_ENQUEUED;
        status = orr_stream_sync(copy->stream);
    }
    return end_call(runtime, status);
}

/* What it takes the host to read the source: as long as the link to the device would. */
static int64_t read_ns(const struct copy *copy) {
    const struct orr_runtime *runtime = copy->stream->runtime;
    uint64_t rate = runtime->devices[copy->stream->device].spec.host_bandwidth;
    uint64_t bytes_per_us = rate / 1000000, bytes = copy->from.bytes;
    if (bytes_per_us == 0 || bytes > UINT64_MAX / 1000)
        return -1;
    return (int64_t)(bytes * 1000 / bytes_per_us);
}

/* The host reads the source into a buffer of its own, from which the stream copies. */
static enum orr_status copy_staged(const struct copy *copy, bool joins) {
    struct orr_runtime *runtime = copy->stream->runtime;
    struct orr__host *host = &runtime->hosts[runtime->host];
    enum orr_status status = ORR_OK;
    if (host->step < STEP_JOINED && joins)
        status = orr_stream_sync(copy->stream);
    if (status == ORR_OK && host->step < STEP_STAGING) {
        host->step = STEP_JOINED;
        status = orr_buffer_alloc_host(runtime, copy->from.bytes, "staging", &host->staging);
    }
    if (status == ORR_OK && host->step < STEP_READ) {
        host->step = STEP_STAGING;
        status = orr__buffer_stage(host->staging, &copy->from, read_ns(copy));
    }
    if (status == ORR_OK) {
        host->step = STEP_READ;
        const struct orr_range from = {host->staging, 0, copy->from.bytes, ORR_ACCESS_READ};
        status = orr__stream_copy(copy->stream, &copy->to, &from);
    }
    return end_call(runtime, status);
}

/* As the command itself would; for calls that do something else first. */
static enum orr_status check_copy(const struct copy *copy) {
    struct orr_runtime *runtime = copy->stream->runtime;
    struct orr__pending *pending = orr__pending_take(runtime, ORR_COMMAND_COPY, 0, 2);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    enum orr_status status = orr__pending_add(pending, ORR_ID_NONE, &copy->from);
    if (status == ORR_OK)
        status = orr__pending_add(pending, ORR_ID_NONE, &copy->to);
    orr__pending_drop(pending);
    return status;
}

enum orr_status orr_stream_copy(struct orr_stream *stream, struct orr_buffer *to,
                                uint64_t to_offset, struct orr_buffer *from, uint64_t from_offset,
                                uint64_t bytes) {
    const struct orr_runtime *runtime = stream->runtime;
    const struct copy copy = {.stream = stream,
                              .to = {to, to_offset, bytes, ORR_ACCESS_WRITE},
                              .from = {from, from_offset, bytes, ORR_ACCESS_READ}};
    bool plain = !from || !to || bytes == 0 || !is_host_memory(from) ||
                 orr__runtime_captures(runtime); /* a recorded one waits for nothing */
    if (!plain && is_host_memory(to))
        return copy_and_join(&copy);
    if (plain || !from->is_pageable || runtime->pageable == ORR_PAGEABLE_STRICT)
        return orr__stream_copy(stream, &copy.to, &copy.from);
    enum orr_status status = check_copy(&copy);
    return status == ORR_OK ? copy_staged(&copy, false) : status;
}

enum orr_status orr_device_copy_sync(struct orr_runtime *runtime, uint32_t device,
                                     struct orr_buffer *to, uint64_t to_offset,
                                     struct orr_buffer *from, uint64_t from_offset,
                                     uint64_t bytes) {
    struct orr_stream *legacy = orr_device_legacy_stream(runtime, device);
    if (!legacy)
        return runtime->error.status;
    const struct copy copy = {.stream = legacy,
                              .to = {to, to_offset, bytes, ORR_ACCESS_WRITE},
                              .from = {from, from_offset, bytes, ORR_ACCESS_READ}};
    enum orr_status status = check_copy(&copy);
    if (status != ORR_OK)
        return status;
    if (bytes > 0 && from->is_pageable && !is_host_memory(to))
        return copy_staged(&copy, true);
    if (is_host_memory(from) || is_host_memory(to))
        return copy_and_join(&copy);
    return orr__stream_copy(legacy, &copy.to, &copy.from);
}

enum orr_status orr_device_fill_sync(struct orr_runtime *runtime, uint32_t device,
                                     struct orr_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     uint8_t value) {
    struct orr_stream *legacy = orr_device_legacy_stream(runtime, device);
    if (!legacy)
        return runtime->error.status;
    struct orr__host *host = &runtime->hosts[runtime->host];
    enum orr_status status = ORR_OK;
    if (host->step < STEP_ENQUEUED)
        status = orr_stream_fill(legacy, buffer, offset, bytes, value);
    if (status == ORR_OK && is_host_memory(buffer) && !buffer->is_pageable) {
        host->step = STEP_ENQUEUED;
        status = orr_stream_sync(legacy);
    }
    return end_call(runtime, status);
}
