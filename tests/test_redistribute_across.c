/* Redistribution between meshes: any placements on any mesh to any others on another one, whatever
 * devices they have in common, against a direct look at every rank's memory; what is shared, what
 * is sent, and what the trace says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "sim/sim.h"
#include "tests/redistribute_fixture.h"

enum { AXES = 4, SIZE_MAX_DEVICES = 16, SEEDS_SIM = 6000, SEEDS_CPU = 600 };

/* ---- random cases ------------------------------------------------------------------------- */

/* A mesh of up to four axes with names from a short list, on any devices in any order. */
static struct orr_mesh *draw_mesh(struct bench *b, struct trial *t) {
    static const char *const all[] = {"a", "b", "c", "d", "e"};
    uint32_t count = orr_runtime_device_count(b->runtime), devices[DEVICES];
    int64_t dims[AXES];
    const char *names[AXES];
    int axes = 1 + (int)random_below(&t->random, AXES);
    int first = (int)random_below(&t->random, 5);
    uint64_t size = 1;
    for (int i = 0; i < axes; i++) {
        dims[i] = 1 + (int64_t)random_below(&t->random, 4);
        while (size * (uint64_t)dims[i] > SIZE_MAX_DEVICES || size * (uint64_t)dims[i] > count)
            dims[i]--;
        size *= (uint64_t)dims[i];
        names[i] = all[(first + i) % 5];
    }
    for (uint32_t i = 0; i < count; i++)
        devices[i] = i;
    for (uint32_t i = count - 1; i > 0 && random_below(&t->random, 3); i--) {
        uint32_t k = (uint32_t)random_below(&t->random, i + 1), device = devices[k];
        devices[k] = devices[i];
        devices[i] = device;
    }
    struct orr_mesh *mesh;
    must_be_ok(b->runtime, orr_mesh_create(b->runtime, axes, dims, names, devices, &mesh));
    return mesh;
}

/* Another mesh: any one, or a view of the first. */
static struct orr_mesh *draw_other(struct bench *b, struct trial *t, struct orr_mesh *mesh) {
    struct orr_mesh *other;
    uint64_t kind = random_below(&t->random, 4);
    if (kind == 0) {
        int axes[AXES], count = mesh->axis_count;
        int turn = (int)random_below(&t->random, (uint64_t)count);
        for (int i = 0; i < count; i++)
            axes[i] = (i + turn) % count;
        must_be_ok(b->runtime, orr_mesh_permute(mesh, axes, &other));
        return other;
    }
    if (kind == 1) {
        int64_t at[AXES];
        for (int i = 0; i < mesh->axis_count; i++)
            at[i] = random_below(&t->random, 2)
                        ? ORR_MESH_WHOLE
                        : (int64_t)random_below(&t->random, (uint64_t)mesh->dims[i]);
        must_be_ok(b->runtime, orr_mesh_slice(mesh, at, &other));
        return other;
    }
    return draw_mesh(b, t);
}

static void draw_trial(struct bench *b, struct trial *t) {
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_F32, ORR_DTYPE_F64,  ORR_DTYPE_I32,
                                            ORR_DTYPE_I64, ORR_DTYPE_BF16, ORR_DTYPE_I8};
    struct orr_mesh *from = draw_mesh(b, t), *to = draw_other(b, t, from);
    int rank = (int)random_below(&t->random, 5);
    int64_t dims[4];
    for (int i = 0; i < rank; i++)
        dims[i] = (int64_t)random_below(&t->random, random_below(&t->random, 4) ? 7 : 3);
    t->info =
        (struct orr_operand_info){dtypes[random_below(&t->random, 6)], orr_shape_of(rank, dims)};
    t->from = orr_layout_replicated(from);
    t->to = orr_layout_replicated(to);
    bool partial = orr_dtype_size(t->info.dtype) >= 4;
    for (int i = 0; i < AXES; i++) {
        struct orr_placement a = draw_placement(t), z = draw_placement(t);
        int same = i < from->axis_count ? orr_mesh_axis(to, from->names[i]) : -1;
        if (i < from->axis_count && (partial || a.kind != ORR_PARTIAL))
            t->from.axes[i] = a;
        if (i < to->axis_count && (partial || z.kind != ORR_PARTIAL))
            t->to.axes[i] = z;
        if (same >= 0 && same <= i && random_below(&t->random, 2))
            t->to.axes[same] = t->from.axes[i];
    }
}

