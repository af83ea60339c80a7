/* Captures: what is enqueued in a stream becomes a node of a graph instead of a work.
 *
 *     origin:  [a] --- [b] -------- [d]      record behind a, wait in the other stream: it joins
 *                 \               /          record behind c, wait in the origin: it is joined
 *     other:       --- [c] ------            "frontier": what the stream's next node comes after
 *
 * Whatever is not allowed makes the capture invalid: its streams answer
 * cudaErrorStreamCaptureInvalidated until the origin ends it, which then says the same. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum { NODES_MAX = 1 << 20, BRANCHES_MAX = 1 << 10 };

static void node_free(struct orr_fake_cuda *fake, struct orr__fake_node *node) {
    orr_memory_free(fake->memory, (void *)node->task.argument);
    orr_memory_free(fake->memory, node->after);
    orr_memory_free(fake->memory, node);
}

void orr__fake_nodes_release(struct orr_fake_cuda *fake, struct orr__fake_nodes **nodes) {
    struct orr__fake_nodes *released = *nodes;
    *nodes = NULL;
    if (!released || --released->references > 0) {
        return;
    }
    for (size_t i = 0; i < released->count; i++) {
        node_free(fake, released->items[i]);
    }
    orr_memory_free(fake->memory, released->items);
    orr_memory_free(fake->memory, released->devices);
    orr_memory_free(fake->memory, released);
}

static void graph_free(struct orr_fake_cuda *fake, struct orr__fake_graph *graph) {
    orr__fake_nodes_release(fake, &graph->nodes);
    orr_memory_free(fake->memory, graph);
}

/* A copy of `bytes`; NULL if there are none, or no memory. */
static void *copy_of(struct orr_fake_cuda *fake, const void *from, size_t bytes) {
    void *copy = bytes > 0 ? orr_memory_alloc(fake->memory, bytes) : NULL;
    if (copy) {
        memcpy(copy, from, bytes);
    }
    return copy;
}

static bool frontier_room(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                          size_t count) {
    return orr_memory_grow(fake->memory, &stream->frontier, &stream->frontier_capacity, count,
                           sizeof *stream->frontier, NODES_MAX) == ORR_OK;
}

static struct orr__fake_node *node_make(struct orr_fake_cuda *fake,
                                        const struct orr__fake_stream *stream,
                                        const struct orr__fake_task *task) {
    struct orr__fake_node *node = orr_memory_alloc(fake->memory, sizeof *node);
    if (!node) {
        return NULL;
    }
    node->task = *task;
    node->task.argument = copy_of(fake, task->argument, task->argument_bytes);
    node->branch = stream->branch;
    node->after_count = (uint32_t)stream->frontier_count;
    node->after = copy_of(fake, stream->frontier, stream->frontier_count * sizeof *node->after);
    if ((task->argument_bytes > 0 && !node->task.argument) ||
        (node->after_count > 0 && !node->after)) {
        node_free(fake, node);
        return NULL;
    }
    return node;
}

cudaError_t orr__fake_capture_task(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                   const struct orr__fake_task *task,
                                   struct orr__fake_event *event) {
    if (stream->capture->invalid) {
        return cudaErrorStreamCaptureInvalidated;
    }
    struct orr__fake_nodes *nodes = stream->capture->graph->nodes;
    if (!frontier_room(fake, stream, 1) ||
        orr_memory_grow(fake->memory, &nodes->items, &nodes->capacity, nodes->count + 1,
                        sizeof *nodes->items, NODES_MAX) != ORR_OK) {
        return cudaErrorMemoryAllocation;
    }
    struct orr__fake_node *node = node_make(fake, stream, task);
    if (!node) {
        return cudaErrorMemoryAllocation;
    }
    node->event = event;
    node->event_alive = event ? event->alive : 0;
    nodes->items[nodes->count] = node;
    stream->frontier[0] = (uint32_t)nodes->count++;
    stream->frontier_count = 1;
    return cudaSuccess;
}

