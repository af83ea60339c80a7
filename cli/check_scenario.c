/* `orrery check SCENARIO`: a run with the check on, whose answer are the findings. It takes the
 * options of `orrery run` beside its own. */
#include <string.h>

#include "cli/check.h"
#include "cli/perturbed.h"
#include "cli/session.h"

/* Options of the check itself, taken out of the words before the run's are read. */
struct own {
    bool as_json, joint, has_output;
    const char *sarif, *junit, *program;
};

static bool is_output(const char *word) {
    return strcmp(word, "-o") == 0 || strncmp(word, "-o=", 3) == 0;
}

/* An option with a value, as in "--name value" or "--name=value". */
static bool take_value(int argc, char **argv, int *at, const char *name, const char **out_value) {
    size_t length = strlen(name);
    if (strncmp(argv[*at], name, length) != 0)
        return false;
    if (argv[*at][length] == '=')
        *out_value = argv[*at] + length + 1;
    else if (argv[*at][length] == '\0' && *at + 1 < argc)
        *out_value = argv[++*at];
    else
        return false;
    return true;
}

static int take_own(int argc, char **argv, struct own *out_own) {
    int kept = 0;
    *out_own = (struct own){0};
    for (int i = 0; i < argc; i++) {
        out_own->has_output |= is_output(argv[i]);
        if (strcmp(argv[i], "--json") == 0)
            out_own->as_json = true;
        else if (strcmp(argv[i], "--joint-collectives") == 0)
            out_own->joint = true;
        else if (!take_value(argc, argv, &i, "--sarif", &out_own->sarif) &&
                 !take_value(argc, argv, &i, "--junit", &out_own->junit) &&
                 !take_value(argc, argv, &i, "--program", &out_own->program))
            argv[kept++] = argv[i];
    }
    return kept;
}

static void print(void *context, const char *text, size_t length) {
    fwrite(text, 1, length, context);
}

static enum orr_exit check(const struct orr_cli *cli, const struct orr_session_options *options,
                           bool as_json, struct orr_check_report *report) {
    struct orr_session_result result;
    struct orr_error error = {0};
    enum orr_exit exit = orr_session_run(options, cli->memory, &result, &error);
    if (result.ran || result.check.finding_count > 0) {
        orr_run_check_print(&result.check, options->scenario, as_json, cli->out);
        orr_run_check_report(&result.check, options->scenario, "run", report);
    }
    orr_perturbed_warn(cli, &result);
    if (exit > ORR_EXIT_NO && !result.check.ended_by[0])
        (void)orr_cli_fail(cli, &error);
    else /* a hang is an answer */
        exit = orr_run_check_exit(&result.check);
    orr_session_result_clear(&result, cli->memory);
    return exit;
}

enum orr_exit orr_cli_check_scenario(const struct orr_cli *cli, int argc, char **argv,
                                     const char *usage) {
    struct own own;
    struct orr_session_options options;
    int help, explain;
    argc = take_own(argc, argv, &own);
    enum orr_exit exit = orr_session_parse(cli, argc, argv, usage, true, &options, &help, &explain);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (explain || options.compare_devices || options.compare_args)
        return orr_cli_usage(cli, argv[0], "--explain and --compare-... are for orrery run");
    if (!own.has_output)
        options.output = NULL; /* a check leaves no trace unless it is asked to */
    options.check = true;
    options.program = own.program;
    options.check_options.joint_collectives = own.joint;
    options.print = print;
    options.print_context = own.as_json ? cli->err : cli->out;
    struct orr_check_report report;
    exit = orr_check_report_open(cli, own.sarif, own.junit, &report);
    if (exit != ORR_EXIT_OK)
        return exit;
    return orr_check_report_close(&report, check(cli, &options, own.as_json, &report));
}
