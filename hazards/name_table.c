#include "hazards/name_table.h"

#include <string.h>

enum { FEW = 8, NAMES_MAX = 1 << 28 };

/* FNV-1a, 32 bits (Fowler, Noll, Vo: offset basis 2166136261, prime 16777619). */
static uint32_t hash_text(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash ^ (hash >> 15);
}

/* The slot that holds the text, or the free one where it belongs. */
static uint32_t *find_slot(const struct orr__name_table *table, const char *text) {
    size_t mask = table->slot_count - 1;
    size_t i = hash_text(text) & mask;
    while (table->slots[i] != 0 && strcmp(table->texts[table->slots[i] - 1], text) != 0)
        i = (i + 1) & mask;
    return &table->slots[i];
}

uint32_t orr__name_table_find(const struct orr__name_table *table, const char *text) {
    if (table->slots)
        return *find_slot(table, text) - 1; /* 0 - 1: UINT32_MAX */
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->texts[i], text) == 0)
            return i;
    return UINT32_MAX;
}

/* Slots for one more text than there are, once a search through all would take long. */
static enum orr_status grow_slots(struct orr__name_table *table, const struct orr_memory *memory) {
    if (table->count < FEW || 2 * ((size_t)table->count + 1) <= table->slot_count)
        return ORR_OK;
    size_t count = table->slots ? 2 * table->slot_count : 4 * FEW;
    uint32_t *slots = orr_memory_alloc(memory, count * sizeof *slots);
    if (!slots)
        return ORR_NO_MEMORY;
    orr_memory_free(memory, table->slots);
    table->slots = slots;
    table->slot_count = count;
    for (uint32_t i = 0; i < table->count; i++)
        *find_slot(table, table->texts[i]) = i + 1;
    return ORR_OK;
}

enum orr_status orr__name_table_add(struct orr__name_table *table, const struct orr_memory *memory,
                                    const char *text, uint32_t *out_id) {
    *out_id = orr__name_table_find(table, text);
    if (*out_id != UINT32_MAX)
        return ORR_OK;
    enum orr_status status =
        orr_memory_grow(memory, &table->texts, &table->capacity, (size_t)table->count + 1,
                        sizeof *table->texts, NAMES_MAX);
    if (status == ORR_OK)
        status = grow_slots(table, memory);
    if (status != ORR_OK)
        return status;
    char *copy = orr_memory_text(memory, text, strlen(text));
    if (!copy)
        return ORR_NO_MEMORY;
    *out_id = table->count;
    table->texts[table->count++] = copy;
    if (table->slots)
        *find_slot(table, copy) = table->count;
    return ORR_OK;
}

void orr__name_table_clear(struct orr__name_table *table, const struct orr_memory *memory) {
    for (uint32_t i = 0; i < table->count; i++)
        orr_memory_free(memory, table->texts[i]);
    orr_memory_free(memory, table->texts);
    orr_memory_free(memory, table->slots);
    *table = (struct orr__name_table){0};
}
