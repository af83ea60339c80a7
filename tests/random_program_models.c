/* Recipes of what language models, image models and serving add to the table. */
#include "tests/random_program_draw.h"

/* A new operand; false without room. */
static bool add_new(struct draft *d, struct step *s, enum orr_dtype dtype, struct orr_shape shape,
                    enum domain domain, int64_t bound) {
    return add_input(s, program_tensor(d, dtype, &shape, domain, bound));
}

/* An operand of the program's dtype, new or old. */
static bool add_fit(struct draft *d, struct step *s, struct orr_shape shape) {
    return add_input(s, fit(d, d->dtype, &shape, usual(d), 0));
}

static bool is_narrow(const struct draft *d) {
    return !orr_dtype_is_float(d->dtype);
}

/* dtype of a log-sum-exp beside operands of the program's dtype. */
static enum orr_dtype wide(const struct draft *d) {
    return d->dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
}

/* --- images --- */

struct conv {
    int64_t n, c, h, w, o, kh, kw, stride, padding, groups;
    struct orr_shape x, weight, y;
};

static struct conv draw_conv(struct draft *d, struct step *s) {
    struct conv v = {.groups = 1 + below(d, 2), .stride = 1 + below(d, 2), .padding = below(d, 2)};
    v.n = 1 + below(d, 4);
    v.c = v.groups * (1 + below(d, 3));
    v.o = v.groups * (1 + below(d, 3));
    v.kh = 1 + below(d, 3);
    v.kw = 1 + below(d, 3);
    v.h = v.kh + below(d, 4);
    v.w = v.kw + below(d, 4);
    attribute(s, "stride")->integer = v.stride;
    attribute(s, "padding")->integer = v.padding;
    attribute(s, "groups")->integer = v.groups;
    v.x = shape_4(v.n, v.c, v.h, v.w);
    v.weight = shape_4(v.o, v.c / v.groups, v.kh, v.kw);
    v.y = shape_4(v.n, v.o, (v.h + 2 * v.padding - v.kh) / v.stride + 1,
                  (v.w + 2 * v.padding - v.kw) / v.stride + 1);
    return v;
}

/* A sum of `n` products of the first two operands. */
static void products(struct draft *d, struct step *s, double n) {
    double a = size_of(d, s, 0), b = size_of(d, s, 1);
    double bias = s->input_count > 2 ? size_of(d, s, 2) : 0;
    within(s, 0, n * a * b + bias, all_whole(d, s));
    s->effect.gain[0] = n * b;
    s->effect.gain[1] = n * a;
    s->effect.gain[2] = 1;
    sums(s, n + 1, n * a * b + bias);
}

static bool draw_conv2d(struct draft *d, struct step *s) {
    struct conv v = draw_conv(d, s);
    if (is_narrow(d) || !add_fit(d, s, v.x) || !add_fit(d, s, v.weight) ||
        (chance(d, 2) && !add_fit(d, s, orr_shape_of(1, &v.o)))) {
        return false;
    }
    products(d, s, (double)(v.c / v.groups * v.kh * v.kw));
    return true;
}

static bool draw_conv2d_backward_input(struct draft *d, struct step *s) {
    struct conv v = draw_conv(d, s);
    attribute(s, "size")->shape = orr_shape_of(2, (int64_t[]){v.h, v.w});
    if (is_narrow(d) || !add_fit(d, s, v.y) || !add_fit(d, s, v.weight)) {
        return false;
    }
    products(d, s, (double)(v.o / v.groups * v.kh * v.kw));
    return true;
}

static bool draw_conv2d_backward_weight(struct draft *d, struct step *s) {
    struct conv v = draw_conv(d, s);
    attribute(s, "size")->shape = orr_shape_of(2, (int64_t[]){v.kh, v.kw});
    if (is_narrow(d) || !add_fit(d, s, v.y) || !add_fit(d, s, v.x)) {
        return false;
    }
    products(d, s, (double)(v.n * v.y.dims[2] * v.y.dims[3]));
    return true;
}

