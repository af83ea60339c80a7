/* One timeline of several: what becomes of ids, names, times, processes, collectives; and that
 * every figure of a device stays what it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analysis.h"
#include "analyzer/rank_bubble.h"
#include "analyzer/report_set.h"
#include "tests/random_numbers.h"
#include "tests/rank_fixture.h"
#include "tests/support.h"

static struct memory_counting counting;

static void begin(struct rank_job *job, size_t count) {
    memory_counting_init(&counting, 0);
    *job = (struct rank_job){0};
    job_begin(job, &counting.table, count, count);
}

static void join(struct rank_job *job) {
    job_end(job);
    job_ranks(job);
    job_merge(job);
}

static void finish(struct rank_job *job) {
    job_free(job);
    assert_int_equal(counting.live, 0);
}

static struct orr_analysis *analyze(const struct orr_timeline *timeline) {
    struct orr_analysis *analysis = NULL;
    struct orr_error error = {0};
    struct orr_analysis_options options = orr_analysis_options_default();
    options.file = "merged";
    if (orr_analyze(timeline, &options, &counting.table, &analysis, &error) != ORR_OK)
        fail_msg("%s", error.text);
    return analysis;
}

/* ---------------------------------------------------------------------------------------------- */

static void ids_names_and_times_become_those_of_the_whole(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2);
    job.shifts[1] = 500;
    job_kernel(&job, 0, "gemm", 100, 200);
    job_comm(&job, 0, ALL_REDUCE, 300, 400);
    job_comm(&job, 1, ALL_REDUCE, 350, 400);
    join(&job);
    const struct orr_timeline *t = job.merged;
    assert_string_equal(t->source.format, "kineto");
    assert_int_equal(t->source.rank, ORR_SOURCE_NONE);
    assert_int_equal(t->source.world_size, 2);
    assert_int_equal(t->device_count, 2);
    assert_string_equal(t->devices[1].name, "rank 1 GPU 1");
    assert_int_equal(t->stream_count, 3);
    assert_int_equal(t->streams[2].device, 1);
    assert_string_equal(t->hosts[1].name, "rank 1 1/1");
    assert_int_equal(t->command_count, 3);
    assert_int_equal(t->commands[2].id, 3);
    assert_int_equal(t->commands[2].start_ns, 350); /* the clock of rank 0 */
    assert_int_equal(t->commands[2].enqueue_ns, 330);
    assert_int_equal(t->commands[2].call, 3);
    assert_int_equal(t->calls[2].begin_ns, 330);
    assert_int_equal(t->calls[2].host, 1);
    assert_string_equal(orr_timeline_meta(t, "ranks"), "0,1");
    assert_string_equal(orr_timeline_meta(t, "offset_ns of rank 1"), "500");
    assert_int_equal(orr_ranks_of_device(t, 1), 1);
    finish(&job);
}

static void processes_stay_apart_and_calls_stay_theirs(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 3);
    for (size_t r = 0; r < 3; r++)
        job_kernel(&job, r, "gemm", 100, 200); /* all with correlation 1, process 0 */
    join(&job);
    const struct orr_timeline *t = job.merged;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(t->commands[i].call, i + 1);
        assert_int_not_equal(t->streams[i].process, 0);
        assert_int_equal(t->streams[i].process, t->hosts[i].process);
        assert_int_not_equal(t->streams[i].process, t->streams[(i + 1) % 3].process);
    }
    struct orr_analysis *a = analyze(t);
    assert_int_equal(a->split.linked, 3);
    orr_analysis_destroy(&a);
    finish(&job);
}

static void bad_stamps_stay_bad(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2);
    job.shifts[1] = 0;
    job_comm(&job, 0, ALL_REDUCE, 1000, 1500);
    job_comm(&job, 1, ALL_REDUCE, 91000, 91500); /* an offset of 90000 */
    job_kernel(&job, 1, "lost", 0, 0);
    job_kernel(&job, 1, "backwards", 95000, 94000);
    join(&job);
    assert_int_equal(job.ranks.parts[1].offset_ns, 90000);
    assert_int_equal(job.merged->commands[2].start_ns, 0);
    assert_int_equal(job.merged->commands[2].finish_ns, 0);
    struct orr_analysis *a = analyze(job.merged);
    assert_int_equal(a->events.source.bad_ops, 2);
    assert_int_equal(a->end_ns - a->begin_ns, 500);
    orr_analysis_destroy(&a);
    finish(&job);
}

