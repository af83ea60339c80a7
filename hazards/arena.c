#include "hazards/arena.h"

#include <stdint.h>

struct orr__arena_block {
    struct orr__arena_block *before;
    _Alignas(16) char bytes[];
};

void *orr__arena_alloc(struct orr__arena *arena, size_t count, size_t item_size) {
    if (count > (SIZE_MAX - sizeof(struct orr__arena_block) - item_size) / item_size)
        return NULL;
    size_t size = sizeof(struct orr__arena_block) + (count + 1) * item_size;
    struct orr__arena_block *block = orr_memory_alloc(arena->memory, size);
    if (!block)
        return NULL;
    block->before = arena->last;
    arena->last = block;
    return block->bytes;
}

void orr__arena_clear(struct orr__arena *arena) {
    while (arena->last) {
        struct orr__arena_block *block = arena->last;
        arena->last = block->before;
        orr_memory_free(arena->memory, block);
    }
}
