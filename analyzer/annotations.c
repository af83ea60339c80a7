#include "analyzer/annotations.h"

#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

struct builder {
    const struct orr_events *events;
    const struct orr_memory *memory;
    struct orr_annotations *out;
    int64_t *reach, *self_reach; /* by node: the end of what was counted, on the current device */
    struct orr_intervals compute;
};

static struct orr_interval clip(const struct orr_annotations *a, int64_t begin_ns, int64_t end_ns) {
    return (struct orr_interval){orr__max_ns(begin_ns, a->window.begin_ns),
                                 orr__min_ns(end_ns, a->window.end_ns)};
}

void orr_annotations_add_idle(struct orr_annotations *annotations, enum orr_class class_,
                              int64_t begin_ns, int64_t end_ns) {
    struct orr_interval part = clip(annotations, begin_ns, end_ns);
    bool of_a_gap = class_ != ORR_CLASS_BEFORE_FIRST && class_ != ORR_CLASS_AFTER_LAST;
    if (of_a_gap && part.end_ns > part.begin_ns) {
        annotations->gap_idle[class_] += part.end_ns - part.begin_ns;
    }
}

void orr_annotations_add_gap(struct orr_annotations *annotations, const struct orr_gap *gap) {
    struct orr_annotation *items = annotations->items;
    for (unsigned c = ORR_CLASS_PROFILER_OVERHEAD; c < ORR_CLASS_BEFORE_FIRST; c++) {
        int64_t idle = annotations->gap_idle[c];
        if (idle == 0 || annotations->count == 0) {
            continue;
        }
        for (uint32_t node = annotations->node_of_op[gap->op]; node != ORR_EVENTS_NONE;
             node = items[node].parent) {
            items[node].idle[c] = orr__add_ns(items[node].idle[c], idle);
        }
        annotations->gap_idle[c] = 0;
    }
}

/* The part of [begin, end) behind *reach, which moves to the end. */
static int64_t extend(int64_t *reach, int64_t begin_ns, int64_t end_ns) {
    if (end_ns <= *reach) {
        return 0;
    }
    int64_t added = end_ns - orr__max_ns(begin_ns, *reach);
    *reach = end_ns;
    return added;
}

static void add_busy(struct builder *b, uint32_t op, int64_t begin_ns, int64_t end_ns) {
    uint32_t node = b->out->node_of_op[op];
    struct orr_annotation *items = b->out->items;
    items[node].self_ops++;
    items[node].self_ns =
        orr__add_ns(items[node].self_ns, extend(&b->self_reach[node], begin_ns, end_ns));
    for (; node != ORR_EVENTS_NONE; node = items[node].parent) {
        items[node].ops++;
        items[node].total_ns =
            orr__add_ns(items[node].total_ns, extend(&b->reach[node], begin_ns, end_ns));
    }
}

/* Length of [begin, end) in which the device computes. */
static int64_t computing(const struct builder *b, int64_t begin_ns, int64_t end_ns) {
    const struct orr_intervals *c = &b->compute;
    int64_t sum = 0;
    for (size_t i = orr__intervals_find(c, begin_ns); i < c->count && c->items[i].begin_ns < end_ns;
         i++) {
        sum +=
            orr__min_ns(c->items[i].end_ns, end_ns) - orr__max_ns(c->items[i].begin_ns, begin_ns);
    }
    return sum;
}

static void add_exposed(struct builder *b, uint32_t op, int64_t *reach, int64_t begin_ns,
                        int64_t end_ns) {
    int64_t from = orr__max_ns(begin_ns, *reach);
    if (extend(reach, begin_ns, end_ns) == 0) {
        return;
    }
    int64_t exposed = end_ns - from - computing(b, from, end_ns);
    for (uint32_t node = b->out->node_of_op[op]; node != ORR_EVENTS_NONE;
         node = b->out->items[node].parent) {
        b->out->items[node].exposed_comm_ns =
            orr__add_ns(b->out->items[node].exposed_comm_ns, exposed);
    }
}

static enum orr_status find_compute(struct builder *b, size_t first, size_t end) {
    const struct orr_events *e = b->events;
    b->compute.count = 0;
    enum orr_status status = orr__intervals_reserve(b->memory, &b->compute, end - first);
    for (size_t i = first; i < end && status == ORR_OK; i++) {
        const struct orr_events_op *op = &e->ops[e->device_order[i]];
        if (op->activity == ORR_ACTIVITY_COMPUTE) {
            orr__intervals_add(&b->compute, op->start_ns, op->end_ns);
        }
    }
    return status;
}

