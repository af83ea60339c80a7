/* Fake CUDA: what NVIDIA's documentation says of streams, events, memory, kernels and errors, over
 * both engines. Captures and graphs: test_cuda_fake_graph.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_fake_fixture.h"

enum { COUNT = 1000 };

/* --- streams --- */

struct log {
    int count;
    int entries[COUNT];
};

struct entry {
    struct log *log;
    int value;
};

static void write_entry(void *context) {
    const struct entry *entry = context;
    entry->log->entries[entry->log->count++] = entry->value;
}

static void run_fifo(struct fake *f) {
    static struct log log;
    static struct entry entries[COUNT];
    cudaStream_t s = fake_stream(f);
    log.count = 0;
    for (int i = 0; i < 100; i++) {
        entries[i] = (struct entry){&log, i};
        CALL(cudaLaunchHostFunc(s, write_entry, &entries[i]));
    }
    CALL(cudaStreamSynchronize(s));
    assert_int_equal(log.count, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(log.entries[i], i);
    CALL(cudaStreamDestroy(s));
    fake_nothing_is_alive(f);
}

static void a_stream_runs_its_work_in_order(void **state) {
    (void)state;
    fake_each(run_fifo);
}

static void run_many(struct fake *f) {
    static struct log log;
    static struct entry entry;
    cudaStream_t s = fake_stream(f);
    entry = (struct entry){&log, 0};
    log.count = 0;
    int count = f->engine == ORR_FAKE_THREADS ? 1100 : 5000; /* more than fit at once */
    for (int i = 0; i < count; i++) {
        CALL(cudaLaunchHostFunc(s, write_entry, &entry));
        if (i % 900 == 899) {
            CALL(cudaStreamSynchronize(s));
            log.count = 0;
        }
    }
    CALL(cudaDeviceSynchronize());
}

static void a_stream_takes_more_work_than_fits_into_it(void **state) {
    (void)state;
    struct fake f;
    for (int engine = 0; engine < 2; engine++) {
        fake_open(&f, (struct orr_fake_cuda_options){.engine = engine ? ORR_FAKE_THREADS
                                                                      : ORR_FAKE_SIMULATED});
        run_many(&f);
        fake_close(&f);
    }
}

static void run_query(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    CALL(cudaStreamQuery(s));
    fake_hold(f, s);
    REFUSED(cudaErrorNotReady, cudaStreamQuery(s));
    fake_let_go(f);
    CALL(cudaStreamSynchronize(s));
    CALL(cudaStreamQuery(s));
    CALL(cudaStreamDestroy(s));
    REFUSED(cudaErrorInvalidResourceHandle, cudaStreamQuery(s));
    REFUSED(cudaErrorInvalidResourceHandle, cudaStreamDestroy(s));
}

static void a_query_tells_whether_a_stream_is_idle(void **state) {
    (void)state;
    fake_each(run_query);
}

static void run_destroy(struct fake *f) {
    static struct log log;
    static struct entry entry;
    cudaStream_t s = fake_stream(f);
    log.count = 0;
    entry = (struct entry){&log, 7};
    fake_hold(f, s);
    CALL(cudaLaunchHostFunc(s, write_entry, &entry));
    CALL(cudaStreamDestroy(s));
    fake_let_go(f);
    CALL(cudaDeviceSynchronize());
    assert_int_equal(log.count, 1);
    fake_nothing_is_alive(f);
}

static void the_work_of_a_destroyed_stream_completes(void **state) {
    (void)state;
    fake_each(run_destroy);
}

static void run_stream_kinds(struct fake *f) {
    cudaStream_t s;
    int least = 9, greatest = 9;
    CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    CALL(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    REFUSED(cudaErrorNotSupported, cudaStreamCreateWithPriority(&s, cudaStreamDefault, 0));
    REFUSED(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(NULL));
    REFUSED(cudaErrorInvalidResourceHandle, cudaLaunchHostFunc(cudaStreamLegacy, write_entry, f));
}

static void streams_are_non_blocking_ones(void **state) {
    (void)state;
    fake_each(run_stream_kinds);
}

static cudaError_t said_inside;

static void call_cuda(void *context) {
    struct fake *f = context;
    said_inside = f->rt->cudaDeviceSynchronize();
}

static void run_inside(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    said_inside = cudaSuccess;
    CALL(cudaLaunchHostFunc(s, call_cuda, f));
    CALL(cudaStreamSynchronize(s));
    assert_int_equal(said_inside, cudaErrorNotPermitted);
    assert_int_equal(orr_fake_cuda_calls(f->cuda, "cudaDeviceSynchronize"), 0);
}

static void host_functions_must_not_call_cuda(void **state) {
    (void)state;
    fake_each(run_inside);
}

/* --- events --- */

static void run_record_at_call(struct fake *f) {
    cudaStream_t a = fake_stream(f), b = fake_stream(f), c = fake_stream(f);
    cudaEvent_t e = fake_event(f);
    /* What is recorded later does not hold up a wait ... */
    CALL(cudaEventRecord(e, a));
    CALL(cudaStreamWaitEvent(b, e, 0));
    fake_hold(f, a);
    CALL(cudaEventRecord(e, a));
    CALL(cudaStreamSynchronize(b));
    REFUSED(cudaErrorNotReady, cudaStreamQuery(a));
    REFUSED(cudaErrorNotReady, cudaEventQuery(e));
    /* ... nor let it go. */
    CALL(cudaStreamWaitEvent(b, e, 0));
    CALL(cudaEventRecord(e, c));
    CALL(cudaEventSynchronize(e));
    REFUSED(cudaErrorNotReady, cudaStreamQuery(b));
    fake_let_go(f);
    CALL(cudaStreamSynchronize(b));
    CALL(cudaStreamQuery(a));
}

static void a_wait_is_for_the_record_at_its_call(void **state) {
    (void)state;
    fake_each(run_record_at_call);
}

static void run_never_recorded(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    cudaEvent_t e = fake_event(f);
    CALL(cudaEventQuery(e));
    CALL(cudaEventSynchronize(e));
    CALL(cudaStreamWaitEvent(s, e, 0));
    CALL(cudaStreamSynchronize(s));
    CALL(cudaEventDestroy(e));
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventQuery(e));
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventDestroy(e));
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventRecord(NULL, s));
    CALL(cudaStreamDestroy(s));
    fake_nothing_is_alive(f);
}

