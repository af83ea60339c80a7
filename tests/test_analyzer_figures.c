/* The analyzer on our own timelines, built by hand, with the exact figures of each definition: of
 * devices, launches, phases, operators, memory and findings. */
#include "tests/analyzer_fixture.h"

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
        cmocka_unit_test(peak_memory_is_the_largest_sum_of_live_buffers),
        cmocka_unit_test(the_runtimes_own_counter_of_memory_wins),
        cmocka_unit_test(findings_of_the_trace_come_first),
        cmocka_unit_test(exact_figures_count_by_kind),
        cmocka_unit_test(a_trace_without_ops_is_reported_not_refused),
        cmocka_unit_test(a_window_that_ends_before_it_begins_is_refused),
    };
    return cmocka_run_group_tests_name("analyzer figures", tests, NULL, NULL);
}
