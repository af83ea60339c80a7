/* Emulated collectives of the CUDA backend against runtime/collective.h, over a table of entry
 * points that runs everything at once: the kernels' and copies' results, and the order of calls.
 * That streams really wait for each other is shown over the fake devices. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/collective.h"
#include "runtime/cuda/collective.h"
#include "sim/fake_devices/cuda/emulate.h"
#include "tests/cuda_collective_cases.h"
#include "tests/support.h"

enum { DEVICES_MAX = CASE_RANKS_MAX, SM_COUNT = 3, LOG_BYTES = 1024 };

/* ---- a table that runs everything at once ---- */

struct machine;

struct stream {
    struct machine *machine;
    uint32_t index, gpu;
};

/* CUDA's calls have no context argument: those without a stream find the machine here. */
static struct machine *machine_of_calls;

struct machine {
    struct memory_counting memory;
    struct orr__cuda_api api;
    struct orr__cuda_code code;
    struct orr_emulation emulation;
    struct stream streams[DEVICES_MAX];
    struct orr__cuda_queue queues[DEVICES_MAX];
    uint32_t gpus[DEVICES_MAX];
    struct orr_cuda_options options;
    struct orr__cuda_collectives *collectives;
    uint32_t current;        /* GPU */
    uint64_t calls, fail_at; /* this call fails; 0: none */
    int64_t live;            /* events and allocations */
    uint64_t launches;
    char log[LOG_BYTES];
};

static cudaError_t called(struct machine *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static cudaError_t called(struct machine *m, const char *format, ...) {
    size_t length = strlen(m->log);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(m->log + length, LOG_BYTES - length, format, arguments);
    va_end(arguments);
    return ++m->calls == m->fail_at ? cudaErrorLaunchFailure : cudaSuccess;
}

static struct stream *stream_of(cudaStream_t handle) {
    return (struct stream *)(void *)handle;
}

static cudaError_t instant_launch(const void *function, dim3 grid, dim3 block, void **arguments,
                                  size_t shared_bytes, cudaStream_t handle) {
    struct stream *stream = stream_of(handle);
    struct machine *m = stream->machine;
    const struct orr_emulated_kernel *kernel = function;
    struct orr_error error = {0};
    m->launches++;
    assert_int_equal(m->current, stream->gpu);
    cudaError_t code = called(m, "%s %u; ", kernel->name, stream->index);
    if (code == cudaSuccess && orr_emulate(&m->emulation, kernel, grid.x, block.x,
                                           (uint32_t)shared_bytes, arguments[0], &error) != ORR_OK)
        fail_msg("%s", error.text);
    return code;
}

static cudaError_t instant_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                cudaStream_t handle) {
    struct stream *stream = stream_of(handle);
    assert_int_equal(kind, cudaMemcpyDefault);
    cudaError_t code = called(stream->machine, "copy %u; ", stream->index);
    if (code == cudaSuccess)
        memcpy(to, from, bytes);
    return code;
}

static cudaError_t instant_set_device(int gpu) {
    machine_of_calls->current = (uint32_t)gpu;
    return called(machine_of_calls, "%s", "");
}

/* An event is the GPU it was made on, plus 1. */
static cudaError_t instant_event_create(cudaEvent_t *out_event, unsigned flags) {
    struct machine *m = machine_of_calls;
    assert_int_equal(flags, cudaEventDisableTiming);
    cudaError_t code = called(m, "%s", "");
    if (code == cudaSuccess) {
        *out_event = (cudaEvent_t)(uintptr_t)(m->current + 1);
        m->live++;
    }
    return code;
}

static cudaError_t instant_event_destroy(cudaEvent_t event) {
    assert_non_null(event);
    machine_of_calls->live--;
    return cudaSuccess;
}

static cudaError_t instant_event_record(cudaEvent_t event, cudaStream_t handle) {
    struct stream *stream = stream_of(handle);
    assert_int_equal((uintptr_t)event, stream->gpu + 1);
    return called(stream->machine, "record %u; ", stream->index);
}

static cudaError_t instant_stream_wait(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
    struct stream *stream = stream_of(handle);
    assert_non_null(event);
    assert_int_equal(flags, 0);
    return called(stream->machine, "wait %u; ", stream->index);
}

static cudaError_t instant_malloc(void **out_memory, size_t bytes) {
    cudaError_t code = called(machine_of_calls, "%s", "");
    if (code == cudaSuccess) {
        *out_memory = malloc(bytes);
        assert_non_null(*out_memory);
        memset(*out_memory, 0xff, bytes);
        machine_of_calls->live++;
    }
    return code;
}

