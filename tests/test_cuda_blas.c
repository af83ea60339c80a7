/* Products on a queue over the fake cuBLAS and cublasLt: epilogues, what stands in for them, and
 * what the libraries say of arguments that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/gemm.h"
#include "runtime/cuda/images.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/operator_fixture.h"
#include "tests/support.h"

struct machine {
    struct memory_counting memory;
    struct orr_fake_cuda *fake;
    struct orr__cuda_api *api;
    struct orr__cuda_images images;
    struct orr__cuda_queue queue;
    struct orr__cuda_fault fault;
    struct orr_error error;
};

static void machine_open(struct machine *machine, struct orr_fake_cuda_options options) {
    *machine = (struct machine){.fake = NULL};
    memory_counting_init(&machine->memory, 0);
    assert_int_equal(
        orr_fake_cuda_open(&options, &machine->memory.table, &machine->fake, &machine->error),
        ORR_OK);
    machine->api = orr_fake_cuda_api(machine->fake);
    if (orr__cuda_images_load(machine->api, 0, &machine->images, &machine->error) != ORR_OK)
        fail_msg("%s", machine->error.text);
    machine->queue = (struct orr__cuda_queue){.api = machine->api,
                                              .code = &machine->images.code,
                                              .memory = &machine->memory.table,
                                              .sm_count = 2,
                                              .fault = &machine->fault};
    assert_int_equal(machine->api->rt.cudaStreamCreateWithPriority(&machine->queue.stream,
                                                                   cudaStreamNonBlocking, 0),
                     cudaSuccess);
}

/* Nothing is left. */
static void machine_close(struct machine *machine) {
    assert_int_equal(machine->api->rt.cudaStreamSynchronize(machine->queue.stream), cudaSuccess);
    orr__cuda_queue_clear(&machine->queue);
    assert_int_equal(machine->api->rt.cudaStreamDestroy(machine->queue.stream), cudaSuccess);
    orr__cuda_images_unload(machine->api, &machine->images);
    struct orr_fake_cuda_census census = orr_fake_cuda_census(machine->fake);
    assert_int_equal(census.handles + census.allocations, 0);
    orr_fake_cuda_close(&machine->fake);
    assert_int_equal(machine->memory.live, 0);
}

static size_t bytes_of(const struct orr_tensor_view *view) {
    return (size_t)tensor_count(view) * orr_dtype_size(view->dtype);
}

/* A tensor's copy on the device. */
static struct orr_tensor_view upload(struct machine *machine, const struct orr_tensor_view *from) {
    struct orr_tensor_view to = *from;
    const struct orr__cuda_runtime_table *rt = &machine->api->rt;
    assert_int_equal(rt->cudaMalloc(&to.data, bytes_of(from)), cudaSuccess);
    assert_int_equal(rt->cudaMemcpyAsync(to.data, from->data, bytes_of(from),
                                         cudaMemcpyHostToDevice, machine->queue.stream),
                     cudaSuccess);
    return to;
}

static struct orr_tensor_view download(struct machine *machine,
                                       const struct orr_tensor_view *from) {
    struct orr_tensor_view to = tensor_make(from->dtype, from->shape);
    const struct orr__cuda_runtime_table *rt = &machine->api->rt;
    assert_int_equal(rt->cudaMemcpyAsync(to.data, from->data, bytes_of(from),
                                         cudaMemcpyDeviceToHost, machine->queue.stream),
                     cudaSuccess);
    assert_int_equal(rt->cudaStreamSynchronize(machine->queue.stream), cudaSuccess);
    return to;
}

/* ---- Fused kernels ---- */

enum { M = 5, K = 70, N = 8, OPERANDS_MAX = 4 };

static struct orr_fused_stage stage(const char *name, int a, int b, int c) {
    struct orr_fused_stage made = {.op = orr_operator_find(name), .inputs = {a, b, c}};
    made.input_count = c >= 0 ? 3 : b >= 0 ? 2 : 1;
    orr_operator_defaults(made.op, &made.attributes);
    return made;
}

/* The fused kernel on the machine, against its own arithmetic; returns how often cublasLt was
 * called. */
