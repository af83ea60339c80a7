/* The matrix product of cuBLAS on a CPU: the arithmetic behind the fake entry points, column-major
 * and with cuBLAS's arguments.
 *
 *     struct orr__fake_gemm gemm = {.op_a = CUBLAS_OP_N, .op_b = CUBLAS_OP_T, .m = m, ...};
 *     cublasStatus_t status = orr__fake_gemm_check(&gemm);
 *     if (status == CUBLAS_STATUS_SUCCESS) ... later, in stream order: orr__fake_gemm_run(&gemm);
 *
 * Operands are read, and results written, by code of this file, in tiles, and not by OpenBLAS,
 * which multiplies the tiles only: so ThreadSanitizer sees every access to a matrix. The order of a
 * sum is no GPU's.
 *
 * Threads: pure functions. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_FAKE_GEMM_H
#define ORR_SIM_FAKE_DEVICES_CUDA_FAKE_GEMM_H

#include <cublas_v2.h>
#include <stdbool.h>
#include <stdint.h>

/* C [m, n] = alpha op(A) [m, k] op(B) [k, n] + beta C, then a bias for each row and relu. C is not
 * read if beta is 0. */
struct orr__fake_gemm {
    cublasOperation_t op_a, op_b;
    cudaDataType_t type, result; /* of A and B; of C and the bias */
    cublasComputeType_t compute;
    int64_t m, n, k;
    double alpha, beta;
    const void *a, *b;
    void *c;
    const void *bias; /* [m] or NULL */
    bool relu;
    int64_t lda, ldb, ldc;
    int64_t batch, stride_a, stride_b, stride_c;
};

/* What cuBLAS would say of the arguments: CUBLAS_STATUS_INVALID_VALUE for sizes and leading
 * dimensions that are none, CUBLAS_STATUS_NOT_SUPPORTED for types that don't go together (cuBLAS
 * guide, table of cublasGemmEx; here are those rows of it that the backend uses). */
cublasStatus_t orr__fake_gemm_check(const struct orr__fake_gemm *gemm);

void orr__fake_gemm_run(const struct orr__fake_gemm *gemm);

/* alpha and beta as the type of the arithmetic has them. */
double orr__fake_gemm_scalar(cublasComputeType_t compute, const void *value);

#endif
