/* Several tensors redistributed through buckets, and ring shifts: against a direct look at every
 * rank's memory, with the collectives and bytes that they should take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/autograd.h"
#include "runtime/cpu/cpu.h"
#include "sim/sim.h"
#include "tests/redistribute_fixture.h"

enum { TENSORS = 6, SEEDS_SIM = 3000, SEEDS_CPU = 400 };

/* ---- random cases ------------------------------------------------------------------------- */

static struct orr_mesh *draw_mesh(struct bench *b, uint64_t *random) {
    static const char *const names[] = {"a", "b", "c"};
    int64_t dims[3];
    int axes = 1 + (int)random_below(random, 3);
    uint64_t size = 1, most = orr_runtime_device_count(b->runtime);
    for (int i = 0; i < axes; i++) {
        dims[i] = 1 + (int64_t)random_below(random, 4);
        while (size * (uint64_t)dims[i] > most)
            dims[i]--;
        size *= (uint64_t)dims[i];
    }
    struct orr_mesh *mesh;
    must_be_ok(b->runtime, orr_mesh_create(b->runtime, axes, dims, names, NULL, &mesh));
    return mesh;
}

/* A placement like the given one, of a dimension of its own. */
static struct orr_placement vary(struct trial *t, struct orr_placement placement) {
    if (placement.kind == ORR_SHARD)
        placement.dim = (int32_t)random_below(&t->random, (uint64_t)t->info.shape.rank);
    return placement;
}

/* Tensors whose placements are alike along every axis, mostly. */
static void draw_trials(struct trial *trials, struct orr_mesh *mesh, uint64_t seed) {
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_F32, ORR_DTYPE_F64, ORR_DTYPE_I32};
    struct orr_placement from[3], to[3];
    for (int i = 0; i < TENSORS; i++) {
        struct trial *t = &trials[i];
        t->random = (seed * TENSORS + (uint64_t)i) * 0x9e3779b97f4a7c15u + 1;
        int rank = 1 + (int)random_below(&t->random, 3);
        int64_t dims[3];
        for (int k = 0; k < rank; k++)
            dims[k] = (int64_t)random_below(&t->random, random_below(&t->random, 4) ? 8 : 3);
        t->info = (struct orr_operand_info){dtypes[random_below(&t->random, 4) ? 0 : i % 3],
                                            orr_shape_of(rank, dims)};
        t->from = t->to = orr_layout_replicated(mesh);
        for (int axis = 0; axis < mesh->axis_count; axis++) {
            if (i == 0 || random_below(&t->random, 12) == 0) {
                from[axis] = draw_placement(t);
                to[axis] = draw_placement(t);
            }
            t->from.axes[axis] = vary(t, from[axis]);
            t->to.axes[axis] = vary(t, to[axis]);
        }
        describe(t, seed);
    }
}

static void run_trial(struct bench *b, uint64_t seed) {
    static struct trial trials[TENSORS];
    struct orr_tensor *sources[TENSORS], *targets[TENSORS];
    struct orr_layout layouts[TENSORS];
    uint64_t random = seed * 31 + 7;
    struct orr_mesh *mesh = draw_mesh(b, &random);
    draw_trials(trials, mesh, seed);
    for (int i = 0; i < TENSORS; i++) {
        sources[i] = source_of(b, &trials[i]);
        layouts[i] = trials[i].to;
    }
    must_be_ok(b->runtime, orr_tensor_redistribute_all(sources, layouts, TENSORS, targets));
    must_be_ok(b->runtime, orr_runtime_finish(b->runtime));
    for (int i = 0; i < TENSORS; i++) {
        describe(&trials[i], seed);
        assert_true(orr_layout_equal(orr_tensor_layout(targets[i]), &layouts[i]));
        look_at_all(targets[i], trials[i].wanted, look_compares);
        look_at_all(sources[i], trials[i].wanted, look_compares);
        orr_tensor_destroy(&sources[i]);
        orr_tensor_destroy(&targets[i]);
    }
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

static void tensors_together_become_what_each_becomes_alone(void **state) {
    (void)state;
    run_trials(orr_sim_open, 16, SEEDS_SIM);
}

static void and_on_threads(void **state) {
    (void)state;
    run_trials(orr_cpu_open, 9, SEEDS_CPU);
}

/* ---- what it takes ------------------------------------------------------------------------ */

static struct orr_layout layout_of(struct orr_mesh *mesh, const char *const *texts) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    struct orr_error error;
    for (int i = 0; i < mesh->axis_count; i++)
        assert_int_equal(orr_placement_parse(texts[i], &layout.axes[i], &error), ORR_OK);
    return layout;
}

