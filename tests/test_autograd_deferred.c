/* Gradients in two parts: of inputs, then of weights. Same numbers, same work as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/gradient_trial.h"
#include "tests/autograd_net.h"

/* The net's tape with its weights cast, turned and redistributed before use: nodes between a weight
 * and the way to the input. */
static struct orr_tensor *long_way_loss(struct fixture *f, const struct net *net) {
    struct op reshape = op_of("reshape"), cast = op_of("cast");
    struct net used = *net;
    at(&reshape, "shape")->shape = dims(2, 6, 8, 0, 0);
    at(&cast, "dtype")->integer = ORR_DTYPE_F64;
    struct orr_tensor *turned = apply(f, "transpose", net->w1, NULL);
    turned = then(f, "neg", then(f, "transpose", turned, NULL), NULL);
    used.w1 = run(f, &reshape, &turned, 1);
    used.w2 = run(f, &cast, &net->w2, 1);
    used.b = apply(f, "mul", net->b, net->b);
    struct orr_tensor *loss = net_loss(f, &used);
    struct orr_tensor *gone[] = {turned, used.w1, used.w2, used.b};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    return loss;
}

static struct orr_tensor *(*const losses[])(struct fixture *, const struct net *) = {net_loss,
                                                                                     long_way_loss};

struct outcome {
    double values[NET_VALUES];
    size_t kernels;
};

