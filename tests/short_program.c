#include "tests/short_program.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS_MAX = 24 };

struct words {
    const char *items[WORDS_MAX];
    int count;
};

static struct words split(char *text, const char *separators) {
    struct words words = {.count = 0};
    char *rest = NULL;
    for (char *word = strtok_r(text, separators, &rest); word;
         word = strtok_r(NULL, separators, &rest)) {
        assert_true(words.count < WORDS_MAX);
        words.items[words.count++] = word;
    }
    return words;
}

static uint32_t name(struct orr_stream_program *program, enum orr_name_space space,
                     const char *text) {
    uint32_t id;
    assert_int_equal(orr_stream_program_name(program, space, text, &id), ORR_OK);
    return id;
}

/* --- declarations --- */

static void declare_comm(struct orr_stream_program *program, const char *text, char *ranks) {
    uint32_t members[WORDS_MAX], id;
    struct words words = split(ranks, ",");
    for (int i = 0; i < words.count; i++)
        members[i] = name(program, ORR_NAME_RANK, words.items[i]);
    assert_int_equal(orr_stream_program_comm(program, text, members, (uint32_t)words.count, &id),
                     ORR_OK);
}

static void declare(struct orr_stream_program *program, char *word) {
    static const char *const syncs[] = {"nb", "bl", "ptds", "legacy"};
    static const char *const kinds[] = {"dev", "pinned", "pageable", "managed", "empty"};
    uint32_t id;
    char *kind = strchr(word, '=');
    if (kind)
        *kind++ = 0;
    char *rest = kind ? strchr(kind, ':') : NULL;
    if (rest)
        *rest++ = 0;
    if (kind && strcmp(kind, "comm") == 0) {
        declare_comm(program, word, rest);
        return;
    }
    for (int i = 1; kind && i < 5; i++) {
        if (strcmp(kind, kinds[i]) != 0)
            continue;
        assert_int_equal(orr_stream_program_buffer(program, word, (enum orr_memory_kind)i, &id),
                         ORR_OK);
        return;
    }
    int sync = 0;
    while (kind && sync < 4 && strcmp(kind, syncs[sync]) != 0)
        sync++;
    assert_true(sync < 4);
    assert_int_equal(orr_stream_program_stream(program, word, rest ? (uint32_t)atoi(rest) : 0,
                                               (enum orr_stream_sync)sync, &id),
                     ORR_OK);
}

/* --- operations --- */

/* X(short name, operation, its words in order: s stream, e event, f flag, l lock, b buffer,
 * c communicator, k kind of a collective, p peer, d device) */
static const struct {
    const char *text;
    enum orr_stream_op_kind kind;
    const char *words;
} forms[] = {
    {"k", ORR_OP_KERNEL, "s"},
    {"hostfn", ORR_OP_HOSTFN, "s"},
    {"memset", ORR_OP_MEMSET, "s"},
    {"cp", ORR_OP_MEMCPY, "s"},
    {"cpsync", ORR_OP_MEMCPY_SYNC, ""},
    {"mssync", ORR_OP_MEMSET_SYNC, ""},
    {"coll", ORR_OP_COLL, "cks"},
    {"send", ORR_OP_SEND, "cps"},
    {"recv", ORR_OP_RECV, "cps"},
    {"gs", ORR_OP_GROUP_START, ""},
    {"ge", ORR_OP_GROUP_END, ""},
    {"hr", ORR_OP_HOST_READ, "r"},
    {"hw", ORR_OP_HOST_WRITE, "w"},
    {"rec", ORR_OP_RECORD, "es"},
    {"wait", ORR_OP_WAIT, "se"},
    {"esync", ORR_OP_SYNC_EVENT, "e"},
    {"qok", ORR_OP_QUERY_OK, "e"},
    {"ssync", ORR_OP_SYNC_STREAM, "s"},
    {"sqok", ORR_OP_STREAM_QUERY_OK, "s"},
    {"dsync", ORR_OP_SYNC_DEVICE, "d"},
    {"isync", ORR_OP_IMPLICIT_SYNC, "d"},
    {"ecreate", ORR_OP_EVENT_CREATE, "e"},
    {"edestroy", ORR_OP_EVENT_DESTROY, "e"},
    {"notify", ORR_OP_NOTIFY, "f"},
    {"await", ORR_OP_AWAIT, "f"},
    {"lock", ORR_OP_LOCK, "l"},
    {"unlock", ORR_OP_UNLOCK, "l"},
    {"alloc", ORR_OP_ALLOC, "b"},
    {"free", ORR_OP_FREE, "b"},
    {"rs", ORR_OP_RECORD_STREAM, "bs"},
    {"malloca", ORR_OP_ALLOC_ASYNC, "bs"},
    {"freea", ORR_OP_FREE_ASYNC, "bs"},
    {"cfree", ORR_OP_CUDA_FREE, "b"},
    {"hfree", ORR_OP_HOST_FREE, "b"},
    {"alias", ORR_OP_ALIAS, "bo"},
};

struct parsed {
    struct orr_stream_op op;
    struct orr_stream_access accesses[WORDS_MAX];
    struct orr_stream_step steps[WORDS_MAX];
    uint32_t access_count, step_count;
};

