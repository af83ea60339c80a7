/* The library's pipeline schedules: against the closed forms of the papers, as text, run by the
 * executor, and what is said about schedules that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

#define PIPELINE "local pipeline = require 'pipeline'\n"

/* Every kind for 1 to 5 ranks, 1 to 9 microbatches, 1 to 3 chunks, as far as it takes them. */
#define FOR_ALL_KINDS                                                                              \
    PIPELINE                                                                                       \
    "local function for_all(f)\n"                                                                  \
    "    for _, kind in ipairs{ 'gpipe', '1f1b', 'interleaved', 'zero_bubble', 'zero_bubble_2',\n" \
    "                           'zero_bubble_v', 'bidirectional', 'dualpipe' } do\n"               \
    "        for p = 1, 5 do for m = 1, 9 do for v = 1, kind == 'interleaved' and 3 or 1 do\n"     \
    "            local even, n = p % 2 == 0 and m % 2 == 0, kind == 'interleaved' and v or nil\n"  \
    "            if (kind ~= 'interleaved' or m % p == 0) and\n"                                   \
    "               (kind ~= 'bidirectional' or even) and\n"                                       \
    "               (kind ~= 'dualpipe' or even and m >= 2 * p) then\n"                            \
    "                f(kind, p, m, n, pipeline.schedule{ kind = kind, ranks = p,\n"                \
    "                                                    microbatches = m, chunks = n })\n"        \
    "            end\n"                                                                            \
    "        end end end\n"                                                                        \
    "    end\n"                                                                                    \
    "end\n"

static void bubbles_are_those_of_the_papers(void **state) {
    (void)state;
    expect_printed(
        FOR_ALL_KINDS
        "local count = {}\n"
        "for_all(function(kind, p, m, v, s)\n"
        "    for _, t in ipairs{ {}, { F = 2 }, { F = 3, B = 4, W = 2 }, { F = 7, B = 0, W = 0 } } "
        "do\n"
        "        local known, share, step, which = pcall(pipeline.bubble, kind, p, m, v, t)\n"
        "        if known then\n"
        "            local got = pipeline.simulate(s, t)\n"
        "            local idle = got[which] - got.ranks[1].busy\n"
        "            assert(got[which] == step and idle * share[2] == step * share[1],\n"
        "                   kind .. ' p ' .. p .. ' m ' .. m .. ' v ' .. (v or 1))\n"
        "        end\n"
        "        local key = kind .. (known and ': equal to the formula' or ': no formula')\n"
        "        count[key] = (count[key] or 0) + 1\n"
        "    end\n"
        "end)\n"
        "for key, n in pairs(count) do print(key, n) end\n",
        "1f1b: equal to the formula\t180\n"
        "bidirectional: equal to the formula\t22\nbidirectional: no formula\t10\n"
        "dualpipe: equal to the formula\t4\ndualpipe: no formula\t12\n"
        "gpipe: equal to the formula\t180\n"
        "interleaved: equal to the formula\t228\n"
        "zero_bubble: equal to the formula\t180\n"
        "zero_bubble_2: equal to the formula\t180\n"
        "zero_bubble_v: equal to the formula\t45\nzero_bubble_v: no formula\t135\n");
}

