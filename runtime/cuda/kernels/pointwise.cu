/* Kernels of pointwise.h. The formulas are those of runtime/operators/pointwise_kernels.c and
 * backward_pointwise.c. */
#include "device.h"

#include "runtime/cuda/kernels/pointwise.h"
#include "runtime/cuda/kernels/random.h"

enum { VECTOR = ORR__K_VECTOR };

/* Offset of the element with row-major index `i`. */
DEVICE int64_t offset_in(const int64_t *dims, const int64_t *strides, int rank, int small,
                         int64_t i) {
    int64_t offset = 0;
    for (int dim = rank - 1; dim > 0; dim--) {
        int64_t at;
        if (small) {
            uint32_t length = (uint32_t)dims[dim];
            at = (int64_t)((uint32_t)i % length);
            i = (int64_t)((uint32_t)i / length);
        } else {
            at = i % dims[dim];
            i /= dims[dim];
        }
        offset += at * strides[dim];
    }
    return rank > 0 ? offset + i * strides[0] : 0;
}

DEVICE int64_t operand_index(const struct orr__k_pointwise *a, const struct orr__k_operand *operand,
                             int64_t i) {
    if (operand->kind == ORR__K_DENSE)
        return i;
    return operand->kind == ORR__K_SINGLE
               ? 0
               : offset_in(a->dims, operand->strides, a->rank, a->small, i);
}

DEVICE bool dropout_keeps(const struct orr__k_pointwise *a, const struct orr__k_stage *stage,
                          int64_t i) {
    uint64_t index =
        stage->base + (uint64_t)offset_in(a->dims, stage->strides, a->rank, a->small, i);
    return splitmix_at(stage->key, index) >> 11 >= stage->threshold;
}

/* ---- Floats of 16 and 32 bits ---- */

#define UNARY(expression)                                                                          \
    for (int v = 0; v < VECTOR; v++) {                                                             \
        float x = xs[v];                                                                           \
        out[v] = expression;                                                                       \
    }                                                                                              \
    break
#define BINARY(expression)                                                                         \
    for (int v = 0; v < VECTOR; v++) {                                                             \
        float x = xs[v], y = ys[v];                                                                \
        out[v] = expression;                                                                       \
    }                                                                                              \
    break

DEVICE float silu_slope_f32(float x) {
    float s = 1 / (1 + expf(-x));
    return s * (1 + x * (1 - s));
}

DEVICE float gelu_slope_f32(float x) {
    return 0.5f * (1 + erff(x * 0.70710678f)) + x * (0.39894228f * expf(x * x * -0.5f));
}

/* `out` may be xs or ys. */
DEVICE void apply_f32(const struct orr__k_pointwise *a, const struct orr__k_stage *stage, int64_t i,
                      const float *xs, const float *ys, float *out) {
    float factor = (float)stage->factor;
    switch (stage->op) {
    case ORR__P_add: BINARY(x + y);
    case ORR__P_sub: BINARY(x - y);
    case ORR__P_mul: BINARY(x * y);
    case ORR__P_div: BINARY(x / y);
    case ORR__P_maximum: BINARY(x != x || x > y ? x : y);
    case ORR__P_relu_backward: BINARY(y <= 0 ? 0 : x);
    case ORR__P_gelu_backward: BINARY(x * gelu_slope_f32(y));
    case ORR__P_silu_backward: BINARY(x * silu_slope_f32(y));
    case ORR__P_tanh_backward: BINARY(x * (1 - y * y));
    case ORR__P_sigmoid_backward: BINARY(x * (y * (1 - y)));
    case ORR__P_maximum_backward: BINARY(y > 0 ? x : y == 0 ? x * 0.5f : 0);
    case ORR__P_relu: UNARY(x < 0 ? 0 : x);
    case ORR__P_gelu: UNARY(x * 0.5f * (1 + erff(x * 0.70710678f)));
    case ORR__P_silu: UNARY(x / (1 + expf(-x)));
    case ORR__P_exp: UNARY(expf(x));
    case ORR__P_log: UNARY(logf(x));
    case ORR__P_tanh: UNARY(tanhf(x));
    case ORR__P_sigmoid: UNARY(1 / (1 + expf(-x)));
    case ORR__P_neg: UNARY(-x);
    case ORR__P_scale: UNARY(x * factor);
    case ORR__P_sqrt: UNARY(sqrtf(x));
    default: UNARY(dropout_keeps(a, stage, i + v) ? x * factor : 0);
    }
}

