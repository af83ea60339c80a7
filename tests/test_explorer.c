/* Exploring Lua programs: how many orders they have, what only some order shows, that nothing leaks
 * from one execution into the next, and that missing memory ends it cleanly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scenarios/explorer.h"
#include "tests/support.h"

struct explored {
    struct memory_counting memory;
    struct orr_device_spec specs[2];
    struct orr_explorer *explorer;
    struct orr_execution first;
    struct orr_search search;
    struct orr_error error;
    enum orr_status status;
};

static void explore_with(struct explored *e, const char *text,
                         const struct orr_untimed_options *options) {
    e->specs[0] = e->specs[1] = spec_for_tests();
    struct orr_explorer_config config = {.memory = &e->memory.table,
                                         .path = "case.lua",
                                         .text = text,
                                         .length = strlen(text),
                                         .specs = e->specs,
                                         .device_count = 2,
                                         .seed = 7};
    e->explorer = NULL;
    e->search = (struct orr_search){0};
    e->status = orr_explorer_create(&config, &e->explorer, &e->error);
    if (e->status == ORR_OK)
        e->status = orr_explorer_follow(e->explorer, NULL, 0, true, &e->first);
    if (e->status == ORR_OK)
        e->status = orr_search_begin(e->explorer, options, e->first.numbers, &e->search);
    e->search.counts_orders = options->strategy != ORR_UNTIMED_DPOR;
    if (e->status == ORR_OK)
        e->status = orr_search_run(&e->search, 20000);
}

static void end(struct explored *e) {
    if (e->search.explorer)
        orr_search_end(&e->search);
    orr_explorer_destroy(&e->explorer);
    assert_int_equal(e->memory.live, 0);
}

static void explore(struct explored *e, const char *text) {
    memory_counting_init(&e->memory, 0);
    explore_with(e, text, &(struct orr_untimed_options){.strategy = ORR_UNTIMED_DPOR});
    if (e->status != ORR_OK)
        print_message("%s %s\n", e->error.text,
                      e->explorer ? orr_explorer_error(e->explorer)->text : "");
    assert_int_equal(e->status, ORR_OK);
    assert_true(e->search.is_over);
}

static bool has_found(const struct explored *e, enum orr_found_kind kind) {
    for (size_t i = 0; i < e->search.found_count; i++)
        if (e->search.found[i].kind == kind)
            return true;
    return false;
}

static void assert_clean(const struct explored *e) {
    for (size_t i = 0; i < e->search.found_count; i++)
        fail_msg("found: %s", orr_found_text(e->search.found[i].kind));
}

static void assert_orders(const char *text, uint64_t orders) {
    struct explored e;
    explore(&e, text);
    assert_int_equal(e.search.complete, orders);
    end(&e);
}

/* --- counts --- */

static void programs_have_as_many_orders_as_they_should(void **state) {
    (void)state;
    assert_orders("", 1);
    assert_orders("local d = orrery.device(0)\n"
                  "for i = 1, 3 do local s = d:stream('s' .. i)\n"
                  "s:kernel{ name = 'k', writes = s:alloc(64) } end",
                  1);
    assert_orders("local d = orrery.device(0)\n"
                  "local a = d:alloc(64)\n"
                  "for i = 1, 4 do d:stream('s' .. i):kernel{ name = 'k', writes = a } end",
                  24);
    assert_orders("local d = orrery.device(0)\n"
                  "local a, s, t = d:alloc(64), d:stream('s'), d:stream('t')\n"
                  "for i = 1, 3 do s:kernel{ name = 'k', writes = {a} }\n"
                  "t:kernel{ name = 'l', writes = { { a, 0, 32 } }, flops = 1 } end",
                  20);
}

static void a_collective_is_one_step(void **state) {
    (void)state;
    assert_orders("local c = orrery.communicator{}\n"
                  "local a, b = {}, {}\n"
                  "for i = 0, 1 do local s = orrery.device(i):stream('communicate')\n"
                  "a[i + 1] = s:alloc(64) s:fill{ to = a[i + 1], value = 1 } end\n"
                  "c:all_reduce{ input = a }\n"
                  "orrery.device(0):stream('side'):kernel{ name = 'r', reads = {a[1]} }",
                  3);
}

/* --- what only some order shows --- */

