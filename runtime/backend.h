/* The backend seam: everything the runtime asks of a machine. Simulated devices, CPU threads and
 * CUDA each are one `struct orr_backend`, opened with a list of devices and passed in by main();
 * there is no registry and no global.
 *
 * One door, `submit`, takes every command of every kind with a list of points to wait for, and
 * gives back the command's own point: (stream, sequence number), meaning "this stream has retired
 * n". An event is a thin object over a point; a record is a command of kind RECORD, a wait one of
 * kind WAIT whose wait list holds the event's point.
 *
 *     struct orr_point produced, consumed;
 *     backend->verbs->submit(backend, compute, &produce, NULL, 0, &produced, &error);
 *     backend->verbs->submit(backend, communicate, &consume, &produced, 1, &consumed, &error);
 *     backend->verbs->wait(backend, host, &consumed, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &error);
 *
 * Contract of every backend (the conformance suite checks it):
 *  1. A stream is FIFO: command n+1 starts at or after the finish of n. Nothing else is ordered but
 *     by wait lists.
 *  2. start >= enqueue; start >= finish of every awaited point.
 *  3. submit never blocks. A full queue answers ORR_FULL and the point that makes room.
 *  4. A failed command poisons its stream: later commands, and whoever awaits a point of it, end as
 *     SKIPPED with the first cause kept. Points retire all the same, so nothing hangs.
 *  5. Every command is handed back exactly once through `retire`, on the host thread, within a call
 *     to submit, submit_group, query, wait, poll or close; commands of one stream in order, and
 *     none before what it waited for.
 *  6. Points of streams and memory ids are never reused while the backend is open.
 *
 * Threads: all verbs are called from one thread, the one that opened the backend. */
#ifndef ORR_RUNTIME_BACKEND_H
#define ORR_RUNTIME_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/device_spec.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/perturb.h"
#include "runtime/record.h"
#include "runtime/task.h"

enum { ORR_BACKEND_ABI = 2 };
#define ORR_TIME_MAX INT64_MAX

/* "Stream `stream` has retired its first `seq` commands." seq 0 is always true. */
struct orr_point {
    uint32_t stream;
    uint32_t pad;
    uint64_t seq;
    uint64_t cmd; /* id of command `seq`, for trace edges; filled by the host layer, 0 unknown */
};

/* A byte range of device or host memory that a command reads or writes. */
struct orr_access {
    uint32_t memory; /* from memory_create */
    uint32_t mode;   /* enum orr_access_mode */
    uint64_t offset, bytes;
};

/* How terms become one number; sums and averages are taken in rank order. Of bools a sum and a
 * maximum is "or", an average and a minimum "and". */
enum orr_reduction { ORR_SUM, ORR_AVG, ORR_MAX, ORR_MIN };

/* What a command of kind COLLECTIVE does; one per member, all members submitted as one group.
 * Counts are in elements. `in` and `out` are host pointers where numbers are computed, else
 * NULL. "piece r" is `count` elements, or counts[r] if `counts` is there: pieces may differ in
 * size. */
enum orr_collective_kind {
    ORR_COLLECTIVE_ALL_REDUCE,     /* out[count] = reduction over ranks of in[count] */
    ORR_COLLECTIVE_ALL_GATHER,     /* out = concatenation of the pieces, rank r's in = piece r */
    ORR_COLLECTIVE_REDUCE_SCATTER, /* out = piece `rank` of the reduction of in = all pieces */
    ORR_COLLECTIVE_BROADCAST,      /* out[count] = root's in[count] */
    ORR_COLLECTIVE_BARRIER,
    ORR_COLLECTIVE_REDUCE,  /* at the root, out[count] = reduction over ranks of in[count] */
    ORR_COLLECTIVE_GATHER,  /* at the root, out = concatenation of the pieces */
    ORR_COLLECTIVE_SCATTER, /* out = piece `rank` of the root's in = all pieces */
    /* rank s's in = what it sends to rank 0, 1, ...; rank t's out = what it gets from rank 0, 1,
     * ...: `count` each, or counts[s * ranks + t] */
    ORR_COLLECTIVE_ALL_TO_ALL,
    ORR_COLLECTIVE_SEND_RECEIVE, /* the transfers; members are the ranks that take part in one */
    ORR_COLLECTIVE_KIND_COUNT
};

const char *orr_collective_kind_text(enum orr_collective_kind kind); /* "all_reduce", ... */
const char *orr_reduction_text(enum orr_reduction reduction);        /* "sum", ... */

