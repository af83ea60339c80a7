#include "hazards/access_tree.h"

#include <string.h>

/* --- bounds --- */

/* Stores each bound of each access that lies inside its block. `points` NULL: only counts, in
 * point_count. */
static void take_points(struct orr__access_trees *trees, const struct orr__order_memory *names,
                        uint64_t *points) {
    const struct orr_stream_program *program = names->program;
    for (uint32_t op = 0; op < names->op_end; op++) {
        const struct orr_stream_access *access = program->accesses + program->ops[op].access_first;
        for (uint32_t i = 0; i < program->ops[op].access_count; i++, access++) {
            if (orr__order_is_void(program, access))
                continue;
            struct orr__access_block *block =
                &trees->blocks[orr__order_block(names, access->buffer, op)];
            uint64_t bounds[] = {access->lo, access->hi};
            for (int j = 0; j < 2; j++) {
                if (bounds[j] == 0 || bounds[j] == ORR_RANGE_WHOLE)
                    continue;
                if (points)
                    points[block->point_first + block->point_count] = bounds[j];
                block->point_count++;
            }
        }
    }
}

/* Merges [0, middle) and [middle, count), each in order, by way of `spare`. */
static void merge(uint64_t *numbers, size_t middle, size_t count, uint64_t *spare) {
    if (middle >= count || numbers[middle - 1] <= numbers[middle])
        return;
    memcpy(spare, numbers, middle * sizeof *spare);
    for (size_t i = 0, left = 0, right = middle; left < middle; i++)
        numbers[i] =
            right < count && numbers[right] < spare[left] ? numbers[right++] : spare[left++];
}

static void sort(uint64_t *numbers, size_t count, uint64_t *spare) {
    for (size_t width = 1; width < count; width *= 2)
        for (size_t i = 0; i < count; i += 2 * width)
            merge(numbers + i, width, count - i < 2 * width ? count - i : 2 * width, spare);
}

static uint32_t unique(uint64_t *numbers, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || numbers[kept - 1] != numbers[i])
            numbers[kept++] = numbers[i];
    return kept;
}

/* Sorted points of every block; nodes numbered. */
static enum orr_status make_points(struct orr__access_trees *trees,
                                   const struct orr__order_memory *names, uint64_t *out_nodes) {
    uint64_t count = 0;
    take_points(trees, names, NULL);
    for (uint32_t i = 0; i < names->block_count; i++) {
        trees->blocks[i].point_first = count;
        count += trees->blocks[i].point_count;
        trees->blocks[i].point_count = 0;
    }
    trees->points = orr_memory_alloc(trees->memory, count * sizeof *trees->points);
    uint64_t *spare = orr_memory_alloc(trees->memory, count * sizeof *spare);
    if (!trees->points || !spare) {
        orr_memory_free(trees->memory, spare);
        return ORR_NO_MEMORY;
    }
    take_points(trees, names, trees->points);
    *out_nodes = 0;
    for (uint32_t i = 0; i < names->block_count; i++) {
        struct orr__access_block *block = &trees->blocks[i];
        sort(trees->points + block->point_first, block->point_count, spare);
        block->point_count = unique(trees->points + block->point_first, block->point_count);
        block->node_first = *out_nodes;
        *out_nodes += 2 * (uint64_t)block->point_count + 1;
    }
    orr_memory_free(trees->memory, spare);
    return ORR_OK;
}

/* --- nodes --- */

/* A node over pieces first .. last, and the pieces from .. to of an access, which it overlaps.
 * Piece 0 begins at 0, piece i at point i - 1. */
struct visit {
    struct orr__access_node *node;
    uint32_t first, last, from, to;
};

static bool is_covered(const struct visit *visit) {
    return visit->from <= visit->first && visit->last <= visit->to;
}

static uint32_t middle_of(const struct visit *visit) {
    return visit->first + (visit->last - visit->first) / 2;
}

/* The children follow their parent: the left one with all that is below it, then the right one. */
static bool go_left(const struct visit *visit, struct visit *out) {
    *out = *visit;
    out->node = visit->node + 1;
    out->last = middle_of(visit);
    return visit->from <= out->last;
}

static bool go_right(const struct visit *visit, struct visit *out) {
    uint32_t left_pieces = middle_of(visit) - visit->first + 1;
    *out = *visit;
    out->node = visit->node + (size_t)2 * left_pieces;
    out->first = middle_of(visit) + 1;
    return visit->to >= out->first;
}

