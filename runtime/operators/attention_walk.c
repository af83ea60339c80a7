/* The walk over heads, blocks and queries, forward and backward. Key heads are the outer loop:
 * their keys and values are converted once for all query heads that read them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/attention_internal.h"
#include "runtime/operators/gemm_internal.h"
#include "runtime/operators/rows_internal.h"

enum { QUERY_ROWS = 64 }; /* rows of scores held at a time */

struct orr__attention orr__attention_of(const struct orr_shape *q, const struct orr_shape *k,
                                        const struct orr_shape *v, bool causal, double scale) {
    return (struct orr__attention){
        .b = q->dims[0],
        .h = q->dims[1],
        .hkv = k->dims[1],
        .s = q->dims[2],
        .t = k->dims[2],
        .d = q->dims[3],
        .dv = v->dims[3],
        .blocks = 1,
        .total = 1,
        .causal = causal,
        .scale = scale == 0 ? 1 / sqrt((double)q->dims[3]) : scale,
    };
}

enum orr_status orr__attention_check(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs, int input_count, int at,
                                     struct orr_error *error) {
    for (int i = at; i < at + 3; i++)
        if (inputs[i].shape.rank != 4)
            return orr__refuse(op, inputs, input_count, error,
                               "expected q [b, h, s, d], k [b, hkv, t, d] and v [b, hkv, t, dv]");
    const int64_t *q = inputs[at].shape.dims, *k = inputs[at + 1].shape.dims;
    const int64_t *v = inputs[at + 2].shape.dims;
    if (k[0] != q[0] || v[0] != q[0])
        return orr__refuse(op, inputs, input_count, error, "batch dimensions differ");
    if (v[1] != k[1] || v[2] != k[2])
        return orr__refuse(op, inputs, input_count, error,
                           "k and v must have the same heads and the same length");
    if (k[3] != q[3])
        return orr__refuse(op, inputs, input_count, error,
                           "last dimensions %" PRId64 " of q and %" PRId64 " of k differ", q[3],
                           k[3]);
    if (k[1] == 0 || q[1] % k[1] != 0)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " query heads are not a multiple of %" PRId64
                           " key-value heads",
                           q[1], k[1]);
    if (k[2] == 0 || q[3] == 0)
        return orr__refuse(op, inputs, input_count, error, "no keys, or keys without elements");
    if (k[2] > INT32_MAX || q[3] > INT32_MAX || v[3] > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    return ORR_OK;
}

/* ---- What is seen ---- */

enum mask { MASK_NONE, MASK_CAUSAL, MASK_ALL };

static enum mask mask_of(const struct orr__attention *shape, int64_t block) {
    int64_t query = shape->first + block, key = (query - shape->shift) % shape->total;
    key += key < 0 ? shape->total : 0;
    if (!shape->causal || key < query)
        return MASK_NONE;
    return key == query ? MASK_CAUSAL : MASK_ALL;
}

uint64_t orr__attention_twice_pairs(const struct orr__attention *shape) {
    uint64_t s = (uint64_t)shape->s, all = orr__times(2 * s, (uint64_t)shape->t), sum = 0;
    for (int64_t block = 0; block < shape->blocks; block++) {
        enum mask mask = mask_of(shape, block);
        if (all == UINT64_MAX)
            return all;
        sum += mask == MASK_ALL ? 0 : mask == MASK_CAUSAL ? all - orr__times(s, s) : all;
    }
    return sum;
}

int64_t orr__attention_seeing(const struct orr__attention *shape) {
    int64_t seeing = 0;
    for (int64_t block = 0; block < shape->blocks; block++)
        seeing += mask_of(shape, block) != MASK_ALL;
    return seeing;
}

/* Keys of a block that its query `query` sees: the first so many. */
static int64_t visible(const struct orr__attention *shape, enum mask mask, int64_t query) {
    return mask == MASK_CAUSAL ? query + shape->t - shape->s + 1 : shape->t;
}

/* ---- Memory ---- */

/* Scratch in the type of the arithmetic, f32 or f64. `q`, `grad`, `out`, `dq`: a piece of the
 * queries; `k`, `v`, `dk`, `dv`: a block of one key head; `p`, `ds`: scores. Those of the backward
 * pass are NULL in the forward pass. */
