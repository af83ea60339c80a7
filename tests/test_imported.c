/* Other tools' timelines through the analyzer: what names say, calls of several records, waits,
 * syncs, profiler overhead, graphs that lack ops, and what the doctor says of each fault; then
 * random timelines full of nonsense, which must be analysed with every ns in one class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/analysis.h"
#include "analyzer/api_names.h"
#include "analyzer/report_doctor.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "tests/support.h"
#include "trace/import/builder.h"

/* ------------------------------------------------------------------------------------------------
 * Building */

struct trace {
    struct orr_memory memory;
    struct orr__builder *builder;
    struct orr_timeline *timeline;
    struct orr_analysis *analysis;
};

static void start(struct trace *t) {
    *t = (struct trace){.memory = orr_memory_system()};
    assert_int_equal(orr__builder_create(&t->memory, "kineto", &t->builder), ORR_OK);
    orr__builder_source(t->builder)->knows_waits = true;
    orr__builder_source(t->builder)->knows_syncs = true;
}

static const char *text(struct trace *t, const char *words) {
    return orr__builder_text(t->builder, words, strlen(words));
}

static uint32_t host(struct trace *t, uint64_t process, const char *label) {
    return orr__builder_host(t->builder, process, label, strlen(label));
}

static void call_of(struct trace *t, uint32_t thread, uint64_t correlation, const char *name,
                    int64_t begin, int64_t end) {
    struct orr_timeline_call *call = orr__builder_call(t->builder);
    assert_non_null(call);
    call->host = thread;
    call->correlation = correlation;
    call->name = text(t, name);
    call->begin_ns = begin;
    call->end_ns = end;
}

static void call(struct trace *t, uint64_t correlation, const char *name, int64_t begin,
                 int64_t end) {
    call_of(t, host(t, 0, "1/1"), correlation, name, begin, end);
}

static struct orr_timeline_command *op_of(struct trace *t, uint32_t device, uint64_t process,
                                          int64_t stream, uint64_t correlation, const char *name,
                                          int64_t begin, int64_t end) {
    uint32_t place = orr__builder_stream(t->builder, device, process, 0, stream);
    struct orr_timeline_command *command = orr__builder_command(t->builder);
    assert_non_null(command);
    command->kind = strncmp(name, "Memcpy", 6) == 0   ? ORR_COMMAND_COPY
                    : strncmp(name, "Memset", 6) == 0 ? ORR_COMMAND_FILL
                                                      : ORR_COMMAND_KERNEL;
    command->device = device;
    command->stream = place;
    command->name = text(t, name);
    command->correlation = correlation;
    command->start_ns = begin;
    command->finish_ns = end;
    return command;
}

static struct orr_timeline_command *op(struct trace *t, int64_t stream, uint64_t correlation,
                                       const char *name, int64_t begin, int64_t end) {
    return op_of(t, 0, 0, stream, correlation, name, begin, end);
}

static const struct orr_analysis *analyze(struct trace *t) {
    struct orr_error error = {0};
    struct orr_analysis_options options = orr_analysis_options_default();
    assert_int_equal(orr__builder_finish(&t->builder, &t->timeline), ORR_OK);
    if (orr_analyze(t->timeline, &options, &t->memory, &t->analysis, &error) != ORR_OK) {
        fail_msg("%s", error.text);
    }
    return t->analysis;
}

static void finish(struct trace *t) {
    orr_analysis_destroy(&t->analysis);
    orr_timeline_destroy(&t->timeline);
    orr__builder_destroy(&t->builder);
}

static const struct orr_doctor_check *check(const struct orr_analysis *a, const char *kind) {
    for (size_t i = 0; i < a->doctor.check_count; i++) {
        if (strcmp(a->doctor.checks[i].kind, kind) == 0) {
            return &a->doctor.checks[i];
        }
    }
    fail_msg("no check %s", kind);
    return NULL;
}

static bool has_check(const struct orr_analysis *a, const char *kind) {
    for (size_t i = 0; i < a->doctor.check_count; i++) {
        if (strcmp(a->doctor.checks[i].kind, kind) == 0) {
            return true;
        }
    }
    return false;
}

