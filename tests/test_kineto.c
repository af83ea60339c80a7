/* Traces of PyTorch's profiler: every dialect becomes the same timeline, broken files are read as
 * far as they go, and nothing is said that the file does not say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/random_numbers.h"
#include "tests/support.h"
#include "tests/trace_support.h"
#include "trace/import.h"
#include "trace/import/formats.h"

/* -- Reading from memory ----------------------------------------------------------------------- */

static enum orr_status read_bytes(const void *bytes, size_t size, bool strict,
                                  const struct orr_memory *memory,
                                  struct orr_timeline **out_timeline, struct orr_error *error) {
    struct orr__json_input *input;
    struct orr_import_options options = {.strict = strict};
    *out_timeline = NULL;
    if (orr__json_input_bytes(bytes, size, memory, &input) != ORR_OK)
        return ORR_NO_MEMORY;
    enum orr_status status =
        orr__read_json(input, "trace.json", &options, memory, out_timeline, error);
    orr__json_input_close(&input);
    return status;
}

static struct orr_timeline *read_json(const char *text) {
    static struct orr_memory memory;
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    memory = orr_memory_system();
    enum orr_status status = read_bytes(text, strlen(text), false, &memory, &timeline, &error);
    if (status != ORR_OK)
        fail_msg("%s", error.text);
    return timeline;
}

/* Events in an object. */
static struct orr_timeline *read_events(const char *events) {
    static char text[1 << 16];
    assert_true(snprintf(text, sizeof text, "{\"traceEvents\":[%s]}", events) < (int)sizeof text);
    return read_json(text);
}

static void expect_invalid(const char *text, const char *says) {
    struct orr_memory memory = orr_memory_system();
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    assert_int_equal(read_bytes(text, strlen(text), false, &memory, &timeline, &error),
                     ORR_INVALID);
    assert_null(timeline);
    if (!strstr(error.text, says))
        fail_msg("'%s' does not say '%s'", error.text, says);
}

static const struct orr_timeline_finding *finding(const struct orr_timeline *t, const char *kind) {
    for (size_t i = 0; i < t->finding_count; i++)
        if (strcmp(t->findings[i].kind, kind) == 0)
            return &t->findings[i];
    return NULL;
}

static const struct orr_timeline_command *command(const struct orr_timeline *t, const char *name) {
    for (size_t i = 0; i < t->command_count; i++)
        if (strcmp(t->commands[i].name, name) == 0)
            return &t->commands[i];
    fail_msg("no command '%s'", name);
    return NULL;
}

static void stream_is(const struct orr_timeline *t, const struct orr_timeline_command *c,
                      uint32_t device, const char *name) {
    const struct orr_timeline_stream *stream = orr_timeline_stream(t, c->stream);
    assert_non_null(stream);
    assert_int_equal(stream->device, device);
    assert_int_equal(c->device, device);
    assert_string_equal(stream->name, name);
}

/* -- Dialects ---------------------------------------------------------------------------------- */

static void work_calls_and_links(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_json(
        "{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1711964646000000000,\n"
        " \"traceEvents\": [\n"
        "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 9,"
        " \"tid\": 10, \"ts\": 1.500, \"dur\": 2.250,"
        " \"args\": {\"cbid\": 211, \"correlation\": 5}},\n"
        "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k<\\u00e4>\", \"pid\": 0, \"tid\": 7,"
        " \"ts\": 10.001, \"dur\": 3, \"args\": {\"device\": 1, \"stream\": 20, \"correlation\": 5,"
        " \"grid\": [8, 2, 1], \"block\": [256, 1, 1], \"graph id\": 3}},\n"
        "  {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy\", \"pid\": 0, \"tid\": 7,"
        " \"ts\": 20, \"dur\": 0.5, \"args\": {\"bytes\": 4096, \"correlation\": 6}}],\n"
        " \"distributedInfo\": {\"rank\": 3, \"world_size\": 8},\n"
        " \"deviceProperties\": [{\"id\": 1, \"name\": \"GPU\", \"totalGlobalMem\": 85899345920,"
        " \"numSms\": 132}, {\"id\": 5, \"name\": \"not used\"}]}");
    assert_string_equal(t->source.format, "kineto");
    assert_true(t->source.has_time_base && t->source.time_base_ns == 1711964646000000000);
    assert_true(t->source.rank == 3 && t->source.world_size == 8 && t->source.events == 3);
    assert_true(t->source.repaired == 0 && t->source.skipped == 0);
    assert_true(t->source.truncated_at == ORR_SOURCE_NONE && t->source.subns_stamps == 0);
    assert_int_equal(t->finding_count, 0);
    const struct orr_timeline_command *k = command(t, "k<\xc3\xa4>");
    assert_true(k->start_ns == 10001 && k->finish_ns == 13001 && k->kind == ORR_COMMAND_KERNEL);
    assert_true(k->enqueue_ns == 1500 && k->enqueued_ns == 3750 && k->call == 1);
    assert_true(k->correlation == 5 && k->graph == 3);
    assert_string_equal(k->grid, "[8, 2, 1] x [256, 1, 1]");
    stream_is(t, k, 1, "stream 20"); /* arguments, not pid and tid */
    const struct orr_timeline_command *c = command(t, "Memcpy");
    assert_true(c->kind == ORR_COMMAND_COPY && c->bytes_written == 4096 && c->call == 0);
    stream_is(t, c, 0, "stream 7"); /* pid and tid, where there are no arguments */
    assert_int_equal(t->device_count, 2);
    assert_string_equal(t->devices[1].name, "GPU");
    assert_true(t->devices[1].mem_bytes == 85899345920 && t->devices[1].multiprocessors == 132);
    assert_int_equal(t->host_count, 1);
    assert_string_equal(t->hosts[0].label, "9/10");
    orr_timeline_destroy(&t);
}

