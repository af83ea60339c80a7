#include "analyzer/explain.h"

enum orr_status orr_explain_compute(const struct orr_timeline *timeline,
                                    const struct orr_events *events, const struct orr_hosts *hosts,
                                    const struct orr_analysis_options *options,
                                    const uint8_t *bounds, struct orr_interval window,
                                    const struct orr_memory *memory, struct orr_explain *explain) {
    enum orr_status status =
        orr_queues_compute(events, window.begin_ns, window.end_ns, memory, &explain->queues);
    if (status != ORR_OK || !timeline) {
        return status;
    }
    status = orr_steps_find(timeline, memory, &explain->steps);
    if (status == ORR_OK) {
        status = orr_annotations_compute(timeline, events, hosts, options, bounds, &explain->steps,
                                         window, memory, &explain->annotations);
    }
    return status == ORR_OK ? orr_memory_timeline_compute(timeline, memory, &explain->memory)
                            : status;
}

void orr_explain_free(const struct orr_memory *memory, struct orr_explain *explain) {
    orr_framework_free(memory, &explain->framework);
    orr_steps_free(memory, &explain->steps);
    orr_annotations_free(memory, &explain->annotations);
    orr_memory_timeline_free(memory, &explain->memory);
    orr_queues_free(memory, &explain->queues);
}
