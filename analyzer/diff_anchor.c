/* What repeats: the row of work that begins the longest iteration. See diff_internal.h.
 *
 * A candidate comes again after about the same number of ops, at least four times of five, on every
 * device that does a good part of the work, and over at least half of its time; on both sides, and
 * about as often. Of those that come often enough for a test, the one with most ops between two of
 * its starts makes the longest unit. */
#include <string.h>

#include "analyzer/diff_internal.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

enum {
    ROLES = ORR_ACTIVITY_COPY + 1,
    NEAR_PART = 16,   /* distances within 1/16 of the usual one are about the same */
    USUAL_PART = 5,   /* at most 1/5 of the distances are others */
    DEVICE_PART = 10, /* devices with 1/10 of the largest one's ops must repeat, too */
    SIDES_PART = 8,   /* periods of both sides are within 1/8 */
    REPEATS_MIN = 2
};

struct candidate {
    struct orr__diff_anchor anchor;
    uint32_t period, repeats; /* ops from one to the next; how many times, on any device */
    int64_t time_ns;          /* of the row's ops, in all */
};

struct candidates {
    struct candidate *items; /* by text; owned */
    size_t count, capacity;
};

struct places { /* of ops in the order of their device */
    const struct orr__diff_part *part;
    uint32_t *place; /* by op */
    uint32_t *device;
};

static uint64_t row_of(const struct orr__diff_part *part, uint32_t op) {
    const struct orr_events_op *o = &part->analysis->events.ops[op];
    return (uint64_t)o->operator_index * ROLES + part->roles[o->stream];
}

static bool op_before(const void *context, uint32_t a, uint32_t b) {
    const struct places *p = context;
    uint64_t row_a = row_of(p->part, a), row_b = row_of(p->part, b);
    if (row_a != row_b) {
        return row_a < row_b;
    }
    return p->device[a] != p->device[b] ? p->device[a] < p->device[b] : p->place[a] < p->place[b];
}

/* Is one row regular on one device? `ops` are its ops there, in order. */
static enum orr_status is_regular(const struct places *p, const uint32_t *ops, size_t count,
                                  int64_t *distances, uint32_t *out_period, bool *out_regular) {
    const struct orr_events *events = &p->part->analysis->events;
    *out_regular = false;
    if (count <= REPEATS_MIN) {
        return ORR_OK;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        distances[i] = (int64_t)p->place[ops[i + 1]] - p->place[ops[i]];
    }
    size_t gaps = count - 1, usual = 0;
    if (orr__sort_times(p->part->memory, distances, gaps) != ORR_OK) {
        return ORR_NO_MEMORY;
    }
    int64_t period = orr__sorted_median(distances, gaps);
    int64_t near = period / NEAR_PART > 1 ? period / NEAR_PART : 1;
    for (size_t i = 0; i < gaps; i++) {
        usual += distances[i] >= period - near && distances[i] <= period + near;
    }
    uint32_t device = p->device[ops[0]];
    const uint32_t *order = events->device_order;
    int64_t first = events->ops[order[events->device_first[device]]].start_ns;
    int64_t last = events->ops[order[events->device_first[device + 1] - 1]].start_ns;
    int64_t covered = events->ops[ops[count - 1]].start_ns - events->ops[ops[0]].start_ns;
    *out_period = (uint32_t)period;
    *out_regular = (gaps - usual) * USUAL_PART <= gaps && covered >= (last - first) / 2;
    return ORR_OK;
}

static size_t busiest(const struct orr__diff_part *part) {
    const struct orr_events *events = &part->analysis->events;
    size_t most = 0;
    for (size_t d = 0; d < part->device_count; d++) {
        uint32_t device = part->devices[d];
        size_t ops = events->device_first[device + 1] - events->device_first[device];
        most = ops > most ? ops : most;
    }
    return most;
}

static size_t large_devices(const struct orr__diff_part *part, size_t most) {
    const struct orr_events *events = &part->analysis->events;
    size_t count = 0;
    for (size_t d = 0; d < part->device_count; d++) {
        uint32_t device = part->devices[d];
        count +=
            (events->device_first[device + 1] - events->device_first[device]) * DEVICE_PART >= most;
    }
    return count;
}

