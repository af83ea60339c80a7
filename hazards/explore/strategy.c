#include "hazards/explore/strategy.h"

#include <assert.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Evenly from 0 .. below - 1, up to a bias of below / 2^32. */
static uint32_t random_below(uint64_t *state, uint32_t below) {
    return (uint32_t)((next_random(state) >> 32) * below >> 32);
}

enum orr_status orr__strategy_open(struct orr__strategy *strategy, const struct orr_memory *memory,
                                   uint32_t actor_count) {
    *strategy = (struct orr__strategy){.actor_count = actor_count, .memory = memory};
    strategy->priorities = orr_memory_alloc(memory, actor_count * sizeof *strategy->priorities);
    return strategy->priorities ? ORR_OK : ORR_NO_MEMORY;
}

void orr__strategy_close(struct orr__strategy *strategy) {
    if (strategy->memory)
        orr_memory_free(strategy->memory, strategy->priorities);
    strategy->priorities = NULL;
}

void orr__strategy_begin(struct orr__strategy *strategy, uint64_t run) {
    strategy->random = strategy->seed;
    strategy->random = next_random(&strategy->random) ^ run * 0xd1342543de82ef95u;
    strategy->step = 0;
    if (!strategy->is_pct)
        return;
    assert(strategy->depth >= 1 && strategy->depth <= ORR_STRATEGY_DEPTH_MAX);
    for (uint32_t i = 0; i < strategy->actor_count; i++) {
        uint32_t other = random_below(&strategy->random, i + 1);
        strategy->priorities[i] = strategy->priorities[other];
        strategy->priorities[other] = strategy->depth + i;
    }
    for (uint32_t i = 0; i + 1 < strategy->depth; i++)
        strategy->changes[i] = 1 + random_below(&strategy->random, strategy->step_max);
}

static uint32_t find_highest(const struct orr__strategy *strategy, const uint32_t *actors,
                             uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (strategy->priorities[actors[i]] > strategy->priorities[actors[best]])
            best = i;
    return best;
}

uint32_t orr__strategy_pick(struct orr__strategy *strategy, const uint32_t *actors,
                            uint32_t count) {
    strategy->step++;
    if (!strategy->is_pct)
        return random_below(&strategy->random, count);
    uint32_t best = find_highest(strategy, actors, count);
    for (uint32_t i = 0; i + 1 < strategy->depth; i++) {
        if (strategy->changes[i] != strategy->step)
            continue;
        strategy->priorities[actors[best]] = i; /* below all that are left */
        best = find_highest(strategy, actors, count);
    }
    return best;
}
