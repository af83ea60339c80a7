/* The words that kernels are written in, for a CPU: what runtime/cuda/kernels/gpu/device.h, which
 * explains them, is for the GPU. The threads of a block take turns: each runs until it
 * synchronizes, then the next one goes on (emulate.h).
 *
 * Threads: a kernel's blocks and threads are run by one thread of the CPU. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_EMULATED_DEVICE_H
#define ORR_SIM_FAKE_DEVICES_CUDA_EMULATED_DEVICE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/cuda/kernels/fault.h"
#include "runtime/dtype.h"
#include "sim/fake_devices/cuda/emulate.h"

#define DEVICE static inline __attribute__((unused))

#define ROLLED

#define KERNEL(name, type)                                                                         \
    static void name##_body(struct lane lane, const type *a);                                      \
    void orr__emulated_##name(struct lane lane, const void *argument);                             \
    void orr__emulated_##name(struct lane lane, const void *argument) {                            \
        name##_body(lane, (const type *)argument);                                                 \
    }                                                                                              \
    static void name##_body(struct lane lane, const type *a)

/* --- where a thread is --- */

DEVICE int thread_index(struct lane lane) {
    return lane.thread;
}
DEVICE int thread_count(struct lane lane) {
    return lane.threads;
}
DEVICE int64_t block_index(struct lane lane) {
    return lane.block;
}
DEVICE int64_t block_count(struct lane lane) {
    return lane.blocks;
}
DEVICE int64_t first_index(struct lane lane) {
    return lane.block * lane.threads + lane.thread;
}
DEVICE int64_t index_step(struct lane lane) {
    return lane.blocks * lane.threads;
}

/* --- a block's threads together --- */

DEVICE void block_sync(struct lane lane) {
    orr__emulated_sync(lane);
}

DEVICE void *shared_memory(struct lane lane) {
    return orr__emulated_shared(lane);
}

/* As on the GPU: within each warp of 32 in a tree, then warp after warp, by the first thread. */
#define ORR_BLOCK_REDUCTION(name, type, joined)                                                    \
    DEVICE type name##_join(type x, type y) {                                                      \
        return joined;                                                                             \
    }                                                                                              \
    DEVICE void name##_all(struct lane lane, type *slots, type *scratch) {                         \
        for (int warp = 0; warp < lane.threads / ORR_EMULATED_WARP; warp++) {                      \
            type *x = slots + warp * ORR_EMULATED_WARP;                                            \
            for (int step = ORR_EMULATED_WARP / 2; step > 0; step /= 2)                            \
                for (int i = 0; i < step; i++)                                                     \
                    x[i] = name##_join(x[i], x[i + step]);                                         \
            scratch[warp] = x[0];                                                                  \
        }                                                                                          \
        type sum = scratch[0];                                                                     \
        for (int warp = 1; warp < lane.threads / ORR_EMULATED_WARP; warp++)                        \
            sum = name##_join(sum, scratch[warp]);                                                 \
        scratch[ORR_EMULATED_WARP] = sum;                                                          \
    }                                                                                              \
    DEVICE type name(struct lane lane, type x, type neutral, type *scratch) {                      \
        (void)neutral;                                                                             \
        if (lane.threads == 1)                                                                     \
            return x;                                                                              \
        type *slots = orr__emulated_slots(lane);                                                   \
        slots[lane.thread] = x;                                                                    \
        block_sync(lane);                                                                          \
        if (lane.thread == 0)                                                                      \
            name##_all(lane, slots, scratch);                                                      \
        block_sync(lane);                                                                          \
        return scratch[ORR_EMULATED_WARP];                                                         \
    }
ORR_BLOCK_REDUCTION(block_sum_f32, float, x + y)
ORR_BLOCK_REDUCTION(block_sum_f64, double, x + y)
ORR_BLOCK_REDUCTION(block_sum_i64, long long,
                    (long long)((unsigned long long)x + (unsigned long long)y))
ORR_BLOCK_REDUCTION(block_max_f32, float, (y > x || y != y) ? y : x)
ORR_BLOCK_REDUCTION(block_max_f64, double, (y > x || y != y) ? y : x)
#undef ORR_BLOCK_REDUCTION

/* --- time --- */

