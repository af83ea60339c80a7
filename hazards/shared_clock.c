#include "hazards/shared_clock.h"

#include <assert.h>
#include <string.h>

enum { SLAB_CHUNKS_MIN = 4, SLAB_CHUNKS_MAX = 256 };

struct orr__clock_slab {
    struct orr__clock_slab *next;
    size_t count;
    struct orr__clock_chunk *chunks;
};

void orr__clock_pool_init(struct orr__clock_pool *pool, const struct orr_memory *memory) {
    *pool = (struct orr__clock_pool){.memory = memory};
}

void orr__clock_pool_clear(struct orr__clock_pool *pool) {
    for (int i = 0; i < ORR__CLOCK_ROOT_SIZES; i++)
        while (pool->free_roots[i]) {
            struct orr__clock_root *root = pool->free_roots[i];
            pool->free_roots[i] = root->next;
            orr_memory_free(pool->memory, root);
        }
    while (pool->slabs) {
        struct orr__clock_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        orr_memory_free_lines(pool->memory, slab->chunks);
        orr_memory_free(pool->memory, slab);
    }
    assert(pool->bytes == 0);
    pool->free_chunks = NULL;
}

/* --- chunks --- */

static bool add_slab(struct orr__clock_pool *pool) {
    struct orr__clock_slab *slab = orr_memory_alloc(pool->memory, sizeof *slab);
    if (!slab)
        return false;
    slab->count = pool->slabs ? 2 * pool->slabs->count : SLAB_CHUNKS_MIN;
    if (slab->count > SLAB_CHUNKS_MAX)
        slab->count = SLAB_CHUNKS_MAX;
    slab->chunks = orr_memory_take_lines(pool->memory, slab->count * sizeof *slab->chunks);
    if (!slab->chunks) {
        orr_memory_free(pool->memory, slab);
        return false;
    }
    for (size_t i = slab->count; i-- > 0;) {
        slab->chunks[i].next = pool->free_chunks;
        pool->free_chunks = &slab->chunks[i];
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    return true;
}

/* Its counts are whatever they were. */
static struct orr__clock_chunk *new_chunk(struct orr__clock_pool *pool) {
    if (!pool->free_chunks && !add_slab(pool))
        return NULL;
    struct orr__clock_chunk *chunk = pool->free_chunks;
    pool->free_chunks = chunk->next;
    chunk->references = 1;
    pool->bytes += sizeof *chunk;
    return chunk;
}

static void drop_chunk(struct orr__clock_pool *pool, struct orr__clock_chunk *chunk) {
    assert(chunk->references > 0);
    if (--chunk->references > 0)
        return;
    chunk->next = pool->free_chunks;
    pool->free_chunks = chunk;
    pool->bytes -= sizeof *chunk;
}

/* --- roots --- */

static size_t root_bytes(uint32_t size) {
    return sizeof(struct orr__clock_root) + ((size_t)1 << size) * sizeof(struct orr__clock_chunk *);
}

static struct orr__clock_root *new_root(struct orr__clock_pool *pool, uint32_t size) {
    assert(size < ORR__CLOCK_ROOT_SIZES);
    struct orr__clock_root *root = pool->free_roots[size];
    if (root)
        pool->free_roots[size] = root->next;
    else
        root = orr_memory_alloc(pool->memory, root_bytes(size));
    if (!root)
        return NULL;
    memset(root, 0, root_bytes(size));
    root->references = 1;
    root->size = size;
    pool->bytes += root_bytes(size);
    return root;
}

void orr__shared_clock_drop(struct orr__clock_pool *pool, struct orr__shared_clock *clock) {
    struct orr__clock_root *root = clock->root;
    clock->root = NULL;
    if (!root)
        return;
    assert(root->references > 0);
    if (--root->references > 0)
        return;
    for (size_t i = 0; i < (size_t)1 << root->size; i++)
        if (root->chunks[i])
            drop_chunk(pool, root->chunks[i]);
    root->next = pool->free_roots[root->size];
    pool->free_roots[root->size] = root;
    pool->bytes -= root_bytes(root->size);
}

/* Makes the root the clock's alone, with room for `count` chunks. */
static bool own_root(struct orr__clock_pool *pool, struct orr__shared_clock *clock,
                     uint32_t count) {
    struct orr__clock_root *old = clock->root;
    uint32_t size = old ? old->size : 0;
    while (count > (uint32_t)1 << size)
        size++;
    if (old && old->references == 1 && old->size == size)
        return true;
    struct orr__clock_root *root = new_root(pool, size);
    if (!root)
        return false;
    for (size_t i = 0; old && i < (size_t)1 << old->size; i++)
        if ((root->chunks[i] = old->chunks[i]) != NULL)
            root->chunks[i]->references++;
    orr__shared_clock_drop(pool, clock);
    clock->root = root;
    return true;
}

/* Makes a chunk of an owned root the clock's alone. */
static bool own_chunk(struct orr__clock_pool *pool, struct orr__clock_chunk **chunk) {
    struct orr__clock_chunk *old = *chunk;
    if (old && old->references == 1)
        return true;
    struct orr__clock_chunk *copy = new_chunk(pool);
    if (!copy)
        return false;
    if (old) {
        memcpy(copy->counts, old->counts, sizeof copy->counts);
        drop_chunk(pool, old);
    } else {
        memset(copy->counts, 0, sizeof copy->counts);
    }
    *chunk = copy;
    return true;
}

bool orr__shared_clock_raise(struct orr__clock_pool *pool, struct orr__shared_clock *clock,
                             uint32_t actor, int32_t count) {
    if (orr__shared_clock_get(clock, actor) >= count)
        return true;
    uint32_t index = actor / ORR__CLOCK_CHUNK;
    if (!own_root(pool, clock, index + 1) || !own_chunk(pool, &clock->root->chunks[index]))
        return false;
    clock->root->chunks[index]->counts[actor % ORR__CLOCK_CHUNK] = count;
    return true;
}

/* --- joins --- */

/* Which side knows more of something: bit 0: b does, bit 1: a does. */
static int compare(const struct orr__clock_chunk *a, const struct orr__clock_chunk *b) {
    int32_t b_more = 0, a_more = 0;
    for (int i = 0; i < ORR__CLOCK_CHUNK; i++) {
        b_more |= b->counts[i] > a->counts[i] ? -1 : 0;
        a_more |= a->counts[i] > b->counts[i] ? -1 : 0;
    }
    return (b_more & 1) | (a_more & 2);
}

static bool join_chunk(struct orr__clock_pool *pool, struct orr__shared_clock *clock,
                       uint32_t index, struct orr__clock_chunk *other, bool *changed) {
    bool has_room = clock->root && !(index >> clock->root->size);
    struct orr__clock_chunk *mine = has_room ? clock->root->chunks[index] : NULL;
    if (mine == other)
        return true;
    int difference = mine ? compare(mine, other) : 1;
    if (!(difference & 1))
        return true;
    if (!own_root(pool, clock, index + 1))
        return false;
    *changed = true;
    struct orr__clock_chunk **chunk = &clock->root->chunks[index];
    if (!(difference & 2)) {
        other->references++;
        if (*chunk)
            drop_chunk(pool, *chunk);
        *chunk = other;
        return true;
    }
    if (!own_chunk(pool, chunk))
        return false;
    int32_t *counts = (*chunk)->counts;
    for (int i = 0; i < ORR__CLOCK_CHUNK; i++)
        counts[i] = counts[i] > other->counts[i] ? counts[i] : other->counts[i];
    return true;
}

bool orr__shared_clock_join(struct orr__clock_pool *pool, struct orr__shared_clock *clock,
                            const struct orr__shared_clock *other, bool *changed) {
    struct orr__clock_root *root = other->root;
    if (!root || root == clock->root)
        return true;
    if (!clock->root) {
        *clock = orr__shared_clock_keep(*other);
        *changed = true;
        return true;
    }
    for (uint32_t i = 0; i < (uint32_t)1 << root->size; i++)
        if (root->chunks[i] && !join_chunk(pool, clock, i, root->chunks[i], changed))
            return false;
    return true;
}