static void a_never_recorded_event_is_no_obstacle(void **state) {
    (void)state;
    fake_each(run_never_recorded);
}

static void run_destroyed_event(struct fake *f) {
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    cudaEvent_t e = fake_event(f);
    fake_hold(f, a);
    CALL(cudaEventRecord(e, a));
    CALL(cudaStreamWaitEvent(b, e, 0));
    CALL(cudaEventDestroy(e));
    REFUSED(cudaErrorNotReady, cudaStreamQuery(b));
    fake_let_go(f);
    CALL(cudaStreamSynchronize(b));
}

static void a_destroyed_event_is_still_waited_for(void **state) {
    (void)state;
    fake_each(run_destroyed_event);
}

static void run_elapsed(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    cudaEvent_t a = fake_event(f), b = fake_event(f), untimed;
    struct orr__k_spin spin = {.ns = 1000000};
    float ms = -1;
    CALL(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, b));
    CALL(cudaEventRecord(a, s));
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, b));
    CALL(cudaEventRecord(untimed, s));
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, untimed));
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, s), 0);
    fake_hold(f, s);
    CALL(cudaEventRecord(b, s));
    REFUSED(cudaErrorNotReady, cudaEventElapsedTime(&ms, a, b));
    fake_let_go(f);
    CALL(cudaEventSynchronize(b));
    CALL(cudaEventElapsedTime(&ms, a, b));
    assert_true(ms >= 1);
    CALL(cudaEventElapsedTime(&ms, b, a));
    assert_true(ms <= -1);
}

static void elapsed_time_is_between_two_finished_timed_records(void **state) {
    (void)state;
    fake_each(run_elapsed);
}

/* --- memory --- */

static void run_copies(struct fake *f) {
    int from[COUNT], to[COUNT] = {0};
    void *device, *pinned, *other;
    cudaStream_t s = fake_stream(f);
    for (int i = 0; i < COUNT; i++)
        from[i] = i;
    CALL(cudaMalloc(&device, sizeof from));
    CALL(cudaMalloc(&other, sizeof from));
    CALL(cudaMallocHost(&pinned, sizeof from));
    assert_int_equal((uintptr_t)device % 256, 0);
    CALL(cudaMemcpyAsync(device, from, sizeof from, cudaMemcpyDefault, s));
    CALL(cudaMemcpyAsync(other, device, sizeof from, cudaMemcpyDeviceToDevice, s));
    CALL(cudaMemcpyAsync(pinned, other, sizeof from, cudaMemcpyDeviceToHost, s));
    CALL(cudaMemcpyAsync(to, pinned, sizeof from, cudaMemcpyHostToHost, s));
    assert_memory_equal(from, to, sizeof from); /* pageable: over when the call returns */
    CALL(cudaMemsetAsync(other, 0, 3 * sizeof(int), s));
    CALL(cudaMemcpyAsync(to, other, sizeof to, cudaMemcpyDefault, s));
    assert_int_equal(to[2], 0);
    assert_int_equal(to[3], 3);
    CALL(cudaMemcpyAsync(NULL, NULL, 0, cudaMemcpyDefault, s));
    CALL(cudaFree(device));
    CALL(cudaFree(other));
    CALL(cudaFree(NULL));
    CALL(cudaFreeHost(pinned));
    CALL(cudaStreamDestroy(s));
    fake_nothing_is_alive(f);
}

