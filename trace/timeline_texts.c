#include "trace/timeline_texts.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10, ITEM_MAX = 64, RUN_MIN = 16 };

/* One block of texts; the list begins with the one that has room. */
struct orr__texts {
    struct orr__texts *next;
    size_t used, size;
    char bytes[];
};

const char *orr__texts_add(const struct orr_memory *memory, struct orr__texts **texts,
                           const char *text, size_t length) {
    struct orr__texts *block = *texts;
    if (length == 0)
        return "";
    if (!block || block->size - block->used <= length) {
        size_t size = length < BLOCK_BYTES ? BLOCK_BYTES : length + 1;
        block = orr_memory_resize(memory, NULL, sizeof *block + size);
        if (!block)
            return NULL;
        *block = (struct orr__texts){.next = *texts, .size = size};
        *texts = block;
    }
    char *copy = block->bytes + block->used;
    memcpy(copy, text, length);
    copy[length] = '\0';
    block->used += length + 1;
    return copy;
}

void orr__texts_destroy(const struct orr_memory *memory, struct orr__texts *texts) {
    while (texts) {
        struct orr__texts *next = texts->next;
        orr_memory_free(memory, texts);
        texts = next;
    }
}

struct sort {
    const struct orr_memory *memory;
    unsigned char *items, *spare;
    size_t size, spare_capacity; /* capacity in items */
    int (*compare)(const void *, const void *);
};

static unsigned char *at(const struct sort *sort, size_t index) {
    return sort->items + index * sort->size;
}

static void insertion_sort(struct sort *sort, size_t low, size_t high) {
    unsigned char item[ITEM_MAX];
    for (size_t i = low + 1; i < high; i++) {
        if (sort->compare(at(sort, i - 1), at(sort, i)) <= 0)
            continue;
        size_t to = i;
        memcpy(item, at(sort, i), sort->size);
        while (to > low && sort->compare(at(sort, to - 1), item) > 0)
            to--;
        memmove(at(sort, to + 1), at(sort, to), (i - to) * sort->size);
        memcpy(at(sort, to), item, sort->size);
    }
}

/* First index in [low, high) whose item is greater than `item` (or, not `after`, at least it). */
static size_t bound(const struct sort *sort, size_t low, size_t high, const void *item, int after) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = sort->compare(at(sort, middle), item);
        if (order < 0 || (after && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Merges [low, middle) and [middle, high), each sorted. Only what overlaps is moved. */
static enum orr_status merge(struct sort *sort, size_t low, size_t middle, size_t high) {
    if (sort->compare(at(sort, middle - 1), at(sort, middle)) <= 0)
        return ORR_OK;
    low = bound(sort, low, middle, at(sort, middle), 1);
    high = bound(sort, middle, high, at(sort, middle - 1), 0);
    size_t left = middle - low;
    enum orr_status status = orr_memory_grow(sort->memory, &sort->spare, &sort->spare_capacity,
                                             left, sort->size, SIZE_MAX / ITEM_MAX);
    if (status != ORR_OK)
        return status;
    memcpy(sort->spare, at(sort, low), left * sort->size);
    size_t from_left = 0, from_right = middle, to = low;
    while (from_left < left && from_right < high) {
        const unsigned char *item = sort->spare + from_left * sort->size;
        if (sort->compare(item, at(sort, from_right)) <= 0)
            from_left++;
        else
            item = at(sort, from_right++);
        memcpy(at(sort, to++), item, sort->size);
    }
    memcpy(at(sort, to), sort->spare + from_left * sort->size, (left - from_left) * sort->size);
    return ORR_OK;
}

enum orr_status orr__stable_sort(const struct orr_memory *memory, void *items, size_t count,
                                 size_t size, int (*compare)(const void *, const void *)) {
    assert(size <= ITEM_MAX);
    struct sort sort = {.memory = memory, .items = items, .size = size, .compare = compare};
    enum orr_status status = ORR_OK;
    for (size_t low = 0; low < count; low += RUN_MIN)
        insertion_sort(&sort, low, count - low > RUN_MIN ? low + RUN_MIN : count);
    for (size_t run = RUN_MIN; run < count && status == ORR_OK; run *= 2)
        for (size_t low = 0; count - low > run && status == ORR_OK; low += 2 * run) {
            size_t high = count - low > 2 * run ? low + 2 * run : count;
            status = merge(&sort, low, low + run, high);
            if (high == count)
                break;
        }
    orr_memory_free(memory, sort.spare);
    return status;
}
