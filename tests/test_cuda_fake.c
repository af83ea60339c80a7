/* Fake CUDA: what NVIDIA's documentation says of streams, events, memory, captures and graphs, over
 * both engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/support.h"

enum { COUNT = 1000 };

struct fake {
    struct memory_counting memory;
    struct orr_fake_cuda *cuda;
    const struct orr__cuda_runtime_table *rt;
    struct orr_error error;
};

static void open_with(struct fake *f, struct orr_fake_cuda_options options) {
    memory_counting_init(&f->memory, 0);
    f->error = (struct orr_error){0};
    assert_int_equal(orr_fake_cuda_open(&options, &f->memory.table, &f->cuda, &f->error), ORR_OK);
    f->rt = &orr_fake_cuda_api(f->cuda)->rt;
}

static void close_all(struct fake *f) {
    orr_fake_cuda_close(&f->cuda);
    assert_int_equal(f->memory.live, 0);
}

static void nothing_is_alive(struct fake *f) {
    struct orr_fake_cuda_census none = {0}, census = orr_fake_cuda_census(f->cuda);
    assert_memory_equal(&census, &none, sizeof none);
}

static cudaStream_t stream(struct fake *f) {
    cudaStream_t s;
    assert_int_equal(f->rt->cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0), 0);
    return s;
}

static cudaEvent_t event(struct fake *f) {
    cudaEvent_t e;
    assert_int_equal(f->rt->cudaEventCreateWithFlags(&e, cudaEventDefault), 0);
    return e;
}

/* --- the cases, each for both engines --- */

static void upload_and_download(struct fake *f) {
    int from[COUNT], to[COUNT];
    void *device;
    cudaStream_t s = stream(f);
    for (int i = 0; i < COUNT; i++)
        from[i] = i;
    assert_int_equal(f->rt->cudaMalloc(&device, sizeof from), 0);
    assert_int_equal((uintptr_t)device % 256, 0);
    assert_int_equal(f->rt->cudaMemcpyAsync(device, from, sizeof from, cudaMemcpyDefault, s), 0);
    assert_int_equal(f->rt->cudaMemcpyAsync(to, device, sizeof to, cudaMemcpyDeviceToHost, s), 0);
    assert_memory_equal(from, to, sizeof from);
    assert_int_equal(f->rt->cudaFree(device), 0);
    assert_int_equal(f->rt->cudaStreamDestroy(s), 0);
    nothing_is_alive(f);
}

static void both_engines(void (*run)(struct fake *f)) {
    struct fake f;
    for (int i = 0; i < 4; i++) {
        open_with(&f, (struct orr_fake_cuda_options){.engine = i % 2 ? ORR_FAKE_THREADS
                                                                     : ORR_FAKE_SIMULATED,
                                                     .seed = (uint64_t)i,
                                                     .jitter_ns = i < 2 ? 0 : 20000});
        run(&f);
        close_all(&f);
    }
}

static void what_is_uploaded_comes_back(void **state) {
    (void)state;
    both_engines(upload_and_download);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_uploaded_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
