/* The Perfetto writer: the example of its format page byte for byte, each rule by a small timeline,
 * and random timelines under the strict checker (tests/check_perfetto.py, which needs python3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/perfetto_cases.h"
#include "tests/trace_support.h"

enum { RANDOM_CASES = 300 };

/* A folder and one export in it. */
struct fixture_files {
    char folder[PATH_MAX], json[PATH_MAX];
    struct perfetto_case c;
    struct orr_perfetto_counts counts;
    struct orr_error error;
    char *text; /* the file */
};

static int set_up(void **state) {
    struct fixture_files *files = calloc(1, sizeof *files);
    trace_folder_create(files->folder);
    trace_path(files->json, files->folder, "run.json");
    fixture_init(&files->c.fixture);
    *state = files;
    return 0;
}

static int tear_down(void **state) {
    struct fixture_files *files = *state;
    perfetto_case_free(&files->c);
    trace_folder_remove(files->folder);
    free(files->text);
    free(files);
    return 0;
}

static enum orr_status export_to(struct fixture_files *files, const char *path) {
    orr_error_clear(&files->error);
    return orr_perfetto_write(fixture_timeline(&files->c.fixture), files->c.phases,
                              files->c.phase_count, path, &files->c.fixture.memory, &files->counts,
                              &files->error);
}

/* A file as a text; freed by the caller. */
static char *read_text(const char *path) {
    size_t size;
    unsigned char *bytes = trace_read_file(path, &size);
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    memcpy(text, bytes, size);
    free(bytes);
    return text;
}

/* Exports the case; the file as a text. */
static const char *exported(struct fixture_files *files) {
    enum orr_status status = export_to(files, files->json);
    if (status != ORR_OK) {
        print_error("%s\n", files->error.text);
    }
    assert_int_equal(status, ORR_OK);
    free(files->text);
    files->text = read_text(files->json);
    assert_int_equal(strlen(files->text), files->counts.bytes);
    return files->text;
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        count++;
    }
    return count;
}

static void assert_has(const char *text, const char *line) {
    if (count_of(text, line) != 1) {
        print_error("%zu times in the file, not once: %s\n", count_of(text, line), line);
        print_error("%s\n", text);
        fail();
    }
}

