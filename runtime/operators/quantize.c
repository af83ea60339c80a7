/* Quantized weights: a row of numbers as 8-bit codes and one scale.
 *
 *     quantize      x [..., k]    dtype=i8 (or f8e4m3, f8e5m2) -> q [..., k], scale [...] in f32:
 *                   scale = the row's largest magnitude / the code's largest number (127, 448,
 *                   57344), 1 for a row of zeros; q = x / scale, rounded to the nearest code, ties
 *                   to even. Symmetric: zero is zero
 *     dequantize    q [..., k], scale [...]    dtype=f32 -> q scale, rounded once
 *     linear_quantized    x [..., m, in], q [out, in], scale [out], [bias [out]] -> as linear with
 *                   the weight q scale
 *
 * For a weight [out, in] that is one scale for each output channel (Jacob et al., "Quantization and
 * training of neural networks for efficient integer-arithmetic-only inference", 2018, section 3;
 * Micikevicius et al., "FP8 formats for deep learning", 2022, section 3.2 for scales of fp8). Only
 * weights are quantized: x stays in its dtype, and linear_quantized multiplies as linear does,
 * codes being exact in f32. The sum is scaled, bias is added, and the result is rounded once.
 *
 * A row with a NaN or an infinity has a scale that is none either, and comes back as NaN.
 *
 * Cost. FLOPs: quantize 4 an element (magnitude, maximum, divide, round); dequantize 1;
 * linear_quantized those of the product, 2 m n k at the peak of x's dtype, 1 for the scale and 1
 * for the bias an element; codes are converted on their way to the matrix units. Bytes: each
 * operand and result once, a weight one byte an element: that is what it is for. */
#include <inttypes.h>
#include <math.h>

#include "runtime/operators/gemm_internal.h"

enum { DTYPE };
enum { PIECE = 256, CODES_ELEMENTS = 4 << 20, ROWS = 256 };
enum { CODES = 1 << ORR_DTYPE_I8 | 1 << ORR_DTYPE_F8E4M3 | 1 << ORR_DTYPE_F8E5M2 };

static double largest_code(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_I8 ? 127 : dtype == ORR_DTYPE_F8E4M3 ? 448 : 57344;
}

static bool is_set(unsigned dtypes, int64_t dtype) {
    return dtype >= 0 && dtype < ORR_DTYPE_COUNT && dtypes >> dtype & 1u;
}

static struct orr_shape without_last(const struct orr_shape *shape) {
    return orr_shape_of(shape->rank - 1, shape->dims);
}

static const char *given_name(int64_t dtype) {
    bool known = dtype >= 0 && dtype < ORR_DTYPE_COUNT;
    return known ? orr_dtype_name((enum orr_dtype)dtype) : "none";
}

/* ---- quantize ---- */

static enum orr_status infer_quantize(const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      struct orr_operand_info *out_outputs,
                                      struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_quantize;
    int64_t dtype = attributes->values[DTYPE].integer;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    if (inputs[0].shape.rank < 1)
        return orr__refuse(op, inputs, input_count, error, "expected at least 1 dimension");
    if (!is_set(CODES, dtype))
        return orr__refuse(op, inputs, input_count, error,
                           "dtype is %s, expected i8, f8e4m3 or f8e5m2", given_name(dtype));
    out_outputs[0] = (struct orr_operand_info){(enum orr_dtype)dtype, inputs[0].shape};
    out_outputs[1] = (struct orr_operand_info){ORR_DTYPE_F32, without_last(&inputs[0].shape)};
    return ORR_OK;
}

static struct orr_cost cost_quantize(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = orr__times(4, (uint64_t)orr_shape_count(&inputs[0].shape)),
        .bytes_read = orr__bytes(&inputs[0]),
        .bytes_written = orr__bytes(&outputs[0]) + orr__bytes(&outputs[1]),
        .unit = ORR_UNIT_VECTOR,
    };
}

static const char *at(const struct orr_tensor_view *view, int64_t index) {
    return (const char *)view->data + (size_t)index * orr_dtype_size(view->dtype);
}

static char *to(const struct orr_tensor_view *view, int64_t index) {
    return (char *)view->data + (size_t)index * orr_dtype_size(view->dtype);
}

