#include "cli/explore.h"

#include <string.h>
#include <unistd.h>

#include "cli/scenario_verbs.h"
#include "cli/subject.h"
#include "hazards/explore/pool.h"
#include "hazards/explore/strategy.h"

static const char usage[] =
    "usage: orrery explore PROGRAM.jsonl [--id ID] [--strategy dpor|pct|random] [--budget RUNS]\n"
    "                      [--depth D] [--seed N] [--threads N] [--out FILE] [--json]\n"
    "       orrery explore SCENARIO.lua [key=value ...] [--devices SPEC] [the same, without --id]\n"
    "\n"
    "Runs stream programs (docs/stream_programs.md), or a scenario, under many schedules and says\n"
    "what goes wrong in which. - is standard input. A scenario's Lua program runs anew for each\n"
    "schedule, so that it may go on by what it reads; its default schedule takes commands in the\n"
    "order in which they were enqueued, as if each was waited for.\n"
    "\n"
    "  --id ID      only the program of this name\n"
    "  --strategy   dpor (the default): every distinct order of conflicting operations, each\n"
    "               once; pct: random priorities with D - 1 changes, which finds a bug that needs\n"
    "               D constraints with a probability of 1/(n k^(D-1)) a run, for n streams and\n"
    "               hosts and k steps; random: whoever can go, evenly\n"
    "  --budget RUNS  at most so many runs a program (1000000); JSON says \"capped\": true then\n"
    "  --depth D    of pct, 1 to 64 (3)\n"
    "  --seed N     of pct and random (1)\n"
    "  --threads N  1 to 64; as many as there are processors if not given; changes no result,\n"
    "               and nothing at all for hangs, which one thread explores\n"
    "  --out FILE   saves the first finding's schedule, for orrery replay\n"
    "  --json       an object per program\n"
    "\n"
    "Exit codes: 3 if a line was malformed, else 1 if something was found, else 4 if a program\n"
    "was too large to explore, else 0.\n";

struct texts {
    const char *id, *strategy, *budget, *depth, *seed, *threads, *output;
    int as_json;
};

/* A whole number from `least` to `most`. */
static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
    uint64_t value = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9' || value > (UINT64_MAX - 9) / 10)
            return false;
        value = 10 * value + (uint64_t)(*at - '0');
    }
    *out = value;
    return *text && value >= least && value <= most;
}

static enum orr_exit take_number(const struct orr_cli *cli, const char *option, const char *text,
                                 uint64_t least, uint64_t most, uint64_t *value) {
    if (!text || read_number(text, least, most, value))
        return ORR_EXIT_OK;
    return orr_cli_usage(cli, "explore", "%s %s: a whole number from %llu%s was expected", option,
                         text, (unsigned long long)least, most == 64 ? " to 64" : "");
}

static enum orr_exit take_strategy(const struct orr_cli *cli, const char *text,
                                   enum orr_explore_strategy *strategy) {
    static const enum orr_explore_strategy all[] = {ORR_EXPLORE_DPOR, ORR_EXPLORE_PCT,
                                                    ORR_EXPLORE_RANDOM};
    const char *names[3];
    for (int i = 0; i < 3; i++) {
        names[i] = orr_explore_strategy_text(all[i]);
        if (text && strcmp(text, names[i]) == 0)
            *strategy = all[i];
    }
    if (!text || strcmp(text, orr_explore_strategy_text(*strategy)) == 0)
        return ORR_EXIT_OK;
    const char *nearest = orr_nearest_name(text, names, 3);
    return orr_cli_usage(cli, "explore", "--strategy %s: dpor, pct or random was expected%s%s%s",
                         text, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                         nearest ? "'?" : "");
}

static void print_progress(void *context, uint64_t runs) {
    const struct orr_cli *cli = context;
    fprintf(cli->err, "\r%llu runs", (unsigned long long)runs);
    fflush(cli->err);
}

static enum orr_exit take_options(const struct orr_cli *cli, const struct texts *texts,
                                  struct orr_explore_options *options) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t depth = options->depth;
    uint64_t threads = processors < 1                      ? 1
                       : processors > ORR_POOL_THREADS_MAX ? ORR_POOL_THREADS_MAX
                                                           : (uint64_t)processors;
    enum orr_exit exit = take_strategy(cli, texts->strategy, &options->strategy);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--budget", texts->budget, 1, UINT64_MAX, &options->budget);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--seed", texts->seed, 0, UINT64_MAX, &options->seed);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--depth", texts->depth, 1, ORR_STRATEGY_DEPTH_MAX, &depth);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--threads", texts->threads, 1, ORR_POOL_THREADS_MAX, &threads);
    options->depth = (uint32_t)depth;
    options->threads = (uint32_t)threads;
    return exit;
}

enum orr_exit orr_cli_explore(const struct orr_cli *cli, int argc, char **argv) {
    struct texts texts = {0};
    int help;
    if (orr_cli_names_scenario(argc, argv)) /* with key=value, and a machine */
        return orr_cli_explore_scenario(cli, argc, argv, usage);
    const struct orr_cli_option options[] = {{"--id", &texts.id, NULL},
                                             {"--strategy", &texts.strategy, NULL},
                                             {"--budget", &texts.budget, NULL},
                                             {"--depth", &texts.depth, NULL},
                                             {"--seed", &texts.seed, NULL},
                                             {"--threads", &texts.threads, NULL},
                                             {"--out", &texts.output, NULL},
                                             {"--json", NULL, &texts.as_json},
                                             {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count != 1)
        return orr_cli_usage(cli, argv[0], "expected one file of stream programs");
    struct orr_explore_request request = {.path = words.items[0],
                                          .id = texts.id,
                                          .output = texts.output,
                                          .as_json = texts.as_json,
                                          .options = orr_explore_defaults()};
    exit = take_options(cli, &texts, &request.options);
    if (exit != ORR_EXIT_OK)
        return exit;
    bool is_terminal = isatty(fileno(cli->err));
    if (is_terminal) {
        request.options.progress = print_progress;
        request.options.progress_context = (void *)(uintptr_t)cli;
    }
    exit = orr_cli_explore_programs(cli, &request);
    if (is_terminal)
        fprintf(cli->err, "\r\033[K");
    return exit;
}