struct scratch {
    enum orr_dtype compute;
    char *q, *grad, *out, *dq, *k, *v, *dk, *dv, *p, *ds;
};

/* Divides one block among the parts; with NULL, only counts bytes. */
static size_t divide(const struct orr__attention *shape, bool backward, char *block,
                     struct scratch *scratch) {
    size_t size = orr_dtype_size(scratch->compute), used = 0;
    int64_t rows = shape->s < QUERY_ROWS ? shape->s : QUERY_ROWS;
    struct {
        char **part;
        int64_t count;
        bool backward;
    } parts[] = {
        {&scratch->q, rows * shape->d, false},     {&scratch->grad, rows * shape->dv, true},
        {&scratch->out, rows * shape->dv, false},  {&scratch->dq, rows * shape->d, true},
        {&scratch->k, shape->t * shape->d, false}, {&scratch->v, shape->t * shape->dv, false},
        {&scratch->dk, shape->t * shape->d, true}, {&scratch->dv, shape->t * shape->dv, true},
        {&scratch->p, rows * shape->t, false},     {&scratch->ds, rows * shape->t, true}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].backward && !backward)
            continue;
        *parts[i].part = block ? block + used : NULL;
        used += (size_t)parts[i].count * size;
    }
    return used;
}

/* NULL without memory; freed with orr_memory_free. */
static char *open_scratch(const struct orr_operator *op, const struct orr__attention *shape,
                          bool backward, enum orr_dtype dtype, const struct orr_memory *memory,
                          struct scratch *out_scratch, struct orr_error *error) {
    *out_scratch =
        (struct scratch){.compute = dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32};
    size_t bytes = divide(shape, backward, NULL, out_scratch) + 1;
    char *block = orr_memory_resize(memory, NULL, bytes);
    if (block)
        divide(shape, backward, block, out_scratch);
    else
        (void)orr__no_scratch(op, bytes, error);
    return block;
}

/* `count` elements of a view, from element `first` on, into scratch. */
static void load(const struct scratch *scratch, char *to, const struct orr_tensor_view *view,
                 int64_t first, int64_t count) {
    orr_dtype_convert(scratch->compute, to, view->dtype,
                      (const char *)view->data + (size_t)first * orr_dtype_size(view->dtype),
                      (size_t)count);
}

static void store(const struct scratch *scratch, const char *from,
                  const struct orr_tensor_view *view, int64_t first, int64_t count) {
    orr_dtype_convert(view->dtype, (char *)view->data + (size_t)first * orr_dtype_size(view->dtype),
                      scratch->compute, from, (size_t)count);
}

static void clear(const struct orr_tensor_view *view, int64_t first, int64_t count) {
    size_t size = orr_dtype_size(view->dtype);
    memset((char *)view->data + (size_t)first * size, 0, (size_t)count * size);
}

static void run_panel(const struct scratch *scratch, struct orr__panel panel) {
    if (scratch->compute == ORR_DTYPE_F64)
        orr__panel_f64(&panel);
    else
        orr__panel_f32(&panel);
}

/* rows x seen scores of queries against keys: a [rows, width] times b [seen, width] transposed. */
static void scores(const struct scratch *scratch, const char *a, const char *b, int64_t rows,
                   int64_t seen, int64_t width, char *c) {
    run_panel(scratch, (struct orr__panel){.transpose_b = true,
                                           .m = rows,
                                           .n = seen,
                                           .k = width,
                                           .a = a,
                                           .b = b,
                                           .lda = width,
                                           .ldb = width,
                                           .ldc = seen,
                                           .c = c});
}

/* c [rows, width] = weights [rows, seen] times b [seen, width]. */
static void mix(const struct scratch *scratch, const char *weights, const char *b, int64_t rows,
                int64_t seen, int64_t width, char *c) {
    run_panel(scratch, (struct orr__panel){.m = rows,
                                           .n = width,
                                           .k = seen,
                                           .a = weights,
                                           .b = b,
                                           .lda = seen,
                                           .ldb = width,
                                           .ldc = width,
                                           .c = c});
}

