/* The analyzer on our own timelines, built by hand, with the exact figures of each definition: how
 * a command's time is split, and what it waited for. tests/test_analyzer_figures.c has what follows
 * from that for devices, phases, operators and memory. */
#include "tests/analyzer_fixture.h"

/* ------------------------------------------------------------------------------------------------
 * Split */

static void each_command_is_split_into_its_intervals(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 100, 150, 1000);
    kernel(&f, 0, "b", 100, 200, 1010, 1500); /* waits for a: 800; then 10 of dispatch */
    struct orr_analysis *a = analyze(&f);
    check_parts(a, 1, 100, 0, 0, 50, 850);
    check_parts(a, 2, 100, 800, 0, 10, 490);
    assert_int_equal(a->split.submit_ns, 200);
    assert_int_equal(a->split.stream_wait_ns, 800);
    assert_int_equal(a->split.dispatch_ns, 60);
    assert_int_equal(a->split.device_ns, 1340);
    assert_int_equal(a->split.total_ns, 1000 + 1400);
    finish(&f, &a);
}

static void an_event_wait_is_a_dependency_of_what_follows(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t produce = kernel(&f, 0, "produce", 0, 100, 100, 1000);
    uint64_t record = command(&f, ORR_COMMAND_RECORD, 0, "record", 100, 110, 1000, 1000);
    uint64_t wait = command(&f, ORR_COMMAND_WAIT, 2, "wait", 110, 120, 1000, 1000);
    uint64_t consume = kernel(&f, 2, "consume", 120, 220, 1040, 1100);
    uint64_t after = kernel(&f, 2, "after", 220, 320, 1100, 1200);
    fixture_edge(&f, produce, record, ORR_EDGE_STREAM);
    fixture_edge(&f, record, wait, ORR_EDGE_EVENT);
    struct orr_analysis *a = analyze(&f);
    check_parts(a, consume, 100, 0, 780, 40, 60);
    check_parts(a, after, 100, 780, 0, 0, 100);
    assert_int_equal(a->events.source.event_waits, 1);
    assert_int_equal(a->events.source.event_waits_unresolved, 0);
    assert_int_equal(a->split.dep_violations, 0);
    /* The path: produce, then consume and after; 40 ns of dispatch between them. */
    assert_int_equal(a->path.kinds[ORR_PATH_COMPUTE], 900 + 60 + 100);
    assert_int_equal(a->path.kinds[ORR_PATH_DISPATCH], 40);
    finish(&f, &a);
}

static void a_wait_on_another_device_is_dep_wait_of_the_idle_one(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t first = kernel(&f, 1, "first", 0, 10, 10, 50);
    uint64_t produce = kernel(&f, 0, "produce", 10, 20, 20, 1000);
    uint64_t consume = kernel(&f, 1, "consume", 20, 30, 1005, 1100);
    fixture_edge(&f, produce, consume, ORR_EDGE_EVENT);
    struct orr_analysis *a = analyze(&f);
    (void)first;
    const int64_t *classes = a->devices[1].times.classes;
    assert_int_equal(classes[ORR_CLASS_DEP_WAIT], 950);
    assert_int_equal(classes[ORR_CLASS_DISPATCH], 5);
    assert_int_equal(classes[ORR_CLASS_COMPUTE], 40 + 95);
    assert_int_equal(a->path.kinds[ORR_PATH_DISPATCH], 5);
    assert_int_equal(a->path.kinds[ORR_PATH_COMPUTE], 95 + 980);
    finish(&f, &a);
}

static void a_host_function_holds_back_its_stream(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    command(&f, ORR_COMMAND_HOSTFN, 0, "callback", 10, 20, 100, 400);
    uint64_t after = kernel(&f, 0, "b", 20, 30, 410, 500);
    struct orr_analysis *a = analyze(&f);
    check_parts(a, after, 10, 70, 300, 10, 90);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_DEP_WAIT], 300);
    assert_int_equal(a->path.kinds[ORR_PATH_DEP_WAIT], 300);
    finish(&f, &a);
}

