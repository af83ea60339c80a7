/* orrery.mesh{shape = {2, 4}, names = {"dp", "tp"}[, devices = {...}]} and placements. */
#include <stdio.h>
#include <string.h>

#include "scenarios/tensor_internal.h"

/* Registry key of the table of meshes that have a handle: one mesh has one. */

struct orr_mesh *orr__mesh(lua_State *L, int index, const char *what) {
    return orr__handle(L, index, ORR__MESH, what)->pointer;
}

struct orr_shape orr__shape(lua_State *L, int index, const char *what) {
    struct orr_shape shape = {0};
    int at = lua_absindex(L, index);
    if (!lua_istable(L, at)) {
        orr__raise(L, ORR_INVALID, "%s: expected a list of whole numbers, got %s", what,
                   luaL_typename(L, at));
    }
    lua_Unsigned length = lua_rawlen(L, at);
    if (length > ORR_RANK_MAX) {
        orr__raise(L, ORR_INVALID, "%s: %llu dimensions; at most %d are possible", what,
                   (unsigned long long)length, ORR_RANK_MAX);
    }
    for (lua_Unsigned i = 0; i < length; i++) {
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        shape.dims[i] = orr__integer(L, -1, what, INT64_MIN, INT64_MAX);
        lua_pop(L, 1);
    }
    shape.rank = (int32_t)length;
    return shape;
}

static void parse_placement(lua_State *L, const char *function, struct orr_placement *out) {
    struct orr_error error = {0};
    if (lua_type(L, -1) != LUA_TSTRING) {
        orr__raise(L, ORR_INVALID, "%s: place: expected texts such as 'S(0)', got %s", function,
                   luaL_typename(L, -1));
    }
    if (orr_placement_parse(lua_tostring(L, -1), out, &error) != ORR_OK) {
        orr__raise(L, ORR_INVALID, "%s: %s", function, error.text);
    }
}

/* Raises for the axis name on top, which the mesh does not have. */
static int no_axis(lua_State *L, const struct orr_mesh *mesh, const char *function) {
    const char *names[ORR_MESH_AXES_MAX];
    char near[ORR_ERROR_TEXT_MAX];
    for (int i = 0; i < mesh->axis_count; i++) {
        names[i] = mesh->names[i];
    }
    if (lua_type(L, -1) != LUA_TSTRING) {
        return orr__raise(L, ORR_INVALID, "%s: expected names of mesh axes, got %s", function,
                          orr__tostring(L, -1));
    }
    const char *name = lua_tostring(L, -1);
    return orr__raise(L, ORR_INVALID, "%s: the mesh has no axis '%s'%s", function, name,
                      orr__suggest(near, sizeof near, name, names, mesh->axis_count));
}

int orr__mesh_axis(lua_State *L, int index, const char *function, const struct orr_mesh *mesh) {
    bool text = lua_type(L, index) == LUA_TSTRING;
    int axis = text ? orr_mesh_axis(mesh, lua_tostring(L, index)) : -1;
    if (axis < 0) {
        lua_pushvalue(L, index);
        no_axis(L, mesh, function);
    }
    return axis;
}

/* Raises if the table at `at` has a key that is no name of an axis: always for the same one. */
static void check_axes(lua_State *L, int at, const struct orr_mesh *mesh, const char *function) {
    lua_pushcfunction(L, orr__sorted_keys);
    lua_pushvalue(L, at);
    lua_call(L, 1, 1);
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        if (lua_type(L, -1) != LUA_TSTRING || orr_mesh_axis(mesh, lua_tostring(L, -1)) < 0) {
            no_axis(L, mesh, function);
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

/* {dp = "S(0)"}: other axes stay as they are. */
static void named_placements(lua_State *L, int at, const char *function,
                             struct orr_layout *layout) {
    check_axes(L, at, layout->mesh, function);
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        lua_pushstring(L, layout->mesh->names[i]);
        if (lua_rawget(L, at) != LUA_TNIL) {
            parse_placement(L, function, &layout->axes[i]);
        }
        lua_pop(L, 1);
    }
}

/* Raises if a list has further keys. */
static void check_list(lua_State *L, int at, const char *function) {
    lua_Unsigned keys = 0;
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
        keys++;
    }
    if (keys != lua_rawlen(L, at)) {
        orr__raise(L, ORR_INVALID,
                   "%s: place: expected placements in order or by names of axes, got both",
                   function);
    }
}

