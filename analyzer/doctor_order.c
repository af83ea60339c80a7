/* What the doctor says of order: clocks, streams, dependencies, graphs, communication. */
#include <stdio.h>
#include <string.h>

#include "analyzer/doctor_internal.h"
#include "analyzer/text.h"
#include "analyzer/times.h"

typedef unsigned long long count;

/* Overlaps of a stream that are this much of its summed device time, and this long, distort sums:
 * 1 %, 10 us. */
enum { OVERLAP_PERCENT = 1, OVERLAP_FLOOR_NS = 10000 };

static bool is_early(const struct orr_events *events, const struct orr_events_op *op) {
    return orr_events_early(events, op);
}

static bool is_overlapping(const struct orr_events *events, const struct orr_events_op *op) {
    return op->prev_op != ORR_EVENTS_NONE && op->start_ns < orr_events_previous_end(events, op);
}

static bool is_violating(const struct orr_events *events, const struct orr_events_op *op) {
    return orr_events_linked(op) && !orr_events_early(events, op) && op->wait_ns != ORR_TIME_NONE &&
           op->start_ns < op->wait_ns;
}

static bool is_own(const struct orr_analysis *a) {
    return strcmp(a->events.source.format, "orrery") == 0;
}

static void check_causality(struct orr__examination *x) {
    const struct orr_split *s = &x->a->split;
    char longest[ORR_NUMBER_TEXT_MAX];
    if (s->early > 0) {
        struct orr_doctor_check check = orr__doctor_check(
            "clock_violation", ORR_DOCTOR_WARNING,
            "clocks of host and device disagree, or the record is damaged: they are in no latency "
            "figure, and idle time that they end has no known cause");
        check.count = s->early;
        check.of = s->linked;
        check.worst_ns = s->early_max_ns;
        check.first_op = orr__doctor_first(&x->a->events, is_early);
        orr__doctor_add(x, &check, "%llu of %llu linked ops start before their call, by up to %s",
                        (count)s->early, (count)s->linked,
                        orr__time_text(s->early_max_ns, longest));
    }
    if (s->dep_violations > 0) {
        struct orr_doctor_check check = orr__doctor_check(
            "dependency_violation", is_own(x->a) ? ORR_DOCTOR_ERROR : ORR_DOCTOR_WARNING,
            is_own(x->a) ? "a scheduling race: orrery check names the missing wait"
                         : "the wait was resolved to the wrong record, or the clock is wrong: the "
                           "dependency wait of these ops is not known");
        check.count = s->dep_violations;
        check.of = s->ops;
        check.worst_ns = s->dep_violation_max_ns;
        check.first_op = orr__doctor_first(&x->a->events, is_violating);
        orr__doctor_add(x, &check,
                        "%llu ops start before what they wait for has ended, by up to %s",
                        (count)s->dep_violations, orr__time_text(s->dep_violation_max_ns, longest));
    }
}

/* Sums of the ops of all streams as they are, and each cut where the next one of its stream with a
 * later start begins. */
struct stream_sums {
    int64_t raw, clipped;
    int64_t worst; /* cut off one op */
    uint32_t worst_op;
};

static void sum_stream(const struct orr_events *events, size_t stream, struct stream_sums *sums) {
    int64_t next = INT64_MAX; /* first start behind that of the op looked at */
    for (size_t i = events->stream_first[stream + 1]; i > events->stream_first[stream]; i--) {
        uint32_t index = events->stream_order[i - 1];
        const struct orr_events_op *op = &events->ops[index];
        bool last_of_start = i == events->stream_first[stream + 1] ||
                             events->ops[events->stream_order[i]].start_ns != op->start_ns;
        if (last_of_start && i < events->stream_first[stream + 1]) {
            next = events->ops[events->stream_order[i]].start_ns;
        }
        int64_t end = orr__min_ns(op->end_ns, next), cut = op->end_ns - end;
        sums->raw = orr__add_ns(sums->raw, op->end_ns - op->start_ns);
        sums->clipped = orr__add_ns(sums->clipped, end - op->start_ns);
        if (cut > sums->worst) {
            sums->worst = cut;
            sums->worst_op = index;
        }
    }
}

static void check_overlaps(struct orr__examination *x) {
    const struct orr_events *events = &x->a->events;
    const struct orr_split *s = &x->a->split;
    if (s->overlaps == 0) {
        return;
    }
    struct stream_sums sums = {.worst_op = ORR_EVENTS_NONE};
    for (size_t i = 0; i < events->stream_count; i++) {
        sum_stream(events, i, &sums);
    }
    int64_t excess = sums.raw - sums.clipped;
    bool much = excess > OVERLAP_FLOOR_NS && orr__share_exceeds(excess, OVERLAP_PERCENT, sums.raw);
    struct orr_doctor_check check = orr__doctor_check(
        "stream_overlap",
        is_own(x->a) ? ORR_DOCTOR_ERROR
        : much       ? ORR_DOCTOR_WARNING
                     : ORR_DOCTOR_NOTE,
        much ? "lengths of ops run into the ops behind them: sums per kernel are too long by up "
               "to that much; busy time is a union and is not"
             : "programmatic launch lets an op begin early; busy time is a union, sums per kernel "
               "count the overlap twice");
    check.count = s->overlaps;
    check.of = events->op_count;
    check.worst_ns = s->overlap_max_ns;
    check.first_op = orr__doctor_first(events, is_overlapping);
    char longest[ORR_NUMBER_TEXT_MAX], raw[ORR_NUMBER_TEXT_MAX], clipped[ORR_NUMBER_TEXT_MAX];
    char name[80] = "";
    if (sums.worst_op != ORR_EVENTS_NONE) {
        snprintf(name, sizeof name, "; most by %.48s", events->ops[sums.worst_op].name);
    }
    orr__doctor_add(x, &check,
                    "%llu ops start before an earlier op of their stream ends, by up to %s; ops "
                    "sum to %s, and to %s when each is cut where the next begins%s",
                    (count)s->overlaps, orr__time_text(s->overlap_max_ns, longest),
                    orr__time_text(sums.raw, raw), orr__time_text(sums.clipped, clipped), name);
}

