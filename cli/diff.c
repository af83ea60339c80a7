#include <stdlib.h>
#include <string.h>

#include "analyzer/diff.h"
#include "cli/cli.h"
#include "cli/rank_set.h"
#include "cli/traces.h"

static const char usage[] =
    "usage: orrery diff BEFORE AFTER [--max-regression PCT] [--json] [--strict]\n"
    "\n"
    "Compares two traces of one program, of any formats: what takes longer, what shorter, what\n"
    "is new or gone, and whether chance may have done it. Traces need not be equally long:\n"
    "figures are compared per step, where annotations or graph launches mark steps, else per\n"
    "iteration of what repeats itself; two simulated runs as a whole. An archive of ranks counts\n"
    "as one trace.\n"
    "\n"
    "  --max-regression PCT  exit 1 if a step, or a kernel's time in it, takes more than PCT %\n"
    "                        longer and that is certain; 0 also where the traces cannot tell\n"
    "  --json                one JSON document on stdout, nothing else\n"
    "  --strict              a trace that is cut or damaged is refused instead of repaired\n";

struct side {
    struct orr_traces traces;
    struct orr_timeline *joined; /* of several traces */
    struct orr_analysis *analysis;
};

static void close_side(const struct orr_cli *cli, struct side *side) {
    orr_analysis_destroy(&side->analysis);
    orr_timeline_destroy(&side->joined);
    orr_traces_free(cli->memory, &side->traces);
}

static enum orr_status open_side(const struct orr_cli *cli, const char *path,
                                 const struct orr_import_options *import, struct side *side,
                                 struct orr_error *error) {
    struct orr_analysis_options options = orr_analysis_options_default();
    options.file = path;
    enum orr_status status = orr_cli_read_traces(cli, &path, 1, import, &side->traces, error);
    const struct orr_timeline *timeline = NULL;
    if (status == ORR_OK && side->traces.count == 1) {
        timeline = side->traces.items[0].timeline;
    } else if (status == ORR_OK) {
        status = orr_cli_join_traces(cli, &side->traces, &side->joined, error);
        timeline = side->joined;
    }
    if (status != ORR_OK)
        return status;
    return orr_analyze(timeline, &options, cli->memory, &side->analysis, error);
}

static enum orr_exit report(const struct orr_cli *cli, const struct orr_diff *diff, int as_json) {
    char *text = NULL;
    size_t length = 0;
    enum orr_status status =
        as_json ? orr_diff_json(diff, &text, &length) : orr_diff_text(diff, &text, &length);
    if (status == ORR_OK)
        fwrite(text, 1, length, cli->out);
    else
        fprintf(cli->err, "orrery: the report could not be made: %s\n", orr_status_text(status));
    orr_memory_free(cli->memory, text);
    if (status != ORR_OK)
        return orr_cli_exit(status);
    return diff->regression ? ORR_EXIT_NO : ORR_EXIT_OK;
}

static enum orr_exit compare(const struct orr_cli *cli, const char *const *paths,
                             const struct orr_import_options *import,
                             const struct orr_diff_options *options, int as_json) {
    struct side sides[2] = {{.joined = NULL}, {.joined = NULL}};
    struct orr_error error = {0};
    struct orr_diff *diff = NULL;
    enum orr_status status = open_side(cli, paths[0], import, &sides[0], &error);
    if (status == ORR_OK)
        status = open_side(cli, paths[1], import, &sides[1], &error);
    if (status == ORR_OK)
        status = orr_diff_make(sides[0].analysis, sides[1].analysis, options, cli->memory, &diff,
                               &error);
    enum orr_exit exit = status == ORR_OK ? report(cli, diff, as_json) : orr_cli_fail(cli, &error);
    orr_diff_destroy(&diff);
    close_side(cli, &sides[0]);
    close_side(cli, &sides[1]);
    return exit;
}

/* A number of percent, 0 or more. */
static int read_percent(const char *text, double *out_percent) {
    char *end;
    *out_percent = strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0)
        end++;
    return end != text && *end == '\0' && *out_percent >= 0 && *out_percent <= 1e9;
}

enum orr_exit orr_cli_diff(const struct orr_cli *cli, int argc, char **argv) {
    int as_json = 0, strict = 0, help;
    const char *percent = NULL;
    const struct orr_cli_option options[] = {{"--max-regression", &percent, NULL},
                                             {"--json", NULL, &as_json},
                                             {"--strict", NULL, &strict},
                                             {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count != 2)
        return orr_cli_usage(cli, argv[0], "expected two traces, not %d", words.count);
    struct orr_import_options import = {.strict = strict != 0, .without_accesses = true};
    struct orr_diff_options how = orr_diff_options_default();
    how.names[0] = orr_cli_base_name(words.items[0]);
    how.names[1] = orr_cli_base_name(words.items[1]);
    if (percent && !read_percent(percent, &how.max_regression))
        return orr_cli_usage(cli, argv[0], "--max-regression takes a number of percent, not '%s'",
                             percent);
    return compare(cli, words.items, &import, &how, as_json);
}
