/* Numbers for what several timelines have, and one timeline made of them. See merge.h. */
#include "trace/merge.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "trace/merge_internal.h"
#include "trace/timeline_texts.h"

enum { NAME_MAX_BYTES = 256 };

/* -- Devices, streams, hosts ------------------------------------------------------------------- */

static void mark_device(struct orr__merge_part *part, uint32_t id) {
    const struct orr_timeline_device *device =
        id == ORR_ID_NONE ? NULL : orr_timeline_device(part->timeline, id);
    if (device)
        part->devices[device - part->timeline->devices] = 0;
}

/* Other tools list the devices of a machine, used by this process or not. Returns how many stay. */
static size_t mark_devices(struct orr__merge_part *part, bool all) {
    const struct orr_timeline *t = part->timeline;
    size_t count = 0;
    for (size_t d = 0; d < t->device_count; d++)
        part->devices[d] = all ? 0 : ORR_ID_NONE;
    for (size_t s = 0; s < t->stream_count; s++)
        mark_device(part, t->streams[s].device);
    for (size_t c = 0; c < t->counter_count; c++)
        mark_device(part, t->counters[c].device);
    for (size_t b = 0; b < t->buffer_count; b++)
        mark_device(part, t->buffers[b].device);
    for (size_t d = 0; d < t->device_count; d++)
        count += part->devices[d] != ORR_ID_NONE;
    return count;
}

static uint32_t rank_of_device(const struct orr__merge_part *part, size_t index) {
    return part->device_ranks ? part->device_ranks[index] : part->rank;
}

static const char *device_name(struct orr__merge *merge, const struct orr__merge_part *part,
                               const struct orr_timeline_device *device) {
    uint32_t rank = rank_of_device(part, (size_t)(device - part->timeline->devices));
    char plain[NAME_MAX_BYTES];
    snprintf(plain, sizeof plain, "device %u", device->id);
    if (device->name[0] == '\0' || strcmp(device->name, plain) == 0)
        return orr__merge_textf(merge, "rank %u GPU %u", rank, device->id);
    return orr__merge_textf(merge, "rank %u GPU %u: %.128s", rank, device->id, device->name);
}

static void add_devices(struct orr__merge *merge) {
    size_t total = 0;
    bool one_each = true;
    for (size_t i = 0; i < merge->part_count; i++) {
        struct orr__merge_part *part = &merge->parts[i];
        part->devices =
            orr__merge_array(merge, part->timeline->device_count, sizeof *part->devices);
        if (!part->devices)
            return;
        bool all = strcmp(part->timeline->source.format, "orrery") == 0;
        size_t count = mark_devices(part, all);
        total += count;
        one_each = one_each && count <= 1;
    }
    struct orr_timeline *t = merge->timeline;
    t->devices = orr__merge_array(merge, total, sizeof *t->devices);
    for (size_t i = 0; i < merge->part_count && merge->status == ORR_OK; i++) {
        struct orr__merge_part *part = &merge->parts[i];
        for (size_t d = 0; d < part->timeline->device_count; d++) {
            if (part->devices[d] == ORR_ID_NONE)
                continue;
            struct orr_timeline_device *device = &t->devices[t->device_count];
            *device = part->timeline->devices[d];
            device->name = device_name(merge, part, &part->timeline->devices[d]);
            device->kind = orr__merge_text(merge, device->kind);
            device->profile = orr__merge_text(merge, device->profile);
            device->id = one_each ? part->rank : (uint32_t)t->device_count;
            part->devices[d] = device->id;
            part->main_device = part->main_device == ORR_ID_NONE ? device->id : part->main_device;
            t->device_count++;
        }
    }
}

