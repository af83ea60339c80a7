/* Trace records: what the runtime says about every command, and the door to whoever listens.
 *
 * A record is a plain struct that starts with a header of 8 bytes: its kind and its length in words
 * of 8 bytes. The runtime writes records from one thread only, the host thread that owns it, when a
 * fact is complete: a command when it has retired (or when the run ends without that), a sync when
 * the host returns from it. So the order of records is the order of completion; ids give the order
 * of calls. Texts are ids of the runtime's orr_names.
 *
 *     producer (runtime)              chunk                      sink (trace/)
 *     orr_record_push(writer, r) --> [r0 r1 r2 ...      ] --> when full or flushed: drain
 *
 * The writer is a cursor into a chunk that the sink supplied; pushing is a bounds check and a copy,
 * without an atomic or a call. When a chunk is full, `refill` hands it over and supplies another
 * one. With a virtual clock refill may wait for the sink; with a real clock it never waits: the
 * sink counts what it must drop.
 *
 * Times are int64 nanoseconds of the run's clock, ORR_TIME_NONE where a thing never happened.
 *
 * Threads: a writer belongs to the runtime's host thread. */
#ifndef ORR_RUNTIME_RECORD_H
#define ORR_RUNTIME_RECORD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/cost.h"
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/names.h"

#define ORR_TIME_NONE INT64_MIN

/* X(name, text): kinds of commands, as in column cmd.kind. */
#define ORR_COMMAND_KIND_LIST(X)                                                                   \
    X(KERNEL, "kernel")                                                                            \
    X(COLLECTIVE, "collective")                                                                    \
    X(COPY, "copy")                                                                                \
    X(FILL, "fill")                                                                                \
    X(HOSTFN, "hostfn")                                                                            \
    X(RECORD, "record")                                                                            \
    X(WAIT, "wait")                                                                                \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(RECORD_STREAM, "record_stream")                                                              \
    X(GRAPH, "graph")                                                                              \
    X(MARKER, "marker")                                                                            \
    X(HOSTREAD, "hostread")                                                                        \
    X(HOSTWRITE, "hostwrite")

enum orr_command_kind {
#define ORR_COMMAND_KIND_ENUM(name, text) ORR_COMMAND_##name,
    ORR_COMMAND_KIND_LIST(ORR_COMMAND_KIND_ENUM)
#undef ORR_COMMAND_KIND_ENUM
        ORR_COMMAND_KIND_COUNT
};

/* X(name, text): how a command ended, as in column cmd.status. */
#define ORR_COMMAND_STATUS_LIST(X)                                                                 \
    X(PENDING, "pending") /* not finished when the trace ended */                                  \
    X(OK, "ok")                                                                                    \
    X(POISONED, "poisoned") /* its operands were undefined, or it raced: results are poison */     \
    X(FAILED, "failed")     /* the device failed it */                                             \
    X(SKIPPED, "skipped")   /* not run: an earlier command of its stream, or one awaited, failed */

enum orr_command_status {
#define ORR_COMMAND_STATUS_ENUM(name, text) ORR_COMMAND_STATUS_##name,
    ORR_COMMAND_STATUS_LIST(ORR_COMMAND_STATUS_ENUM)
#undef ORR_COMMAND_STATUS_ENUM
        ORR_COMMAND_STATUS_COUNT
};

/* X(name, text): why `dst` may not start before `src` has finished, as in column edge.kind. */
#define ORR_EDGE_KIND_LIST(X)                                                                      \
    X(STREAM, "stream")                                                                            \
    X(EVENT, "event")                                                                              \
    X(HOST, "host") /* a host knew that src was done before it called dst */                       \
    X(COLLECTIVE, "collective")                                                                    \
    X(ALLOCATOR, "allocator")

enum orr_edge_kind {
#define ORR_EDGE_KIND_ENUM(name, text) ORR_EDGE_##name,
    ORR_EDGE_KIND_LIST(ORR_EDGE_KIND_ENUM)
#undef ORR_EDGE_KIND_ENUM
        ORR_EDGE_KIND_COUNT
};

