/* What `check` leaves for machines beside its answer: findings as SARIF for code hosts, verdicts as
 * JUnit XML for continuous integration. Each subject (a stream program, a scenario, a trace) is one
 * test case, which fails if something was found.
 *
 *     struct orr_check_report report;
 *     exit = orr_check_report_open(cli, "found.sarif", NULL, &report);
 *     orr_check_report_case(&report, "programs.jsonl", "double-buffer", NULL);
 *     orr_check_report_case(&report, "programs.jsonl", "reread", "race");
 *     orr_check_report_finding(&report, &finding);           // of the last case
 *     orr_check_report_done(&report);
 *     exit = orr_check_report_close(&report, exit);
 *
 * All functions but open and close accept NULL and then do nothing. Threads: one. */
#ifndef ORR_CLI_CHECK_REPORT_H
#define ORR_CLI_CHECK_REPORT_H

#include "cli/cli.h"
#include "cli/junit.h"
#include "cli/sarif.h"

struct orr_check_report {
    const struct orr_cli *cli;
    struct orr_sarif *sarif; /* NULL: not asked for */
    struct orr_junit junit;
    const char *junit_path; /* NULL: not asked for; borrowed until close */
    bool is_whole;          /* every subject has been judged */
};

/* A finding of the last case; `kind`, `severity` and `message` are there, the others may be NULL.
 * Sites are "file:line" as in traces. */
struct orr_check_report_finding {
    const char *kind, *severity; /* "race"; "error", "warning", "note" */
    const char *message, *fix;
    const char *site_a, *site_b; /* of the earlier and the later operation */
};

/* Begins. Paths may be NULL; files with something else in them are not replaced. Says what is wrong
 * and returns its exit code. */
enum orr_exit orr_check_report_open(const struct orr_cli *cli, const char *sarif_path,
                                    const char *junit_path, struct orr_check_report *out_report);

/* The next subject; `failure` NULL: nothing was found, else what its verdict is. */
void orr_check_report_case(struct orr_check_report *report, const char *suite, const char *name,
                           const char *failure);

/* Adds a finding to it. */
void orr_check_report_finding(struct orr_check_report *report,
                              const struct orr_check_report_finding *finding);

/* Every subject has been judged, with whatever verdict. */
void orr_check_report_done(struct orr_check_report *report);

/* Writes the files if every subject has been judged, else none. Returns `exit`, or the code of a
 * report that could not be written. */
enum orr_exit orr_check_report_close(struct orr_check_report *report, enum orr_exit exit);

#endif