/* The shares as the papers write them, with numbers put in by hand. */
static void formulas_have_the_shape_that_the_papers_give(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local function show(...)\n"
                 "    local share, step = pipeline.bubble(...)\n"
                 "    print(share[1] .. '/' .. share[2] .. ' of ' .. step)\n"
                 "end\n"
                 "show('gpipe', 4, 8)\n"
                 "show('1f1b', 4, 8, 1, { F = 10, B = 10, W = 13 })\n"
                 "show('interleaved', 4, 8, 3)\n"
                 "show('zero_bubble', 4, 8)\n"
                 "show('zero_bubble', 4, 8, 1, { F = 3, B = 4, W = 2 })\n"
                 "show('zero_bubble_2', 4, 8)\n"
                 "show('bidirectional', 4, 4, 1, { F = 2 })\n"
                 "show('bidirectional', 4, 8, 1, { F = 2 })\n"
                 "show('bidirectional', 4, 4)\n"
                 "show('zero_bubble_v', 4, 7)\n"
                 "show('dualpipe', 8, 20)\n"
                 "print(pcall(pipeline.bubble, 'zero_bubble', 4, 8, 1, { W = 2 }))\n"
                 "print(pcall(pipeline.bubble, 'gpipe', 4, 8, 1, { send = 2 }))\n",
        "3/11 of 33\n" /* (p-1)/(m+p-1) */
        "3/11 of 363\n"
        "1/9 of 81\n" /* (p-1)/(vm+p-1) = 3/27 */
        "1/9 of 27\n" /* (p-1)(F+B-W) = 3 of 24 + 3 */
        "5/29 of 87\n"
        "0/1 of 24\n"
        "1/5 of 20\n" /* (p-2)/(2m+p-2) = 2/10 */
        "1/9 of 36\n" /* 2/18 */
        "1/4 of 16\n" /* (p-2)/(3m/2+p-2) = 2/8 */
        "0/1 of 42\n"
        "1/21 of 63\n"
        "false\tpipeline: bubble: no closed form for zero_bubble with F = 1, B = 1, W = 2; "
        "expected a W that is no longer than F and B\n"
        "false\tpipeline: bubble: there is no closed form with send = 2; see simulate\n");
}

static void activations_are_as_many_as_the_papers_say(void **state) {
    (void)state;
    expect_printed(
        FOR_ALL_KINDS
        "for_all(function(kind, p, m, v, s)\n"
        "    local live, held = pipeline.check(s)\n"
        "    local most = math.max(table.unpack(held))\n"
        "    for r = 1, p do\n"
        "        if kind == 'gpipe' then assert(live[r] == m) end\n"
        "        if kind == '1f1b' then assert(live[r] == math.min(m, p + 1 - r)) end\n"
        "    end\n"
        "    if kind == 'zero_bubble' then assert(most == math.min(m, p)) end\n"
        "    if kind == 'zero_bubble_2' then assert(most == math.min(m, 2 * p - 1)) end\n"
        "    if kind == 'bidirectional' and m >= p then\n"
        "        assert(math.max(table.unpack(live)) == p)\n"
        "        assert(math.min(table.unpack(live)) == p // 2 + 1)\n"
        "    end\n"
        "    if kind == 'zero_bubble_v' and m >= 2 * p - 1 then assert(live[p] == 2 * p) end\n"
        "    if kind == 'dualpipe' then assert(most == p + 1 and live[p] == p + 1) end\n"
        "    if kind == 'interleaved' and v == 3 and p == 3 and m == 9 then\n"
        "        print(table.concat(live, ' '))\n"
        "    end\n"
        "end)\n"
        "local s = pipeline.schedule{ kind = '1f1b', ranks = 2, microbatches = 3 }\n"
        "s.kind = 'gpipe'\n"
        "print(pcall(pipeline.check, s))\n",
        "11 9 7\n"
        "false\tpipeline: rank 0 holds up to 2 activations; gpipe holds 3\n");
}

static void a_schedule_has_its_facts(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local s = pipeline.schedule{ kind = 'interleaved', ranks = 2, microbatches = 4,\n"
                 "                             chunks = 3 }\n"
                 "print(s.kind, s.rank_count, s.stage_count, s.microbatches, s.chunks, "
                 "s.replicas)\n"
                 "print(s.rank_of(3), s.stage_of(1), s.stage_of(1, 2), s.stage_of(1, 3), "
                 "s.rank_of(9))\n"
                 "s = pipeline.schedule{ kind = 'bidirectional', ranks = 4, microbatches = 2 }\n"
                 "print(s.chunks, s.replicas, s.rank_of(0, 1), s.stage_of(3, 0, 1), #s.stages[1])\n"
                 "local a = s.ranks[4][1]\n"
                 "print(a.kind, a.stage, a.microbatch, a.replica)\n",
        "interleaved\t2\t6\t4\t3\t1\n1\t1\t5\tnil\tnil\n1\t2\t3\t0\t2\nF\t0\t1\t1\n");
}

/* --- text --- */

