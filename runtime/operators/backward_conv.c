/* The gradients of conv2d in x and in its weight (that of the bias is a sum, by unbroadcast).
 *
 *     conv2d_backward_input     grad [n, o, oh, ow], weight [o, c / groups, kh, kw]    stride
 *                               padding groups size=[h, w]: each filter element's product is added
 *                               to the pixel that it was multiplied with
 *     conv2d_backward_weight    grad [n, o, oh, ow], x [n, c, h, w]    stride padding groups
 *                               size=[kh, kw]: grad times the columns of x, summed over the images
 *
 * Products run in f32 (f64 for f64); what meets in one pixel is added in f64, and a result is
 * rounded once.
 *
 * Cost: as the convolution, each operand and the result once. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/conv_internal.h"

/* Sizes of the forward convolution, from the gradient and the other operand. */
static bool sizes_of(bool of_weight, const struct orr_shape *grad, const struct orr_shape *other,
                     const struct orr_attributes *attributes, struct orr__conv *out_conv) {
    const struct orr_shape *size = &attributes->values[CONV_SIZE].shape;
    int64_t groups = attributes->values[CONV_GROUPS].integer;
    if (grad->rank != 4 || other->rank != 4 || size->rank != 2 || groups < 1)
        return false;
    int64_t c, made[4];
    if (__builtin_mul_overflow(other->dims[1], of_weight ? 1 : groups, &c))
        return false;
    made[0] = of_weight ? grad->dims[1] : grad->dims[0];
    made[1] = of_weight ? c / groups : c;
    made[2] = size->dims[0];
    made[3] = size->dims[1];
    struct orr_shape result = orr_shape_of(4, made);
    return of_weight ? orr__conv_of(other, &result, attributes, out_conv)
                     : orr__conv_of(&result, other, attributes, out_conv);
}

static enum orr_status infer_backward(const struct orr_operator *op, bool of_weight,
                                      const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      struct orr_operand_info *out, struct orr_error *error) {
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    struct orr__conv conv;
    const struct orr_shape *grad = &inputs[0].shape;
    if (!sizes_of(of_weight, grad, &inputs[1].shape, attributes, &conv))
        return orr__refuse(op, inputs, input_count, error,
                           "expected grad [n, o, oh, ow], %s and size %s",
                           of_weight ? "x [n, c, h, w]" : "weight [o, c / groups, kh, kw]",
                           of_weight ? "[kh, kw]" : "[h, w]");
    status = orr__conv_check(op, inputs, input_count, &conv, error);
    if (status != ORR_OK)
        return status;
    if (grad->dims[0] != conv.n || grad->dims[1] != conv.o || grad->dims[2] != conv.oh ||
        grad->dims[3] != conv.ow)
        return orr__refuse(op, inputs, input_count, error,
                           "expected grad [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]",
                           conv.n, conv.o, conv.oh, conv.ow);
    struct orr_operand_info result = {.dtype = inputs[0].dtype};
    result.shape =
        of_weight ? orr_shape_of(4, (int64_t[]){conv.o, conv.c / conv.groups, conv.kh, conv.kw})
                  : orr_shape_of(4, (int64_t[]){conv.n, conv.c, conv.h, conv.w});
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        *out = result;
    return status;
}

/* Sizes of operands that infer accepted. */
static struct orr__conv accepted(bool of_weight, const struct orr_shape *grad,
                                 const struct orr_shape *other,
                                 const struct orr_attributes *attributes) {
    struct orr__conv conv = {.n = 0};
    (void)sizes_of(of_weight, grad, other, attributes, &conv);
    conv.oh = grad->dims[2];
    conv.ow = grad->dims[3];
    return conv;
}

static struct orr_cost cost_backward(bool of_weight, const struct orr_operand_info *inputs,
                                     const struct orr_attributes *attributes,
                                     const struct orr_operand_info *outputs) {
    struct orr__conv conv = accepted(of_weight, &inputs[0].shape, &inputs[1].shape, attributes);
    return (struct orr_cost){
        .flops = orr__conv_flops(&conv),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_MATRIX,
    };
}

/* ---- arithmetic ---- */

/* Parts of one block of scratch, in the type of the arithmetic; `sum` is an image of f64. */
struct scratch {
    enum orr_dtype compute;
    double *sum;
    char *weight, *image, *columns, *grad;
};