/* X(name, text): what a host was blocked on, as in column sync.kind. */
#define ORR_SYNC_KIND_LIST(X)                                                                      \
    X(STREAM, "stream")                                                                            \
    X(EVENT, "event")                                                                              \
    X(DEVICE, "device")                                                                            \
    X(FUTURE, "future")

enum orr_sync_kind {
#define ORR_SYNC_KIND_ENUM(name, text) ORR_SYNC_##name,
    ORR_SYNC_KIND_LIST(ORR_SYNC_KIND_ENUM)
#undef ORR_SYNC_KIND_ENUM
        ORR_SYNC_KIND_COUNT
};

/* X(name, text): what a buffer's memory is for, as in column buffer.role. Whoever allocates says
 * so; the runtime itself knows what is communication. */
#define ORR_ROLE_LIST(X)                                                                           \
    X(OTHER, "other") /* nobody said */                                                            \
    X(PARAMETER, "parameter")                                                                      \
    X(GRADIENT, "gradient")                                                                        \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(ACTIVATION, "activation")                                                                    \
    X(WORKSPACE, "workspace")                                                                      \
    X(COMMUNICATION, "communication")

enum orr_role {
#define ORR_ROLE_ENUM(name, text) ORR_ROLE_##name,
    ORR_ROLE_LIST(ORR_ROLE_ENUM)
#undef ORR_ROLE_ENUM
        ORR_ROLE_COUNT
};

enum orr_access_mode { ORR_ACCESS_READ = 1, ORR_ACCESS_WRITE = 2, ORR_ACCESS_READ_WRITE = 3 };

/* X(name, text): stream kinds, as in column stream.kind. */
#define ORR_STREAM_KIND_LIST(X)                                                                    \
    X(COMPUTE, "compute")                                                                          \
    X(COMMUNICATE, "communicate")                                                                  \
    X(COPY, "copy")

enum orr_stream_kind {
#define ORR_STREAM_KIND_ENUM(name, text) ORR_STREAM_##name,
    ORR_STREAM_KIND_LIST(ORR_STREAM_KIND_ENUM)
#undef ORR_STREAM_KIND_ENUM
        ORR_STREAM_KIND_COUNT
};

/* Default-stream behaviour of a stream (races.md rules 2-4), as in column stream.sync. */
enum orr_stream_sync { ORR_STREAM_NB, ORR_STREAM_BL, ORR_STREAM_PTDS, ORR_STREAM_LEGACY };

/* X(name, text): where start_ns and finish_ns of a command are from, as in column cmd.ts_source. */
#define ORR_TS_SOURCE_LIST(X)                                                                      \
    X(HOST, "host")       /* the host's clock: it ran there, or nothing else was at hand */        \
    X(CUPTI, "cupti")     /* the device's records of activity */                                   \
    X(EVENT, "event")     /* events recorded before and behind it */                               \
    X(DERIVED, "derived") /* follows from other commands' times, as that of a wait */              \
    X(MODEL, "model")     /* a cost model's */

enum orr_ts_source {
#define ORR_TS_SOURCE_ENUM(name, text) ORR_TS_##name,
    ORR_TS_SOURCE_LIST(ORR_TS_SOURCE_ENUM)
#undef ORR_TS_SOURCE_ENUM
        ORR_TS_SOURCE_COUNT
};

/* Texts of the lists above, as they stand in the trace; static storage, never NULL. */
const char *orr_command_kind_text(enum orr_command_kind kind);
const char *orr_command_status_text(enum orr_command_status status);
const char *orr_edge_kind_text(enum orr_edge_kind kind);
const char *orr_sync_kind_text(enum orr_sync_kind kind);
const char *orr_stream_kind_text(enum orr_stream_kind kind);
const char *orr_stream_sync_text(enum orr_stream_sync sync);
const char *orr_role_text(enum orr_role role);
const char *orr_ts_source_text(enum orr_ts_source source);

