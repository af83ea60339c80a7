#include "analyzer/explain.h"

enum orr_status orr_explain_begin(const struct orr_timeline *timeline,
                                  const struct orr_events *events,
                                  const struct orr_analysis_options *options,
                                  struct orr_interval window, const struct orr_memory *memory,
                                  struct orr_roofline *roofline, struct orr_explain *explain) {
    enum orr_status status =
        orr_framework_compute(timeline, events, options, memory, roofline, &explain->framework);
    if (status == ORR_OK) {
        status = orr_steps_find(timeline, memory, &explain->steps);
    }
    if (status == ORR_OK) {
        status = orr_annotations_begin(timeline, events, &explain->steps, window, memory,
                                       &explain->annotations);
    }
    return status;
}

enum orr_status orr_explain_finish(const struct orr_timeline *timeline,
                                   const struct orr_events *events, struct orr_interval window,
                                   const struct orr_memory *memory, struct orr_explain *explain) {
    enum orr_status status =
        orr_queues_compute(events, window.begin_ns, window.end_ns, memory, &explain->queues);
    if (status == ORR_OK) {
        status = orr_annotations_finish(&explain->annotations, events, memory);
    }
    if (status == ORR_OK && timeline) {
        status = orr_memory_timeline_compute(timeline, memory, &explain->memory);
    }
    return status;
}

void orr_explain_free(const struct orr_memory *memory, struct orr_explain *explain) {
    orr_framework_free(memory, &explain->framework);
    orr_steps_free(memory, &explain->steps);
    orr_annotations_free(memory, &explain->annotations);
    orr_memory_timeline_free(memory, &explain->memory);
    orr_queues_free(memory, &explain->queues);
}
