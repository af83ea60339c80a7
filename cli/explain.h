/* `--explain`: each command of a trace in a line, and what decided when it started.
 *
 * Threads: one. */
#ifndef ORR_CLI_EXPLAIN_H
#define ORR_CLI_EXPLAIN_H

#include "cli/cli.h"

/* Prints the commands of the trace at `path` to cli->out in order of their ids. */
enum orr_exit orr_explain(const struct orr_cli *cli, const char *path);

#endif
