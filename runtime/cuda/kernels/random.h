/* Random numbers in kernels: SplitMix64 (runtime/splitmix.h) and what rand, randn and dropout make
 * of it (runtime/operators/random_internal.h), bit for bit: integers, and f64 with + - * / and sqrt
 * that are rounded one by one. Families that include this are compiled without fused
 * multiply-add. Included behind device.h. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_RANDOM_H
#define ORR_RUNTIME_CUDA_KERNELS_RANDOM_H

#include "runtime/cuda/kernels/strided.h"

/* Which element of the global tensor a local one is: strides of that one, index of the first. */
struct orr__k_placement {
    uint64_t base;
    struct orr__k_strided part; /* rank 0: the index is the local one */
};

#ifdef DEVICE
#define SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

DEVICE uint64_t splitmix_mix(uint64_t z) {
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

DEVICE uint64_t splitmix_at(uint64_t state, uint64_t index) {
    return splitmix_mix(state + (index + 1) * SPLITMIX_STEP);
}

/* 64 random bits of local element `i`. */
DEVICE uint64_t placed_bits(const struct orr__k_placement *placement, uint64_t key, int64_t i) {
    uint64_t index =
        placement->part.rank ? (uint64_t)strided_offset(&placement->part, i) : (uint64_t)i;
    return splitmix_at(key, placement->base + index);
}

/* Natural logarithm of a normal number in (0, 1]: orr__random_log. */
DEVICE double random_log(double x) {
    uint64_t bits = f64_bits(x);
    int exponent = (int)(bits >> 52) - 1023;
    double mantissa = f64_of_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52);
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent++;
    }
    double s = (mantissa - 1) / (mantissa + 1), s2 = s * s, series = 0;
    for (int odd = 15; odd > 0; odd -= 2)
        series = series * s2 + 1.0 / odd;
    return (double)exponent * 0.69314718055994531 + 2 * s * series;
}

/* AS 241 PPND7: orr__random_normals. */
DEVICE double random_normal(uint64_t bits) {
    int64_t k = (int64_t)(bits >> 11) - ((int64_t)1 << 52);
    double q = ((double)k + 0.5) * (1.0 / 9007199254740992.0);
    double magnitude = q < 0 ? -q : q;
    if (magnitude <= 0.425) {
        double r = 0.180625 - q * q;
        return q *
               (((5.9109374720e1 * r + 1.5929113202e2) * r + 5.0434271938e1) * r + 3.3871327179) /
               (((6.7187563600e1 * r + 7.8757757664e1) * r + 1.7895169469e1) * r + 1);
    }
    double r = sqrt(-random_log(0.5 - magnitude)), tail;
    if (r <= 5) {
        r -= 1.6;
        tail = (((1.7023821103e-1 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
               ((1.2021132975e-1 * r + 7.3700164250e-1) * r + 1);
    } else {
        r -= 5;
        tail = (((1.7337203997e-2 * r + 4.2868294337e-1) * r + 3.0812263860) * r + 6.6579051150) /
               ((1.2258202635e-2 * r + 2.4197894225e-1) * r + 1);
    }
    return q < 0 ? -tail : tail;
}
#endif

#endif
