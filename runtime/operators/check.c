#include "runtime/operators/operators_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends formatted text at *used, which never passes `size`. */
__attribute__((format(printf, 4, 5))) static void append(char *text, size_t size, size_t *used,
                                                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + *used, size - *used, format, arguments);
    va_end(arguments);
    if (length > 0)
        *used = *used + (size_t)length < size ? *used + (size_t)length : size - 1;
}

/* "x [8, 4096] bf16 and weight [4095, 4096] bf16" */
static void operands_text(const struct orr_operator *op, const struct orr_operand_info *inputs,
                          int input_count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < input_count; i++) {
        const char *separator = i == 0 ? "" : i == input_count - 1 ? " and " : ", ";
        const char *name = i < op->inputs_max ? op->input_names[i] : "operand";
        char shape[ORR_SHAPE_TEXT_MAX] = "[?]";
        if (inputs[i].shape.rank >= 0 && inputs[i].shape.rank <= ORR_RANK_MAX)
            orr_shape_text(&inputs[i].shape, shape);
        append(text, size, &used, "%s%s %s %s", separator, name, shape,
               orr_dtype_name(inputs[i].dtype));
    }
}

enum orr_status orr__refuse(const struct orr_operator *op, const struct orr_operand_info *inputs,
                            int input_count, struct orr_error *error, const char *format, ...) {
    char operands[ORR_ERROR_TEXT_MAX], reason[ORR_ERROR_TEXT_MAX];
    operands_text(op, inputs, input_count, operands, sizeof operands);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return orr_error_set(error, ORR_INVALID, "%s: %s%s%s", op->name, operands,
                         operands[0] ? ": " : "", reason);
}

static enum orr_status refuse_count(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count,
                                    struct orr_error *error) {
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < op->inputs_max && i < 4; i++)
        append(names, sizeof names, &used, "%s%s%s", i > 0 ? ", " : "", op->input_names[i],
               i >= op->inputs_min ? " (optional)" : "");
    if (op->inputs_max > 4)
        append(names, sizeof names, &used, ", ...");
    char expected[32];
    if (op->inputs_min == op->inputs_max)
        snprintf(expected, sizeof expected, "%d", op->inputs_max);
    else
        snprintf(expected, sizeof expected, "%d to %d", op->inputs_min, op->inputs_max);
    int shown = input_count < 0 ? 0 : input_count;
    return orr__refuse(op, inputs, shown < ORR_INPUTS_MAX ? shown : ORR_INPUTS_MAX, error,
                       "%d operand%s given, expected %s%s%s", input_count,
                       input_count == 1 ? "" : "s", expected, names[0] ? ": " : "", names);
}

/* "f64, f32, f16 or bf16" */
static void set_text(unsigned dtypes, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < ORR_DTYPE_COUNT; i++) {
        if (!(dtypes >> i & 1u))
            continue;
        bool last = dtypes >> (i + 1) == 0;
        append(text, size, &used, "%s%s",
               used == 0 ? ""
               : last    ? " or "
                         : ", ",
               orr_dtype_name((enum orr_dtype)i));
    }
}

enum orr_status orr__check_operands(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count,
                                    unsigned dtypes, struct orr_error *error) {
    if (input_count < op->inputs_min || input_count > op->inputs_max)
        return refuse_count(op, inputs, input_count, error);
    for (int i = 0; i < input_count; i++) {
        enum orr_dtype dtype = inputs[i].dtype;
        if (dtype >= ORR_DTYPE_COUNT || !(dtypes >> dtype & 1u)) {
            char expected[64];
            set_text(dtypes, expected, sizeof expected);
            return orr__refuse(op, inputs, input_count, error, "dtype of %s is %s, expected %s",
                               op->input_names[i], orr_dtype_name(dtype), expected);
        }
        struct orr_error detail = {0};
        if (orr_shape_check(&inputs[i].shape, orr_dtype_size(dtype), &detail) != ORR_OK)
            return orr__refuse(op, inputs, input_count, error, "%s: %s", op->input_names[i],
                               detail.text);
    }
    return ORR_OK;
}

