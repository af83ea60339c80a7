/* Private to runtime/cpu: the structures that host, dispatch and worker threads share.
 *
 * A stream's ring, by sequence number (slot = (seq - 1) & mask):
 *
 *     retired         done            launched        submitted
 *        |  finished,   |  to be run,    |  to be        |  free
 *        |  to be       |  the owner's   |  launched     |
 *        v  retired     v                v  (dispatcher) v
 *     ...[#############][###############][##############][.........
 *
 * submitted and retired belong to the host, launched to the producer (the host, or the device's
 * dispatcher), done to the stream's owner. A slot is written by the host, then by the dispatcher,
 * then by the owner, then read by the host; each hands it on by a store to its counter.
 *
 * The owner of a stream is the thread that runs it. Without one, `activity` is IDLE (nothing to do;
 * who launches takes it and posts it to the pool). A stream that waits for a point of another one
 * is in that one's list of waiters and is owned by nobody until the owner of the other one hands it
 * on; one whose collective is not complete belongs to the group until the last member arrives.
 *
 * Who sleeps and who wakes agree the same way everywhere: the sleeper announces itself (activity,
 * watch, parked), then looks again; the waker publishes, then looks for sleepers. All four accesses
 * are sequentially consistent, so at least one of them sees the other. */
#ifndef ORR_RUNTIME_CPU_CPU_INTERNAL_H
#define ORR_RUNTIME_CPU_CPU_INTERNAL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/cpu/cpu.h"
#include "runtime/hosts.h"

enum {
    CPU_LINE = 64,            /* bytes of a cache line */
    CPU_DEPTH_DEFAULT = 1024, /* commands a stream holds */
    CPU_DEPTH_MAX = 1 << 20,
    CPU_DISPATCH_DEPTH = 4096, /* commands a dispatcher holds; a power of two */
    CPU_SPIN_NS = 10000,       /* how long to spin before sleeping */
    CPU_FINISHES_MIN = 1024,   /* finish times that a stream remembers; a power of two */
    CPU_FEW_WAITS = 2,         /* waits that a slot holds without memory of its own */
    CPU_STREAMS_MAX = 1 << 20,
    CPU_WAITS_MAX = 1 << 20
};

struct cpu_stream;
struct cpu_backend;

struct cpu_wait {
    struct cpu_stream *stream;
    uint64_t seq;
};

/* One member of a collective. */
struct cpu_member {
    struct cpu_stream *stream;
    uint64_t seq;
    struct orr_collective collective; /* a copy */
};

/* A collective in flight: one block with its members and the list that orr_collective_run takes. */
struct cpu_group {
    _Atomic uint32_t arrived;
    uint32_t count;
    uint32_t unretired; /* host */
    bool computes;      /* all members have a `collective` */
    struct cpu_member *members;
    const struct orr_collective **collectives;
};

/* A command in a stream. What host and owner both touch for every command is in the first cache
 * line, so that only this one travels between their processors unless `run` looks at more. */
struct cpu_slot {
    /* Host until submitted, then owner until done, then host. */
    alignas(CPU_LINE) int64_t start_ns; /* ORR_TIME_NONE: not at the head yet */
    int64_t finish_ns;
    int64_t awaited_ns; /* latest finish it waited for, or ORR_TIME_NONE */
    /* Host until submitted, then constant. */
    struct cpu_group *group; /* NULL: a command of its own */
    orr_command_run run;     /* NULL also if there is nothing to compute, as under timing_only */
    const struct cpu_wait *waits;
    uint32_t wait_count;
    bool is_wait; /* of kind WAIT */
    /* As the times. */
    uint8_t status; /* enum orr_command_status */

    /* Host until submitted. The record's host and enqueue_ns: dispatcher, if there is one. */
    alignas(CPU_LINE) struct orr_command command;
    orr_command_run own_run;         /* perturbed: what is run around it */
    struct orr__perturbed perturbed; /* and how */
    struct cpu_wait few_waits[CPU_FEW_WAITS];
    struct cpu_wait *many_waits; /* kept until close */
    size_t many_capacity;
    int64_t enqueued_ns;         /* host only */
    uint64_t order;              /* host only: number of the submit over all streams */
    bool launched_by_dispatcher; /* host only: then the record's enqueued_ns is complete */
};

enum cpu_activity {
    CPU_IDLE,    /* no owner, nothing launched that its last owner saw */
    CPU_RUNNING, /* has an owner, or is on its way to one */
    CPU_PARKED   /* waits for a point or for the rest of its group */
};

struct cpu_stream {
    /* Constant. */
    struct cpu_backend *backend;
    uint32_t id, device;
    uint64_t depth, mask;
    uint64_t finish_mask;
    _Atomic int64_t *finishes; /* finish_ns by seq & finish_mask; outlives the slots */

