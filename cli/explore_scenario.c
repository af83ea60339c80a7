/* `orrery explore SCENARIO` and `orrery replay` of what it saved. */
#include "cli/explore_scenario.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/explore.h"
#include "cli/session.h"
#include "hazards/explore/pool.h"
#include "scenarios/machine.h"

enum { BUDGET_DEFAULT = 1000000, DEPTH_DEFAULT = 3, DEPTH_MAX = 16 };

/* --- the scenario --- */

static bool keep_first(void *context, const char *rest, size_t length) {
    struct orr_explored *explored = context;
    explored->devices = orr_memory_text(explored->memory, rest, length);
    return false;
}

enum orr_exit orr_explored_open(struct orr_explored *explored, const char *devices,
                                struct orr_error *error) {
    enum orr_status status = orr_text_file_read(explored->path, explored->memory, &explored->text,
                                                &explored->length, error);
    if (status != ORR_OK)
        return status == ORR_IO ? ORR_EXIT_INPUT : orr_cli_exit(status);
    if (!devices && !explored->devices)
        orr_scenario_comments(explored->text, "devices", explored, keep_first);
    if (!explored->devices) {
        const char *spec = devices ? devices : ORR_SPEC_DEFAULT;
        explored->devices = orr_memory_text(explored->memory, spec, strlen(spec));
    }
    if (!explored->devices)
        return orr_cli_exit(orr_error_set(error, ORR_NO_MEMORY, "out of host memory"));
    return orr_spec_parse(explored->devices, NULL, explored->memory, &explored->spec, error);
}

enum orr_status orr_explored_argument(struct orr_explored *explored, const char *word) {
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || explored->argument_count == ORR_EXPLORE_ARGUMENTS_MAX)
        return ORR_INVALID;
    char *key = orr_memory_text(explored->memory, word, strlen(word));
    if (!key)
        return ORR_NO_MEMORY;
    key[equals - word] = '\0';
    explored->arguments[explored->argument_count++] =
        (struct orr_scenario_argument){.key = key, .value = key + (equals - word) + 1};
    return ORR_OK;
}

void orr_explored_clear(struct orr_explored *explored) {
    for (size_t i = 0; i < explored->argument_count; i++)
        orr_memory_free(explored->memory, (void *)(uintptr_t)explored->arguments[i].key);
    orr_spec_clear(&explored->spec, explored->memory);
    orr_memory_free(explored->memory, explored->text);
    orr_memory_free(explored->memory, explored->devices);
    *explored = (struct orr_explored){.memory = explored->memory};
}

struct orr_explorer_config orr_explored_config(const struct orr_explored *explored) {
    return (struct orr_explorer_config){.memory = explored->memory,
                                        .path = explored->path,
                                        .text = explored->text,
                                        .length = explored->length,
                                        .arguments = explored->arguments,
                                        .argument_count = explored->argument_count,
                                        .specs = explored->spec.devices,
                                        .device_count = (uint32_t)explored->spec.device_count,
                                        .seed = explored->seed};
}

/* Opens an explorer, and executes the default schedule: a program that fails in it, other than by
 * what it finds, is not one to explore. */
static enum orr_exit open_explorer(const struct orr_explored *explored,
                                   struct orr_explorer **out_explorer, struct orr_execution *first,
                                   struct orr_error *error) {
    struct orr_explorer_config config = orr_explored_config(explored);
    enum orr_status status = orr_explorer_create(&config, out_explorer, error);
    if (status != ORR_OK)
        return orr_cli_exit(status);
    status = orr_explorer_follow(*out_explorer, NULL, 0, true, first);
    if (status != ORR_OK || (first->status != ORR_OK && !first->stopped)) {
        *error = *orr_explorer_error(*out_explorer);
        if (status == ORR_OK && first->arguments_wrong)
            return ORR_EXIT_USAGE;
        return orr_cli_exit(status != ORR_OK ? status : first->status);
    }
    return ORR_EXIT_OK;
}

/* --- explore --- */

struct request {
    struct orr_explored explored;
    struct orr_explore_order order;
    const char *output;
    bool as_json;
};

