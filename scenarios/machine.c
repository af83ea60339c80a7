#include "scenarios/machine.h"

#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sim/fake_devices/embed.h"

enum {
    LUA_BYTES_MAX = 16 << 20,
    INSTRUCTIONS_MAX = 1000000,
    FIGURES_MAX = 128,
    FILE_BYTES_MAX = 16 << 20
};

/* --- the built-in ones --- */

struct built_in {
    const char *name, *text;
};

static const struct built_in built_ins[] = {
#define BUILT_IN(name, text) {name, text},
    ORR_EMBED_SIM_FAKE_DEVICES(BUILT_IN)
#undef BUILT_IN
        {NULL, NULL}};
enum { BUILT_IN_COUNT = sizeof built_ins / sizeof built_ins[0] - 1 };

static const struct {
    const char *alias, *name;
} aliases[] = {{"a100", "a100-sxm"}, {"h100", "h100-sxm"}};
enum { ALIAS_COUNT = sizeof aliases / sizeof aliases[0] };

const char *orr_machine_name(int index) {
    return index >= 0 && index < BUILT_IN_COUNT ? built_ins[index].name : NULL;
}

const char *orr_machine_alias(const char *name) {
    for (int i = 0; i < ALIAS_COUNT; i++)
        if (strcmp(aliases[i].name, name) == 0)
            return aliases[i].alias;
    return NULL;
}

static const struct built_in *find_built_in(const char *name) {
    for (int i = 0; i < ALIAS_COUNT; i++)
        if (strcmp(aliases[i].alias, name) == 0)
            name = aliases[i].name;
    for (int i = 0; i < BUILT_IN_COUNT; i++)
        if (strcmp(built_ins[i].name, name) == 0)
            return &built_ins[i];
    return NULL;
}

static enum orr_status unknown_machine(const char *name, struct orr_error *error) {
    const char *names[BUILT_IN_COUNT + ALIAS_COUNT];
    for (int i = 0; i < BUILT_IN_COUNT; i++)
        names[i] = built_ins[i].name;
    for (int i = 0; i < ALIAS_COUNT; i++)
        names[BUILT_IN_COUNT + i] = aliases[i].alias;
    const char *nearest = orr_nearest_name(name, names, BUILT_IN_COUNT + ALIAS_COUNT);
    if (nearest)
        return orr_error_set(error, ORR_INVALID, "unknown machine '%s'; did you mean '%s'?", name,
                             nearest);
    return orr_error_set(error, ORR_INVALID,
                         "unknown machine '%s'; `orrery devices` lists them, and a path to a file "
                         "holds a '/' or ends in .lua",
                         name);
}

/* --- texts for people --- */

enum unit { UNIT_BYTES, UNIT_BYTES_PER_S, UNIT_FLOPS, UNIT_NS, UNIT_COUNT, UNIT_SHARE };

/* 3.35e12 as "3.35 T": four digits and the prefix of 1000. */
static void scaled_text(double value, const char *unit, char *text, size_t size) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int step = 0;
    while (value >= 1000 && step < 5) {
        value /= 1000;
        step++;
    }
    snprintf(text, size, "%.4g %s%s", value, prefixes[step], unit);
}

static void value_text(double value, enum unit unit, char *text, size_t size) {
    switch (unit) {
    case UNIT_BYTES: scaled_text(value, "B", text, size); return;
    case UNIT_BYTES_PER_S: scaled_text(value, "B/s", text, size); return;
    case UNIT_FLOPS: scaled_text(value, "FLOP/s", text, size); return;
    case UNIT_NS: snprintf(text, size, "%.0f ns", value); return;
    case UNIT_COUNT: snprintf(text, size, "%.0f", value); return;
    case UNIT_SHARE: snprintf(text, size, "%.4g %%", value * 100); return;
    }
}

/* --- reading --- */

enum store { STORE_U64, STORE_U32, STORE_I64, STORE_PPM };

struct field {
    const char *key;
    enum unit unit;
    enum store store;
    size_t offset;
};

