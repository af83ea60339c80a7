/* Kernels of gather.h. */
#include "device.h"

#include "runtime/cuda/kernels/bodies/index.h"
#include "runtime/cuda/kernels/bodies/units.h"
#include "runtime/cuda/kernels/fold.h"
#include "runtime/cuda/kernels/gather.h"

KERNEL(gather_rows, struct orr__k_gather_rows) {
    for (int64_t row = block_index(lane); row < a->count; row += block_count(lane)) {
        int64_t index = load_i64(a->indices, a->index_dtype, row), from = index - a->first;
        if (index < 0 || index >= a->whole) {
            if (thread_index(lane) == 0)
                fault_raise(lane, a->fault, ORR__FAULT_INDEX, index, a->whole);
            continue;
        }
        const void *weight = from >= 0 && from < a->here ? a->weight : NULL;
        for (int64_t i = thread_index(lane); i < a->units; i += thread_count(lane))
            move_unit(a->to, row * a->units + i, weight, from * a->units + i, a->unit);
    }
}

DEVICE void sum_ordered_rows(struct lane lane, const struct orr__k_sum_ordered *a, int dtype) {
    int64_t count = a->rows * a->width;
    for (int64_t i = first_index(lane); i < count; i += index_step(lane)) {
        int64_t row = quotient(i, a->width), column = i - row * a->width;
        double sum = 0;
        for (int64_t j = a->starts[row]; j < a->starts[row + 1]; j++)
            sum += load_f64(a->grad, dtype, a->order[j] * a->width + column);
        store_f64(a->to, dtype, i, sum);
    }
}

KERNEL(sum_ordered, struct orr__k_sum_ordered) {
    ORR__FOLD_FLOAT(sum_ordered_rows, a->dtype);
}

KERNEL(gather_last, struct orr__k_gather_last) {
    for (int64_t i = first_index(lane); i < a->rows * a->k; i += index_step(lane)) {
        int64_t index = load_i64(a->indices, a->index_dtype, i), column = index - a->first;
        if (index < 0 || index >= a->whole) {
            fault_raise(lane, a->fault, ORR__FAULT_INDEX, index, a->whole);
            continue;
        }
        const void *x = column >= 0 && column < a->here ? a->x : NULL;
        move_unit(a->to, i, x, quotient(i, a->k) * a->here + column, a->unit);
    }
}

DEVICE void scatter_rows(struct lane lane, const struct orr__k_scatter_last *a, int dtype) {
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->k;
        for (int64_t j = thread_index(lane); j < a->k; j += thread_count(lane)) {
            int64_t index = load_i64(a->indices, a->index_dtype, first + j);
            if (index < 0 || index >= a->whole)
                fault_raise(lane, a->fault, ORR__FAULT_INDEX, index, a->whole);
        }
        for (int64_t i = thread_index(lane); i < a->here; i += thread_count(lane)) {
            double sum = 0;
            for (int64_t j = 0; j < a->k; j++)
                if (load_i64(a->indices, a->index_dtype, first + j) == a->first + i)
                    sum += load_f64(a->grad, dtype, first + j);
            store_f64(a->to, dtype, row * a->here + i, sum);
        }
    }
}

KERNEL(scatter_last, struct orr__k_scatter_last) {
    ORR__FOLD_FLOAT(scatter_rows, a->dtype);
}

#define VALUE       double
#define NAME(name)  name##_f64
#define LOWEST      (-(double)INFINITY)
#define BEATS(a, b) ((b) == (b) && ((a) != (a) || (a) > (b)))
#include "runtime/cuda/kernels/bodies/largest.h"

/* The best element of a row that comes after `last`; of all, if `last` has no index. */
DEVICE struct best_f64 next_best(struct lane lane, const struct orr__k_topk *a, int dtype,
                                 int64_t first, struct best_f64 last) {
    struct best_f64 best = {LOWEST, -1};
    for (int64_t i = thread_index(lane); i < a->n; i += thread_count(lane)) {
        double value = load_f64(a->x, dtype, first + i);
        bool after = last.index < 0 || BEATS(last.value, value) ||
                     (i > last.index && !BEATS(value, last.value));
        if (after)
            take_f64(&best, value, i);
    }
    return block_best_f64(lane, best);
}

DEVICE void topk_rows(struct lane lane, const struct orr__k_topk *a, int dtype) {
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        struct best_f64 last = {LOWEST, -1};
        for (int64_t j = 0; j < a->k; j++) {
            last = next_best(lane, a, dtype, row * a->n, last);
            if (thread_index(lane) != 0)
                continue;
            store_f64(a->values, dtype, row * a->k + j, last.value);
            a->indices[row * a->k + j] = last.index;
        }
    }
}

KERNEL(topk, struct orr__k_topk) {
    ORR__FOLD_FLOAT(topk_rows, a->dtype);
}
