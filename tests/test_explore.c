#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/explore/explore.h"
#include "hazards/explore/order_run.h"
#include "hazards/explore/schedule_file.h"
#include "tests/program_random.h"
#include "tests/program_text.h"
#include "tests/support.h"

/* Exploration of what programs do with memory (oracle hb): how many orders there are, what is found
 * in them, and that neither depends on threads. */

static struct orr_exploration *explore(const struct orr_stream_program *program,
                                       const struct orr_explore_options *options) {
    struct orr_exploration *found;
    struct orr_error error = {0};
    enum orr_status status = orr_explore(program, options, &found, &error);
    if (status != ORR_OK)
        fail_msg("%s", error.text);
    return found;
}

/* Programs whose number of distinct orders is known. */
static void every_distinct_order_is_run_once(void **state) {
    (void)state;
    static const struct {
        uint64_t orders;
        const char *what, *text;
    } cases[] = {
        {1, "nothing", ""},
        {1, "work that touches nothing in common", "k s0 w:A; k s1 w:B; k s2 w:C; k s3 w:D"},
        {1, "readers", "k s0 r:A; k s1 r:A; k s2 r:A; k s3 r:A"},
        {1, "disjoint ranges", "k s0 w:A[0:4]; k s1 w:A[4:8]"},
        {1, "one stream", "k s0 w:A; k s0 w:A; k s0 w:A"},
        {2, "two writers", "k s0 w:A; k s1 w:A"},
        {6, "3 writers: 3!", "k s0 w:A; k s1 w:A; k s2 w:A"},
        {24, "4 writers: 4!", "k s0 w:A; k s1 w:A; k s2 w:A; k s3 w:A"},
        {720, "6 writers: 6!", "k s0 w:A; k s1 w:A; k s2 w:A; k s3 w:A; k s4 w:A; k s5 w:A"},
        {6, "2 streams x 2: C(4,2)", "k s0 w:A; k s1 w:A; k s0 w:A; k s1 w:A"},
        {20, "2 streams x 3: C(6,3)", "k s0 w:A; k s0 w:A; k s0 w:A; k s1 w:A; k s1 w:A; k s1 w:A"},
        {70, "2 streams x 4: C(8,4)",
         "k s0 w:A; k s0 w:A; k s0 w:A; k s0 w:A; k s1 w:A; k s1 w:A; k s1 w:A; k s1 w:A"},
        {4, "a writer and 2 readers: each before or after", "k s0 w:A; k s1 r:A; k s2 r:A"},
        {18, "2 writers and 2 readers: 2 x 3 x 3", "k s0 w:A; k s1 w:A; k s2 r:A; k s3 r:A"},
        {3, "a reader against 2 writes of one stream", "k s0 w:A; k s0 w:A; k s1 r:A"},
        {4, "2 independent pairs: 2 x 2", "k s0 w:A; k s1 w:A; k s2 w:B; k s3 w:B"},
        {14, "a ring of 4 conflicts: 2^4 - 2",
         "k s0 w:A w:D; k s1 w:A w:B; k s2 w:B w:C; k s3 w:C w:D"},
        {1, "with a wait", "k s0 w:A; rec e s0; wait s1 e; k s1 r:A"},
        {2, "with a wait for an earlier record", "rec e s0; k s0 w:A; wait s1 e; k s1 r:A"},
        {2, "half waited for", "k s0 w:A; rec e s0; k s0 w:A; wait s1 e; k s1 r:A"},
        {1, "host waits", "k s0 w:A; ssync s0; k s1 w:A; esync e; ssync s1; hr A"},
        {2, "host does not wait", "k s0 w:A; hr A"},
        {1, "legacy stream between blocking ones",
         "stream a bl; stream b bl; stream L legacy; k a w:A; k L w:B; k b r:A"},
        {2, "blocking streams alone", "stream a bl; stream b bl; k a w:A; k b r:A"},
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct orr_stream_program *program = stream_program_of(&memory, cases[i].text);
        struct orr_explore_options options = orr_explore_defaults();
        struct orr_exploration *found = explore(program, &options);
        print_message("%s: %llu\n", cases[i].what, (unsigned long long)found->orders);
        assert_int_equal(found->orders, cases[i].orders);
        assert_int_equal(found->runs, found->orders);
        assert_false(found->is_capped);
        assert_int_equal(found->verdict == ORR_CHECK_NO_RACE, cases[i].orders == 1);
        orr_exploration_destroy(&found);
        orr_stream_program_destroy(&program);
    }
}

