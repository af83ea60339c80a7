#include "analyzer/graph_replays.h"

#include "analyzer/sort.h"

/* An op of a graph launch. */
struct node {
    uint64_t graph;
    uint32_t call;
};

static bool node_before(const void *context, uint32_t a, uint32_t b) {
    const struct node *nodes = context;
    return nodes[a].graph != nodes[b].graph ? nodes[a].graph < nodes[b].graph
                                            : nodes[a].call < nodes[b].call;
}

static size_t end_of_call(const struct node *nodes, const uint32_t *order, size_t count,
                          size_t begin) {
    size_t end = begin;
    while (end < count && nodes[order[end]].graph == nodes[order[begin]].graph &&
           nodes[order[end]].call == nodes[order[begin]].call) {
        end++;
    }
    return end;
}

/* order[begin .. end) are the nodes of one graph, by call. */
static void compare_launches(const struct orr_events *events, const struct node *nodes,
                             const uint32_t *order, size_t begin, size_t end,
                             struct orr_graph_replays *replays) {
    size_t most = 0;
    for (size_t i = begin, next; i < end; i = next) {
        next = end_of_call(nodes, order, end, i);
        most = next - i > most ? next - i : most;
    }
    for (size_t i = begin, next; i < end; i = next) {
        next = end_of_call(nodes, order, end, i);
        if (next - i == most) {
            continue;
        }
        uint64_t missing = most - (next - i);
        replays->short_ones++;
        replays->missing_most = missing > replays->missing_most ? missing : replays->missing_most;
        replays->first_short =
            orr__events_earlier_call(events, replays->first_short, nodes[order[i]].call);
    }
}

static enum orr_status compare_graphs(const struct orr_events *events, const struct node *nodes,
                                      size_t count, const struct orr_memory *memory,
                                      struct orr_graph_replays *replays) {
    uint32_t *order = orr_memory_resize(memory, NULL, count * sizeof *order);
    if (!order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    enum orr_status status = orr__sort_indices(memory, order, count, node_before, nodes);
    for (size_t begin = 0, end; begin < count && status == ORR_OK; begin = end) {
        for (end = begin; end < count && nodes[order[end]].graph == nodes[order[begin]].graph;
             end++) {
        }
        compare_launches(events, nodes, order, begin, end, replays);
    }
    orr_memory_free(memory, order);
    return status;
}

static void count_launches(const struct orr_events *events, struct orr_graph_replays *replays) {
    for (size_t c = 0; c < events->call_count; c++) {
        const struct orr_events_call *call = &events->calls[c];
        if (!(call->flags & ORR_CALL_GRAPH)) {
            continue;
        }
        replays->launches++;
        if (call->op_count == 0) {
            replays->without_ops++;
            replays->first_without =
                orr__events_earlier_call(events, replays->first_without, (uint32_t)c);
        }
    }
}

enum orr_status orr_graph_replays_compute(const struct orr_events *events,
                                          const struct orr_timeline *timeline,
                                          const struct orr_memory *memory,
                                          struct orr_graph_replays *out_replays) {
    *out_replays = (struct orr_graph_replays){.first_without = ORR_EVENTS_NONE,
                                              .first_short = ORR_EVENTS_NONE};
    count_launches(events, out_replays);
    if (out_replays->launches == 0) {
        return ORR_OK;
    }
    struct node *nodes = NULL;
    size_t count = 0, capacity = 0;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (!orr_events_linked(op) || !(events->calls[op->call].flags & ORR_CALL_GRAPH)) {
            continue;
        }
        uint64_t graph = timeline ? timeline->commands[op->command].graph : 0;
        if (graph == 0) {
            out_replays->unknown_graphs = true;
            continue;
        }
        status = orr_memory_grow(memory, &nodes, &capacity, count + 1, sizeof *nodes,
                                 ORR_EVENTS_NONE - 1);
        if (status == ORR_OK) {
            nodes[count++] = (struct node){graph, op->call};
        }
    }
    if (status == ORR_OK) {
        status = compare_graphs(events, nodes, count, memory, out_replays);
    }
    orr_memory_free(memory, nodes);
    return status;
}
