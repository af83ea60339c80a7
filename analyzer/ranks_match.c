/* Entries -> collectives. All entries are sorted by what makes them one collective; runs of equal
 * keys are candidates, blocks (group and kind) are judged as a whole where ordinals count. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/ranks_internal.h"
#include "analyzer/sort.h"

/* What entries of one collective have in common, beside seq and ordinal. */
struct block {
    bool recorded;
    uint32_t part, collective; /* if recorded */
    uint32_t group;
    enum orr__comm_kind kind;
    bool pair;
    uint32_t source, destination; /* ranks' numbers, if a pair */
};

struct matcher {
    struct orr__ranks_work *w;
    uint32_t *order;
    uint32_t *counts;  /* by rank: entries in a block */
    uint8_t *expected; /* by rank: is in the group */
};

static struct block block_of(const struct matcher *m, const struct orr__comm_entry *e) {
    const struct orr_rank *rank = &m->w->ranks->items[e->rank];
    if (e->collective != ORR_EVENTS_NONE) {
        return (struct block){.recorded = true, .part = rank->part, .collective = e->collective};
    }
    struct block block = {.group = e->group, .kind = e->kind};
    bool sends = e->kind == ORR__COMM_SEND, receives = e->kind == ORR__COMM_RECEIVE;
    if ((sends || receives) && e->peer != ORR_ID_NONE && m->w->numbered) {
        block.pair = true;
        block.kind = ORR__COMM_SEND_RECEIVE;
        block.source = sends ? rank->rank : e->peer;
        block.destination = sends ? e->peer : rank->rank;
    }
    return block;
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_blocks(const struct block *a, const struct block *b) {
    const uint64_t pairs[][2] = {{!a->recorded, !b->recorded},
                                 {a->part, b->part},
                                 {a->collective, b->collective},
                                 {a->group, b->group},
                                 {a->kind, b->kind},
                                 {a->pair, b->pair},
                                 {a->source, b->source},
                                 {a->destination, b->destination}};
    int order = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && order == 0; i++) {
        order = compare_numbers(pairs[i][0], pairs[i][1]);
    }
    return order;
}

/* Each side of a transfer between two ranks numbers its own. */
static bool has_seq(const struct orr__ranks_work *w, const struct orr__comm_entry *e) {
    return e->collective == ORR_EVENTS_NONE && w->groups[e->group].has_seq &&
           !orr__comm_transfer(e->kind);
}

/* By block and, where it counts, sequence number. */
static int compare_places(const struct matcher *m, uint32_t a, uint32_t b) {
    const struct orr__comm_entry *x = &m->w->entries[a], *y = &m->w->entries[b];
    struct block p = block_of(m, x), q = block_of(m, y);
    int order = compare_blocks(&p, &q);
    return order != 0
               ? order
               : compare_numbers(has_seq(m->w, x) ? x->seq : 0, has_seq(m->w, y) ? y->seq : 0);
}

static int compare_keys(const struct matcher *m, uint32_t a, uint32_t b) {
    int order = compare_places(m, a, b);
    return order != 0 ? order : compare_numbers(m->w->entries[a].ordinal, m->w->entries[b].ordinal);
}

/* By rank first, to count ordinals. */
static bool before_in_rank(const void *context, uint32_t a, uint32_t b) {
    const struct matcher *m = context;
    const struct orr__comm_entry *x = &m->w->entries[a], *y = &m->w->entries[b];
    if (x->rank != y->rank) {
        return x->rank < y->rank;
    }
    int order = compare_places(m, a, b);
    /* The sides of a pair are counted apart. */
    order = order != 0 ? order : compare_numbers(x->kind, y->kind);
    return order != 0 ? order < 0 : a < b;
}

static bool before_in_block(const void *context, uint32_t a, uint32_t b) {
    const struct matcher *m = context;
    int order = compare_keys(m, a, b);
    if (order != 0) {
        return order < 0;
    }
    return m->w->entries[a].rank != m->w->entries[b].rank
               ? m->w->entries[a].rank < m->w->entries[b].rank
               : a < b;
}

