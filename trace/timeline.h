/* A timeline in memory: what one trace says, as arrays, whatever it came from.
 *
 * The reader of our own database fills it, importers of other tools' traces will; the analyzer and
 * the Perfetto writer read it and nothing else, so that a simulated and a real trace are treated
 * alike. It is also possible to build one by hand (tests do).
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
};

struct orr_timeline_stream {
    uint32_t id, device;
    const char *name;
    enum orr_stream_kind kind;
    enum orr_stream_sync sync;
};

struct orr_timeline_host {
    uint32_t id;
    const char *name;
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

struct orr_timeline {
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
