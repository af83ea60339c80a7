/* What a run has to say about itself without being asked: the findings of its trace that are errors
 * or warnings, how many commands have no defined result, and what the backend warns of. `orrery
 * run` prints them on err behind its summary, one line each:
 *
 *     warning: a.lua:12: stream 'x' of device 0 waits for event 'e', which was never recorded: ...
 *     warning: 12 commands were poisoned; first: #5 consume at a.lua:14 (it raced, or read bytes
 *     that nobody had written)
 *     warning: times of 2 of 19 device commands are those of events, because ...
 *
 * Threads: one. */
#ifndef ORR_CLI_NOTICES_H
#define ORR_CLI_NOTICES_H

#include "cli/cli.h"

enum { ORR_NOTICES_MAX = 10 }; /* findings that are printed; the rest is a number */

/* Prints them for the trace at `path`. A trace that can't be read has none: it is not the notices'
 * place to fail a run that succeeded. */
void orr_notices_print(const struct orr_cli *cli, const char *path);

#endif