/* How often what happened. */
struct tally {
    uint64_t same, shared, sent, kept_terms;
};

static bool has_partial(const struct orr_layout *layout) {
    for (int i = 0; i < layout->mesh->axis_count; i++)
        if (layout->axes[i].kind == ORR_PARTIAL && layout->mesh->dims[i] > 1)
            return true;
    return false;
}

static void run_trial(struct bench *b, uint64_t seed, struct tally *tally) {
    static struct trial t;
    struct orr_redistribute_plan plan;
    struct orr_tensor *target;
    t.random = seed * 0x9e3779b97f4a7c15u + 1;
    draw_trial(b, &t);
    struct orr_tensor *source = source_of(b, &t);
    describe(&t, seed);
    must_be_ok(b->runtime, orr_redistribute_plan(source, &t.to, &plan));
    must_be_ok(b->runtime, orr_tensor_redistribute(source, &t.to, &target));
    must_be_ok(b->runtime, orr_runtime_finish(b->runtime));
    assert_true(orr_layout_equal(orr_tensor_layout(target), &t.to));
    assert_true(plan.crosses == (t.from.mesh != t.to.mesh));
    look_at_all(target, t.wanted, look_compares);
    look_at_all(source, t.wanted, look_compares); /* which is as it was */
    if (seed % 4 == 0)
        check_future(b, &t, target);
    tally->same += !plan.crosses;
    tally->shared += plan.crosses && plan.crossing.shares;
    tally->sent += plan.crosses && plan.crossing.sends > 0;
    tally->kept_terms += plan.crosses && has_partial(&plan.crossing.sent);
    orr_tensor_destroy(seed % 2 ? &source : &target); /* either may go first */
    look_at_all(seed % 2 ? target : source, t.wanted, look_compares);
    orr_tensor_destroy(&source);
    orr_tensor_destroy(&target);
}

static void run_trials(orr_backend_open open, uint32_t devices, uint64_t seeds) {
    enum { ROUND = 100 }; /* meshes live as long as their runtime */
    uint64_t first = random_seed(1);
    struct tally tally = {0};
    for (uint64_t i = 0; i < seeds; i += ROUND) {
        static struct bench b;
        bench_open(&b, open, devices);
        for (uint64_t k = 0; k < ROUND; k++)
            run_trial(&b, first + i + k, &tally);
        bench_close(&b);
    }
    print_message("# %llu on their mesh, %llu shared, %llu sent, %llu as terms\n",
                  (unsigned long long)tally.same, (unsigned long long)tally.shared,
                  (unsigned long long)tally.sent, (unsigned long long)tally.kept_terms);
    assert_true(tally.same > 0 && tally.shared > seeds / 100 && tally.sent > seeds / 4 &&
                tally.kept_terms > 0);
}

static void any_placements_on_any_mesh_become_any_on_any_other(void **state) {
    (void)state;
    run_trials(orr_sim_open, 20, SEEDS_SIM);
}

static void and_on_threads(void **state) {
    (void)state;
    run_trials(orr_cpu_open, 9, SEEDS_CPU);
}

/* ---- what is done ------------------------------------------------------------------------- */

static struct orr_mesh *mesh_of(struct fixture *f, int axes, const int64_t *dims,
                                const char *const *names, const uint32_t *devices) {
    struct orr_mesh *mesh;
    must_be_ok(f->runtime, orr_mesh_create(f->runtime, axes, dims, names, devices, &mesh));
    return mesh;
}

static struct orr_layout layout_of(struct orr_mesh *mesh, const char *const *texts) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    struct orr_error error;
    for (int i = 0; i < mesh->axis_count; i++)
        assert_int_equal(orr_placement_parse(texts[i], &layout.axes[i], &error), ORR_OK);
    return layout;
}

