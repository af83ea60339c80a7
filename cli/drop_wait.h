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

/* A wait of a run that has ended, drawn among those that matter; the first, which is missing, if
 * there is none. */
uint64_t orr_drop_wait_draw(const struct orr_runtime *runtime, uint64_t seed);

/* Which wait it is, 0 for none: options->dropped_wait. For "random" the scenario runs once without
 * leaving anything; the seed of the run draws one of its waits. */
enum orr_exit orr_drop_wait_resolve(struct orr_session_options *options,
                                    const struct orr_memory *memory, struct orr_error *error);

#endif
