/* One recipe for each operator: operands that fit, and what they do to magnitudes and errors.
 *
 * Gains are bounds in the largest norm; they are rounded up generously, since a wrong placement
 * rule makes an error of the values' own size. */
#include "tests/random_program_draw.h"

/* --- products --- */

static bool draw_matmul(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 2, 4))) {
        return false;
    }
    struct orr_shape x = *shape_of(d, s, 0), w = {.rank = 2};
    bool turn_a = chance(d, 5), turn_b = chance(d, 4);
    int64_t k = turn_a ? x.dims[x.rank - 2] : x.dims[x.rank - 1];
    if (x.rank > 2 && chance(d, 3)) {
        w = x;
    }
    w.dims[w.rank - (turn_b ? 1 : 2)] = k;
    w.dims[w.rank - (turn_b ? 2 : 1)] = 1 + below(d, DIM_MAX);
    attribute(s, "transpose_a")->integer = turn_a;
    attribute(s, "transpose_b")->integer = turn_b;
    if (!add_input(s, fit(d, d->dtype, &w, usual(d), 0))) {
        return false;
    }
    double a = size_of(d, s, 0), b = size_of(d, s, 1), n = (double)k;
    within(s, 0, n * a * b, all_whole(d, s));
    s->effect.gain[0] = n * b;
    s->effect.gain[1] = n * a;
    sums(s, n, n * a * b);
    return true;
}

static bool draw_linear(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 3))) {
        return false;
    }
    int64_t out = 1 + below(d, DIM_MAX);
    const struct orr_shape *x = shape_of(d, s, 0);
    int64_t k = x->dims[x->rank - 1];
    struct orr_shape w = orr_shape_of(2, (int64_t[]){out, k}), b = orr_shape_of(1, &out);
    bool bias = chance(d, 2);
    if (!add_input(s, fit(d, d->dtype, &w, usual(d), 0)) ||
        (bias && !add_input(s, fit(d, d->dtype, &b, usual(d), 0)))) {
        return false;
    }
    double a = size_of(d, s, 0), c = size_of(d, s, 1), n = (double)k;
    double size = n * a * c + (bias ? size_of(d, s, 2) : 0);
    within(s, 0, size, all_whole(d, s));
    s->effect.gain[0] = n * c;
    s->effect.gain[1] = n * a;
    s->effect.gain[2] = 1;
    sums(s, n + 1, size);
    return true;
}

static bool draw_matmul_weight(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 3))) {
        return false;
    }
    struct orr_shape x = *shape_of(d, s, 0), y = x;
    y.dims[y.rank - 1] = 1 + below(d, DIM_MAX);
    if (!add_input(s, fit(d, d->dtype, &y, usual(d), 0))) {
        return false;
    }
    double n = 1, a = size_of(d, s, 0), b = size_of(d, s, 1);
    for (int i = 0; i < x.rank - 1; i++) {
        n *= (double)x.dims[i];
    }
    within(s, 0, n * a * b, all_whole(d, s));
    s->effect.gain[0] = n * b;
    s->effect.gain[1] = n * a;
    sums(s, n, n * a * b);
    return true;
}

/* --- pointwise --- */

/* Another operand that broadcasts with the first, and perhaps makes it broadcast. */
static bool add_second(struct draft *d, struct step *s, enum domain domain) {
    struct orr_shape y = *shape_of(d, s, 0);
    switch (below(d, 5)) {
    case 0: /* only the last dimensions */
        if (y.rank > 0) {
            int cut = (int)below(d, y.rank + 1);
            memmove(y.dims, y.dims + cut, (size_t)(y.rank - cut) * sizeof y.dims[0]);
            y.rank -= cut;
        }
        break;
    case 1: /* dimensions of size 1 */
        for (int i = 0; i < y.rank; i++) {
            y.dims[i] = chance(d, 2) ? 1 : y.dims[i];
        }
        break;
    case 2: /* the first stretches */
        for (int i = 0; i < y.rank; i++) {
            y.dims[i] = y.dims[i] == 1 ? 1 + below(d, 4) : y.dims[i];
        }
        break;
    default: break;
    }
    return add_input(s, fit(d, d->dtype, &y, domain, 0));
}