static void in_one(struct fixture *f, const struct net *net, int form, struct outcome *out) {
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    net_watch(f, tape, net);
    struct orr_tensor *loss = losses[form](f, net);
    net_wanted(net, wanted);
    size_t before = kernel_count(f);
    must(f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
    out->kernels = kernel_count(f) - before;
    net_read(f, grads, out->values);
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
}

static void in_two(struct fixture *f, const struct net *net, int form, bool persists,
                   struct outcome *out) {
    struct orr_gradient_tape *tape, *next;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    net_watch(f, tape, net);
    struct orr_gradient_seed seed = {.tensor = losses[form](f, net)};
    net_wanted(net, wanted);
    if (persists) {
        orr_gradient_tape_persist(tape);
    }
    uint64_t kept = orr_gradient_tape_bytes(tape);
    size_t before = kernel_count(f);
    must(f, orr_gradient_inputs(tape, &seed, 1, wanted, 1, grads));
    orr_tensor_destroy(&seed.tensor);
    size_t first = kernel_count(f) - before;
    assert_true(orr_gradient_tape_bytes(tape) > 0);
    assert_true(persists || orr_gradient_tape_bytes(tape) < kept + 2 * 32 * 8);
    must(f, orr_gradient_tape_begin(f->runtime, &next)); /* the next micro-batch */
    must(f, orr_gradient_tape_watch(next, net->w1));
    must(f, orr_gradient_weights(tape, wanted + 1, NET_GRADS - 1, grads + 1));
    assert_int_equal(orr_gradient_tape_bytes(next), 0);
    orr_gradient_tape_destroy(&next);
    out->kernels = kernel_count(f) - before;
    assert_true(first > 0 && first < out->kernels);
    assert_true(persists || orr_gradient_tape_bytes(tape) == 0);
    net_read(f, grads, out->values);
    orr_gradient_tape_destroy(&tape);
}

static void two_parts_are_the_numbers_and_the_work_of_one(void **state) {
    (void)state;
    for (int form = 0; form < 2; form++) {
        for (int persists = 0; persists < 2; persists++) {
            struct fixture f;
            struct outcome one, two;
            fixture_open(&f, orr_sim_open, 1);
            struct net net = net_of(&f, NULL);
            in_one(&f, &net, form, &one);
            in_two(&f, &net, form, persists, &two);
            assert_memory_equal(one.values, two.values, sizeof one.values);
            assert_int_equal(one.kernels, two.kernels);
            net_free(&net);
            fixture_close(&f);
        }
    }
}

/* On a mesh the parts also make the same collectives. */
static void two_parts_make_the_collectives_of_one(void **state) {
    (void)state;
    struct fixture f;
    struct outcome one, two;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_layout rows = place(orr_mesh_default(f.runtime), "S(0)", NULL);
    struct net net = net_of(&f, &rows);
    size_t start = record_count(&f, ORR_RECORD_COLLECTIVE);
    in_one(&f, &net, 1, &one);
    size_t middle = record_count(&f, ORR_RECORD_COLLECTIVE);
    in_two(&f, &net, 1, false, &two);
    assert_memory_equal(one.values, two.values, sizeof one.values);
    assert_int_equal(one.kernels, two.kernels);
    assert_int_equal(middle - start, record_count(&f, ORR_RECORD_COLLECTIVE) - middle);
    net_free(&net);
    fixture_close(&f);
}

/* A random part of a trial's operands are inputs, the others weights. */
static size_t play_trial(struct fixture *f, const struct trial *trial, uint32_t inputs, bool parts,
                         double *values) {
    struct orr_tensor *operands[TRIAL_OPERANDS_MAX], *wanted[TRIAL_OPERANDS_MAX];
    struct orr_tensor *grads[TRIAL_OPERANDS_MAX], *outputs[ORR_OUTPUTS_MAX];
    struct orr_gradient_seed seeds[ORR_OUTPUTS_MAX];
    struct orr_gradient_tape *tape;
    int count = 0, first = 0, seed_count = 0;
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    for (int i = 0; i < trial->count; i++) {
        operands[i] = upload(f, trial->dtypes[i], trial->shapes[i], trial->values[i], NULL);
        if (trial->dtypes[i] == ORR_DTYPE_F64) {
            must(f, orr_gradient_tape_watch(tape, operands[i]));
        }
    }
    for (int weights = 0; weights < 2; weights++) {
        for (int i = 0; i < trial->count; i++) {
            if (trial->dtypes[i] == ORR_DTYPE_F64 && weights != (int)(inputs >> i & 1u)) {
                wanted[count++] = operands[i];
            }
        }
        first = weights ? first : count;
    }
    must(f, orr_tensor_apply(f->runtime, trial->call.op, operands, trial->count,
                             &trial->call.attributes, NULL, outputs));
    for (int i = 0; i < trial->call.op->outputs; i++) {
        if (orr_dtype_is_float(orr_tensor_info(outputs[i])->dtype)) {
            seeds[seed_count++] = (struct orr_gradient_seed){.tensor = outputs[i]};
        }
    }
    size_t before = kernel_count(f);
    if (parts) {
        must(f, orr_gradient_inputs(tape, seeds, seed_count, wanted, first, grads));
        must(f, orr_gradient_weights(tape, wanted + first, count - first, grads + first));
    } else {
        must(f, orr_gradient_from(tape, seeds, seed_count, wanted, count, grads));
    }
    size_t kernels = kernel_count(f) - before;
    for (int i = 0; i < count; i++) {
        struct orr_shape shape = tensor_shape(grads[i]);
        download(f, grads[i], values);
        values += orr_shape_count(&shape);
        orr_tensor_destroy(&grads[i]);
    }
    for (int i = 0; i < trial->call.op->outputs; i++) {
        orr_tensor_destroy(&outputs[i]);
    }
    for (int i = 0; i < trial->count; i++) {
        orr_tensor_destroy(&operands[i]);
    }
    orr_gradient_tape_destroy(&tape);
    return kernels;
}

/* Rules whose operands share work say so (ORR__RULE_JOINT), or this fails. */
static void every_rule_can_be_taken_apart(void **state) {
    (void)state;
    static double one[TRIAL_OPERANDS_MAX * VALUES_MAX], two[TRIAL_OPERANDS_MAX * VALUES_MAX];
    struct fixture f;
    struct dice dice = {.state = random_seed(2)};
    for (int table = 0; gradient_tables[table]; table++) {
        for (const struct gradient_case *entry = gradient_tables[table]; entry->op; entry++) {
            fixture_open(&f, orr_sim_open, 1);
            for (int k = 0; k < 4; k++) {
                struct trial trial;
                draw_trial(&trial, entry, &dice);
                uint32_t inputs = (uint32_t)roll(&dice, 0, (1 << trial.count) - 1);
                memset(one, 0, sizeof one);
                memset(two, 0, sizeof two);
                size_t whole = play_trial(&f, &trial, inputs, false, one);
                size_t parts = play_trial(&f, &trial, inputs, true, two);
                if (whole != parts || memcmp(one, two, sizeof one) != 0) {
                    fail_msg("%s, inputs %x: %zu kernels in one, %zu in two parts%s", entry->op,
                             (unsigned)inputs, whole, parts,
                             memcmp(one, two, sizeof one) ? ", other numbers" : "");
                }
                free_trial(&trial);
            }
            fixture_close(&f);
        }
    }
}

/* h = x a; y = h b. The input is h, and a's gradient goes through it in the second part. */
static void an_input_may_be_in_the_middle_and_weights_on_both_sides(void **state) {
    (void)state;
    double whole[3][64], parts[3][64];
    for (int split = 0; split < 2; split++) {
        struct fixture f;
        struct orr_gradient_tape *tape;
        fixture_open(&f, orr_sim_open, 1);
        struct orr_tensor *x = numbers(&f, 4, 4, 1, NULL), *a = numbers(&f, 4, 4, 2, NULL);
        struct orr_tensor *b = numbers(&f, 4, 4, 3, NULL);
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        must(&f, orr_gradient_tape_watch(tape, a));
        must(&f, orr_gradient_tape_watch(tape, b));
        struct orr_tensor *h = apply(&f, "matmul", x, a), *y = apply(&f, "matmul", h, b);
        struct orr_tensor *aside = apply(&f, "exp", b, NULL); /* a regularizer */
        struct orr_gradient_seed seeds[2] = {{.tensor = y}, {.tensor = aside, .value = 0.5}};
        struct orr_tensor *wanted[3] = {h, a, b}, *grads[3];
        if (split) {
            must(&f, orr_gradient_inputs(tape, seeds, 2, wanted, 1, grads));
            must(&f, orr_gradient_weights(tape, wanted + 1, 2, grads + 1));
        } else {
            must(&f, orr_gradient_from(tape, seeds, 2, wanted, 3, grads));
        }
        for (int i = 0; i < 3; i++) {
            download(&f, grads[i], split ? parts[i] : whole[i]);
            orr_tensor_destroy(&grads[i]);
        }
        struct orr_tensor *gone[] = {x, a, b, h, y, aside};
        for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
            orr_tensor_destroy(&gone[i]);
        }
        orr_gradient_tape_destroy(&tape);
        fixture_close(&f);
    }
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(whole[i], parts[i], 16 * sizeof(double));
    }
}

