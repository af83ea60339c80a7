/* Roles of memory: who gives them, what counts under them, what the records say; from C and from
 * scenarios. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/role.h"
#include "sim/sim.h"
#include "tests/scenario_play.h"

static struct orr_buffer *alloc(struct fixture *f, uint64_t bytes) {
    struct orr_stream *stream = orr_device_stream(f->runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *buffer;
    assert_int_equal(orr_buffer_alloc(stream, bytes, "x", &buffer), ORR_OK);
    return buffer;
}

static struct orr_role_usage usage(const struct fixture *f, enum orr_role role) {
    return orr_device_memory(f->runtime, 0).roles[role];
}

static void a_buffer_takes_the_role_of_its_host(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_buffer *plain = alloc(&f, 100);
    assert_int_equal(orr_runtime_set_role(f.runtime, 0, ORR_ROLE_PARAMETER), ORR_ROLE_OTHER);
    struct orr_buffer *weight = alloc(&f, 1000);
    assert_int_equal(orr_runtime_set_role(f.runtime, 0, ORR_ROLE_OTHER), ORR_ROLE_PARAMETER);
    assert_int_equal(orr_buffer_role(plain), ORR_ROLE_OTHER);
    assert_int_equal(orr_buffer_role(weight), ORR_ROLE_PARAMETER);
    assert_int_equal(usage(&f, ORR_ROLE_OTHER).used, 100); /* as asked for, not as rounded */
    assert_int_equal(usage(&f, ORR_ROLE_PARAMETER).used, 1000);
    orr_buffer_free(&weight);
    assert_int_equal(usage(&f, ORR_ROLE_PARAMETER).used, 0);
    assert_int_equal(usage(&f, ORR_ROLE_PARAMETER).peak, 1000);
    const struct orr_record_buffer *first = record_at(&f, ORR_RECORD_BUFFER, 0);
    const struct orr_record_buffer *second = record_at(&f, ORR_RECORD_BUFFER, 1);
    assert_int_equal(first->header.a, ORR_ROLE_OTHER);
    assert_int_equal(second->header.a, ORR_ROLE_PARAMETER);
    fixture_close(&f);
}

static void another_role_counts_from_then_on_and_is_recorded(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_buffer *a = alloc(&f, 300), *b = alloc(&f, 50);
    assert_int_equal(orr_buffer_set_role(a, ORR_ROLE_OTHER), ORR_OK); /* has it already */
    assert_int_equal(record_count(&f, ORR_RECORD_BUFFER_ROLE), 0);
    int64_t before = orr_runtime_now(f.runtime);
    assert_int_equal(orr_buffer_set_role(a, ORR_ROLE_GRADIENT), ORR_OK);
    assert_int_equal(orr_runtime_now(f.runtime), before);
    assert_int_equal(usage(&f, ORR_ROLE_OTHER).used, 50);
    assert_int_equal(usage(&f, ORR_ROLE_OTHER).peak, 350);
    assert_int_equal(usage(&f, ORR_ROLE_GRADIENT).used, 300);
    const struct orr_record_buffer_role *record = record_at(&f, ORR_RECORD_BUFFER_ROLE, 0);
    assert_int_equal(record->header.a, ORR_ROLE_GRADIENT);
    assert_int_equal(record->id, orr_buffer_id(a));
    assert_int_equal(record->after_cmd, 2); /* the second allocation */
    assert_int_equal(record->ts_ns, before);
    orr_buffer_free(&a);
    assert_int_equal(usage(&f, ORR_ROLE_GRADIENT).used, 0);
    orr_buffer_free(&b);
    fixture_close(&f);
}

static void roles_of_a_device_add_up_to_what_was_asked_for(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    uint64_t seed = random_seed(7);
    struct orr_buffer *live[20] = {NULL};
    for (int i = 0; i < 2000; i++) {
        struct orr_buffer **slot = &live[random_below(&seed, 20)];
        if (!*slot) {
            orr_runtime_set_role(f.runtime, 0, (enum orr_role)random_below(&seed, ORR_ROLE_COUNT));
            *slot = alloc(&f, 1 + random_below(&seed, 1 << 20));
        } else if (random_below(&seed, 2) == 0) {
            orr_buffer_free(slot);
        } else {
            enum orr_role role = (enum orr_role)random_below(&seed, ORR_ROLE_COUNT);
            assert_int_equal(orr_buffer_set_role(*slot, role), ORR_OK);
        }
        struct orr_memory_usage memory = orr_device_memory(f.runtime, 0);
        uint64_t sum = 0;
        for (int role = 0; role < ORR_ROLE_COUNT; role++) {
            assert_true(memory.roles[role].used <= memory.roles[role].peak);
            sum += memory.roles[role].used;
        }
        assert_int_equal(sum, memory.requested);
    }
    fixture_close(&f);
}

