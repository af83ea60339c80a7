/* Launches of recorded programs on CUDA devices: as graphs, over the fake devices. */
#include "runtime/cpu/cpu.h"
#include "runtime/cuda/cuda.h"
#include "runtime/program.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/runtime_fixture.h"

enum { DEVICES = 2, BYTES = 4096, LAUNCHES = 7 };

/* A runtime on fake devices, or on CPU threads. */
struct target {
    struct fixture f;
    struct orr_fake_cuda *fake; /* NULL: CPU */
    struct orr_cuda_options options;
};

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    const struct target *t = config->options;
    struct orr_backend_config own = *config;
    own.options = &t->options;
    return orr__cuda_open(orr_fake_cuda_api(t->fake), &own, out_backend, error);
}

static void open_with_depth(struct target *t, const struct orr_fake_cuda_options *fake,
                            uint32_t depth) {
    *t = (struct target){.fake = NULL};
    fixture_prepare(&t->f, fake ? open_over_fake : orr_cpu_open, DEVICES);
    for (uint32_t i = 0; i < DEVICES; i++)
        t->f.specs[i].queue_depth = depth;
    if (fake) {
        t->options.timestamps = ORR_CUDA_TIMESTAMPS_EVENTS;
        t->f.config.options = t;
        assert_int_equal(orr_fake_cuda_open(fake, &t->f.memory.table, &t->fake, &t->f.error),
                         ORR_OK);
    }
    fixture_start(&t->f);
}

static void open_target(struct target *t, const struct orr_fake_cuda_options *fake) {
    open_with_depth(t, fake, 0);
}

static void close_target(struct target *t) {
    orr_runtime_destroy(&t->f.runtime);
    if (t->fake) {
        static const struct orr_fake_cuda_census none;
        struct orr_fake_cuda_census census = orr_fake_cuda_census(t->fake);
        assert_memory_equal(&census, &none, sizeof census);
        orr_fake_cuda_close(&t->fake);
    }
    fixture_close(&t->f);
}

/* What a step works on: each device has two streams and two buffers. */
struct scene {
    struct orr_stream *compute[DEVICES], *communicate[DEVICES];
    struct orr_buffer *a[DEVICES], *b[DEVICES], *pinned;
    struct orr_communicator *communicator;
    struct orr_program *program;
    int host_calls;
};

static void make_scene(struct target *t, struct scene *s) {
    const uint32_t devices[DEVICES] = {0, 1};
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < DEVICES; i++) {
        s->compute[i] = compute(&t->f, i);
        s->communicate[i] = communicate(&t->f, i);
        s->a[i] = alloc(s->compute[i], BYTES, "a");
        s->b[i] = alloc(s->compute[i], BYTES, "b");
        assert_int_equal(orr_buffer_record_stream(s->a[i], s->communicate[i]), ORR_OK);
        assert_int_equal(orr_buffer_record_stream(s->b[i], s->communicate[i]), ORR_OK);
        assert_int_equal(orr_stream_fill(s->compute[i], s->a[i], 0, BYTES, (uint8_t)(i + 1)),
                         ORR_OK);
    }
    s->pinned = alloc_host(&t->f, BYTES, "pinned");
    assert_int_equal(
        orr_communicator_create(t->f.runtime, "both", devices, DEVICES, &s->communicator), ORR_OK);
}

static void wait_for(struct target *t, struct orr_stream *waiting, struct orr_stream *awaited) {
    struct orr_event *event = create_event(&t->f, NULL);
    assert_int_equal(orr_event_record(event, awaited), ORR_OK);
    assert_int_equal(orr_stream_wait(waiting, event), ORR_OK);
    orr_event_destroy(&event);
}

static void count_call(void *context) {
    ++*(int *)context;
}

/* Kernels on both devices, a sum over them on other streams, and the way back. */
static void record_step(struct target *t, struct scene *s, bool with_host_function) {
    struct orr_piece in[DEVICES], out[DEVICES];
    assert_int_equal(orr_program_begin(t->f.runtime, &s->program), ORR_OK);
    for (uint32_t i = 0; i < DEVICES; i++) {
        launch(s->compute[i], "forth", s->a[i], s->b[i]);
        if (with_host_function && i == 0)
            assert_int_equal(
                orr_stream_hostfn(s->compute[0], "count", count_call, &s->host_calls, NULL, 0),
                ORR_OK);
        wait_for(t, s->communicate[i], s->compute[i]);
        in[i] = (struct orr_piece){s->b[i], 0};
        out[i] = (struct orr_piece){s->a[i], 0};
    }
    assert_int_equal(orr_collective_enqueue(s->communicator, ORR_COLLECTIVE_ALL_REDUCE,
                                            ORR_DTYPE_I32, BYTES / 4, 0, s->communicate, in, out,
                                            NULL, 0, NULL),
                     ORR_OK);
    for (uint32_t i = 0; i < DEVICES; i++) {
        wait_for(t, s->compute[i], s->communicate[i]);
        launch(s->compute[i], "back", s->a[i], s->b[i]);
        assert_int_equal(orr_stream_copy(s->compute[i], s->a[i], 0, s->b[i], 0, BYTES / 2), ORR_OK);
    }
    assert_int_equal(orr_program_end(s->program), ORR_OK);
}

