/* From a database to arrays, one table after the other, in one read transaction.
 *
 * The file may be damaged, or made to look like one of ours: nothing that comes out of it is
 * trusted. Sizes of arrays follow the rows that are really there, and SQL of the file's schema is
 * not run. timeline_rows.c has the tables and their rows. */
#include "trace/timeline.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "trace/recovery_vfs.h"
#include "trace/sqlite_file.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline_rows.h"
#include "trace/timeline_sort.h"
#include "trace/timeline_source.h"

enum {
    SQLITE_HEADER_BYTES = ORR__SQLITE_HEADER_BYTES,
    BUSY_MS = 10000,
    TEXT_IDS_MAX = 1 << 24,
    TEXT_BYTES_MAX = 1 << 28,
    ROW_BYTES_MIN = 4 /* of a row in a file, to bound what is believed about their number */
};

/* -- Failures ---------------------------------------------------------------------------------- */

enum orr_status orr__fail_memory(struct orr__reader *reader) {
    return orr_error_set(reader->error, ORR_NO_MEMORY, "%s: no memory to read the trace",
                         reader->path);
}

/* SQLite 3.40 says "out of memory" when a damaged page points to page 2^31 - 1. */
static bool is_damaged(sqlite3 *db) {
    sqlite3_stmt *check = NULL;
    bool damaged = false;
    if (sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &check, NULL) == SQLITE_OK &&
        sqlite3_step(check) == SQLITE_ROW) {
        const char *result = (const char *)sqlite3_column_text(check, 0);
        damaged = result && strcmp(result, "ok") != 0;
    }
    sqlite3_finalize(check);
    return damaged;
}

/* A failure of SQLite while it reads. What the file says is wrong is ORR_INVALID; what the system
 * says is ORR_IO. */
static enum orr_status fail_sqlite(struct orr__reader *reader, int code) {
    const char *table = reader->table ? reader->table : "the schema";
    switch (code & 255) {
    case SQLITE_NOMEM:
        if (!is_damaged(reader->db))
            return orr__fail_memory(reader);
        return orr_error_set(reader->error, ORR_INVALID, "%s: damaged trace: %s", reader->path,
                             table);
    case SQLITE_BUSY:
        return orr_error_set(reader->error, ORR_IO, "%s: another process is writing to it",
                             reader->path);
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_SHORT_READ)
            break;
        return orr_error_set(reader->error, ORR_IO, "%s: cannot read it: %s", reader->path,
                             strerror(sqlite3_system_errno(reader->db)));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return orr_error_set(reader->error, ORR_IO, "%s: cannot open it: %s", reader->path,
                             sqlite3_errstr(code));
    default: break;
    }
    return orr_error_set(reader->error, ORR_INVALID, "%s: damaged trace: %s: %s", reader->path,
                         table, sqlite3_errmsg(reader->db));
}

enum orr_status orr__fail_value(struct orr__reader *reader, const char *column,
                                sqlite3_int64 value) {
    return orr_error_set(reader->error, ORR_INVALID,
                         "%s: damaged trace: %s, row %lld: %s is %lld, which means nothing",
                         reader->path, reader->table, (long long)reader->row, column,
                         (long long)value);
}

/* -- Tables ------------------------------------------------------------------------------------ */

/* Runs a query; the rows are then stepped through with next_row. */
static enum orr_status open_query(struct orr__reader *reader, const char *table, const char *sql) {
    reader->table = table;
    reader->row = 0;
    int code = sqlite3_prepare_v2(reader->db, sql, -1, &reader->statement, NULL);
    return code == SQLITE_OK ? ORR_OK : fail_sqlite(reader, code);
}

/* False at the end or after a failure, which *status then says. */
static bool next_row(struct orr__reader *reader, enum orr_status *status) {
    if (*status != ORR_OK)
        return false;
    int code = sqlite3_step(reader->statement);
    if (code == SQLITE_ROW) {
        reader->row = sqlite3_column_int64(reader->statement, 0);
        return true;
    }
    if (code != SQLITE_DONE)
        *status = fail_sqlite(reader, code);
    return false;
}

static void close_query(struct orr__reader *reader) {
    sqlite3_finalize(reader->statement);
    reader->statement = NULL;
}

/* Upper bound of a table's rows: its largest rowid, if that is believable in a file of this size.
 * Rowids are dense in our files, so that arrays are allocated once and at their size. */
