#include "scenarios/explorer.h"

#include <assert.h>
#include <string.h>

#include "runtime/buffer.h"
#include "runtime/splitmix.h"

enum { ORDERS_MAX = 1 << 26 };

struct orr_explorer {
    const struct orr_memory *memory;
    struct orr_scenario *scenario;
    struct orr_runtime *runtime;
    struct orr_untimed *explore;
    /* Digests of what each host has printed: which one prints first is no step. */
    uint64_t printed[ORR_UNTIMED_PROCESSES_MAX];
    bool has_printed;
    bool used; /* to be rewound before the next execution */
    struct orr_error error;
};

const char *orr_found_text(enum orr_found_kind kind) {
    static const char *const texts[] = {
#define ORR_FOUND_TEXT(name, text) text,
        ORR_FOUND_LIST(ORR_FOUND_TEXT)
#undef ORR_FOUND_TEXT
    };
    return (unsigned)kind < ORR_FOUND_COUNT ? texts[kind] : "";
}

/* --- creation --- */

static void take_print(void *context, const char *text, size_t length) {
    struct orr_explorer *explorer = context;
    uint32_t host = orr_scenario_running(explorer->scenario) % ORR_UNTIMED_PROCESSES_MAX;
    uint64_t digest = explorer->printed[host] + host + 1;
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ (unsigned char)text[i]) * ORR_SPLITMIX_STEP;
    explorer->printed[host] = orr_splitmix_mix(digest);
    explorer->has_printed = true;
}

enum orr_status orr_explorer_create(const struct orr_explorer_config *config,
                                    struct orr_explorer **out_explorer, struct orr_error *error) {
    *out_explorer = NULL;
    struct orr_explorer *explorer = orr_memory_alloc(config->memory, sizeof *explorer);
    if (!explorer)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for an exploration");
    explorer->memory = config->memory;
    struct orr_scenario_config scenario = {.memory = config->memory,
                                           .path = config->path,
                                           .text = config->text,
                                           .length = config->length,
                                           .arguments = config->arguments,
                                           .argument_count = config->argument_count,
                                           .repeats = true,
                                           .print = take_print,
                                           .print_context = explorer};
    struct orr_runtime_config runtime = {.memory = config->memory,
                                         .open = orr_untimed_open,
                                         .specs = config->specs,
                                         .device_count = config->device_count,
                                         .seed = config->seed};
    enum orr_status status = orr_scenario_create(&scenario, &explorer->scenario, error);
    if (status == ORR_OK)
        status = orr_runtime_create(&runtime, &explorer->runtime, error);
    if (status != ORR_OK) {
        orr_explorer_destroy(&explorer);
        return status;
    }
    explorer->explore = orr_untimed_of(orr_runtime_backend(explorer->runtime));
    *out_explorer = explorer;
    return ORR_OK;
}

void orr_explorer_destroy(struct orr_explorer **handle) {
    struct orr_explorer *explorer = *handle;
    *handle = NULL;
    if (!explorer)
        return;
    orr_scenario_destroy(&explorer->scenario);
    orr_runtime_destroy(&explorer->runtime);
    orr_memory_free(explorer->memory, explorer);
}

struct orr_runtime *orr_explorer_runtime(struct orr_explorer *explorer) {
    return explorer->runtime;
}

struct orr_untimed *orr_explorer_backend(struct orr_explorer *explorer) {
    return explorer->explore;
}

const struct orr_scenario *orr_explorer_scenario(const struct orr_explorer *explorer) {
    return explorer->scenario;
}

const struct orr_error *orr_explorer_error(const struct orr_explorer *explorer) {
    return &explorer->error;
}

/* --- one execution --- */

/* Texts, not ids of names: those differ between explorers. */
static uint64_t text_key(const char *text) {
    uint64_t key = ORR_SPLITMIX_STEP;
    for (; *text; text++)
        key = (key ^ (unsigned char)*text) * ORR_SPLITMIX_STEP;
    return orr_splitmix_mix(key);
}

