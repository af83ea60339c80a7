/* Recordings of values and their comparison in scenarios. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

static void the_first_operator_that_parts_is_described(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local divergence = require 'divergence'\n"
        "local function program(by)\n"
        "    local x = orrery.tensor{ shape = {2, 2}, values = {1, 2, 3, 4}, place = {'S(0)'} }\n"
        "    local y = orrery.relu(x)\n"
        "    return (y * by):redistribute('R') + y:redistribute('R')\n"
        "end\n"
        "local d = divergence.compare{ function() program(2) end, function() program(5) end }\n"
        "print(d.operator, d.site, d.index, d.output, d.difference, d.relative, d.a, d.b)\n"
        "print(d.place_a, d.dtype_b, table.concat(d.shape_a, ' '),\n"
        "      table.concat(d.worst_index, ' '))\n"
        "print(#d.inputs, d.inputs[1].name, d.inputs[1].parts, d.inputs[1].maker_a,\n"
        "      d.inputs[1].maker_site_b)\n"
        "print(divergence.report(d):match('[^\\n]*'))\n"
        "print(divergence.compare{ function() program(2) end, function() program(2) end })\n"
        "print(divergence.report(nil))\n",
        "scale\tdemo.lua:5\t1\t0\t12.0\t0.6\t8.0\t20.0\n"
        "S(0)\tf32\t2 2\t1 1\n"
        "1\tx\tfalse\trelu\tdemo.lua:4\n"
        "2 operators compared within 1e-05; the first that parts is operator 1, scale, result 0\n"
        "nil\n"
        "the runs agree\n");
}

static void a_recording_is_compared_as_often_as_wanted(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local function ones(by) return function() local x = orrery.full{ shape = {3},\n"
        "    value = by } end end\n"
        "local a <close> = orrery.record_values(ones(1))\n"
        "local b = orrery.record_values(ones(1.5))\n"
        "print(a)\n"
        "print(select(2, orrery.compare_values(a, a)))\n"
        "print(orrery.compare_values(a, b, { tolerance = 0.5 }))\n"
        "print(select(2, orrery.compare_values(a, b, { names = {'x', 'y'} })))\n"
        "b:free()\n"
        "print(pcall(orrery.compare_values, a, b))\n",
        "recording\n"
        "1 operators compared within 1e-05: they agree\n\n"
        "nil\t1 operators compared within 0.5: they agree\n\n"
        "1 operators compared within 1e-05; the first that parts is operator 0, full, result 0\n"
        "  x: f32 [3] R at demo.lua:1\n"
        "  y: f32 [3] R at demo.lua:1\n"
        "  they differ by up to 0.5 (0.33 of the largest magnitude), most at [0]: 1 and 1.5\n"
        "  attribute value is not the same: 1 and 1.5\n\n"
        "false\tdemo.lua:10: compare_values: the recording has been freed\n");
}

static void an_error_inside_ends_the_recording(void **state) {
    (void)state;
    expect_printed_on(2,
                      "print(pcall(orrery.record_values, function()\n"
                      "    local x = orrery.ones{ shape = {2} }\n"
                      "    error('no')\n"
                      "end))\n"
                      "print(pcall(orrery.record_values, function()\n"
                      "    local x = orrery.ones{ shape = {2} }\n"
                      "end, { bytes = 7 }))\n"
                      "local r = orrery.record_values(function() end)\n" /* freed with the run */
                      "print(r)\n",
                      "false\tdemo.lua:3: no\n"
                      "false\tdemo.lua:5: recorded values need more than 7 bytes, at operator 1, "
                      "'ones', demo.lua:6\n"
                      "recording\n");
}

static void several_hosts_are_recorded_in_the_order_of_their_calls(void **state) {
    (void)state;
    expect_printed_on(
        2,
        "local function program(value)\n"
        "    orrery.host(function(rank)\n"
        "        local mesh = orrery.mesh{ shape = {1}, names = {'a'}, devices = {rank} }\n"
        "        local x = orrery.full{ shape = {2}, value = value + rank, mesh = mesh }\n"
        "        for i = 1, 3 do x = -x end\n"
        "    end)\n"
        "    orrery.join()\n"
        "end\n"
        "local a = orrery.record_values(function() program(1) end)\n"
        "local b = orrery.record_values(function() program(1) end)\n"
        "print(select(2, orrery.compare_values(a, b)))\n",
        "8 operators compared within 1e-05: they agree\n\n");
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    expect_failure("require 'divergence'.compare{ print }\n",
                   "demo.lua:1: divergence.compare: expected two functions, got function and nil");
    expect_failure("require 'divergence'.compare{ print, print, tolerence = 1 }\n",
                   "demo.lua:1: divergence.compare: unknown key 'tolerence'; known: two functions, "
                   "tolerance, names, bytes");
    expect_failure("orrery.record_values(print, { byts = 1 })\n",
                   "demo.lua:1: unknown key 'byts' in record_values; did you mean 'bytes'?");
    expect_failure("orrery.compare_values(1, 2)\n",
                   "demo.lua:1: compare_values: expected a recording, got number");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_operator_that_parts_is_described),
        cmocka_unit_test(a_recording_is_compared_as_often_as_wanted),
        cmocka_unit_test(an_error_inside_ends_the_recording),
        cmocka_unit_test(several_hosts_are_recorded_in_the_order_of_their_calls),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests_name("scenarios: divergence", tests, NULL, NULL);
}
