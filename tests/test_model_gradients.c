/* Gradients of the operators that language models need, over meshes of two axes: they are those of
 * one device, and lie where the table in runtime/autograd.h says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"

enum { INPUTS = 4, SETTINGS = 4 };

#define SHAPE(...)                                                                                 \
    {                                                                                              \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                               \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define F64(...)                                                                                   \
    { ORR_DTYPE_F64, SHAPE(__VA_ARGS__) }
#define I64(...)                                                                                   \
    { ORR_DTYPE_I64, SHAPE(__VA_ARGS__) }

struct operand {
    struct orr_operand_info info;
    const char *dp, *tp; /* where it lies; NULL ends */
    const char *grad;    /* where its gradient lies; NULL: whole numbers have none */
};

struct setting {
    const char *name; /* NULL ends */
    int64_t integer;
    double real;
    struct orr_shape shape;
};

static const struct example {
    const char *op;
    struct operand operands[INPUTS];
    struct setting settings[SETTINGS];
    const char *result; /* where it lies */
} examples[] = {
    {"embedding",
     {{I64(4, 3), "S(0)", "R", NULL}, {F64(10, 2), "R", "S(0)", "[P(sum), S(0)]"}},
     {{0}},
     "[S(0), P(sum)]"},
    {"embedding",
     {{I64(4, 3), "R", "R", NULL}, {F64(10, 2), "S(0)", "S(1)", "[S(0), S(1)]"}},
     {{0}},
     "[P(sum), S(2)]"},
    {"softmax",
     {{F64(2, 4, 6), "S(0)", "S(1)", "[S(0), S(1)]"}},
     {{"causal", 1, 0, {0}}},
     "[S(0), S(1)]"},
    {"matmul", /* experts along dp, groups along tp */
     {{F64(2, 4, 3, 5), "S(0)", "S(1)", "[S(0), S(1)]"},
      {F64(2, 1, 5, 2), "S(0)", "R", "[S(0), P(sum)]"}},
     {{0}},
     "[S(0), S(1)]"},
    {"matmul", /* groups along dp, columns along tp */
     {{F64(2, 4, 3, 5), "S(1)", "R", "[S(1), P(sum)]"},
      {F64(2, 1, 5, 4), "R", "S(3)", "[P(sum), S(3)]"}},
     {{0}},
     "[S(1), S(3)]"},
    {"matmul", /* a batch of x against one weight for all, cut by rows */
     {{F64(2, 4, 3, 6), "S(1)", "S(3)", "[S(1), S(3)]"},
      {F64(2, 1, 6, 4), "R", "S(2)", "[P(sum), S(2)]"}},
     {{0}},
     "[S(1), P(sum)]"},
    {"gather_last",
     {{F64(4, 6), "S(0)", "S(1)", "[S(0), S(1)]"}, {I64(4, 3), "S(0)", "R", NULL}},
     {{0}},
     "[S(0), P(sum)]"},
    {"gather_last",
     {{F64(2, 4, 6), "S(1)", "S(0)", "[S(1), S(0)]"}, {I64(2, 4, 3), "S(1)", "S(0)", NULL}},
     {{0}},
     "[S(1), S(0)]"},
    {"topk", {{F64(4, 2, 6), "S(0)", "S(1)", "[S(0), S(1)]"}}, {{"k", 3, 0, {0}}}, "[S(0), S(1)]"},
    {"cross_entropy", /* one row: another rank has none */
     {{F64(1, 5), "S(0)", "R", "[S(0), R]"}, {I64(1), "S(0)", "R", NULL}},
     {{0}},
     "[P(sum), R]"},
    {"moe_dispatch",
     {{F64(4, 6, 4), "S(0)", "S(1)", "[S(0), S(1)]"},
      {I64(4, 6, 2), "S(0)", "S(1)", NULL},
      {F64(4, 6, 2), "S(0)", "S(1)", "[S(0), S(1)]"}},
     {{"experts", 3, 0, {0}}, {"capacity", 2, 0, {0}}, {"groups", 0, 0, SHAPE(2, 2)}},
     "[S(1), S(2)]"},
    {"moe_dispatch",
     {{F64(4, 6, 4), "S(0)", "S(2)", "[S(0), S(2)]"},
      {I64(4, 6, 2), "S(0)", "R", NULL},
      {F64(4, 6, 2), "S(0)", "R", "[S(0), P(sum)]"}},
     {{"experts", 3, 0, {0}}, {"capacity", 9, 0, {0}}, {"groups", 0, 0, SHAPE(2, 1)}},
     "[S(1), S(4)]"},
    {"moe_combine",
     {{F64(3, 2, 2, 3, 4), "S(1)", "S(2)", "[S(1), S(2)]"},
      {I64(4, 6, 2), "S(0)", "S(1)", NULL},
      {F64(4, 6, 2), "S(0)", "S(1)", "[S(0), S(1)]"}},
     {{0}},
     "[S(0), S(1)]"},
    {"moe_combine",
     {{F64(3, 2, 2, 3, 4), "S(1)", "S(4)", "[S(1), S(4)]"},
      {I64(4, 6, 2), "S(0)", "R", NULL},
      {F64(4, 6, 2), "S(0)", "R", "[S(0), P(sum)]"}},
     {{0}},
     "[S(0), S(2)]"},
    {"dropout_mask",
     {{F64(4, 6), "S(1)", "S(0)", "[S(1), S(0)]"}},
     {{"seed", 3, 0, {0}}},
     "[S(1), S(0)]"},
};

