/* Internal to trace/: reading a database row by row into the arrays of a timeline.
 *
 * timeline_read.c opens the file and steps through its tables; timeline_rows.c knows the tables and
 * turns the current row into an item of an array. Nothing that comes out of a file is trusted: it
 * may be damaged, or made to look like one of ours. Texts are looked up in a table with bounds, and
 * codes are checked against their enum.
 *
 *     for each table of orr__timeline_tables: run table->sql; for each row:
 *         status = table->read(reader, items + count * table->size);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_TIMELINE_ROWS_H
#define ORR_TRACE_TIMELINE_ROWS_H

#include <sqlite3.h>
#include <stdbool.h>

#include "trace/timeline.h"
#include "trace/timeline_texts.h"

enum { ORR__TIMELINE_TABLES = 21, ORR__TARGET_CACHE_SIZE = 64 };

/* What a host waited for, as text, so that each is made once. */
struct orr__target {
    uint32_t kind, target;
    const char *text; /* NULL: free */
};

struct orr__reader {
    const char *path;
    unsigned parts; /* enum orr_timeline_part: what is asked for */
    const struct orr_memory *memory;
    struct orr_timeline *timeline;
    struct orr_error *error;
    sqlite3 *db;
    uint32_t version; /* of the file's schema */
    uint64_t file_bytes;
    struct orr__texts *texts;
    const char **names; /* by id of table text; NULL: none */
    size_t name_count, name_capacity;
    const char *table; /* being read, for messages, as is the next */
    sqlite3_int64 row; /* first column of the row being read, if it is an id */
    sqlite3_stmt *statement;
    uint32_t counter_count; /* rows of counters so far */
    const char *clock;      /* meta 'clock': ts_source of most commands */
    struct orr__target targets[ORR__TARGET_CACHE_SIZE];
};

struct orr__table {
    const char *name, *sql;
    size_t items, count, size; /* offsets in struct orr_timeline; bytes of an item */
    bool has_rowid;            /* its rows are numbered without large holes */
    enum orr_status (*read)(struct orr__reader *reader, void *item);
};

/* In the order to be read: meta first; sync_row needs the names of streams. */
extern const struct orr__table orr__timeline_tables[ORR__TIMELINE_TABLES];

/* A table's query for a file of this schema version; NULL: it has no such table. */
const char *orr__timeline_sql(const struct orr__table *table, uint32_t version);

/* Reads a row of device_peak (device, unit, dtype, flops_per_s) into its device, which is there. */
enum orr_status orr__read_peak(struct orr__reader *reader) ORR_MUST_CHECK;

/* Reads a row of cmd_import_row or sync_import_row into the command or sync that it is about, which
 * is there. Rows come in the order of ids; *at is where to look on, 0 at first. */
enum orr_status orr__read_command_import(struct orr__reader *reader, size_t *at) ORR_MUST_CHECK;
enum orr_status orr__read_sync_import(struct orr__reader *reader, size_t *at) ORR_MUST_CHECK;

/* A text column of the current row, copied for the timeline; "" when it is NULL, NULL when there is
 * no memory. A NUL in it ends it. */
const char *orr__read_text(struct orr__reader *reader, int column);

/* ORR_NO_MEMORY with the path; ORR_INVALID with path, table, row, column and value. */
enum orr_status orr__fail_memory(struct orr__reader *reader);
enum orr_status orr__fail_value(struct orr__reader *reader, const char *column,
                                sqlite3_int64 value);

#endif
