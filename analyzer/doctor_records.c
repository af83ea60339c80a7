/* What the doctor says of a source: its end, its records, and how ops found their calls. */
#include <string.h>

#include "analyzer/doctor_internal.h"
#include "analyzer/text.h"
#include "analyzer/timeline_find.h"
#include "analyzer/times.h"

typedef unsigned long long count;

static bool is_own(const struct orr_analysis *a) {
    return strcmp(a->events.source.format, "orrery") == 0;
}

/* --- The run and the file --- */

static void check_run(struct orr__examination *x) {
    const char *status = x->a->events.source.status;
    if (!is_own(x->a) || status[0] == '\0' || strcmp(status, "ok") == 0) {
        return;
    }
    bool killed = strcmp(status, "running") == 0;
    struct orr_doctor_check check = orr__doctor_check(
        "run_not_ok", ORR_DOCTOR_WARNING,
        "the figures are of what it did until then; work that was under way has no end and is in "
        "no figure");
    if (killed) {
        orr__doctor_add(x, &check,
                        "its run did not come to an end (it was killed, or still runs): what it "
                        "did last may be missing");
    } else {
        orr__doctor_add(x, &check, "its run ended as \"%s\": the trace is what it left", status);
    }
}

/* What the importer had to repair, skip or do without. */
static void check_import(struct orr__examination *x) {
    const struct orr_timeline *t = x->a->timeline;
    for (size_t i = 0; t && i < t->finding_count; i++) {
        const struct orr_timeline_finding *f = &t->findings[i];
        if (strncmp(f->kind, "import_", strlen("import_")) != 0) {
            continue;
        }
        enum orr_doctor_severity severity = strcmp(f->severity, "error") == 0 ? ORR_DOCTOR_ERROR
                                            : strcmp(f->severity, "warning") == 0
                                                ? ORR_DOCTOR_WARNING
                                                : ORR_DOCTOR_NOTE;
        struct orr_doctor_check check = orr__doctor_check(f->kind, severity, f->fix);
        orr__doctor_add(x, &check, "%s", f->message);
    }
}

static void check_ops(struct orr__examination *x) {
    const struct orr_events_source *s = &x->a->events.source;
    if (x->a->events.op_count == 0) {
        struct orr_doctor_check check =
            orr__doctor_check("no_ops", ORR_DOCTOR_WARNING,
                              "the file was read; figures of devices do not exist, and are not 0");
        orr__doctor_add(x, &check, "no work of a device that ran to its end is in the trace");
    }
    if (s->dropped > 0) {
        struct orr_doctor_check check = orr__doctor_check(
            "dropped_records", ORR_DOCTOR_ERROR,
            "sums are too small and idle time too long; use a larger buffer or a shorter window");
        check.count = s->dropped;
        orr__doctor_add(x, &check, "the tracer lost %llu records", (count)s->dropped);
    }
    uint64_t wrong = s->failed_ops + s->poisoned_ops + s->skipped_ops;
    if (wrong > 0) {
        struct orr_doctor_check check =
            orr__doctor_check("failed_ops", ORR_DOCTOR_ERROR, "their times are not those of work");
        check.count = wrong;
        orr__doctor_add(x, &check, "%llu ops failed, %llu were poisoned, %llu were skipped",
                        (count)s->failed_ops, (count)s->poisoned_ops, (count)s->skipped_ops);
    }
    if (s->never_started > 0) {
        struct orr_doctor_check check = orr__doctor_check("unfinished_ops", ORR_DOCTOR_WARNING,
                                                          "they are left out of every figure");
        check.count = s->never_started;
        orr__doctor_add(x, &check, "%llu ops never ran to their end (%llu had started)",
                        (count)s->never_started, (count)s->unfinished);
    }
}

/* --- Records that cannot be --- */

static bool is_lost(const struct orr_timeline_command *c) {
    return c->start_ns == 0 && c->finish_ns == 0;
}

static bool is_negative(const struct orr_timeline_command *c) {
    return c->start_ns != ORR_TIME_NONE && c->finish_ns != ORR_TIME_NONE &&
           c->finish_ns < c->start_ns;
}

