/* gather_last, scatter_last and topk: elements of the last dimension by index.
 *
 *     gather_last     x [..., n], indices [..., k] -> [..., k]: x[..., indices[..., j]]
 *     scatter_last    grad [..., k], indices [..., k] -> [..., size]: the gradient of gather_last:
 *                     element i is the sum of those of grad whose index is i, zero without one
 *     topk            x [..., n] -> values, indices (i64) [..., k]: the k largest, in falling
 *                     order; of equal ones that with the lower index first; a NaN is the largest,
 *                     as for argmax
 *
 * With the last dimension of x, or of what scatter_last makes, sharded, a rank has the columns from
 * `first` on, of `whole`: gather_last has zeros for the others' (partial sums), scatter_last leaves
 * them out.
 *
 * Sums are taken in f64 in the order of the indices and rounded once.
 *
 * Cost.
 *   gather_last: no FLOPs; reads the indices and one element of x for each, writes the result.
 *   scatter_last: an addition for each element of grad; reads both, writes the whole result.
 *   topk: a comparison for each element of x, as max; putting the k that are found in order is left
 *   out, for k is small (2 to 8 experts). x once, both results once. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"

/* Which columns this rank has: shared by both operators' attributes. */
struct columns {
    int64_t first, here, whole;
};

static struct columns columns_of(const struct orr_attributes *attributes, int first, int64_t here) {
    int64_t whole = attributes->values[first + 1].integer;
    return (struct columns){attributes->values[first].integer, here, whole ? whole : here};
}

/* The operands' leading dimensions are equal and the second one holds indices. */
static enum orr_status check_pair(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count,
                                  unsigned dtypes, struct orr_error *error) {
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    if (!(dtypes >> inputs[0].dtype & 1u) || !orr__is_index(inputs[1].dtype))
        return orr__refuse(op, inputs, input_count, error,
                           "expected %s of %s and indices of i32 or i64", op->input_names[0],
                           dtypes == ORR__FLOATS ? "floats" : "numbers");
    struct orr_shape x = inputs[0].shape, indices = inputs[1].shape;
    if (x.rank < 1 || x.rank != indices.rank)
        return orr__refuse(op, inputs, input_count, error,
                           "expected %s [..., n] and indices [..., k] of as many dimensions",
                           op->input_names[0]);
    x.dims[x.rank - 1] = indices.dims[x.rank - 1];
    if (!orr_shape_equal(&x, &indices))
        return orr__refuse(op, inputs, input_count, error, "dimensions before the last one differ");
    return ORR_OK;
}

/* The index of a pair's element, checked; ORR_INVALID names it. */
static enum orr_status take_index(const struct orr_operator *op,
                                  const struct orr_tensor_view *inputs, int64_t at,
                                  const struct columns *columns, int64_t *out_index,
                                  struct orr_error *error) {
    *out_index = orr__load_index(&inputs[1], at);
    if (*out_index >= 0 && *out_index < columns->whole)
        return ORR_OK;
    struct orr_operand_info infos[2] = {orr__info(&inputs[0]), orr__info(&inputs[1])};
    return orr__refuse(op, infos, 2, error,
                       "index %" PRId64 " at position %" PRId64 ", expected 0 to %" PRId64,
                       *out_index, at, columns->whole - 1);
}

/* ---- gather_last ---- */

enum { GATHER_FIRST, GATHER_WHOLE };

static enum orr_status infer_gather(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    enum orr_status status =
        check_pair(&orr__operator_gather_last, inputs, input_count, ORR__NUMBERS, error);
    if (status == ORR_OK)
        out_outputs[0] =
            (struct orr_operand_info){.dtype = inputs[0].dtype, .shape = inputs[1].shape};
    return status;
}

static struct orr_cost cost_gather(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    uint64_t gathered = orr__bytes(&outputs[0]);
    return (struct orr_cost){
        .bytes_read = gathered + orr__bytes(&inputs[1]),
        .bytes_written = gathered,
        .unit = ORR_UNIT_VECTOR,
    };
}

