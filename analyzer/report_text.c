#include "analyzer/report_text.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/report_devices.h"
#include "analyzer/report_explain.h"
#include "analyzer/report_memory.h"
#include "analyzer/report_strategy.h"
#include "analyzer/report_text_ranks.h"
#include "analyzer/report_why.h"
#include "analyzer/table.h"
#include "analyzer/text.h"
#include "analyzer/times.h"

/* Rows of each table; --json has them all. */
enum { OPERATOR_ROWS = 12, PHASE_ROWS = 24, PATH_OPERATOR_ROWS = 8, ROWS = 16 };

struct report {
    const struct orr_analysis *a;
    struct orr_text text;
};

static void heading(struct report *r, const char *title) {
    orr__text_add(&r->text, "\n%s\n", title);
}

static void more_rows(struct report *r, size_t all, size_t shown) {
    if (all > shown) {
        orr__text_add(&r->text, "  (%zu more: --json lists all)\n", all - shown);
    }
}

/* ------------------------------------------------------------------------------------------------
 * First line */

/* "device-bound (compute-bound)": the verdict, and for a busy device what bounds its ops. */
static void add_verdict(struct report *r, const struct orr_device_report *d) {
    char name[32], bound[32];
    orr__text_add(&r->text, "%s", orr__text_hyphens(orr_verdict_text(d->verdict), name));
    if (d->verdict != ORR_VERDICT_DEVICE_BOUND) {
        return;
    }
    enum orr_busy busy = orr__main_busy(d);
    const char *text = busy == ORR_BUSY_COMM   ? "communication_bound"
                       : busy == ORR_BUSY_COPY ? "copy_bound"
                                               : orr_bound_text((enum orr_bound)busy);
    if (busy == ORR_BUSY_NO_COST) {
        orr__text_add(&r->text, " (by what, is not known)");
        return;
    }
    orr__text_add(&r->text, " (%s)", orr__text_hyphens(text, bound));
}

/* The device that a report about one is about: the one with most ops; the first of equals. */
static const struct orr_device_report *main_device(const struct orr_analysis *a) {
    const struct orr_device_report *best = NULL;
    for (size_t d = 0; d < a->device_count; d++) {
        if (!best || a->devices[d].times.ops > best->times.ops) {
            best = &a->devices[d];
        }
    }
    return best;
}

static void add_first_line(struct report *r) {
    const struct orr_analysis *a = r->a;
    const struct orr_device_report *d = main_device(a);
    if (!d || a->events.op_count == 0) {
        orr__text_add(&r->text, "verdict: unknown: the trace has no device op\n");
        return;
    }
    size_t alike = 0;
    for (size_t i = 0; i < a->device_count; i++) {
        alike += a->devices[i].verdict == d->verdict;
    }
    orr__text_add(&r->text, "verdict: ");
    add_verdict(r, d);
    orr__text_add(&r->text, ": device %u", a->events.devices[d->device].id);
    if (a->device_count > 1) {
        orr__text_add(&r->text, " (%zu of %zu devices are %s)", alike, a->device_count,
                      orr__text_hyphens(orr_verdict_text(d->verdict), (char[32]){0}));
    }
    orr__text_add(&r->text, ": ");
    orr__why_verdict(a, d, &r->text);
    orr__text_add(&r->text, "\n");
}

static void add_source(struct report *r) {
    const struct orr_analysis *a = r->a;
    const struct orr_events_source *s = &a->events.source;
    char window[ORR_NUMBER_TEXT_MAX];
    orr__text_add(&r->text, "trace%s%s: format %s, %zu devices, %llu streams, %zu ops, %zu calls\n",
                  a->options.file[0] ? " " : "", a->options.file, s->format, a->device_count,
                  (unsigned long long)a->idle_streams.streams, a->events.op_count,
                  a->events.call_count);
    orr__text_add(&r->text, "window: %s, from %lld to %lld ns\n",
                  orr__time_text(a->end_ns - a->begin_ns, window), (long long)a->begin_ns,
                  (long long)a->end_ns);
    if (s->modelled) {
        orr__text_add(&r->text, "times: modelled; they come from a cost model, and so does every "
                                "class below: nothing here is measured on a real device\n");
    }
    orr__report_peaks(a, &r->text);
}

/* ------------------------------------------------------------------------------------------------
 * Operators: the roofline and what it adds up to */