/* x [n, c, ...] with groups; returns the elements of a group. */
static double draw_groups(struct draft *d, struct step *s, struct orr_shape *out_x) {
    int64_t groups = 1 + below(d, 3);
    *out_x = shape_4(1 + below(d, 4), groups * (1 + below(d, 3)), 1 + below(d, 3), 1 + below(d, 3));
    out_x->rank = 2 + (int)below(d, 3);
    attribute(s, "groups")->integer = groups;
    attribute(s, "eps")->real = EPS;
    double count = 1;
    for (int i = 1; i < out_x->rank; i++) {
        count *= (double)out_x->dims[i];
    }
    return count / (double)groups;
}

static bool draw_groupnorm(struct draft *d, struct step *s) {
    struct orr_shape x;
    double n = draw_groups(d, s, &x);
    int weights = (int)below(d, 3);
    if (is_narrow(d) || !add_fit(d, s, x)) {
        return false;
    }
    for (int i = 0; i < weights; i++) {
        if (!add_fit(d, s, orr_shape_of(1, &x.dims[1]))) {
            return false;
        }
    }
    double weight = weights > 0 ? size_of(d, s, 1) : 1;
    within(s, 0, sqrt(n) * weight + (weights > 1 ? size_of(d, s, 2) : 0), false);
    s->effect.gain[0] = weight * (2 + 2 * n) / sqrt(EPS);
    s->effect.gain[1] = sqrt(n);
    s->effect.gain[2] = 1;
    return true;
}

static bool draw_groupnorm_backward(struct draft *d, struct step *s) {
    struct orr_shape x;
    double n = draw_groups(d, s, &x);
    if (is_narrow(d) || !add_fit(d, s, x) || !add_fit(d, s, x) ||
        (chance(d, 2) && !add_fit(d, s, orr_shape_of(1, &x.dims[1])))) {
        return false;
    }
    double g = size_of(d, s, 0), weight = s->input_count > 2 ? size_of(d, s, 2) : 1;
    within(s, 0, g * weight * (2 + n) / sqrt(EPS), false);
    s->effect.gain[0] = weight * (2 + n) / sqrt(EPS);
    s->effect.gain[1] = g * weight * (4 + 4 * n) / EPS;
    s->effect.gain[2] = g * (2 + n) / sqrt(EPS);
    return true;
}

static bool draw_groupnorm_backward_weight(struct draft *d, struct step *s) {
    struct orr_shape x;
    double n = draw_groups(d, s, &x);
    if (is_narrow(d) || !add_fit(d, s, x) || !add_fit(d, s, x)) {
        return false;
    }
    double g = size_of(d, s, 0), rows = (double)orr_shape_count(&x) / (double)x.dims[1];
    for (int i = 0; i < 2; i++) {
        within(s, i, rows * g * (1 + sqrt(n)), false);
    }
    s->effect.gain[0] = rows * (1 + sqrt(n));
    s->effect.gain[1] = rows * g * (2 + 2 * n) / sqrt(EPS);
    sums(s, rows, rows * g * (1 + sqrt(n)));
    return true;
}

/* --- language models --- */

static bool draw_gather_last(struct draft *d, struct step *s) {
    struct orr_shape x = draw_shape(d, 1, 3), indices = x;
    x.dims[x.rank - 1] = 1 + below(d, DIM_MAX);
    indices.dims[x.rank - 1] = 1 + below(d, 4);
    if (is_narrow(d) || !add_fit(d, s, x) ||
        !add_input(s, fit(d, index_dtype(d), &indices, DOMAIN_INDEX, x.dims[x.rank - 1]))) {
        return false;
    }
    within(s, 0, size_of(d, s, 0), whole_of(d, s, 0));
    s->effect.gain[0] = 1;
    s->effect.gain[1] = INFINITY;
    return true;
}

static bool draw_scatter_last(struct draft *d, struct step *s) {
    struct orr_shape g = draw_shape(d, 1, 3);
    int64_t size = 1 + below(d, DIM_MAX);
    attribute(s, "size")->integer = size;
    if (is_narrow(d) || !add_fit(d, s, g) ||
        !add_input(s, fit(d, index_dtype(d), &g, DOMAIN_INDEX, size))) {
        return false;
    }
    double n = fmax(1, last_dim(&g));
    within(s, 0, n * size_of(d, s, 0), whole_of(d, s, 0));
    s->effect.gain[0] = n;
    s->effect.gain[1] = INFINITY;
    sums(s, n, n * size_of(d, s, 0));
    return true;
}