static void spellings_of_old_files(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":\"0\",\"tid\":\"stream 7\","
        "\"ts\":1623143089861583,\"dur\":12,\"args\":{\"device\":\"0\",\"stream\":\"7\","
        "\"correlation\":\"5\",\"external id\":\"6\"}},"
        "{\"ph\":\"X\",\"cat\":\"Memset\",\"name\":\"m\",\"pid\":\"0\",\"tid\":\"stream 7\","
        "\"ts\":\"1623143089861600.5\",\"dur\":\"1\",\"args\":{\"correlation\":-1}},"
        "{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":\"31\","
        "\"tid\":\"32\",\"ts\":1623143089861500,\"dur\":10,\"args\":{\"correlation\":5}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":\"31\",\"tid\":\"32\","
        "\"ts\":1623143089861490,\"dur\":100,\"args\":{\"external id\":6}}");
    const struct orr_timeline_command *k = command(t, "k"), *m = command(t, "m");
    assert_true(k->start_ns == 1623143089861583000 && k->call == 1 && k->op == 1);
    stream_is(t, k, 0, "stream 7");
    stream_is(t, m, 0, "stream 7");
    assert_true(m->start_ns == 1623143089861600500 && m->kind == ORR_COMMAND_FILL);
    assert_true(m->correlation == ORR_CORRELATION_NONE && m->call == 0);
    assert_string_equal(t->hosts[0].label, "31/32");
    orr_timeline_destroy(&t);
}

static void one_call_owns_the_nodes_of_a_graph(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":2,\"tid\":0,\"ts\":50,\"dur\":1,"
        "\"args\":{\"device\":2,\"stream\":0,\"correlation\":9}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":2,\"tid\":0,\"ts\":52,\"dur\":1,"
        "\"args\":{\"device\":2,\"stream\":0,\"correlation\":9}},"
        "{\"ph\":\"X\",\"cat\":\"hip_runtime\",\"name\":\"hipGraphLaunch\",\"pid\":8,\"tid\":8,"
        "\"ts\":1,\"dur\":30,\"args\":{\"correlation\":9}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_driver\",\"name\":\"cuX\",\"pid\":8,\"tid\":8,"
        "\"ts\":0.5,\"dur\":1,\"args\":{\"correlation\":9}}");
    assert_int_equal(t->call_count, 2);
    assert_int_equal(t->calls[0].merged, 2); /* the earlier one counts */
    assert_int_equal(t->calls[1].merged, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(t->commands[i].call == 2 && t->commands[i].enqueue_ns == 500 &&
                    t->commands[i].enqueued_ns == 31000);
    orr_timeline_destroy(&t);
}

#define CALL_OF(pid, ts, correlation)                                                              \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":" #pid           \
    ",\"tid\":1,\"ts\":" #ts ",\"dur\":1,\"args\":{\"correlation\":" #correlation "}},"
#define WORK_ON(name, stream, ts, correlation)                                                     \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":" #stream            \
    ",\"ts\":" #ts ",\"dur\":1,\"args\":{\"correlation\":" #correlation "}},"

static void processes_that_share_correlations_are_told_apart(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        CALL_OF(100, 1, 1) CALL_OF(100, 2, 2) CALL_OF(200, 51, 2) CALL_OF(200, 52, 3)
            CALL_OF(200, 53, 4) CALL_OF(100, 4, 4) WORK_ON("a1", 7, 10, 1) WORK_ON("a2", 7, 12, 2)
                WORK_ON("b2", 9, 60, 2) WORK_ON("b3", 9, 62, 3) WORK_ON("x4", 11, 70, 4) "{}");
    /* Stream 7 is of 100 by correlation 1, stream 9 of 200 by 3; of stream 11 nothing says. */
    assert_true(command(t, "a1")->enqueue_ns == 1000 && command(t, "a2")->enqueue_ns == 2000);
    assert_true(command(t, "b2")->enqueue_ns == 51000 && command(t, "b3")->enqueue_ns == 52000);
    assert_true(command(t, "x4")->call == 0);
    assert_non_null(strstr(finding(t, "import_processes")->message, "1 items of work"));
    orr_timeline_destroy(&t);
    /* Two pids that share nothing are one process, as a profiler writes it. */
    t = read_events(CALL_OF(100, 1, 1) CALL_OF(200, 51, 2) WORK_ON("a", 7, 10, 1)
                        WORK_ON("b", 7, 60, 2) "{}");
    assert_null(finding(t, "import_processes"));
    assert_true(command(t, "a")->call == 1 && command(t, "b")->call == 2);
    assert_int_equal(t->stream_count, 1);
    orr_timeline_destroy(&t);
}

static void keys_may_come_in_any_order(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"args\":{\"stream\":7,\"name\":\"no\",\"correlation\":1,\"device\":0,\"ph\":\"M\"},"
        "\"dur\":2,\"ts\":1,\"tid\":7,\"pid\":0,\"name\":\"k\",\"cat\":\"kernel\",\"ph\":\"X\"},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":1}");
    assert_int_equal(t->command_count, 2);
    assert_string_equal(t->commands[0].name, "k");
    /* What an event does not say is not what the one before said. */
    assert_string_equal(t->commands[1].name, "");
    assert_true(t->commands[1].correlation == ORR_CORRELATION_NONE);
    orr_timeline_destroy(&t);
}

