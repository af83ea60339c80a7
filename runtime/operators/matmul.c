/* Rows of matmul and linear.
 *
 * Cost of a product of [m, k] and [k, n]: 2 m n k FLOPs (m n sums of k products, a multiply and an
 * add each; the usual convention, as in LAPACK Working Note 41 and cuBLAS's reports), bytes = each
 * operand once and the result once. That is the least possible traffic, which large tiles come near
 * to; efficiency belongs to the device model. linear's bias adds m n FLOPs and is read from
 * bytes_broadcast. */
#include <inttypes.h>

#include "runtime/operators/gemm_internal.h"

enum { TRANSPOSE_A, TRANSPOSE_B };

/* A product's dimensions: the batch ones of each side, and m, k, n. */
struct product {
    int64_t m, k, n;
    int64_t k_of_weight;
    struct orr_shape batch_x, batch_weight, batch;
};

static struct orr_shape without_last_two(const struct orr_shape *shape) {
    return orr_shape_of(shape->rank - 2, shape->dims);
}

/* Both ranks are 2 or more. Returns false if the batch dimensions don't broadcast. */
static bool split_product(const struct orr_shape *x, const struct orr_shape *weight,
                          const struct orr_attributes *attributes, struct product *out_product) {
    const int64_t *x_dims = x->dims + x->rank - 2, *w_dims = weight->dims + weight->rank - 2;
    bool transpose_a = attributes->values[TRANSPOSE_A].integer != 0;
    bool transpose_b = attributes->values[TRANSPOSE_B].integer != 0;
    *out_product = (struct product){
        .m = x_dims[transpose_a],
        .k = x_dims[!transpose_a],
        .k_of_weight = w_dims[transpose_b],
        .n = w_dims[!transpose_b],
        .batch_x = without_last_two(x),
        .batch_weight = without_last_two(weight),
    };
    return orr_shape_broadcast(&out_product->batch_x, &out_product->batch_weight,
                               &out_product->batch) == ORR_OK;
}

static enum orr_status infer_matmul(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_matmul;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__NUMBERS, error);
    if (status != ORR_OK)
        return status;
    if (inputs[0].shape.rank < 2 || inputs[1].shape.rank < 2)
        return orr__refuse(op, inputs, input_count, error,
                           "expected at least 2 dimensions each: [..., m, k] and [..., k, n]");
    struct product product;
    bool broadcasts = split_product(&inputs[0].shape, &inputs[1].shape, attributes, &product);
    if (product.k != product.k_of_weight)
        return orr__refuse(op, inputs, input_count, error,
                           "inner dimensions %" PRId64 " and %" PRId64 " differ", product.k,
                           product.k_of_weight);
    if (!broadcasts)
        return orr__refuse(op, inputs, input_count, error,
                           "batch dimensions (all but the last two) don't broadcast");
    if (product.m > INT32_MAX || product.n > INT32_MAX || product.k > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    struct orr_operand_info result = {.dtype = inputs[0].dtype, .shape = product.batch};
    result.shape.dims[result.shape.rank++] = product.m;
    result.shape.dims[result.shape.rank++] = product.n;
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

/* Integer products run on the vector units. */
static struct orr_cost product_cost(const struct orr_operand_info *x,
                                    const struct orr_operand_info *weight,
                                    const struct orr_operand_info *result, int64_t k) {
    uint64_t count = (uint64_t)orr_shape_count(&result->shape);
    return (struct orr_cost){
        .flops = orr__times(orr__times(2, (uint64_t)k), count),
        .bytes_read = orr__bytes(x) + orr__bytes(weight),
        .bytes_written = orr__bytes(result),
        .unit = orr_dtype_is_float(x->dtype) ? ORR_UNIT_MATRIX : ORR_UNIT_VECTOR,
    };
}

static struct orr_cost cost_matmul(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)input_count;
    const struct orr_shape *x = &inputs[0].shape;
    bool transpose_a = attributes->values[TRANSPOSE_A].integer != 0;
    int64_t k = x->dims[x->rank - (transpose_a ? 2 : 1)];
    return product_cost(&inputs[0], &inputs[1], &outputs[0], k);
}

/* Batch strides of one side over the result's batch dimensions, in matrices. */
static struct orr__strided batch_strides(const struct orr_shape *side,
                                         const struct orr_shape *batch) {
    struct orr__strided array = {.rank = batch->rank};
    int64_t dense[ORR_RANK_MAX] = {0};
    orr__dense_strides(side, dense);
    int missing = batch->rank - side->rank;
    for (int i = 0; i < batch->rank; i++) {
        array.dims[i] = batch->dims[i];
        bool stretched = i < missing || side->dims[i - missing] == 1;
        array.strides[i] = stretched ? 0 : dense[i - missing];
    }
    return array;
}

