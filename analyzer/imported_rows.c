/* Along rows: reductions, softmax, normalisation, gathering. */
#include <string.h>

#include "analyzer/imported_cost_internal.h"

static const struct orr__element index_element = {8, ORR_DTYPE_I64, false, true};
static const struct orr__element bool_element = {1, ORR_DTYPE_BOOL, false, false};
static const struct orr__element float_element = {4, ORR_DTYPE_F32, true, false};

static const char *const no_dims = "which dimensions are reduced is not recorded";

/* ------------------------------------------------------------------------------------------------
 * Reductions */

/* Elements left when the dimensions of the value at `place` are reduced. */
static uint64_t kept(struct orr__calculation *c, const struct orr__input *x, unsigned place) {
    int64_t dims[ORR__INPUT_RANK_MAX];
    bool reduced[ORR__INPUT_RANK_MAX] = {false};
    int count = orr__inputs_numbers(c->inputs, place, dims, ORR__INPUT_RANK_MAX);
    uint64_t product = 1;
    if (count < 0) {
        orr__formula_unknown(c, no_dims);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + (int64_t)x->rank : dims[i];
        if (dim < 0 || dim >= (int64_t)x->rank) {
            orr__formula_unknown(c, "the recorded shapes do not fit together");
            return 0;
        }
        reduced[dim] = true;
    }
    for (unsigned d = 0; d < x->rank; d++) {
        product = reduced[d] || count == 0 ? product : orr__formula_times(c, product, x->dims[d]);
    }
    return product;
}

/* Elements of the result of x, dim, keepdim, ...; or of x with at most a type behind it. */
static uint64_t results(struct orr__calculation *c, const struct orr__input *x) {
    if (c->inputs->count <= 2 && !orr__inputs_has_value(c->inputs, 1)) {
        return 1;
    }
    if (orr__inputs_has_value(c->inputs, 1)) {
        return kept(c, x, 1);
    }
    if (orr__inputs_has_value(c->inputs, 2)) {
        return 1; /* values are recorded, and this one is None: all dimensions */
    }
    orr__formula_unknown(c, no_dims);
    return 0;
}

void orr__formula_reduction(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0);
    if (!x) {
        return;
    }
    int sort = c->formula->a;
    struct orr__element element = x->element;
    if (sort == ORR__REDUCE_MEAN && !element.is_float) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    bool typed = sort == ORR__REDUCE_SUM || sort == ORR__REDUCE_MEAN;
    if (typed && c->inputs->count == 4 && orr__inputs_has_value(c->inputs, 3)) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    if (typed && c->inputs->count == 2 && orr__inputs_has_value(c->inputs, 1)) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    if (sort == ORR__REDUCE_SUM && !element.is_float) {
        element = index_element;
    } else if (sort == ORR__REDUCE_BOOL) {
        element = bool_element;
    } else if (sort == ORR__REDUCE_INDEX) {
        element = index_element;
    }
    if (sort == ORR__REDUCE_BOTH && orr__inputs_tensor(c->inputs, 1)) {
        orr__formula_unknown(c, "no formula for this operator"); /* max of two tensors */
        return;
    }
    uint64_t count = results(c, x);
    orr__formula_read(c, x, 0);
    orr__formula_add(c, &c->cost->flops, x->count, 1);
    orr__formula_write(c, count, element);
    if (sort == ORR__REDUCE_BOTH && orr__inputs_has_value(c->inputs, 1)) {
        orr__formula_write(c, count, index_element);
    }
}

void orr__formula_scan(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0);
    if (!x) {
        return;
    }
    if (orr__inputs_has_value(c->inputs, 2) || !orr__inputs_has_value(c->inputs, 1)) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    orr__formula_read(c, x, 0);
    orr__formula_add(c, &c->cost->flops, x->count, 1);
    orr__formula_write(c, x->count, x->element.is_float ? x->element : index_element);
}

/* ------------------------------------------------------------------------------------------------
 * Softmax and norms */

/* x, dim, half_to_float */
void orr__formula_softmax(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0);
    if (!x) {
        return;
    }
    bool widens = orr__inputs_value_is(c->inputs, 2, "True");
    if (!widens && !orr__inputs_value_is(c->inputs, 2, "False") && x->element.bytes < 4) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    orr__formula_read(c, x, 0);
    orr__formula_add(c, &c->cost->flops, x->count, 5);
    orr__formula_write(c, x->count, widens ? float_element : x->element);
}

/* grad, output, dim, input_dtype: torch's number of the type. */
void orr__formula_softmax_backward(struct orr__calculation *c) {
    const struct orr__input *grad = orr__formula_tensor(c, 0), *out = orr__formula_tensor(c, 1);
    if (!grad || !out) {
        return;
    }
    int64_t type = -1;
    struct orr__element element = grad->element;
    (void)orr__inputs_numbers(c->inputs, 3, &type, 1);
    if (element.bytes == 4 && (type == 5 || type == 15)) { /* f16, bf16 */
        element.bytes = 2;
    } else if (element.bytes == 4 && type != 6) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    orr__formula_read(c, grad, 0);
    orr__formula_read(c, out, 0);
    orr__formula_add(c, &c->cost->flops, grad->count, 4);
    orr__formula_write(c, grad->count, element);
}

