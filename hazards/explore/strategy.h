/* Who goes next, when not every order is tried: probabilistic concurrency testing, or at random.
 *
 * PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte: A randomized scheduler with probabilistic
 * guarantees of finding bugs, ASPLOS 2010): actors get random priorities, the highest that can go
 * goes; at depth - 1 random steps, the one that would go falls below all others. A bug that needs
 * `depth` ordering constraints is found by one run with a probability of at least
 * 1 / (actors * steps^(depth - 1)).
 *
 * A run is made from the seed and its own number alone, so runs can be made in any order.
 *
 * Threads: one strategy each. */
#ifndef ORR_HAZARDS_EXPLORE_STRATEGY_H
#define ORR_HAZARDS_EXPLORE_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/memory.h"

enum { ORR_STRATEGY_DEPTH_MAX = 64 };

struct orr__strategy {
    bool is_pct; /* else at random */
    uint32_t depth, actor_count, step_max;
    uint64_t seed;
    /* Of the run: */
    uint64_t random;
    uint32_t step;
    uint32_t changes[ORR_STRATEGY_DEPTH_MAX]; /* depth - 1 steps */
    uint32_t *priorities;                     /* per actor; owned */
    const struct orr_memory *memory;
};

enum orr_status orr__strategy_open(struct orr__strategy *strategy, const struct orr_memory *memory,
                                   uint32_t actor_count) ORR_MUST_CHECK;
void orr__strategy_close(struct orr__strategy *strategy);

/* Begins run number `run`. */
void orr__strategy_begin(struct orr__strategy *strategy, uint64_t run);

/* Picks one of `count` > 0 actors that can go, given in ascending order; returns its index. */
uint32_t orr__strategy_pick(struct orr__strategy *strategy, const uint32_t *actors, uint32_t count);

#endif
