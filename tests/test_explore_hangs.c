#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/explore/explore.h"
#include "hazards/explore/interleavings.h"
#include "tests/hang_random.h"
#include "tests/program_text.h"
#include "tests/support.h"

/* Exploration of interleavings (oracle hang): numbers of distinct orders, the ends that are
 * reached, the bound of PCT. */

static struct orr_exploration *explore(const struct orr_stream_program *program,
                                       const struct orr_explore_options *options) {
    struct orr_exploration *found;
    struct orr_error error = {0};
    if (orr_explore(program, options, &found, &error) != ORR_OK)
        fail_msg("%s", error.text);
    return found;
}

static void distinct_orders_are_completed_once(void **state) {
    (void)state;
    static const struct {
        uint64_t orders, given_up, stuck;
        const char *what, *text;
    } cases[] = {
        {1, 0, 0, "hosts with streams of their own", "h1: k s1; h2: k s2; h3: k s3; h1: ssync s1"},
        {6, 0, 0, "two hosts add two entries each to one stream: C(4,2)",
         "h1: k s; h2: k s; h1: k s; h2: k s"},
        {20, 0, 0, "three each: C(6,3)", "h1: k s; h1: k s; h1: k s; h2: k s; h2: k s; h2: k s"},
        {6, 0, 0, "three hosts one each: 3!", "h1: k s; h2: k s; h3: k s"},
        {2, 0, 0, "a lock taken by two", "h1: lock l; h1: unlock l; h2: lock l; h2: unlock l"},
        {6, 0, 0, "a lock taken twice by two: C(4,2)",
         "h1: lock l; h1: unlock l; h1: lock l; h1: unlock l;"
         "h2: lock l; h2: unlock l; h2: lock l; h2: unlock l"},
        {1, 0, 0, "a flag", "h1: k s1; h1: notify f; h2: await f; h2: k s1"},
        {3, 0, 1, "locks in opposite order: either first, or both stuck",
         "h1: lock a; h1: lock b; h1: unlock b; h1: unlock a;"
         "h2: lock b; h2: lock a; h2: unlock a; h2: unlock b"},
        {2, 0, 0, "a record and a wait of different hosts", "h1: rec e s1; h2: wait s2 e"},
        {1, 0, 0, "collectives with room for all",
         "comm c r0 r1; comm d r0 r1; r0: coll c k s0; r0: coll d k s1; r1: coll d k s2;"
         "r1: coll c k s3"},
        {4, 0, 2, "the same with one slot per device",
         "option slots 1; stream s2 nb 1; stream s3 nb 1; comm c r0 r1; comm d r0 r1;"
         "r0: coll c k s0; r0: coll d k s1; r1: coll d k s2; r1: coll c k s3"},
        {1, 0, 1, "a collective that one rank does not call",
         "comm c r0 r1; r0: coll c k s0; r1: k s1"},
        {1, 0, 1, "both send first",
         "r0: send c r1 s0; r0: recv c r1 s0; r1: send c r0 s1;"
         "r1: recv c r0 s1"},
        {1, 0, 0, "both send first, in groups",
         "r0: gs; r0: send c r1 s0; r0: recv c r1 s0; r0: ge; r1: gs; r1: send c r0 s1;"
         "r1: recv c r0 s1; r1: ge"},
        {1, 0, 1, "kinds differ", "comm c r0 r1; r0: coll c k s0; r1: coll c j s1"},
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "option hang; %s", cases[i].text);
        struct orr_stream_program *program = stream_program_of(&memory, text);
        struct orr_explore_options options = orr_explore_defaults();
        struct orr_exploration *found = explore(program, &options);
        print_message("%s: %llu orders, %llu given up, %llu stuck\n", cases[i].what,
                      (unsigned long long)found->orders, (unsigned long long)found->given_up,
                      (unsigned long long)found->stuck);
        assert_int_equal(found->orders, cases[i].orders);
        assert_int_equal(found->given_up, cases[i].given_up);
        assert_int_equal(found->stuck, cases[i].stuck);
        orr_exploration_destroy(&found);
        orr_stream_program_destroy(&program);
    }
}

/* --- against all interleavings --- */

enum { STATES_MAX = 1 << 16, ENDS_MAX = 1024 };

