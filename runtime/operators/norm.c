/* softmax, layernorm and rmsnorm, along the last dimension.
 *
 * Each row is converted to f32 (f64 for f64), worked on there with sums in f64, and rounded once.
 *
 * Cost. FLOPs for each element, one for every operation and elementary function of the formula;
 * what is done once a row is left out:
 *   softmax    5: maximum, subtract, exp, add, divide; with a causal mask, of what a row sees
 *   layernorm  6: add (mean); subtract, multiply, add (variance); subtract, scale; weight and bias
 *              add 1 each
 *   rmsnorm    3: multiply, add, scale; weight adds 1
 * Bytes: x once, the result once (one pass; a row fits in a block's shared memory, as in the fused
 * kernels of every framework); weight and bias in bytes_broadcast. What a causal mask hides is
 * written as 0 and not read (as scaled_upper_triang_masked_softmax in Megatron-LM does). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/rows_internal.h"

enum norm_kind { NORM_SOFTMAX, NORM_LAYER, NORM_RMS };
enum { SOFTMAX_CAUSAL, SOFTMAX_START, SOFTMAX_WHOLE };

/* Row i of each matrix sees its first `seen + i` elements; without a mask `rows` is 0. */
struct mask {
    int64_t rows, seen;
};

/* x has a last dimension; weight and bias, if given, are [last]. */
static enum orr_status infer_norm(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count,
                                  double eps, struct orr_operand_info *out,
                                  struct orr_error *error) {
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    if (x->rank < 1)
        return orr__refuse(op, inputs, input_count, error, "expected at least 1 dimension");
    int64_t width = x->dims[x->rank - 1];
    for (int i = 1; i < input_count; i++)
        if (inputs[i].shape.rank != 1 || inputs[i].shape.dims[0] != width)
            return orr__refuse(op, inputs, input_count, error,
                               "expected %s [%" PRId64 "], the last dimension of x",
                               op->input_names[i], width);
    if (!(eps >= 0))
        return orr__refuse(op, inputs, input_count, error, "eps is %g, expected 0 or more", eps);
    *out = inputs[0];
    return ORR_OK;
}

static struct orr_cost cost_norm(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_operand_info *outputs, int flops) {
    uint64_t count = (uint64_t)orr_shape_count(&outputs[0].shape);
    struct orr_cost cost = {
        .flops = orr__times(count, (uint64_t)(flops + input_count - 1)),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 0; i < input_count; i++)
        orr__charge_operand(&cost, &inputs[i], &outputs[0]);
    return cost;
}

/* Row functions for one type. weight and bias may be NULL. */
#define NORM_ROWS(type, suffix)                                                                    \
    static void softmax_##suffix(type *row, int64_t count) {                                       \
        type factor = (type)(1 / orr__row_exp_##suffix(row, count, 1));                            \
        for (int64_t i = 0; i < count; i++)                                                        \
            row[i] *= factor;                                                                      \
    }                                                                                              \
    static void affine_##suffix(type *row, int64_t count, type center, type factor,                \
                                const type *weight, const type *bias) {                            \
        for (int64_t i = 0; i < count; i++)                                                        \
            row[i] = (row[i] - center) * factor;                                                   \
        for (int64_t i = 0; weight && i < count; i++)                                              \
            row[i] *= weight[i];                                                                   \
        for (int64_t i = 0; bias && i < count; i++)                                                \
            row[i] += bias[i];                                                                     \
    }                                                                                              \
    static void norm_##suffix(enum norm_kind kind, void *row_data, int64_t count, double eps,      \
                              const void *weight, const void *bias) {                              \
        type *row = row_data;                                                                      \
        if (kind == NORM_SOFTMAX) {                                                                \
            softmax_##suffix(row, count);                                                          \
            return;                                                                                \
        }                                                                                          \
        double n = (double)count;                                                                  \
        double mean = kind == NORM_LAYER ? orr__row_sum_##suffix(row, count) / n : 0;              \
        double variance = orr__row_squares_##suffix(row, count, mean) / n;                         \
        affine_##suffix(row, count, (type)mean, (type)(1 / sqrt(variance + eps)), weight, bias);   \
    }