static void schedules_are_drawn_in_columns_of_time(void **state) {
    (void)state;
    expect_printed(PIPELINE "local function show(kind, p, m, v, o)\n"
                            "    print(pipeline.draw(pipeline.schedule{ kind = kind, ranks = p,\n"
                            "        microbatches = m, chunks = v }, o))\n"
                            "end\n"
                            "show('gpipe', 2, 2)\n"
                            "show('1f1b', 3, 4)\n"
                            "show('interleaved', 2, 2, 2, { F = 200, B = 100, W = 100 })\n"
                            "show('zero_bubble', 3, 4)\n"
                            "show('bidirectional', 4, 4, 1, { F = 2, send = 2 })\n",
                   "rank 0  F0 F1 .  .  .  B1--- B0---\n"
                   "rank 1  .  F0 F1 B1--- B0--- .  .\n"
                   "(a column is 1)\n\n"
                   "rank 0  F0 F1 F2 .  .  .  .  B0--- F3 B1--- .  B2--- .  B3---\n"
                   "rank 1  .  F0 F1 .  .  B0--- F2 B1--- F3 B2--- .  B3--- .  .\n"
                   "rank 2  .  .  F0 B0--- F1 B1--- F2 B2--- F3 B3--- .  .  .  .\n"
                   "(a column is 1)\n\n"
                   "rank 0  F0  F1  F0b F1b .   B0b .   B1b B0  B1\n"
                   "rank 1  .   F0  F1  F0b B0b F1b B1b B0  B1  .\n"
                   "(a column is 200)\n\n"
                   "rank 0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 B2 W2 B3 W3\n"
                   "rank 1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3\n"
                   "rank 2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3\n"
                   "(a column is 1)\n\n"
                   "rank 0  F0 F1 .  .  .  .  f2 b2 .  f3 b3 .  .  B0 .  .  B1\n"
                   "rank 1  .  .  F0 .  f2 F1 .  f3 .  b2 .  B0 b3 .  B1 .  .\n"
                   "rank 2  .  .  f2 .  F0 f3 .  F1 .  B0 .  b2 B1 .  b3 .  .\n"
                   "rank 3  f2 f3 .  .  .  .  F0 B0 .  F1 B1 .  .  b2 .  .  b3\n"
                   "(a column is 2)\n\n");
}

static void wide_drawings_are_cut_with_a_note(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local s = pipeline.schedule{ kind = '1f1b', ranks = 2, microbatches = 12 }\n"
                 "print(pipeline.draw(s, { width = 32, from = 4 }))\n"
                 "s = pipeline.schedule{ kind = 'interleaved', ranks = 16, microbatches = 64,\n"
                 "                       chunks = 2 }\n"
                 "local text = pipeline.draw(s)\n"
                 "for line in text:gmatch('(.-)\\n') do assert(#line <= 100, line) end\n"
                 "print(text:match('rank 15[^\\n]*'))\n"
                 "print(text:match('%(.*'))\n",
        "rank 0  B0----- F2  B1----- F3\n"
        "rank 1  F1  B1----- F2  B2-----\n"
        "(a column is 1; columns 4 to 9 of 39 are shown)\n\n"
        "rank 15  .    .    .    .    .    .    .    .    .    .    .    .    .    .    .    F0   "
        "F1   F2\n"
        "(a column is 1; columns 0 to 17 of 429 are shown)\n\n");
}

/* What is drawn is what is read: actions, places and order. */
static void drawings_can_be_read_back(void **state) {
    (void)state;
    expect_printed(
        FOR_ALL_KINDS
        "local function words(s)\n"
        "    local all = {}\n"
        "    for r, list in ipairs(s.ranks) do for _, a in ipairs(list) do\n"
        "        all[#all + 1] = table.concat({ r, a.kind, a.stage, a.microbatch, a.replica }, "
        "'/')\n"
        "    end end\n"
        "    return table.concat(all, ' ')\n"
        "end\n"
        "local count = 0\n"
        "for_all(function(kind, p, m, v, s)\n"
        "    local back = pipeline.parse(pipeline.draw(s, { width = 10000 }),\n"
        "                                { shape = kind == 'zero_bubble_v' and 'v' or 'loop' })\n"
        "    assert(words(s) == words(back), kind)\n"
        "    pipeline.check(back)\n"
        "    count = count + 1\n"
        "end)\n"
        "print(count)\n"
        "print(pcall(pipeline.parse, 'F0 F1\\nF0 G1'))\n"
        "print(pcall(pipeline.parse, '\\n'))\n"
        "print(pcall(pipeline.parse, 'F0 B0', { shape = 'w' }))\n",
        "294\nfalse\tpipeline: rank 1: 'G1'; expected words like F0, B0, W0, F0b, f0 or .\n"
        "false\tpipeline: the schedule has no action\n"
        "false\tpipeline: parse: shape 'w'; expected loop or v\n");
}

