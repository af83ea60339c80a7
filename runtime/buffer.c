/* Buffers: blocks of the devices' allocators with memory of the backend behind them.
 *
 *     live --free--> block back in the pool at once; the struct stays while commands use it
 *         \--free, other streams recorded--> deferred: block held until their work has retired
 *
 * What a block had to wait for is kept in its segment's history until the bytes are handed out
 * again: then it becomes an edge of the trace, because that is why the new owner may use them. */
#include "runtime/buffer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/role.h"
#include "runtime/runtime_internal.h"

static struct orr__device *device_of(const struct orr_buffer *buffer) {
    return &buffer->runtime->devices[buffer->device];
}

static const char *text_of(const struct orr_runtime *runtime, uint32_t name) {
    return orr_names_text(runtime->names, name);
}

/* --- structs of buffers: pooled, so that a stale handle is recognised as long as possible --- */

static struct orr_buffer *new_buffer(struct orr_runtime *runtime) {
    struct orr_buffer *buffer = runtime->buffer_pool;
    if (buffer)
        runtime->buffer_pool = buffer->next;
    else
        buffer = orr_memory_alloc_lines(runtime->memory, sizeof *buffer);
    if (buffer)
        *buffer = (struct orr_buffer){.runtime = runtime};
    return buffer;
}

static void pool_buffer(struct orr_buffer *buffer) {
    assert(!buffer->live && buffer->users == 0 && !buffer->uses);
    buffer->next = buffer->runtime->buffer_pool;
    buffer->runtime->buffer_pool = buffer;
}

static struct orr_buffer **list_of(const struct orr_buffer *buffer) {
    return buffer->stream ? &device_of(buffer)->buffers : &buffer->runtime->host_buffers;
}

static void link_buffer(struct orr_buffer *buffer) {
    struct orr_buffer **list = list_of(buffer);
    assert(!buffer->live && !buffer->previous && !buffer->next && buffer->id > 0);
    buffer->live = true;
    buffer->next = *list;
    if (buffer->next)
        buffer->next->previous = buffer;
    *list = buffer;
    if (buffer->stream)
        orr__role_add(buffer);
}

static void unlink_buffer(struct orr_buffer *buffer) {
    assert(buffer->live);
    if (buffer->stream)
        orr__role_remove(buffer);
    buffer->live = false;
    if (buffer->previous)
        buffer->previous->next = buffer->next;
    else
        *list_of(buffer) = buffer->next;
    if (buffer->next)
        buffer->next->previous = buffer->previous;
    buffer->previous = NULL;
    buffer->next = NULL;
}

static void free_uses(struct orr_runtime *runtime, struct orr__use *use) {
    while (use) {
        struct orr__use *next = use->next;
        orr_memory_free(runtime->memory, use);
        use = next;
    }
}

/* --- freed blocks --- */

/* Adversarial: nobody may use the bytes any more but what is queued in the stream by now. */
static void poison(const struct orr_buffer *buffer) {
    const struct orr_runtime *runtime = buffer->runtime;
    if (device_of(buffer)->allocator->adversarial && runtime->verbs->memory_undefine)
        runtime->verbs->memory_undefine(runtime->backend, buffer->stream->id, buffer->memory,
                                        buffer->base, buffer->bytes);
}

/* The block goes back to its pool; the struct stays, and counts in the segment, while in use. */
static void hand_back(struct orr_buffer *buffer) {
    struct orr__block *block = buffer->block;
    struct orr__segment *segment = block->segment;
    assert(!buffer->live && !buffer->uses && segment->memory == buffer->memory);
    poison(buffer);
    orr__block_put(block);
    buffer->block = NULL;
    if (buffer->users == 0) {
        pool_buffer(buffer);
        return;
    }
    buffer->segment = segment;
    segment->pending++;
}

static bool uses_retired(const struct orr_buffer *buffer) {
    for (const struct orr__use *use = buffer->uses; use; use = use->next)
        if (!orr__point_retired(buffer->runtime, use->point))
            return false;
    return true;
}

/* Earlier uses of the same bytes by the same stream are over when this one is. */
static void drop_older(struct orr_runtime *runtime, struct orr__segment *segment,
                       const struct orr__use *use) {
    struct orr__use **link = (struct orr__use **)&segment->history;
    while (*link) {
        struct orr__use *older = *link;
        if (older->stream != use->stream || older->offset < use->offset ||
            older->offset + older->bytes > use->offset + use->bytes ||
            older->point.seq > use->point.seq) {
            link = &older->next;
            continue;
        }
        *link = older->next;
        orr_memory_free(runtime->memory, older);
    }
}