static void answers(const struct orr_analysis *a, enum orr_question question,
                    enum orr_ability ability, const char *reason) {
    assert_int_equal(a->doctor.answers[question].ability, ability);
    if (reason) {
        assert_non_null(a->doctor.answers[question].reason);
        if (!strstr(a->doctor.answers[question].reason, reason)) {
            fail_msg("\"%s\" is not in \"%s\"", reason, a->doctor.answers[question].reason);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Names */

static void names_say_what_a_call_does(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t flags;
    } cases[] = {
        {"cudaLaunchKernel", ORR_CALL_LAUNCH},
        {"cuLaunchKernelEx", ORR_CALL_LAUNCH},
        {"hipModuleLaunchKernel", ORR_CALL_LAUNCH},
        {"cudaGraphLaunch", ORR_CALL_LAUNCH | ORR_CALL_GRAPH},
        {"hipGraphLaunch", ORR_CALL_LAUNCH | ORR_CALL_GRAPH},
        {"cudaDeviceSynchronize", ORR_CALL_WAITING},
        {"hipStreamSynchronize", ORR_CALL_WAITING},
        {"cudaMemcpy", ORR_CALL_WAITING},
        {"cudaMemcpy2D", ORR_CALL_WAITING},
        {"cuMemcpyDtoH_v2", ORR_CALL_WAITING},
        {"hipMemcpyWithStream", ORR_CALL_WAITING},
        {"cudaMemcpyAsync", 0},
        {"hipMemcpyAsync", 0},
        {"cudaMemsetAsync", 0},
        {"cudaEventQuery", 0},
        {"cudaStreamWaitEvent", 0},
        {"cudaMalloc", ORR_CALL_BREAKING},
        {"cudaMallocHost", ORR_CALL_BREAKING},
        {"cudaMallocAsync", 0},
        {"cudaFree", ORR_CALL_BREAKING},
        {"cudaFreeAsync", 0},
        {"cudaHostAlloc", ORR_CALL_BREAKING},
        {"cudaHostRegister", ORR_CALL_BREAKING},
        {"cuModuleLoadData", ORR_CALL_BREAKING},
        {"cudaStreamCreateWithPriority", ORR_CALL_BREAKING},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (orr__api_flags(cases[i].name) != cases[i].flags) {
            fail_msg("%s: %u", cases[i].name, orr__api_flags(cases[i].name));
        }
    }
}

static void names_say_which_kernels_communicate(void **state) {
    (void)state;
    static const char *const yes[] = {"ncclKernel_AllReduce_RING_LL_Sum_float",
                                      "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                                      "void RCCL::x",
                                      "HcclAllReduce",
                                      "deep_ep::intranode::dispatch<4, 768>",
                                      "deepep_combine",
                                      "NvShmem_put",
                                      "mscclKernel",
                                      "nnccl"};
    static const char *const no[] = {"gemm", "", "deep_gemm", "deep__ep", "nvshme", "ncc l", "ncc"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        assert_true(orr__communication_kernel(yes[i]));
    }
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        assert_false(orr__communication_kernel(no[i]));
    }
}

/* ------------------------------------------------------------------------------------------------
 * Calls */

static void records_of_one_correlation_are_one_call(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 5, "cuLaunchKernel", 110, 150); /* inside the other, and first in the file */
    call(&t, 5, "cudaLaunchKernel", 100, 200);
    op(&t, 7, 5, "k", 300, 400);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->events.call_count, 1);
    assert_int_equal(a->events.source.api_calls, 2);
    assert_string_equal(a->events.calls[0].name, "cudaLaunchKernel");
    assert_int_equal(a->events.calls[0].records, 2);
    assert_int_equal(a->exact.ops_multi_api, 1);
    assert_int_equal(a->split.submit_ns, 100);
    assert_int_equal(a->split.dispatch_ns, 100);
    assert_int_equal(check(a, "merged_calls")->count, 1);
    assert_false(has_check(a, "duplicate_correlations"));
    finish(&t);
}

static void a_correlation_used_twice_is_told(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 5, "cudaLaunchKernel", 100, 200);
    call(&t, 5, "cudaLaunchKernel", 5100, 5200);
    op(&t, 7, 5, "k", 300, 400);
    op(&t, 7, 5, "k", 5300, 5400);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(check(a, "duplicate_correlations")->count, 1);
    assert_int_equal(check(a, "duplicate_correlations")->worst_ns, 5100);
    assert_int_equal(check(a, "duplicate_correlations")->severity, ORR_DOCTOR_WARNING);
    assert_int_equal(a->events.calls[0].op_count, 2);
    finish(&t);
}

