/* Redistribution: any placements to any others over meshes of one to four axes, with uneven and
 * empty shards, nested cuts and nested reductions, against a direct look at every rank's memory;
 * plans against closed forms and against what is then recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "sim/sim.h"
#include "tests/redistribute_fixture.h"

enum { AXES = 4, SEEDS_SIM = 12000, SEEDS_CPU = 800 };

static void draw_mesh(struct bench *b, struct trial *t) {
    static const char *const names[AXES] = {"a", "b", "c", "d"};
    int64_t dims[AXES];
    int count;
    uint64_t size;
    do {
        count = 1 + (int)random_below(&t->random, AXES);
        size = 1;
        for (int i = 0; i < count; i++) {
            dims[i] = 1 + (int64_t)random_below(&t->random, 4);
            size *= (uint64_t)dims[i];
        }
    } while (size > orr_runtime_device_count(b->runtime));
    must_be_ok(b->runtime, orr_mesh_create(b->runtime, count, dims, names, NULL, &t->from.mesh));
}

static void draw_trial(struct bench *b, struct trial *t) {
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_F32, ORR_DTYPE_F64, ORR_DTYPE_I32,
                                            ORR_DTYPE_I64};
    draw_mesh(b, t);
    int rank = (int)random_below(&t->random, 4);
    int64_t dims[3];
    for (int i = 0; i < rank; i++)
        dims[i] = (int64_t)random_below(&t->random, random_below(&t->random, 4) ? 8 : 3);
    t->info =
        (struct orr_operand_info){dtypes[random_below(&t->random, 4)], orr_shape_of(rank, dims)};
    t->from = t->to = orr_layout_replicated(t->from.mesh);
    for (int i = 0; i < t->from.mesh->axis_count; i++) {
        t->from.axes[i] = draw_placement(t);
        t->to.axes[i] = draw_placement(t);
    }
}

static void run_trial(struct bench *b, uint64_t seed) {
    static struct trial t;
    struct orr_tensor *target;
    t.random = seed * 0x9e3779b97f4a7c15u + 1;
    draw_trial(b, &t);
    struct orr_tensor *source = source_of(b, &t);
    describe(&t, seed);
    must_be_ok(b->runtime, orr_tensor_redistribute(source, &t.to, &target));
    must_be_ok(b->runtime, orr_runtime_finish(b->runtime));
    assert_true(orr_layout_equal(orr_tensor_layout(target), &t.to));
    look_at_all(target, t.wanted, look_compares);
    look_at_all(source, t.wanted, look_compares); /* which is as it was */
    if (seed % 4 == 0) {
        check_future(b, &t, source);
        check_future(b, &t, target);
    }
    orr_tensor_destroy(&source);
    orr_tensor_destroy(&target);
}

static void run_trials(orr_backend_open open, uint32_t devices, uint64_t seeds) {
    enum { ROUND = 100 }; /* meshes live as long as their runtime */
    uint64_t first = random_seed(1);
    for (uint64_t i = 0; i < seeds; i += ROUND) {
        static struct bench b;
        bench_open(&b, open, devices);
        for (uint64_t k = 0; k < ROUND; k++)
            run_trial(&b, first + i + k);
        bench_close(&b);
    }
}

static void any_placements_become_any_others(void **state) {
    (void)state;
    run_trials(orr_sim_open, DEVICES, SEEDS_SIM);
}

static void and_on_threads(void **state) {
    (void)state;
    run_trials(orr_cpu_open, 12, SEEDS_CPU);
}

