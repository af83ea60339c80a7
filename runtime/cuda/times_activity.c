#include "runtime/cuda/times_internal.h"

enum { ENTRIES_MAX = 1 << 24, CALLS_MAX = 1 << 24, BUCKETS_MIN = 256 };

/* A ticket is the generation of an entry above 1 + its index, so that a record of an entry's former
 * life is recognized. */
static uint64_t ticket_of(const struct orr__cuda_activities *activities, uint32_t index) {
    return (uint64_t)activities->entries[index].generation << 32 | (index + 1);
}

/* 1 + the index of a ticket's entry; 0 if nobody has that ticket any more. */
static uint32_t entry_of(const struct orr__cuda_activities *activities, uint64_t ticket) {
    uint32_t entry = (uint32_t)ticket;
    if (entry == 0 || entry > activities->entry_count ||
        activities->entries[entry - 1].users == 0 ||
        activities->entries[entry - 1].generation != (uint32_t)(ticket >> 32))
        return 0;
    return entry;
}

uint64_t orr__cuda_activities_begin(struct orr__cuda_activities *activities, uint32_t users) {
    uint32_t index;
    if (activities->free_count > 0) {
        index = activities->free_entries[--activities->free_count];
    } else {
        size_t needed = activities->entry_count + 1;
        if (orr_memory_grow(activities->memory, &activities->entries, &activities->entry_capacity,
                            needed, sizeof *activities->entries, ENTRIES_MAX) != ORR_OK ||
            orr_memory_grow(activities->memory, &activities->free_entries,
                            &activities->free_capacity, needed, sizeof *activities->free_entries,
                            ENTRIES_MAX) != ORR_OK)
            return 0;
        index = (uint32_t)activities->entry_count++;
    }
    struct orr__cuda_entry *entry = &activities->entries[index];
    *entry = (struct orr__cuda_entry){
        .start_ns = UINT64_MAX, .generation = entry->generation + 1, .users = users};
    return ticket_of(activities, index);
}

void orr__cuda_activities_split(struct orr__cuda_activities *activities, uint64_t ticket,
                                uint64_t first, uint64_t last) {
    uint32_t index = entry_of(activities, ticket);
    assert(index > 0);
    activities->entries[index - 1].split = (struct orr__cuda_split){first, last};
}

void orr__cuda_activities_distrust(struct orr__cuda_activities *activities) {
    for (size_t i = 0; i < activities->entry_count; i++)
        activities->entries[i].untimed = true;
}

bool orr__cuda_activities_complete(const struct orr__cuda_activities *activities, uint64_t ticket,
                                   uint64_t *out_start_ns, uint64_t *out_finish_ns,
                                   struct orr__cuda_split *out_split) {
    uint32_t index = entry_of(activities, ticket);
    assert(index > 0);
    const struct orr__cuda_entry *entry = &activities->entries[index - 1];
    *out_split = entry->split;
    *out_start_ns = entry->start_ns;
    *out_finish_ns = entry->finish_ns;
    return entry->expected > 0 && entry->arrived == entry->expected && !entry->untimed;
}

/* --- calls, by correlation --- */

static uint32_t *bucket_of(const struct orr__cuda_activities *activities, uint32_t correlation) {
    return &activities->buckets[correlation & (activities->bucket_count - 1)];
}

static enum orr_status grow_buckets(struct orr__cuda_activities *activities) {
    size_t count = activities->bucket_count > 0 ? activities->bucket_count * 2 : BUCKETS_MIN;
    uint32_t *buckets = orr_memory_alloc(activities->memory, count * sizeof *buckets);
    if (!buckets)
        return ORR_NO_MEMORY;
    uint32_t *old = activities->buckets;
    size_t old_count = activities->bucket_count;
    activities->buckets = buckets;
    activities->bucket_count = count;
    for (size_t i = 0; i < old_count; i++)
        for (uint32_t call = old[i], next; call > 0; call = next) {
            next = activities->calls[call - 1].next;
            uint32_t *bucket = bucket_of(activities, activities->calls[call - 1].correlation);
            activities->calls[call - 1].next = *bucket;
            *bucket = call;
        }
    orr_memory_free(activities->memory, old);
    return ORR_OK;
}

