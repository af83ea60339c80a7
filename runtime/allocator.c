/* Blocks and segments.
 *
 *     segment  | used | free    | held | free        |      before/after: neighbours, by address
 *                        ^                 ^
 *     pool     free[large] = treap by (bytes, serial of the segment, offset)
 *
 * A treap is a search tree by key and a heap by priority; priorities come from a generator, so its
 * depth is logarithmic whatever the order of calls, and the same in every run. */
#include "runtime/allocator.h"

#include <assert.h>
#include <stddef.h>

/* --- the tree of free blocks --- */

static bool is_less(const struct orr__block *a, const struct orr__block *b) {
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    if (a->segment != b->segment)
        return a->segment->serial < b->segment->serial;
    return a->offset < b->offset;
}

static void tree_insert(struct orr__block **root, struct orr__block *block) {
    while (*root && (*root)->priority >= block->priority)
        root = is_less(block, *root) ? &(*root)->left : &(*root)->right;
    struct orr__block *node = *root;
    struct orr__block **less = &block->left, **more = &block->right;
    *root = block;
    while (node) { /* what was here is split at the block's key */
        if (is_less(node, block)) {
            *less = node;
            less = &node->right;
            node = node->right;
        } else {
            *more = node;
            more = &node->left;
            node = node->left;
        }
    }
    *less = NULL;
    *more = NULL;
}

static void tree_remove(struct orr__block **root, struct orr__block *block) {
    while (*root != block) {
        assert(*root);
        root = is_less(block, *root) ? &(*root)->left : &(*root)->right;
    }
    struct orr__block *less = block->left, *more = block->right;
    while (less && more) {
        if (less->priority >= more->priority) {
            *root = less;
            root = &less->right;
            less = less->right;
        } else {
            *root = more;
            root = &more->left;
            more = more->left;
        }
    }
    *root = less ? less : more;
    block->left = NULL;
    block->right = NULL;
}

