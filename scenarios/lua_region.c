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

/* One tracing of a function, which the runtime asks for. */
struct trace {
    lua_State *L;
    int function; /* stack index of the Lua function */
    bool failed;  /* with the error on the Lua stack */
    struct orr_tensor *const *inputs;
    struct orr_tensor **outputs;
    int input_count, output_max, output_count;
};

/* Protected: calls the function at index 1 for the trace at index 2. */
static int trace_function(lua_State *L) {
    struct trace *trace = lua_touserdata(L, 2);
    luaL_checkstack(L, trace->input_count + 8, "compiled function");
    lua_pushvalue(L, 1);
    for (int i = 0; i < trace->input_count; i++) {
        orr__push_tensor(L, orr_tensor_retain(trace->inputs[i]));
    }
    lua_call(L, trace->input_count, LUA_MULTRET);
    int count = lua_gettop(L) - 2;
    for (int i = 0; i < count; i++) {
        const struct orr__handle *handle = luaL_testudata(L, 3 + i, ORR__TENSOR);
        if (count > trace->output_max || !handle || !handle->pointer) {
            return orr__raise(L, ORR_INVALID,
                              "a compiled function must return live tensors only, at most %d",
                              trace->output_max);
        }
    }
    for (int i = 0; i < count; i++) {
        trace->outputs[i] = orr_tensor_retain(orr__tensor(L, 3 + i, "compiled function"));
    }
    trace->output_count = count;
    return 0;
}

/* An orr_traced. Everything that may raise runs protected: no error may jump over the runtime. */
static enum orr_status call_lua(void *context, struct orr_tensor *const *inputs, int input_count,
                                struct orr_tensor **outputs, int output_max,
                                int *out_output_count) {
    struct trace *trace = context;
    lua_State *L = trace->L;
    trace->inputs = inputs;
    trace->input_count = input_count;
    trace->outputs = outputs;
    trace->output_max = output_max;
    lua_pushcfunction(L, trace_function);
    lua_pushvalue(L, trace->function);
    lua_pushlightuserdata(L, trace);
    trace->failed = lua_pcall(L, 2, 0, 0) != LUA_OK;
    *out_output_count = trace->output_count;
    return trace->failed ? ORR_INVALID : ORR_OK;
}

/* Frees the handles that were made while tracing: the program owns what it needs. */
static int compiled_call(lua_State *L) {
    struct orr_compiled *compiled = compiled_at(L, 1, "compiled function");
    struct orr_tensor *inputs[ORR_REGION_OPERANDS_MAX], *outputs[ORR_REGION_OPERANDS_MAX];
    int top = lua_gettop(L), count = top - 1;
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
    for (int i = 0; status == ORR_OK && i < made; i++) {
        orr__push_tensor(L, outputs[i]);
    }
    return orr__finish(L, status, top, made, compiled_call);
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
