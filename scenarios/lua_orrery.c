#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* The table `orrery`: arguments, devices, clock, hosts. */

/* --- arguments --- */

static int fail_argument(lua_State *L, const char *key, const char *wanted, const char *value) {
    orr__scenario_of(L)->arguments_wrong = true;
    return orr__raise(L, ORR_INVALID, "argument %s: expected %s, got '%s'", key, wanted, value);
}

/* Pushes the command line's text as a value of the default's type; the default is on top. */
static int push_argument(lua_State *L, const char *key, const char *text) {
    switch (lua_type(L, -1)) {
    case LUA_TSTRING: lua_pushstring(L, text); return 1;
    case LUA_TBOOLEAN:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return fail_argument(L, key, "true or false", text);
        lua_pushboolean(L, text[0] == 't');
        return 1;
    case LUA_TNUMBER: break;
    default:
        return orr__raise(L, ORR_INVALID,
                          "orrery.args: the default of '%s' must be a number, text or boolean",
                          key);
    }
    bool whole = lua_isinteger(L, -1);
    if (lua_stringtonumber(L, text) != strlen(text) + 1)
        return fail_argument(L, key, whole ? "a whole number" : "a number", text);
    int exact = 1;
    lua_Integer integer = whole ? lua_tointegerx(L, -1, &exact) : 0;
    if (!exact)
        return fail_argument(L, key, "a whole number", text);
    if (whole) {
        lua_pop(L, 1);
        lua_pushinteger(L, integer);
    } else {
        lua_Number number = lua_tonumber(L, -1);
        lua_pop(L, 1);
        lua_pushnumber(L, number);
    }
    return 1;
}

/* Names of the defaults table at index 1, for a message. */
static int argument_names(lua_State *L, const char **names, int max) {
    int count = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && count < max)
            names[count++] = lua_tostring(L, -2);
    return count;
}

static int unknown_argument(lua_State *L, const char *key) {
    const char *names[64];
    char hint[ORR_ERROR_TEXT_MAX];
    int count = argument_names(L, names, 64);
    orr__scenario_of(L)->arguments_wrong = true;
    const char *nearest = orr_nearest_name(key, names, count);
    if (nearest)
        snprintf(hint, sizeof hint, "; did you mean '%s'?", nearest);
    else
        snprintf(hint, sizeof hint, "; the scenario's arguments are in its orrery.args");
    return orr__raise(L, ORR_INVALID, "unknown argument '%s'%s", key, hint);
}

static int orrery_args(lua_State *L) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (scenario->arguments_declared)
        return orr__raise(L, ORR_INVALID, "orrery.args is called once");
    scenario->arguments_declared = true;
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 1);) {
        if (lua_type(L, -2) != LUA_TSTRING)
            return orr__raise(L, ORR_INVALID, "orrery.args: names must be texts");
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, 2);
    }
    for (size_t i = 0; i < scenario->config.argument_count; i++) {
        const struct orr_scenario_argument *argument = &scenario->config.arguments[i];
        if (lua_getfield(L, 1, argument->key) == LUA_TNIL)
            return unknown_argument(L, argument->key);
        push_argument(L, argument->key, argument->value);
        lua_setfield(L, 2, argument->key);
        lua_pop(L, 1);
    }
    return 1;
}

/* --- clock and hosts --- */

static int orrery_now(lua_State *L) {
    const struct orr_scenario *scenario = orr__caller(L);
    lua_pushinteger(L, (lua_Integer)orr_runtime_now(scenario->runtime));
    return 1;
}

static int orrery_spend(lua_State *L) {
    int64_t ns = orr__integer(L, 1, "orrery.spend: ns", 0, ORR__NS_MAX);
    const struct orr_scenario *scenario = orr__caller(L);
    return orr__finish(L, orr_runtime_spend(scenario->runtime, ns), 1, 0, orrery_spend);
}

/* Makes a host of the function at index 1 that is called with `rank`. */
static enum orr_status add_host(lua_State *L, struct orr_scenario *scenario, lua_Integer rank) {
    char name[32];
    snprintf(name, sizeof name, "rank %lld", (long long)rank);
    uint32_t id = 0;
    enum orr_status status = orr_runtime_add_host(scenario->runtime, name, &id);
    if (status != ORR_OK)
        return status;
    lua_State *thread = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, thread, 1);
    lua_pushinteger(thread, rank);
    return orr__host_add(scenario, L, thread, id, rank);
}

