/* Counters of a trace over time, as an HTML report draws them. */
#include <math.h>
#include <string.h>

#include "analyzer/report_html_internal.h"

static void put_value(struct json *j, double value) {
    bool whole = value > -9e15 && value < 9e15 && value == (double)(int64_t)value;
    if (!isfinite(value)) {
        put_null(j, NULL);
    } else if (whole) {
        put_int(j, NULL, (int64_t)value);
    } else {
        key(j, NULL);
        orr__text_add(&j->text, "%.17g", value);
    }
}

static void put_point(struct json *j, size_t cell, double value) {
    put_open(j, NULL, "[");
    put_count(j, NULL, cell);
    put_value(j, value);
    put_close(j, "]");
}

static size_t cell_of(const struct orr__html_cells *cells, int64_t time_ns) {
    return time_ns <= cells->begin_ns ? 0 : (size_t)((time_ns - cells->begin_ns) / cells->cell_ns);
}

/* The largest value of each cell, at the cells where that changes: `count` changes of one counter,
 * in order of time. A cell begins with what the one before ended with. */
static void put_points(struct json *j, const struct orr_timeline_counter *changes, size_t count,
                       const struct orr__html_cells *cells) {
    double last = 0, largest = 0, told = 0;
    bool known = false, any = false;
    size_t cell = 0;
    put_open(j, "points", "[");
    for (size_t i = 0; i <= count; i++) {
        bool within = i < count && changes[i].ts_ns < cells->end_ns;
        size_t next = within ? cell_of(cells, changes[i].ts_ns) : cells->count;
        if (next > cell && known) {
            if (!any || largest != told) {
                put_point(j, cell, largest);
            }
            told = largest;
            any = true;
            /* Cells in between have nothing but what this one ended with. */
            if (next > cell + 1 && last != told) {
                put_point(j, cell + 1, last);
                told = last;
            }
        }
        if (!within) {
            break;
        }
        bool carries = known && changes[i].ts_ns > cells->begin_ns;
        double begin = next > cell ? last : largest;
        largest = carries && begin > changes[i].value ? begin : changes[i].value;
        last = changes[i].value;
        known = true;
        cell = next;
    }
    put_close(j, "]");
}

void orr__html_counters(struct json *j, const struct orr_timeline *timeline,
                        const struct orr__html_cells *cells) {
    size_t count = timeline && cells->count > 0 ? timeline->counter_count : 0, shown = 0;
    uint64_t left_out = 0;
    put_open(j, "counters", "[");
    for (size_t i = 0, end; i < count; i = end) {
        const struct orr_timeline_counter *first = &timeline->counters[i];
        for (end = i; end < count && timeline->counters[end].device == first->device &&
                      strcmp(timeline->counters[end].name, first->name) == 0;
             end++) {
        }
        if (shown == ORR_REPORT_HTML_COUNTERS) {
            left_out++;
            continue;
        }
        shown++;
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "device", first->device);
        put_string(j, "name", first->name);
        put_points(j, first, end - i, cells);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_count(j, "counters_left_out", left_out);
}