static void what_is_copied_arrives(void **state) {
    (void)state;
    fake_each(run_copies);
}

static void run_staged(struct fake *f) {
    int pageable = 1, result[2] = {0};
    int *pinned, *device;
    cudaStream_t s = fake_stream(f);
    CALL(cudaMallocHost((void **)&pinned, sizeof(int)));
    CALL(cudaMalloc((void **)&device, 2 * sizeof(int)));
    *pinned = 1;
    fake_hold(f, s);
    CALL(cudaMemcpyAsync(device, &pageable, sizeof(int), cudaMemcpyHostToDevice, s));
    CALL(cudaMemcpyAsync(device + 1, pinned, sizeof(int), cudaMemcpyHostToDevice, s));
    pageable = *pinned = 2;
    fake_let_go(f);
    CALL(cudaMemcpyAsync(result, device, sizeof result, cudaMemcpyDeviceToHost, s));
    assert_int_equal(result[0], 1);
    assert_int_equal(result[1], 2);
}

static void an_upload_takes_pageable_bytes_at_its_call_and_pinned_ones_later(void **state) {
    (void)state;
    fake_each(run_staged);
}

static void run_wrong_addresses(struct fake *f) {
    char *device, *freed, *pinned, host[8] = {0};
    cudaStream_t s = fake_stream(f);
    CALL(cudaMalloc((void **)&device, 8));
    CALL(cudaMalloc((void **)&freed, 8));
    CALL(cudaMallocHost((void **)&pinned, 8));
    REFUSED(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(device, host, 8, 7, s));
    REFUSED(cudaErrorInvalidValue, cudaMemcpyAsync(host, host, 8, cudaMemcpyHostToDevice, s));
    REFUSED(cudaErrorInvalidValue, cudaMemcpyAsync(device, device, 8, cudaMemcpyHostToDevice, s));
    REFUSED(cudaErrorInvalidValue, cudaMemcpyAsync(device + 1, host, 8, cudaMemcpyDefault, s));
    REFUSED(cudaErrorInvalidValue, cudaMemcpyAsync(NULL, host, 8, cudaMemcpyDefault, s));
    REFUSED(cudaErrorInvalidValue, cudaMemsetAsync(host, 0, 8, s));
    REFUSED(cudaErrorInvalidValue, cudaMemsetAsync(device, 0, 9, s));
    REFUSED(cudaErrorInvalidValue, cudaFree(device + 1));
    REFUSED(cudaErrorInvalidValue, cudaFree(pinned));
    REFUSED(cudaErrorInvalidValue, cudaFreeHost(device));
    REFUSED(cudaErrorInvalidValue, cudaFree(host));
    CALL(cudaFree(freed));
    REFUSED(cudaErrorInvalidValue, cudaFree(freed));
    REFUSED(cudaErrorInvalidValue, cudaFreeAsync(freed, s));
    REFUSED(cudaErrorInvalidValue, cudaMemcpyAsync(freed, host, 8, cudaMemcpyDefault, s));
    REFUSED(cudaErrorInvalidValue, cudaMemcpyAsync(host, freed, 8, cudaMemcpyDefault, s));
    REFUSED(cudaErrorInvalidValue, cudaMemsetAsync(freed, 0, 8, s));
    assert_int_equal(f->rt->cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(f->rt->cudaGetLastError(), cudaSuccess);
}

static void wrong_addresses_are_invalid_values(void **state) {
    (void)state;
    fake_each(run_wrong_addresses);
}

static void run_patterns(struct fake *f) {
    float *device;
    uint16_t fresh, freed;
    CALL(cudaMalloc((void **)&device, 5));
    assert_true(isnan(device[0]));
    memcpy(&fresh, device, sizeof fresh);
    memset(device, 0, 5);
    CALL(cudaFree(device));
    assert_true(isnan(device[0]));
    memcpy(&freed, device, sizeof freed);
    assert_int_equal(fresh & 0x7c00, 0x7c00); /* NaN as f16 too */
    assert_int_equal(freed & 0x7c00, 0x7c00);
    assert_int_not_equal(fresh, freed);
    /* Of a large block the ends, an odd number of bytes too. */
    const size_t large = (3 << 20) + 1;
    unsigned char *bytes;
    CALL(cudaMalloc((void **)&bytes, large));
    assert_int_equal(bytes[0] & bytes[1000000] & bytes[large - 2] & bytes[large - 1], 0xff);
    CALL(cudaFree(bytes));
    assert_int_equal(bytes[1], 0xff);
    assert_int_equal(bytes[large - 1], 0xde);
}

static void fresh_and_freed_memory_is_not_a_number(void **state) {
    (void)state;
    fake_each(run_patterns);
}

static void run_write_after_free(struct fake *f) {
    char *device;
    void *big[2];
    cudaStream_t s = fake_stream(f);
    CALL(cudaMalloc((void **)&device, 100));
    CALL(cudaFree(device));
    device[99] = 1;
    for (int i = 0; i < 2; i++) {
        CALL(cudaMalloc(&big[i], 5 << 20));
        CALL(cudaFree(big[i]));
    }
    (void)f->rt->cudaMalloc(&big[0], 1);
    REFUSED(cudaErrorIllegalAddress, cudaStreamSynchronize(s));
}

static void a_write_after_free_is_found_out(void **state) {
    (void)state;
    fake_each(run_write_after_free);
}

static void memory_of_a_gpu_is_limited(void **state) {
    (void)state;
    struct fake fake, *f = &fake;
    void *a, *b;
    size_t free_bytes, total;
    fake_open(f, (struct orr_fake_cuda_options){.memory_bytes = 1000, .gpu_count = 2});
    CALL(cudaMalloc(&a, 600));
    REFUSED(cudaErrorMemoryAllocation, cudaMalloc(&b, 401));
    assert_null(b);
    REFUSED(cudaErrorMemoryAllocation, cudaMalloc(&b, SIZE_MAX));
    CALL(cudaMemGetInfo(&free_bytes, &total));
    assert_int_equal(total, 1000);
    assert_int_equal(free_bytes, 400);
    CALL(cudaSetDevice(1));
    CALL(cudaMalloc(&b, 1000));
    CALL(cudaFree(a));
    CALL(cudaSetDevice(0));
    CALL(cudaMalloc(&a, 1000));
    CALL(cudaMalloc(&a, 0));
    assert_null(a);
    fake_close(f);
}

static cudaMemPool_t pool(struct fake *f, size_t max) {
    cudaMemPool_t p = NULL;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0},
                                     .maxSize = max};
    CALL(cudaMemPoolCreate(&p, &props));
    return p;
}

