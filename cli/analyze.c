#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "cli/cli.h"
#include "cli/html.h"
#include "cli/peaks.h"
#include "cli/rank_set.h"
#include "cli/trace_name.h"
#include "cli/traces.h"

static const char usage[] =
    "usage: orrery analyze TRACE... [--json] [--html FILE] [--begin NS] [--end NS] [--strict]\n"
    "                      [--bandwidth BYTES_PER_S] [--peak UNIT.DTYPE=FLOPS,...]\n"
    "\n"
    "Explains a trace: where the time of every device went, whether launches, memory, arithmetic\n"
    "or communication limit it, and what would help. A trace is one that `orrery run` left, a\n"
    "JSON file of PyTorch's profiler (also .gz, or a .tar.gz of the ranks of a job), or an SQLite\n"
    "export of Nsight Systems; which, is seen from the content. `orrery doctor` says what a trace\n"
    "can answer and what not.\n"
    "\n"
    "  --json      one JSON document on stdout, nothing else\n"
    "  --html FILE writes the report as one HTML file, too: charts, tables, no network\n"
    "  --begin NS  looks at the time from NS on (of the trace's clock), one step of several\n"
    "  --end NS    and before NS; without them, from the first to the last op\n"
    "  --strict    a trace that is cut or damaged is refused instead of repaired\n"
    "  --bandwidth byte/s of the devices' memory for the roofline, as 3.35e12\n"
    "  --peak      FLOP/s by unit (vector, matrix) and type, as matrix.bf16=989e12; without\n"
    "              these, those of the trace, or of the machine that a device's name means\n";

struct request {
    const char *const *paths;
    int count;
    int as_json;
    const char *html; /* or NULL */
    struct orr_import_options import;
    struct orr_analysis_options options;
};

/* Prints a report that was made, and frees it; or says why there is none. */
static enum orr_exit print_report(const struct orr_cli *cli, enum orr_status status, char *text,
                                  size_t length) {
    if (status == ORR_OK)
        fwrite(text, 1, length, cli->out);
    else
        fprintf(cli->err, "orrery: the report could not be made: %s\n", orr_status_text(status));
    orr_memory_free(cli->memory, text);
    return orr_cli_exit(status);
}

static enum orr_exit report(const struct orr_cli *cli, const struct orr_analysis *analysis,
                            int as_json) {
    char *text = NULL;
    size_t length = 0;
    enum orr_status status = as_json ? orr_report_json(analysis, &text, &length)
                                     : orr_report_text(analysis, &text, &length);
    return print_report(cli, status, text, length);
}

/* A whole number of ns, or ORR_TIME_NONE for no text. */
static int read_time(const char *text, int64_t *out_ns) {
    char *end;
    *out_ns = ORR_TIME_NONE;
    if (!text)
        return 1;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out_ns = value;
    return errno == 0 && *text != '\0' && *end == '\0' && value != ORR_TIME_NONE;
}

static enum orr_exit analyze_one(const struct orr_cli *cli, const struct request *request,
                                 const struct orr_trace *trace) {
    struct orr_error error = {0};
    struct orr_analysis *analysis = NULL;
    struct orr_analysis_options options = request->options;
    options.file = trace->name;
    options.name = orr_cli_trace_name(request->paths, request->count, trace->name);
    enum orr_status status = orr_analyze(trace->timeline, &options, cli->memory, &analysis, &error);
    if (status == ORR_OK && request->html)
        status = orr_cli_html_write(cli, analysis, request->html, &error);
    enum orr_exit exit =
        status == ORR_OK ? report(cli, analysis, request->as_json) : orr_cli_fail(cli, &error);
    orr_analysis_destroy(&analysis);
    return exit;
}

static enum orr_exit report_set(const struct orr_cli *cli, const struct orr_report_set *set,
                                int as_json) {
    char *text = NULL;
    size_t length = 0;
    enum orr_status status = as_json ? orr_report_json_set(set, &text, &length)
                                     : orr_report_text_set(set, &text, &length);
    return print_report(cli, status, text, length);
}

/* Ranks of one job, each alone and all together. */
static enum orr_exit analyze_set(const struct orr_cli *cli, const struct request *request,
                                 const struct orr_traces *traces) {
    char name[ORR_CLI_SET_NAME_MAX];
    struct orr_error error = {0};
    struct orr_cli_rank_set set;
    struct orr_analysis_options options = request->options;
    options.file = options.name = orr_cli_set_name(request->paths, request->count, name);
    enum orr_status status =
        orr_cli_rank_set_make(cli, traces, request->paths, request->count, &options, &set, &error);
    if (status == ORR_OK && request->html)
        status = orr_cli_html_write_set(cli, &set.report, request->html, &error);
    enum orr_exit exit = status == ORR_OK ? report_set(cli, &set.report, request->as_json)
                                          : orr_cli_fail(cli, &error);
    orr_cli_rank_set_free(cli, &set);
    return exit;
}

static enum orr_exit analyze(const struct orr_cli *cli, const struct request *request) {
    struct orr_error error = {0};
    struct orr_traces traces = {0};
    enum orr_status status = request->html ? orr_cli_html_check(request->html, &error) : ORR_OK;
    if (status == ORR_OK)
        status = orr_cli_read_traces(cli, request->paths, request->count, &request->import, &traces,
                                     &error);
    for (size_t i = 0; i < traces.count && status == ORR_OK; i++)
        status = orr_cli_fill_peaks(cli, traces.items[i].timeline, &error);
    enum orr_exit exit = status != ORR_OK    ? orr_cli_fail(cli, &error)
                         : traces.count == 1 ? analyze_one(cli, request, &traces.items[0])
                                             : analyze_set(cli, request, &traces);
    orr_traces_free(cli->memory, &traces);
    return exit;
}

enum orr_exit orr_cli_analyze(const struct orr_cli *cli, int argc, char **argv) {
    int as_json = 0, strict = 0, help;
    const char *begin = NULL, *end = NULL, *html = NULL, *bandwidth = NULL, *peak = NULL;
    const struct orr_cli_option options[] = {
        {"--json", NULL, &as_json}, {"--html", &html, NULL},     {"--begin", &begin, NULL},
        {"--end", &end, NULL},      {"--strict", NULL, &strict}, {"--bandwidth", &bandwidth, NULL},
        {"--peak", &peak, NULL},    {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count == 0)
        return orr_cli_usage(cli, argv[0], "expected a trace");
    struct request request = {.paths = words.items,
                              .count = words.count,
                              .as_json = as_json,
                              .html = html,
                              .import = {.strict = strict != 0, .without_accesses = true},
                              .options = orr_analysis_options_default()};
    if (!read_time(begin, &request.options.begin_ns) || !read_time(end, &request.options.end_ns))
        return orr_cli_usage(cli, argv[0], "--begin and --end take a number of ns");
    const char *wrong = orr_cli_parse_bandwidth(bandwidth, &request.options.peaks);
    wrong = wrong ? wrong : orr_cli_parse_peaks(peak, &request.options.peaks);
    if (wrong)
        return orr_cli_usage(cli, argv[0], "%s", wrong);
    return analyze(cli, &request);
}
