/* Gradients by functions of the scenario, and recomputation.
 *
 *     local square = orrery.custom_gradient{
 *         forward = function(ctx, x) ctx:save{ x = x }; return x * x end,
 *         backward = function(ctx, dy) return dy * ctx.saved.x * 2 end }
 *     local y = square(x)
 *     local z = orrery.checkpoint(function(x) return orrery.gelu(x:matmul(w)) end, x)
 *
 * What a function needs until its gradient has been computed is a table in the registry, which the
 * tape's node owns:
 *
 *     1 function to call    2 ctx, or a list of arguments    3 handles that the node owns
 *     4 the struct below    5 its name
 *
 * The tape calls back in the middle of a C function. Such a call can't be left, so that it may not
 * wait for another host; and no error may jump over the runtime: it is kept on the stack, and
 * raised again when the tape has returned. */
#include <string.h>

#include "runtime/gradient_function.h"
#include "scenarios/tensor_internal.h"

enum { FUNCTION = 1, CONTEXT, HANDLES, STATE, NAME };

struct state {
    struct orr_scenario *scenario;
    int reference; /* of the table, in the registry; LUA_NOREF: not there yet */
    const char *name;
    struct orr_checkpoint *checkpoint;
    struct orr__draws draws;
    bool split;                    /* called for some gradients at a time */
    int input_count, output_count; /* arguments and results that are tensors */
};

/* --- the table --- */

/* Pushes it: a function from the stack, and room for the rest. */
static struct state *push_table(lua_State *L, int function) {
    lua_createtable(L, NAME, 0);
    lua_pushvalue(L, function);
    lua_rawseti(L, -2, FUNCTION);
    lua_newtable(L);
    lua_rawseti(L, -2, HANDLES);
    struct state *state = lua_newuserdatauv(L, sizeof *state, 0);
    *state = (struct state){
        .scenario = orr__scenario_of(L), .reference = LUA_NOREF, .draws.reference = LUA_NOREF};
    lua_rawseti(L, -2, STATE);
    return state;
}

/* Pushes another handle of a tensor, which the list of handles at `list` owns. */
static void push_owned(lua_State *L, int list, struct orr_tensor *tensor) {
    list = lua_absindex(L, list);
    struct orr__handle *handle = orr__push_handle(L, ORR__TENSOR, NULL);
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
    handle->pointer = orr_tensor_retain(tensor);
}

