/* Exports of Nsight Systems: what is linked with what, what columns and codes mean, what is said of
 * what is missing, and files that are cut, damaged, hostile or something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/nsys_fixture.h"
#include "tests/support.h"
#include "trace/import/formats.h"

static const struct orr_import_options tolerant = {0}, strict = {.strict = true};

struct reading {
    struct nsys_fixture fixture;
    struct memory_counting memory;
    struct orr_timeline *t;
    struct orr_error error;
};

static enum orr_status read_with(struct reading *r, const struct orr_import_options *options) {
    orr_timeline_destroy(&r->t);
    orr_error_clear(&r->error);
    return orr__read_nsys(r->fixture.path, options, &r->memory.table, &r->t, &r->error);
}

static void open_reading(struct reading *r, const char *name) {
    *r = (struct reading){0};
    memory_counting_init(&r->memory, 0);
    nsys_fixture_open(&r->fixture, name);
}

/* Makes the database and reads it. */
static void begin(struct reading *r, const char *first, const char *second) {
    open_reading(r, "trace.sqlite");
    nsys_fixture_make(&r->fixture, first, second);
    enum orr_status status = read_with(r, &tolerant);
    if (status != ORR_OK)
        print_error("%s\n", r->error.text);
    assert_int_equal(status, ORR_OK);
}

static void end(struct reading *r) {
    orr_timeline_destroy(&r->t);
    nsys_fixture_close(&r->fixture);
    assert_int_equal(r->memory.live, 0);
}

static const struct orr_timeline_finding *finding(const struct orr_timeline *t, const char *kind,
                                                  const char *part) {
    for (size_t i = 0; i < t->finding_count; i++)
        if (strcmp(t->findings[i].kind, kind) == 0 && strstr(t->findings[i].message, part))
            return &t->findings[i];
    return NULL;
}

static const struct orr_timeline_call *call_of(const struct orr_timeline *t,
                                               const struct orr_timeline_command *command) {
    assert_in_range(command->call, 1, t->call_count);
    return &t->calls[command->call - 1];
}

/* -- What is linked ---------------------------------------------------------------------------- */

static void work_is_linked_within_its_process(void **state) {
    (void)state;
    struct reading r;
    begin(&r, nsys_base_sql, nsys_two_processes_sql);
    const struct orr_timeline *t = r.t;
    assert_int_equal(t->command_count, 5);
    assert_int_equal(t->call_count, 5);
    assert_string_equal(t->source.format, "nsys");
    assert_int_equal(call_of(t, &t->commands[0])->begin_ns, 100);
    assert_int_equal(t->commands[0].enqueue_ns, 100);
    assert_int_equal(t->commands[0].enqueued_ns, 120);
    assert_int_equal(call_of(t, &t->commands[1])->begin_ns, 500);
    assert_int_equal(t->commands[2].call, 0);
    assert_int_equal(call_of(t, &t->commands[3])->begin_ns, 130);
    assert_int_equal(t->commands[4].call, 0);
    /* 7 (A): 2 calls of A, 3 of all; 7 (B): 1 and 3; 8 (B): 0 and 1. */
    assert_int_equal(t->source.kernel_rows, 3);
    assert_int_equal(t->source.kernel_naive_rows, 3 + 3 + 1);
    assert_int_equal(t->source.kernel_process_rows, 2 + 1);
    assert_int_equal(t->source.kernel_unlinked, 1);
    assert_int_equal(t->source.memcpy_rows, 1);
    assert_int_equal(t->source.memcpy_process_rows, 1);
    assert_int_equal(t->source.memset_naive_rows, 0);
    assert_int_equal(t->source.memset_unlinked, 1);
    assert_true(t->source.has_time_base);
    assert_int_equal(t->source.time_base_ns, 1700000000000000000);
    end(&r);
}