static struct orr_tensor *zeros_of(struct fixture *f, int64_t rows, int64_t columns,
                                   const struct orr_layout *layout) {
    static const float zeros[ELEMENTS_MAX];
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){rows, columns})};
    struct orr_tensor *tensor;
    must_be_ok(f->runtime, orr_tensor_from_host(f->runtime, &info, layout, zeros, &tensor));
    return tensor;
}

/* Kernels and collective members since record `first`. */
static void count_since(const struct fixture *f, size_t first, size_t *kernels, size_t *members) {
    *kernels = *members = 0;
    for (size_t i = first; i < record_count(f, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *command = record_at(f, ORR_RECORD_COMMAND, i);
        *kernels += command->header.a == ORR_COMMAND_KERNEL;
        *members += command->header.a == ORR_COMMAND_COLLECTIVE;
    }
}

static void a_step_is_one_collective_and_one_kernel_a_side(void **state) {
    (void)state;
    static const struct {
        const char *from[3], *to[3];
        const char *kind;
    } table[] = {
        {{"P", "P", "P"}, {"R", "R", "R"}, "all_reduce"},
        {{"P", "P", "P"}, {"S(0)", "S(1)", "S(0)"}, "reduce_scatter"},
        {{"S(0)", "S(1)", "S(0)"}, {"R", "R", "R"}, "all_gather"},
        {{"S(0)", "S(1)", "S(0)"}, {"S(1)", "S(0)", "S(1)"}, "all_to_all"},
    };
    static const int64_t shapes[3][2] = {{8, 12}, {7, 5}, {3, 4}};
    struct fixture f;
    fixture_open(&f, orr_sim_open, 4);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    for (size_t k = 0; k < 4; k++) {
        struct orr_tensor *tensors[3], *results[3];
        struct orr_layout layouts[3];
        uint64_t bytes = 0;
        for (int i = 0; i < 3; i++) {
            struct orr_redistribute_plan plan;
            struct orr_layout from = layout_of(mesh, &table[k].from[i]);
            layouts[i] = layout_of(mesh, &table[k].to[i]);
            tensors[i] = zeros_of(&f, shapes[i][0], shapes[i][1], &from);
            must_be_ok(f.runtime, orr_redistribute_plan(tensors[i], &layouts[i], &plan));
            bytes += plan.paths[0].bytes;
        }
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        size_t commands = record_count(&f, ORR_RECORD_COMMAND), kernels, members;
        size_t collectives = record_count(&f, ORR_RECORD_COLLECTIVE);
        size_t ops = record_count(&f, ORR_RECORD_OP);
        must_be_ok(f.runtime, orr_tensor_redistribute_all(tensors, layouts, 3, results));
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        count_since(&f, commands, &kernels, &members);
        assert_int_equal(kernels, 2 * 4);
        assert_int_equal(members, 4);
        assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), collectives + 1);
        const struct orr_record_collective *one = record_at(&f, ORR_RECORD_COLLECTIVE, collectives);
        assert_string_equal(name_text(&f, one->kind), table[k].kind);
        const struct orr_record_op *op = record_at(&f, ORR_RECORD_OP, ops);
        char text[128];
        snprintf(text, sizeof text, "redistribute 3 tensors: %s all; %llu B on the wire, %d hop%s",
                 table[k].kind, (unsigned long long)bytes,
                 k == 0   ? 6
                 : k == 3 ? 1
                          : 3,
                 k == 3 ? "" : "s");
        assert_string_equal(name_text(&f, op->name), text);
        for (int i = 0; i < 3; i++) {
            orr_tensor_destroy(&tensors[i]);
            orr_tensor_destroy(&results[i]);
        }
    }
    fixture_close(&f);
}

