/* "doctor": checks and answers. */
#include "analyzer/report_doctor.h"
#include "analyzer/report_json_internal.h"

static void put_first(struct json *j, const struct orr_analysis *a,
                      const struct orr_doctor_check *check) {
    const struct orr_events *events = &a->events;
    if (check->first_op != ORR_EVENTS_NONE) {
        const struct orr_events_op *op = &events->ops[check->first_op];
        const struct orr_events_stream *stream = &events->streams[op->stream];
        put_open(j, "first", "{");
        put_string(j, "name", op->name);
        put_count(j, "device", events->devices[stream->device].id);
        put_string(j, "stream", stream->name);
        put_int(j, "start_ns", op->start_ns);
        if (op->correlation != ORR_CORRELATION_NONE) {
            put_count(j, "correlation", op->correlation);
        } else {
            put_null(j, "correlation");
        }
        put_close(j, "}");
    } else if (check->first_call != ORR_EVENTS_NONE) {
        const struct orr_events_call *call = &events->calls[check->first_call];
        put_open(j, "first", "{");
        put_string(j, "call", call->name);
        put_string(j, "thread", events->threads[call->thread].label);
        put_int(j, "begin_ns", call->begin_ns);
        put_close(j, "}");
    } else {
        put_null(j, "first");
    }
}

static void put_check(struct json *j, const struct orr_analysis *a,
                      const struct orr_doctor_check *check) {
    put_open(j, NULL, "{");
    put_string(j, "kind", check->kind);
    put_string(j, "severity", orr_doctor_severity_text(check->severity));
    put_count(j, "count", check->count);
    if (check->of > 0) {
        put_count(j, "of", check->of);
    } else {
        put_null(j, "of");
    }
    put_time_or_null(j, "worst_ns", check->worst_ns != ORR_TIME_NONE, check->worst_ns);
    put_first(j, a, check);
    put_string(j, "message", check->message);
    put_string(j, "meaning", check->meaning);
    put_close(j, "}");
}

static void put_body(struct json *j, const struct orr_analysis *a) {
    const struct orr_doctor *d = &a->doctor;
    put_open(j, "checks", "[");
    for (size_t i = 0; i < d->check_count; i++) {
        line(j);
        put_check(j, a, &d->checks[i]);
    }
    put_close(j, "]");
    put_open(j, "answers", "{");
    for (unsigned q = 0; q < ORR_QUESTION_COUNT; q++) {
        line(j);
        put_open(j, orr_question_text((enum orr_question)q), "{");
        put_string(j, "answer", orr_ability_text(d->answers[q].ability));
        put_string(j, "reason", d->answers[q].reason ? d->answers[q].reason : "");
        put_close(j, "}");
    }
    put_close(j, "}");
    put_count(j, "errors", orr_doctor_count(d, ORR_DOCTOR_ERROR));
    put_count(j, "warnings", orr_doctor_count(d, ORR_DOCTOR_WARNING));
    put_count(j, "notes", orr_doctor_count(d, ORR_DOCTOR_NOTE));
}

void orr__json_doctor(struct json *j, const struct orr_analysis *a) {
    line(j);
    put_open(j, "doctor", "{");
    put_body(j, a);
    put_close(j, "}");
}

static void put_head(struct json *j, const struct orr_analysis *a) {
    const struct orr_events_source *s = &a->events.source;
    const char *clock = a->timeline ? orr_timeline_meta(a->timeline, "clock") : NULL;
    int64_t residual = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        int64_t here = a->devices[d].residual_ns;
        residual = here != 0 ? here : residual;
    }
    put_string(j, "file", a->options.file);
    put_string(j, "format", s->format);
    put_string(j, "status", s->status);
    put_string(j, "clock", clock ? clock : "");
    put_time_or_null(j, "time_base_ns", s->has_time_base, s->time_base_ns);
    put_int(j, "window_ns", a->end_ns - a->begin_ns);
    put_count(j, "ops", a->events.op_count);
    put_count(j, "devices", a->device_count);
    put_int(j, "residual_ns", residual);
}

enum orr_status orr_report_doctor_json(const struct orr_analysis *analysis, char **out_text,
                                       size_t *out_length) {
    struct json j = {.text = {.memory = analysis->memory}, .memory = analysis->memory};
    put_open(&j, NULL, "{");
    put_head(&j, analysis);
    put_body(&j, analysis);
    put_close(&j, "}");
    orr__text_append(&j.text, "\n", 1);
    *out_text = NULL;
    *out_length = 0;
    if (j.text.failed) {
        orr__text_free(&j.text);
        return ORR_NO_MEMORY;
    }
    *out_text = j.text.data;
    *out_length = j.text.length;
    return ORR_OK;
}
