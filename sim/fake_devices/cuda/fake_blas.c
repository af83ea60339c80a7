/* The fake cuBLAS's entry points. */
#include "sim/fake_devices/cuda/fake_blas.h"

#include <string.h>

#include "runtime/operators/gemm.h"

enum {
    PRODUCT_NS = 2000,        /* in virtual time: so much for any, */
    FLOP_PER_NS = 100 * 1000, /* and so much more by its size */
    TOUCHED_BYTES = 256       /* of a workspace, by every product */
};

/* ---- Handles ---- */

struct handle {
    struct handle *next;
    cudaStream_t stream;
    void *workspace;
    uint64_t workspace_bytes;
};

struct blas {
    struct handle *handles;
};

static void close_all(struct orr_fake_cuda *fake, void *state) {
    struct blas *blas = state;
    while (blas->handles) {
        struct handle *handle = blas->handles;
        blas->handles = handle->next;
        orr_memory_free(fake->memory, handle);
    }
}

static struct blas *state_of(struct orr_fake_cuda *fake) {
    return orr__fake_library(fake, ORR__CUDA_BLAS, sizeof(struct blas), close_all);
}

static struct handle *find(struct orr_fake_cuda *fake, cublasHandle_t handle) {
    struct blas *blas = state_of(fake);
    struct handle *own = blas ? blas->handles : NULL;
    while (own && (void *)own != (void *)handle)
        own = own->next;
    return own;
}

cublasStatus_t cublasCreate(cublasHandle_t *out_handle) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasCreate);
    struct blas *blas = state_of(fake);
    struct handle *handle = blas ? orr_memory_alloc(fake->memory, sizeof *handle) : NULL;
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    orr_gemm_single_thread();
    handle->next = blas->handles;
    blas->handles = handle;
    fake->census.handles++;
    *out_handle = (cublasHandle_t)(void *)handle;
    return CUBLAS_STATUS_SUCCESS;
}

/* What it does, it does also where the call fails by plan. */
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cublasDestroy, &fake);
    struct handle *own = fake ? find(fake, handle) : NULL;
    if (!own)
        return fault ? (cublasStatus_t)fault : CUBLAS_STATUS_NOT_INITIALIZED;
    struct handle **at = &state_of(fake)->handles;
    while (*at != own)
        at = &(*at)->next;
    *at = own->next;
    fake->census.handles--;
    orr_memory_free(fake->memory, own);
    return (cublasStatus_t)fault;
}

/* The workspace goes back to the library's own (cuBLAS guide, cublasSetStream). */
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasSetStream);
    struct handle *own = find(fake, handle);
    if (!own)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *own = (struct handle){.next = own->next, .stream = stream};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasSetWorkspace);
    struct handle *own = find(fake, handle);
    uint32_t device;
    if (!own)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if ((uintptr_t)workspace % 256 != 0 ||
        orr__fake_where(fake, workspace, bytes, &device) != ORR__FAKE_DEVICE)
        return CUBLAS_STATUS_INVALID_VALUE;
    own->workspace = workspace;
    own->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasSetMathMode);
    (void)mode; /* sums are as exact as any mode's */
    return find(fake, handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *out_version) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasGetVersion);
    (void)handle;
    *out_version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    struct orr_fake_cuda *fake;
    (void)orr__fake_enter(ORR__FAKE_cublasGetStatusString, &fake);
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value was passed";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "the device doesn't have what it takes";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality is not supported";
    default: return "an internal operation failed";
    }
}

/* ---- Products ---- */

struct product {
    struct orr__fake_gemm gemm;
    void *workspace;
    uint64_t workspace_bytes;
};

static void run(struct orr__fake_work *work, void *argument) {
    const struct product *product = argument;
    (void)work;
    if (product->workspace)
        memset(product->workspace, 0x55,
               product->workspace_bytes < TOUCHED_BYTES ? product->workspace_bytes : TOUCHED_BYTES);
    orr__fake_gemm_run(&product->gemm);
}

