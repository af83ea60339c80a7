/* Hosts: clocks, turns and blocking. */
#include <assert.h>

#include "sim/hang.h"
#include "sim/perturb.h"

void orr__host_enter_turn(struct orr__sim *sim, uint32_t host) {
    bool runs = sim->hosts[host].state == ORR__HOST_RUNS;
    (void)orr__agenda_set(&sim->turns, host, runs ? sim->hosts[host].now_ns : ORR_TIME_MAX,
                          ORR__EVENT_HOST);
}

/* The runnable host with the smallest (clock, id), ORR_ID_NONE if none can run. */
static uint32_t earliest(const struct orr__sim *sim) {
    if (!sim->takes_turns) {
        return sim->hosts[0].state == ORR__HOST_RUNS ? 0 : ORR_ID_NONE;
    }
    const struct orr__event *top = orr__agenda_top(&sim->turns);
    return top ? orr__event_device(top) : ORR_ID_NONE;
}

/* A fault: the host makes no more calls. */
static void lose(struct orr__sim *sim, uint32_t id) {
    struct orr__host *host = &sim->hosts[id];
    host->state = ORR__HOST_BLOCKED;
    host->lost = true;
    host->point_count = 0;
    host->deadline_ns = ORR_TIME_MAX;
    orr__host_changed(sim, id);
}

/* Lets everything happen that comes before a call of this host. ORR_BLOCKED if that includes a call
 * of another host. */
enum orr_status orr__host_turn(struct orr__sim *sim, uint32_t host) {
    assert(host < sim->host_count && sim->hosts[host].state != ORR__HOST_DONE);
    if (sim->hosts[host].state == ORR__HOST_BLOCKED) {
        return ORR_BLOCKED; /* its caller gave the wait up: it still ends first */
    }
    if (sim->perturb && orr__perturb_host_lost(sim, host)) {
        lose(sim, host);
        return sim->hosts_live == 1 ? ORR_DEVICE_FAILED : ORR_BLOCKED;
    }
    int64_t now_ns = sim->hosts[host].now_ns;
    if (sim->hosts_live == 1) {
        while (orr__engine_due(sim, now_ns)) {
            orr__engine_step(sim);
        }
        return ORR_OK;
    }
    for (;;) {
        if (earliest(sim) != host) {
            return ORR_BLOCKED;
        }
        if (!orr__engine_due(sim, now_ns)) {
            return ORR_OK;
        }
        orr__engine_step(sim);
    }
}

static bool is_over(const struct orr__sim *sim, const struct orr_point *points, uint32_t count,
                    enum orr_wait_mode mode) {
    for (uint32_t i = 0; i < count; i++) {
        bool retired = orr__point_retired(sim, points[i]);
        if (retired != (mode == ORR_WAIT_ALL)) {
            return retired;
        }
    }
    return mode == ORR_WAIT_ALL || count == 0;
}

/* The same for who asks again and again: what has retired stays so, and is not looked at twice. */
static bool is_over_by_now(const struct orr__sim *sim, const struct orr_point *points,
                           uint32_t count, enum orr_wait_mode mode, uint32_t *done) {
    if (mode == ORR_WAIT_ANY) {
        return is_over(sim, points, count, mode);
    }
    while (*done < count && orr__point_retired(sim, points[*done])) {
        ++*done;
    }
    return *done == count;
}

/* --- blocked hosts --- */

static void watch_begin(struct orr__sim *sim, struct orr__watch *watch, struct orr_point point) {
    struct orr__stream *stream = sim->streams[point.stream];
    watch->seq = point.seq;
    watch->next = stream->watches;
    watch->link = &stream->watches;
    if (watch->next) {
        watch->next->link = &watch->next;
    }
    stream->watches = watch;
    stream->observed = true;
}

static void watch_end(struct orr__watch *watch) {
    if (!watch->link) {
        return;
    }
    *watch->link = watch->next;
    if (watch->next) {
        watch->next->link = watch->link;
    }
    watch->link = NULL;
}

static void unblock(struct orr__sim *sim, struct orr__host *host) {
    for (uint32_t i = 0; i < host->point_count; i++) {
        watch_end(&host->watches[i]);
    }
    host->point_count = 0;
    sim->deadlines -= host->deadline_ns != ORR_TIME_MAX;
}

