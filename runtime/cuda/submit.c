/* Commands on their way into CUDA streams. */

#include "runtime/collective.h"
#include "runtime/cuda/cuda_internal.h"

/* What a command comes to. */
enum work { WORK_NONE, WORK_DEVICE, WORK_HOST };

struct plan {
    enum work work;
    struct orr_task task;
};

/* --- what is to be done --- */

/* ORR_UNSUPPORTED for a kernel that there is host code for only. */
static enum orr_status plan_make(const struct cuda_backend *backend,
                                 const struct orr_command *command, struct plan *out_plan,
                                 struct orr_error *error) {
    *out_plan = (struct plan){.work = WORK_NONE};
    if (!command->run || command->collective)
        return ORR_OK;
    if (!backend->config.describe) {
        out_plan->work = WORK_HOST;
        return ORR_OK;
    }
    backend->config.describe(command, &out_plan->task);
    switch (out_plan->task.kind) {
    case ORR_TASK_NONE: break;
    case ORR_TASK_HOST: out_plan->work = WORK_HOST; break;
    case ORR_TASK_HOST_ONLY:
        return orr_error_set(
            error, ORR_UNSUPPORTED,
            "cuda: it computes by host code only, which can't reach a GPU's memory");
    default: out_plan->work = WORK_DEVICE; break;
    }
    return ORR_OK;
}

static cudaEvent_t awaited_event(struct cuda_backend *backend, const struct cuda_wait *wait) {
    return orr__cuda_graph_captures(backend) ? orr__cuda_graph_awaited(backend, wait)
                                             : orr__cuda_event_of(wait->stream, wait->seq);
}

static enum orr_status enqueue_waits(struct cuda_stream *stream, const struct cuda_slot *slot,
                                     struct orr_error *error) {
    struct orr__cuda_api *api = stream->backend->api;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < slot->wait_count; i++) {
        cudaEvent_t event = awaited_event(stream->backend, &slot->waits[i]);
        if (event)
            status =
                orr__cuda_check(api, api->rt.cudaStreamWaitEvent(stream->queue.stream, event, 0),
                                "cudaStreamWaitEvent", error);
    }
    return status;
}

static bool has_events_to_wait_for(const struct cuda_slot *slot) {
    for (uint32_t i = 0; i < slot->wait_count; i++)
        if (awaited_event(slot->stream->backend, &slot->waits[i]))
            return true;
    return false;
}

static enum orr_status enqueue_delay(struct cuda_stream *stream, const struct cuda_slot *slot,
                                     struct orr_error *error) {
    struct orr__k_spin spin = {.ns = slot->perturbed.delay_ns};
    if (spin.ns <= 0)
        return ORR_OK;
    return orr__cuda_launch(&stream->queue, ORR__K_spin, 1, 32, 0, &spin, error);
}

/* Times of a host function are its own; a delay before it is taken off them later. */
static enum orr_status enqueue_host(struct cuda_stream *stream, struct cuda_slot *slot,
                                    struct orr_error *error) {
    enum orr_status status = enqueue_delay(stream, slot, error);
    slot->stamp.on_host = true;
    return status == ORR_OK ? orr__cuda_host_launch(slot, error) : status;
}

static enum orr_status enqueue_device(struct cuda_stream *stream, struct cuda_slot *slot,
                                      const struct plan *plan, struct orr_error *error) {
    struct cuda_backend *backend = stream->backend;
    bool busy = slot->command.record.seq - 1 > stream->done;
    bool captured = orr__cuda_graph_captures(backend);
    stream->queue.fault = slot->fault;
    if (!captured)
        orr__cuda_times_begin(backend->times, &slot->stamp, stream->device->gpu->index,
                              stream->queue.stream, busy);
    enum orr_status status = enqueue_delay(stream, slot, error);
    if (status == ORR_OK && plan->work == WORK_DEVICE)
        status = orr__cuda_enqueue(&stream->queue, &plan->task, error);
    if (!captured)
        orr__cuda_times_end(backend->times, &slot->stamp);
    return status;
}

static enum orr_status enqueue(struct cuda_stream *stream, struct cuda_slot *slot,
                               const struct plan *plan, struct orr_error *error) {
    enum orr_status status = orr__cuda_use(stream->backend, stream->device->gpu, error);
    if (status == ORR_OK)
        status = enqueue_waits(stream, slot, error);
    if (status != ORR_OK)
        return status;
    if (plan->work == WORK_HOST)
        return enqueue_host(stream, slot, error);
    if (plan->work == WORK_DEVICE || slot->perturbed.delay_ns > 0)
        return enqueue_device(stream, slot, plan, error);
    return ORR_OK;
}

/* --- one command --- */

