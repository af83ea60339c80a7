#include "hazards/range_history.h"

#include <assert.h>
#include <string.h>

#include "runtime/record.h"

enum { SPANS_MAX = 1 << 28 };

/* In order of calls. */
struct orr__touches {
    struct orr__touches *next; /* free ones */
    uint32_t count, size;      /* room for 2 << size */
    struct orr__touch items[];
};

/* --- lists of touches --- */

static size_t list_bytes(uint32_t size) {
    return sizeof(struct orr__touches) + ((size_t)2 << size) * sizeof(struct orr__touch);
}

void orr__touch_pool_init(struct orr__touch_pool *pool, const struct orr_memory *memory) {
    *pool = (struct orr__touch_pool){.memory = memory};
}

void orr__touch_pool_clear(struct orr__touch_pool *pool) {
    assert(pool->bytes == 0);
    for (int i = 0; i < ORR__TOUCH_SIZES; i++)
        while (pool->free[i]) {
            struct orr__touches *list = pool->free[i];
            pool->free[i] = list->next;
            orr_memory_free(pool->memory, list);
        }
}

static struct orr__touches *new_list(struct orr__touch_pool *pool, uint32_t size) {
    if (size >= ORR__TOUCH_SIZES)
        return NULL;
    struct orr__touches *list = pool->free[size];
    if (list)
        pool->free[size] = list->next;
    else
        list = orr_memory_alloc(pool->memory, list_bytes(size));
    if (!list)
        return NULL;
    list->count = 0;
    list->size = size;
    pool->bytes += list_bytes(size);
    return list;
}

static void free_list(struct orr__touch_pool *pool, struct orr__touches *list) {
    if (!list)
        return;
    pool->bytes -= list_bytes(list->size);
    list->next = pool->free[list->size];
    pool->free[list->size] = list;
}

static struct orr__touches *copy_list(struct orr__touch_pool *pool, const struct orr__touches *list,
                                      uint32_t size) {
    struct orr__touches *copy = new_list(pool, size);
    if (!copy)
        return NULL;
    copy->count = list->count;
    memcpy(copy->items, list->items, list->count * sizeof list->items[0]);
    return copy;
}

/* Room for one more. */
static bool grow_list(struct orr__touch_pool *pool, struct orr__touches **list) {
    struct orr__touches *old = *list, *larger = copy_list(pool, old, old->size + 1);
    if (!larger)
        return false;
    free_list(pool, old);
    *list = larger;
    return true;
}

static inline bool append(struct orr__touch_pool *pool, struct orr__touches **list,
                          const struct orr__touch *touch) {
    if ((*list)->count == (uint32_t)2 << (*list)->size && !grow_list(pool, list))
        return false;
    (*list)->items[(*list)->count++] = *touch;
    return true;
}

static bool same_lists(const struct orr__touches *a, const struct orr__touches *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->items[i].cmd != b->items[i].cmd || a->items[i].mode != b->items[i].mode ||
            a->items[i].buffer != b->items[i].buffer)
            return false;
    return true;
}

/* --- spans --- */

/* The first span that ends behind `at`. */
static size_t find_span(const struct orr__range_history *history, uint64_t at) {
    size_t low = 0, high = history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history->spans[middle].hi > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Room for a span at `index`. */
static bool insert_span(struct orr__range_history *history, struct orr__touch_pool *pool,
                        size_t index, uint64_t lo, uint64_t hi, struct orr__touches *touches) {
    assert(lo < hi && index <= history->count);
    if (!touches)
        return false;
    if (orr_memory_grow(pool->memory, &history->spans, &history->capacity, history->count + 1,
                        sizeof *history->spans, SPANS_MAX) != ORR_OK) {
        free_list(pool, touches);
        return false;
    }
    memmove(&history->spans[index + 1], &history->spans[index],
            (history->count - index) * sizeof *history->spans);
    history->spans[index] = (struct orr__span){.lo = lo, .hi = hi, .touches = touches};
    history->count++;
    return true;
}

/* A span that goes on at `at` becomes two. */
static bool cut(struct orr__range_history *history, struct orr__touch_pool *pool, size_t index,
                uint64_t at) {
    const struct orr__touches *list = history->spans[index].touches;
    if (!insert_span(history, pool, index + 1, at, history->spans[index].hi,
                     copy_list(pool, list, list->size)))
        return false;
    history->spans[index].hi = at;
    return true;
}

/* The same if there is one. */
static inline bool split(struct orr__range_history *history, struct orr__touch_pool *pool,
                         size_t index, uint64_t at) {
    if (index == history->count || history->spans[index].lo >= at || history->spans[index].hi <= at)
        return true;
    return cut(history, pool, index, at);
}

/* Drops spans that are empty, and joins neighbours that are alike, from `first` to before `end`. */
static void tidy_spans(struct orr__range_history *history, struct orr__touch_pool *pool,
                       size_t first, size_t end) {
    if (first == end)
        return;
    size_t kept = first;
    for (size_t i = first; i < end; i++) {
        struct orr__span *span = &history->spans[i];
        struct orr__span *previous = kept > first ? &history->spans[kept - 1] : NULL;
        bool joins = previous && span->touches->count > 0 && previous->hi == span->lo &&
                     same_lists(previous->touches, span->touches);
        if (joins)
            previous->hi = span->hi;
        if (joins || span->touches->count == 0)
            free_list(pool, span->touches);
        else
            history->spans[kept++] = *span;
    }
    memmove(&history->spans[kept], &history->spans[end],
            (history->count - end) * sizeof *history->spans);
    history->count -= end - kept;
}

/* --- touches --- */

static bool knows(const struct orr__looker *looker, const struct orr__touch *touch) {
    return touch->actor == looker->actor ||
           orr__shared_clock_get(looker->knows, touch->actor) >= touch->count;
}

/* A touch in a span: what is superfluous from now on goes. */
static bool touch_span(struct orr__span *span, struct orr__touch_pool *pool,
                       const struct orr__looker *looker, uint64_t lo, uint64_t hi,
                       const struct orr__touch *touch, orr__conflict conflict, void *context) {
    struct orr__touches *list = span->touches;
    bool writes = touch->mode & ORR_ACCESS_WRITE;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct orr__touch *earlier = &list->items[i];
        bool conflicts = writes || (earlier->mode & ORR_ACCESS_WRITE);
        bool known = knows(looker, earlier);
        if (conflicts && !known)
            conflict(context, earlier, lo, hi);
        if (known && (writes || !(earlier->mode & ORR_ACCESS_WRITE) ||
                      orr__shared_clock_get(looker->all_know, earlier->actor) >= earlier->count))
            continue;
        if (kept != i)
            list->items[kept] = *earlier;
        kept++;
    }
    list->count = kept;
    return append(pool, &span->touches, touch);
}

