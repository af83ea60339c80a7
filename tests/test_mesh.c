/* Meshes: equal ones are one, views of them, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/mesh.h"
#include "sim/sim.h"
#include "tests/support.h"

static const int64_t cube[3] = {2, 2, 2};
static const char *const cube_names[3] = {"pp", "dp", "tp"};

static struct orr_mesh *mesh_of(struct fixture *f, int axes, const int64_t *dims,
                                const char *const *names, const uint32_t *devices) {
    struct orr_mesh *mesh;
    assert_int_equal(orr_mesh_create(f->runtime, axes, dims, names, devices, &mesh), ORR_OK);
    return mesh;
}

static void assert_mesh(const struct orr_mesh *mesh, int axes, const char *first_axis,
                        uint32_t size, const uint32_t *devices) {
    assert_int_equal(mesh->axis_count, axes);
    assert_string_equal(mesh->names[0], first_axis);
    assert_int_equal(mesh->size, size);
    assert_memory_equal(mesh->devices, devices, size * sizeof *devices);
}

static void equal_meshes_are_one(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    static const uint32_t usual[8] = {0, 1, 2, 3, 4, 5, 6, 7}, other[8] = {1, 0, 2, 3, 4, 5, 6, 7};
    struct orr_mesh *mesh = mesh_of(&f, 3, cube, cube_names, NULL);
    assert_ptr_equal(mesh_of(&f, 3, cube, cube_names, usual), mesh);
    assert_ptr_not_equal(mesh_of(&f, 3, cube, cube_names, other), mesh);
    assert_ptr_not_equal(mesh_of(&f, 3, cube, NULL, NULL), mesh);
    assert_ptr_not_equal(mesh_of(&f, 2, (int64_t[]){2, 4}, cube_names, NULL), mesh);
    assert_ptr_equal(mesh_of(&f, 1, (int64_t[]){8}, NULL, usual), orr_mesh_default(f.runtime));
    fixture_close(&f);
}

static void a_slice_has_the_ranks_at_its_coordinates(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    enum { ALL = ORR_MESH_WHOLE };
    struct orr_mesh *mesh = mesh_of(&f, 3, cube, cube_names, NULL), *view, *again;
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){1, ALL, ALL}, &view), ORR_OK);
    assert_mesh(view, 2, "dp", 4, (uint32_t[]){4, 5, 6, 7});
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){1, ALL, ALL}, &again), ORR_OK);
    assert_ptr_equal(again, view);
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){ALL, 1, ALL}, &view), ORR_OK);
    assert_mesh(view, 2, "pp", 4, (uint32_t[]){2, 3, 6, 7});
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){ALL, 0, 1}, &view), ORR_OK);
    assert_mesh(view, 1, "pp", 2, (uint32_t[]){1, 5});
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){1, 0, 1}, &view), ORR_OK);
    assert_mesh(view, 1, "all", 1, (uint32_t[]){5});
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){ALL, ALL, ALL}, &view), ORR_OK);
    assert_ptr_equal(view, mesh);
    assert_int_equal(orr_mesh_slice(mesh, (int64_t[]){0, 2, ALL}, &view), ORR_INVALID);
    assert_null(view);
    assert_string_equal(fixture_error(&f), "mesh axis 'dp' has coordinates 0 to 1, not 2");
    fixture_close(&f);
}

static void a_permutation_counts_its_ranks_in_the_new_order(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *mesh = mesh_of(&f, 2, (int64_t[]){2, 3}, (const char *[]){"dp", "tp"},
                                    (uint32_t[]){7, 6, 5, 4, 3, 2});
    struct orr_mesh *turned, *back;
    assert_int_equal(orr_mesh_permute(mesh, (int[]){1, 0}, &turned), ORR_OK);
    assert_mesh(turned, 2, "tp", 6, (uint32_t[]){7, 4, 6, 3, 5, 2});
    for (uint32_t rank = 0; rank < 6; rank++) { /* every device keeps its coordinates */
        uint32_t old = 0;
        while (mesh->devices[old] != turned->devices[rank])
            old++;
        assert_int_equal(orr_mesh_coordinate(turned, rank, 0), orr_mesh_coordinate(mesh, old, 1));
        assert_int_equal(orr_mesh_coordinate(turned, rank, 1), orr_mesh_coordinate(mesh, old, 0));
    }
    assert_int_equal(orr_mesh_permute(turned, (int[]){1, 0}, &back), ORR_OK);
    assert_ptr_equal(back, mesh);
    assert_int_equal(orr_mesh_permute(mesh, (int[]){1, 1}, &back), ORR_INVALID);
    assert_int_equal(orr_mesh_permute(mesh, (int[]){0, 2}, &back), ORR_INVALID);
    assert_null(back);
    fixture_close(&f);
}

