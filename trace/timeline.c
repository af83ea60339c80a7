/* The arrays themselves: making, freeing, looking up. timeline_read.c fills them. */
#include "trace/timeline.h"

#include <stdbool.h>

#include "trace/timeline_texts.h"

enum orr_status orr_timeline_create(const struct orr_memory *memory,
                                    struct orr_timeline **out_timeline) {
    *out_timeline = orr_memory_alloc(memory, sizeof **out_timeline);
    if (!*out_timeline)
        return ORR_NO_MEMORY;
    (*out_timeline)->memory = memory;
    (*out_timeline)->source = (struct orr_timeline_source){.format = "orrery",
                                                           .knows_waits = true,
                                                           .knows_syncs = true,
#define NOT_KNOWN(name) .name = ORR_SOURCE_NONE,
                                                           ORR_SOURCE_NUMBER_LIST(NOT_KNOWN)
#undef NOT_KNOWN
    };
    return ORR_OK;
}

void orr_timeline_destroy(struct orr_timeline **timeline) {
    if (!*timeline)
        return;
    struct orr_timeline *t = *timeline;
    const struct orr_memory *memory = t->memory;
    void *const arrays[] = {
        t->meta,     t->devices,       t->streams,  t->hosts,        t->ops,
        t->commands, t->edges,         t->syncs,    t->buffers,      t->accesses,
        t->members,  t->communicators, t->counters, t->collectives,  t->collective_members,
        t->findings, t->buffer_roles,  t->calls,    t->stream_waits, t->overheads,
        t->slices,
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        orr_memory_free(memory, arrays[i]);
    orr__texts_destroy(memory, t->texts);
    orr_memory_free(memory, t);
    *timeline = NULL;
}

const char *orr_timeline_meta(const struct orr_timeline *timeline, const char *key) {
    for (size_t i = 0; i < timeline->meta_count; i++)
        if (strcmp(timeline->meta[i].key, key) == 0)
            return timeline->meta[i].value;
    return NULL;
}

/* Ids are usually dense, so the item is tried first where it would then be. `id_size` is 4 or 8,
 * and the id is the first member. */
static const void *find(const void *items, size_t count, size_t size, size_t id_size, uint64_t id,
                        uint64_t first_id) {
    const unsigned char *base = items;
    size_t low = 0, high = count;
    size_t middle = id >= first_id && id - first_id < count ? (size_t)(id - first_id) : count / 2;
    while (low < high) {
        uint64_t found;
        uint32_t narrow;
        memcpy(&narrow, base + middle * size, sizeof narrow);
        if (id_size == sizeof found)
            memcpy(&found, base + middle * size, sizeof found);
        else
            found = narrow;
        if (found == id)
            return base + middle * size;
        if (found < id)
            low = middle + 1;
        else
            high = middle;
        middle = low + (high - low) / 2;
    }
    return NULL;
}

const struct orr_timeline_command *orr_timeline_command(const struct orr_timeline *timeline,
                                                        uint64_t id) {
    return find(timeline->commands, timeline->command_count, sizeof *timeline->commands,
                sizeof timeline->commands->id, id, 1);
}

const struct orr_timeline_op *orr_timeline_op(const struct orr_timeline *timeline, uint64_t id) {
    return find(timeline->ops, timeline->op_count, sizeof *timeline->ops, sizeof timeline->ops->id,
                id, 1);
}

const struct orr_timeline_stream *orr_timeline_stream(const struct orr_timeline *timeline,
                                                      uint32_t id) {
    return find(timeline->streams, timeline->stream_count, sizeof *timeline->streams,
                sizeof timeline->streams->id, id, 0);
}

const struct orr_timeline_device *orr_timeline_device(const struct orr_timeline *timeline,
                                                      uint32_t id) {
    return find(timeline->devices, timeline->device_count, sizeof *timeline->devices,
                sizeof timeline->devices->id, id, 0);
}

const struct orr_timeline_host *orr_timeline_host(const struct orr_timeline *timeline,
                                                  uint32_t id) {
    return find(timeline->hosts, timeline->host_count, sizeof *timeline->hosts,
                sizeof timeline->hosts->id, id, 0);
}

const struct orr_timeline_communicator *
orr_timeline_communicator(const struct orr_timeline *timeline, uint32_t id) {
    return find(timeline->communicators, timeline->communicator_count,
                sizeof *timeline->communicators, sizeof timeline->communicators->id, id, 0);
}

const struct orr_timeline_collective *orr_timeline_collective(const struct orr_timeline *timeline,
                                                              uint64_t id) {
    return find(timeline->collectives, timeline->collective_count, sizeof *timeline->collectives,
                sizeof timeline->collectives->id, id, 1);
}
