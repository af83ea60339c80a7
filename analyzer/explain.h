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
    struct orr_framework framework; /* all but the queues are empty without a timeline */
    struct orr_steps steps;
    struct orr_annotations annotations;
    struct orr_memory_timeline memory;
    struct orr_queues queues;
};

/* What devices' walks need: the classes of a framework's kernels (into roofline->bounds), steps and
 * annotations. ORR_NO_MEMORY. */
enum orr_status orr_explain_begin(const struct orr_timeline *timeline,
                                  const struct orr_events *events,
                                  const struct orr_analysis_options *options,
                                  struct orr_interval window, const struct orr_memory *memory,
                                  struct orr_roofline *roofline,
                                  struct orr_explain *explain) ORR_MUST_CHECK;
/* The rest, after the walks. `timeline` may be NULL, without orr_explain_begin. ORR_NO_MEMORY. */
enum orr_status orr_explain_finish(const struct orr_timeline *timeline,
                                   const struct orr_events *events, struct orr_interval window,
                                   const struct orr_memory *memory,
                                   struct orr_explain *explain) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_explain_free(const struct orr_memory *memory, struct orr_explain *explain);

#endif
