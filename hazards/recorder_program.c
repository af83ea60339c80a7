/* From the calls of a run to a stream program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/recorder_internal.h"

enum { NAME_MAX_BYTES = 128, ACCESSES_MAX = 1 << 20 };

/* A point that somebody waits for, and the event recorded behind it. */
struct needed {
    uint64_t stream, seq;
    uint32_t event; /* ORR_NONE until its command has been written */
};

struct builder {
    const struct orr_recorder *recorder;
    struct orr_stream_program *program;
    struct orr__blocks blocks;
    struct needed *needed;
    size_t needed_count;
    uint32_t *names; /* of the buffers in the program; ORR_NONE before the allocation */
    bool *freed;     /* buffers */
    uint32_t *hosts; /* by place in recorder->hosts; ORR_NONE before the first call */
    uint32_t *streams;
    struct orr_stream_access *accesses;
    size_t access_capacity;
    uint32_t event_count, host_count; /* given names */
    enum orr_status status;
};

static void keep(struct builder *builder, enum orr_status status) {
    if (builder->status == ORR_OK)
        builder->status = status;
}

/* --- names --- */

/* Letters, digits and underscores; others become underscores. */
static void sanitize(const char *text, char *out_name, size_t size) {
    size_t length = 0;
    for (; text[length] && length + 1 < size; length++) {
        char c = text[length];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        out_name[length] = plain ? c : '_';
    }
    out_name[length] = '\0';
}

static uint32_t name_in(struct builder *builder, enum orr_name_space space, const char *text) {
    uint32_t id = ORR_NONE;
    keep(builder, orr_stream_program_name(builder->program, space, text, &id));
    return id;
}

/* "w_17": a text of the run with a number behind it, which makes it unique. */
static uint32_t numbered(struct builder *builder, enum orr_name_space space, const char *text,
                         uint64_t number) {
    char plain[NAME_MAX_BYTES - 32], name[NAME_MAX_BYTES];
    sanitize(text, plain, sizeof plain);
    snprintf(name, sizeof name, "%s_%llu", *plain ? plain : "x", (unsigned long long)number);
    return name_in(builder, space, name);
}

static const char *text_of(const struct builder *builder, uint32_t name) {
    return orr_names_text(builder->recorder->observer.names, name);
}

/* A word for messages; ORR_NONE for an empty one. */
static uint32_t word(struct builder *builder, uint32_t name) {
    const char *text = text_of(builder, name);
    return *text ? name_in(builder, ORR_NAME_WORD, text) : ORR_NONE;
}

/* The run's first host is "h", as in every program. */
static uint32_t host_of(struct builder *builder, uint32_t id) {
    const struct orr_recorder *recorder = builder->recorder;
    size_t i = 0;
    while (i < recorder->host_count && recorder->hosts[i].id != id)
        i++;
    if (i == recorder->host_count)
        return 0;
    if (builder->hosts[i] == ORR_NONE)
        builder->hosts[i] =
            builder->host_count++ == 0
                ? 0
                : numbered(builder, ORR_NAME_HOST, recorder->hosts[i].name, recorder->hosts[i].id);
    return builder->hosts[i];
}

static uint32_t stream_of(const struct builder *builder, uint32_t id) {
    const struct orr_recorder *recorder = builder->recorder;
    if (id < recorder->stream_count && recorder->streams[id].id == id)
        return builder->streams[id];
    for (size_t i = 0; i < recorder->stream_count; i++)
        if (recorder->streams[i].id == id)
            return builder->streams[i];
    return ORR_NONE;
}

static void add_streams(struct builder *builder) {
    const struct orr_recorder *recorder = builder->recorder;
    for (size_t i = 0; builder->status == ORR_OK && i < recorder->stream_count; i++) {
        const struct orr__noted_stream *stream = &recorder->streams[i];
        char plain[NAME_MAX_BYTES - 48], name[NAME_MAX_BYTES];
        sanitize(text_of(builder, stream->name), plain, sizeof plain);
        snprintf(name, sizeof name, "d%u_%s", (unsigned)stream->device, plain);
        const struct orr__name_table *names = &builder->program->names[ORR_NAME_STREAM];
        if (orr__name_table_find(names, name) != UINT32_MAX)
            snprintf(name, sizeof name, "d%u_%s_%u", (unsigned)stream->device, plain,
                     (unsigned)stream->id);
        keep(builder, orr_stream_program_stream(builder->program, name, stream->device,
                                                ORR_STREAM_NB, &builder->streams[i]));
    }
}

