#include "hazards/hang_text.h"

#include <string.h>

enum {
    OP_BYTES_MAX = 96, /* of an operation's short form in a message */
    CALLS_MAX = 8,     /* of a rank in a message */
    LINES_MAX = 24     /* of blocked hosts and streams in a message */
};

/* --- names --- */

static const char *name(const struct orr_stream_program *program, enum orr_name_space space,
                        uint32_t id) {
    return orr_stream_program_text(program, space, id);
}

void orr__hang_say_op(struct orr__builder *out, const struct orr_stream_program *program,
                      uint32_t op) {
    char text[OP_BYTES_MAX];
    orr_stream_op_short(program, op, text, sizeof text);
    orr__build_format(out, "op %u '%s'", op, text);
    if (program->ops[op].site != ORR_NONE)
        orr__build_format(out, " at %s", name(program, ORR_NAME_WORD, program->ops[op].site));
}

/* JSON without a string's quotes. */
static void say_bare(struct orr__builder *out, const char *text) {
    size_t length = strlen(text);
    if (length >= 2 && text[0] == '"')
        orr__build_bytes(out, text + 1, length - 2);
    else
        orr__build_bytes(out, text, length);
}

void orr__hang_say_rank(struct orr__builder *out, const struct orr_stream_program *program,
                        uint32_t rank) {
    say_bare(out, name(program, ORR_NAME_RANK, rank));
}

static void say_who(struct orr__builder *out, const struct orr_stream_program *program,
                    bool is_stream, uint32_t who) {
    orr__build_format(out, "%s %s", is_stream ? "stream" : "host",
                      name(program, is_stream ? ORR_NAME_STREAM : ORR_NAME_HOST, who));
}

/* --- blocked ones --- */

/* The call that never comes. */
static void say_missing(struct orr__builder *out, const struct orr_stream_program *program,
                        const struct orr_hang_blocked *blocked) {
    uint32_t calls = blocked->calls;
    orr__build_text(out, ", which never comes: rank ");
    orr__hang_say_rank(out, program, blocked->rank);
    if (blocked->other_op == ORR_NONE)
        orr__build_format(out, " makes %s%.0u such call%s", calls == 0 ? "no" : "only ", calls,
                          calls == 1 ? "" : "s");
}

static void say_partner(struct orr__builder *out, const struct orr_stream_program *program,
                        const struct orr_hang_blocked *blocked) {
    const struct orr_stream_op *op = &program->ops[blocked->op];
    orr__build_text(out, " has started and waits for rank ");
    orr__hang_say_rank(out, program, blocked->rank);
    const char *what = op->kind == ORR_OP_SEND   ? "'s recv"
                       : op->kind == ORR_OP_RECV ? "'s send"
                                                 : "'s call";
    orr__build_format(out, "%s number %u of communicator %s", what, blocked->number + 1,
                      name(program, ORR_NAME_COMM, blocked->object));
    if (blocked->other_op == ORR_NONE) {
        say_missing(out, program, blocked);
        return;
    }
    orr__build_text(out, ", ");
    orr__hang_say_op(out, program, blocked->other_op);
    if (blocked->next == ORR_NONE) {
        orr__build_text(out, ", which is in a group that never ends");
    } else if (blocked->next_is_stream) {
        orr__build_format(out, ", which has not started in stream %s",
                          name(program, ORR_NAME_STREAM, blocked->next));
    } else {
        orr__build_format(out, ", which host %s does not get to",
                          name(program, ORR_NAME_HOST, blocked->next));
    }
}

/* "..., where op 3 '...' does not finish" */
static void say_stuck_in(struct orr__builder *out, const struct orr_stream_program *program,
                         const struct orr_hang_blocked *blocked) {
    orr__build_format(out, "stream %s", name(program, ORR_NAME_STREAM, blocked->object));
    if (blocked->other_op == ORR_NONE)
        return;
    orr__build_text(out, ", where ");
    orr__hang_say_op(out, program, blocked->other_op);
    orr__build_text(out, " does not finish");
}

static void say_lock(struct orr__builder *out, const struct orr_stream_program *program,
                     const struct orr_hang_blocked *blocked) {
    orr__build_format(out, "waits for lock %s, which ",
                      name(program, ORR_NAME_LOCK, blocked->object));
    if (blocked->other_op == ORR_NONE) {
        say_who(out, program, false, blocked->next);
        orr__build_text(out, " holds");
        return;
    }
    orr__hang_say_op(out, program, blocked->other_op);
    orr__build_text(out, blocked->next == ORR_NONE ? " kept when it ended" : " holds");
}

