/* Gradients and optimizers from scenarios: the tape's methods, their mistakes, hosts that take
 * turns, and the library's training loops. */
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

static void a_tape_gives_gradients_in_the_order_asked_for(void **state) {
    (void)state;
    expect_printed(VECTOR("a", "1, 2, 3") VECTOR("b", "4, 5, 6") SHOW
                   "local tape <close> = orrery.tape()\n"
                   "tape:watch(a, b)\n"
                   "local db, da = tape:gradient((a * b):sum(), b, a)\n"
                   "show(da) show(db)\n"
                   "print(da, tape)\n",
                   "4.0 5.0 6.0\n1.0 2.0 3.0\ntensor [3] f64 R\ttape\n");
}

static void seeds_are_tensors_numbers_or_ones(void **state) {
    (void)state;
    expect_printed(VECTOR("a", "1, 2, 3") VECTOR("s", "0, 10, 100") SHOW
                   "local tape <close> = orrery.tape{ persistent = true }\n"
                   "tape:watch(a)\n"
                   "local y, z = a * a, -a\n"
                   "show(tape:gradient({ {y, s}, {z, 1000} }, a))\n"
                   "show(tape:gradient({ {z} }, a))\n",
                   "-1000.0 -960.0 -400.0\n-1.0 -1.0 -1.0\n");
}

static void a_paused_tape_does_not_see(void **state) {
    (void)state;
    expect_printed(VECTOR("a", "1, 2, 3") SHOW
                   "local tape = orrery.tape()\n"
                   "tape:watch(a)\n"
                   "local y, n = tape:pause(function(x) return x * 7, 5 end, a)\n"
                   "local loss = (a * y):sum()\n"
                   "print(n, tape:bytes())\n"
                   "show(tape:gradient(loss, a))\n"
                   "print(pcall(tape.pause, tape, error, 'inside'))\n"
                   "tape:free() tape:free()\n"
                   "print(pcall(tape.watch, tape, a))\n",
                   "5\t24\n7.0 14.0 21.0\nfalse\tinside\n"
                   "false\tdemo.lua:11: watch: the tape has been freed\n");
}

static void mistakes_name_their_line(void **state) {
    (void)state;
    expect_failure("orrery.tape()\norrery.tape()",
                   "demo.lua:2: this host has a tape that records already; one at a time");
    expect_failure("orrery.tape{ persist = true }",
                   "demo.lua:1: unknown key 'persist' in orrery.tape; did you mean 'persistent'?");
    expect_failure("local t = orrery.tape()\nt:watch(3)",
                   "demo.lua:2: watch: expected a tensor, got number");
    expect_failure("local t = orrery.tape()\nt:gradient(orrery.zeros{ shape = {} })",
                   "demo.lua:2: gradient: expected a loss and the tensors whose gradients are "
                   "wanted");
    expect_failure("local t, z = orrery.tape(), orrery.zeros{ shape = {} }\nt:gradient(z, z)",
                   "demo.lua:2: the tensor to start from depends on nothing that the tape watches");
    expect_failure("local t, z = orrery.tape(), orrery.zeros{ shape = {} }\nt:gradient({z}, z)",
                   "demo.lua:2: gradient: expected a list of {tensor, its gradient}, got userdata");
    expect_failure("local t, z = orrery.tape(), orrery.zeros{ shape = {} }\nt:watch(z)\n"
                   "orrery.capture(function(x) return -x end, { name = 'f' })(z)",
                   "demo.lua:3: 'f' is called while a tape records, which would not see what it "
                   "does; open the tape inside of it, or pause it");
}

