/* Redistribution in Lua: t:redistribute, t:plan, t:shift, t:mesh, orrery.redistribute_all. */
#include "runtime/redistribute.h"

#include "scenarios/tensor_internal.h"

static int tensor_mesh(lua_State *L) {
    orr__push_mesh(L, orr_tensor_layout(orr__tensor(L, 1, "mesh"))->mesh);
    return 1;
}

/* Placements and mesh at 2 and 3, either of which may be absent: what a tensor is to become. Axes
 * that another mesh has, too, are as they were, others of it replicated. */
static struct orr_layout wanted_layout(lua_State *L, const struct orr_tensor *tensor,
                                       const char *function) {
    struct orr_layout layout = *orr_tensor_layout(tensor);
    if (!lua_isnil(L, 3)) {
        struct orr_layout from = layout;
        layout = orr_layout_replicated(orr__mesh(L, 3, function));
        for (int i = 0; i < layout.mesh->axis_count; i++) {
            int axis = orr_mesh_axis(from.mesh, layout.mesh->names[i]);
            layout.axes[i] = axis < 0 ? layout.axes[i] : from.axes[axis];
        }
    }
    if (lua_isnil(L, 3) || !lua_isnil(L, 2)) {
        orr__placements(L, 2, function, &layout);
    }
    return layout;
}

/* t:redistribute("R"), t:redistribute{"S(0)", "R"}, t:redistribute{tp = "R"}, t:redistribute({pp =
 * "R"}, mesh) */
static int tensor_redistribute(lua_State *L) {
    struct orr_tensor *tensor = orr__tensor(L, 1, "redistribute"), *out;
    lua_settop(L, 3);
    struct orr_layout layout = wanted_layout(L, tensor, "redistribute");
    orr__caller(L);
    enum orr_status status = orr_tensor_redistribute(tensor, &layout, &out);
    if (status == ORR_OK) {
        orr__push_tensor(L, out);
    }
    return orr__finish(L, status, 3, 1, tensor_redistribute);
}

/* t:plan("S(1)"): what a redistribution would do, as text. */
static int tensor_plan(lua_State *L) {
    struct orr_tensor *tensor = orr__tensor(L, 1, "plan");
    lua_settop(L, 3);
    struct orr_layout layout = wanted_layout(L, tensor, "plan");
    struct orr_redistribute_plan plan;
    char text[ORR_REDISTRIBUTE_TEXT_MAX];
    orr__caller(L);
    enum orr_status status = orr_redistribute_plan(tensor, &layout, &plan);
    if (status == ORR_OK) {
        lua_pushstring(L, orr_redistribute_text(&plan, text, sizeof text));
    }
    return orr__finish(L, status, 3, 1, tensor_plan);
}

/* The axis named in field `axis` of the table at `index`; a mesh of one axis needs no name. */
static int field_axis(lua_State *L, int index, const char *function, const struct orr_mesh *mesh) {
    if (lua_getfield(L, index, "axis") == LUA_TNIL && mesh->axis_count == 1) {
        lua_pop(L, 1);
        return 0;
    }
    int axis = orr__mesh_axis(L, -1, function, mesh);
    lua_pop(L, 1);
    return axis;
}

/* t:shift{axis = "cp", by = 1} */
static int tensor_shift(lua_State *L) {
    static const char *const keys[] = {"axis", "by", NULL};
    struct orr_tensor *tensor = orr__tensor(L, 1, "shift"), *out;
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    orr__check_keys(L, 2, "shift", keys);
    int axis = field_axis(L, 2, "shift", orr_tensor_layout(tensor)->mesh);
    int64_t by = orr__field_integer(L, 2, "shift", "by", -INT32_MAX, INT32_MAX, 1);
    orr__caller(L);
    enum orr_status status = orr_tensor_shift(tensor, axis, by, &out);
    if (status == ORR_OK) {
        orr__push_tensor(L, out);
    }
    return orr__finish(L, status, 2, 1, tensor_shift);
}

/* --- several tensors --- */

/* Entry `i` of the list at 1, a tensor or {tensor, place}; without a place of its own it gets that
 * at 2. */
static struct orr_tensor *read_entry(lua_State *L, lua_Integer i, struct orr_layout *out_layout) {
    static const char function[] = "redistribute_all";
    bool pair = lua_rawgeti(L, 1, i) == LUA_TTABLE;
    if (pair) {
        lua_rawgeti(L, -1, 2);
        lua_rawgeti(L, -2, 1);
    }
    struct orr_tensor *tensor = orr__tensor(L, -1, function);
    *out_layout = *orr_tensor_layout(tensor);
    orr__placements(L, pair ? -2 : 2, function, out_layout);
    lua_pop(L, pair ? 3 : 1);
    return tensor;
}

/* orrery.redistribute_all({t, ...}, place), orrery.redistribute_all{{t, place}, ...}: a list of the
 * results. */
static int redistribute_all(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    lua_Unsigned count = lua_rawlen(L, 1);
    struct orr_tensor **tensors = lua_newuserdatauv(L, (2 * count + 1) * sizeof *tensors, 0);
    struct orr_layout *layouts = lua_newuserdatauv(L, (count + 1) * sizeof *layouts, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        tensors[i] = read_entry(L, (lua_Integer)i + 1, &layouts[i]);
    }
    orr__caller(L);
    enum orr_status status =
        orr_tensor_redistribute_all(tensors, layouts, (uint32_t)count, tensors + count);
    if (status == ORR_OK) {
        lua_createtable(L, (int)count, 0);
    }
    for (lua_Unsigned i = 0; status == ORR_OK && i < count; i++) {
        orr__push_tensor(L, tensors[count + i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return orr__finish(L, status, 2, 1, redistribute_all);
}

void orr__add_redistribute(lua_State *L, int functions, int methods) {
    static const luaL_Reg of_tensor[] = {{"redistribute", tensor_redistribute},
                                         {"plan", tensor_plan},
                                         {"shift", tensor_shift},
                                         {"mesh", tensor_mesh},
                                         {NULL, NULL}};
    lua_pushcfunction(L, redistribute_all);
    lua_setfield(L, functions, "redistribute_all");
    lua_pushvalue(L, methods);
    luaL_setfuncs(L, of_tensor, 0);
    lua_pop(L, 1);
}
