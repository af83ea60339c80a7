#include "analyzer/critical_path.h"

#include <assert.h>
#include <string.h>

#include "analyzer/roofline.h"
#include "analyzer/sort.h"
#include "analyzer/split.h"
#include "analyzer/times.h"

/* Ops of a stream looked at for one waiting call before giving up: only ends far out of order need
 * more than one. */
enum { SEARCH_MAX = 4096 };

const char *orr_path_kind_text(enum orr_path_kind kind) {
    static const char *const texts[] = {
#define ORR_PATH_TEXT(name, text) text,
        ORR_PATH_LIST(ORR_PATH_TEXT)
#undef ORR_PATH_TEXT
    };
    return kind < ORR_PATH_COUNT ? texts[kind] : "";
}

/* Where the walk is. */
struct walker {
    const struct orr_events *events;
    const struct orr_memory *memory;
    struct orr_critical_path *path;
    int64_t now;         /* everything from here to the end of the window is taken */
    uint32_t op;         /* at an op, or ORR_EVENTS_NONE */
    uint32_t thread;     /* at a host thread, or ORR_EVENTS_NONE; with neither the walk is over */
    uint32_t call;       /* the call at whose begin the thread was reached */
    uint8_t *seen;       /* a bit per op: each is passed at most once */
    size_t *waits_left;  /* by thread: waiting calls not yet passed */
    uint32_t *waits;     /* waiting calls by thread and end */
    size_t *waits_first; /* of each thread in waits */
    uint32_t *sync_of;   /* by call: its sync, or NONE */
    /* Made when a wait is met that is not for one stream, and there are many streams: all ops in
     * their order; and the largest end up to each place, of it and of the events' device_order. */
    uint32_t *all_order;
    int64_t *all_reach, *device_reach;
    enum orr_status status;
};

/* ------------------------------------------------------------------------------------------------
 * Taking intervals */

/* Takes [begin, now) and goes on at begin; clipped to the window. Adjacent ones of one kind, op and
 * call are one segment. Segments are collected backwards and reversed at the end. */
static void take(struct walker *w, int64_t begin_ns, enum orr_path_kind kind, uint32_t op,
                 uint32_t call) {
    struct orr_critical_path *path = w->path;
    begin_ns = orr__max_ns(begin_ns, path->begin_ns);
    if (begin_ns >= w->now) {
        return;
    }
    path->kinds[kind] += w->now - begin_ns;
    struct orr_path_segment *last =
        path->segment_count > 0 ? &path->segments[path->segment_count - 1] : NULL;
    if (last && last->kind == kind && last->op == op && last->call == call) {
        last->begin_ns = begin_ns;
        w->now = begin_ns;
        return;
    }
    enum orr_status status =
        orr_memory_grow(w->memory, &path->segments, &path->segment_capacity,
                        path->segment_count + 1, sizeof *path->segments, ORR_EVENTS_NONE - 1);
    if (status != ORR_OK) {
        w->status = status;
        return;
    }
    path->segments[path->segment_count++] =
        (struct orr_path_segment){begin_ns, w->now, kind, op, call};
    w->now = begin_ns;
}

static void stop(struct walker *w, enum orr_path_kind kind, uint32_t op, uint32_t call) {
    take(w, w->path->begin_ns, kind, op, call);
    w->op = w->thread = ORR_EVENTS_NONE;
}

static void go_to_op(struct walker *w, uint32_t op) {
    if (w->seen[op / 8] & (1u << (op % 8))) {
        w->path->broken = true;
        stop(w, ORR_PATH_UNKNOWN, op, ORR_EVENTS_NONE);
        return;
    }
    w->seen[op / 8] |= (uint8_t)(1u << (op % 8));
    w->op = op;
    w->thread = ORR_EVENTS_NONE;
}

/* Takes [a, now) of a call and goes on on its thread. */
static void go_to_call(struct walker *w, uint32_t call) {
    const struct orr_events_call *c = &w->events->calls[call];
    take(w, c->begin_ns, ORR_PATH_LAUNCH, ORR_EVENTS_NONE, call);
    w->now = orr__min_ns(w->now, orr__max_ns(c->begin_ns, w->path->begin_ns));
    w->op = ORR_EVENTS_NONE;
    w->thread = c->thread;
    w->call = call;
}