static bool draw_add(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4)) || !add_second(d, s, usual(d))) {
        return false;
    }
    double a = size_of(d, s, 0), b = size_of(d, s, 1);
    within(s, 0, strcmp(s->op->name, "maximum") == 0 ? fmax(a, b) : a + b, all_whole(d, s));
    s->effect.gain[0] = s->effect.gain[1] = 1;
    return true;
}

static bool draw_mul(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4)) || !add_second(d, s, usual(d))) {
        return false;
    }
    double a = size_of(d, s, 0), b = size_of(d, s, 1);
    within(s, 0, a * b, all_whole(d, s));
    s->effect.gain[0] = b;
    s->effect.gain[1] = a;
    return true;
}

static bool draw_div(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4)) || !add_second(d, s, DOMAIN_POSITIVE)) {
        return false;
    }
    double a = size_of(d, s, 0), least = variable(d, s->inputs[1])->lo;
    within(s, 0, a / least, false);
    s->effect.gain[0] = 1 / least;
    s->effect.gain[1] = a / (least * least);
    return true;
}

/* Those that change no sign and no magnitude, or with a known bound of their slope. */
static bool draw_unary(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    const struct variable *x = variable(d, s->inputs[0]);
    const char *name = s->op->name;
    double a = size_of(d, s, 0);
    s->effect.gain[0] = 1.2;
    if (strcmp(name, "relu") == 0) {
        range(s, 0, fmax(x->lo, 0), fmax(x->hi, 0), x->whole);
    } else if (strcmp(name, "neg") == 0) {
        range(s, 0, -x->hi, -x->lo, x->whole);
    } else if (strcmp(name, "tanh") == 0 || strcmp(name, "sigmoid") == 0) {
        within(s, 0, 1, false);
    } else if (strcmp(name, "exp") == 0) {
        range(s, 0, exp(x->lo), exp(x->hi), false);
        s->effect.gain[0] = exp(x->hi);
        return x->hi <= 4;
    } else { /* gelu, silu */
        within(s, 0, a, false);
    }
    return true;
}

static bool draw_sqrt(struct draft *d, struct step *s) {
    if (!add_input(s, pick_in(d, 0, 4, DOMAIN_POSITIVE))) {
        return false;
    }
    const struct variable *x = variable(d, s->inputs[0]);
    bool is_log = strcmp(s->op->name, "log") == 0;
    range(s, 0, is_log ? log(x->lo) : sqrt(x->lo), is_log ? log(x->hi) : sqrt(x->hi), false);
    s->effect.gain[0] = 1 / (is_log ? x->lo : sqrt(x->lo));
    return true;
}

static bool draw_scale(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    static const double wholes[] = {2, -1, 3, 1}, others[] = {0.5, -1.25, 2, 0.1};
    double alpha = d->whole ? wholes[below(d, 4)] : others[below(d, 4)];
    attribute(s, "alpha")->real = alpha;
    within(s, 0, fabs(alpha) * size_of(d, s, 0), d->whole && whole_of(d, s, 0));
    s->effect.gain[0] = fabs(alpha);
    return true;
}

static bool draw_dropout(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    attribute(s, "seed")->integer = below(d, 1 << 20);
    within(s, 0, 2 * size_of(d, s, 0), whole_of(d, s, 0)); /* p = 0.5: what is left doubles */
    s->effect.gain[0] = 2;
    return true;
}

/* grad and another operand of the same shape. A gradient that jumps is right on either side, but
 * not comparable when rounding may push x over the edge: its gain is infinite. */
static bool draw_pointwise_backward(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    bool of_tanh = strcmp(s->op->name, "tanh_backward") == 0 ||
                   strcmp(s->op->name, "sigmoid_backward") == 0; /* grad and y, which is small */
    struct orr_shape x = *shape_of(d, s, 0);
    if (!add_input(s, fit(d, d->dtype, &x, of_tanh ? DOMAIN_UNIT : usual(d), 0))) {
        return false;
    }
    bool jumps =
        strcmp(s->op->name, "relu_backward") == 0 || strcmp(s->op->name, "maximum_backward") == 0;
    double g = size_of(d, s, 0);
    within(s, 0, 2 * g, jumps && all_whole(d, s));
    s->effect.gain[0] = 2;
    s->effect.gain[1] = jumps ? INFINITY : 3 * g;
    return true;
}

