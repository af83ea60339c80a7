#include "tests/cuda_fake_fixture.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/images.h"

enum { HOLD_NS = 10000000, JITTER_NS = 20000 };

void fake_open(struct fake *f, struct orr_fake_cuda_options options) {
    memset(f, 0, sizeof *f);
    memory_counting_init(&f->memory, 0);
    f->engine = options.engine;
    assert_int_equal(orr_fake_cuda_open(&options, &f->memory.table, &f->cuda, &f->error), ORR_OK);
    f->rt = &orr_fake_cuda_api(f->cuda)->rt;
}

void fake_close(struct fake *f) {
    orr_fake_cuda_close(&f->cuda);
    assert_null(f->cuda);
    assert_int_equal(f->memory.live, 0);
}

void fake_nothing_is_alive(struct fake *f) {
    struct orr_fake_cuda_census none = {.libraries = f->library != NULL};
    struct orr_fake_cuda_census census = orr_fake_cuda_census(f->cuda);
    assert_memory_equal(&census, &none, sizeof none);
}

void fake_each(void (*run)(struct fake *f)) {
    for (int i = 0; i < 4; i++) {
        struct fake f;
        fake_open(&f, (struct orr_fake_cuda_options){.engine = i % 2 ? ORR_FAKE_THREADS
                                                                     : ORR_FAKE_SIMULATED,
                                                     .seed = (uint64_t)i,
                                                     .jitter_ns = i < 2 ? 0 : JITTER_NS});
        run(&f);
        fake_close(&f);
    }
}

cudaStream_t fake_stream(struct fake *f) {
    cudaStream_t stream = NULL;
    CALL(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    assert_non_null(stream);
    return stream;
}

cudaEvent_t fake_event(struct fake *f) {
    cudaEvent_t event = NULL;
    CALL(cudaEventCreateWithFlags(&event, cudaEventDefault));
    assert_non_null(event);
    return event;
}

static const void *function_of(struct fake *f, enum orr__cuda_kernel kernel) {
    static const char *const names[ORR__K_COUNT] = {
#define NAME(family, kernel, type) #kernel,
        ORR__CUDA_KERNEL_LIST(NAME)
#undef NAME
    };
    if (!f->library) {
        size_t bytes;
        const void *image = orr__cuda_image(ORR__FAMILY_basic, &bytes);
        CALL(cudaLibraryLoadData(&f->library, image, NULL, NULL, 0, NULL, NULL, 0));
    }
    if (!f->functions[kernel]) {
        cudaKernel_t function;
        CALL(cudaLibraryGetKernel(&function, f->library, names[kernel]));
        f->functions[kernel] = (const void *)function;
    }
    return f->functions[kernel];
}

cudaError_t fake_launch(struct fake *f, enum orr__cuda_kernel kernel, const void *argument,
                        cudaStream_t stream) {
    void *arguments[] = {(void *)argument};
    const void *function = function_of(f, kernel);
    return f->rt->cudaLaunchKernel(function, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0,
                                   stream);
}

static void wait_at_gate(void *context) {
    struct fake *f = context;
    while (!atomic_load(&f->gate))
        sched_yield();
}

void fake_hold(struct fake *f, cudaStream_t stream) {
    struct orr__k_spin spin = {.ns = HOLD_NS};
    atomic_store(&f->gate, 0);
    if (f->engine == ORR_FAKE_THREADS)
        CALL(cudaLaunchHostFunc(stream, wait_at_gate, f));
    else
        assert_int_equal(fake_launch(f, ORR__K_spin, &spin, stream), cudaSuccess);
}

void fake_let_go(struct fake *f) {
    atomic_store(&f->gate, 1);
}