static bool draw_topk(struct draft *d, struct step *s) {
    if (is_narrow(d) || !add_input(s, pick(d, 1, 3))) {
        return false;
    }
    const struct orr_shape *x = shape_of(d, s, 0);
    int64_t last = x->dims[x->rank - 1];
    if (last == 0) {
        return false;
    }
    attribute(s, "k")->integer = 1 + below(d, last);
    within(s, 0, size_of(d, s, 0), whole_of(d, s, 0));
    range(s, 1, 0, (double)last - 1, true);
    s->effect.gain[0] = INFINITY; /* another order is another index */
    return true;
}

static bool draw_dropout_mask(struct draft *d, struct step *s) {
    if (is_narrow(d) || !add_input(s, pick(d, 0, 3))) {
        return false;
    }
    attribute(s, "seed")->integer = below(d, 1 << 20);
    within(s, 0, 2 * size_of(d, s, 0), whole_of(d, s, 0));
    range(s, 1, 0, 1, true);
    s->effect.gain[0] = 2;
    return true;
}

static bool draw_dropout_mask_backward(struct draft *d, struct step *s) {
    if (is_narrow(d) || !add_input(s, pick(d, 0, 3))) {
        return false;
    }
    struct orr_shape mask = *shape_of(d, s, 0);
    if (!add_new(d, s, ORR_DTYPE_BOOL, mask, DOMAIN_INDEX, 2)) {
        return false;
    }
    within(s, 0, 2 * size_of(d, s, 0), whole_of(d, s, 0));
    s->effect.gain[0] = 2;
    s->effect.gain[1] = INFINITY;
    return true;
}

/* b and s are multiples of the groups' counts. */
struct routing {
    int64_t b, s, k, h, experts, gb, gs, capacity;
};

static struct routing draw_routing(struct draft *d) {
    struct routing r = {.gb = 1 + below(d, 3), .gs = 1 + below(d, 3), .experts = 2 + below(d, 4)};
    r.b = r.gb * (1 + below(d, 2));
    r.s = r.gs * (1 + below(d, 2));
    r.k = 1 + below(d, 2);
    r.h = 1 + below(d, 4);
    r.capacity = 1 + below(d, 4);
    return r;
}

static struct orr_shape shape_3(int64_t a, int64_t b, int64_t c) {
    return orr_shape_of(3, (int64_t[]){a, b, c});
}

static struct orr_shape slots_of(const struct routing *r) {
    return orr_shape_of(5, (int64_t[]){r->experts, r->gb, r->gs, r->capacity, r->h});
}

static bool add_routes(struct draft *d, struct step *s, const struct routing *r) {
    return add_new(d, s, index_dtype(d), shape_3(r->b, r->s, r->k), DOMAIN_INDEX, r->experts);
}

static bool draw_dispatch(struct draft *d, struct step *s) {
    struct routing r = draw_routing(d);
    if (is_narrow(d) || !add_fit(d, s, shape_3(r.b, r.s, r.h)) || !add_routes(d, s, &r) ||
        (chance(d, 2) && !add_fit(d, s, shape_3(r.b, r.s, r.k)))) {
        return false;
    }
    attribute(s, "experts")->integer = r.experts;
    attribute(s, "capacity")->integer = r.capacity;
    attribute(s, "groups")->shape = orr_shape_of(2, (int64_t[]){r.gb, r.gs});
    double x = size_of(d, s, 0), w = s->input_count > 2 ? size_of(d, s, 2) : 1;
    within(s, 0, x * w, all_whole(d, s));
    s->effect.gain[0] = w;
    s->effect.gain[1] = INFINITY;
    s->effect.gain[2] = x;
    return true;
}

static bool draw_combine(struct draft *d, struct step *s) {
    struct routing r = draw_routing(d);
    if (is_narrow(d) || !add_fit(d, s, slots_of(&r)) || !add_routes(d, s, &r) ||
        (chance(d, 2) && !add_fit(d, s, shape_3(r.b, r.s, r.k)))) {
        return false;
    }
    double y = size_of(d, s, 0), w = s->input_count > 2 ? size_of(d, s, 2) : 1, k = (double)r.k;
    within(s, 0, k * y * w, all_whole(d, s));
    s->effect.gain[0] = k * w;
    s->effect.gain[1] = INFINITY;
    s->effect.gain[2] = k * y;
    sums(s, k, k * y * w);
    return true;
}