/* The bucket's ring carries what the rings of single ones carry together, though shards are
 * uneven. */
static void a_bucket_of_uneven_shards_takes_as_long_on_the_wire(void **state) {
    (void)state;
    uint64_t ns[2];
    for (int together = 0; together < 2; together++) {
        struct fixture f;
        fixture_prepare(&f, orr_sim_open, 4);
        for (int i = 0; i < 4; i++) {
            f.specs[i].peer_bandwidth = 1000000000; /* one byte a nanosecond */
            f.specs[i].peer_latency_ns = 0;
        }
        fixture_start(&f);
        struct orr_layout from = layout_of(orr_mesh_default(f.runtime), (const char *[]){"S(0)"});
        struct orr_layout to[2] = {orr_layout_replicated(from.mesh),
                                   orr_layout_replicated(from.mesh)};
        struct orr_tensor *tensors[2] = {zeros_of(&f, 7, 50, &from), zeros_of(&f, 5, 30, &from)};
        struct orr_tensor *results[2];
        if (together) {
            must_be_ok(f.runtime, orr_tensor_redistribute_all(tensors, to, 2, results));
        } else {
            for (int i = 0; i < 2; i++)
                must_be_ok(f.runtime, orr_tensor_redistribute(tensors[i], &to[i], &results[i]));
        }
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        ns[together] = 0;
        for (size_t i = 0; i < record_count(&f, ORR_RECORD_COLLECTIVE); i++) {
            int64_t start_ns = 0, finish_ns = 0;
            for (size_t k = 4 * i; k < 4 * i + 4; k++) { /* the transfer: from the last start */
                const struct orr_record_collective_member *member =
                    record_at(&f, ORR_RECORD_COLLECTIVE_MEMBER, k);
                const struct orr_record_command *command = command_record(&f, member->cmd);
                start_ns = command->start_ns > start_ns ? command->start_ns : start_ns;
                finish_ns = command->finish_ns;
            }
            ns[together] += (uint64_t)(finish_ns - start_ns);
        }
        for (int i = 0; i < 2; i++) {
            orr_tensor_destroy(&tensors[i]);
            orr_tensor_destroy(&results[i]);
        }
        fixture_close(&f);
    }
    /* 7 rows of 200 bytes: 2, 2, 2, 1; 5 rows of 120 bytes: 2, 2, 1, 0. All but the smallest. */
    assert_int_equal(ns[0], 6 * 200 + 5 * 120 + 2 * spec_for_tests().kernel_fixed_ns);
    assert_int_equal(ns[1], 6 * 200 + 5 * 120 + spec_for_tests().kernel_fixed_ns);
}

/* ---- shifts ------------------------------------------------------------------------------- */

