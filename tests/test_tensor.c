/* Tensors on simulated devices: times of the worked example, numbers against one device,
 * regions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/record_memory.h"
#include "runtime/region.h"
#include "sim/sim.h"

enum { DEVICES_MAX = 8 };

struct fixture {
    struct orr_memory memory;
    struct orr_error error;
    struct orr_runtime *runtime;
};

static struct orr_device_spec teaching(void) {
    struct orr_device_spec spec = {.name = "teaching",
                                   .kind = "gpu",
                                   .memory_bytes = (uint64_t)80 << 30,
                                   .bandwidth = 2000000000000,
                                   .host_operator_ns = 5000,
                                   .host_launch_ns = 5000,
                                   .host_graph_ns = 5000,
                                   .copy_engines = 1,
                                   .peer_bandwidth = 400000000000,
                                   .host_bandwidth = 50000000000};
    for (int unit = 0; unit < 2; unit++) {
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
            spec.peak[unit][dtype] = 500000000000000;
        }
    }
    return spec;
}

static void open_devices(struct fixture *f, uint32_t count, bool timing_only) {
    struct orr_device_spec specs[DEVICES_MAX];
    *f = (struct fixture){.memory = orr_memory_system()};
    for (uint32_t i = 0; i < count; i++) {
        specs[i] = teaching();
    }
    struct orr_runtime_config config = {.memory = &f->memory,
                                        .open = orr_sim_open,
                                        .specs = specs,
                                        .device_count = count,
                                        .timing_only = timing_only};
    assert_int_equal(orr_runtime_create(&config, &f->runtime, &f->error), ORR_OK);
}

static void must(struct fixture *f, enum orr_status status) {
    if (status != ORR_OK) {
        fail_msg("%s: %s", orr_status_text(status), orr_runtime_error(f->runtime)->text);
    }
}

static void set_shape(const struct orr_operator *op, struct orr_attributes *attributes, int rank,
                      const int64_t *dims, enum orr_dtype dtype, int64_t seed) {
    orr_operator_defaults(op, attributes);
    attributes->values[orr_operator_attribute(op, "shape")].shape = orr_shape_of(rank, dims);
    attributes->values[orr_operator_attribute(op, "dtype")].integer = dtype;
    int index = orr_operator_attribute(op, "seed");
    if (index >= 0) {
        attributes->values[index].integer = seed;
    }
}

static struct orr_tensor *randn(struct fixture *f, int rank, const int64_t *dims,
                                enum orr_dtype dtype, int64_t seed,
                                const struct orr_layout *layout) {
    const struct orr_operator *op = orr_operator_find("randn");
    struct orr_attributes attributes;
    struct orr_tensor *out;
    set_shape(op, &attributes, rank, dims, dtype, seed);
    must(f, orr_tensor_apply(f->runtime, op, NULL, 0, &attributes, layout, &out));
    return out;
}

static struct orr_tensor *apply(struct fixture *f, const char *name, struct orr_tensor *a,
                                struct orr_tensor *b) {
    const struct orr_operator *op = orr_operator_find(name);
    struct orr_attributes attributes;
    struct orr_tensor *in[2] = {a, b}, *out;
    orr_operator_defaults(op, &attributes);
    must(f, orr_tensor_apply(f->runtime, op, in, b ? 2 : 1, &attributes, NULL, &out));
    return out;
}

static void read_f32(struct fixture *f, struct orr_tensor *tensor, float *values, size_t count) {
    struct orr_future *future;
    must(f, orr_tensor_future(tensor, &future));
    must(f, orr_future_get(future, values, count * sizeof *values));
    orr_future_destroy(&future);
}

static void assert_near(const float *a, const float *b, size_t count, float tolerance) {
    for (size_t i = 0; i < count; i++) {
        float difference = a[i] - b[i];
        if (!(difference <= tolerance && difference >= -tolerance)) {
            fail_msg("element %zu: %g and %g", i, (double)a[i], (double)b[i]);
        }
    }
}

static void the_worked_example_runs_eagerly_in_its_times(void **state) {
    (void)state;
    struct fixture f;
    open_devices(&f, 1, true);
    const int64_t square[2] = {4096, 4096}, row[1] = {4096};
    struct orr_tensor *x = randn(&f, 2, square, ORR_DTYPE_BF16, 1, NULL);
    struct orr_tensor *w = randn(&f, 2, square, ORR_DTYPE_BF16, 2, NULL);
    struct orr_tensor *b = randn(&f, 1, row, ORR_DTYPE_BF16, 3, NULL);
    must(&f, orr_device_sync(f.runtime, 0));
    int64_t begin_ns = orr_runtime_now(f.runtime);
    struct orr_tensor *product = apply(&f, "matmul", x, w);
    struct orr_tensor *sum = apply(&f, "add", product, b);
    struct orr_tensor *y = apply(&f, "relu", sum, NULL);
    assert_int_equal(orr_runtime_now(f.runtime) - begin_ns, 15000);
    must(&f, orr_device_sync(f.runtime, 0));
    assert_int_equal(orr_runtime_now(f.runtime) - begin_ns, 5000 + 274878 + 33554 + 33555);
    orr_tensor_destroy(&product);
    orr_tensor_destroy(&sum);
    orr_tensor_destroy(&y);
    orr_runtime_destroy(&f.runtime);
}

static enum orr_status layer(void *context, struct orr_tensor *const *inputs, int count,
                             struct orr_tensor **outputs, int max, int *out_count) {
    struct fixture *f = context;
    assert_int_equal(count, 3);
    assert_true(max >= 1);
    struct orr_tensor *product = apply(f, "matmul", inputs[0], inputs[1]);
    struct orr_tensor *sum = apply(f, "add", product, inputs[2]);
    outputs[0] = apply(f, "relu", sum, NULL);
    *out_count = 1;
    orr_tensor_destroy(&product);
    orr_tensor_destroy(&sum);
    return ORR_OK;
}

static void fusion_and_capture_change_times_and_not_numbers(void **state) {
    (void)state;
    enum { M = 24, K = 40, N = 56 };
    struct fixture f;
    open_devices(&f, 1, false);
    const int64_t xd[2] = {M, K}, wd[2] = {K, N}, bd[1] = {N};
    struct orr_tensor *in[3] = {randn(&f, 2, xd, ORR_DTYPE_F32, 1, NULL),
                                randn(&f, 2, wd, ORR_DTYPE_F32, 2, NULL),
                                randn(&f, 1, bd, ORR_DTYPE_F32, 3, NULL)};
    struct orr_tensor *eager[1], *out[1];
    int count;
    float wanted[M * N], got[M * N];
    must(&f, layer(&f, in, 3, eager, 1, &count));
    read_f32(&f, eager[0], wanted, M * N);
    for (int capture = 0; capture < 2; capture++) {
        for (int mode = ORR_FUSION_OFF; mode <= ORR_FUSION_EPILOGUE; mode++) {
            struct orr_compiled *compiled;
            must(&f, orr_compiled_create(f.runtime, "layer", (enum orr_fusion_mode)mode, capture,
                                         &compiled));
            for (int call = 0; call < 3; call++) {
                must(&f, orr_compiled_call(compiled, in, 3, layer, &f, out, 1, &count));
                assert_int_equal(count, 1);
                memset(got, 0, sizeof got);
                read_f32(&f, out[0], got, M * N);
                assert_memory_equal(got, wanted, sizeof got);
                orr_tensor_destroy(&out[0]);
            }
            assert_int_equal(orr_compiled_counts(compiled).captures, capture);
            assert_int_equal(orr_compiled_counts(compiled).replays, 2 * capture);
            orr_compiled_destroy(&compiled);
        }
    }
    must(&f, orr_runtime_finish(f.runtime));
    orr_runtime_destroy(&f.runtime);
}

static void other_operands_and_shapes_are_guarded(void **state) {
    (void)state;
    enum { M = 8, K = 16, N = 16 };
    struct fixture f;
    open_devices(&f, 1, false);
    const int64_t xd[2] = {M, K}, wd[2] = {K, N}, bd[1] = {N}, longer[2] = {2 * M, K};
    struct orr_tensor *in[3] = {randn(&f, 2, xd, ORR_DTYPE_F32, 1, NULL),
                                randn(&f, 2, wd, ORR_DTYPE_F32, 2, NULL),
                                randn(&f, 1, bd, ORR_DTYPE_F32, 3, NULL)};
    struct orr_compiled *compiled;
    struct orr_tensor *out[1];
    int count;
    must(&f, orr_compiled_create(f.runtime, "layer", ORR_FUSION_EPILOGUE, true, &compiled));
    float before[M * K], after[M * K];
    read_f32(&f, in[0], before, M * K);
    for (int call = 0; call < 4; call++) {
        struct orr_tensor *mine[3] = {
            call == 0 ? in[0] : randn(&f, 2, xd, ORR_DTYPE_F32, 10 + call, NULL), in[1], in[2]};
        struct orr_tensor *eager[1];
        float wanted[M * N], got[M * N];
        must(&f, orr_compiled_call(compiled, mine, 3, layer, &f, out, 1, &count));
        read_f32(&f, out[0], got, M * N);
        must(&f, layer(&f, mine, 3, eager, 1, &count));
        read_f32(&f, eager[0], wanted, M * N);
        assert_memory_equal(got, wanted, sizeof got);
        orr_tensor_destroy(&out[0]);
    }
    read_f32(&f, in[0], after, M * K);
    assert_memory_equal(before, after, sizeof before); /* the first operand is not overwritten */
    assert_int_equal(orr_compiled_counts(compiled).captures, 2);
    assert_int_equal(orr_compiled_counts(compiled).replays, 2);
    assert_int_equal(orr_compiled_counts(compiled).mismatches, 0);
    struct orr_tensor *other[3] = {randn(&f, 2, longer, ORR_DTYPE_F32, 4, NULL), in[1], in[2]};
    must(&f, orr_compiled_call(compiled, other, 3, layer, &f, out, 1, &count));
    assert_int_equal(orr_compiled_counts(compiled).mismatches, 1);
    orr_compiled_destroy(&compiled);
    orr_runtime_destroy(&f.runtime);
}

