#include "hazards/hang_text.h"

static const char *const reasons[] = {
    [ORR_HANG_FOR_STREAM] = "stream", [ORR_HANG_FOR_ROOM] = "room",
    [ORR_HANG_FOR_LOCK] = "lock",     [ORR_HANG_FOR_FLAG] = "flag",
    [ORR_HANG_FOR_SLOT] = "slot",     [ORR_HANG_FOR_PARTNER] = "partner"};

static void build_name(struct orr__builder *out, const struct orr_stream_program *program,
                       const char *key, enum orr_name_space space, uint32_t id) {
    orr__build_format(out, "\"%s\": ", key);
    orr__build_json_string(out, orr_stream_program_text(program, space, id));
}

/* Ranks are JSON already. */
static void build_rank(struct orr__builder *out, const struct orr_stream_program *program,
                       uint32_t rank) {
    orr__build_text(out, orr_stream_program_text(program, ORR_NAME_RANK, rank));
}

static void build_who(struct orr__builder *out, const struct orr_stream_program *program,
                      bool is_stream, uint32_t who) {
    build_name(out, program, is_stream ? "stream" : "host",
               is_stream ? ORR_NAME_STREAM : ORR_NAME_HOST, who);
}

static void build_object(struct orr__builder *out, const struct orr_stream_program *program,
                         const struct orr_hang_blocked *blocked) {
    orr__build_text(out, ", ");
    switch ((enum orr_hang_reason)blocked->reason) {
    case ORR_HANG_FOR_LOCK:
        build_name(out, program, "object", ORR_NAME_LOCK, blocked->object);
        break;
    case ORR_HANG_FOR_FLAG:
        build_name(out, program, "object", ORR_NAME_FLAG, blocked->object);
        break;
    case ORR_HANG_FOR_SLOT: orr__build_format(out, "\"object\": %u", blocked->object); break;
    case ORR_HANG_FOR_PARTNER:
        build_name(out, program, "object", ORR_NAME_COMM, blocked->object);
        orr__build_format(out, ", \"number\": %u, \"rank\": ", blocked->number + 1);
        build_rank(out, program, blocked->rank);
        break;
    default: build_name(out, program, "object", ORR_NAME_STREAM, blocked->object); break;
    }
}

static void build_blocked(struct orr__builder *out, const struct orr_stream_program *program,
                          const struct orr_hang_blocked *blocked) {
    orr__build_text(out, "{");
    build_who(out, program, blocked->is_stream, blocked->who);
    orr__build_format(out, ", \"op\": %u, \"reason\": \"%s\"", blocked->op,
                      reasons[blocked->reason]);
    build_object(out, program, blocked);
    if (blocked->other_op != ORR_NONE)
        orr__build_format(out, ", \"other_op\": %u", blocked->other_op);
    if (blocked->next != ORR_NONE) {
        orr__build_text(out, ", \"waits_for\": {");
        build_who(out, program, blocked->next_is_stream, blocked->next);
        orr__build_text(out, "}");
    }
    orr__build_text(out, "}");
}

static void build_mismatch(struct orr__builder *out, const struct orr_stream_program *program,
                           const struct orr_hang_mismatch *found) {
    orr__build_text(out, ", \"mismatch\": {");
    build_name(out, program, "communicator", ORR_NAME_COMM, program->ops[found->op_a].object);
    orr__build_format(out, ", \"number\": %u, \"ranks\": [", found->number + 1);
    build_rank(out, program, found->rank_a);
    orr__build_text(out, ", ");
    build_rank(out, program, found->rank_b);
    orr__build_format(out, "], \"ops\": [%u, %u]}", found->op_a, found->op_b);
}

void orr__hang_json(struct orr__builder *out, const struct orr_stream_program *program,
                    const struct orr_hang_result *result) {
    orr__build_format(out, ", \"states\": %llu", (unsigned long long)result->states);
    if (result->kind == ORR_CHECK_MISMATCH)
        build_mismatch(out, program, &result->mismatch);
    if (result->blocked_count == 0)
        return;
    orr__build_text(out, ", \"blocked\": [");
    for (uint32_t i = 0; i < result->blocked_count; i++) {
        orr__build_text(out, i > 0 ? ", " : "");
        build_blocked(out, program, &result->blocked[i]);
    }
    orr__build_text(out, "]");
}