/* Frees the tensors of the list of handles on top, which it takes. Raises nothing. */
static void free_owned(lua_State *L) {
    lua_Unsigned count = lua_rawlen(L, -1);
    for (lua_Unsigned i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        struct orr__handle *handle = lua_touserdata(L, -1);
        struct orr_tensor *tensor = handle->pointer;
        orr_tensor_destroy(&tensor);
        handle->pointer = NULL;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* The function that the tape releases. With the runtime, Lua may have gone before. */
static void release(void *context, bool ending) {
    struct state *state = context;
    if (ending) {
        return;
    }
    lua_State *L = state->scenario->lua;
    int reference = state->reference;
    if (!lua_checkstack(L, 8)) {
        return; /* what it has goes with the run */
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
    lua_rawgeti(L, -1, HANDLES);
    free_owned(L);
    lua_pop(L, 1);
    orr__draws_free(L, &state->draws);
    luaL_unref(L, LUA_REGISTRYINDEX, reference);
}

static bool is_tensor(lua_State *L, int index) {
    return luaL_testudata(L, index, ORR__TENSOR) != NULL;
}

/* The tensors among the values from `first` to `last`, in Lua-owned memory that it pushes. */
static struct orr_tensor **tensors_of(lua_State *L, int first, int last, const char *what,
                                      int *out_count) {
    int count = 0;
    luaL_checkstack(L, 16, what);
    struct orr_tensor **tensors =
        lua_newuserdatauv(L, (size_t)(last - first + 2) * sizeof *tensors, 0);
    for (int i = first; i <= last; i++) {
        if (is_tensor(L, i)) {
            tensors[count++] = orr__tensor(L, i, what);
        }
    }
    *out_count = count;
    return tensors;
}

/* Those of the list of handles on top, the same way. */
static struct orr_tensor **owned_tensors(lua_State *L, int *out_count) {
    lua_Unsigned count = lua_rawlen(L, -1);
    struct orr_tensor **tensors = lua_newuserdatauv(L, (count + 1) * sizeof *tensors, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, -2, (lua_Integer)i + 1);
        tensors[i] = ((struct orr__handle *)lua_touserdata(L, -1))->pointer;
        lua_pop(L, 1);
    }
    *out_count = (int)count;
    return tensors;
}

/* --- being called by the tape --- */

struct call {
    struct state *state;
    struct orr_tensor *const *gradients;
    const bool *wanted;
    struct orr_tensor **out;
    int out_count;
};

/* Calls a function with the call as its argument, in a scope of its own, in the state that asked
 * for gradients. */
static enum orr_status call_back(lua_CFunction function, struct call *call,
                                 struct orr__draws *draws) {
    struct orr_scenario *scenario = call->state->scenario;
    lua_State *L = scenario->playing;
    size_t host = scenario->running; /* its struct may move */
    char site[ORR__SITE_MAX];
    if (!L || !lua_checkstack(L, LUA_MINSTACK)) {
        return orr_error_set(orr_runtime_error(scenario->runtime), ORR_INVALID,
                             "%s: called back outside of a gradient of the scenario",
                             call->state->name);
    }
    memcpy(site, scenario->site, sizeof site);
    if (draws) {
        orr__draws_push(&scenario->hosts[host], draws);
    }
    scenario->callbacks++;
    lua_pushcfunction(L, orr__scope);
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, call);
    bool failed = lua_pcall(L, 2, 0, 0) != LUA_OK;
    scenario->callbacks--;
    if (draws) {
        orr__draws_pop(&scenario->hosts[host], draws);
    }
    for (int i = 0; failed && i < call->out_count; i++) {
        orr_tensor_destroy(&call->out[i]); /* the end of the scope may have failed */
    }
    if (failed) {
        scenario->callback_failed = true; /* the error stays on the stack */
        return orr_error_set(orr_runtime_error(scenario->runtime), ORR_INVALID, "%s failed",
                             call->state->name);
    }
    memcpy(scenario->site, site, sizeof site); /* what follows is the caller's again */
    return orr_runtime_set_caller(scenario->runtime, scenario->hosts[host].id, site);
}

/* Raises unless the values from `first` on are tensors, nil or false. */
static void check_results(lua_State *L, const char *name, int first) {
    for (int i = first; i <= lua_gettop(L); i++) {
        if (is_tensor(L, i)) {
            (void)orr__tensor(L, i, name);
        } else if (lua_toboolean(L, i)) {
            orr__raise(L, ORR_INVALID, "%s: expected a tensor or nil as gradient %d, got %s", name,
                       i - first + 1, luaL_typename(L, i));
        }
    }
}

/* Protected: backward(ctx, dy, ...) -> dx, ... */
static int call_backward(lua_State *L) {
    struct call *call = lua_touserdata(L, 1);
    struct state *state = call->state;
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->reference);
    lua_rawgeti(L, 2, FUNCTION);
    lua_rawgeti(L, 2, CONTEXT);
    lua_createtable(L, state->input_count, 0);
    for (int i = 0; i < state->input_count; i++) {
        lua_pushboolean(L, call->wanted[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "wanted");
    int outputs = state->output_count;
    luaL_checkstack(L, outputs + LUA_MINSTACK, state->name);
    for (int i = 0; i < outputs; i++) {
        if (call->gradients[i]) {
            orr__push_tensor(L, orr_tensor_retain(call->gradients[i]));
        } else {
            lua_pushnil(L);
        }
    }
    lua_call(L, outputs + 1, LUA_MULTRET);
    int count = lua_gettop(L) - 2;
    if (count > state->input_count) {
        return orr__raise(
            L, ORR_INVALID,
            "%s: backward returned %d gradients for %d tensors; expected one for each "
            "tensor that forward was given, in order",
            state->name, count, state->input_count);
    }
    check_results(L, state->name, 3);
    for (int i = 0; i < count; i++) {
        call->out[i] =
            lua_toboolean(L, 3 + i) ? orr_tensor_retain(orr__tensor(L, 3 + i, state->name)) : NULL;
    }
    return 0;
}

static enum orr_status backward(void *context, enum orr_gradient_part part,
                                struct orr_tensor *const *gradients, const bool *wanted,
                                struct orr_tensor **out_gradients) {
    (void)part;
    struct state *state = context;
    struct call call = {state, gradients, wanted, out_gradients, state->input_count};
    return call_back(call_backward, &call, NULL);
}

/* Protected: f(x, ...) again. */
static int call_again(lua_State *L) {
    struct call *call = lua_touserdata(L, 1);
    struct state *state = call->state;
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->reference);
    lua_rawgeti(L, 2, FUNCTION);
    lua_rawgeti(L, 2, CONTEXT);
    lua_getfield(L, 4, "n");
    int count = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    luaL_checkstack(L, count + LUA_MINSTACK, state->name);
    for (int i = 1; i <= count; i++) {
        if (lua_rawgeti(L, 4, i) == LUA_TUSERDATA && is_tensor(L, -1)) {
            struct orr_tensor *tensor = orr__tensor(L, -1, state->name);
            lua_pop(L, 1);
            orr__push_tensor(L, orr_tensor_retain(tensor)); /* which it may free */
        }
    }
    lua_remove(L, 4);
    lua_call(L, count, LUA_MULTRET);
    int made;
    struct orr_tensor **tensors = tensors_of(L, 3, lua_gettop(L), state->name, &made);
    if (made != state->output_count) {
        return orr__raise(L, ORR_INVALID,
                          "%s: recomputed, the function returned %d tensors, not %d as before",
                          state->name, made, state->output_count);
    }
    for (int i = 0; i < made; i++) {
        call->out[i] = orr_tensor_retain(tensors[i]);
    }
    return 0;
}

static enum orr_status run_again(void *context, struct orr_tensor **outputs) {
    struct state *state = context;
    struct call call = {.state = state, .out = outputs, .out_count = state->output_count};
    state->draws.replays = true;
    state->draws.next = 0;
    return call_back(call_again, &call, &state->draws);
}

int orr__raise_gradient(lua_State *L, enum orr_status status) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    if (scenario->callback_failed) {
        scenario->callback_failed = false;
        orr_error_clear(orr_runtime_error(scenario->runtime));
        return lua_error(L); /* which is on top */
    }
    return orr__raise_runtime(L, status);
}