static void calls_that_cannot_be_own_nothing(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 5, "cudaLaunchKernel", 200, 100); /* backwards */
    call(&t, 6, "cudaLaunchKernel", 100, 120);
    call(&t, ORR_CORRELATION_NONE, "cudaGetDevice", 0, 50);
    op(&t, 7, 5, "k", 300, 400);
    op(&t, 7, 6, "k", 500, 600);
    op(&t, 7, ORR_CORRELATION_NONE, "k", 700, 800);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->events.source.api_calls, 3);
    assert_int_equal(a->events.source.bad_calls, 1);
    assert_int_equal(a->split.linked, 1);
    assert_int_equal(a->split.unlinked, 2);
    assert_int_equal(check(a, "bad_calls")->count, 1);
    assert_int_equal(check(a, "unlinked_ops")->count, 2);
    finish(&t);
}

static void processes_do_not_share_correlations(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call_of(&t, host(&t, 1, "11"), 5, "cudaLaunchKernel", 100, 200);
    call_of(&t, host(&t, 2, "22"), 5, "cudaLaunchKernel", 1100, 1200);
    op_of(&t, 0, 1, 7, 5, "k", 300, 400);
    op_of(&t, 0, 2, 7, 5, "k", 1300, 1400);
    op_of(&t, 0, 3, 7, 5, "k", 1500, 1600);
    struct orr_timeline_overhead *overhead = orr__builder_overhead(t.builder);
    *overhead = (struct orr_timeline_overhead){2, "Buffer Flush", 500, 600, true};
    overhead = orr__builder_overhead(t.builder);
    *overhead = (struct orr_timeline_overhead){1, "Buffer Flush", 700, 750, true};
    overhead = orr__builder_overhead(t.builder);
    *overhead = (struct orr_timeline_overhead){2, "Command Buffer Full", 800, 900, false};
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->events.call_count, 2);
    assert_int_equal(a->split.linked, 2);
    assert_int_equal(a->exact.fanout_corrs, 0);
    /* The gap [400, 1300) is fed by process 2: of the three records only its own first counts. */
    assert_int_equal(a->devices[0].classes[ORR_CLASS_PROFILER_OVERHEAD], 100);
    char *json = NULL;
    size_t length;
    assert_int_equal(orr_report_json(a, &json, &length), ORR_OK);
    assert_non_null(strstr(json, "\"processes\": [1, 2, 3]"));
    orr_memory_free(&t.memory, json);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * Ops, waits, syncs */

static void kernels_communicate_by_their_names(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    orr__builder_source(t.builder)->world_size = 2;
    op(&t, 7, 1, "gemm", 100, 200);
    op(&t, 8, 2, "ncclDevKernel_AllReduce", 150, 300);
    struct orr_timeline_command *copy = op(&t, 9, 3, "Memcpy HtoD", 280, 350);
    copy->bytes_written = 4096;
    op(&t, 9, 4, "Memset", 350, 360);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->devices[0].times.compute_ns, 100);
    assert_int_equal(a->devices[0].times.comm_ns, 150);
    assert_int_equal(a->devices[0].times.comm_compute_ns, 50);
    assert_int_equal(a->devices[0].times.copy_ns, 80);
    assert_int_equal(a->exact.kernels, 2);
    assert_int_equal(a->exact.memcpy_bytes, 4096);
    assert_false(has_check(a, "no_communication"));
    answers(a, ORR_QUESTION_COLLECTIVES, ORR_ABILITY_PARTLY, "1 of 1");
    finish(&t);
}

/* A group of two ranks, of which `members` are in the trace. */
static const struct orr_analysis *a_collective_of_two(struct trace *t, unsigned members) {
    start(t);
    struct orr_timeline_communicator *communicator = orr__builder_communicator(t->builder);
    uint32_t id = communicator->id;
    communicator->name = text(t, "group");
    struct orr_timeline_collective *collective = orr__builder_collective(t->builder);
    uint64_t number = collective->id;
    collective->communicator = id;
    collective->kind = text(t, "all_reduce");
    collective->bytes = 1000;
    for (unsigned rank = 0; rank < 2; rank++) {
        struct orr_timeline_member *member = orr__builder_member(t->builder);
        member->communicator = id;
        member->rank = rank;
    }
    for (unsigned rank = 0; rank < members; rank++) {
        uint64_t command =
            op_of(t, rank, 0, 7, 1 + rank, "ncclAllReduce", 100 + 50 * rank, 300)->id;
        struct orr_timeline_collective_member *member = orr__builder_collective_member(t->builder);
        *member = (struct orr_timeline_collective_member){number, command, rank};
    }
    return analyze(t);
}