static void names_and_places_are_those_of_the_rows(void **state) {
    (void)state;
    struct reading r;
    begin(&r, nsys_base_sql, nsys_two_processes_sql);
    const struct orr_timeline *t = r.t;
    assert_string_equal(t->commands[0].name, "void gemm<float>(int)");
    assert_string_equal(t->commands[0].grid, "[64, 1, 1] x [256, 1, 1]");
    assert_string_equal(t->commands[3].name, "Memcpy HtoD (Pinned -> Device)");
    assert_int_equal(t->commands[3].bytes_written, 4096);
    assert_string_equal(t->commands[4].name, "Memset (Device)");
    assert_int_equal(t->commands[4].bytes_written, 512);
    assert_string_equal(call_of(t, &t->commands[0])->name, "cudaLaunchKernel");
    assert_int_equal(t->stream_count, 3);
    assert_int_equal(t->streams[t->commands[3].stream].process, 281474976710656);
    assert_int_equal(t->streams[t->commands[1].stream].device, 1);
    assert_int_equal(t->host_count, 2);
    assert_string_equal(t->hosts[0].name, "python3");
    assert_string_equal(t->hosts[0].label, NSYS_TID_A);
    assert_string_equal(t->hosts[1].name, NSYS_TID_B);
    end(&r);
}

