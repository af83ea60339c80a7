#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* Communicators and collectives. */

static struct orr_communicator *communicator_at(lua_State *L, int index) {
    return orr__handle(L, index, ORR__COMMUNICATOR, "communicator")->pointer;
}

/* The list `devices` of the table at index 1, as a userdata on top: numbers or device handles. */
static uint32_t *push_devices(lua_State *L, uint32_t *out_count) {
    int64_t total = (int64_t)orr_runtime_device_count(orr__scenario_of(L)->runtime);
    int type = lua_getfield(L, 1, "devices");
    if (type != LUA_TNIL && type != LUA_TTABLE)
        orr__raise(L, ORR_INVALID, "communicator: devices: expected a list, got %s",
                   lua_typename(L, type));
    int list = lua_gettop(L);
    lua_Unsigned count = type == LUA_TNIL ? (lua_Unsigned)total : lua_rawlen(L, list);
    uint32_t *devices = lua_newuserdatauv(L, (count + 1) * sizeof *devices, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        devices[i] = (uint32_t)i;
        if (type == LUA_TNIL)
            continue;
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        devices[i] = orr__is_handle(L, -1, ORR__DEVICE)
                         ? orr__device(L, -1)
                         : (uint32_t)orr__integer(L, -1, "communicator: devices", 0, total - 1);
        lua_pop(L, 1);
    }
    *out_count = (uint32_t)count;
    return devices;
}

/* orrery.communicator{devices =, name =}: all devices of the run unless given. */
static int orrery_communicator(lua_State *L) {
    static const char *const keys[] = {"devices", "name", NULL};
    lua_settop(L, 1);
    if (lua_isnil(L, 1)) {
        lua_newtable(L);
        lua_replace(L, 1);
    }
    orr__check_keys(L, 1, "communicator", keys);
    const char *name = orr__field_text(L, 1, "communicator", "name", "world");
    uint32_t count = 0;
    const uint32_t *devices = push_devices(L, &count);
    const struct orr_scenario *scenario = orr__caller(L);
    struct orr_communicator *communicator = NULL;
    enum orr_status status =
        orr_communicator_create(scenario->runtime, name, devices, count, &communicator);
    if (status == ORR_OK)
        orr__push_handle(L, ORR__COMMUNICATOR, communicator);
    return orr__finish(L, status, 1, 1, orrery_communicator);
}

/* What one collective call needs, in memory that Lua owns. */
struct call {
    const char *function;
    struct orr_communicator *communicator;
    uint32_t size;
    struct orr_stream **streams;
    struct orr_piece *inputs, *outputs;
    uint64_t input_bytes; /* of rank 0's range */
};

/* Pushes the list `key` of the table at index 2, which must have one value per rank. */
static int push_ranks_list(lua_State *L, const struct call *call, const char *key) {
    int type = lua_getfield(L, 2, key);
    if (type != LUA_TTABLE)
        orr__raise(L, ORR_INVALID, "%s: %s: expected a list of one per rank, got %s",
                   call->function, key, lua_typename(L, type));
    lua_Unsigned length = lua_rawlen(L, -1);
    if (length != call->size)
        orr__raise(L, ORR_INVALID, "%s: %s has %llu values for a communicator of %u ranks",
                   call->function, key, (unsigned long long)length, call->size);
    return lua_gettop(L);
}

/* streams: a list of one per rank, or a kind; the devices' communicate streams unless given. */
static void read_streams(lua_State *L, struct call *call) {
    static const char *const kinds[] = {"compute", "communicate", "copy"};
    call->streams = lua_newuserdatauv(L, (call->size + 1) * sizeof *call->streams, 0);
    int type = lua_getfield(L, 2, "streams");
    int kind = ORR_STREAM_COMMUNICATE;
    if (type == LUA_TSTRING)
        kind = orr__choice(L, "kind of stream", lua_tostring(L, -1), kinds, 3);
    lua_pop(L, 1);
    int list = type == LUA_TNIL || type == LUA_TSTRING ? 0 : push_ranks_list(L, call, "streams");
    struct orr_runtime *runtime = orr__scenario_of(L)->runtime;
    for (uint32_t rank = 0; rank < call->size; rank++) {
        if (list) {
            lua_rawgeti(L, list, (lua_Integer)rank + 1);
            call->streams[rank] = orr__stream(L, -1, call->function);
            lua_pop(L, 1);
            continue;
        }
        uint32_t device = orr_communicator_device(call->communicator, rank);
        call->streams[rank] = orr_device_stream(runtime, device, (enum orr_stream_kind)kind);
        if (!call->streams[rank])
            orr__raise_runtime(L, ORR_NO_MEMORY);
    }
}

