#include "cli/session.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/compare.h"
#include "cli/cuda_choices.h"
#include "cli/judge.h"
#include "cli/drop_wait.h"
#include "cli/perturbed.h"
#include "runtime/recording.h"
#include "scenarios/machine.h"
#include "trace/sqlite_sink.h"

enum { SPEC_TEXT_MAX = 4096, ARGUMENTS_TEXT_MAX = 4096 };

static const char SET_ASIDE[] = ".previous";
static const char INLINE[] = "inline", PER_DEVICE[] = "per-device";

static bool is_runner(const char *text) {
    return strcmp(text, INLINE) == 0 || strcmp(text, PER_DEVICE) == 0;
}

void orr_session_defaults(struct orr_session_options *options) {
    *options = (struct orr_session_options){.output = "run.db"};
}

void orr_session_result_clear(struct orr_session_result *result, const struct orr_memory *memory) {
    for (size_t i = 0; i < result->verdict_count; i++)
        orr_memory_free(memory, result->verdicts[i].text);
    orr_memory_free(memory, result->verdicts);
    orr_memory_free(memory, result->comparison);
    orr_recording_destroy(&result->recording);
    orr_run_check_clear(&result->check, memory);
    *result = (struct orr_session_result){0};
}

/* --- what a scenario says about itself --- */

void orr_scenario_comments(const char *text, const char *key, void *context,
                           bool (*found)(void *context, const char *rest, size_t length)) {
    size_t key_length = strlen(key);
    while (text && *text) {
        size_t length = strcspn(text, "\n");
        const char *rest = text + 3 + key_length;
        if (length >= 4 + key_length && strncmp(text, "-- ", 3) == 0 &&
            strncmp(text + 3, key, key_length) == 0 && *rest == ':') {
            rest += 1 + strspn(rest + 1, " ");
            size_t left = length - (size_t)(rest - text);
            while (left > 0 && (rest[left - 1] == '\r' || rest[left - 1] == ' '))
                left--;
            if (!found(context, rest, left))
                return;
        }
        text += length + (text[length] == '\n');
    }
}

/* Keeps the first one. */
static bool keep_text(void *context, const char *rest, size_t length) {
    if (length < SPEC_TEXT_MAX) {
        char *text = context;
        memcpy(text, rest, length);
        text[length] = '\0';
    }
    return false;
}

struct place {
    const char *begin;
    int line;
};

static bool keep_line(void *context, const char *rest, size_t length) {
    struct place *place = context;
    (void)length;
    place->line = 1;
    for (const char *at = place->begin; at < rest; at++)
        place->line += *at == '\n';
    return false;
}

/* Line of the first comment of a key; 0 without one. */
static int comment_line(const char *text, const char *key) {
    struct place place = {.begin = text};
    orr_scenario_comments(text, key, &place, keep_line);
    return place.line;
}

/* --- the run --- */

/* One run's state, torn down in reverse order. */
struct session {
    const struct orr_session_options *options;
    const struct orr_memory *memory;
    struct orr_session_result *result;
    struct orr_error *error;
    char *text; /* the scenario */
    size_t length;
    char own_devices[SPEC_TEXT_MAX], own_runner[SPEC_TEXT_MAX]; /* the scenario's, or the default */
    const char *devices, *runner;                               /* those or the options' */
    struct orr_spec spec;
    struct orr_scenario *scenario;
    struct orr_sink *sink;
    struct orr_runtime *runtime;
    struct orr_watch watch;
    char previous[4096 + sizeof SET_ASIDE]; /* where the earlier trace waits; "" if there is none */
};

