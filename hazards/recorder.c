/* The observer that writes calls down. */
#include "hazards/recorder.h"

#include <string.h>

#include "hazards/recorder_internal.h"

enum { ITEMS_MAX = 1 << 30 };

static struct orr_recorder *recorder_of(struct orr_observer *observer) {
    return (struct orr_recorder *)(void *)observer;
}

/* Room for `count` more items of an array; false once there was no memory. */
static bool reserve(struct orr_recorder *recorder, void *items, size_t *capacity, size_t count,
                    size_t more, size_t size) {
    if (recorder->status == ORR_OK &&
        orr_memory_grow(recorder->memory, items, capacity, count + more, size, ITEMS_MAX) != ORR_OK)
        recorder->status = ORR_NO_MEMORY;
    return recorder->status == ORR_OK;
}

static struct orr__call *add_call(struct orr_recorder *recorder, enum orr__call_kind kind,
                                  uint32_t host) {
    if (!reserve(recorder, &recorder->calls, &recorder->call_capacity, recorder->call_count, 1,
                 sizeof *recorder->calls))
        return NULL;
    struct orr__call *call = &recorder->calls[recorder->call_count++];
    *call = (struct orr__call){
        .kind = (uint8_t)kind, .host = host, .stream = ORR_ID_NONE, .communicator = ORR_ID_NONE};
    return call;
}

/* Points of seq 0 stand for nothing. */
static void add_points(struct orr_recorder *recorder, struct orr__call *call,
                       const struct orr_point *points, uint32_t count) {
    call->point_first = recorder->point_count;
    if (count == 0 || !reserve(recorder, &recorder->points, &recorder->point_capacity,
                               recorder->point_count, count, sizeof *recorder->points))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (points[i].seq > 0) {
            recorder->points[recorder->point_count++] = points[i];
            call->point_count++;
        }
}

static void note_stream(struct orr_observer *observer, const struct orr_record_stream *stream) {
    struct orr_recorder *recorder = recorder_of(observer);
    if (reserve(recorder, &recorder->streams, &recorder->stream_capacity, recorder->stream_count, 1,
                sizeof *recorder->streams))
        recorder->streams[recorder->stream_count++] =
            (struct orr__noted_stream){stream->id, stream->device, stream->name};
}

static void note_host(struct orr_observer *observer, const struct orr_observed_host *host) {
    struct orr_recorder *recorder = recorder_of(observer);
    if (!reserve(recorder, &recorder->hosts, &recorder->host_capacity, recorder->host_count, 1,
                 sizeof *recorder->hosts))
        return;
    const char *name = host->name ? host->name : "";
    struct orr__noted_host noted = {host->id,
                                    orr_memory_text(recorder->memory, name, strlen(name))};
    if (noted.name)
        recorder->hosts[recorder->host_count++] = noted;
    else
        recorder->status = ORR_NO_MEMORY;
}

static void note_buffer(struct orr_observer *observer, const struct orr_observed_buffer *buffer) {
    struct orr_recorder *recorder = recorder_of(observer);
    if (buffer->bytes > UINT64_MAX - buffer->base ||
        (recorder->buffer_count > 0 &&
         recorder->buffers[recorder->buffer_count - 1].id >= buffer->id) ||
        !reserve(recorder, &recorder->buffers, &recorder->buffer_capacity, recorder->buffer_count,
                 1, sizeof *recorder->buffers))
        return;
    recorder->buffers[recorder->buffer_count++] =
        (struct orr__noted_buffer){.id = buffer->id,
                                   .base = buffer->base,
                                   .bytes = buffer->bytes,
                                   .memory = buffer->memory,
                                   .label = buffer->label,
                                   .is_host = buffer->device == ORR_ID_NONE,
                                   .is_pageable = buffer->is_pageable};
    struct orr__call *call = add_call(recorder, ORR__CALL_ALLOC, buffer->host);
    if (!call)
        return;
    call->id = buffer->id;
    call->site = buffer->site;
    call->stream = buffer->stream;
    add_points(recorder, call, buffer->after, buffer->after_count);
}

