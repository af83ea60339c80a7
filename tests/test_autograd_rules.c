/* Every rule against finite differences in f64, on random shapes and attributes; the seed is
 * printed and can be set by ORR_TEST_SEED. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"

enum { OPERANDS_MAX = 4 };

struct dice {
    uint64_t state;
};

static int64_t roll(struct dice *dice, int64_t low, int64_t high) {
    return low + (int64_t)random_below(&dice->state, (uint64_t)(high - low + 1));
}

/* A case: an operator, attributes and operands for one random trial. */
struct trial {
    struct op call;
    int count;
    struct orr_shape shapes[OPERANDS_MAX];
    enum orr_dtype dtypes[OPERANDS_MAX];
    double *values[OPERANDS_MAX];
};

static void operand(struct trial *trial, enum orr_dtype dtype, struct orr_shape shape) {
    trial->shapes[trial->count] = shape;
    trial->dtypes[trial->count++] = dtype;
}

/* Values on a lattice that is another one for each operand, so that no two of them meet, none is 0,
 * and a step of 1e-5 passes no corner. Within an operand they differ from each other. */
static void draw_values(struct trial *trial, struct dice *dice, double low, double high) {
    for (int i = 0; i < trial->count; i++) {
        int64_t count = orr_shape_count(&trial->shapes[i]);
        trial->values[i] = calloc((size_t)count + 1, sizeof(double));
        assert_non_null(trial->values[i]);
        for (int64_t k = 0; k < count; k++) {
            double steps = floor((high - low) / 0.04);
            double lattice = (double)roll(dice, 0, (int64_t)steps) * 0.04 + 0.01 * (i + 0.5);
            trial->values[i][k] = low + lattice + (double)k * 5e-3 / (double)(count + 1);
        }
    }
}

static void free_values(struct trial *trial) {
    for (int i = 0; i < trial->count; i++) {
        free(trial->values[i]);
    }
}

static void put_operands(struct fixture *f, const struct trial *trial, struct orr_tensor **inputs) {
    for (int i = 0; i < trial->count; i++) {
        inputs[i] = upload(f, trial->dtypes[i], trial->shapes[i], trial->values[i], NULL);
    }
}

/* sum(c y): every element of the result takes part, with a weight of its own. */
static struct orr_tensor *weigh(struct fixture *f, struct orr_tensor *y) {
    struct orr_shape shape = tensor_shape(y);
    int64_t count = orr_shape_count(&shape);
    double values[VALUES_MAX];
    for (int64_t i = 0; i < count; i++) {
        values[i] = 1 + 0.25 * (double)(i * 7 % 11) - 0.5 * (double)(i % 3);
    }
    struct orr_tensor *weights = upload(f, orr_tensor_info(y)->dtype, shape, values, NULL);
    struct orr_tensor *product = apply(f, "mul", y, weights), *sum = apply(f, "sum", product, NULL);
    orr_tensor_destroy(&weights);
    orr_tensor_destroy(&product);
    return sum;
}

static double value_of(struct fixture *f, const struct trial *trial) {
    struct orr_tensor *inputs[OPERANDS_MAX];
    double value;
    put_operands(f, trial, inputs);
    struct orr_tensor *y = run(f, &trial->call, inputs, trial->count), *loss = weigh(f, y);
    download(f, loss, &value);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&loss);
    for (int i = 0; i < trial->count; i++) {
        orr_tensor_destroy(&inputs[i]);
    }
    return value;
}

/* Gradients by tape of the float operands; got[i] has room for VALUES_MAX numbers. */
static void gradients_of(struct fixture *f, const struct trial *trial, double (*got)[VALUES_MAX]) {
    struct orr_tensor *inputs[OPERANDS_MAX], *wanted[OPERANDS_MAX], *grads[OPERANDS_MAX];
    struct orr_gradient_tape *tape;
    int count = 0;
    put_operands(f, trial, inputs);
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    for (int i = 0; i < trial->count; i++) {
        if (trial->dtypes[i] == ORR_DTYPE_F64) {
            must(f, orr_gradient_tape_watch(tape, inputs[i]));
            wanted[count++] = inputs[i];
        }
    }
    struct orr_tensor *y = run(f, &trial->call, inputs, trial->count), *loss = weigh(f, y);
    must(f, orr_gradient(tape, loss, wanted, count, grads));
    for (int i = 0, next = 0; i < trial->count; i++) {
        if (trial->dtypes[i] == ORR_DTYPE_F64) {
            struct orr_shape shape = tensor_shape(grads[next]);
            assert_true(orr_shape_equal(&shape, &trial->shapes[i]));
            download(f, grads[next], got[i]);
            orr_tensor_destroy(&grads[next++]);
        }
        orr_tensor_destroy(&inputs[i]);
    }
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&loss);
}

