/* Events: names for points. All that an event holds is the point of the record command. */
#include <assert.h>
#include <stdio.h>

#include "runtime/runtime_internal.h"

/* "record e1": what the trace calls the commands of an event. */
static enum orr_status command_name(struct orr_runtime *runtime, const char *kind,
                                    const char *event, uint32_t *out_id) {
    char text[256];
    snprintf(text, sizeof text, "%s %s", kind, event);
    return orr__runtime_name(runtime, text, out_id);
}

static enum orr_status make_names(struct orr_runtime *runtime, const char *name,
                                  struct orr__event_names *names) {
    enum orr_status status = orr__runtime_name(runtime, name, &names->name);
    if (status == ORR_OK)
        status = command_name(runtime, "record", name, &names->record);
    if (status == ORR_OK)
        status = command_name(runtime, "wait", name, &names->wait);
    return status;
}

/* "e1", "e2", ... in order of creation: made once, however often the runtime is rewound. */
static enum orr_status numbered_names(struct orr_runtime *runtime,
                                      struct orr__event_names *out_names) {
    size_t number = runtime->event_count + 1;
    if (number <= runtime->event_name_capacity && runtime->event_names[number - 1].wait) {
        *out_names = runtime->event_names[number - 1];
        return ORR_OK;
    }
    char name[32];
    snprintf(name, sizeof name, "e%llu", (unsigned long long)number);
    enum orr_status status = make_names(runtime, name, out_names);
    if (status != ORR_OK || number > ORR__EVENT_NAMES)
        return status;
    if (orr_memory_grow(runtime->memory, &runtime->event_names, &runtime->event_name_capacity,
                        number, sizeof *runtime->event_names, ORR__EVENT_NAMES) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    runtime->event_names[number - 1] = *out_names;
    return ORR_OK;
}

enum orr_status orr_event_create(struct orr_runtime *runtime, const char *name,
                                 struct orr_event **out_event) {
    *out_event = NULL;
    struct orr__event_names names;
    enum orr_status status =
        name && *name ? make_names(runtime, name, &names) : numbered_names(runtime, &names);
    if (status != ORR_OK)
        return status;
    struct orr_event *event = orr_memory_alloc(runtime->memory, sizeof *event);
    if (!event)
        return orr__runtime_no_memory(runtime);
    runtime->event_count++;
    event->runtime = runtime;
    event->names = names;
    event->next = runtime->events;
    if (event->next)
        event->next->previous = event;
    runtime->events = event;
    *out_event = event;
    return ORR_OK;
}

void orr_event_destroy(struct orr_event **handle) {
    struct orr_event *event = *handle;
    if (!event)
        return;
    if (event->previous)
        event->previous->next = event->next;
    else
        event->runtime->events = event->next;
    if (event->next)
        event->next->previous = event->previous;
    orr_memory_free(event->runtime->memory, event);
    *handle = NULL;
}

void orr__events_destroy(struct orr_runtime *runtime) {
    while (runtime->events) {
        struct orr_event *event = runtime->events;
        orr_event_destroy(&event);
    }
}

const char *orr_event_name(const struct orr_event *event) {
    return orr_names_text(event->runtime->names, event->names.name);
}

enum orr_status orr_event_record(struct orr_event *event, struct orr_stream *stream) {
    struct orr_runtime *runtime = stream->runtime;
    assert(event->runtime == runtime);
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_RECORD, event->names.record, 0);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    pending->command.record.event = event->names.name;
    struct orr_point point;
    enum orr_status status = orr__runtime_submit(stream, pending, NULL, 0, &point);
    if (status != ORR_OK)
        return status;
    assert(point.seq > 0);
    event->point = point;
    event->recorded = true;
    return ORR_OK;
}

/* races.md rule 11: a wait for an event that was never recorded waits for nothing. It is legal, and
 * hardly ever meant. */
static void warn_unrecorded(struct orr_stream *stream, const struct orr_event *event,
                            uint64_t cmd) {
    char message[256];
    snprintf(message, sizeof message,
             "stream '%s' of device %u waits for event '%s', which was never recorded: the wait "
             "does nothing",
             orr_stream_name(stream), (unsigned)stream->device, orr_event_name(event));
    orr_runtime_finding(stream->runtime, "event-unrecorded", "warning", cmd, 0, 0, message,
                        "record the event on the stream that produces before the wait");
}

enum orr_status orr_stream_wait(struct orr_stream *stream, struct orr_event *event) {
    struct orr_runtime *runtime = stream->runtime;
    assert(event->runtime == runtime);
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_WAIT, event->names.wait, 0);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    pending->command.record.event = event->names.name;
    struct orr_point point;
    enum orr_status status =
        orr__runtime_submit(stream, pending, &event->point, event->recorded ? 1 : 0, &point);
    if (status == ORR_OK && !event->recorded)
        warn_unrecorded(stream, event, point.cmd);
    return status;
}

enum orr_status orr_event_sync(struct orr_event *event) {
    struct orr_runtime *runtime = event->runtime;
    if (event->recorded)
        return orr__runtime_wait(runtime, &event->point, 1, ORR_WAIT_ALL, ORR_TIME_MAX,
                                 ORR_SYNC_EVENT, event->names.name, NULL);
    enum orr_status status = orr__runtime_turn(runtime);
    if (status == ORR_OK)
        orr__runtime_spend_event(runtime, 0);
    return status;
}

enum orr_status orr_event_query(struct orr_event *event) {
    struct orr_runtime *runtime = event->runtime;
    if (event->recorded)
        return orr__runtime_query(runtime, &event->point, 1, ORR_SYNC_EVENT, event->names.name);
    enum orr_status status = orr__runtime_turn(runtime);
    if (status == ORR_OK)
        orr__runtime_spend_event(runtime, 0);
    return status;
}