static uint64_t check_fused(struct machine *machine, const struct orr_fused *fused,
                            struct orr_tensor_view *operands) {
    struct orr_operand_info infos[OPERANDS_MAX], info;
    struct orr_tensor_view device[OPERANDS_MAX];
    uint64_t before = orr_fake_cuda_calls(machine->fake, "cublasLtMatmul");
    for (int i = 0; i < fused->operand_count; i++) {
        infos[i] = (struct orr_operand_info){operands[i].dtype, operands[i].shape};
        device[i] = upload(machine, &operands[i]);
    }
    assert_int_equal(orr_fused_infer(fused, infos, fused->operand_count, &info, &machine->error),
                     ORR_OK);
    struct orr_tensor_view want = tensor_make(info.dtype, info.shape);
    struct orr_tensor_view result = upload(machine, &want);
    assert_int_equal(
        orr_fused_compute(fused, operands, &want, &machine->memory.table, &machine->error), ORR_OK);
    struct orr_task task = {.kind = ORR_TASK_FUSED,
                            .fused = {.fused = fused, .operands = device, .result = &result}};
    if (orr__cuda_enqueue(&machine->queue, &task, &machine->error) != ORR_OK)
        fail_msg("%s", machine->error.text);
    struct orr_tensor_view got = download(machine, &result);
    double bound = dtype_epsilon(info.dtype) * 4;
    for (int64_t i = 0; i < tensor_count(&got); i++)
        assert_near(fused->stages[fused->stage_count - 1].op->name, i, tensor_at(&got, i),
                    tensor_at(&want, i), bound * 10, bound);
    for (int i = 0; i < fused->operand_count; i++) {
        assert_int_equal(machine->api->rt.cudaFree(device[i].data), cudaSuccess);
        tensor_free(&operands[i]);
    }
    assert_int_equal(machine->api->rt.cudaFree(result.data), cudaSuccess);
    tensor_free(&got);
    tensor_free(&want);
    return orr_fake_cuda_calls(machine->fake, "cublasLtMatmul") - before;
}

/* x, weight [out, in] and a bias, then what comes behind linear. */
static uint64_t check_linear(struct machine *machine, enum orr_dtype dtype, bool bias,
                             const char *then) {
    struct random random = random_seeded();
    struct orr_tensor_view operands[] = {
        tensor_random(dtype, shape2(M, K), &random, -1, 1),
        tensor_random(dtype, shape2(N, K), &random, -1, 1),
        tensor_random(dtype, shape1(N), &random, -1, 1),
    };
    struct orr_fused fused = {.operand_count = 2 + bias, .stage_count = 1 + (then != NULL)};
    fused.stages[0] = stage("linear", 0, 1, bias ? 2 : -1);
    if (then)
        fused.stages[1] = stage(then, 2 + bias, -1, -1);
    if (!bias)
        tensor_free(&operands[2]);
    return check_fused(machine, &fused, operands);
}

/* matmul, add a row of a shape, relu if `relu`; the sum is read again if `again`. */
static uint64_t check_matmul(struct machine *machine, enum orr_dtype dtype, struct orr_shape row,
                             bool relu, bool again) {
    struct random random = random_seeded();
    struct orr_tensor_view operands[] = {
        tensor_random(dtype, shape3(2, M, K), &random, -1, 1),
        tensor_random(dtype, shape2(K, N), &random, -1, 1),
        tensor_random(dtype, row, &random, -1, 1),
    };
    struct orr_fused fused = {.operand_count = 3, .stage_count = 2 + relu + again};
    fused.stages[0] = stage("matmul", 0, 1, -1);
    fused.stages[1] = stage("add", 2, 3, -1);
    fused.stages[2] = stage("relu", 4, -1, -1);
    if (again)
        fused.stages[2 + relu] = stage("mul", 4, 4 + relu, -1);
    return check_fused(machine, &fused, operands);
}

static void on_both_engines(void (*check)(struct machine *machine)) {
    for (int engine = ORR_FAKE_SIMULATED; engine <= ORR_FAKE_THREADS; engine++) {
        struct machine machine;
        machine_open(&machine,
                     (struct orr_fake_cuda_options){.engine = (enum orr_fake_engine)engine});
        check(&machine);
        machine_close(&machine);
    }
}