static void who_came_last_is_known_with_all_members(void **state) {
    (void)state;
    struct trace t;
    char *json = NULL;
    size_t length;
    const struct orr_analysis *a = a_collective_of_two(&t, 2);
    assert_int_equal(a->roofline.collectives[0].partial, 0);
    assert_int_equal(a->roofline.collectives[0].transfer_ns, 150);
    assert_int_equal(a->roofline.collectives[0].arrival_ns, 50);
    answers(a, ORR_QUESTION_COLLECTIVES, ORR_ABILITY_YES, NULL);
    finish(&t);
    a = a_collective_of_two(&t, 1);
    assert_int_equal(a->roofline.collectives[0].partial, 1);
    assert_int_equal(a->roofline.collectives[0].bus_bandwidth, 0);
    answers(a, ORR_QUESTION_COLLECTIVES, ORR_ABILITY_PARTLY, "1 of 1 have members in no trace");
    assert_int_equal(orr_report_json(a, &json, &length), ORR_OK);
    assert_non_null(strstr(json, "\"transfer_ns\": null, \"arrival_wait_ns\": null"));
    assert_non_null(strstr(json, "\"waiting_ns\": null"));
    orr_memory_free(&t.memory, json);
    finish(&t);
}

static void a_job_without_communication_is_an_error(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    orr__builder_source(t.builder)->world_size = 8;
    op(&t, 7, 1, "gemm", 100, 200);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(check(a, "no_communication")->severity, ORR_DOCTOR_ERROR);
    answers(a, ORR_QUESTION_COMMUNICATION, ORR_ABILITY_NO, "8 processes");
    finish(&t);
}

static void waits_between_streams_delay_ops(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 1, "cudaLaunchKernel", 0, 10);
    call(&t, 2, "cudaEventRecord", 20, 30);
    call(&t, 3, "cudaStreamWaitEvent", 40, 50);
    call(&t, 4, "cudaLaunchKernel", 60, 70);
    op(&t, 20, 1, "produce", 100, 500);
    op(&t, 7, 4, "consume", 520, 600);
    uint32_t waiting = orr__builder_stream(t.builder, 0, 0, 0, 7);
    uint32_t source = orr__builder_stream(t.builder, 0, 0, 0, 20);
    orr__builder_wait(t.builder, &(struct orr__wait){.correlation = 3,
                                                     .record_correlation = 2,
                                                     .stream = waiting,
                                                     .source = source,
                                                     .ts_ns = 41});
    orr__builder_wait(t.builder, &(struct orr__wait){.correlation = 3,
                                                     .record_correlation = 99,
                                                     .stream = waiting,
                                                     .source = source,
                                                     .ts_ns = 41});
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->events.source.event_waits, 2);
    assert_int_equal(a->events.source.event_waits_unresolved, 1);
    assert_int_equal(a->split.dep_wait_ns, 430);
    assert_int_equal(check(a, "unresolved_waits")->count, 1);
    answers(a, ORR_QUESTION_DEPENDENCIES, ORR_ABILITY_PARTLY, "1 of 2");
    finish(&t);
}

static void only_calls_that_wait_observe(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 1, "cudaLaunchKernel", 0, 10);
    call(&t, 2, "cudaEventQuery", 100, 320);
    call(&t, 3, "cudaStreamSynchronize", 330, 400);
    op(&t, 7, 1, "k", 50, 300);
    for (uint64_t correlation = 2; correlation <= 3; correlation++) {
        struct orr_timeline_sync *sync = orr__builder_sync(t.builder);
        sync->kind = correlation == 2 ? ORR_SYNC_EVENT : ORR_SYNC_STREAM;
        sync->stream = orr__builder_stream(t.builder, 0, 0, 0, 7);
        orr__builder_link_sync(t.builder, 0, correlation);
    }
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->split.sync_ops, 1);
    assert_int_equal(a->split.sync_ns, 70);
    assert_int_equal(a->split.host_waits, 1);
    finish(&t);
}

static void a_blocking_copy_waits_for_itself(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 1, "cudaMemcpy", 0, 400);
    op(&t, 7, 1, "Memcpy DtoH", 50, 300);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->split.sync_ops, 1);
    assert_int_equal(a->split.sync_ns, 100);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * Graphs */

