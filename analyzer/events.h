/* The event model: what the analyzer knows about a trace, whatever wrote it.
 *
 * Definitions are those of section 2.1 of the analysis reference: an *op* is work on (device,
 * stream), [start, end); a *call* is the API call [begin, end) on a host thread that enqueued it,
 * and may own many ops (a graph launch) or none (an allocation); a *wait* makes a stream wait for a
 * position of another one; a *sync* is a call in which the host waits. Ops without a call are
 * *unlinked*: they count in every device-time figure and in no latency figure.
 *
 *      thread 0   |--call 0--|  |-call 1-|        |--sync call--|
 *                       \             \           .
 *      stream 0          [--op 0--)    [---op 1---)
 *                                 \ wait
 *      stream 1                    [--op 2--)
 *
 * Who fills it: orr_events_from_timeline, from our own traces and from those of other tools.
 * A filler appends to the arrays through orr_events_add_*, then calls orr_events_prepare once,
 * which sorts, links and derives; after that the model is read-only.
 *
 *     struct orr_events events;
 *     orr_events_init(&events, &memory);
 *     orr_events_add_device(&events, &(struct orr_events_device){.name = "GPU 0"}, &device);
 *     ...                                              // streams, threads, calls, ops
 *     status = orr_events_prepare(&events, &error);
 *     ...
 *     orr_events_free(&events);
 *
 * Texts are borrowed until orr_events_free; an absent text is "", never NULL. Indices are into this
 * struct's arrays, ORR_EVENTS_NONE where absent. Times are ns, within +-2^61 (ORR_EVENTS_TIME_MAX).
 *
 * Threads: one while filling; immutable afterwards, any number of readers. */
#ifndef ORR_ANALYZER_EVENTS_H
#define ORR_ANALYZER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/intervals.h"
#include "runtime/cost.h"
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/record.h"
#include "trace/timeline.h"

#define ORR_EVENTS_NONE     UINT32_MAX
#define ORR_EVENTS_TIME_MAX (INT64_C(1) << 61)

enum orr_op_kind {
    ORR_DEVICE_OP_KERNEL,
    ORR_DEVICE_OP_COLLECTIVE,
    ORR_DEVICE_OP_COPY,
    ORR_DEVICE_OP_FILL
};

/* C, M, P of the definitions: which union the op's time belongs to. A communication kernel of an
 * imported trace is a KERNEL with activity COMM. */
enum orr_activity { ORR_ACTIVITY_COMPUTE, ORR_ACTIVITY_COMM, ORR_ACTIVITY_COPY };

struct orr_events_device {
    uint32_t id; /* the source's number */
    const char *name;
    uint64_t mem_bytes;                /* capacity, 0 unknown */
    uint64_t bandwidth;                /* byte/s, 0 unknown */
    uint64_t peak[2][ORR_DTYPE_COUNT]; /* FLOP/s by enum orr_unit and dtype, 0 unknown */
};

/* Streams of one device must be added in ascending order of the source's numbers: ties are broken
 * by it. */
struct orr_events_stream {
    uint32_t device;  /* index */
    uint32_t id;      /* the source's number, for display */
    uint64_t process; /* whose it is, 0 where the source knows one process only */
    const char *name;
};

struct orr_events_thread {
    uint64_t process; /* any number; profiler overhead counts for all threads of its process */
    const char *name;
    char label[64]; /* "pid/tid", or a number: how the definitions break ties, in text order */
};

enum orr_call_flag {
    ORR_CALL_WAITING = 1,  /* the host waits in it (synchronize, blocking copy) */
    ORR_CALL_LAUNCH = 2,   /* it enqueues work even if it owns no op */
    ORR_CALL_GRAPH = 4,    /* it launches a captured graph */
    ORR_CALL_BREAKING = 8, /* it could not be captured (allocation, module load, ...) */
    ORR_CALL_REUSED = 16,  /* its records are not one inside the other: a number used twice */
};

struct orr_events_call {
    int64_t begin_ns, end_ns;
    uint32_t thread;
    uint32_t records;  /* API records merged into this call, normally 1 */
    uint32_t op_count; /* ops it owns; filled by prepare */
    uint32_t flags;    /* enum orr_call_flag */
    const char *name;
};

/* What a waiting call waits for. */
enum orr_sync_target {
    ORR_SYNC_TARGET_UNKNOWN,
    ORR_SYNC_TARGET_OP,     /* op `target` and those before it in its stream */
    ORR_SYNC_TARGET_STREAM, /* what was enqueued in the stream before the call began */
    ORR_SYNC_TARGET_DEVICE
};

struct orr_events_sync {
    uint32_t call;
    enum orr_sync_target kind;
    uint32_t target; /* index of op, stream or device */
};

/* "Stream `stream` waits, from host time `at_ns` on, for what had been enqueued in `source` before
 * host time record_ns": resolved by prepare into the ops' dependencies. */
struct orr_events_wait {
    uint32_t stream, source;
    int64_t at_ns, record_ns;
    bool resolved; /* false: the record is unknown; counted, without effect */
};