static void waits_and_syncs(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaEventRecord\",\"pid\":8,\"tid\":8,"
        "\"ts\":1,\"dur\":1,\"args\":{\"correlation\":1}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaStreamWaitEvent\",\"pid\":8,"
        "\"tid\":8,\"ts\":3,\"dur\":1,\"args\":{\"correlation\":2}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\",\"pid\":0,\"tid\":7,"
        "\"ts\":3.5,\"dur\":1,\"args\":{\"cuda_sync_kind\":\"Stream Wait Event\",\"stream\":7,"
        "\"device\":0,\"correlation\":2,\"wait_on_stream\":20,"
        "\"wait_on_cuda_event_record_corr_id\":1}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\",\"pid\":0,\"tid\":7,"
        "\"ts\":4.5,\"dur\":1,\"args\":{\"stream\":7,\"device\":0,\"correlation\":77,"
        "\"wait_on_stream\":20,\"wait_on_cuda_event_record_corr_id\":-1}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"pid\":8,"
        "\"tid\":8,\"ts\":6,\"dur\":5,\"args\":{\"correlation\":3}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Context Sync\",\"pid\":0,\"tid\":-1,"
        "\"ts\":6.5,\"dur\":4,\"args\":{\"cuda_sync_kind\":\"Context Sync\",\"device\":0,"
        "\"stream\":4294967295,\"correlation\":3}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Sync\",\"pid\":0,\"tid\":1000007,"
        "\"ts\":16.5,\"dur\":4,\"args\":{\"cuda_sync_kind\":\"Stream Sync\",\"device\":0,"
        "\"stream\":7,\"correlation\":99}}");
    assert_int_equal(t->command_count, 0); /* waiting is no work */
    assert_true(t->source.knows_waits && t->source.knows_syncs);
    assert_int_equal(t->stream_wait_count, 2);
    assert_true(t->stream_waits[0].resolved && t->stream_waits[0].at_ns == 3000 &&
                t->stream_waits[0].record_ns == 1000);
    assert_string_equal(orr_timeline_stream(t, t->stream_waits[0].stream)->name, "stream 7");
    assert_string_equal(orr_timeline_stream(t, t->stream_waits[0].source)->name, "stream 20");
    assert_true(!t->stream_waits[1].resolved && t->stream_waits[1].at_ns == 4500);
    assert_int_equal(t->sync_count, 2);
    assert_true(t->syncs[0].kind == ORR_SYNC_DEVICE && t->syncs[0].device == 0 &&
                t->syncs[0].stream == ORR_ID_NONE && t->syncs[0].call == 3 &&
                t->syncs[0].begin_ns == 6000 && t->syncs[0].end_ns == 11000);
    assert_true(t->syncs[1].kind == ORR_SYNC_STREAM && t->syncs[1].call == 0);
    assert_string_equal(orr_timeline_stream(t, t->syncs[1].stream)->name, "stream 7");
    orr_timeline_destroy(&t);
}

static void the_profilers_own_time(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"Buffer Flush\",\"pid\":-1,\"tid\":0,"
        "\"ts\":1,\"dur\":2},"
        "{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"Command Buffer Full\",\"pid\":-1,\"tid\":0,"
        "\"ts\":5,\"dur\":2}");
    assert_int_equal(t->overhead_count, 2);
    assert_true(t->overheads[0].profiler && t->overheads[0].end_ns == 3000);
    assert_false(t->overheads[1].profiler);
    orr_timeline_destroy(&t);
}

static void slices_counters_and_names(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":8,"
        "\"tid\":8,\"ts\":0,\"dur\":9},"
        "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":0,"
        "\"tid\":7,\"ts\":0,\"dur\":9},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"f.py(3): f\",\"pid\":8,\"tid\":8,"
        "\"ts\":1,\"dur\":5},"
        "{\"ph\":\"X\",\"cat\":\"something\",\"name\":\"new\",\"pid\":8,\"tid\":8,\"ts\":1,"
        "\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":\"Spans\","
        "\"tid\":\"PyTorch Profiler\",\"ts\":0,\"dur\":9},"
        "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":8,\"tid\":8,\"ts\":2,\"args\":{"
        "\"Total Allocated\":1024,\"Total Reserved\":4096,\"Device Id\":0,\"Device Type\":1}},"
        "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":8,\"tid\":8,\"ts\":2,\"args\":{"
        "\"Total Allocated\":99,\"Device Id\":-1,\"Device Type\":0}},"
        "{\"ph\":\"C\",\"name\":\"power\",\"pid\":0,\"ts\":3,\"args\":{\"W\":300.5}},"
        "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":8,\"ts\":3,\"args\":{\"n\":1}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":8,\"tid\":8,\"args\":{\"name\":\"main\"}},"
        "{\"ph\":\"s\",\"id\":1,\"pid\":8,\"tid\":8,\"ts\":1,\"cat\":\"ac2g\",\"name\":\"ac2g\"},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1}");
    assert_int_equal(t->command_count, 1);
    assert_int_equal(t->slice_count, 4);
    static const enum orr_slice_kind kinds[] = {ORR_SLICE_ANNOTATION, ORR_SLICE_ANNOTATION,
                                                ORR_SLICE_FUNCTION, ORR_SLICE_OTHER};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(t->slices[i].kind, kinds[i]);
    assert_true(t->slices[0].host == 0 && t->slices[0].stream == ORR_ID_NONE);
    assert_true(t->slices[1].host == ORR_ID_NONE && t->slices[1].stream == 0);
    assert_string_equal(t->hosts[0].name, "main");
    assert_int_equal(t->host_count, 1);
    assert_int_equal(t->counter_count, 3);
    assert_string_equal(t->counters[0].name, "memory bytes");
    assert_true(t->counters[0].value == 1024 && t->counters[0].device == 0);
    assert_string_equal(t->counters[1].name, "power");
    assert_true(t->counters[1].value == 300.5 && t->counters[1].ts_ns == 3000);
    assert_string_equal(t->counters[2].name, "reserved bytes");
    /* What is left out is counted. */
    assert_string_equal(orr_timeline_meta(t, "kineto_flows"), "1");
    assert_string_equal(orr_timeline_meta(t, "kineto_summaries"), "1");
    assert_string_equal(orr_timeline_meta(t, "kineto_memory_left"), "1");
    assert_string_equal(orr_timeline_meta(t, "kineto_counters_left"), "1");
    orr_timeline_destroy(&t);
}

