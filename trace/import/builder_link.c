/* Finishing: (process, correlation) -> call, waits and syncs -> times, and numbers that do not
 * depend on the order in which a file happens to tell things. */
#include <string.h>

#include "trace/import/builder.h"
#include "trace/import/builder_internal.h"

/* All calls of one (process, correlation). */
struct group {
    uint64_t process, correlation;
    int64_t begin_ns, end_ns; /* of all */
    uint32_t first;           /* the one with the smallest (begin, end), then name */
    /* The same of records that do not end before they begin; ORR_TIME_NONE: there is none. */
    int64_t good_begin_ns, good_end_ns;
};

struct linker {
    struct orr__builder *builder;
    struct orr_timeline *timeline;
    const struct orr_memory *memory;
    struct group *groups;
    size_t group_count, group_capacity;
    struct orr__index index;
};

static uint64_t hash_key(uint64_t process, uint64_t correlation) {
    return orr__hash_mix(orr__hash_mix(process, correlation), 1);
}

static struct group *find_group(const struct linker *l, uint64_t process, uint64_t correlation) {
    if (correlation == ORR_CORRELATION_NONE)
        return NULL;
    uint64_t hash = hash_key(process, correlation);
    size_t at = orr__index_start(&l->index, hash);
    uint32_t item;
    while ((item = orr__index_item(&l->index, &at, hash)) != ORR__INDEX_NONE) {
        struct group *group = &l->groups[item];
        if (group->process == process && group->correlation == correlation)
            return group;
        at++;
    }
    return NULL;
}

/* -- Calls ------------------------------------------------------------------------------------- */

static bool call_before(const struct orr_timeline_call *a, const struct orr_timeline_call *b) {
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns;
    return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : strcmp(a->name, b->name) < 0;
}

static uint64_t process_of_host(const struct orr_timeline *t, uint32_t host) {
    return host < t->host_count ? t->hosts[host].process : 0;
}

static void add_good(struct group *group, const struct orr_timeline_call *c) {
    if (c->begin_ns == ORR_TIME_NONE || c->end_ns < c->begin_ns)
        return;
    bool first = group->good_begin_ns == ORR_TIME_NONE;
    if (first || c->begin_ns < group->good_begin_ns)
        group->good_begin_ns = c->begin_ns;
    if (first || c->end_ns > group->good_end_ns)
        group->good_end_ns = c->end_ns;
}

static enum orr_status add_group(struct linker *l, uint64_t process, uint32_t call) {
    const struct orr_timeline_call *c = &l->timeline->calls[call];
    enum orr_status status = orr_memory_grow(l->memory, &l->groups, &l->group_capacity,
                                             l->group_count + 1, sizeof *l->groups, INT32_MAX);
    if (status == ORR_OK)
        status = orr__index_add(&l->index, l->memory, hash_key(process, c->correlation),
                                (uint32_t)l->group_count);
    if (status == ORR_OK)
        l->groups[l->group_count++] = (struct group){.process = process,
                                                     .correlation = c->correlation,
                                                     .begin_ns = c->begin_ns,
                                                     .end_ns = c->end_ns,
                                                     .first = call,
                                                     .good_begin_ns = ORR_TIME_NONE,
                                                     .good_end_ns = ORR_TIME_NONE};
    if (status == ORR_OK)
        add_good(&l->groups[l->group_count - 1], c);
    return status;
}

static void join_group(const struct linker *l, struct group *group, uint32_t call) {
    const struct orr_timeline_call *c = &l->timeline->calls[call];
    group->begin_ns = c->begin_ns < group->begin_ns ? c->begin_ns : group->begin_ns;
    group->end_ns = c->end_ns > group->end_ns ? c->end_ns : group->end_ns;
    add_good(group, c);
    if (call_before(c, &l->timeline->calls[group->first]))
        group->first = call;
}