/* The first block in order of the tree that has at least `bytes`. */
static struct orr__block *tree_find(struct orr__block *node, uint64_t bytes) {
    struct orr__block *best = NULL;
    while (node) {
        if (node->bytes >= bytes) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

/* Of those, the one in which something was freed last. Looks at all of them. */
static struct orr__block *tree_find_freed(struct orr__block *node, uint64_t bytes) {
    struct orr__block *best = NULL;
    while (node) { /* recursion only to the left: depth is logarithmic */
        if (node->bytes >= bytes) {
            struct orr__block *left = tree_find_freed(node->left, bytes);
            best = !best || node->freed > best->freed ? node : best;
            best = left && left->freed > best->freed ? left : best;
        }
        node = node->right;
    }
    return best;
}

static struct orr__block **tree_of(const struct orr__segment *segment) {
    return &segment->pool->free[segment->large];
}

/* xorshift32 (Marsaglia, "Xorshift RNGs", 2003). */
static uint32_t next_priority(struct orr__allocator *allocator) {
    uint32_t x = allocator->random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    allocator->random = x;
    return x;
}

/* --- blocks --- */

/* Conservation, after every change: what is taken from the device is in use, held or free. */
static void assert_balanced(const struct orr__allocator *allocator) {
    assert(allocator->reserved == allocator->used + allocator->held + allocator->free);
    assert(allocator->reserved <= allocator->capacity);
    assert(allocator->requested <= allocator->used);
    (void)allocator;
}

static struct orr__block *new_block(struct orr__allocator *allocator) {
    struct orr__block *block = allocator->spare;
    if (block) {
        allocator->spare = block->right;
        *block = (struct orr__block){0};
        return block;
    }
    return orr_memory_alloc(allocator->memory, sizeof *block);
}

static void spare_block(struct orr__allocator *allocator, struct orr__block *block) {
    *block = (struct orr__block){.right = allocator->spare};
    allocator->spare = block;
}

static void make_free(struct orr__block *block) {
    struct orr__allocator *allocator = block->segment->pool->allocator;
    block->state = ORR__BLOCK_FREE;
    block->priority = next_priority(allocator);
    allocator->free += block->bytes;
    tree_insert(tree_of(block->segment), block);
}

static void make_not_free(struct orr__block *block) {
    assert(block->state == ORR__BLOCK_FREE);
    block->segment->pool->allocator->free -= block->bytes;
    tree_remove(tree_of(block->segment), block);
}

/* Cuts what is beyond `bytes` off into `rest`, which becomes a free block. */
static void split(struct orr__block *block, uint64_t bytes, struct orr__block *rest) {
    assert(bytes % ORR__BLOCK_ALIGN == 0 && bytes < block->bytes);
    rest->segment = block->segment;
    rest->offset = block->offset + bytes;
    rest->bytes = block->bytes - bytes;
    rest->fresh = block->fresh;
    rest->freed = block->freed;
    rest->freed_offset = block->freed_offset;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    make_free(rest);
}

/* Joins a block, which is in no tree, with a free neighbour; the left one of them stays. */
static struct orr__block *merge(struct orr__block *left, struct orr__block *right) {
    assert(left->offset + left->bytes == right->offset);
    left->bytes += right->bytes;
    left->fresh = left->fresh && right->fresh;
    if (right->freed > left->freed) {
        left->freed = right->freed;
        left->freed_offset = right->freed_offset;
    }
    left->after = right->after;
    if (left->after)
        left->after->before = left;
    spare_block(left->segment->pool->allocator, right);
    return left;
}

uint64_t orr__block_bytes(uint64_t bytes) {
    uint64_t align = ORR__BLOCK_ALIGN;
    if (bytes > UINT64_MAX - (align - 1))
        return UINT64_MAX / align * align;
    return (bytes + align - 1) / align * align;
}

static bool is_large(uint64_t block_bytes) {
    return block_bytes > ORR__SMALL_MAX;
}

static bool should_split(uint64_t rest, bool large) {
    return large ? rest > ORR__SMALL_MAX : rest >= ORR__BLOCK_ALIGN;
}

/* The smallest block that holds `wanted`, cut to size. */
static enum orr_status take_smallest(struct orr__pool *pool, uint64_t wanted,
                                     struct orr__block **out_block) {
    bool large = is_large(wanted);
    struct orr__block *block = tree_find(pool->free[large], wanted);
    if (!block)
        return ORR_NOT_READY;
    struct orr__block *rest = NULL;
    if (should_split(block->bytes - wanted, large)) {
        rest = new_block(pool->allocator);
        if (!rest)
            return ORR_NO_MEMORY;
    }
    make_not_free(block);
    if (rest)
        split(block, wanted, rest);
    *out_block = block;
    return ORR_OK;
}

/* Where in the block `wanted` bytes cover what was freed last, from its beginning if they can. */
static uint64_t cut_before(const struct orr__block *block, uint64_t wanted) {
    if (block->freed == 0 || block->freed_offset < block->offset)
        return 0;
    uint64_t before = block->freed_offset - block->offset, most = block->bytes - wanted;
    return before < most ? before : most;
}

/* What was freed last: the block is cut before and behind. */
static enum orr_status take_freed(struct orr__pool *pool, uint64_t wanted,
                                  struct orr__block **out_block) {
    struct orr__allocator *allocator = pool->allocator;
    struct orr__block *block = tree_find_freed(pool->free[is_large(wanted)], wanted);
    if (!block)
        return ORR_NOT_READY;
    uint64_t before = cut_before(block, wanted), behind = block->bytes - before - wanted;
    struct orr__block *middle = before > 0 ? new_block(allocator) : NULL;
    struct orr__block *rest = behind > 0 ? new_block(allocator) : NULL;
    if ((before > 0 && !middle) || (behind > 0 && !rest)) {
        if (middle)
            spare_block(allocator, middle);
        if (rest)
            spare_block(allocator, rest);
        return ORR_NO_MEMORY;
    }
    make_not_free(block);
    if (middle) {
        split(block, before, middle);
        make_not_free(middle);
        make_free(block);
        block = middle;
    }
    if (rest)
        split(block, wanted, rest);
    *out_block = block;
    return ORR_OK;
}

enum orr_status orr__pool_take(struct orr__pool *pool, uint64_t bytes,
                               struct orr__block **out_block) {
    assert(bytes > 0);
    *out_block = NULL;
    struct orr__allocator *allocator = pool->allocator;
    uint64_t wanted = orr__block_bytes(bytes);
    struct orr__block *block = NULL;
    enum orr_status status = allocator->adversarial ? take_freed(pool, wanted, &block)
                                                    : take_smallest(pool, wanted, &block);
    if (status != ORR_OK)
        return status;
    block->state = ORR__BLOCK_USED;
    block->requested = bytes;
    allocator->used += block->bytes;
    allocator->requested += bytes;
    if (allocator->used > allocator->used_peak) {
        allocator->used_peak = allocator->used;
        allocator->reserved_at_peak = allocator->reserved;
    }
    allocator->take_count++;
    if (!block->fresh)
        allocator->reuse_count++;
    assert(block->bytes >= wanted && allocator->reuse_count <= allocator->take_count);
    assert_balanced(allocator);
    *out_block = block;
    return ORR_OK;
}

static void leave_use(struct orr__block *block) {
    assert(block->state == ORR__BLOCK_USED);
    struct orr__allocator *allocator = block->segment->pool->allocator;
    assert(allocator->used >= block->bytes && allocator->requested >= block->requested);
    allocator->used -= block->bytes;
    allocator->requested -= block->requested;
    block->requested = 0;
    block->fresh = false;
}

void orr__block_hold(struct orr__block *block) {
    leave_use(block);
    block->state = ORR__BLOCK_HELD;
    block->segment->pool->allocator->held += block->bytes;
    assert_balanced(block->segment->pool->allocator);
}

void orr__block_put(struct orr__block *block) {
    assert(block->state != ORR__BLOCK_FREE);
    if (block->state == ORR__BLOCK_HELD)
        block->segment->pool->allocator->held -= block->bytes;
    else
        leave_use(block);
    block->freed = ++block->segment->pool->allocator->free_count;
    block->freed_offset = block->offset;
    struct orr__block *before = block->before, *after = block->after;
    if (after && after->state == ORR__BLOCK_FREE) {
        make_not_free(after);
        merge(block, after);
    }
    if (before && before->state == ORR__BLOCK_FREE) {
        make_not_free(before);
        block = merge(before, block);
    }
    make_free(block);
    assert_balanced(block->segment->pool->allocator);
}

uint64_t orr__block_place(const struct orr__block *block) {
    assert(block->segment->serial > 0 && block->segment->serial <= UINT32_MAX);
    assert(block->offset / ORR__BLOCK_ALIGN <= UINT32_MAX);
    return block->segment->serial << 32 | block->offset / ORR__BLOCK_ALIGN;
}

/* --- segments --- */

uint64_t orr__segment_bytes(uint64_t bytes) {
    uint64_t wanted = orr__block_bytes(bytes);
    if (!is_large(wanted))
        return ORR__SMALL_SEGMENT;
    if (wanted < ORR__LARGE_OWN_MIN)
        return ORR__LARGE_SEGMENT;
    if (wanted > UINT64_MAX - ORR__LARGE_OWN_ROUND)
        return wanted;
    uint64_t round = ORR__LARGE_OWN_ROUND;
    return (wanted + round - 1) / round * round;
}

bool orr__allocator_fits(const struct orr__allocator *allocator, uint64_t bytes) {
    assert(allocator->reserved <= allocator->capacity);
    return bytes <= allocator->capacity - allocator->reserved;
}

static struct orr__segment *new_segment(struct orr__allocator *allocator) {
    struct orr__segment *segment = allocator->spare_segments;
    if (!segment)
        return orr_memory_alloc(allocator->memory, sizeof *segment);
    allocator->spare_segments = segment->next;
    *segment = (struct orr__segment){0};
    return segment;
}

enum orr_status orr__pool_add_segment(struct orr__pool *pool, uint64_t bytes,
                                      uint64_t segment_bytes, struct orr__segment **out_segment) {
    struct orr__allocator *allocator = pool->allocator;
    assert(segment_bytes % ORR__BLOCK_ALIGN == 0 && segment_bytes >= orr__block_bytes(bytes));
    assert(orr__allocator_fits(allocator, segment_bytes));
    *out_segment = NULL;
    struct orr__segment *segment = new_segment(allocator);
    struct orr__block *block = new_block(allocator);
    if (!segment || !block) {
        orr_memory_free(allocator->memory, segment);
        if (block)
            spare_block(allocator, block);
        return ORR_NO_MEMORY;
    }
    segment->pool = pool;
    segment->bytes = segment_bytes;
    segment->large = is_large(orr__block_bytes(bytes));
    segment->serial = ++*allocator->serial;
    segment->first = block;
    segment->previous = allocator->last;
    if (allocator->last)
        allocator->last->next = segment;
    else
        allocator->first = segment;
    allocator->last = segment;
    allocator->reserved += segment_bytes;
    if (allocator->reserved > allocator->reserved_peak)
        allocator->reserved_peak = allocator->reserved;
    block->segment = segment;
    block->bytes = segment_bytes;
    block->fresh = true;
    make_free(block);
    assert_balanced(allocator);
    *out_segment = segment;
    return ORR_OK;
}

bool orr__segment_is_free(const struct orr__segment *segment) {
    return segment->first->state == ORR__BLOCK_FREE && !segment->first->after;
}

static void unlink_segment(struct orr__segment *segment) {
    struct orr__allocator *allocator = segment->pool->allocator;
    if (segment->previous)
        segment->previous->next = segment->next;
    else
        allocator->first = segment->next;
    if (segment->next)
        segment->next->previous = segment->previous;
    else
        allocator->last = segment->previous;
}

void orr__segment_remove(struct orr__segment *segment) {
    assert(orr__segment_is_free(segment));
    struct orr__allocator *allocator = segment->pool->allocator;
    assert(segment->first->bytes == segment->bytes && segment->pending == 0);
    make_not_free(segment->first);
    spare_block(allocator, segment->first);
    allocator->reserved -= segment->bytes;
    assert_balanced(allocator);
    unlink_segment(segment);
    orr_memory_free(allocator->memory, segment);
}

/* --- the allocator --- */

static void begin(struct orr__allocator *allocator, uint64_t capacity) {
    allocator->capacity = capacity / ORR__BLOCK_ALIGN * ORR__BLOCK_ALIGN;
    allocator->random = 2463534242u; /* the seed of Marsaglia's example; any but 0 */
}

enum orr_status orr__allocator_create(const struct orr_memory *memory, uint64_t capacity,
                                      uint64_t *serial, struct orr__allocator **out_allocator) {
    *out_allocator = NULL;
    struct orr__allocator *allocator = orr_memory_alloc(memory, sizeof *allocator);
    if (!allocator)
        return ORR_NO_MEMORY;
    allocator->memory = memory;
    allocator->serial = serial;
    begin(allocator, capacity);
    *out_allocator = allocator;
    return ORR_OK;
}

/* Everything but the allocator itself becomes spare. */
static void spare_all(struct orr__allocator *allocator) {
    for (struct orr__segment *segment = allocator->first; segment; segment = segment->next)
        for (struct orr__block *block = segment->first, *after; block; block = after) {
            after = block->after;
            spare_block(allocator, block);
        }
    if (allocator->last) {
        allocator->last->next = allocator->spare_segments;
        allocator->spare_segments = allocator->first;
        allocator->first = allocator->last = NULL;
    }
    while (allocator->pools) {
        struct orr__pool *pool = allocator->pools;
        allocator->pools = pool->next;
        pool->next = allocator->spare_pools;
        allocator->spare_pools = pool;
    }
}

void orr__allocator_rewind(struct orr__allocator *allocator, uint64_t capacity) {
    spare_all(allocator);
    struct orr__allocator as_new = {.memory = allocator->memory,
                                    .serial = allocator->serial,
                                    .spare = allocator->spare,
                                    .spare_segments = allocator->spare_segments,
                                    .spare_pools = allocator->spare_pools};
    begin(&as_new, capacity);
    *allocator = as_new;
}

void orr__allocator_destroy(struct orr__allocator **allocator) {
    struct orr__allocator *it = *allocator;
    if (!it)
        return;
    spare_all(it);
    while (it->spare_segments) {
        struct orr__segment *segment = it->spare_segments;
        it->spare_segments = segment->next;
        orr_memory_free(it->memory, segment);
    }
    while (it->spare) {
        struct orr__block *block = it->spare;
        it->spare = block->right;
        orr_memory_free(it->memory, block);
    }
    while (it->spare_pools) {
        struct orr__pool *pool = it->spare_pools;
        it->spare_pools = pool->next;
        orr_memory_free(it->memory, pool);
    }
    orr_memory_free(it->memory, it);
    *allocator = NULL;
}

enum orr_status orr__pool_create(struct orr__allocator *allocator, uint32_t stream,
                                 struct orr__pool **out_pool) {
    struct orr__pool *pool = allocator->spare_pools;
    if (pool)
        allocator->spare_pools = pool->next;
    else
        pool = orr_memory_alloc(allocator->memory, sizeof *pool);
    *out_pool = pool;
    if (!pool)
        return ORR_NO_MEMORY;
    *pool = (struct orr__pool){.allocator = allocator, .stream = stream, .next = allocator->pools};
    allocator->pools = pool;
    return ORR_OK;
}

/* --- checks --- */

static uint64_t check_tree(const struct orr__block *node, const struct orr__pool *pool) {
    uint64_t bytes = 0;
    while (node) { /* recursion only to the left: depth is logarithmic */
        assert(node->state == ORR__BLOCK_FREE && node->segment->pool == pool);
        assert(!node->left ||
               (is_less(node->left, node) && node->left->priority <= node->priority));
        assert(!node->right ||
               (is_less(node, node->right) && node->right->priority <= node->priority));
        bytes += node->bytes + check_tree(node->left, pool);
        node = node->right;
    }
    return bytes;
}

static void check_segment(const struct orr__segment *segment, uint64_t sums[3]) {
    uint64_t offset = 0;
    const struct orr__block *before = NULL;
    for (const struct orr__block *block = segment->first; block; block = block->after) {
        assert(block->segment == segment && block->before == before);
        assert(block->offset == offset && block->bytes % ORR__BLOCK_ALIGN == 0);
        assert(block->bytes >= ORR__BLOCK_ALIGN && block->requested <= block->bytes);
        assert(!before || before->state != ORR__BLOCK_FREE || block->state != ORR__BLOCK_FREE);
        sums[block->state] += block->bytes;
        offset += block->bytes;
        before = block;
    }
    assert(offset == segment->bytes);
    (void)offset;
}

void orr__allocator_check(const struct orr__allocator *allocator) {
    uint64_t sums[3] = {0}, reserved = 0, in_trees = 0;
    for (const struct orr__segment *segment = allocator->first; segment; segment = segment->next) {
        check_segment(segment, sums);
        reserved += segment->bytes;
    }
    for (const struct orr__pool *pool = allocator->pools; pool; pool = pool->next)
        in_trees += check_tree(pool->free[0], pool) + check_tree(pool->free[1], pool);
    assert(sums[ORR__BLOCK_FREE] == allocator->free && in_trees == allocator->free);
    assert(sums[ORR__BLOCK_USED] == allocator->used && sums[ORR__BLOCK_HELD] == allocator->held);
    assert(reserved == allocator->reserved && reserved <= allocator->capacity);
    assert(reserved == allocator->used + allocator->held + allocator->free);
    (void)reserved, (void)in_trees;
}
