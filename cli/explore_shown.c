/* Findings as people see them: the same thing with as little out of the ordinary as possible, step
 * by step, with names and lines. */
#include <string.h>

#include "cli/explore_scenario.h"
#include "runtime/buffer.h"

enum { TRIES_MAX = 3000 };

/* --- as little as possible --- */

struct trial {
    struct orr_explorer *explorer;
    const struct orr_found *found;
    uint64_t reference;
    uint32_t left; /* executions */
};

static bool shows(struct trial *trial, const uint8_t *plan, uint32_t length) {
    struct orr_execution execution;
    if (trial->left == 0)
        return false;
    trial->left--;
    return orr_explorer_follow(trial->explorer, plan, length, false, &execution) == ORR_OK &&
           orr_found_is_shown(trial->explorer, trial->found, &execution, trial->reference);
}

/* The default schedule has `b` before `a` already: the other order is what is to be shown. */
static enum orr_status turn_race(struct orr_explorer *explorer, struct orr_found *found,
                                 const struct orr_memory *memory) {
    struct orr_execution execution;
    uint32_t count;
    enum orr_status status = orr_explorer_follow(explorer, NULL, 0, false, &execution);
    if (status != ORR_OK || !orr_found_is_shown(explorer, found, &execution, 0))
        return status;
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    const struct orr_untimed_race *races = orr_untimed_races(backend, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (races[i].a.id != found->b || races[i].b.id != found->a)
            continue;
        uint8_t *plan = orr_memory_alloc(memory, races[i].plan_length);
        if (!plan)
            return ORR_NO_MEMORY;
        memcpy(plan, orr_untimed_race_plan(backend, &races[i]), races[i].plan_length);
        orr_memory_free(memory, found->plan);
        found->plan = plan;
        found->plan_length = races[i].plan_length;
        uint64_t a = found->a;
        found->a = found->b;
        found->b = a;
        break;
    }
    return ORR_OK;
}

/* The shortest beginning after which the default leads there too: by doubling, then halving. What
 * is longer need not show it for that, so this is a good beginning, not the best. */
