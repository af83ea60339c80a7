/* Sentences that give the arithmetic behind a verdict; used by both reports.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_WHY_H
#define ORR_ANALYZER_REPORT_WHY_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

/* Why a device is (not) launch-bound: the host's share, the periods, who dominates. One line, no
 * period. */
void orr__why_launch(const struct orr_analysis *analysis, const struct orr_launch_terms *terms,
                     struct orr_text *text);
/* Why the device's verdict is what it is. */
void orr__why_verdict(const struct orr_analysis *analysis, const struct orr_device_report *report,
                      struct orr_text *text);
/* Why a phase has its class: its share, and the test for launch phases. */
void orr__why_phase(const struct orr_analysis *analysis, const struct orr_phase *phase,
                    struct orr_text *text);
/* Why an operator has its class: intensity against the ridge, achieved share of the roof. */
void orr__why_row(const struct orr_analysis *analysis, const struct orr_operator_row *row,
                  struct orr_text *text);

/* Compute-bound, memory-bound, ...: what most of the busy time of a device is. */
enum orr_busy orr__main_busy(const struct orr_device_report *report);

#endif
