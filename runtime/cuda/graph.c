/* Launches of recorded programs as CUDA graphs.
 *
 *     1st launch    one by one: memory that kernels need besides operands is found, and libraries
 *                   choose
 *     2nd           captured while it is submitted, then launched as a graph
 *     later ones    only kept account of while they are submitted, and launched as the same graph
 *
 * The streams of a program (its lanes) take part in it with all their order: the graph is launched
 * in the stream of the program's launch (the origin), which first waits for what is in the lanes;
 * behind it the lanes wait for the graph. All nodes are done when the graph is: the last command of
 * each lane has an event for that, and the others look at it.
 *
 * When a node ran, an event tells that the graph itself records behind it (an external record
 * node). Each launch overwrites it, so that a launch whose times are not read yet keeps its
 * recording; a program has up to CUDA_RECORDINGS_MAX of them, captured as they are needed.
 *
 * Host functions have their own slot as an argument, which changes with every launch: programs with
 * one are launched one by one, and so are those in runs with perturbations or with NCCL. */
#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

static struct cuda_launch *launch_of(struct cuda_backend *backend) {
    return &backend->launch;
}

static enum orr_status call(struct cuda_backend *backend, cudaError_t code, const char *name,
                            struct orr_error *error) {
    return orr__cuda_check(backend->api, code, name, error);
}

/* --- the first launch: which streams there are --- */

static struct cuda_lane *lane_of(const struct cuda_graph *graph, const struct cuda_stream *stream) {
    for (size_t i = 0; i < graph->lane_count; i++)
        if (graph->lanes[i].stream == stream->id)
            return &graph->lanes[i];
    return NULL;
}

static bool learn(struct cuda_backend *backend, struct cuda_graph *graph,
                  const struct cuda_stream *stream) {
    if (orr_memory_grow(backend->memory, &graph->nodes, &graph->node_capacity,
                        (size_t)graph->node_count + 1, sizeof *graph->nodes,
                        CUDA_NODES_MAX) != ORR_OK)
        return false;
    graph->nodes[graph->node_count++] = stream->id;
    struct cuda_lane *lane = lane_of(graph, stream);
    if (!lane) {
        if (orr_memory_grow(backend->memory, &graph->lanes, &graph->lane_capacity,
                            graph->lane_count + 1, sizeof *graph->lanes,
                            CUDA_STREAMS_MAX) != ORR_OK)
            return false;
        lane = &graph->lanes[graph->lane_count++];
        *lane = (struct cuda_lane){.stream = stream->id};
    }
    lane->count++;
    return true;
}

/* --- the beginning of a launch --- */

static bool has_room(struct cuda_backend *backend, const struct cuda_graph *graph) {
    for (size_t i = 0; i < graph->lane_count; i++) {
        const struct cuda_stream *stream = backend->streams[graph->lanes[i].stream];
        if (stream->destroyed ||
            stream->depth - (stream->submitted - stream->retired) < graph->lanes[i].count)
            return false;
    }
    return true;
}

static struct cuda_recording *free_recording(struct cuda_graph *graph) {
    struct cuda_recording *empty = NULL;
    for (int i = 0; i < CUDA_RECORDINGS_MAX; i++) {
        struct cuda_recording *recording = &graph->recordings[i];
        if (recording->exec && recording->in_flight == 0)
            return recording;
        if (!recording->exec && !empty)
            empty = recording;
    }
    return empty;
}

/* Whether this launch may be one piece of work; else it goes one by one. */
static bool goes_whole(struct cuda_backend *backend, struct cuda_graph *graph, uint32_t count) {
    const struct orr_cuda_options *options = backend->config.options;
    bool allowed = !(options && options->no_graphs) && !backend->perturb && !backend->lost &&
                   !backend->polls && !atomic_load(&backend->poisoned);
    return allowed && !graph->plain && graph->launches > 0 && graph->node_count == count &&
           has_room(backend, graph);
}

