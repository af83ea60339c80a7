/* The host's side of a stream: create, submit, retire. */
#include "runtime/cpu/cpu_internal.h"

#include <assert.h>
#include <string.h>

#include "runtime/collective.h"

/* ---- life --------------------------------------------------------------------------------- */

static uint64_t power_of_two_from(uint64_t n) {
    uint64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static enum orr_status stream_allocate(struct cpu_backend *backend, struct cpu_stream *stream) {
    uint64_t slots = stream->mask + 1, finishes = stream->finish_mask + 1;
    stream->slots = orr__cpu_alloc(backend->memory, slots * sizeof *stream->slots, true);
    stream->finishes = orr__cpu_alloc(backend->memory, finishes * sizeof *stream->finishes, true);
    if (!stream->slots || !stream->finishes)
        return ORR_NO_MEMORY;
    return pthread_mutex_init(&stream->lock, NULL) == 0 ? ORR_OK : ORR_NO_MEMORY;
}

static struct cpu_stream *stream_new(struct cpu_backend *backend, uint32_t device) {
    struct cpu_stream *stream = orr__cpu_alloc(backend->memory, sizeof *stream, true);
    if (!stream)
        return NULL;
    stream->backend = backend;
    stream->device = device;
    stream->depth = backend->depths[device];
    stream->mask = power_of_two_from(stream->depth) - 1;
    stream->finish_mask = stream->mask < CPU_FINISHES_MIN ? CPU_FINISHES_MIN - 1 : stream->mask;
    stream->last_finish_ns = ORR_TIME_NONE;
    stream->host_watch = UINT64_MAX;
    atomic_init(&stream->launched, 0);
    atomic_init(&stream->done, 0);
    atomic_init(&stream->poisoned_seq, 0);
    atomic_init(&stream->activity, CPU_IDLE);
    atomic_init(&stream->watch, UINT64_MAX);
    if (stream_allocate(backend, stream) == ORR_OK)
        return stream;
    orr__cpu_free(backend->memory, stream->slots);
    orr__cpu_free(backend->memory, stream->finishes);
    orr__cpu_free(backend->memory, stream);
    return NULL;
}

enum orr_status orr__cpu_stream_create(struct orr_backend *base, uint32_t device,
                                       enum orr_stream_kind kind, uint32_t *out_stream,
                                       struct orr_error *error) {
    (void)kind;
    struct cpu_backend *backend = orr__cpu(base);
    *out_stream = ORR_ID_NONE;
    if (device >= backend->device_count)
        return orr_error_set(error, ORR_INVALID, "no device %u, there are %u", device,
                             backend->device_count);
    size_t count = backend->stream_count + 1;
    if (orr_memory_grow(backend->memory, &backend->streams, &backend->stream_capacity, count,
                        sizeof *backend->streams, CPU_STREAMS_MAX) != ORR_OK ||
        orr_memory_grow(backend->memory, &backend->busy, &backend->busy_capacity, count,
                        sizeof *backend->busy, CPU_STREAMS_MAX) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for stream %zu",
                             backend->stream_count);
    struct cpu_stream *stream = stream_new(backend, device);
    if (!stream)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a stream of %u commands",
                             backend->depths[device]);
    stream->id = (uint32_t)backend->stream_count;
    backend->streams[backend->stream_count++] = stream;
    *out_stream = stream->id;
    return ORR_OK;
}

/* Nothing can look at the slots of a drained stream any more; points of it stay valid. */
static void stream_drop_slots(struct cpu_backend *backend, struct cpu_stream *stream) {
    for (uint64_t i = 0; stream->slots && i <= stream->mask; i++)
        orr_memory_free(backend->memory, stream->slots[i].many_waits);
    orr__cpu_free(backend->memory, stream->slots);
    stream->slots = NULL;
    if (stream->counted)
        backend->streams_live--;
    stream->counted = false;
}

void orr__cpu_stream_destroy(struct orr_backend *base, uint32_t id) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(id < backend->stream_count && !backend->streams[id]->destroyed);
    struct cpu_stream *stream = backend->streams[id];
    stream->destroyed = true;
    orr__cpu_retire(backend);
    if (!stream->busy && stream->slots)
        stream_drop_slots(backend, stream);
}

void orr__cpu_stream_free(struct cpu_backend *backend, struct cpu_stream *stream) {
    assert(stream->retired == stream->submitted);
    stream_drop_slots(backend, stream);
    orr__cpu_free(backend->memory, stream->finishes);
    pthread_mutex_destroy(&stream->lock);
    orr__cpu_free(backend->memory, stream);
}

