#include "cli/doctor_trace.h"

#include "analyzer/report_doctor.h"
#include "cli/peaks.h"
#include "cli/traces.h"

static enum orr_status examine(const struct orr_cli *cli, const struct orr_trace *trace,
                               int as_json, struct orr_error *error) {
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis = NULL;
    char *text = NULL;
    size_t length = 0;
    options.file = trace->name;
    enum orr_status status = orr_cli_fill_peaks(cli, trace->timeline, error);
    if (status == ORR_OK)
        status = orr_analyze(trace->timeline, &options, cli->memory, &analysis, error);
    if (status == ORR_OK) {
        status = as_json ? orr_report_doctor_json(analysis, &text, &length)
                         : orr_report_doctor_text(analysis, &text, &length);
        if (status != ORR_OK)
            (void)orr_error_set(error, status, "%s: no memory for the report", trace->name);
    }
    if (status == ORR_OK)
        fwrite(text, 1, length, cli->out);
    orr_memory_free(cli->memory, text);
    orr_analysis_destroy(&analysis);
    return status;
}

enum orr_exit orr_cli_doctor_trace(const struct orr_cli *cli, const char *const *paths, int count,
                                   int as_json) {
    struct orr_traces traces = {0};
    struct orr_error error = {0};
    static const struct orr_import_options options = {.without_accesses = true};
    enum orr_status status = orr_cli_read_traces(cli, paths, count, &options, &traces, &error);
    int several = as_json && traces.count > 1;
    if (several)
        fputs("{\"traces\": [\n", cli->out);
    for (size_t i = 0; i < traces.count && status == ORR_OK; i++) {
        if (i > 0)
            fputs(several ? "," : as_json ? "" : "\n", cli->out);
        status = examine(cli, &traces.items[i], as_json, &error);
    }
    if (several && status == ORR_OK)
        fputs("]}\n", cli->out);
    orr_traces_free(cli->memory, &traces);
    return status == ORR_OK ? ORR_EXIT_OK : orr_cli_fail(cli, &error);
}