static enum orr_exit read_scenario(struct session *session) {
    const struct orr_session_options *options = session->options;
    enum orr_status status = orr_text_file_read(options->scenario, session->memory, &session->text,
                                                &session->length, session->error);
    if (status == ORR_IO) /* a scenario that is not there is bad input */
        return ORR_EXIT_INPUT;
    if (status != ORR_OK)
        return orr_cli_exit(status);
    snprintf(session->own_devices, sizeof session->own_devices, "%s", ORR_SPEC_DEFAULT);
    snprintf(session->own_runner, sizeof session->own_runner, "%s", INLINE);
    orr_scenario_comments(session->text, "devices", session->own_devices, keep_text);
    orr_scenario_comments(session->text, "runner", session->own_runner, keep_text);
    if (!is_runner(session->own_runner))
        return orr_cli_exit(orr_error_set(
            session->error, ORR_INVALID, "%s:%d: '-- runner: %s': expected inline or per-device",
            options->scenario, comment_line(session->text, "runner"), session->own_runner));
    session->devices = options->devices ? options->devices : session->own_devices;
    session->runner = options->runner ? options->runner : session->own_runner;
    return ORR_EXIT_OK;
}

static enum orr_exit compile(struct session *session) {
    const struct orr_session_options *options = session->options;
    struct orr_scenario_config config = {.memory = session->memory,
                                         .path = options->scenario,
                                         .text = session->text,
                                         .length = session->length,
                                         .arguments = options->arguments,
                                         .argument_count = options->argument_count,
                                         .print = options->print,
                                         .print_context = options->print_context};
    return orr_cli_exit(orr_scenario_create(&config, &session->scenario, session->error));
}

/* Is this file a trace of ours? By its header: SQLite's magic, and application_id at offset 68. */
static bool is_trace(const char *path) {
    unsigned char header[72];
    FILE *file = fopen(path, "rb");
    bool read = file && fread(header, 1, sizeof header, file) == sizeof header;
    if (file)
        fclose(file);
    return read && memcmp(header, "SQLite format 3", 16) == 0 &&
           ((uint32_t)header[68] << 24 | (uint32_t)header[69] << 16 | (uint32_t)header[70] << 8 |
            header[71]) == ORR_TRACE_APPLICATION_ID;
}

/* Is no other process writing to this trace? One that can't be asked counts as written to. */
static bool is_at_rest(const char *path) {
    sqlite3 *database = NULL;
    bool free = sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
                sqlite3_busy_timeout(database, 0) == SQLITE_OK &&
                sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(database); /* rolls back */
    return free;
}

/* An earlier trace of that name steps aside until it is clear that this run leaves one: a typo in
 * an argument must not cost it. A run that is killed leaves both. A trace that another run is
 * writing stays (the sink then refuses it), and so does whatever has the name to step aside to. */
static void set_aside(struct session *session) {
    const char *output = session->options->output;
    struct stat about;
    size_t length = strlen(output);
    if (lstat(output, &about) != 0 || !S_ISREG(about.st_mode) || !is_trace(output) ||
        length + sizeof SET_ASIDE > sizeof session->previous || !is_at_rest(output))
        return;
    memcpy(session->previous, output, length);
    memcpy(session->previous + length, SET_ASIDE, sizeof SET_ASIDE);
    if (lstat(session->previous, &about) == 0 || rename(output, session->previous) != 0)
        session->previous[0] = '\0'; /* it is replaced in place then */
}

/* After the run: the earlier trace comes back if this one is gone, else it goes. */
static void settle_previous(struct session *session, bool restore) {
    if (session->previous[0] == '\0')
        return;
    if (restore)
        (void)rename(session->previous, session->options->output);
    else
        unlink(session->previous);
}

/* Opens the trace. A file that Orrery did not write is not replaced: the output is not writable. */
static enum orr_exit open_trace(struct session *session) {
    if (!session->options->output)
        return ORR_EXIT_OK;
    set_aside(session);
    struct orr_sqlite_options options = {.mode = session->spec.virtual_clock ? ORR_SQLITE_WAIT
                                                                             : ORR_SQLITE_DROP};
    enum orr_status status = orr_sqlite_sink_open(session->options->output, &options,
                                                  session->memory, &session->sink, session->error);
    if (status != ORR_OK)
        settle_previous(session, true);
    return status == ORR_OK ? ORR_EXIT_OK : ORR_EXIT_FAILED;
}

