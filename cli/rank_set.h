/* Several traces as what they normally are: the ranks of one job.
 *
 *     struct orr_cli_rank_set set;
 *     if (orr_cli_rank_set_make(cli, &traces, paths, count, &options, &set, &error) != ORR_OK) ...
 *     status = orr_report_json_set(&set.report, &text, &length);
 *     orr_cli_rank_set_free(cli, &set);
 *
 * The rooms do one thing each: the analyzer matches collectives and finds how far clocks are apart
 * (analyzer/ranks.h), trace/ makes one timeline of all (trace/merge.h), the analyzer explains that
 * as it explains any other. This joins them.
 *
 * Threads: one. */
#ifndef ORR_CLI_RANK_SET_H
#define ORR_CLI_RANK_SET_H

#include "analyzer/analysis.h"
#include "analyzer/report_set.h"
#include "cli/cli.h"
#include "trace/import.h"

struct orr_cli_rank_set {
    struct orr_ranks ranks;
    struct orr_rank_set exact;
    struct orr_timeline *timeline; /* of all ranks */
    struct orr_analysis *whole;    /* of that timeline */
    struct orr_analysis **each;    /* of every trace alone, in the order of ranks */
    size_t count;
    struct orr_report_set report; /* what the reports print: borrows all of the above */
};

/* Analyses all traces (two or more), alone and together. options->file is the name of the set;
 * `paths` are the words that named the traces. All must live as long as the set. */
enum orr_status orr_cli_rank_set_make(const struct orr_cli *cli, const struct orr_traces *traces,
                                      const char *const *paths, int path_count,
                                      const struct orr_analysis_options *options,
                                      struct orr_cli_rank_set *out_set,
                                      struct orr_error *error) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_cli_rank_set_free(const struct orr_cli *cli, struct orr_cli_rank_set *set);

/* One timeline of several traces: collectives joined, clocks corrected where they can be. The
 * timeline is the caller's. ORR_UNSUPPORTED for traces of different formats. */
enum orr_status orr_cli_join_traces(const struct orr_cli *cli, const struct orr_traces *traces,
                                    struct orr_timeline **out_timeline,
                                    struct orr_error *error) ORR_MUST_CHECK;

#endif
