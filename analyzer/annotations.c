#include "analyzer/annotations.h"

#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

struct builder {
    const struct orr_events *events;
    struct orr_interval window;
    struct orr_annotations *out;
    const uint32_t *node_of_op;
    int64_t *reach, *self_reach; /* by node: the end of what was counted, on the current device */
    struct orr_intervals compute;
    int64_t idle[ORR_CLASS_COUNT]; /* pieces of the current gap */
};

static struct orr_interval clip(const struct builder *b, int64_t begin_ns, int64_t end_ns) {
    return (struct orr_interval){orr__max_ns(begin_ns, b->window.begin_ns),
                                 orr__min_ns(end_ns, b->window.end_ns)};
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
    uint32_t node = b->node_of_op[op];
    struct orr_annotation *items = b->out->items;
    items[node].self_ops++;
    items[node].self_ns += extend(&b->self_reach[node], begin_ns, end_ns);
    for (; node != ORR_EVENTS_NONE; node = items[node].parent) {
        items[node].ops++;
        items[node].total_ns += extend(&b->reach[node], begin_ns, end_ns);
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
    for (uint32_t node = b->node_of_op[op]; node != ORR_EVENTS_NONE;
         node = b->out->items[node].parent) {
        b->out->items[node].exposed_comm_ns += exposed;
    }
}

static enum orr_status find_compute(struct builder *b, uint32_t device,
                                    const struct orr_memory *memory) {
    const struct orr_events *e = b->events;
    size_t first = e->device_first[device], end = e->device_first[device + 1];
    b->compute.count = 0;
    enum orr_status status = orr__intervals_reserve(memory, &b->compute, end - first);
    for (size_t i = first; i < end && status == ORR_OK; i++) {
        const struct orr_events_op *op = &e->ops[e->device_order[i]];
        if (op->activity == ORR_ACTIVITY_COMPUTE) {
            orr__intervals_add(&b->compute, op->start_ns, op->end_ns);
        }
    }
    return status;
}

/* Ops are in order of their starts. */
static enum orr_status add_ops(struct builder *b, uint32_t device,
                               const struct orr_memory *memory) {
    const struct orr_events *e = b->events;
    int64_t comm_reach = INT64_MIN;
    for (size_t i = 0; i < b->out->count; i++) {
        b->reach[i] = b->self_reach[i] = INT64_MIN;
    }
    enum orr_status status = find_compute(b, device, memory);
    for (size_t i = e->device_first[device]; i < e->device_first[device + 1] && status == ORR_OK;
         i++) {
        uint32_t index = e->device_order[i];
        const struct orr_events_op *op = &e->ops[index];
        struct orr_interval part = clip(b, op->start_ns, op->end_ns);
        bool instant = op->start_ns == op->end_ns && op->start_ns >= b->window.begin_ns &&
                       op->start_ns <= b->window.end_ns;
        if (part.end_ns <= part.begin_ns && !instant) {
            continue;
        }
        add_busy(b, index, part.begin_ns, part.end_ns);
        if (op->activity == ORR_ACTIVITY_COMM) {
            add_exposed(b, index, &comm_reach, part.begin_ns, part.end_ns);
        }
    }
    return status;
}

static void ignore_busy(void *context, enum orr_busy busy, int64_t begin_ns, int64_t end_ns) {
    (void)context;
    (void)busy;
    (void)begin_ns;
    (void)end_ns;
}

static void on_idle(void *context, enum orr_class class_, int64_t begin_ns, int64_t end_ns) {
    struct builder *b = context;
    struct orr_interval part = clip(b, begin_ns, end_ns);
    if (part.end_ns > part.begin_ns) {
        b->idle[class_] += part.end_ns - part.begin_ns;
    }
}

/* The pieces of a gap come before it. */
static void on_gap(void *context, const struct orr_gap *gap) {
    struct builder *b = context;
    for (uint32_t node = b->node_of_op[gap->op]; node != ORR_EVENTS_NONE;
         node = b->out->items[node].parent) {
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
            b->out->items[node].idle[c] += b->idle[c];
        }
    }
    memset(b->idle, 0, sizeof b->idle);
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

static enum orr_status measure(struct builder *b, const struct orr_hosts *hosts,
                               const struct orr_analysis_options *options, const uint8_t *bounds,
                               const struct orr_memory *memory) {
    const struct orr_walk walk = {ignore_busy, on_idle, on_gap, b};
    enum orr_status status = ORR_OK;
    for (uint32_t d = 0; d < b->events->device_count && status == ORR_OK; d++) {
        struct orr_device_times times;
        status = add_ops(b, d, memory);
        if (status == ORR_OK) {
            status = orr_classes_walk(b->events, hosts, options, bounds, d, b->window, memory,
                                      &walk, &times);
        }
    }
    return status == ORR_OK ? sort_nodes(b->out, memory) : status;
}

enum orr_status orr_annotations_compute(const struct orr_timeline *timeline,
                                        const struct orr_events *events,
                                        const struct orr_hosts *hosts,
                                        const struct orr_analysis_options *options,
                                        const uint8_t *bounds, const struct orr_steps *steps,
                                        struct orr_interval window, const struct orr_memory *memory,
                                        struct orr_annotations *out) {
    uint32_t *node_of_op;
    enum orr_status status =
        orr__annotation_tree(timeline, events, steps, memory, out, &node_of_op);
    if (status != ORR_OK || out->count == 0) {
        return status;
    }
    struct builder b = {.events = events, .window = window, .out = out, .node_of_op = node_of_op};
    b.reach = orr_memory_resize(memory, NULL, out->count * sizeof *b.reach);
    b.self_reach = orr_memory_resize(memory, NULL, out->count * sizeof *b.self_reach);
    status = b.reach && b.self_reach ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        status = measure(&b, hosts, options, bounds, memory);
    }
    orr__intervals_free(memory, &b.compute);
    orr_memory_free(memory, b.reach);
    orr_memory_free(memory, b.self_reach);
    orr_memory_free(memory, node_of_op);
    if (status != ORR_OK) {
        orr_annotations_free(memory, out);
    }
    return status;
}

void orr_annotations_free(const struct orr_memory *memory, struct orr_annotations *annotations) {
    orr_memory_free(memory, annotations->items);
    orr_memory_free(memory, annotations->order);
    *annotations = (struct orr_annotations){0};
}
