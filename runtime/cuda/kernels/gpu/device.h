/* The words that kernels are written in, for the GPU. The fake devices have a header of the same
 * name, sim/fake_devices/cuda/emulated/device.h; which one a kernel gets, the include path decides.
 *
 *     KERNEL(name, type) { ... }   a kernel with one argument, `a` its address, `lane` its thread
 *     DEVICE                       a function that kernels call; takes `lane` if it asks for it
 *
 * Blocks and grids have one dimension; a block has a multiple of 32 threads. Sums and maxima over a
 * block are taken in a fixed order, are given to all its threads, and use `scratch`: shared memory
 * for 33 values of the type. All threads of a block call them, and block_sync, equally often.
 * A maximum with a NaN is NaN. Functions of C's math.h have the same names here. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_GPU_DEVICE_H
#define ORR_RUNTIME_CUDA_KERNELS_GPU_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"
#include "runtime/dtype.h"

struct lane {
    char unused;
};

#define DEVICE static __device__ __forceinline__

#define KERNEL(name, type)                                                                         \
    static __device__ __forceinline__ void name##_body(struct lane lane, const type *a);           \
    extern "C" __global__ void name(const __grid_constant__ type argument) {                       \
        struct lane lane = {0};                                                                    \
        name##_body(lane, &argument);                                                              \
    }                                                                                              \
    static __device__ __forceinline__ void name##_body(struct lane lane, const type *a)

/* Before a loop that isn't worth the code of being unrolled. */
#define ROLLED _Pragma("unroll 1")

/* --- where a thread is --- */

