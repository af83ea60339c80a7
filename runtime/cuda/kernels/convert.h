/* One element between any two dtypes, in kernels: the rules of runtime/dtype.h. Included behind
 * device.h. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_CONVERT_H
#define ORR_RUNTIME_CUDA_KERNELS_CONVERT_H

#include "runtime/dtype.h"

#ifdef DEVICE
DEVICE bool dtype_is_real(int dtype) {
    return dtype <= ORR_DTYPE_BF16 || dtype >= ORR_DTYPE_F8E4M3;
}

/* Toward zero, saturating; NaN is 0. */
DEVICE int64_t i64_of_f64(double x) {
    if (x != x)
        return 0;
    if (x >= 9223372036854775808.0)
        return INT64_MAX;
    return x <= -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

/* With the lowest bits folded into bit 11 beyond 2^53 (rounded to odd), so that rounding the result
 * to a narrower float rounds `x` once (runtime/dtype.c). */
DEVICE double f64_of_i64_to_odd(int64_t x) {
    uint64_t magnitude = x < 0 ? 0u - (uint64_t)x : (uint64_t)x;
    if (magnitude >> 53 != 0 && (magnitude & 0x7ffu) != 0)
        magnitude = (magnitude & ~(uint64_t)0x7ffu) | 0x800u;
    return x < 0 ? -(double)magnitude : (double)magnitude;
}

/* An integer as any dtype. */
DEVICE void store_any_i64(void *to, int dtype, int64_t i, int64_t x) {
    if (!dtype_is_real(dtype))
        store_i64(to, dtype, i, x);
    else if (dtype == ORR_DTYPE_F64)
        ((double *)to)[i] = (double)x;
    else if (dtype == ORR_DTYPE_F32)
        ((float *)to)[i] = (float)x;
    else
        store_f64(to, dtype, i, f64_of_i64_to_odd(x));
}

/* A float as any dtype. */
DEVICE void store_any_f64(void *to, int dtype, int64_t i, double x) {
    if (dtype_is_real(dtype))
        store_f64(to, dtype, i, x);
    else if (dtype == ORR_DTYPE_BOOL)
        ((uint8_t *)to)[i] = x != 0;
    else
        store_i64(to, dtype, i, i64_of_f64(x));
}
#endif

#endif