static void resume(struct orr__sim *sim, struct orr__host *host, int64_t at_ns) {
    unblock(sim, host);
    host->state = ORR__HOST_RUNS;
    host->now_ns = host->now_ns > at_ns ? host->now_ns : at_ns;
    orr__host_changed(sim, (uint32_t)(host - sim->hosts));
}

/* True when the wait is over; otherwise the host stands at what is still open. */
static bool watch(struct orr__sim *sim, struct orr__host *host) {
    if (is_over_by_now(sim, host->points, host->point_count, host->mode, &host->points_done)) {
        return true;
    }
    if (host->mode == ORR_WAIT_ALL) {
        watch_begin(sim, &host->watches[0], host->points[host->points_done]);
        return false;
    }
    for (uint32_t i = 0; i < host->point_count; i++) {
        watch_begin(sim, &host->watches[i], host->points[i]);
    }
    return false;
}

void orr__hosts_notice(struct orr__sim *sim, struct orr__stream *stream, int64_t retired_ns) {
    struct orr__watch *next;
    for (struct orr__watch *it = stream->watches; it; it = next) {
        next = it->next;
        if (it->seq > stream->retired) {
            continue;
        }
        /* A host that waits for ANY point of this stream twice leaves with all its watches. */
        struct orr__host *host = &sim->hosts[it->host];
        while (next && next->host == it->host) {
            next = next->next;
        }
        watch_end(it);
        if (watch(sim, host)) {
            resume(sim, host, retired_ns);
        }
    }
}

static enum orr_status call(struct orr__sim *sim, uint32_t host) {
    enum orr_status status = orr__host_turn(sim, host);
    if (status == ORR_OK) {
        int64_t ns = sim->specs[0].host_event_ns;
        orr__host_charge(sim, host, ns > 0 ? ns : 1);
        orr__host_changed(sim, host);
    }
    return status;
}

enum orr_status orr__sim_query(struct orr_backend *backend, uint32_t host, struct orr_point point) {
    struct orr__sim *sim = orr__sim_of(backend);
    enum orr_status status = call(sim, host);
    if (status != ORR_OK) {
        return status;
    }
    return orr__point_retired(sim, point) ? ORR_OK : ORR_NOT_READY;
}

/* Several hosts: this one blocks, another one is to run. */
static enum orr_status block(struct orr__sim *sim, struct orr__host *host,
                             const struct orr_point *points, uint32_t count,
                             enum orr_wait_mode mode, int64_t deadline_ns,
                             struct orr_error *error) {
    if (orr_memory_grow(sim->memory, &host->points, &host->point_capacity, count,
                        sizeof *host->points, ORR__STREAMS_MAX) != ORR_OK ||
        orr_memory_grow(sim->memory, &host->watches, &host->watch_capacity, count,
                        sizeof *host->watches, ORR__STREAMS_MAX) != ORR_OK) {
        return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory");
    }
    for (uint32_t i = 0; i < count; i++) {
        host->points[i] = points[i];
        host->watches[i] = (struct orr__watch){.host = (uint32_t)(host - sim->hosts)};
    }
    host->point_count = count;
    host->points_done = 0;
    host->mode = mode;
    host->deadline_ns = deadline_ns;
    sim->deadlines += deadline_ns != ORR_TIME_MAX;
    host->state = ORR__HOST_BLOCKED;
    bool over = watch(sim, host);
    assert(!over);
    (void)over;
    orr__host_changed(sim, (uint32_t)(host - sim->hosts));
    return ORR_BLOCKED;
}

