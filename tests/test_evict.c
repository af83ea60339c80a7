/* Tensors whose memory goes and comes back: what goes with them and what does not, tapes that keep
 * them, captured functions, mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "runtime/region.h"
#include "sim/sim.h"
#include "tests/autograd_net.h"

static uint64_t allocated(const struct fixture *f, uint32_t device) {
    return orr_device_memory(f->runtime, device).requested;
}

static struct orr_tensor *reshaped(struct fixture *f, struct orr_tensor *x, int64_t rows,
                                   int64_t columns) {
    struct op reshape = op_of("reshape");
    at(&reshape, "shape")->shape = dims(2, rows, columns, 0, 0);
    return run(f, &reshape, &x, 1);
}

/* A parameter's shards are gathered for the forward pass and again for the gradient: in between,
 * the tape's whole weight takes no memory. The numbers are those without. */
static void a_gathered_weight_goes_between_the_passes(void **state) {
    (void)state;
    double values[2][36];
    uint64_t between[2];
    for (int evicts = 0; evicts < 2; evicts++) {
        struct fixture f;
        struct orr_gradient_tape *tape;
        fixture_open(&f, orr_sim_open, 2);
        struct orr_mesh *mesh = orr_mesh_default(f.runtime);
        struct orr_layout rows = place(mesh, "S(0)", NULL), whole = place(mesh, "R", NULL);
        struct orr_tensor *x = numbers(&f, 4, 6, 1, &rows), *w = numbers(&f, 6, 6, 2, &rows);
        struct orr_tensor *full, *again, *grads[2];
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        must(&f, orr_gradient_tape_watch(tape, w));
        must(&f, orr_gradient_tape_watch(tape, x));
        must(&f, orr_tensor_redistribute(w, &whole, &full));
        struct orr_tensor *turned = reshaped(&f, full, 6, 6); /* kept by the tape, too */
        struct orr_tensor *y = apply(&f, "matmul", x, turned);
        orr_gradient_tape_stop(tape);
        orr_tensor_destroy(&turned);
        uint64_t kept = orr_gradient_tape_bytes(tape);
        if (evicts) {
            must(&f, orr_tensor_evict(full));
            must(&f, orr_tensor_evict(full));
            assert_int_equal(orr_gradient_tape_bytes(tape), kept - 2 * 36 * 8);
        }
        between[evicts] = allocated(&f, 1);
        if (evicts) {
            must(&f, orr_tensor_redistribute(w, &whole, &again));
            must(&f, orr_tensor_restore(full, again));
            orr_tensor_destroy(&again);
            assert_int_equal(orr_gradient_tape_bytes(tape), kept);
        }
        struct orr_gradient_seed seed = {.tensor = y};
        struct orr_tensor *wanted[2] = {w, x};
        must(&f, orr_gradient_from(tape, &seed, 1, wanted, 2, grads));
        assert_layout(grads[0], "S(0)");
        double dx[24];
        download(&f, grads[0], values[evicts]);
        download(&f, grads[1], dx);
        struct orr_tensor *gone[] = {x, w, full, y, grads[0], grads[1]};
        for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
            orr_tensor_destroy(&gone[i]);
        }
        orr_gradient_tape_destroy(&tape);
        assert_int_equal(allocated(&f, 0), 0);
        fixture_close(&f);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    assert_int_equal(between[0] - between[1], 36 * 8);
}

static void use_of_an_evicted_tensor_is_named(void **state) {
    (void)state;
    struct fixture f;
    double values[36];
    fixture_open(&f, orr_sim_open, 2);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_layout rows = place(mesh, "S(0)", NULL);
    struct orr_tensor *x = numbers(&f, 6, 6, 1, NULL), *y = numbers(&f, 6, 6, 2, NULL), *out;
    struct orr_tensor *flat = reshaped(&f, x, 4, 9), *sharded = numbers(&f, 6, 6, 1, &rows);
    struct op neg = op_of("neg");
    struct orr_future *future;
    must(&f, orr_tensor_evict(flat)); /* and x with it */
    assert_null(orr_tensor_buffer(x, 0));
    struct orr_tensor *both[2] = {x, flat};
    for (int i = 0; i < 2; i++) {
        expect_error(&f,
                     orr_tensor_apply(f.runtime, neg.op, &both[i], 1, &neg.attributes, NULL, &out),
                     ORR_INVALID, "neg: operand x has been evicted; restore it first");
        expect_error(&f, orr_tensor_redistribute(both[i], &rows, &out), ORR_INVALID,
                     "redistribute: the tensor has been evicted");
        expect_error(&f, orr_tensor_future(both[i], &future), ORR_INVALID,
                     "future: the tensor has been evicted");
    }
    expect_error(&f, orr_tensor_restore(x, flat), ORR_INVALID,
                 "restore: the tensor has been evicted");
    expect_error(&f, orr_tensor_restore(flat, y), ORR_INVALID,
                 "restore: memory of [6, 6] f64 R for a tensor [4, 9] f64 R");
    expect_error(&f, orr_tensor_restore(x, sharded), ORR_INVALID,
                 "restore: memory of [6, 6] f64 S(0) for a tensor [6, 6] f64 R");
    expect_error(&f, orr_tensor_restore(y, x), ORR_INVALID, "has not been evicted");
    must(&f, orr_tensor_restore(x, y));
    download(&f, flat, values);
    double wanted[36];
    download(&f, y, wanted);
    assert_memory_equal(values, wanted, sizeof values);
    must(&f, orr_tensor_evict(y)); /* x keeps what they shared */
    download(&f, x, values);
    assert_memory_equal(values, wanted, sizeof values);
    struct orr_tensor *gone[] = {x, y, flat, sharded};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    assert_int_equal(allocated(&f, 0), 0);
    fixture_close(&f);
}

