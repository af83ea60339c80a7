/* Products by cublasLt, which does a little more before it rounds. */
#include "runtime/cuda/gemm.h"

enum { ALIGNED = 256, BIAS_ALIGNED = 16 };

/* What a call needs; all are destroyed in any case. */
struct plan {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
};

static void plan_destroy(const struct orr__cuda_blaslt_table *lt, struct plan *plan) {
    if (plan->preference)
        (void)lt->cublasLtMatmulPreferenceDestroy(plan->preference);
    if (plan->c)
        (void)lt->cublasLtMatrixLayoutDestroy(plan->c);
    if (plan->b)
        (void)lt->cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->a)
        (void)lt->cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->product)
        (void)lt->cublasLtMatmulDescDestroy(plan->product);
}

static enum orr_status set(const struct orr__cuda_queue *queue, const struct plan *plan,
                           cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size,
                           struct orr_error *error) {
    return orr__cublas_check(
        queue->api,
        queue->api->lt.cublasLtMatmulDescSetAttribute(plan->product, attribute, value, size),
        "cublasLtMatmulDescSetAttribute", error);
}

static enum orr_status make_product(const struct orr__cuda_queue *queue, struct plan *plan,
                                    const struct orr__cuda_gemm *gemm, const void *bias, bool relu,
                                    struct orr_error *error) {
    cublasOperation_t op_a = gemm->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = gemm->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = bias ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                  : relu ? CUBLASLT_EPILOGUE_RELU
                                         : CUBLASLT_EPILOGUE_DEFAULT;
    enum orr_status status = orr__cublas_check(
        queue->api,
        queue->api->lt.cublasLtMatmulDescCreate(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate", error);
    /* The factors change places: gemm.h. */
    if (status == ORR_OK)
        status = set(queue, plan, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof op_b, error);
    if (status == ORR_OK)
        status = set(queue, plan, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof op_a, error);
    if (status == ORR_OK)
        status = set(queue, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, error);
    if (status == ORR_OK && bias)
        status = set(queue, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, error);
    return status;
}

/* A row-major [rows, columns] is a column-major [columns, rows]. */
static enum orr_status make_layout(const struct orr__cuda_queue *queue,
                                   cublasLtMatrixLayout_t *layout, enum orr_dtype dtype,
                                   int64_t rows, int64_t columns, int64_t step,
                                   struct orr_error *error) {
    return orr__cublas_check(queue->api,
                             queue->api->lt.cublasLtMatrixLayoutCreate(
                                 layout, orr__cuda_data_type(dtype), (uint64_t)columns,
                                 (uint64_t)rows, step ? step : columns),
                             "cublasLtMatrixLayoutCreate", error);
}

static enum orr_status make_layouts(const struct orr__cuda_queue *queue, struct plan *plan,
                                    const struct orr__cuda_gemm *gemm, struct orr_error *error) {
    int64_t m = gemm->m, n = gemm->n, k = gemm->k;
    enum orr_status status =
        gemm->transpose_b ? make_layout(queue, &plan->a, gemm->dtype, n, k, gemm->ldb, error)
                          : make_layout(queue, &plan->a, gemm->dtype, k, n, gemm->ldb, error);
    if (status == ORR_OK)
        status = gemm->transpose_a
                     ? make_layout(queue, &plan->b, gemm->dtype, k, m, gemm->lda, error)
                     : make_layout(queue, &plan->b, gemm->dtype, m, k, gemm->lda, error);
    if (status == ORR_OK)
        status = make_layout(queue, &plan->c, gemm->result, m, n, gemm->ldc, error);
    return status;
}

/* The largest power of two that divides an address, at most 256, which is what cublasLt takes for
 * granted unless it is told. */
static uint32_t alignment_of(const void *address) {
    uint32_t alignment = ALIGNED;
    while ((uintptr_t)address % alignment != 0)
        alignment /= 2;
    return alignment;
}

static enum orr_status make_preference(const struct orr__cuda_queue *queue, struct plan *plan,
                                       const struct orr__cuda_gemm *gemm, struct orr_error *error) {
    const struct orr__cuda_blaslt_table *lt = &queue->api->lt;
    uint64_t workspace = ORR__CUDA_BLAS_WORKSPACE;
    uint32_t a = alignment_of(gemm->b), b = alignment_of(gemm->a), c = alignment_of(gemm->c);
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c},
    };
    enum orr_status status =
        orr__cublas_check(queue->api, lt->cublasLtMatmulPreferenceCreate(&plan->preference),
                          "cublasLtMatmulPreferenceCreate", error);
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0] && status == ORR_OK; i++)
        status = orr__cublas_check(
            queue->api,
            lt->cublasLtMatmulPreferenceSetAttribute(plan->preference, wishes[i].attribute,
                                                     wishes[i].value, wishes[i].size),
            "cublasLtMatmulPreferenceSetAttribute", error);
    return status;
}