enum orr_status orr__sim_wait(struct orr_backend *backend, uint32_t id,
                              const struct orr_point *points, uint32_t count,
                              enum orr_wait_mode mode, int64_t deadline_ns,
                              struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    enum orr_status status = orr__host_turn(sim, id);
    if (status != ORR_OK) {
        return status;
    }
    struct orr__host *host = &sim->hosts[id];
    if (is_over(sim, points, count, mode)) {
        int64_t ns = sim->specs[0].host_sync_ns;
        orr__host_charge(sim, id, ns > 0 ? ns : 1);
        orr__host_changed(sim, id);
        return ORR_OK;
    }
    if (host->now_ns >= deadline_ns) {
        return ORR_NOT_READY;
    }
    if (sim->hosts_live > 1) {
        return block(sim, host, points, count, mode, deadline_ns, error);
    }
    uint32_t done = 0;
    while (!is_over_by_now(sim, points, count, mode, &done)) {
        const struct orr__event *next = orr__agenda_top(&sim->agenda);
        if (!next && deadline_ns == ORR_TIME_MAX) {
            return orr__sim_hang(sim, points, count, error);
        }
        if (!next || next->time_ns > deadline_ns) {
            host->now_ns = deadline_ns;
            orr__host_changed(sim, id);
            return ORR_NOT_READY;
        }
        orr__engine_step(sim);
    }
    int64_t end_ns = sim->now_ns + sim->specs[0].host_sync_ns;
    host->now_ns = end_ns > host->now_ns ? end_ns : host->now_ns + 1;
    if (sim->perturb) {
        host->now_ns +=
            orr__perturb_call(sim, id, sim->specs[0].host_sync_ns) - sim->specs[0].host_sync_ns;
    }
    orr__host_changed(sim, id);
    return ORR_OK;
}

void orr__sim_poll(struct orr_backend *backend) {
    struct orr__sim *sim = orr__sim_of(backend);
    uint32_t host = earliest(sim);
    while (host != ORR_ID_NONE && orr__engine_due(sim, sim->hosts[host].now_ns)) {
        orr__engine_step(sim);
    }
}

int64_t orr__sim_now(struct orr_backend *backend, uint32_t host) {
    return orr__sim_of(backend)->hosts[host].now_ns;
}

void orr__sim_host_spend(struct orr_backend *backend, uint32_t host, int64_t ns) {
    assert(ns >= 0);
    struct orr__sim *sim = orr__sim_of(backend);
    orr__host_charge(sim, host, ns);
    orr__host_changed(sim, host);
}

/* Blocked by no point of a stream. */
void orr__sim_host_park(struct orr_backend *backend, uint32_t id) {
    struct orr__sim *sim = orr__sim_of(backend);
    struct orr__host *host = &sim->hosts[id];
    assert(host->state == ORR__HOST_RUNS);
    host->state = ORR__HOST_BLOCKED;
    host->point_count = 0;
    host->deadline_ns = ORR_TIME_MAX;
    orr__host_changed(sim, id);
}

void orr__sim_host_unpark(struct orr_backend *backend, uint32_t id, uint32_t by) {
    struct orr__sim *sim = orr__sim_of(backend);
    struct orr__host *host = &sim->hosts[id];
    assert(host->state == ORR__HOST_BLOCKED && host->point_count == 0);
    resume(sim, host, sim->hosts[by].now_ns);
}

/* Room for the turns of one more host. */
static enum orr_status reserve_turn(struct orr__sim *sim) {
    struct orr__agenda turns;
    if (sim->host_count < sim->turns.devices) {
        return ORR_OK;
    }
    enum orr_status status =
        orr__agenda_open(&turns, 2 * ((uint32_t)sim->host_count + 1), sim->memory);
    if (status != ORR_OK) {
        return status;
    }
    orr__agenda_close(&sim->turns);
    sim->turns = turns;
    sim->takes_turns = false; /* enter all of them again */
    return ORR_OK;
}

static void take_turns(struct orr__sim *sim) {
    if (sim->takes_turns) {
        return;
    }
    sim->takes_turns = true;
    for (uint32_t i = 0; i < sim->host_count; i++) {
        orr__host_enter_turn(sim, i);
    }
}

enum orr_status orr__sim_host_create(struct orr_backend *backend, uint32_t *out_host) {
    struct orr__sim *sim = orr__sim_of(backend);
    enum { HOSTS_MAX = 1 << 20 };
    *out_host = ORR_ID_NONE;
    enum orr_status status = orr_memory_grow(sim->memory, &sim->hosts, &sim->host_capacity,
                                             sim->host_count + 1, sizeof *sim->hosts, HOSTS_MAX);
    if (status == ORR_OK) {
        status = reserve_turn(sim);
    }
    if (status != ORR_OK) {
        return status;
    }
    *out_host = (uint32_t)sim->host_count++;
    int64_t late_ns = sim->perturb ? orr__perturb_late(sim, *out_host) : 0;
    sim->hosts[*out_host] = (struct orr__host){.now_ns = sim->hosts[0].now_ns + late_ns};
    sim->hosts_live++;
    take_turns(sim);
    orr__host_changed(sim, *out_host);
    return ORR_OK;
}

