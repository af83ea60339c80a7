/* Entries -> collectives. All entries are sorted by what makes them one collective; runs of equal
 * keys are candidates, and ranks_judge.c decides, block by block. */
#include <string.h>

#include "analyzer/ranks_internal.h"
#include "analyzer/sort.h"

struct orr__comm_block orr__comm_block_of(const struct orr__matcher *m,
                                          const struct orr__comm_entry *e) {
    const struct orr_rank *rank = &m->w->ranks->items[e->rank];
    if (e->collective != ORR_EVENTS_NONE) {
        return (struct orr__comm_block){
            .recorded = true, .part = rank->part, .collective = e->collective};
    }
    struct orr__comm_block block = {.group = e->group, .kind = e->kind};
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

static int compare_blocks(const struct orr__comm_block *a, const struct orr__comm_block *b) {
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
bool orr__has_seq(const struct orr__ranks_work *w, const struct orr__comm_entry *e) {
    return e->collective == ORR_EVENTS_NONE && w->groups[e->group].has_seq &&
           !orr__comm_transfer(e->kind);
}

/* By block and, where it counts, sequence number. */
static int compare_places(const struct orr__matcher *m, uint32_t a, uint32_t b) {
    const struct orr__comm_entry *x = &m->w->entries[a], *y = &m->w->entries[b];
    struct orr__comm_block p = orr__comm_block_of(m, x), q = orr__comm_block_of(m, y);
    int order = compare_blocks(&p, &q);
    return order != 0 ? order
                      : compare_numbers(orr__has_seq(m->w, x) ? x->seq : 0,
                                        orr__has_seq(m->w, y) ? y->seq : 0);
}

int orr__compare_keys(const struct orr__matcher *m, uint32_t a, uint32_t b) {
    int order = compare_places(m, a, b);
    return order != 0 ? order : compare_numbers(m->w->entries[a].ordinal, m->w->entries[b].ordinal);
}

/* By rank first, to count ordinals. */
static bool before_in_rank(const void *context, uint32_t a, uint32_t b) {
    const struct orr__matcher *m = context;
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
    const struct orr__matcher *m = context;
    int order = orr__compare_keys(m, a, b);
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

static enum orr_status number_entries(struct orr__matcher *m) {
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

static enum orr_status match_blocks(struct orr__matcher *m) {
    struct orr__ranks_work *w = m->w;
    enum orr_status status =
        orr__sort_indices(w->memory, m->order, w->entry_count, before_in_block, m);
    for (size_t first = 0, end; first < w->entry_count && status == ORR_OK; first = end) {
        struct orr__comm_block block = orr__comm_block_of(m, &w->entries[m->order[first]]);
        end = first + 1;
        while (end < w->entry_count) {
            struct orr__comm_block next = orr__comm_block_of(m, &w->entries[m->order[end]]);
            if (compare_blocks(&block, &next) != 0) {
                break;
            }
            end++;
        }
        status = orr__ranks_judge(m, first, end);
    }
    return status;
}

enum orr_status orr__ranks_match(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    struct orr__matcher m = {.w = w};
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
