#include "scenarios/scenario.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

/* --- creating: everything that may raise runs protected --- */

/* Protected: the libraries, then the program. Argument: the scenario. Returns the compiled
 * program. */
static int open_and_compile(lua_State *L) {
    struct orr_scenario *scenario = lua_touserdata(L, 1);
    orr__sandbox_fill(L);
    if (scenario->config.repeats)
        orr__repeat_open(L);
    const struct orr_scenario_config *config = &scenario->config;
    lua_pushfstring(L, "@%s", config->path);
    const char *name = lua_tostring(L, -1);
    /* How Lua will write the path: a chunk of the same name says it. */
    lua_Debug about;
    if (luaL_loadbufferx(L, "", 0, name, "t") != LUA_OK)
        return lua_error(L);
    lua_getinfo(L, ">S", &about);
    memcpy(scenario->short_source, about.short_src, sizeof scenario->short_source);
    if (config->length > 0 && config->text[0] == LUA_SIGNATURE[0])
        return orr__raise(L, ORR_INVALID, "compiled Lua is not accepted; expected a text");
    if (luaL_loadbufferx(L, config->text, config->length, name, "t") != LUA_OK)
        return lua_error(L);
    scenario->chunk = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static enum orr_status compile(struct orr_scenario *scenario, struct orr_error *error) {
    scenario->lua = orr__sandbox_open(scenario);
    if (!scenario->lua)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a scenario");
    lua_pushcfunction(scenario->lua, open_and_compile);
    lua_pushlightuserdata(scenario->lua, scenario);
    int status = lua_pcall(scenario->lua, 1, 0, 0);
    if (status != LUA_OK)
        return orr__error_take(scenario, scenario->lua, status, error);
    return ORR_OK;
}

enum orr_status orr_scenario_create(const struct orr_scenario_config *config,
                                    struct orr_scenario **out_scenario, struct orr_error *error) {
    *out_scenario = NULL;
    struct orr_scenario *scenario = orr_memory_alloc(config->memory, sizeof *scenario);
    if (!scenario)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a scenario");
    scenario->config = *config;
    scenario->memory = config->memory;
    scenario->program = LUA_NOREF;
    scenario->silent = config->without_sites;
    scenario->lua_bytes_max = config->memory_max > 0 ? config->memory_max : ORR_SCENARIO_MEMORY_MAX;
    scenario->instructions_max =
        config->instructions_max > 0 ? config->instructions_max : ORR_SCENARIO_INSTRUCTIONS_MAX;
    enum orr_status status = compile(scenario, error);
    if (status != ORR_OK)
        orr_scenario_destroy(&scenario);
    *out_scenario = scenario;
    return status;
}

static void free_expectations(struct orr_scenario *scenario) {
    for (size_t i = 0; i < scenario->expectation_count; i++)
        orr_memory_free(scenario->memory, (void *)(uintptr_t)scenario->expectations[i].text);
    scenario->expectation_count = 0;
}

void orr_scenario_destroy(struct orr_scenario **handle) {
    struct orr_scenario *scenario = *handle;
    *handle = NULL;
    if (!scenario)
        return;
    if (scenario->lua)
        lua_close(scenario->lua);
    orr__pools_free(scenario);
    assert(scenario->lua_bytes == 0);
    free_expectations(scenario);
    orr_memory_free(scenario->memory, scenario->expectations);
    orr__recordings_free(scenario);
    orr_memory_free(scenario->memory, scenario->hosts);
    orr_memory_free(scenario->memory, scenario);
}

bool orr_scenario_arguments_wrong(const struct orr_scenario *scenario) {
    return scenario->arguments_wrong;
}

size_t orr_scenario_expectation_count(const struct orr_scenario *scenario) {
    return scenario->expectation_count;
}

const struct orr_expectation *orr_scenario_expectation(const struct orr_scenario *scenario,
                                                       size_t index) {
    assert(index < scenario->expectation_count);
    return &scenario->expectations[index];
}

/* --- hosts --- */

enum orr_status orr__host_add(struct orr_scenario *scenario, lua_State *L, lua_State *thread,
                              uint32_t id, int64_t rank) {
    enum orr_status status =
        orr_memory_grow(scenario->memory, &scenario->hosts, &scenario->host_capacity,
                        scenario->host_count + 1, sizeof *scenario->hosts, ORR__HOSTS_MAX);
    if (status != ORR_OK)
        return status;
    orr__coroutine_claim(L, thread, true);
    scenario->hosts[scenario->host_count] = (struct orr__host){
        .thread = thread, .anchor = luaL_ref(L, LUA_REGISTRYINDEX), .id = id, .rank = rank};
    scenario->host_count++;
    scenario->live_count++;
    return ORR_OK;
}

/* As it was given: beyond Lua's integers it is a text. */
static void push_seed(lua_State *L, uint64_t seed) {
    char text[32];
    if (seed <= INT64_MAX) {
        lua_pushinteger(L, (lua_Integer)seed);
        return;
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    lua_pushstring(L, text);
}

/* Fills the fields of `orrery`. */
static void set_facts(lua_State *L, struct orr_runtime *runtime) {
    lua_getfield(L, LUA_REGISTRYINDEX, ORR__MODULE);
    lua_pushinteger(L, (lua_Integer)orr_runtime_device_count(runtime));
    lua_setfield(L, -2, "devices");
    push_seed(L, orr_runtime_seed(runtime));
    lua_setfield(L, -2, "seed");
    lua_pushboolean(L, orr_runtime_timing_only(runtime));
    lua_setfield(L, -2, "timing_only");
    lua_pushstring(L, orr_runtime_backend_name(runtime));
    lua_setfield(L, -2, "backend");
    lua_pop(L, 1);
}

/* Pushes the coroutine of host 0: the one of the run before, if that came to its end. */
static lua_State *push_program(lua_State *L, struct orr_scenario *scenario) {
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, scenario->program) == LUA_TTHREAD) {
        lua_State *thread = lua_tothread(L, -1);
        if (lua_status(thread) == LUA_OK && lua_gettop(thread) == 0)
            return thread;
    }
    lua_pop(L, 1);
    lua_State *thread = lua_newthread(L);
    if (scenario->config.repeats) {
        lua_pushvalue(L, -1);
        luaL_unref(L, LUA_REGISTRYINDEX, scenario->program);
        scenario->program = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    return thread;
}

/* Protected: seeds, makes host 0 of the program. */
static int prepare(lua_State *L) {
    struct orr_scenario *scenario = lua_touserdata(L, 1);
    struct orr_runtime *runtime = scenario->runtime;
    orr__sandbox_seed(L, orr_runtime_seed(runtime));
    if (!scenario->has_run)
        set_facts(L, runtime);
    scenario->has_run = true;
    lua_State *thread = push_program(L, scenario);
    lua_rawgeti(thread, LUA_REGISTRYINDEX, scenario->chunk);
    if (orr__host_add(scenario, L, thread, 0, -1) != ORR_OK)
        return orr__raise(L, ORR_NO_MEMORY, "out of host memory for a host");
    return 0;
}

/* Makes a host the runtime's caller, at no site. */
static enum orr_status become(struct orr_scenario *scenario, uint32_t id, struct orr_error *error) {
    scenario->caller_known = false;
    if (orr_runtime_set_caller(scenario->runtime, id, "") == ORR_OK)
        return ORR_OK;
    return orr_error_set(error, ORR_NO_MEMORY, "%s: %s", scenario->config.path,
                         orr_runtime_error(scenario->runtime)->text);
}

/* What the host has done and knew at its end is known to the current one. */
static enum orr_status take_farewell(struct orr_scenario *scenario, struct orr__host *host,
                                     struct orr_error *error) {
    uint64_t message = host->farewell;
    host->farewell = 0;
    if (message == 0 || orr_runtime_take(scenario->runtime, message) == ORR_OK)
        return ORR_OK;
    return orr_error_set(error, ORR_NO_MEMORY, "%s: %s", scenario->config.path,
                         orr_runtime_error(scenario->runtime)->text);
}

/* The program goes on after orrery.join: as a new host of the runtime, because the one that it was
 * has ended, at the latest time of all that have ended. */
static enum orr_status revive_program(struct orr_scenario *scenario, struct orr_error *error) {
    struct orr__host *program = &scenario->hosts[0];
    struct orr_runtime *runtime = scenario->runtime;
    program->parked = false;
    enum orr_status status = orr_runtime_add_host(runtime, "host, joined", &program->id);
    if (status != ORR_OK)
        return orr_error_set(error, status, "%s: %s", scenario->config.path,
                             orr_runtime_error(runtime)->text);
    status = become(scenario, program->id, error);
    for (size_t i = 0; status == ORR_OK && i < scenario->host_count; i++)
        status = take_farewell(scenario, &scenario->hosts[i], error);
    int64_t now_ns = orr_runtime_now(runtime);
    if (status != ORR_OK || now_ns >= scenario->end_ns)
        return status;
    status = orr_runtime_spend(runtime, scenario->end_ns - now_ns);
    if (status != ORR_OK)
        return orr_error_set(error, status, "%s: %s", scenario->config.path,
                             orr_runtime_error(runtime)->text);
    return ORR_OK;
}

/* Index of the host to go on with. */
static enum orr_status choose_host(struct orr_scenario *scenario, size_t *out_index,
                                   struct orr_error *error) {
    *out_index = 0;
    if (scenario->hosts[0].parked && scenario->live_count == 1)
        return revive_program(scenario, error);
    /* One host alone is never asked for: backends with a single host have no such verb. */
    if (scenario->host_count == 1 && !scenario->config.repeats)
        return orr__hosts_wait(scenario) ? orr__hosts_hang(scenario, error) : ORR_OK;
    uint32_t id = 0;
    enum orr_status status = orr_runtime_next_host(scenario->runtime, &id);
    if (status == ORR_DEVICE_FAILED && !scenario->config.repeats &&
        (orr__hosts_wait(scenario) || orr_runtime_hung(scenario->runtime)))
        return orr__hosts_hang(scenario, error);
    if (status != ORR_OK)
        return orr_error_set(error, status, "%s: %s", scenario->config.path,
                             orr_runtime_error(scenario->runtime)->text);
    for (size_t i = 0; i < scenario->host_count; i++)
        if (scenario->hosts[i].id == id && !scenario->hosts[i].done) {
            *out_index = i;
            return ORR_OK;
        }
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s: host %u is to run, but has ended",
                         scenario->config.path, id);
}

