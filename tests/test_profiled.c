/* Serial profile (sim/profiled/profiled.h): over the simulator as the machine that measures, whose
 * times are exact, and over CPU threads. */
#include "runtime/cpu/cpu.h"
#include "sim/profiled/profiled.h"
#include "tests/runtime_fixture.h"

enum { DEVICES = 2, BYTES = 1 << 16 };

static const struct orr_profiled_options on_sim = {.open = orr_sim_open};
static const struct orr_profiled_options on_cpu = {.open = orr_cpu_open};

static void open_profiled(struct fixture *f, const struct orr_profiled_options *options) {
    fixture_prepare(f, orr_profiled_open, DEVICES);
    f->config.options = options;
    fixture_start(f);
}

static struct orr_profiled_counters counters(const struct fixture *f) {
    struct orr_profiled_counters now;
    orr_profiled_counters(f->runtime->backend, &now);
    return now;
}

/* A kernel that takes its time from the cost model: `bytes` read and as many written. */
static void stream_through(struct orr_stream *stream, const char *name, struct orr_buffer *from,
                           struct orr_buffer *to) {
    const struct orr_range ranges[2] = {{from, 0, BYTES, ORR_ACCESS_READ},
                                        {to, 0, BYTES, ORR_ACCESS_WRITE}};
    struct orr_kernel kernel = {.name = name,
                                .dtype = ORR_DTYPE_F32,
                                .cost = {.bytes_read = BYTES, .bytes_written = BYTES},
                                .accesses = ranges,
                                .access_count = 2,
                                .submit_ns = -1,
                                .service_ns = -1};
    assert_int_equal(orr_stream_kernel(stream, &kernel, NULL), ORR_OK);
}

