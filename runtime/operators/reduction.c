/* sum, mean, max and argmax over one dimension or over all of them.
 *
 * A tensor is seen as [outer, n, inner] with n the reduced dimension. Floats are added in f64, in a
 * fixed order, and rounded once; integers in int64, wrapping around. sum of integers and bools is
 * i64, max keeps the dtype, argmax is the i64 index of the first largest element (a NaN is the
 * largest).
 *
 * mean divides by its attribute `total` if that is not 0: a piece of a larger tensor gives its part
 * of the whole's mean, and the parts add up to it. An empty piece gives 0, and for max, which knows
 * by `whole` that it is one, the lowest value there is.
 *
 * Cost: one FLOP for each element of x (an addition or a comparison); mean's division, once for
 * each result, is left out. Bytes: x once, the result once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/rows_internal.h"

enum { REDUCE_DIM, REDUCE_KEEPDIM, MEAN_TOTAL, MAX_WHOLE = MEAN_TOTAL };
enum { PIECE = 512 }; /* elements converted at a time */

enum reduce_kind { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_ARGMAX };

struct view3 {
    int64_t outer, n, inner;
    double divisor; /* of a mean */
};

static struct view3 view_of(const struct orr_shape *x, int64_t dim) {
    if (dim == ORR_DIM_ALL)
        return (struct view3){1, orr_shape_count(x), 1, 1};
    int at = (int)(dim < 0 ? dim + x->rank : dim);
    return (struct view3){orr__dims_product(x, 0, at), x->dims[at],
                          orr__dims_product(x, at + 1, x->rank), 1};
}

static enum orr_dtype result_dtype(enum reduce_kind kind, enum orr_dtype x) {
    if (kind == REDUCE_ARGMAX || (kind == REDUCE_SUM && !orr_dtype_is_float(x)))
        return ORR_DTYPE_I64;
    return x;
}

static struct orr_shape result_shape(const struct orr_shape *x, int64_t dim, bool keep) {
    struct orr_shape shape = {.rank = 0};
    int at = (int)(dim < 0 ? dim + x->rank : dim);
    for (int i = 0; i < x->rank; i++) {
        bool reduced = dim == ORR_DIM_ALL || i == at;
        if (!reduced || keep)
            shape.dims[shape.rank++] = reduced ? 1 : x->dims[i];
    }
    return shape;
}

static enum orr_status infer_reduce(const struct orr_operator *op, enum reduce_kind kind,
                                    unsigned dtypes, const struct orr_operand_info *inputs,
                                    int input_count, const struct orr_attributes *attributes,
                                    struct orr_operand_info *out, struct orr_error *error) {
    enum orr_status status = orr__check_operands(op, inputs, input_count, dtypes, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    int64_t dim = attributes->values[REDUCE_DIM].integer;
    int at = 0;
    if (dim != ORR_DIM_ALL) {
        status = orr__check_dim(op, inputs, input_count, dim, x->rank, &at, error);
        if (status != ORR_OK)
            return status;
    }
    struct orr_shape shape = result_shape(x, dim, attributes->values[REDUCE_KEEPDIM].integer != 0);
    bool may_be_empty = kind == REDUCE_SUM ||
                        (kind == REDUCE_MEAN && attributes->values[MEAN_TOTAL].integer != 0) ||
                        (kind == REDUCE_MAX && attributes->values[MAX_WHOLE].shape.rank != 0);
    if (!may_be_empty && view_of(x, dim).n == 0 && orr_shape_count(&shape) > 0)
        return orr__refuse(op, inputs, input_count, error, "there are no elements to reduce");
    if (kind == REDUCE_MEAN && attributes->values[MEAN_TOTAL].integer < 0)
        return orr__refuse(op, inputs, input_count, error,
                           "total is %" PRId64 ", expected 0 or more",
                           attributes->values[MEAN_TOTAL].integer);
    *out = (struct orr_operand_info){.dtype = result_dtype(kind, inputs[0].dtype), .shape = shape};
    return orr__check_result(op, inputs, input_count, out, error);
}

/* ---- Along contiguous rows (inner = 1) ---- */

static double sum_piece(enum orr_dtype dtype, const char *from, int64_t count) {
    if (dtype == ORR_DTYPE_F64)
        return orr__row_sum_f64((const double *)(const void *)from, count);
    if (dtype == ORR_DTYPE_F32)
        return orr__row_sum_f32((const float *)(const void *)from, count);
    float piece[PIECE];
    orr_dtype_convert(ORR_DTYPE_F32, piece, dtype, from, (size_t)count);
    return orr__row_sum_f32(piece, count);
}

static double sum_row(enum orr_dtype dtype, const char *row, int64_t n) {
    size_t size = orr_dtype_size(dtype);
    double sum = 0;
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t count = n - done < PIECE ? n - done : PIECE;
        sum += sum_piece(dtype, row + (size_t)done * size, count);
    }
    return sum;
}

/* ---- Any stride: one column of pieces at a time ---- */

