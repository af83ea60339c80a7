/* The doctor: what is wrong with a trace, and what it therefore can and cannot answer.
 *
 * A *check* looks for one kind of fault, with its count, its worst case, the first that it found,
 * what it means and what is not answered because of it. A *question* is one that people bring to a
 * trace, with the answer whether this one can tell, and why not. The analyses abstain by the same
 * figures: what has the answer "no" here is null in the report, and a verdict that idle time
 * cannot carry is "unreliable".
 *
 *     for (size_t i = 0; i < analysis->doctor.check_count; i++) use(&analysis->doctor.checks[i]);
 *     analysis->doctor.answers[ORR_QUESTION_SPLIT].ability          // yes, partly, no
 *
 * Threads: immutable once made. */
#ifndef ORR_ANALYZER_DOCTOR_H
#define ORR_ANALYZER_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/memory.h"

struct orr_analysis;

/* X(name, text): notes need no action, warnings make some figure weaker, errors make it wrong to
 * use. */
#define ORR_DOCTOR_SEVERITY_LIST(X)                                                                \
    X(NOTE, "note")                                                                                \
    X(WARNING, "warning")                                                                          \
    X(ERROR, "error")

enum orr_doctor_severity {
#define ORR_DOCTOR_SEVERITY_ENUM(name, text) ORR_DOCTOR_##name,
    ORR_DOCTOR_SEVERITY_LIST(ORR_DOCTOR_SEVERITY_ENUM)
#undef ORR_DOCTOR_SEVERITY_ENUM
        ORR_DOCTOR_SEVERITY_COUNT
};
/* "note", "warning", "error": static storage. */
const char *orr_doctor_severity_text(enum orr_doctor_severity severity);

struct orr_doctor_check {
    const char *kind; /* "unlinked_ops", ...: static, or borrowed from the timeline */
    enum orr_doctor_severity severity;
    uint64_t count, of;  /* found, among so many; of 0: not a share */
    int64_t worst_ns;    /* ORR_TIME_NONE: not a time */
    uint32_t first_op;   /* index in the events, ORR_EVENTS_NONE: not an op */
    uint32_t first_call; /* likewise */
    char *message;       /* one line: what was found; owned */
    const char *meaning; /* one line: what it means, and what is not answered for it; "" none */
};

/* X(name, text, question): in the order in which they are printed. */
#define ORR_QUESTION_LIST(X)                                                                       \
    X(TIME, "device_time", "where did each device's time go")                                      \
    X(HOST, "host_idle", "is the host the cause of idle time, and are devices launch-bound")       \
    X(SPLIT, "split", "how long did each op wait, and for what")                                   \
    X(DEPENDENCIES, "dependencies", "which stream waited for which")                               \
    X(SYNC, "sync", "what did the host wait for")                                                  \
    X(PATH, "critical_path", "what is on the critical path")                                       \
    X(GRAPHS, "graphs", "what did captured graphs run")                                            \
    X(COMMUNICATION, "communication", "how much communication is exposed")                         \
    X(COLLECTIVES, "collectives", "which collectives ran, and how fast")                           \
    X(ROOFLINE, "roofline", "are ops bound by memory or by arithmetic")                            \
    X(MEMORY, "memory", "how much memory was held, and by what")                                   \
    X(STEPS, "steps", "which step or layer did the time go to")                                    \
    X(RACES, "races", "are there missing waits")

enum orr_question {
#define ORR_QUESTION_ENUM(name, text, question) ORR_QUESTION_##name,
    ORR_QUESTION_LIST(ORR_QUESTION_ENUM)
#undef ORR_QUESTION_ENUM
        ORR_QUESTION_COUNT
};
/* "device_time", ... and "where did each device's time go": static storage. */
const char *orr_question_text(enum orr_question question);
const char *orr_question_words(enum orr_question question);

enum orr_ability { ORR_ABILITY_NO, ORR_ABILITY_PARTLY, ORR_ABILITY_YES };
/* "no", "partly", "yes": static storage. */
const char *orr_ability_text(enum orr_ability ability);

struct orr_doctor_answer {
    enum orr_ability ability;
    char *reason; /* one line; "" for a plain yes; owned */
};

struct orr_doctor {
    struct orr_doctor_check *checks; /* errors first, then warnings, then notes; owned */
    size_t check_count, check_capacity;
    struct orr_doctor_answer answers[ORR_QUESTION_COUNT];
};

/* Fills analysis->doctor from the finished figures of `analysis`. ORR_NO_MEMORY leaves what there
 * is, to be freed with the analysis. */
enum orr_status orr_doctor_compute(struct orr_analysis *analysis) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_doctor_free(const struct orr_memory *memory, struct orr_doctor *doctor);

/* Checks of a severity. */
size_t orr_doctor_count(const struct orr_doctor *doctor, enum orr_doctor_severity severity);

#endif
