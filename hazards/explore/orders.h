/* Every distinct order of a plan's conflicts, each once.
 *
 * Two schedules that order all conflicts alike do the same. So the search decides conflicts, not
 * steps: it takes the first conflict that is not decided yet, puts its first action before its
 * second, closes the sets (what comes before what comes before ...), and goes on; later it comes
 * back and decides the other way round. A conflict that earlier decisions have decided already is
 * passed over, so every path ends in an order that can happen, no two ends are alike, and nothing
 * is thrown away: as many runs as distinct orders. (Sleep sets alone visit every order once too,
 * but start runs that they then have to give up.)
 *
 *     struct orr__orders orders;
 *     orr__orders_open(&orders, plan);
 *     while (orr__orders_next(&orders))
 *         ... orders.before ...
 *     if (orders.status != ORR_OK) ...
 *     orr__orders_close(&orders);
 *
 * The first order is the program's own. Threads: one each. */
#ifndef ORR_HAZARDS_EXPLORE_ORDERS_H
#define ORR_HAZARDS_EXPLORE_ORDERS_H

#include "hazards/explore/order_plan.h"

struct orr__decision;

struct orr__orders {
    const struct orr__order_plan *plan; /* borrowed */
    uint64_t *before;                   /* of the current order; action_count rows */
    struct orr__decision *decisions;    /* the path to it */
    uint64_t *log;                      /* rows as they were before decisions: index, row, ... */
    uint32_t decision_count, fixed_count;
    size_t decision_capacity, log_capacity, log_count;
    bool is_started, is_ended;
    enum orr_status status;
};

enum orr_status orr__orders_open(struct orr__orders *orders,
                                 const struct orr__order_plan *plan) ORR_MUST_CHECK;
void orr__orders_close(struct orr__orders *orders);

/* Goes to the next order; false after the last, or when there is no memory (orders->status). */
bool orr__orders_next(struct orr__orders *orders);

/* Restricts a search that has not begun to the part of the tree below `count` decisions (true: the
 * other way round); a part that does not go so deep has its one order only. *out_count says how
 * many of them were really made. */
void orr__orders_restrict(struct orr__orders *orders, const bool *reversed, uint32_t count,
                          uint32_t *out_count);

#endif
