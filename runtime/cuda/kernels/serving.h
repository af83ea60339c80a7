/* Rotary positions, and rows that are put into caches. See kernels.h for how a family is
 * written. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_SERVING_H
#define ORR_RUNTIME_CUDA_KERNELS_SERVING_H

#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"

/* cosines and sines [sequences, positions, half] of (start + position) theta^(-2i / (2 half)),
 * taken in f64. start is that of the sequence, or `offset`. */
struct orr__k_rope_angles {
    double theta;
    int64_t sequences, positions, half, offset;
    const void *starts;         /* [sequences] of i32 or i64, or NULL */
    int32_t starts_dtype, wide; /* wide: the results are f64, else f32 */
    void *cosines, *sines;
};

/* Rotates pairs (i, i + half) of x [sequences, inner, positions, 2 half]. */
struct orr__k_rope {
    int64_t sequences, inner, positions, half;
    const void *x, *cosines, *sines;
    void *y;
    int32_t dtype, back; /* back: by the opposite angle */
};

/* Rows of `bytes` of rows [b, heads, count] into cache [sequences, heads, capacity], from
 * positions[b] on in the sequence slots[b]. Every block checks all indices before it writes. */
struct orr__k_append {
    int64_t b, heads, count, sequences, capacity, bytes;
    const void *rows, *positions, *slots; /* slots may be NULL */
    void *cache;
    int32_t positions_dtype, slots_dtype;
    struct orr__cuda_fault *fault;
};

#define ORR__CUDA_KERNELS_SERVING(X)                                                               \
    X(serving, rope_angles, struct orr__k_rope_angles)                                             \
    X(serving, rope_f32, struct orr__k_rope)                                                       \
    X(serving, rope_f64, struct orr__k_rope)                                                       \
    X(serving, append, struct orr__k_append)

#endif