struct sum {
    const struct orr_explorer *explorer;
    uint64_t total;
};

/* By label, place and size, not by id: which host allocates first may be a choice. */
static void add_buffer(void *context, const struct orr_live_buffer *buffer) {
    struct sum *sum = context;
    uint64_t contents =
        orr_untimed_contents(sum->explorer->explore, buffer->memory, buffer->base, buffer->bytes);
    uint64_t who =
        text_key(orr_runtime_text(sum->explorer->runtime, buffer->label)) + buffer->device;
    sum->total += orr_splitmix_mix(contents ^ (who + buffer->bytes));
}

/* Never 0. */
static uint64_t numbers_of(const struct orr_explorer *explorer) {
    struct sum sum = {.explorer = explorer};
    orr_buffers_show(explorer->runtime, &sum, add_buffer);
    for (int i = 0; explorer->has_printed && i < ORR_UNTIMED_PROCESSES_MAX; i++)
        sum.total += explorer->printed[i];
    sum.total += orr_splitmix_mix(orr_untimed_reads(explorer->explore));
    return sum.total != 0 ? sum.total : 1;
}

static bool is_judged(const struct orr_expectation *expectation) {
    return expectation->kind == ORR_EXPECT_VALUE &&
           strcmp(expectation->call, "expect.time_ns") != 0;
}

static uint32_t first_failed(const struct orr_scenario *scenario) {
    size_t count = orr_scenario_expectation_count(scenario);
    for (size_t i = 0; i < count; i++) {
        const struct orr_expectation *expectation = orr_scenario_expectation(scenario, i);
        if (is_judged(expectation) && !expectation->passed)
            return (uint32_t)i;
    }
    return ORR_ID_NONE;
}

static void find_undefined(const struct orr_explorer *explorer, struct orr_execution *execution) {
    uint32_t count;
    const struct orr_untimed_step *steps = orr_untimed_steps(explorer->explore, &count);
    for (uint32_t i = 0; i < count && !execution->has_undefined; i++) {
        execution->has_undefined = steps[i].undefined;
        execution->undefined_step = steps[i].id;
    }
}

static enum orr_status rewind_both(struct orr_explorer *explorer) {
    if (!explorer->used)
        return ORR_OK;
    enum orr_status status = orr_scenario_rewind(explorer->scenario);
    if (status == ORR_OK)
        status = orr_runtime_rewind(explorer->runtime);
    explorer->used = false;
    return status == ORR_OK
               ? ORR_OK
               : orr_error_set(&explorer->error, status, "out of host memory for an exploration");
}

/* The next execution of the search that has been set up; ORR_NOT_READY when it is over. */
static enum orr_status execute(struct orr_explorer *explorer, struct orr_execution *execution) {
    enum orr_status status = rewind_both(explorer);
    if (status == ORR_OK)
        status = orr_untimed_next(explorer->explore);
    if (status != ORR_OK)
        return status;
    *execution = (struct orr_execution){.failed_expectation = ORR_ID_NONE};
    explorer->used = true;
    if (explorer->has_printed)
        memset(explorer->printed, 0, sizeof explorer->printed);
    explorer->has_printed = false;
    explorer->error.status = ORR_OK;
    status = orr_scenario_run(explorer->scenario, explorer->runtime, &explorer->error);
    if (status == ORR_OK && (status = orr_runtime_finish(explorer->runtime)) != ORR_OK)
        orr_error_set(&explorer->error, status, "%s", orr_runtime_error(explorer->runtime)->text);
    execution->outcome = orr_untimed_end(explorer->explore);
    if (status == ORR_NO_MEMORY)
        return status;
    if (execution->outcome == ORR_UNTIMED_DIVERGED)
        return orr_error_set(&explorer->error, ORR_UNSUPPORTED,
                             "an execution did not begin as it had begun before");
    if (orr_untimed_lost_memory(explorer->explore)) {
        orr_error_clear(&explorer->error);
        return orr_error_set(&explorer->error, ORR_NO_MEMORY,
                             "out of host memory for an exploration");
    }
    if (execution->outcome == ORR_UNTIMED_TOO_LONG)
        orr_error_clear(&explorer->error);
    if (execution->outcome == ORR_UNTIMED_TOO_LONG)
        return orr_error_set(&explorer->error, ORR_UNSUPPORTED,
                             "an execution has more than %d steps, or more than %d streams and "
                             "hosts: too many to be explored",
                             ORR_UNTIMED_STEPS_MAX, ORR_UNTIMED_PROCESSES_MAX);
    if (execution->outcome != ORR_UNTIMED_ABANDONED)
        find_undefined(explorer, execution);
    if (execution->outcome != ORR_UNTIMED_COMPLETE)
        return ORR_OK;
    execution->status = status;
    execution->stopped = status != ORR_OK && orr_scenario_stopped(explorer->scenario);
    execution->arguments_wrong = orr_scenario_arguments_wrong(explorer->scenario);
    execution->failed_expectation = first_failed(explorer->scenario);
    if (status == ORR_OK)
        execution->numbers = numbers_of(explorer);
    return status == ORR_NO_MEMORY ? status : ORR_OK;
}

