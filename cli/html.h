/* Writing the HTML report of an analysis to a file.
 *
 * The file appears when it is whole (trace/output.h); one that exists is replaced only if it is
 * such a report.
 *
 * Threads: one. */
#ifndef ORR_CLI_HTML_H
#define ORR_CLI_HTML_H

#include "analyzer/report_html.h"
#include "analyzer/report_set.h"
#include "cli/cli.h"

/* May `path` be written? ORR_IO with the reason: it is somebody else's file. */
enum orr_status orr_cli_html_check(const char *path, struct orr_error *error) ORR_MUST_CHECK;

/* Checks that, makes the report and writes it. ORR_IO with path and reason; ORR_NO_MEMORY. */
enum orr_status orr_cli_html_write(const struct orr_cli *cli, const struct orr_analysis *analysis,
                                   const char *path, struct orr_error *error) ORR_MUST_CHECK;
/* The same for the ranks of a job. */
enum orr_status orr_cli_html_write_set(const struct orr_cli *cli, const struct orr_report_set *set,
                                       const char *path, struct orr_error *error) ORR_MUST_CHECK;

#endif
