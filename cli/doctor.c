#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cuda_gpu.h"
#include "cli/cuda_plugin.h"
#include "cli/doctor_trace.h"
#include "hazards/text_builder.h"

static const char usage[] =
    "usage: orrery doctor [--json] [--cudart PATH]\n"
    "       orrery doctor TRACE... [--json]\n"
    "\n"
    "Without a trace, describes this machine: what Orrery can run on here, which of NVIDIA's\n"
    "libraries it finds, and if it can't use a GPU, why. A machine without one is fine: the exit\n"
    "code is 0.\n"
    "\n"
    "With traces (our own, Kineto's JSON, Nsight Systems' SQLite), says what is wrong with each:\n"
    "lost and damaged records, work without a call, clocks that disagree, graphs of which nodes\n"
    "are missing; and which questions it can answer, which not, and why. The exit code is 0\n"
    "whatever is found, 3 if a file is no trace.\n"
    "\n"
    "  --json         one JSON document on stdout, nothing else\n"
    "  --cudart PATH  the CUDA runtime library (default: it is searched for)\n";

#ifdef __clang__
#define COMPILER __VERSION__ /* it says its name */
#else
#define COMPILER "gcc " __VERSION__
#endif

/* All that there is to say. */
struct machine {
    long processors;
    char plugin[ORR_CUDA_PLUGIN_PATH_MAX]; /* "" if there is none */
    struct orr_cuda_machine cuda;
    bool usable;            /* a run on GPUs would open */
    struct orr_error error; /* why not: the line that such a run would end with */
};

static void look(const char *cudart, struct machine *machine) {
    const struct orr_cuda_plugin *plugin;
    struct orr_cuda_options options = {.cudart = cudart};
    machine->processors = sysconf(_SC_NPROCESSORS_ONLN);
    enum orr_status status =
        orr_cuda_plugin_open(&plugin, machine->plugin, sizeof machine->plugin, &machine->error);
    if (status == ORR_OK)
        status = plugin->probe(&options, true, &machine->cuda, &machine->error);
    machine->usable = status == ORR_OK;
}

/* "13.0", or "" for an unknown version. */
static const char *version(int number, char *text, size_t size) {
    text[0] = '\0';
    if (number > 0)
        snprintf(text, size, "%d.%d", number / 1000, number % 1000 / 10);
    return text;
}

/* --- as a table --- */

static void row(FILE *out, const char *name, const char *text) {
    fprintf(out, "%-14s %s\n", name, text);
}

static void show_gpu(FILE *out, uint32_t index, const struct orr_cuda_gpu *gpu) {
    const char *machine = orr_cuda_gpu_machine(gpu->name);
    fprintf(out, "GPU %-10u %s, %.0f GB, %.2f TB/s, %u multiprocessors, compute capability %d.%d",
            (unsigned)index, gpu->name, (double)gpu->memory_bytes / 1e9,
            (double)gpu->bandwidth / 1e12, (unsigned)gpu->sm_count, gpu->capability / 10,
            gpu->capability % 10);
    fprintf(out, "%s%s\n", machine ? ", like sim:" : "", machine ? machine : "");
}

static void show_library(FILE *out, const struct orr_cuda_library *library) {
    if (library->path[0])
        fprintf(out, "%-14s %s%s%s\n", library->name, library->version,
                library->version[0] ? "  " : "", library->path);
    else
        row(out, library->name, library->missing);
}

static void show(FILE *out, const struct machine *machine) {
    const struct orr_cuda_machine *cuda = &machine->cuda;
    char text[64];
    fprintf(out, "%-14s %s, built by %s\n", "Orrery", ORR_CLI_VERSION, COMPILER);
    row(out, "sim", "any number of simulated devices: orrery devices lists the machines");
    fprintf(out, "%-14s threads of %ld processors\n", "cpu", machine->processors);
    row(out, "CUDA plugin", machine->plugin[0] ? machine->plugin : "none");
    if (cuda->architectures[0])
        fprintf(out, "%-14s for compute capabilities %s\n", "machine code", cuda->architectures);
    if (machine->plugin[0])
        row(out, "NVIDIA driver",
            cuda->driver_version > 0 ? version(cuda->driver_version, text, sizeof text)
                                     : "none found");
    for (uint32_t i = 0; i < cuda->library_count; i++)
        show_library(out, &cuda->libraries[i]);
    for (uint32_t i = 0; i < cuda->gpu_count; i++)
        show_gpu(out, i, &cuda->gpus[i]);
    if (machine->usable)
        fprintf(out, "%-14s usable: --devices cuda:0%s\n", "cuda",
                cuda->gpu_count > 1 ? ", and so on" : "");
    else
        fprintf(out, "%-14s not usable: %s\n", "cuda", machine->error.text);
}