/* ------------------------------------------------------------------------------------------------
 * At an op */

static enum orr_path_kind kind_of(const struct orr_events_op *op) {
    return op->activity == ORR_ACTIVITY_COMPUTE ? ORR_PATH_COMPUTE
           : op->activity == ORR_ACTIVITY_COMM  ? ORR_PATH_COMM
                                                : ORR_PATH_COPY;
}

/* What an op waited for: an op, or what a call enqueued later than that op's end (a record that was
 * itself late, a host function). */
static void go_to_dependency(struct walker *w, const struct orr_events_op *op, uint32_t index) {
    int64_t op_end =
        op->wait_op == ORR_EVENTS_NONE ? INT64_MIN : w->events->ops[op->wait_op].end_ns;
    if (op_end < w->now && op->wait_call != ORR_EVENTS_NONE) {
        int64_t enqueued = orr__min_ns(w->events->calls[op->wait_call].end_ns, w->now);
        if (enqueued > op_end) {
            take(w, enqueued, ORR_PATH_DEP_WAIT, index, ORR_EVENTS_NONE);
            go_to_call(w, op->wait_call);
            return;
        }
    }
    if (op->wait_op == ORR_EVENTS_NONE) {
        stop(w, ORR_PATH_UNKNOWN, index, ORR_EVENTS_NONE);
        return;
    }
    take(w, op_end, ORR_PATH_DEP_WAIT, index, ORR_EVENTS_NONE);
    go_to_op(w, op->wait_op);
}

/* d of an op, unless what it waited for had not even begun at its start: then it waited for nothing
 * (a violation), and the walk must not leave the past. */
static int64_t dependency_of(const struct orr_events *events, const struct orr_events_op *op) {
    bool later = op->wait_op != ORR_EVENTS_NONE && op->wait_ns > op->start_ns &&
                 events->ops[op->wait_op].start_ns >= op->start_ns;
    return later ? ORR_TIME_NONE : orr__min_ns(op->wait_ns, op->start_ns);
}

/* The latest of x, p and d, each clamped to s; of equals p before d before x. d counts only if it
 * is known who it was. */
static void go_to_binding(struct walker *w, uint32_t index) {
    const struct orr_events_op *op = &w->events->ops[index];
    int64_t s = op->start_ns;
    int64_t x = orr__min_ns(w->events->calls[op->call].end_ns, s);
    int64_t p = orr__min_ns(orr_events_previous_end(w->events, op), s);
    int64_t d = dependency_of(w->events, op);
    int64_t binding = orr__max_ns(x, orr__max_ns(p, d));
    bool source = op->wait_op != ORR_EVENTS_NONE || op->wait_call != ORR_EVENTS_NONE;
    take(w, binding, ORR_PATH_DISPATCH, index, ORR_EVENTS_NONE);
    if (binding == d && d > p && d > x && !source) {
        /* It waited until d, for something the trace does not name. */
        binding = orr__max_ns(x, p);
        take(w, binding, ORR_PATH_UNKNOWN, index, ORR_EVENTS_NONE);
    }
    if (p == binding && op->prev_op != ORR_EVENTS_NONE) {
        go_to_op(w, op->prev_op);
    } else if (d == binding && source) {
        go_to_dependency(w, op, index);
    } else {
        go_to_call(w, op->call);
    }
}

/* An op without a usable call: what comes before it is unknown up to the op before it. */
static void go_before_unknown(struct walker *w, uint32_t index) {
    const struct orr_events_op *op = &w->events->ops[index];
    if (op->prev_op == ORR_EVENTS_NONE) {
        stop(w, ORR_PATH_UNKNOWN, index, ORR_EVENTS_NONE);
        return;
    }
    take(w, orr_events_previous_end(w->events, op), ORR_PATH_UNKNOWN, index, ORR_EVENTS_NONE);
    go_to_op(w, op->prev_op);
}