/* Takes note of the clock of a host that makes no more calls. The last one stays the runtime's
 * caller: whoever finishes the run waits as that host. */
static enum orr_status leave(struct orr_scenario *scenario, struct orr__host *host, bool last,
                             struct orr_error *error) {
    enum orr_status status = become(scenario, host->id, error);
    if (status != ORR_OK)
        return status;
    int64_t now_ns = orr_runtime_now(scenario->runtime);
    scenario->end_ns = now_ns > scenario->end_ns ? now_ns : scenario->end_ns;
    if (last)
        return ORR_OK;
    host->farewell = orr_runtime_post(scenario->runtime);
    orr_runtime_host_done(scenario->runtime, host->id);
    return ORR_OK;
}

static enum orr_status end_host(struct orr_scenario *scenario, struct orr__host *host,
                                struct orr_error *error) {
    assert(!host->done && scenario->live_count > 0);
    host->done = true;
    scenario->live_count--;
    lua_settop(host->thread, 0);
    orr__coroutine_claim(scenario->lua, host->thread, false);
    luaL_unref(scenario->lua, LUA_REGISTRYINDEX, host->anchor);
    return leave(scenario, host, scenario->live_count == 0, error);
}

static enum orr_status park_program(struct orr_scenario *scenario, struct orr_error *error) {
    scenario->joining = false;
    scenario->hosts[0].parked = true;
    return leave(scenario, &scenario->hosts[0], false, error);
}

