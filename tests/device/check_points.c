/* Step 7: points of the roofline: copies, matrix products and kernels of several sizes, each the
 * shortest of some repetitions by the device's own clock. */
#include <string.h>

#include "runtime/runtime_internal.h"
#include "runtime/tensor.h"
#include "tests/device/check.h"

enum { REPEATS = 5 };

/* The shortest device time of commands of this kind and name. */
static int64_t shortest(const struct check_run *run, enum orr_command_kind kind, const char *name) {
    int64_t best_ns = INT64_MAX;
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(run->store, &cursor)) != NULL) {
        const struct orr_record_command *command = (const void *)record;
        if (record->kind != ORR_RECORD_COMMAND || record->a != kind ||
            strcmp(orr_names_text(run->runtime->names, command->name), name) != 0)
            continue;
        int64_t ns = command->finish_ns - command->start_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    return best_ns;
}

static void add_point(struct check *check, struct check_point point) {
    char name[96], flops[32] = "";
    if (check->points->count == CHECK_POINTS_MAX)
        return;
    check->points->items[check->points->count++] = point;
    if (point.flops > 0)
        snprintf(flops, sizeof flops, " and %.3g FLOP", point.flops);
    snprintf(name, sizeof name, "%s of %.0f bytes%s", point.name, point.bytes, flops);
    check_figure(check, name, (double)point.ns / 1e3, "us");
}

static bool measure_copy(struct check *check, enum check_point_kind kind, uint64_t bytes) {
    struct check_run run;
    struct orr_buffer *device = NULL, *other = NULL;
    if (!check_run_open(check, &run, 1, false, ORR_CUDA_TIMESTAMPS_AUTO, NULL))
        return false;
    struct orr_stream *stream = orr_device_stream(run.runtime, 0, ORR_STREAM_COPY);
    bool inside = kind == POINT_DEVICE_COPY;
    bool good = stream && orr_buffer_alloc(stream, bytes, "device", &device) == ORR_OK &&
                (inside ? orr_buffer_alloc(stream, bytes, "other", &other)
                        : orr_buffer_alloc_host(run.runtime, bytes, "other", &other)) == ORR_OK;
    struct orr_buffer *to = kind == POINT_DOWNLOAD ? other : device;
    struct orr_buffer *from = kind == POINT_DOWNLOAD ? device : other;
    if (good && kind == POINT_UPLOAD) /* pages that exist */
        memset(orr_buffer_pointer(other), 1, bytes);
    good = good && orr_stream_fill(stream, device, 0, bytes, 1) == ORR_OK;
    for (int i = 0; good && i < REPEATS; i++)
        good = orr_stream_copy(stream, to, 0, from, 0, bytes) == ORR_OK;
    good = good && orr_runtime_finish(run.runtime) == ORR_OK;
    struct check_point point = {.kind = kind,
                                .bytes = (double)bytes * (inside ? 2 : 1),
                                .ns = good ? shortest(&run, ORR_COMMAND_COPY, "copy") : 0};
    snprintf(point.name, sizeof point.name, "%s", check_point_kind_text(kind));
    if (good)
        add_point(check, point);
    else
        check_say(check, "copy", CHECK_FAIL, "%s", orr_runtime_error(run.runtime)->text);
    check_run_close(&run);
    return good;
}

static struct orr_tensor *random_tensor(struct check_run *run, int64_t rows, int64_t columns) {
    const struct orr_operator *op = orr_operator_find("randn");
    struct orr_attributes attributes;
    struct orr_tensor *tensor = NULL;
    orr_operator_defaults(op, &attributes);
    struct orr_attribute *shape = &attributes.values[orr_operator_attribute(op, "shape")];
    shape->shape = (struct orr_shape){.rank = 2, .dims = {rows, columns}};
    attributes.values[orr_operator_attribute(op, "dtype")].integer = ORR_DTYPE_BF16;
    return orr_tensor_apply(run->runtime, op, NULL, 0, &attributes, NULL, &tensor) == ORR_OK
               ? tensor
               : NULL;
}

