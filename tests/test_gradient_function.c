/* Gradients by the user's functions, and recomputation: numbers, memory, mistakes, hosts that block
 * them, failing allocations. From scenarios: test_scenarios_checkpoint.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/gradient_function.h"
#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/autograd_net.h"

/* --- a function of one's own: y = 3 x, z = x + w; and what it was asked --- */

struct mine {
    struct orr_runtime *runtime;
    struct orr_tensor *wrong; /* handed out as the gradient of x, if there */
    int calls, releases;
    bool ending, wanted[2], fails, split;
    enum orr_gradient_part parts[2]; /* of the first calls */
};

static struct orr_tensor *scaled(struct orr_runtime *runtime, struct orr_tensor *x, double by,
                                 enum orr_status *status) {
    struct op scale = op_of("scale");
    struct orr_tensor *out = NULL;
    at(&scale, "alpha")->real = by;
    *status = orr_tensor_apply(runtime, scale.op, &x, 1, &scale.attributes, NULL, &out);
    return out;
}

/* dx = 3 dy + dz, dw = 2 dz: w's is not the right one, so that it shows whose it is. */
static enum orr_status my_backward(void *context, enum orr_gradient_part part,
                                   struct orr_tensor *const *gradients, const bool *wanted,
                                   struct orr_tensor **out_gradients) {
    struct mine *mine = context;
    struct op add = op_of("add");
    enum orr_status status;
    if (mine->calls < 2) {
        mine->parts[mine->calls] = part;
    }
    mine->calls++;
    mine->wanted[0] = wanted[0];
    mine->wanted[1] = wanted[1];
    if (mine->wrong) {
        out_gradients[0] = orr_tensor_retain(mine->wrong);
        return ORR_OK;
    }
    struct orr_tensor *terms[2] = {scaled(mine->runtime, gradients[0], 3, &status), gradients[1]};
    if (status == ORR_OK && wanted[0]) {
        status = orr_tensor_apply(mine->runtime, add.op, terms, 2, &add.attributes, NULL,
                                  &out_gradients[0]);
    }
    if (status == ORR_OK && wanted[1]) {
        out_gradients[1] = scaled(mine->runtime, gradients[1], 2, &status);
    }
    orr_tensor_destroy(&terms[0]);
    if (status != ORR_OK || mine->fails) {
        orr_tensor_destroy(&out_gradients[0]);
        orr_tensor_destroy(&out_gradients[1]);
        return status == ORR_OK ? ORR_UNSUPPORTED : status;
    }
    return ORR_OK;
}

static void my_release(void *context, bool ending) {
    struct mine *mine = context;
    mine->releases++;
    mine->ending = ending;
}

/* The function on a tape; y and z belong to the caller. */
static enum orr_status my_forward(struct mine *mine, struct orr_tensor *x, struct orr_tensor *w,
                                  struct orr_tensor **out_y, struct orr_tensor **out_z) {
    struct orr_gradient_function function = {.name = "mine",
                                             .backward = my_backward,
                                             .release = my_release,
                                             .context = mine,
                                             .split = mine->split};
    struct op add = op_of("add");
    struct orr_tensor *inputs[2] = {x, w}, *outputs[2] = {NULL, NULL};
    enum orr_status status;
    orr_gradient_pause(mine->runtime, 0, true);
    outputs[0] = scaled(mine->runtime, x, 3, &status);
    if (status == ORR_OK) {
        status =
            orr_tensor_apply(mine->runtime, add.op, inputs, 2, &add.attributes, NULL, &outputs[1]);
    }
    orr_gradient_pause(mine->runtime, 0, false);
    if (status == ORR_OK) {
        status = orr_gradient_custom(mine->runtime, &function, inputs, 2, outputs, 2, &w, 1);
    } else {
        my_release(mine, false);
    }
    *out_y = outputs[0];
    *out_z = outputs[1];
    return status;
}

