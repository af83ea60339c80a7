#include <string.h>

#include "cli/cli.h"
#include "cli/one_timeline.h"
#include "trace/timeline_write.h"

static const char usage[] =
    "usage: orrery import TRACE... -o FILE.db [--strict]\n"
    "\n"
    "Writes a trace of any format that `orrery analyze` reads as a database of ours, for\n"
    "sqlite3 (docs/queries.md) and for reading it again without delay. Several traces, or an\n"
    "archive, are the ranks of one job: they become one timeline, their clocks corrected where\n"
    "collectives tell how.\n"
    "\n"
    "  -o FILE.db  where to; an existing file is replaced only if Orrery wrote it\n"
    "  --strict    a trace that is cut or damaged is refused instead of repaired\n";

static void count(const struct orr_cli *cli, size_t number, const char *one, const char *many) {
    if (number > 0)
        fprintf(cli->out, ", %zu %s", number, number == 1 ? one : many);
}

/* What was imported, in one line, and what had to be repaired, a line each. */
static void tell(const struct orr_cli *cli, const char *output, const struct orr_timeline *timeline,
                 size_t traces) {
    const char *format = timeline->source.format;
    fprintf(cli->out, "%s: ", output);
    if (traces > 1)
        fprintf(cli->out, "%zu traces", traces);
    else
        fprintf(cli->out, "a trace");
    fprintf(cli->out, " of format %s: %zu commands", format, timeline->command_count);
    count(cli, timeline->device_count, "device", "devices");
    count(cli, timeline->call_count, "call", "calls");
    count(cli, timeline->sync_count, "synchronization", "synchronizations");
    count(cli, timeline->slice_count, "slice", "slices");
    count(cli, timeline->counter_count, "counter value", "counter values");
    fputs("\n", cli->out);
    for (size_t i = 0; i < timeline->finding_count; i++) {
        const struct orr_timeline_finding *finding = &timeline->findings[i];
        if (strncmp(finding->kind, "import_", 7) == 0)
            fprintf(cli->out, "%s: %s\n", finding->severity, finding->message);
    }
}

enum orr_exit orr_cli_import(const struct orr_cli *cli, int argc, char **argv) {
    const char *output = NULL;
    int strict = 0, help;
    const struct orr_cli_option options[] = {
        {"-o", &output, NULL}, {"--strict", NULL, &strict}, {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count == 0)
        return orr_cli_usage(cli, argv[0], "expected a trace");
    if (!output)
        return orr_cli_usage(cli, argv[0], "expected -o FILE.db");
    struct orr_error error = {0};
    struct orr_timeline *timeline = NULL;
    struct orr_import_options import = {.strict = strict != 0};
    size_t traces = 0;
    enum orr_status status = orr_cli_read_one_timeline(cli, words.items, words.count, &import,
                                                       &timeline, &traces, &error);
    if (status == ORR_OK) {
        status = orr_timeline_write(timeline, output, cli->memory, &error);
        if (status == ORR_INVALID) /* the place, not the trace */
            error.status = ORR_IO;
    }
    if (status == ORR_OK)
        tell(cli, output, timeline, traces);
    orr_timeline_destroy(&timeline);
    return status == ORR_OK ? ORR_EXIT_OK : orr_cli_fail(cli, &error);
}