/* Rows of a tensor whose last dimensions are those of the value at `place`, or of `weight`. */
static uint64_t rows_of(struct orr__calculation *c, const struct orr__input *x, unsigned place,
                        const struct orr__input *weight) {
    int64_t dims[ORR__INPUT_RANK_MAX];
    int count = orr__inputs_numbers(c->inputs, place, dims, ORR__INPUT_RANK_MAX);
    uint64_t width = count > 0 ? 1 : weight ? weight->count : 0;
    for (int i = 0; i < count; i++) {
        width = dims[i] > 0 ? orr__formula_times(c, width, (uint64_t)dims[i]) : 0;
    }
    if (width == 0 || x->count % width != 0) {
        orr__formula_unknown(c, "how long a row is, is not recorded");
        return 0;
    }
    return x->count / width;
}

/* Sums of 16-bit floats are kept in f32. */
static struct orr__element sum_element(struct orr__element element) {
    return element.bytes < 4 ? float_element : element;
}

/* x, normalized_shape, weight, bias, eps: weight and bias may be missing. */
void orr__formula_norm(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0);
    if (!x) {
        return;
    }
    const struct orr__input *weight = orr__inputs_tensor(c->inputs, 2);
    const struct orr__input *bias = orr__inputs_tensor(c->inputs, 3);
    uint64_t rows = rows_of(c, x, 1, weight);
    uint64_t flops = (uint64_t)c->formula->a + (weight != NULL) + (bias != NULL);
    orr__formula_read(c, x, 0);
    for (unsigned i = 2; i <= 3; i++) {
        const struct orr__input *t = orr__inputs_tensor(c->inputs, i);
        t = t ? orr__formula_tensor(c, i) : NULL;
        if (t) {
            orr__formula_read(c, t, x->count);
        }
    }
    orr__formula_add(c, &c->cost->flops, x->count, flops);
    orr__formula_write(c, x->count, x->element);
    orr__formula_write(c, orr__formula_times(c, rows, (uint64_t)c->formula->b),
                       sum_element(x->element));
}

/* grad, x, normalized_shape, mean, rstd, weight, bias, output_mask */
void orr__formula_norm_backward(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 1);
    static const unsigned read[] = {0, 1, 3, 4};
    if (!x) {
        return;
    }
    if (!orr__inputs_value_is(c->inputs, 7, "[True, True, True]")) {
        orr__formula_unknown(c, "which gradients were asked for is not recorded");
        return;
    }
    for (unsigned i = 0; i < sizeof read / sizeof *read; i++) {
        const struct orr__input *t = orr__formula_tensor(c, read[i]);
        if (t) {
            orr__formula_read(c, t, 0);
        }
    }
    for (unsigned i = 5; i <= 6; i++) {
        const struct orr__input *t = orr__inputs_tensor(c->inputs, i);
        t = t ? orr__formula_tensor(c, i) : NULL;
        if (t) {
            orr__formula_read(c, t, x->count);
            orr__formula_write(c, t->count, t->element);
        }
    }
    orr__formula_add(c, &c->cost->flops, x->count, 13);
    orr__formula_write(c, x->count, x->element);
}

/* x, weight, bias, running_mean, running_var, training: as a layer norm over the images. */
void orr__formula_batch_norm(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0);
    if (!x) {
        return;
    }
    bool training = orr__inputs_value_is(c->inputs, 5, "True");
    if (!training && !orr__inputs_value_is(c->inputs, 5, "False")) {
        orr__formula_unknown(c, "whether it trains is not recorded");
    }
    orr__formula_read(c, x, 0);
    for (unsigned i = 1; i <= 4; i++) {
        const struct orr__input *t = orr__inputs_tensor(c->inputs, i);
        t = t ? orr__formula_tensor(c, i) : NULL;
        if (t) {
            orr__formula_read(c, t, x->count);
        }
    }
    orr__formula_add(c, &c->cost->flops, x->count, training ? 8 : 4);
    orr__formula_write(c, x->count, x->element);
}

/* ------------------------------------------------------------------------------------------------
 * Gathering */

/* Reads the rows that are gathered, and the indices; writes the rows. */
static void move_rows(struct orr__calculation *c, const struct orr__input *from,
                      const struct orr__input *index, uint64_t width) {
    uint64_t moved = orr__formula_times(c, index->count, width);
    orr__formula_add(c, &c->cost->bytes_read, moved, from->element.bytes);
    orr__formula_read(c, index, 0);
    orr__formula_write(c, moved, from->element);
}

void orr__formula_embedding(struct orr__calculation *c) {
    const struct orr__input *table = orr__formula_tensor(c, 0), *index = orr__formula_tensor(c, 1);
    if (!table || !index) {
        return;
    }
    if (table->rank != 2) {
        orr__formula_unknown(c, "the recorded shapes do not fit together");
        return;
    }
    move_rows(c, table, index, table->dims[1]);
}

/* x, dim, index */
void orr__formula_index_select(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0), *index = orr__formula_tensor(c, 2);
    int64_t dim;
    if (!x || !index) {
        return;
    }
    if (orr__inputs_numbers(c->inputs, 1, &dim, 1) != 1) {
        orr__formula_unknown(c, "along which dimension is not recorded");
        return;
    }
    dim = dim < 0 ? dim + (int64_t)x->rank : dim;
    if (dim < 0 || dim >= (int64_t)x->rank || x->dims[dim] == 0) {
        orr__formula_unknown(c, "the recorded shapes do not fit together");
        return;
    }
    move_rows(c, x, index, x->count / x->dims[dim]);
}

void orr__formula_gather(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0), *index = orr__formula_tensor(c, 2);
    if (x && index) {
        move_rows(c, x, index, 1);
    }
}
