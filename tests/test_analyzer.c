/* The analyzer on our own timelines, built by hand, with the exact figures of each definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/analysis.h"
#include "analyzer/report_text.h"
#include "tests/timeline_fixture.h"

/* ------------------------------------------------------------------------------------------------
 * Help */

/* Two simulated devices with a compute stream each (0, 1), a communicate stream of device 0 (2),
 * two hosts. */
static void start(struct fixture *f) {
    fixture_init(f);
    fixture_meta(f, "backend", "sim");
    fixture_meta(f, "status", "ok");
    fixture_host(f, "main");
    fixture_host(f, "runner");
    for (int d = 0; d < 2; d++) {
        uint32_t device = fixture_device(f, fixture_text(f, "sim:test %d", d), "gpu");
        struct orr_timeline_device *row = &f->timeline.devices[device];
        row->mem_bytes = 1000000;
        row->bandwidth = 2000000000000;
        row->peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] = 500000000000000;
        row->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 50000000000000;
        fixture_stream(f, device, "compute", ORR_STREAM_COMPUTE);
    }
    fixture_stream(f, 0, "communicate", ORR_STREAM_COMMUNICATE);
}

/* A command of host 0: its call, then its time on the device. Returns its id. */
static uint64_t command(struct fixture *f, enum orr_command_kind kind, uint32_t stream,
                        const char *name, int64_t enqueue, int64_t enqueued, int64_t begin,
                        int64_t end) {
    uint64_t id = fixture_command(f, kind, stream, name, begin, end)->id;
    fixture_enqueue(f, id, 0, enqueue, enqueued);
    return id;
}

static uint64_t kernel(struct fixture *f, uint32_t stream, const char *name, int64_t enqueue,
                       int64_t enqueued, int64_t begin, int64_t end) {
    return command(f, ORR_COMMAND_KERNEL, stream, name, enqueue, enqueued, begin, end);
}

static struct orr_analysis *analyze_with(struct fixture *f,
                                         const struct orr_analysis_options *options) {
    static struct orr_memory memory;
    memory = orr_memory_system();
    struct orr_analysis *analysis = NULL;
    struct orr_error error = {0};
    enum orr_status status = orr_analyze(fixture_timeline(f), options, &memory, &analysis, &error);
    if (status != ORR_OK) {
        fail_msg("%s", error.text);
    }
    return analysis;
}

static struct orr_analysis *analyze(struct fixture *f) {
    struct orr_analysis_options options = orr_analysis_options_default();
    return analyze_with(f, &options);
}

static void finish(struct fixture *f, struct orr_analysis **analysis) {
    orr_analysis_destroy(analysis);
    fixture_free(f);
}

static bool has_finding(const struct orr_analysis *a, const char *kind, const char *severity) {
    for (size_t i = 0; i < a->findings.count; i++) {
        if (strcmp(a->findings.items[i].kind, kind) == 0) {
            assert_string_equal(a->findings.items[i].severity, severity);
            return true;
        }
    }
    return false;
}

static struct orr_split_parts parts_of(const struct orr_analysis *a, uint64_t command) {
    struct orr_split_parts parts = {0};
    for (uint32_t i = 0; i < a->events.op_count; i++) {
        if (a->events.ops[i].correlation == command) {
            assert_true(orr_split_of(&a->events, i, &parts));
            return parts;
        }
    }
    fail();
    return parts;
}

static void check_parts(const struct orr_analysis *a, uint64_t command, int64_t submit,
                        int64_t stream_wait, int64_t dep_wait, int64_t dispatch, int64_t device) {
    struct orr_split_parts p = parts_of(a, command);
    assert_int_equal(p.submit, submit);
    assert_int_equal(p.stream_wait, stream_wait);
    assert_int_equal(p.dep_wait, dep_wait);
    assert_int_equal(p.dispatch, dispatch);
    assert_int_equal(p.device, device);
}

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
 * Devices */

