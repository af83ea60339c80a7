/* Internal to trace/import/: what the files of the nsys importer share: the file, the builder, and
 * tables of what was met on the way (texts, threads, streams, API rows).
 *
 *   nsys_file.c     the database, opened read-only; its tables by column names
 *   nsys.c          what order, what is missing, what is refused
 *   nsys_lookup.c   StringIds, threads and streams, API rows by (process, correlation)
 *   nsys_calls.c    RUNTIME
 *   nsys_ops.c      KERNEL, MEMCPY, MEMSET, GRAPH_TRACE, and how they join with RUNTIME
 *   nsys_waits.c    SYNCHRONIZATION with CUDA_EVENT, OVERHEAD, PROFILER_OVERHEAD
 *   nsys_ranges.c   NVTX_EVENTS
 *   nsys_about.c    TARGET_INFO_*, META_DATA_*, DIAGNOSTIC_EVENT, ThreadNames, memory usage
 *
 * Columns and codes: NVIDIA's page "SQLite Export Schema Reference", and exports of schema 3.24 and
 * 3.25; where the two differ, names decide.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_NSYS_H
#define ORR_TRACE_IMPORT_NSYS_H

#include "trace/import.h"
#include "trace/import/builder.h"
#include "trace/import/nsys_file.h"

/* A row of StringIds. Its text is fetched when somebody asks for it: the table also holds whole
 * files and symbols that no trace needs. */
struct orr__nsys_string {
    int64_t id, rowid;
    const char *text; /* the builder's; NULL: not fetched yet */
};

/* A row of RUNTIME with a correlation. Sorted by (correlation, process). */
struct orr__nsys_api {
    uint64_t correlation, process;
    const char *name;
};

/* A row of CUDA_EVENT. Sorted by (process, sync id), the first of the file first. */
struct orr__nsys_event {
    uint64_t process, sync_id;
    uint64_t correlation; /* of the call that recorded it, or ORR_CORRELATION_NONE */
    uint32_t stream;      /* the builder's, or ORR_ID_NONE */
};

struct orr__nsys_host {
    int64_t tid; /* globalTid */
    uint32_t host;
    bool used; /* of a cache's slot */
};

/* Streams that had work or were waited for. */
struct orr__nsys_stream {
    uint64_t process, context;
    int64_t number;
    uint32_t device, stream;
    bool used; /* of a cache's slot */
};

enum { ORR__NSYS_CACHE = 256, ORR__NSYS_GRID_CACHE = 1024 };

struct orr__nsys_grid {
    int64_t size[6];
    const char *text; /* NULL: a free slot */
};

struct orr__nsys {
    struct orr__nsys_file file;
    const struct orr_import_options *options;
    const struct orr_memory *memory;
    struct orr_error *error;
    struct orr__builder *builder;
    sqlite3_stmt *string_query; /* a text by rowid */
    struct orr__nsys_string *strings;
    struct orr__nsys_api *apis;
    struct orr__nsys_event *events;
    struct orr__nsys_host *hosts;     /* all that were made, some twice */
    struct orr__nsys_stream *streams; /* of ops, likewise */
    size_t string_count, string_capacity, api_count, api_capacity, event_count, event_capacity,
        host_count, host_capacity, stream_count, stream_capacity;
    size_t api_hint;
    struct orr__nsys_host host_cache[ORR__NSYS_CACHE];
    struct orr__nsys_stream stream_cache[ORR__NSYS_CACHE];
    struct orr__nsys_grid grid_cache[ORR__NSYS_GRID_CACHE];
    const char *copy_names[16][9][9]; /* by kind, from and to; NULL: not made yet */
    bool has_processes; /* globalPid and globalTid exist where needed: else there is one process */
    uint64_t rows, skipped, wrong;
    uint64_t lost_texts; /* of StringIds, that were asked for and could not be read */
    int64_t last_ns;     /* largest end of anything, ORR_TIME_NONE before there is any */
};

/* Something about the import that the user should know: a finding; with options->strict, and
 * severity "warning" or "error", ORR_INVALID instead. */
enum orr_status orr__nsys_problem(struct orr__nsys *nsys, const char *kind, const char *severity,
                                  const char *format, ...)
    __attribute__((format(printf, 4, 5))) ORR_MUST_CHECK;

/* Ends a scan: counts its rows, says what was damaged. `status` is what the loop ended with, and is
 * returned if it is a failure. */
enum orr_status orr__nsys_end(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                              enum orr_status status) ORR_MUST_CHECK;

/* ORR_NO_MEMORY, said. */
enum orr_status orr__nsys_no_memory(struct orr__nsys *nsys);

/* --- nsys_lookup.c --- */

enum orr_status orr__nsys_read_strings(struct orr__nsys *nsys) ORR_MUST_CHECK;
/* The text with an id of StringIds, or NULL. */
const char *orr__nsys_string(struct orr__nsys *nsys, int64_t id);
/* A column that holds an id, or a text itself; NULL if neither. */
const char *orr__nsys_name(struct orr__nsys *nsys, struct orr__nsys_scan *scan, int column);

/* The process of a globalTid, and of a globalPid column; 0 if there is one process only. */
uint64_t orr__nsys_process(const struct orr__nsys *nsys, int64_t global_id);
/* The builder's host of a globalTid. */
uint32_t orr__nsys_host(struct orr__nsys *nsys, int64_t tid);
/* The builder's stream of the columns `first` to `first` + 3: deviceId, contextId, streamId,
 * globalPid. ORR_ID_NONE, counted, if the device makes no sense. */
uint32_t orr__nsys_stream(struct orr__nsys *nsys, struct orr__nsys_scan *scan, int first,
                          uint64_t *out_process);
/* A correlation, or ORR_CORRELATION_NONE for NULL and negative ones. */
uint64_t orr__nsys_correlation(struct orr__nsys_scan *scan, int column);

/* Sorts nsys->apis; the functions below need it. */
enum orr_status orr__nsys_sort_apis(struct orr__nsys *nsys) ORR_MUST_CHECK;
/* How many API rows have this correlation, in any process and in this one; the name of the first of
 * the latter, or NULL. Fast if asked in ascending order. */
const char *orr__nsys_find_apis(struct orr__nsys *nsys, uint64_t process, uint64_t correlation,
                                size_t *out_any, size_t *out_same);

/* --- tables: each reads its own, which may be missing --- */

enum orr_status orr__nsys_read_calls(struct orr__nsys *nsys) ORR_MUST_CHECK;
enum orr_status orr__nsys_read_ops(struct orr__nsys *nsys) ORR_MUST_CHECK;
enum orr_status orr__nsys_read_waits(struct orr__nsys *nsys) ORR_MUST_CHECK;
enum orr_status orr__nsys_read_ranges(struct orr__nsys *nsys) ORR_MUST_CHECK;
enum orr_status orr__nsys_read_about(struct orr__nsys *nsys) ORR_MUST_CHECK;

/* Widens nsys->last_ns. */
static inline void orr__nsys_saw(struct orr__nsys *nsys, int64_t ns) {
    if (nsys->last_ns == ORR_TIME_NONE || ns > nsys->last_ns)
        nsys->last_ns = ns;
}

#endif
