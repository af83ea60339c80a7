#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/explore/fingerprint.h"
#include "hazards/explore/schedule_file.h"
#include "hazards/json_events.h"
#include "hazards/stream_program_read.h"

/* The program in the document is read by the reader of stream programs; a second pass takes the
 * fields around it. Of those, all that a replay needs must be there. */

enum { PATH_MAX_KEYS = 4, KEY_MAX = 24, ITEMS_MAX = 1 << 24 };

/* Fields that must be there, as bits. */
enum {
    HAS_VERSION = 1 << 0,
    HAS_FINGERPRINT = 1 << 1,
    HAS_KIND = 1 << 2,
    HAS_EXPECTED = 1 << 3,
    HAS_OUTCOME = 1 << 4,
    HAS_KEPT = 1 << 5,
    HAS_STEPS = 1 << 6
};

struct reader {
    struct orr_schedule_file *file;
    const struct orr_memory *memory;
    struct orr_error *error;
    char keys[PATH_MAX_KEYS][KEY_MAX]; /* key of each level of maps; "" in arrays */
    uint32_t depth;
    uint32_t has; /* HAS_ bits */
    size_t kept_capacity, step_capacity;
    struct orr_schedule_step step;
    bool step_has_op, step_has_actor, step_has_what;
    bool is_no_memory;
};

static bool fail(struct reader *reader, const char *where, const char *expected) {
    orr_error_set(reader->error, ORR_INVALID, "%s: %s was expected", where, expected);
    return true; /* parsing goes on; the first error is kept */
}

/* --- values --- */

