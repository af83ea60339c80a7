/* Pieces of ring attention (Liu, Zaharia, Abbeel, "Ring Attention with Blockwise Transformers",
 * 2023): attention to one block of the keys at a time, and the sum of two such results by the
 * online softmax (Milakov, Gimelshein, 2018; Dao, "FlashAttention-2", 2023, section 3.1).
 *
 *     sdpa_block     q [b, h, s, d], k [b, hkv, t, d], v [b, hkv, t, dv] -> out [b, h, s, dv],
 *                    lse [b, h, s]    causal=false scale=0 blocks=1 shift=0
 *     sdpa_merge     out_a, lse_a, out_b, lse_b -> out, lse
 *     sdpa_block_backward    grad, q, k, v, out, lse -> dq, dk, dv    as sdpa_block; out and lse
 *                    are those of all blocks together
 *
 * The sequence is cut into `blocks` equal blocks, and queries of block r see keys of block r of the
 * operands, which are block (r - shift) mod blocks of the sequence: k and v were moved `shift`
 * blocks up the ring. With `causal`, positions in the sequence count, so that a block of later keys
 * is hidden as a whole: its result is 0, its lse -infinity, and it takes no time but for writing
 * them. lse is log(sum(exp(score))) in f32 (f64 for f64). Sharded along the sequence, each rank has
 * whole blocks.
 *
 *     merge: lse = log(exp(lse_a) + exp(lse_b)),
 *            out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b
 *
 * in f32 (f64 for f64); out has out_a's dtype, which may be wider than out_b's, so that a sum over
 * many blocks is not rounded to a narrow type every time.
 *
 * Cost.
 *   sdpa_block: 2 (d + dv) FLOPs for each pair of a query and a key that it sees, as sdpa; reads q,
 *   k and v of blocks that see something, writes out and lse.
 *   sdpa_block_backward: 2 (3 d + 2 dv) for each such pair, as sdpa_backward; reads all operands of
 *   those blocks, writes dq, dk and dv.
 *   sdpa_merge: 3 FLOPs for each element of out (two multiplications and an addition); what is done
 *   once a row is left out. Operands once, results once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/attention_internal.h"

enum { BLOCK_CAUSAL, BLOCK_SCALE, BLOCK_BLOCKS, BLOCK_SHIFT, BLOCK_START, BLOCK_WHOLE };

/* dtype of lse beside operands of `dtype`. */
static enum orr_dtype lse_dtype(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
}

/* Shapes of this rank's blocks; infer has checked that there are whole ones. */
static struct orr__attention blocks_of(const struct orr_shape *q, const struct orr_shape *k,
                                       const struct orr_shape *v,
                                       const struct orr_attributes *attributes) {
    const struct orr_attribute *values = attributes->values;
    struct orr__attention shape =
        orr__attention_of(q, k, v, values[BLOCK_CAUSAL].integer != 0, values[BLOCK_SCALE].real);
    int64_t whole = values[BLOCK_WHOLE].integer ? values[BLOCK_WHOLE].integer : shape.s;
    int64_t queries = whole / values[BLOCK_BLOCKS].integer; /* of one block */
    shape.total = values[BLOCK_BLOCKS].integer;
    shape.shift = values[BLOCK_SHIFT].integer;
    shape.blocks = queries ? shape.s / queries : shape.total;
    shape.first = queries ? values[BLOCK_START].integer / queries : 0;
    shape.s = queries;
    shape.t /= shape.blocks > 0 ? shape.blocks : 1;
    return shape;
}

/* Operands q, k, v at `at`: whole blocks, as many of keys as of queries. */
static enum orr_status check_blocks(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count, int at,
                                    const struct orr_attributes *attributes,
                                    struct orr_error *error) {
    enum orr_status status = orr__attention_check(op, inputs, input_count, at, error);
    if (status != ORR_OK)
        return status;
    const struct orr_attribute *values = attributes->values;
    int64_t blocks = values[BLOCK_BLOCKS].integer, s = inputs[at].shape.dims[2];
    int64_t t = inputs[at + 1].shape.dims[2];
    int64_t whole = values[BLOCK_WHOLE].integer ? values[BLOCK_WHOLE].integer : s;
    if (blocks < 1 || whole % blocks != 0)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " queries are not %" PRId64 " equal blocks", whole, blocks);
    struct orr__attention shape =
        blocks_of(&inputs[at].shape, &inputs[at + 1].shape, &inputs[at + 2].shape, attributes);
    if (shape.s * shape.blocks != s || shape.t * shape.blocks != t)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " queries and %" PRId64 " keys are not %" PRId64
                           " equal blocks each",
                           s, t, shape.blocks);
    if (shape.causal && shape.s != shape.t)
        return orr__refuse(op, inputs, input_count, error,
                           "causal: expected as many keys as queries, not %" PRId64 " and %" PRId64,
                           t, s);
    return ORR_OK;
}

