/* Private to the core of the CUDA backend: backend.c, gpu.c, memory.c, stream.c, slot.c, submit.c,
 * failure.c, hostfn.c, retire.c and wait.c.
 *
 * A stream's ring, by sequence number (slot = (seq - 1) & mask):
 *
 *     retired         done            submitted
 *        |  finished,   |  on the GPU    |  free
 *        v  to retire   v                v
 *     ...[#############][###############][.........
 *
 * Behind every command that puts something into its CUDA stream goes an event of its own: whoever
 * awaits the command's point makes its CUDA stream wait for that event, and the host sees by it
 * that the command is done. A command that puts nothing there (a record, a marker, a wait for what
 * is over) has none: its point is reached when the command before it is done and what it waits for
 * has retired. `behind` is the last command up to here that has one.
 *
 *     submit(consume, waits = {produce})
 *        cudaStreamWaitEvent(consumer's, produce's event)
 *        kernels, copies, or cudaLaunchHostFunc
 *        cudaEventRecord(consume's event)
 *
 * A command is retired when its event is over, the command before it is retired, and all that it
 * waited for is. So the order of contract point 5 needs no clock.
 *
 * Nodes of a graph (graph.c) have no events of their own: `covered` is the last command of their
 * lane, whose event is over once the graph is.
 *
 * Failures. A stream is poisoned from the first command on that failed or awaits a failed one; the
 * first cause stays. What is submitted to a stream that is known to be poisoned is not enqueued.
 * What is in the GPU's queues already when a failure comes up runs, on whatever is in memory, and
 * is handed back as skipped all the same. Only a host function asks before it runs. An error that
 * stays (a "sticky" one: the context is lost) ends everything that is left.
 *
 * Threads: all of it belongs to the host's thread but what is marked: host functions run on a
 * thread of CUDA's, read their slot, and poison streams under `poison_lock`. */
#ifndef ORR_RUNTIME_CUDA_CUDA_INTERNAL_H
#define ORR_RUNTIME_CUDA_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/cuda/collective.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/queue.h"
#include "runtime/cuda/times.h"
#include "runtime/hosts.h"

enum {
    CUDA_DEPTH_DEFAULT = 1024, /* commands a stream holds */
    CUDA_DEPTH_MAX = 1 << 20,
    CUDA_FINISHES_MIN = 1024, /* finish times that a stream remembers; a power of two */
    CUDA_FEW_WAITS = 2,       /* waits that a slot holds without memory of its own */
    CUDA_STREAMS_MAX = 1 << 20,
    CUDA_EVENTS_MAX = 1 << 26,
    CUDA_WAITS_MAX = 1 << 20,
    CUDA_GRAPHS_MAX = 1 << 24,
    CUDA_NODES_MAX = 1 << 24,
    CUDA_RECORDINGS_MAX = 4,     /* of a graph: so many launches of it may be in flight */
    CUDA_CALLBACK_NS = 20000000, /* between the beginning of a call and its first instruction */
    CUDA_REST_NS = 20000 /* between two looks of a host that waits for any of several events */
};

struct cuda_backend;
struct cuda_stream;

struct cuda_wait {
    struct cuda_stream *stream;
    uint64_t seq;
};

/* A collective in flight, one block with its lists. */
struct cuda_group {
    uint32_t count;
    struct cuda_wait *members;
    struct orr_collective *collectives; /* copies */
};

/* A host function between its launch and its end. */
enum cuda_host_state {
    CUDA_HOST_NONE,
    CUDA_HOST_LAUNCHED,
    CUDA_HOST_RUNNING,
    CUDA_HOST_DONE,
    CUDA_HOST_CANCELLED /* the context was lost first */
};

struct cuda_slot {
    /* Constant from the submit to the retirement, also for host functions. */
    struct orr_command command;
    struct cuda_stream *stream;
    struct cuda_group *group; /* NULL: a command of its own */
    const struct cuda_wait *waits;
    uint32_t wait_count;
    struct cuda_wait few_waits[CUDA_FEW_WAITS];
    struct cuda_wait *many_waits; /* kept until the slots go */
    size_t many_capacity;

