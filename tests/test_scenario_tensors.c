/* The binding of tensors, operators and compiled functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

static void operators_are_functions_and_methods(void **state) {
    (void)state;
    expect_printed("local x = orrery.tensor{ shape = {2}, values = {1, -2} }\n"
                   "local y = orrery.relu(x) + x:neg() * 2\n"
                   "local v = y:future():get()\n"
                   "print(v[1], v[2])",
                   "-1.0\t4.0\n");
}

static void what_the_runtime_sets_for_pieces_is_no_attribute_of_authors(void **state) {
    (void)state;
    expect_failure("orrery.randn{ shape = {2}, starts = {1} }",
                   "demo.lua:1: unknown key 'starts' in randn; known: shape, dtype, seed, "
                   "mesh, place");
    expect_printed("local x = orrery.tensor{ shape = {3}, values = {1, 2, 3} }\n"
                   "print(x:slice{ starts = {1}, ends = {2} }:future():get()[1])",
                   "2.0\n");
}

static void a_compiled_function_returns_live_tensors(void **state) {
    (void)state;
    static const char message[] =
        "demo.lua:3: a compiled function must return live tensors only, at most 64";
    expect_failure("local x = orrery.ones{ shape = {2} }\n"
                   "local f = orrery.fuse(function(x) return x:neg(), 1 end)\n"
                   "f(x)",
                   message);
    expect_failure("local x = orrery.ones{ shape = {2} }\n"
                   "local f = orrery.fuse(function(x) local y = x:neg(); y:free(); return y end)\n"
                   "f(x)",
                   message);
    expect_failure("local x = orrery.ones{ shape = {2} }\n"
                   "local f = orrery.fuse(function(x) return x .. 1 end)\n"
                   "f(x)",
                   "demo.lua:2: attempt to concatenate a orrery.tensor value (local 'x')");
}

/* Lua reports a lack of memory by jumping out of its call, which must not be the runtime's: with
 * any limit, a function that could not be traced leaves the rest of the program as it was. */
static void tracing_may_run_out_of_memory_anywhere(void **state) {
    (void)state;
    static const char text[] = "local f = orrery.capture(function(x) return x:relu() end)\n"
                               "local x = orrery.ones{ shape = {2} }\n"
                               "local traced = pcall(f, x)\n"
                               "if not traced then f = nil end\n"
                               "print(x:neg():future():get()[1], traced)";
    int failed = 0, went_on = 0;
    bool traced = false;
    for (uint64_t limit = 16384; !traced; limit += 32) {
        struct play play;
        play_prepare(&play, text, 1);
        play.config.memory_max = limit;
        play_run(&play);
        traced = strcmp(play.printed, "-1.0\ttrue\n") == 0;
        if (play.status != ORR_OK) {
            assert_non_null(strstr(play.error.text, "more than its limit"));
            failed++;
        } else if (!traced) {
            assert_string_equal(play.printed, "-1.0\tfalse\n");
            went_on++;
        }
        play_end(&play);
    }
    assert_true(failed > 100 && went_on > 0);
}

static void a_scope_frees_what_was_made_inside_but_its_results(void **state) {
    (void)state;
    expect_printed("local inner\n"
                   "local kept = orrery.scope(function()\n"
                   "    local x = orrery.ones{ shape = {2} }\n"
                   "    inner = orrery.scope(function() return x:neg(), x:neg() end)\n"
                   "    return inner\n"
                   "end)\n"
                   "print(kept, inner)\n"
                   "kept:free()\n"
                   "print(orrery.device(0):memory().requested)",
                   "tensor [2] f32 R\ttensor [2] f32 R\n0\n");
}

static void an_error_ends_a_scope_as_well(void **state) {
    (void)state;
    expect_printed("local outer\n"
                   "orrery.scope(function()\n"
                   "    outer = orrery.ones{ shape = {2} }\n"
                   "    print(pcall(orrery.scope, function() outer:neg(); error('no', 0) end))\n"
                   "    print(orrery.device(0):memory().requested)\n"
                   "end)\n"
                   "print(outer, orrery.device(0):memory().requested)\n"
                   "local x = orrery.ones{ shape = {2} }\n"
                   "print(x)",
                   "false\tno\n8\ntensor (freed)\t0\ntensor [2] f32 R\n");
}

