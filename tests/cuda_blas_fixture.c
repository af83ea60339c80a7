#include "tests/cuda_blas_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sim/fake_devices/cuda/fake_gemm.h"

/* ---- The table: a handle is its own address ---- */

static struct cublasContext *const the_handle = (struct cublasContext *)(uintptr_t)64;

static cublasStatus_t fake_create(cublasHandle_t *out_handle) {
    *out_handle = the_handle;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_destroy(cublasHandle_t handle) {
    return handle == the_handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

static cublasStatus_t fake_set_stream(cublasHandle_t handle, cudaStream_t stream) {
    (void)stream;
    return fake_destroy(handle);
}

static cublasStatus_t fake_set_workspace(cublasHandle_t handle, void *workspace, size_t bytes) {
    (void)bytes;
    assert_int_equal((uintptr_t)workspace % sizeof(double), 0);
    return fake_destroy(handle);
}

static cublasStatus_t fake_set_mode(cublasHandle_t handle, cublasMath_t mode) {
    (void)mode;
    return fake_destroy(handle);
}

static cublasStatus_t fake_batched(cublasHandle_t handle, cublasOperation_t op_a,
                                   cublasOperation_t op_b, int m, int n, int k, const void *alpha,
                                   const void *a, cudaDataType_t type_a, int lda,
                                   long long stride_a, const void *b, cudaDataType_t type_b,
                                   int ldb, long long stride_b, const void *beta, void *c,
                                   cudaDataType_t type_c, int ldc, long long stride_c, int batch,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
    struct orr__fake_gemm gemm = {
        .op_a = op_a,
        .op_b = op_b,
        .type = type_a,
        .result = type_c,
        .compute = compute,
        .m = m,
        .n = n,
        .k = k,
        .alpha = orr__fake_gemm_scalar(compute, alpha),
        .beta = orr__fake_gemm_scalar(compute, beta),
        .a = a,
        .b = b,
        .c = c,
        .lda = lda,
        .ldb = ldb,
        .ldc = ldc,
        .batch = batch,
        .stride_a = stride_a,
        .stride_b = stride_b,
        .stride_c = stride_c,
    };
    assert_int_equal(type_a, type_b);
    assert_int_equal(algorithm, CUBLAS_GEMM_DEFAULT);
    assert_ptr_equal(handle, the_handle);
    cublasStatus_t status = orr__fake_gemm_check(&gemm);
    if (status == CUBLAS_STATUS_SUCCESS)
        orr__fake_gemm_run(&gemm);
    return status;
}

static cublasStatus_t fake_gemm(cublasHandle_t handle, cublasOperation_t op_a,
                                cublasOperation_t op_b, int m, int n, int k, const void *alpha,
                                const void *a, cudaDataType_t type_a, int lda, const void *b,
                                cudaDataType_t type_b, int ldb, const void *beta, void *c,
                                cudaDataType_t type_c, int ldc, cublasComputeType_t compute,
                                cublasGemmAlgo_t algorithm) {
    return fake_batched(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0,
                        beta, c, type_c, ldc, 0, 1, compute, algorithm);
}

static const char *fake_status_string(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "it failed";
}

static enum orr_status load_nothing(struct orr__cuda_api *api, enum orr__cuda_library library,
                                    struct orr_error *error) {
    (void)api;
    return orr_error_set(error, ORR_UNAVAILABLE, "library %d is not there", (int)library);
}

void blas_install(struct kernel_fixture *fixture) {
    struct orr__cuda_blas_table *blas = &fixture->api.blas;
    blas->cublasCreate_v2 = fake_create;
    blas->cublasDestroy_v2 = fake_destroy;
    blas->cublasSetStream_v2 = fake_set_stream;
    blas->cublasSetWorkspace_v2 = fake_set_workspace;
    blas->cublasSetMathMode = fake_set_mode;
    blas->cublasGemmEx = fake_gemm;
    blas->cublasGemmStridedBatchedEx = fake_batched;
    blas->cublasGetStatusString = fake_status_string;
    fixture->api.loaded[ORR__CUDA_BLAS] = true;
    fixture->api.load = load_nothing;
}

int blas_setup(void **state) {
    int code = kernel_setup(state);
    if (code == 0)
        blas_install(*state);
    return code;
}
