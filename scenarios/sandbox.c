#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios/library/embed.h"
#include "scenarios/scenario_internal.h"
#include "scenarios/tensor_internal.h"

/* The Lua that a scenario sees: the standard libraries without their doors to the outside (files,
 * clock, bytecode, finalizers), and without what differs between two runs (addresses, the order of
 * hash tables, random seeds). */

enum {
    HOOK_INSTRUCTIONS = 10000,
    GC_PAUSE = 800, /* per cent, of states that run a program many times: what is live is ours */
    STEP_INSTRUCTIONS = 8 /* that take as long as one step of a loop in Lua's library */
};

#define RANDOM_SEED  "orrery.randomseed" /* in the registry */
#define MODULE_TEXTS "orrery.module_texts"

/* --- memory and instructions --- */

enum { POOL_STEP = 16, POOLED_MAX = POOL_STEP * ORR__POOLS };

/* Bytes of a block for so many: those of its pool, if it may come into one. */
static size_t block_bytes(const struct orr_scenario *scenario, size_t size) {
    if (!scenario->config.repeats || size > POOLED_MAX)
        return size;
    return (size + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
}

static void *allocate_any(struct orr_scenario *scenario, void *block, size_t old_size,
                          size_t new_size) {
    size_t held = block ? old_size : 0; /* without a block old_size is a type */
    if (new_size == 0) {
        orr_memory_free(scenario->memory, block);
        scenario->lua_bytes -= held;
        return NULL;
    }
    if (new_size > held && scenario->lua_bytes - held + new_size > scenario->lua_bytes_max) {
        scenario->memory_capped = true;
        return NULL;
    }
    void *grown = orr_memory_resize(scenario->memory, block, block_bytes(scenario, new_size));
    if (!grown && new_size > held)
        return NULL;
    scenario->lua_bytes += new_size - held; /* as Lua counts, also where a shrink was not done */
    return grown ? grown : block;
}

/* Where a block of this size is pooled. */
static void **pool_of(struct orr_scenario *scenario, size_t size) {
    return &scenario->pools[(size - 1) / POOL_STEP];
}

/* Small blocks of a state that runs a program again and again: most of an execution's are of the
 * sizes of the one before. A block has the bytes of its pool. */
static void *allocate_pooled(struct orr_scenario *scenario, void *block, size_t old_size,
                             size_t new_size) {
    if (block && old_size > 0 && new_size > 0 &&
        pool_of(scenario, old_size) == pool_of(scenario, new_size)) {
        return block;
    }
    void *taken = NULL;
    if (new_size > 0) {
        void **pool = pool_of(scenario, new_size);
        taken = *pool;
        if (taken)
            memcpy(pool, taken, sizeof *pool);
        else
            taken = orr_memory_resize(scenario->memory, NULL, block_bytes(scenario, new_size));
        if (!taken)
            return new_size <= old_size ? block : NULL; /* shrinking never fails */
    }
    if (block && old_size > 0) {
        void **pool = pool_of(scenario, old_size);
        if (taken)
            memcpy(taken, block, old_size < new_size ? old_size : new_size);
        memcpy(block, pool, sizeof *pool);
        *pool = block;
    }
    return taken;
}

void orr__pools_free(struct orr_scenario *scenario) {
    for (int i = 0; i < ORR__POOLS; i++) {
        while (scenario->pools[i]) {
            void *block = scenario->pools[i];
            memcpy(&scenario->pools[i], block, sizeof block);
            orr_memory_free(scenario->memory, block);
        }
    }
}

/* lua_Alloc over the scenario's memory, with a cap. Lua counts on shrinking never to fail. */
static void *allocate(void *context, void *block, size_t old_size, size_t new_size) {
    struct orr_scenario *scenario = context;
    size_t before = block ? old_size : 0;
    if (scenario->config.repeats && before <= POOLED_MAX && new_size <= POOLED_MAX &&
        scenario->lua_bytes - before + new_size <= scenario->lua_bytes_max) {
        void *taken = allocate_pooled(scenario, block, before, new_size);
        if (taken || new_size == 0)
            scenario->lua_bytes += new_size - before;
        return taken;
    }
    return allocate_any(scenario, block, old_size, new_size);
}

/* The same of a state that runs a program again and again: what is taken from a pool or given back
 * there, as most is, comes first and calls nothing. */
static void *allocate_again(void *context, void *block, size_t old_size, size_t new_size) {
    struct orr_scenario *scenario = context;
    if (!block && new_size == 0)
        return NULL;
    if (!block && new_size <= POOLED_MAX &&
        scenario->lua_bytes + new_size <= scenario->lua_bytes_max) {
        void **pool = pool_of(scenario, new_size);
        block = *pool;
        if (block) {
            memcpy(pool, block, sizeof *pool);
            scenario->lua_bytes += new_size;
            return block;
        }
    } else if (block && new_size == 0 && old_size > 0 && old_size <= POOLED_MAX) {
        void **pool = pool_of(scenario, old_size);
        memcpy(block, pool, sizeof *pool);
        *pool = block;
        scenario->lua_bytes -= old_size;
        return NULL;
    }
    return allocate(context, block, old_size, new_size);
}

/* Adds to the instructions. Over the limit it raises each time, so no pcall survives it. */
static void count(lua_State *L, uint64_t instructions) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    scenario->instructions += instructions;
    if (scenario->instructions <= scenario->instructions_max)
        return;
    scenario->out_of_instructions = true;
    orr__raise(L, ORR_INVALID,
               "the scenario ran for more than its limit of %llu instructions; is "
               "there an endless loop?",
               (unsigned long long)scenario->instructions_max);
}