#define FIELD(key, unit, store)                                                                    \
    { #key, UNIT_##unit, STORE_##store, offsetof(struct orr_device_spec, key) }
static const struct field fields[] = {
    FIELD(memory_bytes, BYTES, U64),
    FIELD(bandwidth, BYTES_PER_S, U64),
    FIELD(l2_bytes, BYTES, U64),
    FIELD(sm_count, COUNT, U32),
    FIELD(copy_engines, COUNT, U32),
    FIELD(kernel_fixed_ns, NS, I64),
    FIELD(launch_latency_ns, NS, I64),
    FIELD(graph_node_ns, NS, I64),
    FIELD(host_operator_ns, NS, I64),
    FIELD(host_launch_ns, NS, I64),
    FIELD(host_event_ns, NS, I64),
    FIELD(host_graph_ns, NS, I64),
    FIELD(host_sync_ns, NS, I64),
    FIELD(queue_depth, COUNT, U32),
    FIELD(peer_bandwidth, BYTES_PER_S, U64),
    FIELD(host_bandwidth, BYTES_PER_S, U64),
    FIELD(peer_latency_ns, NS, I64),
    FIELD(host_latency_ns, NS, I64),
    FIELD(network_bandwidth, BYTES_PER_S, U64),
    FIELD(network_latency_ns, NS, I64),
    FIELD(devices_per_node, COUNT, U32),
    {"collective_sm_share", UNIT_SHARE, STORE_PPM,
     offsetof(struct orr_device_spec, collective_sm_ppm)},
};
#undef FIELD
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static const struct {
    const char *key;
    size_t offset;
} curves[] = {{"matrix_efficiency", offsetof(struct orr_device_spec, matrix_efficiency)},
              {"vector_efficiency", offsetof(struct orr_device_spec, vector_efficiency)},
              {"memory_efficiency", offsetof(struct orr_device_spec, memory_efficiency)}};
enum { CURVE_COUNT = sizeof curves / sizeof curves[0] };

/* What a parse works on; the machine is complete only at the end. */
struct parse {
    struct orr_machine *machine;
    const char *name;
    const char *text;
    size_t length;
    struct orr_error *error;
    size_t lua_bytes, figure_capacity;
};

static struct parse *parse_of(lua_State *L) {
    struct parse *parse;
    memcpy(&parse, lua_getextraspace(L), sizeof parse);
    return parse;
}

static int fail(lua_State *L, const char *key, const char *what) {
    struct parse *parse = parse_of(L);
    (void)orr_error_set(parse->error, ORR_INVALID, "%s: %s: %s", parse->name, key, what);
    lua_pushnil(L);
    return lua_error(L);
}

static void fail_memory(lua_State *L) {
    (void)orr_error_set(parse_of(L)->error, ORR_NO_MEMORY, "out of host memory for a machine");
    lua_pushnil(L);
    lua_error(L);
}

/* Adds a figure, or replaces the base's of the same key. */
static void put_figure(lua_State *L, const char *key, const char *value, const char *source) {
    struct parse *parse = parse_of(L);
    struct orr_machine *machine = parse->machine;
    size_t at = 0;
    while (at < machine->figure_count && strcmp(machine->figures[at].key, key) != 0)
        at++;
    if (at == machine->figure_count) {
        if (orr_memory_grow(machine->memory, &machine->figures, &parse->figure_capacity, at + 1,
                            sizeof *machine->figures, FIGURES_MAX) != ORR_OK)
            fail_memory(L);
        machine->figure_count++;
    }
    struct orr_machine_figure *figure = &machine->figures[at];
    snprintf(figure->key, sizeof figure->key, "%s", key);
    snprintf(figure->value, sizeof figure->value, "%s", value);
    snprintf(figure->source, sizeof figure->source, "%s", source);
}

/* The source of the figure on top of the stack; the table keeps the text. */
static const char *read_source(lua_State *L, const char *key) {
    if (lua_getfield(L, -1, "source") != LUA_TSTRING || lua_rawlen(L, -1) == 0)
        fail(L, key, "expected source = \"where the figure is from\"");
    const char *source = lua_tostring(L, -1);
    lua_pop(L, 1);
    return source;
}

static double read_number(lua_State *L, int index, const char *key, double max) {
    if (lua_type(L, index) != LUA_TNUMBER)
        fail(L, key, "expected a number");
    double value = lua_tonumber(L, index);
    if (!(value >= 0 && value <= max))
        fail(L, key, max <= 1 ? "expected a share between 0 and 1" : "the number is out of range");
    return value;
}

/* The figure {value, source =} on top of the stack. */
static double read_figure(lua_State *L, const char *key, enum unit unit, double max) {
    if (!lua_istable(L, -1))
        fail(L, key, "expected { value, source = \"...\" }");
    const char *source = read_source(L, key);
    lua_rawgeti(L, -1, 1);
    double value = read_number(L, -1, key, max);
    lua_pop(L, 1);
    char text[ORR_MACHINE_VALUE_MAX];
    value_text(value, unit, text, sizeof text);
    put_figure(L, key, text, source);
    return value;
}

/* Share to parts per million, half up. */
static uint32_t ppm_of(double share) {
    return (uint32_t)(share * ORR_PPM + 0.5);
}

/* A time is at most 1000 s, so that millions of them fit a clock. */
static double largest(const struct field *field) {
    if (field->unit == UNIT_NS)
        return 1e12;
    return field->store == STORE_PPM ? 1 : field->store == STORE_U32 ? 4e9 : 9e18;
}

/* Half a copy engine is none; rates may be results of a division, whose fraction nobody misses. */
static void check_whole(lua_State *L, const char *key, double value) {
    if (value != (double)(uint64_t)value)
        fail(L, key, "expected a whole number");
}

static void read_field(lua_State *L, const struct field *field) {
    char *at = (char *)&parse_of(L)->machine->spec + field->offset;
    double max = largest(field);
    double value = read_figure(L, field->key, field->unit, max);
    if (field->unit == UNIT_COUNT || field->unit == UNIT_BYTES || field->unit == UNIT_NS)
        check_whole(L, field->key, value);
    uint64_t whole = (uint64_t)value;
    uint32_t small = field->store == STORE_PPM ? ppm_of(value) : (uint32_t)whole;
    if (field->store == STORE_U64 || field->store == STORE_I64)
        memcpy(at, &whole, sizeof whole);
    else
        memcpy(at, &small, sizeof small);
}

/* A curve { {x, share}, ..., source = "..." } on top of the stack. */
static void read_curve(lua_State *L, const char *key, struct orr_curve *curve) {
    if (!lua_istable(L, -1))
        fail(L, key, "expected { { x, share }, ..., source = \"...\" }");
    const char *source = read_source(L, key);
    lua_Unsigned count = lua_rawlen(L, -1);
    if (count > ORR_CURVE_POINTS_MAX)
        fail(L, key, "a curve has at most 8 points");
    *curve = (struct orr_curve){.point_count = (int32_t)count};
    char text[ORR_MACHINE_VALUE_MAX] = "";
    size_t used = 0;
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        if (!lua_istable(L, -1))
            fail(L, key, "expected points { x, share }");
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        double x = read_number(L, -2, key, 9e18);
        curve->x[i] = (uint64_t)x;
        curve->ppm[i] = ppm_of(read_number(L, -1, key, 1));
        if (curve->ppm[i] == 0 || (i > 0 && curve->x[i] <= curve->x[i - 1]))
            fail(L, key, "points must go up in x, and shares be above 0");
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.3g at %.3g",
                                     i > 0 ? ", " : "", curve->ppm[i] / 1e6, x);
        lua_pop(L, 3);
    }
    put_figure(L, key, text, source);
}

