#include "analyzer/analysis.h"

#include <assert.h>

#include "analyzer/hosts.h"
#include "analyzer/sort.h"

/* First start and last end of all ops, where the options do not say otherwise. */
static enum orr_status set_window(struct orr_analysis *a, struct orr_error *error) {
    const struct orr_events *events = &a->events;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        first = op->start_ns < first ? op->start_ns : first;
        last = op->end_ns > last ? op->end_ns : last;
    }
    if (events->op_count == 0) {
        first = last = 0;
    }
    a->begin_ns = a->options.begin_ns == ORR_TIME_NONE ? first : a->options.begin_ns;
    a->end_ns = a->options.end_ns == ORR_TIME_NONE ? last : a->options.end_ns;
    bool far = a->begin_ns < -ORR_EVENTS_TIME_MAX || a->end_ns > ORR_EVENTS_TIME_MAX;
    if (a->end_ns < a->begin_ns || far) {
        return orr_error_set(error, ORR_INVALID,
                             "analyze: window from %lld to %lld ns: expected an end at or after "
                             "the begin (ops run from %lld to %lld ns)",
                             (long long)a->begin_ns, (long long)a->end_ns, (long long)first,
                             (long long)last);
    }
    return ORR_OK;
}

static enum orr_status report_devices(struct orr_analysis *a, const struct orr_hosts *hosts) {
    const struct orr_events *events = &a->events;
    struct orr_launch_scratch scratch;
    enum orr_status status = orr_launch_scratch_create(events, a->memory, &scratch);
    if (status != ORR_OK) {
        return status;
    }
    a->devices = orr_memory_alloc(a->memory, events->device_count * sizeof *a->devices);
    status = a->devices ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t d = 0; d < events->device_count && status == ORR_OK; d++) {
        status = orr_device_report_compute(
            events, hosts, &a->options, &a->roofline, d, a->begin_ns, a->end_ns,
            a->replays.without_ops + a->replays.short_ones, &scratch, &a->phases, &a->pipelines,
            &a->explain.annotations, a->memory, &a->devices[d]);
        a->device_count += status == ORR_OK;
    }
    orr_launch_scratch_free(a->memory, &scratch);
    return status;
}

static bool correlation_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_events *events = context;
    uint64_t a = events->ops[x].correlation, b = events->ops[y].correlation;
    return a != b ? a < b : orr__events_op_before(events, x, y);
}

/* Rows of a trace that is short enough to list each op. */
static enum orr_status list_rows(struct orr_analysis *a) {
    size_t count = a->events.op_count;
    if (count > a->options.command_rows) {
        return ORR_OK;
    }
    a->rows = orr_memory_resize(a->memory, NULL, count * sizeof *a->rows);
    if (!a->rows) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        a->rows[i] = (uint32_t)i;
    }
    return orr__sort_indices(a->memory, a->rows, count, correlation_before, &a->events);
}

static struct orr_interval window_of(const struct orr_analysis *a) {
    return (struct orr_interval){a->begin_ns, a->end_ns};
}

/* Everything that needs only the event model, in the order in which it is needed. */
static enum orr_status compute(struct orr_analysis *a) {
    enum orr_status status = orr_exact_compute(&a->events, a->memory, &a->exact);
    if (status == ORR_OK) {
        status = orr_graph_replays_compute(&a->events, a->timeline, a->memory, &a->replays);
    }
    if (status == ORR_OK) {
        status = list_rows(a);
    }
    if (status == ORR_OK) {
        status = orr_split_compute(&a->events, a->memory, &a->split);
    }
    if (status == ORR_OK) {
        orr_idle_streams_compute(&a->events, &a->options, &a->idle_streams);
        status = orr_roofline_compute(&a->events, &a->options, a->memory, &a->roofline);
    }
    if (status == ORR_OK && a->timeline) {
        status = orr_explain_begin(a->timeline, &a->events, &a->options, window_of(a), a->memory,
                                   &a->roofline, &a->explain);
    }
    struct orr_hosts hosts = {0};
    if (status == ORR_OK) {
        status = orr_hosts_create(&a->events, a->memory, &hosts);
    }
    if (status == ORR_OK) {
        status = orr_pipelines_find(&a->events, a->begin_ns, a->end_ns, a->memory, &a->pipelines);
    }
    if (status == ORR_OK) {
        status = report_devices(a, &hosts);
    }
    if (status == ORR_OK) {
        status = orr_explain_finish(a->timeline, &a->events, window_of(a), a->memory, &a->explain);
    }
    orr_hosts_free(a->memory, &hosts);
    if (status == ORR_OK) {
        status = orr_pipelines_finish(&a->pipelines, &a->events, a->memory);
    }
    if (status == ORR_OK) {
        status = orr_communication_compute(&a->events, a->begin_ns, a->end_ns, a->memory,
                                           &a->communication);
    }
    if (status == ORR_OK) {
        status = orr_critical_path_compute(&a->events, a->begin_ns, a->end_ns, a->memory, &a->path);
    }
    if (status == ORR_OK) {
        status = orr_slack_compute(&a->events, a->timeline, a->options.slack_nodes, a->memory,
                                   &a->slack);
    }
    return status;
}