/* --- orrery.custom_gradient --- */

/* ctx:save{ name = tensor, ... }: keeps them until the gradient has been computed. */
static int ctx_save(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    if (!lua_getmetatable(L, 1) || lua_getfield(L, -1, "handles") != LUA_TTABLE ||
        lua_getfield(L, 1, "saved") != LUA_TTABLE) {
        return orr__raise(L, ORR_INVALID, "ctx:save: expected the context of a custom gradient");
    }
    int handles = lua_absindex(L, -2), saved = lua_absindex(L, -1);
    /* In the order of the keys: it is that in which they are freed, which shows in the trace. */
    lua_pushcfunction(L, orr__sorted_keys);
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    int keys = lua_gettop(L);
    for (lua_Integer i = 1; lua_rawgeti(L, keys, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -1);
        lua_rawget(L, 2);
        push_owned(L, handles, orr__tensor(L, -1, "ctx:save"));
        lua_remove(L, -2);
        lua_rawset(L, saved);
    }
    return 0;
}

/* Pushes a new ctx whose saved tensors the list at `handles` owns. */
static void push_ctx(lua_State *L, int handles) {
    handles = lua_absindex(L, handles);
    lua_newtable(L);
    lua_newtable(L);
    lua_setfield(L, -2, "saved");
    lua_createtable(L, 0, 3);
    lua_newtable(L);
    lua_pushcfunction(L, ctx_save);
    lua_setfield(L, -2, "save");
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, handles);
    lua_setfield(L, -2, "handles");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}