static enum orr_status guess_rows(struct orr__reader *reader, const struct orr__table *table,
                                  size_t *out_rows) {
    char sql[96];
    *out_rows = 0;
    if (!table->has_rowid)
        return ORR_OK;
    snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table->name);
    enum orr_status status = open_query(reader, table->name, sql);
    if (next_row(reader, &status)) {
        uint64_t rows = (uint64_t)reader->row;
        *out_rows = rows <= reader->file_bytes / ROW_BYTES_MIN ? (size_t)rows : 0;
    }
    close_query(reader);
    return status;
}

static enum orr_status read_rows(struct orr__reader *reader, const struct orr__table *table,
                                 void **items, size_t *count, size_t *capacity) {
    enum orr_status status =
        open_query(reader, table->name, orr__timeline_sql(table, reader->version));
    while (next_row(reader, &status)) {
        if (*count == *capacity && orr_memory_grow(reader->memory, items, capacity, *count + 1,
                                                   table->size, SIZE_MAX / 1024) != ORR_OK) {
            status = orr__fail_memory(reader);
            break;
        }
        /* Zeroed one by one, in cache: a pass over the whole array would cost as much as all. */
        void *item = (unsigned char *)*items + *count * table->size;
        memset(item, 0, table->size);
        status = table->read(reader, item);
        *count += status == ORR_OK;
    }
    close_query(reader);
    return status;
}

static enum orr_status read_table(struct orr__reader *reader, const struct orr__table *table) {
    if (!orr__timeline_sql(table, reader->version))
        return ORR_OK;
    void *items = NULL;
    size_t count = 0, capacity = 0;
    size_t rows;
    enum orr_status status = guess_rows(reader, table, &rows);
    if (status != ORR_OK)
        return status;
    if (rows > 0) {
        items = orr_memory_resize(reader->memory, NULL, rows * table->size);
        if (!items)
            return orr__fail_memory(reader);
        capacity = rows;
    }
    status = read_rows(reader, table, &items, &count, &capacity);
    unsigned char *timeline = (unsigned char *)reader->timeline;
    memcpy(timeline + table->items, &items, sizeof items);
    memcpy(timeline + table->count, &count, sizeof count);
    return status;
}

static enum orr_status read_names(struct orr__reader *reader) {
    enum orr_status status = open_query(reader, "text", "SELECT id, text FROM text");
    while (next_row(reader, &status)) {
        if (reader->row <= 0 || reader->row >= TEXT_IDS_MAX) {
            status = orr__fail_value(reader, "id", reader->row);
            break;
        }
        size_t id = (size_t)reader->row;
        if (orr_memory_grow(reader->memory, &reader->names, &reader->name_capacity, id + 1,
                            sizeof *reader->names, TEXT_IDS_MAX) != ORR_OK)
            status = orr__fail_memory(reader);
        else if (!(reader->names[id] = orr__read_text(reader, 1)))
            status = orr__fail_memory(reader);
        else if (id >= reader->name_count)
            reader->name_count = id + 1;
    }
    close_query(reader);
    return status;
}

static enum orr_status read_peaks(struct orr__reader *reader) {
    enum orr_status status = open_query(reader, "device_peak",
                                        "SELECT device, unit, dtype, flops_per_s FROM device_peak");
    while (next_row(reader, &status))
        status = orr__read_peak(reader);
    close_query(reader);
    return status;
}

/* What rows of commands and syncs have more in imported traces. */
static enum orr_status read_import_rows(struct orr__reader *reader) {
    if (reader->version < ORR_TRACE_SCHEMA_IMPORTS)
        return ORR_OK;
    size_t at = 0;
    enum orr_status status =
        open_query(reader, "cmd_import_row",
                   "SELECT id, call, correlation, graph, grid FROM cmd_import_row ORDER BY id");
    while (next_row(reader, &status))
        status = orr__read_command_import(reader, &at);
    close_query(reader);
    if (status != ORR_OK)
        return status;
    at = 0;
    status = open_query(reader, "sync_import_row",
                        "SELECT id, target, call, stream, device FROM sync_import_row ORDER BY id");
    while (next_row(reader, &status))
        status = orr__read_sync_import(reader, &at);
    close_query(reader);
    return status;
}

