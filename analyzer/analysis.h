/* The analyzer: what a trace says about where time and memory went.
 *
 * It reads a timeline, and nothing else: a simulated and a real trace are treated alike, and it
 * cannot peek at the model. All figures are exact integers of ns; every ns of a device's window has
 * one class. The reports (report_text.h, report_json.h) print one struct orr_analysis.
 *
 *     struct orr_analysis_options options = orr_analysis_options_default();
 *     struct orr_analysis *analysis;
 *     if (orr_analyze(timeline, &options, &memory, &analysis, &error) != ORR_OK) ...
 *     for (size_t d = 0; d < analysis->device_count; d++) use(&analysis->devices[d]);
 *     orr_analysis_destroy(&analysis);
 *
 * Threads: immutable once made; any number of readers. */
#ifndef ORR_ANALYZER_ANALYSIS_H
#define ORR_ANALYZER_ANALYSIS_H

#include "analyzer/communication.h"
#include "analyzer/critical_path.h"
#include "analyzer/device_report.h"
#include "analyzer/events.h"
#include "analyzer/doctor.h"
#include "analyzer/exact.h"
#include "analyzer/explain.h"
#include "analyzer/findings.h"
#include "analyzer/graph_replays.h"
#include "analyzer/idle_streams.h"
#include "analyzer/memory_peak.h"
#include "analyzer/options.h"
#include "analyzer/phases.h"
#include "analyzer/pipeline.h"
#include "analyzer/ranks.h"
#include "analyzer/roofline.h"
#include "analyzer/slack.h"
#include "analyzer/split.h"

struct orr_analysis {
    const struct orr_memory *memory;     /* borrowed until destroy */
    const struct orr_timeline *timeline; /* borrowed until destroy; NULL for a model by hand */
    struct orr_analysis_options options;
    struct orr_events events; /* owned */
    int64_t begin_ns, end_ns; /* window of all devices; equal without ops */
    struct orr_split split;
    /* Ops by correlation (command id) if there are at most options.command_rows, else NULL;
     * owned. */
    uint32_t *rows;
    struct orr_idle_streams idle_streams;
    struct orr_roofline roofline;
    struct orr_explain explain;
    struct orr_device_report *devices; /* one per device of the events, by index; owned */
    size_t device_count;
    struct orr_phases phases;
    struct orr_communication communication;
    struct orr_pipelines pipelines;
    struct orr_critical_path path;
    struct orr_slack slack;
    struct orr_memory_peaks peaks; /* empty where allocations are not recorded */
    struct orr_graph_replays replays;
    struct orr_exact exact;
    struct orr_analysis_findings findings;
    struct orr_ranks ranks; /* devices that communicate with each other; empty without a timeline */
    struct orr_doctor doctor;
};

/* Analyses a timeline, our own or another tool's, which must live as long as the analysis.
 * ORR_INVALID for a window that ends before it begins; ORR_NO_MEMORY. A timeline without any op is
 * fine: every figure is then 0 or absent, and a finding says so. *out_analysis is owned by the
 * caller. */
enum orr_status orr_analyze(const struct orr_timeline *timeline,
                            const struct orr_analysis_options *options,
                            const struct orr_memory *memory, struct orr_analysis **out_analysis,
                            struct orr_error *error) ORR_MUST_CHECK;

/* Analyses a prepared event model, of whatever origin, and takes it over: on success it belongs to
 * the analysis and *events is empty; on failure it is still the caller's. Its texts must live as
 * long as the analysis. */
enum orr_status orr_analyze_events(struct orr_events *events,
                                   const struct orr_analysis_options *options,
                                   const struct orr_memory *memory,
                                   struct orr_analysis **out_analysis,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* Frees and nulls; accepts NULL. */
void orr_analysis_destroy(struct orr_analysis **analysis);

#endif