/* Two launches of graph 5 with `first` and `second` nodes. */
static const struct orr_analysis *two_replays(struct trace *t, int first, int second) {
    start(t);
    call(t, 1, "cudaGraphLaunch", 0, 100);
    call(t, 2, "cudaGraphLaunch", 10000, 10100);
    for (int i = 0; i < first; i++) {
        op(t, 7, 1, "node", 200 + 100 * i, 300 + 100 * i)->graph = 5;
    }
    for (int i = 0; i < second; i++) {
        op(t, 7, 2, "node", 10200 + 100 * i, 10300 + 100 * i)->graph = 5;
    }
    return analyze(t);
}

static void whole_replays_are_fine(void **state) {
    (void)state;
    struct trace t;
    const struct orr_analysis *a = two_replays(&t, 4, 4);
    assert_int_equal(a->replays.launches, 2);
    assert_false(has_check(a, "graph_short"));
    assert_int_not_equal(a->devices[0].verdict, ORR_VERDICT_UNRELIABLE);
    answers(a, ORR_QUESTION_GRAPHS, ORR_ABILITY_YES, NULL);
    finish(&t);
}

static void a_replay_that_lacks_ops_makes_idle_time_unreliable(void **state) {
    (void)state;
    struct trace t;
    const struct orr_analysis *a = two_replays(&t, 4, 1);
    assert_int_equal(a->replays.short_ones, 1);
    assert_int_equal(a->replays.missing_most, 3);
    assert_int_equal(check(a, "graph_short")->count, 1);
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_UNRELIABLE);
    answers(a, ORR_QUESTION_HOST, ORR_ABILITY_NO, "lack their ops");
    answers(a, ORR_QUESTION_TIME, ORR_ABILITY_PARTLY, "lower bound");
    finish(&t);
}

static void a_replay_without_ops_does_too(void **state) {
    (void)state;
    struct trace t;
    const struct orr_analysis *a = two_replays(&t, 4, 0);
    assert_int_equal(a->replays.without_ops, 1);
    assert_int_equal(check(a, "graph_without_ops")->count, 1);
    assert_int_equal(a->events.calls[check(a, "graph_without_ops")->first_call].begin_ns, 10000);
    assert_int_equal(a->devices[0].verdict, ORR_VERDICT_UNRELIABLE);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * The doctor */

static void damaged_records_are_counted_and_left_out(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 1, "cudaLaunchKernel", 150, 160);
    op(&t, 7, 1, "early", 100, 200);
    op(&t, 7, 2, "overlapping", 180, 250);
    op(&t, 7, 3, "lost", 0, 0);
    op(&t, 7, 4, "backwards", 900, 500);
    op(&t, 7, 5, "empty", 300, 300);
    op(&t, 7, 6, "nowhere", 400, INT64_MAX);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(a->events.op_count, 3);
    assert_int_equal(a->events.source.bad_ops, 3);
    assert_int_equal(check(a, "bad_ops")->count, 3);
    assert_int_equal(check(a, "bad_ops")->worst_ns, 400);
    assert_non_null(strstr(check(a, "bad_ops")->message,
                           "1 without a place or a time, or with a time beyond what fits"));
    assert_int_equal(check(a, "clock_violation")->worst_ns, 50);
    assert_string_equal(a->events.ops[check(a, "clock_violation")->first_op].name, "early");
    assert_int_equal(check(a, "stream_overlap")->worst_ns, 20);
    assert_non_null(strstr(check(a, "stream_overlap")->message, "sum to 170 ns, and to 150 ns"));
    assert_int_equal(check(a, "zero_length_ops")->count, 1);
    assert_int_equal(a->devices[0].times.span_ns, 200);
    assert_int_equal(a->devices[0].residual_ns, 0);
    finish(&t);
}

/* Ops of one start are one place: none is cut at the other. */
static void long_overlaps_are_a_warning(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    op(&t, 7, ORR_CORRELATION_NONE, "twin", 0, 100);
    op(&t, 7, ORR_CORRELATION_NONE, "twin", 0, 200);
    op(&t, 7, ORR_CORRELATION_NONE, "endless", 1000, 9000000);
    op(&t, 7, ORR_CORRELATION_NONE, "next", 2000, 3000);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(check(a, "stream_overlap")->severity, ORR_DOCTOR_WARNING);
    assert_non_null(strstr(check(a, "stream_overlap")->message, "and to 2.30 us"));
    assert_non_null(strstr(check(a, "stream_overlap")->message, "most by endless"));
    finish(&t);
}

