/* Redistribution over meshes of two axes: any placements to any others, compared with the values
 * that the tensor had before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tensor.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { AXES = 2, KINDS = 4, VALUES_MAX = 144 };

static const struct orr_placement placements[KINDS] = {{.kind = ORR_REPLICATE},
                                                       {.kind = ORR_SHARD, .dim = 0},
                                                       {.kind = ORR_SHARD, .dim = 1},
                                                       {.kind = ORR_PARTIAL}};

static struct orr_layout layout_of(struct orr_mesh *mesh, int index) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    layout.axes[0] = placements[index / KINDS];
    layout.axes[1] = placements[index % KINDS];
    return layout;
}

static void read_values(struct fixture *f, struct orr_tensor *tensor, float *values, size_t bytes) {
    struct orr_future *future;
    assert_int_equal(orr_tensor_future(tensor, &future), ORR_OK);
    if (orr_future_get(future, values, bytes) != ORR_OK)
        fail_msg("%s", fixture_error(f));
    orr_future_destroy(&future);
}

/* May a change along one axis be refused whatever the sizes are? */
static bool is_refused(struct orr_placement from, struct orr_placement to) {
    if (orr_placement_equal(from, to))
        return false;
    if (from.kind == ORR_PARTIAL)
        return to.kind == ORR_SHARD && to.dim != 0;
    return to.kind == ORR_PARTIAL || (from.kind == ORR_SHARD && to.kind == ORR_SHARD);
}

/* Returns false if the change was refused, as unsupported. */
static bool check_change(struct fixture *f, const struct orr_operand_info *info,
                         const struct orr_layout *from, const struct orr_layout *to) {
    float values[VALUES_MAX], before[VALUES_MAX], after[VALUES_MAX];
    int64_t count = orr_shape_count(&info->shape);
    size_t bytes = (size_t)count * sizeof values[0];
    char from_text[ORR_PLACEMENT_TEXT_MAX], to_text[ORR_PLACEMENT_TEXT_MAX];
    struct orr_tensor *tensor, *changed;
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(i + 1);
    assert_int_equal(orr_tensor_from_host(f->runtime, info, from, values, &tensor), ORR_OK);
    read_values(f, tensor, before, bytes);
    enum orr_status status = orr_tensor_redistribute(tensor, to, &changed);
    if (status == ORR_OK) {
        read_values(f, changed, after, bytes);
        assert_true(orr_layout_equal(orr_tensor_layout(changed), to));
        if (memcmp(before, after, bytes) != 0)
            fail_msg("from %s to %s: other values", orr_layout_text(from, from_text),
                     orr_layout_text(to, to_text));
        orr_tensor_destroy(&changed);
    } else if (status != ORR_UNSUPPORTED) {
        fail_msg("from %s to %s: %s", orr_layout_text(from, from_text),
                 orr_layout_text(to, to_text), fixture_error(f));
    }
    orr_tensor_destroy(&tensor);
    return status == ORR_OK;
}

static void check_all_changes(const int64_t *mesh_dims, const int64_t *dims, bool even) {
    struct fixture f;
    struct orr_mesh *mesh;
    fixture_open(&f, orr_sim_open, (uint32_t)(mesh_dims[0] * mesh_dims[1]));
    assert_int_equal(orr_mesh_create(f.runtime, AXES, mesh_dims, (const char *[]){"outer", "inner"},
                                     NULL, &mesh),
                     ORR_OK);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, dims)};
    for (int i = 0; i < KINDS * KINDS; i++) {
        for (int k = 0; k < KINDS * KINDS; k++) {
            struct orr_layout from = layout_of(mesh, i), to = layout_of(mesh, k);
            bool refused =
                is_refused(from.axes[0], to.axes[0]) || is_refused(from.axes[1], to.axes[1]);
            bool done = check_change(&f, &info, &from, &to);
            assert_true(!(done && refused));
            assert_true(done || refused || !even);
        }
    }
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    fixture_close(&f);
}

static void even_shards_go_to_every_placement_that_is_promised(void **state) {
    (void)state;
    check_all_changes((int64_t[]){2, 2}, (int64_t[]){8, 4}, true);
    check_all_changes((int64_t[]){2, 3}, (int64_t[]){12, 6}, true);
    check_all_changes((int64_t[]){4, 2}, (int64_t[]){8, 8}, true);
}

static void uneven_shards_are_right_or_refused(void **state) {
    (void)state;
    check_all_changes((int64_t[]){2, 2}, (int64_t[]){3, 4}, false);
    check_all_changes((int64_t[]){2, 3}, (int64_t[]){7, 5}, false);
    check_all_changes((int64_t[]){3, 2}, (int64_t[]){4, 2}, false);
    check_all_changes((int64_t[]){4, 2}, (int64_t[]){1, 5}, false); /* some pieces are empty */
}

/* Three axes cut one dimension: none may take a step before those inside of it are whole. */
static void cuts_of_three_axes_nest(void **state) {
    (void)state;
    struct fixture f;
    struct orr_mesh *mesh;
    fixture_open(&f, orr_sim_open, 8);
    assert_int_equal(orr_mesh_create(f.runtime, 3, (int64_t[]){2, 2, 2},
                                     (const char *[]){"a", "b", "c"}, NULL, &mesh),
                     ORR_OK);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(1, (int64_t[]){16})};
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 8; k++) {
            struct orr_layout from = orr_layout_replicated(mesh), to = from;
            for (int axis = 0; axis < 3; axis++) {
                from.axes[axis] = placements[i >> axis & 1];
                to.axes[axis] = placements[k >> axis & 1];
            }
            assert_true(check_change(&f, &info, &from, &to));
        }
    }
    fixture_close(&f);
}

/* What can't be done is said before anything is. */
static void a_refused_change_enqueues_nothing(void **state) {
    (void)state;
    struct fixture f;
    struct orr_mesh *mesh;
    fixture_open(&f, orr_sim_open, 4);
    assert_int_equal(orr_mesh_create(f.runtime, AXES, (int64_t[]){2, 2},
                                     (const char *[]){"dp", "tp"}, NULL, &mesh),
                     ORR_OK);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){4, 4})};
    float values[16] = {0};
    struct orr_layout from = layout_of(mesh, 1 * KINDS + 1), to = layout_of(mesh, 2 * KINDS + 0);
    struct orr_tensor *tensor, *changed;
    assert_int_equal(orr_tensor_from_host(f.runtime, &info, &from, values, &tensor), ORR_OK);
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    size_t commands = record_count(&f, ORR_RECORD_COMMAND);
    assert_int_equal(orr_tensor_redistribute(tensor, &to, &changed), ORR_UNSUPPORTED);
    assert_null(changed);
    assert_non_null(strstr(fixture_error(&f), "from [S(0), S(0)] to [S(1), R] along axis 'dp'"));
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    assert_int_equal(record_count(&f, ORR_RECORD_COMMAND), commands);
    orr_tensor_destroy(&tensor);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_shards_go_to_every_placement_that_is_promised),
        cmocka_unit_test(uneven_shards_are_right_or_refused),
        cmocka_unit_test(cuts_of_three_axes_nest),
        cmocka_unit_test(a_refused_change_enqueues_nothing),
    };
    return cmocka_run_group_tests_name("redistribute", tests, NULL, NULL);
}