static void stopped_tapes_share_parameters_and_wait(void **state) {
    (void)state;
    expect_printed(VECTOR("w", "1, 2, 3") SHOW
                   "local tapes, losses = {}, {}\n"
                   "for i = 1, 3 do\n"
                   "    tapes[i] = orrery.tape()\n"
                   "    tapes[i]:watch(w)\n"
                   "    local y = w * w\n"
                   "    losses[i] = (y * i):sum()\n"
                   "    tapes[i]:stop()\n"
                   "end\n"
                   "print(tapes[1]:bytes(), tapes[1]:bytes(0), tapes[1]:bytes(orrery.device(0)))\n"
                   "for _, i in ipairs{2, 3, 1} do show((tapes[i]:gradient(losses[i], w))) end\n"
                   "print(pcall(tapes[1].watch, tapes[1], w))\n",
                   "0\t0\t0\n4.0 8.0 12.0\n6.0 12.0 18.0\n2.0 4.0 6.0\n"
                   "false\tdemo.lua:13: the tape has been played\n");
    expect_failure("local t = orrery.tape()\nt:bytes(7)",
                   "demo.lua:2: bytes: device: 7 is not within 0 and 1");
}

static void gradients_come_in_two_parts(void **state) {
    (void)state;
    expect_printed(VECTOR("x", "1, 2, 3") VECTOR("w", "4, 5, 6") SHOW
                   "local function stage(persistent)\n"
                   "    local tape = orrery.tape{ persistent = persistent }\n"
                   "    tape:watch(x, w)\n"
                   "    local y = x * (w * 2)\n"
                   "    tape:stop()\n"
                   "    return tape, y\n"
                   "end\n"
                   "local tape, y = stage()\n"
                   "print(tape:bytes())\n"
                   "show((tape:backward_input({ {y, 10} }, x)))\n"
                   "print(tape:bytes())\n"
                   "show((tape:backward_weight(w)))\n"
                   "print(tape:bytes(), pcall(tape.backward_weight, tape, w))\n"
                   "tape = orrery.tape()\n"
                   "tape:watch(x)\n"
                   "local product = x * w\n"
                   "print(pcall(tape.backward_input, tape, product, x))\n"
                   "show((tape:backward_input(product:sum(), x)))\n",
                   "24\n80.0 100.0 120.0\n24\n20.0 40.0 60.0\n"
                   "0\tfalse\tdemo.lua:16: nothing was deferred: gradients of inputs come first, "
                   "and those of weights once\n"
                   "false\tdemo.lua:20: backward_input: the loss has shape [3], expected one "
                   "element; give other tensors a gradient to start from\n4.0 5.0 6.0\n");
    expect_failure("local t = orrery.tape()\nt:backward_input({})",
                   "demo.lua:2: backward_input: expected a loss and the tensors whose gradients "
                   "are wanted");
}

static void evicted_tensors_are_restored_before_the_gradient(void **state) {
    (void)state;
    expect_printed_on(
        2,
        SHOW "local w = orrery.tensor{ shape = {4}, dtype = 'f64', values = {1, 2, 3, 4},\n"
             "                         mesh = orrery.mesh{ shape = {2}, names = {'dp'} },\n"
             "                         place = 'S(0)' }\n"
             "local tape = orrery.tape()\n"
             "tape:watch(w)\n"
             "local full = w:redistribute('R')\n"
             "local y = full * full\n"
             "tape:stop()\n"
             "print(tape:bytes(), tape:bytes(1))\n"
             "full:evict()\n"
             "print(tape:bytes(), pcall(full.sum, full))\n"
             "local again = w:redistribute('R')\n"
             "full:restore(again)\n"
             "again:free()\n"
             "show((tape:gradient({ {y} }, w)))\n"
             "print(pcall(full.restore, full, w))\n",
        "64\t32\n0\tfalse\tdemo.lua:12: sum: operand x has been evicted; restore it first\n"
        "2.0 4.0 6.0 8.0\nfalse\tdemo.lua:17: restore: the tensor has not been evicted\n");
}

