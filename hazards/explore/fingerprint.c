#include "hazards/explore/fingerprint.h"

#include <stdio.h>

#include "hazards/explore/order_run.h"
#include "hazards/stream_op_fields.h"

static uint64_t mix_number(uint64_t hash, uint64_t value) {
    return orr__mix((hash ^ value) + 0x9e3779b97f4a7c15u);
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u; /* FNV-1a's prime */
    return orr__mix(hash + 1);
}

static uint64_t mix_name(uint64_t hash, const struct orr_stream_program *program,
                         enum orr_name_space space, uint32_t id) {
    return id == ORR_NONE ? mix_number(hash, 0x6e6f6e65) /* "none" */
                          : mix_text(hash, orr_stream_program_text(program, space, id));
}

/* Only the fields that the operation has. */
static uint64_t hash_fields(const struct orr_stream_program *program,
                            const struct orr_stream_op *op) {
    static const struct {
        uint32_t field;
        enum orr_name_space space;
    } objects[] = {{ORR__FIELD_BIT(EVENT), ORR_NAME_EVENT},
                   {ORR__FIELD_BIT(FLAG), ORR_NAME_FLAG},
                   {ORR__FIELD_BIT(LOCK), ORR_NAME_LOCK},
                   {ORR__FIELD_BIT(BUF), ORR_NAME_BUFFER},
                   {ORR__FIELD_BIT(COMM), ORR_NAME_COMM}};
    uint32_t has = orr__op_fields((enum orr_stream_op_kind)op->kind);
    uint64_t hash = mix_text(0, orr_stream_op_text((enum orr_stream_op_kind)op->kind));
    hash = mix_name(hash, program, ORR_NAME_HOST, op->host);
    if (has & ORR__FIELD_BIT(STREAM))
        hash = mix_name(hash, program, ORR_NAME_STREAM, op->stream);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (has & objects[i].field)
            hash = mix_name(hash, program, objects[i].space, op->object);
    if (has & (ORR__FIELD_BIT(OF) | ORR__FIELD_BIT(REUSE)))
        hash = mix_name(hash, program, ORR_NAME_BUFFER, op->other);
    if (program->oracle == ORR_ORACLE_HANG) { /* elsewhere these say nothing */
        if (has & ORR__FIELD_BIT(PEER))
            hash = mix_name(hash, program, ORR_NAME_RANK, op->other);
        if (has & ORR__FIELD_BIT(RANK))
            hash = mix_name(hash, program, ORR_NAME_RANK, op->rank);
        if (has & ORR__FIELD_BIT(KIND))
            hash = mix_name(hash, program, ORR_NAME_WORD, op->word);
        if (has & ORR__FIELD_BIT(COUNT))
            hash = mix_name(hash, program, ORR_NAME_WORD, op->count);
    }
    if (has & ORR__FIELD_BIT(DEV))
        hash = mix_number(hash, op->device);
    return has & ORR__FIELD_BIT(IGNORED) ? mix_number(hash, op->ignored) : hash;
}

static uint64_t hash_op(const struct orr_stream_program *program, uint32_t index) {
    const struct orr_stream_op *op = &program->ops[index];
    uint64_t hash = hash_fields(program, op);
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct orr_stream_access *access = &program->accesses[op->access_first + i];
        hash = mix_name(hash, program, ORR_NAME_BUFFER, access->buffer);
        hash = mix_number(mix_number(mix_number(hash, access->is_write), access->lo), access->hi);
    }
    for (uint32_t i = 0; i < op->step_count; i++) {
        const struct orr_stream_step *step = &program->steps[op->step_first + i];
        hash = mix_text(hash, orr_stream_op_text(step->kind));
        hash = mix_name(hash, program,
                        step->kind == ORR_OP_SYNC_STREAM ? ORR_NAME_STREAM : ORR_NAME_LOCK,
                        step->object);
    }
    for (uint32_t i = 0; i < op->device_count; i++)
        hash = mix_number(hash, program->devices[op->device_first + i]);
    return hash;
}