/* Runs every HOOK_INSTRUCTIONS. */
static void count_instructions(lua_State *L, lua_Debug *event) {
    (void)event;
    count(L, HOOK_INSTRUCTIONS);
}

lua_State *orr__sandbox_open(struct orr_scenario *scenario) {
    lua_State *L = lua_newstate(scenario->config.repeats ? allocate_again : allocate, scenario);
    if (!L)
        return NULL;
    memcpy(lua_getextraspace(L), &scenario, sizeof scenario);
    lua_sethook(L, count_instructions, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
    if (scenario->config.repeats)
        lua_gc(L, LUA_GCINC, GC_PAUSE, 0, 0);
    return L;
}

/* --- texts without addresses --- */

const char *orr__tostring(lua_State *L, int index) {
    if (luaL_callmeta(L, index, "__tostring")) {
        if (!lua_isstring(L, -1))
            orr__raise(L, ORR_INVALID, "__tostring must return a text");
        return lua_tostring(L, -1);
    }
    int type = lua_type(L, index);
    if (type == LUA_TNUMBER && isnan(lua_tonumber(L, index)))
        return lua_pushliteral(L, "nan"); /* its sign differs between processors */
    if (type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TBOOLEAN || type == LUA_TNIL)
        return luaL_tolstring(L, index, NULL);
    if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING)
        return lua_tostring(L, -1);
    return lua_pushstring(L, luaL_typename(L, index));
}

static int base_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    orr__tostring(L, 1);
    return 1;
}

static int base_print(lua_State *L) {
    const struct orr_scenario *scenario = orr__scenario_of(L);
    int count = lua_gettop(L);
    luaL_checkstack(L, count + 8, "too many values to print");
    for (int i = 1; i <= count; i++) {
        orr__tostring(L, i);
        lua_replace(L, i);
    }
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            luaL_addchar(&buffer, '\t');
        size_t length;
        const char *text = lua_tolstring(L, i, &length);
        luaL_addlstring(&buffer, text, length);
    }
    luaL_addchar(&buffer, '\n');
    luaL_pushresult(&buffer);
    size_t length;
    const char *line = lua_tolstring(L, -1, &length);
    if (scenario->config.print)
        scenario->config.print(scenario->config.print_context, line, length);
    return 0;
}

