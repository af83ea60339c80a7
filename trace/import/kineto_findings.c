/* What there is to tell of an import: nothing disappears silently. */
#include <stdio.h>

#include "trace/import/kineto_internal.h"

/* X(name, text) -> text, for repairs. */
static const char *repair_text(int repair) {
    static const char *const texts[ORR__JSON_REPAIR_COUNT] = {
#define TEXT(name, text) text,
        ORR__JSON_REPAIR_LIST(TEXT)
#undef TEXT
    };
    return texts[repair];
}

#define U64(number) ((unsigned long long)(number))

static void tell_text(struct orr__kineto *k, const struct orr__json_report *report) {
    struct orr__builder *b = k->builder;
    for (int i = 0; i < ORR__JSON_REPAIR_COUNT; i++)
        if (report->repairs[i].count > 0)
            orr__builder_finding(b, "import_repaired", "warning", "",
                                 "repaired %llu times: %s; first in what begins at byte %llu",
                                 U64(report->repairs[i].count), repair_text(i),
                                 U64(report->repairs[i].first));
    if (report->skipped.count > 0)
        orr__builder_finding(b, "import_skipped", "warning", "",
                             "%llu events could not be read and are left out; the first begins at "
                             "byte %llu",
                             U64(report->skipped.count), U64(report->skipped.first));
    if (report->members.count > 0)
        orr__builder_finding(b, "import_skipped", "warning", "",
                             "%llu members beside the events could not be read; the first begins "
                             "at byte %llu",
                             U64(report->members.count), U64(report->members.first));
    if (report->trailing > 0)
        orr__builder_finding(b, "import_trailing", "warning", "",
                             "%llu bytes follow the end of the trace at byte %llu and are left out",
                             U64(report->trailing), U64(report->trailing_at));
}

/* An array need not be closed, says the format of trace events. */
static bool is_cut(const struct orr__json_report *report) {
    return report->cut && (report->input_cut || report->cut_in_event || !report->is_array);
}

static void tell_cut(struct orr__kineto *k, const struct orr__json_report *report,
                     const struct orr__json_input *input) {
    static const char fix[] = "copy or record the trace again";
    if (report->input_cut)
        orr__builder_finding(k->builder, "import_cut", "warning", fix,
                             "%s, at byte %llu of the file; what comes after is missing",
                             input->why, U64(report->cut_at));
    else if (report->cut && !is_cut(report))
        orr__builder_finding(k->builder, "import_unclosed", "note", "",
                             "the list of events is not closed, which its format allows; if the "
                             "file was cut at byte %llu, the rest is missing",
                             U64(report->cut_at));
    else if (report->cut)
        orr__builder_finding(k->builder, "import_cut", "warning", fix,
                             "the text ends %s, at byte %llu; what comes after is missing",
                             report->cut_in_event ? "in the middle of an event" : "before its end",
                             U64(report->cut_at));
}

static void tell_events(struct orr__kineto *k) {
    if (k->no_time > 0)
        orr__builder_finding(k->builder, "import_no_time", "warning", "",
                             "%llu events have no time, or one beyond what fits, and are left out; "
                             "the first begins at byte %llu",
                             U64(k->no_time), U64(k->first_offset_no_time));
    if (k->no_place > 0)
        orr__builder_finding(
            k->builder, "import_no_place", "warning", "",
            "%llu events of a device do not say which device and stream, or name one "
            "beyond what fits, and are left out; the first begins at byte %llu",
            U64(k->no_place), U64(k->first_offset_no_place));
    if (k->no_event + k->other_ph > 0)
        orr__builder_finding(k->builder, "import_no_event", "note", "",
                             "%llu items of the list are no event, %llu of a kind that is not "
                             "used here",
                             U64(k->no_event), U64(k->other_ph));
}

static void set_source(struct orr__kineto *k, const struct orr__json_report *report) {
    struct orr_timeline_source *source = orr__builder_source(k->builder);
    source->subns_stamps = k->subns_stamps;
    source->events = report->events;
    source->bytes = report->bytes;
    source->skipped = report->skipped.count + report->members.count + k->no_time + k->no_place;
    source->repaired = 0;
    for (int i = 0; i < ORR__JSON_REPAIR_COUNT; i++)
        source->repaired += report->repairs[i].count;
    if (is_cut(report))
        source->truncated_at = report->cut_at;
    source->knows_waits = source->knows_syncs = k->has_syncs;
}

static void set_counts(struct orr__kineto *k) {
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
#define COUNT(name) {"kineto_" #name, k->name},
        ORR__KINETO_COUNT_LIST(COUNT)
#undef COUNT
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char text[24];
        if (counts[i].count == 0)
            continue;
        snprintf(text, sizeof text, "%llu", U64(counts[i].count));
        orr__builder_meta(k->builder, counts[i].key, text);
    }
}

void orr__kineto_findings(struct orr__kineto *k) {
    const struct orr__json_report *report = orr__json_document_report(k->document);
    tell_text(k, report);
    tell_cut(k, report, orr__json_document_input(k->document));
    tell_events(k);
    set_source(k, report);
    set_counts(k);
}

enum orr_status orr__kineto_strict(const struct orr__json_report *report, const char *name,
                                   struct orr_error *error) {
    uint64_t first = UINT64_MAX;
    const char *what = NULL;
    for (int i = 0; i < ORR__JSON_REPAIR_COUNT; i++) {
        if (report->repairs[i].count > 0 && report->repairs[i].first < first) {
            first = report->repairs[i].first;
            what = repair_text(i);
        }
    }
    if (report->skipped.count > 0 && report->skipped.first < first) {
        first = report->skipped.first;
        what = "an event that cannot be read";
    }
    if (report->members.count > 0 && report->members.first < first) {
        first = report->members.first;
        what = "a member that cannot be read";
    }
    if (!what && is_cut(report)) {
        first = report->cut_at;
        what = "the trace ends before its end";
    }
    if (!what && report->trailing > 0) {
        first = report->trailing_at;
        what = "something follows the end of the trace";
    }
    return what ? orr_error_set(error, ORR_INVALID, "%s: byte %llu: %s; expected a whole trace",
                                name, U64(first), what)
                : ORR_OK;
}
