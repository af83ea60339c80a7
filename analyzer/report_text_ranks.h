/* Sections of the text report about ranks: which arrive last, and who waits. Internal to analyzer/.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_TEXT_RANKS_H
#define ORR_ANALYZER_REPORT_TEXT_RANKS_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

/* The verdict in a sentence: "rank 7 arrives last in 5 of 8 collectives, ..." or why there is
 * none. */
void orr__why_straggler(const struct orr_ranks *ranks, struct orr_text *text);

/* Table of a trace whose devices communicate; nothing where nobody waits. */
void orr__report_stragglers(const struct orr_analysis *a, struct orr_text *text);

#endif
