/* Is a run of equal keys a collective? Blocks (group and kind) are judged as a whole where ordinals
 * count. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/ranks_internal.h"

/* ------------------------------------------------------------------------------------------------
 * Refusing */

static const char *kind_text(const struct orr__comm_block *block) {
    return block->pair ? "send and receive" : orr__comm_kind_text(block->kind);
}

static enum orr_status refuse(struct orr__matcher *m, const struct orr__comm_block *block,
                              uint64_t ops, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static enum orr_status refuse(struct orr__matcher *m, const struct orr__comm_block *block,
                              uint64_t ops, const char *format, ...) {
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

static enum orr_status take(struct orr__matcher *m, const struct orr__comm_block *block,
                            size_t first, size_t end, enum orr_ranks_how how) {
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
        .seq = block->recorded || orr__has_seq(w, e) ? e->seq : e->ordinal,
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

static size_t end_of_run(const struct orr__matcher *m, size_t first, size_t end) {
    size_t i = first + 1;
    while (i < end && orr__compare_keys(m, m->order[first], m->order[i]) == 0) {
        i++;
    }
    return i;
}

/* True if each entry of a run is of another rank. */
static bool distinct(const struct orr__matcher *m, size_t first, size_t end) {
    for (size_t i = first + 1; i < end; i++) {
        if (m->w->entries[m->order[i - 1]].rank == m->w->entries[m->order[i]].rank) {
            return false;
        }
    }
    return true;
}

/* Marks the ranks that must take part, [first, end) being the block; returns how many have a
 * trace. */
static size_t expect(struct orr__matcher *m, uint32_t group, size_t first, size_t end) {
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

static void count_ranks(struct orr__matcher *m, size_t first, size_t end) {
    memset(m->counts, 0, m->w->ranks->count * sizeof *m->counts);
    for (size_t i = first; i < end; i++) {
        m->counts[m->w->entries[m->order[i]].rank]++;
    }
}

static enum orr_status judge_pairs(struct orr__matcher *m, const struct orr__comm_block *block,
                                   size_t first, size_t end) {
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

static enum orr_status judge_sequence(struct orr__matcher *m, const struct orr__comm_block *block,
                                      size_t first, size_t end, size_t expected) {
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

static enum orr_status judge_ordinals(struct orr__matcher *m, const struct orr__comm_block *block,
                                      size_t first, size_t end) {
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

enum orr_status orr__ranks_judge(struct orr__matcher *m, size_t first, size_t end) {
    const struct orr__comm_entry *e = &m->w->entries[m->order[first]];
    struct orr__comm_block block = orr__comm_block_of(m, e);
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
    return orr__has_seq(m->w, e) ? judge_sequence(m, &block, first, end, expected)
                                 : judge_ordinals(m, &block, first, end);
}
