/* Timelines -> the event model: what own and other tools' traces have in common. See events.h. */
#include <stdio.h>
#include <string.h>

#include "analyzer/events_fill.h"

/* ------------------------------------------------------------------------------------------------
 * Devices, streams, hosts */

static enum orr_status add_devices(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->device_count; i++) {
        const struct orr_timeline_device *device = &t->devices[i];
        struct orr_events_device item = {.id = device->id,
                                         .name = device->name,
                                         .mem_bytes = device->mem_bytes,
                                         .bandwidth = device->bandwidth};
        memcpy(item.peak, device->peak, sizeof item.peak);
        enum orr_status status = orr_events_add_device(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* Streams of unknown devices are left out, and so is what runs in them. */
static enum orr_status add_streams(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->stream_count; i++) {
        const struct orr_timeline_stream *stream = &t->streams[i];
        uint32_t device = orr__find_device(t, stream->device);
        b->stream_index[i] = ORR_EVENTS_NONE;
        if (device == ORR_EVENTS_NONE) {
            continue;
        }
        struct orr_events_stream item = {
            .device = device, .id = stream->id, .process = stream->process, .name = stream->name};
        enum orr_status status = orr_events_add_stream(b->events, &item, &b->stream_index[i]);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

static enum orr_status add_threads(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    for (size_t i = 0; i < t->host_count; i++) {
        const struct orr_timeline_host *host = &t->hosts[i];
        struct orr_events_thread item = {.name = host->name, .process = host->process};
        if (host->label && host->label[0] != '\0') {
            snprintf(item.label, sizeof item.label, "%s", host->label);
        } else {
            snprintf(item.label, sizeof item.label, "%u", host->id);
        }
        enum orr_status status = orr_events_add_thread(b->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* ---------------------------------------------------------------------------------------------- */

static uint64_t meta_number(const struct orr_timeline *t, const char *key) {
    const char *text = orr_timeline_meta(t, key);
    uint64_t value = 0;
    for (; text && *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

static uint64_t known(uint64_t number) {
    return number == ORR_SOURCE_NONE ? 0 : number;
}

static void set_source(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    const char *backend = orr_timeline_meta(t, "backend");
    const char *status = orr_timeline_meta(t, "status");
    struct orr_events_source *source = &b->events->source;
    source->format = "orrery";
    source->status = status ? status : "";
    source->modelled = backend && strcmp(backend, "sim") == 0;
    source->knows_waits = true;
    source->knows_syncs = true;
    source->dropped = meta_number(t, "dropped");
    if (orr__timeline_imported(t)) {
        source->format = t->source.format;
        source->modelled = false;
        source->knows_waits = t->source.knows_waits;
        source->knows_syncs = t->source.knows_syncs;
        source->has_time_base = t->source.has_time_base;
        source->time_base_ns = t->source.time_base_ns;
        source->subns_stamps = known(t->source.subns_stamps);
        source->world_size = known(t->source.world_size);
    }
}

static void free_filler(struct orr__filler *b) {
    void *arrays[] = {b->call_of,       b->op_of,           b->op_before,    b->operator_of,
                      b->collective_of, b->stream_commands, b->stream_first, b->stream_index,
                      b->graphs,        b->graph_order,     b->awaits,       b->last_broadcast,
                      b->merged_call};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(b->memory, arrays[i]);
    }
}

/* Exact room for ops and calls. */
static enum orr_status count_rows(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    size_t ops = 0;
    for (size_t i = 0; i < t->command_count; i++) {
        ops += orr__is_op_kind(t->commands[i].kind);
    }
    size_t calls = orr__timeline_imported(t) ? t->call_count : t->command_count + t->sync_count;
    return orr_events_reserve(b->events, ops, calls);
}

static enum orr_status create_filler(struct orr__filler *b) {
    const struct orr_timeline *t = b->timeline;
    const struct orr_memory *m = b->memory;
    size_t commands = t->command_count;
    b->call_of = orr_memory_resize(m, NULL, commands * sizeof *b->call_of);
    b->op_of = orr_memory_resize(m, NULL, commands * sizeof *b->op_of);
    b->op_before = orr_memory_resize(m, NULL, commands * sizeof *b->op_before);
    b->operator_of = orr_memory_resize(m, NULL, t->op_count * sizeof *b->operator_of);
    b->stream_commands = orr_memory_resize(m, NULL, commands * sizeof *b->stream_commands);
    b->stream_first = orr_memory_alloc(m, (t->stream_count + 1) * sizeof *b->stream_first);
    b->stream_index = orr_memory_alloc(m, t->stream_count * sizeof *b->stream_index);
    b->awaits = orr_memory_alloc(m, commands / 8 + 1);
    b->last_broadcast = orr_memory_alloc(m, t->device_count * sizeof *b->last_broadcast);
    bool all = b->call_of && b->op_of && b->op_before && b->operator_of && b->stream_commands &&
               b->stream_first && b->stream_index && b->awaits && b->last_broadcast;
    return all ? count_rows(b) : ORR_NO_MEMORY;
}

enum { STEPS = 9 };

static enum orr_status fill(struct orr__filler *b) {
    enum orr_status (*const own[STEPS])(struct orr__filler *) = {
        create_filler,   add_devices,           add_streams,   add_threads,
        orr__fill_calls, orr__fill_collectives, orr__fill_ops, orr__fill_dependencies,
        orr__fill_syncs};
    enum orr_status (*const imported[STEPS])(struct orr__filler *) = {create_filler,
                                                                      add_devices,
                                                                      add_streams,
                                                                      add_threads,
                                                                      orr__fill_imported_calls,
                                                                      orr__fill_collectives,
                                                                      orr__fill_imported_ops,
                                                                      orr__fill_imported_waits,
                                                                      orr__fill_imported_syncs};
    bool foreign = orr__timeline_imported(b->timeline);
    for (size_t i = 0; i < STEPS; i++) {
        enum orr_status status = foreign ? imported[i](b) : own[i](b);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

enum orr_status orr_events_from_timeline(const struct orr_timeline *timeline,
                                         const struct orr_memory *memory,
                                         struct orr_events *out_events, struct orr_error *error) {
    orr_events_init(out_events, memory);
    if (timeline->command_count >= ORR_EVENTS_NONE || timeline->op_count >= ORR_EVENTS_NONE ||
        timeline->call_count >= ORR_EVENTS_NONE) {
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "analyze: %zu commands and %zu calls; at most %u are supported",
                             timeline->command_count, timeline->call_count, ORR_EVENTS_NONE - 1);
    }
    struct orr__filler filler = {.timeline = timeline, .events = out_events, .memory = memory};
    enum orr_status status = fill(&filler);
    if (status == ORR_OK) {
        set_source(&filler);
        status = orr_events_prepare(out_events, error);
    } else {
        orr_error_set(error, status, "analyze: %zu commands do not fit in memory",
                      timeline->command_count);
    }
    free_filler(&filler);
    if (status != ORR_OK) {
        orr_events_free(out_events);
    }
    return status;
}
