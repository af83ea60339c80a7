#include "cli/whatif.h"

#include <stdlib.h>
#include <string.h>

#include "cli/subject.h"
#include "cli/rank_set.h"
#include "cli/traces.h"

static const char usage[] =
    "usage: orrery whatif TRACE... --set KEY=VALUE ... [--json]\n"
    "       orrery whatif SCENARIO.lua --set KEY=VALUE ... [--json] [--rerun 'key=value ...']\n"
    "                     [--no-rerun] [key=value ...] [options of orrery run]\n"
    "\n"
    "Predicts what a trace would have been, had something cost less: its own graph of calls, ops\n"
    "and waits is replayed with other times. A scenario is run, predicted from its trace, and run\n"
    "again with the change made for real: the error of the prediction is printed.\n"
    "\n"
    "  --set launch_cost=0|xF|NS   what a call takes that enqueues work (xF: F times the cost)\n"
    "  --set host=xF               all that hosts do but waiting, F times as fast\n"
    "  --set kernel:NAME=xF        ops of that name, F times as fast; * and ? match any\n"
    "  --set class:CLASS=xF        compute, comm or copy\n"
    "  --set bandwidth=xF          ops that memory bounds\n"
    "  --set network=xF            transfers of collectives\n"
    "  --set overlap=perfect       communication delays nothing\n"
    "  --set straggler=none        the slowest device takes as long as the others\n"
    "  --set graph=on              launches that can be captured are one launch\n"
    "  --set fuse=A+B | fuse=elementwise   ops that follow each other are one\n"
    "  --json       one JSON document on stdout, nothing else\n"
    "  --rerun      arguments that make the scenario what was predicted (captured=true)\n"
    "  --no-rerun   only predicts\n"
    "\n"
    "The rules, and what each assumes: docs/whatif.md. Exit code 1: the trace can't answer.\n";

/* An option with a value, as in "--name value" or "--name=value"; NULL if it is another word. */
static const char *take_value(int argc, char **argv, int *at, const char *name) {
    size_t length = strlen(name);
    if (strncmp(argv[*at], name, length) != 0)
        return NULL;
    if (argv[*at][length] == '=')
        return argv[*at] + length + 1;
    return argv[*at][length] == '\0' && *at + 1 < argc ? argv[++*at] : NULL;
}

static enum orr_exit add_setting(const struct orr_cli *cli, const char *verb, const char *text,
                                 struct orr_whatif_request *request) {
    struct orr_error error = {0};
    if (request->setting_count == ORR_WHATIF_SETTINGS_MAX)
        return orr_cli_usage(cli, verb, "more than %d settings", ORR_WHATIF_SETTINGS_MAX);
    if (orr_whatif_parse(text, &request->settings[request->setting_count++], &error) != ORR_OK)
        return orr_cli_usage(cli, verb, "%s", error.text);
    return ORR_EXIT_OK;
}

