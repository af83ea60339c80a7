/* Fused and captured functions called by several hosts: a call acts as one, whoever else runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

/* Three hosts: what they get is what the operators give one by one. */
#define COMPARE                                                                                    \
    "local w = orrery.randn{ shape = {16, 16}, seed = 1 }\n"                                       \
    "local function plain(x) return orrery.relu(x:matmul(w)) + 1 * x end\n"                        \
    "local function same(a, b)\n"                                                                  \
    "    a, b = a:future():get(), b:future():get()\n"                                              \
    "    for i = 1, #a do if a[i] ~= b[i] then return false end end\n"                             \
    "    return true\n"                                                                            \
    "end\n"                                                                                        \
    "orrery.host(function(rank)\n"                                                                 \
    "    local own = orrery.%s(plain, { fusion = 'epilogue' })\n"                                  \
    "    for i = 1, 4 do\n"                                                                        \
    "        orrery.spend(700 * (rank + 1))\n"                                                     \
    "        local x = orrery.randn{ shape = {4, 16}, seed = 10 * rank + i }\n"                    \
    "        print(rank, i, same(own(x), plain(x)))\n"                                             \
    "    end\n"                                                                                    \
    "end, 3)\n"                                                                                    \
    "orrery.join()\n"

static void compare(const char *text, uint32_t queue_depth) {
    struct play play;
    play_prepare(&play, text, 2);
    for (int i = 0; i < 2; i++)
        play.fixture.specs[i].queue_depth = queue_depth;
    play_run(&play);
    if (play.status != ORR_OK)
        fail_msg("%s", play.error.text);
    int lines = 0;
    for (const char *at = play.printed; (at = strstr(at, "true")); at++)
        lines++;
    assert_null(strstr(play.printed, "false"));
    assert_int_equal(lines, 12);
    play_end(&play);
}

static void every_host_gets_what_its_operators_give(void **state) {
    (void)state;
    char text[2048];
    const char *kinds[] = {"fuse", "capture"};
    for (int i = 0; i < 2; i++) {
        assert_in_range(snprintf(text, sizeof text, COMPARE, kinds[i]), 1, sizeof text);
        compare(text, 0);
    }
}

/* Hosts that share a captured function use its results before the next call overwrites them: in
 * turns, through a mailbox. */
static void a_captured_function_may_be_shared_in_turns(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local w = orrery.full{ shape = {2, 2}, value = 2 }\n"
                      "local f = orrery.capture(function(x) return x:matmul(w) end)\n"
                      "local turn = { [0] = orrery.mailbox(), orrery.mailbox() }\n"
                      "turn[0]:put(true)\n"
                      "orrery.host(function(rank)\n"
                      "    for i = 1, 3 do\n"
                      "        local x = orrery.full{ shape = {1, 2}, value = 10 * rank + i }\n"
                      "        turn[rank]:take()\n"
                      "        print(rank, i, f(x):future():get()[1])\n"
                      "        turn[1 - rank]:put(true)\n"
                      "    end\n"
                      "end, 2)\n"
                      "orrery.join()\n"
                      "local c = f:counts()\n"
                      "print(c.captures, c.replays)",
                      "0\t1\t4.0\n1\t1\t44.0\n0\t2\t8.0\n1\t2\t48.0\n0\t3\t12.0\n1\t3\t52.0\n"
                      "2\t4\n");
}

/* 24 kernels through a queue of 4: a replay is blocked among them, lets the other host run, and
 * goes on where it was. `operand` is the captured one, or another one, which is copied first. */
