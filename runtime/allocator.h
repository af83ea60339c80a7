/* Blocks and segments: the bookkeeping of a caching device allocator, without any memory behind it.
 *
 * A segment is one piece of device memory; it is cut into blocks, which are in use, held or free.
 * Free blocks are kept per stream (a pool) and size class, and found by best fit. The caller
 * creates the memory behind a segment and decides when a freed block may be handed out again; this
 * file only cuts, finds and merges. Policy and sizes are those of PyTorch's CUDACachingAllocator
 * (c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer,
 * kMinLargeAlloc, kRoundLarge, should_split).
 *
 *     struct orr__allocator *allocator;
 *     struct orr__pool *pool;
 *     struct orr__block *block;
 *     orr__allocator_create(&memory, 80ull << 30, &allocator);
 *     orr__pool_create(allocator, stream, &pool);
 *     if (orr__pool_take(pool, bytes, &block) == ORR_NOT_READY) {
 *         orr__pool_add_segment(pool, bytes, orr__segment_bytes(bytes), &segment);
 *         orr__pool_take(pool, bytes, &block);
 *     }
 *     ...
 *     orr__block_put(block);
 *
 * Always: reserved = in use + held + free, blocks of a segment are adjacent and cover it, and no
 * two neighbours are both free.
 *
 * Threads: one at a time. */
#ifndef ORR_RUNTIME_ALLOCATOR_H
#define ORR_RUNTIME_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/memory.h"

enum {
    ORR__BLOCK_ALIGN = 512,        /* sizes and offsets of blocks are multiples */
    ORR__SMALL_MAX = 1 << 20,      /* larger blocks come from large segments */
    ORR__SMALL_SEGMENT = 2 << 20,  /* segment of small blocks */
    ORR__LARGE_SEGMENT = 20 << 20, /* segment of large blocks ... */
    ORR__LARGE_OWN_MIN = 10 << 20, /* ... up to this; then a segment of their own ... */
    ORR__LARGE_OWN_ROUND = 2 << 20 /* ... of a multiple of this */
};

struct orr__allocator;
struct orr__pool;
struct orr__segment;

enum orr__block_state { ORR__BLOCK_FREE, ORR__BLOCK_USED, ORR__BLOCK_HELD };

struct orr__block {
    struct orr__segment *segment;
    uint64_t offset, bytes;            /* in the segment */
    uint64_t requested;                /* as asked for, while in use */
    struct orr__block *before, *after; /* neighbours in the segment, by address */
    struct orr__block *left, *right;   /* tree of free blocks; `right` also links spare ones */
    uint32_t priority;                 /* in the tree */
    enum orr__block_state state;
    bool fresh; /* none of its bytes has been in use yet */
    /* What of it was freed last, for adversarial allocators: the number of the free, where. */
    uint64_t freed, freed_offset;
};

struct orr__segment {
    struct orr__pool *pool;
    struct orr__segment *previous, *next; /* of the allocator, in order of creation */
    struct orr__block *first;
    uint64_t serial; /* from 1, never reused */
    uint64_t bytes;
    void *data;       /* the caller's: host pointer, NULL if none */
    void *history;    /* the caller's */
    uint32_t memory;  /* the caller's: id of the memory behind it */
    uint32_t pending; /* the caller's: freed buffers whose users have not retired */
    bool large;
};

struct orr__pool {
    struct orr__allocator *allocator;
    struct orr__pool *next;     /* of the allocator */
    struct orr__block *free[2]; /* trees by (bytes, segment, offset): small, large */
    uint32_t stream;            /* the caller's */
};

struct orr__allocator {
    const struct orr_memory *memory;
    uint64_t capacity, reserved;
    uint64_t used, held, free; /* bytes of blocks by state */
    uint64_t requested;        /* bytes asked for of the blocks in use */
    uint64_t used_peak, reserved_peak;
    uint64_t reserved_at_peak;        /* when `used` first was used_peak */
    uint64_t take_count, reuse_count; /* takes; those of bytes that had been in use before */
    struct orr__pool *pools;
    struct orr__segment *first, *last;
    struct orr__block *spare;
    struct orr__segment *spare_segments; /* linked by `next`, as are the pools */
    struct orr__pool *spare_pools;
    uint32_t random;  /* state of the priorities' generator */
    bool adversarial; /* what was freed last is handed out first; set before the first take */
    uint64_t free_count;
    uint64_t *serial; /* where serials of segments are counted */
};

/* `serial` is the counter that segments take their serials from, shared by all allocators of a
 * runtime; it and `memory` are borrowed until destroy. */
enum orr_status orr__allocator_create(const struct orr_memory *memory, uint64_t capacity,
                                      uint64_t *serial,
                                      struct orr__allocator **out_allocator) ORR_MUST_CHECK;
/* Frees pools, segments and blocks, whatever their state. Nulls; accepts NULL. */
void orr__allocator_destroy(struct orr__allocator **allocator);
/* As new, with that capacity; keeps the structs of pools, segments and blocks for what comes. */
void orr__allocator_rewind(struct orr__allocator *allocator, uint64_t capacity);

/* Blocks of one stream. Owned by the allocator. */
enum orr_status orr__pool_create(struct orr__allocator *allocator, uint32_t stream,
                                 struct orr__pool **out_pool) ORR_MUST_CHECK;

/* `bytes` (at least 1) rounded up to whole blocks; UINT64_MAX rounded down if there is no such. */
uint64_t orr__block_bytes(uint64_t bytes);
/* Size of the segment that a request of `bytes` prefers. */
uint64_t orr__segment_bytes(uint64_t bytes);
/* True if a segment of `bytes` may be added within the capacity. */
bool orr__allocator_fits(const struct orr__allocator *allocator, uint64_t bytes);

/* The smallest free block that holds `bytes`, cut to size where the policy says so, and in use from
 * now on; of an adversarial allocator the bytes that were freed last, of a block that is cut before
 * and behind them. ORR_NOT_READY if no free block is large enough. */
enum orr_status orr__pool_take(struct orr__pool *pool, uint64_t bytes,
                               struct orr__block **out_block) ORR_MUST_CHECK;

/* A new segment of `segment_bytes` for requests like `bytes`, all of it free. */
enum orr_status orr__pool_add_segment(struct orr__pool *pool, uint64_t bytes,
                                      uint64_t segment_bytes,
                                      struct orr__segment **out_segment) ORR_MUST_CHECK;

/* A block in use is no longer, but must not be handed out yet. */
void orr__block_hold(struct orr__block *block);
/* Frees a block in use or held, and merges it with free neighbours. Never fails. */
void orr__block_put(struct orr__block *block);

/* True if nothing of the segment is in use or held. */
bool orr__segment_is_free(const struct orr__segment *segment);
/* Forgets a segment that is free. */
void orr__segment_remove(struct orr__segment *segment);

/* Where a block's bytes are, as one number that is never reused for others: serial of the segment
 * << 32 | offset / 512. */
uint64_t orr__block_place(const struct orr__block *block);

/* Walks everything and asserts what is "always" so. For tests. */
void orr__allocator_check(const struct orr__allocator *allocator);

#endif
