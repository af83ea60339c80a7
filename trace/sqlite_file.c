#include "trace/sqlite_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/schema.sql.h"
#include "trace/sqlite_sink.h"

enum { SUFFIX_MAX = 16 };

uint32_t orr__sqlite_load(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

enum orr_status orr__sqlite_error(struct orr_error *error, sqlite3 *db, int code, const char *path,
                                  const char *doing) {
    if ((code & 255) == SQLITE_NOMEM)
        return orr_error_set(error, ORR_NO_MEMORY, "%s: %s: out of host memory", path, doing);
    const char *reason = sqlite3_errstr(code);
    if ((code & 255) == SQLITE_CONSTRAINT && db) /* a runtime that uses an id twice */
        reason = sqlite3_errmsg(db);
    if ((code & 255) == SQLITE_BUSY)
        reason = "another process uses the file";
    int number = db ? sqlite3_system_errno(db) : 0;
    if (number != 0 && (code & 255) != SQLITE_BUSY)
        return orr_error_set(error, ORR_IO, "%s: %s: %s (%s)", path, doing, reason,
                             strerror(number));
    return orr_error_set(error, ORR_IO, "%s: %s: %s", path, doing, reason);
}

int orr__sqlite_read_header(sqlite3 *db, unsigned char *header) {
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code != SQLITE_OK || !file || !file->pMethods)
        return code != SQLITE_OK ? code : SQLITE_CANTOPEN;
    code = file->pMethods->xRead(file, header, ORR__SQLITE_HEADER_BYTES, 0);
    return code == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : code;
}

/* May the file be replaced: is it ours, and does nobody use it? A damaged trace may. */
static enum orr_status check_old(const char *path, const char *vfs, struct orr_error *error) {
    unsigned char header[ORR__SQLITE_HEADER_BYTES] = {0};
    sqlite3 *db = NULL;
    enum orr_status status = ORR_OK;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(path, &db, flags, vfs);
    if (code == SQLITE_OK)
        code = orr__sqlite_read_header(db, header);
    if (code != SQLITE_OK)
        status = orr__sqlite_error(error, db, code, path, "cannot replace it");
    else if (memcmp(header, "SQLite format 3", 16) != 0 ||
             orr__sqlite_load(header + ORR__SQLITE_APPLICATION_ID_AT) != ORR_TRACE_APPLICATION_ID)
        status = orr_error_set(error, ORR_INVALID,
                               "%s: exists and was not written by Orrery, which replaces only its "
                               "own traces",
                               path);
    else if ((sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) & 255) == SQLITE_BUSY)
        status = orr_error_set(error, ORR_IO,
                               "%s: cannot replace it: another process uses the file", path);
    sqlite3_close(db);
    return status;
}

/* Path of the trace and of the files that SQLite keeps beside it. */
struct paths {
    char path[PATH_MAX], journal[PATH_MAX + SUFFIX_MAX], wal[PATH_MAX + SUFFIX_MAX],
        shm[PATH_MAX + SUFFIX_MAX];
};

/* A symbolic link stays, what it points to is the trace. realpath fails for a file that is not
 * there yet. ":memory:" and the like are file names here, not what SQLite takes them for. */
static enum orr_status find_paths(const char *path, struct paths *paths, struct orr_error *error) {
    if (path[0] == '\0')
        return orr_error_set(error, ORR_INVALID, "the path of the trace is empty");
    if (!realpath(path, paths->path)) {
        int length =
            snprintf(paths->path, sizeof paths->path, "%s%s", path[0] == ':' ? "./" : "", path);
        if (length < 0 || (size_t)length >= sizeof paths->path)
            return orr_error_set(error, ORR_IO, "%s: cannot create it: the path is too long", path);
    }
    snprintf(paths->journal, sizeof paths->journal, "%s-journal", paths->path);
    snprintf(paths->wal, sizeof paths->wal, "%s-wal", paths->path);
    snprintf(paths->shm, sizeof paths->shm, "%s-shm", paths->path);
    return ORR_OK;
}

static int remove_trace(const struct paths *paths) {
    if (unlink(paths->path) != 0)
        return errno;
    unlink(paths->journal);
    unlink(paths->wal);
    unlink(paths->shm);
    return 0;
}