/* One row, ops [first, end) of the sorted list. */
static enum orr_status judge_row(const struct places *p, const uint32_t *ops, size_t count,
                                 size_t most, size_t large, int64_t *distances,
                                 struct candidates *list) {
    const struct orr_events *events = &p->part->analysis->events;
    struct candidate c = {.repeats = UINT32_MAX};
    size_t regular = 0;
    for (size_t first = 0, end; first < count; first = end) {
        uint32_t device = p->device[ops[first]], period;
        for (end = first; end < count && p->device[ops[end]] == device;) {
            end++;
        }
        size_t on_device = events->device_first[device + 1] - events->device_first[device];
        if (on_device * DEVICE_PART < most) {
            continue;
        }
        bool is;
        enum orr_status status = is_regular(p, ops + first, end - first, distances, &period, &is);
        if (status != ORR_OK || !is) {
            return status;
        }
        c.period = period > c.period ? period : c.period;
        c.repeats = end - first - 1 < c.repeats ? (uint32_t)(end - first - 1) : c.repeats;
        regular++;
    }
    if (regular < large || regular == 0) {
        return ORR_OK;
    }
    for (size_t i = 0; i < count; i++) {
        const struct orr_events_op *each = &events->ops[ops[i]];
        c.time_ns = orr__add_ns(c.time_ns, each->end_ns - each->start_ns);
    }
    const struct orr_events_op *op = &events->ops[ops[0]];
    c.anchor = (struct orr__diff_anchor){op->operator_index, p->part->roles[op->stream]};
    enum orr_status status = orr_memory_grow(p->part->memory, &list->items, &list->capacity,
                                             list->count + 1, sizeof c, UINT32_MAX);
    if (status == ORR_OK) {
        list->items[list->count++] = c;
    }
    return status;
}