/* Whole numbers are 0, 1 or 2; the others differ from each other. */
static void fill(const struct operand *operand, int index, double *values) {
    int64_t count = orr_shape_count(&operand->info.shape);
    for (int64_t i = 0; i < count; i++) {
        values[i] = operand->info.dtype == ORR_DTYPE_I64
                        ? (double)((i * 5 + 1) % 3)
                        : (double)((i * 7 + 3 * index) % 11) / 4 - 1 + (double)i / 512;
    }
}

static int count_of(const struct example *example) {
    int count = 0;
    while (count < INPUTS && example->operands[count].dp) {
        count++;
    }
    return count;
}

static struct op call_of(const struct example *example) {
    struct op call = op_of(example->op);
    for (int i = 0; i < SETTINGS && example->settings[i].name; i++) {
        const struct setting *setting = &example->settings[i];
        *at(&call, setting->name) =
            (struct orr_attribute){setting->integer, setting->real, setting->shape};
    }
    return call;
}

/* sum(c y), y gathered: every element has a weight of its own. */
static struct orr_tensor *weigh(struct fixture *f, struct orr_tensor *y) {
    struct orr_layout whole = orr_layout_replicated(orr_tensor_layout(y)->mesh);
    struct orr_shape shape = tensor_shape(y);
    double values[VALUES_MAX];
    for (int64_t i = 0; i < orr_shape_count(&shape); i++) {
        values[i] = 1 + 0.25 * (double)(i * 7 % 13) - 0.5 * (double)(i % 3);
    }
    struct orr_tensor *c = upload(f, orr_tensor_info(y)->dtype, shape, values, &whole);
    struct orr_tensor *loss = then(f, "sum", then(f, "mul", moved(f, y, &whole), c), NULL);
    orr_tensor_destroy(&c);
    return loss;
}

/* Values of the result, then of the gradients, one after the other. `dp` x `tp` devices; layouts
 * are compared if there are several. */
static int64_t results(const struct example *example, int64_t dp, int64_t tp, double *values) {
    struct fixture f;
    struct orr_mesh *mesh;
    struct orr_gradient_tape *tape;
    struct orr_tensor *inputs[INPUTS], *wanted[INPUTS], *grads[INPUTS];
    struct op call = call_of(example);
    int count = count_of(example), floats = 0;
    fixture_open(&f, orr_sim_open, (uint32_t)(dp * tp));
    must(&f, orr_mesh_create(f.runtime, 2, (int64_t[]){dp, tp}, (const char *[]){"dp", "tp"}, NULL,
                             &mesh));
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    for (int i = 0; i < count; i++) {
        const struct operand *operand = &example->operands[i];
        struct orr_layout layout = place(mesh, operand->dp, operand->tp);
        double numbers[VALUES_MAX];
        fill(operand, i, numbers);
        inputs[i] = upload(&f, operand->info.dtype, operand->info.shape, numbers, &layout);
        if (operand->grad) {
            must(&f, orr_gradient_tape_watch(tape, inputs[i]));
            wanted[floats++] = inputs[i];
        }
    }
    struct orr_tensor *y = run(&f, &call, inputs, count);
    assert_layout(y, example->result);
    download(&f, y, values);
    struct orr_shape shape = tensor_shape(y);
    int64_t used = orr_shape_count(&shape);
    struct orr_tensor *loss = weigh(&f, y);
    must(&f, orr_gradient(tape, loss, wanted, floats, grads));
    for (int i = 0, next = 0; i < count; i++) {
        if (example->operands[i].grad) {
            assert_layout(grads[next], example->operands[i].grad);
            download(&f, grads[next], values + used);
            used += orr_shape_count(&example->operands[i].info.shape);
            orr_tensor_destroy(&grads[next++]);
        }
        orr_tensor_destroy(&inputs[i]);
    }
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
    fixture_close(&f);
    return used;
}

static void gradients_over_a_mesh_are_those_of_one_device(void **state) {
    (void)state;
    static const int64_t meshes[][2] = {{2, 1}, {1, 2}, {2, 2}};
    static double wanted[4 * VALUES_MAX], got[4 * VALUES_MAX];
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        int64_t count = results(&examples[i], 1, 1, wanted);
        for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
            assert_int_equal(results(&examples[i], meshes[m][0], meshes[m][1], got), count);
            for (int64_t k = 0; k < count; k++) {
                if (!near_f64(got[k], wanted[k], 1e-12)) {
                    fail_msg("row %d, %s, %d x %d: value %d is %.17g, on one device %.17g", (int)i,
                             examples[i].op, (int)meshes[m][0], (int)meshes[m][1], (int)k, got[k],
                             wanted[k]);
                }
            }
        }
    }
}

/* A rank's share of a loss may have no rows at all. */
static void a_loss_of_no_rows_has_a_gradient(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *dx;
    struct op call = op_of("cross_entropy");
    double loss;
    fixture_open(&f, orr_sim_open, 1);
    at(&call, "total")->integer = 4;
    struct orr_tensor *inputs[2] = {upload(&f, ORR_DTYPE_F64, dims(2, 0, 5, 0, 0), &loss, NULL),
                                    upload(&f, ORR_DTYPE_I64, dims(1, 0, 0, 0, 0), &loss, NULL)};
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, inputs[0]));
    struct orr_tensor *y = run(&f, &call, inputs, 2);
    download(&f, y, &loss);
    assert_true(loss == 0);
    must(&f, orr_gradient(tape, y, inputs, 1, &dx));
    struct orr_shape shape = tensor_shape(dx);
    assert_true(shape.rank == 2 && shape.dims[0] == 0 && shape.dims[1] == 5);
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&dx);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&inputs[0]);
    orr_tensor_destroy(&inputs[1]);
    fixture_close(&f);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_over_a_mesh_are_those_of_one_device),
        cmocka_unit_test(a_loss_of_no_rows_has_a_gradient),
    };
    return cmocka_run_group_tests_name("model gradients", tests, NULL, NULL);
}
