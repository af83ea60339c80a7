#include <string.h>

#include "scenarios/scenario_internal.h"

/* Buffers. A handle loses its buffer at free; its user value then says where that was. Handles that
 * the garbage collector takes do not free: memory is given back at b:free(), at <close>, or with
 * the runtime, so that the trace never depends on when Lua collects. */

struct orr_buffer *orr__buffer(lua_State *L, int index, const char *what) {
    const struct orr__handle *handle = orr__handle(L, index, ORR__BUFFER, what);
    if (!handle->pointer) {
        lua_getiuservalue(L, index, 1);
        orr__raise(L, ORR_INVALID, "%s: the buffer was freed at %s", what,
                   lua_isstring(L, -1) ? lua_tostring(L, -1) : "an earlier line");
    }
    return handle->pointer;
}

void orr__push_buffer(lua_State *L, struct orr_buffer *buffer) {
    orr__push_handle(L, ORR__BUFFER, buffer);
}

/* --- making --- */

/* Ends an allocation of the stream or device at index 1: bytes at 2, label at 3. */
static int alloc_from(lua_State *L, struct orr_stream *stream, lua_CFunction again) {
    int64_t bytes = orr__integer(L, 2, "alloc: bytes", 1, INT64_MAX);
    const char *label = luaL_optstring(L, 3, NULL);
    struct orr_buffer *buffer = NULL;
    enum orr_status status = orr_buffer_alloc(stream, (uint64_t)bytes, label, &buffer);
    if (status == ORR_OK)
        orr__push_buffer(L, buffer);
    return orr__finish(L, status, 3, 1, again);
}

int orr__stream_alloc(lua_State *L) {
    struct orr_stream *stream = orr__stream(L, 1, "stream");
    lua_settop(L, 3);
    orr__caller(L);
    return alloc_from(L, stream, orr__stream_alloc);
}

/* d:alloc(bytes[, label]): for the device's compute stream. */
int orr__device_alloc(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    lua_settop(L, 3);
    const struct orr_scenario *scenario = orr__caller(L);
    struct orr_stream *stream = orr_device_stream(scenario->runtime, device, ORR_STREAM_COMPUTE);
    if (!stream)
        return orr__raise_runtime(L, ORR_NO_MEMORY);
    return alloc_from(L, stream, orr__device_alloc);
}

/* orrery.host_alloc(bytes[, label or {label, pageable}]): host memory, pinned unless said. */
static int orrery_host_alloc(lua_State *L) {
    static const char *const keys[] = {"label", "pageable", NULL};
    lua_settop(L, 2);
    int64_t bytes = orr__integer(L, 1, "host_alloc: bytes", 1, INT64_MAX);
    bool pageable = false;
    const char *label;
    if (lua_istable(L, 2)) {
        orr__check_keys(L, 2, "host_alloc", keys);
        label = orr__field_text(L, 2, "host_alloc", "label", NULL);
        pageable = orr__field_flag(L, 2, "host_alloc", "pageable", false);
    } else {
        label = luaL_optstring(L, 2, NULL);
    }
    struct orr_runtime *runtime = orr__caller(L)->runtime;
    struct orr_buffer *buffer = NULL;
    enum orr_status status =
        pageable ? orr_buffer_alloc_pageable(runtime, (uint64_t)bytes, label, &buffer)
                 : orr_buffer_alloc_host(runtime, (uint64_t)bytes, label, &buffer);
    if (status == ORR_OK)
        orr__push_buffer(L, buffer);
    return orr__finish(L, status, 2, 1, orrery_host_alloc);
}

static int buffer_free(lua_State *L) {
    struct orr_buffer *buffer = orr__buffer(L, 1, "free");
    lua_settop(L, 1);
    orr__caller(L);
    char site[ORR__SITE_MAX];
    orr__site(L, site, sizeof site);
    orr_buffer_free(&buffer);
    orr__handle(L, 1, ORR__BUFFER, "free")->pointer = NULL;
    lua_pushstring(L, site);
    lua_setiuservalue(L, 1, 1);
    return 0;
}

/* <close>: frees unless that has been done. */
static int buffer_close(lua_State *L) {
    lua_settop(L, 1);
    return orr__handle(L, 1, ORR__BUFFER, "close")->pointer ? buffer_free(L) : 0;
}

static int buffer_record_stream(lua_State *L) {
    struct orr_buffer *buffer = orr__buffer(L, 1, "record_stream");
    struct orr_stream *stream = orr__stream(L, 2, "record_stream");
    orr__caller(L);
    return orr__finish(L, orr_buffer_record_stream(buffer, stream), 2, 0, buffer_record_stream);
}

/* --- values --- */

/* Bytes of a part of a buffer in elements of a dtype; raises if it does not fit. */
struct part {
    struct orr_buffer *buffer;
    enum orr_dtype dtype;
    size_t element;
    uint64_t first, count;
};

/* The named options at `index` (may be absent): first, count, dtype, ns; `count` from there to the
 * end unless given. */
