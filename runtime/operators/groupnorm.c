/* groupnorm and its gradients: Wu and He, "Group normalization" (2018).
 *
 *     groupnorm                   x [n, c, ...], [weight [c]], [bias [c]]: the channels are cut
 *                                 into groups; moments are those of a group of one sample
 *     groupnorm_backward          grad, x, [weight]: with h = (x - mean) r, r = 1 / sqrt(variance +
 *                                 eps), u = grad weight: r (u - mean(u) - h mean(u h))
 *     groupnorm_backward_weight   grad, x: of weight, the sum of grad h over samples and places; of
 *                                 bias, the sum of grad
 *
 * A group of a sample is one run of memory, a row as in layernorm. Forward it is worked on in f32
 * (f64 for f64) with sums in f64, backward in f64; a result is rounded once.
 *
 * Cost: as layernorm's (norm.c, backward_norm.c): 6 FLOPs an element, weight and bias 1 each; 13
 * and 1 for the weight; 9. Bytes: each operand once, each result once; weight and bias in
 * bytes_broadcast. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/rows_internal.h"

enum { GROUPS, EPS };

/* x and, if given, grad of one shape [n, c, ...]; the others are [c]. `x` is x's index. */
static enum orr_status check_norm(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count, int x,
                                  const struct orr_attributes *attributes,
                                  struct orr_error *error) {
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *shape = &inputs[x].shape;
    int64_t groups = attributes->values[GROUPS].integer;
    double eps = attributes->values[EPS].real;
    if (shape->rank < 2)
        return orr__refuse(op, inputs, input_count, error, "expected x [n, c, ...]");
    if (x == 1 && !orr_shape_equal(&inputs[0].shape, shape))
        return orr__refuse(op, inputs, input_count, error, "expected equal shapes");
    for (int i = x + 1; i < input_count; i++)
        if (inputs[i].shape.rank != 1 || inputs[i].shape.dims[0] != shape->dims[1])
            return orr__refuse(op, inputs, input_count, error, "expected %s [%" PRId64 "]",
                               op->input_names[i], shape->dims[1]);
    if (groups < 1 || shape->dims[1] % groups)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " channels don't make %" PRId64 " groups", shape->dims[1],
                           groups);
    if (!(eps >= 0))
        return orr__refuse(op, inputs, input_count, error, "eps is %g, expected 0 or more", eps);
    return ORR_OK;
}

static struct orr_cost cost_norm(const struct orr_operand_info *inputs, int input_count, int x,
                                 const struct orr_operand_info *outputs, int output_count,
                                 int flops) {
    uint64_t count = (uint64_t)orr_shape_count(&inputs[x].shape);
    struct orr_cost cost = {
        .flops = orr__times(count, (uint64_t)(flops + input_count - 1 - x)),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 0; i < input_count; i++)
        orr__charge_operand(&cost, &inputs[i], &inputs[x]);
    for (int i = 0; i < output_count; i++)
        cost.bytes_written += orr__bytes(&outputs[i]);
    return cost;
}

/* The groups of all samples, and scratch for `parts` rows and `lists` lists of channels. */
struct rows {
    enum orr_dtype dtype, compute;
    int64_t count, groups, channels, places; /* channels of a group, places of a channel */
    char *scratch;
};

static int64_t width_of(const struct rows *rows) {
    return rows->channels * rows->places;
}

static enum orr_status open_rows(const struct orr_operator *op, const struct orr_tensor_view *x,
                                 const struct orr_attributes *attributes, enum orr_dtype compute,
                                 int parts, int lists, const struct orr_memory *memory,
                                 struct rows *rows, struct orr_error *error) {
    const struct orr_shape *shape = &x->shape;
    int64_t groups = attributes->values[GROUPS].integer;
    *rows = (struct rows){.dtype = x->dtype,
                          .compute = compute,
                          .count = shape->dims[0] * groups,
                          .groups = groups,
                          .channels = shape->dims[1] / groups,
                          .places = orr__dims_product(shape, 2, shape->rank)};
    int64_t elements = parts * width_of(rows) + lists * shape->dims[1] + 1;
    size_t bytes = (size_t)elements * orr_dtype_size(compute);
    rows->scratch = orr_memory_resize(memory, NULL, bytes);
    return rows->scratch ? ORR_OK : orr__no_scratch(op, bytes, error);
}

static void load(const struct rows *rows, const struct orr_tensor_view *view, int64_t row,
                 void *to) {
    size_t width = (size_t)width_of(rows);
    orr_dtype_convert(rows->compute, to, rows->dtype,
                      (const char *)view->data + (size_t)row * width * orr_dtype_size(rows->dtype),
                      width);
}

