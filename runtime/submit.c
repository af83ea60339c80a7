/* The choke point: commands on their way to the backend and back.
 *
 *     take --> add ranges --> submit --> [backend] --> retired --> pool
 *                                |
 *                                +--> a capture, if one is in progress
 *
 * What a command needs until it has retired lives in its pending object; these are pooled, so that
 * after warm-up a command costs no allocation. */
#include <assert.h>

#include "runtime/runtime_internal.h"

/* --- pending objects --- */

static bool grow_accesses(struct orr__pending *pending, uint32_t count) {
    const struct orr_memory *memory = pending->runtime->memory;
    struct orr_access *accesses = orr_memory_alloc(memory, count * sizeof *accesses);
    struct orr_buffer **buffers = orr_memory_alloc(memory, count * sizeof(struct orr_buffer *));
    if (!accesses || !buffers) {
        orr_memory_free(memory, accesses);
        orr_memory_free(memory, buffers);
        return false;
    }
    if (pending->capacity > ORR__PENDING_INLINE) {
        orr_memory_free(memory, pending->more_accesses);
        orr_memory_free(memory, pending->more_buffers);
    }
    pending->more_accesses = accesses;
    pending->more_buffers = buffers;
    pending->capacity = count;
    return true;
}

static bool add_slab(struct orr_runtime *runtime, struct orr__pending_pool *pool,
                     size_t object_bytes) {
    struct orr__pending_slab *slab = orr_memory_alloc(runtime->memory, sizeof *slab);
    if (!slab)
        return false;
    slab->count = pool->slabs ? 2 * pool->slabs->count : ORR__PENDING_SLAB_MIN;
    if (slab->count > ORR__PENDING_SLAB_BYTES_MAX / object_bytes)
        slab->count = ORR__PENDING_SLAB_BYTES_MAX / object_bytes;
    slab->object_bytes = object_bytes;
    slab->objects = orr_memory_take_lines(runtime->memory, slab->count * object_bytes);
    if (!slab->objects) {
        orr_memory_free(runtime->memory, slab);
        return false;
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    return true;
}

static struct orr__pending *object_at(const struct orr__pending_slab *slab, size_t index) {
    return (void *)(slab->objects + index * slab->object_bytes);
}

#define LINES(bytes) (((bytes) + ORR_LINE_BYTES - 1) / ORR_LINE_BYTES * ORR_LINE_BYTES)

static const struct {
    uint32_t capacity;
    size_t bytes;
} sizes[ORR__PENDING_SIZES] = {
    [ORR__PENDING_PLAIN] = {0, LINES(offsetof(struct orr__pending, inline_buffers))},
    [ORR__PENDING_FEW] = {ORR__PENDING_FEW_RANGES,
                          LINES(offsetof(struct orr__pending,
                                         inline_accesses[ORR__PENDING_FEW_RANGES]))},
    [ORR__PENDING_WHOLE] = {ORR__PENDING_INLINE, LINES(sizeof(struct orr__pending))},
};

static struct orr__pending *cut_pending(struct orr_runtime *runtime, enum orr__pending_size size) {
    struct orr__pending_pool *pool = &runtime->pending_pools[size];
    if ((!pool->slabs || pool->slabs->used == pool->slabs->count) &&
        !add_slab(runtime, pool, sizes[size].bytes))
        return NULL;
    struct orr__pending *pending = object_at(pool->slabs, pool->slabs->used++);
    if (pool->slabs->used < pool->slabs->count)
        orr__lines_fetch(object_at(pool->slabs, pool->slabs->used), sizes[size].bytes);
    pending->runtime = runtime;
    pending->capacity = sizes[size].capacity;
    pending->untold = false;
    return pending;
}

void orr__pending_pools_destroy(struct orr_runtime *runtime) {
    const struct orr_memory *memory = runtime->memory;
    for (int i = 0; i < ORR__PENDING_SIZES; i++) {
        struct orr__pending_slab *slab;
        while ((slab = runtime->pending_pools[i].slabs) != NULL) {
            for (size_t k = 0; k < slab->used; k++)
                if (object_at(slab, k)->capacity > ORR__PENDING_INLINE) {
                    orr_memory_free(memory, object_at(slab, k)->more_accesses);
                    orr_memory_free(memory, object_at(slab, k)->more_buffers);
                }
            runtime->pending_pools[i].slabs = slab->next;
            orr_memory_free_lines(memory, slab->objects);
            orr_memory_free(memory, slab);
        }
        runtime->pending_pools[i].free = NULL;
    }
}

static enum orr__pending_size size_for(enum orr_command_kind kind, uint32_t access_count) {
    if (kind == ORR_COMMAND_COLLECTIVE || access_count > ORR__PENDING_FEW_RANGES)
        return ORR__PENDING_WHOLE;
    return access_count > 0 ? ORR__PENDING_FEW : ORR__PENDING_PLAIN;
}

static struct orr__pending *new_pending(struct orr_runtime *runtime, enum orr__pending_size size) {
    struct orr__pending_pool *pool = &runtime->pending_pools[size];
    struct orr__pending *pending = pool->free;
    if (!pending)
        return cut_pending(runtime, size);
    pool->free = pending->next;
    return pending;
}

/* Field by field: gcc clears an object of this size with an instruction that takes 30 cycles and
 * delays whoever reads it next. */
static void clear_record(const struct orr_runtime *runtime, struct orr_record_command *record,
                         enum orr_command_kind kind, uint32_t name) {
    record->header = (struct orr_record){.kind = ORR_RECORD_COMMAND,
                                         .words = sizeof *record / sizeof(uint64_t),
                                         .a = (uint8_t)kind,
                                         .b = ORR_DTYPE_NONE};
    record->id = record->seq = 0;
    record->enqueue_ns = record->enqueued_ns = ORR_TIME_NONE;
    record->ready_ns = record->start_ns = record->finish_ns = ORR_TIME_NONE;
    record->flops = record->bytes_read = record->bytes_written = 0;
    record->op = 0;
    record->name = name;
    record->event = 0;
    record->site = runtime->site;
    record->host = runtime->host;
    record->device = record->stream = ORR_ID_NONE;
    record->ts_source = 0;
    record->caller = runtime->dispatches ? runtime->host + 1 : 0;
}

static void clear_command(struct orr__pending *pending) {
    struct orr_command *command = &pending->command;
    command->submit_ns = command->service_ns = -1;
    command->flags = 0;
    command->access_count = 0;
    command->accesses = pending->capacity > 0 ? orr__pending_accesses(pending) : NULL;
    command->run = NULL;
    command->work = NULL;
    command->collective = NULL;
    command->context = pending;
    command->in_place = command;
}

struct orr__pending *orr__pending_take(struct orr_runtime *runtime, enum orr_command_kind kind,
                                       uint32_t name, uint32_t access_count) {
    struct orr__pending *pending = new_pending(runtime, size_for(kind, access_count));
    if (!pending)
        return NULL;
    if (access_count > pending->capacity && !grow_accesses(pending, access_count)) {
        orr__pending_drop(pending);
        return NULL;
    }
    if (runtime->observer && orr__observe_reserve(runtime, access_count) != ORR_OK) {
        orr__pending_drop(pending);
        return NULL;
    }
    pending->kernel_run = NULL;
    pending->describe = NULL;
    pending->release = NULL;
    pending->communicator = NULL;
    pending->first_buffer =
        (uint8_t)(access_count < ORR__PENDING_INLINE ? ORR__PENDING_INLINE - access_count : 0);
    clear_record(runtime, &pending->command.record, kind, name);
    clear_command(pending);
    return pending;
}

void orr__pending_drop(struct orr__pending *pending) {
    enum orr__pending_size size = pending->capacity == 0 ? ORR__PENDING_PLAIN
                                  : pending->capacity == ORR__PENDING_FEW_RANGES
                                      ? ORR__PENDING_FEW
                                      : ORR__PENDING_WHOLE;
    struct orr__pending_pool *pool = &pending->runtime->pending_pools[size];
    pending->next = pool->free;
    pool->free = pending;
}

static enum orr_status check_range(struct orr_runtime *runtime, uint32_t device,
                                   const struct orr_range *range) {
    const struct orr_buffer *buffer = range->buffer;
    if (!buffer || !buffer->live || buffer->abandoned)
        return orr__runtime_fail(runtime, ORR_INVALID, "a range of a buffer that has been freed");
    if (buffer->runtime != runtime)
        return orr__runtime_fail(runtime, ORR_INVALID, "a range of another runtime's buffer");
    if (range->offset > buffer->bytes || range->bytes > buffer->bytes - range->offset)
        return orr__runtime_fail(
            runtime, ORR_INVALID,
            "range of %llu bytes at %llu is outside of buffer '%s', which has %llu bytes",
            (unsigned long long)range->bytes, (unsigned long long)range->offset,
            orr_names_text(runtime->names, buffer->label), (unsigned long long)buffer->bytes);
    if (device != ORR_ID_NONE && buffer->device != device && buffer->device != ORR_ID_NONE)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "buffer '%s' is memory of device %u, but device %u is to use it",
                                 orr_names_text(runtime->names, buffer->label),
                                 (unsigned)buffer->device, (unsigned)device);
    return ORR_OK;
}

