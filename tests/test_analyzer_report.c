/* The reports: the JSON contract, checked by SQLite's JSON parser, and absurd timelines, which must
 * give a valid report with every ns in one class, whatever their times, ids and texts are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "tests/timeline_fixture.h"

/* ------------------------------------------------------------------------------------------------
 * JSON through SQLite */

/* "select EXPRESSION" with the document as ?1, as a text freed by the caller. */
static char *evaluate(const char *json, const char *expression) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    char *sql = sqlite3_mprintf("select %s", expression);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    sqlite3_bind_text(statement, 1, json, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const char *value = (const char *)sqlite3_column_text(statement, 0);
    char *copy = strdup(value ? value : "null");
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    sqlite3_close(db);
    return copy;
}

static void check_value(const char *json, const char *path, const char *expected) {
    char expression[256];
    snprintf(expression, sizeof expression, "json_extract(?1, '$.%s')", path);
    char *value = evaluate(json, expression);
    if (strcmp(value, expected) != 0) {
        fail_msg("%s is %s, expected %s", path, value, expected);
    }
    free(value);
}

static void check_has(const char *json, const char *path) {
    char expression[256];
    /* The type of a value that is null is "null"; that of an absent one is NULL. */
    snprintf(expression, sizeof expression, "json_type(?1, '$.%s') is not null", path);
    char *present = evaluate(json, expression);
    if (strcmp(present, "1") != 0) {
        fail_msg("the key %s is missing", path);
    }
    free(present);
}

static void check_valid(const char *json) {
    char *valid = evaluate(json, "json_valid(?1)");
    assert_string_equal(valid, "1");
    free(valid);
}

static struct orr_analysis *analyze(struct fixture *f, const struct orr_memory *memory) {
    struct orr_analysis_options options = orr_analysis_options_default();
    options.file = "run.db";
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    assert_int_equal(orr_analyze(fixture_timeline(f), &options, memory, &analysis, &error), ORR_OK);
    return analysis;
}

static char *json_of(const struct orr_analysis *a) {
    char *text;
    size_t length;
    assert_int_equal(orr_report_json(a, &text, &length), ORR_OK);
    assert_int_equal(strlen(text), length);
    return text;
}

static char *text_of(const struct orr_analysis *a) {
    char *text;
    size_t length;
    assert_int_equal(orr_report_text(a, &text, &length), ORR_OK);
    assert_int_equal(strlen(text), length);
    return text;
}

/* ------------------------------------------------------------------------------------------------
 * The contract */

static uint64_t kernel(struct fixture *f, uint32_t stream, const char *name, int64_t enqueue,
                       int64_t enqueued, int64_t begin, int64_t end) {
    uint64_t id = fixture_command(f, ORR_COMMAND_KERNEL, stream, name, begin, end)->id;
    fixture_enqueue(f, id, 0, enqueue, enqueued);
    return id;
}

static void build(struct fixture *f) {
    fixture_init(f);
    fixture_meta(f, "backend", "cpu");
    fixture_meta(f, "status", "ok");
    fixture_host(f, "main");
    uint32_t device = fixture_device(f, "cpu \"0\"\n", "cpu");
    f->timeline.devices[device].mem_bytes = 1000;
    uint32_t stream = fixture_stream(f, device, "compute", ORR_STREAM_COMPUTE);
    uint64_t first = kernel(f, stream, "a \"quoted\" \\ name\x01", 0, 100, 150, 1000);
    fixture_sync(f, 0, ORR_SYNC_STREAM, 100, 1010, first);
    kernel(f, stream, "b|\xff", 1100, 1200, 1210, 1500);
    fixture_finding(f, "missing_wait", "error", first, 2)->message = "line\nbreak";
}