static void every_kind_of_copy_has_a_name(void **state) {
    (void)state;
    struct reading r;
    begin(&r, nsys_base_sql,
          "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES"
          " (1, 2, 0, 0, 0, 1, 0, 1, 8, 2, 2), (1, 2, 0, 0, 0, 1, 0, 1, 13, 4, 4),"
          " (1, 2, 0, 0, 0, 1, 0, 1, 0, 0, 7), (1, 2, 0, 0, 0, 1, 0, 1, 99, 1, 99),"
          " (1, 2, 0, 0, 0, 1, 0, 1, NULL, NULL, NULL), (1, 2, 0, 0, 0, 1, 0, -5, 10, 2, 2);");
    static const char *const names[] = {"Memcpy DtoD (Device -> Device)",
                                        "Memcpy UVM DtoD (Managed -> Managed)",
                                        "Memcpy (Pageable -> Unknown)",
                                        "Memcpy",
                                        "Memcpy",
                                        "Memcpy PtoP (Device -> Device)"};
    assert_int_equal(r.t->command_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(r.t->commands[i].name, names[i]);
    assert_int_equal(r.t->commands[5].bytes_written, 0);
    end(&r);
}

/* -- Waiting ----------------------------------------------------------------------------------- */

#define SYNC   "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES "
#define RECORD "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES "

static const char waits_sql[] =
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
    " (600, 601, 0, " NSYS_TID_A ", 20, 6, 0, NULL), (610, 611, 0, " NSYS_TID_A
    ", 21, 5, 0, NULL), (620, 640, 0, " NSYS_TID_A ", 22, 4, 0, NULL), (650, 651, 0, " NSYS_TID_A
    ", 23, 7, 0, NULL), (660, 661, 0, " NSYS_TID_B ", 20, 6, 0, NULL);"
    /* A record of each process with the same sync id. */
    RECORD "(0, 1, 1, 7, 20, " NSYS_PID_B ", 3, 55);" RECORD "(0, 0, 1, 13, 20, " NSYS_PID_A
    ", 3, 55);"
    /* A wait; one whose record is not there; a poll; a stream's synchronisation of the wrong type;
     * a device's of the old column; an event's. */
    SYNC "(610, 611, 0, 1, 7, 21, " NSYS_PID_A ", NULL, 2, 3, 55);" SYNC
    "(612, 613, 0, 1, 7, 900, " NSYS_PID_A ", NULL, 2, 3, 56);" SYNC
    "(650, 651, 0, 1, 4294967295, 23, " NSYS_PID_A ", NULL, 1, 3, 55);" SYNC
    "(622, 639, 0, 1, 7, 22, " NSYS_PID_A ", NULL, 2, 4294967295, 4294967295);" SYNC
    "(700, 710, 0, 1, 4294967295, 901, " NSYS_PID_A ", 4, NULL, NULL, NULL);" SYNC
    "(720, 730, 0, 1, 4294967295, 902, " NSYS_PID_A ", NULL, 1, 3, 55);";

static void waits_find_their_records_by_process_and_sync_id(void **state) {
    (void)state;
    struct reading r;
    char sql[8192];
    snprintf(sql, sizeof sql, "%s%s", nsys_two_processes_sql, waits_sql);
    begin(&r, nsys_base_sql, sql);
    const struct orr_timeline *t = r.t;
    assert_int_equal(t->stream_wait_count, 2);
    assert_true(t->stream_waits[0].resolved);
    assert_int_equal(t->stream_waits[0].at_ns, 610);
    assert_int_equal(t->stream_waits[0].record_ns, 600);
    assert_string_equal(t->streams[t->stream_waits[0].source].name, "stream 13");
    assert_string_equal(t->streams[t->stream_waits[0].stream].name, "stream 7");
    assert_int_equal(t->streams[t->stream_waits[0].source].device, 0);
    assert_false(t->stream_waits[1].resolved);
    assert_int_equal(t->stream_waits[1].at_ns, 612);
    assert_true(t->source.knows_waits && t->source.knows_syncs);
    end(&r);
}

static void the_name_of_the_call_says_what_is_waited_for(void **state) {
    (void)state;
    struct reading r;
    char sql[8192];
    snprintf(sql, sizeof sql, "%s%s", nsys_two_processes_sql, waits_sql);
    begin(&r, nsys_base_sql, sql);
    const struct orr_timeline *t = r.t;
    assert_int_equal(t->sync_count, 3); /* the poll is none */
    assert_int_equal(t->syncs[0].kind, ORR_SYNC_STREAM);
    assert_string_equal(t->syncs[0].target, "stream 7 of device 0");
    assert_int_equal(t->syncs[0].begin_ns, 620); /* of its call */
    assert_int_equal(t->syncs[0].end_ns, 640);
    assert_int_equal(t->syncs[1].kind, ORR_SYNC_DEVICE);
    assert_int_equal(t->syncs[1].device, 0);
    assert_int_equal(t->syncs[1].call, 0);
    assert_int_equal(t->syncs[2].kind, ORR_SYNC_EVENT);
    assert_string_equal(t->syncs[2].target, "event 3");
    assert_string_equal(t->streams[t->syncs[2].stream].name, "stream 13");
    end(&r);
}

static void overhead_is_the_profilers_by_its_type(void **state) {
    (void)state;
    struct reading r;
    begin(&r, nsys_base_sql,
          "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (1, 2, 0, " NSYS_TID_A
          ", 1, NULL, 2), (1, 2, 0, " NSYS_TID_A ", 1, NULL, 3), (1, 2, 0, " NSYS_TID_A
          ", 1, NULL, 8);"
          "INSERT INTO PROFILER_OVERHEAD VALUES (3, 4, " NSYS_TID_B ", NULL, 1);");
    const struct orr_timeline *t = r.t;
    assert_int_equal(t->overhead_count, 4);
    assert_false(t->overheads[0].profiler);
    assert_true(t->overheads[1].profiler);
    assert_string_equal(t->overheads[1].name, "Buffer Flush");
    assert_false(t->overheads[2].profiler);
    assert_string_equal(t->overheads[2].name, "Command Buffer Full");
    assert_true(t->overheads[3].profiler);
    assert_int_equal(t->overheads[3].process, 281474993487872);
    end(&r);
}

/* -- Ranges, devices, memory, diagnostics ------------------------------------------------------ */

static void ranges_are_annotations_operators_or_a_librarys(void **state) {
    (void)state;
    struct reading r;
    char sql[4096];
    snprintf(
        sql, sizeof sql,
        "%sINSERT INTO NVTX_EVENTS VALUES"
        " (1, 5, 59, 'aten::mm, op_id = 7, seq = 3, sizes = [[1, 2], [2, 3]]', 1, 0, NULL, 0),"
        " (1, 5, 59, NULL, 1, 0, 22, 0), (1, 5, 59, 'ncclAllReduce', 1, 0, NULL, 1),"
        " (1, NULL, 60, 'epoch', 1, NULL, NULL, 0), (3, NULL, 34, 'mark', 1, 0, NULL, 0),"
        " (1, NULL, 75, 'domain', 1, 0, NULL, 2),"
        " (1, 5, 59, 'AddmmBackward0, seq = 3', 1, 0, NULL, 0), (1, 5, 59, NULL, 1, 0, 88, 0);",
        nsys_two_processes_sql);
    begin(&r, nsys_base_sql, sql);
    static const struct {
        const char *name;
        enum orr_slice_kind kind;
        int64_t end;
    } expected[] = {
        {"aten::mm", ORR_SLICE_OPERATOR, 5},   {"step", ORR_SLICE_ANNOTATION, 5},
        {"ncclAllReduce", ORR_SLICE_OTHER, 5}, {"epoch", ORR_SLICE_ANNOTATION, 540},
        {"mark", ORR_SLICE_OTHER, 3},          {"AddmmBackward0", ORR_SLICE_OPERATOR, 5},
        {"unnamed range", ORR_SLICE_OTHER, 5}};
    assert_int_equal(r.t->slice_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < r.t->slice_count; i++) {
        assert_string_equal(r.t->slices[i].name, expected[i].name);
        assert_int_equal(r.t->slices[i].kind, expected[i].kind);
        assert_int_equal(r.t->slices[i].end_ns, expected[i].end);
    }
    assert_non_null(finding(r.t, "import_open_ranges", "1 NVTX ranges"));
    end(&r);
}

static void devices_are_described_by_what_their_processes_call_them(void **state) {
    (void)state;
    struct reading r;
    char sql[4096];
    static const char gpus[] = "INSERT INTO TARGET_INFO_GPU VALUES"
                               " (4, 'GPU four', 1000, 2000, 1710000000, 68, 8, 6),"
                               " (5, 'GPU five', 1001, 2001, 1, 69, 9, 0),"
                               " (0, 'GPU zero', 1, 1, 1, 1, 1, 1);";
    /* pid 0 is process A, pid 1 process B; pid 9 did nothing here. */
    snprintf(sql, sizeof sql,
             "%s%sINSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 0, NULL, 68),"
             " (5, 1, 1, NULL, 69), (0, 0, 9, NULL, 1);",
             nsys_two_processes_sql, gpus);
    begin(&r, nsys_base_sql, sql);
    assert_int_equal(r.t->device_count, 2);
    assert_string_equal(r.t->devices[0].name, "GPU four");
    assert_int_equal(r.t->devices[0].mem_bytes, 1000);
    assert_int_equal(r.t->devices[0].bandwidth, 2000);
    assert_int_equal(r.t->devices[0].multiprocessors, 68);
    assert_string_equal(r.t->devices[1].name, "GPU five");
    assert_string_equal(orr_timeline_meta(r.t, "device_0_clock_hz"), "1710000000");
    end(&r);
    snprintf(sql, sizeof sql,
             "%s%sUPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 0;"
             "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 0, NULL, 68),"
             " (5, 0, 1, NULL, 69);",
             nsys_two_processes_sql, gpus);
    begin(&r, nsys_base_sql, sql);
    assert_int_equal(r.t->device_count, 1);
    assert_string_equal(r.t->devices[0].name, "device 0");
    assert_non_null(finding(r.t, "import_device_ambiguous", "device 0"));
    end(&r);
}

static const char memory_table[] =
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER,"
    " bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER);";

static void memory_in_use_is_a_counter_only_if_it_is_known(void **state) {
    (void)state;
    struct reading r;
    begin(&r, memory_table,
          "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
          "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (30, 1, 0, 100, 2, 1),"
          " (10, 1, 0, 100, 2, 0), (20, 1, 0, 50, 2, 0), (5, 1, 0, 7, 1, 0), (5, 1, 1, 7, 2, 1);");
    assert_int_equal(r.t->counter_count, 3);
    static const double values[] = {100, 150, 50};
    for (size_t i = 0; i < 3; i++)
        assert_true(r.t->counters[i].value == values[i]);
    assert_non_null(finding(r.t, "import_memory_unknown", "device 1"));
    end(&r);
}

static void what_the_profiler_said_is_kept_without_paths(void **state) {
    (void)state;
    struct reading r;
    begin(&r, nsys_base_sql,
          "INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 'Profiling has started.'),"
          " (0, 2, 'Not all events\tsaved, see /home/someone/log.txt now'), (0, 3, 'Lost');"
          "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0'),"
          " ('EXPORT_HOST', 'somewhere'), ('EXPORT_USER', 'someone');");
    assert_non_null(finding(r.t, "import_diagnostic", "Not all events saved, see (path) now"));
    assert_string_equal(finding(r.t, "import_diagnostic", "Lost")->severity, "error");
    assert_null(finding(r.t, "import_diagnostic", "started"));
    assert_string_equal(orr_timeline_meta(r.t, "EXPORT_SCHEMA_VERSION"), "3.25.0");
    assert_int_equal(r.t->meta_count, 1);
    end(&r);
}

/* -- Other versions, and what scripts make of exports ------------------------------------------ */

static void missing_tables_are_empty_and_told(void **state) {
    (void)state;
    struct reading r;
    begin(&r, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER);",
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2);");
    assert_int_equal(r.t->command_count, 0); /* no device */
    assert_int_equal(r.t->source.kernel_rows, 1);
    assert_int_equal(r.t->source.skipped, 1);
    assert_non_null(finding(r.t, "import_missing_table", "CUPTI_ACTIVITY_KIND_RUNTIME"));
    assert_non_null(finding(r.t, "import_missing_table", "StringIds"));
    assert_non_null(finding(r.t, "import_skipped", "1 rows"));
    assert_non_null(finding(r.t, "import_no_processes", "globalPid"));
    assert_false(r.t->source.has_time_base);
    assert_false(r.t->source.knows_waits || r.t->source.knows_syncs);
    end(&r);
}

