/* The simulator's inside: the structures that its files share.
 *
 *     orr__sim
 *      |- devices[]   running: ids of streams whose head is in service (or scheduled to be)
 *      |- streams[]   ring of slots, one for each command; head = the one that waits or runs
 *      |- hosts[]     clocks
 *      |- memories[]  bytes, who uses which range now, undefined ranges
 *      |- groups[]    collectives that have not finished
 *      '- agenda      one event per device
 *
 * A command's life: submitted (in the ring) -> head (waits for points) -> in service from start_ns
 * (may lie ahead of the agenda's time) -> finished: numbers, retire, next head.
 *
 * Threads: one. */
#ifndef ORR_SIM_SIM_INTERNAL_H
#define ORR_SIM_SIM_INTERNAL_H

#include <assert.h>

#include "sim/agenda.h"
#include "sim/cost_model.h"
#include "sim/hazard_ranges.h"
#include "sim/sim.h"

enum {
    ORR__QUEUE_DEPTH_DEFAULT = 1024,
    ORR__WORK_CACHE = 256, /* recent kernels whose work is remembered */
    ORR__STREAMS_MAX = 1 << 24,
    ORR__MEMORIES_MAX = 1 << 24
};

struct orr__group;

/* What else a command waits for than the one point that its slot has room for. */
struct orr__wait_list {
    uint32_t count, done;
    struct orr_point points[];
};

/* Of a slot. */
enum {
    ORR__SLOT_COPIED = 1,    /* `command` is the simulator's own copy, to be freed */
    ORR__SLOT_WAITS = 2,     /* for `wait` */
    ORR__SLOT_LISTS = 4,     /* for all of `list`; never together with WAITS */
    ORR__SLOT_NODE = 8,      /* of a graph launch */
    ORR__SLOT_ACCESSES = 16, /* declares ranges */
    ORR__SLOT_ENGINE = 32,   /* a copy over a link, which a copy engine does */
    ORR__SLOT_FAILS = 64     /* a fault: the nth command of its device */
};

/* A command in a stream: all that decides when it runs, in one cache line. The command itself is
 * touched when it is enqueued and when it ends, and fetched ahead of the latter. */
struct orr__sim_command {
    struct orr_command *command;
    struct orr__work work;
    struct orr__group *group; /* of a collective */
    int64_t enqueued_ns;
    int64_t eligible_ns; /* earliest start for the host's sake */
    uint8_t kind;        /* enum orr_command_kind */
    uint8_t bits;        /* ORR__SLOT_* */
    uint32_t wait_stream;
    union {
        uint64_t wait_seq;
        struct orr__wait_list *list; /* owned */
    };
};

struct orr__undefine {
    uint64_t seq, lo, hi;
    uint32_t memory;
};

/* By use, in cache lines: the queue; its head; what concerns few commands. */
struct orr__stream {
    struct orr__sim_command *ring; /* capacity: a power of two */
    uint32_t head, count, capacity, depth;
    uint32_t id, device;
    uint64_t submitted, retired;
    int64_t tail_ns; /* finish of the last retired command */
    int64_t carry;   /* what its rounding left, work units: exact finish = tail_ns + carry */
    int64_t owed;    /* what the head in service will leave besides: it was shorter than a carry */

    /* Of the head, once it was looked at. */
    int64_t rem;        /* work left at settled_ns; below 0 by what its end is rounded up by */
    int64_t settled_ns; /* >= start_ns once started */
    int64_t finish_ns;  /* under the current rates; ORR_TIME_MAX while a collective waits */
    int64_t start_ns;   /* its record's; ORR_TIME_NONE before */
    int64_t ready_ns;
    bool in_service;                /* it is in the device's running list */
    bool on_engine;                 /* it is a copy that a copy engine does */
    bool skipped;                   /* it is not run: something before it failed */
    bool ready;                     /* in the list of heads to try */
    bool closed;                    /* destroyed: no more submits */
    bool lost;                      /* a fault: its head never ends */
    bool failed;                    /* see failed_seq */
    bool observed;                  /* there may be waiters, watches or undefines */
    uint8_t kind;                   /* enum orr_stream_kind */
    uint32_t waiting_on;            /* stream, ORR_ID_NONE */
    struct orr__stream *ready_next; /* link in the list of heads to try */

    /* Streams whose head waits for a point of this one, by ascending seq. */
    struct orr__stream *waiters_first, *waiters_last;
    struct orr__stream *waiter_next, *waiter_before; /* links of this stream in another's list */
    uint64_t waiting_seq;
    struct orr__watch *watches; /* hosts that wait for a point of this one */

    /* Ranges that become undefined once the stream has retired `seq`; in order. */
    struct orr__undefine *undefines;
    size_t undefine_count, undefine_capacity;

    uint64_t failed_seq;     /* first command that failed or was skipped */
    struct orr_error *cause; /* belongs to the stream that failed first */
    bool owns_cause;
};