static cudaError_t instant_free(void *memory) {
    machine_of_calls->live -= memory != NULL;
    free(memory);
    return cudaSuccess;
}

static cudaError_t instant_is_capturing(cudaStream_t handle, enum cudaStreamCaptureStatus *out) {
    (void)handle;
    *out = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static const char *instant_text(cudaError_t code) {
    return code == cudaSuccess ? "fine" : "it failed";
}

/* ---- the machine ---- */

static void machine_open(struct machine *m, uint32_t device_count, uint32_t gpu_count) {
    memset(m, 0, sizeof *m);
    memory_counting_init(&m->memory, 0);
    struct orr__cuda_runtime_table *rt = &m->api.rt;
    rt->cudaLaunchKernel = instant_launch;
    rt->cudaMemcpyAsync = instant_copy;
    rt->cudaSetDevice = instant_set_device;
    rt->cudaEventCreateWithFlags = instant_event_create;
    rt->cudaEventDestroy = instant_event_destroy;
    rt->cudaEventRecord = instant_event_record;
    rt->cudaStreamWaitEvent = instant_stream_wait;
    rt->cudaMalloc = instant_malloc;
    rt->cudaFree = instant_free;
    rt->cudaStreamIsCapturing = instant_is_capturing;
    rt->cudaGetErrorName = rt->cudaGetErrorString = instant_text;
    m->emulation.memory = &m->memory.table;
    for (uint32_t i = 0; i < ORR__K_COUNT; i++)
        m->code.functions[i] = orr_emulated_kernel_at(i);
    for (uint32_t i = 0; i < device_count; i++) {
        m->gpus[i] = i % gpu_count;
        m->streams[i] = (struct stream){m, i, m->gpus[i]};
        m->queues[i] = (struct orr__cuda_queue){.api = &m->api,
                                                .code = &m->code,
                                                .memory = &m->memory.table,
                                                .stream = (cudaStream_t)(void *)&m->streams[i],
                                                .sm_count = SM_COUNT};
    }
    m->options =
        (struct orr_cuda_options){.gpus = m->gpus, .collectives = ORR_CUDA_COLLECTIVES_EMULATED};
    machine_of_calls = m;
    struct orr_error error = {0};
    if (orr__cuda_collectives_open(&m->api, &m->memory.table, &m->options, device_count,
                                   &m->collectives, &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_string_equal(orr__cuda_collectives_algorithm(m->collectives), "emulated");
}

static void machine_close(struct machine *m) {
    orr__cuda_collectives_close(&m->collectives);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (m->queues[i].api)
            orr__cuda_queue_clear(&m->queues[i]);
    assert_int_equal(m->live, 0);
    assert_int_equal(m->memory.live, 0);
}

static enum orr_status enqueue(struct machine *m, const struct collective_world *w, uint64_t *state,
                               struct orr_error *error) {
    struct orr__cuda_member members[DEVICES_MAX];
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t rank = w->members[i].rank;
        members[i] = (struct orr__cuda_member){&m->queues[rank], rank, &w->members[i]};
    }
    for (uint32_t i = w->count - 1; state && i > 0; i--) {
        uint32_t j = (uint32_t)case_draw(state, i + 1);
        struct orr__cuda_member other = members[j];
        members[j] = members[i];
        members[i] = other;
    }
    return orr__cuda_collectives_enqueue(m->collectives, members, w->count, error);
}

/* One random group, done both ways. */
static void check_group(struct machine *m, enum orr_collective_kind kind, enum orr_dtype dtype,
                        uint32_t ranks, uint64_t count_max, uint64_t seed) {
    struct collective_case g;
    struct collective_world w;
    struct orr_error error = {0};
    uint64_t state = seed;
    case_draw_group(&g, &state, kind, dtype, ranks, count_max);
    if (orr_collective_reduces(kind) && orr_dtype_is_storage(dtype))
        return;
    unsigned char *expected[DEVICES_MAX], *got[DEVICES_MAX];
    for (uint32_t i = 0; i < ranks; i++) {
        expected[i] = malloc(2 * g.bytes);
        got[i] = malloc(2 * g.bytes);
        assert_true(expected[i] && got[i]);
        case_draw_memory(&g, &state, expected[i], 2 * g.bytes);
        memcpy(got[i], expected[i], 2 * g.bytes);
    }
    case_world(&g, &w, expected);
    if (orr_collective_run(w.list, w.count, &error) != ORR_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, error.text);
    m->log[0] = '\0';
    case_world(&g, &w, got);
    if (enqueue(m, &w, &state, &error) != ORR_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, error.text);
    for (uint32_t i = 0; i < ranks; i++) {
        case_compare(&g, i, expected[i], got[i], seed);
        free(expected[i]);
        free(got[i]);
    }
}

/* ---- tests ---- */

static void every_kind_of_every_dtype_is_the_cpus(void **state) {
    (void)state;
    struct machine m;
    uint64_t seed = case_first_seed();
    machine_open(&m, 17, 1);
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++)
            for (uint32_t ranks = 1; ranks <= 17; ranks++)
                check_group(&m, (enum orr_collective_kind)kind, (enum orr_dtype)dtype, ranks, 40,
                            seed++);
    machine_close(&m);
}

static void every_kind_is_the_cpus_on_several_gpus(void **state) {
    (void)state;
    struct machine m;
    uint64_t seed = case_first_seed();
    for (uint32_t gpus = 2; gpus <= 9; gpus += 7) {
        machine_open(&m, 9, gpus);
        for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++)
            for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++)
                for (uint32_t ranks = 1; ranks <= 9; ranks += 2)
                    check_group(&m, (enum orr_collective_kind)kind, (enum orr_dtype)dtype, ranks,
                                20, seed++);
        machine_close(&m);
    }
}