DEVICE int thread_index(struct lane lane) {
    return (void)lane, (int)threadIdx.x;
}
DEVICE int thread_count(struct lane lane) {
    return (void)lane, (int)blockDim.x;
}
DEVICE int64_t block_index(struct lane lane) {
    return (void)lane, (int64_t)blockIdx.x;
}
DEVICE int64_t block_count(struct lane lane) {
    return (void)lane, (int64_t)gridDim.x;
}
/* For loops over all elements by all threads of the grid. */
DEVICE int64_t first_index(struct lane lane) {
    return (void)lane, (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
DEVICE int64_t index_step(struct lane lane) {
    return (void)lane, (int64_t)gridDim.x * blockDim.x;
}

/* --- a block's threads together --- */

DEVICE void block_sync(struct lane lane) {
    (void)lane;
    __syncthreads();
}

/* The launch's shared memory, aligned to 16 bytes. */
DEVICE void *shared_memory(struct lane lane) {
    extern __shared__ __align__(16) unsigned char orr_shared[];
    return (void)lane, (void *)orr_shared;
}

#define ORR_BLOCK_REDUCTION(name, type, joined)                                                    \
    DEVICE type name(struct lane lane, type x, type neutral, type *scratch) {                      \
        int warp = (int)threadIdx.x / 32, warps = ((int)blockDim.x + 31) / 32;                     \
        (void)lane;                                                                                \
        for (int step = 16; step > 0; step /= 2) {                                                 \
            type y = __shfl_down_sync(0xffffffffu, x, (unsigned)step);                             \
            int past = ((int)threadIdx.x % 32) + step;                                             \
            bool there = past < 32 && warp * 32 + past < (int)blockDim.x;                          \
            y = there ? y : neutral;                                                               \
            x = joined;                                                                            \
        }                                                                                          \
        __syncthreads();                                                                           \
        if (threadIdx.x % 32 == 0)                                                                 \
            scratch[warp] = x;                                                                     \
        __syncthreads();                                                                           \
        if (threadIdx.x == 0) {                                                                    \
            x = scratch[0];                                                                        \
            for (int i = 1; i < warps; i++) {                                                      \
                type y = scratch[i];                                                               \
                x = joined;                                                                        \
            }                                                                                      \
            scratch[32] = x;                                                                       \
        }                                                                                          \
        __syncthreads();                                                                           \
        return scratch[32];                                                                        \
    }
ORR_BLOCK_REDUCTION(block_sum_f32, float, x + y)
ORR_BLOCK_REDUCTION(block_sum_f64, double, x + y)
ORR_BLOCK_REDUCTION(block_sum_i64, long long, x + y)
ORR_BLOCK_REDUCTION(block_max_f32, float, (y > x || y != y) ? y : x)
ORR_BLOCK_REDUCTION(block_max_f64, double, (y > x || y != y) ? y : x)
#undef ORR_BLOCK_REDUCTION

/* --- time --- */

DEVICE uint64_t device_clock_ns(struct lane lane) {
    uint64_t ns;
    (void)lane;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
DEVICE void device_pause(struct lane lane) {
    (void)lane;
    __nanosleep(100);
}

/* --- faults --- */

/* Keeps the first of faults that threads find (an index out of range): the backend fails the
 * command. `code` is of enum orr__cuda_fault_code, not 0. Whoever claims the code first may write
 * the rest; the host looks when the kernel has finished. */
DEVICE void fault_raise(struct lane lane, struct orr__cuda_fault *fault, int code, int64_t value,
                        int64_t bound) {
    const unsigned long long claimed = ~0ull;
    (void)lane;
    if (atomicCAS_system(&fault->code, (unsigned long long)ORR__FAULT_NONE, claimed) !=
        ORR__FAULT_NONE)
        return;
    fault->value = value;
    fault->bound = bound;
    __threadfence_system();
    atomicExch_system(&fault->code, (unsigned long long)code);
}

/* --- bits --- */

/* 1, 2, 4, 8 or 16 bytes, aligned to their number. */
DEVICE void move_bytes(void *to, const void *from, int bytes) {
    switch (bytes) {
    case 1: *(uint8_t *)to = *(const uint8_t *)from; break;
    case 2: *(uint16_t *)to = *(const uint16_t *)from; break;
    case 4: *(uint32_t *)to = *(const uint32_t *)from; break;
    case 8: *(uint64_t *)to = *(const uint64_t *)from; break;
    default: *(uint4 *)to = *(const uint4 *)from; break;
    }
}
DEVICE uint32_t f32_bits(float x) {
    return __float_as_uint(x);
}
DEVICE float f32_of_bits(uint32_t bits) {
    return __uint_as_float(bits);
}
DEVICE uint64_t f64_bits(double x) {
    return (uint64_t)__double_as_longlong(x);
}
DEVICE double f64_of_bits(uint64_t bits) {
    return __longlong_as_double((long long)bits);
}

/* --- elements --- */

/* A value of f32 rounded as if it had been stored as f32, f16 or bf16. */
DEVICE float round_f32(float x, int dtype) {
    switch (dtype) {
    case ORR_DTYPE_F16: return __half2float(__float2half_rn(x));
    case ORR_DTYPE_BF16: return __bfloat162float(__float2bfloat16_rn(x));
    default: return x;
    }
}

/* Element `i` of an array of floats of any kind, 8-bit ones too, as f32 or f64; and back, rounded
 * once, ties to even, 8-bit ones saturating. `dtype` is a constant wherever speed counts. */
DEVICE float f32_of_f8(uint8_t bits, __nv_fp8_interpretation_t kind) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, kind)));
}
DEVICE float load_f32(const void *from, int dtype, int64_t i) {
    switch (dtype) {
    case ORR_DTYPE_F32: return ((const float *)from)[i];
    case ORR_DTYPE_F16: return __half2float(((const __half *)from)[i]);
    case ORR_DTYPE_BF16: return __bfloat162float(((const __nv_bfloat16 *)from)[i]);
    case ORR_DTYPE_F8E4M3: return f32_of_f8(((const uint8_t *)from)[i], __NV_E4M3);
    case ORR_DTYPE_F8E5M2: return f32_of_f8(((const uint8_t *)from)[i], __NV_E5M2);
    default: return (float)((const double *)from)[i];
    }
}
DEVICE void store_f32(void *to, int dtype, int64_t i, float x) {
    switch (dtype) {
    case ORR_DTYPE_F32: ((float *)to)[i] = x; break;
    case ORR_DTYPE_F16: ((__half *)to)[i] = __float2half_rn(x); break;
    case ORR_DTYPE_BF16: ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn(x); break;
    case ORR_DTYPE_F8E4M3:
        ((uint8_t *)to)[i] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
        break;
    case ORR_DTYPE_F8E5M2:
        ((uint8_t *)to)[i] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
        break;
    default: ((double *)to)[i] = (double)x; break;
    }
}
/* Four elements of f32, f16 or bf16 from `i` on, aligned to four. */
DEVICE void load4_f32(const void *from, int dtype, int64_t i, float *x) {
    if (dtype == ORR_DTYPE_F32) {
        float4 four = *(const float4 *)((const float *)from + i);
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
        return;
    }
    uint2 four = *(const uint2 *)((const uint16_t *)from + i);
    const __half *halves = (const __half *)&four;
    const __nv_bfloat16 *brains = (const __nv_bfloat16 *)&four;
#pragma unroll
    for (int j = 0; j < 4; j++)
        x[j] = dtype == ORR_DTYPE_F16 ? __half2float(halves[j]) : __bfloat162float(brains[j]);
}
DEVICE void store4_f32(void *to, int dtype, int64_t i, const float *x) {
    if (dtype == ORR_DTYPE_F32) {
        *(float4 *)((float *)to + i) = make_float4(x[0], x[1], x[2], x[3]);
        return;
    }
    uint2 four;
    __half *halves = (__half *)&four;
    __nv_bfloat16 *brains = (__nv_bfloat16 *)&four;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (dtype == ORR_DTYPE_F16)
            halves[j] = __float2half_rn(x[j]);
        else
            brains[j] = __float2bfloat16_rn(x[j]);
    }
    *(uint2 *)((uint16_t *)to + i) = four;
}
DEVICE double load_f64(const void *from, int dtype, int64_t i) {
    return dtype == ORR_DTYPE_F64 ? ((const double *)from)[i] : (double)load_f32(from, dtype, i);
}
DEVICE void store_f64(void *to, int dtype, int64_t i, double x) {
    switch (dtype) {
    case ORR_DTYPE_F64: ((double *)to)[i] = x; break;
    case ORR_DTYPE_F16: ((__half *)to)[i] = __double2half(x); break;
    case ORR_DTYPE_BF16: ((__nv_bfloat16 *)to)[i] = __double2bfloat16(x); break;
    case ORR_DTYPE_F8E4M3:
        ((uint8_t *)to)[i] = __nv_cvt_double_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
        break;
    case ORR_DTYPE_F8E5M2:
        ((uint8_t *)to)[i] = __nv_cvt_double_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
        break;
    default: ((float *)to)[i] = (float)x; break;
    }
}

/* The same of integers and bool; a wider integer saturates, to bool it is "not zero". */
DEVICE int64_t load_i64(const void *from, int dtype, int64_t i) {
    switch (dtype) {
    case ORR_DTYPE_I32: return ((const int32_t *)from)[i];
    case ORR_DTYPE_BOOL: return ((const uint8_t *)from)[i] != 0;
    case ORR_DTYPE_I8: return ((const int8_t *)from)[i];
    default: return ((const int64_t *)from)[i];
    }
}
DEVICE void store_i64(void *to, int dtype, int64_t i, int64_t x) {
    switch (dtype) {
    case ORR_DTYPE_I32:
        ((int32_t *)to)[i] = (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
        break;
    case ORR_DTYPE_BOOL: ((uint8_t *)to)[i] = x != 0; break;
    case ORR_DTYPE_I8:
        ((int8_t *)to)[i] = (int8_t)(x > INT8_MAX ? INT8_MAX : x < INT8_MIN ? INT8_MIN : x);
        break;
    default: ((int64_t *)to)[i] = x; break;
    }
}

#endif