static enum orr_exit open_runtime(struct session *session) {
    const struct orr_session_options *options = session->options;
    enum orr_status watched =
        options->program ? orr_watch_program_check(options->program, session->error) : ORR_OK;
    if (watched == ORR_OK)
        watched = orr_watch_create(session->memory, options->check ? &options->check_options : NULL,
                                   options->program != NULL, &session->watch, session->error);
    if (watched != ORR_OK)
        return orr_cli_exit(watched);
    struct orr_runtime_config config = {
        .memory = session->memory,
        .open = session->spec.open,
        .options = session->spec.options,
        .specs = session->spec.devices,
        .device_count = (uint32_t)session->spec.device_count,
        .sink = session->sink,
        .timing_only = options->timing_only,
        .runner = strcmp(session->runner, INLINE) == 0 ? ORR_RUNNER_INLINE : ORR_RUNNER_PER_DEVICE,
        .seed = options->seed,
        .drop_wait = options->dropped_wait,
        .pageable = options->pageable && strcmp(options->pageable, "staged") == 0
                        ? ORR_PAGEABLE_STAGED
                        : ORR_PAGEABLE_STRICT,
        .observer = orr_watch_observer(&session->watch),
        .trace_accesses = true};
    return orr_cli_exit(orr_runtime_create(&config, &session->runtime, session->error));
}

/* key=value of the command line, as one text. */
static void arguments_text(const struct orr_session_options *options, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < options->argument_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s=%s", i > 0 ? " " : "",
                                 options->arguments[i].key, options->arguments[i].value);
}

static void write_meta(const struct session *session) {
    const struct orr_session_options *options = session->options;
    char text[ARGUMENTS_TEXT_MAX];
    arguments_text(options, text, sizeof text);
    orr_runtime_meta(session->runtime, "orrery_version", ORR_CLI_VERSION);
    orr_runtime_meta(session->runtime, "scenario", options->scenario);
    orr_runtime_meta(session->runtime, "args", text);
    orr_runtime_meta(session->runtime, "devices", session->devices);
    orr_runtime_meta(session->runtime, "timing_only", options->timing_only ? "true" : "false");
    orr_runtime_meta(session->runtime, "runner", session->runner);
}

static void describe(const struct session *session) {
    struct orr_session_result *result = session->result;
    result->end_ns = orr_runtime_now(session->runtime);
    result->wait_count = orr_runtime_wait_count(session->runtime);
    result->dropped_wait = session->options->dropped_wait;
    if (session->options->count_waits)
        result->drawn_wait = orr_drop_wait_draw(session->runtime, session->options->seed);
    result->device_count = (uint32_t)session->spec.device_count;
    memcpy(result->device_name, session->spec.name, sizeof result->device_name);
    snprintf(result->backend, sizeof result->backend, "%s",
             orr_runtime_backend_name(session->runtime));
    result->virtual_clock = session->spec.virtual_clock;
}

static enum orr_exit runtime_failed(struct session *session, enum orr_status status) {
    (void)orr_error_set(session->error, status, "%s", orr_runtime_error(session->runtime)->text);
    orr_scenario_blame(session->scenario, session->error);
    return orr_cli_exit(status);
}

static enum orr_exit run_scenario(struct session *session) {
    struct orr_session_result *result = session->result;
    write_meta(session);
    if (session->options->record_values) {
        enum orr_status begun =
            orr_recording_begin(session->runtime, ORR_COMPARE_BYTES_MAX, &result->recording);
        if (begun != ORR_OK)
            return runtime_failed(session, begun);
    }
    enum orr_status status = orr_scenario_run(session->scenario, session->runtime, session->error);
    if (status != ORR_OK && orr_scenario_arguments_wrong(session->scenario))
        return ORR_EXIT_USAGE;
    if (status != ORR_OK)
        orr_scenario_blame(session->scenario, session->error);
    if (status != ORR_OK)
        return orr_cli_exit(status);
    if (result->recording)
        status = orr_recording_end(result->recording);
    if (status == ORR_OK)
        status = orr_runtime_finish(session->runtime);
    if (status != ORR_OK)
        return runtime_failed(session, status);
    describe(session);
    if (session->options->dropped_wait > result->wait_count &&
        session->options->dropped_wait != ORR_DROP_WAIT_NONE) {
        (void)orr_error_set(session->error, ORR_INVALID, "--drop-wait %llu: %s has %llu waits",
                            (unsigned long long)session->options->dropped_wait,
                            session->options->scenario, (unsigned long long)result->wait_count);
        return ORR_EXIT_USAGE;
    }
    result->ran = true;
    return ORR_EXIT_OK;
}

