/* Buffers, where their bytes are, and who has touched those.
 *
 * Histories belong to memories and outlive the buffers in them: a touch through a buffer that is no
 * more meets those through its bytes' next owner. */
#include <assert.h>
#include <string.h>

#include "hazards/monitor_internal.h"

enum { STREAMS_OF_A_BUFFER_MAX = 1 << 22, FREED_MAX = 1 << 28, PRUNE_BYTES_MIN = 1 << 20 };

static struct orr__seen_memory *memory_of(struct orr_monitor *monitor, uint32_t id) {
    uint64_t key = (uint64_t)id + 1;
    struct orr__seen_memory *memory = orr__id_table_find(&monitor->memories, key);
    if (memory)
        return memory;
    memory = orr_memory_alloc(monitor->memory, sizeof *memory);
    if (!memory)
        return NULL;
    memory->key = key;
    if (orr__id_table_add(&monitor->memories, monitor->memory, key, memory) != ORR_OK) {
        orr_memory_free(monitor->memory, memory);
        return NULL;
    }
    return memory;
}

static void destroy_memory(struct orr_monitor *monitor, struct orr__seen_memory *memory) {
    orr__range_history_clear(&memory->history, &monitor->touches);
    for (size_t i = 0; i < memory->freed_count; i++)
        orr__shared_clock_drop(&monitor->clocks, &memory->freed[i].clock);
    orr_memory_free(monitor->memory, memory->freed);
    orr_memory_free(monitor->memory, memory);
}

static struct orr__seen_buffer *new_buffer(struct orr_monitor *monitor) {
    struct orr__seen_buffer *buffer = monitor->buffer_pool;
    if (!buffer)
        return orr_memory_alloc(monitor->memory, sizeof *buffer);
    monitor->buffer_pool = buffer->next;
    uint32_t *streams = buffer->streams;
    size_t capacity = buffer->stream_capacity;
    *buffer = (struct orr__seen_buffer){.streams = streams, .stream_capacity = capacity};
    return buffer;
}

static void pool_buffer(struct orr_monitor *monitor, struct orr__seen_buffer *buffer) {
    buffer->next = monitor->buffer_pool;
    monitor->buffer_pool = buffer;
}

/* --- hosts among themselves, through the allocator --- */

static bool add_freed(struct orr_monitor *monitor, struct orr__seen_memory *memory, uint64_t lo,
                      uint64_t hi, struct orr__shared_clock clock) {
    if (orr_memory_grow(monitor->memory, &memory->freed, &memory->freed_capacity,
                        memory->freed_count + 1, sizeof *memory->freed, FREED_MAX) != ORR_OK) {
        orr__monitor_lacks(monitor);
        return false;
    }
    memory->freed[memory->freed_count++] = (struct orr__freed_range){lo, hi, clock};
    return true;
}

/* What a clock knows comes before all that happens to the bytes from now on. */
static void forget(struct orr_monitor *monitor, struct orr__seen_memory *memory, uint64_t lo,
                   uint64_t hi, const struct orr__shared_clock *known) {
    if (!orr__range_history_forget(&memory->history, &monitor->touches, lo, hi, known))
        orr__monitor_lacks(monitor);
}

/* Whoever gets bytes comes after those who gave them up, as through the allocator's lock; `host`
 * NULL: with what happens to the bytes only. What has a new owner is forgotten, so that the ranges
 * are disjoint. */
static void join_freed(struct orr_monitor *monitor, struct orr__actor *host,
                       struct orr__seen_memory *memory, uint64_t lo, uint64_t hi) {
    for (size_t i = 0; i < memory->freed_count;) {
        struct orr__freed_range freed = memory->freed[i];
        if (freed.lo >= hi || lo >= freed.hi) {
            i++;
            continue;
        }
        if (host)
            orr__actor_join(monitor, host, &freed.clock, orr__actor_index(monitor, host),
                            host->count);
        else
            forget(monitor, memory, lo, hi, &freed.clock);
        memory->freed[i] = memory->freed[--memory->freed_count];
        if (freed.lo < lo && add_freed(monitor, memory, freed.lo, lo, freed.clock))
            orr__shared_clock_keep(freed.clock);
        if (freed.hi > hi && add_freed(monitor, memory, hi, freed.hi, freed.clock))
            orr__shared_clock_keep(freed.clock);
        orr__shared_clock_drop(&monitor->clocks, &freed.clock);
    }
}

/* Only where there is more than one host that could get the bytes. */
static void note_freed(struct orr_monitor *monitor, const struct orr__seen_buffer *buffer,
                       const struct orr__actor *host) {
    struct orr__shared_clock clock = {0};
    if (monitor->told_hosts < 2)
        return;
    clock = orr__shared_clock_keep(host->clock);
    if (!orr__shared_clock_raise(&monitor->clocks, &clock, orr__actor_index(monitor, host),
                                 host->count))
        orr__monitor_lacks(monitor);
    if (!add_freed(monitor, buffer->memory, buffer->base, buffer->base + buffer->bytes, clock))
        orr__shared_clock_drop(&monitor->clocks, &clock);
}