static void an_allocation_names_a_stream_but_holds_nothing_back(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t a = kernel(&f, 0, "a", 0, 10, 20, 100);
    uint64_t alloc = command(&f, ORR_COMMAND_ALLOC, 0, "alloc", 10, 10, 300, 300);
    fixture_row(&f, alloc)->seq = 0;
    uint64_t b = kernel(&f, 0, "b", 10, 20, 110, 200);
    fixture_row(&f, b)->seq = 2;
    struct orr_analysis *analysis = analyze(&f);
    check_parts(analysis, a, 10, 0, 0, 10, 80);
    check_parts(analysis, b, 10, 80, 0, 10, 90);
    assert_int_equal(analysis->split.dep_violations, 0);
    finish(&f, &analysis);
}

static void a_ready_time_that_the_edges_do_not_explain_is_used_and_counted(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t id = kernel(&f, 0, "a", 0, 10, 100, 200);
    fixture_row(&f, id)->ready_ns = 90;
    struct orr_analysis *a = analyze(&f);
    check_parts(a, id, 10, 0, 80, 10, 100);
    assert_int_equal(a->events.ready_disagreements, 1);
    assert_int_equal(a->events.ready_disagreement_max_ns, 80);
    assert_true(has_finding(a, "ready_disagreement", "note"));
    finish(&f, &a);
}

static void a_ready_time_that_agrees_is_silent(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    fixture_row(&f, kernel(&f, 0, "a", 0, 10, 30, 200))->ready_ns = 10;
    fixture_row(&f, kernel(&f, 0, "b", 10, 20, 210, 300))->ready_ns = 200;
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->events.ready_disagreements, 0);
    assert_int_equal(a->findings.count, 0);
    finish(&f, &a);
}

static void a_start_before_a_dependency_is_a_violation(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t produce = kernel(&f, 0, "produce", 0, 10, 20, 1000);
    uint64_t consume = kernel(&f, 2, "consume", 10, 20, 300, 400);
    fixture_edge(&f, produce, consume, ORR_EDGE_EVENT);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->split.dep_violations, 1);
    assert_int_equal(a->split.dep_violation_max_ns, 700);
    assert_true(has_finding(a, "dependency_violation", "error"));
    check_parts(a, consume, 10, 0, 280, 0, 100);
    finish(&f, &a);
}

static void a_start_before_the_call_is_in_no_latency_figure(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    kernel(&f, 0, "early", 250, 260, 200, 300);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->split.ops, 1);
    assert_int_equal(a->split.early, 1);
    assert_int_equal(a->split.early_max_ns, 50);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_UNKNOWN_CLOCK], 100);
    assert_true(has_finding(a, "clock_violation", "warning"));
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_UNRELIABLE);
    finish(&f, &a);
}

static void ops_without_a_call_count_on_the_device_only(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    fixture_command(&f, ORR_COMMAND_KERNEL, 0, "unlinked", 150, 200);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->split.linked, 1);
    assert_int_equal(a->split.unlinked, 1);
    assert_int_equal(a->split.ops, 1);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_UNKNOWN_UNLINKED], 50);
    assert_int_equal(a->devices[0].times.busy_ns, 130);
    assert_int_equal(a->idle_streams.ns[ORR_STREAM_IDLE_UNLINKED], 50);
    finish(&f, &a);
}

static void what_did_not_run_is_counted_and_left_out(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    kernel(&f, 0, "running", 10, 20, 100, ORR_TIME_NONE);
    kernel(&f, 0, "waiting", 20, 30, ORR_TIME_NONE, ORR_TIME_NONE);
    kernel(&f, 0, "backwards", 30, 40, 120, 110);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->events.op_count, 1);
    assert_int_equal(a->events.source.never_started, 2);
    assert_int_equal(a->events.source.unfinished, 1);
    assert_int_equal(a->events.source.bad_ops, 1);
    assert_true(has_finding(a, "unfinished_ops", "warning"));
    assert_true(has_finding(a, "bad_ops", "warning"));
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Calls */

