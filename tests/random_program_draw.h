/* What recipes are made of: drawing operands, and saying what an operator does to magnitudes.
 *
 * Threads: pure functions of the draft. */
#ifndef ORR_TESTS_RANDOM_PROGRAM_DRAW_H
#define ORR_TESTS_RANDOM_PROGRAM_DRAW_H

#include <math.h>
#include <string.h>

#include "tests/random_program.h"
#include "tests/support.h"

enum { ELEMENTS_MAX = 600, DIM_MAX = 8 };
#define EPS 0.1 /* of norms: small ones have steep gradients */

/* --- drawing --- */

static inline int64_t below(struct draft *d, int64_t bound) {
    return (int64_t)random_below(&d->random, (uint64_t)bound);
}

static inline bool chance(struct draft *d, int64_t one_in) {
    return below(d, one_in) == 0;
}

static const struct variable *variable(const struct draft *d, int index) {
    return &d->program->variables[index];
}

static const struct orr_shape *shape_of(const struct draft *d, const struct step *s, int input) {
    return &variable(d, s->inputs[input])->info.shape;
}

/* Largest magnitude of an operand. */
static inline double size_of(const struct draft *d, const struct step *s, int input) {
    const struct variable *v = variable(d, s->inputs[input]);
    return fmax(fabs(v->lo), fabs(v->hi));
}

static inline bool whole_of(const struct draft *d, const struct step *s, int input) {
    return variable(d, s->inputs[input])->whole;
}

static inline enum domain usual(const struct draft *d) {
    return d->whole ? DOMAIN_WHOLE : DOMAIN_SMOOTH;
}

static inline int64_t draw_dim(struct draft *d) {
    return chance(d, 60) ? 0 : 1 + below(d, chance(d, 3) ? DIM_MAX : 5);
}

static inline struct orr_shape draw_shape(struct draft *d, int least, int most) {
    struct orr_shape shape = {.rank = least + (int)below(d, most - least + 1)};
    for (int i = 0; i < shape.rank; i++) {
        shape.dims[i] = draw_dim(d);
    }
    return shape;
}

static inline struct orr_shape shape_4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return orr_shape_of(4, (int64_t[]){a, b, c, d});
}

static inline bool in_domain(const struct variable *v, enum domain domain, int64_t bound) {
    switch (domain) {
    case DOMAIN_POSITIVE: return v->lo >= 0.25;
    case DOMAIN_INDEX: return v->whole && v->lo >= 0 && v->hi <= (double)bound - 1;
    case DOMAIN_UNIT: return v->lo >= -1 && v->hi <= 1;
    case DOMAIN_DISTINCT: return false;
    default: return true;
    }
}

/* A variable of this shape: an old one or a new one. */
static inline int fit(struct draft *d, enum orr_dtype dtype, const struct orr_shape *shape,
                      enum domain domain, int64_t bound) {
    const struct program *p = d->program;
    int start = p->variable_count > 0 ? (int)below(d, p->variable_count) : 0;
    for (int i = 0; i < p->variable_count && !chance(d, 3); i++) {
        int at = (start + i) % p->variable_count;
        const struct variable *v = &p->variables[at];
        if (!v->spent && v->info.dtype == dtype && orr_shape_equal(&v->info.shape, shape) &&
            in_domain(v, domain, bound)) {
            return at;
        }
    }
    return program_tensor(d, dtype, shape, domain, bound);
}

/* A variable of the program's dtype with a rank in a range, an old one mostly. */
static inline int pick_in(struct draft *d, int least, int most, enum domain domain) {
    const struct program *p = d->program;
    int start = p->variable_count > 0 ? (int)below(d, p->variable_count) : 0;
    for (int i = 0; i < p->variable_count && !chance(d, 6); i++) {
        int at = (start + i) % p->variable_count;
        const struct variable *v = &p->variables[at];
        if (!v->spent && v->info.dtype == d->dtype && v->info.shape.rank >= least &&
            v->info.shape.rank <= most && orr_shape_count(&v->info.shape) <= ELEMENTS_MAX &&
            in_domain(v, domain, 0)) {
            return at;
        }
    }
    struct orr_shape shape = draw_shape(d, least, most);
    return program_tensor(d, d->dtype, &shape, domain, 0);
}

static inline int pick(struct draft *d, int least, int most) {
    return pick_in(d, least, most, usual(d));
}

static inline bool add_input(struct step *s, int variable_index) {
    s->inputs[s->input_count++] = variable_index;
    return variable_index >= 0;
}

static inline struct orr_attribute *attribute(struct step *s, const char *name) {
    return &s->attributes.values[orr_operator_attribute(s->op, name)];
}

/* --- effects --- */

static inline void range(struct step *s, int result, double lo, double hi, bool whole) {
    s->effect.lo[result] = lo;
    s->effect.hi[result] = hi;
    s->effect.whole[result] = whole;
}

static inline void within(struct step *s, int result, double size, bool whole) {
    range(s, result, -size, size, whole);
}

static inline bool all_whole(const struct draft *d, const struct step *s) {
    for (int i = 0; i < s->input_count; i++) {
        if (!whole_of(d, s, i)) {
            return false;
        }
    }
    return true;
}

static inline void sums(struct step *s, double terms, double mass) {
    s->effect.sums = true;
    s->effect.terms = terms;
    s->effect.mass = mass;
}

static inline double last_dim(const struct orr_shape *shape) {
    return (double)shape->dims[shape->rank - 1];
}

static inline enum orr_dtype index_dtype(struct draft *d) {
    return chance(d, 2) ? ORR_DTYPE_I32 : ORR_DTYPE_I64;
}

#endif