/* --- operations --- */

static void add(struct builder *builder, const struct orr_stream_op *op, uint32_t access_count) {
    if (builder->status == ORR_OK)
        builder->status =
            orr_stream_program_add(builder->program, op, builder->accesses, access_count);
}

static struct orr_stream_op op_by(struct builder *builder, enum orr_stream_op_kind kind,
                                  uint32_t host) {
    struct orr_stream_op op = orr_stream_op(kind);
    op.host = host_of(builder, host);
    return op;
}

/* A record, wait or sync of an event. */
static void add_event_op(struct builder *builder, enum orr_stream_op_kind kind, uint32_t host,
                         uint32_t stream, uint32_t event, uint32_t site) {
    struct orr_stream_op op = op_by(builder, kind, host);
    if (kind != ORR_OP_SYNC_EVENT)
        op.stream = stream_of(builder, stream);
    op.object = event;
    op.site = site;
    add(builder, &op, 0);
}

static uint32_t new_event(struct builder *builder) {
    return numbered(builder, ORR_NAME_EVENT, "e", ++builder->event_count);
}

static int compare_needed(const void *a, const void *b) {
    const struct needed *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static struct needed *find_needed(const struct builder *builder, uint32_t stream, uint64_t seq) {
    const struct needed key = {.stream = stream, .seq = seq};
    if (builder->needed_count == 0)
        return NULL;
    return bsearch(&key, builder->needed, builder->needed_count, sizeof key, compare_needed);
}

/* The points that calls wait for, each once. */
static void gather_needed(struct builder *builder) {
    const struct orr_recorder *recorder = builder->recorder;
    size_t count = recorder->point_count, kept = 0;
    for (size_t i = 0; i < count; i++)
        builder->needed[i] = (struct needed){.stream = recorder->points[i].stream,
                                             .seq = recorder->points[i].seq,
                                             .event = ORR_NONE};
    if (count > 0)
        qsort(builder->needed, count, sizeof *builder->needed, compare_needed);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_needed(&builder->needed[kept - 1], &builder->needed[i]) != 0)
            builder->needed[kept++] = builder->needed[i];
    builder->needed_count = kept;
}

/* Behind a command that is a point somebody waits for. */
static void record_if_needed(struct builder *builder, const struct orr__call *call) {
    struct needed *needed = find_needed(builder, call->stream, call->seq);
    if (!needed)
        return;
    needed->event = new_event(builder);
    add_event_op(builder, ORR_OP_RECORD, call->host, call->stream, needed->event, ORR_NONE);
}

/* The call's host, or its stream, comes after the call's points. */
static void add_waits(struct builder *builder, const struct orr__call *call,
                      enum orr_stream_op_kind kind) {
    uint32_t site = word(builder, call->site);
    for (uint32_t i = 0; i < call->point_count; i++) {
        const struct orr_point *point = &builder->recorder->points[call->point_first + i];
        const struct needed *needed = find_needed(builder, point->stream, point->seq);
        if (needed && needed->event != ORR_NONE)
            add_event_op(builder, kind, call->host, call->stream, needed->event, site);
    }
}

/* --- accesses --- */