static enum orr_status reads_inside(void *context, struct orr_tensor *const *inputs, int count,
                                    struct orr_tensor **outputs, int max, int *out_count) {
    struct fixture *f = context;
    (void)count;
    (void)max;
    float values[8 * 16];
    struct orr_tensor *product = apply(f, "matmul", inputs[0], inputs[1]);
    read_f32(f, product, values, 8 * 16);
    outputs[0] = apply(f, values[0] > 1e30F ? "neg" : "relu", product, NULL);
    *out_count = 1;
    orr_tensor_destroy(&product);
    return ORR_OK;
}

static void a_host_read_inside_breaks_the_region_and_is_reported(void **state) {
    (void)state;
    struct fixture f;
    open_devices(&f, 1, false);
    const int64_t xd[2] = {8, 16}, wd[2] = {16, 16};
    struct orr_tensor *in[2] = {randn(&f, 2, xd, ORR_DTYPE_F32, 1, NULL),
                                randn(&f, 2, wd, ORR_DTYPE_F32, 2, NULL)};
    struct orr_compiled *compiled;
    struct orr_tensor *out[1];
    int count;
    must(&f, orr_compiled_create(f.runtime, "reads", ORR_FUSION_OFF, true, &compiled));
    for (int call = 0; call < 2; call++) {
        must(&f, orr_compiled_call(compiled, in, 2, reads_inside, &f, out, 1, &count));
        float got[8 * 16];
        read_f32(&f, out[0], got, 8 * 16);
        assert_true(got[0] >= 0);
        orr_tensor_destroy(&out[0]);
    }
    assert_int_equal(orr_compiled_counts(compiled).breaks, 2);
    assert_int_equal(orr_compiled_counts(compiled).replays, 0);
    assert_true(orr_runtime_finding_count(f.runtime) >= 1);
    orr_compiled_destroy(&compiled);
    orr_runtime_destroy(&f.runtime);
}

