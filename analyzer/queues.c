#include "analyzer/queues.h"

#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

/* When ops of one device come and go, ascending; each that comes goes at the same time or later. */
struct changes {
    int64_t *come, *go;
    size_t comes, goes;
};

static enum orr_status collect(const struct orr_events *e, const struct orr_memory *memory,
                               struct orr_queue *q, struct changes *c) {
    size_t first = e->device_first[q->device], end = e->device_first[q->device + 1];
    c->come = orr_memory_resize(memory, NULL, (end - first) * sizeof *c->come);
    c->go = orr_memory_resize(memory, NULL, (end - first) * sizeof *c->go);
    if (!c->come || !c->go) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = first; i < end; i++) {
        const struct orr_events_op *op = &e->ops[e->device_order[i]];
        if (orr_events_early(e, op)) {
            q->left_out++;
            continue;
        }
        c->go[c->goes++] = op->start_ns;
        if (orr_events_linked(op)) {
            q->linked++;
            c->come[c->comes++] = e->calls[op->call].begin_ns;
        } else {
            q->initial++;
        }
    }
    enum orr_status status = orr__sort_times(memory, c->come, c->comes);
    return status == ORR_OK ? orr__sort_times(memory, c->go, c->goes) : status;
}

/* The stretches of one depth, one after another. */
struct sweep {
    const struct changes *changes;
    size_t comes, goes;
    uint64_t depth;
    int64_t time_ns;
};

/* The depth of the next stretch of [.., end), which ends at *out_end; false at the end. */
static bool next_stretch(struct sweep *s, int64_t end_ns, int64_t *out_end) {
    const struct changes *c = s->changes;
    if (s->time_ns >= end_ns) {
        return false;
    }
    for (; s->comes < c->comes && c->come[s->comes] <= s->time_ns; s->comes++) {
        s->depth++;
    }
    for (; s->goes < c->goes && c->go[s->goes] <= s->time_ns; s->goes++) {
        s->depth--;
    }
    int64_t next = end_ns;
    next = s->comes < c->comes ? orr__min_ns(next, c->come[s->comes]) : next;
    next = s->goes < c->goes ? orr__min_ns(next, c->go[s->goes]) : next;
    *out_end = next;
    return true;
}

static struct sweep start_at(const struct changes *changes, uint64_t initial, int64_t begin_ns) {
    return (struct sweep){.changes = changes, .depth = initial, .time_ns = begin_ns};
}

static void fill_cells(struct orr_queue *q, uint64_t depth, int64_t begin_ns, int64_t end_ns) {
    size_t first = (size_t)((begin_ns - q->begin_ns) / q->cell_ns);
    size_t last = (size_t)((end_ns - 1 - q->begin_ns) / q->cell_ns);
    for (size_t i = first; i <= last; i++) {
        q->cell_max[i] = depth > q->cell_max[i] ? depth : q->cell_max[i];
    }
}

static void measure(struct orr_queue *q, const struct changes *changes) {
    int64_t length = q->end_ns - q->begin_ns, end;
    q->cell_ns = length / ORR_QUEUE_CELLS + (length % ORR_QUEUE_CELLS != 0);
    q->cells = (unsigned)((length - 1) / q->cell_ns + 1);
    struct sweep s = start_at(changes, q->initial, q->begin_ns);
    while (next_stretch(&s, q->end_ns, &end)) {
        q->max = s.depth > q->max ? s.depth : q->max;
        q->area += (orr_u128)s.depth * (uint64_t)(end - s.time_ns);
        q->empty_ns += s.depth == 0 ? end - s.time_ns : 0;
        fill_cells(q, s.depth, s.time_ns, end);
        s.time_ns = end;
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

static enum orr_status rank(struct orr_queue *q, const struct changes *changes,
                            const struct orr_memory *memory) {
    int64_t *times = orr_memory_alloc(memory, (size_t)(q->max + 1) * sizeof *times), end;
    if (!times) {
        return ORR_NO_MEMORY;
    }
    struct sweep s = start_at(changes, q->initial, q->begin_ns);
    while (next_stretch(&s, q->end_ns, &end)) {
        times[s.depth] += end - s.time_ns;
        s.time_ns = end;
    }
    q->p50 = percentile(times, q->max, q->end_ns - q->begin_ns, 50);
    q->p95 = percentile(times, q->max, q->end_ns - q->begin_ns, 95);
    orr_memory_free(memory, times);
    return ORR_OK;
}

static enum orr_status compute(const struct orr_events *events, int64_t begin_ns, int64_t end_ns,
                               const struct orr_memory *memory, struct orr_queue *q) {
    struct changes changes = {0};
    enum orr_status status = collect(events, memory, q, &changes);
    if (status == ORR_OK && changes.goes > 0) {
        q->begin_ns = orr__max_ns(begin_ns, changes.go[0]);
        q->end_ns = orr__min_ns(end_ns, changes.go[changes.goes - 1]);
        if (q->end_ns > q->begin_ns) {
            measure(q, &changes);
            status = rank(q, &changes, memory);
        } else {
            q->end_ns = q->begin_ns;
        }
    }
    orr_memory_free(memory, changes.come);
    orr_memory_free(memory, changes.go);
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
