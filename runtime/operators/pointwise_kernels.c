/* Kernels over blocks. A loop of known length whose result cannot overlap its operands becomes
 * vector code in both compilers at -O2 (gcc believes `restrict` of parameters only, so each loop is
 * a function); those that call libm run over `count` elements only. */
#include "runtime/operators/pointwise_internal.h"

#include <math.h>
#include <string.h>

#include "runtime/operators/random_internal.h"

#define BINARY(name, type, expression)                                                             \
    static inline void name##_loop(const type *restrict a, const type *restrict b,                 \
                                   type *restrict out) {                                           \
        for (int i = 0; i < ORR__BLOCK; i++) {                                                     \
            type x = a[i], y = b[i];                                                               \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name(const struct orr__block *block) {                                             \
        name##_loop(block->a, block->b, block->out);                                               \
    }

#define UNARY(name, type, expression)                                                              \
    static inline void name##_loop(const type *restrict a, type *restrict out) {                   \
        for (int i = 0; i < ORR__BLOCK; i++) {                                                     \
            type x = a[i];                                                                         \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name(const struct orr__block *block) {                                             \
        name##_loop(block->a, block->out);                                                         \
    }

#define UNARY_LIBM(name, type, expression)                                                         \
    static void name(const struct orr__block *block) {                                             \
        const type *restrict a = block->a;                                                         \
        type *restrict out = block->out;                                                           \
        for (int i = 0; i < block->count; i++) {                                                   \
            type x = a[i];                                                                         \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }

BINARY(add_f32, float, x + y)
BINARY(add_f64, double, x + y)
BINARY(sub_f32, float, x - y)
BINARY(sub_f64, double, x - y)
BINARY(mul_f32, float, x *y)
BINARY(mul_f64, double, x *y)
BINARY(div_f32, float, x / y)
BINARY(div_f64, double, x / y)
/* A NaN in either operand comes through, as in numpy and PyTorch. */
BINARY(maximum_f32, float, x != x || x > y ? x : y)
BINARY(maximum_f64, double, x != x || x > y ? x : y)

/* Integers wrap around: two's complement, without the undefined behaviour of signed overflow. */
BINARY(add_i64, uint64_t, x + y)
BINARY(sub_i64, uint64_t, x - y)
BINARY(mul_i64, uint64_t, x *y)
BINARY(maximum_i64, int64_t, x > y ? x : y)
UNARY(neg_i64, uint64_t, 0u - x)
UNARY(relu_i64, int64_t, x < 0 ? 0 : x)

UNARY(relu_f32, float, x < 0 ? 0 : x)
UNARY(relu_f64, double, x < 0 ? 0 : x)
UNARY(neg_f32, float, -x)
UNARY(neg_f64, double, -x)
UNARY(sqrt_f32, float, sqrtf(x))
UNARY(sqrt_f64, double, sqrt(x))

UNARY_LIBM(exp_f32, float, expf(x))
UNARY_LIBM(exp_f64, double, exp(x))
UNARY_LIBM(log_f32, float, logf(x))
UNARY_LIBM(log_f64, double, log(x))
UNARY_LIBM(tanh_f32, float, tanhf(x))
UNARY_LIBM(tanh_f64, double, tanh(x))
UNARY_LIBM(sigmoid_f32, float, 1 / (1 + expf(-x)))
UNARY_LIBM(sigmoid_f64, double, 1 / (1 + exp(-x)))
/* GELU with the error function (Hendrycks and Gimpel, 2016), not the tanh approximation. */
UNARY_LIBM(gelu_f32, float, x * 0.5f * (1 + erff(x * 0.70710678f)))
UNARY_LIBM(gelu_f64, double, x * 0.5 * (1 + erf(x * 0.70710678118654752)))
/* SiLU: x times its logistic function (Elfwing, Uchibe, Doya, 2018). */
UNARY_LIBM(silu_f32, float, x / (1 + expf(-x)))
UNARY_LIBM(silu_f64, double, x / (1 + exp(-x)))

#define SCALE(name, type)                                                                          \
    static inline void name##_loop(const type *restrict a, type alpha, type *restrict out) {       \
        for (int i = 0; i < ORR__BLOCK; i++)                                                       \
            out[i] = a[i] * alpha;                                                                 \
    }                                                                                              \
    static void name(const struct orr__block *block) {                                             \
        name##_loop(block->a, (type)block->attributes->values[0].real, block->out);                \
    }
SCALE(scale_f32, float)
SCALE(scale_f64, double)

/* ---- Dropout ---- */

/* Attributes: p, seed, global_shape, starts. The choice is a mask: a branch would be mispredicted
 * as often as p says. */
struct dropout {
    double p;
    uint64_t key, threshold;
    struct orr__placement placement;
};

static struct dropout dropout_of(const struct orr__block *block) {
    const struct orr_attribute *values = block->attributes->values;
    return (struct dropout){
        .p = values[0].real,
        .key = orr__random_key((uint64_t)values[1].integer),
        .threshold = orr__dropout_threshold(values[0].real),
        .placement = orr__placement_of(block->shape, &values[2].shape, &values[3].shape),
    };
}

/* masks[i] is all ones if element i is kept. */
static void dropout_masks(const struct dropout *dropout, const struct orr__block *block,
                          uint64_t *masks) {
    orr__placement_indices(&dropout->placement, block->first, block->count, masks);
    for (int i = 0; i < block->count; i++) {
        uint64_t bits = orr__random_bits(dropout->key, masks[i]) >> 11;
        masks[i] = 0u - (uint64_t)(bits >= dropout->threshold);
    }
}

#define DROPOUT(name, type, bits_type)                                                             \
    static void name(const struct orr__block *block) {                                             \
        const type *a = block->a;                                                                  \
        type *restrict out = block->out;                                                           \
        struct dropout dropout = dropout_of(block);                                                \
        type factor = dropout.p < 1 ? (type)(1 / (1 - dropout.p)) : 0;                             \
        uint64_t masks[ORR__BLOCK];                                                                \
        dropout_masks(&dropout, block, masks);                                                     \
        for (int i = 0; i < block->count; i++) {                                                   \
            type scaled = a[i] * factor;                                                           \
            bits_type bits;                                                                        \
            memcpy(&bits, &scaled, sizeof bits);                                                   \
            bits &= (bits_type)masks[i];                                                           \
            memcpy(&out[i], &bits, sizeof bits);                                                   \
        }                                                                                          \
    }
DROPOUT(dropout_f32, float, uint32_t)
DROPOUT(dropout_f64, double, uint64_t)

/* ---- The table ---- */

static const struct orr__pointwise table[] = {
    {&orr__operator_add, ORR__NUMBERS, 1, add_f32, add_f64, add_i64},
    {&orr__operator_sub, ORR__NUMBERS, 1, sub_f32, sub_f64, sub_i64},
    {&orr__operator_mul, ORR__NUMBERS, 1, mul_f32, mul_f64, mul_i64},
    {&orr__operator_div, ORR__FLOATS, 1, div_f32, div_f64, NULL},
    {&orr__operator_maximum, ORR__NUMBERS, 1, maximum_f32, maximum_f64, maximum_i64},
    {&orr__operator_relu, ORR__NUMBERS, 1, relu_f32, relu_f64, relu_i64},
    {&orr__operator_gelu, ORR__FLOATS, 5, gelu_f32, gelu_f64, NULL},
    {&orr__operator_silu, ORR__FLOATS, 4, silu_f32, silu_f64, NULL},
    {&orr__operator_exp, ORR__FLOATS, 1, exp_f32, exp_f64, NULL},
    {&orr__operator_log, ORR__FLOATS, 1, log_f32, log_f64, NULL},
    {&orr__operator_tanh, ORR__FLOATS, 1, tanh_f32, tanh_f64, NULL},
    {&orr__operator_sigmoid, ORR__FLOATS, 4, sigmoid_f32, sigmoid_f64, NULL},
    {&orr__operator_neg, ORR__NUMBERS, 1, neg_f32, neg_f64, neg_i64},
    {&orr__operator_scale, ORR__FLOATS, 1, scale_f32, scale_f64, NULL},
    {&orr__operator_sqrt, ORR__FLOATS, 1, sqrt_f32, sqrt_f64, NULL},
    {&orr__operator_dropout, ORR__FLOATS, 1, dropout_f32, dropout_f64, NULL},
};

const struct orr__pointwise *orr__pointwise_of(const struct orr_operator *op) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].op == op)
            return &table[i];
    return orr__pointwise_backward_of(op);
}