static void collectives_are_one_row_with_their_ranks_and_missing_ones(void **state) {
    (void)state;
    static const uint32_t world[] = {0, 1, 2, 3};
    struct rank_job job;
    begin(&job, 2);
    for (size_t r = 0; r < 2; r++) {
        orr__builder_source(job.builders[r])->world_size = 4;
        uint32_t group = job_group(&job, r, "0", world, 4);
        for (uint64_t s = 1; s <= 2; s++) {
            uint64_t id = job_comm(&job, r, ALL_REDUCE, 1000 * (int64_t)s, 1000 * (int64_t)s + 500);
            job_collective(&job, r, id, group, "all_reduce", s, ORR_ID_NONE, ORR_ID_NONE);
        }
    }
    uint64_t alone = job_comm(&job, 1, ALL_REDUCE, 5000, 5500);
    job_collective(&job, 1, alone, 0, "all_reduce", 3, ORR_ID_NONE, ORR_ID_NONE);
    join(&job);
    const struct orr_timeline *t = job.merged;
    assert_int_equal(t->collective_count, 3); /* two of both, one that only rank 1 saw */
    assert_int_equal(t->communicator_count, 1);
    assert_string_equal(t->communicators[0].name, "0");
    assert_int_equal(t->member_count, 4);
    assert_int_equal(t->members[1].device, 1);
    assert_int_equal(t->members[2].device, ORR_ID_NONE);
    assert_int_equal(t->collectives[1].seq, 2);
    assert_int_equal(t->collectives[1].bytes, 1024);
    assert_int_equal(t->collective_member_count, 5);
    assert_int_equal(t->collective_members[3].collective, 2);
    assert_int_equal(t->collective_members[3].rank, 1);
    struct orr_analysis *a = analyze(t);
    assert_int_equal(a->events.collectives[0].members, 2);
    assert_int_equal(a->events.collectives[0].size, 4); /* for bus bandwidth */
    assert_int_equal(a->ranks.collective_count, 2);     /* read back as recorded */
    orr_analysis_destroy(&a);
    finish(&job);
}

static void the_critical_path_changes_ranks_at_the_last_arrival(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2);
    job.shifts[1] = -777;
    /* Rank 1 computes for long, and rank 0 waits for it in the collective. */
    job_kernel(&job, 0, "short", 100, 300);
    job_comm(&job, 0, ALL_REDUCE, 400, 5100);
    job_kernel(&job, 0, "after", 5200, 5300);
    struct orr_timeline_command *c;
    job_comm(&job, 1, "long", 100, 5000); /* in the stream of communication, before it */
    job_comm(&job, 1, ALL_REDUCE, 5000, 5100);
    join(&job);
    c = &job.merged->commands[2];
    c->stream = job.merged->commands[1].stream; /* behind the collective, in its stream */
    job.merged->calls[2].begin_ns = 420;        /* and called long before */
    job.merged->calls[2].end_ns = 430;
    struct orr_analysis *a = analyze(job.merged);
    struct orr_rank_path path;
    assert_int_equal(orr_rank_path_compute(&job.ranks, a, &a->path, &counting.table, &path),
                     ORR_OK);
    assert_int_equal(path.hops, 1);
    int64_t sum = path.unknown_ns + path.time_ns[0] + path.time_ns[1];
    assert_int_equal(sum, a->end_ns - a->begin_ns);
    assert_int_equal(path.time_ns[1], 5000 - 100);       /* long */
    assert_int_equal(a->path.kinds[ORR_PATH_COMM], 100); /* the transfer, on rank 0 */
    orr_rank_path_free(&counting.table, &path);
    orr_analysis_destroy(&a);
    finish(&job);
}

/* ---------------------------------------------------------------------------------------------- */