enum orr_status orr__pending_add(struct orr__pending *pending, uint32_t device,
                                 const struct orr_range *range) {
    enum orr_status status = check_range(pending->runtime, device, range);
    if (status != ORR_OK || range->bytes == 0)
        return status;
    uint32_t index = pending->command.access_count;
    assert(index < pending->capacity);
    orr__pending_accesses(pending)[index] =
        (struct orr_access){.memory = range->buffer->memory,
                            .mode = (uint32_t)range->mode,
                            .offset = range->buffer->base + range->offset,
                            .bytes = range->bytes};
    orr__pending_buffers(pending)[index] = range->buffer;
    pending->command.access_count = index + 1;
    return ORR_OK;
}

void *orr__pending_pointer(const struct orr__pending *pending, uint32_t index) {
    assert(index < pending->command.access_count);
    const struct orr_buffer *buffer = orr__pending_buffer(pending, index);
    if (!buffer->data)
        return NULL;
    return (char *)buffer->data + (pending->command.accesses[index].offset - buffer->base);
}

/* From here to the retirement the buffers' bytes are in use. */
static void hold_buffers(const struct orr__pending *pending) {
    for (uint32_t i = 0; i < pending->command.access_count; i++)
        orr__pending_buffer(pending, i)->users++;
}

static void release_buffers(const struct orr__pending *pending) {
    for (uint32_t i = 0; i < pending->command.access_count; i++) {
        struct orr_buffer *buffer = orr__pending_buffer(pending, i);
        assert(buffer->users > 0);
        if (--buffer->users == 0 && !buffer->live)
            orr__buffer_unused(buffer);
    }
}

