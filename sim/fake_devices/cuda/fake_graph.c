/* Graphs: nodes, instances, launches.
 *
 * An instance has a stream of its own for each stream of the capture. A launch puts the nodes into
 * them in some order that their dependencies allow, drawn by the seed; each waits for the works of
 * the nodes that it comes after, so that what the capture did not order is not ordered here:
 *
 *     launching stream   [begin] ................ [end, waits for all that nothing comes after]
 *     branch 0                 [a]-->[b] ... [d]
 *     branch 1                       [c]                                                        */
#include "runtime/splitmix.h"
#include "sim/fake_devices/cuda/fake_internal.h"

struct orr__fake_exec {
    struct orr__fake_exec *next;
    struct orr__fake_nodes *nodes;
    struct orr__fake_stream **branches;
    struct orr__fake_work *end; /* of the last launch: launches of an instance don't overlap */
    /* By node: where the list of what comes after it begins in `later`; one more at the end. */
    uint32_t *later_begin, *later;
    /* Used by a launch. */
    struct orr__fake_work **works, **waits; /* by node; a list of them and the begin */
    uint32_t *order, *pending;              /* order: nodes placed, then those that can come next */
};

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count) {
    ORR__FAKE_ENTER(cudaError_t, cudaGraphGetNodes);
    const struct orr__fake_graph *graph = orr__fake_graph_find(fake, handle);
    if (!graph || !count) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    for (size_t i = 0; nodes && i < *count; i++) {
        bool there = i < graph->nodes->count;
        nodes[i] = there ? (cudaGraphNode_t)graph->nodes->items[i] : NULL;
    }
    *count = nodes && *count < graph->nodes->count ? *count : graph->nodes->count;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaGraphDestroy, &fake);
    struct orr__fake_graph *graph = fake ? orr__fake_graph_find(fake, handle) : NULL;
    if (graph) {
        orr__fake_graph_free(fake, graph);
        fake->census.graphs--;
    } else if (!fault) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, cudaSuccess);
}

static void exec_free(struct orr_fake_cuda *fake, struct orr__fake_exec *exec) {
    for (size_t i = 0; exec->branches && i < exec->nodes->branch_count; i++) {
        if (exec->branches[i]) {
            orr__fake_stream_end(fake, exec->branches[i]);
        }
    }
    orr__fake_work_release(fake, &exec->end);
    orr__fake_nodes_release(fake, &exec->nodes);
    orr_memory_free(fake->memory, exec->branches);
    orr_memory_free(fake->memory, exec->works);
    orr_memory_free(fake->memory, exec->waits);
    orr_memory_free(fake->memory, exec->later_begin);
    orr_memory_free(fake->memory, exec->later);
    orr_memory_free(fake->memory, exec->order);
    orr_memory_free(fake->memory, exec->pending);
    orr_memory_free(fake->memory, exec);
}

static void link_nodes(struct orr__fake_exec *exec) {
    const struct orr__fake_nodes *nodes = exec->nodes;
    for (size_t i = 0; i < nodes->count; i++) {
        for (uint32_t k = 0; k < nodes->items[i]->after_count; k++) {
            exec->later_begin[nodes->items[i]->after[k]]++;
        }
    }
    /* Each list's end first; filling it from behind makes it the beginning. */
    for (size_t i = 0; i < nodes->count; i++) {
        exec->later_begin[i + 1] += exec->later_begin[i];
    }
    for (size_t i = nodes->count; i-- > 0;) {
        for (uint32_t k = 0; k < nodes->items[i]->after_count; k++) {
            exec->later[--exec->later_begin[nodes->items[i]->after[k]]] = (uint32_t)i;
        }
    }
}

