/* What a trace can and cannot answer, question by question. */
#include <string.h>

#include "analyzer/doctor_internal.h"
#include "analyzer/times.h"

typedef unsigned long long count;

static bool is_own(const struct orr_analysis *a) {
    return strcmp(a->events.source.format, "orrery") == 0;
}

static bool graphs_incomplete(const struct orr_analysis *a) {
    return a->replays.without_ops + a->replays.short_ones > 0;
}

/* Devices that ran something, and those of them with a verdict. */
static uint64_t devices_with_ops(const struct orr_analysis *a) {
    uint64_t devices = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        devices += a->devices[d].times.ops > 0;
    }
    return devices;
}

static uint64_t devices_with(const struct orr_analysis *a, enum orr_verdict verdict) {
    uint64_t devices = 0;
    for (size_t d = 0; d < a->device_count; d++) {
        devices += a->devices[d].verdict == verdict;
    }
    return devices;
}

static void answer_time(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    const struct orr_events_source *s = &a->events.source;
    uint64_t unreliable = devices_with(a, ORR_VERDICT_UNRELIABLE);
    if (s->dropped > 0) {
        orr__doctor_limit(x, ORR_QUESTION_TIME, ORR_ABILITY_PARTLY, "%llu records were lost",
                          (count)s->dropped);
    }
    if (s->bad_ops > 0) {
        orr__doctor_limit(x, ORR_QUESTION_TIME, ORR_ABILITY_PARTLY, "%llu ops have no usable times",
                          (count)s->bad_ops);
    }
    if (graphs_incomplete(a)) {
        orr__doctor_limit(x, ORR_QUESTION_TIME, ORR_ABILITY_PARTLY,
                          "graph launches lack their ops: busy time is a lower bound");
    } else if (unreliable > 0) {
        orr__doctor_limit(x, ORR_QUESTION_TIME, ORR_ABILITY_PARTLY,
                          "on %llu of %llu devices more than %u %% is idle without a known cause",
                          (count)unreliable, (count)devices_with_ops(a),
                          a->options.unknown_percent);
    }
}

static void answer_host(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    uint64_t unreliable = devices_with(a, ORR_VERDICT_UNRELIABLE);
    uint64_t unknown = devices_with(a, ORR_VERDICT_UNKNOWN), devices = devices_with_ops(a);
    if (a->split.linked == 0) {
        orr__doctor_limit(x, ORR_QUESTION_HOST, ORR_ABILITY_NO, "no op has a recorded call");
    } else if (graphs_incomplete(a)) {
        orr__doctor_limit(x, ORR_QUESTION_HOST, ORR_ABILITY_NO,
                          "graph launches lack their ops: what looks idle may not be");
    }
    if (a->split.linked > 0 && unreliable > 0 && !graphs_incomplete(a)) {
        orr__doctor_limit(x, ORR_QUESTION_HOST,
                          unreliable == devices ? ORR_ABILITY_NO : ORR_ABILITY_PARTLY,
                          "too much idle time without a known cause on %llu of %llu devices",
                          (count)unreliable, (count)devices);
    }
    if (unknown > 0) {
        orr__doctor_limit(x, ORR_QUESTION_HOST, ORR_ABILITY_PARTLY,
                          "too few gaps on %llu of %llu devices to tell launch-bound from stalled",
                          (count)unknown, (count)devices);
    }
}

/* With work in one stream there is nothing to wait for between streams. */
static bool one_stream(const struct orr_analysis *a) {
    return a->idle_streams.streams <= 1;
}

static void answer_split(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    const struct orr_events_source *s = &a->events.source;
    if (a->split.ops == 0) {
        orr__doctor_limit(x, ORR_QUESTION_SPLIT, ORR_ABILITY_NO,
                          "no op has a call that began before it");
        return;
    }
    if (a->split.ops < a->events.op_count) {
        orr__doctor_limit(x, ORR_QUESTION_SPLIT, ORR_ABILITY_PARTLY,
                          "%zu of %zu ops have no call, or start before it",
                          a->events.op_count - (size_t)a->split.ops, a->events.op_count);
    }
    if (!s->knows_waits && s->event_waits == 0 && !one_stream(a)) {
        orr__doctor_limit(x, ORR_QUESTION_SPLIT, ORR_ABILITY_PARTLY,
                          "waits between streams are not recorded: dispatch contains them");
    } else if (s->event_waits_unresolved > 0) {
        orr__doctor_limit(x, ORR_QUESTION_SPLIT, ORR_ABILITY_PARTLY,
                          "%llu of %llu waits between streams are unresolved: dispatch contains "
                          "them",
                          (count)s->event_waits_unresolved, (count)s->event_waits);
    }
}