/* c [seen, width] += weights [rows, seen] transposed times b [rows, width]. */
static void add_mix(const struct scratch *scratch, const char *weights, const char *b, int64_t rows,
                    int64_t seen, int64_t width, char *c) {
    run_panel(scratch, (struct orr__panel){.transpose_a = true,
                                           .adds = true,
                                           .m = seen,
                                           .n = width,
                                           .k = rows,
                                           .a = weights,
                                           .b = b,
                                           .lda = seen,
                                           .ldb = width,
                                           .ldc = width,
                                           .c = c});
}

/* A piece of the queries of one head in one block: at most QUERY_ROWS of them. */
struct piece {
    int64_t first, rows; /* in the block */
    int64_t row;         /* of all rows of q, out, grad and lse */
    enum mask mask;
    int64_t seen; /* keys that the last of them sees */
};

static struct piece piece_of(const struct orr__attention *shape, int64_t head, int64_t block,
                             int64_t first) {
    int64_t rows = shape->s - first < QUERY_ROWS ? shape->s - first : QUERY_ROWS;
    enum mask mask = mask_of(shape, block);
    return (struct piece){.first = first,
                          .rows = rows,
                          .row = (head * shape->blocks + block) * shape->s + first,
                          .mask = mask,
                          .seen = visible(shape, mask, first + rows - 1)};
}

/* ---- Forward ---- */

/* Softmax of a row of scores, of which the first `count` of `seen` are visible; returns the
 * logarithm of its sum if that is asked for, else 0. */
#define SOFTMAX_ROW(suffix, type)                                                                  \
    static double softmax_row_##suffix(const struct orr__attention *shape, type *row,              \
                                       int64_t count, int64_t seen, bool wants_lse) {              \
        double largest = 0;                                                                        \
        type scale = (type)shape->scale;                                                           \
        if (wants_lse) {                                                                           \
            for (int64_t i = 0; i < count; i++)                                                    \
                row[i] *= scale;                                                                   \
            largest = orr__row_max_##suffix(row, count);                                           \
            scale = 1;                                                                             \
        }                                                                                          \
        double sum = orr__row_exp_##suffix(row, count, scale);                                     \
        divide_row_##suffix(row, count, sum);                                                      \
        for (int64_t i = count; i < seen; i++)                                                     \
            row[i] = 0;                                                                            \
        return wants_lse ? largest + log(sum) : 0;                                                 \
    }

static void divide_row_f32(float *row, int64_t count, double sum) {
    float factor = (float)(1 / sum);
    for (int64_t i = 0; i < count; i++)
        row[i] *= factor;
}

static void divide_row_f64(double *row, int64_t count, double sum) {
    for (int64_t i = 0; i < count; i++)
        row[i] /= sum;
}

SOFTMAX_ROW(f32, float)
SOFTMAX_ROW(f64, double)

/* One piece; q, k and v are in scratch. */
static void attend(const struct orr__attention *shape, const struct scratch *scratch,
                   const struct piece *piece, const struct orr_tensor_view *lse) {
    scores(scratch, scratch->q, scratch->k, piece->rows, piece->seen, shape->d, scratch->p);
    for (int64_t i = 0; i < piece->rows; i++) {
        int64_t count = visible(shape, piece->mask, piece->first + i), at = i * piece->seen;
        double sum;
        if (scratch->compute == ORR_DTYPE_F64)
            sum = softmax_row_f64(shape, (double *)(void *)scratch->p + at, count, piece->seen,
                                  lse != NULL);
        else
            sum = softmax_row_f32(shape, (float *)(void *)scratch->p + at, count, piece->seen,
                                  lse != NULL);
        if (lse)
            orr_dtype_store(lse->dtype, lse->data, (size_t)(piece->row + i), sum);
    }
    mix(scratch, scratch->p, scratch->v, piece->rows, piece->seen, shape->dv, scratch->out);
}