static uint64_t attribute(struct fake *f, cudaMemPool_t p, enum cudaMemPoolAttr which) {
    uint64_t value = 0;
    CALL(cudaMemPoolGetAttribute(p, which, &value));
    return value;
}

static void run_pools(struct fake *f) {
    void *a, *b;
    uint64_t all = UINT64_MAX;
    cudaStream_t s = fake_stream(f);
    cudaMemPool_t p = pool(f, 1000);
    CALL(cudaMemPoolSetAttribute(p, cudaMemPoolAttrReleaseThreshold, &all));
    assert_int_equal(attribute(f, p, cudaMemPoolAttrReleaseThreshold), all);
    CALL(cudaMallocFromPoolAsync(&a, 600, p, s));
    REFUSED(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&b, 401, p, s));
    assert_null(b);
    CALL(cudaMallocFromPoolAsync(&b, 400, p, s));
    assert_int_equal(attribute(f, p, cudaMemPoolAttrUsedMemCurrent), 1000);
    CALL(cudaFreeAsync(a, s));
    assert_int_equal(attribute(f, p, cudaMemPoolAttrUsedMemCurrent), 400);
    assert_int_equal(attribute(f, p, cudaMemPoolAttrUsedMemHigh), 1000);
    CALL(cudaFree(b)); /* waits for the device */
    CALL(cudaMemPoolDestroy(p));
    REFUSED(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&b, 4, p, s));
    CALL(cudaStreamDestroy(s));
    fake_nothing_is_alive(f);
}

static void a_pool_has_a_limit_and_counts(void **state) {
    (void)state;
    fake_each(run_pools);
}

/* --- kernels --- */

