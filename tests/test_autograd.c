/* Tapes: what they keep, what they refuse, hosts that block them, regions, failing allocations. The
 * rules are tested in test_autograd_rules.c, meshes in test_autograd_mesh.c, several tapes in
 * test_autograd_tapes.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/loss_scale.h"
#include "runtime/operators/gemm.h"
#include "runtime/region.h"
#include "sim/sim.h"
#include "tests/autograd_net.h"

/* --- what a tape keeps --- */

static uint64_t allocated(const struct fixture *f) {
    return orr_device_memory(f->runtime, 0).requested;
}

static void a_tape_keeps_what_gradients_need_and_lets_it_go(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    uint64_t before = allocated(&f);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, net.w1));
    struct orr_tensor *product = apply(&f, "matmul", net.x, net.w1);
    assert_int_equal(orr_gradient_tape_bytes(tape), 24 * 8); /* x, not w1: nobody wants dx */
    struct orr_tensor *sum = then(&f, "add", product, net.b);
    assert_int_equal(orr_gradient_tape_bytes(tape), 24 * 8); /* an addition needs nothing */
    struct orr_tensor *h = then(&f, "relu", sum, NULL);
    assert_int_equal(orr_gradient_tape_bytes(tape), (24 + 32) * 8); /* its result */
    struct orr_tensor *unrelated = apply(&f, "relu", net.x, NULL);
    assert_int_equal(orr_gradient_tape_bytes(tape), (24 + 32) * 8);
    struct orr_tensor *loss = apply(&f, "sum", h, NULL), *dw;
    orr_tensor_destroy(&h); /* the tape has it */
    assert_true(allocated(&f) > before + 32 * 8);
    must(&f, orr_gradient(tape, loss, &net.w1, 1, &dw));
    assert_int_equal(orr_gradient_tape_bytes(tape), 0);
    orr_tensor_destroy(&loss);
    orr_tensor_destroy(&unrelated);
    assert_int_equal(allocated(&f), before + 48 * 8); /* dw */
    orr_tensor_destroy(&dw);
    orr_gradient_tape_destroy(&tape);
    assert_int_equal(allocated(&f), before);
    net_free(&net);
    fixture_close(&f);
}

static void a_tape_that_persists_can_be_played_again(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    double first[NET_VALUES], second[NET_VALUES];
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    orr_gradient_tape_persist(tape);
    net_watch(&f, tape, &net);
    struct orr_tensor *loss = net_loss(&f, &net);
    net_wanted(&net, wanted);
    must(&f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
    net_read(&f, grads, first);
    must(&f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
    net_read(&f, grads, second);
    assert_memory_equal(first, second, sizeof first);
    orr_gradient_tape_destroy(&tape);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape)); /* without: once */
    net_watch(&f, tape, &net);
    orr_tensor_destroy(&loss);
    loss = net_loss(&f, &net);
    must(&f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
    net_read(&f, grads, second);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(orr_gradient(tape, loss, wanted, NET_GRADS, grads), ORR_INVALID);
    assert_non_null(strstr(fixture_error(&f), "used up"));
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
    net_free(&net);
    fixture_close(&f);
}

static void intermediates_seeds_and_unrelated_tensors_have_gradients_too(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    double values[VALUES_MAX];
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 3, 1, NULL), *other = numbers(&f, 2, 2, 2, NULL);
    struct orr_tensor *seed_value = numbers(&f, 2, 3, 3, NULL), *grads[4];
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    must(&f, orr_gradient_tape_watch(tape, x));
    must(&f, orr_gradient_tape_watch(tape, other));
    struct orr_tensor *y = apply(&f, "neg", x, NULL), *z = apply(&f, "add", y, x);
    orr_gradient_tape_pause(tape, true);
    struct orr_tensor *aside = apply(&f, "exp", x, NULL);
    orr_gradient_tape_pause(tape, false);
    struct orr_gradient_seed seeds[2] = {{.tensor = z, .gradient = seed_value}, {.tensor = y}};
    struct orr_tensor *wanted[4] = {x, y, other, x};
    must(&f, orr_gradient_from(tape, seeds, 2, wanted, 4, grads));
    double seed[6];
    download(&f, seed_value, seed);
    download(&f, grads[1], values); /* dy = seed + 1 */
    for (int i = 0; i < 6; i++) {
        assert_true(near_f64(values[i], seed[i] + 1, 1e-15));
    }
    download(&f, grads[0], values); /* dx = seed - dy */
    for (int i = 0; i < 6; i++) {
        assert_true(near_f64(values[i], -1, 1e-15));
    }
    download(&f, grads[2], values);
    for (int i = 0; i < 4; i++) {
        assert_true(values[i] == 0);
    }
    assert_ptr_equal(grads[3], grads[0]); /* asked for twice: two handles */
    struct orr_tensor *gone[] = {x,          y,        z,        other,    aside,
                                 seed_value, grads[0], grads[1], grads[2], grads[3]};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    orr_gradient_tape_destroy(&tape);
    fixture_close(&f);
}