void orr__sim_host_done(struct orr_backend *backend, uint32_t host) {
    struct orr__sim *sim = orr__sim_of(backend);
    if (sim->hosts[host].state == ORR__HOST_DONE) {
        return;
    }
    if (sim->hosts[host].state == ORR__HOST_BLOCKED) {
        unblock(sim, &sim->hosts[host]);
    }
    sim->hosts[host].state = ORR__HOST_DONE;
    sim->hosts_live--;
    orr__host_changed(sim, host);
}

/* The blocked host whose deadline comes first. */
static struct orr__host *next_deadline(struct orr__sim *sim) {
    struct orr__host *found = NULL;
    for (size_t i = 0; sim->deadlines > 0 && i < sim->host_count; i++) {
        struct orr__host *host = &sim->hosts[i];
        if (host->state == ORR__HOST_BLOCKED && host->deadline_ns != ORR_TIME_MAX &&
            (!found || host->deadline_ns < found->deadline_ns)) {
            found = host;
        }
    }
    return found;
}

static enum orr_status hang_of_hosts(struct orr__sim *sim, struct orr_error *error) {
    for (size_t i = 0; i < sim->host_count; i++) {
        if (sim->hosts[i].state == ORR__HOST_BLOCKED) {
            (void)orr__sim_hang(sim, sim->hosts[i].points, sim->hosts[i].point_count, error);
            orr_error_prefix(error, "host %zu", i);
            return ORR_DEVICE_FAILED;
        }
    }
    return ORR_NOT_READY; /* all are done */
}

enum orr_status orr__sim_host_next(struct orr_backend *backend, uint32_t *out_host,
                                   struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    *out_host = ORR_ID_NONE;
    for (;;) {
        uint32_t host = earliest(sim);
        if (sim->perturb && host != ORR_ID_NONE && orr__perturb_host_lost(sim, host)) {
            lose(sim, host);
            continue;
        }
        const struct orr__event *next = orr__agenda_top(&sim->agenda);
        struct orr__host *late = next_deadline(sim);
        int64_t call_ns = host != ORR_ID_NONE ? sim->hosts[host].now_ns : ORR_TIME_MAX;
        int64_t event_ns = next ? next->time_ns : ORR_TIME_MAX;
        if (late && late->deadline_ns < event_ns && late->deadline_ns < call_ns) {
            resume(sim, late, late->deadline_ns);
        } else if (host != ORR_ID_NONE && !orr__engine_due(sim, call_ns)) {
            *out_host = host;
            return ORR_OK;
        } else if (next) {
            orr__engine_step(sim);
        } else {
            return hang_of_hosts(sim, error);
        }
    }
}

enum orr_status orr__sim_host_access(struct orr_backend *backend, const struct orr_command *command,
                                     struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    enum orr_status status = orr__host_turn(sim, command->record.host);
    if (status != ORR_OK) {
        return status;
    }
    struct orr__host *host = &sim->hosts[command->record.host];
    struct orr_command done = *command;
    int64_t begin_ns = host->now_ns;
    orr__host_charge(sim, command->record.host, command->service_ns > 0 ? command->service_ns : 1);
    orr__host_changed(sim, command->record.host);
    done.record.enqueue_ns = done.record.ready_ns = done.record.start_ns = begin_ns;
    done.record.enqueued_ns = done.record.finish_ns = host->now_ns;
    done.record.header.c = ORR_COMMAND_STATUS_OK;
    if (!sim->timing_only) {
        status = orr__uses_begin(sim->memories, sim->memory, &done, ORR_ID_NONE, begin_ns);
        if (status != ORR_OK) {
            return orr_error_set(error, status, "sim: out of host memory");
        }
        bool poison = orr__uses_end(sim->memories, &done, host->now_ns);
        if (poison) {
            done.record.header.c = ORR_COMMAND_STATUS_POISONED;
        } else if (done.run && (status = done.run(&done, error)) != ORR_OK) {
            poison = true;
            done.record.header.c = ORR_COMMAND_STATUS_FAILED;
            orr_error_set(error, status, "%s", orr_status_text(status));
        }
        if (orr__writes_settle(sim->memories, sim->memory, &done, poison) != ORR_OK) {
            status = orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory");
        }
    }
    sim->retire.retired(sim->retire.context, &done, status == ORR_OK ? NULL : error);
    return status;
}
