#include "runtime/cuda/gemm.h"

#include <assert.h>

#include "runtime/cuda/launch.h"

enum {
    ROWS_MAX = 1 << 30, /* of one call: cuBLAS counts in int */
    BATCH_MAX = 65535   /* of one call: the third dimension of a grid */
};

cudaDataType_t orr__cuda_data_type(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return CUDA_R_64F;
    case ORR_DTYPE_F16: return CUDA_R_16F;
    case ORR_DTYPE_BF16: return CUDA_R_16BF;
    default: assert(dtype == ORR_DTYPE_F32); return CUDA_R_32F;
    }
}

static int64_t or_dense(int64_t given, int64_t dense) {
    return given ? given : dense;
}

static const void *offset(const void *base, int64_t elements, enum orr_dtype dtype) {
    return (const char *)base + (size_t)elements * orr_dtype_size(dtype);
}

/* Both factors of cuBLAS's product change places: see gemm.h. alpha and beta are read before the
 * call returns. */
static enum orr_status call_cublas(struct orr__cuda_queue *queue, const struct orr__cuda_gemm *gemm,
                                   struct orr_error *error) {
    cublasHandle_t handle;
    enum orr_status status = orr__cuda_blas_handle(queue, &handle, error);
    if (status != ORR_OK)
        return status;
    const struct orr__cuda_blas_table *blas = &queue->api->blas;
    bool wide = gemm->dtype == ORR_DTYPE_F64;
    float one = 1, beta = gemm->adds ? 1 : 0;
    double wide_one = 1, wide_beta = beta;
    const void *alpha = wide ? (const void *)&wide_one : &one;
    const void *keep = wide ? (const void *)&wide_beta : &beta;
    cublasComputeType_t compute = wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    cublasOperation_t op_a = gemm->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = gemm->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType_t type = orr__cuda_data_type(gemm->dtype);
    cudaDataType_t result = orr__cuda_data_type(gemm->result);
    int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;
    int lda = (int)or_dense(gemm->lda, gemm->transpose_a ? gemm->m : gemm->k);
    int ldb = (int)or_dense(gemm->ldb, gemm->transpose_b ? gemm->k : gemm->n);
    int ldc = (int)or_dense(gemm->ldc, gemm->n);
    if (gemm->batch <= 1)
        return orr__cublas_check(queue->api,
                                 blas->cublasGemmEx(handle, op_b, op_a, n, m, k, alpha, gemm->b,
                                                    type, ldb, gemm->a, type, lda, keep, gemm->c,
                                                    result, ldc, compute, CUBLAS_GEMM_DEFAULT),
                                 "cublasGemmEx", error);
    return orr__cublas_check(
        queue->api,
        blas->cublasGemmStridedBatchedEx(handle, op_b, op_a, n, m, k, alpha, gemm->b, type, ldb,
                                         gemm->stride_b, gemm->a, type, lda, gemm->stride_a, keep,
                                         gemm->c, result, ldc, gemm->stride_c, (int)gemm->batch,
                                         compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx", error);
}

/* Rows that are too many for one call; a batch has fewer. */
static enum orr_status call_by_rows(struct orr__cuda_queue *queue, struct orr__cuda_gemm gemm,
                                    struct orr_error *error) {
    enum orr_status status = ORR_OK;
    int64_t rows = gemm.m, step_a = gemm.transpose_a ? 1 : or_dense(gemm.lda, gemm.k);
    int64_t step_c = or_dense(gemm.ldc, gemm.n);
    const void *a = gemm.a;
    char *c = gemm.c;
    gemm.lda = or_dense(gemm.lda, gemm.transpose_a ? rows : gemm.k);
    for (int64_t row = 0; row < rows && status == ORR_OK; row += ROWS_MAX) {
        gemm.m = rows - row < ROWS_MAX ? rows - row : ROWS_MAX;
        gemm.a = offset(a, row * step_a, gemm.dtype);
        gemm.c = c + (size_t)(row * step_c) * orr_dtype_size(gemm.result);
        status = call_cublas(queue, &gemm, error);
    }
    return status;
}

static enum orr_status call_by_batch(struct orr__cuda_queue *queue, struct orr__cuda_gemm gemm,
                                     struct orr_error *error) {
    enum orr_status status = ORR_OK;
    const void *a = gemm.a, *b = gemm.b;
    char *c = gemm.c;
    int64_t all = gemm.batch;
    for (int64_t first = 0; first < all && status == ORR_OK; first += BATCH_MAX) {
        gemm.batch = all - first < BATCH_MAX ? all - first : BATCH_MAX;
        gemm.a = offset(a, first * gemm.stride_a, gemm.dtype);
        gemm.b = offset(b, first * gemm.stride_b, gemm.dtype);
        gemm.c = c + (size_t)(first * gemm.stride_c) * orr_dtype_size(gemm.result);
        status = call_cublas(queue, &gemm, error);
    }
    return status;
}

/* A sum of nothing. */
static enum orr_status clear(struct orr__cuda_queue *queue, const struct orr__cuda_gemm *gemm,
                             struct orr_error *error) {
    int64_t count = gemm->m * gemm->n * or_dense(gemm->batch, 1);
    assert(!gemm->ldc || gemm->ldc == gemm->n);
    assert(gemm->batch <= 1 || gemm->stride_c == gemm->m * gemm->n);
    if (gemm->adds)
        return ORR_OK;
    return orr__cuda_zero(queue, gemm->c, (uint64_t)count * orr_dtype_size(gemm->result), error);
}

static enum orr_status multiply_integers(struct orr__cuda_queue *queue,
                                         const struct orr__cuda_gemm *gemm,
                                         struct orr_error *error) {
    struct orr__k_product a = {
        .m = gemm->m,
        .n = gemm->n,
        .k = gemm->k,
        .batch = or_dense(gemm->batch, 1),
        .stride_a = gemm->stride_a,
        .stride_b = gemm->stride_b,
        .stride_c = gemm->stride_c,
        .a = gemm->a,
        .b = gemm->b,
        .c = gemm->c,
        .dtype = (int32_t)gemm->dtype,
        .transpose_a = gemm->transpose_a,
        .transpose_b = gemm->transpose_b,
    };
    assert(!gemm->lda && !gemm->ldb && !gemm->ldc && !gemm->adds);
    return orr__cuda_launch(queue, ORR__K_product_integer,
                            orr__cuda_grid(queue, (uint64_t)(a.batch * a.m * a.n)), ORR__CUDA_BLOCK,
                            0, &a, error);
}

enum orr_status orr__cuda_gemm(struct orr__cuda_queue *queue, const struct orr__cuda_gemm *gemm,
                               struct orr_error *error) {
    assert(gemm->n <= INT32_MAX && gemm->k <= INT32_MAX);
    if (gemm->m == 0 || gemm->n == 0)
        return ORR_OK;
    if (gemm->k == 0)
        return clear(queue, gemm, error);
    if (!orr_dtype_is_float(gemm->dtype))
        return multiply_integers(queue, gemm, error);
    return gemm->batch > 1 ? call_by_batch(queue, *gemm, error) : call_by_rows(queue, *gemm, error);
}

enum orr_status orr__cuda_repeat(struct orr__cuda_queue *queue, enum orr_dtype dtype,
                                 const void *values, int64_t length, int64_t inner, int64_t count,
                                 void *to, struct orr_error *error) {
    struct orr__k_repeat a = {
        .count = count,
        .inner = inner,
        .length = length,
        .values = values,
        .to = to,
        .bytes = (int64_t)orr_dtype_size(dtype),
    };
    return orr__cuda_launch(queue, ORR__K_product_repeat, orr__cuda_grid(queue, (uint64_t)count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}
