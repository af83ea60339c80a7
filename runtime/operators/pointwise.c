/* Rows of the pointwise operators: result element i needs operand elements i (after broadcasting)
 * and nothing else.
 *
 * Cost. FLOPs for each result element: one for every arithmetic operation and for every call of an
 * elementary function (exp, log, tanh, erf, sqrt) or comparison in the formula, as written in
 * pointwise_kernels.c. So exp is 1; gelu, x * 0.5 * (1 + erf(x * c)), is 5; silu,
 * x / (1 + exp(-x)), and sigmoid are 4. Real exponentials take more instructions, but these
 * operators are bound by memory on every device that we know, so the constant doesn't show. Bytes:
 * each operand once, the result once; an operand with fewer elements than the result goes to
 * bytes_broadcast. */
#include "runtime/operators/pointwise_internal.h"

#include <assert.h>

#include "runtime/operators/random_internal.h"

static enum orr_status infer_pointwise(const struct orr_operator *op,
                                       const struct orr_operand_info *inputs, int input_count,
                                       struct orr_operand_info *out, struct orr_error *error) {
    unsigned dtypes = orr__pointwise_of(op)->dtypes;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, dtypes, error);
    if (status != ORR_OK)
        return status;
    struct orr_operand_info result = inputs[0];
    if (input_count == 2 &&
        orr_shape_broadcast(&inputs[0].shape, &inputs[1].shape, &result.shape) != ORR_OK)
        return orr__refuse(op, inputs, input_count, error,
                           "shapes don't broadcast: from the right, dimensions must be equal or 1");
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        *out = result;
    return status;
}

static struct orr_cost cost_pointwise(const struct orr_operator *op,
                                      const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_operand_info *outputs) {
    uint64_t count = (uint64_t)orr_shape_count(&outputs[0].shape);
    struct orr_cost cost = {
        .flops = orr__times(count, (uint64_t)orr__pointwise_of(op)->flops),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 0; i < input_count; i++)
        orr__charge_operand(&cost, &inputs[i], &outputs[0]);
    return cost;
}

static enum orr_status compute_pointwise(const struct orr_operator *op,
                                         const struct orr_tensor_view *inputs, int input_count,
                                         const struct orr_attributes *attributes,
                                         const struct orr_tensor_view *outputs,
                                         const struct orr_memory *memory, struct orr_error *error) {
    struct orr__stage stage = {.op = op, .attributes = attributes, .inputs = {0, input_count - 1}};
    return orr__pointwise_run(&stage, 1, inputs, input_count, &outputs[0], memory, error);
}

static const char *const unary_names[] = {"x"};
static const char *const binary_names[] = {"x", "y"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};
static const struct orr_attribute_spec scale_attributes[] = {
    {.name = "alpha", .kind = ORR_ATTRIBUTE_REAL, .required = true},
    {.name = NULL},
};
static const struct orr_attribute_spec dropout_attributes[] = {
    {.name = "p", .kind = ORR_ATTRIBUTE_REAL, .real = 0.5},
    {.name = "seed", .kind = ORR_ATTRIBUTE_INT},
    {.name = "global_shape",
     .kind = ORR_ATTRIBUTE_SHAPE,
     .local = ORR_LOCAL_WHOLE,
     .of = ORR_OF_RESULT},
    {.name = "starts", .kind = ORR_ATTRIBUTE_SHAPE, .local = ORR_LOCAL_START, .of = ORR_OF_RESULT},
    {.name = NULL},
};

/* cost and compute of a row, which differ in the row only. */
#define COST_AND_COMPUTE(id)                                                                       \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)attributes;                                                                          \
        return cost_pointwise(&orr__operator_##id, inputs, input_count, outputs);                  \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        return compute_pointwise(&orr__operator_##id, inputs, input_count, attributes, outputs,    \
                                 memory, error);                                                   \
    }

#define ROW(id, inputs, names, attribute_list)                                                     \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_POINTWISE,                                                           \
        .inputs_min = inputs,                                                                      \
        .inputs_max = inputs,                                                                      \
        .outputs = 1,                                                                              \
        .input_names = names,                                                                      \
        .attributes = attribute_list,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_##id,                                                                   \
    };

#define POINTWISE(id, inputs, names, attribute_list)                                               \
    static enum orr_status infer_##id(const struct orr_operand_info *operands, int input_count,    \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        (void)attributes;                                                                          \
        return infer_pointwise(&orr__operator_##id, operands, input_count, out_outputs, error);    \
    }                                                                                              \
    COST_AND_COMPUTE(id)                                                                           \
    ROW(id, inputs, names, attribute_list)

POINTWISE(add, 2, binary_names, no_attributes)
POINTWISE(sub, 2, binary_names, no_attributes)
POINTWISE(mul, 2, binary_names, no_attributes)
POINTWISE(div, 2, binary_names, no_attributes)
POINTWISE(maximum, 2, binary_names, no_attributes)
POINTWISE(relu, 1, unary_names, no_attributes)
POINTWISE(gelu, 1, unary_names, no_attributes)
POINTWISE(silu, 1, unary_names, no_attributes)
POINTWISE(exp, 1, unary_names, no_attributes)
POINTWISE(log, 1, unary_names, no_attributes)
POINTWISE(tanh, 1, unary_names, no_attributes)
POINTWISE(sigmoid, 1, unary_names, no_attributes)
POINTWISE(neg, 1, unary_names, no_attributes)
POINTWISE(scale, 1, unary_names, scale_attributes)
POINTWISE(sqrt, 1, unary_names, no_attributes)

/* Dropout keeps an element with probability 1 - p and scales it by 1 / (1 - p); which ones are kept
 * depends on the seed and the element's index only, so its backward pass is the same operator. */
static enum orr_status infer_dropout(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     struct orr_operand_info *out_outputs,
                                     struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_dropout;
    double p = attributes->values[0].real;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    if (!(p >= 0 && p <= 1))
        return orr__refuse(op, inputs, input_count, error, "p is %g, expected 0 to 1", p);
    status =
        orr__check_placement(op, inputs, input_count, &inputs[0].shape,
                             &attributes->values[2].shape, &attributes->values[3].shape, error);
    if (status == ORR_OK)
        out_outputs[0] = inputs[0];
    return status;
}

COST_AND_COMPUTE(dropout)
ROW(dropout, 1, unary_names, dropout_attributes)
