#include "analyzer/report_json.h"

#include <string.h>

#include "analyzer/report_json_internal.h"
#include "analyzer/report_why.h"
#include "analyzer/times.h"

/* ------------------------------------------------------------------------------------------------
 * Head */

static void put_options(struct json *j, const struct orr_analysis_options *o) {
    put_open(j, "options", "{");
    put_int(j, "short_gap_ns", o->short_gap_ns);
    put_int(j, "dispatch_max_ns", o->dispatch_max_ns);
    put_count(j, "host_percent", o->host_percent);
    put_count(j, "launch_gaps_min", o->launch_gaps_min);
    put_count(j, "period_percent", o->period_percent);
    put_count(j, "unknown_percent", o->unknown_percent);
    put_count(j, "sync_percent", o->sync_percent);
    put_count(j, "busy_percent", o->busy_percent);
    put_count(j, "roof_percent", o->roof_percent);
    put_int(j, "cell_min_ns", o->cell_min_ns);
    put_count(j, "cells", o->cells);
    put_count(j, "smooth", o->smooth);
    put_close(j, "}");
}

static void put_head(struct json *j, const struct orr_analysis *a) {
    put_string(j, "file", a->options.file);
    put_string(j, "format", a->events.source.format);
    put_string(j, "status", a->events.source.status);
    put_bool(j, "modelled", a->events.source.modelled);
    put_int(j, "window_ns", a->end_ns - a->begin_ns);
    put_int(j, "begin_ns", a->begin_ns);
    put_int(j, "end_ns", a->end_ns);
    put_options(j, &a->options);
}

/* ------------------------------------------------------------------------------------------------
 * Devices */

void orr__json_classes(struct json *j, const char *name, const int64_t *classes, unsigned first,
                       unsigned end) {
    put_open(j, name, "{");
    for (unsigned c = first; c < end; c++) {
        put_int(j, orr_class_text((enum orr_class)c), classes[c]);
    }
    put_close(j, "}");
}

/* Runs one of the why functions into a string value. */
static void put_why_launch(struct json *j, const struct orr_analysis *a,
                           const struct orr_launch_terms *terms) {
    struct orr_text why = {.memory = j->memory};
    orr__why_launch(a, terms, &why);
    j->text.failed = j->text.failed || why.failed;
    put_string(j, "why", why.data ? why.data : "");
    orr__text_free(&why);
}

static void put_graph(struct json *j, const struct orr_device_report *report) {
    const struct orr_launch *launch = &report->launch;
    put_int(j, "graph_saving_ns", report->graph_saving_ns);
    put_count(j, "graph_gaps", launch->graph_gaps);
    put_int(j, "graph_repeated_ns", launch->graph_repeated_ns);
    put_open(j, "graph_not_eligible", "{");
    static const char *const names[ORR_GRAPH_REASON_COUNT] = {"eligible", "unlinked", "thread",
                                                              "graph", "breaking"};
    for (unsigned r = 1; r < ORR_GRAPH_REASON_COUNT; r++) {
        put_count(j, names[r], launch->graph_gap_counts[r]);
    }
    put_close(j, "}");
}

static void put_launch(struct json *j, const struct orr_analysis *a,
                       const struct orr_device_report *r) {
    const struct orr_launch *launch = &r->launch;
    put_open(j, "launch", "{");
    put_count(j, "count", launch->calls);
    put_time_or_null(j, "latency_ns_p50", launch->calls > 0, launch->median_ns);
    put_time_or_null(j, "latency_ns_p95", launch->calls > 0, launch->p95_ns);
    put_int(j, "total_ns", launch->sum_ns);
    put_answer(j, "bound", r->window.bound);
    put_int(j, "host_ns", r->window.host_ns);
    put_time_or_null(j, "launch_period_ns", r->window.has_launch_period,
                     r->window.launch_period_ns);
    put_time_or_null(j, "gap_period_ns", r->window.has_gap_period, r->window.gap_period_ns);
    put_count(j, "feed_calls", launch->feed_calls);
    put_count(j, "feed_gaps", r->window.feed_gaps);
    if (launch->thread == ORR_EVENTS_NONE) {
        put_null(j, "feeding_thread");
    } else {
        put_string(j, "feeding_thread", a->events.threads[launch->thread].label);
    }
    put_int(j, "serial_bound_ns", orr__add_ns(launch->sum_ns, r->times.busy_ns));
    put_graph(j, r);
    put_why_launch(j, a, &r->window);
    put_close(j, "}");
}