/* What is in the lanes comes before the graph. */
static enum orr_status gather_lanes(struct cuda_backend *backend, struct orr_error *error) {
    struct cuda_launch *launch = launch_of(backend);
    enum orr_status status = orr__cuda_use(backend, launch->origin->device->gpu, error);
    for (size_t i = 0; status == ORR_OK && i < launch->graph->lane_count; i++) {
        struct cuda_lane *lane = &launch->graph->lanes[i];
        struct cuda_stream *stream = backend->streams[lane->stream];
        lane->base = stream->submitted;
        cudaEvent_t event = orr__cuda_event_of(stream, stream->submitted);
        if (stream != launch->origin && event)
            status =
                call(backend,
                     backend->api->rt.cudaStreamWaitEvent(launch->origin->queue.stream, event, 0),
                     "cudaStreamWaitEvent", error);
    }
    return status;
}

static enum orr_status capture_begin(struct cuda_backend *backend, struct orr_error *error) {
    struct cuda_launch *launch = launch_of(backend);
    cudaStream_t origin = launch->origin->queue.stream;
    enum orr_status status =
        orr__cuda_recording_open(backend, launch->graph, launch->recording, error);
    if (status == ORR_OK)
        status = orr__cuda_event_take(backend, launch->origin->device->gpu, &launch->fork, error);
    if (status == ORR_OK)
        status = orr__cuda_use(backend, launch->origin->device->gpu, error);
    if (status == ORR_OK)
        status =
            call(backend,
                 backend->api->rt.cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture", error);
    if (status != ORR_OK)
        return status;
    launch->captures = true;
    return call(backend, backend->api->rt.cudaEventRecord(launch->fork, origin), "cudaEventRecord",
                error);
}

static void launch_drop(struct cuda_backend *backend) {
    struct cuda_launch *launch = launch_of(backend);
    if (launch->origin)
        orr__cuda_event_give(launch->origin->device->gpu, &launch->fork);
    *launch = (struct cuda_launch){0};
}

/* Nothing of the launch has been submitted: it can still go one by one. */
static void launch_plainly(struct cuda_backend *backend) {
    struct cuda_launch *launch = launch_of(backend);
    struct cuda_graph *graph = launch->graph;
    cudaGraph_t captured = NULL;
    if (launch->captures)
        (void)backend->api->rt.cudaStreamEndCapture(launch->origin->queue.stream, &captured);
    if (captured)
        (void)backend->api->rt.cudaGraphDestroy(captured);
    if (launch->mode == CUDA_LAUNCH_CAPTURE)
        orr__cuda_recording_clear(backend, graph, launch->recording);
    (void)backend->api->rt.cudaGetLastError();
    graph->plain = true;
    launch_drop(backend);
    launch->graph = graph;
    launch->mode = CUDA_LAUNCH_PLAIN;
}

enum orr_status orr__cuda_graph_begin(struct orr_backend *base, uint32_t id, struct orr_point fork,
                                      uint32_t count, struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    struct cuda_launch *launch = launch_of(backend);
    struct cuda_graph *graph = orr__cuda_graph_get(backend, id);
    if (!graph)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for a graph");
    launch_drop(backend); /* one that was never completed */
    if (graph->launches > 0)
        (void)orr__cuda_retire(backend, false);
    *launch = (struct cuda_launch){
        .graph = graph, .origin = backend->streams[fork.stream], .mode = CUDA_LAUNCH_PLAIN};
    struct cuda_recording *recording =
        goes_whole(backend, graph, count) ? free_recording(graph) : NULL;
    if (!recording)
        return ORR_OK;
    struct orr_error cause = {0};
    launch->recording = recording;
    launch->mode = recording->exec ? CUDA_LAUNCH_REPLAY : CUDA_LAUNCH_CAPTURE;
    enum orr_status status = gather_lanes(backend, &cause);
    if (status == ORR_OK && launch->mode == CUDA_LAUNCH_CAPTURE)
        status = capture_begin(backend, &cause);
    if (status != ORR_OK)
        launch_plainly(backend);
    return ORR_OK;
}

/* --- nodes --- */

bool orr__cuda_graph_replays(const struct cuda_backend *backend) {
    return backend->launch.mode == CUDA_LAUNCH_REPLAY;
}

bool orr__cuda_graph_captures(const struct cuda_backend *backend) {
    return backend->launch.mode == CUDA_LAUNCH_CAPTURE;
}

bool orr__cuda_graph_is_whole(const struct cuda_backend *backend) {
    return orr__cuda_graph_replays(backend) || orr__cuda_graph_captures(backend);
}

cudaEvent_t orr__cuda_graph_awaited(struct cuda_backend *backend, const struct cuda_wait *wait) {
    const struct cuda_launch *launch = launch_of(backend);
    const struct cuda_lane *lane = lane_of(launch->graph, wait->stream);
    if (!lane || wait->seq <= lane->base)
        return launch->fork;
    const struct cuda_slot *slot = orr__cuda_slot(wait->stream, wait->seq);
    return slot->behind > lane->base ? orr__cuda_slot(wait->stream, slot->behind)->own
                                     : launch->fork;
}

void orr__cuda_graph_node(struct cuda_slot *slot, uint32_t member, bool works) {
    struct cuda_backend *backend = slot->stream->backend;
    struct cuda_launch *launch = launch_of(backend);
    const struct cuda_lane *lane = lane_of(launch->graph, slot->stream);
    uint32_t node = launch->next + member;
    assert(lane && node < launch->graph->node_count);
    assert(launch->graph->nodes[node] == slot->stream->id);
    slot->covered = lane->base + lane->count;
    if (!works)
        return;
    slot->end = launch->recording->ends[node];
    slot->fault = &launch->recording->faults[node];
}

enum orr_status orr__cuda_graph_enter(struct cuda_slot *slot, struct orr_error *error) {
    struct cuda_stream *stream = slot->stream;
    struct cuda_launch *launch = launch_of(stream->backend);
    if (stream == launch->origin ||
        slot->command.record.seq != lane_of(launch->graph, stream)->base + 1)
        return ORR_OK;
    enum orr_status status = orr__cuda_use(stream->backend, stream->device->gpu, error);
    if (status != ORR_OK)
        return status;
    return call(stream->backend,
                stream->backend->api->rt.cudaStreamWaitEvent(stream->queue.stream, launch->fork, 0),
                "cudaStreamWaitEvent", error);
}

enum orr_status orr__cuda_graph_record(struct cuda_slot *slot, struct orr_error *error) {
    struct cuda_backend *backend = slot->stream->backend;
    if (!slot->end)
        return ORR_OK;
    return call(backend,
                backend->api->rt.cudaEventRecordWithFlags(slot->end, slot->stream->queue.stream,
                                                          cudaEventRecordExternal),
                "cudaEventRecordWithFlags", error);
}

void orr__cuda_graph_submitted(struct cuda_slot *slot, bool on_host) {
    struct cuda_backend *backend = slot->stream->backend;
    struct cuda_launch *launch = launch_of(backend);
    struct cuda_graph *graph = launch->graph;
    if (launch->mode == CUDA_LAUNCH_NONE)
        return;
    launch->next++;
    if (launch->mode != CUDA_LAUNCH_PLAIN || graph->launches > 0)
        return;
    if (on_host || !learn(backend, graph, slot->stream))
        graph->plain = true;
}

/* --- the end of a launch --- */

/* Lanes whose nodes come last join the origin, or the capture could not end. */
static enum orr_status join_lanes(struct cuda_backend *backend, struct orr_error *error) {
    struct cuda_launch *launch = launch_of(backend);
    enum orr_status status = ORR_OK;
    for (size_t i = 0; status == ORR_OK && i < launch->graph->lane_count; i++) {
        const struct cuda_lane *lane = &launch->graph->lanes[i];
        struct cuda_stream *stream = backend->streams[lane->stream];
        if (stream == launch->origin)
            continue;
        const struct cuda_wait last = {stream, lane->base + lane->count};
        cudaEvent_t event = orr__cuda_graph_awaited(backend, &last);
        status = call(backend,
                      backend->api->rt.cudaStreamWaitEvent(launch->origin->queue.stream, event, 0),
                      "cudaStreamWaitEvent", error);
    }
    return status;
}

static enum orr_status capture_end(struct cuda_backend *backend, struct orr_error *error) {
    struct cuda_launch *launch = launch_of(backend);
    const struct orr__cuda_runtime_table *rt = &backend->api->rt;
    cudaStream_t origin = launch->origin->queue.stream;
    cudaGraph_t captured = NULL;
    enum orr_status joined = join_lanes(backend, error);
    enum orr_status status =
        call(backend, rt->cudaStreamEndCapture(origin, &captured), "cudaStreamEndCapture",
             joined == ORR_OK ? error : &(struct orr_error){0});
    if (joined != ORR_OK)
        status = joined;
    if (status == ORR_OK)
        status = call(backend, rt->cudaGraphInstantiate(&launch->recording->exec, captured, 0),
                      "cudaGraphInstantiate", error);
    if (status != ORR_OK)
        launch->recording->exec = NULL;
    else
        status = call(backend, rt->cudaGraphUpload(launch->recording->exec, origin),
                      "cudaGraphUpload", error);
    if (captured)
        (void)rt->cudaGraphDestroy(captured);
    return status;
}

/* Events that nodes were captured with mean nothing outside of the capture. */
static void give_captured_events(struct cuda_backend *backend) {
    const struct cuda_graph *graph = launch_of(backend)->graph;
    for (size_t i = 0; i < graph->lane_count; i++) {
        struct cuda_stream *stream = backend->streams[graph->lanes[i].stream];
        for (uint64_t k = 0; k < stream->submitted - graph->lanes[i].base; k++)
            orr__cuda_event_give(stream->device->gpu,
                                 &orr__cuda_slot(stream, graph->lanes[i].base + k + 1)->own);
    }
}

/* The lanes go on behind the graph; the last command of each sees when it is done. */
static enum orr_status release_lanes(struct cuda_backend *backend, cudaEvent_t over,
                                     struct orr_error *error) {
    struct cuda_launch *launch = launch_of(backend);
    const struct orr__cuda_runtime_table *rt = &backend->api->rt;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; status == ORR_OK && i < launch->graph->lane_count; i++) {
        const struct cuda_lane *lane = &launch->graph->lanes[i];
        struct cuda_stream *stream = backend->streams[lane->stream];
        struct cuda_slot *last = orr__cuda_slot(stream, lane->base + lane->count);
        status = orr__cuda_event_take(backend, stream->device->gpu, &last->own, error);
        if (status == ORR_OK)
            status = orr__cuda_use(backend, stream->device->gpu, error);
        if (status == ORR_OK && stream != launch->origin)
            status = call(backend, rt->cudaStreamWaitEvent(stream->queue.stream, over, 0),
                          "cudaStreamWaitEvent", error);
        if (status == ORR_OK)
            status = call(backend, rt->cudaEventRecord(last->own, stream->queue.stream),
                          "cudaEventRecord", error);
        last->recording = launch->recording;
        launch->recording->in_flight++;
    }
    return status;
}