enum orr_status orr_explorer_follow(struct orr_explorer *explorer, const uint8_t *plan,
                                    uint32_t plan_length, bool with_sites,
                                    struct orr_execution *out_execution) {
    struct orr_untimed_options options = {
        .strategy = ORR_UNTIMED_FOLLOW, .plan = plan, .plan_length = plan_length};
    *out_execution = (struct orr_execution){0};
    enum orr_status status = orr_untimed_search(explorer->explore, &options);
    if (status != ORR_OK)
        return orr_error_set(&explorer->error, status, "out of host memory for an exploration");
    orr_scenario_set_sites(explorer->scenario, with_sites);
    return execute(explorer, out_execution);
}

/* --- a search --- */

enum orr_status orr_search_begin(struct orr_explorer *explorer,
                                 const struct orr_untimed_options *options, uint64_t reference,
                                 struct orr_search *out_search) {
    *out_search =
        (struct orr_search){.explorer = explorer, .options = *options, .reference = reference};
    orr_scenario_set_sites(explorer->scenario, false);
    enum orr_status status = rewind_both(explorer);
    return status == ORR_OK ? orr_untimed_search(explorer->explore, options) : status;
}

static bool is_known(const struct orr_search *search, enum orr_found_kind kind, uint64_t key) {
    for (size_t i = 0; i < search->found_count; i++)
        if (search->found[i].kind == kind && search->found[i].key == key)
            return true;
    return false;
}

static struct orr_found *add_found(struct orr_search *search, enum orr_found_kind kind,
                                   uint64_t key, uint32_t plan_length) {
    const struct orr_memory *memory = search->explorer->memory;
    if (is_known(search, kind, key) ||
        orr_memory_grow(memory, &search->found, &search->found_capacity, search->found_count + 1,
                        sizeof *search->found, ORR_EXPLORER_FOUND_MAX) != ORR_OK)
        return NULL;
    uint8_t *plan = orr_memory_alloc(memory, plan_length);
    if (!plan)
        return NULL;
    struct orr_found *found = &search->found[search->found_count++];
    *found = (struct orr_found){.kind = kind,
                                .key = key,
                                .execution = search->executions,
                                .plan = plan,
                                .plan_length = plan_length};
    return found;
}

/* Something that this execution shows: its steps are the plan. */
static void found_here(struct orr_search *search, enum orr_found_kind kind, uint64_t key,
                       uint64_t a) {
    uint32_t count;
    const struct orr_untimed_step *steps = orr_untimed_steps(search->explorer->explore, &count);
    struct orr_found *found = add_found(search, kind, key, count);
    if (!found)
        return;
    found->a = a;
    for (uint32_t i = 0; i < count; i++)
        found->plan[i] = steps[i].process;
}