/* --- what it refuses --- */

static void mistakes_are_named(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape, *second;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 3, 1, NULL), *y, *grad, *out = NULL;
    double zeros[2] = {0};
    struct orr_tensor *indices = upload(&f, ORR_DTYPE_I64, dims(1, 2, 0, 0, 0), zeros, NULL);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    expect_error(&f, orr_gradient_tape_begin(f.runtime, &second), ORR_INVALID, "records already");
    assert_null(second);
    expect_error(&f, orr_gradient_tape_watch(tape, indices), ORR_INVALID, "i64");
    y = apply(&f, "neg", x, NULL); /* before the watch */
    must(&f, orr_gradient_tape_watch(tape, x));
    struct orr_tensor *z = apply(&f, "neg", x, NULL), *sum = apply(&f, "sum", y, NULL);
    struct orr_gradient_seed wrong = {.tensor = z, .gradient = sum};
    expect_error(&f, orr_gradient(tape, z, &x, 1, &out), ORR_INVALID, "shape [2, 3]");
    assert_null(out);
    expect_error(&f, orr_gradient(tape, sum, &x, 1, &out), ORR_INVALID, "depends on nothing");
    expect_error(&f, orr_gradient_from(tape, &wrong, 1, &x, 1, &out), ORR_INVALID, "[] f64");
    struct orr_gradient_seed right = {.tensor = z};
    expect_error(&f, orr_gradient_from(tape, &right, 1, &y, 1, &out), ORR_INVALID,
                 "wanted tensor 1");
    /* These came before it was played: it is not used up, and what has no gradient is found now. */
    struct orr_tensor *odd = apply(&f, "relu_backward", z, y);
    struct orr_gradient_seed from_odd = {.tensor = odd};
    expect_error(&f, orr_gradient_from(tape, &from_odd, 1, &x, 1, &out), ORR_UNSUPPORTED,
                 "relu_backward");
    assert_null(out);
    expect_error(&f, orr_gradient_tape_watch(tape, x), ORR_INVALID, "played");
    must(&f, orr_gradient_tape_begin(f.runtime, &second)); /* the first does not record any more */
    must(&f, orr_gradient_tape_watch(second, x));
    grad = apply(&f, "neg", x, NULL);
    orr_gradient_tape_destroy(&second);
    assert_null(second);
    orr_gradient_tape_destroy(&second);
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *gone[] = {x, y, z, sum, odd, indices, grad};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

/* --- several passes --- */

