#include "hazards/stream_program_rules.h"

#include <inttypes.h>
#include <stdlib.h>

#include "hazards/stream_op_fields.h"
#include "hazards/text_builder.h"

/* A program under judgement. */
struct judged {
    const struct orr_stream_program *program;
    const struct orr__program_facts *facts;
    struct orr_error *error;
    struct orr__legacy *legacy;
    uint32_t legacy_count;
    uint32_t *open_groups; /* of each host */
};

enum { NEAREST_MAX = 256 };

/* --- legacy streams --- */

static int by_device(const void *a, const void *b) {
    const struct orr__legacy *left = a, *right = b;
    if (left->device != right->device)
        return left->device < right->device ? -1 : 1;
    return left->stream < right->stream ? -1 : left->stream > right->stream;
}

enum orr_status orr__legacy_streams(const struct orr_stream_program *program,
                                    struct orr__legacy **out_legacy, uint32_t *out_count) {
    uint32_t stream_count = program->names[ORR_NAME_STREAM].count, count = 0;
    *out_count = 0;
    *out_legacy = orr_memory_alloc(program->memory, (stream_count + 1) * sizeof **out_legacy);
    if (!*out_legacy)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < stream_count; i++)
        if (program->streams[i].sync == ORR_STREAM_LEGACY)
            (*out_legacy)[count++] =
                (struct orr__legacy){.device = program->streams[i].device, .stream = i};
    qsort(*out_legacy, count, sizeof **out_legacy, by_device);
    *out_count = count;
    return ORR_OK;
}

uint32_t orr__legacy_stream(const struct orr__legacy *legacy, uint32_t count, uint32_t device) {
    uint32_t from = 0, to = count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (legacy[middle].device < device)
            from = middle + 1;
        else
            to = middle;
    }
    return from < count && legacy[from].device == device ? legacy[from].stream : ORR_NONE;
}

/* --- what is declared --- */

static const char *shown_name(const struct judged *judged, enum orr_name_space space, uint32_t name,
                              char *buffer) {
    return orr__shown(orr_stream_program_text(judged->program, space, name), buffer);
}

static bool is_stream(const struct judged *judged, uint32_t stream) {
    return orr__is_declared(&judged->facts->streams, stream);
}

static bool is_comm(const struct judged *judged, uint32_t comm) {
    return orr__is_declared(&judged->facts->comms, comm);
}

static const char *nearest_name(const struct judged *judged, enum orr_name_space space,
                                const char *word) {
    const char *names[NEAREST_MAX];
    int count = 0;
    uint32_t all = judged->program->names[space].count;
    for (uint32_t i = 0; i < all && count < NEAREST_MAX; i++)
        if (space == ORR_NAME_STREAM ? is_stream(judged, i) : is_comm(judged, i))
            names[count++] = orr_stream_program_text(judged->program, space, i);
    return orr_nearest_name(word, names, count);
}

static enum orr_status say_undeclared(const struct judged *judged, uint32_t index,
                                      const char *field, enum orr_name_space space, uint32_t name,
                                      const char *where) {
    const char *text = orr_stream_program_text(judged->program, space, name);
    const char *nearest = nearest_name(judged, space, text);
    char shown[ORR__SHOWN_MAX], other[ORR__SHOWN_MAX];
    return orr_error_set(judged->error, ORR_INVALID, "ops[%u].%s: '%s' is not declared%s%s%s",
                         index, field, orr__shown(text, shown),
                         nearest ? "; did you mean '" : "; expected a name of ",
                         nearest ? orr__shown(nearest, other) : where, nearest ? "'?" : "");
}

/* --- one operation --- */

static enum orr_status check_missing(const struct judged *judged, uint32_t index,
                                     uint32_t required) {
    const struct orr_stream_op *op = &judged->program->ops[index];
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)op->kind;
    const struct orr__program_facts *facts = judged->facts;
    for (int i = 0; i < ORR__FIELDS; i++) {
        enum orr__op_field field = (enum orr__op_field)i;
        if (!(required >> field & 1))
            continue;
        bool is_missing = false;
        if (field == ORR__FIELD_STREAM)
            is_missing = op->stream == ORR_NONE;
        else if (field == ORR__FIELD_READS)
            is_missing = facts->no_reads == index;
        else if (field == ORR__FIELD_WRITES)
            is_missing = facts->no_writes == index;
        else if (field == orr__op_other_field(kind))
            is_missing = op->other == ORR_NONE;
        else
            is_missing = op->object == ORR_NONE;
        if (is_missing)
            return orr_error_set(judged->error, ORR_INVALID, "ops[%u].%s: missing; expected %s",
                                 index, orr__op_field_text(field), orr__op_field_expected(field));
    }
    return ORR_OK;
}

/* Streams and communicators that the oracle needs are there. */
static enum orr_status check_declared(const struct judged *judged, uint32_t index,
                                      uint32_t required) {
    const struct orr_stream_op *op = &judged->program->ops[index];
    bool hang = judged->program->oracle == ORR_ORACLE_HANG;
    if ((required & ORR__FIELD_BIT(STREAM)) && !is_stream(judged, op->stream))
        return say_undeclared(judged, index, "stream", ORR_NAME_STREAM, op->stream,
                              "program.streams");
    if (hang && (required & ORR__FIELD_BIT(COMM)) && !is_comm(judged, op->object))
        return say_undeclared(judged, index, "comm", ORR_NAME_COMM, op->object, "program.comms");
    return ORR_OK;
}

