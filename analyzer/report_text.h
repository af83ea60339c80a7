/* The analysis for people: the verdict in the first line, then aligned tables.
 *
 * Every percentage names its numerator and denominator, every table that conserves something prints
 * its residual, and class names have hyphens. What the trace cannot answer is "unknown" or "-",
 * never 0.
 *
 * Threads: pure function. */
#ifndef ORR_ANALYZER_REPORT_TEXT_H
#define ORR_ANALYZER_REPORT_TEXT_H

#include "analyzer/analysis.h"

/* *out_text is NUL-terminated, ends with a newline, and is freed with
 * orr_memory_free(analysis->memory). ORR_NO_MEMORY. */
enum orr_status orr_report_text(const struct orr_analysis *analysis, char **out_text,
                                size_t *out_length) ORR_MUST_CHECK;

#endif
