#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/explore/explore.h"
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
        struct orr_stream_program *program = program_text(&memory, cases[i].text);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_distinct_order_is_run_once),
    };
    return cmocka_run_group_tests_name("explore", tests, NULL, NULL);
}