bool orr__range_history_add(struct orr__range_history *history, struct orr__touch_pool *pool,
                            const struct orr__looker *looker, uint64_t lo, uint64_t hi,
                            const struct orr__touch *touch, orr__conflict conflict, void *context) {
    assert(lo < hi);
    size_t first = find_span(history, lo);
    if (!split(history, pool, first, lo))
        return false;
    first += first < history->count && history->spans[first].lo < lo;
    uint64_t at = lo;
    size_t index = first;
    for (; at < hi; index++) {
        uint64_t next = index < history->count ? history->spans[index].lo : UINT64_MAX;
        uint64_t end = next < hi ? next : hi;
        if (at < end) { /* nobody has touched it */
            if (!insert_span(history, pool, index, at, end, new_list(pool, 0)))
                return false;
        } else if (!split(history, pool, index, hi)) {
            return false;
        }
        struct orr__span *span = &history->spans[index];
        at = span->hi;
        if (!touch_span(span, pool, looker, span->lo, span->hi, touch, conflict, context))
            return false;
    }
    if (index - first > 1)
        tidy_spans(history, pool, first, index);
    return true;
}

void orr__range_history_each(const struct orr__range_history *history, uint64_t lo, uint64_t hi,
                             orr__conflict each, void *context) {
    for (size_t i = find_span(history, lo); i < history->count && history->spans[i].lo < hi; i++) {
        const struct orr__span *span = &history->spans[i];
        uint64_t begin = span->lo > lo ? span->lo : lo, end = span->hi < hi ? span->hi : hi;
        for (uint32_t k = 0; k < span->touches->count; k++)
            each(context, &span->touches->items[k], begin, end);
    }
}

static void forget(struct orr__span *span, const struct orr__shared_clock *known) {
    struct orr__touches *list = span->touches;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (orr__shared_clock_get(known, list->items[i].actor) < list->items[i].count)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

bool orr__range_history_forget(struct orr__range_history *history, struct orr__touch_pool *pool,
                               uint64_t lo, uint64_t hi, const struct orr__shared_clock *known) {
    size_t first = find_span(history, lo), end = first;
    if (!split(history, pool, first, lo))
        return false;
    if (first < history->count && history->spans[first].lo < lo)
        end = ++first;
    for (; end < history->count && history->spans[end].lo < hi; end++) {
        if (!split(history, pool, end, hi))
            return false;
        forget(&history->spans[end], known);
    }
    tidy_spans(history, pool, first, end);
    return true;
}

void orr__range_history_prune(struct orr__range_history *history, struct orr__touch_pool *pool,
                              const struct orr__shared_clock *all_know) {
    for (size_t i = 0; i < history->count; i++)
        forget(&history->spans[i], all_know);
    tidy_spans(history, pool, 0, history->count);
}

void orr__range_history_clear(struct orr__range_history *history, struct orr__touch_pool *pool) {
    for (size_t i = 0; i < history->count; i++)
        free_list(pool, history->spans[i].touches);
    orr_memory_free(pool->memory, history->spans);
    *history = (struct orr__range_history){0};
}
