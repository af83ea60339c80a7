/* Findings: what the trace itself reports, and what the analysis found wrong or worth doing.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_FINDINGS_H
#define ORR_ANALYZER_FINDINGS_H

#include <stdint.h>

#include "runtime/memory.h"

struct orr_analysis;

struct orr_analysis_finding {
    const char *kind;     /* "clock_violation", ...: static, or borrowed from the timeline */
    const char *severity; /* "error", "warning", "note" */
    char *message;        /* one line; owned */
    const char *fix;      /* "" if there is none to name */
    uint64_t cmd_a, cmd_b, buffer; /* ids in the trace, 0 none */
};

struct orr_analysis_findings {
    struct orr_analysis_finding *items; /* those of the trace first; owned */
    size_t count, capacity;
};

/* Appends to analysis->findings what the figures of `analysis` say. */
enum orr_status orr_findings_compute(struct orr_analysis *analysis) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_findings_free(const struct orr_memory *memory, struct orr_analysis_findings *findings);

#endif
