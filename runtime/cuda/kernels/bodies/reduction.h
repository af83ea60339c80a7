/* Bodies of reduction.cu for one type, after bodies/largest.h, whose words it uses; and
 * BLOCK_SUM, SUM, the type that sums are in, and PUT_SUM. Included once for each type. */

/* Where result `i` of chunks begins, and how many elements it has. */
DEVICE int64_t NAME(chunk_at)(const struct orr__k_chunks *c, int64_t i, int64_t *out_step,
                              int64_t *out_count) {
    int64_t column = i % c->inner, block = i / c->inner;
    int64_t step = block % c->chunks * c->chunk, rest = c->n - step;
    *out_step = step;
    *out_count = rest < c->chunk ? rest : c->chunk;
    return (block / c->chunks * c->n + step) * c->inner + column;
}

DEVICE void NAME(sum_rows)(struct lane lane, const struct orr__k_sum *a, int dtype) {
    for (int64_t i = block_index(lane); i < a->chunks.outer * a->chunks.chunks;
         i += block_count(lane)) {
        int64_t step, count, first = NAME(chunk_at)(&a->chunks, i, &step, &count);
        int64_t stride = thread_count(lane);
        VALUE batch[ORR__BATCH];
        SUM sum = 0;
        for (int64_t j = thread_index(lane); j < count; j += ORR__BATCH * stride) {
            NAME(load_batch)(a->x, dtype, first, j, stride, count, 0, batch);
            for (int k = 0; k < ORR__BATCH; k++)
                sum += (SUM)batch[k];
        }
        sum = (SUM)BLOCK_SUM(lane, sum, 0, shared_memory(lane));
        if (thread_index(lane) == 0)
            PUT_SUM(a, i, sum);
    }
}

DEVICE void NAME(sum_columns)(struct lane lane, const struct orr__k_sum *a, int dtype) {
    int64_t inner = a->chunks.inner, results = a->chunks.outer * a->chunks.chunks * inner;
    for (int64_t i = first_index(lane); i < results; i += index_step(lane)) {
        int64_t step, count, first = NAME(chunk_at)(&a->chunks, i, &step, &count);
        SUM sum = 0;
        for (int64_t j = 0; j < count; j++)
            sum += (SUM)LOAD(a->x, dtype, first + j * inner);
        PUT_SUM(a, i, sum);
    }
}

DEVICE void NAME(put_best)(const struct orr__k_largest *a, int64_t i, struct NAME(best) best) {
    if (a->values)
        PUT(a->values, a->to_dtype, i, best.value);
    if (a->indices)
        a->indices[i] = best.index;
}

/* Index of an element along n: its place, or what an earlier launch says. */
DEVICE int64_t NAME(index_of)(const struct orr__k_largest *a, int64_t at, int64_t step) {
    return a->x_indices ? a->x_indices[at] : step;
}

DEVICE void NAME(largest_rows)(struct lane lane, const struct orr__k_largest *a, int dtype) {
    for (int64_t i = block_index(lane); i < a->chunks.outer * a->chunks.chunks;
         i += block_count(lane)) {
        int64_t step, count, first = NAME(chunk_at)(&a->chunks, i, &step, &count);
        struct NAME(best) best = {LOWEST, -1};
        for (int64_t j = thread_index(lane); j < count; j += thread_count(lane)) {
            int64_t index = NAME(index_of)(a, first + j, step + j);
            NAME(take)(&best, LOAD(a->x, dtype, first + j), index);
        }
        best = NAME(block_best)(lane, best);
        if (thread_index(lane) == 0)
            NAME(put_best)(a, i, best);
    }
}

DEVICE void NAME(largest_columns)(struct lane lane, const struct orr__k_largest *a, int dtype) {
    int64_t inner = a->chunks.inner, results = a->chunks.outer * a->chunks.chunks * inner;
    for (int64_t i = first_index(lane); i < results; i += index_step(lane)) {
        int64_t step, count, first = NAME(chunk_at)(&a->chunks, i, &step, &count);
        struct NAME(best) best = {LOWEST, -1};
        for (int64_t j = 0; j < count; j++) {
            int64_t at = first + j * inner;
            NAME(take)(&best, LOAD(a->x, dtype, at), NAME(index_of)(a, at, step + j));
        }
        NAME(put_best)(a, i, best);
    }
}
