/* cast, transpose, slice, concat: no arithmetic; and reshape, which moves nothing.
 *
 * Cost: no FLOPs; what is read once and written once. slice reads the part that it takes only.
 * reshape is an alias and costs nothing. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"

static const char *const one_name[] = {"x"};

static struct orr_cost cost_move(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs) {
    (void)inputs;
    (void)input_count;
    (void)attributes;
    return (struct orr_cost){
        .bytes_read = orr__bytes(&outputs[0]),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

/* ---- A strided array made dense ---- */

enum { TILE = 32 };

/* A rectangle to copy; strides in elements. Columns are dense in the result. */
struct rectangle {
    int64_t rows, columns;
    int64_t to_row_stride;
    int64_t row_stride, column_stride;
};

/* Defines the copy of a rectangle for elements of one size. Tiles keep both sides' cache lines in
 * use when the read runs down columns. */
#define COPY_RECTANGLE(name, type)                                                                 \
    static void name(type *restrict to, const type *restrict from,                                 \
                     const struct rectangle *shape) {                                              \
        for (int64_t r = 0; r < shape->rows; r += TILE)                                            \
            for (int64_t c = 0; c < shape->columns; c += TILE) {                                   \
                int64_t r_end = r + TILE < shape->rows ? r + TILE : shape->rows;                   \
                int64_t c_end = c + TILE < shape->columns ? c + TILE : shape->columns;             \
                for (int64_t i = r; i < r_end; i++)                                                \
                    for (int64_t j = c; j < c_end; j++)                                            \
                        to[i * shape->to_row_stride + j] =                                         \
                            from[i * shape->row_stride + j * shape->column_stride];                \
            }                                                                                      \
    }
COPY_RECTANGLE(copy_1, uint8_t)
COPY_RECTANGLE(copy_2, uint16_t)
COPY_RECTANGLE(copy_4, uint32_t)
COPY_RECTANGLE(copy_8, uint64_t)

static void copy_rectangle(size_t size, char *to, const char *from, const struct rectangle *shape) {
    if (shape->column_stride == 1) {
        for (int64_t i = 0; i < shape->rows; i++)
            memcpy(to + (size_t)(i * shape->to_row_stride) * size,
                   from + (size_t)(i * shape->row_stride) * size, (size_t)shape->columns * size);
        return;
    }
    void *to_block = to;
    const void *from_block = from;
    switch (size) {
    case 1: copy_1(to_block, from_block, shape); break;
    case 2: copy_2(to_block, from_block, shape); break;
    case 4: copy_4(to_block, from_block, shape); break;
    default: copy_8(to_block, from_block, shape); break;
    }
}

static void remove_dim(struct orr__strided *array, int dim) {
    array->rank--;
    for (int i = dim; i < array->rank; i++) {
        array->dims[i] = array->dims[i + 1];
        array->strides[i] = array->strides[i + 1];
    }
}

/* Cuts the rectangle out of a merged array of rank 1 or more: its columns are the last dimension,
 * its rows the one that is contiguous to read, or the last but one. What is left of both sides
 * counts the rectangles. */
static struct rectangle cut_rectangle(struct orr__strided *from, struct orr__strided *to) {
    int last = from->rank - 1, row = last - 1;
    for (int i = 0; i < last; i++)
        if (from->strides[i] == 1)
            row = i;
    struct rectangle shape = {
        .rows = row >= 0 ? from->dims[row] : 1,
        .columns = from->dims[last],
        .to_row_stride = row >= 0 ? to->strides[row] : 0,
        .row_stride = row >= 0 ? from->strides[row] : 0,
        .column_stride = from->strides[last],
    };
    remove_dim(from, last);
    remove_dim(to, last);
    if (row >= 0) {
        remove_dim(from, row);
        remove_dim(to, row);
    }
    return shape;
}

/* Writes the elements of a strided array densely, in order. No dimension is 0. */
static void copy_strided(size_t size, char *to, const char *from, struct orr__strided array) {
    orr__strided_merge(&array);
    if (array.rank == 0) {
        memcpy(to, from, size);
        return;
    }
    struct orr_shape dims = orr_shape_of(array.rank, array.dims);
    struct orr__strided result = array;
    orr__dense_strides(&dims, result.strides);
    struct rectangle shape = cut_rectangle(&array, &result);
    int64_t rectangles = 1;
    for (int i = 0; i < array.rank; i++)
        rectangles *= array.dims[i];
    for (int64_t i = 0; i < rectangles; i++) {
        int64_t at[ORR_RANK_MAX];
        int64_t read_at = orr__strided_seek(&array, i, at);
        int64_t write_at = orr__strided_seek(&result, i, at);
        copy_rectangle(size, to + (size_t)write_at * size, from + (size_t)read_at * size, &shape);
    }
}