/* Two devices work, one hands over to the other, and both sum up. Returns what the host reads. */
static uint64_t play(struct fixture *f) {
    struct orr_buffer *a[DEVICES], *b[DEVICES], *pinned = alloc_host(f, BYTES, "pinned");
    struct orr_stream *streams[DEVICES];
    struct orr_piece in[DEVICES], out[DEVICES];
    struct orr_communicator *communicator;
    const uint32_t devices[DEVICES] = {0, 1};
    for (uint32_t i = 0; i < DEVICES; i++) {
        streams[i] = compute(f, i);
        a[i] = alloc(streams[i], BYTES, "a");
        b[i] = alloc(streams[i], BYTES, "b");
        assert_int_equal(orr_stream_fill(streams[i], a[i], 0, BYTES, (uint8_t)(i + 1)), ORR_OK);
        for (int k = 0; k < 3; k++) {
            stream_through(streams[i], "forth", a[i], b[i]);
            stream_through(streams[i], "back", b[i], a[i]);
        }
        in[i] = (struct orr_piece){a[i], 0};
        out[i] = (struct orr_piece){b[i], 0};
    }
    struct orr_event *event = create_event(f, "e");
    assert_int_equal(orr_event_record(event, streams[0]), ORR_OK);
    assert_int_equal(orr_stream_wait(streams[1], event), ORR_OK);
    assert_int_equal(orr_stream_copy(streams[1], a[1], 0, a[0], 0, BYTES / 2), ORR_OK);
    assert_int_equal(orr_communicator_create(f->runtime, "both", devices, DEVICES, &communicator),
                     ORR_OK);
    assert_int_equal(orr_collective_enqueue(communicator, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32,
                                            BYTES / 4, 0, streams, in, out, NULL, 0, NULL),
                     ORR_OK);
    assert_int_equal(orr_stream_copy(streams[0], pinned, 0, b[0], 0, BYTES), ORR_OK);
    assert_int_equal(orr_runtime_finish(f->runtime), ORR_OK);
    static unsigned char bytes[BYTES];
    assert_int_equal(orr_buffer_read(pinned, 0, bytes, BYTES, -1), ORR_OK);
    uint64_t sum = 0;
    for (size_t i = 0; i < BYTES; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

/* Over a machine that measures exactly, a program that leaves each device one thing to do at a time
 * has the times that the simulator would have given it. */
static void test_exact_measures_give_the_same_times(void **state) {
    (void)state;
    struct fixture simulated, profiled;
    fixture_open(&simulated, orr_sim_open, DEVICES);
    uint64_t numbers = play(&simulated);
    open_profiled(&profiled, &on_sim);
    assert_true(play(&profiled) == numbers);
    size_t count = record_count(&simulated, ORR_RECORD_COMMAND);
    assert_int_equal(record_count(&profiled, ORR_RECORD_COMMAND), count);
    for (size_t i = 0; i < count; i++) {
        const struct orr_record_command *a = record_at(&simulated, ORR_RECORD_COMMAND, i);
        const struct orr_record_command *b = command_record(&profiled, a->id);
        assert_int_equal(a->start_ns, b->start_ns);
        assert_int_equal(a->finish_ns, b->finish_ns);
        assert_int_equal(a->header.c, b->header.c);
    }
    assert_string_equal(orr_runtime_backend_name(profiled.runtime), "profiled");
    fixture_close(&profiled);
    fixture_close(&simulated);
}

static void test_numbers_are_the_inner_machines(void **state) {
    (void)state;
    struct fixture threads, profiled;
    fixture_open(&threads, orr_cpu_open, DEVICES);
    uint64_t numbers = play(&threads);
    open_profiled(&profiled, &on_cpu);
    assert_true(play(&profiled) == numbers);
    fixture_close(&profiled);
    fixture_close(&threads);
}

/* A cold kernel runs three times, a warm one once; links and collectives are modelled. */
static void test_cold_kernels_run_three_times(void **state) {
    (void)state;
    struct fixture f;
    open_profiled(&f, &on_sim);
    (void)play(&f);
    struct orr_profiled_counters now = counters(&f);
    assert_int_equal(now.kinds, 3);                 /* fill, forth, back */
    assert_int_equal(now.measured, 2 + 12);         /* fills and kernels */
    assert_int_equal(now.modelled, 2 + 1);          /* copies over links, the all-reduce */
    assert_int_equal(now.runs, 2 + 12 + 2 * 2 + 2); /* and the copies */
    fixture_close(&f);
}

/* What reads what it writes runs once, or its numbers would be others. */
static void test_updates_run_once(void **state) {
    (void)state;
    struct fixture f;
    open_profiled(&f, &on_cpu);
    struct orr_buffer *a = alloc(compute(&f, 0), BYTES, "a");
    assert_int_equal(orr_stream_fill(compute(&f, 0), a, 0, BYTES, 1), ORR_OK);
    launch(compute(&f, 0), "update", a, a);
    launch(compute(&f, 0), "update", a, a);
    assert_int_equal(counters(&f).runs, 3);
    fixture_close(&f);
}

/* A call that is told to come again has run already. */
static void test_blocked_calls_run_once(void **state) {
    (void)state;
    struct fixture f;
    open_profiled(&f, &on_sim);
    uint32_t other, turn;
    struct orr_stream *streams[2] = {compute(&f, 0), compute(&f, 1)};
    struct orr_buffer *a[2] = {alloc(streams[0], 64, "a"), alloc(streams[1], 64, "b")};
    assert_int_equal(orr_runtime_add_host(f.runtime, "other", &other), ORR_OK);
    uint64_t left[2] = {20, 20};
    while (left[0] + left[1] > 0) {
        assert_int_equal(orr_runtime_next_host(f.runtime, &turn), ORR_OK);
        uint32_t which = turn == other;
        assert_int_equal(orr_runtime_set_caller(f.runtime, turn, NULL), ORR_OK);
        for (enum orr_status status = ORR_OK; left[which] > 0 && status == ORR_OK;) {
            status = orr_stream_fill(streams[which], a[which], 0, 64, 1);
            assert_true(status == ORR_OK || status == ORR_BLOCKED);
            left[which] -= status == ORR_OK;
        }
        if (left[which] == 0)
            orr_runtime_host_done(f.runtime, turn);
    }
    assert_int_equal(counters(&f).runs, 40);
    assert_int_equal(orr_runtime_next_host(f.runtime, &turn), ORR_NOT_READY);
    fixture_close(&f);
}

static enum orr_status break_down(void *work, struct orr_error *error) {
    (void)work;
    return orr_error_set(error, ORR_DEVICE_FAILED, "the coolant is gone");
}

static void test_failures_name_their_cause(void **state) {
    (void)state;
    struct fixture f;
    open_profiled(&f, &on_cpu);
    const struct orr_kernel kernel = {
        .name = "hot", .run = break_down, .submit_ns = -1, .service_ns = -1};
    assert_int_equal(orr_stream_kernel(compute(&f, 0), &kernel, NULL), ORR_DEVICE_FAILED);
    assert_non_null(strstr(fixture_error(&f), "the coolant is gone"));
    fixture_close(&f);
}

/* Every request for memory fails in turn; nothing leaks and nobody hangs. */
static void play_short(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[DEVICES] = {spec_for_tests(), spec_for_tests()};
    const struct orr_runtime_config config = {.memory = &memory->table,
                                              .open = orr_profiled_open,
                                              .options = &on_sim,
                                              .specs = specs,
                                              .device_count = DEVICES};
    struct orr_runtime *runtime;
    struct orr_error error;
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    struct orr_stream *stream = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *buffer = NULL;
    if (stream && orr_buffer_alloc(stream, BYTES, "a", &buffer) == ORR_OK &&
        orr_stream_fill(stream, buffer, 0, BYTES, 1) == ORR_OK)
        (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
}

static void test_memory_may_fail_anywhere(void **state) {
    (void)state;
    assert_true(fail_each_request(play_short, NULL) > 10);
}

static void test_timing_only_has_nothing_to_measure(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, orr_profiled_open, DEVICES);
    f.config.options = &on_cpu;
    f.config.timing_only = true;
    struct orr_runtime *runtime;
    assert_int_equal(orr_runtime_create(&f.config, &runtime, &f.error), ORR_UNSUPPORTED);
    assert_non_null(strstr(f.error.text, "timing only"));
    orr_record_memory_destroy(&f.store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_measures_give_the_same_times),
        cmocka_unit_test(test_numbers_are_the_inner_machines),
        cmocka_unit_test(test_cold_kernels_run_three_times),
        cmocka_unit_test(test_updates_run_once),
        cmocka_unit_test(test_blocked_calls_run_once),
        cmocka_unit_test(test_failures_name_their_cause),
        cmocka_unit_test(test_memory_may_fail_anywhere),
        cmocka_unit_test(test_timing_only_has_nothing_to_measure),
    };
    return cmocka_run_group_tests_name("serial profile", tests, NULL, NULL);
}