static void the_json_report_keeps_its_contract(void **state) {
    (void)state;
    static const char *const keys[] = {"window_ns",
                                       "devices[0].id",
                                       "devices[0].window_ns",
                                       "devices[0].compute_ns",
                                       "devices[0].exposed_comm_ns",
                                       "devices[0].exposed_copy_ns",
                                       "devices[0].overlap_ns",
                                       "devices[0].idle.host_launch",
                                       "devices[0].idle.before_first",
                                       "devices[0].residual_ns",
                                       "devices[0].launch.count",
                                       "devices[0].launch.latency_ns_p50",
                                       "devices[0].launch.total_ns",
                                       "devices[0].launch.bound",
                                       "devices[0].launch.graph_saving_ns",
                                       "devices[0].launch.why",
                                       "timing.submission_ns",
                                       "timing.stream_wait_ns",
                                       "timing.dep_wait_ns",
                                       "timing.dispatch_ns",
                                       "timing.device_ns",
                                       "timing.sync_ns",
                                       "phases[0].device",
                                       "phases[0].begin_ns",
                                       "phases[0].end_ns",
                                       "phases[0].class",
                                       "phases[0].why",
                                       "roofline[0].op",
                                       "roofline[0].count",
                                       "roofline[0].flops",
                                       "roofline[0].bytes",
                                       "roofline[0].intensity",
                                       "roofline[0].time_ns",
                                       "roofline[0].class",
                                       "roofline[0].peak_fraction",
                                       "critical_path.segments",
                                       "memory[0].device",
                                       "memory[0].peak_bytes",
                                       "memory[0].capacity_bytes",
                                       "findings[0].kind",
                                       "exact.format",
                                       "exact.devices[0].launch_bound"};
    struct orr_memory memory = orr_memory_system();
    struct fixture f;
    build(&f);
    struct orr_analysis *a = analyze(&f, &memory);
    char *json = json_of(a);
    check_valid(json);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        check_has(json, keys[i]);
    }
    orr_memory_free(&memory, json);
    orr_analysis_destroy(&a);
    fixture_free(&f);
}

/* Two devices on one GPU: what transfers took is told apart from what links would take. */
static void emulated_collectives_are_called_so(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct fixture f;
    fixture_init(&f);
    fixture_host(&f, "main");
    fixture_communicator(&f, "dp");
    struct orr_timeline_collective *c = fixture_collective(&f, 0, "all_reduce", 4096);
    c->emulated = true;
    c->modelled_ns = 7000;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t device = fixture_device(&f, "", "gpu");
        uint32_t stream = fixture_stream(&f, device, "communicate", ORR_STREAM_COMMUNICATE);
        fixture_member(&f, 0, i, device);
        fixture_collective_member(
            &f, 1, i,
            fixture_command(&f, ORR_COMMAND_COLLECTIVE, stream, "all_reduce", 100, 1100)->id);
    }
    struct orr_analysis *a = analyze(&f, &memory);
    char *json = json_of(a), *text = text_of(a);
    check_value(json, "collectives[0].transfer_ns", "1000");
    check_value(json, "collectives[0].emulated", "1");
    check_value(json, "collectives[0].modelled_ns", "7000");
    assert_non_null(strstr(text, "modelled on links"));
    assert_non_null(strstr(text, "  1 of 1 emulated by kernels and copies: their times are those "
                                 "of memory, not of links; on the links of the device spec all "
                                 "would take 7.00 us\n"));
    orr_memory_free(&memory, json);
    orr_memory_free(&memory, text);
    orr_analysis_destroy(&a);
    fixture_free(&f);
}

