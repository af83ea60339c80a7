/* A timeline in memory: what one trace says, as arrays, whatever it came from.
 *
 * The reader of our own database fills it, and so do the importers of other tools' traces
 * (trace/import.h); the analyzer and the Perfetto writer read it and nothing else, so that a
 * simulated and a real trace are treated alike. It is also possible to build one by hand (tests
 * do).
 *
 * Where the two sorts differ. A command of our own runs carries the host's call itself
 * (enqueue_ns, enqueued_ns); other tools record calls apart, and one call may own many commands or
 * none: those stand in `calls`, and command.call says which one it is. Waits between streams are
 * commands and edges of our own, and `stream_waits` of others, who say when a wait was called, not
 * when it ended. What the user named, and frameworks called, are `slices`. What a source cannot
 * say is absent, never 0: see `source`.
 *
 *     struct orr_timeline *timeline;
 *     if (orr_timeline_read("run.db", &memory, &timeline, &error) != ORR_OK) ...
 *     for (size_t i = 0; i < timeline->command_count; i++) use(&timeline->commands[i]);
 *     orr_timeline_destroy(&timeline);
 *
 * Times are int64 ns, ORR_TIME_NONE where the trace has none. Arrays are sorted by id; ids need not
 * be dense. Texts are borrowed from the timeline and live until it is destroyed; an absent text is
 * "", an absent id is 0 for commands, ops, buffers, collectives and ORR_ID_NONE for device, stream,
 * host.
 *
 * Threads: immutable once read; any number of readers. */
#ifndef ORR_TRACE_TIMELINE_H
#define ORR_TRACE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/record.h"

struct orr_timeline_meta {
    const char *key, *value;
};

struct orr_timeline_device {
    uint32_t id, physical;
    const char *name, *kind, *profile;
    uint64_t mem_bytes;
    /* Peaks for the roofline, as the run knew them, 0 where unknown: column device.bandwidth and
     * table device_peak(device, unit, dtype, flops_per_s). */
    uint64_t bandwidth;                /* byte/s */
    uint64_t peak[2][ORR_DTYPE_COUNT]; /* FLOP/s by enum orr_unit and dtype */
    uint32_t multiprocessors;          /* 0: not known */
};

struct orr_timeline_stream {
    uint32_t id, device; /* within a device, ids ascend as the source's own numbers do */
    const char *name;
    enum orr_stream_kind kind;
    enum orr_stream_sync sync;
    uint64_t process; /* of whoever enqueues in it; 0 where the source knows one only */
};

struct orr_timeline_host { /* a thread of a process */
    uint32_t id;
    const char *name;
    const char *label; /* other tools': "pid/tid" or a number; their ties are broken by it */
    uint64_t process;  /* as in orr_timeline_stream */
};

struct orr_timeline_op {
    uint64_t id, parent;
    const char *name, *kind, *site, *shape;
    enum orr_dtype dtype;
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
};

struct orr_timeline_command {
    uint64_t id, op, seq;
    uint32_t host, device, stream;
    uint32_t caller; /* the host that called; another one than `host` if that is a dispatch host */
    enum orr_command_kind kind;
    enum orr_command_status status;
    enum orr_dtype dtype;
    uint8_t unit; /* enum orr_unit */
    const char *name, *event, *site, *ts_source;
    int64_t enqueue_ns, enqueued_ns, ready_ns, start_ns, finish_ns;
    uint64_t flops, bytes_read, bytes_written;
    /* Of other tools' traces only; 0, ORR_CORRELATION_NONE and "" in our own. */
    uint64_t call;        /* the call that owns it: id of the first of those that share its
                           * correlation; 0: unlinked */
    uint64_t correlation; /* the source's number, which links to calls of the same process */
    uint64_t graph;       /* the captured graph it is a node of, 0 none or not known */
    const char *grid;     /* of a kernel: "[64, 1, 1] x [256, 1, 1]", blocks and threads */
};

#define ORR_CORRELATION_NONE UINT64_MAX

/* A record of an API call, as another tool wrote it. */
struct orr_timeline_call {
    uint64_t id;
    uint64_t merged; /* calls of one (process, correlation) count as one, from the first begin to
                      * the last end: id of the one with the smallest (begin, end), maybe its own */
    uint64_t correlation; /* or ORR_CORRELATION_NONE */
    const char *name;     /* "cudaLaunchKernel" */
    int64_t begin_ns, end_ns;
    uint32_t host;
};

/* "From at_ns on (host time), `stream` waits for what had been enqueued in `source` before
 * record_ns". */
struct orr_timeline_stream_wait {
    uint64_t id;
    uint32_t stream, source; /* source ORR_ID_NONE where not known */
    int64_t at_ns, record_ns;
    bool resolved; /* false: which record it waits for is not known */
};

