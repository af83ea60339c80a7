/* Which random numbers an operator without a seed of its own gets: those of the run's next draw, or
 * of an earlier one that is repeated. */
#include <string.h>

#include "scenarios/scenario_internal.h"

void orr__draws_push(struct orr__host *host, struct orr__draws *draws) {
    draws->outer = host->draws;
    host->draws = draws;
}

void orr__draws_pop(struct orr__host *host, struct orr__draws *draws) {
    host->draws = draws->outer;
}

void orr__draws_free(lua_State *L, struct orr__draws *draws) {
    luaL_unref(L, LUA_REGISTRYINDEX, draws->reference);
    draws->reference = LUA_NOREF;
}

/* Room for one more. The numbers are in Lua's memory, as what they belong to is. */
static void reserve(lua_State *L, struct orr__draws *draws) {
    if (draws->count < draws->capacity) {
        return;
    }
    size_t capacity = draws->capacity ? 2 * draws->capacity : 8;
    uint64_t *numbers = lua_newuserdatauv(L, capacity * sizeof *numbers, 0);
    if (draws->count > 0) {
        memcpy(numbers, draws->numbers, draws->count * sizeof *numbers);
    }
    int reference = luaL_ref(L, LUA_REGISTRYINDEX);
    luaL_unref(L, LUA_REGISTRYINDEX, draws->reference);
    draws->reference = reference;
    draws->numbers = numbers;
    draws->capacity = capacity;
}

uint64_t orr__draw(lua_State *L) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    struct orr__draws *draws = scenario->hosts[scenario->running].draws;
    for (; draws && !draws->replays; draws = draws->outer) {
        reserve(L, draws);
    }
    if (!draws) {
        return scenario->random_count;
    }
    if (draws->next == draws->count) {
        orr__raise(L, ORR_INVALID,
                   "recomputed, the function draws more random numbers than in the forward pass");
    }
    return draws->numbers[draws->next];
}

void orr__drawn(lua_State *L, uint64_t number) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    struct orr__draws *draws = scenario->hosts[scenario->running].draws;
    for (; draws && !draws->replays; draws = draws->outer) {
        draws->numbers[draws->count++] = number;
    }
    if (draws) {
        draws->next++;
    } else {
        scenario->random_count++;
    }
}
