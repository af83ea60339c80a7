/* Commands in service on one device: how they share it, and when the next one ends.
 *
 * While one kernel runs alone its end is known at its start, and the device needs one event. Once
 * several overlap, each runs at the largest rate that fits what it uses:
 *
 *     rate = min(1, SMs left / sum of SM shares, bandwidth left / sum of bandwidth shares)
 *
 * where a kernel that uses none of a resource is not slowed down by it, and "left" is what copies
 * over links and collectives, which run at the pace of their links, leave over. On every change the
 * work done since the last one is subtracted exactly, in integers. */
#include <assert.h>

#include "sim/sim_internal.h"

static bool is_started(const struct orr__stream *stream, int64_t now_ns) {
    return stream->settled_ns <= now_ns;
}

/* With one of them only `sole` counts, so that the list stays out of the cache. */
static struct orr__stream *running_at(const struct orr__device *device, uint32_t index) {
    return device->running_count == 1 ? device->sole : device->running[index];
}

/* A kernel is slowed down by what it uses itself. */
static uint64_t rate_of(const struct orr__device *device, struct orr__stream *stream) {
    if (stream->on_engine) {
        return device->copy_rate;
    }
    const struct orr__work *work = &orr__stream_head(stream)->work;
    uint64_t by_sm = work->sm ? device->sm_rate : ORR__WORK_NS;
    uint64_t by_bandwidth = work->bandwidth ? device->bandwidth_rate : ORR__WORK_NS;
    return by_sm < by_bandwidth ? by_sm : by_bandwidth;
}

static void run_freely(struct orr__device *device) {
    device->sm_rate = device->bandwidth_rate = device->copy_rate = ORR__WORK_NS;
}

static bool runs_freely(const struct orr__device *device) {
    return (device->sm_rate & device->bandwidth_rate & device->copy_rate) == ORR__WORK_NS;
}

/* Members of a collective that wait for the last one keep their multiprocessors busy, but move
 * nothing yet. */
static bool moves_bytes(struct orr__stream *stream, int64_t now_ns) {
    const struct orr__group *group = orr__stream_head(stream)->group;
    return !group || (group->arrived == group->count && group->begin_ns <= now_ns);
}

static bool is_shared(struct orr__stream *stream) {
    return orr__stream_head(stream)->group == NULL;
}

/* Subtracts the work done up to now. */
static void settle(struct orr__device *device, int64_t now_ns) {
    for (uint32_t i = 0; i < device->running_count; i++) {
        struct orr__stream *stream = running_at(device, i);
        if (is_shared(stream) && stream->settled_ns < now_ns) {
            stream->rem -= (int64_t)rate_of(device, stream) * (now_ns - stream->settled_ns);
            stream->settled_ns = now_ns;
        }
    }
}

static uint64_t part(uint64_t left, uint64_t sum) {
    return sum > left ? left * ORR__WORK_NS / sum : ORR__WORK_NS;
}

static uint64_t left_after(uint64_t taken) {
    return taken < ORR__WORK_NS - ORR__LEAST_LEFT ? ORR__WORK_NS - taken : ORR__LEAST_LEFT;
}

/* Rates of the commands that have started by now. */
static void share_device(struct orr__device *device, int64_t now_ns) {
    uint64_t sm = 0, bandwidth = 0, sm_taken = 0, bandwidth_taken = 0, copies = 0;
    for (uint32_t i = 0; i < device->running_count; i++) {
        struct orr__stream *stream = running_at(device, i);
        if (!is_started(stream, now_ns)) {
            continue;
        }
        const struct orr__work *work = &orr__stream_head(stream)->work;
        if (stream->on_engine || !is_shared(stream)) {
            copies += stream->on_engine;
            sm_taken += work->sm;
            bandwidth_taken += moves_bytes(stream, now_ns) ? work->bandwidth : 0;
        } else {
            sm += work->sm;
            bandwidth += work->bandwidth;
        }
    }
    device->sm_rate = part(left_after(sm_taken), sm);
    device->bandwidth_rate = part(left_after(bandwidth_taken), bandwidth);
    uint64_t engines = device->spec->copy_engines ? device->spec->copy_engines : 1;
    device->copy_rate = part(engines * ORR__WORK_NS, copies * ORR__WORK_NS);
}

/* finish = when the rest of its work is done at a rate, to the nearest ns, half up. */
static int64_t finish_at(const struct orr__stream *stream, uint64_t rate) {
    if (stream->rem <= 0) {
        return stream->settled_ns;
    }
    uint64_t rem = (uint64_t)stream->rem;
    uint64_t rest =
        rate == ORR__WORK_NS ? (rem + ORR__WORK_NS / 2) >> ORR__WORK_BITS : (rem + rate / 2) / rate;
    return stream->settled_ns + (int64_t)rest;
}

static inline const struct orr__stream *heard_of(const struct orr__sim *sim, uint32_t ago) {
    uint32_t id = sim->soon.devices[(sim->soon.count - ago) % ORR__SOON];
    return sim->devices[id].sole;
}

