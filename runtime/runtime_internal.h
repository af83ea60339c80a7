/* The host layer's private twin: the runtime's structs, and the choke point that every command
 * passes.
 *
 * A call of the API that enqueues takes a pending object from the runtime's pool, fills in its
 * command and its ranges, and submits it:
 *
 *     struct orr__pending *pending = orr__pending_take(runtime, ORR_COMMAND_KERNEL, name, 2);
 *     status = orr__pending_add(pending, stream->device, &range);
 *     status = orr__runtime_submit(stream, pending, waits, wait_count, &point);
 *
 * Submitting consumes the pending object whatever the result. It assigns the command's id, waits
 * for room in a full queue, passes ORR_BLOCKED up with nothing changed, and writes the command's
 * edges and accesses; the retire callback writes the command itself and returns the object to the
 * pool. A backend may retire a command within its own submit, so nothing of the pending object is
 * touched afterwards.
 *
 * Failures: orr__runtime_fail sets the runtime's error text and returns the status.
 *
 * Threads: as the runtime. A backend's worker calls `run` of a command, which reads the pending
 * object's constant fields and nothing else. */
#ifndef ORR_RUNTIME_RUNTIME_INTERNAL_H
#define ORR_RUNTIME_RUNTIME_INTERNAL_H

#include "runtime/allocator.h"
#include "runtime/communicator.h"
#include "runtime/observer.h"

enum {
    ORR__PENDING_INLINE = 6,    /* ranges without an array of their own */
    ORR__NAME_CACHE = 64,       /* a power of two */
    ORR__STREAMS_MAX = 1 << 20, /* of a runtime */
    ORR__HOSTS_MAX = 1 << 16,
    ORR__STREAM_KINDS = 3,
    ORR__EVENT_NAMES = 1 << 12 /* of numbered events that are kept */
};

/* A command between its call and its retirement. It is what the runtime has most of, up to a
 * thousand for each stream, so it is laid out by use: four cache lines for every command, then
 * what only those with ranges, and collectives, have.
 *
 *     0 [ record                   ][ ... ]   written at the call, completed and copied to the sink
 *   128 [ rest of the command      ]          at the end
 *   200 [ what retiring it takes   ]
 *   256 [ ..buffers][accesses..    ]          here or behind three ranges it may be cut off
 *   448 [ pointers, collective     ] */
struct orr__pending {
    struct orr_command command; /* first; in place: the backend may keep its address */
    struct orr__pending *next;  /* in a pool */
    struct orr_runtime *runtime;
    void (*release)(void *work);  /* of command.work */
    orr_kernel_describe describe; /* KERNEL whose run is not NULL; may be NULL */
    union {
        enum orr_status (*kernel_run)(void *work, struct orr_error *error); /* KERNEL */
        uint64_t name_digest;       /* KERNEL whose run is NULL: what it computes begins with it */
        orr_host_function function; /* HOSTFN; its context is command.work */
    };
    struct orr_communicator *communicator; /* COLLECTIVE; NULL otherwise */
    uint32_t capacity;                     /* ranges that there is room for */
    bool untold;          /* submitted, but its edges and accesses are not written yet */
    uint8_t value;        /* FILL */
    uint8_t first_buffer; /* of the inline ones */
    /* Ranges; command.access_count are filled. So that a few take few lines, the accesses grow
     * upwards from where the buffers, which are as many, end. */
    struct orr_buffer *inline_buffers[ORR__PENDING_INLINE];
    struct orr_access inline_accesses[ORR__PENDING_INLINE];
    struct orr_access *more_accesses; /* instead, if there are more: of `capacity` */
    struct orr_buffer **more_buffers;
    struct orr_collective collective;
};

static inline struct orr_access *orr__pending_accesses(struct orr__pending *pending) {
    return pending->capacity > ORR__PENDING_INLINE ? pending->more_accesses
                                                   : pending->inline_accesses;
}

static inline struct orr_buffer **orr__pending_buffers(struct orr__pending *pending) {
    return pending->capacity > ORR__PENDING_INLINE
               ? pending->more_buffers
               : &pending->inline_buffers[pending->first_buffer];
}

