/* One side of a comparison: its devices, roles of streams, and units. See diff_internal.h. */
#include <string.h>

#include "analyzer/diff_internal.h"
#include "analyzer/times.h"

enum { STEPS_KEPT_WHOLE = 3 }; /* of more, the first and the last are no steady state */

/* ------------------------------------------------------------------------------------------------
 * Devices, roles, who feeds whom */

static enum orr_status find_devices(struct orr__diff_part *part) {
    const struct orr_events *events = &part->analysis->events;
    part->devices = orr_memory_alloc(part->memory, events->device_count * sizeof *part->devices);
    part->edge_first =
        orr_memory_alloc(part->memory, (events->device_count + 1) * sizeof *part->edge_first);
    part->unit_of =
        orr_memory_resize(part->memory, NULL, (events->op_count + 1) * sizeof *part->unit_of);
    if (!part->devices || !part->edge_first || !part->unit_of) {
        return ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < events->device_count; d++) {
        if (events->device_first[d + 1] > events->device_first[d]) {
            part->devices[part->device_count++] = (uint32_t)d;
        }
    }
    return ORR_OK;
}

/* A stream's role is what most of its time goes to, so that streams of two runs can be told apart
 * whatever their numbers. */
static enum orr_status find_roles(struct orr__diff_part *part) {
    const struct orr_events *events = &part->analysis->events;
    part->roles = orr_memory_alloc(part->memory, events->stream_count * sizeof *part->roles);
    if (!part->roles) {
        return ORR_NO_MEMORY;
    }
    for (size_t s = 0; s < events->stream_count; s++) {
        int64_t sums[ORR_ACTIVITY_COPY + 1] = {0};
        for (size_t i = events->stream_first[s]; i < events->stream_first[s + 1]; i++) {
            const struct orr_events_op *op = &events->ops[events->stream_order[i]];
            sums[op->activity] = orr__add_ns(sums[op->activity], op->end_ns - op->start_ns);
        }
        for (unsigned k = 0; k <= ORR_ACTIVITY_COPY; k++) {
            if (sums[k] > sums[part->roles[s]]) {
                part->roles[s] = (enum orr_activity)k;
            }
        }
    }
    return ORR_OK;
}

/* The device that a process has launched most ops on. */
struct feeding {
    uint64_t process;
    size_t ops;
    uint32_t place;
};

/* feeds[thread] = index of its process in `best`, whose processes are found. Threads of a timeline
 * stand by process, so it is the last one or a new one; else the first of all is searched. */
static void find_processes(struct orr__diff_part *part, struct feeding *best) {
    const struct orr_events *events = &part->analysis->events;
    size_t count = 0;
    bool ascending = true;
    for (size_t t = 0; t < events->thread_count; t++) {
        uint64_t process = events->threads[t].process;
        size_t p = count > 0 ? count - 1 : 0;
        ascending = ascending && (count == 0 || best[p].process <= process);
        if (!ascending) {
            p = 0;
        }
        while (p < count && best[p].process != process) {
            p++;
        }
        if (p == count) {
            best[count++] = (struct feeding){.process = process, .place = ORR__UNIT_NONE};
        }
        part->feeds[t] = (uint32_t)p;
    }
}

/* Counts a device's ops by process, and empties the counts again. */
static void feed_device(struct orr__diff_part *part, size_t place, size_t *counts,
                        struct feeding *best) {
    const struct orr_events *events = &part->analysis->events;
    uint32_t device = part->devices[place];
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t i = events->device_first[device]; i < events->device_first[device + 1]; i++) {
            const struct orr_events_op *op = &events->ops[events->device_order[i]];
            if (!orr_events_linked(op)) {
                continue;
            }
            uint32_t p = part->feeds[events->calls[op->call].thread];
            if (pass == 0) {
                counts[p]++;
            } else if (counts[p] > best[p].ops) {
                best[p].ops = counts[p];
                best[p].place = (uint32_t)place;
            }
            counts[p] = pass == 0 ? counts[p] : 0;
        }
    }
}

