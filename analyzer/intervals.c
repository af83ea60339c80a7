#include "analyzer/intervals.h"

#include <assert.h>

enum { LISTS_MAX = 8 };

enum orr_status orr__intervals_reserve(const struct orr_memory *memory, struct orr_intervals *list,
                                       size_t count) {
    return orr_memory_grow(memory, &list->items, &list->capacity, count, sizeof *list->items,
                           SIZE_MAX / sizeof *list->items);
}

void orr__intervals_free(const struct orr_memory *memory, struct orr_intervals *list) {
    orr_memory_free(memory, list->items);
    *list = (struct orr_intervals){0};
}

void orr__intervals_add(struct orr_intervals *list, int64_t begin_ns, int64_t end_ns) {
    if (begin_ns >= end_ns) {
        return;
    }
    struct orr_interval *last = list->count > 0 ? &list->items[list->count - 1] : NULL;
    assert(!last || last->begin_ns <= begin_ns);
    if (last && begin_ns <= last->end_ns) {
        if (end_ns > last->end_ns) {
            last->end_ns = end_ns;
        }
        return;
    }
    assert(list->count < list->capacity);
    list->items[list->count++] = (struct orr_interval){begin_ns, end_ns};
}

int64_t orr__intervals_length(const struct orr_intervals *list) {
    int64_t sum = 0;
    for (size_t i = 0; i < list->count; i++) {
        sum += list->items[i].end_ns - list->items[i].begin_ns;
    }
    return sum;
}

int64_t orr__intervals_common(const struct orr_intervals *a, const struct orr_intervals *b) {
    int64_t sum = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const struct orr_interval *x = &a->items[i], *y = &b->items[j];
        int64_t begin = x->begin_ns > y->begin_ns ? x->begin_ns : y->begin_ns;
        int64_t end = x->end_ns < y->end_ns ? x->end_ns : y->end_ns;
        if (begin < end) {
            sum += end - begin;
        }
        if (x->end_ns < y->end_ns) {
            i++;
        } else {
            j++;
        }
    }
    return sum;
}

size_t orr__intervals_find(const struct orr_intervals *list, int64_t time) {
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].end_ns <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void orr__intervals_sweep(const struct orr_intervals *lists, unsigned count,
                          void (*piece)(void *context, unsigned list, int64_t begin_ns,
                                        int64_t end_ns),
                          void *context) {
    assert(count <= LISTS_MAX);
    size_t next[LISTS_MAX] = {0};
    int64_t now = INT64_MIN;
    for (;;) {
        unsigned active = count;
        int64_t change = INT64_MAX;
        for (unsigned i = 0; i < count; i++) {
            const struct orr_intervals *list = &lists[i];
            while (next[i] < list->count && list->items[next[i]].end_ns <= now) {
                next[i]++;
            }
            if (next[i] == list->count) {
                continue;
            }
            const struct orr_interval *item = &list->items[next[i]];
            int64_t edge = item->begin_ns > now ? item->begin_ns : item->end_ns;
            if (item->begin_ns <= now && active == count) {
                active = i;
            }
            change = edge < change ? edge : change;
        }
        if (change == INT64_MAX) {
            return;
        }
        if (active < count) {
            piece(context, active, now, change);
        }
        now = change;
    }
}