/* Every pair of layouts over two axes, for one even and three uneven shapes. */
static void all_pairs_of_placements_over_two_axes(void **state) {
    (void)state;
    static const int64_t meshes[][2] = {{2, 3}, {3, 2}, {2, 2}, {4, 2}};
    static const int64_t shapes[][2] = {{12, 6}, {7, 5}, {3, 4}, {1, 5}};
    static const struct orr_placement kinds[] = {
        {.kind = ORR_REPLICATE},
        {.kind = ORR_SHARD, .dim = 0},
        {.kind = ORR_SHARD, .dim = 1},
        {.kind = ORR_PARTIAL, .reduction = ORR_SUM},
        {.kind = ORR_PARTIAL, .reduction = ORR_MAX},
    };
    enum { KINDS = sizeof kinds / sizeof kinds[0], PAIRS = KINDS * KINDS };
    for (size_t m = 0; m < 4; m++) {
        static struct bench b;
        static struct trial t;
        struct orr_mesh *mesh;
        bench_open(&b, orr_sim_open, 8);
        must_be_ok(b.runtime, orr_mesh_create(b.runtime, 2, meshes[m], (const char *[]){"dp", "tp"},
                                              NULL, &mesh));
        t.info = (struct orr_operand_info){ORR_DTYPE_F32, orr_shape_of(2, shapes[m])};
        for (int i = 0; i < PAIRS * PAIRS; i++) {
            struct orr_tensor *source, *target;
            t.from = t.to = orr_layout_replicated(mesh);
            t.from.axes[0] = kinds[i % KINDS];
            t.from.axes[1] = kinds[i / KINDS % KINDS];
            t.to.axes[0] = kinds[i / PAIRS % KINDS];
            t.to.axes[1] = kinds[i / PAIRS / KINDS];
            source = source_of(&b, &t);
            must_be_ok(b.runtime, orr_tensor_redistribute(source, &t.to, &target));
            must_be_ok(b.runtime, orr_runtime_finish(b.runtime));
            look_at_all(target, t.wanted, look_compares);
            orr_tensor_destroy(&source);
            orr_tensor_destroy(&target);
        }
        bench_close(&b);
    }
}

/* ---- plans -------------------------------------------------------------------------------- */

static struct orr_layout layout_of(struct orr_mesh *mesh, const char *const *texts) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    struct orr_error error;
    for (int i = 0; i < mesh->axis_count; i++)
        assert_int_equal(orr_placement_parse(texts[i], &layout.axes[i], &error), ORR_OK);
    return layout;
}

static struct orr_tensor *zeros_of(struct fixture *f, const struct orr_operand_info *info,
                                   const struct orr_layout *layout) {
    static const uint64_t zeros[ELEMENTS_MAX];
    struct orr_tensor *tensor;
    must_be_ok(f->runtime, orr_tensor_from_host(f->runtime, info, layout, zeros, &tensor));
    return tensor;
}

/* Bytes on the wire by closed forms, S being the bytes of the whole tensor. */
static void one_step_puts_its_closed_form_on_the_wire(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *steps;
        uint64_t up, down; /* S x up / down */
    } table[] = {
        {"P(sum)", "R", "all_reduce", 6, 4},
        {"P(max)", "R", "all_reduce", 6, 4},
        {"P(avg)", "S(1)", "reduce_scatter", 3, 4},
        {"P(min)", "S(0)", "reduce_scatter", 3, 4},
        {"S(0)", "R", "all_gather", 3, 4},
        {"S(1)", "R", "all_gather", 3, 4},
        {"S(0)", "S(1)", "all_to_all", 3, 16},
        {"S(1)", "S(0)", "all_to_all", 3, 16},
        {"R", "S(1)", "slice", 0, 1},
        {"R", "P(sum)", "zero", 0, 1},
        {"R", "P(avg)", "keep", 0, 1},
        {"S(1)", "P(sum)", "pad", 0, 1},
        {"S(1)", "P(max)", "all_gather keep", 3, 4},
        {"P(max)", "P(sum)", "all_reduce zero", 6, 4},
        {"S(0)", "S(0)", "", 0, 1},
    };
    struct fixture f;
    fixture_prepare(&f, orr_sim_open, 4);
    for (int i = 0; i < 4; i++) {
        f.specs[i].peer_bandwidth = 1000000000; /* one byte a nanosecond */
        f.specs[i].peer_latency_ns = 50;
        f.specs[i].kernel_fixed_ns = 0;
    }
    fixture_start(&f);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){8, 12})};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct orr_layout from = layout_of(mesh, &table[i].from);
        struct orr_layout to = layout_of(mesh, &table[i].to);
        struct orr_redistribute_plan plan;
        struct orr_tensor *source = zeros_of(&f, &info, &from), *target;
        must_be_ok(f.runtime, orr_redistribute_plan(source, &to, &plan));
        char steps[128] = "";
        for (int k = 0; k < plan.paths[0].step_count; k++)
            snprintf(steps + strlen(steps), sizeof steps - strlen(steps), "%s%s", k ? " " : "",
                     orr_redistribute_kind_text(plan.paths[0].steps[k].kind));
        assert_string_equal(steps, table[i].steps);
        assert_int_equal(plan.paths[0].bytes, 4 * 8 * 12 * table[i].up / table[i].down);
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        size_t before = record_count(&f, ORR_RECORD_COLLECTIVE_MEMBER);
        must_be_ok(f.runtime, orr_tensor_redistribute(source, &to, &target));
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        uint64_t ns = 0;
        if (record_count(&f, ORR_RECORD_COLLECTIVE_MEMBER) > before) {
            int64_t start_ns = 0, finish_ns = 0;
            for (size_t k = before; k < before + 4; k++) { /* the transfer: from the last start */
                const struct orr_record_collective_member *member =
                    record_at(&f, ORR_RECORD_COLLECTIVE_MEMBER, k);
                const struct orr_record_command *command = command_record(&f, member->cmd);
                start_ns = command->start_ns > start_ns ? command->start_ns : start_ns;
                finish_ns = command->finish_ns;
            }
            ns = (uint64_t)(finish_ns - start_ns);
        }
        assert_int_equal(ns, plan.paths[0].bytes + 50 * plan.paths[0].hops);
        orr_tensor_destroy(&source);
        orr_tensor_destroy(&target);
    }
    fixture_close(&f);
}

