/* orrery.custom_gradient and orrery.checkpoint: numbers, what is kept and for how long, random
 * numbers, mistakes and their lines. The C side is tested in test_gradient_function.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

#define VECTOR(name, ...)                                                                          \
    "local " name " = orrery.tensor{ shape = {3}, dtype = 'f64', values = {" __VA_ARGS__ "} }\n"
#define SHOW "local function show(t) print(table.concat(t:future():get(), ' ')) end\n"

#define SQUARE                                                                                     \
    "local square = orrery.custom_gradient{\n"                                                     \
    "    forward = function(ctx, x, factor)\n"                                                     \
    "        local double = x * 2\n"                                                               \
    "        ctx:save{ double = double }\n"                                                        \
    "        ctx.factor = factor\n"                                                                \
    "        return x * x * factor, 'done'\n"                                                      \
    "    end,\n"                                                                                   \
    "    backward = function(ctx, dy) return dy * ctx.saved.double * ctx.factor end,\n"            \
    "    name = 'square' }\n"

static void a_function_of_the_scenario_gives_the_gradient(void **state) {
    (void)state;
    expect_printed(VECTOR("x", "1, 2, 3") SHOW SQUARE
                   "local tape = orrery.tape()\n"
                   "tape:watch(x)\n"
                   "local y, text = orrery.scope(function() return square(x * 1, 5) end)\n"
                   "show(y)\n"
                   "print(text, tape:bytes())\n"
                   "show((tape:gradient(y:sum(), x)))\n"
                   "print(tape:bytes(), orrery.device(0):memory().requested)\n"
                   "y = square(x, 2)\n" /* without a tape */
                   "show(y)\n",
                   "5.0 20.0 45.0\ndone\t24\n10.0 20.0 30.0\n0\t80\n2.0 8.0 18.0\n");
}

/* Two tensors in, two out, of which one is used; one gradient is left out, the other not wanted. */
static void gradients_are_those_of_the_tensors_in_order(void **state) {
    (void)state;
    expect_printed(VECTOR("a", "1, 2, 3") VECTOR("b", "4, 5, 6") SHOW
                   "local pair = orrery.custom_gradient{\n"
                   "    forward = function(ctx, a, k, b) return a * k, b * k end,\n"
                   "    backward = function(ctx, da, db)\n"
                   "        show(da) show(db)\n"
                   "        print(ctx.wanted[1], ctx.wanted[2])\n"
                   "        return nil, db * 100\n"
                   "    end }\n"
                   "local tape = orrery.tape()\n"
                   "tape:watch(b)\n"
                   "local p, q = pair(a, 7, b)\n"
                   "show((tape:gradient({ {q, 3} }, b)))\n"
                   "tape = orrery.tape()\n"
                   "tape:watch(a, b)\n"
                   "p, q = pair(a, 7, b)\n"
                   "for _, g in ipairs{ tape:gradient({ {p, 3} }, a, b) } do show(g) end\n",
                   "0.0 0.0 0.0\n3.0 3.0 3.0\nfalse\ttrue\n300.0 300.0 300.0\n"
                   "3.0 3.0 3.0\n0.0 0.0 0.0\ntrue\ttrue\n0.0 0.0 0.0\n0.0 0.0 0.0\n");
}