/* Time that tracing itself, or the driver, took in a process. */
struct orr_timeline_overhead {
    uint64_t process;
    const char *name; /* "Buffer Flush" */
    int64_t begin_ns, end_ns;
    bool profiler; /* the profiler's own; false: the driver's (compiling, a full launch queue) */
};

/* X(name, text): kinds of slices, as in column slice.kind. */
#define ORR_SLICE_KIND_LIST(X)                                                                     \
    X(ANNOTATION, "annotation") /* of the user: a step, a layer, an NVTX range */                  \
    X(OPERATOR, "operator")     /* a framework's operator: aten::mm */                             \
    X(FUNCTION, "function")     /* a frame of Python */                                            \
    X(OTHER, "other")

enum orr_slice_kind {
#define ORR_SLICE_KIND_ENUM(name, text) ORR_SLICE_##name,
    ORR_SLICE_KIND_LIST(ORR_SLICE_KIND_ENUM)
#undef ORR_SLICE_KIND_ENUM
        ORR_SLICE_KIND_COUNT
};

/* A named stretch of a host's time, or of a stream's: never work of a device. */
struct orr_timeline_slice {
    int64_t begin_ns, end_ns;
    const char *name;
    uint64_t op;           /* the logical operator it is, 0 none */
    uint32_t host, stream; /* one of them is ORR_ID_NONE */
    enum orr_slice_kind kind;
};

struct orr_timeline_edge {
    uint64_t src, dst;
    enum orr_edge_kind kind;
};

struct orr_timeline_sync {
    uint64_t id, cmd;
    uint32_t host;
    enum orr_sync_kind kind;
    const char *target; /* "stream compute of device 0", "event e1", "device 0", ... */
    int64_t begin_ns, end_ns;
    uint64_t call;           /* other tools': the (merged) call that it is, 0 none */
    uint32_t stream, device; /* other tools': what it waits for, ORR_ID_NONE if that is not it */
};

struct orr_timeline_buffer {
    uint64_t id, block, bytes, alloc_cmd, free_cmd;
    uint32_t device, stream;
    const char *memory, *label;
    enum orr_role role; /* at the allocation */
};

struct orr_timeline_buffer_role { /* a buffer's other role from then on */
    uint64_t buffer, after_cmd;   /* after_cmd: the last command called before, 0 none */
    int64_t ts_ns;
    enum orr_role role;
};

struct orr_timeline_access {
    uint64_t cmd, buffer, offset, bytes;
    enum orr_access_mode mode;
};

struct orr_timeline_communicator {
    uint32_t id;
    const char *name;
};

struct orr_timeline_member {
    uint32_t communicator, rank, device;
};

struct orr_timeline_collective {
    uint64_t id, seq, bytes;
    uint32_t communicator, root, peer;
    const char *kind, *algorithm, *protocol;
    int64_t modelled_ns; /* what links would take; ORR_TIME_NONE: not known */
    enum orr_dtype dtype;
    bool emulated; /* durations are those of memory */
};

struct orr_timeline_collective_member {
    uint64_t collective, cmd;
    uint32_t rank;
};

struct orr_timeline_counter {
    uint32_t device;
    uint32_t order; /* of the rows as they were written, modulo 2^32: who came first at one time */
    const char *name;
    int64_t ts_ns;
    double value;
};

struct orr_timeline_finding {
    uint64_t id, cmd_a, cmd_b, buffer;
    const char *kind, *severity, *message, *fix;
};

/* What a source says of itself, and numbers that only its own tables can tell. X(name): uint64,
 * stored as meta rows "source_NAME". Not known is ORR_SOURCE_NONE. */
#define ORR_SOURCE_NUMBER_LIST(X)                                                                  \
    X(rank)              /* of the process in its job */                                           \
    X(world_size)        /* processes of the job */                                                \
    X(subns_stamps)      /* ts or dur of ops and calls with more than three decimals */            \
    X(kernel_rows)       /* nsys: rows of the table; joined by correlation alone; by process */    \
    X(kernel_naive_rows) /* and correlation; ops without a call; the same for copies and sets */   \
    X(kernel_process_rows)                                                                         \
    X(kernel_unlinked)                                                                             \
    X(memcpy_rows)                                                                                 \
    X(memcpy_naive_rows)                                                                           \
    X(memcpy_process_rows)                                                                         \
    X(memcpy_unlinked)                                                                             \
    X(memset_rows)                                                                                 \
    X(memset_naive_rows)                                                                           \
    X(memset_process_rows)                                                                         \
    X(memset_unlinked)                                                                             \
    X(events)       /* events, or rows, read */                                                    \
    X(bytes)        /* of text or database read */                                                 \
    X(repaired)     /* places where the text had to be repaired */                                 \
    X(skipped)      /* events that could not be read */                                            \
    X(truncated_at) /* byte at which the input was cut */