/* --- along the last dimension --- */

static bool draw_softmax(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 4))) {
        return false;
    }
    const struct orr_shape *x = shape_of(d, s, 0);
    range(s, 0, 0, 1, false);
    s->effect.gain[0] = 2;
    bool fits = x->rank > 1 && x->dims[x->rank - 2] <= x->dims[x->rank - 1];
    attribute(s, "causal")->integer = fits && chance(d, 3);
    return last_dim(x) > 0;
}

static bool draw_norm(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 4))) {
        return false;
    }
    struct orr_shape x = *shape_of(d, s, 0), w = orr_shape_of(1, &x.dims[x.rank - 1]);
    int weights = (int)below(d, s->op->inputs_max);
    for (int i = 0; i < weights; i++) {
        if (!add_input(s, fit(d, d->dtype, &w, usual(d), 0))) {
            return false;
        }
    }
    double n = last_dim(&x), weight = weights > 0 ? size_of(d, s, 1) : 1;
    attribute(s, "eps")->real = EPS;
    within(s, 0, sqrt(n) * weight + (weights > 1 ? size_of(d, s, 2) : 0), false);
    s->effect.gain[0] = weight * (2 + 2 * n) / sqrt(EPS);
    s->effect.gain[1] = sqrt(n);
    s->effect.gain[2] = 1;
    return n > 0;
}

static bool draw_norm_backward(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 3))) {
        return false;
    }
    struct orr_shape x = *shape_of(d, s, 0), w = orr_shape_of(1, &x.dims[x.rank - 1]);
    bool softmax = strcmp(s->op->name, "softmax_backward") == 0;
    if (!add_input(s, fit(d, d->dtype, &x, softmax ? DOMAIN_UNIT : usual(d), 0)) ||
        (s->op->inputs_max > 2 && chance(d, 2) &&
         !add_input(s, fit(d, d->dtype, &w, usual(d), 0)))) {
        return false;
    }
    double n = last_dim(&x), g = size_of(d, s, 0), y = size_of(d, s, 1);
    if (softmax) {
        within(s, 0, y * (g + n * g * y), false);
        s->effect.gain[0] = y * (1 + n * y);
        s->effect.gain[1] = g * (1 + 2 * n * y);
        return n > 0;
    }
    double weight = s->input_count > 2 ? size_of(d, s, 2) : 1;
    attribute(s, "eps")->real = EPS;
    within(s, 0, g * weight * (2 + n) / sqrt(EPS), false);
    s->effect.gain[0] = weight * (2 + n) / sqrt(EPS);
    s->effect.gain[1] = g * weight * (4 + 4 * n) / EPS;
    s->effect.gain[2] = g * (2 + n) / sqrt(EPS);
    return n > 0;
}

static bool draw_norm_backward_weight(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 3))) {
        return false;
    }
    struct orr_shape x = *shape_of(d, s, 0);
    if (!add_input(s, fit(d, d->dtype, &x, usual(d), 0))) {
        return false;
    }
    double rows = 1, n = last_dim(&x), g = size_of(d, s, 0);
    for (int i = 0; i < x.rank - 1; i++) {
        rows *= (double)x.dims[i];
    }
    attribute(s, "eps")->real = EPS;
    for (int i = 0; i < s->op->outputs; i++) {
        within(s, i, rows * g * sqrt(n), false);
    }
    s->effect.gain[0] = rows * sqrt(n);
    s->effect.gain[1] = rows * g * (2 + 2 * n) / sqrt(EPS);
    sums(s, rows, rows * g * (1 + sqrt(n)));
    return n > 0;
}

/* --- attention --- */

static bool draw_rope(struct draft *d, struct step *s) {
    struct orr_shape x = draw_shape(d, 2, 4);
    x.dims[x.rank - 1] = 2 + 2 * below(d, 3);
    if (!add_input(s, fit(d, d->dtype, &x, usual(d), 0))) {
        return false;
    }
    attribute(s, "offset")->integer = below(d, 5);
    within(s, 0, 2 * size_of(d, s, 0), false);
    s->effect.gain[0] = 2;
    return true;
}

