/* Bodies of softmax.cu, for one type of elements: REAL is float or double, NAME(x) is x_f32 or
 * x_f64, LOAD and STORE read and write an element of a dtype. Included once for each type. */

/* Adds an element to the largest one and the sum of exp(x - largest) so far; -infinity adds 0. */
DEVICE void NAME(take_exponential)(REAL value, REAL *largest, double *sum) {
    if (value > *largest) {
        *sum = *sum * (double)EXP(*largest - value) + 1;
        *largest = value;
    } else if (*largest > -(REAL)INFINITY || value != value) {
        *sum += (double)EXP(value - *largest);
    }
}

/* The largest of `count` elements from `first` on, and the sum of exp(x - largest), given to all
 * threads of the block. As in a walk that takes the maximum first, the sum is NaN if there is a NaN
 * or +infinity, or nothing but -infinity. */
DEVICE void NAME(row_exponentials)(struct lane lane, const void *x, int dtype, int64_t first,
                                   int64_t count, REAL *out_largest, double *out_sum) {
    REAL own = -(REAL)INFINITY, batch[ORR__BATCH];
    double sum = 0;
    int64_t step = thread_count(lane);
    for (int64_t i = thread_index(lane); i < count; i += ORR__BATCH * step) {
        NAME(load_batch)(x, dtype, first, i, step, count, -(REAL)INFINITY, batch);
        for (int k = 0; k < ORR__BATCH; k++)
            NAME(take_exponential)(batch[k], &own, &sum);
    }
    REAL largest = NAME(block_max)(lane, own, -(REAL)INFINITY, (REAL *)shared_memory(lane));
    /* Threads without elements have 0 times exp(-infinity). */
    sum *= (double)EXP(own - largest);
    *out_largest = largest;
    *out_sum = block_sum_f64(lane, sum, 0, (double *)shared_memory(lane));
}

DEVICE void NAME(softmax_rows)(struct lane lane, const struct orr__k_softmax *a, int dtype) {
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->width, seen = a->width;
        if (a->mask_rows)
            seen = a->seen + row % a->mask_rows;
        REAL largest;
        double sum;
        NAME(row_exponentials)(lane, a->x, dtype, first, seen, &largest, &sum);
        REAL factor = (REAL)(1 / sum), batch[ORR__BATCH];
        int64_t step = thread_count(lane);
        for (int64_t i = thread_index(lane); i < seen; i += ORR__BATCH * step) {
            NAME(load_batch)(a->x, dtype, first, i, step, seen, 0, batch);
            for (int k = 0; k < ORR__BATCH; k++)
                if (i + k * step < seen)
                    STORE(a->y, dtype, first + i + k * step, EXP(batch[k] - largest) * factor);
        }
        for (int64_t i = seen + thread_index(lane); i < a->width; i += thread_count(lane))
            STORE(a->y, dtype, first + i, 0);
    }
}

/* y (g - sum(g y)). */
DEVICE void NAME(softmax_backward_rows)(struct lane lane, const struct orr__k_softmax_backward *a,
                                        int dtype) {
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->width, step = thread_count(lane);
        REAL g[ORR__BATCH], y[ORR__BATCH];
        double sum = 0;
        for (int64_t i = thread_index(lane); i < a->width; i += ORR__BATCH * step) {
            NAME(load_batch)(a->grad, dtype, first, i, step, a->width, 0, g);
            NAME(load_batch)(a->y, dtype, first, i, step, a->width, 0, y);
            for (int k = 0; k < ORR__BATCH; k++)
                sum += (double)g[k] * (double)y[k];
        }
        REAL center = (REAL)block_sum_f64(lane, sum, 0, (double *)shared_memory(lane));
        for (int64_t i = thread_index(lane); i < a->width; i += ORR__BATCH * step) {
            NAME(load_batch)(a->grad, dtype, first, i, step, a->width, 0, g);
            NAME(load_batch)(a->y, dtype, first, i, step, a->width, 0, y);
            for (int k = 0; k < ORR__BATCH; k++)
                if (i + k * step < a->width)
                    STORE(a->to, dtype, first + i + k * step, y[k] * (g[k] - center));
        }
    }
}

DEVICE void NAME(loss_rows)(struct lane lane, const struct orr__k_loss *a, int dtype) {
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->classes;
        REAL largest;
        double sum;
        NAME(row_exponentials)(lane, a->logits, dtype, first, a->classes, &largest, &sum);
        if (thread_index(lane) != 0)
            continue;
        int64_t target = load_i64(a->targets, a->index_dtype, row);
        if (target < 0 || target >= a->classes) {
            fault_raise(lane, a->fault, ORR__FAULT_INDEX, target, a->classes);
            continue;
        }
        a->losses[row] =
            log(sum) + (double)largest - (double)LOAD(a->logits, dtype, first + target);
    }
}

/* grad / total * (softmax(logits) - one hot target). With lse, exp(logits - lse) is the softmax. */
DEVICE void NAME(loss_backward_rows)(struct lane lane, const struct orr__k_loss_backward *a,
                                     int dtype) {
    double factor = (double)*(const REAL *)a->grad / a->total;
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->classes, target = load_i64(a->targets, a->index_dtype, row);
        REAL center, scale = (REAL)factor;
        if (target < 0 || target >= a->whole) {
            if (thread_index(lane) == 0)
                fault_raise(lane, a->fault, ORR__FAULT_INDEX, target, a->whole);
            continue;
        }
        if (a->lse) {
            center = ((const REAL *)a->lse)[row];
        } else {
            double sum;
            NAME(row_exponentials)(lane, a->logits, dtype, first, a->classes, &center, &sum);
            scale = (REAL)(factor / sum);
        }
        int64_t step = thread_count(lane), own = target - a->first;
        REAL batch[ORR__BATCH];
        for (int64_t i = thread_index(lane); i < a->classes; i += ORR__BATCH * step) {
            NAME(load_batch)(a->logits, dtype, first, i, step, a->classes, 0, batch);
            for (int k = 0; k < ORR__BATCH; k++) {
                int64_t at = i + k * step;
                REAL value = EXP(batch[k] - center) * scale;
                if (at < a->classes)
                    STORE(a->to, dtype, first + at, at == own ? value - (REAL)factor : value);
            }
        }
    }
}
