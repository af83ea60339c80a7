/* The doctor's parts. Internal to analyzer/.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_DOCTOR_INTERNAL_H
#define ORR_ANALYZER_DOCTOR_INTERNAL_H

#include "analyzer/analysis.h"

struct orr__examination {
    struct orr_analysis *a;
    enum orr_status status; /* the first failure; nothing is added after it */
};

/* A check with nothing but its kind and severity: no count, no worst, no first. */
struct orr_doctor_check orr__doctor_check(const char *kind, enum orr_doctor_severity severity,
                                          const char *meaning);

/* Adds a check with its message. */
void orr__doctor_add(struct orr__examination *x, const struct orr_doctor_check *check,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds to the reason of an answer ("; " between reasons) and lowers it to `at_most`. */
void orr__doctor_limit(struct orr__examination *x, enum orr_question question,
                       enum orr_ability at_most, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* First op, in the order of streams, for which `is` holds; ORR_EVENTS_NONE without. */
uint32_t orr__doctor_first(const struct orr_events *events,
                           bool (*is)(const struct orr_events *events,
                                      const struct orr_events_op *op));

/* doctor_records.c: the source, its records and its links. */
void orr__doctor_records(struct orr__examination *x);
/* doctor_order.c: clocks, streams, dependencies, graphs, communication. */
void orr__doctor_order(struct orr__examination *x);
/* doctor_answers.c */
void orr__doctor_answers(struct orr__examination *x);

#endif