static void put_access(struct builder *builder, uint32_t *count,
                       const struct orr_observed_access *access, bool is_write) {
    uint32_t index = orr__recorder_buffer(builder->recorder, access->buffer);
    if (index == ORR_NONE || builder->names[index] == ORR_NONE || access->bytes == 0)
        return;
    if (orr_memory_grow(builder->recorder->memory, &builder->accesses, &builder->access_capacity,
                        *count + 1, sizeof *builder->accesses, ACCESSES_MAX) != ORR_OK) {
        keep(builder, ORR_NO_MEMORY);
        return;
    }
    const struct orr__noted_buffer *buffer = &builder->recorder->buffers[index];
    const struct orr__block_use *use = &builder->blocks.uses[index];
    bool whole = use->count == 1 && access->offset == 0 && access->bytes == buffer->bytes;
    uint64_t lo = buffer->base - use->origin + access->offset;
    builder->accesses[(*count)++] =
        (struct orr_stream_access){.buffer = builder->names[index],
                                   .is_write = is_write,
                                   .lo = whole ? 0 : lo,
                                   .hi = whole ? ORR_RANGE_WHOLE : lo + access->bytes};
}

/* Reads first, as a program has them. */
static uint32_t put_accesses(struct builder *builder, const struct orr__call *call) {
    const struct orr_observed_access *accesses = builder->recorder->accesses + call->access_first;
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->access_count; i++)
        if (accesses[i].mode & ORR_ACCESS_READ)
            put_access(builder, &count, &accesses[i], false);
    for (uint32_t i = 0; i < call->access_count; i++)
        if (accesses[i].mode & ORR_ACCESS_WRITE)
            put_access(builder, &count, &accesses[i], true);
    return count;
}

/* --- commands --- */

static enum orr_stream_op_kind kind_of(const struct orr__call *call) {
    switch ((enum orr_command_kind)call->command) {
    case ORR_COMMAND_COLLECTIVE: return ORR_OP_COLL;
    case ORR_COMMAND_FILL: return ORR_OP_MEMSET;
    case ORR_COMMAND_HOSTFN: return ORR_OP_HOSTFN;
    case ORR_COMMAND_HOSTREAD: return ORR_OP_HOST_READ;
    case ORR_COMMAND_HOSTWRITE: return ORR_OP_HOST_WRITE;
    default: return ORR_OP_KERNEL; /* a copy reads and writes in stream order too */
    }
}

static void describe_collective(struct builder *builder, const struct orr__call *call,
                                struct orr_stream_op *op) {
    char text[64];
    snprintf(text, sizeof text, "c%u", (unsigned)call->communicator);
    op->object = name_in(builder, ORR_NAME_COMM, text);
    snprintf(text, sizeof text, "%u", (unsigned)call->rank);
    op->rank = name_in(builder, ORR_NAME_RANK, text);
    snprintf(text, sizeof text, "\"%s\"",
             orr_collective_kind_text((enum orr_collective_kind)call->collective_kind));
    op->word = name_in(builder, ORR_NAME_WORD, text);
}

/* The work itself. Records and waits are none: what they order is in events. */
static void add_work(struct builder *builder, const struct orr__call *call) {
    enum orr_command_kind command = (enum orr_command_kind)call->command;
    if (command == ORR_COMMAND_RECORD || command == ORR_COMMAND_WAIT)
        return;
    struct orr_stream_op op = op_by(builder, kind_of(call), call->host);
    uint32_t count = put_accesses(builder, call);
    bool on_host = op.kind == ORR_OP_HOST_READ || op.kind == ORR_OP_HOST_WRITE;
    if (on_host && count == 0)
        return;
    if (!on_host)
        op.stream = stream_of(builder, call->stream);
    op.site = word(builder, call->site);
    op.label = word(builder, call->name);
    if (op.kind == ORR_OP_COLL)
        describe_collective(builder, call, &op);
    add(builder, &op, count);
}

/* Through the first member's stream all streams of a group come after each of them. */
static void join_members(struct builder *builder, const struct orr__call *members, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t event = new_event(builder);
        add_event_op(builder, ORR_OP_RECORD, members[i].host, members[i].stream, event, ORR_NONE);
        add_event_op(builder, ORR_OP_WAIT, members[i].host, members[0].stream, event, ORR_NONE);
    }
    uint32_t all = new_event(builder);
    add_event_op(builder, ORR_OP_RECORD, members[0].host, members[0].stream, all, ORR_NONE);
    for (uint32_t i = 1; i < count; i++)
        add_event_op(builder, ORR_OP_WAIT, members[i].host, members[i].stream, all, ORR_NONE);
}

