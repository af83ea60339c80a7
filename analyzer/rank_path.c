/* Whose time the critical path is. See report_set.h. */
#include <string.h>

#include "analyzer/report_set.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

/* Ranks of devices and threads of the whole, by index; NONE: of none. */
struct owners {
    uint32_t *devices, *threads;
};

static uint32_t rank_with(const struct orr_ranks *ranks, uint32_t number) {
    for (uint32_t i = 0; i < ranks->count; i++) {
        if (ranks->items[i].rank == number) {
            return i;
        }
    }
    return ORR_EVENTS_NONE;
}

static void find_owners(const struct orr_ranks *ranks, const struct orr_analysis *whole,
                        struct owners *owners) {
    const struct orr_events *events = &whole->events;
    for (size_t d = 0; d < events->device_count; d++) {
        uint32_t id = events->devices[d].id;
        uint32_t number = whole->timeline ? orr_ranks_of_device(whole->timeline, id) : id;
        owners->devices[d] = rank_with(ranks, number);
    }
    memset(owners->threads, 0xff, events->thread_count * sizeof *owners->threads);
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (orr_events_linked(op)) {
            owners->threads[events->calls[op->call].thread] =
                owners->devices[events->streams[op->stream].device];
        }
    }
}

static uint32_t owner_of(const struct owners *owners, const struct orr_events *events,
                         const struct orr_path_segment *segment) {
    if (segment->op != ORR_EVENTS_NONE) {
        return owners->devices[events->streams[events->ops[segment->op].stream].device];
    }
    return segment->call == ORR_EVENTS_NONE ? ORR_EVENTS_NONE
                                            : owners->threads[events->calls[segment->call].thread];
}

static void add_up(const struct orr_analysis *whole, const struct orr_critical_path *critical,
                   const struct owners *owners, struct orr_rank_path *path) {
    uint32_t last = ORR_EVENTS_NONE;
    for (size_t i = 0; i < critical->segment_count; i++) {
        const struct orr_path_segment *segment = &critical->segments[i];
        uint32_t rank = owner_of(owners, &whole->events, segment);
        int64_t length = segment->end_ns - segment->begin_ns;
        if (rank == ORR_EVENTS_NONE) {
            path->unknown_ns += length;
            continue;
        }
        path->time_ns[rank] += length;
        path->hops += last != ORR_EVENTS_NONE && last != rank;
        last = rank;
    }
}

enum orr_status orr_rank_path_compute(const struct orr_ranks *ranks,
                                      const struct orr_analysis *whole,
                                      const struct orr_critical_path *critical,
                                      const struct orr_memory *memory,
                                      struct orr_rank_path *out_path) {
    const struct orr_events *events = &whole->events;
    struct owners owners = {
        orr_memory_alloc(memory, events->device_count * sizeof *owners.devices),
        orr_memory_alloc(memory, events->thread_count * sizeof *owners.threads)};
    *out_path =
        (struct orr_rank_path){orr_memory_alloc(memory, ranks->count * sizeof(int64_t)), 0, 0};
    bool all = owners.devices && owners.threads && out_path->time_ns;
    if (all) {
        find_owners(ranks, whole, &owners);
        add_up(whole, critical, &owners, out_path);
    }
    orr_memory_free(memory, owners.devices);
    orr_memory_free(memory, owners.threads);
    if (!all) {
        orr_rank_path_free(memory, out_path);
    }
    return all ? ORR_OK : ORR_NO_MEMORY;
}

void orr_rank_path_free(const struct orr_memory *memory, struct orr_rank_path *path) {
    orr_memory_free(memory, path->time_ns);
    *path = (struct orr_rank_path){0};
}

/* ------------------------------------------------------------------------------------------------
 * Inferring */

static bool ends_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events_op *ops = context;
    return ops[a].end_ns < ops[b].end_ns;
}

/* What ended last on the device before an op began, in another stream; NONE without. `ends` are the
 * device's ops by end. */
static uint32_t ended_last(const struct orr_events *events, const uint32_t *ends, size_t count,
                           const struct orr_events_op *op) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (events->ops[ends[middle]].end_ns <= op->start_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low > 0 && events->ops[ends[low - 1]].stream == op->stream) {
        low--;
    }
    return low > 0 ? ends[low - 1] : ORR_EVENTS_NONE;
}

/* When all that is recorded was done, or the op's start if it has no usable call. */
static int64_t explained(const struct orr_events *events, const struct orr_events_op *op) {
    if (!orr_events_linked(op) || orr_events_early(events, op)) {
        return op->start_ns;
    }
    int64_t ready = orr__min_ns(events->calls[op->call].end_ns, op->start_ns);
    return orr__max_ns(ready, orr__max_ns(orr_events_previous_end(events, op), op->wait_ns));
}

/* A member of a collective of several ranks. */
static bool is_joined(const struct orr_events *events, const struct orr_events_op *op) {
    return op->collective != ORR_EVENTS_NONE && events->collectives[op->collective].members > 1;
}

static uint64_t infer_waits(struct orr_events *events, const struct orr_analysis *whole,
                            const uint32_t *ends, size_t count) {
    uint64_t waits = 0;
    for (size_t i = 0; i < count; i++) {
        struct orr_events_op *op = &events->ops[ends[i]];
        uint32_t before = ended_last(events, ends, count, op);
        if (before == ORR_EVENTS_NONE || !orr__events_op_before(events, before, ends[i])) {
            continue; /* the latter: both of no length, at one instant */
        }
        const struct orr_events_op *last = &events->ops[before];
        if ((is_joined(events, op) || is_joined(events, last)) &&
            last->end_ns > explained(events, op) &&
            op->start_ns - last->end_ns <= whole->options.dispatch_max_ns) {
            op->wait_ns = last->end_ns;
            op->wait_op = before;
            op->wait_call = ORR_EVENTS_NONE;
            waits++;
        }
    }
    return waits;
}

static enum orr_status infer_all(struct orr_events *events, const struct orr_analysis *whole,
                                 const struct orr_memory *memory, uint64_t *out_waits) {
    uint32_t *ends = orr_memory_resize(memory, NULL, events->op_count * sizeof *ends + 1);
    enum orr_status status = ends ? ORR_OK : ORR_NO_MEMORY;
    for (size_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        size_t first = events->device_first[d], count = events->device_first[d + 1] - first;
        memcpy(ends, events->device_order + first, count * sizeof *ends);
        status = orr__sort_indices(memory, ends, count, ends_before, events->ops);
        *out_waits += status == ORR_OK ? infer_waits(events, whole, ends, count) : 0;
    }
    orr_memory_free(memory, ends);
    return status;
}

enum orr_status orr_rank_path_infer(const struct orr_analysis *whole,
                                    const struct orr_memory *memory,
                                    struct orr_critical_path *out_path, uint64_t *out_waits) {
    *out_path = (struct orr_critical_path){0};
    *out_waits = 0;
    if (!whole->timeline || whole->events.source.knows_waits) {
        return ORR_OK;
    }
    struct orr_events events;
    enum orr_status status = orr_events_from_timeline(whole->timeline, memory, &events, NULL);
    if (status != ORR_OK) {
        return status;
    }
    status = infer_all(&events, whole, memory, out_waits);
    if (status == ORR_OK && *out_waits > 0) {
        status =
            orr_critical_path_compute(&events, whole->begin_ns, whole->end_ns, memory, out_path);
    }
    orr_events_free(&events);
    return status;
}