static void draw_rank(struct rank_job *job, size_t rank, uint64_t *random) {
    static const char *const names[] = {"gemm", "copy", ALL_REDUCE, SEND_RECV, ""};
    size_t count = (size_t)random_below(random, 30);
    for (size_t i = 0; i < count; i++) {
        const char *name = names[random_below(random, 5)];
        int64_t start = (int64_t)random_below(random, 20000);
        int64_t length = (int64_t)random_below(random, 500) - 20;
        if (random_below(random, 2))
            job_kernel(job, rank, name, start, start + length);
        else
            job_comm(job, rank, name, start, start + length);
    }
}

/* Figures of a device do not depend on what else is in the timeline, nor on its zero. */
static void every_figure_of_a_device_stays(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t random = seed;
        struct rank_job job;
        size_t count = 1 + (size_t)random_below(&random, 6);
        begin(&job, count);
        for (size_t r = 0; r < count; r++) {
            job.shifts[r] = (int64_t)random_below(&random, 100000) + 30;
            draw_rank(&job, r, &random);
        }
        join(&job);
        struct orr_analysis *whole = analyze(job.merged);
        uint64_t bad = 0;
        for (size_t r = 0; r < count; r++) {
            struct orr_analysis *alone = analyze(job.timelines[r]);
            bad += alone->events.source.bad_ops;
            for (size_t d = 0; d < whole->device_count && alone->device_count > 0; d++) {
                uint32_t id = whole->events.devices[whole->devices[d].device].id;
                if (id != r)
                    continue;
                const struct orr_device_times *x = &whole->devices[d].times;
                const struct orr_device_times *y = &alone->devices[0].times;
                if (x->ops != y->ops || x->span_ns != y->span_ns || x->busy_ns != y->busy_ns ||
                    memcmp(x->classes, y->classes, ORR_CLASS_BEFORE_FIRST * sizeof *x->classes) !=
                        0 ||
                    whole->devices[d].residual_ns != 0)
                    fail_msg("seed %llu, rank %zu", (unsigned long long)seed, r);
            }
            orr_analysis_destroy(&alone);
        }
        if (whole->events.source.bad_ops != bad)
            fail_msg("seed %llu: %llu bad ops of %llu", (unsigned long long)seed,
                     (unsigned long long)whole->events.source.bad_ops, (unsigned long long)bad);
        orr_analysis_destroy(&whole);
        finish(&job);
    }
}

static void formats_that_differ_are_refused(void **state) {
    (void)state;
    struct rank_job job;
    struct orr_timeline *merged = NULL;
    begin(&job, 2);
    job_end(&job);
    job.timelines[1]->source.format = "nsys";
    struct orr_merge_part how[2] = {{.rank = 0}, {.rank = 1}};
    struct orr_merge_match match = {0};
    const struct orr_timeline *parts[] = {job.timelines[0], job.timelines[1]};
    assert_int_equal(
        orr_timeline_merge(parts, how, 2, &match, &counting.table, &merged, &job.error),
        ORR_UNSUPPORTED);
    assert_non_null(strstr(job.error.text, "kineto and nsys"));
    assert_null(merged);
    finish(&job);
}

