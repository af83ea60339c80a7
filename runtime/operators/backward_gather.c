/* Gradients of embedding and cross_entropy.
 *
 *     embedding_backward      grad [..., width], indices [...]    rows: the table's; row r is the
 *                             sum of grad's rows whose index is r (scatter-add), zeros without one.
 *                             A rank that is to have some of the rows only (`shards`, as expand's)
 *                             leaves out the others
 *     cross_entropy_backward  grad [], logits [..., classes], targets [...], [lse [...]]    total:
 *                             the divisor of the mean, the number of rows if all are here:
 *                             grad / total * (softmax(logits) - one hot target)
 *                             lse, log(sum(exp(logits))) of each row, takes the place of a pass
 *                             over it, and lets the classes be sharded
 *
 * A row of the table's gradient is added in f64 in the order of the indices, so that the result
 * does not depend on threads; the real kernels add atomically.
 *
 * Cost.
 *   embedding_backward: an addition for each element of grad. Reads grad and the indices once,
 *   writes the whole table's gradient, zeros too: it is dense, as in PyTorch without sparse=True.
 *   cross_entropy_backward: 6 FLOPs for each logit: the forward pass's 4 for softmax (maximum,
 *   subtract, exp, add), and two multiplications (by 1 / sum and by grad / total); with lse 3:
 *   subtract, exp, multiply. Reads logits, targets and lse once, writes their gradient once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/rows_internal.h"

/* ---- embedding_backward ---- */

enum { EMBEDDING_ROWS, EMBEDDING_SHARDS, EMBEDDING_FIRST, EMBEDDING_WHOLE };