static bool communicates(const struct orr_events *e, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        if (e->ops[e->device_order[i]].activity == ORR_ACTIVITY_COMM) {
            return true;
        }
    }
    return false;
}

/* Ops are in order of their starts. */
static enum orr_status add_ops(struct builder *b, uint32_t device) {
    const struct orr_events *e = b->events;
    size_t first = e->device_first[device], end = e->device_first[device + 1];
    const struct orr_interval *window = &b->out->window;
    int64_t comm_reach = INT64_MIN;
    for (size_t i = 0; i < b->out->count; i++) {
        b->reach[i] = b->self_reach[i] = INT64_MIN;
    }
    if (communicates(e, first, end) && find_compute(b, first, end) != ORR_OK) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = first; i < end; i++) {
        uint32_t index = e->device_order[i];
        const struct orr_events_op *op = &e->ops[index];
        struct orr_interval part = clip(b->out, op->start_ns, op->end_ns);
        bool instant = op->start_ns == op->end_ns && op->start_ns >= window->begin_ns &&
                       op->start_ns <= window->end_ns;
        if (part.end_ns <= part.begin_ns && !instant) {
            continue;
        }
        add_busy(b, index, part.begin_ns, part.end_ns);
        if (op->activity == ORR_ACTIVITY_COMM) {
            add_exposed(b, index, &comm_reach, part.begin_ns, part.end_ns);
        }
    }
    return ORR_OK;
}

static bool node_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_annotation *items = context;
    if (items[x].total_ns != items[y].total_ns) {
        return items[x].total_ns > items[y].total_ns;
    }
    if (items[x].depth != items[y].depth) {
        return items[x].depth < items[y].depth;
    }
    size_t shorter =
        items[x].name_length < items[y].name_length ? items[x].name_length : items[y].name_length;
    int order = memcmp(items[x].name, items[y].name, shorter);
    if (order == 0 && items[x].name_length != items[y].name_length) {
        order = items[x].name_length < items[y].name_length ? -1 : 1;
    }
    return order != 0 ? order < 0 : x < y;
}

static enum orr_status sort_nodes(struct orr_annotations *out, const struct orr_memory *memory) {
    out->order = orr_memory_resize(memory, NULL, out->count * sizeof *out->order);
    if (!out->order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < out->count; i++) {
        out->order[i] = (uint32_t)i;
    }
    return orr__sort_indices(memory, out->order, out->count, node_before, out->items);
}

enum orr_status orr_annotations_begin(const struct orr_timeline *timeline,
                                      const struct orr_events *events,
                                      const struct orr_steps *steps, struct orr_interval window,
                                      const struct orr_memory *memory,
                                      struct orr_annotations *out) {
    *out = (struct orr_annotations){.window = window};
    enum orr_status status = orr__annotation_tree(timeline, events, steps, memory, out);
    if (status != ORR_OK) {
        orr_annotations_free(memory, out);
    }
    return status;
}

enum orr_status orr_annotations_finish(struct orr_annotations *annotations,
                                       const struct orr_events *events,
                                       const struct orr_memory *memory) {
    size_t count = annotations->count;
    if (count == 0) {
        return ORR_OK;
    }
    struct builder b = {.events = events, .memory = memory, .out = annotations};
    b.reach = orr_memory_resize(memory, NULL, count * sizeof *b.reach);
    b.self_reach = orr_memory_resize(memory, NULL, count * sizeof *b.self_reach);
    enum orr_status status = b.reach && b.self_reach ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        status = add_ops(&b, d);
    }
    if (status == ORR_OK) {
        status = sort_nodes(annotations, memory);
    }
    orr__intervals_free(memory, &b.compute);
    orr_memory_free(memory, b.reach);
    orr_memory_free(memory, b.self_reach);
    orr_memory_free(memory, annotations->node_of_op);
    annotations->node_of_op = NULL;
    return status;
}

void orr_annotations_free(const struct orr_memory *memory, struct orr_annotations *annotations) {
    orr_memory_free(memory, annotations->items);
    orr_memory_free(memory, annotations->order);
    orr_memory_free(memory, annotations->node_of_op);
    *annotations = (struct orr_annotations){0};
}