/* backward_input and backward_weight: one call or two. */
static void gradients_in_two_parts_call_once_or_twice(void **state) {
    (void)state;
    expect_printed(VECTOR("x", "1, 2, 3") VECTOR("w", "4, 5, 6") SHOW
                   "for _, split in ipairs{ false, true } do\n"
                   "    local calls = 0\n"
                   "    local product = orrery.custom_gradient{ split = split,\n"
                   "        forward = function(ctx, x, w)\n"
                   "            ctx:save{ x = x, w = w }\n"
                   "            return x * w\n"
                   "        end,\n"
                   "        backward = function(ctx, dy)\n"
                   "            calls = calls + 1\n"
                   "            return ctx.wanted[1] and dy * ctx.saved.w,\n"
                   "                   ctx.wanted[2] and dy * ctx.saved.x\n"
                   "        end }\n"
                   "    local tape = orrery.tape()\n"
                   "    tape:watch(x, w)\n"
                   "    local y = orrery.checkpoint(function() return product(x * 2, w) end)\n"
                   "    show((tape:backward_input({ {y} }, x)))\n"
                   "    print(calls, tape:bytes())\n"
                   "    show((tape:backward_weight(w)))\n"
                   "    print(calls, tape:bytes())\n"
                   "end\n",
                   "8.0 10.0 12.0\n1\t24\n2.0 4.0 6.0\n1\t0\n"
                   "8.0 10.0 12.0\n1\t48\n2.0 4.0 6.0\n2\t0\n");
}

/* A backward function that plays a tape of its own. */
static void a_function_may_use_gradients_itself(void **state) {
    (void)state;
    expect_printed(VECTOR("x", "1, 2, 3") SHOW
                   "local cube = orrery.custom_gradient{\n"
                   "    forward = function(ctx, x) ctx:save{ x = x } return x * x * x end,\n"
                   "    backward = function(ctx, dy)\n"
                   "        local tape <close> = orrery.tape()\n"
                   "        local x = ctx.saved.x\n"
                   "        tape:watch(x)\n"
                   "        local y = x * x * x\n"
                   "        return (tape:gradient({ {y, dy} }, x))\n"
                   "    end }\n"
                   "local tape <close> = orrery.tape()\n"
                   "tape:watch(x)\n"
                   "show((tape:gradient(cube(cube(x)):sum(), x)))\n",
                   "9.0 2304.0 59049.0\n");
}

#define NET                                                                                        \
    "local w = orrery.randn{ shape = {8, 8}, dtype = 'f64', seed = 1 }\n"                          \
    "local v = orrery.randn{ shape = {8, 8}, dtype = 'f64', seed = 2 }\n"                          \
    "local x = orrery.randn{ shape = {4, 8}, dtype = 'f64', seed = 3 }\n"                          \
    "local function block(x, k)\n"                                                                 \
    "    local h = orrery.gelu(x:matmul(w))\n"                                                     \
    "    return orrery.tanh(h:matmul(v)) * k\n"                                                    \
    "end\n"                                                                                        \
    "local function values(...)\n"                                                                 \
    "    local all = {}\n"                                                                         \
    "    for _, t in ipairs{...} do\n"                                                             \
    "        for _, value in ipairs(t:future():get()) do all[#all + 1] = value end\n"              \
    "    end\n"                                                                                    \
    "    return all\n"                                                                             \
    "end\n"

static void a_checkpoint_gives_the_same_numbers_and_keeps_inputs(void **state) {
    (void)state;
    expect_printed(NET "local function step(call)\n"
                       "    local tape <close> = orrery.tape()\n"
                       "    tape:watch(w, v, x)\n"
                       "    local h = call(block, x, 2)\n"
                       "    local y = call(block, h, 3)\n"
                       "    local kept = tape:bytes()\n"
                       "    return kept, values(tape:gradient((y * y):mean(), x, w, v))\n"
                       "end\n"
                       "local plain, one = step(function(f, ...) return f(...) end)\n"
                       "local less, two = step(orrery.checkpoint)\n"
                       "print(plain, less)\n"
                       "local far = 0\n"
                       "for i = 1, #one do far = math.max(far, math.abs(one[i] - two[i])) end\n"
                       "print(#one, #two, far)\n",
                   /* each block keeps x or h, the product, gelu, tanh; then only h */
                   "1792\t256\n160\t160\t0\n");
}

