/* What the trace does when something fails: memory, the disk, the folder, another process's lock.
 *
 * Files fail through a VFS, SQLite's layer of file operations, that passes everything on to the
 * system's until it is told to fail. What must hold every time: the sink takes records until the
 * end, the failure is reported with path and reason, what was committed before can be read, and
 * nothing leaks. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/trace_support.h"

/* -- A file system that fails ------------------------------------------------------------------ */

struct shim_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind it */
    int flags;
};

/* One for the process: SQLite's VFS functions have no better place for a context. */
static struct shim {
    sqlite3_vfs vfs;
    sqlite3_vfs *system;
    sqlite3_io_methods methods;
    atomic_llong writes;     /* so far */
    atomic_llong bytes;      /* written so far */
    long long full_after;    /* bytes until the disk is full; -1: never */
    long long fail_at_write; /* this write and those after it fail; -1: none */
    int failure;             /* with this code */
    bool short_write;        /* the failing write writes half of its bytes first */
    bool busy;               /* no exclusive lock is granted */
    bool fail_truncate;
} shim;

static sqlite3_file *real_of(sqlite3_file *file) {
    return ((struct shim_file *)file)->real;
}

static int shim_close(sqlite3_file *file) {
    sqlite3_file *real = real_of(file);
    return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int shim_read(sqlite3_file *file, void *buffer, int amount, sqlite3_int64 offset) {
    return real_of(file)->pMethods->xRead(real_of(file), buffer, amount, offset);
}

static int shim_write(sqlite3_file *file, const void *buffer, int amount, sqlite3_int64 offset) {
    sqlite3_file *real = real_of(file);
    long long number = atomic_fetch_add(&shim.writes, 1);
    long long bytes = atomic_fetch_add(&shim.bytes, amount) + amount;
    bool full = shim.full_after >= 0 && bytes > shim.full_after;
    if (full || (shim.fail_at_write >= 0 && number >= shim.fail_at_write)) {
        if (shim.short_write)
            real->pMethods->xWrite(real, buffer, amount / 2, offset);
        return full ? SQLITE_FULL : shim.failure;
    }
    return real->pMethods->xWrite(real, buffer, amount, offset);
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size) {
    if (shim.fail_truncate)
        return SQLITE_IOERR_TRUNCATE;
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int shim_sync(sqlite3_file *file, int flags) {
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *out_size) {
    return real_of(file)->pMethods->xFileSize(real_of(file), out_size);
}

static int shim_lock(sqlite3_file *file, int level) {
    if (shim.busy && level == SQLITE_LOCK_EXCLUSIVE)
        return SQLITE_BUSY;
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int shim_unlock(sqlite3_file *file, int level) {
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int shim_reserved(sqlite3_file *file, int *out_reserved) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out_reserved);
}

static int shim_control(sqlite3_file *file, int operation, void *argument) {
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int shim_sector_size(sqlite3_file *file) {
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int shim_characteristics(sqlite3_file *file) {
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags) {
    (void)vfs;
    struct shim_file *shimmed = (struct shim_file *)file;
    shimmed->real = (sqlite3_file *)(void *)((char *)file + sizeof *shimmed);
    shimmed->base.pMethods = NULL;
    int code = shim.system->xOpen(shim.system, name, shimmed->real, flags, out_flags);
    if (code == SQLITE_OK)
        shimmed->base.pMethods = &shim.methods;
    return code;
}

static void shim_reset(void) {
    shim.full_after = shim.fail_at_write = -1;
    shim.failure = SQLITE_IOERR_WRITE;
    shim.short_write = shim.busy = shim.fail_truncate = false;
    atomic_store(&shim.writes, 0);
    atomic_store(&shim.bytes, 0);
}

static int shim_register(void **state) {
    (void)state;
    shim.system = sqlite3_vfs_find(NULL);
    shim.vfs = *shim.system;
    shim.vfs.zName = "shim";
    shim.vfs.pNext = NULL;
    shim.vfs.szOsFile = (int)sizeof(struct shim_file) + shim.system->szOsFile;
    shim.vfs.xOpen = shim_open;
    shim.methods = (sqlite3_io_methods){
        .iVersion = 1,
        .xClose = shim_close,
        .xRead = shim_read,
        .xWrite = shim_write,
        .xTruncate = shim_truncate,
        .xSync = shim_sync,
        .xFileSize = shim_size,
        .xLock = shim_lock,
        .xUnlock = shim_unlock,
        .xCheckReservedLock = shim_reserved,
        .xFileControl = shim_control,
        .xSectorSize = shim_sector_size,
        .xDeviceCharacteristics = shim_characteristics,
    };
    shim_reset();
    return sqlite3_vfs_register(&shim.vfs, 0) == SQLITE_OK ? 0 : -1;
}

static int shim_unregister(void **state) {
    (void)state;
    return sqlite3_vfs_unregister(&shim.vfs) == SQLITE_OK ? 0 : -1;
}

/* -- A trace of a fixed program ---------------------------------------------------------------- */

enum { COMMANDS = 12000 };

static int set_up(void **state) {
    shim_reset();
    return trace_set_up(state);
}

static int tear_down(void **state) {
    shim_reset();
    return trace_tear_down(state);
}

/* Opens, writes COMMANDS commands and closes; returns the first status that isn't ORR_OK. *opened
 * says how far it came. */
static enum orr_status write_trace(struct trace_fixture *f, enum orr_sqlite_mode mode,
                                   bool *opened) {
    struct orr_sqlite_options options = {.mode = mode, .vfs = "shim", .busy_ms = 20};
    struct orr_sink *sink;
    orr_error_clear(&f->error);
    enum orr_status status =
        orr_sqlite_sink_open(f->path, &options, &f->memory.table, &sink, &f->error);
    *opened = status == ORR_OK;
    if (status != ORR_OK)
        return status;
    sink->names = f->names;
    trace_write_commands(sink, 1, COMMANDS / 2);
    status = sink->flush(sink, &f->error);
    struct orr_error at_flush = f->error;
    trace_write_commands(sink, COMMANDS / 2 + 1, COMMANDS);
    struct orr_error at_close = {0};
    enum orr_status close_status = sink->close(sink, "ok", &at_close);
    if (status != ORR_OK) { /* the first failure is kept */
        assert_int_equal(close_status, status);
        assert_string_equal(at_close.text, at_flush.text);
    }
    f->error = at_close;
    return close_status;
}

static void expect_error(struct trace_fixture *f, enum orr_status status, const char *text) {
    assert_int_equal(f->error.status, status);
    if (!strstr(f->error.text, text) || !strstr(f->error.text, f->path))
        fail_msg("'%s' does not say '%s' and the path", f->error.text, text);
}

/* What a failed run leaves: a readable trace with the first so many commands, or nothing. Returns
 * their number; -1 if there is no file. */
static int64_t check_left_over(struct trace_fixture *f) {
    struct stat info;
    if (stat(f->path, &info) != 0)
        return -1;
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    if (orr_timeline_read(f->path, &f->memory.table, &timeline, &error) != ORR_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < timeline->command_count; i++)
        assert_int_equal(timeline->commands[i].id, i + 1);
    int64_t commands = (int64_t)timeline->command_count;
    const char *status = orr_timeline_meta(timeline, "status");
    if (strcmp(status, "ok") == 0) { /* it could say at the end what is missing */
        const char *dropped = orr_timeline_meta(timeline, "dropped");
        assert_int_equal(commands + (int64_t)strtoll(dropped, NULL, 10), COMMANDS);
    } else {
        assert_string_equal(status, "running");
    }
    orr_timeline_destroy(&timeline);
    return commands;
}

static void nothing_fails_without_a_failure(void **state) {
    struct trace_fixture *f = *state;
    for (int mode = ORR_SQLITE_INLINE; mode <= ORR_SQLITE_WAIT; mode++) {
        bool opened;
        assert_int_equal(write_trace(f, (enum orr_sqlite_mode)mode, &opened), ORR_OK);
        assert_int_equal(check_left_over(f), COMMANDS);
    }
}

/* -- Disk -------------------------------------------------------------------------------------- */

static void full_disk_ends_the_trace_and_keeps_what_was_committed(void **state) {
    struct trace_fixture *f = *state;
    int64_t most = 0;
    bool whole = false;
    for (long long full_after = 0; !whole; full_after += 23011) {
        bool opened;
        shim_reset();
        shim.full_after = full_after;
        enum orr_status status =
            write_trace(f, (enum orr_sqlite_mode)(full_after / 23011 % 2), &opened);
        whole = status == ORR_OK;
        if (!whole)
            expect_error(f, ORR_IO, "full");
        int64_t commands = check_left_over(f);
        assert_true(opened ? commands >= 0 : commands == -1);
        assert_true(!whole || commands == COMMANDS);
        if (!whole)
            most = commands > most ? commands : most;
        unlink(f->path);
    }
    assert_true(most > COMMANDS / 2); /* some failed late */
}

static void failed_and_short_writes_end_the_trace(void **state) {
    struct trace_fixture *f = *state;
    bool whole = false;
    for (long long write = 0; !whole; write += 1 + write / 16) {
        bool opened;
        shim_reset();
        shim.fail_at_write = write;
        shim.short_write = write % 2 == 1;
        whole = write_trace(f, (enum orr_sqlite_mode)(write % 3 == 0), &opened) == ORR_OK;
        if (!whole)
            expect_error(f, ORR_IO, "disk I/O error");
        int64_t commands = check_left_over(f);
        assert_true(opened ? commands >= 0 : commands == -1);
        unlink(f->path);
    }
}

/* The journal can't be emptied: the commit fails, and what follows it. */
static void a_journal_that_cannot_be_emptied_is_a_failure(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sqlite_options options = {.vfs = "shim"};
    struct orr_sink *sink;
    assert_int_equal(orr_sqlite_sink_open(f->path, &options, &f->memory.table, &sink, &f->error),
                     ORR_OK);
    sink->names = f->names;
    trace_write_commands(sink, 1, 100);
    assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
    shim.fail_truncate = true;
    trace_write_commands(sink, 101, 200);
    assert_int_equal(sink->flush(sink, &f->error), ORR_IO);
    trace_write_commands(sink, 201, 5000);
    orr_error_clear(&f->error);
    assert_int_equal(sink->close(sink, "ok", &f->error), ORR_IO);
    expect_error(f, ORR_IO, "cannot write the trace");
    struct orr_timeline *timeline;
    orr_error_clear(&f->error);
    assert_int_equal(orr_timeline_read(f->path, &f->memory.table, &timeline, &f->error), ORR_OK);
    assert_true(timeline->command_count == 100 || timeline->command_count == 200);
    orr_timeline_destroy(&timeline);
}

/* Without the shim: the kernel refuses to let files grow. */
static void a_real_limit_on_file_size_is_reported(void **state) {
    struct trace_fixture *f = *state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 400000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool opened;
    enum orr_status status = write_trace(f, ORR_SQLITE_WAIT, &opened);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_true(opened);
    assert_int_equal(status, ORR_IO);
    expect_error(f, ORR_IO, "cannot write the trace");
    int64_t commands = check_left_over(f);
    assert_true(commands > 0 && commands < COMMANDS);
}

/* -- Locks and permissions --------------------------------------------------------------------- */

static void a_lock_that_is_never_granted_ends_the_trace(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sqlite_options options = {.vfs = "shim", .busy_ms = 20};
    struct orr_sink *sink;
    assert_int_equal(orr_sqlite_sink_open(f->path, &options, &f->memory.table, &sink, &f->error),
                     ORR_OK);
    sink->names = f->names;
    trace_write_commands(sink, 1, 50);
    assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
    shim.busy = true;
    trace_write_commands(sink, 51, 100);
    assert_int_equal(sink->flush(sink, &f->error), ORR_IO);
    expect_error(f, ORR_IO, "another process uses the file");
    trace_write_commands(sink, 101, COMMANDS);
    shim.busy = false; /* too late for the records, in time for the count */
    orr_error_clear(&f->error);
    assert_int_equal(sink->close(sink, "ok", &f->error), ORR_IO);
    assert_int_equal(check_left_over(f), 50);
    assert_int_equal(trace_query_int(f->path, "SELECT value FROM meta WHERE key = 'dropped'"),
                     COMMANDS - 50);
}

static void busy_at_the_start_leaves_nothing_behind(void **state) {
    struct trace_fixture *f = *state;
    bool opened;
    shim.busy = true;
    assert_int_equal(write_trace(f, ORR_SQLITE_INLINE, &opened), ORR_IO);
    assert_false(opened);
    assert_int_equal(check_left_over(f), -1);
}

static void a_reader_delays_the_writer_and_is_not_disturbed(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sqlite_options options = {.mode = ORR_SQLITE_INLINE, .busy_ms = 20};
    struct orr_sink *sink;
    assert_int_equal(orr_sqlite_sink_open(f->path, &options, &f->memory.table, &sink, &f->error),
                     ORR_OK);
    sink->names = f->names;
    trace_write_commands(sink, 1, 50);
    assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
    sqlite3 *reader;
    assert_int_equal(sqlite3_open_v2(f->path, &reader, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM cmd", NULL, NULL, NULL),
                     SQLITE_OK);
    trace_write_commands(sink, 51, 60);
    assert_int_equal(sink->flush(sink, &f->error), ORR_IO); /* the reader never ends */
    sqlite3_close(reader);
    orr_error_clear(&f->error);
    assert_int_equal(sink->close(sink, "ok", &f->error), ORR_IO);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), 50);
    assert_int_equal(trace_query_int(f->path, "SELECT value FROM meta WHERE key = 'dropped'"), 10);
}

/* Root may write into any folder, so it steps back for a moment. */
static void read_only_folder_is_reported_with_its_path(void **state) {
    struct trace_fixture *f = *state;
    enum { NOBODY = 65534 };
    bool opened, root = geteuid() == 0;
    chmod(f->folder, 0555);
    assert_true(!root || seteuid(NOBODY) == 0);
    enum orr_status status = write_trace(f, ORR_SQLITE_INLINE, &opened);
    assert_true(!root || seteuid(0) == 0);
    chmod(f->folder, 0700);
    assert_int_equal(status, ORR_IO);
    assert_false(opened);
    expect_error(f, ORR_IO, "cannot create");
    assert_int_equal(check_left_over(f), -1);
}

/* Root may write everywhere but into what isn't a real file system. */
static void folder_without_files_is_reported_with_its_path(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink;
    snprintf(f->path, sizeof f->path, "/proc/self/run.db");
    assert_int_equal(orr_sqlite_sink_open(f->path, NULL, &f->memory.table, &sink, &f->error),
                     ORR_IO);
    expect_error(f, ORR_IO, "cannot create");
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void sink_survives_every_failing_allocation(void **state) {
    struct trace_fixture *f = *state;
    for (int mode = ORR_SQLITE_INLINE; mode <= ORR_SQLITE_DROP; mode++) {
        bool opened = false;
        for (size_t fail_at = 1; !opened; fail_at++) {
            assert_true(fail_at < 1000);
            size_t live = f->memory.live;
            f->memory.requests = 0;
            f->memory.fail_at = fail_at;
            enum orr_status status = write_trace(f, (enum orr_sqlite_mode)mode, &opened);
            f->memory.fail_at = 0;
            assert_int_equal(f->memory.live, live);
            assert_true(opened || status == ORR_NO_MEMORY);
            assert_true(opened || check_left_over(f) == -1);
        }
        unlink(f->path);
    }
}

static void reader_survives_every_failing_allocation(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink;
    assert_int_equal(orr_sqlite_sink_open(f->path, NULL, &f->memory.table, &sink, &f->error),
                     ORR_OK);
    sink->names = f->names;
    trace_write_random(sink, f->names, trace_seed(), 300);
    assert_int_equal(sink->close(sink, "ok", &f->error), ORR_OK);
    enum orr_status status = ORR_NO_MEMORY;
    size_t fail_at = 1;
    for (; status != ORR_OK; fail_at++) {
        struct orr_timeline *timeline;
        size_t live = f->memory.live;
        f->memory.requests = 0;
        f->memory.fail_at = fail_at;
        orr_error_clear(&f->error);
        status = orr_timeline_read(f->path, &f->memory.table, &timeline, &f->error);
        f->memory.fail_at = 0;
        if (status != ORR_OK) {
            assert_int_equal(status, ORR_NO_MEMORY);
            expect_error(f, ORR_NO_MEMORY, "no memory");
        }
        orr_timeline_destroy(&timeline);
        assert_int_equal(f->memory.live, live);
    }
    assert_true(fail_at > 15); /* it does allocate */
}

static void memory_sinks_survive_every_failing_allocation(void **state) {
    struct trace_fixture *f = *state;
    for (size_t fail_at = 1; fail_at <= 8; fail_at++) {
        size_t live = f->memory.live;
        struct orr_record_memory *store;
        f->memory.requests = 0;
        f->memory.fail_at = fail_at;
        enum orr_status status = orr_record_memory_create(&f->memory.table, &store);
        if (status == ORR_OK) {
            struct orr_sink *sink = orr_record_memory_sink(store);
            trace_write_commands(sink, 1, 30000);
            size_t kept = orr_record_memory_count(store, (enum orr_record_kind)0);
            assert_int_equal(kept + orr_record_memory_dropped(store), 30000);
            orr_error_clear(&f->error);
            assert_int_equal(sink->close(sink, "ok", &f->error), ORR_NO_MEMORY);
            struct orr_record_cursor cursor = {0};
            for (uint64_t id = 1; id <= kept; id++)
                assert_int_equal(((const struct orr_record_command *)(const void *)
                                      orr_record_memory_next(store, &cursor))
                                     ->id,
                                 id);
        } else {
            assert_int_equal(fail_at, 1);
        }
        f->memory.fail_at = 0;
        orr_record_memory_destroy(&store);
        assert_int_equal(f->memory.live, live);
    }
    struct orr_sink *sink;
    f->memory.fail_at = 1;
    assert_int_equal(orr_null_sink_create(&f->memory.table, &sink), ORR_NO_MEMORY);
    f->memory.fail_at = 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(nothing_fails_without_a_failure),
        CASE(full_disk_ends_the_trace_and_keeps_what_was_committed),
        CASE(failed_and_short_writes_end_the_trace),
        CASE(a_journal_that_cannot_be_emptied_is_a_failure),
        CASE(a_real_limit_on_file_size_is_reported),
        CASE(a_lock_that_is_never_granted_ends_the_trace),
        CASE(busy_at_the_start_leaves_nothing_behind),
        CASE(a_reader_delays_the_writer_and_is_not_disturbed),
        CASE(read_only_folder_is_reported_with_its_path),
        CASE(folder_without_files_is_reported_with_its_path),
        CASE(sink_survives_every_failing_allocation),
        CASE(reader_survives_every_failing_allocation),
        CASE(memory_sinks_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("sinkfail", tests, shim_register, shim_unregister);
}