static enum orr_status redistributes_inside(void *context, struct orr_tensor *const *inputs,
                                            int count, struct orr_tensor **outputs, int max,
                                            int *out_count) {
    struct fixture *f = context;
    (void)count;
    (void)max;
    struct orr_layout cut = *orr_tensor_layout(inputs[0]);
    cut.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    struct orr_tensor *before = apply(f, "neg", inputs[0], NULL), *pieces;
    must(f, orr_tensor_redistribute(before, &cut, &pieces));
    outputs[0] = apply(f, "neg", pieces, NULL);
    *out_count = 1;
    orr_tensor_destroy(&before);
    orr_tensor_destroy(&pieces);
    return ORR_OK;
}

/* The collectives are no part of the program, so that it must not be replayed without them. */
static void a_redistribute_inside_breaks_the_region_and_the_numbers_stay(void **state) {
    (void)state;
    struct fixture f;
    open_devices(&f, 2, false);
    const int64_t dims[2] = {8, 4};
    struct orr_compiled *compiled;
    must(&f, orr_compiled_create(f.runtime, "cuts", ORR_FUSION_OFF, true, &compiled));
    for (int call = 0; call < 4; call++) {
        float wanted[8 * 4], got[8 * 4];
        struct orr_tensor *x = randn(&f, 2, dims, ORR_DTYPE_F32, call + 1, NULL), *out[1];
        int count;
        must(&f, orr_compiled_call(compiled, &x, 1, redistributes_inside, &f, out, 1, &count));
        read_f32(&f, x, wanted, 8 * 4);
        read_f32(&f, out[0], got, 8 * 4);
        assert_memory_equal(got, wanted, sizeof got);
        orr_tensor_destroy(&out[0]);
    }
    assert_int_equal(orr_compiled_counts(compiled).breaks, 4);
    assert_int_equal(orr_compiled_counts(compiled).replays, 0);
    orr_compiled_destroy(&compiled);
    orr_runtime_destroy(&f.runtime);
}

