/* Scenarios that are run many times: what one run leaves must not reach the next.
 *
 *     program's globals   {}  --__index-->  the sandbox's
 *     math, string, ...   {}  --__index-->  the library's, read-only
 *
 * Both tables in front are emptied after a run, which costs nothing if nobody has written to them;
 * so is what the registry keeps for one run. */
#include "scenarios/scenario_internal.h"

/* In the registry: lists of the tables that a run may have written to; to those of the second only
 * by rawset. */
#define WRITABLE     "orrery.writable"
#define RAW_WRITABLE "orrery.raw_writable"

enum { STREAM_HANDLES_MAX = 1024 }; /* kept for further runs */

static const char *const library_tables[] = {"string", "table", "math", "utf8", "coroutine", NULL};
static const char *const modules[] = {"orrery", "expect", NULL};
static const char *const of_a_run[] = {ORR__MESHES, ORR__SCOPES, ORR__MODULES, NULL};

static int refuse(lua_State *L) {
    return orr__raise(L, ORR_INVALID, "'%s' can't be changed in a scenario that is run many times",
                      lua_tostring(L, lua_upvalueindex(1)));
}

/* Replaces the table on top by an empty one in front of it. */
static void put_in_front(lua_State *L, const char *name) {
    lua_newtable(L);
    lua_newtable(L);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    if (name) {
        lua_pushstring(L, name);
        lua_pushcclosure(L, refuse, 1);
        lua_setfield(L, -2, "__newindex");
    }
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* Puts the table on top, which it leaves there, into the list at `list`. */
static void note_writable(lua_State *L, int list) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* The methods of texts are those of the library's own table, which a program could get at. */
static void guard_texts(lua_State *L) {
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1)) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static int noted_rawset(lua_State *L) {
    orr__scenario_of(L)->has_rawset = true;
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Puts those of the standard library behind read-only ones; all into the list on top. */
static void open_read_only(lua_State *L) {
    int list = lua_gettop(L);
    for (int i = 0; library_tables[i]; i++) {
        lua_getglobal(L, library_tables[i]);
        put_in_front(L, library_tables[i]);
        note_writable(L, list);
        lua_setglobal(L, library_tables[i]);
    }
    for (int i = 0; modules[i]; i++) {
        lua_getglobal(L, modules[i]);
        note_writable(L, list);
        lua_pop(L, 1);
    }
    lua_getglobal(L, "rawset");
    lua_pushcclosure(L, noted_rawset, 1);
    lua_setglobal(L, "rawset");
}

void orr__repeat_open(lua_State *L) {
    lua_newtable(L);
    open_read_only(L);
    lua_setfield(L, LUA_REGISTRYINDEX, RAW_WRITABLE);
    lua_newtable(L);
    int list = lua_gettop(L);
    for (int i = 0; of_a_run[i]; i++) {
        lua_getfield(L, LUA_REGISTRYINDEX, of_a_run[i]);
        note_writable(L, list);
        lua_pop(L, 1);
    }
    guard_texts(L);
    lua_pushglobaltable(L);
    lua_pushvalue(L, -1);
    put_in_front(L, NULL);
    note_writable(L, list);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "_G"); /* the program's _G is its own */
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pop(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, WRITABLE);
}

/* Empties the table on top. */
static void empty(lua_State *L) {
    for (lua_pushnil(L); lua_next(L, -2);) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, -4);
    }
}

static void empty_all(lua_State *L, const char *list) {
    lua_getfield(L, LUA_REGISTRYINDEX, list);
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, i);
        empty(L);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* Handles of streams are told apart by the number of their run, and made again in the next one. */
static void end_streams(lua_State *L, struct orr_scenario *scenario) {
    scenario->run++;
    if (scenario->run != 0 && scenario->stream_count <= STREAM_HANDLES_MAX)
        return;
    lua_getfield(L, LUA_REGISTRYINDEX, ORR__STREAMS);
    empty(L);
    lua_pop(L, 1);
    scenario->stream_count = 0;
}

int orr__repeat_clear(lua_State *L) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    empty_all(L, WRITABLE);
    end_streams(L, scenario);
    if (scenario->has_rawset)
        empty_all(L, RAW_WRITABLE);
    scenario->has_rawset = false;
    return 0;
}
