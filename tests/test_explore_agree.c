#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/program_lines.h"
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

/* --- programs with verdicts, and what is left of them without one call that orders --- */

struct file_counts {
    uint64_t programs, mutants, flagged, proven;
};

static enum orr_check_verdict_kind verdict_of(const struct orr_stream_program *program) {
    struct orr_check_verdict verdict;
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    enum orr_check_verdict_kind kind = verdict.kind;
    orr_check_verdict_clear(&verdict);
    return kind;
}

static enum orr_check_verdict_kind explored(const struct orr_stream_program *program) {
    struct orr_exploration *found;
    struct orr_explore_options options = orr_explore_defaults();
    options.budget = 20000;
    options.witnesses = 0;
    assert_int_equal(orr_explore(program, &options, &found, NULL), ORR_OK);
    enum orr_check_verdict_kind kind = found->verdict;
    orr_exploration_destroy(&found);
    return kind;
}

static bool orders_something(enum orr_stream_op_kind kind) {
    return kind == ORR_OP_RECORD || kind == ORR_OP_WAIT || kind == ORR_OP_SYNC_EVENT ||
           kind == ORR_OP_QUERY_OK || kind == ORR_OP_SYNC_STREAM ||
           kind == ORR_OP_STREAM_QUERY_OK || kind == ORR_OP_SYNC_DEVICE ||
           kind == ORR_OP_RECORD_STREAM || kind == ORR_OP_NOTIFY || kind == ORR_OP_AWAIT;
}

/* Each without one: unsafe, or safe in every order, and the check and the explorer say the same. */
static void remove_each(const struct orr_stream_program *program, const char *id,
                        struct file_counts *counts) {
    bool keep[256];
    assert_true(program->op_count <= 256);
    memset(keep, true, sizeof keep);
    for (uint32_t i = 0; i < program->op_count; i++) {
        struct orr_stream_program *mutant;
        if (!orders_something((enum orr_stream_op_kind)program->ops[i].kind))
            continue;
        keep[i] = false;
        assert_int_equal(orr_stream_program_subset(program, keep, &mutant), ORR_OK);
        keep[i] = true;
        enum orr_check_verdict_kind checked = verdict_of(mutant);
        if (checked != explored(mutant))
            fail_msg("%s without op %u: the check says %s", id, i, orr_check_verdict_text(checked));
        counts->mutants++;
        counts->flagged += orr_check_verdict_is_unsafe(checked) || checked == ORR_CHECK_INVALID;
        counts->proven += checked == ORR_CHECK_NO_RACE || checked == ORR_CHECK_NO_HANG;
        orr_stream_program_destroy(&mutant);
    }
}

static enum orr_status judge_line(void *context, uint64_t number,
                                  struct orr_stream_program_line *line, const char *what) {
    (void)number, (void)what;
    if (!line->program || line->program->oracle == ORR_ORACLE_CAPTURE)
        return ORR_OK;
    struct file_counts *counts = context;
    enum orr_check_verdict_kind checked = verdict_of(line->program);
    if (checked != explored(line->program))
        fail_msg("%s: the check says %s", line->id, orr_check_verdict_text(checked));
    counts->programs++;
    if (checked == ORR_CHECK_NO_RACE || checked == ORR_CHECK_NO_HANG)
        remove_each(line->program, line->id, counts);
    return ORR_OK;
}

static void a_call_that_orders_is_missed_or_redundant(void **state) {
    (void)state;
    static const char *const paths[] = {"tests/data/programs.jsonl",
                                        "../shared/cases/stream-programs.jsonl"};
    struct orr_memory memory = orr_memory_system();
    for (int i = 0; i < 2; i++) {
        struct file_counts counts = {0};
        struct orr_program_lines lines = {
            .memory = &memory, .path = paths[i], .line = judge_line, .context = &counts};
        if (access(paths[i], R_OK) != 0) {
            print_message("skipped: there is no %s here\n", paths[i]);
            continue;
        }
        assert_int_equal(orr_program_lines_read(&lines, NULL), ORR_OK);
        assert_int_equal(counts.flagged + counts.proven, counts.mutants);
        print_message("%s: %llu programs; %llu times one call less in safe ones: %llu flagged, "
                      "%llu redundant in every order\n",
                      paths[i], (unsigned long long)counts.programs,
                      (unsigned long long)counts.mutants, (unsigned long long)counts.flagged,
                      (unsigned long long)counts.proven);
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        program_count = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_and_explorer_agree_on_memory),
        cmocka_unit_test(check_and_explorer_agree_on_hangs),
        cmocka_unit_test(a_call_that_orders_is_missed_or_redundant),
    };
    return cmocka_run_group_tests_name("explore_agree", tests, NULL, NULL);
}