static void check_bad_ops(struct orr__examination *x) {
    const struct orr_timeline *t = x->a->timeline;
    uint64_t bad = x->a->events.source.bad_ops, lost = 0, negative = 0;
    int64_t worst = 0;
    if (bad == 0) {
        return;
    }
    for (size_t i = 0; t && i < t->command_count; i++) {
        const struct orr_timeline_command *c = &t->commands[i];
        if (!orr__is_op_kind(c->kind)) {
            continue;
        }
        lost += is_lost(c);
        negative += is_negative(c);
        if (is_negative(c) && orr__good_time(c->start_ns) && orr__good_time(c->finish_ns)) {
            worst = orr__max_ns(worst, c->start_ns - c->finish_ns);
        }
    }
    struct orr_doctor_check check = orr__doctor_check(
        "bad_ops", ORR_DOCTOR_WARNING,
        "they are left out of every figure, so busy time is too short by what they took");
    check.count = bad;
    check.of = bad + x->a->events.op_count;
    check.worst_ns = negative > 0 ? worst : ORR_TIME_NONE;
    orr__doctor_add(
        x, &check,
        "%llu records of ops cannot be: %llu with begin and end 0 (lost by the "
        "tracer), %llu that end before they begin, %llu without a place or a time, or with "
        "a time beyond what fits",
        (count)bad, (count)lost, (count)negative,
        (count)(bad > lost + negative ? bad - lost - negative : 0));
}

static bool is_empty(const struct orr_events *events, const struct orr_events_op *op) {
    (void)events;
    return op->start_ns == op->end_ns;
}

static void check_stamps(struct orr__examination *x) {
    const struct orr_events *events = &x->a->events;
    const struct orr_events_source *s = &events->source;
    if (s->bad_calls > 0) {
        struct orr_doctor_check check =
            orr__doctor_check("bad_calls", ORR_DOCTOR_WARNING,
                              "they are left out; ops that only they enqueued count as unlinked");
        check.count = s->bad_calls;
        check.of = s->api_calls;
        orr__doctor_add(x, &check, "%llu of %llu calls end before they begin", (count)s->bad_calls,
                        (count)s->api_calls);
    }
    if (x->a->exact.zero_len_ops > 0) {
        struct orr_doctor_check check =
            orr__doctor_check("zero_length_ops", ORR_DOCTOR_NOTE,
                              "the clock is too coarse for them: they count, and add no time");
        check.count = x->a->exact.zero_len_ops;
        check.of = events->op_count;
        check.first_op = orr__doctor_first(events, is_empty);
        orr__doctor_add(x, &check, "%llu of %zu ops have no length", (count)check.count,
                        events->op_count);
    }
    if (s->subns_stamps > 0) {
        struct orr_doctor_check check = orr__doctor_check("subns_stamps", ORR_DOCTOR_NOTE,
                                                          "they are cut to whole ns, towards zero");
        check.count = s->subns_stamps;
        orr__doctor_add(x, &check, "%llu stamps are finer than 1 ns", (count)s->subns_stamps);
    }
}

/* Stamps in whole us: every figure is a multiple of 1 us, and short ops have no length. */
static void check_clock(struct orr__examination *x) {
    const struct orr_events *events = &x->a->events;
    if (is_own(x->a) || events->op_count < 2) {
        return;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        if (events->ops[i].start_ns % 1000 != 0 || events->ops[i].end_ns % 1000 != 0) {
            return;
        }
    }
    struct orr_doctor_check check = orr__doctor_check(
        "coarse_clock", ORR_DOCTOR_NOTE,
        "lengths of single ops are right to 1 us at best; sums are exact for the stamps given");
    orr__doctor_add(x, &check, "all times of ops are whole microseconds");
}

/* --- Links --- */

static bool is_unlinked(const struct orr_events *events, const struct orr_events_op *op) {
    (void)events;
    return !orr_events_linked(op);
}

