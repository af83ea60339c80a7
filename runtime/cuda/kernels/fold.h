/* For kernels that take several dtypes: the compiler gets a copy of the body for each, in which the
 * dtype is a constant, so that loads and stores have no branch. `body` is a DEVICE function that
 * takes the lane, the argument and a dtype. See kernels.h.
 *
 * Threads: macros. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_FOLD_H
#define ORR_RUNTIME_CUDA_KERNELS_FOLD_H

/* f32, f16 and bf16, which are computed with in f32. */
#define ORR__FOLD_NARROW(body, of)                                                                 \
    switch (of) {                                                                                  \
    case ORR_DTYPE_F16: body(lane, a, ORR_DTYPE_F16); break;                                       \
    case ORR_DTYPE_BF16: body(lane, a, ORR_DTYPE_BF16); break;                                     \
    default: body(lane, a, ORR_DTYPE_F32); break;                                                  \
    }

/* The same and f64, for bodies whose arithmetic is in f64 anyway: sums. */
#define ORR__FOLD_FLOAT(body, of)                                                                  \
    switch (of) {                                                                                  \
    case ORR_DTYPE_F16: body(lane, a, ORR_DTYPE_F16); break;                                       \
    case ORR_DTYPE_BF16: body(lane, a, ORR_DTYPE_BF16); break;                                     \
    case ORR_DTYPE_F32: body(lane, a, ORR_DTYPE_F32); break;                                       \
    default: body(lane, a, ORR_DTYPE_F64); break;                                                  \
    }

/* i32, i64 and bool. */
#define ORR__FOLD_INTEGER(body, of)                                                                \
    switch (of) {                                                                                  \
    case ORR_DTYPE_I32: body(lane, a, ORR_DTYPE_I32); break;                                       \
    case ORR_DTYPE_BOOL: body(lane, a, ORR_DTYPE_BOOL); break;                                     \
    default: body(lane, a, ORR_DTYPE_I64); break;                                                  \
    }

#endif