static void add_operator_rows(struct report *r) {
    const struct orr_analysis *a = r->a;
    struct orr_table table;
    orr__table_begin(
        &table, a->memory,
        "operator|shape|dtype|>count|>host|>time|>FLOP|>bytes|>FLOP/B|>% of roof|class");
    for (size_t i = 0; i < a->roofline.row_count && i < OPERATOR_ROWS; i++) {
        const struct orr_operator_row *row = &a->roofline.rows[i];
        const struct orr_events_operator *o = &a->events.operators[row->operator_index];
        char name[ORR_TABLE_CELL_MAX + 1], shape[ORR_TABLE_CELL_MAX + 1], class_[32];
        char time[ORR_NUMBER_TEXT_MAX], flops[ORR_NUMBER_TEXT_MAX], bytes[ORR_NUMBER_TEXT_MAX];
        char intensity[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], host[ORR_NUMBER_TEXT_MAX];
        orr_u128 moved = row->bytes_read + row->bytes_written, up, down;
        struct orr_roof roof = orr_roof_of_row(row);
        orr_roof_fraction(&roof, &up, &down);
        bool known = row->no_cost == 0;
        orr__table_row(&table, "%s|%s|%s|%llu|%s|%s|%s|%s|%s|%s|%s%s",
                       orr__table_clean(o->name, name), orr__table_clean(o->shape, shape),
                       orr_dtype_name(o->dtype), (unsigned long long)row->count,
                       orr__time_text(row->host_ns, host), orr__time_text(row->time_ns, time),
                       known ? orr__amount_text(row->flops, "FLOP", flops) : "unknown",
                       known ? orr__amount_text(moved, "B", bytes) : "unknown",
                       known ? orr__ratio_text(row->flops, moved, 2, intensity) : "-",
                       known ? orr__hundredfold_text(up, down, share) : "-",
                       orr__text_hyphens(orr_bound_text(row->bound), class_),
                       row->above_roof ? ", above-roof" : "");
    }
    orr__table_end(&table, &r->text);
    more_rows(r, a->roofline.row_count, OPERATOR_ROWS);
}

/* The operators that took most, with the arithmetic of their class. */
static void add_operator_reasons(struct report *r) {
    const struct orr_analysis *a = r->a;
    for (size_t i = 0; i < a->roofline.row_count && i < 3; i++) {
        const struct orr_operator_row *row = &a->roofline.rows[i];
        const struct orr_events_operator *o = &a->events.operators[row->operator_index];
        char name[ORR_TABLE_CELL_MAX + 1], class_[32];
        orr__text_add(&r->text, "  %s%s%s: %s: ", orr__table_clean(o->name, name),
                      o->shape[0] ? " " : "", o->shape,
                      orr__text_hyphens(orr_bound_text(row->bound), class_));
        orr__why_row(a, row, &r->text);
        orr__text_add(&r->text, "\n");
    }
}

static void add_broadcast(struct report *r) {
    orr_u128 broadcast = 0;
    char bytes[ORR_NUMBER_TEXT_MAX];
    for (size_t i = 0; i < r->a->roofline.row_count; i++) {
        broadcast += r->a->roofline.rows[i].bytes_broadcast;
    }
    if (broadcast > 0) {
        orr__text_add(&r->text,
                      "  broadcast operands: %s, counted apart: they stay in cache and are in no "
                      "byte figure above\n",
                      orr__amount_text(broadcast, "B", bytes));
    }
}

static const struct orr_kind_row *kind_row(const struct orr_analysis *a, const char *kind) {
    for (size_t i = 0; i < a->roofline.kind_count; i++) {
        if (strcmp(a->roofline.kinds[i].kind, kind) == 0) {
            return &a->roofline.kinds[i];
        }
    }
    return NULL;
}

/* "elementwise 67.11 us = 24.41 % of GEMM 274.88 us" */
static void add_elementwise(struct report *r) {
    const struct orr_kind_row *gemm = kind_row(r->a, "gemm");
    const struct orr_kind_row *pointwise = kind_row(r->a, "pointwise");
    char part[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], whole[ORR_NUMBER_TEXT_MAX];
    if (!gemm || !pointwise) {
        return;
    }
    orr__text_add(&r->text, "  elementwise %s = %s of GEMM %s (device time, summed)\n",
                  orr__time_text(pointwise->time_ns, part),
                  orr__percent_text(pointwise->time_ns, gemm->time_ns, share),
                  orr__time_text(gemm->time_ns, whole));
    int64_t host = orr__add_ns(gemm->host_ns, pointwise->host_ns);
    if (host > 0) {
        orr__text_add(
            &r->text, "  GEMM and elementwise: host %s for %llu ops, against %s on the device\n",
            orr__time_text(host, part), (unsigned long long)(gemm->count + pointwise->count),
            orr__time_text(orr__add_ns(gemm->time_ns, pointwise->time_ns), whole));
    }
}

