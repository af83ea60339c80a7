/* The JSON report's sections of analyzer/explain.h. */
#include "analyzer/report_json_internal.h"
#include "analyzer/report_explain.h"

enum { ANNOTATION_ROWS = 1000, STEP_ROWS = 10000 };

/* Runs a function of text into a string value. */
static void put_why(struct json *j, const struct orr_analysis *a,
                    const struct orr_framework_row *row) {
    struct orr_text why = {.memory = j->memory};
    orr__why_framework(a, row, &why);
    j->text.failed = j->text.failed || why.failed;
    put_string(j, "why", why.data ? why.data : "");
    orr__text_free(&why);
}

static void put_count_or_null(struct json *j, const char *name, bool known, uint64_t value) {
    if (known) {
        put_count(j, name, value);
    } else {
        put_null(j, name);
    }
}

static void put_wide_or_null(struct json *j, const char *name, bool known, orr_u128 value) {
    if (known) {
        put_wide(j, name, value);
    } else {
        put_null(j, name);
    }
}

static void put_framework_row(struct json *j, const struct orr_analysis *a,
                              const struct orr_framework_row *row) {
    struct orr_roof roof = orr_framework_roof(row);
    orr_u128 bytes = row->bytes_read + row->bytes_written, up, down;
    orr_roof_fraction(&roof, &up, &down);
    put_open(j, NULL, "{");
    put_string(j, "level", "operator");
    put_string(j, "op", row->name);
    put_string(j, "kind", row->kind);
    put_string(j, "shape", row->inputs);
    put_string(j, "dtype", orr_dtype_name((enum orr_dtype)row->dtype));
    put_string(j, "unit", row->unit ? "matrix" : "vector");
    put_count(j, "count", row->count);
    put_count(j, "kernels", row->kernels);
    put_wide_or_null(j, "flops", row->has_cost, row->flops);
    put_wide_or_null(j, "bytes", row->has_cost, bytes);
    put_wide_or_null(j, "bytes_read", row->has_cost, row->bytes_read);
    put_wide_or_null(j, "bytes_written", row->has_cost, row->bytes_written);
    put_wide_or_null(j, "bytes_broadcast", row->has_cost, row->bytes_broadcast);
    put_ratio(j, "intensity", row->flops, row->has_cost ? bytes : 0, 4);
    put_int(j, "time_ns", row->time_ns);
    put_int(j, "min_ns", row->min_ns);
    put_int(j, "max_ns", row->max_ns);
    put_string(j, "class", orr_bound_text(row->bound));
    put_ratio(j, "peak_fraction", up, row->has_cost ? down : 0, 6);
    put_bool(j, "above_roof", row->above_roof);
    put_count_or_null(j, "peak_flops_per_s", row->peak > 0, row->peak);
    put_count_or_null(j, "bandwidth_bytes_per_s", row->bandwidth > 0, row->bandwidth);
    put_string(j, "main_kernel", row->main_kernel);
    put_count_or_null(j, "blocks", row->blocks > 0, row->blocks);
    put_why(j, a, row);
    put_close(j, "}");
}

