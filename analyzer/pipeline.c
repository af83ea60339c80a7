#include "analyzer/pipeline.h"

#include <string.h>

#include "analyzer/communication.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

/* While pipelines are looked for. */
struct finder {
    const struct orr_events *events;
    struct orr_pipelines *out;
    uint32_t *parent;       /* by device: a forest, of which a tree is what edges connect */
    uint32_t *first_device; /* by collective: of its first op, NONE before it was met */
    uint8_t *stage_stream;  /* by stream */
};

static uint32_t device_of(const struct orr_events *events, const struct orr_events_op *op) {
    return events->streams[op->stream].device;
}

/* ------------------------------------------------------------------------------------------------
 * Edges */

static uint32_t root_of(const struct finder *f, uint32_t device) {
    while (f->parent[device] != device) {
        f->parent[device] = f->parent[f->parent[device]];
        device = f->parent[device];
    }
    return device;
}

static void join(const struct finder *f, uint32_t a, uint32_t b) {
    uint32_t x = root_of(f, a), y = root_of(f, b);
    f->parent[x > y ? x : y] = x > y ? y : x;
}

static bool in_window(const struct orr_pipelines *p, const struct orr_events_op *op) {
    return op->start_ns < p->end_ns && op->end_ns > p->begin_ns;
}

/* A send or receive: it reads or writes, but not both. */
static bool is_one_way(const struct orr_events_op *op) {
    return (op->bytes_read == 0) != (op->bytes_written == 0);
}

static void find_sends(struct finder *f) {
    const struct orr_events *events = f->events;
    for (size_t i = 0; i < events->collective_count; i++) {
        f->out->directed[i] = strcmp(events->collectives[i].kind, "send_receive") == 0;
        f->first_device[i] = ORR_EVENTS_NONE;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (op->collective != ORR_EVENTS_NONE && !is_one_way(op)) {
            f->out->directed[op->collective] = 0;
        }
    }
}

static bool is_send(const struct orr_pipelines *p, const struct orr_events_op *op) {
    return op->activity == ORR_ACTIVITY_COMM && op->collective != ORR_EVENTS_NONE &&
           p->directed[op->collective];
}

/* Did the latest op that it waited for run on another device? */
static bool crosses(const struct orr_events *events, const struct orr_events_op *op) {
    return op->wait_op != ORR_EVENTS_NONE &&
           device_of(events, &events->ops[op->wait_op]) != device_of(events, op);
}

/* A compute op at an edge. */
static void mark(struct finder *f, const struct orr_events_op *op) {
    if (op->activity == ORR_ACTIVITY_COMPUTE && in_window(f->out, op)) {
        struct orr_stage *stage = &f->out->stages[device_of(f->events, op)];
        stage->first_ns = orr__min_ns(stage->first_ns, op->start_ns);
        f->stage_stream[op->stream] = 1;
    }
}

/* A send joins its members, and what it sends is the work of a stage. */
static void add_send(struct finder *f, const struct orr_events_op *op) {
    uint32_t *first = &f->first_device[op->collective], device = device_of(f->events, op);
    if (*first == ORR_EVENTS_NONE) {
        *first = device;
    }
    join(f, *first, device);
    if (op->bytes_read > 0 && op->wait_op != ORR_EVENTS_NONE && !crosses(f->events, op)) {
        mark(f, &f->events->ops[op->wait_op]);
    }
}

/* What waits for another device, directly, or for what came from there by a receive or a copy. */
static void add_work(struct finder *f, const struct orr_events_op *op) {
    if (op->wait_op == ORR_EVENTS_NONE) {
        return;
    }
    const struct orr_events_op *awaited = &f->events->ops[op->wait_op];
    if (crosses(f->events, op)) {
        join(f, device_of(f->events, op), device_of(f->events, awaited));
        mark(f, op);
        mark(f, awaited);
    } else if (is_send(f->out, awaited)
                   ? awaited->bytes_written > 0
                   : awaited->activity == ORR_ACTIVITY_COPY && crosses(f->events, awaited)) {
        mark(f, op);
    }
}