/* What the allocator waited for before it handed out the bytes comes before all that happens to
 * them from now on. It orders nothing else: whether these bytes were free in time is chance. */
static void forget_awaited(struct orr_monitor *monitor, struct orr__seen_memory *memory,
                           const struct orr_observed_buffer *told) {
    struct orr__shared_clock known = {0};
    for (uint32_t i = 0; i < told->after_count; i++)
        orr__monitor_add_point(monitor, &known, &told->after[i]);
    forget(monitor, memory, told->base, told->base + told->bytes, &known);
    orr__shared_clock_drop(&monitor->clocks, &known);
}

void orr__monitor_add_buffer(struct orr_monitor *monitor, const struct orr_observed_buffer *told) {
    if (told->id == 0 || told->bytes == 0 || told->bytes > UINT64_MAX - told->base ||
        orr__id_table_find(&monitor->buffers, told->id))
        return;
    struct orr__seen_memory *memory = memory_of(monitor, told->memory);
    struct orr__seen_buffer *buffer = memory ? new_buffer(monitor) : NULL;
    if (!buffer ||
        orr__id_table_add(&monitor->buffers, monitor->memory, told->id, buffer) != ORR_OK) {
        if (buffer)
            pool_buffer(monitor, buffer);
        orr__monitor_lacks(monitor);
        return;
    }
    buffer->id = told->id;
    buffer->base = told->base;
    buffer->bytes = told->bytes;
    buffer->memory = memory;
    buffer->stream = told->stream;
    buffer->device = told->device;
    buffer->label = told->label;
    buffer->site = told->site;
    buffer->host = told->host;
    memory->buffers++;
    struct orr__actor *host = orr__monitor_host(monitor, told->host);
    bool orders_host = host && monitor->options.reuse_orders_hosts;
    if (told->after_count > 0 && !orders_host)
        forget_awaited(monitor, memory, told);
    for (uint32_t i = 0; orders_host && i < told->after_count; i++)
        orr__actor_join_point(monitor, host, &told->after[i]);
    join_freed(monitor, orders_host ? host : NULL, memory, told->base, told->base + told->bytes);
}

void orr__monitor_record_stream(struct orr_monitor *monitor, uint64_t id, uint32_t stream) {
    struct orr__seen_buffer *buffer = orr__id_table_find(&monitor->buffers, id);
    for (size_t i = 0; buffer && i < buffer->stream_count; i++)
        if (buffer->streams[i] == stream)
            return;
    if (!buffer)
        return;
    if (orr_memory_grow(monitor->memory, &buffer->streams, &buffer->stream_capacity,
                        buffer->stream_count + 1, sizeof *buffer->streams,
                        STREAMS_OF_A_BUFFER_MAX) == ORR_OK)
        buffer->streams[buffer->stream_count++] = stream;
    else
        orr__monitor_lacks(monitor);
}

/* --- frees --- */

struct free_check {
    struct orr_monitor *monitor;
    const struct orr__seen_buffer *buffer;
    const struct orr__actor *owner, *host; /* the allocation's stream; who frees */
    const struct orr__touch *end;
};

static bool precedes(const struct orr_monitor *monitor, const struct orr__touch *touch,
                     const struct orr__actor *actor) {
    return actor && (orr__actor_index(monitor, actor) == touch->actor ||
                     orr__shared_clock_get(&actor->clock, touch->actor) >= touch->count);
}

/* A use that the next owner of the bytes does not come after. */
static void check_use(void *context, const struct orr__touch *use, uint64_t lo, uint64_t hi) {
    const struct free_check *check = context;
    const struct orr__seen_buffer *buffer = check->buffer;
    struct orr_monitor *monitor = check->monitor;
    if (use->buffer != buffer->id || precedes(monitor, use, check->owner) ||
        precedes(monitor, use, check->host))
        return;
    for (size_t i = 0; i < buffer->stream_count; i++)
        if (precedes(monitor, use, orr__monitor_stream(monitor, buffer->streams[i])))
            return;
    struct orr__found found = {.kind = ORR_MONITOR_UNORDERED_FREE,
                               .class = ORR__FREE_BEFORE_USE_ENDS,
                               .a = *use,
                               .b = *check->end,
                               .lo = lo,
                               .hi = hi,
                               .base = buffer->base,
                               .count = 1};
    found.b.label = buffer->label;
    found.b.buffer = buffer->id;
    found.b.actor = orr__actor_index(monitor, check->owner);
    orr__monitor_found(monitor, &found);
}

