/* Tensors and futures in Lua. */
#include <stdio.h>
#include <string.h>

#include "scenarios/tensor_internal.h"

/* Registry key of the open scopes: for each host, whose calls come in between those of others, the
 * list of handles that its innermost one has. */

static lua_Integer scope_key(lua_State *L) {
    return (lua_Integer)orr__scenario_of(L)->running + 1;
}

/* Pushes the running host's open scope, or nil. */
static void push_scope(lua_State *L) {
    lua_getfield(L, LUA_REGISTRYINDEX, ORR__SCOPES);
    lua_rawgeti(L, -1, scope_key(L));
    lua_remove(L, -2);
}

/* Makes the value at `index`, a list or nil, the running host's open scope. */
static void set_scope(lua_State *L, int index) {
    lua_pushvalue(L, index);
    lua_getfield(L, LUA_REGISTRYINDEX, ORR__SCOPES);
    lua_insert(L, -2);
    lua_rawseti(L, -2, scope_key(L));
    lua_pop(L, 1);
}

/* Adds the handle on top to the open scope. */
static void enter_scope(lua_State *L) {
    push_scope(L);
    if (lua_istable(L, -1)) {
        lua_pushvalue(L, -2);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
    lua_pop(L, 1);
}

void orr__push_tensor(lua_State *L, struct orr_tensor *tensor) {
    orr__push_handle(L, ORR__TENSOR, tensor);
    enter_scope(L);
}

struct orr_tensor *orr__tensor(lua_State *L, int index, const char *what) {
    const struct orr__handle *handle = orr__handle(L, index, ORR__TENSOR, what);
    if (!handle->pointer) {
        orr__raise(L, ORR_INVALID, "%s: the tensor has been freed", what);
    }
    return handle->pointer;
}

static int tensor_text(lua_State *L) {
    const struct orr__handle *handle = orr__handle(L, 1, ORR__TENSOR, "tensor");
    if (!handle->pointer) {
        lua_pushliteral(L, "tensor (freed)");
        return 1;
    }
    char shape[ORR_SHAPE_TEXT_MAX], place[ORR_PLACEMENT_TEXT_MAX];
    const struct orr_operand_info *info = orr_tensor_info(handle->pointer);
    lua_pushfstring(L, "tensor %s %s %s", orr_shape_text(&info->shape, shape),
                    orr_dtype_name(info->dtype),
                    orr_layout_text(orr_tensor_layout(handle->pointer), place));
    return 1;
}

static void free_handle(struct orr__handle *handle) {
    struct orr_tensor *tensor = handle->pointer;
    orr_tensor_destroy(&tensor);
    handle->pointer = NULL;
}

/* t:free(), and at <close>. */
static int tensor_free(lua_State *L) {
    struct orr__handle *handle = orr__handle(L, 1, ORR__TENSOR, "free");
    if (handle->pointer) {
        orr__caller(L);
        free_handle(handle);
    }
    return 0;
}

/* t:evict() */
static int tensor_evict(lua_State *L) {
    struct orr_tensor *tensor = orr__tensor(L, 1, "evict");
    orr__caller(L);
    return orr__finish(L, orr_tensor_evict(tensor), 1, 0, tensor_evict);
}

/* t:restore(other) */
static int tensor_restore(lua_State *L) {
    struct orr_tensor *tensor = orr__tensor(L, 1, "restore");
    struct orr_tensor *other = orr__tensor(L, 2, "restore");
    orr__caller(L);
    return orr__finish(L, orr_tensor_restore(tensor, other), 2, 0, tensor_restore);
}

static int tensor_shape(lua_State *L) {
    const struct orr_operand_info *info = orr_tensor_info(orr__tensor(L, 1, "shape"));
    lua_createtable(L, info->shape.rank, 0);
    for (int i = 0; i < info->shape.rank; i++) {
        lua_pushinteger(L, info->shape.dims[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int tensor_dtype(lua_State *L) {
    lua_pushstring(L, orr_dtype_name(orr_tensor_info(orr__tensor(L, 1, "dtype"))->dtype));
    return 1;
}

static int tensor_place(lua_State *L) {
    char text[ORR_PLACEMENT_TEXT_MAX];
    lua_pushstring(L, orr_layout_text(orr_tensor_layout(orr__tensor(L, 1, "place")), text));
    return 1;
}

/* t:bytes(), t:bytes(device): a device's index or handle */
static int tensor_bytes(lua_State *L) {
    const struct orr_tensor *tensor = orr__tensor(L, 1, "bytes");
    uint32_t device = lua_isnoneornil(L, 2) ? ORR_TENSOR_ALL_DEVICES
                                            : orr__device_argument(L, 2, "bytes: device");
    lua_pushinteger(L, (lua_Integer)orr_tensor_bytes(tensor, device));
    return 1;
}

/* --- arithmetic --- */

static int after_operator(lua_State *L, int status, lua_KContext context) {
    (void)L;
    (void)status;
    (void)context;
    return 1;
}

/* Calls the operator function of a name from the table of methods with the operands. */
static int call_method(lua_State *L, const char *name, int count) {
    lua_settop(L, count);
    luaL_getmetafield(L, lua_isuserdata(L, 1) ? 1 : 2, "__operators");
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_insert(L, 1);
    lua_callk(L, count, 1, 0, after_operator);
    return after_operator(L, LUA_OK, 0);
}

/* x * 2 and 2 * x: a scale. */
static int scale(lua_State *L, int tensor, int number, bool divide) {
    double factor = lua_tonumber(L, number);
    luaL_getmetafield(L, tensor, "__operators");
    lua_getfield(L, -1, "scale");
    lua_pushvalue(L, tensor);
    lua_createtable(L, 0, 1);
    lua_pushnumber(L, divide ? 1 / factor : factor);
    lua_setfield(L, -2, "alpha");
    lua_callk(L, 2, 1, 0, after_operator);
    return after_operator(L, LUA_OK, 0);
}

static int tensor_add(lua_State *L) {
    return call_method(L, "add", 2);
}

static int tensor_sub(lua_State *L) {
    return call_method(L, "sub", 2);
}

static int tensor_mul(lua_State *L) {
    if (lua_type(L, 2) == LUA_TNUMBER) {
        return scale(L, 1, 2, false);
    }
    if (lua_type(L, 1) == LUA_TNUMBER) {
        return scale(L, 2, 1, false);
    }
    return call_method(L, "mul", 2);
}

static int tensor_div(lua_State *L) {
    if (lua_type(L, 2) == LUA_TNUMBER) {
        return scale(L, 1, 2, true);
    }
    return call_method(L, "div", 2);
}

static int tensor_unm(lua_State *L) {
    return call_method(L, "neg", 1);
}

/* --- values --- */

/* Field `values` of the table at 1 in `info`'s dtype, in Lua-owned memory. Without values, where
 * none are looked at, NULL. */
static const void *read_values(lua_State *L, const struct orr_operand_info *info) {
    int64_t count = orr_shape_count(&info->shape);
    size_t element = orr_dtype_size(info->dtype);
    int type = lua_getfield(L, 1, "values");
    if (type == LUA_TNIL && orr_runtime_timing_only(orr__scenario_of(L)->runtime)) {
        return NULL;
    }
    if (type != LUA_TTABLE || (int64_t)lua_rawlen(L, -1) != count) {
        orr__raise(L, ORR_INVALID, "orrery.tensor: values: expected a list of %lld numbers, got %s",
                   (long long)count, luaL_typename(L, -1));
    }
    int values = lua_gettop(L);
    void *data = lua_newuserdatauv(L, (size_t)count * element + 1, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_rawgeti(L, values, i + 1);
        orr_dtype_store(info->dtype, data, (size_t)i, orr__number(L, -1, "orrery.tensor: values"));
        lua_pop(L, 1);
    }
    return data;
}

/* orrery.tensor{shape =, values =, dtype =, mesh =, place =} */
static int orrery_tensor(lua_State *L) {
    static const char *const keys[] = {"shape", "values", "dtype", "mesh", "place", NULL};
    orr__check_keys(L, 1, "orrery.tensor", keys);
    lua_settop(L, 1);
    struct orr_operand_info info = {
        .dtype = orr__field_dtype(L, 1, "orrery.tensor", "dtype", ORR_DTYPE_F32)};
    lua_getfield(L, 1, "shape");
    info.shape = orr__shape(L, -1, "orrery.tensor: shape");
    struct orr_error error = {0};
    size_t element = orr_dtype_size(info.dtype);
    if (orr_shape_check(&info.shape, element, &error) != ORR_OK) {
        return orr__raise(L, ORR_INVALID, "orrery.tensor: %s", error.text);
    }
    const void *data = read_values(L, &info);
    struct orr_layout layout;
    bool placed = orr__field_layout(L, 1, "orrery.tensor", &layout);
    const struct orr_scenario *scenario = orr__caller(L);
    struct orr_tensor *tensor;
    enum orr_status status =
        orr_tensor_from_host(scenario->runtime, &info, placed ? &layout : NULL, data, &tensor);
    if (status == ORR_OK) {
        orr__push_tensor(L, tensor);
    }
    return orr__finish(L, status, 1, 1, orrery_tensor);
}

/* A future's handle keeps its tensor's shape and dtype in the user value. */
struct future_handle {
    struct orr__handle handle; /* first */
    struct orr_operand_info info;
};

static struct future_handle *future_at(lua_State *L, int index, const char *what) {
    struct orr__handle *handle = orr__handle(L, index, ORR__FUTURE, what);
    if (!handle->pointer) {
        orr__raise(L, ORR_INVALID, "%s: the future has been freed", what);
    }
    return (struct future_handle *)(void *)handle;
}

static int tensor_future(lua_State *L) {
    struct orr_tensor *tensor = orr__tensor(L, 1, "future");
    struct orr_scenario *scenario = orr__caller(L);
    struct future_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    *handle = (struct future_handle){.handle = {.serial = scenario->handle_count++},
                                     .info = *orr_tensor_info(tensor)};
    luaL_setmetatable(L, ORR__FUTURE);
    struct orr_future *future;
    enum orr_status status = orr_tensor_future(tensor, &future);
    handle->handle.pointer = future;
    return orr__finish(L, status, 1, 1, tensor_future);
}

static int future_text(lua_State *L) {
    lua_pushliteral(L, "future");
    return 1;
}

static int future_ready(lua_State *L) {
    struct orr_future *future = future_at(L, 1, "ready")->handle.pointer;
    orr__caller(L);
    enum orr_status status = orr_future_query(future);
    lua_pushboolean(L, status == ORR_OK);
    return orr__finish(L, status == ORR_NOT_READY ? ORR_OK : status, 1, 1, future_ready);
}

/* Pushes values: a number for a scalar, else a flat list in row-major order. */
static void push_values(lua_State *L, const struct orr_operand_info *info, const void *data) {
    int64_t count = orr_shape_count(&info->shape);
    if (info->shape.rank == 0) {
        lua_pushnumber(L, orr_dtype_load(info->dtype, data, 0));
        return;
    }
    lua_createtable(L, (int)(count < INT32_MAX ? count : 0), 0);
    for (int64_t i = 0; i < count; i++) {
        lua_pushnumber(L, orr_dtype_load(info->dtype, data, (size_t)i));
        lua_rawseti(L, -2, i + 1);
    }
}

static int future_get(lua_State *L) {
    struct future_handle *handle = future_at(L, 1, "get");
    lua_settop(L, 1);
    size_t bytes =
        (size_t)orr_shape_count(&handle->info.shape) * orr_dtype_size(handle->info.dtype);
    const struct orr_scenario *scenario = orr__caller(L);
    bool values = !orr_runtime_timing_only(scenario->runtime);
    void *data = lua_newuserdatauv(L, (values ? bytes : 0) + 1, 0);
    enum orr_status status = orr_future_get(handle->handle.pointer, data, bytes);
    if (status == ORR_OK) {
        push_values(L, &handle->info, data);
    }
    return orr__finish(L, status, 1, 1, future_get);
}

/* f:wait(): until the values are there. */
static int future_wait(lua_State *L) {
    struct orr_future *future = future_at(L, 1, "wait")->handle.pointer;
    lua_settop(L, 1);
    orr__caller(L);
    return orr__finish(L, orr_future_wait(future), 1, 0, future_wait);
}

/* f:free(): the pinned memory goes; at the latest with the run. */
static int future_free(lua_State *L) {
    struct future_handle *handle = future_at(L, 1, "free");
    struct orr_future *future = handle->handle.pointer;
    orr__caller(L);
    orr_future_destroy(&future);
    handle->handle.pointer = NULL;
    return 0;
}

/* --- scopes --- */

/* Whether the value on top is among the results, from index 3 to `last`. */
static bool is_returned(lua_State *L, int last) {
    for (int i = 3; i <= last; i++) {
        if (lua_rawequal(L, i, -1)) {
            return true;
        }
    }
    return false;
}

/* The stack: the scope around, this one, results or an error. */
static int scope_end(lua_State *L, int status, lua_KContext context) {
    (void)context;
    bool failed = status != LUA_OK && status != LUA_YIELD;
    int last = lua_gettop(L);
    set_scope(L, 1);
    lua_Unsigned count = lua_rawlen(L, 2);
    if (count > 0 && !failed) {
        orr__caller(L);
    }
    for (lua_Unsigned i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i);
        if (!failed && is_returned(L, last)) {
            enter_scope(L);
        } else {
            free_handle(orr__handle(L, -1, ORR__TENSOR, "scope"));
        }
        lua_pop(L, 1);
    }
    return failed ? lua_error(L) : last - 2;
}

/* orrery.scope(f, ...): calls f(...); tensors made inside die at its end, also by an error, but for
 * those it returns. */
int orr__scope(lua_State *L) {
    if (!lua_isfunction(L, 1) && !orr__is_handle(L, 1, ORR__COMPILED)) {
        return orr__raise(L, ORR_INVALID, "orrery.scope: expected a function, got %s",
                          luaL_typename(L, 1));
    }
    push_scope(L);
    lua_insert(L, 1);
    lua_newtable(L);
    lua_insert(L, 2);
    set_scope(L, 2);
    int status = lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 0, 0, scope_end);
    return scope_end(L, status, 0);
}

void orr__open_tensors(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"tensor", orrery_tensor}, {"scope", orr__scope}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"evict", tensor_evict},    {"restore", tensor_restore},
                                       {"free", tensor_free},      {"shape", tensor_shape},
                                       {"dtype", tensor_dtype},    {"bytes", tensor_bytes},
                                       {"place", tensor_place},    {"future", tensor_future},
                                       {"role", orr__tensor_role}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__add", tensor_add}, {"__sub", tensor_sub},
                                           {"__mul", tensor_mul}, {"__div", tensor_div},
                                           {"__unm", tensor_unm}, {"__close", tensor_free},
                                           {NULL, NULL}};
    static const luaL_Reg future_methods[] = {{"get", future_get},
                                              {"wait", future_wait},
                                              {"ready", future_ready},
                                              {"free", future_free},
                                              {NULL, NULL}};
    int table = lua_gettop(L);
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, ORR__SCOPES);
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__add_operators(L, table, lua_gettop(L));
    orr__add_redistribute(L, table, lua_gettop(L));
    lua_pushvalue(L, -1);
    orr__class(L, ORR__TENSOR, tensor_text);
    luaL_getmetatable(L, ORR__TENSOR);
    luaL_setfuncs(L, metamethods, 0);
    lua_insert(L, -2);
    lua_setfield(L, -2, "__operators");
    lua_pop(L, 1);
    luaL_newlib(L, future_methods);
    orr__class(L, ORR__FUTURE, future_text);
}
