/* Kernels that move elements: cuts of rows between places, matrices that are turned, casts. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_MOVE_H
#define ORR_RUNTIME_CUDA_KERNELS_MOVE_H

#include "runtime/cuda/kernels/strided.h"

enum { ORR__K_CUTS_MAX = 12 };

/* Units of 1, 2, 4, 8 or 16 bytes, aligned on both sides, in loops, outermost first. */
struct orr__k_cut {
    struct orr__k_strided to; /* strides in bytes */
    int64_t from_strides[9];  /* over the same dimensions, in bytes */
    int64_t count;            /* of units */
    char *to_data;
    const char *from_data;
    int32_t unit;
};

struct orr__k_cuts {
    struct orr__k_cut cuts[ORR__K_CUTS_MAX];
    int32_t count;
};

/* Two dimensions change places, `batch` times: y [batch, columns, rows] of x [batch, rows,
 * columns], elements of `size` bytes (1, 2, 4 or 8). Shared memory: 8 * 32 * 33 bytes. */
struct orr__k_turn {
    void *y;
    const void *x;
    int64_t batch, rows, columns;
    int32_t size;
};

/* As orr_dtype_convert. */
struct orr__k_cast {
    void *to;
    const void *from;
    int64_t count;
    int32_t to_dtype, from_dtype;
};

#define ORR__CUDA_KERNELS_MOVE(X)                                                                  \
    X(move, move_cut, struct orr__k_cut)                                                           \
    X(move, move_cuts, struct orr__k_cuts)                                                         \
    X(move, turn, struct orr__k_turn)                                                              \
    X(move, cast, struct orr__k_cast)

#endif
