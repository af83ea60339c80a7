/* Annotations, operators of a framework, queues and memory over time, on timelines by hand and at
 * random. */
#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "tests/annotated_fixture.h"
#include "tests/random_numbers.h"

struct trace {
    struct annotated t;
    struct orr_analysis *a;
};

/* Two devices with two streams each (ids 0, 1 and 2, 3), four threads. */
static void start(struct trace *t) {
    t->a = NULL;
    annotated_start(&t->t);
    t->t.f.timeline.source.format = "kineto";
    for (unsigned d = 0; d < 2; d++) {
        uint32_t device = fixture_device(&t->t.f, "made", "gpu");
        t->t.f.timeline.devices[device].bandwidth = 1000000000000; /* 1000 B/ns */
        t->t.f.timeline.devices[device].peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] = 100000000000000;
        t->t.f.timeline.devices[device].multiprocessors = 100;
        fixture_stream(&t->t.f, device, "7", ORR_STREAM_COMPUTE);
        fixture_stream(&t->t.f, device, "8", ORR_STREAM_COMPUTE);
    }
}

/* A kernel with its call of `host`; no call for host ORR_ID_NONE. Returns the command's id. */
static uint64_t kernel(struct trace *t, uint32_t host, int64_t call, uint32_t stream,
                       const char *name, int64_t begin, int64_t end) {
    struct orr_timeline_command *c =
        fixture_command(&t->t.f, ORR_COMMAND_KERNEL, stream, name, begin, end);
    uint64_t id = c->id;
    if (host != ORR_ID_NONE) {
        uint64_t made = annotated_call(&t->t, host, "cudaLaunchKernel", call, call + 5);
        c->call = made;
        c->correlation = made;
        fixture_enqueue(&t->t.f, id, host, call, call + 5);
    }
    return id;
}

static void analyze_with(struct trace *t, const struct orr_analysis_options *options) {
    struct orr_error error = {0};
    enum orr_status status =
        orr_analyze(fixture_timeline(&t->t.f), options, &t->t.f.memory, &t->a, &error);
    if (status != ORR_OK) {
        fail_msg("%s", error.text);
    }
}

static void analyze(struct trace *t) {
    struct orr_analysis_options options = orr_analysis_options_default();
    analyze_with(t, &options);
}

static void finish(struct trace *t) {
    orr_analysis_destroy(&t->a);
    annotated_finish(&t->t);
}

/* ------------------------------------------------------------------------------------------------
 * Annotations */

static const struct orr_annotation *find(const struct trace *t, const char *name,
                                         const char *parent) {
    const struct orr_annotations *all = &t->a->explain.annotations;
    for (size_t i = 0; i < all->count; i++) {
        const struct orr_annotation *a = &all->items[i];
        const struct orr_annotation *p =
            a->parent == ORR_EVENTS_NONE ? NULL : &all->items[a->parent];
        if (a->name_length == strlen(name) && memcmp(a->name, name, a->name_length) == 0 && p &&
            p->name_length == strlen(parent) && memcmp(p->name, parent, p->name_length) == 0) {
            return a;
        }
    }
    fail_msg("no annotation %s / %s", parent, name);
    return NULL;
}