#define BLOCKED                                                                                    \
    "local x, y = orrery.ones{ shape = {65536} }, orrery.full{ shape = {65536}, value = 2 }\n"     \
    "local f = orrery.capture(function(x)\n"                                                       \
    "    for i = 1, 12 do x = x + 1 * x end\n"                                                     \
    "    return x\n"                                                                               \
    "end)\n"                                                                                       \
    "f(x)\n"                                                                                       \
    "if %s then f(y) end\n"                                                                        \
    "local log = {}\n"                                                                             \
    "orrery.host(function(rank)\n"                                                                 \
    "    if rank == 1 then\n"                                                                      \
    "        for i = 1, 3 do orrery.device(1):stream('copy'):query() end\n"                        \
    "        log[#log + 1] = 'other'\n"                                                            \
    "        %s\n"                                                                                 \
    "        return\n"                                                                             \
    "    end\n"                                                                                    \
    "    local z = f(x)\n"                                                                         \
    "    log[#log + 1] = 'replayed'\n"                                                             \
    "    print(z:future():get()[1], f:counts().replays)\n"                                         \
    "end, 2)\n"                                                                                    \
    "orrery.join()\n"                                                                              \
    "print(log[1], log[2])"

static void play_blocked(struct play *play, const char *other_operand, const char *other_call) {
    char text[2048];
    assert_in_range(snprintf(text, sizeof text, BLOCKED, other_operand, other_call), 1,
                    sizeof text - 1);
    play_prepare(play, text, 2);
    play->fixture.specs[0].queue_depth = 4;
    play_run(play);
}

static void a_replay_blocked_in_the_middle_goes_on(void **state) {
    (void)state;
    const char *operands[] = {"false", "true"};
    for (int i = 0; i < 2; i++) {
        struct play play;
        play_blocked(&play, operands[i], "");
        assert_string_equal(play.error.text, "");
        assert_string_equal(play.printed, "4096.0\t1\nother\treplayed\n");
        play_end(&play);
    }
}

static void nobody_calls_a_function_whose_call_is_blocked(void **state) {
    (void)state;
    struct play play;
    play_blocked(&play, "false", "f(x)");
    assert_string_equal(play.error.text,
                        "demo.lua:13: 'function' is being called by another host, whose call is "
                        "blocked and not complete yet");
    assert_int_equal(play.status, ORR_INVALID);
    play_end(&play);
}

static void unsupported(const char *text, uint32_t queue_depth, const char *message) {
    struct play play;
    play_prepare(&play, text, 2);
    play.fixture.specs[0].queue_depth = queue_depth;
    play_run(&play);
    assert_string_equal(play.error.text, message);
    assert_int_equal(play.status, ORR_UNSUPPORTED);
    play_end(&play);
}

static void what_would_have_to_wait_inside_is_told(void **state) {
    (void)state;
    unsupported("local x = orrery.ones{ shape = {} }\n"
                "local f = orrery.capture(function(x)\n"
                "    local y = -x\n"
                "    local v = y:future():get()\n"
                "    return y * v\n"
                "end)\n"
                "orrery.host(function(rank)\n"
                "    if rank == 0 then f(x) else orrery.device(0):sync() end\n"
                "end, 2)\n",
                0,
                "demo.lua:4: a call inside a captured or fused function has to wait, and another "
                "host has to run first: make it outside");
    unsupported("local x = orrery.ones{ shape = {4} }\n"
                "local f = orrery.fuse(function(x)\n"
                "    for i = 1, 30 do x = x:sum() + x end\n"
                "    return x\n"
                "end, { fusion = 'off' })\n"
                "orrery.host(function(rank)\n"
                "    if rank == 0 then f(x) end\n"
                "    for i = 1, 40 do orrery.device(1):stream('copy'):query() end\n"
                "end, 2)\n",
                4,
                "demo.lua:3: a launch queue is full in the middle of a compiled function, and "
                "another host has to run before there is room");
    unsupported("local x = orrery.ones{ shape = {4} }\n"
                "orrery.host(function() orrery.spend(100) end, 1)\n"
                "orrery.fuse(function(x)\n"
                "    orrery.join()\n"
                "    return -x\n"
                "end)(x)",
                0, "demo.lua:4: orrery.join can't wait inside a captured or fused function");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_gets_what_its_operators_give),
        cmocka_unit_test(a_captured_function_may_be_shared_in_turns),
        cmocka_unit_test(a_replay_blocked_in_the_middle_goes_on),
        cmocka_unit_test(nobody_calls_a_function_whose_call_is_blocked),
        cmocka_unit_test(what_would_have_to_wait_inside_is_told),
    };
    return cmocka_run_group_tests_name("compiled functions of several hosts", tests, NULL, NULL);
}
