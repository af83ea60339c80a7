#include "tests/gradient_trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

int64_t roll(struct dice *dice, int64_t low, int64_t high) {
    return low + (int64_t)random_below(&dice->state, (uint64_t)(high - low + 1));
}

struct orr_shape random_shape(struct dice *dice, int rank, int64_t most) {
    struct orr_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.dims[i] = roll(dice, 1, most);
    }
    return shape;
}

struct orr_shape shrunk(struct dice *dice, const struct orr_shape *full) {
    struct orr_shape shape = *full;
    for (int i = 0; i < shape.rank; i++) {
        shape.dims[i] = roll(dice, 0, 2) == 0 ? 1 : shape.dims[i];
    }
    int dropped = roll(dice, 0, 1) == 0 ? 0 : (int)roll(dice, 0, shape.rank);
    return orr_shape_of(shape.rank - dropped, shape.dims + dropped);
}

void trial_operand(struct trial *trial, enum orr_dtype dtype, struct orr_shape shape) {
    trial->shapes[trial->count] = shape;
    trial->dtypes[trial->count++] = dtype;
}

/* Values on a lattice that is another one for each operand, so that no two of them meet, none is 0,
 * and a step of 1e-5 passes no corner. Within an operand they differ from each other. */
static void draw_values(struct trial *trial, struct dice *dice, double low, double high) {
    for (int i = 0; i < trial->count; i++) {
        int64_t count = orr_shape_count(&trial->shapes[i]);
        if (trial->values[i]) {
            continue; /* the case's own */
        }
        trial->values[i] = calloc((size_t)count + 1, sizeof(double));
        assert_non_null(trial->values[i]);
        for (int64_t k = 0; k < count; k++) {
            double steps = floor((high - low) / 0.04);
            double lattice = (double)roll(dice, 0, (int64_t)steps) * 0.04 + 0.01 * (i + 0.5);
            trial->values[i][k] = low + lattice + (double)k * 5e-3 / (double)(count + 1);
        }
    }
}

void free_trial(struct trial *trial) {
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

/* The operator, and what all its results of floats weigh. */
static struct orr_tensor *loss_of(struct fixture *f, const struct trial *trial,
                                  struct orr_tensor *const *inputs) {
    const struct op *call = &trial->call;
    struct orr_tensor *outputs[ORR_OUTPUTS_MAX], *loss = NULL;
    must(f, orr_tensor_apply(f->runtime, call->op, inputs, trial->count, &call->attributes, NULL,
                             outputs));
    for (int i = 0; i < call->op->outputs; i++) {
        if (orr_dtype_is_float(orr_tensor_info(outputs[i])->dtype)) {
            struct orr_tensor *part = weigh(f, outputs[i]);
            loss = loss ? then(f, "add", loss, part) : orr_tensor_retain(part);
            orr_tensor_destroy(&part);
        }
        orr_tensor_destroy(&outputs[i]);
    }
    assert_non_null(loss);
    return loss;
}

static double value_of(struct fixture *f, const struct trial *trial) {
    struct orr_tensor *inputs[TRIAL_OPERANDS_MAX];
    double value;
    put_operands(f, trial, inputs);
    struct orr_tensor *loss = loss_of(f, trial, inputs);
    download(f, loss, &value);
    orr_tensor_destroy(&loss);
    for (int i = 0; i < trial->count; i++) {
        orr_tensor_destroy(&inputs[i]);
    }
    return value;
}

/* Gradients by tape of the float operands; got[i] has room for VALUES_MAX numbers. */
static void gradients_of(struct fixture *f, const struct trial *trial, double (*got)[VALUES_MAX]) {
    struct orr_tensor *inputs[TRIAL_OPERANDS_MAX], *wanted[TRIAL_OPERANDS_MAX],
        *grads[TRIAL_OPERANDS_MAX];
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
    struct orr_tensor *loss = loss_of(f, trial, inputs);
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
    orr_tensor_destroy(&loss);
}

static void check_trial(struct fixture *f, struct trial *trial) {
    const double step = 1e-5;
    static double got[TRIAL_OPERANDS_MAX][VALUES_MAX];
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

void draw_trial(struct trial *trial, const struct gradient_case *entry, struct dice *dice) {
    *trial = (struct trial){.call = op_of(entry->op)};
    entry->make(trial, dice);
    draw_values(trial, dice, entry->low, entry->high);
}

void check_gradient_case(struct fixture *f, const struct gradient_case *entry, struct dice *dice) {
    struct trial trial;
    draw_trial(&trial, entry, dice);
    check_trial(f, &trial);
    free_trial(&trial);
}
