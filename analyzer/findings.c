#include "analyzer/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/analysis.h"
#include "analyzer/text.h"
#include "analyzer/times.h"

static enum orr_status append(struct orr_analysis *a, struct orr_analysis_finding finding,
                              const char *message) {
    struct orr_analysis_findings *findings = &a->findings;
    enum orr_status status =
        orr_memory_grow(a->memory, &findings->items, &findings->capacity, findings->count + 1,
                        sizeof *findings->items, SIZE_MAX / sizeof *findings->items);
    if (status != ORR_OK) {
        return status;
    }
    finding.message = orr_memory_text(a->memory, message, strlen(message));
    if (!finding.message) {
        return ORR_NO_MEMORY;
    }
    findings->items[findings->count++] = finding;
    return ORR_OK;
}

/* A finding of the analysis's own. */
__attribute__((format(printf, 5, 6))) static enum orr_status
add(struct orr_analysis *a, const char *kind, const char *severity, const char *fix,
    const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct orr_analysis_finding finding = {.kind = kind, .severity = severity, .fix = fix};
    return append(a, finding, message);
}

static enum orr_status add_recorded(struct orr_analysis *a) {
    const struct orr_timeline *t = a->timeline;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; t && i < t->finding_count && status == ORR_OK; i++) {
        const struct orr_timeline_finding *f = &t->findings[i];
        struct orr_analysis_finding finding = {.kind = f->kind,
                                               .severity = f->severity,
                                               .fix = f->fix,
                                               .cmd_a = f->cmd_a,
                                               .cmd_b = f->cmd_b,
                                               .buffer = f->buffer};
        status = append(a, finding, f->message);
    }
    return status;
}

typedef unsigned long long count;

/* The run and its records. */
static enum orr_status check_source(struct orr_analysis *a) {
    const struct orr_events_source *s = &a->events.source;
    enum orr_status status = ORR_OK;
    if (strcmp(s->status, "running") == 0) {
        status = add(a, "run_not_ok", "warning", "",
                     "the run did not come to an end: what it did last may be missing");
    } else if (s->status[0] != '\0' && strcmp(s->status, "ok") != 0) {
        status = add(a, "run_not_ok", "warning", "",
                     "the run ended as \"%s\": the trace is what it left", s->status);
    }
    if (status == ORR_OK && a->events.op_count == 0) {
        status = add(a, "no_ops", "warning", "",
                     "the trace has no device op that ran to its end: nothing to analyze");
    }
    if (status == ORR_OK && s->dropped > 0) {
        status = add(a, "dropped_records", "warning", "use a larger ring or --trace summary",
                     "%llu records were dropped by the tracer: sums and idle time are unreliable",
                     (count)s->dropped);
    }
    if (status == ORR_OK && s->bad_ops > 0) {
        status = add(a, "bad_ops", "warning", "",
                     "%llu ops end before they start, have no times, times beyond what fits, or no "
                     "stream: left out",
                     (count)s->bad_ops);
    }
    if (status == ORR_OK && s->never_started > 0) {
        status = add(a, "unfinished_ops", "warning", "",
                     "%llu ops never ran to their end (%llu had started): left out",
                     (count)s->never_started, (count)s->unfinished);
    }
    uint64_t wrong = s->failed_ops + s->poisoned_ops + s->skipped_ops;
    if (status == ORR_OK && wrong > 0) {
        status = add(a, "failed_ops", "error", "",
                     "%llu ops failed, %llu were poisoned, %llu were skipped", (count)s->failed_ops,
                     (count)s->poisoned_ops, (count)s->skipped_ops);
    }
    return status;
}

/* Order: clocks, streams, dependencies. */
static enum orr_status check_order(struct orr_analysis *a) {
    const struct orr_split *s = &a->split;
    char longest[ORR_NUMBER_TEXT_MAX];
    bool own = strcmp(a->events.source.format, "orrery") == 0;
    enum orr_status status = ORR_OK;
    if (s->early > 0) {
        orr__time_text(s->early_max_ns, longest);
        status = add(a, "clock_violation", "warning", "",
                     "%llu ops start before their call, by up to %s: in no latency figure",
                     (count)s->early, longest);
    }
    if (status == ORR_OK && s->overlaps > 0) {
        orr__time_text(s->overlap_max_ns, longest);
        status = add(a, "stream_overlap", own ? "error" : "warning", "",
                     "%llu ops start before an earlier op of their stream ends, by up to %s",
                     (count)s->overlaps, longest);
    }
    if (status == ORR_OK && s->dep_violations > 0) {
        orr__time_text(s->dep_violation_max_ns, longest);
        status = add(a, "dependency_violation", own ? "error" : "warning", "",
                     "%llu ops start before what they wait for has ended, by up to %s",
                     (count)s->dep_violations, longest);
    }
    if (status == ORR_OK && a->events.ready_disagreements > 0) {
        orr__time_text(a->events.ready_disagreement_max_ns, longest);
        status = add(a, "ready_disagreement", "note", "",
                     "%llu ops have a ready time that their recorded dependencies do not explain, "
                     "by up to %s: the later of the two is used",
                     (count)a->events.ready_disagreements, longest);
    }
    if (status == ORR_OK && s->unlinked > 0) {
        status = add(a, "unlinked_ops", "note", "",
                     "%llu of %zu ops have no call: in every device figure, in no latency figure",
                     (count)s->unlinked, a->events.op_count);
    }
    if (status == ORR_OK && a->path.broken) {
        status = add(a, "critical_path_broken", "warning", "",
                     "the critical path met a cycle of records; what lies before it is unknown");
    }
    return status;
}

