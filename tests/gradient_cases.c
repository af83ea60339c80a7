/* One random trial of every operator that has a gradient, and why others have none. */
#include "tests/gradient_trial.h"

static void make_binary(struct trial *trial, struct dice *dice) {
    struct orr_shape full = random_shape(dice, (int)roll(dice, 0, 3), 4);
    trial_operand(trial, ORR_DTYPE_F64, shrunk(dice, &full));
    trial_operand(trial, ORR_DTYPE_F64, shrunk(dice, &full));
}

static void make_unary(struct trial *trial, struct dice *dice) {
    trial_operand(trial, ORR_DTYPE_F64, random_shape(dice, (int)roll(dice, 0, 3), 4));
}

static void make_scale(struct trial *trial, struct dice *dice) {
    at(&trial->call, "alpha")->real = -1.5;
    make_unary(trial, dice);
}

static void make_dropout(struct trial *trial, struct dice *dice) {
    at(&trial->call, "p")->real = 0.3;
    at(&trial->call, "seed")->integer = roll(dice, 0, 1000);
    make_unary(trial, dice);
}

static void make_matmul(struct trial *trial, struct dice *dice) {
    int64_t m = roll(dice, 1, 4), k = roll(dice, 1, 4), n = roll(dice, 1, 4);
    bool a = roll(dice, 0, 1), b = roll(dice, 0, 1);
    struct orr_shape batch = random_shape(dice, (int)roll(dice, 0, 2), 3);
    struct orr_shape x = shrunk(dice, &batch), w = shrunk(dice, &batch);
    if (roll(dice, 0, 2) == 0) { /* the weight's own dimensions, then ones */
        x = w = batch;
        for (int i = (int)roll(dice, 0, w.rank); i < w.rank; i++) {
            w.dims[i] = 1;
        }
    }
    x.dims[x.rank++] = a ? k : m;
    x.dims[x.rank++] = a ? m : k;
    w.dims[w.rank++] = b ? n : k;
    w.dims[w.rank++] = b ? k : n;
    at(&trial->call, "transpose_a")->integer = a;
    at(&trial->call, "transpose_b")->integer = b;
    trial_operand(trial, ORR_DTYPE_F64, x);
    trial_operand(trial, ORR_DTYPE_F64, w);
}

static void make_linear(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 3);
    int64_t in = x.dims[x.rank - 1], out = roll(dice, 1, 4);
    trial_operand(trial, ORR_DTYPE_F64, x);
    trial_operand(trial, ORR_DTYPE_F64, dims(2, out, in, 0, 0));
    if (roll(dice, 0, 1)) {
        trial_operand(trial, ORR_DTYPE_F64, dims(1, out, 0, 0, 0));
    }
}

static void make_softmax(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 5);
    if (x.rank > 1 && x.dims[x.rank - 2] <= x.dims[x.rank - 1]) {
        at(&trial->call, "causal")->integer = roll(dice, 0, 1);
    }
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_norm(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 4);
    int64_t width = roll(dice, 3, 6);
    x.dims[x.rank - 1] = width;
    at(&trial->call, "eps")->real = 1e-2;
    trial_operand(trial, ORR_DTYPE_F64, x);
    int extra = (int)roll(dice, 0, trial->call.op->inputs_max - 1);
    for (int i = 0; i < extra; i++) {
        trial_operand(trial, ORR_DTYPE_F64, dims(1, width, 0, 0, 0));
    }
}

static void make_rope(struct trial *trial, struct dice *dice) {
    at(&trial->call, "offset")->integer = roll(dice, 0, 5);
    trial_operand(trial, ORR_DTYPE_F64,
                  dims(3, roll(dice, 1, 3), roll(dice, 1, 4), 2 * roll(dice, 1, 3), 0));
}

static void make_sdpa(struct trial *trial, struct dice *dice) {
    int64_t b = roll(dice, 1, 2), hkv = roll(dice, 1, 2), group = roll(dice, 1, 2);
    int64_t s = roll(dice, 1, 3), t = s + roll(dice, 0, 2), d = roll(dice, 1, 3);
    at(&trial->call, "causal")->integer = roll(dice, 0, 1);
    at(&trial->call, "scale")->real = roll(dice, 0, 1) ? 0.7 : 0;
    trial_operand(trial, ORR_DTYPE_F64, dims(4, b, hkv * group, s, d));
    trial_operand(trial, ORR_DTYPE_F64, dims(4, b, hkv, t, d));
    trial_operand(trial, ORR_DTYPE_F64, dims(4, b, hkv, t, roll(dice, 1, 3)));
}