static uint64_t pairs_times(const struct orr__attention *shape, uint64_t widths) {
    uint64_t heads = (uint64_t)shape->b * (uint64_t)shape->h;
    return orr__times(orr__times(heads, widths), orr__attention_twice_pairs(shape));
}

/* Bytes of operands, for the blocks that see something. */
static uint64_t bytes_seen(const struct orr__attention *shape,
                           const struct orr_operand_info *operands, int count) {
    uint64_t bytes = 0;
    for (int i = 0; i < count && shape->blocks > 0; i++)
        bytes += orr__bytes(&operands[i]) / (uint64_t)shape->blocks;
    return orr__times(bytes, (uint64_t)orr__attention_seeing(shape));
}

#define BLOCK_ATTRIBUTES(operand)                                                                  \
    {                                                                                              \
        [BLOCK_CAUSAL] = {.name = "causal", .kind = ORR_ATTRIBUTE_BOOL},                           \
        [BLOCK_SCALE] = {.name = "scale", .kind = ORR_ATTRIBUTE_REAL}, /* 0: 1 / sqrt(d) */        \
            [BLOCK_BLOCKS] = {.name = "blocks", .kind = ORR_ATTRIBUTE_INT, .integer = 1},          \
        [BLOCK_SHIFT] = {.name = "shift", .kind = ORR_ATTRIBUTE_INT},                              \
        [BLOCK_START] = {.name = "start",                                                          \
                         .kind = ORR_ATTRIBUTE_INT,                                                \
                         .local = ORR_LOCAL_START,                                                 \
                         .of = operand,                                                            \
                         .dim = 2},                                                                \
        [BLOCK_WHOLE] = {.name = "whole",                                                          \
                         .kind = ORR_ATTRIBUTE_INT,                                                \
                         .local = ORR_LOCAL_WHOLE,                                                 \
                         .of = operand,                                                            \
                         .dim = 2},                                                                \
        {.name = NULL},                                                                            \
    }

/* ---- sdpa_block ---- */

static enum orr_status infer_block(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_sdpa_block;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status == ORR_OK)
        status = check_blocks(op, inputs, input_count, 0, attributes, error);
    if (status != ORR_OK)
        return status;
    struct orr_operand_info out = inputs[0];
    out.shape.dims[3] = inputs[2].shape.dims[3];
    status = orr__check_result(op, inputs, input_count, &out, error);
    if (status != ORR_OK)
        return status;
    out_outputs[0] = out;
    out_outputs[1] = (struct orr_operand_info){.dtype = lse_dtype(inputs[0].dtype),
                                               .shape = orr_shape_of(3, inputs[0].shape.dims)};
    return orr__check_result(op, inputs, input_count, &out_outputs[1], error);
}

static struct orr_cost cost_block(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  const struct orr_operand_info *outputs) {
    struct orr__attention shape =
        blocks_of(&inputs[0].shape, &inputs[1].shape, &inputs[2].shape, attributes);
    return (struct orr_cost){
        .flops = pairs_times(&shape, (uint64_t)(shape.d + shape.dv)),
        .bytes_read = bytes_seen(&shape, inputs, input_count),
        .bytes_written = orr__bytes(&outputs[0]) + orr__bytes(&outputs[1]),
        .unit = ORR_UNIT_MATRIX,
    };
}

static enum orr_status compute_block(const struct orr_tensor_view *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_tensor_view *outputs,
                                     const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    if (orr_shape_count(&outputs[1].shape) == 0)
        return ORR_OK;
    struct orr__attention shape =
        blocks_of(&inputs[0].shape, &inputs[1].shape, &inputs[2].shape, attributes);
    return orr__attention_forward(&orr__operator_sdpa_block, &shape, inputs, &outputs[0],
                                  &outputs[1], memory, error);
}

static const char *const block_names[] = {"q", "k", "v"};
static const struct orr_attribute_spec block_attributes[] = BLOCK_ATTRIBUTES(0);

const struct orr_operator orr__operator_sdpa_block = {
    .name = "sdpa_block",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 3,
    .inputs_max = 3,
    .outputs = 2,
    .input_names = block_names,
    .attributes = block_attributes,
    .infer = infer_block,
    .cost = cost_block,
    .compute = compute_block,
};