/* Work before and behind each launch, in streams of the program. */
static void launch_step(struct scene *s) {
    launch(s->compute[1], "before", NULL, s->b[1]);
    assert_int_equal(orr_program_launch(s->program, s->compute[0]), ORR_OK);
    launch(s->compute[1], "behind", s->b[1], s->a[1]);
}

static uint64_t read_digest(struct target *t, struct scene *s) {
    unsigned char bytes[BYTES];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(orr_stream_copy(s->compute[i], s->pinned, 0, s->a[i], 0, BYTES), ORR_OK);
        assert_int_equal(orr_stream_sync(s->compute[i]), ORR_OK);
        assert_int_equal(orr_buffer_read(s->pinned, 0, bytes, BYTES, -1), ORR_OK);
        for (size_t k = 0; k < BYTES; k++)
            sum = (sum ^ bytes[k]) * 0x100000001b3u;
    }
    (void)t;
    return sum;
}

/* Digests after each launch. */
static void play(struct target *t, struct scene *s, bool with_host_function, bool all_at_once,
                 uint64_t digests[LAUNCHES]) {
    make_scene(t, s);
    record_step(t, s, with_host_function);
    for (int i = 0; i < LAUNCHES; i++) {
        launch_step(s);
        digests[i] = all_at_once && i + 1 < LAUNCHES ? 0 : read_digest(t, s);
    }
    assert_int_equal(orr_runtime_finish(t->f.runtime), ORR_OK);
    orr_program_destroy(&s->program);
}

static void expected_digests(bool with_host_function, uint64_t digests[LAUNCHES]) {
    struct target t;
    struct scene s;
    open_target(&t, NULL);
    play(&t, &s, with_host_function, false, digests);
    close_target(&t);
}

static void test_later_launches_are_graphs(void **state) {
    (void)state;
    uint64_t expected[LAUNCHES], digests[LAUNCHES];
    expected_digests(false, expected);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        for (int engine = ORR_FAKE_SIMULATED; engine <= ORR_FAKE_THREADS; engine++) {
            const struct orr_fake_cuda_options fake = {.engine = (enum orr_fake_engine)engine,
                                                       .seed = seed};
            struct target t;
            struct scene s;
            open_target(&t, &fake);
            play(&t, &s, false, false, digests);
            assert_memory_equal(digests, expected, sizeof digests);
            assert_int_equal(orr_fake_cuda_calls(t.fake, "cudaGraphLaunch"), LAUNCHES - 1);
            assert_int_equal(orr_fake_cuda_calls(t.fake, "cudaStreamBeginCapture"), 1);
            close_target(&t);
        }
    }
}

/* Launches that are still under way keep their recording: there are as many as it takes, up to a
 * limit, and what exceeds it goes one by one. */
static void test_launches_in_flight_have_recordings_of_their_own(void **state) {
    (void)state;
    uint64_t expected[LAUNCHES], digests[LAUNCHES];
    const struct orr_fake_cuda_options fake = {.engine = ORR_FAKE_SIMULATED};
    struct target t;
    struct scene s;
    expected_digests(false, expected);
    open_target(&t, &fake);
    play(&t, &s, false, true, digests);
    assert_true(digests[LAUNCHES - 1] == expected[LAUNCHES - 1]);
    uint64_t captures = orr_fake_cuda_calls(t.fake, "cudaStreamBeginCapture");
    assert_true(captures >= 1 && captures <= 4);
    assert_true(orr_fake_cuda_calls(t.fake, "cudaGraphLaunch") >= captures);
    close_target(&t);
}

