#include "cli/spec.h"

#include <string.h>

#include "cli/cuda_gpu.h"
#include "cli/cuda_plugin.h"
#include "runtime/cpu/cpu.h"
#include "scenarios/machine.h"
#include "sim/sim.h"

enum { PART_MAX = 4096 };

static enum orr_exit wrong(struct orr_error *error, const char *part, const char *what) {
    (void)orr_error_set(error, ORR_INVALID,
                        "--devices '%s': %s; expected sim:MACHINE[*N], cpu[*N] or "
                        "cuda:GPUS[*N], joined by +",
                        part, what);
    return ORR_EXIT_USAGE;
}

/* Takes "*N" off the end of a part; N stays 1 if there is none. */
static bool take_count(char *part, uint64_t *out_count) {
    *out_count = 1;
    char *star = strrchr(part, '*');
    if (!star)
        return true;
    size_t digits = strspn(star + 1, "0123456789");
    if (digits == 0 || digits > 7 || star[1 + digits] != '\0')
        return false;
    uint64_t count = 0;
    for (const char *digit = star + 1; *digit; digit++)
        count = count * 10 + (uint64_t)(*digit - '0');
    *star = '\0';
    *out_count = count;
    return count > 0;
}

static enum orr_exit set_backend(struct orr_spec *spec, orr_backend_open open, bool is_virtual,
                                 const char *part, struct orr_error *error) {
    if (spec->open && spec->open != open)
        return wrong(error, part, "one run has one backend");
    spec->open = open;
    spec->virtual_clock = is_virtual;
    return ORR_EXIT_OK;
}

/* Room for so many devices more, and for the GPUs that host them. */
static enum orr_exit make_room(struct orr_spec *spec, uint64_t added, bool gpus, const char *part,
                               const struct orr_memory *memory, struct orr_error *error) {
    if (spec->device_count + added > ORR_SPEC_DEVICES_MAX)
        return wrong(error, part, "more than 131072 devices");
    enum orr_status status =
        orr_memory_grow(memory, &spec->devices, &spec->device_capacity, spec->device_count + added,
                        sizeof *spec->devices, ORR_SPEC_DEVICES_MAX);
    if (status == ORR_OK && gpus)
        status =
            orr_memory_grow(memory, &spec->gpus, &spec->gpu_capacity, spec->device_count + added,
                            sizeof *spec->gpus, ORR_SPEC_DEVICES_MAX);
    if (status != ORR_OK)
        return orr_cli_exit(orr_error_set(error, status, "out of host memory for %llu devices",
                                          (unsigned long long)added));
    return ORR_EXIT_OK;
}

static enum orr_exit add_devices(struct orr_spec *spec, const struct orr_machine *machine,
                                 uint64_t count, const char *part, const struct orr_memory *memory,
                                 struct orr_error *error) {
    uint64_t added = count * machine->devices;
    enum orr_exit exit = make_room(spec, added, false, part, memory, error);
    if (exit != ORR_EXIT_OK)
        return exit;
    if (spec->device_count == 0)
        memcpy(spec->name, machine->spec.name, sizeof spec->name);
    for (uint64_t i = 0; i < added; i++)
        spec->devices[spec->device_count++] = machine->spec;
    return ORR_EXIT_OK;
}

static enum orr_exit add_machine(struct orr_spec *spec, const char *name, uint64_t count,
                                 const char *part, const struct orr_memory *memory,
                                 struct orr_error *error) {
    struct orr_machine *machine;
    enum orr_status status = orr_machine_load(name, memory, &machine, error);
    if (status == ORR_IO) { /* a machine file that can't be read is bad input, not a failed run */
        error->status = ORR_INVALID;
        status = ORR_INVALID;
    }
    if (status != ORR_OK)
        return orr_cli_exit(status);
    enum orr_exit exit = add_devices(spec, machine, count, part, memory, error);
    orr_machine_destroy(&machine);
    return exit;
}

/* --- GPUs --- */