/* A node of a graph: nothing but an account of it, or captured. What fails in a capture fails the
 * launch, at its end. */
static void submit_node(struct cuda_stream *stream, struct cuda_slot *slot,
                        const struct plan *plan) {
    struct cuda_backend *backend = stream->backend;
    struct orr_error *cause = &backend->launch.cause;
    orr__cuda_graph_node(slot, 0, plan->work != WORK_NONE);
    if (orr__cuda_graph_replays(backend) || cause->status != ORR_OK)
        return;
    enum orr_status status = orr__cuda_event_take(backend, stream->device->gpu, &slot->own, cause);
    if (status == ORR_OK)
        status = orr__cuda_graph_enter(slot, cause);
    if (status == ORR_OK)
        status = enqueue(stream, slot, plan, cause);
    if (status == ORR_OK)
        (void)!orr__cuda_slot_record(slot, cause);
}

/* ORR_UNSUPPORTED: there is no kernel for it; ORR_NO_MEMORY: for the call. It is not submitted
 * then. Any other failure is the command's. */
static enum orr_status submit_planned(struct cuda_stream *stream, struct cuda_slot *slot,
                                      const struct plan *plan, struct orr_error *error) {
    struct cuda_backend *backend = stream->backend;
    struct orr_error cause = {0};
    bool bypassed = orr__cuda_slot_bypasses(slot);
    if (orr__cuda_graph_is_whole(backend)) {
        submit_node(stream, slot, plan);
        return ORR_OK;
    }
    if (bypassed)
        return ORR_OK;
    enum orr_status status = ORR_OK;
    bool acts =
        plan->work != WORK_NONE || slot->perturbed.delay_ns > 0 || has_events_to_wait_for(slot);
    if (acts)
        status = orr__cuda_event_take(backend, stream->device->gpu, &slot->own, &cause);
    if (status == ORR_NO_MEMORY)
        return orr_error_set(error, status, "%s", cause.text);
    if (status == ORR_OK && acts)
        status = enqueue(stream, slot, plan, &cause);
    if (status == ORR_UNSUPPORTED || status == ORR_NO_MEMORY) {
        orr__cuda_slot_refuse(slot);
        return orr_error_set(error, status, "%s", cause.text);
    }
    if (status == ORR_OK)
        status = orr__cuda_slot_record(slot, &cause);
    if (status != ORR_OK)
        orr__cuda_slot_abandon(slot, &cause);
    return ORR_OK;
}

enum orr_status orr__cuda_submit(struct orr_backend *base, uint32_t id,
                                 const struct orr_command *command, const struct orr_point *waits,
                                 uint32_t wait_count, struct orr_point *out_point,
                                 struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    *out_point = (struct orr_point){0};
    if (command->collective)
        return orr__cuda_submit_group(base, &id, command, 1, waits, wait_count, out_point, error);
    int64_t begin_ns = orr__cuda_now(backend);
    struct cuda_stream *stream;
    struct plan plan;
    if (!(command->flags & ORR_COMMAND_GRAPH_NODE))
        orr__cuda_graph_interrupt(backend);
    enum orr_status status = orr__cuda_stream_find(backend, id, &stream, error);
    if (status == ORR_OK)
        status = orr__cuda_check_waits(backend, waits, wait_count, error);
    if (status == ORR_OK)
        status = orr__cuda_make_room(stream, out_point);
    if (status == ORR_OK)
        status = plan_make(backend, command, &plan, error);
    if (status == ORR_OK)
        status = orr__cuda_set_waits(stream, waits, wait_count, error);
    if (status != ORR_OK)
        return status;
    struct cuda_slot *slot = orr__cuda_slot_fill(stream, command, NULL, begin_ns);
    status = submit_planned(stream, slot, &plan, error);
    if (status != ORR_OK)
        return status;
    orr__cuda_slot_commit(slot, out_point);
    orr__cuda_graph_submitted(slot, plan.work == WORK_HOST);
    return ORR_OK;
}

/* --- groups --- */

/* One block: the group, its members, copies of their collectives. */
static struct cuda_group *group_new(struct cuda_backend *backend, uint32_t count) {
    size_t members_at = sizeof(struct cuda_group);
    size_t copies_at = members_at + count * sizeof(struct cuda_wait);
    char *block =
        orr_memory_alloc(backend->memory, copies_at + count * sizeof(struct orr_collective));
    if (!block)
        return NULL;
    struct cuda_group *group = (struct cuda_group *)(void *)block;
    group->members = (struct cuda_wait *)(void *)(block + members_at);
    group->collectives = (struct orr_collective *)(void *)(block + copies_at);
    group->count = count;
    return group;
}

