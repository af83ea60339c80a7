/* The host layer over the CUDA backend and the fake devices: random, properly ordered programs give
 * the numbers of simulated devices, bit for bit. Kernels are the backend's own, run on the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/cuda.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "sim/sim.h"
#include "tests/runtime_program.h"
#include "tests/support.h"

enum { STEPS = 150, JITTER_NS = 20000 };

static struct orr_fake_cuda *fake;
static struct orr_cuda_options options;

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    struct orr_backend_config with_options = *config;
    with_options.options = &options;
    return orr__cuda_open(orr_fake_cuda_api(fake), &with_options, out_backend, error);
}

/* One program over a fake of its own, which has nothing left afterwards. */
static uint64_t run_on(struct orr_fake_cuda_options machine, enum orr_runner runner,
                       uint64_t seed) {
    static const struct orr_fake_cuda_census nothing;
    struct memory_counting memory;
    struct orr_error error = {0};
    memory_counting_init(&memory, 0);
    assert_int_equal(orr_fake_cuda_open(&machine, &memory.table, &fake, &error), ORR_OK);
    uint64_t sum = runtime_program_run(open_over_fake, runner, STEPS, seed, NULL);
    struct orr_fake_cuda_census census = orr_fake_cuda_census(fake);
    assert_memory_equal(&census, &nothing, sizeof census);
    orr_fake_cuda_close(&fake);
    assert_int_equal(memory.live, 0);
    return sum;
}

static uint64_t expected_sum(uint64_t seed) {
    return runtime_program_run(orr_sim_open, ORR_RUNNER_INLINE, STEPS, seed, NULL);
}

static void fake_and_simulated_devices_give_the_same_numbers(void **state) {
    (void)state;
    uint64_t seed = random_seed(1848);
    for (uint64_t i = 0; i < 4; i++) {
        options = (struct orr_cuda_options){.timestamps = (enum orr_cuda_timestamps)(i % 2)};
        uint64_t expected = expected_sum(seed + i);
        for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++)
            assert_int_equal(run_on((struct orr_fake_cuda_options){.engine = engine,
                                                                   .seed = seed + i,
                                                                   .jitter_ns = JITTER_NS},
                                    ORR_RUNNER_INLINE, seed + i),
                             expected);
    }
}

static void logical_devices_on_two_gpus_give_the_same_numbers(void **state) {
    (void)state;
    static const uint32_t gpus[2] = {1, 0};
    uint64_t seed = random_seed(1871);
    options = (struct orr_cuda_options){.gpus = gpus,
                                        .timestamps = ORR_CUDA_TIMESTAMPS_EVENTS,
                                        .collectives = ORR_CUDA_COLLECTIVES_EMULATED};
    uint64_t expected = expected_sum(seed);
    for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++)
        assert_int_equal(run_on((struct orr_fake_cuda_options){.engine = engine, .gpu_count = 2},
                                ORR_RUNNER_INLINE, seed),
                         expected);
}

static void a_runner_for_each_device_changes_no_number(void **state) {
    (void)state;
    uint64_t seed = random_seed(1918);
    options = (struct orr_cuda_options){.timestamps = ORR_CUDA_TIMESTAMPS_HOST};
    assert_int_equal(run_on((struct orr_fake_cuda_options){.engine = ORR_FAKE_THREADS},
                            ORR_RUNNER_PER_DEVICE, seed),
                     expected_sum(seed));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fake_and_simulated_devices_give_the_same_numbers),
        cmocka_unit_test(logical_devices_on_two_gpus_give_the_same_numbers),
        cmocka_unit_test(a_runner_for_each_device_changes_no_number),
    };
    return cmocka_run_group_tests_name("cuda runtime", tests, NULL, NULL);
}