/* Uses become history of the segment: an edge for whoever gets the bytes next. Nobody has used what
 * the block has beyond what was asked for. */
static void move_uses(struct orr_buffer *buffer) {
    struct orr__segment *segment = buffer->block->segment;
    while (buffer->uses) {
        struct orr__use *use = buffer->uses;
        buffer->uses = use->next;
        use->offset = buffer->block->offset;
        use->bytes = buffer->bytes;
        drop_older(buffer->runtime, segment, use);
        use->next = segment->history;
        segment->history = use;
    }
}

/* Hands back what other streams are done with. Asks the backend first what has retired by now. */
static void settle_deferred(struct orr_runtime *runtime, struct orr__device *device) {
    if (!device->deferred)
        return;
    runtime->verbs->poll(runtime->backend);
    struct orr_buffer **link = &device->deferred;
    while (*link) {
        struct orr_buffer *buffer = *link;
        if (!uses_retired(buffer)) {
            link = &buffer->next;
            continue;
        }
        *link = buffer->next;
        buffer->next = NULL;
        move_uses(buffer);
        hand_back(buffer);
    }
    device->deferred_end = link;
}

static void defer(struct orr__device *device, struct orr_buffer *buffer) {
    assert(!buffer->live && !buffer->next && !*device->deferred_end);
    for (struct orr__use *use = buffer->uses; use; use = use->next)
        use->point = use->stream->last;
    orr__block_hold(buffer->block);
    *device->deferred_end = buffer;
    device->deferred_end = &buffer->next;
}

/* Called by the retire callback, so it must not call the backend. */
void orr__buffer_unused(struct orr_buffer *buffer) {
    if (buffer->block)
        return; /* deferred */
    if (buffer->segment) {
        assert(buffer->segment->pending > 0);
        buffer->segment->pending--;
        buffer->segment = NULL;
        pool_buffer(buffer);
        return;
    }
    assert(!buffer->stream);
    buffer->next = buffer->runtime->doomed;
    buffer->runtime->doomed = buffer;
}

static void bury_doomed(struct orr_runtime *runtime) {
    while (runtime->doomed) {
        struct orr_buffer *buffer = runtime->doomed;
        runtime->doomed = buffer->next;
        runtime->verbs->memory_destroy(runtime->backend, buffer->memory);
        pool_buffer(buffer);
    }
}

/* --- segments --- */

static void remove_segment(struct orr_runtime *runtime, struct orr__segment *segment) {
    assert(segment->pending == 0);
    runtime->verbs->memory_destroy(runtime->backend, segment->memory);
    free_uses(runtime, segment->history);
    orr__segment_remove(segment);
}

/* Gives cached segments that nobody uses back, the oldest first, until `needed` bytes fit. */
static void give_back(struct orr_runtime *runtime, struct orr__device *device, uint64_t needed) {
    struct orr__segment *segment = device->allocator->first;
    while (segment && !orr__allocator_fits(device->allocator, needed)) {
        struct orr__segment *next = segment->next;
        if (orr__segment_is_free(segment) && segment->pending == 0)
            remove_segment(runtime, segment);
        segment = next;
    }
}

static enum orr_status add_segment(struct orr_stream *stream, uint64_t bytes,
                                   uint64_t segment_bytes) {
    struct orr_runtime *runtime = stream->runtime;
    uint32_t memory;
    runtime->scratch.status = ORR_OK;
    enum orr_status status = runtime->verbs->memory_create(
        runtime->backend, stream->device, segment_bytes, &memory, &runtime->scratch);
    if (status != ORR_OK)
        return orr__runtime_backend_failed(runtime, status);
    struct orr__segment *segment;
    status = orr__pool_add_segment(stream->pool, bytes, segment_bytes, &segment);
    if (status != ORR_OK) {
        runtime->verbs->memory_destroy(runtime->backend, memory);
        return orr__runtime_no_memory(runtime);
    }
    segment->memory = memory;
    segment->data = runtime->verbs->memory_pointer(runtime->backend, memory);
    return ORR_OK;
}

/* --- out of memory --- */