static enum orr_status check_group(struct cuda_backend *backend, const uint32_t *streams,
                                   const struct orr_command *commands, uint32_t count,
                                   struct orr_error *error) {
    if (count == 0)
        return orr_error_set(error, ORR_INVALID, "a group without members");
    for (uint32_t i = 0; i < count; i++) {
        struct cuda_stream *stream;
        enum orr_status status = orr__cuda_stream_find(backend, streams[i], &stream, error);
        if (status != ORR_OK)
            return status;
        if (!commands[i].collective || commands[i].run)
            return orr_error_set(error, ORR_UNSUPPORTED,
                                 "cuda: a group is a collective, and nothing else");
        for (uint32_t j = 0; j < i; j++)
            if (streams[j] == streams[i])
                return orr_error_set(error, ORR_INVALID,
                                     "members %u and %u of a group are in the same stream %u", j, i,
                                     streams[i]);
    }
    return ORR_OK;
}

/* Lists for the calls about a group, and the check that it is one collective. */
static enum orr_status group_lists(struct cuda_backend *backend, const struct orr_command *commands,
                                   uint32_t count, struct orr_error *error) {
    if (orr_memory_grow(backend->memory, &backend->members, &backend->member_capacity, count,
                        sizeof *backend->members, CUDA_STREAMS_MAX) != ORR_OK ||
        orr_memory_grow(backend->memory, &backend->stamps, &backend->stamp_capacity, count,
                        sizeof *backend->stamps, CUDA_STREAMS_MAX) != ORR_OK ||
        orr_memory_grow(backend->memory, &backend->group_gpus, &backend->group_gpu_capacity, count,
                        sizeof *backend->group_gpus, CUDA_STREAMS_MAX) != ORR_OK ||
        orr_memory_grow(backend->memory, &backend->checked, &backend->checked_capacity, count,
                        sizeof *backend->checked, CUDA_STREAMS_MAX) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a group of %u", count);
    for (uint32_t i = 0; i < count; i++)
        backend->checked[i] = commands[i].collective;
    return orr_collective_check(backend->checked, count, error);
}

static void give_events(struct cuda_backend *backend, const uint32_t *streams, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct cuda_stream *stream = backend->streams[streams[i]];
        orr__cuda_event_give(stream->device->gpu,
                             &orr__cuda_slot(stream, stream->submitted + 1)->own);
    }
}

/* Waits and an event for each member: what may find no memory. */
static enum orr_status group_prepare(struct cuda_backend *backend, const uint32_t *streams,
                                     uint32_t count, const struct orr_point *waits,
                                     uint32_t wait_count, struct orr_error *error) {
    enum orr_status status = ORR_OK;
    uint32_t ready = 0;
    while (status == ORR_OK && ready < count) {
        struct cuda_stream *stream = backend->streams[streams[ready]];
        struct cuda_slot *slot = orr__cuda_slot(stream, stream->submitted + 1);
        status = orr__cuda_set_waits(stream, waits, wait_count, error);
        if (status == ORR_OK)
            status = orr__cuda_event_take(backend, stream->device->gpu, &slot->own, error);
        ready += status == ORR_OK;
    }
    if (status != ORR_OK)
        give_events(backend, streams, ready);
    return status;
}

static void group_fill(struct cuda_backend *backend, struct cuda_group *group,
                       const uint32_t *streams, const struct orr_command *commands,
                       int64_t begin_ns) {
    for (uint32_t i = 0; i < group->count; i++) {
        struct cuda_stream *stream = backend->streams[streams[i]];
        struct cuda_slot *slot = orr__cuda_slot(stream, stream->submitted + 1);
        cudaEvent_t own = slot->own;
        slot->own = NULL;
        group->members[i] = (struct cuda_wait){stream, stream->submitted + 1};
        group->collectives[i] = *commands[i].collective;
        slot = orr__cuda_slot_fill(stream, &commands[i], group, begin_ns);
        slot->own = own;
        backend->members[i] = (struct orr__cuda_member){.queue = &stream->queue,
                                                        .device = stream->device_id,
                                                        .collective = &group->collectives[i]};
        backend->stamps[i] = &slot->stamp;
        backend->group_gpus[i] = stream->device->gpu->index;
    }
}

static struct cuda_slot *member_slot(const struct cuda_group *group, uint32_t index) {
    return orr__cuda_slot(group->members[index].stream, group->members[index].seq);
}

/* One that fails or is skipped takes all with it. */
static bool group_bypasses(struct cuda_group *group) {
    bool bypassed = false;
    for (uint32_t i = 0; i < group->count; i++)
        bypassed = orr__cuda_slot_bypasses(member_slot(group, i)) || bypassed;
    for (uint32_t i = 0; bypassed && i < group->count; i++) {
        struct cuda_slot *slot = member_slot(group, i);
        (void)orr__cuda_inherit(slot->stream, slot);
        slot->bypassed = true;
        orr__cuda_event_give(slot->stream->device->gpu, &slot->own);
    }
    return bypassed;
}

