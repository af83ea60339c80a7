/* A finding's schedule as a file: which scenario, with what, and what every step was.
 *
 *     {
 *       "orrery_scenario_schedule": 1,
 *       "scenario": "case.lua", "devices": "sim:h100", "seed": "0",
 *       "arguments": ["steps=2"],
 *       "kind": "race", "message": "...", "result": "8f...",
 *       "found": ["<key>", "<id of step a>", "<id of step b>"], "length": 12,
 *       "steps": [
 *         {"process": 1, "chosen": false, "by": "compute of device 0", "does": "produce",
 *          "site": "case.lua:7"}, ...
 *       ]
 *     }
 *
 * Steps beyond those listed are the default's. */
#include <stdlib.h>
#include <string.h>

#include "cli/explore_scenario.h"
#include "hazards/json_events.h"
#include "trace/output.h"

enum { SCHEDULE_VERSION = 1 };
static const char mark[] = "\"orrery_scenario_schedule\"";

bool orr_is_scenario_schedule(const char *text) {
    size_t at = strspn(text, " \t\r\n{");
    return strncmp(text + at, mark, sizeof mark - 1) == 0;
}

/* --- writing --- */

static void build_member(struct orr__builder *text, const char *key, const char *value,
                         const char *end) {
    orr__build_format(text, "\"%s\": ", key);
    orr__build_json_string(text, value);
    orr__build_text(text, end);
}

static void build_head(struct orr__builder *text, const struct orr_explored *explored,
                       const struct orr_shown *shown) {
    orr__build_format(text, "{\n  %s: %d,\n  ", mark, SCHEDULE_VERSION);
    build_member(text, "scenario", explored->path, ",\n  ");
    build_member(text, "devices", explored->devices, ",\n  ");
    orr__build_format(text, "\"seed\": \"%llu\",\n  \"arguments\": [",
                      (unsigned long long)explored->seed);
    for (size_t i = 0; i < explored->argument_count; i++) {
        struct orr__builder word = {.memory = explored->memory};
        orr__build_format(&word, "%s=%s", explored->arguments[i].key, explored->arguments[i].value);
        orr__build_text(text, i > 0 ? ", " : "");
        orr__build_json_string(text, word.failed ? "" : word.data);
        text->failed = text->failed || word.failed;
        orr__builder_clear(&word);
    }
    orr__build_format(text, "],\n  \"kind\": \"%s\",\n  ", orr_found_text(shown->kind));
    build_member(text, "message", shown->message, ",\n  ");
    build_member(text, "result", shown->result, ",\n  ");
    orr__build_format(text,
                      "\"found\": [\"%llu\", \"%llu\", \"%llu\"],\n  \"length\": %u,\n  "
                      "\"steps\": [",
                      (unsigned long long)shown->key, (unsigned long long)shown->a,
                      (unsigned long long)shown->b, (unsigned)shown->length);
}

static char *build_file(const struct orr_explored *explored, const struct orr_shown *shown) {
    struct orr__builder text = {.memory = explored->memory};
    build_head(&text, explored, shown);
    for (uint32_t i = 0; i < shown->shown_steps; i++) {
        const struct orr_shown_step *step = &shown->steps[i];
        orr__build_format(&text, "%s\n    {\"process\": %u, \"chosen\": %s, ", i > 0 ? "," : "",
                          (unsigned)step->process, step->chosen ? "true" : "false");
        build_member(&text, "by", step->by, ", ");
        build_member(&text, "does", step->does, ", ");
        build_member(&text, "site", step->site, "}");
    }
    orr__build_text(&text, "\n  ]\n}\n");
    if (!text.failed)
        return text.data;
    orr__builder_clear(&text);
    return NULL;
}

enum orr_status orr_scenario_schedule_save(const struct orr_explored *explored,
                                           const struct orr_shown *shown, const char *path,
                                           struct orr_error *error) {
    struct orr_output *output;
    char *text = build_file(explored, shown);
    if (!text)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a schedule");
    enum orr_status status = orr_output_create(path, explored->memory, &output, error);
    if (status == ORR_OK) {
        orr_output_write(output, text, strlen(text));
        status = orr_output_finish(&output, error);
    }
    orr_memory_free(explored->memory, text);
    return status;
}

/* --- reading --- */

enum { DEPTH_MAX = 4, KEY_MAX = 40 };

