/* orrery.record_values(f) and orrery.compare_values(a, b): where two runs of a program part. The
 * library's `divergence` is what scenarios use. */
#include "runtime/divergence.h"
#include "scenarios/tensor_internal.h"

#define RECORDING "orrery.recording"

static const double TOLERANCE = 1e-5; /* of the largest magnitude in a tensor */
static const int64_t BYTES_MAX = INT64_C(1) << 30;

static struct orr_recording *recording_at(lua_State *L, int index, const char *what) {
    const struct orr__handle *handle = orr__handle(L, index, RECORDING, what);
    if (!handle->pointer) {
        orr__raise(L, ORR_INVALID, "%s: the recording has been freed", what);
    }
    return handle->pointer;
}

static void forget(struct orr_scenario *scenario, struct orr__handle *handle) {
    struct orr_recording *recording = handle->pointer;
    handle->pointer = NULL;
    for (size_t i = 0; i < scenario->recording_count; i++) {
        if (scenario->recordings[i] == recording) {
            scenario->recordings[i] = scenario->recordings[--scenario->recording_count];
        }
    }
    orr_recording_destroy(&recording);
}

static int recording_text(lua_State *L) {
    lua_pushliteral(L, "recording");
    return 1;
}

/* r:free(), and at <close>; at the latest with the scenario. */
static int recording_free(lua_State *L) {
    struct orr__handle *handle = orr__handle(L, 1, RECORDING, "free");
    if (handle->pointer) {
        forget(orr__caller(L), handle);
    }
    return 0;
}

/* The stack: the function, options, the handle. */
static int end_recording(lua_State *L) {
    struct orr__handle *handle = orr__handle(L, 3, RECORDING, "record_values");
    struct orr_scenario *scenario = orr__caller(L);
    enum orr_status status = orr_recording_end(handle->pointer);
    if (status != ORR_OK && status != ORR_BLOCKED) {
        forget(scenario, handle);
    }
    if (status == ORR_OK) {
        lua_settop(L, 3);
    }
    return orr__finish(L, status, 3, 1, end_recording);
}

static int after_recorded(lua_State *L, int status, lua_KContext context) {
    (void)context;
    if (status != LUA_OK && status != LUA_YIELD) {
        forget(orr__scenario_of(L), orr__handle(L, 3, RECORDING, "record_values"));
        return lua_error(L);
    }
    lua_settop(L, 3);
    return end_recording(L);
}

/* Room for one more recording to be freed with the scenario. */
static void reserve(lua_State *L, struct orr_scenario *scenario) {
    if (orr_memory_grow(scenario->memory, &scenario->recordings, &scenario->recording_capacity,
                        scenario->recording_count + 1, sizeof(struct orr_recording *),
                        ORR__RECORDINGS_MAX) != ORR_OK) {
        orr__raise(L, ORR_NO_MEMORY, "record_values: at most %d recordings at a time",
                   ORR__RECORDINGS_MAX);
    }
}

/* orrery.record_values(f[, { bytes = }]): calls f(), keeps the results of every operator in it. */
static int orrery_record_values(lua_State *L) {
    static const char *const keys[] = {"bytes", NULL};
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 2);
    int64_t bytes = BYTES_MAX;
    if (!lua_isnil(L, 2)) {
        orr__check_keys(L, 2, "record_values", keys);
        bytes = orr__field_integer(L, 2, "record_values", "bytes", 0, INT64_MAX, BYTES_MAX);
    }
    struct orr_scenario *scenario = orr__caller(L);
    struct orr__handle *handle = orr__push_handle(L, RECORDING, NULL);
    reserve(L, scenario);
    struct orr_recording *recording;
    enum orr_status status = orr_recording_begin(scenario->runtime, (uint64_t)bytes, &recording);
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    handle->pointer = recording;
    scenario->recordings[scenario->recording_count++] = recording;
    lua_pushvalue(L, 1);
    return after_recorded(L, lua_pcallk(L, 0, 0, 0, 0, after_recorded), 0);
}

/* --- comparing --- */

