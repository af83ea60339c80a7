/* Bodies of norm.cu, for one type of elements: REAL is float or double, NAME(x) is x_f32 or x_f64,
 * LOAD and STORE read and write an element of a dtype. Included once for each type. */

/* Mean and 1 / sqrt(variance + eps) of a row that begins at element `first`, given to all threads
 * of the block. */
DEVICE void NAME(row_moments)(struct lane lane, const struct orr__k_norm_rows *rows, const void *x,
                              int dtype, int64_t first, REAL *out_mean, REAL *out_r) {
    double *scratch = (double *)shared_memory(lane), n = (double)rows->width, sum = 0, squares = 0;
    int64_t step = thread_count(lane);
    REAL mean = 0, batch[ORR__BATCH];
    if (rows->centered) {
        for (int64_t i = thread_index(lane); i < rows->width; i += ORR__BATCH * step) {
            NAME(load_batch)(x, dtype, first, i, step, rows->width, 0, batch);
            for (int k = 0; k < ORR__BATCH; k++)
                sum += (double)batch[k];
        }
        mean = (REAL)(block_sum_f64(lane, sum, 0, scratch) / n);
    }
    for (int64_t i = thread_index(lane); i < rows->width; i += ORR__BATCH * step) {
        NAME(load_batch)(x, dtype, first, i, step, rows->width, mean, batch);
        for (int k = 0; k < ORR__BATCH; k++) {
            double apart = (double)(batch[k] - mean);
            squares += apart * apart;
        }
    }
    squares = block_sum_f64(lane, squares, 0, scratch);
    *out_mean = mean;
    *out_r = (REAL)(1 / sqrt(squares / n + rows->eps));
}

/* The result of element i of the row from `first` on. */
DEVICE void NAME(put_norm)(const struct orr__k_norm *a, int dtype, int64_t first, int64_t channel,
                           int64_t i, REAL h) {
    int64_t at = channel + quotient(i, a->rows.places);
    if (a->weight)
        h *= LOAD(a->weight, dtype, at);
    if (a->bias)
        h += LOAD(a->bias, dtype, at);
    STORE(a->y, dtype, first + i, h);
}

DEVICE void NAME(norm_rows)(struct lane lane, const struct orr__k_norm *a, int dtype) {
    const struct orr__k_norm_rows *rows = &a->rows;
    for (int64_t row = block_index(lane); row < rows->rows; row += block_count(lane)) {
        int64_t first = row * rows->width, channel = row % rows->groups * rows->channels;
        REAL mean, r;
        NAME(row_moments)(lane, rows, a->x, dtype, first, &mean, &r);
        int64_t step = thread_count(lane);
        REAL batch[ORR__BATCH];
        for (int64_t i = thread_index(lane); i < rows->width; i += ORR__BATCH * step) {
            NAME(load_batch)(a->x, dtype, first, i, step, rows->width, mean, batch);
            for (int k = 0; k < ORR__BATCH; k++)
                if (i + k * step < rows->width)
                    NAME(put_norm)(a, dtype, first, channel, i + k * step, (batch[k] - mean) * r);
        }
    }
}

/* grad * weight of an element. */
DEVICE REAL NAME(weighted)(const struct orr__k_norm_backward *a, int dtype, int64_t first,
                           int64_t channel, int64_t i) {
    REAL g = LOAD(a->grad, dtype, first + i);
    if (a->weight)
        g *= LOAD(a->weight, dtype, channel + quotient(i, a->rows.places));
    return g;
}

/* With u = grad weight and h = (x - mean) r: r (u - mean(u) - h mean(u h)). */
DEVICE void NAME(norm_backward_rows)(struct lane lane, const struct orr__k_norm_backward *a,
                                     int dtype) {
    const struct orr__k_norm_rows *rows = &a->rows;
    double *scratch = (double *)shared_memory(lane), n = (double)rows->width;
    for (int64_t row = block_index(lane); row < rows->rows; row += block_count(lane)) {
        int64_t first = row * rows->width, channel = row % rows->groups * rows->channels;
        double sum = 0, products = 0;
        REAL mean, r;
        NAME(row_moments)(lane, rows, a->x, dtype, first, &mean, &r);
        for (int64_t i = thread_index(lane); i < rows->width; i += thread_count(lane)) {
            REAL u = NAME(weighted)(a, dtype, first, channel, i);
            sum += (double)u;
            products += (double)u * (double)((LOAD(a->x, dtype, first + i) - mean) * r);
        }
        REAL offset = 0;
        if (rows->centered)
            offset = (REAL)(block_sum_f64(lane, sum, 0, scratch) / n);
        REAL slope = (REAL)(block_sum_f64(lane, products, 0, scratch) / n);
        for (int64_t i = thread_index(lane); i < rows->width; i += thread_count(lane)) {
            REAL u = NAME(weighted)(a, dtype, first, channel, i);
            REAL h = (LOAD(a->x, dtype, first + i) - mean) * r;
            STORE(a->to, dtype, first + i, r * (u - offset - h * slope));
        }
    }
}

DEVICE void NAME(moments_rows)(struct lane lane, const struct orr__k_norm_moments *a, int dtype) {
    for (int64_t row = block_index(lane); row < a->rows.rows; row += block_count(lane)) {
        REAL mean, r;
        NAME(row_moments)(lane, &a->rows, a->x, dtype, row * a->rows.width, &mean, &r);
        if (thread_index(lane) == 0) {
            a->moments[row * 2] = (double)mean;
            a->moments[row * 2 + 1] = (double)r;
        }
    }
}

/* Adds grad h and grad of one element to sums. */
DEVICE void NAME(add_weight)(const struct orr__k_norm_weight *a, int dtype, int64_t row, int64_t at,
                             double *dw, double *db) {
    REAL g = LOAD(a->grad, dtype, at), mean = (REAL)a->moments[row * 2];
    REAL h = (LOAD(a->x, dtype, at) - mean) * (REAL)a->moments[row * 2 + 1];
    *dw += (double)g * (double)h;
    *db += (double)g;
}

DEVICE void NAME(weight_columns)(struct lane lane, const struct orr__k_norm_weight *a, int dtype) {
    int64_t width = a->rows.width, results = a->chunks * width;
    for (int64_t i = first_index(lane); i < results; i += index_step(lane)) {
        int64_t first = i / width * a->chunk, column = i % width, end = first + a->chunk;
        double dw = 0, db = 0;
        end = end < a->rows.rows ? end : a->rows.rows;
        for (int64_t row = first; row < end; row++)
            NAME(add_weight)(a, dtype, row, row * width + column, &dw, &db);
        a->dw[i] = dw;
        if (a->db)
            a->db[i] = db;
    }
}

DEVICE void NAME(weight_places)(struct lane lane, const struct orr__k_norm_weight *a, int dtype) {
    const struct orr__k_norm_rows *rows = &a->rows;
    double *scratch = (double *)shared_memory(lane);
    int64_t results = rows->rows * rows->channels; /* row by row: sample by sample */
    for (int64_t i = block_index(lane); i < results; i += block_count(lane)) {
        double dw = 0, db = 0;
        for (int64_t place = thread_index(lane); place < rows->places; place += thread_count(lane))
            NAME(add_weight)(a, dtype, i / rows->channels, i * rows->places + place, &dw, &db);
        dw = block_sum_f64(lane, dw, 0, scratch);
        db = block_sum_f64(lane, db, 0, scratch);
        if (thread_index(lane) == 0) {
            a->dw[i] = dw;
            a->db[i] = db;
        }
    }
}
