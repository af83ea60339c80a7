#include "analyzer/queues.h"

#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

/* When ops of one device come, ascending, and go: their starts, in the device's order. Each goes
 * when it comes or later. */
struct changes {
    const struct orr_events *events;
    const uint32_t *order; /* the device's ops */
    size_t ops;
    int64_t *come;
    size_t comes;
};

static enum orr_status collect(const struct orr_events *e, const struct orr_memory *memory,
                               struct orr_queue *q, struct changes *c) {
    size_t first = e->device_first[q->device];
    *c = (struct changes){.events = e,
                          .order = e->device_order + first,
                          .ops = e->device_first[q->device + 1] - first};
    c->come = orr_memory_resize(memory, NULL, c->ops * sizeof *c->come);
    if (!c->come) {
        return ORR_NO_MEMORY;
    }
    bool sorted = true; /* of a stream without overtaking they are */
    for (size_t i = 0; i < c->ops; i++) {
        const struct orr_events_op *op = &e->ops[c->order[i]];
        if (orr_events_early(e, op)) {
            q->left_out++;
        } else if (orr_events_linked(op)) {
            c->come[c->comes++] = e->calls[op->call].begin_ns;
            sorted = sorted && (c->comes < 2 || c->come[c->comes - 2] <= c->come[c->comes - 1]);
        } else {
            q->initial++;
        }
    }
    q->linked = c->comes;
    return sorted ? ORR_OK : orr__sort_times(memory, c->come, c->comes);
}

struct sweep {
    const struct changes *changes;
    size_t comes, goes; /* places */
    uint64_t depth;
    int64_t time_ns;
};

/* When the next op goes, INT64_MAX if none is left. */
static int64_t next_start(struct sweep *s) {
    const struct changes *c = s->changes;
    for (; s->goes < c->ops; s->goes++) {
        const struct orr_events_op *op = &c->events->ops[c->order[s->goes]];
        if (!orr_events_early(c->events, op)) {
            return op->start_ns;
        }
    }
    return INT64_MAX;
}

/* The stretches of one depth, one after another: [time_ns, *out_end) has `depth`; false at the
 * end. */
static bool next_stretch(struct sweep *s, int64_t end_ns, int64_t *out_end) {
    const struct changes *c = s->changes;
    if (s->time_ns >= end_ns) {
        return false;
    }
    for (; s->comes < c->comes && c->come[s->comes] <= s->time_ns; s->comes++) {
        s->depth++;
    }
    int64_t start;
    for (; (start = next_start(s)) <= s->time_ns; s->goes++) {
        s->depth--;
    }
    int64_t next = orr__min_ns(end_ns, start);
    *out_end = s->comes < c->comes ? orr__min_ns(next, c->come[s->comes]) : next;
    return true;
}

static void fill_cells(struct orr_queue *q, uint64_t depth, int64_t begin_ns, int64_t end_ns) {
    size_t first = (size_t)((begin_ns - q->begin_ns) / q->cell_ns);
    size_t last = (size_t)((end_ns - 1 - q->begin_ns) / q->cell_ns);
    for (size_t i = first; i <= last; i++) {
        q->cell_max[i] = depth > q->cell_max[i] ? depth : q->cell_max[i];
    }
}

/* Least depth with at least `percent` of the time at or below it. */
static uint64_t percentile(const int64_t *times, uint64_t max, int64_t length, unsigned percent) {
    orr_u128 sum = 0;
    uint64_t depth = 0;
    for (;; depth++) {
        sum += (orr_u128)(uint64_t)times[depth] * 100;
        if (depth == max || sum >= (orr_u128)(uint64_t)length * percent) {
            return depth;
        }
    }
}

static enum orr_status measure(struct orr_queue *q, const struct changes *changes,
                               const struct orr_memory *memory) {
    int64_t length = q->end_ns - q->begin_ns, end, *times = NULL; /* by depth */
    size_t capacity = 0;
    q->cell_ns = length / ORR_QUEUE_CELLS + (length % ORR_QUEUE_CELLS != 0);
    q->cells = (unsigned)((length - 1) / q->cell_ns + 1);
    struct sweep s = {.changes = changes, .depth = q->initial, .time_ns = q->begin_ns};
    enum orr_status status = ORR_OK;
    while (status == ORR_OK && next_stretch(&s, q->end_ns, &end)) {
        if (s.depth >= capacity) {
            status = orr_memory_grow(memory, &times, &capacity, (size_t)s.depth + 1, sizeof *times,
                                     SIZE_MAX);
        }
        if (status == ORR_OK) {
            times[s.depth] += end - s.time_ns;
            q->max = s.depth > q->max ? s.depth : q->max;
            q->area += (orr_u128)s.depth * (uint64_t)(end - s.time_ns);
            fill_cells(q, s.depth, s.time_ns, end);
            s.time_ns = end;
        }
    }
    if (status == ORR_OK) {
        q->empty_ns = times[0];
        q->p50 = percentile(times, q->max, length, 50);
        q->p95 = percentile(times, q->max, length, 95);
    }
    orr_memory_free(memory, times);
    return status;
}

static enum orr_status compute(const struct orr_events *events, int64_t begin_ns, int64_t end_ns,
                               const struct orr_memory *memory, struct orr_queue *q) {
    struct changes changes;
    enum orr_status status = collect(events, memory, q, &changes);
    size_t last = changes.ops;
    while (last > 0 && orr_events_early(events, &events->ops[changes.order[last - 1]])) {
        last--;
    }
    if (status == ORR_OK && last > 0) {
        struct sweep s = {.changes = &changes};
        q->begin_ns = orr__max_ns(begin_ns, next_start(&s));
        q->end_ns = orr__min_ns(end_ns, events->ops[changes.order[last - 1]].start_ns);
        if (q->end_ns > q->begin_ns) {
            status = measure(q, &changes, memory);
        } else {
            q->end_ns = q->begin_ns;
        }
    }
    orr_memory_free(memory, changes.come);
    return status;
}

enum orr_status orr_queues_compute(const struct orr_events *events, int64_t begin_ns,
                                   int64_t end_ns, const struct orr_memory *memory,
                                   struct orr_queues *out_queues) {
    *out_queues = (struct orr_queues){0};
    out_queues->items = orr_memory_alloc(memory, events->device_count * sizeof *out_queues->items);
    enum orr_status status = out_queues->items ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        out_queues->items[d].device = d;
        status = compute(events, begin_ns, end_ns, memory, &out_queues->items[d]);
        out_queues->count = d + 1;
    }
    if (status != ORR_OK) {
        orr_queues_free(memory, out_queues);
    }
    return status;
}

void orr_queues_free(const struct orr_memory *memory, struct orr_queues *queues) {
    orr_memory_free(memory, queues->items);
    *queues = (struct orr_queues){0};
}
