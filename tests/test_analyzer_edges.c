/* One small trace with everything that real traces of other tools do wrong or oddly, and its exact
 * figures, computed by two other implementations: a stream wait that costs time, a start before the
 * launch, a lost and a negative record, an op of no length, overlap on one stream, two API records
 * on one correlation, graph launches with three nodes and with none, a blocking copy, a buffer
 * flush inside a gap, a long unexplained wait, two devices fed by two threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "tests/analyzer_model.h"
#include "tests/support.h"

static const struct {
    int64_t begin, end;
    const char *name;
} calls[] = {
    {500, 1500, "cudaLaunchKernel"},
    {4000, 4800, "cudaLaunchKernel"},
    {5000, 5600, "cudaLaunchKernel"},
    {6000, 7000, "cudaMemcpyAsync"},
    {7200, 8200, "cudaLaunchKernelExC"},
    {8300, 8400, "cudaEventRecord"},
    {8500, 8600, "cudaStreamWaitEvent"},
    {8700, 9200, "cudaLaunchKernel"},
    {20000, 20500, "cudaLaunchKernel"},
    {20600, 21600, "cudaLaunchKernel"},
    {22500, 24500, "cudaDeviceSynchronize"},
    {25000, 25800, "cudaLaunchKernel"},
    {26500, 28500, "cudaGraphLaunch"},
    {28600, 29600, "cudaGraphLaunch"},
    {30000, 30500, "cudaLaunchKernel"},
    {183000, 184000, "cudaLaunchKernel"}, /* two records */
    {186000, 190000, "cudaMemcpy"},
    {2000, 3000, "cudaLaunchKernel"}, /* the other thread */
    {190500, 191000, "cudaLaunchKernel"},
};

enum { NO_CALL = -1, TWO_RECORDS = 15, OTHER_THREAD = 17 };

static const struct {
    int64_t start, end;
    int call;
    uint32_t stream;
    const char *name;
} ops[] = {
    {1000, 3000, NO_CALL, 0, "gemm_unlinked"},
    {3000, 5000, 0, 0, "gemm_a"},
    {5500, 7500, 1, 0, "gemm_a"},
    {7000, 9000, 2, 0, "gemm_b"},
    {8000, 12000, 3, 1, "Memcpy HtoD (Pinned -> Device)"},
    {10000, 14000, 4, 2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
    {15000, 16000, 7, 0, "gemm_a"},
    {19000, 19500, 8, 0, "early"},
    {22000, 22000, 9, 0, "tiny"},
    {26000, 27000, 11, 0, "gemm_b"},
    {29000, 30000, 12, 0, "node_0"},
    {30010, 31010, 12, 0, "node_1"},
    {31040, 32040, 12, 0, "node_2"},
    {182040, 183040, 14, 0, "late"},
    {184500, 185500, 15, 0, "triton_poi"},
    {189000, 189500, 16, 0, "Memcpy DtoH (Device -> Pageable)"},
    {0, 0, NO_CALL, 0, "lost"},
    {50000, 49000, NO_CALL, 0, "backwards"},
    {3500, 4500, 17, 3, "gemm_a"},
    {191000, 192000, 18, 0, "gemm_b"},
};

static void build(struct model *model, const struct orr_memory *memory) {
    model_init(model, memory);
    uint32_t first = model_device(model), second = model_device(model);
    for (int s = 0; s < 3; s++) {
        model_stream(model, first);
    }
    model_stream(model, second);
    model_thread(model, 0, "100/100");
    model_thread(model, 0, "100/101");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        model_call(model, i == OTHER_THREAD, calls[i].begin, calls[i].end, calls[i].name);
    }
    model->events.calls[TWO_RECORDS].records = 2;
    model->events.source.api_calls++;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        model_op(model, ops[i].stream,
                 ops[i].call == NO_CALL ? ORR_EVENTS_NONE : (uint32_t)ops[i].call, ops[i].start,
                 ops[i].end, ops[i].name);
    }
    model_overhead(model, 0, 23000, 23600);
    model_wait(model, 0, 8500, 1, 8300);
}

struct edges {
    struct orr_memory memory;
    struct model model;
    struct orr_analysis *analysis;
};

static int set_up(void **state) {
    static struct edges edges;
    edges.memory = orr_memory_system();
    build(&edges.model, &edges.memory);
    edges.analysis = model_analyze(&edges.model, NULL);
    *state = &edges;
    return 0;
}

static int tear_down(void **state) {
    struct edges *edges = *state;
    model_done(&edges->model, &edges->analysis);
    return 0;
}