static void the_window_of_all_devices_is_one_and_conserved(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 1020);
    kernel(&f, 1, "b", 10, 20, 500, 600);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->begin_ns, 20);
    assert_int_equal(a->end_ns, 1020);
    assert_int_equal(a->devices[1].classes[ORR_CLASS_BEFORE_FIRST], 480);
    assert_int_equal(a->devices[1].classes[ORR_CLASS_AFTER_LAST], 420);
    assert_int_equal(a->devices[1].classes[ORR_CLASS_COMPUTE], 100);
    assert_int_equal(a->devices[1].times.span_ns, 100);
    assert_int_equal(a->devices[0].residual_ns, 0);
    assert_int_equal(a->devices[1].residual_ns, 0);
    finish(&f, &a);
}

static void communication_beside_computation_is_overlap_not_exposed(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "gemm", 0, 10, 100, 200);
    command(&f, ORR_COMMAND_COLLECTIVE, 2, "all_reduce", 10, 20, 150, 300);
    command(&f, ORR_COMMAND_COPY, 2, "copy", 20, 30, 300, 320);
    struct orr_analysis *a = analyze(&f);
    const struct orr_device_times *t = &a->devices[0].times;
    assert_int_equal(t->compute_ns, 100);
    assert_int_equal(t->comm_ns, 150);
    assert_int_equal(t->copy_ns, 20);
    assert_int_equal(t->comm_compute_ns, 50);
    assert_int_equal(t->classes[ORR_CLASS_EXPOSED_COMM], 100);
    assert_int_equal(t->classes[ORR_CLASS_EXPOSED_COPY], 20);
    finish(&f, &a);
}

static void a_long_unexplained_wait_is_unknown_never_host(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    kernel(&f, 0, "b", 10, 20, 100100, 100200); /* exactly 100,000 ns: dispatch */
    kernel(&f, 0, "c", 20, 30, 200201, 200300); /* one more: unknown */
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_DISPATCH], 100000);
    assert_int_equal(a->devices[0].times.classes[ORR_CLASS_UNKNOWN_WAIT], 100001);
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_UNRELIABLE);
    finish(&f, &a);
}

static void idle_time_inside_streams_has_its_own_classes(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    kernel(&f, 0, "b", 10, 20, 129, 200);   /* 29 ns: short */
    kernel(&f, 0, "c", 20, 30, 230, 300);   /* 30 ns: queued */
    kernel(&f, 0, "d", 301, 310, 320, 400); /* called after c's end: host */
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->idle_streams.ns[ORR_STREAM_IDLE_SHORT], 29);
    assert_int_equal(a->idle_streams.ns[ORR_STREAM_IDLE_QUEUED], 30);
    assert_int_equal(a->idle_streams.ns[ORR_STREAM_IDLE_HOST], 20);
    assert_int_equal(a->idle_streams.counts[ORR_STREAM_IDLE_HOST], 1);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Launch-bound */

/* `count` kernels of 500 ns, each called 2 us after the call before, each call 1 us long. */
static void add_small_kernels(struct fixture *f, int count) {
    for (int i = 0; i < count; i++) {
        int64_t at = 2000 * i;
        kernel(f, 0, i % 2 ? "relu" : "add", at, at + 1000, at + 1100, at + 1600);
    }
}

static void small_kernels_at_the_pace_of_their_launches_are_launch_bound(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    add_small_kernels(&f, 20);
    struct orr_analysis *a = analyze(&f);
    const struct orr_device_report *d = &a->devices[0];
    /* 19 gaps of 1,500: 400 other, 1,000 launch, 100 dispatch. */
    assert_int_equal(d->classes[ORR_CLASS_HOST_LAUNCH], 19 * 1000);
    assert_int_equal(d->classes[ORR_CLASS_HOST_OTHER], 19 * 400);
    assert_int_equal(d->classes[ORR_CLASS_DISPATCH], 19 * 100);
    assert_int_equal(d->window.launch_period_ns, 2000);
    assert_int_equal(d->window.gap_period_ns, 2000);
    assert_int_equal(d->window.feed_gaps, 19);
    assert_int_equal(d->verdict, ORR_VERDICT_LAUNCH_BOUND);
    assert_int_equal(d->launch.median_ns, 1000);
    assert_int_equal(d->launch.graph_gaps, 19);
    assert_int_equal(d->launch.graph_gap_ns, 19 * 1500);
    assert_int_equal(d->launch.graph_repeated_ns, 19 * 1500);
    assert_true(has_finding(a, "launch_bound", "note"));
    assert_int_equal(a->phases.count, 2);
    assert_string_equal(orr_phase_class_text(&a->phases.items[0]), "launch_bound");
    assert_string_equal(orr_phase_class_text(&a->phases.items[1]), "idle"); /* device 1 */
    finish(&f, &a);
}