struct all_states {
    const struct orr__queue_plan *plan;
    uint64_t seen[STATES_MAX]; /* hash table of states' hashes, 0 free */
    uint64_t ends[ENDS_MAX];
    uint32_t state_count, end_count;
    bool has_mismatch;
};

static uint64_t hash_state(const struct orr__queue_plan *plan, const uint32_t *state) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < plan->at.words; i++)
        hash = (hash ^ state[i]) * 0x100000001b3u ^ hash >> 29;
    return hash | 1;
}

static bool is_new(struct all_states *all, uint64_t hash) {
    uint32_t at = (uint32_t)(hash >> 20) % STATES_MAX;
    while (all->seen[at] != 0 && all->seen[at] != hash)
        at = (at + 1) % STATES_MAX;
    if (all->seen[at] == hash)
        return false;
    all->seen[at] = hash;
    assert_true(++all->state_count < STATES_MAX / 2);
    return true;
}

static bool add_end(uint64_t *ends, uint32_t *count, uint64_t hash) {
    for (uint32_t i = 0; i < *count; i++)
        if (ends[i] == hash)
            return false;
    assert_true(*count < ENDS_MAX);
    ends[(*count)++] = hash;
    return true;
}

static void visit(struct all_states *all, const uint32_t *state) {
    const struct orr__queue_plan *plan = all->plan;
    uint32_t a, b;
    if (!is_new(all, hash_state(plan, state)))
        return;
    if (orr__queue_mismatch(plan, state, &a, &b)) {
        all->has_mismatch = true;
        return;
    }
    bool is_end = true;
    uint32_t *next = malloc(plan->at.words * sizeof *next + 1);
    for (uint32_t actor = 0; actor < plan->actor_count; actor++) {
        if (!orr__queue_can(plan, state, actor))
            continue;
        is_end = false;
        memcpy(next, state, plan->at.words * sizeof *next);
        orr__queue_step(plan, next, actor);
        visit(all, next);
    }
    free(next);
    if (is_end)
        add_end(all->ends, &all->end_count, hash_state(plan, state));
}

/* The reduced search reaches every end that the whole one does, and no other. */
static void compare_ends(struct all_states *all, const struct orr_stream_program *program,
                         uint64_t *runs) {
    struct orr__queue_plan *plan;
    assert_int_equal(orr__queue_plan_create(program, &plan, NULL), ORR_OK);
    memset(all, 0, sizeof *all);
    all->plan = plan;
    uint32_t *state = calloc(plan->at.words + 1, sizeof *state);
    visit(all, state);
    free(state);
    static uint64_t ends[ENDS_MAX];
    uint32_t end_count = 0, a, b;
    bool has_mismatch = false;
    struct orr__interleavings search;
    assert_int_equal(orr__interleavings_open(&search, plan), ORR_OK);
    while (orr__interleavings_next(&search)) {
        ++*runs;
        if (search.is_given_up)
            continue;
        if (orr__interleavings_end(&search, &a, &b) == ORR_CHECK_MISMATCH)
            has_mismatch = true;
        else if (add_end(ends, &end_count, hash_state(plan, search.state)))
            assert_false(add_end(all->ends, &all->end_count, hash_state(plan, search.state)));
    }
    assert_int_equal(search.status, ORR_OK);
    assert_int_equal(has_mismatch, all->has_mismatch);
    assert_int_equal(end_count, all->end_count);
    orr__interleavings_close(&search);
    orr__queue_plan_destroy(&plan);
}

static void every_end_is_reached(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1), states = 0, ends = 0, runs = 0;
    static struct all_states all;
    for (uint64_t i = 0; i < 600; i++) {
        uint64_t at = (seed + i) * 0x9e3779b97f4a7c15u, drawn = at ? at : 1;
        struct orr_stream_program *program = hang_random(&memory, 8, &drawn);
        compare_ends(&all, program, &runs);
        states += all.state_count;
        ends += all.end_count;
        orr_stream_program_destroy(&program);
    }
    print_message("%llu states, %llu ends, %llu runs\n", (unsigned long long)states,
                  (unsigned long long)ends, (unsigned long long)runs);
}

/* --- PCT --- */