static struct state *state_at(lua_State *L, int table) {
    lua_rawgeti(L, table, STATE);
    struct state *state = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return state;
}

static uint32_t host_id(const struct orr_scenario *scenario) {
    return scenario->hosts[scenario->running].id;
}

/* The function failed, whose error is on top: frees what the table at `table` has. */
static int give_up(lua_State *L, int table) {
    lua_rawgeti(L, table, HANDLES);
    free_owned(L);
    return lua_error(L);
}

/* The stack: `count` arguments, the table, what forward returned or an error. */
static int after_forward(lua_State *L, int status, lua_KContext count) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    int table = (int)count + 1, last = lua_gettop(L);
    struct state *state = state_at(L, table);
    orr_gradient_pause(scenario->runtime, host_id(scenario), false);
    if (status != LUA_OK && status != LUA_YIELD) {
        return give_up(L, table);
    }
    int input_count, output_count, kept_count;
    struct orr_tensor **inputs = tensors_of(L, 1, (int)count, state->name, &input_count);
    struct orr_tensor **outputs = tensors_of(L, table + 1, last, state->name, &output_count);
    if (output_count == 0) {
        return orr__raise(L, ORR_INVALID, "%s: forward returned no tensor", state->name);
    }
    lua_rawgeti(L, table, HANDLES);
    struct orr_tensor **kept = owned_tensors(L, &kept_count);
    state->input_count = input_count;
    state->output_count = output_count;
    lua_pushvalue(L, table);
    state->reference = luaL_ref(L, LUA_REGISTRYINDEX);
    orr__caller(L);
    struct orr_gradient_function function = {.name = state->name,
                                             .backward = backward,
                                             .release = release,
                                             .context = state,
                                             .split = state->split};
    enum orr_status recorded = orr_gradient_custom(
        scenario->runtime, &function, inputs, input_count, outputs, output_count, kept, kept_count);
    if (recorded != ORR_OK) {
        return orr__raise_runtime(L, recorded);
    }
    lua_settop(L, last);
    return last - table;
}

/* What orrery.custom_gradient returns; upvalues: forward, backward, name, split. */
static int custom_call(lua_State *L) {
    int count = lua_gettop(L), unused;
    luaL_checkstack(L, count + LUA_MINSTACK, "custom_gradient");
    const char *name = lua_tostring(L, lua_upvalueindex(3));
    (void)tensors_of(L, 1, count, name, &unused);
    lua_settop(L, count);
    struct state *state = push_table(L, lua_upvalueindex(2));
    state->split = lua_toboolean(L, lua_upvalueindex(4));
    state->name = name; /* the closure's, which the function at 4 of the table keeps alive */
    lua_rawgeti(L, count + 1, HANDLES);
    push_ctx(L, -1);
    lua_remove(L, -2);
    lua_pushvalue(L, -1);
    lua_rawseti(L, count + 1, CONTEXT);
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_rawseti(L, count + 1, NAME);
    struct orr_scenario *scenario = orr__caller(L);
    lua_pushcfunction(L, orr__scope);
    lua_insert(L, -2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, -2);
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(L, i);
    }
    orr_gradient_pause(scenario->runtime, host_id(scenario), true);
    int status = lua_pcallk(L, count + 2, LUA_MULTRET, 0, count, after_forward);
    return after_forward(L, status, count);
}

/* orrery.custom_gradient{ forward =, backward =, name =, split = } */
static int orrery_custom_gradient(lua_State *L) {
    static const char *const keys[] = {"forward", "backward", "name", "split", NULL};
    const char *what = "orrery.custom_gradient";
    orr__check_keys(L, 1, what, keys);
    lua_settop(L, 1);
    for (int i = 0; i < 2; i++) {
        if (lua_getfield(L, 1, keys[i]) != LUA_TFUNCTION) {
            return orr__raise(L, ORR_INVALID, "%s: %s: expected a function, got %s", what, keys[i],
                              luaL_typename(L, -1));
        }
    }
    lua_pushstring(L, orr__field_text(L, 1, what, "name", "custom_gradient"));
    lua_getfield(L, 1, "split");
    lua_pushcclosure(L, custom_call, 4);
    return 1;
}

