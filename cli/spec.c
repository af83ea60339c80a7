#include "cli/spec.h"

#include <string.h>

#include "runtime/cpu/cpu.h"
#include "scenarios/machine.h"
#include "sim/sim.h"

enum { PART_MAX = 4096 };

static enum orr_exit wrong(struct orr_error *error, const char *part, const char *what) {
    (void)orr_error_set(error, ORR_INVALID,
                        "--devices '%s': %s; expected sim:MACHINE[*N] or cpu[*N], joined by +",
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

static enum orr_exit add_devices(struct orr_spec *spec, const struct orr_machine *machine,
                                 uint64_t count, const char *part, const struct orr_memory *memory,
                                 struct orr_error *error) {
    uint64_t added = count * machine->devices;
    if (spec->device_count + added > ORR_SPEC_DEVICES_MAX)
        return wrong(error, part, "more than 131072 devices");
    enum orr_status status =
        orr_memory_grow(memory, &spec->devices, &spec->device_capacity, spec->device_count + added,
                        sizeof *spec->devices, ORR_SPEC_DEVICES_MAX);
    if (status != ORR_OK)
        return orr_cli_exit(orr_error_set(error, status, "out of host memory for %llu devices",
                                          (unsigned long long)added));
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

static enum orr_exit add_part(struct orr_spec *spec, const char *whole,
                              const struct orr_memory *memory, struct orr_error *error) {
    char part[PART_MAX];
    memcpy(part, whole, strlen(whole) + 1);
    uint64_t count;
    if (strncmp(part, "cuda", 4) == 0) {
        (void)orr_error_set(error, ORR_UNAVAILABLE,
                            "--devices '%s': this build has no CUDA backend", whole);
        return ORR_EXIT_UNAVAILABLE;
    }
    if (!take_count(part, &count))
        return wrong(error, whole, "the number behind * must be a positive count");
    bool simulated = strncmp(part, "sim:", 4) == 0 && part[4] != '\0';
    if (!simulated && strcmp(part, "cpu") != 0)
        return wrong(error, whole, "no such target");
    enum orr_exit exit =
        set_backend(spec, simulated ? orr_sim_open : orr_cpu_open, simulated, whole, error);
    if (exit != ORR_EXIT_OK)
        return exit;
    return add_machine(spec, simulated ? part + 4 : "cpu", count, whole, memory, error);
}

enum orr_exit orr_spec_parse(const char *text, const struct orr_memory *memory,
                             struct orr_spec *out_spec, struct orr_error *error) {
    *out_spec = (struct orr_spec){0};
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
            return ORR_EXIT_OK;
    }
}

void orr_spec_clear(struct orr_spec *spec, const struct orr_memory *memory) {
    orr_memory_free(memory, spec->devices);
    *spec = (struct orr_spec){0};
}
