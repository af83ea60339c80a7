/* What exact figures call a trace: the last part of its path, or "ARCHIVE/member".
 *
 * Threads: pure function. */
#ifndef ORR_CLI_TRACE_NAME_H
#define ORR_CLI_TRACE_NAME_H

/* `name` is a trace's as trace/import.h gives it, `paths` the words it was read by. The end of
 * `name`, borrowed from it. */
const char *orr_cli_trace_name(const char *const *paths, int count, const char *name);

#endif