static void the_exact_object_has_the_keys_of_other_traces(void **state) {
    (void)state;
    static const char *const keys[] = {"file",
                                       "format",
                                       "gpu_ops",
                                       "kernels",
                                       "memcpys",
                                       "memsets",
                                       "memcpy_bytes",
                                       "top_kernels[0].name",
                                       "top_kernels[0].count",
                                       "top_kernels[0].sum_ns",
                                       "top_kernels[0].min_ns",
                                       "top_kernels[0].max_ns",
                                       "bad_ops",
                                       "zero_len_ops",
                                       "streams",
                                       "api_calls",
                                       "linked",
                                       "unlinked",
                                       "ops_multi_api",
                                       "fanout_corrs",
                                       "max_ops_per_corr",
                                       "graph_launches",
                                       "graph_launches_no_op",
                                       "graph_ops",
                                       "start_before_launch",
                                       "start_before_launch_max_ns",
                                       "start_during_launch",
                                       "same_stream_overlaps",
                                       "same_stream_overlap_max_ns",
                                       "subns_stamps",
                                       "time_base_ns",
                                       "event_waits",
                                       "event_waits_unresolved",
                                       "dep_violations",
                                       "api_once_ns",
                                       "api_per_op_ns",
                                       "split.ops",
                                       "split.submit",
                                       "split.stream_wait",
                                       "split.dep_wait",
                                       "split.dispatch",
                                       "split.device",
                                       "split.total",
                                       "idle_by_stream.host",
                                       "idle_by_stream_n.queued",
                                       "devices[0].device",
                                       "devices[0].processes",
                                       "devices[0].ops",
                                       "devices[0].first_ns",
                                       "devices[0].last_ns",
                                       "devices[0].span_ns",
                                       "devices[0].busy_ns",
                                       "devices[0].idle_ns",
                                       "devices[0].compute_ns",
                                       "devices[0].comm_ns",
                                       "devices[0].copy_ns",
                                       "devices[0].comm_compute_overlap_ns",
                                       "devices[0].classes.unknown_clock",
                                       "devices[0].residual_ns",
                                       "devices[0].gaps",
                                       "devices[0].gaps_host",
                                       "devices[0].launch.calls",
                                       "devices[0].launch.sum_ns",
                                       "devices[0].launch.median_ns",
                                       "devices[0].launch.p95_ns",
                                       "devices[0].launch.feed_calls",
                                       "devices[0].launch.launch_period_ns",
                                       "devices[0].launch.feed_gaps",
                                       "devices[0].launch.gap_period_ns",
                                       "devices[0].launch.graph_gaps",
                                       "devices[0].launch.graph_gap_ns"};
    struct orr_memory memory = orr_memory_system();
    struct fixture f;
    build(&f);
    struct orr_analysis *a = analyze(&f, &memory);
    char *json = json_of(a);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char path[128];
        snprintf(path, sizeof path, "exact.%s", keys[i]);
        check_has(json, path);
    }
    orr_memory_free(&memory, json);
    orr_analysis_destroy(&a);
    fixture_free(&f);
}

static void the_values_are_those_of_the_analysis(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct fixture f;
    build(&f);
    struct orr_analysis *a = analyze(&f, &memory);
    char *json = json_of(a);
    check_value(json, "file", "run.db");
    check_value(json, "modelled", "0");
    check_value(json, "window_ns", "1350");
    /* The gap of 210: 10 in the sync, 90 of the host's, 100 of the launch, 10 of dispatch. */
    check_value(json, "devices[0].idle.host_sync", "10");
    check_value(json, "devices[0].idle.host_other", "90");
    check_value(json, "devices[0].idle.host_launch", "100");
    check_value(json, "devices[0].idle.dispatch", "10");
    check_value(json, "devices[0].residual_ns", "0");
    check_value(json, "devices[0].launch.bound", "0");
    check_value(json, "devices[0].launch.latency_ns_p50", "100");
    check_value(json, "devices[0].overlap_ratio", "null");
    check_value(json, "timing.sync_ns", "10");
    check_value(json, "commands[0].device_ns", "850");
    check_value(json, "commands[0].submission_ns", "100");
    check_value(json, "commands[0].queued_ns", "50");
    check_value(json, "commands[1].sync_ns", "null");
    check_value(json, "findings[0].cmd_a", "1");
    check_value(json, "findings[0].message", "line\nbreak");
    check_value(json, "devices[0].name", "cpu \"0\"\n");
    check_value(json, "exact.format", "orrery");
    check_value(json, "exact.split.total", "1400");
    check_value(json, "critical_path.residual_ns", "0");
    orr_memory_free(&memory, json);
    orr_analysis_destroy(&a);
    fixture_free(&f);
}

static void both_reports_of_one_trace_are_the_same_every_time(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct fixture f;
    build(&f);
    struct orr_analysis *a = analyze(&f, &memory), *b = analyze(&f, &memory);
    char *x = json_of(a), *y = json_of(b);
    assert_string_equal(x, y);
    orr_memory_free(&memory, x);
    orr_memory_free(&memory, y);
    orr_analysis_destroy(&a);
    orr_analysis_destroy(&b);
    fixture_free(&f);
}

/* ------------------------------------------------------------------------------------------------
 * Absurd timelines */