/* -- Operators --------------------------------------------------------------------------------- */

#define CALL(ts, correlation, external)                                                            \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":8,\"tid\":8,"    \
    "\"ts\":" #ts ",\"dur\":1,\"args\":{\"correlation\":" #correlation                             \
    ",\"External id\":" #external "}},"
#define KERNEL(name, ts, correlation, external)                                                    \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":7,\"ts\":" #ts       \
    ",\"dur\":1,\"args\":{\"correlation\":" #correlation ",\"External id\":" #external "}},"
#define OPERATOR(name, ts, dur, external)                                                          \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":8,\"tid\":8,\"ts\":" #ts       \
    ",\"dur\":" #dur ",\"args\":{\"External id\":" #external                                       \
    ",\"Input Dims\":[[8,16],[16,4]],\"Input type\":[\"float\",\"float\"]}}"

static const char *op_of(const struct orr_timeline *t, const char *name) {
    const struct orr_timeline_command *c = command(t, name);
    return c->op == 0 ? "" : orr_timeline_op(t, c->op)->name;
}

static void work_finds_its_operator(void **unused) {
    (void)unused;
    struct orr_timeline *t =
        read_events(CALL(12, 1, 5) KERNEL("k1", 20, 1, 5) CALL(32, 2, 900) KERNEL("k2", 40, 2, 900)
                        CALL(52, 3, 901) KERNEL("k3", 60, 3, 901) KERNEL("k4", 70, 4, 6)
                            OPERATOR("outer", 10, 30, 4) "," OPERATOR(
                                "inner", 11, 5, 5) "," OPERATOR("other", 200, 5, 6));
    assert_string_equal(op_of(t, "k1"), "inner"); /* by External id */
    assert_string_equal(op_of(t, "k2"), "outer"); /* by time: that id leads nowhere */
    assert_string_equal(op_of(t, "k3"), "");      /* in none */
    assert_string_equal(op_of(t, "k4"), "other"); /* without a call, by id: the others are right */
    assert_int_equal(t->op_count, 3);
    const struct orr_timeline_op *op = orr_timeline_op(t, command(t, "k1")->op);
    assert_string_equal(op->kind, "cpu_op");
    assert_string_equal(op->shape, "f32[8, 16], f32[16, 4]");
    assert_int_equal(op->dtype, ORR_DTYPE_F32);
    size_t slices = 0;
    for (size_t i = 0; i < t->slice_count; i++)
        slices += t->slices[i].op != 0;
    assert_int_equal(slices, 3);
    orr_timeline_destroy(&t);
}

static void ids_that_count_something_else_do_not_link(void **unused) {
    (void)unused;
    /* Old profilers number calls and operators apart: 5 is "wrong", which ran much later. */
    struct orr_timeline *t = read_events(CALL(12, 1, 5) KERNEL("k1", 20, 1, 5) KERNEL(
        "k2", 30, 2, 5) OPERATOR("right", 10, 9, 4) "," OPERATOR("wrong", 100, 9, 5));
    assert_string_equal(op_of(t, "k1"), "right");
    assert_string_equal(op_of(t, "k2"), "");
    orr_timeline_destroy(&t);
}

static void a_graphs_nodes_are_not_of_the_operator_around_its_launch(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(CALL(12, 1, 900) KERNEL("k1", 20, 1, 900)
                                             KERNEL("k2", 30, 1, 900) OPERATOR("replay", 10, 9, 4));
    assert_int_equal(t->op_count, 0);
    orr_timeline_destroy(&t);
}

static void collectives_of_newer_files(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_json(
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce\","
        "\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":2,\"args\":{\"correlation\":1,"
        "\"Collective name\":\"_allgather_base\",\"In msg nelems\":1024,\"Out msg nelems\":4096,"
        "\"Group size\":4,\"dtype\":\"BFloat16\",\"Process Group Name\":\"tp\","
        "\"Process Group Ranks\":\"[4, 5, 6, 7]\",\"Seq\":12}}],"
        "\"distributedInfo\":{\"rank\":6,\"world_size\":8}}");
    assert_int_equal(t->communicator_count, 1);
    assert_string_equal(t->communicators[0].name, "tp");
    assert_int_equal(t->member_count, 4);
    assert_int_equal(t->members[2].rank, 6);
    assert_int_equal(t->collective_count, 1);
    assert_string_equal(t->collectives[0].kind, "all_gather");
    assert_true(t->collectives[0].bytes == 8192 && t->collectives[0].seq == 12 &&
                t->collectives[0].dtype == ORR_DTYPE_BF16);
    assert_int_equal(t->collective_member_count, 1);
    assert_true(t->collective_members[0].cmd == 1 && t->collective_members[0].rank == 6);
    orr_timeline_destroy(&t);
}

/* -- Times ------------------------------------------------------------------------------------- */