static void answer_dependencies(struct orr__examination *x) {
    const struct orr_events_source *s = &x->a->events.source;
    if (one_stream(x->a)) {
        orr__doctor_limit(x, ORR_QUESTION_DEPENDENCIES, ORR_ABILITY_YES,
                          "all work is in one stream");
    } else if (!s->knows_waits && s->event_waits == 0) {
        orr__doctor_limit(x, ORR_QUESTION_DEPENDENCIES, ORR_ABILITY_NO,
                          "waits between streams are not recorded");
    } else if (s->event_waits_unresolved > 0) {
        bool all = s->event_waits_unresolved == s->event_waits;
        orr__doctor_limit(x, ORR_QUESTION_DEPENDENCIES, all ? ORR_ABILITY_NO : ORR_ABILITY_PARTLY,
                          "%llu of %llu waits do not say for what",
                          (count)s->event_waits_unresolved, (count)s->event_waits);
    }
}

static void answer_sync(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    if (!a->events.source.knows_syncs) {
        orr__doctor_limit(
            x, ORR_QUESTION_SYNC, a->split.host_waits > 0 ? ORR_ABILITY_PARTLY : ORR_ABILITY_NO,
            "what a waiting call waits for is not recorded; calls that wait are known "
            "by their names: %llu",
            (count)a->split.host_waits);
    }
}

static void answer_path(struct orr__examination *x) {
    const struct orr_critical_path *p = &x->a->path;
    if (p->broken) {
        orr__doctor_limit(x, ORR_QUESTION_PATH, ORR_ABILITY_PARTLY,
                          "a cycle of records was met; what lies before it is unknown");
    } else if (p->kinds[ORR_PATH_UNKNOWN] > 0) {
        bool all = p->kinds[ORR_PATH_UNKNOWN] == p->end_ns - p->begin_ns;
        orr__doctor_limit(x, ORR_QUESTION_PATH, all ? ORR_ABILITY_NO : ORR_ABILITY_PARTLY,
                          "it leads through ops without a call, or that start before it");
    }
    if (!x->a->events.source.knows_waits && !one_stream(x->a)) {
        orr__doctor_limit(x, ORR_QUESTION_PATH, ORR_ABILITY_PARTLY,
                          "what streams wait for is not recorded, so it cannot cross them");
    } else if (x->a->events.source.event_waits_unresolved > 0 && !one_stream(x->a)) {
        orr__doctor_limit(x, ORR_QUESTION_PATH, ORR_ABILITY_PARTLY,
                          "%llu waits between streams are unresolved, so it cannot cross them",
                          (count)x->a->events.source.event_waits_unresolved);
    }
}

static void answer_graphs(struct orr__examination *x) {
    const struct orr_graph_replays *g = &x->a->replays;
    if (g->launches == 0) {
        orr__doctor_limit(x, ORR_QUESTION_GRAPHS, ORR_ABILITY_YES, "none was launched");
        return;
    }
    if (g->without_ops > 0) {
        orr__doctor_limit(x, ORR_QUESTION_GRAPHS,
                          g->without_ops == g->launches ? ORR_ABILITY_NO : ORR_ABILITY_PARTLY,
                          "%llu of %llu launches have no recorded op", (count)g->without_ops,
                          (count)g->launches);
    }
    if (g->short_ones > 0) {
        orr__doctor_limit(x, ORR_QUESTION_GRAPHS, ORR_ABILITY_PARTLY,
                          "%llu launches have fewer ops than others of their graph",
                          (count)g->short_ones);
    }
    if (g->unknown_graphs) {
        orr__doctor_limit(x, ORR_QUESTION_GRAPHS, ORR_ABILITY_PARTLY,
                          "launches do not say which graph they are of: a lost node shows only if "
                          "all are lost");
    }
}

static void answer_communication(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    uint64_t comm = 0, described = 0;
    for (size_t i = 0; i < a->events.op_count; i++) {
        const struct orr_events_op *op = &a->events.ops[i];
        comm += op->activity == ORR_ACTIVITY_COMM;
        described += op->activity == ORR_ACTIVITY_COMM && op->collective != ORR_EVENTS_NONE;
    }
    uint64_t partial = 0, collectives = 0;
    for (size_t i = 0; i < a->roofline.collective_count; i++) {
        partial += a->roofline.collectives[i].partial;
        collectives += a->roofline.collectives[i].count;
    }
    if (partial > 0) {
        orr__doctor_limit(x, ORR_QUESTION_COLLECTIVES, ORR_ABILITY_PARTLY,
                          "%llu of %llu have members in no trace: transfer and waiting are not "
                          "known; analyze all ranks together",
                          (count)partial, (count)collectives);
    }
    if (comm == 0 && a->events.source.world_size > 1) {
        orr__doctor_limit(x, ORR_QUESTION_COMMUNICATION, ORR_ABILITY_NO,
                          "a job of %llu processes without one communication op: names or records "
                          "are missing",
                          (count)a->events.source.world_size);
    }
    if (comm == 0 && a->events.source.world_size <= 1) {
        bool alone = a->events.source.world_size == 1 || is_own(a);
        orr__doctor_limit(x, ORR_QUESTION_COMMUNICATION,
                          alone ? ORR_ABILITY_YES : ORR_ABILITY_PARTLY,
                          alone ? "there is none"
                                : "there is none, and the trace does not say of how many processes "
                                  "the job was");
    }
    if (comm == 0) {
        orr__doctor_limit(x, ORR_QUESTION_COLLECTIVES, ORR_ABILITY_NO, "no communication op");
    } else if (described < comm) {
        orr__doctor_limit(x, ORR_QUESTION_COLLECTIVES, ORR_ABILITY_PARTLY,
                          "%llu of %llu are known by the names of their kernels only: no bytes, "
                          "group or sequence",
                          (count)(comm - described), (count)comm);
    }
}