/* The buffer of access `index`. */
static inline struct orr_buffer *orr__pending_buffer(const struct orr__pending *pending,
                                                     uint32_t index) {
    return pending->capacity > ORR__PENDING_INLINE
               ? pending->more_buffers[index]
               : pending->inline_buffers[pending->first_buffer + index];
}

/* Pending objects come in sizes: cut off behind what every command has, behind a few ranges, or
 * complete, as collectives and kernels with many ranges need them. */
enum orr__pending_size {
    ORR__PENDING_PLAIN,
    ORR__PENDING_FEW,
    ORR__PENDING_WHOLE,
    ORR__PENDING_SIZES
};

enum {
    ORR__PENDING_FEW_RANGES = 3,
    ORR__PENDING_SLAB_MIN = 16, /* objects of a slab; each slab is twice the one before */
    ORR__PENDING_SLAB_BYTES_MAX = 32 << 20 /* up to this */
};

/* Pending objects are cut from slabs, which are freed with the runtime. */
struct orr__pending_slab {
    struct orr__pending_slab *next;
    char *objects; /* lines */
    size_t object_bytes, used, count;
};

struct orr__pending_pool {
    struct orr__pending *free; /* the last one given back comes first: it is in the cache */
    struct orr__pending_slab *slabs;
};

/* Who may take commands instead of the backend: a capture in progress. Set in runtime->capture by
 * the program layer, which owns it. Every hook answers in *out_taken whether the call was its
 * business; if not, the call goes its usual way. */
struct orr__capture {
    uint32_t host; /* whose calls are recorded */
    /* A command for a stream. When taken, the pending object belongs to the capture (give it back
     * with orr__pending_drop), its id is 0, and *out_point is whatever the capture wants to see in
     * later waits. */
    enum orr_status (*command)(struct orr__capture *capture, struct orr_stream *stream,
                               struct orr__pending *pending, const struct orr_point *waits,
                               uint32_t wait_count, struct orr_point *out_point, bool *out_taken);
    /* A group: one command for each of `count` streams. */
    enum orr_status (*group)(struct orr__capture *capture, struct orr_stream *const *streams,
                             struct orr__pending *const *pending, uint32_t count,
                             const struct orr_point *waits, uint32_t wait_count,
                             struct orr_point *out_points, bool *out_taken);
    /* The host waits for, or asks about, these points: ORR_UNSUPPORTED, it can't be recorded. */
    enum orr_status (*host_wait)(struct orr__capture *capture, const struct orr_point *points,
                                 uint32_t count, bool *out_taken);
};

/* How far a stream has waited for another one. */
struct orr__awaited {
    uint64_t seq;
    uint32_t stream;
    uint64_t wait, epoch; /* the last wait that counted, and the epoch it was in */
};

/* What every command touches is in the first cache line. */
struct orr_stream {
    struct orr_runtime *runtime;
    uint32_t id, device;
    struct orr_point last; /* last command enqueued */
    uint64_t retired_seq;  /* commands retired */
    uint64_t failed_seq;   /* the first that failed or was skipped, 0 none */
    int64_t finish_ns;     /* of the last retired one */
    uint32_t name;
    enum orr_stream_kind kind;
    bool destroyed;
    uint32_t failed_site; /* of the command whose failure that was, as far as it is known; */
    uint32_t failed_name; /* names, 0 unknown */
    uint32_t seen_host;   /* who has last seen something here retired: */
    uint32_t seen_index;  /* its entry in that host's list, */
    uint64_t seen_cmd;    /* and the command; 0: nobody */
    enum orr_stream_sync sync;
    uint64_t awaits_seq;  /* of a blocking stream: commands of the legacy one that it waits for, */
    uint64_t awaited_seq; /* and of its own that the legacy one waits for */
    struct orr_point barrier;     /* of a legacy stream: its last command but records */
    struct orr__awaited *awaited; /* only in runs that leave out a wait */
    size_t awaited_count, awaited_capacity;
    uint64_t epoch;          /* of such a run: commands that are no waits, so far */
    struct orr_stream *next; /* of its device */
    struct orr__pool *pool;  /* its blocks; made on first use */
};