/* The calls from `index` on that are one barrier; 1 if that is none. */
static uint32_t barrier_at(const struct orr_recorder *recorder, size_t index) {
    const struct orr__call *calls = &recorder->calls[index];
    uint32_t count = calls->members;
    if (calls->command != ORR_COMMAND_COLLECTIVE || count < 2 ||
        calls->collective_kind != ORR_COLLECTIVE_BARRIER || count > recorder->call_count - index)
        return 1;
    for (uint32_t i = 1; i < count; i++)
        if (calls[i].kind != ORR__CALL_COMMAND || calls[i].communicator != calls->communicator)
            return 1;
    return count;
}

/* Returns how many calls that were. */
static uint32_t add_command(struct builder *builder, size_t index) {
    const struct orr__call *calls = &builder->recorder->calls[index];
    uint32_t count = barrier_at(builder->recorder, index);
    for (uint32_t i = 0; i < count; i++)
        add_waits(builder, &calls[i], ORR_OP_WAIT);
    if (count > 1)
        join_members(builder, calls, count);
    for (uint32_t i = 0; i < count; i++)
        add_work(builder, &calls[i]);
    if (count > 1)
        join_members(builder, calls, count);
    for (uint32_t i = 0; i < count; i++)
        record_if_needed(builder, &calls[i]);
    return count;
}

/* --- memory --- */

static void add_flag(struct builder *builder, enum orr_stream_op_kind kind, uint32_t host,
                     const char *text, uint64_t number) {
    struct orr_stream_op op = op_by(builder, kind, host);
    op.object = numbered(builder, ORR_NAME_FLAG, text, number);
    add(builder, &op, 0);
}

/* A buffer that shares bytes of a block in part: as `alloc` with `reuse` would, its host comes
 * after those who gave up bytes of it. */
static void await_owners(struct builder *builder, uint32_t index, uint32_t host) {
    const struct orr_recorder *recorder = builder->recorder;
    const struct orr__block_use *use = &builder->blocks.uses[index];
    const struct orr__noted_buffer *buffer = &recorder->buffers[index];
    for (size_t i = use->first; i < use->first + use->count; i++) {
        uint32_t other = builder->blocks.order[i];
        const struct orr__noted_buffer *owner = &recorder->buffers[other];
        if (builder->freed[other] && owner->base < buffer->base + buffer->bytes &&
            buffer->base < owner->base + owner->bytes)
            add_flag(builder, ORR_OP_AWAIT, host, "freed", owner->id);
    }
}

static void add_alloc(struct builder *builder, const struct orr__call *call) {
    const struct orr_recorder *recorder = builder->recorder;
    uint32_t index = orr__recorder_buffer(recorder, call->id);
    if (index == ORR_NONE || builder->names[index] != ORR_NONE)
        return;
    const struct orr__noted_buffer *buffer = &recorder->buffers[index];
    const struct orr__block_use *use = &builder->blocks.uses[index];
    add_waits(builder, call, ORR_OP_SYNC_EVENT);
    builder->names[index] =
        numbered(builder, ORR_NAME_BUFFER, text_of(builder, buffer->label), buffer->id);
    if (builder->status != ORR_OK)
        return;
    if (buffer->is_host)
        builder->program->buffers[builder->names[index]] =
            buffer->is_pageable ? ORR_MEMORY_PAGEABLE : ORR_MEMORY_PINNED;
    bool aliases = use->other != ORR_NONE && !use->is_whole;
    if (aliases && recorder->host_count > 1)
        await_owners(builder, index, call->host);
    struct orr_stream_op op = op_by(builder, aliases ? ORR_OP_ALIAS : ORR_OP_ALLOC, call->host);
    op.object = builder->names[index];
    op.other = use->other == ORR_NONE ? ORR_NONE : builder->names[use->other];
    op.site = word(builder, call->site);
    add(builder, &op, 0);
}

