#include "trace/observe.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 1 << 28 };

/* A buffer's number in the timeline, by the call that allocates or frees it. */
struct by_call {
    uint64_t cmd;
    size_t buffer;
};

/* A collective's member, by its command. */
struct by_command {
    uint64_t cmd;
    size_t member, collective;
    uint32_t count; /* members of that collective */
};

struct teller {
    const struct orr_timeline *timeline;
    struct orr_observer *observer;
    const struct orr_memory *memory;
    struct orr_names *names;
    struct by_call *allocs, *frees;
    struct by_command *members;
    size_t alloc_count, free_count, member_count; /* of the lists */
    size_t next_alloc, next_free, next_member, next_edge, next_access;
    struct orr_point *points;
    size_t point_count, point_capacity;
    struct orr_observed_access *accesses;
    size_t access_capacity;
};

/* --- lists in the order of calls --- */

/* Two of one call, as a damaged trace may have them, stay in the order of the timeline. */
static int compare_places(uint64_t a, uint64_t b, size_t place_a, size_t place_b) {
    if (a != b)
        return a < b ? -1 : 1;
    return place_a < place_b ? -1 : place_a > place_b;
}

static int compare_by_call(const void *a, const void *b) {
    const struct by_call *x = a, *y = b;
    return compare_places(x->cmd, y->cmd, x->buffer, y->buffer);
}

static int compare_by_command(const void *a, const void *b) {
    const struct by_command *x = a, *y = b;
    return compare_places(x->cmd, y->cmd, x->member, y->member);
}

static const struct orr_timeline_collective *collective_at(const struct orr_timeline *timeline,
                                                           uint64_t id, size_t *out_index) {
    const struct orr_timeline_collective *found = orr_timeline_collective(timeline, id);
    *out_index = found ? (size_t)(found - timeline->collectives) : 0;
    return found;
}

static bool list_members(struct teller *teller) {
    const struct orr_timeline *timeline = teller->timeline;
    uint32_t *counts =
        orr_memory_alloc(teller->memory, timeline->collective_count * sizeof *counts);
    size_t count = 0;
    for (size_t i = 0; counts && i < timeline->collective_member_count; i++) {
        size_t index;
        if (collective_at(timeline, timeline->collective_members[i].collective, &index))
            counts[index]++;
    }
    for (size_t i = 0; counts && i < timeline->collective_member_count; i++) {
        const struct orr_timeline_collective_member *member = &timeline->collective_members[i];
        size_t index;
        if (collective_at(timeline, member->collective, &index))
            teller->members[count++] = (struct by_command){member->cmd, i, index, counts[index]};
    }
    teller->member_count = count;
    orr_memory_free(teller->memory, counts);
    return counts != NULL;
}

static bool make_lists(struct teller *teller) {
    const struct orr_timeline *timeline = teller->timeline;
    size_t count = timeline->buffer_count;
    teller->allocs = orr_memory_alloc(teller->memory, count * sizeof *teller->allocs);
    teller->frees = orr_memory_alloc(teller->memory, count * sizeof *teller->frees);
    teller->members = orr_memory_alloc(teller->memory,
                                       timeline->collective_member_count * sizeof *teller->members);
    if (!teller->allocs || !teller->frees || !teller->members || !list_members(teller))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct orr_timeline_buffer *buffer = &timeline->buffers[i];
        teller->allocs[teller->alloc_count++] = (struct by_call){buffer->alloc_cmd, i};
        if (buffer->free_cmd != 0)
            teller->frees[teller->free_count++] = (struct by_call){buffer->free_cmd, i};
    }
    qsort(teller->allocs, teller->alloc_count, sizeof *teller->allocs, compare_by_call);
    qsort(teller->frees, teller->free_count, sizeof *teller->frees, compare_by_call);
    qsort(teller->members, teller->member_count, sizeof *teller->members, compare_by_command);
    return true;
}

/* The number of a text in the names that the observer sees; 0, the empty one, without memory. */
static uint32_t name_of(struct teller *teller, const char *text) {
    uint32_t id = 0;
    if (orr_names_intern(teller->names, text, strlen(text), &id) != ORR_OK)
        return 0;
    return id;
}

/* --- who there is --- */

/* Dispatch hosts make no calls. */
static bool find_callers(const struct teller *teller, bool **out_callers) {
    const struct orr_timeline *timeline = teller->timeline;
    *out_callers = orr_memory_alloc(teller->memory, timeline->host_count * sizeof **out_callers);
    for (size_t i = 0; *out_callers && i < timeline->command_count; i++) {
        const struct orr_timeline_host *host =
            orr_timeline_host(timeline, timeline->commands[i].caller);
        if (host)
            (*out_callers)[host - timeline->hosts] = true;
    }
    return *out_callers != NULL;
}

