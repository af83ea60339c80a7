/* Stream programs: short lists of host calls that enqueue work on streams, as data.
 *
 * This is the one form in which the checks and the explorer see a program, whoever wrote it: a line
 * of a PROGRAM.jsonl file (hazards/stream_program_read.h), a recorded run of a scenario, a test
 * that builds one by hand. docs/stream_programs.md says what the operations mean.
 *
 *     struct orr_stream_program *program;
 *     orr_stream_program_create(&memory, &program);
 *     uint32_t s0, a;
 *     orr_stream_program_stream(program, "s0", 0, ORR_STREAM_NB, &s0);
 *     orr_stream_program_name(program, ORR_NAME_BUFFER, "A", &a);
 *     struct orr_stream_op kernel = orr_stream_op(ORR_OP_KERNEL);
 *     kernel.stream = s0;
 *     struct orr_stream_access write = {.buffer = a, .hi = ORR_RANGE_WHOLE, .is_write = true};
 *     orr_stream_program_add(program, &kernel, &write, 1);
 *
 * Names are numbers: each name space (streams, hosts, events, ...) counts from 0 in order of first
 * use. Host 0 is "h", the default. An operation's index in `ops` is its name in verdicts.
 *
 * Ownership: a program owns everything in it; texts are copied. The arrays are borrowed and move
 * when something is added.
 *
 * Threads: one at a time while it changes; immutable afterwards, for any number of readers. */
#ifndef ORR_HAZARDS_STREAM_PROGRAM_H
#define ORR_HAZARDS_STREAM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "hazards/name_table.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/record.h"

/* X(NAME, "text"): operations, as in the field `op`. */
#define ORR_STREAM_OP_LIST(X)                                                                      \
    X(KERNEL, "kernel")                                                                            \
    X(HOSTFN, "hostfn")                                                                            \
    X(MEMSET, "memset")                                                                            \
    X(MEMCPY, "memcpy")                                                                            \
    X(MEMCPY_SYNC, "memcpy_sync")                                                                  \
    X(MEMSET_SYNC, "memset_sync")                                                                  \
    X(COLL, "coll")                                                                                \
    X(SEND, "send")                                                                                \
    X(RECV, "recv")                                                                                \
    X(GROUP_START, "group_start")                                                                  \
    X(GROUP_END, "group_end")                                                                      \
    X(HOST_READ, "host_read")                                                                      \
    X(HOST_WRITE, "host_write")                                                                    \
    X(VIEW, "view")                                                                                \
    X(RECORD, "record")                                                                            \
    X(WAIT, "wait")                                                                                \
    X(SYNC_EVENT, "sync_event")                                                                    \
    X(QUERY_OK, "query_ok")                                                                        \
    X(EVENT_QUERY, "event_query")                                                                  \
    X(SYNC_STREAM, "sync_stream")                                                                  \
    X(STREAM_QUERY_OK, "stream_query_ok")                                                          \
    X(SYNC_DEVICE, "sync_device")                                                                  \
    X(IMPLICIT_SYNC, "implicit_sync")                                                              \
    X(EVENT_CREATE, "event_create")                                                                \
    X(EVENT_DESTROY, "event_destroy")                                                              \
    X(STREAM_CREATE, "stream_create")                                                              \
    X(STREAM_DESTROY, "stream_destroy")                                                            \
    X(NOTIFY, "notify")                                                                            \
    X(AWAIT, "await")                                                                              \
    X(LOCK, "lock")                                                                                \
    X(UNLOCK, "unlock")                                                                            \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(RECORD_STREAM, "record_stream")                                                              \
    X(ALLOC_ASYNC, "alloc_async")                                                                  \
    X(FREE_ASYNC, "free_async")                                                                    \
    X(CUDA_MALLOC, "cuda_malloc")                                                                  \
    X(CUDA_FREE, "cuda_free")                                                                      \
    X(HOST_FREE, "host_free")                                                                      \
    X(ALIAS, "alias")                                                                              \
    X(CAPTURE_BEGIN, "capture_begin")                                                              \
    X(CAPTURE_END, "capture_end")                                                                  \
    X(GRAPH_LAUNCH, "graph_launch")

