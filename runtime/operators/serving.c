/* Attention over a cache of keys and values, for sequences of different lengths (Yu et al., "Orca",
 * 2022, batches such sequences; Kwon et al., "vLLM", 2023, is the same with smaller blocks).
 *
 *     kv_append    cache [n, h, capacity, d], new [b, h, s, d], positions [b], [slots [b]]: rows
 *                  positions[i] .. positions[i] + s - 1 of the cache's sequence slots[i] become
 *                  new's; a negative position leaves the sequence as it is
 *     sdpa_decode  q [b, h, s, d], k [n, hkv, capacity, d], v [n, hkv, capacity, dv], lengths [b],
 *                  [slots [b]]    scale=0 keys=0: query i of s sees keys 0 .. length - s + i, as
 *                  sdpa with `causal` over the first `length` keys, bit for bit; a length of 0
 *                  gives zeros
 *     rope_at      x [b, ..., s, d], positions [b]    theta=10000: rope with the offset
 *                  positions[i] for sequence i
 *
 * positions, lengths and slots are i32 or i64. Without slots, sequence i is the cache's i, and n is
 * b. A prompt is b = 1 with s rows and a slot; a decode step is s = 1 for all sequences that run.
 *
 * kv_append changes the cache in place: the result is the cache's memory, and the operand can't be
 * used any more (struct orr_operator's `in_place`).
 *
 * Cost. kv_append: the new rows once and their places in the cache once; no FLOPs. sdpa_decode: as
 * sdpa with causal, for as many keys as `keys` says that all sequences together have, because
 * lengths are data that nobody knows before the kernel runs; 0 means all of the capacity. A kernel
 * reads those keys and values once. It is only a cost: numbers don't depend on `keys`. rope_at: as
 * rope, and the positions. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"

static int64_t index_at(const struct orr_tensor_view *view, int64_t i) {
    return view->dtype == ORR_DTYPE_I32 ? ((const int32_t *)view->data)[i]
                                        : ((const int64_t *)view->data)[i];
}

/* Operands `first` and behind are [b] of i32 or i64. */
static enum orr_status check_indices(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs, int input_count,
                                     int first, int64_t b, struct orr_error *error) {
    for (int i = first; i < input_count; i++) {
        bool whole = inputs[i].dtype == ORR_DTYPE_I32 || inputs[i].dtype == ORR_DTYPE_I64;
        if (!whole || inputs[i].shape.rank != 1 || inputs[i].shape.dims[0] != b)
            return orr__refuse(op, inputs, input_count, error,
                               "expected %s [%" PRId64 "] of i32 or i64", op->input_names[i], b);
    }
    return ORR_OK;
}

/* The cache's sequence of batch element i; `slots` may be NULL. */
static enum orr_status slot_of(const struct orr_operator *op, const struct orr_tensor_view *slots,
                               int64_t i, int64_t sequences, int64_t *out_slot,
                               struct orr_error *error) {
    *out_slot = slots ? index_at(slots, i) : i;
    if (*out_slot >= 0 && *out_slot < sequences)
        return ORR_OK;
    return orr_error_set(error, ORR_INVALID,
                         "%s: slot %" PRId64 " of element %" PRId64 ", but the cache has %" PRId64
                         " sequences",
                         op->name, *out_slot, i, sequences);
}

/* The failure of an operator that works for this one: the message names both. */
static enum orr_status renamed(const struct orr_operator *op, enum orr_status status,
                               const struct orr_error *detail, struct orr_error *error) {
    return status == ORR_OK ? status
                            : orr_error_set(error, status, "%s: %s", op->name, detail->text);
}

/* ---- kv_append ---- */

enum { CACHE, NEW, POSITIONS, APPEND_SLOTS };

static enum orr_status infer_append(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_kv_append;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *cache = &inputs[CACHE].shape, *rows = &inputs[NEW].shape;
    if (cache->rank != 4 || rows->rank != 4 || inputs[NEW].dtype != inputs[CACHE].dtype ||
        cache->dims[1] != rows->dims[1] || cache->dims[3] != rows->dims[3])
        return orr__refuse(op, inputs, input_count, error,
                           "expected cache [n, h, capacity, d] and new [b, h, s, d] of one dtype");
    if (input_count <= APPEND_SLOTS && cache->dims[0] != rows->dims[0])
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " sequences for a cache of %" PRId64 ": slots are needed",
                           rows->dims[0], cache->dims[0]);
    if (rows->dims[2] > cache->dims[2])
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " rows don't fit a capacity of %" PRId64, rows->dims[2],
                           cache->dims[2]);
    status = check_indices(op, inputs, input_count, POSITIONS, rows->dims[0], error);
    if (status == ORR_OK)
        out_outputs[0] = inputs[CACHE];
    return status;
}

