/* Traces as files: of runs in progress, killed runs, files in the way, damaged ones. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/trace_support.h"

/* Expects that a file can't be read, with this in the message. */
static void expect_unreadable(struct trace_fixture *f, const char *path, enum orr_status status,
                              const char *text) {
    struct orr_timeline *timeline;
    orr_error_clear(&f->error);
    assert_int_equal(orr_timeline_read(path, &f->memory.table, &timeline, &f->error), status);
    assert_null(timeline);
    if (!strstr(f->error.text, text) || !strstr(f->error.text, path))
        fail_msg("'%s' does not say '%s' and the path", f->error.text, text);
    assert_null(strchr(f->error.text, '\n'));
    orr_error_clear(&f->error);
}

/* -- While it runs, and when it doesn't any more ----------------------------------------------- */

static void flush_makes_records_visible_to_others(void **state) {
    struct trace_fixture *f = *state;
    for (int mode = ORR_SQLITE_INLINE; mode <= ORR_SQLITE_DROP; mode++) {
        struct orr_sink *sink = trace_open_sink(f, f->path, (enum orr_sqlite_mode)mode);
        trace_write_commands(sink, 1, 5);
        assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
        struct orr_timeline *timeline = trace_read(f, f->path);
        assert_int_equal(timeline->command_count, 5);
        assert_string_equal(orr_timeline_meta(timeline, "status"), "running");
        orr_timeline_destroy(&timeline);
        trace_write_commands(sink, 6, 9);
        assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
        assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
        assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 9);
        trace_close_sink(f, sink);
    }
}

static void full_ring_drops_records_and_counts_them(void **state) {
    struct trace_fixture *f = *state;
    enum { COMMANDS = 100000 };
    struct orr_sqlite_options options = {
        .mode = ORR_SQLITE_DROP, .chunk_bytes = 64 << 10, .chunk_count = 1};
    struct orr_sink *sink;
    assert_int_equal(orr_sqlite_sink_open(f->path, &options, &f->memory.table, &sink, &f->error),
                     ORR_OK);
    sink->names = f->names;
    trace_write_commands(sink, 1, COMMANDS);
    trace_close_sink(f, sink);
    struct orr_timeline *timeline = trace_read(f, f->path);
    const char *dropped = orr_timeline_meta(timeline, "dropped");
    assert_true(strtoull(dropped, NULL, 10) > 0); /* one chunk can't keep up */
    assert_string_equal(orr_timeline_meta(timeline, "dropped_cmd"), dropped);
    assert_int_equal(timeline->command_count + strtoull(dropped, NULL, 10), COMMANDS);
    for (size_t i = 1; i < timeline->command_count; i++)
        assert_true(timeline->commands[i].id > timeline->commands[i - 1].id);
    orr_timeline_destroy(&timeline);
}

/* The child writes until it is killed; no cmocka in it. */
static void run_child(const char *path, enum orr_sqlite_mode mode) {
    struct orr_memory memory = orr_memory_system();
    struct orr_sqlite_options options = {.mode = mode};
    struct orr_sink *sink;
    struct orr_names *names;
    if (orr_names_create(&memory, &names) != ORR_OK ||
        orr_sqlite_sink_open(path, &options, &memory, &sink, NULL) != ORR_OK)
        _exit(1);
    sink->names = names;
    for (uint64_t id = 1;; id += 10)
        trace_write_commands(sink, id, id + 9);
}

