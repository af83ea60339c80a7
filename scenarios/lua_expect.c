#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* Expectations. Those about values are judged here and now, and kept with their outcome; those
 * about the trace are kept for whoever can read it (cli/judge.c). */

/* A text that an expectation owns, or NULL when out of memory; each expectation has one block that
 * holds all its texts, so that freeing `text` frees them. */
static char *pack(const struct orr_memory *memory, struct orr_expectation *expectation) {
    size_t text = strlen(expectation->text) + 1, name = strlen(expectation->name) + 1;
    size_t site = strlen(expectation->site) + 1, call = strlen(expectation->call) + 1;
    char *block = orr_memory_alloc(memory, text + name + site + call);
    if (!block)
        return NULL;
    memcpy(block, expectation->text, text);
    memcpy(block + text, expectation->name, name);
    memcpy(block + text + name, expectation->site, site);
    memcpy(block + text + name + site, expectation->call, call);
    expectation->text = block;
    expectation->name = block + text;
    expectation->site = block + text + name;
    expectation->call = block + text + name + site;
    return block;
}

static int add(lua_State *L, struct orr_expectation expectation) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    char site[ORR__SITE_MAX];
    orr__site(L, site, sizeof site);
    expectation.site = site;
    expectation.name = expectation.name ? expectation.name : "";
    expectation.text = expectation.text ? expectation.text : "";
    enum orr_status status =
        orr_memory_grow(scenario->memory, &scenario->expectations, &scenario->expectation_capacity,
                        scenario->expectation_count + 1, sizeof expectation, ORR__EXPECTATIONS_MAX);
    if (status != ORR_OK || !pack(scenario->memory, &expectation))
        return orr__raise(L, ORR_NO_MEMORY, "out of host memory for an expectation");
    scenario->expectations[scenario->expectation_count++] = expectation;
    return 0;
}

static int add_value(lua_State *L, const char *call, bool passed, const char *text) {
    return add(L, (struct orr_expectation){
                      .kind = ORR_EXPECT_VALUE, .passed = passed, .call = call, .text = text});
}

/* --- values --- */

/* Pushes a short text of a value: texts are quoted, long ones cut. */
static const char *show(lua_State *L, int index) {
    if (lua_type(L, index) != LUA_TSTRING)
        return orr__tostring(L, index);
    size_t length;
    const char *text = lua_tolstring(L, index, &length);
    if (length <= 60)
        return lua_pushfstring(L, "'%s'", text);
    lua_pushlstring(L, text, 60);
    return lua_pushfstring(L, "'%s...'", lua_tostring(L, -1));
}

static bool close_enough(double got, double wanted, double tolerance) {
    if (isnan(got) || isnan(wanted))
        return false;
    double scale = fabs(wanted) > 1 ? fabs(wanted) : 1;
    return got == wanted || fabs(got - wanted) <= tolerance * scale;
}

/* Compares two numbers, or two arrays of numbers element by element, and describes the first pair
 * that differs. */
static bool compare_numbers(lua_State *L, const char *call, double tolerance, char *text,
                            size_t size) {
    if (!lua_istable(L, 1) && !lua_istable(L, 2)) {
        double got = orr__number(L, 1, call), wanted = orr__number(L, 2, call);
        snprintf(text, size, "got %.9g, wanted %.9g within %.3g", got, wanted, tolerance);
        return close_enough(got, wanted, tolerance);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    bool list = lua_istable(L, 2); /* else every element is compared with the one number */
    lua_Unsigned count = lua_rawlen(L, 1);
    if (list && count != lua_rawlen(L, 2)) {
        snprintf(text, size, "got %llu values, wanted %llu", (unsigned long long)count,
                 (unsigned long long)lua_rawlen(L, 2));
        return false;
    }
    for (lua_Unsigned i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        if (list)
            lua_rawgeti(L, 2, (lua_Integer)i);
        else
            lua_pushvalue(L, 2);
        double got = orr__number(L, -2, call), wanted = orr__number(L, -1, call);
        lua_pop(L, 2);
        if (!close_enough(got, wanted, tolerance)) {
            snprintf(text, size, "value %llu of %llu: got %.9g, wanted %.9g within %.3g",
                     (unsigned long long)i, (unsigned long long)count, got, wanted, tolerance);
            return false;
        }
    }
    snprintf(text, size, "%llu values within %.3g", (unsigned long long)count, tolerance);
    return true;
}

/* Is the table 1..n, all of them numbers? */
static bool is_number_array(lua_State *L, int index) {
    lua_Unsigned count = 0, length = lua_rawlen(L, index);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1), count++)
        if (!lua_isinteger(L, -2) || lua_type(L, -1) != LUA_TNUMBER || count == length) {
            lua_pop(L, 2);
            return false;
        }
    return count == length;
}

