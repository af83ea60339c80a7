/* Recordings and where two of them part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/divergence.h"
#include "runtime/region.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"

enum { SIZE = 8, PLENTY = 1 << 24 };

/* --- a program --- */

enum mistake { RIGHT, TRANSPOSED, ALONE, NOT_A_NUMBER, AGAIN };

/* A layer with its gradient on a mesh of `parts` devices, each call on a line of its own. */
struct layer {
    struct fixture *f;
    int64_t parts;
    enum orr_dtype dtype;
    enum mistake mistake;
    bool one_line; /* all calls are on one line, and both weights have gradients */
};

static void at_line(const struct layer *l, const char *site) {
    must(l->f, orr_runtime_set_caller(l->f->runtime, 0, l->one_line ? "layer.lua:0" : site));
}

static struct orr_tensor *weight(const struct layer *l, struct orr_mesh *mesh, const char *where,
                                 int seed) {
    double values[SIZE * SIZE];
    for (int i = 0; i < SIZE * SIZE; i++) {
        values[i] = (double)((i * i + seed * i + seed) % 9 - 4) / 8;
    }
    struct orr_layout layout = place(mesh, where, NULL);
    return upload(l->f, l->dtype, dims(2, SIZE, SIZE, 0, 0), values, &layout);
}

static struct orr_tensor *product(const struct layer *l, struct orr_tensor *x, struct orr_tensor *w,
                                  bool transposed) {
    struct op call = op_of("matmul");
    at(&call, "transpose_b")->integer = transposed;
    return run(l->f, &call, (struct orr_tensor *[]){x, w}, 2);
}

static struct orr_mesh *line_of(struct fixture *f, int64_t parts) {
    struct orr_mesh *mesh;
    must(f, orr_mesh_create(f->runtime, 1, &parts, (const char *const[]){"tp"}, NULL, &mesh));
    return mesh;
}

/* Spoils the bias: infinite minus infinite. */
static struct orr_tensor *spoiled(const struct layer *l, struct orr_mesh *mesh) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    double values[SIZE] = {0, 0, 0, (double)NAN};
    return upload(l->f, l->dtype, dims(1, SIZE, 0, 0, 0), values, &layout);
}

