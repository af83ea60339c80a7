/* The part of the text report that lists devices. Internal to analyzer/.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_DEVICES_H
#define ORR_ANALYZER_REPORT_DEVICES_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

/* Appends the table; nothing for a single device. Of more devices than a page has room for those
 * that are alike share a row: with the same verdict, and each share within the same whole
 * percent. */
void orr__report_devices(const struct orr_analysis *analysis, struct orr_text *text);

#endif
