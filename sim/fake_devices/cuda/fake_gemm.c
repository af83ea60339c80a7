#include "sim/fake_devices/cuda/fake_gemm.h"

#include <cblas.h>

#include "runtime/dtype.h"

enum { TILE = 64 }; /* rows, columns and depth: 3 x 32 KiB of f64 */

static enum orr_dtype dtype_of(cudaDataType_t type) {
    switch (type) {
    case CUDA_R_64F: return ORR_DTYPE_F64;
    case CUDA_R_32F: return ORR_DTYPE_F32;
    case CUDA_R_16F: return ORR_DTYPE_F16;
    case CUDA_R_16BF: return ORR_DTYPE_BF16;
    default: return ORR_DTYPE_NONE;
    }
}

double orr__fake_gemm_scalar(cublasComputeType_t compute, const void *value) {
    return compute == CUBLAS_COMPUTE_64F ? *(const double *)value : (double)*(const float *)value;
}

static bool types_fit(const struct orr__fake_gemm *gemm) {
    enum orr_dtype type = dtype_of(gemm->type), result = dtype_of(gemm->result);
    if (type == ORR_DTYPE_NONE || result == ORR_DTYPE_NONE)
        return false;
    if (gemm->compute == CUBLAS_COMPUTE_64F)
        return type == ORR_DTYPE_F64 && result == ORR_DTYPE_F64;
    return gemm->compute == CUBLAS_COMPUTE_32F && type != ORR_DTYPE_F64 &&
           (result == type || result == ORR_DTYPE_F32);
}

static bool is_op(cublasOperation_t op) {
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T;
}

static bool leads(int64_t given, int64_t rows) {
    return given >= (rows > 1 ? rows : 1);
}

cublasStatus_t orr__fake_gemm_check(const struct orr__fake_gemm *gemm) {
    if (!is_op(gemm->op_a) || !is_op(gemm->op_b) || gemm->m < 0 || gemm->n < 0 || gemm->k < 0 ||
        gemm->batch < 0 || !leads(gemm->lda, gemm->op_a == CUBLAS_OP_N ? gemm->m : gemm->k) ||
        !leads(gemm->ldb, gemm->op_b == CUBLAS_OP_N ? gemm->k : gemm->n) ||
        !leads(gemm->ldc, gemm->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    return types_fit(gemm) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* One part of C, in f64 or f32; `wide` says which. */
struct part {
    bool wide;
    int64_t row, rows, column, columns;
    union tile {
        double f64[TILE * TILE];
        float f32[TILE * TILE];
    } a, b, c;
};

static void *tile_at(union tile *tile, bool wide, int64_t element) {
    return wide ? (void *)(tile->f64 + element) : (void *)(tile->f32 + element);
}

/* The tile, column-major with `rows` rows, of op(matrix) at (row, column). */
static void load(union tile *tile, bool wide, const void *matrix, enum orr_dtype dtype,
                 cublasOperation_t op, int64_t step, int64_t row, int64_t rows, int64_t column,
                 int64_t columns) {
    enum orr_dtype to = wide ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    size_t size = orr_dtype_size(dtype);
    const char *from = matrix;
    for (int64_t i = 0; i < columns; i++) {
        if (op == CUBLAS_OP_N) {
            orr_dtype_convert(to, tile_at(tile, wide, i * rows), dtype,
                              from + (size_t)((column + i) * step + row) * size, (size_t)rows);
            continue;
        }
        for (int64_t j = 0; j < rows; j++)
            orr_dtype_convert(to, tile_at(tile, wide, i * rows + j), dtype,
                              from + (size_t)((row + j) * step + column + i) * size, 1);
    }
}

static int64_t at_most(int64_t count, int64_t most) {
    return count < most ? count : most;
}

static void multiply_part(const struct orr__fake_gemm *gemm, struct part *part, const void *a,
                          const void *b) {
    enum orr_dtype dtype = dtype_of(gemm->type);
    blasint m = (blasint)part->rows, n = (blasint)part->columns;
    for (int64_t first = 0; first < gemm->k; first += TILE) {
        int64_t count = at_most(gemm->k - first, TILE);
        blasint k = (blasint)count;
        load(&part->a, part->wide, a, dtype, gemm->op_a, gemm->lda, part->row, part->rows, first,
             count);
        load(&part->b, part->wide, b, dtype, gemm->op_b, gemm->ldb, first, count, part->column,
             part->columns);
        if (part->wide)
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, part->a.f64, m,
                        part->b.f64, k, first > 0, part->c.f64, m);
        else
            cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, part->a.f32, m,
                        part->b.f32, k, first > 0, part->c.f32, m);
    }
}

/* alpha and beta, the epilogue, and the one rounding. */
static double finish(const struct orr__fake_gemm *gemm, double sum, double before, int64_t row) {
    bool wide = gemm->compute == CUBLAS_COMPUTE_64F;
    double value = gemm->alpha * sum;
    if (gemm->beta != 0)
        value += gemm->beta * before;
    value = wide ? value : (double)(float)value;
    if (gemm->bias)
        value += orr_dtype_load(dtype_of(gemm->result), gemm->bias, (size_t)row);
    value = wide ? value : (double)(float)value;
    return gemm->relu && value < 0 ? 0 : value;
}

static void store_part(const struct orr__fake_gemm *gemm, const struct part *part, void *c) {
    enum orr_dtype dtype = dtype_of(gemm->result);
    for (int64_t i = 0; i < part->columns; i++)
        for (int64_t j = 0; j < part->rows; j++) {
            size_t at = (size_t)((part->column + i) * gemm->ldc + part->row + j);
            int64_t from = i * part->rows + j;
            double sum = part->wide ? part->c.f64[from] : (double)part->c.f32[from];
            double before = gemm->beta != 0 ? orr_dtype_load(dtype, c, at) : 0;
            orr_dtype_store(dtype, c, at,
                            finish(gemm, gemm->k > 0 ? sum : 0, before, part->row + j));
        }
}

static void multiply(const struct orr__fake_gemm *gemm, const void *a, const void *b, void *c) {
    struct part part;
    part.wide = gemm->compute == CUBLAS_COMPUTE_64F;
    for (part.column = 0; part.column < gemm->n; part.column += TILE)
        for (part.row = 0; part.row < gemm->m; part.row += TILE) {
            part.rows = at_most(gemm->m - part.row, TILE);
            part.columns = at_most(gemm->n - part.column, TILE);
            multiply_part(gemm, &part, a, b);
            store_part(gemm, &part, c);
        }
}

void orr__fake_gemm_run(const struct orr__fake_gemm *gemm) {
    size_t size = orr_dtype_size(dtype_of(gemm->type));
    size_t result = orr_dtype_size(dtype_of(gemm->result));
    for (int64_t i = 0; i < gemm->batch; i++)
        multiply(gemm, (const char *)gemm->a + (size_t)(i * gemm->stride_a) * size,
                 (const char *)gemm->b + (size_t)(i * gemm->stride_b) * size,
                 (char *)gemm->c + (size_t)(i * gemm->stride_c) * result);
}
