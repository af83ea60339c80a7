/* A stable sort of indices: what turns sums over equal indices, which other programs take with
 * atomics in any order, into sums in the order of memory. See kernels.h for how a family is
 * written.
 *
 *     order_tile    ranks the elements of each tile of ORR__ORDER_TILE by comparing all with all
 *     order_merge   joins neighbouring runs: an element finds its place by a search in the other
 *     order_starts  where each key begins: starts[key] .. starts[key + 1] - 1 are its elements
 *
 * About 20 launches sort a million; the result has no freedom, so it is the same on every GPU. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_ORDER_H
#define ORR_RUNTIME_CUDA_KERNELS_ORDER_H

#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"

enum { ORR__ORDER_TILE = 512 }; /* elements; shared memory holds their keys, 8 bytes each */

/* keys = sorted indices - offset, order = where they were; an index that is not in 0 .. bound - 1
 * is a fault. One block to a tile. */
struct orr__k_order_tile {
    const void *indices;
    int64_t *keys, *order;
    struct orr__cuda_fault *fault;
    int64_t count, offset, bound;
    int32_t index_dtype;
};

/* Runs of `run` elements become runs of twice that. */
struct orr__k_order_merge {
    const int64_t *from_keys, *from_order;
    int64_t *keys, *order;
    int64_t count, run;
};

struct orr__k_order_starts {
    const int64_t *keys;
    int64_t *starts; /* [key_count + 1] */
    int64_t count, key_count;
};

#define ORR__CUDA_KERNELS_ORDER(X)                                                                 \
    X(order, order_tile, struct orr__k_order_tile)                                                 \
    X(order, order_merge, struct orr__k_order_merge)                                               \
    X(order, order_starts, struct orr__k_order_starts)

#endif
