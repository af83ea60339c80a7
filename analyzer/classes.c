#include "analyzer/classes.h"

#include <assert.h>

#include "analyzer/times.h"

const char *orr_class_text(enum orr_class class_) {
    static const char *const texts[] = {
#define ORR_CLASS_TEXT(name, text) text,
        ORR_CLASS_LIST(ORR_CLASS_TEXT)
#undef ORR_CLASS_TEXT
    };
    return class_ < ORR_CLASS_COUNT ? texts[class_] : "";
}

/* One device, walked. */
struct walker {
    const struct orr_events *events;
    const struct orr_hosts *hosts;
    const struct orr_analysis_options *options;
    const struct orr_walk *walk;
    struct orr_device_times *times;
    struct orr_gap *gap;         /* the one being classed */
    struct orr_intervals window; /* one interval, or none if it is empty */
};

/* ------------------------------------------------------------------------------------------------
 * Busy time */

static enum orr_busy busy_of(const struct orr_events_op *op, uint8_t bound) {
    switch (op->activity) {
    case ORR_ACTIVITY_COMM: return ORR_BUSY_COMM;
    case ORR_ACTIVITY_COPY: return ORR_BUSY_COPY;
    default: return (enum orr_busy)bound;
    }
}

static void on_busy_piece(void *context, unsigned list, int64_t begin_ns, int64_t end_ns) {
    struct walker *w = context;
    enum orr_class class_ = list < ORR_BUSY_COMM    ? ORR_CLASS_COMPUTE
                            : list == ORR_BUSY_COMM ? ORR_CLASS_EXPOSED_COMM
                                                    : ORR_CLASS_EXPOSED_COPY;
    w->times->classes[class_] += end_ns - begin_ns;
    w->walk->busy(w->walk->context, (enum orr_busy)list, begin_ns, end_ns);
}

/* Unions of the device's ops, one list per kind of busy time. */
static enum orr_status make_unions(const struct walker *w, const uint8_t *bounds, uint32_t device,
                                   const struct orr_memory *memory, struct orr_intervals *lists) {
    const struct orr_events *events = w->events;
    size_t counts[ORR_BUSY_COUNT] = {0};
    size_t first = events->device_first[device], end = events->device_first[device + 1];
    for (size_t i = first; i < end; i++) {
        uint32_t op = events->device_order[i];
        counts[busy_of(&events->ops[op], bounds[op])]++;
    }
    for (unsigned k = 0; k < ORR_BUSY_COUNT; k++) {
        enum orr_status status = orr__intervals_reserve(memory, &lists[k], counts[k]);
        if (status != ORR_OK) {
            return status;
        }
    }
    for (size_t i = first; i < end; i++) {
        uint32_t index = events->device_order[i];
        const struct orr_events_op *op = &events->ops[index];
        orr__intervals_add(&lists[busy_of(op, bounds[index])], op->start_ns, op->end_ns);
    }
    return ORR_OK;
}

