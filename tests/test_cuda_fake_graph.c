/* Fake CUDA: captures and graphs, over both engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_fake_fixture.h"

enum { VALUES = 64 };

/* Host functions that compute on host memory: a graph of them shows its order. */
struct step {
    atomic_int *clock;
    atomic_int at; /* when it ran: 1, 2, ... */
};

static void run_step(void *context) {
    struct step *step = context;
    atomic_store(&step->at, 1 + atomic_fetch_add(step->clock, 1));
}

struct steps {
    atomic_int clock;
    struct step steps[VALUES];
};

static void clear(struct steps *s) {
    atomic_store(&s->clock, 0);
    for (int i = 0; i < VALUES; i++) {
        s->steps[i].clock = &s->clock;
        atomic_store(&s->steps[i].at, 0);
    }
}

static void add(struct fake *f, struct steps *s, int step, cudaStream_t stream) {
    CALL(cudaLaunchHostFunc(stream, run_step, &s->steps[step]));
}

static int at(struct steps *s, int step) {
    return atomic_load(&s->steps[step].at);
}

static void order(struct fake *f, cudaStream_t before, cudaStream_t after) {
    cudaEvent_t e = fake_event(f);
    CALL(cudaEventRecord(e, before));
    CALL(cudaStreamWaitEvent(after, e, 0));
    CALL(cudaEventDestroy(e));
}

static void begin(struct fake *f, cudaStream_t stream) {
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static cudaGraph_t end(struct fake *f, cudaStream_t stream) {
    cudaGraph_t graph = NULL;
    CALL(cudaStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    return graph;
}

static cudaGraphExec_t instance(struct fake *f, cudaGraph_t graph) {
    cudaGraphExec_t exec = NULL;
    CALL(cudaGraphInstantiate(&exec, graph, 0));
    assert_non_null(exec);
    return exec;
}

static size_t node_count(struct fake *f, cudaGraph_t graph) {
    size_t count = 0;
    CALL(cudaGraphGetNodes(graph, NULL, &count));
    return count;
}

/* 0 -> {1, 2} -> 3, 1 and 2 in streams of their own. */
static cudaGraph_t capture_diamond(struct fake *f, struct steps *s, cudaStream_t a,
                                   cudaStream_t b) {
    begin(f, a);
    add(f, s, 0, a);
    order(f, a, b);
    add(f, s, 1, a);
    add(f, s, 2, b);
    order(f, b, a);
    add(f, s, 3, a);
    return end(f, a);
}

static void check_diamond(struct steps *s) {
    assert_int_equal(at(s, 0), 1);
    assert_true(at(s, 1) == 2 || at(s, 1) == 3);
    assert_int_equal(at(s, 1) + at(s, 2), 5);
    assert_int_equal(at(s, 3), 4);
}

static void run_replay(struct fake *f) {
    static struct steps s;
    cudaStream_t a = fake_stream(f), b = fake_stream(f), c = fake_stream(f);
    clear(&s);
    cudaGraph_t graph = capture_diamond(f, &s, a, b);
    CALL(cudaDeviceSynchronize());
    assert_int_equal(at(&s, 0), 0); /* nothing runs while it is captured */
    assert_int_equal(node_count(f, graph), 4);
    cudaGraphExec_t exec = instance(f, graph);
    CALL(cudaGraphDestroy(graph)); /* what was instantiated stays */
    CALL(cudaGraphUpload(exec, c));
    for (int i = 0; i < 3; i++) {
        clear(&s);
        CALL(cudaGraphLaunch(exec, i ? c : a));
        CALL(cudaStreamSynchronize(i ? c : a));
        check_diamond(&s);
    }
    CALL(cudaGraphExecDestroy(exec));
    REFUSED(cudaErrorInvalidValue, cudaGraphExecDestroy(exec));
    REFUSED(cudaErrorInvalidValue, cudaGraphDestroy(graph));
    CALL(cudaStreamDestroy(a));
    CALL(cudaStreamDestroy(b));
    CALL(cudaStreamDestroy(c));
    fake_nothing_is_alive(f);
}

static void a_captured_fork_and_join_is_replayed(void **state) {
    (void)state;
    fake_each(run_replay);
}

static void run_place(struct fake *f) {
    static struct steps s;
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    clear(&s);
    cudaGraph_t graph = capture_diamond(f, &s, a, b);
    cudaGraphExec_t exec = instance(f, graph);
    for (int i = 0; i < 4; i++)
        s.steps[4 + i].clock = &s.clock;
    add(f, &s, 4, a);
    CALL(cudaGraphLaunch(exec, a));
    add(f, &s, 5, a);
    CALL(cudaStreamSynchronize(a));
    assert_int_equal(at(&s, 4), 1);
    assert_int_equal(at(&s, 5), 6);
}

static void a_launch_has_its_place_in_its_stream(void **state) {
    (void)state;
    fake_each(run_place);
}

struct guard {
    atomic_int inside, worst;
};

static void enter_guard(void *context) {
    struct guard *guard = context;
    int inside = 1 + atomic_fetch_add(&guard->inside, 1);
    if (inside > atomic_load(&guard->worst))
        atomic_store(&guard->worst, inside);
}

static void leave_guard(void *context) {
    struct guard *guard = context;
    atomic_fetch_sub(&guard->inside, 1);
}

static void run_overlap(struct fake *f) {
    static struct guard guard;
    struct orr__k_spin spin = {.ns = 100000};
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, a), 0); /* loads the library */
    atomic_store(&guard.worst, 0);
    begin(f, a);
    CALL(cudaLaunchHostFunc(a, enter_guard, &guard));
    order(f, a, b); /* so that another launch's beginning has a stream of its own */
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, b), 0);
    CALL(cudaLaunchHostFunc(b, leave_guard, &guard));
    order(f, b, a);
    cudaGraph_t graph = end(f, a);
    cudaGraphExec_t exec = instance(f, graph);
    cudaStream_t c = fake_stream(f);
    for (int i = 0; i < 4; i++)
        CALL(cudaGraphLaunch(exec, i % 2 ? a : c));
    CALL(cudaDeviceSynchronize());
    assert_int_equal(atomic_load(&guard.worst), 1);
}

