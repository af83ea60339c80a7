/* The analysis as one JSON document: what `orrery analyze --json` prints.
 *
 * Numbers are integers of ns, bytes and FLOPs (beyond 2^53 where they are: read them as integers),
 * ratios have fixed decimals, what the trace cannot answer is null. Names of classes have
 * underscores.
 *
 * About strategies (definitions: communication.h, pipeline.h, memory_peak.h):
 *
 *   communication[]  {axis, kind, count, bytes, ops, time_ns, exposed_ns, overlapped_ns,
 *                    waiting_ns}, of all devices; the same but for count of each one:
 *                    devices[].communication[]
 *   pipelines[]      {devices, begin_ns, end_ns, bubble_ns, share}
 *   devices[].bubble {pipeline, bubble_ns, share, warm_up_ns, steady_ns, drain_ns}, null for what
 *                    is no stage
 *   memory[]         {device, peak_bytes, capacity_bytes, requested_peak_bytes, allocations,
 *                    live_at_end_bytes, reserved_bytes, reserved_peak_bytes, fragmentation_bytes,
 *                    roles{NAME: {bytes, peak_bytes}}, line_count, lines[{site, role, count,
 *                    bytes}], top[{label, count, bytes}]}; roles, lines and top are of the peak
 *
 * Threads: pure function. */
#ifndef ORR_ANALYZER_REPORT_JSON_H
#define ORR_ANALYZER_REPORT_JSON_H

#include "analyzer/analysis.h"

/* *out_text is NUL-terminated, ends with a newline, and is freed with
 * orr_memory_free(analysis->memory). ORR_NO_MEMORY. */
enum orr_status orr_report_json(const struct orr_analysis *analysis, char **out_text,
                                size_t *out_length) ORR_MUST_CHECK;

#endif
