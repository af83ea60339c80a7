/* How far the clocks of traces are apart: see ranks.h. */
#include <stdio.h>
#include <string.h>

#include "analyzer/ranks_internal.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

/* An end of one trace minus that of an aligned one. */
struct sample {
    uint32_t part, reference; /* reference: of the trace it is compared with */
    int64_t difference_ns;
};

struct aligner {
    struct orr__ranks_work *w;
    struct sample *samples;
    size_t count, capacity;
    uint32_t *order;
    size_t order_capacity;
};

int64_t orr__ranks_add(int64_t a, int64_t b) {
    const int64_t most = INT64_C(1) << 62;
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        sum = a < 0 ? -most : most;
    }
    return sum > most ? most : sum < -most ? -most : sum;
}

static bool ends_coincide(const struct orr_ranks_collective *c) {
    static const bool coincide[ORR__COMM_COUNT] = {
#define COMM_COINCIDES(name, text, ends) ends,
        ORR__COMM_LIST(COMM_COINCIDES)
#undef COMM_COINCIDES
    };
    return c->how == ORR_RANKS_ALL_TO_ALL || coincide[orr__comm_kind_of(c->kind)];
}

static uint32_t part_of(const struct orr__ranks_work *w, const struct orr_ranks_member *m) {
    return w->ranks->items[m->rank].part;
}

/* First member whose part is aligned, or NULL. */
static const struct orr_ranks_member *anchor_of(const struct orr__ranks_work *w,
                                                const struct orr_ranks_collective *c) {
    for (size_t i = 0; i < c->count; i++) {
        const struct orr_ranks_member *m = &w->ranks->members[c->first + i];
        if (w->ranks->parts[part_of(w, m)].aligned) {
            return m;
        }
    }
    return NULL;
}

static enum orr_status add_samples(struct aligner *a, const struct orr_ranks_collective *c) {
    struct orr__ranks_work *w = a->w;
    const struct orr_ranks_member *anchor = anchor_of(w, c);
    enum orr_status status = ORR_OK;
    if (!anchor) {
        return ORR_OK;
    }
    const struct orr_ranks_part *base = &w->ranks->parts[part_of(w, anchor)];
    int64_t end = orr__ranks_add(anchor->done_ns, -base->offset_ns);
    for (size_t i = 0; i < c->count && status == ORR_OK; i++) {
        const struct orr_ranks_member *m = &w->ranks->members[c->first + i];
        if (w->ranks->parts[part_of(w, m)].aligned) {
            continue;
        }
        status = orr_memory_grow(w->memory, &a->samples, &a->capacity, a->count + 1,
                                 sizeof *a->samples, ORR_EVENTS_NONE - 1);
        if (status == ORR_OK) {
            a->samples[a->count++] =
                (struct sample){part_of(w, m), base->reference, orr__ranks_add(m->done_ns, -end)};
        }
    }
    return status;
}

static bool sample_before(const void *context, uint32_t x, uint32_t y) {
    const struct sample *a = (const struct sample *)context + x;
    const struct sample *b = (const struct sample *)context + y;
    if (a->part != b->part) {
        return a->part < b->part;
    }
    if (a->reference != b->reference) {
        return a->reference < b->reference;
    }
    return a->difference_ns < b->difference_ns;
}

static int64_t magnitude(int64_t value) {
    return value < 0 ? -value : value;
}

static size_t rank_of_percent(size_t count, unsigned percent) {
    size_t nearest = (count * percent + 99) / 100;
    return nearest > 0 ? nearest - 1 : 0;
}

/* Offset and residuals from the differences of one part, sorted. */
static enum orr_status align_part(struct aligner *a, size_t first, size_t end) {
    struct orr__ranks_work *w = a->w;
    size_t count = end - first;
    const struct sample *sample = &a->samples[a->order[first]];
    struct orr_ranks_part *part = &w->ranks->parts[sample->part];
    int64_t *sizes = orr_memory_resize(w->memory, NULL, count * sizeof *sizes);
    if (!sizes) {
        return ORR_NO_MEMORY;
    }
    part->offset_ns = a->samples[a->order[first + (count - 1) / 2]].difference_ns;
    for (size_t i = 0; i < count; i++) {
        int64_t difference = a->samples[a->order[first + i]].difference_ns;
        sizes[i] = magnitude(orr__ranks_add(difference, -part->offset_ns));
    }
    const struct sample *low = &a->samples[a->order[first + rank_of_percent(count, 5)]];
    const struct sample *high = &a->samples[a->order[first + rank_of_percent(count, 95)]];
    part->residual_p05_ns = orr__ranks_add(low->difference_ns, -part->offset_ns);
    part->residual_p95_ns = orr__ranks_add(high->difference_ns, -part->offset_ns);
    enum orr_status status = orr__sort_times(w->memory, sizes, count);
    part->residual_size_p95_ns = sizes[rank_of_percent(count, 95)];
    part->residual_max_ns = sizes[count - 1];
    part->samples = count;
    part->reference = sample->reference;
    part->aligned = true;
    orr_memory_free(w->memory, sizes);
    return status;
}

/* Aligns the parts that share collectives with aligned ones; *out_any tells if there were some. A
 * part that meets two that are apart from each other goes with the lower one. */
