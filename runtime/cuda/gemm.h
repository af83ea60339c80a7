/* Matrix products on a queue, by cuBLAS.
 *
 *     struct orr__cuda_gemm gemm = {.dtype = ORR_DTYPE_BF16, .result = ORR_DTYPE_BF16,
 *                                   .m = m, .n = n, .k = k, .transpose_b = true,
 *                                   .a = x, .b = weight, .c = y};
 *     status = orr__cuda_gemm(queue, &gemm, error);
 *
 * Everything here is row-major, cuBLAS is column-major: it is asked for the transpose of C, which
 * is op(B)^T op(A)^T, and a row-major matrix read column by column is its own transpose, so nothing
 * is moved. Sums are in f32 for f16, bf16 and f32 (CUBLAS_COMPUTE_32F, whose default mode doesn't
 * round operands to TF32; cuBLAS guide, cublasMath_t) and in f64 for f64. Integers, which cuBLAS
 * doesn't multiply at these widths, have a kernel of their own and wrap around.
 *
 * Epilogues: cublasLt adds a bias and takes relu before the sum is rounded. That is what linear
 * says of its bias, and relu(round(x)) = round(relu(x)), so these two are used. Its GELU is the
 * tanh form, ours the erf form; and a chain like add(matmul(x, w), b) in f16 or bf16 is rounded
 * between its operators, which an epilogue doesn't do. Those run behind the product.
 *
 * Threads: as the queue. */
#ifndef ORR_RUNTIME_CUDA_GEMM_H
#define ORR_RUNTIME_CUDA_GEMM_H

#include "runtime/cuda/queue.h"

/* C [m, n] = op(A) [m, k] op(B) [k, n]. Transposed A is stored [k, m], transposed B [n, k]. */
struct orr__cuda_gemm {
    enum orr_dtype dtype;  /* of A and B */
    enum orr_dtype result; /* of C: the same, or f32 for f16 and bf16 */
    bool transpose_a, transpose_b;
    bool adds; /* C += */
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;                /* elements from row to row; 0: dense */
    int64_t batch;                        /* 0: 1 */
    int64_t stride_a, stride_b, stride_c; /* elements from product to product */
};

/* Any of m, n, k may be 0; C then is dense. */
enum orr_status orr__cuda_gemm(struct orr__cuda_queue *queue, const struct orr__cuda_gemm *gemm,
                               struct orr_error *error) ORR_MUST_CHECK;

/* One product with an epilogue: a bias [n] of C's dtype (NULL: none) and relu. *out_done is false,
 * and nothing is enqueued, if there is no library or no algorithm for it: f64, integers, a bias
 * that is not aligned to 16 bytes. */
enum orr_status orr__cuda_gemm_epilogue(struct orr__cuda_queue *queue,
                                        const struct orr__cuda_gemm *gemm, const void *bias,
                                        bool relu, bool *out_done,
                                        struct orr_error *error) ORR_MUST_CHECK;

/* Fills `count` elements: to[i] = values[i / inner % length]; biases, for products that add. */
enum orr_status orr__cuda_repeat(struct orr__cuda_queue *queue, enum orr_dtype dtype,
                                 const void *values, int64_t length, int64_t inner, int64_t count,
                                 void *to, struct orr_error *error) ORR_MUST_CHECK;

/* A dtype as cuBLAS has it; floats only. */
cudaDataType_t orr__cuda_data_type(enum orr_dtype dtype);

/* The first stages of a fused kernel as one product with an epilogue, if they are that:
 *
 *     linear, with or without bias; relu         relu is exact behind any rounding
 *     matmul by one weight; add [n]; relu        in f32, where the sum is not rounded before add
 *
 * The result is in the kernel's result. *out_stages is how many stages that were, 0 if nothing was
 * enqueued; no later stage needs the results in between. */
enum orr_status orr__cuda_product_epilogue(struct orr__cuda_queue *queue,
                                           const struct orr_task_fused *task, int *out_stages,
                                           struct orr_error *error) ORR_MUST_CHECK;

#endif