/* --- against all sequences --- */

/* Distinct orders of conflicts, as bits, and the outcome of each. */
enum { CLASSES_MAX = 1 << 14, CONFLICTS_MAX = 60 };

struct sequences {
    const struct orr__order_plan *plan;
    struct orr__order_run run;
    uint32_t order[16], position[16], length;
    uint64_t done, count;
    uint64_t classes[CLASSES_MAX], outcomes[CLASSES_MAX];
    uint32_t class_count;
};

static void note_sequence(struct sequences *all) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < all->plan->conflict_count; i++) {
        const struct orr__conflict *pair = &all->plan->conflicts[i];
        bits |= (uint64_t)(all->position[pair->b] < all->position[pair->a]) << i;
    }
    struct orr__outcome outcome = orr__order_run_all(&all->run, all->order);
    uint64_t mixed = outcome.hash + outcome.poisoned;
    uint32_t i = 0;
    while (i < all->class_count && all->classes[i] != bits)
        i++;
    if (i < all->class_count) {
        assert_true(all->outcomes[i] == mixed); /* what is called one order does one thing */
        return;
    }
    assert_true(i < CLASSES_MAX);
    all->classes[i] = bits;
    all->outcomes[i] = mixed;
    all->class_count++;
}

static void try_all(struct sequences *all) {
    if (all->length == all->plan->action_count) {
        all->count++;
        note_sequence(all);
        return;
    }
    for (uint32_t i = 0; i < all->plan->action_count; i++) {
        if ((all->done >> i & 1) || (all->plan->before[i] & ~all->done))
            continue;
        all->done |= 1ull << i;
        all->order[all->length] = i;
        all->position[i] = all->length++;
        try_all(all);
        all->length--;
        all->done &= ~(1ull << i);
    }
}

static void orders_are_the_classes_of_all_sequences(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1), compared = 0, sequences = 0, orders = 0;
    static struct sequences all;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t at = (seed + i) * 0x9e3779b97f4a7c15u, drawn = at ? at : 1;
        struct program_random options = program_random_small(&drawn);
        options.ops = 1 + (uint32_t)random_below(&drawn, 10);
        options.sync_percent = 20;
        struct orr_stream_program *program = program_random(&memory, &options, &drawn);
        struct orr__order_plan *plan;
        assert_int_equal(orr__order_plan_create(program, &plan, NULL), ORR_OK);
        if (plan->action_count <= 8 && plan->conflict_count <= CONFLICTS_MAX) {
            all = (struct sequences){.plan = plan};
            assert_int_equal(orr__order_run_open(&all.run, plan), ORR_OK);
            try_all(&all);
            orr__order_run_close(&all.run);
            struct orr_explore_options defaults = orr_explore_defaults();
            defaults.witnesses = 0;
            struct orr_exploration *found = explore(program, &defaults);
            assert_int_equal(found->orders, all.class_count);
            orr_exploration_destroy(&found);
            compared++;
            sequences += all.count;
            orders += all.class_count;
        }
        orr__order_plan_destroy(&plan);
        orr_stream_program_destroy(&program);
    }
    print_message("%llu programs, %llu sequences, %llu distinct orders\n",
                  (unsigned long long)compared, (unsigned long long)sequences,
                  (unsigned long long)orders);
}

