/* A wait left out on purpose: what a schedule is worth shows when one of its waits is gone.
 *
 * Not every wait is worth leaving out. One that a stream has waited for already, or for something
 * later in the same stream, changes nothing, nor does one for what the calling host has seen done;
 * they are passed over. What comes to the same by a detour through other streams counts. */
#include <assert.h>
#include <stdio.h>

#include "runtime/runtime_internal.h"

enum { AWAITED_MAX = 1 << 20, IDLE_MAX = 1 << 28 };

/* How far the stream has waited for another one; room for one more if it never has. NULL: no
 * memory. */
static struct orr__awaited *awaited(struct orr_stream *stream, uint32_t other) {
    struct orr_runtime *runtime = stream->runtime;
    size_t i = 0;
    while (i < stream->awaited_count && stream->awaited[i].stream != other)
        i++;
    if (i < stream->awaited_count)
        return &stream->awaited[i];
    if (orr_memory_grow(runtime->memory, &stream->awaited, &stream->awaited_capacity, i + 1,
                        sizeof *stream->awaited, AWAITED_MAX) != ORR_OK)
        return NULL;
    stream->awaited[stream->awaited_count++] = (struct orr__awaited){.stream = other};
    return &stream->awaited[i];
}

static bool host_knows(const struct orr_runtime *runtime, struct orr_point point) {
    const struct orr_stream *stream = runtime->streams[point.stream];
    return point.cmd > 0 && stream->seen_host == runtime->host && stream->seen_cmd >= point.cmd;
}

/* Points of commands that are being recorded have no place in a stream yet. */
static bool is_recorded(struct orr_point point) {
    return (point.seq & ORR__POINT_RECORDED) != 0;
}

static enum orr_status does_count(struct orr_stream *stream, struct orr_point point,
                                  bool *out_counts) {
    const struct orr_runtime *runtime = stream->runtime;
    *out_counts = point.seq > 0 && point.stream != stream->id;
    if (!*out_counts || is_recorded(point))
        return ORR_OK;
    const struct orr__awaited *entry = awaited(stream, point.stream);
    if (!entry)
        return orr__runtime_no_memory(stream->runtime);
    *out_counts = entry->seq < point.seq && !host_knows(runtime, point);
    return ORR_OK;
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

enum orr_status orr__waits_count(struct orr_stream *stream, const struct orr_command *command,
                                 struct orr__waits *waits) {
    struct orr_runtime *runtime = stream->runtime;
    uint32_t dropped = waits->count;
    if (belongs_to_launch(command))
        return ORR_OK;
    waits->name = command->record.name;
    waits->site = command->record.site;
    waits->event = command->record.event;
    for (uint32_t i = 0; i < waits->count; i++) {
        bool counts;
        enum orr_status status = does_count(stream, waits->points[i], &counts);
        if (status != ORR_OK)
            return status;
        if (!counts)
            continue;
        waits->counted++;
        if (runtime->wait_count + waits->counted == runtime->drop_wait)
            dropped = i;
    }
    waits->all = waits->points;
    waits->all_count = waits->count;
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

/* An earlier wait for the same stream, with no work in between, is superfluous. Without memory that
 * is not noted: it only serves to choose well. */
static void replace_wait(struct orr_stream *stream, struct orr__awaited *entry, uint64_t wait) {
    struct orr_runtime *runtime = stream->runtime;
    if (entry->wait > 0 && entry->epoch == stream->epoch &&
        orr_memory_grow(runtime->memory, &runtime->idle_waits, &runtime->idle_wait_capacity,
                        runtime->idle_wait_count + 1, sizeof *runtime->idle_waits,
                        IDLE_MAX) == ORR_OK)
        runtime->idle_waits[runtime->idle_wait_count++] = entry->wait;
    entry->wait = wait;
    entry->epoch = stream->epoch;
}

/* `wait`: its number if it counts, else 0. */
static void tell_wait(struct orr_stream *stream, struct orr_point point, uint64_t wait) {
    if (point.seq == 0 || point.stream == stream->id || is_recorded(point))
        return;
    struct orr__awaited *entry = awaited(stream, point.stream);
    if (!entry || (wait == 0 && point.seq < entry->seq))
        return;
    replace_wait(stream, entry, wait); /* the same again does what it did */
    entry->seq = point.seq;
}

/* The one that was left out is taken note of like the others: which waits count does not depend on
 * it. */
void orr__waits_told(struct orr_stream *stream, const struct orr__waits *waits, uint64_t cmd) {
    struct orr_runtime *runtime = stream->runtime;
    for (uint32_t i = 0; i < waits->all_count; i++) {
        bool counts = false;
        (void)!does_count(stream, waits->all[i], &counts); /* its room was made before */
        runtime->wait_count += counts;
        tell_wait(stream, waits->all[i], counts ? runtime->wait_count : 0);
    }
    if (waits->dropped.seq > 0)
        tell_dropped(stream, waits, cmd);
}

bool orr_runtime_wait_matters(const struct orr_runtime *runtime, uint64_t wait) {
    for (size_t i = 0; i < runtime->idle_wait_count; i++)
        if (runtime->idle_waits[i] == wait)
            return false;
    return wait > 0 && wait <= runtime->wait_count;
}

uint64_t orr_runtime_wait_count(const struct orr_runtime *runtime) {
    return runtime->wait_count;
}