static enum orr_status read_all(struct orr__reader *reader) {
    enum orr_status status = read_names(reader);
    for (size_t i = 0; i < ORR__TIMELINE_TABLES && status == ORR_OK; i++) {
        const struct orr__table *table = &orr__timeline_tables[i];
        bool left_out = (reader->parts & ORR_TIMELINE_ACCESSES) == 0 &&
                        table->items == offsetof(struct orr_timeline, accesses);
        status = left_out ? ORR_OK : read_table(reader, table);
        if (status == ORR_OK && i == 0) { /* meta */
            orr__source_from_meta(reader->timeline);
            const char *clock = orr_timeline_meta(reader->timeline, "clock");
            reader->clock = clock ? clock : "";
        }
    }
    if (status == ORR_OK)
        status = read_peaks(reader);
    if (status == ORR_OK)
        status = read_import_rows(reader);
    if (status != ORR_OK)
        return status;
    status = orr__timeline_sort(reader->timeline, reader->memory);
    return status == ORR_OK ? ORR_OK : orr__fail_memory(reader);
}

/* -- The file ---------------------------------------------------------------------------------- */

static void print_bytes(char *text, size_t size, const unsigned char *bytes, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count && size - length > 4; i++)
        length += (size_t)snprintf(text + length, size - length, i ? " %02x" : "%02x", bytes[i]);
}

static enum orr_status check_header(struct orr__reader *reader, const unsigned char *header,
                                    size_t length) {
    struct orr_error *error = reader->error;
    const char *path = reader->path;
    if (length == 0)
        return orr_error_set(error, ORR_INVALID, "%s: empty file, expected a trace (SQLite)", path);
    char text[64] = "";
    print_bytes(text, sizeof text, header, length < 16 ? length : 16);
    if (memcmp(header, "SQLite format 3", length < 16 ? length : 16) != 0)
        return orr_error_set(error, ORR_INVALID,
                             "%s: not an SQLite database: first bytes %s, expected a trace", path,
                             text);
    if (length < SQLITE_HEADER_BYTES)
        return orr_error_set(error, ORR_INVALID,
                             "%s: truncated: %zu bytes, an SQLite header has %d", path, length,
                             SQLITE_HEADER_BYTES);
    uint32_t application = orr__sqlite_load(header + ORR__SQLITE_APPLICATION_ID_AT);
    if (application != ORR_TRACE_APPLICATION_ID)
        return orr_error_set(error, ORR_INVALID,
                             "%s: an SQLite database, but not a trace of Orrery (application id "
                             "%u, expected %u)",
                             path, application, (unsigned)ORR_TRACE_APPLICATION_ID);
    uint32_t version = orr__sqlite_load(header + ORR__SQLITE_USER_VERSION_AT);
    if (version < ORR_TRACE_SCHEMA_OLDEST || version > ORR_TRACE_SCHEMA_VERSION)
        return orr_error_set(error, ORR_INVALID,
                             "%s: schema version %u, this program reads %d to %d%s", path, version,
                             (int)ORR_TRACE_SCHEMA_OLDEST, (int)ORR_TRACE_SCHEMA_VERSION,
                             version > ORR_TRACE_SCHEMA_VERSION ? ": a newer Orrery wrote it" : "");
    reader->version = version;
    return ORR_OK;
}

static enum orr_status check_file(struct orr__reader *reader) {
    struct stat info;
    if (stat(reader->path, &info) != 0 && errno == ENOENT)
        return orr_error_set(reader->error, ORR_INVALID, "%s: no such file", reader->path);
    if (stat(reader->path, &info) != 0)
        return orr_error_set(reader->error, ORR_IO, "%s: cannot open it: %s", reader->path,
                             strerror(errno));
    if (!S_ISREG(info.st_mode))
        return orr_error_set(reader->error, ORR_INVALID, "%s: %s, expected a trace", reader->path,
                             S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    reader->file_bytes = (uint64_t)info.st_size;
    return ORR_OK;
}

/* The file's own SQL stays unused: no views, triggers or functions from its schema. A value that
 * claims to be longer than the file is damage, and nothing to look for memory for. */
static int defend(const struct orr__reader *reader) {
    sqlite3 *db = reader->db;
    int longest = reader->file_bytes < TEXT_BYTES_MAX ? (int)reader->file_bytes : TEXT_BYTES_MAX;
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, longest);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_busy_timeout(db, BUSY_MS);
    return sqlite3_exec(db, "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON", NULL, NULL,
                        NULL);
}

static enum orr_status open_database(struct orr__reader *reader, int flags, const char *vfs) {
    char path[PATH_MAX];
    int length =
        snprintf(path, sizeof path, "%s%s", reader->path[0] == ':' ? "./" : "", reader->path);
    if (length < 0 || (size_t)length >= sizeof path)
        return orr_error_set(reader->error, ORR_INVALID, "%s: the path is too long", reader->path);
    flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(path, &reader->db, flags, vfs);
    unsigned char header[SQLITE_HEADER_BYTES] = {0};
    if (code == SQLITE_OK)
        code = orr__sqlite_read_header(reader->db, header);
    if (code != SQLITE_OK)
        return fail_sqlite(reader, code);
    uint64_t bytes = reader->file_bytes;
    return check_header(reader, header, bytes < sizeof header ? (size_t)bytes : sizeof header);
}