static void assert_lacks(const char *text, const char *part) {
    if (strstr(text, part)) {
        print_error("in the file: %s\n%s\n", part, text);
        fail();
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* The example */

static const char example_path[] = "tests/data/perfetto_example.json";

static void the_example_comes_out_byte_for_byte(void **state) {
    struct fixture_files *files = *state;
    perfetto_case_example(&files->c);
    const char *text = exported(files);
    char *expected = read_text(example_path);
    assert_string_equal(text, expected);
    free(expected);
    assert_int_equal(files->counts.slices, 12);
    assert_int_equal(files->counts.arrows, 6);
    assert_int_equal(files->counts.counters, 1);
    assert_int_equal(files->counts.events, count_of(text, "\n{\"ph\""));
}

/* The format page that the example was taken from cuts the names of tracks, and the counts that are
 * 0 in the first line. */
static void the_example_is_that_of_the_format_page(void **state) {
    static const char page[] = "../shared/reference/perfetto.md";
    size_t compared = 0;
    (void)state;
    if (access(page, R_OK) != 0) {
        print_message("skip: %s is not here\n", page);
        skip();
    }
    char *ours = read_text(example_path);
    char *theirs = read_text(page);
    char *at = strstr(theirs, "\n{\"ph\":\"X\""), *line_end;
    assert_non_null(at);
    const char *here = strstr(ours, "\n{\"ph\":\"X\"");
    for (at++, here++; (line_end = strchr(at, '\n')) && strncmp(at, "]}", 2) != 0; compared++) {
        size_t length = (size_t)(line_end - at) + 1;
        assert_memory_equal(here, at, length);
        here += length;
        at = line_end + 1;
    }
    assert_string_equal(here, "]}\n");
    assert_int_equal(compared, 25);
    free(ours);
    free(theirs);
}

/* ---------------------------------------------------------------------------------------------- */
/* Rules, one at a time */

/* A host, a device and a stream: ids 0. */
static struct fixture *small_machine(struct fixture_files *files) {
    struct fixture *f = &files->c.fixture;
    fixture_meta(f, "clock", "virtual");
    fixture_host(f, "main");
    fixture_device(f, "h100", "sim");
    fixture_stream(f, 0, "compute", ORR_STREAM_COMPUTE);
    return f;
}

static void an_empty_timeline_is_a_whole_file(void **state) {
    struct fixture_files *files = *state;
    const char *text = exported(files);
    assert_has(text, "{\"displayTimeUnit\":\"ns\",\"metadata\":{\"orrery_export\":\"1\","
                     "\"t0_ns\":\"0\",\"slices\":0,\"arrows\":0,\"counters\":0,"
                     "\"arrows_left_out\":0,\"slices_left_out\":0,\"unfinished\":0,"
                     "\"never_started\":0,\"timeline\":\"");
    assert_has(text, "\"},\"traceEvents\":[\n]}\n");
}

static void idle_devices_hosts_and_streams_are_named(void **state) {
    struct fixture_files *files = *state;
    small_machine(files);
    const char *text = exported(files);
    assert_has(text, "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"process_name\","
                     "\"args\":{\"name\":\"Hosts\"}}");
    assert_has(text,
               "\"pid\":1,\"tid\":1000,\"name\":\"thread_name\",\"args\":{\"name\":\"main\"}");
    assert_has(text, "\"pid\":10,\"tid\":10,\"name\":\"process_sort_index\","
                     "\"args\":{\"sort_index\":1}");
    assert_has(text, "\"pid\":10,\"tid\":1000,\"name\":\"thread_sort_index\","
                     "\"args\":{\"sort_index\":1000}");
    assert_int_equal(files->counts.events, 8);
}

static void names_of_threads_differ_within_a_process(void **state) {
    static const char *const names[] = {"a",      "a",       "b\xff", "b\xfe",       "",
                                        "phases", "a marks", "c",     "c overlap 1", "d (stream 0)",
                                        "marks"};
    struct fixture_files *files = *state;
    struct fixture *f = &files->c.fixture;
    fixture_device(f, "", "");
    fixture_device(f, "", "");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture_stream(f, 0, names[i], ORR_STREAM_COMPUTE);
    }
    fixture_stream(f, 1, "a", ORR_STREAM_COMPUTE); /* of another device */
    const char *text = exported(files);
    assert_has(text, "\"pid\":10,\"tid\":10,\"name\":\"process_name\","
                     "\"args\":{\"name\":\"Device 0\"}");
    assert_has(text, "\"name\":\"a (stream 0)\"");
    assert_has(text, "\"name\":\"a (stream 1)\"");
    assert_has(text, "\"name\":\"b\xef\xbf\xbd (stream 2)\"");
    assert_has(text, "\"name\":\"b\xef\xbf\xbd (stream 3)\"");
    assert_has(text, "\"name\":\"unnamed (stream 4)\"");
    assert_has(text, "\"name\":\"phases (stream 5)\"");
    assert_has(text, "\"name\":\"a marks (stream 6)\"");
    assert_has(text, "\"name\":\"c\"");
    assert_has(text, "\"name\":\"c overlap 1 (stream 8)\"");
    assert_has(text, "\"name\":\"d (stream 0) (stream 9)\"");
    assert_has(text, "\"name\":\"marks\"");
    assert_has(text, "\"pid\":11,\"tid\":1000,\"name\":\"thread_name\",\"args\":{\"name\":\"a\"}");
}

static void sparse_ids_show_as_long_as_they_fit(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    f->timeline.hosts[0].id = 41;
    f->timeline.devices[0].id = 7;
    f->timeline.streams[0].id = 1000000;
    f->timeline.streams[0].device = 7;
    fixture_command(f, ORR_COMMAND_KERNEL, ORR_ID_NONE, "k", 5, 9)->stream = 1000000;
    fixture_enqueue(f, 1, 41, 1, 2);
    const char *text = exported(files);
    assert_has(text, "{\"ph\":\"X\",\"pid\":17,\"tid\":1000,\"ts\":0.005,");
    assert_has(text, "{\"ph\":\"X\",\"pid\":1,\"tid\":42000,\"ts\":0.001,");
    assert_has(text, "\"name\":\"Device 7 (sim)\"");
    f->timeline.hosts[0].id = f->timeline.commands[0].host = 4000000000;
    f->timeline.devices[0].id = f->timeline.streams[0].device = 4000000001;
    text = exported(files);
    assert_has(text, "{\"ph\":\"X\",\"pid\":10,\"tid\":1000,\"ts\":0.005,");
    assert_has(text, "{\"ph\":\"X\",\"pid\":1,\"tid\":1000,\"ts\":0.001,");
    assert_has(text, "\"name\":\"Device 4000000001 (sim)\"");
}

static void things_without_length_at_one_time_are_one_mark(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_RECORD, 0, "record e1", 50, 50);
    fixture_command(f, ORR_COMMAND_ALLOC, 0, "alloc x", 50, 50);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "k", 50, 90);
    fixture_command(f, ORR_COMMAND_FREE, 0, "free x", 90, 90);
    const char *text = exported(files);
    assert_has(text, "{\"ph\":\"X\",\"pid\":10,\"tid\":1001,\"ts\":0.050,\"dur\":0.000,"
                     "\"name\":\"2 marks\",\"cat\":\"op\","
                     "\"args\":{\"cmds\":[1,2],\"what\":[\"record e1\",\"alloc x\"]}},\n");
    assert_has(text, "\"name\":\"free x\",\"cat\":\"op\",\"args\":{\"cmd\":4,\"kind\":\"free\"}");
}