static void step_op(struct walker *w) {
    const struct orr_events *events = w->events;
    uint32_t index = w->op;
    const struct orr_events_op *op = &events->ops[index];
    uint32_t last =
        op->collective == ORR_EVENTS_NONE ? index : events->collectives[op->collective].last;
    const struct orr_events_op *bound = &events->ops[last];
    /* The member that arrived last binds the others: before its start they only waited for it. */
    int64_t from = last == index ? op->start_ns : orr__max_ns(op->start_ns, bound->start_ns);
    take(w, from, kind_of(op), index, ORR_EVENTS_NONE);
    if (last != index && bound->start_ns >= op->start_ns && bound->start_ns <= w->now &&
        !(w->seen[last / 8] & (1u << (last % 8)))) {
        go_to_op(w, last);
        return;
    }
    take(w, op->start_ns, kind_of(op), index, ORR_EVENTS_NONE);
    if (!orr_events_linked(op) || orr_events_early(events, op)) {
        go_before_unknown(w, index);
    } else {
        go_to_binding(w, index);
    }
}

/* ------------------------------------------------------------------------------------------------
 * On a thread */

/* Op of a stream with the largest end <= until among those enqueued before `before`, or NONE. */
static uint32_t last_of_stream(const struct orr_events *events, uint32_t stream, int64_t until,
                               int64_t before) {
    size_t low = events->stream_first[stream], high = events->stream_first[stream + 1];
    size_t first = low;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (events->ops[events->stream_order[middle]].start_ns <= until) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t best = ORR_EVENTS_NONE;
    for (unsigned looked = 0; low > first && looked < SEARCH_MAX; looked++) {
        low--;
        if (best != ORR_EVENTS_NONE && events->stream_reach[low] <= events->ops[best].end_ns) {
            break;
        }
        uint32_t index = events->stream_order[low];
        const struct orr_events_op *op = &events->ops[index];
        int64_t enqueued = orr_events_linked(op) ? events->calls[op->call].begin_ns : op->start_ns;
        bool later = best == ORR_EVENTS_NONE || op->end_ns > events->ops[best].end_ns;
        if (op->end_ns <= until && enqueued < before && later) {
            best = index;
        }
    }
    return best;
}

/* Above so many streams, ops are looked for by device, or among all, not stream by stream. */
enum { STREAMS_FEW = 64 };

static void fill_reach(const struct orr_events *events, const uint32_t *order, size_t count,
                       int64_t *reach) {
    for (size_t i = 0; i < count; i++) {
        int64_t end = events->ops[order[i]].end_ns;
        reach[i] = i > 0 ? orr__max_ns(reach[i - 1], end) : end;
    }
}

static enum orr_status make_reaches(struct walker *w) {
    const struct orr_events *events = w->events;
    size_t count = events->op_count;
    if (w->all_order) {
        return ORR_OK;
    }
    w->all_order = orr_memory_resize(w->memory, NULL, count * sizeof *w->all_order);
    w->all_reach = orr_memory_resize(w->memory, NULL, count * sizeof *w->all_reach);
    w->device_reach = orr_memory_resize(w->memory, NULL, count * sizeof *w->device_reach);
    if (!w->all_order || !w->all_reach || !w->device_reach) {
        return ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < events->device_count; d++) {
        size_t first = events->device_first[d];
        fill_reach(events, events->device_order + first, events->device_first[d + 1] - first,
                   w->device_reach + first);
    }
    memcpy(w->all_order, events->device_order, count * sizeof *w->all_order);
    enum orr_status status =
        orr__sort_indices(w->memory, w->all_order, count, orr__events_op_before, events);
    fill_reach(events, w->all_order, count, w->all_reach);
    return status;
}

/* Ops in their order, or some of them, as last_among looks at them. */
struct ordered {
    const uint32_t *order;
    const int64_t *reach;
    size_t count;
    bool one_process; /* of all processes, only this one */
    uint64_t process;
};

