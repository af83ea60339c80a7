/* Scenarios: the sandbox, errors with their place, and the binding of streams, events, buffers,
 * collectives, hosts and expectations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

/* --- the sandbox --- */

static void there_is_no_door_to_the_outside(void **state) {
    (void)state;
    expect_printed("print(io, os, debug, package, load, loadfile, dofile, collectgarbage, warn)\n"
                   "print(string.dump, math.randomseed)",
                   "nil\tnil\tnil\tnil\tnil\tnil\tnil\tnil\tnil\nnil\tnil\n");
}

static void a_syntax_error_names_file_and_line(void **state) {
    (void)state;
    expect_failure("local a = 1\nlocal b = = 2\n", "demo.lua:2: unexpected symbol near '='");
}

static void compiled_lua_is_refused(void **state) {
    (void)state;
    expect_failure("\x1bLua anything", "demo.lua: compiled Lua is not accepted; expected a text");
}

static void expect_endless(const char *text, const char *message) {
    struct play play;
    play_prepare(&play, text, 1);
    play.config.instructions_max = 200000;
    play_run(&play);
    assert_int_equal(play.status, ORR_INVALID);
    assert_string_equal(play.error.text, message);
    play_end(&play);
}

static void an_endless_loop_ends_whatever_surrounds_it(void **state) {
    (void)state;
#define LIMIT                                                                                      \
    "the scenario ran for more than its limit of 200000 instructions; is there an endless loop?"
    expect_endless("local a = 1\nwhile true do end", "demo.lua:2: " LIMIT);
    expect_endless("while true do\npcall(function() while true do end end) end",
                   "demo.lua:2: " LIMIT);
    expect_endless("while true do\n"
                   "xpcall(function() while true do end end, function(m) return m end) end",
                   "demo.lua:2: " LIMIT);
    expect_endless("while true do coroutine.resume(coroutine.create(function()\n"
                   "while true do end end)) end",
                   "demo.lua:2: " LIMIT);
#undef LIMIT
}

static void memory_has_a_limit(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play, "local t = {}\nfor i = 1, 1e9 do\nt[i] = string.rep('x', 1000) .. i\nend",
                 1);
    play.config.memory_max = 4 << 20;
    play_run(&play);
    assert_int_equal(play.status, ORR_INVALID);
    assert_string_equal(play.error.text,
                        "demo.lua:3: the scenario needs more than its limit of 4194304 bytes of "
                        "memory");
    play_end(&play);
}

static void pairs_and_next_go_in_the_order_of_sorted_keys(void **state) {
    (void)state;
    expect_printed("local t = {zeta = 1, alpha = 2, [true] = 3, [10] = 4, [2] = 5, [2.5] = 6, 7}\n"
                   "for k, v in pairs(t) do print(k, v) end\n"
                   "local k, n = next(t), 0\n"
                   "while k ~= nil do n = n + 1; k = next(t, k) end\n"
                   "print(n, next({}), next(t))\n"
                   "for k in pairs(t) do t[k] = nil end\n"
                   "print(next(t))",
                   "1\t7\n2\t5\n2.5\t6\n10\t4\nalpha\t2\nzeta\t1\ntrue\t3\n"
                   "7\tnil\t1\t7\nnil\n");
}

static void handles_are_keys_in_order_of_their_creation(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local a = orrery.device(0):stream('compute')\n"
                      "local b = orrery.device(1):stream('compute')\n"
                      "local t = {[b] = 'second', [a] = 'first'}\n"
                      "for k, v in pairs(t) do print(k, v) end",
                      "stream compute of device 0\tfirst\nstream compute of device 1\tsecond\n");
    expect_failure("local t = {}\nt[{}] = 1\nfor k in pairs(t) do end",
                   "demo.lua:3: pairs: a table as a key has no order; use numbers, texts, booleans "
                   "or handles");
}

static void a_pairs_metamethod_is_used(void **state) {
    (void)state;
    expect_printed("local t = setmetatable({}, {__pairs = function(t)\n"
                   "return function(_, k) if not k then return 1, 'one' end end, t, nil end})\n"
                   "for k, v in pairs(t) do print(k, v) end",
                   "1\tone\n");
}

static void texts_show_no_addresses(void **state) {
    (void)state;
    expect_printed("print({}, print, coroutine.create(print), orrery.device(0))\n"
                   "print(tostring({}), string.format('%s %5s %d%%', {}, print, 3))\n"
                   "print(setmetatable({}, {__tostring = function() return 'mine' end}))\n"
                   "print(setmetatable({}, {__name = 'Named'}))",
                   "table\tfunction\tthread\tdevice 0\ntable\ttable function 3%\nmine\nNamed\n");
    expect_failure("print(string.format('%10p', {}))",
                   "demo.lua:1: string.format: %p would show an address");
}

static void random_numbers_come_from_the_seed(void **state) {
    (void)state;
    const char *text = "print(math.random(1000000), math.random(1000000), math.random())";
    char first[8192];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct play play;
        play_prepare(&play, text, 1);
        play.fixture.config.seed = seed == 3 ? 1 : seed;
        play_run(&play);
        if (seed == 1)
            memcpy(first, play.printed, sizeof first);
        else if (seed == 2)
            assert_string_not_equal(play.printed, first);
        else
            assert_string_equal(play.printed, first);
        play_end(&play);
    }
}

