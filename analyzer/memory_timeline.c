#include "analyzer/memory_timeline.h"

#include <string.h>

#include "analyzer/timeline_find.h"

static bool is_memory(const struct orr_timeline_counter *c) {
    return strcmp(c->name, "memory bytes") == 0 || strcmp(c->name, "reserved bytes") == 0;
}

/* 2^63; comparisons are false for what is no number. */
static bool is_good(const struct orr_timeline_counter *c) {
    return c->value >= 0 && c->value < 9223372036854775808.0 && orr__good_time(c->ts_ns);
}

static bool same_series(const struct orr_timeline_counter *a,
                        const struct orr_timeline_counter *b) {
    return a->device == b->device && strcmp(a->name, b->name) == 0;
}

static void add_sample(struct orr_memory_series *series, unsigned *last_cell, int64_t ts_ns,
                       uint64_t value) {
    unsigned cell = (unsigned)((ts_ns - series->begin_ns) / series->cell_ns);
    for (; *last_cell < cell; ++*last_cell) { /* what held until now goes on */
        series->cell_max[*last_cell + 1] = series->cell_last[*last_cell + 1] =
            series->cell_last[*last_cell];
    }
    if (value > series->cell_max[cell]) {
        series->cell_max[cell] = value;
    }
    series->cell_last[cell] = value;
    if (series->samples == 0 || value > series->peak) {
        series->peak = value;
        series->peak_ns = ts_ns;
    }
    series->last = value;
    series->samples++;
}

/* Counters [first, end) are one series, in order of time. */
static bool make_series(const struct orr_timeline *t, size_t first, size_t end,
                        struct orr_memory_series *out) {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (size_t i = first; i < end; i++) {
        if (is_good(&t->counters[i])) {
            int64_t at = t->counters[i].ts_ns;
            begin_ns = at < begin_ns ? at : begin_ns;
            end_ns = at > end_ns ? at : end_ns;
        }
    }
    if (begin_ns > end_ns) {
        return false;
    }
    *out = (struct orr_memory_series){.device = t->counters[first].device,
                                      .counter = t->counters[first].name,
                                      .begin_ns = begin_ns,
                                      .end_ns = end_ns};
    out->cell_ns = (end_ns - begin_ns) / ORR_SERIES_CELLS + 1;
    out->cells = (unsigned)((end_ns - begin_ns) / out->cell_ns) + 1;
    unsigned last_cell = 0;
    for (size_t i = first; i < end; i++) {
        if (is_good(&t->counters[i])) {
            add_sample(out, &last_cell, t->counters[i].ts_ns, (uint64_t)t->counters[i].value);
        }
    }
    return true;
}

enum orr_status orr_memory_timeline_compute(const struct orr_timeline *timeline,
                                            const struct orr_memory *memory,
                                            struct orr_memory_timeline *out_timeline) {
    *out_timeline = (struct orr_memory_timeline){0};
    size_t capacity = 0;
    for (size_t i = 0, next; i < timeline->counter_count; i = next) {
        for (next = i + 1; next < timeline->counter_count &&
                           same_series(&timeline->counters[i], &timeline->counters[next]);
             next++) {
        }
        if (!is_memory(&timeline->counters[i])) {
            continue;
        }
        enum orr_status status =
            orr_memory_grow(memory, &out_timeline->items, &capacity, out_timeline->count + 1,
                            sizeof *out_timeline->items, UINT32_MAX);
        if (status != ORR_OK) {
            orr_memory_timeline_free(memory, out_timeline);
            return status;
        }
        out_timeline->count +=
            make_series(timeline, i, next, &out_timeline->items[out_timeline->count]);
    }
    return ORR_OK;
}

void orr_memory_timeline_free(const struct orr_memory *memory,
                              struct orr_memory_timeline *timeline) {
    orr_memory_free(memory, timeline->items);
    *timeline = (struct orr_memory_timeline){0};
}
