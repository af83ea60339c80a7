#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* Streams and events. Streams are looked up by device and name in tables of the registry, so that
 * the same stream is the same handle wherever it is asked for. */

static const char *const kind_names[] = {"compute", "communicate", "copy"};
enum { KIND_COUNT = 3 };

static struct orr_stream *stream_at(lua_State *L, int index) {
    return orr__handle(L, index, ORR__STREAM, "stream")->pointer;
}

struct orr_stream *orr__stream(lua_State *L, int index, const char *what) {
    return orr__handle(L, index, ORR__STREAM, what)->pointer;
}

static struct orr_event *event_at(lua_State *L, int index, const char *what) {
    return orr__handle(L, index, ORR__EVENT, what)->pointer;
}

static struct orr_runtime *runtime_of(lua_State *L) {
    return orr__scenario_of(L)->runtime;
}

/* --- making streams --- */

static struct orr_stream *make_stream(lua_State *L, uint32_t device, enum orr_stream_kind kind,
                                      enum orr_stream_sync sync, const char *name) {
    struct orr_runtime *runtime = runtime_of(L);
    struct orr_stream *stream = NULL;
    if (strcmp(name, kind_names[kind]) == 0) {
        stream = orr_device_stream(runtime, device, kind);
        if (!stream)
            orr__raise_runtime(L, ORR_NO_MEMORY);
        return stream;
    }
    enum orr_status status = orr_stream_create_blocking(runtime, device, kind, sync, name, &stream);
    if (status != ORR_OK)
        orr__raise_runtime(L, status);
    return stream;
}

/* The kind that the stream's name stands for; "compute" unless it is one. */
static int kind_of_name(const char *name) {
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(name, kind_names[i]) == 0)
            return i;
    return 0;
}

/* What is at index 3: a kind, or a table with `kind` and `sync`. -1: not said. */
static void read_stream_options(lua_State *L, int *out_kind, int *out_sync) {
    static const char *const keys[] = {"kind", "sync", NULL};
    static const char *const syncs[] = {"nb", "bl", "ptds"};
    const char *kind = NULL, *sync = NULL;
    if (lua_istable(L, 3)) {
        orr__check_keys(L, 3, "stream", keys);
        kind = orr__field_text(L, 3, "stream", "kind", NULL);
        sync = orr__field_text(L, 3, "stream", "sync", NULL);
    } else if (!lua_isnoneornil(L, 3)) {
        kind = luaL_checkstring(L, 3);
    }
    *out_kind = kind ? orr__choice(L, "kind of stream", kind, kind_names, KIND_COUNT) : -1;
    if (sync && strcmp(sync, "legacy") == 0)
        orr__raise(L, ORR_INVALID, "stream: the legacy default stream is d:legacy()");
    *out_sync = sync ? orr__choice(L, "sync of a stream", sync, syncs, 3) : -1;
}

/* Pushes the registry's table of a device's streams, by name. */
static void push_streams(lua_State *L, uint32_t device) {
    lua_getfield(L, LUA_REGISTRYINDEX, ORR__STREAMS);
    if (lua_rawgeti(L, -1, (lua_Integer)device + 1) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 4);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, (lua_Integer)device + 1);
    }
    lua_remove(L, -2);
}

/* Pushes the table of the device's streams, and the stream of that name if it is there: in a
 * scenario that is run many times it may be an earlier run's. */
static bool push_known_stream(lua_State *L, uint32_t device, const char *name) {
    push_streams(L, device);
    if (lua_getfield(L, -1, name) != LUA_TNIL &&
        orr__handle(L, -1, ORR__STREAM, "stream")->number == orr__scenario_of(L)->run)
        return true;
    lua_pop(L, 1);
    return false;
}

/* Pushes a handle, which it keeps in the table on top: the one of an earlier run, which nobody has
 * any more, or a new one. */
