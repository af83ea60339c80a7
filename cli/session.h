/* One run of one scenario: from the options of `orrery run` to a trace and judged expectations.
 * `run` does it once, `test` for every case of every file.
 *
 *     struct orr_session_options options;
 *     orr_session_defaults(&options);
 *     options.scenario = "scenarios/streams/overlap.lua";
 *     struct orr_session_result result;
 *     exit = orr_session_run(&options, &memory, &result, &error);
 *     orr_session_result_clear(&result, &memory);
 *
 * What a scenario may say about itself, in comment lines that start at column one:
 *     -- devices: sim:h100*8                what it runs on when --devices is not given
 *     -- runner: per-device                 who launches when --runner is not given
 *     -- test: drop_wait=true --seed 7      a case for `orrery test`; without such a line there is
 *                                           one case, with no arguments
 *
 * Threads: one. */
#ifndef ORR_CLI_SESSION_H
#define ORR_CLI_SESSION_H

#include "cli/cli.h"
#include "cli/run_check.h"
#include "cli/spec.h"
#include "scenarios/scenario.h"

enum { ORR_SESSION_ARGUMENTS_MAX = 256 };

struct orr_session_options {
    const char *scenario; /* path */
    struct orr_scenario_argument arguments[ORR_SESSION_ARGUMENTS_MAX];
    size_t argument_count;
    const char *devices; /* SPEC; NULL: the scenario's, or ORR_SPEC_DEFAULT */
    const char *output;  /* of the trace; NULL: none */
    uint64_t seed;
    bool timing_only;
    const char *runner;  /* "inline" or "per-device"; NULL: the scenario's, or inline */
    const char *perturb; /* rules, see runtime/perturb.h; NULL: none */
    const struct orr_perturb *more_perturb; /* rules beside those; borrowed; NULL: none */
    const char *allocator;                  /* "caching" or "adversarial"; NULL: caching */
    const char *pageable;                   /* "strict" or "staged"; NULL: strict */
    const char *drop_wait;                  /* see cli/drop_wait.h; NULL: none */
    bool count_waits;                       /* only count them */
    uint64_t dropped_wait;                  /* what that means, once the run begins */
    /* Run again on other devices, with other arguments ("key=value key=value"), and compare the
     * results of every operator: see cli/compare.h. All NULL: no. */
    const char *compare_devices, *compare_args, *tolerance;
    bool record_values; /* keep them in the result */
    bool check;         /* watch the run: findings go into the trace and the result */
    struct orr_monitor_options check_options;
    struct orr_cuda_options cuda; /* how to run on GPUs; its `gpus` is not used */
    bool serial_profile;          /* measure each command alone, simulate the devices */
    const char *program;          /* where the run goes as a stream program; NULL: nowhere */
    /* Called with the devices before the run opens them, to look at or to change; NULL: none. */
    void (*tune)(void *context, struct orr_device_spec *devices, size_t count);
    void *tune_context;
    void (*print)(void *context, const char *text, size_t length);
    void *print_context;
};

/* An expectation with its verdict. */
struct orr_judgement {
    bool passed, judged; /* not judged: it needs a trace, and there is none */
    char *text;          /* "file:line: expect.time_ns: got ..., wanted ..."; owned */
};

struct orr_session_result {
    bool ran;               /* the scenario got as far as its end */
    int64_t end_ns;         /* the host's clock when all devices were done */
    uint64_t command_count; /* in the trace */
    uint64_t wait_count;    /* orr_runtime_wait_count at its end */
    uint64_t dropped_wait;  /* 0: none */
    uint64_t drawn_wait;    /* if they were only counted */
    uint32_t device_count;
    char device_name[ORR_DEVICE_NAME_MAX];
    char backend[16];
    bool virtual_clock;
    char idle_perturbation[ORR_PERTURB_TEXT_MAX]; /* one that concerned nothing; "": none */
    struct orr_recording *recording;              /* owned; NULL unless asked for */
    struct orr_run_check check;                   /* empty unless asked for */
    char *comparison;               /* what comparing two runs gave, in lines; owned; or NULL */
    struct orr_judgement *verdicts; /* owned */
    size_t verdict_count, failed_count;
};

/* Everything at its default: output run.db, seed 0. */
void orr_session_defaults(struct orr_session_options *options);

/* Runs. The exit code is ORR_EXIT_NO when an expectation failed; for others the text is in *error.
 * A run that failed keeps its trace, marked with meta.status 'failed'; bad input leaves none
 * behind. The result is to be cleared in any case. */
enum orr_exit orr_session_run(const struct orr_session_options *options,
                              const struct orr_memory *memory,
                              struct orr_session_result *out_result, struct orr_error *error);

/* Frees what a result owns. */
void orr_session_result_clear(struct orr_session_result *result, const struct orr_memory *memory);

/* Options of `orrery run` as they stand on a command line; texts are borrowed from argv. `words`
 * gets the positional ones but the scenario and key=value. ORR_EXIT_USAGE with a message on
 * cli->err. */
enum orr_exit orr_session_parse(const struct orr_cli *cli, int argc, char **argv, const char *usage,
                                bool want_scenario, struct orr_session_options *out_options,
                                int *out_help, int *out_explain);

/* Calls `found` with the rest of every comment line "-- KEY: rest" of a scenario's text, in order;
 * it returns false to stop. `rest` is not NUL-terminated. */
void orr_scenario_comments(const char *text, const char *key, void *context,
                           bool (*found)(void *context, const char *rest, size_t length));

#endif
