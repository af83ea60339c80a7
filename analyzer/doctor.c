#include "analyzer/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/doctor_internal.h"

enum { LINE_MAX_BYTES = 512 };

const char *orr_doctor_severity_text(enum orr_doctor_severity severity) {
    static const char *const texts[] = {
#define ORR_DOCTOR_SEVERITY_TEXT(name, text) text,
        ORR_DOCTOR_SEVERITY_LIST(ORR_DOCTOR_SEVERITY_TEXT)
#undef ORR_DOCTOR_SEVERITY_TEXT
    };
    return severity < ORR_DOCTOR_SEVERITY_COUNT ? texts[severity] : "";
}

const char *orr_question_text(enum orr_question question) {
    static const char *const texts[] = {
#define ORR_QUESTION_TEXT(name, text, words) text,
        ORR_QUESTION_LIST(ORR_QUESTION_TEXT)
#undef ORR_QUESTION_TEXT
    };
    return question < ORR_QUESTION_COUNT ? texts[question] : "";
}

const char *orr_question_words(enum orr_question question) {
    static const char *const texts[] = {
#define ORR_QUESTION_WORDS(name, text, words) words,
        ORR_QUESTION_LIST(ORR_QUESTION_WORDS)
#undef ORR_QUESTION_WORDS
    };
    return question < ORR_QUESTION_COUNT ? texts[question] : "";
}

const char *orr_ability_text(enum orr_ability ability) {
    static const char *const texts[] = {"no", "partly", "yes"};
    return ability <= ORR_ABILITY_YES ? texts[ability] : "";
}

/* ---------------------------------------------------------------------------------------------- */

struct orr_doctor_check orr__doctor_check(const char *kind, enum orr_doctor_severity severity,
                                          const char *meaning) {
    return (struct orr_doctor_check){.kind = kind,
                                     .severity = severity,
                                     .worst_ns = ORR_TIME_NONE,
                                     .first_op = ORR_EVENTS_NONE,
                                     .first_call = ORR_EVENTS_NONE,
                                     .meaning = meaning};
}

/* Behind the last check that is as severe: errors first, each severity in the order of adding. */
static size_t place_for(const struct orr_doctor *doctor, enum orr_doctor_severity severity) {
    size_t at = doctor->check_count;
    while (at > 0 && doctor->checks[at - 1].severity < severity) {
        at--;
    }
    return at;
}

void orr__doctor_add(struct orr__examination *x, const struct orr_doctor_check *check,
                     const char *format, ...) {
    struct orr_doctor *doctor = &x->a->doctor;
    const struct orr_memory *memory = x->a->memory;
    char line[LINE_MAX_BYTES];
    if (x->status != ORR_OK) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    x->status =
        orr_memory_grow(memory, &doctor->checks, &doctor->check_capacity, doctor->check_count + 1,
                        sizeof *doctor->checks, SIZE_MAX / sizeof *doctor->checks);
    char *message = x->status == ORR_OK ? orr_memory_text(memory, line, strlen(line)) : NULL;
    if (!message) {
        x->status = ORR_NO_MEMORY;
        return;
    }
    size_t at = place_for(doctor, check->severity);
    memmove(doctor->checks + at + 1, doctor->checks + at,
            (doctor->check_count - at) * sizeof *doctor->checks);
    doctor->checks[at] = *check;
    doctor->checks[at].message = message;
    doctor->check_count++;
}

void orr__doctor_limit(struct orr__examination *x, enum orr_question question,
                       enum orr_ability at_most, const char *format, ...) {
    struct orr_doctor_answer *answer = &x->a->doctor.answers[question];
    char line[2 * LINE_MAX_BYTES];
    if (x->status != ORR_OK) {
        return;
    }
    answer->ability = answer->ability < at_most ? answer->ability : at_most;
    int before = snprintf(line, sizeof line, "%s%s", answer->reason ? answer->reason : "",
                          answer->reason && answer->reason[0] ? "; " : "");
    if (before < 0 || (size_t)before >= sizeof line) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + before, sizeof line - (size_t)before, format, arguments);
    va_end(arguments);
    char *reason = orr_memory_text(x->a->memory, line, strlen(line));
    if (!reason) {
        x->status = ORR_NO_MEMORY;
        return;
    }
    orr_memory_free(x->a->memory, answer->reason);
    answer->reason = reason;
}

uint32_t orr__doctor_first(const struct orr_events *events,
                           bool (*is)(const struct orr_events *events,
                                      const struct orr_events_op *op)) {
    uint32_t first = ORR_EVENTS_NONE;
    for (size_t i = 0; i < events->op_count; i++) {
        uint32_t op = (uint32_t)i;
        if (is(events, &events->ops[i]) &&
            (first == ORR_EVENTS_NONE || orr__events_op_before(events, op, first))) {
            first = op;
        }
    }
    return first;
}

enum orr_status orr_doctor_compute(struct orr_analysis *analysis) {
    struct orr__examination x = {.a = analysis, .status = ORR_OK};
    for (unsigned q = 0; q < ORR_QUESTION_COUNT; q++) {
        analysis->doctor.answers[q].ability = ORR_ABILITY_YES;
    }
    orr__doctor_records(&x);
    orr__doctor_order(&x);
    orr__doctor_answers(&x);
    return x.status;
}

void orr_doctor_free(const struct orr_memory *memory, struct orr_doctor *doctor) {
    for (size_t i = 0; i < doctor->check_count; i++) {
        orr_memory_free(memory, doctor->checks[i].message);
    }
    for (unsigned q = 0; q < ORR_QUESTION_COUNT; q++) {
        orr_memory_free(memory, doctor->answers[q].reason);
    }
    orr_memory_free(memory, doctor->checks);
    *doctor = (struct orr_doctor){0};
}

size_t orr_doctor_count(const struct orr_doctor *doctor, enum orr_doctor_severity severity) {
    size_t count = 0;
    for (size_t i = 0; i < doctor->check_count; i++) {
        count += doctor->checks[i].severity == severity;
    }
    return count;
}