static void run_layer(const struct layer *l) {
    struct fixture *f = l->f;
    struct orr_mesh *mesh = line_of(f, l->parts);
    bool transposed = l->mistake == TRANSPOSED;
    struct orr_gradient_tape *tape;
    struct orr_tensor *x = weight(l, mesh, "R", 1), *w1 = weight(l, mesh, "S(1)", 2);
    struct orr_tensor *w2 = weight(l, mesh, transposed ? "S(1)" : "S(0)", 3);
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    must(f, orr_gradient_tape_watch(tape, w2));
    if (l->one_line) {
        must(f, orr_gradient_tape_watch(tape, w1));
    }
    at_line(l, "layer.lua:1");
    struct orr_tensor *h = product(l, x, w1, false);
    at_line(l, "layer.lua:2");
    h = then(f, "gelu", h, NULL);
    if (l->mistake == AGAIN) { /* what was there is made anew, on the same line as the rest */
        orr_tensor_destroy(&h);
        h = then(f, "gelu", product(l, x, w1, false), NULL);
    }
    at_line(l, "layer.lua:3");
    if (l->mistake == ALONE) {
        h = then(f, "neg", then(f, "neg", h, NULL), NULL);
    }
    struct orr_tensor *y = product(l, h, w2, transposed);
    struct orr_layout whole = orr_layout_replicated(mesh);
    y = moved(f, y, &whole);
    at_line(l, "layer.lua:4");
    if (l->mistake == NOT_A_NUMBER) {
        struct orr_tensor *bias = spoiled(l, mesh);
        y = then(f, "add", y, bias);
        orr_tensor_destroy(&bias);
    } else {
        y = then(f, "add", y, y);
    }
    struct orr_tensor *loss = apply(f, "sum", y, NULL);
    at_line(l, "layer.lua:5");
    struct orr_tensor *wanted[2] = {w2, w1}, *gradients[2] = {NULL, NULL};
    must(f, orr_gradient(tape, loss, wanted, l->one_line ? 2 : 1, gradients));
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *all[] = {x, w1, w2, h, y, loss, gradients[0], gradients[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        orr_tensor_destroy(&all[i]);
    }
}

static struct orr_recording *recorded(const struct layer *l) {
    struct orr_recording *recording;
    must(l->f, orr_recording_begin(l->f->runtime, PLENTY, &recording));
    run_layer(l);
    must(l->f, orr_recording_end(recording));
    return recording;
}

static struct orr_divergence compared(struct fixture *f, const struct orr_recording *a,
                                      const struct orr_recording *b, double tolerance) {
    struct orr_divergence divergence;
    struct orr_error error;
    if (orr_divergence_find(a, b, tolerance, &f->memory.table, &divergence, &error) != ORR_OK) {
        fail_msg("%s", error.text);
    }
    return divergence;
}

/* The right layer on one device against another one. */
struct pair {
    struct fixture f;
    struct orr_recording *a, *b;
    struct orr_divergence divergence;
};

static void open_pair(struct pair *p, struct layer other, double tolerance) {
    fixture_open(&p->f, orr_sim_open, 4);
    struct layer one = {.f = &p->f, .parts = 1, .dtype = ORR_DTYPE_F32, .one_line = other.one_line};
    other.f = &p->f;
    p->a = recorded(&one);
    p->b = recorded(&other);
    p->divergence = compared(&p->f, p->a, p->b, tolerance);
}

static void close_pair(struct pair *p) {
    orr_recording_destroy(&p->a);
    orr_recording_destroy(&p->b);
    fixture_close(&p->f);
}

/* --- what is recorded --- */

static const struct orr_recorded_call *find(const struct orr_recording *recording,
                                            const char *name) {
    for (uint32_t i = 0; i < orr_recording_call_count(recording); i++) {
        if (strcmp(orr_recording_call(recording, i)->op, name) == 0) {
            return orr_recording_call(recording, i);
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

static void a_recording_has_every_operator_with_values_places_and_makers(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 4);
    struct layer layer = {.f = &f, .parts = 4, .dtype = ORR_DTYPE_F32};
    struct orr_recording *recording = recorded(&layer);
    const struct orr_recorded_call *gelu = find(recording, "gelu");
    assert_string_equal(gelu->site, "layer.lua:2");
    const struct orr_recorded_value *in = orr_recording_value(recording, gelu->inputs[0]);
    const struct orr_recorded_value *out = orr_recording_value(recording, gelu->outputs[0]);
    assert_string_equal(in->place, "S(1)");
    assert_int_equal(in->maker, 0); /* the product before it */
    for (int i = 0; i < SIZE * SIZE; i++) {
        double x = orr_dtype_load(ORR_DTYPE_F32, in->data, (size_t)i);
        double wanted = 0.5 * x * (1 + erf(x / sqrt(2)));
        assert_true(near_f64(orr_dtype_load(ORR_DTYPE_F32, out->data, (size_t)i), wanted, 1e-6));
    }
    const struct orr_recorded_call *moved_call = find(recording, "redistribute");
    assert_null(moved_call->row);
    assert_string_equal(orr_recording_value(recording, moved_call->inputs[0])->place, "P(sum)");
    assert_string_equal(orr_recording_value(recording, moved_call->outputs[0])->place, "R");
    const struct orr_recorded_call *product_call = find(recording, "matmul");
    assert_int_equal(orr_recording_value(recording, product_call->inputs[1])->maker, -1);
    assert_string_equal(find(recording, "matmul_backward_weight")->site, "layer.lua:5");
    orr_recording_destroy(&recording);
    fixture_close(&f);
}

static void a_recording_outlives_its_runtime(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_cpu_open, 2);
    struct memory_counting memory;
    struct orr_runtime_config config = f.config;
    struct orr_error error;
    memory_counting_init(&memory, 0);
    config.memory = &memory.table;
    orr_runtime_destroy(&f.runtime);
    assert_int_equal(orr_runtime_create(&config, &f.runtime, &error), ORR_OK);
    struct layer layer = {.f = &f, .parts = 2, .dtype = ORR_DTYPE_F64};
    struct orr_recording *recording = recorded(&layer), *open;
    must(&f, orr_recording_begin(f.runtime, PLENTY, &open));
    run_layer(&layer);
    orr_runtime_destroy(&f.runtime);
    assert_true(orr_recording_is_good(recording));
    assert_false(orr_recording_is_good(open)); /* its end never came */
    assert_string_equal(find(recording, "gelu")->op, "gelu");
    orr_recording_destroy(&recording);
    orr_recording_destroy(&open);
    assert_int_equal(memory.live, 0);
    fixture_close(&f);
}

static void a_recording_keeps_no_more_than_it_may(void **state) {
    (void)state;
    struct fixture f;
    struct orr_recording *recording;
    fixture_open(&f, orr_sim_open, 2);
    struct layer layer = {.f = &f, .parts = 2, .dtype = ORR_DTYPE_F32};
    must(&f, orr_recording_begin(f.runtime, 3 * SIZE * SIZE * 4, &recording));
    run_layer(&layer);
    assert_int_equal(orr_recording_end(recording), ORR_INVALID);
    assert_non_null(strstr(fixture_error(&f), "recorded values need more than 768 bytes"));
    assert_non_null(strstr(fixture_error(&f), "'gelu', layer.lua:2"));
    assert_false(orr_recording_is_good(recording));
    struct orr_divergence divergence;
    assert_int_equal(
        orr_divergence_find(recording, recording, 0, &f.memory.table, &divergence, &f.error),
        ORR_INVALID);
    orr_recording_destroy(&recording);
    fixture_close(&f);
}

static void runs_without_values_have_none_to_record(void **state) {
    (void)state;
    struct fixture f;
    struct orr_recording *recording;
    fixture_prepare(&f, orr_sim_open, 2);
    f.config.timing_only = true;
    fixture_start(&f);
    assert_int_equal(orr_recording_begin(f.runtime, PLENTY, &recording), ORR_INVALID);
    assert_null(recording);
    fixture_close(&f);
}

static enum orr_status traced(void *context, struct orr_tensor *const *inputs, int count,
                              struct orr_tensor **outputs, int max, int *out_count) {
    struct fixture *f = context;
    assert_true(count == 1 && max >= 1);
    outputs[0] = then(f, "gelu", apply(f, "add", inputs[0], inputs[0]), NULL);
    *out_count = 1;
    return ORR_OK;
}

static void compiled_functions_are_recorded_operator_by_operator(void **state) {
    (void)state;
    struct fixture f;
    struct orr_compiled *compiled;
    struct orr_recording *recording;
    double values[SIZE] = {1, -2, 3, 0.5, 0, 7, -1, 2}, wanted[SIZE], got[SIZE];
    int count;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_tensor *y, *x = upload(&f, ORR_DTYPE_F32, dims(1, SIZE, 0, 0, 0), values, NULL);
    must(&f, orr_compiled_create(f.runtime, "f", ORR_FUSION_POINTWISE, true, &compiled));
    must(&f, orr_compiled_call(compiled, &x, 1, traced, &f, &y, 1, &count));
    download(&f, y, wanted);
    orr_tensor_destroy(&y);
    must(&f, orr_recording_begin(f.runtime, PLENTY, &recording));
    must(&f, orr_compiled_call(compiled, &x, 1, traced, &f, &y, 1, &count));
    must(&f, orr_recording_end(recording));
    download(&f, y, got);
    assert_memory_equal(got, wanted, sizeof got);
    assert_int_equal(orr_recording_call_count(recording), 2);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&x);
    orr_recording_destroy(&recording);
    orr_compiled_destroy(&compiled);
    fixture_close(&f);
}

static void what_an_operator_changes_in_place_is_recorded_before_and_after(void **state) {
    (void)state;
    struct fixture f;
    struct orr_recording *recording;
    double old[SIZE] = {1, 1, 1, 1, 1, 1, 1, 1}, new[2] = {5, 6}, position = 2;
    fixture_open(&f, orr_sim_open, 2);
    struct op append = op_of("kv_append");
    struct orr_tensor *inputs[3] = {
        upload(&f, ORR_DTYPE_F32, dims(4, 1, 1, 4, 2), old, NULL),
        upload(&f, ORR_DTYPE_F32, dims(4, 1, 1, 1, 2), new, NULL),
        upload(&f, ORR_DTYPE_I64, dims(1, 1, 0, 0, 0), &position, NULL)};
    must(&f, orr_recording_begin(f.runtime, PLENTY, &recording));
    struct orr_tensor *cache = run(&f, &append, inputs, 3);
    must(&f, orr_recording_end(recording));
    const struct orr_recorded_call *call = orr_recording_call(recording, 0);
    const float *before = orr_recording_value(recording, call->inputs[0])->data;
    const float *after = orr_recording_value(recording, call->outputs[0])->data;
    for (int i = 0; i < SIZE; i++) {
        assert_true(before[i] == 1);
        assert_true(after[i] == (i == 4 ? 5 : i == 5 ? 6 : 1));
    }
    for (int i = 0; i < 3; i++) {
        orr_tensor_destroy(&inputs[i]);
    }
    orr_tensor_destroy(&cache);
    orr_recording_destroy(&recording);
    fixture_close(&f);
}

/* --- where they part --- */

static void the_same_layer_on_more_devices_agrees(void **state) {
    (void)state;
    struct pair p;
    open_pair(&p, (struct layer){.parts = 4, .dtype = ORR_DTYPE_F32}, 1e-5);
    assert_false(p.divergence.parts);
    assert_true(p.divergence.compared >= 9); /* those of the gradient too */
    assert_int_equal(p.divergence.only_a + p.divergence.only_b, 0);
    char text[ORR_DIVERGENCE_TEXT_MAX];
    orr_divergence_text(&p.divergence, "one", "four", text, sizeof text);
    assert_non_null(strstr(text, "operators compared within 1e-05: they agree\n"));
    close_pair(&p);
}

static void a_wrong_product_is_found_where_it_is_called(void **state) {
    (void)state;
    struct pair p;
    open_pair(&p, (struct layer){.parts = 4, .dtype = ORR_DTYPE_F32, .mistake = TRANSPOSED}, 1e-5);
    const struct orr_divergence *d = &p.divergence;
    assert_true(d->parts);
    assert_string_equal(d->call_a->op, "matmul");
    assert_string_equal(d->call_b->site, "layer.lua:3");
    assert_int_equal(d->index_a, 2);
    assert_int_equal(d->input_count, 2);
    assert_true(d->inputs[0].largest <= 1e-5 * d->inputs[0].magnitude);
    assert_true(d->inputs[1].largest == 0);
    assert_string_equal(d->inputs[1].b->place, "S(1)");
    const struct orr_difference *r = &d->result;
    assert_true(r->value_a == orr_dtype_load(ORR_DTYPE_F32, r->a->data, (size_t)r->worst));
    assert_true(r->value_b == orr_dtype_load(ORR_DTYPE_F32, r->b->data, (size_t)r->worst));
    assert_true(fabs(r->value_a - r->value_b) == r->largest);
    for (int i = 0; i < SIZE * SIZE; i++) {
        assert_true(fabs(orr_dtype_load(ORR_DTYPE_F32, r->a->data, (size_t)i) -
                         orr_dtype_load(ORR_DTYPE_F32, r->b->data, (size_t)i)) <= r->largest);
    }
    char text[ORR_DIVERGENCE_TEXT_MAX];
    orr_divergence_text(d, "one", "four", text, sizeof text);
    assert_non_null(strstr(text, "the first that parts is operator 2, matmul, result 0"));
    assert_non_null(strstr(text, "attribute transpose_b is not the same: false and true"));
    assert_non_null(strstr(text, "four: f32 [8, 8] P(sum) at layer.lua:3"));
    close_pair(&p);
}

static void operators_of_one_run_alone_are_skipped(void **state) {
    (void)state;
    struct pair p;
    open_pair(&p, (struct layer){.parts = 2, .dtype = ORR_DTYPE_F32, .mistake = ALONE}, 1e-5);
    assert_false(p.divergence.parts);
    assert_int_equal(p.divergence.only_a, 0);
    assert_int_equal(p.divergence.only_b,
                     2); /* w2 alone is watched: no gradient goes through them */
    close_pair(&p);
}

/* The second product of one run stands beside the repeated first one of the other. */
static void runs_out_of_step_get_in_step_again(void **state) {
    (void)state;
    struct pair p;
    struct layer again = {.parts = 2, .dtype = ORR_DTYPE_F32, .mistake = AGAIN, .one_line = true};
    open_pair(&p, again, 1e-5);
    assert_false(p.divergence.parts);
    assert_true(p.divergence.only_b >= 2);
    close_pair(&p);
}

static void a_nan_parts_from_any_number(void **state) {
    (void)state;
    struct pair p;
    open_pair(&p, (struct layer){.parts = 2, .dtype = ORR_DTYPE_F32, .mistake = NOT_A_NUMBER}, 1e9);
    assert_true(p.divergence.parts);
    assert_string_equal(p.divergence.call_a->op, "add");
    assert_true(isinf(p.divergence.result.largest));
    assert_int_equal(p.divergence.result.worst % SIZE, 3);
    assert_true(isnan(p.divergence.result.value_b));
    assert_true(p.divergence.inputs[1].shapes_differ);
    close_pair(&p);
}

static void narrower_dtypes_part_by_their_rounding(void **state) {
    (void)state;
    struct pair p;
    struct layer narrow = {.parts = 2, .dtype = ORR_DTYPE_BF16};
    open_pair(&p, narrow, 0.05);
    assert_false(p.divergence.parts);
    struct orr_divergence closer = compared(&p.f, p.a, p.b, 1e-5);
    assert_true(closer.parts);
    assert_int_equal(closer.result.b->info.dtype, ORR_DTYPE_BF16);
    close_pair(&p);
}

static void simulated_devices_and_threads_agree_to_the_bit(void **state) {
    (void)state;
    struct fixture sim, cpu;
    fixture_open(&sim, orr_sim_open, 4);
    fixture_open(&cpu, orr_cpu_open, 4);
    struct layer one = {.f = &sim, .parts = 4, .dtype = ORR_DTYPE_F32};
    struct layer two = {.f = &cpu, .parts = 4, .dtype = ORR_DTYPE_F32};
    struct orr_recording *a = recorded(&one), *b = recorded(&two);
    assert_false(compared(&sim, a, b, 0).parts);
    orr_recording_destroy(&a);
    orr_recording_destroy(&b);
    fixture_close(&sim);
    fixture_close(&cpu);
}

/* --- without memory --- */

static void record_without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct fixture f;
    struct orr_recording *recording = NULL;
    struct orr_tensor *x = NULL, *y = NULL;
    struct orr_attributes attributes;
    const struct orr_operator *ones = orr_operator_find("ones"), *neg = orr_operator_find("neg");
    fixture_prepare(&f, orr_sim_open, 2);
    f.config.memory = &memory->table;
    f.config.sink = NULL;
    if (orr_runtime_create(&f.config, &f.runtime, &f.error) != ORR_OK) {
        goto out;
    }
    orr_operator_defaults(ones, &attributes);
    attributes.values[orr_operator_attribute(ones, "shape")].shape = dims(1, SIZE, 0, 0, 0);
    enum orr_status status = orr_recording_begin(f.runtime, PLENTY, &recording);
    if (status == ORR_OK) {
        status = orr_tensor_apply(f.runtime, ones, NULL, 0, &attributes, NULL, &x);
    }
    if (status == ORR_OK) {
        orr_operator_defaults(neg, &attributes);
        status = orr_tensor_apply(f.runtime, neg, &x, 1, &attributes, NULL, &y);
    }
    if (status == ORR_OK) {
        status = orr_recording_end(recording);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY ||
                    status == ORR_DEVICE_FAILED); /* a kernel had no memory to work in */
        assert_true(orr_recording_is_good(recording) == (status == ORR_OK));
    }
    struct orr_divergence divergence;
    if (status == ORR_OK && orr_divergence_find(recording, recording, 0, &memory->table,
                                                &divergence, &f.error) == ORR_OK) {
        assert_int_equal(divergence.compared, 2);
    }
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&y);
out:
    orr_recording_destroy(&recording);
    orr_runtime_destroy(&f.runtime);
    orr_record_memory_destroy(&f.store);
}

static void every_request_for_memory_may_fail(void **state) {
    (void)state;
    assert_true(fail_each_request(record_without_memory, NULL) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_has_every_operator_with_values_places_and_makers),
        cmocka_unit_test(a_recording_outlives_its_runtime),
        cmocka_unit_test(a_recording_keeps_no_more_than_it_may),
        cmocka_unit_test(runs_without_values_have_none_to_record),
        cmocka_unit_test(compiled_functions_are_recorded_operator_by_operator),
        cmocka_unit_test(what_an_operator_changes_in_place_is_recorded_before_and_after),
        cmocka_unit_test(the_same_layer_on_more_devices_agrees),
        cmocka_unit_test(a_wrong_product_is_found_where_it_is_called),
        cmocka_unit_test(operators_of_one_run_alone_are_skipped),
        cmocka_unit_test(runs_out_of_step_get_in_step_again),
        cmocka_unit_test(a_nan_parts_from_any_number),
        cmocka_unit_test(narrower_dtypes_part_by_their_rounding),
        cmocka_unit_test(simulated_devices_and_threads_agree_to_the_bit),
        cmocka_unit_test(every_request_for_memory_may_fail),
    };
    return cmocka_run_group_tests_name("divergence", tests, NULL, NULL);
}