enum orr_stream_op_kind {
#define ORR_STREAM_OP_ENUM(name, text) ORR_OP_##name,
    ORR_STREAM_OP_LIST(ORR_STREAM_OP_ENUM)
#undef ORR_STREAM_OP_ENUM
        ORR_OP_COUNT
};

/* Name spaces. Ranks and words (kinds of collectives) are compared as the JSON values they were. */
enum orr_name_space {
    ORR_NAME_STREAM,
    ORR_NAME_HOST,
    ORR_NAME_EVENT,
    ORR_NAME_FLAG,
    ORR_NAME_LOCK,
    ORR_NAME_BUFFER,
    ORR_NAME_COMM,
    ORR_NAME_RANK,
    ORR_NAME_WORD,
    ORR_NAME_SPACES
};

/* Which question a program asks. */
enum orr_oracle { ORR_ORACLE_HB, ORR_ORACLE_HANG, ORR_ORACLE_CAPTURE };

enum orr_memory_kind {
    ORR_MEMORY_DEV,
    ORR_MEMORY_PINNED,
    ORR_MEMORY_PAGEABLE,
    ORR_MEMORY_MANAGED,
    ORR_MEMORY_EMPTY
};

enum orr_capture_mode { ORR_CAPTURE_GLOBAL, ORR_CAPTURE_THREAD_LOCAL, ORR_CAPTURE_RELAXED };

#define ORR_NONE        UINT32_MAX /* no such stream, buffer, ... */
#define ORR_RANGE_WHOLE UINT64_MAX /* `hi` of a whole buffer, whose `lo` is 0 */
#define ORR_NO_LIMIT    UINT64_MAX /* queue_depth */

/* One range that an operation reads or writes: [lo, hi) of a buffer; hi <= lo is no access. */
struct orr_stream_access {
    uint32_t buffer;
    bool is_write;
    uint64_t lo, hi;
};

/* A step of a host function under oracle hang. */
struct orr_stream_step {
    enum orr_stream_op_kind kind; /* LOCK, UNLOCK, SYNC_STREAM */
    uint32_t object;              /* lock or stream */
};

/* One call. Fields that an operation does not have are ORR_NONE, or 0 for counts. */
struct orr_stream_op {
    uint8_t kind;    /* enum orr_stream_op_kind */
    bool ignored;    /* of a wait: inside a group, no effect */
    uint32_t host;   /* who calls */
    uint32_t stream; /* on which stream; the memcpy_sync and memset_sync forms have `device` */
    uint32_t object; /* event of record, wait, sync_event, ...; flag; lock; buffer of alloc, free,
                       * view, ...; communicator of coll, send, recv */
    uint32_t other;  /* buffer of `reuse` and `of`; rank of `peer` */
    uint32_t rank;   /* of coll, send, recv: who it is; name space RANK */
    uint32_t word;   /* kind of a coll, name space WORD; ORR_NONE if missing */
    uint32_t
        count;     /* of a coll, name space WORD too; ORR_NONE: 1, the default, explicit ones too */
    uint32_t site; /* where it stands, for messages: name space WORD; ORR_NONE: nowhere */
    uint32_t label;  /* what it is called, for messages: name space WORD; ORR_NONE */
    uint32_t device; /* `dev` of sync_device, memcpy_sync, ... */
    uint32_t access_first, access_count; /* in `accesses`: reads as listed, then writes */
    uint32_t step_first, step_count;     /* in `steps`: body of a hostfn */
    uint32_t device_first, device_count; /* in `devices`: `devs`; count 0: `device` */
};

struct orr_stream_info {
    uint32_t device;
    enum orr_stream_sync sync;
};

struct orr_comm_info {
    uint32_t member_first, member_count; /* in `members`: ranks, name space RANK */
};

