#include "tests/redistribute_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void bench_open(struct bench *b, orr_backend_open open, uint32_t devices) {
    memory_counting_init(&b->memory, 0);
    for (uint32_t i = 0; i < devices; i++)
        b->specs[i] = spec_for_tests();
    struct orr_runtime_config config = {
        .memory = &b->memory.table, .open = open, .specs = b->specs, .device_count = devices};
    assert_int_equal(orr_runtime_create(&config, &b->runtime, &b->error), ORR_OK);
}

void bench_close(struct bench *b) {
    assert_int_equal(orr_runtime_finish(b->runtime), ORR_OK);
    orr_runtime_destroy(&b->runtime);
    assert_int_equal(b->memory.live, 0);
}

void must_be_ok(struct orr_runtime *runtime, enum orr_status status) {
    if (status != ORR_OK)
        fail_msg("%s: %s", orr_status_text(status), orr_runtime_error(runtime)->text);
}

/* ---- a direct look ------------------------------------------------------------------------ */

static double joined(enum orr_reduction reduction, double a, double b) {
    if (reduction == ORR_MAX)
        return b > a ? b : a;
    if (reduction == ORR_MIN)
        return b < a ? b : a;
    return a + b;
}

/* Element `index` of a rank's piece, reduced over the partial axes from `axis` on, the last one
 * first. */
static double reduced(const struct orr_tensor *tensor, uint32_t rank, int64_t index, int axis) {
    const struct orr_layout *layout = &tensor->layout;
    const struct orr_mesh *mesh = layout->mesh;
    if (axis == mesh->axis_count)
        return orr_dtype_load(tensor->info.dtype, orr__tensor_blob(tensor, rank)->buffer->data,
                              (size_t)index);
    if (layout->axes[axis].kind != ORR_PARTIAL)
        return reduced(tensor, rank, index, axis + 1);
    double result = 0;
    for (uint32_t i = 0; i < mesh->dims[axis]; i++) {
        double term = reduced(tensor, rank + i * orr_mesh_stride(mesh, axis), index, axis + 1);
        result = i == 0 ? term : joined(layout->axes[axis].reduction, result, term);
    }
    return layout->axes[axis].reduction == ORR_AVG ? result / (double)mesh->dims[axis] : result;
}

static bool is_first_term(const struct orr_layout *layout, uint32_t rank) {
    for (int axis = 0; axis < layout->mesh->axis_count; axis++)
        if (layout->axes[axis].kind == ORR_PARTIAL &&
            orr_mesh_coordinate(layout->mesh, rank, axis) != 0)
            return false;
    return true;
}

/* Where element `index` of a piece is in the whole. */
static int64_t place_of(const struct orr_shape *whole, const struct orr_shape *piece,
                        const int64_t *starts, int64_t index) {
    int64_t at = 0, stride = 1;
    for (int dim = piece->rank - 1; dim >= 0; dim--) {
        at += (index % piece->dims[dim] + starts[dim]) * stride;
        index /= piece->dims[dim];
        stride *= whole->dims[dim];
    }
    return at;
}

void look_at_all(const struct orr_tensor *tensor, double *values,
                 void (*look)(double *at, double value)) {
    const struct orr_layout *layout = &tensor->layout;
    for (uint32_t rank = 0; rank < layout->mesh->size; rank++) {
        int64_t starts[ORR_RANK_MAX];
        struct orr_shape piece = orr_layout_local(layout, &tensor->info.shape, rank, starts);
        int64_t count = is_first_term(layout, rank) ? orr_shape_count(&piece) : 0;
        for (int64_t i = 0; i < count; i++)
            look(&values[place_of(&tensor->info.shape, &piece, starts, i)],
                 reduced(tensor, rank, i, 0));
    }
}

/* What is being compared, for messages. */
static const char *compared(const struct trial *now) {
    static const struct trial *last;
    last = now ? now : last;
    return last ? last->text : "";
}

void describe(struct trial *t, uint64_t seed) {
    char from[ORR_PLACEMENT_TEXT_MAX], to[ORR_PLACEMENT_TEXT_MAX], shape[ORR_SHAPE_TEXT_MAX];
    snprintf(t->text, sizeof t->text, "seed %llu: %s, %s to %s", (unsigned long long)seed,
             orr_shape_text(&t->info.shape, shape), orr_layout_text(&t->from, from),
             orr_layout_text(&t->to, to));
    (void)compared(t);
}

void look_takes(double *at, double value) {
    *at = value;
}

void look_compares(double *at, double value) {
    if (*at != value)
        fail_msg("%s: an element is %g, expected %g", compared(NULL), value, *at);
}

struct orr_placement draw_placement(struct trial *t) {
    int rank = t->info.shape.rank;
    uint64_t kind = random_below(&t->random, 8);
    if (kind < 4 && rank > 0)
        return (struct orr_placement){.kind = ORR_SHARD,
                                      .dim = (int32_t)random_below(&t->random, (uint64_t)rank)};
    if (kind < 6)
        return (struct orr_placement){.kind = ORR_REPLICATE};
    return (struct orr_placement){.kind = ORR_PARTIAL,
                                  .reduction = (enum orr_reduction)random_below(&t->random, 4)};
}

/* Terms of a rank depend on its place along partial axes only; all counts of ranks divide them. */
static void write_terms(struct trial *t, struct orr_tensor *tensor) {
    for (uint32_t rank = 0; rank < t->from.mesh->size; rank++) {
        int64_t starts[ORR_RANK_MAX], term = 0;
        struct orr_shape piece = orr_layout_local(&t->from, &t->info.shape, rank, starts);
        for (int axis = 0; axis < t->from.mesh->axis_count; axis++)
            term = term * 5 + (t->from.axes[axis].kind == ORR_PARTIAL
                                   ? orr_mesh_coordinate(t->from.mesh, rank, axis)
                                   : 0);
        for (int64_t i = 0; i < orr_shape_count(&piece); i++) {
            uint64_t place = (uint64_t)place_of(&t->info.shape, &piece, starts, i);
            uint64_t hash = ((place + 1) * 131 + (uint64_t)term * 31) * 0x9e3779b97f4a7c15u >> 40;
            double value = ((double)(hash % 19) - 9) * (double)t->from.mesh->size;
            orr_dtype_store(t->info.dtype, orr__tensor_blob(tensor, rank)->buffer->data, (size_t)i,
                            value);
        }
    }
}

struct orr_tensor *source_of(struct bench *b, struct trial *t) {
    static const uint64_t zeros[ELEMENTS_MAX];
    struct orr_tensor *tensor;
    must_be_ok(b->runtime, orr_tensor_from_host(b->runtime, &t->info, &t->from, zeros, &tensor));
    must_be_ok(b->runtime, orr_runtime_finish(b->runtime));
    write_terms(t, tensor);
    look_at_all(tensor, t->wanted, look_takes);
    return tensor;
}

void check_future(struct bench *b, struct trial *t, struct orr_tensor *tensor) {
    static uint64_t values[ELEMENTS_MAX];
    struct orr_future *future;
    size_t count = (size_t)orr_shape_count(&t->info.shape);
    must_be_ok(b->runtime, orr_tensor_future(tensor, &future));
    must_be_ok(b->runtime, orr_future_get(future, values, count * orr_dtype_size(t->info.dtype)));
    for (size_t i = 0; i < count; i++)
        look_compares(&t->wanted[i], orr_dtype_load(t->info.dtype, values, i));
    orr_future_destroy(&future);
}
