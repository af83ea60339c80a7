/* Runs whose command line asks for perturbations: --perturb 'KEY=VALUE ...' (runtime/perturb.h has
 * the keys) and --allocator KIND, which is short for --perturb allocator=KIND.
 *
 * Threads: one. */
#ifndef ORR_CLI_PERTURBED_H
#define ORR_CLI_PERTURBED_H

#include "cli/session.h"
#include "runtime/runtime.h"

/* Wrong usage for texts that are no rules; says so. */
enum orr_exit orr_perturbed_check(const struct orr_cli *cli, const char *verb,
                                  const struct orr_session_options *options);

/* Gives a new runtime the rules of the options, if there are any. */
enum orr_exit orr_perturbed_begin(struct orr_runtime *runtime,
                                  const struct orr_session_options *options,
                                  struct orr_error *error);

/* Warns of a perturbation that concerned nothing in a run that got to its end. */
void orr_perturbed_warn(const struct orr_cli *cli, const struct orr_session_result *result);

#endif