/* Bytes that the header speaks of against those that are there. SQLite notices only whole pages
 * that are missing at the end. */
static enum orr_status check_size(struct orr__reader *reader) {
    unsigned char header[SQLITE_HEADER_BYTES] = {0};
    sqlite3_int64 size = 0;
    sqlite3_file *file = NULL;
    int code = orr__sqlite_read_header(reader->db, header);
    if (code == SQLITE_OK)
        code = sqlite3_file_control(reader->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK)
        code = file->pMethods->xFileSize(file, &size);
    if (code != SQLITE_OK)
        return fail_sqlite(reader, code);
    uint64_t page_bytes = (uint64_t)header[16] << 8 | header[17];
    uint64_t bytes = (page_bytes == 1 ? 65536 : page_bytes) * orr__sqlite_load(header + 28);
    if ((uint64_t)size >= bytes)
        return ORR_OK;
    return orr_error_set(reader->error, ORR_INVALID,
                         "%s: truncated: %lld bytes, the header says %llu", reader->path,
                         (long long)size, (unsigned long long)bytes);
}

/* Begins to read. *killed: the file has to be recovered first. */
static enum orr_status begin(struct orr__reader *reader, bool *killed) {
    int code = defend(reader);
    if (code == SQLITE_OK)
        code = sqlite3_exec(reader->db, "BEGIN; SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
    *killed = code == SQLITE_READONLY_ROLLBACK;
    if (code == SQLITE_OK || code == SQLITE_CORRUPT) {
        enum orr_status status = check_size(reader);
        if (status != ORR_OK)
            return status;
    }
    return code == SQLITE_OK || *killed ? ORR_OK : fail_sqlite(reader, code);
}

/* A killed run's: the journal has to be applied, which is done in memory. */
static enum orr_status read_killed(struct orr__reader *reader) {
    struct orr__recovery_vfs vfs;
    sqlite3_close(reader->db);
    reader->db = NULL;
    int code = orr__recovery_vfs_register(&vfs);
    if (code != SQLITE_OK)
        return fail_sqlite(reader, code);
    bool killed = false;
    enum orr_status status = open_database(reader, SQLITE_OPEN_READWRITE, vfs.name);
    if (status == ORR_OK)
        status = begin(reader, &killed);
    if (status == ORR_OK)
        status = read_all(reader);
    sqlite3_close(reader->db);
    reader->db = NULL;
    orr__recovery_vfs_unregister(&vfs);
    return status;
}

static enum orr_status read_database(struct orr__reader *reader) {
    bool killed = false;
    enum orr_status status = open_database(reader, SQLITE_OPEN_READONLY, NULL);
    if (status == ORR_OK)
        status = begin(reader, &killed);
    if (status != ORR_OK)
        return status;
    return killed ? read_killed(reader) : read_all(reader);
}

enum orr_status orr_timeline_read(const char *path, const struct orr_memory *memory,
                                  struct orr_timeline **out_timeline, struct orr_error *error) {
    return orr_timeline_read_parts(path, ORR_TIMELINE_ALL, memory, out_timeline, error);
}

enum orr_status orr_timeline_read_parts(const char *path, unsigned parts,
                                        const struct orr_memory *memory,
                                        struct orr_timeline **out_timeline,
                                        struct orr_error *error) {
    *out_timeline = NULL;
    struct orr_error ignored = {0};
    struct orr__reader reader = {.path = path,
                                 .parts = parts,
                                 .memory = memory,
                                 .error = error ? error : &ignored,
                                 .clock = ""};
    enum orr_status status = check_file(&reader);
    if (status == ORR_OK)
        status = orr_timeline_create(memory, &reader.timeline);
    if (status == ORR_NO_MEMORY)
        orr__fail_memory(&reader);
    if (status == ORR_OK)
        status = read_database(&reader);
    sqlite3_close(reader.db);
    orr_memory_free(memory, reader.names);
    if (reader.timeline)
        reader.timeline->texts = reader.texts;
    if (status == ORR_OK)
        *out_timeline = reader.timeline;
    else
        orr_timeline_destroy(&reader.timeline);
    return status;
}
