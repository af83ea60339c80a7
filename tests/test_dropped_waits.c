/* Training with one wait left out, each in turn: the check flags it, or the wait ordered nothing that
 * was not ordered without it, or nothing that needs the order: the exact check of the run's stream
 * program then agrees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hazards/check.h"
#include "hazards/monitor_internal.h"
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

enum { WAITS_MAX = 1 << 17, SCENARIO_MAX = 1 << 16 };

/* Tells a monitor, and looks at each wait before it is told. */
struct looker {
    struct orr_observer observer; /* first */
    struct orr_monitor *monitor;
    uint32_t count;
    bool is_new[WAITS_MAX]; /* the wait orders what was not ordered yet; from 1 */
};

static bool is_known(struct orr_monitor *monitor, const struct orr_observed_command *command,
                     const struct orr_point *point) {
    const struct orr__actor *stream = orr__monitor_stream(monitor, command->stream);
    const struct orr__actor *host = orr__monitor_host(monitor, command->host);
    uint32_t source = orr__actor_index(monitor, orr__monitor_stream(monitor, point->stream));
    return orr__shared_clock_get(&stream->clock, source) >= (int32_t)point->seq ||
           orr__shared_clock_get(&host->clock, source) >= (int32_t)point->seq;
}

static void look(struct orr_observer *observer, const struct orr_observed_command *command) {
    struct looker *looker = (struct looker *)(void *)observer;
    struct orr_observer *told = orr_monitor_observer(looker->monitor);
    for (uint32_t i = 0; command->stream != ORR_ID_NONE && i < command->wait_count; i++) {
        const struct orr_point *point = &command->waits[i];
        if (point->seq == 0 || point->stream == command->stream)
            continue;
        assert_true(++looker->count < WAITS_MAX);
        looker->is_new[looker->count] = !is_known(looker->monitor, command, point);
    }
    told->names = observer->names;
    told->command(told, command);
}

/* Everything but commands goes to the monitor as it is. */
#define FORWARD(name, arguments, ...)                                                              \
    static void forward_##name arguments {                                                         \
        struct orr_observer *told = orr_monitor_observer(((struct looker *)(void *)o)->monitor);   \
        told->names = o->names;                                                                    \
        told->name(told, __VA_ARGS__);                                                             \
    }

FORWARD(stream, (struct orr_observer * o, const struct orr_record_stream *a), a)
FORWARD(host, (struct orr_observer * o, const struct orr_observed_host *a), a)
FORWARD(buffer, (struct orr_observer * o, const struct orr_observed_buffer *a), a)
FORWARD(free, (struct orr_observer * o, uint64_t a, uint64_t b, uint32_t c, uint32_t d), a, b, c, d)
FORWARD(record_stream, (struct orr_observer * o, uint64_t a, uint32_t b), a, b)
FORWARD(observed, (struct orr_observer * o, uint32_t a, const struct orr_point *b, uint32_t c), a,
        b, c)
FORWARD(posted, (struct orr_observer * o, uint32_t a, uint64_t b), a, b)
FORWARD(taken, (struct orr_observer * o, uint32_t a, uint64_t b), a, b)

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

static void look_at_all(struct looker *looker, const struct orr_memory *memory) {
    struct play play;
    *looker = (struct looker){.observer = {.stream = forward_stream,
                                           .host = forward_host,
                                           .buffer = forward_buffer,
                                           .free = forward_free,
                                           .record_stream = forward_record_stream,
                                           .command = look,
                                           .observed = forward_observed,
                                           .posted = forward_posted,
                                           .taken = forward_taken}};
    assert_int_equal(orr_monitor_create(memory, NULL, &looker->monitor), ORR_OK);
    play_with(&play, &looker->observer, 0);
    assert_int_equal(orr_monitor_finding_count(looker->monitor), 0);
    assert_int_equal(orr_runtime_wait_count(play.fixture.runtime), looker->count);
    play_end(&play);
    orr_monitor_destroy(&looker->monitor);
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
    if (*out_unsafe != (count > unordered_frees))
        fail_msg("wait %llu: the exact check says %s, the monitor has %zu findings",
                 (unsigned long long)drop, orr_check_verdict_text(verdict.kind), count);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
    play_end(&play);
    orr_recorder_destroy(&recorder);
    orr_monitor_destroy(&monitor);
    return count;
}

static void each_missing_wait_is_flagged_or_was_redundant(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    static struct looker looker;
    look_at_all(&looker, &memory);
    uint32_t flagged = 0, known = 0, unneeded = 0;
    uint32_t every = number("ORR_TEST_EVERY", 1), tried = 0;
    for (uint32_t wait = every; wait <= looker.count; wait += every, tried++) {
        bool unsafe;
        size_t findings = findings_without(wait, &memory, &unsafe);
        if (findings > 0 && !looker.is_new[wait])
            fail_msg("wait %u ordered nothing new, but without it something is found", wait);
        flagged += findings > 0;
        known += !looker.is_new[wait];
        unneeded += findings == 0 && looker.is_new[wait];
    }
    print_message("%u of %u waits: %u flagged, %u ordered nothing new, %u not needed\n", tried,
                  looker.count, flagged, known, unneeded);
    assert_true(flagged > tried / 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_missing_wait_is_flagged_or_was_redundant)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