void orr__placements(lua_State *L, int index, const char *function, struct orr_layout *layout) {
    int at = lua_absindex(L, index), axes = layout->mesh->axis_count;
    bool list = lua_istable(L, at);
    int count = list ? (int)lua_rawlen(L, at) : 1;
    if (list && count == 0) {
        named_placements(L, at, function, layout);
        return;
    }
    if (count != axes) {
        orr__raise(L, ORR_INVALID, "%s: place has %d placements, but the mesh has %d axes",
                   function, count, axes);
    }
    if (list) {
        check_list(L, at, function);
    }
    for (int i = 0; i < axes; i++) {
        lua_pushvalue(L, at);
        if (list) {
            lua_rawgeti(L, at, i + 1);
        }
        parse_placement(L, function, &layout->axes[i]);
        lua_pop(L, list ? 2 : 1);
    }
}

bool orr__field_layout(lua_State *L, int index, const char *function, struct orr_layout *out) {
    int at = lua_absindex(L, index);
    struct orr_runtime *runtime = orr__scenario_of(L)->runtime;
    bool given = false;
    struct orr_mesh *mesh = NULL;
    if (lua_getfield(L, at, "mesh") != LUA_TNIL) {
        mesh = orr__mesh(L, lua_gettop(L), function);
        given = true;
    } else {
        mesh = orr_mesh_default(runtime);
        if (!mesh) {
            orr__raise_runtime(L, ORR_NO_MEMORY);
        }
    }
    *out = orr_layout_replicated(mesh);
    if (lua_getfield(L, at, "place") != LUA_TNIL) {
        orr__placements(L, -1, function, out);
        given = true;
    }
    lua_pop(L, 2);
    return given;
}