void orr__json_framework(struct json *j, const struct orr_analysis *a) {
    for (size_t i = 0; i < a->explain.framework.row_count; i++) {
        line(j);
        put_framework_row(j, a, &a->explain.framework.rows[i]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Peaks */

static void put_peaks(struct json *j, const struct orr_analysis *a) {
    put_open(j, "peaks", "[");
    for (size_t d = 0; d < a->events.device_count; d++) {
        const struct orr_events_device *device = &a->events.devices[d];
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "device", device->id);
        put_string(j, "name", device->name);
        const struct orr_timeline_device *row =
            a->timeline ? orr_timeline_device(a->timeline, device->id) : NULL;
        uint32_t multiprocessors = row ? row->multiprocessors : 0;
        put_count_or_null(j, "multiprocessors", multiprocessors > 0, multiprocessors);
        uint64_t bandwidth = orr__bandwidth_of(&a->events, &a->options, (uint32_t)d);
        put_count_or_null(j, "bandwidth_bytes_per_s", bandwidth > 0, bandwidth);
        static const char *const units[] = {"vector", "matrix"};
        for (unsigned u = 0; u < 2; u++) {
            put_open(j, units[u], "{");
            for (unsigned t = 0; t < ORR_DTYPE_COUNT; t++) {
                uint64_t given = a->options.peaks.flops[u][t];
                uint64_t peak = given ? given : device->peak[u][t];
                if (peak > 0) {
                    put_count(j, orr_dtype_name((enum orr_dtype)t), peak);
                }
            }
            put_close(j, "}");
        }
        put_string(j, "source", orr__peak_source(a, (uint32_t)d));
        put_close(j, "}");
    }
    put_close(j, "]");
}

/* ------------------------------------------------------------------------------------------------
 * Steps and annotations */

static void put_steps(struct json *j, const struct orr_analysis *a) {
    const struct orr_steps *steps = &a->explain.steps;
    put_string(j, "steps_source", orr_step_source_text(steps->source));
    put_count(j, "step_count", steps->count);
    put_open(j, "steps", "[");
    for (size_t i = 0; i < steps->count && i < STEP_ROWS; i++) {
        const struct orr_step *s = &steps->items[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "name", s->name);
        put_count(j, "number", s->number);
        put_count(j, "process", s->process);
        put_count(j, "host", s->host);
        put_int(j, "begin_ns", s->begin_ns);
        put_int(j, "end_ns", s->end_ns);
        put_int(j, "length_ns", s->end_ns - s->begin_ns);
        put_bool(j, "boundary", s->boundary);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_path_names(struct json *j, const struct orr_annotations *all, uint32_t index) {
    const struct orr_annotation *path[ORR_ANNOTATION_DEPTH_MAX + 1];
    unsigned depth = 0;
    for (; index != 0 && index != ORR_EVENTS_NONE; index = all->items[index].parent) {
        path[depth++] = &all->items[index];
    }
    put_open(j, "path", "[");
    while (depth > 0) {
        const struct orr_annotation *a = path[--depth];
        struct orr_text name = {.memory = j->memory};
        orr__text_append(&name, a->name, a->name_length);
        j->text.failed = j->text.failed || name.failed;
        put_string(j, NULL, name.data ? name.data : "");
        orr__text_free(&name);
    }
    put_close(j, "]");
}

static void put_annotation(struct json *j, const struct orr_analysis *a, uint32_t index) {
    const struct orr_annotation *item = &a->explain.annotations.items[index];
    put_open(j, NULL, "{");
    put_path_names(j, &a->explain.annotations, index);
    put_count(j, "depth", item->depth);
    put_count(j, "count", item->count);
    put_count(j, "ops", item->ops);
    put_count(j, "self_ops", item->self_ops);
    put_int(j, "total_ns", item->total_ns);
    put_int(j, "self_ns", item->self_ns);
    put_ratio(j, "share", (orr_u128)item->total_ns, (orr_u128)orr__all_windows(a), 6);
    put_int(j, "exposed_comm_ns", item->exposed_comm_ns);
    orr__json_classes(j, "idle", item->idle, ORR_CLASS_PROFILER_OVERHEAD, ORR_CLASS_BEFORE_FIRST);
    put_close(j, "}");
}

static void put_annotations(struct json *j, const struct orr_analysis *a) {
    const struct orr_annotations *all = &a->explain.annotations;
    put_string(j, "annotations_by",
               all->count == 0    ? "none"
               : all->by_site     ? "line"
               : all->by_operator ? "operator"
                                  : "annotation");
    put_count(j, "annotation_count", all->count);
    put_open(j, "annotations", "[");
    for (size_t i = 0; i < all->count && i < ANNOTATION_ROWS; i++) {
        line(j);
        put_annotation(j, a, all->order[i]);
    }
    put_close(j, "]");
}

/* ------------------------------------------------------------------------------------------------
 * Queues and memory */

static void put_queue(struct json *j, const struct orr_analysis *a, const struct orr_queue *q) {
    int64_t length = q->end_ns - q->begin_ns;
    bool known = length > 0;
    put_open(j, NULL, "{");
    put_count(j, "device", a->events.devices[q->device].id);
    put_int(j, "begin_ns", q->begin_ns);
    put_int(j, "end_ns", q->end_ns);
    put_count(j, "linked_ops", q->linked);
    put_count(j, "initial", q->initial);
    put_count(j, "left_out", q->left_out);
    put_count_or_null(j, "max", known, q->max);
    put_count_or_null(j, "p50", known, q->p50);
    put_count_or_null(j, "p95", known, q->p95);
    put_ratio(j, "mean", q->area, known ? (orr_u128)length : 0, 3);
    put_time_or_null(j, "empty_ns", known, q->empty_ns);
    put_int(j, "cell_ns", q->cell_ns);
    put_open(j, "cell_max", "[");
    for (unsigned i = 0; i < q->cells; i++) {
        put_count(j, NULL, q->cell_max[i]);
    }
    put_close(j, "]");
    put_close(j, "}");
}

static void put_queues(struct json *j, const struct orr_analysis *a) {
    put_open(j, "queue_depth", "[");
    for (size_t i = 0; i < a->explain.queues.count; i++) {
        line(j);
        put_queue(j, a, &a->explain.queues.items[i]);
    }
    put_close(j, "]");
}

static void put_cells(struct json *j, const char *name, const uint64_t *cells, unsigned count) {
    put_open(j, name, "[");
    for (unsigned i = 0; i < count; i++) {
        put_count(j, NULL, cells[i]);
    }
    put_close(j, "]");
}

static void put_memory_timeline(struct json *j, const struct orr_analysis *a) {
    put_open(j, "memory_timeline", "[");
    for (size_t i = 0; i < a->explain.memory.count; i++) {
        const struct orr_memory_series *c = &a->explain.memory.items[i];
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "device", c->device);
        put_string(j, "counter", c->counter);
        put_count(j, "samples", c->samples);
        put_int(j, "begin_ns", c->begin_ns);
        put_int(j, "end_ns", c->end_ns);
        put_count(j, "peak_bytes", c->peak);
        put_int(j, "peak_ns", c->peak_ns);
        put_count(j, "last_bytes", c->last);
        put_int(j, "cell_ns", c->cell_ns);
        put_cells(j, "cell_max", c->cell_max, c->cells);
        put_cells(j, "cell_last", c->cell_last, c->cells);
        put_close(j, "}");
    }
    put_close(j, "]");
}

void orr__json_explain(struct json *j, const struct orr_analysis *a) {
    put_peaks(j, a);
    put_steps(j, a);
    put_annotations(j, a);
    put_queues(j, a);
    put_memory_timeline(j, a);
}
