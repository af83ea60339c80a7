#include "hazards/hang_fix.h"

#include <string.h>

enum {
    STATES_MAX = 4000, /* of the search of a candidate */
    OPS_MAX = 20000,   /* longer programs get no candidates */
    SAID_MAX = 4       /* operations that a text lists */
};

struct fixing {
    struct orr__builder *out;
    const struct orr_stream_program *program;
    const struct orr_hang_result *result;
    enum orr_status status;
};

static const char *name(const struct fixing *in, enum orr_name_space space, uint32_t id) {
    return orr_stream_program_text(in->program, space, id);
}

/* Does a changed program end well? Destroys it. */
static bool helps(struct fixing *in, struct orr_stream_program *changed) {
    bool ends_well = false;
    if (in->status == ORR_OK) {
        struct orr_hang_result result;
        in->status = orr_hangs_find(changed, STATES_MAX, &result);
        ends_well = in->status == ORR_OK && result.kind == ORR_CHECK_NO_HANG;
        orr_hang_result_clear(&result);
    }
    orr_stream_program_destroy(&changed);
    return ends_well;
}

static struct orr_stream_program *copy(struct fixing *in) {
    struct orr_stream_program *changed = NULL;
    in->status = orr_stream_program_copy(in->program, &changed);
    return changed;
}

static bool is_blocked_for(const struct fixing *in, enum orr_hang_reason reason) {
    for (uint32_t i = 0; i < in->result->blocked_count; i++)
        if (in->result->blocked[i].reason == reason)
            return true;
    return false;
}

/* --- room and slots --- */

static bool helps_with(struct fixing *in, uint64_t slots, uint64_t depth) {
    struct orr_stream_program *changed = copy(in);
    if (!changed)
        return false;
    changed->slots = slots;
    changed->queue_depth = depth;
    return helps(in, changed);
}

static bool more_room(struct fixing *in) {
    uint64_t depth = in->program->queue_depth;
    if (!is_blocked_for(in, ORR_HANG_FOR_ROOM) || !helps_with(in, in->program->slots, ORR_NO_LIMIT))
        return false;
    while (in->status == ORR_OK && depth < in->program->op_count &&
           !helps_with(in, in->program->slots, ++depth))
        if (depth >= 64)
            depth += depth / 4;
    orr__build_format(in->out,
                      "make the call that a partner needs before the queue is full; or use queues "
                      "of %llu entr%s (checked: then nothing hangs)",
                      (unsigned long long)depth, depth == 1 ? "y" : "ies");
    return true;
}

static bool more_slots(struct fixing *in) {
    uint64_t slots = in->program->slots;
    if (!is_blocked_for(in, ORR_HANG_FOR_SLOT) ||
        !helps_with(in, in->program->names[ORR_NAME_STREAM].count, in->program->queue_depth))
        return false;
    while (in->status == ORR_OK && !helps_with(in, ++slots, in->program->queue_depth))
        continue;
    orr__build_format(in->out,
                      "let events order the communication of different streams, in one order on "
                      "all ranks; or use %llu slot%s on a device (checked: then nothing hangs)",
                      (unsigned long long)slots, slots == 1 ? "" : "s");
    return true;
}

/* --- groups --- */

static bool is_message(const struct orr_stream_op *op) {
    return op->kind == ORR_OP_SEND || op->kind == ORR_OP_RECV;
}

/* What a group is about: messages, or all communication. */
static bool belongs(const struct orr_stream_op *op, bool with_collectives) {
    return is_message(op) || (with_collectives && op->kind == ORR_OP_COLL);
}

static bool insert(struct fixing *in, struct orr_stream_program *changed, uint32_t index,
                   enum orr_stream_op_kind kind, uint32_t host) {
    struct orr_stream_op op = orr_stream_op(kind);
    op.host = host;
    in->status = orr_stream_program_insert(changed, index, &op);
    return in->status == ORR_OK;
}

