/* Judging what a scenario expects: where scenarios, trace and analyzer meet.
 *
 * Expectations about values were judged when they were made. The others are judged against the
 * trace: expect.clean and expect.finding against its findings and the fate of its commands,
 * expect.phase and expect.analysis against the analyzer's report.
 *
 * Threads: one. */
#ifndef ORR_CLI_JUDGE_H
#define ORR_CLI_JUDGE_H

#include "cli/session.h"

/* Judges all expectations of a scenario that has run. `trace` is the path of its trace, NULL if it
 * left none: then those that need one are marked as not judged. Fills the result's verdicts.
 * ORR_EXIT_OK if none failed, ORR_EXIT_NO if one did; others with the text in *error. */
enum orr_exit orr_judge(const struct orr_scenario *scenario, const char *trace,
                        const struct orr_memory *memory, struct orr_session_result *result,
                        struct orr_error *error);

#endif