static void ops_belong_to_the_annotations_around_their_calls(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    annotated_slice(&t.t, 0, "ProfilerStep#1", 0, 1000);
    annotated_slice(&t.t, 0, "forward", 10, 500);
    annotated_slice(&t.t, 0, "layer 0", 20, 100);
    annotated_slice(&t.t, 0, "layer 1", 100, 200); /* begins as the other one ends */
    annotated_slice(&t.t, 1, "elsewhere", 0, 1000);
    kernel(&t, 0, 15, 0, "k", 100, 110);
    kernel(&t, 0, 30, 0, "k", 110, 150);
    kernel(&t, 0, 40, 1, "k", 130, 170); /* overlaps: the union is 60 */
    kernel(&t, 0, 100, 0, "k", 170, 200);
    kernel(&t, 0, 600, 0, "k", 700, 750);         /* outside all but the step */
    kernel(&t, 2, 50, 0, "k", 750, 760);          /* a thread without annotations */
    kernel(&t, ORR_ID_NONE, 0, 0, "k", 800, 810); /* unlinked */
    analyze(&t);
    const struct orr_annotations *all = &t.a->explain.annotations;
    const struct orr_annotation *forward = find(&t, "forward", ""),
                                *zero = find(&t, "layer 0", "forward");
    assert_int_equal(forward->ops, 4);
    assert_int_equal(forward->self_ops, 1);
    assert_int_equal(forward->total_ns, 100);
    assert_int_equal(forward->self_ns, 10);
    assert_int_equal(forward->count, 1);
    assert_int_equal(zero->total_ns, 60);
    assert_int_equal(zero->self_ns, 60);
    assert_int_equal(find(&t, "layer 1", "forward")->total_ns, 30);
    assert_int_equal(find(&t, "elsewhere", "")->ops, 0);
    assert_int_equal(all->items[0].ops, 7);
    assert_int_equal(all->items[0].self_ops, 3);
    assert_int_equal(all->items[0].total_ns, 170);
    assert_int_equal(all->count, 5); /* the step is none */
    /* gaps: 200 to 700 ends in an op of no annotation, 760 to 800 in one without a call */
    assert_int_equal(forward->idle[ORR_CLASS_HOST_OTHER], 0);
    assert_int_equal(
        all->items[0].idle[ORR_CLASS_HOST_OTHER] + all->items[0].idle[ORR_CLASS_HOST_LAUNCH] +
            all->items[0].idle[ORR_CLASS_DISPATCH] + all->items[0].idle[ORR_CLASS_UNKNOWN_UNLINKED],
        540);
    finish(&t);
}

static void communication_is_exposed_where_nothing_computes(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    annotated_slice(&t.t, 0, "sync", 0, 50);
    annotated_slice(&t.t, 0, "compute", 50, 90);
    kernel(&t, 0, 10, 1, "ncclDevKernel_AllReduce", 100, 200);
    kernel(&t, 0, 20, 1, "ncclDevKernel_AllReduce", 150, 260);
    kernel(&t, 0, 60, 0, "gemm", 120, 180);
    analyze(&t);
    assert_int_equal(find(&t, "sync", "")->total_ns, 160);
    assert_int_equal(find(&t, "sync", "")->exposed_comm_ns, 100);
    assert_int_equal(find(&t, "compute", "")->exposed_comm_ns, 0);
    assert_int_equal(t.a->explain.annotations.items[0].exposed_comm_ns,
                     t.a->devices[0].classes[ORR_CLASS_EXPOSED_COMM]);
    finish(&t);
}

static void names_of_operators_lose_their_numbers_and_modules_count(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    annotated_slice(&t.t, 0, "aten::mm, op_id = 17", 0, 10);
    annotated_slice(&t.t, 0, "aten::mm, seq = 3, op_id = 18", 10, 20);
    annotated_slice(&t.t, 0, "nn.Module: Linear_0", 20, 30)->kind = ORR_SLICE_FUNCTION;
    annotated_slice(&t.t, 0, "model.py(12): forward", 20, 30)->kind = ORR_SLICE_FUNCTION;
    annotated_slice(&t.t, 0, "aten::linear", 20, 30)->kind = ORR_SLICE_OPERATOR;
    annotated_slice(&t.t, 0, "empty", 20, 20);
    annotated_slice(&t.t, 0, "backwards", 30, 20);
    kernel(&t, 0, 1, 0, "k", 100, 101);
    kernel(&t, 0, 11, 0, "k", 101, 103);
    kernel(&t, 0, 21, 0, "k", 103, 106);
    analyze(&t);
    assert_int_equal(t.a->explain.annotations.count, 3);
    assert_int_equal(find(&t, "aten::mm", "")->count, 2);
    assert_int_equal(find(&t, "aten::mm", "")->total_ns, 3);
    assert_int_equal(find(&t, "nn.Module: Linear_0", "")->total_ns, 3);
    finish(&t);
}