static enum orr_status out_of_memory(struct orr_stream *stream, uint64_t bytes, const char *fault) {
    struct orr_runtime *runtime = stream->runtime;
    struct orr__device *device = &runtime->devices[stream->device];
    const struct orr__allocator *allocator = device->allocator;
    char largest[ORR_ERROR_TEXT_MAX];
    orr__buffers_print_largest(runtime, device, largest, sizeof largest);
    return orr__runtime_fail(
        runtime, ORR_DEVICE_MEMORY,
        "%s%sdevice %u (%s) is out of memory: asked for %llu bytes, %llu used (%llu reserved), "
        "capacity %llu%s%s; largest live buffers:%s",
        runtime->site_text, *runtime->site_text ? ": " : "", (unsigned)stream->device,
        device->spec.name, (unsigned long long)bytes, (unsigned long long)allocator->used,
        (unsigned long long)allocator->reserved, (unsigned long long)device->spec.memory_bytes,
        fault ? ": " : "", fault ? fault : "", *largest ? largest : " none");
}

/* Whether more can become free by waiting for commands that are under way. */
static bool waiting_helps(const struct orr__device *device) {
    if (device->deferred)
        return true;
    for (const struct orr__segment *it = device->allocator->first; it; it = it->next)
        if (orr__segment_is_free(it) && it->pending > 0)
            return true;
    return false;
}

/* As cudaFree does for the frameworks' allocator: blocks until everything under way has ended. */
static enum orr_status wait_for_all(struct orr_runtime *runtime, uint32_t device) {
    uint32_t count = 0;
    for (size_t i = 0; i < runtime->stream_count; i++) {
        const struct orr_stream *stream = runtime->streams[i];
        if (!orr__point_retired(runtime, stream->last))
            runtime->point_scratch[count++] = stream->last;
    }
    return orr__runtime_block(runtime, runtime->point_scratch, count, ORR_WAIT_ALL, ORR_TIME_MAX,
                              ORR_SYNC_DEVICE, device);
}

/* --- allocation --- */

/* A segment for a block of `bytes`, of the size that the policy prefers or, near the end of the
 * capacity, just large enough. ORR_NOT_READY if the capacity does not allow one. */
static enum orr_status grow_pool(struct orr_stream *stream, uint64_t bytes) {
    struct orr__device *device = &stream->runtime->devices[stream->device];
    uint64_t preferred = orr__segment_bytes(bytes), least = orr__block_bytes(bytes);
    give_back(stream->runtime, device, preferred);
    if (orr__allocator_fits(device->allocator, preferred))
        return add_segment(stream, bytes, preferred);
    if (orr__allocator_fits(device->allocator, least))
        return add_segment(stream, bytes, least);
    return ORR_NOT_READY;
}

static enum orr_status try_block(struct orr_stream *stream, uint64_t bytes,
                                 struct orr__block **out_block) {
    struct orr_runtime *runtime = stream->runtime;
    settle_deferred(runtime, &runtime->devices[stream->device]);
    enum orr_status status = orr__pool_take(stream->pool, bytes, out_block);
    if (status == ORR_NOT_READY) {
        status = grow_pool(stream, bytes);
        if (status != ORR_OK)
            return status;
        status = orr__pool_take(stream->pool, bytes, out_block);
        assert(status != ORR_NOT_READY);
    }
    return status == ORR_NO_MEMORY ? orr__runtime_no_memory(runtime) : status;
}