static bool exec_fill(struct orr_fake_cuda *fake, struct orr__fake_exec *exec) {
    size_t count = exec->nodes->count, branches = exec->nodes->branch_count, edges = 0;
    for (size_t i = 0; i < count; i++) {
        edges += exec->nodes->items[i]->after_count;
    }
    exec->works = orr_memory_alloc(fake->memory, count * sizeof *exec->works);
    exec->waits = orr_memory_alloc(fake->memory, (count + 1) * sizeof *exec->waits);
    exec->order = orr_memory_alloc(fake->memory, count * sizeof *exec->order);
    exec->pending = orr_memory_alloc(fake->memory, count * sizeof *exec->pending);
    exec->later_begin = orr_memory_alloc(fake->memory, (count + 1) * sizeof *exec->later_begin);
    exec->later = orr_memory_alloc(fake->memory, edges * sizeof *exec->later);
    exec->branches = orr_memory_alloc(fake->memory, branches * sizeof(struct orr__fake_stream *));
    if (!exec->works || !exec->waits || !exec->order || !exec->pending || !exec->later_begin ||
        !exec->later || !exec->branches) {
        return false;
    }
    link_nodes(exec);
    for (size_t i = 0; i < branches; i++) {
        if (orr__fake_stream_make(fake, exec->nodes->devices[i], 0, &exec->branches[i]) !=
            cudaSuccess) {
            return false;
        }
        exec->branches[i]->hidden = true;
    }
    return true;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out_exec, cudaGraph_t handle,
                                 unsigned long long flags) {
    ORR__FAKE_ENTER(cudaError_t, cudaGraphInstantiate);
    struct orr__fake_graph *graph = orr__fake_graph_find(fake, handle);
    if (!graph || !out_exec || flags != 0) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    struct orr__fake_exec *exec = orr_memory_alloc(fake->memory, sizeof *exec);
    if (!exec) {
        return orr__fake_leave(fake, cudaErrorMemoryAllocation);
    }
    exec->nodes = graph->nodes;
    exec->nodes->references++;
    if (!exec_fill(fake, exec)) {
        exec_free(fake, exec);
        return orr__fake_leave(fake, cudaErrorMemoryAllocation);
    }
    exec->next = fake->execs;
    fake->execs = exec;
    fake->census.graphs++;
    *out_exec = (cudaGraphExec_t)exec;
    return orr__fake_leave(fake, cudaSuccess);
}

static struct orr__fake_exec **find(struct orr_fake_cuda *fake, cudaGraphExec_t handle) {
    struct orr__fake_exec **at = &fake->execs;
    while (*at && (cudaGraphExec_t)*at != handle) {
        at = &(*at)->next;
    }
    return at;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaGraphExecDestroy, &fake);
    struct orr__fake_exec **at = fake ? find(fake, handle) : NULL;
    if (at && *at) {
        struct orr__fake_exec *exec = *at;
        *at = exec->next;
        exec_free(fake, exec);
        fake->census.graphs--;
    } else if (!fault) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, cudaSuccess);
}

void orr__fake_graphs_close(struct orr_fake_cuda *fake) {
    while (fake->execs) {
        struct orr__fake_exec *exec = fake->execs;
        fake->execs = exec->next;
        exec_free(fake, exec);
    }
    while (fake->graphs) {
        orr__fake_graph_free(fake, fake->graphs);
    }
}