static void note_free(struct orr_observer *observer, uint64_t id, uint64_t cmd, uint32_t host,
                      uint32_t site) {
    struct orr__call *call = add_call(recorder_of(observer), ORR__CALL_FREE, host);
    (void)cmd;
    if (!call)
        return;
    call->id = id;
    call->site = site;
}

static void note_record_stream(struct orr_observer *observer, uint64_t id, uint32_t stream) {
    struct orr__call *call = add_call(recorder_of(observer), ORR__CALL_RECORD_STREAM, ORR_ID_NONE);
    if (!call)
        return;
    call->id = id;
    call->stream = stream;
}

static void note_command(struct orr_observer *observer,
                         const struct orr_observed_command *command) {
    struct orr_recorder *recorder = recorder_of(observer);
    struct orr__call *call = add_call(recorder, ORR__CALL_COMMAND, command->host);
    if (!call)
        return;
    call->command = (uint8_t)command->kind;
    call->stream = command->stream;
    call->id = command->id;
    call->seq = command->seq;
    call->name = command->name;
    call->site = command->site;
    call->communicator = command->communicator;
    call->rank = command->rank;
    call->members = command->members;
    call->collective_kind = (uint8_t)command->collective_kind;
    call->access_first = recorder->access_count;
    add_points(recorder, call, command->waits, command->wait_count);
    if (command->access_count == 0 ||
        !reserve(recorder, &recorder->accesses, &recorder->access_capacity, recorder->access_count,
                 command->access_count, sizeof *recorder->accesses))
        return;
    memcpy(recorder->accesses + recorder->access_count, command->accesses,
           command->access_count * sizeof *command->accesses);
    recorder->access_count += command->access_count;
    call->access_count = command->access_count;
}

static void note_observed(struct orr_observer *observer, uint32_t host,
                          const struct orr_point *points, uint32_t count) {
    struct orr__call *call = add_call(recorder_of(observer), ORR__CALL_OBSERVED, host);
    if (call)
        add_points(recorder_of(observer), call, points, count);
}

static void note_posted(struct orr_observer *observer, uint32_t host, uint64_t message) {
    struct orr__call *call = add_call(recorder_of(observer), ORR__CALL_POSTED, host);
    if (call)
        call->id = message;
}

static void note_taken(struct orr_observer *observer, uint32_t host, uint64_t message) {
    struct orr__call *call = add_call(recorder_of(observer), ORR__CALL_TAKEN, host);
    if (call)
        call->id = message;
}

uint32_t orr__recorder_buffer(const struct orr_recorder *recorder, uint64_t id) {
    size_t low = 0, high = recorder->buffer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (recorder->buffers[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < recorder->buffer_count && recorder->buffers[low].id == id ? (uint32_t)low
                                                                           : ORR_NONE;
}

enum orr_status orr_recorder_create(const struct orr_memory *memory,
                                    struct orr_recorder **out_recorder) {
    *out_recorder = orr_memory_alloc(memory, sizeof **out_recorder);
    if (!*out_recorder)
        return ORR_NO_MEMORY;
    **out_recorder = (struct orr_recorder){.memory = memory,
                                           .observer = {.stream = note_stream,
                                                        .host = note_host,
                                                        .buffer = note_buffer,
                                                        .free = note_free,
                                                        .record_stream = note_record_stream,
                                                        .command = note_command,
                                                        .observed = note_observed,
                                                        .posted = note_posted,
                                                        .taken = note_taken}};
    return ORR_OK;
}

void orr_recorder_destroy(struct orr_recorder **handle) {
    struct orr_recorder *recorder = *handle;
    if (!recorder)
        return;
    const struct orr_memory *memory = recorder->memory;
    for (size_t i = 0; i < recorder->host_count; i++)
        orr_memory_free(memory, recorder->hosts[i].name);
    orr_memory_free(memory, recorder->calls);
    orr_memory_free(memory, recorder->accesses);
    orr_memory_free(memory, recorder->points);
    orr_memory_free(memory, recorder->buffers);
    orr_memory_free(memory, recorder->streams);
    orr_memory_free(memory, recorder->hosts);
    orr_memory_free(memory, recorder);
    *handle = NULL;
}

struct orr_observer *orr_recorder_observer(struct orr_recorder *recorder) {
    return &recorder->observer;
}
