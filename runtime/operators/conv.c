/* conv2d: x [n, c, h, w] with filters [o, c / groups, kh, kw], plus bias [o]; zeros around x.
 *
 * The product runs in f32 (f64 for f64); the sum, plus bias if there is one, is rounded once.
 *
 * Cost: see orr__conv_flops; the bias adds one FLOP an element and is read from bytes_broadcast.
 * Bytes: x, weight and the result once each, the least possible: implicit-GEMM kernels make the
 * columns on the chip (Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014). */
#include "runtime/operators/conv_internal.h"

#include <inttypes.h>

enum { COLUMNS_ELEMENTS = 1 << 20 };

bool orr__conv_of(const struct orr_shape *x, const struct orr_shape *weight,
                  const struct orr_attributes *attributes, struct orr__conv *out_conv) {
    if (x->rank != 4 || weight->rank != 4)
        return false;
    *out_conv = (struct orr__conv){
        .n = x->dims[0],
        .c = x->dims[1],
        .h = x->dims[2],
        .w = x->dims[3],
        .o = weight->dims[0],
        .kh = weight->dims[2],
        .kw = weight->dims[3],
        .groups = attributes->values[CONV_GROUPS].integer,
        .stride = attributes->values[CONV_STRIDE].integer,
        .padding = attributes->values[CONV_PADDING].integer,
    };
    return true;
}

enum orr_status orr__conv_check(const struct orr_operator *op,
                                const struct orr_operand_info *inputs, int input_count,
                                struct orr__conv *conv, struct orr_error *error) {
    if (conv->stride < 1 || conv->padding < 0 || conv->padding > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error,
                           "stride %" PRId64 " and padding %" PRId64
                           ", expected at least 1 and at least 0",
                           conv->stride, conv->padding);
    if (conv->groups < 1 || conv->c < 1 || conv->c % conv->groups || conv->o % conv->groups)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " groups do not divide %" PRId64 " channels into %" PRId64,
                           conv->groups, conv->c, conv->o);
    int64_t h, w;
    bool fits = !__builtin_add_overflow(conv->h, 2 * conv->padding, &h) &&
                !__builtin_add_overflow(conv->w, 2 * conv->padding, &w);
    if (!fits || conv->kh < 1 || conv->kw < 1 || h < conv->kh || w < conv->kw)
        return orr__refuse(op, inputs, input_count, error,
                           "filters of %" PRId64 " x %" PRId64 " on an image of %" PRId64
                           " x %" PRId64 " with padding %" PRId64,
                           conv->kh, conv->kw, conv->h, conv->w, conv->padding);
    uint64_t filter = orr__times((uint64_t)(conv->c / conv->groups),
                                 orr__times((uint64_t)conv->kh, (uint64_t)conv->kw));
    if (filter > INT32_MAX || conv->o > INT32_MAX || h > INT32_MAX || w > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    conv->oh = (h - conv->kh) / conv->stride + 1;
    conv->ow = (w - conv->kw) / conv->stride + 1;
    return ORR_OK;
}

int64_t orr__conv_filter(const struct orr__conv *conv) {
    return conv->c / conv->groups * conv->kh * conv->kw;
}

uint64_t orr__conv_flops(const struct orr__conv *conv) {
    uint64_t positions = orr__times((uint64_t)conv->n, (uint64_t)(conv->oh * conv->ow));
    uint64_t sums = orr__times(positions, (uint64_t)conv->o);
    return orr__times(orr__times(2, sums), (uint64_t)orr__conv_filter(conv));
}

int64_t orr__conv_tile(const struct orr__conv *conv) {
    int64_t tile = COLUMNS_ELEMENTS / orr__conv_filter(conv), all = conv->oh * conv->ow;
    tile = tile < 64 ? 64 : tile;
    return tile < all ? tile : all;
}

/* One element of the filter over some positions: `row` is filled from, or added to, a channel. */
#define COLUMNS(name, type, image_type, inside, outside)                                           \
    static void name(const struct orr__conv *conv, image_type *channel, int64_t i, int64_t j,      \
                     int64_t first, int64_t count, type *row) {                                    \
        int64_t oy = first / conv->ow, ox = first % conv->ow;                                      \
        for (int64_t at = 0; at < count; oy++, ox = 0) {                                           \
            int64_t y = oy * conv->stride + i - conv->padding;                                     \
            bool in_rows = y >= 0 && y < conv->h;                                                  \
            for (; ox < conv->ow && at < count; ox++, at++) {                                      \
                int64_t x = ox * conv->stride + j - conv->padding;                                 \
                if (in_rows && x >= 0 && x < conv->w)                                              \
                    inside;                                                                        \
                else                                                                               \
                    outside;                                                                       \
            }                                                                                      \
        }                                                                                          \
    }
