#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/stream_program_read_internal.h"

enum { ITEMS_MAX = 1 << 28 };

/* X(NAME, "text"): fields of the program. */
#define PROGRAM_FIELDS(X)                                                                          \
    X(STREAMS, "streams")                                                                          \
    X(BUFFERS, "buffers")                                                                          \
    X(OPS, "ops")                                                                                  \
    X(ORACLE, "oracle")                                                                            \
    X(PAGEABLE, "pageable")                                                                        \
    X(NCCL_SERIAL, "nccl_serial")                                                                  \
    X(COMMS, "comms")                                                                              \
    X(SLOTS, "slots")                                                                              \
    X(QUEUE_DEPTH, "queue_depth")                                                                  \
    X(CAPTURE_MODE, "capture_mode")

enum program_field {
#define FIELD(name, text) PROGRAM_##name,
    PROGRAM_FIELDS(FIELD)
#undef FIELD
};

static const char *const program_fields[] = {
#define TEXT(name, text) text,
    PROGRAM_FIELDS(TEXT)
#undef TEXT
        NULL,
};
static const char *const line_fields[] = {"id", "program", NULL};
static const char *const stream_fields[] = {"dev", "kind", NULL};
static const char *const pageable_texts[] = {"strict", "staged", NULL};

enum { LINE_ID, LINE_PROGRAM, STREAM_DEV = 0, STREAM_KIND };

/* --- what is wrong --- */