/* Goes on as upvalue 1, the original, in the same frame: its messages name function and line. */
static int call_original(lua_State *L) {
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* string.format: objects become their texts here, because %s of the C library would show an
 * address; %p is refused. */
static int string_format(lua_State *L) {
    const char *format = luaL_checkstring(L, 1);
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        at += 1 + strspn(at + 1, "-+ #0123456789.");
        if (*at == 'p')
            return orr__raise(L, ORR_INVALID, "string.format: %%p would show an address");
        if (*at != '\0')
            at++;
    }
    int count = lua_gettop(L);
    for (int i = 2; i <= count; i++)
        if (lua_type(L, i) >= LUA_TTABLE || lua_type(L, i) == LUA_TLIGHTUSERDATA) {
            orr__tostring(L, i);
            lua_replace(L, i);
        } else if (lua_type(L, i) == LUA_TNUMBER && isnan(lua_tonumber(L, i))) {
            lua_pushnumber(L, copysign(lua_tonumber(L, i), 1)); /* as orr__tostring shows it */
            lua_replace(L, i);
        }
    return call_original(L);
}

/* --- loops inside the libraries, which the hook does not see --- */

/* The steps first..last of a loop count as instructions; more than all that there are is an error
 * that pcall catches, because nothing has run. */
static void count_steps(lua_State *L, const char *function, lua_Integer first, lua_Integer last) {
    const struct orr_scenario *scenario = orr__scenario_of(L);
    if (last < first)
        return;
    uint64_t steps = (uint64_t)last - (uint64_t)first;
    if (steps >= scenario->instructions_max / STEP_INSTRUCTIONS)
        orr__raise(L, ORR_INVALID,
                   "%s: %lld to %lld are more steps than the limit of %llu instructions allows",
                   function, (long long)first, (long long)last,
                   (unsigned long long)scenario->instructions_max);
    count(L, (steps + 1) * STEP_INSTRUCTIONS);
}

/* A text has as many steps as bytes, which the limit of memory bounds; an empty one has none. */
static int string_rep(lua_State *L) {
    size_t length, separator = 0;
    luaL_checklstring(L, 1, &length);
    luaL_optlstring(L, 3, "", &separator);
    if (length + separator == 0)
        count_steps(L, "string.rep", 1, luaL_checkinteger(L, 2));
    return call_original(L);
}

static int table_move(lua_State *L) {
    count_steps(L, "table.move", luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
    return call_original(L);
}

/* The elements behind the position move. */
static int table_insert(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_gettop(L) == 3)
        count_steps(L, "table.insert", luaL_checkinteger(L, 2), luaL_len(L, 1));
    return call_original(L);
}

static int table_remove(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_gettop(L) == 2)
        count_steps(L, "table.remove", luaL_checkinteger(L, 2), luaL_len(L, 1));
    return call_original(L);
}

static int table_sort(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    count_steps(L, "table.sort", 1, luaL_len(L, 1));
    return call_original(L);
}

static int table_concat(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 4);
    lua_Integer last = lua_isnil(L, 4) ? luaL_len(L, 1) : luaL_checkinteger(L, 4);
    count_steps(L, "table.concat", luaL_optinteger(L, 3, 1), last);
    lua_pushinteger(L, last);
    lua_replace(L, 4);
    return call_original(L);
}

static int table_unpack(lua_State *L) {
    lua_settop(L, 3);
    lua_Integer last = lua_isnil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
    count_steps(L, "table.unpack", luaL_optinteger(L, 2, 1), last);
    lua_pushinteger(L, last);
    lua_replace(L, 3);
    return call_original(L);
}

/* Puts wrappers in front of functions of the library on top; the originals are their upvalues. */
static void wrap_functions(lua_State *L, const luaL_Reg *wrappers) {
    for (; wrappers->name; wrappers++) {
        lua_getfield(L, -1, wrappers->name);
        lua_pushcclosure(L, wrappers->func, 1);
        lua_setfield(L, -2, wrappers->name);
    }
}

/* --- pairs in an order --- */

/* A key as it is compared: integers and floats by value, then texts by bytes, then false and true,
 * then handles by age. Tables and functions have no order that two runs agree on. */
struct key {
    int rank;
    bool whole;
    lua_Integer integer;
    lua_Number number;
    const char *text; /* kept alive by the table */
    size_t length;
};