/* --- orrery.checkpoint --- */

/* Is there a freed tensor among the values? */
static bool returns_freed(lua_State *L, int first, int last) {
    for (int i = first; i <= last; i++) {
        const struct orr__handle *handle = luaL_testudata(L, i, ORR__TENSOR);
        if (handle && !handle->pointer) {
            return true;
        }
    }
    return false;
}

/* The stack: the function, `count` arguments, the table, what it returned or an error. */
static int after_part(lua_State *L, int status, lua_KContext count) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    int table = (int)count + 2, last = lua_gettop(L);
    struct state *state = state_at(L, table);
    orr__draws_pop(&scenario->hosts[scenario->running], &state->draws);
    bool failed = status != LUA_OK && status != LUA_YIELD;
    if (failed || returns_freed(L, table + 1, last)) {
        orr_checkpoint_cancel(&state->checkpoint);
    }
    if (failed) {
        return give_up(L, table);
    }
    int output_count, kept_count;
    struct orr_tensor **outputs = tensors_of(L, table + 1, last, state->name, &output_count);
    lua_rawgeti(L, table, HANDLES);
    struct orr_tensor **kept = owned_tensors(L, &kept_count);
    state->output_count = output_count;
    lua_pushvalue(L, table);
    state->reference = luaL_ref(L, LUA_REGISTRYINDEX);
    orr__caller(L);
    struct orr_recomputation again = {
        .name = state->name, .run = run_again, .release = release, .context = state};
    enum orr_status recorded =
        orr_checkpoint_end(&state->checkpoint, &again, outputs, output_count, kept, kept_count);
    if (recorded != ORR_OK) {
        return orr__raise_runtime(L, recorded);
    }
    lua_settop(L, last);
    return last - table;
}

/* Fills the table on top: arguments from 2 to count + 1, tensors with handles of their own. */
static void keep_arguments(lua_State *L, int count) {
    int table = lua_gettop(L);
    lua_rawgeti(L, table, HANDLES);
    lua_createtable(L, count, 1);
    for (int i = 1; i <= count; i++) {
        if (is_tensor(L, i + 1)) {
            push_owned(L, table + 1, orr__tensor(L, i + 1, "orrery.checkpoint"));
        } else {
            lua_pushvalue(L, i + 1);
        }
        lua_rawseti(L, table + 2, i);
    }
    lua_pushinteger(L, count);
    lua_setfield(L, table + 2, "n");
    lua_rawseti(L, table, CONTEXT);
    lua_settop(L, table);
}

/* orrery.checkpoint(f, x, ...): f(x, ...), of which the tape keeps only what goes in. */
static int orrery_checkpoint(lua_State *L) {
    int count = lua_gettop(L) - 1, unused;
    if (!lua_isfunction(L, 1)) {
        return orr__raise(L, ORR_INVALID, "orrery.checkpoint: expected a function, got %s",
                          luaL_typename(L, 1));
    }
    luaL_checkstack(L, count + LUA_MINSTACK, "orrery.checkpoint");
    (void)tensors_of(L, 2, count + 1, "orrery.checkpoint", &unused);
    lua_settop(L, count + 1);
    struct orr_scenario *scenario = orr__caller(L);
    struct state *state = push_table(L, 1);
    state->name = "orrery.checkpoint";
    keep_arguments(L, count);
    enum orr_status status = orr_checkpoint_begin(scenario->runtime, &state->checkpoint);
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    orr__draws_push(&scenario->hosts[scenario->running], &state->draws);
    lua_pushcfunction(L, orr__scope);
    for (int i = 1; i <= count + 1; i++) {
        lua_pushvalue(L, i);
    }
    int called = lua_pcallk(L, count + 1, LUA_MULTRET, 0, count, after_part);
    return after_part(L, called, count);
}

void orr__open_gradients(lua_State *L) {
    static const luaL_Reg functions[] = {{"custom_gradient", orrery_custom_gradient},
                                         {"checkpoint", orrery_checkpoint},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