static struct orr__fake_stream *stream_for(struct orr_fake_cuda *fake, cudaGraphExec_t handle,
                                           cudaStream_t stream_handle, cudaError_t *out_code) {
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, stream_handle);
    *out_code = !*find(fake, handle) ? cudaErrorInvalidValue
                : !stream            ? cudaErrorInvalidResourceHandle
                                     : cudaSuccess;
    /* A graph within a graph is not among what the fake knows. */
    if (*out_code == cudaSuccess && stream->capture) {
        *out_code =
            orr__fake_capture_invalidate(fake, stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    return stream;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    ORR__FAKE_ENTER(cudaError_t, cudaGraphUpload);
    cudaError_t code;
    (void)stream_for(fake, exec, stream, &code);
    return orr__fake_leave(fake, code);
}

/* Of the nodes that could come next, each is drawn with the same chance. */
static void draw_order(struct orr_fake_cuda *fake, struct orr__fake_exec *exec) {
    uint32_t count = (uint32_t)exec->nodes->count, known = 0;
    for (uint32_t i = 0; i < count; i++) {
        exec->pending[i] = exec->nodes->items[i]->after_count;
        if (exec->pending[i] == 0) {
            exec->order[known++] = i;
        }
    }
    for (uint32_t at = 0; at < count; at++) {
        uint32_t drawn = at + (uint32_t)(orr_splitmix_next(&fake->random) % (known - at));
        uint32_t node = exec->order[drawn];
        exec->order[drawn] = exec->order[at];
        exec->order[at] = node;
        for (uint32_t k = exec->later_begin[node]; k < exec->later_begin[node + 1]; k++) {
            if (--exec->pending[exec->later[k]] == 0) {
                exec->order[known++] = exec->later[k];
            }
        }
    }
}

static cudaError_t launch_node(struct orr_fake_cuda *fake, struct orr__fake_exec *exec,
                               uint32_t index, struct orr__fake_work *begin) {
    const struct orr__fake_node *node = exec->nodes->items[index];
    exec->waits[0] = begin;
    for (uint32_t i = 0; i < node->after_count; i++) {
        exec->waits[1 + i] = exec->works[node->after[i]];
    }
    cudaError_t code =
        orr__fake_submit(fake, exec->branches[node->branch], &node->task, exec->waits,
                         1 + node->after_count, 1 + (uint64_t)index, &exec->works[index]);
    if (code == cudaSuccess && node->event) {
        orr__fake_event_set(fake, node->event, exec->works[index]);
    }
    return code;
}

/* The end waits for the nodes that nothing comes after. */
static uint32_t leaves(struct orr__fake_exec *exec) {
    uint32_t found = 0;
    for (size_t i = 0; i < exec->nodes->count; i++) {
        if (exec->later_begin[i] == exec->later_begin[i + 1]) {
            exec->waits[found++] = exec->works[i];
        }
    }
    return found;
}

static cudaError_t launch_nodes(struct orr_fake_cuda *fake, struct orr__fake_exec *exec,
                                struct orr__fake_stream *stream) {
    struct orr__fake_task edge = {.kind = ORR__FAKE_WAIT};
    struct orr__fake_work *begin;
    cudaError_t code =
        orr__fake_submit(fake, stream, &edge, &exec->end, exec->end ? 1 : 0, 0, &begin);
    if (code != cudaSuccess) {
        return code;
    }
    draw_order(fake, exec);
    for (size_t i = 0; i < exec->nodes->count && code == cudaSuccess; i++) {
        code = launch_node(fake, exec, exec->order[i], begin);
    }
    if (code == cudaSuccess) {
        orr__fake_work_release(fake, &exec->end);
        code = orr__fake_submit(fake, stream, &edge, exec->waits, leaves(exec), 0, &exec->end);
    }
    for (size_t i = 0; i < exec->nodes->count; i++) {
        orr__fake_work_release(fake, &exec->works[i]);
    }
    orr__fake_work_release(fake, &begin);
    return code;
}

static bool events_are_alive(const struct orr__fake_nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++) {
        const struct orr__fake_node *node = nodes->items[i];
        if (node->event && node->event->alive != node->event_alive) {
            return false;
        }
    }
    return true;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaGraphLaunch);
    cudaError_t code;
    struct orr__fake_stream *stream = stream_for(fake, handle, stream_handle, &code);
    if (code == cudaSuccess && !events_are_alive((*find(fake, handle))->nodes)) {
        code = cudaErrorInvalidResourceHandle;
    }
    if (code == cudaSuccess) {
        code = launch_nodes(fake, *find(fake, handle), stream);
    }
    return orr__fake_leave(fake, code);
}
