/* Rank programs (scenarios/library/spmd.lua): every collective made by each rank for itself gives
 * what one call for all ranks gives. tests/test_attack.py has their hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

/* In each table of buffers: 12 elements a rank, rank r's are 100 r + 1 .. 100 r + 12. */
#define PRELUDE                                                                                    \
    "local spmd = require 'spmd'\n"                                                                \
    "local world, c, n = spmd.world{ name = 'w' }, orrery.communicator{}, orrery.devices\n"        \
    "local host = orrery.host_alloc(48)\n"                                                         \
    "local function stream(rank) return orrery.device(rank):stream('communicate') end\n"           \
    "local function buffers()\n"                                                                   \
    "    local made = {}\n"                                                                        \
    "    for rank = 0, n - 1 do\n"                                                                 \
    "        local values, s = {}, stream(rank)\n"                                                 \
    "        for i = 1, 12 do values[i] = 100 * rank + i end\n"                                    \
    "        made[rank + 1] = s:alloc(48)\n"                                                       \
    "        host:write(values)\n"                                                                 \
    "        s:copy{ to = made[rank + 1], from = host }\n"                                         \
    "        s:sync()\n"                                                                           \
    "    end\n"                                                                                    \
    "    return made\n"                                                                            \
    "end\n"                                                                                        \
    "local function text(made)\n"                                                                  \
    "    local words = {}\n"                                                                       \
    "    for rank = 0, n - 1 do\n"                                                                 \
    "        stream(rank):copy{ to = host, from = made[rank + 1] }\n"                              \
    "        stream(rank):sync()\n"                                                                \
    "        for i, v in ipairs(host:read()) do words[#words + 1] = string.format('%%g', v) end\n" \
    "    end\n"                                                                                    \
    "    return table.concat(words, ' ')\n"                                                        \
    "end\n"

/* `fields` are those of both calls; the flags say that ranks but the root give no input, no
 * output. */
static void compare(const char *kind, const char *fields, bool only_root_reads,
                    bool only_root_writes) {
    char program[8192];
    int length =
        snprintf(program, sizeof program,
                 PRELUDE "local function call(input, output)\n"
                         "    return { input = input, output = output, %s }\n"
                         "end\n"
                         "local root, reads, writes = call().root or 0, %s, %s\n"
                         "local ain, aout, bin, bout = buffers(), buffers(), buffers(), buffers()\n"
                         "c:%s(call(ain, aout))\n"
                         "orrery.host(function(rank)\n"
                         "    orrery.spend(1000 * (n - rank))\n"
                         "    local mine = call(bin[rank + 1], bout[rank + 1])\n"
                         "    if reads and rank ~= root then mine.input = nil end\n"
                         "    if writes and rank ~= root then mine.output = nil end\n"
                         "    world:rank(rank):%s(mine)\n"
                         "end)\n"
                         "orrery.join()\n"
                         "local one, other = text(aout), text(bout)\n"
                         "print(one == other, one ~= text(ain))\n",
                 fields, only_root_reads ? "true" : "false", only_root_writes ? "true" : "false",
                 kind, kind);
    assert_in_range(length, 1, sizeof program - 1);
    expect_printed_on(3, program, "true\ttrue\n");
}

static void every_collective_gives_what_one_call_for_all_gives(void **state) {
    (void)state;
    compare("all_reduce", "count = 12", false, false);
    compare("all_reduce", "count = 5, reduction = 'max', name = 'largest'", false, false);
    compare("reduce", "count = 12, root = 2", false, true);
    compare("all_gather", "count = 4", false, false);
    compare("all_gather", "counts = {3, 0, 5}", false, false);
    compare("gather", "count = 4, root = 1", false, true);
    compare("reduce_scatter", "count = 4", false, false);
    compare("scatter", "count = 4, root = 1", true, false);
    compare("broadcast", "count = 12, root = 2", false, false);
    compare("all_to_all", "count = 4, dtype = 'f32'", false, false);
}

static void a_message_arrives_whoever_comes_first(void **state) {
    (void)state;
    const char *const waits[] = {"rank", "1 - rank"};
    for (int i = 0; i < 2; i++) {
        char program[4096];
        int length = snprintf(program, sizeof program,
                              PRELUDE "local t = buffers()\n"
                                      "orrery.host(function(rank)\n"
                                      "    local me = world:rank(rank)\n"
                                      "    orrery.spend(5000 * (%s))\n"
                                      "    if rank == 0 then me:send{ target = 1, from = t[1] }\n"
                                      "    else me:receive{ source = 0, to = t[2] } end\n"
                                      "    print(rank, orrery.now() > 5000)\n"
                                      "end, 2)\n"
                                      "orrery.join()\n"
                                      "local all = text(t)\n"
                                      "print(all:sub(1, 26) == all:sub(28, 53))\n",
                              waits[i]);
        assert_in_range(length, 1, sizeof program - 1);
        struct play play;
        play_prepare(&play, program, 2);
        play_run(&play);
        assert_string_equal(play.error.text, "");
        assert_non_null(strstr(play.printed, "0\ttrue\n"));
        assert_non_null(strstr(play.printed, "1\ttrue\n"));
        assert_non_null(strstr(play.printed, "\ntrue\n"));
        play_end(&play);
    }
}

static void misuse_is_told(void **state) {
    (void)state;
    expect_failure("require('spmd').world{}:rank(2)",
                   "demo.lua:1: spmd: 'world' has ranks 0 to 1, not 2");
    expect_failure("local w = require('spmd').world{}\nw:rank(0):send{ target = 1, fom = 3 }",
                   "demo.lua:2: spmd: send: unknown field 'fom'");
    expect_failure("local w = require('spmd').world{}\nw:rank(0):send{ target = 5 }",
                   "demo.lua:2: spmd: send: 'world' has ranks 0 to 1");
    expect_failure("local w = require('spmd').world{}\nw:rank(1):all_reduce{ inputs = 1 }",
                   "demo.lua:2: spmd: all_reduce: unknown field 'inputs'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_gives_what_one_call_for_all_gives),
        cmocka_unit_test(a_message_arrives_whoever_comes_first),
        cmocka_unit_test(misuse_is_told),
    };
    return cmocka_run_group_tests_name("spmd", tests, NULL, NULL);
}
