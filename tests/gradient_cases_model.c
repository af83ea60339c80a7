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

/* Two experts or three for each token, some of them dropped. */
static void make_experts(struct trial *trial, struct dice *dice, bool slots_first) {
    int64_t gb = roll(dice, 1, 2), gs = roll(dice, 1, 2), experts = roll(dice, 2, 3);
    int64_t b = gb * roll(dice, 1, 2), s = gs * roll(dice, 1, 3), k = roll(dice, 1, 2);
    int64_t capacity = roll(dice, 1, 3), h = roll(dice, 1, 3);
    trial_operand(trial, ORR_DTYPE_F64,
                  slots_first ? orr_shape_of(5, (int64_t[]){experts, gb, gs, capacity, h})
                              : dims(3, b, s, h, 0));
    trial_operand(trial, roll(dice, 0, 1) ? ORR_DTYPE_I64 : ORR_DTYPE_I32, dims(3, b, s, k, 0));
    draw_indices(trial, dice, 1, experts - 1);
    if (roll(dice, 0, 1)) {
        trial_operand(trial, ORR_DTYPE_F64, dims(3, b, s, k, 0));
    }
    if (!slots_first) {
        at(&trial->call, "experts")->integer = experts;
        at(&trial->call, "capacity")->integer = capacity;
        at(&trial->call, "groups")->shape = dims(2, gb, gs, 0, 0);
    }
}

static void make_moe_dispatch(struct trial *trial, struct dice *dice) {
    make_experts(trial, dice, false);
}

static void make_moe_combine(struct trial *trial, struct dice *dice) {
    make_experts(trial, dice, true);
}

const struct gradient_case gradient_cases_model[] = {
    {"moe_dispatch", make_moe_dispatch, -2, 2}, {"moe_combine", make_moe_combine, -2, 2},
    {"gather_last", make_gather_last, -2, 2},   {"topk", make_topk, -2, 2},
    {"dropout_mask", make_dropout_mask, -2, 2}, {0},
};
