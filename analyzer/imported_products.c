/* Matrix products and convolutions. */
#include <string.h>

#include "analyzer/imported_cost_internal.h"

static const char *const unfit = "the recorded shapes do not fit together";

static void set_unit(struct orr__calculation *c, struct orr__element element) {
    c->cost->unit = element.is_float ? ORR_UNIT_MATRIX : ORR_UNIT_VECTOR;
}

/* batch x [m, k] [k, n]; the operands are read by the caller. */
static uint64_t multiply(struct orr__calculation *c, uint64_t batch, uint64_t m, uint64_t k,
                         uint64_t n, struct orr__element element) {
    uint64_t result = orr__formula_times(c, orr__formula_times(c, batch, m), n);
    orr__formula_add(c, &c->cost->flops, orr__formula_times(c, result, 2), k);
    orr__formula_write(c, result, element);
    set_unit(c, element);
    return result;
}

static void add_bias(struct orr__calculation *c, const struct orr__input *bias, uint64_t result) {
    orr__formula_read(c, bias, result);
    orr__formula_add(c, &c->cost->flops, result, 1);
}

void orr__formula_mm(struct orr__calculation *c) {
    unsigned place = (unsigned)c->formula->a, rank = (unsigned)c->formula->b;
    const struct orr__input *x = orr__formula_tensor(c, place),
                            *y = orr__formula_tensor(c, place + 1);
    const struct orr__input *bias = place > 0 ? orr__formula_tensor(c, 0) : NULL;
    if (!x || !y || (place > 0 && !bias)) {
        return;
    }
    bool fits = x->rank == rank && y->rank == rank && x->dims[rank - 1] == y->dims[rank - 2] &&
                (rank == 2 || x->dims[0] == y->dims[0]);
    if (!fits) {
        orr__formula_unknown(c, unfit);
        return;
    }
    orr__formula_read(c, x, 0);
    orr__formula_read(c, y, 0);
    uint64_t result = multiply(c, rank == 3 ? x->dims[0] : 1, x->dims[rank - 2], x->dims[rank - 1],
                               y->dims[rank - 1], x->element);
    if (bias) {
        add_bias(c, bias, result);
    }
}

void orr__formula_linear(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0), *w = orr__formula_tensor(c, 1);
    if (!x || !w) {
        return;
    }
    if (x->rank == 0 || w->rank != 2 || x->dims[x->rank - 1] != w->dims[1] || w->dims[1] == 0) {
        orr__formula_unknown(c, unfit);
        return;
    }
    orr__formula_read(c, x, 0);
    orr__formula_read(c, w, 0);
    uint64_t result = multiply(c, 1, x->count / w->dims[1], w->dims[1], w->dims[0], x->element);
    if (orr__inputs_tensor(c->inputs, 2)) {
        const struct orr__input *bias = orr__formula_tensor(c, 2);
        if (bias) {
            add_bias(c, bias, result);
        }
    }
}

/* Product of the broadcast batch dimensions of two operands; false if they do not fit. */
static bool broadcast_batch(struct orr__calculation *c, const struct orr__input *x,
                            const struct orr__input *y, uint64_t *out_batch) {
    unsigned a = x->rank > 2 ? x->rank - 2 : 0, b = y->rank > 2 ? y->rank - 2 : 0;
    *out_batch = 1;
    for (unsigned i = 1; i <= (a > b ? a : b); i++) {
        uint64_t p = i <= a ? x->dims[a - i] : 1, q = i <= b ? y->dims[b - i] : 1;
        if (p != q && p != 1 && q != 1) {
            return false;
        }
        *out_batch = orr__formula_times(c, *out_batch, p == 1 ? q : p);
    }
    return true;
}

/* As torch.matmul, mv and dot: one dimension is a row on the left, a column on the right. */
void orr__formula_matmul(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0), *y = orr__formula_tensor(c, 1);
    if (!x || !y) {
        return;
    }
    uint64_t batch;
    if (x->rank == 0 || y->rank == 0 || !broadcast_batch(c, x, y, &batch)) {
        orr__formula_unknown(c, unfit);
        return;
    }
    uint64_t m = x->rank > 1 ? x->dims[x->rank - 2] : 1, k = x->dims[x->rank - 1];
    uint64_t n = y->rank > 1 ? y->dims[y->rank - 1] : 1;
    if ((y->rank > 1 ? y->dims[y->rank - 2] : y->dims[0]) != k) {
        orr__formula_unknown(c, unfit);
        return;
    }
    orr__formula_read(c, x, 0);
    orr__formula_read(c, y, 0);
    (void)multiply(c, batch, m, k, n, x->element);
}

/* ------------------------------------------------------------------------------------------------
 * Convolutions */

enum { SPACE_MAX = 3 };

struct convolution {
    unsigned space; /* spatial dimensions */
    int64_t stride[SPACE_MAX], padding[SPACE_MAX], dilation[SPACE_MAX];
    uint64_t groups;
};

/* One number for all dimensions, or one for each. */
static bool read_each(struct orr__calculation *c, unsigned place, unsigned space, int64_t least,
                      int64_t *out) {
    int count = orr__inputs_numbers(c->inputs, place, out, SPACE_MAX);
    for (unsigned i = 1; i < space && count == 1; i++) {
        out[i] = out[0];
    }
    bool good = count == 1 || count == (int)space;
    for (unsigned i = 0; i < space && good; i++) {
        good = out[i] >= least;
    }
    return good;
}

