/* Kernels of embedding, gather_last, scatter_last, topk and their gradients. See kernels.h for how
 * a family is written, and runtime/operators/gather.c, gather_last.c and backward_gather.c.
 *
 * Where rows or columns are sharded, this rank has those from `first` on, `here` of `whole`. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_GATHER_H
#define ORR_RUNTIME_CUDA_KERNELS_GATHER_H

#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"

/* to[i] = weight[indices[i]], rows of `units` units of `unit` bytes (2, 4, 8 or 16), zeros for rows
 * that another rank has. One block to a row. */
struct orr__k_gather_rows {
    const void *indices, *weight;
    void *to;
    struct orr__cuda_fault *fault;
    int64_t count, units, first, here, whole;
    int32_t unit, index_dtype;
};

/* to[r] = sum of grad's rows whose index is r, in their order: `order` and `starts` as order.h has
 * them. A thread adds one column of one row. */
struct orr__k_sum_ordered {
    const void *grad;
    const int64_t *order, *starts;
    void *to;
    int64_t rows, width;
    int32_t dtype;
};

/* to[r][j] = x[r][indices[r][j]] of elements of `unit` bytes (2, 4 or 8). */
struct orr__k_gather_last {
    const void *x, *indices;
    void *to;
    struct orr__cuda_fault *fault;
    int64_t rows, k, first, here, whole;
    int32_t unit, index_dtype;
};

/* to[r][c] = sum of grad[r][j] where indices[r][j] is c, in the order of j. One block to a row. */
struct orr__k_scatter_last {
    const void *grad, *indices;
    void *to;
    struct orr__cuda_fault *fault;
    int64_t rows, k, first, here, whole;
    int32_t dtype, index_dtype;
};

/* The k largest of each row of n, the largest first, of equal ones that with the lower index; one
 * block to a row, which looks through the row k times. */
struct orr__k_topk {
    const void *x;
    void *values;
    int64_t *indices;
    int64_t rows, n, k;
    int32_t dtype;
};

#define ORR__CUDA_KERNELS_GATHER(X)                                                                \
    X(gather, gather_rows, struct orr__k_gather_rows)                                              \
    X(gather, sum_ordered, struct orr__k_sum_ordered)                                              \
    X(gather, gather_last, struct orr__k_gather_last)                                              \
    X(gather, scatter_last, struct orr__k_scatter_last)                                            \
    X(gather, topk, struct orr__k_topk)

#endif
