/* Streams as queues: what the calls of a program add to which stream, prepared for runs in which
 * the hosts' calls interleave freely (oracle hang).
 *
 * A call adds *entries* to streams; a group of communication adds one entry per stream at its end.
 * Which entries there will be follows from the program; when they are added, what is in the streams
 * by then, and what a collective's number is are parts of a state (queue_machine.h).
 *
 * Actors: streams first, then hosts. An actor's next step is always one: the next call of a host,
 * the next step of the first unfinished entry of a stream. Steps of two actors don't commute only
 * if both touch one of the *objects*: a stream's end, an event, a lock, a sequence of numbers, the
 * slots of a device where they can run out.
 *
 * Threads: immutable once made; for any number of readers. */
#ifndef ORR_HAZARDS_EXPLORE_QUEUE_PLAN_H
#define ORR_HAZARDS_EXPLORE_QUEUE_PLAN_H

#include "hazards/stream_program.h"

enum { ORR_QUEUE_OPS_MAX = 4096, ORR_QUEUE_STATE_WORDS_MAX = 1 << 18 };

enum orr__entry_kind { ORR_ENTRY_WORK, ORR_ENTRY_WAIT, ORR_ENTRY_COMM };

struct orr__entry {
    uint32_t op, stream;
    uint32_t member_first, member_count; /* COMM: operations */
    uint32_t dependencies;               /* row in the state; ORR_NONE: has none */
    uint8_t kind;                        /* enum orr__entry_kind */
};

/* Part of an operation: objects that a step touches. */
struct orr__use {
    uint32_t object;
    bool is_write;
};

/* What a call adds and touches. */
struct orr__call {
    uint32_t entry_first, entry_count;
    uint32_t use_first, use_count;
    uint32_t channel;  /* of coll, send, recv: whose numbers it takes; else ORR_NONE */
    bool is_in_group;  /* its entry comes at the group's end */
    bool is_outermost; /* of group_end */
};

/* A sequence of numbers: of a rank's collectives of a communicator, of its sends to a peer, ... */
struct orr__channel {
    uint8_t kind;    /* ORR_OP_COLL, ORR_OP_SEND, ORR_OP_RECV */
    uint32_t listed; /* COLL: how often the communicator lists the rank */
    uint32_t comm, rank, peer;
    uint32_t count;   /* calls */
    uint32_t match;   /* SEND, RECV: the channel of the other side; ORR_NONE: nobody calls */
    uint32_t started; /* in the state: operation + 1 per number, once started */
};

/* Offsets in a state, whose parts are words. */
struct orr__queue_layout {
    uint32_t calls, counters, numbers, lengths, heads, progress, running, flags, locks;
    uint32_t events;       /* rows of 1 + stream_count: whether set, then entries per stream */
    uint32_t dependencies; /* rows of stream_count */
    uint32_t finished;     /* per entry */
    uint32_t mismatch;     /* two operations + 1 */
    uint32_t words;
};

/* Who touches an object, in order of actors. */
struct orr__user {
    uint32_t actor;
    uint32_t call;  /* of a host: which of its calls */
    uint32_t entry; /* of a stream; else ORR_NONE */
    bool is_write;
};

struct orr__queue_plan {
    const struct orr_stream_program *program; /* borrowed */
    const struct orr_memory *memory;
    struct orr__call *calls; /* per operation */
    uint32_t *host_ops;      /* operations by host, in order */
    uint32_t *host_first;    /* per host, and the end */
    struct orr__entry *entries;
    uint32_t *members;     /* operations of entries; shared array */
    uint32_t *queue_first; /* per stream: offset of its queue in the state */
    uint32_t *device_of;   /* per stream: devices numbered from 0 */
    bool *slots_bind;      /* per device: more streams communicate than it has slots */
    struct orr__channel *channels;
    uint32_t *comm_channels; /* those of COLL by communicator */
    uint32_t *comm_first;    /* per communicator, and the end */
    struct orr__use *uses;
    struct orr__user *users; /* by object */
    uint32_t *user_first;    /* per object, and the end */
    struct orr__queue_layout at;
    uint32_t stream_count, host_count, actor_count, entry_count, member_count, channel_count;
    uint32_t device_count, use_count, object_count, step_max;
    uint32_t first_event_object, first_lock_object, first_channel_object, first_slot_object;
    size_t entry_capacity, use_capacity, channel_capacity;
};

/* Makes the plan of a program, which is borrowed until the plan is destroyed. ORR_UNSUPPORTED for
 * programs that are too large. ORR_INVALID: a group ends that is not open. */
enum orr_status orr__queue_plan_create(const struct orr_stream_program *program,
                                       struct orr__queue_plan **out_plan,
                                       struct orr_error *error) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr__queue_plan_destroy(struct orr__queue_plan **plan);

/* True if work added to `stream` waits for what is in `other` by then. */
bool orr__queue_follows(const struct orr__queue_plan *plan, uint32_t stream, uint32_t other);
/* True if a sync or a record of `stream` covers `other`: itself, and a legacy stream's blocking
 * ones. */
bool orr__queue_covers(const struct orr__queue_plan *plan, uint32_t stream, uint32_t other);
/* True if a sync of devices (sync_device, implicit_sync) covers the stream. */
bool orr__queue_syncs_device(const struct orr__queue_plan *plan, const struct orr_stream_op *op,
                             uint32_t stream);

#endif