static void put_device(struct json *j, const struct orr_analysis *a,
                       const struct orr_device_report *r) {
    const struct orr_events_device *device = &a->events.devices[r->device];
    const int64_t *c = r->classes;
    int64_t overlap = r->times.window_comm_ns - c[ORR_CLASS_EXPOSED_COMM];
    put_open(j, NULL, "{");
    put_count(j, "id", device->id);
    put_string(j, "name", device->name);
    put_count(j, "ops", r->times.ops);
    put_int(j, "window_ns", r->end_ns - r->begin_ns);
    put_int(j, "busy_ns", orr_classes_busy(c));
    put_int(j, "compute_ns", c[ORR_CLASS_COMPUTE]);
    put_int(j, "comm_ns", r->times.window_comm_ns);
    put_int(j, "copy_ns", r->times.window_copy_ns);
    put_int(j, "exposed_comm_ns", c[ORR_CLASS_EXPOSED_COMM]);
    put_int(j, "exposed_copy_ns", c[ORR_CLASS_EXPOSED_COPY]);
    put_int(j, "overlap_ns", overlap);
    put_ratio(j, "overlap_ratio", (orr_u128)overlap, (orr_u128)r->times.window_comm_ns, 6);
    orr__json_classes(j, "idle", c, ORR_CLASS_PROFILER_OVERHEAD, ORR_CLASS_COUNT);
    put_int(j, "host_api_ns", r->times.host_api_ns);
    put_open(j, "busy", "{");
    for (unsigned b = 0; b < ORR_BUSY_COUNT; b++) {
        put_int(j, orr_phase_group_text((enum orr_phase_group)b), r->busy_groups[b]);
    }
    put_close(j, "}");
    put_int(j, "residual_ns", r->residual_ns);
    put_string(j, "verdict", orr_verdict_text(r->verdict));
    struct orr_text why = {.memory = j->memory};
    orr__why_verdict(a, r, &why);
    j->text.failed = j->text.failed || why.failed;
    put_string(j, "why", why.data ? why.data : "");
    orr__text_free(&why);
    orr__json_device_strategy(j, a, r->device);
    put_launch(j, a, r);
    put_close(j, "}");
}

static void put_devices(struct json *j, const struct orr_analysis *a) {
    put_open(j, "devices", "[");
    for (size_t d = 0; d < a->device_count; d++) {
        line(j);
        put_device(j, a, &a->devices[d]);
    }
    put_close(j, "]");
}

/* ------------------------------------------------------------------------------------------------
 * Timing */

static void put_timing(struct json *j, const struct orr_analysis *a) {
    const struct orr_split *s = &a->split;
    put_open(j, "timing", "{");
    put_count(j, "ops", s->ops);
    put_int(j, "submission_ns", s->submit_ns);
    put_int(j, "stream_wait_ns", s->stream_wait_ns);
    put_time_or_null(j, "dep_wait_ns", a->events.source.knows_waits, s->dep_wait_ns);
    put_int(j, "dispatch_ns", s->dispatch_ns);
    put_int(j, "device_ns", s->device_ns);
    put_int(j, "total_ns", s->total_ns);
    put_int(j, "residual_ns",
            s->total_ns - s->submit_ns - s->stream_wait_ns - s->dep_wait_ns - s->dispatch_ns -
                s->device_ns);
    put_time_or_null(j, "sync_ns", a->events.source.knows_syncs, s->sync_ns);
    put_count(j, "sync_ops", s->sync_ops);
    put_count(j, "host_waits", s->host_waits);
    put_int(j, "host_wait_ns", s->host_wait_ns);
    put_int(j, "calls_ns", s->call_ns_once);
    put_close(j, "}");
}