/* --- findings --- */

static struct orr_exploration *explore_text(const char *text, struct orr_stream_program **program) {
    static struct orr_memory memory;
    memory = orr_memory_system();
    *program = stream_program_of(&memory, text);
    struct orr_explore_options options = orr_explore_defaults();
    return explore(*program, &options);
}

static void findings_have_the_smallest_program_that_shows_them(void **state) {
    (void)state;
    static const struct {
        enum orr_check_verdict_kind kind;
        uint32_t a, b, kept;
        bool shows_wrong;
        const char *text;
    } cases[] = {
        {ORR_CHECK_RACE, 0, 4, 2, true,
         "k s0 w:A; rec e s0; k s1 w:B; wait s1 f; k s1 r:A; rec f s1; wait s2 f; k s2 r:B"},
        {ORR_CHECK_USE_AFTER_FREE, 1, 4, 4, true,
         "alloc A; k s0 w:A; free A; alloc B reuse=A; k s1 w:B; ssync s1; hr B"},
        {ORR_CHECK_USE_AFTER_FREE, 0, 1, 2, true, "k s0 r:A; hfree A; k s1 w:B"},
        {ORR_CHECK_USE_AFTER_FREE, 1, 2, 2, true, "k s1 w:B; cfree A; k s0 r:A"},
        {ORR_CHECK_USE_BEFORE_ALLOC, 0, 2, 2, true, "malloca X s0; k s1 w:B; k s1 w:X"},
        /* Both are overwritten before anybody looks. */
        {ORR_CHECK_RACE, 0, 1, 3, false,
         "k s0 w:A; k s1 w:A; ssync s0; ssync s1; k s2 w:A; ssync s2; hr A"},
        {ORR_CHECK_RACE, 0, 1, 2, true, "k s0 w:A; k s1 w:A; ssync s0; ssync s1; k s2 r:A"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct orr_stream_program *program;
        struct orr_exploration *found = explore_text(cases[i].text, &program);
        assert_true(found->finding_count >= 1);
        const struct orr_explore_finding *finding = &found->findings[0];
        print_message("%s\n", finding->message);
        assert_int_equal(finding->kind, cases[i].kind);
        assert_int_equal(finding->op_a, cases[i].a);
        assert_int_equal(finding->op_b, cases[i].b);
        assert_int_equal(finding->shows_wrong, cases[i].shows_wrong);
        if (cases[i].shows_wrong)
            assert_int_equal(finding->schedule.kept_count, cases[i].kept);
        bool is_other = finding->schedule.outcome != finding->schedule.expected ||
                        finding->schedule.poisoned > 0;
        assert_int_equal(is_other, cases[i].shows_wrong);
        orr_exploration_destroy(&found);
        orr_stream_program_destroy(&program);
    }
}

static void random_and_pct_find_what_their_runs_show(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *racy = stream_program_of(&memory, "k s0 w:A; k s1 r:A");
    struct orr_stream_program *safe =
        stream_program_of(&memory, "k s0 w:A; rec e s0; wait s1 e; k s1 r:A");
    for (int i = 0; i < 2; i++) {
        struct orr_explore_options options = orr_explore_defaults();
        options.strategy = i == 0 ? ORR_EXPLORE_PCT : ORR_EXPLORE_RANDOM;
        options.budget = 100;
        struct orr_exploration *found = explore(racy, &options);
        assert_int_equal(found->verdict, ORR_CHECK_RACE);
        assert_int_equal(found->runs, 100);
        assert_true(found->is_capped && found->orders == 0 && found->wrong > 10);
        orr_exploration_destroy(&found);
        found = explore(safe, &options);
        assert_int_equal(found->verdict, ORR_CHECK_UNKNOWN); /* nothing is proven */
        assert_true(found->is_capped && found->wrong == 0);
        orr_exploration_destroy(&found);
    }
    orr_stream_program_destroy(&racy);
    orr_stream_program_destroy(&safe);
}

/* --- budget and threads --- */

static void the_number_of_threads_changes_nothing(void **state) {
    (void)state;
    static const char many[] = "k s0 w:A; k s1 w:A; k s2 w:A; k s3 w:A; k s4 w:A r:B; k s5 w:A w:B;"
                               "k s6 r:A w:B; k s7 w:A";
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(&memory, many);
    static const uint64_t budgets[] = {1, 7, 1000, 25000, 1000000};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        uint64_t wrong = 0, runs = 0;
        char *texts[2][2] = {{NULL}};
        for (int strategy = 0; strategy < 2; strategy++) {
            for (uint32_t threads = 1; threads <= 4; threads++) {
                struct orr_explore_options options = orr_explore_defaults();
                options.strategy = strategy ? ORR_EXPLORE_PCT : ORR_EXPLORE_DPOR;
                options.budget = strategy && budgets[i] > 25000 ? 25000 : budgets[i];
                options.threads = threads;
                options.witnesses = 1;
                struct orr_exploration *found = explore(program, &options);
                if (threads == 1) {
                    runs = found->runs;
                    wrong = found->wrong;
                    assert_true(runs <= options.budget);
                    assert_true(runs == options.budget || !found->is_capped);
                }
                assert_int_equal(found->runs, runs);
                assert_int_equal(found->wrong, wrong);
                if (found->finding_count > 0 && threads <= 2) {
                    struct orr_schedule_file file = {.id = "many", .program = program};
                    file.kind = found->findings[0].kind;
                    file.schedule = found->findings[0].schedule;
                    assert_int_equal(orr_schedule_write(&file, &texts[strategy][threads - 1]),
                                     ORR_OK);
                }
                orr_exploration_destroy(&found);
            }
            if (texts[strategy][0])
                assert_string_equal(texts[strategy][0], texts[strategy][1]);
            orr_memory_free(&memory, texts[strategy][0]);
            orr_memory_free(&memory, texts[strategy][1]);
        }
    }
    orr_stream_program_destroy(&program);
}

