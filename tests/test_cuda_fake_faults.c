/* Fake CUDA: every entry point of the CUDA runtime fails in turn, once and for good. A program that
 * goes on all the same, and destroys what it has made, leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_fake_fixture.h"

static const char *const functions[] = {
#define NAME(function) #function,
    ORR__CUDA_RUNTIME_LIST(NAME)
#undef NAME
};

enum { FUNCTIONS = sizeof functions / sizeof *functions, BYTES = 64, CODE = 719 };

/* What the program has made; NULL: not, or not any more. */
struct things {
    cudaStream_t a, b;
    cudaEvent_t e;
    void *device, *pinned, *pooled;
    cudaMemPool_t pool;
    cudaLibrary_t library;
    cudaKernel_t spin;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};

/* Calls, and counts the failures. */
#define TRY(call) (failures += (rt->call) != cudaSuccess)

static int look_around(const struct orr__cuda_runtime_table *rt) {
    int failures = 0, number;
    size_t free_bytes, total;
    struct cudaDeviceProp properties;
    TRY(cudaRuntimeGetVersion(&number));
    TRY(cudaDriverGetVersion(&number));
    TRY(cudaGetDeviceCount(&number));
    TRY(cudaSetDevice(0));
    TRY(cudaGetDevice(&number));
    TRY(cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0));
    TRY(cudaGetDeviceProperties(&properties, 0));
    TRY(cudaDeviceCanAccessPeer(&number, 0, 1));
    TRY(cudaDeviceGetStreamPriorityRange(&number, &number));
    TRY(cudaMemGetInfo(&free_bytes, &total));
    failures += strcmp(rt->cudaGetErrorName(cudaSuccess), "cudaSuccess") != 0;
    failures += strcmp(rt->cudaGetErrorString(cudaSuccess), "no error") != 0;
    return failures;
}

