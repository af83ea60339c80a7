/* Attention and its gradients, in tiles of scores that stay on the chip. See kernels.h for how a
 * family is written.
 *
 * A block works on a tile of T queries at a time, and walks over the keys that they see in tiles of
 * T: scores [T, T] are computed into shared memory, become probabilities, and are multiplied with
 * the values' tile; the softmax is corrected when a later tile has larger scores (Milakov,
 * Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023). At
 * most ORR__ATTENTION_WIDTH columns of the result are summed at a time, so that any width fits;
 * wider ones compute the scores again for each part of the columns.
 *
 * The query heads that read one key head make one long list of rows, head after head: its keys are
 * read for all of them, and the sum over them in the gradients of keys needs nothing else.
 *
 * Gradients compute the scores again for each of dq, dk and dv, each with a block for every tile of
 * its result: 8 products where 5 would do, but no sum of two blocks, so results never differ from
 * run to run. Arithmetic is in f32, for f64 in f64. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_ATTENTION_H
#define ORR_RUNTIME_CUDA_KERNELS_ATTENTION_H

#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"

enum {
    ORR__ATTENTION_TILE_F32 = 32,
    ORR__ATTENTION_TILE_F64 = 16,
    ORR__ATTENTION_DEPTH = 64,  /* elements of a query and a key that are multiplied at a time */
    ORR__ATTENTION_WIDTH = 128, /* columns of a result that are summed at a time */
    ORR__ATTENTION_PARTS = 8    /* threads for a row of scores */
};

/* Bytes of shared memory for tiles of T numbers of so many bytes: see bodies/attention.h. */
#define ORR__ATTENTION_SHARED(tile, size)                                                          \
    ((tile)*4 * 8 +                                                                                \
     (size) * (2 * (tile) * (ORR__ATTENTION_DEPTH + 1) + 2 * (tile) * ((tile) + 1) +               \
               (tile)*ORR__ATTENTION_WIDTH + (tile) * (2 * ORR__ATTENTION_PARTS + 4)))

/* As struct orr__attention of runtime/operators/attention_internal.h. */
struct orr__k_attention {
    int32_t dtype, causal;
    int64_t b, h, hkv, d, dv;
    int64_t s, t; /* of one block of the ring */
    int64_t blocks, first, total, shift;
    double scale;
    /* Of a cache: keys of a sequence in memory, and for each of the b sequences how many of them
     * are there, and which of the `sequences` it is. With lengths, the s queries are the last. */
    int64_t capacity, sequences;
    const void *lengths, *slots; /* i32 or i64, or NULL */
    int32_t lengths_dtype, slots_dtype;
    struct orr__cuda_fault *fault;
};

struct orr__k_attend {
    struct orr__k_attention shape;
    const void *q, *k, *v;
    void *out;   /* NULL: sums only */
    void *lse;   /* [rows] in the type of the arithmetic, or NULL */
    void *stats; /* [rows, 2]: the largest score, 1 / the sum of exp(score - largest); or NULL */
};

/* delta = grad out for each row; with lse also stats as above: lse and 1. */
struct orr__k_attention_delta {
    int32_t dtype, padding;
    int64_t rows, dv;
    const void *grad, *out, *lse;
    void *delta, *stats;
};

enum orr__k_attention_of { ORR__ATTENTION_DQ, ORR__ATTENTION_DK, ORR__ATTENTION_DV };

struct orr__k_attention_back {
    struct orr__k_attention shape;
    const void *q, *k, *v, *grad, *stats, *delta;
    void *to;
    int32_t of; /* enum orr__k_attention_of */
    int32_t padding;
};

struct orr__k_attention_merge {
    int32_t dtype_a, dtype_b;
    int64_t rows, dv;
    const void *out_a, *lse_a, *out_b, *lse_b;
    void *out, *lse; /* out in out_a's dtype */
};

#define ORR__CUDA_KERNELS_ATTENTION(X)                                                             \
    X(attention, attend_f32, struct orr__k_attend)                                                 \
    X(attention, attend_f64, struct orr__k_attend)                                                 \
    X(attention, attention_delta_f32, struct orr__k_attention_delta)                               \
    X(attention, attention_delta_f64, struct orr__k_attention_delta)                               \
    X(attention, attention_back_f32, struct orr__k_attention_back)                                 \
    X(attention, attention_back_f64, struct orr__k_attention_back)                                 \
    X(attention, attention_merge_f32, struct orr__k_attention_merge)                               \
    X(attention, attention_merge_f64, struct orr__k_attention_merge)

#endif