struct reader {
    struct orr_scenario_schedule *schedule;
    int depth;
    char keys[DEPTH_MAX][KEY_MAX]; /* of the maps and arrays around, and of the value at hand */
    uint32_t index;                /* in the array */
    size_t step_capacity;
    bool has_version;
    char wrong[KEY_MAX]; /* the first member that is not as it should be; "" */
    enum orr_status status;
};

static void refuse(struct reader *reader, const char *key) {
    if (!reader->wrong[0])
        snprintf(reader->wrong, sizeof reader->wrong, "%s", key);
}

static uint64_t read_number(struct reader *reader, const char *key, const char *text) {
    char *end;
    if (text[0] < '0' || text[0] > '9')
        refuse(reader, key);
    uint64_t value = strtoull(text, &end, 10);
    if (*end != '\0')
        refuse(reader, key);
    return value;
}

static void keep_text(struct reader *reader, char **slot, const char *text) {
    orr_memory_free(reader->schedule->memory, *slot);
    *slot = orr_memory_text(reader->schedule->memory, text, strlen(text));
    if (!*slot)
        reader->status = ORR_NO_MEMORY;
}

static void take_kind(struct reader *reader, const char *text) {
    int kind = 0;
    while (kind < ORR_FOUND_COUNT && strcmp(orr_found_text((enum orr_found_kind)kind), text) != 0)
        kind++;
    if (kind == ORR_FOUND_COUNT)
        refuse(reader, "kind");
    else
        reader->schedule->shown.kind = reader->schedule->found.kind = (enum orr_found_kind)kind;
}

static void take_member(struct reader *reader, const char *key,
                        const struct orr__json_value *value) {
    struct orr_scenario_schedule *schedule = reader->schedule;
    const char *text = value->text;
    if (value->kind != ORR__JSON_STRING && value->kind != ORR__JSON_NUMBER)
        refuse(reader, key);
    else if (strcmp(key, "orrery_scenario_schedule") == 0)
        reader->has_version = read_number(reader, key, text) == SCHEDULE_VERSION;
    else if (strcmp(key, "scenario") == 0)
        keep_text(reader, &schedule->path, text);
    else if (strcmp(key, "devices") == 0)
        keep_text(reader, &schedule->explored.devices, text);
    else if (strcmp(key, "seed") == 0)
        schedule->explored.seed = read_number(reader, key, text);
    else if (strcmp(key, "kind") == 0)
        take_kind(reader, text);
    else if (strcmp(key, "message") == 0)
        snprintf(schedule->shown.message, sizeof schedule->shown.message, "%s", text);
    else if (strcmp(key, "result") == 0)
        snprintf(schedule->shown.result, sizeof schedule->shown.result, "%s", text);
    else if (strcmp(key, "length") == 0)
        schedule->shown.length = (uint32_t)read_number(reader, key, text);
}

static void take_element(struct reader *reader, const char *key,
                         const struct orr__json_value *value) {
    struct orr_scenario_schedule *schedule = reader->schedule;
    uint32_t index = reader->index++;
    if (value->kind != ORR__JSON_STRING) {
        refuse(reader, key);
    } else if (strcmp(key, "arguments") == 0) {
        if (orr_explored_argument(&schedule->explored, value->text) != ORR_OK)
            refuse(reader, key);
    } else if (strcmp(key, "found") == 0 && index < 3) {
        uint64_t number = read_number(reader, key, value->text);
        *(index == 0   ? &schedule->found.key
          : index == 1 ? &schedule->found.a
                       : &schedule->found.b) = number;
    }
}

static void begin_step(struct reader *reader) {
    struct orr_shown *shown = &reader->schedule->shown;
    enum orr_status status =
        orr_memory_grow(reader->schedule->memory, &shown->steps, &reader->step_capacity,
                        shown->shown_steps + 1, sizeof *shown->steps, ORR_UNTIMED_STEPS_MAX);
    if (status != ORR_OK)
        reader->status = status;
    else
        shown->steps[shown->shown_steps++] = (struct orr_shown_step){.process = 0};
}

