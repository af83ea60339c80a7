/* Convolutions, quantized weights and caches from scenarios: fused as one by one, results of two
 * kinds, and a cache that is spent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

#define EQUAL                                                                                      \
    "local function equal(a, b)\n"                                                                 \
    "    local x, y = a:future():get(), b:future():get()\n"                                        \
    "    for i = 1, #y do if x[i] ~= y[i] then return i end end\n"                                 \
    "    return #x\n"                                                                              \
    "end\n"

/* A rank has its share of the groups in a fused kernel, too. */
static void fused_convolutions_of_groups_over_devices_give_the_same(void **state) {
    (void)state;
    expect_printed_on(
        2,
        EQUAL
        "local mesh = orrery.mesh{ shape = {2}, names = {'tp'} }\n"
        "local function draw(place, ...)\n"
        "    return orrery.randn{ shape = {...}, mesh = mesh, place = {place}, seed = 3 }\n"
        "end\n"
        "local x, w, b = draw('S(1)', 2, 4, 6, 6), draw('S(0)', 8, 2, 3, 3), draw('S(0)', 8)\n"
        "local function f(x) return x:conv2d(w, b, { groups = 2, padding = 1 }):silu() end\n"
        "print(equal(orrery.fuse(f, { fusion = 'epilogue' })(x), f(x)))\n"
        "local c = orrery.capture(f, { fusion = 'epilogue' })\n"
        "c(x)\n"
        "print(equal(c(x), f(x)), c(x))\n",
        "576\n576\ttensor [2, 8, 6, 6] f32 S(1)\n");
}

static void fused_products_with_codes_give_the_same(void **state) {
    (void)state;
    expect_printed(EQUAL "local w = orrery.randn{ shape = {6, 5}, seed = 4 }\n"
                         "local q, s = w:quantize{ dtype = 'f8e4m3' }\n"
                         "local x = orrery.randn{ shape = {3, 5}, seed = 5 }\n"
                         "local b = orrery.randn{ shape = {6}, seed = 6 }\n"
                         "local function f(x) return x:linear_quantized(q, s, b):gelu() end\n"
                         "print(equal(orrery.fuse(f, { fusion = 'epilogue' })(x), f(x)))\n"
                         "print(q, s)\n"
                         "print(q:dequantize(s, { dtype = 'bf16' }))\n",
                   "18\ntensor [6, 5] f8e4m3 R\ttensor [6] f32 R\ntensor [6, 5] bf16 R\n");
}

static void a_cache_is_spent_by_what_changes_it(void **state) {
    (void)state;
    const char *text = "local cache = orrery.zeros{ shape = {2, 1, 4, 1} }\n"
                       "local new = orrery.ones{ shape = {2, 1, 1, 1} }\n"
                       "local at = orrery.tensor{ shape = {2}, values = {3, 0}, dtype = 'i64' }\n"
                       "local next = cache:kv_append(new, at)\n"
                       "print(table.concat(next:future():get(), ' '))\n"
                       "cache:free()\n";
    expect_printed(text, "0.0 0.0 0.0 1.0 1.0 0.0 0.0 0.0\n");
    expect_failure("local cache = orrery.zeros{ shape = {1, 1, 4, 1} }\n"
                   "local new = orrery.ones{ shape = {1, 1, 1, 1} }\n"
                   "local at = orrery.tensor{ shape = {1}, values = {3}, dtype = 'i64' }\n"
                   "cache:kv_append(new, at)\n"
                   "cache:kv_append(new, at)\n",
                   "demo.lua:5: kv_append: operand cache was changed in place; use the result of "
                   "the operator that did so");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_convolutions_of_groups_over_devices_give_the_same),
        cmocka_unit_test(fused_products_with_codes_give_the_same),
        cmocka_unit_test(a_cache_is_spent_by_what_changes_it),
    };
    return cmocka_run_group_tests_name("serving scenarios", tests, NULL, NULL);
}