static void add_streams(struct orr__merge *merge, size_t total) {
    struct orr_timeline *t = merge->timeline;
    t->streams = orr__merge_array(merge, total, sizeof *t->streams);
    for (size_t i = 0; i < merge->part_count && merge->status == ORR_OK; i++) {
        struct orr__merge_part *part = &merge->parts[i];
        size_t count = part->timeline->stream_count;
        part->streams = orr__merge_array(merge, count, sizeof *part->streams);
        for (size_t s = 0; s < count && merge->status == ORR_OK; s++) {
            struct orr_timeline_stream *stream = &t->streams[t->stream_count];
            *stream = part->timeline->streams[s];
            stream->id = part->streams[s] = (uint32_t)t->stream_count++;
            stream->device = orr__merge_device(part, stream->device);
            stream->name = orr__merge_text(merge, stream->name);
            stream->process = orr__merge_process(merge, part, stream->process);
        }
    }
}

static void add_hosts(struct orr__merge *merge, size_t total) {
    struct orr_timeline *t = merge->timeline;
    t->hosts = orr__merge_array(merge, total, sizeof *t->hosts);
    for (size_t i = 0; i < merge->part_count && merge->status == ORR_OK; i++) {
        struct orr__merge_part *part = &merge->parts[i];
        size_t count = part->timeline->host_count;
        part->hosts = orr__merge_array(merge, count, sizeof *part->hosts);
        for (size_t h = 0; h < count && merge->status == ORR_OK; h++) {
            struct orr_timeline_host *host = &t->hosts[t->host_count];
            *host = part->timeline->hosts[h];
            host->id = part->hosts[h] = (uint32_t)t->host_count++;
            host->name = orr__merge_prefixed(merge, part, " ", host->name);
            host->label = orr__merge_text(merge, host->label ? host->label : "");
            host->process = orr__merge_process(merge, part, host->process);
        }
    }
}

/* -- What is said of the whole ----------------------------------------------------------------- */

static void add_meta(struct orr__merge *merge, const char *key, const char *value) {
    merge->timeline->meta[merge->timeline->meta_count++] = (struct orr_timeline_meta){key, value};
}

static bool agreed(const struct orr__merge *merge, const char *key, const char *value) {
    for (size_t i = 0; i < merge->part_count; i++) {
        const char *other = orr_timeline_meta(merge->parts[i].timeline, key);
        if (!other || strcmp(other, value) != 0)
            return false;
    }
    return true;
}

static void add_part_meta(struct orr__merge *merge, size_t index) {
    const struct orr__merge_part *part = &merge->parts[index];
    for (size_t i = 0; i < part->timeline->meta_count && merge->status == ORR_OK; i++) {
        const struct orr_timeline_meta *meta = &part->timeline->meta[i];
        /* Of an earlier merge; this one says them anew. */
        if (strcmp(meta->key, "ranks") == 0 || strncmp(meta->key, "rank of device ", 15) == 0)
            continue;
        if (!agreed(merge, meta->key, meta->value))
            add_meta(merge, orr__merge_textf(merge, "%.200s of rank %u", meta->key, part->rank),
                     orr__merge_text(merge, meta->value));
        else if (index == 0)
            add_meta(merge, orr__merge_text(merge, meta->key), orr__merge_text(merge, meta->value));
    }
    if (part->offset_ns != 0)
        add_meta(merge, orr__merge_textf(merge, "offset_ns of rank %u", part->rank),
                 orr__merge_textf(merge, "%lld", (long long)part->offset_ns));
}

static void add_ranks_meta(struct orr__merge *merge) {
    enum { NUMBER_BYTES = 11 };
    char *text = orr__merge_array(merge, merge->part_count, NUMBER_BYTES + 1);
    size_t length = 0;
    for (size_t i = 0; i < merge->part_count && text; i++)
        length += (size_t)snprintf(text + length, NUMBER_BYTES + 1, "%s%u", i > 0 ? "," : "",
                                   merge->parts[i].rank);
    if (text)
        add_meta(merge, orr__merge_textf(merge, "ranks"), orr__merge_keep(merge, text, length));
    orr_memory_free(merge->memory, text);
}