/* One unit's peaks { bf16 = {...}, ... } on top of the stack. */
static void read_unit_peaks(lua_State *L, const char *unit_name, uint64_t *peaks) {
    for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
        const char *name = orr_dtype_name((enum orr_dtype)dtype);
        if (lua_getfield(L, -1, name) != LUA_TNIL) {
            char key[ORR_MACHINE_KEY_MAX];
            snprintf(key, sizeof key, "peak.%s.%s", unit_name, name);
            peaks[dtype] = (uint64_t)read_figure(L, key, UNIT_FLOPS, 9e18);
        }
        lua_pop(L, 1);
    }
}

/* The word among `names`, else an error that names the nearest. */
static void check_word(lua_State *L, const char *word, const char *what, const char *const *names,
                       int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return;
    const char *nearest = orr_nearest_name(word, names, count);
    char text[160];
    snprintf(text, sizeof text, "unknown %s%s%s%s", what, nearest ? "; did you mean '" : "",
             nearest ? nearest : "", nearest ? "'?" : "");
    fail(L, word, text);
}

static void check_keys(lua_State *L, const char *what, const char *const *names, int count) {
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            fail(L, what, "expected names as keys");
        check_word(L, lua_tostring(L, -2), what, names, count);
    }
}

/* A machine's own peaks take the place of all of the base's. */
static void forget_peaks(struct orr_machine *machine) {
    memset(machine->spec.peak, 0, sizeof machine->spec.peak);
    size_t kept = 0;
    for (size_t i = 0; i < machine->figure_count; i++)
        if (strncmp(machine->figures[i].key, "peak.", 5) != 0)
            machine->figures[kept++] = machine->figures[i];
    machine->figure_count = kept;
}