static void what_an_importer_says_is_passed_on(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    orr__builder_finding(t.builder, "import_truncated", "warning", "", "cut at byte %d", 77);
    orr__builder_finding(t.builder, "import_missing_table", "note", "", "no table X");
    op(&t, 7, 1, "k", 100, 200);
    const struct orr_analysis *a = analyze(&t);
    assert_int_equal(check(a, "import_truncated")->severity, ORR_DOCTOR_WARNING);
    assert_string_equal(check(a, "import_truncated")->message, "cut at byte 77");
    assert_int_equal(check(a, "import_missing_table")->severity, ORR_DOCTOR_NOTE);
    for (size_t i = 1; i < a->doctor.check_count; i++) {
        assert_true(a->doctor.checks[i - 1].severity >= a->doctor.checks[i].severity);
    }
    finish(&t);
}

static void a_trace_without_ops_is_abstained_from(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    call(&t, 1, "cudaLaunchKernel", 0, 10);
    const struct orr_analysis *a = analyze(&t);
    assert_true(has_check(a, "no_ops"));
    for (unsigned q = 0; q < ORR_QUESTION_COUNT; q++) {
        answers(a, (enum orr_question)q, ORR_ABILITY_NO, "no work of a device");
    }
    char *words = NULL;
    size_t length;
    assert_int_equal(orr_report_doctor_text(a, &words, &length), ORR_OK);
    assert_non_null(strstr(words, "warning: no_ops"));
    orr_memory_free(&t.memory, words);
    assert_int_equal(orr_report_text(a, &words, &length), ORR_OK);
    orr_memory_free(&t.memory, words);
    finish(&t);
}

static void what_is_not_recorded_is_not_claimed(void **state) {
    (void)state;
    struct trace t;
    start(&t);
    orr__builder_source(t.builder)->knows_waits = false;
    orr__builder_source(t.builder)->knows_syncs = false;
    call(&t, 1, "hipLaunchKernel", 0, 10);
    call(&t, 2, "hipDeviceSynchronize", 20, 300);
    call(&t, 3, "hipLaunchKernel", 10, 15);
    op(&t, 0, 1, "k", 100, 200);
    op(&t, 1, 3, "k", 200, 300);
    const struct orr_analysis *a = analyze(&t);
    answers(a, ORR_QUESTION_SPLIT, ORR_ABILITY_PARTLY, "dispatch contains them");
    answers(a, ORR_QUESTION_DEPENDENCIES, ORR_ABILITY_NO, NULL);
    answers(a, ORR_QUESTION_SYNC, ORR_ABILITY_PARTLY, "by their names: 1");
    answers(a, ORR_QUESTION_ROOFLINE, ORR_ABILITY_NO, "0 of 2");
    answers(a, ORR_QUESTION_MEMORY, ORR_ABILITY_NO, NULL);
    answers(a, ORR_QUESTION_RACES, ORR_ABILITY_NO, NULL);
    char *json = NULL;
    size_t length;
    assert_int_equal(orr_report_json(a, &json, &length), ORR_OK);
    assert_non_null(strstr(json, "\"dep_wait_ns\": null"));
    assert_non_null(strstr(json, "\"sync_ns\": null"));
    orr_memory_free(&t.memory, json);
    finish(&t);
}

/* ------------------------------------------------------------------------------------------------
 * Nonsense */

static int64_t any_time(uint64_t *random) {
    static const int64_t far[] = {INT64_MIN, INT64_MAX,        0,
                                  -1,        INT64_C(1) << 61, -(INT64_C(1) << 61) - 1};
    if (random_below(random, 40) == 0) {
        return far[random_below(random, sizeof far / sizeof *far)];
    }
    return (int64_t)random_below(random, 3000) - 100;
}

static int64_t after(uint64_t *random, int64_t begin) {
    bool wild = random_below(random, 20) == 0 || begin > 4000 || begin < -4000;
    return wild ? any_time(random) : begin + (int64_t)random_below(random, 200);
}