static void too_few_gaps_are_unknown_not_launch_bound(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    add_small_kernels(&f, 8);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->devices[0].window.feed_gaps, 7);
    assert_int_equal(a->devices[0].window.bound, ORR_ANSWER_UNKNOWN);
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_UNKNOWN);
    finish(&f, &a);
}

static void a_host_that_stalls_between_bursts_is_not_launch_bound(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    /* Bursts of two calls 1 us apart, 20 us between bursts; the device idles once per burst. */
    for (int i = 0; i < 12; i++) {
        int64_t at = 20000 * i;
        kernel(&f, 0, "a", at, at + 500, at + 600, at + 2600);
        kernel(&f, 0, "b", at + 500, at + 1000, at + 2600, at + 4600);
        kernel(&f, 0, "c", at + 1000, at + 1500, at + 4600, at + 5000);
    }
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->devices[0].window.launch_period_ns, 500);
    assert_int_equal(a->devices[0].window.gap_period_ns, 20000);
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_HOST_STALLED);
    assert_string_equal(orr_phase_class_text(&a->phases.items[0]), "host_stalled");
    finish(&f, &a);
}

static void a_wait_between_two_launches_is_out_of_reach_for_a_graph(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t first = kernel(&f, 0, "a", 0, 10, 20, 100);
    fixture_sync(&f, 0, ORR_SYNC_STREAM, 10, 110, first);
    kernel(&f, 0, "b", 120, 130, 140, 200);
    kernel(&f, 0, "c", 210, 220, 230, 300);
    struct orr_analysis *a = analyze(&f);
    const struct orr_launch *launch = &a->devices[0].launch;
    assert_int_equal(launch->graph_gaps, 1);
    assert_int_equal(launch->graph_gap_ns, 30);
    assert_int_equal(launch->graph_gap_counts[ORR_GRAPH_REASON_BREAKING], 1);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Phases */

static void phases_follow_what_dominates_and_add_up(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    /* 1 ms of one kernel, 1 ms of a copy, cells of 100 us. */
    kernel(&f, 0, "work", 0, 10, 20, 1000020);
    command(&f, ORR_COMMAND_COPY, 2, "copy", 10, 20, 1000020, 2000020);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->phases.cell_ns, 100000);
    const struct orr_phase *p = a->phases.items;
    assert_int_equal(a->phases.count, 3); /* the third is device 1's */
    assert_string_equal(orr_phase_class_text(&p[0]), "latency_bound");
    assert_string_equal(orr_phase_class_text(&p[1]), "copy_bound");
    assert_int_equal(p[0].begin_ns, 20);
    assert_int_equal(p[0].end_ns, 1000020);
    assert_int_equal(p[0].groups[ORR_PHASE_LATENCY_BOUND], 1000000);
    assert_int_equal(p[1].groups[ORR_PHASE_COPY], 1000000);
    assert_int_equal(p[0].top_count, 1);
    assert_string_equal(a->events.operators[p[0].top[0].operator_index].name, "work");
    finish(&f, &a);
}

static void of_equal_groups_a_phase_has_the_first(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "work", 0, 10, 20, 120);
    command(&f, ORR_COMMAND_COPY, 2, "copy", 10, 20, 120, 220);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->phases.items[0].groups[ORR_PHASE_LATENCY_BOUND], 100);
    assert_int_equal(a->phases.items[0].groups[ORR_PHASE_COPY], 100);
    assert_int_equal(a->phases.items[0].label, ORR_PHASE_LATENCY_BOUND);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Operators: the worked example */

struct work {
    const char *name, *kind, *shape;
    int unit;
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
};

static void run_work(struct fixture *f, const struct work *w, int64_t enqueue, int64_t enqueued,
                     int64_t begin, int64_t end) {
    struct orr_timeline_op *op = fixture_op(f, w->name, w->kind);
    op->shape = w->shape;
    op->dtype = ORR_DTYPE_BF16;
    op->bytes_broadcast = w->bytes_broadcast;
    uint64_t id = op->id;
    struct orr_timeline_command *row =
        fixture_row(f, kernel(f, 0, w->name, enqueue, enqueued, begin, end));
    row->op = id;
    row->unit = (uint8_t)w->unit;
    row->dtype = ORR_DTYPE_BF16;
    row->flops = w->flops;
    row->bytes_read = w->bytes_read;
    row->bytes_written = w->bytes_written;
}