static uint32_t shorten(struct trial *trial, const uint8_t *plan, uint32_t length) {
    uint32_t low = 0, high = 0;
    while (high < length && !shows(trial, plan, high)) {
        low = high + 1;
        high = high == 0 ? 1 : 2 * high;
    }
    high = high < length ? high : length;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shows(trial, plan, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* Each choice, from the last to the first, becomes the default if that shows it as well. */
static void make_ordinary(struct trial *trial, uint8_t *plan, uint32_t length) {
    for (uint32_t i = length; i-- > 0 && trial->left > 0;) {
        uint8_t kept = plan[i];
        if (kept == ORR_UNTIMED_DEFAULT)
            continue;
        plan[i] = ORR_UNTIMED_DEFAULT;
        if (!shows(trial, plan, length))
            plan[i] = kept;
    }
}

static void minimize(struct trial *trial, struct orr_shown *shown) {
    uint32_t length = shorten(trial, shown->plan, shown->plan_length);
    make_ordinary(trial, shown->plan, length);
    while (length > 0 && shown->plan[length - 1] == ORR_UNTIMED_DEFAULT)
        length--;
    shown->plan_length = length;
}

/* --- texts --- */

static void stream_text(const struct orr_runtime *runtime, uint32_t id, char *text, size_t size) {
    const struct orr_stream *stream = orr_runtime_stream(runtime, id);
    if (stream)
        snprintf(text, size, "%s of device %u", orr_stream_name(stream),
                 (unsigned)orr_stream_device(stream));
    else
        snprintf(text, size, "stream %u", (unsigned)id);
}

/* What a host's call is about: "enqueues fill", "waits", "mailbox". */
static void describe_call(struct orr_explorer *explorer, const struct orr_untimed_step *step,
                          char *text, size_t size) {
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    const char *name = orr_runtime_text(orr_explorer_runtime(explorer), step->name);
    const struct orr_access *about = orr_untimed_accesses(backend, step);
    enum orr_untimed_thing thing =
        step->access_count > 0 ? orr_untimed_thing_of(about->memory) : ORR_UNTIMED_MEETING;
    if (thing == ORR_UNTIMED_STREAM)
        snprintf(text, size, "%s%s", *name ? "enqueues " : "waits", name);
    else
        snprintf(text, size, "%s", about && about->offset > 0 ? "mailbox" : "takes its turn");
}

static void describe_step(struct orr_explorer *explorer, const struct orr_untimed_step *step,
                          struct orr_shown_step *out) {
    const struct orr_runtime *runtime = orr_explorer_runtime(explorer);
    const char *name = orr_runtime_text(runtime, step->name);
    if (step->stream == ORR_ID_NONE)
        orr_scenario_host_text(orr_explorer_scenario(explorer), step->host, out->by,
                               sizeof out->by);
    else
        stream_text(runtime, step->stream, out->by, sizeof out->by);
    switch ((enum orr_untimed_kind)step->kind) {
    case ORR_UNTIMED_REUSE:
        snprintf(out->does, sizeof out->does, "memory is handed out again");
        break;
    case ORR_UNTIMED_HOST_ASKS:
        snprintf(out->does, sizeof out->does, "query: %s", step->answered ? "true" : "false");
        break;
    case ORR_UNTIMED_HOST_CALL: describe_call(explorer, step, out->does, sizeof out->does); break;
    case ORR_UNTIMED_COMMAND:
    case ORR_UNTIMED_HOST_ACCESS:
    default: snprintf(out->does, sizeof out->does, "%s", name); break;
    }
    snprintf(out->site, sizeof out->site, "%s", orr_runtime_text(runtime, step->site));
    out->process = step->process;
}

/* "'consume' at case.lua:9 (copy of device 0)" */
static void whole_step(struct orr_explorer *explorer, const struct orr_untimed_step *step,
                       char *text, size_t size) {
    struct orr_shown_step shown;
    describe_step(explorer, step, &shown);
    snprintf(text, size, "'%s'%s%s (%s)", shown.does, shown.site[0] ? " at " : "", shown.site,
             shown.by);
}

/* --- buffers --- */

struct looked_for {
    const struct orr_access *access;
    const struct orr_runtime *runtime;
    char *text;
    size_t size;
    bool found;
};

static void look_at_buffer(void *context, const struct orr_live_buffer *buffer) {
    struct looked_for *looked = context;
    const struct orr_access *access = looked->access;
    if (looked->found || buffer->memory != access->memory || access->offset < buffer->base ||
        access->offset >= buffer->base + buffer->bytes)
        return;
    looked->found = true;
    uint64_t low = access->offset - buffer->base;
    const char *label = orr_runtime_text(looked->runtime, buffer->label);
    snprintf(looked->text, looked->size, "bytes [%llu, %llu) of %s%s%s", (unsigned long long)low,
             (unsigned long long)(low + access->bytes), *label ? "'" : "a buffer made at ",
             *label ? label : orr_runtime_text(looked->runtime, buffer->site), *label ? "'" : "");
}

static void range_text(const struct orr_runtime *runtime, const struct orr_access *access,
                       char *text, size_t size) {
    struct looked_for looked = {.access = access, .runtime = runtime, .text = text, .size = size};
    snprintf(text, size, "%llu bytes of memory that has been freed since",
             (unsigned long long)access->bytes);
    orr_buffers_show(runtime, &looked, look_at_buffer);
}

/* --- messages --- */

static const struct orr_untimed_step *step_of(const struct orr_untimed *backend, uint64_t id,
                                              uint32_t *out_index) {
    uint32_t count;
    const struct orr_untimed_step *steps = orr_untimed_steps(backend, &count);
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].id == id &&
            (steps[i].kind == ORR_UNTIMED_COMMAND || steps[i].kind == ORR_UNTIMED_REUSE ||
             steps[i].kind == ORR_UNTIMED_HOST_ACCESS)) {
            *out_index = i;
            return &steps[i];
        }
    return NULL;
}