static void check_waits(struct orr__examination *x) {
    const struct orr_events_source *s = &x->a->events.source;
    if (s->event_waits_unresolved == 0) {
        return;
    }
    struct orr_doctor_check check = orr__doctor_check(
        "unresolved_waits", ORR_DOCTOR_NOTE,
        "the records that they wait for are not in the trace: what they cost is inside dispatch, "
        "or unknown where it is long");
    check.count = s->event_waits_unresolved;
    check.of = s->event_waits;
    orr__doctor_add(x, &check, "%llu of %llu waits between streams do not say for what",
                    (count)s->event_waits_unresolved, (count)s->event_waits);
}

static void check_graphs(struct orr__examination *x) {
    const struct orr_graph_replays *g = &x->a->replays;
    if (g->without_ops > 0) {
        struct orr_doctor_check check =
            orr__doctor_check("graph_without_ops", ORR_DOCTOR_WARNING,
                              "what they ran is missing: idle time is unreliable, and no device is "
                              "called host-bound for it; trace the nodes of graphs");
        check.count = g->without_ops;
        check.of = g->launches;
        check.first_call = g->first_without;
        orr__doctor_add(x, &check, "%llu of %llu graph launches own no recorded op",
                        (count)g->without_ops, (count)g->launches);
    }
    if (g->short_ones > 0) {
        struct orr_doctor_check check =
            orr__doctor_check("graph_short", ORR_DOCTOR_WARNING,
                              "some of what they ran is missing: idle time is unreliable, and no "
                              "device is called host-bound for it");
        check.count = g->short_ones;
        check.of = g->launches;
        check.first_call = g->first_short;
        orr__doctor_add(x, &check,
                        "%llu graph launches own fewer ops than others of the same graph, by up "
                        "to %llu",
                        (count)g->short_ones, (count)g->missing_most);
    }
}

static int64_t communication_time(const struct orr_analysis *a) {
    int64_t time = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        time = orr__add_ns(time, a->devices[d].times.comm_ns);
    }
    return time;
}

static void check_communication(struct orr__examination *x) {
    const struct orr_events *events = &x->a->events;
    if (events->source.world_size <= 1 || events->op_count == 0 || communication_time(x->a) > 0) {
        return;
    }
    struct orr_doctor_check check = orr__doctor_check(
        "no_communication", ORR_DOCTOR_ERROR,
        "names or records are missing: exposed communication is not 0 %, it is not known");
    check.of = events->op_count;
    orr__doctor_add(x, &check, "a job of %llu processes without one communication op",
                    (count)events->source.world_size);
}

/* Idle time without a known cause, by device. */
static void check_unknown(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    uint64_t devices = 0;
    int64_t worst = 0, window = a->end_ns - a->begin_ns, unknown = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        const int64_t *c = a->devices[d].classes;
        int64_t here =
            c[ORR_CLASS_UNKNOWN_WAIT] + c[ORR_CLASS_UNKNOWN_UNLINKED] + c[ORR_CLASS_UNKNOWN_CLOCK];
        unknown = orr__add_ns(unknown, here);
        worst = orr__max_ns(worst, here);
        devices += window > 0 && orr__share_exceeds(here, a->options.unknown_percent, window);
    }
    if (unknown == 0) {
        return;
    }
    struct orr_doctor_check check =
        orr__doctor_check("unknown_idle", devices > 0 ? ORR_DOCTOR_WARNING : ORR_DOCTOR_NOTE,
                          devices > 0 ? "no device with that much gets a verdict about its host"
                                      : "too little to change a verdict");
    char most[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    check.count = devices;
    check.of = a->device_count;
    check.worst_ns = worst;
    orr__doctor_add(x, &check,
                    "idle time without a known cause: %s on the worst device, %s of its window; "
                    "%llu devices above %u %%",
                    orr__time_text(worst, most), orr__percent_text(worst, window, share),
                    (count)devices, a->options.unknown_percent);
}

static void check_overhead(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    int64_t worst = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        worst = orr__max_ns(worst, a->devices[d].classes[ORR_CLASS_PROFILER_OVERHEAD]);
    }
    if (worst == 0) {
        return;
    }
    struct orr_doctor_check check =
        orr__doctor_check("profiler_overhead", ORR_DOCTOR_NOTE,
                          "a run without the profiler does not have it: it is a class of its own");
    char most[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    check.worst_ns = worst;
    orr__doctor_add(x, &check, "tracing itself made a device idle for %s, %s of its window",
                    orr__time_text(worst, most),
                    orr__percent_text(worst, a->end_ns - a->begin_ns, share));
}

void orr__doctor_order(struct orr__examination *x) {
    check_causality(x);
    check_overlaps(x);
    check_waits(x);
    check_graphs(x);
    check_communication(x);
    check_unknown(x);
    check_overhead(x);
}