static enum orr_status merge_calls(struct linker *l) {
    struct orr_timeline *t = l->timeline;
    for (size_t i = 0; i < t->call_count; i++) {
        const struct orr_timeline_call *c = &t->calls[i];
        if (c->correlation == ORR_CORRELATION_NONE)
            continue;
        uint64_t process = process_of_host(t, c->host);
        struct group *group = find_group(l, process, c->correlation);
        if (group) {
            join_group(l, group, (uint32_t)i);
            continue;
        }
        enum orr_status status = add_group(l, process, (uint32_t)i);
        if (status != ORR_OK)
            return status;
    }
    for (size_t i = 0; i < t->call_count && l->group_count < t->call_count; i++) {
        struct orr_timeline_call *c = &t->calls[i];
        const struct group *group = find_group(l, process_of_host(t, c->host), c->correlation);
        if (group)
            c->merged = t->calls[group->first].id;
    }
    return ORR_OK;
}

static void link_commands(const struct linker *l) {
    struct orr_timeline *t = l->timeline;
    for (size_t i = 0; i < t->command_count; i++) {
        struct orr_timeline_command *c = &t->commands[i];
        if (c->stream >= t->stream_count)
            continue;
        const struct group *group = find_group(l, t->streams[c->stream].process, c->correlation);
        if (!group)
            continue;
        const struct orr_timeline_call *call = &t->calls[group->first];
        c->call = call->id;
        c->host = c->caller = call->host;
        c->enqueue_ns = group->good_begin_ns;
        c->enqueued_ns = group->good_end_ns;
    }
}

/* -- Syncs and waits --------------------------------------------------------------------------- */

static void link_syncs(const struct linker *l) {
    const struct orr__builder *b = l->builder;
    for (size_t i = 0; i < b->sync_link_count; i++) {
        const struct orr__sync_link *link = &b->sync_links[i];
        struct orr_timeline_sync *sync = &l->timeline->syncs[link->sync - 1];
        const struct group *group = find_group(l, link->process, link->correlation);
        if (!group)
            continue;
        const struct orr_timeline_call *call = &l->timeline->calls[group->first];
        sync->call = call->id;
        sync->host = call->host;
        sync->begin_ns = group->begin_ns;
        sync->end_ns = group->end_ns;
    }
}

static void resolve_waits(const struct linker *l) {
    for (size_t i = 0; i < l->timeline->stream_wait_count; i++) {
        const struct orr__wait *wait = &l->builder->waits[i];
        struct orr_timeline_stream_wait *item = &l->timeline->stream_waits[i];
        const struct group *call = find_group(l, wait->process, wait->correlation);
        const struct group *record = find_group(l, wait->process, wait->record_correlation);
        if (call)
            item->at_ns = call->begin_ns;
        item->resolved = record && wait->source != ORR_ID_NONE;
        if (record)
            item->record_ns = record->begin_ns;
    }
}

/* -- Numbers ----------------------------------------------------------------------------------- */

/* What is sorted, small enough for the sort: keys of hosts are texts, of streams four numbers. */
struct numbered {
    const struct orr__builder *builder;
    uint32_t old;
};

static int compare_u64(uint64_t a, uint64_t b) {
    return a == b ? 0 : a < b ? -1 : 1;
}

static int compare_streams(const void *x, const void *y) {
    const struct numbered *a = x, *b = y;
    const struct orr__stream_key *p = &a->builder->stream_keys[a->old];
    const struct orr__stream_key *q = &b->builder->stream_keys[b->old];
    int order = compare_u64(p->device, q->device);
    if (order == 0)
        order = compare_u64(p->process, q->process);
    if (order == 0)
        order = compare_u64(p->context, q->context);
    return order != 0 ? order : p->number == q->number ? 0 : p->number < q->number ? -1 : 1;
}

static int compare_hosts(const void *x, const void *y) {
    const struct numbered *a = x, *b = y;
    const struct orr_timeline_host *p = &a->builder->timeline->hosts[a->old];
    const struct orr_timeline_host *q = &b->builder->timeline->hosts[b->old];
    int order = compare_u64(p->process, q->process);
    return order != 0 ? order : strcmp(p->label, q->label);
}

