#include "hazards/stream_program_write.h"

#include <inttypes.h>
#include <string.h>

#include "hazards/stream_op_fields.h"
#include "hazards/text_builder.h"

enum { SHORT_MAX = 512 };

struct writer {
    const struct orr_stream_program *program;
    struct orr__builder line;
    bool is_invalid; /* a name that no access can have */
};

static void add(struct writer *writer, const char *text) {
    orr__build_text(&writer->line, text);
}

static void add_name(struct writer *writer, enum orr_name_space space, uint32_t name) {
    orr__build_json_string(&writer->line, orr_stream_program_text(writer->program, space, name));
}

/* `, "key": "name"` if there is a name. */
static void add_field(struct writer *writer, const char *key, enum orr_name_space space,
                      uint32_t name) {
    if (name == ORR_NONE)
        return;
    orr__build_format(&writer->line, ", \"%s\": ", key);
    add_name(writer, space, name);
}

/* The same for ranks, kinds and counts, which are JSON already. */
static void add_value(struct writer *writer, const char *key, enum orr_name_space space,
                      uint32_t name) {
    if (name != ORR_NONE)
        orr__build_format(&writer->line, ", \"%s\": %s", key,
                          orr_stream_program_text(writer->program, space, name));
}

/* --- declarations --- */

static void add_streams(struct writer *writer) {
    const struct orr_stream_program *program = writer->program;
    add(writer, "\"streams\": {");
    for (uint32_t i = 0; i < program->names[ORR_NAME_STREAM].count; i++) {
        add(writer, i == 0 ? "" : ", ");
        add_name(writer, ORR_NAME_STREAM, i);
        orr__build_format(&writer->line, ": {\"dev\": %u, \"kind\": \"%s\"}",
                          program->streams[i].device,
                          orr__stream_sync_texts[program->streams[i].sync]);
    }
    add(writer, "}");
}

static void add_buffers(struct writer *writer) {
    const struct orr_stream_program *program = writer->program;
    const char *comma = "";
    add(writer, ", \"buffers\": {");
    for (uint32_t i = 0; i < program->names[ORR_NAME_BUFFER].count; i++) {
        if (program->buffers[i] == ORR_MEMORY_DEV)
            continue;
        add(writer, comma);
        add_name(writer, ORR_NAME_BUFFER, i);
        orr__build_format(&writer->line, ": \"%s\"", orr__memory_kind_texts[program->buffers[i]]);
        comma = ", ";
    }
    add(writer, "}");
}

static void add_members(struct writer *writer, const struct orr_comm_info *comm) {
    const struct orr_stream_program *program = writer->program;
    add(writer, ": [");
    for (uint32_t i = 0; i < comm->member_count; i++) {
        add(writer, i == 0 ? "" : ", ");
        add(writer, orr_stream_program_text(program, ORR_NAME_RANK,
                                            program->members[comm->member_first + i]));
    }
    add(writer, "]");
}

/* Communicators; without members only where they must be listed. */
static void add_comms(struct writer *writer) {
    const struct orr_stream_program *program = writer->program;
    const char *lead = ", \"comms\": {";
    for (uint32_t i = 0; i < program->names[ORR_NAME_COMM].count; i++) {
        if (program->comms[i].member_count == 0 && program->oracle != ORR_ORACLE_HANG)
            continue;
        add(writer, lead);
        add_name(writer, ORR_NAME_COMM, i);
        add_members(writer, &program->comms[i]);
        lead = ", ";
    }
    add(writer, lead[2] == '\0' ? "}" : "");
}

static void add_options(struct writer *writer) {
    const struct orr_stream_program *program = writer->program;
    if (program->oracle != ORR_ORACLE_HB)
        orr__build_format(&writer->line, ", \"oracle\": \"%s\"",
                          orr__oracle_texts[program->oracle]);
    if (program->is_staged)
        add(writer, ", \"pageable\": \"staged\"");
    if (program->nccl_serial)
        add(writer, ", \"nccl_serial\": true");
    add_comms(writer);
    if (program->slots != 99)
        orr__build_format(&writer->line, ", \"slots\": %" PRIu64, program->slots);
    if (program->queue_depth != ORR_NO_LIMIT)
        orr__build_format(&writer->line, ", \"queue_depth\": %" PRIu64, program->queue_depth);
    if (program->capture_mode != ORR_CAPTURE_GLOBAL)
        orr__build_format(&writer->line, ", \"capture_mode\": \"%s\"",
                          orr__capture_mode_texts[program->capture_mode]);
}

/* --- operations --- */

static bool is_plain(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length > 0 && name[length] == '\0';
}

static void add_accesses(struct writer *writer, const struct orr_stream_op *op, bool is_write) {
    const struct orr_stream_program *program = writer->program;
    const char *lead = is_write ? ", \"writes\": [" : ", \"reads\": [";
    bool is_open = op->kind == (is_write ? ORR_OP_HOST_WRITE : ORR_OP_HOST_READ);
    if (is_open)
        add(writer, lead); /* a required field is there even if it is empty */
    lead = is_open ? "" : lead;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct orr_stream_access *access = &program->accesses[op->access_first + i];
        if (access->is_write != is_write)
            continue;
        const char *name = orr_stream_program_text(program, ORR_NAME_BUFFER, access->buffer);
        writer->is_invalid = writer->is_invalid || !is_plain(name);
        orr__build_format(&writer->line, "%s\"%s", lead, name);
        if (access->hi != ORR_RANGE_WHOLE)
            orr__build_format(&writer->line, "[%" PRIu64 ":%" PRIu64 "]", access->lo, access->hi);
        add(writer, "\"");
        lead = ", ";
        is_open = true;
    }
    add(writer, is_open ? "]" : "");
}