static enum orr_status open_scratch(const struct orr_operator *op, const struct orr__conv *conv,
                                    enum orr_dtype dtype, const struct orr_memory *memory,
                                    struct scratch *out_scratch, struct orr_error *error) {
    struct scratch scratch = {.compute = dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32};
    size_t wide = orr_dtype_size(scratch.compute);
    int64_t filter = orr__conv_filter(conv), tile = orr__conv_tile(conv);
    size_t pixels = (size_t)(conv->c / conv->groups * conv->h * conv->w);
    size_t weight = (size_t)(conv->o * filter) * wide, columns = (size_t)(filter * tile) * wide;
    size_t grad = (size_t)(conv->o / conv->groups * tile) * wide;
    size_t bytes = pixels * (sizeof(double) + wide) + weight + columns + grad;
    scratch.sum = orr_memory_resize(memory, NULL, bytes ? bytes : 1);
    if (!scratch.sum)
        return orr__no_scratch(op, bytes, error);
    scratch.weight = (char *)(scratch.sum + pixels);
    scratch.columns = scratch.weight + weight;
    scratch.grad = scratch.columns + columns;
    scratch.image = scratch.grad + grad;
    *out_scratch = scratch;
    return ORR_OK;
}

/* The gradient of positions first .. first + count - 1 of one group of one image. */
static void load_grad(const struct orr__conv *conv, const struct scratch *scratch,
                      const struct orr_tensor_view *grad, int64_t at, int64_t first,
                      int64_t count) {
    int64_t rows = conv->o / conv->groups, positions = conv->oh * conv->ow;
    size_t size = orr_dtype_size(grad->dtype), wide = orr_dtype_size(scratch->compute);
    for (int64_t i = 0; i < rows; i++)
        orr_dtype_convert(scratch->compute, scratch->grad + (size_t)(i * count) * wide, grad->dtype,
                          (const char *)grad->data +
                              (size_t)((at * rows + i) * positions + first) * size,
                          (size_t)count);
}

static void run_panel(enum orr_dtype compute, const struct orr__panel *panel) {
    if (compute == ORR_DTYPE_F64)
        orr__panel_f64(panel);
    else
        orr__panel_f32(panel);
}

/* Columns of the gradient of x: the filters' transpose times grad. */
static void input_columns(const struct orr__conv *conv, const struct scratch *scratch,
                          int64_t group, int64_t count) {
    int64_t rows = conv->o / conv->groups, filter = orr__conv_filter(conv);
    size_t weight = (size_t)(group * rows * filter) * orr_dtype_size(scratch->compute);
    struct orr__panel panel = {
        .transpose_a = true,
        .m = filter,
        .n = count,
        .k = rows,
        .a = scratch->weight + weight,
        .b = scratch->grad,
        .lda = filter,
        .ldb = count,
        .ldc = count,
        .c = scratch->columns,
    };
    run_panel(scratch->compute, &panel);
}

static enum orr_status compute_input(const struct orr_tensor_view *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_tensor_view *outputs,
                                     const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    struct orr__conv conv = accepted(false, &inputs[0].shape, &inputs[1].shape, attributes);
    enum orr_dtype dtype = outputs[0].dtype;
    struct scratch scratch;
    if (orr_shape_count(&outputs[0].shape) == 0)
        return ORR_OK;
    if (conv.o == 0) {
        memset(outputs[0].data, 0,
               (size_t)orr_shape_count(&outputs[0].shape) * orr_dtype_size(dtype));
        return ORR_OK;
    }
    enum orr_status status =
        open_scratch(&orr__operator_conv2d_backward_input, &conv, dtype, memory, &scratch, error);
    if (status != ORR_OK)
        return status;
    size_t size = orr_dtype_size(dtype);
    size_t pixels = (size_t)(conv.c / conv.groups * conv.h * conv.w);
    int64_t positions = conv.oh * conv.ow, tile = orr__conv_tile(&conv);
    orr_dtype_convert(scratch.compute, scratch.weight, dtype, inputs[1].data,
                      (size_t)(conv.o * orr__conv_filter(&conv)));
    for (int64_t at = 0; at < conv.n * conv.groups; at++) {
        memset(scratch.sum, 0, pixels * sizeof(double));
        for (int64_t first = 0; first < positions; first += tile) {
            int64_t count = positions - first < tile ? positions - first : tile;
            load_grad(&conv, &scratch, &inputs[0], at, first, count);
            input_columns(&conv, &scratch, at % conv.groups, count);
            orr__conv_add_columns(&conv, scratch.compute, scratch.columns, first, count,
                                  scratch.sum);
        }
        orr_dtype_convert(dtype, (char *)outputs[0].data + (size_t)at * pixels * size,
                          ORR_DTYPE_F64, scratch.sum, pixels);
    }
    orr_memory_free(memory, scratch.sum);
    return ORR_OK;
}