/* --- as JSON --- */

/* A text, or null for "". */
static void json_text(struct orr__builder *json, const char *key, const char *text) {
    orr__build_format(json, "\"%s\": ", key);
    if (text[0])
        orr__build_json_string(json, text);
    else
        orr__build_text(json, "null");
}

static void json_library(struct orr__builder *json, const struct orr_cuda_library *library) {
    orr__build_text(json, "{");
    json_text(json, "name", library->name);
    orr__build_text(json, ", ");
    json_text(json, "path", library->path);
    orr__build_text(json, ", ");
    json_text(json, "version", library->version);
    orr__build_text(json, ", ");
    json_text(json, "missing", library->missing);
    orr__build_text(json, "}");
}

static void json_gpu(struct orr__builder *json, uint32_t index, const struct orr_cuda_gpu *gpu) {
    const char *machine = orr_cuda_gpu_machine(gpu->name);
    orr__build_format(json, "{\"index\": %u, ", (unsigned)index);
    json_text(json, "name", gpu->name);
    orr__build_text(json, ", ");
    json_text(json, "machine", machine ? machine : "");
    orr__build_format(json,
                      ", \"capability\": \"%d.%d\", \"sm_count\": %u, \"memory_bytes\": %llu, "
                      "\"bandwidth\": %llu, \"l2_bytes\": %llu}",
                      gpu->capability / 10, gpu->capability % 10, (unsigned)gpu->sm_count,
                      (unsigned long long)gpu->memory_bytes, (unsigned long long)gpu->bandwidth,
                      (unsigned long long)gpu->l2_bytes);
}

static void json_cuda(struct orr__builder *json, const struct machine *machine) {
    const struct orr_cuda_machine *cuda = &machine->cuda;
    char text[64];
    orr__build_format(json, "{\"usable\": %s, ", machine->usable ? "true" : "false");
    json_text(json, "why", machine->error.text);
    orr__build_text(json, ", ");
    json_text(json, "plugin", machine->plugin);
    orr__build_text(json, ", ");
    json_text(json, "architectures", cuda->architectures);
    orr__build_text(json, ", ");
    json_text(json, "driver", version(cuda->driver_version, text, sizeof text));
    orr__build_text(json, ", ");
    json_text(json, "runtime", version(cuda->runtime_version, text, sizeof text));
    orr__build_text(json, ", \"libraries\": [");
    for (uint32_t i = 0; i < cuda->library_count; i++) {
        orr__build_text(json, i > 0 ? ", " : "");
        json_library(json, &cuda->libraries[i]);
    }
    orr__build_text(json, "], \"gpus\": [");
    for (uint32_t i = 0; i < cuda->gpu_count; i++) {
        orr__build_text(json, i > 0 ? ", " : "");
        json_gpu(json, i, &cuda->gpus[i]);
    }
    orr__build_text(json, "]}");
}

static enum orr_exit show_json(const struct orr_cli *cli, const struct machine *machine) {
    struct orr__builder json = {.memory = cli->memory};
    orr__build_text(&json, "{");
    json_text(&json, "version", ORR_CLI_VERSION);
    orr__build_text(&json, ", ");
    json_text(&json, "compiler", COMPILER);
    orr__build_format(&json, ", \"processors\": %ld, \"cuda\": ", machine->processors);
    json_cuda(&json, machine);
    orr__build_text(&json, "}\n");
    if (!json.failed)
        fwrite(json.data, 1, json.length, cli->out);
    else
        fprintf(cli->err, "orrery: out of host memory\n");
    enum orr_exit exit = json.failed ? ORR_EXIT_FAILED : ORR_EXIT_OK;
    orr__builder_clear(&json);
    return exit;
}

enum orr_exit orr_cli_doctor(const struct orr_cli *cli, int argc, char **argv) {
    int as_json = 0, help;
    const char *cudart = NULL;
    const struct orr_cli_option options[] = {
        {"--json", NULL, &as_json}, {"--cudart", &cudart, NULL}, {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count > 0 && cudart)
        return orr_cli_usage(cli, argv[0], "--cudart is about the machine, not about a trace");
    if (words.count > 0)
        return orr_cli_doctor_trace(cli, words.items, words.count, as_json);
    if (cudart && !cudart[0])
        return orr_cli_usage(cli, argv[0], "--cudart '': expected the path of a library");
    struct machine machine = {0};
    look(cudart, &machine);
    if (as_json)
        return show_json(cli, &machine);
    show(cli->out, &machine);
    return ORR_EXIT_OK;
}