static inline __attribute__((always_inline)) void look_ahead(struct orr__sim *sim, uint32_t id) {
    enum { STEP = ORR__SOON_STEP };
    sim->soon.devices[sim->soon.count % ORR__SOON] = id;
    orr__lines_fetch(&sim->devices[id], sizeof sim->devices[id]);
    const struct orr__stream *stream = heard_of(sim, STEP);
    if (stream) {
        orr__lines_fetch(stream, ORR__STREAM_HOT_BYTES);
    }
    stream = heard_of(sim, 2 * STEP);
    if (stream && stream->ring) {
        orr__lines_fetch(&stream->ring[stream->head], sizeof *stream->ring);
    }
    stream = heard_of(sim, 3 * STEP);
    if (stream && stream->ring) {
        const struct orr_command *command = stream->ring[stream->head].command;
        orr__lines_fetch(command, sizeof *command);
    }
    sim->soon.count++;
}

static void set_event(struct orr__sim *sim, uint32_t id, int64_t time_ns,
                      enum orr__event_class class) {
    uint32_t soon = orr__agenda_set(&sim->agenda, id, time_ns, class);
    if (sim->device_count >= ORR__SOON_DEVICES_MIN && soon < sim->device_count) {
        look_ahead(sim, soon);
    }
}

static void reschedule_shared(struct orr__sim *sim, uint32_t id) {
    struct orr__device *device = &sim->devices[id];
    share_device(device, sim->now_ns);
    int64_t next_ns = ORR_TIME_MAX;
    enum orr__event_class class = ORR__EVENT_START;
    for (uint32_t i = 0; i < device->running_count; i++) {
        struct orr__stream *stream = running_at(device, i);
        int64_t at_ns = stream->settled_ns;
        enum orr__event_class at_class = ORR__EVENT_START;
        if (is_started(stream, sim->now_ns)) {
            /* What ends now ends now, whatever begins beside it. */
            if (is_shared(stream) && stream->finish_ns != sim->now_ns) {
                stream->finish_ns = finish_at(stream, rate_of(device, stream));
            }
            bool begins = stream->finish_ns != ORR_TIME_MAX && !moves_bytes(stream, sim->now_ns);
            at_ns = begins ? orr__stream_head(stream)->group->begin_ns : stream->finish_ns;
            at_class = begins ? ORR__EVENT_START : ORR__EVENT_FINISH;
        } else if (is_shared(stream)) {
            stream->finish_ns = ORR_TIME_MAX; /* not known before it starts */
        }
        if (at_ns < next_ns || (at_ns == next_ns && at_class < class)) {
            next_ns = at_ns;
            class = at_class;
        }
    }
    set_event(sim, id, next_ns, class);
}

void orr__service_reschedule(struct orr__sim *sim, uint32_t id) {
    struct orr__device *device = &sim->devices[id];
    device->changed = false;
    if (device->running_count > 1 || !runs_freely(device)) {
        settle(device, sim->now_ns); /* a single command at full speed needs no account */
    }
    if (device->running_count == 0) {
        run_freely(device);
        set_event(sim, id, ORR_TIME_MAX, ORR__EVENT_FINISH);
    } else if (device->running_count == 1) {
        /* Alone: full speed from its start, even if that lies ahead. */
        struct orr__stream *stream = device->sole;
        run_freely(device);
        if (is_shared(stream) && stream->finish_ns != sim->now_ns) {
            stream->finish_ns = finish_at(stream, ORR__WORK_NS);
        }
        set_event(sim, id, stream->finish_ns, ORR__EVENT_FINISH);
    } else {
        reschedule_shared(sim, id);
    }
}

void orr__service_enter(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns) {
    struct orr__device *device = &sim->devices[stream->device];
    assert(device->running_count < device->running_capacity);
    stream->in_service = true;
    stream->settled_ns = start_ns;
    stream->finish_ns = ORR_TIME_MAX;
    if (device->running_count == 1) {
        device->running[0] = device->sole;
    }
    if (device->running_count > 0) {
        device->running[device->running_count] = stream;
    }
    device->running_count++;
    device->sole = stream;
}

/* The order of the list means nothing. */
static void take_out(struct orr__device *device, const struct orr__stream *stream) {
    if (device->running_count == 1) {
        assert(device->sole == stream);
        device->running_count = 0;
        return;
    }
    uint32_t at = 0;
    while (device->running[at] != stream) {
        at++;
        assert(at < device->running_count);
    }
    device->running[at] = device->running[--device->running_count];
    device->sole = device->running[0];
}

void orr__service_leave(struct orr__sim *sim, struct orr__stream *stream) {
    struct orr__device *device = &sim->devices[stream->device];
    uint64_t rate = rate_of(device, stream);
    if (is_shared(stream)) {
        /* What rounding to whole ns left over or took too much, carried into the next command. */
        int64_t elapsed = sim->now_ns - stream->settled_ns;
        stream->carry = stream->rem - (int64_t)rate * elapsed + stream->owed;
    } else {
        stream->carry = 0;
    }
    take_out(device, stream);
    stream->in_service = false;
    stream->on_engine = false;
    device->changed = true;
}
