/* What a timeline says beside its event model: steps, annotations, the operators of a framework,
 * queues and memory over time. Parts of struct orr_analysis.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_EXPLAIN_H
#define ORR_ANALYZER_EXPLAIN_H

#include "analyzer/annotations.h"
#include "analyzer/framework.h"
#include "analyzer/memory_timeline.h"
#include "analyzer/queues.h"
#include "analyzer/steps.h"

struct orr_explain {
    struct orr_framework framework; /* this and the next: empty without a timeline */
    struct orr_steps steps;
    struct orr_annotations annotations;
    struct orr_memory_timeline memory;
    struct orr_queues queues;
};

/* The rest, once `framework` and the classes of ops are there. `timeline` may be NULL.
 * ORR_NO_MEMORY. */
enum orr_status orr_explain_compute(const struct orr_timeline *timeline,
                                    const struct orr_events *events, const struct orr_hosts *hosts,
                                    const struct orr_analysis_options *options,
                                    const uint8_t *bounds, struct orr_interval window,
                                    const struct orr_memory *memory,
                                    struct orr_explain *explain) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_explain_free(const struct orr_memory *memory, struct orr_explain *explain);

#endif
