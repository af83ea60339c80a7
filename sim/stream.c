/* Streams: rings of commands, and the door they come through. */
#include <assert.h>

#include "sim/perturb.h"

enum { RING_FIRST = 16 };

static enum orr_status no_memory(struct orr_error *error) {
    return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory");
}

enum orr_status orr__sim_stream_create(struct orr_backend *backend, uint32_t device,
                                       enum orr_stream_kind kind, uint32_t *out_stream,
                                       struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    assert(device < sim->device_count);
    struct orr__device *owner = &sim->devices[device];
    *out_stream = ORR_ID_NONE;
    if (orr_memory_grow(sim->memory, &sim->streams, &sim->stream_capacity, sim->stream_count + 1,
                        sizeof *sim->streams, ORR__STREAMS_MAX) != ORR_OK ||
        orr_memory_grow(sim->memory, &owner->running, &owner->running_capacity,
                        owner->stream_count + 1, sizeof(struct orr__stream *),
                        ORR__STREAMS_MAX) != ORR_OK) {
        return no_memory(error);
    }
    struct orr__stream *stream = orr_memory_alloc_lines(sim->memory, sizeof *stream);
    if (!stream) {
        return no_memory(error);
    }
    uint32_t depth = owner->spec->queue_depth;
    owner->stream_count++;
    stream->id = (uint32_t)sim->stream_count;
    stream->device = device;
    stream->kind = (uint8_t)kind;
    stream->start_ns = stream->ready_ns = ORR_TIME_NONE;
    stream->depth = depth ? depth : ORR__QUEUE_DEPTH_DEFAULT;
    stream->waiting_on = ORR_ID_NONE;
    sim->streams[sim->stream_count++] = stream;
    *out_stream = stream->id;
    return ORR_OK;
}

void orr__sim_stream_destroy(struct orr_backend *backend, uint32_t stream) {
    orr__sim_of(backend)->streams[stream]->closed = true;
}

void orr__stream_free(struct orr__sim *sim, struct orr__stream *stream) {
    if (stream->owns_cause) {
        orr_memory_free(sim->memory, stream->cause);
    }
    orr_memory_free(sim->memory, stream->undefines);
    orr_memory_free_lines(sim->memory, stream->ring);
    orr_memory_free_lines(sim->memory, stream);
}

/* Room for one more command in the ring, which doubles and is unrolled to start at 0. */
static bool make_room(struct orr__sim *sim, struct orr__stream *stream) {
    if (stream->count < stream->capacity) {
        return true;
    }
    uint32_t capacity = stream->capacity ? 2 * stream->capacity : RING_FIRST;
    struct orr__sim_command *ring = orr_memory_take_lines(sim->memory, capacity * sizeof *ring);
    if (!ring) {
        return false;
    }
    for (uint32_t i = 0; i < stream->count; i++) {
        ring[i] = stream->ring[(stream->head + i) & (stream->capacity - 1)];
    }
    orr_memory_free_lines(sim->memory, stream->ring);
    stream->ring = ring;
    stream->head = 0;
    stream->capacity = capacity;
    return true;
}

static bool is_launch(enum orr_command_kind kind) {
    return kind <= ORR_COMMAND_HOSTFN;
}

/* What the call costs whoever makes it. */
static int64_t call_ns(const struct orr_device_spec *spec, const struct orr_command *command) {
    if (command->submit_ns >= 0) {
        return command->submit_ns;
    }
    if (command->flags & ORR_COMMAND_GRAPH_NODE) {
        return 0;
    }
    enum orr_command_kind kind = command->record.header.a;
    int64_t ns = is_launch(kind)             ? spec->host_launch_ns
                 : kind == ORR_COMMAND_GRAPH ? spec->host_graph_ns
                                             : spec->host_event_ns;
    return ns > 0 ? ns : 1;
}