/* `count` elements from a rank to another, or to itself. */
struct orr_transfer {
    uint32_t source, target;
    uint64_t count;
    const void *from; /* host pointers where numbers are computed, else NULL */
    void *to;
};

struct orr_collective {
    enum orr_collective_kind kind;
    enum orr_dtype dtype;
    uint32_t communicator, rank, ranks, root;
    uint64_t count;
    const void *in;
    void *out;
    enum orr_reduction reduction; /* ALL_REDUCE, REDUCE, REDUCE_SCATTER */
    uint32_t transfer_count;
    /* Equal for all members, valid until they are retired. */
    const uint64_t *counts;               /* NULL: `count` each */
    const struct orr_transfer *transfers; /* SEND_RECEIVE */
};

struct orr_command;

/* Computes a command's effect on memory; called by the backend when its simulated run finishes, or
 * on the worker thread; not called for a command that ends POISONED or SKIPPED. Must not call the
 * runtime. Returns ORR_OK or the reason of a device failure. A backend with separate memory calls
 * it only if the command's task is ORR_TASK_HOST, or if nobody describes tasks. */
typedef enum orr_status (*orr_command_run)(const struct orr_command *command,
                                           struct orr_error *error);

/* A command as the host layer hands it over. The backend copies it, or uses it where it is if
 * `in_place` says so; `work`, `accesses` and `context` stay valid until it is retired. */
struct orr_command {
    /* The host fills ids, kind, name, site, cost, host, device, stream; enqueue_ns may be
     * ORR_TIME_NONE (then: now). The backend fills seq, times and status. */
    struct orr_record_command record;
    int64_t submit_ns;  /* virtual clocks: what the call costs its host; -1: the device spec says */
    int64_t service_ns; /* virtual clocks: device service; -1: the cost model says */
    uint32_t flags;     /* ORR_COMMAND_* below */
    uint32_t access_count;
    const struct orr_access *accesses;
    orr_command_run run;                     /* NULL: nothing to compute */
    void *work;                              /* for run */
    const struct orr_collective *collective; /* kind COLLECTIVE only */
    void *context;                           /* the runtime's, given back at retire */
    /* NULL, or where this very command is if it stays there until it is retired: a backend may keep
     * this pointer instead of a copy, and fill in the record there once submit has accepted it. */
    struct orr_command *in_place;
};

/* How much from the address of a command in place on its end will touch, for backends that fetch it
 * ahead: the command, and what the host layer keeps behind it. */
enum { ORR_COMMAND_FETCH_BYTES = 384 };

enum {
    /* Part of a graph launch: costs graph_node_ns, no launch, and belongs to the graph's call, so
     * that it does not wait for its host's turn. */
    ORR_COMMAND_GRAPH_NODE = 1,
    /* Part of a call whose host's turn has been asked at its beginning: one operator enqueues many
     * commands, and acts as one. */
    ORR_COMMAND_IN_CALL = 2
};

/* What a command does, as data; `command` is the one that was submitted, or the backend's copy. */
typedef void (*orr_command_describe)(const struct orr_command *command, struct orr_task *out_task);

/* One thing worth knowing of a run, as a row of the trace's table meta. A key that ends in
 * "_warning" has a sentence for whoever asked for the run. */
typedef void (*orr_backend_note)(void *context, const char *key, const char *value);

/* How the host layer hears of retired commands. `command->record` is complete. A failed command's
 * first cause is in `error` (NULL otherwise). */
struct orr_retire {
    void (*retired)(void *context, const struct orr_command *command,
                    const struct orr_error *error);
    void *context;
};

enum orr_wait_mode { ORR_WAIT_ALL, ORR_WAIT_ANY };

/* Who pays for launches: the calling host, or one dispatch host for each device, to which the
 * caller only hands the command over. Dispatch hosts have the host ids 1 .. device_count; the
 * backend sets record.host of what they launch. */
enum orr_runner { ORR_RUNNER_INLINE, ORR_RUNNER_PER_DEVICE };

/* What to open. All pointers are borrowed until close. */
struct orr_backend_config {
    const struct orr_memory *memory;
    const struct orr_device_spec *specs; /* device_count of them, one per device */
    uint32_t device_count;
    bool timing_only; /* no memory behind buffers, nothing computed */
    enum orr_runner runner;
    uint64_t seed;
    const void *options; /* the backend's own, described in its header; NULL: its defaults */
    struct orr_retire retire;
    orr_command_describe describe; /* NULL: commands have their `run` only, on host memory */
    const struct orr_names *names; /* of the ids in records, for messages; NULL: none */
    /* Ids of the texts of enum orr_ts_source, for ts_source of commands whose clock is not the
     * run's; NULL: nobody wants to know. */
    const uint32_t *ts_sources;
};

