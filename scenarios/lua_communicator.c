#include <stdio.h>
#include <string.h>

#include "runtime/collective.h"
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
    const struct orr_scenario *scenario = orr__stream_caller(L);
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
    enum orr_collective_kind kind;
    uint32_t root;
    struct orr_piece *inputs, *outputs;
    uint64_t *input_bytes, *output_bytes; /* of the ranks' ranges */
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

static struct orr_piece *read_pieces(lua_State *L, const struct call *call, const char *key,
                                     uint64_t **out_bytes) {
    struct orr_piece *pieces = lua_newuserdatauv(L, (call->size + 1) * sizeof *pieces, 0);
    uint64_t *bytes = *out_bytes = lua_newuserdatauv(L, (call->size + 1) * sizeof *bytes, 0);
    int list = push_ranks_list(L, call, key);
    char what[64];
    snprintf(what, sizeof what, "%s: %s", call->function, key);
    for (uint32_t rank = 0; rank < call->size; rank++) {
        lua_rawgeti(L, list, (lua_Integer)rank + 1);
        bool none = orr_collective_has_root(call->kind) && lua_isboolean(L, -1);
        struct orr_range range = {0};
        if (!none)
            range = orr__range(L, -1, what);
        lua_pop(L, 1);
        pieces[rank] = (struct orr_piece){.buffer = range.buffer, .offset = range.offset};
        bytes[rank] = range.bytes;
    }
    return pieces;
}

/* Elements: given, or those of rank 0's input (of the root's, if only that is read), which some
 * kinds divide among the ranks. */
static uint64_t read_count(lua_State *L, const struct call *call, enum orr_dtype dtype) {
    uint32_t rank = call->kind == ORR_COLLECTIVE_SCATTER ? call->root : 0;
    uint64_t held = call->input_bytes[rank] / orr_dtype_size(dtype);
    if (call->kind == ORR_COLLECTIVE_REDUCE_SCATTER || call->kind == ORR_COLLECTIVE_SCATTER ||
        call->kind == ORR_COLLECTIVE_ALL_TO_ALL)
        held /= call->size;
    return (uint64_t)orr__field_integer(L, 2, call->function, "count", 1, INT64_MAX, (int64_t)held);
}

/* Reads the list of one number per rank on top into `counts`. */
static void read_row(lua_State *L, const struct call *call, uint64_t *counts) {
    char what[64];
    snprintf(what, sizeof what, "%s: counts", call->function);
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != call->size)
        orr__raise(L, ORR_INVALID, "%s: expected a list of %u numbers", what, call->size);
    for (uint32_t i = 0; i < call->size; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        counts[i] = (uint64_t)orr__integer(L, -1, what, 0, INT64_MAX);
        lua_pop(L, 1);
    }
}

/* counts: a number per rank; of an all_to_all a list of them for each sender. NULL if not there. */
static const uint64_t *read_counts(lua_State *L, const struct call *call) {
    if (lua_getfield(L, 2, "counts") == LUA_TNIL)
        return NULL;
    uint64_t length = orr_collective_counts_length(call->kind, call->size);
    if (length == 0)
        orr__raise(L, ORR_INVALID, "%s: counts: its pieces have one size", call->function);
    int list = lua_gettop(L);
    uint64_t *counts = lua_newuserdatauv(L, length * sizeof *counts, 0);
    if (length == call->size) {
        lua_pushvalue(L, list);
        read_row(L, call, counts);
        lua_pop(L, 1);
        return counts;
    }
    if (!lua_istable(L, list) || lua_rawlen(L, list) != call->size)
        orr__raise(L, ORR_INVALID, "%s: counts: expected a list of %u lists", call->function,
                   call->size);
    for (uint32_t i = 0; i < call->size; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        read_row(L, call, counts + (uint64_t)i * call->size);
        lua_pop(L, 1);
    }
    return counts;
}

static enum orr_reduction read_reduction(lua_State *L, const char *function) {
    static const char *const names[] = {"sum", "avg", "max", "min"};
    const char *text = orr__field_text(L, 2, function, "reduction", "sum");
    return (enum orr_reduction)orr__choice(L, "reduction", text, names, 4);
}

static void expect_table(lua_State *L) {
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
}