static const char staging[] = "local s = orrery.device(0):stream('compute')\n"
                              "local staging, a = orrery.host_alloc(64), s:alloc(64)\n"
                              "staging:write(1)\n"
                              "s:copy{ from = staging, to = a }\n"
                              "%s"
                              "staging:write(2)\n"
                              "s:sync()\n"
                              "local back = orrery.host_alloc(64)\n"
                              "s:copy{ from = a, to = back } s:sync()\n"
                              "expect.equal(back:f32(), 1)";

static void a_reused_staging_buffer_is_found(void **state) {
    (void)state;
    struct explored e;
    char text[1024];
    snprintf(text, sizeof text, staging, "");
    explore(&e, text);
    assert_int_equal(e.search.complete, 2);
    assert_true(has_found(&e, ORR_FOUND_NUMBERS));
    assert_true(has_found(&e, ORR_FOUND_EXPECTATION));
    assert_true(has_found(&e, ORR_FOUND_RACE));
    end(&e);
    snprintf(text, sizeof text, staging, "s:sync()\n");
    explore(&e, text);
    assert_int_equal(e.search.complete, 1);
    assert_clean(&e);
    end(&e);
}

/* A host that goes on by what it has read: recorded, the program would have one branch only. */
static void a_branch_on_what_was_read_is_taken_both_ways(void **state) {
    (void)state;
    struct explored e;
    explore(&e, "local s, t = orrery.device(0):stream('s'), orrery.device(0):stream('t')\n"
                "local flag, a = orrery.host_alloc(64), s:alloc(64)\n"
                "flag:write(0)\n"
                "s:kernel{ name = 'raise', writes = flag }\n"
                "if flag:f32() == 0 then\n"
                "  t:kernel{ name = 'early', writes = a }\n"
                "  error('this way is taken in one order only')\n"
                "end");
    assert_int_equal(e.search.complete, 2);
    assert_true(has_found(&e, ORR_FOUND_ERROR));
    end(&e);
}

static void reading_what_nobody_has_written_is_found(void **state) {
    (void)state;
    struct explored e;
    explore(&e, "local d = orrery.device(0)\n"
                "local a, b = d:alloc(64), d:alloc(64)\n"
                "d:stream('s'):kernel{ name = 'produce', writes = a }\n"
                "d:stream('t'):kernel{ name = 'consume', reads = a, writes = b }");
    assert_true(has_found(&e, ORR_FOUND_UNDEFINED));
    assert_false(e.first.has_undefined);
    end(&e);
}

/* Two ranks that lock in different orders: which hangs depends on who comes first. */
static const char locks[] = "local a, b = orrery.mailbox('a'), orrery.mailbox('b')\n"
                            "a:put(1) b:put(1)\n"
                            "orrery.host(function(rank)\n"
                            "  local x, y = a, b\n"
                            "  if rank == 1 %s then x, y = b, a end\n"
                            "  x:take('lock') y:take('lock') y:put(1) x:put(1)\n"
                            "end)\n"
                            "orrery.join()";

static void a_hang_that_needs_an_order_of_hosts_is_found(void **state) {
    (void)state;
    struct explored e;
    char text[1024];
    snprintf(text, sizeof text, locks, "");
    explore(&e, text);
    assert_int_equal(e.first.outcome, ORR_UNTIMED_COMPLETE);
    assert_true(e.search.hangs > 0);
    assert_true(e.search.complete > 0);
    assert_true(has_found(&e, ORR_FOUND_HANG));
    end(&e);
    snprintf(text, sizeof text, locks, "and false");
    explore(&e, text);
    assert_int_equal(e.search.hangs, 0);
    assert_int_equal(e.search.complete, 2);
    assert_clean(&e);
    end(&e);
}

/* Whose message comes first decides whether the program stops itself, and with which words. */
static const char stops[] =
    "local m = orrery.mailbox('m')\n"
    "orrery.host(function(rank)\n"
    "  m:put(rank)\n"
    "end)\n"
    "local first = m:take() m:take()\n"
    "local h = orrery.host_alloc(64) h:write(first)\n"
    "if first %s then\n"
    "  orrery.stop{ kind = '%s', about = 'call 1', message = 'rank ' .. first .. ' differs' }\n"
    "end";

static const struct orr_found *only_found(const struct explored *e, enum orr_found_kind kind) {
    const struct orr_found *found = NULL;
    for (size_t i = 0; i < e->search.found_count; i++)
        if (e->search.found[i].kind == kind) {
            assert_null(found);
            found = &e->search.found[i];
        }
    assert_non_null(found);
    return found;
}

