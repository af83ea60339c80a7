/* Element by element: arithmetic, comparisons, copies. */
#include <string.h>

#include "analyzer/imported_cost_internal.h"

enum { OPERANDS_MAX = 3 };

/* --- torch's type promotion, as far as it is decided by what is recorded --- */

/* bool, integers, floats. */
static int category(struct orr__element e) {
    return e.is_float ? 2 : e.is_integer ? 1 : 0;
}

/* Of two operands of one sort (both with dimensions, or both without). */
static struct orr__element wider(struct orr__calculation *c, struct orr__element x,
                                 struct orr__element y) {
    if (x.bytes == y.bytes && x.dtype == y.dtype) {
        return x;
    }
    if (category(x) != category(y)) {
        return category(x) > category(y) ? x : y;
    }
    if (x.bytes == 2 && y.bytes == 2 && x.is_float) { /* f16 and bf16 */
        return (struct orr__element){4, ORR_DTYPE_F32, true, false};
    }
    bool small = x.is_float && (x.bytes < 2 || y.bytes < 2);
    if (small || x.bytes == y.bytes || x.dtype == ORR_DTYPE_NONE || y.dtype == ORR_DTYPE_NONE) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    return x.bytes > y.bytes ? x : y;
}

/* A number without dimensions changes the type only if its category is higher, and then to a
 * default that is not recorded. */
static struct orr__element result_element(struct orr__calculation *c,
                                          const struct orr__input *const *operands,
                                          unsigned count) {
    struct orr__element shaped = {0}, number = {0};
    bool has_shaped = false, has_number = false;
    for (unsigned i = 0; i < count; i++) {
        bool *has = operands[i]->rank > 0 ? &has_shaped : &has_number;
        struct orr__element *e = operands[i]->rank > 0 ? &shaped : &number;
        *e = *has ? wider(c, *e, operands[i]->element) : operands[i]->element;
        *has = true;
    }
    if (!has_shaped) {
        return number;
    }
    if (has_number && category(number) > category(shaped)) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    return shaped;
}

/* --- shapes --- */

/* Elements of the operands broadcast together. */
static uint64_t broadcast(struct orr__calculation *c, const struct orr__input *const *operands,
                          unsigned count) {
    uint64_t dims[ORR__INPUT_RANK_MAX], product = 1;
    unsigned rank = 0;
    for (unsigned i = 0; i < count; i++) {
        for (unsigned d = 1; d <= operands[i]->rank; d++) {
            uint64_t dim = operands[i]->dims[operands[i]->rank - d];
            uint64_t *here = &dims[d - 1];
            if (d > rank || *here == 1) {
                *here = dim;
            } else if (dim != 1 && dim != *here) {
                orr__formula_unknown(c, "the recorded shapes do not fit together");
            }
            rank = d > rank ? d : rank;
        }
    }
    for (unsigned d = 0; d < rank; d++) {
        product = orr__formula_times(c, product, dims[d]);
    }
    return product;
}

/* The first `count` arguments that are tensors; numbers that are none cost nothing. Returns how
 * many, 0 after saying why. */
static unsigned take(struct orr__calculation *c, unsigned first, unsigned count,
                     const struct orr__input **out) {
    unsigned taken = 0;
    for (unsigned i = first; i < first + count; i++) {
        if (i == first || orr__inputs_tensor(c->inputs, i)) {
            out[taken] = orr__formula_tensor(c, i);
            if (!out[taken]) {
                return 0;
            }
            taken++;
        }
    }
    return taken;
}

/* A number with a point given to integers makes floats of them. */
static void refuse_mixed_numbers(struct orr__calculation *c, struct orr__element element) {
    for (unsigned i = 1; i < c->inputs->count && !element.is_float; i++) {
        const struct orr__input *input = &c->inputs->items[i];
        bool point =
            input->kind == ORR__INPUT_VALUE && (memchr(input->value, '.', input->value_length) ||
                                                memchr(input->value, 'e', input->value_length));
        bool word = orr__inputs_value_is(c->inputs, i, "True") ||
                    orr__inputs_value_is(c->inputs, i, "False") ||
                    orr__inputs_value_is(c->inputs, i, "None");
        if (point && !word) {
            orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
        }
    }
}

/* Reads the operands, counts FLOPs and returns the elements of the result. */
static uint64_t calculate(struct orr__calculation *c, const struct orr__input *const *operands,
                          unsigned count, uint64_t flops) {
    uint64_t result = broadcast(c, operands, count);
    for (unsigned i = 0; i < count; i++) {
        orr__formula_read(c, operands[i], result);
    }
    orr__formula_add(c, &c->cost->flops, result, flops);
    return result;
}