static enum orr_status analyze(struct orr_events *events, const struct orr_timeline *timeline,
                               const struct orr_analysis_options *options,
                               const struct orr_memory *memory, struct orr_analysis **out_analysis,
                               struct orr_error *error) {
    assert(events->prepared);
    *out_analysis = NULL;
    struct orr_analysis *a = orr_memory_alloc(memory, sizeof *a);
    if (!a) {
        return orr_error_set(error, ORR_NO_MEMORY, "analyze: out of memory");
    }
    *a = (struct orr_analysis){
        .memory = memory, .timeline = timeline, .options = *options, .events = *events};
    enum orr_status status = set_window(a, error);
    if (status == ORR_OK) {
        status = compute(a);
    }
    if (status == ORR_OK && timeline) {
        status = orr_memory_peaks_compute(timeline, memory, &a->peaks);
    }
    if (status == ORR_OK && timeline) {
        struct orr_ranks_input input = {timeline, &a->events, options->file};
        status = orr_ranks_compute(&input, 1, memory, &a->ranks, error);
    }
    if (status == ORR_OK) {
        status = orr_findings_compute(a);
    }
    if (status == ORR_OK) {
        status = orr_doctor_compute(a);
    }
    if (status != ORR_OK) {
        a->events = (struct orr_events){0};
        orr_analysis_destroy(&a);
        return orr_error_set(error, status, "analyze: %zu ops do not fit in memory",
                             events->op_count);
    }
    *events = (struct orr_events){0};
    *out_analysis = a;
    return ORR_OK;
}

enum orr_status orr_analyze_events(struct orr_events *events,
                                   const struct orr_analysis_options *options,
                                   const struct orr_memory *memory,
                                   struct orr_analysis **out_analysis, struct orr_error *error) {
    return analyze(events, NULL, options, memory, out_analysis, error);
}

enum orr_status orr_analyze(const struct orr_timeline *timeline,
                            const struct orr_analysis_options *options,
                            const struct orr_memory *memory, struct orr_analysis **out_analysis,
                            struct orr_error *error) {
    *out_analysis = NULL;
    struct orr_events events;
    enum orr_status status = orr_events_from_timeline(timeline, memory, &events, error);
    if (status != ORR_OK) {
        return status;
    }
    status = analyze(&events, timeline, options, memory, out_analysis, error);
    orr_events_free(&events);
    return status;
}

void orr_analysis_destroy(struct orr_analysis **analysis) {
    struct orr_analysis *a = *analysis;
    *analysis = NULL;
    if (!a) {
        return;
    }
    const struct orr_memory *memory = a->memory;
    for (size_t d = 0; d < a->device_count; d++) {
        orr_device_report_free(memory, &a->devices[d]);
    }
    orr_memory_free(memory, a->devices);
    orr_memory_free(memory, a->rows);
    orr_split_free(memory, &a->split);
    orr_roofline_free(memory, &a->roofline);
    orr_explain_free(memory, &a->explain);
    orr_phases_free(memory, &a->phases);
    orr_communication_free(memory, &a->communication);
    orr_pipelines_free(memory, &a->pipelines);
    orr_critical_path_free(memory, &a->path);
    orr_slack_free(memory, &a->slack);
    orr_memory_peaks_free(memory, &a->peaks);
    orr_findings_free(memory, &a->findings);
    orr_ranks_free(memory, &a->ranks);
    orr_doctor_free(memory, &a->doctor);
    orr_events_free(&a->events);
    orr_memory_free(memory, a);
}