/* --- what is written about a command besides its own record --- */

static void tell_edges(const struct orr_runtime *runtime, uint64_t id) {
    for (uint32_t i = 0; i < runtime->submit_wait_count; i++) {
        if (runtime->submit_waits[i].cmd == 0)
            continue;
        struct orr_record_edge edge = {.header = ORR_RECORD_HEADER(edge, EDGE),
                                       .src = runtime->submit_waits[i].cmd,
                                       .dst = id};
        edge.header.a = ORR_EDGE_EVENT;
        orr_record_push(runtime->writer, &edge);
    }
}

static void tell_accesses(const struct orr__pending *pending, uint64_t id) {
    for (uint32_t i = 0; i < pending->command.access_count; i++) {
        const struct orr_buffer *buffer = orr__pending_buffer(pending, i);
        const struct orr_access *range = &pending->command.accesses[i];
        struct orr_record_access access = {.header = ORR_RECORD_HEADER(access, ACCESS),
                                           .cmd = id,
                                           .buffer = buffer->id,
                                           .offset = range->offset - buffer->base,
                                           .bytes = range->bytes};
        access.header.a = (uint8_t)range->mode;
        orr_record_push(pending->runtime->writer, &access);
    }
}

/* Once per command and before its own record: after the submit, or by the retire callback if the
 * backend retires the command within its submit. */
static void tell(struct orr__pending *pending) {
    const struct orr_runtime *runtime = pending->runtime;
    pending->untold = false;
    if (runtime->observer)
        orr__observe_command(pending);
    if (!runtime->writer)
        return;
    tell_edges(runtime, pending->command.record.id);
    orr__runtime_tell_seen(pending->runtime, pending->command.record.id);
    if (runtime->trace_accesses)
        tell_accesses(pending, pending->command.record.id);
}

/* --- submitting --- */

