#include <errno.h>
#include <stdlib.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "cli/cli.h"
#include "cli/html.h"
#include "trace/timeline.h"

static const char usage[] =
    "usage: orrery analyze TRACE [--json] [--html FILE] [--begin NS] [--end NS]\n"
    "\n"
    "Explains a trace that `orrery run` left: where the time of every device went, whether\n"
    "launches, memory, arithmetic or communication limit it, and what would help.\n"
    "\n"
    "  --json      one JSON document on stdout, nothing else\n"
    "  --html FILE writes the report as one HTML file, too: charts, tables, no network\n"
    "  --begin NS  looks at the time from NS on (of the trace's clock), one step of several\n"
    "  --end NS    and before NS; without them, from the first to the last op\n";

static enum orr_exit report(const struct orr_cli *cli, const struct orr_analysis *analysis,
                            int as_json) {
    char *text = NULL;
    size_t length = 0;
    enum orr_status status = as_json ? orr_report_json(analysis, &text, &length)
                                     : orr_report_text(analysis, &text, &length);
    if (status == ORR_OK)
        fwrite(text, 1, length, cli->out);
    else
        fprintf(cli->err, "orrery: the report could not be made: %s\n", orr_status_text(status));
    orr_memory_free(analysis->memory, text);
    return orr_cli_exit(status);
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

static enum orr_exit analyze(const struct orr_cli *cli, const char *path, int as_json,
                             const char *html, int64_t begin_ns, int64_t end_ns) {
    struct orr_error error = {0};
    struct orr_timeline *timeline = NULL;
    struct orr_analysis *analysis = NULL;
    struct orr_analysis_options options = orr_analysis_options_default();
    options.file = path;
    options.begin_ns = begin_ns;
    options.end_ns = end_ns;
    enum orr_status status = html ? orr_cli_html_check(html, &error) : ORR_OK;
    if (status == ORR_OK)
        status = orr_timeline_read(path, cli->memory, &timeline, &error);
    if (status == ORR_OK)
        status = orr_analyze(timeline, &options, cli->memory, &analysis, &error);
    if (status == ORR_OK && html)
        status = orr_cli_html_write(cli, analysis, NULL, html, &error);
    enum orr_exit exit =
        status == ORR_OK ? report(cli, analysis, as_json) : orr_cli_fail(cli, &error);
    orr_analysis_destroy(&analysis);
    orr_timeline_destroy(&timeline);
    return exit;
}

enum orr_exit orr_cli_analyze(const struct orr_cli *cli, int argc, char **argv) {
    int as_json = 0, help;
    const char *begin = NULL, *end = NULL, *html = NULL;
    const struct orr_cli_option options[] = {{"--json", NULL, &as_json},
                                             {"--html", &html, NULL},
                                             {"--begin", &begin, NULL},
                                             {"--end", &end, NULL},
                                             {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count != 1)
        return orr_cli_usage(cli, argv[0], "expected one trace");
    int64_t begin_ns, end_ns;
    if (!read_time(begin, &begin_ns) || !read_time(end, &end_ns))
        return orr_cli_usage(cli, argv[0], "--begin and --end take a number of ns");
    return analyze(cli, words.items[0], as_json, html, begin_ns, end_ns);
}
