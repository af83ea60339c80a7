/* Properties of the analyzer on random event models, sane and absurd ones: overlapping ops, ops of
 * no length, ops without a call, starts before the call, nested calls, waits on anything, cycles of
 * dependencies.
 *
 * Classes, split and launch terms are computed a second time here, straight from the definitions
 * and ns by ns, and must agree exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/report_json.h"
#include "analyzer/whatif.h"
#include "tests/analyzer_model.h"
#include "tests/support.h"

enum { HORIZON = 400, OPS_MAX = 40, ROUNDS = 400 };

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ------------------------------------------------------------------------------------------------
 * Random models */

static int64_t below(uint64_t *random, int64_t limit) {
    return (int64_t)random_below(random, (uint64_t)limit);
}

static const char *pick(uint64_t *random, const char *const *names, size_t count) {
    return names[random_below(random, count)];
}

static void add_random_calls(struct model *model, uint64_t *random, uint32_t threads) {
    static const char *const names[] = {
        "cudaLaunchKernel",      "cudaLaunchKernel", "cudaMalloc",
        "cudaEventRecord",       "cudaMemcpyAsync",  "cudaMemcpy",
        "cudaDeviceSynchronize", "cudaGraphLaunch",  "cudaStreamSynchronize"};
    size_t count = 1 + random_below(random, 30);
    for (size_t i = 0; i < count; i++) {
        int64_t begin = 1 + below(random, HORIZON);
        const char *name = pick(random, names, sizeof names / sizeof *names);
        uint32_t call = model_call(model, (uint32_t)random_below(random, threads), begin,
                                   begin + below(random, 60), name);
        model->events.calls[call].records += random_below(random, 8) == 0;
    }
}

static void add_random_ops(struct model *model, uint64_t *random, bool fifo) {
    static const char *const names[] = {"gemm", "relu", "ncclAllReduce", "Memcpy HtoD", "Memset"};
    struct orr_events *events = &model->events;
    int64_t ends[8] = {0};
    size_t count = random_below(random, OPS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint32_t stream = (uint32_t)random_below(random, events->stream_count);
        uint32_t call = ORR_EVENTS_NONE;
        if (random_below(random, 8) > 0) {
            call = (uint32_t)random_below(random, events->call_count);
        }
        int64_t start = 1 + below(random, HORIZON);
        if (fifo && call != ORR_EVENTS_NONE) {
            start = max64(ends[stream], events->calls[call].begin_ns + below(random, 40));
        }
        int64_t end = start + (random_below(random, 6) == 0 ? 0 : below(random, 30));
        ends[stream] = max64(ends[stream], end);
        model_op(model, stream, call, start, end,
                 pick(random, names, sizeof names / sizeof *names));
    }
}

static void add_random_waits(struct model *model, uint64_t *random) {
    struct orr_events *events = &model->events;
    for (size_t i = random_below(random, 8); i > 0; i--) {
        model_wait(model, (uint32_t)random_below(random, events->stream_count),
                   1 + below(random, HORIZON), (uint32_t)random_below(random, events->stream_count),
                   1 + below(random, HORIZON));
    }
    /* Dependencies between ops, cycles among them. */
    for (size_t i = events->op_count > 0 ? random_below(random, 6) : 0; i > 0; i--) {
        struct orr_events_op *op = &events->ops[random_below(random, events->op_count)];
        uint32_t source = (uint32_t)random_below(random, events->op_count);
        op->wait_ns = events->ops[source].end_ns;
        op->wait_op = source;
    }
}

static void add_random_syncs(struct model *model, uint64_t *random) {
    struct orr_events *events = &model->events;
    for (uint32_t c = 0; c < events->call_count; c++) {
        if (!(events->calls[c].flags & ORR_CALL_WAITING)) {
            continue;
        }
        enum orr_sync_target kind = (enum orr_sync_target)random_below(random, 4);
        size_t targets = kind == ORR_SYNC_TARGET_OP       ? events->op_count
                         : kind == ORR_SYNC_TARGET_DEVICE ? events->device_count
                                                          : events->stream_count;
        if (targets > 0) {
            model_sync(model, c, kind, (uint32_t)random_below(random, targets));
        }
    }
    for (size_t i = random_below(random, 4); i > 0; i--) {
        int64_t begin = 1 + below(random, HORIZON);
        model_overhead(model, (uint32_t)random_below(random, 2), begin, begin + below(random, 40));
    }
}