/* Not before the capture has ended: a clock that is compared anew queries events. */
static void stamp_nodes(struct cuda_backend *backend) {
    const struct cuda_graph *graph = launch_of(backend)->graph;
    for (size_t i = 0; i < graph->lane_count; i++) {
        struct cuda_stream *stream = backend->streams[graph->lanes[i].stream];
        for (uint32_t k = 0; k < graph->lanes[i].count; k++) {
            struct cuda_slot *slot = orr__cuda_slot(stream, graph->lanes[i].base + k + 1);
            if (slot->end)
                orr__cuda_times_replayed(backend->times, &slot->stamp, stream->device->gpu->index);
        }
    }
}

static enum orr_status graph_launch(struct cuda_backend *backend, struct orr_error *error) {
    struct cuda_launch *launch = launch_of(backend);
    cudaStream_t origin = launch->origin->queue.stream;
    cudaEvent_t over;
    enum orr_status status =
        orr__cuda_event_take(backend, launch->origin->device->gpu, &over, error);
    if (status == ORR_OK)
        status = orr__cuda_use(backend, launch->origin->device->gpu, error);
    if (status == ORR_OK)
        status = call(backend, backend->api->rt.cudaGraphLaunch(launch->recording->exec, origin),
                      "cudaGraphLaunch", error);
    if (status == ORR_OK)
        status =
            call(backend, backend->api->rt.cudaEventRecord(over, origin), "cudaEventRecord", error);
    if (status == ORR_OK)
        status = release_lanes(backend, over, error);
    orr__cuda_event_give(launch->origin->device->gpu, &over);
    return status;
}

