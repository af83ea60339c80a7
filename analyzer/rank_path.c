/* Whose time the critical path is. See report_set.h. */
#include <string.h>

#include "analyzer/report_set.h"

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

static void add_up(const struct orr_analysis *whole, const struct owners *owners,
                   struct orr_rank_path *path) {
    uint32_t last = ORR_EVENTS_NONE;
    for (size_t i = 0; i < whole->path.segment_count; i++) {
        const struct orr_path_segment *segment = &whole->path.segments[i];
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
        add_up(whole, &owners, out_path);
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