static void a_program_that_stops_itself_is_a_finding(void **state) {
    static const struct {
        const char *when, *kind;
        enum orr_found_kind found;
    } cases[] = {{"== 1", "collective-mismatch", ORR_FOUND_MISMATCH},
                 {"== 0", "collective-mismatch", ORR_FOUND_MISMATCH},
                 {">= 0", "collective-mismatch", ORR_FOUND_MISMATCH},
                 {"== 1", "of-our-own", ORR_FOUND_STOPPED}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct explored e;
        struct orr_execution execution;
        char text[1024];
        snprintf(text, sizeof text, stops, cases[i].when, cases[i].kind);
        explore(&e, text);
        assert_true(e.search.complete > 1);
        const struct orr_found *found = only_found(&e, cases[i].found);
        assert_false(has_found(&e, ORR_FOUND_ERROR));
        /* Without numbers of the default schedule others can't differ from them. */
        assert_int_equal(e.first.stopped, e.first.status != ORR_OK);
        assert_false(e.first.stopped && has_found(&e, ORR_FOUND_NUMBERS));
        assert_int_equal(
            orr_explorer_follow(e.explorer, found->plan, found->plan_length, false, &execution),
            ORR_OK);
        assert_true(orr_found_is_shown(e.explorer, found, &execution, e.first.numbers));
        end(&e);
    }
}

/* --- one execution leaves nothing to the next --- */

static void nothing_leaks_into_the_next_execution(void **state) {
    (void)state;
    struct explored e;
    explore(&e, "assert(count == nil, 'a global') count = 1\n"
                "_G.other = 1\n"
                "local spmd = require('spmd')\n"
                "assert(not spmd.mark, 'a module') spmd.mark = true\n"
                "assert(not rawget(string, 'mark'), 'a table of the library')\n"
                "rawset(string, 'mark', 1)\n"
                "assert(not rawget(orrery, 'mark'), 'a module of ours') rawset(orrery, 'mark', 1)\n"
                "local r = math.random(1000000)\n"
                "first = orrery.host_alloc(64, 'seed') first:write(r / 1000000)\n"
                "local d = orrery.device(0)\n"
                "local a = d:alloc(64)\n"
                "for i = 1, 3 do d:stream('s' .. i):kernel{ name = 'k', writes = a } end\n"
                "local b = d:alloc(64) b:free()\n"
                "local t <close> = d:alloc(32)");
    assert_int_equal(e.search.complete, 6);
    assert_int_equal(e.search.result_count, 1);
    assert_false(has_found(&e, ORR_FOUND_ERROR));
    end(&e);
}

/* Streams whose names no other execution has: more than are kept in mind. */
static void streams_are_those_of_their_execution(void **state) {
    (void)state;
    struct explored e;
    explore(&e, "local d = orrery.device(0)\n"
                "local h = orrery.host_alloc(64) h:write(0)\n"
                "for i = 1, 5 do\n"
                "  d:stream('s' .. i):kernel{ name = 'k' .. i, reads = h, writes = h }\n"
                "end\n"
                "d:sync()\n"
                "local v = h:read()[1]\n"
                "for i = 1, 12 do\n"
                "  local name = v .. ' ' .. i\n"
                "  local s = d:stream(name)\n"
                "  expect.equal(s == d:stream(name), true)\n"
                "  expect.equal(s:name(), name)\n"
                "  expect.equal(pcall(d.stream, d, name, { sync = 'bl' }), false)\n"
                "end");
    assert_int_equal(e.search.complete, 120);
    assert_int_equal(e.search.result_count, 64); /* as many as are told apart */
    assert_false(has_found(&e, ORR_FOUND_ERROR));
    assert_false(has_found(&e, ORR_FOUND_EXPECTATION));
    end(&e);
}

static void tables_of_the_library_cant_be_changed(void **state) {
    (void)state;
    struct explored e;
    explore(&e, "expect.equal(pcall(function() string.x = 1 end), false)\n"
                "expect.equal(getmetatable(''), false)\n"
                "expect.equal(('x'):rep(3), 'xxx')\n"
                "expect.equal(math.floor(1.5), 1)\n"
                "expect.equal(_G._G == _G, true)");
    assert_clean(&e);
    end(&e);
}