static void run_arguments(struct fake *f) {
    uint64_t *device, early[2] = {0}, late[2] = {0};
    cudaStream_t s = fake_stream(f);
    CALL(cudaMalloc((void **)&device, 2 * sizeof *device));
    CALL(cudaMemsetAsync(device, 0, 2 * sizeof *device, s));
    struct orr__k_stamp stamp = {.to = device};
    fake_hold(f, s);
    assert_int_equal(fake_launch(f, ORR__K_stamp, &stamp, s), 0);
    stamp.to = device + 1;
    fake_let_go(f);
    CALL(cudaMemcpyAsync(early, device, sizeof early, cudaMemcpyDefault, s));
    assert_true(early[0] > 0);
    assert_int_equal(early[1], 0);
    assert_int_equal(fake_launch(f, ORR__K_stamp, &stamp, s), 0);
    CALL(cudaMemcpyAsync(late, device, sizeof late, cudaMemcpyDefault, s));
    assert_true(late[1] > late[0]); /* the device's clock goes on */
}

static void arguments_are_copied_at_the_launch(void **state) {
    (void)state;
    fake_each(run_arguments);
}

static void run_wrong_launches(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    cudaKernel_t kernel;
    struct orr__k_spin spin = {0};
    void *arguments[] = {&spin};
    const dim3 one = {1, 1, 1}, none = {0, 1, 1}, block = {32, 1, 1}, large = {1025, 1, 1};
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, s), 0);
    const void *function = f->functions[ORR__K_spin];
    REFUSED(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&kernel, f->library, "no_such_kernel"));
    REFUSED(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(f, one, block, arguments, 0, s));
    REFUSED(cudaErrorInvalidConfiguration,
            cudaLaunchKernel(function, none, block, arguments, 0, s));
    REFUSED(cudaErrorInvalidConfiguration, cudaLaunchKernel(function, one, large, arguments, 0, s));
    REFUSED(cudaErrorInvalidValue, cudaLaunchKernel(function, one, block, NULL, 0, s));
    REFUSED(cudaErrorInvalidValue,
            cudaLaunchKernel(function, one, block, arguments, (48 << 10) + 1, s));
    CALL(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    CALL(cudaLaunchKernel(function, one, block, arguments, 100 << 10, s));
    REFUSED(cudaErrorInvalidValue,
            cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10));
    CALL(cudaDeviceSynchronize());
    CALL(cudaLibraryUnload(f->library));
    REFUSED(cudaErrorInvalidResourceHandle, cudaLibraryUnload(f->library));
    REFUSED(cudaErrorInvalidDeviceFunction,
            cudaLaunchKernel(function, one, block, arguments, 0, s));
}

static void launches_that_a_gpu_would_refuse(void **state) {
    (void)state;
    fake_each(run_wrong_launches);
}

static void an_image_begins_with_its_magic_number(void **state) {
    (void)state;
    struct fake fake, *f = &fake;
    static const unsigned char image[16] = {0x7f, 'E', 'L', 'F'};
    fake_open(f, (struct orr_fake_cuda_options){0});
    REFUSED(cudaErrorInvalidKernelImage,
            cudaLibraryLoadData(&f->library, image, NULL, NULL, 0, NULL, NULL, 0));
    fake_close(f);
}

/* --- several GPUs --- */

static void several_gpus_are_told_apart(void **state) {
    (void)state;
    struct fake fake, *f = &fake;
    struct orr__k_spin spin = {0};
    int count = 0, current = -1, can = -1;
    fake_open(f, (struct orr_fake_cuda_options){.engine = ORR_FAKE_THREADS, .gpu_count = 2});
    CALL(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    cudaStream_t on0 = fake_stream(f);
    cudaEvent_t of0 = fake_event(f);
    REFUSED(cudaErrorInvalidDevice, cudaSetDevice(2));
    CALL(cudaSetDevice(1));
    CALL(cudaGetDevice(&current));
    assert_int_equal(current, 1);
    cudaStream_t on1 = fake_stream(f);
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, on1), 0);
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, on0), cudaErrorInvalidResourceHandle);
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventRecord(of0, on1));
    CALL(cudaEventRecord(of0, on0));
    CALL(cudaStreamWaitEvent(on1, of0, 0)); /* across GPUs */
    CALL(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    const struct cudaMemPoolProps props = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = 1}};
    struct cudaMemAccessDesc access = {.location = {.type = cudaMemLocationTypeDevice, .id = 0},
                                       .flags = cudaMemAccessFlagsProtReadWrite};
    cudaMemPool_t pool;
    CALL(cudaMemPoolCreate(&pool, &props));
    CALL(cudaMemPoolSetAccess(pool, &access, 1));
    access.location.id = 2;
    REFUSED(cudaErrorInvalidDevice, cudaMemPoolSetAccess(pool, &access, 1));
    access = (struct cudaMemAccessDesc){.location = props.location};
    REFUSED(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, &access, 1));
    CALL(cudaMemPoolDestroy(pool));
    CALL(cudaDeviceSynchronize());
    fake_close(f);
}

/* --- errors --- */

