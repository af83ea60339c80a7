/* Gradients of softmax, layernorm and rmsnorm, along the last dimension.
 *
 *     softmax_backward     grad, y        dx = y (g - sum(g y))
 *     layernorm_backward   grad, x, [w]   h = (x - mean) r, r = 1 / sqrt(variance + eps), u = g w:
 *                                         dx = r (u - mean(u) - h mean(u h))
 *     rmsnorm_backward     grad, x, [w]   h = x r, r = 1 / sqrt(mean(x^2) + eps):
 *                                         dx = r (u - h mean(u h))
 *     layernorm_backward_weight, rmsnorm_backward_weight    grad, x: dw = sum of g h over the rows,
 *                                         and for layernorm, as a second result, db = sum of g
 *
 * Mean and r are computed from x again: a pass over a row that is on the chip anyway is cheaper
 * than writing and reading them. The weights' gradient is an operator of its own because it goes
 * down the columns, as it is a kernel of its own in PyTorch (GammaBetaBackward in
 * layer_norm_kernel.cu).
 *
 * Each row is worked on in f64 and a result is rounded once; columns are added in f64, row by row.
 *
 * Cost. FLOPs for each element, one for every operation of the formulas; what is done once a row or
 * once a column is left out:
 *   softmax     4: g y, add; subtract, multiply
 *   layernorm   6 for h (as forward); add (mean of u); multiply, add (mean of u h); h times that,
 *               two subtractions, times r: 13; weight adds 1
 *   rmsnorm     3 for h; multiply, add; h times that, subtract, times r: 8; weight adds 1
 *   ..._weight  6 or 3 for h; multiply, add; and for db another addition: 9 and 5
 * Bytes: each operand once, each result once; weight in bytes_broadcast. */
#include <inttypes.h>
#include <math.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/rows_internal.h"

enum norm_kind { NORM_SOFTMAX, NORM_LAYER, NORM_RMS };

/* grad and x (or y) of one shape with a last dimension; weight, if given, is [last]. */
static enum orr_status check_norm(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count,
                                  double eps, struct orr_error *error) {
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[1].shape;
    if (!orr_shape_equal(&inputs[0].shape, x) || x->rank < 1)
        return orr__refuse(op, inputs, input_count, error,
                           "expected equal shapes of at least 1 dimension");
    int64_t width = x->dims[x->rank - 1];
    if (input_count == 3 && (inputs[2].shape.rank != 1 || inputs[2].shape.dims[0] != width))
        return orr__refuse(op, inputs, input_count, error,
                           "expected weight [%" PRId64 "], the last dimension of x", width);
    if (!(eps >= 0))
        return orr__refuse(op, inputs, input_count, error, "eps is %g, expected 0 or more", eps);
    return ORR_OK;
}

static struct orr_cost cost_norm(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_operand_info *outputs, int output_count,
                                 int flops) {
    uint64_t count = (uint64_t)orr_shape_count(&inputs[1].shape);
    struct orr_cost cost = {.flops = orr__times(count, (uint64_t)flops), .unit = ORR_UNIT_VECTOR};
    for (int i = 0; i < input_count; i++)
        orr__charge_operand(&cost, &inputs[i], &inputs[1]);
    for (int i = 0; i < output_count; i++)
        cost.bytes_written += orr__bytes(&outputs[i]);
    return cost;
}