/* Rows of the trace's table cmd; 0 if it can't be read, which whoever judges will say. */
static uint64_t count_commands(const char *path) {
    sqlite3 *database = NULL;
    sqlite3_stmt *count = NULL;
    uint64_t rows = 0;
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(database, "SELECT count(*) FROM cmd", -1, &count, NULL) == SQLITE_OK &&
        sqlite3_step(count) == SQLITE_ROW)
        rows = (uint64_t)sqlite3_column_int64(count, 0);
    sqlite3_finalize(count);
    sqlite3_close(database);
    return rows;
}

/* What whoever watched the run has to say. A run that failed is checked as far as it came. */
static enum orr_exit end_watch(struct session *session, enum orr_exit exit) {
    const struct orr_session_options *options = session->options;
    if (!session->runtime || exit == ORR_EXIT_USAGE || exit == ORR_EXIT_INPUT)
        return exit;
    enum orr_status status = ORR_OK;
    if (session->watch.monitor)
        status = orr_run_check_end(session->watch.monitor, session->runtime, session->memory,
                                   &session->result->check, session->error);
    const char *ended_by = session->scenario ? orr_scenario_stopped(session->scenario) : NULL;
    if (status == ORR_OK && session->watch.monitor && ended_by)
        status =
            orr_run_check_ended(&session->result->check, session->memory, ended_by,
                                session->error->text, orr_scenario_stop_fix(session->scenario));
    if (status == ORR_OK && session->watch.recorder && exit == ORR_EXIT_OK)
        status = orr_watch_write_program(&session->watch, session->memory, options->scenario,
                                         options->program, session->error);
    return status == ORR_OK || exit != ORR_EXIT_OK ? exit : ORR_EXIT_FAILED;
}

/* Ends runtime and trace. Bad input leaves no trace behind, nor does a run whose devices did not
 * open; a run that failed leaves a marked one. */
static enum orr_exit close_run(struct session *session, enum orr_exit exit) {
    exit = end_watch(session, exit);
    bool began = session->runtime != NULL;
    if (began && session->result->ran)
        (void)orr_runtime_idle_perturbation(session->runtime, session->result->idle_perturbation,
                                            sizeof session->result->idle_perturbation);
    /* Records that could not be written make the run a failed one, before its trace says how it
     * was. */
    if (session->sink && began && exit == ORR_EXIT_OK &&
        session->sink->flush(session->sink, session->error) != ORR_OK)
        exit = ORR_EXIT_FAILED;
    session->result->ran = session->result->ran && exit == ORR_EXIT_OK;
    orr_runtime_destroy(&session->runtime);
    orr_watch_destroy(&session->watch);
    if (!session->sink)
        return exit;
    struct orr_error *error = session->error;
    enum orr_status status =
        session->sink->close(session->sink, exit == ORR_EXIT_OK ? "ok" : "failed", error);
    session->sink = NULL;
    bool leaves_none = !began || exit == ORR_EXIT_USAGE || exit == ORR_EXIT_INPUT;
    if (leaves_none)
        unlink(session->options->output);
    settle_previous(session, leaves_none);
    if (leaves_none)
        return exit;
    if (exit == ORR_EXIT_OK && status == ORR_OK)
        session->result->command_count = count_commands(session->options->output);
    return exit == ORR_EXIT_OK && status != ORR_OK ? ORR_EXIT_FAILED : exit;
}