static enum orr_status compute_gather(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    const struct orr_shape *x = &inputs[0].shape;
    int64_t count = orr_shape_count(&outputs[0].shape), k = outputs[0].shape.dims[x->rank - 1];
    struct columns columns = columns_of(attributes, GATHER_FIRST, x->dims[x->rank - 1]);
    size_t size = orr_dtype_size(inputs[0].dtype);
    for (int64_t i = 0; i < count; i++) {
        int64_t index;
        enum orr_status status =
            take_index(&orr__operator_gather_last, inputs, i, &columns, &index, error);
        if (status != ORR_OK)
            return status;
        char *to = (char *)outputs[0].data + (size_t)i * size;
        int64_t column = index - columns.first, from = i / k * columns.here + column;
        if (column >= 0 && column < columns.here)
            memcpy(to, (const char *)inputs[0].data + (size_t)from * size, size);
        else
            memset(to, 0, size);
    }
    return ORR_OK;
}

static const char *const gather_names[] = {"x", "indices"};
static const struct orr_attribute_spec gather_attributes[] = {
    [GATHER_FIRST] =
        {.name = "first", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_START, .of = 0, .dim = -1},
    [GATHER_WHOLE] =
        {.name = "whole", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_WHOLE, .of = 0, .dim = -1},
    {.name = NULL},
};

const struct orr_operator orr__operator_gather_last = {
    .name = "gather_last",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = gather_names,
    .attributes = gather_attributes,
    .infer = infer_gather,
    .cost = cost_gather,
    .compute = compute_gather,
};

/* ---- scatter_last ---- */

enum { SCATTER_SIZE, SCATTER_SHARDS, SCATTER_FIRST, SCATTER_WHOLE };