static void lists_of_a_mark_end_at_256(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    for (int i = 0; i < 300; i++) {
        uint64_t id = fixture_command(f, ORR_COMMAND_ALLOC, 0, "a", 7, 7)->id;
        fixture_enqueue(f, id, 0, 1, 3);
    }
    const char *text = exported(files);
    assert_has(text, "\"name\":\"300 marks\"");
    assert_has(text, "\"name\":\"enqueue 300 commands\"");
    assert_int_equal(count_of(text, ",256]"), 2);
    assert_lacks(text, "257]");
    assert_lacks(text, ",257,");
    assert_int_equal(count_of(text, "\"a\""), 256);
    assert_int_equal(files->counts.arrows, 300);
}

static void enqueues_of_one_call_are_one_slice(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    for (int i = 0; i < 4; i++) {
        fixture_command(f, ORR_COMMAND_KERNEL, 0, "k", 10 + i, 11 + i);
    }
    fixture_enqueue(f, 1, 0, 2, 4);
    fixture_enqueue(f, 2, 0, 5, 6);
    fixture_enqueue(f, 3, 0, 2, 4);
    fixture_enqueue(f, 4, 0, 5, ORR_TIME_NONE);
    const char *text = exported(files);
    assert_has(text, "\"ts\":0.002,\"dur\":0.002,\"name\":\"enqueue 2 commands\",\"cat\":\"op\","
                     "\"args\":{\"cmds\":[1,3]}},\n");
    assert_has(text, "\"tid\":1000,\"ts\":0.005,\"dur\":0.001,\"name\":\"enqueue k\"");
    assert_has(text, "\"tid\":1001,\"ts\":0.005,\"dur\":0.000,\"name\":\"enqueue k\"");
    assert_int_equal(files->counts.arrows, 4);
}

static void slices_that_overlap_take_the_first_free_thread(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "short", 10, 20);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "long", 10, 40);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "second", 20, 30);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "third", 25, 45);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "after", 40, 50);
    const char *text = exported(files);
    assert_has(text, "\"tid\":1000,\"ts\":0.010,\"dur\":0.030,\"name\":\"long\"");
    assert_has(text, "\"tid\":1003,\"ts\":0.010,\"dur\":0.010,\"name\":\"short\"");
    assert_has(text, "\"tid\":1003,\"ts\":0.020,\"dur\":0.010,\"name\":\"second\"");
    assert_has(text, "\"tid\":1004,\"ts\":0.025,\"dur\":0.020,\"name\":\"third\"");
    assert_has(text, "\"tid\":1000,\"ts\":0.040,\"dur\":0.010,\"name\":\"after\"");
    assert_has(text, "\"name\":\"compute overlap 2\"");
}

static void what_finds_no_thread_is_counted_with_its_arrows(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    for (int i = 0; i < 1000; i++) {
        uint64_t id = fixture_command(f, ORR_COMMAND_KERNEL, 0, "k", 100, 200)->id;
        fixture_enqueue(f, id, 0, 1, 2);
    }
    fixture_sync(f, 0, ORR_SYNC_STREAM, 150, 250, 1000);
    const char *text = exported(files);
    assert_has(text, "\"name\":\"compute overlap 997\"");
    assert_has(text, "\"slices_left_out\":2");
    assert_has(text, "\"arrows_left_out\":3"); /* two enqueues and the sync */
    assert_int_equal(files->counts.slices_left_out, 2);
    assert_int_equal(files->counts.arrows, 998);
    assert_has(text, "{\"ph\":\"X\",\"pid\":10,\"tid\":1999,\"ts\":0.100,");
    assert_lacks(text, "\"tid\":2000,");
}