/* What of two tables differs first, in the order of pairs. */
struct difference {
    char path[128]; /* of the values at hand: ".a[3]" */
    char text[256];
};

static bool same_values(lua_State *L, int got, int wanted, int depth,
                        struct difference *difference);

/* Appends the key at `index` to the path; returns the length before it. */
static size_t enter_key(lua_State *L, int index, struct difference *difference) {
    size_t length = strlen(difference->path), left = sizeof difference->path - length;
    bool word = lua_type(L, index) == LUA_TSTRING;
    lua_pushvalue(L, index); /* a number that becomes a text is no key any more */
    snprintf(difference->path + length, left, word ? ".%s" : "[%s]", orr__tostring(L, -1));
    return length;
}

/* Compares at the keys of the table `keys_of`, one of the two. */
static bool same_at_keys(lua_State *L, int got, int wanted, int keys_of, int depth,
                         struct difference *difference) {
    int top = lua_gettop(L);
    lua_pushcfunction(L, orr__sorted_keys);
    lua_pushvalue(L, keys_of);
    lua_call(L, 1, 1);
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    bool same = true;
    for (lua_Integer i = 1; i <= count && same; i++) {
        lua_settop(L, top + 1);
        lua_rawgeti(L, top + 1, i);
        lua_pushvalue(L, top + 2);
        lua_rawget(L, got);
        lua_pushvalue(L, top + 2);
        lua_rawget(L, wanted);
        size_t length = enter_key(L, top + 2, difference);
        same = same_values(L, top + 3, top + 4, depth + 1, difference);
        if (same)
            difference->path[length] = '\0';
    }
    lua_settop(L, top);
    return same;
}

/* Tables are equal when they have equal values at equal keys; all else is compared raw. */
static bool same_values(lua_State *L, int got, int wanted, int depth,
                        struct difference *difference) {
    enum { DEPTH_MAX = 64 };
    if (lua_rawequal(L, got, wanted))
        return true;
    luaL_checkstack(L, 16, "too deep to compare");
    if (!lua_istable(L, got) || !lua_istable(L, wanted)) {
        snprintf(difference->text, sizeof difference->text, "%s%sgot %s, wanted %s",
                 difference->path, difference->path[0] ? ": " : "", show(L, got), show(L, wanted));
        return false;
    }
    if (depth == DEPTH_MAX)
        orr__raise(L, ORR_INVALID, "expect.equal: tables nested more than %d deep", DEPTH_MAX);
    return same_at_keys(L, got, wanted, wanted, depth, difference) &&
           same_at_keys(L, got, wanted, got, depth, difference);
}

/* expect.equal's and expect.different's comparison of the values 1 and 2. */
static bool equal_values(lua_State *L, char *text, size_t size) {
    if (lua_istable(L, 1) && lua_istable(L, 2) && is_number_array(L, 1) && is_number_array(L, 2))
        return compare_numbers(L, "expect.equal", 0, text, size);
    struct difference difference = {.path = ""};
    bool same = same_values(L, 1, 2, 0, &difference);
    if (!same)
        snprintf(text, size, "%s", difference.text);
    else
        snprintf(text, size, "got %s, wanted %s", show(L, 1), show(L, 2));
    return same;
}

static double tolerance_at(lua_State *L, int index, const char *call, double wanted) {
    if (lua_isnoneornil(L, index))
        return wanted;
    double tolerance = orr__number(L, index, call);
    if (!(tolerance >= 0))
        orr__raise(L, ORR_INVALID, "%s: the tolerance must be 0 or more, got %.14g", call,
                   tolerance);
    return tolerance;
}