static struct orr__cuda_call *new_call(struct orr__cuda_activities *activities,
                                       uint32_t correlation) {
    if (activities->call_count >= activities->bucket_count && grow_buckets(activities) != ORR_OK)
        return NULL;
    uint32_t call = activities->free_calls;
    if (call == 0) {
        if (orr_memory_grow(activities->memory, &activities->calls, &activities->call_capacity,
                            activities->call_count + 1, sizeof *activities->calls,
                            CALLS_MAX) != ORR_OK)
            return NULL;
        call = (uint32_t)++activities->call_count;
    } else {
        activities->free_calls = activities->calls[call - 1].next;
    }
    uint32_t *bucket = bucket_of(activities, correlation);
    activities->calls[call - 1] =
        (struct orr__cuda_call){.correlation = correlation, .next = *bucket};
    *bucket = call;
    return &activities->calls[call - 1];
}

static struct orr__cuda_call *call_of(struct orr__cuda_activities *activities,
                                      uint32_t correlation) {
    if (activities->bucket_count > 0)
        for (uint32_t call = *bucket_of(activities, correlation); call > 0;
             call = activities->calls[call - 1].next)
            if (activities->calls[call - 1].correlation == correlation)
                return &activities->calls[call - 1];
    return new_call(activities, correlation);
}

static void free_call(struct orr__cuda_activities *activities, struct orr__cuda_call *call) {
    uint32_t number = (uint32_t)(call - activities->calls) + 1;
    uint32_t *link = bucket_of(activities, call->correlation);
    while (*link != number)
        link = &activities->calls[*link - 1].next;
    *link = call->next;
    call->next = activities->free_calls;
    activities->free_calls = number;
}

/* --- records --- */

static void merge(struct orr__cuda_entry *entry, const struct orr__cuda_call *call) {
    entry->untimed = entry->untimed || call->start_ns == 0;
    if (call->start_ns < entry->start_ns)
        entry->start_ns = call->start_ns;
    if (call->finish_ns > entry->finish_ns)
        entry->finish_ns = call->finish_ns;
}

enum orr_status orr__cuda_activities_link(struct orr__cuda_activities *activities,
                                          uint32_t correlation, uint64_t ticket) {
    struct orr__cuda_call *call = call_of(activities, correlation);
    if (!call)
        return ORR_NO_MEMORY;
    if (call->linked) /* once for the runtime's call, once for the driver's below it */
        return ORR_OK;
    call->linked = true;
    call->entry = entry_of(activities, ticket);
    if (call->entry == 0) {
        call->late = ticket != 0;
        if (!call->ran)
            return ORR_OK;
        activities->late += call->late ? 1 : 0;
        free_call(activities, call);
        return ORR_OK;
    }
    struct orr__cuda_entry *entry = &activities->entries[call->entry - 1];
    call->sibling = entry->calls;
    entry->calls = (uint32_t)(call - activities->calls) + 1;
    entry->expected++;
    if (call->ran) {
        entry->arrived++;
        merge(entry, call);
    }
    return ORR_OK;
}

enum orr_status orr__cuda_activities_ran(struct orr__cuda_activities *activities,
                                         uint32_t correlation, uint64_t start_ns,
                                         uint64_t finish_ns) {
    struct orr__cuda_call *call = call_of(activities, correlation);
    if (!call)
        return ORR_NO_MEMORY;
    bool again = call->ran; /* one call that launched several things */
    call->ran = true;
    call->finish_ns = again && call->finish_ns > finish_ns ? call->finish_ns : finish_ns;
    call->start_ns = again && call->start_ns < start_ns ? call->start_ns : start_ns;
    if (call->entry > 0) {
        struct orr__cuda_entry *entry = &activities->entries[call->entry - 1];
        entry->arrived += again ? 0 : 1;
        merge(entry, call);
    } else if (call->linked) {
        activities->late += call->late ? 1 : 0;
        free_call(activities, call);
    }
    return ORR_OK;
}

/* Calls whose records are still to come stay, to be recognized when they do. */
void orr__cuda_activities_end(struct orr__cuda_activities *activities, uint64_t ticket) {
    uint32_t index = entry_of(activities, ticket);
    assert(index > 0);
    struct orr__cuda_entry *entry = &activities->entries[index - 1];
    if (--entry->users > 0)
        return;
    for (uint32_t number = entry->calls, next; number > 0; number = next) {
        struct orr__cuda_call *call = &activities->calls[number - 1];
        next = call->sibling;
        call->entry = 0;
        call->late = true;
        if (call->ran)
            free_call(activities, call);
    }
    activities->free_entries[activities->free_count++] = index - 1;
}

void orr__cuda_activities_close(struct orr__cuda_activities *activities) {
    orr_memory_free(activities->memory, activities->entries);
    orr_memory_free(activities->memory, activities->free_entries);
    orr_memory_free(activities->memory, activities->calls);
    orr_memory_free(activities->memory, activities->buckets);
}