static void sums_of_gradients_take_any_placements(void **state) {
    (void)state;
    expect_printed_on(
        2,
        SHOW "local mesh = orrery.mesh{ shape = {2}, names = {'dp'} }\n"
             "local a = orrery.ones{ shape = {2, 4}, dtype = 'f64', mesh = mesh, place = 'S(1)' }\n"
             "local b = orrery.ones{ shape = {4, 1}, dtype = 'f64', mesh = mesh, place = 'S(0)' }\n"
             "local partial = a:matmul(b)\n"
             "local whole = partial:redistribute('R')\n"
             "local sum = orrery.accumulate(nil, partial)\n"
             "sum = orrery.accumulate(sum, partial)\n"
             "print(sum:place())\n"
             "local before = sum\n"
             "sum = orrery.accumulate(sum, whole)\n"
             "print(sum:place(), pcall(before.place, before))\n"
             "sum = orrery.accumulate(sum, partial)\n"
             "print(sum:place(), partial:place(), whole:place())\n"
             "show(sum)\n"
             "print(pcall(orrery.accumulate, sum, a))\n"
             "show(sum)\n",
        "P(sum)\nR\tfalse\tdemo.lua:12: place: the tensor has been freed\nR\tP(sum)\tR\n"
        "16.0 16.0\nfalse\tdemo.lua:16: a gradient [2, 4] f64 can't be added to a sum [2, 1] f64\n"
        "16.0 16.0\n");
}

/* The first host is blocked in the middle of its gradient when the second one comes along, whose
 * tapes follow the same tensors. */
static void a_tape_that_is_played_keeps_its_tensors(void **state) {
    (void)state;
    expect_printed(VECTOR("w", "1, 2, 3") SHOW "orrery.host(function(rank)\n"
                                               "    if rank == 0 then\n"
                                               "        local tape <close> = orrery.tape()\n"
                                               "        tape:watch(w)\n"
                                               "        local y = w * w\n"
                                               "        for _ = 1, 10 do y = -y end\n"
                                               "        show(tape:gradient(y:sum(), w))\n"
                                               "        return\n"
                                               "    end\n"
                                               "    for _ = 1, 100 do\n"
                                               "        local z <close> = w * w\n"
                                               "        local tape <close> = orrery.tape()\n"
                                               "        tape:watch(z, w)\n"
                                               "    end\n"
                                               "end, 2)\n"
                                               "orrery.join()\n",
                   "2.0 4.0 6.0\n");
}

static void a_gradient_is_not_recorded(void **state) {
    (void)state;
    expect_failure(
        VECTOR("v", "1, 2, 3")
            VECTOR("w", "4, 5, 6") "local first = orrery.tape{ persistent = true }\n"
                                   "first:watch(v)\n"
                                   "local loss = (v * w):sum()\n"
                                   "first:gradient(loss, v)\n"
                                   "local second = orrery.tape()\n"
                                   "second:watch(w)\n"
                                   "local dv = first:gradient(loss, v)\n"
                                   "second:gradient((dv * dv):sum(), w)",
        "demo.lua:10: the tensor to start from depends on nothing that the tape watches");
}

/* Two hosts, each with a tape of its own on a device of its own; they block each other. */
static void every_host_has_its_own_tape(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local sums = {}\n"
        "orrery.host(function(rank)\n"
        "    local mesh = orrery.mesh{ shape = {1}, names = {'d'}, devices = {rank} }\n"
        "    local w = orrery.tensor{ shape = {2}, dtype = 'f64', values = {1, rank},\n"
        "                             mesh = mesh, place = {'R'} }\n"
        "    local tape <close> = orrery.tape()\n"
        "    tape:watch(w)\n"
        "    local y = w\n"
        "    for i = 1, 6 do\n"
        "        y = y * y + w\n"
        "        orrery.spend(rank == 0 and 700 or 9000)\n"
        "    end\n"
        "    local dw = tape:gradient((y * 0.001):sum(), w)\n"
        "    sums[rank] = dw:sum():future():get()\n"
        "end)\n"
        "orrery.join()\n"
        "local function slope(x)\n"
        "    local y, d = x, 1\n"
        "    for i = 1, 6 do d = 2 * y * d + 1; y = y * y + x end\n"
        "    return 0.001 * d\n"
        "end\n"
        "print(math.abs(sums[0] / (slope(1) + slope(0)) - 1) < 1e-12,\n"
        "      math.abs(sums[1] / (slope(1) + slope(1)) - 1) < 1e-12)\n",
        "true\ttrue\n");
}

