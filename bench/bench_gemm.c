/* Matrix products through the runtime, tensors on a CPU device with one stream, against calling
 * BLAS directly, f32, one thread, in turn.
 *
 * Ours counts all that the process does: the caller's work for each product (shapes, placement,
 * memory, records), the worker's product, and handing over. CPU time for the ratio, and wall time
 * for information: there the caller's work hides behind the product, if there is a processor for
 * it. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "runtime/cpu/cpu.h"
#include "runtime/operator.h"
#include "runtime/operators/gemm.h"
#include "runtime/record_memory.h"
#include "runtime/tensor.h"

enum { SIZES = 3, N_MAX = 2048 };

struct timing {
    double cpu_s, wall_s; /* per product */
};

struct machine {
    struct orr_memory memory;
    struct orr_record_memory *store;
    struct orr_runtime *runtime;
    struct orr_tensor *a, *b;
};

static void machine_open(struct machine *m, int64_t n, const float *values) {
    struct orr_error error = {0};
    struct orr_device_spec spec = {.name = "bench", .memory_bytes = UINT64_C(1) << 32};
    *m = (struct machine){.memory = orr_memory_system()};
    bench_check(orr_record_memory_create(&m->memory, &m->store), "store");
    struct orr_runtime_config config = {.memory = &m->memory,
                                        .open = orr_cpu_open,
                                        .specs = &spec,
                                        .device_count = 1,
                                        .sink = orr_record_memory_sink(m->store)};
    bench_check(orr_runtime_create(&config, &m->runtime, &error), error.text);
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){n, n})};
    bench_check(orr_tensor_from_host(m->runtime, &info, NULL, values, &m->a), "tensor");
    bench_check(orr_tensor_from_host(m->runtime, &info, NULL, values, &m->b), "tensor");
}

static void machine_close(struct machine *m) {
    orr_tensor_destroy(&m->a);
    orr_tensor_destroy(&m->b);
    orr_runtime_destroy(&m->runtime);
    orr_record_memory_destroy(&m->store);
}

static void multiply(struct machine *m, const struct orr_operator *matmul, int count) {
    struct orr_attributes attributes;
    struct orr_tensor *inputs[2] = {m->a, m->b}, *product;
    orr_operator_defaults(matmul, &attributes);
    for (int i = 0; i < count; i++) {
        bench_check(orr_tensor_apply(m->runtime, matmul, inputs, 2, &attributes, NULL, &product),
                    orr_runtime_error(m->runtime)->text);
        orr_tensor_destroy(&product);
    }
    bench_check(orr_runtime_finish(m->runtime), "finish");
}

static struct timing run_ours(struct machine *m, int count) {
    const struct orr_operator *matmul = orr_operator_find("matmul");
    double cpu_s = bench_process_cpu_s(), wall_s = bench_wall_s();
    multiply(m, matmul, count);
    return (struct timing){(bench_process_cpu_s() - cpu_s) / count,
                           (bench_wall_s() - wall_s) / count};
}

static struct timing run_direct(int n, int count, const float *values, float *product) {
    double cpu_s = bench_process_cpu_s(), wall_s = bench_wall_s();
    for (int i = 0; i < count; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, values, n, values, n, 0,
                    product, n);
    return (struct timing){(bench_process_cpu_s() - cpu_s) / count,
                           (bench_wall_s() - wall_s) / count};
}

static void measure(int n, const float *values, float *product) {
    struct machine m;
    double flops = 2 * (double)n * n * n, ours[BENCH_ROUNDS_MAX], ours_wall[BENCH_ROUNDS_MAX],
           direct[BENCH_ROUNDS_MAX];
    int count = (int)((bench_quick() ? 4e9 : 2e10) / flops);
    count = count < 2 ? 2 : count > 2000 ? 2000 : count;
    machine_open(&m, n, values);
    (void)run_ours(&m, 2);
    (void)run_direct(n, 2, values, product);
    for (int i = 0; i < bench_rounds(); i++) {
        struct timing timing = run_ours(&m, count);
        ours[i] = flops / timing.cpu_s * 1e-9;
        ours_wall[i] = flops / timing.wall_s * 1e-9;
        direct[i] = flops / run_direct(n, count, values, product).cpu_s * 1e-9;
    }
    machine_close(&m);
    bench_valuef(bench_median(ours, bench_rounds()), "GFLOP/cpu-s", "gemm_runtime_%d", n);
    bench_valuef(bench_median(ours_wall, bench_rounds()), "GFLOP/s", "gemm_runtime_wall_%d", n);
    bench_valuef(bench_median(direct, bench_rounds()), "GFLOP/cpu-s", "gemm_direct_%d", n);
}

int main(void) {
    static const int sizes[SIZES] = {128, 512, N_MAX};
    size_t count = (size_t)N_MAX * N_MAX;
    float *values = malloc(count * sizeof *values), *product = malloc(count * sizeof *product);
    bench_must(values && product, "no memory");
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 97) * 0.01f;
    orr_gemm_single_thread();
    for (int i = 0; i < SIZES; i++)
        measure(sizes[i], values, product);
    free(values);
    free(product);
    return 0;
}