static void check_links(struct orr__examination *x) {
    const struct orr_events *events = &x->a->events;
    uint64_t unlinked = x->a->split.unlinked, queued = 0;
    if (unlinked == 0) {
        return;
    }
    int64_t first_call = INT64_MAX;
    for (size_t i = 0; i < events->call_count; i++) {
        first_call = orr__min_ns(first_call, events->calls[i].begin_ns);
    }
    for (size_t i = 0; i < events->op_count; i++) {
        queued += !orr_events_linked(&events->ops[i]) && events->ops[i].start_ns < first_call;
    }
    struct orr_doctor_check check = orr__doctor_check(
        "unlinked_ops", unlinked == events->op_count ? ORR_DOCTOR_WARNING : ORR_DOCTOR_NOTE,
        "they were queued before the window began, or their calls were not recorded: they count "
        "in every figure of devices and in no latency, and idle time that they end has no known "
        "cause");
    check.count = unlinked;
    check.of = events->op_count;
    check.first_op = orr__doctor_first(events, is_unlinked);
    orr__doctor_add(x, &check,
                    "%llu of %zu ops have no call of their process and correlation; %llu of them "
                    "began before the first call",
                    (count)unlinked, events->op_count, (count)queued);
}

static void check_correlations(struct orr__examination *x) {
    const struct orr_events *events = &x->a->events;
    uint64_t merged = 0, reused = 0;
    uint32_t first = ORR_EVENTS_NONE;
    int64_t worst = 0;
    for (size_t c = 0; c < events->call_count; c++) {
        const struct orr_events_call *call = &events->calls[c];
        merged += call->records > 1;
        if (!(call->flags & ORR_CALL_REUSED)) {
            continue;
        }
        reused++;
        worst = orr__max_ns(worst, call->end_ns - call->begin_ns);
        first = orr__events_earlier_call(events, first, (uint32_t)c);
    }
    if (merged > reused) {
        struct orr_doctor_check check =
            orr__doctor_check("merged_calls", ORR_DOCTOR_NOTE,
                              "each counts once, from its first begin to its last "
                              "end");
        check.count = merged - reused;
        check.of = events->call_count;
        orr__doctor_add(x, &check,
                        "%llu calls have several records, one inside the other (runtime and "
                        "driver)",
                        (count)check.count);
    }
    if (reused > 0) {
        struct orr_doctor_check check = orr__doctor_check(
            "duplicate_correlations", ORR_DOCTOR_WARNING,
            "calls of different times became one: their length, and the waiting of their ops, are "
            "wrong; was a file joined with itself, or a counter reset?");
        check.count = reused;
        check.of = events->call_count;
        check.worst_ns = worst;
        check.first_call = first;
        orr__doctor_add(x, &check,
                        "%llu correlations are used by calls that are not one inside the other",
                        (count)reused);
    }
}

static void check_joins(struct orr__examination *x) {
    const struct orr_timeline_source *s = x->a->timeline ? &x->a->timeline->source : NULL;
    if (!s || strcmp(x->a->events.source.format, "nsys") != 0 ||
        s->kernel_rows == ORR_SOURCE_NONE) {
        return;
    }
    uint64_t naive = s->kernel_naive_rows + s->memcpy_naive_rows + s->memset_naive_rows;
    uint64_t right = s->kernel_process_rows + s->memcpy_process_rows + s->memset_process_rows;
    if (naive <= right) {
        return;
    }
    struct orr_doctor_check check =
        orr__doctor_check("false_joins_avoided", ORR_DOCTOR_NOTE,
                          "processes use the same numbers: a join on the correlation alone pairs "
                          "work of one process with calls of another");
    check.count = naive - right;
    check.of = naive;
    orr__doctor_add(x, &check, "%llu of %llu rows of a join without the process would be false",
                    (count)check.count, (count)naive);
}

void orr__doctor_records(struct orr__examination *x) {
    check_run(x);
    check_import(x);
    check_ops(x);
    check_bad_ops(x);
    check_stamps(x);
    check_clock(x);
    check_links(x);
    check_correlations(x);
    check_joins(x);
}