NORM_ROWS(float, f32)
NORM_ROWS(double, f64)

/* `scratch` has room for the row and then weight and bias, `width` elements each. */
static void run_rows(enum norm_kind kind, const struct orr_tensor_view *inputs, int input_count,
                     double eps, const struct mask *mask, const struct orr_tensor_view *output,
                     enum orr_dtype compute, char *scratch) {
    const struct orr_shape *shape = &output->shape;
    int64_t width = shape->dims[shape->rank - 1];
    int64_t rows = orr__dims_product(shape, 0, shape->rank - 1);
    size_t size = orr_dtype_size(output->dtype), row_bytes = (size_t)width * size;
    char *extra[3] = {scratch, NULL, NULL};
    for (int i = 1; i < input_count; i++) {
        extra[i] = scratch + (size_t)i * (size_t)width * orr_dtype_size(compute);
        orr_dtype_convert(compute, extra[i], inputs[i].dtype, inputs[i].data, (size_t)width);
    }
    for (int64_t i = 0; i < rows; i++) {
        const char *from = (const char *)inputs[0].data + (size_t)i * row_bytes;
        char *to = (char *)output->data + (size_t)i * row_bytes;
        int64_t seen = mask->rows ? mask->seen + i % mask->rows : width;
        orr_dtype_convert(compute, scratch, output->dtype, from, (size_t)seen);
        if (compute == ORR_DTYPE_F64)
            norm_f64(kind, scratch, seen, eps, extra[1], extra[2]);
        else
            norm_f32(kind, scratch, seen, eps, extra[1], extra[2]);
        orr_dtype_convert(output->dtype, to, compute, scratch, (size_t)seen);
        if (seen < width)
            memset(to + (size_t)seen * size, 0, (size_t)(width - seen) * size);
    }
}

static enum orr_status compute_norm(const struct orr_operator *op, enum norm_kind kind,
                                    const struct orr_tensor_view *inputs, int input_count,
                                    double eps, const struct mask *mask,
                                    const struct orr_tensor_view *output,
                                    const struct orr_memory *memory, struct orr_error *error) {
    if (orr_shape_count(&output->shape) == 0)
        return ORR_OK;
    enum orr_dtype compute = output->dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    size_t width = (size_t)output->shape.dims[output->shape.rank - 1];
    size_t bytes = (size_t)input_count * width * orr_dtype_size(compute);
    char *scratch = orr_memory_resize(memory, NULL, bytes);
    if (!scratch)
        return orr__no_scratch(op, bytes, error);
    run_rows(kind, inputs, input_count, eps, mask, output, compute, scratch);
    orr_memory_free(memory, scratch);
    return ORR_OK;
}

static const char *const norm_names[] = {"x", "weight", "bias"};
/* eps as in torch.nn.LayerNorm, and as in Llama's configuration for rmsnorm. */
static const struct orr_attribute_spec layernorm_attributes[] = {
    {.name = "eps", .kind = ORR_ATTRIBUTE_REAL, .real = 1e-5},
    {.name = NULL},
};
static const struct orr_attribute_spec rmsnorm_attributes[] = {
    {.name = "eps", .kind = ORR_ATTRIBUTE_REAL, .real = 1e-5},
    {.name = NULL},
};

#define NORM(id, kind, inputs_most, flops, attribute_list, eps)                                    \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        return infer_norm(&orr__operator_##id, inputs, input_count, eps, out_outputs, error);      \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)attributes;                                                                          \
        return cost_norm(inputs, input_count, outputs, flops);                                     \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        const struct mask none = {0};                                                              \
        return compute_norm(&orr__operator_##id, kind, inputs, input_count, eps, &none,            \
                            &outputs[0], memory, error);                                           \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_NORM,                                                                \
        .inputs_min = 1,                                                                           \
        .inputs_max = inputs_most,                                                                 \
        .outputs = 1,                                                                              \
        .input_names = norm_names,                                                                 \
        .attributes = attribute_list,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_##id,                                                                   \
    };