    /* Host only. */
    struct cpu_slot *slots; /* NULL once destroyed and drained. The owner reads it while undone. */
    uint64_t submitted, retired;
    int64_t last_finish_ns;
    bool destroyed, busy; /* busy: listed in backend->busy */
    bool counted;         /* in backend->streams_live */

    alignas(CPU_LINE) _Atomic uint64_t launched; /* producer */

    /* Owner. `done` changes with every command, the others seldom. */
    alignas(CPU_LINE) _Atomic uint64_t done;
    alignas(CPU_LINE) _Atomic int activity; /* enum cpu_activity */
    _Atomic uint64_t poisoned_seq;          /* first command that failed or was skipped; 0: none */
    struct cpu_stream *next; /* in a list of waiters, a ready list or a hand-over list */
    uint64_t awaited_seq;    /* in a list of waiters: what for */
    struct orr_error cause;  /* constant once poisoned_seq is set */

    /* Sleepers. `watch` is the lowest point anyone sleeps for; written under the lock. */
    alignas(CPU_LINE) _Atomic uint64_t watch;
    pthread_mutex_t lock;
    struct cpu_stream *waiters; /* under lock */
    uint64_t host_watch;        /* under lock */
};

struct cpu_worker {
    struct cpu_backend *backend;
    pthread_t thread;
    struct cpu_worker *next;   /* all workers */
    struct cpu_worker *parked; /* next in the stack of sleepers; under pool.lock */
    pthread_cond_t wake;
    bool woken;                /* under pool.lock */
    struct cpu_stream *handed; /* streams it owns besides the one it runs */
};

struct cpu_pool {
    pthread_mutex_t lock;
    struct cpu_stream *ready_first, *ready_last; /* under lock */
    struct cpu_worker *sleepers;                 /* under lock, last parked first */
    bool stopping;                               /* under lock */
    _Atomic uint32_t ready_count;                /* written under lock */
    _Atomic uint32_t spinners; /* workers that will look at the ready list before they sleep */
};

/* The dispatch thread of a device (ORR_RUNNER_PER_DEVICE). */
struct cpu_dispatcher {
    struct cpu_backend *backend;
    uint32_t host;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping, running;   /* stopping: under lock; running: host */
    struct cpu_wait *entries; /* stream and seq to launch, by index & (CPU_DISPATCH_DEPTH - 1) */
    alignas(CPU_LINE) _Atomic uint64_t pushed; /* host */
    alignas(CPU_LINE) _Atomic uint64_t taken;  /* dispatcher */
    _Atomic int parked;
};

/* A stream with commands to be retired, and how far this round goes. */
struct cpu_busy {
    struct cpu_stream *stream;
    uint64_t limit;    /* last command that is done */
    int64_t finish_ns; /* of the next one to retire; ORR_TIME_MAX: none */
    uint64_t order;
};

struct cpu_memory {
    void *pointer;
    bool live;
};

struct cpu_backend {
    struct orr_backend base; /* must be first */
    const struct orr_memory *memory;
    struct orr_retire retire;
    uint32_t device_count;
    uint32_t spin_max; /* threads that may spin at once */
    bool timing_only;
    int64_t base_ns;             /* CLOCK_MONOTONIC at open */
    struct orr_perturb *perturb; /* host; NULL: nothing is perturbed */

    /* Host only. */
    uint32_t *depths; /* by device */
    struct cpu_stream **streams;
    size_t stream_count, stream_capacity;
    struct cpu_busy *busy; /* has room for all streams */
    size_t busy_count, busy_capacity;
    uint64_t submits;
    struct cpu_memory *memories;
    size_t memory_count, memory_capacity;
    struct orr__hosts hosts;
    uint32_t streams_live; /* used, and not both destroyed and drained */
    uint32_t worker_count;
    struct cpu_worker *workers;
    bool retiring;
    struct cpu_dispatcher **dispatchers; /* by device; NULL: the host launches itself */

    struct cpu_pool pool;
    alignas(CPU_LINE) _Atomic uint32_t spinning; /* threads of all kinds */

    /* The host asleep in a wait. */
    pthread_mutex_t host_lock;
    pthread_cond_t host_wake;
    bool host_woken; /* under host_lock */

    _Atomic uint64_t wakeups, host_wakeups, blocks, handovers;
};

/* --- backend.c --- */
int64_t orr__cpu_now(const struct cpu_backend *backend);
/* 64-byte aligned; contents undefined unless `zeroed`. NULL when there is no memory. */
void *orr__cpu_alloc(const struct orr_memory *memory, uint64_t bytes, bool zeroed);
void orr__cpu_free(const struct orr_memory *memory, void *block);
/* Starts a thread that takes no signals. */
enum orr_status orr__cpu_thread_start(pthread_t *out_thread, void *(*entry)(void *), void *context,
                                      struct orr_error *error);
