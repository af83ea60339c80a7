/* A phase as a timeline shows it: its class with hyphens and the sentence that says why.
 *
 * Threads: pure function. */
#ifndef ORR_ANALYZER_PHASE_REPORT_H
#define ORR_ANALYZER_PHASE_REPORT_H

#include "analyzer/analysis.h"

enum { ORR_PHASE_CLASS_MAX = 32 };

/* Writes the class ("memory-bound") into `out_class` (ORR_PHASE_CLASS_MAX bytes) and the reason, as
 * in `analyze --json`, into a new text that the caller frees with
 * orr_memory_free(analysis->memory). ORR_NO_MEMORY. */
enum orr_status orr_phase_report(const struct orr_analysis *analysis, const struct orr_phase *phase,
                                 char *out_class, char **out_why) ORR_MUST_CHECK;

#endif