struct orr_stream_program {
    const struct orr_memory *memory;
    enum orr_oracle oracle;
    bool is_staged;   /* `pageable` is "staged" */
    bool nccl_serial; /* R38 */
    enum orr_capture_mode capture_mode;
    uint64_t slots;       /* communication entries at once on a device; 99 */
    uint64_t queue_depth; /* ORR_NO_LIMIT */
    struct orr__name_table names[ORR_NAME_SPACES];
    struct orr_stream_info *streams; /* names[ORR_NAME_STREAM].count of them, and so on */
    enum orr_memory_kind *buffers;
    struct orr_comm_info *comms;
    struct orr_stream_op *ops;
    struct orr_stream_access *accesses;
    struct orr_stream_step *steps;
    uint32_t *devices, *members;
    uint32_t op_count, access_count, step_count, device_count, member_count;
    size_t stream_capacity, buffer_capacity, comm_capacity, op_capacity, access_capacity,
        step_capacity, device_capacity, member_capacity;
};

/* Text of an operation, as in the field `op`. */
const char *orr_stream_op_text(enum orr_stream_op_kind kind);

/* An operation without fields: host 0, everything else absent, device 0. */
struct orr_stream_op orr_stream_op(enum orr_stream_op_kind kind);

/* An empty program: oracle hb, every option at its default, host "h". `memory` is borrowed. */
enum orr_status orr_stream_program_create(const struct orr_memory *memory,
                                          struct orr_stream_program **out_program) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr_stream_program_destroy(struct orr_stream_program **program);

/* A deep copy. */
enum orr_status orr_stream_program_copy(const struct orr_stream_program *program,
                                        struct orr_stream_program **out_copy) ORR_MUST_CHECK;
/* A copy without the operations whose `keep` is false (array of op_count). */
enum orr_status orr_stream_program_subset(const struct orr_stream_program *program,
                                          const bool *keep,
                                          struct orr_stream_program **out_copy) ORR_MUST_CHECK;

/* The number of a name, new ones at the end. New buffers are device memory; new streams and
 * communicators get theirs from the functions below. */
enum orr_status orr_stream_program_name(struct orr_stream_program *program,
                                        enum orr_name_space space, const char *text,
                                        uint32_t *out_id) ORR_MUST_CHECK;
/* The text of a number; "" for ORR_NONE. */
const char *orr_stream_program_text(const struct orr_stream_program *program,
                                    enum orr_name_space space, uint32_t id);
enum orr_status orr_stream_program_stream(struct orr_stream_program *program, const char *name,
                                          uint32_t device, enum orr_stream_sync sync,
                                          uint32_t *out_id) ORR_MUST_CHECK;
enum orr_status orr_stream_program_buffer(struct orr_stream_program *program, const char *name,
                                          enum orr_memory_kind kind,
                                          uint32_t *out_id) ORR_MUST_CHECK;
/* `ranks` are of name space RANK. */
enum orr_status orr_stream_program_comm(struct orr_stream_program *program, const char *name,
                                        const uint32_t *ranks, uint32_t count,
                                        uint32_t *out_id) ORR_MUST_CHECK;

/* Appends an operation with its accesses (reads first). Body and devices follow by the calls
 * below. */
enum orr_status orr_stream_program_add(struct orr_stream_program *program,
                                       const struct orr_stream_op *op,
                                       const struct orr_stream_access *accesses,
                                       uint32_t count) ORR_MUST_CHECK;
/* To the last operation. */
enum orr_status orr_stream_program_add_step(struct orr_stream_program *program,
                                            struct orr_stream_step step) ORR_MUST_CHECK;
enum orr_status orr_stream_program_add_device(struct orr_stream_program *program,
                                              uint32_t device) ORR_MUST_CHECK;
/* Puts an operation (without accesses) before operation `index`; later indices grow by one. For
 * fixes: a record, a wait. */
enum orr_status orr_stream_program_insert(struct orr_stream_program *program, uint32_t index,
                                          const struct orr_stream_op *op) ORR_MUST_CHECK;

/* One operation in short form ("k s0 r:A w:B[0:4]", docs/stream_programs.md), cut to `size`. */
void orr_stream_op_short(const struct orr_stream_program *program, uint32_t index, char *text,
                         size_t size);

#endif
