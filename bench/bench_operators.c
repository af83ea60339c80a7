/* How fast operators compute on host memory: simulated runs and the CPU backend compute tensors for
 * real, so this is their speed.
 *
 * Prints `name,value,unit` lines. Each figure is the best of several rounds by the thread's CPU
 * time; "_wall" beside it is the same round by the monotonic clock. Matrix products run against a
 * direct call of cblas_sgemm, in turns within the same run; "_ratio" is ours over direct (1.00 =
 * nothing lost). */
#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/operator.h"
#include "runtime/operators/gemm.h"

enum { ROUNDS = 5 };

static double clock_s(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct timing {
    double cpu_s, wall_s; /* best so far; 0 = none */
};

struct stopwatch {
    double cpu_s, wall_s;
};

static struct stopwatch start(void) {
    return (struct stopwatch){clock_s(CLOCK_THREAD_CPUTIME_ID), clock_s(CLOCK_MONOTONIC)};
}

/* Keeps the best round; `repeats` runs were done since `from`. */
static void stop(struct stopwatch from, int repeats, struct timing *timing) {
    double cpu_s = (clock_s(CLOCK_THREAD_CPUTIME_ID) - from.cpu_s) / repeats;
    double wall_s = (clock_s(CLOCK_MONOTONIC) - from.wall_s) / repeats;
    if (timing->cpu_s != 0 && cpu_s >= timing->cpu_s)
        return;
    timing->cpu_s = cpu_s;
    timing->wall_s = wall_s;
}

static void fail(const char *what) {
    fprintf(stderr, "bench_operators: %s\n", what);
    exit(1);
}

/* One operator with its operands, ready to run. */
struct job {
    const struct orr_operator *op;
    struct orr_attributes attributes;
    struct orr_operand_info infos[3];
    struct orr_tensor_view inputs[3], outputs[ORR_OUTPUTS_MAX];
    int input_count;
};

static void fill(struct orr_tensor_view *view, int seed) {
    size_t count = (size_t)orr_shape_count(&view->shape);
    uint32_t state = (uint32_t)seed * 2654435761u + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        orr_dtype_store(view->dtype, view->data, i, (double)(state >> 8) / (1 << 24) - 0.5);
    }
}

static struct orr_tensor_view make_view(const struct orr_operand_info *info, int seed) {
    size_t bytes = (size_t)orr_shape_count(&info->shape) * orr_dtype_size(info->dtype);
    struct orr_tensor_view view = {info->dtype, info->shape,
                                   aligned_alloc(64, (bytes + 63) & ~(size_t)63)};
    if (!view.data)
        fail("no memory");
    fill(&view, seed);
    return view;
}

static void job_open(struct job *job, const char *name, int input_count) {
    struct orr_operand_info outputs[ORR_OUTPUTS_MAX];
    struct orr_error error = {0};
    job->op = orr_operator_find(name);
    job->input_count = input_count;
    if (!job->op)
        fail("no such operator");
    orr_operator_defaults(job->op, &job->attributes);
    if (job->op->infer(job->infos, input_count, &job->attributes, outputs, &error) != ORR_OK)
        fail(error.text);
    for (int i = 0; i < input_count; i++)
        job->inputs[i] = make_view(&job->infos[i], i + 1);
    job->outputs[0] = make_view(&outputs[0], 9);
}

static void job_close(struct job *job) {
    for (int i = 0; i < job->input_count; i++)
        free(job->inputs[i].data);
    free(job->outputs[0].data);
}

static void job_run(const struct job *job, const struct orr_memory *memory) {
    struct orr_error error = {0};
    if (job->op->compute(job->inputs, job->input_count, &job->attributes, job->outputs, memory,
                         &error) != ORR_OK)
        fail(error.text);
}

static void measure_row(const char *label, const char *name, enum orr_dtype dtype, int input_count,
                        int second_rank) {
    const int64_t n = 4096;
    struct orr_memory memory = orr_memory_system();
    struct job job = {0};
    struct timing timing = {0};
    job.infos[0] = (struct orr_operand_info){dtype, orr_shape_of(2, (int64_t[]){n, n})};
    for (int i = 1; i < input_count; i++)
        job.infos[i] =
            (struct orr_operand_info){dtype, orr_shape_of(second_rank, (int64_t[]){n, n})};
    job_open(&job, name, input_count);
    for (int round = 0; round < ROUNDS; round++) {
        struct stopwatch from = start();
        job_run(&job, &memory);
        stop(from, 1, &timing);
    }
    struct orr_operand_info outputs[1] = {{job.outputs[0].dtype, job.outputs[0].shape}};
    struct orr_cost cost = job.op->cost(job.infos, input_count, &job.attributes, outputs);
    const char *type = orr_dtype_name(dtype);
    printf("%s_%s,%.0f,Melements/s\n", label, type, (double)(n * n) / timing.cpu_s * 1e-6);
    printf("%s_%s_wall,%.0f,Melements/s\n", label, type, (double)(n * n) / timing.wall_s * 1e-6);
    printf("%s_%s_traffic,%.1f,GB/s\n", label, type,
           (double)(cost.bytes_read + cost.bytes_written) / timing.cpu_s * 1e-9);
    job_close(&job);
}

