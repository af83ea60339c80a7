/* Executions per second of exploring a scenario: the Lua program is run for each of them. The floor
 * is the same program in the same kind of Lua state, whose functions do nothing: what Lua's calls
 * and tables cost whatever is behind them.
 *
 * Two programs of ten commands: one that makes its tables anew for every command, as people write
 * it, and one that gives every command the same ones. Figures are per core, by CPU time, and, for
 * two threads, by the wall clock. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <string.h>

#include "bench/bench.h"
#include "scenarios/explorer.h"
#include "scenarios/machine.h"

enum { ROUND_EXECUTIONS = 50000 };

static const char as_written[] =
    "local d = orrery.device(0)\n"
    "local s, t, u = d:stream('compute'), d:stream('copy'), d:stream('side')\n"
    "local a, b, c = s:alloc(64, 'a'), s:alloc(64, 'b'), t:alloc(64, 'c')\n"
    "s:kernel{ name = 'produce', writes = {a} }\n"
    "s:kernel{ name = 'scale', reads = {a}, writes = {b} }\n"
    "local e = s:record()\n"
    "t:wait(e)\n"
    "t:kernel{ name = 'consume', reads = {b}, writes = {c} }\n"
    "s:kernel{ name = 'again', reads = {a}, writes = {b} }\n"
    "t:kernel{ name = 'more', reads = {b, c}, writes = {c} }\n"
    "s:kernel{ name = 'third', reads = {b}, writes = {a} }\n"
    "u:kernel{ name = 'last', reads = {a}, writes = {c} }\n"
    "u:kernel{ name = 'end', reads = {a}, writes = {b} }\n";

static const char with_shared_tables[] =
    "local d = orrery.device(0)\n"
    "local s, t = d:stream('compute'), d:stream('copy')\n"
    "local a = s:alloc(64, 'a')\n"
    "local w = { name = 'k', writes = a }\n"
    "s:kernel(w) s:kernel(w) s:kernel(w) s:kernel(w) s:kernel(w)\n"
    "t:kernel(w) t:kernel(w) t:kernel(w) t:kernel(w) t:kernel(w)\n";

/* --- the floor --- */

static int nothing(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

/* A value whose methods do nothing and return it. */
static void push_thing(lua_State *L) {
    static const char *const methods[] = {"stream", "alloc",  "kernel", "record",
                                          "wait",   "device", NULL};
    lua_newuserdatauv(L, 8, 0);
    lua_newtable(L);
    lua_newtable(L);
    for (int i = 0; methods[i]; i++) {
        lua_pushvalue(L, -3);
        lua_pushcclosure(L, nothing, 1);
        lua_setfield(L, -2, methods[i]);
    }
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

static double floor_ns(const char *program) {
    lua_State *L = luaL_newstate();
    bench_must(L != NULL, "a Lua state");
    push_thing(L);
    lua_pushcclosure(L, nothing, 1);
    lua_newtable(L);
    lua_insert(L, -2);
    lua_setfield(L, -2, "device");
    lua_setglobal(L, "orrery");
    bench_must(luaL_loadstring(L, program) == LUA_OK, "the program");
    double begin_s = bench_thread_cpu_s();
    for (int i = 0; i < ROUND_EXECUTIONS; i++) {
        lua_pushvalue(L, -1);
        bench_must(lua_pcall(L, 0, 0, 0) == LUA_OK, "the program");
    }
    double ns = (bench_thread_cpu_s() - begin_s) / ROUND_EXECUTIONS * 1e9;
    lua_close(L);
    return ns;
}

/* --- ours --- */

struct work {
    const char *program;
    const struct orr_memory *memory;
    const struct orr_device_spec *spec;
    uint64_t executions, orders;
    double cpu_s;
};

static void explore(struct orr_explorer *explorer, struct work *work) {
    struct orr_untimed_options options = {.strategy = ORR_UNTIMED_DPOR};
    struct orr_execution first;
    bench_check(orr_explorer_follow(explorer, NULL, 0, false, &first), "the first execution");
    bench_must(first.outcome == ORR_UNTIMED_COMPLETE && first.status == ORR_OK,
               orr_explorer_error(explorer)->text);
    double begin_s = bench_thread_cpu_s();
    while (work->executions < ROUND_EXECUTIONS) {
        struct orr_search search;
        bench_check(orr_search_begin(explorer, &options, first.numbers, &search), "a search");
        bench_check(orr_search_run(&search, ROUND_EXECUTIONS), "a search");
        work->executions += search.executions;
        work->orders = search.complete;
        orr_search_end(&search);
    }
    work->cpu_s = bench_thread_cpu_s() - begin_s;
}

static void *run(void *context) {
    struct work *work = context;
    struct orr_explorer_config config = {.memory = work->memory,
                                         .path = "bench.lua",
                                         .text = work->program,
                                         .length = strlen(work->program),
                                         .specs = work->spec,
                                         .device_count = 1};
    struct orr_explorer *explorer = NULL;
    struct orr_error error = {0};
    bench_check(orr_explorer_create(&config, &explorer, &error), error.text);
    explore(explorer, work);
    orr_explorer_destroy(&explorer);
    return NULL;
}

static void bench_program(const char *name, const char *program, const struct orr_memory *memory,
                          const struct orr_device_spec *spec) {
    double ours[BENCH_ROUNDS_MAX], floors[BENCH_ROUNDS_MAX], both[BENCH_ROUNDS_MAX];
    uint64_t orders = 0;
    for (int i = 0; i < bench_rounds(); i++) {
        floors[i] = floor_ns(program);
        struct work works[2] = {{.program = program, .memory = memory, .spec = spec},
                                {.program = program, .memory = memory, .spec = spec}};
        run(&works[0]);
        ours[i] = works[0].cpu_s / (double)works[0].executions * 1e9;
        orders = works[0].orders;
        works[0].executions = 0;
        pthread_t thread;
        double begin_s = bench_wall_s();
        bench_must(pthread_create(&thread, NULL, run, &works[1]) == 0, "a thread");
        run(&works[0]);
        pthread_join(thread, NULL);
        both[i] = (double)(works[0].executions + works[1].executions) / (bench_wall_s() - begin_s);
    }
    double ns = bench_median(ours, bench_rounds()), floor = bench_median(floors, bench_rounds());
    bench_valuef((double)orders, "count", "explore_lua_%s_orders", name);
    bench_valuef(ns, "ns", "explore_lua_%s_execution", name);
    bench_valuef(floor, "ns", "explore_lua_%s_floor", name);
    bench_valuef(ns / floor, "ratio", "explore_lua_%s_to_floor", name);
    bench_valuef(1e9 / ns, "1/s", "explore_lua_%s_per_core", name);
    bench_valuef(bench_median(both, bench_rounds()), "1/s", "explore_lua_%s_two_threads", name);
}

int main(void) {
    struct orr_memory memory = orr_memory_system();
    struct orr_machine *machine = NULL;
    struct orr_error error = {0};
    bench_keep_memory();
    bench_check(orr_machine_load("h100", &memory, &machine, &error), error.text);
    bench_program("as_written", as_written, &memory, &machine->spec);
    bench_program("shared_tables", with_shared_tables, &memory, &machine->spec);
    orr_machine_destroy(&machine);
    return 0;
}
