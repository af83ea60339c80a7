#include "analyzer/rank_bubble.h"

#include <string.h>

#include "analyzer/hosts.h"
#include "analyzer/sort.h"
#include "analyzer/steps.h"
#include "analyzer/times.h"

/* A step of a pipeline. */
struct window {
    uint32_t pipeline;
    uint64_t step;
    int64_t begin_ns, end_ns;
};

struct finder {
    const struct orr_ranks *ranks;
    const struct orr_analysis *whole;
    const struct orr_memory *memory;
    uint32_t *pipeline_of; /* by rank: the lowest rank that pairs connect it with, NONE */
    uint32_t *rank_of;     /* by device of the whole: index of its rank, or NONE */
    struct orr_steps steps;
    struct window *windows; /* by pipeline, begin, step */
    size_t window_count, window_capacity;
    struct orr_intervals transfers; /* of the rank being walked */
    struct orr_rank_bubbles *out;
    /* Of the walk: rows of the device, in the order of its windows, and where the pieces are. */
    size_t first_row, row_count, busy_at, idle_at;
};

/* ------------------------------------------------------------------------------------------------
 * Pipelines */

static uint32_t root_of(uint32_t *parents, uint32_t rank) {
    while (parents[rank] != rank) {
        parents[rank] = parents[parents[rank]];
        rank = parents[rank];
    }
    return rank;
}

static void connect(struct finder *f) {
    const struct orr_ranks *ranks = f->ranks;
    for (uint32_t r = 0; r < ranks->count; r++) {
        f->pipeline_of[r] = r;
    }
    for (size_t i = 0; i < ranks->collective_count; i++) {
        const struct orr_ranks_collective *c = &ranks->collectives[i];
        if (c->how == ORR_RANKS_PAIR) {
            uint32_t a = root_of(f->pipeline_of, ranks->members[c->first].rank);
            uint32_t b = root_of(f->pipeline_of, ranks->members[c->first + 1].rank);
            f->pipeline_of[a > b ? a : b] = a < b ? a : b;
        }
    }
    for (uint32_t r = 0; r < ranks->count; r++) {
        f->pipeline_of[r] = root_of(f->pipeline_of, r);
    }
}

static uint32_t stages_of(const struct finder *f, uint32_t pipeline) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < f->ranks->count; r++) {
        count += f->pipeline_of[r] == pipeline;
    }
    return count;
}

