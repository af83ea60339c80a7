/* The text reports about ranks. */
#include "analyzer/report_text_ranks.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/rank_bubble.h"
#include "analyzer/report_set.h"
#include "analyzer/sort.h"
#include "analyzer/table.h"
#include "analyzer/times.h"

enum {
    RANK_ROWS = 16,
    COLLECTIVE_ROWS = 12,
    REFUSAL_ROWS = 8,
    MISSING_SHOWN = 16,
    FINDING_ROWS = 16
};

static void add_missing(const struct orr_ranks *ranks, struct orr_text *text) {
    for (size_t i = 0, last; i < ranks->missing_count && i < MISSING_SHOWN; i = last + 1) {
        last = i;
        while (last + 1 < ranks->missing_count &&
               ranks->missing[last + 1] == ranks->missing[last] + 1) {
            last++;
        }
        orr__text_add(text, "%s%u", i > 0 ? ", " : "", ranks->missing[i]);
        if (last > i) {
            orr__text_add(text, "-%u", ranks->missing[last]);
        }
        if (last >= MISSING_SHOWN && last + 1 < ranks->missing_count) {
            orr__text_add(text, ", ...");
        }
    }
}

static int64_t all_waits(const struct orr_ranks *ranks) {
    int64_t sum = 0;
    for (size_t i = 0; i < ranks->count; i++) {
        sum = orr__add_ns(sum, ranks->items[i].wait_suffered_ns);
    }
    return sum;
}