/* Runs one host until it ends, blocks or fails. */
static enum orr_status run_host(struct orr_scenario *scenario, size_t index,
                                struct orr_error *error) {
    struct orr__host *host = &scenario->hosts[index];
    scenario->running = index;
    scenario->blocked = false;
    lua_State *thread = host->thread;
    int argument_count =
        lua_status(thread) == LUA_YIELD ? 0 : lua_gettop(thread) - 1; /* below them: the function */
    int result_count = 0;
    int status = lua_resume(thread, NULL, argument_count, &result_count);
    if (status == LUA_YIELD) {
        assert(scenario->blocked);
        lua_pop(thread, result_count);
        return scenario->joining ? park_program(scenario, error) : ORR_OK;
    }
    if (status != LUA_OK)
        return orr__error_take(scenario, thread, status, error);
    return end_host(scenario, &scenario->hosts[index], error); /* others may have been added */
}

static enum orr_status check_arguments(struct orr_scenario *scenario, struct orr_error *error) {
    if (scenario->arguments_declared || scenario->config.argument_count == 0)
        return ORR_OK;
    scenario->arguments_wrong = true;
    return orr_error_set(error, ORR_INVALID,
                         "%s: unknown argument '%s': the scenario declares none (orrery.args)",
                         scenario->config.path, scenario->config.arguments[0].key);
}