static void draw_attention_shapes(struct draft *d, struct orr_shape shapes[3]) {
    int64_t groups = 1 + below(d, 3), heads = 1 + below(d, 4), length = 1 + below(d, 5);
    int64_t b = 1 + below(d, 4), width = 1 + below(d, 4), out = 1 + below(d, 4);
    int64_t before = chance(d, 2) ? 0 : below(d, 4);
    shapes[0] = orr_shape_of(4, (int64_t[]){b, heads * groups, length, width});
    shapes[1] = orr_shape_of(4, (int64_t[]){b, heads, length + before, width});
    shapes[2] = orr_shape_of(4, (int64_t[]){b, heads, length + before, out});
}

static bool draw_sdpa(struct draft *d, struct step *s) {
    struct orr_shape shapes[3];
    draw_attention_shapes(d, shapes);
    for (int i = 0; i < 3; i++) {
        if (!add_input(s, fit(d, d->dtype, &shapes[i], usual(d), 0))) {
            return false;
        }
    }
    attribute(s, "causal")->integer = chance(d, 2);
    double n = (double)shapes[0].dims[3], t = (double)shapes[1].dims[2];
    double q = size_of(d, s, 0), k = size_of(d, s, 1), v = size_of(d, s, 2);
    within(s, 0, v, false);
    s->effect.gain[0] = 2 * n * k * v;
    s->effect.gain[1] = 2 * n * q * v;
    s->effect.gain[2] = 1;
    sums(s, n + t, (1 + n * q * k) * v * 2);
    return true;
}

static bool draw_sdpa_backward(struct draft *d, struct step *s) {
    struct orr_shape shapes[3], out;
    draw_attention_shapes(d, shapes);
    out = shapes[0];
    out.dims[3] = shapes[2].dims[3];
    const struct orr_shape *wanted[5] = {&out, &shapes[0], &shapes[1], &shapes[2], &out};
    double most = 1;
    for (int i = 0; i < 5; i++) {
        if (!add_input(s, fit(d, d->dtype, wanted[i], usual(d), 0))) {
            return false;
        }
        most = fmax(most, size_of(d, s, i));
    }
    attribute(s, "causal")->integer = chance(d, 2);
    double n = 8 * (double)shapes[0].dims[1] * (double)shapes[1].dims[2];
    for (int i = 0; i < 3; i++) {
        within(s, i, n * most * most * most, false);
    }
    for (int i = 0; i < 5; i++) {
        s->effect.gain[i] = n * n * most * most * most;
    }
    sums(s, n, n * most * most * most * most);
    return most <= 4;
}

/* --- reductions --- */

static bool draw_reduction(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    const struct orr_shape *x = shape_of(d, s, 0);
    bool all = x->rank == 0 || chance(d, 4), keep = chance(d, 2);
    int64_t dim = all ? ORR_DIM_ALL : below(d, x->rank);
    double n = all ? (double)orr_shape_count(x) : (double)x->dims[dim];
    attribute(s, "dim")->integer = !all && chance(d, 3) ? dim - x->rank : dim;
    attribute(s, "keepdim")->integer = keep;
    const char *name = s->op->name;
    double a = size_of(d, s, 0);
    s->effect.gain[0] = 1;
    if (strcmp(name, "sum") == 0) {
        within(s, 0, n * a, whole_of(d, s, 0));
        s->effect.gain[0] = n;
        sums(s, n, n * a);
    } else if (strcmp(name, "mean") == 0) {
        within(s, 0, a, false);
        sums(s, n, a);
    } else if (strcmp(name, "argmax") == 0) {
        range(s, 0, 0, n > 0 ? n - 1 : 0, true);
        s->effect.gain[0] = INFINITY;
    } else {
        within(s, 0, a, whole_of(d, s, 0));
    }
    return true;
}