    /* Host only. */
    cudaEvent_t own;                  /* NULL: nothing of it is in the CUDA stream */
    uint64_t behind;                  /* the last command up to here with an event; 0 none */
    uint64_t covered;                 /* node of a graph: see above; else 0 */
    cudaEvent_t end;                  /* the graph's, of the node; NULL: none */
    struct orr__cuda_fault *fault;    /* where its kernels say what is wrong */
    struct cuda_recording *recording; /* last of its lane: what it keeps in flight */
    int64_t enqueued_ns;
    struct orr__perturbed perturbed;
    bool timed;    /* start, finish and ts_source of the record are there */
    bool bypassed; /* known to be poisoned when it was submitted: not enqueued */

    struct orr__cuda_stamp stamp; /* as times.h says */
    _Atomic int host_state;       /* enum cuda_host_state */
    bool failed;                  /* it did, and was not just skipped; poison_lock */
};

struct cuda_stream {
    /* Constant. */
    struct cuda_backend *backend;
    struct cuda_device *device;
    uint32_t id, device_id;
    uint64_t depth, mask, finish_mask;
    struct orr__cuda_queue queue;

    /* Host only. */
    struct cuda_slot *slots;        /* NULL once destroyed and drained */
    struct orr__cuda_fault *faults; /* of each slot, in pinned memory; written by kernels */
    int64_t *finishes;              /* finish_ns by seq & finish_mask; outlives the slots */
    uint64_t submitted, retired;
    uint64_t done;   /* commands up to here are known to be over */
    uint64_t behind; /* the last command with an event */
    uint64_t look;   /* the last look that found its head undone */
    int64_t last_finish_ns;
    bool destroyed, busy; /* busy: listed in backend->busy */

    _Atomic uint32_t callbacks;    /* host functions that CUDA may still call */
    _Atomic uint64_t poisoned_seq; /* first command that failed or was skipped; 0: none */
    struct orr_error cause;        /* poison_lock */
    uint64_t resolved;             /* poison is known up to here; poison_lock */
    uint64_t host_checked; /* faults of kernels up to here are; the stream's host functions */
};

/* A program captured once. */
struct cuda_recording {
    cudaGraphExec_t exec;           /* NULL: there is none */
    cudaEvent_t *ends;              /* by node, recorded by the graph itself */
    struct orr__cuda_fault *faults; /* by node, in pinned memory */
    uint32_t in_flight;             /* lanes of launches that have not been handed back */
};

/* A stream of a program. */
struct cuda_lane {
    uint32_t stream, count; /* nodes */
    uint64_t base;          /* of the launch under way: commands in the stream before it */
};

struct cuda_graph {
    uint64_t launches;
    bool plain;      /* always one by one */
    uint32_t *nodes; /* their streams, in the order of submission */
    uint32_t node_count;
    size_t node_capacity;
    struct cuda_lane *lanes;
    size_t lane_count, lane_capacity;
    struct cuda_recording recordings[CUDA_RECORDINGS_MAX];
};

enum cuda_launch_mode {
    CUDA_LAUNCH_NONE,
    CUDA_LAUNCH_PLAIN,
    CUDA_LAUNCH_CAPTURE,
    CUDA_LAUNCH_REPLAY
};

/* The launch of a program that is being submitted. */
struct cuda_launch {
    enum cuda_launch_mode mode;
    struct cuda_graph *graph;
    struct cuda_recording *recording;
    struct cuda_stream *origin;
    cudaEvent_t fork;       /* in the capture: its beginning */
    bool captures;          /* the capture has begun */
    uint32_t next;          /* node */
    struct orr_error cause; /* the first failure of a node */
};

/* A GPU that hosts logical devices. */
struct cuda_gpu {
    uint32_t index;
    uint32_t sm_count;
    int priority_low, priority_high;
    struct orr__cuda_images images;
    cudaEvent_t *events; /* free ones; there is room for all */
    size_t event_count, event_capacity, event_total;
};

/* A logical device. */
struct cuda_device {
    struct cuda_gpu *gpu;
    cudaMemPool_t pool;
    cudaStream_t stream; /* of what the host does with memory */
    uint32_t depth;
};

struct cuda_memory {
    void *pointer;
    uint32_t device; /* ORR_ID_NONE: pinned host memory */
    bool live;
};

struct cuda_backend {
    struct orr_backend base; /* must be first */
    struct orr_backend_verbs verbs;
    struct orr__cuda_api *api;
    struct orr_backend_config config;
    const struct orr_memory *memory;
    struct orr__cuda_times *times;
    struct orr__cuda_collectives *collectives;
    struct orr_perturb *perturb; /* NULL: nothing is perturbed */
    struct orr__hosts hosts;
    struct cuda_graph **graphs; /* by id; NULL: none */
    size_t graph_capacity;
    struct cuda_launch launch;

