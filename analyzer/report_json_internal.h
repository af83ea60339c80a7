/* Writing the JSON report: what its parts share. Internal to analyzer/.
 *
 *     put_open(j, "memory", "[");
 *     put_open(j, NULL, "{");
 *     put_count(j, "device", 0);
 *     put_close(j, "}");
 *     put_close(j, "]");
 *
 * Every value but the first of an object or array is preceded by a comma. `name` NULL: an item of
 * an array.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_REPORT_JSON_INTERNAL_H
#define ORR_ANALYZER_REPORT_JSON_INTERNAL_H

#include "analyzer/analysis.h"
#include "analyzer/text.h"

struct json {
    struct orr_text text;
    const struct orr_memory *memory;
    bool comma;
};

static inline void key(struct json *j, const char *name) {
    if (j->comma) {
        orr__text_append(&j->text, ", ", 2);
    }
    if (name) {
        orr__text_json_string(&j->text, name);
        orr__text_append(&j->text, ": ", 2);
    }
    j->comma = true;
}

static inline void put_open(struct json *j, const char *name, const char *bracket) {
    key(j, name);
    orr__text_append(&j->text, bracket, 1);
    j->comma = false;
}

static inline void put_close(struct json *j, const char *bracket) {
    orr__text_append(&j->text, bracket, 1);
    j->comma = true;
}

/* A line break before the next item of a long array. */
static inline void line(struct json *j) {
    if (j->comma) {
        orr__text_append(&j->text, ",", 1);
        j->comma = false;
    }
    orr__text_append(&j->text, "\n ", 2);
}

static inline void put_int(struct json *j, const char *name, int64_t value) {
    key(j, name);
    orr__text_add(&j->text, "%lld", (long long)value);
}

static inline void put_count(struct json *j, const char *name, uint64_t value) {
    key(j, name);
    orr__text_add(&j->text, "%llu", (unsigned long long)value);
}

static inline void put_wide(struct json *j, const char *name, orr_u128 value) {
    char buffer[ORR_NUMBER_TEXT_MAX];
    key(j, name);
    orr__text_add(&j->text, "%s", orr__u128_text(value, buffer));
}

static inline void put_null(struct json *j, const char *name) {
    key(j, name);
    orr__text_append(&j->text, "null", 4);
}

static inline void put_time_or_null(struct json *j, const char *name, bool known, int64_t value) {
    if (known) {
        put_int(j, name, value);
    } else {
        put_null(j, name);
    }
}

static inline void put_ratio(struct json *j, const char *name, orr_u128 up, orr_u128 down,
                             unsigned decimals) {
    char buffer[ORR_NUMBER_TEXT_MAX];
    if (down == 0) {
        put_null(j, name);
        return;
    }
    key(j, name);
    orr__text_add(&j->text, "%s", orr__ratio_text(up, down, decimals, buffer));
}

static inline void put_string(struct json *j, const char *name, const char *value) {
    key(j, name);
    orr__text_json_string(&j->text, value);
}

static inline void put_bool(struct json *j, const char *name, bool value) {
    key(j, name);
    orr__text_add(&j->text, "%s", value ? "true" : "false");
}

static inline void put_answer(struct json *j, const char *name, enum orr_answer answer) {
    if (answer == ORR_ANSWER_UNKNOWN) {
        put_null(j, name);
    } else {
        put_bool(j, name, answer == ORR_ANSWER_YES);
    }
}

/* --- report_json.c --- */

/* "NAME": {class: ns, ...} of the classes first .. end. */
void orr__json_classes(struct json *j, const char *name, const int64_t *classes, unsigned first,
                       unsigned end);
/* "idle_by_stream": {...} */
void orr__json_idle_streams(struct json *j, const struct orr_analysis *a);

/* --- report_json_exact.c --- */

/* "exact": {...} */
void orr__json_exact(struct json *j, const struct orr_analysis *a);

/* --- report_json_ranks.c --- */

/* "rank_analysis": {...}, or null where no devices communicate with each other */
void orr__json_ranks(struct json *j, const struct orr_analysis *a);

/* --- report_json_explain.c --- */

/* Items of "roofline": the operators of a framework. */
void orr__json_framework(struct json *j, const struct orr_analysis *a);
/* "peaks": [...], "steps": [...], "annotations": [...], "queue_depth": [...], "memory_timeline":
 * [...] and what goes with them */
void orr__json_explain(struct json *j, const struct orr_analysis *a);

/* --- report_json_slack.c --- */

/* "slack": {...}, or null where it was not computed */
void orr__json_slack(struct json *j, const struct orr_analysis *a);

/* --- report_json_doctor.c --- */

/* "doctor": {...} */
void orr__json_doctor(struct json *j, const struct orr_analysis *a);

/* --- report_json_strategy.c --- */

/* "memory": [...], "communication": [...], "pipelines": [...] */
void orr__json_memory(struct json *j, const struct orr_analysis *a);
void orr__json_communication(struct json *j, const struct orr_analysis *a);
void orr__json_pipelines(struct json *j, const struct orr_analysis *a);
/* Of a device by index: "communication": [...], "bubble": {...} or null. */
void orr__json_device_strategy(struct json *j, const struct orr_analysis *a, uint32_t device);

#endif
