/* embedding and cross_entropy: which elements are read depends on the indices' values.
 *
 * Cost.
 *   embedding: no FLOPs; reads the indices and one row of weight for each, not the whole table;
 *   writes the result.
 *   cross_entropy: 4 FLOPs for each logit (maximum, subtract, exp, add; one pass over a row); what
 *   is done once a row is left out. Reads logits and targets once, writes one number. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/rows_internal.h"

/* ---- embedding ---- */

/* Of a weight whose rows are sharded: which of how many this rank has. */
enum { EMBEDDING_FIRST, EMBEDDING_WHOLE };

static enum orr_status infer_embedding(const struct orr_operand_info *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       struct orr_operand_info *out_outputs,
                                       struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_embedding;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    if (!orr__is_index(inputs[0].dtype) || !orr_dtype_is_float(inputs[1].dtype))
        return orr__refuse(op, inputs, input_count, error,
                           "expected indices of i32 or i64 and a weight of floats");
    const struct orr_shape *indices = &inputs[0].shape;
    if (inputs[1].shape.rank != 2 || indices->rank == ORR_RANK_MAX)
        return orr__refuse(op, inputs, input_count, error,
                           "expected weight [rows, width] and indices of at most %d dimensions",
                           ORR_RANK_MAX - 1);
    struct orr_operand_info result = {.dtype = inputs[1].dtype, .shape = *indices};
    result.shape.dims[result.shape.rank++] = inputs[1].shape.dims[1];
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_embedding(const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    uint64_t rows = orr__bytes(&outputs[0]); /* as many bytes are gathered as written */
    return (struct orr_cost){
        .bytes_read = rows + orr__bytes(&inputs[0]),
        .bytes_written = rows,
        .unit = ORR_UNIT_VECTOR,
    };
}

static enum orr_status compute_embedding(const struct orr_tensor_view *inputs, int input_count,
                                         const struct orr_attributes *attributes,
                                         const struct orr_tensor_view *outputs,
                                         const struct orr_memory *memory, struct orr_error *error) {
    (void)memory;
    int64_t count = orr_shape_count(&inputs[0].shape), here = inputs[1].shape.dims[0];
    int64_t first = attributes->values[EMBEDDING_FIRST].integer;
    int64_t whole = attributes->values[EMBEDDING_WHOLE].integer, rows = whole ? whole : here;
    size_t row_size = (size_t)inputs[1].shape.dims[1] * orr_dtype_size(inputs[1].dtype);
    const char *weight = inputs[1].data;
    char *to = outputs[0].data;
    for (int64_t i = 0; i < count; i++) {
        int64_t index = orr__load_index(&inputs[0], i);
        if (index < 0 || index >= rows) {
            struct orr_operand_info infos[2] = {orr__info(&inputs[0]), orr__info(&inputs[1])};
            return orr__refuse(&orr__operator_embedding, infos, input_count, error,
                               "index %" PRId64 " at position %" PRId64
                               " is not a row of weight, expected 0 to %" PRId64,
                               index, i, rows - 1);
        }
        bool is_here = index >= first && index - first < here;
        if (is_here && row_size > 0)
            memcpy(to + (size_t)i * row_size, weight + (size_t)(index - first) * row_size,
                   row_size);
        else if (row_size > 0) /* another rank has that row */
            memset(to + (size_t)i * row_size, 0, row_size);
    }
    return ORR_OK;
}

static const char *const embedding_names[] = {"indices", "weight"};
static const struct orr_attribute_spec embedding_attributes[] = {
    [EMBEDDING_FIRST] =
        {.name = "first", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_START, .of = 1, .dim = 0},
    [EMBEDDING_WHOLE] =
        {.name = "whole", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_WHOLE, .of = 1, .dim = 0},
    {.name = NULL},
};

const struct orr_operator orr__operator_embedding = {
    .name = "embedding",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = embedding_names,
    .attributes = embedding_attributes,
    .infer = infer_embedding,
    .cost = cost_embedding,
    .compute = compute_embedding,
};

/* ---- cross_entropy: the mean over rows of log(sum(exp(logits))) - logits[target] ----
 *
 * The last dimension of logits has the classes, all others count rows, and have targets.
 *
 * With the attribute `total` the sum is divided by that: a piece of the rows gives its part of the
 * mean over all of them. */

static enum orr_status infer_cross_entropy(const struct orr_operand_info *inputs, int input_count,
                                           const struct orr_attributes *attributes,
                                           struct orr_operand_info *out_outputs,
                                           struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_cross_entropy;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *logits = &inputs[0].shape, *targets = &inputs[1].shape;
    if (!orr_dtype_is_float(inputs[0].dtype) || !orr__is_index(inputs[1].dtype))
        return orr__refuse(op, inputs, input_count, error,
                           "expected logits of floats and targets of i64 or i32");
    struct orr_shape rows = *logits;
    rows.rank--;
    if (rows.rank < 1 || !orr_shape_equal(&rows, targets))
        return orr__refuse(op, inputs, input_count, error,
                           "expected logits [..., classes] and targets [...]");
    if (orr_shape_count(targets) == 0 && attributes->values[0].integer == 0)
        return orr__refuse(op, inputs, input_count, error, "the mean of no rows is undefined");
    if (attributes->values[0].integer < 0)
        return orr__refuse(op, inputs, input_count, error,
                           "total is %" PRId64 ", expected 0 or more",
                           attributes->values[0].integer);
    bool is_f64 = inputs[0].dtype == ORR_DTYPE_F64;
    out_outputs[0] = (struct orr_operand_info){.dtype = is_f64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32};
    return ORR_OK;
}

static struct orr_cost cost_cross_entropy(const struct orr_operand_info *inputs, int input_count,
                                          const struct orr_attributes *attributes,
                                          const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .flops = orr__times(4, (uint64_t)orr_shape_count(&inputs[0].shape)),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* The loss of a row of f32 or f64; the row is overwritten. */
static double row_loss(enum orr_dtype compute, void *row, int64_t classes, int64_t target) {
    if (compute == ORR_DTYPE_F64) {
        double *values = row, own = values[target], largest = orr__row_max_f64(values, classes);
        return log(orr__row_exp_f64(values, classes, 1)) + largest - own;
    }
    float *values = row;
    double own = values[target], largest = orr__row_max_f32(values, classes);
    return log(orr__row_exp_f32(values, classes, 1)) + largest - own;
}

static enum orr_status check_targets(const struct orr_tensor_view *inputs, int input_count,
                                     struct orr_error *error) {
    int64_t n = orr_shape_count(&inputs[1].shape), classes = orr__row_length(&inputs[0].shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t target = orr__load_index(&inputs[1], i);
        if (target >= 0 && target < classes)
            continue;
        struct orr_operand_info infos[2] = {orr__info(&inputs[0]), orr__info(&inputs[1])};
        return orr__refuse(&orr__operator_cross_entropy, infos, input_count, error,
                           "target %" PRId64 " at position %" PRId64
                           " is not a class, expected 0 to %" PRId64,
                           target, i, classes - 1);
    }
    return ORR_OK;
}

static enum orr_status compute_cross_entropy(const struct orr_tensor_view *inputs, int input_count,
                                             const struct orr_attributes *attributes,
                                             const struct orr_tensor_view *outputs,
                                             const struct orr_memory *memory,
                                             struct orr_error *error) {
    enum orr_status status = check_targets(inputs, input_count, error);
    if (status != ORR_OK)
        return status;
    int64_t n = orr_shape_count(&inputs[1].shape), classes = orr__row_length(&inputs[0].shape);
    enum orr_dtype compute = outputs[0].dtype; /* f64 for f64, else f32 */
    size_t bytes = (size_t)classes * orr_dtype_size(compute);
    void *row = orr_memory_resize(memory, NULL, bytes);
    if (!row)
        return orr__no_scratch(&orr__operator_cross_entropy, bytes, error);
    size_t row_size = (size_t)classes * orr_dtype_size(inputs[0].dtype);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *from = (const char *)inputs[0].data + (size_t)i * row_size;
        orr_dtype_convert(compute, row, inputs[0].dtype, from, (size_t)classes);
        sum += row_loss(compute, row, classes, orr__load_index(&inputs[1], i));
    }
    int64_t total = attributes->values[0].integer ? attributes->values[0].integer : n;
    orr_dtype_store(outputs[0].dtype, outputs[0].data, 0, sum / (double)total);
    orr_memory_free(memory, row);
    return ORR_OK;
}

static const char *const cross_entropy_names[] = {"logits", "targets"};
static const struct orr_attribute_spec cross_entropy_attributes[] = {
    {.name = "total", .kind = ORR_ATTRIBUTE_INT},
    {.name = NULL},
};

const struct orr_operator orr__operator_cross_entropy = {
    .name = "cross_entropy",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = cross_entropy_names,
    .attributes = cross_entropy_attributes,
    .infer = infer_cross_entropy,
    .cost = cost_cross_entropy,
    .compute = compute_cross_entropy,
};