static int make(const struct orr__cuda_runtime_table *rt, struct things *t) {
    static const uint32_t image[4] = {0xBA55ED50};
    int failures = 0;
    uint64_t threshold = UINT64_MAX;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    TRY(cudaStreamCreateWithPriority(&t->a, cudaStreamNonBlocking, 0));
    TRY(cudaStreamCreateWithPriority(&t->b, cudaStreamNonBlocking, 0));
    TRY(cudaEventCreateWithFlags(&t->e, cudaEventDefault));
    TRY(cudaMalloc(&t->device, BYTES));
    TRY(cudaMallocHost(&t->pinned, BYTES));
    TRY(cudaMemPoolCreate(&t->pool, &props));
    TRY(cudaMemPoolSetAttribute(t->pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    TRY(cudaMemPoolGetAttribute(t->pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    TRY(cudaMemPoolSetAccess(t->pool, NULL, 0));
    TRY(cudaMallocFromPoolAsync(&t->pooled, BYTES, t->pool, t->a));
    TRY(cudaLibraryLoadData(&t->library, image, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cudaLibraryGetKernel(&t->spin, t->library, "spin"));
    TRY(cudaFuncSetAttribute((const void *)t->spin, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             1000));
    return failures;
}

static void count_one(void *context) {
    ++*(int *)context;
}

static int run(const struct orr__cuda_runtime_table *rt, struct things *t, int *ran) {
    int failures = 0;
    float ms;
    enum cudaStreamCaptureStatus status;
    struct orr__k_spin spin = {.ns = 10};
    void *arguments[] = {&spin};
    size_t count = 0;
    TRY(cudaLaunchKernel((const void *)t->spin, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0,
                         t->a));
    TRY(cudaMemsetAsync(t->device, 0, BYTES, t->a));
    TRY(cudaEventRecord(t->e, t->a));
    TRY(cudaStreamWaitEvent(t->b, t->e, 0));
    TRY(cudaStreamSynchronize(t->a));
    TRY(cudaMemcpyAsync(t->pinned, t->device, BYTES, cudaMemcpyDeviceToHost, t->b));
    TRY(cudaLaunchHostFunc(t->b, count_one, ran));
    TRY(cudaDeviceSynchronize());
    TRY(cudaStreamQuery(t->a));
    TRY(cudaEventQuery(t->e));
    TRY(cudaEventSynchronize(t->e));
    TRY(cudaEventRecordWithFlags(t->e, t->a, cudaEventRecordDefault));
    TRY(cudaDeviceSynchronize());
    TRY(cudaEventElapsedTime(&ms, t->e, t->e));
    TRY(cudaStreamBeginCapture(t->a, cudaStreamCaptureModeThreadLocal));
    TRY(cudaStreamIsCapturing(t->a, &status));
    TRY(cudaMemsetAsync(t->device, 0, BYTES, t->a));
    TRY(cudaStreamEndCapture(t->a, &t->graph));
    TRY(cudaGraphGetNodes(t->graph, NULL, &count));
    TRY(cudaGraphInstantiate(&t->exec, t->graph, 0));
    TRY(cudaGraphUpload(t->exec, t->a));
    TRY(cudaGraphLaunch(t->exec, t->a));
    return failures;
}

static int destroy(const struct orr__cuda_runtime_table *rt, struct things *t) {
    int failures = 0;
    if (t->exec)
        TRY(cudaGraphExecDestroy(t->exec));
    if (t->graph)
        TRY(cudaGraphDestroy(t->graph));
    if (t->pooled)
        TRY(cudaFreeAsync(t->pooled, t->a));
    TRY(cudaStreamSynchronize(t->a));
    TRY(cudaFree(t->device));
    TRY(cudaFreeHost(t->pinned));
    if (t->pool)
        TRY(cudaMemPoolDestroy(t->pool));
    if (t->library)
        TRY(cudaLibraryUnload(t->library));
    if (t->e)
        TRY(cudaEventDestroy(t->e));
    if (t->a)
        TRY(cudaStreamDestroy(t->a));
    if (t->b)
        TRY(cudaStreamDestroy(t->b));
    TRY(cudaGetLastError());
    return failures;
}

/* Runs the program with a plan; returns how many calls failed. */
static int run_with(const char *faults, enum orr_fake_engine engine, const char *function) {
    struct fake f;
    struct things t = {0};
    int ran = 0;
    fake_open(&f,
              (struct orr_fake_cuda_options){.engine = engine, .gpu_count = 2, .faults = faults});
    int failures = look_around(f.rt) + make(f.rt, &t) + run(f.rt, &t, &ran) + destroy(f.rt, &t);
    assert_true(!function || orr_fake_cuda_calls(f.cuda, function) > 0);
    /* Without its stream a free in stream order has no place to happen. */
    if (t.a && t.b)
        fake_nothing_is_alive(&f);
    fake_close(&f);
    return failures;
}

static void nothing_fails_without_a_plan(void **state) {
    (void)state;
    for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++) {
        assert_int_equal(run_with(NULL, engine, NULL), 0);
        for (size_t i = 0; i < FUNCTIONS; i++)
            assert_int_equal(run_with("cublasCreate:1:1", engine, functions[i]), 0);
    }
}

static void each_entry_point_fails(const char *format) {
    for (size_t i = 0; i < FUNCTIONS; i++) {
        char faults[100];
        snprintf(faults, sizeof faults, format, functions[i], CODE);
        for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++) {
            if (run_with(faults, engine, functions[i]) == 0)
                fail_msg("%s: nothing failed", faults);
        }
    }
}

static void each_entry_point_fails_once(void **state) {
    (void)state;
    each_entry_point_fails("%s:1:%d");
}

static void each_entry_point_fails_for_good(void **state) {
    (void)state;
    each_entry_point_fails("%s:1:%d!");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails_without_a_plan),
        cmocka_unit_test(each_entry_point_fails_once),
        cmocka_unit_test(each_entry_point_fails_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