/* Nothing of the first pass is left on the device but the result; the whole peak is smaller. */
static void a_checkpoint_frees_what_it_made(void **state) {
    (void)state;
    expect_printed(NET "local tape = orrery.tape()\n"
                       "tape:watch(w, v, x)\n"
                       "local before = orrery.device(0):memory().requested\n"
                       "local y = orrery.checkpoint(block, x, 2)\n"
                       "print(orrery.device(0):memory().requested - before)\n"
                       "local dx = tape:gradient({ {y} }, x)\n"
                       "tape:free()\n"
                       "print(orrery.device(0):memory().requested - before)\n",
                   "256\n512\n");
}

/* Drawn seeds, a nested checkpoint, and draws between the passes and behind them: the same numbers
 * as without recomputation. */
static void dropout_drops_the_same_again(void **state) {
    (void)state;
    static const char text[] =
        NET "local function noisy(x)\n"
            "    local h = orrery.dropout(x:matmul(w), { p = 0.5 })\n"
            "    return orrery.dropout(h, { p = 0.5 }):matmul(v)\n"
            "end\n"
            "local function nested(x)\n"
            "    local h = orrery.dropout(x, { p = 0.25 })\n"
            "    return call(noisy, h) + orrery.dropout(x, { seed = 4 })\n"
            "end\n"
            "local function twice(x) return nested(nested(x)) + orrery.rand{ shape = {8},\n"
            "                                                        dtype = 'f64' } end\n"
            "local tape <close> = orrery.tape()\n"
            "tape:watch(x, w)\n"
            "local y = call(twice, x)\n"
            "local other = orrery.rand{ shape = {2} }\n"
            "local out = values(y)\n"
            "local grads = values(tape:gradient({ {y} }, x, w))\n"
            "local last = values(orrery.rand{ shape = {2} })\n"
            "local zeros = 0\n"
            "for _, g in ipairs(grads) do\n"
            "    zeros = zeros + (g == 0 and 1 or 0)\n"
            "end\n"
            "assert(zeros > 0)\n"
            "print(zeros, out[3], grads[2], grads[50], last[1])\n";
    struct play play;
    char whole[sizeof text + 100], first[512];
    for (int recomputes = 0; recomputes < 2; recomputes++) {
        snprintf(whole, sizeof whole, "local call = %s\n%s",
                 recomputes ? "orrery.checkpoint" : "function(f, ...) return f(...) end", text);
        play_text(&play, whole);
        if (play.status != ORR_OK) {
            fail_msg("%s", play.error.text);
        }
        if (recomputes) {
            assert_string_equal(play.printed, first);
        }
        snprintf(first, sizeof first, "%.500s", play.printed);
        play_end(&play);
    }
    print_message("# %s", first);
}

/* f is called again with the weights that there are then. */
static void a_parameter_replaced_before_the_backward_pass_is_named(void **state) {
    (void)state;
    expect_failure(NET "local tape = orrery.tape()\n"
                       "tape:watch(w, v, x)\n"
                       "local y = orrery.checkpoint(block, x, 2)\n"
                       "w = w * 0.5\n"
                       "tape:gradient({ {y} }, x)\n",
                   "demo.lua:19: orrery.checkpoint: recomputed, it does not read a tensor [8, 8] "
                   "f64 that it read in the forward pass (a parameter that was replaced before the "
                   "backward pass?)");
}