static bool draw_dot(struct draft *d, struct step *s) {
    struct routing r = draw_routing(d);
    if (is_narrow(d) || !add_fit(d, s, shape_3(r.b, r.s, r.h)) || !add_fit(d, s, slots_of(&r)) ||
        !add_routes(d, s, &r)) {
        return false;
    }
    products(d, s, (double)r.h);
    within(s, 0, (double)r.h * size_of(d, s, 0) * size_of(d, s, 1), all_whole(d, s));
    s->effect.gain[2] = INFINITY;
    return true;
}

static bool draw_load(struct draft *d, struct step *s) {
    struct orr_shape indices = draw_shape(d, 0, 3);
    int64_t experts = 1 + below(d, 5);
    if (!add_new(d, s, index_dtype(d), indices, DOMAIN_INDEX, experts)) {
        return false;
    }
    attribute(s, "experts")->integer = experts;
    double n = (double)orr_shape_count(&indices);
    range(s, 0, 0, n, true);
    s->effect.gain[0] = INFINITY;
    sums(s, n, n);
    return true;
}

/* q, k, v of equal lengths, which blocks need. */
static void draw_block_shapes(struct draft *d, struct step *s, struct orr_shape shapes[3]) {
    int64_t groups = 1 + below(d, 2), heads = 1 + below(d, 3), b = 1 + below(d, 3);
    int64_t blocks = chance(d, 2) ? 1 : 1 + below(d, 3), length = blocks * (1 + below(d, 3));
    int64_t width = 1 + below(d, 4), out = 1 + below(d, 4);
    attribute(s, "blocks")->integer = blocks;
    attribute(s, "shift")->integer = below(d, blocks);
    shapes[0] = shape_4(b, heads * groups, length, width);
    shapes[1] = shape_4(b, heads, length, width);
    shapes[2] = shape_4(b, heads, length, out);
}

static bool draw_block(struct draft *d, struct step *s) {
    struct orr_shape shapes[3];
    draw_block_shapes(d, s, shapes);
    for (int i = 0; i < 3; i++) {
        if (is_narrow(d) || !add_fit(d, s, shapes[i])) {
            return false;
        }
    }
    double n = (double)shapes[0].dims[3], t = (double)shapes[0].dims[2];
    double q = size_of(d, s, 0), k = size_of(d, s, 1), v = size_of(d, s, 2);
    within(s, 0, v, false);
    within(s, 1, log(t) + n * q * k, false);
    s->effect.gain[0] = 2 * n * k * (1 + v);
    s->effect.gain[1] = 2 * n * q * (1 + v);
    s->effect.gain[2] = 1;
    sums(s, n + t, (1 + n * q * k) * (1 + v) * 2);
    return true;
}

static bool draw_merge(struct draft *d, struct step *s) {
    struct orr_shape out =
        shape_4(1 + below(d, 3), 1 + below(d, 4), 1 + below(d, 4), 1 + below(d, 3));
    struct orr_shape lse = shape_3(out.dims[0], out.dims[1], out.dims[2]);
    for (int i = 0; i < 2; i++) {
        if (is_narrow(d) || !add_fit(d, s, out) || !add_new(d, s, wide(d), lse, DOMAIN_SMOOTH, 0)) {
            return false;
        }
    }
    double size = fmax(size_of(d, s, 0), size_of(d, s, 2));
    within(s, 0, size, false);
    within(s, 1, fmax(size_of(d, s, 1), size_of(d, s, 3)) + 1, false);
    for (int i = 0; i < 4; i++) {
        s->effect.gain[i] = i % 2 ? 1 + 2 * size : 1;
    }
    return true;
}