/* As last_of_stream, among ops of several streams: of equal ends that of the first stream. */
static uint32_t last_among(const struct orr_events *events, const struct ordered *ops,
                           int64_t until, int64_t before) {
    size_t low = 0, high = ops->count, looked_max = SEARCH_MAX + 2 * events->stream_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (events->ops[ops->order[middle]].start_ns <= until) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t best = ORR_EVENTS_NONE;
    for (size_t looked = 0; low > 0 && looked < looked_max; looked++) {
        low--;
        if (best != ORR_EVENTS_NONE && ops->reach[low] < events->ops[best].end_ns) {
            break;
        }
        uint32_t index = ops->order[low];
        const struct orr_events_op *op = &events->ops[index];
        int64_t enqueued = orr_events_linked(op) ? events->calls[op->call].begin_ns : op->start_ns;
        if (op->end_ns > until || enqueued >= before ||
            (ops->one_process && events->streams[op->stream].process != ops->process)) {
            continue;
        }
        const struct orr_events_op *so_far = best == ORR_EVENTS_NONE ? NULL : &events->ops[best];
        bool later = !so_far || op->end_ns > so_far->end_ns ||
                     (op->end_ns == so_far->end_ns && op->stream < so_far->stream);
        best = later ? index : best;
    }
    return best;
}

/* Op that a wait for a device, or for all of a process, waited for last, among many streams. */
static uint32_t awaited_among_many(struct walker *w, const struct orr_events_call *call,
                                   const struct orr_events_sync *sync) {
    const struct orr_events *events = w->events;
    enum orr_status status = make_reaches(w);
    if (status != ORR_OK) {
        w->status = status;
        return ORR_EVENTS_NONE;
    }
    struct ordered ops = {w->all_order, w->all_reach, events->op_count, true,
                          events->threads[call->thread].process};
    if (sync && sync->kind == ORR_SYNC_TARGET_DEVICE) {
        size_t first = events->device_first[sync->target];
        ops = (struct ordered){events->device_order + first, w->device_reach + first,
                               events->device_first[sync->target + 1] - first, false, 0};
    }
    return last_among(events, &ops, call->end_ns, call->begin_ns);
}

/* Op that a waiting call waited for last: of its stream, of its device, or of all of its process if
 * it does not say. */
static uint32_t awaited_op(struct walker *w, uint32_t call) {
    const struct orr_events *events = w->events;
    const struct orr_events_call *c = &events->calls[call];
    const struct orr_events_sync *sync =
        w->sync_of[call] == ORR_EVENTS_NONE ? NULL : &events->syncs[w->sync_of[call]];
    enum orr_sync_target kind = sync ? sync->kind : ORR_SYNC_TARGET_UNKNOWN;
    if (kind == ORR_SYNC_TARGET_OP) {
        return events->ops[sync->target].end_ns <= c->end_ns ? sync->target : ORR_EVENTS_NONE;
    }
    if (kind == ORR_SYNC_TARGET_STREAM) {
        return last_of_stream(events, sync->target, c->end_ns, c->begin_ns);
    }
    if (events->stream_count > STREAMS_FEW) {
        return awaited_among_many(w, c, sync);
    }
    uint32_t best = ORR_EVENTS_NONE;
    for (uint32_t s = 0; s < events->stream_count; s++) {
        bool watched = kind == ORR_SYNC_TARGET_DEVICE
                           ? events->streams[s].device == sync->target
                           : events->streams[s].process == events->threads[c->thread].process;
        if (!watched) {
            continue;
        }
        uint32_t op = last_of_stream(events, s, c->end_ns, c->begin_ns);
        bool later = op != ORR_EVENTS_NONE &&
                     (best == ORR_EVENTS_NONE || events->ops[op].end_ns > events->ops[best].end_ns);
        best = later ? op : best;
    }
    return best;
}

