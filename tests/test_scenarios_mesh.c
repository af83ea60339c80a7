/* The binding of meshes and placements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

#define GRID "local m = orrery.mesh{ shape = {2, 2}, names = {'dp', 'tp'} }\n"

static void a_mesh_says_what_it_is(void **state) {
    (void)state;
    expect_printed_on(4,
                      GRID "print(m:size(), m:size('tp'), table.concat(m:names(), ' '),\n"
                           "      table.concat(m:devices(), ' '), m, m:slice{ tp = 1 })",
                      "4\t2\tdp tp\t0 1 2 3\tmesh dp=2 tp=2 on 0-3\tmesh dp=2 on 1, 3\n");
}

static void views_of_a_mesh_are_meshes_and_equal_ones_the_same(void **state) {
    (void)state;
    expect_printed_on(4,
                      GRID "local row, turned = m:slice{ dp = 1 }, m:permute{ 'tp', 'dp' }\n"
                           "print(table.concat(row:devices(), ' '), row:names()[1])\n"
                           "print(table.concat(turned:devices(), ' '), turned:names()[1])\n"
                           "print(row == m:slice{ dp = 1 }, turned:permute{ 'dp', 'tp' } == m)\n"
                           "print(table.concat(m:slice{ dp = 1, tp = 0 }:devices(), ' '))\n"
                           "local x = orrery.ones{ shape = {2}, mesh = m:slice{ dp = 1 } }\n"
                           "print(x:mesh() == row, (x + orrery.ones{ shape = {2}, mesh = row })\n"
                           "      :future():get()[1])",
                      "2 3\ttp\n0 2 1 3\ttp\ntrue\ttrue\n2\ntrue\t2.0\n");
}

static void placements_may_go_by_the_names_of_axes(void **state) {
    (void)state;
    expect_printed_on(4,
                      GRID "local x = orrery.ones{ shape = {4, 4}, mesh = m, place = { tp = 'S(1)' "
                           "} }\n"
                           "local y = x:redistribute{ dp = 'S(0)' }\n"
                           "print(x:place(), y:place(), y:redistribute{}:place(),\n"
                           "      y:redistribute{ dp = 'S(1)', tp = 'R' }:place())\n"
                           "print(x:plan{ dp = 'S(0)' } == x:plan{ 'S(0)', 'S(1)' })",
                      "[R, S(1)]\t[S(0), S(1)]\t[S(0), S(1)]\t[S(1), R]\ntrue\n");
}

static void a_tensor_goes_to_another_mesh_with_its_named_placements(void **state) {
    (void)state;
    expect_printed_on(4,
                      GRID
                      "local a, b = m:slice{ dp = 0 }, m:slice{ dp = 1 }\n"
                      "local x = orrery.tensor{ shape = {4}, values = {1, 2, 3, 4}, mesh = a,\n"
                      "                         place = 'S(0)' }\n"
                      "local y, z = x:redistribute(nil, b), x:redistribute('R', b)\n"
                      "local back = x:redistribute({}, m)\n"
                      "print(y:place(), z:place(), back:place(), y:mesh() == b)\n"
                      "print(table.concat(back:future():get(), ' '))\n"
                      "print((x:plan(nil, b)))",
                      "S(0)\tR\t[R, S(0)]\ttrue\n1.0 2.0 3.0 4.0\n"
                      "[4] f32, S(0) -> S(0) on 2, 3: 8 B on the wire, 1 hop; the best of 1 "
                      "candidate\n"
                      "  1. send_receive   S(0) on 0, 1 -> S(0) on 2, 3: 2 sends of 16 B together, "
                      "8 B on the wire, 1 hop\n\n");
}

static void tensors_are_shifted_in_rings_and_redistributed_together(void **state) {
    (void)state;
    expect_printed_on(4,
                      GRID
                      "local x = orrery.tensor{ shape = {4}, values = {1, 2, 3, 4}, mesh = m,\n"
                      "                         place = { tp = 'S(0)' } }\n"
                      "local y = x:shift{ axis = 'tp' }\n"
                      "print(table.concat(y:future():get(), ' '), y:place())\n"
                      "local r = orrery.redistribute_all({x, y}, { tp = 'R' })\n"
                      "print(#r, r[2]:place(), table.concat(r[2]:future():get(), ' '))\n"
                      "r = orrery.redistribute_all{ {x, { dp = 'S(0)', tp = 'R' }}, {y, {}} }\n"
                      "print(r[1]:place(), r[2]:place())",
                      "3.0 4.0 1.0 2.0\t[R, S(0)]\n2\t[R, R]\t3.0 4.0 1.0 2.0\n"
                      "[S(0), R]\t[R, S(0)]\n");
    expect_failure_on(4, GRID "orrery.ones{ shape = {4}, mesh = m }:shift{ axis = 'pp' }",
                      "demo.lua:2: shift: the mesh has no axis 'pp'; did you mean 'dp'?");
    expect_failure_on(4, "orrery.redistribute_all({1}, 'R')",
                      "demo.lua:1: redistribute_all: expected a tensor, got number");
}

static void wrong_axes_are_named_with_the_nearest(void **state) {
    (void)state;
    expect_failure_on(4, GRID "orrery.ones{ shape = {4}, mesh = m, place = { tpp = 'S(0)' } }",
                      "demo.lua:2: ones: the mesh has no axis 'tpp'; did you mean 'tp'?");
    expect_failure_on(4, GRID "orrery.ones{ shape = {4}, mesh = m }:redistribute{ pipeline = 'R' }",
                      "demo.lua:2: redistribute: the mesh has no axis 'pipeline'; known: dp, tp");
    expect_failure_on(4,
                      GRID "orrery.ones{ shape = {4}, mesh = m }:redistribute{ 'R', 'R', tp = 'R' "
                           "}",
                      "demo.lua:2: redistribute: place: expected placements in order or by names "
                      "of axes, got both");
    expect_failure_on(4, GRID "m:slice{ pd = 0 }",
                      "demo.lua:2: mesh:slice: the mesh has no axis 'pd'; did you mean 'dp'?");
    expect_failure_on(4, GRID "m:slice{ 0 }",
                      "demo.lua:2: mesh:slice: expected names of mesh axes, got 1");
    expect_failure_on(4, GRID "m:slice{ dp = 2 }",
                      "demo.lua:2: mesh axis 'dp' has coordinates 0 to 1, not 2");
    expect_failure_on(4, GRID "m:permute{ 'tp' }",
                      "demo.lua:2: mesh:permute: 1 names for the 2 axes of the mesh");
    expect_failure_on(4, GRID "m:permute{ 'tp', 'tp' }",
                      "demo.lua:2: a permutation of a mesh has each of its 2 axes once");
    expect_failure_on(4, GRID "m:size('dpp')",
                      "demo.lua:2: mesh:size: the mesh has no axis 'dpp'; did you mean 'dp'?");
    expect_failure_on(4, "orrery.mesh{ shape = {2, 2}, names = {'dp', 'dp'} }",
                      "demo.lua:1: two axes of a mesh are named 'dp'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mesh_says_what_it_is),
        cmocka_unit_test(views_of_a_mesh_are_meshes_and_equal_ones_the_same),
        cmocka_unit_test(placements_may_go_by_the_names_of_axes),
        cmocka_unit_test(a_tensor_goes_to_another_mesh_with_its_named_placements),
        cmocka_unit_test(tensors_are_shifted_in_rings_and_redistributed_together),
        cmocka_unit_test(wrong_axes_are_named_with_the_nearest),
    };
    return cmocka_run_group_tests_name("scenarios_mesh", tests, NULL, NULL);
}