void orr__monitor_free(struct orr_monitor *monitor, uint64_t id, const struct orr__touch *end) {
    struct orr__seen_buffer *buffer = orr__id_table_remove(&monitor->buffers, id);
    if (!buffer)
        return;
    struct orr__seen_memory *memory = buffer->memory;
    struct free_check check = {.monitor = monitor,
                               .buffer = buffer,
                               .owner = orr__monitor_stream(monitor, buffer->stream),
                               .host = orr__monitor_host(monitor, end->host),
                               .end = end};
    if (check.owner)
        orr__range_history_each(&memory->history, buffer->base, buffer->base + buffer->bytes,
                                check_use, &check);
    if (check.host && buffer->stream != ORR_ID_NONE)
        note_freed(monitor, buffer, check.host);
    assert(memory->buffers > 0);
    memory->buffers--;
    /* Host memory is a memory of its own, lives on until what uses it is done, and is not used
     * again. */
    if (buffer->stream == ORR_ID_NONE && memory->buffers == 0) {
        orr__id_table_remove(&monitor->memories, memory->key);
        destroy_memory(monitor, memory);
    }
    pool_buffer(monitor, buffer);
}

/* --- accesses --- */

struct access_check {
    struct orr_monitor *monitor;
    const struct orr__touch *touch;
    uint64_t base;
};

static enum orr__conflict_class class_of(const struct orr__touch *a, const struct orr__touch *b) {
    if (!(a->mode & ORR_ACCESS_WRITE))
        return ORR__WRITE_AFTER_READ;
    return b->mode & ORR_ACCESS_READ ? ORR__READ_AFTER_WRITE : ORR__WRITE_AFTER_WRITE;
}

static void note_conflict(void *context, const struct orr__touch *earlier, uint64_t lo,
                          uint64_t hi) {
    const struct access_check *check = context;
    struct orr__found found = {.kind = earlier->buffer == check->touch->buffer
                                           ? ORR_MONITOR_RACE
                                           : ORR_MONITOR_USE_AFTER_FREE,
                               .class = class_of(earlier, check->touch),
                               .a = *earlier,
                               .b = *check->touch,
                               .lo = lo,
                               .hi = hi,
                               .base = check->base,
                               .count = 1};
    orr__monitor_found(check->monitor, &found);
}

/* Forgets what everyone knows once histories have doubled since the last time. */
static void prune(struct orr_monitor *monitor, const struct orr__shared_clock *all_know) {
    for (size_t i = 0; i < monitor->memories.size; i++) {
        struct orr__seen_memory *memory = monitor->memories.entries[i].object;
        if (memory)
            orr__range_history_prune(&memory->history, &monitor->touches, all_know);
    }
    monitor->prune_at = 2 * monitor->touches.bytes;
    if (monitor->prune_at < PRUNE_BYTES_MIN)
        monitor->prune_at = PRUNE_BYTES_MIN;
}

void orr__monitor_access(struct orr_monitor *monitor, const struct orr__actor *actor, int32_t call,
                         const struct orr_observed_command *command) {
    static const struct orr__shared_clock nothing;
    const struct orr__shared_clock *all_know = orr__monitor_all_know(monitor);
    const struct orr__looker looker = {.actor = orr__actor_index(monitor, actor),
                                       .knows = &actor->clock,
                                       .all_know = all_know ? all_know : &nothing};
    struct orr__touch touch = {.actor = looker.actor,
                               .count = actor->count,
                               .cmd = command->id,
                               .name = command->name,
                               .site = command->site,
                               .host = command->host,
                               .call = call};
    struct access_check check = {.monitor = monitor, .touch = &touch};
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_observed_access *access = &command->accesses[i];
        const struct orr__seen_buffer *buffer =
            orr__id_table_find(&monitor->buffers, access->buffer);
        monitor->figures.accesses++;
        if (!buffer || access->offset > buffer->bytes ||
            access->bytes > buffer->bytes - access->offset) {
            monitor->figures.unknown++;
            continue;
        }
        if (access->bytes == 0)
            continue;
        touch.buffer = buffer->id;
        touch.label = buffer->label;
        touch.mode = (uint8_t)access->mode;
        check.base = buffer->base;
        uint64_t lo = buffer->base + access->offset;
        if (!orr__range_history_add(&buffer->memory->history, &monitor->touches, &looker, lo,
                                    lo + access->bytes, &touch, note_conflict, &check))
            orr__monitor_lacks(monitor);
    }
    if (all_know && monitor->touches.bytes > monitor->prune_at)
        prune(monitor, all_know);
}

void orr__monitor_clear_memory(struct orr_monitor *monitor) {
    for (size_t i = 0; i < monitor->memories.size; i++)
        if (monitor->memories.entries[i].object)
            destroy_memory(monitor, monitor->memories.entries[i].object);
    for (size_t i = 0; i < monitor->buffers.size; i++)
        if (monitor->buffers.entries[i].object)
            pool_buffer(monitor, monitor->buffers.entries[i].object);
    while (monitor->buffer_pool) {
        struct orr__seen_buffer *buffer = monitor->buffer_pool;
        monitor->buffer_pool = buffer->next;
        orr_memory_free(monitor->memory, buffer->streams);
        orr_memory_free(monitor->memory, buffer);
    }
    orr__id_table_clear(&monitor->memories, monitor->memory);
    orr__id_table_clear(&monitor->buffers, monitor->memory);
}