static void find_devices(struct finder *f) {
    const struct orr_events *events = &f->whole->events;
    for (size_t d = 0; d < events->device_count; d++) {
        uint32_t number = orr_ranks_of_device(f->whole->timeline, events->devices[d].id);
        f->rank_of[d] = ORR_EVENTS_NONE;
        for (uint32_t r = 0; r < f->ranks->count; r++) {
            if (f->ranks->items[r].rank == number && stages_of(f, f->pipeline_of[r]) > 1) {
                f->rank_of[d] = r;
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Windows */

static bool step_of(const struct finder *f, const struct orr_events_op *op, uint64_t *out_step) {
    const struct orr_events *events = &f->whole->events;
    *out_step = 0;
    if (f->steps.count == 0) {
        return true;
    }
    if (!orr_events_linked(op)) {
        return false;
    }
    const struct orr_events_call *call = &events->calls[op->call];
    uint32_t step = orr_steps_at(&f->steps, events->threads[call->thread].process, call->begin_ns);
    if (step == ORR_STEP_NONE) {
        return false;
    }
    *out_step = f->steps.items[step].number;
    return true;
}

/* Ops of a device are in order of time: most are of the step of the one before. */
static enum orr_status add_op(struct finder *f, const struct orr_events_op *op, uint32_t pipeline) {
    uint64_t step;
    if (op->activity != ORR_ACTIVITY_COMPUTE || !step_of(f, op, &step)) {
        return ORR_OK;
    }
    struct window *last = f->window_count > 0 ? &f->windows[f->window_count - 1] : NULL;
    if (last && last->pipeline == pipeline && last->step == step) {
        last->begin_ns = orr__min_ns(last->begin_ns, op->start_ns);
        last->end_ns = orr__max_ns(last->end_ns, op->end_ns);
        return ORR_OK;
    }
    enum orr_status status =
        orr_memory_grow(f->memory, &f->windows, &f->window_capacity, f->window_count + 1,
                        sizeof *f->windows, ORR_EVENTS_NONE - 1);
    if (status == ORR_OK) {
        f->windows[f->window_count++] = (struct window){pipeline, step, op->start_ns, op->end_ns};
    }
    return status;
}

static bool same_step_before(const void *context, uint32_t a, uint32_t b) {
    const struct window *x = (const struct window *)context + a;
    const struct window *y = (const struct window *)context + b;
    return x->pipeline != y->pipeline ? x->pipeline < y->pipeline : x->step < y->step;
}

static bool window_before(const void *context, uint32_t a, uint32_t b) {
    const struct window *x = (const struct window *)context + a;
    const struct window *y = (const struct window *)context + b;
    if (x->pipeline != y->pipeline) {
        return x->pipeline < y->pipeline;
    }
    return x->begin_ns != y->begin_ns ? x->begin_ns < y->begin_ns : x->step < y->step;
}

static enum orr_status sort_windows(struct finder *f,
                                    bool (*before)(const void *, uint32_t, uint32_t)) {
    size_t count = f->window_count;
    uint32_t *order = orr_memory_resize(f->memory, NULL, count * sizeof *order + 1);
    struct window *sorted = orr_memory_resize(f->memory, NULL, count * sizeof *sorted + 1);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(f->memory, order, count, before, f->windows);
    }
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        sorted[i] = f->windows[order[i]];
    }
    if (status == ORR_OK) {
        memcpy(f->windows, sorted, count * sizeof *sorted);
    }
    orr_memory_free(f->memory, order);
    orr_memory_free(f->memory, sorted);
    return status;
}

static enum orr_status find_windows(struct finder *f) {
    const struct orr_events *events = &f->whole->events;
    enum orr_status status = ORR_OK;
    for (size_t d = 0; d < events->device_count; d++) {
        if (f->rank_of[d] == ORR_EVENTS_NONE) {
            continue;
        }
        for (size_t i = events->device_first[d]; i < events->device_first[d + 1]; i++) {
            const struct orr_events_op *op = &events->ops[events->device_order[i]];
            status = status == ORR_OK ? add_op(f, op, f->pipeline_of[f->rank_of[d]]) : status;
        }
    }
    status = status == ORR_OK ? sort_windows(f, same_step_before) : status;
    if (status != ORR_OK) {
        return status;
    }
    size_t kept = 0;
    for (size_t i = 0; i < f->window_count; i++) {
        struct window *last = kept > 0 ? &f->windows[kept - 1] : NULL;
        const struct window *w = &f->windows[i];
        if (last && last->pipeline == w->pipeline && last->step == w->step) {
            last->begin_ns = orr__min_ns(last->begin_ns, w->begin_ns);
            last->end_ns = orr__max_ns(last->end_ns, w->end_ns);
        } else {
            f->windows[kept++] = *w;
        }
    }
    f->window_count = kept;
    return sort_windows(f, window_before);
}

/* ------------------------------------------------------------------------------------------------
 * What a rank does in each window */

static bool shorter_start(const void *context, uint32_t a, uint32_t b) {
    const struct orr_interval *items = context;
    return items[a].begin_ns < items[b].begin_ns;
}

/* When the rank's collectives really transferred. */
static enum orr_status find_transfers(struct finder *f, uint32_t rank) {
    const struct orr_ranks *ranks = f->ranks;
    size_t count = 0, room = (size_t)ranks->items[rank].matched + 1;
    struct orr_interval *items = orr_memory_resize(f->memory, NULL, room * sizeof *items);
    uint32_t *order = orr_memory_resize(f->memory, NULL, room * sizeof *order);
    f->transfers.count = 0;
    enum orr_status status = items && order ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < ranks->collective_count && status == ORR_OK; i++) {
        const struct orr_ranks_collective *c = &ranks->collectives[i];
        bool its = false;
        for (size_t m = 0; m < c->count && c->comparable; m++) {
            its = its || ranks->members[c->first + m].rank == rank;
        }
        if (its && c->transfer_ns > 0) {
            order[count] = (uint32_t)count;
            items[count++] = (struct orr_interval){c->arrival_ns, c->arrival_ns + c->transfer_ns};
        }
    }
    status = status == ORR_OK ? orr__sort_indices(f->memory, order, count, shorter_start, items)
                              : status;
    status = status == ORR_OK ? orr__intervals_reserve(f->memory, &f->transfers, count) : status;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        orr__intervals_add(&f->transfers, items[order[i]].begin_ns, items[order[i]].end_ns);
    }
    orr_memory_free(f->memory, items);
    orr_memory_free(f->memory, order);
    return status;
}

