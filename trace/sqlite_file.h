/* Internal to trace/: the database file itself: what may be replaced, how one is created, and how
 * SQLite's failures become ours.
 *
 * Threads: as the database connection. */
#ifndef ORR_TRACE_SQLITE_FILE_H
#define ORR_TRACE_SQLITE_FILE_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

/* Of the header of an SQLite file (sqlite.org/fileformat2.html, 1.3), in bytes. */
enum {
    ORR__SQLITE_USER_VERSION_AT = 60,
    ORR__SQLITE_APPLICATION_ID_AT = 68,
    ORR__SQLITE_HEADER_BYTES = 100
};

/* Big-endian integer of an SQLite header. */
uint32_t orr__sqlite_load(const unsigned char *at);

/* Reads the header of the open file, zeros beyond its end, through SQLite's own file: closing
 * another one would drop the locks that this process has on it. An SQLite result code. */
int orr__sqlite_read_header(sqlite3 *db, unsigned char *header);

/* Sets ORR_NO_MEMORY or ORR_IO: "PATH: DOING: reason". `db` may be NULL. Returns the status. */
enum orr_status orr__sqlite_error(struct orr_error *error, sqlite3 *db, int code, const char *path,
                                  const char *doing);

/* Creates an empty trace at `path` (see orr_sqlite_sink_open), opened for writing, with the schema
 * in it and no transaction open. On failure nothing is left behind. Closed by the caller. */
enum orr_status orr__sqlite_create(const char *path, const char *vfs, int busy_ms, sqlite3 **out_db,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* For a trace that is written beside its place, PATH.part, and put there when it is whole. May a
 * trace at `path` be replaced (see orr_sqlite_sink_open)? What is there stays. */
enum orr_status orr__sqlite_may_replace(const char *path, struct orr_error *error) ORR_MUST_CHECK;
/* The path of the file beside it, symbolic links followed, in `size` bytes. */
enum orr_status orr__sqlite_part(const char *path, char *part, size_t size,
                                 struct orr_error *error) ORR_MUST_CHECK;
/* Replaces what is at `path`; the part is closed. On failure it is left to the caller. */
enum orr_status orr__sqlite_put_in_place(const char *part, const char *path,
                                         struct orr_error *error) ORR_MUST_CHECK;

/* Removes a trace that could not be completed, and what SQLite keeps beside it. */
void orr__sqlite_remove(const char *path);

#endif
