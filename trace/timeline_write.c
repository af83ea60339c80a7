#include "trace/timeline_write.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "trace/sqlite_file.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline_source.h"
#include "trace/timeline_table.h"

enum { PART_MAX = PATH_MAX + 8, BUSY_MS = 10000 };

static const char doing[] = "cannot write the trace";

/* The file is not there until it is whole: it needs no journal. The index that tables keep while
 * they are written costs twice what it costs to make it at the end. */
static const char settings[] = "PRAGMA journal_mode = OFF;"
                               "PRAGMA cache_size = -65536;"
                               "DELETE FROM meta;"
                               "DROP INDEX sync_by_target;";
static const char indexes[] = "CREATE INDEX sync_by_target ON sync_row (kind, target, begin_ns);";

struct writing {
    struct orr__table_writer table;
    sqlite3 *db;
    struct orr_error *error;
    const char *path;
};

static enum orr_status fail(struct writing *writing, int code) {
    if (writing->table.no_memory)
        code = SQLITE_NOMEM;
    return orr__sqlite_error(writing->error, writing->db, code, writing->path, doing);
}

/* -- Rows that are written one by one ---------------------------------------------------------- */

static int put_meta(sqlite3_stmt *statement, const char *key, const char *value) {
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC);
    sqlite3_step(statement);
    return sqlite3_reset(statement);
}

static int write_meta(struct writing *writing) {
    const struct orr_timeline *timeline = writing->table.timeline;
    struct orr__source_row rows[ORR__SOURCE_ROWS_MAX];
    size_t count = orr__source_rows(timeline, rows);
    char version[16];
    snprintf(version, sizeof version, "%d", (int)ORR_TRACE_SCHEMA_VERSION);
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(writing->db, "INSERT OR IGNORE INTO meta VALUES (?, ?)", -1,
                                  &statement, NULL);
    if (code == SQLITE_OK)
        code = put_meta(statement, "schema_version", version);
    for (size_t i = 0; i < count && code == SQLITE_OK; i++)
        code = put_meta(statement, rows[i].key, rows[i].value);
    for (size_t i = 0; i < timeline->meta_count && code == SQLITE_OK; i++)
        if (!orr__source_key(timeline->meta[i].key))
            code = put_meta(statement, timeline->meta[i].key, timeline->meta[i].value);
    sqlite3_finalize(statement);
    return code;
}

static int put_peak(sqlite3_stmt *statement, const struct orr_timeline_device *device, int unit,
                    int dtype) {
    uint64_t peak = device->peak[unit][dtype];
    sqlite3_bind_int64(statement, 1, device->id);
    sqlite3_bind_text(statement, 2, unit == ORR_UNIT_MATRIX ? "matrix" : "vector", -1,
                      SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, orr_dtype_name((enum orr_dtype)dtype), -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, peak > INT64_MAX ? INT64_MAX : (sqlite3_int64)peak);
    sqlite3_step(statement);
    return sqlite3_reset(statement);
}

static int write_peaks(struct writing *writing) {
    const struct orr_timeline *timeline = writing->table.timeline;
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(writing->db, "INSERT INTO device_peak VALUES (?, ?, ?, ?)", -1,
                                  &statement, NULL);
    for (size_t i = 0; i < timeline->device_count; i++)
        for (int unit = 0; unit < 2; unit++)
            for (int dtype = 0; dtype < ORR_DTYPE_COUNT && code == SQLITE_OK; dtype++)
                if (timeline->devices[i].peak[unit][dtype] != 0)
                    code = put_peak(statement, &timeline->devices[i], unit, dtype);
    sqlite3_finalize(statement);
    return code;
}

/* -- The file ---------------------------------------------------------------------------------- */

static int write_rows(struct writing *writing) {
    int code = sqlite3_exec(writing->db, settings, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(writing->db, "BEGIN", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = write_meta(writing);
    if (code == SQLITE_OK)
        code = orr__table_insert_all(&writing->table, writing->db);
    if (code == SQLITE_OK)
        code = write_peaks(writing);
    if (code == SQLITE_OK)
        code = sqlite3_exec(writing->db, indexes, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(writing->db, "COMMIT", NULL, NULL, NULL);
    return code;
}

static enum orr_status write_part(struct writing *writing, const char *part) {
    enum orr_status status = orr__sqlite_create(part, NULL, BUSY_MS, &writing->db, writing->error);
    if (status != ORR_OK)
        return status;
    int code = write_rows(writing);
    if (code != SQLITE_OK)
        status = fail(writing, code);
    code = sqlite3_close(writing->db);
    writing->db = NULL;
    if (status == ORR_OK && code != SQLITE_OK)
        status = fail(writing, code);
    if (status == ORR_OK)
        status = orr__sqlite_put_in_place(part, writing->path, writing->error);
    if (status != ORR_OK)
        orr__sqlite_remove(part);
    return status;
}

enum orr_status orr_timeline_write(const struct orr_timeline *timeline, const char *path,
                                   const struct orr_memory *memory, struct orr_error *error) {
    const char *clock = orr_timeline_meta(timeline, "clock");
    struct writing writing = {{.timeline = timeline, .memory = memory, .clock = clock ? clock : ""},
                              .error = error,
                              .path = path};
    char part[PART_MAX];
    enum orr_status status = orr__sqlite_may_replace(path, error);
    if (status == ORR_OK)
        status = orr__sqlite_part(path, part, sizeof part, error);
    if (status != ORR_OK)
        return status;
    if (orr__text_ids_create(memory, &writing.table.ids) != ORR_OK)
        return fail(&writing, SQLITE_NOMEM);
    status = write_part(&writing, part);
    orr__text_ids_destroy(&writing.table.ids);
    return status;
}