static void partial_sums_stay_partial_until_one_is_whole(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_layout rows = place(mesh, "S(0)", NULL), columns = place(mesh, "S(1)", NULL);
    struct orr_layout whole = place(mesh, "R", NULL);
    struct orr_tensor *a = numbers(&f, 4, 4, 1, &columns), *b = numbers(&f, 4, 4, 2, &rows);
    struct orr_tensor *partial = apply(&f, "matmul", a, b), *full, *sum = NULL;
    double one[16], total[16];
    must(&f, orr_tensor_redistribute(partial, &whole, &full));
    download(&f, full, one);
    must(&f, orr_gradient_accumulate(&sum, partial));
    assert_ptr_equal(sum, partial);
    must(&f, orr_gradient_accumulate(&sum, partial));
    assert_layout(sum, "P(sum)");
    must(&f, orr_gradient_accumulate(&sum, full));
    assert_layout(sum, "R");
    must(&f, orr_gradient_accumulate(&sum, partial));
    assert_layout(sum, "R");
    download(&f, sum, total);
    for (int i = 0; i < 16; i++) {
        assert_true(near_f64(total[i], 4 * one[i], 1e-14));
    }
    struct orr_tensor *kept = sum;
    expect_error(&f, orr_gradient_accumulate(&sum, a), ORR_INVALID, "add");
    assert_ptr_equal(sum, kept);
    struct orr_tensor *gone[] = {a, b, partial, full, sum};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

/* Another host is often the earlier one: the sum is reduced once, and added once. */
static void a_blocked_sum_goes_on_where_it_was(void **state) {
    (void)state;
    struct fixture f;
    uint32_t other, host;
    int blocks = 0;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_layout rows = place(mesh, "S(0)", NULL), columns = place(mesh, "S(1)", NULL);
    struct orr_tensor *a = numbers(&f, 4, 4, 1, &columns), *b = numbers(&f, 4, 4, 2, &rows);
    struct orr_tensor *sum = apply(&f, "matmul", a, b), *whole = numbers(&f, 4, 4, 3, NULL);
    struct orr_tensor *partial = orr_tensor_retain(sum);
    double values[16], parts[2][16];
    size_t reduced = record_count(&f, ORR_RECORD_COLLECTIVE);
    must(&f, orr_runtime_add_host(f.runtime, "other", &other));
    enum orr_status status = ORR_BLOCKED;
    while (status == ORR_BLOCKED) {
        must(&f, orr_runtime_next_host(f.runtime, &host));
        must(&f, orr_runtime_set_caller(f.runtime, host, "test"));
        if (host == other) {
            must(&f, orr_runtime_spend(f.runtime, 500));
            continue;
        }
        status = orr_gradient_accumulate(&sum, whole);
        blocks += status == ORR_BLOCKED;
        assert_true(status == ORR_OK || sum == partial);
    }
    must(&f, status);
    orr_runtime_host_done(f.runtime, other);
    assert_true(blocks >= 1); /* between the two */
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), reduced + 1);
    download(&f, sum, values);
    assert_int_equal(kernel_count(&f), 4); /* a product and an addition on two devices */
    download(&f, partial, parts[0]);
    download(&f, whole, parts[1]);
    for (int i = 0; i < 16; i++) {
        assert_true(near_f64(values[i], parts[0][i] + parts[1][i], 1e-14));
    }
    struct orr_tensor *gone[] = {a, b, sum, partial, whole};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    fixture_close(&f);
}

/* A whole scaled step in C: the factor is too large at first, then the gradients are those of the
 * plain loss. */
static void a_loss_scale_backs_off_until_gradients_are_finite(void **state) {
    (void)state;
    struct fixture f;
    double x[8], got[8] = {0}, bad = 1;
    fixture_open(&f, orr_sim_open, 1);
    for (int i = 0; i < 8; i++) {
        x[i] = 0.25 * (i + 1);
    }
    struct orr_tensor *w = upload(&f, ORR_DTYPE_F16, dims(1, 8, 0, 0, 0), x, NULL);
    struct orr_loss_scale scale = orr_loss_scale_default();
    for (int step = 0; bad > 0; step++) {
        struct orr_gradient_tape *tape;
        struct orr_tensor *grad;
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        must(&f, orr_gradient_tape_watch(tape, w));
        struct orr_tensor *loss = then(&f, "sum", apply(&f, "mul", w, w), NULL);
        struct orr_gradient_seed seed = {.tensor = loss, .value = scale.factor};
        must(&f, orr_gradient_from(tape, &seed, 1, &w, 1, &grad));
        struct orr_tensor *count = apply(&f, "count_nonfinite", grad, NULL);
        download(&f, count, &bad);
        double factor = scale.factor;
        assert_int_equal(orr_loss_scale_update(&scale, bad), bad == 0);
        struct op unscale = op_of("scale");
        at(&unscale, "alpha")->real = 1 / factor;
        struct orr_tensor *plain = run(&f, &unscale, &grad, 1);
        download(&f, plain, got);
        struct orr_tensor *gone[] = {loss, grad, count, plain};
        for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
            orr_tensor_destroy(&gone[i]);
        }
        orr_gradient_tape_destroy(&tape);
        assert_true(step < 5);
    }
    assert_true(scale.left_out == 3 && scale.factor == 8192); /* 2 * 2 * 16384 is none in f16 */
    for (int i = 0; i < 8; i++) {
        assert_true(near_f64(got[i], 2 * x[i], 1e-3));
    }
    scale.interval = 3;
    for (int i = 0; i < 5; i++) {
        assert_true(orr_loss_scale_update(&scale, 0));
    }
    assert_true(scale.factor == 32768); /* one of the loop and five: twice three */
    orr_tensor_destroy(&w);
    fixture_close(&f);
}

