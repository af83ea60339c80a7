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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_comes_back_to_the_mesh_of_its_tensor),
        cmocka_unit_test(terms_of_a_gradient_stay_terms_along_the_same_axis),
    };
    return cmocka_run_group_tests_name("autograd_across", tests, NULL, NULL);
}