static enum orr_status take_block(struct orr_stream *stream, uint64_t bytes,
                                  struct orr__block **out_block) {
    struct orr_runtime *runtime = stream->runtime;
    struct orr__device *device = &runtime->devices[stream->device];
    if (!stream->pool && orr__pool_create(device->allocator, stream->id, &stream->pool) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    const char *fault = orr__perturb_fails_alloc(runtime, stream->device);
    if (fault)
        return out_of_memory(stream, bytes, fault);
    enum orr_status status = try_block(stream, bytes, out_block);
    if (status == ORR_NOT_READY && waiting_helps(device)) {
        status = wait_for_all(runtime, stream->device);
        if (status == ORR_OK)
            status = try_block(stream, bytes, out_block);
    }
    if (status != ORR_NOT_READY)
        return status;
    return out_of_memory(stream, bytes, orr__perturb_short_of(runtime, stream->device));
}

/* Contents of a new buffer are undefined. In the order of the stream, that is: while an earlier
 * owner's commands are queued, the bytes are still theirs. */
static void undefine(struct orr_stream *stream, const struct orr__block *block) {
    struct orr_runtime *runtime = stream->runtime;
    if (!block->fresh && runtime->verbs->memory_undefine)
        runtime->verbs->memory_undefine(runtime->backend, stream->id, block->segment->memory,
                                        block->offset, block->bytes);
}

/* Keeps the newest point of each stream; there is room for one a stream. */
static uint32_t add_newest(struct orr_point *points, uint32_t count, struct orr_point point) {
    for (uint32_t i = 0; i < count; i++)
        if (points[i].stream == point.stream) {
            if (points[i].seq < point.seq)
                points[i] = point;
            return count;
        }
    points[count] = point;
    return count + 1;
}

static void record_reuse(struct orr_runtime *runtime, const struct orr__use *use,
                         uint64_t alloc_cmd) {
    struct orr_record_edge edge = {
        .header = ORR_RECORD_HEADER(edge, EDGE), .src = use->point.cmd, .dst = alloc_cmd};
    edge.header.a = ORR_EDGE_ALLOCATOR;
    assert(edge.src < edge.dst); /* ids are in the order of calls */
    if (use->point.cmd != 0)
        orr__runtime_record(runtime, &edge);
}

/* Takes [lo, hi) out of the range of a use; false if nothing is left. Bytes in the middle stay. */
static bool cut_use(struct orr__use *use, uint64_t lo, uint64_t hi) {
    uint64_t end = use->offset + use->bytes;
    if (use->offset >= lo) {
        if (end <= hi)
            return false;
        use->offset = hi;
        use->bytes = end - hi;
    } else if (end <= hi) {
        use->bytes = lo - use->offset;
    }
    return true;
}

/* Tells the buffer, and edges from what its bytes were held for. With these bytes that is done:
 * later owners come after this one. It is not for the rest of a block, which nobody uses now. */
static void tell_history(struct orr_buffer *buffer, uint64_t alloc_cmd) {
    struct orr_runtime *runtime = buffer->runtime;
    const struct orr__block *block = buffer->block;
    struct orr__use **link = (struct orr__use **)&block->segment->history;
    uint64_t end = block->offset + buffer->bytes;
    uint32_t after_count = 0;
    while (*link) {
        struct orr__use *use = *link;
        if (use->offset >= end || use->offset + use->bytes <= block->offset) {
            link = &use->next;
            continue;
        }
        record_reuse(runtime, use, alloc_cmd);
        after_count = add_newest(runtime->point_scratch, after_count, use->point);
        if (cut_use(use, block->offset, end)) {
            link = &use->next;
            continue;
        }
        *link = use->next;
        orr_memory_free(runtime->memory, use);
    }
    if (runtime->observer)
        orr__observe_buffer(buffer, alloc_cmd, runtime->point_scratch, after_count);
}

static void count(struct orr_runtime *runtime, uint32_t device, uint32_t name, uint64_t bytes) {
    struct orr_record_counter record = {.header = ORR_RECORD_HEADER(counter, COUNTER),
                                        .ts_ns =
                                            runtime->verbs->now(runtime->backend, runtime->host),
                                        .value = (double)bytes,
                                        .device = device,
                                        .name = name};
    orr_record_push(runtime->writer, &record);
}

/* What is reserved is told before what is allocated of it, so that of every figure of the latter
 * the former is known. */
static void count_memory(struct orr_runtime *runtime, uint32_t device) {
    if (!runtime->writer)
        return;
    struct orr__device *counted = &runtime->devices[device];
    if (counted->reserved_told != counted->allocator->reserved) {
        counted->reserved_told = counted->allocator->reserved;
        count(runtime, device, runtime->id_reserved_bytes, counted->reserved_told);
    }
    count(runtime, device, runtime->id_memory_bytes, counted->allocator->used);
}

static uint32_t stream_id_of(const struct orr_buffer *buffer) {
    return buffer->stream ? buffer->stream->id : ORR_ID_NONE;
}

/* The records of an allocation. `place` is where its bytes are. */
static void record_alloc(struct orr_buffer *buffer, uint64_t place, uint64_t alloc_cmd) {
    struct orr_runtime *runtime = buffer->runtime;
    struct orr_record_buffer record = {.header = ORR_RECORD_HEADER(buffer, BUFFER),
                                       .id = buffer->id,
                                       .block = place,
                                       .bytes = buffer->bytes,
                                       .alloc_cmd = alloc_cmd,
                                       .device = buffer->device,
                                       .stream = stream_id_of(buffer),
                                       .label = buffer->label,
                                       .memory = buffer->stream        ? runtime->id_device_memory
                                                 : buffer->is_pageable ? runtime->id_pageable
                                                                       : runtime->id_pinned};
    record.header.a = buffer->role;
    orr__runtime_record(runtime, &record);
}

/* The checks and costs of both kinds of allocation; a struct for the buffer. */
static enum orr_status begin_alloc(struct orr_runtime *runtime, uint64_t bytes, const char *label,
                                   struct orr_buffer **out_buffer) {
    *out_buffer = NULL;
    if (bytes == 0)
        return orr__runtime_fail(runtime, ORR_INVALID, "a buffer has at least 1 byte");
    enum orr_status status = orr__runtime_turn(runtime);
    uint32_t label_id = 0;
    if (status == ORR_OK)
        status = orr__runtime_name(runtime, label, &label_id);
    if (status != ORR_OK)
        return status;
    bury_doomed(runtime);
    struct orr_buffer *buffer = new_buffer(runtime);
    if (!buffer)
        return orr__runtime_no_memory(runtime);
    buffer->bytes = bytes;
    buffer->label = label_id;
    buffer->site = runtime->site;
    buffer->role = (uint8_t)runtime->hosts[runtime->host].role;
    *out_buffer = buffer;
    return ORR_OK;
}

enum orr_status orr_buffer_alloc(struct orr_stream *stream, uint64_t bytes, const char *label,
                                 struct orr_buffer **out_buffer) {
    struct orr_runtime *runtime = stream->runtime;
    *out_buffer = NULL;
    int64_t begin_ns = runtime->hosts[runtime->host].first_ns;
    if (begin_ns == ORR_TIME_NONE)
        begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    struct orr_buffer *buffer;
    struct orr__block *block;
    enum orr_status status = begin_alloc(runtime, bytes, label, &buffer);
    if (status == ORR_OK) {
        status = take_block(stream, bytes, &block);
        if (status != ORR_OK)
            pool_buffer(buffer);
    }
    if (status != ORR_BLOCKED) /* the next call begins anew */
        runtime->hosts[runtime->host].first_ns = ORR_TIME_NONE;
    if (status != ORR_OK)
        return status;
    buffer->id = ++runtime->buffer_count;
    buffer->stream = stream;
    buffer->device = stream->device;
    buffer->block = block;
    buffer->memory = block->segment->memory;
    buffer->base = block->offset;
    assert(block->bytes >= bytes && block->bytes <= block->segment->bytes - block->offset);
    if (block->segment->data)
        buffer->data = (char *)block->segment->data + block->offset;
    link_buffer(buffer);
    undefine(stream, block);
    orr__runtime_spend_event(runtime, stream->device);
    uint64_t cmd = orr__runtime_host_command(runtime, ORR_COMMAND_ALLOC, runtime->id_alloc,
                                             stream->device, stream->id, begin_ns);
    record_alloc(buffer, orr__block_place(block), cmd);
    tell_history(buffer, cmd);
    count_memory(runtime, stream->device);
    *out_buffer = buffer;
    return ORR_OK;
}

static enum orr_status alloc_host(struct orr_runtime *runtime, uint64_t bytes, const char *label,
                                  bool is_pageable, struct orr_buffer **out_buffer) {
    *out_buffer = NULL;
    int64_t begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    struct orr_buffer *buffer;
    enum orr_status status = begin_alloc(runtime, bytes, label, &buffer);
    if (status != ORR_OK)
        return status;
    runtime->scratch.status = ORR_OK;
    status = runtime->verbs->memory_create(runtime->backend, ORR_ID_NONE, orr__block_bytes(bytes),
                                           &buffer->memory, &runtime->scratch);
    if (status != ORR_OK) {
        pool_buffer(buffer);
        return orr__runtime_backend_failed(runtime, status);
    }
    buffer->id = ++runtime->buffer_count;
    buffer->device = ORR_ID_NONE;
    buffer->is_pageable = is_pageable;
    buffer->data = runtime->verbs->memory_pointer(runtime->backend, buffer->memory);
    link_buffer(buffer);
    orr__runtime_spend_event(runtime, 0);
    uint64_t cmd = orr__runtime_host_command(runtime, ORR_COMMAND_ALLOC, runtime->id_alloc,
                                             ORR_ID_NONE, ORR_ID_NONE, begin_ns);
    record_alloc(buffer, ++runtime->segment_count << 32, cmd);
    if (runtime->observer)
        orr__observe_buffer(buffer, cmd, NULL, 0);
    *out_buffer = buffer;
    return ORR_OK;
}

enum orr_status orr_buffer_alloc_host(struct orr_runtime *runtime, uint64_t bytes,
                                      const char *label, struct orr_buffer **out_buffer) {
    return alloc_host(runtime, bytes, label, false, out_buffer);
}

enum orr_status orr_buffer_alloc_pageable(struct orr_runtime *runtime, uint64_t bytes,
                                          const char *label, struct orr_buffer **out_buffer) {
    return alloc_host(runtime, bytes, label, true, out_buffer);
}

/* --- free and record_stream --- */

static void record_free(struct orr_buffer *buffer, int64_t begin_ns) {
    struct orr_runtime *runtime = buffer->runtime;
    struct orr_record_buffer_free record = {
        .header = ORR_RECORD_HEADER(buffer_free, BUFFER_FREE),
        .id = buffer->id,
        .free_cmd = orr__runtime_host_command(runtime, ORR_COMMAND_FREE, runtime->id_free,
                                              buffer->device, stream_id_of(buffer), begin_ns)};
    orr__runtime_record(runtime, &record);
    if (runtime->observer)
        orr__observe_free(buffer, record.free_cmd);
}

static void free_device_buffer(struct orr_buffer *buffer) {
    struct orr_runtime *runtime = buffer->runtime;
    uint32_t device = buffer->device;
    if (buffer->uses)
        defer(device_of(buffer), buffer);
    else
        hand_back(buffer);
    count_memory(runtime, device);
}

static void free_now(struct orr_buffer *buffer, int64_t begin_ns) {
    assert(buffer->abandoned && buffer->holders == 0);
    record_free(buffer, begin_ns);
    unlink_buffer(buffer);
    if (buffer->stream)
        free_device_buffer(buffer);
    else if (buffer->users == 0)
        orr__buffer_unused(buffer);
}

void orr_buffer_free(struct orr_buffer **handle) {
    struct orr_buffer *buffer = *handle;
    if (!buffer)
        return;
    struct orr_runtime *runtime = buffer->runtime;
    assert(buffer->live && !buffer->abandoned);
    int64_t begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    orr__runtime_spend_event(runtime, buffer->device);
    buffer->abandoned = true;
    if (buffer->holders == 0)
        free_now(buffer, begin_ns);
    bury_doomed(runtime);
    *handle = NULL;
}

void orr__buffer_hold(struct orr_buffer *buffer) {
    assert(buffer->live && !buffer->abandoned);
    buffer->holders++;
}

void orr__buffer_let_go(struct orr_buffer *buffer) {
    struct orr_runtime *runtime = buffer->runtime;
    assert(buffer->live && buffer->holders > 0);
    if (--buffer->holders == 0 && buffer->abandoned)
        free_now(buffer, runtime->verbs->now(runtime->backend, runtime->host));
}

static const struct orr__use *find_use(const struct orr_buffer *buffer,
                                       const struct orr_stream *stream) {
    for (const struct orr__use *use = buffer->uses; use; use = use->next)
        if (use->stream == stream)
            return use;
    return NULL;
}

/* Which buffer a record_stream is about: as if it read it. */
static void record_use(const struct orr_buffer *buffer, uint64_t cmd) {
    struct orr_record_access access = {.header = ORR_RECORD_HEADER(access, ACCESS),
                                       .cmd = cmd,
                                       .buffer = buffer->id,
                                       .bytes = buffer->bytes};
    access.header.a = ORR_ACCESS_READ;
    if (buffer->runtime->trace_accesses)
        orr__runtime_record(buffer->runtime, &access);
}

enum orr_status orr_buffer_record_stream(struct orr_buffer *buffer, struct orr_stream *stream) {
    struct orr_runtime *runtime = buffer->runtime;
    if (!buffer->live)
        return orr__runtime_fail(runtime, ORR_INVALID, "record_stream of a buffer that was freed");
    if (!buffer->stream)
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED,
                                 "record_stream is for device memory; buffer '%s' is host memory",
                                 text_of(runtime, buffer->label));
    enum orr_status status = orr__runtime_turn(runtime);
    if (status != ORR_OK)
        return status;
    int64_t begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    if (stream != buffer->stream && !find_use(buffer, stream)) {
        struct orr__use *use = orr_memory_alloc(runtime->memory, sizeof *use);
        if (!use)
            return orr__runtime_no_memory(runtime);
        *use = (struct orr__use){.next = buffer->uses, .stream = stream};
        buffer->uses = use;
    }
    orr__runtime_spend_event(runtime, buffer->device);
    uint64_t cmd =
        orr__runtime_host_command(runtime, ORR_COMMAND_RECORD_STREAM, runtime->id_record_stream,
                                  stream->device, stream->id, begin_ns);
    record_use(buffer, cmd);
    if (runtime->observer && stream != buffer->stream)
        runtime->observer->record_stream(runtime->observer, buffer->id, stream->id);
    return ORR_OK;
}