struct orr_backend;

struct orr_backend_verbs {
    uint32_t abi;           /* ORR_BACKEND_ABI */
    const char *name;       /* "sim", "cpu", "cuda": meta.backend */
    const char *clock;      /* "virtual", "monotonic", "device": meta.clock */
    const char *collective; /* algorithm that collectives run, or are timed as: "ring", "direct" */
    bool separate_memory;   /* the host can't reach a device's memory; memory_write is there */

    /* Ends all commands that can still end, retires the rest as PENDING, frees everything. */
    void (*close)(struct orr_backend *backend);

    /* `bytes` of memory of a device, or of pinned host memory for device ORR_ID_NONE. Contents are
     * undefined. ORR_NO_MEMORY when the host has none; capacity is the runtime's business. */
    enum orr_status (*memory_create)(struct orr_backend *backend, uint32_t device, uint64_t bytes,
                                     uint32_t *out_memory, struct orr_error *error);
    /* All commands that use it have retired (asserted where it can be). */
    void (*memory_destroy)(struct orr_backend *backend, uint32_t memory);
    /* Its address as commands use it, aligned to 64 bytes; NULL under timing_only. The host may use
     * it too, but that of a device with separate memory. Stable until destroy. */
    void *(*memory_pointer)(struct orr_backend *backend, uint32_t memory);

    /* A stream of a device; ids count from 0 over the whole backend, in order of creation. */
    enum orr_status (*stream_create)(struct orr_backend *backend, uint32_t device,
                                     enum orr_stream_kind kind, uint32_t *out_stream,
                                     struct orr_error *error);
    /* Work already in it completes; its id is not reused. */
    void (*stream_destroy)(struct orr_backend *backend, uint32_t stream);

    /* Appends a command to a stream. Returns ORR_OK and its point; ORR_FULL and the point to wait
     * for; ORR_BLOCKED if another host must run first (then nothing happened). */
    enum orr_status (*submit)(struct orr_backend *backend, uint32_t stream,
                              const struct orr_command *command, const struct orr_point *waits,
                              uint32_t wait_count, struct orr_point *out_point,
                              struct orr_error *error);

    /* Appends one command to each of `count` streams, all or none: the members of a collective.
     * Each starts when it has reached the head of its stream; all finish together.
     * `out_points` has `count` entries; with ORR_FULL out_points[0] is the point that makes
     * room. */
    enum orr_status (*submit_group)(struct orr_backend *backend, const uint32_t *streams,
                                    const struct orr_command *commands, uint32_t count,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_points, struct orr_error *error);

    /* ORR_OK if the point has retired, ORR_NOT_READY if not. Costs the host one call. */
    enum orr_status (*query)(struct orr_backend *backend, uint32_t host, struct orr_point point);

    /* Blocks `host` until all or any of the points have retired, or its clock reaches deadline_ns
     * (ORR_NOT_READY). ORR_DEVICE_FAILED with the reason if they never can (a hang). Returns ORR_OK
     * also for points that retired as failed: ask fail_of. */
    enum orr_status (*wait)(struct orr_backend *backend, uint32_t host,
                            const struct orr_point *points, uint32_t count, enum orr_wait_mode mode,
                            int64_t deadline_ns, struct orr_error *error);

    /* Retires what is done by now, without cost. */
    void (*poll)(struct orr_backend *backend);

    /* The host's clock, ns since open. Free of charge. */
    int64_t (*now)(struct orr_backend *backend, uint32_t host);

    /* First failure of a stream: ORR_OK, or ORR_DEVICE_FAILED with the cause in *error. */
    enum orr_status (*fail_of)(struct orr_backend *backend, uint32_t stream,
                               struct orr_error *error);

    /* --- optional, NULL where the machine has no such thing --- */

    /* Another host (a controller or rank thread with its own clock); host 0 exists from open. With
     * more than one live host, calls made for a host that is not the earliest answer ORR_BLOCKED
     * and do nothing, and a wait that is not over yet blocks its host and answers ORR_BLOCKED: the
     * caller then asks host_next whom to run, and repeats the call when it is that host's turn. */
    enum orr_status (*host_create)(struct orr_backend *backend, uint32_t *out_host);

    /* The host to run next: the earliest one that can act, after the device events before it.
     * ORR_NOT_READY if all are done; ORR_DEVICE_FAILED and the reason if all that are left are
     * parked or wait for what can't happen. */
    enum orr_status (*host_next)(struct orr_backend *backend, uint32_t *out_host,
                                 struct orr_error *error);
    /* The host makes no more calls. */
    void (*host_done)(struct orr_backend *backend, uint32_t host);

