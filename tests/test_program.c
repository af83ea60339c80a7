/* Launches of recorded programs on simulated devices, to the nanosecond, by one host and by
 * several; tests/test_program_capture.c has what is recorded, tests/test_cpu_program.c compares
 * numbers with eager runs. */
#include "tests/program_fixture.h"

/* --- time --- */

static void a_captured_chain_costs_one_host_call_and_runs_back_to_back(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    int64_t t = orr_runtime_now(m.runtime);
    work(&m, m.a, "k1", 1000);
    work(&m, m.a, "k2", 2000);
    work(&m, m.a, "k3", 3000);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_runtime_now(m.runtime), t);
    assert_int_equal(record_count(&m.f, ORR_RECORD_COMMAND), 0);
    ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS);
    ok(&m, orr_stream_sync(m.a));
    assert_times(named(&m, "graph launch", 0), t, t + 5000, t + 5000, t + 5000);
    assert_times(named(&m, "k1", 0), t, t + 5000, t + 5000, t + 6000);
    assert_times(named(&m, "k2", 0), t, t + 5000, t + 6000, t + 8000);
    assert_times(named(&m, "k3", 0), t, t + 5000, t + 8000, t + 11000);
    assert_int_equal(orr_runtime_now(m.runtime), t + 11000 + SYNC_NS);
    assert_int_equal(named(&m, "graph launch", 0)->header.a, ORR_COMMAND_GRAPH);
    assert_int_equal(record_count(&m.f, ORR_RECORD_COMMAND), 4); /* one stream needs no join */
    orr_program_destroy(&program);
    assert_null(program);
    close_machine(&m);
}

static void nodes_of_one_stream_keep_the_node_gap_and_records_and_joins_take_none(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    for (int i = 0; i < 2; i++) {
        m.f.specs[i].graph_node_ns = 300;
        m.f.specs[i].launch_latency_ns = 700;
    }
    start(&m);
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k1", 1000);
    ok(&m, orr_event_record(event, m.a));
    work(&m, m.a, "k2", 1000);
    ok(&m, orr_stream_wait(m.b, event));
    work(&m, m.b, "k3", 1000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_runtime_finish(m.runtime));
    assert_int_equal(named(&m, "graph launch", 0)->finish_ns, t + 5000);
    assert_int_equal(named(&m, "k1", 0)->start_ns, t + 5700); /* latency, longer than the gap */
    assert_int_equal(named(&m, "record", 0)->start_ns, t + 6700);
    assert_int_equal(named(&m, "k2", 0)->start_ns, t + 7000); /* gap */
    assert_int_equal(named(&m, "wait", 0)->finish_ns, t + 6700);
    assert_int_equal(named(&m, "k3", 0)->start_ns, t + 7000);
    assert_int_equal(named(&m, "graph join", 0)->finish_ns, t + 8000);
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_launch_forks_to_other_streams_and_joins_them(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "short", 1000);
    work(&m, m.b, "long", 30000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    work(&m, m.side, "before", 20000);           /* t + 5,000 to t + 25,000 */
    ok(&m, orr_program_launch(program, m.side)); /* t + 5,000 to t + 10,000 */
    work(&m, m.side, "after", 1000);
    ok(&m, orr_runtime_finish(m.runtime));
    const struct orr_record_command *graph = named(&m, "graph launch", 0);
    assert_times(graph, t + 5000, t + 10000, t + 25000, t + 25000);
    assert_times(named(&m, "short", 0), t + 5000, t + 10000, t + 25000, t + 26000);
    assert_times(named(&m, "long", 0), t + 5000, t + 10000, t + 25000, t + 55000);
    assert_times(named(&m, "after", 0), t + 10000, t + 15000, t + 55000, t + 56000);
    const struct orr_record_command *join = named(&m, "graph join", 0);
    assert_int_equal(join->header.a, ORR_COMMAND_MARKER);
    assert_int_equal(join->stream, orr_stream_id(m.side));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, graph->id, named(&m, "short", 0)->id));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, graph->id, named(&m, "long", 0)->id));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "short", 0)->id, join->id));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "long", 0)->id, join->id));
    orr_program_destroy(&program);
    close_machine(&m);
}

