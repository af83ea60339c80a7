/* Device time by class in every unit, on both sides, and what that makes of a unit. See diff.h. */
#include <string.h>

#include "analyzer/diff_internal.h"
#include "analyzer/hosts.h"
#include "analyzer/rank_test.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

/* The walk over one device: its pieces are cut at the edges of units. Busy and idle pieces come in
 * ascending order each. */
struct tally {
    const int64_t *edges;
    size_t units;
    size_t busy_at, idle_at;
    int64_t (*classes)[ORR_CLASS_COUNT]; /* by unit */
};

static void add_piece(struct tally *t, size_t *at, enum orr_class class_, int64_t begin_ns,
                      int64_t end_ns) {
    while (*at < t->units && t->edges[*at + 1] <= begin_ns) {
        ++*at;
    }
    for (size_t u = *at; u < t->units && t->edges[u] < end_ns; u++) {
        int64_t from = orr__max_ns(begin_ns, t->edges[u]);
        int64_t to = orr__min_ns(end_ns, t->edges[u + 1]);
        if (to > from) {
            t->classes[u][class_] += to - from;
        }
    }
}

static void on_busy(void *context, enum orr_busy busy, int64_t begin_ns, int64_t end_ns) {
    struct tally *t = context;
    enum orr_class class_ = busy == ORR_BUSY_COMM   ? ORR_CLASS_EXPOSED_COMM
                            : busy == ORR_BUSY_COPY ? ORR_CLASS_EXPOSED_COPY
                                                    : ORR_CLASS_COMPUTE;
    add_piece(t, &t->busy_at, class_, begin_ns, end_ns);
}

static void on_idle(void *context, enum orr_class class_, int64_t begin_ns, int64_t end_ns) {
    struct tally *t = context;
    add_piece(t, &t->idle_at, class_, begin_ns, end_ns);
}

static void on_gap(void *context, const struct orr_gap *gap) {
    (void)context, (void)gap;
}

/* All devices of one side. */
struct side {
    const struct orr__diff_part *part;
    struct orr_hosts hosts;
    int64_t (*classes)[ORR_CLASS_COUNT]; /* by edge; owned */
};

static enum orr_status tally_device(struct side *side, size_t place) {
    const struct orr__diff_part *part = side->part;
    const struct orr_analysis *a = part->analysis;
    size_t first = part->edge_first[place];
    struct tally tally = {.edges = part->edges + first,
                          .units = orr__diff_units_of(part, place),
                          .classes = side->classes + first};
    struct orr_walk walk = {on_busy, on_idle, on_gap, &tally};
    struct orr_device_times times;
    if (tally.units == 0) {
        return ORR_OK;
    }
    enum orr_status status = orr_classes_walk(
        &a->events, &side->hosts, &a->options, a->roofline.bounds, part->devices[place],
        (struct orr_interval){0, 0}, part->memory, &walk, &times);
    for (size_t u = 0; u < tally.units && status == ORR_OK; u++) {
        int64_t begin = tally.edges[u], end = tally.edges[u + 1];
        int64_t *classes = tally.classes[u];
        classes[ORR_CLASS_BEFORE_FIRST] += orr__max_ns(orr__min_ns(times.first_ns, end) - begin, 0);
        classes[ORR_CLASS_AFTER_LAST] += orr__max_ns(end - orr__max_ns(times.last_ns, begin), 0);
    }
    return status;
}

static enum orr_status open_side(struct side *side, const struct orr__diff_part *part) {
    *side = (struct side){.part = part};
    enum orr_status status = orr_hosts_create(&part->analysis->events, part->memory, &side->hosts);
    if (status == ORR_OK) {
        side->classes =
            orr_memory_alloc(part->memory, (part->edge_count + 1) * sizeof *side->classes);
        status = side->classes ? ORR_OK : ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < part->device_count && status == ORR_OK; d++) {
        status = tally_device(side, d);
    }
    return status;
}