COLUMNS(gather_f32, float, const float, row[at] = channel[y * conv->w + x], row[at] = 0)
COLUMNS(gather_f64, double, const double, row[at] = channel[y * conv->w + x], row[at] = 0)
COLUMNS(scatter_f32, const float, double, channel[y * conv->w + x] += (double)row[at], (void)0)
COLUMNS(scatter_f64, const double, double, channel[y * conv->w + x] += row[at], (void)0)

void orr__conv_columns(const struct orr__conv *conv, enum orr_dtype compute, const void *image,
                       int64_t first, int64_t count, void *columns) {
    int64_t pixels = conv->h * conv->w;
    for (int64_t k = 0; k < orr__conv_filter(conv); k++) {
        int64_t channel = k / (conv->kh * conv->kw);
        int64_t i = k / conv->kw % conv->kh, j = k % conv->kw;
        if (compute == ORR_DTYPE_F64)
            gather_f64(conv, (const double *)image + channel * pixels, i, j, first, count,
                       (double *)columns + k * count);
        else
            gather_f32(conv, (const float *)image + channel * pixels, i, j, first, count,
                       (float *)columns + k * count);
    }
}

void orr__conv_add_columns(const struct orr__conv *conv, enum orr_dtype compute,
                           const void *columns, int64_t first, int64_t count, double *image) {
    int64_t pixels = conv->h * conv->w;
    for (int64_t k = 0; k < orr__conv_filter(conv); k++) {
        int64_t channel = k / (conv->kh * conv->kw);
        int64_t i = k / conv->kw % conv->kh, j = k % conv->kw;
        if (compute == ORR_DTYPE_F64)
            scatter_f64(conv, image + channel * pixels, i, j, first, count,
                        (const double *)columns + k * count);
        else
            scatter_f32(conv, image + channel * pixels, i, j, first, count,
                        (const float *)columns + k * count);
    }
}

/* ---- the operator ---- */

static enum orr_status infer_conv(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_conv2d;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    struct orr__conv conv;
    if (!orr__conv_of(&inputs[0].shape, &inputs[1].shape, attributes, &conv))
        return orr__refuse(op, inputs, input_count, error,
                           "expected x [n, c, h, w] and weight [o, c / groups, kh, kw]");
    status = orr__conv_check(op, inputs, input_count, &conv, error);
    if (status != ORR_OK)
        return status;
    if (inputs[1].shape.dims[1] != conv.c / conv.groups)
        return orr__refuse(op, inputs, input_count, error,
                           "filters of %" PRId64 " channels, expected %" PRId64 " (of %" PRId64
                           " in %" PRId64 " groups)",
                           inputs[1].shape.dims[1], conv.c / conv.groups, conv.c, conv.groups);
    if (input_count == 3 && (inputs[2].shape.rank != 1 || inputs[2].shape.dims[0] != conv.o))
        return orr__refuse(op, inputs, input_count, error, "expected bias [%" PRId64 "]", conv.o);
    struct orr_operand_info result = {
        .dtype = inputs[0].dtype,
        .shape = orr_shape_of(4, (int64_t[]){conv.n, conv.o, conv.oh, conv.ow})};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_conv(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    struct orr__conv conv = {.n = 0};
    (void)orr__conv_of(&inputs[0].shape, &inputs[1].shape, attributes, &conv);
    conv.oh = outputs[0].shape.dims[2];
    conv.ow = outputs[0].shape.dims[3];
    struct orr_cost cost = {
        .flops = orr__conv_flops(&conv),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_MATRIX,
    };
    if (input_count == 3) {
        struct orr_cost bias = {.flops = (uint64_t)orr_shape_count(&outputs[0].shape)};
        orr__charge_operand(&bias, &inputs[2], &outputs[0]);
        cost = orr_cost_add(cost, bias);
    }
    return cost;
}

/* Parts of one block of scratch, in the type of the arithmetic. */
struct scratch {
    enum orr_dtype compute;
    char *weight, *bias, *image, *columns, *out;
};

static void add_bias(enum orr_dtype compute, void *out, const void *bias, int64_t rows,
                     int64_t count) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < count; j++) {
            if (compute == ORR_DTYPE_F64)
                ((double *)out)[i * count + j] += ((const double *)bias)[i];
            else
                ((float *)out)[i * count + j] += ((const float *)bias)[i];
        }
}