struct orr_events_overhead { /* time the profiler itself took in a process */
    uint64_t process;
    int64_t begin_ns, end_ns;
};

/* What is equal for many ops: the operator (or kernel) they belong to. */
struct orr_events_operator {
    const char *name;
    const char *kind;  /* "gemm", "pointwise", ... or "" */
    const char *shape; /* "[4096, 4096]" or "" */
    uint8_t dtype;     /* enum orr_dtype */
    uint8_t unit;      /* enum orr_unit */
};

struct orr_events_collective {
    const char *kind; /* "all_reduce", ... */
    const char *group;
    uint64_t seq, bytes;
    int64_t modelled_ns; /* what links would take; 0: not known */
    bool emulated;       /* its durations are those of memory */
    uint32_t size;       /* members of the group */
    uint32_t members;    /* ops present in the trace; filled by prepare */
    uint32_t last;       /* op that arrived last; filled by prepare */
};

struct orr_events_op {
    int64_t start_ns, end_ns;
    int64_t ready_ns; /* z as the source recorded it, ORR_TIME_NONE if it did not */
    /* d of the definitions: largest finish of what it waits for, ORR_TIME_NONE without; and who it
     * was: an op, or the call that enqueued what it waited for, or neither if unknown. */
    int64_t wait_ns;
    uint32_t wait_op, wait_call;
    uint64_t correlation; /* the source's number; of our own: the command's id */
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
    uint32_t stream, call, operator_index, collective;
    uint32_t command; /* index in the timeline's commands, if there is a timeline */
    const char *name; /* of the kernel */
    uint8_t kind;     /* enum orr_op_kind */
    uint8_t activity; /* enum orr_activity */
    uint8_t has_cost; /* flops and bytes are known */
    uint8_t status;   /* enum orr_command_status */
    uint32_t prev_op; /* earlier op of its stream with the largest end (p), NONE; by prepare */
};

/* What the source says and what it cannot say. */
struct orr_events_source {
    const char *format; /* "orrery", "kineto", "nsys" */
    const char *status; /* of the run, "" unknown */
    bool modelled;      /* times come from a cost model: claim nothing about real machines */
    bool knows_waits;   /* dependencies between streams are recorded */
    bool knows_syncs;   /* what waiting calls waited for is recorded */
    bool has_time_base;
    int64_t time_base_ns;   /* added to no time here */
    uint64_t world_size;    /* processes of the run if the source says, else 0 */
    uint64_t dropped;       /* records that the tracer lost */
    uint64_t bad_ops;       /* excluded: end before start, or both 0, or beyond the time limit */
    uint64_t never_started; /* excluded: no start or no finish */
    uint64_t unfinished;    /* of those, started but not finished */
    uint64_t subns_stamps;
    uint64_t api_calls; /* API records */
    uint64_t
        bad_calls; /* of them, excluded: end before begin, or no thread: their ops are unlinked */
    uint64_t event_waits, event_waits_unresolved;
    uint64_t failed_ops, poisoned_ops, skipped_ops;
};

struct orr_events {
    const struct orr_memory *memory; /* borrowed until free */
    struct orr_events_source source;
    struct orr_events_device *devices;
    struct orr_events_stream *streams;
    struct orr_events_thread *threads;
    struct orr_events_call *calls;
    struct orr_events_sync *syncs;
    struct orr_events_wait *waits;
    struct orr_events_overhead *overheads;
    struct orr_events_operator *operators;
    struct orr_events_collective *collectives;
    struct orr_events_op *ops;
    size_t device_count, stream_count, thread_count, call_count, sync_count, wait_count,
        overhead_count, operator_count, collective_count, op_count;
    size_t device_capacity, stream_capacity, thread_capacity, call_capacity, sync_capacity,
        wait_capacity, overhead_capacity, operator_capacity, collective_capacity, op_capacity;

    /* --- derived by prepare --- */
    bool prepared;
    /* Ops of stream s: stream_order[stream_first[s] .. stream_first[s + 1]), in the order of the
     * definitions: by start, end, linked first, call begin, stream, correlation. Likewise
     * devices. */
    uint32_t *stream_order, *device_order;
    size_t *stream_first, *device_first;
    int64_t *stream_reach; /* parallel to stream_order: largest end up to here */
    uint32_t *op_position; /* of op i in stream_order */
    /* Calls of thread t by begin, end, name, and of equal ones by what they enqueued and wait for:
     * thread_order[thread_first[t] .. thread_first[t + 1]). */
    uint32_t *thread_order;
    size_t *thread_first;
    uint64_t ready_disagreements; /* ops whose recorded ready time is not what the edges explain */
    int64_t ready_disagreement_max_ns;
};

/* An empty model. `memory` is borrowed until free. */
void orr_events_init(struct orr_events *events, const struct orr_memory *memory);
/* Frees the arrays, not the texts. Accepts a zeroed or partly filled model. */
void orr_events_free(struct orr_events *events);

/* Room for so many ops and calls in all, for fillers that know: saves time and memory.
 * ORR_NO_MEMORY. */
