/* Fuzzes the sandbox and the binding: programs made of snippets, machine files made of tokens.
 *
 * Random bytes are rarely Lua, so a byte of the input is the number of a snippet; byte 0 chooses
 * between a scenario (even) and a machine file (odd); with its top bit set the rest is the text.
 * Whatever the program is, it ends within its limits, fails with a message that names its file,
 * and leaks nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios/machine.h"
#include "scenarios/scenario.h"
#include "sim/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 16384, DEVICES = 2 };

static void must(int condition, const char *what, const char *text) {
    if (!condition) {
        fprintf(stderr, "fuzz_scenario: %s\n%s\n", what, text);
        abort();
    }
}

/* A snippet, and what closes the block that it opens. */
static const struct {
    const char *text, *closer;
} snippets[] = {
    {"s:kernel{ name = 'k', reads = {a}, writes = {b} }\n", NULL},
    {"s:kernel{ name = 'k', writes = {{a, 0, 64}}, ns = 1000 }\n", NULL},
    {"c:kernel{ name = 'k', reads = {{b, 32, 16}} }\n", NULL},
    {"s:kernel{ name = x, flops = 1 << 62, bytes = x }\n", NULL},
    {"c:wait(e)\n", NULL},
    {"e = s:record()\n", NULL},
    {"s:record(e)\n", NULL},
    {"e:sync()\n", NULL},
    {"s:sync()\n", NULL},
    {"d:sync()\n", NULL},
    {"x = s:query()\n", NULL},
    {"x = orrery.now()\n", NULL},
    {"orrery.spend(100)\n", NULL},
    {"a = d:alloc(1024)\n", NULL},
    {"b = d:alloc(1 << 20, 'b')\n", NULL},
    {"b = c:alloc(1 << 40)\n", NULL},
    {"a:free()\n", NULL},
    {"b:free()\n", NULL},
    {"a:record_stream(c)\n", NULL},
    {"h = orrery.host_alloc(64)\n", NULL},
    {"h:write(1.5)\n", NULL},
    {"h:write({1, 2, 3})\n", NULL},
    {"h:write({1}, { first = 3, dtype = 'f64' })\n", NULL},
    {"x = h:read()\n", NULL},
    {"x = h:f32(3)\n", NULL},
    {"s:copy{ to = a, from = h, bytes = 64 }\n", NULL},
    {"s:copy{ to = h, from = {a, 0, 64} }\n", NULL},
    {"s:fill{ to = a, value = 255 }\n", NULL},
    {"s:hostfn{ name = 'f', reads = {h}, writes = {h} }\n", NULL},
    {"w = orrery.communicator()\n", NULL},
    {"w:all_reduce{ input = {a, b} }\n", NULL},
    {"w:all_gather{ input = {{a, 0, 8}, {b, 0, 8}}, output = {a, b} }\n", NULL},
    {"w:barrier()\n", NULL},
    {"d = orrery.device(0)\n", NULL},
    {"d = orrery.device(1)\n", NULL},
    {"s, c = d:stream(), d:stream('side')\n", NULL},
    {"s, c = c, s\n", NULL},
    {"orrery.host(function(rank)\n", "end)\n"},
    {"orrery.join()\n", NULL},
    {"pcall(function()\n", "end)\n"},
    {"x = coroutine.wrap(function()\n", "end)\n"},
    {"coroutine.yield(1)\n", NULL},
    {"x()\n", NULL},
    {"x = pcall(x)\n", NULL},
    {"table.sort({3, 1, 2}, function(p, q)\n", "end)\n"},
    {"x = setmetatable({}, { __index = function()\n", "end })\n"},
    {"x = tostring(x) .. 'y'\n", NULL},
    {"for i = 1, 3 do\n", "end\n"},
    {"for k, v in pairs({ a, b, [s] = 1, [c] = 2, z = 3 }) do\n", "end\n"},
    {"while true do\n", "end\n"},
    {"do local z <close> = d:alloc(64)\n", "end\n"},
    {"if x then\n", "end\n"},
    {"error(x)\n", NULL},
    {"expect.equal(x, 1)\n", NULL},
    {"expect.close({1, 2}, x)\n", NULL},
    {"expect.clean()\n", NULL},
    {"print(x, a, s, {}, print)\n", NULL},
    {"x = string.rep('x', 1 << 30)\n", NULL},
    {"x = {}\n", NULL},
    {"x = math.random(10)\n", NULL},
    {"x = 1\n", NULL},
    {NULL, NULL}, /* closes the innermost block */
};
enum { SNIPPETS = sizeof snippets / sizeof snippets[0], BLOCKS_MAX = 32 };