/* The first ranges of two steps that overlap, one of them written; false if there are none. */
static bool common_range(const struct orr_untimed *backend, const struct orr_untimed_step *a,
                         const struct orr_untimed_step *b, struct orr_access *common,
                         const char **out_kind) {
    const struct orr_access *of_a = orr_untimed_accesses(backend, a);
    const struct orr_access *of_b = orr_untimed_accesses(backend, b);
    for (uint32_t i = 0; i < a->access_count; i++)
        for (uint32_t k = 0; k < b->access_count; k++) {
            uint64_t low = of_a[i].offset > of_b[k].offset ? of_a[i].offset : of_b[k].offset;
            uint64_t a_end = of_a[i].offset + of_a[i].bytes, b_end = of_b[k].offset + of_b[k].bytes;
            uint64_t high = a_end < b_end ? a_end : b_end;
            bool a_writes = of_a[i].mode & ORR_ACCESS_WRITE;
            bool b_writes = of_b[k].mode & ORR_ACCESS_WRITE;
            if (of_a[i].memory != of_b[k].memory || low >= high || (!a_writes && !b_writes))
                continue;
            *common =
                (struct orr_access){.memory = of_a[i].memory, .offset = low, .bytes = high - low};
            *out_kind = !a_writes ? "WAR" : !b_writes ? "RAW" : "WAW";
            return true;
        }
    return false;
}

/* In the execution `b` came before `a`. */
static void say_race(struct orr_explorer *explorer, const struct orr_found *found,
                     struct orr_shown *shown) {
    struct orr_runtime *runtime = orr_explorer_runtime(explorer);
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    uint32_t at_a = 0, at_b = 0;
    const struct orr_untimed_step *a = step_of(backend, found->a, &at_a);
    const struct orr_untimed_step *b = step_of(backend, found->b, &at_b);
    struct orr_access common = {0};
    const char *kind = "";
    char text_a[4 * ORR_SHOWN_TEXT_MAX], text_b[4 * ORR_SHOWN_TEXT_MAX];
    char range[2 * ORR_SHOWN_TEXT_MAX];
    if (!a || !b || !common_range(backend, a, b, &common, &kind))
        return;
    whole_step(explorer, a, text_a, sizeof text_a);
    whole_step(explorer, b, text_b, sizeof text_b);
    range_text(runtime, &common, range, sizeof range);
    snprintf(shown->message, sizeof shown->message,
             "nothing orders %s and %s, which touch %s (%s); %s", text_a, text_b, range, kind,
             shown->differs ? "the other order gives other numbers"
                            : "the other order gives the same numbers");
    shown->shown_steps = at_a + 1;
}

static void say_undefined(struct orr_explorer *explorer, const struct orr_found *found,
                          struct orr_shown *shown) {
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    uint32_t at = 0;
    const struct orr_untimed_step *step = step_of(backend, found->a, &at);
    char text[4 * ORR_SHOWN_TEXT_MAX];
    if (!step)
        return;
    whole_step(explorer, step, text, sizeof text);
    snprintf(shown->message, sizeof shown->message,
             "%s reads bytes that nobody has written by then", text);
    shown->shown_steps = at + 1;
}

static size_t add_blocked(const struct orr_runtime *runtime,
                          const struct orr_untimed_blocked *blocked, char *text, size_t size) {
    char by[ORR_SHOWN_TEXT_MAX], other[ORR_SHOWN_TEXT_MAX];
    if (blocked->is_host)
        return 0;
    stream_text(runtime, blocked->id, by, sizeof by);
    const char *name = orr_runtime_text(runtime, blocked->name);
    const char *site = orr_runtime_text(runtime, blocked->site);
    int used = 0;
    if (blocked->waits_for == ORR_ID_NONE) {
        used = snprintf(text, size, "; %s is at '%s'%s%s", by, name, *site ? " of " : "", site);
    } else {
        stream_text(runtime, blocked->waits_for, other, sizeof other);
        used = snprintf(text, size, "; %s is at '%s'%s%s, behind %s", by, name, *site ? " of " : "",
                        site, other);
    }
    return used > 0 ? (size_t)used : 0;
}