static struct orr_cost cost_append(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)attributes;
    (void)outputs;
    struct orr_cost cost = {
        .bytes_read = orr__bytes(&inputs[NEW]),
        .bytes_written = orr__bytes(&inputs[NEW]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = POSITIONS; i < input_count; i++)
        cost.bytes_broadcast += orr__bytes(&inputs[i]);
    return cost;
}

static enum orr_status check_rows(int64_t i, int64_t position, int64_t rows, int64_t capacity,
                                  struct orr_error *error) {
    if (position <= capacity - rows)
        return ORR_OK;
    return orr_error_set(error, ORR_INVALID,
                         "kv_append: rows %" PRId64 " .. %" PRId64 " of element %" PRId64
                         " in a cache of capacity %" PRId64,
                         position, position + rows - 1, i, capacity);
}

/* Everything is checked before the first row is written. */
static enum orr_status compute_append(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)attributes;
    (void)memory;
    const struct orr_tensor_view *slots = input_count > APPEND_SLOTS ? &inputs[APPEND_SLOTS] : NULL;
    const int64_t *cache = inputs[CACHE].shape.dims, *rows = inputs[NEW].shape.dims;
    size_t row_bytes = (size_t)cache[3] * orr_dtype_size(inputs[CACHE].dtype);
    int64_t slot;
    for (int64_t i = 0; i < rows[0]; i++) {
        int64_t position = index_at(&inputs[POSITIONS], i);
        enum orr_status status =
            slot_of(&orr__operator_kv_append, slots, i, cache[0], &slot, error);
        if (status == ORR_OK)
            status = check_rows(i, position, rows[2], cache[2], error);
        if (status != ORR_OK)
            return status;
    }
    if (outputs[0].data != inputs[CACHE].data)
        memcpy(outputs[0].data, inputs[CACHE].data,
               (size_t)orr__bytes(&(struct orr_operand_info){outputs[0].dtype, outputs[0].shape}));
    for (int64_t i = 0; i < rows[0]; i++) {
        int64_t position = index_at(&inputs[POSITIONS], i);
        (void)slot_of(&orr__operator_kv_append, slots, i, cache[0], &slot, error);
        for (int64_t head = 0; head < cache[1] && position >= 0; head++)
            memcpy((char *)outputs[0].data +
                       (size_t)((slot * cache[1] + head) * cache[2] + position) * row_bytes,
                   (const char *)inputs[NEW].data +
                       (size_t)((i * cache[1] + head) * rows[2]) * row_bytes,
                   (size_t)rows[2] * row_bytes);
    }
    return ORR_OK;
}

static const char *const append_names[] = {"cache", "new", "positions", "slots"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};

const struct orr_operator orr__operator_kv_append = {
    .name = "kv_append",
    .class = ORR_OPERATOR_UPDATE,
    .in_place = true,
    .inputs_min = 3,
    .inputs_max = 4,
    .outputs = 1,
    .input_names = append_names,
    .attributes = no_attributes,
    .infer = infer_append,
    .cost = cost_append,
    .compute = compute_append,
};

/* ---- sdpa_decode ---- */

enum { Q, K, V, LENGTHS, SLOTS };
enum { SCALE, KEYS };

static enum orr_status infer_decode(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_sdpa_decode;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *q = &inputs[Q].shape, *k = &inputs[K].shape, *v = &inputs[V].shape;
    bool floats = ORR__FLOATS >> inputs[Q].dtype & 1 && inputs[K].dtype == inputs[Q].dtype &&
                  inputs[V].dtype == inputs[Q].dtype;
    if (!floats || q->rank != 4 || k->rank != 4 || v->rank != 4 || k->dims[0] != v->dims[0] ||
        k->dims[1] != v->dims[1] || k->dims[2] != v->dims[2] || k->dims[3] != q->dims[3])
        return orr__refuse(op, inputs, input_count, error,
                           "expected q [b, h, s, d], k [n, hkv, capacity, d] and "
                           "v [n, hkv, capacity, dv] of floats");
    if (k->dims[1] < 1 || q->dims[1] % k->dims[1] || k->dims[3] < 1)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " query heads are not a multiple of %" PRId64
                           " key-value heads, or keys have no elements",
                           q->dims[1], k->dims[1]);
    if (input_count <= SLOTS && q->dims[0] != k->dims[0])
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " sequences for a cache of %" PRId64 ": slots are needed",
                           q->dims[0], k->dims[0]);
    if (k->dims[2] > INT32_MAX || k->dims[3] > INT32_MAX || v->dims[3] > INT32_MAX)
        return orr__refuse(op, inputs, input_count, error, "a dimension is larger than 2^31 - 1");
    if (attributes->values[KEYS].integer < 0)
        return orr__refuse(op, inputs, input_count, error, "keys is negative");
    status = check_indices(op, inputs, input_count, LENGTHS, q->dims[0], error);
    struct orr_operand_info result = inputs[Q];
    result.shape.dims[3] = v->dims[3];
    if (status == ORR_OK)
        status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