/* Who a device belongs to; numbers of devices need not be those of ranks. */
static void add_device_meta(struct orr__merge *merge, const struct orr__merge_part *part) {
    for (size_t d = 0; d < part->timeline->device_count && merge->status == ORR_OK; d++)
        if (part->devices[d] != ORR_ID_NONE)
            add_meta(merge, orr__merge_textf(merge, "rank of device %u", part->devices[d]),
                     orr__merge_textf(merge, "%u", rank_of_device(part, d)));
}

static int compare_meta(const void *a, const void *b) {
    return strcmp(((const struct orr_timeline_meta *)a)->key,
                  ((const struct orr_timeline_meta *)b)->key);
}

/* In the order of keys, as in a database. */
static void add_all_meta(struct orr__merge *merge) {
    size_t total = 1 + merge->timeline->device_count;
    for (size_t i = 0; i < merge->part_count; i++)
        total += merge->parts[i].timeline->meta_count + 1;
    merge->timeline->meta = orr__merge_array(merge, total, sizeof *merge->timeline->meta);
    for (size_t i = 0; i < merge->part_count && merge->status == ORR_OK; i++)
        add_part_meta(merge, i);
    for (size_t i = 0; i < merge->part_count && merge->status == ORR_OK; i++)
        add_device_meta(merge, &merge->parts[i]);
    if (merge->status == ORR_OK)
        add_ranks_meta(merge);
    if (merge->status == ORR_OK)
        orr__merge_fail(merge, orr__stable_sort(merge->memory, merge->timeline->meta,
                                                merge->timeline->meta_count,
                                                sizeof *merge->timeline->meta, compare_meta));
}

/* Sum of numbers that are known; ORR_SOURCE_NONE if none is. */
static uint64_t sum_known(uint64_t sum, uint64_t number) {
    uint64_t both;
    if (number == ORR_SOURCE_NONE || sum == ORR_SOURCE_NONE)
        return number == ORR_SOURCE_NONE ? sum : number;
    return __builtin_add_overflow(sum, number, &both) ? ORR_SOURCE_NONE - 1 : both;
}

static void set_source(struct orr__merge *merge) {
    struct orr_timeline_source *source = &merge->timeline->source;
    const struct orr_timeline_source *first = &merge->parts[0].timeline->source;
    source->format = orr__merge_text(merge, first->format);
    source->has_time_base = first->has_time_base;
    source->time_base_ns = first->time_base_ns;
    uint64_t world_size = merge->match->world_size > 0 ? merge->match->world_size : ORR_SOURCE_NONE;
    for (size_t i = 0; i < merge->part_count; i++) {
        const struct orr_timeline_source *part = &merge->parts[i].timeline->source;
        source->knows_waits = source->knows_waits && part->knows_waits;
        source->knows_syncs = source->knows_syncs && part->knows_syncs;
        if (world_size == ORR_SOURCE_NONE)
            world_size = part->world_size;
#define SUM_NUMBER(name) source->name = sum_known(source->name, part->name);
        ORR_SOURCE_NUMBER_LIST(SUM_NUMBER)
#undef SUM_NUMBER
    }
    source->rank = ORR_SOURCE_NONE;
    source->world_size = world_size;
    /* A place in a file means nothing for several; the findings name it. */
    source->truncated_at = ORR_SOURCE_NONE;
}

/* -- All of it --------------------------------------------------------------------------------- */

static enum orr_status check_formats(const struct orr_timeline *const *parts, size_t count,
                                     struct orr_error *error) {
    size_t streams = 0, hosts = 0, devices = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(parts[i]->source.format, parts[0]->source.format) != 0)
            return orr_error_set(error, ORR_UNSUPPORTED,
                                 "traces of formats %s and %s are no ranks of one job",
                                 parts[0]->source.format, parts[i]->source.format);
        streams += parts[i]->stream_count;
        hosts += parts[i]->host_count;
        devices += parts[i]->device_count;
    }
    if (streams >= ORR_ID_NONE || hosts >= ORR_ID_NONE || devices >= ORR_ID_NONE)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "%zu traces have %zu streams and %zu hosts; fewer than %u of each are "
                             "supported",
                             count, streams, hosts, ORR_ID_NONE);
    return ORR_OK;
}