/* --- what a buffer is --- */

uint64_t orr_buffer_id(const struct orr_buffer *buffer) {
    return buffer->id;
}

uint64_t orr_buffer_bytes(const struct orr_buffer *buffer) {
    return buffer->bytes;
}

uint32_t orr_buffer_device(const struct orr_buffer *buffer) {
    return buffer->device;
}

void *orr_buffer_pointer(const struct orr_buffer *buffer) {
    return buffer->data;
}

struct orr_memory_usage orr_device_memory(const struct orr_runtime *runtime, uint32_t device) {
    if (device >= runtime->device_count)
        return (struct orr_memory_usage){0};
    const struct orr__allocator *allocator = runtime->devices[device].allocator;
    struct orr_memory_usage usage = {.capacity = runtime->devices[device].spec.memory_bytes,
                                     .reserved = allocator->reserved,
                                     .allocated = allocator->used,
                                     .requested = allocator->requested,
                                     .allocated_peak = allocator->used_peak,
                                     .reserved_peak = allocator->reserved_peak,
                                     .fragmentation =
                                         allocator->reserved_at_peak - allocator->used_peak,
                                     .alloc_count = allocator->take_count,
                                     .reuse_count = allocator->reuse_count};
    memcpy(usage.roles, runtime->devices[device].roles, sizeof usage.roles);
    return usage;
}

