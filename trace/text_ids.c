#include "trace/text_ids.h"

#include <stdbool.h>
#include <string.h>

enum { RECENT = 1 << 12, SLOTS_FIRST = 1 << 10, IDS_MAX = 1 << 30 };

struct recent {
    const char *text;
    uint32_t id;
};

struct orr__text_ids {
    const struct orr_memory *memory;
    const char **texts; /* by id; [0] unused */
    uint64_t *hashes;   /* by id */
    uint32_t *slots;    /* open addressing: an id, 0 free */
    size_t text_capacity, hash_capacity, slot_count;
    uint32_t count;               /* of texts, [0] included */
    struct recent recent[RECENT]; /* by address, so that most texts are never hashed */
};

static uint64_t hash_text(const char *text, size_t length) {
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ length;
    for (; length >= 8; length -= 8, text += 8) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    uint64_t word = 0;
    memcpy(&word, text, length);
    hash = (hash ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 29;
}

enum orr_status orr__text_ids_create(const struct orr_memory *memory,
                                     struct orr__text_ids **out_ids) {
    struct orr__text_ids *ids = orr_memory_alloc(memory, sizeof *ids);
    *out_ids = NULL;
    if (!ids)
        return ORR_NO_MEMORY;
    ids->memory = memory;
    ids->count = 1;
    ids->slots = orr_memory_alloc(memory, SLOTS_FIRST * sizeof *ids->slots);
    ids->slot_count = SLOTS_FIRST;
    if (!ids->slots) {
        orr_memory_free(memory, ids);
        return ORR_NO_MEMORY;
    }
    *out_ids = ids;
    return ORR_OK;
}

void orr__text_ids_destroy(struct orr__text_ids **ids) {
    if (!*ids)
        return;
    const struct orr_memory *memory = (*ids)->memory;
    orr_memory_free(memory, (*ids)->texts);
    orr_memory_free(memory, (*ids)->hashes);
    orr_memory_free(memory, (*ids)->slots);
    orr_memory_free(memory, *ids);
    *ids = NULL;
}

static void place(struct orr__text_ids *ids, uint32_t id) {
    size_t slot = (size_t)ids->hashes[id] & (ids->slot_count - 1);
    while (ids->slots[slot] != 0)
        slot = (slot + 1) & (ids->slot_count - 1);
    ids->slots[slot] = id;
}

static bool make_room(struct orr__text_ids *ids) {
    size_t needed = (size_t)ids->count + 1;
    if (orr_memory_grow(ids->memory, &ids->texts, &ids->text_capacity, needed, sizeof *ids->texts,
                        IDS_MAX) != ORR_OK ||
        orr_memory_grow(ids->memory, &ids->hashes, &ids->hash_capacity, needed, sizeof *ids->hashes,
                        IDS_MAX) != ORR_OK)
        return false;
    if (2 * needed <= ids->slot_count)
        return true;
    uint32_t *slots = orr_memory_alloc(ids->memory, 2 * ids->slot_count * sizeof *slots);
    if (!slots)
        return false;
    orr_memory_free(ids->memory, ids->slots);
    ids->slots = slots;
    ids->slot_count *= 2;
    for (uint32_t id = 1; id < ids->count; id++)
        place(ids, id);
    return true;
}

static uint32_t find_or_add(struct orr__text_ids *ids, const char *text) {
    uint64_t hash = hash_text(text, strlen(text));
    size_t slot = (size_t)hash & (ids->slot_count - 1);
    for (; ids->slots[slot] != 0; slot = (slot + 1) & (ids->slot_count - 1)) {
        uint32_t id = ids->slots[slot];
        if (ids->hashes[id] == hash && strcmp(ids->texts[id], text) == 0)
            return id;
    }
    if (!make_room(ids))
        return 0;
    ids->texts[ids->count] = text;
    ids->hashes[ids->count] = hash;
    place(ids, ids->count);
    return ids->count++;
}

uint32_t orr__text_ids_of(struct orr__text_ids *ids, const char *text) {
    uintptr_t address = (uintptr_t)text;
    struct recent *recent = &ids->recent[(address >> 3 ^ address >> 15) % RECENT];
    if (recent->text != text) {
        uint32_t id = find_or_add(ids, text);
        if (id == 0)
            return 0;
        *recent = (struct recent){.text = text, .id = id};
    }
    return recent->id;
}

uint32_t orr__text_ids_count(const struct orr__text_ids *ids) {
    return ids->count;
}

const char *orr__text_ids_text(const struct orr__text_ids *ids, uint32_t id) {
    return ids->texts[id];
}