static inline struct cpu_backend *orr__cpu(struct orr_backend *backend) {
    return (struct cpu_backend *)backend;
}

/* Spinning: begin says whether this thread may; step returns false when the time is over. */
struct cpu_spin {
    int64_t until_ns;
};
bool orr__cpu_spin_begin(struct cpu_backend *backend, struct cpu_spin *out_spin);
bool orr__cpu_spin_step(const struct cpu_backend *backend, const struct cpu_spin *spin);
void orr__cpu_spin_end(struct cpu_backend *backend);

/* --- stream.c: the host's side --- */
enum orr_status orr__cpu_stream_create(struct orr_backend *backend, uint32_t device,
                                       enum orr_stream_kind kind, uint32_t *out_stream,
                                       struct orr_error *error);
void orr__cpu_stream_destroy(struct orr_backend *backend, uint32_t stream);
void orr__cpu_stream_free(struct cpu_backend *backend, struct cpu_stream *stream);
enum orr_status orr__cpu_submit(struct orr_backend *backend, uint32_t stream,
                                const struct orr_command *command, const struct orr_point *waits,
                                uint32_t wait_count, struct orr_point *out_point,
                                struct orr_error *error);
enum orr_status orr__cpu_submit_group(struct orr_backend *backend, const uint32_t *streams,
                                      const struct orr_command *commands, uint32_t count,
                                      const struct orr_point *waits, uint32_t wait_count,
                                      struct orr_point *out_points, struct orr_error *error);
/* Hands back what is done, in order of completion: of one stream in its order, and everything after
 * what it waited for. */
void orr__cpu_retire(struct cpu_backend *backend);
void orr__cpu_poll(struct orr_backend *backend);

/* --- host.c: what a host waits for --- */
enum orr_status orr__cpu_query(struct orr_backend *backend, uint32_t host, struct orr_point point);
enum orr_status orr__cpu_wait(struct orr_backend *backend, uint32_t host,
                              const struct orr_point *points, uint32_t count,
                              enum orr_wait_mode mode, int64_t deadline_ns,
                              struct orr_error *error);
void orr__cpu_hosts_init(struct cpu_backend *backend);
enum orr_status orr__cpu_host_create(struct orr_backend *backend, uint32_t *out_host);
enum orr_status orr__cpu_host_next(struct orr_backend *backend, uint32_t *out_host,
                                   struct orr_error *error);
void orr__cpu_host_done(struct orr_backend *backend, uint32_t host);
bool orr__cpu_host_reason(struct orr_backend *backend, uint32_t host, char *text, size_t size);
void orr__cpu_host_park(struct orr_backend *backend, uint32_t host);
void orr__cpu_host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by);
/* Sleeps until everything submitted is done, then retires it. */
void orr__cpu_drain(struct cpu_backend *backend);
void orr__cpu_host_wake(struct cpu_backend *backend);

/* --- perturb.c --- */
enum orr_status orr__cpu_perturb(struct orr_backend *backend, struct orr_perturb *perturb,
                                 struct orr_error *error);
/* A slot whose command and `run` are filled in: wraps what is to rest or to fail. */
void orr__cpu_perturb_slot(struct cpu_backend *backend, struct cpu_slot *slot);

/* --- worker.c: the devices' side --- */
enum orr_status orr__cpu_pool_init(struct cpu_pool *pool);
/* One more thread; ORR_NO_MEMORY. */
enum orr_status orr__cpu_worker_start(struct cpu_backend *backend, struct orr_error *error);
/* Joins all threads; nothing may be in flight. */
void orr__cpu_pool_stop(struct cpu_backend *backend);
/* Publishes command `seq` of a stream, the next one to be launched. */
void orr__cpu_launch(struct cpu_stream *stream, uint64_t seq);

/* --- dispatch.c --- */
enum orr_status orr__cpu_dispatcher_create(struct cpu_backend *backend, uint32_t host,
                                           struct cpu_dispatcher **out_dispatcher,
                                           struct orr_error *error);
void orr__cpu_dispatcher_destroy(struct cpu_backend *backend, struct cpu_dispatcher *dispatcher);
/* Entries that can be pushed without waiting. */
uint64_t orr__cpu_dispatcher_room(const struct cpu_dispatcher *dispatcher);
/* The oldest entry that has not been launched; only when there is no room for one more. */
struct cpu_wait orr__cpu_dispatcher_oldest(const struct cpu_dispatcher *dispatcher);
void orr__cpu_dispatcher_push(struct cpu_dispatcher *dispatcher, struct cpu_stream *stream,
                              uint64_t seq);

#endif