static void fragmentation_is_what_was_reserved_beside_the_largest_live_set(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_buffer *a = alloc(&f, 3 << 20); /* a segment of 20 MiB */
    assert_int_equal(orr_device_memory(f.runtime, 0).fragmentation, 17 << 20);
    struct orr_buffer *b = alloc(&f, 100); /* and one of 2 MiB for 512 bytes */
    struct orr_memory_usage memory = orr_device_memory(f.runtime, 0);
    assert_int_equal(memory.allocated_peak, (3 << 20) + 512);
    assert_int_equal(memory.fragmentation, (22 << 20) - (3 << 20) - 512);
    orr_buffer_free(&a);
    orr_buffer_free(&b);
    assert_int_equal(orr_device_memory(f.runtime, 0).fragmentation, memory.fragmentation);
    fixture_close(&f);
}

static void out_of_memory_names_the_roles_of_the_largest(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *stream = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    orr_runtime_set_role(f.runtime, 0, ORR_ROLE_ACTIVATION);
    assert_int_equal(orr_runtime_set_caller(f.runtime, 0, "m.lua:3"), ORR_OK);
    struct orr_buffer *a, *b;
    assert_int_equal(orr_buffer_alloc(stream, 900 << 20, "y", &a), ORR_OK);
    assert_int_equal(orr_buffer_alloc(stream, 900 << 20, "z", &b), ORR_DEVICE_MEMORY);
    assert_non_null(strstr(fixture_error(&f), "largest live buffers: 'y' 943718400 bytes of role "
                                              "activation at m.lua:3"));
    assert_int_equal(usage(&f, ORR_ROLE_ACTIVATION).used, 900 << 20);
    fixture_close(&f);
}

/* Buffers of one line and role are one entry, whatever came in between; the order of the list that
 * was sorted for it is as before, so that all of them can be freed. */
static void out_of_memory_sums_by_line_and_role(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *stream = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *live[40], *more;
    static const char *const sites[] = {"m.lua:1", "m.lua:2", "", ""};
    for (uint64_t i = 0; i < 40; i++) {
        enum orr_role role = i % 4 == 1 && i > 20 ? ORR_ROLE_GRADIENT : ORR_ROLE_OTHER;
        orr_runtime_set_role(f.runtime, 0, role);
        assert_int_equal(orr_runtime_set_caller(f.runtime, 0, sites[i % 4]), ORR_OK);
        assert_int_equal(
            orr_buffer_alloc(stream, (i % 4 + 1) * 1000 + i, i % 4 == 2 ? "left" : "x", &live[i]),
            ORR_OK);
    }
    assert_int_equal(orr_buffer_alloc(stream, UINT64_MAX / 2, "big", &more), ORR_DEVICE_MEMORY);
    const char *text = strstr(fixture_error(&f), "largest live buffers:");
    assert_non_null(text);
    assert_string_equal(text, "largest live buffers: 'x' 40210 bytes in 10 buffers, 'left' 30200 "
                              "bytes in 10 buffers, 'x' 10180 bytes in 10 buffers at m.lua:1, 'x' "
                              "10145 bytes in 5 buffers of role gradient at m.lua:2, 'x' 10045 "
                              "bytes in 5 buffers at m.lua:2");
    for (int i = 0; i < 40; i++) {
        orr_buffer_free(&live[i * 7 % 40]);
    }
    assert_int_equal(orr_device_memory(f.runtime, 0).requested, 0);
    fixture_close(&f);
}

/* --- from scenarios --- */

#define USED(role) "orrery.device(0):memory().roles." role ".used"

static void a_function_runs_with_a_role_and_results_pass(void **state) {
    (void)state;
    expect_printed("local w, n = orrery.role('parameter', function(k)\n"
                   "    local g = orrery.role('gradient', orrery.zeros, { shape = {k} })\n"
                   "    return orrery.zeros{ shape = {2 * k} }, g\n"
                   "end, 8)\n"
                   "local x = orrery.zeros{ shape = {4} }\n"
                   "print(w:role(), n:role(), x:role())\n"
                   "print(" USED("parameter") ", " USED("gradient") ", " USED("other") ")\n",
                   "parameter\tgradient\tother\n64\t32\t16\n");
}