static void tell_actors(struct teller *teller, const bool *callers) {
    const struct orr_timeline *timeline = teller->timeline;
    for (size_t i = 0; i < timeline->host_count; i++) {
        if (!callers[i])
            continue;
        const struct orr_observed_host host = {.id = timeline->hosts[i].id,
                                               .name = timeline->hosts[i].name};
        teller->observer->host(teller->observer, &host);
    }
    for (size_t i = 0; i < timeline->stream_count; i++) {
        const struct orr_timeline_stream *stream = &timeline->streams[i];
        struct orr_record_stream record = {.header = ORR_RECORD_HEADER(stream, STREAM),
                                           .id = stream->id,
                                           .device = stream->device,
                                           .name = name_of(teller, stream->name)};
        record.header.a = (uint8_t)stream->kind;
        record.header.b = (uint8_t)stream->sync;
        teller->observer->stream(teller->observer, &record);
    }
}

/* --- what comes before a call --- */

static bool add_point(struct teller *teller, const struct orr_timeline_command *source) {
    if (orr_memory_grow(teller->memory, &teller->points, &teller->point_capacity,
                        teller->point_count + 1, sizeof *teller->points, ITEMS_MAX) != ORR_OK)
        return false;
    teller->points[teller->point_count++] =
        (struct orr_point){.stream = source->stream, .seq = source->seq, .cmd = source->id};
    return true;
}

/* Gathers the points of the edges of a kind to a command; messages are told instead. */
static bool gather(struct teller *teller, const struct orr_timeline_command *command,
                   enum orr_edge_kind kind) {
    const struct orr_timeline *timeline = teller->timeline;
    teller->point_count = 0;
    for (size_t i = teller->next_edge;
         i < timeline->edge_count && timeline->edges[i].dst == command->id; i++) {
        const struct orr_timeline_command *source =
            orr_timeline_command(timeline, timeline->edges[i].src);
        if (!source || timeline->edges[i].kind != kind || source->id >= command->id)
            continue;
        if (source->stream != ORR_ID_NONE && source->seq > 0) {
            if (!add_point(teller, source))
                return false;
        } else if (kind == ORR_EDGE_HOST && source->kind == ORR_COMMAND_MARKER) {
            teller->observer->taken(teller->observer, command->caller, source->id);
        }
    }
    return true;
}

static void skip_edges(struct teller *teller, uint64_t before) {
    const struct orr_timeline *timeline = teller->timeline;
    while (teller->next_edge < timeline->edge_count &&
           timeline->edges[teller->next_edge].dst < before)
        teller->next_edge++;
}

static void skip_accesses(struct teller *teller, uint64_t before) {
    const struct orr_timeline *timeline = teller->timeline;
    while (teller->next_access < timeline->access_count &&
           timeline->accesses[teller->next_access].cmd < before)
        teller->next_access++;
}

/* --- calls --- */

static bool tell_alloc(struct teller *teller, const struct orr_timeline_command *command) {
    const struct orr_timeline *timeline = teller->timeline;
    if (!gather(teller, command, ORR_EDGE_ALLOCATOR))
        return false;
    while (teller->next_alloc < teller->alloc_count &&
           teller->allocs[teller->next_alloc].cmd < command->id)
        teller->next_alloc++;
    for (; teller->next_alloc < teller->alloc_count &&
           teller->allocs[teller->next_alloc].cmd == command->id;
         teller->next_alloc++) {
        const struct orr_timeline_buffer *buffer =
            &timeline->buffers[teller->allocs[teller->next_alloc].buffer];
        const struct orr_observed_buffer told = {.id = buffer->id,
                                                 .base = (buffer->block & UINT32_MAX) * 512,
                                                 .bytes = buffer->bytes,
                                                 .cmd = command->id,
                                                 .memory = (uint32_t)(buffer->block >> 32),
                                                 .device = buffer->device,
                                                 .stream = buffer->stream,
                                                 .host = command->caller,
                                                 .label = name_of(teller, buffer->label),
                                                 .site = name_of(teller, command->site),
                                                 .is_pageable =
                                                     strcmp(buffer->memory, "pageable") == 0,
                                                 .after = teller->points,
                                                 .after_count = (uint32_t)teller->point_count};
        teller->observer->buffer(teller->observer, &told);
    }
    return true;
}

static void tell_free(struct teller *teller, const struct orr_timeline_command *command) {
    while (teller->next_free < teller->free_count &&
           teller->frees[teller->next_free].cmd < command->id)
        teller->next_free++;
    if (teller->next_free < teller->free_count &&
        teller->frees[teller->next_free].cmd == command->id) {
        size_t buffer = teller->frees[teller->next_free].buffer;
        teller->observer->free(teller->observer, teller->timeline->buffers[buffer].id, command->id,
                               command->caller, name_of(teller, command->site));
    }
}

static void tell_record_stream(struct teller *teller, const struct orr_timeline_command *command) {
    const struct orr_timeline *timeline = teller->timeline;
    if (teller->next_access < timeline->access_count &&
        timeline->accesses[teller->next_access].cmd == command->id)
        teller->observer->record_stream(
            teller->observer, timeline->accesses[teller->next_access].buffer, command->stream);
}

