/* `orrery explore SCENARIO` and `orrery replay` of its schedules, by running the command: exit
 * codes, what is said, the same for any number of threads, schedules that no longer fit, and files
 * that are none. Without ORRERY in the environment the release build is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support.h"

enum { OUTPUT_MAX = 1 << 18 };

struct here {
    char folder[64], command[2048];
    char out[OUTPUT_MAX], err[OUTPUT_MAX];
    int exit;
};

static void read_back(const struct here *here, const char *name, char *text, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", here->folder, name);
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file)
        fclose(file);
}

static void write_text(const struct here *here, const char *name, const char *text, size_t length) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", here->folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Runs "orrery ARGUMENTS" in the folder. */
static int orrery(struct here *here, const char *arguments) {
    char line[8192];
    snprintf(line, sizeof line, "cd '%s' && '%s' %s >.out 2>.err </dev/null", here->folder,
             here->command, arguments);
    int status = system(line);
    assert_true(WIFEXITED(status));
    here->exit = WEXITSTATUS(status);
    read_back(here, ".out", here->out, sizeof here->out);
    read_back(here, ".err", here->err, sizeof here->err);
    return here->exit;
}

static void expect_text(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("no '%s' in:\n%s", part, text);
}

static const char race[] = "local p = orrery.args{ fixed = false }\n"
                           "local s = orrery.device(0):stream('compute')\n"
                           "local c = orrery.device(0):stream('copy')\n"
                           "local a, h = s:alloc(64, 'a'), orrery.host_alloc(64)\n"
                           "s:kernel{ name = 'produce', writes = a, ns = 100 }\n"
                           "if p.fixed then c:wait(s:record()) end\n"
                           "c:copy{ from = a, to = h }\n"
                           "c:sync()\n"
                           "print(h:f32())\n";

static int open_here(void **state) {
    struct here *here = test_calloc(1, sizeof *here);
    char working[1024];
    const char *given = getenv("ORRERY");
    assert_non_null(getcwd(working, sizeof working));
    if (given)
        snprintf(here->command, sizeof here->command, "%s", given);
    else
        snprintf(here->command, sizeof here->command, "%s/build/release/orrery", working);
    snprintf(here->folder, sizeof here->folder, "/tmp/orrery-explore-XXXXXX");
    assert_non_null(mkdtemp(here->folder));
    write_text(here, "race.lua", race, sizeof race - 1);
    *state = here;
    return 0;
}

static int close_here(void **state) {
    struct here *here = *state;
    char line[256];
    snprintf(line, sizeof line, "rm -rf '%s'", here->folder);
    assert_int_equal(system(line), 0);
    test_free(here);
    return 0;
}

static void a_race_is_found_and_its_fix_is_clean(void **state) {
    struct here *here = *state;
    assert_int_equal(orrery(here, "explore race.lua"), 1);
    expect_text(here->out, "race.lua: 2 executions, 2 distinct orders: all there are");
    expect_text(here->out, "race: nothing orders 'produce' at race.lua:5 (compute of device 0) and "
                           "'copy' at race.lua:7 (copy of device 0), which touch bytes [0, 64) of "
                           "'a' (RAW); the other order gives other numbers");
    expect_text(here->out, "undefined-read: 'copy' at race.lua:7");
    assert_int_equal(orrery(here, "explore race.lua fixed=true"), 0);
    assert_string_equal(here->out, "race.lua: 1 execution, 1 distinct order: all there are\n");
    assert_int_equal(orrery(here, "explore race.lua --json"), 1);
    expect_text(here->out, "\"executions\": 2, \"orders\": 2, \"abandoned\": 0, \"hangs\": 0, "
                           "\"results\": 2, \"capped\": false");
    assert_string_equal(here->err, "");
}

static void a_budget_ends_it_and_says_so(void **state) {
    struct here *here = *state;
    static const char many[] = "local d = orrery.device(0)\n"
                               "local a = d:alloc(64, 'a')\n"
                               "for i = 1, 4 do local s = d:stream('s' .. i)\n"
                               "for k = 1, 2 do s:kernel{ name = 'k' .. i, writes = a } end end\n";
    write_text(here, "many.lua", many, sizeof many - 1);
    assert_int_equal(orrery(here, "explore many.lua --budget 100"), 1);
    expect_text(here->out, "many.lua: 100 executions, 100 distinct orders of more: the budget");
    assert_int_equal(orrery(here, "explore many.lua --budget 100 --json"), 1);
    expect_text(here->out, "\"capped\": true");
    assert_int_equal(orrery(here, "explore many.lua"), 1);
    expect_text(here->out, "2520 executions, 2520 distinct orders: all there are"); /* 8!/2^4 */
}

static void the_number_of_threads_changes_nothing(void **state) {
    struct here *here = *state;
    static const char *const searches[] = {"", "--budget 2300", "--strategy pct --budget 500",
                                           "--strategy random --budget 500 --seed 3"};
    for (int i = 0; i < 4; i++) {
        char line[256];
        char *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            snprintf(line, sizeof line, "explore many.lua --threads %d --json %s", threads,
                     searches[i]);
            assert_int_equal(orrery(here, line), 1);
            if (threads == 1)
                first = strdup(here->out);
            else
                assert_string_equal(here->out, first);
        }
        free(first);
    }
}

