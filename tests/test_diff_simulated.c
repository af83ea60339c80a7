/* Comparing simulated runs: nothing is random, so one run a side is enough. */
#include "analyzer/diff.h"
#include "tests/analyzer_fixture.h"

struct run {
    struct fixture fixture;
    struct orr_analysis *analysis;
};

/* Two devices; `work_ns` of the one kernel that differs. */
static void simulate(struct run *run, int64_t work_ns) {
    start(&run->fixture);
    kernel(&run->fixture, 0, "norm", 0, 10, 20, 1020);
    kernel(&run->fixture, 0, "matmul", 10, 20, 1020, 1020 + work_ns);
    kernel(&run->fixture, 1, "norm", 20, 30, 40, 1040);
    run->analysis = analyze(&run->fixture);
}

static struct orr_diff *compare(const struct run *before, const struct run *after,
                                double max_regression) {
    static struct orr_memory memory;
    memory = orr_memory_system();
    struct orr_diff_options options = orr_diff_options_default();
    struct orr_diff *diff;
    struct orr_error error = {0};
    options.max_regression = max_regression;
    assert_int_equal(
        orr_diff_make(before->analysis, after->analysis, &options, &memory, &diff, &error), ORR_OK);
    assert_true(diff->exact);
    assert_int_equal(diff->by, ORR_DIFF_UNIT_RUN);
    return diff;
}

static void one_run_a_side_is_enough(void **state) {
    (void)state;
    static struct run before, after;
    simulate(&before, 4000);
    simulate(&after, 5000);
    struct orr_diff *diff = compare(&before, &after, 15);
    assert_int_equal(diff->outcome, ORR_DIFF_OUTCOME_SLOWER);
    assert_int_equal(diff->unit.unit_ns[0], 5000); /* 20 to 5,020, for both devices */
    assert_int_equal(diff->unit.unit_ns[1], 6000);
    assert_int_equal(diff->causes[0][ORR_DIFF_CAUSE_COMPUTE], 3000); /* mean of 5,000 and 1,000 */
    assert_int_equal(diff->causes[0][ORR_DIFF_CAUSE_EDGE], 2000);
    assert_int_equal(diff->causes[1][ORR_DIFF_CAUSE_EDGE], 2500);
    assert_true(diff->regression); /* by 20 % */
    assert_string_equal(diff->rows[0].name, "matmul");
    assert_int_equal(diff->rows[0].status, ORR_DIFF_CHANGED);
    assert_int_equal(diff->rows[0].delta_ns, 500);
    assert_int_equal(diff->counts[ORR_DIFF_SORT_WORK][ORR_DIFF_UNCHANGED], 1);
    orr_diff_destroy(&diff);
    diff = compare(&before, &after, 30);
    assert_false(diff->regression);
    orr_diff_destroy(&diff);
    diff = compare(&after, &before, 0);
    assert_int_equal(diff->outcome, ORR_DIFF_OUTCOME_FASTER);
    assert_false(diff->regression);
    orr_diff_destroy(&diff);
    finish(&before.fixture, &before.analysis);
    finish(&after.fixture, &after.analysis);
}

static void less_than_the_share_is_unchanged(void **state) {
    (void)state;
    static struct run before, after;
    simulate(&before, 4000);
    simulate(&after, 4040);
    struct orr_diff *diff = compare(&before, &after, 0.5);
    assert_int_equal(diff->outcome, ORR_DIFF_OUTCOME_SAME);
    assert_false(diff->regression);
    orr_diff_destroy(&diff);
    finish(&before.fixture, &before.analysis);
    finish(&after.fixture, &after.analysis);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_a_side_is_enough),
        cmocka_unit_test(less_than_the_share_is_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