/* What every command touches of its stream. */
enum { ORR__STREAM_HOT_BYTES = offsetof(struct orr__stream, waiters_first) };
static_assert(sizeof(struct orr__sim_command) == ORR_LINE_BYTES, "a slot is one cache line");

struct orr__device {
    const struct orr_device_spec *spec; /* shared by devices that are equal */
    struct orr__stream **running;       /* if there are several */
    struct orr__stream *sole;           /* the one that runs, if it is one */
    uint32_t running_count, stream_count, node;
    bool changed;            /* a command left service since the event was set */
    size_t running_capacity; /* at least stream_count: entering service can't fail */
    /* Of its kernels now, as far as they use the one or the other; ORR__WORK_NS = full speed. */
    uint64_t sm_rate, bandwidth_rate;
    uint64_t copy_rate; /* of copies on the copy engines */
};

enum orr__host_state { ORR__HOST_RUNS, ORR__HOST_BLOCKED, ORR__HOST_DONE };

/* A blocked host stands at the stream of a point that it waits for: at each one's for ANY, at the
 * first one's that is open for ALL. */
struct orr__watch {
    struct orr__watch *next, **link; /* link: what points to this one; NULL if it stands nowhere */
    uint64_t seq;
    uint32_t host;
};

struct orr__host {
    int64_t now_ns;
    uint64_t calls; /* that were charged, if calls are perturbed */
    enum orr__host_state state;
    bool lost; /* a fault: it makes no more calls */
    /* Its last graph launch: the dispatch host that made it, and when. */
    uint32_t graph_host;
    int64_t graph_ns;
    /* While blocked: what for. */
    struct orr_point *points;
    struct orr__watch *watches; /* as many as points */
    uint32_t point_count, points_done;
    size_t point_capacity, watch_capacity;
    enum orr_wait_mode mode;
    int64_t deadline_ns;
};

/* What becomes of a command that is about to end; other than ENDS is a fault (sim/perturb.h). */
enum orr__fate { ORR__FATE_ENDS, ORR__FATE_FAILS, ORR__FATE_LOST };

struct orr__group {
    uint32_t count, arrived, finished;
    bool poisoned, skipped, failed;
    int64_t begin_ns; /* start of the last member so far */
    struct orr__work work;
    struct orr_error *cause;          /* why it was skipped */
    struct orr__group *next, *before; /* all groups of the simulator */
    /* Behind the struct, one entry for each member in rank order. */
    const struct orr_collective **members;
    uint32_t *streams;
};

struct orr__work_cache_entry {
    const struct orr_device_spec *spec;
    uint64_t flops, bytes;
    uint32_t unit_dtype;
    struct orr__work work;
};

/* Devices whose events come soon, the latest ones heard of. With many devices none of what an event
 * touches is in the cache, and each part says where the next one is: device, its stream, the head's
 * slot, its command. So they are fetched one after the other, a few events apart. */
enum { ORR__SOON = 32, ORR__SOON_STEP = 6, ORR__SOON_DEVICES_MIN = 256 };
struct orr__lookahead {
    uint32_t devices[ORR__SOON];
    uint32_t count; /* heard of so far */
};

struct orr__sim {
    struct orr_backend base; /* first */
    const struct orr_memory *memory;
    struct orr_retire retire;
    const struct orr_names *names; /* for messages; NULL: none */
    bool timing_only;
    enum orr_runner runner;
    int64_t now_ns; /* of the agenda: no event before it is left */
    struct orr__agenda agenda;
    struct orr__lookahead soon;
    uint32_t submitted; /* stream of the last submit */
    struct orr_device_spec *specs;
    struct orr__device *devices;
    uint32_t device_count;
    struct orr__stream **streams;
    size_t stream_count, stream_capacity;
    struct orr__host *hosts;
    size_t host_count, host_capacity;
    uint32_t hosts_live;
    uint32_t deadlines;       /* blocked hosts that have one */
    struct orr__agenda turns; /* hosts that can run, by their clocks */
    bool takes_turns;         /* there were several; until then `turns` is empty */
    struct orr__memory *memories;
    size_t memory_count, memory_capacity;
    struct orr__stream *ready_first, *ready_last; /* heads to try, in order */
    struct orr__group *groups;
    struct orr__work_cache_entry *work_cache;
    bool out_of_memory;          /* an allocation failed where no call could say so */
    struct orr_perturb *perturb; /* the runtime's; NULL: nothing is perturbed */
    uint64_t seed;
    uint32_t first_rank; /* hosts before it are the program's and the dispatch hosts */
    int64_t late_ns;     /* what the program began later by */
};

static inline struct orr__sim *orr__sim_of(struct orr_backend *backend) {
    return (struct orr__sim *)(void *)backend;
}

static inline struct orr__sim_command *orr__stream_head(struct orr__stream *stream) {
    return &stream->ring[stream->head];
}

static inline bool orr__point_retired(const struct orr__sim *sim, struct orr_point point) {
    return sim->streams[point.stream]->retired >= point.seq;
}