/* --- the host reads and writes --- */

struct host_access {
    const void *from;
    void *to;
    bool done; /* it has happened, and was not poisoned */
};

static enum orr_status run_host_access(const struct orr_command *command, struct orr_error *error) {
    (void)error;
    const struct orr__pending *pending = command->context;
    struct host_access *access = pending->command.work;
    const void *from = access->from ? access->from : orr__pending_pointer(pending, 0);
    void *to = access->to ? access->to : orr__pending_pointer(pending, 0);
    memcpy(to, from, (size_t)command->accesses[0].bytes);
    access->done = true;
    return ORR_OK;
}

static enum orr_status access_buffer(struct orr_buffer *buffer, enum orr_command_kind kind,
                                     uint32_t name, const struct orr_range *range, int64_t ns,
                                     struct host_access *access) {
    struct orr_runtime *runtime = buffer->runtime;
    if (buffer->stream)
        return orr__runtime_fail(
            runtime, ORR_UNSUPPORTED,
            "the host can't access device memory; buffer '%s' is on device %u: copy it first",
            text_of(runtime, buffer->label), (unsigned)buffer->device);
    struct orr__pending *pending = orr__pending_take(runtime, kind, name, 1);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    enum orr_status status = orr__pending_add(pending, ORR_ID_NONE, range);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    pending->command.submit_ns = ns >= 0 ? ns : 1;
    pending->command.service_ns = pending->command.submit_ns; /* the host is the device here */
    pending->command.work = access;
    if (kind == ORR_COMMAND_HOSTREAD)
        pending->command.record.bytes_read = range->bytes;
    else
        pending->command.record.bytes_written = range->bytes;
    if (buffer->data && pending->command.access_count > 0)
        pending->command.run = run_host_access;
    return orr__runtime_host_access(runtime, pending);
}

