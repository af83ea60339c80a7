/* The matrix product over OpenBLAS, which knows f32 and f64. f16 and bf16 operands are converted to
 * f32 in panels, because a whole weight in f32 would take twice its memory again:
 *
 *             k              nb
 *         +--------+      +------+         +------+
 *      mb | A part |  x  k| B    |   =  mb | C    | f32, rounded to C's dtype
 *         +--------+      | part |         +------+
 *                         +------+
 *
 * k is never cut, so each element is one sum in f32. The sizes are constants: results don't depend
 * on the machine's memory. */
#include "runtime/operators/gemm.h"

#include <cblas.h>
#include <assert.h>
#include <string.h>

#include "runtime/operators/gemm_internal.h"

enum {
    B_PANEL_ELEMENTS = 8 << 20, /* 32 MiB of f32 */
    A_PANEL_ELEMENTS = 2 << 20, /* 8 MiB of f32 */
    ROWS_MAX = 1 << 30          /* of one call: OpenBLAS counts in int */
};

void orr_gemm_single_thread(void) {
    openblas_set_num_threads(1);
}

static CBLAS_TRANSPOSE blas_transpose(bool transpose) {
    return transpose ? CblasTrans : CblasNoTrans;
}

void orr__panel_f32(const struct orr__panel *panel) {
    cblas_sgemm(CblasRowMajor, blas_transpose(panel->transpose_a),
                blas_transpose(panel->transpose_b), (blasint)panel->m, (blasint)panel->n,
                (blasint)panel->k, 1, panel->a, (blasint)panel->lda, panel->b, (blasint)panel->ldb,
                panel->adds ? 1 : 0, panel->c, (blasint)panel->ldc);
}

void orr__panel_f64(const struct orr__panel *panel) {
    cblas_dgemm(CblasRowMajor, blas_transpose(panel->transpose_a),
                blas_transpose(panel->transpose_b), (blasint)panel->m, (blasint)panel->n,
                (blasint)panel->k, 1, panel->a, (blasint)panel->lda, panel->b, (blasint)panel->ldb,
                panel->adds ? 1 : 0, panel->c, (blasint)panel->ldc);
}

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void add_bias_f32(float *c, const float *bias, int64_t m, int64_t n, int64_t ldc) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * ldc + j] += bias[j];
}

static void add_bias_f64(double *c, const double *bias, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * n + j] += bias[j];
}

/* f32 and f64 need no conversion: the library reads the operands where they are. */
static void run_native(const struct orr__gemm *gemm) {
    bool is_f64 = gemm->dtype == ORR_DTYPE_F64;
    size_t size = is_f64 ? 8 : 4;
    for (int64_t row = 0; row < gemm->m; row += ROWS_MAX) {
        int64_t a_row = gemm->transpose_a ? row : row * gemm->k;
        struct orr__panel panel = {
            .transpose_a = gemm->transpose_a,
            .transpose_b = gemm->transpose_b,
            .m = min_i64(gemm->m - row, ROWS_MAX),
            .n = gemm->n,
            .k = gemm->k,
            .a = (const char *)gemm->a + (size_t)a_row * size,
            .b = gemm->b,
            .lda = gemm->transpose_a ? gemm->m : gemm->k,
            .ldb = gemm->transpose_b ? gemm->k : gemm->n,
            .ldc = gemm->n,
            .c = (char *)gemm->c + (size_t)(row * gemm->n) * size,
        };
        if (is_f64)
            orr__panel_f64(&panel);
        else
            orr__panel_f32(&panel);
    }
    if (gemm->bias && is_f64)
        add_bias_f64(gemm->c, gemm->bias, gemm->m, gemm->n);
    else if (gemm->bias)
        add_bias_f32(gemm->c, gemm->bias, gemm->m, gemm->n, gemm->n);
}