void orr__why_straggler(const struct orr_ranks *ranks, struct orr_text *text) {
    const struct orr_rank *worst = orr_ranks_straggler(ranks);
    char caused[ORR_NUMBER_TEXT_MAX], waits[ORR_NUMBER_TEXT_MAX];
    if (worst) {
        orr__text_add(
            text,
            "rank %u arrives last in %llu of %llu collectives, and %s later than the one "
            "before it, summed; all ranks together wait %s",
            worst->rank, (unsigned long long)worst->last, (unsigned long long)ranks->judged,
            orr__time_text(worst->wait_caused_ns, caused), orr__time_text(all_waits(ranks), waits));
    } else if (ranks->refused[0] != '\0') {
        orr__text_add(text, "unknown: %s", ranks->refused);
    } else if (ranks->comm_ops == 0) {
        orr__text_add(text, "unknown: the traces have no communication op");
    } else if (ranks->collective_count == 0) {
        orr__text_add(text, "unknown: no collective could be matched");
    } else if (!ranks->aligned) {
        orr__text_add(text, "unknown: %s", ranks->clock);
    } else if (ranks->missing_count > 0) {
        orr__text_add(text, "unknown: %zu of %llu ranks have no trace (", ranks->missing_count,
                      (unsigned long long)ranks->world_size);
        add_missing(ranks, text);
        orr__text_add(text, "), and one of them may be the last");
    } else if (ranks->judged == 0) {
        orr__text_add(text, "unknown: members of no collective overlap");
    } else {
        orr__text_add(text, "nobody waits: members of all %llu collectives arrive together",
                      (unsigned long long)ranks->judged);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Stragglers */

static bool causes_more(const void *context, uint32_t a, uint32_t b) {
    const struct orr_rank *x = (const struct orr_rank *)context + a;
    const struct orr_rank *y = (const struct orr_rank *)context + b;
    return x->wait_caused_ns > y->wait_caused_ns;
}

static void add_stragglers(const struct orr_ranks *ranks, const struct orr_memory *memory,
                           struct orr_text *text) {
    uint32_t *order = orr_memory_resize(memory, NULL, ranks->count * sizeof *order + 1);
    for (size_t i = 0; i < ranks->count && order; i++) {
        order[i] = (uint32_t)i;
    }
    if (!order ||
        orr__sort_indices(memory, order, ranks->count, causes_more, ranks->items) != ORR_OK) {
        text->failed = true;
        orr_memory_free(memory, order);
        return;
    }
    struct orr_table table;
    orr__table_begin(&table, memory,
                     ">rank|>collectives|>last|>wait caused|>wait suffered|>in collectives|>of "
                     "that transfer");
    for (size_t i = 0; i < ranks->count && i < RANK_ROWS; i++) {
        const struct orr_rank *r = &ranks->items[order[i]];
        char caused[ORR_NUMBER_TEXT_MAX], suffered[ORR_NUMBER_TEXT_MAX];
        char comm[ORR_NUMBER_TEXT_MAX], transfer[ORR_NUMBER_TEXT_MAX];
        orr__table_row(&table, "%u|%llu|%llu|%s|%s|%s|%s", r->rank,
                       (unsigned long long)r->collectives, (unsigned long long)r->last,
                       orr__time_text(r->wait_caused_ns, caused),
                       orr__time_text(r->wait_suffered_ns, suffered),
                       orr__time_text(r->comm_ns, comm), orr__time_text(r->transfer_ns, transfer));
    }
    orr__table_end(&table, text);
    if (ranks->count > RANK_ROWS) {
        orr__text_add(text, "  (%zu more: --json lists all)\n", ranks->count - RANK_ROWS);
    }
    orr_memory_free(memory, order);
}

void orr__report_stragglers(const struct orr_analysis *a, struct orr_text *text) {
    const struct orr_ranks *ranks = &a->ranks;
    if (all_waits(ranks) == 0) {
        return;
    }
    orr__text_add(text,
                  "\nwho waits for whom in collectives (a rank is a device; caused: arrival of "
                  "the last minus that of the one before it)\n  ");
    orr__why_straggler(ranks, text);
    orr__text_add(text, "\n");
    add_stragglers(ranks, a->memory, text);
}

/* ------------------------------------------------------------------------------------------------
 * The report of a set */

static void add_clocks(const struct orr_report_set *set, struct orr_text *text) {
    const struct orr_ranks *ranks = set->ranks;
    orr__text_add(text, "\nclocks\n");
    if (!ranks->aligned) {
        orr__text_add(text, "  not aligned: %s\n", ranks->clock);
    }
    struct orr_table table;
    orr__table_begin(&table, set->memory,
                     ">rank|>against|>offset|>collectives|>residual p05|>p95|>largest");
    for (size_t p = 0; p < ranks->part_count && p < RANK_ROWS; p++) {
        const struct orr_ranks_part *part = &ranks->parts[p];
        if (part->samples == 0) {
            orr__table_row(&table, "%u|-|-|0|-|-|-", part->rank);
            continue;
        }
        orr__table_row(&table, "%u|%u|%lld ns|%zu|%lld ns|%lld ns|%lld ns", part->rank,
                       ranks->parts[part->reference].rank, (long long)part->offset_ns,
                       part->samples, (long long)part->residual_p05_ns,
                       (long long)part->residual_p95_ns, (long long)part->residual_max_ns);
    }
    orr__table_end(&table, text);
    if (ranks->has_median_transfer) {
        char transfer[ORR_NUMBER_TEXT_MAX];
        orr__text_add(text, "  median transfer %s: residuals above it would refuse alignment\n",
                      orr__time_text(ranks->median_transfer_ns, transfer));
    }
}

static bool waits_more(const void *context, uint32_t a, uint32_t b) {
    const struct orr_ranks_collective *x = (const struct orr_ranks_collective *)context + a;
    const struct orr_ranks_collective *y = (const struct orr_ranks_collective *)context + b;
    return x->wait_ns > y->wait_ns;
}

static void add_collective(struct orr_table *table, const struct orr_ranks *ranks,
                           const struct orr_ranks_collective *c) {
    char kind[ORR_TABLE_CELL_MAX + 1], group[ORR_TABLE_CELL_MAX + 1];
    char wait[ORR_NUMBER_TEXT_MAX], caused[ORR_NUMBER_TEXT_MAX], transfer[ORR_NUMBER_TEXT_MAX];
    orr__table_row(table, "%s|%s|%llu|%zu|%u|%s|%s|%s", orr__table_clean(c->kind, kind),
                   c->group[0] ? orr__table_clean(c->group, group) : "-",
                   (unsigned long long)c->seq, c->count, ranks->items[c->last].rank,
                   orr__time_text(c->wait_ns, wait), orr__time_text(c->caused_ns, caused),
                   c->mismatched ? "mismatch" : orr__time_text(c->transfer_ns, transfer));
}

static void add_collectives(const struct orr_report_set *set, struct orr_text *text) {
    const struct orr_ranks *ranks = set->ranks;
    size_t count = 0;
    uint32_t *order =
        orr_memory_resize(set->memory, NULL, ranks->collective_count * sizeof *order + 1);
    for (size_t i = 0; i < ranks->collective_count && order; i++) {
        if (ranks->collectives[i].comparable && ranks->aligned) {
            order[count++] = (uint32_t)i;
        }
    }
    if (!order ||
        orr__sort_indices(set->memory, order, count, waits_more, ranks->collectives) != ORR_OK) {
        text->failed = true;
    } else if (count > 0) {
        struct orr_table table;
        orr__text_add(text, "\ncollectives by waiting (summed over their ranks)\n");
        orr__table_begin(&table, set->memory,
                         "kind|group|>seq|>ranks|>last|>wait|>caused|>transfer");
        for (size_t i = 0; i < count && i < COLLECTIVE_ROWS; i++) {
            add_collective(&table, ranks, &ranks->collectives[order[i]]);
        }
        orr__table_end(&table, text);
        if (count > COLLECTIVE_ROWS) {
            orr__text_add(text, "  (%zu more: --json lists them)\n", count - COLLECTIVE_ROWS);
        }
    }
    orr_memory_free(set->memory, order);
}

static void add_matching(const struct orr_report_set *set, struct orr_text *text) {
    const struct orr_ranks *ranks = set->ranks;
    orr__text_add(text, "\nmatching: %llu of %llu communication ops are in %zu collectives",
                  (unsigned long long)ranks->matched_ops, (unsigned long long)ranks->comm_ops,
                  ranks->collective_count);
    if (ranks->all_to_all > 0) {
        orr__text_add(text,
                      "; %llu of them are sends and receives without peers, taken for an "
                      "all-to-all since all ranks have equally many",
                      (unsigned long long)ranks->all_to_all);
    }
    if (ranks->mismatched > 0) {
        orr__text_add(text, "; in %llu some rank ends before another one starts: left out",
                      (unsigned long long)ranks->mismatched);
    }
    orr__text_add(text, "\n");
    if (ranks->refused[0] != '\0') {
        orr__text_add(text, "  refused: %s\n", ranks->refused);
    }
    for (size_t i = 0; i < ranks->refusal_count && i < REFUSAL_ROWS; i++) {
        const struct orr_ranks_refusal *r = &ranks->refusals[i];
        orr__text_add(text, "  refused: %llu ops of %s%s%.64s: %s\n", (unsigned long long)r->ops,
                      r->kind, r->group[0] ? " in group " : "", r->group, r->why);
    }
    for (size_t i = 0; i < ORR_RANKS_NOTES_MAX && ranks->notes[i][0] != '\0'; i++) {
        orr__text_add(text, "  note: %s\n", ranks->notes[i]);
    }
}

static void add_devices(const struct orr_report_set *set, struct orr_text *text) {
    const struct orr_analysis *a = set->whole;
    struct orr_table table;
    orr__text_add(text, "\ndevices, each over the time of all ranks\n");
    orr__table_begin(&table, set->memory,
                     ">rank|>device|>window|>compute|>exposed comm|>exposed copy|>idle|>residual|"
                     "verdict");
    for (size_t d = 0; d < a->device_count && d < RANK_ROWS; d++) {
        const struct orr_device_report *r = &a->devices[d];
        char window[ORR_NUMBER_TEXT_MAX], compute[ORR_NUMBER_TEXT_MAX], idle[ORR_NUMBER_TEXT_MAX];
        char comm[ORR_NUMBER_TEXT_MAX], copy[ORR_NUMBER_TEXT_MAX], name[ORR_HYPHENS_MAX];
        int64_t length = r->end_ns - r->begin_ns;
        uint32_t id = a->events.devices[r->device].id;
        orr__table_row(
            &table, "%u|%u|%s|%s|%s|%s|%s|%lld|%s", orr_ranks_of_device(a->timeline, id), id,
            orr__time_text(length, window), orr__time_text(r->classes[ORR_CLASS_COMPUTE], compute),
            orr__time_text(r->classes[ORR_CLASS_EXPOSED_COMM], comm),
            orr__time_text(r->classes[ORR_CLASS_EXPOSED_COPY], copy),
            orr__time_text(length - orr_classes_busy(r->classes), idle), (long long)r->residual_ns,
            orr__text_hyphens(orr_verdict_text(r->verdict), name));
    }
    orr__table_end(&table, text);
    if (a->device_count > RANK_ROWS) {
        orr__text_add(text, "  (%zu more: --json lists all)\n", a->device_count - RANK_ROWS);
    }
}

static bool longer_on(const void *context, uint32_t a, uint32_t b) {
    const int64_t *times = context;
    return times[a] > times[b];
}

/* The ranks that most of the path is on. */
static void add_path_ranks(const struct orr_report_set *set, const struct orr_rank_path *path,
                           struct orr_table *table, struct orr_text *text) {
    size_t count = set->ranks->count;
    int64_t window = set->whole->end_ns - set->whole->begin_ns;
    uint32_t *order = orr_memory_resize(set->memory, NULL, count * sizeof *order + 1);
    for (size_t i = 0; i < count && order; i++) {
        order[i] = (uint32_t)i;
    }
    if (!order ||
        orr__sort_indices(set->memory, order, count, longer_on, path->time_ns) != ORR_OK) {
        text->failed = true;
        orr_memory_free(set->memory, order);
        return;
    }
    int64_t others = path->unknown_ns;
    char time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    for (size_t i = RANK_ROWS; i < count; i++) {
        others += path->time_ns[order[i]];
    }
    for (size_t i = 0; i < count && i < RANK_ROWS && path->time_ns[order[i]] > 0; i++) {
        orr__table_row(table, "on rank %u|%s|%s", set->ranks->items[order[i]].rank,
                       orr__time_text(path->time_ns[order[i]], time),
                       orr__percent_text(path->time_ns[order[i]], window, share));
    }
    if (others > 0) {
        orr__table_row(table, "elsewhere|%s|%s", orr__time_text(others, time),
                       orr__percent_text(others, window, share));
    }
    orr_memory_free(set->memory, order);
}

static void add_path(const struct orr_report_set *set, const struct orr_critical_path *p,
                     struct orr_text *text) {
    struct orr_rank_path path = {0};
    int64_t window = p->end_ns - p->begin_ns;
    if (orr_rank_path_compute(set->ranks, set->whole, p, set->memory, &path) != ORR_OK) {
        text->failed = true;
        return;
    }
    char time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], name[ORR_HYPHENS_MAX];
    orr__text_add(text, ": %s, %llu changes of rank\n", orr__time_text(window, time),
                  (unsigned long long)path.hops);
    struct orr_table table;
    orr__table_begin(&table, set->memory, "part|>time|>share");
    add_path_ranks(set, &path, &table, text);
    for (unsigned k = 0; k < ORR_PATH_COUNT; k++) {
        if (p->kinds[k] > 0) {
            orr__table_row(&table, "as %s|%s|%s",
                           orr__text_hyphens(orr_path_kind_text((enum orr_path_kind)k), name),
                           orr__time_text(p->kinds[k], time),
                           orr__percent_text(p->kinds[k], window, share));
        }
    }
    orr__table_end(&table, text);
    orr_rank_path_free(set->memory, &path);
}

static void add_paths(const struct orr_report_set *set, struct orr_text *text) {
    const struct orr_analysis *a = set->whole;
    struct orr_critical_path inferred;
    uint64_t waits;
    if (!set->ranks->aligned || a->path.end_ns == a->path.begin_ns) {
        return;
    }
    orr__text_add(text, "\ncritical path through all ranks");
    add_path(set, &a->path, text);
    if (!a->events.source.knows_waits) {
        orr__text_add(text, "  note: not all waits between streams are recorded: dispatch contains "
                            "those that are not, and the path cannot follow them to other ranks\n");
    }
    if (orr_rank_path_infer(a, set->memory, &inferred, &waits) != ORR_OK) {
        text->failed = true;
        return;
    }
    if (waits > 0) {
        orr__text_add(text,
                      "\ninferred: the critical path if %llu ops waited for what ended last before "
                      "them on their device, in collectives or for one",
                      (unsigned long long)waits);
        add_path(set, &inferred, text);
    }
    orr_critical_path_free(set->memory, &inferred);
}

/* What is wrong with the traces, as far as it is worth a warning: the rest is the doctor's. */
static void add_findings(const struct orr_report_set *set, struct orr_text *text) {
    const struct orr_analysis_findings *findings = &set->whole->findings;
    size_t shown = 0, all = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const struct orr_analysis_finding *f = &findings->items[i];
        if (strcmp(f->severity, "note") == 0 || ++all > FINDING_ROWS) {
            continue;
        }
        orr__text_add(text, "%s  %s: %s: %s\n", shown++ == 0 ? "\nfindings\n" : "", f->severity,
                      f->kind, f->message);
    }
    if (all > shown) {
        orr__text_add(text, "  (%zu more: --json lists those of each trace)\n", all - shown);
    }
}