static void a_function_gives_the_gradient(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    double dx[6], dw[6], values[6];
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 3, 1, NULL), *w = numbers(&f, 2, 3, 2, NULL), *y, *z;
    for (int use = 0; use < 5; use++) { /* of y, of z, of both; in two parts, and calls */
        struct mine mine = {.runtime = f.runtime, .split = use == 4};
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        must(&f, orr_gradient_tape_watch(tape, x));
        must(&f, orr_gradient_tape_watch(tape, w));
        struct orr_tensor *h = apply(&f, "neg", x, NULL), *wanted[2] = {x, w}, *grads[2];
        must(&f, my_forward(&mine, h, w, &y, &z));
        struct orr_gradient_seed seeds[2] = {{.tensor = y, .value = 10}, {.tensor = z}};
        int first = use == 1, count = use == 0 || use == 1 ? 1 : 2;
        if (use >= 3) {
            must(&f, orr_gradient_inputs(tape, seeds, 2, wanted, 1, grads));
            assert_int_equal(mine.releases, use == 3); /* it has said all that it knows */
            assert_true(mine.wanted[0] && mine.wanted[1] == (use == 3));
            must(&f, orr_gradient_weights(tape, wanted + 1, 1, grads + 1));
        } else {
            must(&f, orr_gradient_from(tape, seeds + first, count, wanted, 2, grads));
        }
        download(&f, grads[0], dx);
        download(&f, grads[1], dw);
        double dy = use == 1 ? 0 : 10, dz = use == 0 ? 0 : 1;
        for (int i = 0; i < 6; i++) {
            assert_true(dx[i] == -(3 * dy + dz));
            assert_true(dw[i] == 2 * dz);
        }
        assert_int_equal(mine.calls, use == 4 ? 2 : 1);
        assert_int_equal(mine.releases, 1);
        assert_true(mine.wanted[0] == (use < 4) && mine.wanted[1] && !mine.ending);
        assert_int_equal(mine.parts[0], use == 4 ? ORR_GRADIENT_INPUTS : ORR_GRADIENT_WHOLE);
        assert_true(use < 4 || mine.parts[1] == ORR_GRADIENT_WEIGHTS);
        struct orr_tensor *gone[] = {h, y, z, grads[0], grads[1]};
        for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
            orr_tensor_destroy(&gone[i]);
        }
        orr_gradient_tape_destroy(&tape);
        assert_int_equal(mine.releases, 1);
    }
    download(&f, x, values);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&w);
    fixture_close(&f);
}

static void a_function_is_released_once_whatever_happens(void **state) {
    (void)state;
    struct mine mine = {0};
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *y, *z, *grad;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = numbers(&f, 2, 3, 1, NULL), *w = numbers(&f, 2, 2, 2, NULL);
    mine.runtime = f.runtime;
    must(&f, my_forward(&mine, x, x, &y, &z)); /* no tape: at once */
    assert_true(mine.releases == 1 && mine.calls == 0);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&z);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    must(&f, my_forward(&mine, w, w, &y, &z)); /* nothing that it follows */
    assert_int_equal(mine.releases, 2);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&z);
    struct orr_gradient_function again = {
        .name = "again", .backward = my_backward, .release = my_release, .context = &mine};
    expect_error(&f, orr_gradient_custom(f.runtime, &again, &x, 1, &x, 1, NULL, 0), ORR_INVALID,
                 "again: result 1 is a tensor that the tape follows already");
    assert_int_equal(mine.releases, 3);
    must(&f, my_forward(&mine, x, x, &y, &z));
    mine.wrong = w;
    struct orr_gradient_seed seed = {.tensor = y};
    expect_error(&f, orr_gradient_from(tape, &seed, 1, &x, 1, &grad), ORR_INVALID,
                 "mine: the gradient of input 1 has shape [2, 2] f64, expected [2, 3] f64");
    orr_gradient_tape_destroy(&tape);
    assert_int_equal(mine.releases, 4);
    mine.wrong = NULL;
    mine.fails = true;
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&z);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    must(&f, my_forward(&mine, x, x, &y, &z));
    seed.tensor = z;
    assert_int_equal(orr_gradient_from(tape, &seed, 1, &x, 1, &grad), ORR_UNSUPPORTED);
    assert_null(grad);
    assert_int_equal(mine.releases, 4); /* until the tape goes, here with the runtime */
    fixture_close(&f);
    assert_true(mine.releases == 5 && mine.ending);
}

/* A function that asks its own tape, and then destroys it. */
static struct orr_gradient_tape *own_tape;
static struct fixture *own_fixture;

