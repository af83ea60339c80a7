#include <string.h>

#include "scenarios/scenario_internal.h"

/* The __index of a class or module: upvalue 1 holds its functions, upvalue 2 its name. A name that
 * is not there is an error, so that a misspelt method does not read as nil. */
static int index_known(lua_State *L) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
        return 1;
    const char *names[256];
    int count = 0;
    for (lua_pushnil(L); lua_next(L, lua_upvalueindex(1)); lua_pop(L, 1))
        if (count < 256 && lua_type(L, -2) == LUA_TSTRING)
            names[count++] = lua_tostring(L, -2);
    const char *module = lua_tostring(L, lua_upvalueindex(2));
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    const char *nearest = orr_nearest_name(key, names, count);
    if (nearest)
        return orr__raise(L, ORR_INVALID, "%s has no '%s'; did you mean '%s'?", module, key,
                          nearest);
    return orr__raise(L, ORR_INVALID, "%s has no '%s'", module, key);
}

/* Lets the table on top, which stays there, answer for names that it does not have: as an __index
 * it is much faster than a function. */
static void answer_unknown(lua_State *L, const char *name) {
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, -2);
    lua_pushstring(L, name);
    lua_pushcclosure(L, index_known, 2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

static int deny_assignment(lua_State *L) {
    return orr__raise(L, ORR_INVALID, "%s can't be changed", lua_tostring(L, lua_upvalueindex(1)));
}

static void protect(lua_State *L, const char *name) {
    lua_pushstring(L, name);
    lua_pushcclosure(L, deny_assignment, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

void orr__class(lua_State *L, const char *kind, lua_CFunction text) {
    const char *name = strchr(kind, '.') + 1;
    luaL_newmetatable(L, kind);
    protect(L, name);
    lua_pushcfunction(L, text);
    lua_setfield(L, -2, "__tostring");
    lua_insert(L, -2);
    answer_unknown(L, name);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void orr__module_seal(lua_State *L, const char *name) {
    /* The functions are in the table on top; what scripts see is an empty one in front of it. */
    lua_newtable(L);
    lua_newtable(L);
    protect(L, name);
    lua_pushvalue(L, -3);
    answer_unknown(L, name);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

struct orr__handle *orr__push_handle(lua_State *L, const char *kind, void *pointer) {
    struct orr__handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
    *handle = (struct orr__handle){
        .pointer = pointer, .serial = orr__scenario_of(L)->handle_count++, .kind = kind};
    luaL_setmetatable(L, kind);
    return handle;
}

bool orr__is_handle(lua_State *L, int index, const char *kind) {
    return luaL_testudata(L, index, kind) != NULL;
}

/* "stream" for a handle of that kind, else the type. */
static const char *type_of(lua_State *L, int index) {
    if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) {
        const char *name = lua_tostring(L, -1); /* the metatable keeps it alive */
        const char *dot = strchr(name, '.');
        lua_pop(L, 1);
        return dot ? dot + 1 : name;
    }
    return lua_isnoneornil(L, index) ? "nothing" : luaL_typename(L, index);
}

struct orr__handle *orr__handle_of(lua_State *L, int index, const char *kind) {
    struct orr__handle *handle = lua_touserdata(L, index);
    if (handle && lua_rawlen(L, index) == sizeof *handle && handle->kind == kind)
        return handle;
    return luaL_testudata(L, index, kind);
}

struct orr__handle *orr__handle(lua_State *L, int index, const char *kind, const char *what) {
    struct orr__handle *handle = orr__handle_of(L, index, kind);
    if (!handle)
        orr__raise(L, ORR_INVALID, "%s: expected a %s, got %s", what, strchr(kind, '.') + 1,
                   type_of(L, index));
    return handle;
}