/* stream.c: queues */
enum orr_status orr__sim_stream_create(struct orr_backend *backend, uint32_t device,
                                       enum orr_stream_kind kind, uint32_t *out_stream,
                                       struct orr_error *error);
void orr__sim_stream_destroy(struct orr_backend *backend, uint32_t stream);
void orr__stream_free(struct orr__sim *sim, struct orr__stream *stream);
enum orr_status orr__sim_submit(struct orr_backend *backend, uint32_t stream,
                                const struct orr_command *command, const struct orr_point *waits,
                                uint32_t wait_count, struct orr_point *out_point,
                                struct orr_error *error);
enum orr_status orr__sim_submit_group(struct orr_backend *backend, const uint32_t *streams,
                                      const struct orr_command *commands, uint32_t count,
                                      const struct orr_point *waits, uint32_t wait_count,
                                      struct orr_point *out_points, struct orr_error *error);

/* finish.c: bytes become undefined at the stream's current position, or have to by now. */
void orr__stream_undefine(struct orr__sim *sim, struct orr__stream *stream, uint32_t memory,
                          uint64_t lo, uint64_t hi);
void orr__stream_undefine_due(struct orr__sim *sim, struct orr__stream *stream);

/* engine.c: heads start, devices share, time passes */
void orr__engine_step(struct orr__sim *sim);  /* the earliest event happens */
void orr__engine_drain(struct orr__sim *sim); /* tries all heads that became ready */
void orr__engine_ready(struct orr__sim *sim, struct orr__stream *stream);
/* Is the earliest event before a host's call at `until_ns`? */
static inline bool orr__engine_due(const struct orr__sim *sim, int64_t until_ns) {
    const struct orr__event *top = &sim->agenda.nodes[1]; /* at INT64_MAX if there is none */
    return top->time_ns < until_ns ||
           (top->time_ns == until_ns && orr__event_class(top) < ORR__EVENT_HOST);
}

/* service.c: the commands in service on one device */
void orr__service_enter(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns);
void orr__service_leave(struct orr__sim *sim, struct orr__stream *stream);
void orr__service_reschedule(struct orr__sim *sim, uint32_t device);

/* group.c: collectives */
void orr__group_arrive(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns);
enum orr_command_status orr__group_leave(struct orr__sim *sim, struct orr__stream *stream,
                                         int64_t finish_ns);
void orr__group_free(struct orr__sim *sim, struct orr__group *group);

/* finish.c: a command ends */
void orr__finish_head(struct orr__sim *sim, struct orr__stream *stream, int64_t finish_ns);
/* The head failed: the stream is poisoned from it on. */
void orr__stream_fail(struct orr__sim *sim, struct orr__stream *stream,
                      const struct orr_error *error);
void orr__retire_pending(struct orr__sim *sim, struct orr__stream *stream);

/* host.c: clocks, blocking, turns */
/* What a call of `ns` costs a host whose calls are perturbed (sim/perturb.h). */
int64_t orr__perturb_call(struct orr__sim *sim, uint32_t host, int64_t ns);
/* A call of `ns` passes on the host's clock. */
static inline void orr__host_charge(struct orr__sim *sim, uint32_t host, int64_t ns) {
    sim->hosts[host].now_ns += sim->perturb ? orr__perturb_call(sim, host, ns) : ns;
}
enum orr_status orr__host_turn(struct orr__sim *sim, uint32_t host);
/* A host's clock or state has changed. */
void orr__host_enter_turn(struct orr__sim *sim, uint32_t host);
static inline void orr__host_changed(struct orr__sim *sim, uint32_t host) {
    if (sim->takes_turns) {
        orr__host_enter_turn(sim, host);
    }
}
/* The stream has retired a command: hosts whose wait is over by that go on. */
void orr__hosts_notice(struct orr__sim *sim, struct orr__stream *stream, int64_t retired_ns);
enum orr_status orr__sim_query(struct orr_backend *backend, uint32_t host, struct orr_point point);
enum orr_status orr__sim_wait(struct orr_backend *backend, uint32_t host,
                              const struct orr_point *points, uint32_t count,
                              enum orr_wait_mode mode, int64_t deadline_ns,
                              struct orr_error *error);
void orr__sim_poll(struct orr_backend *backend);
int64_t orr__sim_now(struct orr_backend *backend, uint32_t host);
enum orr_status orr__sim_host_create(struct orr_backend *backend, uint32_t *out_host);
enum orr_status orr__sim_host_next(struct orr_backend *backend, uint32_t *out_host,
                                   struct orr_error *error);
void orr__sim_host_done(struct orr_backend *backend, uint32_t host);
void orr__sim_host_park(struct orr_backend *backend, uint32_t host);
void orr__sim_host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by);
void orr__sim_host_spend(struct orr_backend *backend, uint32_t host, int64_t ns);
enum orr_status orr__sim_host_access(struct orr_backend *backend, const struct orr_command *command,
                                     struct orr_error *error);

#endif
