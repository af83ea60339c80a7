#include <string.h>

#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/notices.h"
#include "cli/perturbed.h"
#include "cli/session.h"

static const char usage[] =
    "usage: orrery run SCENARIO [key=value ...] [options]\n"
    "\n"
    "  --devices SPEC     what to run on: sim:MACHINE[*N], cpu[*N] or cuda:GPUS[*N], joined\n"
    "                     by +; cuda:0*4 is four devices on one GPU, cuda:0-7 eight GPUs\n"
    "                     (default: the scenario's line `-- devices: SPEC`,\n"
    "                     else " ORR_SPEC_DEFAULT ")\n"
    "  -o FILE            where the trace goes (default run.db); only a trace is replaced\n"
    "  --seed N           seed of everything random (default 0)\n"
    "  --timing-only      times without numbers\n"
    "  --trace full|off   keep a trace or not (default full)\n"
    "  --runner KIND      inline: one host launches for all devices;\n"
    "                     per-device: a dispatch host for each\n"
    "                     (default: the scenario's line `-- runner: KIND`, else inline)\n"
    "  --perturb 'KEY=VALUE ...'  jitter, stragglers, faults; scenarios/README.md has the keys\n"
    "  --allocator KIND   caching, or adversarial: freed memory is reused and undefined at once\n"
    "  --pageable KIND    strict: asynchronous copies read pageable host memory in the order of\n"
    "                     their stream; staged: at the call (default strict)\n"
    "  --drop-wait N|random  leave out the Nth wait of the run on purpose, or one that the seed\n"
    "                     draws: a check should notice\n"
    "  --explain          after the run: each command, and what it waited for\n"
    "  --check            look for races and lifetimes while it runs: rows of table finding, and\n"
    "                     exit code 1 if there are any (see orrery check --help)\n"
    "\n"
    "  --timestamps KIND  on GPUs, where times come from: cupti, events, both (cupti's, compared\n"
    "                     with those of events), host, or auto, the best (default auto)\n"
    "  --collectives KIND on GPUs: emulated, nccl, or auto, NCCL if every device has a GPU of\n"
    "                     its own (default auto)\n"
    "  --cudart PATH      on GPUs, the CUDA runtime library (default: it is searched for)\n"
    "  --serial-profile   on GPUs and CPU devices: each command runs alone and is measured, and\n"
    "                     the devices are simulated with these times; links and collectives take\n"
    "                     what the model of the machine says\n"
    "\n"
    "  --compare-devices SPEC   run again on these devices, and report the first operator whose\n"
    "                           results part (exit code 1)\n"
    "  --compare-args 'KEY=VALUE ...'  run again with these arguments, instead or besides\n"
    "  --tolerance X            what they may differ by, of a tensor's largest magnitude\n"
    "                           (default 1e-5)\n";

static void print(void *context, const char *text, size_t length) {
    fwrite(text, 1, length, context);
}

static void print_verdicts(const struct orr_cli *cli, const struct orr_session_result *result) {
    size_t unjudged = 0;
    for (size_t i = 0; i < result->verdict_count; i++) {
        const struct orr_judgement *verdict = &result->verdicts[i];
        unjudged += !verdict->judged;
        if (verdict->judged && !verdict->passed)
            fprintf(cli->out, "failed: %s\n", verdict->text);
    }
    size_t met = result->verdict_count - result->failed_count - unjudged;
    if (result->verdict_count == 0)
        return;
    fprintf(cli->out, "expectations: %zu met, %zu failed", met, result->failed_count);
    if (unjudged > 0)
        fprintf(cli->out, ", %zu not judged (no trace)", unjudged);
    fputc('\n', cli->out);
}

/* 275000 as "275.000 us". */
static void print_time(FILE *out, int64_t ns) {
    static const char *const units[] = {"us", "ms", "s"};
    double value = (double)ns / 1e3;
    int unit = 0;
    while (value >= 1000 && unit < 2) {
        value /= 1000;
        unit++;
    }
    fprintf(out, "%.3f %s", value, units[unit]);
}

static void print_summary(const struct orr_cli *cli, const struct orr_session_options *options,
                          const struct orr_session_result *result) {
    fprintf(cli->out, "%s: ", options->scenario);
    print_time(cli->out, result->end_ns);
    fprintf(cli->out, "%s on %u x %s (%s)", result->virtual_clock ? " of virtual time" : "",
            result->device_count, result->device_name, result->backend);
    if (options->output)
        fprintf(cli->out, ", %llu commands, trace in %s", (unsigned long long)result->command_count,
                options->output);
    fputc('\n', cli->out);
    if (result->dropped_wait > 0)
        fprintf(cli->out, "wait %llu of %llu left out on purpose\n",
                (unsigned long long)result->dropped_wait, (unsigned long long)result->wait_count);
}

enum orr_exit orr_cli_run(const struct orr_cli *cli, int argc, char **argv) {
    struct orr_session_options options;
    int help, explain;
    enum orr_exit exit = orr_session_parse(cli, argc, argv, usage, true, &options, &help, &explain);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (explain && !options.output)
        return orr_cli_usage(cli, argv[0], "--explain needs a trace");
    options.print = print;
    options.print_context = cli->out;
    struct orr_session_result result;
    struct orr_error error = {0};
    exit = orr_session_run(&options, cli->memory, &result, &error);
    if (result.ran)
        print_summary(cli, &options, &result);
    if (exit == ORR_EXIT_OK || exit == ORR_EXIT_NO) {
        print_verdicts(cli, &result);
        if (result.comparison)
            fputs(result.comparison, cli->out);
        if (options.check && options.output)
            orr_run_check_summary(&result.check, options.scenario, cli->out);
        else if (options.check)
            orr_run_check_print(&result.check, options.scenario, false, cli->out);
        orr_perturbed_warn(cli, &result);
        if (result.ran && options.output)
            orr_notices_print(cli, options.output);
        if (exit == ORR_EXIT_OK)
            exit = orr_run_check_exit(&result.check);
    } else {
        (void)orr_cli_fail(cli, &error);
    }
    if (explain && result.ran && exit <= ORR_EXIT_NO) {
        enum orr_exit explained = orr_explain(cli, options.output);
        exit = explained == ORR_EXIT_OK ? exit : explained;
    }
    orr_session_result_clear(&result, cli->memory);
    return exit;
}