static void explore_without_memory(struct memory_counting *memory, void *context) {
    const struct orr_stream_program *program = context;
    struct orr_stream_program copy = *program;
    copy.memory = &memory->table; /* what is made of it comes from there */
    for (int i = 0; i < 2; i++) {
        struct orr_explore_options options = orr_explore_defaults();
        options.strategy = i == 0 ? ORR_EXPLORE_DPOR : ORR_EXPLORE_PCT;
        options.budget = 5;
        options.witnesses = 1;
        struct orr_exploration *found;
        enum orr_status status = orr_explore(&copy, &options, &found, NULL);
        if (status != ORR_OK)
            assert_int_equal(status, ORR_NO_MEMORY);
        orr_exploration_destroy(&found);
    }
}

static void a_missing_block_is_told(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    static const char *const texts[] = {
        "k s0 w:A; k s1 w:A; k s2 w:A; k s3 w:A; ssync s0",
        "option hang; option slots 1; comm c r0 r1; comm d r0 r1; r0: coll c k s0; r0: coll d k s1;"
        "r1: coll d k s2; r1: coll c k s3"};
    for (int i = 0; i < 2; i++) {
        struct orr_stream_program *program = stream_program_of(&memory, texts[i]);
        size_t requests = fail_each_request(explore_without_memory, program);
        print_message("%zu requests\n", requests);
        orr_stream_program_destroy(&program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_distinct_order_is_run_once),
        cmocka_unit_test(orders_are_the_classes_of_all_sequences),
        cmocka_unit_test(findings_have_the_smallest_program_that_shows_them),
        cmocka_unit_test(random_and_pct_find_what_their_runs_show),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(a_missing_block_is_told),
    };
    return cmocka_run_group_tests_name("explore", tests, NULL, NULL);
}
