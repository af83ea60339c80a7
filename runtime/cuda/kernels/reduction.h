/* Kernels of sum, mean, max, argmax, max_backward, unbroadcast and count_nonfinite. See kernels.h
 * for how a family is written, and runtime/operators/reduction.c for what is computed.
 *
 * A tensor is seen as [outer, n, inner] with n the reduced dimension, cut into `chunks` chunks of
 * at most `chunk` elements: the result is [outer, chunks, inner], which another launch reduces
 * until there is one chunk. Kernels called _rows take inner = 1, a block for each result; those
 * called _columns a thread for each result, neighbours in memory.
 *
 * Floats are added in f64, integers in i64, wrapping around; both are compared in f64 or i64. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_REDUCTION_H
#define ORR_RUNTIME_CUDA_KERNELS_REDUCTION_H

#include <stdint.h>

struct orr__k_chunks {
    int64_t outer, n, inner, chunk, chunks;
};

/* sum_*: floats; the sum by `divisor` in to_dtype, a float. integers_*: i32, i64, bool; to i64.
 * nonfinite_rows: floats; how many are infinite or NaN. */
struct orr__k_sum {
    struct orr__k_chunks chunks;
    const void *x;
    void *to;
    double divisor;
    int32_t dtype, to_dtype;
};

/* The first largest element, a NaN being the largest: its value in to_dtype, its index along n, or
 * both; of no elements, the lowest value there is. largest_*: floats; largest_i64_*: i32, i64. */
struct orr__k_largest {
    struct orr__k_chunks chunks;
    const void *x;
    const int64_t *x_indices; /* of x's elements, which are values of chunks; or NULL */
    void *values;             /* or NULL */
    int64_t *indices;         /* or NULL */
    int32_t dtype, to_dtype;
};

/* to = grad at the indices, 0 elsewhere; to [outer, n, inner], grad and indices [outer, inner]. */
struct orr__k_spread {
    int64_t outer, n, inner;
    const void *grad;
    const int64_t *indices;
    void *to;
    int32_t dtype;
};

#define ORR__CUDA_KERNELS_REDUCTION(X)                                                             \
    X(reduction, sum_rows, struct orr__k_sum)                                                      \
    X(reduction, sum_columns, struct orr__k_sum)                                                   \
    X(reduction, integers_rows, struct orr__k_sum)                                                 \
    X(reduction, integers_columns, struct orr__k_sum)                                              \
    X(reduction, nonfinite_rows, struct orr__k_sum)                                                \
    X(reduction, largest_rows, struct orr__k_largest)                                              \
    X(reduction, largest_columns, struct orr__k_largest)                                           \
    X(reduction, largest_i64_rows, struct orr__k_largest)                                          \
    X(reduction, largest_i64_columns, struct orr__k_largest)                                       \
    X(reduction, spread, struct orr__k_spread)

#endif
