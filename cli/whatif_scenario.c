/* What-if of a scenario: a run, a prediction from its trace, and the same run with the change. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/perturbed.h"
#include "cli/whatif.h"
#include "trace/timeline.h"

enum { WORDS_MAX = 4096, QUEUE_DEPTH_DEFAULT = 1024 };

/* A run and its analysis; freed in reverse. */
struct run {
    struct orr_timeline *timeline;
    struct orr_analysis *analysis;
};

static void print(void *context, const char *text, size_t length) {
    fwrite(text, 1, length, context);
}

static void ignore(void *context, const char *text, size_t length) {
    (void)context;
    (void)text;
    (void)length;
}

static void run_free(struct run *run) {
    orr_analysis_destroy(&run->analysis);
    orr_timeline_destroy(&run->timeline);
}

/* Runs, and reads and analyses what it left; the file goes, unless it was asked for. */
static enum orr_exit run_once(const struct orr_cli *cli, const struct orr_session_options *options,
                              bool keeps_file, struct run *out_run) {
    struct orr_error error = {0};
    struct orr_session_result result;
    struct orr_analysis_options defaults = orr_analysis_options_default();
    defaults.file = options->scenario;
    enum orr_exit exit = orr_session_run(options, cli->memory, &result, &error);
    bool ran = result.ran; /* an expectation that failed is no failure of the run */
    orr_session_result_clear(&result, cli->memory);
    if (!ran) {
        exit = exit == ORR_EXIT_OK ? ORR_EXIT_FAILED : exit;
        (void)orr_cli_fail(cli, &error);
    }
    enum orr_status status = ORR_OK;
    if (ran)
        status = orr_timeline_read(options->output, cli->memory, &out_run->timeline, &error);
    if (ran && status == ORR_OK)
        status = orr_analyze(out_run->timeline, &defaults, cli->memory, &out_run->analysis, &error);
    if (!keeps_file)
        unlink(options->output);
    if (!ran)
        return exit;
    return status == ORR_OK ? ORR_EXIT_OK : orr_cli_fail(cli, &error);
}

static int64_t apart(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

/* Op by op, if the second run has the same ones. */
static void compare(const struct orr_whatif *whatif, const struct orr_events *again,
                    struct orr_whatif_rerun *rerun) {
    const struct orr_events *first = &whatif->analysis->events;
    rerun->comparable = first->op_count == again->op_count;
    for (size_t i = 0; i < again->op_count; i++) {
        const struct orr_events_op *op = &again->ops[i];
        bool start = i == 0 || op->start_ns < rerun->all.begin_ns;
        rerun->all.begin_ns = start ? op->start_ns : rerun->all.begin_ns;
        rerun->all.end_ns =
            i == 0 || op->end_ns > rerun->all.end_ns ? op->end_ns : rerun->all.end_ns;
        if (!rerun->comparable)
            continue;
        uint32_t item = whatif->replay->item_of[i];
        if (item == ORR_EVENTS_NONE || strcmp(op->name, first->ops[i].name) != 0 ||
            op->stream != first->ops[i].stream) {
            rerun->comparable = false;
            continue;
        }
        int64_t start_error = apart(op->start_ns, whatif->times.start[item]);
        int64_t end_error = apart(op->end_ns, whatif->times.end[item]);
        int64_t error = start_error > end_error ? start_error : end_error;
        rerun->most_ns = error > rerun->most_ns ? error : rerun->most_ns;
    }
}

/* Adds key=value, or replaces the value of a key that is there. `words` is cut into pieces. */
static bool set_arguments(struct orr_session_options *options, char *words) {
    char *rest = words;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        size_t at = 0;
        if (!equals || equals == word)
            return false;
        *equals = '\0';
        while (at < options->argument_count && strcmp(options->arguments[at].key, word) != 0)
            at++;
        if (at == ORR_SESSION_ARGUMENTS_MAX)
            return false;
        options->arguments[at] = (struct orr_scenario_argument){.key = word, .value = equals + 1};
        options->argument_count += at == options->argument_count;
    }
    return true;
}

/* The second run, with the change. What it prints is not printed again. */
static enum orr_exit run_again(const struct orr_cli *cli, const struct orr_session_options *options,
                               const struct orr_whatif *whatif, struct orr_whatif_change *change,
                               struct orr_whatif_rerun *rerun) {
    struct orr_session_options again = *options;
    struct run run = {0};
    char words[WORDS_MAX] = "";
    if (change->request->rerun)
        snprintf(words, sizeof words, "%s", change->request->rerun);
    if (!set_arguments(&again, words))
        return orr_cli_usage(cli, "whatif", "--rerun '%s': expected key=value",
                             change->request->rerun);
    again.tune = orr_whatif_tune;
    again.tune_context = change;
    again.print = ignore;
    again.perturb = NULL;
    again.more_perturb = &change->perturb;
    enum orr_exit exit = run_once(cli, &again, false, &run);
    if (exit == ORR_EXIT_OK) {
        rerun->ran = true;
        compare(whatif, &run.analysis->events, rerun);
    }
    run_free(&run);
    return exit;
}