static enum orr_exit run_once(const struct orr_session_options *options,
                              const struct orr_memory *memory,
                              struct orr_session_result *out_result, struct orr_error *error) {
    *out_result = (struct orr_session_result){0};
    struct session session = {
        .options = options, .memory = memory, .result = out_result, .error = error};
    enum orr_exit exit = read_scenario(&session);
    if (exit == ORR_EXIT_OK)
        exit = compile(&session);
    if (exit == ORR_EXIT_OK)
        exit = orr_spec_parse(session.devices, &options->cuda, memory, &session.spec, error);
    if (exit == ORR_EXIT_OK && options->serial_profile)
        exit = orr_spec_profile(&session.spec, error);
    if (exit == ORR_EXIT_OK && options->tune)
        options->tune(options->tune_context, session.spec.devices, session.spec.device_count);
    if (exit == ORR_EXIT_OK)
        exit = open_trace(&session);
    if (exit == ORR_EXIT_OK)
        exit = open_runtime(&session);
    if (exit == ORR_EXIT_OK)
        exit = orr_perturbed_begin(session.runtime, options, error);
    if (exit == ORR_EXIT_OK)
        exit = run_scenario(&session);
    exit = close_run(&session, exit);
    if (exit == ORR_EXIT_OK)
        exit = orr_judge(session.scenario, options->output, memory, out_result, error);
    orr_scenario_destroy(&session.scenario);
    orr_spec_clear(&session.spec, memory);
    orr_memory_free(memory, session.text);
    return exit;
}

enum orr_exit orr_session_run(const struct orr_session_options *options,
                              const struct orr_memory *memory,
                              struct orr_session_result *out_result, struct orr_error *error) {
    bool compares = options->compare_devices || options->compare_args;
    struct orr_session_options first = *options;
    first.record_values = first.record_values || compares;
    *out_result = (struct orr_session_result){0};
    enum orr_exit exit = orr_drop_wait_resolve(&first, memory, error);
    if (exit != ORR_EXIT_OK)
        return exit;
    exit = run_once(&first, memory, out_result, error);
    return compares && exit <= ORR_EXIT_NO
               ? orr_compare_runs(options, memory, out_result, error, exit)
               : exit;
}

/* --- the options of `run` --- */

static enum orr_exit read_seed(const struct orr_cli *cli, const char *verb, const char *text,
                               uint64_t *out_seed) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != '\0')
        return orr_cli_usage(cli, verb, "--seed '%s': expected a whole number", text);
    errno = 0;
    unsigned long long seed = strtoull(text, NULL, 10);
    if (errno == ERANGE)
        return orr_cli_usage(cli, verb, "--seed '%s': the largest seed is %llu", text, ULLONG_MAX);
    *out_seed = seed;
    return ORR_EXIT_OK;
}

static enum orr_exit read_runner(const struct orr_cli *cli, const char *verb, const char *text) {
    if (text && !is_runner(text))
        return orr_cli_usage(cli, verb, "--runner '%s': expected inline or per-device", text);
    return ORR_EXIT_OK;
}

static enum orr_exit read_pageable(const struct orr_cli *cli, const char *verb, const char *text) {
    if (text && strcmp(text, "strict") != 0 && strcmp(text, "staged") != 0)
        return orr_cli_usage(cli, verb, "--pageable '%s': expected strict or staged", text);
    return ORR_EXIT_OK;
}

static enum orr_exit read_trace(const struct orr_cli *cli, const char *verb, const char *text,
                                struct orr_session_options *options) {
    if (strcmp(text, "off") == 0)
        options->output = NULL;
    else if (strcmp(text, "full") != 0)
        return orr_cli_usage(cli, verb, "--trace '%s': expected full or off", text);
    return ORR_EXIT_OK;
}