/* Names of an event: its own, and of its commands. */
struct orr__event_names {
    uint32_t name, record, wait;
};

struct orr_event {
    struct orr_runtime *runtime;
    struct orr_event *previous, *next; /* of the runtime */
    struct orr_point point;            /* seq 0: never recorded */
    struct orr__event_names names;
    bool recorded;
};

/* Use of a buffer by a stream that its block must wait for before it is handed out again. */
struct orr__use {
    struct orr__use *next;
    struct orr_stream *stream;
    struct orr_point point; /* set when the buffer is freed */
    uint64_t offset, bytes; /* of the block, once it is history of its segment */
};

/* What commands with ranges touch is in the first cache line. */
struct orr_buffer {
    struct orr_runtime *runtime;
    uint64_t bytes;
    uint64_t base; /* of its first byte within `memory` */
    void *data;    /* host pointer of its first byte, NULL if there is none */
    uint32_t memory, device;
    uint32_t users;   /* ranges of commands that have not retired */
    uint32_t holders; /* ranges of recorded programs */
    bool abandoned;   /* freed while it had holders: live until the last lets go */
    bool live;        /* not freed */
    bool is_pageable; /* host memory that is not pinned */
    uint8_t role;     /* enum orr_role */
    uint32_t label;
    uint64_t id;
    uint32_t site;
    struct orr_stream *stream;    /* allocated for; NULL: host memory */
    struct orr__block *block;     /* NULL: host memory, or handed back */
    struct orr__segment *segment; /* after the free: counts this buffer in `pending`; else NULL */
    struct orr__use *uses;
    struct orr_buffer *previous, *next; /* of the device's live ones; `next` also in the pool */
};

struct orr__device {
    struct orr_device_spec spec;
    uint64_t memory_bytes; /* the spec's, whatever a perturbation makes of that */
    struct orr__allocator *allocator;
    struct orr_stream *streams[ORR__STREAM_KINDS]; /* its own, by kind */
    struct orr_stream *legacy;                     /* its legacy default stream; on first use */
    struct orr_stream *bucket;                     /* of redistributed buckets; made on first use */
    struct orr_stream *all, **all_end;             /* in order of creation, destroyed ones too */
    struct orr_buffer *buffers;                    /* live, the newest first */
    struct orr_buffer *deferred, **deferred_end;   /* freed, in order, blocks held */
    struct orr_role_usage roles[ORR_ROLE_COUNT];   /* of the live ones, bytes as asked for */
    uint64_t reserved_told;                        /* by the last record of that counter */
};

/* A sum of gradients that is under way: orr_gradient_accumulate blocked this host. */
struct orr__sum {
    uint64_t sum, gradient;      /* serial numbers of the tensors */
    struct orr_tensor *terms[2]; /* them, where they can be added; one reference each, or NULL */
};

/* A command that a host knows to be done, since its last call. */
struct orr__seen {
    uint64_t cmd;
    uint32_t stream; /* ORR_ID_NONE: a message of another host */
};

struct orr__host {
    int64_t
        first_ns; /* when the call that is being repeated was first made; ORR_TIME_NONE if none */
    enum orr_role role;             /* of what it allocates */
    struct orr_gradient_tape *tape; /* that records, the last one begun; NULL: none */
    uint32_t depth;                 /* gradients that it plays, one inside the other */
    uint32_t pauses;                /* of whatever tape records */
    struct orr__sum sum;
    uint8_t step;               /* of a call in several, which is to be repeated */
    struct orr_buffer *staging; /* of that call */
    struct orr__seen *seen;     /* only with a trace; what becomes edges to its next command */
    size_t seen_count, seen_capacity;
};

struct orr_communicator {
    struct orr_runtime *runtime;
    struct orr_communicator *previous, *next;
    uint32_t id, name, count;
    uint64_t seq; /* of its next collective, from 0 */
    uint32_t devices[];
};

