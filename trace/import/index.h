/* Internal to trace/import/: a hash index over items that lie in an array of somebody else's.
 *
 * It holds numbers of items and 32 bits of their hashes; what equal means, the caller says.
 *
 *     struct orr__index index = {0};
 *     size_t at = orr__index_start(&index, hash);
 *     for (uint32_t item; (item = orr__index_item(&index, &at, hash)) != ORR__INDEX_NONE; at++)
 *         if (same(item, key)) return item;
 *     status = orr__index_add(&index, memory, hash, new_item);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_INDEX_H
#define ORR_TRACE_IMPORT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"

#define ORR__INDEX_NONE UINT32_MAX

struct orr__index_slot {
    uint32_t item; /* + 1; 0 free */
    uint32_t hash;
};

struct orr__index {
    struct orr__index_slot *slots; /* a power of two of them; at most half are used */
    size_t size, count;
};

/* A hash of bytes; the same on every machine of one byte order. */
uint64_t orr__hash_bytes(const void *bytes, size_t length);

/* Mixes a number into a hash. */
static inline uint64_t orr__hash_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Where a search for `hash` starts. */
static inline size_t orr__index_start(const struct orr__index *index, uint64_t hash) {
    return index->size == 0 ? 0 : (size_t)(hash >> 32) & (index->size - 1);
}

/* The first item at or after *at that may be the one, or ORR__INDEX_NONE; *at is its slot. */
static inline uint32_t orr__index_item(const struct orr__index *index, size_t *at, uint64_t hash) {
    if (index->size == 0)
        return ORR__INDEX_NONE;
    for (;; (*at)++) {
        *at &= index->size - 1;
        const struct orr__index_slot *slot = &index->slots[*at];
        if (slot->item == 0)
            return ORR__INDEX_NONE;
        if (slot->hash == (uint32_t)(hash >> 32))
            return slot->item - 1;
    }
}

/* Adds an item that is not there yet. ORR_NO_MEMORY; also for 2^31 items, which do not fit. */
enum orr_status orr__index_add(struct orr__index *index, const struct orr_memory *memory,
                               uint64_t hash, uint32_t item) ORR_MUST_CHECK;

void orr__index_free(struct orr__index *index, const struct orr_memory *memory);

#endif