struct orr__fake_capture *orr__fake_capture_find(struct orr_fake_cuda *fake, uint64_t id) {
    struct orr__fake_capture *capture = fake->captures;
    while (capture && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

cudaError_t orr__fake_capture_invalidate(struct orr_fake_cuda *fake,
                                         struct orr__fake_capture *capture, cudaError_t code) {
    (void)fake;
    bool already = capture->invalid;
    capture->invalid = true;
    return already ? cudaErrorStreamCaptureInvalidated : code;
}

cudaError_t orr__fake_capture_forbids(struct orr_fake_cuda *fake) {
    cudaError_t code = cudaSuccess;
    for (struct orr__fake_capture *c = fake->captures; c; c = c->next) {
        if (c->mode != cudaStreamCaptureModeRelaxed) {
            c->invalid = true;
            code = cudaErrorStreamCaptureUnsupported;
        }
    }
    return code;
}

cudaError_t orr__fake_capture_touched(struct orr_fake_cuda *fake, struct orr__fake_event *event) {
    struct orr__fake_capture *capture = orr__fake_capture_find(fake, event->capture);
    if (capture) {
        capture->invalid = true;
    }
    return cudaErrorCapturedEvent;
}

/* The stream becomes a branch of the capture, with an empty frontier. */
static cudaError_t enter(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                         struct orr__fake_capture *capture) {
    struct orr__fake_nodes *nodes = capture->graph->nodes;
    if (orr_memory_grow(fake->memory, &nodes->devices, &nodes->branch_capacity,
                        nodes->branch_count + 1, sizeof *nodes->devices, BRANCHES_MAX) != ORR_OK) {
        return cudaErrorMemoryAllocation;
    }
    stream->branch = (uint32_t)nodes->branch_count;
    nodes->devices[nodes->branch_count++] = stream->device;
    stream->capture = capture;
    stream->frontier_count = 0;
    return cudaSuccess;
}

static bool in_frontier(const struct orr__fake_stream *stream, uint32_t node) {
    for (size_t i = 0; i < stream->frontier_count; i++) {
        if (stream->frontier[i] == node) {
            return true;
        }
    }
    return false;
}

cudaError_t orr__fake_capture_join(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                   struct orr__fake_capture *capture, const uint32_t *frontier,
                                   size_t count) {
    if (!capture) {
        return orr__fake_capture_invalidate(fake, stream->capture, cudaErrorStreamCaptureIsolation);
    }
    if (capture->invalid || (stream->capture && stream->capture->invalid)) {
        return cudaErrorStreamCaptureInvalidated;
    }
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = capture->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    size_t before = stream->capture ? stream->frontier_count : 0;
    if (!frontier_room(fake, stream, before + count)) {
        return cudaErrorMemoryAllocation;
    }
    cudaError_t code = stream->capture ? cudaSuccess : enter(fake, stream, capture);
    for (size_t i = 0; i < count && code == cudaSuccess; i++) {
        if (!in_frontier(stream, frontier[i])) {
            stream->frontier[stream->frontier_count++] = frontier[i];
        }
    }
    return code;
}

/* Its streams are ordinary ones again; its graph is the caller's. */
static struct orr__fake_graph *finish(struct orr_fake_cuda *fake,
                                      struct orr__fake_capture *capture) {
    for (struct orr__fake_stream *s = fake->streams; s; s = s->next) {
        if (s->capture == capture) {
            s->capture = NULL;
            s->frontier_count = 0;
        }
    }
    struct orr__fake_capture **at = &fake->captures;
    while (*at != capture) {
        at = &(*at)->next;
    }
    *at = capture->next;
    struct orr__fake_graph *graph = capture->graph;
    orr_memory_free(fake->memory, capture);
    return graph;
}

void orr__fake_capture_abandon(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    struct orr__fake_capture *capture = stream->capture;
    if (!capture) {
        return;
    }
    if (capture->origin == stream) {
        graph_free(fake, finish(fake, capture));
    } else {
        capture->invalid = true;
        stream->capture = NULL;
    }
}

static struct orr__fake_graph *graph_make(struct orr_fake_cuda *fake) {
    struct orr__fake_graph *graph = orr_memory_alloc(fake->memory, sizeof *graph);
    if (!graph) {
        return NULL;
    }
    graph->nodes = orr_memory_alloc(fake->memory, sizeof *graph->nodes);
    if (!graph->nodes) {
        orr_memory_free(fake->memory, graph);
        return NULL;
    }
    graph->nodes->references = 1;
    return graph;
}

static cudaError_t begin(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                         enum cudaStreamCaptureMode mode) {
    struct orr__fake_capture *capture = orr_memory_alloc(fake->memory, sizeof *capture);
    struct orr__fake_graph *graph = capture ? graph_make(fake) : NULL;
    if (!graph) {
        orr_memory_free(fake->memory, capture);
        return cudaErrorMemoryAllocation;
    }
    *capture = (struct orr__fake_capture){.next = fake->captures,
                                          .id = ++fake->captures_made,
                                          .origin = stream,
                                          .mode = mode,
                                          .graph = graph};
    cudaError_t code = enter(fake, stream, capture);
    if (code != cudaSuccess) {
        graph_free(fake, graph);
        orr_memory_free(fake->memory, capture);
        return code;
    }
    fake->captures = capture;
    return cudaSuccess;
}

static bool is_legacy(cudaStream_t handle) {
    return handle == NULL || handle == cudaStreamLegacy;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    ORR__FAKE_ENTER(cudaError_t, cudaStreamBeginCapture);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    if (!stream) {
        return orr__fake_leave(fake, is_legacy(handle) ? cudaErrorStreamCaptureUnsupported
                                                       : cudaErrorInvalidResourceHandle);
    }
    if (stream->capture) {
        return orr__fake_leave(fake, cudaErrorIllegalState);
    }
    return orr__fake_leave(fake, begin(fake, stream, mode));
}

/* Marks what the origin's front comes after, itself included. Nodes come after smaller ones. */
static void mark_joined(const struct orr__fake_nodes *nodes, const struct orr__fake_stream *origin,
                        bool *joined) {
    for (size_t i = 0; i < origin->frontier_count; i++) {
        joined[origin->frontier[i]] = true;
    }
    for (size_t i = nodes->count; i-- > 0;) {
        for (uint32_t k = 0; joined[i] && k < nodes->items[i]->after_count; k++) {
            joined[nodes->items[i]->after[k]] = true;
        }
    }
}

/* All that was captured comes before the origin's end. */
static cudaError_t check_joined(struct orr_fake_cuda *fake,
                                const struct orr__fake_capture *capture) {
    const struct orr__fake_nodes *nodes = capture->graph->nodes;
    bool *joined = orr_memory_alloc(fake->memory, nodes->count);
    if (!joined) {
        return cudaErrorMemoryAllocation;
    }
    mark_joined(nodes, capture->origin, joined);
    bool all = true;
    for (size_t i = 0; i < nodes->count; i++) {
        all = all && joined[i];
    }
    orr_memory_free(fake->memory, joined);
    return all ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

static cudaError_t end(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                       struct orr__fake_graph **out_graph) {
    struct orr__fake_capture *capture = stream->capture;
    if (!capture) {
        return cudaErrorIllegalState;
    }
    if (capture->origin != stream) {
        return orr__fake_capture_invalidate(fake, capture, cudaErrorStreamCaptureUnmatched);
    }
    cudaError_t code =
        capture->invalid ? cudaErrorStreamCaptureInvalidated : check_joined(fake, capture);
    struct orr__fake_graph *graph = finish(fake, capture);
    if (code == cudaSuccess) {
        *out_graph = graph;
    } else {
        graph_free(fake, graph);
    }
    return code;
}

/* The capture ends also if the call fails by plan: its streams would be of no use ever after. */
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out_graph) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaStreamEndCapture, &fake);
    struct orr__fake_stream *stream = fake ? orr__fake_stream_find(fake, handle) : NULL;
    if (out_graph) {
        *out_graph = NULL;
    }
    if (fault) {
        if (stream) {
            orr__fake_capture_abandon(fake, stream);
        }
        return (cudaError_t)fault;
    }
    if (!stream || !out_graph) {
        return orr__fake_leave(fake,
                               stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    }
    struct orr__fake_graph *graph = NULL;
    cudaError_t code = end(fake, stream, &graph);
    if (graph) {
        graph->next = fake->graphs;
        fake->graphs = graph;
        fake->census.graphs++;
    }
    *out_graph = (cudaGraph_t)graph;
    return orr__fake_leave(fake, code);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *out_status) {
    ORR__FAKE_ENTER(cudaError_t, cudaStreamIsCapturing);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    if (!stream || !out_status) {
        return orr__fake_leave(fake,
                               stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    }
    *out_status = !stream->capture           ? cudaStreamCaptureStatusNone
                  : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                             : cudaStreamCaptureStatusActive;
    return orr__fake_leave(fake, cudaSuccess);
}

static struct orr__fake_graph **find(struct orr_fake_cuda *fake, cudaGraph_t handle) {
    struct orr__fake_graph **at = &fake->graphs;
    while (*at && (cudaGraph_t)*at != handle) {
        at = &(*at)->next;
    }
    return at;
}

struct orr__fake_graph *orr__fake_graph_find(struct orr_fake_cuda *fake, cudaGraph_t handle) {
    return handle ? *find(fake, handle) : NULL;
}

void orr__fake_graph_free(struct orr_fake_cuda *fake, struct orr__fake_graph *graph) {
    *find(fake, (cudaGraph_t)graph) = graph->next;
    graph_free(fake, graph);
}