static void find_edges(struct finder *f) {
    for (size_t i = 0; i < f->events->op_count; i++) {
        const struct orr_events_op *op = &f->events->ops[i];
        if (!in_window(f->out, op)) {
            continue;
        }
        if (is_send(f->out, op)) {
            add_send(f, op);
        } else if (op->activity != ORR_ACTIVITY_COMM) {
            add_work(f, op);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Pipelines */

static enum orr_status number_pipelines(struct finder *f, const struct orr_memory *memory) {
    struct orr_pipelines *out = f->out;
    for (uint32_t d = 0; d < out->device_count; d++) {
        if (out->stages[d].first_ns == INT64_MAX) {
            continue; /* no op at an edge */
        }
        /* A tree's index is kept with its root until all have theirs: the root may be no stage. */
        uint32_t *index = &f->first_device[root_of(f, d)];
        if (*index == ORR_EVENTS_NONE) {
            *index = (uint32_t)out->count++;
        }
        out->stages[d].pipeline = *index;
    }
    out->items = orr_memory_alloc(memory, out->count * sizeof *out->items);
    if (!out->items) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < out->count; i++) {
        out->items[i].begin_ns = INT64_MAX;
        out->items[i].end_ns = INT64_MIN;
    }
    for (uint32_t d = 0; d < out->device_count; d++) {
        if (out->stages[d].pipeline != ORR_EVENTS_NONE) {
            out->items[out->stages[d].pipeline].devices++;
        }
    }
    return ORR_OK;
}

/* A compute op in a stage stream. */
static bool is_stage_work(const struct finder *f, const struct orr_events_op *op) {
    return op->activity == ORR_ACTIVITY_COMPUTE && f->stage_stream[op->stream] &&
           in_window(f->out, op);
}

static void find_spans(struct finder *f) {
    struct orr_pipelines *out = f->out;
    for (size_t i = 0; i < f->events->op_count; i++) {
        const struct orr_events_op *op = &f->events->ops[i];
        if (!is_stage_work(f, op)) {
            continue;
        }
        struct orr_stage *stage = &out->stages[device_of(f->events, op)];
        struct orr_pipeline *pipeline = &out->items[stage->pipeline];
        stage->last_ns = orr__max_ns(stage->last_ns, op->end_ns);
        pipeline->begin_ns = orr__min_ns(pipeline->begin_ns, op->start_ns);
        pipeline->end_ns = orr__max_ns(pipeline->end_ns, op->end_ns);
    }
    for (size_t i = 0; i < out->count; i++) {
        struct orr_pipeline *pipeline = &out->items[i];
        pipeline->begin_ns = orr__max_ns(pipeline->begin_ns, out->begin_ns);
        pipeline->end_ns = orr__min_ns(pipeline->end_ns, out->end_ns);
        pipeline->end_ns = orr__max_ns(pipeline->end_ns, pipeline->begin_ns);
    }
}

static uint32_t pipeline_of(const struct finder *f, const struct orr_events_op *op) {
    return f->out->stages[device_of(f->events, op)].pipeline;
}

static bool work_before(const void *context, uint32_t a, uint32_t b) {
    const struct finder *f = context;
    const struct orr_events_op *x = &f->events->ops[a], *y = &f->events->ops[b];
    uint32_t left = pipeline_of(f, x), right = pipeline_of(f, y);
    return left != right ? left < right : x->start_ns < y->start_ns;
}

/* Room for the unions: at most as many stretches as there are ops. */
static enum orr_status reserve_busy(const struct finder *f, const struct orr_memory *memory,
                                    const uint32_t *order, size_t count) {
    enum orr_status status = ORR_OK;
    for (size_t begin = 0, end; begin < count && status == ORR_OK; begin = end) {
        uint32_t pipeline = pipeline_of(f, &f->events->ops[order[begin]]);
        for (end = begin; end < count && pipeline_of(f, &f->events->ops[order[end]]) == pipeline;
             end++) {
        }
        status = orr__intervals_reserve(memory, &f->out->items[pipeline].awaited, end - begin);
    }
    return status;
}

/* When any stage computes. Devices are listed one after the other, each of them in order: as many
 * runs to merge as there are devices. */
static enum orr_status find_busy(const struct finder *f, const struct orr_memory *memory) {
    const struct orr_events *events = f->events;
    size_t count = 0;
    if (f->out->count == 0) {
        return ORR_OK;
    }
    uint32_t *order = orr_memory_resize(memory, NULL, (events->op_count + 1) * sizeof *order);
    if (!order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        if (is_stage_work(f, &events->ops[events->device_order[i]])) {
            order[count++] = events->device_order[i];
        }
    }
    enum orr_status status = orr__sort_indices(memory, order, count, work_before, f);
    if (status == ORR_OK) {
        status = reserve_busy(f, memory, order, count);
    }
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        const struct orr_events_op *op = &events->ops[order[i]];
        orr__intervals_add(&f->out->items[pipeline_of(f, op)].awaited, op->start_ns, op->end_ns);
    }
    orr_memory_free(memory, order);
    return status;
}

static bool call_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events *events = context;
    return events->calls[a].begin_ns < events->calls[b].begin_ns;
}