static void axes_have_names_of_their_own(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    struct orr_mesh *mesh = mesh_of(&f, 2, (int64_t[]){2, 2}, NULL, NULL);
    assert_string_equal(mesh->names[1], "axis 1");
    static const char *const wrong[][2] = {{"a", "a"}, {"a", ""}, {"a", "abcdefghijklmnop"}};
    static const char *const messages[] = {
        "two axes of a mesh are named 'a'", "mesh axis 1 is named ''; expected 1 to 15 letters",
        "mesh axis 1 is named 'abcdefghijklmnop'; expected 1 to 15 letters"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(orr_mesh_create(f.runtime, 2, (int64_t[]){2, 2}, wrong[i], NULL, &mesh),
                         ORR_INVALID);
        assert_null(mesh);
        assert_string_equal(fixture_error(&f), messages[i]);
    }
    fixture_close(&f);
}

static void devices_are_named_in_short(void **state) {
    (void)state;
    static const struct {
        int64_t count;
        uint32_t devices[8];
        const char *text;
    } table[] = {
        {1, {5}, "5"},
        {4, {0, 1, 2, 3}, "0-3"},
        {4, {2, 3, 0, 1}, "2, 3, 0, 1"},
        {5, {1, 5, 6, 7, 0}, "1, 5-7, 0"},
        {6, {0, 2, 4, 6, 1, 3}, "0, 2, 4, 6, ..."},
    };
    struct fixture f;
    fixture_open(&f, orr_sim_open, 8);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[ORR_MESH_TEXT_MAX];
        struct orr_mesh *mesh = mesh_of(&f, 1, &table[i].count, NULL, table[i].devices);
        assert_string_equal(orr_mesh_devices_text(mesh, text), table[i].text);
    }
    fixture_close(&f);
}

static void without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[4];
    for (int i = 0; i < 4; i++)
        specs[i] = spec_for_tests();
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 4};
    struct orr_error error;
    struct orr_runtime *runtime;
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    struct orr_mesh *mesh = NULL, *view = NULL;
    enum orr_status status = orr_mesh_create(runtime, 2, cube, cube_names, NULL, &mesh);
    if (status == ORR_OK)
        status = orr_mesh_slice(mesh, (int64_t[]){0, ORR_MESH_WHOLE}, &view);
    if (status == ORR_OK)
        status = orr_mesh_slice(mesh, (int64_t[]){0, ORR_MESH_WHOLE}, &view);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    assert_true((status == ORR_OK) == (view != NULL));
    (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
}

static void running_out_of_memory_anywhere_leaks_nothing(void **state) {
    (void)state;
    assert_true(fail_each_request(without_memory, NULL) > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_meshes_are_one),
        cmocka_unit_test(a_slice_has_the_ranks_at_its_coordinates),
        cmocka_unit_test(a_permutation_counts_its_ranks_in_the_new_order),
        cmocka_unit_test(axes_have_names_of_their_own),
        cmocka_unit_test(devices_are_named_in_short),
        cmocka_unit_test(running_out_of_memory_anywhere_leaks_nothing),
    };
    return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