static enum orr_status run(struct orr__cuda_queue *queue, const struct plan *plan,
                           const struct orr__cuda_gemm *gemm, bool *out_done,
                           struct orr_error *error) {
    const struct orr__cuda_blaslt_table *lt = &queue->api->lt;
    cublasLtMatmulHeuristicResult_t best = {0};
    int found = 0;
    float one = 1, beta = gemm->adds ? 1 : 0;
    cublasStatus_t code =
        lt->cublasLtMatmulAlgoGetHeuristic(queue->blaslt, plan->product, plan->a, plan->b, plan->c,
                                           plan->c, plan->preference, 1, &best, &found);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED || (code == CUBLAS_STATUS_SUCCESS && found == 0))
        return ORR_OK;
    enum orr_status status =
        orr__cublas_check(queue->api, code, "cublasLtMatmulAlgoGetHeuristic", error);
    if (status != ORR_OK)
        return status;
    *out_done = true;
    return orr__cublas_check(queue->api,
                             lt->cublasLtMatmul(queue->blaslt, plan->product, &one, gemm->b,
                                                plan->a, gemm->a, plan->b, &beta, gemm->c, plan->c,
                                                gemm->c, plan->c, &best.algo, queue->workspace,
                                                ORR__CUDA_BLAS_WORKSPACE, queue->stream),
                             "cublasLtMatmul", error);
}

/* The handle, made on first use; the workspace is the queue's, whose commands run one by one. */
static enum orr_status open_library(struct orr__cuda_queue *queue, bool *out_there,
                                    struct orr_error *error) {
    cublasHandle_t blas;
    struct orr_error missing = {0};
    *out_there = false;
    enum orr_status status = orr__cuda_blas_handle(queue, &blas, error);
    if (status != ORR_OK)
        return status;
    if (orr__cuda_need(queue->api, ORR__CUDA_BLASLT, &missing) != ORR_OK)
        return ORR_OK;
    *out_there = true;
    if (queue->blaslt)
        return ORR_OK;
    cublasLtHandle_t handle = NULL;
    status = orr__cublas_check(queue->api, queue->api->lt.cublasLtCreate(&handle), "cublasLtCreate",
                               error);
    if (status == ORR_OK)
        queue->blaslt = handle;
    return status;
}

enum orr_status orr__cuda_gemm_epilogue(struct orr__cuda_queue *queue,
                                        const struct orr__cuda_gemm *gemm, const void *bias,
                                        bool relu, bool *out_done, struct orr_error *error) {
    bool there = false;
    *out_done = false;
    bool fits = gemm->dtype != ORR_DTYPE_F64 && orr_dtype_is_float(gemm->dtype) &&
                gemm->batch <= 1 && gemm->m > 0 && gemm->n > 0 && gemm->k > 0 &&
                gemm->m <= INT32_MAX && (uintptr_t)bias % BIAS_ALIGNED == 0;
    if (!fits)
        return ORR_OK;
    enum orr_status status = open_library(queue, &there, error);
    if (status != ORR_OK || !there)
        return status;
    struct plan plan = {0};
    status = make_product(queue, &plan, gemm, bias, relu, error);
    if (status == ORR_OK)
        status = make_layouts(queue, &plan, gemm, error);
    if (status == ORR_OK)
        status = make_preference(queue, &plan, gemm, error);
    if (status == ORR_OK)
        status = run(queue, &plan, gemm, out_done, error);
    plan_destroy(&queue->api->lt, &plan);
    return status;
}