/* How many of the points are below or at the bound. */
static uint32_t count_points(const uint64_t *points, uint32_t count, uint64_t bound) {
    uint32_t low = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        if (points[low + half] <= bound) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

static struct visit start(const struct orr__access_trees *trees, uint32_t block_id,
                          const struct orr_stream_access *access) {
    const struct orr__access_block *block = &trees->blocks[block_id];
    const uint64_t *points = trees->points + block->point_first;
    struct visit visit = {.node = trees->nodes + block->node_first,
                          .last = block->point_count,
                          .to = block->point_count};
    if (access->lo > 0)
        visit.from = count_points(points, block->point_count, access->lo);
    if (access->hi != ORR_RANGE_WHOLE)
        visit.to = count_points(points, block->point_count, access->hi - 1);
    return visit;
}

static void mark_used(const struct visit *visit) {
    struct visit child;
    if (is_covered(visit)) {
        visit->node->is_used = true;
        return;
    }
    if (go_left(visit, &child))
        mark_used(&child);
    if (go_right(visit, &child))
        mark_used(&child);
}

static void mark_all(struct orr__access_trees *trees, const struct orr__order_memory *names) {
    const struct orr_stream_program *program = names->program;
    for (uint32_t op = 0; op < names->op_end; op++) {
        const struct orr_stream_access *access = program->accesses + program->ops[op].access_first;
        for (uint32_t i = 0; i < program->ops[op].access_count; i++, access++) {
            if (orr__order_is_void(program, access))
                continue;
            struct visit visit = start(trees, orr__order_block(names, access->buffer, op), access);
            mark_used(&visit);
        }
    }
}

enum orr_status orr__access_trees_init(struct orr__access_trees *trees,
                                       const struct orr__order_memory *names) {
    *trees = (struct orr__access_trees){.memory = names->program->memory};
    trees->blocks = orr_memory_alloc(trees->memory, names->block_count * sizeof *trees->blocks);
    uint64_t node_count = 0;
    enum orr_status status = trees->blocks ? make_points(trees, names, &node_count) : ORR_NO_MEMORY;
    if (status == ORR_OK)
        trees->nodes = orr_memory_alloc(trees->memory, node_count * sizeof *trees->nodes);
    if (!trees->nodes) {
        orr__access_trees_clear(trees);
        return ORR_NO_MEMORY;
    }
    mark_all(trees, names);
    return ORR_OK;
}

void orr__access_trees_clear(struct orr__access_trees *trees) {
    orr_memory_free(trees->memory, trees->blocks);
    orr_memory_free(trees->memory, trees->points);
    orr_memory_free(trees->memory, trees->nodes);
    *trees = (struct orr__access_trees){.memory = trees->memory};
}

/* --- accesses --- */

static bool is_known(const struct orr__clocks *clocks, const struct orr__stamps *writes,
                     const struct orr__stamps *reads, bool is_write, const struct orr__view *view) {
    return orr__stamps_known(clocks, writes, view) &&
           (!is_write || orr__stamps_known(clocks, reads, view));
}

static bool check(const struct visit *visit, const struct orr__clocks *clocks, bool is_write,
                  const struct orr__view *view) {
    const struct orr__access_node *node = visit->node;
    struct visit child;
    if (node->is_used && !is_known(clocks, &node->here_writes, &node->here_reads, is_write, view))
        return false;
    if (is_covered(visit))
        return is_known(clocks, &node->below_writes, &node->below_reads, is_write, view);
    if (go_left(visit, &child) && !check(&child, clocks, is_write, view))
        return false;
    return !go_right(visit, &child) || check(&child, clocks, is_write, view);
}

bool orr__access_is_ordered(const struct orr__access_trees *trees, const struct orr__clocks *clocks,
                            uint32_t block, const struct orr_stream_access *access,
                            const struct orr__view *view) {
    struct visit visit = start(trees, block, access);
    return check(&visit, clocks, access->is_write, view);
}

static void forget(struct orr__access_node *node, struct orr__clocks *clocks) {
    orr__stamps_clear(clocks, &node->here_writes);
    orr__stamps_clear(clocks, &node->here_reads);
    orr__stamps_clear(clocks, &node->below_writes);
    orr__stamps_clear(clocks, &node->below_reads);
}

static enum orr_status add(const struct visit *visit, struct orr__clocks *clocks, bool is_write,
                           struct orr__stamp stamp, bool is_ordered) {
    struct orr__access_node *node = visit->node;
    struct visit child;
    if (is_covered(visit)) {
        if (is_write && is_ordered)
            forget(node, clocks);
        return orr__stamps_add(clocks, is_write ? &node->here_writes : &node->here_reads, stamp);
    }
    enum orr_status status = ORR_OK;
    if (node->is_used)
        status =
            orr__stamps_add(clocks, is_write ? &node->below_writes : &node->below_reads, stamp);
    if (status == ORR_OK && go_left(visit, &child))
        status = add(&child, clocks, is_write, stamp, is_ordered);
    if (status == ORR_OK && go_right(visit, &child))
        status = add(&child, clocks, is_write, stamp, is_ordered);
    return status;
}

enum orr_status orr__access_add(struct orr__access_trees *trees, struct orr__clocks *clocks,
                                uint32_t block, const struct orr_stream_access *access,
                                struct orr__stamp stamp, bool is_ordered) {
    struct visit visit = start(trees, block, access);
    return add(&visit, clocks, access->is_write, stamp, is_ordered);
}