static void a_planned_error_comes_at_its_call(void **state) {
    (void)state;
    struct fake fake, *f = &fake;
    void *p;
    fake_open(f, (struct orr_fake_cuda_options){.faults = "cudaMalloc:2:2,cudaSetDevice:1:46"});
    CALL(cudaMalloc(&p, 8));
    REFUSED(cudaErrorMemoryAllocation, cudaMalloc(&p, 8));
    CALL(cudaMalloc(&p, 8));
    REFUSED(cudaErrorDevicesUnavailable, cudaSetDevice(0));
    CALL(cudaSetDevice(0));
    assert_int_equal(f->rt->cudaGetLastError(), cudaErrorDevicesUnavailable);
    assert_int_equal(f->rt->cudaGetLastError(), cudaSuccess);
    assert_int_equal(orr_fake_cuda_calls(f->cuda, "cudaMalloc"), 3);
    assert_int_equal(orr_fake_cuda_calls(f->cuda, "no function"), 0);
    fake_close(f);
}

static void run_behind(void *context) {
    ++*(int *)context;
}

static void run_sticky(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    cudaEvent_t e = fake_event(f);
    void *p, *pinned;
    int ran = 0, count = 0;
    CALL(cudaMalloc(&p, 8));
    CALL(cudaMallocHost(&pinned, 8));
    CALL(cudaMemsetAsync(p, 0, 8, s));
    REFUSED(cudaErrorIllegalAddress, cudaMemsetAsync(p, 0, 8, s));
    REFUSED(cudaErrorIllegalAddress, cudaLaunchHostFunc(s, run_behind, &ran));
    REFUSED(cudaErrorIllegalAddress, cudaStreamSynchronize(s));
    REFUSED(cudaErrorIllegalAddress, cudaMalloc(&pinned, 8));
    CALL(cudaGetDeviceCount(&count));
    assert_string_equal(f->rt->cudaGetErrorName(cudaErrorIllegalAddress),
                        "cudaErrorIllegalAddress");
    for (int i = 0; i < 2; i++)
        assert_int_equal(f->rt->cudaGetLastError(), cudaErrorIllegalAddress);
    /* Cleaning up works all the same, and says so. */
    REFUSED(cudaErrorIllegalAddress, cudaFree(p));
    REFUSED(cudaErrorIllegalAddress, cudaFreeHost(pinned));
    REFUSED(cudaErrorIllegalAddress, cudaEventDestroy(e));
    REFUSED(cudaErrorIllegalAddress, cudaStreamDestroy(s));
    assert_int_equal(ran, 0);
    fake_nothing_is_alive(f);
}

static void run_found_by_device(struct fake *f) {
    cudaStream_t s = fake_stream(f);
    struct orr__k_spin spin = {.ns = 1000};
    int ran = 0;
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, s), 0);
    CALL(cudaStreamSynchronize(s));
    fake_hold(f, s);
    if (f->engine == ORR_FAKE_THREADS) /* the hold of the other one is a launch itself */
        assert_int_equal(fake_launch(f, ORR__K_spin, &spin, s), 0);
    CALL(cudaLaunchHostFunc(s, run_behind, &ran));
    fake_let_go(f);
    REFUSED(cudaErrorAssert, cudaStreamSynchronize(s));
    REFUSED(cudaErrorAssert, cudaStreamQuery(s));
    assert_int_equal(ran, 0);
}

static void with_faults(const char *faults, void (*run)(struct fake *f)) {
    for (int engine = 0; engine < 2; engine++) {
        struct fake f;
        fake_open(&f,
                  (struct orr_fake_cuda_options){
                      .engine = engine ? ORR_FAKE_THREADS : ORR_FAKE_SIMULATED, .faults = faults});
        run(&f);
        fake_close(&f);
    }
}

static void a_sticky_error_is_returned_ever_after(void **state) {
    (void)state;
    with_faults("cudaMemsetAsync:2:700!", run_sticky);
}

static void an_error_of_the_device_is_heard_of_later(void **state) {
    (void)state;
    with_faults("spin:2:710", run_found_by_device);
}