/* --- times --- */

static void times_may_differ_between_stages(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local s = pipeline.schedule{ kind = 'gpipe', ranks = 2, microbatches = 2 }\n"
                 "local r = pipeline.simulate(s, { F = {10, 30}, B = {1, 2}, W = 0, send = 5 })\n"
                 "print(r.makespan, r.period, table.concat(r.start[2], ' '))\n"
                 "for _, k in ipairs(r.ranks) do\n"
                 "    print(k.begin, k.finish, k.busy, k.idle, k.bubble[1] .. '/' .. k.bubble[2])\n"
                 "end\n"
                 "print(r.bubble[1] .. '/' .. r.bubble[2])\n"
                 "print(pcall(pipeline.simulate, s, { F = {10}, B = {1, 2} }))\n"
                 "print(pcall(pipeline.simulate, s, { F = 1.5 }))\n"
                 "print(pcall(pipeline.simulate, s, { f = 1 }))\n",
        "85\t85\t15 45 75 77\n0\t85\t22\t63\t63/85\n15\t79\t64\t21\t21/85\n42/85\n"
        "false\tpipeline: F: there is no time for stage 1\n"
        "false\tpipeline: F: expected a whole number from 0, got 1.5\n"
        "false\tpipeline: unknown key 'f' in times; known: F, B, W, send\n");
}

/* --- the executor --- */

/* Whatever the kind: lists in their order, and nothing before what it needs. */
static void the_executor_keeps_every_order(void **state) {
    (void)state;
    expect_printed(
        FOR_ALL_KINDS
        "local count = 0\n"
        "for_all(function(kind, p, m, v, s)\n"
        "    local done, at, now, last = {}, {}, nil, s.stage_count - 1\n"
        "    local function check(what, stage, i, replica)\n"
        "        assert(now.stage == stage and now.microbatch == i and now.replica == replica)\n"
        "        assert(not done[what .. stage .. '/' .. i])\n"
        "        if what == 'F' then\n"
        "            assert(stage == 0 or done['F' .. stage - 1 .. '/' .. i])\n"
        "        elseif what == 'B' then\n"
        "            assert(done['F' .. stage .. '/' .. i])\n"
        "            assert(stage == last or done['B' .. stage + 1 .. '/' .. i])\n"
        "        else assert(done['B' .. stage .. '/' .. i]) end\n"
        "        done[what .. stage .. '/' .. i] = true\n"
        "        count = count + 1\n"
        "    end\n"
        "    pipeline.run(s, {\n"
        "        forward = function(...) check('F', ...) end,\n"
        "        backward_input = function(...) check('B', ...) end,\n"
        "        backward_weight = function(...) check('W', ...) end,\n"
        "        backward = function(...) check('B', ...) check('W', ...) end,\n"
        "        before = function(action, rank)\n"
        "            at[rank] = (at[rank] or 0) + 1\n"
        "            now = s.ranks[rank + 1][at[rank]]\n"
        "            assert(now == action)\n"
        "        end,\n"
        "        after = function(action, rank) assert(now == action) now = nil end,\n"
        "    })\n"
        "    for r, list in ipairs(s.ranks) do assert(at[r - 1] == #list) end\n"
        "end)\n"
        "print(count)\n",
        "16530\n");
}