/* 8 x 12 of f32: 384 bytes. */
static struct orr_tensor *tensor_on(struct fixture *f, const struct orr_layout *layout) {
    static const float zeros[96];
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){8, 12})};
    struct orr_tensor *tensor;
    must_be_ok(f->runtime, orr_tensor_from_host(f->runtime, &info, layout, zeros, &tensor));
    return tensor;
}

/* Number of kernels of a name. */
static size_t kernels(const struct fixture *f, const char *name) {
    size_t count = 0;
    for (size_t i = 0; i < record_count(f, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *command = record_at(f, ORR_RECORD_COMMAND, i);
        count += strcmp(name_text(f, command->name), name) == 0;
    }
    return count;
}

static void redistribute(struct fixture *f, const struct orr_layout *from,
                         const struct orr_layout *to, struct orr_redistribute_plan *plan) {
    struct orr_tensor *source = tensor_on(f, from), *target;
    must_be_ok(f->runtime, orr_redistribute_plan(source, to, plan));
    must_be_ok(f->runtime, orr_tensor_redistribute(source, to, &target));
    must_be_ok(f->runtime, orr_runtime_finish(f->runtime));
    orr_tensor_destroy(&source);
    orr_tensor_destroy(&target);
}

static void a_stage_hands_each_rank_its_piece_in_one_send(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 8);
    const char *names[2] = {"dp", "tp"};
    struct orr_mesh *first = mesh_of(&f, 2, (int64_t[]){2, 2}, names, NULL);
    struct orr_mesh *second = mesh_of(&f, 2, (int64_t[]){2, 2}, names, (uint32_t[]){4, 5, 6, 7});
    static const char *const places[][2] = {{"R", "R"}, {"S(0)", "S(1)"}, {"S(1)", "P"}};
    for (size_t i = 0; i < 3; i++) {
        struct orr_layout from = layout_of(first, places[i]), to = layout_of(second, places[i]);
        redistribute(&f, &from, &to, &plan);
        assert_int_equal(plan.crossing.sends, 4);
        assert_int_equal(plan.crossing.local_bytes, 0);
        assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), i + 1);
        const struct orr_record_collective *group = record_at(&f, ORR_RECORD_COLLECTIVE, i);
        assert_int_equal(group->bytes, plan.crossing.bytes);
        assert_int_equal(group->seq, i);
        assert_string_equal(name_text(&f, group->kind), "send_receive");
        for (uint32_t k = 0; k < 8; k++) {
            const struct orr_record_collective_member *member =
                record_at(&f, ORR_RECORD_COLLECTIVE_MEMBER, 8 * i + k);
            const struct orr_record_command *command = command_record(&f, member->cmd);
            assert_int_equal(member->rank, k);
            assert_int_equal(command->bytes_read, k < 4 ? plan.crossing.bytes : 0);
            assert_int_equal(command->bytes_written, k < 4 ? 0 : plan.crossing.bytes);
        }
    }
    assert_int_equal(kernels(&f, "pack") + kernels(&f, "unpack") + kernels(&f, "move"), 0);
    assert_int_equal(record_count(&f, ORR_RECORD_COMMUNICATOR), 1);
    assert_int_equal(record_count(&f, ORR_RECORD_MEMBER), 8);
    fixture_close(&f);
}

