#include "analyzer/report_doctor.h"

#include <string.h>

#include "analyzer/report_why.h"
#include "analyzer/table.h"
#include "analyzer/text.h"

static void add_head(const struct orr_analysis *a, struct orr_text *text) {
    const struct orr_events_source *s = &a->events.source;
    const char *clock = a->timeline ? orr_timeline_meta(a->timeline, "clock") : NULL;
    char window[ORR_NUMBER_TEXT_MAX];
    orr__text_add(text, "%s: %s, %zu ops on %zu device%s within %s", a->options.file, s->format,
                  a->events.op_count, a->device_count, a->device_count == 1 ? "" : "s",
                  orr__time_text(a->end_ns - a->begin_ns, window));
    if (s->status[0] != '\0') {
        orr__text_add(text, ", run %s", s->status);
    }
    orr__text_add(text, "\ntimes: ");
    if (s->has_time_base) {
        orr__text_add(text, "relative to %lld ns since 1970\n", (long long)s->time_base_ns);
    } else if (clock && clock[0] != '\0') {
        orr__text_add(text, "of a %s clock\n", clock);
    } else {
        orr__text_add(text, "as the source gives them; it names no time base\n");
    }
}

static void add_first(const struct orr_analysis *a, const struct orr_doctor_check *check,
                      struct orr_text *text) {
    const struct orr_events *events = &a->events;
    char name[ORR_TABLE_CELL_MAX + 1];
    if (check->first_op != ORR_EVENTS_NONE) {
        const struct orr_events_op *op = &events->ops[check->first_op];
        const struct orr_events_stream *stream = &events->streams[op->stream];
        orr__text_add(text, "    first: %s on device %u, %s, at %lld ns\n",
                      orr__table_clean(op->name, name), events->devices[stream->device].id,
                      stream->name, (long long)op->start_ns);
    } else if (check->first_call != ORR_EVENTS_NONE) {
        const struct orr_events_call *call = &events->calls[check->first_call];
        orr__text_add(text, "    first: %s on thread %s at %lld ns\n",
                      orr__table_clean(call->name, name), events->threads[call->thread].label,
                      (long long)call->begin_ns);
    }
}

static void add_checks(const struct orr_analysis *a, struct orr_text *text) {
    const struct orr_doctor *d = &a->doctor;
    orr__text_add(text, "\nwhat is wrong with it\n");
    if (d->check_count == 0) {
        orr__text_add(text, "  nothing\n");
    }
    for (size_t i = 0; i < d->check_count; i++) {
        const struct orr_doctor_check *check = &d->checks[i];
        orr__text_add(text, "  %s: %s: %s\n", orr_doctor_severity_text(check->severity),
                      check->kind, check->message);
        if (check->meaning[0] != '\0') {
            orr__text_add(text, "    %s\n", check->meaning);
        }
        add_first(a, check, text);
    }
}

static void add_answers(const struct orr_analysis *a, struct orr_text *text) {
    orr__text_add(text, "\nwhat it can answer\n");
    for (unsigned q = 0; q < ORR_QUESTION_COUNT; q++) {
        const struct orr_doctor_answer *answer = &a->doctor.answers[q];
        const char *reason = answer->reason ? answer->reason : "";
        orr__text_add(text, "  %-6s  %s%s%s\n", orr_ability_text(answer->ability),
                      orr_question_words((enum orr_question)q), reason[0] ? ": " : "", reason);
    }
}

static int64_t largest_residual(const struct orr_analysis *a) {
    int64_t largest = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        int64_t here = a->devices[d].residual_ns;
        here = here < 0 ? -here : here;
        largest = here > largest ? here : largest;
    }
    return largest;
}

enum { VERDICT_ROWS = 16 };

/* Verdicts, so that what was abstained from is seen beside its reason. */
static void add_verdicts(const struct orr_analysis *a, struct orr_text *text) {
    if (a->events.op_count == 0) {
        return;
    }
    orr__text_add(text, "\nverdicts (largest residual of a device's window: %lld ns)\n",
                  (long long)largest_residual(a));
    if (a->device_count > VERDICT_ROWS) {
        orr__text_add(text, "  the first %d of %zu devices; orrery analyze has all\n", VERDICT_ROWS,
                      a->device_count);
    }
    for (size_t d = 0; d < a->device_count && d < VERDICT_ROWS; d++) {
        const struct orr_device_report *r = &a->devices[d];
        struct orr_text why = {.memory = text->memory};
        char name[ORR_HYPHENS_MAX];
        orr__why_verdict(a, r, &why);
        text->failed = text->failed || why.failed;
        orr__text_add(text, "  device %u: %s: %s\n", a->events.devices[r->device].id,
                      orr__text_hyphens(orr_verdict_text(r->verdict), name),
                      why.data ? why.data : "");
        orr__text_free(&why);
    }
}

enum orr_status orr_report_doctor_text(const struct orr_analysis *analysis, char **out_text,
                                       size_t *out_length) {
    struct orr_text text = {.memory = analysis->memory};
    add_head(analysis, &text);
    add_checks(analysis, &text);
    add_answers(analysis, &text);
    add_verdicts(analysis, &text);
    *out_text = NULL;
    *out_length = 0;
    if (text.failed) {
        orr__text_free(&text);
        return ORR_NO_MEMORY;
    }
    *out_text = text.data;
    *out_length = text.length;
    return ORR_OK;
}