/* expect.close(got, wanted[, tolerance]): |got - wanted| <= tolerance * max(1, |wanted|). */
static int expect_close(lua_State *L) {
    char text[256];
    double tolerance = tolerance_at(L, 3, "expect.close", 1e-6);
    bool passed = compare_numbers(L, "expect.close", tolerance, text, sizeof text);
    return add_value(L, "expect.close", passed, text);
}

/* expect.time_ns(got, wanted[, tolerance]): |got - wanted| <= tolerance * wanted. */
static int expect_time_ns(lua_State *L) {
    double got = orr__number(L, 1, "expect.time_ns"), wanted = orr__number(L, 2, "expect.time_ns");
    double tolerance = tolerance_at(L, 3, "expect.time_ns", 0);
    char text[256];
    snprintf(text, sizeof text, "got %.14g ns, wanted %.14g ns within %.4g %%", got, wanted,
             tolerance * 100);
    bool passed = fabs(got - wanted) <= tolerance * fabs(wanted);
    return add_value(L, "expect.time_ns", passed, text);
}

/* expect.equal(got, wanted): raw equality of numbers, texts, booleans, nil and handles; tables
 * are equal when their keys are and, in turn, the values there. */
static int expect_equal(lua_State *L) {
    lua_settop(L, 2);
    char text[256];
    bool passed = equal_values(L, text, sizeof text);
    return add_value(L, "expect.equal", passed, text);
}

/* expect.different(got, unwanted): the opposite of expect.equal. */
static int expect_different(lua_State *L) {
    lua_settop(L, 2);
    char text[256], ignored[256];
    bool equal = equal_values(L, ignored, sizeof ignored);
    snprintf(text, sizeof text, "got %s, wanted another value than %s", show(L, 1), show(L, 2));
    return add_value(L, "expect.different", !equal, text);
}

/* expect.less(a, b): a < b. */
static int expect_less(lua_State *L) {
    double got = orr__number(L, 1, "expect.less"), bound = orr__number(L, 2, "expect.less");
    char text[256];
    snprintf(text, sizeof text, "got %.14g, wanted less than %.14g", got, bound);
    return add_value(L, "expect.less", got < bound, text);
}

/* --- the trace --- */

static int expect_clean(lua_State *L) {
    return add(L, (struct orr_expectation){.kind = ORR_EXPECT_CLEAN, .call = "expect.clean"});
}

static int expect_finding(lua_State *L) {
    const char *kind = luaL_checkstring(L, 1);
    return add(L, (struct orr_expectation){
                      .kind = ORR_EXPECT_FINDING, .call = "expect.finding", .name = kind});
}

static int expect_phase(lua_State *L) {
    static const char *const classes[] = {"compute-bound",       "memory-bound", "latency-bound",
                                          "communication-bound", "copy-bound",   "launch-bound",
                                          "host-stalled",        "no-cost",      "idle"};
    int64_t count = (int64_t)orr_runtime_device_count(orr__scenario_of(L)->runtime);
    int64_t device = orr__integer(L, 1, "expect.phase: device", 0, count - 1);
    const char *name = luaL_checkstring(L, 2);
    orr__choice(L, "class of phase", name, classes, sizeof classes / sizeof classes[0]);
    return add(L, (struct orr_expectation){.kind = ORR_EXPECT_PHASE,
                                           .call = "expect.phase",
                                           .name = name,
                                           .device = (uint32_t)device});
}

/* expect.analysis(path, value[, tolerance]): `path` in the document of `orrery analyze --json`, as
 * in "devices[0].idle.launch"; numbers within a relative tolerance. */
static int expect_analysis(lua_State *L) {
    struct orr_expectation expectation = {
        .kind = ORR_EXPECT_ANALYSIS, .call = "expect.analysis", .name = luaL_checkstring(L, 1)};
    luaL_checkany(L, 2);
    expectation.tolerance = tolerance_at(L, 3, "expect.analysis", 0);
    expectation.is_text = lua_type(L, 2) != LUA_TNUMBER;
    if (expectation.is_text)
        expectation.text = orr__tostring(L, 2);
    else
        expectation.number = lua_tonumber(L, 2);
    return add(L, expectation);
}

void orr__open_expect(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"close", expect_close},       {"time_ns", expect_time_ns},
        {"equal", expect_equal},       {"different", expect_different},
        {"less", expect_less},         {"clean", expect_clean},
        {"finding", expect_finding},   {"phase", expect_phase},
        {"analysis", expect_analysis}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