static void without_process_columns_there_is_one_process(void **state) {
    (void)state;
    struct reading r;
    begin(&r,
          "CREATE TABLE StringIds (id INTEGER, value TEXT);" /* no key */
          "INSERT INTO StringIds VALUES (9, 'late'), (3, 'cudaLaunchKernel_v7000'), (5, 'k');"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId,"
          " shortName);",
          "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, " NSYS_TID_A ", 4, 3);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (3, 4, 0, 7, 4, 5);");
    assert_int_equal(r.t->command_count, 1);
    assert_string_equal(r.t->commands[0].name, "k");
    assert_string_equal(call_of(r.t, &r.t->commands[0])->name, "cudaLaunchKernel");
    assert_string_equal(r.t->hosts[0].label, NSYS_TID_A);
    end(&r);
}

static void numbers_may_be_reals_or_digits_but_nothing_else(void **state) {
    (void)state;
    struct reading r;
    begin(&r,
          "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId,"
          " globalPid, demangledName);",
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
          " (1.0, '2', 0, 7, 4.0, 0, 'kernel by name'), (1.5, 2, 0, 7, 4, 0, 'half'),"
          " ('1x', 2, 0, 7, 4, 0, 'no digits'), (x'31', 2, 0, 7, 4, 0, 'blob'),"
          " (1, 2, 70000, 7, 4, 0, 'far device'), (1, 2, -1, 7, 4, 0, 'no device'),"
          " (1, NULL, 0, 7, 4, 0, 'no end'), (1e300, 2, 0, 7, 4, 0, 'large'),"
          " ('9223372036854775808', 2, 0, 7, 4, 0, 'too large'),"
          " ('-9223372036854775808', 2, 0, 7, -1, 0, 'smallest');");
    assert_int_equal(r.t->command_count, 2);
    assert_string_equal(r.t->commands[0].name, "kernel by name");
    assert_int_equal(r.t->commands[0].start_ns, 1);
    assert_int_equal(r.t->commands[0].finish_ns, 2);
    assert_true(r.t->commands[1].start_ns == INT64_MIN);
    assert_true(r.t->commands[1].correlation == ORR_CORRELATION_NONE);
    assert_int_equal(r.t->source.skipped, 8);
    assert_non_null(finding(r.t, "import_wrong_type", "5 values"));
    end(&r);
}

