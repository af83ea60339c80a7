/* What a host waits for, and the turns of several hosts on one thread. */
#include "runtime/cpu/cpu_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- conditions --------------------------------------------------------------------------- */

static struct cpu_stream *stream_of(const struct cpu_backend *backend, struct orr_point point) {
    return backend->streams[point.stream];
}

static bool point_is_done(const struct cpu_backend *backend, struct orr_point point) {
    return atomic_load_explicit(&stream_of(backend, point)->done, memory_order_acquire) >=
           point.seq;
}

static bool point_is_submitted(const struct cpu_backend *backend, struct orr_point point) {
    return stream_of(backend, point)->submitted >= point.seq;
}

static bool points_are_done(const struct cpu_backend *backend, const struct orr_point *points,
                            uint32_t count, enum orr_wait_mode mode) {
    for (uint32_t i = 0; i < count; i++) {
        bool done = point_is_done(backend, points[i]);
        if (done && mode == ORR_WAIT_ANY)
            return true;
        if (!done && mode == ORR_WAIT_ALL)
            return false;
    }
    return mode == ORR_WAIT_ALL || count == 0;
}

/* NULL if what is submitted will end the wait, else a point that nobody has submitted. */
static const struct orr_point *missing_point(const struct cpu_backend *backend,
                                             const struct orr_point *points, uint32_t count,
                                             enum orr_wait_mode mode) {
    const struct orr_point *missing = NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool submitted = point_is_submitted(backend, points[i]);
        if (submitted && mode == ORR_WAIT_ANY)
            return NULL;
        if (!submitted && !missing)
            missing = &points[i];
    }
    return missing;
}

static enum orr_status check_points(const struct cpu_backend *backend,
                                    const struct orr_point *points, uint32_t count,
                                    struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (points[i].stream >= backend->stream_count)
            return orr_error_set(error, ORR_INVALID, "a wait for stream %u, there are %zu",
                                 points[i].stream, backend->stream_count);
    return ORR_OK;
}

static enum orr_status fail_as_hang(const struct cpu_backend *backend, struct orr_point point,
                                    struct orr_error *error) {
    return orr_error_set(error, ORR_DEVICE_FAILED,
                         "hang: a wait for command %llu of stream %u, which has only %llu and "
                         "nobody left to submit more",
                         (unsigned long long)point.seq, point.stream,
                         (unsigned long long)stream_of(backend, point)->submitted);
}

/* ---- sleeping ----------------------------------------------------------------------------- */

void orr__cpu_host_wake(struct cpu_backend *backend) {
    pthread_mutex_lock(&backend->host_lock);
    backend->host_woken = true;
    pthread_cond_signal(&backend->host_wake);
    pthread_mutex_unlock(&backend->host_lock);
    atomic_fetch_add_explicit(&backend->host_wakeups, 1, memory_order_relaxed);
}

/* Asks to be woken when the point is done. True: it is done. */
static bool point_watch(struct cpu_backend *backend, struct orr_point point) {
    struct cpu_stream *stream = stream_of(backend, point);
    pthread_mutex_lock(&stream->lock);
    if (point.seq < stream->host_watch)
        stream->host_watch = point.seq;
    if (point.seq < atomic_load_explicit(&stream->watch, memory_order_relaxed))
        atomic_store(&stream->watch, point.seq);
    bool done = atomic_load(&stream->done) >= point.seq;
    pthread_mutex_unlock(&stream->lock);
    return done;
}

/* Watches what could end the wait: every open point for ANY, the first open one for ALL. True: look
 * again instead of sleeping, because something is done meanwhile. */
static bool points_watch(struct cpu_backend *backend, const struct orr_point *points,
                         uint32_t count, enum orr_wait_mode mode) {
    for (uint32_t i = 0; i < count; i++) {
        if (mode == ORR_WAIT_ALL && point_is_done(backend, points[i]))
            continue;
        if (point_watch(backend, points[i]))
            return true;
        if (mode == ORR_WAIT_ALL)
            return false;
    }
    return mode == ORR_WAIT_ALL; /* all of them were done when looked at */
}

static struct timespec timespec_of(const struct cpu_backend *backend, int64_t at_ns) {
    int64_t absolute_ns = at_ns < 0 ? 0 : at_ns + backend->base_ns;
    return (struct timespec){.tv_sec = (time_t)(absolute_ns / 1000000000),
                             .tv_nsec = (long)(absolute_ns % 1000000000)};
}