static int64_t transferred(const struct finder *f, int64_t begin_ns, int64_t end_ns) {
    int64_t sum = 0;
    for (size_t i = orr__intervals_find(&f->transfers, begin_ns);
         i < f->transfers.count && f->transfers.items[i].begin_ns < end_ns; i++) {
        sum += orr__min_ns(end_ns, f->transfers.items[i].end_ns) -
               orr__max_ns(begin_ns, f->transfers.items[i].begin_ns);
    }
    return sum;
}

/* Calls `add` for each row that a piece lies in, at least in part. Pieces ascend, and what ends
 * before one begins is passed for good. */
static void each_row(struct finder *f, size_t *at, int64_t begin_ns, int64_t end_ns, int kind,
                     void (*add)(struct finder *f, struct orr_rank_bubble *row, int kind,
                                 int64_t begin_ns, int64_t end_ns)) {
    struct orr_rank_bubble *rows = &f->out->items[f->first_row];
    while (*at < f->row_count && rows[*at].end_ns <= begin_ns) {
        (*at)++;
    }
    for (size_t i = *at; i < f->row_count && rows[i].begin_ns < end_ns; i++) {
        int64_t from = orr__max_ns(begin_ns, rows[i].begin_ns);
        int64_t to = orr__min_ns(end_ns, rows[i].end_ns);
        if (from < to) {
            add(f, &rows[i], kind, from, to);
        }
    }
}

static void add_busy(struct finder *f, struct orr_rank_bubble *row, int kind, int64_t begin_ns,
                     int64_t end_ns) {
    int64_t length = end_ns - begin_ns;
    if (kind == ORR_BUSY_COMM) {
        int64_t moved = transferred(f, begin_ns, end_ns);
        row->transfer_ns += moved;
        row->classes[ORR_CLASS_EXPOSED_COMM] += length - moved;
    } else if (kind == ORR_BUSY_COPY) {
        row->classes[ORR_CLASS_EXPOSED_COPY] += length;
    } else {
        row->compute_ns += length;
    }
}

static void add_idle(struct finder *f, struct orr_rank_bubble *row, int kind, int64_t begin_ns,
                     int64_t end_ns) {
    (void)f;
    row->classes[kind] += end_ns - begin_ns;
}

static void take_busy(void *context, enum orr_busy busy, int64_t begin_ns, int64_t end_ns) {
    struct finder *f = context;
    each_row(f, &f->busy_at, begin_ns, end_ns, (int)busy, add_busy);
}

static void take_idle(void *context, enum orr_class class_, int64_t begin_ns, int64_t end_ns) {
    struct finder *f = context;
    each_row(f, &f->idle_at, begin_ns, end_ns, (int)class_, add_idle);
}

static void ignore_gap(void *context, const struct orr_gap *gap) {
    (void)context;
    (void)gap;
}

/* Outside the device's first and last op. */
static void add_outside(struct orr_rank_bubble *row, const struct orr_device_times *times) {
    int64_t first = times->ops > 0 ? times->first_ns : row->end_ns;
    int64_t last = times->ops > 0 ? times->last_ns : row->end_ns;
    row->classes[ORR_CLASS_BEFORE_FIRST] +=
        orr__max_ns(0, orr__min_ns(first, row->end_ns) - row->begin_ns);
    row->classes[ORR_CLASS_AFTER_LAST] +=
        orr__max_ns(0, row->end_ns - orr__max_ns(last, row->begin_ns));
}

static uint64_t microbatches_in(const struct finder *f, uint32_t pipeline, int64_t begin_ns,
                                int64_t end_ns) {
    const struct orr_ranks *ranks = f->ranks;
    uint64_t count = 0;
    uint32_t next = pipeline + 1;
    while (next < ranks->count && f->pipeline_of[next] != pipeline) {
        next++;
    }
    for (size_t i = 0; i < ranks->collective_count; i++) {
        const struct orr_ranks_collective *c = &ranks->collectives[i];
        const struct orr_ranks_member *members = &ranks->members[c->first];
        count += c->how == ORR_RANKS_PAIR && c->source == pipeline && members[0].rank == pipeline &&
                 members[1].rank == next && c->arrival_ns >= begin_ns && c->arrival_ns < end_ns;
    }
    return count;
}

