/* The verbs `explore` and `replay`, which are a file for each kind of input.
 *
 * Threads: one. */
#ifndef ORR_CLI_EXPLORE_H
#define ORR_CLI_EXPLORE_H

#include "cli/cli.h"
#include "hazards/explore/schedule_file.h"

struct orr_explore_request {
    const char *path;   /* "-": standard input */
    const char *id;     /* only this program; NULL: all */
    const char *output; /* where the first finding's schedule goes; NULL: nowhere */
    bool as_json;
    struct orr_explore_options options;
};

/* Stream programs, a line each. */
enum orr_exit orr_cli_explore_programs(const struct orr_cli *cli,
                                       const struct orr_explore_request *request);

/* A finding's schedule as a table for people: a row per step, a column per stream and host. */
void orr_cli_print_schedule(const struct orr_cli *cli, const struct orr_stream_program *program,
                            const struct orr_schedule *schedule);

/* What was found in a program, for people and as a line of JSON. */
void orr_cli_print_exploration(const struct orr_cli *cli, const char *name,
                               const struct orr_stream_program *program,
                               const struct orr_exploration *found);
enum orr_status orr_cli_exploration_json(const struct orr_cli *cli, const char *id,
                                         const struct orr_stream_program *program,
                                         const struct orr_explore_options *options,
                                         const struct orr_exploration *found);

/* May a schedule go to `path`? Not over a file that is none: ORR_IO. To be asked before it is
 * looked for; saving asks again. */
enum orr_status orr_cli_schedule_check(const char *path, struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr_cli_schedule_save(const struct orr_schedule_file *file, const char *path,
                                      struct orr_error *error) ORR_MUST_CHECK;

#endif