/* In an operator the first command pays for all. Records and waits never do. */
static int64_t operator_share(const struct orr_runtime *runtime, enum orr_command_kind kind) {
    if (kind == ORR_COMMAND_RECORD || kind == ORR_COMMAND_WAIT)
        return 0;
    return runtime->operator_charge_ns;
}

static void prepare(struct orr_stream *stream, struct orr__pending *pending) {
    struct orr_runtime *runtime = stream->runtime;
    struct orr_command *command = &pending->command;
    command->record.id = ++runtime->command_count;
    command->record.device = stream->device;
    command->record.stream = stream->id;
    command->record.enqueue_ns = runtime->hosts[runtime->host].first_ns;
    if (runtime->operator_depth > 0 || runtime->in_call)
        command->flags |= ORR_COMMAND_IN_CALL;
    if (runtime->operator_depth > 0 && command->submit_ns < 0)
        command->submit_ns =
            operator_share(runtime, (enum orr_command_kind)command->record.header.a);
    pending->untold = true;
    hold_buffers(pending);
}

/* The submit came to nothing: as if it had not been called. */
static void undo(struct orr__pending *pending) {
    struct orr_runtime *runtime = pending->runtime;
    pending->untold = false;
    if (runtime->command_count == pending->command.record.id)
        runtime->command_count--;
    release_buffers(pending);
    orr__pending_drop(pending);
}

/* Blocks the host until a full queue has room. The time is part of the call, which began at the
 * first attempt, also if the wait lets another host run first and the caller repeats everything. */
static enum orr_status wait_for_room(struct orr_runtime *runtime, struct orr_point room) {
    struct orr__host *host = &runtime->hosts[runtime->host];
    if (host->first_ns == ORR_TIME_NONE)
        host->first_ns = runtime->verbs->now(runtime->backend, runtime->host);
    return orr__runtime_backend_wait(runtime, &room, 1, ORR_WAIT_ALL, ORR_TIME_MAX);
}

/* After the last attempt: the next call begins anew, unless this one will be repeated. */
static enum orr_status end_attempts(struct orr_runtime *runtime, enum orr_status status) {
    bool repeats = runtime->in_call ? runtime->call_repeats : runtime->operator_depth == 0;
    if (status == ORR_BLOCKED && !repeats)
        status = orr_error_set(&runtime->scratch, ORR_UNSUPPORTED,
                               "a launch queue is full in the middle of %s, and another host has "
                               "to run before there is room",
                               runtime->in_call ? "a compiled function" : "an operator");
    if (status != ORR_BLOCKED)
        runtime->hosts[runtime->host].first_ns = ORR_TIME_NONE;
    runtime->submit_wait_count = 0;
    return status == ORR_OK ? ORR_OK : orr__runtime_backend_failed(runtime, status);
}

static void begin_attempts(struct orr_runtime *runtime, const struct orr_point *waits,
                           uint32_t wait_count) {
    runtime->scratch.status = ORR_OK;
    runtime->submit_waits = waits;
    runtime->submit_wait_count = wait_count;
}

static void enqueued(struct orr_stream *stream, struct orr_point point, uint64_t id,
                     int64_t submit_ns) {
    struct orr_runtime *runtime = stream->runtime;
    assert(point.stream == stream->id && point.seq > stream->last.seq);
    stream->last = point;
    stream->last.cmd = id;
    if (runtime->operator_depth > 0 && submit_ns > 0)
        runtime->operator_charge_ns = 0;
}

static enum orr_status submit_command(struct orr_runtime *runtime, uint32_t stream,
                                      struct orr_command *command, struct orr_point *out_point) {
    for (;;) {
        enum orr_status status =
            runtime->verbs->submit(runtime->backend, stream, command, runtime->submit_waits,
                                   runtime->submit_wait_count, out_point, &runtime->scratch);
        if (status == ORR_FULL)
            status = wait_for_room(runtime, *out_point);
        else
            return status;
        if (status != ORR_OK)
            return status;
        command->record.enqueue_ns = runtime->hosts[runtime->host].first_ns;
    }
}