/* orrery.host(f[, count]): `count` hosts (default: one per device), each of which runs f(rank). */
static int orrery_host(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    struct orr_scenario *scenario = orr__caller(L);
    lua_Integer count = (lua_Integer)orr_runtime_device_count(scenario->runtime);
    if (!lua_isnoneornil(L, 2))
        count = orr__integer(L, 2, "orrery.host: count", 1, ORR__HOSTS_MAX - 1);
    lua_settop(L, 2);
    for (lua_Integer rank = 0; rank < count; rank++) {
        enum orr_status status = add_host(L, scenario, rank);
        assert(status != ORR_BLOCKED); /* adding costs no time, so it never waits for a turn */
        if (status != ORR_OK)
            return orr__raise_runtime(L, status);
    }
    return 0;
}

static int after_join(lua_State *L, int status, lua_KContext context) {
    (void)L;
    (void)status;
    (void)context;
    return 0;
}

/* orrery.join(): the program waits until every other host has ended. */
static int orrery_join(lua_State *L) {
    struct orr_scenario *scenario = orr__caller(L);
    if (scenario->running != 0)
        return orr__raise(L, ORR_INVALID, "orrery.join is for the program, not for its hosts");
    if (scenario->tracing)
        return orr__raise(L, ORR_UNSUPPORTED,
                          "orrery.join can't wait inside a captured or fused function");
    if (scenario->live_count == 1)
        return 0;
    lua_settop(L, 0);
    scenario->joining = scenario->blocked = true;
    return lua_yieldk(L, 0, 0, after_join);
}

/* --- devices --- */

uint32_t orr__device(lua_State *L, int index) {
    return orr__handle(L, index, ORR__DEVICE, "device")->number;
}

static int orrery_device(lua_State *L) {
    struct orr_runtime *runtime = orr__scenario_of(L)->runtime;
    int64_t number = orr__integer(L, 1, "orrery.device", INT64_MIN, INT64_MAX);
    uint32_t count = orr_runtime_device_count(runtime);
    if (number < 0 || number >= count)
        return orr__raise(L, ORR_INVALID,
                          "orrery.device: there is no device %lld; this run has %u, counted from 0 "
                          "(--devices)",
                          (long long)number, count);
    struct orr__handle *handle = orr__push_handle(L, ORR__DEVICE, NULL);
    handle->number = (uint32_t)number;
    return 1;
}

static int device_text(lua_State *L) {
    lua_pushfstring(L, "device %d", (int)orr__device(L, 1));
    return 1;
}

static int device_index(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)orr__device(L, 1));
    return 1;
}

static int device_name(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    lua_pushstring(L, orr_runtime_spec(orr__scenario_of(L)->runtime, device)->name);
    return 1;
}

static int device_sync(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    const struct orr_scenario *scenario = orr__caller(L);
    return orr__finish(L, orr_device_sync(scenario->runtime, device), 1, 0, device_sync);
}

static void set_count(lua_State *L, const char *key, uint64_t value) {
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, key);
}

static int device_memory(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    struct orr_memory_usage usage = orr_device_memory(orr__scenario_of(L)->runtime, device);
    lua_newtable(L);
    set_count(L, "capacity", usage.capacity);
    set_count(L, "reserved", usage.reserved);
    set_count(L, "allocated", usage.allocated);
    set_count(L, "requested", usage.requested);
    set_count(L, "allocated_peak", usage.allocated_peak);
    set_count(L, "reserved_peak", usage.reserved_peak);
    set_count(L, "fragmentation", usage.fragmentation);
    set_count(L, "alloc_count", usage.alloc_count);
    set_count(L, "reuse_count", usage.reuse_count);
    lua_newtable(L);
    for (int role = 0; role < ORR_ROLE_COUNT; role++) {
        lua_newtable(L);
        set_count(L, "used", usage.roles[role].used);
        set_count(L, "peak", usage.roles[role].peak);
        lua_setfield(L, -2, orr_role_text((enum orr_role)role));
    }
    lua_setfield(L, -2, "roles");
    return 1;
}

void orr__open_orrery(lua_State *L) {
    static const luaL_Reg functions[] = {{"args", orrery_args}, {"device", orrery_device},
                                         {"now", orrery_now},   {"spend", orrery_spend},
                                         {"host", orrery_host}, {"join", orrery_join},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"index", device_index},
                                       {"name", device_name},
                                       {"sync", device_sync},
                                       {"memory", device_memory},
                                       {"stream", orr__device_stream},
                                       {"alloc", orr__device_alloc},
                                       {"legacy", orr__device_legacy},
                                       {"copy_sync", orr__device_copy_sync},
                                       {"fill_sync", orr__device_fill_sync},
                                       {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_getglobal(L, "print");
    lua_setfield(L, -2, "print");
    luaL_newlib(L, methods);
    orr__class(L, ORR__DEVICE, device_text);
}