static bool draw_max_backward(struct draft *d, struct step *s) {
    int x_index = pick(d, 1, 4);
    if (x_index < 0) {
        return false;
    }
    const struct orr_shape x = variable(d, x_index)->info.shape;
    struct orr_shape g = x;
    int64_t dim = below(d, x.rank);
    bool keep = chance(d, 2);
    g.dims[dim] = 1;
    if (!keep) {
        memmove(g.dims + dim, g.dims + dim + 1, (size_t)(g.rank - dim - 1) * sizeof g.dims[0]);
        g.rank--;
    }
    attribute(s, "dim")->integer = dim;
    attribute(s, "keepdim")->integer = keep;
    if (!add_input(s, fit(d, d->dtype, &g, usual(d), 0)) || !add_input(s, x_index)) {
        return false;
    }
    within(s, 0, size_of(d, s, 0), whole_of(d, s, 0));
    s->effect.gain[0] = 1;
    s->effect.gain[1] = INFINITY;
    return true;
}

static bool draw_unbroadcast(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 4))) {
        return false;
    }
    const struct orr_shape *x = shape_of(d, s, 0);
    struct orr_shape *list = &attribute(s, "dims")->shape;
    int leading = (int)below(d, x->rank + 1);
    double n = 1;
    list->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i < leading || chance(d, 3)) {
            list->dims[list->rank++] = i;
            n *= (double)x->dims[i];
        }
    }
    attribute(s, "leading")->integer = leading;
    within(s, 0, n * size_of(d, s, 0), whole_of(d, s, 0));
    s->effect.gain[0] = n;
    sums(s, n, n * size_of(d, s, 0));
    return true;
}

static bool draw_count_nonfinite(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    range(s, 0, 0, 0, true);
    sums(s, 1, 0);
    return true;
}

/* --- gathering --- */

static bool draw_embedding(struct draft *d, struct step *s) {
    int64_t rows = 1 + below(d, DIM_MAX), width = 1 + below(d, DIM_MAX);
    struct orr_shape table = orr_shape_of(2, (int64_t[]){rows, width});
    struct orr_shape indices = draw_shape(d, 0, 2);
    if (!add_input(s, fit(d, index_dtype(d), &indices, DOMAIN_INDEX, rows)) ||
        !add_input(s, fit(d, d->dtype, &table, usual(d), 0))) {
        return false;
    }
    within(s, 0, size_of(d, s, 1), whole_of(d, s, 1));
    s->effect.gain[0] = INFINITY;
    s->effect.gain[1] = 1;
    return true;
}

static bool draw_embedding_backward(struct draft *d, struct step *s) {
    int64_t rows = 1 + below(d, DIM_MAX);
    struct orr_shape indices = draw_shape(d, 0, 2), grad = indices;
    grad.dims[grad.rank++] = 1 + below(d, DIM_MAX);
    if (!add_input(s, fit(d, d->dtype, &grad, usual(d), 0)) ||
        !add_input(s, fit(d, index_dtype(d), &indices, DOMAIN_INDEX, rows))) {
        return false;
    }
    attribute(s, "rows")->integer = rows;
    double n = (double)orr_shape_count(&indices), g = size_of(d, s, 0);
    within(s, 0, n * g, whole_of(d, s, 0));
    s->effect.gain[0] = n;
    s->effect.gain[1] = INFINITY;
    sums(s, n, n * g);
    return true;
}

static bool draw_cross_entropy(struct draft *d, struct step *s) {
    int64_t n = 1 + below(d, DIM_MAX), classes = 1 + below(d, DIM_MAX);
    struct orr_shape logits = orr_shape_of(2, (int64_t[]){n, classes}), rows = orr_shape_of(1, &n);
    if (!add_input(s, fit(d, d->dtype, &logits, usual(d), 0)) ||
        !add_input(s, fit(d, index_dtype(d), &rows, DOMAIN_INDEX, classes))) {
        return false;
    }
    double most = 2 * size_of(d, s, 0) + log((double)classes);
    range(s, 0, 0, most, false);
    s->effect.gain[0] = 2;
    s->effect.gain[1] = INFINITY;
    sums(s, (double)n, most);
    return true;
}

static bool draw_cross_entropy_backward(struct draft *d, struct step *s) {
    int64_t n = 1 + below(d, DIM_MAX), classes = 1 + below(d, DIM_MAX);
    struct orr_shape scalar = {0}, rows = orr_shape_of(1, &n);
    struct orr_shape logits = orr_shape_of(2, (int64_t[]){n, classes});
    if (!add_input(s, fit(d, d->dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32, &scalar,
                          usual(d), 0)) ||
        !add_input(s, fit(d, d->dtype, &logits, usual(d), 0)) ||
        !add_input(s, fit(d, index_dtype(d), &rows, DOMAIN_INDEX, classes))) {
        return false;
    }
    attribute(s, "total")->integer = n;
    double g = size_of(d, s, 0);
    within(s, 0, g, false);
    s->effect.gain[0] = 1;
    s->effect.gain[1] = 2 * g;
    s->effect.gain[2] = INFINITY;
    return true;
}