/* Sequence numbers count if all collectives of the group have one, and not 0 throughout: that is
 * what a source without them may leave. */
static void find_sequences(struct orr__ranks_work *w) {
    for (size_t i = 0; i < w->entry_count; i++) {
        const struct orr__comm_entry *e = &w->entries[i];
        bool any = !orr__comm_transfer(e->kind) && e->seq != ORR__SEQ_NONE && e->seq != 0;
        w->groups[e->group].has_seq = w->groups[e->group].has_seq || any;
    }
    for (size_t i = 0; i < w->entry_count; i++) {
        const struct orr__comm_entry *e = &w->entries[i];
        if (!orr__comm_transfer(e->kind) && e->seq == ORR__SEQ_NONE) {
            w->groups[e->group].has_seq = false;
        }
    }
}

/* Place of a rank in its group, or its size. */
static size_t place_in(const struct orr__comm_group *g, uint32_t rank) {
    size_t place = 0;
    while (place < g->rank_count && g->ranks[place] != rank) {
        place++;
    }
    return place;
}

/* Sources name the other side by its place in the group, or by its number in the job: what fits all
 * ops of a group, places first. Nobody sends to itself. What fits neither is no known peer. */
static void resolve_peers(struct orr__ranks_work *w) {
    for (size_t g = 0; g < w->group_count; g++) {
        w->groups[g].local = w->groups[g].rank_count > 0;
        w->groups[g].global = true;
    }
    for (size_t i = 0; i < w->entry_count; i++) {
        const struct orr__comm_entry *e = &w->entries[i];
        struct orr__comm_group *g = &w->groups[e->group];
        uint32_t own = w->ranks->items[e->rank].rank;
        if (e->peer == ORR_ID_NONE) {
            continue;
        }
        g->local = g->local && e->peer < g->rank_count && g->ranks[e->peer] != own;
        g->global = g->global && e->peer != own &&
                    (g->rank_count == 0 || place_in(g, e->peer) < g->rank_count);
    }
    for (size_t i = 0; i < w->entry_count; i++) {
        struct orr__comm_entry *e = &w->entries[i];
        const struct orr__comm_group *g = &w->groups[e->group];
        if (e->peer != ORR_ID_NONE) {
            e->peer = g->local ? g->ranks[e->peer] : g->global ? e->peer : ORR_ID_NONE;
        }
    }
}

