/* The traces that the words of a verb name, as one timeline: the trace itself, or the ranks of a
 * job joined (cli/rank_set.h).
 *
 * Threads: one. */
#ifndef ORR_CLI_ONE_TIMELINE_H
#define ORR_CLI_ONE_TIMELINE_H

#include "cli/cli.h"
#include "trace/import.h"

/* `options` NULL: tolerant. *out_count, which may be NULL, is how many traces there were. The
 * timeline is the caller's. */
enum orr_status orr_cli_read_one_timeline(const struct orr_cli *cli, const char *const *paths,
                                          int count, const struct orr_import_options *options,
                                          struct orr_timeline **out_timeline, size_t *out_count,
                                          struct orr_error *error) ORR_MUST_CHECK;

#endif