static void add_bubbles(const struct orr_report_set *set, struct orr_text *text) {
    struct orr_rank_bubbles bubbles;
    if (orr_rank_bubbles_compute(set->ranks, set->whole, set->memory, &bubbles) != ORR_OK) {
        text->failed = true;
        return;
    }
    if (bubbles.count > 0) {
        orr__text_add(text, "\npipeline bubbles (window: computation of all ranks of the pipeline; "
                            "bubble: window - compute - transfer; ideal: (pp-1)/(m+pp-1))\n");
        struct orr_table table;
        orr__table_begin(&table, set->memory,
                         ">pipeline of rank|>rank|>step|>window|>compute|>transfer|>bubble|>share|"
                         ">pp|>m|>ideal");
        for (size_t i = 0; i < bubbles.count && i < RANK_ROWS; i++) {
            const struct orr_rank_bubble *b = &bubbles.items[i];
            char step[24] = "-", window[ORR_NUMBER_TEXT_MAX], compute[ORR_NUMBER_TEXT_MAX];
            char transfer[ORR_NUMBER_TEXT_MAX], bubble[ORR_NUMBER_TEXT_MAX];
            char share[ORR_NUMBER_TEXT_MAX], ideal[ORR_NUMBER_TEXT_MAX];
            int64_t length = b->end_ns - b->begin_ns;
            int64_t slots = b->microbatches > 0 ? (int64_t)b->microbatches + b->stages - 1 : 0;
            if (b->has_step) {
                snprintf(step, sizeof step, "%llu", (unsigned long long)b->step);
            }
            orr__table_row(
                &table, "%u|%u|%s|%s|%s|%s|%s|%s|%u|%llu|%s", set->ranks->items[b->pipeline].rank,
                set->ranks->items[b->rank].rank, step, orr__time_text(length, window),
                orr__time_text(b->compute_ns, compute), orr__time_text(b->transfer_ns, transfer),
                orr__time_text(b->bubble_ns, bubble),
                orr__percent_text(b->bubble_ns, length, share), b->stages,
                (unsigned long long)b->microbatches,
                orr__percent_text(b->stages - 1, slots, ideal));
        }
        orr__table_end(&table, text);
        if (bubbles.count > RANK_ROWS) {
            orr__text_add(text, "  (%zu more: --json lists all)\n", bubbles.count - RANK_ROWS);
        }
    }
    orr_rank_bubbles_free(set->memory, &bubbles);
}