/* Pairs of a query and a key that it sees: s (length - (s - 1) / 2) for each sequence; the triangle
 * is counted as in sdpa, s^2 / 2. */
static struct orr_cost cost_decode(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    const int64_t *q = inputs[Q].shape.dims, *k = inputs[K].shape.dims;
    uint64_t keys = (uint64_t)attributes->values[KEYS].integer, s = (uint64_t)q[2];
    uint64_t most = orr__times((uint64_t)q[0], (uint64_t)k[2]);
    uint64_t width = (uint64_t)(k[3] + inputs[V].shape.dims[3]);
    keys = keys == 0 || keys > most ? most : keys;
    uint64_t twice_pairs = orr__times(2 * s, keys), masked = orr__times(s, s * (uint64_t)q[0]);
    twice_pairs -= masked < twice_pairs ? masked : twice_pairs / 2;
    struct orr_cost cost = {
        .flops = orr__times(orr__times((uint64_t)q[1], width), twice_pairs),
        .bytes_read = orr__bytes(&inputs[Q]) + orr__times(orr__times(keys, (uint64_t)k[1]), width) *
                                                   orr_dtype_size(inputs[K].dtype),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_MATRIX,
    };
    for (int i = LENGTHS; i < input_count; i++)
        cost.bytes_broadcast += orr__bytes(&inputs[i]);
    return cost;
}

/* A part of a view, [dims], from element `first`. */
static struct orr_tensor_view part(const struct orr_tensor_view *view, int64_t first, int64_t heads,
                                   int64_t rows) {
    const int64_t *dims = view->shape.dims;
    return (struct orr_tensor_view){.dtype = view->dtype,
                                    .shape = orr_shape_of(4, (int64_t[]){1, heads, rows, dims[3]}),
                                    .data = (char *)view->data +
                                            (size_t)first * orr_dtype_size(view->dtype)};
}

/* One sequence: sdpa of each key-value head with its group of query heads, over `length` keys. */
static enum orr_status attend(const struct orr_tensor_view *inputs,
                              const struct orr_tensor_view *out, int64_t i, int64_t slot,
                              int64_t length, double scale, const struct orr_memory *memory,
                              struct orr_error *error) {
    const int64_t *q = inputs[Q].shape.dims, *k = inputs[K].shape.dims, *v = inputs[V].shape.dims;
    const struct orr_operator *sdpa = &orr__operator_sdpa;
    int64_t group = q[1] / k[1];
    struct orr_error detail = {0};
    struct orr_attributes attributes;
    orr_operator_defaults(sdpa, &attributes);
    attributes.values[orr_operator_attribute(sdpa, "causal")].integer = 1;
    attributes.values[orr_operator_attribute(sdpa, "scale")].real = scale;
    for (int64_t head = 0; head < k[1]; head++) {
        int64_t row = (i * k[1] + head) * group * q[2], key = (slot * k[1] + head) * k[2];
        struct orr_tensor_view operands[3] = {part(&inputs[Q], row * q[3], group, q[2]),
                                              part(&inputs[K], key * k[3], 1, length),
                                              part(&inputs[V], key * v[3], 1, length)};
        struct orr_tensor_view result = part(out, row * v[3], group, q[2]);
        enum orr_status status = sdpa->compute(operands, 3, &attributes, &result, memory, &detail);
        if (status != ORR_OK)
            return renamed(&orr__operator_sdpa_decode, status, &detail, error);
    }
    return ORR_OK;
}