static void make_reduction(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 4);
    at(&trial->call, "dim")->integer =
        roll(dice, 0, 3) == 0 ? ORR_DIM_ALL : roll(dice, -x.rank, x.rank - 1);
    at(&trial->call, "keepdim")->integer = roll(dice, 0, 1);
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_mean(struct trial *trial, struct dice *dice) {
    at(&trial->call, "total")->integer = roll(dice, 0, 1) ? 7 : 0;
    make_reduction(trial, dice);
}

static void make_embedding(struct trial *trial, struct dice *dice) {
    trial_operand(trial, roll(dice, 0, 1) ? ORR_DTYPE_I64 : ORR_DTYPE_I32,
                  random_shape(dice, (int)roll(dice, 0, 2), 4));
    trial_operand(trial, ORR_DTYPE_F64, dims(2, 2, roll(dice, 1, 4), 0, 0));
}

static void make_cross_entropy(struct trial *trial, struct dice *dice) {
    struct orr_shape rows = random_shape(dice, (int)roll(dice, 1, 3), 4), logits = rows;
    logits.dims[logits.rank++] = roll(dice, 2, 5);
    at(&trial->call, "total")->integer = roll(dice, 0, 1) ? 9 : 0;
    trial_operand(trial, ORR_DTYPE_F64, logits);
    trial_operand(trial, ORR_DTYPE_I64, rows);
}

static void make_cast(struct trial *trial, struct dice *dice) {
    at(&trial->call, "dtype")->integer = ORR_DTYPE_F64;
    make_unary(trial, dice);
}

static void make_transpose(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 2, 4), 3);
    struct orr_shape *perm = &at(&trial->call, "perm")->shape;
    perm->rank = roll(dice, 0, 2) == 0 ? 0 : x.rank;
    for (int i = 0; i < perm->rank; i++) { /* a random order */
        int k = (int)roll(dice, 0, i);
        perm->dims[i] = perm->dims[k];
        perm->dims[k] = i;
    }
    if (perm->rank > 0 && roll(dice, 0, 1)) {
        perm->dims[0] -= x.rank;
    }
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_slice(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 5);
    struct orr_shape *starts = &at(&trial->call, "starts")->shape;
    struct orr_shape *ends = &at(&trial->call, "ends")->shape;
    starts->rank = (int)roll(dice, 0, x.rank);
    ends->rank = (int)roll(dice, 0, x.rank);
    for (int i = 0; i < x.rank; i++) {
        starts->dims[i] = roll(dice, 0, x.dims[i] - 1);
        ends->dims[i] = i < starts->rank ? roll(dice, starts->dims[i] + 1, x.dims[i]) : x.dims[i];
        if (roll(dice, 0, 2) == 0) {
            starts->dims[i] -= x.dims[i];
        }
    }
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_concat(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 3);
    int64_t dim = roll(dice, 0, x.rank - 1);
    int count = (int)roll(dice, 1, 4);
    at(&trial->call, "dim")->integer = roll(dice, 0, 1) ? dim : dim - x.rank;
    for (int i = 0; i < count; i++) {
        x.dims[dim] = roll(dice, 1, 3);
        trial_operand(trial, ORR_DTYPE_F64, x);
    }
}

static void make_reshape(struct trial *trial, struct dice *dice) {
    int64_t a = roll(dice, 1, 3), b = roll(dice, 1, 3), c = roll(dice, 1, 3);
    at(&trial->call, "shape")->shape =
        roll(dice, 0, 1) ? dims(2, a * b, c, 0, 0) : dims(2, a, -1, 0, 0);
    trial_operand(trial, ORR_DTYPE_F64, dims(3, a, b, c, 0));
}

static void make_unbroadcast(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 4), 3);
    struct orr_shape *list = &at(&trial->call, "dims")->shape;
    int leading = (int)roll(dice, 0, x.rank);
    for (int i = 0; i < x.rank; i++) {
        if (i < leading || roll(dice, 0, 1)) {
            list->dims[list->rank++] = i;
        }
    }
    at(&trial->call, "leading")->integer = leading;
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_expand(struct trial *trial, struct dice *dice) {
    struct orr_shape full = random_shape(dice, (int)roll(dice, 1, 4), 3), x = {.rank = 0};
    struct orr_shape *list = &at(&trial->call, "dims")->shape;
    bool keeps = roll(dice, 0, 1);
    for (int i = 0; i < full.rank; i++) {
        bool repeats = roll(dice, 0, 1);
        if (repeats) {
            list->dims[list->rank++] = i;
        }
        if (!repeats || keeps) {
            x.dims[x.rank++] = repeats ? 1 : full.dims[i];
        }
    }
    at(&trial->call, "shape")->shape = full;
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static void make_pad(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 0, 3), 3);
    struct orr_shape *before = &at(&trial->call, "before")->shape;
    struct orr_shape *after = &at(&trial->call, "after")->shape;
    before->rank = (int)roll(dice, 0, x.rank);
    after->rank = (int)roll(dice, 0, x.rank);
    for (int i = 0; i < x.rank; i++) {
        before->dims[i] = roll(dice, 0, 2);
        after->dims[i] = roll(dice, 0, 2);
    }
    trial_operand(trial, ORR_DTYPE_F64, x);
}