/* A GPU's number at *at, which moves behind it. */
static bool take_gpu(const char **at, uint32_t *out_gpu) {
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 4)
        return false;
    *out_gpu = 0;
    for (; digits > 0; digits--, (*at)++)
        *out_gpu = *out_gpu * 10 + (uint32_t)(**at - '0');
    return *out_gpu < ORR_CUDA_GPUS_MAX;
}

/* The GPUs of "0-3", each `count` times. */
static enum orr_exit add_range(struct orr_spec *spec, const char **at, uint64_t count,
                               const char *part, const struct orr_memory *memory,
                               struct orr_error *error) {
    uint32_t first, last;
    bool good = take_gpu(at, &first);
    last = first;
    if (good && **at == '-') {
        (*at)++;
        good = take_gpu(at, &last) && last >= first;
    }
    if (!good)
        return wrong(error, part, "GPUs are numbers from 0 to 63, as in 0, 0-3 or 0,2");
    enum orr_exit exit = make_room(spec, (last - first + 1) * count, true, part, memory, error);
    if (exit != ORR_EXIT_OK)
        return exit;
    for (uint32_t gpu = first; gpu <= last; gpu++)
        for (uint64_t i = 0; i < count; i++)
            spec->gpus[spec->device_count++] = gpu;
    return ORR_EXIT_OK;
}

/* Opens the plugin with the first part, for its `open`. */
static enum orr_exit open_plugin(struct orr_spec *spec, const char *part,
                                 const struct orr_cuda_plugin **out_plugin,
                                 struct orr_error *error) {
    char path[ORR_CUDA_PLUGIN_PATH_MAX];
    enum orr_status status = orr_cuda_plugin_open(out_plugin, path, sizeof path, error);
    if (status != ORR_OK) {
        orr_error_prefix(error, "--devices '%s'", part);
        return orr_cli_exit(status);
    }
    return set_backend(spec, (*out_plugin)->open, false, part, error);
}

static enum orr_exit add_gpus(struct orr_spec *spec, const char *list, uint64_t count,
                              const char *part, const struct orr_memory *memory,
                              struct orr_error *error) {
    const struct orr_cuda_plugin *plugin;
    if (spec->open && !spec->options)
        return wrong(error, part, "one run has one backend");
    enum orr_exit exit = ORR_EXIT_OK;
    for (const char *at = list; exit == ORR_EXIT_OK; at++) {
        exit = add_range(spec, &at, count, part, memory, error);
        if (exit == ORR_EXIT_OK && *at == '\0')
            break;
        if (exit == ORR_EXIT_OK && *at != ',')
            exit = wrong(error, part, "GPUs are numbers from 0 to 63, as in 0, 0-3 or 0,2");
    }
    if (exit == ORR_EXIT_OK)
        exit = open_plugin(spec, part, &plugin, error);
    spec->options = &spec->cuda;
    return exit;
}

/* How many devices a GPU hosts. */
static uint32_t sharers_of(const struct orr_spec *spec, uint32_t gpu) {
    uint32_t count = 0;
    for (size_t i = 0; i < spec->device_count; i++)
        count += spec->gpus[i] == gpu;
    return count;
}

static enum orr_exit describe_gpus(struct orr_spec *spec, const char *text,
                                   const struct orr_cuda_machine *machine,
                                   const struct orr_memory *memory, struct orr_error *error) {
    struct orr_device_spec specs[ORR_CUDA_GPUS_MAX];
    for (uint32_t gpu = 0; gpu < machine->gpu_count; gpu++) {
        uint32_t sharers = sharers_of(spec, gpu);
        enum orr_status status = orr_cuda_gpu_spec(&machine->gpus[gpu], gpu, sharers ? sharers : 1,
                                                   memory, &specs[gpu], error);
        if (status != ORR_OK)
            return orr_cli_exit(status);
        if (specs[gpu].memory_bytes == 0)
            return orr_cli_exit(orr_error_set(error, ORR_UNAVAILABLE,
                                              "--devices '%s': %u devices share the memory of GPU "
                                              "%u, which is too small for so many",
                                              text, (unsigned)sharers, (unsigned)gpu));
    }
    for (size_t i = 0; i < spec->device_count; i++) {
        if (spec->gpus[i] >= machine->gpu_count)
            return orr_cli_exit(orr_error_set(
                error, ORR_UNAVAILABLE, "--devices '%s': no GPU %u: %u %s visible, from 0 on", text,
                (unsigned)spec->gpus[i], (unsigned)machine->gpu_count,
                machine->gpu_count == 1 ? "is" : "are"));
        spec->devices[i] = specs[spec->gpus[i]];
    }
    memcpy(spec->name, spec->devices[0].name, sizeof spec->name);
    return ORR_EXIT_OK;
}

