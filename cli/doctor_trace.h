/* `orrery doctor TRACE`: what is wrong with a trace, and what it can answer.
 *
 * Threads: one. */
#ifndef ORR_CLI_DOCTOR_TRACE_H
#define ORR_CLI_DOCTOR_TRACE_H

#include "cli/cli.h"

/* Examines the traces of a file of any format; of an archive of ranks one after the other. As JSON
 * one document: of several traces {"traces": [...]}. ORR_EXIT_OK whatever it finds,
 * ORR_EXIT_INPUT if it can't be read. */
enum orr_exit orr_cli_doctor_trace(const struct orr_cli *cli, const char *const *paths, int count,
                                   int as_json);

#endif