/* State of up to PIECE neighbouring results. */
struct accumulators {
    double real[PIECE];
    int64_t integer[PIECE];
    int64_t index[PIECE];
};

static bool beats(double candidate, double largest) {
    return largest == largest && (candidate != candidate || candidate > largest);
}

static void take_reals(struct accumulators *state, enum reduce_kind kind, int64_t step, int count,
                       const double *restrict values) {
    double *restrict real = state->real;
    if (step == 0) {
        memcpy(real, values, (size_t)count * sizeof *real);
        memset(state->index, 0, (size_t)count * sizeof state->index[0]);
        return;
    }
    if (kind == REDUCE_SUM || kind == REDUCE_MEAN) {
        for (int i = 0; i < count; i++)
            real[i] += values[i];
        return;
    }
    for (int i = 0; i < count; i++)
        if (beats(values[i], real[i])) {
            real[i] = values[i];
            state->index[i] = step;
        }
}

static void take_integers(struct accumulators *state, enum reduce_kind kind, int64_t step,
                          int count, const int64_t *values) {
    for (int i = 0; i < count; i++) {
        if (step == 0) {
            state->integer[i] = values[i];
            state->index[i] = 0;
        } else if (kind == REDUCE_SUM) {
            state->integer[i] = (int64_t)((uint64_t)state->integer[i] + (uint64_t)values[i]);
        } else if (values[i] > state->integer[i]) {
            state->integer[i] = values[i];
            state->index[i] = step;
        }
    }
}

/* Writes `count` finished results from element `at` on. */
static void put(const struct accumulators *state, enum reduce_kind kind, bool real, int64_t at,
                int count, const struct orr_tensor_view *output) {
    char *to = (char *)output->data + (size_t)at * orr_dtype_size(output->dtype);
    if (kind == REDUCE_ARGMAX)
        orr_dtype_convert(output->dtype, to, ORR_DTYPE_I64, state->index, (size_t)count);
    else if (real)
        orr_dtype_convert(output->dtype, to, ORR_DTYPE_F64, state->real, (size_t)count);
    else
        orr_dtype_convert(output->dtype, to, ORR_DTYPE_I64, state->integer, (size_t)count);
}

static void reduce_column(enum reduce_kind kind, const struct orr_tensor_view *x,
                          const struct view3 *view, int64_t outer, int64_t inner, int count,
                          const struct orr_tensor_view *output) {
    struct accumulators state;
    bool real = orr_dtype_is_float(x->dtype);
    size_t size = orr_dtype_size(x->dtype);
    memset(state.real, 0, sizeof state.real);
    memset(state.integer, 0, sizeof state.integer);
    for (int64_t step = 0; step < view->n; step++) {
        int64_t at = (outer * view->n + step) * view->inner + inner;
        const char *from = (const char *)x->data + (size_t)at * size;
        union {
            double real[PIECE];
            int64_t integer[PIECE];
        } values;
        orr_dtype_convert(real ? ORR_DTYPE_F64 : ORR_DTYPE_I64, &values, x->dtype, from,
                          (size_t)count);
        if (real)
            take_reals(&state, kind, step, count, values.real);
        else
            take_integers(&state, kind, step, count, values.integer);
    }
    for (int i = 0; kind == REDUCE_MEAN && i < count; i++)
        state.real[i] /= view->divisor;
    put(&state, kind, real, outer * view->inner + inner, count, output);
}

/* The largest element of a row of floats, NaN if there is a NaN. */
static double max_row(enum orr_dtype dtype, const char *row, int64_t n) {
    if (dtype == ORR_DTYPE_F64)
        return orr__row_max_f64((const double *)(const void *)row, n);
    if (dtype == ORR_DTYPE_F32)
        return orr__row_max_f32((const float *)(const void *)row, n);
    size_t size = orr_dtype_size(dtype);
    double largest = -INFINITY;
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t count = n - done < PIECE ? n - done : PIECE;
        float piece[PIECE];
        orr_dtype_convert(ORR_DTYPE_F32, piece, dtype, row + (size_t)done * size, (size_t)count);
        double of_piece = orr__row_max_f32(piece, count);
        largest = beats(of_piece, largest) ? of_piece : largest;
    }
    return largest;
}

/* One result: floats by whole rows, the rest by the state above, element by element. */
static void reduce_row(enum reduce_kind kind, const struct orr_tensor_view *x,
                       const struct view3 *view, int64_t outer,
                       const struct orr_tensor_view *output) {
    struct accumulators total;
    int64_t n = view->n;
    total.real[0] = 0;
    total.integer[0] = 0;
    bool real = orr_dtype_is_float(x->dtype);
    size_t size = orr_dtype_size(x->dtype);
    const char *row = (const char *)x->data + (size_t)(outer * n) * size;
    if (real && kind != REDUCE_ARGMAX) {
        total.real[0] = kind == REDUCE_MAX ? max_row(x->dtype, row, n) : sum_row(x->dtype, row, n);
        if (kind == REDUCE_MEAN)
            total.real[0] /= view->divisor;
        put(&total, kind, real, outer, 1, output);
        return;
    }
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t count = n - done < PIECE ? n - done : PIECE;
        union {
            double real[PIECE];
            int64_t integer[PIECE];
        } values;
        orr_dtype_convert(real ? ORR_DTYPE_F64 : ORR_DTYPE_I64, &values, x->dtype,
                          row + (size_t)done * size, (size_t)count);
        for (int i = 0; i < count; i++)
            if (real)
                take_reals(&total, kind, done + i, 1, &values.real[i]);
            else
                take_integers(&total, kind, done + i, 1, &values.integer[i]);
    }
    put(&total, kind, real, outer, 1, output);
}