struct orr_runtime {
    /* What every command looks at. */
    struct orr_backend *backend;
    const struct orr_backend_verbs *verbs;
    struct orr_record_writer *writer; /* the sink's; NULL without one */
    struct orr_observer *observer;    /* NULL: none */
    struct orr__capture *capture;
    uint64_t drop_wait;   /* the wait to be left out, 0 none */
    bool default_streams; /* there are streams that are not non-blocking */
    bool dispatches;      /* each device has a dispatch host that pays for launches */
    bool timing_only, trace_accesses;
    struct orr_perturb *perturb; /* NULL: nothing is perturbed */

    const struct orr_memory *memory;
    struct orr_names *names;
    struct orr_sink *sink;
    struct orr_observed_access *observed_accesses; /* of the command that is being told */
    size_t observed_access_capacity;
    enum orr_pageable pageable;
    uint64_t seed;

    struct orr__device *devices;
    uint32_t device_count;
    struct orr_stream **streams; /* by id */
    size_t stream_count, stream_capacity;
    size_t stream_spare; /* behind the last one: structs left by a rewind, up to this index */
    struct orr__host *hosts;
    size_t host_count, host_capacity;
    uint32_t caller_count; /* hosts that make calls: all but the backend's dispatch hosts */
    struct orr_event *events;
    struct orr__event_names *event_names; /* of "e1", "e2", ... as far as they were needed */
    size_t event_name_capacity;
    struct orr_communicator *communicators;
    struct orr_mesh *meshes, *default_mesh;
    struct orr_tensor *tensors;    /* live ones; freed with the runtime */
    struct orr_region *region;     /* open; NULL: operators run at once */
    struct orr_compiled *compiled; /* live ones, freed with the runtime, and so are futures */
    struct orr_future *futures;
    struct orr_gradient_tape *tapes;    /* live ones, freed with the runtime */
    struct orr_checkpoint *checkpoints; /* begun and not ended, the same */
    struct orr_recording *recordings;   /* open ones; they outlive the runtime */
    uint64_t tensor_count;              /* serial numbers of tensors given */
    uint64_t mark_count;                /* counts made over storages: see struct orr__storage */
    uint64_t op_count;                  /* ids of logical operators given */
    struct orr_buffer *host_buffers;    /* live pinned memory */
    struct orr_buffer *doomed;          /* freed pinned memory that nobody uses any more */

    uint32_t ts_sources[ORR_TS_SOURCE_COUNT]; /* names of enum orr_ts_source */
    uint32_t host, site;                      /* the current caller */
    const char *site_text;
    struct {
        const char *text;
        uint32_t id;
    } name_cache[ORR__NAME_CACHE];
    struct {
        uint64_t digest;
        uint32_t name;
    } name_digests[ORR__NAME_CACHE]; /* of synthetic kernels, at their name's remainder */

    uint64_t command_count, sync_count, buffer_count, collective_count,
        finding_count; /* ids given */
    uint64_t segment_count, event_count, pending_count, program_count;
    uint32_t communicator_count;

    struct orr__pending_pool pending_pools[ORR__PENDING_SIZES];
    struct orr_buffer *buffer_pool;
    struct orr_program *programs;         /* all, the newest first */
    const struct orr_point *submit_waits; /* of the command that is being submitted */
    uint32_t submit_wait_count;
    uint64_t wait_count;          /* waits told so far, in a run that leaves one out */
    struct orr_point *kept_waits; /* of the command that has lost one */
    size_t kept_wait_capacity;
    uint64_t *idle_waits; /* that another wait made superfluous before any work came */
    size_t idle_wait_count, idle_wait_capacity;
    struct orr_point *default_waits; /* with those of default streams */
    size_t default_wait_capacity;
    uint32_t submit_group_count; /* members of the group that is being submitted */

    bool in_call, call_repeats; /* see orr__runtime_call_begin */
    uint32_t operator_depth;
    int64_t
        operator_charge_ns; /* left to be charged to the operator's first command; -1: the spec */