static void an_error_puts_the_role_back_and_stays_the_same(void **state) {
    (void)state;
    expect_printed("print(pcall(orrery.role, 'gradient', function() error('no', 0) end))\n"
                   "print(orrery.zeros{ shape = {1} }:role())\n",
                   "false\tno\nother\n");
}

static void every_host_has_a_role_of_its_own_across_waits(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local names = { [0] = 'activation', 'optimizer' }\n"
                      "local role = {}\n"
                      "orrery.host(function(rank)\n"
                      "    local d = orrery.device(rank)\n"
                      "    orrery.role(names[rank], function()\n"
                      "        for i = 1, 3 do\n"
                      "            local b = d:alloc(64)\n"
                      "            d:stream('compute'):kernel{ name = 'k', writes = {b}, ns = 9 }\n"
                      "            d:sync()\n"
                      "            assert(b:role() == names[rank])\n"
                      "        end\n"
                      "    end)\n"
                      "    role[rank] = d:alloc(8):role()\n"
                      "end)\n"
                      "orrery.join()\n"
                      "print(role[0], role[1], orrery.device(0):alloc(8):role())\n"
                      "print(orrery.device(1):memory().roles.optimizer.peak)\n",
                      "other\tother\tother\n192\n");
}

static void a_tensor_gets_another_role_with_all_that_shares_its_memory(void **state) {
    (void)state;
    expect_printed("local x = orrery.zeros{ shape = {4, 4} }\n"
                   "local y = x:reshape{ shape = {16} }\n"
                   "print(x:role('gradient') == x, y:role())\n"
                   "print(" USED("gradient") ", " USED("other") ")\n"
                                                                "x:free() y:free()\n"
                                                                "print(" USED("gradient") ")\n",
                   "true\tgradient\n64\t0\n0\n");
}

static void what_is_on_its_way_in_a_redistribution_is_communication(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local m = orrery.mesh{ shape = {2}, names = {'tp'} }\n"
                      "local x = orrery.zeros{ shape = {4, 8}, mesh = m, place = 'S(1)' }\n"
                      "local y = orrery.role('activation', x.redistribute, x, 'R')\n"
                      "local r = orrery.device(0):memory().roles\n"
                      "print(y:role(), r.activation.used, r.communication.used, "
                      "r.communication.peak)\n",
                      "activation\t128\t0\t128\n");
}

static void memory_of_a_fused_function_has_the_role_of_its_line(void **state) {
    (void)state;
    expect_printed("local f = orrery.fuse(function(x)\n"
                   "    local a = orrery.role('activation', orrery.relu, x:sum{ dim = 0 })\n"
                   "    local b = orrery.relu(x):role('workspace')\n"
                   "    return a, b\n"
                   "end)\n"
                   "local a, b = f(orrery.zeros{ shape = {4, 4} })\n"
                   "print(a:role(), b:role())\n",
                   "activation\tworkspace\n");
}

static void mistakes_name_their_line(void **state) {
    (void)state;
    expect_failure("orrery.role('activations', print)",
                   "demo.lua:1: unknown role 'activations'; did you mean 'activation'?");
    expect_failure("orrery.role('activation', 3)",
                   "demo.lua:1: orrery.role: expected a function, got number");
    expect_failure("orrery.role(nil, print)",
                   "demo.lua:1: orrery.role: expected the name of a role, got nil");
    expect_failure("local b = orrery.device(0):alloc(8)\nb:free()\nb:role('gradient')",
                   "demo.lua:3: role: the buffer was freed at demo.lua:2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_takes_the_role_of_its_host),
        cmocka_unit_test(another_role_counts_from_then_on_and_is_recorded),
        cmocka_unit_test(roles_of_a_device_add_up_to_what_was_asked_for),
        cmocka_unit_test(fragmentation_is_what_was_reserved_beside_the_largest_live_set),
        cmocka_unit_test(out_of_memory_names_the_roles_of_the_largest),
        cmocka_unit_test(out_of_memory_sums_by_line_and_role),
        cmocka_unit_test(a_function_runs_with_a_role_and_results_pass),
        cmocka_unit_test(an_error_puts_the_role_back_and_stays_the_same),
        cmocka_unit_test(every_host_has_a_role_of_its_own_across_waits),
        cmocka_unit_test(a_tensor_gets_another_role_with_all_that_shares_its_memory),
        cmocka_unit_test(what_is_on_its_way_in_a_redistribution_is_communication),
        cmocka_unit_test(memory_of_a_fused_function_has_the_role_of_its_line),
        cmocka_unit_test(mistakes_name_their_line),
    };
    return cmocka_run_group_tests_name("roles of memory", tests, NULL, NULL);
}