enum orr_record_kind {
    ORR_RECORD_META = 1,
    ORR_RECORD_DEVICE,
    ORR_RECORD_PEAK,
    ORR_RECORD_STREAM,
    ORR_RECORD_HOST,
    ORR_RECORD_OP,
    ORR_RECORD_COMMAND,
    ORR_RECORD_EDGE,
    ORR_RECORD_SYNC,
    ORR_RECORD_BUFFER,
    ORR_RECORD_BUFFER_FREE,
    ORR_RECORD_BUFFER_ROLE,
    ORR_RECORD_ACCESS,
    ORR_RECORD_COMMUNICATOR,
    ORR_RECORD_MEMBER,
    ORR_RECORD_COLLECTIVE,
    ORR_RECORD_COLLECTIVE_MEMBER,
    ORR_RECORD_COUNTER,
    ORR_RECORD_FINDING,
    ORR_RECORD_KIND_COUNT
};

struct orr_record {
    uint16_t kind;      /* enum orr_record_kind */
    uint16_t words;     /* length in 8-byte words, header included */
    uint8_t a, b, c, d; /* small fields of the kind, named below */
};

/* Ids: op, cmd, sync, buffer, collective, finding start at 1, 0 = none; device, stream, host start
 * at 0 (absent host or device or stream: ORR_ID_NONE). */
#define ORR_ID_NONE UINT32_MAX

struct orr_record_meta { /* one key and value of table meta; texts are names */
    struct orr_record header;
    uint32_t key, value;
};

struct orr_record_device {
    struct orr_record header;
    uint32_t id, name, kind, physical, profile, pad; /* name, kind, profile: names */
    uint64_t mem_bytes;
    uint64_t bandwidth; /* byte/s of device memory, 0 unknown */
};

struct orr_record_peak { /* header.a: enum orr_unit, header.b: enum orr_dtype */
    struct orr_record header;
    uint32_t device, pad;
    uint64_t flops_per_s;
};

struct orr_record_stream { /* header.a: enum orr_stream_kind, header.b: enum orr_stream_sync */
    struct orr_record header;
    uint32_t id, device, name, pad;
};

struct orr_record_host {
    struct orr_record header;
    uint32_t id, name;
};

struct orr_record_op { /* a logical operator; header.a: enum orr_dtype */
    struct orr_record header;
    uint64_t id, parent; /* parent: the operator it was lowered from, 0 none */
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
    uint32_t name, kind, site,
        shape; /* names; kind: "gemm", "pointwise", ...; shape: "[8, 4096]" */
};

/* A command: one row of table cmd, filled by the host layer at the call and by the backend as the
 * command proceeds. header.a: enum orr_command_kind, header.b: enum orr_dtype, header.c: enum
 * orr_command_status, header.d: enum orr_unit. */
struct orr_record_command {
    struct orr_record header;
    uint64_t id;                     /* from 1, in order of calls */
    uint64_t seq;                    /* position in its stream, from 1; 0 if it is in no stream */
    int64_t enqueue_ns, enqueued_ns; /* the host's call began, returned */
    int64_t ready_ns;                /* z of analysis.md 2.2: all it waited for was done */
    int64_t start_ns, finish_ns;     /* on the device */
    uint64_t flops, bytes_read, bytes_written;
    uint64_t op;                   /* logical operator, 0 none */
    uint32_t name, event, site;    /* names; event: of record and wait */
    uint32_t host, device, stream; /* ORR_ID_NONE if absent */
    uint32_t ts_source; /* name of the clock of start_ns, finish_ns if not the run's; else 0 */
    uint32_t caller;    /* where a dispatch host launches: 1 + the host that called; else 0 */
};

/* ready_ns of a command: the latest of the end of its call, the finish of the command before it and
 * the latest finish of what it waited for (each may be ORR_TIME_NONE), but never above its start.
 */
int64_t orr_record_ready_ns(int64_t enqueued_ns, int64_t before_ns, int64_t awaited_ns,
                            int64_t start_ns);

struct orr_record_edge { /* header.a: enum orr_edge_kind */
    struct orr_record header;
    uint64_t src, dst; /* commands */
};

struct orr_record_sync { /* header.a: enum orr_sync_kind */
    struct orr_record header;
    uint64_t id, cmd; /* cmd: the command whose end it observed last, 0 none */
    int64_t begin_ns, end_ns;
    uint32_t host, target; /* target: id of the stream or device; event, future: its name or 0 */
};

