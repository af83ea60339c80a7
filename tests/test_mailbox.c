/* Mailboxes: hosts that wait for each other, on virtual clocks. tests/test_attack.py has the hangs
 * that rank programs run into, on every backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

static void messages_are_taken_in_their_order(void **state) {
    (void)state;
    expect_printed("local m = orrery.mailbox('mail')\n"
                   "m:put(1) m:put('two') m:put(false)\n"
                   "print(m, m:count(), m:take(), m:take(), m:take(), m:count())",
                   "mailbox 'mail'\t3\t1\ttwo\tfalse\t0\n");
}

static void a_taker_goes_on_no_earlier_than_the_message_was_put(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local m = orrery.mailbox()\n"
                      "orrery.host(function(rank)\n"
                      "    if rank == 1 then orrery.spend(7000) m:put(orrery.now()) return end\n"
                      "    local sent = m:take()\n"
                      "    print(sent, orrery.now() > sent, orrery.now() - sent < 10)\n"
                      "end)",
                      "7000\ttrue\ttrue\n");
}

static void a_message_that_is_there_costs_its_taker_one_ns(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local m = orrery.mailbox()\n"
                      "orrery.host(function(rank)\n"
                      "    if rank == 0 then m:put('early') return end\n"
                      "    orrery.spend(5000)\n"
                      "    local before = orrery.now()\n"
                      "    print(m:take(), orrery.now() - before)\n"
                      "end)",
                      "early\t1\n");
}

static void hosts_that_wait_get_messages_in_the_order_in_which_they_came(void **state) {
    (void)state;
    expect_printed_on(4,
                      "local m = orrery.mailbox()\n"
                      "orrery.host(function(rank)\n"
                      "    if rank == 3 then\n"
                      "        orrery.spend(9000)\n"
                      "        for i = 1, 3 do m:put(i) orrery.spend(100) end\n"
                      "    else\n"
                      "        orrery.spend(1000 - 100 * rank)\n"
                      "        print(rank, m:take())\n"
                      "    end\n"
                      "end)",
                      "2\t1\n1\t2\n0\t3\n");
}

static void a_message_may_be_taken_before_the_one_that_waited_is_back(void **state) {
    (void)state;
    /* Rank 0 takes at the time at which rank 1 is woken, and comes first: rank 1 waits again. */
    expect_printed_on(2,
                      "local m = orrery.mailbox()\n"
                      "orrery.host(function(rank)\n"
                      "    if rank == 1 then print('1 got', m:take()) return end\n"
                      "    orrery.spend(100)\n"
                      "    m:put('a')\n"
                      "    print('0 got', m:take())\n"
                      "    orrery.spend(100)\n"
                      "    m:put('b')\n"
                      "end)",
                      "0 got\ta\n1 got\tb\n");
}

static void a_coroutine_of_a_host_may_wait(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local m = orrery.mailbox()\n"
                      "orrery.host(function(rank)\n"
                      "    if rank == 1 then orrery.spend(100) m:put('x') m:put('y') return end\n"
                      "    local next = coroutine.wrap(function()\n"
                      "        coroutine.yield(m:take()) coroutine.yield(m:take()) end)\n"
                      "    print(next(), next())\n"
                      "end)",
                      "x\ty\n");
}

static void while_hosts_wait_for_each_other_devices_go_on(void **state) {
    (void)state;
    expect_printed_on(2,
                      "local m = orrery.mailbox()\n"
                      "orrery.host(function(rank)\n"
                      "    local s = orrery.device(rank):stream('compute')\n"
                      "    if rank == 0 then m:take() print('told', s:query()) return end\n"
                      "    s:kernel{ name = 'k', ns = 50000 }\n"
                      "    s:sync()\n"
                      "    m:put(true)\n"
                      "end)",
                      "told\ttrue\n");
}

static void misuse_is_told(void **state) {
    (void)state;
    expect_failure("orrery.mailbox():put()", "demo.lua:1: put: expected a value, got nothing");
    expect_failure("local m = orrery.mailbox()\nm.put(3, 4)",
                   "demo.lua:2: mailbox: expected a mailbox, got number");
    expect_failure("local m = orrery.mailbox()\nm:get()", "demo.lua:2: mailbox has no 'get'");
    expect_failure("local m = orrery.mailbox()\n"
                   "table.sort({1, 2}, function(a, b) m:put(a) return a < b end)",
                   "demo.lua:2: a call that may block its host can't be made inside a callback of "
                   "table.sort, string.gsub, require or a metamethod");
}

static void a_hang_says_who_waits_where_for_what(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play,
                 "local m = orrery.mailbox('mail')\n"
                 "orrery.host(function(rank)\n"
                 "m:take('the news') end, 6)\n"
                 "orrery.join()",
                 2);
    play_run(&play);
    assert_int_equal(play.status, ORR_DEVICE_FAILED);
    assert_string_equal(play.error.text,
                        "demo.lua: hang: all hosts wait for what never comes: "
                        "rank 0 at demo.lua:3 in the news; rank 1 at demo.lua:3 in the news; "
                        "rank 2 at demo.lua:3 in the news; rank 3 at demo.lua:3 in the news; "
                        "and 2 more");
    play_end(&play);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_taken_in_their_order),
        cmocka_unit_test(a_taker_goes_on_no_earlier_than_the_message_was_put),
        cmocka_unit_test(a_message_that_is_there_costs_its_taker_one_ns),
        cmocka_unit_test(hosts_that_wait_get_messages_in_the_order_in_which_they_came),
        cmocka_unit_test(a_message_may_be_taken_before_the_one_that_waited_is_back),
        cmocka_unit_test(a_coroutine_of_a_host_may_wait),
        cmocka_unit_test(while_hosts_wait_for_each_other_devices_go_on),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(a_hang_says_who_waits_where_for_what),
    };
    return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