/* Whether a host has two calls that belong, and no group yet; the first and the last of them. */
static bool can_group(const struct orr_stream_program *program, uint32_t host,
                      bool with_collectives, uint32_t *out_first, uint32_t *out_last) {
    uint32_t first = ORR_NONE, last = ORR_NONE;
    for (uint32_t i = 0; i < program->op_count; i++) {
        const struct orr_stream_op *op = &program->ops[i];
        if (op->host != host)
            continue;
        if (op->kind == ORR_OP_GROUP_START)
            return false;
        if (belongs(op, with_collectives)) {
            first = first == ORR_NONE ? i : first;
            last = i;
        }
    }
    *out_first = first;
    *out_last = last;
    return first != last;
}

static void say_groups(struct fixing *in, bool with_collectives) {
    uint32_t hosts = in->program->names[ORR_NAME_HOST].count, shown = 0, first, last;
    orr__build_format(in->out,
                      "put the %s of a host in one group (group_start before its first, group_end "
                      "after its last): host",
                      with_collectives ? "communication" : "messages");
    for (uint32_t h = 0; h < hosts && shown <= SAID_MAX; h++) {
        if (!can_group(in->program, h, with_collectives, &first, &last))
            continue;
        orr__build_format(in->out, "%s %s", shown > 0 ? "," : "",
                          shown == SAID_MAX ? "..." : name(in, ORR_NAME_HOST, h));
        shown++;
    }
    orr__build_text(in->out, " (checked: then nothing hangs)");
}

static bool group_calls(struct fixing *in, bool with_collectives) {
    bool any = false;
    for (uint32_t i = 0; i < in->result->blocked_count; i++)
        any = any || belongs(&in->program->ops[in->result->blocked[i].op], with_collectives);
    struct orr_stream_program *changed = any ? copy(in) : NULL;
    if (!changed)
        return false;
    uint32_t hosts = in->program->names[ORR_NAME_HOST].count, first, last, grouped = 0;
    for (uint32_t h = 0; h < hosts && in->status == ORR_OK; h++)
        if (can_group(changed, h, with_collectives, &first, &last) &&
            insert(in, changed, last + 1, ORR_OP_GROUP_END, h) &&
            insert(in, changed, first, ORR_OP_GROUP_START, h))
            grouped++;
    if (grouped == 0 || in->status != ORR_OK) {
        orr_stream_program_destroy(&changed);
        return false;
    }
    if (!helps(in, changed))
        return false;
    say_groups(in, with_collectives);
    return true;
}

static bool group_messages(struct fixing *in) {
    return group_calls(in, false);
}

/* One host that launches the calls of several ranks must group them, or each waits for the next. */
static bool group_all(struct fixing *in) {
    uint32_t host = ORR_NONE, rank = ORR_NONE;
    for (uint32_t i = 0; i < in->program->op_count; i++) {
        const struct orr_stream_op *op = &in->program->ops[i];
        if (op->kind == ORR_OP_COLL && op->host == host && op->rank != rank)
            return group_calls(in, true);
        if (op->kind == ORR_OP_COLL) {
            host = op->host;
            rank = op->rank;
        }
    }
    return false;
}

/* --- syncs --- */

static bool is_sync(const struct orr_stream_op *op) {
    return op->kind == ORR_OP_SYNC_STREAM || op->kind == ORR_OP_SYNC_EVENT ||
           op->kind == ORR_OP_SYNC_DEVICE || op->kind == ORR_OP_IMPLICIT_SYNC;
}

/* Without the syncs that are blocked: one of them (`only`), or all (ORR_NONE). */
static bool without_syncs(struct fixing *in, uint32_t only, uint32_t *out_count) {
    bool *keep = orr_memory_alloc(in->program->memory, in->program->op_count * sizeof *keep);
    struct orr_stream_program *changed = NULL;
    *out_count = 0;
    if (!keep) {
        in->status = ORR_NO_MEMORY;
        return false;
    }
    memset(keep, true, in->program->op_count);
    for (uint32_t i = 0; i < in->result->blocked_count; i++) {
        const struct orr_hang_blocked *blocked = &in->result->blocked[i];
        if (blocked->is_stream || !is_sync(&in->program->ops[blocked->op]) ||
            (only != ORR_NONE && blocked->op != only))
            continue;
        keep[blocked->op] = false;
        ++*out_count;
    }
    if (*out_count > 0)
        in->status = orr_stream_program_subset(in->program, keep, &changed);
    orr_memory_free(in->program->memory, keep);
    return changed && helps(in, changed);
}