static void set_behind(struct cuda_backend *backend) {
    const struct cuda_graph *graph = launch_of(backend)->graph;
    for (size_t i = 0; i < graph->lane_count; i++) {
        struct cuda_stream *stream = backend->streams[graph->lanes[i].stream];
        uint64_t last = stream->submitted; /* of the launch, or of what there is of it */
        for (uint64_t seq = graph->lanes[i].base + 1; seq <= last; seq++)
            orr__cuda_slot(stream, seq)->behind = last;
        stream->behind = last;
    }
}

/* What could not be launched ends as failed; what got into the streams is let run dry. */
static void launch_abandon(struct cuda_backend *backend, const struct orr_error *cause) {
    struct cuda_graph *graph = launch_of(backend)->graph;
    graph->plain = true;
    backend->blamed |= orr__cuda_check_lost(backend, cause);
    for (size_t i = 0; i < graph->lane_count; i++) {
        const struct cuda_lane *lane = &graph->lanes[i];
        struct cuda_stream *stream = backend->streams[lane->stream];
        if (stream->submitted == lane->base)
            continue;
        orr__cuda_fail(orr__cuda_slot(stream, lane->base + 1), cause);
        if (!backend->lost)
            orr__cuda_quiet(stream);
        for (uint64_t k = 0; k < stream->submitted - lane->base; k++) {
            struct cuda_slot *slot = orr__cuda_slot(stream, lane->base + k + 1);
            slot->covered = 0;
            slot->end = NULL;
            orr__cuda_event_give(stream->device->gpu, &slot->own);
        }
    }
}