static struct part read_part(lua_State *L, int index, const char *function, int64_t count) {
    static const char *const keys[] = {"first", "count", "dtype", "ns", NULL};
    struct part part = {.buffer = orr__buffer(L, 1, function), .dtype = ORR_DTYPE_F32};
    bool options = !lua_isnoneornil(L, index);
    if (options) {
        orr__check_keys(L, index, function, keys);
        part.dtype = orr__field_dtype(L, index, function, "dtype", ORR_DTYPE_F32);
    }
    part.element = orr_dtype_size(part.dtype);
    int64_t held = (int64_t)(orr_buffer_bytes(part.buffer) / part.element);
    int64_t first = options ? orr__field_integer(L, index, function, "first", 0, held, 0) : 0;
    if (count < 0)
        count = held - first;
    if (options)
        count = orr__field_integer(L, index, function, "count", 0, held - first, count);
    if (count > held - first)
        orr__raise(L, ORR_INVALID, "%s: %lld values from element %lld on don't fit in %lld %s",
                   function, (long long)count, (long long)first, (long long)held,
                   orr_dtype_name(part.dtype));
    part.first = (uint64_t)first;
    part.count = (uint64_t)count;
    return part;
}

static int64_t read_ns(lua_State *L, int index, const char *function) {
    if (lua_isnoneornil(L, index))
        return -1;
    return orr__field_integer(L, index, function, "ns", 0, ORR__NS_MAX, -1);
}

static double value_at(lua_State *L, int index) {
    if (lua_isboolean(L, index))
        return lua_toboolean(L, index);
    return orr__number(L, index, "write: value");
}

/* Elements for `part` from the number or array at index 2, in a new userdata on top. */
static void *push_elements(lua_State *L, const struct part *part) {
    void *data = lua_newuserdatauv(L, part->count * part->element + 1, 0);
    bool list = lua_istable(L, 2);
    double value = list ? 0 : value_at(L, 2);
    for (uint64_t i = 0; i < part->count; i++) {
        if (list) {
            lua_rawgeti(L, 2, (lua_Integer)i + 1);
            value = value_at(L, -1);
            lua_pop(L, 1);
        }
        orr_dtype_store(part->dtype, data, i, value);
    }
    return data;
}

/* b:write(value or {values}[, options]): a number fills. */
static int buffer_write(lua_State *L) {
    lua_settop(L, 3);
    int64_t count = lua_istable(L, 2) ? (int64_t)lua_rawlen(L, 2) : -1;
    struct part part = read_part(L, 3, "write", count);
    const void *data = push_elements(L, &part);
    int64_t ns = read_ns(L, 3, "write");
    orr__caller(L);
    enum orr_status status = orr_buffer_write(part.buffer, part.first * part.element, data,
                                              part.count * part.element, ns);
    return orr__finish(L, status, 3, 0, buffer_write);
}

/* What a read leaves when its values are poison: bytes 0xff, NaN in every float. */
static void spoil(void *data, size_t size) {
    memset(data, 0xff, size);
}

/* b:read([options]): an array of numbers. */
static int buffer_read(lua_State *L) {
    lua_settop(L, 2);
    struct part part = read_part(L, 2, "read", -1);
    int64_t ns = read_ns(L, 2, "read");
    void *data = lua_newuserdatauv(L, part.count * part.element + 1, 0);
    spoil(data, part.count * part.element);
    orr__caller(L);
    enum orr_status status = orr_buffer_read(part.buffer, part.first * part.element, data,
                                             part.count * part.element, ns);
    if (status != ORR_OK)
        return orr__finish(L, status, 2, 0, buffer_read);
    lua_createtable(L, part.count < INT32_MAX ? (int)part.count : 0, 0);
    for (uint64_t i = 0; i < part.count; i++) {
        lua_pushnumber(L, orr_dtype_load(part.dtype, data, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* b:f32(index): one element, counted from 0. */
static int buffer_f32(lua_State *L) {
    struct orr_buffer *buffer = orr__buffer(L, 1, "f32");
    lua_settop(L, 2);
    int64_t held = (int64_t)(orr_buffer_bytes(buffer) / sizeof(float));
    int64_t at = lua_isnil(L, 2) ? 0 : orr__integer(L, 2, "f32: index", 0, held - 1);
    float value;
    spoil(&value, sizeof value);
    orr__caller(L);
    enum orr_status status =
        orr_buffer_read(buffer, (uint64_t)at * sizeof value, &value, sizeof value, -1);
    if (status == ORR_OK)
        lua_pushnumber(L, (lua_Number)value);
    return orr__finish(L, status, 2, 1, buffer_f32);
}

static int buffer_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)orr_buffer_bytes(orr__buffer(L, 1, "bytes")));
    return 1;
}

static int buffer_text(lua_State *L) {
    const struct orr__handle *handle = orr__handle(L, 1, ORR__BUFFER, "buffer");
    if (handle->pointer)
        lua_pushfstring(L, "buffer %I", (LUAI_UACINT)orr_buffer_id(handle->pointer));
    else
        lua_pushliteral(L, "buffer (freed)");
    return 1;
}

void orr__open_buffers(lua_State *L) {
    static const luaL_Reg functions[] = {{"host_alloc", orrery_host_alloc}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"free", buffer_free},
                                       {"role", orr__buffer_role},
                                       {"record_stream", buffer_record_stream},
                                       {"write", buffer_write},
                                       {"read", buffer_read},
                                       {"f32", buffer_f32},
                                       {"bytes", buffer_bytes},
                                       {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, ORR__BUFFER, buffer_text);
    luaL_getmetatable(L, ORR__BUFFER);
    lua_pushcfunction(L, buffer_close);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
}