enum orr_status orr__check_same_dtype(const struct orr_operator *op,
                                      const struct orr_operand_info *inputs, int input_count,
                                      unsigned dtypes, struct orr_error *error) {
    enum orr_status status = orr__check_operands(op, inputs, input_count, dtypes, error);
    for (int i = 1; status == ORR_OK && i < input_count; i++)
        if (inputs[i].dtype != inputs[0].dtype)
            return orr__refuse(op, inputs, input_count, error,
                               "dtypes %s and %s differ; cast one of them",
                               orr_dtype_name(inputs[0].dtype), orr_dtype_name(inputs[i].dtype));
    return status;
}

enum orr_status orr__check_result(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_operand_info *result, struct orr_error *error) {
    struct orr_error detail = {0};
    if (orr_shape_check(&result->shape, orr_dtype_size(result->dtype), &detail) == ORR_OK)
        return ORR_OK;
    return orr__refuse(op, inputs, input_count, error, "result: %s", detail.text);
}

enum orr_status orr__check_dim(const struct orr_operator *op, const struct orr_operand_info *inputs,
                               int input_count, int64_t dim, int rank, int *out_dim,
                               struct orr_error *error) {
    *out_dim = 0;
    if (dim < -rank || dim >= rank)
        return orr__refuse(op, inputs, input_count, error,
                           "dimension %" PRId64 " of a tensor with %d dimensions", dim, rank);
    *out_dim = (int)(dim < 0 ? dim + rank : dim);
    return ORR_OK;
}

enum orr_status orr__no_scratch(const struct orr_operator *op, size_t size,
                                struct orr_error *error) {
    return orr_error_set(error, ORR_NO_MEMORY, "%s: no host memory for %zu bytes of scratch space",
                         op->name, size);
}

struct orr_operand_info orr__info(const struct orr_tensor_view *view) {
    return (struct orr_operand_info){.dtype = view->dtype, .shape = view->shape};
}

uint64_t orr__bytes(const struct orr_operand_info *info) {
    return (uint64_t)orr_shape_count(&info->shape) * orr_dtype_size(info->dtype);
}

uint64_t orr__times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

void orr__charge_operand(struct orr_cost *cost, const struct orr_operand_info *operand,
                         const struct orr_operand_info *result) {
    bool small = orr_shape_count(&operand->shape) < orr_shape_count(&result->shape);
    *(small ? &cost->bytes_broadcast : &cost->bytes_read) += orr__bytes(operand);
}

struct orr_cost orr__cost_copy(const struct orr_operand_info *inputs, int input_count,
                               const struct orr_attributes *attributes,
                               const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .bytes_read = orr__bytes(&inputs[0]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

struct orr_cost orr__cost_reduce(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    struct orr_cost cost = orr__cost_copy(inputs, input_count, attributes, outputs);
    cost.flops = (uint64_t)orr_shape_count(&inputs[0].shape);
    return cost;
}

int64_t orr__dims_product(const struct orr_shape *shape, int from, int to) {
    assert(from >= 0 && to <= shape->rank);
    int64_t product = 1;
    for (int i = from; i < to; i++)
        product *= shape->dims[i];
    return product;
}

void orr__dense_strides(const struct orr_shape *shape, int64_t *out_strides) {
    int64_t stride = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        out_strides[i] = stride;
        stride *= shape->dims[i];
    }
}

void orr__strided_merge(struct orr__strided *array) {
    int kept = 0;
    for (int i = 0; i < array->rank; i++) {
        int64_t dim = array->dims[i], stride = array->strides[i];
        if (dim == 1)
            continue;
        bool joins = kept > 0 && array->strides[kept - 1] == stride * dim;
        if (joins) {
            array->dims[kept - 1] *= dim;
            array->strides[kept - 1] = stride;
        } else {
            array->dims[kept] = dim;
            array->strides[kept] = stride;
            kept++;
        }
    }
    array->rank = kept;
}

int64_t orr__strided_seek(const struct orr__strided *array, int64_t index, int64_t *out_at) {
    int64_t offset = 0;
    assert(index >= 0 && array->rank <= ORR_RANK_MAX);
    for (int i = array->rank - 1; i >= 0; i--) {
        out_at[i] = index % array->dims[i];
        index /= array->dims[i];
        offset += out_at[i] * array->strides[i];
    }
    return offset;
}

bool orr__is_index(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_I32 || dtype == ORR_DTYPE_I64;
}