static void check_trial(struct fixture *f, struct trial *trial) {
    const double step = 1e-5;
    static double got[OPERANDS_MAX][VALUES_MAX];
    gradients_of(f, trial, got);
    for (int i = 0; i < trial->count; i++) {
        int64_t count = orr_shape_count(&trial->shapes[i]);
        for (int64_t k = 0; trial->dtypes[i] == ORR_DTYPE_F64 && k < count; k++) {
            double kept = trial->values[i][k];
            trial->values[i][k] = kept + step;
            double above = value_of(f, trial);
            trial->values[i][k] = kept - step;
            double below = value_of(f, trial);
            trial->values[i][k] = kept;
            double slope = (above - below) / (2 * step);
            if (!near_f64(got[i][k], slope, 2e-6)) {
                char text[ORR_SHAPE_TEXT_MAX];
                fail_msg("%s: gradient of operand %d %s, element %lld: %.12g, by differences %.12g",
                         trial->call.op->name, i, orr_shape_text(&trial->shapes[i], text),
                         (long long)k, got[i][k], slope);
            }
        }
    }
}

/* --- the cases: each makes one random trial --- */

static struct orr_shape random_shape(struct dice *dice, int rank, int64_t most) {
    struct orr_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.dims[i] = roll(dice, 1, most);
    }
    return shape;
}

/* Some dimensions 1, some leading ones left out. */
static struct orr_shape shrunk(struct dice *dice, const struct orr_shape *full) {
    struct orr_shape shape = *full;
    for (int i = 0; i < shape.rank; i++) {
        shape.dims[i] = roll(dice, 0, 2) == 0 ? 1 : shape.dims[i];
    }
    int dropped = roll(dice, 0, 1) == 0 ? 0 : (int)roll(dice, 0, shape.rank);
    return orr_shape_of(shape.rank - dropped, shape.dims + dropped);
}

static void make_binary(struct trial *trial, struct dice *dice) {
    struct orr_shape full = random_shape(dice, (int)roll(dice, 0, 3), 4);
    operand(trial, ORR_DTYPE_F64, shrunk(dice, &full));
    operand(trial, ORR_DTYPE_F64, shrunk(dice, &full));
}

static void make_unary(struct trial *trial, struct dice *dice) {
    operand(trial, ORR_DTYPE_F64, random_shape(dice, (int)roll(dice, 0, 3), 4));
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
    x.dims[x.rank++] = a ? k : m;
    x.dims[x.rank++] = a ? m : k;
    w.dims[w.rank++] = b ? n : k;
    w.dims[w.rank++] = b ? k : n;
    at(&trial->call, "transpose_a")->integer = a;
    at(&trial->call, "transpose_b")->integer = b;
    operand(trial, ORR_DTYPE_F64, x);
    operand(trial, ORR_DTYPE_F64, w);
}

static void make_linear(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 3);
    int64_t in = x.dims[x.rank - 1], out = roll(dice, 1, 4);
    operand(trial, ORR_DTYPE_F64, x);
    operand(trial, ORR_DTYPE_F64, dims(2, out, in, 0, 0));
    if (roll(dice, 0, 1)) {
        operand(trial, ORR_DTYPE_F64, dims(1, out, 0, 0, 0));
    }
}

static void make_softmax(struct trial *trial, struct dice *dice) {
    operand(trial, ORR_DTYPE_F64, random_shape(dice, (int)roll(dice, 1, 3), 5));
}

static void make_norm(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 4);
    int64_t width = roll(dice, 3, 6);
    x.dims[x.rank - 1] = width;
    at(&trial->call, "eps")->real = 1e-2;
    operand(trial, ORR_DTYPE_F64, x);
    int extra = (int)roll(dice, 0, trial->call.op->inputs_max - 1);
    for (int i = 0; i < extra; i++) {
        operand(trial, ORR_DTYPE_F64, dims(1, width, 0, 0, 0));
    }
}

static void make_rope(struct trial *trial, struct dice *dice) {
    at(&trial->call, "offset")->integer = roll(dice, 0, 5);
    operand(trial, ORR_DTYPE_F64,
            dims(3, roll(dice, 1, 3), roll(dice, 1, 4), 2 * roll(dice, 1, 3), 0));
}

