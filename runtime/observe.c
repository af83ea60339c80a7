/* What the observer is told. Callers ask first whether there is one, so that a run without one pays
 * a comparison a command. */
#include "runtime/observer.h"

#include <assert.h>

#include "runtime/runtime_internal.h"

enum orr_status orr__observe_reserve(struct orr_runtime *runtime, uint32_t count) {
    assert(runtime->observer);
    return orr_memory_grow(runtime->memory, &runtime->observed_accesses,
                           &runtime->observed_access_capacity, count,
                           sizeof *runtime->observed_accesses, UINT32_MAX);
}

void orr__observe_host(const struct orr_runtime *runtime, uint32_t id, const char *name) {
    const struct orr_observed_host host = {.id = id, .name = name};
    runtime->observer->host(runtime->observer, &host);
}

/* The ranges of a command, in room that was made when it was taken. */
static void convert_accesses(const struct orr__pending *pending,
                             struct orr_observed_command *command) {
    const struct orr_runtime *runtime = pending->runtime;
    struct orr_observed_access *accesses = runtime->observed_accesses;
    command->access_count = pending->command.access_count;
    command->accesses = accesses;
    assert(command->access_count <= runtime->observed_access_capacity);
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_access *range = &pending->command.accesses[i];
        const struct orr_buffer *buffer = orr__pending_buffer(pending, i);
        accesses[i] = (struct orr_observed_access){.buffer = buffer->id,
                                                   .offset = range->offset - buffer->base,
                                                   .bytes = range->bytes,
                                                   .mode = (enum orr_access_mode)range->mode};
    }
}

/* Its place in its stream is the next one: it is told before the stream knows of it. The host is
 * the one that calls, also where a dispatch host launches. */
void orr__observe_command(const struct orr__pending *pending) {
    const struct orr_runtime *runtime = pending->runtime;
    const struct orr_record_command *record = &pending->command.record;
    bool queued = record->stream != ORR_ID_NONE;
    struct orr_observed_command command = {
        .id = record->id,
        .seq = queued ? runtime->streams[record->stream]->last.seq + 1 : 0,
        .op = record->op,
        .kind = (enum orr_command_kind)record->header.a,
        .host = runtime->host,
        .device = record->device,
        .stream = record->stream,
        .name = record->name,
        .site = record->site,
        .event = record->event,
        .waits = runtime->submit_waits,
        .wait_count = runtime->submit_wait_count,
        .communicator = ORR_ID_NONE,
        .rank = ORR_ID_NONE};
    convert_accesses(pending, &command);
    if (pending->communicator) {
        command.communicator = pending->communicator->id;
        command.rank = pending->command.collective->rank;
        command.collective = pending->communicator->seq;
        command.members = runtime->submit_group_count;
        command.collective_kind = pending->command.collective->kind;
    }
    runtime->observer->command(runtime->observer, &command);
}

void orr__observe_buffer(const struct orr_buffer *buffer, uint64_t cmd,
                         const struct orr_point *after, uint32_t after_count) {
    const struct orr_runtime *runtime = buffer->runtime;
    const struct orr_observed_buffer observed = {.id = buffer->id,
                                                 .base = buffer->base,
                                                 .bytes = buffer->bytes,
                                                 .cmd = cmd,
                                                 .memory = buffer->memory,
                                                 .device = buffer->device,
                                                 .stream = buffer->stream ? buffer->stream->id
                                                                          : ORR_ID_NONE,
                                                 .host = runtime->host,
                                                 .label = buffer->label,
                                                 .site = buffer->site,
                                                 .is_pageable = buffer->is_pageable,
                                                 .after = after,
                                                 .after_count = after_count};
    runtime->observer->buffer(runtime->observer, &observed);
}

void orr__observe_free(const struct orr_buffer *buffer, uint64_t cmd) {
    const struct orr_runtime *runtime = buffer->runtime;
    runtime->observer->free(runtime->observer, buffer->id, cmd, runtime->host, runtime->site);
}