static void random_model(struct model *model, const struct orr_memory *memory, uint64_t *random) {
    model_init(model, memory);
    size_t devices = 1 + random_below(random, 2);
    for (size_t d = 0; d < devices; d++) {
        uint32_t device = model_device(model);
        model->events.devices[device].bandwidth = 1000000000000;
        model_stream(model, device);
        for (size_t s = random_below(random, 3); s > 0; s--) {
            model_stream(model, device);
        }
    }
    model_thread(model, 0, "1/10");
    model_thread(model, 0, "1/9");
    model_thread(model, 1, "2/1");
    add_random_calls(model, random, 1 + (uint32_t)random_below(random, 3));
    add_random_ops(model, random, random_below(random, 2) == 0);
    add_random_waits(model, random);
    add_random_syncs(model, random);
}

static struct orr_analysis_options small_options(void) {
    struct orr_analysis_options options = orr_analysis_options_default();
    options.dispatch_max_ns = 15;
    options.short_gap_ns = 4;
    options.cell_min_ns = 7;
    options.cells = 40;
    options.launch_gaps_min = 2;
    return options;
}

/* ------------------------------------------------------------------------------------------------
 * The definitions again, slowly */

static bool linked(const struct orr_events_op *op) {
    return op->call != ORR_EVENTS_NONE;
}

/* "earlier": by (start, end, linked first, call begin, stream, correlation). */
static bool earlier(const struct orr_events *e, const struct orr_events_op *a,
                    const struct orr_events_op *b) {
    const int64_t x[] = {a->start_ns, a->end_ns,
                         !linked(a),  linked(a) ? e->calls[a->call].begin_ns : 0,
                         a->stream,   (int64_t)a->correlation};
    const int64_t y[] = {b->start_ns, b->end_ns,
                         !linked(b),  linked(b) ? e->calls[b->call].begin_ns : 0,
                         b->stream,   (int64_t)b->correlation};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i];
        }
    }
    return false;
}

static int64_t naive_p(const struct orr_events *e, const struct orr_events_op *op) {
    int64_t p = ORR_TIME_NONE;
    for (size_t i = 0; i < e->op_count; i++) {
        if (e->ops[i].stream == op->stream && earlier(e, &e->ops[i], op)) {
            p = max64(p, e->ops[i].end_ns);
        }
    }
    return p;
}

/* d: own[i] is what the model said before it was prepared. */
static int64_t naive_d(const struct orr_events *e, const struct orr_events_op *op, int64_t own) {
    int64_t d = own;
    if (!linked(op)) {
        return d;
    }
    for (size_t w = 0; w < e->wait_count; w++) {
        const struct orr_events_wait *wait = &e->waits[w];
        if (wait->stream != op->stream || !(e->calls[op->call].begin_ns > wait->at_ns)) {
            continue;
        }
        for (size_t i = 0; i < e->op_count; i++) {
            const struct orr_events_op *o = &e->ops[i];
            int64_t when = linked(o) ? e->calls[o->call].begin_ns : o->start_ns;
            if (o->stream == wait->source && when < wait->record_ns) {
                d = max64(d, o->end_ns);
            }
        }
    }
    return d;
}

static bool runs(const struct orr_events_op *op, int64_t t) {
    return op->start_ns <= t && t < op->end_ns;
}

static bool in_call(const struct orr_events_call *call, int64_t t) {
    return call->begin_ns <= t && t < call->end_ns;
}