static uint64_t draw(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static int64_t odd_time(uint64_t *random) {
    static const int64_t times[] = {INT64_MIN,
                                    INT64_MAX,
                                    0,
                                    -1,
                                    1,
                                    INT64_C(1) << 61,
                                    -(INT64_C(1) << 61),
                                    (INT64_C(1) << 61) + 1,
                                    1000};
    if (draw(random) % 3 > 0) {
        return (int64_t)(draw(random) % 2000);
    }
    return times[draw(random) % (sizeof times / sizeof *times)];
}

static uint64_t odd_amount(uint64_t *random) {
    return draw(random) % 4 == 0 ? UINT64_MAX : draw(random) % 100000;
}

static void add_odd_commands(struct fixture *f, uint64_t *random, unsigned streams) {
    for (uint64_t i = draw(random) % 60; i > 0; i--) {
        uint32_t stream = draw(random) % 10 == 0 ? ORR_ID_NONE : (uint32_t)(draw(random) % streams);
        struct orr_timeline_command *c = fixture_command(
            f, (enum orr_command_kind)(draw(random) % ORR_COMMAND_KIND_COUNT), stream,
            draw(random) % 2 ? "kernel" : "\xc3\x28 odd", odd_time(random), odd_time(random));
        c->id += draw(random) % 20 == 0 ? 1000 : 0; /* ids need not be dense */
        if (c > f->timeline.commands && c->id <= c[-1].id) {
            c->id = c[-1].id + 1;
        }
        c->host = draw(random) % 10 == 0 ? 77 : (uint32_t)(draw(random) % 2);
        c->enqueue_ns = odd_time(random);
        c->enqueued_ns = odd_time(random);
        c->ready_ns = odd_time(random);
        c->seq = draw(random) % 5;
        c->op = draw(random) % 5;
        c->unit = (uint8_t)(draw(random) % 3);
        c->dtype = draw(random) % 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_NONE;
        c->flops = odd_amount(random);
        c->bytes_read = odd_amount(random);
        c->bytes_written = odd_amount(random);
        if (draw(random) % 3 > 0) { /* a sane one now and then */
            c->enqueue_ns = (int64_t)(draw(random) % 1000);
            c->enqueued_ns = c->enqueue_ns + (int64_t)(draw(random) % 50);
            c->start_ns = c->enqueued_ns + (int64_t)(draw(random) % 100);
            c->finish_ns = c->start_ns + (int64_t)(draw(random) % 100);
        }
    }
}

static void add_odd_relations(struct fixture *f, uint64_t *random) {
    for (uint64_t i = draw(random) % 30; i > 0; i--) {
        fixture_edge(f, draw(random) % 70, draw(random) % 70,
                     (enum orr_edge_kind)(draw(random) % ORR_EDGE_KIND_COUNT));
    }
    for (uint64_t i = draw(random) % 6; i > 0; i--) {
        fixture_sync(f, (uint32_t)(draw(random) % 3),
                     (enum orr_sync_kind)(draw(random) % ORR_SYNC_KIND_COUNT), odd_time(random),
                     odd_time(random), draw(random) % 70);
    }
    for (uint64_t i = draw(random) % 4; i > 0; i--) {
        uint64_t id =
            fixture_collective(f, (uint32_t)(draw(random) % 3), "all_reduce", odd_amount(random))
                ->id;
        for (uint64_t m = draw(random) % 4; m > 0; m--) {
            fixture_collective_member(f, draw(random) % 5 ? id : 99, (uint32_t)m,
                                      draw(random) % 70);
        }
    }
    for (uint64_t i = draw(random) % 8; i > 0; i--) {
        struct orr_timeline_buffer *b =
            fixture_buffer(f, (uint32_t)(draw(random) % 4), odd_amount(random));
        b->alloc_cmd = draw(random) % 70;
        b->free_cmd = draw(random) % 70;
        b->memory = draw(random) % 2 ? "dev" : "pinned";
    }
}

static void build_absurd(struct fixture *f, uint64_t *random) {
    fixture_init(f);
    fixture_meta(f, "dropped", "-x");
    fixture_host(f, "a");
    fixture_host(f, "b");
    unsigned devices = 1 + (unsigned)(draw(random) % 3), streams = 0;
    for (unsigned d = 0; d < devices; d++) {
        uint32_t device = fixture_device(f, "d", "gpu");
        f->timeline.devices[device].bandwidth = odd_amount(random);
        f->timeline.devices[device].peak[draw(random) % 2][ORR_DTYPE_BF16] = odd_amount(random);
        fixture_stream(f, d, "s", ORR_STREAM_COMPUTE);
        streams++;
    }
    fixture_stream(f, 50, "of an unknown device", ORR_STREAM_COPY);
    streams++;
    for (int i = 0; i < 4; i++) {
        struct orr_timeline_op *op = fixture_op(f, i % 2 ? "x" : "y", i < 2 ? "gemm" : "pointwise");
        op->shape = i == 0 ? "[8, 99999999999999999999]" : i == 1 ? "[[,]" : "[2, 3]";
        op->dtype = ORR_DTYPE_BF16;
        op->bytes_broadcast = odd_amount(random);
    }
    uint32_t group = fixture_communicator(f, "g");
    fixture_member(f, group, 0, 0);
    fixture_member(f, 9, 1, 1);
    add_odd_commands(f, random, streams);
    add_odd_relations(f, random);
}

static void check_conserved(const struct orr_analysis *a) {
    for (size_t d = 0; d < a->device_count; d++) {
        int64_t sum = 0;
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
            assert_true(a->devices[d].classes[c] >= 0);
            sum += a->devices[d].classes[c];
        }
        assert_int_equal(sum, a->end_ns - a->begin_ns);
    }
    int64_t length = 0;
    for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
        length += a->path.kinds[k];
    }
    assert_int_equal(length, a->end_ns - a->begin_ns);
}