/* ---- cast ---- */

static enum orr_status infer_cast(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_cast;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    int64_t dtype = attributes->values[0].integer;
    if (dtype < 0 || dtype >= ORR_DTYPE_COUNT)
        return orr__refuse(op, inputs, input_count, error, "dtype %" PRId64 " is not one", dtype);
    struct orr_operand_info result = {.dtype = (enum orr_dtype)dtype, .shape = inputs[0].shape};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static enum orr_status compute_cast(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)attributes;
    (void)memory;
    (void)error;
    orr_dtype_convert(outputs[0].dtype, outputs[0].data, inputs[0].dtype, inputs[0].data,
                      (size_t)orr_shape_count(&inputs[0].shape));
    return ORR_OK;
}

static const struct orr_attribute_spec cast_attributes[] = {
    {.name = "dtype", .kind = ORR_ATTRIBUTE_DTYPE, .required = true},
    {.name = NULL},
};

const struct orr_operator orr__operator_cast = {
    .name = "cast",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = one_name,
    .attributes = cast_attributes,
    .infer = infer_cast,
    .cost = orr__cost_copy,
    .compute = compute_cast,
};

/* ---- transpose ---- */

/* Result dimension i is x's dimension out_order[i]. Returns false if `permutation` isn't one. */
static bool find_order(const struct orr_shape *permutation, int rank, int *out_order) {
    for (int i = 0; i < rank; i++)
        out_order[i] = i;
    if (permutation->rank == 0) {
        if (rank >= 2) {
            out_order[rank - 2] = rank - 1;
            out_order[rank - 1] = rank - 2;
        }
        return rank >= 2 || rank == 0;
    }
    if (permutation->rank != rank)
        return false;
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        int64_t dim = permutation->dims[i];
        dim = dim < 0 ? dim + rank : dim;
        if (dim < 0 || dim >= rank || seen >> dim & 1u)
            return false;
        seen |= 1u << dim;
        out_order[i] = (int)dim;
    }
    return true;
}

static enum orr_status infer_transpose(const struct orr_operand_info *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       struct orr_operand_info *out_outputs,
                                       struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_transpose;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape, *permutation = &attributes->values[0].shape;
    int order[ORR_RANK_MAX];
    if (!find_order(permutation, x->rank, order)) {
        char text[ORR_SHAPE_TEXT_MAX] = "too long";
        if (permutation->rank >= 0 && permutation->rank <= ORR_RANK_MAX)
            orr_shape_text(permutation, text);
        return orr__refuse(op, inputs, input_count, error,
                           "perm %s is not an order of the %d dimensions", text, (int)x->rank);
    }
    out_outputs[0] = inputs[0];
    for (int i = 0; i < x->rank; i++)
        out_outputs[0].shape.dims[i] = x->dims[order[i]];
    return ORR_OK;
}

static enum orr_status compute_transpose(const struct orr_tensor_view *inputs, int input_count,
                                         const struct orr_attributes *attributes,
                                         const struct orr_tensor_view *outputs,
                                         const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    const struct orr_shape *x = &inputs[0].shape;
    if (orr_shape_count(x) == 0)
        return ORR_OK;
    int order[ORR_RANK_MAX];
    int64_t strides[ORR_RANK_MAX];
    (void)find_order(&attributes->values[0].shape, x->rank, order);
    orr__dense_strides(x, strides);
    struct orr__strided array = {.rank = x->rank};
    for (int i = 0; i < x->rank; i++) {
        array.dims[i] = x->dims[order[i]];
        array.strides[i] = strides[order[i]];
    }
    copy_strided(orr_dtype_size(inputs[0].dtype), outputs[0].data, inputs[0].data, array);
    return ORR_OK;
}

static const struct orr_attribute_spec transpose_attributes[] = {
    {.name = "perm", .kind = ORR_ATTRIBUTE_SHAPE}, /* empty: the last two change places */
    {.name = NULL},
};

