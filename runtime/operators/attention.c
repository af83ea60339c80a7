/* rope and sdpa.
 *
 * rope rotates pairs (i, i + d/2) of the last dimension by the angle position * theta^(-2i/d): the
 * half-split layout of Llama implementations (rotate_half in Hugging Face transformers'
 * modeling_llama.py; Su et al., "RoFormer", 2021, has the interleaved one). x is [..., s, d]; row
 * r has the position offset + r. Angles, sines and cosines are taken in f64.
 *
 * sdpa is softmax(scale q k^T) v with grouped-query heads: query head i reads key-value head
 * i / (h / hkv). With `causal`, query i sees keys 0 .. i + t - s: the queries are the last s of t
 * positions, so that a decode step (s = 1) sees all keys.
 *
 * Cost.
 *   rope: 3 FLOPs for each element (two multiplications and an addition); sines and cosines, which
 *   depend on the position only, are left out. x once, the result once.
 *   sdpa: FLOPs of the two products, 2 b h s t (d + dv), so 4 b h s t d when v is as wide as q
 *   (Dao, "FlashAttention-2", 2023, section 4.1, counts so and halves it with a causal mask;
 *   softmax is left out). Causal: half of the s x s square at the end is masked, so s t becomes
 *   s t - s^2 / 2: exactly half when s = t, and nearly all of it in a decode step. Bytes: q, k and
 *   v once, the result once; scores stay on the chip. */
#include <inttypes.h>
#include <math.h>

#include "runtime/operators/attention_internal.h"

/* ---- rope ---- */

enum { ROPE_OFFSET, ROPE_THETA };

static enum orr_status infer_rope(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_rope;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    if (x->rank < 2 || x->dims[x->rank - 1] % 2 != 0)
        return orr__refuse(op, inputs, input_count, error, "expected x [..., s, d] with an even d");
    double theta = attributes->values[ROPE_THETA].real;
    if (!(theta > 0))
        return orr__refuse(op, inputs, input_count, error, "theta is %g, expected more than 0",
                           theta);
    out_outputs[0] = inputs[0];
    return ORR_OK;
}

