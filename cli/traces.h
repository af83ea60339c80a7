/* The traces that the words of a verb name: `orrery analyze TRACE...`.
 *
 * A word is a path of any format that trace/import.h reads; an archive of ranks is several traces.
 *
 *     struct orr_traces traces = {0};
 *     struct orr_error error = {0};
 *     if (orr_cli_read_traces(cli, words.items, words.count, NULL, &traces, &error) != ORR_OK)
 *         return orr_cli_fail(cli, &error);
 *     if (traces.count == 1) ...                       // one timeline
 *     else ...                                         // cli/rank_set.h: ranks of one job
 *     orr_traces_free(cli->memory, &traces);
 *
 * Threads: one. */
#ifndef ORR_CLI_TRACES_H
#define ORR_CLI_TRACES_H

#include "cli/cli.h"
#include "trace/import.h"

enum { ORR_CLI_SET_NAME_MAX = 256 };

/* Reads them all, in the order of the words. `options` NULL: tolerant. The error's text names the
 * file. On failure *out_traces is empty. */
enum orr_status orr_cli_read_traces(const struct orr_cli *cli, const char *const *paths, int count,
                                    const struct orr_import_options *options,
                                    struct orr_traces *out_traces,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* The last part of a path, borrowed from it. */
const char *orr_cli_base_name(const char *path);

/* What reports call several traces: the file's base name if it was one (an archive), else
 * "rank0.json and 7 more". `buffer` holds ORR_CLI_SET_NAME_MAX bytes; returned. */
const char *orr_cli_set_name(const char *const *paths, int count, char *buffer);

#endif