/* The first host stays in its scope while the second one makes a tensor outside of any. */
static void a_scope_is_its_hosts_own(void **state) {
    (void)state;
    expect_printed("orrery.host(function(rank)\n"
                   "    if rank == 0 then\n"
                   "        orrery.scope(function()\n"
                   "            local x = orrery.ones{ shape = {2} }\n"
                   "            orrery.device(0):sync()\n"
                   "            orrery.spend(10000)\n"
                   "        end)\n"
                   "    else\n"
                   "        local y = orrery.ones{ shape = {2} }\n"
                   "        orrery.spend(1000000)\n"
                   "        print(y)\n"
                   "    end\n"
                   "end, 2)\n",
                   "tensor [2] f32 R\n");
}

/* A name in the place of the stream's number would be that of something else. */
static void a_future_that_is_waited_for_has_no_name_in_the_trace(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play,
                 "local x = orrery.tensor{ shape = {2}, values = {1, 2} }\n"
                 "local f = x:neg():future()\n"
                 "orrery.spend(1000000)\n"
                 "print(f:ready(), f:get()[2])",
                 2);
    play_run(&play);
    assert_int_equal(play.status, ORR_OK);
    assert_string_equal(play.printed, "true\t-2.0\n");
    size_t count = record_count(&play.fixture, ORR_RECORD_SYNC);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        const struct orr_record_sync *sync = record_at(&play.fixture, ORR_RECORD_SYNC, i);
        assert_int_equal(sync->header.a, ORR_SYNC_FUTURE);
        assert_int_equal(sync->target, 0);
    }
    play_end(&play);
}

/* Runs without numbers may wait for values; both take the same time. */
static void waiting_for_a_future_takes_as_long_without_values(void **state) {
    (void)state;
    const char *text = "local x = orrery.tensor{ shape = {2, 3}, values = %s }\n"
                       "local f = x:future()\n"
                       "f:wait()\n"
                       "print(orrery.now(), x:bytes(), x:bytes(0))\n"
                       "if not orrery.timing_only then print(f:get()[6]) end\n";
    char with[512], without[512], times[64];
    snprintf(with, sizeof with, text, "{1, 2, 3, 4, 5, 6}");
    snprintf(without, sizeof without, text, "nil");
    struct play play;
    play_text(&play, with);
    assert_int_equal(play.status, ORR_OK);
    size_t length = strcspn(play.printed, "\n") + 1;
    snprintf(times, sizeof times, "%.*s", (int)length, play.printed);
    assert_non_null(strstr(times, "\t24\t24\n"));
    assert_string_equal(play.printed + length, "6.0\n");
    play_end(&play);
    play_prepare(&play, without, 1);
    play.fixture.config.timing_only = true;
    play_run(&play);
    assert_int_equal(play.status, ORR_OK);
    assert_string_equal(play.printed, times);
    play_end(&play);
    expect_failure(without, "demo.lua:1: orrery.tensor: values: expected a list of 6 numbers, got "
                            "nil");
}

static void the_devices_own_streams_keep_their_names(void **state) {
    (void)state;
    expect_failure("orrery.device(0):stream('copy', 'compute')",
                   "demo.lua:1: stream: 'copy' is the device's own copy stream");
    expect_printed("print(orrery.device(0):stream('copy', 'copy'):name())", "copy\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_are_functions_and_methods),
        cmocka_unit_test(what_the_runtime_sets_for_pieces_is_no_attribute_of_authors),
        cmocka_unit_test(a_compiled_function_returns_live_tensors),
        cmocka_unit_test(tracing_may_run_out_of_memory_anywhere),
        cmocka_unit_test(a_scope_frees_what_was_made_inside_but_its_results),
        cmocka_unit_test(an_error_ends_a_scope_as_well),
        cmocka_unit_test(a_scope_is_its_hosts_own),
        cmocka_unit_test(a_future_that_is_waited_for_has_no_name_in_the_trace),
        cmocka_unit_test(waiting_for_a_future_takes_as_long_without_values),
        cmocka_unit_test(the_devices_own_streams_keep_their_names),
    };
    return cmocka_run_group_tests_name("scenario_tensors", tests, NULL, NULL);
}
