#include "sim/hang.h"

#include <stdarg.h>
#include <stdio.h>

#include "sim/perturb.h"

enum { STREAMS_MAX = 6, STREAMS_OF_A_HOST = 2 }; /* that a text goes through */

struct saying {
    struct orr__sim *sim;
    char text[ORR_ERROR_TEXT_MAX];
    size_t used;
};

static void add(struct saying *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct saying *out, const char *format, ...) {
    va_list arguments;
    if (out->used >= sizeof out->text)
        return;
    va_start(arguments, format);
    int length = vsnprintf(out->text + out->used, sizeof out->text - out->used, format, arguments);
    va_end(arguments);
    out->used += length > 0 ? (size_t)length : 0;
}

/* "'all_reduce' at case.lua:7": what a stream is at. */
static void add_head(struct saying *out, struct orr__stream *stream) {
    const struct orr_names *names = out->sim->names;
    const struct orr__sim_command *head = orr__stream_head(stream);
    const char *name = names ? orr_names_text(names, head->command->record.name) : "";
    const char *site = names ? orr_names_text(names, head->command->record.site) : "";
    add(out, "'%s'%s%s", *name ? name : orr_command_kind_text(head->kind), *site ? " at " : "",
        site);
}

/* A stream that a collective's member in `stream` waits for, NULL if there is none to be found. */
static struct orr__stream *missing_member(struct orr__sim *sim, struct orr__stream *stream) {
    const struct orr__group *group = orr__stream_head(stream)->group;
    for (uint32_t i = 0; group && i < group->count; i++) {
        struct orr__stream *other = sim->streams[group->streams[i]];
        if (other != stream &&
            (other->lost || other->count == 0 || orr__stream_head(other)->group != group ||
             other->start_ns == ORR_TIME_NONE))
            return other;
    }
    return NULL;
}

/* Says what a stream's head waits for; returns the stream that this is about, or NULL. */
static struct orr__stream *add_reason(struct saying *out, struct orr__stream *stream) {
    struct orr__sim *sim = out->sim;
    if (stream->count == 0) {
        add(out, ", but nothing is enqueued there");
        return NULL;
    }
    add(out, ", which is at ");
    add_head(out, stream);
    if (stream->lost) {
        add(out, ", which never ends");
        return NULL;
    }
    struct orr__stream *next =
        stream->waiting_on != ORR_ID_NONE ? sim->streams[stream->waiting_on] : NULL;
    if (!next)
        next = missing_member(sim, stream);
    if (!next)
        add(out, ", whose members never all come");
    else
        add(out, "; that waits for stream %u of device %u", next->id, next->device);
    return next;
}

static const struct orr_point *unfinished(const struct orr__sim *sim,
                                          const struct orr_point *points, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (sim->streams[points[i].stream]->retired < points[i].seq)
            return &points[i];
    return NULL;
}

/* "command 3 of stream 1 of device 0, which is at 'k' at case.lua:7; that waits for ..." */
static void add_point(struct saying *out, const struct orr_point *point, int streams) {
    struct orr__stream *stream = out->sim->streams[point->stream];
    add(out, "command %llu of stream %u of device %u", (unsigned long long)point->seq, stream->id,
        stream->device);
    for (int i = 0; stream && i < streams; i++)
        stream = add_reason(out, stream);
}

bool orr__sim_host_reason(struct orr_backend *backend, uint32_t id, char *text, size_t size) {
    struct orr__sim *sim = orr__sim_of(backend);
    const struct orr__host *host = &sim->hosts[id];
    const struct orr_point *point = NULL;
    struct saying out = {.sim = sim};
    if (host->lost)
        add(&out, "makes no more calls");
    else if (host->state == ORR__HOST_BLOCKED &&
             (point = unfinished(sim, host->points, host->point_count)) != NULL) {
        add(&out, "in a wait for ");
        add_point(&out, point, STREAMS_OF_A_HOST);
    }
    snprintf(text, size, "%s", out.text);
    return out.used > 0;
}

enum orr_status orr__sim_hang(struct orr__sim *sim, const struct orr_point *points, uint32_t count,
                              struct orr_error *error) {
    if (sim->out_of_memory)
        return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory while simulating");
    const char *fault = sim->perturb ? sim->perturb->fault : "";
    const struct orr_point *point = unfinished(sim, points, count);
    struct saying out = {.sim = sim};
    if (point) {
        add(&out, "the host waits for ");
        add_point(&out, point, STREAMS_MAX);
    } else {
        add(&out, "nothing is left that could happen");
    }
    return orr_error_set(error, ORR_DEVICE_FAILED, "hang: %s%s%s", out.text, *fault ? ": " : "",
                         fault);
}