static enum orr_status walk_busy(struct walker *w, const uint8_t *bounds, uint32_t device,
                                 const struct orr_memory *memory) {
    struct orr_intervals lists[ORR_BUSY_COUNT] = {0};
    enum orr_status status = make_unions(w, bounds, device, memory, lists);
    if (status == ORR_OK) {
        orr__intervals_sweep(lists, ORR_BUSY_COUNT, on_busy_piece, w);
        struct orr_device_times *times = w->times;
        times->compute_ns = times->classes[ORR_CLASS_COMPUTE];
        times->comm_ns = orr__intervals_length(&lists[ORR_BUSY_COMM]);
        times->copy_ns = orr__intervals_length(&lists[ORR_BUSY_COPY]);
        times->comm_compute_ns = times->comm_ns - times->classes[ORR_CLASS_EXPOSED_COMM];
        times->comm_copy_ns = orr__intervals_common(&lists[ORR_BUSY_COMM], &lists[ORR_BUSY_COPY]);
        times->window_comm_ns = orr__intervals_common(&lists[ORR_BUSY_COMM], &w->window);
        times->window_copy_ns = orr__intervals_common(&lists[ORR_BUSY_COPY], &w->window);
        times->busy_ns = times->compute_ns + times->classes[ORR_CLASS_EXPOSED_COMM] +
                         times->classes[ORR_CLASS_EXPOSED_COPY];
    }
    for (unsigned k = 0; k < ORR_BUSY_COUNT; k++) {
        orr__intervals_free(memory, &lists[k]);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Gaps */

static void add_idle(struct walker *w, enum orr_class class_, int64_t begin_ns, int64_t end_ns) {
    if (begin_ns >= end_ns) {
        return;
    }
    w->gap->classes[class_] += end_ns - begin_ns;
    w->times->classes[class_] += end_ns - begin_ns;
    w->walk->idle(w->walk->context, class_, begin_ns, end_ns);
}

/* Host part outside profiler overhead: by what N's thread was inside of. */
static void class_thread_part(struct walker *w, const struct orr_events_op *op, int64_t begin_ns,
                              int64_t end_ns) {
    uint32_t thread = w->events->calls[op->call].thread;
    const struct orr_hosts *hosts = w->hosts;
    int64_t now = begin_ns;
    for (size_t i = orr_hosts_find(hosts, thread, begin_ns);
         i < hosts->first[thread + 1] && now < end_ns; i++) {
        const struct orr_host_segment *segment = &hosts->segments[i];
        int64_t from = orr__max_ns(segment->begin_ns, now),
                to = orr__min_ns(segment->end_ns, end_ns);
        if (from >= end_ns) {
            break;
        }
        add_idle(w, ORR_CLASS_HOST_OTHER, now, from);
        bool waits = segment->waiting != ORR_EVENTS_NONE && segment->waiting != op->call;
        enum orr_class class_ = waits                ? ORR_CLASS_HOST_SYNC
                                : segment->enqueuing ? ORR_CLASS_HOST_LAUNCH
                                                     : ORR_CLASS_HOST_OTHER;
        add_idle(w, class_, from, to);
        w->times->host_api_ns += class_ == ORR_CLASS_HOST_OTHER ? to - from : 0;
        now = to;
    }
    add_idle(w, ORR_CLASS_HOST_OTHER, now, end_ns);
}

static void class_host_part(struct walker *w, const struct orr_events_op *op, int64_t begin_ns,
                            int64_t end_ns) {
    uint32_t thread = w->events->calls[op->call].thread;
    const struct orr_intervals *overhead =
        orr_hosts_overhead(w->hosts, w->events->threads[thread].process);
    int64_t now = begin_ns;
    size_t i = overhead ? orr__intervals_find(overhead, begin_ns) : 0;
    for (; overhead && i < overhead->count && overhead->items[i].begin_ns < end_ns; i++) {
        int64_t from = orr__max_ns(overhead->items[i].begin_ns, now);
        int64_t to = orr__min_ns(overhead->items[i].end_ns, end_ns);
        class_thread_part(w, op, now, from);
        add_idle(w, ORR_CLASS_PROFILER_OVERHEAD, from, to);
        now = to;
    }
    class_thread_part(w, op, now, end_ns);
}

static void class_gap(struct walker *w, struct orr_gap *gap) {
    const struct orr_events_op *op = &w->events->ops[gap->op];
    int64_t g0 = gap->begin_ns, g1 = gap->end_ns;
    if (!orr_events_linked(op)) {
        add_idle(w, ORR_CLASS_UNKNOWN_UNLINKED, g0, g1);
        return;
    }
    if (orr_events_early(w->events, op)) {
        add_idle(w, ORR_CLASS_UNKNOWN_CLOCK, g0, g1);
        return;
    }
    int64_t host_end = orr__max_ns(g0, orr__min_ns(w->events->calls[op->call].end_ns, g1));
    gap->host_ns = host_end - g0;
    if (gap->host_ns > 0) {
        class_host_part(w, op, g0, host_end);
    }
    int64_t dep_end = orr__max_ns(host_end, orr__min_ns(op->wait_ns, g1));
    add_idle(w, ORR_CLASS_DEP_WAIT, host_end, dep_end);
    bool explained = g1 - dep_end <= w->options->dispatch_max_ns;
    add_idle(w, explained ? ORR_CLASS_DISPATCH : ORR_CLASS_UNKNOWN_WAIT, dep_end, g1);
}

static void walk_gaps(struct walker *w, uint32_t device) {
    const struct orr_events *events = w->events;
    int64_t reach = w->times->first_ns;
    uint32_t previous = ORR_EVENTS_NONE;
    for (size_t i = events->device_first[device]; i < events->device_first[device + 1]; i++) {
        uint32_t index = events->device_order[i];
        const struct orr_events_op *op = &events->ops[index];
        if (op->start_ns > reach) {
            struct orr_gap gap = {
                .begin_ns = reach, .end_ns = op->start_ns, .op = index, .previous = previous};
            w->gap = &gap;
            class_gap(w, &gap);
            w->times->gaps++;
            w->times->gaps_host += gap.host_ns > 0;
            w->walk->gap(w->walk->context, &gap);
        }
        reach = orr__max_ns(reach, op->end_ns);
        previous = index;
    }
}

enum orr_status orr_classes_walk(const struct orr_events *events, const struct orr_hosts *hosts,
                                 const struct orr_analysis_options *options, const uint8_t *bounds,
                                 uint32_t device, struct orr_interval window,
                                 const struct orr_memory *memory, const struct orr_walk *walk,
                                 struct orr_device_times *out_times) {
    *out_times = (struct orr_device_times){0};
    size_t first = events->device_first[device], end = events->device_first[device + 1];
    out_times->ops = end - first;
    if (first == end) {
        return ORR_OK;
    }
    out_times->first_ns = out_times->last_ns = events->ops[events->device_order[first]].start_ns;
    for (size_t i = first; i < end; i++) {
        out_times->last_ns =
            orr__max_ns(out_times->last_ns, events->ops[events->device_order[i]].end_ns);
    }
    out_times->span_ns = out_times->last_ns - out_times->first_ns;
    struct walker walker = {.events = events,
                            .hosts = hosts,
                            .options = options,
                            .walk = walk,
                            .times = out_times,
                            .window = {&window, window.begin_ns < window.end_ns, 1}};
    enum orr_status status = walk_busy(&walker, bounds, device, memory);
    if (status == ORR_OK) {
        walk_gaps(&walker, device);
        int64_t sum = 0;
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
            sum += out_times->classes[c];
        }
        assert(sum == out_times->span_ns);
        (void)sum;
    }
    return status;
}
