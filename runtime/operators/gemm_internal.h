/* One matrix product on host memory, shared by matmul, linear and attention.
 *
 * Threads: safe on distinct results. */
#ifndef ORR_RUNTIME_GEMM_INTERNAL_H
#define ORR_RUNTIME_GEMM_INTERNAL_H

#include "runtime/operators/operators_internal.h"

/* C [m, n] = op(A) [m, k] op(B) [k, n], all dense and row-major. Transposed A is stored [k, m],
 * transposed B [n, k]. Floats are summed in f32 (f64 for f64) and the sum, plus bias if there is
 * one, is rounded once; integers wrap around. */
struct orr__gemm {
    enum orr_dtype dtype;
    int64_t m, n, k; /* n and k fit in int32 */
    bool transpose_a, transpose_b;
    const void *a, *b;
    const void *bias; /* [n] or NULL */
    void *c;
};

/* Returns ORR_NO_MEMORY if there is no scratch space; `op` is named in the message. */
enum orr_status orr__gemm_run(const struct orr_operator *op, const struct orr__gemm *gemm,
                              const struct orr_memory *memory,
                              struct orr_error *error) ORR_MUST_CHECK;

/* C = op(A) op(B) in f32 or f64 with leading dimensions, straight to the library; C += with
 * `adds`. */
struct orr__panel {
    bool transpose_a, transpose_b, adds;
    int64_t m, n, k;
    const void *a, *b;
    int64_t lda, ldb, ldc;
    void *c;
};
void orr__panel_f32(const struct orr__panel *panel);
void orr__panel_f64(const struct orr__panel *panel);

#endif
