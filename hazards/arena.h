/* Blocks that are freed together: for tables that are built once and read for a while.
 *
 *     struct orr__arena arena = {.memory = &memory};
 *     uint32_t *counts = orr__arena_alloc(&arena, n, sizeof *counts);
 *     if (!counts) ...                       (no memory; everything else stays)
 *     orr__arena_clear(&arena);
 *
 * Threads: one at a time. */
#ifndef ORR_HAZARDS_ARENA_H
#define ORR_HAZARDS_ARENA_H

#include <stddef.h>

#include "runtime/memory.h"

struct orr__arena {
    const struct orr_memory *memory; /* borrowed */
    struct orr__arena_block *last;
};

/* `count` zeroed items (room for one at least), aligned to 16 bytes, or NULL. Borrowed until the
 * arena is cleared. */
void *orr__arena_alloc(struct orr__arena *arena, size_t count, size_t item_size);
/* Frees everything; the arena is empty again. */
void orr__arena_clear(struct orr__arena *arena);

#endif
