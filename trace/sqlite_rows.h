/* Internal to trace/: rows of the database straight out of a chunk of records.
 *
 * SQLite pulls the rows itself, through virtual tables over the chunk:
 *
 *     INSERT INTO cmd_row SELECT * FROM src_command
 *
 * which costs half of binding and stepping a statement for every row (bench/bench_trace.c compares
 * the two in one run). One table of fields per kind of record says where a column comes from.
 *
 *     struct orr__rows *rows;
 *     orr__rows_create(&memory, db, chunk_words, &rows, &error);   // after the schema is there
 *     orr__rows_insert(rows, names, words, word_count);      // an SQLite result code
 *     orr__rows_destroy(&rows);                              // before the database is closed
 *
 * Threads: as the database connection: one at a time. */
#ifndef ORR_TRACE_SQLITE_ROWS_H
#define ORR_TRACE_SQLITE_ROWS_H

#include <sqlite3.h>

#include "runtime/memory.h"
#include "runtime/record.h"

struct orr__rows;

/* Registers the virtual tables with `db` and prepares the statements. `memory` and `db` are
 * borrowed until destroy. Chunks may have at most `chunk_words` words. ORR_NO_MEMORY, ORR_IO. */
enum orr_status orr__rows_create(const struct orr_memory *memory, sqlite3 *db, size_t chunk_words,
                                 struct orr__rows **out_rows,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* Frees and nulls; accepts NULL. */
void orr__rows_destroy(struct orr__rows **rows);

/* Inserts the records of a chunk, inside the caller's transaction. Returns SQLITE_OK or the first
 * failure, after which the caller rolls back. Borrows everything for the call. */
int orr__rows_insert(struct orr__rows *rows, const struct orr_names *names, const uint64_t *words,
                     size_t word_count);

#endif
