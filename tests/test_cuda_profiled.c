/* Serial profile with CUDA devices as the machine that measures, over the fake ones: the numbers
 * are the GPU's, the devices are simulated. */
#include "runtime/cpu/cpu.h"
#include "runtime/cuda/cuda.h"
#include "runtime/program.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "sim/profiled/profiled.h"
#include "tests/runtime_fixture.h"

enum { DEVICES = 2, BYTES = 4096, STEPS = 3 };

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    struct orr_backend_config own = *config;
    struct orr_fake_cuda *const *fake = config->options;
    const struct orr_cuda_options options = {.timestamps = ORR_CUDA_TIMESTAMPS_EVENTS};
    own.options = &options;
    return orr__cuda_open(orr_fake_cuda_api(*fake), &own, out_backend, error);
}

/* Synthetic kernels, a copy between devices, a program that is launched more than once. */
static uint64_t play(struct fixture *f) {
    struct orr_buffer *a[DEVICES], *pinned = alloc_host(f, BYTES, "pinned");
    struct orr_program *program;
    unsigned char bytes[BYTES];
    for (uint32_t i = 0; i < DEVICES; i++) {
        a[i] = alloc(compute(f, i), BYTES, "a");
        assert_int_equal(orr_stream_fill(compute(f, i), a[i], 0, BYTES, (uint8_t)i), ORR_OK);
    }
    assert_int_equal(orr_program_begin(f->runtime, &program), ORR_OK);
    launch(compute(f, 0), "step", a[0], a[0]);
    assert_int_equal(orr_program_end(program), ORR_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(orr_program_launch(program, compute(f, 0)), ORR_OK);
    struct orr_event *event = create_event(f, "done");
    assert_int_equal(orr_event_record(event, compute(f, 0)), ORR_OK);
    assert_int_equal(orr_stream_wait(compute(f, 1), event), ORR_OK);
    assert_int_equal(orr_stream_copy(compute(f, 1), a[1], 0, a[0], 0, BYTES / 2), ORR_OK);
    launch(compute(f, 1), "last", a[1], a[1]);
    assert_int_equal(orr_stream_copy(compute(f, 1), pinned, 0, a[1], 0, BYTES), ORR_OK);
    assert_int_equal(orr_runtime_finish(f->runtime), ORR_OK);
    assert_int_equal(orr_buffer_read(pinned, 0, bytes, BYTES, -1), ORR_OK);
    orr_program_destroy(&program);
    uint64_t sum = 0;
    for (size_t i = 0; i < BYTES; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

static void test_numbers_are_those_of_cpu_devices(void **state) {
    (void)state;
    struct fixture threads, profiled;
    struct orr_fake_cuda *fake;
    const struct orr_fake_cuda_options options = {.engine = ORR_FAKE_SIMULATED};
    const struct orr_profiled_options inner = {.open = open_over_fake, .options = &fake};
    fixture_open(&threads, orr_cpu_open, DEVICES);
    uint64_t expected = play(&threads);
    fixture_close(&threads);
    fixture_prepare(&profiled, orr_profiled_open, DEVICES);
    profiled.config.options = &inner;
    assert_int_equal(orr_fake_cuda_open(&options, &profiled.memory.table, &fake, &profiled.error),
                     ORR_OK);
    fixture_start(&profiled);
    assert_true(play(&profiled) == expected);
    struct orr_profiled_counters counters;
    orr_profiled_counters(profiled.runtime->backend, &counters);
    assert_int_equal(counters.measured, DEVICES + STEPS + 1);
    assert_int_equal(counters.modelled, 2);
    orr_runtime_destroy(&profiled.runtime);
    orr_fake_cuda_close(&fake);
    fixture_close(&profiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_those_of_cpu_devices),
    };
    return cmocka_run_group_tests_name("serial profile of CUDA devices", tests, NULL, NULL);
}