/* c:all_reduce{input =, output =, ...}; upvalue 1 is the kind. */
static int communicator_collective(lua_State *L) {
    static const char *const keys[] = {"input", "output", "count",     "counts",  "dtype",
                                       "root",  "name",   "reduction", "streams", NULL};
    enum orr_collective_kind kind = (enum orr_collective_kind)lua_tointeger(L, lua_upvalueindex(1));
    struct call call = {.function = orr_collective_kind_text(kind),
                        .kind = kind,
                        .communicator = communicator_at(L, 1)};
    call.size = orr_communicator_size(call.communicator);
    expect_table(L);
    orr__check_keys(L, 2, call.function, keys);
    call.root =
        (uint32_t)orr__field_integer(L, 2, call.function, "root", 0, (int64_t)call.size - 1, 0);
    struct orr_collective_call asked = {
        .kind = kind,
        .root = call.root,
        .dtype = orr__field_dtype(L, 2, call.function, "dtype", ORR_DTYPE_F32),
        .reduction = read_reduction(L, call.function),
        .name = orr__field_text(L, 2, call.function, "name", call.function)};
    read_streams(L, &call);
    if (kind != ORR_COLLECTIVE_BARRIER) {
        bool in_place = lua_getfield(L, 2, "output") == LUA_TNIL;
        lua_pop(L, 1);
        call.outputs = read_pieces(L, &call, in_place ? "input" : "output", &call.output_bytes);
        call.inputs = read_pieces(L, &call, "input", &call.input_bytes);
        asked.counts = read_counts(L, &call);
        asked.count = asked.counts ? 0 : read_count(L, &call, asked.dtype);
    }
    asked.streams = call.streams;
    asked.inputs = call.inputs;
    asked.outputs = call.outputs;
    asked.input_bytes = call.input_bytes;
    asked.output_bytes = call.output_bytes;
    orr__stream_caller(L);
    enum orr_status status = orr_communicator_enqueue(call.communicator, &asked, NULL);
    return orr__finish(L, status, 2, 0, communicator_collective);
}

static void check_end(lua_State *L, const char *end, const struct orr_range *range, uint64_t count,
                      enum orr_dtype dtype) {
    if (count > range->bytes / orr_dtype_size(dtype))
        orr__raise(
            L, ORR_INVALID, "send: %s is a range of %llu bytes, expected %llu elements of %s", end,
            (unsigned long long)range->bytes, (unsigned long long)count, orr_dtype_name(dtype));
}

/* The send in the table at `index`: {source =, target =, from =, to =, count =}. */
static struct orr_send read_send(lua_State *L, int index, const struct call *call,
                                 enum orr_dtype dtype) {
    int64_t last = (int64_t)call->size - 1;
    struct orr_send send = {
        .source = (uint32_t)orr__field_integer(L, index, "send", "source", 0, last, 0),
        .target = (uint32_t)orr__field_integer(L, index, "send", "target", 0, last, 0)};
    lua_getfield(L, index, "from");
    struct orr_range from = orr__range(L, -1, "send: from");
    lua_getfield(L, index, "to");
    struct orr_range to = orr__range(L, -1, "send: to");
    lua_pop(L, 2);
    send.from = (struct orr_piece){from.buffer, from.offset};
    send.to = (struct orr_piece){to.buffer, to.offset};
    send.count = (uint64_t)orr__field_integer(L, index, "send", "count", 0, INT64_MAX,
                                              (int64_t)(from.bytes / orr_dtype_size(dtype)));
    check_end(L, "from", &from, send.count, dtype);
    check_end(L, "to", &to, send.count, dtype);
    return send;
}

/* c:send{source =, target =, from =, to =}, or c:send{{...}, {...}, dtype =}: all in one group. */
static int communicator_send(lua_State *L) {
    static const char *const one[] = {"source", "target", "from",    "to", "count",
                                      "dtype",  "name",   "streams", NULL};
    static const char *const each[] = {"source", "target", "from", "to", "count", NULL};
    struct call call = {.function = "send",
                        .kind = ORR_COLLECTIVE_SEND_RECEIVE,
                        .communicator = communicator_at(L, 1)};
    call.size = orr_communicator_size(call.communicator);
    expect_table(L);
    lua_Unsigned length = lua_istable(L, 2) ? lua_rawlen(L, 2) : 0;
    if (length > INT32_MAX)
        return orr__raise(L, ORR_INVALID, "send: too many sends");
    uint32_t count = length > 0 ? (uint32_t)length : 1;
    struct orr_send *sends = lua_newuserdatauv(L, count * sizeof *sends, 0);
    if (length == 0)
        orr__check_keys(L, 2, "send", one);
    enum orr_dtype dtype = orr__field_dtype(L, 2, "send", "dtype", ORR_DTYPE_F32);
    for (uint32_t i = 0; i < length; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        orr__check_keys(L, lua_gettop(L), "send", each);
        sends[i] = read_send(L, lua_gettop(L), &call, dtype);
        lua_pop(L, 1);
    }
    if (length == 0)
        sends[0] = read_send(L, 2, &call, dtype);
    const char *name = orr__field_text(L, 2, "send", "name", "send");
    read_streams(L, &call);
    orr__stream_caller(L);
    enum orr_status status = orr_send_receive_enqueue(call.communicator, dtype, sends, count,
                                                      call.streams, name, 0, NULL);
    return orr__finish(L, status, 2, 0, communicator_send);
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
        if (kind == ORR_COLLECTIVE_SEND_RECEIVE)
            continue;
        lua_pushinteger(L, kind);
        lua_pushcclosure(L, communicator_collective, 1);
        lua_setfield(L, -2, orr_collective_kind_text((enum orr_collective_kind)kind));
    }
    lua_pushcfunction(L, communicator_send);
    lua_setfield(L, -2, "send");
    lua_pushcfunction(L, communicator_size);
    lua_setfield(L, -2, "size");
    orr__class(L, ORR__COMMUNICATOR, communicator_text);
}
