#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"

/* The command without its main(): the table of verbs, help, and exit codes in one place. */

static const struct verb {
    const char *name;
    enum orr_exit (*run)(const struct orr_cli *cli, int argc, char **argv);
    const char *text;
} verbs[] = {
    {"run", orr_cli_run, "run a scenario and leave a trace"},
    {"analyze", orr_cli_analyze, "explain a trace: where the time went, and why"},
    {"import", orr_cli_import, "write a trace of another tool as a database"},
    {"export", orr_cli_export, "write a trace as a timeline for ui.perfetto.dev"},
    {"view", orr_cli_view, "show a trace in Perfetto UI: serve it to the browser of this machine"},
    {"diff", orr_cli_diff, "compare two traces: what became slower, and is it certain"},
    {"check", orr_cli_check,
     "find races, hangs and misused memory in scenarios, traces, stream programs"},
    {"explore", orr_cli_explore,
     "run scenarios and stream programs in every order: what can go wrong"},
    {"replay", orr_cli_replay,
     "run a schedule that explore saved again, or say that it no longer fits"},
    {"whatif", orr_cli_whatif,
     "predict what would change if something cost less; of a scenario, check it by a re-run"},
    {"devices", orr_cli_devices,
     "list the machines that can be simulated, or one with its sources"},
    {"doctor", orr_cli_doctor,
     "what a trace lacks and can answer; without one, what this machine can run on"},
    {"test", orr_cli_test, "run scenarios and judge their expectations"},
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0], VERB_LIST_MAX = 512 };

enum orr_exit orr_cli_exit(enum orr_status status) {
    switch (status) {
    case ORR_OK: return ORR_EXIT_OK;
    case ORR_INVALID: return ORR_EXIT_INPUT;
    case ORR_UNSUPPORTED: return ORR_EXIT_INPUT;
    case ORR_UNAVAILABLE: return ORR_EXIT_UNAVAILABLE;
    default: return ORR_EXIT_FAILED;
    }
}

enum orr_exit orr_cli_fail(const struct orr_cli *cli, const struct orr_error *error) {
    fflush(cli->out);
    fprintf(cli->err, "orrery: %s\n",
            error->text[0] ? error->text : orr_status_text(error->status));
    return orr_cli_exit(error->status);
}

enum orr_exit orr_cli_usage(const struct orr_cli *cli, const char *verb, const char *format, ...) {
    fflush(cli->out);
    fprintf(cli->err, "orrery: ");
    va_list arguments;
    va_start(arguments, format);
    vfprintf(cli->err, format, arguments);
    va_end(arguments);
    fprintf(cli->err, " (orrery %s%s--help)\n", verb ? verb : "", verb ? " " : "");
    return ORR_EXIT_USAGE;
}

enum orr_exit orr_cli_finish(const struct orr_cli *cli, enum orr_exit exit) {
    if (fflush(cli->out) == 0 && !ferror(cli->out))
        return exit;
    fprintf(cli->err, "orrery: the answer could not be written\n");
    return exit == ORR_EXIT_OK || exit == ORR_EXIT_NO ? ORR_EXIT_FAILED : exit;
}

static enum orr_exit help(const struct orr_cli *cli) {
    fputs("Rehearse a GPU cluster on one desk.\n\nusage: orrery VERB ...\n\n", cli->out);
    for (int i = 0; i < VERB_COUNT; i++)
        fprintf(cli->out, "  %-9s %s\n", verbs[i].name, verbs[i].text);
    fputs("\n`orrery VERB --help` says more; `orrery --version` tells the version.\n"
          "Exit codes: 0 fine, 1 the answer is no, 2 wrong usage, 3 bad input, 4 the run failed, "
          "5 not available here.\n",
          cli->out);
    return ORR_EXIT_OK;
}

/* "run, analyze ... and test". */
static const char *list_verbs(char list[VERB_LIST_MAX], const char *last) {
    size_t used = 0;
    for (int i = 0; i < VERB_COUNT && used < VERB_LIST_MAX; i++) {
        const char *before = i + 2 < VERB_COUNT ? ", " : "";
        int length =
            i + 2 == VERB_COUNT
                ? snprintf(list + used, VERB_LIST_MAX - used, "%s %s ", verbs[i].name, last)
                : snprintf(list + used, VERB_LIST_MAX - used, "%s%s", verbs[i].name, before);
        used += length > 0 ? (size_t)length : 0;
    }
    return list;
}

static enum orr_exit unknown_verb(const struct orr_cli *cli, const char *word) {
    const char *names[VERB_COUNT];
    for (int i = 0; i < VERB_COUNT; i++)
        names[i] = verbs[i].name;
    const char *nearest = orr_nearest_name(word, names, VERB_COUNT);
    if (nearest)
        return orr_cli_usage(cli, NULL, "unknown verb '%s'; did you mean '%s'?", word, nearest);
    char list[VERB_LIST_MAX];
    return orr_cli_usage(cli, NULL, "unknown verb '%s'; this version has %s", word,
                         list_verbs(list, "and"));
}

static enum orr_exit dispatch(const struct orr_cli *cli, int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    char list[VERB_LIST_MAX];
    if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h"))
        return help(cli);
    if (!strcmp(word, "--version")) {
        fprintf(cli->out, "orrery %s\n", ORR_CLI_VERSION);
        return ORR_EXIT_OK;
    }
    if (argc < 2)
        return orr_cli_usage(cli, NULL, "expected a verb: %s", list_verbs(list, "or"));
    for (int i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i].name, word) == 0)
            return verbs[i].run(cli, argc - 1, argv + 1);
    return unknown_verb(cli, word);
}

int orr_cli_main(const struct orr_cli *cli, int argc, char **argv) {
    return (int)orr_cli_finish(cli, dispatch(cli, argc, argv));
}