static void a_shift_rolls_the_tensor_by_whole_shards(void **state) {
    (void)state;
    static struct bench b;
    for (int backend = 0; backend < 2; backend++) {
        bench_open(&b, backend ? orr_cpu_open : orr_sim_open, 12);
        struct orr_mesh *mesh;
        must_be_ok(b.runtime, orr_mesh_create(b.runtime, 2, (int64_t[]){3, 4},
                                              (const char *[]){"dp", "cp"}, NULL, &mesh));
        for (int64_t by = -9; by <= 9; by++) {
            static struct trial t;
            struct orr_tensor *shifted;
            t.info = (struct orr_operand_info){ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){5, 8})};
            t.from = t.to = layout_of(mesh, by % 2 ? (const char *[]){"P", "S(1)"}
                                                   : (const char *[]){"S(0)", "S(1)"});
            struct orr_tensor *source = source_of(&b, &t);
            must_be_ok(b.runtime, orr_tensor_shift(source, 1, by, &shifted));
            must_be_ok(b.runtime, orr_runtime_finish(b.runtime));
            double rolled[40];
            for (int64_t i = 0; i < 40; i++)
                rolled[i / 8 * 8 + ((i % 8 + 2 * by) % 8 + 8) % 8] = t.wanted[i];
            memcpy(t.wanted, rolled, sizeof rolled);
            describe(&t, (uint64_t)(by + 9));
            look_at_all(shifted, t.wanted, look_compares);
            assert_true((shifted == source) == (by % 4 == 0));
            orr_tensor_destroy(&source);
            orr_tensor_destroy(&shifted);
        }
        bench_close(&b);
    }
}

static void a_ring_is_one_group_of_sends(void **state) {
    (void)state;
    struct fixture f;
    struct orr_mesh *mesh;
    fixture_open(&f, orr_sim_open, 8);
    must_be_ok(f.runtime, orr_mesh_create(f.runtime, 2, (int64_t[]){2, 4},
                                          (const char *[]){"dp", "cp"}, NULL, &mesh));
    struct orr_layout layout = layout_of(mesh, (const char *[]){"R", "S(0)"});
    struct orr_tensor *tensor = zeros_of(&f, 8, 3, &layout), *shifted;
    must_be_ok(f.runtime, orr_tensor_shift(tensor, 1, 1, &shifted));
    must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), 2); /* one for each ring */
    for (size_t i = 0; i < 2; i++) {
        const struct orr_record_collective *ring = record_at(&f, ORR_RECORD_COLLECTIVE, i);
        assert_string_equal(name_text(&f, ring->kind), "send_receive");
        assert_int_equal(ring->bytes, 2 * 3 * 4);
        assert_int_equal(ring->seq, 0);
    }
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE_MEMBER), 8);
    const struct orr_record_op *op =
        record_at(&f, ORR_RECORD_OP, record_count(&f, ORR_RECORD_OP) - 1);
    assert_string_equal(name_text(&f, op->name), "shift");
    orr_tensor_destroy(&tensor);
    orr_tensor_destroy(&shifted);
    fixture_close(&f);
}

static void what_has_no_even_shards_is_not_shifted(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 4);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_layout whole = layout_of(mesh, (const char *[]){"R"});
    struct orr_layout cut = layout_of(mesh, (const char *[]){"S(0)"});
    struct orr_tensor *replicated = zeros_of(&f, 8, 3, &whole), *out;
    struct orr_tensor *uneven = zeros_of(&f, 7, 3, &cut);
    assert_int_equal(orr_tensor_shift(replicated, 0, 1, &out), ORR_INVALID);
    assert_null(out);
    assert_string_equal(fixture_error(&f), "shift along 'all' of a tensor that is R: expected a "
                                           "shard S(dim) along that axis");
    assert_int_equal(orr_tensor_shift(uneven, 0, 4, &out), ORR_INVALID);
    assert_string_equal(fixture_error(&f),
                        "shift along 'all' of a tensor of shape [7, 3] that is S(0): its shards "
                        "are uneven, expected equal ones");
    orr_tensor_destroy(&replicated);
    orr_tensor_destroy(&uneven);
    fixture_close(&f);
}

