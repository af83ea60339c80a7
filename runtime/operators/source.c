/* zeros, ones, full, arange, rand and randn: no operands.
 *
 * rand is uniform in [0, 1): the upper 53, 24, 11 or 8 of an element's 64 random bits for f64, f32,
 * f16 and bf16, so that no result rounds up to 1. randn is standard normal, computed in f64 with a
 * relative error of 1e-7 and rounded once. Both are functions of seed and element index (see
 * random_internal.h); with `global_shape` and `starts` they give a shard of a larger tensor.
 *
 * Cost: bytes written; the integer work of the generator is not FLOPs. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/random_internal.h"

enum { PIECE = ORR__RANDOM_PIECE };
enum { SOURCE_SHAPE, SOURCE_DTYPE, SOURCE_VALUE };
enum { RANDOM_SEED = SOURCE_DTYPE + 1, RANDOM_GLOBAL_SHAPE, RANDOM_STARTS };
enum { ARANGE_START, ARANGE_END, ARANGE_STEP, ARANGE_DTYPE };

static const char *const no_names[] = {NULL};

static enum orr_status infer_source(const struct orr_operator *op, unsigned dtypes,
                                    const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out, struct orr_error *error) {
    const struct orr_shape *shape = &attributes->values[SOURCE_SHAPE].shape;
    int64_t dtype = attributes->values[SOURCE_DTYPE].integer;
    enum orr_status status = orr__check_operands(op, inputs, input_count, dtypes, error);
    if (status != ORR_OK)
        return status;
    if (dtype < 0 || dtype >= ORR_DTYPE_COUNT || !(dtypes >> dtype & 1u)) {
        bool known = dtype >= 0 && dtype < ORR_DTYPE_COUNT;
        return orr__refuse(op, NULL, 0, error, "dtype %s is not supported",
                           known ? orr_dtype_name((enum orr_dtype)dtype) : "none");
    }
    struct orr_operand_info result = {.dtype = (enum orr_dtype)dtype, .shape = *shape};
    status = orr__check_result(op, NULL, 0, &result, error);
    if (status == ORR_OK)
        *out = result;
    return status;
}

static struct orr_cost cost_source(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)inputs;
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){.bytes_written = orr__bytes(&outputs[0]), .unit = ORR_UNIT_VECTOR};
}

/* Repeats one value: a piece is converted once, then copied. */
static void fill(const struct orr_tensor_view *output, double value) {
    size_t count = (size_t)orr_shape_count(&output->shape), size = orr_dtype_size(output->dtype);
    char *to = output->data;
    size_t first = count < PIECE ? count : PIECE;
    for (size_t i = 0; i < first; i++)
        orr_dtype_store(output->dtype, to, i, value);
    for (size_t done = first; done < count; done += PIECE) {
        size_t rest = count - done < PIECE ? count - done : PIECE;
        memcpy(to + done * size, to, rest * size);
    }
}

static const struct orr_attribute_spec plain_attributes[] = {
    [SOURCE_SHAPE] = {.name = "shape",
                      .kind = ORR_ATTRIBUTE_SHAPE,
                      .required = true,
                      .local = ORR_LOCAL_PIECE,
                      .of = ORR_OF_RESULT},
    [SOURCE_DTYPE] = {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .integer = ORR_DTYPE_F32},
    {.name = NULL},
};
static const struct orr_attribute_spec full_attributes[] = {
    [SOURCE_SHAPE] = {.name = "shape",
                      .kind = ORR_ATTRIBUTE_SHAPE,
                      .required = true,
                      .local = ORR_LOCAL_PIECE,
                      .of = ORR_OF_RESULT},
    [SOURCE_DTYPE] = {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .integer = ORR_DTYPE_F32},
    [SOURCE_VALUE] = {.name = "value", .kind = ORR_ATTRIBUTE_REAL, .required = true},
    {.name = NULL},
};
static const struct orr_attribute_spec random_attributes[] = {
    [SOURCE_SHAPE] = {.name = "shape",
                      .kind = ORR_ATTRIBUTE_SHAPE,
                      .required = true,
                      .local = ORR_LOCAL_PIECE,
                      .of = ORR_OF_RESULT},
    [SOURCE_DTYPE] = {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .integer = ORR_DTYPE_F32},
    [RANDOM_SEED] = {.name = "seed", .kind = ORR_ATTRIBUTE_INT},
    [RANDOM_GLOBAL_SHAPE] = {.name = "global_shape",
                             .kind = ORR_ATTRIBUTE_SHAPE,
                             .local = ORR_LOCAL_WHOLE,
                             .of = ORR_OF_RESULT},
    [RANDOM_STARTS] = {.name = "starts",
                       .kind = ORR_ATTRIBUTE_SHAPE,
                       .local = ORR_LOCAL_START,
                       .of = ORR_OF_RESULT},
    {.name = NULL},
};