static bool read_convolution(struct orr__calculation *c, unsigned space, struct convolution *out) {
    static const struct {
        unsigned stride, padding, dilation, groups, transposed;
    } places[] = {{3, 4, 5, 6, 0}, {3, 4, 5, 8, 6}, {3, 2, 4, 5, 0}, {4, 3, 5, 6, 0}};
    int order = c->formula->a;
    int64_t groups;
    out->space = space;
    bool good = read_each(c, places[order].stride, space, 1, out->stride) &&
                read_each(c, places[order].padding, space, 0, out->padding) &&
                read_each(c, places[order].dilation, space, 1, out->dilation) &&
                orr__inputs_numbers(c->inputs, places[order].groups, &groups, 1) == 1 && groups > 0;
    if (places[order].transposed) {
        good = good && orr__inputs_value_is(c->inputs, places[order].transposed, "False");
    }
    out->groups = good ? (uint64_t)groups : 1;
    return good;
}

/* Elements of the result of one image and channel; 0 and "unfit" where a window does not fit. */
static uint64_t positions(struct orr__calculation *c, const struct convolution *conv,
                          const struct orr__input *x, const struct orr__input *w) {
    uint64_t product = 1;
    for (unsigned i = 0; i < conv->space; i++) {
        uint64_t in = x->dims[2 + i], window = w->dims[2 + i];
        if (in > INT32_MAX || window == 0 || window > INT32_MAX) {
            orr__formula_unknown(c, unfit);
            return 0;
        }
        int64_t room =
            (int64_t)in + 2 * conv->padding[i] - conv->dilation[i] * ((int64_t)window - 1) - 1;
        if (room < 0) {
            orr__formula_unknown(c, unfit);
            return 0;
        }
        product = orr__formula_times(c, product, (uint64_t)(room / conv->stride[i]) + 1);
    }
    return product;
}

/* x [N, C, ..], w [K, C / groups, ..]: 1 to 3 spatial dimensions. */
static bool fits(const struct orr__input *x, const struct orr__input *w) {
    return x->rank == w->rank && x->rank >= 3 && x->rank <= 2 + SPACE_MAX && w->dims[0] > 0;
}

void orr__formula_convolution(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0), *w = orr__formula_tensor(c, 1);
    struct convolution conv;
    if (!x || !w) {
        return;
    }
    if (!fits(x, w)) {
        orr__formula_unknown(c, unfit);
        return;
    }
    if (!read_convolution(c, x->rank - 2, &conv)) {
        orr__formula_unknown(c, "stride, padding or groups are not recorded, or it is transposed");
        return;
    }
    if (x->dims[1] != orr__formula_times(c, w->dims[1], conv.groups)) {
        orr__formula_unknown(c, unfit);
        return;
    }
    uint64_t images = orr__formula_times(c, x->dims[0], w->dims[0]);
    uint64_t result = orr__formula_times(c, images, positions(c, &conv, x, w));
    orr__formula_add(c, &c->cost->flops, orr__formula_times(c, result, 2), w->count / w->dims[0]);
    orr__formula_read(c, x, 0);
    orr__formula_read(c, w, 0);
    orr__formula_write(c, result, x->element);
    set_unit(c, x->element);
    unsigned bias = (unsigned)c->formula->b;
    if (bias > 0 && orr__inputs_tensor(c->inputs, bias)) {
        const struct orr__input *b = orr__formula_tensor(c, bias);
        if (b) {
            add_bias(c, b, result);
        }
    }
}

/* "[True, False, True]" at a place: three answers. */
static bool read_mask(const struct orr__inputs *inputs, unsigned place, bool *out) {
    if (!orr__inputs_has_value(inputs, place)) {
        return false;
    }
    const char *at = inputs->items[place].value, *end = at + inputs->items[place].value_length;
    unsigned count = 0;
    for (at++; at < end && count < 3; at += strcspn(at, ",]") + 1) {
        at += *at == ' ';
        out[count++] = strncmp(at, "True", 4) == 0;
    }
    return count == 3;
}

/* grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
 * groups, output_mask: each product of the gradients has the FLOPs of the forward. */
void orr__formula_convolution_backward(struct orr__calculation *c) {
    const struct orr__input *g = orr__formula_tensor(c, 0), *x = orr__formula_tensor(c, 1);
    const struct orr__input *w = orr__formula_tensor(c, 2);
    bool asked[3];
    if (!g || !x || !w) {
        return;
    }
    if (!read_mask(c->inputs, 10, asked) || !orr__inputs_value_is(c->inputs, 7, "False")) {
        orr__formula_unknown(c,
                             "which gradients were asked for is not recorded, or it is transposed");
        return;
    }
    if (!fits(x, w) || g->rank != x->rank || g->dims[1] != w->dims[0]) {
        orr__formula_unknown(c, unfit);
        return;
    }
    uint64_t flops =
        orr__formula_times(c, orr__formula_times(c, g->count, 2), w->count / w->dims[0]);
    orr__formula_read(c, g, 0);
    orr__formula_add(c, &c->cost->flops, flops, (uint64_t)asked[0] + asked[1]);
    if (asked[0]) {
        orr__formula_read(c, w, 0);
        orr__formula_write(c, x->count, x->element);
    }
    if (asked[1]) {
        orr__formula_read(c, x, 0);
        orr__formula_write(c, w->count, w->element);
    }
    if (asked[2]) {
        orr__formula_add(c, &c->cost->flops, g->count, 1);
        orr__formula_write(c, w->dims[0], w->element);
    }
    set_unit(c, x->element);
}