static enum orr_collective_kind collective_kind(const char *text) {
    for (int i = 0; i < ORR_COLLECTIVE_KIND_COUNT; i++)
        if (strcmp(text, orr_collective_kind_text((enum orr_collective_kind)i)) == 0)
            return (enum orr_collective_kind)i;
    return ORR_COLLECTIVE_ALL_REDUCE;
}

static void describe_member(struct teller *teller, struct orr_observed_command *told) {
    const struct orr_timeline *timeline = teller->timeline;
    told->communicator = told->rank = ORR_ID_NONE;
    while (teller->next_member < teller->member_count &&
           teller->members[teller->next_member].cmd < told->id)
        teller->next_member++;
    if (teller->next_member == teller->member_count ||
        teller->members[teller->next_member].cmd != told->id)
        return;
    const struct by_command *member = &teller->members[teller->next_member];
    const struct orr_timeline_collective *collective = &timeline->collectives[member->collective];
    told->communicator = collective->communicator;
    told->collective = collective->seq;
    told->rank = timeline->collective_members[member->member].rank;
    told->members = member->count;
    told->collective_kind = collective_kind(collective->kind);
}

static bool tell_command(struct teller *teller, const struct orr_timeline_command *command) {
    const struct orr_timeline *timeline = teller->timeline;
    size_t count = 0;
    while (teller->next_access + count < timeline->access_count &&
           timeline->accesses[teller->next_access + count].cmd == command->id)
        count++;
    if (!gather(teller, command, ORR_EDGE_EVENT) ||
        orr_memory_grow(teller->memory, &teller->accesses, &teller->access_capacity, count,
                        sizeof *teller->accesses, ITEMS_MAX) != ORR_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct orr_timeline_access *access = &timeline->accesses[teller->next_access + i];
        teller->accesses[i] = (struct orr_observed_access){access->buffer, access->offset,
                                                           access->bytes, access->mode};
    }
    struct orr_observed_command told = {.id = command->id,
                                        .seq = command->seq,
                                        .op = command->op,
                                        .kind = command->kind,
                                        .host = command->caller,
                                        .device = command->device,
                                        .stream = command->stream,
                                        .name = name_of(teller, command->name),
                                        .site = name_of(teller, command->site),
                                        .event = name_of(teller, command->event),
                                        .accesses = teller->accesses,
                                        .waits = teller->points,
                                        .access_count = (uint32_t)count,
                                        .wait_count = (uint32_t)teller->point_count};
    describe_member(teller, &told);
    teller->observer->command(teller->observer, &told);
    return true;
}

static bool tell_call(struct teller *teller, const struct orr_timeline_command *command) {
    skip_edges(teller, command->id);
    skip_accesses(teller, command->id);
    if (!gather(teller, command, ORR_EDGE_HOST))
        return false;
    if (teller->point_count > 0)
        teller->observer->observed(teller->observer, command->caller, teller->points,
                                   (uint32_t)teller->point_count);
    switch (command->kind) {
    case ORR_COMMAND_ALLOC: return tell_alloc(teller, command);
    case ORR_COMMAND_FREE: tell_free(teller, command); return true;
    case ORR_COMMAND_RECORD_STREAM: tell_record_stream(teller, command); return true;
    case ORR_COMMAND_MARKER:
        if (command->stream == ORR_ID_NONE) {
            teller->observer->posted(teller->observer, command->caller, command->id);
            return true;
        }
        return tell_command(teller, command);
    default: return tell_command(teller, command);
    }
}

/* Of another tool's trace, or one that was made without, nothing is known. */
static bool has_accesses(const struct orr_timeline *timeline) {
    const char *told = orr_timeline_meta(timeline, "accesses");
    return timeline->access_count > 0 || (told && strcmp(told, "true") == 0);
}

enum orr_status orr_timeline_observe(const struct orr_timeline *timeline,
                                     struct orr_observer *observer, const struct orr_memory *memory,
                                     struct orr_names **out_names, struct orr_error *error) {
    *out_names = NULL;
    if (!has_accesses(timeline))
        return orr_error_set(error, ORR_INVALID,
                             "the trace has no accesses: it does not say which bytes its commands "
                             "read and write; expected one of 'orrery run'");
    struct teller teller = {.timeline = timeline, .observer = observer, .memory = memory};
    bool *callers = NULL;
    bool done = orr_names_create(memory, &teller.names) == ORR_OK && make_lists(&teller) &&
                find_callers(&teller, &callers);
    if (done) {
        observer->names = teller.names;
        tell_actors(&teller, callers);
    }
    orr_memory_free(memory, callers);
    for (size_t i = 0; done && i < timeline->command_count; i++)
        done = tell_call(&teller, &timeline->commands[i]);
    orr_memory_free(memory, teller.allocs);
    orr_memory_free(memory, teller.frees);
    orr_memory_free(memory, teller.members);
    orr_memory_free(memory, teller.points);
    orr_memory_free(memory, teller.accesses);
    if (!done) {
        observer->names = NULL;
        orr_names_destroy(&teller.names);
        return orr_error_set(error, ORR_NO_MEMORY, "no memory to go through the trace");
    }
    *out_names = teller.names;
    return ORR_OK;
}