static void add_explained(struct report *r) {
    orr__report_annotations(r->a, &r->text);
    orr__report_steps(r->a, &r->text);
    orr__report_queues(r->a, &r->text);
}

static void add_operators(struct report *r) {
    if (r->a->roofline.row_count == 0) {
        return;
    }
    if (strcmp(r->a->events.source.format, "orrery") != 0) {
        orr__report_framework(r->a, &r->text);
        orr__report_kernels(r->a, &r->text);
        return;
    }
    heading(r,
            "operators (time: on the device, summed over ops; host: calls of one op each; bytes: "
            "each operand read once, each result written once)");
    add_operator_rows(r);
    add_operator_reasons(r);
    add_elementwise(r);
    add_broadcast(r);
}

/* ------------------------------------------------------------------------------------------------
 * Devices: classes of the window */

static void add_classes(struct report *r) {
    const struct orr_analysis *a = r->a;
    int64_t sums[ORR_CLASS_COUNT] = {0}, window = 0, residual = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
            sums[c] = orr__add_ns(sums[c], a->devices[d].classes[c]);
        }
        window = orr__add_ns(window, a->devices[d].end_ns - a->devices[d].begin_ns);
        residual = orr__add_ns(residual, a->devices[d].residual_ns);
    }
    char title[128], name[32], time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    snprintf(title, sizeof title, "where the window went (%zu device%s; shares of device x window)",
             a->device_count, a->device_count == 1 ? "" : "s");
    heading(r, title);
    struct orr_table table;
    orr__table_begin(&table, a->memory, "class|>time|>share of window");
    for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
        if (sums[c] > 0) {
            orr__table_row(
                &table, "%s|%s|%s", orr__text_hyphens(orr_class_text((enum orr_class)c), name),
                orr__time_text(sums[c], time), orr__percent_text(sums[c], window, share));
        }
    }
    orr__table_row(&table, "window|%s|%s", orr__time_text(window, time),
                   orr__percent_text(window, window, share));
    orr__table_row(&table, "residual|%s|", orr__time_text(residual, time));
    orr__table_end(&table, &r->text);
}

static void add_device_rows(struct report *r) {
    orr__report_devices(r->a, &r->text);
}

/* Communication against computation: sizes, then the ratio. */
static void add_overlap(struct report *r) {
    const struct orr_analysis *a = r->a;
    int64_t comm = 0, overlap = 0, exposed = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        comm = orr__add_ns(comm, a->devices[d].times.window_comm_ns);
        exposed = orr__add_ns(exposed, a->devices[d].classes[ORR_CLASS_EXPOSED_COMM]);
    }
    overlap = comm - exposed;
    if (comm == 0) {
        return;
    }
    char all[ORR_NUMBER_TEXT_MAX], with[ORR_NUMBER_TEXT_MAX], alone[ORR_NUMBER_TEXT_MAX];
    char share[ORR_NUMBER_TEXT_MAX];
    orr__text_add(&r->text,
                  "  communication %s: %s overlaps compute (%s of communication), %s exposed "
                  "(exposed is not blocking: see the critical path)\n",
                  orr__time_text(comm, all), orr__time_text(overlap, with),
                  orr__percent_text(overlap, comm, share), orr__time_text(exposed, alone));
}

static void add_idle_streams(struct report *r) {
    const struct orr_analysis *a = r->a;
    char time[ORR_NUMBER_TEXT_MAX];
    int64_t sum = 0;
    for (unsigned c = 0; c < ORR_STREAM_IDLE_COUNT; c++) {
        sum = orr__add_ns(sum, a->idle_streams.ns[c]);
    }
    if (sum == 0) {
        return;
    }
    orr__text_add(&r->text,
                  "  idle inside streams, summed over %llu streams (more than their "
                  "devices' idle time):",
                  (unsigned long long)a->idle_streams.streams);
    for (unsigned c = 0; c < ORR_STREAM_IDLE_COUNT; c++) {
        orr__text_add(&r->text, " %s %s", orr_stream_idle_text((enum orr_stream_idle)c),
                      orr__time_text(a->idle_streams.ns[c], time));
    }
    orr__text_add(&r->text, "\n");
}

/* ------------------------------------------------------------------------------------------------
 * Timing: the intervals of commands */

