#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/junit.h"
#include "cli/perturbed.h"
#include "cli/session.h"
#include "scenarios/machine.h"

static const char usage[] =
    "usage: orrery test PATH... [--junit FILE] [--perturb 'KEY=VALUE ...'] [--allocator KIND]\n"
    "\n"
    "Runs every scenario below the paths (library modules aside) and judges its expectations.\n"
    "Each comment line `-- test: key=value ... [options of run]` of a scenario is a case; without\n"
    "one there is one case without arguments. Runs are watched for races and use of freed memory\n"
    "(orrery check --help), which expect.clean() and expect.finding() see. Prints TAP; --junit\n"
    "writes the same as JUnit XML.\n"
    "--perturb and --allocator hold for cases that don't say otherwise; see orrery run --help.\n";

enum { PATHS_MAX = 65536, WORDS_MAX = 256, LINE_MAX = 4096 };

/* --- finding scenarios --- */

struct paths {
    char **items; /* owned */
    size_t count, capacity;
};

static enum orr_status add_path(struct paths *paths, const char *path,
                                const struct orr_memory *memory) {
    enum orr_status status = orr_memory_grow(memory, &paths->items, &paths->capacity,
                                             paths->count + 1, sizeof *paths->items, PATHS_MAX);
    if (status != ORR_OK)
        return status;
    paths->items[paths->count] = orr_memory_text(memory, path, strlen(path));
    return paths->items[paths->count++] ? ORR_OK : ORR_NO_MEMORY;
}

static bool is_scenario(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".lua") == 0;
}

static enum orr_status add_tree(struct paths *paths, const char *path, int depth,
                                const struct orr_memory *memory, struct orr_error *error);

/* One entry of a folder. */
static enum orr_status add_entry(struct paths *paths, const char *folder, const char *name,
                                 int depth, const struct orr_memory *memory,
                                 struct orr_error *error) {
    char path[LINE_MAX];
    size_t length = strlen(folder);
    const char *separator = length > 0 && folder[length - 1] == '/' ? "" : "/";
    if (name[0] == '.' || strcmp(name, "library") == 0)
        return ORR_OK;
    if ((size_t)snprintf(path, sizeof path, "%s%s%s", folder, separator, name) >= sizeof path)
        return orr_error_set(error, ORR_INVALID, "%s: a path below it is too long", folder);
    struct stat about;
    if (stat(path, &about) != 0)
        return ORR_OK; /* a dangling link */
    if (S_ISDIR(about.st_mode))
        return add_tree(paths, path, depth + 1, memory, error);
    return is_scenario(name) ? add_path(paths, path, memory) : ORR_OK;
}