/* The dispatch host makes the launch at its own clock; the caller has only handed it over. */
static struct orr__host *hand_over(struct orr__sim *sim, uint32_t device, struct orr__host *host,
                                   struct orr_command *command) {
    struct orr_record_command *record = &command->record;
    bool in_call = (command->flags & ORR_COMMAND_GRAPH_NODE) != 0;
    orr__host_charge(sim, record->host, in_call ? 0 : 1); /* the hand-over */
    record->host = 1 + device;
    struct orr__host *dispatch = &sim->hosts[record->host];
    dispatch->now_ns = dispatch->now_ns > host->now_ns ? dispatch->now_ns : host->now_ns;
    record->enqueue_ns = dispatch->now_ns;
    if (record->header.a == ORR_COMMAND_GRAPH) {
        host->graph_host = record->host;
        host->graph_ns = record->enqueue_ns;
    } else if (in_call && host->graph_host == record->host) {
        record->enqueue_ns = host->graph_ns;
    }
    return dispatch;
}

/* Charges the call to its host, or hands it over to the device's dispatch host, and stamps it. */
static void stamp(struct orr__sim *sim, uint32_t device, struct orr_command *command,
                  int64_t cost_ns) {
    struct orr_record_command *record = &command->record;
    uint32_t caller = record->host;
    struct orr__host *host = &sim->hosts[caller];
    if (sim->runner == ORR_RUNNER_PER_DEVICE) {
        host = hand_over(sim, device, host, command);
    } else if (record->enqueue_ns == ORR_TIME_NONE) {
        record->enqueue_ns = host->now_ns;
    }
    orr__host_charge(sim, record->host, cost_ns);
    record->enqueued_ns = host->now_ns;
    orr__host_changed(sim, caller);
}

static bool same_node(const struct orr__sim *sim, uint32_t a, uint32_t b) {
    return sim->devices[a].node == sim->devices[b].node;
}

/* Between which memories a copy goes, seen from the device of its stream. */
static enum orr__route route_of(const struct orr__sim *sim, uint32_t device,
                                const struct orr_command *command) {
    enum orr__route route = ORR__ROUTE_LOCAL;
    for (uint32_t i = 0; i < command->access_count; i++) {
        uint32_t other = sim->memories[command->accesses[i].memory].device;
        enum orr__route here = other == ORR_ID_NONE            ? ORR__ROUTE_HOST
                               : other == device               ? ORR__ROUTE_LOCAL
                               : same_node(sim, other, device) ? ORR__ROUTE_PEER
                                                               : ORR__ROUTE_NETWORK;
        route = here > route ? here : route;
    }
    return route;
}

/* Kernels repeat: the work of recent ones is remembered, since two 128-bit divisions cost more than
 * all the rest of an enqueue. */
static struct orr__work kernel_work(struct orr__sim *sim, const struct orr_device_spec *spec,
                                    const struct orr_command *command) {
    const struct orr_record_command *record = &command->record;
    uint64_t bytes = record->bytes_read + record->bytes_written;
    uint32_t unit_dtype = (uint32_t)record->header.d << 8 | record->header.b;
    uint64_t hash = (record->flops ^ (bytes << 1) ^ unit_dtype) * 0x9e3779b97f4a7c15u;
    struct orr__work_cache_entry *entry = &sim->work_cache[hash >> 56];
    if (entry->spec != spec || entry->flops != record->flops || entry->bytes != bytes ||
        entry->unit_dtype != unit_dtype) {
        *entry = (struct orr__work_cache_entry){
            .spec = spec, .flops = record->flops, .bytes = bytes, .unit_dtype = unit_dtype};
        entry->work =
            orr__kernel_work(spec, record->header.d, record->header.b, record->flops, bytes, -1);
    }
    return entry->work;
}