static void waits_inside_the_region_hold_in_every_launch(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "produce", 40000);
    ok(&m, orr_event_record(event, m.a));
    ok(&m, orr_stream_wait(m.b, event));
    work(&m, m.b, "consume", 1000);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_program_command_count(program), 4);
    struct orr_program_command wait = orr_program_at(program, 2);
    assert_int_equal(wait.kind, ORR_COMMAND_WAIT);
    assert_ptr_equal(wait.stream, m.b);
    assert_int_equal(wait.wait_count, 1);
    assert_int_equal(wait.waits[0], 1);
    assert_int_equal(orr_program_at(program, 0).wait_count, 0);
    assert_string_equal(orr_program_at(program, 3).name, "consume");
    for (int i = 0; i < 3; i++)
        ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_program_launch_count(program), 3);
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 3; i++) {
        int64_t produced_ns = named(&m, "produce", i)->finish_ns;
        assert_int_equal(named(&m, "consume", i)->start_ns, produced_ns);
        assert_true(
            has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "record", i)->id, named(&m, "wait", i)->id));
        if (i > 0) /* launches on one stream follow each other */
            assert_int_equal(named(&m, "produce", i)->start_ns,
                             named(&m, "consume", i - 1)->finish_ns);
    }
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_wait_for_a_point_from_before_the_region_holds_for_the_first_launch(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_event *event = new_event(&m);
    work(&m, m.b, "outside", 80000);
    ok(&m, orr_event_record(event, m.b));
    struct orr_program *program = begin(&m);
    ok(&m, orr_stream_wait(m.a, event));
    work(&m, m.a, "inside", 1000);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_program_at(program, 0).wait_count, 0);
    ok(&m, orr_program_launch(program, m.a));
    work(&m, m.b, "later", 900000);
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t outside_ns = named(&m, "outside", 0)->finish_ns;
    assert_int_equal(named(&m, "inside", 0)->start_ns, outside_ns);
    assert_int_equal(named(&m, "inside", 1)->start_ns, outside_ns + 1000);
    assert_true(
        has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "record", 0)->id, named(&m, "wait", 0)->id));
    assert_false(
        has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "record", 0)->id, named(&m, "wait", 1)->id));
    orr_program_destroy(&program);
    close_machine(&m);
}

static void two_launches_on_different_streams_do_not_overlap(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k", 50000);
    ok(&m, orr_program_end(program));
    struct orr_program *empty = begin(&m);
    ok(&m, orr_program_end(empty));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_program_launch(program, m.b));
    ok(&m, orr_program_launch(empty, m.b));
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t first_ns = named(&m, "k", 0)->finish_ns;
    assert_int_equal(named(&m, "graph launch", 1)->start_ns, first_ns);
    assert_int_equal(named(&m, "k", 1)->start_ns, first_ns);
    assert_int_equal(named(&m, "graph launch", 2)->start_ns, first_ns + 50000);
    assert_true(
        has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "k", 0)->id, named(&m, "graph launch", 1)->id));
    orr_program_destroy(&program);
    orr_program_destroy(&empty);
    close_machine(&m);
}

static void a_full_queue_blocks_the_launching_call_and_nothing_is_lost(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    m.f.specs[0].queue_depth = 4;
    start(&m);
    struct orr_program *program = begin(&m);
    for (int i = 0; i < 12; i++)
        work(&m, m.a, "k", 10000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a));
    /* 8 of 12 must be over before the last one finds a place. */
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS + 80000 + SYNC_NS);
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(named(&m, "k", i)->enqueue_ns, t); /* still one call */
        assert_int_equal(named(&m, "k", i)->start_ns, t + GRAPH_NS + 10000 * (int64_t)i);
    }
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_dispatch_host_makes_the_call_where_there_is_one(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    m.f.config.runner = ORR_RUNNER_PER_DEVICE;
    start(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k1", 1000);
    work(&m, m.a, "k2", 1000);
    work(&m, m.b, "k3", 1000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_runtime_now(m.runtime), t + 1); /* one hand-over */
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t g = t + 1;
    assert_times(named(&m, "graph launch", 0), g, g + 5000, g + 5000, g + 5000);
    assert_times(named(&m, "k1", 0), g, g + 5000, g + 5000, g + 6000);
    assert_times(named(&m, "k2", 0), g, g + 5000, g + 6000, g + 7000);
    assert_times(named(&m, "k3", 0), g, g, g + 5000, g + 6000);
    assert_int_equal(named(&m, "k2", 0)->host, named(&m, "graph launch", 0)->host);
    orr_program_destroy(&program);
    close_machine(&m);
}

/* --- several hosts --- */

static void only_calls_of_the_host_that_began_are_recorded(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    uint32_t other;
    ok(&m, orr_runtime_add_host(m.runtime, "other", &other));
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "recorded", 1000);
    ok(&m, orr_event_record(event, m.a));
    ok(&m, orr_runtime_set_caller(m.runtime, other, NULL));
    assert_false(orr_runtime_is_capturing(m.runtime));
    orr_runtime_host_done(m.runtime, 0);
    work(&m, m.a, "live", 1000);
    fails(&m, orr_stream_wait(m.b, event), ORR_INVALID, "code 907");
    fails(&m, orr_program_end(program), ORR_INVALID, "code 908");
    ok(&m, orr_stream_sync(m.a));
    assert_int_equal(orr_program_command_count(program), 2);
    assert_int_equal(named(&m, "live", 0)->host, other);
    orr_program_destroy(&program); /* while it is open */
    struct orr_program *next = begin(&m);
    ok(&m, orr_program_end(next));
    orr_program_destroy(&next);
    close_machine(&m);
}