DEVICE uint64_t device_clock_ns(struct lane lane) {
    return orr__emulated_now(lane);
}
DEVICE void device_pause(struct lane lane) {
    orr__emulated_pause(lane);
}

/* --- faults --- */

DEVICE void fault_raise(struct lane lane, struct orr__cuda_fault *fault, int code, int64_t value,
                        int64_t bound) {
    unsigned long long none = ORR__FAULT_NONE;
    (void)lane;
    if (!__atomic_compare_exchange_n(&fault->code, &none, ~0ull, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    fault->value = value;
    fault->bound = bound;
    __atomic_store_n(&fault->code, (unsigned long long)code, __ATOMIC_RELEASE);
}

/* --- bits --- */

DEVICE void move_bytes(void *to, const void *from, int bytes) {
    memcpy(to, from, (size_t)bytes);
}
DEVICE uint32_t f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
DEVICE float f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
DEVICE uint64_t f64_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
DEVICE double f64_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* --- elements --- */

DEVICE float round_f32(float x, int dtype) {
    switch (dtype) {
    case ORR_DTYPE_F16: return orr_f32_from_f16(orr_f16_from_f32(x));
    case ORR_DTYPE_BF16: return orr_f32_from_bf16(orr_bf16_from_f32(x));
    default: return x;
    }
}

DEVICE float load_f32(const void *from, int dtype, int64_t i) {
    switch (dtype) {
    case ORR_DTYPE_F32: return ((const float *)from)[i];
    case ORR_DTYPE_F16: return orr_f32_from_f16(((const uint16_t *)from)[i]);
    case ORR_DTYPE_BF16: return orr_f32_from_bf16(((const uint16_t *)from)[i]);
    case ORR_DTYPE_F8E4M3: return orr_f32_from_f8e4m3(((const uint8_t *)from)[i]);
    case ORR_DTYPE_F8E5M2: return orr_f32_from_f8e5m2(((const uint8_t *)from)[i]);
    default: return (float)((const double *)from)[i];
    }
}
DEVICE void store_f32(void *to, int dtype, int64_t i, float x) {
    switch (dtype) {
    case ORR_DTYPE_F32: ((float *)to)[i] = x; break;
    case ORR_DTYPE_F16: ((uint16_t *)to)[i] = orr_f16_from_f32(x); break;
    case ORR_DTYPE_BF16: ((uint16_t *)to)[i] = orr_bf16_from_f32(x); break;
    case ORR_DTYPE_F8E4M3: ((uint8_t *)to)[i] = orr_f8e4m3_from_f32(x); break;
    case ORR_DTYPE_F8E5M2: ((uint8_t *)to)[i] = orr_f8e5m2_from_f32(x); break;
    default: ((double *)to)[i] = (double)x; break;
    }
}
DEVICE void load4_f32(const void *from, int dtype, int64_t i, float *x) {
    for (int j = 0; j < 4; j++)
        x[j] = load_f32(from, dtype, i + j);
}
DEVICE void store4_f32(void *to, int dtype, int64_t i, const float *x) {
    for (int j = 0; j < 4; j++)
        store_f32(to, dtype, i + j, x[j]);
}
DEVICE double load_f64(const void *from, int dtype, int64_t i) {
    return dtype == ORR_DTYPE_F64 ? ((const double *)from)[i] : (double)load_f32(from, dtype, i);
}
DEVICE void store_f64(void *to, int dtype, int64_t i, double x) {
    orr_dtype_store((enum orr_dtype)dtype, to, (size_t)i, x);
}
DEVICE int64_t load_i64(const void *from, int dtype, int64_t i) {
    switch (dtype) {
    case ORR_DTYPE_I32: return ((const int32_t *)from)[i];
    case ORR_DTYPE_BOOL: return ((const uint8_t *)from)[i] != 0;
    case ORR_DTYPE_I8: return ((const int8_t *)from)[i];
    default: return ((const int64_t *)from)[i];
    }
}
DEVICE void store_i64(void *to, int dtype, int64_t i, int64_t x) {
    size_t size = orr_dtype_size((enum orr_dtype)dtype);
    orr_dtype_convert((enum orr_dtype)dtype, (char *)to + (size_t)i * size, ORR_DTYPE_I64, &x, 1);
}

#endif
