/* orrery-device-check: runs the steps of check.h on GPU 0 of this machine.
 *
 *     orrery-device-check [-o RESULTS] [--machine FILE.lua] [--quick] [--only N[,N...]] [--seed N]
 *                         [--programs N] [--cudart PATH]
 *
 * Exit status: 0 all passed, 1 something failed, 2 wrong usage, 77 there is no GPU. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/library.h"
#include "runtime/cuda/probe.h"
#include "tests/device/check.h"

enum { EXIT_SKIPPED = 77 };

static const struct step {
    const char *name;
    void (*run)(struct check *check);
} steps[] = {{"probe", check_probe},       {"images", check_images},   {"numbers", check_numbers},
             {"order", check_order},       {"overlap", check_overlap}, {"clocks", check_clocks},
             {"launches", check_launches}, {"points", check_points},   {"limits", check_limits},
             {"model", check_model}};
enum { STEPS = sizeof steps / sizeof *steps };

struct options {
    const char *results, *machine, *only, *cudart;
    bool quick;
    int programs;
    uint64_t seed;
};

static int usage(void) {
    fputs("usage: orrery-device-check [-o RESULTS] [--machine FILE.lua] [--quick] [--only N,...]\n"
          "                           [--seed N] [--programs N] [--cudart PATH]\n",
          stderr);
    return 2;
}

static bool take(int argc, char **argv, int *at, const char *name, const char **out_value) {
    if (strcmp(argv[*at], name) != 0 || *at + 1 >= argc)
        return false;
    *out_value = argv[++*at];
    return true;
}

static bool parse(int argc, char **argv, struct options *out) {
    const char *seed = NULL, *programs = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            out->quick = true;
        else if (!take(argc, argv, &i, "-o", &out->results) &&
                 !take(argc, argv, &i, "--machine", &out->machine) &&
                 !take(argc, argv, &i, "--only", &out->only) &&
                 !take(argc, argv, &i, "--cudart", &out->cudart) &&
                 !take(argc, argv, &i, "--programs", &programs) &&
                 !take(argc, argv, &i, "--seed", &seed))
            return false;
    }
    out->programs = programs ? atoi(programs) : 0;
    if (seed)
        out->seed = strtoull(seed, NULL, 10);
    return true;
}

static bool is_wanted(const struct options *options, int step) {
    for (const char *at = options->only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (atoi(at) == step)
            return true;
    return !options->only;
}

static int run_steps(struct check *check, const struct options *options) {
    for (int i = 0; i < STEPS; i++) {
        check->step = i;
        if (is_wanted(options, i))
            steps[i].run(check);
    }
    printf("%d passed, %d failed, %d skipped\n", check->passed, check->failed, check->skipped);
    return check->failed > 0;
}

int main(int argc, char **argv) {
    struct options options = {.seed = 1};
    static struct check_points points;
    struct check check = {.memory = orr_memory_system(), .points = &points};
    struct orr_error error;
    uint32_t gpus = 0;
    if (!parse(argc, argv, &options))
        return usage();
    orr__cuda_set_environment();
    if (orr__cuda_library_open(options.cudart, &check.memory, &check.api, &error) != ORR_OK ||
        orr__cuda_probe_gpus(check.api, &gpus, &error) != ORR_OK) {
        printf("skipped: %s\n", error.text);
        orr__cuda_library_close(&check.api);
        return EXIT_SKIPPED;
    }
    check.results = options.results ? fopen(options.results, "w") : NULL;
    check.machine_path = options.machine;
    check.quick = options.quick;
    check.programs = options.programs;
    check.seed = options.seed;
    if (options.results && !check.results) {
        fprintf(stderr, "orrery-device-check: can't write '%s'\n", options.results);
        return 2;
    }
    int failed = run_steps(&check, &options);
    if (check.results)
        fclose(check.results);
    orr__cuda_library_close(&check.api);
    return failed;
}