static enum orr_exit take_number(const struct orr_cli *cli, const char *option, const char *text,
                                 uint64_t least, uint64_t most, uint64_t *out_value) {
    char *end;
    if (!text)
        return ORR_EXIT_OK;
    bool digits = text[0] >= '0' && text[0] <= '9' && strlen(text) < 20;
    uint64_t value = digits ? strtoull(text, &end, 10) : 0;
    if (!digits || *end != '\0' || value < least || value > most)
        return orr_cli_usage(cli, "explore",
                             "%s '%s': a whole number from %llu to %llu was expected", option, text,
                             (unsigned long long)least, (unsigned long long)most);
    *out_value = value;
    return ORR_EXIT_OK;
}

static enum orr_exit take_strategy(const struct orr_cli *cli, const char *text,
                                   enum orr_untimed_strategy *out_strategy) {
    static const char *const names[] = {"dpor", "pct", "random"};
    static const enum orr_untimed_strategy all[] = {ORR_UNTIMED_DPOR, ORR_UNTIMED_PCT,
                                                    ORR_UNTIMED_RANDOM};
    for (int i = 0; i < 3; i++)
        if (!text || strcmp(text, names[i]) == 0) {
            *out_strategy = all[i];
            return ORR_EXIT_OK;
        }
    const char *nearest = orr_nearest_name(text, names, 3);
    return orr_cli_usage(cli, "explore", "--strategy '%s': dpor, pct or random was expected%s%s%s",
                         text, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                         nearest ? "'?" : "");
}

struct texts {
    const char *devices, *strategy, *budget, *depth, *seed, *threads, *output, *id;
    int as_json;
};

static enum orr_exit take_options(const struct orr_cli *cli, const struct texts *texts,
                                  struct request *request) {
    struct orr_explore_order *order = &request->order;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t depth = DEPTH_DEFAULT, seed = 0;
    uint64_t threads = processors < 1                      ? 1
                       : processors > ORR_POOL_THREADS_MAX ? ORR_POOL_THREADS_MAX
                                                           : (uint64_t)processors;
    order->budget = BUDGET_DEFAULT;
    if (texts->id)
        return orr_cli_usage(cli, "explore", "--id is for stream programs");
    enum orr_exit exit = take_strategy(cli, texts->strategy, &order->options.strategy);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--budget", texts->budget, 1, UINT64_C(1) << 48, &order->budget);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--depth", texts->depth, 1, DEPTH_MAX, &depth);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--seed", texts->seed, 0, INT64_MAX, &seed);
    if (exit == ORR_EXIT_OK)
        exit = take_number(cli, "--threads", texts->threads, 1, ORR_POOL_THREADS_MAX, &threads);
    order->options.depth = (uint32_t)depth;
    order->options.seed = request->explored.seed = seed;
    order->threads = (uint32_t)threads;
    return exit;
}

static enum orr_exit take_words(const struct orr_cli *cli, const struct orr_cli_positional *words,
                                struct request *request) {
    for (int i = 0; i < words->count; i++) {
        if (i == 0) {
            request->explored.path = words->items[i];
            continue;
        }
        enum orr_status status = orr_explored_argument(&request->explored, words->items[i]);
        if (status == ORR_INVALID)
            return orr_cli_usage(cli, "explore", "'%s': expected key=value", words->items[i]);
        if (status != ORR_OK)
            return ORR_EXIT_FAILED;
    }
    return ORR_EXIT_OK;
}

static void print_progress(void *context, uint64_t executions) {
    const struct orr_cli *cli = context;
    fprintf(cli->err, "\r%llu executions", (unsigned long long)executions);
    fflush(cli->err);
}

static enum orr_exit answer_all(const struct orr_cli *cli, struct request *request,
                                struct orr_explore_answer *answer, struct orr_error *error) {
    enum orr_status status = ORR_OK;
    if (request->as_json)
        status = orr_explore_print_json(cli->out, &request->explored, &request->order, answer);
    else
        orr_explore_print(cli->out, &request->explored, answer,
                          request->order.options.strategy == ORR_UNTIMED_DPOR);
    if (status == ORR_OK && request->output && answer->shown_count > 0)
        status = orr_cli_schedule_check(request->output, error);
    if (status == ORR_OK && request->output && answer->shown_count > 0)
        status = orr_scenario_schedule_save(&request->explored, &answer->shown[0], request->output,
                                            error);
    if (status != ORR_OK)
        return ORR_EXIT_FAILED;
    if (request->output && answer->shown_count == 0)
        fprintf(cli->err, "orrery: nothing was found; %s was not written\n", request->output);
    return answer->shown_count > 0 ? ORR_EXIT_NO : ORR_EXIT_OK;
}