static bool draw_block_backward(struct draft *d, struct step *s) {
    struct orr_shape shapes[3];
    draw_block_shapes(d, s, shapes);
    struct orr_shape out = shapes[0], lse = shape_3(out.dims[0], out.dims[1], out.dims[2]);
    out.dims[3] = shapes[2].dims[3];
    const struct orr_shape *wanted[5] = {&out, &shapes[0], &shapes[1], &shapes[2], &out};
    for (int i = 0; i < 5; i++) { /* new ones: the weights are exponentials of small numbers */
        if (is_narrow(d) || !add_new(d, s, d->dtype, *wanted[i], DOMAIN_SMOOTH, 0)) {
            return false;
        }
    }
    if (!add_new(d, s, wide(d), lse, DOMAIN_SMOOTH, 0)) {
        return false;
    }
    double n = 8 * (double)shapes[0].dims[1] * (double)shapes[1].dims[2] * exp(3);
    for (int i = 0; i < 3; i++) {
        within(s, i, n * 8, false);
    }
    for (int i = 0; i < 6; i++) {
        s->effect.gain[i] = n * 32;
    }
    sums(s, n, n * 8);
    return true;
}

/* --- quantized weights --- */

static bool draw_quantize(struct draft *d, struct step *s) {
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_I8, ORR_DTYPE_F8E4M3, ORR_DTYPE_F8E5M2};
    static const double most[] = {127, 448, 57344};
    if (is_narrow(d) || !add_input(s, pick(d, 1, 3))) {
        return false;
    }
    int kind = (int)below(d, 3);
    attribute(s, "dtype")->integer = dtypes[kind];
    within(s, 0, most[kind], kind == 0);
    range(s, 1, 0, 1 + size_of(d, s, 0), false);
    s->effect.gain[0] = INFINITY;
    return true;
}

static bool draw_dequantize(struct draft *d, struct step *s) {
    struct orr_shape q = draw_shape(d, 1, 3), scale = q;
    scale.rank--;
    if (!add_new(d, s, ORR_DTYPE_I8, q, DOMAIN_WHOLE, 0) ||
        !add_new(d, s, ORR_DTYPE_F32, scale, DOMAIN_POSITIVE, 0)) {
        return false;
    }
    within(s, 0, 3 * 2, false);
    s->effect.gain[0] = 2;
    s->effect.gain[1] = 3;
    return true;
}

static bool draw_linear_quantized(struct draft *d, struct step *s) {
    struct orr_shape x = draw_shape(d, 2, 3);
    int64_t out = 1 + below(d, DIM_MAX);
    struct orr_shape q = orr_shape_of(2, (int64_t[]){out, x.dims[x.rank - 1]});
    if (is_narrow(d) || !add_fit(d, s, x) || !add_new(d, s, ORR_DTYPE_I8, q, DOMAIN_WHOLE, 0) ||
        !add_new(d, s, ORR_DTYPE_F32, orr_shape_of(1, &out), DOMAIN_POSITIVE, 0) ||
        (chance(d, 2) && !add_fit(d, s, orr_shape_of(1, &out)))) {
        return false;
    }
    double n = last_dim(&x), a = size_of(d, s, 0), bias = s->input_count > 3 ? size_of(d, s, 3) : 0;
    within(s, 0, 6 * n * a + bias, false);
    s->effect.gain[0] = s->effect.gain[1] = 6 * n * (1 + a);
    s->effect.gain[2] = 3 * n * a;
    s->effect.gain[3] = 1;
    sums(s, n + 1, 6 * n * a + bias);
    return true;
}

/* --- serving --- */

/* A cache for n sequences, and b of them. */
struct cache {
    int64_t n, b, heads, groups, capacity, d, s;
    bool slots;
};

static struct cache draw_cache(struct draft *d) {
    struct cache c = {.slots = chance(d, 2), .b = 1 + below(d, 3), .heads = 1 + below(d, 4)};
    c.n = c.slots ? c.b + below(d, 3) : c.b;
    c.groups = 1 + below(d, 2);
    c.s = 1 + below(d, 2);
    c.capacity = c.s + below(d, 4);
    c.d = 2 + 2 * below(d, 2);
    return c;
}

/* Numbers from `base` on, one for each of the b sequences. */
static bool add_numbers(struct draft *d, struct step *s, const struct cache *c, enum domain domain,
                        int64_t base, int64_t bound) {
    if (!add_new(d, s, index_dtype(d), orr_shape_of(1, &c->b), domain, bound)) {
        return false;
    }
    struct variable *v = &d->program->variables[s->inputs[s->input_count - 1]];
    d->program->steps[v->step].base = base;
    v->lo += (double)base;
    v->hi += (double)base;
    s->effect.gain[s->input_count - 1] = INFINITY;
    return true;
}

