/* Cases of gradient_trial.h for the operators that language models add. */
#include <stdlib.h>

#include "tests/gradient_trial.h"

/* Whole numbers from 0 to `most`, as values of operand `index`. */
static void draw_indices(struct trial *trial, struct dice *dice, int index, int64_t most) {
    int64_t count = orr_shape_count(&trial->shapes[index]);
    trial->values[index] = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; trial->values[index] && i < count; i++) {
        trial->values[index][i] = (double)roll(dice, 0, most);
    }
}

static void make_gather_last(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 4), indices = x;
    indices.dims[x.rank - 1] = roll(dice, 1, 5);
    trial_operand(trial, ORR_DTYPE_F64, x);
    trial_operand(trial, roll(dice, 0, 1) ? ORR_DTYPE_I64 : ORR_DTYPE_I32, indices);
    draw_indices(trial, dice, 1, x.dims[x.rank - 1] - 1);
}

static void make_topk(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 5);
    at(&trial->call, "k")->integer = roll(dice, 1, x.dims[x.rank - 1]);
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_dropout_mask(struct trial *trial, struct dice *dice) {
    at(&trial->call, "p")->real = 0.3;
    at(&trial->call, "seed")->integer = roll(dice, 0, 1000);
    trial_operand(trial, ORR_DTYPE_F64, random_shape(dice, (int)roll(dice, 0, 3), 4));
}

const struct gradient_case gradient_cases_model[] = {
    {"gather_last", make_gather_last, -2, 2},
    {"topk", make_topk, -2, 2},
    {"dropout_mask", make_dropout_mask, -2, 2},
    {0},
};