static void finalizers_and_weak_tables_are_refused(void **state) {
    (void)state;
    expect_failure("setmetatable({}, {__gc = print})",
                   "demo.lua:1: __gc would depend on the garbage collector; use <close>");
    expect_failure("setmetatable({}, {__mode = 'k'})",
                   "demo.lua:1: __mode would depend on the garbage collector; use <close>");
}

static void the_library_is_the_only_thing_to_require(void **state) {
    (void)state;
    expect_printed("local a, b = require 'ranks', require 'ranks'\nprint(a == b, type(a.world))",
                   "true\tfunction\n");
    struct play play;
    play_text(&play, "require 'rank'");
    assert_string_equal(play.error.text,
                        "demo.lua:1: require: the library has no 'rank'; did you mean 'ranks'?");
    play_end(&play);
}

static void coroutines_work_as_usual(void **state) {
    (void)state;
    expect_printed(
        "local co = coroutine.create(function(a, b)\n"
        "  local c = coroutine.yield(a + b)\n"
        "  local d = coroutine.yield(c * 2)\n"
        "  return d, 'end'\n"
        "end)\n"
        "print(coroutine.resume(co, 1, 2))\n"
        "print(coroutine.resume(co, 10))\n"
        "print(coroutine.resume(co, 'x'))\n"
        "print(coroutine.resume(co))\n"
        "local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)\n"
        "print(gen(), gen(), gen())\n"
        "print(pcall(coroutine.wrap(function() error('inside', 0) end)))",
        "true\t3\ntrue\t20\ntrue\tx\tend\nfalse\tcannot resume dead coroutine\n"
        "1\t2\t3\nfalse\tinside\n");
    expect_failure("\ncoroutine.yield(1)", "demo.lua:2: coroutine.yield outside a coroutine");
}

static void pcall_and_xpcall_work_as_usual(void **state) {
    (void)state;
    expect_printed(
        "print(pcall(error, 'a', 0))\n"
        "print(pcall(function(...) return select('#', ...), ... end, 1, nil))\n"
        "print(xpcall(function(x) error(x, 0) end, function(m) return '<' .. m .. '>' end, 'b'))\n"
        "print(xpcall(function(x) return x end, print, 5))\n"
        "print(select(2, pcall(error, {code = 7})).code)",
        "false\ta\ntrue\t2\t1\tnil\nfalse\t<b>\ntrue\t5\n7\n");
}

/* --- errors and their place --- */

static void an_error_is_at_the_innermost_frame_of_the_file(void **state) {
    (void)state;
    expect_failure("local function inner(t)\n  return t.x.y\nend\nlocal v = inner({})",
                   "demo.lua:2: attempt to index a nil value (field 'x')");
    expect_failure("local function inner()\n  orrery.device(9)\nend\n\ninner()",
                   "demo.lua:2: orrery.device: there is no device 9; this run has 2, counted from "
                   "0 (--devices)");
    expect_failure("local f = coroutine.wrap(function()\n  orrery.device('a')\nend)\nf()",
                   "demo.lua:2: orrery.device: expected a whole number, got string");
    expect_failure("error('why')", "demo.lua:1: why");
    expect_failure("\nerror({})", "demo.lua:2: error with a value that is no text");
    expect_failure("\nerror()", "demo.lua:2: error without a message");
}

static void an_error_in_the_library_is_at_the_callers_line(void **state) {
    (void)state;
    expect_failure("local ranks = require 'ranks'\n\nranks.world({0, 7})",
                   "demo.lua:3: orrery.device: there is no device 7; this run has 2, counted from "
                   "0 (--devices)");
    struct play play;
    play_text(&play, "local ranks = require 'ranks'\nlocal w = ranks.world()\nw:each(nil)");
    const char *place = "demo.lua:3: library/ranks.lua:";
    assert_int_equal(strncmp(play.error.text, place, strlen(place)), 0);
    assert_non_null(strstr(play.error.text, ": attempt to call a nil value (local 'f')"));
    play_end(&play);
}

static void a_long_path_is_whole_in_messages(void **state) {
    (void)state;
    char path[300], wanted[400];
    memset(path, 'p', sizeof path - 1);
    memcpy(path + sizeof path - 5, ".lua", 5);
    const char *texts[] = {"local x = nil + 1", "local x = ="};
    const char *messages[] = {"attempt to perform arithmetic on a nil value",
                              "unexpected symbol near '='"};
    for (int i = 0; i < 2; i++) {
        struct play play;
        play_prepare(&play, texts[i], 1);
        play.config.path = path;
        play_run(&play);
        snprintf(wanted, sizeof wanted, "%s:1: %s", path, messages[i]);
        assert_int_equal(strncmp(play.error.text, wanted, strlen(wanted)), 0);
        play_end(&play);
    }
}