static enum orr_status find_feeders(struct orr__diff_part *part) {
    size_t threads = part->analysis->events.thread_count;
    part->feeds = orr_memory_alloc(part->memory, threads * sizeof *part->feeds);
    part->is_fed = orr_memory_alloc(part->memory, part->device_count + 1);
    size_t *counts = orr_memory_alloc(part->memory, threads * sizeof *counts);
    struct feeding *best = orr_memory_alloc(part->memory, threads * sizeof *best);
    bool all = part->feeds && part->is_fed && counts && best;
    if (all) {
        find_processes(part, best);
    }
    for (size_t d = 0; all && d < part->device_count; d++) {
        feed_device(part, d, counts, best);
    }
    for (size_t t = 0; all && t < threads; t++) {
        part->feeds[t] = best[part->feeds[t]].place;
        if (part->feeds[t] != ORR__UNIT_NONE) {
            part->is_fed[part->feeds[t]] = 1;
        }
    }
    orr_memory_free(part->memory, counts);
    orr_memory_free(part->memory, best);
    return all ? ORR_OK : ORR_NO_MEMORY;
}

enum orr_status orr__diff_part_open(const struct orr_analysis *analysis,
                                    const struct orr_memory *memory,
                                    struct orr__diff_part *out_part) {
    *out_part = (struct orr__diff_part){.analysis = analysis, .memory = memory};
    enum orr_status status = find_devices(out_part);
    if (status == ORR_OK) {
        status = find_roles(out_part);
    }
    if (status == ORR_OK) {
        status = find_feeders(out_part);
    }
    if (status == ORR_OK) {
        status = orr_steps_find(analysis->timeline, memory, &out_part->steps);
    }
    if (status == ORR_OK) {
        out_part->used_step = orr_memory_alloc(memory, out_part->steps.count + 1);
        status = out_part->used_step ? ORR_OK : ORR_NO_MEMORY;
    }
    return status;
}

void orr__diff_part_close(struct orr__diff_part *part) {
    if (!part->memory) {
        return;
    }
    orr_steps_free(part->memory, &part->steps);
    orr_memory_free(part->memory, part->devices);
    orr_memory_free(part->memory, part->edges);
    orr_memory_free(part->memory, part->edge_first);
    orr_memory_free(part->memory, part->unit_of);
    orr_memory_free(part->memory, part->used_step);
    orr_memory_free(part->memory, part->feeds);
    orr_memory_free(part->memory, part->is_fed);
    orr_memory_free(part->memory, part->roles);
    *part = (struct orr__diff_part){0};
}

/* ------------------------------------------------------------------------------------------------
 * Edges */

static void begin_cut(struct orr__diff_part *part) {
    part->edge_count = 0;
    for (size_t i = 0; i < part->analysis->events.op_count; i++) {
        part->unit_of[i] = ORR__UNIT_NONE;
    }
    memset(part->used_step, 0, part->steps.count);
}

static enum orr_status add_edge(struct orr__diff_part *part, int64_t time_ns) {
    enum orr_status status =
        orr_memory_grow(part->memory, &part->edges, &part->edge_capacity, part->edge_count + 1,
                        sizeof *part->edges, ORR__UNIT_NONE - 1);
    if (status == ORR_OK) {
        part->edges[part->edge_count++] = time_ns;
    }
    return status;
}

/* Ops of a device that no step claims belong to the unit that they start in. */
static void assign_by_time(struct orr__diff_part *part, size_t place, bool only_unlinked) {
    const struct orr_events *events = &part->analysis->events;
    uint32_t device = part->devices[place];
    size_t first = part->edge_first[place], end = part->edge_count, unit = first;
    if (end - first < 2) {
        return;
    }
    for (size_t i = events->device_first[device]; i < events->device_first[device + 1]; i++) {
        uint32_t index = events->device_order[i];
        const struct orr_events_op *op = &events->ops[index];
        while (unit + 1 < end && part->edges[unit + 1] <= op->start_ns) {
            unit++;
        }
        if (unit + 1 < end && op->start_ns >= part->edges[unit] &&
            !(only_unlinked && orr_events_linked(op))) {
            part->unit_of[index] = (uint32_t)unit;
        }
    }
}

static int64_t span_end(const struct orr_events *events, uint32_t device) {
    int64_t end = INT64_MIN;
    for (size_t i = events->device_first[device]; i < events->device_first[device + 1]; i++) {
        end = orr__max_ns(end, events->ops[events->device_order[i]].end_ns);
    }
    return end;
}

