#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* orrery.perturb: what is to go slower, fail or be lost (runtime/perturb.h). */

static void check(lua_State *L, enum orr_status status, const struct orr_error *error) {
    if (status != ORR_OK)
        (void)orr__raise(L, status, "orrery.%s", error->text);
}

static void number_text(lua_Number value, char *text, size_t size) {
    static const char zeros[] = ".000000";
    if (value < 0 || value > 1e15 || value != value) { /* nothing that is meant */
        snprintf(text, size, "%s", value != value ? "nan" : value < 0 ? "below 0" : "above 10^15");
        return;
    }
    snprintf(text, size, "%.6f", value);
    size_t length = strlen(text), end = length - (sizeof zeros - 1);
    if (strcmp(text + end, zeros) == 0)
        text[end] = '\0'; /* a whole number, as 1e6 is one */
}

/* The value at the top as it would stand on the command line; pops it. */
static void take_text(lua_State *L, const char *key, char *text, size_t size) {
    int type = lua_type(L, -1);
    if (lua_isinteger(L, -1))
        snprintf(text, size, "%lld", (long long)lua_tointeger(L, -1));
    else if (type == LUA_TNUMBER)
        number_text(lua_tonumber(L, -1), text, size);
    else if (type == LUA_TSTRING && lua_rawlen(L, -1) < size)
        snprintf(text, size, "%s", lua_tostring(L, -1));
    else
        (void)orr__raise(L, ORR_INVALID,
                         "orrery.perturb: %s: expected a number or a short text, got %s", key,
                         luaL_typename(L, -1));
    lua_pop(L, 1);
}

/* Pushes the keys of the table at an absolute index, in order; they must be texts. */
static lua_Integer push_keys(lua_State *L, int index) {
    lua_pushcfunction(L, orr__sorted_keys);
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= count; i++) {
        if (lua_rawgeti(L, -1, i) != LUA_TSTRING)
            (void)orr__raise(L, ORR_INVALID,
                             "orrery.perturb: expected names, as in { jitter = 0.1 }");
        lua_pop(L, 1);
    }
    return count;
}

/* One rule: its value, a figure or a table of fields, is on top; pops it. */
static void add_rule(lua_State *L, struct orr_perturb *perturb, const char *key) {
    struct orr_perturb_rule *rule;
    struct orr_error error = {0};
    char text[ORR_PERTURB_TEXT_MAX];
    check(L, orr_perturb_begin(perturb, key, &rule, &error), &error);
    if (!lua_istable(L, -1)) {
        take_text(L, key, text, sizeof text);
        check(L, orr_perturb_set(rule, "", text, &error), &error);
        check(L, orr_perturb_end(rule, &error), &error);
        return;
    }
    int fields = lua_gettop(L);
    lua_Integer count = push_keys(L, fields);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, fields + 1, i);
        const char *field = lua_tostring(L, -1); /* the table of keys keeps it alive */
        lua_gettable(L, fields);
        take_text(L, field, text, sizeof text);
        check(L, orr_perturb_set(rule, field, text, &error), &error);
    }
    check(L, orr_perturb_end(rule, &error), &error);
    lua_settop(L, fields - 1);
}

/* The value of a key: a rule, or a list of them; pops it. */
static void add_rules(lua_State *L, struct orr_perturb *perturb, const char *key) {
    int value = lua_gettop(L);
    lua_Integer count = lua_istable(L, value) ? (lua_Integer)lua_rawlen(L, value) : 0;
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, value, i);
        if (!lua_istable(L, -1))
            (void)orr__raise(L, ORR_INVALID, "orrery.perturb: %s: expected a list of tables", key);
        add_rule(L, perturb, key);
    }
    if (count == 0)
        add_rule(L, perturb, key);
    else
        lua_pop(L, 1);
}

/* orrery.perturb{ jitter = 0.1, straggler = { device = 3, by = 1.5 }, ... }, or the text of
 * `orrery run --perturb`. */
static int orrery_perturb(lua_State *L) {
    struct orr_perturb perturb = {0};
    struct orr_error error = {0};
    lua_settop(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING) {
        check(L, orr_perturb_parse(&perturb, lua_tostring(L, 1), &error), &error);
    } else {
        luaL_checktype(L, 1, LUA_TTABLE);
        lua_Integer count = push_keys(L, 1);
        for (lua_Integer i = 1; i <= count; i++) {
            lua_rawgeti(L, 2, i);
            const char *key = lua_tostring(L, -1); /* the table of keys keeps it alive */
            lua_gettable(L, 1);
            add_rules(L, &perturb, key);
        }
    }
    const struct orr_scenario *scenario = orr__caller(L);
    enum orr_status status = orr_runtime_perturb(scenario->runtime, &perturb);
    return status == ORR_OK ? 0 : orr__raise_runtime(L, status);
}

void orr__open_perturb(lua_State *L) {
    static const luaL_Reg functions[] = {{"perturb", orrery_perturb}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