static void add_devices(struct writer *writer, const struct orr_stream_op *op) {
    if (op->device != 0)
        orr__build_format(&writer->line, ", \"dev\": %u", op->device);
    if (op->device_count == 0)
        return;
    const uint32_t *devices = writer->program->devices + op->device_first;
    bool is_empty = op->device_count == 1 && devices[0] == ORR_NONE;
    add(writer, ", \"devs\": [");
    for (uint32_t i = 0; i < op->device_count && !is_empty; i++)
        orr__build_format(&writer->line, "%s%u", i == 0 ? "" : ", ", devices[i]);
    add(writer, "]");
}

static void add_body(struct writer *writer, const struct orr_stream_op *op) {
    if (op->step_count == 0)
        return;
    add(writer, ", \"body\": [");
    for (uint32_t i = 0; i < op->step_count; i++) {
        const struct orr_stream_step *step = &writer->program->steps[op->step_first + i];
        orr__build_format(&writer->line, "%s[\"%s\", ", i == 0 ? "" : ", ",
                          orr_stream_op_text(step->kind));
        add_name(writer, step->kind == ORR_OP_SYNC_STREAM ? ORR_NAME_STREAM : ORR_NAME_LOCK,
                 step->object);
        add(writer, "]");
    }
    add(writer, "]");
}

/* The rank, unless it is the host's name. */
static void add_rank(struct writer *writer, const struct orr_stream_op *op) {
    struct orr__builder usual = {.memory = writer->program->memory};
    orr__build_json_string(&usual,
                           orr_stream_program_text(writer->program, ORR_NAME_HOST, op->host));
    writer->line.failed = writer->line.failed || usual.failed;
    const char *rank = orr_stream_program_text(writer->program, ORR_NAME_RANK, op->rank);
    if (!usual.failed && strcmp(usual.data, rank) != 0)
        add_value(writer, "rank", ORR_NAME_RANK, op->rank);
    orr__builder_clear(&usual);
}

static void add_op(struct writer *writer, const struct orr_stream_op *op) {
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)op->kind;
    enum orr__op_field object = orr__op_object_field(kind), other = orr__op_other_field(kind);
    orr__build_format(&writer->line, "{\"op\": \"%s\"", orr_stream_op_text(kind));
    if (op->host != 0)
        add_field(writer, "host", ORR_NAME_HOST, op->host);
    if (object != ORR__FIELDS)
        add_field(writer, orr__op_field_text(object), orr__op_field_space(object), op->object);
    add_field(writer, "stream", ORR_NAME_STREAM, op->stream);
    if (other == ORR__FIELD_PEER)
        add_value(writer, "peer", ORR_NAME_RANK, op->other);
    else if (other != ORR__FIELDS)
        add_field(writer, orr__op_field_text(other), ORR_NAME_BUFFER, op->other);
    if (op->rank != ORR_NONE)
        add_rank(writer, op);
    add_value(writer, "kind", ORR_NAME_WORD, op->word);
    add_value(writer, "count", ORR_NAME_WORD, op->count);
    add_devices(writer, op);
    add(writer, op->ignored ? ", \"ignored\": true" : "");
    add_accesses(writer, op, false);
    add_accesses(writer, op, true);
    add_body(writer, op);
    add_field(writer, "site", ORR_NAME_WORD, op->site);
    add_field(writer, "label", ORR_NAME_WORD, op->label);
    add(writer, "}");
}

static void add_ops(struct writer *writer) {
    const struct orr_stream_program *program = writer->program;
    add(writer, ", \"ops\": [");
    for (uint32_t i = 0; i < program->op_count; i++) {
        add(writer, i == 0 ? "" : ", ");
        add_op(writer, &program->ops[i]);
    }
    add(writer, "], \"ops_text\": [");
    for (uint32_t i = 0; i < program->op_count; i++) {
        char text[SHORT_MAX];
        orr_stream_op_short(program, i, text, sizeof text);
        add(writer, i == 0 ? "" : ", ");
        orr__build_json_string(&writer->line, text);
    }
    add(writer, "]");
}

enum orr_status orr_stream_program_write(const struct orr_stream_program *program, const char *id,
                                         char **out_text) {
    struct writer writer = {.program = program, .line = {.memory = program->memory}};
    *out_text = NULL;
    if (id) {
        add(&writer, "{\"id\": ");
        orr__build_json_string(&writer.line, id);
        add(&writer, ", \"writer\": \"orrery\", \"program\": ");
    }
    add(&writer, "{");
    add_streams(&writer);
    add_buffers(&writer);
    add_options(&writer);
    add_ops(&writer);
    add(&writer, id ? "}}\n" : "}\n");
    if (!writer.line.failed && !writer.is_invalid) {
        *out_text = writer.line.data;
        return ORR_OK;
    }
    enum orr_status status = writer.line.failed ? ORR_NO_MEMORY : ORR_INVALID;
    orr__builder_clear(&writer.line);
    return status;
}
