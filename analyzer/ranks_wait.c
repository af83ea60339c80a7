/* Who arrives last, and who waits for it. */
#include "analyzer/ranks_internal.h"
#include "analyzer/split.h"
#include "analyzer/times.h"

/* When all that an op waits for was done; its start if the trace does not tell. */
static int64_t ready_of(const struct orr_events *events, uint32_t op) {
    struct orr_split_parts parts;
    const struct orr_events_op *o = &events->ops[op];
    return orr_events_linked(o) && orr_split_of(events, op, &parts) ? o->start_ns - parts.dispatch
                                                                    : o->start_ns;
}

/* Members of our own simulated collectives start together, when the last one is ready. */
static void use_ready_times(struct orr__ranks_work *w, const struct orr_ranks_collective *c) {
    struct orr_ranks_member *members = &w->ranks->members[c->first];
    for (size_t i = 1; i < c->count; i++) {
        if (members[i].start_ns != members[0].start_ns) {
            return;
        }
    }
    for (size_t i = 0; i < c->count; i++) {
        members[i].start_ns = ready_of(orr__ranks_input(w, members[i].rank)->events, members[i].op);
    }
}

static void judge(struct orr__ranks_work *w, struct orr_ranks_collective *c) {
    struct orr_ranks *ranks = w->ranks;
    const struct orr_ranks_member *members = &ranks->members[c->first];
    int64_t second = INT64_MIN, end = INT64_MAX;
    size_t last = 0;
    for (size_t i = 0; i < c->count; i++) {
        last = members[i].start_ns > members[last].start_ns ? i : last;
        end = orr__min_ns(end, members[i].end_ns);
    }
    for (size_t i = 0; i < c->count; i++) {
        second = i == last ? second : orr__max_ns(second, members[i].start_ns);
    }
    c->last = members[last].rank;
    c->arrival_ns = members[last].start_ns;
    c->transfer_ns = orr__ranks_add(end, -c->arrival_ns);
    c->caused_ns = orr__ranks_add(c->arrival_ns, -second);
    c->wait_ns = 0;
    for (size_t i = 0; i < c->count; i++) {
        int64_t wait = orr__ranks_add(c->arrival_ns, -members[i].start_ns);
        c->wait_ns = orr__add_ns(c->wait_ns, wait);
    }
    c->mismatched = c->transfer_ns < 0;
}

static void add_up(struct orr_ranks *ranks, const struct orr_ranks_collective *c) {
    for (size_t i = 0; i < c->count; i++) {
        const struct orr_ranks_member *m = &ranks->members[c->first + i];
        struct orr_rank *rank = &ranks->items[m->rank];
        rank->collectives++;
        rank->wait_suffered_ns =
            orr__add_ns(rank->wait_suffered_ns, orr__ranks_add(c->arrival_ns, -m->start_ns));
        rank->comm_ns = orr__add_ns(rank->comm_ns, orr__ranks_add(m->end_ns, -m->start_ns));
        rank->transfer_ns = orr__add_ns(rank->transfer_ns, c->transfer_ns);
    }
    if (c->caused_ns == 0) {
        return; /* several are last, and none of them alone makes others wait */
    }
    ranks->items[c->last].last++;
    ranks->items[c->last].wait_caused_ns =
        orr__add_ns(ranks->items[c->last].wait_caused_ns, c->caused_ns);
}

void orr__ranks_wait(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    for (size_t i = 0; i < ranks->collective_count && ranks->aligned; i++) {
        struct orr_ranks_collective *c = &ranks->collectives[i];
        if (!c->comparable) {
            continue;
        }
        if (c->how == ORR_RANKS_RECORDED) {
            use_ready_times(w, c);
        }
        judge(w, c);
        if (c->mismatched) {
            ranks->mismatched++;
        } else {
            ranks->judged++;
            add_up(ranks, c);
        }
    }
}