const struct orr_operator orr__operator_transpose = {
    .name = "transpose",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = one_name,
    .attributes = transpose_attributes,
    .infer = infer_transpose,
    .cost = cost_move,
    .compute = compute_transpose,
};

/* ---- slice ---- */

enum { SLICE_STARTS, SLICE_ENDS };

/* Start and end of dimension i. Lists may be shorter than the rank; the rest is taken whole.
 * Negative places count from the end; an end of INT64_MAX is the end. */
static void slice_range(const struct orr_shape *x, const struct orr_attributes *attributes, int i,
                        int64_t *out_start, int64_t *out_end) {
    const struct orr_shape *starts = &attributes->values[SLICE_STARTS].shape;
    const struct orr_shape *ends = &attributes->values[SLICE_ENDS].shape;
    int64_t start = i < starts->rank ? starts->dims[i] : 0;
    int64_t end = i < ends->rank ? ends->dims[i] : INT64_MAX;
    *out_start = start < 0 ? start + x->dims[i] : start;
    *out_end = end == INT64_MAX ? x->dims[i] : end < 0 ? end + x->dims[i] : end;
}

static enum orr_status infer_slice(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_slice;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    int starts = attributes->values[SLICE_STARTS].shape.rank;
    int ends = attributes->values[SLICE_ENDS].shape.rank;
    if (starts > x->rank || ends > x->rank)
        return orr__refuse(op, inputs, input_count, error,
                           "%d starts and %d ends for %d dimensions", starts, ends, (int)x->rank);
    struct orr_operand_info result = inputs[0];
    for (int i = 0; i < x->rank; i++) {
        int64_t start, end;
        slice_range(x, attributes, i, &start, &end);
        if (start < 0 || end > x->dims[i] || start > end)
            return orr__refuse(op, inputs, input_count, error,
                               "dimension %d: from %" PRId64 " to %" PRId64
                               " is not inside 0 to %" PRId64,
                               i, start, end, x->dims[i]);
        result.shape.dims[i] = end - start;
    }
    out_outputs[0] = result;
    return ORR_OK;
}

static enum orr_status compute_slice(const struct orr_tensor_view *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_tensor_view *outputs,
                                     const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    const struct orr_shape *x = &inputs[0].shape;
    if (orr_shape_count(&outputs[0].shape) == 0)
        return ORR_OK;
    struct orr__strided array = {.rank = x->rank};
    orr__dense_strides(x, array.strides);
    int64_t offset = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t start, end;
        slice_range(x, attributes, i, &start, &end);
        array.dims[i] = end - start;
        offset += start * array.strides[i];
    }
    size_t size = orr_dtype_size(inputs[0].dtype);
    copy_strided(size, outputs[0].data, (const char *)inputs[0].data + (size_t)offset * size,
                 array);
    return ORR_OK;
}

static const struct orr_attribute_spec slice_attributes[] = {
    [SLICE_STARTS] = {.name = "starts", .kind = ORR_ATTRIBUTE_SHAPE},
    [SLICE_ENDS] = {.name = "ends", .kind = ORR_ATTRIBUTE_SHAPE},
    {.name = NULL},
};

const struct orr_operator orr__operator_slice = {
    .name = "slice",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = one_name,
    .attributes = slice_attributes,
    .infer = infer_slice,
    .cost = cost_move,
    .compute = compute_slice,
};

/* ---- concat ---- */