static void check_epilogues(struct machine *machine) {
    static const enum orr_dtype narrow[] = {ORR_DTYPE_F32, ORR_DTYPE_F16, ORR_DTYPE_BF16};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(check_linear(machine, narrow[i], true, NULL), 1);
        assert_int_equal(check_linear(machine, narrow[i], true, "relu"), 1);
        assert_int_equal(check_linear(machine, narrow[i], false, "relu"), 1);
        assert_int_equal(check_linear(machine, narrow[i], true, "gelu"), 1);
    }
    assert_int_equal(check_matmul(machine, ORR_DTYPE_F32, shape1(N), true, false), 1);
    assert_int_equal(check_matmul(machine, ORR_DTYPE_F32, shape3(1, 1, N), false, false), 1);
}

static void epilogues_are_one_call(void **state) {
    (void)state;
    on_both_engines(check_epilogues);
}

static void check_behind(struct machine *machine) {
    /* Rounded before it is added; no row; needed twice; a type without epilogues. */
    assert_int_equal(check_matmul(machine, ORR_DTYPE_BF16, shape1(N), true, false), 0);
    assert_int_equal(check_matmul(machine, ORR_DTYPE_F32, shape1(1), true, false), 0);
    assert_int_equal(check_matmul(machine, ORR_DTYPE_F32, shape2(M, N), false, false), 0);
    assert_int_equal(check_matmul(machine, ORR_DTYPE_F32, shape1(N), true, true), 1);
    assert_int_equal(check_matmul(machine, ORR_DTYPE_F64, shape1(N), true, false), 0);
    assert_int_equal(check_linear(machine, ORR_DTYPE_F64, true, "relu"), 0);
    assert_int_equal(check_linear(machine, ORR_DTYPE_BF16, false, "gelu"), 0);
}

static void what_rounds_differently_runs_behind(void **state) {
    (void)state;
    on_both_engines(check_behind);
}

static void without_an_algorithm_kernels_do_it(void **state) {
    struct machine machine;
    (void)state;
    machine_open(&machine,
                 (struct orr_fake_cuda_options){.faults = "cublasLtMatmulAlgoGetHeuristic:1:15,"
                                                          "cublasLtMatmulAlgoGetHeuristic:2:15"});
    assert_int_equal(check_linear(&machine, ORR_DTYPE_BF16, true, "relu"), 0);
    machine_close(&machine);
}

/* ---- Failures ---- */

/* Every call of the two libraries fails in turn: one error that names it, and nothing is left. */
static void each_call_may_fail(void **state) {
    static const char *const calls[] = {
        "cublasCreate",
        "cublasSetStream",
        "cublasSetMathMode",
        "cublasSetWorkspace",
        "cublasLtCreate",
        "cublasLtMatmulDescCreate",
        "cublasLtMatmulDescSetAttribute",
        "cublasLtMatrixLayoutCreate",
        "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceSetAttribute",
        "cublasLtMatmulAlgoGetHeuristic",
        "cublasLtMatmul",
    };
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char plan[64];
        struct machine machine;
        struct orr_tensor_view x = tensor_make(ORR_DTYPE_F32, shape2(2, 4));
        struct orr_tensor_view weight = tensor_make(ORR_DTYPE_F32, shape2(4, 4));
        struct orr_tensor_view bias = tensor_make(ORR_DTYPE_F32, shape1(4));
        snprintf(plan, sizeof plan, "%s:1:14", calls[i]); /* CUBLAS_STATUS_INTERNAL_ERROR */
        machine_open(&machine, (struct orr_fake_cuda_options){.faults = plan});
        struct orr_tensor_view inputs[] = {upload(&machine, &x), upload(&machine, &weight),
                                           upload(&machine, &bias)};
        struct orr_tensor_view y = upload(&machine, &x);
        struct orr_attributes attributes = {0};
        struct orr_task task = {.kind = ORR_TASK_OPERATOR,
                                .call = {.op = orr_operator_find("linear"),
                                         .attributes = &attributes,
                                         .input_count = 3,
                                         .inputs = inputs,
                                         .outputs = &y}};
        assert_int_equal(orr__cuda_enqueue(&machine.queue, &task, &machine.error),
                         ORR_DEVICE_FAILED);
        assert_non_null(strstr(machine.error.text, calls[i]));
        assert_int_equal(orr__cuda_enqueue(&machine.queue, &task, &machine.error), ORR_OK);
        for (int j = 0; j < 3; j++)
            assert_int_equal(machine.api->rt.cudaFree(inputs[j].data), cudaSuccess);
        assert_int_equal(machine.api->rt.cudaFree(y.data), cudaSuccess);
        machine_close(&machine);
        tensor_free(&x);
        tensor_free(&weight);
        tensor_free(&bias);
    }
}