static void stamps_finer_than_nanoseconds_are_counted(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":\"191.0005\","
        "\"dur\":1.0009,\"args\":{}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":200.000000,"
        "\"dur\":1.5000},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"pid\":8,\"tid\":8,\"ts\":1.00001,"
        "\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"bad\",\"pid\":0,\"tid\":7,\"ts\":5.00001,"
        "\"dur\":-1.00001}");
    assert_int_equal(t->source.subns_stamps, 2); /* of work and calls, and of good ones */
    assert_true(command(t, "a")->start_ns == 191000 && command(t, "a")->finish_ns == 192000);
    assert_true(command(t, "b")->start_ns == 200000 && command(t, "b")->finish_ns == 201500);
    assert_true(command(t, "bad")->finish_ns < command(t, "bad")->start_ns); /* kept as it is */
    orr_timeline_destroy(&t);
}

static void events_without_a_time_or_place_are_left_out_and_counted(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"c\",\"pid\":0,\"tid\":7,\"ts\":\"x\","
        "\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"d\",\"pid\":0,\"tid\":7,"
        "\"ts\":9223372036854775,\"dur\":9223372036854775},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"e\",\"pid\":0,\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"f\",\"pid\":\"gpu\",\"tid\":7,\"ts\":1,"
        "\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"good\",\"pid\":0,\"tid\":7,\"ts\":1,"
        "\"dur\":1},7,{},{\"ph\":\"B\",\"ts\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"far\",\"pid\":65536,\"tid\":7,\"ts\":1,"
        "\"dur\":1}");
    assert_int_equal(t->command_count, 1);
    assert_int_equal(t->source.skipped, 7);
    assert_non_null(strstr(finding(t, "import_no_time")->message, "4 events"));
    assert_non_null(strstr(finding(t, "import_no_place")->message, "3 events"));
    assert_non_null(strstr(finding(t, "import_no_place")->message, "beyond what fits"));
    assert_non_null(strstr(finding(t, "import_no_event")->message,
                           "2 items of the list are no event, 1 of a kind"));
    orr_timeline_destroy(&t);
}

/* Random events, printed in one way and another, and in another order: one timeline. */
enum { RANDOM_EVENTS = 60 };

struct random_event {
    const char *category;
    unsigned pid, tid, correlation;
    int64_t ts_ns, dur_ns;
};

static void print_event(const struct random_event *e, unsigned way, char *out, size_t size) {
    char ts[64], dur[64], extra[96] = "";
    const char *zeros = way & 1 ? "000" : "";
    snprintf(ts, sizeof ts, "%lld.%03lld%s", (long long)(e->ts_ns / 1000),
             (long long)(e->ts_ns % 1000), zeros);
    snprintf(dur, sizeof dur, "%lld.%03lld%s", (long long)(e->dur_ns / 1000),
             (long long)(e->dur_ns % 1000), zeros);
    const char *quote = way & 2 ? "\"" : "";
    const char *space = way & 4 ? "\n    " : "";
    if (way & 8)
        snprintf(extra, sizeof extra, "\"bp\":\"e\",\"unknown\":[{\"ts\":9},\"}\"],");
    snprintf(out, size,
             "{%s\"ph\":\"X\",\"cat\":\"%s\",%s\"args\":{\"correlation\":%s%u%s},"
             "\"name\":\"%s %u\",\"pid\":%u,\"tid\":%u,%s\"ts\":%s%s%s,\"dur\":%s%s%s}",
             space, e->category, extra, quote, e->correlation, quote, e->category, e->correlation,
             e->pid, e->tid, space, quote, ts, quote, quote, dur, quote);
}

static struct orr_timeline *print_and_read(const struct random_event *events, unsigned way,
                                           const unsigned *order) {
    static char text[1 << 16];
    char *end = text + sizeof text, *at = text;
    at += snprintf(at, (size_t)(end - at), way & 16 ? "[" : "{\"traceEvents\" :[");
    for (unsigned i = 0; i < RANDOM_EVENTS; i++) {
        *at++ = i ? ',' : ' ';
        print_event(&events[order[i]], way, at, (size_t)(end - at));
        at += strlen(at);
    }
    snprintf(at, (size_t)(end - at), way & 16 ? "]" : "],\"a\":{}}");
    return read_json(text);
}

static void same_timeline(const struct orr_timeline *a, const struct orr_timeline *b) {
    assert_int_equal(a->command_count, b->command_count);
    assert_int_equal(a->call_count, b->call_count);
    assert_int_equal(a->stream_count, b->stream_count);
    assert_int_equal(a->host_count, b->host_count);
    assert_int_equal(a->source.subns_stamps, b->source.subns_stamps);
    for (size_t i = 0; i < a->command_count; i++) {
        const struct orr_timeline_command *x = &a->commands[i], *y = command(b, x->name);
        assert_true(x->start_ns == y->start_ns && x->finish_ns == y->finish_ns &&
                    x->stream == y->stream && x->host == y->host && !x->call == !y->call &&
                    x->enqueue_ns == y->enqueue_ns && x->enqueued_ns == y->enqueued_ns);
    }
}