/* --- moving --- */

static bool draw_cast(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_F64, ORR_DTYPE_F32,  ORR_DTYPE_I64,
                                            ORR_DTYPE_I32, ORR_DTYPE_BF16, ORR_DTYPE_F16};
    const struct variable *x = variable(d, s->inputs[0]);
    enum orr_dtype dtype = d->gradients ? d->dtype : dtypes[below(d, 6)];
    bool is_float = orr_dtype_is_float(dtype);
    attribute(s, "dtype")->integer = dtype;
    range(s, 0, x->lo - !is_float, x->hi + !is_float, x->whole || !is_float);
    s->effect.gain[0] = is_float ? 1 : INFINITY;
    return size_of(d, s, 0) < 30000; /* of f16 */
}

static void same_values(struct draft *d, struct step *s) {
    range(s, 0, variable(d, s->inputs[0])->lo, variable(d, s->inputs[0])->hi, whole_of(d, s, 0));
    s->effect.gain[0] = 1;
}

static bool draw_transpose(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 2, 4))) {
        return false;
    }
    int rank = shape_of(d, s, 0)->rank;
    struct orr_shape *perm = &attribute(s, "perm")->shape;
    if (chance(d, 2)) {
        perm->rank = rank;
        for (int i = 0; i < rank; i++) {
            perm->dims[i] = i;
        }
        for (int i = rank - 1; i > 0; i--) {
            int other = (int)below(d, i + 1);
            int64_t kept = perm->dims[i];
            perm->dims[i] = perm->dims[other];
            perm->dims[other] = kept;
        }
    }
    same_values(d, s);
    return true;
}

static bool draw_slice(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 4))) {
        return false;
    }
    const struct orr_shape *x = shape_of(d, s, 0);
    struct orr_shape *starts = &attribute(s, "starts")->shape;
    struct orr_shape *ends = &attribute(s, "ends")->shape;
    starts->rank = ends->rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        bool cut = chance(d, 2) && x->dims[i] > 0;
        starts->dims[i] = cut ? below(d, x->dims[i]) : 0;
        ends->dims[i] = cut ? starts->dims[i] + 1 + below(d, x->dims[i] - starts->dims[i])
                            : (chance(d, 2) ? INT64_MAX : x->dims[i]);
        if (cut && chance(d, 3)) {
            starts->dims[i] -= x->dims[i]; /* from the end, always below 0 */
        }
    }
    same_values(d, s);
    return true;
}

static bool draw_concat(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 4))) {
        return false;
    }
    const struct orr_shape x = *shape_of(d, s, 0);
    int dim = (int)below(d, x.rank), count = 1 + (int)below(d, 3);
    double lo = variable(d, s->inputs[0])->lo, hi = variable(d, s->inputs[0])->hi;
    for (int i = 1; i <= count; i++) {
        struct orr_shape y = x;
        y.dims[dim] = chance(d, 2) ? x.dims[dim] : 1 + below(d, 4);
        if (!add_input(s, fit(d, d->dtype, &y, usual(d), 0))) {
            return false;
        }
        lo = fmin(lo, variable(d, s->inputs[i])->lo);
        hi = fmax(hi, variable(d, s->inputs[i])->hi);
    }
    attribute(s, "dim")->integer = chance(d, 3) ? dim - x.rank : dim;
    range(s, 0, lo, hi, all_whole(d, s));
    for (int i = 0; i <= count; i++) {
        s->effect.gain[i] = 1;
    }
    return true;
}