/* Sleeps until a watched point is done, or at the latest until the deadline. */
static void host_sleep(struct cpu_backend *backend, int64_t deadline_ns) {
    pthread_mutex_lock(&backend->host_lock);
    int result = 0;
    if (deadline_ns >= INT64_MAX - backend->base_ns) {
        while (!backend->host_woken)
            pthread_cond_wait(&backend->host_wake, &backend->host_lock);
    } else {
        struct timespec until = timespec_of(backend, deadline_ns);
        while (!backend->host_woken && result != ETIMEDOUT)
            result = pthread_cond_timedwait(&backend->host_wake, &backend->host_lock, &until);
    }
    backend->host_woken = false;
    pthread_mutex_unlock(&backend->host_lock);
}

static void host_spin(struct cpu_backend *backend, const struct orr_point *points, uint32_t count,
                      enum orr_wait_mode mode) {
    struct cpu_spin spin;
    if (!orr__cpu_spin_begin(backend, &spin))
        return;
    while (!points_are_done(backend, points, count, mode) && orr__cpu_spin_step(backend, &spin))
        continue;
    orr__cpu_spin_end(backend);
}

/* ---- one host ----------------------------------------------------------------------------- */

enum orr_status orr__cpu_query(struct orr_backend *base, uint32_t host, struct orr_point point) {
    (void)host;
    struct cpu_backend *backend = orr__cpu(base);
    assert(point.stream < backend->stream_count);
    if (!point_is_done(backend, point))
        return ORR_NOT_READY;
    orr__cpu_retire(backend); /* what the caller is told to be done has been handed back */
    return ORR_OK;
}

static enum orr_status wait_alone(struct cpu_backend *backend, const struct orr_point *points,
                                  uint32_t count, enum orr_wait_mode mode, int64_t deadline_ns,
                                  struct orr_error *error) {
    const struct orr_point *missing = missing_point(backend, points, count, mode);
    if (missing)
        return fail_as_hang(backend, *missing, error);
    host_spin(backend, points, count, mode);
    while (!points_are_done(backend, points, count, mode)) {
        if (orr__cpu_now(backend) >= deadline_ns)
            return ORR_NOT_READY;
        if (!points_watch(backend, points, count, mode))
            host_sleep(backend, deadline_ns);
    }
    orr__cpu_retire(backend);
    return ORR_OK;
}

/* Remembers what the host waits for; host_next finds out when it is over. */
static enum orr_status host_block(struct cpu_backend *backend, uint32_t id,
                                  const struct orr_point *points, uint32_t count,
                                  enum orr_wait_mode mode, int64_t deadline_ns,
                                  struct orr_error *error) {
    struct cpu_host *host = &backend->hosts[id];
    if (orr_memory_grow(backend->memory, &host->points, &host->capacity, count, sizeof *points,
                        CPU_WAITS_MAX) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a wait for %u points", count);
    memcpy(host->points, points, count * sizeof *points);
    host->count = count;
    host->mode = mode;
    host->deadline_ns = deadline_ns;
    host->blocked = true;
    return ORR_BLOCKED;
}

enum orr_status orr__cpu_wait(struct orr_backend *base, uint32_t host,
                              const struct orr_point *points, uint32_t count,
                              enum orr_wait_mode mode, int64_t deadline_ns,
                              struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(!backend->retiring && host < backend->host_count);
    enum orr_status status = check_points(backend, points, count, error);
    if (status != ORR_OK)
        return status;
    backend->hosts[host].blocked = false;
    if (points_are_done(backend, points, count, mode)) {
        orr__cpu_retire(backend);
        return ORR_OK;
    }
    if (orr__cpu_now(backend) >= deadline_ns)
        return ORR_NOT_READY;
    if (backend->hosts_live > 1)
        return host_block(backend, host, points, count, mode, deadline_ns, error);
    return wait_alone(backend, points, count, mode, deadline_ns, error);
}

void orr__cpu_drain(struct cpu_backend *backend) {
    for (size_t i = 0; i < backend->stream_count; i++) {
        struct cpu_stream *stream = backend->streams[i];
        struct orr_point last = {.stream = stream->id, .seq = stream->submitted};
        struct orr_error error = {0};
        enum orr_status status = wait_alone(backend, &last, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &error);
        assert(status == ORR_OK && stream->retired == stream->submitted);
        (void)status;
    }
}

/* ---- several hosts ------------------------------------------------------------------------ */

enum orr_status orr__cpu_host_create(struct orr_backend *base, uint32_t *out_host) {
    struct cpu_backend *backend = orr__cpu(base);
    *out_host = ORR_ID_NONE;
    if (orr_memory_grow(backend->memory, &backend->hosts, &backend->host_capacity,
                        backend->host_count + 1, sizeof *backend->hosts, CPU_HOSTS_MAX) != ORR_OK)
        return ORR_NO_MEMORY;
    backend->hosts[backend->host_count] = (struct cpu_host){.turn = backend->turns++};
    *out_host = (uint32_t)backend->host_count++;
    backend->hosts_live++;
    return ORR_OK;
}

void orr__cpu_host_done(struct orr_backend *base, uint32_t host) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(host < backend->host_count);
    if (backend->hosts[host].done)
        return;
    backend->hosts[host].done = true;
    backend->hosts_live--;
}