static void whole_graphs_are_told_to_be_opaque(void **state) {
    (void)state;
    struct reading r;
    char sql[4096];
    snprintf(sql, sizeof sql,
             "%sCREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, contextId,"
             " streamId, correlationId, globalPid, graphId, graphExecId);"
             "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (800, 900, 0, 1, 7, 7, " NSYS_PID_A
             ", 6, 8);",
             nsys_two_processes_sql);
    begin(&r, nsys_base_sql, sql);
    const struct orr_timeline_command *graph = &r.t->commands[5];
    assert_int_equal(graph->kind, ORR_COMMAND_GRAPH);
    assert_int_equal(graph->graph, 6);
    assert_string_equal(graph->name, "graph 6");
    assert_non_null(finding(r.t, "import_graphs_whole", "1 graph launches"));
    end(&r);
}

/* -- Files ------------------------------------------------------------------------------------- */

static void refuse(struct reading *r, const char *part) {
    assert_int_equal(read_with(r, &tolerant), ORR_INVALID);
    assert_null(r->t);
    if (!strstr(r->error.text, part))
        print_error("'%s' lacks '%s'\n", r->error.text, part);
    assert_non_null(strstr(r->error.text, part));
    assert_null(strchr(r->error.text, '\n'));
}

static void what_is_no_export_is_refused_with_a_reason(void **state) {
    (void)state;
    struct reading r;
    open_reading(&r, "trace.sqlite");
    refuse(&r, "no such file");
    nsys_fixture_write(&r.fixture, "", 0);
    refuse(&r, "empty file");
    nsys_fixture_write(&r.fixture, "<html><body></body></html>", 26);
    refuse(&r, "not an SQLite database");
    nsys_fixture_write(&r.fixture, "SQLite format 3\0 and then text", 30);
    refuse(&r, "not an SQLite database");
    nsys_fixture_make(&r.fixture, "CREATE TABLE orders (id); CREATE TABLE customers (id);", "");
    refuse(&r, "something else (tables: orders, customers)");
    nsys_fixture_make(&r.fixture, "CREATE TABLE StringTable (_id_, value);",
                      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_, start, end);");
    refuse(&r, "nvprof");
    end(&r);
    open_reading(&r, "");
    refuse(&r, "a folder");
    end(&r);
}

