/* Internal to trace/import/: the file of an nsys export, opened so that nothing is written and
 * nothing in it is trusted, and its tables read by the names of their columns.
 *
 * Exports differ: tables exist only if they have rows, columns come and go with versions, and other
 * people's scripts cut such files and change types. So a missing table is empty, a missing column
 * NULL, and an integer is taken from an INTEGER, from a REAL that is whole and from digits.
 *
 *     static const char *const columns[] = {"start", "end", "nameId|name"};
 *     struct orr__nsys_scan scan;
 *     status = orr__nsys_scan_open(file, "PROFILER_OVERHEAD", columns, 3, &scan);
 *     while (orr__nsys_scan_next(&scan, &status))
 *         if (orr__nsys_int(&scan, 0, &start)) ...
 *     orr__nsys_scan_close(&scan);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_NSYS_FILE_H
#define ORR_TRACE_IMPORT_NSYS_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

struct orr__nsys_file {
    const char *path; /* borrowed */
    sqlite3 *db;
    struct orr_error *error; /* borrowed; never NULL */
    void *mapping;           /* of a file that is cut; NULL for a whole one */
    size_t mapping_bytes;
    uint64_t bytes; /* that are there */
    /* What is wrong with it; the file's owner says so in a finding. */
    uint64_t bytes_expected; /* more than `bytes`: the file is cut */
    bool has_log;            /* changes lie in a log or journal beside it, and are not in it */
    bool schema_damaged;     /* tables may be missing for that */
};

/* Opens for reading only, and as if nobody else could change the file: no lock, no journal, nothing
 * written beside it. A cut file is read as far as it goes. ORR_INVALID: not there, no file, empty,
 * no SQLite database, or one whose tables can't be read at all; ORR_IO; ORR_NO_MEMORY. */
enum orr_status orr__nsys_file_open(const char *path, struct orr_error *error,
                                    struct orr__nsys_file *out_file) ORR_MUST_CHECK;

/* Accepts a zeroed one, and zeroes. */
void orr__nsys_file_close(struct orr__nsys_file *file);

/* Is it a table with columns? A view or virtual table is none: SQL of the file is not run. */
bool orr__nsys_has_table(const struct orr__nsys_file *file, const char *table);
bool orr__nsys_has_column(const struct orr__nsys_file *file, const char *table, const char *column);

enum { ORR__NSYS_COLUMNS_MAX = 24 };

struct orr__nsys_scan {
    struct orr__nsys_file *file;
    sqlite3_stmt *statement; /* NULL: the table is missing */
    const char *table;
    uint64_t rows;  /* read so far */
    uint64_t wrong; /* values that are no integers where one was asked for */
    bool damaged;   /* the rest could not be read */
};

/* Begins to read a table in the order of the file. A column may be given as alternatives,
 * "nameId|name": the first that exists. ORR_OK for a missing table too; ORR_NO_MEMORY. */
enum orr_status orr__nsys_scan_open(struct orr__nsys_file *file, const char *table,
                                    const char *const *columns, unsigned count,
                                    struct orr__nsys_scan *out_scan) ORR_MUST_CHECK;

/* The next row. False at the end, where damage begins (scan->damaged) and on failure, which
 * *status then says. */
bool orr__nsys_scan_next(struct orr__nsys_scan *scan, enum orr_status *status);

void orr__nsys_scan_close(struct orr__nsys_scan *scan);

/* An integer of the row. False, and 0, if it is NULL or none. */
bool orr__nsys_int(struct orr__nsys_scan *scan, int column, int64_t *out_value);

/* A text of the row, good until the next one; NULL if there is none. Numbers are no texts. */
const char *orr__nsys_text(struct orr__nsys_scan *scan, int column, size_t *out_length);

#endif