/* Everything that a timeline of our own can hold, twice. */
static void our_own_traces_keep_their_links(void **state) {
    (void)state;
    memory_counting_init(&counting, 0);
    struct orr_timeline *parts[2], *merged = NULL;
    struct orr_error error = {0};
    for (size_t p = 0; p < 2; p++) {
        assert_int_equal(orr_timeline_create(&counting.table, &parts[p]), ORR_OK);
        struct orr_timeline *t = parts[p];
#define ONE(array, count, ...)                                                                     \
    t->array = orr_memory_alloc(&counting.table, 2 * sizeof *t->array);                            \
    t->array[0] = (__typeof__(*t->array)){__VA_ARGS__};                                            \
    t->count = 1
        ONE(devices, device_count, .id = 4, .name = "sim", .kind = "gpu", .profile = "h100");
        ONE(streams, stream_count, .id = 9, .device = 4, .name = "compute");
        ONE(hosts, host_count, .id = 2, .name = "main", .label = "");
        ONE(ops, op_count, .id = 5, .name = "add", .kind = "pointwise", .site = "", .shape = "");
        ONE(commands, command_count, .id = 7, .op = 5, .device = 4, .stream = 9, .host = 2,
            .caller = 2, .name = "add", .event = "", .site = "", .ts_source = "", .grid = "",
            .start_ns = 10, .finish_ns = 20, .ready_ns = ORR_TIME_NONE);
        t->commands[1] = t->commands[0];
        t->commands[1].id = 8;
        t->command_count = 2;
        ONE(edges, edge_count, .src = 7, .dst = 8, .kind = ORR_EDGE_STREAM);
        ONE(syncs, sync_count, .id = 1, .cmd = 8, .host = 2, .kind = ORR_SYNC_DEVICE,
            .target = "device 4", .stream = ORR_ID_NONE, .device = ORR_ID_NONE);
        ONE(buffers, buffer_count, .id = 3, .block = 6, .alloc_cmd = 7, .device = 4, .stream = 9,
            .memory = "device", .label = "x");
        ONE(buffer_roles, buffer_role_count, .buffer = 3, .after_cmd = 7);
        ONE(accesses, access_count, .cmd = 8, .buffer = 3);
        ONE(counters, counter_count, .device = 4, .name = "bytes", .ts_ns = 15);
        ONE(findings, finding_count, .id = 1, .cmd_a = 7, .cmd_b = 8, .buffer = 3, .kind = "race",
            .severity = "error", .message = "m", .fix = "");
        ONE(communicators, communicator_count, .id = 3, .name = "dp 0");
        ONE(members, member_count, .communicator = 3, .rank = 0, .device = 4);
        ONE(collectives, collective_count, .id = 2, .communicator = 3, .kind = "all_reduce",
            .algorithm = "", .protocol = "", .seq = 1);
        ONE(collective_members, collective_member_count, .collective = 2, .cmd = 8);
        ONE(meta, meta_count, .key = "backend", .value = p == 0 ? "sim" : "cpu");
#undef ONE
    }
    struct orr_merge_part how[2] = {{.rank = 0}, {.rank = 1, .offset_ns = 3}};
    struct orr_merge_match match = {0};
    assert_int_equal(orr_timeline_merge((const struct orr_timeline *const *)parts, how, 2, &match,
                                        &counting.table, &merged, &error),
                     ORR_OK);
    assert_int_equal(merged->devices[1].id, 1);
    assert_int_equal(merged->commands[3].id, 4);
    assert_int_equal(merged->commands[3].op, 2);
    assert_int_equal(merged->commands[3].stream, 1);
    assert_int_equal(merged->commands[3].start_ns, 7);
    assert_int_equal(merged->edges[1].src, 3);
    assert_int_equal(merged->edges[1].dst, 4);
    assert_string_equal(merged->syncs[1].target, "device 1");
    assert_int_equal(merged->syncs[1].cmd, 4);
    assert_int_equal(merged->buffers[1].id, 2);
    assert_int_equal(merged->buffers[1].block, 12);
    assert_int_equal(merged->buffers[1].alloc_cmd, 3);
    assert_int_equal(merged->buffers[1].free_cmd, 0);
    assert_int_equal(merged->buffer_roles[1].buffer, 2);
    assert_int_equal(merged->accesses[1].cmd, 4);
    assert_int_equal(merged->counters[1].ts_ns, 12);
    assert_int_equal(merged->findings[1].cmd_b, 4);
    assert_string_equal(merged->findings[1].message, "rank 1: m");
    assert_int_equal(merged->communicator_count, 2);
    assert_int_equal(merged->members[1].device, 1);
    assert_int_equal(merged->collective_members[1].collective, 2);
    assert_int_equal(merged->collective_members[1].cmd, 4);
    assert_string_equal(orr_timeline_meta(merged, "backend of rank 1"), "cpu");
    assert_null(orr_timeline_meta(merged, "backend"));
    orr_timeline_destroy(&merged);
    orr_timeline_destroy(&parts[0]);
    orr_timeline_destroy(&parts[1]);
    assert_int_equal(counting.live, 0);
}