/* One row per op, for traces short enough: the four intervals apart. */
static void put_command(struct json *j, const struct orr_analysis *a, uint32_t index) {
    const struct orr_events_op *op = &a->events.ops[index];
    const struct orr_events_stream *stream = &a->events.streams[op->stream];
    struct orr_split_parts p;
    bool known = orr_split_of(&a->events, index, &p);
    uint32_t sync = a->split.sync_call[index];
    put_open(j, NULL, "{");
    put_count(j, "cmd", op->correlation);
    put_string(j, "name", op->name);
    put_count(j, "device", a->events.devices[stream->device].id);
    put_count(j, "stream", stream->id);
    put_time_or_null(j, "submission_ns", known, known ? p.submit : 0);
    put_time_or_null(j, "queued_ns", known, known ? p.stream_wait + p.dep_wait + p.dispatch : 0);
    put_time_or_null(j, "stream_wait_ns", known, known ? p.stream_wait : 0);
    put_time_or_null(j, "dep_wait_ns", known && a->events.source.knows_waits,
                     known ? p.dep_wait : 0);
    put_time_or_null(j, "dispatch_ns", known, known ? p.dispatch : 0);
    put_int(j, "device_ns", op->end_ns - op->start_ns);
    put_time_or_null(j, "sync_ns", sync != ORR_EVENTS_NONE,
                     sync != ORR_EVENTS_NONE ? orr_split_sync(&a->events, index, sync) : 0);
    put_int(j, "start_ns", op->start_ns);
    put_int(j, "finish_ns", op->end_ns);
    put_int(j, "inputs_reusable_ns", op->end_ns);
    put_close(j, "}");
}

static void put_commands(struct json *j, const struct orr_analysis *a) {
    if (!a->rows) {
        return;
    }
    put_open(j, "commands", "[");
    for (size_t i = 0; i < a->events.op_count; i++) {
        line(j);
        put_command(j, a, a->rows[i]);
    }
    put_close(j, "]");
}

void orr__json_idle_streams(struct json *j, const struct orr_analysis *a) {
    put_open(j, "idle_by_stream", "{");
    for (unsigned c = 0; c < ORR_STREAM_IDLE_COUNT; c++) {
        put_int(j, orr_stream_idle_text((enum orr_stream_idle)c), a->idle_streams.ns[c]);
    }
    put_close(j, "}");
}

/* ------------------------------------------------------------------------------------------------
 * Phases, roofline, collectives */

static void put_operator_name(struct json *j, const struct orr_analysis *a, uint32_t index) {
    const struct orr_events_operator *o = &a->events.operators[index];
    put_string(j, "op", o->name);
    put_string(j, "kind", o->kind);
    put_string(j, "shape", o->shape);
    put_string(j, "dtype", orr_dtype_name(o->dtype));
}

