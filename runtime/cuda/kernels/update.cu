/* Kernels of update.h. */
#include "device.h"

#include "runtime/cuda/kernels/update.h"

DEVICE float root_f32(float x) {
    return sqrtf(x);
}
DEVICE double root_f64(double x) {
    return sqrt(x);
}

#define UPDATE(suffix, type)                                                                       \
    KERNEL(update_##suffix, struct orr__k_update) {                                                \
        type lr = (type)a->lr, decay = (type)a->decay, b1 = (type)a->beta1, b2 = (type)a->beta2;   \
        for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {                 \
            type p = load_##suffix(a->from[0], a->dtypes[0], i);                                   \
            type g = load_##suffix(a->from[1], a->dtypes[1], i);                                   \
            type m = a->from[2] ? load_##suffix(a->from[2], a->dtypes[2], i) : 0;                  \
            type v = a->from[3] ? load_##suffix(a->from[3], a->dtypes[3], i) : 0;                  \
            if (a->rule == ORR__UPDATE_SGD) {                                                      \
                p -= lr * (g + decay * p);                                                         \
            } else if (a->rule == ORR__UPDATE_MOMENTUM) {                                          \
                type slope = g + decay * p;                                                        \
                m = b1 * m + slope;                                                                \
                p -= lr * (a->nesterov ? slope + b1 * m : m);                                      \
            } else {                                                                               \
                m = b1 * m + (type)a->rest1 * g;                                                   \
                v = b2 * v + (type)a->rest2 * (g * g);                                             \
                p = decay * p -                                                                    \
                    lr * (m * (type)a->up1 / (root_##suffix(v * (type)a->up2) + (type)a->eps));    \
            }                                                                                      \
            store_##suffix(a->to[0], a->dtypes[0], i, p);                                          \
            if (a->to[1])                                                                          \
                store_##suffix(a->to[1], a->dtypes[1], i, p);                                      \
            if (a->to[2])                                                                          \
                store_##suffix(a->to[2], a->dtypes[2], i, m);                                      \
            if (a->to[3])                                                                          \
                store_##suffix(a->to[3], a->dtypes[3], i, v);                                      \
        }                                                                                          \
    }
UPDATE(f32, float)
UPDATE(f64, double)