/* --- hosts --- */

/* A second host whose clock is often the earlier one blocks the first in the middle of its
 * gradient, which repeats the call: the same numbers, and no kernel twice. */
static void a_blocked_gradient_goes_on_where_it_was(void **state) {
    (void)state;
    double values[2][NET_VALUES];
    size_t counts[2];
    int blocks = 0;
    for (int busy = 0; busy < 2; busy++) {
        struct fixture f;
        struct orr_gradient_tape *tape;
        struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
        uint32_t other = 0, host = 0;
        fixture_open(&f, orr_sim_open, 1);
        struct net net = net_of(&f, NULL);
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        net_watch(&f, tape, &net);
        struct orr_tensor *loss = net_loss(&f, &net);
        net_wanted(&net, wanted);
        if (busy) {
            must(&f, orr_runtime_add_host(f.runtime, "other", &other));
        }
        enum orr_status status = ORR_BLOCKED;
        while (status == ORR_BLOCKED) {
            must(&f, orr_runtime_next_host(f.runtime, &host));
            must(&f, orr_runtime_set_caller(f.runtime, host, "test"));
            if (host == other && busy) {
                must(&f, orr_runtime_spend(f.runtime, 3000));
                continue;
            }
            status = orr_gradient(tape, loss, wanted, NET_GRADS, grads);
            if (status == ORR_BLOCKED && blocks++ == 5) { /* no other call may go on with it */
                expect_error(&f, orr_gradient(tape, loss, &wanted[1], 1, grads), ORR_INVALID,
                             "another gradient of this tape was blocked; repeat that call");
            }
        }
        must(&f, status);
        if (busy) {
            orr_runtime_host_done(f.runtime, other);
        }
        net_read(&f, grads, values[busy]);
        counts[busy] = kernel_count(&f);
        orr_tensor_destroy(&loss);
        orr_gradient_tape_destroy(&tape);
        net_free(&net);
        fixture_close(&f);
    }
    assert_true(blocks > 10);
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(values[0], values[1], sizeof values[0]);
}

/* --- regions --- */

static enum orr_status traced_step(void *context, struct orr_tensor *const *inputs, int count,
                                   struct orr_tensor **outputs, int max, int *out_count) {
    struct fixture *f = context;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS];
    struct net net = {inputs[0], inputs[1], inputs[2], inputs[3]};
    assert_true(count == 4 && max >= NET_GRADS);
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    net_watch(f, tape, &net);
    struct orr_tensor *loss = net_loss(f, &net);
    net_wanted(&net, wanted);
    must(f, orr_gradient(tape, loss, wanted, NET_GRADS, outputs));
    *out_count = NET_GRADS;
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
    return ORR_OK;
}

static void a_captured_step_replays_the_same_gradients(void **state) {
    (void)state;
    double wanted[NET_VALUES], got[NET_VALUES];
    net_reference(wanted);
    for (int mode = ORR_FUSION_OFF; mode <= ORR_FUSION_EPILOGUE; mode++) {
        for (int capture = 0; capture < 2; capture++) {
            struct fixture f;
            struct orr_compiled *compiled;
            fixture_open(&f, orr_sim_open, 1);
            struct net net = net_of(&f, NULL);
            must(&f, orr_compiled_create(f.runtime, "step", (enum orr_fusion_mode)mode, capture,
                                         &compiled));
            for (int i = 0; i < 3; i++) {
                struct orr_tensor *inputs[NET_GRADS], *outputs[NET_GRADS];
                int count;
                net_wanted(&net, inputs);
                must(&f, orr_compiled_call(compiled, inputs, NET_GRADS, traced_step, &f, outputs,
                                           NET_GRADS, &count));
                net_read(&f, outputs, got);
                assert_memory_equal(got, wanted, sizeof got);
            }
            assert_int_equal(orr_compiled_counts(compiled).replays, 2 * capture);
            orr_compiled_destroy(&compiled);
            net_free(&net);
            fixture_close(&f);
        }
    }
}

