/* expect.clean(): no finding but notes, and no command that failed, was skipped or was poisoned.
 *
 * SQL instead of a timeline: a run of a thousand devices has tens of millions of commands, which
 * need not be in memory to be told that they are all right.
 *
 * Threads: any, each with its own arguments. */
#ifndef ORR_CLI_JUDGE_CLEAN_H
#define ORR_CLI_JUDGE_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/error.h"

/* Judges the trace at a path; if it is not clean, `text` (`size` bytes) says what comes first.
 * ORR_IO for a trace that can't be read. */
enum orr_status orr_judge_clean(const char *trace, bool *out_passed, char *text, size_t size,
                                struct orr_error *error) ORR_MUST_CHECK;

#endif