/* Positions first .. first + count - 1 of one group of one image, whose channels are in scratch. */
static void convolve(const struct orr__conv *conv, const struct scratch *scratch, bool has_bias,
                     int64_t group, int64_t first, int64_t count) {
    int64_t rows = conv->o / conv->groups, filter = orr__conv_filter(conv);
    size_t size = orr_dtype_size(scratch->compute), row = (size_t)(group * rows);
    orr__conv_columns(conv, scratch->compute, scratch->image, first, count, scratch->columns);
    struct orr__panel panel = {
        .m = rows,
        .n = count,
        .k = filter,
        .a = scratch->weight + row * (size_t)filter * size,
        .b = scratch->columns,
        .lda = filter,
        .ldb = count,
        .ldc = count,
        .c = scratch->out,
    };
    if (scratch->compute == ORR_DTYPE_F64)
        orr__panel_f64(&panel);
    else
        orr__panel_f32(&panel);
    if (has_bias)
        add_bias(scratch->compute, scratch->out, scratch->bias + row * size, rows, count);
}

static void run_conv(const struct orr__conv *conv, const struct scratch *scratch,
                     const struct orr_tensor_view *inputs, bool has_bias,
                     const struct orr_tensor_view *output) {
    enum orr_dtype dtype = output->dtype, compute = scratch->compute;
    size_t size = orr_dtype_size(dtype), wide = orr_dtype_size(compute);
    int64_t channels = conv->c / conv->groups, rows = conv->o / conv->groups;
    int64_t positions = conv->oh * conv->ow, tile = orr__conv_tile(conv);
    size_t image = (size_t)(channels * conv->h * conv->w);
    for (int64_t at = 0; at < conv->n * conv->groups; at++) {
        orr_dtype_convert(compute, scratch->image, dtype,
                          (const char *)inputs[0].data + (size_t)at * image * size, image);
        for (int64_t first = 0; first < positions; first += tile) {
            int64_t count = positions - first < tile ? positions - first : tile;
            convolve(conv, scratch, has_bias, at % conv->groups, first, count);
            for (int64_t i = 0; i < rows; i++)
                orr_dtype_convert(
                    dtype,
                    (char *)output->data + (size_t)((at * rows + i) * positions + first) * size,
                    compute, scratch->out + (size_t)(i * count) * wide, (size_t)count);
        }
    }
}

static enum orr_status compute_conv(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    if (orr_shape_count(&outputs[0].shape) == 0)
        return ORR_OK;
    struct orr__conv conv;
    (void)orr__conv_of(&inputs[0].shape, &inputs[1].shape, attributes, &conv);
    conv.oh = outputs[0].shape.dims[2];
    conv.ow = outputs[0].shape.dims[3];
    enum orr_dtype dtype = outputs[0].dtype;
    struct scratch scratch = {.compute = dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32};
    size_t wide = orr_dtype_size(scratch.compute);
    int64_t filter = orr__conv_filter(&conv), tile = orr__conv_tile(&conv);
    size_t weight = (size_t)(conv.o * filter) * wide, bias = (size_t)conv.o * wide;
    size_t image = (size_t)(conv.c / conv.groups * conv.h * conv.w) * wide;
    size_t columns = (size_t)(filter * tile) * wide;
    size_t bytes = weight + bias + image + columns + (size_t)(conv.o / conv.groups * tile) * wide;
    scratch.weight = orr_memory_resize(memory, NULL, bytes);
    if (!scratch.weight)
        return orr__no_scratch(&orr__operator_conv2d, bytes, error);
    scratch.bias = scratch.weight + weight;
    scratch.image = scratch.bias + bias;
    scratch.columns = scratch.image + image;
    scratch.out = scratch.columns + columns;
    orr_dtype_convert(scratch.compute, scratch.weight, dtype, inputs[1].data,
                      (size_t)(conv.o * filter));
    if (input_count == 3)
        orr_dtype_convert(scratch.compute, scratch.bias, dtype, inputs[2].data, (size_t)conv.o);
    run_conv(&conv, &scratch, inputs, input_count == 3, &outputs[0]);
    orr_memory_free(memory, scratch.weight);
    return ORR_OK;
}

static const char *const conv_names[] = {"x", "weight", "bias"};
static const struct orr_attribute_spec conv_attributes[] = {
    [CONV_STRIDE] = {.name = "stride", .kind = ORR_ATTRIBUTE_INT, .integer = 1},
    [CONV_PADDING] = {.name = "padding", .kind = ORR_ATTRIBUTE_INT},
    [CONV_GROUPS] = {.name = "groups",
                     .kind = ORR_ATTRIBUTE_INT,
                     .integer = 1,
                     .local = ORR_LOCAL_SHARE,
                     .of = 0,
                     .dim = 1},
    {.name = NULL},
};

const struct orr_operator orr__operator_conv2d = {
    .name = "conv2d",
    .class = ORR_OPERATOR_GEMM,
    .inputs_min = 2,
    .inputs_max = 3,
    .outputs = 1,
    .input_names = conv_names,
    .attributes = conv_attributes,
    .infer = infer_conv,
    .cost = cost_conv,
    .compute = compute_conv,
};
