/* Gradients of pointwise operators that are not plain chains of others: one kernel each over the
 * result's gradient and what the forward pass had, so that they fuse like any pointwise operator.
 *
 *     relu_backward, gelu_backward, silu_backward    grad, x: the operator's operand
 *     tanh_backward      grad, y: its result, because 1 - y^2 needs no tanh
 *     sigmoid_backward   grad, y: its result, as y (1 - y)
 *     maximum_backward   grad, difference = x - y; the first operand's part: all where it is
 *                        larger, half where both are equal, so that the two parts add up to grad
 *
 * The others need no row: exp is grad * y, log is grad / x, sqrt is grad / 2 / y, dropout is
 * dropout again.
 *
 * Cost as for the forward rows (pointwise.c): FLOPs are the operations of the formula as written
 * here, for each element; bytes are both operands once and the result once. */
#include "runtime/operators/pointwise_internal.h"

#include <math.h>

#define BACKWARD(name, type, expression)                                                           \
    static inline void name##_loop(const type *restrict a, const type *restrict b,                 \
                                   type *restrict out) {                                           \
        for (int i = 0; i < ORR__BLOCK; i++) {                                                     \
            type grad = a[i], x = b[i];                                                            \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name(const struct orr__block *block) {                                             \
        name##_loop(block->a, block->b, block->out);                                               \
    }

#define BACKWARD_LIBM(name, type, expression)                                                      \
    static void name(const struct orr__block *block) {                                             \
        const type *a = block->a, *b = block->b;                                                   \
        type *restrict out = block->out;                                                           \
        for (int i = 0; i < block->count; i++) {                                                   \
            type grad = a[i], x = b[i];                                                            \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }

/* At 0 the subgradient 0, as in PyTorch; a NaN operand lets the gradient through, as there. */
BACKWARD(relu_f32, float, x <= 0 ? 0 : grad)
BACKWARD(relu_f64, double, x <= 0 ? 0 : grad)
BACKWARD(tanh_f32, float, grad *(1 - x * x))
BACKWARD(tanh_f64, double, grad *(1 - x * x))
BACKWARD(sigmoid_f32, float, grad *(x *(1 - x)))
BACKWARD(sigmoid_f64, double, grad *(x *(1 - x)))
BACKWARD(maximum_f32, float, x > 0 ? grad : x == 0 ? grad * 0.5f : 0)
BACKWARD(maximum_f64, double, x > 0 ? grad : x == 0 ? grad * 0.5 : 0)

/* (x F(x))' = F(x) + x f(x), F and f the normal distribution's function and density. */
BACKWARD_LIBM(gelu_f32, float,
              grad *(0.5f * (1 + erff(x * 0.70710678f)) + x * (0.39894228f * expf(x * x * -0.5f))))
BACKWARD_LIBM(gelu_f64, double,
              grad *(0.5 * (1 + erf(x * 0.70710678118654752)) +
                     x * (0.39894228040143268 * exp(x * x * -0.5))))

/* (x s(x))' = s (1 + x (1 - s)), s the logistic function. */
static inline float silu_slope_f32(float x) {
    float s = 1 / (1 + expf(-x));
    return s * (1 + x * (1 - s));
}
static inline double silu_slope_f64(double x) {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}
BACKWARD_LIBM(silu_f32, float, grad *silu_slope_f32(x))
BACKWARD_LIBM(silu_f64, double, grad *silu_slope_f64(x))

static const struct orr__pointwise table[] = {
    {&orr__operator_relu_backward, ORR__FLOATS, 1, relu_f32, relu_f64, NULL},
    {&orr__operator_gelu_backward, ORR__FLOATS, 11, gelu_f32, gelu_f64, NULL},
    {&orr__operator_silu_backward, ORR__FLOATS, 9, silu_f32, silu_f64, NULL},
    {&orr__operator_tanh_backward, ORR__FLOATS, 3, tanh_f32, tanh_f64, NULL},
    {&orr__operator_sigmoid_backward, ORR__FLOATS, 3, sigmoid_f32, sigmoid_f64, NULL},
    {&orr__operator_maximum_backward, ORR__FLOATS, 2, maximum_f32, maximum_f64, NULL},
};

const struct orr__pointwise *orr__pointwise_backward_of(const struct orr_operator *op) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].op == op)
            return &table[i];
    return NULL;
}

static enum orr_status infer_backward(const struct orr_operator *op,
                                      const struct orr_operand_info *inputs, int input_count,
                                      struct orr_operand_info *out, struct orr_error *error) {
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    if (!orr_shape_equal(&inputs[0].shape, &inputs[1].shape))
        return orr__refuse(op, inputs, input_count, error, "expected equal shapes");
    *out = inputs[0];
    return ORR_OK;
}

static struct orr_cost cost_backward(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs,
                                     const struct orr_operand_info *outputs) {
    uint64_t count = (uint64_t)orr_shape_count(&outputs[0].shape);
    return (struct orr_cost){
        .flops = orr__times(count, (uint64_t)orr__pointwise_backward_of(op)->flops),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

static const char *const operand_names[] = {"grad", "x"};
static const char *const result_names[] = {"grad", "y"};
static const char *const difference_names[] = {"grad", "difference"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};

#define ROW(id, names)                                                                             \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        (void)attributes;                                                                          \
        return infer_backward(&orr__operator_##id, inputs, input_count, out_outputs, error);       \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)input_count;                                                                         \
        (void)attributes;                                                                          \
        return cost_backward(&orr__operator_##id, inputs, outputs);                                \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        struct orr__stage stage = {                                                                \
            .op = &orr__operator_##id, .attributes = attributes, .inputs = {0, 1}};                \
        return orr__pointwise_run(&stage, 1, inputs, input_count, &outputs[0], memory, error);     \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_POINTWISE,                                                           \
        .inputs_min = 2,                                                                           \
        .inputs_max = 2,                                                                           \
        .outputs = 1,                                                                              \
        .input_names = names,                                                                      \
        .attributes = no_attributes,                                                               \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_##id,                                                                   \
    };

ROW(relu_backward, operand_names)
ROW(gelu_backward, operand_names)
ROW(silu_backward, operand_names)
ROW(tanh_backward, result_names)
ROW(sigmoid_backward, result_names)
ROW(maximum_backward, difference_names)