static void say_syncs(struct fixing *in, uint32_t only) {
    uint32_t said = 0;
    orr__build_text(in->out, "move ");
    for (uint32_t i = 0; i < in->result->blocked_count && said <= SAID_MAX; i++) {
        const struct orr_hang_blocked *blocked = &in->result->blocked[i];
        if (blocked->is_stream || !is_sync(&in->program->ops[blocked->op]) ||
            (only != ORR_NONE && blocked->op != only))
            continue;
        orr__build_text(in->out, said > 0 ? ", " : "");
        if (said++ == SAID_MAX)
            orr__build_text(in->out, "...");
        else
            orr__hang_say_op(in->out, in->program, blocked->op);
    }
    orr__build_text(in->out, " behind the calls that the other ranks wait for (checked: without it "
                             "nothing hangs)");
}

static bool move_syncs(struct fixing *in) {
    uint32_t count;
    for (uint32_t i = 0; i < in->result->blocked_count && i < SAID_MAX; i++) {
        uint32_t op = in->result->blocked[i].op;
        if (in->result->blocked[i].is_stream || !is_sync(&in->program->ops[op]) ||
            !without_syncs(in, op, &count))
            continue;
        say_syncs(in, op);
        return true;
    }
    if (!without_syncs(in, ORR_NONE, &count) || count < 2)
        return false;
    say_syncs(in, ORR_NONE);
    return true;
}

/* --- calls that are missing --- */

static const struct orr_hang_blocked *missing(const struct fixing *in) {
    for (uint32_t i = 0; i < in->result->blocked_count; i++)
        if (in->result->blocked[i].reason == ORR_HANG_FOR_PARTNER &&
            in->result->blocked[i].other_op == ORR_NONE)
            return &in->result->blocked[i];
    return NULL;
}

/* The last call that a rank makes in a communicator, ORR_NONE: none. */
static uint32_t last_call(const struct fixing *in, uint32_t comm, uint32_t rank) {
    for (uint32_t i = in->program->op_count; i-- > 0;) {
        const struct orr_stream_op *op = &in->program->ops[i];
        if ((op->kind == ORR_OP_COLL || is_message(op)) && op->object == comm && op->rank == rank)
            return i;
    }
    return ORR_NONE;
}

static bool add_missing(struct fixing *in) {
    const struct orr_hang_blocked *blocked = missing(in);
    if (!blocked)
        return false;
    struct orr_stream_op call = in->program->ops[blocked->op];
    uint32_t like = last_call(in, blocked->object, blocked->rank);
    bool is_checked = false;
    if (like != ORR_NONE) {
        struct orr_stream_program *changed = copy(in);
        if (!changed)
            return false;
        const struct orr_stream_op *other = &in->program->ops[like];
        call.other = is_message(&call) ? call.rank : call.other;
        if (is_message(&call))
            call.kind = call.kind == ORR_OP_SEND ? ORR_OP_RECV : ORR_OP_SEND;
        call.rank = blocked->rank;
        call.host = other->host;
        call.stream = other->stream;
        in->status = orr_stream_program_insert(changed, changed->op_count, &call);
        is_checked = helps(in, changed);
    }
    orr__build_text(in->out, "let rank ");
    orr__hang_say_rank(in->out, in->program, blocked->rank);
    orr__build_text(in->out, " make the call that is missing, the partner of ");
    orr__hang_say_op(in->out, in->program, blocked->op);
    if (is_checked)
        orr__build_format(in->out, " (checked: with it at the end of host %s nothing hangs)",
                          name(in, ORR_NAME_HOST, call.host));
    orr__build_text(in->out, "; or leave that one out");
    return true;
}

/* --- in general --- */