static void end_cut(struct orr__diff_part *part) {
    part->edge_first[part->device_count] = part->edge_count;
    part->units = part->host_units = 0;
    part->length_ns = part->host_length_ns = 0;
    for (size_t d = 0; d < part->device_count; d++) {
        size_t units = orr__diff_units_of(part, d);
        bool fed = part->is_fed[d];
        if (units == 0) {
            continue;
        }
        int64_t length =
            part->edges[part->edge_first[d] + units] - part->edges[part->edge_first[d]];
        part->units += units;
        part->length_ns = orr__add_ns(part->length_ns, length);
        part->host_units += fed ? units : 0;
        part->host_length_ns = orr__add_ns(part->host_length_ns, fed ? length : 0);
    }
}

enum orr_status orr__diff_cut_run(struct orr__diff_part *part) {
    const struct orr_events *events = &part->analysis->events;
    int64_t begin = INT64_MAX, end = INT64_MIN;
    enum orr_status status = ORR_OK;
    begin_cut(part);
    for (size_t d = 0; d < part->device_count; d++) {
        uint32_t device = part->devices[d];
        const struct orr_events_op *first =
            &events->ops[events->device_order[events->device_first[device]]];
        begin = orr__min_ns(begin, first->start_ns);
        end = orr__max_ns(end, span_end(events, device));
    }
    for (size_t d = 0; d < part->device_count && status == ORR_OK; d++) {
        part->edge_first[d] = part->edge_count;
        status = add_edge(part, begin);
        if (status == ORR_OK && end > begin) {
            status = add_edge(part, end);
        }
        if (status == ORR_OK) {
            assign_by_time(part, d, false);
        }
    }
    end_cut(part);
    return status;
}

enum orr_status orr__diff_cut_whole(struct orr__diff_part *part) {
    const struct orr_events *events = &part->analysis->events;
    enum orr_status status = ORR_OK;
    begin_cut(part);
    for (size_t d = 0; d < part->device_count && status == ORR_OK; d++) {
        uint32_t device = part->devices[d];
        part->edge_first[d] = part->edge_count;
        int64_t begin = events->ops[events->device_order[events->device_first[device]]].start_ns;
        status = add_edge(part, begin);
        if (status == ORR_OK && span_end(events, device) > begin) {
            status = add_edge(part, span_end(events, device));
        }
        assign_by_time(part, d, false);
    }
    end_cut(part);
    return status;
}

