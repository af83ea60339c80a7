#include <string.h>
#include <sys/stat.h>

#include "analyzer/analysis.h"
#include "analyzer/phase_report.h"
#include "cli/cli.h"
#include "cli/export.h"
#include "cli/one_timeline.h"
#include "trace/queue_depth.h"

static const char usage[] =
    "usage: orrery export TRACE... -o FILE.json[.gz]\n"
    "\n"
    "Writes a trace as a timeline for https://ui.perfetto.dev (\"Open trace file\") and\n"
    "chrome://tracing. A trace is of any format that `orrery analyze` reads; several are the\n"
    "ranks of one job. The file can be analysed again, nothing of the trace is lost. An existing\n"
    "file is replaced only if `orrery export` wrote it.\n";

/* A file that somebody else wrote stays; an empty one, or no regular file, may be written. */
static int may_write(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return 1;
    return orr_perfetto_recognize(path);
}

/* The analysis' phases as the timeline draws them, and the storage of their texts. */
struct drawn_phases {
    struct orr_perfetto_phase *items;
    char (*classes)[ORR_PHASE_CLASS_MAX];
    char **whys;
    size_t count;
};

static void free_phases(struct drawn_phases *drawn, const struct orr_memory *memory) {
    for (size_t i = 0; drawn->whys && i < drawn->count; i++)
        orr_memory_free(memory, drawn->whys[i]);
    orr_memory_free(memory, drawn->whys);
    orr_memory_free(memory, drawn->classes);
    orr_memory_free(memory, drawn->items);
}

static enum orr_status draw_phases(const struct orr_analysis *analysis,
                                   const struct orr_memory *memory, struct drawn_phases *drawn) {
    const struct orr_phases *phases = &analysis->phases;
    drawn->count = phases->count;
    drawn->items = orr_memory_alloc(memory, (phases->count + 1) * sizeof *drawn->items);
    drawn->classes = orr_memory_alloc(memory, (phases->count + 1) * sizeof *drawn->classes);
    drawn->whys = orr_memory_alloc(memory, (phases->count + 1) * sizeof(char *));
    enum orr_status status = drawn->items && drawn->classes && drawn->whys ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < phases->count; i++) {
        const struct orr_phase *phase = &phases->items[i];
        status = orr_phase_report(analysis, phase, drawn->classes[i], &drawn->whys[i]);
        drawn->items[i] = (struct orr_perfetto_phase){.device = phase->device,
                                                      .begin_ns = phase->begin_ns,
                                                      .end_ns = phase->end_ns,
                                                      .class_name = drawn->classes[i],
                                                      .why = drawn->whys[i]};
    }
    return status;
}

static enum orr_status write_timeline(const struct orr_cli *cli,
                                      const struct orr_timeline *timeline, const char *output,
                                      struct orr_perfetto_counts *counts, struct orr_error *error) {
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis = NULL;
    enum orr_status status = orr_analyze(timeline, &options, cli->memory, &analysis, error);
    if (status != ORR_OK)
        return status;
    struct drawn_phases drawn = {0};
    status = draw_phases(analysis, cli->memory, &drawn);
    if (status != ORR_OK)
        status = orr_error_set(error, status, "out of host memory for the phases");
    else
        status = orr_perfetto_write(timeline, drawn.items, drawn.count, output, cli->memory, counts,
                                    error);
    free_phases(&drawn, cli->memory);
    orr_analysis_destroy(&analysis);
    return status;
}

static enum orr_status export_to(const struct orr_cli *cli, struct orr_timeline *timeline,
                                 const char *output, struct orr_perfetto_counts *out_counts,
                                 struct orr_error *error) {
    if (!may_write(output))
        return orr_error_set(error, ORR_IO,
                             "%s: a file that `orrery export` did not write; it is left alone",
                             output);
    if (orr_timeline_add_queue_depth(timeline) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for the counters");
    return write_timeline(cli, timeline, output, out_counts, error);
}

enum orr_status orr_cli_export_file(const struct orr_cli *cli, const char *const *paths, int count,
                                    const char *output, struct orr_perfetto_counts *out_counts,
                                    struct orr_error *error) {
    struct orr_timeline *timeline = NULL;
    enum orr_status status =
        orr_cli_read_one_timeline(cli, paths, count, NULL, &timeline, NULL, error);
    if (status == ORR_OK)
        status = export_to(cli, timeline, output, out_counts, error);
    orr_timeline_destroy(&timeline);
    return status;
}

static enum orr_exit export_words(const struct orr_cli *cli, const char *const *paths, int count,
                                  const char *output) {
    struct orr_error error = {0};
    struct orr_perfetto_counts counts;
    enum orr_status status = orr_cli_export_file(cli, paths, count, output, &counts, &error);
    if (status != ORR_OK)
        return orr_cli_fail(cli, &error);
    fprintf(cli->out, "%s: %llu slices, %llu arrows, %llu counter values\n", output,
            (unsigned long long)counts.slices, (unsigned long long)counts.arrows,
            (unsigned long long)counts.counters);
    if (counts.bytes > 200000000)
        fprintf(cli->err, "orrery: %s: more than 200 MB of JSON; browsers may not load it\n",
                output);
    return ORR_EXIT_OK;
}

enum orr_exit orr_cli_export(const struct orr_cli *cli, int argc, char **argv) {
    const char *output = NULL;
    int help;
    const struct orr_cli_option options[] = {{"-o", &output, NULL}, {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count == 0)
        return orr_cli_usage(cli, argv[0], "expected a trace");
    if (!output)
        return orr_cli_usage(cli, argv[0], "expected -o FILE.json or -o FILE.json.gz");
    return export_words(cli, words.items, words.count, output);
}
