#include "cli/check.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/subject.h"

static const char usage[] =
    "usage: orrery check PROGRAM.jsonl [--all] [--redundant] [--repair FILE] [--states N]\n"
    "       orrery check TRACE [--joint-collectives]\n"
    "       orrery check SCENARIO.lua [key=value ...] [--joint-collectives] [options of run]\n"
    "  all: [--json] [--sarif FILE] [--junit FILE]\n"
    "\n"
    "Looks for data races and use of memory outside its life; in stream programs also for hangs\n"
    "and broken rules of stream capture. The answer follows from the calls, not from timing.\n"
    "\n"
    "A PROGRAM has a JSON object a line (docs/stream_programs.md); - is standard input. A TRACE\n"
    "is one of orrery run. A SCENARIO runs, watched, and leaves a trace only if -o says where.\n"
    "\n"
    "  --json      stream programs: an object per program; else: one document\n"
    "  --all       stream programs: every data race and misuse of memory, not the first alone\n"
    "  --redundant  of safe ones: waits, syncs and records that order nothing, or nothing that a\n"
    "              finding needs\n"
    "  --repair FILE  writes the programs with races and misused memory fixed, each checked\n"
    "  --states N  gives up a question about hangs beyond N states: verdict unknown (4000000)\n"
    "  --joint-collectives  the members of a collective wait for each other; without it only\n"
    "                       those of a barrier do\n"
    "  --program FILE       of a scenario: leaves its calls as a stream program, for explore\n"
    "  --sarif FILE, --junit FILE  the same as SARIF 2.1.0, as JUnit XML\n"
    "\n"
    "Exit codes: 3 if the input was malformed or a trace has no accesses, 4 if a run failed, else\n"
    "1 if something was found or a program is unsafe, else 4 if a verdict is unknown, else 0.\n";

enum input { INPUT_PROGRAMS, INPUT_TRACE, INPUT_SCENARIO };

/* By what is in it, and a scenario by its name: Lua has no mark. What was read of a pipe can't be
 * read again, so no pipe is looked into. */
static enum orr_exit find_input(const struct orr_cli *cli, const char *path,
                                enum input *out_input) {
    *out_input = INPUT_PROGRAMS;
    struct stat about;
    bool is_there = stat(path, &about) == 0;
    if (strcmp(path, "-") == 0 || (is_there && S_ISFIFO(about.st_mode)))
        return ORR_EXIT_OK;
    if (is_there && S_ISDIR(about.st_mode)) {
        fprintf(cli->err, "orrery: %s: a folder; `orrery test` checks the scenarios in it\n", path);
        return ORR_EXIT_INPUT;
    }
    char start[64];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(cli->err,
                "orrery: %s: %s; a scenario, a trace or a file of stream programs was expected\n",
                path, strerror(errno));
        return ORR_EXIT_INPUT;
    }
    const char *other = orr_cli_other_file(start, fread(start, 1, sizeof start, file));
    if (orr_cli_ends_in(path, ".lua"))
        *out_input = INPUT_SCENARIO;
    else if (other && strcmp(other, "a trace") == 0)
        *out_input = INPUT_TRACE;
    fclose(file);
    return ORR_EXIT_OK;
}

/* A number of states, from 1; false if the text is none. */
static bool read_states(const char *text, uint64_t *out_states) {
    uint64_t value = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9' || value > (UINT64_MAX - 9) / 10)
            return false;
        value = 10 * value + (uint64_t)(*at - '0');
    }
    *out_states = value;
    return value > 0;
}

static enum orr_exit check_input(const struct orr_cli *cli,
                                 const struct orr_check_request *request) {
    enum input input;
    enum orr_exit exit = find_input(cli, request->path, &input);
    if (exit != ORR_EXIT_OK)
        return exit;
    if (input == INPUT_PROGRAMS)
        return orr_cli_check_programs(cli, request);
    if (input == INPUT_TRACE && (request->all || request->redundant || request->repair))
        return orr_cli_usage(cli, "check", "%s is for stream programs; %s is a trace",
                             request->all         ? "--all"
                             : request->redundant ? "--redundant"
                                                  : "--repair",
                             request->path);
    if (input == INPUT_TRACE)
        return orr_cli_check_trace(cli, request);
    fprintf(cli->err, "orrery: %s: a scenario; a file of stream programs or a trace was expected\n",
            request->path);
    return ORR_EXIT_INPUT;
}

/* Options of one kind of input with another one: said, not passed over. */
static enum orr_exit refuse(const struct orr_cli *cli, int argc, char **argv,
                            const char *const *names, const char *whose) {
    const char *name = orr_cli_option_among(argc, argv, names);
    return name ? orr_cli_usage(cli, argv[0], "%s is for %s", name, whose) : ORR_EXIT_OK;
}

static const char *const of_programs[] = {"--all", "--redundant", "--repair", "--states", NULL};
static const char *const of_runs[] = {"--devices",  "-o",          "--seed",    "--timing-only",
                                      "--trace",    "--runner",    "--perturb", "--allocator",
                                      "--pageable", "--drop-wait", "--program", NULL};

enum orr_exit orr_cli_check(const struct orr_cli *cli, int argc, char **argv) {
    const char *states = NULL, *repair = NULL, *sarif = NULL, *junit = NULL;
    int help, as_json = 0, joint = 0, all = 0, redundant = 0;
    bool is_scenario = orr_cli_names_scenario(argc, argv);
    enum orr_exit exit = is_scenario
                             ? refuse(cli, argc, argv, of_programs, "stream programs")
                             : refuse(cli, argc, argv, of_runs, "scenarios, files NAME.lua");
    if (exit != ORR_EXIT_OK)
        return exit;
    if (is_scenario)
        return orr_cli_check_scenario(cli, argc, argv, usage);
    const struct orr_cli_option options[] = {{"--json", NULL, &as_json},
                                             {"--all", NULL, &all},
                                             {"--redundant", NULL, &redundant},
                                             {"--repair", &repair, NULL},
                                             {"--states", &states, NULL},
                                             {"--joint-collectives", NULL, &joint},
                                             {"--sarif", &sarif, NULL},
                                             {"--junit", &junit, NULL},
                                             {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count == 2 && strchr(words.items[1], '='))
        return orr_cli_usage(cli, argv[0], "'%s': arguments are for scenarios", words.items[1]);
    if (words.count != 1)
        return orr_cli_usage(cli, argv[0],
                             "expected one scenario, trace or file of stream programs");
    struct orr_check_request request = {
        .path = words.items[0], .as_json = as_json, .monitor = {.joint_collectives = joint}};
    if (states && !read_states(states, &request.states_max))
        return orr_cli_usage(cli, argv[0], "--states %s: a whole number from 1 was expected",
                             states);
    struct orr_check_report report;
    exit = orr_check_report_open(cli, sarif, junit, &report);
    if (exit != ORR_EXIT_OK)
        return exit;
    request.all = all;
    request.redundant = redundant;
    request.repair = repair;
    request.report = &report;
    return orr_check_report_close(&report, check_input(cli, &request));
}