static void set_text(lua_State *L, const char *key, const char *text) {
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

static void set_number(lua_State *L, const char *key, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

static void set_integer(lua_State *L, const char *key, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

static void set_list(lua_State *L, const char *key, const struct orr_shape *list) {
    lua_createtable(L, list->rank, 0);
    for (int i = 0; i < list->rank; i++) {
        lua_pushinteger(L, list->dims[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

/* Position of the worst element, from 0 in each dimension. */
static struct orr_shape position_of(const struct orr_difference *d) {
    struct orr_shape position = d->a->info.shape;
    int64_t index = d->worst;
    for (int i = position.rank - 1; i >= 0; i--) {
        int64_t dim = position.dims[i];
        position.dims[i] = index % dim;
        index /= dim;
    }
    return position;
}

/* Fields of the table on top. */
static void set_difference(lua_State *L, const struct orr_difference *d, double tolerance) {
    set_text(L, "place_a", d->a->place);
    set_text(L, "place_b", d->b->place);
    set_text(L, "dtype_a", orr_dtype_name(d->a->info.dtype));
    set_text(L, "dtype_b", orr_dtype_name(d->b->info.dtype));
    set_list(L, "shape_a", &d->a->info.shape);
    set_list(L, "shape_b", &d->b->info.shape);
    set_number(L, "difference", d->largest);
    set_number(L, "relative", d->magnitude > 0 ? d->largest / d->magnitude : d->largest);
    lua_pushboolean(L, d->shapes_differ || d->largest > tolerance * d->magnitude);
    lua_setfield(L, -2, "parts");
    if (d->maker_a) {
        set_text(L, "maker_a", d->maker_a->op);
        set_text(L, "maker_site_a", d->maker_a->site);
    }
    if (d->maker_b) {
        set_text(L, "maker_b", d->maker_b->op);
        set_text(L, "maker_site_b", d->maker_b->site);
    }
    if (!d->shapes_differ && orr_shape_count(&d->a->info.shape) > 0) {
        struct orr_shape position = position_of(d);
        set_list(L, "worst_index", &position);
        set_number(L, "a", d->value_a);
        set_number(L, "b", d->value_b);
    }
}

static void push_divergence(lua_State *L, const struct orr_divergence *d) {
    lua_newtable(L);
    set_text(L, "operator", d->call_a->op);
    set_text(L, "site", d->call_a->site);
    set_text(L, "site_b", d->call_b->site);
    set_integer(L, "index", d->index_a);
    set_integer(L, "index_b", d->index_b);
    set_integer(L, "output", d->output);
    set_difference(L, &d->result, d->tolerance);
    lua_createtable(L, d->input_count, 0);
    for (int i = 0; i < d->input_count; i++) {
        lua_newtable(L);
        set_text(L, "name", d->input_names[i]);
        set_difference(L, &d->inputs[i], d->tolerance);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "inputs");
}

/* orrery.compare_values(a, b[, { tolerance =, names = {"a", "b"} }]): the first operator whose
 * results part as a table, or nil; and a text in any case. */
static int orrery_compare_values(lua_State *L) {
    static const char *const keys[] = {"tolerance", "names", NULL};
    const struct orr_recording *a = recording_at(L, 1, "compare_values");
    const struct orr_recording *b = recording_at(L, 2, "compare_values");
    double tolerance = TOLERANCE;
    const char *names[2] = {"a", "b"};
    lua_settop(L, 3);
    if (!lua_isnil(L, 3)) {
        orr__check_keys(L, 3, "compare_values", keys);
        if (lua_getfield(L, 3, "tolerance") != LUA_TNIL) {
            tolerance = orr__number(L, -1, "compare_values: tolerance");
        }
        bool named = lua_getfield(L, 3, "names") == LUA_TTABLE;
        for (int i = 0; named && i < 2; i++) {
            lua_rawgeti(L, 5, i + 1); /* stays on the stack, and so the text stays */
            names[i] = luaL_checkstring(L, -1);
        }
    }
    struct orr_divergence divergence;
    struct orr_error error = {0};
    enum orr_status status =
        orr_divergence_find(a, b, tolerance, orr__scenario_of(L)->memory, &divergence, &error);
    if (status != ORR_OK) {
        return orr__raise(L, status, "compare_values: %s", error.text);
    }
    char text[ORR_DIVERGENCE_TEXT_MAX];
    orr_divergence_text(&divergence, names[0], names[1], text, sizeof text);
    if (divergence.parts) {
        push_divergence(L, &divergence);
        set_text(L, "text", text);
    } else {
        lua_pushnil(L);
    }
    lua_pushstring(L, text);
    return 2;
}

void orr__open_recordings(lua_State *L) {
    static const luaL_Reg functions[] = {{"record_values", orrery_record_values},
                                         {"compare_values", orrery_compare_values},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"free", recording_free}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__close", recording_free}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, RECORDING, recording_text);
    luaL_getmetatable(L, RECORDING);
    luaL_setfuncs(L, metamethods, 0);
    lua_pop(L, 1);
}

void orr__recordings_free(struct orr_scenario *scenario) {
    for (size_t i = 0; i < scenario->recording_count; i++) {
        orr_recording_destroy(&scenario->recordings[i]);
    }
    orr_memory_free(scenario->memory, scenario->recordings);
    scenario->recordings = NULL;
    scenario->recording_count = scenario->recording_capacity = 0;
}