static enum orr_exit answer(const struct orr_cli *cli, const struct orr_session_options *options,
                            const struct run *run, struct orr_whatif_change *change,
                            const char *second_path) {
    const struct orr_whatif_request *request = change->request;
    struct orr_error error = {0};
    struct orr_whatif *whatif = NULL;
    struct orr_whatif_rerun rerun = {0};
    bool simulated = run->analysis->events.source.modelled && change->spec_count > 0;
    struct orr_whatif_options machine = {0};
    if (simulated) {
        const struct orr_device_spec *spec = &change->specs[0];
        machine = (struct orr_whatif_options){
            .queue_depth = spec->queue_depth ? spec->queue_depth : QUEUE_DEPTH_DEFAULT,
            .graph_launch_ns = spec->host_graph_ns > 1 ? spec->host_graph_ns : 1,
            .graph_node_ns = spec->graph_node_ns,
            .work = orr_whatif_work,
            .changed = orr_whatif_changed,
            .context = change};
    }
    if (orr_whatif_compute(run->analysis, request->settings, request->setting_count, &machine,
                           cli->memory, &whatif, &error) != ORR_OK)
        return orr_cli_fail(cli, &error);
    const char *runner = orr_timeline_meta(run->timeline, "runner");
    change->dispatches = runner && strcmp(runner, "per-device") == 0;
    orr_whatif_plan(whatif, change);
    bool again = !request->no_rerun && simulated && change->possible;
    snprintf(rerun.how, sizeof rerun.how, "%s",
             request->no_rerun ? "--no-rerun"
             : simulated       ? change->how
                               : "only simulated devices can be changed");
    enum orr_exit exit = ORR_EXIT_OK;
    if (again) {
        struct orr_session_options second = *options;
        second.output = second_path;
        exit = run_again(cli, &second, whatif, change, &rerun);
    }
    if (exit == ORR_EXIT_OK)
        exit = orr_whatif_print(cli, whatif, &rerun, request->as_json);
    orr_whatif_destroy(&whatif);
    return exit;
}

static enum orr_exit in_folder(const struct orr_cli *cli, struct orr_session_options *options,
                               struct orr_whatif_change *change, bool keeps_file) {
    char folder[] = "/tmp/orrery-XXXXXX", first[64], second[64];
    if (!mkdtemp(folder)) {
        fprintf(cli->err, "orrery: no folder for traces in /tmp: %s\n", strerror(errno));
        return ORR_EXIT_FAILED;
    }
    snprintf(first, sizeof first, "%s/first.db", folder);
    snprintf(second, sizeof second, "%s/second.db", folder);
    struct run run = {0};
    options->output = keeps_file ? options->output : first;
    options->tune = orr_whatif_keep;
    options->tune_context = change;
    enum orr_exit exit = run_once(cli, options, keeps_file, &run);
    if (exit == ORR_EXIT_OK)
        exit = answer(cli, options, &run, change, second);
    run_free(&run);
    rmdir(folder);
    return exit;
}

static bool names_output(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-o") == 0 || strncmp(argv[i], "-o=", 3) == 0)
            return true;
    return false;
}

enum orr_exit orr_whatif_scenario(const struct orr_cli *cli, int argc, char **argv,
                                  const char *usage, const struct orr_whatif_request *request) {
    struct orr_session_options options;
    int help, explain;
    bool keeps_file = names_output(argc, argv);
    enum orr_exit exit = orr_session_parse(cli, argc, argv, usage, true, &options, &help, &explain);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (explain || options.compare_devices || options.compare_args)
        return orr_cli_usage(cli, argv[0], "--explain and --compare-... are for orrery run");
    if (!options.output)
        return orr_cli_usage(cli, argv[0], "--trace off leaves nothing to predict from");
    struct orr_whatif_change change = {.request = request, .memory = cli->memory};
    struct orr_error error = {0};
    if (options.perturb && orr_perturb_parse(&change.perturb, options.perturb, &error) != ORR_OK)
        return orr_cli_usage(cli, argv[0], "%s", error.text);
    options.print = print;
    options.print_context = request->as_json ? cli->err : cli->out;
    exit = in_folder(cli, &options, &change, keeps_file);
    orr_memory_free(cli->memory, change.specs);
    orr_memory_free(cli->memory, change.spans);
    return exit;
}