static void push_stream(lua_State *L, const char *name, struct orr_stream *stream) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    struct orr__handle *handle;
    if (lua_getfield(L, -1, name) != LUA_TNIL) {
        handle = orr__handle(L, -1, ORR__STREAM, "stream");
        handle->pointer = stream;
        handle->serial = scenario->handle_count++;
    } else {
        lua_pop(L, 1);
        handle = orr__push_handle(L, ORR__STREAM, stream);
        scenario->stream_count++;
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, name);
    }
    handle->number = scenario->run;
}

static void check_stream_sync(lua_State *L, const char *name, int sync) {
    static const char *const texts[] = {"nb", "bl", "ptds", "legacy"};
    enum orr_stream_sync found = orr_stream_blocking(stream_at(L, -1));
    if (sync >= 0 && (enum orr_stream_sync)sync != found)
        orr__raise(L, ORR_INVALID, "stream: '%s' is there already, and its sync is \"%s\"", name,
                   texts[found]);
}

/* d:stream(name[, kind or options]): the device's own stream of a kind when the name is a kind,
 * else a further stream of that name; kind "compute" and sync "nb" unless given. */
int orr__device_stream(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    const char *name = lua_isnoneornil(L, 2) ? kind_names[0] : luaL_checkstring(L, 2);
    int own = kind_of_name(name), kind, sync;
    bool is_own = strcmp(name, kind_names[own]) == 0;
    read_stream_options(L, &kind, &sync);
    if (is_own && kind >= 0 && kind != own)
        return orr__raise(L, ORR_INVALID, "stream: '%s' is the device's own %s stream", name, name);
    if (is_own && sync > 0)
        return orr__raise(L, ORR_INVALID, "stream: the device's own streams are \"nb\"");
    orr__stream_caller(L);
    if (push_known_stream(L, device, name)) {
        check_stream_sync(L, name, sync);
        return 1;
    }
    push_stream(L, name,
                make_stream(L, device, (enum orr_stream_kind)(kind < 0 ? own : kind),
                            (enum orr_stream_sync)(sync < 0 ? 0 : sync), name));
    return 1;
}

/* d:legacy() */
int orr__device_legacy(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    orr__stream_caller(L);
    if (push_known_stream(L, device, "legacy")) {
        if (orr_stream_blocking(stream_at(L, -1)) == ORR_STREAM_LEGACY)
            return 1;
        lua_pop(L, 1);
    }
    struct orr_stream *stream = orr_device_legacy_stream(runtime_of(L), device);
    if (!stream)
        return orr__raise_runtime(L, orr_runtime_error(runtime_of(L))->status);
    push_stream(L, "legacy", stream);
    return 1;
}

static int stream_text(lua_State *L) {
    const struct orr_stream *stream = stream_at(L, 1);
    lua_pushfstring(L, "stream %s of device %d", orr_stream_name(stream),
                    (int)orr_stream_device(stream));
    return 1;
}

static int stream_name(lua_State *L) {
    lua_pushstring(L, orr_stream_name(stream_at(L, 1)));
    return 1;
}

static int stream_device(lua_State *L) {
    struct orr__handle *handle = orr__push_handle(L, ORR__DEVICE, NULL);
    handle->number = orr_stream_device(stream_at(L, 1));
    return 1;
}

/* --- work --- */

/* Ranges of the lists `reads` and `writes` of the table at index 2, on top of the stack as a
 * userdata. */
struct accesses {
    struct orr_range *ranges;
    uint32_t count;
};

/* A field that is a list of ranges, or one buffer. Pushes it; returns the number of ranges. */
static lua_Unsigned push_list(lua_State *L, const char *function, const char *key) {
    int type = lua_getfield(L, 2, key);
    if (type == LUA_TNIL)
        return 0;
    if (type != LUA_TTABLE) {
        lua_createtable(L, 1, 0); /* reads = a means reads = {a} */
        lua_insert(L, -2);
        lua_rawseti(L, -2, 1);
    }
    lua_Unsigned count = lua_rawlen(L, -1);
    if (count > UINT16_MAX)
        orr__raise(L, ORR_INVALID, "%s: %s: at most 65535 ranges", function, key);
    return count;
}