/* Bugs that need 1, 2 and 3 constraints on the order of steps. */
static void pct_finds_bugs_as_often_as_it_promises(void **state) {
    (void)state;
    static const struct {
        uint32_t depth;
        const char *text;
    } bugs[] = {
        /* The record comes before the wait for it: what is recorded never ends. */
        {1, "h1: hostfn s sync_stream:s; h1: rec e s; h2: esync e"},
        {2, "h1: lock a; h1: lock b; h1: unlock b; h1: unlock a;"
            "h2: lock b; h2: lock a; h2: unlock a; h2: unlock b"},
        {3, "h1: lock a; h1: lock b; h1: unlock b; h1: unlock a; h2: lock b; h2: lock c;"
            "h2: unlock c; h2: unlock b; h3: lock c; h3: lock a; h3: unlock a; h3: unlock c"},
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "option hang; %s", bugs[i].text);
        struct orr_stream_program *program = stream_program_of(&memory, text);
        struct orr__queue_plan *plan;
        assert_int_equal(orr__queue_plan_create(program, &plan, NULL), ORR_OK);
        struct orr_explore_options options = orr_explore_defaults();
        options.strategy = ORR_EXPLORE_PCT;
        options.depth = bugs[i].depth;
        options.budget = 20000;
        options.witnesses = 0;
        options.seed = random_seed(1);
        struct orr_exploration *found = explore(program, &options);
        double bound = 1.0 / plan->actor_count;
        for (uint32_t k = 1; k < bugs[i].depth; k++)
            bound /= plan->step_max;
        /* The first bug gets stuck in every order; only some have the host stuck as well. */
        uint64_t hits = i == 0 ? 0 : found->stuck;
        if (i == 0) {
            options.budget = 1;
            for (uint64_t k = 0; k < 20000; k++) {
                options.seed = k;
                struct orr_exploration *one = explore(program, &options);
                hits += strstr(one->findings[0].message, "esync e") != NULL;
                orr_exploration_destroy(&one);
            }
        }
        double measured = (double)hits / 20000;
        print_message("depth %u: %.4f of runs, at least %.6f promised\n", bugs[i].depth, measured,
                      bound);
        assert_true(measured >= bound);
        assert_true(measured < 1);
        orr_exploration_destroy(&found);
        orr__queue_plan_destroy(&plan);
        orr_stream_program_destroy(&program);
    }
}

/* --- witnesses --- */

static void witnesses_hold_what_the_blocked_wait_for(void **state) {
    (void)state;
    static const struct {
        uint32_t kept;
        const char *text;
    } cases[] = {
        /* The kernels can go; the calls in opposite order must stay, all four. */
        {4, "option slots 1; stream s2 nb 1; stream s3 nb 1; comm c r0 r1; comm d r0 r1; r0: k s0;"
            "r0: coll c k s0; r1: k s3; r0: coll d k s1; r1: coll d k s2; r1: coll c k s3"},
        {2, "comm c r0 r1; r0: k s0; r0: coll c k s0; r1: k s1; r1: coll c j s1; r0: ssync s0"},
        {6, "h1: k s; h1: lock a; h1: lock b; h1: unlock b; h1: unlock a;"
            "h2: lock b; h2: lock a; h2: unlock a; h2: unlock b"},
        {1, "h: k s; hostfn s sync_stream:s; k s"},
        {1, "await f; k s"},
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "option hang; %s", cases[i].text);
        struct orr_stream_program *program = stream_program_of(&memory, text);
        struct orr_explore_options options = orr_explore_defaults();
        struct orr_exploration *found = explore(program, &options);
        assert_true(found->finding_count >= 1);
        const struct orr_schedule *schedule = &found->findings[0].schedule;
        print_message("%s: kept %u, %u steps\n", found->findings[0].message, schedule->kept_count,
                      schedule->step_count);
        for (uint32_t k = 0; k < found->finding_count; k++) {
            struct orr_replay_result result;
            struct orr_error error = {0};
            assert_int_equal(
                orr_schedule_replay(program, &found->findings[k].schedule, &result, &error),
                ORR_OK);
            assert_int_equal(result.kind, found->findings[k].kind);
        }
        assert_int_equal(schedule->kept_count, cases[i].kept);
        orr_exploration_destroy(&found);
        orr_stream_program_destroy(&program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distinct_orders_are_completed_once),
        cmocka_unit_test(every_end_is_reached),
        cmocka_unit_test(pct_finds_bugs_as_often_as_it_promises),
        cmocka_unit_test(witnesses_hold_what_the_blocked_wait_for),
    };
    return cmocka_run_group_tests_name("explore_hangs", tests, NULL, NULL);
}