static enum orr_status submit(struct orr_stream *stream, struct orr__pending *pending,
                              const struct orr_point *waits, uint32_t wait_count,
                              struct orr_point *out_point) {
    struct orr_runtime *runtime = stream->runtime;
    struct orr_point point = {0};
    if (runtime->capture) {
        bool taken = false;
        enum orr_status status = runtime->capture->command(runtime->capture, stream, pending, waits,
                                                           wait_count, &point, &taken);
        if (taken) {
            if (out_point)
                *out_point = point;
            return status;
        }
    }
    enum orr_command_kind kind = (enum orr_command_kind)pending->command.record.header.a;
    bool acts = kind != ORR_COMMAND_WAIT || wait_count > 0; /* a wait for nothing does nothing */
    bool defaults = runtime->default_streams && stream->sync != ORR_STREAM_NB && acts;
    bool adds_waits = defaults && !(pending->command.flags & ORR_COMMAND_GRAPH_NODE);
    enum orr_status status = orr__points_check(runtime, waits, wait_count);
    if (status == ORR_OK && adds_waits)
        status = orr__default_stream_waits(stream, &waits, &wait_count);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    begin_attempts(runtime, waits, wait_count);
    prepare(stream, pending);
    uint64_t id = pending->command.record.id;
    int64_t submit_ns = pending->command.submit_ns;
    status = submit_command(runtime, stream->id, &pending->command, &point);
    if (status != ORR_OK) {
        undo(pending);
        return end_attempts(runtime, status);
    }
    if (pending->untold)
        tell(pending);
    enqueued(stream, point, id, submit_ns);
    if (defaults)
        orr__default_stream_enqueued(stream, kind, adds_waits);
    if (out_point)
        *out_point = stream->last;
    return end_attempts(runtime, ORR_OK);
}

/* A run in which a wait is left out. */
static enum orr_status submit_counted(struct orr_stream *stream, struct orr__pending *pending,
                                      const struct orr_point *waits, uint32_t wait_count,
                                      struct orr_point *out_point) {
    struct orr__waits list = {.points = waits, .count = wait_count};
    bool works = pending->command.record.header.a != ORR_COMMAND_WAIT;
    enum orr_status status = orr__waits_count(stream, &pending->command, &list);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    struct orr_point point = {0};
    status = submit(stream, pending, list.points, list.count, &point);
    if (status != ORR_OK)
        return status;
    orr__waits_told(stream, &list, point.cmd);
    stream->epoch += works;
    if (out_point)
        *out_point = point;
    return ORR_OK;
}

enum orr_status orr__runtime_submit(struct orr_stream *stream, struct orr__pending *pending,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_point) {
    return stream->runtime->drop_wait == 0
               ? submit(stream, pending, waits, wait_count, out_point)
               : submit_counted(stream, pending, waits, wait_count, out_point);
}

/* --- groups --- */

enum orr_status orr__runtime_reserve_group(struct orr_runtime *runtime, uint32_t count) {
    if (count <= runtime->group_capacity)
        return ORR_OK;
    const struct orr_memory *memory = runtime->memory;
    struct orr_command *commands = orr_memory_alloc(memory, count * sizeof *commands);
    struct orr__pending **pending = orr_memory_alloc(memory, count * sizeof(struct orr__pending *));
    struct orr_point *points = orr_memory_alloc(memory, count * sizeof *points);
    uint32_t *streams = orr_memory_alloc(memory, count * sizeof *streams);
    bool complete = commands && pending && points && streams;
    orr_memory_free(memory, complete ? (void *)runtime->group_commands : commands);
    orr_memory_free(memory, complete ? (void *)runtime->group_pending : pending);
    orr_memory_free(memory, complete ? (void *)runtime->group_points : points);
    orr_memory_free(memory, complete ? (void *)runtime->group_streams : streams);
    if (!complete)
        return orr__runtime_no_memory(runtime);
    runtime->group_commands = commands;
    runtime->group_pending = pending;
    runtime->group_points = points;
    runtime->group_streams = streams;
    runtime->group_capacity = count;
    return ORR_OK;
}

static enum orr_status submit_commands(struct orr_runtime *runtime,
                                       struct orr__pending *const *pending, uint32_t count) {
    for (;;) {
        enum orr_status status = runtime->verbs->submit_group(
            runtime->backend, runtime->group_streams, runtime->group_commands, count,
            runtime->submit_waits, runtime->submit_wait_count, runtime->group_points,
            &runtime->scratch);
        if (status != ORR_FULL)
            return status;
        status = wait_for_room(runtime, runtime->group_points[0]);
        if (status != ORR_OK)
            return status;
        for (uint32_t i = 0; i < count; i++) {
            int64_t first_ns = runtime->hosts[runtime->host].first_ns;
            pending[i]->command.record.enqueue_ns = first_ns; /* the command in place */
            runtime->group_commands[i].record.enqueue_ns = first_ns;
        }
    }
}