static void store(const struct rows *rows, const struct orr_tensor_view *view, int64_t row,
                  const void *from) {
    size_t width = (size_t)width_of(rows);
    orr_dtype_convert(rows->dtype,
                      (char *)view->data + (size_t)row * width * orr_dtype_size(rows->dtype),
                      rows->compute, from, width);
}

/* ---- forward ---- */

/* One group; weight and bias of its channels may be NULL. */
#define FORWARD(name, type, suffix)                                                                \
    static void name(const struct rows *rows, type *row, const type *weight, const type *bias,     \
                     double eps) {                                                                 \
        double n = (double)width_of(rows), mean = orr__row_sum_##suffix(row, width_of(rows)) / n;  \
        double variance = orr__row_squares_##suffix(row, width_of(rows), mean) / n;                \
        type center = (type)mean, factor = (type)(1 / sqrt(variance + eps));                       \
        for (int64_t c = 0; c < rows->channels; c++, row += rows->places)                          \
            for (int64_t i = 0; i < rows->places; i++) {                                           \
                type h = (row[i] - center) * factor;                                               \
                h = weight ? h * weight[c] : h;                                                    \
                row[i] = bias ? h + bias[c] : h;                                                   \
            }                                                                                      \
    }
FORWARD(forward_f32, float, f32)
FORWARD(forward_f64, double, f64)

static void run_forward(const struct rows *rows, const struct orr_tensor_view *inputs,
                        int input_count, double eps, const struct orr_tensor_view *output) {
    size_t wide = orr_dtype_size(rows->compute);
    size_t channels = (size_t)(rows->groups * rows->channels);
    char *extra[3] = {rows->scratch, NULL, NULL}, *next = rows->scratch;
    next += (size_t)width_of(rows) * wide;
    for (int i = 1; i < input_count; i++, next += channels * wide) {
        extra[i] = next;
        orr_dtype_convert(rows->compute, next, rows->dtype, inputs[i].data, channels);
    }
    for (int64_t row = 0; row < rows->count; row++) {
        size_t first = (size_t)(row % rows->groups * rows->channels) * wide;
        const void *weight = extra[1] ? extra[1] + first : NULL;
        const void *bias = extra[2] ? extra[2] + first : NULL;
        load(rows, &inputs[0], row, extra[0]);
        if (rows->compute == ORR_DTYPE_F64)
            forward_f64(rows, (double *)(void *)extra[0], weight, bias, eps);
        else
            forward_f32(rows, (float *)(void *)extra[0], weight, bias, eps);
        store(rows, output, row, extra[0]);
    }
}

static enum orr_status compute_forward(const struct orr_tensor_view *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       const struct orr_tensor_view *outputs,
                                       const struct orr_memory *memory, struct orr_error *error) {
    struct rows rows;
    if (orr_shape_count(&outputs[0].shape) == 0)
        return ORR_OK;
    enum orr_dtype compute = outputs[0].dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    enum orr_status status = open_rows(&orr__operator_groupnorm, &inputs[0], attributes, compute, 1,
                                       input_count - 1, memory, &rows, error);
    if (status != ORR_OK)
        return status;
    run_forward(&rows, inputs, input_count, attributes->values[EPS].real, &outputs[0]);
    orr_memory_free(memory, rows.scratch);
    return ORR_OK;
}

/* ---- backward ---- */

/* Replaces x by h; returns r. */
static double normalize(const struct rows *rows, double *x, double eps) {
    int64_t width = width_of(rows);
    double n = (double)width, mean = orr__row_sum_f64(x, width) / n;
    double r = 1 / sqrt(orr__row_squares_f64(x, width, mean) / n + eps);
    for (int64_t i = 0; i < width; i++)
        x[i] = (x[i] - mean) * r;
    return r;
}

/* The gradient of x replaces g; weight, of the group's channels, may be NULL. */
static void backward_row(const struct rows *rows, double *g, double *x, const double *weight,
                         double eps) {
    int64_t width = width_of(rows);
    double n = (double)width, r = normalize(rows, x, eps), slope = 0;
    for (int64_t i = 0; i < width; i++) {
        g[i] *= weight ? weight[i / rows->places] : 1;
        slope += g[i] * x[i];
    }
    double mean = orr__row_sum_f64(g, width) / n;
    for (int64_t i = 0; i < width; i++)
        g[i] = r * (g[i] - mean - x[i] * (slope / n));
}

