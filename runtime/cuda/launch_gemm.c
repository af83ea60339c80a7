/* Launchers of matrix products: matmul, linear, matmul_backward_weight. */
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/launch.h"

/* ---- matmul: a batch that broadcasts ---- */

/* One dimension of the batch; strides in matrices, 0 where one side is stretched. */
struct batch_dim {
    int64_t count, a, b;
};

struct batch {
    int rank;
    struct batch_dim dims[ORR_RANK_MAX];
};

/* Stride of a side whose matrices' dimensions are `dims`, in the batch's dimension i of `rank`;
 * *inner is the number of its matrices that are behind that dimension. */
static int64_t side_stride(const struct orr_shape *side, int i, int rank, int64_t *inner) {
    int at = i - (rank - (side->rank - 2));
    if (at < 0 || side->dims[at] == 1)
        return 0;
    int64_t stride = *inner;
    *inner *= side->dims[at];
    return stride;
}

/* The batch of a result, innermost dimension first; neighbours that are one run of matrices on both
 * sides become one dimension. The result is dense. */
static struct batch batch_of(const struct orr_tensor_view *x, const struct orr_tensor_view *weight,
                             const struct orr_tensor_view *y) {
    struct batch batch = {.rank = 0};
    int rank = y->shape.rank - 2;
    int64_t inner_a = 1, inner_b = 1;
    for (int i = rank - 1; i >= 0; i--) {
        struct batch_dim dim = {.count = y->shape.dims[i]};
        dim.a = side_stride(&x->shape, i, rank, &inner_a);
        dim.b = side_stride(&weight->shape, i, rank, &inner_b);
        struct batch_dim *last = batch.rank ? &batch.dims[batch.rank - 1] : NULL;
        if (dim.count == 1)
            continue;
        if (last && dim.a == last->a * last->count && dim.b == last->b * last->count)
            last->count *= dim.count;
        else
            batch.dims[batch.rank++] = dim;
    }
    return batch;
}

/* The innermost dimension is one call, the others are walked over. */
static enum orr_status run_batch(struct orr__cuda_queue *queue, struct orr__cuda_gemm gemm,
                                 const struct batch *batch, struct orr_error *error) {
    const struct batch_dim *inner = &batch->dims[0];
    const char *a = gemm.a, *b = gemm.b;
    char *c = gemm.c;
    int64_t calls = 1, size_a = gemm.m * gemm.k, size_b = gemm.k * gemm.n;
    size_t size = orr_dtype_size(gemm.dtype);
    gemm.batch = inner->count;
    gemm.stride_a = inner->a * size_a;
    gemm.stride_b = inner->b * size_b;
    gemm.stride_c = gemm.m * gemm.n;
    for (int i = 1; i < batch->rank; i++)
        calls *= batch->dims[i].count;
    enum orr_status status = ORR_OK;
    for (int64_t call = 0; call < calls && status == ORR_OK; call++) {
        int64_t rest = call, at_a = 0, at_b = 0;
        for (int i = 1; i < batch->rank; i++) {
            at_a += rest % batch->dims[i].count * batch->dims[i].a;
            at_b += rest % batch->dims[i].count * batch->dims[i].b;
            rest /= batch->dims[i].count;
        }
        gemm.a = a + (size_t)(at_a * size_a) * size;
        gemm.b = b + (size_t)(at_b * size_b) * size;
        gemm.c = c + (size_t)(call * inner->count * gemm.stride_c) * size;
        status = orr__cuda_gemm(queue, &gemm, error);
    }
    return status;
}

static enum orr_status launch_matmul(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *weight = &call->inputs[1];
    const struct orr_tensor_view *y = &call->outputs[0];
    struct orr__cuda_gemm gemm = {
        .dtype = x->dtype,
        .result = x->dtype,
        .transpose_a = orr__cuda_integer(call, "transpose_a") != 0,
        .transpose_b = orr__cuda_integer(call, "transpose_b") != 0,
        .a = x->data,
        .b = weight->data,
        .c = y->data,
    };
    gemm.m = y->shape.dims[y->shape.rank - 2];
    gemm.n = y->shape.dims[y->shape.rank - 1];
    gemm.k = x->shape.dims[x->shape.rank - (gemm.transpose_a ? 2 : 1)];
    if (orr_shape_count(&y->shape) == 0)
        return ORR_OK;
    struct batch batch = batch_of(x, weight, y);
    if (batch.rank == 0)
        return orr__cuda_gemm(queue, &gemm, error);
    /* One weight for all rows: the batch is more rows of one product. */
    if (batch.rank == 1 && batch.dims[0].b == 0 && batch.dims[0].a == 1 && !gemm.transpose_a) {
        gemm.m *= batch.dims[0].count;
        return orr__cuda_gemm(queue, &gemm, error);
    }
    return run_batch(queue, gemm, &batch, error);
}

/* ---- linear ---- */

/* The product is added to the bias, if cublasLt doesn't do both at once: the sum in f32 takes it in
 * exactly, and is rounded once. */
static enum orr_status add_to_bias(struct orr__cuda_queue *queue, struct orr__cuda_gemm gemm,
                                   const void *bias, struct orr_error *error) {
    enum orr_status status =
        orr__cuda_repeat(queue, gemm.result, bias, gemm.n, 1, gemm.m * gemm.n, gemm.c, error);
    gemm.adds = true;
    return status == ORR_OK ? orr__cuda_gemm(queue, &gemm, error) : status;
}

static enum orr_status launch_linear(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *weight = &call->inputs[1];
    struct orr__cuda_gemm gemm = {
        .dtype = x->dtype,
        .result = x->dtype,
        .transpose_b = true,
        .m = 1,
        .n = weight->shape.dims[0],
        .k = weight->shape.dims[1],
        .a = x->data,
        .b = weight->data,
        .c = call->outputs[0].data,
    };
    for (int i = 0; i < x->shape.rank - 1; i++)
        gemm.m *= x->shape.dims[i];
    if (call->input_count < 3 || gemm.m == 0 || gemm.n == 0)
        return orr__cuda_gemm(queue, &gemm, error);
    bool done;
    enum orr_status status =
        orr__cuda_gemm_epilogue(queue, &gemm, call->inputs[2].data, false, &done, error);
    if (status != ORR_OK || done)
        return status;
    return add_to_bias(queue, gemm, call->inputs[2].data, error);
}

/* ---- matmul_backward_weight ---- */

static enum orr_status launch_weight(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->inputs[1];
    int batch = (int)orr__cuda_integer(call, "batch");
    struct orr__cuda_gemm gemm = {
        .dtype = x->dtype,
        .result = x->dtype,
        .transpose_a = true,
        .m = x->shape.dims[x->shape.rank - 1],
        .n = y->shape.dims[y->shape.rank - 1],
        .k = 1,
        .a = x->data,
        .b = y->data,
        .c = call->outputs[0].data,
        .batch = 1,
    };
    for (int i = 0; i < x->shape.rank - 1; i++)
        *(i < batch ? &gemm.batch : &gemm.k) *= x->shape.dims[i];
    gemm.stride_a = gemm.k * gemm.m;
    gemm.stride_b = gemm.k * gemm.n;
    gemm.stride_c = gemm.m * gemm.n;
    return gemm.batch == 0 ? ORR_OK : orr__cuda_gemm(queue, &gemm, error);
}

const struct orr__cuda_operator orr__cuda_gemm_operators[] = {
    {"matmul", launch_matmul},
    {"linear", launch_linear},
    {"matmul_backward_weight", launch_weight},
    {NULL, NULL},
};
