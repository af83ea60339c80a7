/* Sorting indices, for launchers of operators that add or place what has equal ones: see
 * kernels/order.h.
 *
 *     struct orr__cuda_order order = {.indices = indices->data, .index_dtype = ORR_DTYPE_I32,
 *                                     .count = count, .bound = rows, .keys = rows};
 *     status = orr__cuda_scratch(queue, orr__cuda_order_bytes(count, rows), &scratch, error);
 *     if (status == ORR_OK)
 *         status = orr__cuda_order(queue, &order, scratch, error);
 *
 * Threads: as queue.h. */
#ifndef ORR_RUNTIME_CUDA_LAUNCH_ORDER_H
#define ORR_RUNTIME_CUDA_LAUNCH_ORDER_H

#include "runtime/cuda/queue.h"

struct orr__cuda_order {
    const void *indices; /* i32 or i64; an index outside 0 .. bound - 1 is a fault */
    int index_dtype;
    int64_t count, bound;
    int64_t first, keys; /* wanted are the indices from `first` on, as keys 0 .. keys - 1 */
    /* Results, in the scratch memory. */
    const int64_t *sorted; /* keys, from smallest to largest, also those that aren't wanted */
    const int64_t *order;  /* where in `indices` they were; equal ones in their order */
    const int64_t *starts; /* [keys + 1]: where in the two each key begins */
};

uint64_t orr__cuda_order_bytes(int64_t count, int64_t keys);

enum orr_status orr__cuda_order(struct orr__cuda_queue *queue, struct orr__cuda_order *order,
                                void *scratch, struct orr_error *error) ORR_MUST_CHECK;

#endif