/* When a host waits, any of them. */
static enum orr_status find_host_waits(const struct orr_events *events,
                                       const struct orr_memory *memory, struct orr_intervals *out) {
    size_t count = 0;
    for (size_t i = 0; i < events->call_count; i++) {
        count += (events->calls[i].flags & ORR_CALL_WAITING) != 0;
    }
    uint32_t *order = orr_memory_alloc(memory, count * sizeof *order);
    enum orr_status status = order ? orr__intervals_reserve(memory, out, count) : ORR_NO_MEMORY;
    size_t listed = 0;
    for (size_t i = 0; i < events->call_count && status == ORR_OK; i++) {
        if (events->calls[i].flags & ORR_CALL_WAITING) {
            order[listed++] = (uint32_t)i;
        }
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(memory, order, listed, call_before, events);
    }
    for (size_t i = 0; i < listed && status == ORR_OK; i++) {
        const struct orr_events_call *call = &events->calls[order[i]];
        orr__intervals_add(out, call->begin_ns, call->end_ns);
    }
    orr_memory_free(memory, order);
    return status;
}

/* Cuts `list` to what it has in common with `with`. */
static enum orr_status intersect(const struct orr_memory *memory, struct orr_intervals *list,
                                 const struct orr_intervals *with) {
    struct orr_intervals common = {0};
    enum orr_status status = orr__intervals_reserve(memory, &common, list->count + with->count);
    for (size_t i = 0, k = 0; status == ORR_OK && i < list->count && k < with->count;) {
        const struct orr_interval *x = &list->items[i], *y = &with->items[k];
        orr__intervals_add(&common, orr__max_ns(x->begin_ns, y->begin_ns),
                           orr__min_ns(x->end_ns, y->end_ns));
        i += x->end_ns <= y->end_ns;
        k += y->end_ns < x->end_ns;
    }
    orr__intervals_free(memory, list);
    *list = common;
    return status;
}

static enum orr_status find_awaited(const struct finder *f, const struct orr_memory *memory) {
    struct orr_intervals waits = {0};
    enum orr_status status = find_busy(f, memory);
    if (status == ORR_OK && f->out->count > 0) {
        status = find_host_waits(f->events, memory, &waits);
    }
    for (size_t i = 0; i < f->out->count && status == ORR_OK; i++) {
        status = intersect(memory, &f->out->items[i].awaited, &waits);
    }
    orr__intervals_free(memory, &waits);
    return status;
}

static enum orr_status find(struct finder *f, const struct orr_memory *memory) {
    const struct orr_events *events = f->events;
    for (uint32_t d = 0; d < events->device_count; d++) {
        f->parent[d] = d;
        f->out->stages[d] = (struct orr_stage){
            .pipeline = ORR_EVENTS_NONE, .first_ns = INT64_MAX, .last_ns = INT64_MIN};
    }
    find_sends(f);
    find_edges(f);
    for (uint32_t d = 0; d < events->device_count; d++) {
        f->first_device[d] = ORR_EVENTS_NONE; /* its other use */
    }
    enum orr_status status = number_pipelines(f, memory);
    if (status == ORR_OK) {
        find_spans(f);
        status = find_awaited(f, memory);
    }
    return status;
}

enum orr_status orr_pipelines_find(const struct orr_events *events, int64_t begin_ns,
                                   int64_t end_ns, const struct orr_memory *memory,
                                   struct orr_pipelines *out) {
    size_t devices = events->device_count, collectives = events->collective_count;
    *out = (struct orr_pipelines){.stages = orr_memory_alloc(memory, devices * sizeof *out->stages),
                                  .directed = orr_memory_alloc(memory, collectives),
                                  .device_count = devices,
                                  .begin_ns = begin_ns,
                                  .end_ns = end_ns};
    struct finder f = {
        .events = events,
        .out = out,
        .parent = orr_memory_alloc(memory, devices * sizeof *f.parent),
        .first_device = orr_memory_alloc(memory, (devices > collectives ? devices : collectives) *
                                                     sizeof *f.first_device),
        .stage_stream = orr_memory_alloc(memory, events->stream_count)};
    bool all = out->stages && out->directed && f.parent && f.first_device && f.stage_stream;
    enum orr_status status = all ? find(&f, memory) : ORR_NO_MEMORY;
    orr_memory_free(memory, f.parent);
    orr_memory_free(memory, f.first_device);
    orr_memory_free(memory, f.stage_stream);
    if (status != ORR_OK) {
        orr_pipelines_free(memory, out);
    }
    return status;
}

void orr_pipelines_free(const struct orr_memory *memory, struct orr_pipelines *p) {
    for (size_t i = 0; i < p->count && p->items; i++) {
        orr__intervals_free(memory, &p->items[i].awaited);
    }
    orr_memory_free(memory, p->stages);
    orr_memory_free(memory, p->items);
    orr_memory_free(memory, p->directed);
    *p = (struct orr_pipelines){0};
}

/* ------------------------------------------------------------------------------------------------
 * Bubbles */