static enum orr_class host_class(const struct orr_events *e, const struct orr_events_op *n,
                                 int64_t t) {
    uint32_t thread = e->calls[n->call].thread;
    for (size_t i = 0; i < e->overhead_count; i++) {
        const struct orr_events_overhead *o = &e->overheads[i];
        if (o->process == e->threads[thread].process && o->begin_ns <= t && t < o->end_ns) {
            return ORR_CLASS_PROFILER_OVERHEAD;
        }
    }
    enum orr_class class_ = ORR_CLASS_HOST_OTHER;
    for (uint32_t c = 0; c < e->call_count; c++) {
        const struct orr_events_call *call = &e->calls[c];
        if (call->thread != thread || !in_call(call, t)) {
            continue;
        }
        if ((call->flags & ORR_CALL_WAITING) && c != n->call) {
            return ORR_CLASS_HOST_SYNC;
        }
        bool owns = false;
        for (size_t i = 0; i < e->op_count; i++) {
            owns = owns || e->ops[i].call == c;
        }
        if (owns || strstr(call->name, "Launch")) {
            class_ = ORR_CLASS_HOST_LAUNCH;
        }
    }
    return class_;
}

/* Op whose start ends the gap that t is in, and where the gap began. */
static const struct orr_events_op *gap_of(const struct orr_events *e, uint32_t device, int64_t t,
                                          int64_t *out_begin) {
    const struct orr_events_op *n = NULL;
    *out_begin = INT64_MIN;
    for (size_t i = 0; i < e->op_count; i++) {
        const struct orr_events_op *op = &e->ops[i];
        if (e->streams[op->stream].device != device) {
            continue;
        }
        if (op->end_ns <= t) {
            *out_begin = max64(*out_begin, op->end_ns);
        }
        if (op->start_ns > t && (!n || earlier(e, op, n))) {
            n = op;
        }
    }
    return n;
}

static enum orr_class naive_class(const struct orr_events *e, const int64_t *d, uint32_t device,
                                  int64_t t, int64_t dispatch_max) {
    bool comm = false, copy = false;
    for (size_t i = 0; i < e->op_count; i++) {
        const struct orr_events_op *op = &e->ops[i];
        if (e->streams[op->stream].device == device && runs(op, t)) {
            if (op->activity == ORR_ACTIVITY_COMPUTE) {
                return ORR_CLASS_COMPUTE;
            }
            comm = comm || op->activity == ORR_ACTIVITY_COMM;
            copy = copy || op->activity == ORR_ACTIVITY_COPY;
        }
    }
    if (comm || copy) {
        return comm ? ORR_CLASS_EXPOSED_COMM : ORR_CLASS_EXPOSED_COPY;
    }
    int64_t g0;
    const struct orr_events_op *n = gap_of(e, device, t, &g0);
    if (!linked(n)) {
        return ORR_CLASS_UNKNOWN_UNLINKED;
    }
    const struct orr_events_call *call = &e->calls[n->call];
    if (n->start_ns < call->begin_ns) {
        return ORR_CLASS_UNKNOWN_CLOCK;
    }
    int64_t host_end = max64(g0, min64(call->end_ns, n->start_ns));
    if (t < host_end) {
        return host_class(e, n, t);
    }
    int64_t dep_end = max64(host_end, min64(d[n - e->ops], n->start_ns));
    if (t < dep_end) {
        return ORR_CLASS_DEP_WAIT;
    }
    return n->start_ns - dep_end <= dispatch_max ? ORR_CLASS_DISPATCH : ORR_CLASS_UNKNOWN_WAIT;
}

/* ------------------------------------------------------------------------------------------------
 * Checks */

struct sums {
    int64_t classes[ORR_CLASS_COUNT];
};

static struct sums naive_classes(const struct orr_analysis *a, const int64_t *d, uint32_t device,
                                 int64_t begin, int64_t end) {
    struct sums sums = {0};
    const struct orr_device_times *times = &a->devices[device].times;
    for (int64_t t = begin; t < end; t++) {
        enum orr_class class_ = times->ops == 0 || t < times->first_ns ? ORR_CLASS_BEFORE_FIRST
                                : t >= times->last_ns                  ? ORR_CLASS_AFTER_LAST
                                                      : naive_class(&a->events, d, device, t,
                                                                    a->options.dispatch_max_ns);
        sums.classes[class_]++;
    }
    return sums;
}

static void check_classes(const struct orr_analysis *a, const int64_t *d) {
    for (uint32_t device = 0; device < a->device_count; device++) {
        const struct orr_device_report *r = &a->devices[device];
        struct sums sums = naive_classes(a, d, device, a->begin_ns, a->end_ns);
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
            assert_int_equal(r->classes[c], sums.classes[c]);
        }
        assert_int_equal(r->residual_ns, 0);
    }
}

