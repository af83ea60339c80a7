/* The gradients of a matrix product's second operand, and of a slice.
 *
 *     matmul_backward_weight    x [..., m], y [..., n] -> [m, n], the sum over all leading
 *                               dimensions of x's row times y's row: for y = x w the gradient of w
 *                               is that of (x, grad y), for linear's weight that of (grad y, x).
 *                               batch=0: so many of the leading dimensions stay, in front of
 *                               [m, n]: a weight for each expert, that all its rows share
 *     pad                       x    before=[] after=[]: zeros around x; shorter lists leave the
 *                               rest as it is
 *
 * Cost. matmul_backward_weight is a product of [m, rows] and [rows, n], or one for each element of
 * the batch: 2 m n rows FLOPs, each operand once, the result once (see matmul.c). pad: no FLOPs; x
 * once, the result once. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/gemm_internal.h"

/* ---- matmul_backward_weight ---- */

enum { WEIGHT_BATCH };

static enum orr_status infer_weight(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_matmul_backward_weight;
    int64_t batch = attributes->values[WEIGHT_BATCH].integer;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape, *y = &inputs[1].shape;
    bool fits = x->rank >= 1 && x->rank == y->rank;
    for (int i = 0; fits && i < x->rank - 1; i++)
        fits = x->dims[i] == y->dims[i];
    if (!fits)
        return orr__refuse(op, inputs, input_count, error,
                           "expected x [..., m] and y [..., n] with equal leading dimensions");
    int64_t m = x->dims[x->rank - 1], n = y->dims[y->rank - 1];
    if (batch < 0 || batch > x->rank - 1)
        return orr__refuse(op, inputs, input_count, error,
                           "batch is %" PRId64 ", expected 0 to %d, the leading dimensions", batch,
                           (int)x->rank - 1);
    if (m > INT32_MAX || n > INT32_MAX || orr__dims_product(x, 0, x->rank - 1) > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    struct orr_operand_info result = {.dtype = inputs[0].dtype,
                                      .shape = orr_shape_of((int)batch, x->dims)};
    result.shape.dims[result.shape.rank++] = m;
    result.shape.dims[result.shape.rank++] = n;
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_weight(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    const struct orr_shape *y = &inputs[1].shape;
    uint64_t n = (uint64_t)y->dims[y->rank - 1];
    return (struct orr_cost){
        .flops = orr__times(orr__times(2, n), (uint64_t)orr_shape_count(&inputs[0].shape)),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_MATRIX,
    };
}

static enum orr_status compute_weight(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    const struct orr_shape *x = &inputs[0].shape;
    int batch = (int)attributes->values[WEIGHT_BATCH].integer;
    struct orr__gemm gemm = {
        .dtype = inputs[0].dtype,
        .m = outputs[0].shape.dims[batch],
        .n = outputs[0].shape.dims[batch + 1],
        .k = orr__dims_product(x, batch, x->rank - 1),
        .transpose_a = true,
    };
    int64_t products = orr__dims_product(x, 0, batch);
    size_t size = orr_dtype_size(gemm.dtype);
    enum orr_status status = ORR_OK;
    for (int64_t i = 0; i < products && status == ORR_OK; i++) {
        gemm.a = (const char *)inputs[0].data + (size_t)(i * gemm.k * gemm.m) * size;
        gemm.b = (const char *)inputs[1].data + (size_t)(i * gemm.k * gemm.n) * size;
        gemm.c = (char *)outputs[0].data + (size_t)(i * gemm.m * gemm.n) * size;
        status = orr__gemm_run(&orr__operator_matmul_backward_weight, &gemm, memory, error);
    }
    return status;
}

static const char *const weight_names[] = {"x", "y"};
static const struct orr_attribute_spec weight_attributes[] = {
    [WEIGHT_BATCH] = {.name = "batch", .kind = ORR_ATTRIBUTE_INT},
    {.name = NULL},
};

const struct orr_operator orr__operator_matmul_backward_weight = {
    .name = "matmul_backward_weight",
    .class = ORR_OPERATOR_GEMM,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = weight_names,
    .attributes = weight_attributes,
    .infer = infer_weight,
    .cost = cost_weight,
    .compute = compute_weight,
};

/* ---- pad ---- */

enum { PAD_BEFORE, PAD_AFTER };

static int64_t zeros_at(const struct orr_attributes *attributes, int list, int dim) {
    const struct orr_shape *zeros = &attributes->values[list].shape;
    return dim < zeros->rank ? zeros->dims[dim] : 0;
}

static enum orr_status infer_pad(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_pad;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    struct orr_operand_info result = inputs[0];
    for (int list = PAD_BEFORE; list <= PAD_AFTER; list++)
        if (attributes->values[list].shape.rank > result.shape.rank)
            return orr__refuse(op, inputs, input_count, error, "%d %s for %d dimensions",
                               (int)attributes->values[list].shape.rank, op->attributes[list].name,
                               (int)result.shape.rank);
    for (int i = 0; i < result.shape.rank; i++) {
        int64_t before = zeros_at(attributes, PAD_BEFORE, i);
        int64_t after = zeros_at(attributes, PAD_AFTER, i);
        int64_t *dim = &result.shape.dims[i];
        if (before < 0 || after < 0 || __builtin_add_overflow(*dim, before, dim) ||
            __builtin_add_overflow(*dim, after, dim))
            return orr__refuse(op, inputs, input_count, error,
                               "dimension %d: %" PRId64 " zeros before and %" PRId64 " after", i,
                               before, after);
    }
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

/* The result is zeroed and x's rows are put in their places. */
static enum orr_status compute_pad(const struct orr_tensor_view *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_tensor_view *outputs,
                                   const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    const struct orr_shape *x = &inputs[0].shape, *shape = &outputs[0].shape;
    size_t size = orr_dtype_size(inputs[0].dtype);
    memset(outputs[0].data, 0, (size_t)orr_shape_count(shape) * size);
    struct orr__strided array = {.rank = x->rank};
    int64_t total = orr_shape_count(x), offset = 0, at[ORR_RANK_MAX];
    orr__dense_strides(shape, array.strides);
    for (int i = 0; i < x->rank; i++) {
        array.dims[i] = x->dims[i];
        offset += zeros_at(attributes, PAD_BEFORE, i) * array.strides[i];
    }
    orr__strided_merge(&array);
    bool dense = array.rank == 0 || array.strides[array.rank - 1] == 1;
    int64_t run = dense && array.rank ? array.dims[array.rank - 1] : 1;
    for (int64_t first = 0; first < total; first += run)
        memcpy((char *)outputs[0].data +
                   (size_t)(offset + orr__strided_seek(&array, first, at)) * size,
               (const char *)inputs[0].data + (size_t)first * size, (size_t)run * size);
    return ORR_OK;
}

static const char *const pad_names[] = {"x"};
static const struct orr_attribute_spec pad_attributes[] = {
    [PAD_BEFORE] = {.name = "before", .kind = ORR_ATTRIBUTE_SHAPE},
    [PAD_AFTER] = {.name = "after", .kind = ORR_ATTRIBUTE_SHAPE},
    {.name = NULL},
};

const struct orr_operator orr__operator_pad = {
    .name = "pad",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = pad_names,
    .attributes = pad_attributes,
    .infer = infer_pad,
    .cost = orr__cost_copy,
    .compute = compute_pad,
};
