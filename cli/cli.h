/* The orrery command: what its verbs share.
 *
 * A verb is one file with one function. It parses its own options, writes its answer to `out`,
 * messages to `err` (each "orrery: ...", one line), and returns an exit code.
 *
 *     struct orr_cli cli = {.memory = &memory, .out = stdout, .err = stderr};
 *     return orr_cli_main(&cli, argc, argv);
 *
 * Threads: one. */
#ifndef ORR_CLI_CLI_H
#define ORR_CLI_CLI_H

#include <stdio.h>

#include "runtime/error.h"
#include "runtime/memory.h"

#define ORR_CLI_VERSION "0.1.0"

/* Exit codes of the command; others' scripts rely on them. */
enum orr_exit {
    ORR_EXIT_OK = 0,
    ORR_EXIT_NO = 1,     /* the answer is "no": finding, failed expectation, regression */
    ORR_EXIT_USAGE = 2,  /* wrong usage */
    ORR_EXIT_INPUT = 3,  /* bad input; nothing half-written is left behind */
    ORR_EXIT_FAILED = 4, /* the run failed: device error, out of memory, output not writable */
    ORR_EXIT_UNAVAILABLE = 5
};

struct orr_cli {
    const struct orr_memory *memory;
    FILE *out, *err;
};

/* The exit code of a failure with this status. */
enum orr_exit orr_cli_exit(enum orr_status status);

/* Says a failure on err and returns its exit code. */
enum orr_exit orr_cli_fail(const struct orr_cli *cli, const struct orr_error *error);

/* Says a wrong use of a verb and where its help is; returns ORR_EXIT_USAGE. */
enum orr_exit orr_cli_usage(const struct orr_cli *cli, const char *verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Flushes `out`; a failure to write the answer (a full disk behind a redirection) turns success
 * into ORR_EXIT_FAILED. */
enum orr_exit orr_cli_finish(const struct orr_cli *cli, enum orr_exit exit);

/* Runs the verb that argv[1] names. */
int orr_cli_main(const struct orr_cli *cli, int argc, char **argv);

/* The verbs; argv[0] is the verb's name. */
enum orr_exit orr_cli_run(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_analyze(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_import(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_export(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_devices(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_test(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_check(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_explore(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_doctor(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_whatif(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_replay(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_diff(const struct orr_cli *cli, int argc, char **argv);
enum orr_exit orr_cli_view(const struct orr_cli *cli, int argc, char **argv);

/* Options of a verb. A flag has `flag`, an option with a value `value`; both are set in place. */
struct orr_cli_option {
    const char *name; /* "--devices", "-o"; NULL ends a list */
    const char **value;
    int *flag;
};

enum { ORR_CLI_POSITIONAL_MAX = 1024 };

struct orr_cli_positional {
    const char *items[ORR_CLI_POSITIONAL_MAX];
    int count;
};

/* Takes options (--name value, --name=value, -o value; "--" ends them) out of argv[1..]; the rest
 * are positional. `usage` is the verb's help, printed for --help (then *out_help is set and the
 * exit code is 0). ORR_EXIT_USAGE names the nearest option. Texts are borrowed from argv. */
enum orr_exit orr_cli_parse(const struct orr_cli *cli, int argc, char **argv, const char *usage,
                            const struct orr_cli_option *options,
                            struct orr_cli_positional *out_positional, int *out_help);

#endif