static void launches_of_an_instance_do_not_overlap(void **state) {
    (void)state;
    fake_each(run_overlap);
}

/* Independent nodes: all orders turn up. */
static void orders_of_a_graph_depend_on_the_seed(void **state) {
    (void)state;
    int first[3] = {0};
    for (uint64_t seed = 0; seed < 40; seed++) {
        static struct steps s;
        struct fake fake, *f = &fake;
        fake_open(f, (struct orr_fake_cuda_options){
                         .engine = ORR_FAKE_SIMULATED, .seed = seed, .jitter_ns = 100000});
        cudaStream_t streams[3] = {fake_stream(f), fake_stream(f), fake_stream(f)};
        clear(&s);
        begin(f, streams[0]);
        for (int i = 1; i < 3; i++)
            order(f, streams[0], streams[i]);
        for (int i = 0; i < 3; i++)
            add(f, &s, i, streams[i]);
        for (int i = 1; i < 3; i++)
            order(f, streams[i], streams[0]);
        cudaGraph_t graph = end(f, streams[0]);
        assert_int_equal(node_count(f, graph), 3);
        CALL(cudaGraphLaunch(instance(f, graph), streams[0]));
        CALL(cudaStreamSynchronize(streams[0]));
        for (int i = 0; i < 3; i++)
            first[i] += at(&s, i) == 1;
        fake_close(f);
    }
    assert_int_equal(first[0] + first[1] + first[2], 40);
    for (int i = 0; i < 3; i++)
        assert_true(first[i] > 0);
}