static void put_phase(struct json *j, const struct orr_analysis *a, const struct orr_phase *p) {
    struct orr_text why = {.memory = j->memory};
    orr__why_phase(a, p, &why);
    j->text.failed = j->text.failed || why.failed;
    put_open(j, NULL, "{");
    put_count(j, "device", a->events.devices[p->device].id);
    put_int(j, "begin_ns", p->begin_ns);
    put_int(j, "end_ns", p->end_ns);
    put_string(j, "class", orr_phase_class_text(p));
    put_string(j, "group", orr_phase_group_text(p->label));
    put_ratio(j, "share", (orr_u128)p->groups[p->label], (orr_u128)(p->end_ns - p->begin_ns), 4);
    put_string(j, "why", why.data ? why.data : "");
    put_open(j, "ns", "{");
    for (unsigned g = 0; g < ORR_PHASE_COUNT; g++) {
        put_int(j, orr_phase_group_text((enum orr_phase_group)g), p->groups[g]);
    }
    put_close(j, "}");
    put_open(j, "top", "[");
    for (unsigned i = 0; i < p->top_count; i++) {
        put_open(j, NULL, "{");
        put_string(j, "op", a->events.operators[p->top[i].operator_index].name);
        put_string(j, "shape", a->events.operators[p->top[i].operator_index].shape);
        put_int(j, "time_ns", p->top[i].time_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_close(j, "}");
    orr__text_free(&why);
}

static void put_phases(struct json *j, const struct orr_analysis *a) {
    put_int(j, "phase_cell_ns", a->phases.cell_ns);
    put_open(j, "phases", "[");
    for (size_t i = 0; i < a->phases.count; i++) {
        line(j);
        put_phase(j, a, &a->phases.items[i]);
    }
    put_close(j, "]");
}

static void put_wide_or_null(struct json *j, const char *name, bool known, orr_u128 value) {
    if (known) {
        put_wide(j, name, value);
    } else {
        put_null(j, name);
    }
}

static void put_row(struct json *j, const struct orr_analysis *a,
                    const struct orr_operator_row *row) {
    orr_u128 bytes = row->bytes_read + row->bytes_written, up, down;
    struct orr_roof roof = orr_roof_of_row(row);
    orr_roof_fraction(&roof, &up, &down);
    bool known = row->no_cost == 0;
    put_open(j, NULL, "{");
    if (a->explain.framework.row_count > 0) {
        put_string(j, "level", "kernel");
    }
    put_operator_name(j, a, row->operator_index);
    put_string(j, "unit", a->events.operators[row->operator_index].unit ? "matrix" : "vector");
    put_count(j, "count", row->count);
    put_wide_or_null(j, "flops", known, row->flops);
    put_wide_or_null(j, "bytes", known, bytes);
    put_wide_or_null(j, "bytes_read", known, row->bytes_read);
    put_wide_or_null(j, "bytes_written", known, row->bytes_written);
    put_wide_or_null(j, "bytes_broadcast", known, row->bytes_broadcast);
    put_ratio(j, "intensity", row->flops, known ? bytes : 0, 4);
    put_int(j, "time_ns", row->time_ns);
    put_int(j, "host_ns", row->host_ns);
    put_int(j, "min_ns", row->min_ns);
    put_int(j, "max_ns", row->max_ns);
    put_string(j, "class", orr_bound_text(row->bound));
    put_ratio(j, "peak_fraction", up, known ? down : 0, 6);
    put_bool(j, "above_roof", row->above_roof);
    put_count(j, "peak_flops_per_s", row->peak);
    put_count(j, "bandwidth_bytes_per_s", row->bandwidth);
    put_count(j, "weight_bytes", row->weight_bytes);
    struct orr_text why = {.memory = j->memory};
    orr__why_row(a, row, &why);
    j->text.failed = j->text.failed || why.failed;
    put_string(j, "why", why.data ? why.data : "");
    orr__text_free(&why);
    put_close(j, "}");
}

static void put_roofline(struct json *j, const struct orr_analysis *a) {
    put_open(j, "roofline", "[");
    orr__json_framework(j, a);
    for (size_t i = 0; i < a->roofline.row_count; i++) {
        line(j);
        put_row(j, a, &a->roofline.rows[i]);
    }
    put_close(j, "]");
    put_open(j, "kinds", "[");
    for (size_t i = 0; i < a->roofline.kind_count; i++) {
        const struct orr_kind_row *row = &a->roofline.kinds[i];
        put_open(j, NULL, "{");
        put_string(j, "kind", row->kind);
        put_count(j, "count", row->count);
        put_int(j, "time_ns", row->time_ns);
        put_int(j, "host_ns", row->host_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_collectives(struct json *j, const struct orr_analysis *a) {
    put_open(j, "collectives", "[");
    for (size_t i = 0; i < a->roofline.collective_count; i++) {
        const struct orr_collective_row *row = &a->roofline.collectives[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "kind", row->kind);
        put_string(j, "group", row->group);
        put_count(j, "size", row->size);
        put_count(j, "bytes", row->bytes);
        put_count(j, "count", row->count);
        put_time_or_null(j, "transfer_ns", row->partial < row->count, row->transfer_ns);
        put_time_or_null(j, "arrival_wait_ns", row->partial < row->count, row->arrival_ns);
        put_count(j, "mismatched", row->mismatched);
        put_count(j, "partial", row->partial);
        if (row->bus_bandwidth > 0) {
            put_count(j, "bus_bytes_per_s", row->bus_bandwidth);
        } else {
            put_null(j, "bus_bytes_per_s");
        }
        if (row->emulated > 0 || row->modelled_ns > 0) {
            put_count(j, "emulated", row->emulated);
            put_int(j, "modelled_ns", row->modelled_ns);
        }
        put_close(j, "}");
    }
    put_close(j, "]");
}

/* ------------------------------------------------------------------------------------------------
 * Critical path, memory, findings */

static void put_segment(struct json *j, const struct orr_analysis *a,
                        const struct orr_path_segment *s) {
    put_open(j, NULL, "{");
    put_int(j, "begin_ns", s->begin_ns);
    put_int(j, "end_ns", s->end_ns);
    put_string(j, "kind", orr_path_kind_text(s->kind));
    if (s->op != ORR_EVENTS_NONE) {
        const struct orr_events_op *op = &a->events.ops[s->op];
        put_string(j, "op", op->name);
        put_count(j, "cmd", op->correlation);
        put_count(j, "device", a->events.devices[a->events.streams[op->stream].device].id);
    } else if (s->call != ORR_EVENTS_NONE) {
        const struct orr_events_call *call = &a->events.calls[s->call];
        put_string(j, "call", call->name);
        put_string(j, "host", a->events.threads[call->thread].label);
    }
    put_close(j, "}");
}

static void put_path(struct json *j, const struct orr_analysis *a) {
    const struct orr_critical_path *p = &a->path;
    put_open(j, "critical_path", "{");
    put_int(j, "begin_ns", p->begin_ns);
    put_int(j, "end_ns", p->end_ns);
    put_int(j, "length_ns", p->end_ns - p->begin_ns);
    int64_t sum = 0;
    put_open(j, "kinds", "{");
    for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
        put_int(j, orr_path_kind_text((enum orr_path_kind)k), p->kinds[k]);
        sum += p->kinds[k];
    }
    put_close(j, "}");
    put_int(j, "residual_ns", p->end_ns - p->begin_ns - sum);
    put_bool(j, "broken", p->broken);
    put_open(j, "operators", "[");
    for (size_t i = 0; i < p->operator_count && i < a->options.path_rows; i++) {
        put_open(j, NULL, "{");
        put_operator_name(j, a, p->operators[i].operator_index);
        put_count(j, "count", p->operators[i].count);
        put_int(j, "time_ns", p->operators[i].time_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_count(j, "segment_count", p->segment_count);
    put_open(j, "segments", "[");
    for (size_t i = 0; i < p->segment_count && i < a->options.path_rows; i++) {
        line(j);
        put_segment(j, a, &p->segments[i]);
    }
    put_close(j, "]");
    orr__json_slack(j, a);
    put_close(j, "}");
}

static void put_id_or_null(struct json *j, const char *name, uint64_t id) {
    if (id > 0) {
        put_count(j, name, id);
    } else {
        put_null(j, name);
    }
}

static void put_findings(struct json *j, const struct orr_analysis *a) {
    put_open(j, "findings", "[");
    for (size_t i = 0; i < a->findings.count; i++) {
        const struct orr_analysis_finding *f = &a->findings.items[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "kind", f->kind);
        put_string(j, "severity", f->severity);
        put_string(j, "message", f->message);
        put_string(j, "fix", f->fix);
        put_id_or_null(j, "cmd_a", f->cmd_a);
        put_id_or_null(j, "cmd_b", f->cmd_b);
        put_id_or_null(j, "buffer", f->buffer);
        put_close(j, "}");
    }
    put_close(j, "]");
}

enum orr_status orr_report_json(const struct orr_analysis *analysis, char **out_text,
                                size_t *out_length) {
    struct json j = {.text = {.memory = analysis->memory}, .memory = analysis->memory};
    put_open(&j, NULL, "{");
    put_head(&j, analysis);
    put_devices(&j, analysis);
    put_timing(&j, analysis);
    orr__json_idle_streams(&j, analysis);
    put_commands(&j, analysis);
    put_phases(&j, analysis);
    put_roofline(&j, analysis);
    put_collectives(&j, analysis);
    orr__json_explain(&j, analysis);
    orr__json_communication(&j, analysis);
    orr__json_pipelines(&j, analysis);
    orr__json_ranks(&j, analysis);
    put_path(&j, analysis);
    orr__json_memory(&j, analysis);
    put_findings(&j, analysis);
    orr__json_doctor(&j, analysis);
    orr__json_exact(&j, analysis);
    put_close(&j, "}");
    orr__text_append(&j.text, "\n", 1);
    *out_text = NULL;
    *out_length = 0;
    if (j.text.failed) {
        orr__text_free(&j.text);
        return ORR_NO_MEMORY;
    }
    *out_text = j.text.data;
    *out_length = j.text.length;
    return ORR_OK;
}