static enum orr_status find_candidates(const struct orr__diff_part *part, struct candidates *list) {
    const struct orr_events *events = &part->analysis->events;
    const struct orr_memory *m = part->memory;
    size_t count = events->op_count;
    struct places p = {.part = part,
                       .place = orr_memory_resize(m, NULL, (count + 1) * sizeof *p.place),
                       .device = orr_memory_resize(m, NULL, (count + 1) * sizeof *p.device)};
    uint32_t *ops = orr_memory_resize(m, NULL, (count + 1) * sizeof *ops);
    int64_t *distances = orr_memory_resize(m, NULL, (count + 1) * sizeof *distances);
    enum orr_status status = p.place && p.device && ops && distances ? ORR_OK : ORR_NO_MEMORY;
    for (size_t d = 0; status == ORR_OK && d < events->device_count; d++) {
        for (size_t i = events->device_first[d]; i < events->device_first[d + 1]; i++) {
            p.place[events->device_order[i]] = (uint32_t)(i - events->device_first[d]);
            p.device[events->device_order[i]] = (uint32_t)d;
        }
    }
    for (size_t i = 0; status == ORR_OK && i < count; i++) {
        ops[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(m, ops, count, op_before, &p);
    }
    size_t most = busiest(part), large = large_devices(part, most);
    for (size_t first = 0, end; status == ORR_OK && first < count; first = end) {
        for (end = first; end < count && row_of(part, ops[end]) == row_of(part, ops[first]);) {
            end++;
        }
        status = judge_row(&p, ops + first, end - first, most, large, distances, list);
    }
    orr_memory_free(m, p.place);
    orr_memory_free(m, p.device);
    orr_memory_free(m, ops);
    orr_memory_free(m, distances);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Both sides */

static int compare_anchors(const struct orr__diff_part *part_a, const struct orr__diff_anchor *a,
                           const struct orr__diff_part *part_b, const struct orr__diff_anchor *b) {
    if (a->role != b->role) {
        return a->role < b->role ? -1 : 1;
    }
    return orr__diff_compare_operators(&part_a->analysis->events.operators[a->operator_index],
                                       &part_b->analysis->events.operators[b->operator_index]);
}

struct by_text {
    const struct orr__diff_part *part;
    const struct candidate *items;
};

static bool candidate_before(const void *context, uint32_t a, uint32_t b) {
    const struct by_text *t = context;
    return compare_anchors(t->part, &t->items[a].anchor, t->part, &t->items[b].anchor) < 0;
}

static enum orr_status sort_candidates(const struct orr__diff_part *part, struct candidates *list) {
    uint32_t *order = orr_memory_alloc(part->memory, list->count * sizeof *order);
    struct candidate *sorted = orr_memory_alloc(part->memory, list->count * sizeof *sorted);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    struct by_text context = {part, list->items};
    for (size_t i = 0; status == ORR_OK && i < list->count; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(part->memory, order, list->count, candidate_before, &context);
    }
    for (size_t i = 0; status == ORR_OK && i < list->count; i++) {
        sorted[i] = list->items[order[i]];
    }
    orr_memory_free(part->memory, order);
    orr_memory_free(part->memory, status == ORR_OK ? list->items : sorted);
    if (status == ORR_OK) {
        list->items = sorted;
        list->capacity = list->count;
    }
    return status;
}

/* A row of both sides that might begin iterations. */
struct score {
    bool enough; /* for a test, on both sides */
    uint64_t period, repeats;
    int64_t time_ns;
};

/* The longest of those that come often enough; if none does, the most frequent one. */
static bool longer(const struct score *a, const struct score *b) {
    if (a->enough != b->enough) {
        return a->enough;
    }
    if (a->enough || a->repeats == b->repeats) {
        return a->period > b->period;
    }
    return a->repeats > b->repeats;
}

struct choice {
    const struct orr__diff_part *parts;
    const struct candidates *lists;
    const struct orr_diff_options *options;
    struct score best;
    const struct candidate *sides[2];
};

/* Calls `consider` for every row that both sides have and that comes about as often on both. */
static void each_pair(struct choice *choice,
                      void (*consider)(struct choice *choice, const struct score *score,
                                       const struct candidate *a, const struct candidate *b)) {
    const struct candidates *lists = choice->lists;
    for (size_t i = 0, k = 0; i < lists[0].count && k < lists[1].count;) {
        const struct candidate *a = &lists[0].items[i], *b = &lists[1].items[k];
        int order = compare_anchors(&choice->parts[0], &a->anchor, &choice->parts[1], &b->anchor);
        i += order <= 0;
        k += order >= 0;
        uint32_t larger = a->period > b->period ? a->period : b->period;
        uint32_t smaller = a->period > b->period ? b->period : a->period;
        if (order == 0 && larger - smaller <= larger / SIDES_PART) {
            uint32_t repeats = a->repeats < b->repeats ? a->repeats : b->repeats;
            struct score score = {repeats >= choice->options->values_min,
                                  (uint64_t)a->period + b->period, repeats,
                                  orr__add_ns(a->time_ns, b->time_ns)};
            consider(choice, &score, a, b);
        }
    }
}

static void take_longest(struct choice *choice, const struct score *score,
                         const struct candidate *a, const struct candidate *b) {
    if (!choice->sides[0] || longer(score, &choice->best)) {
        choice->best = *score;
        choice->sides[0] = a;
        choice->sides[1] = b;
    }
}

/* Of those that are about as long and frequent, the one that takes most time says most. */
static void take_weightiest(struct choice *choice, const struct score *score,
                            const struct candidate *a, const struct candidate *b) {
    const struct score *best = &choice->best;
    uint64_t shorter = best->period > score->period ? best->period - score->period : 0;
    if (score->enough == best->enough && shorter <= best->period / NEAR_PART &&
        score->repeats + 1 >= best->repeats && score->time_ns > best->time_ns) {
        choice->best.time_ns = score->time_ns;
        choice->sides[0] = a;
        choice->sides[1] = b;
    }
}

static void choose(struct choice *choice, struct orr__diff_anchor *out_anchors, bool *out_found) {
    each_pair(choice, take_longest);
    each_pair(choice, take_weightiest);
    *out_found = choice->sides[0] != NULL;
    for (unsigned side = 0; side < 2 && *out_found; side++) {
        out_anchors[side] = choice->sides[side]->anchor;
    }
}

enum orr_status orr__diff_find_anchor(const struct orr__diff_part *parts,
                                      const struct orr_diff_options *options,
                                      struct orr__diff_anchor *out_anchors, bool *out_found) {
    struct candidates lists[2] = {{0}, {0}};
    enum orr_status status = ORR_OK;
    *out_found = false;
    for (unsigned side = 0; side < 2 && status == ORR_OK; side++) {
        status = find_candidates(&parts[side], &lists[side]);
        if (status == ORR_OK) {
            status = sort_candidates(&parts[side], &lists[side]);
        }
    }
    if (status == ORR_OK) {
        struct choice choice = {.parts = parts, .lists = lists, .options = options};
        choose(&choice, out_anchors, out_found);
    }
    for (unsigned side = 0; side < 2; side++) {
        orr_memory_free(parts[side].memory, lists[side].items);
    }
    return status;
}
