/* orrery.mesh{shape = {2, 4}, names = {"dp", "tp"}[, devices = {...}]} and placements. */
#include <stdio.h>
#include <string.h>

#include "scenarios/tensor_internal.h"

static struct orr_mesh *mesh_at(lua_State *L, int index, const char *what) {
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

void orr__placements(lua_State *L, int index, const char *function, struct orr_layout *layout) {
    int at = lua_absindex(L, index), axes = layout->mesh->axis_count;
    bool list = lua_istable(L, at);
    int count = list ? (int)lua_rawlen(L, at) : 1;
    if (count != axes) {
        orr__raise(L, ORR_INVALID, "%s: place has %d placements, but the mesh has %d axes",
                   function, count, axes);
    }
    for (int i = 0; i < axes; i++) {
        lua_pushvalue(L, at);
        if (list) {
            lua_rawgeti(L, at, i + 1);
        }
        if (lua_type(L, -1) != LUA_TSTRING) {
            orr__raise(L, ORR_INVALID, "%s: place: expected texts such as 'S(0)', got %s", function,
                       luaL_typename(L, -1));
        }
        struct orr_error error = {0};
        if (orr_placement_parse(lua_tostring(L, -1), &layout->axes[i], &error) != ORR_OK) {
            orr__raise(L, ORR_INVALID, "%s: %s", function, error.text);
        }
        lua_pop(L, list ? 2 : 1);
    }
}

bool orr__field_layout(lua_State *L, int index, const char *function, struct orr_layout *out) {
    int at = lua_absindex(L, index);
    struct orr_runtime *runtime = orr__scenario_of(L)->runtime;
    bool given = false;
    struct orr_mesh *mesh = NULL;
    if (lua_getfield(L, at, "mesh") != LUA_TNIL) {
        mesh = mesh_at(L, lua_gettop(L), function);
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
    orr__push_handle(L, ORR__MESH, mesh);
    return 1;
}

static int mesh_text(lua_State *L) {
    const struct orr_mesh *mesh = mesh_at(L, 1, "mesh");
    lua_pushfstring(L, "mesh of %d devices", (int)mesh->size);
    return 1;
}

static int mesh_size(lua_State *L) {
    const struct orr_mesh *mesh = mesh_at(L, 1, "mesh:size");
    if (lua_isnoneornil(L, 2)) {
        lua_pushinteger(L, mesh->size);
        return 1;
    }
    const char *name = luaL_checkstring(L, 2);
    int axis = orr_mesh_axis(mesh, name);
    if (axis < 0) {
        return orr__raise(L, ORR_INVALID, "mesh:size: the mesh has no axis '%s'", name);
    }
    lua_pushinteger(L, mesh->dims[axis]);
    return 1;
}

void orr__open_meshes(lua_State *L) {
    static const luaL_Reg functions[] = {{"mesh", orrery_mesh}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"size", mesh_size}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, ORR__MESH, mesh_text);
}