/* ---- retire ------------------------------------------------------------------------------- */

static int64_t max_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void group_release(struct cpu_backend *backend, struct cpu_slot *slot) {
    struct cpu_group *group = slot->group;
    slot->group = NULL;
    slot->command.collective = NULL;
    if (group && --group->unretired == 0)
        orr_memory_free(backend->memory, group);
}

static void slot_retire(struct cpu_backend *backend, struct cpu_stream *stream,
                        struct cpu_slot *slot) {
    struct orr_record_command *record = &slot->command.record;
    if (!slot->launched_by_dispatcher)
        record->enqueued_ns = slot->enqueued_ns;
    record->start_ns = slot->start_ns;
    record->finish_ns = slot->finish_ns;
    record->ready_ns = orr_record_ready_ns(record->enqueued_ns, stream->last_finish_ns,
                                           slot->awaited_ns, slot->start_ns);
    record->header.c = slot->status;
    stream->last_finish_ns = slot->finish_ns;
    bool failed = slot->status != ORR_COMMAND_STATUS_OK;
    assert(!failed || stream->cause.status != ORR_OK);
    backend->retire.retired(backend->retire.context, &slot->command,
                            failed ? &stream->cause : NULL);
    group_release(backend, slot);
}

/* Finds the next command of a stream to be retired in this round. */
static void busy_peek(struct cpu_busy *busy) {
    const struct cpu_stream *stream = busy->stream;
    busy->finish_ns = ORR_TIME_MAX;
    if (stream->retired >= busy->limit)
        return;
    const struct cpu_slot *slot = &stream->slots[stream->retired & stream->mask];
    busy->finish_ns = slot->finish_ns;
    busy->order = slot->order;
}

static void busy_retire_one(struct cpu_backend *backend, size_t index) {
    struct cpu_stream *stream = backend->busy[index].stream;
    slot_retire(backend, stream, &stream->slots[stream->retired & stream->mask]);
    stream->retired++;
    busy_peek(&backend->busy[index]); /* the callback may have moved the list */
}

/* Reads how far the streams are, and returns the latest finish among what is done. */
static int64_t busy_look(struct cpu_backend *backend, size_t count) {
    int64_t latest_ns = ORR_TIME_NONE;
    for (size_t i = 0; i < count; i++) {
        struct cpu_busy *busy = &backend->busy[i];
        struct cpu_stream *stream = busy->stream;
        busy->limit = atomic_load_explicit(&stream->done, memory_order_acquire);
        if (stream->retired < busy->limit)
            latest_ns =
                max_ns(latest_ns, stream->slots[(busy->limit - 1) & stream->mask].finish_ns);
        busy_peek(busy);
    }
    return latest_ns;
}

/* Takes streams without commands off the list, and the slots from destroyed ones. */
static void busy_sweep(struct cpu_backend *backend) {
    size_t kept = 0;
    for (size_t i = 0; i < backend->busy_count; i++) {
        struct cpu_stream *stream = backend->busy[i].stream;
        stream->busy = stream->retired < stream->submitted;
        if (stream->busy)
            backend->busy[kept++] = backend->busy[i];
        else if (stream->destroyed)
            stream_drop_slots(backend, stream);
    }
    backend->busy_count = kept;
}

/* What is done is retired by (finish, order of submits), so that nothing comes before what it
 * waited for. Streams are read one after another while work goes on, so the first look may miss the
 * producer of a consumer that it sees; the second can't, because the producer was done before. Of
 * what only the second one sees, commands count that finished by the latest finish of the first:
 * whatever those waited for was published before the second look began. */
static void retire_merged(struct cpu_backend *backend, size_t count) {
    int64_t latest_ns = busy_look(backend, count);
    if (latest_ns == ORR_TIME_NONE)
        return;
    (void)busy_look(backend, count);
    for (;;) {
        size_t next = 0;
        for (size_t i = 1; i < count; i++) {
            const struct cpu_busy *a = &backend->busy[i], *b = &backend->busy[next];
            if (a->finish_ns < b->finish_ns ||
                (a->finish_ns == b->finish_ns && a->order < b->order))
                next = i;
        }
        if (backend->busy[next].finish_ns > latest_ns)
            return;
        busy_retire_one(backend, next);
    }
}

