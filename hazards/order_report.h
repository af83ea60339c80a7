/* What a check of a happens-before question can say beyond its verdict: all findings, and what is
 * redundant. As text for people, and as fields for the verdict's object of JSON.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_ORDER_REPORT_H
#define ORR_HAZARDS_ORDER_REPORT_H

#include "hazards/check.h"

/* Findings of one program that are told, and looked at; more only say that there are more. */
enum { ORR_ORDER_REPORT_MAX = 1000, ORR_ORDER_REPORT_SEEN_MAX = 10000 };

struct orr_order_report_options {
    bool as_json;
    bool all;       /* every finding, in the order of the operations */
    bool redundant; /* what can go, if the program is safe */
};

/* JSON: `, "findings": [{"verdict", "ops", "count", "message"}, ...]`, with `"more_findings": true`
 * if they were cut; `, "redundant": [{"op", "why", "together"}, ...], "redundant_untried": 0`.
 * For people: a line each, every finding but the first, which the verdict tells. Programs that ask
 * other questions get empty text.
 *
 * Findings whose operations stand at the same two sites of a scenario, with the same names and the
 * same verdict, are one, told with the first pair and how often it was.
 *
 * Owned by the caller. ORR_NO_MEMORY. */
enum orr_status orr_order_report(const struct orr_stream_program *program,
                                 const struct orr_order_report_options *options,
                                 char **out_text) ORR_MUST_CHECK;

#endif