/* Calls come in the order of their times, so that no rank's work is enqueued late. */
static void the_executor_calls_in_the_order_of_time(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local s = pipeline.schedule{ kind = '1f1b', ranks = 2, microbatches = 2 }\n"
                 "local calls = {}\n"
                 "local function note(what)\n"
                 "    return function(stage, i) calls[#calls + 1] = what .. i .. '@' .. stage end\n"
                 "end\n"
                 "pipeline.run(s, { forward = note 'F', backward = note 'B' })\n"
                 "print(table.concat(calls, ' '))\n"
                 "calls = {}\n"
                 "pipeline.run(s, { forward = note 'F', backward = note 'B' }, { send = 9 })\n"
                 "print(table.concat(calls, ' '))\n"
                 "print(pcall(pipeline.run, s, { forward = print }))\n"
                 "print(pcall(pipeline.run, s, { forwards = print }))\n"
                 "print(pcall(pipeline.run, s, { forward = error, backward = error }))\n",
        "F0@0 F1@0 F0@1 B0@1 F1@1 B0@0 B1@1 B1@0\n"
        "F0@0 F1@0 F0@1 B0@1 F1@1 B1@1 B0@0 B1@0\n"
        "false\tpipeline: pipeline.run: the schedule has BW0 of stage 0, and there is no callback "
        "backward\n"
        "false\tpipeline: unknown key 'forwards' in pipeline.run; known: forward, backward, "
        "backward_input, backward_weight, before, after\n"
        "false\t0\n");
}

/* --- schedules that are wrong --- */

static void a_cycle_names_every_rank_that_waits(void **state) {
    (void)state;
    expect_printed(
        PIPELINE
        "local s = pipeline.parse [[ F0 B0 F1 B1\n"
        "                            F0 F1 B0 B1 ]]\n"
        "print(pcall(pipeline.check, s))\n"
        "print(pcall(pipeline.run, s, { forward = error, backward = error }))\n"
        "print(pcall(pipeline.check, pipeline.parse 'B0 F0'))\n"
        "print(pcall(pipeline.check, pipeline.parse 'F0 W0 B0'))\n"
        "local rows = {}\n"
        "for r = 1, 64 do rows[r] = r % 2 == 1 and 'F0 B0 F1 B1' or 'F0 F1 B0 B1' end\n"
        "local ok, text = pcall(pipeline.check, pipeline.parse(table.concat(rows, '\\n')))\n"
        "print(ok, #text < 1000, text:match('[^;]*$'))\n",
        "false\tpipeline: the schedule can't go on: rank 0 at action 2, BW0 of stage 0, waits for "
        "rank 1's BW0 of stage 1; rank 1 at action 2, F1 of stage 1, waits for rank 0's F1 of "
        "stage 0\n"
        "false\tpipeline: the schedule can't go on: rank 0 at action 2, BW0 of stage 0, waits for "
        "rank 1's BW0 of stage 1; rank 1 at action 2, F1 of stage 1, waits for rank 0's F1 of "
        "stage 0\n"
        "false\tpipeline: the schedule can't go on: rank 0 at action 1, BW0 of stage 0, waits for "
        "rank 0's F0 of stage 0\n"
        "false\tpipeline: the schedule can't go on: rank 0 at action 2, W0 of stage 0, waits for "
        "rank 0's B0 of stage 0\n"
        "false\ttrue\t and 53 more ranks wait\n");
}