/* Adds to one of the stage's parts what of the stretch lies in the window. */
static void add_part(struct orr_pipelines *p, const struct orr_stage *stage, int64_t *part,
                     int64_t begin_ns, int64_t end_ns) {
    int64_t from = orr__max_ns(begin_ns, p->begin_ns), to = orr__min_ns(end_ns, p->end_ns);
    if (from < to) {
        struct orr_pipeline *pipeline = &p->items[stage->pipeline];
        *part = orr__add_ns(*part, to - from);
        pipeline->bubble_ns = orr__add_ns(pipeline->bubble_ns, to - from);
    }
}

/* What is added has no compute op inside, so it lies before, between or behind those of the
 * stage. */
static void add_bubble(struct orr_pipelines *p, struct orr_stage *stage, int64_t begin_ns,
                       int64_t end_ns) {
    int64_t *part = end_ns <= stage->first_ns    ? &stage->warm_up_ns
                    : begin_ns >= stage->last_ns ? &stage->drain_ns
                                                 : &stage->steady_ns;
    add_part(p, stage, part, begin_ns, end_ns);
}

void orr_pipelines_add_gap(struct orr_pipelines *p, const struct orr_events *events,
                           uint32_t device, const struct orr_gap *gap) {
    struct orr_stage *stage = &p->stages[device];
    if (stage->pipeline == ORR_EVENTS_NONE || !crosses(events, &events->ops[gap->op])) {
        return;
    }
    int64_t begin_ns = gap->begin_ns + gap->host_ns;
    add_bubble(p, stage, begin_ns, begin_ns + gap->classes[ORR_CLASS_DEP_WAIT]);
}

void orr_pipelines_add_host(struct orr_pipelines *p, uint32_t device, int64_t begin_ns,
                            int64_t end_ns) {
    struct orr_stage *stage = &p->stages[device];
    if (stage->pipeline == ORR_EVENTS_NONE) {
        return;
    }
    const struct orr_intervals *awaited = &p->items[stage->pipeline].awaited;
    for (size_t i = orr__intervals_find(awaited, begin_ns);
         i < awaited->count && awaited->items[i].begin_ns < end_ns; i++) {
        add_part(p, stage, &stage->drain_ns, orr__max_ns(begin_ns, awaited->items[i].begin_ns),
                 orr__min_ns(end_ns, awaited->items[i].end_ns));
    }
}

struct waits {
    struct orr_pipelines *p;
    const struct orr_events *events;
    struct orr_stage *stage;
};

static void on_piece(void *context, const struct orr__comm_piece *piece) {
    struct waits *w = context;
    if (piece->waiting && is_send(w->p, &w->events->ops[piece->op])) {
        add_bubble(w->p, w->stage, piece->begin_ns, piece->end_ns);
    }
}

static void add_before_first(struct orr_pipelines *p, const struct orr_events *events,
                             struct orr_stage *stage, const struct orr_events_op *op) {
    int64_t begin_ns = p->items[stage->pipeline].begin_ns;
    if (orr_events_linked(op)) {
        begin_ns = orr__max_ns(begin_ns, events->calls[op->call].end_ns);
    }
    if (crosses(events, op)) {
        add_bubble(p, stage, begin_ns, orr__min_ns(op->wait_ns, op->start_ns));
    }
}

/* Of a stage, which has ops. */
static void add_ends(struct orr_pipelines *p, const struct orr_events *events, uint32_t device) {
    struct orr_stage *stage = &p->stages[device];
    size_t first = events->device_first[device], end = events->device_first[device + 1];
    add_before_first(p, events, stage, &events->ops[events->device_order[first]]);
    int64_t last_ns = stage->last_ns;
    for (size_t i = first; i < end; i++) {
        last_ns = orr__max_ns(last_ns, events->ops[events->device_order[i]].end_ns);
    }
    add_bubble(p, stage, last_ns, p->items[stage->pipeline].end_ns);
}

enum orr_status orr_pipelines_finish(struct orr_pipelines *p, const struct orr_events *events,
                                     const struct orr_memory *memory) {
    struct orr__comm_scratch scratch = {0};
    enum orr_status status = ORR_OK;
    for (uint32_t d = 0; status == ORR_OK && d < p->device_count; d++) {
        if (p->stages[d].pipeline != ORR_EVENTS_NONE) {
            struct waits waits = {p, events, &p->stages[d]};
            status = orr__comm_walk(events, d, memory, &scratch, on_piece, &waits);
            add_ends(p, events, d);
        }
    }
    orr__comm_scratch_free(memory, &scratch);
    return status;
}

int64_t orr_stage_bubble(const struct orr_stage *stage) {
    return orr__add_ns(orr__add_ns(stage->warm_up_ns, stage->steady_ns), stage->drain_ns);
}
