/* Dropout that keeps its mask, as frameworks do: a byte for each element, which is what activation
 * memory counts (Korthikanti et al., "Reducing Activation Recomputation", 2022, section 4.1).
 *
 *     dropout_mask             x -> y, mask (bool)    p=0.5 seed=0: y and mask are those of dropout
 *                              with the same seed, on every placement
 *     dropout_mask_backward    grad, mask -> grad / (1 - p) where mask is true, else 0    p=0.5
 *
 * Cost: one FLOP for each element, as dropout; operands once, results once. */
#include <string.h>

#include "runtime/operators/random_internal.h"

enum { MASK_P, MASK_SEED, MASK_GLOBAL_SHAPE, MASK_STARTS };
enum { PIECE = 512 }; /* elements converted at a time */

static enum orr_status check_p(const struct orr_operator *op, const struct orr_operand_info *inputs,
                               int input_count, double p, struct orr_error *error) {
    if (p >= 0 && p <= 1)
        return ORR_OK;
    return orr__refuse(op, inputs, input_count, error, "p is %g, expected 0 to 1", p);
}

static enum orr_status infer_mask(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_dropout_mask;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status == ORR_OK)
        status = check_p(op, inputs, input_count, attributes->values[MASK_P].real, error);
    if (status == ORR_OK)
        status = orr__check_placement(op, inputs, input_count, &inputs[0].shape,
                                      &attributes->values[MASK_GLOBAL_SHAPE].shape,
                                      &attributes->values[MASK_STARTS].shape, error);
    if (status == ORR_OK) {
        out_outputs[0] = inputs[0];
        out_outputs[1] =
            (struct orr_operand_info){.dtype = ORR_DTYPE_BOOL, .shape = inputs[0].shape};
    }
    return status;
}

static struct orr_cost cost_mask(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = (uint64_t)orr_shape_count(&inputs[0].shape),
        .bytes_read = orr__bytes(&inputs[0]),
        .bytes_written = orr__bytes(&outputs[0]) + orr__bytes(&outputs[1]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* `count` elements of x that stand in `from`, kept and scaled or zero, go to `to`; in the type that
 * dropout computes in. */
static void apply(enum orr_dtype dtype, const char *from, const bool *kept, double p, int count,
                  char *to) {
    double factor = p < 1 ? 1 / (1 - p) : 0;
    if (dtype == ORR_DTYPE_F64) {
        for (int i = 0; i < count; i++) {
            double value = kept[i] ? ((const double *)(const void *)from)[i] * factor : 0;
            memcpy(to + (size_t)i * sizeof value, &value, sizeof value);
        }
        return;
    }
    float values[PIECE];
    orr_dtype_convert(ORR_DTYPE_F32, values, dtype, from, (size_t)count);
    for (int i = 0; i < count; i++)
        values[i] = kept[i] ? values[i] * (float)factor : 0;
    orr_dtype_convert(dtype, to, ORR_DTYPE_F32, values, (size_t)count);
}

static enum orr_status compute_mask(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    int64_t total = orr_shape_count(&inputs[0].shape);
    double p = attributes->values[MASK_P].real;
    uint64_t key = orr__random_key((uint64_t)attributes->values[MASK_SEED].integer);
    uint64_t threshold = orr__dropout_threshold(p);
    struct orr__placement placement =
        orr__placement_of(&inputs[0].shape, &attributes->values[MASK_GLOBAL_SHAPE].shape,
                          &attributes->values[MASK_STARTS].shape);
    size_t size = orr_dtype_size(inputs[0].dtype);
    bool *mask = outputs[1].data;
    for (int64_t first = 0; first < total; first += PIECE) {
        uint64_t indices[PIECE];
        int count = (int)(total - first < PIECE ? total - first : PIECE);
        orr__placement_indices(&placement, first, count, indices);
        for (int i = 0; i < count; i++)
            mask[first + i] = orr__random_bits(key, indices[i]) >> 11 >= threshold;
        apply(inputs[0].dtype, (const char *)inputs[0].data + (size_t)first * size, mask + first, p,
              count, (char *)outputs[0].data + (size_t)first * size);
    }
    return ORR_OK;
}

static const char *const mask_names[] = {"x"};
static const struct orr_attribute_spec mask_attributes[] = {
    [MASK_P] = {.name = "p", .kind = ORR_ATTRIBUTE_REAL, .real = 0.5},
    [MASK_SEED] = {.name = "seed", .kind = ORR_ATTRIBUTE_INT},
    [MASK_GLOBAL_SHAPE] = {.name = "global_shape",
                           .kind = ORR_ATTRIBUTE_SHAPE,
                           .local = ORR_LOCAL_WHOLE,
                           .of = ORR_OF_RESULT},
    [MASK_STARTS] = {.name = "starts",
                     .kind = ORR_ATTRIBUTE_SHAPE,
                     .local = ORR_LOCAL_START,
                     .of = ORR_OF_RESULT},
    {.name = NULL},
};

const struct orr_operator orr__operator_dropout_mask = {
    .name = "dropout_mask",
    .class = ORR_OPERATOR_UPDATE,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 2,
    .input_names = mask_names,
    .attributes = mask_attributes,
    .infer = infer_mask,
    .cost = cost_mask,
    .compute = compute_mask,
};

/* ---- dropout_mask_backward ---- */

static enum orr_status infer_backward(const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      struct orr_operand_info *out_outputs,
                                      struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_dropout_mask_backward;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    if (!orr_dtype_is_float(inputs[0].dtype) || inputs[1].dtype != ORR_DTYPE_BOOL ||
        !orr_shape_equal(&inputs[0].shape, &inputs[1].shape))
        return orr__refuse(op, inputs, input_count, error,
                           "expected grad of floats and mask of bool, of equal shapes");
    out_outputs[0] = inputs[0];
    return check_p(op, inputs, input_count, attributes->values[MASK_P].real, error);
}

static struct orr_cost cost_backward(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = (uint64_t)orr_shape_count(&inputs[0].shape),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

static enum orr_status compute_backward(const struct orr_tensor_view *inputs, int input_count,
                                        const struct orr_attributes *attributes,
                                        const struct orr_tensor_view *outputs,
                                        const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    int64_t total = orr_shape_count(&inputs[0].shape);
    size_t size = orr_dtype_size(inputs[0].dtype);
    const bool *mask = inputs[1].data;
    for (int64_t first = 0; first < total; first += PIECE) {
        int count = (int)(total - first < PIECE ? total - first : PIECE);
        apply(inputs[0].dtype, (const char *)inputs[0].data + (size_t)first * size, mask + first,
              attributes->values[MASK_P].real, count,
              (char *)outputs[0].data + (size_t)first * size);
    }
    return ORR_OK;
}

static const char *const backward_names[] = {"grad", "mask"};
static const struct orr_attribute_spec backward_attributes[] = {
    [MASK_P] = {.name = "p", .kind = ORR_ATTRIBUTE_REAL, .real = 0.5},
    {.name = NULL},
};

const struct orr_operator orr__operator_dropout_mask_backward = {
    .name = "dropout_mask_backward",
    .class = ORR_OPERATOR_UPDATE,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = backward_names,
    .attributes = backward_attributes,
    .infer = infer_backward,
    .cost = cost_backward,
    .compute = compute_backward,
};