static void read_peaks(lua_State *L) {
    static const char *const units[] = {"vector", "matrix"};
    forget_peaks(parse_of(L)->machine);
    if (!lua_istable(L, -1))
        fail(L, "peak", "expected { vector = { ... }, matrix = { ... } }");
    check_keys(L, "unit of peak", units, 2);
    const char *dtypes[ORR_DTYPE_COUNT];
    for (int i = 0; i < ORR_DTYPE_COUNT; i++)
        dtypes[i] = orr_dtype_name((enum orr_dtype)i);
    for (int unit = 0; unit < 2; unit++) {
        int type = lua_getfield(L, -1, units[unit]);
        if (type != LUA_TNIL && type != LUA_TTABLE)
            fail(L, "peak", "expected a table of dtypes");
        if (type == LUA_TTABLE) {
            check_keys(L, "dtype of peak", dtypes, ORR_DTYPE_COUNT);
            read_unit_peaks(L, units[unit], parse_of(L)->machine->spec.peak[unit]);
        }
        lua_pop(L, 1);
    }
}

/* Copies the base machine into this one. */
static void take_base(lua_State *L, const char *base) {
    struct parse *parse = parse_of(L);
    struct orr_machine *machine = parse->machine, *from = NULL;
    if (!find_built_in(base))
        fail(L, base, "the base is not a built-in machine");
    if (orr_machine_load(base, machine->memory, &from, parse->error) != ORR_OK) {
        lua_pushnil(L);
        lua_error(L);
    }
    machine->spec = from->spec;
    machine->devices = from->devices;
    orr_memory_free(machine->memory, machine->figures);
    machine->figures = from->figures;
    machine->figure_count = parse->figure_capacity = from->figure_count;
    from->figures = NULL;
    orr_machine_destroy(&from);
}

static void read_text(lua_State *L, const char *key, char *to, size_t size) {
    int type = lua_getfield(L, 1, key);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        fail(L, key, "expected a text");
    if (type == LUA_TSTRING)
        snprintf(to, size, "%s", lua_tostring(L, -1));
    lua_pop(L, 1);
}

static void read_devices(lua_State *L) {
    struct orr_machine *machine = parse_of(L)->machine;
    if (lua_getfield(L, 1, "devices") != LUA_TNIL) {
        double devices = read_number(L, -1, "devices", 1 << 20);
        check_whole(L, "devices", devices);
        if (devices < 1)
            fail(L, "devices", "expected 1 or more");
        machine->devices = (uint32_t)devices;
    }
    lua_pop(L, 1);
}

static void check_top_keys(lua_State *L) {
    const char *names[FIELD_COUNT + CURVE_COUNT + 5] = {"base", "kind", "note", "devices", "peak"};
    int count = 5;
    for (int i = 0; i < CURVE_COUNT; i++)
        names[count++] = curves[i].key;
    for (int i = 0; i < FIELD_COUNT; i++)
        names[count++] = fields[i].key;
    check_keys(L, "key of a machine", names, count);
}

