/* What a part's ids, processes, times and texts become in the whole. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace/merge_internal.h"

/* Of a time after correction: enough for 146 years, and sums of two still fit. */
#define TIME_MAX (INT64_C(1) << 62)

enum { CACHE_MIN = 1024, NAME_MAX_BYTES = 256 };

/* -- Memory and texts -------------------------------------------------------------------------- */

void orr__merge_fail(struct orr__merge *merge, enum orr_status status) {
    if (merge->status == ORR_OK)
        merge->status = status;
}

void *orr__merge_array(struct orr__merge *merge, size_t count, size_t size) {
    size_t bytes;
    if (merge->status != ORR_OK)
        return NULL;
    void *array = __builtin_mul_overflow(count, size, &bytes)
                      ? NULL
                      : orr_memory_alloc(merge->memory, bytes > 0 ? bytes : 1);
    if (!array)
        orr__merge_fail(merge, ORR_NO_MEMORY);
    return array;
}

static size_t slot_of(const struct orr__merge *merge, const char *old) {
    uint64_t hash = (uint64_t)(uintptr_t)old * UINT64_C(0x9e3779b97f4a7c15);
    size_t mask = merge->cache_size - 1, slot = (size_t)(hash >> 20) & mask;
    while (merge->cache[slot].old && merge->cache[slot].old != old)
        slot = (slot + 1) & mask;
    return slot;
}

/* Twice the room, so that at most half of it is taken. */
static bool grow_cache(struct orr__merge *merge) {
    struct orr__merge_text *old = merge->cache;
    size_t size = merge->cache_size;
    struct orr__merge_text *cache =
        orr__merge_array(merge, size > 0 ? 2 * size : CACHE_MIN, sizeof *cache);
    if (!cache)
        return false;
    merge->cache = cache;
    merge->cache_size = size > 0 ? 2 * size : CACHE_MIN;
    for (size_t i = 0; i < size; i++)
        if (old[i].old)
            merge->cache[slot_of(merge, old[i].old)] = old[i];
    orr_memory_free(merge->memory, old);
    return true;
}

const char *orr__merge_text(struct orr__merge *merge, const char *text) {
    if (text[0] == '\0' || merge->status != ORR_OK)
        return "";
    if (2 * merge->cache_count >= merge->cache_size && !grow_cache(merge))
        return "";
    struct orr__merge_text *slot = &merge->cache[slot_of(merge, text)];
    if (slot->old)
        return slot->copy;
    const char *copy = orr__texts_add(merge->memory, &merge->texts, text, strlen(text));
    if (!copy) {
        orr__merge_fail(merge, ORR_NO_MEMORY);
        return "";
    }
    *slot = (struct orr__merge_text){text, copy};
    merge->cache_count++;
    return copy;
}

const char *orr__merge_keep(struct orr__merge *merge, const char *text, size_t length) {
    const char *copy =
        merge->status == ORR_OK ? orr__texts_add(merge->memory, &merge->texts, text, length) : "";
    if (!copy)
        orr__merge_fail(merge, ORR_NO_MEMORY);
    return copy ? copy : "";
}

