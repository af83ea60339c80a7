/* Text sections on what analyzer/explain.h holds, and what both reports say of it.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_REPORT_EXPLAIN_H
#define ORR_ANALYZER_REPORT_EXPLAIN_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

/* The arithmetic of a row's class, or why it has none. */
void orr__why_framework(const struct orr_analysis *analysis, const struct orr_framework_row *row,
                        struct orr_text *text);

/* Where a device's peaks come from: static storage, or the name of the machine whose data they
 * are. */
const char *orr__peak_source(const struct orr_analysis *analysis, uint32_t device);

/* Windows of all devices, summed. */
int64_t orr__all_windows(const struct orr_analysis *analysis);

/* Does the trace say of each allocation what it was? Other tools' say at most how much there was in
 * all. */
bool orr__records_allocations(const struct orr_analysis *analysis);

/* Sections; each adds nothing when there is nothing to say. */
void orr__report_peaks(const struct orr_analysis *analysis, struct orr_text *text);
void orr__report_framework(const struct orr_analysis *analysis, struct orr_text *text);
void orr__report_kernels(const struct orr_analysis *analysis, struct orr_text *text);
void orr__report_steps(const struct orr_analysis *analysis, struct orr_text *text);
void orr__report_annotations(const struct orr_analysis *analysis, struct orr_text *text);
void orr__report_queues(const struct orr_analysis *analysis, struct orr_text *text);

/* Memory of a trace that has counters and no allocations. */
void orr__report_memory_counters(const struct orr_analysis *analysis, struct orr_text *text);

#endif