static void take_of_step(struct reader *reader, const char *key,
                         const struct orr__json_value *value) {
    struct orr_shown *shown = &reader->schedule->shown;
    struct orr_shown_step *step = &shown->steps[shown->shown_steps - 1];
    bool is_text = value->kind == ORR__JSON_STRING;
    if (strcmp(key, "process") == 0 && value->kind == ORR__JSON_NUMBER) {
        uint64_t process = read_number(reader, key, value->text);
        if (process >= ORR_UNTIMED_PROCESSES_MAX)
            refuse(reader, key);
        step->process = (uint8_t)(process % ORR_UNTIMED_PROCESSES_MAX);
    } else if (strcmp(key, "chosen") == 0 && value->kind == ORR__JSON_BOOL) {
        step->chosen = value->is_true;
    } else if (strcmp(key, "by") == 0 && is_text) {
        snprintf(step->by, sizeof step->by, "%s", value->text);
    } else if (strcmp(key, "does") == 0 && is_text) {
        snprintf(step->does, sizeof step->does, "%s", value->text);
    } else if (strcmp(key, "site") == 0 && is_text) {
        snprintf(step->site, sizeof step->site, "%s", value->text);
    } else {
        refuse(reader, key);
    }
}

static void take_value(struct reader *reader, const struct orr__json_value *value) {
    if (reader->depth == 1)
        take_member(reader, reader->keys[1], value);
    else if (reader->depth == 2)
        take_element(reader, reader->keys[1], value);
    else if (reader->depth == 3 && reader->schedule->shown.shown_steps > 0)
        take_of_step(reader, reader->keys[3], value);
    else
        refuse(reader, "steps");
}

static bool take(void *context, const struct orr__json_value *value) {
    struct reader *reader = context;
    switch (value->kind) {
    case ORR__JSON_KEY:
        if (reader->depth < DEPTH_MAX)
            snprintf(reader->keys[reader->depth], KEY_MAX, "%.39s", value->text);
        break;
    case ORR__JSON_MAP:
    case ORR__JSON_ARRAY:
        reader->depth++;
        reader->index = reader->depth == 2 ? 0 : reader->index;
        if (reader->depth == 3 && value->kind == ORR__JSON_MAP &&
            strcmp(reader->keys[1], "steps") == 0)
            begin_step(reader);
        break;
    case ORR__JSON_END: reader->depth--; break;
    case ORR__JSON_NULL:
    case ORR__JSON_BOOL:
    case ORR__JSON_NUMBER:
    case ORR__JSON_STRING:
    default: take_value(reader, value); break;
    }
    return reader->status == ORR_OK;
}

/* The choices: those that were out of the ordinary. */
static enum orr_status make_plan(struct orr_scenario_schedule *schedule) {
    struct orr_shown *shown = &schedule->shown;
    shown->plan = orr_memory_alloc(schedule->memory, shown->shown_steps);
    if (!shown->plan)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < shown->shown_steps; i++) {
        shown->plan[i] = shown->steps[i].chosen ? shown->steps[i].process : ORR_UNTIMED_DEFAULT;
        shown->plan_length = shown->steps[i].chosen ? i + 1 : shown->plan_length;
    }
    return ORR_OK;
}

enum orr_status orr_scenario_schedule_read(const struct orr_memory *memory, const char *text,
                                           size_t length,
                                           struct orr_scenario_schedule *out_schedule,
                                           struct orr_error *error) {
    memset(out_schedule, 0, sizeof *out_schedule);
    out_schedule->memory = out_schedule->explored.memory = memory;
    struct reader reader = {.schedule = out_schedule};
    struct orr__json json = {.memory = memory, .tell = take, .context = &reader};
    enum orr_status status = orr__json_parse(&json, text, length, error);
    if (status == ORR_OK)
        status = orr__json_end(&json, error);
    orr__json_clear(&json);
    if (reader.status != ORR_OK || status == ORR_NO_MEMORY)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a schedule");
    if (status != ORR_OK)
        return status;
    if (!reader.has_version)
        return orr_error_set(error, ORR_INVALID, "a schedule of version %d was expected",
                             SCHEDULE_VERSION);
    if (!reader.wrong[0] && (!out_schedule->path || !out_schedule->explored.devices))
        refuse(&reader, out_schedule->path ? "devices" : "scenario");
    if (reader.wrong[0])
        return orr_error_set(error, ORR_INVALID, "field '%s' is missing or wrong", reader.wrong);
    out_schedule->found.plan = NULL;
    return make_plan(out_schedule) == ORR_OK
               ? ORR_OK
               : orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a schedule");
}

void orr_scenario_schedule_clear(struct orr_scenario_schedule *schedule) {
    orr_shown_clear(&schedule->shown, schedule->memory);
    orr_explored_clear(&schedule->explored);
    orr_memory_free(schedule->memory, schedule->path);
}