/* The row's largest magnitude, NaN if there is a NaN. */
static double magnitude(const struct orr_tensor_view *x, int64_t first, int64_t width) {
    double most = 0, values[PIECE];
    for (int64_t done = 0; done < width; done += PIECE) {
        int64_t count = width - done < PIECE ? width - done : PIECE;
        orr_dtype_convert(ORR_DTYPE_F64, values, x->dtype, at(x, first + done), (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            double value = fabs(values[i]);
            most = value > most || value != value ? value : most;
        }
    }
    return most;
}

static void quantize_row(const struct orr_tensor_view *x, const struct orr_tensor_view *q,
                         int64_t first, int64_t width, double scale) {
    double values[PIECE];
    for (int64_t done = 0; done < width; done += PIECE) {
        int64_t count = width - done < PIECE ? width - done : PIECE;
        orr_dtype_convert(ORR_DTYPE_F64, values, x->dtype, at(x, first + done), (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            double value = values[i] / scale; /* the scale is rounded: up to 127.00001 */
            values[i] = q->dtype == ORR_DTYPE_I8 ? rint(fmin(fmax(value, -127), 127)) : value;
            values[i] = value != value ? value : values[i];
        }
        orr_dtype_convert(q->dtype, to(q, first + done), ORR_DTYPE_F64, values, (size_t)count);
    }
}

static enum orr_status compute_quantize(const struct orr_tensor_view *inputs, int input_count,
                                        const struct orr_attributes *attributes,
                                        const struct orr_tensor_view *outputs,
                                        const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)attributes;
    (void)memory;
    (void)error;
    const struct orr_shape *shape = &inputs[0].shape;
    int64_t width = shape->dims[shape->rank - 1], rows = orr_shape_count(&outputs[1].shape);
    float *scales = outputs[1].data;
    for (int64_t row = 0; row < rows; row++) {
        double most = magnitude(&inputs[0], row * width, width);
        scales[row] = (float)(most / largest_code(outputs[0].dtype));
        if (scales[row] == 0)
            scales[row] = 1;
        quantize_row(&inputs[0], &outputs[0], row * width, width, (double)scales[row]);
    }
    return ORR_OK;
}

static const char *const quantize_names[] = {"x"};
static const struct orr_attribute_spec quantize_attributes[] = {
    [DTYPE] = {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .integer = ORR_DTYPE_I8},
    {.name = NULL},
};

const struct orr_operator orr__operator_quantize = {
    .name = "quantize",
    .class = ORR_OPERATOR_NORM,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 2,
    .input_names = quantize_names,
    .attributes = quantize_attributes,
    .infer = infer_quantize,
    .cost = cost_quantize,
    .compute = compute_quantize,
};

/* ---- dequantize ---- */

/* q of codes and scale in f32, as operands `first` and the one behind it. */
static enum orr_status check_codes(const struct orr_operator *op,
                                   const struct orr_operand_info *inputs, int input_count,
                                   int first, struct orr_error *error) {
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_operand_info *q = &inputs[first], *scale = &inputs[first + 1];
    if (!is_set(CODES, q->dtype) || scale->dtype != ORR_DTYPE_F32)
        return orr__refuse(op, inputs, input_count, error,
                           "expected q in i8, f8e4m3 or f8e5m2 and scale in f32");
    struct orr_shape rows = without_last(&q->shape);
    if (q->shape.rank < 1 || !orr_shape_equal(&rows, &scale->shape)) {
        char text[ORR_SHAPE_TEXT_MAX] = "of q's rows";
        if (q->shape.rank >= 1)
            orr_shape_text(&rows, text);
        return orr__refuse(op, inputs, input_count, error, "expected scale %s", text);
    }
    return ORR_OK;
}

static enum orr_status infer_dequantize(const struct orr_operand_info *inputs, int input_count,
                                        const struct orr_attributes *attributes,
                                        struct orr_operand_info *out_outputs,
                                        struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_dequantize;
    int64_t dtype = attributes->values[DTYPE].integer;
    enum orr_status status = check_codes(op, inputs, input_count, 0, error);
    if (status != ORR_OK)
        return status;
    if (!is_set(ORR__FLOATS, dtype))
        return orr__refuse(op, inputs, input_count, error,
                           "dtype is %s, expected f64, f32, f16 or bf16", given_name(dtype));
    struct orr_operand_info result = {(enum orr_dtype)dtype, inputs[0].shape};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_dequantize(const struct orr_operand_info *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       const struct orr_operand_info *outputs) {
    (void)attributes;
    struct orr_cost cost = {
        .flops = (uint64_t)orr_shape_count(&outputs[0].shape),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 0; i < input_count; i++)
        orr__charge_operand(&cost, &inputs[i], &outputs[0]);
    return cost;
}

static enum orr_status compute_dequantize(const struct orr_tensor_view *inputs, int input_count,
                                          const struct orr_attributes *attributes,
                                          const struct orr_tensor_view *outputs,
                                          const struct orr_memory *memory,
                                          struct orr_error *error) {
    (void)input_count;
    (void)attributes;
    (void)memory;
    (void)error;
    const struct orr_shape *shape = &inputs[0].shape;
    const float *scales = inputs[1].data;
    int64_t width = shape->dims[shape->rank - 1];
    double values[PIECE];
    for (int64_t row = 0; row < orr_shape_count(&inputs[1].shape); row++)
        for (int64_t done = 0; done < width; done += PIECE) {
            int64_t count = width - done < PIECE ? width - done : PIECE, first = row * width + done;
            orr_dtype_convert(ORR_DTYPE_F64, values, inputs[0].dtype, at(&inputs[0], first),
                              (size_t)count);
            for (int64_t i = 0; i < count; i++)
                values[i] *= (double)scales[row];
            orr_dtype_convert(outputs[0].dtype, to(&outputs[0], first), ORR_DTYPE_F64, values,
                              (size_t)count);
        }
    return ORR_OK;
}

static const char *const dequantize_names[] = {"q", "scale"};
static const struct orr_attribute_spec dequantize_attributes[] = {
    [DTYPE] = {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .integer = ORR_DTYPE_F32},
    {.name = NULL},
};

const struct orr_operator orr__operator_dequantize = {
    .name = "dequantize",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = dequantize_names,
    .attributes = dequantize_attributes,
    .infer = infer_dequantize,
    .cost = cost_dequantize,
    .compute = compute_dequantize,
};

/* ---- linear_quantized ---- */

enum { X, Q, SCALE, BIAS };

static enum orr_status infer_linear(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_linear_quantized;
    if (input_count < op->inputs_min || input_count > op->inputs_max)
        return orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    enum orr_status status = check_codes(op, inputs, input_count, Q, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[X].shape, *q = &inputs[Q].shape;
    if (!is_set(ORR__FLOATS, inputs[X].dtype) || x->rank < 2 || q->rank != 2 ||
        x->dims[x->rank - 1] != q->dims[1])
        return orr__refuse(op, inputs, input_count, error,
                           "expected x [..., m, in] of floats, q [out, in], scale [out]");
    const struct orr_operand_info *bias = input_count > BIAS ? &inputs[BIAS] : NULL;
    if (bias && (bias->dtype != inputs[X].dtype || bias->shape.rank != 1 ||
                 bias->shape.dims[0] != q->dims[0]))
        return orr__refuse(op, inputs, input_count, error,
                           "expected bias [%" PRId64 "] in x's dtype", q->dims[0]);
    if (q->dims[0] > INT32_MAX || q->dims[1] > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    struct orr_operand_info result = inputs[X];
    result.shape.dims[x->rank - 1] = q->dims[0];
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_linear(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)attributes;
    uint64_t count = (uint64_t)orr_shape_count(&outputs[0].shape);
    uint64_t k = (uint64_t)inputs[Q].shape.dims[1];
    struct orr_cost cost = {
        .flops = orr__times(orr__times(2, k), count),
        .bytes_read = orr__bytes(&inputs[X]) + orr__bytes(&inputs[Q]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_MATRIX,
    };
    for (int i = SCALE; i < input_count; i++) {
        struct orr_cost one = {.flops = count};
        orr__charge_operand(&one, &inputs[i], &outputs[0]);
        cost = orr_cost_add(cost, one);
    }
    return cost;
}

/* Parts of one block of scratch in f32 or f64: codes of some output channels, some rows of x and
 * their result, and all of scale and bias. */
struct tiles {
    enum orr_dtype compute;
    int64_t columns, rows;
    char *q, *x, *y, *scale, *bias;
};

static size_t divide_scratch(char *block, int64_t k, int64_t n, struct tiles *tiles) {
    size_t wide = orr_dtype_size(tiles->compute), used = 0;
    char **parts[] = {&tiles->q, &tiles->x, &tiles->y, &tiles->scale, &tiles->bias};
    int64_t counts[] = {tiles->columns * k, tiles->rows * k, tiles->rows * tiles->columns, n, n};
    for (int i = 0; i < 5; i++) {
        *parts[i] = block ? block + used : NULL;
        used += (size_t)counts[i] * wide;
    }
    return used;
}

#define FINISH(name, type)                                                                         \
    static void name(type *y, const type *scale, const type *bias, int64_t m, int64_t n) {         \
        for (int64_t i = 0; i < m; i++)                                                            \
            for (int64_t j = 0; j < n; j++) {                                                      \
                type scaled = y[i * n + j] * scale[j];                                             \
                y[i * n + j] = bias ? scaled + bias[j] : scaled;                                   \
            }                                                                                      \
    }
FINISH(finish_f32, float)
FINISH(finish_f64, double)

/* Rows row .. row + m - 1 and channels column .. column + n - 1, whose codes are in scratch. */
static void run_tile(const struct tiles *tiles, const struct orr_tensor_view *x,
                     const struct orr_tensor_view *out, int64_t k, int64_t row, int64_t m,
                     int64_t column, int64_t n) {
    size_t wide = orr_dtype_size(tiles->compute);
    int64_t width = out->shape.dims[out->shape.rank - 1];
    const char *scale = tiles->scale + (size_t)column * wide;
    const char *bias = tiles->bias ? tiles->bias + (size_t)column * wide : NULL;
    orr_dtype_convert(tiles->compute, tiles->x, x->dtype, at(x, row * k), (size_t)(m * k));
    struct orr__panel panel = {
        .transpose_b = true,
        .m = m,
        .n = n,
        .k = k,
        .a = tiles->x,
        .b = tiles->q,
        .lda = k > 0 ? k : 1,
        .ldb = k > 0 ? k : 1,
        .ldc = n,
        .c = tiles->y,
    };
    if (tiles->compute == ORR_DTYPE_F64) {
        orr__panel_f64(&panel);
        finish_f64((double *)(void *)tiles->y, (const double *)(const void *)scale,
                   (const double *)(const void *)bias, m, n);
    } else {
        orr__panel_f32(&panel);
        finish_f32((float *)(void *)tiles->y, (const float *)(const void *)scale,
                   (const float *)(const void *)bias, m, n);
    }
    for (int64_t i = 0; i < m; i++)
        orr_dtype_convert(out->dtype, to(out, (row + i) * width + column), tiles->compute,
                          tiles->y + (size_t)(i * n) * wide, (size_t)n);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static enum orr_status compute_linear(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)attributes;
    const struct orr_tensor_view *x = &inputs[X], *q = &inputs[Q];
    int64_t n = q->shape.dims[0], k = q->shape.dims[1];
    int64_t m = orr__dims_product(&x->shape, 0, x->shape.rank - 1);
    if (m == 0 || n == 0)
        return ORR_OK;
    struct tiles tiles = {.compute = x->dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32};
    int64_t columns = CODES_ELEMENTS / (k > 0 ? k : 1);
    tiles.columns = smaller(columns < 16 ? 16 : columns, n);
    tiles.rows = smaller(ROWS, m);
    size_t bytes = divide_scratch(NULL, k, n, &tiles);
    char *block = orr_memory_resize(memory, NULL, bytes);
    if (!block)
        return orr__no_scratch(&orr__operator_linear_quantized, bytes, error);
    divide_scratch(block, k, n, &tiles);
    orr_dtype_convert(tiles.compute, tiles.scale, ORR_DTYPE_F32, inputs[SCALE].data, (size_t)n);
    if (input_count > BIAS)
        orr_dtype_convert(tiles.compute, tiles.bias, x->dtype, inputs[BIAS].data, (size_t)n);
    else
        tiles.bias = NULL;
    for (int64_t column = 0; column < n; column += tiles.columns) {
        int64_t width = smaller(tiles.columns, n - column);
        orr_dtype_convert(tiles.compute, tiles.q, q->dtype, at(q, column * k), (size_t)(width * k));
        for (int64_t row = 0; row < m; row += tiles.rows)
            run_tile(&tiles, x, &outputs[0], k, row, smaller(tiles.rows, m - row), column, width);
    }
    orr_memory_free(memory, block);
    return ORR_OK;
}

static const char *const linear_names[] = {"x", "q", "scale", "bias"};
static const struct orr_attribute_spec linear_attributes[] = {{.name = NULL}};

const struct orr_operator orr__operator_linear_quantized = {
    .name = "linear_quantized",
    .class = ORR_OPERATOR_GEMM,
    .inputs_min = 3,
    .inputs_max = 4,
    .outputs = 1,
    .input_names = linear_names,
    .attributes = linear_attributes,
    .infer = infer_linear,
    .cost = cost_linear,
    .compute = compute_linear,
};