static void graphs_lie_on_a_thread_of_their_own(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_GRAPH, 0, "g", 10, 50);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "k1", 10, 50);
    fixture_command(f, ORR_COMMAND_GRAPH, 0, "h", 20, 60);
    const char *text = exported(files);
    assert_has(text, "\"tid\":1002,\"ts\":0.010,\"dur\":0.040,\"name\":\"g\"");
    assert_has(text, "\"tid\":1000,\"ts\":0.010,\"dur\":0.040,\"name\":\"k1\"");
    assert_has(text, "\"tid\":1003,\"ts\":0.020,\"dur\":0.040,\"name\":\"h\"");
    assert_has(text, "\"name\":\"compute graphs\"");
    assert_true(strstr(text, "\"name\":\"k1\"") < strstr(text, "\"name\":\"g\""));
}

static void a_wait_that_blocked_resumes_in_a_mark(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_stream(f, 0, "other", ORR_STREAM_COMPUTE);
    fixture_command(f, ORR_COMMAND_RECORD, 0, "record", 30, 30)->event = "e1";
    fixture_command(f, ORR_COMMAND_WAIT, 1, "wait", 10, 30)->event = "e1";
    fixture_command(f, ORR_COMMAND_WAIT, 1, "wait", 35, 35)->event = "e1";
    fixture_command(f, ORR_COMMAND_WAIT, 1, "wait", 20, ORR_TIME_NONE)->event = "e1";
    for (uint64_t wait = 2; wait <= 4; wait++) {
        fixture_edge(f, 1, wait, ORR_EDGE_EVENT);
    }
    const char *text = exported(files);
    assert_has(text, "\"tid\":2000,\"ts\":0.010,\"dur\":0.020,\"name\":\"wait e1\"");
    assert_has(text,
               "\"tid\":2001,\"ts\":0.030,\"dur\":0.000,\"name\":\"resume e1\",\"cat\":\"op\","
               "\"args\":{\"cmd\":2,\"kind\":\"resume\"}");
    assert_has(text, "\"tid\":2001,\"ts\":0.035,\"dur\":0.000,\"name\":\"wait e1\"");
    assert_has(text, "{\"ph\":\"f\",\"bp\":\"e\",\"pid\":10,\"tid\":2001,\"ts\":0.030,\"id\":1,"
                     "\"name\":\"event\",\"cat\":\"op\"}");
    assert_has(text, "{\"ph\":\"f\",\"bp\":\"e\",\"pid\":10,\"tid\":2001,\"ts\":0.035,\"id\":2,"
                     "\"name\":\"event-done\",\"cat\":\"op\"}");
    assert_int_equal(files->counts.arrows, 2); /* the one that still waits has none */
    assert_int_equal(files->counts.arrows_left_out, 0);
    assert_int_equal(files->counts.unfinished, 1);
}

static void arrows_never_point_back_in_time(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "early", 10, 20);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "together", 30, 40);
    fixture_enqueue(f, 1, 0, 11, 12);
    fixture_enqueue(f, 2, 0, 30, 31);
    fixture_edge(f, 2, 1, ORR_EDGE_ALLOCATOR);
    fixture_edge(f, 1, 2, ORR_EDGE_ALLOCATOR);
    fixture_sync(f, 0, ORR_SYNC_STREAM, 5, 29, 2);
    const char *text = exported(files);
    assert_has(text, "\"arrows_left_out\":3");
    assert_int_equal(count_of(text, "{\"ph\":\"s\""), 2);
    assert_has(text, "\"ts\":0.010,\"id\":1,\"name\":\"reuse\"");
    assert_has(text,
               "{\"ph\":\"s\",\"pid\":1,\"tid\":1000,\"ts\":0.030,\"id\":2,\"name\":\"enqueue\"");
}

static void unfinished_commands_reach_to_the_end(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "stuck", 10, ORR_TIME_NONE);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "never", ORR_TIME_NONE, ORR_TIME_NONE);
    fixture_enqueue(f, 1, 0, 1, 2);
    fixture_enqueue(f, 2, 0, 3, 4);
    fixture_sync(f, 0, ORR_SYNC_DEVICE, 20, ORR_TIME_NONE, 1);
    fixture_counter(f, 0, "memory bytes", 99, 1);
    const char *text = exported(files);
    assert_has(text, "\"ts\":0.010,\"dur\":0.089,\"name\":\"stuck\",\"cat\":\"op\","
                     "\"args\":{\"cmd\":1,\"kind\":\"kernel\",\"unfinished\":1}");
    assert_has(text, "\"name\":\"enqueue never\"");
    assert_lacks(text, "\"name\":\"never\"");
    assert_has(text, "\"ts\":0.020,\"dur\":0.079,\"name\":\"sync device\"");
    assert_lacks(text, "synced");
    assert_has(text, "\"unfinished\":1,\"never_started\":1,\"timeline\":\"");
}