static void a_wrong_name_is_answered_with_the_nearest(void **state) {
    (void)state;
    expect_failure("local d = orrery.devise(0)",
                   "demo.lua:1: orrery has no 'devise'; did you mean 'device'?");
    expect_failure("local s = orrery.device(0):stream()\ns:kernal{}",
                   "demo.lua:2: stream has no 'kernal'; did you mean 'kernel'?");
    expect_failure("expect.equals(1, 1)",
                   "demo.lua:1: expect has no 'equals'; did you mean 'equal'?");
    expect_failure("orrery.device(0):stream():kernel{ name = 'k', raeds = {} }",
                   "demo.lua:1: unknown key 'raeds' in kernel; did you mean 'reads'?");
    expect_failure("orrery.device(0):stream('x', 'compute_')",
                   "demo.lua:1: unknown kind of stream 'compute_'; did you mean 'compute'?");
    expect_failure("orrery.device(0):stream():kernel{ dtype = 'bf61', flops = 1 }",
                   "demo.lua:1: kernel: unknown dtype 'bf61'; did you mean 'bf16'?");
    expect_failure(
        "expect.phase(0, 'launchbound')",
        "demo.lua:1: unknown class of phase 'launchbound'; did you mean 'launch-bound'?");
    expect_failure("orrery.now = 3", "demo.lua:1: orrery can't be changed");
}

static void a_wrong_type_is_answered_with_the_expected_one(void **state) {
    (void)state;
    expect_failure("orrery.device(0):stream():kernel(5)",
                   "demo.lua:1: kernel takes a table of named arguments, got number");
    expect_failure("orrery.device(0):stream():kernel{ 'k' }",
                   "demo.lua:1: kernel takes named arguments only, such as 'name ='");
    expect_failure("orrery.device(0):stream():kernel{ flops = 1.5 }",
                   "demo.lua:1: kernel: flops: expected a whole number below 2^63, got 1.5");
    expect_failure("orrery.device(0):stream():kernel{ flops = -1 }",
                   "demo.lua:1: kernel: flops: -1 is not within 0 and 9223372036854775807");
    expect_failure("orrery.device(0):stream():kernel{ flops = '7' }",
                   "demo.lua:1: kernel: flops: expected a whole number, got string");
    expect_failure("orrery.device(0):stream():wait(orrery.device(1))",
                   "demo.lua:1: wait: expected a event, got device");
    expect_failure("local d = orrery.device(0)\nd.stream(5)",
                   "demo.lua:2: device: expected a device, got number");
    expect_failure("orrery.device(0):stream():kernel{ reads = { {} } }",
                   "demo.lua:1: kernel: reads: expected a buffer or {buffer, lo, hi}, got a table "
                   "of 0 values");
}

/* --- arguments --- */

static void play_arguments(struct play *play, const char *text, const char *key,
                           const char *value) {
    static struct orr_scenario_argument argument;
    argument = (struct orr_scenario_argument){key, value};
    play_prepare(play, text, 1);
    play->config.arguments = &argument;
    play->config.argument_count = 1;
    play_run(play);
}

static const char args_text[] =
    "local p = orrery.args{ count = 3, share = 0.5, name = 'a', on = false }\n"
    "print(p.count, math.type(p.count), p.share, p.name, p.on)";

static void expect_argument(const char *key, const char *value, const char *printed) {
    struct play play;
    play_arguments(&play, args_text, key, value);
    assert_int_equal(play.status, ORR_OK);
    assert_string_equal(play.printed, printed);
    play_end(&play);
}

static void arguments_have_the_type_of_their_default(void **state) {
    (void)state;
    expect_printed(args_text, "3\tinteger\t0.5\ta\tfalse\n");
    expect_argument("count", "12", "12\tinteger\t0.5\ta\tfalse\n");
    expect_argument("count", "1e3", "1000\tinteger\t0.5\ta\tfalse\n");
    expect_argument("count", "0x10", "16\tinteger\t0.5\ta\tfalse\n");
    expect_argument("share", "2", "3\tinteger\t2.0\ta\tfalse\n");
    expect_argument("name", "12", "3\tinteger\t0.5\t12\tfalse\n");
    expect_argument("on", "true", "3\tinteger\t0.5\ta\ttrue\n");
}

static void expect_wrong_argument(const char *text, const char *key, const char *value,
                                  const char *message) {
    struct play play;
    play_arguments(&play, text, key, value);
    assert_int_equal(play.status, ORR_INVALID);
    assert_true(orr_scenario_arguments_wrong(play.scenario));
    assert_string_equal(play.error.text, message);
    play_end(&play);
}

static void a_wrong_argument_is_an_error_of_the_command_line(void **state) {
    (void)state;
    expect_wrong_argument(args_text, "coutn", "1",
                          "demo.lua:1: unknown argument 'coutn'; did you mean 'count'?");
    expect_wrong_argument(args_text, "count", "many",
                          "demo.lua:1: argument count: expected a whole number, got 'many'");
    expect_wrong_argument(args_text, "count", "1.5",
                          "demo.lua:1: argument count: expected a whole number, got '1.5'");
    expect_wrong_argument(args_text, "on", "yes",
                          "demo.lua:1: argument on: expected true or false, got 'yes'");
    expect_wrong_argument("local a = 1", "count", "1",
                          "demo.lua: unknown argument 'count': the scenario declares none "
                          "(orrery.args)");
    expect_wrong_argument("\norrery.device(0):alloc(8)", "count", "1",
                          "demo.lua:2: unknown argument 'count': the scenario has not declared any "
                          "with orrery.args before its first call");
}

/* --- streams and events --- */