static void a_graph_launch_and_its_nodes_are_one_call(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    command(&f, ORR_COMMAND_GRAPH, 0, "graph", 0, 500, ORR_TIME_NONE, ORR_TIME_NONE);
    for (int node = 0; node < 4; node++) {
        kernel(&f, node % 2 ? 2 : 0, "node", 0, 500, 600 + 100 * node, 700 + 100 * node);
    }
    kernel(&f, 0, "alone", 500, 520, 1000, 1100);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->events.call_count, 2);
    assert_int_equal(a->split.call_ns_once, 520);
    assert_int_equal(a->split.call_ns_per_op, 4 * 500 + 20);
    assert_int_equal(a->exact.graph_launches, 1);
    assert_int_equal(a->exact.graph_launches_no_op, 0);
    assert_int_equal(a->exact.graph_ops, 4);
    assert_int_equal(a->exact.max_ops_per_corr, 4);
    assert_int_equal(a->exact.fanout_corrs, 1);
    assert_int_equal(a->devices[0].launch.calls, 2);
    assert_int_equal(a->devices[0].launch.sum_ns, 520);
    /* The nodes have no call of their own: only the launch alone costs its operator host time. */
    for (size_t i = 0; i < a->roofline.row_count; i++) {
        bool alone =
            strcmp(a->events.operators[a->roofline.rows[i].operator_index].name, "alone") == 0;
        assert_int_equal(a->roofline.rows[i].host_ns, alone ? 20 : 0);
    }
    finish(&f, &a);
}

static void a_graph_launch_without_nodes_makes_idle_time_unreliable(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    command(&f, ORR_COMMAND_GRAPH, 0, "graph", 0, 500, ORR_TIME_NONE, ORR_TIME_NONE);
    kernel(&f, 0, "a", 500, 520, 600, 700);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->exact.graph_launches_no_op, 1);
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_UNRELIABLE);
    assert_true(has_finding(a, "graph_without_ops", "warning"));
    finish(&f, &a);
}

static void calls_of_one_host_with_equal_stamps_stay_apart_without_a_graph(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 30);
    kernel(&f, 0, "b", 0, 10, 30, 40);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->events.call_count, 2);
    assert_int_equal(a->exact.fanout_corrs, 0);
    finish(&f, &a);
}

static void a_wait_of_the_host_is_synchronisation_from_the_end_of_the_op(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    uint64_t b = kernel(&f, 0, "b", 10, 20, 100, 300);
    fixture_sync(&f, 0, ORR_SYNC_STREAM, 150, 310, b);
    kernel(&f, 0, "c", 400, 410, 420, 500);
    struct orr_analysis *a = analyze(&f);
    /* a ended before the call began: the whole call; b: from its end. c is never observed. */
    assert_int_equal(a->split.sync_ops, 2);
    assert_int_equal(a->split.sync_ns, (310 - 150) + (310 - 300));
    assert_int_equal(a->split.host_waits, 1);
    assert_int_equal(a->split.host_wait_ns, 160);
    /* The gap before c: 10 inside the sync, 90 of host time, 10 of launch, 10 of dispatch. */
    const int64_t *classes = a->devices[0].times.classes;
    assert_int_equal(classes[ORR_CLASS_HOST_SYNC], 10);
    assert_int_equal(classes[ORR_CLASS_HOST_OTHER], 90);
    assert_int_equal(classes[ORR_CLASS_HOST_LAUNCH], 10);
    assert_int_equal(classes[ORR_CLASS_DISPATCH], 10);
    /* The path: c, dispatch, launch, host back to the sync, the sync back to b's end, then b and
     * a. */
    assert_int_equal(a->path.kinds[ORR_PATH_COMPUTE], 80 + 200 + 80);
    assert_int_equal(a->path.kinds[ORR_PATH_SYNC], 10);
    assert_int_equal(a->path.kinds[ORR_PATH_HOST], 90);
    assert_int_equal(a->path.kinds[ORR_PATH_LAUNCH], 10);
    finish(&f, &a);
}