static void printing_and_order_change_nothing(void **unused) {
    (void)unused;
    uint64_t state = 424242;
    for (unsigned round = 0; round < 60; round++) {
        struct random_event events[RANDOM_EVENTS];
        unsigned order[RANDOM_EVENTS];
        for (unsigned i = 0; i < RANDOM_EVENTS; i++) {
            bool is_call = random_below(&state, 2) == 0;
            events[i] =
                (struct random_event){.category = is_call ? "cuda_runtime" : "kernel",
                                      .pid = is_call ? 77 : (unsigned)random_below(&state, 2),
                                      .tid = (unsigned)random_below(&state, 3),
                                      .correlation = i, /* names are unique by it */
                                      .ts_ns = (int64_t)random_below(&state, 1000000),
                                      .dur_ns = (int64_t)random_below(&state, 5000)};
            if (!is_call && i > 0 && random_below(&state, 3) > 0) {
                /* of a call before it, if there is one */
                events[i].ts_ns += 1000000;
            }
            order[i] = i;
        }
        struct orr_timeline *plain = print_and_read(events, 0, order);
        for (unsigned i = RANDOM_EVENTS - 1; i > 0; i--) {
            unsigned j = (unsigned)random_below(&state, i + 1), other = order[j];
            order[j] = order[i];
            order[i] = other;
        }
        struct orr_timeline *other =
            print_and_read(events, (unsigned)random_below(&state, 32), order);
        same_timeline(plain, other);
        orr_timeline_destroy(&plain);
        orr_timeline_destroy(&other);
    }
}

/* -- Broken texts ------------------------------------------------------------------------------ */

#define GOOD                                                                                       \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"good\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1}"

static void a_cut_text_is_read_and_flagged(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_json("{\"traceEvents\":[" GOOD "," GOOD ",{\"ph\":\"X\",\"ca");
    assert_int_equal(t->command_count, 2);
    assert_int_equal(t->source.truncated_at, 16 + 2 * sizeof GOOD + 13);
    assert_non_null(strstr(finding(t, "import_cut")->message, "in the middle of an event"));
    orr_timeline_destroy(&t);
    t = read_json("{\"traceEvents\":[" GOOD);
    assert_int_equal(t->command_count, 1);
    assert_non_null(finding(t, "import_cut"));
    orr_timeline_destroy(&t);
    t = read_json("[" GOOD ",\n"); /* legal */
    assert_true(t->source.truncated_at == ORR_SOURCE_NONE);
    assert_string_equal(finding(t, "import_unclosed")->severity, "note");
    orr_timeline_destroy(&t);
}

static void repairs_are_told_once_for_each_sort(void **unused) {
    (void)unused;
    struct orr_timeline *t = read_events(
        GOOD ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\nb\",\"pid\":0,\"tid\":7,\"ts\":1,"
             "\"dur\":1},{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"\xff\",\"pid\":0,\"tid\":7,"
             "\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"cat\":[1},{\"ph\":\"X\",\"cat\":\"kernel\","
             "\"name\":\"C:\\dir\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1}");
    assert_int_equal(t->command_count, 4);
    command(t, "a\nb");
    command(t, "\xef\xbf\xbd");
    command(t, "C:\\dir");
    assert_int_equal(t->source.repaired, 3);
    assert_int_equal(t->source.skipped, 1);
    size_t repaired = 0;
    for (size_t i = 0; i < t->finding_count; i++)
        repaired += strcmp(t->findings[i].kind, "import_repaired") == 0;
    assert_int_equal(repaired, 3);
    assert_non_null(strstr(finding(t, "import_skipped")->message, "1 events"));
    orr_timeline_destroy(&t);
}

static void a_zero_byte_ends_nothing(void **unused) {
    (void)unused;
    static const char text[] = "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\0\0\","
                               "\"name\":\"a\0b\",\"pid\":8,\"tid\":7,\"ts\":1,\"dur\":1}]}";
    struct orr_memory memory = orr_memory_system();
    struct orr_timeline *t;
    assert_int_equal(read_bytes(text, sizeof text - 1, false, &memory, &t, NULL), ORR_OK);
    assert_int_equal(t->command_count, 0); /* that is not "kernel" */
    assert_int_equal(t->slice_count, 1);
    assert_string_equal(t->slices[0].name, "a\xef\xbf\xbd"
                                           "b");
    assert_int_equal(t->source.repaired, 3);
    orr_timeline_destroy(&t);
}

static void strict_readers_want_whole_texts(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"traceEvents\":[" GOOD "]", "byte 87: the trace ends before its end"},
        {"{\"traceEvents\":[" GOOD ",{\"ph\":\"\n\"}]}", "byte 87: control character"},
        {"{\"traceEvents\":[" GOOD ",{\"ph\":[}]}", "byte 87: an event that cannot be read"},
        {"{\"traceEvents\":[" GOOD "]} x", "something follows"},
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct orr_timeline *timeline;
        struct orr_error error = {0};
        assert_int_equal(
            read_bytes(cases[i].text, strlen(cases[i].text), true, &memory, &timeline, &error),
            ORR_INVALID);
        if (!strstr(error.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.text, cases[i].says);
    }
    struct orr_timeline *timeline;
    static const char whole[] = "{\"traceEvents\":[" GOOD "]}\n";
    assert_int_equal(read_bytes(whole, sizeof whole - 1, true, &memory, &timeline, NULL), ORR_OK);
    orr_timeline_destroy(&timeline);
}

static void other_json_is_no_trace(void **unused) {
    (void)unused;
    expect_invalid("{\"a\": 1}", "without \"traceEvents\"");
    expect_invalid("{\"a\": [1, 2", "cut or damaged");
    expect_invalid("{\"traceEvents\": 5}", "without \"traceEvents\"");
    expect_invalid("[1, 2, 3]", "nothing is an event");
    expect_invalid("[{\"name\": \"x\"}]", "nothing is an event");
    struct orr_timeline *t = read_json("{\"traceEvents\": []}");
    assert_true(t->command_count == 0 && t->finding_count == 0);
    orr_timeline_destroy(&t);
    t = read_json("[]");
    orr_timeline_destroy(&t);
}

/* -- Files ------------------------------------------------------------------------------------- */

struct files {
    char folder[PATH_MAX], path[PATH_MAX];
    struct orr_memory memory;
    struct orr_traces traces;
    struct orr_error error;
};

static struct files files;

