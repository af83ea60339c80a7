/* Gradients of what went from one mesh to another: they come back to the tensor's mesh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"
#include "tests/autograd_fixture.h"

static struct orr_mesh *mesh_of(struct fixture *f, const uint32_t *devices) {
    struct orr_mesh *mesh;
    must(f, orr_mesh_create(f->runtime, 2, (int64_t[]){2, 2}, (const char *[]){"dp", "tp"}, devices,
                            &mesh));
    return mesh;
}

/* The gradient of sum(x' * w) for x, where x' is x on another mesh: w, where x is. */
static void play(struct fixture *f, const struct orr_layout *from, const struct orr_layout *to,
                 const struct orr_layout *of_w, const char *gradient) {
    double values[16], weights[16], got[16];
    struct orr_gradient_tape *tape;
    for (int i = 0; i < 16; i++) {
        values[i] = i - 3;
        weights[i] = 2 * i + 1;
    }
    struct orr_tensor *x = upload(f, ORR_DTYPE_F64, dims(2, 4, 4, 0, 0), values, from), *moved_x;
    struct orr_tensor *w = upload(f, ORR_DTYPE_F64, dims(2, 4, 4, 0, 0), weights, of_w), *dx;
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    must(f, orr_gradient_tape_watch(tape, x));
    must(f, orr_tensor_redistribute(x, to, &moved_x));
    struct orr_tensor *y = apply(f, "mul", moved_x, w);
    struct orr_tensor *loss = apply(f, "sum", y, NULL);
    must(f, orr_gradient(tape, loss, &x, 1, &dx));
    assert_layout(dx, gradient);
    assert_ptr_equal(orr_tensor_layout(dx)->mesh, from->mesh);
    download(f, dx, got);
    assert_memory_equal(got, weights, sizeof got);
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *all[] = {x, moved_x, w, y, loss, dx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        orr_tensor_destroy(&all[i]);
}

static void a_gradient_comes_back_to_the_mesh_of_its_tensor(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *a = mesh_of(&f, NULL), *b = mesh_of(&f, (uint32_t[]){4, 5, 6, 7});
    struct orr_mesh *c = mesh_of(&f, (uint32_t[]){1, 5, 0, 2}), *turned;
    must(&f, orr_mesh_permute(a, (int[]){1, 0}, &turned));
    struct orr_layout cut = place(a, "S(0)", "R"), whole = place(a, "R", "R");
    struct orr_mesh *others[] = {b, c, turned};
    for (size_t i = 0; i < 3; i++) {
        struct orr_layout to = place(others[i], "R", "S(1)"), same = place(others[i], "R", "R");
        play(&f, &cut, &to, &to, "[S(0), R]");
        play(&f, &cut, &same, &same, "[S(0), R]");
        play(&f, &whole, &same, &same, "[R, R]");
    }
    fixture_close(&f);
}

/* Data parallelism in a stage: the gradient stays a sum of terms on its way back to where the
 * tensor is replicated along the same axis. */
static void terms_of_a_gradient_stay_terms_along_the_same_axis(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *a = mesh_of(&f, NULL), *b = mesh_of(&f, (uint32_t[]){4, 5, 6, 7});
    struct orr_layout whole = place(a, "R", "R"), there = place(b, "R", "R");
    struct orr_layout batch = place(b, "S(0)", "R");
    double ones[16], got[16];
    for (int i = 0; i < 16; i++)
        ones[i] = 1;
    struct orr_tensor *x = upload(&f, ORR_DTYPE_F64, dims(2, 4, 4, 0, 0), ones, &whole);
    struct orr_tensor *rows = upload(&f, ORR_DTYPE_F64, dims(2, 4, 4, 0, 0), ones, &batch);
    struct orr_tensor *moved_x, *dx;
    struct orr_gradient_tape *tape;
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, x));
    must(&f, orr_tensor_redistribute(x, &there, &moved_x));
    struct orr_tensor *y = apply(&f, "matmul", rows, moved_x);
    struct orr_tensor *loss = apply(&f, "sum", y, NULL);
    must(&f, orr_gradient(tape, loss, &x, 1, &dx));
    assert_layout(dx, "[P(sum), R]");
    assert_ptr_equal(orr_tensor_layout(dx)->mesh, a);
    download(&f, dx, got);
    for (int i = 0; i < 16; i++)
        assert_true(got[i] == 4);
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *all[] = {x, rows, moved_x, y, loss, dx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        orr_tensor_destroy(&all[i]);
    fixture_close(&f);
}

/* --- any layouts --- */