static void check_complete(lua_State *L) {
    const struct orr_device_spec *spec = &parse_of(L)->machine->spec;
    if (spec->kind[0] == '\0')
        fail(L, "kind", "expected \"gpu\" or \"cpu\"");
    if (spec->memory_bytes == 0)
        fail(L, "memory_bytes", "expected the capacity of its memory");
    if (spec->bandwidth == 0)
        fail(L, "bandwidth", "expected the bandwidth of its memory");
    if (orr_device_spec_peak(spec, ORR_UNIT_VECTOR, ORR_DTYPE_F32) == 0)
        fail(L, "peak", "expected at least peak.vector.f32");
    if (spec->peer_bandwidth == 0)
        fail(L, "peer_bandwidth", "expected the bandwidth to another device, one direction");
    if (spec->host_bandwidth == 0)
        fail(L, "host_bandwidth", "expected the bandwidth to the host's memory, one direction");
    if (spec->devices_per_node > 0 && spec->network_bandwidth == 0)
        fail(L, "network_bandwidth",
             "expected the bandwidth to other nodes, which devices_per_node says there are");
}

/* Reads the machine's table at index 1. */
static void read_machine(lua_State *L) {
    struct orr_device_spec *spec = &parse_of(L)->machine->spec;
    check_top_keys(L);
    if (lua_getfield(L, 1, "base") == LUA_TSTRING)
        take_base(L, lua_tostring(L, -1));
    lua_pop(L, 1);
    read_text(L, "kind", spec->kind, sizeof spec->kind);
    read_text(L, "note", parse_of(L)->machine->note, sizeof parse_of(L)->machine->note);
    read_devices(L);
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (lua_getfield(L, 1, fields[i].key) != LUA_TNIL)
            read_field(L, &fields[i]);
        lua_pop(L, 1);
    }
    if (lua_getfield(L, 1, "peak") != LUA_TNIL)
        read_peaks(L);
    lua_pop(L, 1);
    for (int i = 0; i < CURVE_COUNT; i++) {
        if (lua_getfield(L, 1, curves[i].key) != LUA_TNIL)
            read_curve(L, curves[i].key,
                       (struct orr_curve *)(void *)((char *)spec + curves[i].offset));
        lua_pop(L, 1);
    }
    check_complete(L);
}

/* Protected: runs the file and reads its table. */
static int run_file(lua_State *L) {
    struct parse *parse = parse_of(L);
    if (parse->length > 0 && parse->text[0] == LUA_SIGNATURE[0])
        return fail(L, "machine", "compiled Lua is not accepted; expected a text");
    lua_pushfstring(L, "@%s", parse->name);
    if (luaL_loadbufferx(L, parse->text, parse->length, lua_tostring(L, -1), "t") != LUA_OK)
        return lua_error(L);
    lua_call(L, 0, 1);
    lua_replace(L, 1);
    lua_settop(L, 1);
    if (!lua_istable(L, 1))
        return fail(L, "machine", "expected the file to return a table");
    read_machine(L);
    return 0;
}

static void *allocate(void *context, void *block, size_t old_size, size_t new_size) {
    struct parse *parse = context;
    const struct orr_memory *memory = parse->machine->memory;
    size_t held = block ? old_size : 0;
    if (new_size > held && parse->lua_bytes - held + new_size > LUA_BYTES_MAX)
        return NULL;
    parse->lua_bytes += new_size - held;
    if (new_size == 0) {
        orr_memory_free(memory, block);
        return NULL;
    }
    void *resized = orr_memory_resize(memory, block, new_size);
    if (!resized && new_size > held)
        parse->lua_bytes -= new_size - held;
    return resized || new_size > held ? resized : block;
}

static void limit(lua_State *L, lua_Debug *event) {
    (void)event;
    fail(L, "machine", "the file runs too long; it should only return a table");
}

static enum orr_status parse_file(struct parse *parse) {
    lua_State *L = lua_newstate(allocate, parse);
    if (!L)
        return orr_error_set(parse->error, ORR_NO_MEMORY, "out of host memory for a machine");
    memcpy(lua_getextraspace(L), &parse, sizeof parse);
    lua_sethook(L, limit, LUA_MASKCOUNT, INSTRUCTIONS_MAX);
    lua_pushcfunction(L, run_file);
    int result = lua_pcall(L, 0, 0, 0);
    enum orr_status status = ORR_OK;
    if (result == LUA_ERRMEM)
        status = orr_error_set(parse->error, ORR_NO_MEMORY, "%s: out of memory", parse->name);
    else if (result != LUA_OK)
        status = orr_error_set(parse->error, ORR_INVALID, "%s",
                               lua_isstring(L, -1) ? lua_tostring(L, -1) : "invalid machine");
    lua_close(L);
    /* fail() has set the error itself and raised nil. */
    return status != ORR_OK && parse->error ? parse->error->status : status;
}