    struct orr_point *point_scratch; /* as many as streams */
    size_t point_capacity;
    struct orr_command *group_commands; /* as many as the largest communicator has members */
    struct orr__pending **group_pending;
    struct orr_point *group_points;
    uint32_t *group_streams;
    size_t group_capacity;

    struct orr_error error;   /* of the last call that failed */
    struct orr_error scratch; /* handed to the backend */
    bool hung;                /* a wait can never end */
    struct orr_error failure; /* the first failed command */
    uint64_t failure_count;
    uint32_t failure_site, failure_name;
    uint32_t id_alloc, id_free, id_record_stream, id_wait, id_copy, id_fill, id_hostread,
        id_hostwrite, id_post, id_device_memory, id_pinned, id_pageable, id_memory_bytes,
        id_reserved_bytes, id_algorithm, id_collectives[ORR_COLLECTIVE_KIND_COUNT]; /* names */
};

/* --- runtime.c --- */

/* Replaces the runtime's error text and returns `status`. */
enum orr_status orr__runtime_fail(struct orr_runtime *runtime, enum orr_status status,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));
enum orr_status orr__runtime_no_memory(struct orr_runtime *runtime);

/* Takes over what the backend left in runtime->scratch. BLOCKED and NOT_READY pass unchanged. */
enum orr_status orr__runtime_backend_failed(struct orr_runtime *runtime, enum orr_status status);

/* Id of a text; NULL is "". Cached, so that a name used again costs a comparison. */
enum orr_status orr__runtime_name(struct orr_runtime *runtime, const char *text,
                                  uint32_t *out_id) ORR_MUST_CHECK;

/* ORR_BLOCKED if an earlier host has to act first; for calls that act without the backend. */
enum orr_status orr__runtime_turn(struct orr_runtime *runtime) ORR_MUST_CHECK;

/* The current host's wait of the backend, with its text in runtime->scratch. ORR_NO_MEMORY if the
 * backend could not go on for lack of host memory, whatever else it made of that. */
enum orr_status orr__runtime_backend_wait(struct orr_runtime *runtime,
                                          const struct orr_point *points, uint32_t count,
                                          enum orr_wait_mode mode,
                                          int64_t deadline_ns) ORR_MUST_CHECK;

/* Writes a record, if there is a sink. */
static inline void orr__runtime_record(struct orr_runtime *runtime, const void *record) {
    if (runtime->writer)
        orr_record_push(runtime->writer, record);
}

/* Brackets a call that makes many: its host's turn has been asked for at the beginning, and what
 * happens inside asks no more. Where a full queue would let another host run first there is
 * ORR_BLOCKED if the call `repeats`, knowing what of it is done, else ORR_UNSUPPORTED. Costs
 * nothing; brackets don't nest. */
void orr__runtime_call_begin(struct orr_runtime *runtime, bool repeats);
void orr__runtime_call_end(struct orr_runtime *runtime);

/* Brackets the commands of one logical operator: allocations inside cost the host nothing, and the
 * first command submitted pays `charge_ns` (-1: the device spec's host_operator_ns) for all of
 * them; if there was none, the end pays. `completed` false: the operator failed or is to be
 * repeated, and nothing is charged. Brackets nest; the outermost one counts. */
void orr__runtime_operator_begin(struct orr_runtime *runtime, uint32_t device, int64_t charge_ns);
void orr__runtime_operator_end(struct orr_runtime *runtime, bool completed);

/* Charges the current host, outside of operators, one event-sized call; min 1 ns. */
void orr__runtime_spend_event(struct orr_runtime *runtime, uint32_t device);

/* Host 0, and what a runner for each device has besides. Their room is reserved. */
void orr__runtime_add_first_hosts(struct orr_runtime *runtime);

/* --- submit.c --- */

/* A command with kind, name, caller and room for `access_count` ranges; NULL without memory. */
struct orr__pending *orr__pending_take(struct orr_runtime *runtime, enum orr_command_kind kind,
                                       uint32_t name, uint32_t access_count);