static enum orr_exit explore(const struct orr_cli *cli, struct request *request,
                             struct orr_explorer *explorer, const struct orr_execution *first,
                             struct orr_error *error) {
    struct orr_explore_answer answer;
    struct orr_execution silent; /* as the search's: a program may print lines */
    uint32_t steps;
    if (orr_explorer_follow(explorer, NULL, 0, false, &silent) != ORR_OK)
        return orr_cli_exit(
            orr_error_set(error, ORR_NO_MEMORY, "%s", orr_explorer_error(explorer)->text));
    first = &silent;
    (void)orr_untimed_steps(orr_explorer_backend(explorer), &steps);
    request->order.options.length = steps;
    bool shows = isatty(fileno(cli->err)) != 0;
    request->order.progress = shows ? print_progress : NULL;
    request->order.progress_context = (void *)(uintptr_t)cli;
    enum orr_status status = orr_explore_search_all(&request->explored, &request->order, explorer,
                                                    first, &answer, error);
    if (shows)
        fprintf(cli->err, "\r\033[K");
    enum orr_exit exit = orr_cli_exit(status);
    if (status == ORR_OK) {
        status = orr_explore_show_all(explorer, first, &answer);
        if (status != ORR_OK)
            exit = orr_cli_exit(
                orr_error_set(error, status, "%s", orr_explorer_error(explorer)->text));
        else
            exit = answer_all(cli, request, &answer, error);
    }
    orr_explore_answer_clear(&answer);
    return exit;
}

static enum orr_exit explore_request(const struct orr_cli *cli, struct request *request,
                                     const char *devices) {
    struct orr_error error = {0};
    struct orr_explorer *explorer = NULL;
    struct orr_execution first;
    enum orr_exit exit = ORR_EXIT_FAILED;
    if (!request->output || orr_cli_schedule_check(request->output, &error) == ORR_OK)
        exit = orr_explored_open(&request->explored, devices, &error);
    if (exit == ORR_EXIT_OK)
        exit = open_explorer(&request->explored, &explorer, &first, &error);
    if (exit == ORR_EXIT_OK)
        exit = explore(cli, request, explorer, &first, &error);
    if (exit > ORR_EXIT_NO)
        (void)orr_cli_fail(cli, &error);
    orr_explorer_destroy(&explorer);
    return exit;
}