static void run_external(struct fake *f) {
    struct orr__k_spin spin = {.ns = 1000000};
    cudaStream_t s = fake_stream(f);
    cudaEvent_t a = fake_event(f), b = fake_event(f), plain = fake_event(f);
    float ms = 0;
    REFUSED(cudaErrorInvalidValue, cudaEventRecordWithFlags(a, s, cudaEventRecordExternal));
    CALL(cudaEventRecordWithFlags(a, s, cudaEventRecordDefault));
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, s), 0);
    begin(f, s);
    CALL(cudaEventRecordWithFlags(a, s, cudaEventRecordExternal));
    assert_int_equal(fake_launch(f, ORR__K_spin, &spin, s), 0);
    CALL(cudaEventRecordWithFlags(b, s, cudaEventRecordExternal));
    CALL(cudaEventRecord(plain, s));
    cudaGraph_t graph = end(f, s);
    assert_int_equal(node_count(f, graph), 3);
    cudaGraphExec_t exec = instance(f, graph);
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, b));
    CALL(cudaGraphLaunch(exec, s));
    REFUSED(cudaErrorNotReady, cudaEventElapsedTime(&ms, a, b));
    CALL(cudaEventSynchronize(b));
    CALL(cudaEventElapsedTime(&ms, a, b));
    assert_true(ms >= 1);
    REFUSED(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, plain));
    REFUSED(cudaErrorCapturedEvent, cudaEventQuery(plain));
    REFUSED(cudaErrorCapturedEvent, cudaEventSynchronize(plain));
    REFUSED(cudaErrorCapturedEvent, cudaStreamWaitEvent(s, plain, 0));
    CALL(cudaEventDestroy(b));
    REFUSED(cudaErrorInvalidResourceHandle, cudaGraphLaunch(exec, s));
}

static void external_records_are_timed_and_plain_ones_are_edges(void **state) {
    (void)state;
    fake_each(run_external);
}

/* --- what is not allowed --- */