/* Back to the pool, without releasing `work`. */
void orr__pending_drop(struct orr__pending *pending);
/* Frees all of them; none is in flight. */
void orr__pending_pools_destroy(struct orr_runtime *runtime);

/* Appends a range, checked: ORR_INVALID with a text for a range outside its buffer, a freed buffer,
 * or one of another device than `device` (ORR_ID_NONE: any will do). Empty ranges are dropped. */
enum orr_status orr__pending_add(struct orr__pending *pending, uint32_t device,
                                 const struct orr_range *range) ORR_MUST_CHECK;

/* Where the range of access `index` begins for the host, or NULL. */
void *orr__pending_pointer(const struct orr__pending *pending, uint32_t index);

/* The choke point. `waits` are borrowed for the call, `out_point` may be NULL. `pending` is
 * consumed; its `work` only on ORR_OK. */
enum orr_status orr__runtime_submit(struct orr_stream *stream, struct orr__pending *pending,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_point) ORR_MUST_CHECK;
/* The same for one command on each of `count` streams, all or none. */
enum orr_status orr__runtime_submit_group(struct orr_runtime *runtime,
                                          struct orr_stream *const *streams,
                                          struct orr__pending *const *pending, uint32_t count,
                                          const struct orr_point *waits, uint32_t wait_count,
                                          struct orr_point *out_points) ORR_MUST_CHECK;
/* A command of no stream, done by the host at once: HOSTREAD, HOSTWRITE. Consumes `pending`. */
enum orr_status orr__runtime_host_access(struct orr_runtime *runtime,
                                         struct orr__pending *pending) ORR_MUST_CHECK;
/* Writes a command that happens on the host at once and takes from begin_ns to now: ALLOC, FREE,
 * RECORD_STREAM. Returns its id. */
uint64_t orr__runtime_host_command(struct orr_runtime *runtime, enum orr_command_kind kind,
                                   uint32_t name, uint32_t device, uint32_t stream,
                                   int64_t begin_ns);

/* Answers a backend's question what a command does: describe.c. */
void orr__runtime_describe(const struct orr_command *command, struct orr_task *out_task);
/* Whether a command is a synthetic kernel that computes: stream.c. */
bool orr__stream_is_synthetic(const struct orr_command *command);

/* The `retired` of struct orr_retire. */
void orr__runtime_retired(void *context, const struct orr_command *command,
                          const struct orr_error *error);

/* Room for groups of `count` members. */
enum orr_status orr__runtime_reserve_group(struct orr_runtime *runtime,
                                           uint32_t count) ORR_MUST_CHECK;

/* --- stream.c --- */

/* Blocks the current host for points, and records that as a sync of `kind` (`target` as in struct
 * orr_record_sync). ORR_DEVICE_FAILED if a command up to one of the points failed; ORR_NOT_READY at
 * the deadline; for ORR_WAIT_ANY *out_index (may be NULL) is the first point that has retired. */
enum orr_status orr__runtime_wait(struct orr_runtime *runtime, const struct orr_point *points,
                                  uint32_t count, enum orr_wait_mode mode, int64_t deadline_ns,
                                  enum orr_sync_kind kind, uint32_t target,
                                  uint32_t *out_index) ORR_MUST_CHECK;
/* The same without a look at failures: ORR_DEVICE_FAILED means that the points can't retire. */
enum orr_status orr__runtime_block(struct orr_runtime *runtime, const struct orr_point *points,
                                   uint32_t count, enum orr_wait_mode mode, int64_t deadline_ns,
                                   enum orr_sync_kind kind, uint32_t target) ORR_MUST_CHECK;
/* Asks about all points; success is recorded like a sync (races.md rule 7). */
enum orr_status orr__runtime_query(struct orr_runtime *runtime, const struct orr_point *points,
                                   uint32_t count, enum orr_sync_kind kind,
                                   uint32_t target) ORR_MUST_CHECK;
/* The current host knows that these points have retired, and may act on it: the waits and the query
 * above say so themselves. Not for what the runtime sees for its own purposes, as an allocator that
 * is out of memory does: from such waits nobody may take an order (races.md rule 19). */
