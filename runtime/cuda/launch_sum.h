/* Sums and maxima over one dimension of an array, in as many launches as it takes: for the
 * reductions, and for whatever ends in one.
 *
 * An array is [outer, n, inner]; n is cut into chunks whose results, in scratch memory, are reduced
 * in turn. Few chunks are left for the last launch, and enough are made by the first one to fill a
 * GPU with a single row. How n is cut depends on n and on whether inner is 1, so that the order of
 * a sum is always the same.
 *
 *     struct orr__cuda_sum sum = {.x = x, .dtype = ORR_DTYPE_BF16, .outer = 1, .n = n, .inner = 1,
 *                                 .divisor = 1, .to = y, .to_dtype = ORR_DTYPE_BF16};
 *     status = orr__cuda_scratch(queue, orr__cuda_sum_bytes(1, n, 1), &scratch, error);
 *     if (status == ORR_OK)
 *         status = orr__cuda_sum(queue, &sum, scratch, error);
 *
 * Threads: as queue.h. */
#ifndef ORR_RUNTIME_CUDA_LAUNCH_SUM_H
#define ORR_RUNTIME_CUDA_LAUNCH_SUM_H

#include "runtime/cuda/queue.h"

/* What is added: elements, or a 1 for each that is infinite or NaN. */
enum orr__cuda_sum_kind { ORR__CUDA_SUM, ORR__CUDA_SUM_NONFINITE };

struct orr__cuda_sum {
    enum orr__cuda_sum_kind kind; /* NONFINITE: outer and inner are 1 */
    const void *x;
    int dtype; /* a float: to_dtype is one, too; or i32, i64, bool: to_dtype is i64 */
    int64_t outer, n, inner;
    double divisor; /* of floats */
    void *to;       /* [outer, inner] */
    int to_dtype;
};

/* Scratch memory that the sum needs, bytes. */
uint64_t orr__cuda_sum_bytes(int64_t outer, int64_t n, int64_t inner);

/* Enqueues the sum; one over no elements is 0. */
enum orr_status orr__cuda_sum(struct orr__cuda_queue *queue, const struct orr__cuda_sum *sum,
                              void *scratch, struct orr_error *error) ORR_MUST_CHECK;

struct orr__cuda_largest {
    const void *x;
    int dtype; /* a float, i32 or i64 */
    int64_t outer, n, inner;
    void *values;     /* [outer, inner] of dtype, or NULL */
    int64_t *indices; /* [outer, inner], or NULL */
};

/* Scratch memory that a maximum needs, bytes. */
uint64_t orr__cuda_largest_bytes(int64_t outer, int64_t n, int64_t inner);

/* Enqueues a maximum, its index, or both; of no elements, the lowest value there is. */
enum orr_status orr__cuda_largest(struct orr__cuda_queue *queue,
                                  const struct orr__cuda_largest *largest, void *scratch,
                                  struct orr_error *error) ORR_MUST_CHECK;

#endif
