#include "hazards/explore/orders.h"

#include <string.h>

enum { LOG_MAX = 1 << 26 }; /* words: half a GiB */

struct orr__decision {
    uint32_t conflict;
    bool is_reversed;
    size_t log_count; /* before it */
};

enum orr_status orr__orders_open(struct orr__orders *orders, const struct orr__order_plan *plan) {
    *orders = (struct orr__orders){.plan = plan};
    size_t size = (size_t)plan->action_count * plan->words * sizeof *orders->before;
    orders->before = orr_memory_alloc(plan->memory, size);
    if (!orders->before)
        return ORR_NO_MEMORY;
    memcpy(orders->before, plan->before, size);
    return ORR_OK;
}

void orr__orders_close(struct orr__orders *orders) {
    if (!orders->plan)
        return;
    orr_memory_free(orders->plan->memory, orders->before);
    orr_memory_free(orders->plan->memory, orders->decisions);
    orr_memory_free(orders->plan->memory, orders->log);
    *orders = (struct orr__orders){0};
}

static bool is_before(const struct orr__orders *orders, uint32_t a, uint32_t b) {
    return orders->before[(size_t)b * orders->plan->words + a / 64] >> (a % 64) & 1;
}

static bool keep_row(struct orr__orders *orders, uint32_t index) {
    uint32_t words = orders->plan->words;
    if (orders->log_count + words + 1 > orders->log_capacity) {
        orders->status =
            orr_memory_grow(orders->plan->memory, &orders->log, &orders->log_capacity,
                            orders->log_count + words + 1, sizeof *orders->log, LOG_MAX);
        if (orders->status != ORR_OK)
            return false;
    }
    uint64_t *kept = orders->log + orders->log_count;
    for (uint32_t i = 0; i < words; i++)
        kept[i] = orders->before[(size_t)index * words + i];
    kept[words] = index;
    orders->log_count += words + 1;
    return true;
}

static void undo(struct orr__orders *orders, size_t log_count) {
    uint32_t words = orders->plan->words;
    while (orders->log_count > log_count) {
        orders->log_count -= words + 1;
        const uint64_t *kept = orders->log + orders->log_count;
        for (uint32_t i = 0; i < words; i++)
            orders->before[(size_t)kept[words] * words + i] = kept[i];
    }
}

/* Action a comes before b, and so does all that comes before a before all that comes after b. */
static bool put_before(struct orr__orders *orders, uint32_t a, uint32_t b) {
    uint32_t words = orders->plan->words;
    const uint64_t *row_a = orders->before + (size_t)a * words;
    for (uint32_t i = 0; i < orders->plan->action_count; i++) {
        if ((i != b && !is_before(orders, b, i)) || is_before(orders, a, i))
            continue;
        if (!keep_row(orders, i))
            return false;
        uint64_t *row = orders->before + (size_t)i * words;
        for (uint32_t k = 0; k < words; k++)
            row[k] |= row_a[k];
        row[a / 64] |= 1ull << (a % 64);
    }
    return true;
}

/* The first conflict from `from` on that is open, conflict_count if none is. */
static uint32_t find_open(const struct orr__orders *orders, uint32_t from) {
    const struct orr__order_plan *plan = orders->plan;
    while (from < plan->conflict_count &&
           (is_before(orders, plan->conflicts[from].a, plan->conflicts[from].b) ||
            is_before(orders, plan->conflicts[from].b, plan->conflicts[from].a)))
        from++;
    return from;
}

static bool decide(struct orr__orders *orders, uint32_t conflict, bool is_reversed) {
    if (orders->decision_count == orders->decision_capacity) {
        orders->status = orr_memory_grow(
            orders->plan->memory, &orders->decisions, &orders->decision_capacity,
            (size_t)orders->decision_count + 1, sizeof *orders->decisions, ORR_PLAN_CONFLICTS_MAX);
        if (orders->status != ORR_OK)
            return false;
    }
    orders->decisions[orders->decision_count++] =
        (struct orr__decision){conflict, is_reversed, orders->log_count};
    const struct orr__conflict *pair = &orders->plan->conflicts[conflict];
    return is_reversed ? put_before(orders, pair->b, pair->a)
                       : put_before(orders, pair->a, pair->b);
}

static uint32_t next_conflict(const struct orr__orders *orders) {
    return orders->decision_count == 0 ? 0
                                       : orders->decisions[orders->decision_count - 1].conflict + 1;
}

/* Takes decisions back up to one that can be turned round, and turns it. */
static bool turn(struct orr__orders *orders) {
    while (orders->decision_count > orders->fixed_count) {
        struct orr__decision last = orders->decisions[--orders->decision_count];
        undo(orders, last.log_count);
        if (!last.is_reversed)
            return decide(orders, last.conflict, true);
    }
    orders->is_ended = true;
    return false;
}

bool orr__orders_next(struct orr__orders *orders) {
    if (orders->is_ended || orders->status != ORR_OK)
        return false;
    if (orders->is_started && !turn(orders))
        return false;
    orders->is_started = true;
    for (;;) {
        uint32_t open = find_open(orders, next_conflict(orders));
        if (open == orders->plan->conflict_count)
            return true;
        if (!decide(orders, open, false))
            return false;
    }
}

void orr__orders_restrict(struct orr__orders *orders, const bool *reversed, uint32_t count,
                          uint32_t *out_count) {
    for (*out_count = 0; *out_count < count; ++*out_count) {
        uint32_t open = find_open(orders, next_conflict(orders));
        if (open == orders->plan->conflict_count || !decide(orders, open, reversed[*out_count]))
            break;
    }
    orders->fixed_count = orders->decision_count;
}