static void add_timing(struct report *r) {
    const struct orr_analysis *a = r->a;
    const struct orr_split *s = &a->split;
    if (s->ops == 0) {
        return;
    }
    char title[128], time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    snprintf(title, sizeof title,
             "timing of %llu ops, summed (enqueue to finish; shares of that total)",
             (unsigned long long)s->ops);
    heading(r, title);
    struct orr_table table;
    orr__table_begin(&table, a->memory, "interval|>time|>share");
    const struct {
        const char *name;
        int64_t ns;
    } rows[] = {{"submission", s->submit_ns},
                {"queued: stream-wait", s->stream_wait_ns},
                {"queued: dep-wait", s->dep_wait_ns},
                {"queued: dispatch", s->dispatch_ns},
                {"device service", s->device_ns}};
    int64_t residual = s->total_ns;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        residual -= rows[i].ns;
        bool unknown = i == 2 && !a->events.source.knows_waits && rows[i].ns == 0;
        orr__table_row(&table, "%s|%s|%s", rows[i].name,
                       unknown ? "unknown" : orr__time_text(rows[i].ns, time),
                       unknown ? "-" : orr__percent_text(rows[i].ns, s->total_ns, share));
    }
    orr__table_row(&table, "total|%s|", orr__time_text(s->total_ns, time));
    orr__table_row(&table, "residual|%s|", orr__time_text(residual, time));
    orr__table_end(&table, &r->text);
    char wait[ORR_NUMBER_TEXT_MAX];
    if (a->events.source.knows_syncs) {
        orr__text_add(&r->text,
                      "  synchronisation, beside the total: %s from the end of %llu ops to the "
                      "return of the wait that observed them; hosts waited %s in %llu calls\n",
                      orr__time_text(s->sync_ns, time), (unsigned long long)s->sync_ops,
                      orr__time_text(s->host_wait_ns, wait), (unsigned long long)s->host_waits);
    }
}

static void add_command_row(struct orr_table *table, const struct orr_analysis *a, uint32_t index) {
    const struct orr_events_op *op = &a->events.ops[index];
    const struct orr_events_stream *stream = &a->events.streams[op->stream];
    char name[ORR_TABLE_CELL_MAX + 1], submit[ORR_NUMBER_TEXT_MAX], wait[ORR_NUMBER_TEXT_MAX];
    char dep[ORR_NUMBER_TEXT_MAX], dispatch[ORR_NUMBER_TEXT_MAX], device[ORR_NUMBER_TEXT_MAX];
    char sync[ORR_NUMBER_TEXT_MAX], reuse[ORR_NUMBER_TEXT_MAX];
    struct orr_split_parts p = {0};
    bool known = orr_split_of(&a->events, index, &p);
    uint32_t call = a->split.sync_call[index];
    orr__table_row(table, "%llu|%s|%u|%u|%s|%s|%s|%s|%s|%s|%s", (unsigned long long)op->correlation,
                   orr__table_clean(op->name, name), a->events.devices[stream->device].id,
                   stream->id, known ? orr__time_text(p.submit, submit) : "unknown",
                   known ? orr__time_text(p.stream_wait, wait) : "unknown",
                   known ? orr__time_text(p.dep_wait, dep) : "unknown",
                   known ? orr__time_text(p.dispatch, dispatch) : "unknown",
                   orr__time_text(op->end_ns - op->start_ns, device),
                   call != ORR_EVENTS_NONE
                       ? orr__time_text(orr_split_sync(&a->events, index, call), sync)
                       : "not observed",
                   orr__time_text(op->end_ns - a->begin_ns, reuse));
}

static void add_commands(struct report *r) {
    const struct orr_analysis *a = r->a;
    if (a->events.op_count == 0 || !a->rows) {
        return;
    }
    heading(r,
            "commands (submission: host; queued: stream-wait, dep-wait, dispatch; service: device; "
            "sync: host; operands may be reused from 'free at' on, since window begin)");
    struct orr_table table;
    orr__table_begin(&table, a->memory,
                     ">cmd|name|>device|>stream|>submission|>stream-wait|>dep-wait|>dispatch|"
                     ">service|>sync|>free at");
    for (uint32_t i = 0; i < a->events.op_count; i++) {
        add_command_row(&table, a, a->rows[i]);
    }
    orr__table_end(&table, &r->text);
}

/* ------------------------------------------------------------------------------------------------
 * Launches */