static void check_split(const struct orr_analysis *a, const int64_t *d) {
    const struct orr_events *e = &a->events;
    struct orr_split sums = {0};
    for (uint32_t i = 0; i < e->op_count; i++) {
        const struct orr_events_op *op = &e->ops[i];
        int64_t p = naive_p(e, op);
        struct orr_split_parts parts;
        assert_int_equal(p, orr_events_previous_end(e, op));
        sums.overlaps += op->start_ns < p;
        bool has = linked(op) && op->start_ns >= e->calls[op->call].begin_ns;
        assert_int_equal(orr_split_of(e, i, &parts), has);
        if (!has) {
            continue;
        }
        assert_int_equal(op->wait_ns, d[i]);
        int64_t begin = e->calls[op->call].begin_ns;
        int64_t x = min64(e->calls[op->call].end_ns, op->start_ns);
        int64_t y = p == ORR_TIME_NONE ? x : max64(x, min64(p, op->start_ns));
        int64_t z = d[i] == ORR_TIME_NONE ? y : max64(y, min64(d[i], op->start_ns));
        assert_int_equal(parts.submit, x - begin);
        assert_int_equal(parts.stream_wait, y - x);
        assert_int_equal(parts.dep_wait, z - y);
        assert_int_equal(parts.dispatch, op->start_ns - z);
        assert_int_equal(parts.submit + parts.stream_wait + parts.dep_wait + parts.dispatch +
                             parts.device,
                         op->end_ns - begin);
        sums.ops++;
        sums.dep_violations += op->start_ns < d[i];
    }
    assert_int_equal(a->split.ops, sums.ops);
    assert_int_equal(a->split.overlaps, sums.overlaps);
    assert_int_equal(a->split.dep_violations, sums.dep_violations);
    assert_int_equal(a->split.total_ns, a->split.submit_ns + a->split.stream_wait_ns +
                                            a->split.dep_wait_ns + a->split.dispatch_ns +
                                            a->split.device_ns);
}

static void check_unions(const struct orr_analysis *a) {
    const struct orr_events *e = &a->events;
    for (uint32_t device = 0; device < a->device_count; device++) {
        int64_t c = 0, m = 0, p = 0, cm = 0, mp = 0;
        for (int64_t t = a->begin_ns; t < a->end_ns; t++) {
            bool in[3] = {false, false, false};
            for (size_t i = 0; i < e->op_count; i++) {
                if (e->streams[e->ops[i].stream].device == device && runs(&e->ops[i], t)) {
                    in[e->ops[i].activity] = true;
                }
            }
            c += in[0];
            m += in[1];
            p += in[2];
            cm += in[0] && in[1];
            mp += in[1] && in[2];
        }
        const struct orr_device_times *times = &a->devices[device].times;
        assert_int_equal(times->compute_ns, c);
        assert_int_equal(times->comm_ns, m);
        assert_int_equal(times->copy_ns, p);
        assert_int_equal(times->comm_compute_ns, cm);
        assert_int_equal(times->comm_copy_ns, mp);
    }
}

/* True if the walk may go from op `from` to op `to`: to is before it in its stream, or what it
 * waits for, or the last of its collective; through ops that take no time on the path, too. */
static bool hop_exists(const struct orr_events *e, uint32_t from, uint32_t to, unsigned depth) {
    const struct orr_events_op *op = &e->ops[from];
    const uint32_t next[] = {
        op->prev_op, op->wait_op,
        op->collective == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : e->collectives[op->collective].last};
    for (size_t i = 0; i < 3; i++) {
        if (next[i] == to) {
            return true;
        }
    }
    for (size_t i = 0; i < 2 && depth > 0; i++) {
        if (next[i] != ORR_EVENTS_NONE && hop_exists(e, next[i], to, depth - 1)) {
            return true;
        }
    }
    return false;
}

/* A waiting call that returned at `time`: the path may have gone through its host without taking
 * time. */
static bool host_returns(const struct orr_events *e, int64_t time) {
    for (size_t c = 0; c < e->call_count; c++) {
        if ((e->calls[c].flags & ORR_CALL_WAITING) && e->calls[c].end_ns == time) {
            return true;
        }
    }
    return false;
}