static void work_runs_in_stream_order_and_events_join_streams(void **state) {
    (void)state;
    /* 5 us a launch, 500 ns an event call, 1 us a sync. */
    expect_printed("local d = orrery.device(0)\n"
                   "local s, c = d:stream('compute'), d:stream('communicate')\n"
                   "s:kernel{ name = 'produce', ns = 100000 }\n"
                   "local e = s:record()\n"
                   "c:wait(e)\n"
                   "c:kernel{ name = 'consume', ns = 50000 }\n"
                   "print(orrery.now(), s:query(), e:query())\n"
                   "e:sync() print(orrery.now(), s:query(), c:query())\n"
                   "d:sync() print(orrery.now(), c:query())",
                   "11000\tfalse\tfalse\n106000\ttrue\tfalse\n156000\ttrue\n");
}

static void the_same_stream_is_the_same_handle(void **state) {
    (void)state;
    expect_printed(
        "local d = orrery.device(0)\n"
        "print(d:stream('compute') == orrery.device(0):stream('compute'))\n"
        "print(d:stream('side') == d:stream('side'), d:stream('side') == d:stream('other'))\n"
        "print(d:stream('side'), d:stream('up', 'copy'):name(), d:stream())\n"
        "print(d:stream('side'):device(), d:index(), d:name())",
        "true\ntrue\tfalse\nstream side of device 0\tup\tstream compute of device 0\n"
        "device 0\t0\ttest\n");
}

static void the_hosts_clock_can_be_spent(void **state) {
    (void)state;
    expect_printed("local a = orrery.now() orrery.spend(1234) print(orrery.now() - a)", "1234\n");
    expect_failure("orrery.spend(-1)",
                   "demo.lua:1: orrery.spend: ns: -1 is not within 0 and 1000000000000000");
    expect_failure("for _ = 1, 3000 do orrery.spend(1000000000000000) end",
                   "demo.lua:1: the host's clock would pass 2^61 ns, the end of time");
}

static void a_kernels_call_and_service_take_what_it_says(void **state) {
    (void)state;
    expect_printed("local s = orrery.device(0):stream()\n"
                   "local t = orrery.now()\n"
                   "s:kernel{ name = 'work', submit_ns = 20000, ns = 5000000 }\n"
                   "print(orrery.now() - t)\n"
                   "s:sync()\n"
                   "print(orrery.now() - t)",
                   "20000\n5021000\n");
}

