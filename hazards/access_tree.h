/* What has been accessed so far, per block and byte range: enough to tell whether an access is
 * ordered after everything that it conflicts with, without looking at what came before it.
 *
 * All ranges of a program are known beforehand. The bounds that occur in a block cut it into
 * pieces; a binary tree stands over the pieces, and a range is a few of its nodes:
 *
 *            [0, end)              `here`: accesses of exactly this node's range
 *           /        \             `below`: accesses of less than it
 *      [0, 50)    [50, end)        a check looks at `here` on the way down to its nodes, and at
 *      /     \                     both in them
 *
 * Of each only the newest stamp per actor is kept, writes and reads apart. A write that knows
 * everything in its range replaces it: whoever knows the write knows that too. So an access costs
 * O(log pieces), however many there were, and memory is bounded by the bounds.
 *
 * Threads: one at a time. */
#ifndef ORR_HAZARDS_ACCESS_TREE_H
#define ORR_HAZARDS_ACCESS_TREE_H

#include "hazards/clock.h"
#include "hazards/order_memory.h"

struct orr__access_node {
    struct orr__stamps here_writes, here_reads, below_writes, below_reads;
    bool is_used; /* some access of the program is of this node; else nothing is kept in it */
};

struct orr__access_block {
    uint64_t point_first; /* in `points`: bounds inside the block, in order, each once */
    uint64_t node_first;  /* in `nodes`: the root, 2 * point_count + 1 of them */
    uint32_t point_count;
};

struct orr__access_trees {
    const struct orr_memory *memory;
    struct orr__access_block *blocks;
    uint64_t *points;
    struct orr__access_node *nodes;
};

/* Trees for the accesses of operations 0 .. op_end - 1. */
enum orr_status orr__access_trees_init(struct orr__access_trees *trees,
                                       const struct orr__order_memory *names) ORR_MUST_CHECK;
/* The clocks in it go with their pool. */
void orr__access_trees_clear(struct orr__access_trees *trees);

/* Whether the view knows everything that an access of a block conflicts with. */
bool orr__access_is_ordered(const struct orr__access_trees *trees, const struct orr__clocks *clocks,
                            uint32_t block, const struct orr_stream_access *access,
                            const struct orr__view *view);
/* Adds an access. `is_ordered`: orr__access_is_ordered said so. */
enum orr_status orr__access_add(struct orr__access_trees *trees, struct orr__clocks *clocks,
                                uint32_t block, const struct orr_stream_access *access,
                                struct orr__stamp stamp, bool is_ordered) ORR_MUST_CHECK;

#endif