/* Two ops that follow each other on the path, with nothing of a host in between, must be linked. */
static void check_hops(const struct orr_analysis *a) {
    const struct orr_critical_path *path = &a->path;
    uint32_t later = ORR_EVENTS_NONE;
    for (size_t i = path->segment_count; i > 0; i--) {
        const struct orr_path_segment *s = &path->segments[i - 1];
        if (s->kind == ORR_PATH_LAUNCH || s->kind == ORR_PATH_HOST || s->kind == ORR_PATH_SYNC) {
            later = ORR_EVENTS_NONE;
        } else if (s->kind <= ORR_PATH_COPY) {
            if (later != ORR_EVENTS_NONE && later != s->op &&
                !host_returns(&a->events, s->end_ns)) {
                assert_true(hop_exists(&a->events, later, s->op, 12));
            }
            later = s->op;
        }
    }
}

static void check_path(const struct orr_analysis *a) {
    const struct orr_critical_path *path = &a->path;
    int64_t at = path->begin_ns, sum = 0;
    assert_int_equal(path->begin_ns, a->begin_ns);
    assert_int_equal(path->end_ns, a->end_ns);
    for (size_t i = 0; i < path->segment_count; i++) {
        assert_int_equal(path->segments[i].begin_ns, at);
        assert_true(path->segments[i].end_ns > at);
        at = path->segments[i].end_ns;
        if (path->segments[i].kind <= ORR_PATH_COPY) {
            const struct orr_events_op *op = &a->events.ops[path->segments[i].op];
            assert_true(op->start_ns <= path->segments[i].begin_ns);
            assert_true(op->end_ns >= path->segments[i].end_ns);
        }
    }
    assert_int_equal(at, path->end_ns);
    for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
        sum += path->kinds[k];
    }
    assert_int_equal(sum, path->end_ns - path->begin_ns);
    check_hops(a);
}

static void check_phases(const struct orr_analysis *a) {
    for (uint32_t device = 0; device < a->device_count; device++) {
        int64_t at = a->begin_ns, groups[ORR_PHASE_COUNT] = {0};
        const int64_t *c = a->devices[device].classes;
        for (size_t i = 0; i < a->phases.count; i++) {
            const struct orr_phase *phase = &a->phases.items[i];
            if (phase->device != device) {
                continue;
            }
            assert_int_equal(phase->begin_ns, at);
            at = phase->end_ns;
            for (unsigned g = 0; g < ORR_PHASE_COUNT; g++) {
                groups[g] += phase->groups[g];
            }
        }
        assert_int_equal(at, a->end_ns);
        assert_int_equal(groups[ORR_PHASE_LAUNCH],
                         c[ORR_CLASS_HOST_LAUNCH] + c[ORR_CLASS_HOST_OTHER]);
        assert_int_equal(groups[ORR_PHASE_COMM], c[ORR_CLASS_EXPOSED_COMM]);
        assert_int_equal(groups[ORR_PHASE_COPY], c[ORR_CLASS_EXPOSED_COPY]);
        assert_int_equal(groups[0] + groups[1] + groups[2] + groups[3], c[ORR_CLASS_COMPUTE]);
    }
}

/* The dependencies of a model that is not prepared; freed by the caller. */
static int64_t *naive_waits(const struct model *model) {
    const struct orr_events *e = &model->events;
    int64_t *d = malloc((e->op_count + 1) * sizeof *d);
    assert_non_null(d);
    for (size_t i = 0; i < e->op_count; i++) {
        d[i] = naive_d(e, &e->ops[i], e->ops[i].wait_ns);
    }
    return d;
}

