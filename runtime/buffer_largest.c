/* What a device's memory is full of, for the message that it is: live buffers by the line that
 * allocated them and their role. The error path allocates nothing, so the device's list of live
 * buffers is sorted for a moment, and then brought back into its order.
 *
 *     newest first -> by line and role -> sums, the largest few -> newest first */
#include <assert.h>
#include <stdio.h>

#include "runtime/runtime_internal.h"

enum { SHOWN = 5 };

/* Buffers of one line and role. */
struct group {
    const struct orr_buffer *largest; /* of them; of equals the oldest */
    uint64_t bytes, count;
};

/* ------------------------------------------------------------------------------------------------
 * Sorting the list: merges of runs that double in length */

/* Buffers without a line belong together by their label. */
static bool line_before(const struct orr_buffer *a, const struct orr_buffer *b) {
    if (a->site != b->site)
        return a->site < b->site;
    if (a->role != b->role)
        return a->role < b->role;
    return a->site == 0 && a->label < b->label;
}

static bool newer(const struct orr_buffer *a, const struct orr_buffer *b) {
    return a->id > b->id;
}

/* Takes up to `length` buffers off the front; returns the rest. */
static struct orr_buffer *cut(struct orr_buffer *list, size_t length) {
    while (list && --length > 0)
        list = list->next;
    struct orr_buffer *rest = list ? list->next : NULL;
    if (list)
        list->next = NULL;
    return rest;
}

/* Merges two sorted lists to the end of a third; returns where that ends now. Stable. */
static struct orr_buffer **merge(struct orr_buffer *a, struct orr_buffer *b,
                                 bool (*before)(const struct orr_buffer *,
                                                const struct orr_buffer *),
                                 struct orr_buffer **end) {
    while (a || b) {
        struct orr_buffer **least = a && (!b || !before(b, a)) ? &a : &b;
        *end = *least;
        end = &(*least)->next;
        *least = (*least)->next;
    }
    *end = NULL;
    return end;
}

static void sort(struct orr_buffer **list,
                 bool (*before)(const struct orr_buffer *, const struct orr_buffer *)) {
    for (size_t length = 1, runs = 2; runs > 1; length *= 2) {
        struct orr_buffer *rest = *list, **end = list;
        for (runs = 0; rest; runs++) {
            struct orr_buffer *a = rest, *b = cut(a, length);
            rest = cut(b, length);
            end = merge(a, b, before, end);
        }
    }
    struct orr_buffer *previous = NULL;
    for (struct orr_buffer *it = *list; it; it = it->next) {
        it->previous = previous;
        previous = it;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Groups */

static bool group_before(const struct group *a, const struct group *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->largest->id < b->largest->id;
}

/* Keeps the largest in order. */
static void keep(struct group kept[SHOWN], struct group group) {
    for (int i = 0; i < SHOWN; i++) {
        if (!kept[i].largest || group_before(&group, &kept[i])) {
            struct group moved = kept[i];
            kept[i] = group;
            if (!moved.largest)
                return;
            group = moved;
        }
    }
}

static void add(struct group *group, const struct orr_buffer *buffer) {
    const struct orr_buffer *largest = group->largest;
    if (!largest || buffer->bytes > largest->bytes ||
        (buffer->bytes == largest->bytes && buffer->id < largest->id))
        group->largest = buffer;
    group->bytes += buffer->bytes;
    group->count++;
}

static void find_groups(const struct orr_buffer *list, struct group kept[SHOWN]) {
    while (list) {
        struct group group = {NULL, 0, 0};
        const struct orr_buffer *first = list;
        for (; list && !line_before(first, list); list = list->next)
            add(&group, list);
        keep(kept, group);
    }
}

static int print_group(const struct orr_runtime *runtime, const struct group *group, char *text,
                       size_t size) {
    const struct orr_buffer *buffer = group->largest;
    const char *label = orr_names_text(runtime->names, buffer->label);
    const char *site = orr_names_text(runtime->names, buffer->site);
    bool named = buffer->role != ORR_ROLE_OTHER;
    char count[40] = "";
    if (group->count > 1)
        snprintf(count, sizeof count, " in %llu buffers", (unsigned long long)group->count);
    return snprintf(text, size, " '%s' %llu bytes%s%s%s%s%s", *label ? label : "(no label)",
                    (unsigned long long)group->bytes, count, named ? " of role " : "",
                    named ? orr_role_text((enum orr_role)buffer->role) : "", *site ? " at " : "",
                    site);
}

void orr__buffers_print_largest(const struct orr_runtime *runtime, struct orr__device *device,
                                char *text, size_t size) {
    struct group kept[SHOWN] = {{NULL, 0, 0}};
    assert(size > 0);
    text[0] = '\0';
    sort(&device->buffers, line_before);
    find_groups(device->buffers, kept);
    sort(&device->buffers, newer);
    for (size_t i = 0, used = 0; i < SHOWN && kept[i].largest && used < size; i++) {
        if (i > 0)
            used += (size_t)snprintf(text + used, size - used, ",");
        if (used < size)
            used += (size_t)print_group(runtime, &kept[i], text + used, size - used);
    }
}
