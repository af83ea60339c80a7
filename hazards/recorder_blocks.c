/* Which buffers of a run share bytes, and how a program with blocks says so.
 *
 *     memory 3   [ a        ][ c ]          a and b have the same bytes: one block, b reuses a
 *                [ b        ]    [ d ]      c and d overlap in part: one block, d is an alias of c
 *
 * Buffers that overlap, directly or through others, are one block. */
#include <stdlib.h>

#include "hazards/recorder_internal.h"

/* A buffer by where it is. */
struct place {
    uint64_t base, end;
    uint32_t memory, buffer;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->memory != y->memory)
        return x->memory < y->memory ? -1 : 1;
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* Places [first, end) are one block. In the order of allocations each buffer gets the block of the
 * first one, or of the one before if all begin at the same byte: that one is free by then. */
static void join(const struct place *places, size_t first, size_t end, struct orr__blocks *blocks) {
    bool aligned = true;
    uint32_t oldest = places[first].buffer;
    for (size_t i = first; i < end; i++) {
        aligned &= places[i].base == places[first].base;
        oldest = places[i].buffer < oldest ? places[i].buffer : oldest;
    }
    uint32_t previous = ORR_NONE; /* places that begin at one byte are in order of allocations */
    for (size_t i = first; i < end; i++) {
        uint32_t buffer = places[i].buffer;
        blocks->order[i] = buffer;
        blocks->uses[buffer] = (struct orr__block_use){.origin = places[first].base,
                                                       .other = aligned            ? previous
                                                                : buffer == oldest ? ORR_NONE
                                                                                   : oldest,
                                                       .is_whole = aligned,
                                                       .first = first,
                                                       .count = end - first};
        previous = buffer;
    }
}

static void join_all(const struct place *places, size_t count, struct orr__blocks *blocks) {
    for (size_t first = 0; first < count;) {
        uint64_t reach = places[first].end;
        size_t end = first + 1;
        for (;
             end < count && places[end].memory == places[first].memory && places[end].base < reach;
             end++)
            reach = places[end].end > reach ? places[end].end : reach;
        join(places, first, end, blocks);
        first = end;
    }
}

enum orr_status orr__recorder_blocks(const struct orr_recorder *recorder,
                                     struct orr__blocks *out_blocks) {
    const struct orr_memory *memory = recorder->memory;
    size_t count = recorder->buffer_count;
    struct place *places = orr_memory_alloc(memory, count * sizeof *places);
    out_blocks->uses = orr_memory_alloc(memory, count * sizeof *out_blocks->uses);
    out_blocks->order = orr_memory_alloc(memory, count * sizeof *out_blocks->order);
    if (!places || !out_blocks->uses || !out_blocks->order) {
        orr_memory_free(memory, places);
        orr_memory_free(memory, out_blocks->uses);
        orr_memory_free(memory, out_blocks->order);
        *out_blocks = (struct orr__blocks){0};
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const struct orr__noted_buffer *buffer = &recorder->buffers[i];
        places[i] = (struct place){.base = buffer->base,
                                   .end = buffer->base + buffer->bytes,
                                   .memory = buffer->memory,
                                   .buffer = (uint32_t)i};
    }
    if (count > 0)
        qsort(places, count, sizeof *places, compare_places);
    join_all(places, count, out_blocks);
    orr_memory_free(memory, places);
    return ORR_OK;
}
