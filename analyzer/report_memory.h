/* The part of the text report that is about memory. Internal to analyzer/.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_MEMORY_H
#define ORR_ANALYZER_REPORT_MEMORY_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

/* Appends the section; nothing for a trace without allocations. Devices that say the same share
 * their rows. */
void orr__report_memory(const struct orr_analysis *analysis, struct orr_text *text);

#endif