static enum orr_status compute_decode(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_sdpa_decode;
    const struct orr_tensor_view *slots = input_count > SLOTS ? &inputs[SLOTS] : NULL;
    const int64_t *q = inputs[Q].shape.dims, *k = inputs[K].shape.dims;
    size_t bytes =
        (size_t)(q[1] * q[2] * inputs[V].shape.dims[3]) * orr_dtype_size(inputs[Q].dtype);
    for (int64_t i = 0; i < q[0]; i++) {
        int64_t slot, length = index_at(&inputs[LENGTHS], i);
        enum orr_status status = slot_of(op, slots, i, k[0], &slot, error);
        if (status != ORR_OK)
            return status;
        if (length != 0 && (length < q[2] || length > k[2]))
            return orr_error_set(error, ORR_INVALID,
                                 "sdpa_decode: length %" PRId64 " of element %" PRId64
                                 ", expected 0 or %" PRId64 " queries .. %" PRId64 " keys",
                                 length, i, q[2], k[2]);
        if (length == 0)
            memset((char *)outputs[0].data + (size_t)i * bytes, 0, bytes);
        else
            status = attend(inputs, &outputs[0], i, slot, length, attributes->values[SCALE].real,
                            memory, error);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

static const char *const decode_names[] = {"q", "k", "v", "lengths", "slots"};
static const struct orr_attribute_spec decode_attributes[] = {
    [SCALE] = {.name = "scale", .kind = ORR_ATTRIBUTE_REAL}, /* 0: 1 / sqrt(d) */
    [KEYS] =
        {.name = "keys", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_SHARE, .of = Q, .dim = 0},
    {.name = NULL},
};

const struct orr_operator orr__operator_sdpa_decode = {
    .name = "sdpa_decode",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 4,
    .inputs_max = 5,
    .outputs = 1,
    .input_names = decode_names,
    .attributes = decode_attributes,
    .infer = infer_decode,
    .cost = cost_decode,
    .compute = compute_decode,
};

/* ---- rope_at ---- */

enum { ROPE_X, ROPE_POSITIONS };

/* rope's own attributes with the offset of one sequence. */
static struct orr_attributes rope_attributes_of(const struct orr_attributes *attributes,
                                                int64_t offset) {
    struct orr_attributes rope;
    orr_operator_defaults(&orr__operator_rope, &rope);
    rope.values[orr_operator_attribute(&orr__operator_rope, "theta")] = attributes->values[0];
    rope.values[orr_operator_attribute(&orr__operator_rope, "offset")].integer = offset;
    return rope;
}

static enum orr_status infer_rope(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_rope_at;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[ROPE_X].shape;
    if (!(ORR__FLOATS >> inputs[ROPE_X].dtype & 1) || x->rank < 3 || x->dims[x->rank - 1] % 2)
        return orr__refuse(op, inputs, input_count, error,
                           "expected x [b, ..., s, d] of floats with an even d");
    if (!(attributes->values[0].real > 0))
        return orr__refuse(op, inputs, input_count, error, "theta is %g, expected more than 0",
                           attributes->values[0].real);
    status = check_indices(op, inputs, input_count, ROPE_POSITIONS, x->dims[0], error);
    if (status == ORR_OK)
        out_outputs[0] = inputs[ROPE_X];
    return status;
}

static struct orr_cost cost_rope(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    (void)input_count;
    struct orr_attributes rope = rope_attributes_of(attributes, 0);
    struct orr_cost cost = orr__operator_rope.cost(inputs, 1, &rope, outputs);
    cost.bytes_broadcast += orr__bytes(&inputs[ROPE_POSITIONS]);
    return cost;
}

static enum orr_status compute_rope(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    const struct orr_tensor_view *x = &inputs[ROPE_X];
    struct orr_error detail = {0};
    struct orr_shape one = orr_shape_of(x->shape.rank - 1, &x->shape.dims[1]);
    size_t bytes = (size_t)orr_shape_count(&one) * orr_dtype_size(x->dtype);
    for (int64_t i = 0; i < x->shape.dims[0]; i++) {
        struct orr_attributes rope =
            rope_attributes_of(attributes, index_at(&inputs[ROPE_POSITIONS], i));
        struct orr_tensor_view from = {x->dtype, one, (char *)x->data + (size_t)i * bytes};
        struct orr_tensor_view result = {x->dtype, one,
                                         (char *)outputs[0].data + (size_t)i * bytes};
        enum orr_status status =
            orr__operator_rope.compute(&from, 1, &rope, &result, memory, &detail);
        if (status != ORR_OK)
            return renamed(&orr__operator_rope_at, status, &detail, error);
    }
    return ORR_OK;
}

static const char *const rope_names[] = {"x", "positions"};
static const struct orr_attribute_spec rope_attributes[] = {
    {.name = "theta", .kind = ORR_ATTRIBUTE_REAL, .real = 10000},
    {.name = NULL},
};

const struct orr_operator orr__operator_rope_at = {
    .name = "rope_at",
    .class = ORR_OPERATOR_ATTENTION,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = rope_names,
    .attributes = rope_attributes,
    .infer = infer_rope,
    .cost = cost_rope,
    .compute = compute_rope,
};