void orr__cpu_retire(struct cpu_backend *backend) {
    if (backend->retiring || backend->busy_count == 0)
        return; /* called from within the callback: the outer call goes on */
    backend->retiring = true;
    if (backend->busy_count == 1) {
        (void)busy_look(backend, 1);
        while (backend->busy[0].finish_ns != ORR_TIME_MAX)
            busy_retire_one(backend, 0);
    } else {
        retire_merged(backend, backend->busy_count);
    }
    busy_sweep(backend);
    backend->retiring = false;
}

void orr__cpu_poll(struct orr_backend *base) {
    orr__cpu_retire(orr__cpu(base));
}

/* ---- submit ------------------------------------------------------------------------------- */

static enum orr_status stream_find(struct cpu_backend *backend, uint32_t id,
                                   struct cpu_stream **out_stream, struct orr_error *error) {
    if (id >= backend->stream_count)
        return orr_error_set(error, ORR_INVALID, "no stream %u, there are %zu", id,
                             backend->stream_count);
    if (backend->streams[id]->destroyed)
        return orr_error_set(error, ORR_INVALID, "stream %u was destroyed", id);
    *out_stream = backend->streams[id];
    return ORR_OK;
}

/* A stream in use has a thread that can run it. */
static enum orr_status stream_count_in(struct cpu_backend *backend, struct cpu_stream *stream,
                                       struct orr_error *error) {
    if (stream->counted)
        return ORR_OK;
    if (backend->worker_count < backend->streams_live + 1) {
        enum orr_status status = orr__cpu_worker_start(backend, error);
        if (status != ORR_OK)
            return status;
    }
    backend->streams_live++;
    stream->counted = true;
    return ORR_OK;
}

/* ORR_FULL and the point that makes room, if the stream or its device's dispatcher has none. */
static enum orr_status stream_make_room(struct cpu_backend *backend, struct cpu_stream *stream,
                                        struct orr_point *out_point) {
    if (stream->submitted - stream->retired >= (stream->depth + 1) / 2)
        orr__cpu_retire(backend);
    if (stream->submitted - stream->retired >= stream->depth) {
        /* Half of the queue, so that a host that sleeps until then wakes up seldom. */
        *out_point = (struct orr_point){.stream = stream->id,
                                        .seq = stream->retired + (stream->depth + 1) / 2};
        return ORR_FULL;
    }
    if (!backend->dispatchers || orr__cpu_dispatcher_room(backend->dispatchers[stream->device]) > 0)
        return ORR_OK;
    struct cpu_wait oldest = orr__cpu_dispatcher_oldest(backend->dispatchers[stream->device]);
    *out_point = (struct orr_point){.stream = oldest.stream->id, .seq = oldest.seq};
    return ORR_FULL;
}

static struct cpu_slot *slot_next(struct cpu_stream *stream) {
    return &stream->slots[stream->submitted & stream->mask];
}

/* True if waiting for the point would do nothing at all. */
static bool wait_is_void(const struct cpu_stream *stream, const struct cpu_stream *awaited,
                         uint64_t seq) {
    if (seq == 0 || awaited == stream)
        return true;
    if (atomic_load_explicit(&awaited->done, memory_order_acquire) < seq)
        return false;
    uint64_t poisoned = atomic_load_explicit(&awaited->poisoned_seq, memory_order_acquire);
    return poisoned == 0 || poisoned > seq;
}

static enum orr_status check_waits(struct cpu_backend *backend, const struct orr_point *waits,
                                   uint32_t count, struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        if (waits[i].stream >= backend->stream_count)
            return orr_error_set(error, ORR_INVALID, "a wait names stream %u, there are %zu",
                                 waits[i].stream, backend->stream_count);
        uint64_t submitted = backend->streams[waits[i].stream]->submitted;
        if (waits[i].seq > submitted)
            return orr_error_set(
                error, ORR_INVALID, "a wait for command %llu of stream %u, which has only %llu",
                (unsigned long long)waits[i].seq, waits[i].stream, (unsigned long long)submitted);
    }
    return ORR_OK;
}

