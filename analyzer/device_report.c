#include "analyzer/device_report.h"

#include <assert.h>

const char *orr_verdict_text(enum orr_verdict verdict) {
    static const char *const texts[] = {
#define ORR_VERDICT_TEXT(name, text) text,
        ORR_VERDICT_LIST(ORR_VERDICT_TEXT)
#undef ORR_VERDICT_TEXT
    };
    return verdict < ORR_VERDICT_COUNT ? texts[verdict] : "";
}

int64_t orr_classes_busy(const int64_t *classes) {
    return classes[ORR_CLASS_COMPUTE] + classes[ORR_CLASS_EXPOSED_COMM] +
           classes[ORR_CLASS_EXPOSED_COPY];
}

/* Where the walk's pieces go: classes of the window, cells, launch terms. */
struct collector {
    struct orr_device_report *report;
    const struct orr_events *events;
    struct orr_pipelines *pipelines;
    struct orr_annotations *annotations;
    struct orr_phase_cells cells;
    int64_t graph_ns; /* what a graph removes, if it can, of the gap whose pieces are being told */
};

static int64_t clipped(const struct orr_device_report *report, int64_t begin_ns, int64_t end_ns) {
    begin_ns = begin_ns > report->begin_ns ? begin_ns : report->begin_ns;
    end_ns = end_ns < report->end_ns ? end_ns : report->end_ns;
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

static void on_busy(void *context, enum orr_busy busy, int64_t begin_ns, int64_t end_ns) {
    struct collector *c = context;
    static const enum orr_class classes[ORR_BUSY_COUNT] = {
        ORR_CLASS_COMPUTE, ORR_CLASS_COMPUTE,      ORR_CLASS_COMPUTE,
        ORR_CLASS_COMPUTE, ORR_CLASS_EXPOSED_COMM, ORR_CLASS_EXPOSED_COPY};
    int64_t length = clipped(c->report, begin_ns, end_ns);
    c->report->classes[classes[busy]] += length;
    c->report->busy_groups[busy] += length;
    /* The first six groups of a phase are the six kinds of busy time. */
    orr_phase_cells_add(&c->cells, (enum orr_phase_group)busy, begin_ns, end_ns);
}

_Static_assert((int)ORR_BUSY_COMPUTE_BOUND == (int)ORR_PHASE_COMPUTE_BOUND &&
                   (int)ORR_BUSY_COPY == (int)ORR_PHASE_COPY &&
                   (int)ORR_BUSY_COMPUTE_BOUND == (int)ORR_BOUND_COMPUTE &&
                   (int)ORR_BUSY_NO_COST == (int)ORR_BOUND_NO_COST,
               "busy kinds, bounds and phase groups count alike");

static void on_idle(void *context, enum orr_class class_, int64_t begin_ns, int64_t end_ns) {
    struct collector *c = context;
    c->report->classes[class_] += clipped(c->report, begin_ns, end_ns);
    if (class_ == ORR_CLASS_HOST_LAUNCH || class_ == ORR_CLASS_HOST_OTHER ||
        class_ == ORR_CLASS_DISPATCH) {
        c->graph_ns += clipped(c->report, begin_ns, end_ns);
    }
    if (class_ == ORR_CLASS_HOST_SYNC || class_ == ORR_CLASS_HOST_OTHER) {
        orr_pipelines_add_host(c->pipelines, c->report->device, begin_ns, end_ns);
    }
    orr_annotations_add_idle(c->annotations, class_, begin_ns, end_ns);
    orr_phase_cells_add(&c->cells, orr_phase_of_class(class_), begin_ns, end_ns);
}

static void on_gap(void *context, const struct orr_gap *gap) {
    struct collector *c = context;
    uint64_t eligible = c->report->launch.graph_gaps;
    orr_launch_add_gap(&c->report->launch, gap);
    if (c->report->launch.graph_gaps > eligible) {
        c->report->graph_saving_ns += c->graph_ns;
    }
    c->graph_ns = 0;
    orr_pipelines_add_gap(c->pipelines, c->events, c->report->device, gap);
    orr_annotations_add_gap(c->annotations, gap);
}

/* The window outside [first start, last end). */
static void add_outside(struct collector *c) {
    const struct orr_device_times *times = &c->report->times;
    if (times->ops == 0) {
        on_idle(c, ORR_CLASS_BEFORE_FIRST, c->report->begin_ns, c->report->end_ns);
        return;
    }
    on_idle(c, ORR_CLASS_BEFORE_FIRST, c->report->begin_ns, times->first_ns);
    int64_t after = times->last_ns;
    on_idle(c, ORR_CLASS_AFTER_LAST, after, c->report->end_ns);
}

static enum orr_verdict verdict_of(const struct orr_device_report *report,
                                   const struct orr_analysis_options *options,
                                   uint64_t graphs_without_ops) {
    int64_t window = report->end_ns - report->begin_ns;
    const int64_t *classes = report->classes;
    int64_t unknown = classes[ORR_CLASS_UNKNOWN_WAIT] + classes[ORR_CLASS_UNKNOWN_UNLINKED] +
                      classes[ORR_CLASS_UNKNOWN_CLOCK];
    if (report->times.ops == 0 || window == 0) {
        return ORR_VERDICT_IDLE;
    }
    if (orr__share_exceeds(unknown, options->unknown_percent, window) || graphs_without_ops > 0) {
        return ORR_VERDICT_UNRELIABLE;
    }
    if (report->window.bound == ORR_ANSWER_YES) {
        return ORR_VERDICT_LAUNCH_BOUND;
    }
    if (orr__share_reaches(report->window.host_ns, options->host_percent, window)) {
        return report->window.bound == ORR_ANSWER_UNKNOWN ? ORR_VERDICT_UNKNOWN
                                                          : ORR_VERDICT_HOST_STALLED;
    }
    if (orr__share_reaches(classes[ORR_CLASS_HOST_SYNC], options->sync_percent, window)) {
        return ORR_VERDICT_SYNC_BOUND;
    }
    if (orr__share_reaches(orr_classes_busy(classes), options->busy_percent, window)) {
        return ORR_VERDICT_DEVICE_BOUND;
    }
    return ORR_VERDICT_MIXED;
}

static enum orr_status judge(struct orr_device_report *report,
                             const struct orr_analysis_options *options) {
    const struct orr_device_times *times = &report->times;
    int64_t host = times->classes[ORR_CLASS_HOST_LAUNCH] + times->classes[ORR_CLASS_HOST_OTHER];
    enum orr_status status = orr_launch_judge(&report->launch, options, true, times->first_ns,
                                              times->last_ns, times->span_ns, host, &report->whole);
    if (status != ORR_OK) {
        return status;
    }
    /* A window around all ops leaves out none of their calls, though they began before it. */
    bool whole = report->begin_ns <= times->first_ns && report->end_ns >= times->last_ns;
    host = report->classes[ORR_CLASS_HOST_LAUNCH] + report->classes[ORR_CLASS_HOST_OTHER];
    return orr_launch_judge(&report->launch, options, whole, report->begin_ns, report->end_ns,
                            report->end_ns - report->begin_ns, host, &report->window);
}

static void conserve(struct orr_device_report *report) {
    int64_t sum = 0;
    for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
        sum += report->classes[c];
    }
    report->residual_ns = report->end_ns - report->begin_ns - sum;
    assert(report->residual_ns == 0);
}

