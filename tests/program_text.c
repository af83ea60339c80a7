#include "tests/program_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS_MAX = 64, STATEMENT_MAX = 4096 };

struct text_parser {
    struct orr_stream_program *program;
    char *words[WORDS_MAX];
    int count, at;
    struct orr_stream_access accesses[WORDS_MAX];
    uint32_t access_count;
};

static const struct {
    const char *text;
    enum orr_stream_op_kind kind;
    /* s: stream, e: event, f: flag, l: lock, b: buffer, o: other buffer, c: communicator, w: word,
     * p: peer, d: device, r: one read, W: one write, x: any of r:NAME and w:NAME,
     * C: TARGET<SOURCE */
    const char *fields;
} forms[] = {
    {"k", ORR_OP_KERNEL, "sx"},
    {"hostfn", ORR_OP_HOSTFN, "sx"},
    {"ms", ORR_OP_MEMSET, "sW"},
    {"cp", ORR_OP_MEMCPY, "sC"},
    {"cpsync", ORR_OP_MEMCPY_SYNC, "C"},
    {"mssync", ORR_OP_MEMSET_SYNC, "W"},
    {"coll", ORR_OP_COLL, "cwsx"},
    {"send", ORR_OP_SEND, "cpsx"},
    {"recv", ORR_OP_RECV, "cpsx"},
    {"gs", ORR_OP_GROUP_START, ""},
    {"ge", ORR_OP_GROUP_END, ""},
    {"hr", ORR_OP_HOST_READ, "r"},
    {"hw", ORR_OP_HOST_WRITE, "W"},
    {"view", ORR_OP_VIEW, "sb"},
    {"rec", ORR_OP_RECORD, "es"},
    {"wait", ORR_OP_WAIT, "se"},
    {"waitign", ORR_OP_WAIT, "se"},
    {"esync", ORR_OP_SYNC_EVENT, "e"},
    {"qok", ORR_OP_QUERY_OK, "e"},
    {"ssync", ORR_OP_SYNC_STREAM, "s"},
    {"sqok", ORR_OP_STREAM_QUERY_OK, "s"},
    {"dsync", ORR_OP_SYNC_DEVICE, "d"},
    {"ecreate", ORR_OP_EVENT_CREATE, "e"},
    {"edestroy", ORR_OP_EVENT_DESTROY, "e"},
    {"screate", ORR_OP_STREAM_CREATE, "s"},
    {"sdestroy", ORR_OP_STREAM_DESTROY, "s"},
    {"notify", ORR_OP_NOTIFY, "f"},
    {"await", ORR_OP_AWAIT, "f"},
    {"alloc", ORR_OP_ALLOC, "b"},
    {"free", ORR_OP_FREE, "b"},
    {"rs", ORR_OP_RECORD_STREAM, "bs"},
    {"malloca", ORR_OP_ALLOC_ASYNC, "bs"},
    {"freea", ORR_OP_FREE_ASYNC, "bs"},
    {"cfree", ORR_OP_CUDA_FREE, "b"},
    {"hfree", ORR_OP_HOST_FREE, "b"},
    {"alias", ORR_OP_ALIAS, "bo"},
    {"isync", ORR_OP_IMPLICIT_SYNC, "d"},
    {"lock", ORR_OP_LOCK, "l"},
    {"unlock", ORR_OP_UNLOCK, "l"},
};

/* Ranks are JSON values: here always strings. */
static uint32_t name(struct text_parser *parser, enum orr_name_space space, const char *text) {
    uint32_t id;
    char quoted[64];
    if (space == ORR_NAME_RANK) {
        snprintf(quoted, sizeof quoted, "\"%s\"", text);
        text = quoted;
    }
    assert_int_equal(orr_stream_program_name(parser->program, space, text, &id), ORR_OK);
    return id;
}

static uint32_t stream(struct text_parser *parser, const char *text) {
    uint32_t id = orr__name_table_find(&parser->program->names[ORR_NAME_STREAM], text);
    if (id == ORR_NONE)
        assert_int_equal(orr_stream_program_stream(parser->program, text, 0, ORR_STREAM_NB, &id),
                         ORR_OK);
    return id;
}

static const char *next(struct text_parser *parser) {
    if (parser->at == parser->count)
        fail_msg("a word is missing after '%s'", parser->words[parser->count - 1]);
    return parser->words[parser->at++];
}