static enum orr_status reckless(void *context, enum orr_gradient_part part,
                                struct orr_tensor *const *gradients, const bool *wanted,
                                struct orr_tensor **out_gradients) {
    (void)part;
    struct orr_tensor *x = context, *grad;
    struct orr_gradient_seed seed = {.tensor = x};
    (void)wanted;
    expect_error(own_fixture, orr_gradient_from(own_tape, &seed, 1, &x, 1, &grad), ORR_INVALID,
                 "is being played");
    orr_gradient_tape_destroy(&own_tape);
    out_gradients[0] = orr_tensor_retain(gradients[0]);
    return ORR_OK;
}

static void a_tape_outlives_its_own_functions(void **state) {
    (void)state;
    struct fixture f;
    double value[4];
    fixture_open(&f, orr_sim_open, 1);
    own_fixture = &f;
    struct orr_tensor *x = numbers(&f, 2, 2, 1, NULL), *grad;
    must(&f, orr_gradient_tape_begin(f.runtime, &own_tape));
    must(&f, orr_gradient_tape_watch(own_tape, x));
    orr_gradient_pause(f.runtime, 0, true);
    struct orr_tensor *y = apply(&f, "exp", x, NULL);
    orr_gradient_pause(f.runtime, 0, false);
    struct orr_gradient_function function = {
        .name = "reckless", .backward = reckless, .context = x};
    must(&f, orr_gradient_custom(f.runtime, &function, &x, 1, &y, 1, NULL, 0));
    struct orr_gradient_seed seed = {.tensor = y, .value = 4};
    must(&f, orr_gradient_from(own_tape, &seed, 1, &x, 1, &grad));
    assert_null(own_tape);
    download(&f, grad, value);
    assert_true(value[3] == 4);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&grad);
    fixture_close(&f);
}

/* --- recomputation --- */

/* The net in blocks that are recomputed; `runs` counts. */
struct block {
    struct fixture *f;
    const struct net *net;
    struct orr_tensor *input;
    bool inner; /* the second half is a block of its own */
    int runs, releases;
    const struct net *later; /* the net of the recomputation, if it is another one */
    int blocks;              /* calls that say first that the host is blocked */
    uint32_t *other;         /* a host that comes when it has run */
};

static struct orr_tensor *first_half(struct fixture *f, const struct net *net) {
    struct orr_tensor *h = then(f, "add", apply(f, "matmul", net->x, net->w1), net->b);
    return then(f, "matmul", then(f, "gelu", h, NULL), net->w2);
}

static struct orr_tensor *second_half(struct fixture *f, const struct net *net,
                                      struct orr_tensor *h) {
    struct orr_tensor *product = apply(f, "mul", h, net->x);
    return then(f, "add", product, net->x);
}

static enum orr_status run_second(void *context, struct orr_tensor **outputs) {
    struct block *block = context;
    block->runs++;
    outputs[0] = second_half(block->f, block->net, block->input);
    return ORR_OK;
}

static void block_release(void *context, bool ending) {
    struct block *block = context;
    block->releases++;
    if (!ending) {
        orr_tensor_destroy(&block->input);
    }
}

static struct block inner_block; /* of the blocks below, one at a time */

static struct orr_tensor *whole(struct block *block, const struct net *net) {
    struct fixture *f = block->f;
    struct orr_tensor *h = first_half(f, net), *y;
    if (!block->inner) {
        y = second_half(f, net, h);
        orr_tensor_destroy(&h);
        return y;
    }
    struct orr_checkpoint *checkpoint;
    inner_block = (struct block){.f = f, .net = net, .input = h};
    must(f, orr_checkpoint_begin(f->runtime, &checkpoint));
    y = second_half(f, net, h);
    struct orr_recomputation again = {
        .name = "inner", .run = run_second, .release = block_release, .context = &inner_block};
    must(f, orr_checkpoint_end(&checkpoint, &again, &y, 1, NULL, 0));
    return y;
}

static enum orr_status run_whole(void *context, struct orr_tensor **outputs) {
    struct block *block = context;
    if (block->blocks-- > 0) {
        return ORR_BLOCKED;
    }
    block->runs++;
    outputs[0] = whole(block, block->later ? block->later : block->net);
    if (block->other) {
        must(block->f, orr_runtime_add_host(block->f->runtime, "other", block->other));
    }
    return ORR_OK;
}

