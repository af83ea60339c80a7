#include "trace/timeline_sort.h"

#include <string.h>

#include "trace/timeline_texts.h"

static int compare_edges(const void *a, const void *b) {
    const struct orr_timeline_edge *x = a, *y = b;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    return x->src == y->src ? 0 : x->src < y->src ? -1 : 1;
}

static int compare_accesses(const void *a, const void *b) {
    const struct orr_timeline_access *x = a, *y = b;
    return x->cmd == y->cmd ? 0 : x->cmd < y->cmd ? -1 : 1;
}

static int compare_collective_members(const void *a, const void *b) {
    const struct orr_timeline_collective_member *x = a, *y = b;
    if (x->collective != y->collective)
        return x->collective < y->collective ? -1 : 1;
    return x->rank == y->rank ? 0 : x->rank < y->rank ? -1 : 1;
}

static int compare_counters(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    int order = x->name == y->name ? 0 : strcmp(x->name, y->name);
    if (order != 0)
        return order;
    return x->ts_ns == y->ts_ns ? 0 : x->ts_ns < y->ts_ns ? -1 : 1;
}

enum orr_status orr__timeline_sort(struct orr_timeline *t, const struct orr_memory *memory) {
    enum orr_status status =
        orr__stable_sort(memory, t->edges, t->edge_count, sizeof *t->edges, compare_edges);
    if (status == ORR_OK)
        status = orr__stable_sort(memory, t->accesses, t->access_count, sizeof *t->accesses,
                                  compare_accesses);
    if (status == ORR_OK)
        status = orr__stable_sort(memory, t->collective_members, t->collective_member_count,
                                  sizeof *t->collective_members, compare_collective_members);
    if (status == ORR_OK)
        status = orr__stable_sort(memory, t->counters, t->counter_count, sizeof *t->counters,
                                  compare_counters);
    return status;
}
