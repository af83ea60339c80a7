/* What a host waits for. */
#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

static struct cuda_stream *stream_of(const struct cuda_backend *backend, struct orr_point point) {
    return backend->streams[point.stream];
}

/* --- looking and sleeping --- */

static void rest(struct cuda_backend *backend, int64_t deadline_ns) {
    int64_t ns = CUDA_REST_NS;
    if (deadline_ns != ORR_TIME_MAX && deadline_ns - orr__cuda_now(backend) < ns)
        ns = deadline_ns - orr__cuda_now(backend);
    if (backend->api->rest && ns > 0)
        backend->api->rest(backend->api, ns);
}

/* What keeps a stream's head from being retired: a command with an event of its own. */
static struct cuda_slot *obstacle(struct cuda_stream *stream) {
    for (;;) {
        struct cuda_slot *slot = orr__cuda_slot(stream, stream->retired + 1);
        uint64_t seq = slot->covered ? slot->covered : slot->command.record.seq;
        if ((slot->own || slot->covered) && seq > stream->done)
            return orr__cuda_slot(stream, seq);
        const struct cuda_wait *open = NULL;
        for (uint32_t i = 0; i < slot->wait_count && !open; i++)
            if (slot->waits[i].stream->retired < slot->waits[i].seq)
                open = &slot->waits[i];
        for (uint32_t i = 0; slot->group && i < slot->group->count && !open; i++)
            if (slot->group->members[i].stream->retired + 1 < slot->group->members[i].seq)
                open = &slot->group->members[i];
        if (!open)
            return NULL;
        stream = open->stream;
    }
}

/* Blocks until something on the way to the point is over. */
static void sleep_for(struct cuda_backend *backend, struct orr_point point) {
    struct cuda_stream *stream = stream_of(backend, point);
    cudaEvent_t event = orr__cuda_event_of(stream, point.seq);
    if (!event || orr__cuda_slot(stream, point.seq)->behind <= stream->done) {
        struct cuda_slot *slot = obstacle(stream);
        event = slot ? slot->own : NULL;
    }
    /* What it says of failures the next look will say again. */
    if (event)
        (void)backend->api->rt.cudaEventSynchronize(event);
}

/* NCCL's kernels wait for peers that may be lost, which only NCCL can tell. */
static void check_peers(struct cuda_backend *backend) {
    struct orr_error error = {0};
    if (backend->lost || orr__cuda_collectives_poll(backend->collectives, &error) == ORR_OK)
        return;
    backend->lost = true;
    backend->loss = error;
}

static bool is_retired(const struct cuda_backend *backend, struct orr_point point) {
    return stream_of(backend, point)->retired >= point.seq;
}

/* Whether the point is over and has not been handed back: its times, or those of something before
 * it, are not known yet. */
static bool is_untimed(struct cuda_backend *backend, struct orr_point point) {
    struct cuda_stream *stream = stream_of(backend, point);
    if (is_retired(backend, point) || point.seq > stream->submitted)
        return false;
    bool runs = orr__cuda_event_of(stream, point.seq) &&
                !orr__cuda_is_over(stream, orr__cuda_slot(stream, point.seq)->behind);
    return backend->lost || (!runs && !obstacle(stream));
}

/* Whether nothing but times keeps the points from being handed back. */
static bool only_times_lack(struct cuda_backend *backend, const struct orr_point *points,
                            uint32_t count, enum orr_wait_mode mode) {
    uint32_t untimed = 0, open = 0;
    for (uint32_t i = 0; i < count; i++) {
        open += is_retired(backend, points[i]) ? 0 : 1;
        untimed += is_untimed(backend, points[i]) ? 1 : 0;
    }
    return untimed > 0 && (mode == ORR_WAIT_ANY || untimed == open);
}

/* Hands back what is over. Times that only CUPTI knows are asked for, and then given up, only once
 * the host waits for nothing else: CUPTI keeps records back while others in their buffer run. */
static void retire_for(struct cuda_backend *backend, const struct orr_point *points, uint32_t count,
                       enum orr_wait_mode mode) {
    (void)orr__cuda_retire(backend, false);
    if (!only_times_lack(backend, points, count, mode))
        return;
    orr__cuda_times_flush(backend->times);
    (void)orr__cuda_retire(backend, false);
    while (only_times_lack(backend, points, count, mode) && orr__cuda_retire(backend, true))
        ;
}

/* --- one host --- */

static enum orr_status check_points(const struct cuda_backend *backend,
                                    const struct orr_point *points, uint32_t count,
                                    struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (points[i].stream >= backend->stream_count)
            return orr_error_set(error, ORR_INVALID, "a wait for stream %u, there are %zu",
                                 points[i].stream, backend->stream_count);
    return ORR_OK;
}