    struct cuda_gpu *gpus;
    uint32_t gpu_count;
    struct cuda_device *devices; /* config.device_count */
    int64_t current_gpu;         /* of this thread; -1: unknown */
    struct cuda_stream **streams;
    size_t stream_count, stream_capacity;
    struct cuda_stream **busy; /* has room for all streams */
    size_t busy_count, busy_capacity;
    struct cuda_memory *memories;
    size_t memory_count, memory_capacity;
    struct orr__cuda_member *members; /* of a group that is being enqueued */
    size_t member_capacity;
    struct orr__cuda_stamp **stamps;
    size_t stamp_capacity;
    uint32_t *group_gpus;
    size_t group_gpu_capacity;
    const struct orr_collective **checked;
    size_t checked_capacity;

    uint64_t look;
    int64_t observed_ns; /* when the last look found something; ORR_TIME_NONE: to be asked */
    bool retiring;
    bool polls; /* hosts look again and again instead of blocking */
    bool lost;  /* an error that stays */
    bool blamed;
    struct orr_error loss;

    pthread_mutex_t poison_lock;
    _Atomic bool poisoned; /* some stream is */
};

static inline struct cuda_backend *orr__cuda(struct orr_backend *backend) {
    return (struct cuda_backend *)backend;
}
static inline struct cuda_slot *orr__cuda_slot(const struct cuda_stream *stream, uint64_t seq) {
    return &stream->slots[(seq - 1) & stream->mask];
}
static inline int64_t orr__cuda_now(const struct cuda_backend *backend) {
    return orr__cuda_times_now(backend->times);
}

/* --- gpu.c: GPUs, events, logical devices --- */
enum orr_status orr__cuda_devices_open(struct cuda_backend *backend,
                                       struct orr_error *error) ORR_MUST_CHECK;
/* Nothing is in flight. */
void orr__cuda_devices_close(struct cuda_backend *backend);
/* Makes a GPU the current one. */
enum orr_status orr__cuda_use(struct cuda_backend *backend, const struct cuda_gpu *gpu,
                              struct orr_error *error);
/* An event of the GPU, to be given back. */
enum orr_status orr__cuda_event_take(struct cuda_backend *backend, struct cuda_gpu *gpu,
                                     cudaEvent_t *out_event,
                                     struct orr_error *error) ORR_MUST_CHECK;
void orr__cuda_event_give(struct cuda_gpu *gpu, cudaEvent_t *event);

/* --- memory.c --- */
enum orr_status orr__cuda_memory_create(struct orr_backend *backend, uint32_t device,
                                        uint64_t bytes, uint32_t *out_memory,
                                        struct orr_error *error);
void orr__cuda_memory_destroy(struct orr_backend *backend, uint32_t memory);
void *orr__cuda_memory_pointer(struct orr_backend *backend, uint32_t memory);
enum orr_status orr__cuda_memory_write(struct orr_backend *backend, uint32_t memory,
                                       uint64_t offset, const void *from, uint64_t bytes,
                                       struct orr_error *error);
void orr__cuda_memories_clear(struct cuda_backend *backend);

/* --- stream.c: life, waits, room --- */
enum orr_status orr__cuda_stream_create(struct orr_backend *backend, uint32_t device,
                                        enum orr_stream_kind kind, uint32_t *out_stream,
                                        struct orr_error *error);