static void see_nothing(const struct orr__attention *shape, const struct piece *piece,
                        const struct orr_tensor_view *out, const struct orr_tensor_view *lse) {
    clear(out, piece->row * shape->dv, piece->rows * shape->dv);
    for (int64_t i = 0; lse && i < piece->rows; i++)
        orr_dtype_store(lse->dtype, lse->data, (size_t)(piece->row + i), -(double)INFINITY);
}

/* All queries of head `head` (counted over the batch) in a block. */
static void attend_head(const struct orr__attention *shape, const struct scratch *scratch,
                        const struct orr_tensor_view *q, const struct orr_tensor_view *out,
                        const struct orr_tensor_view *lse, int64_t head, int64_t block) {
    for (int64_t first = 0; first < shape->s; first += QUERY_ROWS) {
        struct piece piece = piece_of(shape, head, block, first);
        if (piece.mask == MASK_ALL) {
            see_nothing(shape, &piece, out, lse);
            continue;
        }
        load(scratch, scratch->q, q, piece.row * shape->d, piece.rows * shape->d);
        attend(shape, scratch, &piece, lse);
        store(scratch, scratch->out, out, piece.row * shape->dv, piece.rows * shape->dv);
    }
}

enum orr_status orr__attention_forward(const struct orr_operator *op,
                                       const struct orr__attention *shape,
                                       const struct orr_tensor_view *inputs,
                                       const struct orr_tensor_view *out,
                                       const struct orr_tensor_view *lse,
                                       const struct orr_memory *memory, struct orr_error *error) {
    struct scratch scratch;
    char *memory_block = open_scratch(op, shape, false, inputs[0].dtype, memory, &scratch, error);
    if (!memory_block)
        return ORR_NO_MEMORY;
    int64_t group = shape->h / shape->hkv, keys = shape->t * shape->d;
    int64_t values = shape->t * shape->dv;
    for (int64_t kv = 0; kv < shape->b * shape->hkv; kv++)
        for (int64_t block = 0; block < shape->blocks; block++) {
            int64_t at = kv * shape->blocks + block;
            load(&scratch, scratch.k, &inputs[1], at * keys, keys);
            load(&scratch, scratch.v, &inputs[2], at * values, values);
            /* Heads kv * group .. of the batch-flattened queries: h = hkv * group. */
            for (int64_t i = 0; i < group; i++)
                attend_head(shape, &scratch, &inputs[0], out, lse, kv * group + i, block);
        }
    orr_memory_free(memory, memory_block);
    return ORR_OK;
}

/* ---- Backward ---- */

enum { BACK_GRAD, BACK_Q, BACK_K, BACK_V, BACK_OUT };

/* P and dS of one row of scores; `grad` and `out` are the row's. `lse` is NULL where the row's own
 * sum is that of all keys. */