static void phases_come_from_the_caller(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "k", 10, 20);
    const struct orr_perfetto_phase phases[] = {
        {0, 10, 15, "memory-bound", "why \"this\""},
        {0, 14, 18, "overlaps", ""},
        {0, 15, 15, "empty", ""},
        {0, 15, 20, "", ""},
        {5, 10, 20, "no such device", ""},
    };
    memcpy(files->c.phases, phases, sizeof phases);
    files->c.phase_count = sizeof phases / sizeof *phases;
    const char *text = exported(files);
    assert_has(text, "\"pid\":10,\"tid\":1,\"ts\":0.010,\"dur\":0.005,\"name\":\"memory-bound\","
                     "\"cat\":\"phase\",\"args\":{\"why\":\"why \\\"this\\\"\"}}");
    assert_has(text,
               "\"ts\":0.015,\"dur\":0.005,\"name\":\"phase\",\"cat\":\"phase\",\"args\":{}}");
    assert_has(text, "\"slices_left_out\":3");
}

static void findings_stand_where_their_later_command_starts(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "a", 10, 20);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "b", 20, 30);
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "never", ORR_TIME_NONE, ORR_TIME_NONE);
    fixture_command(f, ORR_COMMAND_HOSTREAD, ORR_ID_NONE, "on no device", 40, 50);
    struct orr_timeline_finding *race = fixture_finding(f, "race", "error", 1, 2);
    race->message = "both write x";
    race->fix = "wait for a";
    fixture_finding(f, "leak", "warning", 1, 0);
    fixture_finding(f, "hang", "error", 1, 3);  /* b never started: where a is */
    fixture_finding(f, "read", "error", 1, 4);  /* likewise */
    fixture_finding(f, "global", "info", 0, 0); /* of no command */
    const char *text = exported(files);
    assert_has(text, "\"pid\":10,\"tid\":2,\"ts\":0.020,\"dur\":0.000,\"name\":\"race\","
                     "\"cat\":\"finding\",\"args\":{\"id\":1,\"severity\":\"error\","
                     "\"message\":\"both write x\",\"cmd_a\":1,\"cmd_b\":2,"
                     "\"fix\":\"wait for a\"}}");
    assert_has(text, "\"ts\":0.010,\"dur\":0.000,\"name\":\"3 findings\",\"cat\":\"finding\","
                     "\"args\":{\"what\":[\"leak\",\"hang\",\"read\"],\"id\":[2,3,4]}}");
    assert_lacks(text, "global");
}

static void counters_are_change_points(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    static const struct {
        int64_t ts_ns;
        double value;
    } points[] = {{10, 1}, {20, 1}, {30, 2}, {30, 3}, {40, 3}, {50, 0.0 / 0.0}, {60, 3}, {70, 0.1}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        fixture_counter(f, 0, "memory bytes", points[i].ts_ns, points[i].value);
    }
    fixture_counter(f, 3, "memory bytes", 10, 1); /* of no device */
    const char *text = exported(files);
    assert_int_equal(count_of(text, "{\"ph\":\"C\""), 3);
    assert_has(text, "{\"ph\":\"C\",\"pid\":10,\"ts\":0.010,\"name\":\"memory bytes\","
                     "\"args\":{\"value\":1}}");
    assert_has(text, "\"ts\":0.030,\"name\":\"memory bytes\",\"args\":{\"value\":3}}");
    assert_has(text, "\"ts\":0.070,\"name\":\"memory bytes\","
                     "\"args\":{\"value\":1.0000000000000001e-01}}");
}

static void a_real_clock_starts_at_the_least_time(void **state) {
    const int64_t epoch_ns = 1753000000123456789;
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    f->timeline.meta[0].value = "monotonic";
    fixture_command(f, ORR_COMMAND_KERNEL, 0, "k", epoch_ns + 7, epoch_ns + 1008)->ready_ns =
        epoch_ns + 5;
    fixture_enqueue(f, 1, 0, epoch_ns, epoch_ns + 3);
    const char *text = exported(files);
    assert_has(text, "\"t0_ns\":\"1753000000123456789\"");
    assert_has(text, "\"ts\":0.000,\"dur\":0.003,\"name\":\"enqueue k\"");
    assert_has(text, "\"ts\":0.007,\"dur\":1.001,\"name\":\"k\"");
    assert_has(text, "\"ready_ns\":5}");
    f->timeline.meta[0].value = "virtual";
    assert_int_equal(export_to(files, files->json), ORR_INVALID);
    assert_non_null(strstr(files->error.text, "52 days"));
}

