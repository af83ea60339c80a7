/* Internal to trace/: the arrays of a timeline as tables that SQLite reads by itself.
 *
 *     INSERT INTO cmd_row SELECT * FROM src_cmd_row
 *
 * as in trace/sqlite_rows.h, but out of structs instead of records: one table of columns per table
 * of the schema says which member a column is, and how it is stored.
 *
 * Threads: as the database connection. */
#ifndef ORR_TRACE_TIMELINE_TABLE_H
#define ORR_TRACE_TIMELINE_TABLE_H

#include <sqlite3.h>

#include "trace/text_ids.h"
#include "trace/timeline.h"

struct orr__table_writer {
    const struct orr_timeline *timeline;
    const struct orr_memory *memory;
    struct orr__text_ids *ids;
    const char *clock; /* meta 'clock', "": none */
    bool no_memory;    /* of `memory`; the statement fails with SQLITE_NOMEM */
};

/* Inserts the rows of all arrays but meta and device_peak, within the caller's transaction; then
 * the texts that they use. An SQLite result code, after which the caller rolls back. */
int orr__table_insert_all(struct orr__table_writer *writer, sqlite3 *db);

#endif