static void make_sdpa(struct trial *trial, struct dice *dice) {
    int64_t b = roll(dice, 1, 2), hkv = roll(dice, 1, 2), group = roll(dice, 1, 2);
    int64_t s = roll(dice, 1, 3), t = s + roll(dice, 0, 2), d = roll(dice, 1, 3);
    at(&trial->call, "causal")->integer = roll(dice, 0, 1);
    at(&trial->call, "scale")->real = roll(dice, 0, 1) ? 0.7 : 0;
    operand(trial, ORR_DTYPE_F64, dims(4, b, hkv * group, s, d));
    operand(trial, ORR_DTYPE_F64, dims(4, b, hkv, t, d));
    operand(trial, ORR_DTYPE_F64, dims(4, b, hkv, t, roll(dice, 1, 3)));
}

static void make_reduction(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 4);
    at(&trial->call, "dim")->integer =
        roll(dice, 0, 3) == 0 ? ORR_DIM_ALL : roll(dice, -x.rank, x.rank - 1);
    at(&trial->call, "keepdim")->integer = roll(dice, 0, 1);
    operand(trial, ORR_DTYPE_F64, x);
}

static void make_mean(struct trial *trial, struct dice *dice) {
    at(&trial->call, "total")->integer = roll(dice, 0, 1) ? 7 : 0;
    make_reduction(trial, dice);
}

static void make_embedding(struct trial *trial, struct dice *dice) {
    operand(trial, roll(dice, 0, 1) ? ORR_DTYPE_I64 : ORR_DTYPE_I32,
            random_shape(dice, (int)roll(dice, 0, 2), 4));
    operand(trial, ORR_DTYPE_F64, dims(2, 2, roll(dice, 1, 4), 0, 0));
}

static void make_cross_entropy(struct trial *trial, struct dice *dice) {
    int64_t n = roll(dice, 1, 5);
    at(&trial->call, "total")->integer = roll(dice, 0, 1) ? 9 : 0;
    operand(trial, ORR_DTYPE_F64, dims(2, n, roll(dice, 2, 5), 0, 0));
    operand(trial, ORR_DTYPE_I64, dims(1, n, 0, 0, 0));
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
    operand(trial, ORR_DTYPE_F64, x);
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
    operand(trial, ORR_DTYPE_F64, x);
}

static void make_concat(struct trial *trial, struct dice *dice) {
    struct orr_shape x = random_shape(dice, (int)roll(dice, 1, 3), 3);
    int64_t dim = roll(dice, 0, x.rank - 1);
    int count = (int)roll(dice, 1, 4);
    at(&trial->call, "dim")->integer = roll(dice, 0, 1) ? dim : dim - x.rank;
    for (int i = 0; i < count; i++) {
        x.dims[dim] = roll(dice, 1, 3);
        operand(trial, ORR_DTYPE_F64, x);
    }
}

static void make_reshape(struct trial *trial, struct dice *dice) {
    int64_t a = roll(dice, 1, 3), b = roll(dice, 1, 3), c = roll(dice, 1, 3);
    at(&trial->call, "shape")->shape =
        roll(dice, 0, 1) ? dims(2, a * b, c, 0, 0) : dims(2, a, -1, 0, 0);
    operand(trial, ORR_DTYPE_F64, dims(3, a, b, c, 0));
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
    operand(trial, ORR_DTYPE_F64, x);
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
    operand(trial, ORR_DTYPE_F64, x);
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
    operand(trial, ORR_DTYPE_F64, x);
}

static const struct {
    const char *op;
    void (*make)(struct trial *trial, struct dice *dice);
    double low, high; /* of the operands' values */
} cases[] = {
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
};

static void every_rule_agrees_with_finite_differences(void **state) {
    (void)state;
    struct fixture f;
    struct dice dice = {.state = random_seed(1)};
    fixture_open(&f, orr_sim_open, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int k = 0; k < 12; k++) {
            struct trial trial = {.call = op_of(cases[i].op)};
            cases[i].make(&trial, &dice);
            draw_values(&trial, &dice, cases[i].low, cases[i].high);
            check_trial(&f, &trial);
            free_values(&trial);
        }
    }
    fixture_close(&f);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_agrees_with_finite_differences),
    };
    return cmocka_run_group_tests_name("autograd rules", tests, NULL, NULL);
}
