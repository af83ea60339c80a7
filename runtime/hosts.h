/* Cooperative hosts of backends whose clock is the machine's: one thread makes the calls of all
 * hosts in turn, and a host whose wait is not over lets the others go on.
 *
 *     struct orr__hosts hosts = {.memory = memory, .verbs = &verbs, .backend = backend};
 *     orr__hosts_create(&hosts, &host);                            host 0
 *     ...
 *     if (!orr__points_are_done(&hosts, points, count, mode) && hosts.live > 1)
 *         return orr__hosts_block(&hosts, host, points, count, mode, deadline_ns, error);
 *
 * Private to backends: the simulator's hosts have clocks of their own, and are in sim/host.c.
 *
 * Threads: the host's. */
#ifndef ORR_RUNTIME_HOSTS_H
#define ORR_RUNTIME_HOSTS_H

#include "runtime/backend.h"

enum { ORR__HOSTS_COUNT_MAX = 1 << 20, ORR__HOST_POINTS_MAX = 1 << 20 };

struct orr__hosts;

/* What hosts need to know of their backend. */
struct orr__hosts_verbs {
    bool (*done)(const void *backend, struct orr_point point);
    uint64_t (*submitted)(const void *backend, uint32_t stream); /* commands, so far */
    int64_t (*now)(const void *backend);
    /* Sleeps until something that blocked hosts wait for may be done, at the latest until the
     * deadline; or returns at once. */
    void (*sleep)(void *backend, const struct orr__hosts *hosts, int64_t deadline_ns);
};

struct orr__hosts_host {
    struct orr_point *points; /* what it waits for, if blocked */
    size_t capacity;
    uint32_t count;
    enum orr_wait_mode mode;
    int64_t deadline_ns;
    uint64_t turn; /* order of the last time it was named by orr__hosts_next */
    bool blocked, done;
    bool parked; /* until another host wakes it */
};

/* Zeroed but for the first three. */
struct orr__hosts {
    const struct orr_memory *memory;
    const struct orr__hosts_verbs *verbs;
    void *backend;
    struct orr__hosts_host *hosts;
    size_t count, capacity;
    uint64_t turns;
    uint32_t live; /* hosts that still make calls */
};

/* ORR_NO_MEMORY. */
enum orr_status orr__hosts_create(struct orr__hosts *hosts, uint32_t *out_host);
/* The host makes no more calls. */
void orr__hosts_done(struct orr__hosts *hosts, uint32_t host);
/* As host_reason, host_park and host_unpark of runtime/backend.h. */
bool orr__hosts_reason(const struct orr__hosts *hosts, uint32_t host, char *text, size_t size);
void orr__hosts_park(struct orr__hosts *hosts, uint32_t host);
void orr__hosts_unpark(struct orr__hosts *hosts, uint32_t host);
/* Frees what is in it. */
void orr__hosts_clear(struct orr__hosts *hosts);

/* Remembers what a host waits for; orr__hosts_next finds out when it is over. ORR_BLOCKED, or
 * ORR_NO_MEMORY. */
enum orr_status orr__hosts_block(struct orr__hosts *hosts, uint32_t host,
                                 const struct orr_point *points, uint32_t count,
                                 enum orr_wait_mode mode, int64_t deadline_ns,
                                 struct orr_error *error);
/* The host that can act and has waited longest for its turn; sleeps until there is one. As
 * host_next of runtime/backend.h. */
enum orr_status orr__hosts_next(struct orr__hosts *hosts, uint32_t *out_host,
                                struct orr_error *error);

/* Whether a wait for these points is over. */
bool orr__points_are_done(const struct orr__hosts *hosts, const struct orr_point *points,
                          uint32_t count, enum orr_wait_mode mode);
/* NULL if what is submitted will end the wait, else a point that nobody has submitted. */
const struct orr_point *orr__points_missing(const struct orr__hosts *hosts,
                                            const struct orr_point *points, uint32_t count,
                                            enum orr_wait_mode mode);
/* ORR_DEVICE_FAILED: nobody is left who could submit the point. */
enum orr_status orr__points_hang(const struct orr__hosts *hosts, struct orr_point point,
                                 struct orr_error *error);

#endif
