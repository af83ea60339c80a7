/* Kernels of source.h. */
#include "device.h"

#include "runtime/cuda/kernels/convert.h"
#include "runtime/cuda/kernels/source.h"

KERNEL(fill_bits, struct orr__k_fill) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        switch (a->size) {
        case 1: ((uint8_t *)a->to)[i] = (uint8_t)a->bits; break;
        case 2: ((uint16_t *)a->to)[i] = (uint16_t)a->bits; break;
        case 4: ((uint32_t *)a->to)[i] = (uint32_t)a->bits; break;
        default: ((uint64_t *)a->to)[i] = a->bits; break;
        }
    }
}

KERNEL(arange, struct orr__k_arange) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane))
        store_any_i64(a->to, a->dtype, i,
                      (int64_t)((uint64_t)a->start + (uint64_t)i * (uint64_t)a->step));
}

/* A uniform number has as many random bits as its dtype keeps, so that none rounds up to 1. */
KERNEL(draw_random, struct orr__k_random) {
    int kept = a->dtype == ORR_DTYPE_F64   ? 53
               : a->dtype == ORR_DTYPE_F32 ? 24
               : a->dtype == ORR_DTYPE_F16 ? 11
                                           : 8;
    double unit = 1 / (double)((uint64_t)1 << kept);
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        uint64_t bits = placed_bits(&a->placement, a->key, i);
        double x = a->normal ? random_normal(bits) : (double)(bits >> (64 - kept)) * unit;
        store_f64(a->to, a->dtype, i, x);
    }
}