static void read_list(lua_State *L, int list, lua_Unsigned count, const char *function,
                      const char *key, enum orr_access_mode mode, struct orr_range *ranges) {
    char what[64];
    snprintf(what, sizeof what, "%s: %s", function, key);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        ranges[i] = orr__range(L, -1, what);
        ranges[i].mode = mode;
        lua_pop(L, 1);
    }
}

static struct accesses read_accesses(lua_State *L, const char *function) {
    lua_Unsigned reads = push_list(L, function, "reads");
    int read_list_at = lua_gettop(L);
    lua_Unsigned writes = push_list(L, function, "writes");
    int write_list_at = lua_gettop(L);
    struct orr_range *ranges = lua_newuserdatauv(L, (reads + writes + 1) * sizeof *ranges, 0);
    read_list(L, read_list_at, reads, function, "reads", ORR_ACCESS_READ, ranges);
    read_list(L, write_list_at, writes, function, "writes", ORR_ACCESS_WRITE, ranges + reads);
    return (struct accesses){.ranges = ranges, .count = (uint32_t)(reads + writes)};
}

static uint64_t total_bytes(const struct accesses *accesses, enum orr_access_mode mode) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < accesses->count; i++)
        if (accesses->ranges[i].mode == mode)
            total += accesses->ranges[i].bytes;
    return total;
}

/* Bytes moved: those of the ranges, unless `bytes` (of both), `bytes_read` or `bytes_written` say
 * otherwise. Of `bytes`, as much counts as written as the ranges write. A kernel whose time is
 * given by `ns` moves nothing unless it says so: then nothing on the device is shared with
 * others. */
static void read_bytes(lua_State *L, const struct accesses *accesses, bool timed,
                       struct orr_cost *cost) {
    uint64_t read = timed ? 0 : total_bytes(accesses, ORR_ACCESS_READ);
    uint64_t written = timed ? 0 : total_bytes(accesses, ORR_ACCESS_WRITE);
    int64_t bytes = orr__field_integer(L, 2, "kernel", "bytes", 0, INT64_MAX, -1);
    if (bytes >= 0) {
        uint64_t writes = total_bytes(accesses, ORR_ACCESS_WRITE);
        written = writes < (uint64_t)bytes ? writes : (uint64_t)bytes;
        read = (uint64_t)bytes - written;
    }
    int64_t given = orr__field_integer(L, 2, "kernel", "bytes_read", 0, INT64_MAX, -1);
    cost->bytes_read = given >= 0 ? (uint64_t)given : read;
    given = orr__field_integer(L, 2, "kernel", "bytes_written", 0, INT64_MAX, -1);
    cost->bytes_written = given >= 0 ? (uint64_t)given : written;
}

static enum orr_unit read_unit(lua_State *L) {
    static const char *const units[] = {"vector", "matrix"};
    const char *unit = orr__field_text(L, 2, "kernel", "unit", units[0]);
    return (enum orr_unit)orr__choice(L, "unit", unit, units, 2);
}

static int stream_any_kernel(lua_State *L) {
    static const char *const keys[] = {"name",  "reads",      "writes",        "flops",
                                       "bytes", "bytes_read", "bytes_written", "dtype",
                                       "unit",  "ns",         "submit_ns",     NULL};
    struct orr_stream *stream = stream_at(L, 1);
    lua_settop(L, 2);
    orr__check_keys(L, 2, "kernel", keys);
    struct orr_kernel kernel = {.name = orr__field_text(L, 2, "kernel", "name", "kernel")};
    struct accesses accesses = read_accesses(L, "kernel");
    kernel.accesses = accesses.ranges;
    kernel.access_count = accesses.count;
    kernel.cost.flops = (uint64_t)orr__field_integer(L, 2, "kernel", "flops", 0, INT64_MAX, 0);
    kernel.cost.unit = read_unit(L);
    kernel.dtype = orr__field_dtype(L, 2, "kernel", "dtype",
                                    kernel.cost.flops > 0 ? ORR_DTYPE_F32 : ORR_DTYPE_NONE);
    kernel.service_ns = orr__field_integer(L, 2, "kernel", "ns", 0, ORR__SERVICE_NS_MAX, -1);
    read_bytes(L, &accesses, kernel.service_ns >= 0, &kernel.cost);
    kernel.submit_ns = orr__field_integer(L, 2, "kernel", "submit_ns", 0, ORR__NS_MAX, -1);
    orr__stream_caller(L);
    return orr__finish(L, orr_stream_kernel(stream, &kernel, NULL), 2, 0, stream_any_kernel);
}