static void elementwise(struct orr__calculation *c, unsigned inputs, uint64_t flops) {
    const struct orr__input *operands[OPERANDS_MAX];
    unsigned count = take(c, 0, inputs, operands);
    if (count == 0) {
        return;
    }
    struct orr__element element = operands[0]->element;
    if (!c->in_place) {
        element = result_element(c, operands, count);
        refuse_mixed_numbers(c, element);
    }
    orr__formula_write(c, calculate(c, operands, count, flops), element);
}

/* --- formulas --- */

/* These make integers of integers; others, like exp and div, make floats of them. */
static bool keeps_integers(const char *name) {
    static const char *const names[] = {"mul",         "maximum",     "minimum",
                                        "bitwise_and", "bitwise_or",  "bitwise_xor",
                                        "addcmul",     "relu",        "neg",
                                        "abs",         "floor",       "ceil",
                                        "round",       "square",      "clamp",
                                        "clamp_min",   "clamp_max",   "hardtanh",
                                        "pow",         "bitwise_not", "threshold_backward"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void orr__formula_elements(struct orr__calculation *c) {
    const struct orr__input *first = orr__formula_tensor(c, 0);
    if (first && !first->element.is_float && !keeps_integers(c->formula->name)) {
        orr__formula_unknown(c, "the type of the result is not decided by what is recorded");
    }
    elementwise(c, (unsigned)c->formula->a, (uint64_t)c->formula->b);
}

void orr__formula_compare(struct orr__calculation *c) {
    const struct orr__input *operands[OPERANDS_MAX];
    static const struct orr__element boolean = {1, ORR_DTYPE_BOOL, false, false};
    unsigned count = take(c, 0, (unsigned)c->formula->a, operands);
    if (count > 0) {
        orr__formula_write(c, calculate(c, operands, count, 1),
                           c->in_place ? operands[0]->element : boolean);
    }
}

void orr__formula_add_scaled(struct orr__calculation *c) {
    bool scaled = orr__inputs_has_value(c->inputs, 2) && !orr__inputs_value_is(c->inputs, 2, "1");
    elementwise(c, 2, scaled ? 2 : 1);
}

/* x * 0.5 * (1 + erf(x c)), or with tanh(c (x + a x^3)); backward by the derivative of each. */
void orr__formula_gelu(struct orr__calculation *c) {
    bool tanh_form = orr__inputs_value_is(c->inputs, (unsigned)c->formula->a, "tanh");
    bool backward = c->formula->b == 2;
    elementwise(c, (unsigned)c->formula->b, backward ? (tanh_form ? 19 : 11) : (tanh_form ? 9 : 5));
}

void orr__formula_where(struct orr__calculation *c) {
    const struct orr__input *condition = orr__formula_tensor(c, 0), *operands[OPERANDS_MAX];
    if (!condition || !orr__inputs_tensor(c->inputs, 2)) {
        orr__formula_unknown(c, "an input's shape is not recorded");
        return;
    }
    unsigned count = take(c, 1, 2, operands);
    if (count < 2) {
        return;
    }
    struct orr__element element = result_element(c, operands, count);
    const struct orr__input *all[] = {condition, operands[0], operands[1]};
    orr__formula_write(c, calculate(c, all, 3, 1), element);
}

void orr__formula_masked_fill(struct orr__calculation *c) {
    const struct orr__input *operands[OPERANDS_MAX];
    unsigned count = take(c, 0, 2, operands);
    if (count > 0) {
        orr__formula_write(c, calculate(c, operands, count, 1), operands[0]->element);
    }
}

void orr__formula_dropout(struct orr__calculation *c) {
    const struct orr__input *x = orr__formula_tensor(c, 0);
    if (x) {
        uint64_t result = calculate(c, &x, 1, 2);
        orr__formula_write(c, result, x->element);
        orr__formula_add(c, &c->cost->bytes_written, result, 1);
    }
}

void orr__formula_copy(struct orr__calculation *c) {
    const struct orr__input *to = orr__formula_tensor(c, 0), *from = orr__formula_tensor(c, 1);
    if (to && from) {
        orr__formula_read(c, from, to->count);
        orr__formula_write(c, to->count, to->element);
    }
}

void orr__formula_fill(struct orr__calculation *c) {
    const struct orr__input *to = orr__formula_tensor(c, 0);
    if (to) {
        orr__formula_write(c, to->count, to->element);
    }
}

void orr__formula_cat(struct orr__calculation *c) {
    const struct orr__input *list = &c->inputs->items[0];
    if (list->kind != ORR__INPUT_LIST || list->element.bytes == 0) {
        orr__formula_unknown(c, "the element type of a list of tensors is not recorded");
        return;
    }
    orr__formula_read(c, list, 0);
    orr__formula_write(c, list->count, list->element);
}