struct leak {
    struct fixture *f;
    struct orr_tensor *leaked;
};

static enum orr_status leaks_and_fails(void *context, struct orr_tensor *const *inputs, int count,
                                       struct orr_tensor **outputs, int max, int *out_count) {
    struct leak *leak = context;
    (void)count;
    (void)outputs;
    (void)max;
    (void)out_count;
    leak->leaked = apply(leak->f, "relu", inputs[0], NULL);
    return ORR_INVALID;
}

static enum orr_status negates(void *context, struct orr_tensor *const *inputs, int count,
                               struct orr_tensor **outputs, int max, int *out_count) {
    (void)count;
    (void)max;
    outputs[0] = apply(context, "neg", inputs[0], NULL);
    *out_count = 1;
    return ORR_OK;
}

static void assert_never_kept(struct fixture *f, enum orr_status status) {
    assert_int_equal(status, ORR_INVALID);
    assert_non_null(strstr(orr_runtime_error(f->runtime)->text, "never kept in memory"));
}

static void what_a_failed_tracing_left_behind_is_refused_everywhere(void **state) {
    (void)state;
    struct fixture f;
    open_devices(&f, 2, false);
    const int64_t dims[2] = {8, 4};
    struct leak leak = {.f = &f};
    struct orr_tensor *x = randn(&f, 2, dims, ORR_DTYPE_F32, 1, NULL), *y, *out[1];
    struct orr_compiled *failing, *compiled;
    struct orr_future *future;
    struct orr_attributes attributes;
    struct orr_layout cut = *orr_tensor_layout(x);
    int count;
    must(&f, orr_compiled_create(f.runtime, "fails", ORR_FUSION_OFF, true, &failing));
    must(&f, orr_compiled_create(f.runtime, "negates", ORR_FUSION_OFF, true, &compiled));
    assert_int_equal(orr_compiled_call(failing, &x, 1, leaks_and_fails, &leak, out, 1, &count),
                     ORR_INVALID);
    const struct orr_operator *relu = orr_operator_find("relu");
    orr_operator_defaults(relu, &attributes);
    assert_never_kept(&f,
                      orr_tensor_apply(f.runtime, relu, &leak.leaked, 1, &attributes, NULL, &y));
    assert_never_kept(&f, orr_tensor_future(leak.leaked, &future));
    cut.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    assert_never_kept(&f, orr_tensor_redistribute(leak.leaked, &cut, &y));
    for (int call = 0; call < 2; call++) { /* captured for one operand, replayed for any */
        must(&f, orr_compiled_call(compiled, &x, 1, negates, &f, out, 1, &count));
        orr_tensor_destroy(&out[0]);
        x = randn(&f, 2, dims, ORR_DTYPE_F32, 2, NULL);
    }
    assert_never_kept(&f,
                      orr_compiled_call(compiled, &leak.leaked, 1, negates, &f, out, 1, &count));
    orr_tensor_destroy(&leak.leaked);
    orr_runtime_destroy(&f.runtime);
}

