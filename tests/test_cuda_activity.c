/* Which of CUPTI's records belong to which command, in whatever order they come, twice, late or not
 * at all; and memory that is short meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "runtime/cuda/times_internal.h"
#include "tests/support.h"

enum { COMMANDS = 12, CALLS = 30, DELIVERIES = 4 * CALLS, ROUNDS = 2000 };

/* A call of a command, and what has been delivered of it. */
struct call {
    int command; /* -1: of nobody */
    uint64_t start_ns, finish_ns;
    bool linked, ran, both_in_time;
};

struct command {
    uint64_t ticket;
    bool ended;
};

/* What the table is to know, found by going over everything. */
struct model {
    struct orr__cuda_activities activities;
    struct command commands[COMMANDS];
    struct call calls[CALLS];
    uint64_t random;
};

static bool expected_complete(const struct model *m, int command, uint64_t *start, uint64_t *end) {
    int linked = 0;
    *start = UINT64_MAX;
    *end = 0;
    for (int i = 0; i < CALLS; i++) {
        const struct call *call = &m->calls[i];
        if (call->command != command || !call->linked)
            continue;
        linked++;
        if (!call->ran || call->start_ns == 0)
            return false;
        *start = call->start_ns < *start ? call->start_ns : *start;
        *end = call->finish_ns > *end ? call->finish_ns : *end;
    }
    return linked > 0;
}

static void check_commands(const struct model *m) {
    for (int i = 0; i < COMMANDS; i++) {
        uint64_t start, end, expected_start, expected_end;
        struct orr__cuda_split split;
        if (m->commands[i].ended)
            continue;
        bool complete = orr__cuda_activities_complete(&m->activities, m->commands[i].ticket, &start,
                                                      &end, &split);
        assert_int_equal(complete, expected_complete(m, i, &expected_start, &expected_end));
        if (!complete)
            continue;
        assert_int_equal(start, expected_start);
        assert_int_equal(end, expected_end);
    }
}

static void deliver(struct model *m, uint32_t index, bool link) {
    struct call *call = &m->calls[index];
    bool ended = call->command >= 0 && m->commands[call->command].ended;
    bool had_both = call->linked && call->ran;
    uint64_t ticket = call->command < 0 ? 0 : m->commands[call->command].ticket;
    if (link)
        assert_int_equal(orr__cuda_activities_link(&m->activities, index, ticket), ORR_OK);
    else
        assert_int_equal(
            orr__cuda_activities_ran(&m->activities, index, call->start_ns, call->finish_ns),
            ORR_OK);
    *(link ? &call->linked : &call->ran) = true;
    if (!had_both && call->linked && call->ran)
        call->both_in_time = !ended;
}

static void end_command(struct model *m, int command) {
    if (m->commands[command].ended)
        return;
    m->commands[command].ended = true;
    orr__cuda_activities_end(&m->activities, m->commands[command].ticket);
}

static void begin_round(struct model *m) {
    for (int i = 0; i < COMMANDS; i++)
        m->commands[i] = (struct command){.ticket = orr__cuda_activities_begin(&m->activities, 1)};
    for (int i = 0; i < CALLS; i++) {
        uint64_t start = random_below(&m->random, 20) == 0 ? 0 : 1 + random_below(&m->random, 100);
        m->calls[i] = (struct call){.command = (int)random_below(&m->random, COMMANDS + 1) - 1,
                                    .start_ns = start,
                                    .finish_ns = start + random_below(&m->random, 50)};
    }
}

/* Each record of each call once, in any order, with ends of commands in between. A second link, as
 * of a driver's call below the runtime's, comes only while its call is known. */
static void play_round(struct model *m) {
    for (int done = 0; done < DELIVERIES; done++) {
        uint32_t index = (uint32_t)random_below(&m->random, CALLS);
        struct call *call = &m->calls[index];
        bool link = random_below(&m->random, 2) == 0;
        bool known = call->command >= 0 && !m->commands[call->command].ended;
        if (!*(link ? &call->linked : &call->ran) || (link && known))
            deliver(m, index, link);
        if (random_below(&m->random, 10) == 0)
            end_command(m, (int)random_below(&m->random, COMMANDS));
        check_commands(m);
    }
}