static void a_compiled_function_is_not_called_while_a_tape_records(void **state) {
    (void)state;
    struct fixture f;
    struct orr_compiled *compiled;
    struct orr_gradient_tape *tape;
    int count;
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    struct orr_tensor *inputs[NET_GRADS], *outputs[NET_GRADS];
    net_wanted(&net, inputs);
    must(&f, orr_compiled_create(f.runtime, "step", ORR_FUSION_OFF, true, &compiled));
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    expect_error(
        &f,
        orr_compiled_call(compiled, inputs, NET_GRADS, traced_step, &f, outputs, NET_GRADS, &count),
        ORR_INVALID, "'step' is called while a tape records");
    orr_gradient_tape_destroy(&tape);
    orr_compiled_destroy(&compiled);
    net_free(&net);
    fixture_close(&f);
}

/* Attention's gradient has three results, which later nodes of a region read. */
static enum orr_status traced_attention(void *context, struct orr_tensor *const *inputs, int count,
                                        struct orr_tensor **outputs, int max, int *out_count) {
    struct fixture *f = context;
    struct op sdpa = op_of("sdpa");
    struct orr_gradient_tape *tape;
    (void)max;
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    for (int i = 0; i < count; i++) {
        must(f, orr_gradient_tape_watch(tape, inputs[i]));
    }
    struct orr_tensor *y = run(f, &sdpa, inputs, 3), *grads[3];
    struct orr_gradient_seed seed = {.tensor = y};
    y = NULL;
    must(f, orr_gradient_from(tape, &seed, 1, inputs, 3, grads));
    outputs[0] = then(f, "tanh", then(f, "neg", grads[0], NULL), NULL);
    outputs[1] = then(f, "neg", then(f, "mul", grads[1], grads[2]), NULL);
    outputs[2] = then(f, "exp", then(f, "sub", grads[2], outputs[1]), NULL);
    *out_count = 3;
    orr_tensor_destroy(&seed.tensor);
    orr_gradient_tape_destroy(&tape);
    return ORR_OK;
}

static void results_of_one_operator_stay_apart_in_regions(void **state) {
    (void)state;
    double values[2][3][32];
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *qkv[3], *outputs[3];
    for (int i = 0; i < 3; i++) {
        double numbers[32];
        for (int k = 0; k < 32; k++) {
            numbers[k] = 0.1 * ((k * 7 + i * 5) % 13) - 0.5;
        }
        qkv[i] = upload(&f, ORR_DTYPE_F64, dims(4, 1, 2, 4, 4), numbers, NULL);
    }
    for (int fused = 0; fused < 2; fused++) {
        struct orr_compiled *compiled;
        int count;
        must(&f,
             orr_compiled_create(f.runtime, "attention",
                                 fused ? ORR_FUSION_POINTWISE : ORR_FUSION_OFF, fused, &compiled));
        must(&f, orr_compiled_call(compiled, qkv, 3, traced_attention, &f, outputs, 3, &count));
        for (int i = 0; i < 3; i++) {
            download(&f, outputs[i], values[fused][i]);
            orr_tensor_destroy(&outputs[i]);
        }
        orr_compiled_destroy(&compiled);
    }
    for (int i = 0; i < 3; i++) {
        assert_values(values[1][i], values[0][i], 32, 0);
        orr_tensor_destroy(&qkv[i]);
    }
    fixture_close(&f);
}

/* --- every allocation fails in turn --- */

struct steps {
    struct orr_runtime *runtime;
    enum orr_status status;
};

