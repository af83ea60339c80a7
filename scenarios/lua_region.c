/* orrery.fuse(f[, options]) and orrery.capture(f[, options]): compiled functions. */
#include <string.h>

#include "scenarios/tensor_internal.h"

static const char *const modes[] = {"off", "pointwise", "epilogue"};

/* The handle's user value 1 is the Lua function. */
static struct orr_compiled *compiled_at(lua_State *L, int index, const char *what) {
    return orr__handle(L, index, ORR__COMPILED, what)->pointer;
}

static int compile(lua_State *L, const char *function, bool capture) {
    static const char *const keys[] = {"fusion", "name", NULL};
    luaL_checktype(L, 1, LUA_TFUNCTION);
    const char *name = "function", *fusion = capture ? "off" : "pointwise";
    if (!lua_isnoneornil(L, 2)) {
        orr__check_keys(L, 2, function, keys);
        name = orr__field_text(L, 2, function, "name", name);
        fusion = orr__field_text(L, 2, function, "fusion", fusion);
    }
    int mode = orr__choice(L, "fusion", fusion, modes, 3);
    const struct orr_scenario *scenario = orr__caller(L);
    struct orr_compiled *compiled;
    enum orr_status status = orr_compiled_create(scenario->runtime, name,
                                                 (enum orr_fusion_mode)mode, capture, &compiled);
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    orr__push_handle(L, ORR__COMPILED, compiled);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static int orrery_fuse(lua_State *L) {
    return compile(L, "orrery.fuse", false);
}

static int orrery_capture(lua_State *L) {
    return compile(L, "orrery.capture", true);
}

static int compiled_text(lua_State *L) {
    lua_pushliteral(L, "compiled function");
    return 1;
}

static void set_count(lua_State *L, const char *key, uint64_t value) {
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, key);
}

static int compiled_counts(lua_State *L) {
    struct orr_compiled_counts counts = orr_compiled_counts(compiled_at(L, 1, "counts"));
    lua_newtable(L);
    set_count(L, "captures", counts.captures);
    set_count(L, "replays", counts.replays);
    set_count(L, "mismatches", counts.mismatches);
    set_count(L, "breaks", counts.breaks);
    return 1;
}

/* What the runtime calls to have the function traced. An error stays on the Lua stack. */
struct trace {
    lua_State *L;
    int function; /* stack index of the Lua function */
    bool failed;
};

static enum orr_status call_lua(void *context, struct orr_tensor *const *inputs, int input_count,
                                struct orr_tensor **outputs, int output_max,
                                int *out_output_count) {
    struct trace *trace = context;
    lua_State *L = trace->L;
    int base = lua_gettop(L);
    lua_pushvalue(L, trace->function);
    for (int i = 0; i < input_count; i++) {
        orr__push_tensor(L, orr_tensor_retain(inputs[i]));
    }
    if (lua_pcall(L, input_count, LUA_MULTRET, 0) != LUA_OK) {
        trace->failed = true;
        return ORR_INVALID;
    }
    int count = lua_gettop(L) - base;
    for (int i = 0; i < count; i++) {
        struct orr__handle *handle = luaL_testudata(L, base + 1 + i, ORR__TENSOR);
        if (i >= output_max || !handle || !handle->pointer) {
            while (i-- > 0) {
                orr_tensor_destroy(&outputs[i]);
            }
            lua_settop(L, base);
            trace->failed = true;
            lua_pushliteral(L, "a compiled function must return live tensors only");
            return ORR_INVALID;
        }
        outputs[i] = orr_tensor_retain(handle->pointer);
    }
    lua_settop(L, base);
    *out_output_count = count;
    return ORR_OK;
}

/* Frees the handles that were made while tracing: the program owns what it needs. */
static int compiled_call(lua_State *L) {
    struct orr_compiled *compiled = compiled_at(L, 1, "compiled function");
    struct orr_tensor *inputs[ORR_REGION_OPERANDS_MAX], *outputs[ORR_REGION_OPERANDS_MAX];
    int count = lua_gettop(L) - 1;
    if (count > ORR_REGION_OPERANDS_MAX) {
        return orr__raise(L, ORR_INVALID, "a compiled function takes at most %d tensors",
                          ORR_REGION_OPERANDS_MAX);
    }
    for (int i = 0; i < count; i++) {
        inputs[i] = orr__tensor(L, i + 2, "compiled function");
    }
    struct orr_scenario *scenario = orr__caller(L);
    luaL_checkstack(L, 3 * ORR_REGION_OPERANDS_MAX + 16, "compiled function");
    lua_getiuservalue(L, 1, 1);
    struct trace trace = {.L = L, .function = lua_gettop(L)};
    int made = 0;
    scenario->tracing = true;
    enum orr_status status = orr_compiled_call(compiled, inputs, count, call_lua, &trace, outputs,
                                               ORR_REGION_OPERANDS_MAX, &made);
    scenario->tracing = false;
    if (trace.failed) {
        return lua_error(L);
    }
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    for (int i = 0; i < made; i++) {
        orr__push_tensor(L, outputs[i]);
    }
    return made;
}

void orr__open_regions(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"fuse", orrery_fuse}, {"capture", orrery_capture}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"counts", compiled_counts}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, ORR__COMPILED, compiled_text);
    luaL_getmetatable(L, ORR__COMPILED);
    lua_pushcfunction(L, compiled_call);
    lua_setfield(L, -2, "__call");
    lua_pop(L, 1);
}