/* A kernel's record after a run of `text`. */
static struct orr_record_command kernel_of(const char *text) {
    struct play play;
    play_text(&play, text);
    assert_int_equal(play.status, ORR_OK);
    struct orr_record_command found = {0};
    for (size_t i = 0; i < record_count(&play.fixture, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *command = record_at(&play.fixture, ORR_RECORD_COMMAND, i);
        if (command->header.a == ORR_COMMAND_KERNEL)
            found = *command;
    }
    assert_true(found.id > 0);
    play_end(&play);
    return found;
}

#define KERNEL(fields)                                                                             \
    "local d = orrery.device(0)\n"                                                                 \
    "local a, b = d:alloc(1000, 'a'), d:alloc(500, 'b')\n"                                         \
    "d:stream():fill{ to = a }\n"                                                                  \
    "d:stream():kernel{ name = 'k', " fields " }"

static void a_kernel_moves_the_bytes_of_its_ranges_unless_told(void **state) {
    (void)state;
    struct orr_record_command k = kernel_of(KERNEL("reads = {a}, writes = {b}, flops = 7"));
    assert_int_equal(k.bytes_read, 1000);
    assert_int_equal(k.bytes_written, 500);
    assert_int_equal(k.flops, 7);
    assert_int_equal(k.header.b, ORR_DTYPE_F32);
    k = kernel_of(KERNEL("reads = a, writes = {{b, 100, 300}}, dtype = 'bf16', unit = 'matrix'"));
    assert_int_equal(k.bytes_read, 1000);
    assert_int_equal(k.bytes_written, 200);
    assert_int_equal(k.header.b, ORR_DTYPE_BF16);
    assert_int_equal(k.header.d, ORR_UNIT_MATRIX);
    k = kernel_of(KERNEL("reads = {a}, writes = {b}, bytes = 600"));
    assert_int_equal(k.bytes_read, 100);
    assert_int_equal(k.bytes_written, 500);
    k = kernel_of(KERNEL("reads = {a}, writes = {b}, bytes_read = 3, bytes_written = 4"));
    assert_int_equal(k.bytes_read, 3);
    assert_int_equal(k.bytes_written, 4);
    k = kernel_of(KERNEL("reads = {a}, ns = 10"));
    assert_int_equal(k.bytes_read, 0);
    assert_int_equal(k.header.b, ORR_DTYPE_NONE);
}

static void commands_know_the_line_that_made_them(void **state) {
    (void)state;
    struct play play;
    play_text(&play, "local ranks = require 'ranks'\n"
                     "local w = ranks.world()\n"
                     "w:alloc('x', 64)\n"
                     "w:each(function(rank)\n"
                     "    rank.compute:fill{ to = rank.x }\n"
                     "end)\n"
                     "w:order('compute', 'communicate')");
    assert_int_equal(play.status, ORR_OK);
    const char *sites[] = {"demo.lua:3", "demo.lua:5", "demo.lua:7", "demo.lua:7"};
    for (uint64_t id = 1; id <= 4; id++) {
        const struct orr_record_command *command = command_record(&play.fixture, id);
        assert_string_equal(name_text(&play.fixture, command->site), sites[id - 1]);
    }
    play_end(&play);
}

static void a_call_that_may_block_inside_a_callback_is_an_error(void **state) {
    (void)state;
#define BLOCKS                                                                                     \
    "a call that may block its host can't be made inside a callback of table.sort, string.gsub, "  \
    "require or a metamethod"
    expect_failure("local s = orrery.device(0):stream()\n"
                   "table.sort({2, 1}, function(a, b)\n  s:sync()\n  return a < b\nend)",
                   "demo.lua:3: " BLOCKS);
    expect_failure("local s = orrery.device(0):stream()\n"
                   "string.gsub('a', '.', function()\n  s:kernel{ name = 'k' }\nend)",
                   "demo.lua:3: " BLOCKS);
    expect_failure(
        "local s = orrery.device(0):stream()\n"
        "local t = setmetatable({}, {__tostring = function()\n  s:sync() return '' end})\n"
        "print(t)",
        "demo.lua:3: " BLOCKS);
#undef BLOCKS
}

/* --- buffers --- */

static void host_memory_is_written_and_read_as_numbers(void **state) {
    (void)state;
    expect_printed("local b = orrery.host_alloc(16, 'b')\n"
                   "b:write(2.5)\n"
                   "print(table.concat(b:read(), ' '))\n"
                   "b:write({1, 2})\n"
                   "b:write({9}, { first = 3 })\n"
                   "print(table.concat(b:read(), ' '), b:f32(), b:f32(3), b:bytes())\n"
                   "b:write({1, -1}, { dtype = 'i64' })\n"
                   "print(table.concat(b:read{ dtype = 'i64' }, ' '))\n"
                   "print(table.concat(b:read{ dtype = 'i32', first = 1, count = 2 }, ' '))",
                   "2.5 2.5 2.5 2.5\n1.0 2.0 2.5 9.0\t1.0\t9.0\t16\n1.0 -1.0\n0.0 -1.0\n");
    expect_failure("local b = orrery.host_alloc(16)\nb:write({1, 2, 3, 4, 5})",
                   "demo.lua:2: write: 5 values from element 0 on don't fit in 4 f32");
    expect_failure("local b = orrery.host_alloc(16)\nb:write('x')",
                   "demo.lua:2: write: value: expected a number, got string");
    expect_failure("local b = orrery.host_alloc(16)\nb:f32(4)",
                   "demo.lua:2: f32: index: 4 is not within 0 and 3");
}

static void copies_and_fills_carry_values(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local from, to = orrery.host_alloc(8), orrery.host_alloc(8)\n"
                      "local a, b = orrery.device(0):alloc(8), orrery.device(1):alloc(16)\n"
                      "local s, t = orrery.device(0):stream(), orrery.device(1):stream()\n"
                      "from:write({1.5, 2.5})\n"
                      "s:copy{ to = a, from = from }\n"
                      "t:wait(s:record())\n"
                      "t:fill{ to = b, value = 0 }\n"
                      "t:copy{ to = {b, 4, 12}, from = a }\n"
                      "t:copy{ to = to, from = {b, 4, 12} } t:sync()\n"
                      "print(to:f32(0), to:f32(1))\n"
                      "t:copy{ to = to, from = b, bytes = 8 } t:sync()\n"
                      "print(to:f32(0), to:f32(1))",
                      "1.5\t2.5\n0.0\t1.5\n");
    expect_failure("local a, b = orrery.host_alloc(8), orrery.device(0):alloc(12)\n"
                   "orrery.device(0):stream():copy{ to = a, from = b }",
                   "demo.lua:2: copy: 'to' has 8 bytes and 'from' 12; give equal ranges, or "
                   "'bytes'");
    expect_failure("local a = orrery.host_alloc(8)\n"
                   "orrery.device(0):stream():fill{ to = {a, 4, 9} }",
                   "demo.lua:2: fill: to: 9 is not within 4 and 8");
}

static void a_freed_buffer_says_where_it_was_freed(void **state) {
    (void)state;
    expect_failure("local d = orrery.device(0)\n"
                   "local a = d:alloc(64)\n"
                   "a:free()\n"
                   "d:stream():kernel{ name = 'k', reads = {a} }",
                   "demo.lua:4: kernel: reads: the buffer was freed at demo.lua:3");
    expect_printed("local d = orrery.device(0)\n"
                   "do local a <close> = d:alloc(64) print(d:memory().requested) end\n"
                   "print(d:memory().requested)\n"
                   "do local a <close> = d:alloc(64) a:free() end\n"
                   "print(d:memory().requested, d:memory().alloc_count)",
                   "64\n0\n0\t2\n");
}

static void lost_memory_is_undefined_and_a_missing_wait_poisons(void **state) {
    (void)state;
    const char *text = "local d = orrery.device(0)\n"
                       "local s, c = d:stream(), d:stream('side')\n"
                       "local a, b, h = d:alloc(8), d:alloc(8), orrery.host_alloc(8)\n"
                       "s:kernel{ name = 'produce', writes = {a}, ns = 100000 }\n"
                       "%sc:kernel{ name = 'consume', reads = {a}, writes = {b}, ns = 50000 }\n"
                       "c:copy{ to = h, from = b } c:sync()\n"
                       "local v = h:f32(0) print(v == v)";
    char with[1024], without[1024];
    snprintf(with, sizeof with, text, "c:wait(s:record()) ");
    snprintf(without, sizeof without, text, "");
    expect_printed(with, "true\n");
    expect_printed(without, "false\n");
}