static uint64_t last_block(const struct orr_timeline *t) {
    uint64_t last = 0;
    for (size_t i = 0; i < t->buffer_count; i++)
        last = t->buffers[i].block > last ? t->buffers[i].block : last;
    return last;
}

static void prepare_parts(struct orr__merge *merge, const struct orr_timeline *const *parts,
                          const struct orr_merge_part *how) {
    struct orr__merge_part base = {0};
    for (size_t i = 0; i < merge->part_count; i++) {
        assert(i == 0 || how[i].rank > how[i - 1].rank);
        merge->parts[i] = base;
        merge->parts[i].timeline = parts[i];
        merge->parts[i].rank = how[i].rank;
        merge->parts[i].offset_ns = how[i].offset_ns;
        merge->parts[i].device_ranks = how[i].device_ranks;
        merge->parts[i].main_device = ORR_ID_NONE;
        base.ops += parts[i]->op_count;
        base.commands += parts[i]->command_count;
        base.calls += parts[i]->call_count;
        base.buffers += parts[i]->buffer_count;
        if (__builtin_add_overflow(base.blocks, last_block(parts[i]), &base.blocks))
            base.blocks = 0;
    }
}

static void merge_all(struct orr__merge *merge) {
    size_t streams = 0, hosts = 0;
    for (size_t i = 0; i < merge->part_count; i++) {
        streams += merge->parts[i].timeline->stream_count;
        hosts += merge->parts[i].timeline->host_count;
    }
    set_source(merge);
    orr__merge_processes(merge);
    add_devices(merge);
    add_streams(merge, streams);
    add_hosts(merge, hosts);
    add_all_meta(merge);
    if (merge->status == ORR_OK)
        orr__merge_rows(merge);
    if (merge->status == ORR_OK)
        orr__merge_collectives(merge);
    merge->timeline->texts = merge->texts;
}

static void free_merge(struct orr__merge *merge) {
    for (size_t i = 0; i < merge->part_count; i++) {
        struct orr__merge_part *part = &merge->parts[i];
        void *const arrays[] = {part->devices,       part->streams,       part->hosts,
                                part->communicators, part->collective_of, part->joined};
        for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
            orr_memory_free(merge->memory, arrays[a]);
    }
    orr_memory_free(merge->memory, merge->parts);
    orr_memory_free(merge->memory, merge->processes);
    orr_memory_free(merge->memory, merge->cache);
}

enum orr_status orr_timeline_merge(const struct orr_timeline *const *parts,
                                   const struct orr_merge_part *how, size_t count,
                                   const struct orr_merge_match *match,
                                   const struct orr_memory *memory,
                                   struct orr_timeline **out_timeline, struct orr_error *error) {
    assert(count > 0);
    *out_timeline = NULL;
    enum orr_status status = check_formats(parts, count, error);
    if (status != ORR_OK)
        return status;
    struct orr_timeline *timeline = NULL;
    struct orr__merge merge = {.memory = memory, .match = match, .error = error};
    merge.parts = orr_memory_alloc(memory, count * sizeof *merge.parts);
    status = merge.parts ? orr_timeline_create(memory, &timeline) : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        merge.part_count = count;
        merge.timeline = timeline;
        prepare_parts(&merge, parts, how);
        merge_all(&merge);
        status = merge.status;
    }
    free_merge(&merge);
    if (status != ORR_OK) {
        orr_timeline_destroy(&timeline);
        return orr_error_set(error, status, "%zu traces do not fit in memory as one timeline",
                             count);
    }
    *out_timeline = timeline;
    return ORR_OK;
}