static struct orr__work work_of(struct orr__sim *sim, uint32_t device,
                                const struct orr_command *command) {
    const struct orr_device_spec *spec = sim->devices[device].spec;
    const struct orr_record_command *record = &command->record;
    struct orr__work work = {0};
    switch ((enum orr_command_kind)record->header.a) {
    case ORR_COMMAND_KERNEL:
    case ORR_COMMAND_FILL:
        work =
            command->service_ns < 0
                ? kernel_work(sim, spec, command)
                : orr__kernel_work(spec, record->header.d, record->header.b, record->flops,
                                   record->bytes_read + record->bytes_written, command->service_ns);
        break;
    case ORR_COMMAND_COPY:
        work = orr__copy_work(spec, route_of(sim, device, command), record->bytes_read);
        break;
    default: /* takes no time on the device unless it says so, or is a member of a group */
        work.work =
            command->service_ns > 0
                ? orr__kernel_work(spec, ORR_UNIT_VECTOR, ORR_DTYPE_NONE, 0, 0, command->service_ns)
                      .work
                : 0;
        break;
    }
    return work;
}

static struct orr__sim_command *next_slot(const struct orr__stream *stream) {
    return &stream->ring[(stream->head + stream->count) & (stream->capacity - 1)];
}

static bool matters(const struct orr__sim *sim, struct orr_point point) {
    const struct orr__stream *producer = sim->streams[point.stream];
    assert(point.stream < sim->stream_count && point.seq <= producer->submitted);
    return producer->retired < point.seq || producer->failed;
}

/* Keeps the points that have not retired yet, or may be failed ones. */
static bool keep_waits(struct orr__sim *sim, struct orr__sim_command *slot,
                       const struct orr_point *waits, uint32_t wait_count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < wait_count; i++) {
        if (matters(sim, waits[i])) {
            slot->wait_stream = waits[i].stream;
            slot->wait_seq = waits[i].seq;
            kept++;
        }
    }
    slot->bits = kept == 1 ? ORR__SLOT_WAITS : 0;
    if (kept <= 1) {
        return true;
    }
    slot->list =
        orr_memory_alloc(sim->memory, sizeof *slot->list + kept * sizeof *slot->list->points);
    if (!slot->list) {
        return false;
    }
    for (uint32_t i = 0; i < wait_count; i++) {
        if (matters(sim, waits[i])) {
            slot->list->points[slot->list->count++] = waits[i];
        }
    }
    slot->bits = ORR__SLOT_LISTS;
    return true;
}

static void forget(struct orr__sim *sim, const struct orr__sim_command *slot) {
    if (slot->bits & ORR__SLOT_LISTS) {
        orr_memory_free(sim->memory, slot->list);
    }
    if (slot->bits & ORR__SLOT_COPIED) {
        orr_memory_free(sim->memory, slot->command);
    }
}

/* The part of an enqueue that may fail: puts the command, or a copy, and its waits into the next
 * slot, whose room is made. */
static bool keep(struct orr__sim *sim, struct orr__sim_command *slot,
                 const struct orr_command *command, const struct orr_point *waits,
                 uint32_t wait_count) {
    if (!keep_waits(sim, slot, waits, wait_count)) {
        return false;
    }
    slot->command = command->in_place;
    if (slot->command) {
        return true;
    }
    slot->command = orr_memory_resize(sim->memory, NULL, sizeof *command);
    if (!slot->command) {
        forget(sim, slot);
        return false;
    }
    *slot->command = *command;
    slot->bits |= ORR__SLOT_COPIED;
    return true;
}

static void perturb(struct orr__sim *sim, const struct orr__stream *stream,
                    struct orr__sim_command *slot) {
    struct orr__group *group = slot->group;
    struct orr__work *work = !group                            ? &slot->work
                             : group->streams[0] == stream->id ? &group->work
                                                               : NULL;
    if (orr__perturb_enqueued(sim, stream, slot->command, work)) {
        slot->bits |= ORR__SLOT_FAILS;
    }
}