/* Keeps the waits that are not void. The points are checked. */
static enum orr_status slot_set_waits(struct cpu_backend *backend, struct cpu_stream *stream,
                                      struct cpu_slot *slot, const struct orr_point *waits,
                                      uint32_t count, struct orr_error *error) {
    struct cpu_wait *kept = slot->few_waits;
    if (count > CPU_FEW_WAITS) {
        if (orr_memory_grow(backend->memory, &slot->many_waits, &slot->many_capacity, count,
                            sizeof *slot->many_waits, CPU_WAITS_MAX) != ORR_OK)
            return orr_error_set(error, ORR_NO_MEMORY, "no memory for %u waits", count);
        kept = slot->many_waits;
    }
    slot->waits = kept;
    slot->wait_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct cpu_stream *awaited = backend->streams[waits[i].stream];
        if (!wait_is_void(stream, awaited, waits[i].seq))
            kept[slot->wait_count++] = (struct cpu_wait){awaited, waits[i].seq};
    }
    return ORR_OK;
}

/* Fills the rest of the next slot and publishes it; can't fail. */
static void stream_append(struct cpu_backend *backend, struct cpu_stream *stream,
                          const struct orr_command *command, struct cpu_group *group,
                          const struct orr_collective *collective, int64_t begin_ns,
                          struct orr_point *out_point) {
    struct cpu_slot *slot = slot_next(stream);
    uint64_t seq = ++stream->submitted;
    slot->command = *command;
    slot->command.collective = collective;
    struct orr_record_command *record = &slot->command.record;
    record->seq = seq;
    record->device = stream->device;
    record->stream = stream->id;
    if (record->enqueue_ns == ORR_TIME_NONE)
        record->enqueue_ns = begin_ns;
    slot->start_ns = slot->awaited_ns = ORR_TIME_NONE;
    slot->group = group;
    slot->run = backend->timing_only ? NULL : command->run;
    if (backend->perturb)
        orr__cpu_perturb_slot(backend, slot);
    slot->is_wait = record->header.a == ORR_COMMAND_WAIT;
    slot->launched_by_dispatcher = backend->dispatchers != NULL;
    slot->order = ++backend->submits;
    if (!stream->busy) {
        assert(backend->busy_count < backend->busy_capacity);
        backend->busy[backend->busy_count++] = (struct cpu_busy){.stream = stream};
        stream->busy = true;
    }
    *out_point = (struct orr_point){.stream = stream->id, .seq = seq, .cmd = record->id};
    if (backend->dispatchers) {
        orr__cpu_dispatcher_push(backend->dispatchers[stream->device], stream, seq);
        return;
    }
    orr__cpu_launch(stream, seq);
    /* The end of the call includes waking a sleeper, so it is kept apart from the record, which the
     * worker may be reading. */
    slot->enqueued_ns = orr__cpu_now(backend);
}

enum orr_status orr__cpu_submit(struct orr_backend *base, uint32_t id,
                                const struct orr_command *command, const struct orr_point *waits,
                                uint32_t wait_count, struct orr_point *out_point,
                                struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    *out_point = (struct orr_point){0};
    if (command->collective)
        return orr__cpu_submit_group(base, &id, command, 1, waits, wait_count, out_point, error);
    int64_t begin_ns =
        command->record.enqueue_ns == ORR_TIME_NONE ? orr__cpu_now(backend) : ORR_TIME_NONE;
    struct cpu_stream *stream;
    enum orr_status status = stream_find(backend, id, &stream, error);
    if (status != ORR_OK || (status = check_waits(backend, waits, wait_count, error)) != ORR_OK)
        return status;
    status = stream_make_room(backend, stream, out_point);
    if (status != ORR_OK)
        return status;
    status = slot_set_waits(backend, stream, slot_next(stream), waits, wait_count, error);
    if (status != ORR_OK || (status = stream_count_in(backend, stream, error)) != ORR_OK)
        return status;
    stream_append(backend, stream, command, NULL, NULL, begin_ns, out_point);
    return ORR_OK;
}

/* ---- groups ------------------------------------------------------------------------------- */

/* One block: the group, its members, the list of their collectives. */
static struct cpu_group *group_new(struct cpu_backend *backend, uint32_t count) {
    size_t members_at = sizeof(struct cpu_group);
    size_t list_at = members_at + count * sizeof(struct cpu_member);
    char *block =
        orr_memory_alloc(backend->memory, list_at + count * sizeof(const struct orr_collective *));
    if (!block)
        return NULL;
    struct cpu_group *group = (struct cpu_group *)(void *)block;
    group->members = (struct cpu_member *)(void *)(block + members_at);
    group->collectives = (const struct orr_collective **)(void *)(block + list_at);
    group->count = group->unretired = count;
    atomic_init(&group->arrived, 0);
    return group;
}