static void write_file(const char *name, const void *bytes, size_t size) {
    trace_path(files.path, files.folder, name);
    FILE *file = fopen(files.path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static enum orr_status read_path(bool strict) {
    struct orr_import_options options = {.strict = strict};
    orr_traces_free(&files.memory, &files.traces);
    files.error = (struct orr_error){0};
    return orr_traces_read(files.path, &options, &files.memory, &files.traces, &files.error);
}

static int open_files(void **unused) {
    (void)unused;
    files.memory = orr_memory_system();
    trace_folder_create(files.folder);
    return 0;
}

static int close_files(void **unused) {
    (void)unused;
    orr_traces_free(&files.memory, &files.traces);
    trace_folder_remove(files.folder);
    return 0;
}

static size_t zip(const void *bytes, size_t size, unsigned char *out, size_t room) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)size;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t made = stream.total_out;
    deflateEnd(&stream);
    return made;
}

/* A trace of many events that do not compress to nothing. */
static size_t write_events(char *out, size_t room, unsigned count) {
    uint64_t state = 5;
    size_t at = (size_t)snprintf(out, room, "{\"traceEvents\":[");
    for (unsigned i = 0; i < count; i++)
        at += (size_t)snprintf(out + at, room - at,
                               "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k%llx\",\"pid\":0,"
                               "\"tid\":7,\"ts\":%u,\"dur\":1}",
                               i ? ",\n" : "", (unsigned long long)random_next(&state), i + 1);
    at += (size_t)snprintf(out + at, room - at, "]}");
    assert_true(at < room);
    return at;
}

static void gzip_is_read_as_far_as_it_goes(void **unused) {
    (void)unused;
    enum { ROOM = 1 << 18, EVENTS = 1000 };
    char *text = malloc(ROOM);
    unsigned char *zipped = malloc(ROOM);
    assert_true(text && zipped);
    size_t size = write_events(text, ROOM, EVENTS), made = zip(text, size, zipped, ROOM);
    write_file("whole", zipped, made); /* the name says nothing */
    assert_int_equal(read_path(true), ORR_OK);
    assert_int_equal(files.traces.items[0].timeline->command_count, EVENTS);
    for (size_t cut = made - 1; cut > 64; cut -= made / 17) {
        write_file("cut.json.gz", zipped, cut);
        enum orr_status status = read_path(false);
        if (status != ORR_OK)
            fail_msg("%s", files.error.text);
        const struct orr_timeline *t = files.traces.items[0].timeline;
        assert_true(t->command_count <= EVENTS &&
                    t->command_count + EVENTS / 8 > EVENTS * cut / made / 2);
        assert_int_equal(t->source.truncated_at, cut);
        assert_non_null(strstr(finding(t, "import_cut")->message, "gzip stream ends too early"));
        assert_int_equal(read_path(true), ORR_INVALID);
    }
    /* Two members, one after the other, are one text. */
    size_t half = size / 2, first = zip(text, half, zipped, ROOM);
    size_t second = zip(text + half, size - half, zipped + first, ROOM - first);
    write_file("two.json.gz", zipped, first + second);
    assert_int_equal(read_path(true), ORR_OK);
    assert_int_equal(files.traces.items[0].timeline->command_count, EVENTS);
    /* A wrong checksum: all is there, and something of it is wrong. */
    made = zip(text, size, zipped, ROOM);
    zipped[made - 6] ^= 1;
    write_file("sum.json.gz", zipped, made);
    assert_int_equal(read_path(false), ORR_OK);
    assert_non_null(
        strstr(finding(files.traces.items[0].timeline, "import_cut")->message, "checksum"));
    free(text);
    free(zipped);
}