void orr__runtime_saw(struct orr_runtime *runtime, const struct orr_point *points, uint32_t count);
/* Room for `count` of them; before the call that sees them, so that nothing fails afterwards. */
enum orr_status orr__runtime_reserve_seen(struct orr_runtime *runtime,
                                          uint32_t count) ORR_MUST_CHECK;
/* Edges from what the current host has seen since its last command to its next one. */
void orr__runtime_tell_seen(struct orr_runtime *runtime, uint64_t cmd);
/* A message from the current host to a new one. */
enum orr_status orr__runtime_greet(struct orr_runtime *runtime, uint32_t host) ORR_MUST_CHECK;
/* True if the point has retired as far as the host layer has heard. */
bool orr__point_retired(const struct orr_runtime *runtime, struct orr_point point);
/* Frees all streams. */
void orr__streams_destroy(struct orr_runtime *runtime);
/* Frees all events. */
void orr__events_destroy(struct orr_runtime *runtime);

/* --- stream.c --- */

/* One copy command, and nothing else. */
enum orr_status orr__stream_copy(struct orr_stream *stream, const struct orr_range *to,
                                 const struct orr_range *from) ORR_MUST_CHECK;

/* --- drop_wait.c --- */

/* What a command waits for, on its way through a submit. */
struct orr__waits {
    const struct orr_point *points;
    uint32_t count;
    uint32_t counted;            /* of them, those that order something */
    struct orr_point dropped;    /* the one that was left out; seq 0: none */
    const struct orr_point *all; /* with it */
    uint32_t all_count;
    uint32_t name, site, event; /* of the command */
};

/* Counts them, and leaves out the one that the run was created to do without. */
enum orr_status orr__waits_count(struct orr_stream *stream, const struct orr_command *command,
                                 struct orr__waits *waits) ORR_MUST_CHECK;
/* The command was accepted: they count from now on. `cmd`: its id, 0 if it is recorded. */
void orr__waits_told(struct orr_stream *stream, const struct orr__waits *waits, uint64_t cmd);

/* --- default_stream.c: what streams that are not non-blocking wait for --- */

/* Puts that in front of a command's own waits; valid until the next call. ORR_UNSUPPORTED if a
 * stream that the legacy one would wait for is being recorded (code 906). */
enum orr_status orr__default_stream_waits(struct orr_stream *stream, const struct orr_point **waits,
                                          uint32_t *wait_count) ORR_MUST_CHECK;
/* A command of this kind is its last one now; `waited` if with the waits above. */
void orr__default_stream_enqueued(struct orr_stream *stream, enum orr_command_kind kind,
                                  bool waited);
/* Makes the stream wait for it with a command of its own, for members of a group. */
enum orr_status orr__default_stream_settle(struct orr_stream *stream) ORR_MUST_CHECK;
/* What a host that waits for the stream waits for (races.md rule 5); returns the number of points,
 * for which there must be room: one a stream. */
uint32_t orr__default_stream_points(const struct orr_stream *stream, struct orr_point *points);

/* --- observe.c: only with an observer --- */

/* Room to tell a command with `count` ranges. */
enum orr_status orr__observe_reserve(struct orr_runtime *runtime, uint32_t count) ORR_MUST_CHECK;
void orr__observe_host(const struct orr_runtime *runtime, uint32_t id, const char *name);
/* A command that has been accepted, before its stream counts it. */
void orr__observe_command(const struct orr__pending *pending);
void orr__observe_buffer(const struct orr_buffer *buffer, uint64_t cmd,
                         const struct orr_point *after, uint32_t after_count);
void orr__observe_free(const struct orr_buffer *buffer, uint64_t cmd);

/* --- buffer.c --- */

/* A user of a freed buffer was its last: the buffer can go. Called by the retire callback. */
void orr__buffer_unused(struct orr_buffer *buffer);
/* A recorded program refers to the buffer: a free takes effect when the last holder lets go.
 * Letting go happens in the retire callback too, and costs the host nothing. */