static void close_side(struct side *side) {
    if (side->part) {
        orr_hosts_free(side->part->memory, &side->hosts);
        orr_memory_free(side->part->memory, side->classes);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Figures */

/* Values per unit of one device: of a class, or (ORR_CLASS_COUNT) the unit's length. */
static int64_t value_of(const struct side *side, size_t edge, unsigned class_) {
    return class_ == ORR_CLASS_COUNT ? side->part->edges[edge + 1] - side->part->edges[edge]
                                     : side->classes[edge][class_];
}

static int64_t mean(int64_t sum, uint64_t count, enum orr_diff_unit by, int64_t length_ns) {
    orr_u128 times = 1, over = count;
    if (by == ORR_DIFF_UNIT_SECOND) {
        times = 1000000000;
        over = length_ns > 0 ? (orr_u128)length_ns : 0;
    }
    return over == 0 ? 0 : (int64_t)(((orr_u128)sum * times + over / 2) / over);
}

static enum orr_status figure_of(const struct orr_diff *diff, const struct side *sides,
                                 size_t place, unsigned class_, struct orr_diff_figure *figure) {
    int64_t *values[2] = {NULL, NULL};
    size_t counts[2];
    enum orr_status status = ORR_OK;
    for (unsigned s = 0; s < 2 && status == ORR_OK; s++) {
        const struct orr__diff_part *part = sides[s].part;
        size_t first = part->edge_first[place];
        int64_t sum = 0;
        counts[s] = orr__diff_units_of(part, place);
        int64_t length = counts[s] ? part->edges[first + counts[s]] - part->edges[first] : 0;
        values[s] = orr_memory_alloc(diff->memory, counts[s] * sizeof *values[s]);
        status = values[s] ? ORR_OK : ORR_NO_MEMORY;
        for (size_t u = 0; u < counts[s] && status == ORR_OK; u++) {
            values[s][u] = value_of(&sides[s], first + u, class_);
            sum = orr__add_ns(sum, values[s][u]);
        }
        figure->unit_ns[s] = mean(sum, counts[s], diff->by, length);
        if (status == ORR_OK) {
            status = orr__sort_times(diff->memory, values[s], counts[s]);
        }
    }
    if (status == ORR_OK) {
        size_t fewer = counts[0] < counts[1] ? counts[0] : counts[1];
        bool test =
            !diff->exact && diff->by != ORR_DIFF_UNIT_SECOND && fewer >= diff->options.values_min;
        figure->p = test ? orr_rank_test(values[0], counts[0], values[1], counts[1]) : 1;
        figure->delta_ns = figure->unit_ns[1] - figure->unit_ns[0];
        figure->status = orr__diff_status(diff, figure->delta_ns,
                                          diff->by == ORR_DIFF_UNIT_SECOND ? 0 : fewer, figure->p);
        if (orr__diff_equal(values[0], counts[0], values[1], counts[1])) {
            figure->status = ORR_DIFF_UNCHANGED;
        }
    }
    orr_memory_free(diff->memory, values[0]);
    orr_memory_free(diff->memory, values[1]);
    return status;
}

static enum orr_status compare_device(struct orr_diff *diff, const struct side *sides,
                                      size_t place) {
    struct orr_diff_device *device = &diff->devices[place];
    for (unsigned s = 0; s < 2; s++) {
        const struct orr__diff_part *part = sides[s].part;
        device->ids[s] = part->analysis->events.devices[part->devices[place]].id;
        device->units[s] = orr__diff_units_of(part, place);
    }
    enum orr_status status = figure_of(diff, sides, place, ORR_CLASS_COUNT, &device->unit);
    for (unsigned c = 0; c < ORR_CLASS_COUNT && status == ORR_OK; c++) {
        status = figure_of(diff, sides, place, c, &device->classes[c]);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Causes: means over all devices, so that they add up to the mean unit */

static const uint8_t cause_of[ORR_CLASS_COUNT] = {
    [ORR_CLASS_COMPUTE] = ORR_DIFF_CAUSE_COMPUTE,
    [ORR_CLASS_EXPOSED_COMM] = ORR_DIFF_CAUSE_COMM,
    [ORR_CLASS_EXPOSED_COPY] = ORR_DIFF_CAUSE_COPY,
    [ORR_CLASS_PROFILER_OVERHEAD] = ORR_DIFF_CAUSE_PROFILER,
    [ORR_CLASS_HOST_SYNC] = ORR_DIFF_CAUSE_SYNC,
    [ORR_CLASS_HOST_LAUNCH] = ORR_DIFF_CAUSE_HOST,
    [ORR_CLASS_HOST_OTHER] = ORR_DIFF_CAUSE_HOST,
    [ORR_CLASS_DEP_WAIT] = ORR_DIFF_CAUSE_DEPENDENCY,
    [ORR_CLASS_DISPATCH] = ORR_DIFF_CAUSE_DISPATCH,
    [ORR_CLASS_UNKNOWN_WAIT] = ORR_DIFF_CAUSE_UNKNOWN,
    [ORR_CLASS_UNKNOWN_UNLINKED] = ORR_DIFF_CAUSE_UNKNOWN,
    [ORR_CLASS_UNKNOWN_CLOCK] = ORR_DIFF_CAUSE_UNKNOWN,
    [ORR_CLASS_BEFORE_FIRST] = ORR_DIFF_CAUSE_EDGE,
    [ORR_CLASS_AFTER_LAST] = ORR_DIFF_CAUSE_EDGE,
};

static void sum_causes(struct orr_diff *diff, const struct side *side, unsigned s) {
    const struct orr__diff_part *part = side->part;
    int64_t sums[ORR_DIFF_CAUSE_COUNT] = {0};
    for (size_t d = 0; d < part->device_count; d++) {
        for (size_t u = 0; u < orr__diff_units_of(part, d); u++) {
            for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
                int64_t *sum = &sums[cause_of[c]];
                *sum = orr__add_ns(*sum, side->classes[part->edge_first[d] + u][c]);
            }
        }
    }
    for (unsigned c = 0; c < ORR_DIFF_CAUSE_COUNT; c++) {
        diff->causes[s][c] = orr__diff_per_unit(part, diff->by, sums[c], false);
    }
    diff->units[s] = part->units;
    diff->unit.unit_ns[s] = orr__diff_per_unit(part, diff->by, part->length_ns, false);
}

/* The first device on which both sides have units speaks for the unit: the others' units are the
 * same ones seen again, and counting them would make chance look like certainty. */
static void take_unit(struct orr_diff *diff) {
    diff->unit.delta_ns = diff->unit.unit_ns[1] - diff->unit.unit_ns[0];
    diff->unit.p = 1;
    diff->unit.status = ORR_DIFF_INCONCLUSIVE;
    for (size_t d = 0; d < diff->device_count; d++) {
        const struct orr_diff_device *device = &diff->devices[d];
        if (device->units[0] == 0 || device->units[1] == 0) {
            continue;
        }
        uint64_t fewer = device->units[0] < device->units[1] ? device->units[0] : device->units[1];
        diff->unit.p = device->unit.p;
        if (device->unit.status == ORR_DIFF_UNCHANGED && diff->unit.delta_ns == 0) {
            diff->unit.status = ORR_DIFF_UNCHANGED;
            return;
        }
        diff->unit.status =
            orr__diff_status(diff, diff->unit.delta_ns,
                             diff->by == ORR_DIFF_UNIT_SECOND ? 0 : (size_t)fewer, diff->unit.p);
        return;
    }
}

enum orr_status orr__diff_devices(struct orr_diff *diff, struct orr__diff_part *parts) {
    struct side sides[2] = {{0}, {0}};
    enum orr_status status = open_side(&sides[0], &parts[0]);
    if (status == ORR_OK) {
        status = open_side(&sides[1], &parts[1]);
    }
    size_t a = parts[0].device_count, b = parts[1].device_count, both = a < b ? a : b;
    diff->device_only[0] = a - both;
    diff->device_only[1] = b - both;
    if (status == ORR_OK) {
        sum_causes(diff, &sides[0], 0);
        sum_causes(diff, &sides[1], 1);
        diff->devices = orr_memory_alloc(diff->memory, both * sizeof *diff->devices);
        status = diff->devices ? ORR_OK : ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < both && status == ORR_OK; d++) {
        diff->device_count = d + 1;
        status = compare_device(diff, sides, d);
    }
    if (status == ORR_OK) {
        take_unit(diff);
    }
    close_side(&sides[0]);
    close_side(&sides[1]);
    return status;
}
