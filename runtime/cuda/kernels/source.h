/* Kernels without operands. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_SOURCE_H
#define ORR_RUNTIME_CUDA_KERNELS_SOURCE_H

#include "runtime/cuda/kernels/random.h"

/* The same element everywhere: its bits, of 1, 2, 4 or 8 bytes. */
struct orr__k_fill {
    void *to;
    int64_t count;
    uint64_t bits;
    int32_t size;
};

/* start + i * step, wrapping around, converted from i64. */
struct orr__k_arange {
    void *to;
    int64_t count, start, step;
    int32_t dtype;
};

struct orr__k_random {
    void *to;
    int64_t count;
    uint64_t key;
    struct orr__k_placement placement;
    int32_t dtype;
    int32_t normal; /* 0: uniform in [0, 1) */
};

#define ORR__CUDA_KERNELS_SOURCE(X)                                                                \
    X(source, fill_bits, struct orr__k_fill)                                                       \
    X(source, arange, struct orr__k_arange)                                                        \
    X(source, draw_random, struct orr__k_random)

#endif