static void take_races(struct orr_search *search) {
    uint32_t count;
    const struct orr_untimed *explore = search->explorer->explore;
    const struct orr_untimed_race *races = orr_untimed_races(explore, &count);
    for (uint32_t i = search->races_seen; i < count; i++) {
        uint64_t key = orr_splitmix_mix(races[i].a.id) ^ races[i].b.id;
        struct orr_found *found = add_found(search, ORR_FOUND_RACE, key, races[i].plan_length);
        if (!found)
            continue;
        found->a = races[i].a.id;
        found->b = races[i].b.id;
        memcpy(found->plan, orr_untimed_race_plan(explore, &races[i]), found->plan_length);
    }
    search->races_seen = count;
}

/* What is stuck, but not how far it came. */
static uint64_t hang_key(const struct orr_explorer *explorer) {
    const struct orr_untimed *explore = explorer->explore;
    struct orr_untimed_blocked blocked[2 * ORR_UNTIMED_PROCESSES_MAX];
    uint32_t count = orr_untimed_stuck(explore, blocked, 2 * ORR_UNTIMED_PROCESSES_MAX);
    uint64_t key = count;
    for (uint32_t i = 0; i < count; i++)
        key = orr_splitmix_mix(
            key ^ ((uint64_t)blocked[i].name << 32 | blocked[i].id << 1 | blocked[i].is_host));
    return key;
}

static void note_result(struct orr_search *search, uint64_t numbers) {
    for (uint32_t i = 0; i < search->result_count; i++)
        if (search->results[i] == numbers)
            return;
    if (search->result_count < ORR_EXPLORER_RESULTS_MAX)
        search->results[search->result_count++] = numbers;
}

static enum orr_found_kind stop_kind(const struct orr_explorer *explorer) {
    const char *kind = orr_scenario_stopped(explorer->scenario);
    return strcmp(kind, orr_found_text(ORR_FOUND_MISMATCH)) == 0 ? ORR_FOUND_MISMATCH
                                                                 : ORR_FOUND_STOPPED;
}

static uint64_t stop_key(const struct orr_explorer *explorer) {
    return orr_splitmix_mix(text_key(orr_scenario_stopped(explorer->scenario))) ^
           text_key(orr_scenario_stop_about(explorer->scenario));
}

static void note_complete(struct orr_search *search, const struct orr_execution *execution) {
    const struct orr_explorer *explorer = search->explorer;
    if (execution->stopped) {
        found_here(search, stop_kind(explorer), stop_key(explorer), 0);
        return;
    }
    if (execution->status != ORR_OK) {
        found_here(search, ORR_FOUND_ERROR, text_key(explorer->error.text), 0);
        return;
    }
    if (execution->failed_expectation != ORR_ID_NONE) {
        const struct orr_expectation *failed =
            orr_scenario_expectation(explorer->scenario, execution->failed_expectation);
        found_here(search, ORR_FOUND_EXPECTATION, text_key(failed->site),
                   execution->failed_expectation);
    }
    note_result(search, execution->numbers);
    if (search->reference != 0 && execution->numbers != search->reference)
        found_here(search, ORR_FOUND_NUMBERS, 0, 0);
}

static void note_execution(struct orr_search *search, const struct orr_execution *execution) {
    const struct orr_untimed *explore = search->explorer->explore;
    uint32_t steps;
    (void)orr_untimed_steps(explore, &steps);
    search->longest = steps > search->longest ? steps : search->longest;
    if (execution->has_undefined)
        found_here(search, ORR_FOUND_UNDEFINED, execution->undefined_step,
                   execution->undefined_step);
    take_races(search);
    switch (execution->outcome) {
    case ORR_UNTIMED_COMPLETE:
        search->complete++;
        note_complete(search, execution);
        break;
    case ORR_UNTIMED_HANG:
        search->hangs++;
        found_here(search, ORR_FOUND_HANG, hang_key(search->explorer), 0);
        break;
    case ORR_UNTIMED_ABANDONED:
    case ORR_UNTIMED_DIVERGED:
    case ORR_UNTIMED_TOO_LONG:
    default: search->abandoned++; break;
    }
    search->executions++;
}