static const struct orr_analysis *analysis_of(void **state) {
    return ((struct edges *)*state)->analysis;
}

static void counts_are_exact(void **state) {
    const struct orr_analysis *a = analysis_of(state);
    assert_int_equal(a->exact.gpu_ops, 18);
    assert_int_equal(a->exact.kernels, 16);
    assert_int_equal(a->exact.memcpys, 2);
    assert_int_equal(a->events.source.bad_ops, 2);
    assert_int_equal(a->exact.zero_len_ops, 1);
    assert_int_equal(a->idle_streams.streams, 4);
    assert_int_equal(a->events.source.api_calls, 20);
    assert_int_equal(a->split.linked, 17);
    assert_int_equal(a->split.unlinked, 1);
    assert_int_equal(a->exact.ops_multi_api, 1);
    assert_int_equal(a->exact.fanout_corrs, 1);
    assert_int_equal(a->exact.max_ops_per_corr, 3);
    assert_int_equal(a->exact.graph_launches, 2);
    assert_int_equal(a->exact.graph_launches_no_op, 1);
    assert_int_equal(a->exact.graph_ops, 3);
    assert_string_equal(a->exact.top_kernels[0].name, "gemm_a");
    assert_int_equal(a->exact.top_kernels[0].sum_ns, 6000);
    assert_string_equal(a->exact.top_kernels[1].name, "gemm_b");
}

static void clock_and_order_violations_are_exact(void **state) {
    const struct orr_analysis *a = analysis_of(state);
    assert_int_equal(a->split.early, 1);
    assert_int_equal(a->split.early_max_ns, 1000);
    assert_int_equal(a->split.during, 1);
    assert_int_equal(a->split.overlaps, 1);
    assert_int_equal(a->split.overlap_max_ns, 500);
    assert_int_equal(a->split.dep_violations, 0);
    assert_int_equal(a->split.call_ns_once, 16200);
    assert_int_equal(a->split.call_ns_per_op, 19700);
}

static void the_split_is_exact(void **state) {
    const struct orr_split *s = &analysis_of(state)->split;
    assert_int_equal(s->ops, 16);
    assert_int_equal(s->submit_ns, 18700);
    assert_int_equal(s->stream_wait_ns, 8650);
    assert_int_equal(s->dep_wait_ns, 2800);
    assert_int_equal(s->dispatch_ns, 158440);
    assert_int_equal(s->device_ns, 23500);
    assert_int_equal(s->total_ns, 212090);
}

static void idle_time_by_stream_is_exact(void **state) {
    const struct orr_idle_streams *idle = &analysis_of(state)->idle_streams;
    assert_int_equal(idle->ns[ORR_STREAM_IDLE_HOST], 14500);
    assert_int_equal(idle->ns[ORR_STREAM_IDLE_QUEUED], 159990);
    assert_int_equal(idle->ns[ORR_STREAM_IDLE_SHORT], 10);
    assert_int_equal(idle->counts[ORR_STREAM_IDLE_HOST], 5);
    assert_int_equal(idle->counts[ORR_STREAM_IDLE_QUEUED], 6);
    assert_int_equal(idle->counts[ORR_STREAM_IDLE_SHORT], 1);
}

static void classes_of_the_first_device_are_exact(void **state) {
    static const int64_t expected[ORR_CLASS_COUNT] = {
        [ORR_CLASS_COMPUTE] = 16000,       [ORR_CLASS_EXPOSED_COMM] = 4000,
        [ORR_CLASS_EXPOSED_COPY] = 1500,   [ORR_CLASS_PROFILER_OVERHEAD] = 600,
        [ORR_CLASS_HOST_SYNC] = 1900,      [ORR_CLASS_HOST_LAUNCH] = 8260,
        [ORR_CLASS_HOST_OTHER] = 2600,     [ORR_CLASS_DISPATCH] = 3140,
        [ORR_CLASS_UNKNOWN_WAIT] = 150000, [ORR_CLASS_UNKNOWN_CLOCK] = 3000};
    const struct orr_device_times *t = &analysis_of(state)->devices[0].times;
    assert_memory_equal(t->classes, expected, sizeof expected);
    assert_int_equal(t->span_ns, 191000);
    assert_int_equal(t->busy_ns, 21500);
    assert_int_equal(t->copy_ns, 4500);
    assert_int_equal(t->gaps, 12);
    assert_int_equal(t->gaps_host, 6);
}