/* Once all parts are known: what the GPUs are, and what each device gets of its one. */
static enum orr_exit probe_gpus(struct orr_spec *spec, const char *text,
                                const struct orr_memory *memory, struct orr_error *error) {
    const struct orr_cuda_plugin *plugin;
    struct orr_cuda_machine machine;
    char path[ORR_CUDA_PLUGIN_PATH_MAX];
    spec->cuda.gpus = spec->gpus;
    enum orr_status status = orr_cuda_plugin_open(&plugin, path, sizeof path, error);
    if (status == ORR_OK)
        status = plugin->probe(&spec->cuda, false, &machine, error);
    if (status == ORR_OK)
        return describe_gpus(spec, text, &machine, memory, error);
    orr_error_prefix(error, "--devices '%s'", text);
    return orr_cli_exit(status);
}

static enum orr_exit add_part(struct orr_spec *spec, const char *whole,
                              const struct orr_memory *memory, struct orr_error *error) {
    char part[PART_MAX];
    memcpy(part, whole, strlen(whole) + 1);
    uint64_t count;
    if (!take_count(part, &count))
        return wrong(error, whole, "the number behind * must be a positive count");
    if (strncmp(part, "cuda:", 5) == 0)
        return add_gpus(spec, part + 5, count, whole, memory, error);
    bool simulated = strncmp(part, "sim:", 4) == 0 && part[4] != '\0';
    if (!simulated && strcmp(part, "cpu") != 0)
        return wrong(error, whole, "no such target");
    enum orr_exit exit =
        set_backend(spec, simulated ? orr_sim_open : orr_cpu_open, simulated, whole, error);
    if (exit != ORR_EXIT_OK)
        return exit;
    return add_machine(spec, simulated ? part + 4 : "cpu", count, whole, memory, error);
}

enum orr_exit orr_spec_parse(const char *text, const struct orr_cuda_options *cuda,
                             const struct orr_memory *memory, struct orr_spec *out_spec,
                             struct orr_error *error) {
    *out_spec = (struct orr_spec){0};
    if (cuda)
        out_spec->cuda = *cuda;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, "+");
        char part[PART_MAX];
        if (length >= sizeof part)
            return wrong(error, "...", "too long");
        memcpy(part, at, length);
        part[length] = '\0';
        enum orr_exit exit = add_part(out_spec, part, memory, error);
        if (exit != ORR_EXIT_OK)
            return exit;
        at += length;
        if (*at == '\0')
            return out_spec->options ? probe_gpus(out_spec, text, memory, error) : ORR_EXIT_OK;
    }
}

enum orr_exit orr_spec_profile(struct orr_spec *spec, struct orr_error *error) {
    if (spec->virtual_clock) {
        (void)orr_error_set(error, ORR_INVALID,
                            "--serial-profile measures commands, and simulated devices have "
                            "nothing to measure; expected --devices cuda:GPUS[*N] or cpu[*N]");
        return ORR_EXIT_USAGE;
    }
    spec->profiled = (struct orr_profiled_options){.open = spec->open, .options = spec->options};
    spec->open = orr_profiled_open;
    spec->options = &spec->profiled;
    spec->virtual_clock = true;
    return ORR_EXIT_OK;
}

void orr_spec_clear(struct orr_spec *spec, const struct orr_memory *memory) {
    orr_memory_free(memory, spec->devices);
    orr_memory_free(memory, spec->gpus);
    *spec = (struct orr_spec){0};
}