static void kill_child(const char *path, enum orr_sqlite_mode mode, int64_t rows) {
    pid_t child = fork();
    if (child == 0)
        run_child(path, mode);
    assert_true(child > 0);
    struct stat info;
    /* 40: bytes of a row, at least; a trace without rows has less than the other bytes */
    while (stat(path, &info) != 0 || info.st_size < (512 << 10) + rows * 40)
        usleep(1000);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void killed_run_leaves_a_readable_trace(void **state) {
    struct trace_fixture *f = *state;
    for (int round = 0; round < 9; round++) {
        char path[PATH_MAX], name[32];
        snprintf(name, sizeof name, "killed-%d.db", round);
        trace_path(path, f->folder, name);
        kill_child(path, (enum orr_sqlite_mode)(round % 3), 5000 + round * 3000);
        size_t size, size_after;
        unsigned char *bytes = trace_read_file(path, &size);
        struct orr_timeline *timeline = trace_read(f, path);
        assert_string_equal(orr_timeline_meta(timeline, "status"), "running");
        assert_true(timeline->command_count > 0);
        for (size_t i = 0; i < timeline->command_count && round % 3 != ORR_SQLITE_DROP; i++)
            assert_int_equal(timeline->commands[i].id, i + 1); /* whole chunks, none missing */
        unsigned char *bytes_after = trace_read_file(path, &size_after);
        assert_int_equal(size, size_after);
        assert_memory_equal(bytes, bytes_after, size); /* reading changed nothing */
        free(bytes);
        free(bytes_after);
        /* SQLite itself takes the unfinished transaction back and finds the same. */
        trace_execute(path, "SELECT count(*) FROM cmd");
        assert_int_equal(trace_query_int(path, "SELECT count(*) FROM cmd"),
                         timeline->command_count);
        char *check = trace_query_text(path, "PRAGMA integrity_check");
        assert_string_equal(check, "ok");
        free(check);
        orr_timeline_destroy(&timeline);
        trace_close_sink(
            f, trace_open_sink(f, path, ORR_SQLITE_INLINE)); /* a killed trace is replaced */
        assert_int_equal(trace_query_int(path, "SELECT count(*) FROM cmd"), 0);
        unlink(path);
    }
}

static void killed_trace_in_a_read_only_folder_is_readable(void **state) {
    struct trace_fixture *f = *state;
    char folder[PATH_MAX], path[PATH_MAX], journal[PATH_MAX];
    assert_non_null(mkdir(trace_path(folder, f->folder, "sealed"), 0700) == 0 ? folder : NULL);
    kill_child(trace_path(path, folder, "run.db"), ORR_SQLITE_INLINE, 10000);
    trace_path(journal, folder, "run.db-journal");
    chmod(path, 0400);
    chmod(journal, 0400);
    chmod(folder, 0500);
    struct orr_timeline *timeline = trace_read(f, path);
    assert_true(timeline->command_count > 0);
    orr_timeline_destroy(&timeline);
    assert_true(trace_exists(path, "-journal"));
    chmod(folder, 0700);
    trace_folder_remove(folder);
}

/* -- Which files are replaced ------------------------------------------------------------------ */

static void expect_refused(struct trace_fixture *f, const char *path, enum orr_status status,
                           const char *text) {
    struct orr_sink *sink;
    orr_error_clear(&f->error);
    assert_int_equal(orr_sqlite_sink_open(path, NULL, &f->memory.table, &sink, &f->error), status);
    assert_null(sink);
    if (!strstr(f->error.text, text) || !strstr(f->error.text, path))
        fail_msg("'%s' does not say '%s' and the path", f->error.text, text);
    orr_error_clear(&f->error);
}

static void own_traces_and_empty_files_are_replaced(void **state) {
    struct trace_fixture *f = *state;
    trace_write_file(f->path, "", 0);
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    trace_write_commands(sink, 1, 3000);
    trace_close_sink(f, sink);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 3000);
    trace_close_sink(f, trace_open_sink(f, f->path, ORR_SQLITE_INLINE));
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 0);
    size_t size; /* a damaged one, too */
    unsigned char *bytes = trace_read_file(f->path, &size);
    trace_write_file(f->path, bytes, 5000);
    free(bytes);
    trace_close_sink(f, trace_open_sink(f, f->path, ORR_SQLITE_INLINE));
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 0);
}

static void a_link_to_a_trace_stays_a_link(void **state) {
    struct trace_fixture *f = *state;
    char link[PATH_MAX];
    trace_close_sink(f, trace_open_sink(f, f->path, ORR_SQLITE_INLINE));
    assert_int_equal(symlink(f->path, trace_path(link, f->folder, "link.db")), 0);
    struct orr_sink *sink = trace_open_sink(f, link, ORR_SQLITE_INLINE);
    trace_write_commands(sink, 1, 10);
    trace_close_sink(f, sink);
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 10);
}