static void the_gradient_of_a_shift_is_shifted_back(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 4);
    struct orr_layout cut = layout_of(orr_mesh_default(f.runtime), (const char *[]){"S(0)"});
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(1, (int64_t[]){8})};
    float values[8], got[8];
    for (int i = 0; i < 8; i++)
        values[i] = (float)i;
    struct orr_tensor *x, *dy, *shifted, *dx;
    struct orr_gradient_tape *tape;
    struct orr_future *future;
    must_be_ok(f.runtime, orr_tensor_from_host(f.runtime, &info, &cut, values, &x));
    must_be_ok(f.runtime, orr_tensor_from_host(f.runtime, &info, &cut, values, &dy));
    must_be_ok(f.runtime, orr_gradient_tape_begin(f.runtime, &tape));
    must_be_ok(f.runtime, orr_gradient_tape_watch(tape, x));
    must_be_ok(f.runtime, orr_tensor_shift(x, 0, 1, &shifted));
    struct orr_gradient_seed seed = {.tensor = shifted, .gradient = dy};
    must_be_ok(f.runtime, orr_gradient_from(tape, &seed, 1, &x, 1, &dx));
    must_be_ok(f.runtime, orr_tensor_future(dx, &future));
    must_be_ok(f.runtime, orr_future_get(future, got, sizeof got));
    for (int i = 0; i < 8; i++)
        assert_true(got[i] == values[(i + 2) % 8]);
    orr_future_destroy(&future);
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&dy);
    orr_tensor_destroy(&shifted);
    orr_tensor_destroy(&dx);
    fixture_close(&f);
}

static void gradients_of_tensors_in_a_bucket_come_back_one_by_one(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_layout cut = layout_of(mesh, (const char *[]){"S(0)"});
    struct orr_layout whole[2] = {orr_layout_replicated(mesh), orr_layout_replicated(mesh)};
    struct orr_tensor *x[2] = {zeros_of(&f, 4, 2, &cut), zeros_of(&f, 3, 3, &cut)};
    struct orr_tensor *gathered[2], *dx[2];
    struct orr_gradient_tape *tape;
    must_be_ok(f.runtime, orr_gradient_tape_begin(f.runtime, &tape));
    must_be_ok(f.runtime, orr_gradient_tape_watch(tape, x[0]));
    must_be_ok(f.runtime, orr_gradient_tape_watch(tape, x[1]));
    must_be_ok(f.runtime, orr_tensor_redistribute_all(x, whole, 2, gathered));
    struct orr_gradient_seed seeds[2] = {{.tensor = gathered[0], .value = 3},
                                         {.tensor = gathered[1], .value = 5}};
    must_be_ok(f.runtime, orr_gradient_from(tape, seeds, 2, x, 2, dx));
    for (int i = 0; i < 2; i++) {
        float got[9];
        size_t count = i ? 9 : 8;
        struct orr_future *future;
        assert_true(orr_layout_equal(orr_tensor_layout(dx[i]), &cut));
        must_be_ok(f.runtime, orr_tensor_future(dx[i], &future));
        must_be_ok(f.runtime, orr_future_get(future, got, count * sizeof *got));
        for (size_t k = 0; k < count; k++)
            assert_true(got[k] == (i ? 5 : 3));
        orr_future_destroy(&future);
    }
    orr_gradient_tape_destroy(&tape);
    for (int i = 0; i < 2; i++) {
        orr_tensor_destroy(&x[i]);
        orr_tensor_destroy(&gathered[i]);
        orr_tensor_destroy(&dx[i]);
    }
    fixture_close(&f);
}