/* Adds grad times the columns of the image in scratch to the gradient of the group's filters. */
static void add_weight(const struct orr__conv *conv, const struct scratch *scratch, int64_t group,
                       int64_t count) {
    int64_t rows = conv->o / conv->groups, filter = orr__conv_filter(conv);
    size_t weight = (size_t)(group * rows * filter) * orr_dtype_size(scratch->compute);
    struct orr__panel panel = {
        .transpose_b = true,
        .adds = true,
        .m = rows,
        .n = filter,
        .k = count,
        .a = scratch->grad,
        .b = scratch->columns,
        .lda = count,
        .ldb = count,
        .ldc = filter,
        .c = scratch->weight + weight,
    };
    run_panel(scratch->compute, &panel);
}

static enum orr_status compute_weight(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    struct orr__conv conv = accepted(true, &inputs[0].shape, &inputs[1].shape, attributes);
    enum orr_dtype dtype = outputs[0].dtype;
    size_t filters = (size_t)orr_shape_count(&outputs[0].shape), size = orr_dtype_size(dtype);
    struct scratch scratch;
    if (filters == 0)
        return ORR_OK;
    enum orr_status status =
        open_scratch(&orr__operator_conv2d_backward_weight, &conv, dtype, memory, &scratch, error);
    if (status != ORR_OK)
        return status;
    size_t pixels = (size_t)(conv.c / conv.groups * conv.h * conv.w);
    int64_t positions = conv.oh * conv.ow, tile = orr__conv_tile(&conv);
    memset(scratch.weight, 0, filters * orr_dtype_size(scratch.compute));
    for (int64_t at = 0; at < conv.n * conv.groups; at++) {
        orr_dtype_convert(scratch.compute, scratch.image, dtype,
                          (const char *)inputs[1].data + (size_t)at * pixels * size, pixels);
        for (int64_t first = 0; first < positions; first += tile) {
            int64_t count = positions - first < tile ? positions - first : tile;
            load_grad(&conv, &scratch, &inputs[0], at, first, count);
            orr__conv_columns(&conv, scratch.compute, scratch.image, first, count, scratch.columns);
            add_weight(&conv, &scratch, at % conv.groups, count);
        }
    }
    orr_dtype_convert(dtype, outputs[0].data, scratch.compute, scratch.weight, filters);
    orr_memory_free(memory, scratch.sum);
    return ORR_OK;
}

/* ---- rows ---- */

static const char *const input_names[] = {"grad", "weight"};
static const char *const weight_names[] = {"grad", "x"};
static const struct orr_attribute_spec backward_attributes[] = {
    [CONV_STRIDE] = {.name = "stride", .kind = ORR_ATTRIBUTE_INT, .integer = 1},
    [CONV_PADDING] = {.name = "padding", .kind = ORR_ATTRIBUTE_INT},
    [CONV_GROUPS] = {.name = "groups",
                     .kind = ORR_ATTRIBUTE_INT,
                     .integer = 1,
                     .local = ORR_LOCAL_SHARE,
                     .of = 0,
                     .dim = 1},
    [CONV_SIZE] = {.name = "size", .kind = ORR_ATTRIBUTE_SHAPE, .required = true},
    {.name = NULL},
};

#define ROW(id, of_weight, names, compute_function)                                                \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        return infer_backward(&orr__operator_##id, of_weight, inputs, input_count, attributes,     \
                              out_outputs, error);                                                 \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)input_count;                                                                         \
        return cost_backward(of_weight, inputs, attributes, outputs);                              \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_GEMM,                                                                \
        .inputs_min = 2,                                                                           \
        .inputs_max = 2,                                                                           \
        .outputs = 1,                                                                              \
        .input_names = names,                                                                      \
        .attributes = backward_attributes,                                                         \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_function,                                                               \
    };

ROW(conv2d_backward_input, false, input_names, compute_input)
ROW(conv2d_backward_weight, true, weight_names, compute_weight)