enum orr_status orr__diff_cut_anchor(struct orr__diff_part *part,
                                     const struct orr__diff_anchor *anchor) {
    const struct orr_events *events = &part->analysis->events;
    enum orr_status status = ORR_OK;
    begin_cut(part);
    for (size_t d = 0; d < part->device_count && status == ORR_OK; d++) {
        uint32_t device = part->devices[d];
        size_t first = part->edge_first[d] = part->edge_count;
        for (size_t i = events->device_first[device];
             i < events->device_first[device + 1] && status == ORR_OK; i++) {
            const struct orr_events_op *op = &events->ops[events->device_order[i]];
            bool begins =
                op->operator_index == anchor->operator_index &&
                part->roles[op->stream] == anchor->role &&
                (part->edge_count == first || op->start_ns > part->edges[part->edge_count - 1]);
            if (begins) {
                status = add_edge(part, op->start_ns);
            }
        }
        assign_by_time(part, d, false);
    }
    end_cut(part);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Steps */

/* Work of a device that a step's calls enqueued. */
struct step_work {
    int64_t start_ns, end_ns;
    uint32_t unit;
    bool any;
};

static uint32_t step_of(const struct orr__diff_part *part, const struct orr_events_op *op) {
    const struct orr_events *events = &part->analysis->events;
    if (!orr_events_linked(op)) {
        return ORR_STEP_NONE;
    }
    const struct orr_events_call *call = &events->calls[op->call];
    return orr_steps_at(&part->steps, events->threads[call->thread].process, call->begin_ns);
}

static void gather_steps(const struct orr__diff_part *part, uint32_t device,
                         struct step_work *work) {
    const struct orr_events *events = &part->analysis->events;
    for (size_t s = 0; s < part->steps.count; s++) {
        work[s] = (struct step_work){.unit = ORR__UNIT_NONE};
    }
    for (size_t i = events->device_first[device]; i < events->device_first[device + 1]; i++) {
        const struct orr_events_op *op = &events->ops[events->device_order[i]];
        uint32_t step = step_of(part, op);
        if (step == ORR_STEP_NONE) {
            continue;
        }
        struct step_work *w = &work[step];
        w->start_ns = w->any ? orr__min_ns(w->start_ns, op->start_ns) : op->start_ns;
        w->end_ns = w->any ? orr__max_ns(w->end_ns, op->end_ns) : op->end_ns;
        w->any = true;
    }
}

/* Steps of the process that has most of them on the device: edges are the starts of their work. The
 * last one ends where the work of the next begins, or its own ends. */
static enum orr_status cut_device(struct orr__diff_part *part, size_t place,
                                  struct step_work *work) {
    const struct orr_steps *steps = &part->steps;
    size_t best = 0, best_count = 0, best_end = 0;
    for (size_t first = 0, end; first < steps->count; first = end) {
        size_t count = 0;
        for (end = first;
             end < steps->count && steps->items[end].process == steps->items[first].process;
             end++) {
            count += work[end].any;
        }
        if (count > best_count) {
            best = first;
            best_end = end;
            best_count = count;
        }
    }
    bool inner_only = best_count > STEPS_KEPT_WHOLE;
    int64_t last_end = INT64_MIN;
    bool open = false;
    enum orr_status status = ORR_OK;
    for (size_t s = best; s < best_end && status == ORR_OK; s++) {
        struct step_work *w = &work[s];
        bool counts = w->any && !(inner_only && steps->items[s].boundary);
        bool later = part->edge_count == part->edge_first[place] ||
                     w->start_ns > part->edges[part->edge_count - 1];
        if (w->any && later && (counts || open)) {
            status = add_edge(part, w->start_ns);
            open = counts;
            if (counts) {
                w->unit = (uint32_t)(part->edge_count - 1);
                part->used_step[s] = 1;
                last_end = w->end_ns;
            }
        }
    }
    if (status == ORR_OK && open && last_end > part->edges[part->edge_count - 1]) {
        status = add_edge(part, last_end);
    }
    return status;
}

static void assign_by_step(struct orr__diff_part *part, size_t place,
                           const struct step_work *work) {
    const struct orr_events *events = &part->analysis->events;
    uint32_t device = part->devices[place];
    assign_by_time(part, place, true);
    for (size_t i = events->device_first[device]; i < events->device_first[device + 1]; i++) {
        uint32_t index = events->device_order[i];
        uint32_t step = step_of(part, &events->ops[index]);
        /* The last edge begins no unit. */
        if (step != ORR_STEP_NONE && work[step].unit != ORR__UNIT_NONE &&
            work[step].unit + 1 < part->edge_count) {
            part->unit_of[index] = work[step].unit;
        }
    }
}

enum orr_status orr__diff_cut_steps(struct orr__diff_part *part) {
    struct step_work *work = orr_memory_alloc(part->memory, (part->steps.count + 1) * sizeof *work);
    enum orr_status status = work ? ORR_OK : ORR_NO_MEMORY;
    begin_cut(part);
    for (size_t d = 0; d < part->device_count && status == ORR_OK; d++) {
        part->edge_first[d] = part->edge_count;
        gather_steps(part, part->devices[d], work);
        status = cut_device(part, d, work);
        if (status == ORR_OK) {
            assign_by_step(part, d, work);
        }
    }
    end_cut(part);
    orr_memory_free(part->memory, work);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Figures per unit */

static int64_t divide(int64_t sum, int64_t times, int64_t by) {
    if (by <= 0) {
        return 0;
    }
    bool negative = sum < 0;
    orr_u128 size = (orr_u128)(negative ? -(uint64_t)sum : (uint64_t)sum) * (orr_u128)times;
    orr_u128 over = (orr_u128)by, value = (size + over / 2) / over;
    int64_t result = value > INT64_MAX ? INT64_MAX : (int64_t)value;
    return negative ? -result : result;
}

int64_t orr__diff_per_unit(const struct orr__diff_part *part, enum orr_diff_unit by, int64_t sum,
                           bool host) {
    if (by == ORR_DIFF_UNIT_SECOND) {
        return divide(sum, 1000000000, host ? part->host_length_ns : part->length_ns);
    }
    return divide(sum, 1, (int64_t)(host ? part->host_units : part->units));
}
