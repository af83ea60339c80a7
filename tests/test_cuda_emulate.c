/* Kernels on a CPU: time, threads in turns, what a launch may be, and queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "sim/fake_devices/cuda/emulated/device.h"
#include "tests/cuda_kernel_fixture.h"

/* ---- Kernels of our own ---- */

struct rotate {
    const int *x;
    int *y;
    bool synchronizes;
};

/* Each thread gives its number to the next one. */
static void run_rotate(struct lane lane, const void *argument) {
    const struct rotate *a = argument;
    int *shared = shared_memory(lane);
    shared[thread_index(lane)] = a->x[thread_index(lane)];
    if (a->synchronizes)
        block_sync(lane);
    a->y[thread_index(lane)] = shared[(thread_index(lane) + 1) % thread_count(lane)];
}

static bool rotates(enum orr_emulated_mode mode, bool synchronizes, const struct orr_memory *memory,
                    bool whole) {
    enum { COUNT = 64 };
    int x[COUNT], y[COUNT];
    struct rotate argument = {.x = x, .y = y, .synchronizes = synchronizes};
    struct orr_emulated_kernel kernel = {"rotate", sizeof argument, run_rotate};
    struct orr_emulation emulation = {.mode = mode, .memory = memory};
    struct orr_error error = {0};
    for (int i = 0; i < COUNT; i++)
        x[i] = i;
    if (orr_emulate(&emulation, &kernel, 1, COUNT, sizeof x, &argument, &error) != ORR_OK)
        fail_msg("%s", error.text);
    for (int i = 0; i < COUNT; i++)
        if (y[i] != (i + 1) % COUNT && (whole || i < COUNT - 1))
            return false;
    return true;
}

static void threads_see_what_others_wrote_before_they_synchronized(void **state) {
    struct kernel_fixture *fixture = *state;
    const struct orr_memory *memory = &fixture->host.table;
    assert_true(rotates(ORR_EMULATED_FORWARDS, true, memory, true));
    assert_true(rotates(ORR_EMULATED_BACKWARDS, true, memory, true));
}

static void without_synchronizing_an_order_of_turns_gives_wrong_numbers(void **state) {
    struct kernel_fixture *fixture = *state;
    const struct orr_memory *memory = &fixture->host.table;
    assert_false(rotates(ORR_EMULATED_FORWARDS, false, memory, true));
    /* Backwards, only the first thread's neighbour is late. */
    assert_true(rotates(ORR_EMULATED_BACKWARDS, false, memory, false));
    assert_false(rotates(ORR_EMULATED_BACKWARDS, false, memory, true));
}

static void run_some_end(struct lane lane, const void *argument) {
    (void)argument;
    if (thread_index(lane) < 3)
        return;
    block_sync(lane);
}

static void run_writes_past(struct lane lane, const void *argument) {
    (void)argument;
    ((char *)shared_memory(lane))[16] = 1;
}

static void run_nothing(struct lane lane, const void *argument) {
    (void)lane;
    (void)argument;
}

static void assert_refused(struct kernel_fixture *fixture, enum orr_emulated_mode mode,
                           void (*run)(struct lane, const void *), uint32_t grid, uint32_t block,
                           uint32_t shared_bytes, const char *text) {
    struct orr_emulated_kernel kernel = {"bad", 0, run};
    struct orr_emulation emulation = {.mode = mode, .memory = &fixture->host.table};
    struct orr_error error = {0};
    assert_int_equal(orr_emulate(&emulation, &kernel, grid, block, shared_bytes, NULL, &error),
                     ORR_INVALID);
    if (!strstr(error.text, text))
        fail_msg("'%s' is not in '%s'", text, error.text);
}

static void threads_that_end_while_others_synchronize_are_told(void **state) {
    assert_refused(*state, ORR_EMULATED_FORWARDS, run_some_end, 1, 32, 0,
                   "29 of the 32 threads of a block synchronize");
}

static void writes_past_shared_memory_are_told(void **state) {
    assert_refused(*state, ORR_EMULATED_COLLAPSED, run_writes_past, 2, 32, 16,
                   "past its 16 bytes of shared memory");
    assert_refused(*state, ORR_EMULATED_BACKWARDS, run_writes_past, 2, 32, 16,
                   "past its 16 bytes of shared memory");
}