/* "A" or "A[lo:hi]". */
static void access(struct text_parser *parser, const char *text, bool is_write) {
    char buffer[STATEMENT_MAX];
    struct orr_stream_access made = {.hi = ORR_RANGE_WHOLE, .is_write = is_write};
    snprintf(buffer, sizeof buffer, "%s", text);
    char *range = strchr(buffer, '[');
    if (range) {
        *range = '\0';
        made.lo = strtoull(range + 1, &range, 10);
        made.hi = strtoull(range + 1, &range, 10);
    }
    made.buffer = name(parser, ORR_NAME_BUFFER, buffer);
    parser->accesses[parser->access_count++] = made;
}

/* r:A w:B[0:2] ..., reads first. */
static void accesses(struct text_parser *parser) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = parser->at; i < parser->count; i++)
            if (strncmp(parser->words[i], pass ? "w:" : "r:", 2) == 0)
                access(parser, parser->words[i] + 2, pass);
    parser->at = parser->count;
}

static void copy(struct text_parser *parser) {
    char target[STATEMENT_MAX];
    snprintf(target, sizeof target, "%s", next(parser));
    char *source = strchr(target, '<');
    assert_non_null(source);
    *source = '\0';
    access(parser, source + 1, false);
    access(parser, target, true);
}

static void field(struct text_parser *parser, struct orr_stream_op *op, char what) {
    switch (what) {
    case 's': op->stream = stream(parser, next(parser)); break;
    case 'e': op->object = name(parser, ORR_NAME_EVENT, next(parser)); break;
    case 'f': op->object = name(parser, ORR_NAME_FLAG, next(parser)); break;
    case 'l': op->object = name(parser, ORR_NAME_LOCK, next(parser)); break;
    case 'b': op->object = name(parser, ORR_NAME_BUFFER, next(parser)); break;
    case 'o': op->other = name(parser, ORR_NAME_BUFFER, next(parser)); break;
    case 'c': op->object = name(parser, ORR_NAME_COMM, next(parser)); break;
    case 'w': op->word = name(parser, ORR_NAME_WORD, next(parser)); break;
    case 'p': op->other = name(parser, ORR_NAME_RANK, next(parser)); break;
    case 'd': op->device = (uint32_t)strtoul(next(parser), NULL, 10); break;
    case 'r': access(parser, next(parser), false); break;
    case 'W': access(parser, next(parser), true); break;
    case 'x': accesses(parser); break;
    case 'C': copy(parser); break;
    default: fail();
    }
}

/* What may follow the fields. */
static void rest(struct text_parser *parser, struct orr_stream_op *op) {
    while (parser->at < parser->count) {
        const char *word = next(parser);
        if (strncmp(word, "reuse=", 6) == 0)
            op->other = name(parser, ORR_NAME_BUFFER, word + 6);
        else if (strncmp(word, "dev=", 4) == 0)
            op->device = (uint32_t)strtoul(word + 4, NULL, 10);
        else if (op->kind == ORR_OP_ALLOC)
            continue; /* its stream */
        else if (!strchr(word, '='))
            fail_msg("what is '%s'?", word);
    }
}

/* n=COUNT and rank=RANK, anywhere; a rank is the host's name otherwise. */
static void communication(struct text_parser *parser, struct orr_stream_op *op) {
    if (op->kind != ORR_OP_COLL && op->kind != ORR_OP_SEND && op->kind != ORR_OP_RECV)
        return;
    op->rank = name(parser, ORR_NAME_RANK,
                    orr_stream_program_text(parser->program, ORR_NAME_HOST, op->host));
    for (int i = 0; i < parser->count; i++) {
        const char *word = parser->words[i];
        if (strncmp(word, "n=", 2) == 0 && strcmp(word, "n=1") != 0)
            op->count = name(parser, ORR_NAME_WORD, word + 2);
        if (strncmp(word, "rank=", 5) == 0)
            op->rank = name(parser, ORR_NAME_RANK, word + 5);
    }
}

/* lock:L, unlock:L and sync_stream:S of a host function. */
static void body(struct text_parser *parser) {
    static const struct {
        const char *text;
        enum orr_stream_op_kind kind;
    } steps[] = {
        {"lock:", ORR_OP_LOCK}, {"unlock:", ORR_OP_UNLOCK}, {"sync_stream:", ORR_OP_SYNC_STREAM}};
    for (int i = 0; i < parser->count; i++) {
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            size_t length = strlen(steps[k].text);
            if (strncmp(parser->words[i], steps[k].text, length) != 0)
                continue;
            struct orr_stream_step step = {.kind = steps[k].kind};
            step.object = steps[k].kind == ORR_OP_SYNC_STREAM
                              ? stream(parser, parser->words[i] + length)
                              : name(parser, ORR_NAME_LOCK, parser->words[i] + length);
            assert_int_equal(orr_stream_program_add_step(parser->program, step), ORR_OK);
        }
    }
}