static void prepare_group(struct orr_runtime *runtime, struct orr_stream *const *streams,
                          struct orr__pending *const *pending, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        prepare(streams[i], pending[i]);
        if (runtime->operator_depth > 0 && i > 0)
            pending[i]->command.submit_ns = 0;
        runtime->group_commands[i] = pending[i]->command;
        runtime->group_streams[i] = streams[i]->id;
    }
}

/* What each member's own stream has to wait for is no business of the other members'. */
static enum orr_status settle_streams(struct orr_stream *const *streams,
                                      struct orr__pending *const *pending, uint32_t count) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < count; i++)
        if (!(pending[i]->command.flags & ORR_COMMAND_GRAPH_NODE))
            status = orr__default_stream_settle(streams[i]);
    return status;
}

enum orr_status orr__runtime_submit_group(struct orr_runtime *runtime,
                                          struct orr_stream *const *streams,
                                          struct orr__pending *const *pending, uint32_t count,
                                          const struct orr_point *waits, uint32_t wait_count,
                                          struct orr_point *out_points) {
    assert(count > 0 && count <= runtime->group_capacity);
    if (runtime->capture) {
        bool taken = false;
        enum orr_status status =
            runtime->capture->group(runtime->capture, streams, pending, count, waits, wait_count,
                                    runtime->group_points, &taken);
        for (uint32_t i = 0; taken && status == ORR_OK && out_points && i < count; i++)
            out_points[i] = runtime->group_points[i];
        if (taken)
            return status;
    }
    enum orr_status status = orr__points_check(runtime, waits, wait_count);
    if (status == ORR_OK && runtime->default_streams)
        status = settle_streams(streams, pending, count);
    if (status != ORR_OK) {
        for (uint32_t i = count; i-- > 0;)
            orr__pending_drop(pending[i]);
        return status;
    }
    struct orr_communicator *communicator = pending[0]->communicator;
    begin_attempts(runtime, waits, wait_count);
    runtime->submit_group_count = count;
    prepare_group(runtime, streams, pending, count);
    status = submit_commands(runtime, pending, count);
    for (uint32_t i = count; status != ORR_OK && i-- > 0;)
        undo(pending[i]);
    for (uint32_t i = 0; status == ORR_OK && i < count; i++) {
        if (pending[i]->untold)
            tell(pending[i]);
        enqueued(streams[i], runtime->group_points[i], runtime->group_commands[i].record.id,
                 runtime->group_commands[i].submit_ns);
        streams[i]->epoch++;
        if (streams[i]->sync != ORR_STREAM_NB)
            orr__default_stream_enqueued(streams[i], ORR_COMMAND_COLLECTIVE, false);
        if (out_points)
            out_points[i] = streams[i]->last;
    }
    if (status == ORR_OK && communicator)
        orr__collective_record(communicator, runtime->group_commands);
    return end_attempts(runtime, status);
}

/* --- the host's own commands --- */

/* Without the verb: at the host's clock, one thing after another. */
static enum orr_status access_directly(struct orr_runtime *runtime, struct orr_command *command) {
    struct orr_record_command *record = &command->record;
    record->enqueue_ns = runtime->verbs->now(runtime->backend, runtime->host);
    enum orr_status status = command->run ? command->run(command, &runtime->scratch) : ORR_OK;
    int64_t now_ns = runtime->verbs->now(runtime->backend, runtime->host);
    record->enqueued_ns = now_ns;
    record->ready_ns = record->enqueue_ns;
    record->start_ns = record->enqueue_ns;
    record->finish_ns = now_ns;
    record->header.c = status == ORR_OK ? ORR_COMMAND_STATUS_OK : ORR_COMMAND_STATUS_FAILED;
    orr__runtime_retired(runtime, command, status == ORR_OK ? NULL : &runtime->scratch);
    return status;
}

