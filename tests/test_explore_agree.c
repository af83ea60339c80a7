#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/explore/explore.h"
#include "tests/hang_random.h"
#include "tests/program_random.h"
#include "tests/program_text.h"
#include "tests/support.h"

/* The check and the explorer, which share no code, agree on random programs: racy if and only if
 * two schedules order two conflicting accesses differently; a hang if and only if some schedule
 * gets stuck. The number of programs may be given as an argument; ORR_TEST_SEED is the first. */

static void print_program(const struct orr_stream_program *program) {
    for (uint32_t i = 0; i < program->names[ORR_NAME_STREAM].count; i++)
        print_message("stream %s %s %u\n", orr_stream_program_text(program, ORR_NAME_STREAM, i),
                      orr_stream_sync_text(program->streams[i].sync), program->streams[i].device);
    for (uint32_t i = 0; i < program->op_count; i++) {
        char text[256];
        orr_stream_op_short(program, i, text, sizeof text);
        print_message("%3u %s\n", i, text);
    }
}

static void compare_order(const struct orr_stream_program *program, uint64_t seed, uint64_t *unsafe,
                          uint64_t *capped) {
    struct orr_check_verdict verdict;
    struct orr_exploration *found;
    struct orr_error error = {0};
    struct orr_explore_options options = orr_explore_defaults();
    options.budget = 512;
    options.witnesses = 2;
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    assert_int_equal(orr_explore(program, &options, &found, &error), ORR_OK);
    uint32_t a = ORR_NONE, b = ORR_NONE;
    if (found->finding_count > 0) {
        a = found->findings[0].op_a;
        b = found->findings[0].op_b;
    }
    if (found->verdict != verdict.kind || a != verdict.op_a || b != verdict.op_b) {
        print_program(program);
        fail_msg("seed %llu: the check says %s (%d, %d), the explorer %s (%d, %d) %s",
                 (unsigned long long)seed, orr_check_verdict_text(verdict.kind), (int)verdict.op_a,
                 (int)verdict.op_b, orr_check_verdict_text(found->verdict), (int)a, (int)b,
                 found->message);
    }
    /* More than one order if and only if something conflicts. */
    bool is_ordered = true;
    for (uint32_t i = 0; i < found->finding_count; i++)
        is_ordered = is_ordered && found->findings[i].op_a == ORR_NONE;
    if (found->verdict == ORR_CHECK_NO_RACE)
        assert_int_equal(found->orders, 1);
    *unsafe += orr_check_verdict_is_unsafe(verdict.kind);
    *capped += found->is_capped;
    orr_check_verdict_clear(&verdict);
    orr_exploration_destroy(&found);
}

static uint64_t program_count = 1000;

static void check_and_explorer_agree_on_memory(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1), unsafe = 0, capped = 0;
    for (uint64_t i = 0; i < program_count; i++) {
        uint64_t at = (seed + i) * 0x9e3779b97f4a7c15u, drawn = at ? at : 1;
        struct program_random options = program_random_small(&drawn);
        struct orr_stream_program *program = program_random(&memory, &options, &drawn);
        compare_order(program, seed + i, &unsafe, &capped);
        orr_stream_program_destroy(&program);
    }
    print_message("%llu programs, %llu unsafe, %llu with more orders than were run\n",
                  (unsigned long long)program_count, (unsigned long long)unsafe,
                  (unsigned long long)capped);
}

static void print_hang_program(const struct orr_stream_program *program) {
    print_message("slots %llu, depth %llu\n", (unsigned long long)program->slots,
                  (unsigned long long)program->queue_depth);
    print_program(program);
}

/* What too many interleavings leave open is not compared. */
static void compare_hangs(const struct orr_stream_program *program, uint64_t seed, uint64_t *unsafe,
                          uint64_t *capped) {
    struct orr_check_verdict verdict;
    struct orr_exploration *found;
    struct orr_error error = {0};
    struct orr_explore_options options = orr_explore_defaults();
    options.budget = 2000;
    options.witnesses = 1;
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    assert_int_equal(orr_explore(program, &options, &found, &error), ORR_OK);
    bool is_open = found->is_capped && found->verdict != ORR_CHECK_MISMATCH;
    if (found->verdict != verdict.kind && !is_open) {
        print_hang_program(program);
        fail_msg("seed %llu: the check says %s, the explorer %s %s\n%s", (unsigned long long)seed,
                 orr_check_verdict_text(verdict.kind), orr_check_verdict_text(found->verdict),
                 found->message, verdict.message ? verdict.message : "");
    }
    *unsafe += orr_check_verdict_is_unsafe(verdict.kind);
    *capped += is_open;
    orr_check_verdict_clear(&verdict);
    orr_exploration_destroy(&found);
}

static void check_and_explorer_agree_on_hangs(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1), unsafe = 0, capped = 0;
    for (uint64_t i = 0; i < program_count; i++) {
        uint64_t at = (seed + i) * 0x9e3779b97f4a7c15u, drawn = at ? at : 1;
        struct orr_stream_program *program = hang_random(&memory, 12, &drawn);
        compare_hangs(program, seed + i, &unsafe, &capped);
        orr_stream_program_destroy(&program);
    }
    print_message("%llu programs, %llu unsafe, %llu left open\n", (unsigned long long)program_count,
                  (unsigned long long)unsafe, (unsigned long long)capped);
}

int main(int argc, char **argv) {
    if (argc > 1)
        program_count = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_and_explorer_agree_on_memory),
        cmocka_unit_test(check_and_explorer_agree_on_hangs),
    };
    return cmocka_run_group_tests_name("explore_agree", tests, NULL, NULL);
}