static void out_of_device_memory_keeps_its_status(void **state) {
    (void)state;
    struct play play;
    play_text(&play, "local d = orrery.device(0)\nlocal a = d:alloc(1 << 20, 'weights')\n"
                     "local b = d:alloc(1 << 40, 'cache')");
    assert_int_equal(play.status, ORR_DEVICE_MEMORY);
    assert_int_equal(strncmp(play.error.text, "demo.lua:3: ", 12), 0);
    assert_non_null(strstr(play.error.text, "weights"));
    play_end(&play);
    /* Also when it went through pcall and was raised again; not when it was replaced. */
    play_text(&play, "local ok, m = pcall(function() orrery.device(0):alloc(1 << 40) end)\n"
                     "error(m, 0)");
    assert_int_equal(play.status, ORR_DEVICE_MEMORY);
    play_end(&play);
    play_text(&play, "local ok, m = pcall(function() orrery.device(0):alloc(1 << 40) end)\n"
                     "error('gave up')");
    assert_int_equal(play.status, ORR_INVALID);
    assert_string_equal(play.error.text, "demo.lua:2: gave up");
    play_end(&play);
}

static void there_are_no_numbers_in_a_timing_only_run(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play, "print(orrery.timing_only)\nlocal h = orrery.host_alloc(8)\nh:f32(0)", 1);
    play.fixture.config.timing_only = true;
    play_run(&play);
    assert_int_equal(play.status, ORR_INVALID);
    assert_string_equal(play.printed, "true\n");
    assert_string_equal(play.error.text, "demo.lua:3: there are no numbers to read in a run that "
                                         "is timing only");
    play_end(&play);
}

/* --- collectives --- */

static void collectives_compute_over_the_ranks(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local c = orrery.communicator{ devices = {0, orrery.device(1)}, name = 'both' }\n"
        "local h, g = {}, {}\n"
        "for r = 1, 2 do h[r], g[r] = orrery.host_alloc(16), orrery.host_alloc(16) end\n"
        "local function show(what)\n"
        "  orrery.device(0):sync() orrery.device(1):sync()\n"
        "  print(what, table.concat(g[1]:read(), ' '), table.concat(g[2]:read(), ' '))\n"
        "end\n"
        "local function set()\n"
        "  for r = 1, 2 do h[r]:write({r, 2 * r, 3 * r, 4 * r}) g[r]:write(0) end\n"
        "end\n"
        "set() c:all_reduce{ input = h, output = g } show('all_reduce')\n"
        "set() c:all_gather{ input = {{h[1], 0, 8}, {h[2], 0, 8}}, output = g }\n"
        "show('all_gather')\n"
        "set() c:reduce_scatter{ input = h, output = g } show('reduce_scatter')\n"
        "set() c:broadcast{ input = h, output = g, root = 1, count = 2 } show('broadcast')\n"
        "c:barrier() c:barrier{ streams = 'compute' }\n"
        "set() c:all_reduce{ input = g } show('in place')\n"
        "print(c, c:size())",
        "all_reduce\t3.0 6.0 9.0 12.0\t3.0 6.0 9.0 12.0\n"
        "all_gather\t1.0 2.0 2.0 4.0\t1.0 2.0 2.0 4.0\n"
        "reduce_scatter\t3.0 6.0 0.0 0.0\t9.0 12.0 0.0 0.0\n"
        "broadcast\t2.0 4.0 0.0 0.0\t2.0 4.0 0.0 0.0\n"
        "in place\t0.0 0.0 0.0 0.0\t0.0 0.0 0.0 0.0\n"
        "communicator of 2 ranks\t2\n");
    expect_failure("local c = orrery.communicator()\nc:all_reduce{ input = {} }",
                   "demo.lua:2: all_reduce: input has 0 values for a communicator of 2 ranks");
    expect_failure("orrery.communicator{ devices = {0, 5} }",
                   "demo.lua:1: communicator: devices: 5 is not within 0 and 1");
    expect_failure("local c = orrery.communicator()\n"
                   "c:all_gather{ input = {1, 2} }",
                   "demo.lua:2: all_gather: input: expected a buffer, got number");
}

/* --- hosts --- */

static void hosts_take_turns_by_their_clocks(void **state) {
    (void)state;
    expect_printed_on(2,
                      "orrery.host(function(rank)\n"
                      "  local s = orrery.device(rank):stream()\n"
                      "  for step = 1, 2 do\n"
                      "    s:kernel{ name = 'k', ns = 10000 * (rank + 1) }\n"
                      "    s:sync()\n"
                      "    print('rank', rank, 'step', step, orrery.now())\n"
                      "  end\n"
                      "end)\n"
                      "print('the program goes on at', orrery.now())\n"
                      "orrery.join()\n"
                      "print('joined at', orrery.now())",
                      "the program goes on at\t0\n"
                      "rank\t0\tstep\t1\t16000\nrank\t1\tstep\t1\t26000\n"
                      "rank\t0\tstep\t2\t32000\nrank\t1\tstep\t2\t52000\n"
                      "joined at\t52000\n");
}