static enum orr_status check_body(const struct judged *judged, uint32_t index) {
    const struct orr_stream_program *program = judged->program;
    const struct orr_stream_op *op = &program->ops[index];
    const struct orr__program_facts *facts = judged->facts;
    char shown[ORR__SHOWN_MAX];
    if (facts->unknown_step == index)
        return orr_error_set(
            judged->error, ORR_INVALID,
            "ops[%u].body: '%s' is unknown; lock, unlock or sync_stream was expected", index,
            shown_name(judged, ORR_NAME_WORD, facts->step_word, shown));
    for (uint32_t i = 0; i < op->step_count; i++) {
        const struct orr_stream_step *step = &program->steps[op->step_first + i];
        if (step->kind == ORR_OP_SYNC_STREAM && !is_stream(judged, step->object))
            return say_undeclared(judged, index, "body", ORR_NAME_STREAM, step->object,
                                  "program.streams");
    }
    return ORR_OK;
}

/* Reads and writes of copies, and the stream of the forms that have none. */
static enum orr_status check_copy(const struct judged *judged, uint32_t index) {
    const struct orr_stream_program *program = judged->program;
    const struct orr_stream_op *op = &program->ops[index];
    bool is_copy = op->kind == ORR_OP_MEMCPY || op->kind == ORR_OP_MEMCPY_SYNC;
    bool is_sync = op->kind == ORR_OP_MEMCPY_SYNC || op->kind == ORR_OP_MEMSET_SYNC;
    uint32_t writes = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        writes += program->accesses[op->access_first + i].is_write;
    uint32_t reads = op->access_count - writes;
    if (is_copy && reads != 1)
        return orr_error_set(judged->error, ORR_INVALID,
                             "ops[%u].reads: %u accesses; exactly one, the source, was expected",
                             index, reads);
    if ((is_copy || is_sync) && writes != 1)
        return orr_error_set(judged->error, ORR_INVALID,
                             "ops[%u].writes: %u accesses; exactly one, the target, was expected",
                             index, writes);
    if (is_sync && orr__legacy_stream(judged->legacy, judged->legacy_count, op->device) == ORR_NONE)
        return orr_error_set(judged->error, ORR_INVALID,
                             "ops[%u].dev: device %u has no stream of kind legacy; %s runs on one",
                             index, op->device,
                             orr_stream_op_text((enum orr_stream_op_kind)op->kind));
    return ORR_OK;
}

static enum orr_status check_group(const struct judged *judged, uint32_t index) {
    const struct orr_stream_op *op = &judged->program->ops[index];
    uint32_t *open = &judged->open_groups[op->host];
    char shown[ORR__SHOWN_MAX];
    if (op->kind == ORR_OP_GROUP_START)
        ++*open;
    if (op->kind != ORR_OP_GROUP_END)
        return ORR_OK;
    if (*open == 0)
        return orr_error_set(
            judged->error, ORR_INVALID,
            "ops[%u].op: group_end of host '%s', which has no open group; a group_start before "
            "it was expected",
            index, shown_name(judged, ORR_NAME_HOST, op->host, shown));
    --*open;
    return ORR_OK;
}

static enum orr_status check_op(const struct judged *judged, uint32_t index) {
    const struct orr_stream_program *program = judged->program;
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)program->ops[index].kind;
    enum orr_oracle oracle = program->oracle;
    if (!orr__op_is_listed(kind, oracle))
        return orr_error_set(judged->error, ORR_INVALID,
                             "ops[%u].op: %s is no operation of oracle %s; one of it was expected",
                             index, orr_stream_op_text(kind), orr__oracle_texts[oracle]);
    uint32_t required = orr__op_required(kind, oracle);
    enum orr_status status = check_missing(judged, index, required);
    if (status == ORR_OK)
        status = check_declared(judged, index, required);
    if (status == ORR_OK && oracle == ORR_ORACLE_HB)
        status = check_copy(judged, index);
    if (status == ORR_OK && oracle == ORR_ORACLE_HANG)
        status = check_body(judged, index);
    if (status == ORR_OK && oracle == ORR_ORACLE_HANG)
        status = check_group(judged, index);
    return status;
}

static enum orr_status check_legacy(const struct judged *judged) {
    char first[ORR__SHOWN_MAX], second[ORR__SHOWN_MAX];
    for (uint32_t i = 1; i < judged->legacy_count; i++) {
        const struct orr__legacy *a = &judged->legacy[i - 1], *b = &judged->legacy[i];
        if (a->device == b->device)
            return orr_error_set(
                judged->error, ORR_INVALID,
                "program.streams: '%s' and '%s' are both of kind legacy on device %u; at most "
                "one was expected",
                shown_name(judged, ORR_NAME_STREAM, a->stream, first),
                shown_name(judged, ORR_NAME_STREAM, b->stream, second), a->device);
    }
    return ORR_OK;
}

enum orr_status orr__stream_program_validate(const struct orr_stream_program *program,
                                             const struct orr__program_facts *facts,
                                             struct orr_error *error) {
    struct judged judged = {.program = program, .facts = facts, .error = error};
    uint32_t hosts = program->names[ORR_NAME_HOST].count;
    judged.open_groups = orr_memory_alloc(program->memory, hosts * sizeof *judged.open_groups);
    enum orr_status status =
        judged.open_groups ? orr__legacy_streams(program, &judged.legacy, &judged.legacy_count)
                           : ORR_NO_MEMORY;
    if (status == ORR_OK)
        status = check_legacy(&judged);
    for (uint32_t i = 0; status == ORR_OK && i < program->op_count; i++)
        status = check_op(&judged, i);
    if (status == ORR_NO_MEMORY)
        orr_error_set(error, status, "no memory to check a program");
    orr_memory_free(program->memory, judged.legacy);
    orr_memory_free(program->memory, judged.open_groups);
    return status;
}