static void say_hang(struct orr_explorer *explorer, struct orr_shown *shown) {
    enum { LISTED = 8 };
    struct orr_untimed_blocked blocked[LISTED + ORR_UNTIMED_PROCESSES_MAX];
    char hosts[ORR_EXPLORE_MESSAGE_MAX / 2];
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    orr_scenario_describe_hosts(orr_explorer_scenario(explorer), hosts, sizeof hosts);
    size_t size = sizeof shown->message;
    size_t used = (size_t)snprintf(shown->message, size, "nobody can go on: %s",
                                   hosts[0] ? hosts : "the end of the program waits");
    uint32_t count = orr_untimed_stuck(backend, blocked, LISTED + ORR_UNTIMED_PROCESSES_MAX),
             listed = 0;
    for (uint32_t i = 0; i < count && used < size && listed < LISTED; i++) {
        listed += !blocked[i].is_host;
        used += add_blocked(orr_explorer_runtime(explorer), &blocked[i], shown->message + used,
                            size - used);
    }
}

static void say_expectation(struct orr_explorer *explorer, const struct orr_execution *execution,
                            struct orr_shown *shown) {
    if (execution->failed_expectation == ORR_ID_NONE)
        return;
    const struct orr_expectation *failed =
        orr_scenario_expectation(orr_explorer_scenario(explorer), execution->failed_expectation);
    snprintf(shown->message, sizeof shown->message, "%s: %s: %s", failed->site, failed->call,
             failed->text);
}

static void say_result(const struct orr_explorer *explorer, const struct orr_execution *execution,
                       struct orr_shown *shown) {
    bool complete = execution->outcome == ORR_UNTIMED_COMPLETE;
    if (complete && execution->status == ORR_OK)
        snprintf(shown->result, sizeof shown->result, "%016llx",
                 (unsigned long long)execution->numbers);
    else if (complete && execution->stopped)
        snprintf(shown->result, sizeof shown->result, "%s",
                 orr_scenario_stopped(orr_explorer_scenario(explorer)));
    else
        snprintf(shown->result, sizeof shown->result, "%s", complete ? "error" : "hang");
}

static enum orr_status say_numbers(struct orr_explorer *explorer, const struct orr_picture *normal,
                                   struct orr_shown *shown) {
    struct orr_picture picture;
    char text[ORR_SHOWN_TEXT_MAX] = "what is printed is something else";
    enum orr_status status = orr_picture_take(explorer, normal->memory, &picture);
    if (status == ORR_OK)
        (void)orr_picture_differs(&picture, normal, text, sizeof text);
    snprintf(shown->message, sizeof shown->message, "%s than in the default schedule", text);
    orr_picture_clear(&picture);
    return status;
}

enum orr_status orr_explore_describe(struct orr_explorer *explorer, const struct orr_found *found,
                                     const struct orr_execution *execution, uint64_t reference,
                                     const struct orr_picture *normal, struct orr_shown *shown) {
    const struct orr_memory *memory = normal->memory;
    enum orr_status status = ORR_OK;
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    const struct orr_untimed_step *steps = orr_untimed_steps(backend, &shown->length);
    shown->kind = found->kind;
    shown->key = found->key;
    shown->a = found->a;
    shown->b = found->b;
    shown->shown_steps = shown->length;
    shown->differs = execution->outcome == ORR_UNTIMED_COMPLETE && execution->status == ORR_OK &&
                     reference != 0 && execution->numbers != reference;
    say_result(explorer, execution, shown);
    switch (found->kind) {
    case ORR_FOUND_HANG: say_hang(explorer, shown); break;
    case ORR_FOUND_STOPPED:
        snprintf(shown->message, sizeof shown->message, "%s: %s", shown->result,
                 orr_explorer_error(explorer)->text);
        break;
    case ORR_FOUND_MISMATCH:
    case ORR_FOUND_ERROR:
        snprintf(shown->message, sizeof shown->message, "%s", orr_explorer_error(explorer)->text);
        break;
    case ORR_FOUND_EXPECTATION: say_expectation(explorer, execution, shown); break;
    case ORR_FOUND_NUMBERS: status = say_numbers(explorer, normal, shown); break;
    case ORR_FOUND_UNDEFINED: say_undefined(explorer, found, shown); break;
    case ORR_FOUND_RACE: say_race(explorer, found, shown); break;
    case ORR_FOUND_COUNT:
    default: break;
    }
    if (shown->shown_steps < shown->plan_length)
        shown->shown_steps =
            shown->plan_length < shown->length ? shown->plan_length : shown->length;
    shown->steps = orr_memory_alloc(memory, shown->shown_steps * sizeof *shown->steps);
    if (!shown->steps || status != ORR_OK)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < shown->shown_steps; i++) {
        describe_step(explorer, &steps[i], &shown->steps[i]);
        shown->steps[i].chosen = i < shown->plan_length && shown->plan[i] != ORR_UNTIMED_DEFAULT;
    }
    return ORR_OK;
}