static struct key read_key(lua_State *L, int index) {
    struct key key = {0};
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        key.whole = lua_isinteger(L, index);
        key.number = lua_tonumber(L, index);
        key.integer = key.whole ? lua_tointeger(L, index) : 0;
        break;
    case LUA_TSTRING:
        key.rank = 1;
        key.text = lua_tolstring(L, index, &key.length);
        break;
    case LUA_TBOOLEAN:
        key.rank = 2;
        key.integer = lua_toboolean(L, index);
        break;
    case LUA_TUSERDATA:
        key.rank = 3;
        key.integer = (lua_Integer)((struct orr__handle *)lua_touserdata(L, index))->serial;
        break;
    default:
        orr__raise(L, ORR_INVALID,
                   "pairs: a %s as a key has no order; use numbers, texts, booleans or handles",
                   luaL_typename(L, index));
    }
    return key;
}

static int compare_texts(const struct key *a, const struct key *b) {
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, shorter);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_keys(const void *left, const void *right) {
    const struct key *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->rank == 1)
        return compare_texts(a, b);
    if (a->rank > 1 || (a->whole && b->whole))
        return (a->integer > b->integer) - (a->integer < b->integer);
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (int)b->whole - (int)a->whole;
}

static void push_key(lua_State *L, const struct key *key) {
    if (key->rank == 1)
        lua_pushlstring(L, key->text, key->length);
    else if (key->rank == 2)
        lua_pushboolean(L, (int)key->integer);
    else if (key->whole)
        lua_pushinteger(L, key->integer);
    else
        lua_pushnumber(L, key->number);
}

/* Steps through the keys of upvalue 1 from position upvalue 2; a key whose value has gone is
 * skipped. */
static int pairs_step(lua_State *L) {
    lua_Integer at = lua_tointeger(L, lua_upvalueindex(2));
    for (;;) {
        at++;
        if (lua_rawgeti(L, lua_upvalueindex(1), at) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, 1) != LUA_TNIL)
            break;
        lua_pop(L, 2);
    }
    lua_pushinteger(L, at);
    lua_replace(L, lua_upvalueindex(2));
    return 2;
}

/* Pushes a table from serial to handle for the keys of the table at index 1. */
static void push_handles(lua_State *L) {
    lua_newtable(L);
    int handles = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TUSERDATA) {
            lua_pushvalue(L, -2);
            lua_rawseti(L, handles, read_key(L, -1).integer);
        }
}

/* Replaces the stack above the table at index 1 with an array of its sorted keys. */
static void push_sorted_keys(lua_State *L) {
    lua_Integer count = 0, filled = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
        count++;
    struct key *keys = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *keys, 0);
    bool has_handles = false;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        keys[filled] = read_key(L, -2);
        has_handles = has_handles || keys[filled].rank == 3;
        filled++;
    }
    qsort(keys, (size_t)filled, sizeof *keys, compare_keys);
    if (has_handles)
        push_handles(L); /* index 3 */
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 0; i < filled; i++) {
        if (keys[i].rank == 3)
            lua_rawgeti(L, 3, keys[i].integer);
        else
            push_key(L, &keys[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_replace(L, 2);
    lua_settop(L, 2);
}

int orr__sorted_keys(lua_State *L) {
    lua_settop(L, 1);
    push_sorted_keys(L);
    return 1;
}

static int base_pairs(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 3);
        return 3;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    push_sorted_keys(L);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_step, 2);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

/* next(t, key): the least key above `key` in the order of pairs, without an array: one pass a
 * call. */
static int base_next(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    bool first = lua_isnil(L, 2);
    struct key after = first ? (struct key){0} : read_key(L, 2);
    struct key best = {0};
    bool found = false;
    lua_pushnil(L); /* index 3: the best key */
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        struct key key = read_key(L, -2);
        if (!first && compare_keys(&key, &after) <= 0)
            continue;
        if (found && compare_keys(&key, &best) >= 0)
            continue;
        best = key;
        found = true;
        lua_pushvalue(L, -2);
        lua_replace(L, 3);
    }
    lua_settop(L, 3);
    if (!found)
        return 1;
    lua_pushvalue(L, 3);
    lua_rawget(L, 1);
    return 2;
}

/* --- protected calls, which an exceeded limit goes through --- */