/* The elements in other dimensions: some are joined, some are parted. */
static bool draw_reshape(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 4))) {
        return false;
    }
    const struct orr_shape *x = shape_of(d, s, 0);
    struct orr_shape *shape = &attribute(s, "shape")->shape;
    shape->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t dim = x->dims[i];
        if (shape->rank > 0 && chance(d, 3)) {
            shape->dims[shape->rank - 1] *= dim;
            continue;
        }
        for (int64_t part = 2; part <= 4 && shape->rank < 4 && chance(d, 2); part++) {
            if (dim > 0 && dim % part == 0) {
                shape->dims[shape->rank++] = part;
                dim /= part;
            }
        }
        shape->dims[shape->rank++] = dim;
    }
    if (chance(d, 6) && shape->rank < 4) {
        shape->dims[shape->rank++] = 1;
    }
    same_values(d, s);
    return true;
}

static bool draw_pad(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 1, 4))) {
        return false;
    }
    int rank = shape_of(d, s, 0)->rank;
    struct orr_shape *before = &attribute(s, "before")->shape;
    struct orr_shape *after = &attribute(s, "after")->shape;
    before->rank = after->rank = rank;
    for (int i = 0; i < rank; i++) {
        bool pads = chance(d, 2);
        before->dims[i] = pads ? below(d, 3) : 0;
        after->dims[i] = pads ? below(d, 3) : 0;
    }
    const struct variable *x = variable(d, s->inputs[0]);
    range(s, 0, fmin(x->lo, 0), fmax(x->hi, 0), x->whole);
    s->effect.gain[0] = 1;
    return true;
}

static bool draw_expand(struct draft *d, struct step *s) {
    if (!add_input(s, pick(d, 0, 3))) {
        return false;
    }
    struct orr_shape x = *shape_of(d, s, 0);
    struct orr_shape *shape = &attribute(s, "shape")->shape, *list = &attribute(s, "dims")->shape;
    *shape = x;
    int at = (int)below(d, x.rank + 1);
    if (at < x.rank && x.dims[at] == 1 && chance(d, 2)) {
        shape->dims[at] = 1 + below(d, 4); /* a dimension of size 1 */
    } else {                               /* one that is missing */
        memmove(shape->dims + at + 1, shape->dims + at, (size_t)(x.rank - at) * sizeof x.dims[0]);
        shape->dims[at] = 1 + below(d, 4);
        shape->rank++;
    }
    list->rank = 1;
    list->dims[0] = at;
    if (chance(d, 3)) {
        struct orr_shape *shards = &attribute(s, "shards")->shape;
        shards->rank = d->program->axis_count;
        for (int i = 0; i < shards->rank; i++) {
            shards->dims[i] = chance(d, 2) ? at : -1;
        }
    }
    same_values(d, s);
    return true;
}

/* --- sources --- */

static bool draw_source(struct draft *d, struct step *s) {
    const char *name = s->op->name;
    if (strcmp(name, "arange") == 0) {
        int64_t start = below(d, 5) - 2, count = 1 + below(d, DIM_MAX), by = 1 + below(d, 3);
        attribute(s, "start")->integer = start;
        attribute(s, "end")->integer = start + (count - 1) * by + 1;
        attribute(s, "step")->integer = by;
        attribute(s, "dtype")->integer = d->dtype;
        range(s, 0, (double)start, (double)(start + count * by), true);
        return true;
    }
    attribute(s, "shape")->shape = draw_shape(d, 0, 4);
    attribute(s, "dtype")->integer = d->dtype;
    if (strcmp(name, "full") == 0) {
        double value = (double)(below(d, 7) - 3);
        attribute(s, "value")->real = value;
        range(s, 0, value, value, true);
    } else if (strcmp(name, "rand") == 0 || strcmp(name, "randn") == 0) {
        attribute(s, "seed")->integer = below(d, 1 << 20);
        within(s, 0, name[4] ? 9 : 1, false);
        return orr_dtype_is_float(d->dtype) && !d->whole;
    } else {
        range(s, 0, name[0] == 'o', name[0] == 'o', true);
    }
    return true;
}

/* --- optimizers --- */

static bool draw_update(struct draft *d, struct step *s) {
    struct orr_shape shape = draw_shape(d, 1, 3);
    double most = 1;
    for (int i = 0; i < s->op->inputs_max; i++) {
        bool square = i == 3;
        if (!add_input(s, fit(d, d->dtype, &shape, square ? DOMAIN_POSITIVE : usual(d), 0))) {
            return false;
        }
        most = fmax(most, size_of(d, s, i));
    }
    attribute(s, "lr")->real = 0.25;
    for (int i = 0; i < s->op->outputs; i++) {
        within(s, i, 8 * most * most, false);
    }
    for (int i = 0; i < s->input_count; i++) {
        s->effect.gain[i] = 8 * most;
    }
    return true;
}