static void sql_of_the_file_is_not_run(void **state) {
    (void)state;
    struct reading r;
    begin(&r,
          "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
          "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS end, 0 AS deviceId,"
          " 7 AS streamId, 0 AS globalPid, 1 AS correlationId, 'v' AS demangledName;",
          "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end AS (start + 1), deviceId,"
          " streamId, bytes);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, deviceId, streamId) VALUES (1, 0, 7);");
    assert_int_equal(r.t->command_count, 0);
    assert_int_equal(r.t->source.skipped, 1);
    assert_non_null(finding(r.t, "import_missing_table", "CUPTI_ACTIVITY_KIND_KERNEL"));
    end(&r);
}

static char *slurp(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    char *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
    *out_size = (size_t)size;
    return bytes;
}

/* The file alone would show some earlier state, in numbers that look right. */
static void changes_in_a_log_beside_the_file_are_missed(void **state) {
    (void)state;
    struct reading r;
    open_reading(&r, "log.sqlite");
    nsys_fixture_make(&r.fixture, nsys_base_sql, nsys_two_processes_sql);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(r.fixture.path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(read_with(&r, &tolerant), ORR_OK); /* nothing is in the log yet */
    orr_timeline_destroy(&r.t);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(read_with(&r, &tolerant), ORR_INVALID);
    assert_non_null(strstr(r.error.text, "log or journal beside it"));
    assert_int_equal(sqlite3_close(db), SQLITE_OK); /* the last one applies the log */
    assert_int_equal(read_with(&r, &tolerant), ORR_OK);
    end(&r);
}

static void the_file_is_left_alone_whatever_its_name(void **state) {
    (void)state;
    struct reading r;
    struct stat info;
    size_t before_size, after_size;
    char beside[256];
    open_reading(&r, "50% of it?#1.sqlite");
    nsys_fixture_make(&r.fixture, nsys_base_sql, nsys_two_processes_sql);
    char *before = slurp(r.fixture.path, &before_size);
    snprintf(beside, sizeof beside, "%s-wal", r.fixture.path);
    FILE *log = fopen(beside, "wb");
    assert_non_null(log);
    assert_int_equal(fputs("log", log) >= 0 && fclose(log) == 0, 1);
    assert_int_equal(chmod(r.fixture.folder, 0500), 0);
    assert_int_equal(read_with(&r, &tolerant), ORR_OK);
    assert_int_equal(r.t->command_count, 5);
    assert_int_equal(chmod(r.fixture.folder, 0700), 0);
    char *after = slurp(r.fixture.path, &after_size);
    assert_int_equal(before_size, after_size);
    assert_memory_equal(before, after, after_size);
    snprintf(beside, sizeof beside, "%s-shm", r.fixture.path);
    assert_int_not_equal(stat(beside, &info), 0);
    free(before);
    free(after);
    end(&r);
}

/* Rows enough for many pages. */
static const char many_rows_sql[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO"
    " CUPTI_ACTIVITY_KIND_RUNTIME SELECT i * 100, i * 100 + 10, 0, " NSYS_TID_A
    ", i, 1, 0, NULL FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO"
    " CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 100 + 20, i * 100 + 30, 0, 1, NULL, 7, i, " NSYS_PID_A
    ", 20, 20, 64, 1, 1, 256, 1, 1, NULL, NULL FROM n;";

/* Whatever the cut: either it is refused, or it is read up to there, each row as it was, and
 * told. */
static void a_cut_file_is_read_up_to_the_cut(void **state) {
    (void)state;
    struct reading r;
    size_t size, most = 0;
    open_reading(&r, "trace.sqlite");
    nsys_fixture_make(&r.fixture, nsys_base_sql, many_rows_sql);
    char *bytes = slurp(r.fixture.path, &size);
    for (size_t length = 90; length < size; length += size / 37 + 13) {
        nsys_fixture_write(&r.fixture, bytes, length);
        enum orr_status status = read_with(&r, &tolerant);
        if (status == ORR_INVALID && length < 70000)
            continue;
        assert_int_equal(status, ORR_OK);
        assert_non_null(finding(r.t, "import_truncated", "cut at byte"));
        assert_int_equal(r.t->source.truncated_at, length);
        for (size_t i = 0; i < r.t->command_count; i++) {
            const struct orr_timeline_command *c = &r.t->commands[i];
            assert_int_equal(c->start_ns, (int64_t)c->correlation * 100 + 20);
            assert_int_equal(c->finish_ns, c->start_ns + 10);
        }
        for (size_t i = 0; i < r.t->call_count; i++)
            assert_int_equal(r.t->calls[i].begin_ns, (int64_t)r.t->calls[i].correlation * 100);
        assert_true(r.t->call_count + r.t->command_count >= most);
        most = r.t->call_count + r.t->command_count;
        assert_int_equal(read_with(&r, &strict), ORR_INVALID);
        assert_non_null(strstr(r.error.text, "cut at byte"));
    }
    assert_true(most > 1000 && most < 6001);
    free(bytes);
    end(&r);
}

static void damage_ends_a_table_and_is_told(void **state) {
    (void)state;
    struct reading r;
    size_t size;
    open_reading(&r, "trace.sqlite");
    nsys_fixture_make(&r.fixture, nsys_base_sql, many_rows_sql);
    char *bytes = slurp(r.fixture.path, &size);
    memset(bytes + size / 2 / 4096 * 4096, 0x5a, 4096);
    nsys_fixture_write(&r.fixture, bytes, size);
    assert_int_equal(read_with(&r, &tolerant), ORR_OK);
    assert_non_null(finding(r.t, "import_damaged", "rows were read"));
    assert_int_equal(read_with(&r, &strict), ORR_INVALID);
    assert_non_null(strstr(r.error.text, "damaged"));
    free(bytes);
    end(&r);
}

/* A name longer than a page lies on pages of its own, which may be damaged alone. */
static void a_lost_name_is_told(void **state) {
    (void)state;
    struct reading r;
    size_t size;
    char sql[4096];
    open_reading(&r, "trace.sqlite");
    snprintf(sql, sizeof sql,
             "%sUPDATE StringIds SET value = printf('%%.*c', 20000, 'k') "
             "WHERE id = 20;",
             nsys_two_processes_sql);
    nsys_fixture_make(&r.fixture, nsys_base_sql, sql);
    assert_int_equal(read_with(&r, &tolerant), ORR_OK);
    assert_int_equal(strlen(r.t->commands[0].name), 20000);
    char *bytes = slurp(r.fixture.path, &size);
    char *name = NULL;
    for (size_t at = 4096; at + 4096 <= size && !name; at += 4096) /* an overflow page of it */
        name = memcmp(bytes + at + 4, "kkkkkkkk", 8) == 0 ? bytes + at : NULL;
    assert_non_null(name);
    memset(name, 0xff, 4); /* the next one is far away */
    nsys_fixture_write(&r.fixture, bytes, size);
    assert_int_equal(read_with(&r, &tolerant), ORR_OK);
    assert_string_equal(r.t->commands[0].name, "unnamed kernel");
    assert_non_null(finding(r.t, "import_damaged", "names of table StringIds"));
    assert_int_equal(read_with(&r, &strict), ORR_INVALID);
    free(bytes);
    end(&r);
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void read_once(struct memory_counting *memory, void *context) {
    const struct nsys_fixture *f = context;
    struct orr_timeline *t;
    struct orr_error error = {0};
    enum orr_status status = orr__read_nsys(f->path, &tolerant, &memory->table, &t, &error);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    assert_int_equal(status == ORR_OK, t != NULL);
    assert_int_equal(status == ORR_OK, error.text[0] == '\0');
    orr_timeline_destroy(&t);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct reading r;
    char sql[16384];
    snprintf(sql, sizeof sql,
             "%s%s%sINSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (10, 1, 0, 100, 2, 0);"
             "INSERT INTO TARGET_INFO_GPU VALUES (0, 'GPU', 1, 1, 1, 1, 8, 6);"
             "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 0, NULL, 68);"
             "INSERT INTO PROFILER_OVERHEAD VALUES (3, 4, 1, NULL, 1);"
             "INSERT INTO NVTX_EVENTS VALUES (1, 5, 59, 'epoch', 1, 0, NULL, 0);"
             "INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 3, 'Lost');"
             "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0');",
             memory_table, nsys_two_processes_sql, waits_sql);
    begin(&r, nsys_base_sql, sql);
    assert_true(fail_each_request(read_once, &r.fixture) > 30);
    end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_linked_within_its_process),
        cmocka_unit_test(names_and_places_are_those_of_the_rows),
        cmocka_unit_test(every_kind_of_copy_has_a_name),
        cmocka_unit_test(waits_find_their_records_by_process_and_sync_id),
        cmocka_unit_test(the_name_of_the_call_says_what_is_waited_for),
        cmocka_unit_test(overhead_is_the_profilers_by_its_type),
        cmocka_unit_test(ranges_are_annotations_operators_or_a_librarys),
        cmocka_unit_test(devices_are_described_by_what_their_processes_call_them),
        cmocka_unit_test(memory_in_use_is_a_counter_only_if_it_is_known),
        cmocka_unit_test(what_the_profiler_said_is_kept_without_paths),
        cmocka_unit_test(missing_tables_are_empty_and_told),
        cmocka_unit_test(without_process_columns_there_is_one_process),
        cmocka_unit_test(numbers_may_be_reals_or_digits_but_nothing_else),
        cmocka_unit_test(whole_graphs_are_told_to_be_opaque),
        cmocka_unit_test(what_is_no_export_is_refused_with_a_reason),
        cmocka_unit_test(sql_of_the_file_is_not_run),
        cmocka_unit_test(changes_in_a_log_beside_the_file_are_missed),
        cmocka_unit_test(the_file_is_left_alone_whatever_its_name),
        cmocka_unit_test(a_cut_file_is_read_up_to_the_cut),
        cmocka_unit_test(damage_ends_a_table_and_is_told),
        cmocka_unit_test(a_lost_name_is_told),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