static enum orr_status add_rows(struct finder *f, uint32_t rank) {
    struct orr_rank_bubbles *out = f->out;
    f->first_row = out->count;
    for (size_t i = 0; i < f->window_count; i++) {
        const struct window *w = &f->windows[i];
        if (w->pipeline != f->pipeline_of[rank]) {
            continue;
        }
        enum orr_status status =
            orr_memory_grow(f->memory, &out->items, &out->capacity, out->count + 1,
                            sizeof *out->items, SIZE_MAX / 512);
        if (status != ORR_OK) {
            return status;
        }
        out->items[out->count++] = (struct orr_rank_bubble){
            .pipeline = w->pipeline,
            .rank = rank,
            .stages = stages_of(f, w->pipeline),
            .has_step = f->steps.count > 0,
            .step = w->step,
            .begin_ns = w->begin_ns,
            .end_ns = w->end_ns,
            .microbatches = microbatches_in(f, w->pipeline, w->begin_ns, w->end_ns)};
    }
    f->row_count = out->count - f->first_row;
    f->busy_at = f->idle_at = 0;
    return ORR_OK;
}

static enum orr_status walk_device(struct finder *f, const struct orr_hosts *hosts,
                                   uint32_t device) {
    const struct orr_analysis *a = f->whole;
    struct orr_device_times times;
    struct orr_walk walk = {take_busy, take_idle, ignore_gap, f};
    struct orr_interval window = {a->begin_ns, a->end_ns};
    enum orr_status status = find_transfers(f, f->rank_of[device]);
    status = status == ORR_OK ? add_rows(f, f->rank_of[device]) : status;
    if (status == ORR_OK) {
        status = orr_classes_walk(&a->events, hosts, &a->options, a->roofline.bounds, device,
                                  window, f->memory, &walk, &times);
    }
    for (size_t i = 0; i < f->row_count && status == ORR_OK; i++) {
        struct orr_rank_bubble *row = &f->out->items[f->first_row + i];
        add_outside(row, &times);
        row->bubble_ns = row->end_ns - row->begin_ns - row->compute_ns - row->transfer_ns;
    }
    return status;
}

static enum orr_status find_bubbles(struct finder *f) {
    const struct orr_events *events = &f->whole->events;
    struct orr_hosts hosts = {0};
    connect(f);
    find_devices(f);
    enum orr_status status = orr_steps_find(f->whole->timeline, f->memory, &f->steps);
    status = status == ORR_OK ? find_windows(f) : status;
    status = status == ORR_OK ? orr_hosts_create(events, f->memory, &hosts) : status;
    for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        status = f->rank_of[d] == ORR_EVENTS_NONE ? ORR_OK : walk_device(f, &hosts, d);
    }
    orr_hosts_free(f->memory, &hosts);
    return status;
}

static bool has_pairs(const struct orr_ranks *ranks) {
    for (size_t i = 0; i < ranks->collective_count; i++) {
        if (ranks->collectives[i].how == ORR_RANKS_PAIR) {
            return true;
        }
    }
    return false;
}

enum orr_status orr_rank_bubbles_compute(const struct orr_ranks *ranks,
                                         const struct orr_analysis *whole,
                                         const struct orr_memory *memory,
                                         struct orr_rank_bubbles *out) {
    *out = (struct orr_rank_bubbles){0};
    if (!ranks->aligned || !whole->timeline || !has_pairs(ranks)) {
        return ORR_OK;
    }
    struct finder f = {.ranks = ranks, .whole = whole, .memory = memory, .out = out};
    f.pipeline_of = orr_memory_resize(memory, NULL, ranks->count * sizeof *f.pipeline_of + 1);
    f.rank_of = orr_memory_resize(memory, NULL, whole->events.device_count * sizeof *f.rank_of + 1);
    enum orr_status status = f.pipeline_of && f.rank_of ? find_bubbles(&f) : ORR_NO_MEMORY;
    orr_memory_free(memory, f.pipeline_of);
    orr_memory_free(memory, f.rank_of);
    orr_memory_free(memory, f.windows);
    orr_steps_free(memory, &f.steps);
    orr__intervals_free(memory, &f.transfers);
    if (status != ORR_OK) {
        orr_rank_bubbles_free(memory, out);
    }
    return status;
}

void orr_rank_bubbles_free(const struct orr_memory *memory, struct orr_rank_bubbles *bubbles) {
    orr_memory_free(memory, bubbles->items);
    *bubbles = (struct orr_rank_bubbles){0};
}