static void step_thread(struct walker *w) {
    const struct orr_events *events = w->events;
    uint32_t thread = w->thread;
    size_t first = w->waits_first[thread], *left = &w->waits_left[thread];
    while (*left > 0 && events->calls[w->waits[first + *left - 1]].end_ns > w->now) {
        (*left)--;
    }
    if (*left == 0) {
        stop(w, ORR_PATH_HOST, ORR_EVENTS_NONE, w->call);
        return;
    }
    (*left)--;
    uint32_t call = w->waits[first + *left];
    const struct orr_events_call *c = &events->calls[call];
    take(w, c->end_ns, ORR_PATH_HOST, ORR_EVENTS_NONE, w->call);
    uint32_t op = awaited_op(w, call);
    w->call = call;
    if (op != ORR_EVENTS_NONE && events->ops[op].end_ns > c->begin_ns) {
        take(w, events->ops[op].end_ns, ORR_PATH_SYNC, ORR_EVENTS_NONE, call);
        go_to_op(w, op);
    } else {
        take(w, c->begin_ns, ORR_PATH_HOST, ORR_EVENTS_NONE, call);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Preparation */

static bool wait_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events *events = context;
    const struct orr_events_call *x = &events->calls[a], *y = &events->calls[b];
    if (x->end_ns != y->end_ns) {
        return x->end_ns < y->end_ns;
    }
    return x->begin_ns != y->begin_ns ? x->begin_ns < y->begin_ns : strcmp(x->name, y->name) < 0;
}

static enum orr_status list_waits(struct walker *w) {
    const struct orr_events *events = w->events;
    size_t count = 0;
    for (size_t c = 0; c < events->call_count; c++) {
        count += (events->calls[c].flags & ORR_CALL_WAITING) != 0;
    }
    orr__events_find_syncs(events, w->sync_of);
    w->waits = orr_memory_resize(w->memory, NULL, count * sizeof *w->waits);
    if (!w->waits) {
        return ORR_NO_MEMORY;
    }
    enum orr_status status = ORR_OK;
    size_t made = 0;
    for (size_t t = 0; t < events->thread_count && status == ORR_OK; t++) {
        w->waits_first[t] = made;
        for (size_t i = events->thread_first[t]; i < events->thread_first[t + 1]; i++) {
            if (events->calls[events->thread_order[i]].flags & ORR_CALL_WAITING) {
                w->waits[made++] = events->thread_order[i];
            }
        }
        w->waits_left[t] = made - w->waits_first[t];
        status = orr__sort_indices(w->memory, w->waits + w->waits_first[t], w->waits_left[t],
                                   wait_before, events);
    }
    return status;
}

static enum orr_status create_walker(struct walker *w) {
    const struct orr_events *events = w->events;
    w->seen = orr_memory_alloc(w->memory, events->op_count / 8 + 1);
    w->waits_left = orr_memory_alloc(w->memory, events->thread_count * sizeof *w->waits_left);
    w->waits_first = orr_memory_alloc(w->memory, events->thread_count * sizeof *w->waits_first);
    w->sync_of = orr_memory_alloc(w->memory, events->call_count * sizeof *w->sync_of);
    if (!w->seen || !w->waits_left || !w->waits_first || !w->sync_of) {
        return ORR_NO_MEMORY;
    }
    return list_waits(w);
}

static void free_walker(struct walker *w) {
    orr_memory_free(w->memory, w->seen);
    orr_memory_free(w->memory, w->waits_left);
    orr_memory_free(w->memory, w->waits_first);
    orr_memory_free(w->memory, w->waits);
    orr_memory_free(w->memory, w->sync_of);
    orr_memory_free(w->memory, w->all_order);
    orr_memory_free(w->memory, w->all_reach);
    orr_memory_free(w->memory, w->device_reach);
}

/* The op whose end, clipped to the window, is latest; of equals the first in the order of all
 * ops. */
static uint32_t last_op(const struct orr_events *events, int64_t begin_ns, int64_t end_ns) {
    uint32_t best = ORR_EVENTS_NONE;
    int64_t best_end = begin_ns;
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        int64_t end = orr__min_ns(op->end_ns, end_ns);
        if (op->start_ns >= end_ns || end <= begin_ns || end < best_end) {
            continue;
        }
        if (best == ORR_EVENTS_NONE || end > best_end ||
            orr__events_op_before(events, (uint32_t)i, best)) {
            best = (uint32_t)i;
            best_end = end;
        }
    }
    return best;
}

static void reverse(struct orr_critical_path *path) {
    for (size_t i = 0, j = path->segment_count; i + 1 < j; i++) {
        j--;
        struct orr_path_segment swap = path->segments[i];
        path->segments[i] = path->segments[j];
        path->segments[j] = swap;
    }
}