bool orr__cpu_host_reason(struct orr_backend *base, uint32_t id, char *text, size_t size) {
    struct cpu_backend *backend = orr__cpu(base);
    const struct cpu_host *host = &backend->hosts[id];
    for (uint32_t i = 0; host->blocked && i < host->count; i++)
        if (stream_of(backend, host->points[i])->retired < host->points[i].seq) {
            snprintf(text, size, "in a wait for command %llu of stream %u",
                     (unsigned long long)host->points[i].seq, host->points[i].stream);
            return true;
        }
    return false;
}

void orr__cpu_host_park(struct orr_backend *base, uint32_t host) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(host < backend->host_count);
    backend->hosts[host].blocked = false; /* a wait that its caller gave up */
    backend->hosts[host].parked = true;
}

void orr__cpu_host_unpark(struct orr_backend *base, uint32_t host, uint32_t by) {
    (void)by; /* one clock for all */
    struct cpu_backend *backend = orr__cpu(base);
    assert(host < backend->host_count && backend->hosts[host].parked);
    backend->hosts[host].parked = false;
}

static bool host_can_act(const struct cpu_backend *backend, const struct cpu_host *host) {
    return !host->done && !host->parked &&
           (!host->blocked || points_are_done(backend, host->points, host->count, host->mode) ||
            orr__cpu_now(backend) >= host->deadline_ns);
}

static struct cpu_host *host_of_next_turn(struct cpu_backend *backend) {
    struct cpu_host *next = NULL;
    for (size_t i = 0; i < backend->host_count; i++) {
        struct cpu_host *host = &backend->hosts[i];
        if (host_can_act(backend, host) && (!next || host->turn < next->turn))
            next = host;
    }
    return next;
}

/* Nobody is left who could wake the parked hosts. */
static bool all_are_parked(const struct cpu_backend *backend) {
    for (size_t i = 0; i < backend->host_count; i++)
        if (!backend->hosts[i].done && !backend->hosts[i].parked)
            return false;
    return true;
}

/* Watches everything that blocked hosts wait for, of which there is one at least. Sets *out_never
 * to a wait that nothing can end if all are of that kind. True: look again, something is done
 * already. */
static bool hosts_watch(struct cpu_backend *backend, int64_t *out_deadline_ns,
                        const struct orr_point **out_never) {
    int64_t deadline_ns = ORR_TIME_MAX;
    const struct orr_point *never = NULL;
    bool hopeful = false;
    for (size_t i = 0; i < backend->host_count; i++) {
        struct cpu_host *host = &backend->hosts[i];
        if (host->done || host->parked)
            continue;
        const struct orr_point *missing =
            missing_point(backend, host->points, host->count, host->mode);
        if (host->deadline_ns < deadline_ns)
            deadline_ns = host->deadline_ns;
        if (missing) {
            never = missing;
            continue;
        }
        hopeful = true;
        if (points_watch(backend, host->points, host->count, host->mode))
            return true;
    }
    *out_deadline_ns = deadline_ns;
    *out_never = hopeful || deadline_ns != ORR_TIME_MAX ? NULL : never;
    return false;
}

enum orr_status orr__cpu_host_next(struct orr_backend *base, uint32_t *out_host,
                                   struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    *out_host = ORR_ID_NONE;
    if (backend->hosts_live == 0)
        return ORR_NOT_READY;
    struct cpu_host *next;
    while (!(next = host_of_next_turn(backend))) {
        if (all_are_parked(backend))
            return orr_error_set(error, ORR_DEVICE_FAILED, "hang: all hosts wait for each other");
        int64_t deadline_ns = ORR_TIME_MAX;
        const struct orr_point *never = NULL;
        if (hosts_watch(backend, &deadline_ns, &never))
            continue;
        if (never)
            return fail_as_hang(backend, *never, error);
        host_sleep(backend, deadline_ns);
    }
    next->turn = backend->turns++;
    *out_host = (uint32_t)(next - backend->hosts);
    return ORR_OK;
}