static void times_that_readers_would_blur_are_refused(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = small_machine(files);
    const int64_t limit = INT64_C(1) << 52;
    struct orr_timeline_command *k = fixture_command(f, ORR_COMMAND_KERNEL, 0, "k", 0, limit - 1);
    exported(files);
    k->finish_ns = limit;
    assert_int_equal(export_to(files, files->json), ORR_INVALID);
    k->finish_ns = limit - 1;
    k->start_ns = -1;
    assert_int_equal(export_to(files, files->json), ORR_INVALID);
    assert_non_null(strstr(files->error.text, "virtual"));
    k->start_ns = INT64_MIN + 1;
    k->finish_ns = INT64_MAX;
    f->timeline.meta[0].value = "monotonic";
    assert_int_equal(export_to(files, files->json), ORR_INVALID);
}

static void metadata_holds_the_rows_of_meta(void **state) {
    struct fixture_files *files = *state;
    struct fixture *f = &files->c.fixture;
    fixture_meta(f, "seed", "7");
    fixture_meta(f, "args", "M=4 \"x\"");
    fixture_meta(f, "Not A Key", "x");
    fixture_meta(f, "", "x");
    fixture_meta(f, "seed", "8");
    fixture_meta(f, "slices", "99");
    const char *text = exported(files);
    assert_has(text,
               "\"orrery_export\":\"1\",\"seed\":\"7\",\"args\":\"M=4 \\\"x\\\"\",\"t0_ns\":\"0\","
               "\"slices\":0,");
}

/* ---------------------------------------------------------------------------------------------- */
/* The file */

static void assert_same_files(const char *a, const char *b) {
    size_t a_size, b_size;
    unsigned char *a_bytes = trace_read_file(a, &a_size), *b_bytes = trace_read_file(b, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a_bytes, b_bytes, a_size);
    free(a_bytes);
    free(b_bytes);
}

static void two_exports_are_equal(void **state) {
    struct fixture_files *files = *state;
    char first[PATH_MAX], second[PATH_MAX];
    perfetto_case_random(&files->c, trace_seed() + 100);
    static const char *const names[][2] = {{"a.json", "b.json"}, {"a.json.gz", "b.json.gz"}};
    for (size_t i = 0; i < 2; i++) {
        trace_path(first, files->folder, names[i][0]);
        trace_path(second, files->folder, names[i][1]);
        assert_int_equal(export_to(files, first), ORR_OK);
        assert_int_equal(export_to(files, second), ORR_OK);
        assert_same_files(first, second);
    }
}

static void our_files_are_recognized(void **state) {
    struct fixture_files *files = *state;
    char path[PATH_MAX];
    perfetto_case_example(&files->c);
    exported(files);
    assert_true(orr_perfetto_recognize(files->json));
    assert_int_equal(export_to(files, trace_path(path, files->folder, "a.json.gz")), ORR_OK);
    assert_true(orr_perfetto_recognize(path));
    trace_write_file(trace_path(path, files->folder, "other.json"), "{\"traceEvents\":[]}", 18);
    assert_false(orr_perfetto_recognize(path));
    trace_write_file(path, "", 0);
    assert_false(orr_perfetto_recognize(path));
    assert_false(orr_perfetto_recognize(files->folder));
    assert_false(orr_perfetto_recognize(trace_path(path, files->folder, "none")));
    assert_false(orr_perfetto_recognize("/dev/null"));
}

static size_t count_files(const char *folder) {
    DIR *directory = opendir(folder);
    size_t count = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

static void failures_leave_nothing_behind(void **state) {
    struct fixture_files *files = *state;
    char path[PATH_MAX];
    perfetto_case_rich(&files->c);
    trace_path(path, files->folder, "no/such/folder.json");
    assert_int_equal(export_to(files, path), ORR_IO);
    assert_non_null(strstr(files->error.text, path));
    assert_int_equal(count_files(files->folder), 0);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(export_to(files, "/dev/full"), ORR_IO);
        assert_non_null(strstr(files->error.text, "No space left"));
    }
}

static void missing_memory_is_reported_wherever_it_happens(void **state) {
    struct fixture_files *files = *state;
    char path[PATH_MAX];
    perfetto_case_rich(&files->c);
    trace_path(path, files->folder, "run.json.gz");
    const struct orr_timeline *timeline = fixture_timeline(&files->c.fixture);
    enum orr_status status = ORR_NO_MEMORY;
    size_t nth = 0;
    while (status != ORR_OK) {
        struct trace_memory memory;
        struct orr_error error = {0};
        trace_memory_init(&memory, ++nth);
        status = orr_perfetto_write(timeline, files->c.phases, files->c.phase_count, path,
                                    &memory.table, NULL, &error);
        assert_int_equal(memory.live, 0);
        if (status != ORR_OK) {
            assert_int_equal(status, ORR_NO_MEMORY);
            assert_true(error.text[0] != '\0');
            assert_int_equal(count_files(files->folder), 0);
        }
    }
    assert_true(nth > 25);
    assert_int_equal(count_files(files->folder), 1);
}