static const char *const tokens[] = {
    "return",
    "{",
    "}",
    ",",
    "=",
    "kind",
    "memory_bytes",
    "bandwidth",
    "peak",
    "vector",
    "matrix",
    "f32",
    "bf16",
    "source",
    "'text'",
    "1e12",
    "-1",
    "0.5",
    "base",
    "'h100'",
    "memory_efficiency",
    "note",
    "devices",
    "0/0",
    "'gpu'",
    "{ 1e12, source = 's' }",
    "{ { 1, 0.5 }, source = 's' }",
    "while true do end",
    "function() end",
    "[1]",
    "local x",
    ";",
};

static void build_machine(char *text, const uint8_t *data, size_t size) {
    enum { TOKENS = sizeof tokens / sizeof tokens[0] };
    size_t used = 0;
    for (size_t i = 0; i < size && used < TEXT_MAX - 64; i++)
        used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s ", tokens[data[i] % TOKENS]);
}

static void build_scenario(char *text, const uint8_t *data, size_t size) {
    const char *closers[BLOCKS_MAX];
    size_t used = strlen(text), depth = 0;
    for (size_t i = 0; i < size && used < TEXT_MAX - 1024; i++) {
        unsigned which = data[i] % SNIPPETS;
        const char *part = snippets[which].text;
        if (!part && depth == 0)
            continue;
        if (!part)
            part = closers[--depth];
        else if (snippets[which].closer && depth == BLOCKS_MAX)
            continue;
        else if (snippets[which].closer)
            closers[depth++] = snippets[which].closer;
        used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s", part);
    }
    while (depth > 0)
        used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s", closers[--depth]);
}

static void keep_nothing(void *context, const char *text, size_t length) {
    (void)context;
    must(length > 0 && text[length - 1] == '\n', "a printed line has no end", text);
}

static const struct orr_device_spec spec = {.name = "fuzz",
                                            .kind = "gpu",
                                            .memory_bytes = 1 << 24,
                                            .bandwidth = 1000000000,
                                            .peak = {{[ORR_DTYPE_F32] = 1000000000}},
                                            .host_launch_ns = 10,
                                            .queue_depth = 4,
                                            .peer_bandwidth = 1000000,
                                            .host_bandwidth = 1000000};

static void run_scenario(const char *text) {
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_device_spec specs[DEVICES] = {spec, spec};
    struct orr_scenario_config config = {.memory = &memory,
                                         .path = "fuzz.lua",
                                         .text = text,
                                         .length = strlen(text),
                                         .instructions_max = 20000,
                                         .memory_max = 8 << 20,
                                         .print = keep_nothing};
    struct orr_runtime_config machine = {
        .memory = &memory, .open = orr_sim_open, .specs = specs, .device_count = DEVICES};
    struct orr_scenario *scenario = NULL;
    struct orr_runtime *runtime = NULL;
    enum orr_status status = orr_scenario_create(&config, &scenario, &error);
    if (status == ORR_OK)
        status = orr_runtime_create(&machine, &runtime, &error);
    if (status == ORR_OK)
        status = orr_scenario_run(scenario, runtime, &error);
    if (status != ORR_OK)
        must(strncmp(error.text, "fuzz.lua", 8) == 0, error.text, text);
    else if (orr_runtime_finish(runtime) != ORR_OK)
        must(orr_runtime_error(runtime)->text[0] != '\0', "a failure without a text", text);
    orr_scenario_destroy(&scenario);
    orr_runtime_destroy(&runtime);
}

static void parse_machine(const char *text) {
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_machine *machine;
    enum orr_status status =
        orr_machine_parse("fuzz.lua", text, strlen(text), &memory, &machine, &error);
    if (status != ORR_OK)
        must(strncmp(error.text, "fuzz.lua", 8) == 0, error.text, text);
    else
        must(machine->spec.bandwidth > 0 && machine->devices > 0, "an incomplete machine", text);
    orr_machine_destroy(&machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char prologue[] =
        "local d = orrery.device(0) local s, c = d:stream(), d:stream('side')\n"
        "local a, b, h = d:alloc(256), d:alloc(256), orrery.host_alloc(64)\n"
        "local e, w, x = s:record(), orrery.communicator()\n";
    char text[TEXT_MAX] = "";
    if (size < 1)
        return 0;
    int is_machine = data[0] & 1;
    if (data[0] & 0x80) {
        size_t length = size - 1 < TEXT_MAX - 1 ? size - 1 : TEXT_MAX - 1;
        memcpy(text, data + 1, length);
        text[length] = '\0';
    } else if (is_machine) {
        build_machine(text, data + 1, size - 1);
    } else {
        memcpy(text, prologue, sizeof prologue);
        build_scenario(text, data + 1, size - 1);
    }
    if (is_machine)
        parse_machine(text);
    else
        run_scenario(text);
    return 0;
}
