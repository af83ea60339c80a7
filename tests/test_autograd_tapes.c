/* Several tapes: stopped ones that wait, with the same tensors watched, played while another one
 * records; tensors that went; what tapes keep, by device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/autograd_net.h"

enum { BATCHES = 5 };

/* A micro-batch in flight: its tape has stopped. */
struct batch {
    struct net net; /* x is its own, the weights are everybody's */
    struct orr_gradient_tape *tape;
    struct orr_tensor *loss;
};

static void batch_forward(struct fixture *f, struct batch *batch, const struct net *weights,
                          int number) {
    batch->net = *weights;
    batch->net.x = numbers(f, 4, 6, 10 + number, NULL);
    must(f, orr_gradient_tape_begin(f->runtime, &batch->tape));
    net_watch(f, batch->tape, &batch->net);
    batch->loss = net_loss(f, &batch->net);
    orr_gradient_tape_stop(batch->tape);
}

static void batch_backward(struct fixture *f, struct batch *batch, double *values) {
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    net_wanted(&batch->net, wanted);
    must(f, orr_gradient(batch->tape, batch->loss, wanted, NET_GRADS, grads));
    net_read(f, grads, values);
    orr_gradient_tape_destroy(&batch->tape);
    orr_tensor_destroy(&batch->net.x);
    orr_tensor_destroy(&batch->loss);
}

/* The same numbers whether the batches come one after the other or all in flight at once, and end
 * in whatever order. */
static void stopped_tapes_wait_with_the_same_parameters(void **state) {
    (void)state;
    static const int orders[2][BATCHES] = {{0, 1, 2, 3, 4}, {3, 0, 4, 2, 1}};
    struct fixture f;
    struct batch batches[BATCHES];
    double one[BATCHES][NET_VALUES], many[NET_VALUES];
    fixture_open(&f, orr_sim_open, 1);
    struct net weights = net_of(&f, NULL);
    for (int i = 0; i < BATCHES; i++) {
        batch_forward(&f, &batches[i], &weights, i);
        batch_backward(&f, &batches[i], one[i]);
    }
    for (int order = 0; order < 2; order++) {
        for (int i = 0; i < BATCHES; i++) {
            batch_forward(&f, &batches[i], &weights, i);
        }
        for (int i = 0; i < BATCHES; i++) {
            int next = orders[order][i];
            batch_backward(&f, &batches[next], many);
            assert_memory_equal(many, one[next], sizeof many);
        }
    }
    net_free(&weights);
    fixture_close(&f);
}

/* 1F1B: the backward pass of one batch runs in the middle of the next one's forward pass, whose
 * tape sees nothing of it. */
static void a_tape_is_played_while_another_one_records(void **state) {
    (void)state;
    struct fixture f;
    struct batch first, second;
    double alone[NET_VALUES], got[NET_VALUES], reference[NET_VALUES];
    fixture_open(&f, orr_sim_open, 1);
    struct net weights = net_of(&f, NULL);
    batch_forward(&f, &first, &weights, 0);
    batch_backward(&f, &first, alone);
    batch_forward(&f, &second, &weights, 1);
    uint64_t kept = orr_gradient_tape_bytes(second.tape);
    batch_backward(&f, &second, reference);
    batch_forward(&f, &first, &weights, 0);
    second.net = weights;
    second.net.x = numbers(&f, 4, 6, 11, NULL);
    must(&f, orr_gradient_tape_begin(f.runtime, &second.tape));
    net_watch(&f, second.tape, &second.net);
    batch_backward(&f, &first, got);
    assert_memory_equal(got, alone, sizeof got);
    assert_int_equal(orr_gradient_tape_bytes(second.tape), 0);
    second.loss = net_loss(&f, &second.net);
    assert_int_equal(orr_gradient_tape_bytes(second.tape), kept);
    batch_backward(&f, &second, got);
    assert_memory_equal(got, reference, sizeof got);
    net_free(&weights);
    fixture_close(&f);
}

