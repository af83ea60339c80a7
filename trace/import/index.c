#include "trace/import/index.h"

#include <string.h>

enum { SIZE_MIN = 64 };

/* Multiplications carry each bit upwards only, so the high half of a hash is the good one: slots
 * are chosen by it, and compared by it. */
uint64_t orr__hash_bytes(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t hash = orr__hash_mix(UINT64_C(0x2545f4914f6cdd1d), length), word;
    for (; length >= sizeof word; at += sizeof word, length -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = orr__hash_mix(hash, word);
    }
    word = 0;
    memcpy(&word, at, length);
    return orr__hash_mix(orr__hash_mix(hash, word), 1);
}

static void put(struct orr__index_slot *slots, size_t size, struct orr__index_slot slot) {
    size_t at = slot.hash & (size - 1);
    while (slots[at].item != 0)
        at = (at + 1) & (size - 1);
    slots[at] = slot;
}

static enum orr_status grow(struct orr__index *index, const struct orr_memory *memory) {
    size_t size = index->size == 0 ? SIZE_MIN : 2 * index->size;
    if (size > (size_t)1 << 31)
        return ORR_NO_MEMORY;
    struct orr__index_slot *slots = orr_memory_alloc(memory, size * sizeof *slots);
    if (!slots)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < index->size; i++)
        if (index->slots[i].item != 0)
            put(slots, size, index->slots[i]);
    orr_memory_free(memory, index->slots);
    index->slots = slots;
    index->size = size;
    return ORR_OK;
}

enum orr_status orr__index_add(struct orr__index *index, const struct orr_memory *memory,
                               uint64_t hash, uint32_t item) {
    if (2 * (index->count + 1) > index->size) {
        enum orr_status status = grow(index, memory);
        if (status != ORR_OK)
            return status;
    }
    put(index->slots, index->size, (struct orr__index_slot){item + 1, (uint32_t)(hash >> 32)});
    index->count++;
    return ORR_OK;
}

void orr__index_free(struct orr__index *index, const struct orr_memory *memory) {
    orr_memory_free(memory, index->slots);
    *index = (struct orr__index){0};
}