/* Random strategies come to the same order more than once. Orders are appended, and counted at the
 * end of the search by whoever joins several. */
static enum orr_status note_order(struct orr_search *search) {
    if (!search->counts_orders)
        return ORR_OK;
    enum orr_status status =
        orr_memory_grow(search->explorer->memory, &search->orders, &search->order_capacity,
                        search->order_count + 1, sizeof *search->orders, ORDERS_MAX);
    if (status == ORR_OK)
        search->orders[search->order_count++] = orr_untimed_order(search->explorer->explore);
    return status;
}

enum orr_status orr_search_run(struct orr_search *search, uint64_t executions) {
    struct orr_execution execution;
    while (executions-- > 0 && !search->is_over) {
        enum orr_status status = execute(search->explorer, &execution);
        if (status == ORR_NOT_READY) {
            search->is_over = true;
            break;
        }
        if (status == ORR_OK)
            status = note_order(search);
        if (status != ORR_OK)
            return status;
        note_execution(search, &execution);
    }
    return ORR_OK;
}

void orr_search_end(struct orr_search *search) {
    const struct orr_memory *memory = search->explorer->memory;
    for (size_t i = 0; i < search->found_count; i++)
        orr_memory_free(memory, search->found[i].plan);
    orr_memory_free(memory, search->found);
    orr_memory_free(memory, search->orders);
    search->found = NULL;
    search->orders = NULL;
    search->found_count = search->order_count = 0;
}

/* --- is it shown? --- */

/* Where a step is in the execution; its length if it is not there. */
static uint32_t find_step(const struct orr_explorer *explorer, uint64_t id) {
    uint32_t count, at = 0;
    const struct orr_untimed_step *steps = orr_untimed_steps(explorer->explore, &count);
    while (at < count && (steps[at].id != id || steps[at].kind == ORR_UNTIMED_HOST_ASKS ||
                          steps[at].kind == ORR_UNTIMED_HOST_CALL))
        at++;
    return at;
}

static bool shows_order(const struct orr_explorer *explorer, uint64_t first, uint64_t second) {
    uint32_t count;
    (void)orr_untimed_steps(explorer->explore, &count);
    uint32_t at = find_step(explorer, second);
    return at < count && find_step(explorer, first) < at;
}

static bool shows_undefined(const struct orr_explorer *explorer, uint64_t id) {
    uint32_t count;
    const struct orr_untimed_step *steps = orr_untimed_steps(explorer->explore, &count);
    uint32_t at = find_step(explorer, id);
    return at < count && steps[at].undefined;
}

bool orr_found_is_shown(const struct orr_explorer *explorer, const struct orr_found *found,
                        const struct orr_execution *execution, uint64_t reference) {
    bool complete = execution->outcome == ORR_UNTIMED_COMPLETE;
    switch (found->kind) {
    case ORR_FOUND_HANG:
        return execution->outcome == ORR_UNTIMED_HANG && hang_key(explorer) == found->key;
    case ORR_FOUND_MISMATCH:
    case ORR_FOUND_STOPPED:
        return complete && execution->stopped && stop_kind(explorer) == found->kind &&
               stop_key(explorer) == found->key;
    case ORR_FOUND_ERROR:
        return complete && execution->status != ORR_OK && !execution->stopped &&
               text_key(explorer->error.text) == found->key;
    case ORR_FOUND_EXPECTATION:
        return complete && execution->failed_expectation != ORR_ID_NONE &&
               text_key(orr_scenario_expectation(explorer->scenario, execution->failed_expectation)
                            ->site) == found->key;
    case ORR_FOUND_NUMBERS:
        return complete && execution->status == ORR_OK && reference != 0 &&
               execution->numbers != reference;
    case ORR_FOUND_UNDEFINED: return shows_undefined(explorer, found->a);
    case ORR_FOUND_RACE: return shows_order(explorer, found->b, found->a);
    case ORR_FOUND_COUNT:
    default: return false;
    }
}
