/* The program of oracle hang, prepared for the search: tables that do not change.
 *
 *     calls:   what each host does, without what cannot keep anybody waiting
 *     entries: what calls put into streams, known before the run: one per call and stream
 *     members: the calls of collectives and the ends of messages, and whose numbers they take
 *
 * hang_reduce.h says which calls are left out, and why that changes no answer.
 *
 * Threads: immutable once made. */
#ifndef ORR_HAZARDS_HANG_MODEL_H
#define ORR_HAZARDS_HANG_MODEL_H

#include "hazards/arena.h"
#include "hazards/stream_program.h"

/* A call of a host. */
struct orr__hang_call {
    uint32_t op;                       /* its index in the program */
    uint32_t entry_first, entry_count; /* what it adds */
    uint32_t member;                   /* of coll, send, recv; else ORR_NONE */
    bool is_alone; /* nobody else ever has a call that it could be in the way of */
};

enum orr__hang_entry_kind {
    ORR__HANG_WORK,
    ORR__HANG_WAIT,
    ORR__HANG_BODY, /* a host function with steps that may wait */
    ORR__HANG_COMM
};

/* What a call puts into one stream. */
struct orr__hang_entry {
    uint32_t op, host, stream;
    uint32_t member_first, member_count; /* of COMM: in `entry_members` */
    uint8_t kind;                        /* enum orr__hang_entry_kind */
};

/* A call of a collective, or one end of a message. It takes the next number n of its counter, and
 * is then part of instance `instance_first` + n. */
struct orr__hang_member {
    uint32_t op, host, counter;
    uint32_t entry; /* ORR_NONE: in a group that never ends */
};

/* Where numbers come from: one for each communicator and rank, and (for messages) peer and
 * direction. */
struct orr__hang_counter {
    uint8_t kind;              /* ORR_OP_COLL, ORR_OP_SEND, ORR_OP_RECV */
    bool is_listed;            /* of COLL: the communicator lists the rank */
    bool is_shared;            /* by several hosts: who gets which number depends on the run */
    uint32_t comm, rank, peer; /* peer: of messages */
    uint32_t member_first,
        member_count; /* in `counter_members`: in order of calls, if not shared */
    uint32_t instance_first;
    uint32_t partner; /* of messages: the counter of the other end; ORR_NONE: nobody has it */
};

struct orr__hang_host {
    uint32_t call_first, call_count;
};

struct orr__hang_stream {
    uint32_t device;                   /* a number from 0, see `devices` */
    uint32_t cover_first, cover_count; /* in `covers`: what a sync of it waits for, itself first */
    uint32_t rule_first, rule_count;   /* in `rules`: streams whose content its entries wait for */
    uint32_t comm_count, body_count;   /* entries of these kinds in all */
    bool is_fixed;                     /* what it holds follows from how far its one host is */
};

struct orr__hang_comm {
    uint32_t rank_first,
        rank_count; /* in `ranks`: counters of its listed ranks, each once; ORR_NONE:
                                      * makes no call */
    uint32_t instance_first, instance_count;
};

struct orr__hang_device {
    uint32_t value;                      /* as in the program */
    uint32_t stream_first, stream_count; /* in `device_streams` */
};

/* Things that calls may be in each other's way for. */
enum orr__hang_thing {
    ORR__HANG_ADD,    /* a stream: it gets something */
    ORR__HANG_SEE,    /* a stream: it matters what is in it */
    ORR__HANG_RECORD, /* an event */
    ORR__HANG_USE,    /* an event */
    ORR__HANG_LOCK,
    ORR__HANG_NUMBER, /* a counter */
    ORR__HANG_NOTIFY, /* a flag; in nobody's way */
    ORR__HANG_THINGS
};

/* One who has calls that concern a thing. */
struct orr__hang_user {
    uint32_t process; /* a host, or host_count + a stream (by the steps of its host functions) */
    uint32_t last;    /* of a host: the position of its last such call */
    uint32_t next;    /* user, ORR_NONE: no more */
};

struct orr__hang_model {
    const struct orr_stream_program *program; /* borrowed until cleared */
    struct orr__arena arena;
    struct orr__hang_host *hosts;
    struct orr__hang_call *calls;
    struct orr__hang_entry *entries;
    struct orr__hang_member *members;
    struct orr__hang_counter *counters;
    struct orr__hang_stream *streams;
    struct orr__hang_comm *comms;
    struct orr__hang_device *devices; /* ascending values */
    struct orr__hang_user *users;
    uint32_t *first_users; /* by orr__hang_key */
    uint32_t *entry_members, *counter_members, *covers, *rules, *device_streams;
    uint32_t *ranks, *rank_names; /* see orr__hang_comm; the rank itself, name space RANK */
    bool *event_is_fixed, *lock_is_harmless;
    uint32_t host_count, stream_count, device_count, comm_count, event_count, lock_count;
    uint32_t flag_count, call_count, entry_count, member_count, counter_count, instance_count;
    uint32_t rule_count, user_count;
    size_t user_capacity;
    bool is_exact;        /* every call is there */
    bool has_room;        /* always: streams hold any number of entries */
    bool may_mismatch;    /* two calls of one number could differ */
    bool shares_counters; /* some counter is shared */
};

/* Makes the tables, with every call (`is_exact`) or those that matter. The model is to be cleared
 * in any case. The program must be well-formed. */
enum orr_status orr__hang_model_create(const struct orr_stream_program *program, bool is_exact,
                                       struct orr__hang_model *out_model) ORR_MUST_CHECK;
void orr__hang_model_clear(struct orr__hang_model *model);

/* The device with this value, ORR_NONE if no stream is on it. */
uint32_t orr__hang_device(const struct orr__hang_model *model, uint32_t value);

/* Has the body of a host function steps that may wait? (Harmless locks are not waited for.) */
bool orr__hang_body_waits(const struct orr__hang_model *model, const struct orr_stream_op *op);

/* The devices that a sync_device or implicit_sync names: `index` counts from 0; false: no more.
 * *out_device is ORR_NONE for one without streams. */
bool orr__hang_sync_device(const struct orr__hang_model *model, const struct orr_stream_op *op,
                           uint32_t index, uint32_t *out_device);

/* Whose lists of users: an index of `first_users`. */
uint32_t orr__hang_key(const struct orr__hang_model *model, enum orr__hang_thing thing,
                       uint32_t object);

/* Told of each thing that a step concerns; false: enough. */
typedef bool orr__hang_visit(void *context, enum orr__hang_thing thing, uint32_t object);

/* What a call, or a step of a host function's body, concerns. False if `visit` had enough. */
bool orr__hang_call_things(const struct orr__hang_model *model, const struct orr__hang_call *call,
                           orr__hang_visit *visit, void *context);
bool orr__hang_body_things(const struct orr__hang_model *model, const struct orr_stream_step *step,
                           orr__hang_visit *visit, void *context);

#endif