static void add_nonsense(struct trace *t, uint64_t *random) {
    static const char *const api[] = {"cudaLaunchKernel", "cudaGraphLaunch",       "cudaMemcpy",
                                      "cudaMalloc",       "cudaStreamSynchronize", ""};
    static const char *const work[] = {"gemm", "ncclAllReduce", "Memcpy HtoD", "Memset", ""};
    static const char *const labels[] = {"1/1", "1/10", "1/9", ""};
    for (size_t i = random_below(random, 40); i > 0; i--) {
        uint32_t thread = host(t, random_below(random, 3), labels[random_below(random, 4)]);
        int64_t begin = any_time(random);
        uint64_t correlation = random_below(random, 25);
        call_of(t, random_below(random, 30) == 0 ? 77 : thread,
                correlation == 0 ? ORR_CORRELATION_NONE : correlation, api[random_below(random, 6)],
                begin, after(random, begin));
    }
    for (size_t i = random_below(random, 60); i > 0; i--) {
        int64_t begin = any_time(random);
        struct orr_timeline_command *c =
            op_of(t, (uint32_t)random_below(random, 3), random_below(random, 3),
                  (int64_t)random_below(random, 3), random_below(random, 25),
                  work[random_below(random, 5)], begin, after(random, begin));
        c->graph = random_below(random, 3);
        c->bytes_written = random_below(random, 5) == 0 ? UINT64_MAX : 100;
        if (random_below(random, 50) == 0) {
            c->stream = 1000;
        }
    }
    for (size_t i = random_below(random, 12); i > 0; i--) {
        orr__builder_wait(
            t->builder,
            &(struct orr__wait){
                .process = random_below(random, 3),
                .correlation = random_below(random, 25),
                .record_correlation = random_below(random, 25),
                .stream = orr__builder_stream(t->builder, (uint32_t)random_below(random, 3),
                                              random_below(random, 3), 0,
                                              (int64_t)random_below(random, 4)),
                .source = random_below(random, 5) == 0
                              ? ORR_ID_NONE
                              : orr__builder_stream(t->builder, (uint32_t)random_below(random, 3),
                                                    random_below(random, 3), 0,
                                                    (int64_t)random_below(random, 4)),
                .ts_ns = any_time(random)});
    }
    for (size_t i = random_below(random, 6); i > 0; i--) {
        struct orr_timeline_sync *sync = orr__builder_sync(t->builder);
        sync->kind = (enum orr_sync_kind)random_below(random, ORR_SYNC_KIND_COUNT);
        sync->device = (uint32_t)random_below(random, 5);
        if (random_below(random, 2) == 0) {
            sync->stream = orr__builder_stream(t->builder, 0, 0, 0, 1);
        }
        orr__builder_link_sync(t->builder, random_below(random, 3), random_below(random, 25));
        struct orr_timeline_overhead *overhead = orr__builder_overhead(t->builder);
        overhead->process = random_below(random, 3);
        overhead->profiler = random_below(random, 2) == 0;
        overhead->begin_ns = any_time(random);
        overhead->end_ns = after(random, overhead->begin_ns);
    }
}

static void reports_can_be_made(const struct orr_analysis *a) {
    char *words = NULL;
    size_t length;
    assert_int_equal(orr_report_json(a, &words, &length), ORR_OK);
    orr_memory_free(a->memory, words);
    assert_int_equal(orr_report_text(a, &words, &length), ORR_OK);
    orr_memory_free(a->memory, words);
    assert_int_equal(orr_report_doctor_text(a, &words, &length), ORR_OK);
    orr_memory_free(a->memory, words);
    assert_int_equal(orr_report_doctor_json(a, &words, &length), ORR_OK);
    orr_memory_free(a->memory, words);
}

static void nonsense_is_analysed_and_conserved(void **state) {
    (void)state;
    uint64_t random = random_seed(4711);
    for (int round = 0; round < 600; round++) {
        struct trace t;
        start(&t);
        add_nonsense(&t, &random);
        const struct orr_analysis *a = analyze(&t);
        uint64_t ops = 0;
        for (size_t d = 0; d < a->device_count; d++) {
            const struct orr_device_report *r = &a->devices[d];
            int64_t sum = 0;
            for (unsigned c = 0; c < ORR_CLASS_BEFORE_FIRST; c++) {
                assert_true(r->times.classes[c] >= 0);
                sum += r->times.classes[c];
            }
            assert_int_equal(sum, r->times.span_ns);
            assert_int_equal(r->residual_ns, 0);
            assert_true(r->times.busy_ns <= r->times.span_ns);
            ops += r->times.ops;
        }
        assert_int_equal(ops, a->events.op_count);
        assert_int_equal(a->split.linked + a->split.unlinked, a->events.op_count);
        const struct orr_split *s = &a->split;
        assert_int_equal(s->submit_ns + s->stream_wait_ns + s->dep_wait_ns + s->dispatch_ns +
                             s->device_ns,
                         s->total_ns);
        int64_t path = 0;
        for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
            path += a->path.kinds[k];
        }
        assert_int_equal(path, a->end_ns - a->begin_ns);
        reports_can_be_made(a);
        finish(&t);
    }
}

