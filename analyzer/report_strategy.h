/* The parts of the text report about parallel strategies: communication by axis, pipelines.
 * Internal to analyzer/.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_STRATEGY_H
#define ORR_ANALYZER_REPORT_STRATEGY_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

/* Append their sections; nothing for a trace without communication, without a pipeline. */
void orr__report_communication(const struct orr_analysis *analysis, struct orr_text *text);
void orr__report_pipelines(const struct orr_analysis *analysis, struct orr_text *text);

#endif
