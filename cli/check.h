/* The verb `check`, which is a file for each kind of input.
 *
 * Threads: one. */
#ifndef ORR_CLI_CHECK_H
#define ORR_CLI_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/check_report.h"
#include "hazards/monitor.h"

struct orr_check_request {
    const char *path; /* "-": standard input */
    bool as_json;
    uint64_t states_max; /* 0: the default */
    bool all;            /* every finding of a happens-before question */
    bool redundant;      /* of safe programs: what orders nothing, what no finding needs */
    const char *repair;  /* NULL, or the file for programs with their fixes in them */
    struct orr_check_report *report;
    struct orr_monitor_options monitor; /* of runs and traces */
};

/* Stream programs, a line each: a verdict per line, in the order of the file. */
enum orr_exit orr_cli_check_programs(const struct orr_cli *cli,
                                     const struct orr_check_request *request);
/* A trace: what a check of the run would have found. */
enum orr_exit orr_cli_check_trace(const struct orr_cli *cli,
                                  const struct orr_check_request *request);
/* A scenario: it runs, with the options of `orrery run`. argv may be changed. */
enum orr_exit orr_cli_check_scenario(const struct orr_cli *cli, int argc, char **argv,
                                     const char *usage);

#endif