static void add_launch_row(struct orr_table *table, const struct orr_analysis *a,
                           const struct orr_device_report *d) {
    const struct orr_launch *launch = &d->launch;
    char host[ORR_NUMBER_TEXT_MAX], median[ORR_NUMBER_TEXT_MAX], p95[ORR_NUMBER_TEXT_MAX];
    char sum[ORR_NUMBER_TEXT_MAX], pl[ORR_NUMBER_TEXT_MAX], pg[ORR_NUMBER_TEXT_MAX];
    char saving[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    int64_t window = d->end_ns - d->begin_ns;
    static const char *const answers[] = {"no", "yes", "unknown"};
    bool calls = launch->calls > 0;
    orr__table_row(
        table, "%u|%s|%llu|%s|%s|%s|%s|%s|%llu|%s|%s (%s)", a->events.devices[d->device].id,
        answers[d->window.bound], (unsigned long long)launch->calls,
        calls ? orr__time_text(launch->median_ns, median) : "-",
        calls ? orr__time_text(launch->p95_ns, p95) : "-", orr__time_text(launch->sum_ns, sum),
        d->window.has_launch_period ? orr__time_text(d->window.launch_period_ns, pl) : "-",
        d->window.has_gap_period ? orr__time_text(d->window.gap_period_ns, pg) : "-",
        (unsigned long long)d->window.feed_gaps, orr__percent_text(d->window.host_ns, window, host),
        orr__time_text(d->graph_saving_ns, saving),
        orr__percent_text(d->graph_saving_ns, window, share));
}

/* T >= Nlaunch x Llaunch + Tserial, beside the pace that the device sees. */
static void add_lower_bounds(struct report *r, const struct orr_device_report *d) {
    const struct orr_launch *launch = &d->launch;
    int64_t window = d->end_ns - d->begin_ns;
    int64_t serial = orr__add_ns(launch->sum_ns, d->times.busy_ns);
    char sum[ORR_NUMBER_TEXT_MAX], busy[ORR_NUMBER_TEXT_MAX], bound[ORR_NUMBER_TEXT_MAX];
    char share[ORR_NUMBER_TEXT_MAX];
    if (launch->calls == 0) {
        return;
    }
    orr__text_add(&r->text,
                  "  device %u: host calls %s + device busy %s = %s if nothing overlapped (%s of "
                  "the window)",
                  r->a->events.devices[d->device].id, orr__time_text(launch->sum_ns, sum),
                  orr__time_text(d->times.busy_ns, busy), orr__time_text(serial, bound),
                  orr__percent_text(serial, window, share));
    if (d->window.has_launch_period) {
        int64_t pace;
        if (__builtin_mul_overflow(d->window.launch_period_ns, (int64_t)(launch->feed_calls - 1),
                                   &pace)) {
            pace = INT64_MAX;
        }
        orr__text_add(&r->text, "; %llu x the launch period = %s (%s of the window)",
                      (unsigned long long)(launch->feed_calls - 1), orr__time_text(pace, bound),
                      orr__percent_text(pace, window, share));
    }
    orr__text_add(&r->text, "\n");
}

static void add_graph_reasons(struct report *r, const struct orr_device_report *d) {
    const struct orr_launch *launch = &d->launch;
    char time[ORR_NUMBER_TEXT_MAX];
    if (d->times.gaps == 0) {
        return;
    }
    orr__text_add(&r->text, "  device %u: a captured graph would save at most %s",
                  r->a->events.devices[d->device].id, orr__time_text(d->graph_saving_ns, time));
    if (d->graph_saving_ns == launch->graph_gap_ns) { /* of a part of the trace it is not known */
        orr__text_add(&r->text,
                      ", %s of it between operators that follow each other at least twice",
                      orr__time_text(launch->graph_repeated_ns, time));
    }
    for (unsigned c = 1; c < ORR_GRAPH_REASON_COUNT; c++) {
        if (launch->graph_gap_counts[c] > 0) {
            orr__text_add(&r->text, "; %llu gaps not eligible (%s)",
                          (unsigned long long)launch->graph_gap_counts[c],
                          orr_graph_reason_text((enum orr_graph_reason)c));
        }
    }
    orr__text_add(&r->text, "\n");
}

static void add_launches(struct report *r) {
    const struct orr_analysis *a = r->a;
    if (a->split.linked == 0) {
        return;
    }
    heading(r, "launches (is the device starved by the pace of its host? shares of the window)");
    struct orr_table table;
    orr__table_begin(&table, a->memory,
                     ">device|launch-bound|>calls|>median|>p95|>sum|>launch period|>gap period|"
                     ">gaps|>host-launch + host-other|>graph would save");
    for (size_t d = 0; d < a->device_count && d < ROWS; d++) {
        add_launch_row(&table, a, &a->devices[d]);
    }
    orr__table_end(&table, &r->text);
    more_rows(r, a->device_count, ROWS);
    const struct orr_device_report *main = main_device(a);
    for (size_t d = 0; d < a->device_count; d++) {
        if (a->device_count <= 2 || &a->devices[d] == main) {
            add_lower_bounds(r, &a->devices[d]);
            add_graph_reasons(r, &a->devices[d]);
        }
    }
    char host[ORR_NUMBER_TEXT_MAX], device[ORR_NUMBER_TEXT_MAX];
    int64_t busy = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        busy = orr__add_ns(busy, a->devices[d].times.busy_ns);
    }
    orr__text_add(&r->text, "  host %s in the calls of %llu ops, against %s on the device%s\n",
                  orr__time_text(a->split.call_ns_once, host), (unsigned long long)a->split.linked,
                  orr__time_text(busy, device), a->device_count == 1 ? "" : "s (busy, summed)");
}