static void measure_gemm(int64_t n) {
    struct orr_memory memory = orr_memory_system();
    struct job job = {0};
    struct timing ours = {0}, direct = {0};
    struct orr_shape shape = orr_shape_of(2, (int64_t[]){n, n});
    job.infos[0] = job.infos[1] = (struct orr_operand_info){ORR_DTYPE_F32, shape};
    job_open(&job, "matmul", 2);
    int repeats = n <= 128 ? 500 : n <= 512 ? 20 : 1, rounds = n <= 512 ? 15 : ROUNDS;
    for (int round = 0; round < rounds; round++) {
        struct stopwatch from = start();
        for (int i = 0; i < repeats; i++)
            job_run(&job, &memory);
        stop(from, repeats, &ours);
        from = start();
        for (int i = 0; i < repeats; i++)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)n, (int)n, 1,
                        job.inputs[0].data, (int)n, job.inputs[1].data, (int)n, 0,
                        job.outputs[0].data, (int)n);
        stop(from, repeats, &direct);
    }
    double flops = 2 * (double)n * (double)n * (double)n;
    printf("gemm_f32_n%d,%.2f,GFLOP/s\n", (int)n, flops / ours.cpu_s * 1e-9);
    printf("gemm_f32_n%d_wall,%.2f,GFLOP/s\n", (int)n, flops / ours.wall_s * 1e-9);
    printf("gemm_f32_n%d_direct,%.2f,GFLOP/s\n", (int)n, flops / direct.cpu_s * 1e-9);
    printf("gemm_f32_n%d_ratio,%.3f,ratio\n", (int)n, direct.cpu_s / ours.cpu_s);
    job_close(&job);
}

static void measure_gemm_half(int64_t n) {
    struct orr_memory memory = orr_memory_system();
    struct job job = {0};
    struct timing timing = {0};
    struct orr_shape shape = orr_shape_of(2, (int64_t[]){n, n});
    job.infos[0] = job.infos[1] = (struct orr_operand_info){ORR_DTYPE_BF16, shape};
    job_open(&job, "matmul", 2);
    for (int round = 0; round < 3; round++) {
        struct stopwatch from = start();
        job_run(&job, &memory);
        stop(from, 1, &timing);
    }
    double flops = 2 * (double)n * (double)n * (double)n;
    printf("gemm_bf16_n%d,%.2f,GFLOP/s\n", (int)n, flops / timing.cpu_s * 1e-9);
    job_close(&job);
}

/* Sources have a shape attribute instead of operands. */
static void measure_source(const char *name, enum orr_dtype dtype) {
    const int64_t n = 4096;
    struct orr_memory memory = orr_memory_system();
    const struct orr_operator *op = orr_operator_find(name);
    struct job job = {.op = op};
    struct timing timing = {0};
    struct orr_operand_info info = {dtype, orr_shape_of(2, (int64_t[]){n, n})};
    orr_operator_defaults(op, &job.attributes);
    job.attributes.values[orr_operator_attribute(op, "shape")].shape = info.shape;
    job.attributes.values[orr_operator_attribute(op, "dtype")].integer = dtype;
    job.outputs[0] = make_view(&info, 1);
    for (int round = 0; round < 3; round++) {
        struct stopwatch from = start();
        job_run(&job, &memory);
        stop(from, 1, &timing);
    }
    printf("%s_%s,%.0f,Melements/s\n", name, orr_dtype_name(dtype),
           (double)(n * n) / timing.cpu_s * 1e-6);
    job_close(&job);
}

/* The machine's own limit, for comparison: memcpy of the same array. */
static void measure_copy(void) {
    size_t bytes = 4096u * 4096u * 4u;
    char *from_block = malloc(bytes), *to = malloc(bytes);
    struct timing timing = {0};
    if (!from_block || !to)
        fail("no memory");
    memset(from_block, 1, bytes);
    memset(to, 2, bytes);
    for (int round = 0; round < ROUNDS; round++) {
        struct stopwatch from = start();
        memcpy(to, from_block, bytes);
        stop(from, 1, &timing);
    }
    printf("memcpy,%.1f,GB/s\n", 2 * (double)bytes / timing.cpu_s * 1e-9);
    free(from_block);
    free(to);
}

int main(void) {
    orr_gemm_single_thread();
    measure_copy();
    measure_row("add", "add", ORR_DTYPE_F32, 2, 2);
    measure_row("add", "add", ORR_DTYPE_F64, 2, 2);
    measure_row("add", "add", ORR_DTYPE_BF16, 2, 2);
    measure_row("add", "add", ORR_DTYPE_F16, 2, 2);
    measure_row("add_row", "add", ORR_DTYPE_BF16, 2, 1);
    measure_row("relu", "relu", ORR_DTYPE_F32, 1, 2);
    measure_row("relu", "relu", ORR_DTYPE_BF16, 1, 2);
    measure_row("gelu", "gelu", ORR_DTYPE_F32, 1, 2);
    measure_row("silu", "silu", ORR_DTYPE_BF16, 1, 2);
    measure_row("dropout", "dropout", ORR_DTYPE_F32, 1, 2);
    measure_row("softmax", "softmax", ORR_DTYPE_F32, 1, 2);
    measure_row("rmsnorm", "rmsnorm", ORR_DTYPE_BF16, 2, 1);
    measure_row("layernorm", "layernorm", ORR_DTYPE_F32, 3, 1);
    measure_row("rope", "rope", ORR_DTYPE_BF16, 1, 2);
    measure_row("sum", "sum", ORR_DTYPE_F32, 1, 2);
    measure_row("sum", "sum", ORR_DTYPE_BF16, 1, 2);
    measure_row("max", "max", ORR_DTYPE_F32, 1, 2);
    measure_row("transpose", "transpose", ORR_DTYPE_F32, 1, 2);
    measure_source("rand", ORR_DTYPE_F32);
    measure_source("randn", ORR_DTYPE_F32);
    measure_source("randn", ORR_DTYPE_BF16);
    measure_gemm(128);
    measure_gemm(512);
    measure_gemm(2048);
    measure_gemm_half(2048);
    return 0;
}