void orr__cuda_stream_destroy(struct orr_backend *backend, uint32_t stream);
/* Nothing is in it: gives the CUDA stream and the slots back; points of it stay valid. */
void orr__cuda_stream_drop(struct cuda_stream *stream);
void orr__cuda_stream_free(struct cuda_stream *stream);
enum orr_status orr__cuda_stream_find(struct cuda_backend *backend, uint32_t id,
                                      struct cuda_stream **out_stream,
                                      struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cuda_check_waits(struct cuda_backend *backend, const struct orr_point *waits,
                                      uint32_t count, struct orr_error *error) ORR_MUST_CHECK;
/* ORR_FULL and the point that makes room, if the stream has none. */
enum orr_status orr__cuda_make_room(struct cuda_stream *stream, struct orr_point *out_point);
/* Keeps the waits that mean something in the stream's next slot. The points are checked. */
enum orr_status orr__cuda_set_waits(struct cuda_stream *stream, const struct orr_point *waits,
                                    uint32_t count, struct orr_error *error) ORR_MUST_CHECK;
/* The event that is over once command `seq` is; NULL if that one is already, or has none. */
cudaEvent_t orr__cuda_event_of(const struct cuda_stream *stream, uint64_t seq);

/* --- slot.c --- */
/* Fills the stream's next slot but for its waits; nothing is seen of it yet. */
struct cuda_slot *orr__cuda_slot_fill(struct cuda_stream *stream, const struct orr_command *command,
                                      struct cuda_group *group, int64_t begin_ns);
/* The command is in its stream from here on. */
void orr__cuda_slot_commit(struct cuda_slot *slot, struct orr_point *out_point);
/* Ends a command whose enqueueing failed: its stream is let run dry, so that nothing uses memory of
 * it once it is handed back. */
void orr__cuda_slot_abandon(struct cuda_slot *slot, const struct orr_error *cause);
/* Takes back a command that is not submitted after all. What there is of it in its stream runs. */
void orr__cuda_slot_refuse(struct cuda_slot *slot);
/* Records the event behind what has been put into the stream. */
enum orr_status orr__cuda_slot_record(struct cuda_slot *slot,
                                      struct orr_error *error) ORR_MUST_CHECK;
/* True if the command is known to fail, or to be skipped: nothing of it is enqueued. */
bool orr__cuda_slot_bypasses(struct cuda_slot *slot);

/* --- submit.c --- */
enum orr_status orr__cuda_submit(struct orr_backend *backend, uint32_t stream,
                                 const struct orr_command *command, const struct orr_point *waits,
                                 uint32_t wait_count, struct orr_point *out_point,
                                 struct orr_error *error);
enum orr_status orr__cuda_submit_group(struct orr_backend *backend, const uint32_t *streams,
                                       const struct orr_command *commands, uint32_t count,
                                       const struct orr_point *waits, uint32_t wait_count,
                                       struct orr_point *out_points, struct orr_error *error);

/* --- graph_store.c --- */
/* The graph of a program, or NULL; the second one makes it, NULL without memory. */
struct cuda_graph *orr__cuda_graph_find(struct cuda_backend *backend, uint32_t id);
struct cuda_graph *orr__cuda_graph_get(struct cuda_backend *backend, uint32_t id);
void orr__cuda_graph_forget(struct orr_backend *backend, uint32_t graph);
/* Nothing is in flight. */
void orr__cuda_graphs_close(struct cuda_backend *backend);
/* Events and fault cells for the graph's nodes; what a failure leaves is cleared by the caller. */
enum orr_status orr__cuda_recording_open(struct cuda_backend *backend,
                                         const struct cuda_graph *graph,
                                         struct cuda_recording *recording,
                                         struct orr_error *error) ORR_MUST_CHECK;
void orr__cuda_recording_clear(struct cuda_backend *backend, struct cuda_graph *graph,
                               struct cuda_recording *recording);

/* --- graph.c --- */
enum orr_status orr__cuda_graph_begin(struct orr_backend *backend, uint32_t graph,
                                      struct orr_point fork, uint32_t count,
                                      struct orr_error *error);
enum orr_status orr__cuda_graph_end(struct orr_backend *backend, uint32_t graph,
                                    struct orr_error *error);
/* Whether what is submitted is a node of a launch that is only kept account of; that is captured;
 * either. */
bool orr__cuda_graph_replays(const struct cuda_backend *backend);
bool orr__cuda_graph_captures(const struct cuda_backend *backend);
bool orr__cuda_graph_is_whole(const struct cuda_backend *backend);
/* Something that is no node comes in the middle of a launch: if that is one piece of work, what has
 * been submitted of it fails. */
void orr__cuda_graph_interrupt(struct cuda_backend *backend);
/* In a capture: the event of what a node waits for. */
cudaEvent_t orr__cuda_graph_awaited(struct cuda_backend *backend, const struct cuda_wait *wait);
/* A slot becomes the next node but `member` of a launch that is captured or replayed. */
void orr__cuda_graph_node(struct cuda_slot *slot, uint32_t member, bool works);
/* In a capture, before anything of a node: its stream becomes part of it. */
enum orr_status orr__cuda_graph_enter(struct cuda_slot *slot,
                                      struct orr_error *error) ORR_MUST_CHECK;
/* In a capture, behind the node's work: the event that says when it ran. */
enum orr_status orr__cuda_graph_record(struct cuda_slot *slot,
                                       struct orr_error *error) ORR_MUST_CHECK;
/* The node is in its stream, in any mode. */
void orr__cuda_graph_submitted(struct cuda_slot *slot, bool on_host);

/* --- failure.c --- */
/* Marks the stream as failed from command `seq` on, unless it is from an earlier one on. Any
 * thread; the second one with poison_lock held. */
void orr__cuda_poison(struct cuda_stream *stream, uint64_t seq, const struct orr_error *cause);
void orr__cuda_poison_locked(struct cuda_stream *stream, uint64_t seq,
                             const struct orr_error *cause);
/* Whether the stream is known to be poisoned by command `seq`. Any thread. */
bool orr__cuda_is_poisoned(const struct cuda_stream *stream, uint64_t seq);
/* Poisons it if something that the command awaits, of itself or as a group, is known to be. True:
 * it is poisoned now. */
bool orr__cuda_inherit(struct cuda_stream *stream, struct cuda_slot *slot);
/* Finds out what failures up to command `seq` come to, however they get there. poison_lock held. */
void orr__cuda_resolve_locked(struct cuda_stream *stream, uint64_t seq);
/* The command fails; `cause` has a text. Any thread. */
void orr__cuda_fail(struct cuda_slot *slot, const struct orr_error *cause);
/* What a kernel found wrong, as an error; false: it found nothing. Any thread. */
bool orr__cuda_fault_text(const struct orr__cuda_fault *fault, struct orr_error *out_error);
/* After a call that failed: is the context lost? Then everything that is left ends with `cause`. */
bool orr__cuda_check_lost(struct cuda_backend *backend, const struct orr_error *cause);
/* Waits for what is in the stream, after a failure; the context is lost if that fails too. */
void orr__cuda_quiet(struct cuda_stream *stream);
/* How the command at the head of its stream has ended; *out_cause unless that is well. */
enum orr_command_status orr__cuda_settle(struct cuda_slot *slot, struct orr_error *out_cause);

/* --- hostfn.c --- */
/* Puts the command's `run` into its stream. */
enum orr_status orr__cuda_host_launch(struct cuda_slot *slot,
                                      struct orr_error *error) ORR_MUST_CHECK;
/* The context is lost: sees to it that the command's host function neither runs nor will. */
void orr__cuda_host_cancel(struct cuda_slot *slot);
/* Waits for calls of the stream's host functions that CUDA has begun. In a lost context it begins
 * no more of them (cuda.h, cuLaunchHostFunc), but when the last one began, nobody can tell. */
void orr__cuda_host_quiet(struct cuda_stream *stream);

/* --- retire.c --- */
/* Hands back what is done. `must`: also what CUPTI has not told the times of; asks it. Returns
 * whether there was something. */
bool orr__cuda_retire(struct cuda_backend *backend, bool must);
/* Asks CUDA about a command that has an event of its own; one that failed is over, too. */
bool orr__cuda_is_over(struct cuda_stream *stream, uint64_t seq);

/* --- wait.c --- */
enum orr_status orr__cuda_query(struct orr_backend *backend, uint32_t host, struct orr_point point);
enum orr_status orr__cuda_wait(struct orr_backend *backend, uint32_t host,
                               const struct orr_point *points, uint32_t count,
                               enum orr_wait_mode mode, int64_t deadline_ns,
                               struct orr_error *error);
void orr__cuda_poll(struct orr_backend *backend);
/* Waits until everything submitted has retired. */
void orr__cuda_drain(struct cuda_backend *backend);
void orr__cuda_hosts_init(struct cuda_backend *backend);
enum orr_status orr__cuda_host_create(struct orr_backend *backend, uint32_t *out_host);
enum orr_status orr__cuda_host_next(struct orr_backend *backend, uint32_t *out_host,
                                    struct orr_error *error);
void orr__cuda_host_done(struct orr_backend *backend, uint32_t host);
bool orr__cuda_host_reason(struct orr_backend *backend, uint32_t host, char *text, size_t size);
void orr__cuda_host_park(struct orr_backend *backend, uint32_t host);
void orr__cuda_host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by);

#endif