static void mistakes_name_their_line(void **state) {
    (void)state;
    expect_failure("orrery.custom_gradient{ forward = print }",
                   "demo.lua:1: orrery.custom_gradient: backward: expected a function, got nil");
    expect_failure("orrery.checkpoint(3)",
                   "demo.lua:1: orrery.checkpoint: expected a function, got number");
    expect_failure(
        "local f = orrery.custom_gradient{ forward = function() end, backward = print }\n"
        "f()",
        "demo.lua:2: custom_gradient: forward returned no tensor");
    expect_failure(VECTOR("x", "1, 2, 3") "local f = orrery.custom_gradient{ name = 'mine',\n"
                                          "    forward = function(ctx, x) return -x end,\n"
                                          "    backward = function(ctx, dy)\n"
                                          "        return dy:nothing()\n"
                                          "    end }\n"
                                          "local tape = orrery.tape()\n"
                                          "tape:watch(x)\n"
                                          "local y = f(x)\n"
                                          "tape:gradient({ {y} }, x)\n",
                   "demo.lua:5: tensor has no 'nothing'");
    expect_failure(
        VECTOR("x", "1, 2, 3") "local f = orrery.custom_gradient{ name = 'mine',\n"
                               "    forward = function(ctx, x) return -x end,\n"
                               "    backward = function(ctx, dy) return dy, dy end }\n"
                               "local tape = orrery.tape()\n"
                               "tape:watch(x)\n"
                               "local y = f(x)\n"
                               "tape:gradient({ {y} }, x)\n",
        "demo.lua:8: mine: backward returned 2 gradients for 1 tensors; expected one for "
        "each tensor that forward was given, in order");
    expect_failure(
        VECTOR("x", "1, 2, 3") "local f = orrery.custom_gradient{ name = 'mine',\n"
                               "    forward = function(ctx, x) return -x end,\n"
                               "    backward = function(ctx, dy) return dy:sum() end }\n"
                               "local tape = orrery.tape()\n"
                               "tape:watch(x)\n"
                               "local y = f(x)\n"
                               "tape:gradient({ {y} }, x)\n",
        "demo.lua:8: mine: the gradient of input 1 has shape [] f64, expected [3] f64 as "
        "the input");
    expect_failure(VECTOR("x", "1, 2, 3") "local tape = orrery.tape()\n"
                                          "tape:watch(x)\n"
                                          "local n = 0\n"
                                          "local y = orrery.checkpoint(function(x)\n"
                                          "    n = n + 1\n"
                                          "    if n == 2 then error('the second time') end\n"
                                          "    return x * x\n"
                                          "end, x)\n"
                                          "tape:gradient({ {y} }, x)\n",
                   "demo.lua:7: the second time");
    expect_failure(
        VECTOR("x", "1, 2, 3") "local f = orrery.custom_gradient{ backward = print,\n"
                               "    forward = function(ctx, x) return x end }\n"
                               "local tape = orrery.tape()\n"
                               "tape:watch(x)\n"
                               "f(x)\n",
        "demo.lua:6: custom_gradient: result 1 is a tensor that the tape follows already; "
        "return a new one");
}

/* An error inside can be caught, and what comes after is as before: the tape records, draws are
 * counted. */
static void an_error_inside_leaves_nothing_behind(void **state) {
    (void)state;
    expect_printed(
        VECTOR("x", "1, 2, 3") SHOW
        "local tape = orrery.tape()\n"
        "tape:watch(x)\n"
        "print(pcall(orrery.checkpoint, function(x) return x * x, error('no') end, x))\n"
        "local f = orrery.custom_gradient{\n"
        "    forward = function(ctx, x) ctx:save{ x * 2 } error('nor this') end,\n"
        "    backward = print }\n"
        "print(pcall(f, x))\n"
        "print(pcall(orrery.checkpoint, function(x)\n"
        "    local y = x * x\n"
        "    y:free()\n"
        "    return y\n"
        "end, x))\n"
        "print(orrery.device(0):memory().requested)\n"
        "show((tape:gradient((x * x):sum(), x)))\n"
        "tape = orrery.tape()\n"
        "tape:watch(x)\n"
        "local bad = true\n"
        "local y = orrery.checkpoint(function(x)\n"
        "    if bad == 1 then error('again') end\n"
        "    bad = 1\n"
        "    return x * x\n"
        "end, x)\n"
        "print(pcall(tape.gradient, tape, { {y} }, x))\n"
        "print(pcall(tape.gradient, tape, { {y} }, x))\n",
        "false\tdemo.lua:5: no\nfalse\tdemo.lua:7: nor this\n"
        "false\tdemo.lua:10: orrery.checkpoint: the tensor has been freed\n24\n"
        "2.0 4.0 6.0\nfalse\tdemo.lua:21: again\n"
        "false\tdemo.lua:26: the tape is used up; one that persists can be played again\n");
}