enum orr_status orr_report_text_set(const struct orr_report_set *set, char **out_text,
                                    size_t *out_length) {
    struct orr_text text = {.memory = set->memory};
    const struct orr_ranks *ranks = set->ranks;
    orr__text_add(&text, "verdict: ");
    orr__why_straggler(ranks, &text);
    orr__text_add(&text, "\n%s: %zu traces (%s)", set->file, set->count,
                  set->whole->events.source.format);
    if (ranks->world_size > 0) {
        orr__text_add(&text, " of %llu ranks", (unsigned long long)ranks->world_size);
    }
    if (ranks->missing_count > 0) {
        orr__text_add(&text, "; without a trace: ");
        add_missing(ranks, &text);
    }
    orr__text_add(&text, "\n");
    if (ranks->aligned && ranks->judged > 0) {
        orr__text_add(&text,
                      "\nwho waits for whom in collectives (caused: arrival of the last minus "
                      "that of the one before it)\n");
        add_stragglers(ranks, set->memory, &text);
    }
    add_collectives(set, &text);
    add_matching(set, &text);
    add_clocks(set, &text);
    add_devices(set, &text);
    add_paths(set, &text);
    add_bubbles(set, &text);
    add_findings(set, &text);
    orr__text_add(&text, "\nEach trace alone: orrery analyze FILE; all documents: --json\n");
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