static uint64_t size_of(cudaDataType_t type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* True if a batch of column-major matrices is where a GPU can reach it. */
static bool reaches(struct orr_fake_cuda *fake, const void *matrix, cudaDataType_t type,
                    int64_t rows, int64_t columns, int64_t step, int64_t stride, int64_t batch) {
    uint32_t device;
    if (rows == 0 || columns == 0 || batch == 0)
        return true;
    uint64_t last = (uint64_t)((batch - 1) * stride + (columns - 1) * step + rows);
    enum orr__fake_place place = orr__fake_where(fake, matrix, last * size_of(type), &device);
    return place == ORR__FAKE_DEVICE || place == ORR__FAKE_PINNED;
}

static bool reaches_all(struct orr_fake_cuda *fake, const struct orr__fake_gemm *gemm) {
    bool plain_a = gemm->op_a == CUBLAS_OP_N, plain_b = gemm->op_b == CUBLAS_OP_N;
    int64_t m = gemm->m, n = gemm->n, k = gemm->k, batch = gemm->batch;
    return reaches(fake, gemm->a, gemm->type, plain_a ? m : k, plain_a ? k : m, gemm->lda,
                   gemm->stride_a, batch) &&
           reaches(fake, gemm->b, gemm->type, plain_b ? k : n, plain_b ? n : k, gemm->ldb,
                   gemm->stride_b, batch) &&
           reaches(fake, gemm->c, gemm->result, m, n, gemm->ldc, gemm->stride_c, batch) &&
           (!gemm->bias || reaches(fake, gemm->bias, gemm->result, m, 1, m, 0, 1));
}

cublasStatus_t orr__fake_blas_enqueue(struct orr_fake_cuda *fake, cudaStream_t stream,
                                      const struct orr__fake_gemm *gemm, void *workspace,
                                      uint64_t workspace_bytes) {
    cublasStatus_t status = orr__fake_gemm_check(gemm);
    struct orr__fake_stream *own = orr__fake_stream_find(fake, stream);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!own)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct product product = {*gemm, workspace, workspace_bytes};
    double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k * (double)gemm->batch;
    struct orr__fake_task task = {
        .kind = ORR__FAKE_KERNEL,
        .name = "gemm",
        .run = run,
        .argument = &product,
        .argument_bytes = sizeof product,
        .duration_ns = PRODUCT_NS + (int64_t)(flops / FLOP_PER_NS),
        .grid = 1,
        .block = 256,
        .fails_with = reaches_all(fake, gemm) ? 0 : cudaErrorIllegalAddress,
    };
    switch (orr__fake_enqueue(fake, own, &task)) {
    case cudaSuccess: return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation: return CUBLAS_STATUS_ALLOC_FAILED;
    default: return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

static cublasStatus_t multiply(struct orr_fake_cuda *fake, cublasHandle_t handle,
                               struct orr__fake_gemm *gemm, const void *alpha, const void *beta,
                               cudaDataType_t type_b) {
    struct handle *own = find(fake, handle);
    if (!own)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (type_b != gemm->type)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    gemm->alpha = orr__fake_gemm_scalar(gemm->compute, alpha);
    gemm->beta = orr__fake_gemm_scalar(gemm->compute, beta);
    return orr__fake_blas_enqueue(fake, own->stream, gemm, own->workspace, own->workspace_bytes);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType type_a, int lda, const void *b, cudaDataType type_b,
                            int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasGemmEx);
    struct orr__fake_gemm gemm = {.op_a = op_a,
                                  .op_b = op_b,
                                  .type = type_a,
                                  .result = type_c,
                                  .compute = compute,
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a,
                                  .b = b,
                                  .c = c,
                                  .lda = lda,
                                  .ldb = ldb,
                                  .ldc = ldc,
                                  .batch = 1};
    (void)algorithm;
    return multiply(fake, handle, &gemm, alpha, beta, type_b);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType type_a,
                                          int lda, long long stride_a, const void *b,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void *beta, void *c, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasGemmStridedBatchedEx);
    struct orr__fake_gemm gemm = {.op_a = op_a,
                                  .op_b = op_b,
                                  .type = type_a,
                                  .result = type_c,
                                  .compute = compute,
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a,
                                  .b = b,
                                  .c = c,
                                  .lda = lda,
                                  .ldb = ldb,
                                  .ldc = ldc,
                                  .batch = batch,
                                  .stride_a = stride_a,
                                  .stride_b = stride_b,
                                  .stride_c = stride_c};
    (void)algorithm;
    return multiply(fake, handle, &gemm, alpha, beta, type_b);
}
