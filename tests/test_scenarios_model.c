/* Library modules of language models: ring attention and the loss over a sharded vocabulary say
 * what does not fit; rings of attention under several uses of a tensor. (scenarios/training has the
 * comparisons with one device.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

static void a_ring_needs_its_sequence_cut_along_the_axis(void **state) {
    (void)state;
    expect_failure("local ring = require 'ring_attention'\n"
                   "local m = orrery.mesh{ shape = {2}, names = {'cp'} }\n"
                   "local q = orrery.ones{ shape = {1, 2, 4, 2}, mesh = m, place = {'S(1)'} }\n"
                   "ring(q, q, q, { axis = 'cp' })",
                   "demo.lua:4: ring_attention: q is S(1), expected S(2) along axis 'cp'");
    expect_failure("local ring = require 'ring_attention'\n"
                   "local q = orrery.ones{ shape = {1, 2, 4, 2} }\n"
                   "ring(q, q, q, { causal = true })",
                   "demo.lua:3: ring_attention: 'axis' is missing, the name of a mesh axis");
    expect_failure("local ring = require 'ring_attention'\n"
                   "local q = orrery.ones{ shape = {1, 2, 4, 2} }\n"
                   "ring(q, q, q, { axes = 'cp' })",
                   "demo.lua:3: ring_attention: unknown option 'axes'; known: axis, causal, scale");
}

static void a_sharded_loss_names_unknown_options(void **state) {
    (void)state;
    expect_failure("local losses = require 'losses'\n"
                   "local x = orrery.ones{ shape = {2, 4} }\n"
                   "losses.cross_entropy(x, x, { count = 3 })",
                   "demo.lua:3: losses.cross_entropy: unknown option 'count'; known: total");
}

/* Half of the rows on either rank, of which one has none of the targets' classes. */
static void a_target_counts_on_the_rank_that_has_its_class(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local losses = require 'losses'\n"
        "local m = orrery.mesh{ shape = {2}, names = {'tp'} }\n"
        "local x = orrery.tensor{ shape = {2, 4}, mesh = m, place = {'S(1)'},\n"
        "    values = {0, 0, 0, 0, 1000, 0, 0, 0} }\n"
        "local t = orrery.tensor{ shape = {2}, values = {3, 0}, dtype = 'i64',\n"
        "    mesh = m }\n"
        "local tape = orrery.tape()\n"
        "tape:watch(x)\n"
        "local loss = losses.cross_entropy(x, t)\n"
        "local dx = tape:gradient(loss, x)\n"
        "print(string.format('%.4f', loss:future():get()), loss:place(), dx:place())\n"
        "print(table.concat(dx:future():get(), ' '))",
        "0.6931\tR\tS(1)\n"
        "0.125 0.125 0.125 -0.375 0.0 0.0 0.0 0.0\n");
}

/* q = k = v: three gradients of one tensor come together. */
static void a_ring_of_one_tensor_adds_its_gradients(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local ring = require 'ring_attention'\n"
        "local m = orrery.mesh{ shape = {2}, names = {'cp'} }\n"
        "local function slope(place, f)\n"
        "    local x = orrery.randn{ shape = {1, 2, 4, 2}, seed = 3, mesh = m, place = {place} }\n"
        "    local tape = orrery.tape()\n"
        "    tape:watch(x)\n"
        "    return tape:gradient({ {f(x), 1} }, x):future():get()\n"
        "end\n"
        "local plain = slope('R', function(x) return orrery.sdpa(x, x, x, { causal = true }) end)\n"
        "local ringed = slope('S(2)', function(x)\n"
        "    return ring(x, x, x, { axis = 'cp', causal = true })\n"
        "end)\n"
        "local worst = 0\n"
        "for i, value in ipairs(plain) do\n"
        "    worst = math.max(worst, math.abs(value - ringed[i]))\n"
        "end\n"
        "print(#plain, worst < 1e-6)",
        "16\ttrue\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_needs_its_sequence_cut_along_the_axis),
        cmocka_unit_test(a_sharded_loss_names_unknown_options),
        cmocka_unit_test(a_target_counts_on_the_rank_that_has_its_class),
        cmocka_unit_test(a_ring_of_one_tensor_adds_its_gradients),
    };
    return cmocka_run_group_tests_name("scenarios of models", tests, NULL, NULL);
}
