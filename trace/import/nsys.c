/* An export of Nsight Systems as a timeline: what is read in what order, and what is said about
 * what is missing. See nsys.h. */
#include "trace/import/nsys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace/import/formats.h"

enum { MESSAGE_MAX = 512, NAMES_SHOWN = 5 };

/* -- Saying ------------------------------------------------------------------------------------ */

enum orr_status orr__nsys_problem(struct orr__nsys *nsys, const char *kind, const char *severity,
                                  const char *format, ...) {
    char message[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (nsys->options->strict && strcmp(severity, "note") != 0)
        return orr_error_set(nsys->error, ORR_INVALID, "%s: %s", nsys->file.path, message);
    orr__builder_finding(nsys->builder, kind, severity, "", "%s", message);
    return ORR_OK;
}

enum orr_status orr__nsys_end(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                              enum orr_status status) {
    orr__nsys_scan_close(scan);
    nsys->rows += scan->rows;
    nsys->wrong += scan->wrong;
    if (status != ORR_OK || !scan->damaged)
        return status;
    return orr__nsys_problem(nsys, "import_damaged", "error",
                             "table %s is damaged: %" PRIu64 " rows were read, the rest is lost",
                             scan->table, scan->rows);
}

/* -- Is it one? -------------------------------------------------------------------------------- */

static const char kernel_table[] = "CUPTI_ACTIVITY_KIND_KERNEL";
static const char runtime_table[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
static const char sync_table[] = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
static const char event_table[] = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";

/* "a, b, c and 7 more", of the tables that are there. */
static void list_tables(const struct orr__nsys_file *file, char *text, size_t size) {
    sqlite3_stmt *statement = NULL;
    size_t length = 0, count = 0;
    snprintf(text, size, "none");
    if (sqlite3_prepare_v2(file->db, "SELECT name FROM sqlite_schema WHERE type = 'table'", -1,
                           &statement, NULL) == SQLITE_OK)
        for (; sqlite3_step(statement) == SQLITE_ROW; count++) {
            const char *name = (const char *)sqlite3_column_text(statement, 0);
            if (count < NAMES_SHOWN && name && size - length > 48)
                length += (size_t)snprintf(text + length, 40, "%s%.32s", count ? ", " : "", name);
        }
    sqlite3_finalize(statement);
    for (char *at = text; *at; at++)
        *at = (unsigned char)*at < 32 ? '?' : *at;
    if (count > NAMES_SHOWN)
        snprintf(text + length, size - length, " and %zu more", count - NAMES_SHOWN);
}

static enum orr_status check_kind(const struct orr__nsys_file *file) {
    static const char *const marks[] = {"StringIds",
                                        kernel_table,
                                        runtime_table,
                                        "CUPTI_ACTIVITY_KIND_MEMCPY",
                                        "CUPTI_ACTIVITY_KIND_MEMSET",
                                        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                                        "NVTX_EVENTS"};
    char tables[256];
    bool is_nsys = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        is_nsys = is_nsys || orr__nsys_has_table(file, marks[i]);
    if (orr__nsys_has_table(file, "StringTable") && !orr__nsys_has_table(file, "StringIds"))
        return orr_error_set(file->error, ORR_INVALID,
                             "%s: a database of nvprof (table StringTable), which is not read: "
                             "expected an export of Nsight Systems (table StringIds)",
                             file->path);
    if (is_nsys)
        return ORR_OK;
    list_tables(file, tables, sizeof tables);
    return orr_error_set(file->error, ORR_INVALID,
                         "%s: an SQLite database of something else (tables: %s%s), expected an "
                         "export of Nsight Systems (StringIds, %s)",
                         file->path, tables,
                         file->has_log ? "; those only in the log beside it are not seen" : "",
                         kernel_table);
}

/* -- What is missing --------------------------------------------------------------------------- */

static enum orr_status note_file(struct orr__nsys *nsys) {
    const struct orr__nsys_file *file = &nsys->file;
    struct orr_timeline_source *source = orr__builder_source(nsys->builder);
    enum orr_status status = ORR_OK;
    if (file->mapping) {
        source->truncated_at = file->bytes;
        status = orr__nsys_problem(nsys, "import_truncated", "error",
                                   "the file is cut at byte %" PRIu64 " of %" PRIu64
                                   ": what lies behind is lost",
                                   file->bytes, file->bytes_expected);
    }
    if (status == ORR_OK && file->has_log) /* its figures would be those of some earlier state */
        status = orr_error_set(file->error, ORR_INVALID,
                               "%s: changes of it lie in a log or journal beside it (-wal, "
                               "-journal); expected a file that has them: close who writes it, or "
                               "open it once with sqlite3 and leave",
                               file->path);
    if (status == ORR_OK && file->schema_damaged)
        status = orr__nsys_problem(nsys, "import_damaged", "error",
                                   "the database's list of tables is damaged: tables may be "
                                   "missing");
    return status;
}

static void note_missing(struct orr__nsys *nsys, const char *table, const char *consequence) {
    if (!orr__nsys_has_table(&nsys->file, table))
        orr__builder_finding(nsys->builder, "import_missing_table", "note", "",
                             "table %s is missing: %s", table, consequence);
}

static void note_tables(struct orr__nsys *nsys) {
    note_missing(nsys, kernel_table, "no kernel ran while it was captured, or none was traced");
    note_missing(nsys, runtime_table,
                 "no work is linked to a call, and nothing can be said about launches");
    note_missing(nsys, "StringIds", "kernels and calls have no names");
    note_missing(nsys, sync_table, "what hosts and streams waited for is not known, if they did");
    if (orr__nsys_has_table(&nsys->file, sync_table))
        note_missing(nsys, event_table, "waits between streams cannot be resolved");
    note_missing(nsys, "TARGET_INFO_GPU", "devices are not described");
    note_missing(nsys, "TARGET_INFO_SESSION_START_TIME",
                 "the wall clock of the trace is not known");
    if (!nsys->has_processes)
        orr__builder_finding(nsys->builder, "import_no_processes", "warning", "",
                             "columns globalPid or globalTid are missing: all is taken for one "
                             "process, and correlations of several would be confused");
}

static enum orr_status note_rows(struct orr__nsys *nsys) {
    enum orr_status status = ORR_OK;
    if (nsys->skipped > 0)
        status = orr__nsys_problem(nsys, "import_skipped", "warning",
                                   "%" PRIu64 " rows have no time or no device and were left out",
                                   nsys->skipped);
    if (status == ORR_OK && nsys->lost_texts > 0)
        status = orr__nsys_problem(nsys, "import_damaged", "error",
                                   "%" PRIu64 " names of table StringIds could not be read: what "
                                   "they name has none, or counts as one",
                                   nsys->lost_texts);
    if (status == ORR_OK && nsys->wrong > 0)
        status = orr__nsys_problem(nsys, "import_wrong_type", "warning",
                                   "%" PRIu64 " values are no integers and count as absent",
                                   nsys->wrong);
    return status;
}

/* -- Reading ----------------------------------------------------------------------------------- */

/* Do the tables that link with each other say whose their rows are? */
static bool knows_processes(const struct orr__nsys_file *file) {
    static const char *const work[] = {kernel_table, "CUPTI_ACTIVITY_KIND_MEMCPY",
                                       "CUPTI_ACTIVITY_KIND_MEMSET"};
    if (orr__nsys_has_table(file, runtime_table) &&
        !orr__nsys_has_column(file, runtime_table, "globalTid"))
        return false;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++)
        if (orr__nsys_has_table(file, work[i]) && !orr__nsys_has_column(file, work[i], "globalPid"))
            return false;
    return true;
}

static void fill_source(struct orr__nsys *nsys) {
    struct orr_timeline_source *source = orr__builder_source(nsys->builder);
    source->subns_stamps = 0;
    source->events = nsys->rows;
    source->bytes = nsys->file.bytes;
    source->repaired = 0;
    source->skipped = nsys->skipped;
    source->knows_syncs = orr__nsys_has_table(&nsys->file, sync_table);
    source->knows_waits = source->knows_syncs && nsys->event_count > 0;
}

static enum orr_status read_tables(struct orr__nsys *nsys) {
    static enum orr_status (*const readers[])(struct orr__nsys *) = {
        orr__nsys_read_strings, orr__nsys_read_calls,  orr__nsys_read_ops,
        orr__nsys_read_waits,   orr__nsys_read_ranges, orr__nsys_read_about};
    enum orr_status status = note_file(nsys);
    nsys->has_processes = knows_processes(&nsys->file);
    for (size_t i = 0; i < sizeof readers / sizeof *readers && status == ORR_OK; i++)
        status = readers[i](nsys);
    if (status == ORR_OK)
        status = note_rows(nsys);
    note_tables(nsys);
    fill_source(nsys);
    return status;
}

/* Ranges that were open when the capture ended last to the end of the trace. */
static void close_ranges(struct orr_timeline *timeline, int64_t last_ns) {
    for (size_t i = 0; i < timeline->slice_count; i++) {
        struct orr_timeline_slice *slice = &timeline->slices[i];
        if (slice->end_ns == ORR_TIME_NONE)
            slice->end_ns = last_ns > slice->begin_ns ? last_ns : slice->begin_ns;
    }
}

static enum orr_status read_file(struct orr__nsys *nsys, struct orr_timeline **out_timeline) {
    enum orr_status status = check_kind(&nsys->file);
    if (status != ORR_OK)
        return status;
    if (orr__builder_create(nsys->memory, "nsys", &nsys->builder) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    status = read_tables(nsys);
    if (status == ORR_OK && orr__builder_finish(&nsys->builder, out_timeline) != ORR_OK)
        status = orr__nsys_no_memory(nsys);
    if (status == ORR_OK)
        close_ranges(*out_timeline, nsys->last_ns);
    return status;
}

enum orr_status orr__read_nsys(const char *path, const struct orr_import_options *options,
                               const struct orr_memory *memory, struct orr_timeline **out_timeline,
                               struct orr_error *error) {
    struct orr_error ignored = {0};
    *out_timeline = NULL;
    error = error ? error : &ignored;
    struct orr__nsys *nsys = orr_memory_alloc(memory, sizeof *nsys);
    if (!nsys)
        return orr_error_set(error, ORR_NO_MEMORY, "%s: no memory to read the trace", path);
    nsys->options = options;
    nsys->memory = memory;
    nsys->error = error;
    nsys->last_ns = ORR_TIME_NONE;
    enum orr_status status = orr__nsys_file_open(path, error, &nsys->file);
    if (status == ORR_OK)
        status = read_file(nsys, out_timeline);
    sqlite3_finalize(nsys->string_query);
    orr__nsys_file_close(&nsys->file);
    orr__builder_destroy(&nsys->builder);
    orr_memory_free(memory, nsys->strings);
    orr_memory_free(memory, nsys->apis);
    orr_memory_free(memory, nsys->events);
    orr_memory_free(memory, nsys->hosts);
    orr_memory_free(memory, nsys->streams);
    orr_memory_free(memory, nsys);
    return status;
}