static void operators_stand_for_annotations_where_there_are_none(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    annotated_slice(&t.t, 0, "ProfilerStep#1", 0, 100); /* a step is no annotation */
    annotated_slice(&t.t, 0, "aten::linear", 10, 30)->kind = ORR_SLICE_OPERATOR;
    annotated_slice(&t.t, 0, "aten::mm", 12, 28)->kind = ORR_SLICE_OPERATOR;
    kernel(&t, 0, 15, 0, "k", 100, 110);
    analyze(&t);
    assert_true(t.a->explain.annotations.by_operator);
    assert_int_equal(find(&t, "aten::mm", "aten::linear")->self_ns, 10);
    finish(&t);
}

static void a_window_cuts_what_it_cuts(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    annotated_slice(&t.t, 0, "a", 0, 50);
    kernel(&t, 0, 10, 0, "k", 100, 200);
    kernel(&t, 0, 20, 0, "k", 250, 300);
    struct orr_analysis_options options = orr_analysis_options_default();
    options.begin_ns = 150;
    options.end_ns = 220;
    analyze_with(&t, &options);
    assert_int_equal(find(&t, "a", "")->total_ns, 50);
    assert_int_equal(find(&t, "a", "")->ops, 1);
    assert_int_equal(find(&t, "a", "")->idle[ORR_CLASS_DISPATCH], 20);
    finish(&t);
}