static void a_stopped_tape_takes_nothing_more(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape, *second;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 3, 1, NULL), *grad, *out = NULL;
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    struct orr_tensor *y = apply(&f, "mul", x, x), *loss = apply(&f, "sum", y, NULL);
    orr_gradient_tape_stop(tape);
    orr_gradient_tape_stop(tape);
    struct orr_tensor *late = apply(&f, "neg", x, NULL);
    struct orr_gradient_seed seed = {.tensor = late};
    expect_error(&f, orr_gradient_from(tape, &seed, 1, &x, 1, &out), ORR_INVALID,
                 "depends on nothing");
    expect_error(&f, orr_gradient_tape_watch(tape, late), ORR_INVALID, "has been stopped");
    must(&f, orr_gradient_tape_begin(f.runtime, &second));
    must(&f, orr_gradient_tape_watch(second, y)); /* what another tape made can be watched */
    struct orr_tensor *z = apply(&f, "exp", y, NULL);
    orr_gradient_tape_destroy(&second);
    must(&f, orr_gradient(tape, loss, &x, 1, &grad));
    double values[6], wanted[6];
    download(&f, x, wanted);
    download(&f, grad, values);
    for (int i = 0; i < 6; i++) {
        assert_true(values[i] == 2 * wanted[i]);
    }
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *gone[] = {x, y, loss, late, z, grad};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

/* A handle's memory is used again at once: the new tensor is another one to the tape. */
static void a_tensor_in_the_place_of_a_freed_one_is_not_followed(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    bool reused = false;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 3, 1, NULL), *y, *grad;
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    for (int i = 0; i < 1000; i++) {
        y = apply(&f, "neg", x, NULL);
        const void *before = y;
        orr_tensor_destroy(&y);
        struct orr_tensor *stranger = numbers(&f, 2, 3, 2, NULL);
        reused = reused || before == stranger;
        struct orr_gradient_seed seed = {.tensor = stranger};
        expect_error(&f, orr_gradient_from(tape, &seed, 1, &x, 1, &grad), ORR_INVALID,
                     "depends on nothing");
        orr_tensor_destroy(&stranger);
    }
    print_message("# an address was used again: %s\n", reused ? "yes" : "no");
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&x);
    fixture_close(&f);
}

/* Thousands of tensors: the table of numbers grows over and over. */
static void long_tapes_find_their_tensors(void **state) {
    (void)state;
    enum { LENGTH = 3000 };
    struct fixture f;
    struct orr_gradient_tape *tape;
    fixture_open(&f, orr_sim_open, 1);
    double one = 1, value;
    struct orr_tensor *x = upload(&f, ORR_DTYPE_F64, dims(0, 0, 0, 0, 0), &one, NULL), *grad;
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    struct orr_tensor *y = apply(&f, "neg", x, NULL);
    for (int i = 1; i < LENGTH; i++) {
        y = then(&f, "add", y, x);
    }
    must(&f, orr_gradient(tape, y, &x, 1, &grad));
    download(&f, grad, &value);
    assert_true(value == LENGTH - 2);
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&grad);
    fixture_close(&f);
}

/* mul(x, x), and a product with the reshaped weight: memory counts once, a leaf's not at all. */
static void memory_counts_once_and_leaves_do_not_count(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct op reshape = op_of("reshape");
    fixture_open(&f, orr_sim_open, 3);
    struct orr_layout rows = place(orr_mesh_default(f.runtime), "S(0)", NULL);
    struct orr_tensor *x = numbers(&f, 4, 6, 1, &rows), *w = numbers(&f, 4, 6, 2, NULL);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, w));
    at(&reshape, "shape")->shape = dims(2, 6, 4, 0, 0);
    struct orr_tensor *turned = run(&f, &reshape, &w, 1);
    struct orr_tensor *h = apply(&f, "matmul", x, turned); /* keeps x, and w by its other name */
    struct orr_tensor *square = apply(&f, "mul", h, h), *again = apply(&f, "mul", h, square);
    assert_int_equal(orr_gradient_tape_bytes(tape), (24 + 16 + 16) * 8); /* x, h, square */
    uint64_t all = 0;
    for (uint32_t device = 0; device < 3; device++) { /* 2, 2 and 0 rows */
        uint64_t rows_there = device < 2 ? 2 : 0;
        uint64_t there = orr_gradient_tape_bytes_on(tape, device);
        assert_int_equal(there, (rows_there * 6 + rows_there * 4 * 2) * 8);
        all += there;
    }
    assert_int_equal(all, orr_gradient_tape_bytes(tape));
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *gone[] = {x, w, turned, h, square, again};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_tapes_wait_with_the_same_parameters),
        cmocka_unit_test(a_tape_is_played_while_another_one_records),
        cmocka_unit_test(a_stopped_tape_takes_nothing_more),
        cmocka_unit_test(a_tensor_in_the_place_of_a_freed_one_is_not_followed),
        cmocka_unit_test(long_tapes_find_their_tensors),
        cmocka_unit_test(memory_counts_once_and_leaves_do_not_count),
    };
    return cmocka_run_group_tests_name("autograd: several tapes", tests, NULL, NULL);
}