/* With many streams the critical path looks for awaited ops in another way. Streams in which
 * nothing ran make many of few, and must not change it. */
static void streams_without_ops_do_not_change_the_path(void **state) {
    (void)state;
    uint64_t random = random_seed(815);
    for (int round = 0; round < 300; round++) {
        struct trace few, many;
        uint64_t again = random;
        start(&few);
        start(&many);
        add_nonsense(&few, &random);
        add_nonsense(&many, &again);
        for (int number = 0; number < 100; number++) {
            orr__builder_stream(many.builder, 5, 9, 0, number);
        }
        const struct orr_critical_path *p = &analyze(&few)->path, *q = &analyze(&many)->path;
        assert_int_equal(p->segment_count, q->segment_count);
        for (size_t i = 0; i < p->segment_count; i++) {
            assert_int_equal(p->segments[i].kind, q->segments[i].kind);
            assert_int_equal(p->segments[i].begin_ns, q->segments[i].begin_ns);
            assert_int_equal(p->segments[i].op, q->segments[i].op);
            assert_int_equal(p->segments[i].call, q->segments[i].call);
        }
        finish(&few);
        finish(&many);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Memory */

static void analyze_failing(struct memory_counting *memory, void *context) {
    struct orr_timeline *timeline = context;
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *a = NULL;
    struct orr_error error = {0};
    char *words = NULL;
    size_t length;
    enum orr_status status = orr_analyze(timeline, &options, &memory->table, &a, &error);
    if (status == ORR_OK) {
        status = orr_report_doctor_text(a, &words, &length);
        orr_memory_free(&memory->table, words);
    }
    if (status == ORR_OK) {
        status = orr_report_doctor_json(a, &words, &length);
        orr_memory_free(&memory->table, words);
    }
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    orr_analysis_destroy(&a);
}

static void a_failed_allocation_leaks_nothing(void **state) {
    (void)state;
    struct trace t;
    uint64_t random = 5;
    start(&t);
    add_nonsense(&t, &random);
    orr__builder_finding(t.builder, "import_repaired", "warning", "", "something");
    assert_int_equal(orr__builder_finish(&t.builder, &t.timeline), ORR_OK);
    assert_true(fail_each_request(analyze_failing, t.timeline) > 50);
    finish(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_what_a_call_does),
        cmocka_unit_test(names_say_which_kernels_communicate),
        cmocka_unit_test(records_of_one_correlation_are_one_call),
        cmocka_unit_test(a_correlation_used_twice_is_told),
        cmocka_unit_test(calls_that_cannot_be_own_nothing),
        cmocka_unit_test(processes_do_not_share_correlations),
        cmocka_unit_test(kernels_communicate_by_their_names),
        cmocka_unit_test(who_came_last_is_known_with_all_members),
        cmocka_unit_test(a_job_without_communication_is_an_error),
        cmocka_unit_test(waits_between_streams_delay_ops),
        cmocka_unit_test(only_calls_that_wait_observe),
        cmocka_unit_test(a_blocking_copy_waits_for_itself),
        cmocka_unit_test(whole_replays_are_fine),
        cmocka_unit_test(a_replay_that_lacks_ops_makes_idle_time_unreliable),
        cmocka_unit_test(a_replay_without_ops_does_too),
        cmocka_unit_test(damaged_records_are_counted_and_left_out),
        cmocka_unit_test(long_overlaps_are_a_warning),
        cmocka_unit_test(what_an_importer_says_is_passed_on),
        cmocka_unit_test(a_trace_without_ops_is_abstained_from),
        cmocka_unit_test(what_is_not_recorded_is_not_claimed),
        cmocka_unit_test(nonsense_is_analysed_and_conserved),
        cmocka_unit_test(streams_without_ops_do_not_change_the_path),
        cmocka_unit_test(a_failed_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