static bool read_number(const struct orr__json_value *value, uint64_t max, uint64_t *out) {
    uint64_t number = 0;
    if (value->kind != ORR__JSON_NUMBER || value->length == 0)
        return false;
    for (const char *at = value->text; *at; at++) {
        if (*at < '0' || *at > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = 10 * number + (uint64_t)(*at - '0');
    }
    *out = number;
    return number <= max;
}

static bool read_hash(const struct orr__json_value *value, uint64_t *out) {
    *out = 0;
    if (value->kind != ORR__JSON_STRING || value->length != 16)
        return false;
    for (const char *at = value->text; *at; at++) {
        if (!strchr("0123456789abcdef", *at))
            return false;
        *out = *out * 16 + (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    }
    return true;
}

static bool copy_text(struct reader *reader, const struct orr__json_value *value, char **text) {
    orr_memory_free(reader->memory, *text);
    *text = orr_memory_text(reader->memory, value->text, value->length);
    reader->is_no_memory = *text == NULL;
    return *text != NULL;
}

static bool read_kind(const struct orr__json_value *value, enum orr_check_verdict_kind *out) {
    for (int kind = 0; value->kind == ORR__JSON_STRING && kind < ORR_CHECK_VERDICT_COUNT; kind++) {
        if (strcmp(value->text, orr_check_verdict_text((enum orr_check_verdict_kind)kind)) != 0)
            continue;
        *out = (enum orr_check_verdict_kind)kind;
        return orr_check_verdict_is_unsafe(*out);
    }
    return false;
}

/* --- fields --- */

static bool take_top(struct reader *reader, const struct orr__json_value *value) {
    const char *key = reader->keys[0];
    struct orr_schedule_file *file = reader->file;
    uint64_t number = 0;
    if (strcmp(key, "orrery_schedule") == 0) {
        reader->has |= HAS_VERSION;
        if (!read_number(value, ORR_SCHEDULE_VERSION, &number) || number != ORR_SCHEDULE_VERSION)
            return fail(reader, key, "1, the version that this command reads,");
    } else if (strcmp(key, "source") == 0 && value->kind == ORR__JSON_STRING) {
        return copy_text(reader, value, &file->source);
    } else if (strcmp(key, "fingerprint") == 0) {
        reader->has |= HAS_FINGERPRINT;
        if (!read_hash(value, &file->fingerprint))
            return fail(reader, key, "16 hexadecimal digits in a string");
    } else if (strcmp(key, "expected") == 0 || strcmp(key, "outcome") == 0) {
        bool is_outcome = key[0] == 'o';
        reader->has |= is_outcome ? HAS_OUTCOME : HAS_EXPECTED;
        if (!read_hash(value, is_outcome ? &file->schedule.outcome : &file->schedule.expected))
            return fail(reader, key, "16 hexadecimal digits in a string");
    } else if (strcmp(key, "poisoned") == 0) {
        if (!read_number(value, UINT32_MAX, &number))
            return fail(reader, key, "a whole number");
        file->schedule.poisoned = (uint32_t)number;
    }
    return true;
}

static bool take_finding(struct reader *reader, const struct orr__json_value *value) {
    const char *key = reader->keys[1];
    if (strcmp(key, "kind") == 0) {
        reader->has |= HAS_KIND;
        if (!read_kind(value, &reader->file->kind))
            return fail(reader, "finding.kind", "race, use-after-free, hang or the like");
    } else if (strcmp(key, "message") == 0 && value->kind == ORR__JSON_STRING) {
        return copy_text(reader, value, &reader->file->message);
    }
    return true;
}

static bool take_kept(struct reader *reader, const struct orr__json_value *value) {
    struct orr_schedule *schedule = &reader->file->schedule;
    uint64_t op = 0,
             least = schedule->kept_count > 0 ? schedule->kept[schedule->kept_count - 1] + 1 : 0;
    if (!read_number(value, reader->file->program->op_count - 1, &op) || op < least ||
        reader->file->program->op_count == 0)
        return fail(reader, "kept", "numbers of operations of the program, ascending,");
    if (orr_memory_grow(reader->memory, &schedule->kept, &reader->kept_capacity,
                        (size_t)schedule->kept_count + 1, sizeof *schedule->kept,
                        ITEMS_MAX) != ORR_OK) {
        reader->is_no_memory = true;
        return false;
    }
    schedule->kept[schedule->kept_count++] = (uint32_t)op;
    return true;
}

static bool take_step_field(struct reader *reader, const struct orr__json_value *value) {
    const char *key = reader->keys[2];
    const struct orr_stream_program *program = reader->file->program;
    uint64_t number = 0;
    if (strcmp(key, "op") == 0) {
        reader->step_has_op = true;
        if (program->op_count == 0 || !read_number(value, program->op_count - 1, &number))
            return fail(reader, "steps: op", "the number of an operation of the program");
        reader->step.op = (uint32_t)number;
    } else if (strcmp(key, "stream") == 0 || strcmp(key, "host") == 0) {
        bool is_stream = key[0] == 's';
        uint32_t id = ORR_NONE;
        reader->step_has_actor = true;
        if (value->kind == ORR__JSON_STRING)
            id = orr__name_table_find(&program->names[is_stream ? ORR_NAME_STREAM : ORR_NAME_HOST],
                                      value->text);
        if (id == ORR_NONE)
            return fail(reader, is_stream ? "steps: stream" : "steps: host",
                        "a name of the program");
        reader->step.actor = is_stream ? id : program->names[ORR_NAME_STREAM].count + id;
    } else if (strcmp(key, "what") == 0) {
        for (int what = ORR_STEP_RUN; what <= ORR_STEP_BODY; what++) {
            if (value->kind == ORR__JSON_STRING &&
                strcmp(value->text, orr_schedule_what_text((enum orr_schedule_what)what)) == 0) {
                reader->step.what = (uint8_t)what;
                reader->step_has_what = true;
            }
        }
        if (!reader->step_has_what)
            return fail(reader, "steps: what", "run, call, start, finish or body");
    }
    return true;
}

static bool end_step(struct reader *reader) {
    struct orr_schedule *schedule = &reader->file->schedule;
    if (!reader->step_has_op || !reader->step_has_actor || !reader->step_has_what)
        return fail(reader, "steps", "op, stream or host, and what of every step");
    if (orr_memory_grow(reader->memory, &schedule->steps, &reader->step_capacity,
                        (size_t)schedule->step_count + 1, sizeof *schedule->steps,
                        ITEMS_MAX) != ORR_OK) {
        reader->is_no_memory = true;
        return false;
    }
    schedule->steps[schedule->step_count++] = reader->step;
    return true;
}

/* --- levels --- */

static bool is_at(const struct reader *reader, uint32_t depth, const char *key) {
    return reader->depth == depth && strcmp(reader->keys[0], key) == 0;
}

static bool take_value(struct reader *reader, const struct orr__json_value *value) {
    if (reader->depth == 1)
        return take_top(reader, value);
    if (is_at(reader, 2, "finding"))
        return take_finding(reader, value);
    if (is_at(reader, 2, "kept"))
        return take_kept(reader, value);
    if (is_at(reader, 3, "steps"))
        return take_step_field(reader, value);
    return true;
}

static void open_level(struct reader *reader) {
    if (is_at(reader, 1, "kept"))
        reader->has |= HAS_KEPT;
    if (is_at(reader, 1, "steps"))
        reader->has |= HAS_STEPS;
    if (is_at(reader, 2, "steps")) {
        reader->step = (struct orr_schedule_step){0};
        reader->step_has_op = reader->step_has_actor = reader->step_has_what = false;
    }
    if (reader->depth < PATH_MAX_KEYS)
        reader->keys[reader->depth][0] = '\0';
    reader->depth++;
}

static bool tell(void *context, const struct orr__json_value *value) {
    struct reader *reader = context;
    switch (value->kind) {
    case ORR__JSON_MAP:
    case ORR__JSON_ARRAY: open_level(reader); return true;
    case ORR__JSON_END: reader->depth--; return is_at(reader, 2, "steps") ? end_step(reader) : true;
    case ORR__JSON_KEY:
        if (reader->depth >= 1 && reader->depth <= PATH_MAX_KEYS)
            snprintf(reader->keys[reader->depth - 1], KEY_MAX, "%s", value->text);
        return true;
    default: return take_value(reader, value);
    }
}

/* --- all --- */

static enum orr_status check_whole(struct reader *reader) {
    static const char *const names[] = {
        "orrery_schedule", "fingerprint", "finding.kind", "expected", "outcome", "kept", "steps"};
    struct orr_schedule_file *file = reader->file;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(reader->has >> i & 1))
            return orr_error_set(reader->error, ORR_INVALID, "%s is missing; this is no schedule",
                                 names[i]);
    if (file->program->oracle == ORR_ORACLE_CAPTURE)
        return orr_error_set(reader->error, ORR_INVALID,
                             "a program of oracle hb or hang was expected");
    if (file->fingerprint != orr_stream_program_fingerprint(file->program))
        return orr_error_set(reader->error, ORR_INVALID,
                             "schedule no longer fits: the program in it has been changed since it "
                             "was found (fingerprint %016llx, it has %016llx)",
                             (unsigned long long)file->fingerprint,
                             (unsigned long long)orr_stream_program_fingerprint(file->program));
    return ORR_OK;
}

static enum orr_status read_fields(struct reader *reader, const char *text, size_t length) {
    struct orr__json json = {.memory = reader->memory, .tell = tell, .context = reader};
    enum orr_status status = orr__json_parse(&json, text, length, reader->error);
    if (status == ORR_OK)
        status = orr__json_end(&json, reader->error);
    orr__json_clear(&json);
    if (status == ORR_OK && reader->error->status != ORR_OK)
        status = reader->error->status;
    return status == ORR_OK ? check_whole(reader) : status;
}

enum orr_status orr_schedule_read(const struct orr_memory *memory, const char *text, size_t length,
                                  struct orr_schedule_file *out_file, struct orr_error *error) {
    *out_file = (struct orr_schedule_file){.op_a = ORR_NONE, .op_b = ORR_NONE};
    struct orr_stream_program_line line = {0};
    struct orr_error unused = {0};
    error = error ? error : &unused;
    enum orr_status status = orr_stream_program_read(memory, text, length, &line, error);
    out_file->id = line.id;
    out_file->program = line.program;
    if (status != ORR_OK)
        return status;
    struct reader reader = {.file = out_file, .memory = memory, .error = error};
    status = read_fields(&reader, text, length);
    return reader.is_no_memory ? ORR_NO_MEMORY : status;
}

void orr_schedule_file_clear(struct orr_schedule_file *file, const struct orr_memory *memory) {
    orr_memory_free(memory, file->id);
    orr_memory_free(memory, file->source);
    orr_memory_free(memory, file->message);
    orr_schedule_clear(&file->schedule, memory);
    orr_stream_program_destroy(&file->program);
    *file = (struct orr_schedule_file){0};
}
