/* Runs a schedule of a plan: what every access reads and what memory holds in the end, as hashes.
 *
 * A cell of memory holds a number. An action mixes its own identity with the cells it reads and
 * leaves a number made of that in the cells it writes, so that two schedules give equal outcomes
 * only if every action read what the same actions had left. Memory that is used after its end or
 * before its allocation is counted as well.
 *
 * Threads: a run belongs to one thread; the plan is shared. */
#ifndef ORR_HAZARDS_EXPLORE_ORDER_RUN_H
#define ORR_HAZARDS_EXPLORE_ORDER_RUN_H

#include "hazards/explore/order_plan.h"

struct orr__order_run {
    const struct orr__order_plan *plan; /* borrowed */
    uint64_t *cells;                    /* owned */
    uint64_t *done;                     /* a set of actions; owned */
    uint32_t *order;                    /* room for a schedule; owned */
};

struct orr__outcome {
    uint64_t hash;
    uint32_t poisoned; /* actions that used memory that had ended or did not exist yet */
};

enum orr_status orr__order_run_open(struct orr__order_run *run,
                                    const struct orr__order_plan *plan) ORR_MUST_CHECK;
void orr__order_run_close(struct orr__order_run *run);

/* Runs all actions in this order, which must respect `before`. */
struct orr__outcome orr__order_run_all(struct orr__order_run *run, const uint32_t *order);

/* Fills run->order with the schedule that respects the sets `before` (rows of plan->words, the
 * plan's or stricter ones, without circles) and always takes the first action it can. */
void orr__order_run_first(struct orr__order_run *run, const uint64_t *before);

/* Mixes a number well: all bits of the result depend on all bits of `x`. */
static inline uint64_t orr__mix(uint64_t x) {
    /* The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
     * generators, 2014; constants of Stafford's variant 13). */
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
