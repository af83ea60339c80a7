#include "analyzer/hosts.h"

#include <assert.h>

#include "analyzer/sort.h"

/* A call enqueues if it owns an op or is known to launch. */
static bool enqueues(const struct orr_events_call *call) {
    return call->op_count > 0 || (call->flags & ORR_CALL_LAUNCH);
}

/* What the thread is inside of at one time. The index of the only waiting call is the sum of the
 * indices of all waiting calls, when there is one. */
struct inside {
    uint64_t calls, waiting, enqueuing, waiting_sum;
};

static void enter(struct inside *inside, const struct orr_events_call *call, uint32_t index) {
    bool waiting = call->flags & ORR_CALL_WAITING;
    inside->calls++;
    inside->waiting += waiting;
    inside->waiting_sum += waiting ? index : 0;
    inside->enqueuing += enqueues(call);
}

static void leave(struct inside *inside, const struct orr_events_call *call, uint32_t index) {
    bool waiting = call->flags & ORR_CALL_WAITING;
    assert(inside->calls > 0);
    inside->calls--;
    inside->waiting -= waiting;
    inside->waiting_sum -= waiting ? index : 0;
    inside->enqueuing -= enqueues(call);
}

static struct orr_host_segment segment_of(const struct inside *inside, int64_t begin, int64_t end) {
    uint32_t waiting = inside->waiting == 0   ? ORR_EVENTS_NONE
                       : inside->waiting == 1 ? (uint32_t)inside->waiting_sum
                                              : ORR_HOSTS_SEVERAL;
    return (struct orr_host_segment){begin, end, waiting, inside->enqueuing > 0};
}

static bool ends_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events *events = context;
    return events->calls[a].end_ns < events->calls[b].end_ns;
}

/* Adds a segment, or lengthens the one before if nothing is different: a host that launches call
 * after call is inside an enqueuing one all the time. */
static size_t add_segment(struct orr_host_segment *segments, size_t made,
                          struct orr_host_segment next) {
    struct orr_host_segment *last = made > 0 ? &segments[made - 1] : NULL;
    if (last && last->end_ns == next.begin_ns && last->waiting == next.waiting &&
        last->enqueuing == next.enqueuing) {
        last->end_ns = next.end_ns;
        return made;
    }
    segments[made] = next;
    return made + 1;
}

/* Cuts one thread's calls; begins and ends list them by begin and by end. Returns the segments
 * made. */
static size_t cut_thread(const struct orr_events *events, const uint32_t *begins,
                         const uint32_t *ends, size_t count, struct orr_host_segment *segments) {
    struct inside inside = {0};
    size_t made = 0;
    int64_t now = INT64_MIN;
    for (size_t b = 0, e = 0; e < count;) {
        const struct orr_events_call *opens = b < count ? &events->calls[begins[b]] : NULL;
        const struct orr_events_call *closes = &events->calls[ends[e]];
        /* Open before closing at the same time, so that a call of no length is inside itself. */
        bool open = opens && opens->begin_ns <= closes->end_ns;
        int64_t time = open ? opens->begin_ns : closes->end_ns;
        if (inside.calls > 0 && time > now) {
            made = add_segment(segments, made, segment_of(&inside, now, time));
        }
        now = time;
        if (open) {
            enter(&inside, opens, begins[b++]);
        } else {
            leave(&inside, closes, ends[e++]);
        }
    }
    return made;
}