static void a_tape_that_persists_gives_weights_in_portions(void **state) {
    (void)state;
    struct fixture f;
    struct outcome one;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    double values[NET_VALUES];
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    in_one(&f, &net, 0, &one);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    orr_gradient_tape_persist(tape);
    net_watch(&f, tape, &net);
    struct orr_gradient_seed seed = {.tensor = net_loss(&f, &net)};
    net_wanted(&net, wanted);
    for (int round = 0; round < 2; round++) {
        must(&f, orr_gradient_inputs(tape, &seed, 1, wanted, 1, grads));
        for (int i = NET_GRADS - 1; i > 0; i--) {
            must(&f, orr_gradient_weights(tape, &wanted[i], 1, &grads[i]));
        }
        net_read(&f, grads, values);
        assert_memory_equal(values, one.values, sizeof values);
    }
    must(&f, orr_gradient_from(tape, &seed, 1, wanted, NET_GRADS, grads));
    net_read(&f, grads, values);
    assert_memory_equal(values, one.values, sizeof values);
    expect_error(&f, orr_gradient_weights(tape, &wanted[1], 1, grads), ORR_INVALID,
                 "nothing was deferred");
    orr_tensor_destroy(&seed.tensor);
    orr_gradient_tape_destroy(&tape);
    net_free(&net);
    fixture_close(&f);
}

static void parts_in_the_wrong_order_are_named(void **state) {
    (void)state;
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grad, *none;
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    net_watch(&f, tape, &net);
    struct orr_tensor *h = apply(&f, "matmul", net.x, net.w1);
    struct orr_gradient_seed seed = {.tensor = apply(&f, "exp", h, NULL)};
    net_wanted(&net, wanted);
    expect_error(&f, orr_gradient_weights(tape, &net.w1, 1, &none), ORR_INVALID,
                 "nothing was deferred");
    must(&f, orr_gradient_inputs(tape, &seed, 1, &net.x, 1, &grad));
    expect_error(&f, orr_gradient_inputs(tape, &seed, 1, &net.x, 1, &none), ORR_INVALID, "used up");
    expect_error(&f, orr_gradient_weights(tape, &net.x, 1, &none), ORR_INVALID,
                 "wanted tensor 1 was left behind");
    expect_error(&f, orr_gradient_weights(tape, &h, 1, &none), ORR_INVALID,
                 "wanted tensor 1 was left behind");
    orr_tensor_destroy(&grad);
    must(&f, orr_gradient_weights(tape, &net.w1, 1, &grad)); /* and w2, which is not in it, none */
    expect_error(&f, orr_gradient_weights(tape, &net.w1, 1, &none), ORR_INVALID,
                 "nothing was deferred");
    struct orr_tensor *gone[] = {h, seed.tensor, grad};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        orr_tensor_destroy(&gone[i]);
    }
    orr_gradient_tape_destroy(&tape);
    net_free(&net);
    fixture_close(&f);
}

/* --- hosts --- */

/* Repeats the call until the other host, whose clock is often the earlier one, lets it end. */
#define UNTIL_DONE(call)                                                                           \
    do {                                                                                           \
        enum orr_status status = ORR_BLOCKED;                                                      \
        while (status == ORR_BLOCKED) {                                                            \
            uint32_t host;                                                                         \
            must(&f, orr_runtime_next_host(f.runtime, &host));                                     \
            must(&f, orr_runtime_set_caller(f.runtime, host, "test"));                             \
            if (host == other) {                                                                   \
                must(&f, orr_runtime_spend(f.runtime, 3000));                                      \
                continue;                                                                          \
            }                                                                                      \
            status = (call);                                                                       \
            blocks += status == ORR_BLOCKED;                                                       \
        }                                                                                          \
        must(&f, status);                                                                          \
    } while (0)