/* Runs the plan of a redistribution over a mesh of 2 x 4 and gives back its text. */
static const char *plan_text(const char *const *from, const char *const *to, const int64_t *dims,
                             char *text) {
    struct fixture f;
    struct orr_mesh *mesh;
    struct orr_redistribute_plan plan, again;
    fixture_open(&f, orr_sim_open, 8);
    must_be_ok(f.runtime, orr_mesh_create(f.runtime, 2, (int64_t[]){2, 4},
                                          (const char *[]){"dp", "tp"}, NULL, &mesh));
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, dims)};
    struct orr_layout source = layout_of(mesh, from), target = layout_of(mesh, to);
    struct orr_tensor *tensor = zeros_of(&f, &info, &source);
    must_be_ok(f.runtime, orr_redistribute_plan(tensor, &target, &plan));
    must_be_ok(f.runtime, orr_redistribute_plan(tensor, &target, &again));
    assert_int_equal(plan.candidate_count, again.candidate_count);
    orr_redistribute_text(&plan, text, ORR_REDISTRIBUTE_TEXT_MAX);
    char same[ORR_REDISTRIBUTE_TEXT_MAX];
    assert_string_equal(orr_redistribute_text(&again, same, sizeof same), text);
    for (size_t size = 1; size < strlen(text); size += 7) { /* cut off, never overrun */
        memset(same, 'x', sizeof same);
        orr_redistribute_text(&plan, same, size);
        assert_int_equal(strlen(same), size - 1);
        assert_int_equal(same[size], 'x');
    }
    orr_tensor_destroy(&tensor);
    fixture_close(&f);
    return text;
}

static void a_plan_says_what_it_does_and_what_it_does_not(void **state) {
    (void)state;
    char text[ORR_REDISTRIBUTE_TEXT_MAX];
    plan_text((const char *[]){"R", "S(0)"}, (const char *[]){"R", "S(1)"}, (int64_t[]){8, 12},
              text);
    assert_string_equal(
        text, "[8, 12] f32, [R, S(0)] -> [R, S(1)]: 72 B on the wire, 1 hop; the best of 2 "
              "candidates\n"
              "  1. all_to_all     tp: S(0) -> S(1), 72 B on the wire, 1 hop, 192 B packed\n"
              "  or: 288 B on the wire, 3 hops, 192 B local: all_gather tp -> R, slice tp -> "
              "S(1)\n");
    plan_text((const char *[]){"S(0)", "R"}, (const char *[]){"S(0)", "R"}, (int64_t[]){8, 12},
              text);
    assert_string_equal(text, "[8, 12] f32, [S(0), R] -> [S(0), R]: nothing to do\n");
}

static void an_inner_cut_becomes_whole_before_the_outer_one_changes(void **state) {
    (void)state;
    char text[ORR_REDISTRIBUTE_TEXT_MAX];
    plan_text((const char *[]){"S(0)", "S(0)"}, (const char *[]){"R", "S(0)"}, (int64_t[]){8, 4},
              text);
    /* Eight rows of 16 bytes: 3 of 4 rows along tp, then 4 rows of the other half along dp. */
    assert_non_null(strstr(text, ": 112 B on the wire, 4 hops"));
    assert_non_null(strstr(text, "  1. all_gather     tp: S(0) -> R, 48 B"));
    assert_non_null(strstr(text, "  2. all_gather     dp: S(0) -> R, 64 B"));
    assert_non_null(strstr(text, "  3. slice          tp: R -> S(0), local"));
}