static enum orr_status check_graphs(struct orr_analysis *a) {
    const struct orr_graph_replays *g = &a->replays;
    enum orr_status status = ORR_OK;
    if (g->without_ops > 0) {
        status = add(a, "graph_without_ops", "warning", "",
                     "%llu of %llu graph launches own no recorded op: idle time is unreliable, and "
                     "no device is called host-bound for it",
                     (count)g->without_ops, (count)g->launches);
    }
    if (status == ORR_OK && g->short_ones > 0) {
        status = add(a, "graph_short", "warning", "",
                     "%llu of %llu graph launches own fewer ops than others of their graph: idle "
                     "time is unreliable, and no device is called host-bound for it",
                     (count)g->short_ones, (count)g->launches);
    }
    return status;
}

/* With several processes or devices and not one communication op, "0 %" would be a wrong answer. */
static enum orr_status check_communication(struct orr_analysis *a) {
    int64_t comm = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        comm = orr__add_ns(comm, a->devices[d].times.comm_ns);
    }
    if (a->events.source.world_size <= 1 || comm > 0 || a->events.op_count == 0) {
        return ORR_OK;
    }
    return add(a, "no_communication", "error", "",
               "a run of %llu processes without one communication op: names or records are missing",
               (count)a->events.source.world_size);
}

static enum orr_status check_launches(struct orr_analysis *a) {
    enum orr_status status = ORR_OK;
    for (size_t d = 0; d < a->device_count && status == ORR_OK; d++) {
        const struct orr_device_report *r = &a->devices[d];
        if (r->verdict != ORR_VERDICT_LAUNCH_BOUND) {
            continue;
        }
        int64_t window = r->end_ns - r->begin_ns;
        char share[ORR_NUMBER_TEXT_MAX], saving[ORR_NUMBER_TEXT_MAX];
        orr__percent_text(r->window.host_ns, window, share);
        orr__time_text(r->graph_saving_ns, saving);
        status = add(a, "launch_bound", "note",
                     r->launch.graph_gaps > 0 ? "capture the repeated part into a program, or fuse"
                                              : "fuse kernels, or launch from another thread",
                     "device %u is launch-bound: host_launch + host_other = %s of its window; a "
                     "captured graph would save at most %s",
                     a->events.devices[d].id, share, saving);
    }
    return status;
}

static enum orr_status check_roof(struct orr_analysis *a) {
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < a->roofline.row_count && status == ORR_OK; i++) {
        const struct orr_operator_row *row = &a->roofline.rows[i];
        if (!row->above_roof) {
            continue;
        }
        const struct orr_events_operator *o = &a->events.operators[row->operator_index];
        status = add(a, "above_roof", "warning", "",
                     "%s %s ran above the roof: data was reused in a cache, or its cost is wrong",
                     o->name, o->shape);
    }
    return status;
}

static enum orr_status check_memory(struct orr_analysis *a) {
    enum orr_status status = ORR_OK;
    for (size_t d = 0; d < a->peaks.count && status == ORR_OK; d++) {
        const struct orr_memory_peak *peak = &a->peaks.items[d];
        if (peak->capacity_bytes == 0 || peak->peak_bytes <= peak->capacity_bytes) {
            continue;
        }
        status = add(a, "memory_exceeded", "error", "",
                     "device %u held %llu bytes at its peak, more than its %llu", peak->device,
                     (count)peak->peak_bytes, (count)peak->capacity_bytes);
    }
    return status;
}

enum orr_status orr_findings_compute(struct orr_analysis *analysis) {
    enum orr_status (*const checks[])(struct orr_analysis *) = {
        add_recorded,        check_source,   check_order, check_graphs,
        check_communication, check_launches, check_roof,  check_memory};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        enum orr_status status = checks[i](analysis);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

void orr_findings_free(const struct orr_memory *memory, struct orr_analysis_findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        orr_memory_free(memory, findings->items[i].message);
    }
    orr_memory_free(memory, findings->items);
    *findings = (struct orr_analysis_findings){0};
}
