#include "runtime/cuda/launch_sum.h"

#include <assert.h>

#include "runtime/cuda/launch_rows.h"

enum {
    /* A row: a block has enough to do with 8192 elements, and 4096 of them fill any GPU. */
    ROW_CHUNK = 8192,
    ROW_CHUNKS = 4096,
    /* Columns: a thread walks down 128 elements; with 1024 chunks, 64 columns fill a GPU. */
    COLUMN_CHUNK = 128,
    COLUMN_CHUNKS = 1024,
    STAGES_MAX = 3 /* of columns: at most 1024 chunks, then 8, then 1 */
};

struct stages {
    int count;
    struct orr__k_chunks at[STAGES_MAX];
};

static int64_t quotient_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static struct stages plan(int64_t outer, int64_t n, int64_t inner) {
    int64_t least = inner == 1 ? ROW_CHUNK : COLUMN_CHUNK;
    int64_t most = inner == 1 ? ROW_CHUNKS : COLUMN_CHUNKS;
    struct stages stages = {0};
    int64_t chunks;
    do {
        int64_t chunk = quotient_up(n, most);
        chunk = chunk < least ? least : chunk;
        chunks = n <= chunk ? 1 : quotient_up(n, chunk);
        assert(stages.count < STAGES_MAX);
        stages.at[stages.count++] = (struct orr__k_chunks){outer, n, inner, chunk, chunks};
        n = chunks;
    } while (chunks > 1);
    return stages;
}

static int64_t results_of(const struct orr__k_chunks *stage) {
    return stage->outer * stage->chunks * stage->inner;
}

/* Elements of all results but the last launch's. */
static uint64_t partial_results(const struct stages *stages) {
    uint64_t count = 0;
    for (int i = 0; i < stages->count - 1; i++)
        count += (uint64_t)results_of(&stages->at[i]);
    return count;
}

static enum orr_status launch_stage(struct orr__cuda_queue *queue, enum orr__cuda_kernel rows,
                                    enum orr__cuda_kernel columns,
                                    const struct orr__k_chunks *stage, uint32_t bytes_per_thread,
                                    const void *argument, struct orr_error *error) {
    if (stage->inner != 1)
        return orr__cuda_launch_each(queue, columns, results_of(stage), argument, error);
    uint32_t block = orr__cuda_row_block(stage->n < stage->chunk ? stage->n : stage->chunk);
    uint32_t shared = ORR__CUDA_SHARED_SCRATCH;
    if (shared < bytes_per_thread * block)
        shared = bytes_per_thread * block;
    return orr__cuda_launch(queue, rows, orr__cuda_grid_rows(queue, (uint64_t)results_of(stage)),
                            block, shared, argument, error);
}

/* ---- Sums ---- */

uint64_t orr__cuda_sum_bytes(int64_t outer, int64_t n, int64_t inner) {
    struct stages stages = plan(outer, n, inner);
    return partial_results(&stages) * sizeof(double);
}

enum orr_status orr__cuda_sum(struct orr__cuda_queue *queue, const struct orr__cuda_sum *sum,
                              void *scratch, struct orr_error *error) {
    struct stages stages = plan(sum->outer, sum->n, sum->inner);
    bool real = orr_dtype_is_float((enum orr_dtype)sum->dtype);
    struct orr__k_sum a = {.x = sum->x, .dtype = sum->dtype};
    enum orr_status status = ORR_OK;
    char *next = scratch;
    for (int i = 0; i < stages.count && status == ORR_OK; i++) {
        bool last = i == stages.count - 1;
        a.chunks = stages.at[i];
        a.to = last ? sum->to : next;
        a.to_dtype = last ? sum->to_dtype : real ? ORR_DTYPE_F64 : ORR_DTYPE_I64;
        a.divisor = last ? sum->divisor : 1;
        enum orr__cuda_kernel rows = real ? ORR__K_sum_rows : ORR__K_integers_rows;
        if (i == 0 && sum->kind == ORR__CUDA_SUM_NONFINITE)
            rows = ORR__K_nonfinite_rows;
        status = launch_stage(queue, rows, real ? ORR__K_sum_columns : ORR__K_integers_columns,
                              &a.chunks, 0, &a, error);
        next += (uint64_t)results_of(&a.chunks) * sizeof(double);
        a.x = a.to;
        a.dtype = a.to_dtype;
    }
    return status;
}

/* ---- Maxima ---- */

uint64_t orr__cuda_largest_bytes(int64_t outer, int64_t n, int64_t inner) {
    struct stages stages = plan(outer, n, inner);
    return partial_results(&stages) * (sizeof(double) + sizeof(int64_t));
}

enum orr_status orr__cuda_largest(struct orr__cuda_queue *queue,
                                  const struct orr__cuda_largest *largest, void *scratch,
                                  struct orr_error *error) {
    struct stages stages = plan(largest->outer, largest->n, largest->inner);
    bool real = orr_dtype_is_float((enum orr_dtype)largest->dtype);
    struct orr__k_largest a = {.x = largest->x, .dtype = largest->dtype};
    enum orr_status status = ORR_OK;
    int64_t *next = scratch;
    for (int i = 0; i < stages.count && status == ORR_OK; i++) {
        bool last = i == stages.count - 1;
        a.chunks = stages.at[i];
        int64_t results = results_of(&a.chunks);
        a.values = last ? largest->values : next;
        a.indices = last ? largest->indices : next + results;
        a.to_dtype = last ? largest->dtype : real ? ORR_DTYPE_F64 : ORR_DTYPE_I64;
        status = launch_stage(queue, real ? ORR__K_largest_rows : ORR__K_largest_i64_rows,
                              real ? ORR__K_largest_columns : ORR__K_largest_i64_columns, &a.chunks,
                              sizeof(double) + sizeof(int64_t), &a, error);
        next += 2 * results;
        a.x = a.values;
        a.x_indices = a.indices;
        a.dtype = a.to_dtype;
    }
    return status;
}