static bool draw_append(struct draft *d, struct step *s) {
    struct cache c = draw_cache(d);
    if (is_narrow(d) ||
        !add_new(d, s, d->dtype, shape_4(c.n, c.heads, c.capacity, c.d), usual(d), 0) ||
        !add_new(d, s, d->dtype, shape_4(c.b, c.heads, c.s, c.d), usual(d), 0) ||
        !add_numbers(d, s, &c, DOMAIN_INDEX, 0, c.capacity - c.s + 1) ||
        (c.slots && !add_numbers(d, s, &c, DOMAIN_DISTINCT, 0, c.n))) {
        return false;
    }
    within(s, 0, fmax(size_of(d, s, 0), size_of(d, s, 1)), all_whole(d, s));
    s->effect.gain[0] = s->effect.gain[1] = 1;
    return true;
}

static bool draw_decode(struct draft *d, struct step *s) {
    struct cache c = draw_cache(d);
    struct orr_shape keys = shape_4(c.n, c.heads, c.capacity, c.d);
    if (is_narrow(d) || !add_fit(d, s, shape_4(c.b, c.heads * c.groups, c.s, c.d)) ||
        !add_fit(d, s, keys) || !add_fit(d, s, keys) ||
        !add_numbers(d, s, &c, DOMAIN_INDEX, c.s, c.capacity - c.s + 1) ||
        (c.slots && !add_numbers(d, s, &c, DOMAIN_DISTINCT, 0, c.n))) {
        return false;
    }
    double n = (double)c.d, q = size_of(d, s, 0), k = size_of(d, s, 1), v = size_of(d, s, 2);
    within(s, 0, v, false);
    s->effect.gain[0] = 2 * n * k * v;
    s->effect.gain[1] = 2 * n * q * v;
    s->effect.gain[2] = 1;
    sums(s, n + (double)c.capacity, (1 + n * q * k) * v * 2);
    return true;
}

static bool draw_rope_at(struct draft *d, struct step *s) {
    struct cache c = draw_cache(d);
    if (is_narrow(d) || !add_fit(d, s, shape_4(c.b, c.heads, c.s, c.d)) ||
        !add_numbers(d, s, &c, DOMAIN_INDEX, 0, 9)) {
        return false;
    }
    within(s, 0, 2 * size_of(d, s, 0), false);
    s->effect.gain[0] = 2;
    return true;
}

static const struct recipe recipes[] = {
    {"conv2d", 2, draw_conv2d, true},
    {"groupnorm", 2, draw_groupnorm, true},
    {"gather_last", 2, draw_gather_last, true},
    {"scatter_last", 1, draw_scatter_last, false},
    {"topk", 1, draw_topk, false},
    {"dropout_mask", 1, draw_dropout_mask, true},
    {"dropout_mask_backward", 1, draw_dropout_mask_backward, false},
    {"moe_dispatch", 2, draw_dispatch, true},
    {"moe_combine", 2, draw_combine, true},
    {"moe_dot", 1, draw_dot, false},
    {"moe_load", 1, draw_load, false},
    {"sdpa_block", 2, draw_block, false},
    {"sdpa_merge", 1, draw_merge, false},
    {"sdpa_block_backward", 1, draw_block_backward, false},
    {"conv2d_backward_input", 1, draw_conv2d_backward_input, false},
    {"conv2d_backward_weight", 1, draw_conv2d_backward_weight, false},
    {"groupnorm_backward", 1, draw_groupnorm_backward, false},
    {"groupnorm_backward_weight", 1, draw_groupnorm_backward_weight, false},
    {"quantize", 1, draw_quantize, false},
    {"dequantize", 1, draw_dequantize, false},
    {"linear_quantized", 1, draw_linear_quantized, false},
    {"kv_append", 1, draw_append, false},
    {"sdpa_decode", 1, draw_decode, false},
    {"rope_at", 1, draw_rope_at, false},
};

const struct recipe *program_model_recipe(int index) {
    return &recipes[index];
}

int program_model_recipe_count(void) {
    return (int)(sizeof recipes / sizeof recipes[0]);
}