static void a_launch_is_one_call_though_another_host_is_earlier_by_then(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k1", 1000);
    work(&m, m.b, "k2", 1000);
    ok(&m, orr_program_end(program));
    uint32_t other, next;
    ok(&m, orr_runtime_add_host(m.runtime, "other", &other));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a)); /* t to t + 5,000; the other host is at t */
    assert_int_equal(orr_program_launch_count(program), 1);
    assert_int_equal(orr_program_launch(program, m.a), ORR_BLOCKED); /* nothing happened */
    ok(&m, orr_runtime_next_host(m.runtime, &next));
    assert_int_equal(next, other);
    ok(&m, orr_runtime_set_caller(m.runtime, other, NULL));
    ok(&m, orr_program_launch(program, m.b)); /* by the other one, from t too */
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS);
    orr_runtime_host_done(m.runtime, other);
    ok(&m, orr_runtime_set_caller(m.runtime, 0, NULL));
    ok(&m, orr_runtime_finish(m.runtime));
    assert_times(named(&m, "k1", 0), t, t + 5000, t + 5000, t + 6000);
    assert_times(named(&m, "k1", 1), t, t + 5000, t + 6000, t + 7000);
    assert_int_equal(named(&m, "k1", 1)->host, other);
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_launch_blocked_in_the_middle_goes_on_when_it_is_repeated(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    m.f.specs[0].queue_depth = 4;
    start(&m);
    struct orr_program *program = begin(&m);
    for (int i = 0; i < 10; i++)
        work(&m, m.a, "k", 10000);
    ok(&m, orr_program_end(program));
    uint32_t other, next;
    ok(&m, orr_runtime_add_host(m.runtime, "other", &other));
    int64_t t = orr_runtime_now(m.runtime);
    assert_int_equal(orr_program_launch(program, m.a), ORR_BLOCKED);
    assert_int_equal(orr_program_launch_count(program), 0);
    ok(&m, orr_runtime_set_caller(m.runtime, other, NULL));
    fails(&m, orr_program_launch(program, m.b), ORR_INVALID, "not complete yet");
    work(&m, m.b, "between", 1000);
    ok(&m, orr_runtime_spend(m.runtime, 1000000));
    ok(&m, orr_runtime_set_caller(m.runtime, 0, NULL));
    enum orr_status status;
    int repetitions = 0;
    do {
        ok(&m, orr_runtime_next_host(m.runtime, &next));
        assert_int_equal(next, 0);
        status = orr_program_launch(program, m.a);
        repetitions++;
    } while (status == ORR_BLOCKED);
    ok(&m, status);
    assert_in_range(repetitions, 2, 20);
    assert_int_equal(orr_program_launch_count(program), 1);
    orr_runtime_host_done(m.runtime, other);
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(named(&m, "k", i)->enqueue_ns, t);
        assert_int_equal(named(&m, "k", i)->start_ns, t + GRAPH_NS + 10000 * (int64_t)i);
    }
    assert_int_equal(named(&m, "between", 0)->enqueue_ns, t);
    orr_program_destroy(&program);
    close_machine(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_captured_chain_costs_one_host_call_and_runs_back_to_back),
        cmocka_unit_test(nodes_of_one_stream_keep_the_node_gap_and_records_and_joins_take_none),
        cmocka_unit_test(a_launch_forks_to_other_streams_and_joins_them),
        cmocka_unit_test(waits_inside_the_region_hold_in_every_launch),
        cmocka_unit_test(a_wait_for_a_point_from_before_the_region_holds_for_the_first_launch),
        cmocka_unit_test(two_launches_on_different_streams_do_not_overlap),
        cmocka_unit_test(a_full_queue_blocks_the_launching_call_and_nothing_is_lost),
        cmocka_unit_test(a_dispatch_host_makes_the_call_where_there_is_one),
        cmocka_unit_test(only_calls_of_the_host_that_began_are_recorded),
        cmocka_unit_test(a_launch_is_one_call_though_another_host_is_earlier_by_then),
        cmocka_unit_test(a_launch_blocked_in_the_middle_goes_on_when_it_is_repeated),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