/* --- kernels as they mostly are: a name, buffers as reads and writes, perhaps a time --- */

enum { FEW = 6 };

struct few {
    struct orr_range ranges[FEW];
    uint32_t count;
    uint64_t bytes;
};

/* Adds the live buffer on top; false for anything else. */
static bool add_few(lua_State *L, struct few *few, enum orr_access_mode mode) {
    const struct orr__handle *handle = orr__handle_of(L, -1, ORR__BUFFER);
    if (!handle || !handle->pointer || few->count == FEW)
        return false;
    uint64_t bytes = orr_buffer_bytes(handle->pointer);
    few->ranges[few->count++] =
        (struct orr_range){.buffer = handle->pointer, .bytes = bytes, .mode = mode};
    few->bytes += bytes;
    return true;
}

/* A field on top: a buffer, or a list of buffers. */
static bool read_few(lua_State *L, struct few *few, enum orr_access_mode mode) {
    if (!lua_istable(L, -1))
        return add_few(L, few, mode);
    lua_Unsigned count = lua_rawlen(L, -1);
    bool few_enough = count <= FEW;
    for (lua_Unsigned i = 1; i <= count && few_enough; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        few_enough = add_few(L, few, mode);
        lua_pop(L, 1);
    }
    return few_enough;
}

/* Of texts with a length; strcmp would be a call for each. */
#define IS_KEY(key, length, text)                                                                  \
    ((length) == sizeof(text) - 1 && memcmp((key), (text), sizeof(text) - 1) == 0)

/* The field whose key and value are on top. */
static bool read_field(lua_State *L, struct orr_kernel *kernel, struct few *reads,
                       struct few *writes) {
    if (lua_type(L, -2) != LUA_TSTRING)
        return false;
    size_t length;
    const char *key = lua_tolstring(L, -2, &length);
    if (IS_KEY(key, length, "reads"))
        return read_few(L, reads, ORR_ACCESS_READ);
    if (IS_KEY(key, length, "writes"))
        return read_few(L, writes, ORR_ACCESS_WRITE);
    if (IS_KEY(key, length, "name") && lua_type(L, -1) == LUA_TSTRING) {
        kernel->name = lua_tostring(L, -1); /* the table keeps it alive */
        return true;
    }
    if (!IS_KEY(key, length, "ns") || !lua_isinteger(L, -1))
        return false;
    kernel->service_ns = lua_tointeger(L, -1);
    return kernel->service_ns >= 0 && kernel->service_ns <= ORR__SERVICE_NS_MAX;
}

/* Reads the table at index 2 in one pass if there is nothing else in it, and nothing wrong; false,
 * and nothing said, if there is: whoever reads it field by field says what. */
static bool read_simple_kernel(lua_State *L, struct orr_kernel *kernel, struct few *reads) {
    struct few writes = {.count = 0};
    *kernel = (struct orr_kernel){
        .name = "kernel", .dtype = ORR_DTYPE_NONE, .service_ns = -1, .submit_ns = -1};
    reads->count = 0;
    reads->bytes = 0;
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1))
        if (!read_field(L, kernel, reads, &writes) || reads->count + writes.count > FEW) {
            lua_settop(L, 2);
            return false;
        }
    if (kernel->service_ns < 0) {
        kernel->cost.bytes_read = reads->bytes;
        kernel->cost.bytes_written = writes.bytes;
    }
    for (uint32_t i = 0; i < writes.count; i++)
        reads->ranges[reads->count++] = writes.ranges[i];
    kernel->accesses = reads->ranges;
    kernel->access_count = reads->count;
    return true;
}