static void what_is_missing_or_done_twice_is_named(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local function try(text) print(select(2, pcall(pipeline.check,\n"
                 "    type(text) == 'string' and pipeline.parse(text) or text))) end\n"
                 "try 'F0 B0 F1'\n"
                 "try 'F0 B0 B0'\n"
                 "try 'F0 B0\\nF0 F1 B1 B0'\n"
                 "try 'F0 B0 W0 W0'\n"
                 "try 'F0 f0 b0 B0\\n.'\n"
                 "try(5)\n"
                 "try{ ranks = { {'F0'} } }\n"
                 "try{ ranks = { { { kind = 'F', stage = 0, microbatch = 0.5 } } } }\n"
                 "try{ ranks = { { { kind = 'F', stage = 0, microbatch = 0, replica = 2 } } } }\n"
                 "try{ ranks = { { { kind = 'F', stage = 1, microbatch = 0 },\n"
                 "                 { kind = 'BW', stage = 1, microbatch = 0 } } } }\n"
                 "try{ ranks = { { { kind = 'F', stage = 0, microbatch = 0 } },\n"
                 "               { { kind = 'BW', stage = 0, microbatch = 0 } } } }\n"
                 "try{ ranks = { {} } }\n",
        "pipeline: rank 0 never does B1 of stage 0\n"
        "pipeline: rank 0, action 3, BW0 of stage 0: rank 0 has done BW0 of stage 0\n"
        "pipeline: rank 0 never does F1 of stage 0\n"
        "pipeline: rank 0, action 4, W0 of stage 0: rank 0 has done W0 of stage 0\n"
        "pipeline: rank 0, F0 of stage 1 of replica 1: replica 0 has microbatch 0 in the stages "
        "before\n"
        "pipeline: expected a schedule, a table with a list of actions for each rank in 'ranks'\n"
        "pipeline: rank 0, action 1: kind F0; expected F, B, W or BW\n"
        "pipeline: rank 0, action 1, F: microbatch 0.5; expected a whole number from 0\n"
        "pipeline: rank 0, action 1, F: replica 2; expected 0 or 1\n"
        "pipeline: no rank does F0 of stage 0\n"
        "pipeline: rank 1, action 1, BW0 of stage 0: rank 0 has that stage\n"
        "pipeline: the schedule has no action\n");
}

static void arguments_are_checked(void **state) {
    (void)state;
    expect_printed(
        PIPELINE "local function try(o) print(select(2, pcall(pipeline.schedule, o))) end\n"
                 "try{ kind = '2f2b', ranks = 2, microbatches = 4 }\n"
                 "try{ kind = 'gpipe', ranks = 0, microbatches = 4 }\n"
                 "try{ kind = 'gpipe', ranks = 2 }\n"
                 "try{ kind = 'gpipe', ranks = 2, microbatches = 4, chunks = 2 }\n"
                 "try{ kind = 'interleaved', ranks = 2, microbatches = 5, chunks = 2 }\n"
                 "try{ kind = 'bidirectional', ranks = 3, microbatches = 4 }\n"
                 "try{ kind = 'bidirectional', ranks = 4, microbatches = 3 }\n"
                 "try{ kind = 'dualpipe', ranks = 4, microbatches = 6 }\n"
                 "try{ kind = 'zero_bubble_v', ranks = 4, microbatches = 6, chunks = 3 }\n"
                 "try{ kind = 'gpipe', rank = 2 }\n",
        "pipeline: there is no kind '2f2b'; known: 1f1b, bidirectional, dualpipe, gpipe, "
        "interleaved, zero_bubble, zero_bubble_2, zero_bubble_v\n"
        "pipeline: ranks: expected a whole number from 1, got 0\n"
        "pipeline: microbatches: expected a whole number from 1, got nil\n"
        "pipeline: gpipe has 1 stage of a replica on a rank, not 2; expected kind interleaved\n"
        "pipeline: interleaved: 5 microbatches; expected a multiple of the 2 ranks\n"
        "pipeline: bidirectional: 3 ranks, 4 microbatches; both have to be even\n"
        "pipeline: bidirectional: 4 ranks, 3 microbatches; both have to be even\n"
        "pipeline: dualpipe: 4 ranks, 6 microbatches; expected an even number of ranks and an even "
        "number of microbatches, at least twice as many\n"
        "pipeline: zero_bubble_v has 2 stages of a replica on a rank, not 3; expected kind "
        "interleaved\n"
        "pipeline: unknown key 'rank' in pipeline.schedule; known: kind, ranks, microbatches, "
        "chunks\n");
    expect_failure(PIPELINE "\npipeline.schedule{ kind = 'gpipe', ranks = 2, microbatches = -1 }",
                   "demo.lua:3: pipeline: microbatches: expected a whole number from 1, got -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_are_those_of_the_papers),
        cmocka_unit_test(formulas_have_the_shape_that_the_papers_give),
        cmocka_unit_test(activations_are_as_many_as_the_papers_say),
        cmocka_unit_test(a_schedule_has_its_facts),
        cmocka_unit_test(schedules_are_drawn_in_columns_of_time),
        cmocka_unit_test(wide_drawings_are_cut_with_a_note),
        cmocka_unit_test(drawings_can_be_read_back),
        cmocka_unit_test(times_may_differ_between_stages),
        cmocka_unit_test(the_executor_keeps_every_order),
        cmocka_unit_test(the_executor_calls_in_the_order_of_time),
        cmocka_unit_test(a_cycle_names_every_rank_that_waits),
        cmocka_unit_test(what_is_missing_or_done_twice_is_named),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests_name("pipeline schedules", tests, NULL, NULL);
}