/* An operator on random bf16 tensors: x [m, k], and w [k, n] if n > 0. */
static bool measure_operator(struct check *check, const char *name, int64_t m, int64_t k,
                             int64_t n) {
    struct check_run run;
    const struct orr_operator *op = orr_operator_find(name);
    struct orr_attributes attributes;
    if (!check_run_open(check, &run, 1, false, ORR_CUDA_TIMESTAMPS_AUTO, NULL))
        return false;
    struct orr_tensor *in[2] = {random_tensor(&run, m, k),
                                n > 0 ? random_tensor(&run, k, n) : NULL};
    bool good = in[0] && (n == 0 || in[1]);
    orr_operator_defaults(op, &attributes);
    for (int i = 0; good && i < REPEATS; i++) {
        struct orr_tensor *out = NULL;
        good =
            orr_tensor_apply(run.runtime, op, in, n > 0 ? 2 : 1, &attributes, NULL, &out) == ORR_OK;
        orr_tensor_destroy(&out);
    }
    good = good && orr_runtime_finish(run.runtime) == ORR_OK;
    struct check_point point = {.kind = n > 0 ? POINT_GEMM : POINT_KERNEL,
                                .bytes = (double)(n > 0 ? m * k + k * n + m * n : 2 * m * k) * 2,
                                .flops = n > 0 ? 2.0 * (double)m * (double)k * (double)n : 0,
                                .ns = good ? shortest(&run, ORR_COMMAND_KERNEL, name) : 0};
    snprintf(point.name, sizeof point.name, "%s", name);
    if (good)
        add_point(check, point);
    else
        check_say(check, name, CHECK_FAIL, "%s", orr_runtime_error(run.runtime)->text);
    orr_tensor_destroy(&in[0]);
    orr_tensor_destroy(&in[1]);
    check_run_close(&run);
    return good;
}

static bool measure_copies(struct check *check) {
    uint64_t most = check->quick ? 1 << 20 : (uint64_t)1 << 31;
    bool good = true;
    for (uint64_t bytes = 4096; good && bytes <= most; bytes *= 4)
        good = measure_copy(check, POINT_DEVICE_COPY, bytes);
    uint64_t most_over_link = check->quick ? 1 << 16 : 1 << 28;
    for (uint64_t bytes = 4096; good && bytes <= most_over_link; bytes *= 8)
        good =
            measure_copy(check, POINT_UPLOAD, bytes) && measure_copy(check, POINT_DOWNLOAD, bytes);
    return good;
}

static bool measure_products(struct check *check) {
    static const int64_t shapes[][3] = {{256, 256, 256},    {1024, 1024, 1024}, {2048, 2048, 2048},
                                        {4096, 4096, 4096}, {8192, 8192, 8192}, {16, 8192, 8192},
                                        {4096, 8192, 28672}};
    bool good = true;
    int count = check->quick ? 1 : (int)(sizeof shapes / sizeof *shapes);
    for (int i = 0; good && i < count; i++)
        good = measure_operator(check, "matmul", shapes[i][0], shapes[i][1], shapes[i][2]);
    return good;
}

static bool measure_kernels(struct check *check) {
    static const char *const names[] = {"relu", "gelu",      "silu",    "exp",
                                        "neg",  "layernorm", "rmsnorm", "softmax"};
    bool good = true;
    int64_t rows[2] = {check->quick ? 4 : 1024, check->quick ? 8 : 16384};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int k = 0; good && k < 2; k++)
            good = measure_operator(check, names[i], rows[k], 4096, 0);
    return good;
}

void check_points(struct check *check) {
    bool good = measure_copies(check) && measure_products(check) && measure_kernels(check);
    if (good)
        check_say(check, "points", check->fake ? CHECK_SKIP : CHECK_PASS, "%d points measured%s",
                  check->points->count, check->fake ? "; a fake device's time means nothing" : "");
}