static void a_schedule_is_replayed_to_the_same_result(void **state) {
    struct here *here = *state;
    assert_int_equal(orrery(here, "explore race.lua --out race.schedule"), 1);
    assert_int_equal(orrery(here, "replay race.schedule"), 1);
    expect_text(here->out, "race.lua: replayed\nwrong-numbers: the host reads something else at "
                           "race.lua:9 than in the default schedule\n");
    char *first = strdup(here->out);
    assert_int_equal(orrery(here, "replay race.schedule race.lua"), 1);
    assert_string_equal(here->out, first);
    free(first);
    assert_int_equal(orrery(here, "replay race.schedule --json"), 1);
    expect_text(here->out, "\"kind\": \"wrong-numbers\"");
}

/* Replaces a piece of the race's text, and replays the schedule of before. */
static void replay_changed(struct here *here, const char *piece, const char *other) {
    char text[2048];
    const char *at = strstr(race, piece);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - race), race, other, at + strlen(piece));
    write_text(here, "changed.lua", text, strlen(text));
    assert_int_equal(orrery(here, "replay race.schedule changed.lua"), 3);
    assert_string_equal(here->out, "");
    expect_text(here->err, "orrery: race.schedule: schedule no longer fits: ");
    assert_ptr_equal(strchr(here->err, '\n'), here->err + strlen(here->err) - 1); /* one line */
}

static void an_edit_makes_a_schedule_not_fit(void **state) {
    struct here *here = *state;
    replay_changed(here, "c:sync()", "-- another line\nc:sync()");
    expect_text(here->err, "step 3 wants 'hostread' by host at race.lua:9, but it is 'hostread' by "
                           "host at changed.lua:10");
    replay_changed(here, "'produce'", "'make'");
    replay_changed(here, "if p.fixed", "if true");
    replay_changed(here, "print(h:f32())", "print(h:f32()) s:kernel{ name = 'k', writes = a }");
    expect_text(here->err, "it had 3 steps, and there are 4 now");
    replay_changed(here, "print(h:f32())", "print(h:f32(), 1)");
    expect_text(here->err, "the same steps have another result now");
}

static void files_that_are_no_schedules_are_refused(void **state) {
    struct here *here = *state;
    char text[8192];
    read_back(here, "race.schedule", text, sizeof text);
    size_t length = strlen(text);
    for (size_t cut = 40; cut < length - 2; cut += 97) {
        write_text(here, "cut.schedule", text, cut);
        assert_int_equal(orrery(here, "replay cut.schedule"), 3);
        assert_string_equal(here->out, "");
        expect_text(here->err, "orrery: cut.schedule: ");
    }
    static const char *const wrong[] = {
        "{\"orrery_scenario_schedule\": 2, \"scenario\": \"race.lua\", \"devices\": \"cpu\"}",
        "{\"orrery_scenario_schedule\": 1, \"scenario\": \"race.lua\"}",
        "{\"orrery_scenario_schedule\": 1, \"scenario\": [1], \"devices\": \"sim:h100\"}",
        "{\"orrery_scenario_schedule\": 1, \"scenario\": \"race.lua\", \"devices\": \"sim:h100\", "
        "\"steps\": [{\"process\": 99}]}",
        "{\"orrery_scenario_schedule\": 1, \"scenario\": \"race.lua\", \"devices\": \"sim:h100\", "
        "\"steps\": [[[{\"process\": 1}]]]}",
        "{\"orrery_scenario_schedule\": 1, \"scenario\": \"gone.lua\", \"devices\": \"sim:h100\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text(here, "wrong.schedule", wrong[i], strlen(wrong[i]));
        assert_int_equal(orrery(here, "replay wrong.schedule"), 3);
        assert_string_equal(here->out, "");
    }
}

static void wrong_usage_and_wrong_scenarios_are_told(void **state) {
    struct here *here = *state;
    assert_int_equal(orrery(here, "explore race.lua --strategy dpo"), 2);
    expect_text(here->err, "did you mean 'dpor'?");
    assert_int_equal(orrery(here, "explore race.lua --budget 0"), 2);
    assert_int_equal(orrery(here, "explore race.lua fixd=true"), 2);
    expect_text(here->err, "did you mean 'fixed'?");
    assert_int_equal(orrery(here, "explore gone.lua"), 3);
    assert_int_equal(orrery(here, "explore race.lua --devices sim:h10"), 3);
    write_text(here, "wrong.lua", "orrery.device(0):strem()", 24);
    assert_int_equal(orrery(here, "explore wrong.lua"), 3);
    expect_text(here->err, "orrery: wrong.lua:1: device has no 'strem'; did you mean 'stream'?");
    write_text(here, "mine.txt", "mine", 4);
    assert_int_equal(orrery(here, "explore race.lua --out mine.txt"), 4);
    read_back(here, "mine.txt", here->out, sizeof here->out);
    assert_string_equal(here->out, "mine");
}

/* Ranks that wait for each other in mailboxes: what was in vain in one execution is not in the
 * next, and clocks must not depend on it. */
static void a_ring_of_ranks_has_one_order_and_no_race(void **state) {
    struct here *here = *state;
    char working[1024], line[2048];
    assert_non_null(getcwd(working, sizeof working));
    snprintf(line, sizeof line, "explore '%s/scenarios/streams/rank_programs.lua'", working);
    assert_int_equal(orrery(here, line), 0);
    expect_text(here->out, " 1 distinct order: all there are");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_race_is_found_and_its_fix_is_clean),
        cmocka_unit_test(a_budget_ends_it_and_says_so),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(a_schedule_is_replayed_to_the_same_result),
        cmocka_unit_test(an_edit_makes_a_schedule_not_fit),
        cmocka_unit_test(files_that_are_no_schedules_are_refused),
        cmocka_unit_test(wrong_usage_and_wrong_scenarios_are_told),
        cmocka_unit_test(a_ring_of_ranks_has_one_order_and_no_race),
    };
    return cmocka_run_group_tests(tests, open_here, close_here);
}