static enum orr_status compute_backward(const struct orr_tensor_view *inputs, int input_count,
                                        const struct orr_attributes *attributes,
                                        const struct orr_tensor_view *outputs,
                                        const struct orr_memory *memory, struct orr_error *error) {
    struct rows rows;
    if (orr_shape_count(&outputs[0].shape) == 0)
        return ORR_OK;
    enum orr_status status = open_rows(&orr__operator_groupnorm_backward, &inputs[1], attributes,
                                       ORR_DTYPE_F64, 2, 1, memory, &rows, error);
    if (status != ORR_OK)
        return status;
    double *g = (double *)(void *)rows.scratch, *x = g + width_of(&rows);
    double *weight = input_count > 2 ? x + width_of(&rows) : NULL;
    if (weight)
        orr_dtype_convert(ORR_DTYPE_F64, weight, inputs[2].dtype, inputs[2].data,
                          (size_t)(rows.groups * rows.channels));
    for (int64_t row = 0; row < rows.count; row++) {
        int64_t first = row % rows.groups * rows.channels;
        load(&rows, &inputs[0], row, g);
        load(&rows, &inputs[1], row, x);
        backward_row(&rows, g, x, weight ? weight + first : NULL, attributes->values[EPS].real);
        store(&rows, &outputs[0], row, g);
    }
    orr_memory_free(memory, rows.scratch);
    return ORR_OK;
}

static enum orr_status compute_weight(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    struct rows rows;
    enum orr_status status = open_rows(&orr__operator_groupnorm_backward_weight, &inputs[1],
                                       attributes, ORR_DTYPE_F64, 2, 2, memory, &rows, error);
    if (status != ORR_OK)
        return status;
    int64_t channels = rows.groups * rows.channels;
    double *g = (double *)(void *)rows.scratch, *x = g + width_of(&rows);
    double *dw = x + width_of(&rows), *db = dw + channels;
    memset(dw, 0, (size_t)channels * 2 * sizeof *dw);
    for (int64_t row = 0; row < rows.count && width_of(&rows) > 0; row++) {
        int64_t first = row % rows.groups * rows.channels;
        load(&rows, &inputs[0], row, g);
        load(&rows, &inputs[1], row, x);
        normalize(&rows, x, attributes->values[EPS].real);
        for (int64_t i = 0; i < width_of(&rows); i++) {
            dw[first + i / rows.places] += g[i] * x[i];
            db[first + i / rows.places] += g[i];
        }
    }
    orr_dtype_convert(outputs[0].dtype, outputs[0].data, ORR_DTYPE_F64, dw, (size_t)channels);
    orr_dtype_convert(outputs[1].dtype, outputs[1].data, ORR_DTYPE_F64, db, (size_t)channels);
    orr_memory_free(memory, rows.scratch);
    return ORR_OK;
}

/* ---- rows ---- */

static const char *const forward_names[] = {"x", "weight", "bias"};
static const char *const backward_names[] = {"grad", "x", "weight"};
/* 32 groups as in the paper's experiments, eps as in torch.nn.GroupNorm. */
static const struct orr_attribute_spec norm_attributes[] = {
    [GROUPS] = {.name = "groups",
                .kind = ORR_ATTRIBUTE_INT,
                .integer = 32,
                .local = ORR_LOCAL_SHARE,
                .of = 0,
                .dim = 1},
    [EPS] = {.name = "eps", .kind = ORR_ATTRIBUTE_REAL, .real = 1e-5},
    {.name = NULL},
};

#define ROW(id, at_least, at_most, results, names, x, flops, channels, compute_function)           \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        enum orr_status status =                                                                   \
            check_norm(&orr__operator_##id, inputs, input_count, x, attributes, error);            \
        for (int i = 0; status == ORR_OK && i < (results); i++) {                                  \
            out_outputs[i] = inputs[0];                                                            \
            if (channels)                                                                          \
                out_outputs[i].shape = orr_shape_of(1, &inputs[0].shape.dims[1]);                  \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)attributes;                                                                          \
        return cost_norm(inputs, input_count, x, outputs, results, flops);                         \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_NORM,                                                                \
        .inputs_min = at_least,                                                                    \
        .inputs_max = at_most,                                                                     \
        .outputs = results,                                                                        \
        .input_names = names,                                                                      \
        .attributes = norm_attributes,                                                             \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_function,                                                               \
    };

ROW(groupnorm, 1, 3, 1, forward_names, 0, 6, false, compute_forward)
ROW(groupnorm_backward, 2, 3, 1, backward_names, 1, 13, false, compute_backward)
ROW(groupnorm_backward_weight, 2, 2, 2, backward_names, 1, 9, true, compute_weight)
