/* The monitor against a plain model, over random calls: what one finds, the other does. And against
 * the exact check of stream programs, to which the recorder brings the same calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/check.h"
#include "hazards/monitor.h"
#include "hazards/observer_tee.h"
#include "hazards/recorder.h"
#include "hazards/stream_program_write.h"
#include "tests/monitor_model.h"
#include "tests/support.h"

enum { PROGRAMS = 1500 };

/* Findings of call `b`, of the two kinds that two accesses make. */
static void compare(const struct model *model, const struct orr_monitor *monitor, uint64_t seed) {
    bool conflicts[sizeof model->conflicts] = {0}, frees[sizeof model->frees] = {0};
    for (size_t i = 0; i < orr_monitor_finding_count(monitor); i++) {
        struct orr_monitor_finding finding;
        orr_monitor_finding(monitor, i, &finding);
        if (finding.kind == ORR_MONITOR_UNORDERED_FREE) {
            frees[finding.cmd_b] = true;
            continue;
        }
        conflicts[finding.cmd_a > finding.cmd_b ? finding.cmd_a : finding.cmd_b] = true;
        if (!model_is_pair(model, finding.cmd_a, finding.cmd_b))
            fail_msg("seed %llu: calls %llu and %llu are no pair: %s", (unsigned long long)seed,
                     (unsigned long long)finding.cmd_a, (unsigned long long)finding.cmd_b,
                     finding.message);
    }
    for (uint64_t cmd = 1; cmd <= model->cmd_count; cmd++) {
        if (conflicts[cmd] != model->conflicts[cmd])
            fail_msg("seed %llu: call %llu: the model says %d, the monitor %d",
                     (unsigned long long)seed, (unsigned long long)cmd, model->conflicts[cmd],
                     conflicts[cmd]);
        if (frees[cmd] != model->frees[cmd])
            fail_msg("seed %llu: free %llu: the model says %d, the monitor %d",
                     (unsigned long long)seed, (unsigned long long)cmd, model->frees[cmd],
                     frees[cmd]);
    }
}

static void check_program(struct model *model, uint64_t seed, size_t *out_findings) {
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    uint64_t state = seed;
    struct orr_monitor_options options = {.joint_collectives = random_below(&state, 2),
                                          .reuse_orders_hosts = random_below(&state, 2)};
    size_t steps = 10 + random_below(&state, 150);
    struct orr_monitor *monitor;
    assert_int_equal(orr_monitor_create(&memory.table, &options, &monitor), ORR_OK);
    struct orr_observer *observer = orr_monitor_observer(monitor);
    struct orr_names *names;
    assert_int_equal(orr_names_create(&memory.table, &names), ORR_OK);
    observer->names = names;
    model_begin(model, observer, state);
    model->joint = options.joint_collectives;
    model->reuse_orders_hosts = options.reuse_orders_hosts;
    for (size_t i = 0; i < steps && model_step(model); i++)
        ;
    assert_int_equal(orr_monitor_status(monitor), ORR_OK);
    compare(model, monitor, seed);
    *out_findings += orr_monitor_finding_count(monitor) > 0;
    orr_monitor_destroy(&monitor);
    orr_names_destroy(&names);
    assert_int_equal(memory.live, 0);
}

static void random_calls_are_judged_as_the_plain_model_does(void **state) {
    (void)state;
    struct model *model = malloc(sizeof *model);
    assert_non_null(model);
    uint64_t seed = random_seed(20261130);
    const char *count = getenv("ORR_TEST_PROGRAMS");
    size_t programs = count ? strtoull(count, NULL, 10) : PROGRAMS, racy = 0;
    /* A host that had made no call yet was taken for one that need not be asked what it knows. */
    check_program(model, 991027736, &racy);
    for (size_t i = 0; i < programs; i++)
        check_program(model, seed * 1000003 + i + 1, &racy);
    print_message("%zu programs, %zu with findings\n", programs, racy);
    assert_true(racy > programs / 10 && racy < programs);
    free(model);
}

/* Does the monitor say that two accesses conflict? */
static bool has_conflict(const struct orr_monitor *monitor) {
    for (size_t i = 0; i < orr_monitor_finding_count(monitor); i++) {
        struct orr_monitor_finding finding;
        orr_monitor_finding(monitor, i, &finding);
        if (finding.kind != ORR_MONITOR_UNORDERED_FREE)
            return true;
    }
    return false;
}

static void check_recorded(struct model *model, uint64_t seed, size_t *out_unsafe) {
    struct orr_memory memory = orr_memory_system();
    struct orr_monitor *monitor;
    struct orr_recorder *recorder;
    struct orr_names *names;
    uint64_t state = seed;
    size_t steps = 5 + random_below(&state, 60);
    const struct orr_monitor_options options = {.reuse_orders_hosts = true};
    assert_int_equal(orr_monitor_create(&memory, &options, &monitor), ORR_OK);
    assert_int_equal(orr_recorder_create(&memory, &recorder), ORR_OK);
    assert_int_equal(orr_names_create(&memory, &names), ORR_OK);
    struct orr_observer_tee tee;
    orr_observer_tee_init(&tee, orr_monitor_observer(monitor), orr_recorder_observer(recorder));
    tee.observer.names = names;
    model_begin(model, &tee.observer, state);
    model->reuse_orders_hosts = true;
    for (size_t i = 0; i < steps && model_step(model); i++)
        ;
    struct orr_stream_program *program;
    assert_int_equal(orr_recorder_program(recorder, &program), ORR_OK);
    struct orr_check_verdict verdict;
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    bool unsafe = orr_check_verdict_is_unsafe(verdict.kind);
    if (unsafe != has_conflict(monitor) || verdict.kind >= ORR_CHECK_INVALID) {
        char *text = NULL;
        assert_int_equal(orr_stream_program_write(program, "seed", &text), ORR_OK);
        fail_msg("seed %llu: the program is %s, the monitor has %zu findings: %s%s",
                 (unsigned long long)seed, orr_check_verdict_text(verdict.kind),
                 orr_monitor_finding_count(monitor), text ? text : "",
                 verdict.message ? verdict.message : "");
    }
    *out_unsafe += unsafe;
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
    orr_recorder_destroy(&recorder);
    orr_monitor_destroy(&monitor);
    orr_names_destroy(&names);
}

static void recorded_programs_have_the_monitors_verdict(void **state) {
    (void)state;
    struct model *model = malloc(sizeof *model);
    assert_non_null(model);
    uint64_t seed = random_seed(20261130);
    const char *count = getenv("ORR_TEST_PROGRAMS");
    size_t programs = count ? strtoull(count, NULL, 10) : PROGRAMS, unsafe = 0;
    for (size_t i = 0; i < programs; i++)
        check_recorded(model, seed * 1000003 + i + 1, &unsafe);
    print_message("%zu programs, %zu unsafe\n", programs, unsafe);
    assert_true(unsafe > programs / 10 && unsafe < programs);
    free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_are_judged_as_the_plain_model_does),
        cmocka_unit_test(recorded_programs_have_the_monitors_verdict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
