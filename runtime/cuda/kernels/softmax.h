/* Kernels of softmax, cross-entropy and their gradients: rows of exponentials. See kernels.h for
 * how a family is written, and runtime/operators/norm.c, gather.c and backward_gather.c for the
 * formulas.
 *
 * One block to a row. The largest element and the sum of exponentials are found in one pass, in
 * which a thread scales its sum down whenever it meets a larger element (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018). Elements are f32 (f64 for f64), sums f64. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_SOFTMAX_H
#define ORR_RUNTIME_CUDA_KERNELS_SOFTMAX_H

#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"

/* Row r sees its first seen + r % mask_rows elements, the others become 0; mask_rows 0: all. */
struct orr__k_softmax {
    const void *x;
    void *y;
    int64_t rows, width, mask_rows, seen;
    int32_t dtype;
};

struct orr__k_softmax_backward {
    const void *grad, *y;
    void *to;
    int64_t rows, width;
    int32_t dtype;
};

/* losses[r] = log(sum(exp(logits[r]))) - logits[r][targets[r]]. */
struct orr__k_loss {
    const void *logits, *targets;
    double *losses;
    struct orr__cuda_fault *fault;
    int64_t rows, classes;
    int32_t dtype, index_dtype;
};

/* Of logits with the classes first .. first + classes - 1 of `whole`. */
struct orr__k_loss_backward {
    const void *grad; /* one f32, f64 for f64; lse is of that dtype too, or NULL */
    const void *logits, *targets, *lse;
    void *to;
    struct orr__cuda_fault *fault;
    int64_t rows, classes, first, whole;
    double total;
    int32_t dtype, index_dtype;
};

#define ORR__CUDA_KERNELS_SOFTMAX(X)                                                               \
    X(softmax, softmax_f32, struct orr__k_softmax)                                                 \
    X(softmax, softmax_f64, struct orr__k_softmax)                                                 \
    X(softmax, softmax_backward_f32, struct orr__k_softmax_backward)                               \
    X(softmax, softmax_backward_f64, struct orr__k_softmax_backward)                               \
    X(softmax, loss_f32, struct orr__k_loss)                                                       \
    X(softmax, loss_f64, struct orr__k_loss)                                                       \
    X(softmax, loss_backward_f32, struct orr__k_loss_backward)                                     \
    X(softmax, loss_backward_f64, struct orr__k_loss_backward)

#endif