struct orr_record_buffer { /* an allocation; header.a: enum orr_role */
    struct orr_record header;
    /* block: where the bytes are, equal for reuses of one place and for nothing else: serial number
     * of the allocator's segment << 32 | offset in it / 512. Blocks of one segment may overlap. */
    uint64_t id, block, bytes;
    uint64_t alloc_cmd;
    uint32_t device, stream, label,
        memory; /* label, memory: names; memory: dev pinned pageable managed */
};

struct orr_record_buffer_free {
    struct orr_record header;
    uint64_t id, free_cmd;
};

struct orr_record_buffer_role { /* a live buffer's new role; header.a: enum orr_role */
    struct orr_record header;
    uint64_t id, after_cmd; /* after_cmd: the last command called before, 0 none */
    int64_t ts_ns;
};

struct orr_record_access { /* header.a: enum orr_access_mode */
    struct orr_record header;
    uint64_t cmd, buffer, offset, bytes; /* offset from the start of the buffer */
};

struct orr_record_communicator {
    struct orr_record header;
    uint32_t id, name;
};

struct orr_record_member { /* rank `rank` of a communicator is a device */
    struct orr_record header;
    uint32_t communicator, rank, device, pad;
};

struct orr_record_collective { /* header.a: enum orr_dtype; header.b: 1 if it is emulated */
    struct orr_record header;
    uint64_t id, seq, bytes; /* seq: per communicator, from 0 */
    int64_t modelled_ns;     /* orr_collective_link_ns, where durations are none of links */
    uint32_t communicator, kind, algorithm, protocol; /* last three: names */
    uint32_t root, peer;                              /* ORR_ID_NONE if it has none */
};

struct orr_record_collective_member {
    struct orr_record header;
    uint64_t collective, cmd;
    uint32_t rank, pad;
};

/* A device's value since ts_ns: "memory bytes", "reserved bytes", ... */
struct orr_record_counter {
    struct orr_record header;
    int64_t ts_ns;
    double value;
    uint32_t device, name;
};

struct orr_record_finding {
    struct orr_record header;
    uint64_t id, cmd_a, cmd_b, buffer;
    uint32_t kind, severity, message, fix; /* names */
};

/* A cursor into the sink's current chunk. */
struct orr_record_writer {
    uint64_t *cursor, *limit;
    /* Hands the chunk over and makes room for at least `words` words; never fails: if the sink has
     * failed or drops, it supplies scratch space and counts. */
    void (*refill)(struct orr_record_writer *writer, size_t words);
};

/* Where records go. One sink per run; trace/ has the SQLite one, runtime/record_memory.h one that
 * keeps everything in memory. */
struct orr_sink {
    struct orr_record_writer writer;
    /* Names that the records' ids refer to; set by the runtime before the first record, borrowed
     * until `close`. */
    const struct orr_names *names;
    /* Makes everything written so far visible (committed, for a file). May block. */
    enum orr_status (*flush)(struct orr_sink *sink, struct orr_error *error);
    /* Ends the trace and frees the sink. `status` is the run's: "ok", "failed", ... */
    enum orr_status (*close)(struct orr_sink *sink, const char *status, struct orr_error *error);
};

/* Room for a record of `words` words, to be filled completely by the caller. */
static inline void *orr_record_reserve(struct orr_record_writer *writer, size_t words) {
    if ((size_t)(writer->limit - writer->cursor) < words) {
        writer->refill(writer, words);
    }
    assert((size_t)(writer->limit - writer->cursor) >= words);
    uint64_t *record = writer->cursor;
    writer->cursor += words;
    return record;
}

/* Copies a record whose header says its length. */
static inline void orr_record_push(struct orr_record_writer *writer, const void *record) {
    size_t words = ((const struct orr_record *)record)->words;
    memcpy(orr_record_reserve(writer, words), record, words * sizeof(uint64_t));
}

/* Header of a record struct: (struct orr_record_edge){.header = ORR_RECORD_HEADER(edge, EDGE)} */
#define ORR_RECORD_HEADER(type, KIND)                                                              \
    { .kind = ORR_RECORD_##KIND, .words = (uint16_t)(sizeof(struct orr_record_##type) / 8) }

#endif