static void what_a_gpu_would_not_launch_is_refused(void **state) {
    assert_refused(*state, ORR_EMULATED_COLLAPSED, run_nothing, 0, 32, 0, "can't launch 0 blocks");
    assert_refused(*state, ORR_EMULATED_COLLAPSED, run_nothing, 1, 33, 0, "blocks of 33 threads");
    assert_refused(*state, ORR_EMULATED_COLLAPSED, run_nothing, 1, 1056, 0, "of 1056 threads");
    assert_refused(*state, ORR_EMULATED_COLLAPSED, run_nothing, 1, 32, 1 << 20, "1048576 bytes");
}

static void a_launch_without_memory_says_so(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_emulated_kernel kernel = {"any", 0, run_nothing};
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        struct counting_memory memory;
        struct orr_error error = {0};
        counting_memory_init(&memory, fail_at);
        struct orr_emulation emulation = {.mode = ORR_EMULATED_FORWARDS, .memory = &memory.table};
        assert_int_equal(orr_emulate(&emulation, &kernel, 1, 32, 0, NULL, &error), ORR_NO_MEMORY);
        assert_int_equal(memory.live, 0);
    }
    (void)fixture;
}

/* ---- Sums over a block ---- */

struct sums {
    const float *x;
    float *sum, *most;
    int64_t count;
};

static void run_sums(struct lane lane, const void *argument) {
    const struct sums *a = argument;
    float sum = 0, most = -INFINITY;
    for (int64_t i = thread_index(lane); i < a->count; i += thread_count(lane)) {
        sum += a->x[i];
        most = a->x[i] > most ? a->x[i] : most;
    }
    float *scratch = shared_memory(lane);
    sum = block_sum_f32(lane, sum, 0, scratch);
    most = block_max_f32(lane, most, -INFINITY, scratch);
    if (thread_index(lane) == 0) {
        *a->sum = sum;
        *a->most = most;
    }
}

static void sums_and_maxima_are_the_same_in_all_modes(void **state) {
    struct kernel_fixture *fixture = *state;
    float x[1000], sum, most, whole = 0;
    struct sums argument = {.x = x, .sum = &sum, .most = &most, .count = 1000};
    struct orr_emulated_kernel kernel = {"sums", sizeof argument, run_sums};
    for (int i = 0; i < 1000; i++)
        x[i] = (float)(i % 17);
    x[700] = 100;
    for (int i = 0; i < 1000; i++)
        whole += x[i];
    for (int mode = ORR_EMULATED_COLLAPSED; mode <= ORR_EMULATED_BACKWARDS; mode++)
        for (uint32_t block = 32; block <= 1024; block *= 2) {
            struct orr_emulation emulation = {.mode = (enum orr_emulated_mode)mode,
                                              .memory = &fixture->host.table};
            struct orr_error error = {0};
            sum = most = NAN;
            if (orr_emulate(&emulation, &kernel, 3, block, 33 * 4, &argument, &error) != ORR_OK)
                fail_msg("%s", error.text);
            assert_true(sum == whole); /* whole numbers: exact in any order */
            assert_true(most == 100);
        }
}

/* ---- Time, faults ---- */