static void timing_only_takes_as_long(void **state) {
    (void)state;
    int64_t ends[2];
    for (int timing = 0; timing < 2; timing++) {
        struct fixture f;
        struct orr_mesh *mesh;
        fixture_prepare(&f, orr_sim_open, 8);
        f.config.timing_only = timing;
        fixture_start(&f);
        must_be_ok(f.runtime, orr_mesh_create(f.runtime, 2, (int64_t[]){2, 4},
                                              (const char *[]){"dp", "cp"}, NULL, &mesh));
        struct orr_layout from = layout_of(mesh, (const char *[]){"P", "S(0)"});
        struct orr_layout to = layout_of(mesh, (const char *[]){"S(1)", "R"}), tos[2] = {to, to};
        struct orr_tensor *x[2] = {zeros_of(&f, 8, 6, &from), zeros_of(&f, 16, 5, &from)};
        struct orr_tensor *shifted, *y[2];
        must_be_ok(f.runtime, orr_tensor_shift(x[0], 1, 3, &shifted));
        must_be_ok(f.runtime, orr_tensor_redistribute_all(x, tos, 2, y));
        must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
        ends[timing] = orr_runtime_now(f.runtime);
        orr_tensor_destroy(&shifted);
        for (int i = 0; i < 2; i++) {
            orr_tensor_destroy(&x[i]);
            orr_tensor_destroy(&y[i]);
        }
        fixture_close(&f);
    }
    assert_int_equal(ends[0], ends[1]);
    assert_true(ends[0] > 0);
}

/* ---- failures ----------------------------------------------------------------------------- */

static void without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[3] = {spec_for_tests(), spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 3};
    struct orr_error error;
    struct orr_runtime *runtime;
    static const float values[36];
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    struct orr_mesh *mesh = orr_mesh_default(runtime);
    struct orr_gradient_tape *tape = NULL;
    enum orr_status status = mesh ? ORR_OK : ORR_NO_MEMORY;
    struct orr_tensor *x[3] = {NULL}, *y[3] = {NULL}, *z = NULL;
    static const char *const from[] = {"P", "P", "S(1)"}, *const to[] = {"S(0)", "S(1)", "R"};
    struct orr_layout layouts[3];
    for (int i = 0; status == ORR_OK && i < 3; i++) {
        struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){6, 3 + i})};
        struct orr_layout layout = layout_of(mesh, &from[i]);
        layouts[i] = layout_of(mesh, &to[i]);
        status = orr_tensor_from_host(runtime, &info, &layout, values, &x[i]);
    }
    if (status == ORR_OK)
        status = orr_gradient_tape_begin(runtime, &tape);
    if (status == ORR_OK)
        status = orr_gradient_tape_watch(tape, x[0]);
    if (status == ORR_OK)
        status = orr_tensor_redistribute_all(x, layouts, 3, y);
    for (int i = 0; i < 3; i++)
        assert_true((status == ORR_OK) == (y[i] != NULL));
    if (status == ORR_OK)
        status = orr_tensor_shift(y[0], 0, 1, &z);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY || status == ORR_DEVICE_MEMORY);
    orr_gradient_tape_destroy(&tape);
    for (int i = 0; i < 3; i++) {
        orr_tensor_destroy(&x[i]);
        orr_tensor_destroy(&y[i]);
    }
    orr_tensor_destroy(&z);
    (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
}

static void running_out_of_memory_anywhere_leaks_nothing(void **state) {
    (void)state;
    assert_true(fail_each_request(without_memory, NULL) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_together_become_what_each_becomes_alone),
        cmocka_unit_test(and_on_threads),
        cmocka_unit_test(a_step_is_one_collective_and_one_kernel_a_side),
        cmocka_unit_test(a_bucket_of_uneven_shards_takes_as_long_on_the_wire),
        cmocka_unit_test(a_shift_rolls_the_tensor_by_whole_shards),
        cmocka_unit_test(a_ring_is_one_group_of_sends),
        cmocka_unit_test(what_has_no_even_shards_is_not_shifted),
        cmocka_unit_test(the_gradient_of_a_shift_is_shifted_back),
        cmocka_unit_test(gradients_of_tensors_in_a_bucket_come_back_one_by_one),
        cmocka_unit_test(timing_only_takes_as_long),
        cmocka_unit_test(running_out_of_memory_anywhere_leaks_nothing),
    };
    return cmocka_run_group_tests_name("redistribute_all", tests, NULL, NULL);
}