/* ---------------------------------------------------------------------------------------------- */
/* The strict checker */

/* Runs a command and prints what it says if it fails. */
static void assert_runs(const char *command) {
    char line[1024];
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *said = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&said, &size);
    while (fgets(line, sizeof line, pipe)) {
        fputs(line, memory);
    }
    int status = pclose(pipe);
    fclose(memory);
    if (status != 0) {
        print_error("%s\n%.*s\n", command, size > 20000 ? 20000 : (int)size, said);
    }
    free(said);
    assert_int_equal(status, 0);
}

static void need_python(void) {
    if (system("python3 -c 'import sqlite3, sys; sys.exit(sys.version_info < (3, 9))' "
               "2>/dev/null") != 0) {
        print_message("skip: the checker needs python3 (3.9 or later) with sqlite3\n");
        skip();
    }
}

/* Exports a case plain (twice) and compressed, saves its database, and adds it to the checker's
 * list. */
static void add_to_list(struct fixture_files *files, FILE *list, const char *name) {
    char paths[5][PATH_MAX];
    static const char *const endings[] = {".json", ".again.json", ".json.gz", ".db", ".analysis"};
    for (size_t i = 0; i < 5; i++) {
        snprintf(paths[i], sizeof paths[i], "%.3000s/%s%s", files->folder, name, endings[i]);
        if (i < 3) {
            assert_int_equal(export_to(files, paths[i]), ORR_OK);
        }
    }
    perfetto_case_save(&files->c, paths[3], paths[4]);
    fprintf(list, "%s --again %s --gz %s --db %s --analysis %s\n", paths[0], paths[1], paths[2],
            paths[3], paths[4]);
}

static void next_case(struct fixture_files *files) {
    perfetto_case_free(&files->c);
}

static void random_timelines_pass_the_strict_checker(void **state) {
    struct fixture_files *files = *state;
    char path[PATH_MAX], command[2 * PATH_MAX], name[32];
    need_python();
    uint64_t seed = trace_seed();
    FILE *list = fopen(trace_path(path, files->folder, "list"), "w");
    assert_non_null(list);
    perfetto_case_example(&files->c);
    add_to_list(files, list, "example");
    next_case(files);
    perfetto_case_rich(&files->c);
    add_to_list(files, list, "rich");
    next_case(files);
    perfetto_case_large(&files->c, 5000);
    add_to_list(files, list, "large");
    for (uint64_t i = 0; i < RANDOM_CASES; i++) {
        next_case(files);
        perfetto_case_random(&files->c, seed * 1000 + i);
        snprintf(name, sizeof name, "random-%llu", (unsigned long long)(seed * 1000 + i));
        add_to_list(files, list, name);
    }
    fclose(list);
    snprintf(command, sizeof command, "python3 -B tests/check_perfetto.py --batch %s 2>&1", path);
    assert_runs(command);
}

static void every_check_can_fail(void **state) {
    struct fixture_files *files = *state;
    char path[PATH_MAX], command[4 * PATH_MAX];
    const char *folder = files->folder;
    need_python();
    perfetto_case_rich(&files->c);
    FILE *list = fopen(trace_path(path, folder, "list"), "w");
    assert_non_null(list);
    add_to_list(files, list, "rich");
    fclose(list);
    snprintf(command, sizeof command,
             "python3 -B tests/check_perfetto_mutations.py %s/rich.json %s/rich.db "
             "%s/rich.analysis 2>&1",
             folder, folder, folder);
    assert_runs(command);
}

static const char scenario[] = "local a, b = orrery.device(0), orrery.device(1)\n"
                               "local s, c = a:stream('compute'), b:stream('communicate')\n"
                               "local x, y = a:alloc(1 << 20, 'x'), b:alloc(1 << 20, 'y')\n"
                               "for i = 1, 5 do\n"
                               "    s:kernel{ name = 'produce', writes = {x}, ns = 10000 }\n"
                               "    local e = s:record()\n"
                               "    c:wait(e)\n"
                               "    c:kernel{ name = 'consume', writes = {y}, ns = 7000 }\n"
                               "    if i == 3 then b:sync() end\n"
                               "end\n"
                               "a:sync()\n"
                               "b:sync()\n";