static void launch_terms_of_the_first_device_are_exact(void **state) {
    const struct orr_device_report *d = &analysis_of(state)->devices[0];
    assert_int_equal(d->launch.calls, 14);
    assert_int_equal(d->launch.sum_ns, 15200);
    assert_int_equal(d->launch.median_ns, 800);
    assert_int_equal(d->launch.p95_ns, 4000);
    assert_int_equal(d->launch.feed_calls, 14);
    assert_int_equal(d->whole.launch_period_ns, 3000);
    assert_int_equal(d->whole.feed_gaps, 6);
    assert_int_equal(d->whole.gap_period_ns, 4000);
    assert_int_equal(d->launch.graph_gaps, 4);
    assert_int_equal(d->launch.graph_gap_ns, 6460);
    assert_int_equal(d->whole.bound, ORR_ANSWER_NO);
    assert_int_equal(d->verdict, ORR_VERDICT_UNRELIABLE);
}

static void the_second_device_is_fed_by_the_other_thread(void **state) {
    const struct orr_device_report *d = &analysis_of(state)->devices[1];
    assert_int_equal(d->times.ops, 1);
    assert_int_equal(d->times.span_ns, 1000);
    assert_int_equal(d->times.gaps, 0);
    assert_int_equal(d->launch.calls, 1);
    assert_int_equal(d->launch.thread, 1);
    assert_false(d->whole.has_launch_period);
    assert_int_equal(d->whole.bound, ORR_ANSWER_NO);
    assert_int_equal(d->classes[ORR_CLASS_BEFORE_FIRST], 2500);
    assert_int_equal(d->classes[ORR_CLASS_AFTER_LAST], 187500);
}

/* ------------------------------------------------------------------------------------------------
 * Every allocation of an analysis and its reports fails once */

static void analyze_and_report(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_memory system = orr_memory_system();
    struct model model;
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis = NULL;
    struct orr_error error = {0};
    build(&model, &system); /* filled with memory that does not fail */
    struct orr_events events;
    orr_events_init(&events, &memory->table);
    enum orr_status status = ORR_OK;
    const struct orr_events *from = &model.events;
    for (size_t i = 0; i < from->device_count && status == ORR_OK; i++) {
        status = orr_events_add_device(&events, &from->devices[i], NULL);
    }
    for (size_t i = 0; i < from->stream_count && status == ORR_OK; i++) {
        status = orr_events_add_stream(&events, &from->streams[i], NULL);
    }
    for (size_t i = 0; i < from->thread_count && status == ORR_OK; i++) {
        status = orr_events_add_thread(&events, &from->threads[i], NULL);
    }
    for (size_t i = 0; i < from->call_count && status == ORR_OK; i++) {
        status = orr_events_add_call(&events, &from->calls[i], NULL);
    }
    for (size_t i = 0; i < from->operator_count && status == ORR_OK; i++) {
        status = orr_events_add_operator(&events, &from->operators[i], NULL);
    }
    for (size_t i = 0; i < from->op_count && status == ORR_OK; i++) {
        status = orr_events_add_op(&events, &from->ops[i], NULL);
    }
    for (size_t i = 0; i < from->wait_count && status == ORR_OK; i++) {
        status = orr_events_add_wait(&events, &from->waits[i], NULL);
    }
    for (size_t i = 0; i < from->overhead_count && status == ORR_OK; i++) {
        status = orr_events_add_overhead(&events, &from->overheads[i], NULL);
    }
    if (status == ORR_OK) {
        status = orr_events_prepare(&events, &error);
    }
    if (status == ORR_OK) {
        status = orr_analyze_events(&events, &options, &memory->table, &analysis, &error);
        assert_true((status == ORR_OK) == (analysis != NULL));
    }
    char *text = NULL;
    size_t length;
    if (status == ORR_OK) {
        status = orr_report_json(analysis, &text, &length);
        orr_memory_free(&memory->table, text);
    }
    if (status == ORR_OK) {
        status = orr_report_text(analysis, &text, &length);
        orr_memory_free(&memory->table, text);
    }
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    orr_analysis_destroy(&analysis);
    orr_events_free(&events);
    orr_events_free(&model.events);
}

static void a_failed_allocation_leaks_nothing(void **state) {
    (void)state;
    size_t requests = fail_each_request(analyze_and_report, NULL);
    assert_true(requests > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clock_and_order_violations_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_split_is_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_time_by_stream_is_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(classes_of_the_first_device_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(launch_terms_of_the_first_device_are_exact, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_second_device_is_fed_by_the_other_thread, set_up,
                                        tear_down),
        cmocka_unit_test(a_failed_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests_name("analyzer, an odd trace", tests, NULL, NULL);
}