enum orr_exit orr_cli_explore_scenario(const struct orr_cli *cli, int argc, char **argv,
                                       const char *usage) {
    struct texts texts = {0};
    int help;
    const struct orr_cli_option options[] = {
        {"--devices", &texts.devices, NULL}, {"--strategy", &texts.strategy, NULL},
        {"--budget", &texts.budget, NULL},   {"--depth", &texts.depth, NULL},
        {"--seed", &texts.seed, NULL},       {"--threads", &texts.threads, NULL},
        {"--out", &texts.output, NULL},      {"--id", &texts.id, NULL},
        {"--json", NULL, &texts.as_json},    {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    struct request *request = orr_memory_alloc(cli->memory, sizeof *request);
    if (!request)
        return ORR_EXIT_FAILED;
    request->explored.memory = cli->memory;
    request->output = texts.output;
    request->as_json = texts.as_json != 0;
    exit = take_options(cli, &texts, request);
    if (exit == ORR_EXIT_OK)
        exit = take_words(cli, &words, request);
    if (exit == ORR_EXIT_OK)
        exit = explore_request(cli, request, texts.devices);
    orr_explored_clear(&request->explored);
    orr_memory_free(cli->memory, request);
    return exit;
}

/* --- replay --- */

/* A site without the scenario's own path, which may be another one now. */
static const char *line_of(const char *site, const char *path) {
    size_t length = strlen(path);
    return strncmp(site, path, length) == 0 && site[length] == ':' ? site + length : site;
}

/* The first step that is another one now; ORR_OK if all are as they were. */
static enum orr_status compare(const struct orr_scenario_schedule *schedule,
                               const struct orr_shown *now, struct orr_error *error) {
    const struct orr_shown *saved = &schedule->shown;
    for (uint32_t i = 0; i < saved->shown_steps; i++) {
        const struct orr_shown_step *old = &saved->steps[i];
        if (i >= now->shown_steps)
            return orr_error_set(error, ORR_INVALID,
                                 "schedule no longer fits: step %u wants '%s' by %s at %s, but the "
                                 "scenario has ended by then",
                                 (unsigned)(i + 1), old->does, old->by, old->site);
        const struct orr_shown_step *new = &now->steps[i];
        if (strcmp(old->by, new->by) != 0 || strcmp(old->does, new->does) != 0 ||
            strcmp(line_of(old->site, schedule->path),
                   line_of(new->site, schedule->explored.path)) != 0)
            return orr_error_set(error, ORR_INVALID,
                                 "schedule no longer fits: step %u wants '%s' by %s at %s, but it "
                                 "is '%s' by %s at %s",
                                 (unsigned)(i + 1), old->does, old->by, old->site, new->does,
                                 new->by, new->site);
    }
    if (saved->length != now->length)
        return orr_error_set(error, ORR_INVALID,
                             "schedule no longer fits: it had %u steps, and there are %u now",
                             (unsigned)saved->length, (unsigned)now->length);
    if (strcmp(saved->result, now->result) != 0)
        return orr_error_set(error, ORR_INVALID,
                             "schedule no longer fits: the same steps have another result now");
    return ORR_OK;
}

static enum orr_status print_replay(const struct orr_cli *cli, const struct orr_explored *explored,
                                    struct orr_shown *shown, bool as_json) {
    if (!as_json) {
        fprintf(cli->out, "%s: replayed\n%s: %s\n", explored->path, orr_found_text(shown->kind),
                shown->message);
        orr_explore_print_steps(cli->out, shown);
        return ORR_OK;
    }
    const struct orr_explore_order order = {.options = {.strategy = ORR_UNTIMED_FOLLOW}};
    const struct orr_explore_answer answer = {
        .executions = 1, .orders = 1, .capped = true, .shown = shown, .shown_count = 1};
    return orr_explore_print_json(cli->out, explored, &order, &answer);
}

static enum orr_exit replay(const struct orr_cli *cli, struct orr_scenario_schedule *schedule,
                            bool as_json, struct orr_error *error) {
    struct orr_explorer *explorer = NULL;
    struct orr_execution first, execution;
    const struct orr_memory *memory = cli->memory;
    struct orr_picture normal = {0};
    struct orr_shown now = {
        .plan = schedule->shown.plan, .plan_length = schedule->shown.shown_steps, .times = 1};
    enum orr_exit exit = open_explorer(&schedule->explored, &explorer, &first, error);
    if (exit == ORR_EXIT_OK) {
        enum orr_status status = orr_picture_take(explorer, memory, &normal);
        if (status == ORR_OK)
            status = orr_explorer_follow(explorer, schedule->shown.plan,
                                         schedule->shown.plan_length, true, &execution);
        if (status == ORR_OK)
            status = orr_explore_describe(explorer, &schedule->found, &execution, first.numbers,
                                          &normal, &now);
        if (status == ORR_OK)
            status = compare(schedule, &now, error);
        if (status == ORR_OK)
            status = print_replay(cli, &schedule->explored, &now, as_json);
        if (status != ORR_OK)
            orr_error_set(error, status, "%s", orr_status_text(status));
        exit = status == ORR_OK ? ORR_EXIT_NO : orr_cli_exit(status);
    }
    orr_memory_free(memory, now.steps);
    orr_picture_clear(&normal);
    orr_explorer_destroy(&explorer);
    return exit;
}

enum orr_exit orr_cli_replay_scenario(const struct orr_cli *cli, const char *path, const char *text,
                                      size_t length, const char *scenario, bool as_json) {
    struct orr_error error = {0};
    struct orr_scenario_schedule *schedule = orr_memory_alloc(cli->memory, sizeof *schedule);
    if (!schedule)
        return ORR_EXIT_FAILED;
    enum orr_status status =
        orr_scenario_schedule_read(cli->memory, text, length, schedule, &error);
    enum orr_exit exit = orr_cli_exit(status);
    if (status == ORR_OK) {
        schedule->explored.path = scenario ? scenario : schedule->path;
        exit = orr_explored_open(&schedule->explored, NULL, &error);
    }
    if (exit == ORR_EXIT_OK)
        exit = replay(cli, schedule, as_json, &error);
    if (exit == ORR_EXIT_USAGE)
        exit = ORR_EXIT_INPUT; /* arguments that the scenario does not know any more */
    if (exit > ORR_EXIT_NO) {
        orr_error_prefix(&error, "%s", path);
        (void)orr_cli_fail(cli, &error);
    }
    orr_scenario_schedule_clear(schedule);
    orr_memory_free(cli->memory, schedule);
    return exit;
}
