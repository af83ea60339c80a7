/* `explore` and `replay` of scenarios, for the files of these verbs.
 *
 * Threads: one. */
#ifndef ORR_CLI_SCENARIO_VERBS_H
#define ORR_CLI_SCENARIO_VERBS_H

#include <stdbool.h>

#include "cli/cli.h"

/* argv[0] is the verb's name. */
enum orr_exit orr_cli_explore_scenario(const struct orr_cli *cli, int argc, char **argv,
                                       const char *usage);
/* Whether the text of a schedule's file is one of a scenario. */
bool orr_is_scenario_schedule(const char *text);
/* Replays it; scenario NULL: the one named in it. `path` is the file's, for messages. */
enum orr_exit orr_cli_replay_scenario(const struct orr_cli *cli, const char *path, const char *text,
                                      size_t length, const char *scenario, bool as_json);

#endif
