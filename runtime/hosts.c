#include "runtime/hosts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- points --- */

bool orr__points_are_done(const struct orr__hosts *hosts, const struct orr_point *points,
                          uint32_t count, enum orr_wait_mode mode) {
    for (uint32_t i = 0; i < count; i++) {
        bool done = hosts->verbs->done(hosts->backend, points[i]);
        if (done && mode == ORR_WAIT_ANY)
            return true;
        if (!done && mode == ORR_WAIT_ALL)
            return false;
    }
    return mode == ORR_WAIT_ALL || count == 0;
}

const struct orr_point *orr__points_missing(const struct orr__hosts *hosts,
                                            const struct orr_point *points, uint32_t count,
                                            enum orr_wait_mode mode) {
    const struct orr_point *missing = NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool submitted = hosts->verbs->submitted(hosts->backend, points[i].stream) >= points[i].seq;
        if (submitted && mode == ORR_WAIT_ANY)
            return NULL;
        if (!submitted && !missing)
            missing = &points[i];
    }
    return missing;
}

enum orr_status orr__points_hang(const struct orr__hosts *hosts, struct orr_point point,
                                 struct orr_error *error) {
    return orr_error_set(error, ORR_DEVICE_FAILED,
                         "hang: a wait for command %llu of stream %u, which has only %llu and "
                         "nobody left to submit more",
                         (unsigned long long)point.seq, point.stream,
                         (unsigned long long)hosts->verbs->submitted(hosts->backend, point.stream));
}

/* --- hosts --- */

enum orr_status orr__hosts_create(struct orr__hosts *hosts, uint32_t *out_host) {
    *out_host = ORR_ID_NONE;
    if (orr_memory_grow(hosts->memory, &hosts->hosts, &hosts->capacity, hosts->count + 1,
                        sizeof *hosts->hosts, ORR__HOSTS_COUNT_MAX) != ORR_OK)
        return ORR_NO_MEMORY;
    hosts->hosts[hosts->count] = (struct orr__hosts_host){.turn = hosts->turns++};
    *out_host = (uint32_t)hosts->count++;
    hosts->live++;
    return ORR_OK;
}

void orr__hosts_done(struct orr__hosts *hosts, uint32_t host) {
    assert(host < hosts->count);
    if (hosts->hosts[host].done)
        return;
    hosts->hosts[host].done = true;
    hosts->live--;
}

bool orr__hosts_reason(const struct orr__hosts *hosts, uint32_t id, char *text, size_t size) {
    assert(id < hosts->count);
    const struct orr__hosts_host *host = &hosts->hosts[id];
    for (uint32_t i = 0; host->blocked && i < host->count; i++)
        if (!hosts->verbs->done(hosts->backend, host->points[i])) {
            snprintf(text, size, "in a wait for command %llu of stream %u",
                     (unsigned long long)host->points[i].seq, host->points[i].stream);
            return true;
        }
    return false;
}

void orr__hosts_park(struct orr__hosts *hosts, uint32_t host) {
    assert(host < hosts->count);
    hosts->hosts[host].blocked = false; /* a wait that its caller gave up */
    hosts->hosts[host].parked = true;
}

void orr__hosts_unpark(struct orr__hosts *hosts, uint32_t host) {
    assert(host < hosts->count && hosts->hosts[host].parked);
    hosts->hosts[host].parked = false;
}

void orr__hosts_clear(struct orr__hosts *hosts) {
    for (size_t i = 0; i < hosts->count; i++)
        orr_memory_free(hosts->memory, hosts->hosts[i].points);
    orr_memory_free(hosts->memory, hosts->hosts);
    hosts->hosts = NULL;
    hosts->count = hosts->capacity = 0;
}

enum orr_status orr__hosts_block(struct orr__hosts *hosts, uint32_t id,
                                 const struct orr_point *points, uint32_t count,
                                 enum orr_wait_mode mode, int64_t deadline_ns,
                                 struct orr_error *error) {
    struct orr__hosts_host *host = &hosts->hosts[id];
    if (orr_memory_grow(hosts->memory, &host->points, &host->capacity, count, sizeof *points,
                        ORR__HOST_POINTS_MAX) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a wait for %u points", count);
    memcpy(host->points, points, count * sizeof *points);
    host->count = count;
    host->mode = mode;
    host->deadline_ns = deadline_ns;
    host->blocked = true;
    return ORR_BLOCKED;
}

static bool can_act(const struct orr__hosts *hosts, const struct orr__hosts_host *host) {
    return !host->done && !host->parked &&
           (!host->blocked || orr__points_are_done(hosts, host->points, host->count, host->mode) ||
            hosts->verbs->now(hosts->backend) >= host->deadline_ns);
}

static struct orr__hosts_host *host_of_next_turn(struct orr__hosts *hosts) {
    struct orr__hosts_host *next = NULL;
    for (size_t i = 0; i < hosts->count; i++) {
        struct orr__hosts_host *host = &hosts->hosts[i];
        if (can_act(hosts, host) && (!next || host->turn < next->turn))
            next = host;
    }
    return next;
}

/* Nobody is left who could wake the parked hosts. */
static bool all_are_parked(const struct orr__hosts *hosts) {
    for (size_t i = 0; i < hosts->count; i++)
        if (!hosts->hosts[i].done && !hosts->hosts[i].parked)
            return false;
    return true;
}

/* The earliest deadline of blocked hosts, of which there is one at least. Sets *out_never to a wait
 * that nothing can end if all are of that kind. */
static int64_t earliest_deadline(const struct orr__hosts *hosts,
                                 const struct orr_point **out_never) {
    int64_t deadline_ns = ORR_TIME_MAX;
    const struct orr_point *never = NULL;
    bool hopeful = false;
    for (size_t i = 0; i < hosts->count; i++) {
        const struct orr__hosts_host *host = &hosts->hosts[i];
        if (host->done || host->parked)
            continue;
        const struct orr_point *missing =
            orr__points_missing(hosts, host->points, host->count, host->mode);
        if (host->deadline_ns < deadline_ns)
            deadline_ns = host->deadline_ns;
        if (missing)
            never = missing;
        else
            hopeful = true;
    }
    *out_never = hopeful || deadline_ns != ORR_TIME_MAX ? NULL : never;
    return deadline_ns;
}

enum orr_status orr__hosts_next(struct orr__hosts *hosts, uint32_t *out_host,
                                struct orr_error *error) {
    *out_host = ORR_ID_NONE;
    if (hosts->live == 0)
        return ORR_NOT_READY;
    struct orr__hosts_host *next;
    while (!(next = host_of_next_turn(hosts))) {
        if (all_are_parked(hosts))
            return orr_error_set(error, ORR_DEVICE_FAILED, "hang: all hosts wait for each other");
        const struct orr_point *never;
        int64_t deadline_ns = earliest_deadline(hosts, &never);
        if (never)
            return orr__points_hang(hosts, *never, error);
        hosts->verbs->sleep(hosts->backend, hosts, deadline_ns);
    }
    next->turn = hosts->turns++;
    *out_host = (uint32_t)(next - hosts->hosts);
    return ORR_OK;
}
