#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hazards/stream_program.h"

/* An operation in short form, for people. */

struct cut {
    const struct orr_stream_program *program;
    char *text;
    size_t length, size;
};

static void add(struct cut *cut, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct cut *cut, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(cut->text + cut->length, cut->size - cut->length, format, arguments);
    va_end(arguments);
    size_t added = length < 0 ? 0 : (size_t)length;
    cut->length = added < cut->size - cut->length ? cut->length + added : cut->size - 1;
}

/* X(NAME, "word", what follows): s stream, o object, p what `other` names, k kind of a collective,
 * c source and target of a copy, a accesses with r: and w:, t accesses without, d device,
 * D devices. */
#define SHORT_FORMS(X)                                                                             \
    X(KERNEL, "k", "sa")                                                                           \
    X(HOSTFN, "hostfn", "sa")                                                                      \
    X(MEMSET, "ms", "st")                                                                          \
    X(MEMCPY, "cp", "sc")                                                                          \
    X(MEMCPY_SYNC, "cpsync", "cd")                                                                 \
    X(MEMSET_SYNC, "mssync", "td")                                                                 \
    X(COLL, "coll", "oksa")                                                                        \
    X(SEND, "send", "opsa")                                                                        \
    X(RECV, "recv", "opsa")                                                                        \
    X(GROUP_START, "gs", "")                                                                       \
    X(GROUP_END, "ge", "")                                                                         \
    X(HOST_READ, "hr", "t")                                                                        \
    X(HOST_WRITE, "hw", "t")                                                                       \
    X(VIEW, "view", "so")                                                                          \
    X(RECORD, "rec", "os")                                                                         \
    X(WAIT, "wait", "so")                                                                          \
    X(SYNC_EVENT, "esync", "o")                                                                    \
    X(QUERY_OK, "qok", "o")                                                                        \
    X(EVENT_QUERY, "equery", "o")                                                                  \
    X(SYNC_STREAM, "ssync", "s")                                                                   \
    X(STREAM_QUERY_OK, "sqok", "s")                                                                \
    X(SYNC_DEVICE, "dsync", "D")                                                                   \
    X(IMPLICIT_SYNC, "isync", "D")                                                                 \
    X(EVENT_CREATE, "ecreate", "o")                                                                \
    X(EVENT_DESTROY, "edestroy", "o")                                                              \
    X(STREAM_CREATE, "screate", "s")                                                               \
    X(STREAM_DESTROY, "sdestroy", "s")                                                             \
    X(NOTIFY, "notify", "o")                                                                       \
    X(AWAIT, "await", "o")                                                                         \
    X(LOCK, "lock", "o")                                                                           \
    X(UNLOCK, "unlock", "o")                                                                       \
    X(ALLOC, "alloc", "osu")                                                                       \
    X(FREE, "free", "o")                                                                           \
    X(RECORD_STREAM, "rs", "os")                                                                   \
    X(ALLOC_ASYNC, "malloca", "osu")                                                               \
    X(FREE_ASYNC, "freea", "os")                                                                   \
    X(CUDA_MALLOC, "cmalloc", "o")                                                                 \
    X(CUDA_FREE, "cfree", "o")                                                                     \
    X(HOST_FREE, "hfree", "o")                                                                     \
    X(ALIAS, "alias", "op")                                                                        \
    X(CAPTURE_BEGIN, "capb", "s")                                                                  \
    X(CAPTURE_END, "cape", "s")                                                                    \
    X(GRAPH_LAUNCH, "launch", "s")

static const struct {
    const char *word, *parts;
} forms[] = {
#define ROW(name, word, parts) [ORR_OP_##name] = {word, parts},
    SHORT_FORMS(ROW)
#undef ROW
};

_Static_assert(sizeof forms / sizeof forms[0] == ORR_OP_COUNT, "a form for each operation");

static enum orr_name_space object_space(enum orr_stream_op_kind kind) {
    switch (kind) {
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: return ORR_NAME_COMM;
    case ORR_OP_NOTIFY:
    case ORR_OP_AWAIT: return ORR_NAME_FLAG;
    case ORR_OP_LOCK:
    case ORR_OP_UNLOCK: return ORR_NAME_LOCK;
    case ORR_OP_RECORD:
    case ORR_OP_WAIT:
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK:
    case ORR_OP_EVENT_QUERY:
    case ORR_OP_EVENT_CREATE:
    case ORR_OP_EVENT_DESTROY: return ORR_NAME_EVENT;
    default: return ORR_NAME_BUFFER;
    }
}

static void add_name(struct cut *cut, const char *lead, enum orr_name_space space, uint32_t name) {
    if (name != ORR_NONE)
        add(cut, "%s%s", lead, orr_stream_program_text(cut->program, space, name));
}

