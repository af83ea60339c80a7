/* Internal to the monitor: its actors and what it keeps of them, memory, findings.
 *
 *     monitor.c            the observer: what every call means
 *     monitor_actors.c     streams and hosts, their clocks, and the clocks behind points
 *     monitor_memory.c     buffers and the histories of the memories that they lie in
 *     monitor_findings.c   conflicts: kept once for each pair of sites; their texts
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_MONITOR_INTERNAL_H
#define ORR_HAZARDS_MONITOR_INTERNAL_H

#include "hazards/id_table.h"
#include "hazards/monitor.h"
#include "hazards/range_history.h"

/* What a stream knew from its command `first` on. */
struct orr__version {
    int32_t first;
    struct orr__shared_clock clock;
};

/* A stream or a host. */
struct orr__actor {
    struct orr__shared_clock clock; /* its own count in there means nothing: `count` does */
    int32_t count;                  /* commands of a stream; accesses and calls of a host */
    bool is_host;
    uint32_t id;           /* of the stream or host */
    uint32_t device, name; /* of a stream; name: of names */
    char *host_name;       /* of a host; owned */
    /* A stream has joined version `seen_version` of host `seen_host`'s clock. */
    uint32_t seen_host;
    uint64_t seen_version;
    uint64_t version; /* of a host's clock: how often it has grown */
    /* A stream: what points of it stand for, ascending. */
    struct orr__version *versions;
    size_t version_count, version_capacity;
    int32_t blurred; /* commands up to this have versions that stand for a little more */
};

/* Live buffers. */
struct orr__seen_buffer {
    uint64_t id, base, bytes;
    struct orr__seen_memory *memory;
    uint32_t stream, device; /* ORR_ID_NONE: host memory */
    uint32_t label, site, host;
    uint32_t *streams; /* recorded ones */
    size_t stream_count, stream_capacity;
    struct orr__seen_buffer *next; /* in the pool */
};

/* The end of a buffer, for hosts that get its bytes next. */
struct orr__freed_range {
    uint64_t lo, hi;
    struct orr__shared_clock clock;
};

struct orr__seen_memory {
    uint64_t key; /* its id + 1 */
    struct orr__range_history history;
    struct orr__freed_range *freed;
    size_t freed_count, freed_capacity;
    uint64_t buffers; /* live ones */
};

/* How a conflict is called; the first three by the modes of the touches. */
enum orr__conflict_class {
    ORR__READ_AFTER_WRITE,
    ORR__WRITE_AFTER_READ,
    ORR__WRITE_AFTER_WRITE,
    ORR__FREE_BEFORE_USE_ENDS
};

struct orr__found {
    enum orr_monitor_kind kind;
    enum orr__conflict_class class;
    struct orr__touch a, b; /* b of an unordered free: the free; actor: the allocation's stream */
    uint64_t lo, hi;        /* in the memory */
    uint64_t base;          /* of b's buffer in it */
    uint64_t count, last_a, last_b; /* commands of the latest pair */
};

struct orr__message {
    uint64_t id;
    struct orr__shared_clock clock;
    int32_t count;
    uint32_t actor;
};

/* Members of a collective that is one point of synchronization, until all are told. */
struct orr__member {
    uint32_t actor;
    int32_t call;                        /* its host's count */
    struct orr_observed_command command; /* its arrays are of `accesses` below */
    size_t access_first;
};

struct orr_monitor {
    struct orr_observer observer; /* first */
    const struct orr_memory *memory;
    struct orr_monitor_options options;
    struct orr__clock_pool clocks;
    struct orr__touch_pool touches;
    struct orr__actor *actors;
    size_t actor_count, actor_capacity;
    uint32_t *stream_actors, *host_actors; /* by id + 1 of stream or host; 0: unknown */
    size_t stream_count, stream_capacity, host_count, host_capacity;
    uint32_t told_hosts;  /* how many there are */
    uint32_t last_host;   /* the last one told, an actor */
    size_t version_count; /* of all streams */
    struct orr__id_table buffers, memories, messages;
    struct orr__seen_buffer *buffer_pool;
    uint64_t prune_at; /* when the histories' size reaches this, what everyone knows is dropped */
    struct orr__found *found;
    size_t found_count, found_capacity;
    uint32_t *found_slots; /* hash table of numbers + 1 */
    size_t found_slot_count;
    struct orr__member *members;
    size_t member_count, member_capacity;
    struct orr_observed_access *member_accesses;
    size_t member_access_count, member_access_capacity;
    struct orr_monitor_figures figures;
    enum orr_status status;
};

/* --- monitor_actors.c --- */

/* The actor of a stream or host; NULL if nobody told of it. */
struct orr__actor *orr__monitor_stream(struct orr_monitor *monitor, uint32_t stream);
struct orr__actor *orr__monitor_host(struct orr_monitor *monitor, uint32_t host);
/* Adds one; `host_name` NULL: a stream. */
void orr__monitor_add_actor(struct orr_monitor *monitor, uint32_t id, uint32_t device,
                            uint32_t name, const char *host_name);
/* The actor knows what a clock says, of whose owner it knows `count`. */
void orr__actor_join(struct orr_monitor *monitor, struct orr__actor *actor,
                     const struct orr__shared_clock *clock, uint32_t owner, int32_t count);
/* The actor comes after a point of a stream. */
void orr__actor_join_point(struct orr_monitor *monitor, struct orr__actor *actor,
                           const struct orr_point *point);
/* A clock knows a point of a stream, too. */
void orr__monitor_add_point(struct orr_monitor *monitor, struct orr__shared_clock *clock,
                            const struct orr_point *point);
/* A stream comes after all that its caller knows. */
void orr__actor_join_host(struct orr_monitor *monitor, struct orr__actor *stream,
                          const struct orr__actor *host);
/* A stream has got command `seq`: what it knows now is what points from there on stand for. */
void orr__actor_advance(struct orr_monitor *monitor, struct orr__actor *stream, uint64_t seq);
/* The same again: the stream has learned more with the command it got last. */
void orr__actor_settle(struct orr_monitor *monitor, struct orr__actor *stream);
/* What every actor will know at its next command: of hosts that are still to come too, since they
 * are made by one that is there. NULL: not known. */
const struct orr__shared_clock *orr__monitor_all_know(const struct orr_monitor *monitor);
void orr__monitor_clear_actors(struct orr_monitor *monitor);

static inline uint32_t orr__actor_index(const struct orr_monitor *monitor,
                                        const struct orr__actor *actor) {
    return (uint32_t)(actor - monitor->actors);
}

/* --- monitor_memory.c --- */

void orr__monitor_add_buffer(struct orr_monitor *monitor, const struct orr_observed_buffer *told);
void orr__monitor_record_stream(struct orr_monitor *monitor, uint64_t id, uint32_t stream);
void orr__monitor_free(struct orr_monitor *monitor, uint64_t id, const struct orr__touch *end);
/* Checks a command's accesses against what the actor knows, then adds them. `call`: its host's
 * count when it was called. */
void orr__monitor_access(struct orr_monitor *monitor, const struct orr__actor *actor, int32_t call,
                         const struct orr_observed_command *command);
void orr__monitor_clear_memory(struct orr_monitor *monitor);

/* --- monitor_findings.c --- */

void orr__monitor_found(struct orr_monitor *monitor, const struct orr__found *found);

/* Out of memory: the answer is incomplete from here on. */
static inline void orr__monitor_lacks(struct orr_monitor *monitor) {
    monitor->status = ORR_NO_MEMORY;
}

#endif