/* The maximum of nothing: an empty piece takes no part in that of all. */
static void fill_lowest(const struct orr_tensor_view *output) {
    int64_t count = orr_shape_count(&output->shape);
    for (int64_t i = 0; i < count; i++) {
        if (output->dtype == ORR_DTYPE_I64)
            ((int64_t *)output->data)[i] = INT64_MIN;
        else if (output->dtype == ORR_DTYPE_I32)
            ((int32_t *)output->data)[i] = INT32_MIN;
        else
            orr_dtype_store(output->dtype, output->data, (size_t)i, -(double)INFINITY);
    }
}

static enum orr_status compute_reduce(enum reduce_kind kind, const struct orr_tensor_view *x,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *output) {
    struct view3 view = view_of(&x->shape, attributes->values[REDUCE_DIM].integer);
    if (orr_shape_count(&output->shape) == 0)
        return ORR_OK;
    if (kind == REDUCE_MAX && view.n == 0) {
        fill_lowest(output);
        return ORR_OK;
    }
    if (kind == REDUCE_MEAN) {
        int64_t total = attributes->values[MEAN_TOTAL].integer;
        view.divisor = (double)(total ? total : view.n);
    }
    for (int64_t outer = 0; outer < view.outer; outer++) {
        if (view.inner == 1) {
            reduce_row(kind, x, &view, outer, output);
            continue;
        }
        for (int64_t inner = 0; inner < view.inner; inner += PIECE) {
            int64_t rest = view.inner - inner;
            reduce_column(kind, x, &view, outer, inner, (int)(rest < PIECE ? rest : PIECE), output);
        }
    }
    return ORR_OK;
}

static const char *const reduce_names[] = {"x"};
static const struct orr_attribute_spec reduce_attributes[] = {
    [REDUCE_DIM] = {.name = "dim", .kind = ORR_ATTRIBUTE_INT, .integer = ORR_DIM_ALL},
    [REDUCE_KEEPDIM] = {.name = "keepdim", .kind = ORR_ATTRIBUTE_BOOL},
    {.name = NULL},
};

static const struct orr_attribute_spec mean_attributes[] = {
    [REDUCE_DIM] = {.name = "dim", .kind = ORR_ATTRIBUTE_INT, .integer = ORR_DIM_ALL},
    [REDUCE_KEEPDIM] = {.name = "keepdim", .kind = ORR_ATTRIBUTE_BOOL},
    [MEAN_TOTAL] = {.name = "total", .kind = ORR_ATTRIBUTE_INT},
    {.name = NULL},
};

static const struct orr_attribute_spec max_attributes[] = {
    [REDUCE_DIM] = {.name = "dim", .kind = ORR_ATTRIBUTE_INT, .integer = ORR_DIM_ALL},
    [REDUCE_KEEPDIM] = {.name = "keepdim", .kind = ORR_ATTRIBUTE_BOOL},
    [MAX_WHOLE] = {.name = "whole", .kind = ORR_ATTRIBUTE_SHAPE, .local = ORR_LOCAL_WHOLE, .of = 0},
    {.name = NULL},
};

#define REDUCE(id, kind, dtypes, attribute_list)                                                   \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        return infer_reduce(&orr__operator_##id, kind, dtypes, inputs, input_count, attributes,    \
                            out_outputs, error);                                                   \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        (void)input_count;                                                                         \
        (void)memory;                                                                              \
        (void)error;                                                                               \
        return compute_reduce(kind, &inputs[0], attributes, &outputs[0]);                          \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_REDUCTION,                                                           \
        .inputs_min = 1,                                                                           \
        .inputs_max = 1,                                                                           \
        .outputs = 1,                                                                              \
        .input_names = reduce_names,                                                               \
        .attributes = attribute_list,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = orr__cost_reduce,                                                                  \
        .compute = compute_##id,                                                                   \
    };

REDUCE(sum, REDUCE_SUM, ORR__SUMMABLE, reduce_attributes)
REDUCE(mean, REDUCE_MEAN, ORR__FLOATS, mean_attributes)
REDUCE(max, REDUCE_MAX, ORR__NUMBERS, max_attributes)
REDUCE(argmax, REDUCE_ARGMAX, ORR__NUMBERS, reduce_attributes)
