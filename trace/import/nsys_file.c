#include "trace/import/nsys_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/sqlite_file.h"

enum {
    TEXT_BYTES_MAX = 1 << 28,
    SQL_BYTES = 2048,
    NAME_BYTES = 64,
    /* Of the header of an SQLite file, in bytes (sqlite.org/fileformat2.html, 1.3). */
    PAGE_SIZE_AT = 16,
    WRITE_VERSION_AT = 18,
    CHANGE_COUNTER_AT = 24,
    PAGE_COUNT_AT = 28,
    VERSION_VALID_FOR_AT = 92
};

/* -- Opening ----------------------------------------------------------------------------------- */

static enum orr_status fail_open(struct orr__nsys_file *file, int code) {
    switch (code & 255) {
    case SQLITE_NOMEM:
        return orr_error_set(file->error, ORR_NO_MEMORY, "%s: no memory to read it", file->path);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return orr_error_set(file->error, ORR_IO, "%s: cannot read it: %s", file->path,
                             sqlite3_errstr(code));
    case SQLITE_NOTADB:
        return orr_error_set(file->error, ORR_INVALID,
                             "%s: not an SQLite database, expected an export of Nsight Systems",
                             file->path);
    default: break;
    }
    return orr_error_set(file->error, ORR_INVALID, "%s: damaged database: %s", file->path,
                         file->db ? sqlite3_errmsg(file->db) : sqlite3_errstr(code));
}

/* True if PATHsuffix has a header that begins so, and more behind it: changes of the file that are
 * not in it, or of which half is. A log of 32 bytes has no frame; a journal that was let go has
 * zeros for a header. */