/* The forward pass in one block: its result. */
static struct orr_tensor *checkpointed(struct block *block) {
    struct orr_checkpoint *checkpoint;
    struct fixture *f = block->f;
    must(f, orr_checkpoint_begin(f->runtime, &checkpoint));
    struct orr_tensor *y = whole(block, block->net);
    struct orr_recomputation again = {
        .name = "block", .run = run_whole, .release = block_release, .context = block};
    must(f, orr_checkpoint_end(&checkpoint, &again, &y, 1, NULL, 0));
    return y;
}

static void recomputation_keeps_inputs_only_and_gives_the_same_numbers(void **state) {
    (void)state;
    double wanted_values[NET_VALUES], values[NET_VALUES];
    net_reference(wanted_values);
    for (int inner = 0; inner < 2; inner++) {
        struct fixture f;
        struct orr_gradient_tape *tape;
        struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
        fixture_open(&f, orr_sim_open, 1);
        struct net net = net_of(&f, NULL);
        struct block block = {.f = &f, .net = &net, .inner = inner};
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        net_watch(&f, tape, &net);
        struct orr_tensor *y = checkpointed(&block);
        assert_int_equal(orr_gradient_tape_bytes(tape), 0); /* leaves */
        struct orr_tensor *loss = apply(&f, "mean", y, NULL);
        net_wanted(&net, wanted);
        must(&f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
        assert_true(block.runs == 1 && block.releases == 1);
        net_read(&f, grads, values);
        assert_memory_equal(values, wanted_values, sizeof values);
        orr_tensor_destroy(&y);
        orr_tensor_destroy(&loss);
        orr_gradient_tape_destroy(&tape);
        net_free(&net);
        fixture_close(&f);
    }
}

/* The first part runs the block again and goes to its input; the second does the weights, without a
 * third run, and with the work of one gradient. A tape that persists keeps no work, and runs. */
static void a_recomputed_block_gives_gradients_in_two_parts(void **state) {
    (void)state;
    double wanted_values[NET_VALUES], values[NET_VALUES];
    size_t kernels[2];
    net_reference(wanted_values);
    for (int inner = 0; inner < 2; inner++) {
        for (int how = 0; how < 3; how++) { /* in one, in two parts, in portions */
            struct fixture f;
            struct orr_gradient_tape *tape;
            struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
            fixture_open(&f, orr_sim_open, 1);
            struct net net = net_of(&f, NULL);
            struct block block = {.f = &f, .net = &net, .inner = inner};
            must(&f, orr_gradient_tape_begin(f.runtime, &tape));
            net_watch(&f, tape, &net);
            struct orr_tensor *y = checkpointed(&block);
            struct orr_gradient_seed seed = {.tensor = apply(&f, "mean", y, NULL)};
            net_wanted(&net, wanted);
            if (how == 2) {
                orr_gradient_tape_persist(tape);
            }
            if (how == 0) {
                must(&f, orr_gradient_from(tape, &seed, 1, wanted, NET_GRADS, grads));
            } else {
                must(&f, orr_gradient_inputs(tape, &seed, 1, wanted, 1, grads));
                assert_int_equal(block.runs, 1);
                assert_true(orr_gradient_tape_bytes(tape) > 100);
            }
            if (how == 1) {
                must(&f, orr_gradient_weights(tape, wanted + 1, NET_GRADS - 1, grads + 1));
            }
            for (int i = NET_GRADS - 1; how == 2 && i > 0; i--) {
                must(&f, orr_gradient_weights(tape, &wanted[i], 1, &grads[i]));
            }
            assert_int_equal(block.runs, how == 2 ? 3 : 1);
            assert_int_equal(block.releases, how < 2);
            net_read(&f, grads, values);
            assert_memory_equal(values, wanted_values, sizeof values);
            if (how < 2) {
                kernels[how] = kernel_count(&f);
                assert_int_equal(orr_gradient_tape_bytes(tape), 0);
                assert_int_equal(kernels[how], kernels[0]);
            }
            orr_tensor_destroy(&y);
            orr_tensor_destroy(&seed.tensor);
            orr_gradient_tape_destroy(&tape);
            net_free(&net);
            fixture_close(&f);
        }
    }
}

/* What is read from outside of a block that is no watched tensor is kept, and gets its gradient. */
static void a_block_in_the_middle_keeps_what_goes_in(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    double values[2][2][48];
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    for (int recomputes = 0; recomputes < 2; recomputes++) {
        struct orr_tensor *wanted[2] = {net.x, net.w2}, *grads[2], *y;
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        must(&f, orr_gradient_tape_watch(tape, net.x));
        must(&f, orr_gradient_tape_watch(tape, net.w2));
        struct orr_tensor *h = first_half(&f, &net);
        uint64_t before = orr_gradient_tape_bytes(tape);
        struct block block = {.f = &f, .net = &net, .input = orr_tensor_retain(h)};
        if (recomputes) {
            struct orr_checkpoint *checkpoint;
            struct orr_recomputation again = {
                .name = "second", .run = run_second, .release = block_release, .context = &block};
            must(&f, orr_checkpoint_begin(f.runtime, &checkpoint));
            y = second_half(&f, &net, h);
            must(&f, orr_checkpoint_end(&checkpoint, &again, &y, 1, NULL, 0));
        } else {
            y = second_half(&f, &net, h);
        }
        assert_int_equal(orr_gradient_tape_bytes(tape), before + 24 * 8);
        orr_tensor_destroy(&h);
        struct orr_gradient_seed seed = {.tensor = y};
        must(&f, orr_gradient_from(tape, &seed, 1, wanted, 2, grads));
        for (int i = 0; i < 2; i++) {
            memset(values[recomputes][i], 0, sizeof values[0][0]);
        }
        double all[48];
        download(&f, grads[0], all);
        memcpy(values[recomputes][0], all, 24 * sizeof(double));
        download(&f, grads[1], all);
        memcpy(values[recomputes][1], all, 48 * sizeof(double));
        orr_tensor_destroy(&block.input);
        orr_tensor_destroy(&y);
        orr_tensor_destroy(&grads[0]);
        orr_tensor_destroy(&grads[1]);
        orr_gradient_tape_destroy(&tape);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    net_free(&net);
    fixture_close(&f);
}

static void a_recomputation_that_does_something_else_is_named(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *grad;
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL), replaced = net, small = net;
    replaced.w2 = numbers(&f, 8, 6, 3, NULL);
    small.x = numbers(&f, 2, 6, 1, NULL);
    for (int how = 0; how < 2; how++) {
        struct block block = {.f = &f, .net = &net, .later = how ? &small : &replaced};
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        net_watch(&f, tape, &net);
        struct orr_tensor *y = checkpointed(&block);
        struct orr_gradient_seed seed = {.tensor = y};
        expect_error(&f, orr_gradient_from(tape, &seed, 1, &net.w1, 1, &grad), ORR_INVALID,
                     how ? "block: recomputed, result 1 has shape [2, 6] f64; it was [4, 6] f64"
                         : "block: recomputed, it does not read a tensor [8, 6] f64");
        orr_gradient_tape_destroy(&tape);
        assert_int_equal(block.releases, 1);
        orr_tensor_destroy(&y);
    }
    orr_tensor_destroy(&replaced.w2);
    orr_tensor_destroy(&small.x);
    net_free(&net);
    fixture_close(&f);
}

/* Nothing to do: no tape, one that is paused or goes on the way, a part that failed. */
static void a_checkpoint_without_a_tape_changes_nothing(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_checkpoint *checkpoint;
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    struct block block = {.f = &f, .net = &net};
    struct orr_tensor *y = checkpointed(&block);
    assert_true(block.releases == 1 && block.runs == 0);
    orr_tensor_destroy(&y);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    net_watch(&f, tape, &net);
    orr_gradient_tape_pause(tape, true);
    y = checkpointed(&block);
    orr_gradient_tape_pause(tape, false);
    assert_int_equal(block.releases, 2);
    orr_tensor_destroy(&y);
    must(&f, orr_checkpoint_begin(f.runtime, &checkpoint));
    y = apply(&f, "exp", net.x, NULL);
    orr_checkpoint_cancel(&checkpoint);
    orr_checkpoint_cancel(&checkpoint);
    orr_tensor_destroy(&y);
    assert_int_equal(orr_gradient_tape_bytes(tape), 0);
    must(&f, orr_checkpoint_begin(f.runtime, &checkpoint));
    y = apply(&f, "exp", net.x, NULL);
    orr_gradient_tape_destroy(&tape);
    struct orr_recomputation again = {
        .name = "late", .run = run_whole, .release = block_release, .context = &block};
    must(&f, orr_checkpoint_end(&checkpoint, &again, &y, 1, NULL, 0));
    assert_null(checkpoint);
    assert_int_equal(block.releases, 3);
    orr_tensor_destroy(&y);
    net_free(&net);
    fixture_close(&f);
}

/* Run again while another host, whose clock is often the earlier one, blocks it: by a part that
 * says so itself, and where operators of the gradient inside and of the one around it have to
 * wait. (The work itself does not: must() would fail.) */
static void a_blocked_recomputation_goes_on_where_it_was(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    double wanted_values[NET_VALUES], values[NET_VALUES];
    uint32_t other = 0, host = 0;
    int blocks = 0;
    net_reference(wanted_values);
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    struct block block = {.f = &f, .net = &net, .blocks = 3, .other = &other};
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    net_watch(&f, tape, &net);
    struct orr_tensor *y = checkpointed(&block), *loss = apply(&f, "mean", y, NULL);
    net_wanted(&net, wanted);
    for (int i = 0; i < 3; i++) { /* by the function itself */
        assert_int_equal(orr_gradient(tape, loss, wanted, NET_GRADS, grads), ORR_BLOCKED);
    }
    assert_true(block.runs == 0 && block.blocks == 0);
    enum orr_status status = orr_gradient(tape, loss, &wanted[1], 1, grads);
    expect_error(&f, status, ORR_INVALID, "another gradient of this tape was blocked");
    status = ORR_BLOCKED;
    while (status == ORR_BLOCKED) {
        must(&f, orr_runtime_next_host(f.runtime, &host));
        must(&f, orr_runtime_set_caller(f.runtime, host, "test"));
        if (other && host == other) {
            must(&f, orr_runtime_spend(f.runtime, 3000));
            continue;
        }
        status = orr_gradient(tape, loss, wanted, NET_GRADS, grads);
        blocks += status == ORR_BLOCKED;
    }
    must(&f, status);
    orr_runtime_host_done(f.runtime, other);
    assert_true(blocks > 3 && block.runs == 1);
    net_read(&f, grads, values);
    assert_memory_equal(values, wanted_values, sizeof values);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
    net_free(&net);
    fixture_close(&f);
}

/* --- every allocation fails in turn --- */

struct small {
    struct orr_runtime *runtime;
    struct orr_tensor *x, *w; /* retained */
    int releases;
};

static struct orr_tensor *try_apply(struct orr_runtime *runtime, const char *name,
                                    struct orr_tensor *x, struct orr_tensor *y,
                                    enum orr_status *status) {
    struct op call = op_of(name);
    struct orr_tensor *inputs[2] = {x, y}, *out = NULL;
    if (!x) {
        at(&call, "shape")->shape = dims(2, 4, 4, 0, 0);
    }
    if (*status == ORR_OK) {
        *status = orr_tensor_apply(runtime, call.op, inputs, x ? y ? 2 : 1 : 0, &call.attributes,
                                   NULL, &out);
    }
    return out;
}

static enum orr_status run_small(void *context, struct orr_tensor **outputs) {
    struct small *small = context;
    enum orr_status status = ORR_OK;
    struct orr_tensor *h = try_apply(small->runtime, "matmul", small->x, small->w, &status);
    if (status == ORR_OK) {
        outputs[0] = try_apply(small->runtime, "tanh", h, NULL, &status);
    }
    orr_tensor_destroy(&h);
    return status;
}

static void release_small(void *context, bool ending) {
    struct small *small = context;
    small->releases++;
    if (!ending) {
        orr_tensor_destroy(&small->x);
        orr_tensor_destroy(&small->w);
    }
}

static enum orr_status small_block(struct small *small, struct orr_tensor **out_y) {
    struct orr_checkpoint *checkpoint;
    struct orr_recomputation again = {
        .name = "small", .run = run_small, .release = release_small, .context = small};
    enum orr_status status = orr_checkpoint_begin(small->runtime, &checkpoint);
    if (status == ORR_OK) {
        status = run_small(small, out_y);
    }
    if (status != ORR_OK) {
        orr_checkpoint_cancel(&checkpoint);
        release_small(small, false);
        return status;
    }
    return orr_checkpoint_end(&checkpoint, &again, out_y, 1, &small->x, 1);
}

static void recompute_without_memory(struct memory_counting *memory, void *context) {
    struct orr_device_spec spec = spec_for_tests();
    struct orr_error error = {0};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = &spec, .device_count = 1};
    struct orr_runtime *runtime;
    struct orr_gradient_tape *tape = NULL;
    struct orr_tensor *y = NULL, *a = NULL, *b = NULL, *grads[2] = {NULL, NULL};
    enum orr_status status = orr_runtime_create(&config, &runtime, &error);
    if (status != ORR_OK) {
        return;
    }
    struct small small = {.runtime = runtime};
    struct mine mine = {.runtime = runtime, .split = context != NULL};
    bool small_used = false, mine_used = false;
    status = orr_gradient_tape_begin(runtime, &tape);
    struct orr_tensor *x = try_apply(runtime, "randn", NULL, NULL, &status);
    struct orr_tensor *w = try_apply(runtime, "randn", NULL, NULL, &status);
    status = status == ORR_OK ? orr_gradient_tape_watch(tape, x) : status;
    status = status == ORR_OK ? orr_gradient_tape_watch(tape, w) : status;
    if (status == ORR_OK) {
        small.x = orr_tensor_retain(x);
        small.w = orr_tensor_retain(w);
        small_used = true;
        status = small_block(&small, &y);
    }
    if (status == ORR_OK) {
        mine_used = true;
        status = my_forward(&mine, y, w, &a, &b);
    }
    if (status == ORR_OK) {
        struct orr_gradient_seed seeds[2] = {{.tensor = a}, {.tensor = b}};
        struct orr_tensor *wanted[2] = {x, w};
        status = context ? orr_gradient_inputs(tape, seeds, 2, wanted, 1, grads)
                         : orr_gradient_from(tape, seeds, 2, wanted, 2, grads);
        assert_true((status == ORR_OK) == (grads[0] != NULL));
        if (status == ORR_OK && context) {
            status = orr_gradient_weights(tape, wanted + 1, 1, grads + 1);
        }
    }
    status = status == ORR_OK ? orr_runtime_finish(runtime) : status;
    assert_true(status == ORR_OK || orr_runtime_error(runtime)->text[0] != '\0');
    if (memory->fail_later) {
        orr_gradient_tape_destroy(&tape);
    }
    orr_runtime_destroy(&runtime);
    assert_int_equal(small.releases, small_used);
    assert_int_equal(mine.releases, mine_used);
}

static void any_allocation_of_a_recomputation_may_fail(void **state) {
    (void)state;
    bool parts = true;
    size_t requests = fail_each_request(recompute_without_memory, NULL);
    requests += fail_each_request(recompute_without_memory, &parts);
    print_message("# %zu requests\n", requests);
    assert_true(requests > 100);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_gives_the_gradient),
        cmocka_unit_test(a_function_is_released_once_whatever_happens),
        cmocka_unit_test(a_tape_outlives_its_own_functions),
        cmocka_unit_test(recomputation_keeps_inputs_only_and_gives_the_same_numbers),
        cmocka_unit_test(a_recomputed_block_gives_gradients_in_two_parts),
        cmocka_unit_test(a_block_in_the_middle_keeps_what_goes_in),
        cmocka_unit_test(a_recomputation_that_does_something_else_is_named),
        cmocka_unit_test(a_checkpoint_without_a_tape_changes_nothing),
        cmocka_unit_test(a_blocked_recomputation_goes_on_where_it_was),
        cmocka_unit_test(any_allocation_of_a_recomputation_may_fail),
    };
    return cmocka_run_group_tests_name("gradient functions", tests, NULL, NULL);
}
