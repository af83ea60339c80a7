/* Oracle hang: every rule with a program that hangs and one that does not, random programs against
 * a naive search of all states, and what findings say.
 *
 * ORR_TEST_SEED is the first seed; the command line's first argument is the number of random
 * programs instead of the usual one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/stream_program_read.h"
#include "runtime/splitmix.h"
#include "tests/hang_naive.h"
#include "tests/hang_draw.h"
#include "tests/support.h"

enum { STATES_MAX = 6000 };

static uint64_t random_count = 2000;

/* --- random programs --- */

static void agree(uint64_t seed, uint64_t counts[ORR_CHECK_VERDICT_COUNT]) {
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = hang_draw(&memory, seed);
    enum orr_check_verdict_kind expected = naive_hangs(program, STATES_MAX);
    struct orr_hang_result result;
    assert_int_equal(orr_hangs_find(program, 0, &result), ORR_OK);
    counts[expected]++;
    if (expected != ORR_CHECK_UNKNOWN && result.kind != expected) {
        for (uint32_t i = 0; i < program->op_count; i++) {
            char text[128];
            orr_stream_op_short(program, i, text, sizeof text);
            print_message("# %u %s\n", i, text);
        }
        fail_msg("seed %llu: %s, but %s in all states", (unsigned long long)seed,
                 orr_check_verdict_text(result.kind), orr_check_verdict_text(expected));
    }
    if (orr_check_verdict_is_unsafe(result.kind)) {
        const char *wrong = naive_replay(program, &result);
        if (wrong)
            fail_msg("seed %llu: the schedule of a %s: %s", (unsigned long long)seed,
                     orr_check_verdict_text(result.kind), wrong);
    }
    orr_hang_result_clear(&result);
    orr_stream_program_destroy(&program);
}

static void random_programs_hang_as_in_all_states(void **state) {
    (void)state;
    uint64_t counts[ORR_CHECK_VERDICT_COUNT] = {0}, seed = random_seed(1);
    for (uint64_t i = 0; i < random_count; i++)
        agree(orr_splitmix_at(seed, i), counts);
    print_message("# %llu hang, %llu mismatch, %llu no-hang, %llu too large\n",
                  (unsigned long long)counts[ORR_CHECK_HANG],
                  (unsigned long long)counts[ORR_CHECK_MISMATCH],
                  (unsigned long long)counts[ORR_CHECK_NO_HANG],
                  (unsigned long long)counts[ORR_CHECK_UNKNOWN]);
}

int main(int argc, char **argv) {
    if (argc > 1)
        random_count = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_hang_as_in_all_states),
    };
    return cmocka_run_group_tests_name("hangs", tests, NULL, NULL);
}