/* May there be a new trace at the path? *there: something is to be replaced. */
static enum orr_status may_replace(const struct paths *paths, const char *vfs, bool *there,
                                   struct orr_error *error) {
    const char *path = paths->path;
    struct stat info;
    *there = stat(path, &info) == 0;
    if (!*there) {
        if (errno == ENOENT)
            return ORR_OK;
        return orr_error_set(error, ORR_IO, "%s: cannot create it: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode))
        return orr_error_set(error, ORR_IO, "%s: cannot create it: %s", path,
                             S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a file");
    if (access(path, W_OK) != 0)
        return orr_error_set(error, ORR_IO, "%s: cannot replace it: %s", path, strerror(errno));
    return info.st_size > 0 ? check_old(path, vfs, error) : ORR_OK;
}

/* Makes way for a new trace. */
static enum orr_status make_way(const struct paths *paths, const char *vfs,
                                struct orr_error *error) {
    const char *path = paths->path;
    bool there = false;
    enum orr_status status = may_replace(paths, vfs, &there, error);
    if (status != ORR_OK || !there)
        return status;
    int number = remove_trace(paths);
    if (number != 0)
        return orr_error_set(error, ORR_IO, "%s: cannot replace it: %s", path, strerror(number));
    return ORR_OK;
}

/* TRUNCATE keeps the journal's file between transactions, empty, which is cheaper than making one
 * each time; an empty journal is none. Pages of 8 KiB: 7 % faster than 4 KiB, no slower than 16. */
static const char settings[] = "PRAGMA page_size = 8192;"
                               "PRAGMA journal_mode = TRUNCATE;"
                               "PRAGMA synchronous = OFF;"
                               "PRAGMA cache_size = -16384;"
                               "PRAGMA temp_store = MEMORY;";

static int create_schema(sqlite3 *db) {
    int code = sqlite3_exec(db, settings, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, orr_embed_trace_schema_sql, NULL, NULL, NULL);
    char sql[160];
    snprintf(sql, sizeof sql,
             "INSERT INTO meta VALUES ('schema_version', '%d'), ('status', 'running'), "
             "('dropped', '0'); COMMIT",
             (int)ORR_TRACE_SCHEMA_VERSION);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code;
}

enum orr_status orr__sqlite_create(const char *path, const char *vfs, int busy_ms, sqlite3 **out_db,
                                   struct orr_error *error) {
    *out_db = NULL;
    struct paths paths;
    enum orr_status status = find_paths(path, &paths, error);
    if (status == ORR_OK)
        status = make_way(&paths, vfs, error);
    if (status != ORR_OK)
        return status;
    sqlite3 *db = NULL;
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(paths.path, &db, flags, vfs);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(db, busy_ms);
    if (code == SQLITE_OK)
        code = create_schema(db);
    if (code == SQLITE_OK) {
        *out_db = db;
        return ORR_OK;
    }
    status = orr__sqlite_error(error, db, code, path, "cannot create the trace");
    sqlite3_close(db);
    remove_trace(&paths);
    return status;
}

enum orr_status orr__sqlite_may_replace(const char *path, struct orr_error *error) {
    struct paths paths;
    bool there = false;
    enum orr_status status = find_paths(path, &paths, error);
    return status == ORR_OK ? may_replace(&paths, NULL, &there, error) : status;
}

enum orr_status orr__sqlite_put_in_place(const char *part, const char *path,
                                         struct orr_error *error) {
    struct paths paths;
    enum orr_status status = find_paths(path, &paths, error);
    if (status != ORR_OK)
        return status;
    /* The old trace's first: SQLite would apply a journal that is there to the new one. */
    unlink(paths.journal);
    unlink(paths.wal);
    unlink(paths.shm);
    if (rename(part, paths.path) != 0)
        return orr_error_set(error, ORR_IO, "%s: cannot put the trace in place: %s", path,
                             strerror(errno));
    return ORR_OK;
}

enum orr_status orr__sqlite_part(const char *path, char *part, size_t size,
                                 struct orr_error *error) {
    struct paths paths;
    enum orr_status status = find_paths(path, &paths, error);
    if (status != ORR_OK)
        return status;
    int length = snprintf(part, size, "%s.part", paths.path);
    if (length < 0 || (size_t)length >= size)
        return orr_error_set(error, ORR_IO, "%s: cannot create it: the path is too long", path);
    return ORR_OK;
}

void orr__sqlite_remove(const char *path) {
    struct paths paths;
    if (find_paths(path, &paths, NULL) == ORR_OK)
        remove_trace(&paths);
}