void orr_shown_clear(struct orr_shown *shown, const struct orr_memory *memory) {
    orr_memory_free(memory, shown->plan);
    orr_memory_free(memory, shown->steps);
    shown->plan = NULL;
    shown->steps = NULL;
}

/* --- all of them --- */

/* Fills in the next one; false if it says what another says already. */
static enum orr_status show_one(struct orr_explorer *explorer, struct orr_found *found,
                                uint64_t reference, uint64_t with_sites,
                                const struct orr_picture *normal, struct orr_shown *shown) {
    const struct orr_memory *memory = normal->memory;
    struct orr_execution execution;
    struct trial trial = {
        .explorer = explorer, .found = found, .reference = reference, .left = TRIES_MAX};
    enum orr_status status = ORR_OK;
    if (found->kind == ORR_FOUND_RACE)
        status = turn_race(explorer, found, memory);
    *shown = (struct orr_shown){.plan_length = found->plan_length, .times = 1};
    shown->plan = orr_memory_alloc(memory, found->plan_length);
    if (status != ORR_OK || !shown->plan)
        return status != ORR_OK ? status : ORR_NO_MEMORY;
    memcpy(shown->plan, found->plan, found->plan_length);
    minimize(&trial, shown);
    status = orr_explorer_follow(explorer, shown->plan, shown->plan_length, true, &execution);
    if (status == ORR_OK)
        status = orr_explore_describe(explorer, found, &execution, with_sites, normal, shown);
    return status;
}

/* One that says the same: another round of a loop. */
static bool join_shown(struct orr_explore_answer *answer, const struct orr_shown *shown) {
    for (size_t i = 0; i < answer->shown_count; i++)
        if (answer->shown[i].kind == shown->kind &&
            strcmp(answer->shown[i].message, shown->message) == 0) {
            answer->shown[i].times++;
            return true;
        }
    return false;
}

/* Digests of numbers: of the default schedule as the search ran it, and when told sites. */
static enum orr_status show_all(struct orr_explorer *explorer, uint64_t reference,
                                uint64_t with_sites, const struct orr_picture *normal, size_t count,
                                struct orr_explore_answer *answer) {
    for (size_t i = 0; i < count; i++) {
        struct orr_shown *shown = &answer->shown[answer->shown_count];
        enum orr_status status =
            show_one(explorer, &answer->found[i], reference, with_sites, normal, shown);
        if (status != ORR_OK || join_shown(answer, shown))
            orr_shown_clear(shown, answer->memory);
        else
            answer->shown_count++;
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

enum orr_status orr_explore_show_all(struct orr_explorer *explorer,
                                     const struct orr_execution *first,
                                     struct orr_explore_answer *answer) {
    struct orr_picture normal = {0};
    struct orr_execution again;
    size_t count = answer->found_count;
    count = count < ORR_EXPLORE_SHOWN_MAX ? count : ORR_EXPLORE_SHOWN_MAX;
    answer->shown = orr_memory_alloc(answer->memory, count * sizeof *answer->shown);
    enum orr_status status = answer->shown ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK)
        status = orr_explorer_follow(explorer, NULL, 0, true, &again);
    if (status == ORR_OK)
        status = orr_picture_take(explorer, answer->memory, &normal);
    if (status == ORR_OK)
        status = show_all(explorer, first->numbers, again.numbers, &normal, count, answer);
    orr_picture_clear(&normal);
    return status;
}