/* An abandoned execution leaves in the middle of a pcall, a coroutine and a scope. */
static void executions_are_abandoned_anywhere(void **state) {
    (void)state;
    struct explored e;
    explore(&e, "local d = orrery.device(0)\n"
                "local a, s, t = orrery.host_alloc(64), d:stream('s'), d:stream('t')\n"
                "local x, y = s:alloc(64), s:alloc(64)\n"
                "s:kernel{ name = 'k', writes = {a} }\n"
                "t:kernel{ name = 'l', writes = {x} }\n"
                "local c = coroutine.wrap(function()\n"
                "  pcall(function() local v = a:f32() coroutine.yield(1) a:f32() end)\n"
                "  coroutine.yield(2)\n"
                "end)\n"
                "c() orrery.scope(function() c() t:sync() end)\n"
                "t:kernel{ name = 'l', writes = {x}, reads = {y} } t:query() s:sync()");
    assert_true(e.search.complete >= 4);
    end(&e);
}

/* --- random strategies --- */

static void random_strategies_come_to_orders_that_there_are(void **state) {
    (void)state;
    static const char text[] =
        "local d = orrery.device(0)\n"
        "local a = d:alloc(64)\n"
        "for i = 1, 4 do d:stream('s' .. i):kernel{ name = 'k' .. i, writes = a } end";
    for (int i = 0; i < 2; i++) {
        struct explored e;
        struct orr_untimed_options options = {.strategy = i ? ORR_UNTIMED_PCT : ORR_UNTIMED_RANDOM,
                                              .seed = 1,
                                              .end = 1000,
                                              .depth = 3,
                                              .length = 4};
        memory_counting_init(&e.memory, 0);
        explore_with(&e, text, &options);
        assert_int_equal(e.status, ORR_OK);
        assert_int_equal(e.search.complete, 1000);
        assert_int_equal(e.search.order_count, 1000);
        assert_int_equal(e.search.result_count, 4); /* who was last */
        end(&e);
    }
}

/* --- limits and missing memory --- */

static void too_many_streams_are_refused(void **state) {
    (void)state;
    struct explored e;
    memory_counting_init(&e.memory, 0);
    explore_with(&e, "for i = 1, 70 do orrery.device(0):stream('s' .. i) end",
                 &(struct orr_untimed_options){.strategy = ORR_UNTIMED_DPOR});
    assert_int_equal(e.status, ORR_UNSUPPORTED);
    assert_non_null(strstr(orr_explorer_error(e.explorer)->text, "too many to be explored"));
    end(&e);
}

static void explore_without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct explored *e = test_calloc(1, sizeof *e);
    e->memory = *memory;
    e->memory.table.context = memory;
    static const char text[] = "local d = orrery.device(0)\n"
                               "local a = d:alloc(64)\n"
                               "d:stream('s'):kernel{ name = 'k', writes = a }\n"
                               "d:stream('t'):kernel{ name = 'l', reads = a }\n"
                               "d:stream('t'):sync()";
    explore_with(e, text, &(struct orr_untimed_options){.strategy = ORR_UNTIMED_DPOR});
    if (e->search.explorer)
        orr_search_end(&e->search);
    orr_explorer_destroy(&e->explorer);
    test_free(e);
}

static void missing_memory_ends_it_cleanly(void **state) {
    (void)state;
    assert_true(fail_each_request(explore_without_memory, NULL) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_have_as_many_orders_as_they_should),
        cmocka_unit_test(a_collective_is_one_step),
        cmocka_unit_test(a_reused_staging_buffer_is_found),
        cmocka_unit_test(a_branch_on_what_was_read_is_taken_both_ways),
        cmocka_unit_test(reading_what_nobody_has_written_is_found),
        cmocka_unit_test(a_hang_that_needs_an_order_of_hosts_is_found),
        cmocka_unit_test(a_program_that_stops_itself_is_a_finding),
        cmocka_unit_test(nothing_leaks_into_the_next_execution),
        cmocka_unit_test(streams_are_those_of_their_execution),
        cmocka_unit_test(tables_of_the_library_cant_be_changed),
        cmocka_unit_test(executions_are_abandoned_anywhere),
        cmocka_unit_test(random_strategies_come_to_orders_that_there_are),
        cmocka_unit_test(too_many_streams_are_refused),
        cmocka_unit_test(missing_memory_ends_it_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