/* y = relu(x w1) w2 with w1 cut by columns and w2 by rows equals the same on one device. */
static void tensor_parallel_numbers_equal_one_device(void **state) {
    (void)state;
    enum { M = 16, K = 32, H = 64, N = 32 };
    float wanted[M * N], got[M * N];
    for (uint32_t devices = 1; devices <= 8; devices *= 2) {
        struct fixture f;
        open_devices(&f, devices, false);
        struct orr_layout whole = orr_layout_replicated(orr_mesh_default(f.runtime));
        struct orr_layout columns = whole, rows = whole;
        columns.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 1};
        rows.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
        const int64_t xd[2] = {M, K}, w1d[2] = {K, H}, w2d[2] = {H, N};
        struct orr_tensor *x = randn(&f, 2, xd, ORR_DTYPE_F32, 1, &whole);
        struct orr_tensor *w1 = randn(&f, 2, w1d, ORR_DTYPE_F32, 2, &columns);
        struct orr_tensor *w2 = randn(&f, 2, w2d, ORR_DTYPE_F32, 3, &rows);
        struct orr_tensor *hidden = apply(&f, "relu", apply(&f, "matmul", x, w1), NULL);
        struct orr_tensor *partial = apply(&f, "matmul", hidden, w2), *y;
        assert_int_equal(orr_tensor_layout(partial)->axes[0].kind, ORR_PARTIAL);
        must(&f, orr_tensor_redistribute(partial, &whole, &y));
        read_f32(&f, y, devices == 1 ? wanted : got, M * N);
        if (devices > 1) {
            assert_near(got, wanted, M * N, 1e-3F);
            read_f32(&f, partial, got, M * N); /* a future reduces partial terms itself */
            assert_near(got, wanted, M * N, 1e-3F);
        }
        must(&f, orr_runtime_finish(f.runtime));
        orr_runtime_destroy(&f.runtime);
    }
}

static void gathering_any_dimension_restores_the_tensor(void **state) {
    (void)state;
    enum { A = 8, B = 16, C = 8 };
    float wanted[A * B * C], got[A * B * C];
    struct fixture f;
    open_devices(&f, 4, false);
    struct orr_layout whole = orr_layout_replicated(orr_mesh_default(f.runtime));
    const int64_t dims[3] = {A, B, C};
    struct orr_tensor *x = randn(&f, 3, dims, ORR_DTYPE_F32, 1, &whole);
    read_f32(&f, x, wanted, A * B * C);
    for (int dim = 0; dim < 3; dim++) {
        struct orr_layout cut = whole;
        cut.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
        struct orr_tensor *pieces, *back, *drawn = randn(&f, 3, dims, ORR_DTYPE_F32, 1, &cut);
        must(&f, orr_tensor_redistribute(x, &cut, &pieces));
        must(&f, orr_tensor_redistribute(pieces, &whole, &back));
        read_f32(&f, pieces, got, A * B * C);
        assert_memory_equal(got, wanted, sizeof got);
        read_f32(&f, back, got, A * B * C);
        assert_memory_equal(got, wanted, sizeof got);
        read_f32(&f, drawn, got, A * B * C); /* random numbers belong to places, not to shards */
        assert_memory_equal(got, wanted, sizeof got);
    }
    orr_runtime_destroy(&f.runtime);
}

static void a_partial_through_a_non_linear_operator_is_refused(void **state) {
    (void)state;
    struct fixture f;
    open_devices(&f, 2, true);
    struct orr_layout whole = orr_layout_replicated(orr_mesh_default(f.runtime));
    struct orr_layout columns = whole, rows = whole;
    columns.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 1};
    rows.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    const int64_t square[2] = {64, 64};
    struct orr_tensor *x = randn(&f, 2, square, ORR_DTYPE_F32, 1, &columns);
    struct orr_tensor *w = randn(&f, 2, square, ORR_DTYPE_F32, 2, &rows);
    struct orr_tensor *partial = apply(&f, "matmul", x, w), *out;
    const struct orr_operator *relu = orr_operator_find("relu");
    struct orr_attributes attributes;
    orr_operator_defaults(relu, &attributes);
    assert_int_equal(orr_tensor_apply(f.runtime, relu, &partial, 1, &attributes, NULL, &out),
                     ORR_INVALID);
    assert_non_null(strstr(orr_runtime_error(f.runtime)->text, "relu"));
    assert_non_null(strstr(orr_runtime_error(f.runtime)->text, "P(sum)"));
    orr_runtime_destroy(&f.runtime);
}