#define ORR_SOURCE_NONE UINT64_MAX

struct orr_timeline_source {
    const char *format; /* "orrery", "kineto", "nsys"; also for our own traces */
    bool has_time_base;
    int64_t time_base_ns; /* wall clock of the zero; added to no time here */
    bool knows_waits;     /* dependencies between streams are recorded */
    bool knows_syncs;     /* what waiting calls waited for is recorded */
#define ORR_SOURCE_NUMBER_FIELD(name) uint64_t name;
    ORR_SOURCE_NUMBER_LIST(ORR_SOURCE_NUMBER_FIELD)
#undef ORR_SOURCE_NUMBER_FIELD
};

struct orr_timeline {
    struct orr_timeline_source source;
    struct orr_timeline_meta *meta;
    struct orr_timeline_device *devices;
    struct orr_timeline_stream *streams;
    struct orr_timeline_host *hosts;
    struct orr_timeline_op *ops;
    struct orr_timeline_command *commands;
    struct orr_timeline_edge *edges; /* sorted by (dst, src) */
    struct orr_timeline_sync *syncs;
    struct orr_timeline_buffer *buffers;
    struct orr_timeline_buffer_role *buffer_roles; /* in the order in which it happened */
    struct orr_timeline_access *accesses;          /* sorted by cmd */
    struct orr_timeline_communicator *communicators;
    struct orr_timeline_member *members;
    struct orr_timeline_collective *collectives;
    struct orr_timeline_collective_member *collective_members;
    struct orr_timeline_counter *counters; /* sorted by (device, name, ts_ns) */
    struct orr_timeline_finding *findings;
    struct orr_timeline_call *calls; /* these four: of other tools' traces */
    struct orr_timeline_stream_wait *stream_waits;
    struct orr_timeline_overhead *overheads;
    struct orr_timeline_slice *slices; /* in the order of the file */
    size_t call_count, stream_wait_count, overhead_count, slice_count;
    size_t meta_count, device_count, stream_count, host_count, op_count, command_count, edge_count,
        sync_count, buffer_count, buffer_role_count, access_count, communicator_count, member_count,
        collective_count, collective_member_count, counter_count, finding_count;
    const struct orr_memory *memory; /* borrowed until destroy */
    void *texts;                     /* storage of the texts, the reader's business */
};

/* Reads one of our databases (opened read-only). ORR_INVALID with the file and what was expected
 * for a missing, empty, truncated, damaged or foreign file or another schema version; ORR_IO when
 * the system can't open or read it, or another process holds it; ORR_NO_MEMORY. A trace of a killed
 * or failed run is fine: meta "status" says so. The timeline is owned by the caller. */
enum orr_status orr_timeline_read(const char *path, const struct orr_memory *memory,
                                  struct orr_timeline **out_timeline,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* The same without the rows that the caller has no use for, which may be a third of a file: their
 * arrays are empty. `parts` is the union of those wanted beside all others. */
enum orr_timeline_part { ORR_TIMELINE_ACCESSES = 1, ORR_TIMELINE_ALL = 1 };
enum orr_status orr_timeline_read_parts(const char *path, unsigned parts,
                                        const struct orr_memory *memory,
                                        struct orr_timeline **out_timeline,
                                        struct orr_error *error) ORR_MUST_CHECK;

/* An empty timeline to fill by hand; arrays are then allocated from `memory` and owned by it. */
enum orr_status orr_timeline_create(const struct orr_memory *memory,
                                    struct orr_timeline **out_timeline) ORR_MUST_CHECK;

/* Frees and nulls; accepts NULL. */
void orr_timeline_destroy(struct orr_timeline **timeline);

/* The value of a meta key, or NULL. */
const char *orr_timeline_meta(const struct orr_timeline *timeline, const char *key);

/* Lookup by id (binary search), NULL if absent. */
const struct orr_timeline_command *orr_timeline_command(const struct orr_timeline *timeline,
                                                        uint64_t id);
const struct orr_timeline_op *orr_timeline_op(const struct orr_timeline *timeline, uint64_t id);
const struct orr_timeline_stream *orr_timeline_stream(const struct orr_timeline *timeline,
                                                      uint32_t id);
const struct orr_timeline_device *orr_timeline_device(const struct orr_timeline *timeline,
                                                      uint32_t id);
const struct orr_timeline_host *orr_timeline_host(const struct orr_timeline *timeline, uint32_t id);
const struct orr_timeline_communicator *
orr_timeline_communicator(const struct orr_timeline *timeline, uint32_t id);
const struct orr_timeline_collective *orr_timeline_collective(const struct orr_timeline *timeline,
                                                              uint64_t id);

#endif
