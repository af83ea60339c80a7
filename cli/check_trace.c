#include <string.h>

#include "cli/check.h"
#include "cli/run_check.h"
#include "trace/observe.h"

/* What ended the run, if its calls were to blame: the trace has that as a finding. */
static enum orr_status add_end(const struct orr_timeline *timeline, const struct orr_memory *memory,
                               struct orr_run_check *check, struct orr_error *error) {
    enum orr_status status = ORR_OK;
    for (size_t i = 0; status == ORR_OK && !check->ended_by[0] && i < timeline->finding_count;
         i++) {
        const struct orr_timeline_finding *finding = &timeline->findings[i];
        if (strcmp(finding->kind, "hang") == 0 || strcmp(finding->kind, "collective-mismatch") == 0)
            status =
                orr_run_check_ended(check, memory, finding->kind, finding->message, finding->fix);
    }
    return status == ORR_OK ? ORR_OK : orr_error_set(error, status, "no memory for findings");
}

/* A verdict about a run that did not reach its end is one about its begin. */
static void warn_of_end(const struct orr_cli *cli, const char *path, const char *end) {
    if (!end || strcmp(end, "ok") == 0)
        return;
    if (strcmp(end, "running") == 0)
        fprintf(cli->err,
                "warning: %s: its run did not come to an end; what it did last may be missing\n",
                path);
    else
        fprintf(cli->err,
                "warning: %s: its run ended as \"%s\"; what it did not reach is not checked\n",
                path, end);
}

static enum orr_status check(const struct orr_cli *cli, const struct orr_check_request *request,
                             struct orr_run_check *out_check, struct orr_error *error) {
    struct orr_timeline *timeline = NULL;
    struct orr_monitor *monitor = NULL;
    struct orr_names *names = NULL;
    enum orr_status status = orr_timeline_read(request->path, cli->memory, &timeline, error);
    if (status == ORR_OK) {
        status = orr_monitor_create(cli->memory, &request->monitor, &monitor);
        if (status != ORR_OK)
            (void)orr_error_set(error, status, "%s: no memory", request->path);
    }
    if (status == ORR_OK) {
        status = orr_timeline_observe(timeline, orr_monitor_observer(monitor), cli->memory, &names,
                                      error);
        if (status != ORR_OK)
            orr_error_prefix(error, "%s", request->path);
    }
    if (status == ORR_OK)
        status = orr_run_check_end(monitor, NULL, cli->memory, out_check, error);
    if (status == ORR_OK)
        warn_of_end(cli, request->path, orr_timeline_meta(timeline, "status"));
    if (status == ORR_OK)
        status = add_end(timeline, cli->memory, out_check, error);
    orr_monitor_destroy(&monitor);
    orr_names_destroy(&names);
    orr_timeline_destroy(&timeline);
    return status;
}

enum orr_exit orr_cli_check_trace(const struct orr_cli *cli,
                                  const struct orr_check_request *request) {
    struct orr_run_check found = {0};
    struct orr_error error = {0};
    enum orr_status status = check(cli, request, &found, &error);
    enum orr_exit exit = status == ORR_OK ? orr_run_check_exit(&found) : orr_cli_fail(cli, &error);
    if (status == ORR_OK) {
        orr_run_check_print(&found, request->path, request->as_json, cli->out);
        orr_run_check_report(&found, request->path, "trace", request->report);
    }
    orr_run_check_clear(&found, cli->memory);
    return exit;
}