#define INFER(id, body)                                                                            \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        return body;                                                                               \
    }

#define COMPUTE(id, statement)                                                                     \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        (void)inputs;                                                                              \
        (void)input_count;                                                                         \
        (void)attributes;                                                                          \
        (void)memory;                                                                              \
        (void)error;                                                                               \
        statement;                                                                                 \
        return ORR_OK;                                                                             \
    }

#define ROW(id, attribute_list)                                                                    \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_SOURCE,                                                              \
        .inputs_min = 0,                                                                           \
        .inputs_max = 0,                                                                           \
        .outputs = 1,                                                                              \
        .input_names = no_names,                                                                   \
        .attributes = attribute_list,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = cost_source,                                                                       \
        .compute = compute_##id,                                                                   \
    };

#define INFER_PLAIN(id, dtypes)                                                                    \
    INFER(id, infer_source(&orr__operator_##id, dtypes, inputs, input_count, attributes,           \
                           &out_outputs[0], error))

INFER_PLAIN(zeros, ORR__ANY)
COMPUTE(zeros, fill(&outputs[0], 0))
ROW(zeros, plain_attributes)

INFER_PLAIN(ones, ORR__ANY)
COMPUTE(ones, fill(&outputs[0], 1))
ROW(ones, plain_attributes)

INFER_PLAIN(full, ORR__ANY)
COMPUTE(full, fill(&outputs[0], attributes->values[SOURCE_VALUE].real))
ROW(full, full_attributes)

/* ---- arange: start, start + step, ... before end ---- */

/* Number of elements, or -1 if it doesn't fit in int64. */
static int64_t arange_count(const struct orr_attributes *attributes) {
    int64_t start = attributes->values[ARANGE_START].integer;
    int64_t end = attributes->values[ARANGE_END].integer;
    int64_t step = attributes->values[ARANGE_STEP].integer;
    if (step > 0 ? start >= end : start <= end)
        return 0;
    uint64_t distance =
        step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0u - (uint64_t)step;
    uint64_t count = (distance - 1) / stride + 1;
    return count > INT64_MAX ? -1 : (int64_t)count;
}