/* y = relu(x w + b) with w [4096, 4096] in bf16; each operator costs its host 5 us. Times: the
 * larger of FLOPs at 500 TFLOP/s and bytes at 2 TB/s, rounded half up. */
static void run_layer(struct fixture *f, uint64_t rows, bool fused) {
    const uint64_t n = 4096;
    const char *shape = fixture_text(f, "[%llu, 4096]", (unsigned long long)rows);
    struct work gemm = {
        "matmul",     "gemm", shape, ORR_UNIT_MATRIX, 2 * rows * n * n, 2 * (rows * n + n * n),
        2 * rows * n, 0};
    struct work add = {"add",    "pointwise",  shape,        ORR_UNIT_VECTOR,
                       rows * n, 2 * rows * n, 2 * rows * n, 2 * n};
    struct work relu = {"relu",   "pointwise",  shape,        ORR_UNIT_VECTOR,
                        rows * n, 2 * rows * n, 2 * rows * n, 0};
    int64_t compute = (int64_t)((gemm.flops + 250000) / 500000);
    int64_t move = (int64_t)((gemm.bytes_read + gemm.bytes_written + 1000) / 2000);
    int64_t gemm_ns = compute > move ? compute : move;
    int64_t other_ns = (int64_t)((4 * rows * n + 1000) / 2000), t = 5000;
    run_work(f, &gemm, 0, 5000, t, t + gemm_ns);
    t += gemm_ns;
    run_work(f, &add, 5000, 10000, t, t + other_ns);
    t += other_ns;
    if (!fused) {
        run_work(f, &relu, 10000, 15000, t, t + other_ns);
    }
}

static char *text_of(const struct orr_analysis *a) {
    char *text;
    size_t length;
    assert_int_equal(orr_report_text(a, &text, &length), ORR_OK);
    assert_int_equal(strlen(text), length);
    return text;
}

static void check_says(const char *text, const char *expected) {
    if (!strstr(text, expected)) {
        fail_msg("expected: %s\nin:\n%s", expected, text);
    }
}