const char *orr__merge_textf(struct orr__merge *merge, const char *format, ...) {
    char buffer[NAME_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    return orr__merge_keep(merge, buffer, strlen(buffer));
}

const char *orr__merge_prefixed(struct orr__merge *merge, const struct orr__merge_part *part,
                                const char *separator, const char *text) {
    size_t size = strlen(text) + 64;
    char *joined = orr__merge_array(merge, size, 1);
    if (!joined)
        return "";
    snprintf(joined, size, "rank %u%s%s", part->rank, separator, text);
    const char *copy = orr__merge_keep(merge, joined, strlen(joined));
    orr_memory_free(merge->memory, joined);
    return copy;
}

/* -- Ids --------------------------------------------------------------------------------------- */

size_t orr__merge_find(const void *items, size_t count, size_t size, uint64_t id) {
    const unsigned char *base = items;
    size_t low = 0, high = count;
    size_t middle = id >= 1 && id - 1 < count ? (size_t)(id - 1) : count / 2;
    while (low < high) {
        uint64_t found;
        memcpy(&found, base + middle * size, sizeof found);
        if (found == id)
            return middle;
        if (found < id)
            low = middle + 1;
        else
            high = middle;
        middle = low + (high - low) / 2;
    }
    return count;
}

static uint64_t new_id(const void *items, size_t count, size_t size, size_t base, uint64_t id) {
    size_t index = id == 0 ? count : orr__merge_find(items, count, size, id);
    return index == count ? 0 : base + index + 1;
}

uint64_t orr__merge_op(const struct orr__merge_part *part, uint64_t id) {
    const struct orr_timeline *t = part->timeline;
    return new_id(t->ops, t->op_count, sizeof *t->ops, part->ops, id);
}

uint64_t orr__merge_command(const struct orr__merge_part *part, uint64_t id) {
    const struct orr_timeline *t = part->timeline;
    return new_id(t->commands, t->command_count, sizeof *t->commands, part->commands, id);
}

uint64_t orr__merge_call(const struct orr__merge_part *part, uint64_t id) {
    const struct orr_timeline *t = part->timeline;
    return new_id(t->calls, t->call_count, sizeof *t->calls, part->calls, id);
}

uint64_t orr__merge_buffer(const struct orr__merge_part *part, uint64_t id) {
    const struct orr_timeline *t = part->timeline;
    return new_id(t->buffers, t->buffer_count, sizeof *t->buffers, part->buffers, id);
}

uint32_t orr__merge_device(const struct orr__merge_part *part, uint32_t id) {
    const struct orr_timeline_device *device =
        id == ORR_ID_NONE ? NULL : orr_timeline_device(part->timeline, id);
    return device ? part->devices[device - part->timeline->devices] : ORR_ID_NONE;
}

uint32_t orr__merge_stream(const struct orr__merge_part *part, uint32_t id) {
    const struct orr_timeline_stream *stream =
        id == ORR_ID_NONE ? NULL : orr_timeline_stream(part->timeline, id);
    return stream ? part->streams[stream - part->timeline->streams] : ORR_ID_NONE;
}

uint32_t orr__merge_host(const struct orr__merge_part *part, uint32_t id) {
    const struct orr_timeline_host *host =
        id == ORR_ID_NONE ? NULL : orr_timeline_host(part->timeline, id);
    return host ? part->hosts[host - part->timeline->hosts] : ORR_ID_NONE;
}

int64_t orr__merge_time(const struct orr__merge_part *part, int64_t ns) {
    int64_t corrected;
    if (ns == ORR_TIME_NONE)
        return ns;
    if (__builtin_sub_overflow(ns, part->offset_ns, &corrected))
        corrected = ns < 0 ? -TIME_MAX : TIME_MAX;
    return corrected > TIME_MAX ? TIME_MAX : corrected < -TIME_MAX ? -TIME_MAX : corrected;
}

/* -- Processes --------------------------------------------------------------------------------- */

static int compare_processes(const void *a, const void *b) {
    const struct orr__merge_process *x = a, *y = b;
    if (x->old != y->old)
        return x->old < y->old ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

static void note_process(struct orr__merge *merge, uint32_t part, uint64_t process) {
    struct orr__merge_process *last =
        merge->process_count > 0 ? &merge->processes[merge->process_count - 1] : NULL;
    if (merge->status != ORR_OK || (last && last->old == process && last->part == part))
        return;
    enum orr_status status =
        orr_memory_grow(merge->memory, &merge->processes, &merge->process_capacity,
                        merge->process_count + 1, sizeof *merge->processes, SIZE_MAX / 64);
    if (status != ORR_OK) {
        orr__merge_fail(merge, status);
        return;
    }
    merge->processes[merge->process_count++] =
        (struct orr__merge_process){.old = process, .part = part};
}

static bool is_old_number(const struct orr__merge *merge, uint64_t number) {
    size_t low = 0, high = merge->process_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (merge->processes[middle].old < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < merge->process_count && merge->processes[low].old == number;
}

/* The first part that has a number keeps it; 0 means no number, and is kept by a single part. */
static void number_processes(struct orr__merge *merge) {
    uint64_t next = 1;
    size_t kept = 0;
    for (size_t i = 0; i < merge->process_count; i++)
        if (i == 0 || compare_processes(&merge->processes[kept - 1], &merge->processes[i]) != 0)
            merge->processes[kept++] = merge->processes[i];
    merge->process_count = kept;
    for (size_t i = 0; i < kept; i++) {
        struct orr__merge_process *p = &merge->processes[i];
        bool first = i == 0 || merge->processes[i - 1].old != p->old;
        if (first && (p->old != 0 || merge->part_count == 1)) {
            p->number = p->old;
            continue;
        }
        while (is_old_number(merge, next))
            next++;
        p->number = next++;
    }
}

void orr__merge_processes(struct orr__merge *merge) {
    for (uint32_t i = 0; i < merge->part_count; i++) {
        const struct orr_timeline *t = merge->parts[i].timeline;
        note_process(merge, i, 0);
        for (size_t s = 0; s < t->stream_count; s++)
            note_process(merge, i, t->streams[s].process);
        for (size_t h = 0; h < t->host_count; h++)
            note_process(merge, i, t->hosts[h].process);
        for (size_t o = 0; o < t->overhead_count; o++)
            note_process(merge, i, t->overheads[o].process);
    }
    if (merge->status == ORR_OK)
        orr__merge_fail(merge,
                        orr__stable_sort(merge->memory, merge->processes, merge->process_count,
                                         sizeof *merge->processes, compare_processes));
    if (merge->status == ORR_OK)
        number_processes(merge);
}

uint64_t orr__merge_process(const struct orr__merge *merge, const struct orr__merge_part *part,
                            uint64_t process) {
    struct orr__merge_process wanted = {.old = process, .part = (uint32_t)(part - merge->parts)};
    size_t low = 0, high = merge->process_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_processes(&merge->processes[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low < merge->process_count);
    return merge->processes[low].number;
}