enum orr_status orr__runtime_host_access(struct orr_runtime *runtime,
                                         struct orr__pending *pending) {
    struct orr_command *command = &pending->command;
    enum orr_status status = ORR_OK;
    if (command->record.header.a == ORR_COMMAND_HOSTREAD)
        status = orr__capture_check_host(runtime);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    begin_attempts(runtime, NULL, 0);
    command->record.id = ++runtime->command_count;
    pending->untold = true;
    hold_buffers(pending);
    if (!runtime->verbs->host_access)
        return end_attempts(runtime, access_directly(runtime, command));
    status = runtime->verbs->host_access(runtime->backend, command, &runtime->scratch);
    if (status == ORR_BLOCKED || pending->untold) /* not retired: it did not happen */
        undo(pending);
    return end_attempts(runtime, status);
}

uint64_t orr__runtime_host_command(struct orr_runtime *runtime, enum orr_command_kind kind,
                                   uint32_t name, uint32_t device, uint32_t stream,
                                   int64_t begin_ns) {
    uint64_t id = ++runtime->command_count;
    if (!runtime->writer)
        return id;
    int64_t now_ns = runtime->verbs->now(runtime->backend, runtime->host);
    struct orr_record_command record = {.header = ORR_RECORD_HEADER(command, COMMAND),
                                        .id = id,
                                        .enqueue_ns = begin_ns,
                                        .enqueued_ns = now_ns,
                                        .ready_ns = now_ns,
                                        .start_ns = now_ns,
                                        .finish_ns = now_ns,
                                        .name = name,
                                        .site = runtime->site,
                                        .host = runtime->host,
                                        .device = device,
                                        .stream = stream};
    record.header.a = (uint8_t)kind;
    record.header.b = ORR_DTYPE_NONE;
    record.header.c = ORR_COMMAND_STATUS_OK;
    orr_record_push(runtime->writer, &record);
    orr__runtime_tell_seen(runtime, id);
    return id;
}

/* --- retiring --- */

static void note_failure(struct orr_runtime *runtime, const struct orr_record_command *record,
                         const struct orr_error *error) {
    if (++runtime->failure_count > 1)
        return;
    runtime->failure_site = record->site;
    runtime->failure_name = record->name;
    const char *site = orr_names_text(runtime->names, record->site);
    const char *name = orr_names_text(runtime->names, record->name);
    orr_error_set(&runtime->failure, ORR_DEVICE_FAILED, "%s%s%s: %s", site, *site ? ": " : "", name,
                  error ? error->text : "the device failed it");
}

/* A skipped command's cause is some failed one; which one is clear only while there is one. */
static void note_poisoned(struct orr_stream *stream, const struct orr_record_command *record) {
    const struct orr_runtime *runtime = stream->runtime;
    bool failed = record->header.c == ORR_COMMAND_STATUS_FAILED;
    bool known = failed || runtime->failure_count == 1;
    stream->failed_seq = record->seq;
    stream->failed_site = !known ? 0 : failed ? record->site : runtime->failure_site;
    stream->failed_name = !known ? 0 : failed ? record->name : runtime->failure_name;
}

static void note_retired(struct orr_runtime *runtime, const struct orr_record_command *record,
                         const struct orr_error *error) {
    enum orr_command_status status = (enum orr_command_status)record->header.c;
    bool failed = status == ORR_COMMAND_STATUS_FAILED || status == ORR_COMMAND_STATUS_SKIPPED;
    if (status == ORR_COMMAND_STATUS_FAILED)
        note_failure(runtime, record, error);
    if (record->stream == ORR_ID_NONE || status == ORR_COMMAND_STATUS_PENDING)
        return;
    struct orr_stream *stream = runtime->streams[record->stream];
    assert(record->seq == stream->retired_seq + 1);
    stream->retired_seq = record->seq;
    stream->finish_ns = record->finish_ns;
    if (failed && stream->failed_seq == 0)
        note_poisoned(stream, record);
}

void orr__runtime_retired(void *context, const struct orr_command *command,
                          const struct orr_error *error) {
    struct orr_runtime *runtime = context;
    struct orr__pending *pending = command->context;
    assert(pending->runtime == runtime);
    if (pending->untold)
        tell(pending);
    if (runtime->writer)
        orr_record_push(runtime->writer, &command->record);
    note_retired(runtime, &command->record, error);
    if (pending->release)
        pending->release(pending->command.work);
    release_buffers(pending);
    orr__pending_drop(pending);
}