/* Commands that read it have not run when it is evicted: they read what it was. */
static void memory_stays_until_its_readers_are_done(void **state) {
    (void)state;
    struct fixture f;
    double before[36], after[36];
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 6, 6, 1, NULL);
    struct orr_tensor *y = apply(&f, "neg", x, NULL);
    must(&f, orr_tensor_evict(x));
    struct orr_tensor *other = numbers(&f, 6, 6, 1, NULL), *noise = numbers(&f, 6, 6, 9, NULL);
    download(&f, y, after);
    must(&f, orr_tensor_restore(x, other));
    download(&f, x, before);
    for (int i = 0; i < 36; i++) {
        assert_true(after[i] == -before[i]);
    }
    struct orr_tensor *gone[] = {x, y, other, noise};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

/* --- captured functions --- */

static struct orr_tensor *external;

static enum orr_status multiply(void *context, struct orr_tensor *const *inputs, int count,
                                struct orr_tensor **outputs, int max, int *out_count) {
    struct orr_runtime *runtime = context;
    struct op mul = op_of("mul");
    struct orr_tensor *operands[2] = {inputs[0], external};
    assert_true(count == 1 && max > 0);
    *out_count = 1;
    outputs[0] = NULL;
    enum orr_status status =
        orr_tensor_apply(runtime, mul.op, operands, 2, &mul.attributes, NULL, &outputs[0]);
    *out_count = status == ORR_OK;
    return status;
}

/* The program of a captured function has the memory of its operands: with other memory it is
 * captured anew. */
static void a_captured_function_sees_restored_memory(void **state) {
    (void)state;
    struct fixture f;
    struct orr_compiled *compiled;
    double values[4], a[4], b[4];
    int count;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 2, 1, NULL), *other = numbers(&f, 2, 2, 2, NULL), *y;
    external = numbers(&f, 2, 2, 3, NULL);
    must(&f, orr_compiled_create(f.runtime, "multiply", ORR_FUSION_OFF, true, &compiled));
    for (int i = 0; i < 2; i++) {
        must(&f, orr_compiled_call(compiled, &x, 1, multiply, f.runtime, &y, 1, &count));
        orr_tensor_destroy(&y);
    }
    assert_int_equal(orr_compiled_counts(compiled).replays, 1);
    must(&f, orr_tensor_evict(external));
    expect_error(&f, orr_compiled_call(compiled, &x, 1, multiply, f.runtime, &y, 1, &count),
                 ORR_INVALID, "mul: operand y has been evicted");
    must(&f, orr_tensor_restore(external, other));
    for (int i = 0; i < 3; i++) {
        must(&f, orr_compiled_call(compiled, &x, 1, multiply, f.runtime, &y, 1, &count));
        download(&f, y, values);
        download(&f, x, a);
        download(&f, other, b);
        for (int k = 0; k < 4; k++) {
            assert_true(values[k] == a[k] * b[k]);
        }
        orr_tensor_destroy(&y);
    }
    assert_int_equal(orr_compiled_counts(compiled).replays, 3);
    must(&f, orr_tensor_evict(x));
    expect_error(&f, orr_compiled_call(compiled, &x, 1, multiply, f.runtime, &y, 1, &count),
                 ORR_INVALID, "multiply: the tensor has been evicted");
    orr_compiled_destroy(&compiled);
    struct orr_tensor *gone[] = {x, other, external};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

static enum orr_status evict_inside(void *context, struct orr_tensor *const *inputs, int count,
                                    struct orr_tensor **outputs, int max, int *out_count) {
    (void)context;
    (void)count;
    (void)outputs;
    (void)max;
    *out_count = 0;
    return orr_tensor_evict(inputs[0]);
}

static void a_compiled_function_does_not_evict(void **state) {
    (void)state;
    struct fixture f;
    struct orr_compiled *compiled;
    int count;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 2, 1, NULL), *y;
    must(&f, orr_compiled_create(f.runtime, "inside", ORR_FUSION_POINTWISE, false, &compiled));
    expect_error(&f, orr_compiled_call(compiled, &x, 1, evict_inside, NULL, &y, 1, &count),
                 ORR_INVALID, "evict: a compiled function does not follow it");
    orr_compiled_destroy(&compiled);
    orr_tensor_destroy(&x);
    fixture_close(&f);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gathered_weight_goes_between_the_passes),
        cmocka_unit_test(use_of_an_evicted_tensor_is_named),
        cmocka_unit_test(memory_stays_until_its_readers_are_done),
        cmocka_unit_test(a_captured_function_sees_restored_memory),
        cmocka_unit_test(a_compiled_function_does_not_evict),
    };
    return cmocka_run_group_tests_name("evicted tensors", tests, NULL, NULL);
}
