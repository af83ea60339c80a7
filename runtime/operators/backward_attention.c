/* Gradients of rope and sdpa.
 *
 * rope_backward rotates by the opposite angle: a rotation's inverse is its transpose.
 *
 * sdpa_backward gets what the forward pass had and its result, and computes the scores again
 * instead of keeping them (Dao, "FlashAttention-2", 2023, section 3.2 and algorithm 2):
 *
 *     S = scale q k^T    P = softmax(S)    dP = dO v^T    D = rowsum(dO O)    dS = scale P (dP - D)
 *     dq = dS k    dk = dS^T q    dv = P^T dO        summed over the query heads of a key head
 *
 * Cost.
 *   rope_backward: as rope: 3 FLOPs for each element, x once, the result once.
 *   sdpa_backward: five products where the forward pass has two: S, dq and dk over d, dP and dv
 *   over dv: 2 b h s t (3 d + 2 dv), with a causal mask s t - s^2 / 2 for s t; 2.5 times the
 *   forward pass when v is as wide as q, as FlashAttention's benchmarks count (flash-attention,
 *   benchmarks/benchmark_flash_attention.py: `4 * ... * 2.5`). Softmax and D are left out. Bytes:
 *   grad, q, k, v and the result once, dq, dk and dv once; scores stay on the chip. The rows'
 *   largest scores and sums, which a forward kernel would hand over (4 bytes for each query, less
 *   than 1 % of q in bf16 for d = 128), are left out. */
#include <math.h>
#include <string.h>

#include "runtime/operators/attention_internal.h"

/* ---- rope_backward ---- */

enum { ROPE_OFFSET, ROPE_THETA };

static enum orr_status infer_rope(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_rope_backward;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    struct orr_error detail = {0};
    if (status == ORR_OK &&
        orr__operator_rope.infer(inputs, input_count, attributes, out_outputs, &detail) != ORR_OK)
        return orr__refuse(op, inputs, input_count, error, "%s", detail.text);
    return status;
}

static struct orr_cost cost_rope(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    return orr__operator_rope.cost(inputs, input_count, attributes, outputs);
}

/* `angles` has room for half cosines and half sines. */
static void rope_angles(double position, double theta, int64_t half, double *angles) {
    for (int64_t i = 0; i < half; i++) {
        double angle = position * pow(theta, -(double)(2 * i) / (double)(2 * half));
        angles[i] = cos(angle);
        angles[half + i] = sin(angle);
    }
}

static void rotate_back(double *row, int64_t half, const double *angles) {
    for (int64_t i = 0; i < half; i++) {
        double a = row[i], b = row[i + half], c = angles[i], s = angles[half + i];
        row[i] = a * c + b * s;
        row[i + half] = b * c - a * s;
    }
}

static enum orr_status compute_rope(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    const struct orr_shape *shape = &inputs[0].shape;
    if (orr_shape_count(shape) == 0)
        return ORR_OK;
    int64_t width = shape->dims[shape->rank - 1], positions = shape->dims[shape->rank - 2];
    int64_t outer = orr__dims_product(shape, 0, shape->rank - 2);
    size_t bytes = (size_t)width * 2 * sizeof(double);
    double *angles = orr_memory_resize(memory, NULL, bytes);
    if (!angles)
        return orr__no_scratch(&orr__operator_rope_backward, bytes, error);
    double *row = angles + width;
    size_t row_bytes = (size_t)width * orr_dtype_size(inputs[0].dtype);
    for (int64_t p = 0; p < positions; p++) {
        rope_angles((double)attributes->values[ROPE_OFFSET].integer + (double)p,
                    attributes->values[ROPE_THETA].real, width / 2, angles);
        for (int64_t i = 0; i < outer; i++) {
            size_t at = (size_t)(i * positions + p) * row_bytes;
            orr_dtype_convert(ORR_DTYPE_F64, row, inputs[0].dtype,
                              (const char *)inputs[0].data + at, (size_t)width);
            rotate_back(row, width / 2, angles);
            orr_dtype_convert(outputs[0].dtype, (char *)outputs[0].data + at, ORR_DTYPE_F64, row,
                              (size_t)width);
        }
    }
    orr_memory_free(memory, angles);
    return ORR_OK;
}

