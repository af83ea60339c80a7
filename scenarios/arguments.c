#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

static int count_names(const char *const *names) {
    int count = 0;
    while (names[count])
        count++;
    return count;
}

static bool known_name(const char *word, const char *const *names) {
    for (int i = 0; names[i]; i++)
        if (strcmp(word, names[i]) == 0)
            return true;
    return false;
}

void orr__check_keys(lua_State *L, int index, const char *function, const char *const *names) {
    if (!lua_istable(L, index))
        orr__raise(L, ORR_INVALID, "%s takes a table of named arguments, got %s", function,
                   luaL_typename(L, index));
    /* Of several unknown keys the first in the alphabet is named: lua_next has no order of its
     * own. */
    const char *unknown = NULL;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            orr__raise(L, ORR_INVALID, "%s takes named arguments only, such as '%s ='", function,
                       names[0]);
        const char *key = lua_tostring(L, -2);
        if (!known_name(key, names) && (!unknown || strcmp(key, unknown) < 0))
            unknown = key;
    }
    if (unknown) {
        char hint[ORR_ERROR_TEXT_MAX];
        orr__suggest(hint, sizeof hint, unknown, names, count_names(names));
        orr__raise(L, ORR_INVALID, "unknown key '%s' in %s%s", unknown, function, hint);
    }
}

int64_t orr__integer(lua_State *L, int index, const char *what, int64_t min, int64_t max) {
    int whole = 0;
    lua_Integer value = lua_tointegerx(L, index, &whole);
    if (!whole || lua_type(L, index) != LUA_TNUMBER) {
        if (lua_type(L, index) == LUA_TNUMBER)
            orr__raise(L, ORR_INVALID, "%s: expected a whole number below 2^63, got %.14g", what,
                       (double)lua_tonumber(L, index));
        orr__raise(L, ORR_INVALID, "%s: expected a whole number, got %s", what,
                   luaL_typename(L, index));
    }
    if (value < min || value > max)
        orr__raise(L, ORR_INVALID, "%s: %lld is not within %lld and %lld", what, (long long)value,
                   (long long)min, (long long)max);
    return value;
}

double orr__number(lua_State *L, int index, const char *what) {
    if (lua_type(L, index) != LUA_TNUMBER)
        orr__raise(L, ORR_INVALID, "%s: expected a number, got %s", what, luaL_typename(L, index));
    return lua_tonumber(L, index);
}

/* "kernel: flops" */
static const char *field_name(char *text, size_t size, const char *function, const char *key) {
    snprintf(text, size, "%s: %s", function, key);
    return text;
}

int64_t orr__field_integer(lua_State *L, int index, const char *function, const char *key,
                           int64_t min, int64_t max, int64_t wanted) {
    char what[128];
    int64_t value = wanted;
    if (lua_getfield(L, index, key) != LUA_TNIL)
        value = orr__integer(L, -1, field_name(what, sizeof what, function, key), min, max);
    lua_pop(L, 1);
    return value;
}

const char *orr__field_text(lua_State *L, int index, const char *function, const char *key,
                            const char *wanted) {
    const char *value = wanted;
    int type = lua_getfield(L, index, key);
    if (type == LUA_TSTRING)
        value = lua_tostring(L, -1); /* the table keeps it alive */
    else if (type != LUA_TNIL)
        orr__raise(L, ORR_INVALID, "%s: %s: expected a text, got %s", function, key,
                   lua_typename(L, type));
    lua_pop(L, 1);
    return value;
}

bool orr__field_flag(lua_State *L, int index, const char *function, const char *key, bool wanted) {
    int type = lua_getfield(L, index, key);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        orr__raise(L, ORR_INVALID, "%s: %s: expected true or false, got %s", function, key,
                   lua_typename(L, type));
    bool value = type == LUA_TNIL ? wanted : lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

enum orr_dtype orr__dtype(lua_State *L, const char *what, const char *name) {
    enum orr_dtype dtype = ORR_DTYPE_NONE;
    if (orr_dtype_parse(name, &dtype) != ORR_OK) {
        const char *names[ORR_DTYPE_COUNT];
        for (int i = 0; i < ORR_DTYPE_COUNT; i++)
            names[i] = orr_dtype_name((enum orr_dtype)i);
        char hint[ORR_ERROR_TEXT_MAX];
        orr__suggest(hint, sizeof hint, name, names, ORR_DTYPE_COUNT);
        orr__raise(L, ORR_INVALID, "%s: unknown dtype '%s'%s", what, name, hint);
    }
    return dtype;
}

enum orr_dtype orr__field_dtype(lua_State *L, int index, const char *function, const char *key,
                                enum orr_dtype wanted) {
    const char *name = orr__field_text(L, index, function, key, NULL);
    return name ? orr__dtype(L, function, name) : wanted;
}

int orr__choice(lua_State *L, const char *what, const char *word, const char *const *names,
                int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    char hint[ORR_ERROR_TEXT_MAX];
    orr__suggest(hint, sizeof hint, word, names, count);
    return orr__raise(L, ORR_INVALID, "unknown %s '%s'%s", what, word, hint);
}

/* {buffer, lo, hi}; the table is at an absolute index. */
static struct orr_range range_of_table(lua_State *L, int index, const char *what) {
    lua_Unsigned length = lua_rawlen(L, index);
    if (length != 3)
        orr__raise(L, ORR_INVALID,
                   "%s: expected a buffer or {buffer, lo, hi}, got a table of %llu values", what,
                   (unsigned long long)length);
    lua_rawgeti(L, index, 1);
    struct orr_buffer *buffer = orr__buffer(L, lua_gettop(L), what);
    int64_t bytes = (int64_t)orr_buffer_bytes(buffer);
    lua_rawgeti(L, index, 2);
    int64_t low = orr__integer(L, -1, what, 0, bytes);
    lua_rawgeti(L, index, 3);
    int64_t high = orr__integer(L, -1, what, low, bytes);
    lua_pop(L, 3);
    return (struct orr_range){.buffer = buffer,
                              .offset = (uint64_t)low,
                              .bytes = (uint64_t)(high - low),
                              .mode = ORR_ACCESS_READ};
}

struct orr_range orr__range(lua_State *L, int index, const char *what) {
    int at = lua_absindex(L, index);
    if (lua_istable(L, at))
        return range_of_table(L, at, what);
    struct orr_buffer *buffer = orr__buffer(L, at, what);
    return (struct orr_range){
        .buffer = buffer, .offset = 0, .bytes = orr_buffer_bytes(buffer), .mode = ORR_ACCESS_READ};
}