static int after_pcall(lua_State *L, int status, lua_KContext first) {
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - (int)first;
    if (orr__scenario_of(L)->out_of_instructions)
        return lua_error(L);
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2);
    return 2;
}

static int base_pcall(lua_State *L) {
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, after_pcall);
    return after_pcall(L, status, 0);
}

/* The handler is called when the stack is unwound: below an error of the limit Lua would run it
 * inside the hook, where no instruction is counted. The stack: function, handler, true, error. */
static int after_xpcall(lua_State *L, int status, lua_KContext first) {
    bool handled = status != LUA_OK && status != LUA_YIELD && status != LUA_ERRMEM;
    if (!handled || orr__scenario_of(L)->out_of_instructions)
        return after_pcall(L, status, first);
    lua_pushboolean(L, 0);
    lua_replace(L, 3);
    lua_pushvalue(L, 2);
    lua_insert(L, 4);
    status = lua_pcallk(L, 1, 1, 0, first, after_pcall);
    return after_pcall(L, status, first);
}

static int base_xpcall(lua_State *L) {
    int argument_count = lua_gettop(L) - 2;
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2);
    int status = lua_pcallk(L, argument_count, LUA_MULTRET, 0, 2, after_xpcall);
    return after_xpcall(L, status, 2);
}

static int base_setmetatable(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnoneornil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    lua_settop(L, 2);
    static const char *const refused[] = {"__gc", "__mode"};
    for (int i = 0; i < 2 && lua_istable(L, 2); i++) {
        lua_pushstring(L, refused[i]);
        if (lua_rawget(L, 2) != LUA_TNIL)
            return orr__raise(L, ORR_INVALID,
                              "%s would depend on the garbage collector; use <close>", refused[i]);
        lua_pop(L, 1);
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return orr__raise(L, ORR_INVALID, "this metatable is protected");
    lua_setmetatable(L, 1);
    return 1;
}

/* --- coroutines, below the scheduler of hosts --- */

static int resume_more(lua_State *L, int status, lua_KContext wrapped);

static lua_State *coroutine_of(lua_State *L, bool wrapped) {
    lua_State *thread = lua_tothread(L, wrapped ? lua_upvalueindex(1) : 1);
    if (!thread)
        orr__raise(L, ORR_INVALID, "coroutine.resume: expected a coroutine, got %s",
                   luaL_typename(L, 1));
    return thread;
}

void orr__coroutine_claim(lua_State *L, lua_State *thread, bool claimed) {
    if (claimed)
        lua_pushboolean(L, 1);
    else
        lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, thread);
}

static bool is_claimed(lua_State *L, lua_State *thread) {
    bool claimed = lua_rawgetp(L, LUA_REGISTRYINDEX, thread) != LUA_TNIL;
    lua_pop(L, 1);
    return claimed;
}

/* A call inside the coroutine is blocked: its host yields to the scheduler, and goes on here. */
static int pass_block_on(lua_State *L, lua_State *thread, bool wrapped) {
    if (lua_isyieldable(L)) {
        orr__coroutine_claim(L, thread, true);
        return lua_yieldk(L, 0, wrapped, resume_more);
    }
    orr__scenario_of(L)->blocked = false;
    char site[ORR__SITE_MAX];
    orr__site(thread, site, sizeof site);
    return orr__raise(L, ORR_INVALID,
                      "the call at %s blocks its host inside a callback of "
                      "table.sort, string.gsub, require or a metamethod",
                      site);
}

static int fail_resume(lua_State *L, bool wrapped) {
    if (wrapped || orr__scenario_of(L)->out_of_instructions)
        return lua_error(L);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

static int resume_thread(lua_State *L, lua_State *thread, int argument_count, bool wrapped) {
    if (lua_status(thread) == LUA_OK && lua_gettop(thread) == 0) {
        lua_pushliteral(L, "cannot resume dead coroutine");
        return fail_resume(L, wrapped);
    }
    if (!lua_checkstack(thread, argument_count))
        return orr__raise(L, ORR_INVALID, "too many arguments to resume");
    lua_xmove(L, thread, argument_count);
    int result_count = 0;
    int status = lua_resume(thread, L, argument_count, &result_count);
    if (status == LUA_YIELD && orr__scenario_of(L)->blocked)
        return pass_block_on(L, thread, wrapped);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(thread, L, 1);
        return fail_resume(L, wrapped);
    }
    if (!lua_checkstack(L, result_count + 1))
        return orr__raise(L, ORR_INVALID, "too many results to resume");
    if (!wrapped)
        lua_pushboolean(L, 1);
    lua_xmove(thread, L, result_count);
    return result_count + !wrapped;
}

