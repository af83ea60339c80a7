/* The analysis as one JSON document: what `orrery analyze --json` prints.
 *
 * Numbers are integers of ns, bytes and FLOPs (beyond 2^53 where they are: read them as integers),
 * ratios have fixed decimals, what the trace cannot answer is null. Names of classes have
 * underscores.
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
