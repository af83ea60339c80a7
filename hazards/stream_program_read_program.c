#include <stdio.h>
#include <string.h>

#include "hazards/stream_program_read_internal.h"

/* The program's own fields: options, and what it declares. */

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
static const char *const stream_fields[] = {"dev", "kind", NULL};
static const char *const pageable_texts[] = {"strict", "staged", NULL};
enum { STREAM_DEV, STREAM_KIND };

/* --- words and numbers --- */

int orr__reader_find_word(const char *const *words, const char *text) {
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

/* The number of a word; says what is wrong with another and gives -1. */
static int take_word(struct orr_stream_program_reader *reader, const char *place,
                     const char *const *words, const struct orr__json_value *value) {
    int found = value->kind == ORR__JSON_STRING ? orr__reader_find_word(words, value->text) : -1;
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

/* --- fields of the program --- */

static void forget_ops(struct orr_stream_program_reader *reader) {
    struct orr_stream_program *program = reader->line.program;
    program->op_count = program->access_count = program->step_count = program->device_count = 0;
    struct orr__program_facts *facts = &reader->facts;
    facts->no_reads = facts->no_writes = facts->unknown_step = ORR_NONE;
    orr__reader_bounds_forget(reader);
}

/* Declarations and operations: the last value of a key counts. */
static void in_program_open(struct orr_stream_program_reader *reader,
                            const struct orr__json_value *value) {
    struct orr__program_facts *facts = &reader->facts;
    bool is_map = value->kind == ORR__JSON_MAP;
    switch (reader->field) {
    case PROGRAM_STREAMS:
        facts->streams.round++;
        facts->has_streams = is_map;
        orr__reader_expect(reader, value, ORR__JSON_MAP, ORR__AT_STREAMS, "program.streams");
        break;
    case PROGRAM_BUFFERS:
        reader->buffers.round++;
        reader->buffer_lists++;
        orr__reader_expect(reader, value, ORR__JSON_MAP, ORR__AT_BUFFERS, "program.buffers");
        break;
    case PROGRAM_COMMS:
        facts->comms.round++;
        orr__reader_expect(reader, value, ORR__JSON_MAP, ORR__AT_COMMS, "program.comms");
        break;
    default:
        forget_ops(reader);
        facts->has_ops = value->kind == ORR__JSON_ARRAY;
        orr__reader_expect(reader, value, ORR__JSON_ARRAY, ORR__AT_OPS, "program.ops");
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

static bool declare(struct orr_stream_program_reader *reader, struct orr__declared *declared,
                    uint32_t name) {
    if (orr_memory_grow(reader->memory, &declared->rounds, &declared->capacity, (size_t)name + 1,
                        sizeof *declared->rounds, ITEMS_MAX) != ORR_OK)
        return false;
    declared->rounds[name] = declared->round;
    return true;
}

static void take_back(struct orr__declared *declared, uint32_t name) {
    if (name < declared->capacity)
        declared->rounds[name] = 0;
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
    if (value->kind == ORR__JSON_NULL)
        take_back(&facts->streams, reader->name);
    orr__reader_expect(reader, value, ORR__JSON_MAP, ORR__AT_STREAM, place);
    return value->kind != ORR__JSON_MAP || declare(reader, &facts->streams, reader->stream_name);
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

static bool in_buffers(struct orr_stream_program_reader *reader,
                       const struct orr__json_value *value) {
    char place[ORR__SHOWN_MAX + 32], shown[ORR__SHOWN_MAX];
    snprintf(place, sizeof place, "program.buffers.%s",
             name_text(reader, ORR_NAME_BUFFER, reader->name, shown));
    int word =
        value->kind == ORR__JSON_NULL ? 0 : take_word(reader, place, orr__memory_kind_texts, value);
    reader->line.program->buffers[reader->name] =
        word < 0 ? ORR_MEMORY_DEV : (enum orr_memory_kind)word;
    return declare(reader, &reader->buffers, reader->name);
}

static bool in_comms(struct orr_stream_program_reader *reader,
                     const struct orr__json_value *value) {
    char place[ORR__SHOWN_MAX + 32], shown[ORR__SHOWN_MAX];
    snprintf(place, sizeof place, "program.comms.%s",
             name_text(reader, ORR_NAME_COMM, reader->name, shown));
    struct orr__program_facts *facts = &reader->facts;
    reader->comm_name = reader->name;
    reader->rank_count = 0;
    if (value->kind == ORR__JSON_NULL)
        take_back(&facts->comms, reader->name);
    orr__reader_expect(reader, value, ORR__JSON_ARRAY, ORR__AT_RANKS, place);
    return value->kind != ORR__JSON_ARRAY || declare(reader, &facts->comms, reader->comm_name);
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

/* --- the places of this file --- */

bool orr__reader_program_key(struct orr_stream_program_reader *reader, enum orr__place place,
                             const char *text) {
    switch (place) {
    case ORR__AT_PROGRAM: reader->field = orr__reader_find_word(program_fields, text); return true;
    case ORR__AT_STREAM: reader->field = orr__reader_find_word(stream_fields, text); return true;
    case ORR__AT_STREAMS: return take_name(reader, ORR_NAME_STREAM, text);
    case ORR__AT_BUFFERS: return take_name(reader, ORR_NAME_BUFFER, text);
    case ORR__AT_COMMS: return take_name(reader, ORR_NAME_COMM, text);
    default: return true; /* no other place has keys */
    }
}

bool orr__reader_program_value(struct orr_stream_program_reader *reader, enum orr__place place,
                               const struct orr__json_value *value) {
    switch (place) {
    case ORR__AT_PROGRAM: in_program(reader, value); return true;
    case ORR__AT_STREAMS: return in_streams(reader, value);
    case ORR__AT_STREAM: in_stream(reader, value); return true;
    case ORR__AT_BUFFERS: return in_buffers(reader, value);
    case ORR__AT_COMMS: return in_comms(reader, value);
    default: return in_ranks(reader, value);
    }
}

bool orr__reader_program_end(struct orr_stream_program_reader *reader, enum orr__place place) {
    if (place == ORR__AT_STREAM)
        end_stream(reader);
    return place != ORR__AT_RANKS || end_ranks(reader);
}