/* Converts a rectangle of a 16-bit matrix to a dense one in f32. */
static void widen(enum orr_dtype dtype, const uint16_t *from, int64_t from_width, int64_t rows,
                  int64_t columns, float *to) {
    if (columns == from_width) {
        orr_dtype_convert(ORR_DTYPE_F32, to, dtype, from, (size_t)(rows * columns));
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        orr_dtype_convert(ORR_DTYPE_F32, to + i * columns, dtype, from + i * from_width,
                          (size_t)columns);
}

struct tiles {
    int64_t mb, nb;
    float *a, *b, *c, *bias; /* in one scratch block */
};

/* Rows and columns of a part: within the panel's elements, at least 64 rows and 16 columns. */
static struct tiles choose_tiles(const struct orr__gemm *gemm) {
    int64_t nb = B_PANEL_ELEMENTS / gemm->k, mb = A_PANEL_ELEMENTS / gemm->k;
    nb = nb < 16 ? 16 : nb;
    mb = mb < 64 ? 64 : mb;
    nb = min_i64(nb, 8192);
    mb = min_i64(mb, 4096);
    return (struct tiles){.mb = min_i64(mb, gemm->m), .nb = min_i64(nb, gemm->n)};
}

static void run_tile(const struct orr__gemm *gemm, const struct tiles *tiles, int64_t row,
                     int64_t column) {
    int64_t m = min_i64(gemm->m - row, tiles->mb), n = min_i64(gemm->n - column, tiles->nb);
    const uint16_t *a = gemm->a;
    if (gemm->transpose_a)
        widen(gemm->dtype, a + row, gemm->m, gemm->k, m, tiles->a);
    else
        widen(gemm->dtype, a + row * gemm->k, gemm->k, m, gemm->k, tiles->a);
    struct orr__panel panel = {
        .transpose_a = gemm->transpose_a,
        .transpose_b = gemm->transpose_b,
        .m = m,
        .n = n,
        .k = gemm->k,
        .a = tiles->a,
        .b = tiles->b,
        .lda = gemm->transpose_a ? m : gemm->k,
        .ldb = gemm->transpose_b ? gemm->k : n,
        .ldc = n,
        .c = tiles->c,
    };
    orr__panel_f32(&panel);
    if (gemm->bias)
        add_bias_f32(tiles->c, tiles->bias + column, m, n, n);
    uint16_t *c = gemm->c;
    for (int64_t i = 0; i < m; i++)
        orr_dtype_convert(gemm->dtype, c + (row + i) * gemm->n + column, ORR_DTYPE_F32,
                          tiles->c + i * n, (size_t)n);
}

static void run_tiles(const struct orr__gemm *gemm, const struct tiles *tiles) {
    const uint16_t *b = gemm->b;
    if (gemm->bias)
        orr_dtype_convert(ORR_DTYPE_F32, tiles->bias, gemm->dtype, gemm->bias, (size_t)gemm->n);
    for (int64_t column = 0; column < gemm->n; column += tiles->nb) {
        int64_t n = min_i64(gemm->n - column, tiles->nb);
        if (gemm->transpose_b)
            widen(gemm->dtype, b + column * gemm->k, gemm->k, n, gemm->k, tiles->b);
        else
            widen(gemm->dtype, b + column, gemm->n, gemm->k, n, tiles->b);
        for (int64_t row = 0; row < gemm->m; row += tiles->mb)
            run_tile(gemm, tiles, row, column);
    }
}

static enum orr_status run_half(const struct orr_operator *op, const struct orr__gemm *gemm,
                                const struct orr_memory *memory, struct orr_error *error) {
    struct tiles tiles = choose_tiles(gemm);
    size_t a_count = (size_t)(tiles.mb * gemm->k), b_count = (size_t)(tiles.nb * gemm->k);
    size_t c_count = (size_t)(tiles.mb * tiles.nb), bias_count = gemm->bias ? (size_t)gemm->n : 0;
    size_t bytes = (a_count + b_count + c_count + bias_count) * sizeof(float);
    float *scratch = orr_memory_resize(memory, NULL, bytes);
    if (!scratch)
        return orr__no_scratch(op, bytes, error);
    tiles.a = scratch;
    tiles.b = tiles.a + a_count;
    tiles.c = tiles.b + b_count;
    tiles.bias = tiles.c + c_count;
    run_tiles(gemm, &tiles);
    orr_memory_free(memory, scratch);
    return ORR_OK;
}

static int64_t load_integer(enum orr_dtype dtype, const void *array, int64_t index) {
    return dtype == ORR_DTYPE_I32 ? ((const int32_t *)array)[index]
                                  : ((const int64_t *)array)[index];
}

/* Integers are for counting, not for speed. */
static void run_integer(const struct orr__gemm *gemm) {
    for (int64_t i = 0; i < gemm->m; i++)
        for (int64_t j = 0; j < gemm->n; j++) {
            uint64_t sum = 0;
            for (int64_t p = 0; p < gemm->k; p++) {
                int64_t at_a = gemm->transpose_a ? p * gemm->m + i : i * gemm->k + p;
                int64_t at_b = gemm->transpose_b ? j * gemm->k + p : p * gemm->n + j;
                sum += (uint64_t)load_integer(gemm->dtype, gemm->a, at_a) *
                       (uint64_t)load_integer(gemm->dtype, gemm->b, at_b);
            }
            if (gemm->dtype == ORR_DTYPE_I32)
                ((int32_t *)gemm->c)[i * gemm->n + j] = (int32_t)(uint32_t)sum;
            else
                ((int64_t *)gemm->c)[i * gemm->n + j] = (int64_t)sum;
        }
}

/* A product over k = 0 is a matrix of zeros (plus bias); the library isn't asked. */
static void run_empty(const struct orr__gemm *gemm) {
    size_t row_size = (size_t)gemm->n * orr_dtype_size(gemm->dtype);
    for (int64_t i = 0; i < gemm->m; i++) {
        char *row = (char *)gemm->c + (size_t)i * row_size;
        if (gemm->bias)
            memcpy(row, gemm->bias, row_size);
        else
            memset(row, 0, row_size);
    }
}

enum orr_status orr__gemm_run(const struct orr_operator *op, const struct orr__gemm *gemm,
                              const struct orr_memory *memory, struct orr_error *error) {
    assert(gemm->m >= 0 && gemm->n >= 0 && gemm->k >= 0);
    assert(gemm->n <= INT32_MAX && gemm->k <= INT32_MAX);
    assert(!gemm->transpose_a || gemm->m <= INT32_MAX);
    if (gemm->m == 0 || gemm->n == 0)
        return ORR_OK;
    if (gemm->k == 0) {
        run_empty(gemm);
        return ORR_OK;
    }
    switch (gemm->dtype) {
    case ORR_DTYPE_F64:
    case ORR_DTYPE_F32: run_native(gemm); return ORR_OK;
    case ORR_DTYPE_I32:
    case ORR_DTYPE_I64: run_integer(gemm); return ORR_OK;
    default: return run_half(op, gemm, memory, error);
    }
}
