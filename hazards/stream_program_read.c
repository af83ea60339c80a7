#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hazards/stream_program_read_internal.h"

static const char *const line_fields[] = {"id", "program", NULL};

enum { LINE_ID, LINE_PROGRAM };

/* --- places --- */

void orr__reader_wrong(struct orr_stream_program_reader *reader, const char *format, ...) {
    char text[ORR_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    orr_error_set(&reader->error, ORR_INVALID, "%s", text);
}

static enum orr__place at(const struct orr_stream_program_reader *reader) {
    return reader->places[reader->place_count - 1];
}

void orr__reader_open(struct orr_stream_program_reader *reader, enum orr__place place) {
    assert(reader->place_count < ORR__PLACES_MAX);
    reader->places[reader->place_count++] = place;
    reader->field = -1;
}

static bool is_open(const struct orr__json_value *value) {
    return value->kind == ORR__JSON_MAP || value->kind == ORR__JSON_ARRAY;
}

/* Opens `place` for a value of that kind; null is as good as absent; else says what is wrong. */
void orr__reader_expect(struct orr_stream_program_reader *reader,
                        const struct orr__json_value *value, enum orr__json_kind kind,
                        enum orr__place place, const char *what) {
    if (value->kind == kind)
        orr__reader_open(reader, place);
    else if (value->kind != ORR__JSON_NULL)
        orr__reader_wrong(reader, "%s: no %s; %s was expected", what,
                          kind == ORR__JSON_MAP ? "object" : "array",
                          kind == ORR__JSON_MAP ? "an object" : "an array");
}

static bool keep_program(struct orr_stream_program_reader *reader) {
    orr_stream_program_destroy(&reader->line.program);
    struct orr__program_facts *facts = &reader->facts;
    facts->streams.round++;
    facts->comms.round++;
    reader->buffers.round++;
    reader->buffer_lists = 0;
    orr__reader_bounds_forget(reader);
    facts->has_streams = facts->has_ops = false;
    facts->no_reads = facts->no_writes = facts->unknown_step = facts->step_word = ORR_NONE;
    return orr_stream_program_create(reader->memory, &reader->line.program) == ORR_OK;
}

static bool keep_id(struct orr_stream_program_reader *reader, const struct orr__json_value *value) {
    orr_memory_free(reader->memory, reader->line.id);
    reader->line.id = NULL;
    if (value->kind != ORR__JSON_STRING)
        return true;
    reader->line.id = orr_memory_text(reader->memory, value->text, value->length);
    return reader->line.id != NULL;
}

static bool in_line(struct orr_stream_program_reader *reader, const struct orr__json_value *value) {
    if (reader->field == LINE_ID)
        return keep_id(reader, value);
    if (reader->field != LINE_PROGRAM)
        return true;
    if (value->kind == ORR__JSON_NULL)
        orr_stream_program_destroy(&reader->line.program);
    if (value->kind == ORR__JSON_MAP && !keep_program(reader))
        return false;
    orr__reader_expect(reader, value, ORR__JSON_MAP, ORR__AT_PROGRAM, "program");
    return true;
}

/* --- the document --- */

static void take_key(struct orr_stream_program_reader *reader, const char *text) {
    enum orr__place place = at(reader);
    if (place == ORR__AT_LINE)
        reader->field = orr__reader_find_word(line_fields, text);
    else if (place == ORR__AT_OP)
        reader->field = (int)orr__op_field_find(text);
    else
        reader->failed = !orr__reader_program_key(reader, place, text);
}

static void take_value(struct orr_stream_program_reader *reader,
                       const struct orr__json_value *value) {
    bool kept = true;
    enum orr__place place = at(reader);
    switch (place) {
    case ORR__AT_LINE: kept = in_line(reader, value); break;
    case ORR__AT_OPS:
        if (value->kind == ORR__JSON_MAP)
            orr__reader_op_begin(reader);
        else
            orr__reader_wrong(reader, "ops[%u]: no object; an object was expected",
                              reader->line.program->op_count);
        break;
    case ORR__AT_OP: kept = orr__reader_op_field(reader, value); break;
    case ORR__AT_READS: kept = orr__reader_op_access(reader, false, value); break;
    case ORR__AT_WRITES: kept = orr__reader_op_access(reader, true, value); break;
    case ORR__AT_DEVS: kept = orr__reader_op_device(reader, value); break;
    case ORR__AT_BODY:
    case ORR__AT_STEP: kept = orr__reader_op_word(reader, value); break;
    default: kept = orr__reader_program_value(reader, place, value);
    }
    reader->failed = reader->failed || !kept;
}

static void take_end(struct orr_stream_program_reader *reader) {
    enum orr__place place = reader->places[--reader->place_count];
    bool kept = true;
    if (reader->error.status != ORR_OK)
        return;
    if (place == ORR__AT_OP)
        kept = orr__reader_op_end(reader);
    else if (place == ORR__AT_STEP)
        kept = orr__reader_op_step(reader);
    else
        kept = orr__reader_program_end(reader, place);
    reader->failed = reader->failed || !kept;
}

/* One event of the line. A value that nobody reads, or that stands in a program which is known to
 * be malformed, is passed over. */
static bool take(void *context, const struct orr__json_value *value) {
    struct orr_stream_program_reader *reader = context;
    if (reader->skipped > 0) {
        reader->skipped += is_open(value);
        reader->skipped -= value->kind == ORR__JSON_END;
        return true;
    }
    if (reader->place_count == 0) {
        if (value->kind == ORR__JSON_MAP)
            orr__reader_open(reader, ORR__AT_LINE);
        else
            orr_error_set(&reader->json_error, ORR_INVALID,
                          "the line is no object; an object with id and program was expected");
        reader->skipped = value->kind == ORR__JSON_ARRAY;
        return true;
    }
    uint32_t places = reader->place_count;
    bool is_passed = at(reader) != ORR__AT_LINE && reader->error.status != ORR_OK;
    if (value->kind == ORR__JSON_END)
        take_end(reader);
    else if (value->kind == ORR__JSON_KEY && !is_passed)
        take_key(reader, value->text);
    else if (value->kind != ORR__JSON_KEY && !is_passed)
        take_value(reader, value);
    reader->skipped = is_open(value) && reader->place_count == places;
    return !reader->failed;
}

/* --- the reader --- */

enum orr_status orr_stream_program_reader_create(const struct orr_memory *memory,
                                                 struct orr_stream_program_reader **out_reader) {
    struct orr_stream_program_reader *reader = orr_memory_alloc(memory, sizeof *reader);
    *out_reader = reader;
    if (!reader)
        return ORR_NO_MEMORY;
    reader->memory = memory;
    reader->json = (struct orr__json){.memory = memory, .tell = take, .context = reader};
    reader->op.text.memory = memory;
    return ORR_OK;
}

void orr_stream_program_reader_destroy(struct orr_stream_program_reader **handle) {
    struct orr_stream_program_reader *reader = *handle;
    if (!reader)
        return;
    orr__json_clear(&reader->json);
    orr_stream_program_line_clear(&reader->line, reader->memory);
    orr__reader_op_clear(reader);
    orr_memory_free(reader->memory, reader->ranks);
    orr_memory_free(reader->memory, reader->facts.streams.rounds);
    orr_memory_free(reader->memory, reader->facts.comms.rounds);
    orr_memory_free(reader->memory, reader->buffers.rounds);
    orr__reader_bounds_clear(reader);
    orr_memory_free(reader->memory, reader);
    *handle = NULL;
}

enum orr_status orr_stream_program_reader_text(struct orr_stream_program_reader *reader,
                                               const char *bytes, size_t size) {
    if (!reader->has_text) {
        size_t blanks = 0;
        while (blanks < size && strchr(" \t\r\n", bytes[blanks]) && bytes[blanks] != '\0')
            blanks++;
        reader->json.offset += blanks;
        reader->json.told = reader->json.offset;
        bytes += blanks;
        size -= blanks;
        if (size == 0)
            return ORR_OK;
        reader->has_text = true;
    }
    enum orr_status status = orr__json_parse(&reader->json, bytes, size, &reader->json_error);
    return status == ORR_NO_MEMORY ? status : ORR_OK;
}

/* A stream that plays no part need not be declared (`stream` of alloc), and buffers of a list that
 * was given again are device memory after all. */
static void forget_undeclared(struct orr_stream_program_reader *reader) {
    struct orr_stream_program *program = reader->line.program;
    const struct orr__program_facts *facts = &reader->facts;
    for (uint32_t i = 0; i < program->op_count; i++) {
        uint32_t *stream = &program->ops[i].stream;
        if (*stream != ORR_NONE && !orr__is_declared(&facts->streams, *stream))
            *stream = ORR_NONE;
    }
    uint32_t buffers = reader->buffer_lists > 1 ? program->names[ORR_NAME_BUFFER].count : 0;
    for (uint32_t i = 0; i < buffers; i++)
        if (!orr__is_declared(&reader->buffers, i))
            program->buffers[i] = ORR_MEMORY_DEV;
}

/* What the whole line has to hold, when it is JSON. */
static enum orr_status judge(struct orr_stream_program_reader *reader, struct orr_error *error) {
    const struct orr_stream_program *program = reader->line.program;
    const struct orr__program_facts *facts = &reader->facts;
    if (reader->json_error.status != ORR_OK)
        return orr_error_set(error, ORR_INVALID, "%s", reader->json_error.text);
    if (!reader->line.id)
        return orr_error_set(error, ORR_INVALID, "id: missing; a string was expected");
    if (reader->error.status != ORR_OK)
        return orr_error_set(error, ORR_INVALID, "%s", reader->error.text);
    if (!program)
        return orr_error_set(error, ORR_INVALID, "program: missing; an object was expected");
    if (!facts->has_streams)
        return orr_error_set(error, ORR_INVALID,
                             "program.streams: missing; an object of streams was expected");
    if (!facts->has_ops)
        return orr_error_set(error, ORR_INVALID,
                             "program.ops: missing; an array of operations was expected");
    enum orr_status status = orr__stream_program_validate(program, facts, error);
    if (status != ORR_OK)
        return status;
    forget_undeclared(reader);
    status = orr__reader_bounds_resolve(reader);
    return status;
}

enum orr_status orr_stream_program_reader_end(struct orr_stream_program_reader *reader,
                                              struct orr_stream_program_line *out_line,
                                              struct orr_error *error) {
    *out_line = (struct orr_stream_program_line){.is_blank = !reader->has_text};
    enum orr_status status = ORR_OK;
    bool is_json = true;
    if (reader->has_text) {
        status = orr__json_end(&reader->json, &reader->json_error);
        is_json = status == ORR_OK;
        if (status != ORR_NO_MEMORY)
            status = judge(reader, error);
    } else {
        reader->json.offset = reader->json.told = 0;
    }
    if (status == ORR_NO_MEMORY)
        orr_error_set(error, status, "no memory for a program");
    if (is_json && reader->json_error.status == ORR_OK && status != ORR_NO_MEMORY) {
        out_line->id = reader->line.id;
        reader->line.id = NULL;
    }
    if (status == ORR_OK) {
        out_line->program = reader->line.program;
        reader->line.program = NULL;
    }
    orr_stream_program_line_clear(&reader->line, reader->memory);
    reader->place_count = 0;
    reader->skipped = 0;
    reader->has_text = reader->failed = false;
    orr_error_clear(&reader->error);
    orr_error_clear(&reader->json_error);
    return status;
}

void orr_stream_program_line_clear(struct orr_stream_program_line *line,
                                   const struct orr_memory *memory) {
    orr_memory_free(memory, line->id);
    orr_stream_program_destroy(&line->program);
    line->id = NULL;
}

enum orr_status orr_stream_program_read(const struct orr_memory *memory, const char *text,
                                        size_t length, struct orr_stream_program_line *out_line,
                                        struct orr_error *error) {
    *out_line = (struct orr_stream_program_line){0};
    struct orr_stream_program_reader *reader;
    enum orr_status status = orr_stream_program_reader_create(memory, &reader);
    if (status == ORR_OK)
        status = orr_stream_program_reader_text(reader, text, length);
    if (status == ORR_OK)
        status = orr_stream_program_reader_end(reader, out_line, error);
    else
        orr_error_set(error, status, "no memory for a program");
    if (status == ORR_OK && out_line->is_blank)
        status = orr_error_set(error, ORR_INVALID, "an empty line; an object was expected");
    orr_stream_program_reader_destroy(&reader);
    return status;
}
