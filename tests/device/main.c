/* orrery-device-check: runs the steps of check.h on GPU 0 of this machine.
 *
 *     orrery-device-check [-o RESULTS] [--machine FILE.lua] [--quick] [--only N[,N...]] [--seed N]
 *                         [--programs N] [--cudart PATH] [--help]
 *
 * Exit status: 0 all passed, 1 something failed, 2 wrong usage, 77 there is no GPU. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/library.h"
#include "runtime/cuda/probe.h"
#include "tests/device/check.h"

enum { EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

static const struct step {
    const char *name;
    void (*run)(struct check *check);
} steps[] = {{"probe", check_probe},       {"images", check_images},   {"numbers", check_numbers},
             {"order", check_order},       {"overlap", check_overlap}, {"clocks", check_clocks},
             {"launches", check_launches}, {"points", check_points},   {"limits", check_limits},
             {"model", check_model}};
enum { STEPS = sizeof steps / sizeof *steps };

struct options {
    const char *results, *machine, *cudart;
    bool quick, help;
    unsigned wanted; /* a bit for each step */
    int programs;
    uint64_t seed;
};

static const char usage[] =
    "usage: orrery-device-check [-o RESULTS] [--machine FILE.lua] [--quick] [--only N,...]\n"
    "                           [--seed N] [--programs N] [--cudart PATH] [--help]\n";

static bool refuse(const char *what, const char *word) {
    fprintf(stderr, "orrery-device-check: %s '%s'\n", what, word);
    return false;
}

static bool number(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && *end == '\0' && errno == 0 && *out <= most;
}

/* "0,3,7": sets bits. */
static bool parse_only(const char *text, unsigned *out_wanted) {
    *out_wanted = 0;
    do {
        char word[16];
        size_t length = strcspn(text, ",");
        uint64_t step;
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (length >= sizeof word || !number(word, STEPS - 1, &step))
            return refuse("--only wants steps from 0 to 9, but has", word);
        *out_wanted |= 1u << step;
        text += length;
    } while (*text++ == ',');
    return true;
}

/* `name` is one of those of has_value. */
static bool parse_value(const char *name, const char *value, struct options *out) {
    uint64_t count;
    if (strcmp(name, "--only") == 0)
        return parse_only(value, &out->wanted);
    if (strcmp(name, "--seed") == 0)
        return number(value, UINT64_MAX, &out->seed) || refuse("--seed wants a number, not", value);
    if (strcmp(name, "--programs") == 0) {
        if (!number(value, 1000000, &count) || count == 0)
            return refuse("--programs wants a number from 1 to 1000000, not", value);
        out->programs = (int)count;
    } else if (strcmp(name, "-o") == 0) {
        out->results = value;
    } else if (strcmp(name, "--machine") == 0) {
        out->machine = value;
    } else {
        out->cudart = value;
    }
    return true;
}

static bool has_value(const char *name) {
    static const char *const names[] = {"-o",     "--machine",  "--only",
                                        "--seed", "--programs", "--cudart"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool parse(int argc, char **argv, struct options *out) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            out->help = true;
            return true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            out->quick = true;
        } else if (!has_value(argv[i])) {
            return refuse("there is no option", argv[i]);
        } else if (i + 1 == argc || argv[i + 1][0] == '-') {
            return refuse("no value for", argv[i]);
        } else if (!parse_value(argv[i], argv[i + 1], out)) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

static int run_steps(struct check *check, const struct options *options) {
    for (int i = 0; i < STEPS; i++) {
        check->step = i;
        if (options->wanted >> i & 1)
            steps[i].run(check);
    }
    printf("%d passed, %d failed, %d skipped\n", check->passed, check->failed, check->skipped);
    return check->failed > 0;
}

/* What a run needs from the options; false if the results can't be written. */
static bool prepare(struct check *check, const struct options *options) {
    check->machine_path = options->machine;
    check->quick = options->quick;
    check->programs = options->programs;
    check->seed = options->seed;
    check->opened = true;
    check->results = options->results ? fopen(options->results, "w") : NULL;
    return !options->results || check->results || refuse("can't write", options->results);
}

int main(int argc, char **argv) {
    struct options options = {.seed = 1, .wanted = (1u << STEPS) - 1};
    static struct check_points points;
    struct check check = {.memory = orr_memory_system(), .points = &points};
    struct orr_error error;
    uint32_t gpus = 0;
    int status = EXIT_USAGE;
    if (!parse(argc, argv, &options) || options.help) {
        fputs(usage, options.help ? stdout : stderr);
        return options.help ? 0 : EXIT_USAGE;
    }
    orr__cuda_set_environment();
    if (orr__cuda_library_open(options.cudart, &check.memory, &check.api, &error) != ORR_OK ||
        orr__cuda_probe_gpus(check.api, &gpus, &error) != ORR_OK) {
        printf("skipped: %s\n", error.text);
        orr__cuda_library_close(&check.api);
        return EXIT_SKIPPED;
    }
    if (prepare(&check, &options))
        status = check_look(&check) ? run_steps(&check, &options) : 1;
    if (check.results)
        fclose(check.results);
    orr__cuda_library_close(&check.api);
    return status;
}