static int stream_kernel(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    struct orr_kernel kernel;
    struct few few;
    lua_settop(L, 2);
    if (!lua_istable(L, 2) || !read_simple_kernel(L, &kernel, &few))
        return stream_any_kernel(L);
    orr__stream_caller(L);
    return orr__finish(L, orr_stream_kernel(stream, &kernel, NULL), 2, 0, stream_kernel);
}

/* A required range of the table at index 2. */
static struct orr_range field_range(lua_State *L, const char *function, const char *key) {
    char what[64];
    snprintf(what, sizeof what, "%s: %s", function, key);
    lua_getfield(L, 2, key);
    struct orr_range range = orr__range(L, -1, what);
    lua_pop(L, 1);
    return range;
}

/* What a copy is about, of the table at index 2. */
struct copy {
    struct orr_range to, from;
    uint64_t bytes;
};

static struct copy read_copy(lua_State *L, const char *function) {
    static const char *const keys[] = {"to", "from", "bytes", NULL};
    lua_settop(L, 2);
    orr__check_keys(L, 2, function, keys);
    struct copy copy = {.to = field_range(L, function, "to"),
                        .from = field_range(L, function, "from")};
    uint64_t smaller = copy.to.bytes < copy.from.bytes ? copy.to.bytes : copy.from.bytes;
    int64_t bytes = orr__field_integer(L, 2, function, "bytes", 0, (int64_t)smaller, -1);
    if (bytes < 0 && copy.to.bytes != copy.from.bytes)
        orr__raise(L, ORR_INVALID,
                   "%s: 'to' has %llu bytes and 'from' %llu; give equal ranges, or 'bytes'",
                   function, (unsigned long long)copy.to.bytes,
                   (unsigned long long)copy.from.bytes);
    copy.bytes = bytes < 0 ? copy.to.bytes : (uint64_t)bytes;
    return copy;
}

static int stream_copy(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    struct copy copy = read_copy(L, "copy");
    orr__stream_caller(L);
    enum orr_status status = orr_stream_copy(stream, copy.to.buffer, copy.to.offset,
                                             copy.from.buffer, copy.from.offset, copy.bytes);
    return orr__finish(L, status, 2, 0, stream_copy);
}

/* d:copy_sync{to, from[, bytes]} */
int orr__device_copy_sync(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    struct copy copy = read_copy(L, "copy_sync");
    orr__stream_caller(L);
    enum orr_status status =
        orr_device_copy_sync(runtime_of(L), device, copy.to.buffer, copy.to.offset,
                             copy.from.buffer, copy.from.offset, copy.bytes);
    return orr__finish(L, status, 2, 0, orr__device_copy_sync);
}

static struct orr_range read_fill(lua_State *L, const char *function, uint8_t *out_value) {
    static const char *const keys[] = {"to", "value", NULL};
    lua_settop(L, 2);
    orr__check_keys(L, 2, function, keys);
    struct orr_range to = field_range(L, function, "to");
    *out_value = (uint8_t)orr__field_integer(L, 2, function, "value", 0, UINT8_MAX, 0);
    return to;
}

static int stream_fill(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    uint8_t value;
    struct orr_range to = read_fill(L, "fill", &value);
    orr__stream_caller(L);
    enum orr_status status = orr_stream_fill(stream, to.buffer, to.offset, to.bytes, value);
    return orr__finish(L, status, 2, 0, stream_fill);
}

/* d:fill_sync{to[, value]} */
int orr__device_fill_sync(lua_State *L) {
    uint32_t device = orr__device(L, 1);
    uint8_t value;
    struct orr_range to = read_fill(L, "fill_sync", &value);
    orr__stream_caller(L);
    enum orr_status status =
        orr_device_fill_sync(runtime_of(L), device, to.buffer, to.offset, to.bytes, value);
    return orr__finish(L, status, 2, 0, orr__device_fill_sync);
}

/* The host function of scenarios: its accesses are what counts. */
static void do_nothing(void *context) {
    (void)context;
}