/* Takes the words of the request out of argv; the rest stays, *argc words. */
static enum orr_exit take_request(const struct orr_cli *cli, int *argc, char **argv,
                                  struct orr_whatif_request *request) {
    int kept = 0;
    *request = (struct orr_whatif_request){0};
    for (int i = 0; i < *argc; i++) {
        const char *set = take_value(*argc, argv, &i, "--set");
        const char *rerun = set ? NULL : take_value(*argc, argv, &i, "--rerun");
        enum orr_exit exit = set ? add_setting(cli, argv[0], set, request) : ORR_EXIT_OK;
        if (exit != ORR_EXIT_OK)
            return exit;
        if (rerun)
            request->rerun = rerun;
        else if (!set && strcmp(argv[i], "--set") == 0)
            return orr_cli_usage(cli, argv[0], "--set takes a value");
        else if (!set && strcmp(argv[i], "--json") == 0)
            request->as_json = true;
        else if (!set && strcmp(argv[i], "--no-rerun") == 0)
            request->no_rerun = true;
        else if (!set)
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return ORR_EXIT_OK;
}

enum orr_exit orr_whatif_print(const struct orr_cli *cli, const struct orr_whatif *whatif,
                               const struct orr_whatif_rerun *rerun, bool as_json) {
    char *text = NULL;
    size_t length = 0;
    enum orr_status status = as_json ? orr_whatif_json(whatif, rerun, &text, &length)
                                     : orr_whatif_text(whatif, rerun, &text, &length);
    if (status != ORR_OK) {
        fprintf(cli->err, "orrery: the answer could not be made: %s\n", orr_status_text(status));
        return orr_cli_exit(status);
    }
    fwrite(text, 1, length, cli->out);
    orr_memory_free(cli->memory, text);
    return whatif->answers ? ORR_EXIT_OK : ORR_EXIT_NO;
}

static enum orr_exit predict(const struct orr_cli *cli, const struct orr_timeline *timeline,
                             const char *path, const struct orr_whatif_request *request) {
    struct orr_error error = {0};
    struct orr_analysis *analysis = NULL;
    struct orr_whatif *whatif = NULL;
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_whatif_options machine = {0};
    options.file = path;
    enum orr_status status = orr_analyze(timeline, &options, cli->memory, &analysis, &error);
    if (status == ORR_OK)
        status = orr_whatif_compute(analysis, request->settings, request->setting_count, &machine,
                                    cli->memory, &whatif, &error);
    enum orr_exit exit = status == ORR_OK ? orr_whatif_print(cli, whatif, NULL, request->as_json)
                                          : orr_cli_fail(cli, &error);
    orr_whatif_destroy(&whatif);
    orr_analysis_destroy(&analysis);
    return exit;
}

/* Traces of several ranks are predicted as one, collectives joined and clocks corrected. */
static enum orr_exit of_traces(const struct orr_cli *cli, const struct orr_cli_positional *words,
                               const struct orr_whatif_request *request) {
    struct orr_error error = {0};
    struct orr_traces traces = {0};
    struct orr_timeline *joined = NULL;
    char name[ORR_CLI_SET_NAME_MAX];
    enum orr_status status =
        orr_cli_read_traces(cli, words->items, words->count, NULL, &traces, &error);
    if (status == ORR_OK && traces.count != 1)
        status = orr_cli_join_traces(cli, &traces, &joined, &error);
    enum orr_exit exit = status == ORR_OK
                             ? predict(cli, joined ? joined : traces.items[0].timeline,
                                       orr_cli_set_name(words->items, words->count, name), request)
                             : orr_cli_fail(cli, &error);
    orr_timeline_destroy(&joined);
    orr_traces_free(cli->memory, &traces);
    return exit;
}

enum orr_exit orr_cli_whatif(const struct orr_cli *cli, int argc, char **argv) {
    struct orr_whatif_request request;
    enum orr_exit exit = take_request(cli, &argc, argv, &request);
    if (exit != ORR_EXIT_OK)
        return exit;
    bool scenario = orr_cli_names_scenario(argc, argv);
    struct orr_cli_positional words;
    int help = 0;
    const struct orr_cli_option none[] = {{NULL, NULL, NULL}};
    if (!scenario) {
        exit = orr_cli_parse(cli, argc, argv, usage, none, &words, &help);
        if (exit != ORR_EXIT_OK || help)
            return exit;
        if (words.count == 0)
            return orr_cli_usage(cli, argv[0], "expected a trace or a scenario");
        if (request.rerun || request.no_rerun)
            return orr_cli_usage(cli, argv[0], "--rerun and --no-rerun are for scenarios");
    }
    if (request.setting_count == 0)
        return orr_cli_usage(cli, argv[0], "expected --set KEY=VALUE");
    return scenario ? orr_whatif_scenario(cli, argc, argv, usage, &request)
                    : of_traces(cli, &words, &request);
}
