/* Rows of an event model's operators by their content: fillers add each operator once.
 *
 *     struct orr__operator_set set = {0};
 *     status = orr__operator_intern(events, &set, &item, &row);
 *     ...
 *     orr__operator_set_free(memory, &set);
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_OPERATOR_SET_H
#define ORR_ANALYZER_OPERATOR_SET_H

#include "analyzer/events.h"

/* Open addressing, a power of two of slots, at most half full. */
struct orr__operator_set {
    uint32_t *slots; /* row + 1, 0 empty; owned */
    size_t capacity, used;
};

/* The row of an operator equal to `item`, added to events->operators when new. ORR_NO_MEMORY. */
enum orr_status orr__operator_intern(struct orr_events *events, struct orr__operator_set *set,
                                     const struct orr_events_operator *item,
                                     uint32_t *out_row) ORR_MUST_CHECK;

/* True if name, kind, shape, dtype and unit agree. */
bool orr__operator_same(const struct orr_events_operator *a, const struct orr_events_operator *b);

/* Frees and empties. */
void orr__operator_set_free(const struct orr_memory *memory, struct orr__operator_set *set);

#endif