static enum orr_status group_enqueue(struct cuda_backend *backend, struct cuda_group *group,
                                     struct orr_error *error) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < group->count; i++) {
        struct cuda_slot *slot = member_slot(group, i);
        status = orr__cuda_use(backend, slot->stream->device->gpu, error);
        if (status == ORR_OK)
            status = enqueue_waits(slot->stream, slot, error);
        if (status == ORR_OK)
            status = enqueue_delay(slot->stream, slot, error);
    }
    if (status != ORR_OK)
        return status;
    bool captured = orr__cuda_graph_captures(backend);
    if (!captured)
        orr__cuda_times_begin_group(backend->times, backend->stamps, backend->group_gpus,
                                    group->count);
    status =
        orr__cuda_collectives_enqueue(backend->collectives, backend->members, group->count, error);
    backend->current_gpu = -1;
    if (!captured)
        orr__cuda_times_end_group(backend->times, backend->stamps, group->count);
    for (uint32_t i = 0; status == ORR_OK && i < group->count; i++)
        status = orr__cuda_slot_record(member_slot(group, i), error);
    return status;
}

/* A collective of a graph: as submit_node. */
static void group_submit_nodes(struct cuda_backend *backend, struct cuda_group *group) {
    struct orr_error *cause = &backend->launch.cause;
    bool replays = orr__cuda_graph_replays(backend);
    for (uint32_t i = 0; i < group->count; i++) {
        struct cuda_slot *slot = member_slot(group, i);
        orr__cuda_graph_node(slot, i, true);
        if (replays)
            orr__cuda_event_give(slot->stream->device->gpu, &slot->own);
        else if (cause->status == ORR_OK)
            (void)!orr__cuda_graph_enter(slot, cause);
    }
    if (!replays && cause->status == ORR_OK)
        (void)!group_enqueue(backend, group, cause);
}

static void group_abandon(struct cuda_group *group, const struct orr_error *cause) {
    for (uint32_t i = 0; i < group->count; i++)
        orr__cuda_fail(member_slot(group, i), cause);
    for (uint32_t i = 0; i < group->count; i++)
        orr__cuda_slot_abandon(member_slot(group, i), cause);
}

static void group_refuse(struct cuda_group *group) {
    for (uint32_t i = 0; i < group->count; i++) {
        struct cuda_slot *slot = member_slot(group, i);
        orr__cuda_slot_refuse(slot);
        slot->group = NULL;
    }
    orr_memory_free(group->members[0].stream->backend->memory, group);
}

enum orr_status orr__cuda_submit_group(struct orr_backend *base, const uint32_t *streams,
                                       const struct orr_command *commands, uint32_t count,
                                       const struct orr_point *waits, uint32_t wait_count,
                                       struct orr_point *out_points, struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    struct orr_error cause = {0};
    int64_t begin_ns = orr__cuda_now(backend);
    if (count > 0 && !(commands[0].flags & ORR_COMMAND_GRAPH_NODE))
        orr__cuda_graph_interrupt(backend);
    enum orr_status status = check_group(backend, streams, commands, count, error);
    if (status == ORR_OK)
        status = orr__cuda_check_waits(backend, waits, wait_count, error);
    for (uint32_t i = 0; status == ORR_OK && i < count; i++)
        status = orr__cuda_make_room(backend->streams[streams[i]], &out_points[0]);
    if (status == ORR_OK)
        status = group_lists(backend, commands, count, error);
    if (status == ORR_OK)
        status = group_prepare(backend, streams, count, waits, wait_count, error);
    if (status != ORR_OK)
        return status;
    struct cuda_group *group = group_new(backend, count);
    if (!group) {
        give_events(backend, streams, count);
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a group of %u", count);
    }
    group_fill(backend, group, streams, commands, begin_ns);
    bool bypassed = group_bypasses(group);
    if (orr__cuda_graph_is_whole(backend))
        group_submit_nodes(backend, group);
    else if (!bypassed)
        status = group_enqueue(backend, group, &cause);
    if (status == ORR_NO_MEMORY) {
        group_refuse(group);
        return orr_error_set(error, status, "%s", cause.text);
    }
    if (status != ORR_OK)
        group_abandon(group, &cause);
    for (uint32_t i = 0; i < count; i++) {
        orr__cuda_slot_commit(member_slot(group, i), &out_points[i]);
        orr__cuda_graph_submitted(member_slot(group, i), false);
    }
    return ORR_OK;
}