static void the_way_back_has_the_same_communicator(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 4);
    struct orr_mesh *a = mesh_of(&f, 1, (int64_t[]){3}, NULL, (uint32_t[]){2, 1, 0});
    struct orr_mesh *b = mesh_of(&f, 1, (int64_t[]){2}, NULL, (uint32_t[]){1, 3});
    struct orr_layout from = layout_of(a, (const char *[]){"S(0)"});
    struct orr_layout to = layout_of(b, (const char *[]){"S(1)"});
    redistribute(&f, &from, &to, &plan);
    redistribute(&f, &to, &from, &plan);
    assert_int_equal(record_count(&f, ORR_RECORD_COMMUNICATOR), 1);
    assert_int_equal(record_count(&f, ORR_RECORD_MEMBER), 4);
    static const uint32_t devices[4] = {2, 1, 0, 3};
    for (uint32_t i = 0; i < 4; i++) {
        const struct orr_record_member *member = record_at(&f, ORR_RECORD_MEMBER, i);
        assert_int_equal(member->rank, i);
        assert_int_equal(member->device, devices[i]);
    }
    const struct orr_record_collective *last = record_at(&f, ORR_RECORD_COLLECTIVE, 1);
    assert_int_equal(last->seq, 1);
    fixture_close(&f);
}

/* As the communicators along an axis are, so that readers of a trace can add them up. */
static void a_communicator_between_stages_is_named_after_their_axis(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *mesh = mesh_of(&f, 2, (int64_t[]){4, 2}, (const char *[]){"pp", "tp"}, NULL),
                    *stages[4];
    struct orr_layout layouts[4], all = orr_layout_replicated(mesh);
    for (int i = 0; i < 4; i++) {
        must_be_ok(f.runtime, orr_mesh_slice(mesh, (int64_t[]){i, ORR_MESH_WHOLE}, &stages[i]));
        layouts[i] = layout_of(stages[i], (const char *[]){"S(0)"});
    }
    redistribute(&f, &layouts[0], &layouts[1], &plan);
    redistribute(&f, &layouts[2], &layouts[1], &plan);
    redistribute(&f, &layouts[1], &layouts[2], &plan);
    redistribute(&f, &layouts[0], &all, &plan);
    static const char *const names[] = {"pp 0", "pp 1", "0, 1 and 0-7"};
    assert_int_equal(record_count(&f, ORR_RECORD_COMMUNICATOR), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct orr_record_communicator *one = record_at(&f, ORR_RECORD_COMMUNICATOR, i);
        assert_string_equal(name_text(&f, one->name), names[i]);
    }
    fixture_close(&f);
}

/* A receiver's compute stream goes on while parts are on their way. */
static void what_arrives_is_unpacked_on_the_communicate_stream(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 4);
    struct orr_mesh *a = mesh_of(&f, 1, (int64_t[]){2}, NULL, NULL);
    struct orr_mesh *b = mesh_of(&f, 1, (int64_t[]){2}, NULL, (uint32_t[]){2, 3});
    struct orr_layout from = layout_of(a, (const char *[]){"S(1)"});
    struct orr_layout to = layout_of(b, (const char *[]){"R"});
    redistribute(&f, &from, &to, &plan);
    assert_int_equal(kernels(&f, "unpack"), 2);
    for (uint32_t i = 2; i < 4; i++) {
        struct orr_stream *stream = orr_device_stream(f.runtime, i, ORR_STREAM_COMPUTE);
        assert_int_equal(orr_stream_point(stream).seq, 0);
    }
    fixture_close(&f);
}

static void replicas_share_the_sending(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *four = mesh_of(&f, 1, (int64_t[]){4}, NULL, NULL);
    struct orr_mesh *two = mesh_of(&f, 1, (int64_t[]){2}, NULL, (uint32_t[]){4, 5});
    struct orr_layout all = layout_of(four, (const char *[]){"R"});
    struct orr_layout cut = layout_of(two, (const char *[]){"S(0)"});
    redistribute(&f, &all, &cut, &plan);
    assert_int_equal(plan.crossing.sends, 2);
    assert_int_equal(plan.crossing.bytes, 192); /* each from a replica of its own */
    struct orr_layout pieces = layout_of(four, (const char *[]){"S(1)"});
    redistribute(&f, &pieces, &cut, &plan);
    assert_int_equal(plan.crossing.sends, 8);
    assert_int_equal(plan.crossing.sum_bytes, 384);
    assert_int_equal(plan.crossing.bytes, 192);
    /* A column of three in half the rows: packed in the receivers' order only. */
    assert_int_equal(kernels(&f, "pack"), 0);
    assert_int_equal(kernels(&f, "unpack"), 2);
    fixture_close(&f);
}

