#include "hazards/order.h"

#include <inttypes.h>
#include <stdio.h>

#include "hazards/order_memory.h"
#include "hazards/text_builder.h"

enum { CALL_MAX = 128, PART_MAX = 512 };

/* --- places --- */

static uint32_t legacy_of(const struct orr_stream_program *program, uint32_t device) {
    for (uint32_t i = 0; i < program->names[ORR_NAME_STREAM].count; i++)
        if (program->streams[i].sync == ORR_STREAM_LEGACY && program->streams[i].device == device)
            return i;
    return ORR_NONE;
}

/* Whether the host reads the source of this copy at the call. */
static bool is_staged_copy(const struct orr_stream_program *program,
                           const struct orr_stream_op *op) {
    const struct orr_stream_access *access = program->accesses + op->access_first;
    bool is_copy =
        op->kind == ORR_OP_MEMCPY_SYNC || (op->kind == ORR_OP_MEMCPY && program->is_staged);
    return is_copy && op->access_count == 2 &&
           program->buffers[access[0].buffer] == ORR_MEMORY_PAGEABLE &&
           !orr__order_is_host_memory(program, access[1].buffer);
}

struct orr_order_place orr_order_place(const struct orr_stream_program *program, uint32_t index,
                                       bool is_write) {
    const struct orr_stream_op *op = &program->ops[index];
    struct orr_order_place place = {.stream = op->stream, .host = op->host};
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_MEMCPY_SYNC:
    case ORR_OP_MEMSET_SYNC: place.stream = legacy_of(program, op->device); break;
    case ORR_OP_HOST_READ:
    case ORR_OP_HOST_WRITE:
    case ORR_OP_ALLOC:
    case ORR_OP_FREE:
    case ORR_OP_CUDA_FREE:
    case ORR_OP_HOST_FREE: place.stream = ORR_NONE; break;
    default: break;
    }
    if (!is_write && is_staged_copy(program, op))
        place.stream = ORR_NONE;
    return place;
}

/* --- parts of the message --- */

static const char *word(const struct orr_stream_program *program, uint32_t id,
                        char shown[ORR__SHOWN_MAX]) {
    return orr__shown(orr_stream_program_text(program, ORR_NAME_WORD, id), shown);
}

/* "op 3 'h1: k s0 r:A' (matmul, stream s0, host h1, train.lua:12)" */
static void operation_text(const struct orr_stream_program *program, uint32_t index, bool is_write,
                           char text[PART_MAX]) {
    const struct orr_stream_op *op = &program->ops[index];
    struct orr_order_place place = orr_order_place(program, index, is_write);
    bool is_host = place.stream == ORR_NONE;
    bool names_host = !is_host && place.host != 0;
    char call[CALL_MAX], actor[ORR__SHOWN_MAX], host[ORR__SHOWN_MAX], site[ORR__SHOWN_MAX],
        label[ORR__SHOWN_MAX];
    orr_stream_op_short(program, index, call, sizeof call);
    orr__shown(orr_stream_program_text(program, ORR_NAME_HOST, place.host), host);
    orr__shown(is_host ? host : orr_stream_program_text(program, ORR_NAME_STREAM, place.stream),
               actor);
    snprintf(text, PART_MAX, "op %" PRIu32 " '%s' (%s%s%s %s%s%s%s%s)", index, call,
             word(program, op->label, label), op->label == ORR_NONE ? "" : ", ",
             is_host ? "host" : "stream", actor, names_host ? ", host " : "",
             names_host ? host : "", op->site == ORR_NONE ? "" : ", ",
             word(program, op->site, site));
}

static void range_text(const struct orr_stream_program *program, uint32_t buffer, uint64_t lo,
                       uint64_t hi, char text[PART_MAX]) {
    char shown[ORR__SHOWN_MAX];
    const char *name = orr__shown(orr_stream_program_text(program, ORR_NAME_BUFFER, buffer), shown);
    if (hi != ORR_RANGE_WHOLE)
        snprintf(text, PART_MAX, "%s[%" PRIu64 ":%" PRIu64 "]", name, lo, hi);
    else if (lo > 0)
        snprintf(text, PART_MAX, "%s[%" PRIu64 ":]", name, lo);
    else
        snprintf(text, PART_MAX, "%s", name);
}

