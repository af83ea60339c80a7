/* Graphs by their programs, and what each recording of one holds. */
#include <string.h>

#include "runtime/cuda/cuda_internal.h"

void orr__cuda_recording_clear(struct cuda_backend *backend, struct cuda_graph *graph,
                               struct cuda_recording *recording) {
    for (uint32_t i = 0; recording->ends && i < graph->node_count; i++)
        orr__cuda_event_give(backend->streams[graph->nodes[i]]->device->gpu, &recording->ends[i]);
    orr_memory_free(backend->memory, recording->ends);
    if (recording->faults)
        (void)backend->api->rt.cudaFreeHost(recording->faults);
    if (recording->exec)
        (void)backend->api->rt.cudaGraphExecDestroy(recording->exec);
    *recording = (struct cuda_recording){0};
}

enum orr_status orr__cuda_recording_open(struct cuda_backend *backend,
                                         const struct cuda_graph *graph,
                                         struct cuda_recording *recording,
                                         struct orr_error *error) {
    void *faults = NULL;
    size_t fault_bytes = graph->node_count * sizeof *recording->faults;
    enum orr_status status =
        orr__cuda_check(backend->api, backend->api->rt.cudaMallocHost(&faults, fault_bytes),
                        "cudaMallocHost", error);
    if (status != ORR_OK)
        return status;
    memset(faults, 0, fault_bytes);
    recording->faults = faults;
    recording->ends =
        orr_memory_alloc(backend->memory, graph->node_count * sizeof *recording->ends);
    if (!recording->ends)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for a graph of %u nodes",
                             graph->node_count);
    for (uint32_t i = 0; status == ORR_OK && i < graph->node_count; i++)
        status = orr__cuda_event_take(backend, backend->streams[graph->nodes[i]]->device->gpu,
                                      &recording->ends[i], error);
    return status;
}

struct cuda_graph *orr__cuda_graph_find(struct cuda_backend *backend, uint32_t id) {
    return id < backend->graph_capacity ? backend->graphs[id] : NULL;
}

struct cuda_graph *orr__cuda_graph_get(struct cuda_backend *backend, uint32_t id) {
    if (orr_memory_grow(backend->memory, &backend->graphs, &backend->graph_capacity, (size_t)id + 1,
                        sizeof(struct cuda_graph *), CUDA_GRAPHS_MAX) != ORR_OK)
        return NULL;
    if (!backend->graphs[id])
        backend->graphs[id] = orr_memory_alloc(backend->memory, sizeof *backend->graphs[id]);
    return backend->graphs[id];
}

static void graph_free(struct cuda_backend *backend, struct cuda_graph *graph) {
    for (int i = 0; i < CUDA_RECORDINGS_MAX; i++)
        orr__cuda_recording_clear(backend, graph, &graph->recordings[i]);
    orr_memory_free(backend->memory, graph->nodes);
    orr_memory_free(backend->memory, graph->lanes);
    orr_memory_free(backend->memory, graph);
}

void orr__cuda_graph_forget(struct orr_backend *base, uint32_t id) {
    struct cuda_backend *backend = orr__cuda(base);
    struct cuda_graph *graph = orr__cuda_graph_find(backend, id);
    if (!graph)
        return;
    graph_free(backend, graph);
    backend->graphs[id] = NULL;
}

void orr__cuda_graphs_close(struct cuda_backend *backend) {
    for (size_t i = 0; i < backend->graph_capacity; i++)
        if (backend->graphs[i])
            graph_free(backend, backend->graphs[i]);
    orr_memory_free(backend->memory, backend->graphs);
}