/* "h100-sxm" of "some/folder/h100-sxm.lua". */
static void set_name(struct orr_device_spec *spec, const char *name) {
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".lua") == 0)
        length -= 4;
    snprintf(spec->name, sizeof spec->name, "%.*s", (int)length, base);
}

enum orr_status orr_machine_parse(const char *name, const char *text, size_t length,
                                  const struct orr_memory *memory, struct orr_machine **out_machine,
                                  struct orr_error *error) {
    struct orr_error local = {0};
    *out_machine = NULL;
    struct orr_machine *machine = orr_memory_alloc(memory, sizeof *machine);
    if (!machine)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a machine");
    machine->memory = memory;
    machine->devices = 1;
    struct parse parse = {
        .machine = machine, .name = name, .text = text, .length = length, .error = &local};
    enum orr_status status = parse_file(&parse);
    if (status == ORR_OK)
        set_name(&machine->spec, name);
    else
        orr_machine_destroy(&machine);
    *out_machine = machine;
    return status == ORR_OK ? ORR_OK : orr_error_set(error, status, "%s", local.text);
}

/* --- files --- */

static enum orr_status read_all(FILE *file, const char *path, const struct orr_memory *memory,
                                char **out_text, size_t *out_length, struct orr_error *error) {
    char *text = NULL;
    size_t capacity = 0, length = 0;
    enum orr_status status = ORR_OK;
    for (;;) {
        status = orr_memory_grow(memory, &text, &capacity, length + 4096, 1, FILE_BYTES_MAX + 4096);
        if (status != ORR_OK)
            break;
        size_t got = fread(text + length, 1, capacity - length - 1, file);
        length += got;
        if (got == 0)
            break;
    }
    if (status != ORR_OK && length >= FILE_BYTES_MAX - 4096)
        status = orr_error_set(error, ORR_INVALID, "%s: longer than 16 MiB, expected a text", path);
    else if (status != ORR_OK)
        status = orr_error_set(error, status, "out of host memory for %s", path);
    else if (ferror(file))
        status = orr_error_set(error, errno == EISDIR ? ORR_INVALID : ORR_IO, "%s: %s", path,
                               strerror(errno));
    if (status != ORR_OK) {
        orr_memory_free(memory, text);
        return status;
    }
    text[length] = '\0';
    *out_text = text;
    *out_length = length;
    return ORR_OK;
}

enum orr_status orr_text_file_read(const char *path, const struct orr_memory *memory,
                                   char **out_text, size_t *out_length, struct orr_error *error) {
    *out_text = NULL;
    *out_length = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return orr_error_set(error, ORR_IO, "%s: %s", path, strerror(errno));
    enum orr_status status = read_all(file, path, memory, out_text, out_length, error);
    fclose(file);
    return status;
}

static bool is_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 4 && strcmp(name + length - 4, ".lua") == 0);
}

enum orr_status orr_machine_load(const char *name, const struct orr_memory *memory,
                                 struct orr_machine **out_machine, struct orr_error *error) {
    *out_machine = NULL;
    if (!is_path(name)) {
        const struct built_in *built_in = find_built_in(name);
        if (!built_in)
            return unknown_machine(name, error);
        return orr_machine_parse(built_in->name, built_in->text, strlen(built_in->text), memory,
                                 out_machine, error);
    }
    char *text;
    size_t length;
    enum orr_status status = orr_text_file_read(name, memory, &text, &length, error);
    if (status == ORR_OK)
        status = orr_machine_parse(name, text, length, memory, out_machine, error);
    orr_memory_free(memory, text);
    return status;
}

void orr_machine_destroy(struct orr_machine **handle) {
    struct orr_machine *machine = *handle;
    *handle = NULL;
    if (!machine)
        return;
    orr_memory_free(machine->memory, machine->figures);
    orr_memory_free(machine->memory, machine);
}