void orr__cuda_graph_interrupt(struct cuda_backend *backend) {
    struct cuda_launch *launch = launch_of(backend);
    struct orr_error cause = {0};
    cudaGraph_t captured = NULL;
    if (!orr__cuda_graph_is_whole(backend))
        return;
    (void)orr_error_set(&cause, ORR_DEVICE_FAILED,
                        "the launch of a program was left before it was complete");
    if (launch->captures) {
        (void)backend->api->rt.cudaStreamEndCapture(launch->origin->queue.stream, &captured);
        if (captured)
            (void)backend->api->rt.cudaGraphDestroy(captured);
        give_captured_events(backend);
        orr__cuda_recording_clear(backend, launch->graph, launch->recording);
    }
    set_behind(backend);
    launch_abandon(backend, &cause);
    launch_drop(backend);
}

enum orr_status orr__cuda_graph_end(struct orr_backend *base, uint32_t id,
                                    struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    struct cuda_launch *launch = launch_of(backend);
    struct orr_error cause = launch->cause;
    (void)error;
    if (!launch->graph || launch->graph != orr__cuda_graph_find(backend, id))
        return ORR_OK; /* it was interrupted */
    launch->graph->launches++;
    if (launch->mode == CUDA_LAUNCH_PLAIN) {
        launch_drop(backend);
        return ORR_OK;
    }
    enum orr_status status = cause.status;
    if (launch->mode == CUDA_LAUNCH_CAPTURE) {
        struct orr_error late = {0};
        enum orr_status ended = capture_end(backend, &late);
        give_captured_events(backend);
        if (status == ORR_OK && ended != ORR_OK) {
            status = ended;
            cause = late;
        }
    }
    set_behind(backend);
    stamp_nodes(backend);
    if (status == ORR_OK)
        status = graph_launch(backend, &cause);
    if (status != ORR_OK)
        launch_abandon(backend, &cause);
    launch_drop(backend);
    return ORR_OK;
}