static int stream_hostfn(lua_State *L) {
    static const char *const keys[] = {"name", "reads", "writes", NULL};
    struct orr_stream *stream = stream_at(L, 1);
    lua_settop(L, 2);
    orr__check_keys(L, 2, "hostfn", keys);
    const char *name = orr__field_text(L, 2, "hostfn", "name", "hostfn");
    struct accesses accesses = read_accesses(L, "hostfn");
    orr__stream_caller(L);
    enum orr_status status =
        orr_stream_hostfn(stream, name, do_nothing, NULL, accesses.ranges, accesses.count);
    return orr__finish(L, status, 2, 0, stream_hostfn);
}

/* --- order --- */

static int stream_sync(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    orr__stream_caller(L);
    return orr__finish(L, orr_stream_sync(stream), 1, 0, stream_sync);
}

/* Ends a query: true, false, or as orr__finish. */
static int finish_query(lua_State *L, enum orr_status status, lua_CFunction again) {
    if (status == ORR_NOT_READY) {
        orr_error_clear(orr_runtime_error(runtime_of(L)));
        lua_pushboolean(L, 0);
        return 1;
    }
    if (status == ORR_OK)
        lua_pushboolean(L, 1);
    return orr__finish(L, status, 1, 1, again);
}

static int stream_query(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    lua_settop(L, 1);
    orr__stream_caller(L);
    return finish_query(L, orr_stream_query(stream), stream_query);
}

static void push_new_event(lua_State *L, const char *name) {
    struct orr_event *event = NULL;
    enum orr_status status = orr_event_create(runtime_of(L), name, &event);
    if (status != ORR_OK)
        orr__raise_runtime(L, status);
    orr__push_handle(L, ORR__EVENT, event);
}

static int orrery_event(lua_State *L) {
    const char *name = luaL_optstring(L, 1, NULL);
    orr__stream_caller(L);
    push_new_event(L, name);
    return 1;
}

/* s:record([event]): the event, a new one unless given. */
static int stream_record(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    lua_settop(L, 2);
    orr__stream_caller(L);
    if (lua_isnil(L, 2)) {
        push_new_event(L, NULL);
        lua_replace(L, 2); /* a repeated call finds it as its argument */
    }
    struct orr_event *event = event_at(L, 2, "record");
    return orr__finish(L, orr_event_record(event, stream), 2, 1, stream_record);
}

static int stream_wait(lua_State *L) {
    struct orr_stream *stream = stream_at(L, 1);
    lua_settop(L, 2);
    struct orr_event *event = event_at(L, 2, "wait");
    orr__stream_caller(L);
    return orr__finish(L, orr_stream_wait(stream, event), 2, 0, stream_wait);
}

static int event_sync(lua_State *L) {
    struct orr_event *event = event_at(L, 1, "event");
    orr__stream_caller(L);
    return orr__finish(L, orr_event_sync(event), 1, 0, event_sync);
}

static int event_query(lua_State *L) {
    struct orr_event *event = event_at(L, 1, "event");
    lua_settop(L, 1);
    orr__stream_caller(L);
    return finish_query(L, orr_event_query(event), event_query);
}

static int event_text(lua_State *L) {
    lua_pushfstring(L, "event %s", orr_event_name(event_at(L, 1, "event")));
    return 1;
}

void orr__open_streams(lua_State *L) {
    static const luaL_Reg functions[] = {{"event", orrery_event}, {NULL, NULL}};
    static const luaL_Reg streams[] = {
        {"kernel", stream_kernel}, {"copy", stream_copy},     {"fill", stream_fill},
        {"hostfn", stream_hostfn}, {"sync", stream_sync},     {"query", stream_query},
        {"record", stream_record}, {"wait", stream_wait},     {"alloc", orr__stream_alloc},
        {"name", stream_name},     {"device", stream_device}, {NULL, NULL}};
    static const luaL_Reg events[] = {{"sync", event_sync}, {"query", event_query}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, ORR__STREAMS);
    luaL_newlib(L, streams);
    orr__class(L, ORR__STREAM, stream_text);
    luaL_newlib(L, events);
    orr__class(L, ORR__EVENT, event_text);
}