static enum orr_status infer_embedding(const struct orr_operand_info *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       struct orr_operand_info *out_outputs,
                                       struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_embedding_backward;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    if (!orr_dtype_is_float(inputs[0].dtype) || !orr__is_index(inputs[1].dtype))
        return orr__refuse(op, inputs, input_count, error,
                           "expected grad of floats and indices of i32 or i64");
    const struct orr_shape *grad = &inputs[0].shape, *indices = &inputs[1].shape;
    struct orr_shape outer = *grad;
    outer.rank--;
    if (grad->rank < 1 || !orr_shape_equal(&outer, indices))
        return orr__refuse(op, inputs, input_count, error,
                           "expected grad [..., width] and indices [...]");
    int64_t rows = attributes->values[EMBEDDING_ROWS].integer;
    if (rows < 0)
        return orr__refuse(op, inputs, input_count, error,
                           "rows is %" PRId64 ", expected 0 or more", rows);
    struct orr_operand_info result = {
        .dtype = inputs[0].dtype,
        .shape = orr_shape_of(2, (int64_t[]){rows, grad->dims[grad->rank - 1]})};
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
    return (struct orr_cost){
        .flops = (uint64_t)orr_shape_count(&inputs[0].shape),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[1]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* Positions by row of the table: first[r] is the first position whose index is r, next[i] the one
 * after position i; -1 ends. The chains go upwards because they are built from the end. */
struct chains {
    int64_t *first, *next;
    double *sum; /* of one row */
};

static enum orr_status build_chains(const struct orr_tensor_view *inputs, int64_t here,
                                    const struct orr_attributes *attributes,
                                    const struct chains *chains, struct orr_error *error) {
    int64_t count = orr_shape_count(&inputs[1].shape);
    int64_t first = attributes->values[EMBEDDING_FIRST].integer;
    int64_t whole = attributes->values[EMBEDDING_WHOLE].integer, rows = whole ? whole : here;
    for (int64_t row = 0; row < here; row++)
        chains->first[row] = -1;
    for (int64_t i = count - 1; i >= 0; i--) {
        int64_t index = orr__load_index(&inputs[1], i);
        if (index < 0 || index >= rows) {
            struct orr_operand_info infos[2] = {orr__info(&inputs[0]), orr__info(&inputs[1])};
            return orr__refuse(&orr__operator_embedding_backward, infos, 2, error,
                               "index %" PRId64 " at position %" PRId64
                               " is not a row, expected 0 to %" PRId64,
                               index, i, rows - 1);
        }
        if (index < first || index - first >= here) /* another rank has that row */
            continue;
        chains->next[i] = chains->first[index - first];
        chains->first[index - first] = i;
    }
    return ORR_OK;
}

/* Adds grad's rows of one chain. */
static void sum_chain(const struct orr_tensor_view *grad, const struct chains *chains, int64_t from,
                      int64_t width, const struct orr_tensor_view *output, int64_t row) {
    size_t row_bytes = (size_t)width * orr_dtype_size(grad->dtype);
    double *sum = chains->sum, *values = sum + width;
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t i = from; i >= 0; i = chains->next[i]) {
        orr_dtype_convert(ORR_DTYPE_F64, values, grad->dtype,
                          (const char *)grad->data + (size_t)i * row_bytes, (size_t)width);
        for (int64_t j = 0; j < width; j++)
            sum[j] += values[j];
    }
    orr_dtype_convert(output->dtype, (char *)output->data + (size_t)row * row_bytes, ORR_DTYPE_F64,
                      sum, (size_t)width);
}

static enum orr_status compute_embedding(const struct orr_tensor_view *inputs, int input_count,
                                         const struct orr_attributes *attributes,
                                         const struct orr_tensor_view *outputs,
                                         const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    int64_t rows = outputs[0].shape.dims[0], width = outputs[0].shape.dims[1];
    int64_t count = orr_shape_count(&inputs[1].shape);
    size_t bytes = (size_t)(rows + count + 2 * width + 1) * sizeof(int64_t);
    int64_t *scratch = orr_memory_resize(memory, NULL, bytes);
    if (!scratch)
        return orr__no_scratch(&orr__operator_embedding_backward, bytes, error);
    struct chains chains = {.first = scratch,
                            .next = scratch + rows,
                            .sum = (double *)(void *)(scratch + rows + count)};
    enum orr_status status = build_chains(inputs, rows, attributes, &chains, error);
    size_t row_bytes = (size_t)width * orr_dtype_size(outputs[0].dtype);
    for (int64_t row = 0; status == ORR_OK && width > 0 && row < rows; row++) {
        if (chains.first[row] < 0)
            memset((char *)outputs[0].data + (size_t)row * row_bytes, 0, row_bytes);
        else
            sum_chain(&inputs[0], &chains, chains.first[row], width, &outputs[0], row);
    }
    orr_memory_free(memory, scratch);
    return status;
}

static const char *const embedding_names[] = {"grad", "indices"};
static const struct orr_attribute_spec embedding_attributes[] = {
    [EMBEDDING_ROWS] = {.name = "rows",
                        .kind = ORR_ATTRIBUTE_INT,
                        .required = true,
                        .local = ORR_LOCAL_PIECE,
                        .of = ORR_OF_RESULT,
                        .dim = 0},
    [EMBEDDING_SHARDS] = {.name = "shards", .kind = ORR_ATTRIBUTE_SHAPE},
    [EMBEDDING_FIRST] = {.name = "first",
                         .kind = ORR_ATTRIBUTE_INT,
                         .local = ORR_LOCAL_START,
                         .of = ORR_OF_RESULT,
                         .dim = 0},
    [EMBEDDING_WHOLE] = {.name = "whole",
                         .kind = ORR_ATTRIBUTE_INT,
                         .local = ORR_LOCAL_WHOLE,
                         .of = ORR_OF_RESULT,
                         .dim = 0},
    {.name = NULL},
};

const struct orr_operator orr__operator_embedding_backward = {
    .name = "embedding_backward",
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

/* ---- cross_entropy_backward ---- */

/* Of sharded classes: which of how many this rank has. */
enum { LOSS_TOTAL, LOSS_FIRST, LOSS_WHOLE };

static enum orr_status infer_cross_entropy(const struct orr_operand_info *inputs, int input_count,
                                           const struct orr_attributes *attributes,
                                           struct orr_operand_info *out_outputs,
                                           struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_cross_entropy_backward;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    struct orr_error detail = {0};
    struct orr_operand_info loss;
    if (orr__operator_cross_entropy.infer(&inputs[1], 2, attributes, &loss, &detail) != ORR_OK)
        return orr__refuse(op, inputs, input_count, error, "%s", detail.text);
    if (inputs[0].dtype != loss.dtype || inputs[0].shape.rank != 0)
        return orr__refuse(op, inputs, input_count, error, "expected grad [] of %s",
                           orr_dtype_name(loss.dtype));
    bool has_lse = input_count == 4;
    if (has_lse &&
        (inputs[3].dtype != loss.dtype || !orr_shape_equal(&inputs[3].shape, &inputs[2].shape)))
        return orr__refuse(op, inputs, input_count, error, "expected lse of %s, of targets' shape",
                           orr_dtype_name(loss.dtype));
    if (attributes->values[LOSS_WHOLE].integer != 0 && !has_lse)
        return orr__refuse(op, inputs, input_count, error, "sharded classes need lse");
    if (attributes->values[0].integer < 1)
        return orr__refuse(op, inputs, input_count, error,
                           "total is %" PRId64 ", expected 1 or more",
                           attributes->values[0].integer);
    out_outputs[0] = inputs[1];
    return ORR_OK;
}

static struct orr_cost cost_cross_entropy(const struct orr_operand_info *inputs, int input_count,
                                          const struct orr_attributes *attributes,
                                          const struct orr_operand_info *outputs) {
    (void)attributes;
    bool has_lse = input_count == 4;
    return (struct orr_cost){
        .flops = orr__times(has_lse ? 3 : 6, (uint64_t)orr_shape_count(&inputs[1].shape)),
        .bytes_read = orr__bytes(&inputs[1]) + orr__bytes(&inputs[2]) +
                      (has_lse ? orr__bytes(&inputs[3]) : 0),
        .bytes_written = orr__bytes(&outputs[0]),
        .bytes_broadcast = orr__bytes(&inputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* `target` is below 0 where another rank has it; `lse` may be NULL. */
#define LOSS_ROW(suffix, type, exponential)                                                        \
    static void loss_row_##suffix(type *row, int64_t classes, int64_t target, const double *lse,   \
                                  double factor) {                                                 \
        type scale = (type)factor;                                                                 \
        if (lse)                                                                                   \
            for (int64_t i = 0; i < classes; i++)                                                  \
                row[i] = exponential(row[i] - (type)*lse);                                         \
        else                                                                                       \
            scale = (type)(factor / orr__row_exp_##suffix(row, classes, 1));                       \
        for (int64_t i = 0; i < classes; i++)                                                      \
            row[i] *= scale;                                                                       \
        if (target >= 0)                                                                           \
            row[target] -= (type)factor;                                                           \
    }
LOSS_ROW(f32, float, expf)
LOSS_ROW(f64, double, exp)

static enum orr_status refuse_target(const struct orr_tensor_view *inputs, int64_t target,
                                     int64_t at, int64_t classes, struct orr_error *error) {
    struct orr_operand_info infos[3] = {orr__info(&inputs[0]), orr__info(&inputs[1]),
                                        orr__info(&inputs[2])};
    return orr__refuse(&orr__operator_cross_entropy_backward, infos, 3, error,
                       "target %" PRId64 " at position %" PRId64
                       " is not a class, expected 0 to %" PRId64,
                       target, at, classes - 1);
}

static enum orr_status compute_cross_entropy(const struct orr_tensor_view *inputs, int input_count,
                                             const struct orr_attributes *attributes,
                                             const struct orr_tensor_view *outputs,
                                             const struct orr_memory *memory,
                                             struct orr_error *error) {
    int64_t n = orr_shape_count(&inputs[2].shape), classes = orr__row_length(&inputs[1].shape);
    int64_t first = attributes->values[LOSS_FIRST].integer;
    int64_t whole =
        attributes->values[LOSS_WHOLE].integer ? attributes->values[LOSS_WHOLE].integer : classes;
    double total = (double)attributes->values[0].integer;
    enum orr_dtype compute = inputs[0].dtype, dtype = inputs[1].dtype;
    double factor = orr_dtype_load(compute, inputs[0].data, 0) / total;
    size_t bytes = (size_t)classes * orr_dtype_size(compute) + 1;
    size_t row_bytes = (size_t)classes * orr_dtype_size(dtype);
    void *row = orr_memory_resize(memory, NULL, bytes);
    if (!row)
        return orr__no_scratch(&orr__operator_cross_entropy_backward, bytes, error);
    enum orr_status status = ORR_OK;
    for (int64_t i = 0; i < n && status == ORR_OK; i++) {
        int64_t target = orr__load_index(&inputs[2], i);
        if (target < 0 || target >= whole) {
            status = refuse_target(inputs, target, i, whole, error);
            break;
        }
        double sum = input_count == 4 ? orr_dtype_load(compute, inputs[3].data, (size_t)i) : 0;
        const double *lse = input_count == 4 ? &sum : NULL;
        target -= first;
        target = target < classes ? target : -1;
        const char *from = (const char *)inputs[1].data + (size_t)i * row_bytes;
        orr_dtype_convert(compute, row, dtype, from, (size_t)classes);
        if (compute == ORR_DTYPE_F64)
            loss_row_f64(row, classes, target, lse, factor);
        else
            loss_row_f32(row, classes, target, lse, factor);
        orr_dtype_convert(dtype, (char *)outputs[0].data + (size_t)i * row_bytes, compute, row,
                          (size_t)classes);
    }
    orr_memory_free(memory, row);
    return status;
}

static const char *const cross_entropy_names[] = {"grad", "logits", "targets", "lse"};
static const struct orr_attribute_spec cross_entropy_attributes[] = {
    [LOSS_TOTAL] = {.name = "total", .kind = ORR_ATTRIBUTE_INT, .required = true},
    [LOSS_FIRST] =
        {.name = "first", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_START, .of = 1, .dim = -1},
    [LOSS_WHOLE] =
        {.name = "whole", .kind = ORR_ATTRIBUTE_INT, .local = ORR_LOCAL_WHOLE, .of = 1, .dim = -1},
    {.name = NULL},
};

const struct orr_operator orr__operator_cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 3,
    .inputs_max = 4,
    .outputs = 1,
    .input_names = cross_entropy_names,
    .attributes = cross_entropy_attributes,
    .infer = infer_cross_entropy,
    .cost = cost_cross_entropy,
    .compute = compute_cross_entropy,
};