static enum orr_status infer_arange(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_arange;
    int64_t dtype = attributes->values[ARANGE_DTYPE].integer;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__NUMBERS, error);
    if (status != ORR_OK)
        return status;
    if (dtype < 0 || dtype >= ORR_DTYPE_COUNT || !(ORR__NUMBERS >> dtype & 1))
        return orr__refuse(op, NULL, 0, error, "dtype is not a number's");
    if (attributes->values[ARANGE_STEP].integer == 0)
        return orr__refuse(op, NULL, 0, error, "step is 0");
    struct orr_operand_info result = {
        .dtype = (enum orr_dtype)dtype,
        .shape = orr_shape_of(1, (int64_t[]){arange_count(attributes)}),
    };
    status = orr__check_result(op, NULL, 0, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static void write_arange(const struct orr_tensor_view *output,
                         const struct orr_attributes *attributes) {
    int64_t count = orr_shape_count(&output->shape), values[PIECE];
    uint64_t start = (uint64_t)attributes->values[ARANGE_START].integer;
    uint64_t step = (uint64_t)attributes->values[ARANGE_STEP].integer;
    for (int64_t done = 0; done < count; done += PIECE) {
        int64_t length = count - done < PIECE ? count - done : PIECE;
        for (int64_t i = 0; i < length; i++)
            values[i] = (int64_t)(start + (uint64_t)(done + i) * step);
        orr_dtype_convert(output->dtype,
                          (char *)output->data + (size_t)done * orr_dtype_size(output->dtype),
                          ORR_DTYPE_I64, values, (size_t)length);
    }
}

static const struct orr_attribute_spec arange_attributes[] = {
    [ARANGE_START] = {.name = "start", .kind = ORR_ATTRIBUTE_INT},
    [ARANGE_END] = {.name = "end", .kind = ORR_ATTRIBUTE_INT, .required = true},
    [ARANGE_STEP] = {.name = "step", .kind = ORR_ATTRIBUTE_INT, .integer = 1},
    [ARANGE_DTYPE] = {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .integer = ORR_DTYPE_I64},
    {.name = NULL},
};

COMPUTE(arange, write_arange(&outputs[0], attributes))
ROW(arange, arange_attributes)

/* ---- rand, randn ---- */

static enum orr_status infer_random(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out, struct orr_error *error) {
    struct orr_operand_info result;
    enum orr_status status =
        infer_source(op, ORR__FLOATS, inputs, input_count, attributes, &result, error);
    if (status == ORR_OK)
        status = orr__check_placement(op, NULL, 0, &result.shape,
                                      &attributes->values[RANDOM_GLOBAL_SHAPE].shape,
                                      &attributes->values[RANDOM_STARTS].shape, error);
    if (status == ORR_OK)
        *out = result;
    return status;
}

static int significant_bits(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return 53;
    case ORR_DTYPE_F32: return 24;
    case ORR_DTYPE_F16: return 11;
    default: return 8;
    }
}

static void draw(const struct orr_tensor_view *output, const struct orr_attributes *attributes,
                 bool normal) {
    int64_t total = orr_shape_count(&output->shape);
    struct orr__placement placement =
        orr__placement_of(&output->shape, &attributes->values[RANDOM_GLOBAL_SHAPE].shape,
                          &attributes->values[RANDOM_STARTS].shape);
    uint64_t key = orr__random_key((uint64_t)attributes->values[RANDOM_SEED].integer);
    int dropped = 64 - significant_bits(output->dtype);
    double unit = 1 / (double)((uint64_t)1 << (64 - dropped));
    size_t size = orr_dtype_size(output->dtype);
    for (int64_t first = 0; first < total; first += PIECE) {
        int count = (int)(total - first < PIECE ? total - first : PIECE);
        uint64_t bits[PIECE];
        double values[PIECE];
        orr__placement_indices(&placement, first, count, bits);
        for (int i = 0; i < count; i++)
            bits[i] = orr__random_bits(key, bits[i]);
        if (normal)
            orr__random_normals(bits, count, values);
        for (int i = 0; !normal && i < count; i++)
            values[i] = (double)(bits[i] >> dropped) * unit;
        orr_dtype_convert(output->dtype, (char *)output->data + (size_t)first * size, ORR_DTYPE_F64,
                          values, (size_t)count);
    }
}

INFER(rand,
      infer_random(&orr__operator_rand, inputs, input_count, attributes, &out_outputs[0], error))
COMPUTE(rand, draw(&outputs[0], attributes, false))
ROW(rand, random_attributes)

INFER(randn,
      infer_random(&orr__operator_randn, inputs, input_count, attributes, &out_outputs[0], error))
COMPUTE(randn, draw(&outputs[0], attributes, true))
ROW(randn, random_attributes)