/* Four elements of an operand from result element `i` on; beyond `count` zeros. */
DEVICE void fetch_f32(const struct orr__k_pointwise *a, const struct orr__k_operand *operand,
                      int64_t i, int count, float *x) {
    if (operand->kind == ORR__K_DENSE && count == VECTOR && a->vectors) {
        load4_f32(operand->data, a->dtype, i, x);
        return;
    }
    for (int v = 0; v < VECTOR; v++)
        x[v] = v < count ? load_f32(operand->data, a->dtype, operand_index(a, operand, i + v)) : 0;
}

/* The value of a slot: an operand's, the last stage's result, or one that was kept. */
DEVICE void slot_f32(const struct orr__k_pointwise *a, int slot, int stage, int64_t i, int count,
                     const float *last, float (*kept)[VECTOR], float *x) {
    if (slot >= 0) {
        fetch_f32(a, &a->operands[slot], i, count, x);
        return;
    }
    for (int v = 0; v < VECTOR; v++)
        x[v] = slot == -stage ? last[v] : kept[-1 - slot][v];
}

KERNEL(pointwise_f32, struct orr__k_pointwise) {
    float kept[ORR__K_STAGES_MAX][VECTOR], last[VECTOR] = {0}, x[VECTOR], y[VECTOR];
    for (int64_t i = first_index(lane) * VECTOR; i < a->count; i += index_step(lane) * VECTOR) {
        int count = a->count - i < VECTOR ? (int)(a->count - i) : VECTOR;
        for (int s = 0; s < a->stage_count; s++) {
            const struct orr__k_stage *stage = &a->stages[s];
            slot_f32(a, stage->a, s, i, count, last, kept, x);
            if (stage->op < ORR__P_BINARY_COUNT)
                slot_f32(a, stage->b, s, i, count, last, kept, y);
            apply_f32(a, stage, i, x, stage->op < ORR__P_BINARY_COUNT ? y : x, last);
            for (int v = 0; v < VECTOR; v++) {
                last[v] = round_f32(last[v], a->dtype);
                if (stage->keep)
                    kept[s][v] = last[v];
            }
        }
        if (count == VECTOR && a->vectors)
            store4_f32(a->out, a->dtype, i, last);
        else
            for (int v = 0; v < VECTOR; v++)
                if (v < count)
                    store_f32(a->out, a->dtype, i + v, last[v]);
    }
}

/* ---- f64 ---- */

