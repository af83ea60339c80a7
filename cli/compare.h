/* `--compare-devices SPEC` and `--compare-args 'key=value ...'`: the scenario runs a second time,
 * on other devices or with other arguments, and the results of all its operators are compared
 * (runtime/divergence.h). What the second run prints and expects does not count.
 *
 * Threads: one. */
#ifndef ORR_CLI_COMPARE_H
#define ORR_CLI_COMPARE_H

#include "cli/session.h"

/* Bytes of values that each of the two runs may keep. */
#define ORR_COMPARE_BYTES_MAX (UINT64_C(1) << 32)

/* ORR_EXIT_USAGE with a message for options that make no sense. */
enum orr_exit orr_compare_check(const struct orr_cli *cli, const char *verb,
                                const struct orr_session_options *options);

/* The second run of `options`; `result` is that of the first, with its recording, and gets the
 * comparison, which counts as an expectation. `first` is the first run's exit code, returned unless
 * the results part (ORR_EXIT_NO) or the second run fails, with a text in *error. */
enum orr_exit orr_compare_runs(const struct orr_session_options *options,
                               const struct orr_memory *memory, struct orr_session_result *result,
                               struct orr_error *error, enum orr_exit first);

#endif