static struct orr_mesh *draw_mesh(struct fixture *f, uint64_t *random) {
    static const char *const names[] = {"dp", "tp", "cp"};
    int64_t lengths[3];
    uint32_t devices[FIXTURE_DEVICES_MAX], first = (uint32_t)random_below(random, 8);
    int axes = 1 + (int)random_below(random, 3);
    uint64_t size = 1;
    for (int i = 0; i < axes; i++) {
        lengths[i] = 1 + (int64_t)random_below(random, 3);
        while (size * (uint64_t)lengths[i] > FIXTURE_DEVICES_MAX)
            lengths[i]--;
        size *= (uint64_t)lengths[i];
    }
    for (uint32_t i = 0; i < FIXTURE_DEVICES_MAX; i++)
        devices[i] = (first + i) % FIXTURE_DEVICES_MAX;
    struct orr_mesh *mesh;
    must(f, orr_mesh_create(f->runtime, axes, lengths, names, devices, &mesh));
    return mesh;
}

/* Shards of a matrix, replicas, sums. */
static struct orr_layout draw_layout(struct orr_mesh *mesh, uint64_t *random) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    for (int i = 0; i < mesh->axis_count; i++) {
        uint64_t kind = random_below(random, 4);
        if (kind < 2)
            layout.axes[i] = (struct orr_placement){.kind = ORR_SHARD, .dim = (int32_t)kind};
        else if (kind == 2)
            layout.axes[i] = (struct orr_placement){.kind = ORR_PARTIAL, .reduction = ORR_SUM};
    }
    return layout;
}

/* Is `gradient` where the gradient of a tensor that lies like this belongs? */
static bool belongs(const struct orr_layout *gradient, const struct orr_layout *tensor) {
    bool right = gradient->mesh == tensor->mesh;
    for (int i = 0; right && i < tensor->mesh->axis_count; i++) {
        struct orr_placement is = gradient->axes[i], of = tensor->axes[i];
        right = of.kind == ORR_SHARD ? orr_placement_equal(is, of)
                                     : is.kind == ORR_REPLICATE ||
                                           (of.kind == ORR_REPLICATE && is.kind == ORR_PARTIAL);
    }
    return right;
}

/* The way to another layout and on to a third one: whatever gradient comes in goes back whole. */
static void try_layouts(struct fixture *f, uint64_t seed) {
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    struct orr_mesh *meshes[2] = {draw_mesh(f, &random), draw_mesh(f, &random)};
    struct orr_layout from = draw_layout(meshes[0], &random);
    struct orr_layout to = draw_layout(meshes[1], &random);
    struct orr_layout on = draw_layout(meshes[random_below(&random, 2)], &random);
    struct orr_layout of_seed = draw_layout(meshes[random_below(&random, 2)], &random);
    double values[35], got[35];
    for (int i = 0; i < 35; i++)
        values[i] = i * i - 50;
    struct orr_shape shape = dims(2, 5, 7, 0, 0);
    struct orr_tensor *x = upload(f, ORR_DTYPE_F64, shape, values, &from);
    struct orr_tensor *dy = upload(f, ORR_DTYPE_F64, shape, values, &of_seed), *y, *z, *dx;
    struct orr_gradient_tape *tape;
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    must(f, orr_gradient_tape_watch(tape, x));
    must(f, orr_tensor_redistribute(x, &to, &y));
    must(f, orr_tensor_redistribute(y, &on, &z));
    struct orr_gradient_seed start = {.tensor = z, .gradient = dy};
    must(f, orr_gradient_from(tape, &start, 1, &x, 1, &dx));
    if (!belongs(orr_tensor_layout(dx), &from))
        fail_msg("seed %llu: the gradient is not where the tensor is", (unsigned long long)seed);
    download(f, dx, got);
    for (int i = 0; i < 35; i++)
        if (got[i] != values[i])
            fail_msg("seed %llu: element %d is %g, expected %g", (unsigned long long)seed, i,
                     got[i], values[i]);
    orr_gradient_tape_destroy(&tape);
    struct orr_tensor *all[] = {x, dy, y, z, dx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        orr_tensor_destroy(&all[i]);
}

static void any_gradient_finds_its_way_back(void **state) {
    (void)state;
    enum { ROUND = 50, SEEDS = 1500 };
    uint64_t first = random_seed(1);
    for (uint64_t i = 0; i < SEEDS; i += ROUND) {
        struct fixture f;
        fixture_open(&f, orr_sim_open, FIXTURE_DEVICES_MAX);
        for (uint64_t k = 0; k < ROUND; k++)
            try_layouts(&f, first + i + k);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_comes_back_to_the_mesh_of_its_tensor),
        cmocka_unit_test(terms_of_a_gradient_stay_terms_along_the_same_axis),
        cmocka_unit_test(any_gradient_finds_its_way_back),
    };
    return cmocka_run_group_tests_name("autograd_across", tests, NULL, NULL);
}