static int resume_more(lua_State *L, int status, lua_KContext wrapped) {
    (void)status;
    lua_State *thread = coroutine_of(L, wrapped != 0);
    orr__coroutine_claim(L, thread, false);
    return resume_thread(L, thread, 0, wrapped != 0);
}

/* For a coroutine that the scheduler will resume the scenario's own resume is too early. */
static int resume_from_lua(lua_State *L, lua_State *thread, int argument_count, bool wrapped) {
    if (!is_claimed(L, thread))
        return resume_thread(L, thread, argument_count, wrapped);
    luaL_where(L, 1);
    lua_pushliteral(L, "cannot resume the coroutine of a host");
    lua_concat(L, 2);
    return fail_resume(L, wrapped);
}

static int coroutine_resume(lua_State *L) {
    lua_State *thread = coroutine_of(L, false);
    return resume_from_lua(L, thread, lua_gettop(L) - 1, false);
}

static int coroutine_wrapped(lua_State *L) {
    return resume_from_lua(L, coroutine_of(L, true), lua_gettop(L), true);
}

static int coroutine_close(lua_State *L) {
    lua_State *thread = lua_tothread(L, 1);
    if (thread && is_claimed(L, thread))
        return orr__raise(L, ORR_INVALID, "coroutine.close: cannot close the coroutine of a host");
    return call_original(L);
}

static int coroutine_wrap(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *thread = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, thread, 1);
    lua_pushcclosure(L, coroutine_wrapped, 1);
    return 1;
}

static int coroutine_yield(lua_State *L) {
    const struct orr_scenario *scenario = orr__scenario_of(L);
    if (scenario->hosts[scenario->running].thread == L)
        return orr__raise(L, ORR_INVALID, "coroutine.yield outside a coroutine");
    return lua_yield(L, lua_gettop(L));
}

/* --- require --- */

struct library_file {
    const char *name, *text;
};

static const struct library_file library[] = {
#define ORR_LIBRARY_FILE(name, text) {name, text},
    ORR_EMBED_SCENARIOS_LIBRARY(ORR_LIBRARY_FILE)
#undef ORR_LIBRARY_FILE
};
enum { LIBRARY_COUNT = sizeof library / sizeof library[0] };

static const char *library_text(lua_State *L, const char *name) {
    const char *names[LIBRARY_COUNT];
    for (int i = 0; i < LIBRARY_COUNT; i++) {
        if (strcmp(library[i].name, name) == 0)
            return library[i].text;
        names[i] = library[i].name;
    }
    char hint[ORR_ERROR_TEXT_MAX];
    orr__suggest(hint, sizeof hint, name, names, LIBRARY_COUNT);
    orr__raise(L, ORR_INVALID, "require: the library has no '%s'%s", name, hint);
    return NULL;
}

/* Pushes a module's function, compiled once. */
static void push_module(lua_State *L, const char *name) {
    lua_getfield(L, LUA_REGISTRYINDEX, MODULE_TEXTS);
    if (lua_getfield(L, -1, name) != LUA_TNIL)
        return;
    const char *text = library_text(L, name);
    lua_pushfstring(L, "@library/%s.lua", name);
    if (luaL_loadbufferx(L, text, strlen(text), lua_tostring(L, -1), "t") != LUA_OK)
        lua_error(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -5, name);
}

/* Upvalue 1: the modules loaded so far. */
static int base_require(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    lua_settop(L, 1);
    if (lua_getfield(L, lua_upvalueindex(1), name) != LUA_TNIL)
        return 1;
    push_module(L, name);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, lua_upvalueindex(1), name);
    return 1;
}