static void terms_are_reduced_where_that_costs_least(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *first = mesh_of(&f, 1, (int64_t[]){4}, (const char *[]){"tp"}, NULL);
    struct orr_mesh *second =
        mesh_of(&f, 1, (int64_t[]){4}, (const char *[]){"tp"}, (uint32_t[]){4, 5, 6, 7});
    struct orr_layout terms = layout_of(first, (const char *[]){"P"});
    struct orr_layout cut = layout_of(second, (const char *[]){"S(0)"});
    redistribute(&f, &terms, &cut, &plan);
    assert_int_equal(plan.paths[0].step_count, 1);
    assert_int_equal(plan.paths[0].steps[0].kind, ORR_REDISTRIBUTE_REDUCE_SCATTER);
    assert_int_equal(plan.paths[0].bytes + plan.crossing.bytes, 288 + 96);
    char text[ORR_REDISTRIBUTE_TEXT_MAX], line[ORR_REDISTRIBUTE_SUMMARY_MAX];
    assert_string_equal(orr_redistribute_text(&plan, text, sizeof text),
                        "[8, 12] f32, P(sum) -> S(0) on 4-7: 384 B on the wire, 4 hops; the "
                        "best of 3 candidates\n"
                        "  1. reduce_scatter tp: P(sum) -> S(0), 288 B on the wire, 3 hops\n"
                        "  2. send_receive   S(0) on 0-3 -> S(0) on 4-7: 4 sends of 384 B "
                        "together, 96 B on the wire, 1 hop\n");
    assert_string_equal(orr_redistribute_summary(&plan, line, sizeof line),
                        "redistribute P(sum) -> S(0) on 4-7: reduce_scatter tp, 4 sends; 384 B "
                        "on the wire, 4 hops; best of 3");
    for (size_t i = 0; i < record_count(&f, ORR_RECORD_OP); i++) {
        const struct orr_record_op *op = record_at(&f, ORR_RECORD_OP, i);
        const char *name = name_text(&f, op->name);
        if (strcmp(name, line) == 0) {
            const struct orr_record_op *sends = record_at(&f, ORR_RECORD_OP, i + 2);
            assert_int_equal(sends->parent, op->id);
            assert_string_equal(name_text(&f, sends->name), "send_receive");
            fixture_close(&f);
            return;
        }
    }
    fail_msg("the redistribution is not in the trace");
}

static void what_is_on_the_devices_already_is_shared(void **state) {
    (void)state;
    struct fixture f;
    struct orr_redistribute_plan plan;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *mesh = mesh_of(&f, 2, (int64_t[]){2, 4}, (const char *[]){"dp", "tp"}, NULL);
    struct orr_mesh *turned, *row;
    must_be_ok(f.runtime, orr_mesh_permute(mesh, (int[]){1, 0}, &turned));
    must_be_ok(f.runtime, orr_mesh_slice(mesh, (int64_t[]){1, ORR_MESH_WHOLE}, &row));
    struct orr_layout from = layout_of(mesh, (const char *[]){"R", "S(0)"});
    struct orr_layout to = layout_of(turned, (const char *[]){"S(0)", "R"});
    struct orr_layout half = layout_of(row, (const char *[]){"S(0)"});
    struct orr_tensor *tensor = tensor_on(&f, &from), *same, *part;
    must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
    size_t before = record_count(&f, ORR_RECORD_COMMAND);
    uint64_t used = orr_device_memory(f.runtime, 0).requested;
    must_be_ok(f.runtime, orr_redistribute_plan(tensor, &to, &plan));
    assert_true(plan.crossing.shares);
    must_be_ok(f.runtime, orr_tensor_redistribute(tensor, &to, &same));
    must_be_ok(f.runtime, orr_tensor_redistribute(same, &half, &part));
    must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
    assert_int_equal(record_count(&f, ORR_RECORD_COMMAND), before);
    assert_ptr_equal(orr_tensor_buffer(same, 3), orr_tensor_buffer(tensor, 5));
    assert_ptr_equal(orr_tensor_buffer(part, 2), orr_tensor_buffer(tensor, 6));
    orr_tensor_destroy(&tensor);
    orr_tensor_destroy(&same);
    must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
    assert_int_equal(orr_device_memory(f.runtime, 6).requested, used);
    used -= 96; /* nobody has the other row's pieces any more */
    assert_int_equal(orr_device_memory(f.runtime, 0).requested, used);
    orr_tensor_destroy(&part);
    fixture_close(&f);
}

