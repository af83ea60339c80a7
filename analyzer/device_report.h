/* One device of an analysis: its classes in the window, its launch terms, and the verdict (2.3,
 * 2.5, 2.8).
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_DEVICE_REPORT_H
#define ORR_ANALYZER_DEVICE_REPORT_H

#include "analyzer/annotations.h"
#include "analyzer/classes.h"
#include "analyzer/launch.h"
#include "analyzer/phases.h"
#include "analyzer/pipeline.h"

/* X(name, text): the first that applies, in this order. */
#define ORR_VERDICT_LIST(X)                                                                        \
    X(IDLE, "idle")             /* no op in the window */                                          \
    X(UNRELIABLE, "unreliable") /* unknown_* exceed 10 %, or graph launches lack ops */            \
    X(LAUNCH_BOUND, "launch_bound")                                                                \
    X(HOST_STALLED, "host_stalled") /* the host is the cause, but not at the pace of launches */   \
    X(UNKNOWN, "unknown")           /* the host is the cause; too few gaps to say how */           \
    X(SYNC_BOUND, "sync_bound")                                                                    \
    X(DEVICE_BOUND, "device_bound")                                                                \
    X(MIXED, "mixed")

enum orr_verdict {
#define ORR_VERDICT_ENUM(name, text) ORR_VERDICT_##name,
    ORR_VERDICT_LIST(ORR_VERDICT_ENUM)
#undef ORR_VERDICT_ENUM
        ORR_VERDICT_COUNT
};
/* "launch_bound", ...: static storage. */
const char *orr_verdict_text(enum orr_verdict verdict);

struct orr_device_report {
    uint32_t device;                     /* index in events */
    struct orr_device_times times;       /* of all its ops, unclipped */
    int64_t begin_ns, end_ns;            /* window, the same for all devices */
    int64_t classes[ORR_CLASS_COUNT];    /* of the window */
    int64_t residual_ns;                 /* window minus the sum of its classes: 0 */
    int64_t busy_groups[ORR_BUSY_COUNT]; /* busy time of the window by what bounds it */
    int64_t graph_saving_ns;             /* of launch.graph_gap_ns, the part within the window */
    struct orr_launch launch;
    struct orr_launch_terms whole;  /* over the span of all ops */
    struct orr_launch_terms window; /* over the window */
    enum orr_verdict verdict;
};

/* Walks a device, fills *out_report, appends its phases and tells `pipelines` and `annotations` its
 * gaps.
 * `graphs_without_ops`: graph launches of the trace that lack ops. `scratch` is shared by all
 * devices. Freed with orr_device_report_free. */
enum orr_status orr_device_report_compute(
    const struct orr_events *events, const struct orr_hosts *hosts,
    const struct orr_analysis_options *options, const struct orr_roofline *roofline,
    uint32_t device, int64_t begin_ns, int64_t end_ns, uint64_t graphs_without_ops,
    struct orr_launch_scratch *scratch, struct orr_phases *phases, struct orr_pipelines *pipelines,
    struct orr_annotations *annotations, const struct orr_memory *memory,
    struct orr_device_report *out_report) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_device_report_free(const struct orr_memory *memory, struct orr_device_report *report);

/* Busy time of a window's classes. */
int64_t orr_classes_busy(const int64_t *classes);

#endif