static void foreign_files_are_left_alone(void **state) {
    struct trace_fixture *f = *state;
    static const char text[] = "my thesis, by no means to be overwritten by a tool";
    trace_write_file(f->path, text, sizeof text);
    expect_refused(f, f->path, ORR_INVALID, "not written by Orrery");
    size_t size;
    unsigned char *bytes = trace_read_file(f->path, &size);
    assert_int_equal(size, sizeof text);
    assert_memory_equal(bytes, text, size);
    free(bytes);
    unlink(f->path);
    trace_execute(f->path, "CREATE TABLE accounts(name)"); /* SQLite, but not ours */
    expect_refused(f, f->path, ORR_INVALID, "not written by Orrery");
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM accounts"), 0);
}

static void places_that_cannot_hold_a_trace_are_named(void **state) {
    struct trace_fixture *f = *state;
    char path[PATH_MAX];
    expect_refused(f, f->folder, ORR_IO, "folder");
    expect_refused(f, "/dev/null", ORR_IO, "not a file");
    expect_refused(f, trace_path(path, f->folder, "no/such/run.db"), ORR_IO, "cannot create");
    expect_refused(f, "", ORR_INVALID, "empty");
}

static void a_trace_that_is_being_written_is_not_replaced(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    trace_write_commands(sink, 1, 100);
    expect_refused(f, f->path, ORR_IO, "another process uses");
    trace_write_commands(sink, 101, 200);
    trace_close_sink(f, sink);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 200);
}

static void names_that_mean_something_to_sqlite_are_plain_names(void **state) {
    struct trace_fixture *f = *state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->folder), 0);
    struct orr_sink *sink = trace_open_sink(f, ":memory:", ORR_SQLITE_INLINE);
    trace_write_commands(sink, 1, 7);
    trace_close_sink(f, sink);
    assert_true(trace_exists(":memory:", ""));
    struct orr_timeline *timeline = trace_read(f, ":memory:");
    assert_int_equal(timeline->command_count, 7);
    orr_timeline_destroy(&timeline);
    assert_int_equal(chdir(before), 0);
}

/* -- Files that can't be read ------------------------------------------------------------------ */

static void bad_input_is_named_in_one_line(void **state) {
    struct trace_fixture *f = *state;
    expect_unreadable(f, f->path, ORR_INVALID, "no such file");
    expect_unreadable(f, f->folder, ORR_INVALID, "a folder");
    trace_write_file(f->path, "", 0);
    expect_unreadable(f, f->path, ORR_INVALID, "empty file");
    trace_write_file(f->path, "{\"traceEvents\":[]}", 18);
    expect_unreadable(f, f->path, ORR_INVALID, "not an SQLite database: first bytes 7b 22 74");
    trace_write_file(f->path, "SQL", 3);
    expect_unreadable(f, f->path, ORR_INVALID, "truncated");
    unlink(f->path);
    trace_execute(f->path, "CREATE TABLE accounts(name)");
    expect_unreadable(f, f->path, ORR_INVALID, "not a trace of Orrery");
    trace_execute(f->path, "PRAGMA application_id = 1332900473");
    expect_unreadable(f, f->path, ORR_INVALID, "schema version 0, this program reads 2 to 4");
    trace_execute(f->path, "PRAGMA user_version = 99");
    expect_unreadable(f, f->path, ORR_INVALID, "a newer Orrery wrote it");
    trace_execute(f->path, "PRAGMA user_version = 4");
    expect_unreadable(f, f->path, ORR_INVALID, "no such table: text");
}