DEVICE double silu_slope_f64(double x) {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

DEVICE double gelu_slope_f64(double x) {
    return 0.5 * (1 + erf(x * 0.70710678118654752)) + x * (0.39894228040143268 * exp(x * x * -0.5));
}

DEVICE double apply_f64(const struct orr__k_pointwise *a, const struct orr__k_stage *stage,
                        int64_t i, double x, double y) {
    switch (stage->op) {
    case ORR__P_add: return x + y;
    case ORR__P_sub: return x - y;
    case ORR__P_mul: return x * y;
    case ORR__P_div: return x / y;
    case ORR__P_maximum: return x != x || x > y ? x : y;
    case ORR__P_relu_backward: return y <= 0 ? 0 : x;
    case ORR__P_gelu_backward: return x * gelu_slope_f64(y);
    case ORR__P_silu_backward: return x * silu_slope_f64(y);
    case ORR__P_tanh_backward: return x * (1 - y * y);
    case ORR__P_sigmoid_backward: return x * (y * (1 - y));
    case ORR__P_maximum_backward: return y > 0 ? x : y == 0 ? x * 0.5 : 0;
    case ORR__P_relu: return x < 0 ? 0 : x;
    case ORR__P_gelu: return x * 0.5 * (1 + erf(x * 0.70710678118654752));
    case ORR__P_silu: return x / (1 + exp(-x));
    case ORR__P_exp: return exp(x);
    case ORR__P_log: return log(x);
    case ORR__P_tanh: return tanh(x);
    case ORR__P_sigmoid: return 1 / (1 + exp(-x));
    case ORR__P_neg: return -x;
    case ORR__P_scale: return x * stage->factor;
    case ORR__P_sqrt: return sqrt(x);
    default: return dropout_keeps(a, stage, i) ? x * stage->factor : 0;
    }
}

KERNEL(pointwise_f64, struct orr__k_pointwise) {
    double kept[ORR__K_STAGES_MAX], last = 0, xy[2];
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        for (int s = 0; s < a->stage_count; s++) {
            const struct orr__k_stage *stage = &a->stages[s];
            for (int j = 0; j < 2; j++) {
                int slot = j == 0 ? stage->a : stage->b;
                const struct orr__k_operand *operand = &a->operands[slot < 0 ? 0 : slot];
                xy[j] = slot >= 0    ? ((const double *)operand->data)[operand_index(a, operand, i)]
                        : slot == -s ? last
                                     : kept[-1 - slot];
            }
            last = apply_f64(a, stage, i, xy[0], xy[1]);
            if (stage->keep)
                kept[s] = last;
        }
        ((double *)a->out)[i] = last;
    }
}

/* ---- Integers ---- */

/* They wrap around. */
DEVICE int64_t apply_i64(int op, int64_t x, int64_t y) {
    switch (op) {
    case ORR__P_add: return (int64_t)((uint64_t)x + (uint64_t)y);
    case ORR__P_sub: return (int64_t)((uint64_t)x - (uint64_t)y);
    case ORR__P_mul: return (int64_t)((uint64_t)x * (uint64_t)y);
    case ORR__P_maximum: return x > y ? x : y;
    case ORR__P_relu: return x < 0 ? 0 : x;
    default: return (int64_t)(0u - (uint64_t)x); /* neg */
    }
}

KERNEL(pointwise_i64, struct orr__k_pointwise) {
    int64_t kept[ORR__K_STAGES_MAX], last = 0, xy[2];
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        for (int s = 0; s < a->stage_count; s++) {
            const struct orr__k_stage *stage = &a->stages[s];
            for (int j = 0; j < 2; j++) {
                int slot = j == 0 ? stage->a : stage->b;
                const struct orr__k_operand *operand = &a->operands[slot < 0 ? 0 : slot];
                xy[j] = slot >= 0 ? load_i64(operand->data, a->dtype, operand_index(a, operand, i))
                        : slot == -s ? last
                                     : kept[-1 - slot];
            }
            last = apply_i64(stage->op, xy[0], xy[1]);
            if (a->dtype == ORR_DTYPE_I32)
                last = (int32_t)(uint32_t)(uint64_t)last;
            if (stage->keep)
                kept[s] = last;
        }
        store_i64(a->out, a->dtype, i, last);
    }
}

/* ---- Dropout with a mask ---- */

KERNEL(dropout_mask, struct orr__k_dropout_mask) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        bool keeps;
        if (a->reads) {
            keeps = a->mask[i] != 0;
        } else {
            uint64_t index =
                a->base + (uint64_t)offset_in(a->dims, a->strides, a->rank, a->small, i);
            keeps = splitmix_at(a->key, index) >> 11 >= a->threshold;
            a->mask[i] = keeps;
        }
        if (a->dtype == ORR_DTYPE_F64)
            ((double *)a->y)[i] = keeps ? ((const double *)a->x)[i] * a->factor : 0;
        else
            store_f32(a->y, a->dtype, i,
                      keeps ? load_f32(a->x, a->dtype, i) * (float)a->factor : 0);
    }
}