static void plans_that_are_none(void **state) {
    (void)state;
    static const char *const plans[] = {"cudaMaloc:1:2",
                                        "cudaMalloc",
                                        "cudaMalloc:0:2",
                                        "cudaMalloc:1:0",
                                        "cudaMalloc:1:2?",
                                        "cudaMalloc:1",
                                        "cudaMalloc:-1:2",
                                        ":1:2",
                                        "cudaMalloc:1:2;cudaFree:1:2",
                                        ",",
                                        "cudaMalloc:1:99999999999"};
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct orr_fake_cuda *cuda;
        struct orr_error error = {0};
        struct orr_fake_cuda_options options = {.faults = plans[i]};
        assert_int_equal(orr_fake_cuda_open(&options, &memory, &cuda, &error), ORR_INVALID);
        assert_non_null(strstr(error.text, "fault plan"));
        assert_null(cuda);
    }
    struct orr_fake_cuda *cuda;
    struct orr_error error = {0};
    struct orr_fake_cuda_options options = {.faults = "cublasCreate:1:1,cublasCreate_v2:2:3!"};
    assert_int_equal(orr_fake_cuda_open(&options, &memory, &cuda, &error), ORR_OK);
    orr_fake_cuda_close(&cuda);
}

static void machines_without_a_gpu_to_run_on(void **state) {
    (void)state;
    static const struct {
        int driver, code, version;
    } machines[] = {{ORR_FAKE_NO_DRIVER, cudaErrorInsufficientDriver, 0},
                    {ORR_FAKE_STUB_DRIVER, cudaErrorStubLibrary, 0},
                    {12040, cudaErrorInsufficientDriver, 12040},
                    {ORR_FAKE_NO_GPU, cudaErrorNoDevice, CUDART_VERSION}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct fake fake, *f = &fake;
        int value = -1;
        fake_open(f, (struct orr_fake_cuda_options){.driver_version = machines[i].driver});
        CALL(cudaRuntimeGetVersion(&value));
        assert_int_equal(value, CUDART_VERSION);
        CALL(cudaDriverGetVersion(&value));
        assert_int_equal(value, machines[i].version);
        REFUSED(machines[i].code, cudaGetDeviceCount(&value));
        assert_int_equal(value, 0);
        REFUSED(machines[i].code, cudaSetDevice(0));
        assert_int_equal(f->rt->cudaGetLastError(), machines[i].code);
        fake_close(f);
    }
}

static void one_fake_at_a_time(void **state) {
    (void)state;
    struct fake f;
    struct orr_fake_cuda *second;
    struct orr_fake_cuda_options options = {0};
    fake_open(&f, options);
    assert_int_equal(orr_fake_cuda_open(&options, &f.memory.table, &second, &f.error), ORR_INVALID);
    assert_null(second);
    fake_close(&f);
    orr_fake_cuda_close(&second);
}

/* --- time --- */

static void virtual_time_is_exact(void **state) {
    (void)state;
    struct fake fake, *f = &fake;
    struct orr__k_spin spin = {.ns = 1000000};
    float ms;
    fake_open(f, (struct orr_fake_cuda_options){.engine = ORR_FAKE_SIMULATED});
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    cudaEvent_t begin = fake_event(f), end_a = fake_event(f), end_b = fake_event(f);
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, a), 0);
    CALL(cudaStreamSynchronize(a));
    CALL(cudaEventRecord(begin, a));
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, a), 0);
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, b), 0);
    CALL(cudaEventRecord(end_a, a));
    CALL(cudaEventRecord(end_b, b));
    CALL(cudaStreamWaitEvent(a, end_b, 0));
    CALL(cudaStreamSynchronize(a));
    /* Two calls of 2000 ns, 2000 ns from a call to its start; 2000 + 200 ns besides the spinning:
     * side by side, one call later. */
    CALL(cudaEventElapsedTime(&ms, begin, end_a));
    assert_true(ms == 1.0062f);
    CALL(cudaEventElapsedTime(&ms, begin, end_b));
    assert_true(ms == 1.0082f);
    int64_t now = orr_fake_cuda_api(f->cuda)->now(orr_fake_cuda_api(f->cuda));
    orr_fake_cuda_api(f->cuda)->rest(orr_fake_cuda_api(f->cuda), 5);
    assert_int_equal(orr_fake_cuda_api(f->cuda)->now(orr_fake_cuda_api(f->cuda)), now + 5);
    fake_close(f);
}

/* --- what is left, what is missing --- */