static void the_report_states_the_layer_of_4096_rows(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    run_layer(&f, 4096, false);
    struct orr_analysis *a = analyze(&f);
    const struct orr_operator_row *gemm = &a->roofline.rows[0];
    assert_int_equal(gemm->time_ns, 274878);
    assert_true(gemm->flops == 137438953472u);
    assert_true(gemm->bytes_read + gemm->bytes_written == 100663296u);
    assert_int_equal(gemm->bound, ORR_BOUND_COMPUTE);
    assert_int_equal(a->roofline.rows[1].bound, ORR_BOUND_MEMORY);
    assert_int_equal(a->findings.count, 0);
    char *text = text_of(a);
    check_says(text, "verdict: device-bound (compute-bound)");
    check_says(text, "times: modelled");
    check_says(text, "5.00 us  274.88 us  137.44 GFLOP  100.66 MB  1365.33");
    check_says(text, "compute-bound: 1365.33 FLOP/B >= ridge 250.00; 100.00 % of 500.00 TFLOP/s");
    check_says(text, "elementwise 67.11 us = 24.41 % of GEMM 274.88 us");
    check_says(text, "broadcast operands: 8.19 kB, counted apart");
    check_says(text, "residual       0 ns");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

static void fusing_halves_the_elementwise_share(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    run_layer(&f, 4096, true);
    struct orr_analysis *a = analyze(&f);
    char *text = text_of(a);
    check_says(text, "elementwise 33.55 us = 12.21 % of GEMM 274.88 us");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

static void a_layer_of_8_rows_is_bound_by_reading_its_weight(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    run_layer(&f, 8, false);
    struct orr_analysis *a = analyze(&f);
    const struct orr_operator_row *gemm = &a->roofline.rows[0];
    assert_int_equal(gemm->bound, ORR_BOUND_MEMORY);
    assert_int_equal(gemm->weight_bytes, 2 * 4096 * 4096);
    char *text = text_of(a);
    check_says(text, "verdict: device-bound (memory-bound)");
    check_says(text, "reading weight dominates (33.55 MB of 33.69 MB = 99.61 % of its bytes)");
    check_says(text, "host 15.00 us in the calls of 3 ops, against 16.98 us on the device");
    check_says(text,
               "GEMM and elementwise: host 15.00 us for 3 ops, against 16.98 us on the device");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

static void the_four_intervals_of_a_command_are_reported_apart(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t id = kernel(&f, 0, "long", 0, 20000, 20000, 5020000);
    fixture_sync(&f, 0, ORR_SYNC_STREAM, 20000, 5021000, id);
    struct orr_analysis *a = analyze(&f);
    check_parts(a, id, 20000, 0, 0, 0, 5000000);
    char *text = text_of(a);
    check_says(text, "submission  stream-wait  dep-wait  dispatch  service     sync  free at\n"
                     "    1  long       0       0    20.00 us         0 ns      0 ns      0 ns  "
                     "5.00 ms  1.00 us  5.00 ms");
    orr_memory_free(a->memory, text);
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

/* ------------------------------------------------------------------------------------------------
 * Memory, findings, exact */

static uint64_t buffer(struct fixture *f, uint64_t bytes, const char *label, uint64_t alloc,
                       uint64_t free_command) {
    struct orr_timeline_buffer *row = fixture_buffer(f, 0, bytes);
    row->memory = "dev";
    row->label = label;
    row->alloc_cmd = alloc;
    row->free_cmd = free_command;
    return row->id;
}

static void peak_memory_is_the_largest_sum_of_live_buffers(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    for (int i = 0; i < 8; i++) {
        command(&f, i % 2 ? ORR_COMMAND_FREE : ORR_COMMAND_ALLOC, 0, "m", i, i + 1, i + 1, i + 1);
    }
    buffer(&f, 100, "weight", 1, 0);
    buffer(&f, 500, "activation", 3, 4); /* 600 */
    buffer(&f, 450, "gradient", 5, 8);
    buffer(&f, 300, "activation", 7, 0); /* 850: the peak; then the gradient goes */
    struct orr_analysis *a = analyze(&f);
    const struct orr_memory_peak *peak = &a->peaks.items[0];
    assert_int_equal(peak->peak_bytes, 850);
    assert_int_equal(peak->capacity_bytes, 1000000);
    assert_int_equal(peak->live_at_end, 400);
    assert_int_equal(peak->allocations, 4);
    assert_int_equal(peak->top_count, 3);
    assert_string_equal(peak->top[0].label, "gradient");
    assert_string_equal(peak->top[1].label, "activation");
    assert_int_equal(peak->top[1].bytes, 300);
    finish(&f, &a);
}

static void the_runtimes_own_counter_of_memory_wins(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    command(&f, ORR_COMMAND_ALLOC, 0, "m", 0, 1, 1, 1);
    buffer(&f, 100, "x", 1, 0);
    fixture_counter(&f, 0, "memory bytes", 1, 512);
    fixture_counter(&f, 0, "memory bytes", 5, 0);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->peaks.items[0].peak_bytes, 512);
    assert_int_equal(a->peaks.items[0].buffer_peak_bytes, 100);
    assert_int_equal(a->peaks.items[1].peak_bytes, 0);
    finish(&f, &a);
}

static void findings_of_the_trace_come_first(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    fixture_meta(&f, "dropped", "12");
    kernel(&f, 0, "a", 0, 10, 20, 100);
    fixture_finding(&f, "missing_wait", "error", 1, 1)->message = "a race";
    struct orr_analysis *a = analyze(&f);
    assert_string_equal(a->findings.items[0].kind, "missing_wait");
    assert_string_equal(a->findings.items[0].message, "a race");
    assert_int_equal(a->findings.items[0].cmd_a, 1);
    assert_true(has_finding(a, "dropped_records", "warning"));
    finish(&f, &a);
}

static void exact_figures_count_by_kind(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "gemm", 0, 10, 20, 100);
    kernel(&f, 0, "gemm", 10, 20, 100, 150);
    kernel(&f, 0, "relu", 20, 30, 150, 150);
    command(&f, ORR_COMMAND_COLLECTIVE, 2, "all_reduce", 30, 40, 50, 120);
    fixture_row(&f, command(&f, ORR_COMMAND_COPY, 2, "copy", 40, 50, 120, 130))->bytes_written =
        4096;
    command(&f, ORR_COMMAND_FILL, 2, "fill", 50, 60, 130, 140);
    command(&f, ORR_COMMAND_RECORD, 2, "record", 60, 61, 140, 140);
    struct orr_analysis *a = analyze(&f);
    const struct orr_exact *e = &a->exact;
    assert_int_equal(e->gpu_ops, 6);
    assert_int_equal(e->kernels, 4);
    assert_int_equal(e->memcpys, 1);
    assert_int_equal(e->memsets, 1);
    assert_int_equal(e->memcpy_bytes, 4096);
    assert_int_equal(e->zero_len_ops, 1);
    assert_int_equal(e->top_count, 3);
    assert_string_equal(e->top_kernels[0].name, "gemm");
    assert_int_equal(e->top_kernels[0].sum_ns, 130);
    assert_int_equal(e->top_kernels[0].min_ns, 50);
    assert_string_equal(e->top_kernels[1].name, "all_reduce");
    assert_string_equal(e->top_kernels[2].name, "relu");
    assert_int_equal(a->events.source.api_calls, 7);
    finish(&f, &a);
}

static void a_trace_without_ops_is_reported_not_refused(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->events.op_count, 0);
    assert_int_equal(a->begin_ns, a->end_ns);
    assert_true(has_finding(a, "no_ops", "warning"));
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_IDLE);
    char *text = text_of(a);
    check_says(text, "verdict: unknown: the trace has no device op\n");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

static void a_window_that_ends_before_it_begins_is_refused(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    kernel(&f, 0, "a", 0, 10, 20, 100);
    struct orr_memory memory = orr_memory_system();
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    options.begin_ns = 200;
    assert_int_equal(orr_analyze(fixture_timeline(&f), &options, &memory, &analysis, &error),
                     ORR_INVALID);
    assert_null(analysis);
    assert_non_null(strstr(error.text, "from 200 to 100 ns"));
    fixture_free(&f);
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
        cmocka_unit_test(the_window_of_all_devices_is_one_and_conserved),
        cmocka_unit_test(communication_beside_computation_is_overlap_not_exposed),
        cmocka_unit_test(a_long_unexplained_wait_is_unknown_never_host),
        cmocka_unit_test(idle_time_inside_streams_has_its_own_classes),
        cmocka_unit_test(small_kernels_at_the_pace_of_their_launches_are_launch_bound),
        cmocka_unit_test(too_few_gaps_are_unknown_not_launch_bound),
        cmocka_unit_test(a_host_that_stalls_between_bursts_is_not_launch_bound),
        cmocka_unit_test(a_wait_between_two_launches_is_out_of_reach_for_a_graph),
        cmocka_unit_test(phases_follow_what_dominates_and_add_up),
        cmocka_unit_test(of_equal_groups_a_phase_has_the_first),
        cmocka_unit_test(the_report_states_the_layer_of_4096_rows),
        cmocka_unit_test(fusing_halves_the_elementwise_share),
        cmocka_unit_test(a_layer_of_8_rows_is_bound_by_reading_its_weight),
        cmocka_unit_test(the_four_intervals_of_a_command_are_reported_apart),
        cmocka_unit_test(a_member_waits_for_its_own_stream_only),
        cmocka_unit_test(a_member_that_starts_with_the_last_one_says_so_with_its_ready_time),
        cmocka_unit_test(members_that_start_apart_wait_inside_the_collective),
        cmocka_unit_test(bus_bandwidth_counts_what_the_links_carry),
        cmocka_unit_test(peak_memory_is_the_largest_sum_of_live_buffers),
        cmocka_unit_test(the_runtimes_own_counter_of_memory_wins),
        cmocka_unit_test(findings_of_the_trace_come_first),
        cmocka_unit_test(exact_figures_count_by_kind),
        cmocka_unit_test(a_trace_without_ops_is_reported_not_refused),
        cmocka_unit_test(a_window_that_ends_before_it_begins_is_refused),
    };
    return cmocka_run_group_tests_name("analyzer", tests, NULL, NULL);
}