static enum orr_status walk(struct collector *c, const struct orr_events *events,
                            const struct orr_hosts *hosts,
                            const struct orr_analysis_options *options,
                            const struct orr_roofline *roofline, struct orr_phases *phases,
                            const struct orr_memory *memory) {
    struct orr_device_report *report = c->report;
    struct orr_walk listener = {on_busy, on_idle, on_gap, c};
    struct orr_interval window = {report->begin_ns, report->end_ns};
    enum orr_status status =
        orr_classes_walk(events, hosts, options, roofline->bounds, report->device, window, memory,
                         &listener, &report->times);
    if (status == ORR_OK) {
        add_outside(c);
        conserve(report);
        status = orr_launch_finish(&report->launch);
    }
    if (status == ORR_OK) {
        status = judge(report, options);
    }
    if (status == ORR_OK) {
        status = orr_phases_add(phases, &c->cells, events, &report->launch, options, report->device,
                                memory);
    }
    return status;
}

enum orr_status
orr_device_report_compute(const struct orr_events *events, const struct orr_hosts *hosts,
                          const struct orr_analysis_options *options,
                          const struct orr_roofline *roofline, uint32_t device, int64_t begin_ns,
                          int64_t end_ns, uint64_t graphs_without_ops,
                          struct orr_launch_scratch *scratch, struct orr_phases *phases,
                          struct orr_pipelines *pipelines, struct orr_annotations *annotations,
                          const struct orr_memory *memory, struct orr_device_report *out_report) {
    *out_report =
        (struct orr_device_report){.device = device, .begin_ns = begin_ns, .end_ns = end_ns};
    struct collector collector = {
        .report = out_report, .events = events, .pipelines = pipelines, .annotations = annotations};
    enum orr_status status = orr_launch_begin(&out_report->launch, events, device, scratch, memory);
    if (status == ORR_OK) {
        status = orr_phase_cells_create(&collector.cells, begin_ns, end_ns,
                                        orr_phase_cell_width(options, end_ns - begin_ns), memory);
    }
    if (status == ORR_OK) {
        status = walk(&collector, events, hosts, options, roofline, phases, memory);
    }
    orr_phase_cells_free(memory, &collector.cells);
    if (status != ORR_OK) {
        orr_device_report_free(memory, out_report);
        return status;
    }
    out_report->verdict = verdict_of(out_report, options, graphs_without_ops);
    return ORR_OK;
}

void orr_device_report_free(const struct orr_memory *memory, struct orr_device_report *report) {
    orr_launch_free(memory, &report->launch);
}