static size_t put_member(unsigned char *out, const char *name, const void *bytes, size_t size,
                         char type) {
    memset(out, 0, 512 + (size + 511) / 512 * 512);
    snprintf((char *)out, 100, "%s", name);
    snprintf((char *)out + 100, 8, "0000644");
    snprintf((char *)out + 124, 12, "%011zo", size);
    memcpy(out + 257, "ustar\00000", 8);
    out[156] = (unsigned char)type;
    memset(out + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += out[i];
    snprintf((char *)out + 148, 8, "%06o", sum);
    memcpy(out + 512, bytes, size);
    return 512 + (size + 511) / 512 * 512;
}

static void archives_hold_a_trace_a_member(void **unused) {
    (void)unused;
    static unsigned char archive[1 << 15], zipped[1 << 15];
    static const char one[] = "[" GOOD "]", two[] = "{\"traceEvents\":[" GOOD "," GOOD "]}";
    static const char name[] = "ranks/a_very_long_name_as_gnu_tar_writes_it.json";
    size_t at = put_member(archive, "ranks/", "", 0, '5');
    at += put_member(archive + at, "notes.txt", "hello", 5, '0');
    at += put_member(archive + at, "././@LongLink", name, sizeof name, 'L');
    at += put_member(archive + at, "ranks/short", one, sizeof one - 1, '0');
    size_t made = zip(two, sizeof two - 1, zipped, sizeof zipped);
    at += put_member(archive + at, "ranks/r2.json.gz", zipped, made, '0');
    size_t last = at;
    at += put_member(archive + at, "x", "30 path=ranks/named_by_pax.js\n", 30, 'x');
    at += put_member(archive + at, "r3", two, sizeof two - 1, '0');
    memset(archive + at, 0, 1024);
    size_t whole = at + 1024;
    made = zip(archive, whole, zipped, sizeof zipped);
    write_file("ranks.tar.gz", zipped, made);
    assert_int_equal(read_path(false), ORR_OK);
    assert_int_equal(files.traces.count, 3);
    assert_non_null(strstr(files.traces.items[0].name, "ranks.tar.gz/ranks/a_very_long_name"));
    assert_non_null(strstr(files.traces.items[1].name, "ranks.tar.gz/ranks/r2.json.gz"));
    assert_non_null(strstr(files.traces.items[2].name, "ranks.tar.gz/ranks/named_by_pax.js"));
    assert_int_equal(files.traces.items[0].timeline->command_count, 1);
    assert_int_equal(files.traces.items[1].timeline->command_count, 2);
    assert_non_null(strstr(finding(files.traces.items[0].timeline, "import_other_files")->message,
                           "notes.txt"));
    /* Cut in the last member: the whole ones, and a flag. */
    write_file("cut.tar", archive, at - 512 + 50);
    assert_int_equal(read_path(false), ORR_OK);
    assert_int_equal(files.traces.count, 2);
    assert_non_null(strstr(finding(files.traces.items[0].timeline, "import_cut")->message,
                           "ranks/named_by_pax.js"));
    assert_int_equal(read_path(true), ORR_INVALID);
    assert_int_equal(files.traces.count, 0);
    /* Only a cut one: as far as it goes. */
    write_file("one.tar", archive + last, 1024 + 512 + 120);
    assert_int_equal(read_path(false), ORR_OK);
    assert_int_equal(files.traces.count, 1);
    assert_int_equal(files.traces.items[0].timeline->command_count, 1);
    /* None at all. */
    at = put_member(archive, "notes.txt", "hello", 5, '0');
    write_file("none.tar", archive, at);
    assert_int_equal(read_path(false), ORR_INVALID);
    assert_non_null(strstr(files.error.text, "an archive without a trace"));
}

static void what_is_no_trace_is_named(void **unused) {
    (void)unused;
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = {
        {"", 0, "empty"},
        {"<!DOCTYPE html><html></html>", 28, "HTML or XML"},
        {"  \n <html>", 10, "HTML or XML"},
        {"PK\3\4xxxx", 8, "a zip archive; unpack it"},
        {"\x28\xb5\x2f\xfdxxxx", 8, "compressed by zstd"},
        {"\xff\xfe[\0]\0", 6, "UTF-16"},
        {"step,loss\n1,2\n", 14, "text, but not JSON"},
        {"\0\1\2\3", 4, "binary data"},
        {"\x1f\x8b\x08", 3, "the gzip stream ends too early"},
        {"{\"a\": 1}", 8, "without \"traceEvents\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("x.json", cases[i].bytes, cases[i].size);
        assert_int_equal(read_path(false), ORR_INVALID);
        if (!strstr(files.error.text, cases[i].says) || !strstr(files.error.text, "expected"))
            fail_msg("'%s' does not say '%s'", files.error.text, cases[i].says);
        assert_non_null(strstr(files.error.text, files.path));
    }
    static char database[4096] = "SQLite format 3";
    write_file("other.db", database, sizeof database);
    assert_int_equal(read_path(false), ORR_INVALID);
    trace_path(files.path, files.folder, "no_such_file");
    assert_int_equal(read_path(false), ORR_INVALID);
    snprintf(files.path, sizeof files.path, "%s", files.folder);
    assert_int_equal(read_path(false), ORR_INVALID);
    assert_non_null(strstr(files.error.text, "a folder"));
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void use_reader(struct memory_counting *memory, void *context) {
    const char *text = context;
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    enum orr_status status =
        read_bytes(text, strlen(text), false, &memory->table, &timeline, &error);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    assert_true((status == ORR_OK) == (timeline != NULL));
    orr_timeline_destroy(&timeline);
}

static void every_missing_block_is_survived(void **unused) {
    (void)unused;
    static char text[1 << 16];
    size_t size;
    unsigned char *bytes = trace_read_file("tests/data/fuzz_json_trace/typical.json", &size);
    assert_true(size < sizeof text);
    memcpy(text, bytes, size);
    free(bytes);
    assert_true(fail_each_request(use_reader, text) > 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_calls_and_links),
        cmocka_unit_test(spellings_of_old_files),
        cmocka_unit_test(one_call_owns_the_nodes_of_a_graph),
        cmocka_unit_test(processes_that_share_correlations_are_told_apart),
        cmocka_unit_test(keys_may_come_in_any_order),
        cmocka_unit_test(waits_and_syncs),
        cmocka_unit_test(the_profilers_own_time),
        cmocka_unit_test(slices_counters_and_names),
        cmocka_unit_test(work_finds_its_operator),
        cmocka_unit_test(ids_that_count_something_else_do_not_link),
        cmocka_unit_test(a_graphs_nodes_are_not_of_the_operator_around_its_launch),
        cmocka_unit_test(collectives_of_newer_files),
        cmocka_unit_test(stamps_finer_than_nanoseconds_are_counted),
        cmocka_unit_test(events_without_a_time_or_place_are_left_out_and_counted),
        cmocka_unit_test(printing_and_order_change_nothing),
        cmocka_unit_test(a_cut_text_is_read_and_flagged),
        cmocka_unit_test(repairs_are_told_once_for_each_sort),
        cmocka_unit_test(a_zero_byte_ends_nothing),
        cmocka_unit_test(strict_readers_want_whole_texts),
        cmocka_unit_test(other_json_is_no_trace),
        cmocka_unit_test_setup_teardown(gzip_is_read_as_far_as_it_goes, open_files, close_files),
        cmocka_unit_test_setup_teardown(archives_hold_a_trace_a_member, open_files, close_files),
        cmocka_unit_test_setup_teardown(what_is_no_trace_is_named, open_files, close_files),
        cmocka_unit_test(every_missing_block_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
