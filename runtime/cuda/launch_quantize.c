/* Launchers of weights in 8-bit codes.
 *
 * linear_quantized multiplies x by the codes, which any float of 16 bits or more holds exactly:
 * some output channels' codes at a time are widened to x's dtype, the product is kept in f32 (f64),
 * and a last kernel scales it, adds the bias, and rounds once. */
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/launch.h"

enum {
    CODES_ELEMENTS = 16 << 20, /* of codes widened at a time */
    SUMS_ELEMENTS = 16 << 20,  /* of sums kept at a time */
    ALIGNMENT = 256
};

static enum orr_status launch_quantize(struct orr__cuda_queue *queue,
                                       const struct orr_task_operator *call,
                                       struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0];
    struct orr__k_quantize a = {
        .rows = orr_shape_count(&call->outputs[1].shape),
        .width = x->shape.dims[x->shape.rank - 1],
        .x = x->data,
        .q = call->outputs[0].data,
        .scales = call->outputs[1].data,
        .dtype = (int32_t)x->dtype,
        .code = (int32_t)call->outputs[0].dtype,
    };
    return orr__cuda_launch(queue, ORR__K_quantize, orr__cuda_grid_rows(queue, (uint64_t)a.rows),
                            ORR__CUDA_BLOCK, ORR__CUDA_SHARED_SCRATCH, &a, error);
}

static enum orr_status dequantize(struct orr__cuda_queue *queue, const struct orr__k_dequantize *a,
                                  struct orr_error *error) {
    return orr__cuda_launch(queue, ORR__K_dequantize, orr__cuda_grid(queue, (uint64_t)a->count),
                            ORR__CUDA_BLOCK, 0, a, error);
}

static enum orr_status launch_dequantize(struct orr__cuda_queue *queue,
                                         const struct orr_task_operator *call,
                                         struct orr_error *error) {
    const struct orr_tensor_view *q = &call->inputs[0], *y = &call->outputs[0];
    struct orr__k_dequantize a = {
        .count = orr_shape_count(&q->shape),
        .width = q->shape.dims[q->shape.rank - 1],
        .q = q->data,
        .scales = call->inputs[1].data,
        .y = y->data,
        .code = (int32_t)q->dtype,
        .dtype = (int32_t)y->dtype,
    };
    return dequantize(queue, &a, error);
}

/* ---- linear_quantized ---- */

enum { X, Q, SCALE, BIAS };

struct tile {
    int64_t row, rows, column, columns;
    void *codes, *sums; /* scratch */
};

static const void *at(const void *base, int64_t element, enum orr_dtype dtype) {
    return (const char *)base + (size_t)element * orr_dtype_size(dtype);
}

static enum orr_status run_tile(struct orr__cuda_queue *queue, const struct orr_task_operator *call,
                                const struct tile *tile, struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[X], *y = &call->outputs[0];
    int64_t n = call->inputs[Q].shape.dims[0], k = call->inputs[Q].shape.dims[1];
    bool wide = x->dtype == ORR_DTYPE_F64;
    struct orr__cuda_gemm gemm = {
        .dtype = x->dtype,
        .result = wide ? ORR_DTYPE_F64 : ORR_DTYPE_F32,
        .transpose_b = true,
        .m = tile->rows,
        .n = tile->columns,
        .k = k,
        .a = at(x->data, tile->row * k, x->dtype),
        .b = tile->codes,
        .c = tile->sums,
    };
    struct orr__k_finish finish = {
        .rows = tile->rows,
        .columns = tile->columns,
        .step = n,
        .from = tile->sums,
        .scale = (const float *)call->inputs[SCALE].data + tile->column,
        .bias =
            call->input_count > BIAS ? at(call->inputs[BIAS].data, tile->column, y->dtype) : NULL,
        .to = (char *)y->data + (size_t)(tile->row * n + tile->column) * orr_dtype_size(y->dtype),
        .wide = wide,
        .dtype = (int32_t)y->dtype,
    };
    enum orr_status status = orr__cuda_gemm(queue, &gemm, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch(queue, ORR__K_product_finish,
                            orr__cuda_grid(queue, (uint64_t)(tile->rows * tile->columns)),
                            ORR__CUDA_BLOCK, 0, &finish, error);
}

static int64_t at_most(int64_t count, int64_t most) {
    int64_t some = most > 1 ? most : 1;
    return count < some ? count : some;
}

static enum orr_status launch_linear(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[X], *q = &call->inputs[Q];
    int64_t n = q->shape.dims[0], k = q->shape.dims[1], m = 1;
    for (int i = 0; i < x->shape.rank - 1; i++)
        m *= x->shape.dims[i];
    if (m == 0 || n == 0)
        return ORR_OK;
    int64_t columns = at_most(n, CODES_ELEMENTS / (k > 0 ? k : 1));
    int64_t rows = at_most(m, SUMS_ELEMENTS / columns);
    uint64_t codes = (uint64_t)(columns * k) * orr_dtype_size(x->dtype);
    codes = (codes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *scratch;
    enum orr_status status = orr__cuda_scratch(
        queue, codes + (uint64_t)(rows * columns) * sizeof(double), &scratch, error);
    for (int64_t column = 0; column < n && status == ORR_OK; column += columns) {
        struct tile tile = {
            .column = column,
            .columns = at_most(columns, n - column),
            .codes = scratch,
            .sums = (char *)scratch + codes,
        };
        struct orr__k_dequantize widen = {
            .count = tile.columns * k,
            .width = k,
            .q = at(q->data, column * k, q->dtype),
            .y = tile.codes,
            .code = (int32_t)q->dtype,
            .dtype = (int32_t)x->dtype,
        };
        status = dequantize(queue, &widen, error);
        for (tile.row = 0; tile.row < m && status == ORR_OK; tile.row += rows) {
            tile.rows = at_most(rows, m - tile.row);
            status = run_tile(queue, call, &tile, error);
        }
    }
    return status;
}

const struct orr__cuda_operator orr__cuda_quantize_operators[] = {
    {"quantize", launch_quantize},
    {"dequantize", launch_dequantize},
    {"linear_quantized", launch_linear},
    {NULL, NULL},
};