static void both_parts_go_on_where_they_were_blocked(void **state) {
    (void)state;
    struct fixture f;
    struct outcome one;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    double values[NET_VALUES];
    uint32_t other = 0;
    int blocks = 0;
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    in_one(&f, &net, 1, &one);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    net_watch(&f, tape, &net);
    struct orr_gradient_seed seed = {.tensor = long_way_loss(&f, &net)};
    net_wanted(&net, wanted);
    size_t before = kernel_count(&f);
    must(&f, orr_runtime_add_host(f.runtime, "other", &other));
    UNTIL_DONE(orr_gradient_inputs(tape, &seed, 1, wanted, 1, grads));
    int first = blocks;
    UNTIL_DONE(orr_gradient_weights(tape, wanted + 1, NET_GRADS - 1, grads + 1));
    assert_true(first > 5 && blocks > first + 5);
    orr_runtime_host_done(f.runtime, other);
    assert_int_equal(kernel_count(&f) - before, one.kernels);
    net_read(&f, grads, values);
    assert_memory_equal(values, one.values, sizeof values);
    orr_tensor_destroy(&seed.tensor);
    orr_gradient_tape_destroy(&tape);
    net_free(&net);
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
    if (strcmp(name, "randn") == 0) {
        at(&call, "shape")->shape = dims(2, 4, 4, 0, 0);
    }
    if (p->status == ORR_OK) {
        p->status = orr_tensor_apply(p->runtime, call.op, inputs, x ? y ? 2 : 1 : 0,
                                     &call.attributes, NULL, &out);
    }
    return out;
}

static void parts_without_memory(struct memory_counting *memory, void *context) {
    struct orr_device_spec spec = spec_for_tests();
    struct orr_error error = {0};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = &spec, .device_count = 1};
    struct steps p = {0};
    struct orr_gradient_tape *tape = NULL;
    struct orr_tensor *dx = NULL, *dw = NULL;
    (void)context;
    p.status = orr_runtime_create(&config, &p.runtime, &error);
    if (p.status != ORR_OK) {
        return;
    }
    p.status = orr_gradient_tape_begin(p.runtime, &tape);
    struct orr_tensor *x = try_apply(&p, "randn", NULL, NULL);
    struct orr_tensor *w = try_apply(&p, "randn", NULL, NULL);
    p.status = p.status == ORR_OK ? orr_gradient_tape_watch(tape, x) : p.status;
    p.status = p.status == ORR_OK ? orr_gradient_tape_watch(tape, w) : p.status;
    struct orr_tensor *turned = try_apply(&p, "neg", w, NULL);
    struct orr_tensor *y = try_apply(&p, "maximum", try_apply(&p, "matmul", x, turned), w);
    struct orr_gradient_seed seed = {.tensor = y};
    if (p.status == ORR_OK) {
        p.status = orr_gradient_inputs(tape, &seed, 1, &x, 1, &dx);
        assert_true((p.status == ORR_OK) == (dx != NULL));
    }
    if (p.status == ORR_OK) {
        p.status = orr_gradient_weights(tape, &w, 1, &dw);
        assert_true((p.status == ORR_OK) == (dw != NULL));
    }
    p.status = p.status == ORR_OK ? orr_runtime_finish(p.runtime) : p.status;
    assert_true(p.status == ORR_OK || orr_runtime_error(p.runtime)->text[0] != '\0');
    if (memory->fail_later) { /* else the runtime takes it, in the middle of the two parts too */
        orr_gradient_tape_destroy(&tape);
    }
    orr_runtime_destroy(&p.runtime);
}

static void any_allocation_of_both_parts_may_fail(void **state) {
    (void)state;
    size_t requests = fail_each_request(parts_without_memory, NULL);
    print_message("# %zu requests\n", requests);
    assert_true(requests > 50);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_parts_are_the_numbers_and_the_work_of_one),
        cmocka_unit_test(two_parts_make_the_collectives_of_one),
        cmocka_unit_test(every_rule_can_be_taken_apart),
        cmocka_unit_test(an_input_may_be_in_the_middle_and_weights_on_both_sides),
        cmocka_unit_test(a_tape_that_persists_gives_weights_in_portions),
        cmocka_unit_test(parts_in_the_wrong_order_are_named),
        cmocka_unit_test(both_parts_go_on_where_they_were_blocked),
        cmocka_unit_test(any_allocation_of_both_parts_may_fail),
    };
    return cmocka_run_group_tests_name("autograd: two parts", tests, NULL, NULL);
}
