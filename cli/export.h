/* Writing a trace as a timeline for Perfetto UI: what `orrery export` and `orrery view` share.
 *
 * Threads: one. */
#ifndef ORR_CLI_EXPORT_H
#define ORR_CLI_EXPORT_H

#include "cli/cli.h"
#include "trace/perfetto.h"

/* Reads the trace at the paths (several: the ranks of a job, as one), analyses it for its phases,
 * and writes `output` (trace/perfetto.h), which is replaced only if such a timeline is there.
 * Errors are those of reading and writing, with the file and the reason. */
enum orr_status orr_cli_export_file(const struct orr_cli *cli, const char *const *paths, int count,
                                    const char *output, struct orr_perfetto_counts *out_counts,
                                    struct orr_error *error) ORR_MUST_CHECK;

#endif
