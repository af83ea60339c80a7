/* Bodies of softmax.cu, for one type of elements: REAL is float or double, NAME(x) is x_f32 or
 * x_f64, LOAD and STORE read and write an element of a dtype. Included once for each type. */

/* The largest of `count` elements from `first` on, and the sum of exp(x - largest), given to all
 * threads of the block. As in a walk that takes the maximum first, the sum is NaN if there is a NaN
 * or +infinity, or nothing but -infinity. */
DEVICE void NAME(row_exponentials)(struct lane lane, const void *x, int dtype, int64_t first,
                                   int64_t count, REAL *out_largest, double *out_sum) {
    REAL own = -(REAL)INFINITY;
    double sum = 0;
    for (int64_t i = thread_index(lane); i < count; i += thread_count(lane)) {
        REAL value = LOAD(x, dtype, first + i);
        if (value > own) {
            sum = sum * (double)EXP(own - value) + 1;
            own = value;
        } else if (own > -(REAL)INFINITY || value != value) {
            sum += (double)EXP(value - own);
        }
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
        REAL factor = (REAL)(1 / sum);
        for (int64_t i = thread_index(lane); i < seen; i += thread_count(lane))
            STORE(a->y, dtype, first + i, EXP(LOAD(a->x, dtype, first + i) - largest) * factor);
        for (int64_t i = seen + thread_index(lane); i < a->width; i += thread_count(lane))
            STORE(a->y, dtype, first + i, 0);
    }
}

/* y (g - sum(g y)). */
DEVICE void NAME(softmax_backward_rows)(struct lane lane, const struct orr__k_softmax_backward *a,
                                        int dtype) {
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->width;
        double sum = 0;
        for (int64_t i = thread_index(lane); i < a->width; i += thread_count(lane))
            sum += (double)LOAD(a->grad, dtype, first + i) * (double)LOAD(a->y, dtype, first + i);
        REAL center = (REAL)block_sum_f64(lane, sum, 0, (double *)shared_memory(lane));
        for (int64_t i = thread_index(lane); i < a->width; i += thread_count(lane)) {
            REAL g = LOAD(a->grad, dtype, first + i), y = LOAD(a->y, dtype, first + i);
            STORE(a->to, dtype, first + i, y * (g - center));
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
        for (int64_t i = thread_index(lane); i < a->classes; i += thread_count(lane)) {
            REAL value = EXP(LOAD(a->logits, dtype, first + i) - center) * scale;
            STORE(a->to, dtype, first + i, i == target - a->first ? value - (REAL)factor : value);
        }
    }
}
