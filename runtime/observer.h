/* Observers: who wants to hear of every call at the moment it is made, in order of calls.
 *
 * Records (runtime/record.h) are written when a fact is complete, in order of completion. A
 * check of what orders what needs the order of calls instead, and what each call waits for; that
 * is what an observer is told. The runtime tells it right after a call was accepted; trace/
 * tells one from a finished trace in the same words (trace/observe.h), so that a check cannot
 * know the difference.
 *
 *     struct orr_observer
 *         ^ tells            ^ tells
 *     runtime (live)     trace (a file)
 *
 * All pointers in the arguments are borrowed for the call. An observer must not call the runtime,
 * except orr_runtime_finding. It can't fail: one that runs out of memory says so at its end.
 *
 * Threads: the runtime's thread. */
#ifndef ORR_RUNTIME_OBSERVER_H
#define ORR_RUNTIME_OBSERVER_H

#include "runtime/backend.h"

/* Who makes calls; a dispatch host makes none. */
struct orr_observed_host {
    uint32_t id;
    const char *name;
};

/* A buffer at its allocation: bytes [base, base + bytes) of memory `memory`, ids that are never
 * used again. Another buffer with overlapping bytes of the same memory is a reuse. Whatever uses it
 * comes after `after`: work of other streams that the allocator has waited for before it handed the
 * bytes out again (record_stream). */
struct orr_observed_buffer {
    uint64_t id, base, bytes;
    uint64_t cmd;    /* the allocating call's id */
    uint32_t memory; /* where the bytes are */
    uint32_t device; /* ORR_ID_NONE: host memory */
    uint32_t stream; /* allocated for; ORR_ID_NONE: host memory */
    uint32_t host;
    uint32_t label, site; /* names */
    bool is_pageable;     /* of host memory: not pinned */
    const struct orr_point *after;
    uint32_t after_count;
};

/* A range of a command; offset from the start of the buffer. */
struct orr_observed_access {
    uint64_t buffer, offset, bytes;
    enum orr_access_mode mode;
};

/* A command in a stream, or a host access (stream ORR_ID_NONE). */
struct orr_observed_command {
    uint64_t id, seq; /* seq: position in its stream, from 1; 0 for host accesses */
    uint64_t op;      /* logical operator, 0 none */
    enum orr_command_kind kind;
    uint32_t host, device, stream;
    uint32_t name, site, event; /* names */
    const struct orr_observed_access *accesses;
    const struct orr_point *waits; /* besides the order of its stream; seq 0: nothing */
    uint32_t access_count, wait_count;
    /* Of a collective: which one, and who. ORR_ID_NONE / 0 otherwise. Its members are told one
     * after the other, with no other call between them. */
    uint32_t communicator, rank;
    uint64_t collective; /* sequence number in its communicator */
    uint32_t members;    /* how many there are */
    enum orr_collective_kind collective_kind;
};

struct orr_observer {
    /* Names that ids in the arguments refer to; set before the first call. */
    const struct orr_names *names;
    void (*stream)(struct orr_observer *observer, const struct orr_record_stream *stream);
    void (*host)(struct orr_observer *observer, const struct orr_observed_host *host);
    void (*buffer)(struct orr_observer *observer, const struct orr_observed_buffer *buffer);
    /* `host` frees buffer `id` in call `cmd`, made at `site` (a name). */
    void (*free)(struct orr_observer *observer, uint64_t id, uint64_t cmd, uint32_t host,
                 uint32_t site);
    /* `stream` uses buffer `id` too: its block is not handed out again before the work queued
     * there at the time of the free is done. */
    void (*record_stream)(struct orr_observer *observer, uint64_t id, uint32_t stream);
    void (*command)(struct orr_observer *observer, const struct orr_observed_command *command);
    /* `host` knows now that these points have retired: a sync or a successful query. */
    void (*observed)(struct orr_observer *observer, uint32_t host, const struct orr_point *points,
                     uint32_t count);
    /* Hosts among themselves: everything that `host` has done or knows when it posts a message
     * comes before whatever the host that takes it does next. Ids of messages are never used
     * again, and a message is taken once at most, which may be at once: the start
     * of a host and the end of one that is waited for are told as a post and its take. */
    void (*posted)(struct orr_observer *observer, uint32_t host, uint64_t message);
    void (*taken)(struct orr_observer *observer, uint32_t host, uint64_t message);
};

#endif