static void inner_terms_are_reduced_before_outer_ones_of_another_kind(void **state) {
    (void)state;
    char text[ORR_REDISTRIBUTE_TEXT_MAX];
    plan_text((const char *[]){"P(max)", "P(sum)"}, (const char *[]){"R", "P(sum)"},
              (int64_t[]){4, 4}, text);
    const char *inner = strstr(text, "all_reduce     tp: P(sum) -> R");
    const char *outer = strstr(text, "all_reduce     dp: P(max) -> R");
    assert_true(inner && outer && inner < outer);
    assert_non_null(strstr(outer, "zero           tp: R -> P(sum)"));
}

static void sums_are_scattered_rather_than_reduced_and_cut(void **state) {
    (void)state;
    char text[ORR_REDISTRIBUTE_TEXT_MAX];
    plan_text((const char *[]){"P(sum)", "S(1)"}, (const char *[]){"S(1)", "S(0)"},
              (int64_t[]){8, 8}, text);
    assert_non_null(strstr(text, "the best of "));
    assert_non_null(strstr(text, "1. all_to_all     tp: S(1) -> S(0)"));
    assert_non_null(strstr(text, "2. reduce_scatter dp: P(sum) -> S(1)"));
}

static void a_redistribution_is_an_operator_of_its_steps(void **state) {
    (void)state;
    struct fixture f;
    struct orr_mesh *mesh;
    fixture_open(&f, orr_sim_open, 4);
    must_be_ok(f.runtime, orr_mesh_create(f.runtime, 2, (int64_t[]){2, 2},
                                          (const char *[]){"dp", "tp"}, NULL, &mesh));
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){4, 4})};
    struct orr_layout from = layout_of(mesh, (const char *[]){"S(0)", "P"});
    struct orr_layout to = layout_of(mesh, (const char *[]){"R", "S(1)"});
    struct orr_tensor *tensor = zeros_of(&f, &info, &from), *changed;
    size_t before = record_count(&f, ORR_RECORD_OP);
    must_be_ok(f.runtime, orr_tensor_redistribute(tensor, &to, &changed));
    must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
    assert_int_equal(record_count(&f, ORR_RECORD_OP), before + 3);
    const struct orr_record_op *whole = record_at(&f, ORR_RECORD_OP, before);
    assert_string_equal(name_text(&f, whole->name),
                        "redistribute [S(0), P(sum)] -> [R, S(1)]: reduce_scatter tp, all_gather "
                        "dp; 32 B on the wire, 2 hops; best of 5");
    assert_string_equal(name_text(&f, whole->kind), "redistribute");
    for (size_t i = 1; i < 3; i++) {
        const struct orr_record_op *step = record_at(&f, ORR_RECORD_OP, before + i);
        assert_int_equal(step->parent, whole->id);
        assert_string_equal(name_text(&f, step->name), i == 1 ? "reduce_scatter" : "all_gather");
    }
    orr_tensor_destroy(&tensor);
    orr_tensor_destroy(&changed);
    fixture_close(&f);
}

static void an_average_of_integers_is_cut_the_same_way_everywhere(void **state) {
    (void)state;
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_I32, ORR_DTYPE_BOOL};
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        fixture_open(&f, orr_sim_open, 3);
        struct orr_mesh *mesh = orr_mesh_default(f.runtime);
        struct orr_operand_info info = {dtypes[k], orr_shape_of(1, (int64_t[]){1})};
        struct orr_layout from = layout_of(mesh, &(const char *){"P(avg)"});
        struct orr_tensor *tensor = zeros_of(&f, &info, &from), *whole;
        struct orr_layout to = orr_layout_replicated(mesh);
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        orr_dtype_store(dtypes[k], orr__tensor_blob(tensor, 1)->buffer->data, 0, k ? 1 : -5);
        must_be_ok(f.runtime, orr_tensor_redistribute(tensor, &to, &whole));
        double wanted = k ? 0 : -1; /* a third of -5; not all are true */
        for (int i = 0; i < 2; i++) {
            int32_t value = 77;
            struct orr_future *future;
            must_be_ok(f.runtime, orr_tensor_future(i ? whole : tensor, &future));
            must_be_ok(f.runtime, orr_future_get(future, &value, orr_dtype_size(dtypes[k])));
            assert_true(orr_dtype_load(dtypes[k], &value, 0) == wanted);
            orr_future_destroy(&future);
        }
        orr_tensor_destroy(&tensor);
        orr_tensor_destroy(&whole);
        fixture_close(&f);
    }
}