enum orr_status orr_buffer_write(struct orr_buffer *buffer, uint64_t offset, const void *from,
                                 uint64_t bytes, int64_t ns) {
    struct host_access access = {.from = from};
    const struct orr_range range = {buffer, offset, bytes, ORR_ACCESS_WRITE};
    return access_buffer(buffer, ORR_COMMAND_HOSTWRITE, buffer->runtime->id_hostwrite, &range, ns,
                         &access);
}

enum orr_status orr__buffer_read(struct orr_buffer *buffer, void *to, uint64_t offset,
                                 uint64_t bytes, int64_t ns) {
    struct host_access access = {.to = to};
    const struct orr_range range = {buffer, offset, bytes, ORR_ACCESS_READ};
    return access_buffer(buffer, ORR_COMMAND_HOSTREAD, buffer->runtime->id_hostread, &range, ns,
                         &access);
}

enum orr_status orr__buffer_stage(struct orr_buffer *staging, const struct orr_range *from,
                                  int64_t ns) {
    struct orr_runtime *runtime = staging->runtime;
    struct host_access access = {.to = staging->data};
    assert(from->bytes <= staging->bytes && from->mode == ORR_ACCESS_READ);
    enum orr_status status =
        access_buffer(from->buffer, ORR_COMMAND_HOSTREAD, runtime->id_hostread, from, ns, &access);
    if (status == ORR_OK && access.done && runtime->verbs->memory_define)
        runtime->verbs->memory_define(runtime->backend, staging->memory, staging->base,
                                      from->bytes);
    return status;
}