enum orr_status orr__cuda_query(struct orr_backend *base, uint32_t host, struct orr_point point) {
    (void)host;
    struct cuda_backend *backend = orr__cuda(base);
    assert(point.stream < backend->stream_count);
    if (is_retired(backend, point))
        return ORR_OK;
    check_peers(backend);
    retire_for(backend, &point, 1, ORR_WAIT_ALL);
    return is_retired(backend, point) ? ORR_OK : ORR_NOT_READY;
}

static enum orr_status wait_alone(struct cuda_backend *backend, const struct orr_point *points,
                                  uint32_t count, enum orr_wait_mode mode, int64_t deadline_ns,
                                  struct orr_error *error) {
    const struct orr_point *missing = orr__points_missing(&backend->hosts, points, count, mode);
    if (missing)
        return orr__points_hang(&backend->hosts, *missing, error);
    bool blocks =
        deadline_ns == ORR_TIME_MAX && (mode == ORR_WAIT_ALL || count == 1) && !backend->polls;
    uint32_t at = 0;
    while (!orr__points_are_done(&backend->hosts, points, count, mode)) {
        if (orr__cuda_now(backend) >= deadline_ns)
            return ORR_NOT_READY;
        while (blocks && at < count &&
               (is_retired(backend, points[at]) || is_untimed(backend, points[at])))
            at++;
        if (!blocks)
            rest(backend, deadline_ns);
        else if (at < count)
            sleep_for(backend, points[at]);
        check_peers(backend);
        retire_for(backend, points, count, mode);
    }
    return ORR_OK;
}

enum orr_status orr__cuda_wait(struct orr_backend *base, uint32_t host,
                               const struct orr_point *points, uint32_t count,
                               enum orr_wait_mode mode, int64_t deadline_ns,
                               struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    assert(!backend->retiring && host < backend->hosts.count);
    enum orr_status status = check_points(backend, points, count, error);
    if (status != ORR_OK)
        return status;
    backend->hosts.hosts[host].blocked = false;
    if (orr__points_are_done(&backend->hosts, points, count, mode))
        return ORR_OK;
    retire_for(backend, points, count, mode);
    if (orr__points_are_done(&backend->hosts, points, count, mode))
        return ORR_OK;
    if (orr__cuda_now(backend) >= deadline_ns)
        return ORR_NOT_READY;
    if (backend->hosts.live > 1)
        return orr__hosts_block(&backend->hosts, host, points, count, mode, deadline_ns, error);
    return wait_alone(backend, points, count, mode, deadline_ns, error);
}

void orr__cuda_drain(struct cuda_backend *backend) {
    for (size_t i = 0; i < backend->stream_count; i++) {
        struct cuda_stream *stream = backend->streams[i];
        struct orr_point last = {.stream = stream->id, .seq = stream->submitted};
        struct orr_error error = {0};
        enum orr_status status = wait_alone(backend, &last, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &error);
        assert(status == ORR_OK && stream->retired == stream->submitted);
        (void)status;
    }
}

/* --- several hosts --- */

static bool is_done(const void *backend, struct orr_point point) {
    return is_retired(backend, point);
}

static uint64_t submitted(const void *base, uint32_t stream) {
    const struct cuda_backend *backend = base;
    return backend->streams[stream]->submitted;
}

static int64_t host_now(const void *backend) {
    return orr__cuda_now(backend);
}

static void sleep_for_hosts(void *base, const struct orr__hosts *hosts, int64_t deadline_ns) {
    struct cuda_backend *backend = base;
    (void)hosts;
    check_peers(backend);
    if (!orr__cuda_retire(backend, true))
        rest(backend, deadline_ns);
}

static const struct orr__hosts_verbs hosts_verbs = {
    .done = is_done, .submitted = submitted, .now = host_now, .sleep = sleep_for_hosts};

void orr__cuda_hosts_init(struct cuda_backend *backend) {
    backend->hosts =
        (struct orr__hosts){.memory = backend->memory, .verbs = &hosts_verbs, .backend = backend};
}

enum orr_status orr__cuda_host_create(struct orr_backend *backend, uint32_t *out_host) {
    return orr__hosts_create(&orr__cuda(backend)->hosts, out_host);
}

void orr__cuda_host_done(struct orr_backend *backend, uint32_t host) {
    orr__hosts_done(&orr__cuda(backend)->hosts, host);
}

bool orr__cuda_host_reason(struct orr_backend *backend, uint32_t host, char *text, size_t size) {
    return orr__hosts_reason(&orr__cuda(backend)->hosts, host, text, size);
}

void orr__cuda_host_park(struct orr_backend *backend, uint32_t host) {
    orr__hosts_park(&orr__cuda(backend)->hosts, host);
}

void orr__cuda_host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by) {
    (void)by; /* one clock for all */
    orr__hosts_unpark(&orr__cuda(backend)->hosts, host);
}

enum orr_status orr__cuda_host_next(struct orr_backend *backend, uint32_t *out_host,
                                    struct orr_error *error) {
    return orr__hosts_next(&orr__cuda(backend)->hosts, out_host, error);
}
