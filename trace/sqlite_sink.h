/* The trace of a run as an SQLite database: a sink for the runtime's records.
 *
 *     struct orr_sink *sink;
 *     if (orr_sqlite_sink_open("run.db", NULL, &memory, &sink, &error) != ORR_OK) ...
 *     sink->names = names;                       // the runtime does this
 *     orr_record_push(&sink->writer, &record);
 *     status = sink->close(sink, "ok", &error);  // frees the sink
 *
 * trace/schema.sql describes what is in the file. Records are gathered in chunks; each chunk is one
 * transaction, so a killed run leaves a readable database with every chunk that was written, and
 * meta 'status' = 'running'. The first transactions are small (8 KiB, then twice the one before),
 * flush ends one at any time. One file is left after close.
 *
 * After a failure (disk full, ...) the sink goes on accepting records, drops and counts them, so
 * that the run can end as it would; flush and close report the first failure. What was committed
 * stays readable.
 *
 * Identical records in identical order give identical databases, whatever the mode, as long as
 * nothing is dropped.
 *
 * Durability: a transaction survives the end of the process, not a power failure (synchronous is
 * off; a trace can be made again).
 *
 * Threads: open, the writer, flush and close belong to one thread, the runtime's host thread. In
 * the modes with a thread SQLite runs on that one. Other processes may read the file meanwhile. */
#ifndef ORR_TRACE_SQLITE_SINK_H
#define ORR_TRACE_SQLITE_SINK_H

#include <stddef.h>

#include "runtime/memory.h"
#include "runtime/record.h"

enum {
    ORR_TRACE_APPLICATION_ID = 0x4f727279, /* "Orry": PRAGMA application_id */
    ORR_TRACE_SCHEMA_VERSION = 4,          /* PRAGMA user_version */
    ORR_TRACE_SCHEMA_IMPORTS = 4,          /* the first with other tools' traces */
    ORR_TRACE_SCHEMA_OLDEST = 2            /* that is still read: without emulated, modelled_ns */
};

enum orr_sqlite_mode {
    /* No thread: a full chunk is written before the next record. For a virtual clock. */
    ORR_SQLITE_INLINE,
    /* A writer thread; the producer waits when the ring is full. For a virtual clock. */
    ORR_SQLITE_WAIT,
    /* A writer thread; the producer never waits, records are dropped and counted (meta 'dropped',
     * and 'dropped_cmd' and so on per table). For a real clock. */
    ORR_SQLITE_DROP
};

struct orr_sqlite_options {
    enum orr_sqlite_mode mode;
    size_t chunk_bytes; /* 0: 256 KiB; at least 64 KiB. A transaction per chunk */
    size_t chunk_count; /* chunks of the ring, 0: 16, in mode DROP 128; one in mode INLINE */
    int busy_ms;        /* how long to wait for another process's lock; 0: 60,000 */
    const char *vfs;    /* name of an SQLite VFS, NULL: the default one. Borrowed for the call */
};

/* Creates the database and its sink. A file that Orrery wrote is replaced, as is an empty one;
 * another one is left alone. `options` may be NULL: all zero; borrowed for the call. `memory` is
 * borrowed until close. The sink is owned by the caller until close, which frees it.
 *
 * ORR_INVALID: the path is a file that Orrery did not write. ORR_IO: it cannot be created or is in
 * use by another process; nothing is left behind. ORR_NO_MEMORY. The error names path and
 * reason. */
enum orr_status orr_sqlite_sink_open(const char *path, const struct orr_sqlite_options *options,
                                     const struct orr_memory *memory, struct orr_sink **out_sink,
                                     struct orr_error *error) ORR_MUST_CHECK;

#endif