enum orr_status orr_scenario_run(struct orr_scenario *scenario, struct orr_runtime *runtime,
                                 struct orr_error *error) {
    scenario->stop_kind[0] = '\0';
    assert(scenario->host_count == 0); /* once */
    scenario->runtime = runtime;
    lua_pushcfunction(scenario->lua, prepare);
    lua_pushlightuserdata(scenario->lua, scenario);
    int lua_status = lua_pcall(scenario->lua, 1, 0, 0);
    if (lua_status != LUA_OK)
        return orr__error_take(scenario, scenario->lua, lua_status, error);
    while (scenario->live_count > 0) {
        size_t index = 0;
        enum orr_status status = choose_host(scenario, &index, error);
        if (status == ORR_OK)
            status = run_host(scenario, index, error);
        if (status != ORR_OK)
            return status;
    }
    return check_arguments(scenario, error);
}

/* --- running it again --- */

enum orr_status orr_scenario_rewind(struct orr_scenario *scenario) {
    assert(scenario->config.repeats);
    lua_State *L = scenario->lua;
    for (size_t i = 0; i < scenario->host_count; i++) {
        struct orr__host *host = &scenario->hosts[i];
        if (host->done)
            continue;
        orr__coroutine_claim(L, host->thread, false);
        luaL_unref(L, LUA_REGISTRYINDEX, host->anchor);
    }
    lua_settop(L, 0);
    lua_pushcfunction(L, orr__repeat_clear);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        return ORR_NO_MEMORY;
    free_expectations(scenario);
    orr__recordings_free(scenario);
    scenario->runtime = NULL;
    scenario->handle_count = scenario->random_count = 0;
    scenario->instructions = 0;
    scenario->out_of_instructions = scenario->memory_capped = false;
    scenario->host_count = scenario->live_count = scenario->running = 0;
    scenario->end_ns = 0;
    scenario->tracing = scenario->callback_failed = scenario->joining = scenario->blocked = false;
    scenario->playing = NULL;
    scenario->callbacks = 0;
    scenario->caller_known = scenario->arguments_declared = scenario->arguments_wrong = false;
    scenario->raised = ORR_OK;
    scenario->raised_text[0] = '\0';
    return ORR_OK;
}

void orr_scenario_set_sites(struct orr_scenario *scenario, bool with_sites) {
    scenario->silent = !with_sites;
}

uint32_t orr_scenario_running(const struct orr_scenario *scenario) {
    return scenario->running < scenario->host_count ? scenario->hosts[scenario->running].id : 0;
}

void orr_scenario_host_text(const struct orr_scenario *scenario, uint32_t host, char *text,
                            size_t size) {
    for (size_t i = 0; i < scenario->host_count; i++)
        if (scenario->hosts[i].id == host && scenario->hosts[i].rank >= 0) {
            snprintf(text, size, "rank %lld", (long long)scenario->hosts[i].rank);
            return;
        }
    snprintf(text, size, "host");
}