static void finish_round(struct model *m, uint64_t *late) {
    for (uint32_t i = 0; i < CALLS; i++) {
        if (!m->calls[i].linked)
            deliver(m, i, true);
        if (!m->calls[i].ran)
            deliver(m, i, false);
        *late += m->calls[i].command >= 0 && !m->calls[i].both_in_time ? 1 : 0;
    }
    for (int i = 0; i < COMMANDS; i++)
        end_command(m, i);
    assert_int_equal(m->activities.late, *late);
    /* Nothing of it is left. */
    assert_int_equal(m->activities.free_count, m->activities.entry_count);
    for (size_t i = 0; i < m->activities.bucket_count; i++)
        assert_int_equal(m->activities.buckets[i], 0);
}

static void records_come_in_any_order(void **state) {
    (void)state;
    struct memory_counting memory;
    struct model m = {.random = random_seed(20261130)};
    uint64_t late = 0;
    memory_counting_init(&memory, 0);
    m.activities.memory = &memory.table;
    for (int round = 0; round < ROUNDS; round++) {
        begin_round(&m);
        play_round(&m);
        finish_round(&m, &late);
    }
    assert_true(late > 0);
    orr__cuda_activities_close(&m.activities);
    assert_int_equal(memory.live, 0);
}

static void members_of_a_collective_share_their_records(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr__cuda_activities a = {.memory = &memory.table};
    struct orr__cuda_split split;
    uint64_t start, end, ticket = orr__cuda_activities_begin(&a, 3);
    assert_int_equal(orr__cuda_activities_link(&a, 7, ticket), ORR_OK);
    assert_int_equal(orr__cuda_activities_ran(&a, 7, 10, 20), ORR_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(orr__cuda_activities_complete(&a, ticket, &start, &end, &split));
        assert_int_equal(end, 20);
        orr__cuda_activities_end(&a, ticket);
    }
    /* The entry's next life is another one: what still comes of the first is late. */
    uint64_t next = orr__cuda_activities_begin(&a, 1);
    assert_true(next != ticket && (uint32_t)next == (uint32_t)ticket);
    assert_int_equal(orr__cuda_activities_ran(&a, 8, 30, 40), ORR_OK);
    assert_int_equal(orr__cuda_activities_link(&a, 8, ticket), ORR_OK);
    assert_int_equal(a.late, 1);
    assert_false(orr__cuda_activities_complete(&a, next, &start, &end, &split));
    orr__cuda_activities_end(&a, next);
    orr__cuda_activities_close(&a);
}

/* A launch of a graph: one call, many kernels. */
static void one_call_may_run_many_things(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr__cuda_activities a = {.memory = &memory.table};
    struct orr__cuda_split split;
    uint64_t start, end, ticket = orr__cuda_activities_begin(&a, 1);
    assert_int_equal(orr__cuda_activities_ran(&a, 1, 50, 60), ORR_OK);
    assert_int_equal(orr__cuda_activities_ran(&a, 1, 20, 30), ORR_OK);
    assert_int_equal(orr__cuda_activities_link(&a, 1, ticket), ORR_OK);
    assert_int_equal(orr__cuda_activities_ran(&a, 1, 40, 90), ORR_OK);
    assert_true(orr__cuda_activities_complete(&a, ticket, &start, &end, &split));
    assert_int_equal(start, 20);
    assert_int_equal(end, 90);
    orr__cuda_activities_end(&a, ticket);
    orr__cuda_activities_close(&a);
}

static void short_of_memory(struct memory_counting *memory, void *context) {
    struct orr__cuda_activities a = {.memory = &memory->table};
    (void)context;
    for (uint32_t i = 0; i < 600; i++) {
        uint64_t ticket = orr__cuda_activities_begin(&a, 1);
        (void)orr__cuda_activities_link(&a, i, ticket);
        (void)orr__cuda_activities_ran(&a, i, 1 + i, 2 + i);
        if (i % 2 == 0 && ticket > 0)
            orr__cuda_activities_end(&a, ticket);
    }
    orr__cuda_activities_close(&a);
}

static void memory_may_be_short(void **state) {
    (void)state;
    assert_true(fail_each_request(short_of_memory, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_any_order),
        cmocka_unit_test(members_of_a_collective_share_their_records),
        cmocka_unit_test(one_call_may_run_many_things),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