void orr__reader_wrong(struct orr_stream_program_reader *reader, const char *format, ...) {
    char text[ORR_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    orr_error_set(&reader->error, ORR_INVALID, "%s", text);
}

static int find_word(const char *const *words, const char *text) {
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

/* The number of a word; says what is wrong with another and gives -1. */
static int take_word(struct orr_stream_program_reader *reader, const char *place,
                     const char *const *words, const struct orr__json_value *value) {
    int found = value->kind == ORR__JSON_STRING ? find_word(words, value->text) : -1;
    if (found >= 0)
        return found;
    char list[128] = "", shown[ORR__SHOWN_MAX];
    for (int i = 0; words[i]; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
                 i == 0         ? ""
                 : words[i + 1] ? ", "
                                : " or ",
                 words[i]);
    if (value->kind == ORR__JSON_STRING)
        orr__reader_wrong(reader, "%s: '%s' is unknown; %s was expected", place,
                          orr__shown(value->text, shown), list);
    else
        orr__reader_wrong(reader, "%s: no string; %s was expected", place, list);
    return -1;
}

/* --- numbers --- */

bool orr__reader_integer(struct orr_stream_program_reader *reader, const char *text, uint64_t max,
                         uint64_t *out_value) {
    *out_value = 0;
    struct orr__builder plain = {.memory = reader->memory};
    orr__build_json_number(&plain, text);
    bool is_integer = !plain.failed && plain.length <= 20;
    for (size_t i = 0; is_integer && i < plain.length; i++) {
        uint64_t digit = (unsigned char)plain.data[i] - (uint64_t)'0';
        is_integer = digit <= 9 && *out_value <= (max - digit) / 10;
        *out_value = 10 * *out_value + digit;
    }
    reader->failed = reader->failed || plain.failed;
    orr__builder_clear(&plain);
    return is_integer;
}

/* A limit: an integer; below zero it is as good as zero, beyond 2^64 as good as none. */
static uint64_t take_limit(struct orr_stream_program_reader *reader, const char *place,
                           const struct orr__json_value *value, uint64_t usual) {
    uint64_t limit = usual;
    struct orr__builder plain = {.memory = reader->memory};
    if (value->kind == ORR__JSON_NUMBER)
        orr__build_json_number(&plain, value->text);
    const char *exponent = plain.length > 0 ? strchr(plain.data, 'e') : NULL;
    if (plain.failed)
        reader->failed = true;
    else if (value->kind != ORR__JSON_NUMBER || (exponent && exponent[1] == '-'))
        orr__reader_wrong(reader, "%s: no integer; an integer was expected", place);
    else if (plain.data[0] == '-')
        limit = 0;
    else if (!orr__reader_integer(reader, plain.data, UINT64_MAX - 1, &limit))
        limit = ORR_NO_LIMIT;
    orr__builder_clear(&plain);
    return limit;
}

/* --- places --- */

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
static void expect(struct orr_stream_program_reader *reader, const struct orr__json_value *value,
                   enum orr__json_kind kind, enum orr__place place, const char *what) {
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
    if (facts->streams)
        memset(facts->streams, 0, facts->stream_capacity * sizeof *facts->streams);
    if (facts->comms)
        memset(facts->comms, 0, facts->comm_capacity * sizeof *facts->comms);
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
    expect(reader, value, ORR__JSON_MAP, ORR__AT_PROGRAM, "program");
    return true;
}

static void forget_ops(struct orr_stream_program_reader *reader) {
    struct orr_stream_program *program = reader->line.program;
    program->op_count = program->access_count = program->step_count = program->device_count = 0;
    struct orr__program_facts *facts = &reader->facts;
    facts->no_reads = facts->no_writes = facts->unknown_step = ORR_NONE;
}

/* Declarations and operations: the last value of a key counts. */
static void in_program_open(struct orr_stream_program_reader *reader,
                            const struct orr__json_value *value) {
    struct orr_stream_program *program = reader->line.program;
    struct orr__program_facts *facts = &reader->facts;
    bool is_map = value->kind == ORR__JSON_MAP;
    switch (reader->field) {
    case PROGRAM_STREAMS:
        if (facts->streams)
            memset(facts->streams, 0, facts->stream_capacity * sizeof *facts->streams);
        facts->has_streams = is_map;
        expect(reader, value, ORR__JSON_MAP, ORR__AT_STREAMS, "program.streams");
        break;
    case PROGRAM_BUFFERS:
        for (uint32_t i = 0; i < program->names[ORR_NAME_BUFFER].count; i++)
            program->buffers[i] = ORR_MEMORY_DEV;
        expect(reader, value, ORR__JSON_MAP, ORR__AT_BUFFERS, "program.buffers");
        break;
    case PROGRAM_COMMS:
        if (facts->comms)
            memset(facts->comms, 0, facts->comm_capacity * sizeof *facts->comms);
        expect(reader, value, ORR__JSON_MAP, ORR__AT_COMMS, "program.comms");
        break;
    default:
        forget_ops(reader);
        facts->has_ops = value->kind == ORR__JSON_ARRAY;
        expect(reader, value, ORR__JSON_ARRAY, ORR__AT_OPS, "program.ops");
    }
}

static void in_program(struct orr_stream_program_reader *reader,
                       const struct orr__json_value *value) {
    static const struct orr__json_value usual_oracle = {.kind = ORR__JSON_STRING, .text = "hb"};
    static const struct orr__json_value usual_pageable = {.kind = ORR__JSON_STRING,
                                                          .text = "strict"};
    static const struct orr__json_value usual_mode = {.kind = ORR__JSON_STRING, .text = "global"};
    struct orr_stream_program *program = reader->line.program;
    bool absent = value->kind == ORR__JSON_NULL;
    int word = 0;
    switch (reader->field) {
    case -1: return;
    case PROGRAM_ORACLE:
        word =
            take_word(reader, "program.oracle", orr__oracle_texts, absent ? &usual_oracle : value);
        program->oracle = word < 0 ? ORR_ORACLE_HB : (enum orr_oracle)word;
        break;
    case PROGRAM_PAGEABLE:
        word =
            take_word(reader, "program.pageable", pageable_texts, absent ? &usual_pageable : value);
        program->is_staged = word == 1;
        break;
    case PROGRAM_CAPTURE_MODE:
        word = take_word(reader, "program.capture_mode", orr__capture_mode_texts,
                         absent ? &usual_mode : value);
        program->capture_mode = word < 0 ? ORR_CAPTURE_GLOBAL : (enum orr_capture_mode)word;
        break;
    case PROGRAM_NCCL_SERIAL:
        if (!absent && value->kind != ORR__JSON_BOOL)
            orr__reader_wrong(reader, "program.nccl_serial: true or false was expected");
        program->nccl_serial = value->is_true;
        break;
    case PROGRAM_SLOTS:
        program->slots = absent ? 99 : take_limit(reader, "program.slots", value, 99);
        break;
    case PROGRAM_QUEUE_DEPTH:
        program->queue_depth =
            absent ? ORR_NO_LIMIT : take_limit(reader, "program.queue_depth", value, ORR_NO_LIMIT);
        break;
    default: in_program_open(reader, value);
    }
}

/* --- declarations --- */

/* A name's number in the space that this place declares. */
static bool take_name(struct orr_stream_program_reader *reader, enum orr_name_space space,
                      const char *text) {
    return orr_stream_program_name(reader->line.program, space, text, &reader->name) == ORR_OK;
}

static bool declare(struct orr_stream_program_reader *reader, bool **declared, size_t *capacity,
                    uint32_t name) {
    if (orr_memory_grow(reader->memory, declared, capacity, (size_t)name + 1, sizeof **declared,
                        ITEMS_MAX) != ORR_OK)
        return false;
    (*declared)[name] = true;
    return true;
}

static const char *name_text(const struct orr_stream_program_reader *reader,
                             enum orr_name_space space, uint32_t name, char *buffer) {
    return orr__shown(orr_stream_program_text(reader->line.program, space, name), buffer);
}

static bool in_streams(struct orr_stream_program_reader *reader,
                       const struct orr__json_value *value) {
    char place[ORR__SHOWN_MAX + 32], shown[ORR__SHOWN_MAX];
    snprintf(place, sizeof place, "program.streams.%s",
             name_text(reader, ORR_NAME_STREAM, reader->name, shown));
    struct orr__program_facts *facts = &reader->facts;
    reader->stream_name = reader->name;
    reader->stream_seen = 0;
    if (value->kind == ORR__JSON_NULL && reader->name < facts->stream_capacity)
        facts->streams[reader->name] = false;
    expect(reader, value, ORR__JSON_MAP, ORR__AT_STREAM, place);
    return value->kind != ORR__JSON_MAP ||
           declare(reader, &facts->streams, &facts->stream_capacity, reader->stream_name);
}

static void in_stream(struct orr_stream_program_reader *reader,
                      const struct orr__json_value *value) {
    char place[ORR__SHOWN_MAX + 32], shown[ORR__SHOWN_MAX];
    if (reader->field < 0)
        return;
    reader->stream_seen &= ~(1u << reader->field);
    if (value->kind == ORR__JSON_NULL)
        return;
    reader->stream_seen |= 1u << reader->field;
    snprintf(place, sizeof place, "program.streams.%s.%s",
             name_text(reader, ORR_NAME_STREAM, reader->stream_name, shown),
             stream_fields[reader->field]);
    if (reader->field == STREAM_KIND) {
        int word = take_word(reader, place, orr__stream_sync_texts, value);
        reader->stream.sync = word < 0 ? ORR_STREAM_NB : (enum orr_stream_sync)word;
        return;
    }
    uint64_t device = 0;
    if (value->kind != ORR__JSON_NUMBER ||
        !orr__reader_integer(reader, value->text, ORR_NONE - 1, &device))
        orr__reader_wrong(reader, "%s: expected %s", place, orr__op_field_expected(ORR__FIELD_DEV));
    reader->stream.device = (uint32_t)device;
}

static void end_stream(struct orr_stream_program_reader *reader) {
    char shown[ORR__SHOWN_MAX];
    for (int field = 0; stream_fields[field]; field++)
        if (!(reader->stream_seen >> field & 1))
            orr__reader_wrong(reader, "program.streams.%s.%s: missing; %s was expected",
                              name_text(reader, ORR_NAME_STREAM, reader->stream_name, shown),
                              stream_fields[field],
                              field == STREAM_DEV ? "a device" : "nb, bl, ptds or legacy");
    reader->line.program->streams[reader->stream_name] = reader->stream;
}

static void in_buffers(struct orr_stream_program_reader *reader,
                       const struct orr__json_value *value) {
    char place[ORR__SHOWN_MAX + 32], shown[ORR__SHOWN_MAX];
    snprintf(place, sizeof place, "program.buffers.%s",
             name_text(reader, ORR_NAME_BUFFER, reader->name, shown));
    int word =
        value->kind == ORR__JSON_NULL ? 0 : take_word(reader, place, orr__memory_kind_texts, value);
    reader->line.program->buffers[reader->name] =
        word < 0 ? ORR_MEMORY_DEV : (enum orr_memory_kind)word;
}

static bool in_comms(struct orr_stream_program_reader *reader,
                     const struct orr__json_value *value) {
    char place[ORR__SHOWN_MAX + 32], shown[ORR__SHOWN_MAX];
    snprintf(place, sizeof place, "program.comms.%s",
             name_text(reader, ORR_NAME_COMM, reader->name, shown));
    struct orr__program_facts *facts = &reader->facts;
    reader->comm_name = reader->name;
    reader->rank_count = 0;
    if (value->kind == ORR__JSON_NULL && reader->name < facts->comm_capacity)
        facts->comms[reader->name] = false;
    expect(reader, value, ORR__JSON_ARRAY, ORR__AT_RANKS, place);
    return value->kind != ORR__JSON_ARRAY ||
           declare(reader, &facts->comms, &facts->comm_capacity, reader->comm_name);
}

static bool in_ranks(struct orr_stream_program_reader *reader,
                     const struct orr__json_value *value) {
    if (value->kind != ORR__JSON_STRING && value->kind != ORR__JSON_NUMBER) {
        char shown[ORR__SHOWN_MAX];
        orr__reader_wrong(reader, "program.comms.%s[%u]: expected %s",
                          name_text(reader, ORR_NAME_COMM, reader->comm_name, shown),
                          reader->rank_count, orr__op_field_expected(ORR__FIELD_RANK));
        return true;
    }
    if (orr_memory_grow(reader->memory, &reader->ranks, &reader->rank_capacity,
                        (size_t)reader->rank_count + 1, sizeof *reader->ranks, ITEMS_MAX) != ORR_OK)
        return false;
    struct orr__builder text = {.memory = reader->memory};
    if (value->kind == ORR__JSON_STRING)
        orr__build_json_string(&text, value->text);
    else
        orr__build_json_number(&text, value->text);
    uint32_t *rank = &reader->ranks[reader->rank_count++];
    bool kept = !text.failed && orr_stream_program_name(reader->line.program, ORR_NAME_RANK,
                                                        text.data, rank) == ORR_OK;
    orr__builder_clear(&text);
    return kept;
}

static bool end_ranks(struct orr_stream_program_reader *reader) {
    struct orr_stream_program *program = reader->line.program;
    const char *name = orr_stream_program_text(program, ORR_NAME_COMM, reader->comm_name);
    uint32_t id;
    return orr_stream_program_comm(program, name, reader->ranks, reader->rank_count, &id) == ORR_OK;
}

/* --- the document --- */

static void take_key(struct orr_stream_program_reader *reader, const char *text) {
    switch (at(reader)) {
    case ORR__AT_LINE: reader->field = find_word(line_fields, text); break;
    case ORR__AT_PROGRAM: reader->field = find_word(program_fields, text); break;
    case ORR__AT_STREAM: reader->field = find_word(stream_fields, text); break;
    case ORR__AT_OP: reader->field = (int)orr__op_field_find(text); break;
    case ORR__AT_STREAMS: reader->failed = !take_name(reader, ORR_NAME_STREAM, text); break;
    case ORR__AT_BUFFERS: reader->failed = !take_name(reader, ORR_NAME_BUFFER, text); break;
    case ORR__AT_COMMS: reader->failed = !take_name(reader, ORR_NAME_COMM, text); break;
    default: break; /* no other place has keys */
    }
}

static void take_value(struct orr_stream_program_reader *reader,
                       const struct orr__json_value *value) {
    bool kept = true;
    switch (at(reader)) {
    case ORR__AT_TOP: break;
    case ORR__AT_LINE: kept = in_line(reader, value); break;
    case ORR__AT_PROGRAM: in_program(reader, value); break;
    case ORR__AT_STREAMS: kept = in_streams(reader, value); break;
    case ORR__AT_STREAM: in_stream(reader, value); break;
    case ORR__AT_BUFFERS: in_buffers(reader, value); break;
    case ORR__AT_COMMS: kept = in_comms(reader, value); break;
    case ORR__AT_RANKS: kept = in_ranks(reader, value); break;
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
    }
    reader->failed = reader->failed || !kept;
}

static void take_end(struct orr_stream_program_reader *reader) {
    bool is_wrong = reader->error.status != ORR_OK, kept = true;
    switch (reader->places[--reader->place_count]) {
    case ORR__AT_STREAM:
        if (!is_wrong)
            end_stream(reader);
        break;
    case ORR__AT_RANKS: kept = is_wrong || end_ranks(reader); break;
    case ORR__AT_OP: kept = is_wrong || orr__reader_op_end(reader); break;
    case ORR__AT_STEP: kept = is_wrong || orr__reader_op_step(reader); break;
    default: break;
    }
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
    orr_memory_free(reader->memory, reader->facts.streams);
    orr_memory_free(reader->memory, reader->facts.comms);
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

/* A stream that plays no part need not be declared (`stream` of alloc). */
static void forget_undeclared(struct orr_stream_program_reader *reader) {
    struct orr_stream_program *program = reader->line.program;
    const struct orr__program_facts *facts = &reader->facts;
    for (uint32_t i = 0; i < program->op_count; i++) {
        uint32_t *stream = &program->ops[i].stream;
        if (*stream != ORR_NONE && (*stream >= facts->stream_capacity || !facts->streams[*stream]))
            *stream = ORR_NONE;
    }
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
    if (status == ORR_OK)
        forget_undeclared(reader);
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