static void all_threads_of_large_groups_do_it_once(void **state) {
    (void)state;
    struct machine m;
    uint64_t seed = case_first_seed();
    machine_open(&m, 5, 1);
    m.emulation.mode = ORR_EMULATED_BACKWARDS;
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++)
        check_group(&m, (enum orr_collective_kind)kind, kind % 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_F32,
                    5, 4000, seed++);
    machine_close(&m);
}

static void more_pieces_than_a_launch_takes_are_several(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, 40, 1);
    check_group(&m, ORR_COLLECTIVE_ALL_TO_ALL, ORR_DTYPE_BF16, 40, 50, case_first_seed());
    assert_int_equal(m.launches, 2);
    assert_non_null(strstr(m.log, "carry_many 0; carry_many 0; record 0"));
    check_group(&m, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_BF16, 40, 50, case_first_seed());
    assert_non_null(strstr(m.log, "wait 0; reduce_many 0; record 0"));
    machine_close(&m);
}

static void work_is_between_the_others_records_and_their_waits(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, 3, 1);
    check_group(&m, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 3, 40, 5);
    assert_string_equal(m.log, "record 1; wait 0; record 2; wait 0; reduce_few 0; "
                               "record 0; wait 1; wait 2; ");
    check_group(&m, ORR_COLLECTIVE_ALL_GATHER, ORR_DTYPE_F32, 3, 40, 5);
    assert_string_equal(m.log, "record 1; wait 0; record 2; wait 0; carry_few 0; "
                               "record 0; wait 1; wait 2; ");
    check_group(&m, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_F32, 3, 40, 5);
    assert_string_equal(m.log, "record 1; wait 0; record 2; wait 0; record 0; wait 1; wait 2; ");
    machine_close(&m);
}

static void between_gpus_all_meet_before_the_copies_and_after_them(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, 2, 2);
    check_group(&m, ORR_COLLECTIVE_BROADCAST, ORR_DTYPE_F32, 2, 40, 4);
    assert_string_equal(m.log, "record 1; wait 0; record 0; wait 1; copy 0; copy 1; "
                               "record 1; wait 0; record 0; wait 1; ");
    check_group(&m, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 2, 40, 5);
    assert_string_equal(m.log, "record 1; wait 0; copy 0; copy 0; reduce_few 0; record 0; wait 1; "
                               "copy 0; copy 1; record 1; wait 0; record 0; wait 1; ");
    machine_close(&m);
}

/* Returns false once the call that is to fail is behind the last one. */
static bool fails_clearly(uint32_t gpus, enum orr_collective_kind kind, uint64_t nth) {
    struct machine m;
    struct collective_case g;
    struct collective_world w;
    struct orr_error error = {0};
    uint64_t state = 5;
    machine_open(&m, 3, gpus);
    case_draw_group(&g, &state, kind, ORR_DTYPE_F32, 3, 40);
    unsigned char *memory = calloc(6, g.bytes);
    assert_non_null(memory);
    unsigned char *ranks[] = {memory, memory + 2 * g.bytes, memory + 4 * g.bytes};
    case_world(&g, &w, ranks);
    m.fail_at = nth;
    bool failed = enqueue(&m, &w, NULL, &error) != ORR_OK;
    assert_int_equal(failed, nth <= m.calls);
    if (failed && (!strstr(error.text, "cuda") || !strstr(error.text, "it failed")))
        fail_msg("call %" PRIu64 ": '%s'", nth, error.text);
    free(memory);
    machine_close(&m);
    return failed;
}

