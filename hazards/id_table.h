/* From ids to objects: a hash table whose keys are numbers that somebody gave out.
 *
 * Ids are not 0. Objects are borrowed. The order of its entries depends on nothing but the ids and
 * the order of calls; it is still no order to show to anybody.
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_ID_TABLE_H
#define ORR_HAZARDS_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/status.h"

struct orr__id_entry {
    uint64_t id; /* 0: free */
    void *object;
};

/* All zero: empty. */
struct orr__id_table {
    struct orr__id_entry *entries;
    size_t size, count; /* size: 0 or a power of two, at least twice the count */
};

/* The object of an id, or NULL. */
void *orr__id_table_find(const struct orr__id_table *table, uint64_t id);
/* Adds an id that is not there. ORR_NO_MEMORY changes nothing. */
enum orr_status orr__id_table_add(struct orr__id_table *table, const struct orr_memory *memory,
                                  uint64_t id, void *object) ORR_MUST_CHECK;
/* Removes an id and returns its object, or NULL if it was not there. */
void *orr__id_table_remove(struct orr__id_table *table, uint64_t id);
/* Frees the table; the objects are the caller's. */
void orr__id_table_clear(struct orr__id_table *table, const struct orr_memory *memory);

#endif