static void a_kernel_waits_by_the_clock(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_error error = {0};
    struct orr__k_spin argument = {.ns = 1000000};
    if (orr__cuda_launch(&fixture->queue, ORR__K_spin, 1, 32, 0, &argument, &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(fixture->launches, 1);
}

static uint64_t noon(void *context) {
    return *(uint64_t *)context;
}

static void a_kernel_writes_the_time(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_error error = {0};
    uint64_t now = 1234, stamp = 0;
    struct orr__k_stamp argument = {.to = &stamp};
    fixture->emulation.now = noon;
    fixture->emulation.context = &now;
    if (orr__cuda_launch(&fixture->queue, ORR__K_stamp, 1, 32, 0, &argument, &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(stamp, 1234);
}

static void run_two_faults(struct lane lane, const void *argument) {
    struct orr__cuda_fault *const *fault = argument;
    fault_raise(lane, *fault, ORR__FAULT_INDEX, 10 + thread_index(lane), 7);
}

static void the_first_fault_stays(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr__cuda_fault *fault = &fixture->fault;
    struct orr_emulated_kernel kernel = {"faults", sizeof fault, run_two_faults};
    struct orr_emulation emulation = {.mode = ORR_EMULATED_BACKWARDS,
                                      .memory = &fixture->host.table};
    struct orr_error error = {0};
    assert_int_equal(orr_emulate(&emulation, &kernel, 1, 32, 0, &fault, &error), ORR_OK);
    assert_int_equal(fault->code, ORR__FAULT_INDEX);
    assert_int_equal(fault->value, 41);
    assert_int_equal(fault->bound, 7);
}

/* ---- The table ---- */

static void every_kernel_is_there_by_its_name(void **state) {
    (void)state;
    for (uint32_t i = 0; i < ORR__K_COUNT; i++) {
        const char *name = orr__cuda_kernel_name((enum orr__cuda_kernel)i);
        assert_string_equal(orr_emulated_kernel_at(i)->name, name);
        assert_ptr_equal(orr_emulated_kernel_find(name), orr_emulated_kernel_at(i));
        assert_true(orr_emulated_kernel_at(i)->argument_bytes <= 32764); /* as CUDA allows */
    }
    assert_null(orr_emulated_kernel_at(ORR__K_COUNT));
    assert_null(orr_emulated_kernel_find("no such kernel"));
}

/* ---- Queues ---- */

static void grids_fill_the_gpu_and_no_more(void **state) {
    const struct kernel_fixture *fixture = *state;
    const struct orr__cuda_queue *queue = &fixture->queue;
    assert_int_equal(orr__cuda_grid(queue, 0), 0);
    assert_int_equal(orr__cuda_grid(queue, 1), 1);
    assert_int_equal(orr__cuda_grid(queue, 256), 1);
    assert_int_equal(orr__cuda_grid(queue, 257), 2);
    assert_int_equal(orr__cuda_grid(queue, UINT64_MAX), 8 * queue->sm_count);
    assert_int_equal(orr__cuda_grid_rows(queue, 3), 3);
    assert_int_equal(orr__cuda_grid_rows(queue, UINT64_MAX), 16 * queue->sm_count);
}

static void scratch_grows_and_is_given_back(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_error error = {0};
    void *first, *second, *third;
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 100, &first, &error), ORR_OK);
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 60, &second, &error), ORR_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 101, &third, &error), ORR_OK);
    assert_int_equal(fixture->device.live, 2);
    memset(first, 0, 100); /* as a graph does at every launch that was captured with it */
    orr__cuda_queue_clear(&fixture->queue);
    assert_int_equal(fixture->device.live, 0);
}

static void scratch_that_cannot_grow_leaves_a_queue_that_works(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_error error = {0};
    void *scratch;
    fixture->device.fail_at = 2;
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 10, &scratch, &error), ORR_OK);
    assert_int_not_equal(orr__cuda_scratch(&fixture->queue, 20, &scratch, &error), ORR_OK);
    assert_null(scratch);
    assert_non_null(strstr(error.text, "cudaMallocFromPoolAsync"));
    fixture->device.fail_at = 0;
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 10, &scratch, &error), ORR_OK);
    assert_non_null(scratch);
}

static void scratch_does_not_grow_in_a_capture(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_error error = {0};
    void *scratch;
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 100, &scratch, &error), ORR_OK);
    fixture->capturing = true;
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 100, &scratch, &error), ORR_OK);
    assert_int_equal(orr__cuda_scratch(&fixture->queue, 101, &scratch, &error), ORR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "graph capture: a kernel's scratch needs 151 bytes"));
}

static void an_operator_without_kernel_is_told(void **state) {
    struct kernel_fixture *fixture = *state;
    struct orr_error error = {0};
    const struct orr_operator nothing = {.name = "nothing"};
    struct orr_task task = {.kind = ORR_TASK_OPERATOR, .call = {.op = &nothing}};
    assert_int_equal(kernel_enqueue(fixture, &task, &error), ORR_UNSUPPORTED);
    assert_string_equal(error.text, "nothing: there is no CUDA kernel for it");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(threads_see_what_others_wrote_before_they_synchronized),
        CASE(without_synchronizing_an_order_of_turns_gives_wrong_numbers),
        CASE(threads_that_end_while_others_synchronize_are_told),
        CASE(writes_past_shared_memory_are_told),
        CASE(what_a_gpu_would_not_launch_is_refused),
        CASE(a_launch_without_memory_says_so),
        CASE(sums_and_maxima_are_the_same_in_all_modes),
        CASE(a_kernel_waits_by_the_clock),
        CASE(a_kernel_writes_the_time),
        CASE(the_first_fault_stays),
        CASE(every_kernel_is_there_by_its_name),
        CASE(grids_fill_the_gpu_and_no_more),
        CASE(scratch_grows_and_is_given_back),
        CASE(scratch_that_cannot_grow_leaves_a_queue_that_works),
        CASE(scratch_does_not_grow_in_a_capture),
        CASE(an_operator_without_kernel_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