static void our_own_traces_go_by_the_line_of_the_program(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    t.t.f.timeline.source.format = "orrery";
    struct orr_timeline_op *op = fixture_op(&t.t.f, "mul", "pointwise");
    op->site = "model.lua:7";
    uint64_t with_op = kernel(&t, 0, 10, 0, "k", 100, 110);
    fixture_row(&t.t.f, with_op)->op = 1;
    fixture_row(&t.t.f, with_op)->site = "";
    fixture_row(&t.t.f, kernel(&t, 0, 20, 0, "k", 110, 130))->site = "model.lua:9";
    analyze(&t);
    assert_true(t.a->explain.annotations.by_site);
    assert_int_equal(find(&t, "model.lua:7", "")->total_ns, 10);
    assert_int_equal(find(&t, "model.lua:9", "")->total_ns, 20);
    assert_int_equal(t.a->explain.framework.row_count, 0);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * Operators of a framework */

static uint64_t framework_op(struct trace *t, const char *name, const char *inputs) {
    struct orr_timeline_op *op = fixture_op(&t->t.f, name, "cpu_op");
    op->shape = inputs;
    op->dtype = ORR_DTYPE_BF16;
    return op->id;
}

static void an_operators_cost_is_charged_to_its_kernels_together(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    static const char inputs[] = "bf16[1000, 1000], bf16[1000, 1000]";
    /* 2e9 FLOP at 1e14/s: 20,000 ns at the peak; 6e6 bytes at 1000 B/ns: 6,000 ns */
    for (int i = 0; i < 2; i++) {
        uint64_t op = framework_op(&t, "aten::mm", inputs);
        uint64_t one = kernel(&t, 0, 100000 * i, 0, "split", 100000 * i + 10, 100000 * i + 15010);
        uint64_t two =
            kernel(&t, 0, 100000 * i + 10, 1, "sum", 100000 * i + 10010, 100000 * i + 25010);
        fixture_row(&t.t.f, one)->op = op;
        fixture_row(&t.t.f, two)->op = op;
        fixture_row(&t.t.f, one)->grid = "[10, 2, 1] x [128, 1, 1]";
    }
    uint64_t odd = framework_op(&t, "aten::unheard_of", inputs);
    fixture_row(&t.t.f, kernel(&t, 0, 300000, 0, "odd", 300010, 300020))->op = odd;
    kernel(&t, 0, 400000, 0, "alone", 400010, 400020);
    analyze(&t);
    const struct orr_framework *f = &t.a->explain.framework;
    assert_int_equal(f->row_count, 2);
    assert_int_equal(f->kernels, 5);
    assert_int_equal(f->other_kernels, 1);
    const struct orr_framework_row *row = &f->rows[0];
    assert_string_equal(row->name, "aten::mm");
    assert_int_equal(row->count, 2);
    assert_int_equal(row->kernels, 4);
    assert_int_equal(row->time_ns, 50000); /* unions of 25,000 */
    assert_int_equal(row->min_ns, 25000);
    assert_true(row->has_cost);
    assert_true(row->flops == 4000000000u);
    assert_int_equal(row->bound, ORR_BOUND_COMPUTE); /* 80 % of the peak */
    assert_int_equal(row->blocks, 20);
    assert_false(f->rows[1].has_cost);
    assert_string_not_equal(f->rows[1].why, "");
    assert_int_equal(f->costed_ns, 50000);
    /* phases see it: most of the busy time is compute-bound */
    assert_int_equal(t.a->devices[0].busy_groups[ORR_BUSY_COMPUTE_BOUND], 50000);
    assert_int_equal(t.a->devices[0].busy_groups[ORR_BUSY_NO_COST], 20);
    finish(&t);
}

static void tf32_is_compared_with_its_own_peak(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    t.t.f.timeline.devices[0].peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 10000000000000;
    uint64_t op = framework_op(&t, "aten::mm", "f32[100, 100], f32[100, 100]");
    fixture_row(&t.t.f, kernel(&t, 0, 0, 0, "ampere_sgemm_128", 10, 20))->op = op;
    op = framework_op(&t, "aten::mm", "f32[100, 100], f32[100, 100]");
    fixture_row(&t.t.f, kernel(&t, 0, 20, 0, "cutlass_tensorop_s1688gemm_TF32", 30, 45))->op = op;
    analyze(&t);
    const struct orr_framework *f = &t.a->explain.framework;
    assert_int_equal(f->row_count, 2);
    assert_true(f->rows[0].tf32);
    assert_true(f->rows[0].peak == 0);
    assert_int_equal(f->rows[0].bound, ORR_BOUND_NO_COST);
    assert_true(f->rows[1].peak == 10000000000000);
    orr_analysis_destroy(&t.a);
    struct orr_analysis_options options = orr_analysis_options_default();
    options.peaks.flops[ORR_UNIT_MATRIX][ORR_DTYPE_F32] = 156000000000000;
    analyze_with(&t, &options);
    assert_true(t.a->explain.framework.rows[0].peak == 156000000000000);
    assert_int_not_equal(t.a->explain.framework.rows[0].bound, ORR_BOUND_NO_COST);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * Queues and memory */

static void depth_is_what_was_given_and_has_not_begun(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    kernel(&t, ORR_ID_NONE, 0, 0, "before", 100, 110); /* queued before the trace */
    kernel(&t, ORR_ID_NONE, 0, 0, "before", 120, 130);
    kernel(&t, 0, 105, 0, "k", 140, 150);
    kernel(&t, 0, 110, 0, "k", 180, 190);
    kernel(&t, 0, 170, 0, "early", 160, 165); /* starts before its call: left out */
    kernel(&t, 0, 200, 0, "k", 220, 230);
    analyze(&t);
    const struct orr_queue *q = &t.a->explain.queues.items[0];
    /* 100-105: 1, -110: 2, -120: 3, -140: 2, -180: 1, -200: 0, -220: 1 */
    assert_int_equal(q->begin_ns, 100);
    assert_int_equal(q->end_ns, 220);
    assert_int_equal(q->linked, 3);
    assert_int_equal(q->initial, 2);
    assert_int_equal(q->left_out, 1);
    assert_int_equal(q->max, 3);
    assert_true(q->area == 5 + 10 + 30 + 40 + 40 + 0 + 20);
    assert_int_equal(q->empty_ns, 20);
    assert_int_equal(q->p50, 1); /* 85 of 120 ns at 1 or below */
    assert_int_equal(q->p95, 3); /* 110 of 120 at 2 or below */
    assert_int_equal(q->cells, 120);
    assert_int_equal(q->cell_max[4], 1);
    assert_int_equal(q->cell_max[5], 2);
    assert_int_equal(q->cell_max[119], 1);
    assert_int_equal(t.a->explain.queues.items[1].max, 0);
    finish(&t);
}

static void memory_over_time_keeps_peaks_and_what_holds(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    fixture_counter(&t.t.f, 0, "memory bytes", 1000, 10);
    fixture_counter(&t.t.f, 0, "memory bytes", 1001, 90);
    fixture_counter(&t.t.f, 0, "memory bytes", 1002, 20);
    fixture_counter(&t.t.f, 0, "memory bytes", 1000 + 2559, 30);
    fixture_counter(&t.t.f, 0, "memory bytes", 1500, -5); /* no byte count */
    fixture_counter(&t.t.f, 0, "reserved bytes", 1000, 100);
    fixture_counter(&t.t.f, 1, "temperature", 1000, 50);
    kernel(&t, 0, 0, 0, "k", 10, 20);
    analyze(&t);
    const struct orr_memory_timeline *all = &t.a->explain.memory;
    assert_int_equal(all->count, 2);
    const struct orr_memory_series *m = &all->items[0];
    assert_string_equal(m->counter, "memory bytes");
    assert_int_equal(m->samples, 4);
    assert_int_equal(m->peak, 90);
    assert_int_equal(m->peak_ns, 1001);
    assert_int_equal(m->last, 30);
    assert_int_equal(m->cell_ns, 10);
    assert_int_equal(m->cells, 256);
    assert_int_equal(m->cell_max[0], 90);
    assert_int_equal(m->cell_last[0], 20);
    assert_int_equal(m->cell_max[1], 20);
    assert_int_equal(m->cell_max[255], 30);
    assert_int_equal(all->items[1].cells, 1);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * At random */

static void random_trace(struct trace *t, uint64_t *random) {
    static const char *const names[] = {"a",    "b", "step 1", "step 2", "layer, op_id = 3",
                                        "nccl", ""};
    static const char *const operators[][2] = {{"aten::mm", "bf16[8, 8], bf16[8, 8]"},
                                               {"aten::add", "bf16[64], bf16[64], 1"},
                                               {"aten::odd", "?[3"}};
    start(t);
    for (unsigned i = 0, n = (unsigned)random_below(random, 60); i < n; i++) {
        int64_t begin = (int64_t)random_below(random, 1000) - 20;
        struct orr_timeline_slice *s = annotated_slice(
            &t->t, (uint32_t)random_below(random, 5), names[random_below(random, 7)], begin,
            begin + (int64_t)random_below(random, 300) - 20);
        s->kind = (enum orr_slice_kind)random_below(random, ORR_SLICE_KIND_COUNT);
    }
    for (unsigned i = 0; i < 3; i++) {
        framework_op(t, operators[i][0], operators[i][1]);
    }
    for (unsigned i = 0, n = 1 + (unsigned)random_below(random, 80); i < n; i++) {
        int64_t begin = (int64_t)random_below(random, 2000);
        uint32_t host =
            random_below(random, 5) == 0 ? ORR_ID_NONE : (uint32_t)random_below(random, 4);
        uint64_t id = kernel(t, host, (int64_t)random_below(random, 1500),
                             (uint32_t)random_below(random, 4), names[random_below(random, 7)],
                             begin, begin + (int64_t)random_below(random, 100) - 5);
        fixture_row(&t->t.f, id)->op = random_below(random, 5);
    }
}

/* Shares stay within 100 %, parts within their wholes, and sums are those of the devices. */
static void check_sums(const struct trace *t) {
    const struct orr_annotations *all = &t->a->explain.annotations;
    int64_t busy = 0, exposed = 0, idle[ORR_CLASS_COUNT] = {0};
    for (size_t d = 0; d < t->a->device_count; d++) {
        busy += orr_classes_busy(t->a->devices[d].classes);
        exposed += t->a->devices[d].classes[ORR_CLASS_EXPOSED_COMM];
        for (unsigned c = ORR_CLASS_PROFILER_OVERHEAD; c < ORR_CLASS_BEFORE_FIRST; c++) {
            idle[c] += t->a->devices[d].classes[c];
        }
        assert_int_equal(t->a->devices[d].residual_ns, 0);
        assert_true(t->a->explain.queues.items[d].left_out + t->a->explain.queues.items[d].linked +
                        t->a->explain.queues.items[d].initial ==
                    t->a->devices[d].times.ops);
        assert_true(t->a->explain.queues.items[d].max <= t->a->devices[d].times.ops);
    }
    if (all->count == 0) {
        return;
    }
    assert_int_equal(all->items[0].total_ns, busy);
    assert_int_equal(all->items[0].exposed_comm_ns, exposed);
    assert_int_equal(all->items[0].ops, t->a->events.op_count);
    assert_memory_equal(all->items[0].idle, idle, sizeof idle);
    uint64_t self_ops = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct orr_annotation *a = &all->items[i];
        self_ops += a->self_ops;
        assert_true(a->self_ns <= a->total_ns && a->exposed_comm_ns <= a->total_ns);
        if (i > 0) {
            assert_true(a->parent < i && a->total_ns <= all->items[a->parent].total_ns);
        }
    }
    assert_int_equal(self_ops, t->a->events.op_count);
}

static void sums_hold_on_any_trace(void **state) {
    (void)state;
    uint64_t random = 77;
    for (unsigned round = 0; round < 400; round++) {
        struct trace t;
        random_trace(&t, &random);
        analyze(&t);
        check_sums(&t);
        char *text;
        size_t length;
        assert_int_equal(orr_report_json(t.a, &text, &length), ORR_OK);
        orr_memory_free(t.a->memory, text);
        assert_int_equal(orr_report_text(t.a, &text, &length), ORR_OK);
        orr_memory_free(t.a->memory, text);
        finish(&t);
    }
}

/* Ops as far apart as times may be, on several devices: sums stop at the largest number. */
static void extreme_times_do_not_overflow(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    const int64_t far = ORR_EVENTS_TIME_MAX;
    annotated_slice(&t.t, 0, "a", -far, far);
    for (uint32_t stream = 0; stream < 4; stream++) {
        kernel(&t, 0, -far + 1, stream, stream % 2 ? "nccl" : "k", -far, far);
        kernel(&t, 0, 0, stream, "k", far, far);
    }
    fixture_counter(&t.t.f, 0, "memory bytes", -far, 1);
    fixture_counter(&t.t.f, 0, "memory bytes", far, 9e18);
    analyze(&t);
    const struct orr_annotations *all = &t.a->explain.annotations;
    assert_int_equal(all->items[0].total_ns, INT64_MAX); /* 2^62 on each of two devices */
    assert_true(t.a->explain.memory.items[0].peak == 9000000000000000000u);
    finish(&t);
}

static enum orr_status analyze_once(const struct annotated *t, const struct orr_memory *memory) {
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    enum orr_status status = orr_analyze(&t->f.timeline, &options, memory, &analysis, &error);
    orr_analysis_destroy(&analysis);
    return status;
}

static void no_memory_leaves_nothing_behind(void **state) {
    (void)state;
    struct trace t;
    uint64_t random = 5;
    random_trace(&t, &random);
    fixture_counter(&t.t.f, 0, "memory bytes", 1000, 10);
    (void)fixture_timeline(&t.t.f);
    assert_true(annotated_fail_each(&t.t, analyze_once) > 60);
    finish(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_belong_to_the_annotations_around_their_calls),
        cmocka_unit_test(communication_is_exposed_where_nothing_computes),
        cmocka_unit_test(names_of_operators_lose_their_numbers_and_modules_count),
        cmocka_unit_test(operators_stand_for_annotations_where_there_are_none),
        cmocka_unit_test(a_window_cuts_what_it_cuts),
        cmocka_unit_test(our_own_traces_go_by_the_line_of_the_program),
        cmocka_unit_test(an_operators_cost_is_charged_to_its_kernels_together),
        cmocka_unit_test(tf32_is_compared_with_its_own_peak),
        cmocka_unit_test(depth_is_what_was_given_and_has_not_begun),
        cmocka_unit_test(memory_over_time_keeps_peaks_and_what_holds),
        cmocka_unit_test(sums_hold_on_any_trace),
        cmocka_unit_test(extreme_times_do_not_overflow),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