/* Forward passes may wait for other hosts; a function that a gradient calls may not. */
static void hosts_take_turns_in_forward_functions(void **state) {
    (void)state;
    expect_printed_on(
        2,
        SQUARE "local sums = {}\n"
               "orrery.host(function(rank)\n"
               "    local mesh = orrery.mesh{ shape = {1}, names = {'d'}, devices = {rank} }\n"
               "    local x = orrery.full{ shape = {2}, dtype = 'f64', value = rank + 1,\n"
               "                           mesh = mesh, place = {'R'} }\n"
               "    local tape = orrery.tape()\n"
               "    tape:watch(x)\n"
               "    local y = square(x, 3)\n"
               "    for i = 1, 5 do\n"
               "        y = orrery.checkpoint(function(y) return y * 2 + y end, y)\n"
               "        orrery.spend(rank == 0 and 700 or 9000)\n"
               "    end\n"
               "    tape:stop()\n"
               "    sums[rank] = { tape, y, x }\n"
               "end)\n"
               "orrery.join()\n"
               "for rank = 0, 1 do\n"
               "    local tape, y, x = table.unpack(sums[rank])\n"
               "    print(tape:gradient({ {y} }, x):sum():future():get())\n"
               "end\n",
        "2916.0\n5832.0\n");
    expect_failure(
        "orrery.host(function(rank)\n"
        "    local x = orrery.zeros{ shape = {2} }\n"
        "    local tape = orrery.tape()\n"
        "    tape:watch(x)\n"
        "    local y = orrery.checkpoint(function(x)\n"
        "        return x * 2\n"
        "    end, x)\n"
        "    orrery.spend(10000)\n"
        "    tape:gradient({ {y} }, x)\n"
        "end, 2)\n",
        "demo.lua:6: a call that may block its host can't be made inside a callback of a "
        "gradient while several hosts run");
}

/* A captured training step with recomputation inside. */
static void a_captured_step_may_recompute(void **state) {
    (void)state;
    expect_printed(NET "local function step(x)\n"
                       "    local tape <close> = orrery.tape()\n"
                       "    tape:watch(x)\n"
                       "    local y = orrery.checkpoint(block, x, 2)\n"
                       "    return (tape:gradient((y * y):mean(), x))\n"
                       "end\n"
                       "local wanted = values(step(x))\n"
                       "local f = orrery.capture(step)\n"
                       "for i = 1, 3 do\n"
                       "    local got = values(f(x))\n"
                       "    for k = 1, #got do assert(got[k] == wanted[k]) end\n"
                       "end\n"
                       "print(f:counts().replays)\n",
                   "2\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_of_the_scenario_gives_the_gradient),
        cmocka_unit_test(gradients_are_those_of_the_tensors_in_order),
        cmocka_unit_test(gradients_in_two_parts_call_once_or_twice),
        cmocka_unit_test(a_function_may_use_gradients_itself),
        cmocka_unit_test(a_checkpoint_gives_the_same_numbers_and_keeps_inputs),
        cmocka_unit_test(a_checkpoint_frees_what_it_made),
        cmocka_unit_test(dropout_drops_the_same_again),
        cmocka_unit_test(a_parameter_replaced_before_the_backward_pass_is_named),
        cmocka_unit_test(mistakes_name_their_line),
        cmocka_unit_test(an_error_inside_leaves_nothing_behind),
        cmocka_unit_test(hosts_take_turns_in_forward_functions),
        cmocka_unit_test(a_captured_step_may_recompute),
    };
    return cmocka_run_group_tests_name("scenarios: functions of gradients", tests, NULL, NULL);
}
