/* Fake CUDA: random calls with handles of all kinds, good, destroyed and null, in any state of
 * captures. Nothing crashes or hangs, no code is one that CUDA does not have for it, and nothing
 * leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_fake_fixture.h"

enum { THINGS = 6, CALLS = 300, RUNS = 150, BYTES = 40 };

struct pool {
    cudaStream_t streams[THINGS];
    cudaEvent_t events[THINGS];
    cudaGraph_t graphs[THINGS];
    cudaGraphExec_t execs[THINGS];
    void *memory[THINGS];
};

static void count_one(void *context) {
    atomic_fetch_add((atomic_int *)context, 1);
}

static cudaError_t call(struct fake *f, struct pool *p, uint64_t *state, atomic_int *count) {
    const struct orr__cuda_runtime_table *rt = f->rt;
    size_t i = random_below(state, THINGS), k = random_below(state, THINGS), nodes = 0;
    float ms;
    struct orr__k_spin spin = {.ns = 1000};
    enum cudaStreamCaptureStatus status;
    switch (random_below(state, 27)) {
    case 0: return rt->cudaStreamCreateWithPriority(&p->streams[i], cudaStreamNonBlocking, 0);
    case 1: return rt->cudaStreamDestroy(p->streams[i]);
    case 2: return rt->cudaStreamQuery(p->streams[i]);
    case 3: return rt->cudaStreamSynchronize(p->streams[i]);
    case 4: return rt->cudaDeviceSynchronize();
    case 5: return rt->cudaEventCreateWithFlags(&p->events[i], (unsigned)random_below(state, 4));
    case 6: return rt->cudaEventDestroy(p->events[i]);
    case 7: return rt->cudaEventQuery(p->events[i]);
    case 8: return rt->cudaEventSynchronize(p->events[i]);
    case 9: return rt->cudaEventElapsedTime(&ms, p->events[i], p->events[k]);
    case 10:
    case 11:
    case 12: return rt->cudaEventRecord(p->events[i], p->streams[k]);
    case 13: return rt->cudaEventRecordWithFlags(p->events[i], p->streams[k], 1);
    case 14:
    case 15:
    case 16: return rt->cudaStreamWaitEvent(p->streams[k], p->events[i], 0);
    case 17: return rt->cudaStreamBeginCapture(p->streams[i], cudaStreamCaptureModeRelaxed);
    case 18: return rt->cudaStreamEndCapture(p->streams[i], &p->graphs[k]);
    case 19: return rt->cudaStreamIsCapturing(p->streams[i], &status);
    case 20: return rt->cudaGraphInstantiate(&p->execs[k], p->graphs[i], 0);
    case 21: return rt->cudaGraphLaunch(p->execs[i], p->streams[k]);
    case 22:
        return random_below(state, 2) ? rt->cudaGraphExecDestroy(p->execs[i])
                                      : rt->cudaGraphDestroy(p->graphs[i]);
    case 23: return rt->cudaLaunchHostFunc(p->streams[i], count_one, count);
    case 24: return fake_launch(f, ORR__K_spin, &spin, p->streams[i]);
    case 25: return rt->cudaMemsetAsync(p->memory[i], 1, BYTES, p->streams[k]);
    default:
        nodes = random_below(state, 3);
        return nodes == 0   ? rt->cudaMalloc(&p->memory[i], BYTES)
               : nodes == 1 ? rt->cudaFree(p->memory[i])
                            : rt->cudaGraphGetNodes(p->graphs[i], NULL, &nodes);
    }
}

static bool is_expected(cudaError_t code) {
    return code == cudaSuccess || code == cudaErrorInvalidValue || code == cudaErrorNotReady ||
           code == cudaErrorInvalidResourceHandle || code == cudaErrorIllegalState ||
           (code >= cudaErrorStreamCaptureUnsupported && code <= cudaErrorCapturedEvent);
}

static void any_calls_get_an_answer(void **unused) {
    (void)unused;
    uint64_t seed = random_seed(11);
    for (uint64_t i = 0; i < RUNS; i++) {
        struct fake f;
        struct pool p = {0};
        atomic_int count = 0;
        uint64_t state = seed + i + 1;
        fake_open(&f, (struct orr_fake_cuda_options){
                          .engine = i % 3 ? ORR_FAKE_SIMULATED : ORR_FAKE_THREADS, .seed = i});
        for (int k = 0; k < CALLS; k++) {
            cudaError_t code = call(&f, &p, &state, &count);
            if (!is_expected(code))
                fail_msg("run %d, call %d: code %d", (int)i, k, (int)code);
        }
        fake_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_calls_get_an_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