static void operation(struct text_parser *parser, const char *host) {
    const char *form = next(parser);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].text, form) != 0)
            continue;
        struct orr_stream_op op = orr_stream_op(forms[i].kind);
        op.host = host ? name(parser, ORR_NAME_HOST, host) : 0;
        op.ignored = strcmp(form, "waitign") == 0;
        parser->access_count = 0;
        for (const char *what = forms[i].fields; *what; what++)
            field(parser, &op, *what);
        rest(parser, &op);
        communication(parser, &op);
        assert_int_equal(
            orr_stream_program_add(parser->program, &op, parser->accesses, parser->access_count),
            ORR_OK);
        body(parser);
        return;
    }
    fail_msg("no operation has the short form '%s'", form);
}

static enum orr_stream_sync stream_kind(const char *text) {
    for (int i = 0; i <= ORR_STREAM_LEGACY; i++)
        if (strcmp(orr_stream_sync_text((enum orr_stream_sync)i), text) == 0)
            return (enum orr_stream_sync)i;
    fail_msg("no kind of stream is '%s'", text);
    return ORR_STREAM_NB;
}

static enum orr_memory_kind memory_kind(const char *text) {
    static const char *const kinds[] = {"dev", "pinned", "pageable", "managed", "empty"};
    for (int i = 0; i < 5; i++)
        if (strcmp(kinds[i], text) == 0)
            return (enum orr_memory_kind)i;
    fail_msg("no kind of memory is '%s'", text);
    return ORR_MEMORY_DEV;
}

static void option(struct text_parser *parser) {
    struct orr_stream_program *program = parser->program;
    const char *what = parser->words[1];
    uint64_t value = parser->count > 2 ? strtoull(parser->words[2], NULL, 10) : 0;
    program->is_staged |= strcmp(what, "staged") == 0;
    program->nccl_serial |= strcmp(what, "serial") == 0;
    if (strcmp(what, "hang") == 0)
        program->oracle = ORR_ORACLE_HANG;
    if (strcmp(what, "slots") == 0)
        program->slots = value;
    if (strcmp(what, "depth") == 0)
        program->queue_depth = value;
}

static void comm(struct text_parser *parser) {
    uint32_t ranks[WORDS_MAX], id;
    for (int i = 2; i < parser->count; i++)
        ranks[i - 2] = name(parser, ORR_NAME_RANK, parser->words[i]);
    assert_int_equal(orr_stream_program_comm(parser->program, parser->words[1], ranks,
                                             (uint32_t)(parser->count - 2), &id),
                     ORR_OK);
}

static void statement(struct text_parser *parser) {
    uint32_t id;
    char *first = parser->words[0], *host = NULL;
    if (strcmp(first, "stream") == 0) {
        uint32_t device = parser->count > 3 ? (uint32_t)strtoul(parser->words[3], NULL, 10) : 0;
        assert_int_equal(orr_stream_program_stream(parser->program, parser->words[1], device,
                                                   stream_kind(parser->words[2]), &id),
                         ORR_OK);
        return;
    }
    if (strcmp(first, "buffer") == 0) {
        assert_int_equal(orr_stream_program_buffer(parser->program, parser->words[1],
                                                   memory_kind(parser->words[2]), &id),
                         ORR_OK);
        return;
    }
    if (strcmp(first, "option") == 0) {
        option(parser);
        return;
    }
    if (strcmp(first, "comm") == 0) {
        comm(parser);
        return;
    }
    parser->at = 0;
    if (first[strlen(first) - 1] == ':') {
        host = first;
        host[strlen(host) - 1] = '\0';
        parser->at = 1;
    }
    operation(parser, host);
}

struct orr_stream_program *stream_program_of(const struct orr_memory *memory, const char *text) {
    struct text_parser parser = {0};
    assert_int_equal(orr_stream_program_create(memory, &parser.program), ORR_OK);
    while (*text) {
        char line[STATEMENT_MAX], *state = NULL;
        size_t length = strcspn(text, ";\n");
        assert_true(length < sizeof line);
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + (text[length] != '\0');
        parser.count = 0;
        for (char *word = strtok_r(line, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
            assert_true(parser.count < WORDS_MAX);
            parser.words[parser.count++] = word;
        }
        if (parser.count > 0)
            statement(&parser);
    }
    return parser.program;
}