static void values_that_mean_nothing_are_named_with_their_row(void **state) {
    struct trace_fixture *f = *state;
    static const struct {
        const char *sql, *text;
    } cases[] = {
        {"UPDATE cmd_row SET code = 77 WHERE id = 2", "cmd_row, row 2: code is 77"},
        {"UPDATE cmd_row SET code = 1280 WHERE id = 3", "cmd_row, row 3: code is 1280"},
        {"UPDATE cmd_row SET code = -1 WHERE id = 3", "cmd_row, row 3: code is -1"},
        {"INSERT INTO edge_row VALUES (7, 8, 5)", "edge_row, row 7: kind is 5"},
        {"INSERT INTO access_row VALUES (7, 8, 0, 1, 4)", "access_row, row 7: mode is 4"},
        {"INSERT INTO access_row VALUES (7, 8, 0, 1, 0)", "access_row, row 7: mode is 0"},
        {"INSERT INTO sync_row VALUES (3, 0, 4, 0, 0, 0, 0)", "sync_row, row 3: kind is 4"},
        {"INSERT INTO stream VALUES (3, 0, 'x', 'y', 'nb', NULL)", "stream, row 3"},
        {"INSERT INTO device_peak VALUES (3, 'matrix', 'bf16', 1)", "device_peak"},
        {"INSERT INTO op_row(id, dtype) VALUES (3, 99)", "op_row, row 3: dtype is 99"},
        {"INSERT INTO buffer_row(id, role) VALUES (3, 7)", "buffer_row, row 3: role is 7"},
        {"INSERT INTO buffer_role_row VALUES (3, -1, 0, 0)", "buffer_role_row, row 3: role is -1"},
        {"INSERT INTO text VALUES (99999999, 'x')", "text, row 99999999"},
        {"DROP VIEW cmd; DROP TABLE edge_row; CREATE VIEW edge_row AS SELECT 1 AS src, 2 AS dst, "
         "0 AS kind",
         "edge_row"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
        trace_write_commands(sink, 1, 5);
        trace_close_sink(f, sink);
        trace_execute(f->path, cases[i].sql);
        expect_unreadable(f, f->path, ORR_INVALID, cases[i].text);
    }
}

static void write_sample(struct trace_fixture *f, uint64_t commands) {
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    trace_write_random(sink, f->names, trace_seed(), commands);
    trace_close_sink(f, sink);
}

/* Reads whatever it is: a timeline or one line of ORR_INVALID. */
static void read_damaged(struct trace_fixture *f, const char *path) {
    struct orr_timeline *timeline;
    orr_error_clear(&f->error);
    enum orr_status status = orr_timeline_read(path, &f->memory.table, &timeline, &f->error);
    if (status != ORR_OK && status != ORR_INVALID)
        fail_msg("%s", f->error.text);
    assert_true(status == ORR_OK || strstr(f->error.text, path) != NULL);
    orr_timeline_destroy(&timeline);
    orr_error_clear(&f->error);
}

static void truncated_traces_are_refused_at_every_length(void **state) {
    struct trace_fixture *f = *state;
    write_sample(f, 700);
    size_t size;
    unsigned char *bytes = trace_read_file(f->path, &size);
    uint64_t random = trace_seed() + 99;
    char cut[PATH_MAX];
    trace_path(cut, f->folder, "cut.db");
    for (size_t length = 0; length < size; length += 1 + trace_random(&random) % 3000) {
        trace_write_file(cut, bytes, length);
        expect_unreadable(f, cut, ORR_INVALID, cut);
    }
    trace_write_file(cut, bytes, size - 1);
    expect_unreadable(f, cut, ORR_INVALID, "truncated");
    free(bytes);
}

static void damaged_traces_never_crash_the_reader(void **state) {
    struct trace_fixture *f = *state;
    write_sample(f, 200);
    size_t size;
    unsigned char *bytes = trace_read_file(f->path, &size);
    unsigned char *damaged = malloc(size);
    assert_non_null(damaged);
    uint64_t random = trace_seed() + 7;
    char path[PATH_MAX];
    trace_path(path, f->folder, "damaged.db");
    for (int round = 0; round < 400; round++) {
        memcpy(damaged, bytes, size);
        for (uint64_t i = 1 + trace_random(&random) % 20; i > 0; i--)
            damaged[trace_random(&random) % size] = (unsigned char)trace_random(&random);
        trace_write_file(path, damaged, size);
        read_damaged(f, path);
    }
    free(damaged);
    free(bytes);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, trace_set_up, trace_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(flush_makes_records_visible_to_others),
        CASE(full_ring_drops_records_and_counts_them),
        CASE(killed_run_leaves_a_readable_trace),
        CASE(killed_trace_in_a_read_only_folder_is_readable),
        CASE(own_traces_and_empty_files_are_replaced),
        CASE(a_link_to_a_trace_stays_a_link),
        CASE(foreign_files_are_left_alone),
        CASE(places_that_cannot_hold_a_trace_are_named),
        CASE(a_trace_that_is_being_written_is_not_replaced),
        CASE(names_that_mean_something_to_sqlite_are_plain_names),
        CASE(bad_input_is_named_in_one_line),
        CASE(values_that_mean_nothing_are_named_with_their_row),
        CASE(truncated_traces_are_refused_at_every_length),
        CASE(damaged_traces_never_crash_the_reader),
    };
    return cmocka_run_group_tests_name("trace files", tests, NULL, NULL);
}