static void add_free(struct builder *builder, const struct orr__call *call) {
    const struct orr_recorder *recorder = builder->recorder;
    uint32_t index = orr__recorder_buffer(recorder, call->id);
    if (index == ORR_NONE || builder->names[index] == ORR_NONE || builder->freed[index] ||
        recorder->buffers[index].is_host)
        return;
    builder->freed[index] = true;
    struct orr_stream_op op = op_by(builder, ORR_OP_FREE, call->host);
    op.object = builder->names[index];
    op.site = word(builder, call->site);
    add(builder, &op, 0);
    if (!builder->blocks.uses[index].is_whole && recorder->host_count > 1)
        add_flag(builder, ORR_OP_NOTIFY, call->host, "freed", call->id);
}

static void add_record_stream(struct builder *builder, const struct orr__call *call) {
    uint32_t index = orr__recorder_buffer(builder->recorder, call->id);
    if (index == ORR_NONE || builder->names[index] == ORR_NONE || builder->freed[index])
        return;
    struct orr_stream_op op = orr_stream_op(ORR_OP_RECORD_STREAM);
    op.object = builder->names[index];
    op.stream = stream_of(builder, call->stream);
    add(builder, &op, 0);
}

/* --- all together --- */

static uint32_t add_call(struct builder *builder, size_t index) {
    const struct orr__call *call = &builder->recorder->calls[index];
    switch ((enum orr__call_kind)call->kind) {
    case ORR__CALL_COMMAND: return add_command(builder, index);
    case ORR__CALL_ALLOC: add_alloc(builder, call); break;
    case ORR__CALL_FREE: add_free(builder, call); break;
    case ORR__CALL_RECORD_STREAM: add_record_stream(builder, call); break;
    case ORR__CALL_OBSERVED: add_waits(builder, call, ORR_OP_SYNC_EVENT); break;
    case ORR__CALL_POSTED: add_flag(builder, ORR_OP_NOTIFY, call->host, "post", call->id); break;
    case ORR__CALL_TAKEN: add_flag(builder, ORR_OP_AWAIT, call->host, "post", call->id); break;
    }
    return 1;
}

static void *array(struct builder *builder, size_t count, size_t size) {
    void *items = orr_memory_alloc(builder->recorder->memory, count * size);
    if (!items)
        keep(builder, ORR_NO_MEMORY);
    return items;
}

static void begin(struct builder *builder) {
    const struct orr_recorder *recorder = builder->recorder;
    keep(builder, orr_stream_program_create(recorder->memory, &builder->program));
    keep(builder, orr__recorder_blocks(recorder, &builder->blocks));
    builder->needed = array(builder, recorder->point_count, sizeof *builder->needed);
    builder->names = array(builder, recorder->buffer_count, sizeof *builder->names);
    builder->freed = array(builder, recorder->buffer_count, sizeof *builder->freed);
    builder->hosts = array(builder, recorder->host_count, sizeof *builder->hosts);
    builder->streams = array(builder, recorder->stream_count, sizeof *builder->streams);
    if (builder->status != ORR_OK)
        return;
    memset(builder->names, 0xff, recorder->buffer_count * sizeof *builder->names);
    memset(builder->hosts, 0xff, recorder->host_count * sizeof *builder->hosts);
    gather_needed(builder);
    add_streams(builder);
}

static void end(struct builder *builder) {
    const struct orr_memory *memory = builder->recorder->memory;
    orr_memory_free(memory, builder->blocks.uses);
    orr_memory_free(memory, builder->blocks.order);
    orr_memory_free(memory, builder->needed);
    orr_memory_free(memory, builder->names);
    orr_memory_free(memory, builder->freed);
    orr_memory_free(memory, builder->hosts);
    orr_memory_free(memory, builder->streams);
    orr_memory_free(memory, builder->accesses);
    if (builder->status != ORR_OK)
        orr_stream_program_destroy(&builder->program);
}

enum orr_status orr_recorder_program(const struct orr_recorder *recorder,
                                     struct orr_stream_program **out_program) {
    *out_program = NULL;
    struct builder builder = {.recorder = recorder, .status = recorder->status};
    begin(&builder);
    for (size_t i = 0; builder.status == ORR_OK && i < recorder->call_count;)
        i += add_call(&builder, i);
    end(&builder);
    *out_program = builder.program;
    return builder.status;
}