static void a_device_sync_observes_all_streams_of_its_device(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    uint64_t b = kernel(&f, 2, "b", 10, 20, 30, 200);
    kernel(&f, 1, "elsewhere", 20, 30, 40, 150);
    fixture_sync(&f, 0, ORR_SYNC_DEVICE, 50, 210, b);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->split.sync_ops, 2);
    assert_int_equal(a->split.sync_ns, (210 - 100) + (210 - 200));
    finish(&f, &a);
}

static void a_device_sync_may_see_last_a_command_that_is_no_work(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    kernel(&f, 1, "elsewhere", 10, 20, 40, 150);
    uint64_t mark = command(&f, ORR_COMMAND_HOSTFN, 2, "f", 20, 30, 100, 105);
    fixture_sync(&f, 0, ORR_SYNC_DEVICE, 50, 210, mark);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->split.sync_ops, 1);
    assert_int_equal(a->split.sync_ns, 210 - 100);
    finish(&f, &a);
}

/* As an allocation does that waits for the streams of all devices. */
static void a_device_sync_is_for_its_target_whatever_it_saw_last(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    uint64_t last = kernel(&f, 1, "elsewhere", 10, 20, 40, 150);
    fixture_sync(&f, 0, ORR_SYNC_DEVICE, 50, 210, last)->target = "device 0";
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->split.sync_ops, 1);
    assert_int_equal(a->split.sync_ns, 210 - 100);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Collectives */

/* An all-reduce of two devices whose second member arrives 600 ns late; they start together. */
static void run_all_reduce(struct fixture *f) {
    uint32_t group = fixture_communicator(f, "dp");
    fixture_member(f, group, 0, 0);
    fixture_member(f, group, 1, 1);
    kernel(f, 0, "fast", 0, 10, 20, 400);
    kernel(f, 1, "slow", 10, 20, 30, 1000);
    uint64_t a = command(f, ORR_COMMAND_COLLECTIVE, 0, "all_reduce", 20, 30, 1000, 3000);
    uint64_t b = command(f, ORR_COMMAND_COLLECTIVE, 1, "all_reduce", 30, 40, 1000, 3000);
    uint64_t id = fixture_collective(f, group, "all_reduce", 1000000)->id;
    fixture_collective_member(f, id, 0, a);
    fixture_collective_member(f, id, 1, b);
    fixture_edge(f, a, b, ORR_EDGE_COLLECTIVE);
}

static void a_member_waits_for_its_own_stream_only(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    run_all_reduce(&f);
    struct orr_analysis *a = analyze(&f);
    check_parts(a, 3, 10, 370, 0, 600, 2000);
    check_parts(a, 4, 10, 960, 0, 0, 2000);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_DEP_WAIT], 0);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_DISPATCH], 600);
    assert_int_equal(a->split.dep_violations, 0);
    /* The path leads through the slow device all the same. */
    assert_int_equal(a->path.kinds[ORR_PATH_COMM], 2000);
    assert_int_equal(a->path.kinds[ORR_PATH_COMPUTE], 970);
    finish(&f, &a);
}

static void a_member_that_starts_with_the_last_one_says_so_with_its_ready_time(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    run_all_reduce(&f);
    fixture_row(&f, 3)->ready_ns = 1000;
    struct orr_analysis *a = analyze(&f);
    check_parts(a, 3, 10, 370, 600, 0, 2000);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_DEP_WAIT], 600);
    assert_int_equal(a->devices[1].times.classes[ORR_CLASS_DEP_WAIT], 0);
    assert_int_equal(a->path.kinds[ORR_PATH_COMM], 2000);
    assert_int_equal(a->path.kinds[ORR_PATH_COMPUTE], 970);
    finish(&f, &a);
}

