#include "analyzer/device_groups.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/sort.h"

struct order {
    int (*compare)(const void *context, uint32_t a, uint32_t b);
    const void *context;
};

static bool device_before(const void *context, uint32_t a, uint32_t b) {
    const struct order *order = context;
    int result = order->compare(order->context, a, b);
    return result != 0 ? result < 0 : a < b;
}

/* Groups by their first member; `ends` are of the sorted members. */
struct runs {
    const uint32_t *members;
    const size_t *first;
};

static bool run_before(const void *context, uint32_t a, uint32_t b) {
    const struct runs *runs = context;
    return runs->members[runs->first[a]] < runs->members[runs->first[b]];
}

static size_t find_runs(const struct order *order, const uint32_t *members, size_t count,
                        size_t *first) {
    size_t runs = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || order->compare(order->context, members[i - 1], members[i]) != 0) {
            first[runs++] = i;
        }
    }
    first[runs] = count;
    return runs;
}

/* Brings the runs of `members` into the order of their first members. */
static enum orr_status order_runs(const struct orr_memory *memory, const uint32_t *members,
                                  const size_t *first, struct orr_device_groups *out) {
    struct runs runs = {members, first};
    uint32_t *order = orr_memory_alloc(memory, out->count * sizeof *order);
    if (!order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < out->count; i++) {
        order[i] = (uint32_t)i;
    }
    enum orr_status status = orr__sort_indices(memory, order, out->count, run_before, &runs);
    size_t at = 0;
    for (size_t i = 0; status == ORR_OK && i < out->count; i++) {
        size_t begin = first[order[i]], length = first[order[i] + 1] - begin;
        out->first[i] = at;
        memcpy(out->members + at, members + begin, length * sizeof *members);
        at += length;
    }
    out->first[out->count] = at;
    orr_memory_free(memory, order);
    return status;
}

enum orr_status orr__device_groups_make(const struct orr_memory *memory, size_t device_count,
                                        int (*compare)(const void *context, uint32_t a, uint32_t b),
                                        const void *context, struct orr_device_groups *out_groups) {
    struct order order = {compare, context};
    uint32_t *sorted = orr_memory_alloc(memory, device_count * sizeof *sorted);
    size_t *first = orr_memory_alloc(memory, (device_count + 1) * sizeof *first);
    *out_groups = (struct orr_device_groups){
        .members = orr_memory_alloc(memory, device_count * sizeof *sorted),
        .first = orr_memory_alloc(memory, (device_count + 1) * sizeof *first)};
    enum orr_status status =
        sorted && first && out_groups->members && out_groups->first ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < device_count; i++) {
        sorted[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(memory, sorted, device_count, device_before, &order);
    }
    if (status == ORR_OK) {
        out_groups->count = find_runs(&order, sorted, device_count, first);
        status = order_runs(memory, sorted, first, out_groups);
    }
    orr_memory_free(memory, sorted);
    orr_memory_free(memory, first);
    if (status != ORR_OK) {
        orr__device_groups_free(memory, out_groups);
    }
    return status;
}

void orr__device_groups_free(const struct orr_memory *memory, struct orr_device_groups *groups) {
    orr_memory_free(memory, groups->members);
    orr_memory_free(memory, groups->first);
    *groups = (struct orr_device_groups){0};
}

const char *orr__device_group_text(const struct orr_device_groups *groups, size_t group,
                                   const uint32_t *ids, char *buffer) {
    size_t length = 0, end = groups->first[group + 1];
    enum { TAIL = 20 }; /* room for ",... (4294967295)" */
    for (size_t i = groups->first[group]; i < end;) {
        size_t last = i;
        while (last + 1 < end && ids[groups->members[last + 1]] == ids[groups->members[last]] + 1) {
            last++;
        }
        char range[32];
        const char *comma = length > 0 ? "," : "";
        unsigned from = ids[groups->members[i]], to = ids[groups->members[last]];
        int size = from == to ? snprintf(range, sizeof range, "%s%u", comma, from)
                              : snprintf(range, sizeof range, "%s%u-%u", comma, from, to);
        if (length + (size_t)size + TAIL > ORR_DEVICE_GROUP_TEXT_MAX) {
            snprintf(buffer + length, ORR_DEVICE_GROUP_TEXT_MAX - length, ",... (%zu)",
                     end - groups->first[group]);
            return buffer;
        }
        memcpy(buffer + length, range, (size_t)size + 1);
        length += (size_t)size;
        i = last + 1;
    }
    return buffer;
}
