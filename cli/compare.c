#include "cli/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/divergence.h"

enum { WORDS_MAX = 4096, NAME_MAX_BYTES = 256 };

static const double TOLERANCE = 1e-5; /* of the largest magnitude in a tensor */

enum orr_exit orr_compare_check(const struct orr_cli *cli, const char *verb,
                                const struct orr_session_options *options) {
    bool compares = options->compare_devices || options->compare_args;
    const char *text = options->tolerance;
    if (!compares && text)
        return orr_cli_usage(cli, verb,
                             "--tolerance goes with --compare-devices or --compare-args");
    if (compares && options->timing_only)
        return orr_cli_usage(cli, verb, "--timing-only runs have no numbers to compare");
    if (options->compare_args && strlen(options->compare_args) >= WORDS_MAX)
        return orr_cli_usage(cli, verb, "--compare-args: more than %d bytes", WORDS_MAX - 1);
    if (!text)
        return ORR_EXIT_OK;
    char *end;
    double tolerance = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(tolerance) || tolerance < 0)
        return orr_cli_usage(cli, verb, "--tolerance '%s': expected a number, 0 or more", text);
    return ORR_EXIT_OK;
}

/* Adds key=value, or replaces the value of a key that is there. */
static bool set_argument(struct orr_session_options *options, char *word) {
    char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return false;
    *equals = '\0';
    size_t at = 0;
    while (at < options->argument_count && strcmp(options->arguments[at].key, word) != 0)
        at++;
    if (at == ORR_SESSION_ARGUMENTS_MAX)
        return false;
    options->arguments[at] = (struct orr_scenario_argument){.key = word, .value = equals + 1};
    options->argument_count += at == options->argument_count;
    return true;
}

/* `words` is cut into pieces, which the arguments refer to. */
static enum orr_exit set_arguments(struct orr_session_options *options, char *words,
                                   struct orr_error *error) {
    char *rest = words;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (!set_argument(options, word)) {
            (void)orr_error_set(error, ORR_INVALID, "--compare-args: '%s': expected key=value",
                                word);
            return ORR_EXIT_USAGE;
        }
    }
    return ORR_EXIT_OK;
}

/* The comparison's text, and a verdict that says the same in a line. */
static enum orr_exit keep(const struct orr_divergence *divergence, const char *text,
                          const struct orr_memory *memory, struct orr_session_result *result) {
    char line[NAME_MAX_BYTES];
    size_t count = result->verdict_count;
    struct orr_judgement *verdicts =
        orr_memory_alloc(memory, (count + 1) * sizeof *result->verdicts);
    snprintf(line, sizeof line, "two runs: %.*s", (int)strcspn(text, "\n"), text);
    result->comparison = orr_memory_text(memory, text, strlen(text));
    char *said = orr_memory_text(memory, line, strlen(line));
    if (!verdicts || !result->comparison || !said) {
        orr_memory_free(memory, verdicts);
        orr_memory_free(memory, said);
        return ORR_EXIT_FAILED;
    }
    if (count > 0)
        memcpy(verdicts, result->verdicts, count * sizeof *verdicts);
    verdicts[count] =
        (struct orr_judgement){.passed = !divergence->parts, .judged = true, .text = said};
    orr_memory_free(memory, result->verdicts);
    result->verdicts = verdicts;
    result->verdict_count++;
    result->failed_count += divergence->parts;
    return divergence->parts ? ORR_EXIT_NO : ORR_EXIT_OK;
}

static enum orr_exit compare(const struct orr_session_options *options,
                             const struct orr_session_result *second,
                             const struct orr_memory *memory, struct orr_session_result *result,
                             struct orr_error *error) {
    struct orr_divergence divergence;
    double tolerance = options->tolerance ? strtod(options->tolerance, NULL) : TOLERANCE;
    enum orr_status status = orr_divergence_find(result->recording, second->recording, tolerance,
                                                 memory, &divergence, error);
    char text[ORR_DIVERGENCE_TEXT_MAX];
    if (status != ORR_OK)
        return orr_cli_exit(status);
    orr_divergence_text(&divergence, "first", "second", text, sizeof text);
    return keep(&divergence, text, memory, result);
}

enum orr_exit orr_compare_runs(const struct orr_session_options *options,
                               const struct orr_memory *memory, struct orr_session_result *result,
                               struct orr_error *error, enum orr_exit first) {
    struct orr_session_options again = *options;
    struct orr_session_result second = {0};
    char words[WORDS_MAX] = "";
    again.output = NULL;
    again.print = NULL;
    again.record_values = true;
    again.devices = options->compare_devices ? options->compare_devices : options->devices;
    again.compare_devices = again.compare_args = NULL;
    if (options->compare_args)
        snprintf(words, sizeof words, "%s", options->compare_args);
    enum orr_exit exit = set_arguments(&again, words, error);
    if (exit == ORR_EXIT_OK)
        exit = orr_session_run(&again, memory, &second, error);
    if (exit <= ORR_EXIT_NO)
        exit = compare(options, &second, memory, result, error);
    orr_session_result_clear(&second, memory);
    return exit == ORR_EXIT_OK ? first : exit;
}