static void members_that_start_apart_wait_inside_the_collective(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint32_t group = fixture_communicator(&f, "dp");
    fixture_member(&f, group, 0, 0);
    fixture_member(&f, group, 1, 1);
    kernel(&f, 0, "fast", 0, 10, 20, 400);
    kernel(&f, 1, "slow", 10, 20, 30, 1000);
    uint64_t a = command(&f, ORR_COMMAND_COLLECTIVE, 0, "all_reduce", 20, 30, 400, 3000);
    uint64_t b = command(&f, ORR_COMMAND_COLLECTIVE, 1, "all_reduce", 30, 40, 1000, 3000);
    uint64_t id = fixture_collective(&f, group, "all_reduce", 1000000)->id;
    fixture_collective_member(&f, id, 0, a);
    fixture_collective_member(&f, id, 1, b);
    struct orr_analysis *analysis = analyze(&f);
    /* On the device it is communication, not a dependency; the table says what of it was
     * waiting. */
    check_parts(analysis, a, 10, 370, 0, 0, 2600);
    assert_int_equal(analysis->devices[0].times.classes[ORR_CLASS_EXPOSED_COMM], 2600);
    assert_int_equal(analysis->roofline.collectives[0].transfer_ns, 2000);
    assert_int_equal(analysis->roofline.collectives[0].arrival_ns, 600);
    /* The path: the transfer, then the slow device's kernel. */
    assert_int_equal(analysis->path.kinds[ORR_PATH_COMM], 2000);
    assert_int_equal(analysis->path.kinds[ORR_PATH_COMPUTE], 970);
    finish(&f, &analysis);
}

static void bus_bandwidth_counts_what_the_links_carry(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    run_all_reduce(&f);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->roofline.collective_count, 1);
    const struct orr_collective_row *row = &a->roofline.collectives[0];
    assert_string_equal(row->kind, "all_reduce");
    assert_string_equal(row->group, "dp");
    assert_int_equal(row->size, 2);
    assert_int_equal(row->count, 1);
    assert_int_equal(row->transfer_ns, 2000);
    /* 2 (2 - 1) / 2 = 1: 1 MB in 2 us. */
    assert_int_equal(row->bus_bandwidth, 500000000000);
    finish(&f, &a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_is_split_into_its_intervals),
        cmocka_unit_test(an_event_wait_is_a_dependency_of_what_follows),
        cmocka_unit_test(a_wait_on_another_device_is_dep_wait_of_the_idle_one),
        cmocka_unit_test(a_host_function_holds_back_its_stream),
        cmocka_unit_test(an_allocation_names_a_stream_but_holds_nothing_back),
        cmocka_unit_test(a_ready_time_that_the_edges_do_not_explain_is_used_and_counted),
        cmocka_unit_test(a_ready_time_that_agrees_is_silent),
        cmocka_unit_test(a_start_before_a_dependency_is_a_violation),
        cmocka_unit_test(a_start_before_the_call_is_in_no_latency_figure),
        cmocka_unit_test(ops_without_a_call_count_on_the_device_only),
        cmocka_unit_test(what_did_not_run_is_counted_and_left_out),
        cmocka_unit_test(a_graph_launch_and_its_nodes_are_one_call),
        cmocka_unit_test(a_graph_launch_without_nodes_makes_idle_time_unreliable),
        cmocka_unit_test(calls_of_one_host_with_equal_stamps_stay_apart_without_a_graph),
        cmocka_unit_test(a_wait_of_the_host_is_synchronisation_from_the_end_of_the_op),
        cmocka_unit_test(a_device_sync_observes_all_streams_of_its_device),
        cmocka_unit_test(a_device_sync_may_see_last_a_command_that_is_no_work),
        cmocka_unit_test(a_device_sync_is_for_its_target_whatever_it_saw_last),
        cmocka_unit_test(a_member_waits_for_its_own_stream_only),
        cmocka_unit_test(a_member_that_starts_with_the_last_one_says_so_with_its_ready_time),
        cmocka_unit_test(members_that_start_apart_wait_inside_the_collective),
        cmocka_unit_test(bus_bandwidth_counts_what_the_links_carry),
    };
    return cmocka_run_group_tests_name("analyzer", tests, NULL, NULL);
}