static void say_flag(struct orr__builder *out, const struct orr_stream_program *program,
                     const struct orr_hang_blocked *blocked) {
    orr__build_format(out, "waits for flag %s, which ",
                      name(program, ORR_NAME_FLAG, blocked->object));
    if (blocked->other_op == ORR_NONE) {
        orr__build_text(out, "nobody sets");
        return;
    }
    say_who(out, program, false, blocked->next);
    orr__build_text(out, " would set in ");
    orr__hang_say_op(out, program, blocked->other_op);
}

static void say_slot(struct orr__builder *out, const struct orr_stream_program *program,
                     const struct orr_hang_blocked *blocked) {
    orr__build_format(out, " waits for a slot of device %u (slots %llu)", blocked->object,
                      (unsigned long long)program->slots);
    if (blocked->other_op == ORR_NONE)
        return;
    orr__build_text(out, "; ");
    orr__hang_say_op(out, program, blocked->other_op);
    orr__build_format(out, " in stream %s has one", name(program, ORR_NAME_STREAM, blocked->next));
}

static void say_blocked(struct orr__builder *out, const struct orr_stream_program *program,
                        const struct orr_hang_blocked *blocked) {
    say_who(out, program, blocked->is_stream, blocked->who);
    orr__build_text(out, blocked->is_stream ? ": " : " is in ");
    orr__hang_say_op(out, program, blocked->op);
    switch ((enum orr_hang_reason)blocked->reason) {
    case ORR_HANG_FOR_STREAM:
        orr__build_text(out, blocked->is_stream ? " waits for " : " and waits for ");
        say_stuck_in(out, program, blocked);
        break;
    case ORR_HANG_FOR_ROOM:
        orr__build_format(out, " and waits for room (queue_depth %llu) in ",
                          (unsigned long long)program->queue_depth);
        say_stuck_in(out, program, blocked);
        break;
    case ORR_HANG_FOR_LOCK:
        orr__build_text(out, blocked->is_stream ? " " : " and ");
        say_lock(out, program, blocked);
        break;
    case ORR_HANG_FOR_FLAG:
        orr__build_text(out, " and ");
        say_flag(out, program, blocked);
        break;
    case ORR_HANG_FOR_SLOT: say_slot(out, program, blocked); break;
    case ORR_HANG_FOR_PARTNER: say_partner(out, program, blocked); break;
    }
}

enum orr_status orr__hang_say(const struct orr_stream_program *program,
                              struct orr_hang_result *result) {
    for (uint32_t i = 0; i < result->blocked_count; i++) {
        struct orr__builder text = {.memory = result->memory};
        say_blocked(&text, program, &result->blocked[i]);
        result->blocked[i].text = text.data;
        if (text.failed)
            return ORR_NO_MEMORY;
    }
    return ORR_OK;
}

/* --- messages --- */

static void say_circle(struct orr__builder *out, const struct orr_stream_program *program,
                       const struct orr_hang_result *result, uint32_t from) {
    uint32_t at = from, said = 0;
    orr__build_format(out, "%s: ",
                      result->blocked[from].next_blocked == from ? "it waits for itself"
                                                                 : "they wait for each other");
    do {
        say_who(out, program, result->blocked[at].is_stream, result->blocked[at].who);
        orr__build_text(out, " -> ");
        at = result->blocked[at].next_blocked;
    } while (at != from && ++said < LINES_MAX);
    if (at != from)
        orr__build_text(out, "... -> ");
    say_who(out, program, result->blocked[from].is_stream, result->blocked[from].who);
}

/* Without a circle somebody waits for what nobody can do any more. */
static void say_end(struct orr__builder *out, const struct orr_hang_result *result) {
    for (uint32_t i = 0; i < result->blocked_count; i++)
        if (result->blocked[i].next_blocked == ORR_NONE) {
            orr__build_format(out, "nothing can help: %s", result->blocked[i].text);
            return;
        }
}

/* The communicators that a rank's calls go to, in the order of its calls. */
static void say_order(struct orr__builder *out, const struct orr_stream_program *program,
                      uint32_t rank) {
    uint32_t said = 0;
    orr__build_text(out, "\nrank ");
    orr__hang_say_rank(out, program, rank);
    orr__build_text(out, " calls");
    for (uint32_t i = 0; i < program->op_count; i++) {
        const struct orr_stream_op *op = &program->ops[i];
        bool is_call =
            op->kind == ORR_OP_COLL || op->kind == ORR_OP_SEND || op->kind == ORR_OP_RECV;
        if (!is_call || op->rank != rank)
            continue;
        if (said++ == CALLS_MAX) {
            orr__build_text(out, ", ...");
            return;
        }
        orr__build_format(out, "%s %s", said > 1 ? "," : "",
                          name(program, ORR_NAME_COMM, op->object));
    }
}