static enum orr_status cut_threads(const struct orr_events *events, const struct orr_memory *memory,
                                   struct orr_hosts *hosts) {
    size_t calls = events->call_count, made = 0;
    uint32_t *ends = orr_memory_resize(memory, NULL, calls * sizeof *ends);
    hosts->segments = orr_memory_resize(memory, NULL, 2 * calls * sizeof *hosts->segments);
    hosts->first = orr_memory_alloc(memory, (events->thread_count + 1) * sizeof *hosts->first);
    enum orr_status status = ends && hosts->segments && hosts->first ? ORR_OK : ORR_NO_MEMORY;
    for (size_t t = 0; t < events->thread_count && status == ORR_OK; t++) {
        size_t first = events->thread_first[t], count = events->thread_first[t + 1] - first;
        for (size_t i = 0; i < count; i++) {
            ends[i] = events->thread_order[first + i];
        }
        hosts->first[t] = made;
        status = orr__sort_indices(memory, ends, count, ends_before, events);
        if (status == ORR_OK) {
            made += cut_thread(events, events->thread_order + first, ends, count,
                               hosts->segments + made);
        }
        hosts->first[t + 1] = made;
    }
    orr_memory_free(memory, ends);
    return status;
}

static bool overhead_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events *events = context;
    const struct orr_events_overhead *x = &events->overheads[a], *y = &events->overheads[b];
    return x->process != y->process ? x->process < y->process : x->begin_ns < y->begin_ns;
}

/* order[0 .. count) are the overheads of one process by begin. */
static enum orr_status add_process(const struct orr_events *events, const struct orr_memory *memory,
                                   const uint32_t *order, size_t count, struct orr_hosts *hosts) {
    struct orr_host_process *process = &hosts->processes[hosts->process_count++];
    *process = (struct orr_host_process){.process = events->overheads[order[0]].process};
    enum orr_status status = orr__intervals_reserve(memory, &process->overhead, count);
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        const struct orr_events_overhead *item = &events->overheads[order[i]];
        orr__intervals_add(&process->overhead, item->begin_ns, item->end_ns);
    }
    return status;
}

static enum orr_status add_overheads(const struct orr_events *events,
                                     const struct orr_memory *memory, struct orr_hosts *hosts) {
    size_t count = events->overhead_count;
    if (count == 0) {
        return ORR_OK;
    }
    uint32_t *order = orr_memory_resize(memory, NULL, count * sizeof *order);
    hosts->processes = orr_memory_alloc(memory, count * sizeof *hosts->processes);
    enum orr_status status = order && hosts->processes ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(memory, order, count, overhead_before, events);
    }
    for (size_t begin = 0, end; begin < count && status == ORR_OK; begin = end) {
        uint64_t process = events->overheads[order[begin]].process;
        for (end = begin; end < count && events->overheads[order[end]].process == process; end++) {
        }
        status = add_process(events, memory, order + begin, end - begin, hosts);
    }
    orr_memory_free(memory, order);
    return status;
}

enum orr_status orr_hosts_create(const struct orr_events *events, const struct orr_memory *memory,
                                 struct orr_hosts *out_hosts) {
    *out_hosts = (struct orr_hosts){0};
    enum orr_status status = cut_threads(events, memory, out_hosts);
    if (status == ORR_OK) {
        status = add_overheads(events, memory, out_hosts);
    }
    if (status != ORR_OK) {
        orr_hosts_free(memory, out_hosts);
    }
    return status;
}

void orr_hosts_free(const struct orr_memory *memory, struct orr_hosts *hosts) {
    for (size_t p = 0; p < hosts->process_count; p++) {
        orr__intervals_free(memory, &hosts->processes[p].overhead);
    }
    orr_memory_free(memory, hosts->processes);
    orr_memory_free(memory, hosts->segments);
    orr_memory_free(memory, hosts->first);
    *hosts = (struct orr_hosts){0};
}

size_t orr_hosts_find(const struct orr_hosts *hosts, uint32_t thread, int64_t time) {
    size_t low = hosts->first[thread], high = hosts->first[thread + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hosts->segments[middle].end_ns <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct orr_intervals *orr_hosts_overhead(const struct orr_hosts *hosts, uint64_t process) {
    size_t low = 0, high = hosts->process_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hosts->processes[middle].process < process) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < hosts->process_count && hosts->processes[low].process == process;
    return found ? &hosts->processes[low].overhead : NULL;
}