/* A launch that is captured while so much is in flight that the backend looks for what is done. */
static void test_programs_longer_than_half_a_queue(void **state) {
    (void)state;
    enum { DEPTH = 64, AHEAD = 20, NODES = 40, ROUNDS = 4 };
    for (int engine = ORR_FAKE_SIMULATED; engine <= ORR_FAKE_THREADS; engine++) {
        const struct orr_fake_cuda_options fake = {.engine = (enum orr_fake_engine)engine};
        struct target t;
        struct orr_program *program;
        open_with_depth(&t, &fake, DEPTH);
        struct orr_stream *stream = compute(&t.f, 0);
        struct orr_buffer *a = alloc(stream, BYTES, "a"), *b = alloc(stream, BYTES, "b");
        assert_int_equal(orr_program_begin(t.f.runtime, &program), ORR_OK);
        for (int i = 0; i < NODES; i++)
            launch(stream, "step", a, b);
        assert_int_equal(orr_program_end(program), ORR_OK);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < AHEAD; i++)
                assert_int_equal(orr_stream_fill(stream, a, 0, BYTES, 1), ORR_OK);
            assert_int_equal(orr_program_launch(program, stream), ORR_OK);
            if (orr_runtime_finish(t.f.runtime) != ORR_OK)
                fail_msg("%s", fixture_error(&t.f));
        }
        assert_int_equal(orr_fake_cuda_calls(t.fake, "cudaGraphLaunch"), ROUNDS - 1);
        orr_program_destroy(&program);
        close_target(&t);
    }
}

static void test_host_functions_and_the_option_keep_graphs_out(void **state) {
    (void)state;
    uint64_t expected[LAUNCHES], digests[LAUNCHES];
    const struct orr_fake_cuda_options fake = {.engine = ORR_FAKE_THREADS};
    struct target t;
    struct scene s;
    expected_digests(true, expected);
    open_target(&t, &fake);
    play(&t, &s, true, false, digests);
    assert_memory_equal(digests, expected, sizeof digests);
    assert_int_equal(s.host_calls, LAUNCHES);
    assert_int_equal(orr_fake_cuda_calls(t.fake, "cudaGraphLaunch"), 0);
    close_target(&t);
    open_target(&t, &fake);
    t.options.no_graphs = true; /* asked at each launch */
    play(&t, &s, false, false, digests);
    assert_int_equal(orr_fake_cuda_calls(t.fake, "cudaGraphLaunch"), 0);
    close_target(&t);
}

/* Each node has its own time, in the order of its stream and within its launch. */
static void test_nodes_have_times(void **state) {
    (void)state;
    const struct orr_fake_cuda_options fake = {.engine = ORR_FAKE_SIMULATED};
    uint64_t digests[LAUNCHES];
    struct target t;
    struct scene s;
    open_target(&t, &fake);
    play(&t, &s, false, false, digests);
    size_t nodes = 0, count = record_count(&t.f, ORR_RECORD_COMMAND);
    for (size_t i = 0; i < count; i++) {
        const struct orr_record_command *r = record_at(&t.f, ORR_RECORD_COMMAND, i);
        if (r->header.a != ORR_COMMAND_KERNEL || strcmp(name_text(&t.f, r->name), "back") != 0)
            continue;
        nodes++;
        assert_string_equal(name_text(&t.f, r->ts_source), "event");
        assert_true(r->finish_ns > r->start_ns && r->start_ns >= r->enqueue_ns);
    }
    assert_int_equal(nodes, DEVICES * LAUNCHES);
    close_target(&t);
}

/* A call of the graph's that fails: the launch goes one by one, or ends with a clear message. */
static void test_failing_calls(void **state) {
    (void)state;
    static const struct {
        const char *faults, *message; /* NULL: none, the numbers are right */
    } cases[] = {{"cudaStreamBeginCapture:1:1", NULL},
                 {"cudaStreamEndCapture:1:901", "cudaStreamEndCapture"},
                 {"cudaGraphInstantiate:1:2", "cudaGraphInstantiate"},
                 {"cudaGraphLaunch:1:1", "cudaGraphLaunch"},
                 {"cudaGraphLaunch:3:719!", "cudaGraphLaunch"}};
    uint64_t expected[LAUNCHES];
    expected_digests(false, expected);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct orr_fake_cuda_options fake = {.engine = ORR_FAKE_SIMULATED,
                                                   .faults = cases[i].faults};
        struct target t;
        struct scene s;
        open_target(&t, &fake);
        make_scene(&t, &s);
        record_step(&t, &s, false);
        for (int k = 0; k < LAUNCHES; k++)
            launch_step(&s);
        enum orr_status status = orr_runtime_finish(t.f.runtime);
        assert_int_equal(status, cases[i].message ? ORR_DEVICE_FAILED : ORR_OK);
        if (cases[i].message)
            assert_non_null(strstr(fixture_error(&t.f), cases[i].message));
        else
            assert_true(read_digest(&t, &s) == expected[LAUNCHES - 1]);
        orr_program_destroy(&s.program);
        close_target(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_later_launches_are_graphs),
        cmocka_unit_test(test_launches_in_flight_have_recordings_of_their_own),
        cmocka_unit_test(test_programs_longer_than_half_a_queue),
        cmocka_unit_test(test_host_functions_and_the_option_keep_graphs_out),
        cmocka_unit_test(test_nodes_have_times),
        cmocka_unit_test(test_failing_calls),
    };
    return cmocka_run_group_tests_name("CUDA graphs over fake devices", tests, NULL, NULL);
}
