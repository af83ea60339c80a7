#include "hazards/explore/minimize.h"

#include <string.h>

static enum orr_status open_part(struct orr__part *part, const struct orr_stream_program *whole,
                                 const bool *keep) {
    *part = (struct orr__part){.whole = whole};
    part->ops = orr_memory_alloc(whole->memory, whole->op_count * sizeof *part->ops);
    enum orr_status status = ORR_NO_MEMORY;
    if (part->ops)
        status = keep ? orr_stream_program_subset(whole, keep, &part->program)
                      : orr_stream_program_copy(whole, &part->program);
    if (status != ORR_OK) {
        orr__part_close(part);
        return status;
    }
    for (uint32_t i = 0; i < whole->op_count; i++)
        if (!keep || keep[i])
            part->ops[part->op_count++] = i;
    return ORR_OK;
}

enum orr_status orr__part_open(struct orr__part *part, const struct orr_stream_program *whole,
                               const bool *keep) {
    return open_part(part, whole, keep);
}

enum orr_status orr__part_open_whole(struct orr__part *part,
                                     const struct orr_stream_program *whole) {
    return open_part(part, whole, NULL);
}

void orr__part_close(struct orr__part *part) {
    if (!part->whole)
        return;
    orr_memory_free(part->whole->memory, part->ops);
    orr_stream_program_destroy(&part->program);
    *part = (struct orr__part){0};
}

uint32_t orr__part_index(const struct orr__part *part, uint32_t op) {
    uint32_t low = 0, high = part->op_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (part->ops[middle] < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < part->op_count && part->ops[low] == op ? low : ORR_NONE;
}

struct search {
    const struct orr_stream_program *whole;
    enum orr_status (*still)(void *context, const struct orr__part *part, bool *out_has);
    void *context;
    const uint32_t *unit_of; /* NULL: every operation is its own */
    bool *keep, *without;    /* the best so far; the next to be tried */
    uint32_t *place;         /* of a unit: how many kept ones come before it; ORR_NONE: left out */
};

static uint32_t unit_of(const struct search *search, uint32_t op) {
    return search->unit_of ? search->unit_of[op] : op;
}

/* Numbers the units that are kept, in order of their first operations; their number. */
static uint32_t place_units(struct search *search) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->whole->op_count; i++)
        search->place[i] = ORR_NONE;
    for (uint32_t i = 0; i < search->whole->op_count; i++)
        if (search->keep[i] && search->place[unit_of(search, i)] == ORR_NONE)
            search->place[unit_of(search, i)] = count++;
    return count;
}

/* Tries without units `first` to `first + count - 1` of those that are kept. */
static enum orr_status try_without(struct search *search, uint32_t first, uint32_t count,
                                   bool *out_gone) {
    for (uint32_t i = 0; i < search->whole->op_count; i++) {
        uint32_t place = search->place[unit_of(search, i)];
        search->without[i] = search->keep[i] && (place < first || place - first >= count);
    }
    struct orr__part part;
    *out_gone = false;
    enum orr_status status = orr__part_open(&part, search->whole, search->without);
    if (status != ORR_OK)
        return status;
    status = search->still(search->context, &part, out_gone);
    if (status == ORR_OK && *out_gone)
        memcpy(search->keep, search->without, search->whole->op_count);
    orr__part_close(&part);
    return status;
}

/* One pass over pieces of this size, from the end: what comes last is needed least. */
static enum orr_status pass(struct search *search, uint32_t size, bool *out_changed) {
    *out_changed = false;
    for (uint32_t end = place_units(search); end > 0;) {
        uint32_t first = end > size ? end - size : 0;
        bool gone;
        enum orr_status status = try_without(search, first, end - first, &gone);
        if (status != ORR_OK)
            return status;
        if (gone)
            place_units(search); /* those before are where they were */
        *out_changed = *out_changed || gone;
        end = first;
    }
    return ORR_OK;
}

static enum orr_status leave_out(struct search *search, const uint32_t *units) {
    search->unit_of = units;
    uint32_t size = place_units(search) / 2;
    size = size > 0 ? size : 1;
    for (;;) {
        bool changed;
        enum orr_status status = pass(search, size, &changed);
        if (status != ORR_OK || (size == 1 && !changed))
            return status;
        size = size > 1 ? size / 2 : 1;
    }
}

enum orr_status orr__minimize(const struct orr_stream_program *whole, const uint32_t *units,
                              enum orr_status (*still)(void *context, const struct orr__part *part,
                                                       bool *out_has),
                              void *context) {
    struct search search = {.whole = whole, .still = still, .context = context};
    search.keep = orr_memory_alloc(whole->memory, whole->op_count);
    search.without = orr_memory_alloc(whole->memory, whole->op_count);
    search.place = orr_memory_alloc(whole->memory, whole->op_count * sizeof *search.place);
    enum orr_status status = search.keep && search.without && search.place ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK)
        memset(search.keep, true, whole->op_count);
    if (status == ORR_OK && units)
        status = leave_out(&search, units);
    if (status == ORR_OK)
        status = leave_out(&search, NULL);
    orr_memory_free(whole->memory, search.keep);
    orr_memory_free(whole->memory, search.without);
    orr_memory_free(whole->memory, search.place);
    return status;
}