static void a_block_goes_through_coroutines_and_pcall(void **state) {
    (void)state;
    expect_printed_on(2,
                      "orrery.host(function(rank)\n"
                      "  local s = orrery.device(rank):stream()\n"
                      "  local work = coroutine.wrap(function()\n"
                      "    print(pcall(function()\n"
                      "      s:kernel{ name = 'k', ns = 1000 }\n"
                      "      s:sync()\n"
                      "      return rank\n"
                      "    end))\n"
                      "    coroutine.yield('yielded')\n"
                      "  end)\n"
                      "  print(work())\n"
                      "end)",
                      "true\t0\nyielded\ntrue\t1\nyielded\n");
}

static void events_join_hosts(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local e = orrery.event('ready')\n"
                      "orrery.host(function(rank)\n"
                      "  local s = orrery.device(rank):stream()\n"
                      "  if rank == 0 then\n"
                      "    s:kernel{ name = 'slow', ns = 100000 }\n"
                      "    s:record(e)\n"
                      "  else\n"
                      "    orrery.spend(20000)\n"
                      "    e:sync()\n"
                      "    print(e, orrery.now())\n"
                      "  end\n"
                      "end, 2)",
                      "event ready\t106000\n");
}

static void an_error_in_a_host_ends_the_run(void **state) {
    (void)state;
    expect_failure("orrery.host(function(rank)\n  if rank == 1 then\n    error('rank 1 fails')\n"
                   "  end\nend)",
                   "demo.lua:3: rank 1 fails");
    expect_failure("orrery.host(function()\n  orrery.join()\nend)",
                   "demo.lua:2: orrery.join is for the program, not for its hosts");
}

/* --- expectations --- */

static void expectations_about_values_are_judged_at_once(void **state) {
    (void)state;
    static const struct {
        const char *call;
        bool passes;
        const char *text;
    } cases[] = {
        {"expect.equal(1, 1.0)", true, "got 1, wanted 1.0"},
        {"expect.equal('a', 'b')", false, "got 'a', wanted 'b'"},
        {"expect.equal({1, 2}, {1, 3})", false, "value 2 of 2: got 2, wanted 3 within 0"},
        {"expect.equal(nil, false)", false, "got nil, wanted false"},
        {"expect.different(1, 1)", false, "got 1, wanted another value than 1"},
        {"expect.different({1}, {2})", true, "got table, wanted another value than table"},
        {"expect.less(1, 2)", true, "got 1, wanted less than 2"},
        {"expect.less(2, 2)", false, "got 2, wanted less than 2"},
        {"expect.close(1.0, 1.0001, 1e-3)", true, "got 1, wanted 1.0001 within 0.001"},
        {"expect.close(0/0, 1)", false, "got -nan, wanted 1 within 1e-06"},
        {"expect.close({1, 2}, {1}, 0)", false, "got 2 values, wanted 1"},
        {"expect.close({5, 5, 6}, 5, 0.1)", false, "value 3 of 3: got 6, wanted 5 within 0.1"},
        {"expect.time_ns(101, 100, 0.01)", true, "got 101 ns, wanted 100 ns within 1 %"},
        {"expect.time_ns(102, 100, 0.01)", false, "got 102 ns, wanted 100 ns within 1 %"},
        {"expect.time_ns(101, 100)", false, "got 101 ns, wanted 100 ns within 0 %"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct play play;
        play_text(&play, cases[i].call);
        assert_int_equal(play.status, ORR_OK);
        assert_int_equal(orr_scenario_expectation_count(play.scenario), 1);
        const struct orr_expectation *found = orr_scenario_expectation(play.scenario, 0);
        assert_int_equal(found->kind, ORR_EXPECT_VALUE);
        assert_string_equal(found->site, "demo.lua:1");
        if (strstr(cases[i].call, "0/0") == NULL) /* the sign of a NaN is the processor's */
            assert_string_equal(found->text, cases[i].text);
        assert_int_equal(found->passed, cases[i].passes);
        play_end(&play);
    }
}

static void other_expectations_are_kept_for_the_trace(void **state) {
    (void)state;
    struct play play;
    play_text(&play, "expect.clean()\nexpect.finding('race')\nexpect.phase(0, 'launch-bound')\n"
                     "expect.analysis('devices[0].compute_ns', 100, 0.1)\n"
                     "expect.analysis('phases[0].class', 'memory-bound')");
    assert_int_equal(orr_scenario_expectation_count(play.scenario), 5);
    const struct orr_expectation *e = orr_scenario_expectation(play.scenario, 0);
    assert_int_equal(e->kind, ORR_EXPECT_CLEAN);
    e = orr_scenario_expectation(play.scenario, 1);
    assert_int_equal(e->kind, ORR_EXPECT_FINDING);
    assert_string_equal(e->name, "race");
    e = orr_scenario_expectation(play.scenario, 2);
    assert_int_equal(e->kind, ORR_EXPECT_PHASE);
    assert_string_equal(e->name, "launch-bound");
    e = orr_scenario_expectation(play.scenario, 3);
    assert_false(e->is_text);
    assert_true(e->number == 100 && e->tolerance == 0.1);
    assert_string_equal(e->name, "devices[0].compute_ns");
    e = orr_scenario_expectation(play.scenario, 4);
    assert_true(e->is_text);
    assert_string_equal(e->text, "memory-bound");
    assert_string_equal(e->site, "demo.lua:5");
    play_end(&play);
}

/* --- memory --- */

static const char everything[] =
    "local p = orrery.args{ n = 2 }\n"
    "local ranks = require 'ranks'\n"
    "local w = ranks.world()\n"
    "w:alloc('x', 256)\n"
    "w:each(function(r) r.host = orrery.host_alloc(256) r.host:write(1)\n"
    "  r.compute:copy{ to = r.x, from = r.host }\n"
    "  r.compute:kernel{ name = 'k', reads = {{r.x, 0, 128}}, writes = {{r.x, 128, 256}} } end)\n"
    "w:order('compute', 'communicate')\n"
    "w:all_reduce('x', 'x') w:sync()\n"
    "expect.clean() expect.equal({1}, {1})\n"
    "for k, v in pairs({b = 1, a = 2}) do print(k, v) end\n"
    "orrery.host(function(rank) orrery.device(rank):sync() end)\n"
    "orrery.join()";

static void play_with_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_error error = {0};
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct play play;
    play_prepare(&play, everything, 2);
    struct orr_runtime_config config = {.memory = &memory->table,
                                        .open = play.fixture.config.open,
                                        .specs = specs,
                                        .device_count = 2};
    struct orr_runtime *runtime = NULL;
    struct orr_scenario *scenario = NULL;
    play.config.memory = &memory->table;
    play.config.print_context = &play;
    enum orr_status status = orr_scenario_create(&play.config, &scenario, &error);
    if (status == ORR_OK)
        status = orr_runtime_create(&config, &runtime, &error);
    if (status == ORR_OK)
        status = orr_scenario_run(scenario, runtime, &error);
    if (status == ORR_OK)
        status = orr_runtime_finish(runtime);
    if (status == ORR_OK)
        assert_string_equal(play.printed, "a\t2\nb\t1\n");
    else
        assert_int_equal(status, ORR_NO_MEMORY);
    orr_scenario_destroy(&scenario);
    orr_runtime_destroy(&runtime);
    play_end(&play);
}