static void timing_only_takes_as_long(void **state) {
    (void)state;
    int64_t ends[2];
    for (int timing = 0; timing < 2; timing++) {
        struct fixture f;
        struct orr_redistribute_plan plan;
        fixture_prepare(&f, orr_sim_open, 8);
        f.config.timing_only = timing;
        fixture_start(&f);
        struct orr_mesh *four = mesh_of(&f, 1, (int64_t[]){4}, (const char *[]){"a"}, NULL);
        struct orr_mesh *six = mesh_of(&f, 2, (int64_t[]){2, 3}, (const char *[]){"b", "c"},
                                       (uint32_t[]){2, 3, 4, 5, 6, 7});
        struct orr_layout from = layout_of(four, (const char *[]){"S(1)"});
        struct orr_layout to = layout_of(six, (const char *[]){"S(0)", "S(1)"});
        redistribute(&f, &from, &to, &plan);
        ends[timing] = orr_runtime_now(f.runtime);
        fixture_close(&f);
    }
    assert_int_equal(ends[0], ends[1]);
    assert_true(ends[0] > 0);
}

static void without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[6];
    for (int i = 0; i < 6; i++)
        specs[i] = spec_for_tests();
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 6};
    struct orr_error error;
    struct orr_runtime *runtime;
    static const float values[35];
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){7, 5})};
    struct orr_mesh *meshes[4] = {NULL};
    enum orr_status status = orr_mesh_create(runtime, 2, (int64_t[]){2, 2}, NULL, NULL, &meshes[0]);
    if (status == ORR_OK)
        status =
            orr_mesh_create(runtime, 1, (int64_t[]){3}, NULL, (uint32_t[]){3, 4, 5}, &meshes[1]);
    if (status == ORR_OK)
        status = orr_mesh_slice(meshes[0], (int64_t[]){0, ORR_MESH_WHOLE}, &meshes[2]);
    if (status == ORR_OK)
        status = orr_mesh_permute(meshes[0], (int[]){1, 0}, &meshes[3]);
    static const char *const texts[][2] = {
        {"S(0)", "P"}, {"S(1)", "-"}, {"P(max)", "-"}, {"R", "S(1)"}};
    static const int order[] = {0, 1, 2, 3, 0, 3};
    struct orr_tensor *tensors[6] = {NULL};
    for (int i = 0; status == ORR_OK && i < 6; i++) {
        struct orr_layout layout = layout_of(meshes[order[i]], texts[order[i]]);
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
    assert_true(fail_each_request(without_memory, NULL) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_placements_on_any_mesh_become_any_on_any_other),
        cmocka_unit_test(and_on_threads),
        cmocka_unit_test(a_stage_hands_each_rank_its_piece_in_one_send),
        cmocka_unit_test(the_way_back_has_the_same_communicator),
        cmocka_unit_test(a_communicator_between_stages_is_named_after_their_axis),
        cmocka_unit_test(what_arrives_is_unpacked_on_the_communicate_stream),
        cmocka_unit_test(replicas_share_the_sending),
        cmocka_unit_test(terms_are_reduced_where_that_costs_least),
        cmocka_unit_test(what_is_on_the_devices_already_is_shared),
        cmocka_unit_test(timing_only_takes_as_long),
        cmocka_unit_test(running_out_of_memory_anywhere_leaks_nothing),
    };
    return cmocka_run_group_tests_name("redistribute_across", tests, NULL, NULL);
}
