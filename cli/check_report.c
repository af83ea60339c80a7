#include "cli/check_report.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 16 << 10 };

enum orr_exit orr_check_report_open(const struct orr_cli *cli, const char *sarif_path,
                                    const char *junit_path, struct orr_check_report *out_report) {
    *out_report = (struct orr_check_report){
        .cli = cli, .junit = {.memory = cli->memory}, .junit_path = junit_path};
    struct orr_error error = {0};
    enum orr_status status = junit_path ? orr_junit_check(junit_path, &error) : ORR_OK;
    if (status == ORR_OK && sarif_path)
        status = orr_sarif_open(sarif_path, cli->memory, &out_report->sarif, &error);
    return status == ORR_OK ? ORR_EXIT_OK : orr_cli_fail(cli, &error);
}

void orr_check_report_case(struct orr_check_report *report, const char *suite, const char *name,
                           const char *failure) {
    if (report && report->junit_path)
        orr_junit_case(&report->junit, suite, name, failure ? ORR_JUNIT_FAILED : ORR_JUNIT_PASSED,
                       failure ? failure : "");
}

void orr_check_report_finding(struct orr_check_report *report,
                              const struct orr_check_report_finding *finding) {
    if (!report)
        return;
    bool has_fix = finding->fix && *finding->fix;
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%s%s%s", finding->message, has_fix ? "\nfix: " : "",
             has_fix ? finding->fix : "");
    const char *site = finding->site_b && *finding->site_b ? finding->site_b : finding->site_a;
    orr_sarif_result(report->sarif,
                     &(struct orr_sarif_finding){
                         .rule = finding->kind,
                         .level = finding->severity,
                         .message = text,
                         .site = site,
                         .related_site = site == finding->site_a ? NULL : finding->site_a,
                         .related = "the operation that is not ordered with it"});
    if (!report->junit_path)
        return;
    char line[TEXT_MAX + 256];
    snprintf(line, sizeof line, "%s%s%s: %s", site ? site : "", site && *site ? ": " : "",
             finding->kind, text);
    orr_junit_detail(&report->junit, line);
}

void orr_check_report_done(struct orr_check_report *report) {
    if (report)
        report->is_whole = true;
}

enum orr_exit orr_check_report_close(struct orr_check_report *report, enum orr_exit exit) {
    const struct orr_cli *cli = report->cli;
    struct orr_error error = {0};
    enum orr_status status = ORR_OK;
    if (!report->is_whole)
        orr_sarif_discard(&report->sarif);
    if (report->is_whole && report->junit_path)
        status = orr_junit_write(&report->junit, report->junit_path, &error);
    if (orr_sarif_close(&report->sarif, &error) != ORR_OK && status == ORR_OK)
        status = error.status;
    orr_junit_clear(&report->junit);
    return status == ORR_OK ? exit : orr_cli_fail(cli, &error);
}
