#include "hazards/id_table.h"

#include <assert.h>

enum { SIZE_MIN = 64 };

/* Fibonacci hashing: the upper bits of the product with 2^64 / phi. */
static size_t slot_of(const struct orr__id_table *table, uint64_t id) {
    return (size_t)((id * 0x9e3779b97f4a7c15u) >> 32) & (table->size - 1);
}

static size_t find_slot(const struct orr__id_table *table, uint64_t id) {
    size_t i = slot_of(table, id);
    while (table->entries[i].id != 0 && table->entries[i].id != id)
        i = (i + 1) & (table->size - 1);
    return i;
}

void *orr__id_table_find(const struct orr__id_table *table, uint64_t id) {
    return table->size > 0 ? table->entries[find_slot(table, id)].object : NULL;
}

static enum orr_status grow(struct orr__id_table *table, const struct orr_memory *memory) {
    struct orr__id_table larger = {.size = table->size > 0 ? 2 * table->size : SIZE_MIN,
                                   .count = table->count};
    if (larger.size > UINT32_MAX)
        return ORR_NO_MEMORY;
    larger.entries = orr_memory_alloc(memory, larger.size * sizeof *larger.entries);
    if (!larger.entries)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < table->size; i++)
        if (table->entries[i].id != 0)
            larger.entries[find_slot(&larger, table->entries[i].id)] = table->entries[i];
    orr_memory_free(memory, table->entries);
    *table = larger;
    return ORR_OK;
}

enum orr_status orr__id_table_add(struct orr__id_table *table, const struct orr_memory *memory,
                                  uint64_t id, void *object) {
    assert(id != 0 && object);
    if (2 * (table->count + 1) > table->size && grow(table, memory) != ORR_OK)
        return ORR_NO_MEMORY;
    struct orr__id_entry *entry = &table->entries[find_slot(table, id)];
    assert(entry->id == 0);
    *entry = (struct orr__id_entry){.id = id, .object = object};
    table->count++;
    return ORR_OK;
}

void *orr__id_table_remove(struct orr__id_table *table, uint64_t id) {
    if (table->size == 0)
        return NULL;
    size_t mask = table->size - 1, hole = find_slot(table, id);
    void *object = table->entries[hole].object;
    if (!object)
        return NULL;
    table->count--;
    /* Later entries of the same run move up, unless that would put them before their own slot. */
    for (size_t i = (hole + 1) & mask; table->entries[i].id != 0; i = (i + 1) & mask) {
        size_t home = slot_of(table, table->entries[i].id);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->entries[hole] = table->entries[i];
            hole = i;
        }
    }
    table->entries[hole] = (struct orr__id_entry){0};
    return object;
}

void orr__id_table_clear(struct orr__id_table *table, const struct orr_memory *memory) {
    orr_memory_free(memory, table->entries);
    *table = (struct orr__id_table){0};
}
