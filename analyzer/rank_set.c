/* The nth communication kernels of all traces side by side, clocks as they are. */
#include <string.h>

#include "analyzer/ranks_internal.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

/* Communication ops of a part, in the order of the definitions. */
struct lane {
    const struct orr_events *events;
    int64_t base_ns;
    uint32_t *ops;
    size_t count;
};

static bool op_before(const void *context, uint32_t a, uint32_t b) {
    return orr__events_op_before(context, a, b);
}

static enum orr_status fill_lane(const struct orr_memory *memory, struct lane *lane) {
    const struct orr_events *events = lane->events;
    size_t count = 0;
    for (size_t i = 0; i < events->op_count; i++) {
        count += events->ops[i].activity == ORR_ACTIVITY_COMM;
    }
    lane->ops = orr_memory_resize(memory, NULL, count * sizeof *lane->ops + 1);
    if (!lane->ops) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        if (events->ops[i].activity == ORR_ACTIVITY_COMM) {
            lane->ops[lane->count++] = (uint32_t)i;
        }
    }
    return orr__sort_indices(memory, lane->ops, count, op_before, events);
}

static const struct orr_events_op *op_at(const struct lane *lane, size_t index) {
    return &lane->events->ops[lane->ops[index]];
}

/* Equally many, and of the same kinds one after the other: else the nth are not one collective. */
static bool alike(const struct lane *lanes, size_t parts) {
    for (size_t p = 1; p < parts; p++) {
        if (lanes[p].count != lanes[0].count) {
            return false;
        }
        for (size_t i = 0; i < lanes[0].count; i++) {
            if (orr__comm_kind_of(op_at(&lanes[p], i)->name) !=
                orr__comm_kind_of(op_at(&lanes[0], i)->name)) {
                return false;
            }
        }
    }
    return true;
}

static int64_t start_of(const struct lane *lane, size_t index) {
    return orr__ranks_add(op_at(lane, index)->start_ns, lane->base_ns);
}

static int64_t end_of(const struct lane *lane, size_t index) {
    return orr__ranks_add(op_at(lane, index)->end_ns, lane->base_ns);
}

static void compare_starts(const struct lane *lanes, struct orr_rank_set *set, size_t index) {
    int64_t first = INT64_MAX, arrival = INT64_MIN, end = INT64_MAX, last_end = INT64_MIN;
    struct orr_rank_set_collective *c = &set->collectives[index];
    for (uint32_t p = 0; p < set->part_count; p++) {
        int64_t start = start_of(&lanes[p], index), stop = end_of(&lanes[p], index);
        c->last = start > arrival ? p : c->last;
        arrival = orr__max_ns(arrival, start);
        first = orr__min_ns(first, start);
        end = orr__min_ns(end, stop);
        last_end = orr__max_ns(last_end, stop);
    }
    c->name = op_at(&lanes[0], index)->name;
    c->start_spread_ns = orr__ranks_add(arrival, -first);
    c->end_spread_ns = orr__ranks_add(last_end, -end);
    c->transfer_ns = orr__ranks_add(end, -arrival);
    set->last[c->last]++;
    for (size_t p = 0; p < set->part_count; p++) {
        set->wait_ns[p] =
            orr__add_ns(set->wait_ns[p], orr__ranks_add(arrival, -start_of(&lanes[p], index)));
    }
}

static enum orr_status compare_ends(const struct lane *lanes, const struct orr_memory *memory,
                                    struct orr_rank_set *set, size_t part) {
    size_t count = set->collective_count;
    int64_t *differences = orr_memory_resize(memory, NULL, count * sizeof *differences + 1);
    if (!differences) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        differences[i] = orr__ranks_add(end_of(&lanes[part], i), -end_of(&lanes[0], i));
    }
    enum orr_status status = orr__sort_times(memory, differences, count);
    if (status == ORR_OK && count > 0) {
        int64_t median = orr__sorted_median(differences, count);
        set->offset_ns[part] = median;
        set->residual_max_ns[part] = orr__max_ns(orr__ranks_add(median, -differences[0]),
                                                 orr__ranks_add(differences[count - 1], -median));
    }
    orr_memory_free(memory, differences);
    return status;
}

static enum orr_status create(const struct orr_memory *memory, struct orr_rank_set *set,
                              size_t parts) {
    set->comm_ops = orr_memory_alloc(memory, parts * sizeof *set->comm_ops);
    set->last = orr_memory_alloc(memory, parts * sizeof *set->last);
    set->wait_ns = orr_memory_alloc(memory, parts * sizeof *set->wait_ns);
    set->offset_ns = orr_memory_alloc(memory, parts * sizeof *set->offset_ns);
    set->residual_max_ns = orr_memory_alloc(memory, parts * sizeof *set->residual_max_ns);
    set->part_count = parts;
    return set->comm_ops && set->last && set->wait_ns && set->offset_ns && set->residual_max_ns
               ? ORR_OK
               : ORR_NO_MEMORY;
}

static enum orr_status compare(const struct lane *lanes, const struct orr_memory *memory,
                               struct orr_rank_set *set) {
    set->collectives = orr_memory_alloc(memory, lanes[0].count * sizeof *set->collectives + 1);
    if (!set->collectives) {
        return ORR_NO_MEMORY;
    }
    set->matched = true;
    set->collective_count = lanes[0].count;
    for (size_t i = 0; i < set->collective_count; i++) {
        compare_starts(lanes, set, i);
    }
    enum orr_status status = ORR_OK;
    for (size_t p = 0; p < set->part_count && status == ORR_OK; p++) {
        status = compare_ends(lanes, memory, set, p);
    }
    return status;
}

enum orr_status orr_rank_set_compute(const struct orr_ranks_input *inputs,
                                     const struct orr_ranks *ranks, const struct orr_memory *memory,
                                     struct orr_rank_set *out_set) {
    *out_set = (struct orr_rank_set){0};
    size_t parts = ranks->part_count;
    struct lane *lanes = orr_memory_alloc(memory, parts * sizeof *lanes);
    enum orr_status status = lanes ? create(memory, out_set, parts) : ORR_NO_MEMORY;
    for (size_t p = 0; p < parts && status == ORR_OK; p++) {
        lanes[p].events = inputs[ranks->parts[p].input].events;
        lanes[p].base_ns = ranks->parts[p].base_ns;
        status = fill_lane(memory, &lanes[p]);
        out_set->comm_ops[p] = lanes[p].count;
    }
    if (status == ORR_OK && ranks->refused[0] == '\0' && parts > 1 && alike(lanes, parts)) {
        status = compare(lanes, memory, out_set);
    }
    for (size_t p = 0; p < parts && lanes; p++) {
        orr_memory_free(memory, lanes[p].ops);
    }
    orr_memory_free(memory, lanes);
    if (status != ORR_OK) {
        orr_rank_set_free(memory, out_set);
    }
    return status;
}

void orr_rank_set_free(const struct orr_memory *memory, struct orr_rank_set *set) {
    orr_memory_free(memory, set->collectives);
    orr_memory_free(memory, set->comm_ops);
    orr_memory_free(memory, set->last);
    orr_memory_free(memory, set->wait_ns);
    orr_memory_free(memory, set->offset_ns);
    orr_memory_free(memory, set->residual_max_ns);
    *set = (struct orr_rank_set){0};
}