static void add_access(struct orr_stream_program *program, struct parsed *parsed, bool is_write,
                       const char *text) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    struct orr_stream_access access = {.hi = ORR_RANGE_WHOLE, .is_write = is_write};
    char *range = strchr(copy, '[');
    if (range) {
        *range++ = 0;
        access.lo = strtoull(range, &range, 10);
        access.hi = strtoull(range + 1, NULL, 10);
    }
    access.buffer = name(program, ORR_NAME_BUFFER, copy);
    parsed->accesses[parsed->access_count++] = access;
}

static void add_step(struct orr_stream_program *program, struct parsed *parsed, const char *word) {
    struct orr_stream_step step = {.kind = ORR_OP_SYNC_STREAM};
    if (strncmp(word, "lock:", 5) == 0)
        step.kind = ORR_OP_LOCK;
    else if (strncmp(word, "unlock:", 7) == 0)
        step.kind = ORR_OP_UNLOCK;
    step.object = name(program, step.kind == ORR_OP_SYNC_STREAM ? ORR_NAME_STREAM : ORR_NAME_LOCK,
                       strchr(word, ':') + 1);
    parsed->steps[parsed->step_count++] = step;
}

static void take_word(struct orr_stream_program *program, struct parsed *parsed, char what,
                      const char *word) {
    static const struct {
        char what;
        enum orr_name_space space;
    } objects[] = {{'e', ORR_NAME_EVENT},
                   {'f', ORR_NAME_FLAG},
                   {'l', ORR_NAME_LOCK},
                   {'b', ORR_NAME_BUFFER},
                   {'c', ORR_NAME_COMM}};
    struct orr_stream_op *op = &parsed->op;
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        if (objects[i].what == what)
            op->object = name(program, objects[i].space, word);
    switch (what) {
    case 's': op->stream = name(program, ORR_NAME_STREAM, word); break;
    case 'k': op->word = name(program, ORR_NAME_WORD, word); break;
    case 'p': op->other = name(program, ORR_NAME_RANK, word); break;
    case 'o': op->other = name(program, ORR_NAME_BUFFER, word); break;
    case 'd': op->device = (uint32_t)atoi(word); break;
    case 'r': add_access(program, parsed, false, word); break;
    case 'w': add_access(program, parsed, true, word); break;
    default: break;
    }
}

/* Words after those of the form: accesses, a body, options. */
static void take_more(struct orr_stream_program *program, struct parsed *parsed, char *word) {
    char *copied = strchr(word, '<');
    if (strncmp(word, "r:", 2) == 0 || strncmp(word, "w:", 2) == 0) {
        add_access(program, parsed, word[0] == 'w', word + 2);
    } else if (strncmp(word, "reuse=", 6) == 0) {
        parsed->op.other = name(program, ORR_NAME_BUFFER, word + 6);
    } else if (strncmp(word, "n=", 2) == 0) {
        parsed->op.count =
            strcmp(word, "n=1") == 0 ? ORR_NONE : name(program, ORR_NAME_WORD, word + 2);
    } else if (strncmp(word, "rank=", 5) == 0) {
        parsed->op.rank = name(program, ORR_NAME_RANK, word + 5);
    } else if (copied) {
        *copied = 0;
        add_access(program, parsed, false, copied + 1);
        add_access(program, parsed, true, word);
    } else if (strchr(word, ':')) {
        add_step(program, parsed, word);
    } else { /* mssync A */
        add_access(program, parsed, true, word);
    }
}

static void add_op(struct orr_stream_program *program, char *text) {
    struct words words = split(text, " ");
    if (words.count == 0)
        return;
    int at = 0;
    uint32_t host = 0;
    size_t length = strlen(words.items[0]);
    if (words.items[0][length - 1] == ':') {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%.*s", (int)length - 1, words.items[0]);
        host = name(program, ORR_NAME_HOST, prefix);
        at = 1;
    }
    size_t form = 0;
    while (form < sizeof forms / sizeof forms[0] && strcmp(forms[form].text, words.items[at]) != 0)
        form++;
    assert_true(form < sizeof forms / sizeof forms[0]);
    struct parsed parsed = {.op = orr_stream_op(forms[form].kind)};
    parsed.op.host = host;
    if (forms[form].kind == ORR_OP_COLL || forms[form].kind == ORR_OP_SEND ||
        forms[form].kind == ORR_OP_RECV)
        parsed.op.rank =
            name(program, ORR_NAME_RANK, orr_stream_program_text(program, ORR_NAME_HOST, host));
    at++;
    for (const char *what = forms[form].words; *what; what++) {
        assert_true(at < words.count);
        take_word(program, &parsed, *what, words.items[at++]);
    }
    for (; at < words.count; at++)
        take_more(program, &parsed, (char *)words.items[at]);
    assert_int_equal(
        orr_stream_program_add(program, &parsed.op, parsed.accesses, parsed.access_count), ORR_OK);
    for (uint32_t i = 0; i < parsed.step_count; i++)
        assert_int_equal(orr_stream_program_add_step(program, parsed.steps[i]), ORR_OK);
}

struct orr_stream_program *short_program(const struct orr_memory *memory, enum orr_oracle oracle,
                                         const char *declarations, const char *ops) {
    struct orr_stream_program *program;
    assert_int_equal(orr_stream_program_create(memory, &program), ORR_OK);
    program->oracle = oracle;
    char *text = strdup(declarations), *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        declare(program, word);
    free(text);
    text = strdup(ops);
    rest = NULL;
    for (char *op = strtok_r(text, ";", &rest); op; op = strtok_r(NULL, ";", &rest))
        add_op(program, op);
    free(text);
    return program;
}