static void a_call_that_fails_is_named_and_nothing_leaks(void **state) {
    (void)state;
    for (uint32_t gpus = 1; gpus <= 3; gpus++)
        for (int reduces = 0; reduces < 2; reduces++) {
            uint64_t nth = 1;
            while (fails_clearly(
                gpus, reduces ? ORR_COLLECTIVE_REDUCE_SCATTER : ORR_COLLECTIVE_ALL_TO_ALL, nth))
                nth++;
            assert_true(nth > 7);
        }
}

static void members_that_differ_are_refused_before_anything_is_enqueued(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, 2, 1);
    float x[2] = {1, 2};
    struct orr_collective of[2];
    for (uint32_t i = 0; i < 2; i++)
        of[i] = (struct orr_collective){.kind = ORR_COLLECTIVE_ALL_REDUCE,
                                        .dtype = ORR_DTYPE_F32,
                                        .rank = i,
                                        .ranks = 2,
                                        .count = 1,
                                        .in = &x[i],
                                        .out = &x[i]};
    struct orr__cuda_member members[2] = {{&m.queues[0], 0, &of[0]}, {&m.queues[1], 1, &of[1]}};
    struct orr_error error = {0};
    of[1].count = 2;
    assert_int_equal(orr__cuda_collectives_enqueue(m.collectives, members, 2, &error), ORR_INVALID);
    assert_non_null(strstr(error.text, "all_reduce of 1 elements at rank 0, of 2 at rank 1"));
    orr_error_clear(&error);
    of[1].count = 1;
    of[1].in = NULL;
    assert_int_equal(orr__cuda_collectives_enqueue(m.collectives, members, 2, &error), ORR_INVALID);
    assert_non_null(strstr(error.text, "rank 1 has no input"));
    assert_int_equal(m.calls, 0);
    machine_close(&m);
}

static void nccl_on_a_shared_gpu_is_refused_with_its_reason(void **state) {
    (void)state;
    struct machine m;
    struct orr_error error = {0};
    machine_open(&m, 3, 2);
    struct orr__cuda_collectives *other;
    m.options.collectives = ORR_CUDA_COLLECTIVES_NCCL;
    assert_int_equal(
        orr__cuda_collectives_open(&m.api, &m.memory.table, &m.options, 3, &other, &error),
        ORR_UNAVAILABLE);
    assert_null(other);
    assert_string_equal(error.text,
                        "NCCL wants a GPU for each device, but devices 0 and 2 share GPU 0, which "
                        "it refuses with ncclInvalidUsage (5): use --collectives emulated, or a "
                        "GPU for each");
    machine_close(&m);
}

static void emulate_one(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr__cuda_collectives *c;
    struct machine m;
    machine_open(&m, 2, 1);
    orr__cuda_collectives_close(&m.collectives);
    struct orr_error error = {0};
    if (orr__cuda_collectives_open(&m.api, &memory->table, &m.options, 2, &c, &error) == ORR_OK) {
        struct orr_collective of[2] = {{.kind = ORR_COLLECTIVE_BARRIER, .ranks = 2},
                                       {.kind = ORR_COLLECTIVE_BARRIER, .ranks = 2, .rank = 1}};
        struct orr__cuda_member members[2] = {{&m.queues[0], 0, &of[0]}, {&m.queues[1], 1, &of[1]}};
        enum orr_status status = orr__cuda_collectives_enqueue(c, members, 2, &error);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr__cuda_collectives_close(&c);
    }
    assert_true(error.status == ORR_OK || error.status == ORR_NO_MEMORY);
    machine_close(&m);
}

static void memory_that_is_not_there_is_said(void **state) {
    (void)state;
    assert_int_equal(fail_each_request(emulate_one, NULL), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_every_dtype_is_the_cpus),
        cmocka_unit_test(every_kind_is_the_cpus_on_several_gpus),
        cmocka_unit_test(all_threads_of_large_groups_do_it_once),
        cmocka_unit_test(more_pieces_than_a_launch_takes_are_several),
        cmocka_unit_test(work_is_between_the_others_records_and_their_waits),
        cmocka_unit_test(between_gpus_all_meet_before_the_copies_and_after_them),
        cmocka_unit_test(a_call_that_fails_is_named_and_nothing_leaks),
        cmocka_unit_test(members_that_differ_are_refused_before_anything_is_enqueued),
        cmocka_unit_test(nccl_on_a_shared_gpu_is_refused_with_its_reason),
        cmocka_unit_test(memory_that_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
