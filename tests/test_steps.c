/* What counts as a step of a trace, and what does not. */
#include "analyzer/steps.h"
#include "tests/annotated_fixture.h"

struct trace {
    struct annotated t;
    struct orr_steps steps;
};

static void start(struct trace *t) {
    t->steps = (struct orr_steps){0};
    annotated_start(&t->t);
}

static void slice(struct trace *t, uint32_t host, const char *name, int64_t begin, int64_t end) {
    annotated_slice(&t->t, host, name, begin, end);
}

static const struct orr_steps *find(struct trace *t) {
    assert_int_equal(orr_steps_find(fixture_timeline(&t->t.f), &t->t.f.memory, &t->steps), ORR_OK);
    return &t->steps;
}

static void finish(struct trace *t) {
    orr_steps_free(&t->t.f.memory, &t->steps);
    annotated_finish(&t->t);
}

static void check(const struct orr_steps *steps, size_t i, uint64_t number, int64_t begin,
                  int64_t end, bool boundary) {
    assert_true(i < steps->count);
    assert_int_equal(steps->items[i].number, number);
    assert_int_equal(steps->items[i].begin_ns, begin);
    assert_int_equal(steps->items[i].end_ns, end);
    assert_int_equal(steps->items[i].boundary, boundary);
}

static void the_profilers_steps_come_before_all_others(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 0, "train step 1", 0, 1000); /* takes more, but is not the profiler's */
    slice(&t, 0, "train step 2", 1000, 2000);
    slice(&t, 0, "ProfilerStep#12", 200, 300); /* in any order */
    slice(&t, 0, "ProfilerStep#10", 0, 100);
    slice(&t, 0, "ProfilerStep#11", 100, 200);
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->source, ORR_STEP_SOURCE_PROFILER);
    assert_int_equal(s->count, 3);
    check(s, 0, 10, 0, 100, true);
    check(s, 1, 11, 100, 200, false);
    check(s, 2, 12, 200, 300, true);
    assert_int_equal(s->items[0].process, 7);
    assert_int_equal(s->items[0].host, 0);
    finish(&t);
}

static void one_step_of_the_profiler_is_a_step_and_one_annotation_is_none(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 0, "ProfilerStep#3", 5, 50);
    slice(&t, 2, "iteration 4", 5, 50);
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->count, 1);
    check(s, 0, 3, 5, 50, true);
    finish(&t);
}

static void annotations_that_count_are_steps(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 1, "model.trainStep rank 3 it 100", 0, 40);
    slice(&t, 1, "model.trainStep rank 3 it 101", 40, 90);
    slice(&t, 1, "batch 0", 0, 45); /* takes more, but says less clearly what it is */
    slice(&t, 1, "batch 1", 45, 100);
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->source, ORR_STEP_SOURCE_ANNOTATION);
    assert_int_equal(s->count, 2);
    check(s, 0, 100, 0, 40, true); /* the number that rises, not the rank */
    check(s, 1, 101, 40, 90, true);
    finish(&t);
}

static void of_two_series_the_one_that_takes_more_time_is_taken(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 0, "iteration 1", 0, 100);
    slice(&t, 0, "inner step 1", 10, 20);
    slice(&t, 0, "inner step 2", 20, 30);
    slice(&t, 0, "iteration 2", 100, 200);
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->count, 2);
    check(s, 1, 2, 100, 200, true);
    finish(&t);
}

static void names_without_a_rising_number_are_counted(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 0, "execute_context_1(128)_generation_0(0)", 0, 10);
    slice(&t, 0, "execute_context_0(0)_generation_1(1)", 10, 20);
    slice(&t, 0, "execute_context_1(64)_generation_1(1)", 20, 30);
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->count, 3);
    check(s, 0, 0, 0, 10, true);
    check(s, 1, 1, 10, 20, false);
    finish(&t);
}