static bool has_peaks(const struct orr_analysis *a, const struct orr_events_device *device) {
    const struct orr_analysis_peaks *own = &a->options.peaks;
    bool flops = false;
    for (unsigned unit = 0; unit < 2; unit++) {
        for (unsigned dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
            flops = flops || device->peak[unit][dtype] > 0 || own->flops[unit][dtype] > 0;
        }
    }
    return flops && (device->bandwidth > 0 || own->bandwidth > 0);
}

static void answer_roofline(struct orr__examination *x) {
    const struct orr_analysis *a = x->a;
    uint64_t kernels = 0, costs = 0, peaks = 0;
    for (size_t i = 0; i < a->events.op_count; i++) {
        const struct orr_events_op *op = &a->events.ops[i];
        kernels += op->activity == ORR_ACTIVITY_COMPUTE;
        costs += op->activity == ORR_ACTIVITY_COMPUTE && op->has_cost;
    }
    const struct orr_framework *framework = &a->explain.framework;
    for (size_t i = 0; i < framework->row_count; i++) {
        costs += framework->rows[i].has_cost ? framework->rows[i].kernels : 0;
    }
    uint64_t devices = devices_with_ops(a);
    for (size_t d = 0; d < a->device_count; d++) {
        peaks += a->devices[d].times.ops > 0 && has_peaks(a, &a->events.devices[d]);
    }
    if (kernels == 0 || costs < kernels) {
        orr__doctor_limit(x, ORR_QUESTION_ROOFLINE,
                          costs == 0 ? ORR_ABILITY_NO : ORR_ABILITY_PARTLY,
                          "%llu of %llu kernels have a known cost, from the shapes of their "
                          "operators' inputs",
                          (count)costs, (count)kernels);
    }
    if (costs > 0 && peaks < devices) {
        orr__doctor_limit(x, ORR_QUESTION_ROOFLINE,
                          peaks == 0 ? ORR_ABILITY_NO : ORR_ABILITY_PARTLY,
                          "peaks of %llu of %llu devices are known: give them with --peak and "
                          "--bandwidth",
                          (count)peaks, (count)devices);
    }
}

static void answer_rest(struct orr__examination *x) {
    const struct orr_timeline *t = x->a->timeline;
    size_t annotations = 0, operators = 0, totals = x->a->explain.memory.count;
    for (size_t i = 0; t && i < t->slice_count; i++) {
        annotations += t->slices[i].kind == ORR_SLICE_ANNOTATION;
        operators += t->slices[i].kind == ORR_SLICE_OPERATOR;
    }
    if (!t || t->buffer_count == 0) {
        orr__doctor_limit(x, ORR_QUESTION_MEMORY, totals > 0 ? ORR_ABILITY_PARTLY : ORR_ABILITY_NO,
                          totals > 0 ? "totals over time only, not by buffer"
                                     : "allocations are not recorded");
    }
    if (annotations == 0 && !is_own(x->a)) {
        orr__doctor_limit(x, ORR_QUESTION_STEPS,
                          operators > 0 ? ORR_ABILITY_PARTLY : ORR_ABILITY_NO,
                          operators > 0 ? "no annotations; operators of the framework only"
                                        : "no annotations and no operators of a framework");
    }
    /* They are not always read: what the run says of itself counts, too. */
    const char *told = t ? orr_timeline_meta(t, "accesses") : NULL;
    if (!t || (t->access_count == 0 && (!told || strcmp(told, "true") != 0))) {
        orr__doctor_limit(x, ORR_QUESTION_RACES, ORR_ABILITY_NO,
                          "ops do not say what they read and write");
    }
}

void orr__doctor_answers(struct orr__examination *x) {
    if (x->a->events.op_count == 0) {
        for (unsigned q = 0; q < ORR_QUESTION_COUNT; q++) {
            orr__doctor_limit(x, (enum orr_question)q, ORR_ABILITY_NO,
                              "no work of a device is in the trace");
        }
        return;
    }
    answer_time(x);
    answer_host(x);
    answer_split(x);
    answer_dependencies(x);
    answer_sync(x);
    answer_path(x);
    answer_graphs(x);
    answer_communication(x);
    answer_roofline(x);
    answer_rest(x);
}