static void group_fill(struct cpu_backend *backend, struct cpu_group *group,
                       const uint32_t *streams, const struct orr_command *commands) {
    group->computes = true;
    for (uint32_t i = 0; i < group->count; i++) {
        struct cpu_member *member = &group->members[i];
        member->stream = backend->streams[streams[i]];
        member->seq = member->stream->submitted + 1;
        if (commands[i].collective)
            member->collective = *commands[i].collective;
        else
            group->computes = false;
        group->collectives[i] = &member->collective;
    }
}

/* Without buffers (timing only, or the caller computes by itself) there is nothing to compute. */
static bool group_has_buffers(const struct cpu_group *group) {
    bool any = false;
    for (uint32_t i = 0; i < group->count; i++)
        any = any || group->collectives[i]->in || group->collectives[i]->out ||
              group->collectives[i]->transfer_count > 0;
    return any;
}

static enum orr_status check_group(struct cpu_backend *backend, const uint32_t *streams,
                                   uint32_t count, struct orr_error *error) {
    if (count == 0)
        return orr_error_set(error, ORR_INVALID, "a group without members");
    for (uint32_t i = 0; i < count; i++) {
        struct cpu_stream *stream;
        enum orr_status status = stream_find(backend, streams[i], &stream, error);
        if (status != ORR_OK)
            return status;
        for (uint32_t j = 0; j < i; j++)
            if (streams[j] == streams[i])
                return orr_error_set(error, ORR_INVALID,
                                     "members %u and %u of a group are in the same stream %u", j, i,
                                     streams[i]);
    }
    return ORR_OK;
}

/* Room for all: streams one each, dispatchers one for each member on their device. */
static enum orr_status group_make_room(struct cpu_backend *backend, const uint32_t *streams,
                                       uint32_t count, struct orr_point *out_point) {
    for (uint32_t i = 0; i < count; i++) {
        struct cpu_stream *stream = backend->streams[streams[i]];
        enum orr_status status = stream_make_room(backend, stream, out_point);
        if (status != ORR_OK)
            return status;
        if (!backend->dispatchers)
            continue;
        struct cpu_dispatcher *dispatcher = backend->dispatchers[stream->device];
        uint64_t needed = 0;
        for (uint32_t j = 0; j < count; j++)
            needed += backend->streams[streams[j]]->device == stream->device;
        if (orr__cpu_dispatcher_room(dispatcher) < needed) {
            struct cpu_wait oldest = orr__cpu_dispatcher_oldest(dispatcher);
            *out_point = (struct orr_point){.stream = oldest.stream->id, .seq = oldest.seq};
            return ORR_FULL;
        }
    }
    return ORR_OK;
}

static enum orr_status group_prepare(struct cpu_backend *backend, const uint32_t *streams,
                                     uint32_t count, const struct orr_point *waits,
                                     uint32_t wait_count, struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        struct cpu_stream *stream = backend->streams[streams[i]];
        enum orr_status status =
            slot_set_waits(backend, stream, slot_next(stream), waits, wait_count, error);
        if (status != ORR_OK || (status = stream_count_in(backend, stream, error)) != ORR_OK)
            return status;
    }
    return ORR_OK;
}

enum orr_status orr__cpu_submit_group(struct orr_backend *base, const uint32_t *streams,
                                      const struct orr_command *commands, uint32_t count,
                                      const struct orr_point *waits, uint32_t wait_count,
                                      struct orr_point *out_points, struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    int64_t begin_ns = orr__cpu_now(backend);
    enum orr_status status = check_group(backend, streams, count, error);
    if (status != ORR_OK || (status = check_waits(backend, waits, wait_count, error)) != ORR_OK)
        return status;
    status = group_make_room(backend, streams, count, &out_points[0]);
    if (status != ORR_OK)
        return status;
    status = group_prepare(backend, streams, count, waits, wait_count, error);
    if (status != ORR_OK)
        return status;
    struct cpu_group *group = group_new(backend, count);
    if (!group)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a group of %u", count);
    group_fill(backend, group, streams, commands);
    if (group->computes) {
        status = orr_collective_check(group->collectives, count, error);
        if (status != ORR_OK) {
            orr_memory_free(backend->memory, group);
            return status;
        }
        group->computes = group_has_buffers(group);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct orr_collective *collective =
            commands[i].collective ? &group->members[i].collective : NULL;
        stream_append(backend, group->members[i].stream, &commands[i], group, collective, begin_ns,
                      &out_points[i]);
    }
    return ORR_OK;
}