static struct orr_piece *read_pieces(lua_State *L, struct call *call, const char *key) {
    struct orr_piece *pieces = lua_newuserdatauv(L, (call->size + 1) * sizeof *pieces, 0);
    int list = push_ranks_list(L, call, key);
    char what[64];
    snprintf(what, sizeof what, "%s: %s", call->function, key);
    for (uint32_t rank = 0; rank < call->size; rank++) {
        lua_rawgeti(L, list, (lua_Integer)rank + 1);
        struct orr_range range = orr__range(L, -1, what);
        lua_pop(L, 1);
        pieces[rank] = (struct orr_piece){.buffer = range.buffer, .offset = range.offset};
        if (rank == 0)
            call->input_bytes = range.bytes;
    }
    return pieces;
}

/* Elements: given, or those of rank 0's input (a reduce_scatter's input has them for every
 * rank). */
static uint64_t read_count(lua_State *L, const struct call *call, enum orr_collective_kind kind,
                           enum orr_dtype dtype) {
    uint64_t held = call->input_bytes / orr_dtype_size(dtype);
    if (kind == ORR_COLLECTIVE_REDUCE_SCATTER)
        held /= call->size;
    return (uint64_t)orr__field_integer(L, 2, call->function, "count", 1, INT64_MAX, (int64_t)held);
}

/* c:all_reduce{input =, output =, ...}; upvalue 1 is the kind. */
static int communicator_collective(lua_State *L) {
    static const char *const keys[] = {"input", "output", "count",   "dtype",
                                       "root",  "name",   "streams", NULL};
    enum orr_collective_kind kind = (enum orr_collective_kind)lua_tointeger(L, lua_upvalueindex(1));
    struct call call = {.function = orr_collective_kind_text(kind),
                        .communicator = communicator_at(L, 1)};
    call.size = orr_communicator_size(call.communicator);
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    orr__check_keys(L, 2, call.function, keys);
    enum orr_dtype dtype = orr__field_dtype(L, 2, call.function, "dtype", ORR_DTYPE_F32);
    int64_t root = orr__field_integer(L, 2, call.function, "root", 0, (int64_t)call.size - 1, 0);
    const char *name = orr__field_text(L, 2, call.function, "name", call.function);
    read_streams(L, &call);
    uint64_t count = 0;
    if (kind != ORR_COLLECTIVE_BARRIER) {
        bool in_place = lua_getfield(L, 2, "output") == LUA_TNIL;
        lua_pop(L, 1);
        call.outputs = read_pieces(L, &call, in_place ? "input" : "output");
        call.inputs = read_pieces(L, &call, "input");
        count = read_count(L, &call, kind, dtype);
    }
    orr__caller(L);
    enum orr_status status =
        orr_collective_enqueue(call.communicator, kind, dtype, count, (uint32_t)root, call.streams,
                               call.inputs, call.outputs, name, 0, NULL);
    return orr__finish(L, status, 2, 0, communicator_collective);
}

static int communicator_size(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)orr_communicator_size(communicator_at(L, 1)));
    return 1;
}

static int communicator_text(lua_State *L) {
    lua_pushfstring(L, "communicator of %d ranks",
                    (int)orr_communicator_size(communicator_at(L, 1)));
    return 1;
}

void orr__open_communicators(lua_State *L) {
    static const luaL_Reg functions[] = {{"communicator", orrery_communicator}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_newtable(L);
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++) {
        lua_pushinteger(L, kind);
        lua_pushcclosure(L, communicator_collective, 1);
        lua_setfield(L, -2, orr_collective_kind_text((enum orr_collective_kind)kind));
    }
    lua_pushcfunction(L, communicator_size);
    lua_setfield(L, -2, "size");
    orr__class(L, ORR__COMMUNICATOR, communicator_text);
}