#define SCORE_ROW(suffix, type, exponential)                                                       \
    static void score_row_##suffix(const struct orr__attention *shape,                             \
                                   const struct scratch *scratch, int64_t row, int64_t seen,       \
                                   int64_t count, const double *lse) {                             \
        type *p = (type *)(void *)scratch->p + row * seen;                                         \
        type *ds = (type *)(void *)scratch->ds + row * seen;                                       \
        const type *grad = (const type *)(const void *)scratch->grad + row * shape->dv;            \
        const type *out = (const type *)(const void *)scratch->out + row * shape->dv;              \
        type factor = 1, scale = (type)shape->scale;                                               \
        if (lse)                                                                                   \
            for (int64_t i = 0; i < count; i++)                                                    \
                p[i] = exponential(p[i] * scale - (type)*lse);                                     \
        else                                                                                       \
            factor = (type)(1 / orr__row_exp_##suffix(p, count, scale));                           \
        double delta = 0;                                                                          \
        for (int64_t i = 0; i < shape->dv; i++)                                                    \
            delta += (double)grad[i] * (double)out[i];                                             \
        for (int64_t i = 0; i < count; i++) {                                                      \
            p[i] *= factor;                                                                        \
            ds[i] = p[i] * (ds[i] - (type)delta) * scale;                                          \
        }                                                                                          \
        for (int64_t i = count; i < seen; i++)                                                     \
            p[i] = ds[i] = 0;                                                                      \
    }
SCORE_ROW(f32, float, expf)
SCORE_ROW(f64, double, exp)

/* One piece, whose operands are in scratch: its dq, and what it adds to dk and dv. */
static void piece_backward(const struct orr__attention *shape, const struct scratch *scratch,
                           const struct piece *piece, const struct orr_tensor_view *lse) {
    scores(scratch, scratch->q, scratch->k, piece->rows, piece->seen, shape->d, scratch->p);
    scores(scratch, scratch->grad, scratch->v, piece->rows, piece->seen, shape->dv, scratch->ds);
    for (int64_t row = 0; row < piece->rows; row++) {
        int64_t count = visible(shape, piece->mask, piece->first + row);
        double sum = lse ? orr_dtype_load(lse->dtype, lse->data, (size_t)(piece->row + row)) : 0;
        if (scratch->compute == ORR_DTYPE_F64)
            score_row_f64(shape, scratch, row, piece->seen, count, lse ? &sum : NULL);
        else
            score_row_f32(shape, scratch, row, piece->seen, count, lse ? &sum : NULL);
    }
    mix(scratch, scratch->ds, scratch->k, piece->rows, piece->seen, shape->d, scratch->dq);
    add_mix(scratch, scratch->ds, scratch->q, piece->rows, piece->seen, shape->d, scratch->dk);
    add_mix(scratch, scratch->p, scratch->grad, piece->rows, piece->seen, shape->dv, scratch->dv);
}

/* All queries of head `head` (counted over the batch) in a block. */
static void head_backward(const struct orr__attention *shape, const struct scratch *scratch,
                          const struct orr_tensor_view *inputs, const struct orr_tensor_view *lse,
                          const struct orr_tensor_view *dq, int64_t head, int64_t block) {
    for (int64_t first = 0; first < shape->s; first += QUERY_ROWS) {
        struct piece piece = piece_of(shape, head, block, first);
        int64_t at = piece.row * shape->d, count = piece.rows * shape->d;
        int64_t at_v = piece.row * shape->dv, count_v = piece.rows * shape->dv;
        if (piece.mask == MASK_ALL) {
            clear(dq, at, count);
            continue;
        }
        load(scratch, scratch->q, &inputs[BACK_Q], at, count);
        load(scratch, scratch->grad, &inputs[BACK_GRAD], at_v, count_v);
        load(scratch, scratch->out, &inputs[BACK_OUT], at_v, count_v);
        piece_backward(shape, scratch, &piece, lse);
        store(scratch, scratch->dq, dq, at, count);
    }
}

enum orr_status orr__attention_backward(const struct orr_operator *op,
                                        const struct orr__attention *shape,
                                        const struct orr_tensor_view *inputs,
                                        const struct orr_tensor_view *lse,
                                        const struct orr_tensor_view *outputs,
                                        const struct orr_memory *memory, struct orr_error *error) {
    struct scratch scratch;
    char *memory_block = open_scratch(op, shape, true, inputs[0].dtype, memory, &scratch, error);
    if (!memory_block)
        return ORR_NO_MEMORY;
    int64_t group = shape->h / shape->hkv, keys = shape->t * shape->d;
    int64_t values = shape->t * shape->dv;
    size_t size = orr_dtype_size(scratch.compute);
    for (int64_t kv = 0; kv < shape->b * shape->hkv; kv++)
        for (int64_t block = 0; block < shape->blocks; block++) {
            int64_t at = kv * shape->blocks + block;
            load(&scratch, scratch.k, &inputs[BACK_K], at * keys, keys);
            load(&scratch, scratch.v, &inputs[BACK_V], at * values, values);
            memset(scratch.dk, 0, (size_t)keys * size);
            memset(scratch.dv, 0, (size_t)values * size);
            for (int64_t i = 0; i < group; i++)
                head_backward(shape, &scratch, inputs, lse, &outputs[0], kv * group + i, block);
            store(&scratch, scratch.dk, &outputs[1], at * keys, keys);
            store(&scratch, scratch.dv, &outputs[2], at * values, values);
        }
    orr_memory_free(memory, memory_block);
    return ORR_OK;
}
