/* `--drop-wait N|random`: a run in which one wait is left out on purpose (struct
 * orr_runtime_config), to see whether anything notices.
 *
 * Threads: one. */
#ifndef ORR_CLI_DROP_WAIT_H
#define ORR_CLI_DROP_WAIT_H

#include "cli/session.h"

/* Wrong usage for a text that is no number from 1, nor "random". */
enum orr_exit orr_drop_wait_check(const struct orr_cli *cli, const char *verb,
                                  const struct orr_session_options *options);

/* Which wait it is, 0 for none: options->dropped_wait. For "random" the scenario runs once without
 * leaving anything, to count its waits; the seed of the run draws one. */
enum orr_exit orr_drop_wait_resolve(struct orr_session_options *options,
                                    const struct orr_memory *memory, struct orr_error *error);

#endif