enum orr_status orr_buffer_read(struct orr_buffer *buffer, uint64_t offset, void *to,
                                uint64_t bytes, int64_t ns) {
    if (buffer->runtime->timing_only)
        return orr__runtime_fail(buffer->runtime, ORR_INVALID,
                                 "there are no numbers to read in a run that is timing only");
    return orr__buffer_read(buffer, to, offset, bytes, ns);
}

enum orr_status orr__buffer_initialize(struct orr_buffer *buffer, uint64_t offset, const void *from,
                                       uint64_t bytes) {
    struct orr_runtime *runtime = buffer->runtime;
    assert(buffer->live && offset <= buffer->bytes && bytes <= buffer->bytes - offset);
    if (runtime->timing_only || bytes == 0)
        return ORR_OK;
    assert(buffer->data);
    if (runtime->verbs->separate_memory && buffer->stream) {
        enum orr_status status =
            runtime->verbs->memory_write(runtime->backend, buffer->memory, buffer->base + offset,
                                         from, bytes, &runtime->scratch);
        return status == ORR_OK ? ORR_OK : orr__runtime_backend_failed(runtime, status);
    }
    if (from)
        memcpy((char *)buffer->data + offset, from, (size_t)bytes);
    else
        memset((char *)buffer->data + offset, 0, (size_t)bytes);
    if (runtime->verbs->memory_define)
        runtime->verbs->memory_define(runtime->backend, buffer->memory, buffer->base + offset,
                                      bytes);
    return ORR_OK;
}

/* --- the end --- */

static void free_list(struct orr_runtime *runtime, struct orr_buffer *list) {
    while (list) {
        struct orr_buffer *buffer = list;
        list = buffer->next;
        free_uses(runtime, buffer->uses);
        orr_memory_free_lines(runtime->memory, buffer);
    }
}

static void pool_list(struct orr_runtime *runtime, struct orr_buffer **list) {
    while (*list) {
        struct orr_buffer *buffer = *list;
        *list = buffer->next;
        free_uses(runtime, buffer->uses);
        buffer->uses = NULL;
        buffer->next = runtime->buffer_pool;
        runtime->buffer_pool = buffer;
    }
}

void orr__buffers_rewind(struct orr_runtime *runtime) {
    for (uint32_t i = 0; i < runtime->device_count; i++) {
        struct orr__device *device = &runtime->devices[i];
        pool_list(runtime, &device->buffers);
        pool_list(runtime, &device->deferred);
        device->deferred_end = &device->deferred;
        for (struct orr__segment *it = device->allocator->first; it; it = it->next)
            free_uses(runtime, it->history);
    }
    pool_list(runtime, &runtime->host_buffers);
    pool_list(runtime, &runtime->doomed);
}

/* After the backend was closed: nothing is in use, and the memory behind it all is gone. */
void orr__buffers_destroy(struct orr_runtime *runtime) {
    for (uint32_t i = 0; i < runtime->device_count; i++) {
        struct orr__device *device = &runtime->devices[i];
        if (!device->allocator)
            continue;
        free_list(runtime, device->buffers);
        free_list(runtime, device->deferred);
        for (struct orr__segment *it = device->allocator->first; it; it = it->next)
            free_uses(runtime, it->history);
    }
    free_list(runtime, runtime->host_buffers);
    free_list(runtime, runtime->doomed);
    free_list(runtime, runtime->buffer_pool);
}