static void no_lack_of_memory_leaks_or_crashes(void **state) {
    (void)state;
    assert_true(fail_each_request(play_with_memory, NULL) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_no_door_to_the_outside),
        cmocka_unit_test(a_syntax_error_names_file_and_line),
        cmocka_unit_test(compiled_lua_is_refused),
        cmocka_unit_test(an_endless_loop_ends_whatever_surrounds_it),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(pairs_and_next_go_in_the_order_of_sorted_keys),
        cmocka_unit_test(handles_are_keys_in_order_of_their_creation),
        cmocka_unit_test(a_pairs_metamethod_is_used),
        cmocka_unit_test(texts_show_no_addresses),
        cmocka_unit_test(random_numbers_come_from_the_seed),
        cmocka_unit_test(finalizers_and_weak_tables_are_refused),
        cmocka_unit_test(the_library_is_the_only_thing_to_require),
        cmocka_unit_test(coroutines_work_as_usual),
        cmocka_unit_test(pcall_and_xpcall_work_as_usual),
        cmocka_unit_test(an_error_is_at_the_innermost_frame_of_the_file),
        cmocka_unit_test(an_error_in_the_library_is_at_the_callers_line),
        cmocka_unit_test(a_long_path_is_whole_in_messages),
        cmocka_unit_test(a_wrong_name_is_answered_with_the_nearest),
        cmocka_unit_test(a_wrong_type_is_answered_with_the_expected_one),
        cmocka_unit_test(arguments_have_the_type_of_their_default),
        cmocka_unit_test(a_wrong_argument_is_an_error_of_the_command_line),
        cmocka_unit_test(work_runs_in_stream_order_and_events_join_streams),
        cmocka_unit_test(the_same_stream_is_the_same_handle),
        cmocka_unit_test(the_hosts_clock_can_be_spent),
        cmocka_unit_test(a_kernels_call_and_service_take_what_it_says),
        cmocka_unit_test(a_kernel_moves_the_bytes_of_its_ranges_unless_told),
        cmocka_unit_test(commands_know_the_line_that_made_them),
        cmocka_unit_test(a_call_that_may_block_inside_a_callback_is_an_error),
        cmocka_unit_test(host_memory_is_written_and_read_as_numbers),
        cmocka_unit_test(copies_and_fills_carry_values),
        cmocka_unit_test(a_freed_buffer_says_where_it_was_freed),
        cmocka_unit_test(lost_memory_is_undefined_and_a_missing_wait_poisons),
        cmocka_unit_test(out_of_device_memory_keeps_its_status),
        cmocka_unit_test(there_are_no_numbers_in_a_timing_only_run),
        cmocka_unit_test(collectives_compute_over_the_ranks),
        cmocka_unit_test(hosts_take_turns_by_their_clocks),
        cmocka_unit_test(a_block_goes_through_coroutines_and_pcall),
        cmocka_unit_test(events_join_hosts),
        cmocka_unit_test(an_error_in_a_host_ends_the_run),
        cmocka_unit_test(expectations_about_values_are_judged_at_once),
        cmocka_unit_test(other_expectations_are_kept_for_the_trace),
        cmocka_unit_test(no_lack_of_memory_leaks_or_crashes),
    };
    return cmocka_run_group_tests_name("scenarios", tests, NULL, NULL);
}
