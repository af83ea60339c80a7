/* Training with one wait left out, each in turn: the check flags it. Waits for what was in order
 * already are no candidates (--drop-wait passes over them). In any case the exact check of the
 * run's stream program agrees.
 *
 * ORR_TEST_SCENARIO=FILE takes another scenario instead (arguments at their defaults, timing only),
 * on ORR_TEST_DEVICES devices; ORR_TEST_EVERY=N every N-th wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hazards/check.h"
#include "hazards/monitor.h"
#include "hazards/observer_tee.h"
#include "hazards/recorder.h"
#include "tests/scenario_play.h"

/* Two steps of data parallelism by hand: gradients of two layers are reduced on the communication
 * streams while the next product runs, and the loss goes to the host. */
static const char training[] =
    "local mesh = orrery.mesh{ shape = {2}, names = {'dp'} }\n"
    "local function random(seed, place)\n"
    "    return orrery.randn{ shape = {8, 8}, dtype = 'f32', seed = seed, mesh = mesh,\n"
    "                         place = {place} }\n"
    "end\n"
    "local x, w1, w2 = random(1, 'S(0)'), random(2, 'R'), random(3, 'R')\n"
    "for step = 1, 2 do\n"
    "    local h <close> = orrery.relu(x:matmul(w1))\n"
    "    local y <close> = h:matmul(w2)\n"
    "    local loss <close> = (y * y):sum()\n"
    "    local g2 <close> = h:transpose():matmul(y)\n"
    "    local r2 <close> = g2:redistribute{ dp = 'R' }\n"
    "    local g1 <close> = x:transpose():matmul(y:matmul(w2:transpose()))\n"
    "    local r1 <close> = g1:redistribute{ dp = 'R' }\n"
    "    local v1, v2 = w1 - r1 * 1e-3, w2 - r2 * 1e-3\n"
    "    w1:free() w2:free()\n"
    "    w1, w2 = v1, v2\n"
    "    local value = loss:future():get()\n"
    "end\n";

enum { SCENARIO_MAX = 1 << 16 };

/* A number in the environment, at least 1, or `usual`. */
static uint32_t number(const char *name, uint32_t usual) {
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : 0;
    return value > 0 ? (uint32_t)value : usual;
}

static const char *scenario(void) {
    static char text[SCENARIO_MAX];
    const char *path = getenv("ORR_TEST_SCENARIO");
    if (!path || text[0])
        return path ? text : training;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(length > 0 && length < sizeof text - 1);
    return text;
}

static void play_with(struct play *play, struct orr_observer *observer, uint64_t drop) {
    play_prepare(play, scenario(), number("ORR_TEST_DEVICES", 2));
    play->fixture.config.timing_only = getenv("ORR_TEST_SCENARIO") != NULL;
    play->fixture.config.observer = observer;
    play->fixture.config.drop_wait = drop;
    play_run(play);
    assert_string_equal(play->error.text, "");
    assert_int_equal(play->status, ORR_OK);
}

/* Clean as it is; returns how many waits can be left out. */
static uint64_t count_waits(const struct orr_memory *memory) {
    struct play play;
    struct orr_monitor *monitor;
    assert_int_equal(orr_monitor_create(memory, NULL, &monitor), ORR_OK);
    play_with(&play, orr_monitor_observer(monitor), UINT64_MAX);
    assert_int_equal(orr_monitor_finding_count(monitor), 0);
    uint64_t count = orr_runtime_wait_count(play.fixture.runtime);
    play_end(&play);
    orr_monitor_destroy(&monitor);
    return count;
}

/* Findings without wait `drop`; *out_unsafe: does the exact check of the recorded run object? */
static size_t findings_without(uint64_t drop, const struct orr_memory *memory, bool *out_unsafe) {
    struct play play;
    struct orr_monitor *monitor;
    struct orr_recorder *recorder;
    struct orr_observer_tee tee;
    assert_int_equal(orr_monitor_create(memory, NULL, &monitor), ORR_OK);
    assert_int_equal(orr_recorder_create(memory, &recorder), ORR_OK);
    orr_observer_tee_init(&tee, orr_monitor_observer(monitor), orr_recorder_observer(recorder));
    play_with(&play, &tee.observer, drop);
    struct orr_stream_program *program;
    struct orr_check_verdict verdict;
    assert_int_equal(orr_recorder_program(recorder, &program), ORR_OK);
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    *out_unsafe = orr_check_verdict_is_unsafe(verdict.kind);
    size_t count = orr_monitor_finding_count(monitor), unordered_frees = 0;
    for (size_t i = 0; i < count; i++) {
        struct orr_monitor_finding finding;
        orr_monitor_finding(monitor, i, &finding);
        unordered_frees += finding.kind == ORR_MONITOR_UNORDERED_FREE;
    }
    if (*out_unsafe && count == unordered_frees)
        fail_msg("wait %llu: the exact check says %s, the monitor has %zu findings",
                 (unsigned long long)drop, orr_check_verdict_text(verdict.kind), count);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
    play_end(&play);
    orr_recorder_destroy(&recorder);
    orr_monitor_destroy(&monitor);
    return count;
}

static void each_missing_wait_is_flagged(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t count = count_waits(&memory), every = number("ORR_TEST_EVERY", 1);
    uint32_t flagged = 0, tried = 0;
    for (uint64_t wait = every; wait <= count; wait += every, tried++) {
        bool unsafe;
        bool found = findings_without(wait, &memory, &unsafe) > 0;
        flagged += found;
        if (!found)
            print_message("wait %llu: no access needs it\n", (unsigned long long)wait);
    }
    print_message("%u of %llu waits: %u flagged\n", tried, (unsigned long long)count, flagged);
    assert_true(tried > 0 && (getenv("ORR_TEST_SCENARIO") || flagged == tried));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_missing_wait_is_flagged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