/* ---- sdpa_block_backward ---- */

enum { BACK_GRAD, BACK_Q, BACK_K, BACK_V, BACK_OUT, BACK_LSE };

static enum orr_status infer_backward(const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      struct orr_operand_info *out_outputs,
                                      struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_sdpa_block_backward;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    enum orr_dtype dtype = inputs[BACK_Q].dtype;
    for (int i = 0; i < input_count; i++)
        if (inputs[i].dtype != (i == BACK_LSE ? lse_dtype(dtype) : dtype))
            return orr__refuse(op, inputs, input_count, error,
                               "expected operands of one dtype, and lse of %s",
                               orr_dtype_name(lse_dtype(dtype)));
    status = check_blocks(op, inputs, input_count, BACK_Q, attributes, error);
    if (status != ORR_OK)
        return status;
    struct orr_shape out = inputs[BACK_Q].shape;
    out.dims[3] = inputs[BACK_V].shape.dims[3];
    struct orr_shape lse = orr_shape_of(3, out.dims);
    if (!orr_shape_equal(&inputs[BACK_GRAD].shape, &out) ||
        !orr_shape_equal(&inputs[BACK_OUT].shape, &out) ||
        !orr_shape_equal(&inputs[BACK_LSE].shape, &lse)) {
        char text[ORR_SHAPE_TEXT_MAX], sums[ORR_SHAPE_TEXT_MAX];
        return orr__refuse(op, inputs, input_count, error,
                           "expected grad and out of shape %s and lse of shape %s",
                           orr_shape_text(&out, text), orr_shape_text(&lse, sums));
    }
    for (int i = 0; i < 3; i++)
        out_outputs[i] = inputs[BACK_Q + i];
    return ORR_OK;
}

static struct orr_cost cost_backward(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_operand_info *outputs) {
    struct orr__attention shape =
        blocks_of(&inputs[BACK_Q].shape, &inputs[BACK_K].shape, &inputs[BACK_V].shape, attributes);
    struct orr_cost cost = {
        .flops = pairs_times(&shape, 3 * (uint64_t)shape.d + 2 * (uint64_t)shape.dv),
        .bytes_read = bytes_seen(&shape, inputs, input_count),
        .unit = ORR_UNIT_MATRIX,
    };
    for (int i = 0; i < 3; i++)
        cost.bytes_written += orr__bytes(&outputs[i]);
    return cost;
}

static enum orr_status compute_backward(const struct orr_tensor_view *inputs, int input_count,
                                        const struct orr_attributes *attributes,
                                        const struct orr_tensor_view *outputs,
                                        const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    if (orr_shape_count(&inputs[BACK_GRAD].shape) == 0) {
        for (int i = 0; i < 3; i++)
            memset(outputs[i].data, 0,
                   (size_t)orr_shape_count(&outputs[i].shape) * orr_dtype_size(outputs[i].dtype));
        return ORR_OK;
    }
    struct orr__attention shape =
        blocks_of(&inputs[BACK_Q].shape, &inputs[BACK_K].shape, &inputs[BACK_V].shape, attributes);
    return orr__attention_backward(&orr__operator_sdpa_block_backward, &shape, inputs,
                                   &inputs[BACK_LSE], outputs, memory, error);
}

static const char *const backward_names[] = {"grad", "q", "k", "v", "out", "lse"};
static const struct orr_attribute_spec backward_attributes[] = BLOCK_ATTRIBUTES(BACK_Q);

const struct orr_operator orr__operator_sdpa_block_backward = {
    .name = "sdpa_block_backward",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 6,
    .inputs_max = 6,
    .outputs = 3,
    .input_names = backward_names,
    .attributes = backward_attributes,
    .infer = infer_backward,
    .cost = cost_backward,
    .compute = compute_backward,
};

/* ---- sdpa_merge ---- */

enum { MERGE_OUT_A, MERGE_LSE_A, MERGE_OUT_B, MERGE_LSE_B };
enum { PIECE = 256 }; /* elements converted at a time */