static enum orr_status compute_matmul(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    struct product product;
    (void)split_product(&inputs[0].shape, &inputs[1].shape, attributes, &product);
    struct orr__gemm gemm = {
        .dtype = inputs[0].dtype,
        .m = product.m,
        .n = product.n,
        .k = product.k,
        .transpose_a = attributes->values[TRANSPOSE_A].integer != 0,
        .transpose_b = attributes->values[TRANSPOSE_B].integer != 0,
    };
    int64_t batches = orr_shape_count(&product.batch);
    /* One weight for all rows: the batch is more rows of one product. */
    if (orr_shape_count(&product.batch_weight) == 1 && !gemm.transpose_a) {
        gemm.m *= batches;
        batches = 1;
        product.batch = product.batch_x = product.batch_weight = orr_shape_of(0, NULL);
    }
    struct orr__strided of_x = batch_strides(&product.batch_x, &product.batch);
    struct orr__strided of_weight = batch_strides(&product.batch_weight, &product.batch);
    size_t size = orr_dtype_size(gemm.dtype);
    for (int64_t batch = 0; batch < batches; batch++) {
        int64_t at[ORR_RANK_MAX];
        int64_t x = orr__strided_seek(&of_x, batch, at) * gemm.m * gemm.k;
        int64_t weight = orr__strided_seek(&of_weight, batch, at) * gemm.k * gemm.n;
        gemm.a = (const char *)inputs[0].data + (size_t)x * size;
        gemm.b = (const char *)inputs[1].data + (size_t)weight * size;
        gemm.c = (char *)outputs[0].data + (size_t)(batch * gemm.m * gemm.n) * size;
        enum orr_status status = orr__gemm_run(&orr__operator_matmul, &gemm, memory, error);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

static const char *const matmul_names[] = {"x", "weight"};
static const struct orr_attribute_spec matmul_attributes[] = {
    [TRANSPOSE_A] = {.name = "transpose_a", .kind = ORR_ATTRIBUTE_BOOL},
    [TRANSPOSE_B] = {.name = "transpose_b", .kind = ORR_ATTRIBUTE_BOOL},
    {.name = NULL},
};

const struct orr_operator orr__operator_matmul = {
    .name = "matmul",
    .class = ORR_OPERATOR_GEMM,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = matmul_names,
    .attributes = matmul_attributes,
    .infer = infer_matmul,
    .cost = cost_matmul,
    .compute = compute_matmul,
};

/* ---- linear: x [..., in] times the transpose of weight [out, in], plus bias [out] ---- */

static enum orr_status infer_linear(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_linear;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape, *weight = &inputs[1].shape;
    if (x->rank < 1 || weight->rank != 2)
        return orr__refuse(op, inputs, input_count, error,
                           "expected x [..., in], weight [out, in]");
    int64_t in = x->dims[x->rank - 1], out = weight->dims[0];
    if (in != weight->dims[1])
        return orr__refuse(op, inputs, input_count, error,
                           "inner dimensions %" PRId64 " and %" PRId64
                           " differ; expected x [..., in], weight [out, in]",
                           in, weight->dims[1]);
    if (input_count == 3 && (inputs[2].shape.rank != 1 || inputs[2].shape.dims[0] != out))
        return orr__refuse(op, inputs, input_count, error, "expected bias [%" PRId64 "]", out);
    if (in > INT32_MAX || out > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    struct orr_operand_info result = inputs[0];
    result.shape.dims[x->rank - 1] = out;
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_linear(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)attributes;
    int64_t k = inputs[1].shape.dims[1];
    struct orr_cost cost = product_cost(&inputs[0], &inputs[1], &outputs[0], k);
    if (input_count == 3) {
        struct orr_cost bias = {.flops = (uint64_t)orr_shape_count(&outputs[0].shape)};
        orr__charge_operand(&bias, &inputs[2], &outputs[0]);
        cost = orr_cost_add(cost, bias);
    }
    return cost;
}

static enum orr_status compute_linear(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)attributes;
    const struct orr_shape *x = &inputs[0].shape;
    struct orr__gemm gemm = {
        .dtype = inputs[0].dtype,
        .m = orr__dims_product(x, 0, x->rank - 1),
        .n = inputs[1].shape.dims[0],
        .k = inputs[1].shape.dims[1],
        .transpose_b = true,
        .a = inputs[0].data,
        .b = inputs[1].data,
        .bias = input_count == 3 ? inputs[2].data : NULL,
        .c = outputs[0].data,
    };
    return orr__gemm_run(&orr__operator_linear, &gemm, memory, error);
}

static const char *const linear_names[] = {"x", "weight", "bias"};
static const struct orr_attribute_spec linear_attributes[] = {{.name = NULL}};

const struct orr_operator orr__operator_linear = {
    .name = "linear",
    .class = ORR_OPERATOR_GEMM,
    .inputs_min = 2,
    .inputs_max = 3,
    .outputs = 1,
    .input_names = linear_names,
    .attributes = linear_attributes,
    .infer = infer_linear,
    .cost = cost_linear,
    .compute = compute_linear,
};