/* --- opening --- */

static void remove_globals(lua_State *L, const char *module, const char *const *names) {
    lua_getglobal(L, module);
    for (int i = 0; names[i]; i++) {
        lua_pushnil(L);
        lua_setfield(L, -2, names[i]);
    }
    lua_pop(L, 1);
}

static void open_standard(lua_State *L) {
    static const luaL_Reg modules[] = {{"_G", luaopen_base},
                                       {"string", luaopen_string},
                                       {"table", luaopen_table},
                                       {"math", luaopen_math},
                                       {"utf8", luaopen_utf8},
                                       {"coroutine", luaopen_coroutine},
                                       {NULL, NULL}};
    for (const luaL_Reg *module = modules; module->name; module++) {
        luaL_requiref(L, module->name, module->func, 1);
        lua_pop(L, 1);
    }
    remove_globals(
        L, "_G",
        (const char *const[]){"dofile", "loadfile", "load", "collectgarbage", "warn", NULL});
    remove_globals(L, "string", (const char *const[]){"dump", NULL});
    lua_getglobal(L, "math");
    lua_getfield(L, -1, "randomseed");
    lua_setfield(L, LUA_REGISTRYINDEX, RANDOM_SEED);
    lua_pop(L, 1);
    remove_globals(L, "math", (const char *const[]){"randomseed", NULL});
}

static void replace_functions(lua_State *L) {
    static const luaL_Reg base[] = {{"tostring", base_tostring},
                                    {"print", base_print},
                                    {"pairs", base_pairs},
                                    {"next", base_next},
                                    {"pcall", base_pcall},
                                    {"xpcall", base_xpcall},
                                    {"setmetatable", base_setmetatable},
                                    {NULL, NULL}};
    static const luaL_Reg coroutines[] = {{"resume", coroutine_resume},
                                          {"wrap", coroutine_wrap},
                                          {"yield", coroutine_yield},
                                          {NULL, NULL}};
    static const luaL_Reg tables[] = {{"concat", table_concat},
                                      {"insert", table_insert},
                                      {"move", table_move},
                                      {"remove", table_remove},
                                      {"sort", table_sort},
                                      {"unpack", table_unpack},
                                      {NULL, NULL}};
    lua_pushglobaltable(L);
    luaL_setfuncs(L, base, 0);
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, MODULE_TEXTS);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, ORR__MODULES);
    lua_pushcclosure(L, base_require, 1);
    lua_setfield(L, -2, "require");
    lua_getfield(L, -1, "coroutine");
    luaL_setfuncs(L, coroutines, 0);
    wrap_functions(L, (const luaL_Reg[]){{"close", coroutine_close}, {NULL, NULL}});
    lua_getfield(L, -2, "string");
    wrap_functions(
        L, (const luaL_Reg[]){{"format", string_format}, {"rep", string_rep}, {NULL, NULL}});
    lua_getfield(L, -3, "table");
    wrap_functions(L, tables);
    lua_pop(L, 4);
}

int orr__sandbox_fill(lua_State *L) {
    open_standard(L);
    replace_functions(L);
    lua_newtable(L);
    orr__open_orrery(L);
    orr__open_streams(L);
    orr__open_buffers(L);
    orr__open_communicators(L);
    orr__open_mailboxes(L);
    orr__open_perturb(L);
    orr__open_reports(L);
    orr__open_meshes(L);
    orr__open_tensors(L);
    orr__open_regions(L);
    orr__open_autograd(L);
    orr__open_gradients(L);
    orr__open_roles(L);
    orr__open_recordings(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, ORR__MODULE);
    orr__module_seal(L, "orrery");
    lua_setglobal(L, "orrery");
    lua_newtable(L);
    orr__open_expect(L);
    orr__module_seal(L, "expect");
    lua_setglobal(L, "expect");
    return 0;
}

void orr__sandbox_seed(lua_State *L, uint64_t seed) {
    lua_getfield(L, LUA_REGISTRYINDEX, RANDOM_SEED);
    lua_pushinteger(L, (lua_Integer)seed);
    lua_pushinteger(L, 0);
    lua_call(L, 2, 0);
}
