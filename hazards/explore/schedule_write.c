#include <string.h>

#include "hazards/explore/fingerprint.h"
#include "hazards/explore/schedule_file.h"
#include "hazards/stream_program_write.h"
#include "hazards/text_builder.h"

static const char *const strategies[] = {"dpor", "pct", "random"};
static const char *const whats[] = {"run", "call", "start", "finish", "body"};

const char *orr_explore_strategy_text(enum orr_explore_strategy strategy) {
    return strategies[strategy];
}

const char *orr_schedule_what_text(enum orr_schedule_what what) {
    return whats[what];
}

static void build_member(struct orr__builder *text, const char *key, const char *value) {
    orr__build_format(text, "  \"%s\": ", key);
    if (value)
        orr__build_json_string(text, value);
    else
        orr__build_text(text, "null");
    orr__build_text(text, ",\n");
}

static void build_finding(struct orr__builder *text, const struct orr_schedule_file *file) {
    orr__build_format(
        text, "  \"finding\": {\"kind\": \"%s\", \"ops\": ", orr_check_verdict_text(file->kind));
    if (file->op_b == ORR_NONE)
        orr__build_text(text, "null");
    else
        orr__build_format(text, "[%u, %u]", file->op_a, file->op_b);
    orr__build_text(text, ", \"message\": ");
    orr__build_json_string(text, file->message ? file->message : "");
    orr__build_text(text, "},\n");
}

static void build_step(struct orr__builder *text, const struct orr_stream_program *program,
                       const struct orr_schedule_step *step) {
    char does[256];
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    bool is_stream = step->actor < streams;
    orr__build_format(text, "    {\"op\": %u, \"%s\": ", step->op, is_stream ? "stream" : "host");
    orr__build_json_string(
        text, is_stream ? orr_stream_program_text(program, ORR_NAME_STREAM, step->actor)
                        : orr_stream_program_text(program, ORR_NAME_HOST, step->actor - streams));
    orr_stream_op_short(program, step->op, does, sizeof does);
    orr__build_format(text, ", \"what\": \"%s\", \"does\": ", whats[step->what]);
    orr__build_json_string(text, does);
    orr__build_text(text, "}");
}

static void build_schedule(struct orr__builder *text, const struct orr_schedule_file *file) {
    const struct orr_schedule *schedule = &file->schedule;
    orr__build_format(text,
                      "  \"expected\": \"%016llx\",\n  \"outcome\": \"%016llx\",\n"
                      "  \"poisoned\": %u,\n  \"kept\": [",
                      (unsigned long long)schedule->expected, (unsigned long long)schedule->outcome,
                      schedule->poisoned);
    for (uint32_t i = 0; i < schedule->kept_count; i++)
        orr__build_format(text, "%s%u", i > 0 ? ", " : "", schedule->kept[i]);
    orr__build_text(text, "],\n  \"steps\": [");
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        orr__build_text(text, i > 0 ? ",\n" : "\n");
        build_step(text, file->program, &schedule->steps[i]);
    }
    orr__build_text(text, "\n  ],\n");
}

enum orr_status orr_schedule_write(const struct orr_schedule_file *file, char **out_text) {
    const struct orr_memory *memory = file->program->memory;
    struct orr__builder text = {.memory = memory};
    char *program;
    *out_text = NULL;
    enum orr_status status = orr_stream_program_write(file->program, NULL, &program);
    if (status != ORR_OK)
        return status;
    orr__build_format(&text, "{\n  \"orrery_schedule\": %d,\n", ORR_SCHEDULE_VERSION);
    build_member(&text, "id", file->id);
    build_member(&text, "source", file->source);
    orr__build_format(&text, "  \"fingerprint\": \"%016llx\",\n",
                      (unsigned long long)orr_stream_program_fingerprint(file->program));
    orr__build_format(&text, "  \"strategy\": \"%s\",\n  \"seed\": %llu,\n  \"depth\": %u,\n",
                      strategies[file->strategy], (unsigned long long)file->seed, file->depth);
    build_finding(&text, file);
    build_schedule(&text, file);
    orr__build_text(&text, "  \"program\": ");
    orr__build_bytes(&text, program, strcspn(program, "\n"));
    orr__build_text(&text, "\n}\n");
    orr_memory_free(memory, program);
    if (text.failed) {
        orr__builder_clear(&text);
        return ORR_NO_MEMORY;
    }
    *out_text = text.data;
    return ORR_OK;
}