static double dot(const double *a, const double *b, int64_t count) {
    double lanes[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        lanes[0] += a[i] * b[i];
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/* Replaces x by h; returns r. */
static double normalize(enum norm_kind kind, double *x, int64_t width, double eps) {
    double n = (double)width;
    double mean = kind == NORM_LAYER ? orr__row_sum_f64(x, width) / n : 0;
    double r = 1 / sqrt(orr__row_squares_f64(x, width, mean) / n + eps);
    for (int64_t i = 0; i < width; i++)
        x[i] = (x[i] - mean) * r;
    return r;
}

/* The gradient replaces g; x is overwritten. weight may be NULL. */
static void norm_row(enum norm_kind kind, double *g, double *x, const double *weight, int64_t width,
                     double eps) {
    double n = (double)width;
    if (kind == NORM_SOFTMAX) {
        double sum = dot(g, x, width);
        for (int64_t i = 0; i < width; i++)
            g[i] = x[i] * (g[i] - sum);
        return;
    }
    double r = normalize(kind, x, width, eps);
    for (int64_t i = 0; weight && i < width; i++)
        g[i] *= weight[i];
    double mean = kind == NORM_LAYER ? orr__row_sum_f64(g, width) / n : 0;
    double slope = dot(g, x, width) / n;
    for (int64_t i = 0; i < width; i++)
        g[i] = r * (g[i] - mean - x[i] * slope);
}

/* Rows and width of an operand, and scratch for `parts` rows of f64. */
struct norm_call {
    enum orr_dtype dtype;
    int64_t rows, width;
    size_t row_bytes;
    double *scratch;
};

static enum orr_status open_call(const struct orr_operator *op, const struct orr_tensor_view *x,
                                 size_t parts, const struct orr_memory *memory,
                                 struct norm_call *call, struct orr_error *error) {
    const struct orr_shape *shape = &x->shape;
    *call = (struct norm_call){.dtype = x->dtype,
                               .rows = orr__dims_product(shape, 0, shape->rank - 1),
                               .width = shape->dims[shape->rank - 1]};
    call->row_bytes = (size_t)call->width * orr_dtype_size(x->dtype);
    size_t bytes = (parts * (size_t)call->width + 1) * sizeof(double);
    call->scratch = orr_memory_resize(memory, NULL, bytes);
    return call->scratch ? ORR_OK : orr__no_scratch(op, bytes, error);
}

static void load_row(const struct norm_call *call, const struct orr_tensor_view *view, int64_t row,
                     double *to) {
    orr_dtype_convert(ORR_DTYPE_F64, to, call->dtype,
                      (const char *)view->data + (size_t)row * call->row_bytes,
                      (size_t)call->width);
}

static enum orr_status compute_norm(const struct orr_operator *op, enum norm_kind kind,
                                    const struct orr_tensor_view *inputs, int input_count,
                                    double eps, const struct orr_tensor_view *output,
                                    const struct orr_memory *memory, struct orr_error *error) {
    if (orr_shape_count(&output->shape) == 0)
        return ORR_OK;
    struct norm_call call;
    enum orr_status status = open_call(op, &inputs[1], 3, memory, &call, error);
    if (status != ORR_OK)
        return status;
    double *g = call.scratch, *x = g + call.width,
           *weight = input_count == 3 ? x + call.width : NULL;
    if (weight)
        load_row(&call, &inputs[2], 0, weight);
    for (int64_t row = 0; row < call.rows; row++) {
        load_row(&call, &inputs[0], row, g);
        load_row(&call, &inputs[1], row, x);
        norm_row(kind, g, x, weight, call.width, eps);
        orr_dtype_convert(call.dtype, (char *)output->data + (size_t)row * call.row_bytes,
                          ORR_DTYPE_F64, g, (size_t)call.width);
    }
    orr_memory_free(memory, call.scratch);
    return ORR_OK;
}

/* outputs[1] is there for layernorm only. */
static enum orr_status compute_weight(const struct orr_operator *op, enum norm_kind kind,
                                      const struct orr_tensor_view *inputs, double eps,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    struct norm_call call;
    enum orr_status status = open_call(op, &inputs[1], 4, memory, &call, error);
    if (status != ORR_OK)
        return status;
    double *g = call.scratch, *x = g + call.width, *dw = x + call.width, *db = dw + call.width;
    for (int64_t i = 0; i < 2 * call.width; i++)
        dw[i] = 0;
    for (int64_t row = 0; row < call.rows && call.width > 0; row++) {
        load_row(&call, &inputs[0], row, g);
        load_row(&call, &inputs[1], row, x);
        (void)normalize(kind, x, call.width, eps);
        for (int64_t i = 0; i < call.width; i++) {
            dw[i] += g[i] * x[i];
            db[i] += g[i];
        }
    }
    orr_dtype_convert(outputs[0].dtype, outputs[0].data, ORR_DTYPE_F64, dw, (size_t)call.width);
    if (kind == NORM_LAYER)
        orr_dtype_convert(outputs[1].dtype, outputs[1].data, ORR_DTYPE_F64, db, (size_t)call.width);
    orr_memory_free(memory, call.scratch);
    return ORR_OK;
}

/* ---- Rows ---- */

static const char *const softmax_names[] = {"grad", "y"};
static const char *const norm_names[] = {"grad", "x", "weight"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};
static const struct orr_attribute_spec eps_attributes[] = {
    {.name = "eps", .kind = ORR_ATTRIBUTE_REAL, .real = 1e-5},
    {.name = NULL},
};

#define NORM(id, kind, inputs_most, flops, names, attribute_list, eps)                             \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        (void)attributes;                                                                          \
        enum orr_status status = check_norm(&orr__operator_##id, inputs, input_count, eps, error); \
        if (status == ORR_OK)                                                                      \
            out_outputs[0] = inputs[1];                                                            \
        return status;                                                                             \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)attributes;                                                                          \
        return cost_norm(inputs, input_count, outputs, 1, (flops) + input_count - 2);              \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        (void)attributes;                                                                          \
        return compute_norm(&orr__operator_##id, kind, inputs, input_count, eps, &outputs[0],      \
                            memory, error);                                                        \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_NORM,                                                                \
        .inputs_min = 2,                                                                           \
        .inputs_max = inputs_most,                                                                 \
        .outputs = 1,                                                                              \
        .input_names = names,                                                                      \
        .attributes = attribute_list,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_##id,                                                                   \
    };

#define WEIGHT(id, kind, output_count, flops)                                                      \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        enum orr_status status = check_norm(&orr__operator_##id, inputs, input_count,              \
                                            attributes->values[0].real, error);                    \
        for (int i = 0; status == ORR_OK && i < (output_count); i++) {                             \
            const struct orr_shape *x = &inputs[1].shape;                                          \
            out_outputs[i] = (struct orr_operand_info){                                            \
                .dtype = inputs[1].dtype, .shape = orr_shape_of(1, &x->dims[x->rank - 1])};        \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)attributes;                                                                          \
        return cost_norm(inputs, input_count, outputs, output_count, flops);                       \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        (void)input_count;                                                                         \
        return compute_weight(&orr__operator_##id, kind, inputs, attributes->values[0].real,       \
                              outputs, memory, error);                                             \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_NORM,                                                                \
        .inputs_min = 2,                                                                           \
        .inputs_max = 2,                                                                           \
        .outputs = output_count,                                                                   \
        .input_names = norm_names,                                                                 \
        .attributes = eps_attributes,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_##id,                                                                   \
    };

NORM(softmax_backward, NORM_SOFTMAX, 2, 4, softmax_names, no_attributes, 0)
NORM(layernorm_backward, NORM_LAYER, 3, 13, norm_names, eps_attributes, attributes->values[0].real)
NORM(rmsnorm_backward, NORM_RMS, 3, 8, norm_names, eps_attributes, attributes->values[0].real)
WEIGHT(layernorm_backward_weight, NORM_LAYER, 2, 9)
WEIGHT(rmsnorm_backward_weight, NORM_RMS, 1, 5)