void orr__buffer_hold(struct orr_buffer *buffer);
void orr__buffer_let_go(struct orr_buffer *buffer);
/* orr_buffer_read; under timing-only it takes as long, and `to` is left as it is. */
enum orr_status orr__buffer_read(struct orr_buffer *buffer, void *to, uint64_t offset,
                                 uint64_t bytes, int64_t ns) ORR_MUST_CHECK;
/* The host reads a range into the beginning of a new buffer; what is undefined stays so. */
enum orr_status orr__buffer_stage(struct orr_buffer *staging, const struct orr_range *from,
                                  int64_t ns) ORR_MUST_CHECK;
/* Contents that the host layer writes itself before any command can see them; zeros if `from` is
 * NULL. Nothing under timing-only. The buffer must be new. */
enum orr_status orr__buffer_initialize(struct orr_buffer *buffer, uint64_t offset, const void *from,
                                       uint64_t bytes) ORR_MUST_CHECK;
void orr__buffers_destroy(struct orr_runtime *runtime);
/* All of them go to the pool; nothing uses them. */
void orr__buffers_rewind(struct orr_runtime *runtime);

/* --- buffer_largest.c --- */

/* Writes which lines hold most of the device's memory, and for what: " 'relu' 4096 bytes in 2
 * buffers of role activation at m.lua:3, ..."; "" if nothing is live. Allocates nothing. */
void orr__buffers_print_largest(const struct orr_runtime *runtime, struct orr__device *device,
                                char *text, size_t size);

/* --- perturb_run.c --- */

/* A device is about to allocate: the fault if this allocation is to fail, else NULL. */
const char *orr__perturb_fails_alloc(struct orr_runtime *runtime, uint32_t device);
/* A device is out of memory: the rule that lowered its capacity, as text, else NULL. */
const char *orr__perturb_short_of(struct orr_runtime *runtime, uint32_t device);

/* --- role.c --- */

/* A live device buffer counts under its role, and no more so. */
void orr__role_add(const struct orr_buffer *buffer);
void orr__role_remove(const struct orr_buffer *buffer);

/* --- send_overlap.c --- */

/* ORR_INVALID, which names both, if what one send receives overlaps what another end of the group
 * touches. The sends' ranges lie inside their buffers. */
enum orr_status orr__sends_check_overlap(struct orr_runtime *runtime, const struct orr_send *sends,
                                         uint32_t count, enum orr_dtype dtype) ORR_MUST_CHECK;

/* --- communicator.c --- */

/* Writes the records of a collective whose members have just been submitted. */
void orr__collective_record(struct orr_communicator *communicator,
                            const struct orr_command *members);
void orr__communicators_destroy(struct orr_runtime *runtime);

/* --- program_capture.c --- */

/* A point of a recorded command says in `seq` which one: this bit, 31 bits of the program's id, 32
 * bits of its index + 1; `stream` is the command's. It means something to the capture that handed
 * it out and must reach no backend. */
#define ORR__POINT_RECORDED (UINT64_C(1) << 63)

/* Do the current host's calls go into a program? */
static inline bool orr__runtime_captures(const struct orr_runtime *runtime) {
    return runtime->capture && runtime->capture->host == runtime->host;
}

/* What orr_stream_point answers then: the last recorded command of the stream, if there is one. */
struct orr_point orr__capture_last(const struct orr_stream *stream);

/* Are commands of this stream being recorded? */
bool orr__capture_uses(const struct orr_stream *stream);
/* For commands and waits that are not recorded: ORR_INVALID if a point is a recorded command's
 * (races.md rule 28, code 907). */
enum orr_status orr__points_check(struct orr_runtime *runtime, const struct orr_point *points,
                                  uint32_t count) ORR_MUST_CHECK;
/* For what a host does with results: ORR_UNSUPPORTED while its calls are recorded (code 900). */
enum orr_status orr__capture_check_host(struct orr_runtime *runtime) ORR_MUST_CHECK;
/* Frees all programs, after the backend was closed. */
void orr__programs_destroy(struct orr_runtime *runtime);

#endif