/* new_of[old number] = its place in the order; NULL without memory. */
static uint32_t *number(const struct linker *l, size_t count,
                        int (*compare)(const void *, const void *)) {
    struct numbered *items = orr_memory_alloc(l->memory, count * sizeof *items);
    uint32_t *new_of = orr_memory_alloc(l->memory, count * sizeof *new_of);
    enum orr_status status = items && new_of ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < count; i++)
        items[i] = (struct numbered){l->builder, (uint32_t)i};
    if (status == ORR_OK)
        status = orr__stable_sort(l->memory, items, count, sizeof *items, compare);
    for (size_t i = 0; status == ORR_OK && i < count; i++)
        new_of[items[i].old] = (uint32_t)i;
    orr_memory_free(l->memory, items);
    if (status == ORR_OK)
        return new_of;
    orr_memory_free(l->memory, new_of);
    return NULL;
}

static void renumber(uint32_t *field, const uint32_t *new_of, size_t count) {
    *field = *field < count ? new_of[*field] : ORR_ID_NONE;
}

/* Puts the items of an array in which the first member is a 32-bit id at their new places. */
static enum orr_status permute(const struct linker *l, void *items, size_t count, size_t size,
                               const uint32_t *new_of) {
    unsigned char *copy = orr_memory_alloc(l->memory, count * size);
    if (!copy)
        return ORR_NO_MEMORY;
    if (count > 0)
        memcpy(copy, items, count * size);
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = (unsigned char *)items + new_of[i] * size;
        memcpy(to, copy + i * size, size);
        memcpy(to, &new_of[i], sizeof new_of[i]);
    }
    orr_memory_free(l->memory, copy);
    return ORR_OK;
}

_Static_assert(offsetof(struct orr_timeline_stream, id) == 0, "permute writes it there");
_Static_assert(offsetof(struct orr_timeline_host, id) == 0, "permute writes it there");

static enum orr_status number_streams(const struct linker *l) {
    struct orr_timeline *t = l->timeline;
    size_t count = t->stream_count;
    uint32_t *new_of = number(l, count, compare_streams);
    if (!new_of)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < t->command_count; i++)
        renumber(&t->commands[i].stream, new_of, count);
    for (size_t i = 0; i < t->sync_count; i++)
        renumber(&t->syncs[i].stream, new_of, count);
    for (size_t i = 0; i < t->slice_count; i++)
        renumber(&t->slices[i].stream, new_of, count);
    for (size_t i = 0; i < t->stream_wait_count; i++) {
        renumber(&t->stream_waits[i].stream, new_of, count);
        renumber(&t->stream_waits[i].source, new_of, count);
    }
    enum orr_status status = permute(l, t->streams, count, sizeof *t->streams, new_of);
    orr_memory_free(l->memory, new_of);
    return status;
}

static enum orr_status number_hosts(const struct linker *l) {
    struct orr_timeline *t = l->timeline;
    size_t count = t->host_count;
    uint32_t *new_of = number(l, count, compare_hosts);
    if (!new_of)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < t->command_count; i++) {
        renumber(&t->commands[i].host, new_of, count);
        renumber(&t->commands[i].caller, new_of, count);
    }
    for (size_t i = 0; i < t->call_count; i++)
        renumber(&t->calls[i].host, new_of, count);
    for (size_t i = 0; i < t->sync_count; i++)
        renumber(&t->syncs[i].host, new_of, count);
    for (size_t i = 0; i < t->slice_count; i++)
        renumber(&t->slices[i].host, new_of, count);
    enum orr_status status = permute(l, t->hosts, count, sizeof *t->hosts, new_of);
    orr_memory_free(l->memory, new_of);
    return status;
}

/* -- Arrays that timelines hold sorted --------------------------------------------------------- */

