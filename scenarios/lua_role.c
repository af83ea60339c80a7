/* What memory is for: orrery.role, t:role, b:role. */
#include "runtime/role.h"

#include "scenarios/tensor_internal.h"

static enum orr_role role_at(lua_State *L, int index, const char *what) {
    const char *names[ORR_ROLE_COUNT];
    for (int i = 0; i < ORR_ROLE_COUNT; i++) {
        names[i] = orr_role_text((enum orr_role)i);
    }
    if (lua_type(L, index) != LUA_TSTRING) {
        orr__raise(L, ORR_INVALID, "%s: expected the name of a role, got %s", what,
                   luaL_typename(L, index));
    }
    return (enum orr_role)orr__choice(L, "role", lua_tostring(L, index), names, ORR_ROLE_COUNT);
}

/* The stack: the host whose role it was, its role before, results or an error. */
static int role_end(lua_State *L, int status, lua_KContext context) {
    (void)context;
    struct orr_runtime *runtime = orr__scenario_of(L)->runtime;
    (void)orr_runtime_set_role(runtime, (uint32_t)lua_tointeger(L, 1),
                               (enum orr_role)lua_tointeger(L, 2));
    bool failed = status != LUA_OK && status != LUA_YIELD;
    return failed ? lua_error(L) : lua_gettop(L) - 2;
}

/* orrery.role(name, f, ...): calls f(...); what the host allocates meanwhile has this role. */
static int orrery_role(lua_State *L) {
    enum orr_role role = role_at(L, 1, "orrery.role");
    if (!lua_isfunction(L, 2) && !orr__is_handle(L, 2, ORR__COMPILED)) {
        return orr__raise(L, ORR_INVALID, "orrery.role: expected a function, got %s",
                          luaL_typename(L, 2));
    }
    const struct orr_scenario *scenario = orr__scenario_of(L);
    uint32_t host = scenario->hosts[scenario->running].id;
    lua_remove(L, 1);
    lua_pushinteger(L, (lua_Integer)host);
    lua_insert(L, 1);
    lua_pushinteger(L, (lua_Integer)orr_runtime_set_role(scenario->runtime, host, role));
    lua_insert(L, 2);
    int status = lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 0, 0, role_end);
    return role_end(L, status, 0);
}

/* t:role(): its name; t:role(name): counts under it from now on, returns t. */
int orr__tensor_role(lua_State *L) {
    struct orr_tensor *tensor = orr__tensor(L, 1, "role");
    if (lua_isnoneornil(L, 2)) {
        lua_pushstring(L, orr_role_text(orr_tensor_role(tensor)));
        return 1;
    }
    enum orr_role role = role_at(L, 2, "role");
    lua_settop(L, 2);
    orr__caller(L);
    enum orr_status status = orr_tensor_set_role(tensor, role);
    if (status == ORR_OK) {
        lua_pushvalue(L, 1);
    }
    return orr__finish(L, status, 2, 1, orr__tensor_role);
}

/* The same for buffers. */
int orr__buffer_role(lua_State *L) {
    struct orr_buffer *buffer = orr__buffer(L, 1, "role");
    if (lua_isnoneornil(L, 2)) {
        lua_pushstring(L, orr_role_text(orr_buffer_role(buffer)));
        return 1;
    }
    enum orr_role role = role_at(L, 2, "role");
    lua_settop(L, 2);
    orr__stream_caller(L);
    enum orr_status status = orr_buffer_set_role(buffer, role);
    if (status == ORR_OK) {
        lua_pushvalue(L, 1);
    }
    return orr__finish(L, status, 2, 1, orr__buffer_role);
}

void orr__open_roles(lua_State *L) {
    lua_pushcfunction(L, orrery_role);
    lua_setfield(L, -2, "role");
}