static void without_the_library_products_are_unavailable(void **state) {
    struct machine machine;
    struct orr__cuda_gemm gemm = {
        .dtype = ORR_DTYPE_F32, .result = ORR_DTYPE_F32, .m = 1, .n = 1, .k = 1};
    (void)state;
    machine_open(&machine, (struct orr_fake_cuda_options){.no_blas = true});
    assert_int_equal(orr__cuda_gemm(&machine.queue, &gemm, &machine.error), ORR_UNAVAILABLE);
    assert_non_null(strstr(machine.error.text, "cuBLAS"));
    machine_close(&machine);
}

static void arguments_that_are_none_are_refused(void **state) {
    struct machine machine;
    float one = 1;
    cublasHandle_t handle;
    (void)state;
    machine_open(&machine, (struct orr_fake_cuda_options){.engine = ORR_FAKE_SIMULATED});
    assert_int_equal(orr__cuda_blas_handle(&machine.queue, &handle, &machine.error), ORR_OK);
    const struct orr__cuda_blas_table *blas = &machine.api->blas;
    void *memory;
    assert_int_equal(machine.api->rt.cudaMalloc(&memory, 4096), cudaSuccess);
#define GEMM(m, lda, type, compute)                                                                \
    blas->cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, 2, 2, &one, memory, type, lda, memory, \
                       type, 2, &one, memory, type, 4, compute, CUBLAS_GEMM_DEFAULT)
    assert_int_equal(GEMM(4, 4, CUDA_R_32F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(GEMM(4, 3, CUDA_R_32F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(GEMM(-1, 4, CUDA_R_32F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(GEMM(4, 4, CUDA_R_64F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(GEMM(4, 4, CUDA_R_8I, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_NOT_SUPPORTED);
#undef GEMM
    assert_int_equal(machine.api->rt.cudaStreamSynchronize(machine.queue.stream), cudaSuccess);
    assert_int_equal(machine.api->rt.cudaFree(memory), cudaSuccess);
    machine_close(&machine);
}

static void memory_of_nobody_is_an_illegal_address(void **state) {
    struct machine machine;
    float values[16] = {0};
    struct orr__cuda_gemm gemm = {.dtype = ORR_DTYPE_F32,
                                  .result = ORR_DTYPE_F32,
                                  .m = 2,
                                  .n = 2,
                                  .k = 2,
                                  .a = values,
                                  .b = values,
                                  .c = values + 8};
    (void)state;
    machine_open(&machine, (struct orr_fake_cuda_options){.engine = ORR_FAKE_THREADS});
    assert_int_equal(orr__cuda_gemm(&machine.queue, &gemm, &machine.error), ORR_OK);
    assert_int_equal(machine.api->rt.cudaStreamSynchronize(machine.queue.stream),
                     cudaErrorIllegalAddress);
    orr__cuda_queue_clear(&machine.queue);
    orr_fake_cuda_close(&machine.fake);
    assert_int_equal(machine.memory.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epilogues_are_one_call),
        cmocka_unit_test(what_rounds_differently_runs_behind),
        cmocka_unit_test(without_an_algorithm_kernels_do_it),
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(without_the_library_products_are_unavailable),
        cmocka_unit_test(arguments_that_are_none_are_refused),
        cmocka_unit_test(memory_of_nobody_is_an_illegal_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