static void each_allocation_may_fail(struct memory_counting *memory, void *context) {
    (void)context;
    static const uint32_t world[] = {0, 1};
    struct rank_job job = {.may_fail = true};
    job_begin(&job, &memory->table, 2, 3);
    for (size_t r = 0; r < 2 && !job.failed; r++) {
        uint32_t group = job_group(&job, r, "0", world, 2);
        uint64_t id = job_comm(&job, r, ALL_REDUCE, 1000, 1500);
        job_collective(&job, r, id, group, "all_reduce", 1, ORR_ID_NONE, ORR_ID_NONE);
        job_comm(&job, r, BROADCAST, 2000, 2500);
    }
    job_end(&job);
    job_ranks(&job);
    job_merge(&job);
    job_free(&job);
}

static void out_of_memory_is_clean(void **state) {
    (void)state;
    assert_true(fail_each_request(each_allocation_may_fail, NULL) > 80);
}

/* A step of a pipeline of two and an all-reduce, from traces to reports. */
static void each_report_may_fail(struct memory_counting *memory, void *context) {
    (void)context;
    static const uint32_t world[] = {0, 1};
    struct rank_job job = {.may_fail = true};
    job_begin(&job, &memory->table, 2, 2);
    for (size_t r = 0; r < 2 && !job.failed; r++) {
        uint32_t group = job_group(&job, r, "pp", world, 2);
        job_kernel(&job, r, "gemm", 1000 * (int64_t)r, 1000 * (int64_t)r + 900);
        uint64_t id = job_comm(&job, r, SEND_RECV, 950, 1000);
        job_collective(&job, r, id, group, "send_receive", 0, 0, 1);
        job_comm(&job, r, ALL_REDUCE, 2000, 2500);
    }
    job_end(&job);
    job_ranks(&job);
    job_merge(&job);
    struct orr_analysis *whole = NULL, *each[2] = {NULL, NULL};
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_rank_set exact = {0};
    options.file = "set";
    enum orr_status status = job.failed ? ORR_NO_MEMORY : ORR_OK;
    if (status == ORR_OK)
        status = orr_analyze(job.merged, &options, &memory->table, &whole, NULL);
    for (size_t r = 0; r < 2 && status == ORR_OK; r++)
        status = orr_analyze(job.timelines[r], &options, &memory->table, &each[r], NULL);
    if (status == ORR_OK)
        status = orr_rank_set_compute(job.inputs, &job.ranks, &memory->table, &exact);
    if (status == ORR_OK) {
        struct orr_report_set set = {.memory = &memory->table,
                                     .file = "set",
                                     .ranks = &job.ranks,
                                     .exact = &exact,
                                     .whole = whole,
                                     .each = (const struct orr_analysis *const *)each,
                                     .count = 2};
        char *text = NULL;
        size_t length;
        if (orr_report_json_set(&set, &text, &length) == ORR_OK)
            assert_non_null(strstr(text, "\"bubbles\": [\n {\"pipeline\": 0"));
        orr_memory_free(&memory->table, text);
        text = NULL;
        if (orr_report_text_set(&set, &text, &length) == ORR_OK)
            assert_non_null(strstr(text, "pipeline bubbles"));
        orr_memory_free(&memory->table, text);
    }
    orr_rank_set_free(&memory->table, &exact);
    orr_analysis_destroy(&whole);
    orr_analysis_destroy(&each[0]);
    orr_analysis_destroy(&each[1]);
    job_free(&job);
}

static void reports_without_memory_are_clean(void **state) {
    (void)state;
    assert_true(fail_each_request(each_report_may_fail, NULL) > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_names_and_times_become_those_of_the_whole),
        cmocka_unit_test(processes_stay_apart_and_calls_stay_theirs),
        cmocka_unit_test(bad_stamps_stay_bad),
        cmocka_unit_test(collectives_are_one_row_with_their_ranks_and_missing_ones),
        cmocka_unit_test(the_critical_path_changes_ranks_at_the_last_arrival),
        cmocka_unit_test(every_figure_of_a_device_stays),
        cmocka_unit_test(formats_that_differ_are_refused),
        cmocka_unit_test(our_own_traces_keep_their_links),
        cmocka_unit_test(out_of_memory_is_clean),
        cmocka_unit_test(reports_without_memory_are_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
