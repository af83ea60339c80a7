/* Kernels of reduction.h. */
#include "device.h"

#include "runtime/cuda/kernels/bodies/index.h"
#include "runtime/cuda/kernels/fold.h"
#include "runtime/cuda/kernels/reduction.h"

/* A NaN comes before everything else. */
#define VALUE       double
#define NAME(name)  name##_f64
#define LOAD        load_f64
#define PUT         store_f64
#define LOWEST      (-(double)INFINITY)
#define BEATS(a, b) ((b) == (b) && ((a) != (a) || (a) > (b)))
#define SUM         double
#define BLOCK_SUM(lane, sum, neutral, scratch)                                                     \
    block_sum_f64(lane, sum, neutral, (double *)(scratch))
#define PUT_SUM(a, i, sum) store_f64(a->to, a->to_dtype, i, (sum) / a->divisor)
#define REAL               VALUE
#include "runtime/cuda/kernels/bodies/batch.h"
#include "runtime/cuda/kernels/bodies/largest.h"
#include "runtime/cuda/kernels/bodies/reduction.h"
#undef VALUE
#undef NAME
#undef LOAD
#undef PUT
#undef LOWEST
#undef BEATS
#undef SUM
#undef BLOCK_SUM
#undef PUT_SUM
#undef REAL

/* Sums are unsigned, so that they may wrap around. */
#define VALUE       int64_t
#define NAME(name)  name##_i64
#define LOAD        load_i64
#define PUT         store_i64
#define LOWEST      INT64_MIN
#define BEATS(a, b) ((a) > (b))
#define SUM         uint64_t
#define BLOCK_SUM(lane, sum, neutral, scratch)                                                     \
    block_sum_i64(lane, (long long)(sum), neutral, (long long *)(scratch))
#define PUT_SUM(a, i, sum) store_i64(a->to, ORR_DTYPE_I64, i, (int64_t)(sum))
#define REAL               VALUE
#include "runtime/cuda/kernels/bodies/batch.h"
#include "runtime/cuda/kernels/bodies/largest.h"
#include "runtime/cuda/kernels/bodies/reduction.h"

KERNEL(sum_rows, struct orr__k_sum) {
    ORR__FOLD_FLOAT(sum_rows_f64, a->dtype);
}

KERNEL(sum_columns, struct orr__k_sum) {
    ORR__FOLD_FLOAT(sum_columns_f64, a->dtype);
}

KERNEL(integers_rows, struct orr__k_sum) {
    ORR__FOLD_INTEGER(sum_rows_i64, a->dtype);
}

KERNEL(integers_columns, struct orr__k_sum) {
    ORR__FOLD_INTEGER(sum_columns_i64, a->dtype);
}

DEVICE void count_nonfinite(struct lane lane, const struct orr__k_sum *a, int dtype) {
    for (int64_t i = block_index(lane); i < a->chunks.chunks; i += block_count(lane)) {
        int64_t step, count, first = chunk_at_f64(&a->chunks, i, &step, &count);
        long long found = 0;
        for (int64_t j = thread_index(lane); j < count; j += thread_count(lane)) {
            double value = load_f64(a->x, dtype, first + j);
            found += value - value == 0 ? 0 : 1;
        }
        found = block_sum_i64(lane, found, 0, (long long *)shared_memory(lane));
        if (thread_index(lane) == 0)
            store_f64(a->to, a->to_dtype, i, (double)found);
    }
}

KERNEL(nonfinite_rows, struct orr__k_sum) {
    ORR__FOLD_FLOAT(count_nonfinite, a->dtype);
}

KERNEL(largest_rows, struct orr__k_largest) {
    ORR__FOLD_FLOAT(largest_rows_f64, a->dtype);
}

KERNEL(largest_columns, struct orr__k_largest) {
    ORR__FOLD_FLOAT(largest_columns_f64, a->dtype);
}

KERNEL(largest_i64_rows, struct orr__k_largest) {
    largest_rows_i64(lane, a, a->dtype);
}

KERNEL(largest_i64_columns, struct orr__k_largest) {
    largest_columns_i64(lane, a, a->dtype);
}

DEVICE void spread_elements(struct lane lane, const struct orr__k_spread *a, int dtype) {
    int64_t matrix = a->n * a->inner, count = a->outer * matrix;
    for (int64_t i = first_index(lane); i < count; i += index_step(lane)) {
        int64_t outer = quotient(i, matrix), rest = i - outer * matrix;
        int64_t step = quotient(rest, a->inner), from = outer * a->inner + rest - step * a->inner;
        double value = a->indices[from] == step ? load_f64(a->grad, dtype, from) : 0;
        store_f64(a->to, dtype, i, value);
    }
}

KERNEL(spread, struct orr__k_spread) {
    ORR__FOLD_FLOAT(spread_elements, a->dtype);
}