/* ------------------------------------------------------------------------------------------------
 * Phases, collectives, critical path, memory, findings */

/* Phases of one device: [first, end) of a->phases. */
struct phase_range {
    size_t first, end;
};

static struct phase_range phases_after(const struct orr_analysis *a, size_t first) {
    size_t end = first;
    while (end < a->phases.count && a->phases.items[end].device == a->phases.items[first].device) {
        end++;
    }
    return (struct phase_range){first, end};
}

/* Same stretches with the same classes. */
static bool phases_alike(const struct orr_analysis *a, struct phase_range x, struct phase_range y) {
    if (x.end - x.first != y.end - y.first) {
        return false;
    }
    for (size_t i = 0; i < x.end - x.first; i++) {
        const struct orr_phase *p = &a->phases.items[x.first + i];
        const struct orr_phase *q = &a->phases.items[y.first + i];
        if (p->begin_ns != q->begin_ns || p->end_ns != q->end_ns ||
            strcmp(orr_phase_class_text(p), orr_phase_class_text(q)) != 0) {
            return false;
        }
    }
    return true;
}

static void add_phase_row(struct orr_table *table, const struct orr_analysis *a,
                          const struct orr_phase *p, const char *devices) {
    char begin[ORR_NUMBER_TEXT_MAX], end[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    char class_[32], tops[ORR_PHASE_TOP * (ORR_TABLE_CELL_MAX + 3)] = "";
    for (unsigned t = 0; t < p->top_count; t++) {
        char name[ORR_TABLE_CELL_MAX + 1];
        orr__table_clean(a->events.operators[p->top[t].operator_index].name, name);
        strcat(strcat(tops, t > 0 ? ", " : ""), name);
    }
    orr__table_row(table, "%s|%s|%s|%s|%s|%s", devices,
                   orr__time_text(p->begin_ns - a->begin_ns, begin),
                   orr__time_text(p->end_ns - a->begin_ns, end),
                   orr__text_hyphens(orr_phase_class_text(p), class_),
                   orr__percent_text(p->groups[p->label], p->end_ns - p->begin_ns, share), tops);
}

/* Rows of all devices; devices in a row that have the same phases share one set of rows, with the
 * figures of the first. Returns how many phases have been shown or stand for. */
static size_t add_phase_rows(struct orr_table *table, const struct orr_analysis *a) {
    size_t rows = 0, first = 0;
    while (first < a->phases.count) {
        struct phase_range range = phases_after(a, first);
        size_t next = range.end;
        uint32_t last = a->phases.items[first].device;
        while (next < a->phases.count && phases_alike(a, range, phases_after(a, next))) {
            last = a->phases.items[next].device;
            next = phases_after(a, next).end;
        }
        if (rows > 0 && rows + range.end - range.first > PHASE_ROWS) {
            break;
        }
        char devices[32];
        uint32_t from = a->events.devices[a->phases.items[first].device].id;
        uint32_t to = a->events.devices[last].id;
        if (from == to) {
            snprintf(devices, sizeof devices, "%u", from);
        } else {
            snprintf(devices, sizeof devices, "%u-%u", from, to);
        }
        for (size_t i = range.first; i < range.end && rows < PHASE_ROWS; i++, rows++) {
            add_phase_row(table, a, &a->phases.items[i], devices);
        }
        if (rows == PHASE_ROWS) {
            return range.first + PHASE_ROWS < next ? range.first + PHASE_ROWS : next;
        }
        first = next;
    }
    return first;
}

static void add_phases(struct report *r) {
    const struct orr_analysis *a = r->a;
    if (a->phases.count == 0) {
        return;
    }
    char title[128], cell[ORR_NUMBER_TEXT_MAX];
    snprintf(title, sizeof title, "phases (cells of %s, labelled over %u cells; from window begin)",
             orr__time_text(a->phases.cell_ns, cell), 2 * a->options.smooth + 1);
    heading(r, title);
    struct orr_table table;
    orr__table_begin(&table, a->memory, ">device|>begin|>end|class|>share|top operators");
    size_t shown = add_phase_rows(&table, a);
    orr__table_end(&table, &r->text);
    more_rows(r, a->phases.count, shown);
}

static void add_collective_row(struct orr_table *table, const struct orr_collective_row *row,
                               bool modelled) {
    char kind[ORR_TABLE_CELL_MAX + 1], group[ORR_TABLE_CELL_MAX + 1];
    char bytes[ORR_NUMBER_TEXT_MAX], time[ORR_NUMBER_TEXT_MAX], rate[ORR_NUMBER_TEXT_MAX];
    char wait[ORR_NUMBER_TEXT_MAX], links[ORR_NUMBER_TEXT_MAX];
    bool known = row->partial < row->count;
    orr__table_row(table, "%s|%s|%u|%s|%llu|%s|%s|%s%s%s", orr__table_clean(row->kind, kind),
                   orr__table_clean(row->group, group), row->size,
                   orr__amount_text(row->bytes, "B", bytes), (unsigned long long)row->count,
                   known ? orr__time_text(row->transfer_ns, time) : "unknown",
                   row->bus_bandwidth > 0 ? orr__amount_text(row->bus_bandwidth, "B/s", rate) : "-",
                   known ? orr__time_text(row->arrival_ns, wait) : "unknown", modelled ? "|" : "",
                   !modelled              ? ""
                   : row->modelled_ns > 0 ? orr__time_text(row->modelled_ns, links)
                                          : "-");
}

/* What transfer times are of, where they are not of links. */
static void add_emulated_note(struct report *r) {
    const struct orr_roofline *roofline = &r->a->roofline;
    uint64_t emulated = 0, count = 0;
    int64_t modelled_ns = 0;
    char time[ORR_NUMBER_TEXT_MAX];
    for (size_t i = 0; i < roofline->collective_count; i++) {
        emulated += roofline->collectives[i].emulated;
        count += roofline->collectives[i].count;
        modelled_ns = orr__add_ns(modelled_ns, roofline->collectives[i].modelled_ns);
    }
    if (emulated == 0) {
        return;
    }
    orr__text_add(
        &r->text,
        "  %llu of %llu emulated by kernels and copies: their times are those of memory, not "
        "of links",
        (unsigned long long)emulated, (unsigned long long)count);
    if (modelled_ns > 0) {
        orr__text_add(&r->text, "; on the links of the device spec all would take %s",
                      orr__time_text(modelled_ns, time));
    }
    orr__text_append(&r->text, "\n", 1);
}

/* Of a rank's trace: how long a member waited for the others is known with theirs. */
static void add_partial_note(struct report *r) {
    const struct orr_roofline *roofline = &r->a->roofline;
    uint64_t partial = 0, count = 0;
    for (size_t i = 0; i < roofline->collective_count; i++) {
        partial += roofline->collectives[i].partial;
        count += roofline->collectives[i].count;
    }
    if (partial > 0) {
        orr__text_add(&r->text,
                      "  %llu of %llu have members that are not in this trace: their transfer is "
                      "unknown without the traces of all ranks\n",
                      (unsigned long long)partial, (unsigned long long)count);
    }
}

static void add_collectives(struct report *r) {
    const struct orr_analysis *a = r->a;
    if (a->roofline.collective_count == 0) {
        return;
    }
    heading(r, "collectives (transfer: last start to first end; bus bandwidth as in nccl-tests)");
    bool modelled = false;
    for (size_t i = 0; i < a->roofline.collective_count; i++) {
        modelled = modelled || a->roofline.collectives[i].modelled_ns > 0;
    }
    struct orr_table table;
    orr__table_begin(&table, a->memory,
                     modelled ? "kind|group|>ranks|>bytes|>count|>transfer|>bus bandwidth|>waited "
                                "for the last rank|>modelled on links"
                              : "kind|group|>ranks|>bytes|>count|>transfer|>bus bandwidth|>waited "
                                "for the last rank");
    for (size_t i = 0; i < a->roofline.collective_count && i < ROWS; i++) {
        add_collective_row(&table, &a->roofline.collectives[i], modelled);
    }
    orr__table_end(&table, &r->text);
    more_rows(r, a->roofline.collective_count, ROWS);
    add_partial_note(r);
    add_emulated_note(r);
}

static void add_path(struct report *r) {
    const struct orr_analysis *a = r->a;
    const struct orr_critical_path *p = &a->path;
    int64_t window = p->end_ns - p->begin_ns, sum = 0;
    if (window == 0) {
        return;
    }
    heading(r, "critical path (adjacent intervals from end to begin of the window; shares of it)");
    struct orr_table table;
    char time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], name[32];
    orr__table_begin(&table, a->memory, "part|>time|>share");
    for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
        sum += p->kinds[k];
        if (p->kinds[k] > 0) {
            orr__table_row(&table, "%s|%s|%s",
                           orr__text_hyphens(orr_path_kind_text((enum orr_path_kind)k), name),
                           orr__time_text(p->kinds[k], time),
                           orr__percent_text(p->kinds[k], window, share));
        }
    }
    orr__table_row(&table, "residual|%s|", orr__time_text(window - sum, time));
    orr__table_end(&table, &r->text);
    for (size_t i = 0; i < p->operator_count && i < PATH_OPERATOR_ROWS; i++) {
        const struct orr_path_operator *o = &p->operators[i];
        char clean[ORR_TABLE_CELL_MAX + 1];
        const struct orr_events_operator *operator_ = &a->events.operators[o->operator_index];
        orr__text_add(&r->text, "  %s of the path in %llu x %s%s%s\n",
                      orr__percent_text(o->time_ns, window, share), (unsigned long long)o->count,
                      orr__table_clean(operator_->name, clean), operator_->shape[0] ? " " : "",
                      operator_->shape);
    }
}