/* The scenario and key=value. */
static enum orr_exit read_words(const struct orr_cli *cli, const char *verb,
                                const struct orr_cli_positional *words, bool want_scenario,
                                struct orr_session_options *options, char **storage) {
    for (int i = 0; i < words->count; i++) {
        const char *word = words->items[i], *equals = strchr(word, '=');
        if (want_scenario && !options->scenario) {
            options->scenario = word;
            continue;
        }
        if (!equals || equals == word)
            return orr_cli_usage(cli, verb, "'%s': expected key=value", word);
        if (options->argument_count == ORR_SESSION_ARGUMENTS_MAX)
            return orr_cli_usage(cli, verb, "more than %d arguments", ORR_SESSION_ARGUMENTS_MAX);
        /* argv is ours to write: the '=' becomes the end of the key. */
        char *key = storage[i];
        key[equals - word] = '\0';
        options->arguments[options->argument_count++] =
            (struct orr_scenario_argument){.key = key, .value = equals + 1};
    }
    if (want_scenario && !options->scenario)
        return orr_cli_usage(cli, verb, "expected a scenario");
    return ORR_EXIT_OK;
}

/* The words of argv that are positional, writable. */
static void writable_words(int argc, char **argv, const struct orr_cli_positional *words,
                           char **out_storage) {
    int at = 0;
    for (int i = 1; i < argc && at < words->count; i++)
        if (argv[i] == words->items[at])
            out_storage[at++] = argv[i];
}

enum orr_exit orr_session_parse(const struct orr_cli *cli, int argc, char **argv, const char *usage,
                                bool want_scenario, struct orr_session_options *out_options,
                                int *out_help, int *out_explain) {
    orr_session_defaults(out_options);
    const char *seed = "0", *trace = "full";
    int timing_only = 0, check = 0, serial_profile = 0;
    struct orr_cuda_words cuda = {0};
    *out_explain = 0;
    const struct orr_cli_option options[] = {
        {"--devices", &out_options->devices, NULL},
        {"-o", &out_options->output, NULL},
        {"--seed", &seed, NULL},
        {"--timing-only", NULL, &timing_only},
        {"--trace", &trace, NULL},
        {"--runner", &out_options->runner, NULL},
        {"--perturb", &out_options->perturb, NULL},
        {"--allocator", &out_options->allocator, NULL},
        {"--pageable", &out_options->pageable, NULL},
        {"--drop-wait", &out_options->drop_wait, NULL},
        {"--explain", NULL, out_explain},
        {"--check", NULL, &check},
        {"--compare-devices", &out_options->compare_devices, NULL},
        {"--compare-args", &out_options->compare_args, NULL},
        {"--tolerance", &out_options->tolerance, NULL},
        {"--cudart", &cuda.cudart, NULL},
        {"--timestamps", &cuda.timestamps, NULL},
        {"--collectives", &cuda.collectives, NULL},
        {"--serial-profile", NULL, &serial_profile},
        {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    char *storage[ORR_CLI_POSITIONAL_MAX];
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, out_help);
    if (exit != ORR_EXIT_OK || *out_help)
        return exit;
    out_options->timing_only = timing_only != 0;
    out_options->check = check != 0;
    out_options->serial_profile = serial_profile != 0;
    if (timing_only && serial_profile)
        return orr_cli_usage(cli, argv[0],
                             "--serial-profile measures commands, which --timing-only leaves out");
    writable_words(argc, argv, &words, storage);
    if ((exit = read_seed(cli, argv[0], seed, &out_options->seed)) != ORR_EXIT_OK ||
        (exit = read_runner(cli, argv[0], out_options->runner)) != ORR_EXIT_OK ||
        (exit = read_trace(cli, argv[0], trace, out_options)) != ORR_EXIT_OK ||
        (exit = read_pageable(cli, argv[0], out_options->pageable)) != ORR_EXIT_OK ||
        (exit = orr_drop_wait_check(cli, argv[0], out_options)) != ORR_EXIT_OK ||
        (exit = orr_perturbed_check(cli, argv[0], out_options)) != ORR_EXIT_OK ||
        (exit = orr_compare_check(cli, argv[0], out_options)) != ORR_EXIT_OK ||
        (exit = orr_cuda_choices_read(cli, argv[0], &cuda, &out_options->cuda)) != ORR_EXIT_OK)
        return exit;
    return read_words(cli, argv[0], &words, want_scenario, out_options, storage);
}
