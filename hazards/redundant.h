/* Waits, syncs, records and record_streams of a safe program that can go.
 *
 *     struct orr_redundant redundant;
 *     if (orr_redundant_find(program, 0, &redundant) != ORR_OK) ...     (no memory)
 *     for (i < redundant.count) ... redundant.items[i].op ...
 *     orr_redundant_clear(&redundant, program->memory);
 *
 * Two kinds, told apart. NOTHING_NEW: nobody learns anything from the call, so every order stays as
 * it was without it. NOT_NEEDED: some order goes with it, but no finding appears; that is true of
 * the program as it is, and may end with the next change to it.
 *
 * An operation is judged as the only one that goes. Those marked `together` can all go at once.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_REDUNDANT_H
#define ORR_HAZARDS_REDUNDANT_H

#include "hazards/stream_program.h"

enum orr_redundant_why { ORR_REDUNDANT_NOTHING_NEW, ORR_REDUNDANT_NOT_NEEDED };

struct orr_redundant_item {
    uint32_t op;
    enum orr_redundant_why why;
    bool together;
};

struct orr_redundant {
    struct orr_redundant_item *items; /* in order of operations; owned */
    uint32_t count;
    bool is_safe; /* the program has no finding and is well-formed; else nothing was looked for */
    uint32_t untried; /* operations of which it was not found out whether a finding needs them */
    size_t capacity;
};

/* Orders only: what orr_redundant_find looks at. */
bool orr_redundant_is_candidate(const struct orr_stream_program *program, uint32_t op);

/* Finds them. NOTHING_NEW takes one check of the program; NOT_NEEDED one or two per remaining
 * operation, in order, until they have taken `steps_max` operations in all; 0: the default, 50
 * million, some seconds. Errors: ORR_NO_MEMORY. */
enum orr_status orr_redundant_find(const struct orr_stream_program *program, uint64_t steps_max,
                                   struct orr_redundant *out_redundant) ORR_MUST_CHECK;
/* Frees the items. */
void orr_redundant_clear(struct orr_redundant *redundant, const struct orr_memory *memory);

/* "nothing-new", "not-needed". */
const char *orr_redundant_why_text(enum orr_redundant_why why);

#endif