static const struct gradient_case cases[] = {
    {"matmul", make_matmul, -2, 2},
    {"linear", make_linear, -2, 2},
    {"add", make_binary, -2, 2},
    {"sub", make_binary, -2, 2},
    {"mul", make_binary, -2, 2},
    {"div", make_binary, 0.5, 2},
    {"maximum", make_binary, -2, 2},
    {"relu", make_unary, -2, 2},
    {"gelu", make_unary, -3, 3},
    {"silu", make_unary, -3, 3},
    {"exp", make_unary, -1, 1},
    {"tanh", make_unary, -2, 2},
    {"neg", make_unary, -2, 2},
    {"scale", make_scale, -2, 2},
    {"log", make_unary, 0.2, 2},
    {"sigmoid", make_unary, -3, 3},
    {"sqrt", make_unary, 0.2, 2},
    {"dropout", make_dropout, -2, 2},
    {"softmax", make_softmax, -2, 2},
    {"layernorm", make_norm, -2, 2},
    {"rmsnorm", make_norm, -2, 2},
    {"rope", make_rope, -2, 2},
    {"sdpa", make_sdpa, -1, 1},
    {"sum", make_reduction, -2, 2},
    {"mean", make_mean, -2, 2},
    {"max", make_reduction, -2, 2},
    {"embedding", make_embedding, 0.1, 1.9},
    {"cross_entropy", make_cross_entropy, 0.1, 1.9},
    {"cast", make_cast, -2, 2},
    {"transpose", make_transpose, -2, 2},
    {"slice", make_slice, -2, 2},
    {"concat", make_concat, -2, 2},
    {"reshape", make_reshape, -2, 2},
    {"unbroadcast", make_unbroadcast, -2, 2},
    {"expand", make_expand, -2, 2},
    {"pad", make_pad, -2, 2},
    {0},
};

const struct gradient_case *const gradient_tables[] = {cases, gradient_cases_image,
                                                       gradient_cases_model, NULL};

#define RING     "its gradient is sdpa_block_backward, under a custom gradient"
#define SOURCE   "it has no operand"
#define BACKWARD "it is a part of a gradient, and there are no second derivatives"
#define UPDATE   "an optimizer's step is not differentiated"

const struct without_gradient without_gradient[] = {
    {"zeros", SOURCE},
    {"ones", SOURCE},
    {"full", SOURCE},
    {"arange", SOURCE},
    {"rand", SOURCE},
    {"randn", SOURCE},
    {"argmax", "its result is whole numbers"},
    {"count_nonfinite", "its result is a count, constant wherever it is continuous"},
    {"scatter_last", BACKWARD},
    {"dropout_mask_backward", BACKWARD},
    {"moe_dot", BACKWARD},
    {"sdpa_block", RING},
    {"sdpa_merge", RING},
    {"sdpa_block_backward", BACKWARD},
    {"moe_load", "its result is a count"},
    {"relu_backward", BACKWARD},
    {"gelu_backward", BACKWARD},
    {"silu_backward", BACKWARD},
    {"tanh_backward", BACKWARD},
    {"sigmoid_backward", BACKWARD},
    {"maximum_backward", BACKWARD},
    {"softmax_backward", BACKWARD},
    {"layernorm_backward", BACKWARD},
    {"layernorm_backward_weight", BACKWARD},
    {"rmsnorm_backward", BACKWARD},
    {"rmsnorm_backward_weight", BACKWARD},
    {"rope_backward", BACKWARD},
    {"sdpa_backward", BACKWARD},
    {"matmul_backward_weight", BACKWARD},
    {"max_backward", BACKWARD},
    {"embedding_backward", BACKWARD},
    {"cross_entropy_backward", BACKWARD},
    {"conv2d_backward_input", BACKWARD},
    {"conv2d_backward_weight", BACKWARD},
    {"groupnorm_backward", BACKWARD},
    {"groupnorm_backward_weight", BACKWARD},
    {"quantize", "its results are codes, constant wherever they are continuous"},
    {"dequantize", "its operands are codes and their scale, which training leaves as they are"},
    {"kv_append", "it changes its operand in place, and decoding is not differentiated"},
    {"sdpa_decode", "decoding is not differentiated; sdpa is for training"},
    {"rope_at", "decoding is not differentiated; rope is for training"},
    {"sgd", UPDATE},
    {"sgd_momentum", UPDATE},
    {"adamw", UPDATE},
    {"adamw_master", UPDATE},
    {0},
};