    /* There if host_create is: the host stops until another one unparks it, for layers in which
     * hosts wait for each other. It goes on no earlier than the clock of host `by`. */
    void (*host_park)(struct orr_backend *backend, uint32_t host);
    void (*host_unpark)(struct orr_backend *backend, uint32_t host, uint32_t by);

    /* Optional: why a host makes no call, for whoever describes a hang: the wait for a point that
     * it is in ("in a wait for command 3 of stream 1 of device 0, ..."), or that it is lost ("makes
     * no more calls"). False if it is in neither. */
    bool (*host_reason)(struct orr_backend *backend, uint32_t host, char *text, size_t size);

    /* Virtual clocks: the host computes for `ns`. */
    void (*host_spend)(struct orr_backend *backend, uint32_t host, int64_t ns);

    /* A host access to memory, done at the host's clock without a stream: `run` is called at once,
     * its record filled (start and finish = enqueue and enqueued) and retired. It costs its host
     * service_ns. Virtual clocks check it against running commands: one that races, or reads
     * undefined bytes, ends as POISONED. */
    enum orr_status (*host_access)(struct orr_backend *backend, const struct orr_command *command,
                                   struct orr_error *error);

    /* Virtual clocks: the fate of bytes that get a new owner: undefined from the point on where
     * `stream`, for which they are allocated, is now. What is still enqueued there may use them. */
    void (*memory_undefine)(struct orr_backend *backend, uint32_t stream, uint32_t memory,
                            uint64_t offset, uint64_t bytes);
    /* The opposite: bytes that the host layer wrote itself before any command could see them. */
    void (*memory_define)(struct orr_backend *backend, uint32_t memory, uint64_t offset,
                          uint64_t bytes);

    /* There if memory is separate: bytes that the host layer writes to a device's memory before any
     * command could see them; `from` NULL: zeros. Done when it returns. */
    enum orr_status (*memory_write)(struct orr_backend *backend, uint32_t memory, uint64_t offset,
                                    const void *from, uint64_t bytes, struct orr_error *error);

    /* What is worth knowing of the run so far besides its commands. */
    void (*notes)(const struct orr_backend *backend, orr_backend_note note, void *context);

    /* Optional: launches of a recorded program as one piece of work of the machine. Between begin
     * and end the host layer submits the `count` commands of one launch of the program `graph`, all
     * with the flag ORR_COMMAND_GRAPH_NODE and nothing else; `fork` is the point of its command of
     * kind GRAPH, behind which they come. Each launch submits equal commands to the same streams,
     * which wait for each other in the same way; those that wait for points from before the launch
     * do so in the program's first one only. A backend may record what it enqueues the second time,
     * and enqueue the record from then on. If submit answers anything but ORR_OK in between, the
     * launch may go on later, with other commands in between, or not at all. */
    enum orr_status (*graph_begin)(struct orr_backend *backend, uint32_t graph,
                                   struct orr_point fork, uint32_t count, struct orr_error *error);
    enum orr_status (*graph_end)(struct orr_backend *backend, uint32_t graph,
                                 struct orr_error *error);
    /* The program is gone, and its launches have retired. Also called within `retire`, and for
     * programs that were never launched. */
    void (*graph_forget)(struct orr_backend *backend, uint32_t graph);

    /* For running a program many times: retires whatever is left as PENDING, and is then as it was
     * right after open; ids start again. */
    void (*rewind)(struct orr_backend *backend);
    /* Where the order of hosts is a choice: what the host's next call is about, whose turn it asks
     * for by host_next. Calls about different things commute. */
    void (*host_concerns)(struct orr_backend *backend, uint32_t host, uint64_t thing);

    /* Before any other call: what is to go slower, fail or be lost from now on. Called again, with
     * the same object, when it has got more rules. It is borrowed until close; the backend counts
     * and notes faults in it. Rules about memory are the runtime's. ORR_UNSUPPORTED names a rule
     * that the machine can't keep. */
    enum orr_status (*perturb)(struct orr_backend *backend, struct orr_perturb *perturb,
                               struct orr_error *error);
};

/* First member of every backend's own struct. */
struct orr_backend {
    const struct orr_backend_verbs *verbs;
};

/* Opens a backend; each backend has one function of this type. *out_backend is owned by the caller
 * and closed by its close verb. ORR_UNAVAILABLE with the reason if the machine can't have it. */
typedef enum orr_status (*orr_backend_open)(const struct orr_backend_config *config,
                                            struct orr_backend **out_backend,
                                            struct orr_error *error);

#endif
