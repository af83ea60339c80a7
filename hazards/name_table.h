/* Small tables of texts with numbers from 0, in order of first use. For programs of a few
 * operations, of which thousands are made a second; runtime/names.h is for one run, whose table
 * takes 160 KB from the start.
 *
 *     struct orr__name_table table = {0};
 *     orr__name_table_add(&table, &memory, "s0", &id);
 *     orr__name_table_clear(&table, &memory);
 *
 * Threads: one at a time while it changes; immutable afterwards, for any number of readers. */
#ifndef ORR_HAZARDS_NAME_TABLE_H
#define ORR_HAZARDS_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/status.h"

/* All zero: empty. */
struct orr__name_table {
    char **texts;                /* count of them, each a block of its own */
    uint32_t *slots;             /* hash table of numbers + 1, 0 = free; NULL while there are few */
    size_t capacity, slot_count; /* slot_count: a power of two, at least twice the texts */
    uint32_t count;
};

/* The number of a text, copied when it is new. ORR_NO_MEMORY changes nothing. */
enum orr_status orr__name_table_add(struct orr__name_table *table, const struct orr_memory *memory,
                                    const char *text, uint32_t *out_id) ORR_MUST_CHECK;
/* The number of a text that is there, UINT32_MAX if it is not. */
uint32_t orr__name_table_find(const struct orr__name_table *table, const char *text);
/* Frees everything; the table is empty again. */
void orr__name_table_clear(struct orr__name_table *table, const struct orr_memory *memory);

#endif
