#include <stdint.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* Tells the runtime who calls, unless it knows. */
static void announce(lua_State *L, struct orr_scenario *scenario) {
    uint32_t host = scenario->hosts[scenario->running].id;
    char site[ORR__SITE_MAX];
    site[0] = '\0';
    if (scenario->silent && scenario->caller_known && scenario->caller_host == host)
        return;
    if (!scenario->silent)
        orr__site(L, site, sizeof site);
    if (scenario->caller_known && scenario->caller_host == host &&
        strcmp(scenario->site, site) == 0)
        return;
    enum orr_status status = orr_runtime_set_caller(scenario->runtime, host, site);
    if (status != ORR_OK)
        orr__raise_runtime(L, status);
    scenario->caller_known = true;
    scenario->caller_host = host;
    memcpy(scenario->site, site, sizeof site);
}

struct orr_scenario *orr__caller(lua_State *L) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    bool stays = scenario->tracing || (scenario->callbacks > 0 && scenario->live_count == 1);
    if (!lua_isyieldable(L) && !stays)
        orr__raise(L, ORR_INVALID,
                   "a call that may block its host can't be made inside a callback of %s",
                   scenario->callbacks > 0 ? "a gradient while several hosts run"
                                           : "table.sort, string.gsub, require or a metamethod");
    if (!scenario->arguments_declared && scenario->config.argument_count > 0) {
        scenario->arguments_wrong = true;
        orr__raise(L, ORR_INVALID,
                   "unknown argument '%s': the scenario has not declared any with "
                   "orrery.args before its first call",
                   scenario->config.arguments[0].key);
    }
    announce(L, scenario);
    return scenario;
}

struct orr_scenario *orr__stream_caller(lua_State *L) {
    if (orr__scenario_of(L)->tracing)
        orr__raise(L, ORR_UNSUPPORTED,
                   "calls on streams, events and buffers can't be made inside a captured or fused "
                   "function: it records operators on tensors only, and would not replay them");
    return orr__caller(L);
}

/* The continuation of a blocked call: the call again, with the arguments that it left. */
static int call_again(lua_State *L, int status, lua_KContext function) {
    (void)status;
    lua_CFunction again = (lua_CFunction)function;
    return again(L);
}

int orr__finish(lua_State *L, enum orr_status status, int top, int results, lua_CFunction again) {
    if (status == ORR_OK)
        return results;
    if (status != ORR_BLOCKED)
        return orr__raise_runtime(L, status);
    struct orr_scenario *scenario = orr__scenario_of(L);
    orr_error_clear(orr_runtime_error(scenario->runtime));
    if (scenario->tracing)
        return orr__raise(L, ORR_UNSUPPORTED,
                          "a call inside a captured or fused function has to wait, and another "
                          "host has to run first: make it outside");
    lua_settop(L, top);
    scenario->blocked = true;
    return lua_yieldk(L, 0, (lua_KContext)again, call_again);
}