enum orr_status orr_events_reserve(struct orr_events *events, size_t ops,
                                   size_t calls) ORR_MUST_CHECK;

/* A device. Appending, here and below: the item is copied, *out_index (may be NULL) is its index.
 * ORR_NO_MEMORY. */
enum orr_status orr_events_add_device(struct orr_events *events,
                                      const struct orr_events_device *device,
                                      uint32_t *out_index) ORR_MUST_CHECK;
/* A stream. */
enum orr_status orr_events_add_stream(struct orr_events *events,
                                      const struct orr_events_stream *stream,
                                      uint32_t *out_index) ORR_MUST_CHECK;
/* A host thread. */
enum orr_status orr_events_add_thread(struct orr_events *events,
                                      const struct orr_events_thread *thread,
                                      uint32_t *out_index) ORR_MUST_CHECK;
/* A call; its end is not before its begin. */
enum orr_status orr_events_add_call(struct orr_events *events, const struct orr_events_call *call,
                                    uint32_t *out_index) ORR_MUST_CHECK;
/* What a waiting call waits for. */
enum orr_status orr_events_add_sync(struct orr_events *events, const struct orr_events_sync *sync,
                                    uint32_t *out_index) ORR_MUST_CHECK;
/* A wait between streams. */
enum orr_status orr_events_add_wait(struct orr_events *events, const struct orr_events_wait *wait,
                                    uint32_t *out_index) ORR_MUST_CHECK;
/* Time of the profiler itself; its end is not before its begin. */
enum orr_status orr_events_add_overhead(struct orr_events *events,
                                        const struct orr_events_overhead *overhead,
                                        uint32_t *out_index) ORR_MUST_CHECK;
/* What many ops have in common; equal ones should be added once. */
enum orr_status orr_events_add_operator(struct orr_events *events,
                                        const struct orr_events_operator *item,
                                        uint32_t *out_index) ORR_MUST_CHECK;
/* A collective; ops name it by its index. */
enum orr_status orr_events_add_collective(struct orr_events *events,
                                          const struct orr_events_collective *collective,
                                          uint32_t *out_index) ORR_MUST_CHECK;

/* Adds an op, unless it is a bad record (end < start, start = end = 0, or a time beyond the limit):
 * those are counted in source.bad_ops and *out_index is ORR_EVENTS_NONE. */
enum orr_status orr_events_add_op(struct orr_events *events, const struct orr_events_op *op,
                                  uint32_t *out_index) ORR_MUST_CHECK;

/* Sorts and links; derives d from the waits and the ready times. Programmer errors (an index out of
 * range) are asserted. ORR_NO_MEMORY; ORR_UNSUPPORTED for more than 2^32 - 2 ops or calls. */
enum orr_status orr_events_prepare(struct orr_events *events,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* Fills and prepares a model from a timeline, our own or another tool's, whose texts it borrows:
 * the timeline must live as long as the model. On failure the model is empty. */
enum orr_status orr_events_from_timeline(const struct orr_timeline *timeline,
                                         const struct orr_memory *memory,
                                         struct orr_events *out_events,
                                         struct orr_error *error) ORR_MUST_CHECK;

/* --- readers of a prepared model --- */

/* True if the op has a call. */
static inline bool orr_events_linked(const struct orr_events_op *op) {
    return op->call != ORR_EVENTS_NONE;
}

/* True if a linked op starts before its call does: a clock violation, left out of latency
 * figures. */
static inline bool orr_events_early(const struct orr_events *events,
                                    const struct orr_events_op *op) {
    return op->call != ORR_EVENTS_NONE && op->start_ns < events->calls[op->call].begin_ns;
}

/* True if all members of a collective are in the trace, two of a send and its receive: only then is
 * it known who came last. A trace of one rank has its own members only. */
bool orr_events_whole(const struct orr_events_collective *collective);

/* p: the largest end of earlier ops of its stream, or ORR_TIME_NONE. */
static inline int64_t orr_events_previous_end(const struct orr_events *events,
                                              const struct orr_events_op *op) {
    return op->prev_op == ORR_EVENTS_NONE ? ORR_TIME_NONE : events->ops[op->prev_op].end_ns;
}

/* Of two calls the one that began first, ORR_EVENTS_NONE allowed; of equals by end, name and
 * thread, so that the answer does not depend on the order of the arrays. */
uint32_t orr__events_earlier_call(const struct orr_events *events, uint32_t a, uint32_t b);

/* The sync of each call, ORR_EVENTS_NONE without; of several the one that says most. */
void orr__events_find_syncs(const struct orr_events *events, uint32_t *out_syncs);

/* Of two syncs, ORR_EVENTS_NONE allowed: true if `a` says more of what its call waits for: an op
 * before a stream before a device, of ops the one that ends last. */
bool orr__events_sync_before(const struct orr_events *events, uint32_t a, uint32_t b);

/* The order of the definitions, over all ops. */
bool orr__events_op_before(const void *events, uint32_t a, uint32_t b);

#endif