static enum orr_status infer_scatter(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     struct orr_operand_info *out_outputs,
                                     struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_scatter_last;
    int64_t size = attributes->values[SCATTER_SIZE].integer;
    enum orr_status status = check_pair(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    if (!orr_shape_equal(&inputs[0].shape, &inputs[1].shape))
        return orr__refuse(op, inputs, input_count, error, "expected equal shapes");
    if (size < 0)
        return orr__refuse(op, inputs, input_count, error,
                           "size is %" PRId64 ", expected 0 or more", size);
    struct orr_operand_info result = inputs[0];
    result.shape.dims[result.shape.rank - 1] = size;
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_scatter(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = (uint64_t)orr_shape_count(&inputs[0].shape),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* Adds one row of grad, elements first .. first + k - 1, to a row of sums. */
static enum orr_status scatter_row(const struct orr_tensor_view *inputs, int64_t first, int64_t k,
                                   const struct columns *columns, double *sums,
                                   struct orr_error *error) {
    for (int64_t i = first; i < first + k; i++) {
        int64_t index;
        enum orr_status status =
            take_index(&orr__operator_scatter_last, inputs, i, columns, &index, error);
        if (status != ORR_OK)
            return status;
        int64_t column = index - columns->first;
        if (column >= 0 && column < columns->here)
            sums[column] += orr_dtype_load(inputs[0].dtype, inputs[0].data, (size_t)i);
    }
    return ORR_OK;
}

static enum orr_status compute_scatter(const struct orr_tensor_view *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       const struct orr_tensor_view *outputs,
                                       const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    const struct orr_shape *grad = &inputs[0].shape, *result = &outputs[0].shape;
    int64_t rows = orr__dims_product(grad, 0, grad->rank - 1), k = grad->dims[grad->rank - 1];
    struct columns columns = columns_of(attributes, SCATTER_FIRST, result->dims[grad->rank - 1]);
    size_t bytes = (size_t)columns.here * sizeof(double) + 1;
    double *sums = orr_memory_resize(memory, NULL, bytes);
    if (!sums)
        return orr__no_scratch(&orr__operator_scatter_last, bytes, error);
    size_t row_bytes = (size_t)columns.here * orr_dtype_size(outputs[0].dtype);
    enum orr_status status = ORR_OK;
    for (int64_t row = 0; row < rows && status == ORR_OK; row++) {
        memset(sums, 0, (size_t)columns.here * sizeof *sums);
        status = scatter_row(inputs, row * k, k, &columns, sums, error);
        orr_dtype_convert(outputs[0].dtype, (char *)outputs[0].data + (size_t)row * row_bytes,
                          ORR_DTYPE_F64, sums, (size_t)columns.here);
    }
    orr_memory_free(memory, sums);
    return status;
}

static const char *const scatter_names[] = {"grad", "indices"};
static const struct orr_attribute_spec scatter_attributes[] = {
    [SCATTER_SIZE] = {.name = "size",
                      .kind = ORR_ATTRIBUTE_INT,
                      .required = true,
                      .local = ORR_LOCAL_PIECE,
                      .of = ORR_OF_RESULT,
                      .dim = -1},
    [SCATTER_SHARDS] = {.name = "shards", .kind = ORR_ATTRIBUTE_SHAPE},
    [SCATTER_FIRST] = {.name = "first",
                       .kind = ORR_ATTRIBUTE_INT,
                       .local = ORR_LOCAL_START,
                       .of = ORR_OF_RESULT,
                       .dim = -1},
    [SCATTER_WHOLE] = {.name = "whole",
                       .kind = ORR_ATTRIBUTE_INT,
                       .local = ORR_LOCAL_WHOLE,
                       .of = ORR_OF_RESULT,
                       .dim = -1},
    {.name = NULL},
};

const struct orr_operator orr__operator_scatter_last = {
    .name = "scatter_last",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = scatter_names,
    .attributes = scatter_attributes,
    .infer = infer_scatter,
    .cost = cost_scatter,
    .compute = compute_scatter,
};

/* ---- topk ---- */

enum { TOPK_K };

static enum orr_status infer_topk(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_topk;
    int64_t k = attributes->values[TOPK_K].integer;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    if (x->rank < 1)
        return orr__refuse(op, inputs, input_count, error, "expected at least 1 dimension");
    int64_t n = x->dims[x->rank - 1];
    if (k < 1 || k > n)
        return orr__refuse(op, inputs, input_count, error,
                           "k is %" PRId64 ", expected 1 to %" PRId64 ", the last dimension of x",
                           k, n);
    out_outputs[0] = inputs[0];
    out_outputs[0].shape.dims[x->rank - 1] = k;
    out_outputs[1] =
        (struct orr_operand_info){.dtype = ORR_DTYPE_I64, .shape = out_outputs[0].shape};
    return orr__check_result(op, inputs, input_count, &out_outputs[1], error);
}

static struct orr_cost cost_topk(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = (uint64_t)orr_shape_count(&inputs[0].shape),
        .bytes_read = orr__bytes(&inputs[0]),
        .bytes_written = orr__bytes(&outputs[0]) + orr__bytes(&outputs[1]),
        .unit = ORR_UNIT_VECTOR,
    };
}

static bool beats(double candidate, double other) {
    return other == other && (candidate != candidate || candidate > other);
}

/* The k largest so far, in falling order. */
struct best {
    double value;
    int64_t index;
};

/* A later element goes behind equal ones. */
static void insert(struct best *best, int64_t *count, int64_t k, double value, int64_t index) {
    if (*count == k && !beats(value, best[k - 1].value))
        return;
    int64_t at = *count < k ? (*count)++ : k - 1;
    for (; at > 0 && beats(value, best[at - 1].value); at--)
        best[at] = best[at - 1];
    best[at] = (struct best){value, index};
}

static enum orr_status compute_topk(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    const struct orr_shape *x = &inputs[0].shape;
    int64_t n = x->dims[x->rank - 1], rows = orr__dims_product(x, 0, x->rank - 1);
    int64_t k = attributes->values[TOPK_K].integer, *indices = outputs[1].data;
    size_t bytes = (size_t)k * sizeof(struct best), size = orr_dtype_size(inputs[0].dtype);
    struct best *best = orr_memory_resize(memory, NULL, bytes);
    if (!best)
        return orr__no_scratch(&orr__operator_topk, bytes, error);
    for (int64_t row = 0; row < rows; row++) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            insert(best, &count, k,
                   orr_dtype_load(inputs[0].dtype, inputs[0].data, (size_t)(row * n + i)), i);
        for (int64_t j = 0; j < k; j++) {
            int64_t from = row * n + best[j].index;
            memcpy((char *)outputs[0].data + (size_t)(row * k + j) * size,
                   (const char *)inputs[0].data + (size_t)from * size, size);
            indices[row * k + j] = best[j].index;
        }
    }
    orr_memory_free(memory, best);
    return ORR_OK;
}

static const char *const topk_names[] = {"x"};
static const struct orr_attribute_spec topk_attributes[] = {
    [TOPK_K] = {.name = "k", .kind = ORR_ATTRIBUTE_INT, .required = true},
    {.name = NULL},
};

const struct orr_operator orr__operator_topk = {
    .name = "topk",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 2,
    .input_names = topk_names,
    .attributes = topk_attributes,
    .infer = infer_topk,
    .cost = cost_topk,
    .compute = compute_topk,
};