static void partial_values_from_the_host_add_up_to_themselves(void **state) {
    (void)state;
    static const char *const texts[] = {"P(sum)", "P(avg)", "P(max)", "P(min)"};
    const float values[6] = {1, -2, 3, -4, 5, -6};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        fixture_open(&f, orr_sim_open, 3);
        struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(1, (int64_t[]){6})};
        struct orr_layout layout = layout_of(orr_mesh_default(f.runtime), &texts[i]);
        struct orr_tensor *tensor;
        struct orr_future *future;
        float got[6];
        must_be_ok(f.runtime, orr_tensor_from_host(f.runtime, &info, &layout, values, &tensor));
        must_be_ok(f.runtime, orr_tensor_future(tensor, &future));
        must_be_ok(f.runtime, orr_future_get(future, got, sizeof got));
        assert_memory_equal(got, values, sizeof got);
        orr_future_destroy(&future);
        orr_tensor_destroy(&tensor);
        fixture_close(&f);
    }
}

static void a_wrong_dimension_is_refused(void **state) {
    (void)state;
    struct fixture f;
    struct orr_mesh *mesh;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 4);
    must_be_ok(f.runtime, orr_mesh_create(f.runtime, 2, (int64_t[]){2, 2},
                                          (const char *[]){"dp", "tp"}, NULL, &mesh));
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){4, 4})};
    struct orr_layout from = layout_of(mesh, (const char *[]){"S(0)", "R"});
    struct orr_layout to = layout_of(mesh, (const char *[]){"R", "S(2)"});
    struct orr_tensor *tensor = zeros_of(&f, &info, &from), *changed;
    assert_int_equal(orr_tensor_redistribute(tensor, &to, &changed), ORR_INVALID);
    assert_null(changed);
    assert_int_equal(orr_redistribute_plan(tensor, &to, &plan), ORR_INVALID);
    must_be_ok(f.runtime, orr_tensor_redistribute(tensor, &from, &changed));
    assert_ptr_equal(changed, tensor); /* nothing had to change: the same once more */
    orr_tensor_destroy(&changed);
    orr_tensor_destroy(&tensor);
    fixture_close(&f);
}

static void without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[3] = {spec_for_tests(), spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 3};
    struct orr_error error;
    struct orr_runtime *runtime;
    static const float values[35];
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    struct orr_mesh *mesh = orr_mesh_default(runtime);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){7, 5})};
    static const char *const texts[] = {"S(0)", "S(1)", "P(max)", "S(1)", "P(sum)", "R"};
    struct orr_tensor *tensors[6] = {NULL};
    enum orr_status status = mesh ? ORR_OK : ORR_NO_MEMORY;
    for (int i = 0; status == ORR_OK && i < 6; i++) {
        struct orr_layout layout = layout_of(mesh, &texts[i]);
        status = i == 0 ? orr_tensor_from_host(runtime, &info, &layout, values, &tensors[i])
                        : orr_tensor_redistribute(tensors[i - 1], &layout, &tensors[i]);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY || status == ORR_DEVICE_MEMORY);
        assert_true((status == ORR_OK) == (tensors[i] != NULL));
    }
    for (int i = 0; i < 6; i++)
        orr_tensor_destroy(&tensors[i]);
    (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
}

static void running_out_of_memory_anywhere_leaks_nothing(void **state) {
    (void)state;
    assert_true(fail_each_request(without_memory, NULL) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_placements_become_any_others),
        cmocka_unit_test(and_on_threads),
        cmocka_unit_test(all_pairs_of_placements_over_two_axes),
        cmocka_unit_test(one_step_puts_its_closed_form_on_the_wire),
        cmocka_unit_test(a_plan_says_what_it_does_and_what_it_does_not),
        cmocka_unit_test(an_inner_cut_becomes_whole_before_the_outer_one_changes),
        cmocka_unit_test(inner_terms_are_reduced_before_outer_ones_of_another_kind),
        cmocka_unit_test(sums_are_scattered_rather_than_reduced_and_cut),
        cmocka_unit_test(a_redistribution_is_an_operator_of_its_steps),
        cmocka_unit_test(an_average_of_integers_is_cut_the_same_way_everywhere),
        cmocka_unit_test(partial_values_from_the_host_add_up_to_themselves),
        cmocka_unit_test(a_wrong_dimension_is_refused),
        cmocka_unit_test(running_out_of_memory_anywhere_leaks_nothing),
    };
    return cmocka_run_group_tests_name("redistribute", tests, NULL, NULL);
}