/* Declarations count whatever their order. */
static uint64_t hash_declarations(const struct orr_stream_program *program) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < program->names[ORR_NAME_STREAM].count; i++) {
        uint64_t hash = mix_name(1, program, ORR_NAME_STREAM, i);
        sum += mix_number(mix_number(hash, program->streams[i].device), program->streams[i].sync);
    }
    for (uint32_t i = 0; i < program->names[ORR_NAME_BUFFER].count; i++)
        if (program->buffers[i] != ORR_MEMORY_DEV)
            sum += mix_number(mix_name(2, program, ORR_NAME_BUFFER, i), program->buffers[i]);
    bool has_members = program->oracle == ORR_ORACLE_HANG; /* elsewhere nobody declares them */
    for (uint32_t i = 0; has_members && i < program->names[ORR_NAME_COMM].count; i++) {
        uint64_t hash = mix_name(3, program, ORR_NAME_COMM, i);
        for (uint32_t k = 0; k < program->comms[i].member_count; k++)
            hash = mix_name(hash, program, ORR_NAME_RANK,
                            program->members[program->comms[i].member_first + k]);
        sum += hash;
    }
    return sum;
}

static uint64_t hash_options(const struct orr_stream_program *program) {
    uint64_t hash = mix_number(4, program->oracle);
    hash = mix_number(mix_number(hash, program->is_staged), program->nccl_serial);
    hash = mix_number(mix_number(hash, program->capture_mode), program->slots);
    return mix_number(hash, program->queue_depth);
}

uint64_t orr_stream_program_fingerprint(const struct orr_stream_program *program) {
    uint64_t hash = mix_number(hash_options(program), hash_declarations(program));
    for (uint32_t i = 0; i < program->op_count; i++)
        hash = mix_number(hash, hash_op(program, i));
    return hash;
}

/* --- what has changed --- */

static bool same_op(const struct orr_stream_program *a, const struct orr_stream_program *b,
                    uint32_t index) {
    return index < a->op_count && index < b->op_count && hash_op(a, index) == hash_op(b, index);
}

static void op_text(const struct orr_stream_program *program, uint32_t index, char *text,
                    size_t size) {
    char op[160];
    if (index >= program->op_count) {
        snprintf(text, size, "no op %u", index);
        return;
    }
    orr_stream_op_short(program, index, op, sizeof op);
    snprintf(text, size, "'%s'", op);
}

static const char *actor_text(const struct orr_stream_program *program, uint32_t actor,
                              const char **out_kind) {
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    *out_kind = actor < streams ? "stream" : "host";
    return actor < streams ? orr_stream_program_text(program, ORR_NAME_STREAM, actor)
                           : orr_stream_program_text(program, ORR_NAME_HOST, actor - streams);
}

enum orr_status orr_schedule_fits(const struct orr_stream_program *found,
                                  const struct orr_schedule *schedule,
                                  const struct orr_stream_program *now, struct orr_error *error) {
    char then_text[192], now_text[192];
    if (orr_stream_program_fingerprint(found) == orr_stream_program_fingerprint(now))
        return ORR_OK;
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const struct orr_schedule_step *step = &schedule->steps[i];
        if (same_op(found, now, step->op))
            continue;
        const char *kind, *actor = actor_text(found, step->actor, &kind);
        op_text(found, step->op, then_text, sizeof then_text);
        op_text(now, step->op, now_text, sizeof now_text);
        return orr_error_set(error, ORR_INVALID,
                             "schedule no longer fits: step %u wants op %u %s on %s %s, the "
                             "program has %s",
                             i + 1, step->op, then_text, kind, actor, now_text);
    }
    for (uint32_t i = 0; i < found->op_count || i < now->op_count; i++) {
        if (same_op(found, now, i))
            continue;
        op_text(found, i, then_text, sizeof then_text);
        op_text(now, i, now_text, sizeof now_text);
        return orr_error_set(error, ORR_INVALID,
                             "schedule no longer fits: op %u was %s when it was found, the program "
                             "has %s; no step is about it, but it may change what the steps show",
                             i, then_text, now_text);
    }
    return orr_error_set(
        error, ORR_INVALID, "schedule no longer fits: the program's %s have changed",
        hash_options(found) != hash_options(now) ? "oracle or switches"
                                                 : "streams, kinds of memory or communicators");
}