static const struct recipe recipes[] = {
    {"matmul", 8, draw_matmul, true},
    {"linear", 4, draw_linear, true},
    {"add", 5, draw_add, true},
    {"sub", 3, draw_add, true},
    {"mul", 4, draw_mul, true},
    {"div", 2, draw_div, true},
    {"maximum", 2, draw_add, true},
    {"relu", 2, draw_unary, true},
    {"neg", 2, draw_unary, true},
    {"gelu", 1, draw_unary, true},
    {"silu", 1, draw_unary, true},
    {"exp", 1, draw_unary, true},
    {"tanh", 2, draw_unary, true},
    {"sigmoid", 1, draw_unary, true},
    {"log", 1, draw_sqrt, true},
    {"sqrt", 1, draw_sqrt, true},
    {"scale", 2, draw_scale, true},
    {"dropout", 1, draw_dropout, true},
    {"softmax", 2, draw_softmax, true},
    {"layernorm", 2, draw_norm, true},
    {"rmsnorm", 2, draw_norm, true},
    {"rope", 2, draw_rope, true},
    {"sdpa", 3, draw_sdpa, true},
    {"sum", 4, draw_reduction, true},
    {"mean", 2, draw_reduction, true},
    {"max", 2, draw_reduction, true},
    {"argmax", 1, draw_reduction, false},
    {"embedding", 3, draw_embedding, true},
    {"cross_entropy", 2, draw_cross_entropy, true},
    {"cast", 1, draw_cast, true},
    {"transpose", 4, draw_transpose, true},
    {"slice", 3, draw_slice, true},
    {"concat", 3, draw_concat, true},
    {"reshape", 4, draw_reshape, true},
    {"zeros", 1, draw_source, true},
    {"ones", 1, draw_source, true},
    {"full", 1, draw_source, true},
    {"arange", 1, draw_source, true},
    {"rand", 1, draw_source, true},
    {"randn", 1, draw_source, true},
    {"relu_backward", 1, draw_pointwise_backward, false},
    {"gelu_backward", 1, draw_pointwise_backward, false},
    {"silu_backward", 1, draw_pointwise_backward, false},
    {"tanh_backward", 1, draw_pointwise_backward, false},
    {"sigmoid_backward", 1, draw_pointwise_backward, false},
    {"maximum_backward", 1, draw_pointwise_backward, false},
    {"softmax_backward", 1, draw_norm_backward, false},
    {"layernorm_backward", 1, draw_norm_backward, false},
    {"rmsnorm_backward", 1, draw_norm_backward, false},
    {"layernorm_backward_weight", 1, draw_norm_backward_weight, false},
    {"rmsnorm_backward_weight", 1, draw_norm_backward_weight, false},
    {"rope_backward", 1, draw_rope, false},
    {"sdpa_backward", 1, draw_sdpa_backward, false},
    {"matmul_backward_weight", 1, draw_matmul_weight, false},
    {"pad", 2, draw_pad, true},
    {"unbroadcast", 2, draw_unbroadcast, true},
    {"expand", 2, draw_expand, true},
    {"max_backward", 1, draw_max_backward, false},
    {"embedding_backward", 1, draw_embedding_backward, false},
    {"cross_entropy_backward", 1, draw_cross_entropy_backward, false},
    {"sgd", 1, draw_update, false},
    {"sgd_momentum", 1, draw_update, false},
    {"adamw", 1, draw_update, false},
    {"adamw_master", 1, draw_update, false},
    {"count_nonfinite", 1, draw_count_nonfinite, false},
};

const struct recipe *program_recipe(int index) {
    int count = (int)(sizeof recipes / sizeof recipes[0]);
    return index < count ? &recipes[index] : program_model_recipe(index - count);
}

int program_recipe_count(void) {
    return (int)(sizeof recipes / sizeof recipes[0]) + program_model_recipe_count();
}