static void optimizers_of_the_library_keep_their_state(void **state) {
    (void)state;
    expect_printed("local training = require 'training'\n"
                   "for _, kind in ipairs{'sgd', 'momentum', 'adamw', 'master'} do\n"
                   "    local w = orrery.tensor{ shape = {1}, values = {4}, dtype =\n"
                   "                             kind == 'master' and 'bf16' or 'f32' }\n"
                   "    local model = { w = w }\n"
                   "    local o = kind == 'sgd' and training.sgd{ parameters = model, lr = 0.1 }\n"
                   "        or kind == 'momentum'\n"
                   "           and training.sgd{ parameters = model, lr = 0.05, momentum = 0.5 }\n"
                   "        or training.adamw{ parameters = model, lr = 0.2, weight_decay = 0,\n"
                   "                           master = kind == 'master' }\n"
                   "    for step = 1, 40 do\n"
                   "        local loss <close>, grads = training.gradients(model, function()\n"
                   "            return (model.w * model.w):sum()\n"
                   "        end)\n"
                   "        o:step(grads)\n"
                   "    end\n"
                   "    print(kind, model.w:dtype(), math.abs(model.w:future():get()[1]) < 0.5,\n"
                   "          pcall(w.shape, w))\n"
                   "end\n",
                   "sgd\tf32\ttrue\tfalse\tdemo.lua:18: shape: the tensor has been freed\n"
                   "momentum\tf32\ttrue\tfalse\tdemo.lua:18: shape: the tensor has been freed\n"
                   "adamw\tf32\ttrue\tfalse\tdemo.lua:18: shape: the tensor has been freed\n"
                   "master\tbf16\ttrue\tfalse\tdemo.lua:18: shape: the tensor has been freed\n");
    expect_failure("local training = require 'training'\n"
                   "training.sgd{ parameters = {}, lr = 1, momentun = 2 }",
                   "demo.lua:2: training: unknown option 'momentun'");
    expect_failure("local training = require 'training'\ntraining.adamw{ lr = 1 }",
                   "demo.lua:2: training: an optimizer needs parameters and lr");
}

static void a_training_loop_leaves_no_memory_behind(void **state) {
    (void)state;
    expect_printed(
        "local training = require 'training'\n"
        "local model = { w = orrery.randn{ shape = {64, 64} }, b = orrery.zeros{ shape = {64} } }\n"
        "local x = orrery.randn{ shape = {32, 64}, seed = 1 }\n"
        "local adam, used = training.adamw{ parameters = model, lr = 1e-3 }\n"
        "for step = 1, 6 do\n"
        "    local loss, grads = training.gradients(model, function()\n"
        "        local y = orrery.tanh(x:matmul(model.w) + model.b)\n"
        "        return (y * y):mean()\n"
        "    end)\n"
        "    loss:free()\n"
        "    adam:step(grads)\n"
        "    local now = orrery.device(0):memory().requested\n"
        "    if step > 1 then print(now == used) end\n"
        "    used = now\n"
        "end\n",
        "true\ntrue\ntrue\ntrue\ntrue\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tape_gives_gradients_in_the_order_asked_for),
        cmocka_unit_test(seeds_are_tensors_numbers_or_ones),
        cmocka_unit_test(a_paused_tape_does_not_see),
        cmocka_unit_test(mistakes_name_their_line),
        cmocka_unit_test(stopped_tapes_share_parameters_and_wait),
        cmocka_unit_test(gradients_come_in_two_parts),
        cmocka_unit_test(evicted_tensors_are_restored_before_the_gradient),
        cmocka_unit_test(sums_of_gradients_take_any_placements),
        cmocka_unit_test(a_tape_that_is_played_keeps_its_tensors),
        cmocka_unit_test(a_gradient_is_not_recorded),
        cmocka_unit_test(every_host_has_its_own_tape),
        cmocka_unit_test(optimizers_of_the_library_keep_their_state),
        cmocka_unit_test(a_training_loop_leaves_no_memory_behind),
    };
    return cmocka_run_group_tests_name("scenarios: gradients", tests, NULL, NULL);
}
