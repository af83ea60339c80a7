/* The host layer over threads: random, properly ordered programs give the same numbers on CPU
 * devices as in simulation, bit for bit; and what a program leaves behind is complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "sim/sim.h"
#include "tests/runtime_program.h"
#include "tests/support.h"

enum { STEPS = 400 };

static uint64_t run_program(orr_backend_open open, enum orr_runner runner, uint64_t seed,
                            uint64_t *out_trace) {
    return runtime_program_run(open, runner, STEPS, seed, out_trace);
}

static void cpu_and_simulated_devices_give_the_same_numbers(void **state) {
    (void)state;
    uint64_t seed = random_seed(4711);
    for (uint64_t i = 0; i < 5; i++) {
        uint64_t expected = run_program(orr_sim_open, ORR_RUNNER_INLINE, seed + i, NULL);
        assert_int_equal(run_program(orr_cpu_open, ORR_RUNNER_INLINE, seed + i, NULL), expected);
    }
    assert_int_not_equal(run_program(orr_sim_open, ORR_RUNNER_INLINE, seed + 1, NULL),
                         run_program(orr_sim_open, ORR_RUNNER_INLINE, seed, NULL));
}

static void a_runner_for_each_device_changes_no_number(void **state) {
    (void)state;
    uint64_t seed = random_seed(815);
    uint64_t expected = run_program(orr_sim_open, ORR_RUNNER_PER_DEVICE, seed, NULL);
    assert_int_equal(run_program(orr_sim_open, ORR_RUNNER_INLINE, seed, NULL), expected);
    assert_int_equal(run_program(orr_cpu_open, ORR_RUNNER_PER_DEVICE, seed, NULL), expected);
}

static void a_simulated_run_leaves_the_same_records_every_time(void **state) {
    (void)state;
    uint64_t seed = random_seed(99), first, second, other;
    run_program(orr_sim_open, ORR_RUNNER_INLINE, seed, &first);
    run_program(orr_sim_open, ORR_RUNNER_INLINE, seed, &second);
    run_program(orr_sim_open, ORR_RUNNER_INLINE, seed + 1, &other);
    assert_int_equal(first, second);
    assert_int_not_equal(first, other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_and_simulated_devices_give_the_same_numbers),
        cmocka_unit_test(a_runner_for_each_device_changes_no_number),
        cmocka_unit_test(a_simulated_run_leaves_the_same_records_every_time),
    };
    return cmocka_run_group_tests_name("cpu runtime", tests, NULL, NULL);
}
