/* Vector clocks that share what they have in common: how much of every actor's work is known to be
 * complete, for runs with many actors whose clocks are kept at many points.
 *
 *     clock --> root [ p0 | p1 | -- | p3 ]      a root and its chunks are counted; a clock that is
 *                      |    |         |         written to first gets its own copy of what others
 *                   64 counts each              hold too. -- : a chunk of zeros
 *
 * Keeping a clock is one increment; joining clocks skips the chunks that both share, and where one
 * side knows more in all of a chunk it is shared from then on. Actors are numbered from 0; counts
 * are at most ORR__CLOCK_COUNT_MAX.
 *
 *     struct orr__shared_clock now = {0}, then = orr__shared_clock_keep(&now);
 *     if (!orr__shared_clock_raise(&pool, &now, actor, 5)) ...     (no memory)
 *     orr__shared_clock_drop(&pool, &then);
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_SHARED_CLOCK_H
#define ORR_HAZARDS_SHARED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/memory.h"

enum {
    ORR__CLOCK_CHUNK = 64,
    ORR__CLOCK_ROOT_SIZES = 20, /* of roots: 1, 2, 4, ... chunks */
    ORR__CLOCK_COUNT_MAX = INT32_MAX
};

struct orr__clock_chunk {
    int32_t counts[ORR__CLOCK_CHUNK];
    uint32_t references;
    struct orr__clock_chunk *next; /* free ones */
};

struct orr__clock_root {
    uint32_t references, size; /* size: room for 1 << size chunks */
    struct orr__clock_root *next;
    struct orr__clock_chunk *chunks[]; /* NULL: zeros */
};

/* All zero: every actor's count is 0. */
struct orr__shared_clock {
    struct orr__clock_root *root;
};

struct orr__clock_slab;

/* Where roots and chunks come from. `bytes` is what is in use now. */
struct orr__clock_pool {
    const struct orr_memory *memory;
    struct orr__clock_chunk *free_chunks;
    struct orr__clock_root *free_roots[ORR__CLOCK_ROOT_SIZES];
    struct orr__clock_slab *slabs;
    uint64_t bytes;
};

/* `memory` is borrowed until clear. */
void orr__clock_pool_init(struct orr__clock_pool *pool, const struct orr_memory *memory);
/* Frees what the pool has. All clocks have been dropped. */
void orr__clock_pool_clear(struct orr__clock_pool *pool);

/* Another clock of the same content, to be dropped too. */
static inline struct orr__shared_clock orr__shared_clock_keep(struct orr__shared_clock clock) {
    if (clock.root)
        clock.root->references++;
    return clock;
}
/* Lets go; the clock is zero again. */
void orr__shared_clock_drop(struct orr__clock_pool *pool, struct orr__shared_clock *clock);

static inline int32_t orr__shared_clock_get(const struct orr__shared_clock *clock, uint32_t actor) {
    uint32_t index = actor / ORR__CLOCK_CHUNK;
    if (!clock->root || index >> clock->root->size)
        return 0;
    const struct orr__clock_chunk *chunk = clock->root->chunks[index];
    return chunk ? chunk->counts[actor % ORR__CLOCK_CHUNK] : 0;
}

/* Makes an actor's count at least `count`. False without memory: nothing has changed then. */
bool orr__shared_clock_raise(struct orr__clock_pool *pool, struct orr__shared_clock *clock,
                             uint32_t actor, int32_t count);

/* Takes count by count the larger of the two; *changed is set to true if any grew and left alone
 * otherwise. False without memory: the clock is then somewhere between the two. */
bool orr__shared_clock_join(struct orr__clock_pool *pool, struct orr__shared_clock *clock,
                            const struct orr__shared_clock *other, bool *changed);

#endif