/* If ranks wait in different communicators: in which order two of them call these. */
static void say_orders(struct orr__builder *out, const struct orr_stream_program *program,
                       const struct orr_hang_result *result) {
    const struct orr_hang_blocked *first = NULL;
    for (uint32_t i = 0; i < result->blocked_count; i++) {
        const struct orr_hang_blocked *one = &result->blocked[i];
        if (one->reason != ORR_HANG_FOR_PARTNER)
            continue;
        first = first ? first : one;
        uint32_t rank = program->ops[first->op].rank, other = program->ops[one->op].rank;
        if (one->object == first->object || rank == other)
            continue;
        say_order(out, program, rank);
        say_order(out, program, other);
        return;
    }
}

static void say_hang(struct orr__builder *out, const struct orr_stream_program *program,
                     const struct orr_hang_result *result) {
    if (result->circle != ORR_NONE)
        say_circle(out, program, result, result->circle);
    else
        say_end(out, result);
    for (uint32_t i = 0; i < result->blocked_count && i < LINES_MAX; i++)
        orr__build_format(out, "\n%s", result->blocked[i].text);
    if (result->blocked_count > LINES_MAX)
        orr__build_format(out, "\nand %u more", result->blocked_count - LINES_MAX);
    say_orders(out, program, result);
}

static void say_call(struct orr__builder *out, const struct orr_stream_program *program,
                     uint32_t op, uint32_t rank) {
    const struct orr_stream_op *call = &program->ops[op];
    const char *kind = name(program, ORR_NAME_WORD, call->word);
    const char *count = name(program, ORR_NAME_WORD, call->count);
    orr__build_text(out, "rank ");
    orr__hang_say_rank(out, program, rank);
    orr__build_text(out, " ");
    say_bare(out, *kind ? kind : "(no kind)");
    orr__build_text(out, ", count ");
    say_bare(out, *count ? count : "1");
    orr__build_text(out, " (");
    orr__hang_say_op(out, program, op);
    orr__build_text(out, ")");
}

/* The first calls of a rank in a communicator, in the order of the list. */
static void say_sequence(struct orr__builder *out, const struct orr_stream_program *program,
                         uint32_t comm, uint32_t rank) {
    uint32_t said = 0;
    orr__build_text(out, "\nrank ");
    orr__hang_say_rank(out, program, rank);
    orr__build_text(out, ":");
    for (uint32_t i = 0; i < program->op_count; i++) {
        const struct orr_stream_op *op = &program->ops[i];
        if (op->kind != ORR_OP_COLL || op->object != comm || op->rank != rank)
            continue;
        if (said++ == CALLS_MAX) {
            orr__build_text(out, ", ...");
            return;
        }
        orr__build_text(out, said > 1 ? ", " : " ");
        const char *kind = name(program, ORR_NAME_WORD, op->word);
        say_bare(out, *kind ? kind : "(no kind)");
        if (op->count != ORR_NONE) {
            orr__build_text(out, " n=");
            say_bare(out, name(program, ORR_NAME_WORD, op->count));
        }
    }
}

static void say_mismatch(struct orr__builder *out, const struct orr_stream_program *program,
                         const struct orr_hang_mismatch *found) {
    orr__build_format(
        out, "call number %u of communicator %s is not the same for all: ", found->number + 1,
        name(program, ORR_NAME_COMM, program->ops[found->op_a].object));
    say_call(out, program, found->op_a, found->rank_a);
    orr__build_text(out, "; ");
    say_call(out, program, found->op_b, found->rank_b);
    say_sequence(out, program, program->ops[found->op_a].object, found->rank_a);
    say_sequence(out, program, program->ops[found->op_b].object, found->rank_b);
}

void orr__hang_message(struct orr__builder *out, const struct orr_stream_program *program,
                       const struct orr_hang_result *result) {
    if (result->kind == ORR_CHECK_MISMATCH)
        say_mismatch(out, program, &result->mismatch);
    else if (result->kind == ORR_CHECK_HANG || result->found_hang)
        say_hang(out, program, result);
    if (result->kind != ORR_CHECK_UNKNOWN)
        return;
    orr__build_format(out, "%sgave up after %llu states in which something competes",
                      result->found_hang ? "\nIt hangs; whether calls can mismatch first is not "
                                           "known: "
                                         : "",
                      (unsigned long long)result->states);
}