/* Appends a command that was kept; nothing can fail any more. */
static void append(struct orr__sim *sim, struct orr__stream *stream, struct orr__group *group,
                   struct orr_point *out_point) {
    const struct orr_device_spec *spec = sim->devices[stream->device].spec;
    struct orr__sim_command *slot = next_slot(stream);
    struct orr_command *command = slot->command;
    struct orr_record_command *record = &command->record;
    enum orr_command_kind kind = record->header.a;
    stamp(sim, stream->device, command, call_ns(spec, command));
    record->seq = ++stream->submitted;
    record->device = stream->device;
    record->stream = stream->id;
    record->ready_ns = record->start_ns = record->finish_ns = ORR_TIME_NONE;
    bool on_device = is_launch(kind) && kind != ORR_COMMAND_HOSTFN;
    slot->kind = (uint8_t)kind;
    slot->bits |= command->flags & ORR_COMMAND_GRAPH_NODE ? ORR__SLOT_NODE : 0;
    slot->bits |= command->access_count ? ORR__SLOT_ACCESSES : 0;
    slot->group = group;
    slot->enqueued_ns = record->enqueued_ns;
    slot->eligible_ns = record->enqueued_ns + (on_device ? spec->launch_latency_ns : 0);
    slot->work = group ? group->work : work_of(sim, stream->device, command);
    if (kind == ORR_COMMAND_COPY && slot->work.work > 0 &&
        route_of(sim, stream->device, command) != ORR__ROUTE_LOCAL) {
        slot->bits |= ORR__SLOT_ENGINE;
    }
    if (sim->perturb) {
        perturb(sim, stream, slot);
    }
    *out_point = (struct orr_point){.stream = stream->id, .seq = record->seq, .cmd = record->id};
    if (stream->count++ == 0) {
        orr__engine_ready(sim, stream);
    }
    orr__lines_fetch(next_slot(stream), sizeof *slot);
}

static enum orr_status full(const struct orr__stream *stream, struct orr_point *out_point) {
    *out_point = (struct orr_point){.stream = stream->id, .seq = stream->retired + 1};
    return ORR_FULL;
}

/* A graph launch or an operator is one call, which acts when its turn comes: its commands do not
 * ask again, even if the call's cost has made its host a late one. */
static enum orr_status turn(struct orr__sim *sim, const struct orr_command *command) {
    enum orr_status status = orr__host_turn(sim, command->record.host);
    bool in_call = (command->flags & (ORR_COMMAND_GRAPH_NODE | ORR_COMMAND_IN_CALL)) != 0;
    return status == ORR_BLOCKED && in_call ? ORR_OK : status;
}

/* Who enqueues on many devices goes through them in some order: streams that come next, if the step
 * from the last one to this is repeated, and the slot that the nearer one will fill. */
static inline __attribute__((always_inline)) void fetch_streams(struct orr__sim *sim, uint32_t id) {
    uint32_t step = id - sim->submitted, near = id + step, far = near + step;
    sim->submitted = id;
    if (step == 0 || sim->stream_count < ORR__SOON_DEVICES_MIN) {
        return;
    }
    if (far < sim->stream_count) {
        orr__lines_fetch(sim->streams[far], ORR__STREAM_HOT_BYTES);
    }
    if (near < sim->stream_count) {
        const struct orr__stream *stream = sim->streams[near];
        orr__lines_fetch(&sim->devices[stream->device], sizeof *sim->devices);
        if (stream->ring) {
            orr__lines_fetch(next_slot(stream), sizeof *stream->ring);
        }
    }
}

enum orr_status orr__sim_submit(struct orr_backend *backend, uint32_t id,
                                const struct orr_command *command, const struct orr_point *waits,
                                uint32_t wait_count, struct orr_point *out_point,
                                struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    struct orr__stream *stream = sim->streams[id];
    assert(id < sim->stream_count && !stream->closed);
    fetch_streams(sim, id);
    enum orr_status status = turn(sim, command);
    if (status != ORR_OK) {
        return status;
    }
    if (stream->count >= stream->depth) {
        return full(stream, out_point);
    }
    if (!make_room(sim, stream) || !keep(sim, next_slot(stream), command, waits, wait_count)) {
        return no_memory(error);
    }
    append(sim, stream, NULL, out_point);
    orr__engine_drain(sim);
    return ORR_OK;
}

