/* Kernels of layernorm, rmsnorm, groupnorm and their gradients. See kernels.h for how a family is
 * written, and runtime/operators/norm.c, backward_norm.c and groupnorm.c for the formulas.
 *
 * A row is what moments are taken over: the last dimension, or a group of channels of one sample,
 * which is one run of memory too. A block works on a row at a time and reads it more than once: the
 * first time from memory, then from the caches, which hold the rows that are worked on. Elements
 * are f32 (f64 for f64) and sums f64.
 *
 * Element i of row r has the weight and bias of channel r % groups * channels + i / places. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_NORM_H
#define ORR_RUNTIME_CUDA_KERNELS_NORM_H

#include <stdint.h>

/* [rows, channels * places], of `dtype`. For layernorm groups and places are 1. */
struct orr__k_norm_rows {
    int64_t rows, width;
    int64_t groups, channels, places;
    double eps;
    int32_t dtype;
    int32_t centered; /* the mean is subtracted: not for rmsnorm */
};

/* y = (x - mean) r [* weight] [+ bias]. One block to a row. */
struct orr__k_norm {
    struct orr__k_norm_rows rows;
    const void *x, *weight, *bias; /* the latter two may be NULL */
    void *y;
};

/* The gradient of x. One block to a row. */
struct orr__k_norm_backward {
    struct orr__k_norm_rows rows;
    const void *grad, *x, *weight; /* the last one may be NULL */
    void *to;
};

/* Mean and r of each row. One block to a row. */
struct orr__k_norm_moments {
    struct orr__k_norm_rows rows;
    const void *x;
    double *moments; /* [rows, 2] */
};

/* Gradients of weight and bias, of some of the rows each: dw is the sum of grad h, db that of grad.
 *
 * norm_columns: places are 1; a thread adds `chunk` rows of one column: [chunks, width]
 * norm_places: a block adds the places of one channel of one sample: [samples, channels of all] */
struct orr__k_norm_weight {
    struct orr__k_norm_rows rows;
    const void *grad, *x;
    const double *moments;
    double *dw, *db; /* the latter may be NULL */
    int64_t chunk, chunks;
};

#define ORR__CUDA_KERNELS_NORM(X)                                                                  \
    X(norm, norm_f32, struct orr__k_norm)                                                          \
    X(norm, norm_f64, struct orr__k_norm)                                                          \
    X(norm, norm_backward_f32, struct orr__k_norm_backward)                                        \
    X(norm, norm_backward_f64, struct orr__k_norm_backward)                                        \
    X(norm, norm_moments_f32, struct orr__k_norm_moments)                                          \
    X(norm, norm_moments_f64, struct orr__k_norm_moments)                                          \
    X(norm, norm_columns_f32, struct orr__k_norm_weight)                                           \
    X(norm, norm_columns_f64, struct orr__k_norm_weight)                                           \
    X(norm, norm_places_f32, struct orr__k_norm_weight)                                            \
    X(norm, norm_places_f64, struct orr__k_norm_weight)

#endif
