/* A wait left out on purpose: what a schedule is worth shows when one of its waits is gone. */
#include <assert.h>
#include <stdio.h>

#include "runtime/runtime_internal.h"

/* Waits for nothing, or for a stream's own commands, order nothing. */
static bool orders(const struct orr_stream *stream, struct orr_point point) {
    return point.seq > 0 && point.stream != stream->id;
}

/* What a launch of a recorded program waits for was counted when it was recorded, or holds the
 * program together. */
static bool belongs_to_launch(const struct orr_command *command) {
    return (command->flags & ORR_COMMAND_GRAPH_NODE) ||
           command->record.header.a == ORR_COMMAND_GRAPH;
}

/* All but the one to be dropped, in room of the runtime's own. */
static enum orr_status leave_out(struct orr_runtime *runtime, uint32_t dropped,
                                 struct orr__waits *waits) {
    if (orr_memory_grow(runtime->memory, &runtime->kept_waits, &runtime->kept_wait_capacity,
                        waits->count, sizeof *runtime->kept_waits, UINT32_MAX) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < waits->count; i++)
        if (i != dropped)
            runtime->kept_waits[kept++] = waits->points[i];
    waits->dropped = waits->points[dropped];
    waits->points = runtime->kept_waits;
    waits->count = kept;
    return ORR_OK;
}

enum orr_status orr__waits_count(const struct orr_stream *stream, const struct orr_command *command,
                                 struct orr__waits *waits) {
    struct orr_runtime *runtime = stream->runtime;
    uint32_t dropped = waits->count;
    if (belongs_to_launch(command))
        return ORR_OK;
    waits->name = command->record.name;
    waits->site = command->record.site;
    waits->event = command->record.event;
    for (uint32_t i = 0; i < waits->count; i++) {
        if (!orders(stream, waits->points[i]))
            continue;
        waits->counted++;
        if (runtime->wait_count + waits->counted == runtime->drop_wait)
            dropped = i;
    }
    return dropped < waits->count ? leave_out(runtime, dropped, waits) : ORR_OK;
}

static void tell_dropped(const struct orr_stream *stream, const struct orr__waits *waits,
                         uint64_t cmd) {
    struct orr_runtime *runtime = stream->runtime;
    const struct orr_stream *source = runtime->streams[waits->dropped.stream];
    const char *site = orr_names_text(runtime->names, waits->site);
    const char *event = orr_names_text(runtime->names, waits->event);
    char message[512];
    snprintf(message, sizeof message,
             "%s%swait %llu of the run was left out on purpose: '%s' in stream '%s' of device %u "
             "does not wait for stream '%s' of device %u%s%s",
             site, *site ? ": " : "", (unsigned long long)runtime->drop_wait,
             orr_names_text(runtime->names, waits->name), orr_stream_name(stream),
             (unsigned)stream->device, orr_stream_name(source), (unsigned)source->device,
             *event ? ", event " : "", event);
    orr_runtime_finding(runtime, "dropped-wait", "note", waits->dropped.cmd, cmd, 0, message, "");
}

void orr__waits_told(const struct orr_stream *stream, const struct orr__waits *waits,
                     uint64_t cmd) {
    struct orr_runtime *runtime = stream->runtime;
    runtime->wait_count += waits->counted;
    if (waits->dropped.seq > 0)
        tell_dropped(stream, waits, cmd);
}

uint64_t orr_runtime_wait_count(const struct orr_runtime *runtime) {
    return runtime->wait_count;
}
