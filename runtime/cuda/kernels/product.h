/* What matrix products need besides cuBLAS: products of integers, biases, and results that are kept
 * in a wider type until the end. See kernels.h for how a family is written. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_PRODUCT_H
#define ORR_RUNTIME_CUDA_KERNELS_PRODUCT_H

#include <stdint.h>

/* c [m, n] = op(a) [m, k] op(b) [k, n] of i32 or i64, wrapping around; a batch of them with
 * strides. */
struct orr__k_product {
    int64_t m, n, k, batch, stride_a, stride_b, stride_c;
    const void *a, *b;
    void *c;
    int32_t dtype, transpose_a, transpose_b, padding;
};

/* to[i] = values[i / inner % length]: what a product is added to. */
struct orr__k_repeat {
    int64_t count, inner, length;
    const void *values;
    void *to;
    int64_t bytes; /* of an element: 2, 4 or 8 */
};

/* to [rows, columns], with `step` elements from row to row, = from [rows, columns] scale[column]
 * + bias[column], rounded once. */
struct orr__k_finish {
    int64_t rows, columns, step;
    const void *from;   /* f32, or f64 with `wide` */
    const float *scale; /* or NULL: 1 */
    const void *bias;   /* in the result's dtype; NULL: 0 */
    void *to;
    int32_t wide, dtype;
};

#define ORR__CUDA_KERNELS_PRODUCT(X)                                                               \
    X(product, product_integer, struct orr__k_product)                                             \
    X(product, product_repeat, struct orr__k_repeat)                                               \
    X(product, product_finish, struct orr__k_finish)

#endif
