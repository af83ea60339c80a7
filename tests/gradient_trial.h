/* Gradient rules against finite differences in f64: random trials of operators.
 *
 *     static void make_scale(struct trial *trial, struct dice *dice) { // a case: one random trial
 *         at(&trial->call, "alpha")->real = -1.5;
 *         trial_operand(trial, ORR_DTYPE_F64, random_shape(dice, 2, 4));
 *     }
 *     {"scale", make_scale, -2, 2},                                    // its row in a table
 *
 * A new operator gets a row in gradient_cases.c, or in a table of a file of its own, which
 * gradient_tables below lists; one without a gradient gets a row with the reason in
 * without_gradient. test_autograd_rules.c fails for an operator that has neither.
 *
 * Threads: one. */
#ifndef ORR_TESTS_GRADIENT_TRIAL_H
#define ORR_TESTS_GRADIENT_TRIAL_H

#include "tests/autograd_fixture.h"

enum { TRIAL_OPERANDS_MAX = 6 };

struct dice {
    uint64_t state;
};

/* low <= result <= high */
int64_t roll(struct dice *dice, int64_t low, int64_t high);
/* Every dimension from 1 to `most`. */
struct orr_shape random_shape(struct dice *dice, int rank, int64_t most);
/* Some dimensions 1, some leading ones left out: what broadcasts to `full`. */
struct orr_shape shrunk(struct dice *dice, const struct orr_shape *full);

/* An operator, attributes and operands for one trial. Gradients of the f64 operands are compared,
 * from all results of floats; values of others are whole parts of numbers from the case's range. */
struct trial {
    struct op call;
    int count;
    struct orr_shape shapes[TRIAL_OPERANDS_MAX];
    enum orr_dtype dtypes[TRIAL_OPERANDS_MAX];
    double *values[TRIAL_OPERANDS_MAX]; /* drawn unless the case sets them, by calloc */
};

void trial_operand(struct trial *trial, enum orr_dtype dtype, struct orr_shape shape);

struct gradient_case {
    const char *op; /* NULL ends a table */
    void (*make)(struct trial *trial, struct dice *dice);
    double low, high; /* of the operands' values */
};

/* The tables, one a file; NULL ends the list. */
extern const struct gradient_case gradient_cases_image[];
extern const struct gradient_case gradient_cases_model[];
extern const struct gradient_case *const gradient_tables[];

/* Operators that have no gradient. */
struct without_gradient {
    const char *op; /* NULL ends the table */
    const char *reason;
};
extern const struct without_gradient without_gradient[];

/* A random trial of a case; freed with free_trial. */
void draw_trial(struct trial *trial, const struct gradient_case *entry, struct dice *dice);
void free_trial(struct trial *trial);

/* Fails the test if a gradient of one random trial differs from the differences. */
void check_gradient_case(struct fixture *f, const struct gradient_case *entry, struct dice *dice);

#endif
