/* The parts of the JSON reports about ranks. Keys: report_set.h. */
#include <string.h>

#include "analyzer/rank_bubble.h"
#include "analyzer/report_json.h"
#include "analyzer/report_json_internal.h"
#include "analyzer/report_set.h"
#include "analyzer/report_text_ranks.h"

/* ------------------------------------------------------------------------------------------------
 * rank_set: by plain ordinal, clocks as they are */

static void put_set_collectives(struct json *j, const struct orr_report_set *set) {
    const struct orr_rank_set *exact = set->exact;
    if (!exact->matched) {
        put_null(j, "collectives");
        return;
    }
    put_open(j, "collectives", "[");
    for (size_t i = 0; i < exact->collective_count; i++) {
        const struct orr_rank_set_collective *c = &exact->collectives[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "name", c->name);
        put_int(j, "start_spread_ns", c->start_spread_ns);
        put_int(j, "end_spread_ns", c->end_spread_ns);
        put_count(j, "last_rank", set->ranks->parts[c->last].rank);
        put_int(j, "transfer_ns", c->transfer_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_counts(struct json *j, const char *name, const uint64_t *values, size_t count,
                       bool known) {
    if (!known) {
        put_null(j, name);
        return;
    }
    put_open(j, name, "[");
    for (size_t i = 0; i < count; i++) {
        put_count(j, NULL, values[i]);
    }
    put_close(j, "]");
}

static void put_times(struct json *j, const char *name, const int64_t *values, size_t count,
                      bool known) {
    if (!known) {
        put_null(j, name);
        return;
    }
    put_open(j, name, "[");
    for (size_t i = 0; i < count; i++) {
        put_int(j, NULL, values[i]);
    }
    put_close(j, "]");
}

static void put_format(struct json *j, const struct orr_report_set *set) {
    const char *format = set->whole->events.source.format;
    key(j, "format");
    struct orr_text text = {.memory = j->memory};
    orr__text_add(&text, "%s-set", format);
    j->text.failed = j->text.failed || text.failed;
    orr__text_json_string(&j->text, text.data ? text.data : "");
    orr__text_free(&text);
}

static void put_rank_set(struct json *j, const char *name, const struct orr_report_set *set) {
    const struct orr_rank_set *exact = set->exact;
    bool known = exact->matched, some = known && exact->collective_count > 0;
    line(j);
    put_open(j, name, "{");
    put_string(j, "file", set->file);
    put_format(j, set);
    put_open(j, "ranks", "[");
    for (size_t p = 0; p < set->ranks->part_count; p++) {
        put_count(j, NULL, set->ranks->parts[p].rank);
    }
    put_close(j, "]");
    put_counts(j, "comm_per_rank", exact->comm_ops, exact->part_count, true);
    put_set_collectives(j, set);
    put_counts(j, "last_count", exact->last, exact->part_count, known);
    put_times(j, "wait_ns", exact->wait_ns, exact->part_count, known);
    put_times(j, "offset_ns", exact->offset_ns, exact->part_count, some);
    put_times(j, "offset_residual_max_ns", exact->residual_max_ns, exact->part_count, some);
    put_close(j, "}");
}

/* ------------------------------------------------------------------------------------------------
 * rank_analysis */

static void put_job(struct json *j, const struct orr_ranks *ranks) {
    put_open(j, "ranks", "[");
    for (size_t i = 0; i < ranks->count; i++) {
        put_count(j, NULL, ranks->items[i].rank);
    }
    put_close(j, "]");
    if (ranks->world_size > 0) {
        put_count(j, "world_size", ranks->world_size);
    } else {
        put_null(j, "world_size");
    }
    put_open(j, "missing", "[");
    for (size_t i = 0; i < ranks->missing_count; i++) {
        put_count(j, NULL, ranks->missing[i]);
    }
    put_close(j, "]");
    put_open(j, "notes", "[");
    for (size_t i = 0; i < ORR_RANKS_NOTES_MAX && ranks->notes[i][0] != '\0'; i++) {
        put_string(j, NULL, ranks->notes[i]);
    }
    put_close(j, "]");
}

static void put_matching(struct json *j, const struct orr_ranks *ranks) {
    put_open(j, "matching", "{");
    put_count(j, "comm_ops", ranks->comm_ops);
    put_count(j, "matched_ops", ranks->matched_ops);
    put_count(j, "collectives", ranks->collective_count);
    put_count(j, "all_to_all", ranks->all_to_all);
    put_count(j, "mismatched", ranks->mismatched);
    put_string(j, "refused", ranks->refused);
    put_open(j, "refusals", "[");
    for (size_t i = 0; i < ranks->refusal_count; i++) {
        const struct orr_ranks_refusal *r = &ranks->refusals[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "kind", r->kind);
        put_string(j, "group", r->group);
        put_count(j, "ops", r->ops);
        put_string(j, "why", r->why);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_close(j, "}");
}

static void put_clock(struct json *j, const struct orr_ranks *ranks) {
    put_open(j, "clock", "{");
    put_bool(j, "aligned", ranks->aligned);
    put_string(j, "why", ranks->clock);
    put_bool(j, "one_clock", ranks->one_clock);
    put_time_or_null(j, "median_transfer_ns", ranks->has_median_transfer,
                     ranks->median_transfer_ns);
    put_open(j, "offsets", "[");
    for (size_t p = 0; p < ranks->part_count && !ranks->one_clock; p++) {
        const struct orr_ranks_part *part = &ranks->parts[p];
        bool known = part->samples > 0 || part->reference == p;
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "rank", part->rank);
        put_count(j, "reference", ranks->parts[part->reference].rank);
        put_time_or_null(j, "offset_ns", known, part->offset_ns);
        put_int(j, "base_ns", part->base_ns);
        put_count(j, "collectives", part->samples);
        put_time_or_null(j, "residual_p05_ns", part->samples > 0, part->residual_p05_ns);
        put_time_or_null(j, "residual_p95_ns", part->samples > 0, part->residual_p95_ns);
        put_time_or_null(j, "residual_max_ns", part->samples > 0, part->residual_max_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_close(j, "}");
}

static void put_straggler(struct json *j, const struct orr_ranks *ranks) {
    const struct orr_rank *worst = orr_ranks_straggler(ranks);
    struct orr_text why = {.memory = j->memory};
    if (worst) {
        put_open(j, "straggler", "{");
        put_count(j, "rank", worst->rank);
        put_count(j, "times_last", worst->last);
        put_count(j, "collectives", worst->collectives);
        put_int(j, "wait_caused_ns", worst->wait_caused_ns);
        put_close(j, "}");
    } else {
        put_null(j, "straggler");
    }
    orr__why_straggler(ranks, &why);
    j->text.failed = j->text.failed || why.failed;
    put_string(j, "straggler_why", why.data ? why.data : "");
    orr__text_free(&why);
}

static void put_stragglers(struct json *j, const struct orr_ranks *ranks) {
    put_straggler(j, ranks);
    if (!ranks->aligned) {
        put_null(j, "stragglers");
        return;
    }
    put_open(j, "stragglers", "[");
    for (size_t i = 0; i < ranks->count; i++) {
        const struct orr_rank *r = &ranks->items[i];
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "rank", r->rank);
        put_count(j, "collectives", r->collectives);
        put_count(j, "times_last", r->last);
        put_int(j, "wait_suffered_ns", r->wait_suffered_ns);
        put_int(j, "wait_caused_ns", r->wait_caused_ns);
        put_int(j, "comm_ns", r->comm_ns);
        put_int(j, "transfer_ns", r->transfer_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static int64_t start_spread(const struct orr_ranks *ranks, const struct orr_ranks_collective *c) {
    int64_t first = c->arrival_ns;
    for (size_t i = 0; i < c->count; i++) {
        int64_t start = ranks->members[c->first + i].start_ns;
        first = start < first ? start : first;
    }
    return c->arrival_ns - first;
}

static void put_collective(struct json *j, const struct orr_ranks *ranks,
                           const struct orr_ranks_collective *c) {
    bool known = ranks->aligned && c->comparable;
    put_open(j, NULL, "{");
    put_string(j, "kind", c->kind);
    put_string(j, "group", c->group);
    put_count(j, "seq", c->seq);
    put_string(j, "matched_by", orr_ranks_how_text(c->how));
    put_string(j, "name", c->name);
    put_count(j, "members", c->count);
    if (known) {
        put_count(j, "last_rank", ranks->items[c->last].rank);
        put_bool(j, "mismatched", c->mismatched);
    } else {
        put_null(j, "last_rank");
        put_null(j, "mismatched");
    }
    put_time_or_null(j, "arrival_ns", known, c->arrival_ns);
    put_time_or_null(j, "start_spread_ns", known, known ? start_spread(ranks, c) : 0);
    put_time_or_null(j, "transfer_ns", known, c->transfer_ns);
    put_time_or_null(j, "wait_ns", known, c->wait_ns);
    put_time_or_null(j, "caused_ns", known, c->caused_ns);
    put_close(j, "}");
}

static void put_collectives(struct json *j, const struct orr_ranks *ranks, unsigned rows) {
    put_count(j, "collective_count", ranks->collective_count);
    put_open(j, "collectives", "[");
    for (size_t i = 0; i < ranks->collective_count && i < rows; i++) {
        line(j);
        put_collective(j, ranks, &ranks->collectives[i]);
    }
    put_close(j, "]");
}

static void open_analysis(struct json *j, const struct orr_ranks *ranks, unsigned rows) {
    line(j);
    put_open(j, "rank_analysis", "{");
    put_job(j, ranks);
    put_matching(j, ranks);
    put_clock(j, ranks);
    put_stragglers(j, ranks);
    put_collectives(j, ranks, rows);
}

void orr__json_ranks(struct json *j, const struct orr_analysis *a) {
    if (a->ranks.collective_count == 0) {
        put_null(j, "rank_analysis");
        return;
    }
    open_analysis(j, &a->ranks, a->options.path_rows);
    put_close(j, "}");
}

/* ------------------------------------------------------------------------------------------------
 * What the timeline of all ranks adds */

static void put_devices(struct json *j, const struct orr_analysis *a) {
    put_open(j, "devices", "[");
    for (size_t d = 0; d < a->device_count; d++) {
        const struct orr_device_report *r = &a->devices[d];
        const struct orr_events_device *device = &a->events.devices[r->device];
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "rank", orr_ranks_of_device(a->timeline, device->id));
        put_count(j, "device", device->id);
        put_string(j, "name", device->name);
        put_int(j, "window_ns", r->end_ns - r->begin_ns);
        put_int(j, "compute_ns", r->classes[ORR_CLASS_COMPUTE]);
        put_int(j, "exposed_comm_ns", r->classes[ORR_CLASS_EXPOSED_COMM]);
        put_int(j, "exposed_copy_ns", r->classes[ORR_CLASS_EXPOSED_COPY]);
        orr__json_classes(j, "idle", r->classes, ORR_CLASS_PROFILER_OVERHEAD, ORR_CLASS_COUNT);
        put_int(j, "residual_ns", r->residual_ns);
        put_string(j, "verdict", orr_verdict_text(r->verdict));
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_segment(struct json *j, const struct orr_analysis *a,
                        const struct orr_path_segment *s) {
    put_open(j, NULL, "{");
    put_int(j, "begin_ns", s->begin_ns);
    put_int(j, "end_ns", s->end_ns);
    put_string(j, "kind", orr_path_kind_text(s->kind));
    if (s->op != ORR_EVENTS_NONE) {
        const struct orr_events_op *op = &a->events.ops[s->op];
        uint32_t device = a->events.devices[a->events.streams[op->stream].device].id;
        put_count(j, "rank", orr_ranks_of_device(a->timeline, device));
        put_string(j, "op", op->name);
    } else if (s->call != ORR_EVENTS_NONE) {
        const struct orr_events_call *call = &a->events.calls[s->call];
        put_string(j, "call", call->name);
        put_string(j, "host", a->events.threads[call->thread].name);
    }
    put_close(j, "}");
}

static void put_path_parts(struct json *j, const struct orr_report_set *set,
                           const struct orr_critical_path *p, const struct orr_rank_path *path) {
    int64_t sum = 0;
    put_int(j, "length_ns", p->end_ns - p->begin_ns);
    put_open(j, "kinds", "{");
    for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
        put_int(j, orr_path_kind_text((enum orr_path_kind)k), p->kinds[k]);
        sum += p->kinds[k];
    }
    put_close(j, "}");
    put_int(j, "residual_ns", p->end_ns - p->begin_ns - sum);
    put_open(j, "ranks", "[");
    for (size_t i = 0; i < set->ranks->count; i++) {
        put_open(j, NULL, "{");
        put_count(j, "rank", set->ranks->items[i].rank);
        put_int(j, "time_ns", path->time_ns[i]);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_int(j, "unknown_rank_ns", path->unknown_ns);
    put_count(j, "hops", path->hops);
    put_bool(j, "knows_waits", set->whole->events.source.knows_waits);
    put_count(j, "segment_count", p->segment_count);
    put_open(j, "segments", "[");
    for (size_t i = 0; i < p->segment_count && i < set->whole->options.path_rows; i++) {
        line(j);
        put_segment(j, set->whole, &p->segments[i]);
    }
    put_close(j, "]");
}

static void put_path(struct json *j, const char *name, const struct orr_report_set *set,
                     const struct orr_critical_path *critical, uint64_t inferred) {
    struct orr_rank_path path = {0};
    if (orr_rank_path_compute(set->ranks, set->whole, critical, set->memory, &path) != ORR_OK) {
        j->text.failed = true;
        return;
    }
    put_open(j, name, "{");
    if (inferred > 0) {
        put_count(j, "inferred_waits", inferred);
    }
    put_path_parts(j, set, critical, &path);
    put_close(j, "}");
    orr_rank_path_free(set->memory, &path);
}

static void put_paths(struct json *j, const struct orr_report_set *set) {
    struct orr_critical_path inferred;
    uint64_t waits;
    if (!set->ranks->aligned) {
        put_null(j, "critical_path");
        put_null(j, "inferred_path");
        return;
    }
    put_path(j, "critical_path", set, &set->whole->path, 0);
    if (orr_rank_path_infer(set->whole, set->memory, &inferred, &waits) != ORR_OK) {
        j->text.failed = true;
        return;
    }
    if (waits > 0) {
        put_path(j, "inferred_path", set, &inferred, waits);
    } else {
        put_null(j, "inferred_path");
    }
    orr_critical_path_free(set->memory, &inferred);
}

static void put_bubble(struct json *j, const struct orr_ranks *ranks,
                       const struct orr_rank_bubble *b) {
    int64_t window = b->end_ns - b->begin_ns;
    put_open(j, NULL, "{");
    put_count(j, "pipeline", ranks->items[b->pipeline].rank);
    put_count(j, "rank", ranks->items[b->rank].rank);
    put_count(j, "stages", b->stages);
    put_time_or_null(j, "step", b->has_step, (int64_t)b->step);
    put_int(j, "begin_ns", b->begin_ns);
    put_int(j, "window_ns", window);
    put_int(j, "compute_ns", b->compute_ns);
    put_int(j, "transfer_ns", b->transfer_ns);
    put_int(j, "bubble_ns", b->bubble_ns);
    put_ratio(j, "share", (orr_u128)b->bubble_ns, (orr_u128)window, 6);
    put_time_or_null(j, "microbatches", b->microbatches > 0, (int64_t)b->microbatches);
    put_ratio(j, "ideal_share", b->stages - 1,
              b->microbatches > 0 ? (orr_u128)b->microbatches + b->stages - 1 : 0, 6);
    orr__json_classes(j, "classes", b->classes, ORR_CLASS_COMPUTE + 1, ORR_CLASS_COUNT);
    put_close(j, "}");
}

static void put_bubbles(struct json *j, const struct orr_report_set *set) {
    struct orr_rank_bubbles bubbles;
    if (orr_rank_bubbles_compute(set->ranks, set->whole, set->memory, &bubbles) != ORR_OK) {
        j->text.failed = true;
        return;
    }
    put_open(j, "bubbles", "[");
    for (size_t i = 0; i < bubbles.count; i++) {
        line(j);
        put_bubble(j, set->ranks, &bubbles.items[i]);
    }
    put_close(j, "]");
    orr_rank_bubbles_free(set->memory, &bubbles);
}

/* The documents of the single traces, as they are. */
static void put_documents(struct json *j, const struct orr_report_set *set) {
    put_open(j, "ranks", "[");
    for (size_t i = 0; i < set->count && !j->text.failed; i++) {
        char *text = NULL;
        size_t length = 0;
        if (orr_report_json(set->each[i], &text, &length) != ORR_OK) {
            j->text.failed = true;
            return;
        }
        line(j);
        orr__text_append(&j->text, text, length > 0 ? length - 1 : 0);
        j->comma = true;
        orr_memory_free(set->each[i]->memory, text);
    }
    put_close(j, "]");
}

enum orr_status orr_report_json_set(const struct orr_report_set *set, char **out_text,
                                    size_t *out_length) {
    struct json j = {.text = {.memory = set->memory}, .memory = set->memory};
    const struct orr_analysis *a = set->whole;
    put_open(&j, NULL, "{");
    put_string(&j, "file", set->file);
    put_format(&j, set);
    put_int(&j, "window_ns", a->end_ns - a->begin_ns);
    put_int(&j, "begin_ns", a->begin_ns);
    put_int(&j, "end_ns", a->end_ns);
    put_rank_set(&j, "exact", set);
    put_rank_set(&j, "rank_set", set);
    open_analysis(&j, set->ranks, a->options.path_rows);
    put_devices(&j, a);
    put_paths(&j, set);
    put_bubbles(&j, set);
    put_close(&j, "}");
    line(&j);
    put_documents(&j, set);
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