/* A rank or word, which is JSON: a string without its quotes. */
static void add_value(struct cut *cut, const char *lead, enum orr_name_space space, uint32_t name) {
    if (name == ORR_NONE)
        return;
    const char *text = orr_stream_program_text(cut->program, space, name);
    size_t length = strlen(text), quotes = text[0] == '"' && length >= 2;
    add(cut, "%s%.*s", lead, (int)(length - 2 * quotes), text + quotes);
}

static void add_access(struct cut *cut, const char *lead, const struct orr_stream_access *access) {
    add_name(cut, lead, ORR_NAME_BUFFER, access->buffer);
    if (access->hi != ORR_RANGE_WHOLE)
        add(cut, "[%" PRIu64 ":%" PRIu64 "]", access->lo, access->hi);
}

static void add_accesses(struct cut *cut, const struct orr_stream_op *op, bool plain) {
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct orr_stream_access *access = &cut->program->accesses[op->access_first + i];
        add_access(cut, plain ? " " : access->is_write ? " w:" : " r:", access);
    }
}

static void add_copy(struct cut *cut, const struct orr_stream_op *op) {
    const struct orr_stream_access *accesses = cut->program->accesses + op->access_first;
    if (op->access_count != 2 || accesses[0].is_write || !accesses[1].is_write) {
        add_accesses(cut, op, false);
        return;
    }
    add_access(cut, " ", &accesses[1]);
    add_access(cut, "<", &accesses[0]);
}

static void add_devices(struct cut *cut, const struct orr_stream_op *op) {
    if (op->device_count == 0)
        add(cut, " %u", op->device);
    for (uint32_t i = 0; i < op->device_count; i++)
        if (cut->program->devices[op->device_first + i] != ORR_NONE)
            add(cut, " %u", cut->program->devices[op->device_first + i]);
}

static void add_part(struct cut *cut, const struct orr_stream_op *op, char part) {
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)op->kind;
    switch (part) {
    case 's': add_name(cut, " ", ORR_NAME_STREAM, op->stream); break;
    case 'o': add_name(cut, " ", object_space(kind), op->object); break;
    case 'u': add_name(cut, " reuse=", ORR_NAME_BUFFER, op->other); break;
    case 'k': add_value(cut, " ", ORR_NAME_WORD, op->word); break;
    case 'c': add_copy(cut, op); break;
    case 'a': add_accesses(cut, op, false); break;
    case 't': add_accesses(cut, op, true); break;
    case 'D': add_devices(cut, op); break;
    case 'd':
        if (op->device != 0)
            add(cut, " dev=%u", op->device);
        break;
    default:
        if (kind == ORR_OP_ALIAS)
            add_name(cut, " ", ORR_NAME_BUFFER, op->other);
        else
            add_value(cut, " ", ORR_NAME_RANK, op->other);
    }
}

static void add_steps(struct cut *cut, const struct orr_stream_op *op) {
    for (uint32_t i = 0; i < op->step_count; i++) {
        const struct orr_stream_step *step = &cut->program->steps[op->step_first + i];
        bool is_sync = step->kind == ORR_OP_SYNC_STREAM;
        add(cut, " %s:%s", is_sync ? "ssync" : orr_stream_op_text(step->kind),
            orr_stream_program_text(cut->program, is_sync ? ORR_NAME_STREAM : ORR_NAME_LOCK,
                                    step->object));
    }
}

/* Whether a rank is what it is without being said: the host's name as a string. */
static bool is_usual_rank(const struct orr_stream_program *program,
                          const struct orr_stream_op *op) {
    const char *host = orr_stream_program_text(program, ORR_NAME_HOST, op->host);
    const char *rank = orr_stream_program_text(program, ORR_NAME_RANK, op->rank);
    size_t length = strlen(host);
    return rank[0] == '"' && strncmp(rank + 1, host, length) == 0 &&
           strcmp(rank + 1 + length, "\"") == 0;
}

void orr_stream_op_short(const struct orr_stream_program *program, uint32_t index, char *text,
                         size_t size) {
    const struct orr_stream_op *op = &program->ops[index];
    struct cut cut = {.program = program, .text = text, .size = size};
    if (op->host != 0)
        add(&cut, "%s: ", orr_stream_program_text(program, ORR_NAME_HOST, op->host));
    add(&cut, "%s%s", forms[op->kind].word, op->ignored ? "ign" : "");
    for (const char *part = forms[op->kind].parts; *part; part++)
        add_part(&cut, op, *part);
    add_steps(&cut, op);
    add_value(&cut, " n=", ORR_NAME_WORD, op->count);
    if (op->rank != ORR_NONE && !is_usual_rank(program, op))
        add_value(&cut, " rank=", ORR_NAME_RANK, op->rank);
    size_t end = cut.length;
    if (end + 1 == size) /* not half a character at a cut */
        while (end > 0 && ((unsigned char)text[end - 1] & 0x80))
            text[--end] = '\0';
}