static void values_from_the_host_arrive_whole_on_every_placement(void **state) {
    (void)state;
    enum { A = 6, B = 10 };
    float values[A * B], got[A * B];
    for (int i = 0; i < A * B; i++) {
        values[i] = (float)i;
    }
    struct fixture f;
    open_devices(&f, 4, false);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){A, B})};
    for (int dim = -1; dim < 2; dim++) { /* 6 and 10 over 4 devices: uneven shards */
        struct orr_layout layout = orr_layout_replicated(orr_mesh_default(f.runtime));
        if (dim >= 0) {
            layout.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
        }
        struct orr_tensor *tensor;
        must(&f, orr_tensor_from_host(f.runtime, &info, &layout, values, &tensor));
        read_f32(&f, tensor, got, A * B);
        assert_memory_equal(got, values, sizeof got);
        orr_tensor_destroy(&tensor);
    }
    orr_runtime_destroy(&f.runtime);
}

/* A host makes its next call, an operator over all devices or a copy of its result to the host;
 * returns true when it has made all of them. */
static bool go_on(struct fixture *f, struct orr_tensor *x, struct orr_tensor **y,
                  struct orr_future **future, int *calls) {
    enum { CALLS = 6 };
    struct orr_attributes attributes;
    const struct orr_operator *op = orr_operator_find("neg");
    orr_operator_defaults(op, &attributes);
    float values[64];
    enum orr_status status = ORR_OK;
    switch (*calls % 3) {
    case 0: status = orr_tensor_apply(f->runtime, op, &x, 1, &attributes, NULL, y); break;
    case 1: status = orr_tensor_future(*y, future); break;
    case 2: status = orr_future_get(*future, values, sizeof values); break;
    }
    if (status == ORR_BLOCKED) {
        return false;
    }
    must(f, status);
    if (*calls % 3 == 2) {
        orr_tensor_destroy(y);
        orr_future_destroy(future);
    }
    return ++*calls == CALLS;
}

/* An operator costs its host more than one command's time, so that its later commands would come
 * after another host's call: repeating all of it each time, two hosts would go on for ever. */
static void operators_of_two_hosts_on_many_devices_happen_once(void **state) {
    (void)state;
    enum { DEVICES = 4, HOSTS = 3 };
    struct fixture f;
    open_devices(&f, DEVICES, false);
    struct orr_layout cut = orr_layout_replicated(orr_mesh_default(f.runtime));
    cut.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    struct orr_tensor *x = randn(&f, 2, (int64_t[]){8, 8}, ORR_DTYPE_F32, 1, &cut);
    struct orr_tensor *y[HOSTS] = {NULL};
    struct orr_future *futures[HOSTS] = {NULL};
    int calls[HOSTS] = {0}, done = 0;
    for (uint32_t i = 1, host; i < HOSTS; i++) {
        must(&f, orr_runtime_add_host(f.runtime, "other", &host));
        assert_int_equal(host, i);
    }
    for (int turns = 0; done < HOSTS; turns++) {
        uint32_t host;
        assert_true(turns < 1000);
        must(&f, orr_runtime_next_host(f.runtime, &host));
        must(&f, orr_runtime_set_caller(f.runtime, host, NULL));
        if (go_on(&f, x, &y[host], &futures[host], &calls[host])) {
            orr_runtime_host_done(f.runtime, host);
            done++;
        }
    }
    for (uint32_t device = 0; device < DEVICES; device++) { /* x, and twice y for each host */
        struct orr_stream *stream = orr_device_stream(f.runtime, device, ORR_STREAM_COMPUTE);
        assert_int_equal(orr_stream_point(stream).seq, 1 + 2 * HOSTS);
    }
    orr_runtime_destroy(&f.runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_runs_eagerly_in_its_times),
        cmocka_unit_test(fusion_and_capture_change_times_and_not_numbers),
        cmocka_unit_test(other_operands_and_shapes_are_guarded),
        cmocka_unit_test(a_host_read_inside_breaks_the_region_and_is_reported),
        cmocka_unit_test(a_redistribute_inside_breaks_the_region_and_the_numbers_stay),
        cmocka_unit_test(what_a_failed_tracing_left_behind_is_refused_everywhere),
        cmocka_unit_test(tensor_parallel_numbers_equal_one_device),
        cmocka_unit_test(gathering_any_dimension_restores_the_tensor),
        cmocka_unit_test(a_partial_through_a_non_linear_operator_is_refused),
        cmocka_unit_test(values_from_the_host_arrive_whole_on_every_placement),
        cmocka_unit_test(operators_of_two_hosts_on_many_devices_happen_once),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