static enum orr_status infer_concat(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_concat;
    int dim = 0;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__ANY, error);
    if (status == ORR_OK)
        status = orr__check_dim(op, inputs, input_count, attributes->values[0].integer,
                                inputs[0].shape.rank, &dim, error);
    if (status != ORR_OK)
        return status;
    struct orr_operand_info result = inputs[0];
    for (int i = 1; i < input_count; i++) {
        struct orr_shape other = inputs[i].shape;
        bool fits = other.rank == result.shape.rank;
        int64_t added = fits ? other.dims[dim] : 0;
        if (fits)
            other.dims[dim] = result.shape.dims[dim];
        if (!fits || !orr_shape_equal(&other, &result.shape))
            return orr__refuse(op, inputs, input_count, error,
                               "operand %d differs from the first in more than dimension %d", i,
                               dim);
        if (__builtin_add_overflow(result.shape.dims[dim], added, &result.shape.dims[dim]))
            return orr__refuse(op, inputs, input_count, error, "dimension %d overflows", dim);
    }
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static enum orr_status compute_concat(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)memory;
    (void)error;
    const struct orr_shape *shape = &outputs[0].shape;
    int64_t asked = attributes->values[0].integer;
    int dim = (int)(asked < 0 ? asked + shape->rank : asked);
    int64_t outer = orr__dims_product(shape, 0, dim);
    size_t size = orr_dtype_size(outputs[0].dtype);
    size_t result_run = (size_t)orr__dims_product(shape, dim, shape->rank) * size, at = 0;
    for (int i = 0; i < input_count; i++) {
        size_t run = (size_t)orr__dims_product(&inputs[i].shape, dim, shape->rank) * size;
        if (run == 0)
            continue;
        for (int64_t row = 0; row < outer; row++)
            memcpy((char *)outputs[0].data + (size_t)row * result_run + at,
                   (const char *)inputs[i].data + (size_t)row * run, run);
        at += run;
    }
    return ORR_OK;
}

static const char *const concat_names[ORR_INPUTS_MAX] = {"x", "x", "x", "x", "x", "x", "x", "x",
                                                         "x", "x", "x", "x", "x", "x", "x", "x"};
static const struct orr_attribute_spec concat_attributes[] = {
    {.name = "dim", .kind = ORR_ATTRIBUTE_INT},
    {.name = NULL},
};

const struct orr_operator orr__operator_concat = {
    .name = "concat",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 1,
    .inputs_max = ORR_INPUTS_MAX,
    .outputs = 1,
    .input_names = concat_names,
    .attributes = concat_attributes,
    .infer = infer_concat,
    .cost = cost_move,
    .compute = compute_concat,
};

/* ---- reshape ---- */

static enum orr_status refuse_reshape(const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_shape *asked, struct orr_error *error) {
    char text[ORR_SHAPE_TEXT_MAX];
    return orr__refuse(&orr__operator_reshape, inputs, input_count, error,
                       "%" PRId64 " elements don't fit shape %s", orr_shape_count(&inputs[0].shape),
                       orr_shape_text(asked, text));
}

static enum orr_status infer_reshape(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     struct orr_operand_info *out_outputs,
                                     struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_reshape;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *asked = &attributes->values[0].shape;
    if (asked->rank < 0 || asked->rank > ORR_RANK_MAX)
        return orr__refuse(op, inputs, input_count, error, "%d dimensions asked, at most %d",
                           (int)asked->rank, ORR_RANK_MAX);
    struct orr_operand_info result = {.dtype = inputs[0].dtype, .shape = *asked};
    int open = -1;
    for (int i = 0; i < asked->rank; i++) {
        if (asked->dims[i] != -1)
            continue;
        if (open >= 0)
            return orr__refuse(op, inputs, input_count, error,
                               "dimensions %d and %d are both -1, expected at most one", open, i);
        open = i;
        result.shape.dims[i] = 1;
    }
    if (orr_shape_check(&result.shape, orr_dtype_size(result.dtype), NULL) != ORR_OK)
        return refuse_reshape(inputs, input_count, asked, error);
    int64_t count = orr_shape_count(&inputs[0].shape), rest = orr_shape_count(&result.shape);
    if (open >= 0 && rest > 0 && count % rest == 0)
        result.shape.dims[open] = count / rest;
    else if (open >= 0 || rest != count)
        return refuse_reshape(inputs, input_count, asked, error);
    out_outputs[0] = result;
    return ORR_OK;
}

static struct orr_cost cost_nothing(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_operand_info *outputs) {
    (void)inputs;
    (void)input_count;
    (void)attributes;
    (void)outputs;
    return (struct orr_cost){.unit = ORR_UNIT_VECTOR};
}

static const struct orr_attribute_spec reshape_attributes[] = {
    {.name = "shape", .kind = ORR_ATTRIBUTE_SHAPE, .required = true},
    {.name = NULL},
};

const struct orr_operator orr__operator_reshape = {
    .name = "reshape",
    .class = ORR_OPERATOR_ALIAS,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = one_name,
    .attributes = reshape_attributes,
    .infer = infer_reshape,
    .cost = cost_nothing,
    .compute = NULL,
};
