#include "cli/drop_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/splitmix.h"

static bool is_random(const char *text) {
    return strcmp(text, "random") == 0;
}

/* 0 if the text is no number from 1. */
static uint64_t read_number(const char *text) {
    size_t digits = strspn(text, "0123456789");
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    return digits == 0 || text[digits] != '\0' || errno == ERANGE ? 0 : number;
}

enum orr_exit orr_drop_wait_check(const struct orr_cli *cli, const char *verb,
                                  const struct orr_session_options *options) {
    const char *text = options->drop_wait;
    if (!text || is_random(text) || read_number(text) > 0)
        return ORR_EXIT_OK;
    return orr_cli_usage(cli, verb, "--drop-wait '%s': expected a number from 1, or random", text);
}

uint64_t orr_drop_wait_draw(const struct orr_runtime *runtime, uint64_t seed) {
    enum { DRAWS = 1000 };
    uint64_t count = orr_runtime_wait_count(runtime), wait = 1;
    for (uint64_t i = 0; count > 0 && i < DRAWS; i++) {
        wait = 1 + orr_splitmix_at(seed, i) % count;
        if (orr_runtime_wait_matters(runtime, wait))
            break;
    }
    return wait;
}

/* Draws one in a run that nobody sees. */
static enum orr_exit draw(const struct orr_session_options *options,
                          const struct orr_memory *memory, uint64_t *out_wait,
                          struct orr_error *error) {
    struct orr_session_options count = *options;
    count.output = count.compare_devices = count.compare_args = NULL;
    count.drop_wait = NULL;
    count.count_waits = true;
    count.record_values = count.check = false;
    count.print = NULL;
    struct orr_session_result result;
    enum orr_exit exit = orr_session_run(&count, memory, &result, error);
    *out_wait = result.drawn_wait;
    orr_session_result_clear(&result, memory);
    return exit == ORR_EXIT_NO ? ORR_EXIT_OK : exit;
}

enum orr_exit orr_drop_wait_resolve(struct orr_session_options *options,
                                    const struct orr_memory *memory, struct orr_error *error) {
    options->dropped_wait = options->count_waits ? ORR_DROP_WAIT_NONE : 0;
    if (!options->drop_wait)
        return ORR_EXIT_OK;
    if (is_random(options->drop_wait))
        return draw(options, memory, &options->dropped_wait, error);
    options->dropped_wait = read_number(options->drop_wait);
    return ORR_EXIT_OK;
}