/* The buffer, and of two accesses the range in which they meet. */
static void place_text(const struct orr_stream_program *program,
                       const struct orr_order_finding *finding, char text[PART_MAX]) {
    const struct orr_stream_access *all = program->accesses;
    if (finding->access_a == ORR_NONE && finding->access_b == ORR_NONE) {
        range_text(program, program->ops[finding->op_b].object, 0, ORR_RANGE_WHOLE, text);
        return;
    }
    const struct orr_stream_access *b =
        &all[finding->access_b != ORR_NONE ? finding->access_b : finding->access_a];
    const struct orr_stream_access *a =
        &all[finding->access_a != ORR_NONE ? finding->access_a : finding->access_b];
    range_text(program, b->buffer, a->lo > b->lo ? a->lo : b->lo, a->hi < b->hi ? a->hi : b->hi,
               text);
}

/* Whether a name was made by `alias`. */
static bool is_alias(const struct orr_stream_program *program, uint32_t buffer, uint32_t before) {
    for (uint32_t i = before; i-- > 0;)
        if (program->ops[i].kind == ORR_OP_ALIAS && program->ops[i].object == buffer)
            return true;
    return false;
}

static const char *conflict_text(const struct orr_stream_access *a,
                                 const struct orr_stream_access *b) {
    if (!b->is_write)
        return "read after write";
    return a->is_write ? "write after write" : "write after read";
}

static const char *class_text(const struct orr_stream_program *program,
                              const struct orr_order_finding *finding) {
    if (finding->access_a != ORR_NONE && finding->access_b != ORR_NONE)
        return conflict_text(&program->accesses[finding->access_a],
                             &program->accesses[finding->access_b]);
    if (finding->kind == ORR_CHECK_USE_BEFORE_ALLOC)
        return finding->access_b == ORR_NONE ? "free before the allocation" : "use before alloc";
    return finding->access_b == ORR_NONE ? "free before the last use" : "use after free";
}

/* How two names came to mean one block; empty if there is one name. */
static void block_text(const struct orr_stream_program *program,
                       const struct orr_order_finding *finding, char text[PART_MAX]) {
    text[0] = '\0';
    if (finding->access_a == ORR_NONE || finding->access_b == ORR_NONE)
        return;
    uint32_t a = program->accesses[finding->access_a].buffer;
    uint32_t b = program->accesses[finding->access_b].buffer;
    bool aliased = is_alias(program, a, finding->op_b) || is_alias(program, b, finding->op_b);
    char shown[ORR__SHOWN_MAX];
    if (a != b)
        snprintf(text, PART_MAX,
                 aliased ? ", the same memory as '%s' (aliasing)" : ", a block handed on from '%s'",
                 orr__shown(orr_stream_program_text(program, ORR_NAME_BUFFER, a), shown));
}

enum orr_status orr_order_finding_describe(const struct orr_stream_program *program,
                                           const struct orr_order_finding *finding,
                                           struct orr_check_verdict *verdict) {
    bool a_writes = finding->access_a == ORR_NONE || program->accesses[finding->access_a].is_write;
    bool b_writes = finding->access_b == ORR_NONE || program->accesses[finding->access_b].is_write;
    char a[PART_MAX], b[PART_MAX], where[PART_MAX], block[PART_MAX];
    const char *what = class_text(program, finding);
    operation_text(program, finding->op_a, a_writes, a);
    operation_text(program, finding->op_b, b_writes, b);
    place_text(program, finding, where);
    block_text(program, finding, block);
    verdict->kind = finding->kind;
    verdict->op_a = finding->op_a;
    verdict->op_b = finding->op_b;
    struct orr_order_place place = orr_order_place(program, finding->op_b, b_writes);
    bool is_host = place.stream == ORR_NONE;
    char actor[ORR__SHOWN_MAX];
    orr__shown(is_host ? orr_stream_program_text(program, ORR_NAME_HOST, place.host)
                       : orr_stream_program_text(program, ORR_NAME_STREAM, place.stream),
               actor);
    if (finding->access_a == ORR_NONE && finding->kind == ORR_CHECK_USE_AFTER_FREE)
        return orr_check_verdict_message(
            verdict, "%s of %s: %s uses a name that %s ended earlier, whatever the order of work",
            what, where, b, a);
    return orr_check_verdict_message(
        verdict, "%s of %s%s: %s follows %s in the order of calls only; %s %s does not wait for it",
        what, where, block, b, a, is_host ? "host" : "stream", actor);
}