static struct orr_tensor *try_apply(struct steps *p, const char *name, struct orr_tensor *x,
                                    struct orr_tensor *y) {
    struct op call = op_of(name);
    struct orr_tensor *inputs[2] = {x, y}, *out = NULL;
    if (p->status == ORR_OK) {
        p->status =
            orr_tensor_apply(p->runtime, call.op, inputs, y ? 2 : 1, &call.attributes, NULL, &out);
    }
    return out;
}

static struct orr_tensor *try_source(struct steps *p, struct orr_mesh *mesh, const char *text) {
    struct op call = op_of("randn");
    struct orr_tensor *out = NULL;
    at(&call, "shape")->shape = dims(2, 4, 4, 0, 0);
    if (p->status == ORR_OK) {
        struct orr_layout layout = place(mesh, text, NULL);
        p->status = orr_tensor_apply(p->runtime, call.op, NULL, 0, &call.attributes, &layout, &out);
    }
    return out;
}

static void train_without_memory(struct memory_counting *memory, void *context) {
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct orr_error error = {0};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 2};
    struct steps p = {0};
    struct orr_gradient_tape *tape = NULL;
    struct orr_tensor *grads[2] = {NULL, NULL}, *sum = NULL;
    (void)context;
    p.status = orr_runtime_create(&config, &p.runtime, &error);
    if (p.status != ORR_OK) {
        return;
    }
    struct orr_mesh *mesh = orr_mesh_default(p.runtime);
    p.status = mesh ? orr_gradient_tape_begin(p.runtime, &tape) : ORR_NO_MEMORY;
    struct orr_tensor *x = try_source(&p, mesh, "S(0)"), *w = try_source(&p, mesh, "R");
    if (p.status == ORR_OK) {
        p.status = orr_gradient_tape_watch(tape, w);
    }
    struct orr_tensor *y = try_apply(&p, "matmul", x, w), *z = try_apply(&p, "tanh", y, NULL);
    struct orr_tensor *product = try_apply(&p, "matmul", z, w);
    struct orr_tensor *loss = try_apply(&p, "mean", product, NULL), *wanted[2] = {w, y};
    if (p.status == ORR_OK) {
        p.status = orr_gradient(tape, loss, wanted, 2, grads);
        assert_true((p.status == ORR_OK) == (grads[0] != NULL));
        assert_true((p.status == ORR_OK) == (grads[1] != NULL));
    }
    for (int i = 0; i < 2 && p.status == ORR_OK; i++) {
        p.status = orr_gradient_accumulate(&sum, grads[0]);
    }
    if (p.status == ORR_OK) {
        p.status = orr_runtime_finish(p.runtime);
    }
    if (p.status != ORR_OK) {
        assert_true(p.status == ORR_NO_MEMORY || p.status == ORR_DEVICE_FAILED);
        assert_true(!mesh || orr_runtime_error(p.runtime)->text[0] != '\0');
    }
    orr_tensor_destroy(&z); /* the rest is left to the runtime, and the tape in half of the runs */
    orr_tensor_destroy(&sum);
    if (memory->fail_later) {
        orr_gradient_tape_destroy(&tape);
    }
    orr_runtime_destroy(&p.runtime);
}

static void any_allocation_of_a_training_step_may_fail(void **state) {
    (void)state;
    size_t requests = fail_each_request(train_without_memory, NULL);
    print_message("# %zu requests\n", requests);
    assert_true(requests > 100);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tape_keeps_what_gradients_need_and_lets_it_go),
        cmocka_unit_test(a_tape_that_persists_can_be_played_again),
        cmocka_unit_test(intermediates_seeds_and_unrelated_tensors_have_gradients_too),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(partial_sums_stay_partial_until_one_is_whole),
        cmocka_unit_test(a_blocked_sum_goes_on_where_it_was),
        cmocka_unit_test(a_loss_scale_backs_off_until_gradients_are_finite),
        cmocka_unit_test(a_blocked_gradient_goes_on_where_it_was),
        cmocka_unit_test(a_captured_step_replays_the_same_gradients),
        cmocka_unit_test(a_compiled_function_is_not_called_while_a_tape_records),
        cmocka_unit_test(results_of_one_operator_stay_apart_in_regions),
        cmocka_unit_test(any_allocation_of_a_training_step_may_fail),
    };
    return cmocka_run_group_tests_name("autograd", tests, NULL, NULL);
}