static struct orr_cost cost_rope(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = orr__times(3, (uint64_t)orr_shape_count(&outputs[0].shape)),
        .bytes_read = orr__bytes(&inputs[0]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* cosines[i] and sines[i], i < half, of one position. */
static void rope_angles(double position, const double *frequencies, int64_t half, double *cosines,
                        double *sines) {
    for (int64_t i = 0; i < half; i++) {
        cosines[i] = cos(position * frequencies[i]);
        sines[i] = sin(position * frequencies[i]);
    }
}

#define ROTATE(name, type)                                                                         \
    static void name(type *row, int64_t half, const double *cosines, const double *sines) {        \
        for (int64_t i = 0; i < half; i++) {                                                       \
            type a = row[i], b = row[i + half], c = (type)cosines[i], s = (type)sines[i];          \
            row[i] = a * c - b * s;                                                                \
            row[i + half] = b * c + a * s;                                                         \
        }                                                                                          \
    }
ROTATE(rotate_f32, float)
ROTATE(rotate_f64, double)

static void rotate_row(enum orr_dtype dtype, const char *from, char *to, int64_t half,
                       const double *cosines, const double *sines, void *row) {
    enum orr_dtype compute = dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    orr_dtype_convert(compute, row, dtype, from, (size_t)half * 2);
    if (compute == ORR_DTYPE_F64)
        rotate_f64(row, half, cosines, sines);
    else
        rotate_f32(row, half, cosines, sines);
    orr_dtype_convert(dtype, to, compute, row, (size_t)half * 2);
}

static enum orr_status compute_rope(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    const struct orr_shape *shape = &inputs[0].shape;
    if (orr_shape_count(shape) == 0)
        return ORR_OK;
    int64_t half = shape->dims[shape->rank - 1] / 2, positions = shape->dims[shape->rank - 2];
    int64_t outer = orr__dims_product(shape, 0, shape->rank - 2);
    size_t bytes = (size_t)half * 5 * sizeof(double);
    double *frequencies = orr_memory_resize(memory, NULL, bytes);
    if (!frequencies)
        return orr__no_scratch(&orr__operator_rope, bytes, error);
    double *cosines = frequencies + half, *sines = cosines + half, *row = sines + half;
    for (int64_t i = 0; i < half; i++)
        frequencies[i] =
            pow(attributes->values[ROPE_THETA].real, -(double)(2 * i) / (double)(2 * half));
    size_t row_bytes = (size_t)half * 2 * orr_dtype_size(inputs[0].dtype);
    for (int64_t p = 0; p < positions; p++) {
        double position = (double)attributes->values[ROPE_OFFSET].integer + (double)p;
        rope_angles(position, frequencies, half, cosines, sines);
        for (int64_t i = 0; i < outer; i++) {
            size_t at = (size_t)(i * positions + p) * row_bytes;
            rotate_row(inputs[0].dtype, (const char *)inputs[0].data + at,
                       (char *)outputs[0].data + at, half, cosines, sines, row);
        }
    }
    orr_memory_free(memory, frequencies);
    return ORR_OK;
}

static const char *const rope_names[] = {"x"};
static const struct orr_attribute_spec rope_attributes[] = {
    [ROPE_OFFSET] = {.name = "offset",
                     .kind = ORR_ATTRIBUTE_INT,
                     .local = ORR_LOCAL_OFFSET,
                     .of = ORR_OF_RESULT,
                     .dim = -2},
    [ROPE_THETA] = {.name = "theta", .kind = ORR_ATTRIBUTE_REAL, .real = 10000},
    {.name = NULL},
};

const struct orr_operator orr__operator_rope = {
    .name = "rope",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = rope_names,
    .attributes = rope_attributes,
    .infer = infer_rope,
    .cost = cost_rope,
    .compute = compute_rope,
};

/* ---- sdpa ---- */

enum { SDPA_CAUSAL, SDPA_SCALE };

static struct orr__attention attention_of(const struct orr_shape *q, const struct orr_shape *k,
                                          const struct orr_shape *v,
                                          const struct orr_attributes *attributes) {
    return orr__attention_of(q, k, v, attributes->values[SDPA_CAUSAL].integer != 0,
                             attributes->values[SDPA_SCALE].real);
}

static enum orr_status infer_sdpa(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_sdpa;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status == ORR_OK)
        status = orr__attention_check(op, inputs, input_count, 0, error);
    if (status != ORR_OK)
        return status;
    int64_t s = inputs[0].shape.dims[2], t = inputs[1].shape.dims[2];
    if (attributes->values[SDPA_CAUSAL].integer != 0 && s > t)
        return orr__refuse(op, inputs, input_count, error,
                           "causal with more queries than keys: %" PRId64 " and %" PRId64, s, t);
    struct orr_operand_info result = inputs[0];
    result.shape.dims[3] = inputs[2].shape.dims[3];
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_sdpa(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    (void)input_count;
    struct orr__attention shape =
        attention_of(&inputs[0].shape, &inputs[1].shape, &inputs[2].shape, attributes);
    uint64_t heads = (uint64_t)shape.b * (uint64_t)shape.h;
    return (struct orr_cost){
        .flops = orr__times(orr__times(heads, (uint64_t)(shape.d + shape.dv)),
                            orr__attention_twice_pairs(&shape)),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]) + orr__bytes(&inputs[2]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_MATRIX,
    };
}

static enum orr_status compute_sdpa(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    if (orr_shape_count(&outputs[0].shape) == 0)
        return ORR_OK;
    struct orr__attention shape =
        attention_of(&inputs[0].shape, &inputs[1].shape, &inputs[2].shape, attributes);
    return orr__attention_forward(&orr__operator_sdpa, &shape, inputs, &outputs[0], NULL, memory,
                                  error);
}

static const char *const sdpa_names[] = {"q", "k", "v"};
static const struct orr_attribute_spec sdpa_attributes[] = {
    [SDPA_CAUSAL] = {.name = "causal", .kind = ORR_ATTRIBUTE_BOOL},
    [SDPA_SCALE] = {.name = "scale", .kind = ORR_ATTRIBUTE_REAL}, /* 0: 1 / sqrt(d) */
    {.name = NULL},
};

const struct orr_operator orr__operator_sdpa = {
    .name = "sdpa",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 3,
    .inputs_max = 3,
    .outputs = 1,
    .input_names = sdpa_names,
    .attributes = sdpa_attributes,
    .infer = infer_sdpa,
    .cost = cost_sdpa,
    .compute = compute_sdpa,
};
