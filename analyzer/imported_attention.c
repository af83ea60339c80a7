/* Attention by fused kernels: two products forward, five backward. */
#include "analyzer/imported_cost_internal.h"

struct attention {
    uint64_t batch, heads, queries, keys, width, value_width;
};

/* Sequences one behind another in one tensor: only the sum of their lengths is recorded. */
static bool is_packed(const struct orr__calculation *c) {
    for (unsigned i = 3; i < 8 && i < c->inputs->count; i++) {
        const struct orr__input *t = orr__inputs_tensor(c->inputs, i);
        if (t && t->element.is_integer && t->rank == 1 && t->count > 1) {
            return true;
        }
    }
    return false;
}

/* A window narrower than the sequence; its places are behind is_causal. */
static bool has_window(const struct orr__calculation *c) {
    for (unsigned i = 11; i <= 12; i++) {
        int64_t width;
        if (orr__inputs_numbers(c->inputs, i, &width, 1) == 1 && width >= 0) {
            return true;
        }
    }
    return false;
}

/* q, k, v from place a on; `heads_first`: [b, h, s, d], else [b, s, h, d]. */
static bool read_shapes(struct orr__calculation *c, bool heads_first, struct attention *out) {
    unsigned place = (unsigned)c->formula->a;
    const struct orr__input *q = orr__formula_tensor(c, place),
                            *k = orr__formula_tensor(c, place + 1);
    const struct orr__input *v = orr__formula_tensor(c, place + 2);
    if (!q || !k || !v) {
        return false;
    }
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || is_packed(c)) {
        orr__formula_unknown(c, "how long each sequence is, is not recorded");
        return false;
    }
    unsigned h = heads_first ? 1 : 2, s = heads_first ? 2 : 1;
    *out =
        (struct attention){q->dims[0], q->dims[h], q->dims[s], k->dims[s], q->dims[3], v->dims[3]};
    bool fits = k->dims[0] == out->batch && v->dims[0] == out->batch && k->dims[3] == out->width &&
                v->dims[s] == out->keys && v->dims[h] == k->dims[h];
    if (!fits) {
        orr__formula_unknown(c, "the recorded shapes do not fit together");
    }
    return fits;
}

/* Pairs of a query and a key that it sees, of one head. Query i of n sees keys up to i + m - n. */
static uint64_t pairs(struct orr__calculation *c, const struct attention *a) {
    unsigned place = (unsigned)c->formula->b;
    uint64_t n = a->queries, m = a->keys;
    if (orr__inputs_value_is(c->inputs, place, "False")) {
        return orr__formula_times(c, n, m);
    }
    if (!orr__inputs_value_is(c->inputs, place, "True")) {
        orr__formula_unknown(c, "whether the mask is causal is not recorded");
        return 0;
    }
    uint64_t rows = n < m ? n : m; /* those that see anything */
    if (rows > UINT32_MAX || m > UINT32_MAX) {
        orr__formula_unknown(c, "the recorded shapes are too large");
        return 0;
    }
    return rows * (m - rows) + rows * (rows + 1) / 2;
}

static void read_all(struct orr__calculation *c, unsigned first, unsigned end) {
    for (unsigned i = first; i < end; i++) {
        const struct orr__input *t = orr__inputs_tensor(c->inputs, i);
        if (t && (t->count > 1 || i < 4)) {
            t = orr__formula_tensor(c, i);
            if (t) {
                orr__formula_read(c, t, 0);
            }
        }
    }
}

/* 2 b h pairs times a width for each product. */
static void add_products(struct orr__calculation *c, const struct attention *a, uint64_t width) {
    uint64_t twice = orr__formula_times(c, orr__formula_times(c, a->batch, a->heads), 2);
    orr__formula_add(c, &c->cost->flops, orr__formula_times(c, twice, pairs(c, a)), width);
}

static void forward(struct orr__calculation *c, bool heads_first) {
    struct attention a;
    unsigned place = (unsigned)c->formula->a;
    if (!read_shapes(c, heads_first, &a)) {
        return;
    }
    if (!heads_first && has_window(c)) {
        orr__formula_unknown(c, "a window of keys: no formula");
        return;
    }
    c->cost->unit = ORR_UNIT_MATRIX;
    uint64_t rows = orr__formula_times(c, orr__formula_times(c, a.batch, a.heads), a.queries);
    uint64_t widths = 0;
    orr__formula_add(c, &widths, a.width, 1);
    orr__formula_add(c, &widths, a.value_width, 1);
    add_products(c, &a, widths);
    read_all(c, place, place + 4); /* a bias, too */
    orr__formula_write(c, orr__formula_times(c, rows, a.value_width),
                       c->inputs->items[place + 2].element);
}

/* grad, q, k, v, ..., out, logsumexp: all are read; the gradients have the shapes of q, k, v. */
static void backward(struct orr__calculation *c, bool heads_first) {
    struct attention a;
    if (!read_shapes(c, heads_first, &a)) {
        return;
    }
    c->cost->unit = ORR_UNIT_MATRIX;
    uint64_t widths = 0;
    orr__formula_add(c, &widths, a.width, 3);
    orr__formula_add(c, &widths, a.value_width, 2);
    add_products(c, &a, widths);
    read_all(c, 0, 7);
    for (unsigned i = 1; i <= 3; i++) {
        orr__formula_write(c, c->inputs->items[i].count, c->inputs->items[i].element);
    }
}

void orr__formula_attention_bshd(struct orr__calculation *c) {
    forward(c, false);
}

void orr__formula_attention_bhsd(struct orr__calculation *c) {
    forward(c, true);
}

void orr__formula_attention_backward_bshd(struct orr__calculation *c) {
    backward(c, false);
}

void orr__formula_attention_backward_bhsd(struct orr__calculation *c) {
    backward(c, true);
}