static enum orr_status add_tree(struct paths *paths, const char *path, int depth,
                                const struct orr_memory *memory, struct orr_error *error) {
    if (depth > 32)
        return orr_error_set(error, ORR_INVALID, "%s: folders nested too deep", path);
    DIR *folder = opendir(path);
    if (!folder)
        return orr_error_set(error, ORR_INVALID, "%s: %s", path, strerror(errno));
    enum orr_status status = ORR_OK;
    for (struct dirent *entry; status == ORR_OK && (entry = readdir(folder)) != NULL;)
        status = add_entry(paths, path, entry->d_name, depth, memory, error);
    closedir(folder);
    return status;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All scenarios below a path, in alphabetical order. */
static enum orr_status find_scenarios(struct paths *paths, const char *path,
                                      const struct orr_memory *memory, struct orr_error *error) {
    struct stat about;
    if (stat(path, &about) != 0)
        return orr_error_set(error, ORR_INVALID, "%s: %s", path, strerror(errno));
    size_t before = paths->count;
    enum orr_status status = S_ISDIR(about.st_mode) ? add_tree(paths, path, 0, memory, error)
                                                    : add_path(paths, path, memory);
    if (status == ORR_OK && paths->count == before)
        return orr_error_set(error, ORR_INVALID, "%s: no scenario below it", path);
    if (paths->count > before)
        qsort(paths->items + before, paths->count - before, sizeof *paths->items, compare_paths);
    return status;
}

/* --- running cases --- */

struct suite {
    const struct orr_cli *cli;
    struct orr_junit *junit;
    char trace[64]; /* where each case leaves its trace for a while */
    const char *path;
    size_t case_count, failed_count;
    enum orr_exit exit;              /* of a test line that is no options of run */
    const char *perturb, *allocator; /* of cases that have none of their own; or NULL */
};

/* What a scenario prints while it is tested: shown when it fails. */
struct output {
    const struct orr_memory *memory;
    char *text;
    size_t length, capacity;
};

static void keep_output(void *context, const char *text, size_t length) {
    enum { OUTPUT_MAX = 1 << 20 };
    struct output *output = context;
    if (orr_memory_grow(output->memory, &output->text, &output->capacity,
                        output->length + length + 1, 1, OUTPUT_MAX) != ORR_OK)
        return; /* the rest is not shown */
    memcpy(output->text + output->length, text, length);
    output->length += length;
    output->text[output->length] = '\0';
}

/* Lines of a diagnostic, each behind "# ", for TAP, and as they are for JUnit. */
static void say(struct suite *suite, const char *text) {
    orr_junit_detail(suite->junit, text);
    while (text && *text) {
        size_t length = strcspn(text, "\n");
        fprintf(suite->cli->out, "# %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void explain_failure(struct suite *suite, enum orr_exit exit,
                            const struct orr_session_result *result, const struct output *output,
                            const struct orr_error *error) {
    for (size_t i = 0; i < result->verdict_count; i++)
        if (result->verdicts[i].judged && !result->verdicts[i].passed)
            say(suite, result->verdicts[i].text);
    if (exit != ORR_EXIT_NO) {
        char text[ORR_ERROR_TEXT_MAX + 64];
        snprintf(text, sizeof text, "exit code %d: %s", (int)exit, error->text);
        say(suite, text);
    }
    if (output->length > 0) {
        say(suite, "it printed:");
        say(suite, output->text);
    }
}

/* One case; `arguments` are its test line. */
static void run_case(struct suite *suite, const char *arguments,
                     struct orr_session_options *options) {
    struct output output = {.memory = suite->cli->memory};
    struct orr_session_result result;
    struct orr_error error = {0};
    options->output = options->output ? suite->trace : NULL;
    options->check = options->output != NULL; /* expectations about findings see them */
    options->print = keep_output;
    options->print_context = &output;
    enum orr_exit exit = orr_session_run(options, suite->cli->memory, &result, &error);
    bool skipped = exit == ORR_EXIT_UNAVAILABLE, passed = skipped || exit == ORR_EXIT_OK;
    suite->case_count++;
    suite->failed_count += !passed;
    fprintf(suite->cli->out, "%sok %zu - %s%s%s%s%s\n", passed ? "" : "not ", suite->case_count,
            suite->path, arguments[0] ? " " : "", arguments, skipped ? " # SKIP " : "",
            skipped ? error.text : "");
    orr_junit_case(suite->junit, suite->path, arguments[0] ? arguments : "default",
                   skipped  ? ORR_JUNIT_SKIPPED
                   : passed ? ORR_JUNIT_PASSED
                            : ORR_JUNIT_FAILED,
                   exit == ORR_EXIT_NO ? "expectations not met" : error.text);
    if (!passed)
        explain_failure(suite, exit, &result, &output, &error);
    unlink(suite->trace);
    orr_session_result_clear(&result, suite->cli->memory);
    orr_memory_free(suite->cli->memory, output.text);
    fflush(suite->cli->out);
}

/* Cuts a line into words at spaces; no quoting. */
static int cut_words(char *line, char **words) {
    int count = 0;
    for (char *at = strtok(line, " "); at && count < WORDS_MAX; at = strtok(NULL, " "))
        words[count++] = at;
    return count;
}

/* One case from the rest of a test line. */
static bool run_line(void *context, const char *rest, size_t length) {
    struct suite *suite = context;
    char line[LINE_MAX], arguments[LINE_MAX], verb[] = "test";
    char *words[WORDS_MAX + 1] = {verb};
    if (length >= sizeof line)
        length = sizeof line - 1;
    memcpy(line, rest, length);
    line[length] = '\0';
    memcpy(arguments, line, length + 1);
    int count = 1 + cut_words(line, words + 1);
    struct orr_session_options options;
    int help, explain;
    suite->exit =
        orr_session_parse(suite->cli, count, words, usage, false, &options, &help, &explain);
    if (suite->exit != ORR_EXIT_OK)
        return false;
    options.scenario = suite->path;
    options.perturb = options.perturb ? options.perturb : suite->perturb;
    options.allocator = options.allocator ? options.allocator : suite->allocator;
    run_case(suite, arguments, &options);
    return true;
}

static enum orr_exit test_scenario(struct suite *suite, const char *path) {
    char *text;
    size_t length;
    struct orr_error error = {0};
    suite->path = path;
    suite->exit = ORR_EXIT_OK;
    size_t before = suite->case_count;
    if (orr_text_file_read(path, suite->cli->memory, &text, &length, &error) != ORR_OK) {
        (void)orr_cli_fail(suite->cli, &error);
        return ORR_EXIT_INPUT;
    }
    orr_scenario_comments(text, "test", suite, run_line);
    if (suite->exit == ORR_EXIT_OK && suite->case_count == before)
        run_line(suite, "", 0);
    orr_memory_free(suite->cli->memory, text);
    return suite->exit;
}

static enum orr_exit test_all(struct suite *suite, const struct paths *paths) {
    fprintf(suite->cli->out, "TAP version 13\n");
    for (size_t i = 0; i < paths->count; i++) {
        enum orr_exit exit = test_scenario(suite, paths->items[i]);
        if (exit != ORR_EXIT_OK)
            return exit;
    }
    fprintf(suite->cli->out, "1..%zu\n", suite->case_count);
    return suite->failed_count > 0 ? ORR_EXIT_NO : ORR_EXIT_OK;
}

/* Runs everything with a folder for the traces. */
static enum orr_exit test_in_folder(const struct orr_cli *cli, const struct paths *paths,
                                    const struct orr_session_options *options,
                                    struct orr_junit *junit) {
    char folder[] = "/tmp/orrery-XXXXXX";
    if (!mkdtemp(folder)) {
        fprintf(cli->err, "orrery: no folder for traces in /tmp: %s\n", strerror(errno));
        return ORR_EXIT_FAILED;
    }
    struct suite suite = {
        .cli = cli, .junit = junit, .perturb = options->perturb, .allocator = options->allocator};
    snprintf(suite.trace, sizeof suite.trace, "%s/run.db", folder);
    enum orr_exit exit = test_all(&suite, paths);
    rmdir(folder);
    return exit;
}

enum orr_exit orr_cli_test(const struct orr_cli *cli, int argc, char **argv) {
    const char *junit_path = NULL;
    int help;
    struct orr_session_options defaults;
    orr_session_defaults(&defaults);
    const struct orr_cli_option options[] = {{"--junit", &junit_path, NULL},
                                             {"--perturb", &defaults.perturb, NULL},
                                             {"--allocator", &defaults.allocator, NULL},
                                             {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if ((exit = orr_perturbed_check(cli, argv[0], &defaults)) != ORR_EXIT_OK)
        return exit;
    if (words.count == 0)
        return orr_cli_usage(cli, argv[0], "expected a scenario or a folder of scenarios");
    struct paths paths = {0};
    struct orr_error error = {0};
    struct orr_junit junit = {.memory = cli->memory};
    enum orr_status status = junit_path ? orr_junit_check(junit_path, &error) : ORR_OK;
    for (int i = 0; i < words.count && status == ORR_OK; i++)
        status = find_scenarios(&paths, words.items[i], cli->memory, &error);
    if (status != ORR_OK)
        exit = orr_cli_fail(cli, &error);
    else
        exit = test_in_folder(cli, &paths, &defaults, junit_path ? &junit : NULL);
    if (junit_path && exit <= ORR_EXIT_NO && orr_junit_write(&junit, junit_path, &error) != ORR_OK)
        exit = orr_cli_fail(cli, &error);
    orr_junit_clear(&junit);
    for (size_t i = 0; i < paths.count; i++)
        orr_memory_free(cli->memory, paths.items[i]);
    orr_memory_free(cli->memory, paths.items);
    return exit;
}