static void what_is_no_step_stays_out(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    const char *const names[] = {"Optimizer.step#SGD.step",
                                 "aten::empty, op_id = 12",
                                 "layer 3",
                                 "microbatch 1",
                                 "epoch 1 step",
                                 "stepping stone",
                                 "forward",
                                 "",
                                 "12"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        slice(&t, 0, names[i], 100 * i, 100 * i + 10);
        slice(&t, 0, names[i], 100 * i + 20, 100 * i + 30);
    }
    slice(&t, 0, "step 1", 0, 100); /* overlap: two parts of the program count on their own */
    slice(&t, 0, "step 2", 50, 150);
    slice(&t, 1, "iter 5", 0, 100);
    slice(&t, 1, "iter 6", 100, 50); /* ends before it begins: no slice, and one is not enough */
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->count, 0);
    assert_int_equal(s->source, ORR_STEP_SOURCE_NONE);
    assert_int_equal(orr_steps_at(s, 7, 10), ORR_STEP_NONE);
    finish(&t);
}

static void each_process_has_its_own_steps(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 2, "ProfilerStep#5", 30, 60);
    slice(&t, 0, "ProfilerStep#5", 0, 40);
    slice(&t, 2, "ProfilerStep#6", 70, 90);
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->count, 3);
    assert_int_equal(orr_steps_at(s, 7, 0), 0);
    assert_int_equal(orr_steps_at(s, 7, 39), 0);
    assert_int_equal(orr_steps_at(s, 7, 40), ORR_STEP_NONE);
    assert_int_equal(orr_steps_at(s, 8, 29), ORR_STEP_NONE);
    assert_int_equal(orr_steps_at(s, 8, 30), 1);
    assert_int_equal(orr_steps_at(s, 8, 65), ORR_STEP_NONE);
    assert_int_equal(orr_steps_at(s, 8, 89), 2);
    assert_int_equal(orr_steps_at(s, 9, 40), ORR_STEP_NONE);
    finish(&t);
}

static void launches_of_one_program_are_steps_of_our_own_runs(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    uint32_t device = fixture_device(&t.t.f, "sim:test 0", "gpu");
    uint32_t stream = fixture_stream(&t.t.f, device, "compute", ORR_STREAM_COMPUTE);
    for (int i = 0; i < 3; i++) {
        uint64_t id =
            fixture_command(&t.t.f, ORR_COMMAND_GRAPH, stream, "decode", 100 * i, 100 * i)->id;
        fixture_enqueue(&t.t.f, id, 0, 100 * i, 100 * i + 5);
        fixture_command(&t.t.f, ORR_COMMAND_KERNEL, stream, "k", 100 * i + 10, 100 * i + 90);
    }
    const struct orr_steps *s = find(&t);
    assert_int_equal(s->source, ORR_STEP_SOURCE_GRAPH);
    assert_int_equal(s->count, 3);
    check(s, 0, 0, 0, 100, true);
    check(s, 1, 1, 100, 200, false);
    check(s, 2, 2, 200, 290, true);
    finish(&t);
}

static enum orr_status find_and_free(const struct annotated *t, const struct orr_memory *memory) {
    struct orr_steps steps;
    enum orr_status status = orr_steps_find(&t->f.timeline, memory, &steps);
    assert_int_equal(steps.count, status == ORR_OK ? 2 : 0);
    orr_steps_free(memory, &steps);
    return status;
}

static void no_memory_leaves_nothing_behind(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    slice(&t, 0, "step 2", 10, 20);
    slice(&t, 0, "step 1", 0, 10);
    assert_true(annotated_fail_each(&t.t, find_and_free) >= 3);
    finish(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_profilers_steps_come_before_all_others),
        cmocka_unit_test(one_step_of_the_profiler_is_a_step_and_one_annotation_is_none),
        cmocka_unit_test(annotations_that_count_are_steps),
        cmocka_unit_test(of_two_series_the_one_that_takes_more_time_is_taken),
        cmocka_unit_test(names_without_a_rising_number_are_counted),
        cmocka_unit_test(what_is_no_step_stays_out),
        cmocka_unit_test(each_process_has_its_own_steps),
        cmocka_unit_test(launches_of_one_program_are_steps_of_our_own_runs),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
