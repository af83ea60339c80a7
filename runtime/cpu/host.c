/* What a host waits for, and the turns of several hosts on one thread. */
#include "runtime/cpu/cpu_internal.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

/* ---- conditions --------------------------------------------------------------------------- */

static struct cpu_stream *stream_of(const struct cpu_backend *backend, struct orr_point point) {
    return backend->streams[point.stream];
}

static bool point_is_done(const struct cpu_backend *backend, struct orr_point point) {
    return atomic_load_explicit(&stream_of(backend, point)->done, memory_order_acquire) >=
           point.seq;
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
    while (!orr__points_are_done(&backend->hosts, points, count, mode) &&
           orr__cpu_spin_step(backend, &spin))
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
    const struct orr_point *missing = orr__points_missing(&backend->hosts, points, count, mode);
    if (missing)
        return orr__points_hang(&backend->hosts, *missing, error);
    host_spin(backend, points, count, mode);
    while (!orr__points_are_done(&backend->hosts, points, count, mode)) {
        if (orr__cpu_now(backend) >= deadline_ns)
            return ORR_NOT_READY;
        if (!points_watch(backend, points, count, mode))
            host_sleep(backend, deadline_ns);
    }
    orr__cpu_retire(backend);
    return ORR_OK;
}

enum orr_status orr__cpu_wait(struct orr_backend *base, uint32_t host,
                              const struct orr_point *points, uint32_t count,
                              enum orr_wait_mode mode, int64_t deadline_ns,
                              struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(!backend->retiring && host < backend->hosts.count);
    enum orr_status status = check_points(backend, points, count, error);
    if (status != ORR_OK)
        return status;
    backend->hosts.hosts[host].blocked = false;
    if (orr__points_are_done(&backend->hosts, points, count, mode)) {
        orr__cpu_retire(backend);
        return ORR_OK;
    }
    if (orr__cpu_now(backend) >= deadline_ns)
        return ORR_NOT_READY;
    if (backend->hosts.live > 1)
        return orr__hosts_block(&backend->hosts, host, points, count, mode, deadline_ns, error);
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

static bool is_done(const void *backend, struct orr_point point) {
    return point_is_done(backend, point);
}

static uint64_t submitted(const void *base, uint32_t stream) {
    const struct cpu_backend *backend = base;
    return backend->streams[stream]->submitted;
}

static int64_t host_now(const void *backend) {
    return orr__cpu_now(backend);
}

/* Watches everything that blocked hosts wait for and that is submitted. */
static void sleep_for_hosts(void *base, const struct orr__hosts *hosts, int64_t deadline_ns) {
    struct cpu_backend *backend = base;
    for (size_t i = 0; i < hosts->count; i++) {
        const struct orr__hosts_host *host = &hosts->hosts[i];
        if (!host->done && !host->parked &&
            !orr__points_missing(hosts, host->points, host->count, host->mode) &&
            points_watch(backend, host->points, host->count, host->mode))
            return;
    }
    host_sleep(backend, deadline_ns);
}

static const struct orr__hosts_verbs hosts_verbs = {
    .done = is_done, .submitted = submitted, .now = host_now, .sleep = sleep_for_hosts};

void orr__cpu_hosts_init(struct cpu_backend *backend) {
    backend->hosts =
        (struct orr__hosts){.memory = backend->memory, .verbs = &hosts_verbs, .backend = backend};
}

enum orr_status orr__cpu_host_create(struct orr_backend *backend, uint32_t *out_host) {
    return orr__hosts_create(&orr__cpu(backend)->hosts, out_host);
}

void orr__cpu_host_done(struct orr_backend *backend, uint32_t host) {
    orr__hosts_done(&orr__cpu(backend)->hosts, host);
}

bool orr__cpu_host_reason(struct orr_backend *backend, uint32_t host, char *text, size_t size) {
    return orr__hosts_reason(&orr__cpu(backend)->hosts, host, text, size);
}

void orr__cpu_host_park(struct orr_backend *backend, uint32_t host) {
    orr__hosts_park(&orr__cpu(backend)->hosts, host);
}

void orr__cpu_host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by) {
    (void)by; /* one clock for all */
    orr__hosts_unpark(&orr__cpu(backend)->hosts, host);
}

enum orr_status orr__cpu_host_next(struct orr_backend *backend, uint32_t *out_host,
                                   struct orr_error *error) {
    return orr__hosts_next(&orr__cpu(backend)->hosts, out_host, error);
}