static bool has_log(const char *path, const char *suffix, const unsigned char *magic, size_t size) {
    enum { HEADER_BYTES = 32 };
    unsigned char head[HEADER_BYTES + 1];
    char beside[PATH_MAX];
    int length = snprintf(beside, sizeof beside, "%s%s", path, suffix);
    if (length < 0 || (size_t)length >= sizeof beside)
        return false;
    int descriptor = open(beside, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    bool more = pread(descriptor, head, sizeof head, 0) == sizeof head;
    close(descriptor);
    return more && memcmp(head, magic, size) == 0;
}

/* The first bytes of a write-ahead log (without its byte order) and of a rollback journal, in
 * SQLite's file format. */
static bool has_changes_beside(const char *path) {
    static const unsigned char wal[] = {0x37, 0x7f, 0x06};
    static const unsigned char journal[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    return has_log(path, "-wal", wal, sizeof wal) ||
           has_log(path, "-journal", journal, sizeof journal);
}

static enum orr_status check_file(struct orr__nsys_file *file, int *out_descriptor) {
    struct stat info;
    *out_descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*out_descriptor < 0 && errno == ENOENT)
        return orr_error_set(file->error, ORR_INVALID, "%s: no such file", file->path);
    if (*out_descriptor < 0 || fstat(*out_descriptor, &info) != 0)
        return orr_error_set(file->error, ORR_IO, "%s: cannot open it: %s", file->path,
                             strerror(errno));
    if (!S_ISREG(info.st_mode))
        return orr_error_set(file->error, ORR_INVALID, "%s: %s, expected a trace", file->path,
                             S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    if (info.st_size == 0)
        return orr_error_set(file->error, ORR_INVALID, "%s: empty file, expected a trace",
                             file->path);
    file->bytes = (uint64_t)info.st_size;
    return ORR_OK;
}

/* Bytes that the header speaks of; 0 if it does not. */
static uint64_t expected_bytes(const unsigned char *header, uint64_t *out_page_bytes) {
    uint64_t page_bytes = (uint64_t)header[PAGE_SIZE_AT] << 8 | header[PAGE_SIZE_AT + 1];
    *out_page_bytes = page_bytes == 1 ? 65536 : page_bytes;
    if (memcmp(header + CHANGE_COUNTER_AT, header + VERSION_VALID_FOR_AT, 4) != 0)
        return 0;
    return *out_page_bytes * orr__sqlite_load(header + PAGE_COUNT_AT);
}

/* Escapes what means something in a URI. */
static bool make_uri(const char *path, char *uri, size_t size) {
    static const char digits[] = "0123456789abcdef";
    size_t length = (size_t)snprintf(uri, size, "file:%s", path[0] == '/' ? "//" : "./");
    for (; *path; path++) {
        if (length + 16 > size)
            return false;
        if (strchr("%?#", *path)) {
            uri[length++] = '%';
            uri[length++] = digits[(unsigned char)*path >> 4];
            uri[length++] = digits[*path & 15];
        } else {
            uri[length++] = *path;
        }
    }
    if (length + 16 > size)
        return false;
    memcpy(uri + length, "?immutable=1", sizeof "?immutable=1");
    return true;
}

static enum orr_status open_whole(struct orr__nsys_file *file) {
    char uri[3 * PATH_MAX];
    if (!make_uri(file->path, uri, sizeof uri))
        return orr_error_set(file->error, ORR_INVALID, "%s: the path is too long", file->path);
    int code = sqlite3_open_v2(
        uri, &file->db,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    return code == SQLITE_OK ? ORR_OK : fail_open(file, code);
}

/* SQLite refuses a file that is shorter than its header says, and fills a page that is cut with
 * zeros, which would be read as numbers. So a cut file is mapped privately, its header made to
 * speak of the whole pages that are there, and what lies beyond them is met as damage. */
static enum orr_status open_cut(struct orr__nsys_file *file, int descriptor, uint64_t page_bytes) {
    uint64_t pages = page_bytes < 512 ? 0 : file->bytes / page_bytes;
    if (pages == 0)
        return orr_error_set(
            file->error, ORR_INVALID, "%s: truncated: %llu bytes, its header says %llu", file->path,
            (unsigned long long)file->bytes, (unsigned long long)file->bytes_expected);
    file->mapping_bytes = (size_t)(pages * page_bytes);
    void *mapping =
        mmap(NULL, file->mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED)
        return orr_error_set(file->error, ORR_IO, "%s: cannot map it: %s", file->path,
                             strerror(errno));
    file->mapping = mapping;
    unsigned char *header = mapping;
    for (unsigned i = 0; i < 4; i++)
        header[PAGE_COUNT_AT + i] = (unsigned char)(pages >> (24 - 8 * i));
    header[WRITE_VERSION_AT] = header[WRITE_VERSION_AT + 1] = 1; /* no log in memory */
    int code = sqlite3_open_v2(":memory:", &file->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_EXRESCODE,
                               NULL);
    if (code == SQLITE_OK)
        code = sqlite3_deserialize(file->db, "main", mapping, (sqlite3_int64)file->mapping_bytes,
                                   (sqlite3_int64)file->mapping_bytes, SQLITE_DESERIALIZE_READONLY);
    return code == SQLITE_OK ? ORR_OK : fail_open(file, code);
}

/* The file's own SQL stays unused, and no value may claim to be longer than the file. */
static void defend(struct orr__nsys_file *file) {
    int longest = file->bytes < TEXT_BYTES_MAX ? (int)file->bytes : TEXT_BYTES_MAX;
    sqlite3_limit(file->db, SQLITE_LIMIT_LENGTH, longest < SQL_BYTES ? SQL_BYTES : longest);
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
}

static int read_schema(sqlite3 *db) {
    return sqlite3_exec(db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
}

/* A damaged schema is read as far as it goes; nothing can be written, whatever the pragma's
 * name. */
static enum orr_status check_schema(struct orr__nsys_file *file) {
    int code = read_schema(file->db);
    if (code == SQLITE_OK)
        return ORR_OK;
    if (code != SQLITE_CORRUPT && (code & 255) != SQLITE_CORRUPT && code != SQLITE_ERROR)
        return fail_open(file, code);
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    sqlite3_exec(file->db, "PRAGMA writable_schema = ON", NULL, NULL, NULL);
    file->schema_damaged = true;
    int again = sqlite3_exec(file->db, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
    return again == SQLITE_OK ? ORR_OK : fail_open(file, code);
}

enum orr_status orr__nsys_file_open(const char *path, struct orr_error *error,
                                    struct orr__nsys_file *out_file) {
    *out_file = (struct orr__nsys_file){.path = path, .error = error};
    unsigned char header[ORR__SQLITE_HEADER_BYTES] = {0};
    uint64_t page_bytes = 0;
    int descriptor;
    enum orr_status status = check_file(out_file, &descriptor);
    if (status == ORR_OK && (pread(descriptor, header, sizeof header, 0) != sizeof header ||
                             memcmp(header, "SQLite format 3", 16) != 0))
        status = fail_open(out_file, SQLITE_NOTADB);
    if (status == ORR_OK) {
        out_file->bytes_expected = expected_bytes(header, &page_bytes);
        bool whole = out_file->bytes_expected <= out_file->bytes;
        status = whole ? open_whole(out_file) : open_cut(out_file, descriptor, page_bytes);
    }
    if (status == ORR_OK) {
        out_file->has_log = has_changes_beside(path);
        defend(out_file);
        status = check_schema(out_file);
    }
    if (descriptor >= 0)
        close(descriptor);
    if (status != ORR_OK)
        orr__nsys_file_close(out_file);
    return status;
}

void orr__nsys_file_close(struct orr__nsys_file *file) {
    sqlite3_close(file->db);
    if (file->mapping)
        munmap(file->mapping, file->mapping_bytes);
    *file = (struct orr__nsys_file){0};
}

/* -- Tables ------------------------------------------------------------------------------------ */

static bool ask(const struct orr__nsys_file *file, const char *sql, const char *a, const char *b) {
    sqlite3_stmt *statement = NULL;
    bool yes = false;
    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, a, -1, SQLITE_STATIC);
        if (b)
            sqlite3_bind_text(statement, 2, b, -1, SQLITE_STATIC);
        yes = sqlite3_step(statement) == SQLITE_ROW;
    }
    sqlite3_finalize(statement);
    return yes;
}

bool orr__nsys_has_table(const struct orr__nsys_file *file, const char *table) {
    return ask(file,
               "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name = ?1 "
               "COLLATE NOCASE",
               table, NULL);
}

bool orr__nsys_has_column(const struct orr__nsys_file *file, const char *table,
                          const char *column) {
    return ask(file, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 COLLATE NOCASE", table,
               column);
}

/* Appends the first of the alternatives that exists, quoted, or NULL. */
static size_t append_column(const struct orr__nsys_file *file, const char *table,
                            const char *alternatives, char *sql, size_t length) {
    for (const char *at = alternatives; *at;) {
        char name[NAME_BYTES];
        size_t name_length = strcspn(at, "|");
        snprintf(name, sizeof name, "%.*s", (int)name_length, at);
        if (strcmp(name, "rowid") == 0 || orr__nsys_has_column(file, table, name))
            return length + (size_t)snprintf(sql + length, SQL_BYTES - length, "\"%s\"", name);
        at += name_length + (at[name_length] == '|');
    }
    return length + (size_t)snprintf(sql + length, SQL_BYTES - length, "NULL");
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

/* Damage, or a failure of the machine? */
static enum orr_status judge(struct orr__nsys_scan *scan, int code) {
    struct orr__nsys_file *file = scan->file;
    int primary = code & 255;
    if (primary == SQLITE_NOMEM && !is_damaged(file->db))
        return orr_error_set(file->error, ORR_NO_MEMORY, "%s: no memory to read it", file->path);
    if (primary == SQLITE_IOERR && code != SQLITE_IOERR_SHORT_READ)
        return orr_error_set(file->error, ORR_IO, "%s: cannot read it: %s", file->path,
                             sqlite3_errstr(code));
    scan->damaged = true;
    return ORR_OK;
}

enum orr_status orr__nsys_scan_open(struct orr__nsys_file *file, const char *table,
                                    const char *const *columns, unsigned count,
                                    struct orr__nsys_scan *out_scan) {
    *out_scan = (struct orr__nsys_scan){.file = file, .table = table};
    if (!orr__nsys_has_table(file, table))
        return ORR_OK;
    char sql[SQL_BYTES];
    size_t length = (size_t)snprintf(sql, sizeof sql, "SELECT ");
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            sql[length++] = ',';
        length = append_column(file, table, columns[i], sql, length);
    }
    snprintf(sql + length, sizeof sql - length, " FROM \"%s\"", table);
    int code = sqlite3_prepare_v2(file->db, sql, -1, &out_scan->statement, NULL);
    return code == SQLITE_OK ? ORR_OK : judge(out_scan, code);
}

bool orr__nsys_scan_next(struct orr__nsys_scan *scan, enum orr_status *status) {
    if (*status != ORR_OK || !scan->statement || scan->damaged)
        return false;
    int code = sqlite3_step(scan->statement);
    if (code == SQLITE_ROW) {
        scan->rows++;
        return true;
    }
    if (code != SQLITE_DONE)
        *status = judge(scan, code);
    return false;
}

void orr__nsys_scan_close(struct orr__nsys_scan *scan) {
    sqlite3_finalize(scan->statement);
    scan->statement = NULL;
}

/* -- Values ------------------------------------------------------------------------------------ */

static bool from_real(double value, int64_t *out_value) {
    if (!(value >= -0x1p53 && value <= 0x1p53) || (double)(int64_t)value != value)
        return false;
    *out_value = (int64_t)value;
    return true;
}

static bool from_digits(const unsigned char *text, int64_t *out_value) {
    int64_t value = 0;
    bool negative = text && *text == '-';
    const unsigned char *at = text ? text + negative : NULL;
    if (!at || !*at)
        return false;
    for (; *at; at++)
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *at - '0', &value))
            return false;
    if (!negative && value == INT64_MIN)
        return false;
    *out_value = negative ? value : -value;
    return true;
}

bool orr__nsys_int(struct orr__nsys_scan *scan, int column, int64_t *out_value) {
    sqlite3_value *value = sqlite3_column_value(scan->statement, column);
    int type = sqlite3_value_type(value);
    if (type == SQLITE_INTEGER) {
        *out_value = sqlite3_value_int64(value);
        return true;
    }
    *out_value = 0;
    if (type == SQLITE_NULL)
        return false;
    if ((type == SQLITE_FLOAT && from_real(sqlite3_value_double(value), out_value)) ||
        (type == SQLITE_TEXT &&
         from_digits(sqlite3_column_text(scan->statement, column), out_value)))
        return true;
    scan->wrong++;
    return false;
}

const char *orr__nsys_text(struct orr__nsys_scan *scan, int column, size_t *out_length) {
    *out_length = 0;
    if (sqlite3_column_type(scan->statement, column) != SQLITE_TEXT)
        return NULL;
    const char *text = (const char *)sqlite3_column_text(scan->statement, column);
    *out_length = text ? strlen(text) : 0; /* up to the first NUL */
    return text;
}