static enum orr_status infer_merge(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_sdpa_merge;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *out = &inputs[MERGE_OUT_A].shape;
    struct orr_shape lse = orr_shape_of(3, out->dims);
    if (out->rank != 4 || !orr_shape_equal(out, &inputs[MERGE_OUT_B].shape) ||
        !orr_shape_equal(&lse, &inputs[MERGE_LSE_A].shape) ||
        !orr_shape_equal(&lse, &inputs[MERGE_LSE_B].shape))
        return orr__refuse(op, inputs, input_count, error,
                           "expected out [b, h, s, dv] and lse [b, h, s] of both");
    enum orr_dtype sums = lse_dtype(inputs[MERGE_OUT_A].dtype);
    if (inputs[MERGE_LSE_A].dtype != sums || inputs[MERGE_LSE_B].dtype != sums)
        return orr__refuse(op, inputs, input_count, error, "expected lse of %s",
                           orr_dtype_name(sums));
    out_outputs[0] = inputs[MERGE_OUT_A];
    out_outputs[1] = inputs[MERGE_LSE_A];
    return ORR_OK;
}

static struct orr_cost cost_merge(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  const struct orr_operand_info *outputs) {
    (void)attributes;
    struct orr_cost cost = {
        .flops = orr__times(3, (uint64_t)orr_shape_count(&outputs[0].shape)),
        .bytes_written = orr__bytes(&outputs[0]) + orr__bytes(&outputs[1]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 0; i < input_count; i++)
        cost.bytes_read += orr__bytes(&inputs[i]);
    return cost;
}

/* Shares of both in a row, and its lse. */
struct shares {
    double a, b, lse;
};

static struct shares shares_of(double lse_a, double lse_b) {
    double largest = lse_a > lse_b || lse_a != lse_a ? lse_a : lse_b;
    if (largest == -(double)INFINITY)
        return (struct shares){0, 0, largest};
    double a = exp(lse_a - largest), b = exp(lse_b - largest);
    return (struct shares){a / (a + b), b / (a + b), largest + log(a + b)};
}

static void load_piece(const struct orr_tensor_view *view, int64_t first, int64_t count,
                       enum orr_dtype compute, void *to) {
    orr_dtype_convert(compute, to, view->dtype,
                      (const char *)view->data + (size_t)first * orr_dtype_size(view->dtype),
                      (size_t)count);
}

#define MERGE_PIECE(suffix, type)                                                                  \
    static void merge_piece_##suffix(const struct orr_tensor_view *inputs, int64_t first,          \
                                     int64_t count, const struct shares *shares,                   \
                                     enum orr_dtype compute, const struct orr_tensor_view *out) {  \
        type a[PIECE], b[PIECE], share_a = (type)shares->a, share_b = (type)shares->b;             \
        load_piece(&inputs[MERGE_OUT_A], first, count, compute, a);                                \
        load_piece(&inputs[MERGE_OUT_B], first, count, compute, b);                                \
        for (int64_t i = 0; i < count; i++)                                                        \
            a[i] = share_a * a[i] + share_b * b[i];                                                \
        orr_dtype_convert(out->dtype,                                                              \
                          (char *)out->data + (size_t)first * orr_dtype_size(out->dtype), compute, \
                          a, (size_t)count);                                                       \
    }
MERGE_PIECE(f32, float)
MERGE_PIECE(f64, double)

static enum orr_status compute_merge(const struct orr_tensor_view *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_tensor_view *outputs,
                                     const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)attributes;
    (void)memory;
    (void)error;
    enum orr_dtype compute = lse_dtype(inputs[MERGE_OUT_A].dtype);
    int64_t rows = orr_shape_count(&outputs[1].shape), width = outputs[0].shape.dims[3];
    for (int64_t row = 0; row < rows; row++) {
        struct shares shares =
            shares_of(orr_dtype_load(compute, inputs[MERGE_LSE_A].data, (size_t)row),
                      orr_dtype_load(compute, inputs[MERGE_LSE_B].data, (size_t)row));
        for (int64_t done = 0; done < width; done += PIECE) {
            int64_t count = width - done < PIECE ? width - done : PIECE;
            if (compute == ORR_DTYPE_F64)
                merge_piece_f64(inputs, row * width + done, count, &shares, compute, &outputs[0]);
            else
                merge_piece_f32(inputs, row * width + done, count, &shares, compute, &outputs[0]);
        }
        orr_dtype_store(compute, outputs[1].data, (size_t)row, shares.lse);
    }
    return ORR_OK;
}

static const char *const merge_names[] = {"out_a", "lse_a", "out_b", "lse_b"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};

const struct orr_operator orr__operator_sdpa_merge = {
    .name = "sdpa_merge",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 4,
    .inputs_max = 4,
    .outputs = 2,
    .input_names = merge_names,
    .attributes = no_attributes,
    .infer = infer_merge,
    .cost = cost_merge,
    .compute = compute_merge,
};