static enum orr_status align_neighbours(struct aligner *a, bool *out_any) {
    const struct orr_ranks *ranks = a->w->ranks;
    enum orr_status status = ORR_OK;
    a->count = 0;
    for (size_t c = 0; c < ranks->collective_count && status == ORR_OK; c++) {
        if (ends_coincide(&ranks->collectives[c])) {
            status = add_samples(a, &ranks->collectives[c]);
        }
    }
    *out_any = a->count > 0;
    if (status == ORR_OK) {
        status = orr_memory_grow(a->w->memory, &a->order, &a->order_capacity, a->count,
                                 sizeof *a->order, ORR_EVENTS_NONE - 1);
    }
    if (status != ORR_OK) {
        return status;
    }
    for (size_t i = 0; i < a->count; i++) {
        a->order[i] = (uint32_t)i;
    }
    status = orr__sort_indices(a->w->memory, a->order, a->count, sample_before, a->samples);
    for (size_t i = 0, end; i < a->count && status == ORR_OK; i = end) {
        const struct sample *first = &a->samples[a->order[i]];
        for (end = i + 1; end < a->count; end++) {
            const struct sample *next = &a->samples[a->order[end]];
            if (next->part != first->part || next->reference != first->reference) {
                break;
            }
        }
        status = ranks->parts[first->part].aligned ? ORR_OK : align_part(a, i, end);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Is it good enough? */

static void correct_times(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    for (size_t c = 0; c < ranks->collective_count; c++) {
        struct orr_ranks_collective *collective = &ranks->collectives[c];
        struct orr_ranks_member *members = &ranks->members[collective->first];
        collective->comparable = true;
        for (size_t i = 0; i < collective->count; i++) {
            const struct orr_ranks_part *part = &ranks->parts[part_of(w, &members[i])];
            const struct orr_ranks_part *first = &ranks->parts[part_of(w, &members[0])];
            members[i].start_ns = orr__ranks_add(members[i].own_ns, -part->offset_ns);
            members[i].end_ns = orr__ranks_add(members[i].done_ns, -part->offset_ns);
            collective->comparable = collective->comparable && part->reference == first->reference;
        }
    }
}

static int64_t transfer_of(const struct orr_ranks *ranks, const struct orr_ranks_collective *c) {
    int64_t arrival = INT64_MIN, end = INT64_MAX;
    for (size_t i = 0; i < c->count; i++) {
        const struct orr_ranks_member *m = &ranks->members[c->first + i];
        arrival = orr__max_ns(arrival, m->start_ns);
        end = orr__min_ns(end, m->end_ns);
    }
    return orr__ranks_add(end, -arrival);
}

static enum orr_status find_median_transfer(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    int64_t *transfers =
        orr_memory_resize(w->memory, NULL, ranks->collective_count * sizeof *transfers + 1);
    size_t count = 0;
    if (!transfers) {
        return ORR_NO_MEMORY;
    }
    for (size_t c = 0; c < ranks->collective_count; c++) {
        const struct orr_ranks_collective *collective = &ranks->collectives[c];
        if (ends_coincide(collective) && collective->comparable) {
            transfers[count++] = transfer_of(ranks, collective);
        }
    }
    enum orr_status status = orr__sort_times(w->memory, transfers, count);
    if (status == ORR_OK && count > 0) {
        ranks->has_median_transfer = true;
        ranks->median_transfer_ns = orr__sorted_median(transfers, count);
    }
    orr_memory_free(w->memory, transfers);
    return status;
}

static void judge(struct orr_ranks *ranks) {
    const struct orr_ranks_part *worst = &ranks->parts[0];
    size_t samples = 0;
    for (size_t p = 0; p < ranks->part_count; p++) {
        const struct orr_ranks_part *part = &ranks->parts[p];
        samples += part->samples;
        worst = part->residual_size_p95_ns > worst->residual_size_p95_ns ? part : worst;
    }
    if (samples == 0) {
        snprintf(ranks->clock, sizeof ranks->clock,
                 "no collective whose members end together (all-reduce, all-gather, barrier) is "
                 "matched: how far clocks are apart is not known");
        return;
    }
    if (worst->residual_size_p95_ns > ranks->median_transfer_ns) {
        snprintf(ranks->clock, sizeof ranks->clock,
                 "ends of collectives on rank %u deviate by %lld ns (95th percentile) from one "
                 "offset, more than the median transfer of %lld ns",
                 worst->rank, (long long)worst->residual_size_p95_ns,
                 (long long)ranks->median_transfer_ns);
        return;
    }
    ranks->aligned = true;
}

enum orr_status orr__ranks_align(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    struct aligner aligner = {.w = w};
    enum orr_status status = ORR_OK;
    for (uint32_t p = 0; p < ranks->part_count && status == ORR_OK; p++) {
        if (ranks->parts[p].aligned) {
            continue;
        }
        ranks->parts[p].aligned = true;
        ranks->parts[p].reference = p;
        for (bool any = true; any && status == ORR_OK;) {
            status = align_neighbours(&aligner, &any);
        }
    }
    orr_memory_free(w->memory, aligner.samples);
    orr_memory_free(w->memory, aligner.order);
    if (status != ORR_OK) {
        return status;
    }
    correct_times(w);
    status = find_median_transfer(w);
    if (ranks->part_count == 1) {
        ranks->one_clock = ranks->aligned = true;
    } else if (status == ORR_OK) {
        judge(ranks);
    }
    return status;
}