static enum orr_status number_entries(struct matcher *m) {
    struct orr__ranks_work *w = m->w;
    enum orr_status status =
        orr__sort_indices(w->memory, m->order, w->entry_count, before_in_rank, m);
    uint64_t ordinal = 0;
    for (size_t i = 0; i < w->entry_count && status == ORR_OK; i++) {
        struct orr__comm_entry *e = &w->entries[m->order[i]];
        const struct orr__comm_entry *last = i > 0 ? &w->entries[m->order[i - 1]] : NULL;
        bool same = last && last->rank == e->rank && last->kind == e->kind &&
                    e->collective == ORR_EVENTS_NONE &&
                    compare_places(m, m->order[i - 1], m->order[i]) == 0;
        ordinal = same ? ordinal + 1 : 0;
        e->ordinal = ordinal;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Refusing */

static const char *kind_text(const struct block *block) {
    return block->pair ? "send and receive" : orr__comm_kind_text(block->kind);
}

static enum orr_status refuse(struct matcher *m, const struct block *block, uint64_t ops,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));
static enum orr_status refuse(struct matcher *m, const struct block *block, uint64_t ops,
                              const char *format, ...) {
    struct orr_ranks *ranks = m->w->ranks;
    enum orr_status status =
        orr_memory_grow(m->w->memory, &ranks->refusals, &ranks->refusal_capacity,
                        ranks->refusal_count + 1, sizeof *ranks->refusals, SIZE_MAX / 512);
    if (status != ORR_OK) {
        return status;
    }
    struct orr_ranks_refusal *refusal = &ranks->refusals[ranks->refusal_count++];
    refusal->kind = kind_text(block);
    refusal->group = m->w->groups[block->group].name;
    refusal->ops = ops;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(refusal->why, sizeof refusal->why, format, arguments);
    va_end(arguments);
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Taking */

/* Index of the rank with a number, or NONE. */
static uint32_t rank_index(const struct orr_ranks *ranks, uint32_t number) {
    size_t low = 0, high = ranks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranks->items[middle].rank < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ranks->count && ranks->items[low].rank == number ? (uint32_t)low : ORR_EVENTS_NONE;
}

static enum orr_status take(struct matcher *m, const struct block *block, size_t first, size_t end,
                            enum orr_ranks_how how) {
    struct orr__ranks_work *w = m->w;
    struct orr_ranks *ranks = w->ranks;
    enum orr_status status = orr_memory_grow(
        w->memory, &ranks->collectives, &ranks->collective_capacity, ranks->collective_count + 1,
        sizeof *ranks->collectives, ORR_EVENTS_NONE - 1);
    if (status == ORR_OK) {
        status = orr_memory_grow(w->memory, &ranks->members, &ranks->member_capacity,
                                 ranks->member_count + (end - first), sizeof *ranks->members,
                                 SIZE_MAX / 128);
    }
    if (status != ORR_OK) {
        return status;
    }
    const struct orr__comm_entry *e = &w->entries[m->order[first]];
    const struct orr_ranks_input *input = orr__ranks_input(w, e->rank);
    struct orr_ranks_collective *c = &ranks->collectives[ranks->collective_count++];
    *c = (struct orr_ranks_collective){
        .kind = orr__comm_kind_text(block->recorded ? e->kind : block->kind),
        .group = block->recorded ? input->events->collectives[block->collective].group
                                 : w->groups[block->group].name,
        .name = orr__ranks_op(w, e)->name,
        .seq = block->recorded || has_seq(w, e) ? e->seq : e->ordinal,
        .how = how,
        .source = block->pair ? rank_index(ranks, block->source) : 0,
        .first = ranks->member_count,
        .count = end - first};
    for (size_t i = first; i < end; i++) {
        e = &w->entries[m->order[i]];
        const struct orr_events_op *op = orr__ranks_op(w, e);
        int64_t base = ranks->parts[ranks->items[e->rank].part].base_ns;
        ranks->members[ranks->member_count++] =
            (struct orr_ranks_member){.rank = e->rank,
                                      .op = e->op,
                                      .own_ns = orr__ranks_add(op->start_ns, base),
                                      .done_ns = orr__ranks_add(op->end_ns, base)};
        ranks->items[e->rank].matched++;
    }
    ranks->matched_ops += end - first;
    ranks->all_to_all += how == ORR_RANKS_ALL_TO_ALL;
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Judging a block: entries order[first..end) */

static size_t end_of_run(const struct matcher *m, size_t first, size_t end) {
    size_t i = first + 1;
    while (i < end && compare_keys(m, m->order[first], m->order[i]) == 0) {
        i++;
    }
    return i;
}

/* True if each entry of a run is of another rank. */
static bool distinct(const struct matcher *m, size_t first, size_t end) {
    for (size_t i = first + 1; i < end; i++) {
        if (m->w->entries[m->order[i - 1]].rank == m->w->entries[m->order[i]].rank) {
            return false;
        }
    }
    return true;
}

/* Marks the ranks that must take part, [first, end) being the block; returns how many have a
 * trace. */
static size_t expect(struct matcher *m, uint32_t group, size_t first, size_t end) {
    const struct orr__comm_group *g = &m->w->groups[group];
    const struct orr_ranks *ranks = m->w->ranks;
    size_t count = 0;
    bool everyone = g->rank_count == 0 && g->name[0] == '\0';
    memset(m->expected, everyone, ranks->count);
    if (g->rank_count > 0 && m->w->numbered) {
        for (size_t i = 0; i < g->rank_count; i++) {
            uint32_t rank = rank_index(ranks, g->ranks[i]);
            if (rank != ORR_EVENTS_NONE) {
                m->expected[rank] = 1;
            }
        }
    }
    for (size_t i = first; i < end; i++) {
        m->expected[m->w->entries[m->order[i]].rank] = 1;
    }
    for (size_t r = 0; r < ranks->count; r++) {
        count += m->expected[r];
    }
    return count;
}

static void count_ranks(struct matcher *m, size_t first, size_t end) {
    memset(m->counts, 0, m->w->ranks->count * sizeof *m->counts);
    for (size_t i = first; i < end; i++) {
        m->counts[m->w->entries[m->order[i]].rank]++;
    }
}

static enum orr_status judge_pairs(struct matcher *m, const struct block *block, size_t first,
                                   size_t end) {
    uint64_t sends = 0;
    for (size_t i = first; i < end; i++) {
        sends += m->w->entries[m->order[i]].kind == ORR__COMM_SEND;
    }
    uint64_t receives = (uint64_t)(end - first) - sends;
    if (rank_index(m->w->ranks, sends > 0 ? block->destination : block->source) ==
        ORR_EVENTS_NONE) {
        return refuse(m, block, end - first, "rank %u, the other side of rank %u, has no trace",
                      sends > 0 ? block->destination : block->source,
                      sends > 0 ? block->source : block->destination);
    }
    if (sends != receives) {
        return refuse(m, block, end - first,
                      "rank %u sends %llu times to rank %u, which receives %llu times",
                      block->source, (unsigned long long)sends, block->destination,
                      (unsigned long long)receives);
    }
    enum orr_status status = ORR_OK;
    for (size_t i = first, next; i < end && status == ORR_OK; i = next) {
        next = end_of_run(m, i, end);
        status = take(m, block, i, next, ORR_RANKS_PAIR);
    }
    return status;
}

static enum orr_status judge_sequence(struct matcher *m, const struct block *block, size_t first,
                                      size_t end, size_t expected) {
    uint64_t left = 0;
    enum orr_status status = ORR_OK;
    for (size_t i = first, next; i < end && status == ORR_OK; i = next) {
        next = end_of_run(m, i, end);
        if (next - i == expected && distinct(m, i, next)) {
            status = take(m, block, i, next, ORR_RANKS_SEQUENCE);
        } else {
            left += next - i;
        }
    }
    return status == ORR_OK && left > 0
               ? refuse(m, block, left,
                        "not in the traces of all %zu ranks of the group that "
                        "have one",
                        expected)
               : status;
}

static enum orr_status judge_ordinals(struct matcher *m, const struct block *block, size_t first,
                                      size_t end) {
    const struct orr_ranks *ranks = m->w->ranks;
    uint32_t reference = ORR_EVENTS_NONE;
    count_ranks(m, first, end);
    for (uint32_t r = 0; r < ranks->count; r++) {
        if (!m->expected[r]) {
            continue;
        }
        reference = reference == ORR_EVENTS_NONE ? r : reference;
        if (m->counts[r] != m->counts[reference]) {
            return refuse(m, block, end - first,
                          "no sequence numbers, and counts differ: %u on rank %u, %u on rank %u",
                          m->counts[reference], ranks->items[reference].rank, m->counts[r],
                          ranks->items[r].rank);
        }
    }
    bool peerless = orr__comm_transfer(block->kind);
    enum orr_status status = ORR_OK;
    for (size_t i = first, next; i < end && status == ORR_OK; i = next) {
        next = end_of_run(m, i, end);
        status = take(m, block, i, next, peerless ? ORR_RANKS_ALL_TO_ALL : ORR_RANKS_ORDINAL);
    }
    return status;
}

static enum orr_status judge(struct matcher *m, size_t first, size_t end) {
    const struct orr__comm_entry *e = &m->w->entries[m->order[first]];
    struct block block = block_of(m, e);
    if (block.recorded) {
        return end - first > 1 && distinct(m, first, end)
                   ? take(m, &block, first, end, ORR_RANKS_RECORDED)
                   : ORR_OK;
    }
    if (block.pair) {
        return judge_pairs(m, &block, first, end);
    }
    const struct orr__comm_group *group = &m->w->groups[block.group];
    size_t expected = expect(m, block.group, first, end);
    if (group->rank_count == 1) {
        return ORR_OK; /* of a rank with itself: nobody to wait for */
    }
    if (expected < 2) {
        return refuse(m, &block, end - first, "only rank %u of the group has a trace",
                      m->w->ranks->items[e->rank].rank);
    }
    return has_seq(m->w, e) ? judge_sequence(m, &block, first, end, expected)
                            : judge_ordinals(m, &block, first, end);
}

/* ---------------------------------------------------------------------------------------------- */

static bool collective_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_ranks *ranks = context;
    const struct orr_ranks_collective *x = &ranks->collectives[a], *y = &ranks->collectives[b];
    const struct orr_ranks_member *p = &ranks->members[x->first], *q = &ranks->members[y->first];
    if (p->own_ns != q->own_ns) {
        return p->own_ns < q->own_ns;
    }
    if (p->rank != q->rank) {
        return p->rank < q->rank;
    }
    return p->done_ns != q->done_ns ? p->done_ns < q->done_ns : a < b;
}

static enum orr_status sort_collectives(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    size_t count = ranks->collective_count;
    uint32_t *order = orr_memory_resize(w->memory, NULL, count * sizeof *order + 1);
    struct orr_ranks_collective *sorted =
        orr_memory_resize(w->memory, NULL, count * sizeof *sorted + 1);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(w->memory, order, count, collective_before, ranks);
    }
    if (status == ORR_OK) {
        for (size_t i = 0; i < count; i++) {
            sorted[i] = ranks->collectives[order[i]];
        }
        if (count > 0) {
            memcpy(ranks->collectives, sorted, count * sizeof *sorted);
        }
    }
    orr_memory_free(w->memory, order);
    orr_memory_free(w->memory, sorted);
    return status;
}

static enum orr_status match_blocks(struct matcher *m) {
    struct orr__ranks_work *w = m->w;
    enum orr_status status =
        orr__sort_indices(w->memory, m->order, w->entry_count, before_in_block, m);
    for (size_t first = 0, end; first < w->entry_count && status == ORR_OK; first = end) {
        struct block block = block_of(m, &w->entries[m->order[first]]);
        end = first + 1;
        while (end < w->entry_count) {
            struct block next = block_of(m, &w->entries[m->order[end]]);
            if (compare_blocks(&block, &next) != 0) {
                break;
            }
            end++;
        }
        status = judge(m, first, end);
    }
    return status;
}

enum orr_status orr__ranks_match(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    struct matcher m = {.w = w};
    m.order = orr_memory_resize(w->memory, NULL, w->entry_count * sizeof *m.order + 1);
    m.counts = orr_memory_resize(w->memory, NULL, ranks->count * sizeof *m.counts + 1);
    m.expected = orr_memory_resize(w->memory, NULL, ranks->count + 1);
    enum orr_status status = m.order && m.counts && m.expected ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        for (size_t i = 0; i < w->entry_count; i++) {
            m.order[i] = (uint32_t)i;
        }
        find_sequences(w);
        resolve_peers(w);
        status = number_entries(&m);
    }
    if (status == ORR_OK) {
        status = match_blocks(&m);
    }
    if (status == ORR_OK) {
        status = sort_collectives(w);
    }
    orr_memory_free(w->memory, m.order);
    orr_memory_free(w->memory, m.counts);
    orr_memory_free(w->memory, m.expected);
    return status;
}