static void walk(struct walker *w) {
    struct orr_critical_path *path = w->path;
    uint32_t op = last_op(w->events, path->begin_ns, path->end_ns);
    if (op == ORR_EVENTS_NONE) {
        stop(w, ORR_PATH_UNKNOWN, ORR_EVENTS_NONE, ORR_EVENTS_NONE);
        return;
    }
    take(w, w->events->ops[op].end_ns, ORR_PATH_UNKNOWN, ORR_EVENTS_NONE, ORR_EVENTS_NONE);
    go_to_op(w, op);
    while (w->now > path->begin_ns && w->status == ORR_OK) {
        if (w->op != ORR_EVENTS_NONE) {
            step_op(w);
        } else if (w->thread != ORR_EVENTS_NONE) {
            step_thread(w);
        } else {
            break;
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Operators on the path */

struct by_time {
    const struct orr_events *events;
    const struct orr_path_operator *items;
};

static bool longer(const void *context, uint32_t a, uint32_t b) {
    const struct by_time *sort = context;
    if (sort->items[a].time_ns != sort->items[b].time_ns) {
        return sort->items[a].time_ns > sort->items[b].time_ns;
    }
    const struct orr_events_operator *operators = sort->events->operators;
    return orr__operator_compare(&operators[sort->items[a].operator_index],
                                 &operators[sort->items[b].operator_index]) < 0;
}

static enum orr_status sum_operators(const struct orr_events *events,
                                     const struct orr_memory *memory,
                                     struct orr_critical_path *path) {
    size_t count = 0, all = events->operator_count;
    struct orr_path_operator *sums = orr_memory_alloc(memory, all * sizeof *sums);
    uint32_t *order = orr_memory_resize(memory, NULL, all * sizeof *order);
    enum orr_status status = sums && order ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < path->segment_count && status == ORR_OK; i++) {
        const struct orr_path_segment *segment = &path->segments[i];
        if (segment->kind <= ORR_PATH_COPY) {
            uint32_t item = events->ops[segment->op].operator_index;
            sums[item].operator_index = item;
            sums[item].count++;
            sums[item].time_ns += segment->end_ns - segment->begin_ns;
        }
    }
    for (size_t i = 0; i < all && status == ORR_OK; i++) {
        if (sums[i].count > 0) {
            order[count++] = (uint32_t)i;
        }
    }
    if (status == ORR_OK) {
        struct by_time context = {events, sums};
        status = orr__sort_indices(memory, order, count, longer, &context);
    }
    path->operators = orr_memory_resize(memory, NULL, count * sizeof *path->operators);
    status = path->operators ? status : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        path->operators[i] = sums[order[i]];
    }
    path->operator_count = status == ORR_OK ? count : 0;
    orr_memory_free(memory, sums);
    orr_memory_free(memory, order);
    return status;
}

enum orr_status orr_critical_path_compute(const struct orr_events *events, int64_t begin_ns,
                                          int64_t end_ns, const struct orr_memory *memory,
                                          struct orr_critical_path *out_path) {
    assert(begin_ns <= end_ns);
    *out_path = (struct orr_critical_path){.begin_ns = begin_ns, .end_ns = end_ns};
    struct walker walker = {.events = events,
                            .memory = memory,
                            .path = out_path,
                            .now = end_ns,
                            .op = ORR_EVENTS_NONE,
                            .thread = ORR_EVENTS_NONE,
                            .call = ORR_EVENTS_NONE};
    enum orr_status status = create_walker(&walker);
    if (status == ORR_OK && begin_ns < end_ns) {
        walk(&walker);
        status = walker.status;
    }
    free_walker(&walker);
    if (status == ORR_OK) {
        assert(walker.now == begin_ns);
        reverse(out_path);
        status = sum_operators(events, memory, out_path);
    }
    if (status != ORR_OK) {
        orr_critical_path_free(memory, out_path);
    }
    return status;
}

void orr_critical_path_free(const struct orr_memory *memory, struct orr_critical_path *path) {
    orr_memory_free(memory, path->segments);
    orr_memory_free(memory, path->operators);
    *path = (struct orr_critical_path){0};
}