/* Names of the axes: field `names`, or "axis 0", ... */
static void read_names(lua_State *L, int count, char names[][ORR_MESH_NAME_MAX]) {
    bool given = lua_getfield(L, 1, "names") == LUA_TTABLE;
    if (given && (int)lua_rawlen(L, -1) != count) {
        orr__raise(L, ORR_INVALID, "orrery.mesh: %d names for %d axes", (int)lua_rawlen(L, -1),
                   count);
    }
    for (int i = 0; i < count; i++) {
        snprintf(names[i], ORR_MESH_NAME_MAX, "axis %u", (unsigned)i % 10);
        if (given) {
            lua_rawgeti(L, -1, i + 1);
            const char *name = luaL_checkstring(L, -1);
            if (strlen(name) >= ORR_MESH_NAME_MAX) {
                orr__raise(L, ORR_INVALID, "orrery.mesh: the name '%s' has more than %d letters",
                           name, ORR_MESH_NAME_MAX - 1);
            }
            strcpy(names[i], name);
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

/* Field `devices` as a Lua-owned array, or NULL; leaves one value on the stack. */
static uint32_t *read_devices(lua_State *L, int64_t size) {
    if (lua_getfield(L, 1, "devices") == LUA_TNIL) {
        return NULL;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    if ((int64_t)lua_rawlen(L, -1) != size) {
        orr__raise(L, ORR_INVALID, "orrery.mesh: %d devices for a mesh of %lld",
                   (int)lua_rawlen(L, -1), (long long)size);
    }
    uint32_t *devices = lua_newuserdatauv(L, (size_t)size * sizeof *devices, 0);
    lua_insert(L, -2);
    for (int64_t i = 0; i < size; i++) {
        lua_rawgeti(L, -1, i + 1);
        devices[i] = (uint32_t)orr__integer(L, -1, "orrery.mesh: devices", 0, UINT32_MAX - 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return devices;
}

static int orrery_mesh(lua_State *L) {
    static const char *const keys[] = {"shape", "names", "devices", NULL};
    orr__check_keys(L, 1, "orrery.mesh", keys);
    lua_settop(L, 1);
    lua_getfield(L, 1, "shape");
    struct orr_shape shape = orr__shape(L, -1, "orrery.mesh: shape");
    char names[ORR_RANK_MAX][ORR_MESH_NAME_MAX];
    const char *pointers[ORR_RANK_MAX];
    read_names(L, shape.rank, names);
    int64_t size = 1;
    for (int i = 0; i < shape.rank; i++) {
        pointers[i] = names[i];
        size = shape.dims[i] > 0 && shape.dims[i] < (1 << 24) && size < (1 << 24)
                   ? size * shape.dims[i]
                   : size;
    }
    const uint32_t *devices = read_devices(L, size);
    struct orr_scenario *scenario = orr__caller(L);
    struct orr_mesh *mesh;
    enum orr_status status =
        orr_mesh_create(scenario->runtime, shape.rank, shape.dims, pointers, devices, &mesh);
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    orr__push_mesh(L, mesh);
    return 1;
}

void orr__push_mesh(lua_State *L, struct orr_mesh *mesh) {
    lua_getfield(L, LUA_REGISTRYINDEX, ORR__MESHES);
    if (lua_rawgetp(L, -1, mesh) == LUA_TNIL) {
        lua_pop(L, 1);
        orr__push_handle(L, ORR__MESH, mesh);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, -3, mesh);
    }
    lua_remove(L, -2);
}

static int mesh_text(lua_State *L) {
    const struct orr_mesh *mesh = orr__mesh(L, 1, "mesh");
    char devices[ORR_MESH_TEXT_MAX];
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    luaL_addstring(&text, "mesh ");
    for (int i = 0; i < mesh->axis_count; i++) {
        lua_pushfstring(L, "%s%s=%d", i > 0 ? " " : "", mesh->names[i], (int)mesh->dims[i]);
        luaL_addvalue(&text);
    }
    lua_pushfstring(L, " on %s", orr_mesh_devices_text(mesh, devices));
    luaL_addvalue(&text);
    luaL_pushresult(&text);
    return 1;
}

static int mesh_size(lua_State *L) {
    const struct orr_mesh *mesh = orr__mesh(L, 1, "mesh:size");
    if (lua_isnoneornil(L, 2)) {
        lua_pushinteger(L, mesh->size);
        return 1;
    }
    lua_pushinteger(L, mesh->dims[orr__mesh_axis(L, 2, "mesh:size", mesh)]);
    return 1;
}

static int mesh_names(lua_State *L) {
    const struct orr_mesh *mesh = orr__mesh(L, 1, "mesh:names");
    lua_createtable(L, mesh->axis_count, 0);
    for (int i = 0; i < mesh->axis_count; i++) {
        lua_pushstring(L, mesh->names[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int mesh_devices(lua_State *L) {
    const struct orr_mesh *mesh = orr__mesh(L, 1, "mesh:devices");
    lua_createtable(L, (int)mesh->size, 0);
    for (uint32_t i = 0; i < mesh->size; i++) {
        lua_pushinteger(L, mesh->devices[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int push_view(lua_State *L, enum orr_status status, struct orr_mesh *mesh) {
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    orr__push_mesh(L, mesh);
    return 1;
}

/* mesh:slice{pp = 0} */
static int mesh_slice(lua_State *L) {
    struct orr_mesh *mesh = orr__mesh(L, 1, "mesh:slice"), *out;
    int64_t coordinates[ORR_MESH_AXES_MAX];
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    check_axes(L, 2, mesh, "mesh:slice");
    for (int i = 0; i < mesh->axis_count; i++) {
        coordinates[i] = ORR_MESH_WHOLE;
        lua_pushstring(L, mesh->names[i]);
        if (lua_rawget(L, 2) != LUA_TNIL) {
            coordinates[i] = orr__integer(L, -1, "mesh:slice", 0, INT64_MAX);
        }
        lua_pop(L, 1);
    }
    orr__caller(L);
    enum orr_status status = orr_mesh_slice(mesh, coordinates, &out);
    return push_view(L, status, out);
}

/* mesh:permute{"tp", "dp"} */
static int mesh_permute(lua_State *L) {
    struct orr_mesh *mesh = orr__mesh(L, 1, "mesh:permute"), *out;
    int axes[ORR_MESH_AXES_MAX];
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    if ((int)lua_rawlen(L, 2) != mesh->axis_count) {
        return orr__raise(L, ORR_INVALID, "mesh:permute: %d names for the %d axes of the mesh",
                          (int)lua_rawlen(L, 2), mesh->axis_count);
    }
    for (int i = 0; i < mesh->axis_count; i++) {
        lua_rawgeti(L, 2, i + 1);
        axes[i] = orr__mesh_axis(L, -1, "mesh:permute", mesh);
        lua_pop(L, 1);
    }
    orr__caller(L);
    enum orr_status status = orr_mesh_permute(mesh, axes, &out);
    return push_view(L, status, out);
}

void orr__open_meshes(lua_State *L) {
    static const luaL_Reg functions[] = {{"mesh", orrery_mesh}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"size", mesh_size},       {"names", mesh_names},
                                       {"devices", mesh_devices}, {"slice", mesh_slice},
                                       {"permute", mesh_permute}, {NULL, NULL}};
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, ORR__MESHES);
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, ORR__MESH, mesh_text);
}