static const char *const rope_names[] = {"grad"};
static const struct orr_attribute_spec rope_attributes[] = {
    [ROPE_OFFSET] = {.name = "offset",
                     .kind = ORR_ATTRIBUTE_INT,
                     .local = ORR_LOCAL_OFFSET,
                     .of = ORR_OF_RESULT,
                     .dim = -2},
    [ROPE_THETA] = {.name = "theta", .kind = ORR_ATTRIBUTE_REAL, .real = 10000},
    {.name = NULL},
};

const struct orr_operator orr__operator_rope_backward = {
    .name = "rope_backward",
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

/* ---- sdpa_backward ---- */

enum { SDPA_CAUSAL, SDPA_SCALE };
enum { SDPA_GRAD, SDPA_Q, SDPA_K, SDPA_V, SDPA_OUT };

/* The forward row checks q, k and v; grad and out have its result's shape. */
static enum orr_status infer_sdpa(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_sdpa_backward;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    struct orr_error detail = {0};
    struct orr_operand_info result;
    if (orr__operator_sdpa.infer(&inputs[SDPA_Q], 3, attributes, &result, &detail) != ORR_OK)
        return orr__refuse(op, inputs, input_count, error, "%s", detail.text);
    if (!orr_shape_equal(&inputs[SDPA_GRAD].shape, &result.shape) ||
        !orr_shape_equal(&inputs[SDPA_OUT].shape, &result.shape)) {
        char text[ORR_SHAPE_TEXT_MAX];
        return orr__refuse(op, inputs, input_count, error, "expected grad and out of shape %s",
                           orr_shape_text(&result.shape, text));
    }
    for (int i = 0; i < 3; i++)
        out_outputs[i] = inputs[SDPA_Q + i];
    return ORR_OK;
}

static struct orr__attention attention_of(const struct orr_shape *q, const struct orr_shape *k,
                                          const struct orr_shape *v,
                                          const struct orr_attributes *attributes) {
    return orr__attention_of(q, k, v, attributes->values[SDPA_CAUSAL].integer != 0,
                             attributes->values[SDPA_SCALE].real);
}

static struct orr_cost cost_sdpa(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    struct orr__attention shape = attention_of(&inputs[SDPA_Q].shape, &inputs[SDPA_K].shape,
                                               &inputs[SDPA_V].shape, attributes);
    uint64_t heads = (uint64_t)shape.b * (uint64_t)shape.h;
    uint64_t widths = 3 * (uint64_t)shape.d + 2 * (uint64_t)shape.dv;
    struct orr_cost cost = {
        .flops = orr__times(orr__times(heads, widths), orr__attention_twice_pairs(&shape)),
        .unit = ORR_UNIT_MATRIX};
    for (int i = 0; i < input_count; i++)
        cost.bytes_read += orr__bytes(&inputs[i]);
    for (int i = 0; i < 3; i++)
        cost.bytes_written += orr__bytes(&outputs[i]);
    return cost;
}

static size_t view_bytes(const struct orr_tensor_view *view) {
    return (size_t)orr_shape_count(&view->shape) * orr_dtype_size(view->dtype);
}

static enum orr_status compute_sdpa(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    if (orr_shape_count(&inputs[SDPA_GRAD].shape) == 0) {
        for (int i = 0; i < 3; i++)
            memset(outputs[i].data, 0, view_bytes(&outputs[i]));
        return ORR_OK;
    }
    struct orr__attention shape = attention_of(&inputs[SDPA_Q].shape, &inputs[SDPA_K].shape,
                                               &inputs[SDPA_V].shape, attributes);
    return orr__attention_backward(&orr__operator_sdpa_backward, &shape, inputs, NULL, outputs,
                                   memory, error);
}

static const char *const sdpa_names[] = {"grad", "q", "k", "v", "out"};
static const struct orr_attribute_spec sdpa_attributes[] = {
    [SDPA_CAUSAL] = {.name = "causal", .kind = ORR_ATTRIBUTE_BOOL},
    [SDPA_SCALE] = {.name = "scale", .kind = ORR_ATTRIBUTE_REAL}, /* 0: 1 / sqrt(d) */
    {.name = NULL},
};

const struct orr_operator orr__operator_sdpa_backward = {
    .name = "sdpa_backward",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 5,
    .inputs_max = 5,
    .outputs = 3,
    .input_names = sdpa_names,
    .attributes = sdpa_attributes,
    .infer = infer_sdpa,
    .cost = cost_sdpa,
    .compute = compute_sdpa,
};