NORM(layernorm, NORM_LAYER, 3, 6, layernorm_attributes, attributes->values[0].real)
NORM(rmsnorm, NORM_RMS, 2, 3, rmsnorm_attributes, attributes->values[0].real)

/* ---- softmax, which may have a mask ---- */

/* Of the rank's rows in x [..., s, t]: row i of the whole sees i + t - s + 1 columns. */
static struct mask mask_of(const struct orr_shape *x, const struct orr_attributes *attributes) {
    if (attributes->values[SOFTMAX_CAUSAL].integer == 0)
        return (struct mask){0};
    int64_t rows = x->dims[x->rank - 2], whole = attributes->values[SOFTMAX_WHOLE].integer;
    return (struct mask){.rows = rows,
                         .seen = attributes->values[SOFTMAX_START].integer + x->dims[x->rank - 1] -
                                 (whole ? whole : rows) + 1};
}

static enum orr_status infer_softmax(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     struct orr_operand_info *out_outputs,
                                     struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_softmax;
    struct orr_operand_info result;
    enum orr_status status = infer_norm(op, inputs, input_count, 0, &result, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    bool causal = attributes->values[SOFTMAX_CAUSAL].integer != 0;
    if (causal && (x->rank < 2 || mask_of(x, attributes).seen < 1))
        return orr__refuse(op, inputs, input_count, error,
                           "causal: expected x [..., s, t] with no more rows than columns");
    out_outputs[0] = result;
    return ORR_OK;
}

/* Elements that are not masked. */
static uint64_t seen_elements(const struct orr_shape *x, const struct mask *mask) {
    uint64_t count = (uint64_t)orr_shape_count(x);
    if (mask->rows == 0)
        return count;
    uint64_t matrices = (uint64_t)orr__dims_product(x, 0, x->rank - 2);
    uint64_t rows = (uint64_t)mask->rows, seen = (uint64_t)mask->seen;
    return orr__times(matrices, rows * seen + rows * (rows - 1) / 2);
}

static struct orr_cost cost_softmax(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_operand_info *outputs) {
    (void)input_count;
    struct mask mask = mask_of(&inputs[0].shape, attributes);
    uint64_t seen = seen_elements(&inputs[0].shape, &mask);
    return (struct orr_cost){
        .flops = orr__times(5, seen),
        .bytes_read = seen * orr_dtype_size(inputs[0].dtype),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

static enum orr_status compute_softmax(const struct orr_tensor_view *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       const struct orr_tensor_view *outputs,
                                       const struct orr_memory *memory, struct orr_error *error) {
    struct mask mask = mask_of(&inputs[0].shape, attributes);
    return compute_norm(&orr__operator_softmax, NORM_SOFTMAX, inputs, input_count, 0, &mask,
                        &outputs[0], memory, error);
}

static const struct orr_attribute_spec softmax_attributes[] = {
    [SOFTMAX_CAUSAL] = {.name = "causal", .kind = ORR_ATTRIBUTE_BOOL},
    [SOFTMAX_START] =
        {.name = "start", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_START, .of = 0, .dim = -2},
    [SOFTMAX_WHOLE] =
        {.name = "whole", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_WHOLE, .of = 0, .dim = -2},
    {.name = NULL},
};

const struct orr_operator orr__operator_softmax = {
    .name = "softmax",
    .class = ORR_OPERATOR_NORM,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = norm_names,
    .attributes = softmax_attributes,
    .infer = infer_softmax,
    .cost = cost_softmax,
    .compute = compute_softmax,
};