static bool syncs_itself(const struct fixing *in, const struct orr_hang_blocked *blocked) {
    const struct orr_stream_op *op = &in->program->ops[blocked->op];
    return blocked->is_stream && op->kind == ORR_OP_HOSTFN &&
           blocked->reason == ORR_HANG_FOR_STREAM;
}

static void in_general(struct fixing *in) {
    for (uint32_t i = 0; i < in->result->blocked_count; i++)
        if (syncs_itself(in, &in->result->blocked[i])) {
            orr__build_text(in->out, "let ");
            orr__hang_say_op(in->out, in->program, in->result->blocked[i].op);
            orr__build_text(in->out, " wait for nothing: a host function may not wait for work "
                                     "that is not before it; hand that to a host");
            return;
        }
    if (is_blocked_for(in, ORR_HANG_FOR_LOCK))
        orr__build_text(in->out, "take the locks in one order everywhere, give them back, and "
                                 "wait for nothing while holding one; host functions should take "
                                 "none that hosts hold during calls");
    else if (is_blocked_for(in, ORR_HANG_FOR_FLAG))
        orr__build_text(in->out, "set the flag before anything that waits for who awaits it");
    else if (is_blocked_for(in, ORR_HANG_FOR_ROOM))
        orr__build_text(in->out, "communicate before filling the queue, in one order on all ranks");
    else
        orr__build_text(in->out, "make the calls of all communicators in one order on all ranks, "
                                 "messages that cross in one group, and no host sync between them");
}

static void fix_hang(struct fixing *in) {
    bool (*const candidates[])(struct fixing *) = {add_missing, group_messages, group_all,
                                                   move_syncs,  more_room,      more_slots};
    size_t count = sizeof candidates / sizeof *candidates;
    if (in->program->op_count > OPS_MAX)
        count = 0;
    for (size_t i = 0; i < count && in->status == ORR_OK; i++)
        if (candidates[i](in))
            return;
    if (in->status == ORR_OK)
        in_general(in);
}

/* --- mismatches --- */

/* The first call of a rank in the communicator that is the same as `like`, from `from` on. */
static uint32_t same_call(const struct fixing *in, uint32_t like, uint32_t rank) {
    const struct orr_stream_op *wanted = &in->program->ops[like];
    for (uint32_t i = 0; i < in->program->op_count; i++) {
        const struct orr_stream_op *op = &in->program->ops[i];
        if (op->kind == ORR_OP_COLL && op->object == wanted->object && op->rank == rank &&
            op->word == wanted->word && op->count == wanted->count)
            return i;
    }
    return ORR_NONE;
}

static void fix_mismatch(struct fixing *in) {
    const struct orr_hang_mismatch *found = &in->result->mismatch;
    uint32_t comm = in->program->ops[found->op_a].object;
    uint32_t partner = same_call(in, found->op_a, found->rank_b);
    orr__build_format(in->out, "make the calls of communicator %s in the same order%s on ranks ",
                      name(in, ORR_NAME_COMM, comm),
                      partner == ORR_NONE ? ", with the same kinds and counts," : "");
    orr__hang_say_rank(in->out, in->program, found->rank_a);
    orr__build_text(in->out, " and ");
    orr__hang_say_rank(in->out, in->program, found->rank_b);
    orr__build_format(in->out, ": call number %u of rank ", found->number + 1);
    orr__hang_say_rank(in->out, in->program, found->rank_b);
    orr__build_text(in->out, " would be ");
    if (partner != ORR_NONE)
        orr__hang_say_op(in->out, in->program, partner);
    else
        orr__build_text(in->out, "like ");
    if (partner == ORR_NONE)
        orr__hang_say_op(in->out, in->program, found->op_a);
}

enum orr_status orr__hang_fix(struct orr__builder *out, const struct orr_stream_program *program,
                              const struct orr_hang_result *result) {
    struct fixing in = {.out = out, .program = program, .result = result, .status = ORR_OK};
    if (result->kind == ORR_CHECK_MISMATCH)
        fix_mismatch(&in);
    else
        fix_hang(&in);
    return in.status;
}