static int compare_meta(const void *x, const void *y) {
    const struct orr_timeline_meta *a = x, *b = y;
    return strcmp(a->key, b->key);
}

static int compare_collective_members(const void *x, const void *y) {
    const struct orr_timeline_collective_member *a = x, *b = y;
    int order = compare_u64(a->collective, b->collective);
    return order != 0 ? order : compare_u64(a->rank, b->rank);
}

static int compare_members(const void *x, const void *y) {
    const struct orr_timeline_member *a = x, *b = y;
    int order = compare_u64(a->communicator, b->communicator);
    return order != 0 ? order : compare_u64(a->rank, b->rank);
}

static int compare_counters(const void *x, const void *y) {
    const struct orr_timeline_counter *a = x, *b = y;
    int order = compare_u64(a->device, b->device);
    if (order == 0)
        order = a->name == b->name ? 0 : strcmp(a->name, b->name);
    return order != 0 ? order : a->ts_ns == b->ts_ns ? 0 : a->ts_ns < b->ts_ns ? -1 : 1;
}

static int compare_devices(const void *x, const void *y) {
    const struct numbered *a = x, *b = y;
    const struct orr_timeline_device *devices = a->builder->timeline->devices;
    return compare_u64(devices[a->old].id, devices[b->old].id);
}

/* Devices keep their numbers, and are too long for the sort: their order is sorted. */
static enum orr_status sort_devices(const struct linker *l) {
    struct orr_timeline *t = l->timeline;
    uint32_t *place_of = number(l, t->device_count, compare_devices);
    struct orr_timeline_device *sorted =
        orr_memory_alloc(l->memory, t->device_count * sizeof *sorted);
    enum orr_status status = place_of && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < t->device_count; i++)
        sorted[place_of[i]] = t->devices[i];
    orr_memory_free(l->memory, place_of);
    orr_memory_free(l->memory, status == ORR_OK ? t->devices : sorted);
    if (status == ORR_OK)
        t->devices = sorted;
    return status;
}

static enum orr_status sort_arrays(const struct linker *l) {
    struct orr_timeline *t = l->timeline;
    enum orr_status status = sort_devices(l);
    if (status == ORR_OK)
        status = orr__stable_sort(l->memory, t->meta, t->meta_count, sizeof *t->meta, compare_meta);
    if (status == ORR_OK)
        status = orr__stable_sort(l->memory, t->members, t->member_count, sizeof *t->members,
                                  compare_members);
    if (status == ORR_OK)
        status = orr__stable_sort(l->memory, t->collective_members, t->collective_member_count,
                                  sizeof *t->collective_members, compare_collective_members);
    if (status == ORR_OK)
        status = orr__stable_sort(l->memory, t->counters, t->counter_count, sizeof *t->counters,
                                  compare_counters);
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

static enum orr_status link_all(struct linker *l) {
    enum orr_status status = merge_calls(l);
    if (status != ORR_OK)
        return status;
    link_commands(l);
    link_syncs(l);
    resolve_waits(l);
    status = number_streams(l);
    if (status == ORR_OK)
        status = number_hosts(l);
    return status == ORR_OK ? sort_arrays(l) : status;
}

enum orr_status orr__builder_finish(struct orr__builder **builder,
                                    struct orr_timeline **out_timeline) {
    struct orr__builder *b = *builder;
    struct linker linker = {.builder = b, .timeline = b->timeline, .memory = b->memory};
    enum orr_status status = b->failed ? ORR_NO_MEMORY : link_all(&linker);
    orr_memory_free(b->memory, linker.groups);
    orr__index_free(&linker.index, b->memory);
    *out_timeline = NULL;
    if (status == ORR_OK) {
        *out_timeline = b->timeline;
        (*out_timeline)->texts = b->storage;
        b->timeline = NULL;
        b->storage = NULL;
    }
    orr__builder_destroy(builder);
    return status;
}