static void absurd_timelines_give_valid_reports(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    const char *text = getenv("ORR_TEST_SEED");
    uint64_t random = text ? strtoull(text, NULL, 10) | 1 : 12345;
    print_message("# ORR_TEST_SEED=%llu\n", (unsigned long long)random);
    for (int round = 0; round < 300; round++) {
        struct fixture f;
        build_absurd(&f, &random);
        struct orr_analysis *a = analyze(&f, &memory);
        check_conserved(a);
        char *json = json_of(a), *report;
        size_t length;
        check_valid(json);
        assert_int_equal(orr_report_text(a, &report, &length), ORR_OK);
        orr_memory_free(&memory, json);
        orr_memory_free(&memory, report);
        orr_analysis_destroy(&a);
        fixture_free(&f);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Memory that fails */

struct failing {
    size_t requests, fail_at, live;
};

static void *failing_resize(void *context, void *block, size_t size) {
    struct failing *failing = context;
    if (size == 0) {
        failing->live--;
        free(block);
        return NULL;
    }
    if (++failing->requests == failing->fail_at) {
        return NULL;
    }
    void *resized = realloc(block, size);
    failing->live += resized && !block;
    return resized;
}

static void analyzing_a_timeline_survives_each_failed_allocation(void **state) {
    (void)state;
    struct fixture f;
    build(&f);
    const struct orr_timeline *timeline = fixture_timeline(&f);
    struct orr_analysis_options options = orr_analysis_options_default();
    struct failing failing = {.fail_at = 1};
    for (bool failed = true; failed; failing.fail_at++) {
        struct orr_memory memory = {failing_resize, &failing};
        struct orr_analysis *analysis;
        struct orr_error error = {0};
        failing.requests = 0;
        enum orr_status status = orr_analyze(timeline, &options, &memory, &analysis, &error);
        failed = failing.requests >= failing.fail_at;
        assert_int_equal(status, failed ? ORR_NO_MEMORY : ORR_OK);
        assert_true((analysis == NULL) == failed);
        assert_true((error.text[0] != '\0') == failed);
        orr_analysis_destroy(&analysis);
        assert_int_equal(failing.live, 0);
    }
    assert_true(failing.fail_at > 60);
    fixture_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_report_keeps_its_contract),
        cmocka_unit_test(emulated_collectives_are_called_so),
        cmocka_unit_test(the_exact_object_has_the_keys_of_other_traces),
        cmocka_unit_test(the_values_are_those_of_the_analysis),
        cmocka_unit_test(both_reports_of_one_trace_are_the_same_every_time),
        cmocka_unit_test(absurd_timelines_give_valid_reports),
        cmocka_unit_test(analyzing_a_timeline_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests_name("analyzer reports", tests, NULL, NULL);
}
