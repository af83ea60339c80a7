#include "trace/sync_target.h"

#include <stdio.h>
#include <string.h>

static void stream_text(const struct orr_timeline *timeline, uint32_t id, char *text, size_t size) {
    const struct orr_timeline_stream *stream = orr_timeline_stream(timeline, id);
    if (stream && stream->name[0] != '\0')
        snprintf(text, size, "stream %s of device %u", stream->name, stream->device);
    else if (stream)
        snprintf(text, size, "stream %u of device %u", id, stream->device);
    else
        snprintf(text, size, "stream %u", id);
}

void orr__sync_target_text(const struct orr_timeline *timeline, enum orr_sync_kind kind,
                           uint32_t target, const char *name, char text[ORR__SYNC_TARGET_MAX]) {
    const size_t size = ORR__SYNC_TARGET_MAX;
    switch (kind) {
    case ORR_SYNC_STREAM: stream_text(timeline, target, text, size); break;
    case ORR_SYNC_DEVICE: snprintf(text, size, "device %u", target); break;
    case ORR_SYNC_EVENT:
    case ORR_SYNC_FUTURE:
    case ORR_SYNC_KIND_COUNT:
        snprintf(text, size, name[0] != '\0' ? "%s %s" : "%s", orr_sync_kind_text(kind), name);
        break;
    }
}

static bool says(const struct orr_timeline *timeline, const struct orr_timeline_sync *sync,
                 uint32_t id) {
    char text[ORR__SYNC_TARGET_MAX];
    orr__sync_target_text(timeline, sync->kind, id, "", text);
    return strcmp(text, sync->target) == 0;
}

/* A stream or device of the timeline that the sync's text speaks of. */
static uint32_t find_id(const struct orr_timeline *timeline, const struct orr_timeline_sync *sync) {
    bool streams = sync->kind == ORR_SYNC_STREAM;
    size_t count = streams ? timeline->stream_count : timeline->device_count;
    for (size_t i = 0; i < count; i++) {
        uint32_t id = streams ? timeline->streams[i].id : timeline->devices[i].id;
        if (says(timeline, sync, id))
            return id;
    }
    return ORR_ID_NONE;
}

struct orr__sync_target orr__sync_target_of(const struct orr_timeline *timeline,
                                            const struct orr_timeline_sync *sync) {
    struct orr__sync_target target = {.id = ORR_ID_NONE, .name = ""};
    if (sync->kind == ORR_SYNC_STREAM || sync->kind == ORR_SYNC_DEVICE) {
        target.id = sync->kind == ORR_SYNC_STREAM ? sync->stream : sync->device;
        if (target.id == ORR_ID_NONE)
            target.id = find_id(timeline, sync);
        target.exact = says(timeline, sync, target.id);
        return target;
    }
    const char *kind = orr_sync_kind_text(sync->kind);
    size_t length = strlen(kind);
    if (strncmp(sync->target, kind, length) != 0)
        return target;
    const char *rest = sync->target + length;
    if (rest[0] == ' ' && rest[1] != '\0')
        target.name = rest + 1;
    target.exact =
        rest[0] == '\0' || (target.name[0] != '\0' && strlen(rest) < ORR__SYNC_TARGET_MAX / 2);
    if (!target.exact)
        target.name = "";
    return target;
}
