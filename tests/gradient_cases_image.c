/* One random trial of each operator on images, or with quantized weights, that has a gradient. */
#include "tests/gradient_trial.h"

static void make_conv2d(struct trial *trial, struct dice *dice) {
    int64_t groups = roll(dice, 1, 2), channels = roll(dice, 1, 2);
    int64_t filters = groups * roll(dice, 1, 2), kh = roll(dice, 1, 3), kw = roll(dice, 1, 2);
    at(&trial->call, "stride")->integer = roll(dice, 1, 2);
    at(&trial->call, "padding")->integer = roll(dice, 0, 1);
    at(&trial->call, "groups")->integer = groups;
    trial_operand(
        trial, ORR_DTYPE_F64,
        dims(4, roll(dice, 1, 2), groups * channels, kh + roll(dice, 0, 2), kw + roll(dice, 0, 2)));
    trial_operand(trial, ORR_DTYPE_F64, dims(4, filters, channels, kh, kw));
    if (roll(dice, 0, 1)) {
        trial_operand(trial, ORR_DTYPE_F64, dims(1, filters, 0, 0, 0));
    }
}

static void make_groupnorm(struct trial *trial, struct dice *dice) {
    int64_t groups = roll(dice, 1, 2), channels = groups * roll(dice, 1, 2);
    int rank = (int)roll(dice, 3, 4);
    at(&trial->call, "groups")->integer = groups;
    at(&trial->call, "eps")->real = 1e-2;
    trial_operand(trial, ORR_DTYPE_F64,
                  dims(rank, roll(dice, 1, 2), channels, roll(dice, 3, 4), roll(dice, 1, 2)));
    for (int64_t i = roll(dice, 0, 2); i > 0; i--) {
        trial_operand(trial, ORR_DTYPE_F64, dims(1, channels, 0, 0, 0));
    }
}

static void make_linear_quantized(struct trial *trial, struct dice *dice) {
    int64_t in = roll(dice, 1, 4), out = roll(dice, 1, 4);
    struct orr_shape x = random_shape(dice, (int)roll(dice, 2, 3), 3);
    x.dims[x.rank - 1] = in;
    trial_operand(trial, ORR_DTYPE_F64, x);
    trial_operand(trial, ORR_DTYPE_I8, dims(2, out, in, 0, 0));
    trial_operand(trial, ORR_DTYPE_F32, dims(1, out, 0, 0, 0));
    if (roll(dice, 0, 1)) {
        trial_operand(trial, ORR_DTYPE_F64, dims(1, out, 0, 0, 0));
    }
}

const struct gradient_case gradient_cases_image[] = {
    {"conv2d", make_conv2d, -2, 2},
    {"groupnorm", make_groupnorm, -2, 2},
    {"linear_quantized", make_linear_quantized, -4, 4},
    {0},
};