static void ends_with(struct fake *f, cudaStream_t stream, cudaError_t code) {
    cudaGraph_t graph = (cudaGraph_t)f;
    enum cudaStreamCaptureStatus status;
    REFUSED(code, cudaStreamEndCapture(stream, &graph));
    assert_null(graph);
    CALL(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
}

static void run_unjoined(struct fake *f) {
    static struct steps s;
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    clear(&s);
    begin(f, a);
    order(f, a, b);
    add(f, &s, 0, b);
    ends_with(f, a, cudaErrorStreamCaptureUnjoined);
    /* Joined, but for what came later. */
    begin(f, a);
    order(f, a, b);
    add(f, &s, 0, b);
    order(f, b, a);
    add(f, &s, 1, b);
    ends_with(f, a, cudaErrorStreamCaptureUnjoined);
    /* Both are ordinary streams again. */
    add(f, &s, 2, b);
    CALL(cudaStreamSynchronize(b));
    assert_int_equal(at(&s, 2), 1);
    assert_int_equal(at(&s, 0), 0);
}

static void all_forks_must_rejoin(void **state) {
    (void)state;
    fake_each(run_unjoined);
}

static void run_isolation(struct fake *f) {
    static struct steps s;
    enum cudaStreamCaptureStatus status;
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    cudaEvent_t outside = fake_event(f), never = fake_event(f);
    clear(&s);
    CALL(cudaEventRecord(outside, b));
    for (int i = 0; i < 2; i++) {
        begin(f, a);
        add(f, &s, 0, a);
        REFUSED(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(a, i ? never : outside, 0));
        CALL(cudaStreamIsCapturing(a, &status));
        assert_int_equal(status, cudaStreamCaptureStatusInvalidated);
        REFUSED(cudaErrorStreamCaptureInvalidated, cudaLaunchHostFunc(a, run_step, &s.steps[1]));
        ends_with(f, a, cudaErrorStreamCaptureInvalidated);
    }
}

static void a_capture_waits_for_nothing_outside(void **state) {
    (void)state;
    fake_each(run_isolation);
}

static void run_merge(struct fake *f) {
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    cudaEvent_t e = fake_event(f);
    begin(f, a);
    begin(f, b);
    CALL(cudaEventRecord(e, a));
    REFUSED(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(b, e, 0));
    ends_with(f, a, cudaErrorStreamCaptureInvalidated);
    ends_with(f, b, cudaErrorStreamCaptureInvalidated);
}

static void captures_do_not_merge(void **state) {
    (void)state;
    fake_each(run_merge);
}

static void run_ends(struct fake *f) {
    cudaGraph_t graph;
    enum cudaStreamCaptureStatus status;
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    REFUSED(cudaErrorStreamCaptureUnsupported,
            cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal));
    REFUSED(cudaErrorIllegalState, cudaStreamEndCapture(a, &graph));
    begin(f, a);
    CALL(cudaStreamIsCapturing(a, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    REFUSED(cudaErrorIllegalState, cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    order(f, a, b);
    REFUSED(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(b, &graph));
    ends_with(f, a, cudaErrorStreamCaptureInvalidated);
    begin(f, a); /* an empty graph is one, too */
    graph = end(f, a);
    assert_int_equal(node_count(f, graph), 0);
    CALL(cudaGraphLaunch(instance(f, graph), a));
    CALL(cudaStreamSynchronize(a));
}

static void a_capture_is_ended_by_its_origin(void **state) {
    (void)state;
    fake_each(run_ends);
}

static void run_forbidden(struct fake *f) {
    void *p;
    cudaStream_t a = fake_stream(f);
    cudaEvent_t e = fake_event(f), other = fake_event(f);
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    cudaMemPool_t pool;
    CALL(cudaMemPoolCreate(&pool, &props));
    for (int i = 0; i < 11; i++) {
        begin(f, a);
        CALL(cudaEventRecord(e, a));
        const struct orr__cuda_runtime_table *rt = f->rt;
        cudaError_t code = i == 0   ? rt->cudaMalloc(&p, 8)
                           : i == 1 ? rt->cudaMallocHost(&p, 8)
                           : i == 2 ? rt->cudaStreamSynchronize(a)
                           : i == 3 ? rt->cudaStreamQuery(a)
                           : i == 4 ? rt->cudaDeviceSynchronize()
                           : i == 5 ? rt->cudaEventQuery(e)
                           : i == 6 ? rt->cudaEventSynchronize(e)
                           : i == 7 ? rt->cudaFree(&p)
                           : i == 8 ? rt->cudaEventQuery(other)
                           : i == 9 ? rt->cudaEventSynchronize(other)
                                    : rt->cudaMallocFromPoolAsync(&p, 8, pool, a);
        assert_int_equal(code, i == 5 || i == 6 ? cudaErrorCapturedEvent
                                                : cudaErrorStreamCaptureUnsupported);
        ends_with(f, a, cudaErrorStreamCaptureInvalidated);
    }
    CALL(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    CALL(cudaMalloc(&p, 8));
    CALL(cudaFree(p));
    (void)end(f, a);
}

static void calls_that_break_a_capture(void **state) {
    (void)state;
    fake_each(run_forbidden);
}

static void run_abandoned(struct fake *f) {
    static struct steps s;
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    clear(&s);
    begin(f, a);
    order(f, a, b);
    add(f, &s, 0, b);
    CALL(cudaStreamDestroy(b));
    ends_with(f, a, cudaErrorStreamCaptureInvalidated);
    begin(f, a);
    add(f, &s, 0, a);
    CALL(cudaStreamDestroy(a));
    fake_nothing_is_alive(f);
    a = fake_stream(f); /* left capturing, and a graph left behind */
    begin(f, a);
    add(f, &s, 0, a);
    cudaGraph_t graph = end(f, a);
    (void)instance(f, graph);
    begin(f, a);
    add(f, &s, 0, a);
}

static void captures_that_nobody_ends(void **state) {
    (void)state;
    fake_each(run_abandoned);
}

/* --- any graph --- */

/* A random program of `count` steps in 4 streams with random waits, captured; every replay keeps
 * each stream's order and every wait. */
static void run_random(struct fake *f, uint64_t seed) {
    static struct steps s;
    enum { STREAMS = 4 };
    cudaStream_t streams[STREAMS];
    int last[STREAMS], before[VALUES][2];
    bool in[STREAMS] = {true};
    uint64_t state = seed + 1;
    clear(&s);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = fake_stream(f);
        last[i] = -1;
    }
    begin(f, streams[0]);
    int count = 1 + (int)random_below(&state, VALUES);
    for (int i = 0; i < count; i++) {
        int to = (int)random_below(&state, STREAMS), from = (int)random_below(&state, STREAMS);
        before[i][0] = last[to];
        before[i][1] = -1;
        from = in[from] ? from : 0;
        if (!in[to] || random_below(&state, 2)) {
            order(f, streams[from], streams[to]);
            in[to] = true;
            before[i][1] = last[from];
        }
        add(f, &s, i, streams[to]);
        last[to] = i;
    }
    for (int i = 1; i < STREAMS; i++)
        if (in[i])
            order(f, streams[i], streams[0]);
    cudaGraph_t graph = end(f, streams[0]);
    assert_int_equal(node_count(f, graph), (size_t)count);
    cudaGraphExec_t exec = instance(f, graph);
    for (int replay = 0; replay < 2; replay++) {
        clear(&s);
        CALL(cudaGraphLaunch(exec, streams[replay]));
        CALL(cudaStreamSynchronize(streams[replay]));
        for (int i = 0; i < count; i++) {
            assert_in_range(at(&s, i), 1, count);
            for (int k = 0; k < 2; k++)
                assert_true(before[i][k] < 0 || at(&s, before[i][k]) < at(&s, i));
        }
    }
}

static void any_graph_keeps_its_order(void **state) {
    (void)state;
    uint64_t seed = random_seed(5);
    for (uint64_t i = 0; i < 60; i++) {
        struct fake f;
        fake_open(&f, (struct orr_fake_cuda_options){.engine = i % 4 ? ORR_FAKE_SIMULATED
                                                                     : ORR_FAKE_THREADS,
                                                     .seed = seed + i,
                                                     .jitter_ns = i % 3 ? 10000 : 0});
        run_random(&f, seed + i);
        fake_close(&f);
    }
}

static void short_of_memory(struct memory_counting *memory, void *context) {
    static struct steps s;
    struct fake f = {0};
    struct orr_fake_cuda_options options = {.engine = *(enum orr_fake_engine *)context};
    cudaStream_t a = NULL, b = NULL;
    cudaEvent_t e = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (orr_fake_cuda_open(&options, &memory->table, &f.cuda, &f.error) != ORR_OK)
        return;
    f.rt = &orr_fake_cuda_api(f.cuda)->rt;
    clear(&s);
    (void)f.rt->cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, 0);
    (void)f.rt->cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, 0);
    (void)f.rt->cudaEventCreateWithFlags(&e, 0);
    (void)f.rt->cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal);
    (void)f.rt->cudaLaunchHostFunc(a, run_step, &s.steps[0]);
    (void)f.rt->cudaEventRecord(e, a);
    (void)f.rt->cudaStreamWaitEvent(b, e, 0);
    (void)f.rt->cudaLaunchHostFunc(b, run_step, &s.steps[1]);
    (void)f.rt->cudaEventRecord(e, b);
    (void)f.rt->cudaStreamWaitEvent(a, e, 0);
    (void)f.rt->cudaStreamEndCapture(a, &graph);
    (void)f.rt->cudaGraphInstantiate(&exec, graph, 0);
    (void)f.rt->cudaGraphLaunch(exec, a);
    (void)f.rt->cudaGraphLaunch(exec, b);
    (void)f.rt->cudaDeviceSynchronize();
    (void)f.rt->cudaGraphExecDestroy(exec);
    (void)f.rt->cudaGraphDestroy(graph);
    orr_fake_cuda_close(&f.cuda);
}

static void each_request_for_memory_may_fail(void **state) {
    (void)state;
    for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++)
        assert_true(fail_each_request(short_of_memory, &engine) > 25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_captured_fork_and_join_is_replayed),
        cmocka_unit_test(a_launch_has_its_place_in_its_stream),
        cmocka_unit_test(launches_of_an_instance_do_not_overlap),
        cmocka_unit_test(orders_of_a_graph_depend_on_the_seed),
        cmocka_unit_test(external_records_are_timed_and_plain_ones_are_edges),
        cmocka_unit_test(all_forks_must_rejoin),
        cmocka_unit_test(a_capture_waits_for_nothing_outside),
        cmocka_unit_test(captures_do_not_merge),
        cmocka_unit_test(a_capture_is_ended_by_its_origin),
        cmocka_unit_test(calls_that_break_a_capture),
        cmocka_unit_test(captures_that_nobody_ends),
        cmocka_unit_test(any_graph_keeps_its_order),
        cmocka_unit_test(each_request_for_memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