/* The command under test, or skip. */
static const char *need_command(void) {
    const char *command = getenv("ORRERY");
    if (!command || access(command, X_OK) != 0) {
        command = "build/release/orrery";
    }
    if (access(command, X_OK) != 0) {
        print_message("skip: the command is not built\n");
        skip();
    }
    return command;
}

/* Runs, exports twice and compressed, and analyses; checks the file against both. */
static void check_a_run(struct fixture_files *files, const char *devices) {
    static char command[8 * PATH_MAX];
    char lua[PATH_MAX];
    const char *orrery = need_command();
    need_python();
    trace_write_file(trace_path(lua, files->folder, "scenario.lua"), scenario, sizeof scenario - 1);
    snprintf(command, sizeof command,
             "set -e; d=%s; o='%s'; { $o run $d/scenario.lua --devices '%s' -o $d/run.db; "
             "$o export $d/run.db -o $d/run.json; $o export $d/run.db -o $d/again.json; "
             "$o export $d/run.db -o $d/run.json.gz; $o analyze $d/run.db --json >$d/analysis; "
             "python3 -B tests/check_perfetto.py $d/run.json --db $d/run.db --analysis $d/analysis "
             "--again $d/again.json --gz $d/run.json.gz; } 2>&1",
             files->folder, orrery, devices);
    assert_runs(command);
    char *text = read_text(files->json);
    assert_true(count_of(text, "\"name\":\"event") > 0);
    assert_true(count_of(text, "\"cat\":\"phase\"") > 0);
    free(text);
}

static void a_simulated_run_passes_the_strict_checker(void **state) {
    check_a_run(*state, "sim:h100*2");
}

static void a_run_on_threads_passes_the_strict_checker(void **state) {
    check_a_run(*state, "cpu*2");
}

static void a_finding_about_a_host_has_its_arrow(void **state) {
    static const char race[] = "local d = orrery.device(0)\n"
                               "local to, from = d:alloc(4096), orrery.host_alloc(4096)\n"
                               "from:write(1)\n"
                               "d:stream('copy'):copy{ to = to, from = from }\n"
                               "from:write(2)\n";
    static char command[8 * PATH_MAX];
    char lua[PATH_MAX];
    struct fixture_files *files = *state;
    const char *orrery = need_command();
    need_python();
    trace_write_file(trace_path(lua, files->folder, "race.lua"), race, sizeof race - 1);
    snprintf(command, sizeof command,
             "d=%s; o='%s'; $o run $d/race.lua --check -o $d/run.db >$d/said 2>&1; "
             "test $? = 1 && $o export $d/run.db -o $d/run.json && "
             "python3 -B tests/check_perfetto.py $d/run.json --db $d/run.db 2>&1",
             files->folder, orrery);
    assert_runs(command);
    char *text = read_text(files->json);
    assert_int_equal(count_of(text, "\"name\":\"finding\""), 2); /* both ends */
    free(text);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(the_example_comes_out_byte_for_byte),
        CASE(the_example_is_that_of_the_format_page),
        CASE(an_empty_timeline_is_a_whole_file),
        CASE(idle_devices_hosts_and_streams_are_named),
        CASE(names_of_threads_differ_within_a_process),
        CASE(sparse_ids_show_as_long_as_they_fit),
        CASE(things_without_length_at_one_time_are_one_mark),
        CASE(lists_of_a_mark_end_at_256),
        CASE(enqueues_of_one_call_are_one_slice),
        CASE(slices_that_overlap_take_the_first_free_thread),
        CASE(what_finds_no_thread_is_counted_with_its_arrows),
        CASE(graphs_lie_on_a_thread_of_their_own),
        CASE(a_wait_that_blocked_resumes_in_a_mark),
        CASE(arrows_never_point_back_in_time),
        CASE(unfinished_commands_reach_to_the_end),
        CASE(phases_come_from_the_caller),
        CASE(findings_stand_where_their_later_command_starts),
        CASE(counters_are_change_points),
        CASE(a_real_clock_starts_at_the_least_time),
        CASE(times_that_readers_would_blur_are_refused),
        CASE(metadata_holds_the_rows_of_meta),
        CASE(two_exports_are_equal),
        CASE(our_files_are_recognized),
        CASE(failures_leave_nothing_behind),
        CASE(missing_memory_is_reported_wherever_it_happens),
        CASE(random_timelines_pass_the_strict_checker),
        CASE(every_check_can_fail),
        CASE(a_simulated_run_passes_the_strict_checker),
        CASE(a_run_on_threads_passes_the_strict_checker),
        CASE(a_finding_about_a_host_has_its_arrow),
    };
    return cmocka_run_group_tests_name("perfetto", tests, NULL, NULL);
}