static struct orr__group *group_create(struct orr__sim *sim, const uint32_t *streams,
                                       const struct orr_command *commands, uint32_t count) {
    size_t bytes =
        sizeof(struct orr__group) + count * (sizeof(struct orr_collective *) + sizeof(uint32_t));
    struct orr__group *group = orr_memory_alloc(sim->memory, bytes);
    if (!group) {
        return NULL;
    }
    group->count = count;
    group->members = (const struct orr_collective **)(void *)(group + 1);
    group->streams = (uint32_t *)(void *)(group->members + count);
    uint32_t first = sim->streams[streams[0]]->device;
    bool spans_nodes = false;
    for (uint32_t i = 0; i < count; i++) {
        group->streams[i] = streams[i];
        spans_nodes |= !same_node(sim, first, sim->streams[streams[i]]->device);
    }
    group->work =
        orr__collective_work(sim->devices[first].spec, commands[0].collective, spans_nodes);
    if (commands[0].service_ns >= 0) {
        group->work.work = orr__kernel_work(sim->devices[first].spec, ORR_UNIT_VECTOR,
                                            ORR_DTYPE_NONE, 0, 0, commands[0].service_ns)
                               .work;
    }
    group->next = sim->groups;
    if (group->next) {
        group->next->before = group;
    }
    sim->groups = group;
    return group;
}

/* Room in every member's ring, or the reason why not. */
static enum orr_status group_room(struct orr__sim *sim, const uint32_t *streams, uint32_t count,
                                  struct orr_point *out_point, struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        struct orr__stream *stream = sim->streams[streams[i]];
        assert(!stream->closed);
        if (stream->count >= stream->depth) {
            return full(stream, out_point);
        }
        if (!make_room(sim, stream)) {
            return no_memory(error);
        }
    }
    return ORR_OK;
}

/* One call enqueues all members: the others share the first one's interval. Dispatch hosts each
 * make a call of their own. */
static void append_members(struct orr__sim *sim, const uint32_t *streams, struct orr__group *group,
                           struct orr_point *out_points) {
    int64_t enqueue_ns = ORR_TIME_NONE;
    for (uint32_t i = 0; i < group->count; i++) {
        struct orr__stream *stream = sim->streams[streams[i]];
        struct orr_command *command = next_slot(stream)->command;
        if (i > 0 && sim->runner == ORR_RUNNER_INLINE) {
            command->record.enqueue_ns = enqueue_ns;
            command->submit_ns = 0;
        }
        append(sim, stream, group, &out_points[i]);
        enqueue_ns = command->record.enqueue_ns;
    }
}

enum orr_status orr__sim_submit_group(struct orr_backend *backend, const uint32_t *streams,
                                      const struct orr_command *commands, uint32_t count,
                                      const struct orr_point *waits, uint32_t wait_count,
                                      struct orr_point *out_points, struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    enum orr_status status = turn(sim, &commands[0]);
    if (status == ORR_OK) {
        status = group_room(sim, streams, count, out_points, error);
    }
    if (status != ORR_OK) {
        return status;
    }
    uint32_t kept = 0;
    struct orr__group *group = group_create(sim, streams, commands, count);
    while (group && kept < count &&
           keep(sim, next_slot(sim->streams[streams[kept]]), &commands[kept], waits, wait_count)) {
        kept++;
    }
    if (kept < count) {
        while (kept > 0) {
            forget(sim, next_slot(sim->streams[streams[--kept]]));
        }
        if (group) {
            orr__group_free(sim, group);
        }
        return no_memory(error);
    }
    append_members(sim, streams, group, out_points);
    orr__engine_drain(sim);
    return ORR_OK;
}