static void add_communication(struct report *r) {
    orr__report_communication(r->a, &r->text);
    orr__report_stragglers(r->a, &r->text);
}

static void add_pipelines(struct report *r) {
    orr__report_pipelines(r->a, &r->text);
}

static void add_memory(struct report *r) {
    orr__report_memory(r->a, &r->text);
}

static void add_findings(struct report *r) {
    const struct orr_analysis *a = r->a;
    heading(r, "findings");
    if (a->findings.count == 0) {
        orr__text_add(&r->text, "  none\n");
    }
    for (size_t i = 0; i < a->findings.count && i < ROWS; i++) {
        const struct orr_analysis_finding *f = &a->findings.items[i];
        orr__text_add(&r->text, "  %s: %s: %s%s%s\n", f->severity, f->kind, f->message,
                      f->fix[0] ? "; fix: " : "", f->fix);
    }
    more_rows(r, a->findings.count, ROWS);
}

static void add_options(struct report *r) {
    const struct orr_analysis_options *o = &r->a->options;
    orr__text_add(&r->text,
                  "\nlimits used: dispatch <= %lld ns; short gap < %lld ns; host >= %u %%, gaps >= "
                  "%u, periods within %u %%; unknown <= %u %%; sync >= %u %%; busy >= %u %%; roof "
                  ">= %u %%; cells >= %lld ns, %u per window, smoothed over +-%u\n",
                  (long long)o->dispatch_max_ns, (long long)o->short_gap_ns, o->host_percent,
                  o->launch_gaps_min, o->period_percent, o->unknown_percent, o->sync_percent,
                  o->busy_percent, o->roof_percent, (long long)o->cell_min_ns, o->cells, o->smooth);
}

enum orr_status orr_report_text(const struct orr_analysis *analysis, char **out_text,
                                size_t *out_length) {
    struct report r = {.a = analysis, .text = {.memory = analysis->memory}};
    void (*const sections[])(struct report *) = {
        add_first_line,  add_source,    add_classes,     add_overlap,       add_idle_streams,
        add_device_rows, add_operators, add_launches,    add_timing,        add_commands,
        add_explained,   add_phases,    add_collectives, add_communication, add_pipelines,
        add_path,        add_memory,    add_findings,    add_options};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        sections[i](&r);
    }
    *out_text = NULL;
    *out_length = 0;
    if (r.text.failed) {
        orr__text_free(&r.text);
        return ORR_NO_MEMORY;
    }
    *out_text = r.text.data;
    *out_length = r.text.length;
    return ORR_OK;
}