static void use_everything(struct fake *f, bool clean) {
    void *device = NULL, *pinned = NULL, *pooled = NULL;
    cudaStream_t a = NULL, b = NULL;
    cudaEvent_t e = NULL;
    cudaMemPool_t p = NULL;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    (void)f->rt->cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, 0);
    (void)f->rt->cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, 0);
    (void)f->rt->cudaEventCreateWithFlags(&e, 0);
    (void)f->rt->cudaMalloc(&device, 1000);
    (void)f->rt->cudaMallocHost(&pinned, 1000);
    (void)f->rt->cudaMemPoolCreate(&p, &props);
    (void)f->rt->cudaMallocFromPoolAsync(&pooled, 1000, p, a);
    (void)f->rt->cudaMemsetAsync(device, 0, 1000, a);
    if (f->rt->cudaEventRecord(e, a) != cudaSuccess ||
        f->rt->cudaStreamWaitEvent(b, e, 0) != cudaSuccess)
        (void)f->rt->cudaDeviceSynchronize(); /* else b would race with a */
    (void)f->rt->cudaMemcpyAsync(pinned, device, 1000, cudaMemcpyDeviceToHost, b);
    (void)f->rt->cudaMemcpyAsync(device, &props, sizeof props, cudaMemcpyHostToDevice, b);
    if (!clean)
        return;
    (void)f->rt->cudaFreeAsync(pooled, a);
    (void)f->rt->cudaFree(device);
    (void)f->rt->cudaFreeHost(pinned);
    (void)f->rt->cudaMemPoolDestroy(p);
    (void)f->rt->cudaEventDestroy(e);
    (void)f->rt->cudaStreamDestroy(a);
    (void)f->rt->cudaStreamDestroy(b);
}

static void run_leaving(struct fake *f) {
    use_everything(f, false);
    struct orr_fake_cuda_census census = orr_fake_cuda_census(f->cuda);
    assert_int_equal(census.allocations, 2);
    assert_int_equal(census.host_allocations, 1);
    assert_int_equal(census.streams, 2);
    assert_int_equal(census.events, 1);
    assert_int_equal(census.pools, 1);
}

static void what_is_left_undone_is_counted_and_freed(void **state) {
    (void)state;
    fake_each(run_leaving);
}

static void short_of_memory(struct memory_counting *memory, void *context) {
    struct fake f = {0};
    struct orr_fake_cuda_options options = {.engine = *(enum orr_fake_engine *)context};
    if (orr_fake_cuda_open(&options, &memory->table, &f.cuda, &f.error) != ORR_OK) {
        assert_int_equal(f.error.status, ORR_NO_MEMORY);
        return;
    }
    f.rt = &orr_fake_cuda_api(f.cuda)->rt;
    use_everything(&f, true);
    struct orr_fake_cuda_census none = {0}, census = orr_fake_cuda_census(f.cuda);
    /* A free in a stream needs memory; without it, what it should have freed is still there. */
    assert_true(census.allocations <= 1);
    census.allocations = 0;
    assert_memory_equal(&census, &none, sizeof none);
    orr_fake_cuda_close(&f.cuda);
}

static void each_request_for_memory_may_fail(void **state) {
    (void)state;
    for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++)
        assert_true(fail_each_request(short_of_memory, &engine) > 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_runs_its_work_in_order),
        cmocka_unit_test(a_stream_takes_more_work_than_fits_into_it),
        cmocka_unit_test(a_query_tells_whether_a_stream_is_idle),
        cmocka_unit_test(the_work_of_a_destroyed_stream_completes),
        cmocka_unit_test(streams_are_non_blocking_ones),
        cmocka_unit_test(host_functions_must_not_call_cuda),
        cmocka_unit_test(a_wait_is_for_the_record_at_its_call),
        cmocka_unit_test(a_never_recorded_event_is_no_obstacle),
        cmocka_unit_test(a_destroyed_event_is_still_waited_for),
        cmocka_unit_test(elapsed_time_is_between_two_finished_timed_records),
        cmocka_unit_test(what_is_copied_arrives),
        cmocka_unit_test(an_upload_takes_pageable_bytes_at_its_call_and_pinned_ones_later),
        cmocka_unit_test(wrong_addresses_are_invalid_values),
        cmocka_unit_test(fresh_and_freed_memory_is_not_a_number),
        cmocka_unit_test(a_write_after_free_is_found_out),
        cmocka_unit_test(memory_of_a_gpu_is_limited),
        cmocka_unit_test(a_pool_has_a_limit_and_counts),
        cmocka_unit_test(arguments_are_copied_at_the_launch),
        cmocka_unit_test(launches_that_a_gpu_would_refuse),
        cmocka_unit_test(an_image_begins_with_its_magic_number),
        cmocka_unit_test(several_gpus_are_told_apart),
        cmocka_unit_test(a_planned_error_comes_at_its_call),
        cmocka_unit_test(a_sticky_error_is_returned_ever_after),
        cmocka_unit_test(an_error_of_the_device_is_heard_of_later),
        cmocka_unit_test(plans_that_are_none),
        cmocka_unit_test(machines_without_a_gpu_to_run_on),
        cmocka_unit_test(one_fake_at_a_time),
        cmocka_unit_test(virtual_time_is_exact),
        cmocka_unit_test(what_is_left_undone_is_counted_and_freed),
        cmocka_unit_test(each_request_for_memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