static void figures_agree_with_the_definitions_ns_by_ns(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(20240501);
    struct orr_analysis_options options = small_options();
    for (int round = 0; round < ROUNDS; round++) {
        struct model model;
        random_model(&model, &memory, &random);
        int64_t *d = naive_waits(&model);
        struct orr_analysis *a = model_analyze(&model, &options);
        check_classes(a, d);
        check_split(a, d);
        check_unions(a);
        check_path(a);
        check_phases(a);
        model_done(&model, &a);
        free(d);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Launch terms again */

static int compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t median_step(int64_t *times, size_t count) {
    qsort(times, count, sizeof *times, compare_times);
    int64_t steps[200];
    for (size_t i = 1; i < count; i++) {
        steps[i - 1] = times[i] - times[i - 1];
    }
    qsort(steps, count - 1, sizeof *steps, compare_times);
    return steps[(count - 2) / 2];
}

static bool owns_on(const struct orr_events *e, uint32_t call, uint32_t device) {
    for (size_t i = 0; i < e->op_count; i++) {
        if (e->ops[i].call == call && e->streams[e->ops[i].stream].device == device) {
            return true;
        }
    }
    return false;
}

static void check_launch(const struct orr_analysis *a, uint32_t device) {
    const struct orr_events *e = &a->events;
    const struct orr_launch *launch = &a->devices[device].launch;
    size_t per_thread[3] = {0};
    int64_t starts[200], sum = 0;
    size_t calls = 0, feed = 0;
    for (uint32_t c = 0; c < e->call_count; c++) {
        if (owns_on(e, c, device)) {
            calls++;
            per_thread[e->calls[c].thread]++;
            sum += e->calls[c].end_ns - e->calls[c].begin_ns;
        }
    }
    assert_int_equal(launch->calls, calls);
    assert_int_equal(launch->sum_ns, sum);
    if (calls == 0) {
        return;
    }
    uint32_t best = 0;
    for (uint32_t t = 1; t < 3; t++) { /* labels in text order: 1/10, 1/9, 2/1 */
        best = per_thread[t] > per_thread[best] ? t : best;
    }
    assert_int_equal(launch->thread, best);
    for (uint32_t c = 0; c < e->call_count; c++) {
        if (e->calls[c].thread == best && owns_on(e, c, device)) {
            starts[feed++] = e->calls[c].begin_ns;
        }
    }
    assert_int_equal(launch->feed_calls, feed);
    assert_int_equal(a->devices[device].whole.has_launch_period, feed >= 2);
    if (feed >= 2) {
        assert_int_equal(a->devices[device].whole.launch_period_ns, median_step(starts, feed));
    }
}

static void launch_terms_agree_with_the_definitions(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(77);
    struct orr_analysis_options options = small_options();
    for (int round = 0; round < ROUNDS; round++) {
        struct model model;
        random_model(&model, &memory, &random);
        struct orr_analysis *a = model_analyze(&model, &options);
        for (uint32_t device = 0; device < a->device_count; device++) {
            check_launch(a, device);
        }
        model_done(&model, &a);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Metamorphic properties */

static char *json_of(const struct orr_analysis *a) {
    char *text;
    size_t length;
    assert_int_equal(orr_report_json(a, &text, &length), ORR_OK);
    assert_int_equal(strlen(text), length);
    return text;
}

/* Collectives of any ops, and calls with several syncs. */
static void add_ambiguities(struct model *model, uint64_t *random) {
    struct orr_events *events = &model->events;
    size_t ops = events->op_count, syncs = events->sync_count;
    for (uint64_t i = ops > 0 ? random_below(random, 4) : 0; i > 0; i--) {
        struct orr_events_collective collective = {
            .kind = "all_reduce", .group = "group", .seq = i, .size = 3};
        uint32_t index;
        assert_int_equal(orr_events_add_collective(events, &collective, &index), ORR_OK);
        for (int m = 0; m < 3; m++) {
            events->ops[random_below(random, ops)].collective = index;
        }
    }
    for (size_t i = syncs > 0 && ops > 0 ? random_below(random, 3) : 0; i > 0; i--) {
        model_sync(model, events->syncs[random_below(random, syncs)].call, ORR_SYNC_TARGET_OP,
                   (uint32_t)random_below(random, ops));
    }
    for (uint64_t i = random_below(random, 3); i > 0 && events->call_count > 0; i--) {
        struct orr_events_call call = events->calls[random_below(random, events->call_count)];
        uint32_t twin = model_call(model, call.thread, call.begin_ns, call.end_ns, call.name);
        if (ops > 0) {
            events->ops[random_below(random, ops)].call = twin;
        }
        if (ops > 0 && (call.flags & ORR_CALL_WAITING)) {
            model_sync(model, twin, ORR_SYNC_TARGET_OP, (uint32_t)random_below(random, ops));
        }
    }
}

/* What-ifs of each kind, one after the other. */
static void check_same_whatif(const struct orr_analysis *a, const struct orr_analysis *b,
                              const struct orr_memory *memory) {
    static const char *const texts[] = {"launch_cost=0",  "host=x2",        "class:comm=x2",
                                        "graph=on",       "fuse=gemm+relu", "straggler=none",
                                        "overlap=perfect"};
    const struct orr_whatif_options options = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct orr_whatif_setting setting;
        struct orr_whatif *x, *y;
        struct orr_error error = {0};
        char *text, *other;
        size_t length;
        assert_int_equal(orr_whatif_parse(texts[i], &setting, &error), ORR_OK);
        assert_int_equal(orr_whatif_compute(a, &setting, 1, &options, memory, &x, &error), ORR_OK);
        assert_int_equal(orr_whatif_compute(b, &setting, 1, &options, memory, &y, &error), ORR_OK);
        assert_int_equal(x->replay_error_ns, 0);
        assert_int_equal(orr_whatif_json(x, NULL, &text, &length), ORR_OK);
        assert_int_equal(orr_whatif_json(y, NULL, &other, &length), ORR_OK);
        assert_string_equal(text, other);
        orr_memory_free(memory, text);
        orr_memory_free(memory, other);
        orr_whatif_destroy(&x);
        orr_whatif_destroy(&y);
    }
}

static void the_order_of_the_arrays_does_not_matter(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(31337);
    struct orr_analysis_options options = small_options();
    for (int round = 0; round < ROUNDS; round++) {
        struct model model, shuffled;
        random_model(&model, &memory, &random);
        add_ambiguities(&model, &random);
        model_copy(&shuffled, &model, &random, 0);
        struct orr_analysis *a = model_analyze(&model, &options);
        struct orr_analysis *b = model_analyze(&shuffled, &options);
        char *x = json_of(a), *y = json_of(b);
        assert_string_equal(x, y);
        check_same_whatif(a, b, &memory);
        orr_memory_free(&memory, x);
        orr_memory_free(&memory, y);
        model_done(&model, &a);
        model_done(&shuffled, &b);
    }
}

static void check_same_terms(const struct orr_launch_terms *a, const struct orr_launch_terms *b) {
    assert_int_equal(a->host_ns, b->host_ns);
    assert_int_equal(a->window_ns, b->window_ns);
    assert_int_equal(a->feed_gaps, b->feed_gaps);
    assert_int_equal(a->has_launch_period, b->has_launch_period);
    assert_int_equal(a->has_gap_period, b->has_gap_period);
    assert_int_equal(a->launch_period_ns, b->launch_period_ns);
    assert_int_equal(a->gap_period_ns, b->gap_period_ns);
    assert_int_equal(a->bound, b->bound);
}

static void check_same_split(const struct orr_split *a, const struct orr_split *b) {
    assert_int_equal(a->submit_ns, b->submit_ns);
    assert_int_equal(a->stream_wait_ns, b->stream_wait_ns);
    assert_int_equal(a->dep_wait_ns, b->dep_wait_ns);
    assert_int_equal(a->dispatch_ns, b->dispatch_ns);
    assert_int_equal(a->device_ns, b->device_ns);
    assert_int_equal(a->sync_ns, b->sync_ns);
    assert_int_equal(a->sync_ops, b->sync_ops);
    assert_int_equal(a->host_wait_ns, b->host_wait_ns);
    assert_int_equal(a->early_max_ns, b->early_max_ns);
    assert_int_equal(a->overlap_max_ns, b->overlap_max_ns);
    assert_int_equal(a->dep_violation_max_ns, b->dep_violation_max_ns);
    assert_int_equal(a->call_ns_once, b->call_ns_once);
}

static void a_shift_of_all_times_changes_only_the_stamps(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(4);
    struct orr_analysis_options options = small_options();
    const int64_t shift = 1694128201422243000;
    for (int round = 0; round < ROUNDS; round++) {
        struct model model, shifted;
        random_model(&model, &memory, &random);
        model_copy(&shifted, &model, NULL, shift);
        struct orr_analysis *a = model_analyze(&model, &options);
        struct orr_analysis *b = model_analyze(&shifted, &options);
        for (size_t d = 0; d < a->device_count; d++) {
            assert_memory_equal(a->devices[d].classes, b->devices[d].classes,
                                sizeof a->devices[d].classes);
            check_same_terms(&a->devices[d].whole, &b->devices[d].whole);
            assert_int_equal(a->devices[d].verdict, b->devices[d].verdict);
        }
        assert_memory_equal(a->path.kinds, b->path.kinds, sizeof a->path.kinds);
        assert_int_equal(a->phases.count, b->phases.count);
        for (size_t i = 0; i < a->phases.count; i++) {
            assert_memory_equal(a->phases.items[i].groups, b->phases.items[i].groups,
                                sizeof a->phases.items[i].groups);
        }
        if (a->events.op_count > 0) {
            assert_int_equal(a->begin_ns + shift, b->begin_ns);
        }
        check_same_split(&a->split, &b->split);
        model_done(&model, &a);
        model_done(&shifted, &b);
    }
}

static void without_calls_all_idle_time_is_unlinked(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(9);
    for (int round = 0; round < ROUNDS; round++) {
        struct model model, bare;
        random_model(&model, &memory, &random);
        model_copy(&bare, &model, NULL, 0);
        for (size_t i = 0; i < bare.events.op_count; i++) {
            bare.events.ops[i].call = ORR_EVENTS_NONE;
        }
        struct orr_analysis *a = model_analyze(&model, NULL), *b = model_analyze(&bare, NULL);
        for (size_t d = 0; d < a->device_count; d++) {
            const struct orr_device_times *x = &a->devices[d].times, *y = &b->devices[d].times;
            assert_int_equal(x->busy_ns, y->busy_ns);
            assert_int_equal(y->classes[ORR_CLASS_UNKNOWN_UNLINKED], y->span_ns - y->busy_ns);
        }
        assert_int_equal(b->split.ops, 0);
        model_done(&model, &a);
        model_done(&bare, &b);
    }
}

static struct orr_analysis *analyze_window(struct model *model, const struct model *from,
                                           int64_t begin, int64_t end) {
    struct orr_analysis_options options = small_options();
    options.begin_ns = begin;
    options.end_ns = end;
    model_copy(model, from, NULL, 0);
    return model_analyze(model, &options);
}

static void classes_of_adjacent_windows_add_up(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(55);
    for (int round = 0; round < ROUNDS; round++) {
        struct model model, parts[3];
        random_model(&model, &memory, &random);
        int64_t cut = below(&random, HORIZON + 100);
        struct orr_analysis *all = analyze_window(&parts[0], &model, -50, HORIZON + 200);
        struct orr_analysis *first = analyze_window(&parts[1], &model, -50, cut);
        struct orr_analysis *second = analyze_window(&parts[2], &model, cut, HORIZON + 200);
        for (size_t d = 0; d < all->device_count; d++) {
            for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
                assert_int_equal(all->devices[d].classes[c],
                                 first->devices[d].classes[c] + second->devices[d].classes[c]);
            }
            assert_int_equal(all->devices[d].times.window_comm_ns,
                             first->devices[d].times.window_comm_ns +
                                 second->devices[d].times.window_comm_ns);
        }
        check_path(first);
        check_path(second);
        model_done(&parts[0], &all);
        model_done(&parts[1], &first);
        model_done(&parts[2], &second);
        orr_events_free(&model.events);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_agree_with_the_definitions_ns_by_ns),
        cmocka_unit_test(launch_terms_agree_with_the_definitions),
        cmocka_unit_test(the_order_of_the_arrays_does_not_matter),
        cmocka_unit_test(a_shift_of_all_times_changes_only_the_stamps),
        cmocka_unit_test(without_calls_all_idle_time_is_unlinked),
        cmocka_unit_test(classes_of_adjacent_windows_add_up),
    };
    return cmocka_run_group_tests_name("analyzer, random traces", tests, NULL, NULL);
}
