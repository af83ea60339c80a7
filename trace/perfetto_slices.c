#include "trace/perfetto_internal.h"

#include <assert.h>

/* A line in the making: always with ORR_JSON_ROOM bytes behind `at`, less the few that were put
 * since the last text. */
struct line {
    struct orr_json_writer *writer;
    char *at;
    char separator; /* before the next of its args: '{' or ',' */
};

#define PUT(line, text) ((line)->at = ORR_JSON_PUT((line)->at, text))

static inline void put_text(struct line *line, const char *text) {
    line->at = orr_json_put_text(line->writer, line->at, text);
}

/* An integer; one beyond int64 as a string. */
static inline void put_integer(struct line *line, uint64_t value) {
    bool large = value > INT64_MAX;
    *line->at = '"';
    line->at = orr_json_put_u64(line->at + large, value);
    *line->at = '"';
    line->at += large;
}

static inline void put_key(struct line *line, const char *key, size_t size) {
    *line->at = line->separator;
    line->at = orr_json_put(line->at + 1, key, size);
    line->separator = ',';
}

#define KEY(line, name) put_key(line, "\"" name "\":", sizeof(name) + 2)

/* An absent text, count or id is left out. */
#define TEXT_ARG(line, name, text)                                                                 \
    do {                                                                                           \
        const char *text_value = (text);                                                           \
        if (text_value[0] != '\0') {                                                               \
            KEY(line, name);                                                                       \
            *(line)->at++ = '"';                                                                   \
            put_text(line, text_value);                                                            \
            *(line)->at++ = '"';                                                                   \
        }                                                                                          \
    } while (0)

#define COUNT_ARG(line, name, count)                                                               \
    do {                                                                                           \
        uint64_t count_value = (count);                                                            \
        if (count_value != 0) {                                                                    \
            KEY(line, name);                                                                       \
            put_integer(line, count_value);                                                        \
        }                                                                                          \
    } while (0)

/* Args with few values are texts of at most one size, which is copied as a whole. */
enum { WORD_MAX = 32 };

struct word {
    char text[WORD_MAX];
    unsigned char size;
};

#define WORD(key, value)                                                                           \
    { .text = "\"" key "\":\"" value "\"", .size = sizeof("\"" key "\":\"" value "\"") - 1 }
#define KIND_WORD(name, value)         [ORR_COMMAND_##name] = WORD("kind", value),
#define DTYPE_WORD(name, value, bytes) [ORR_DTYPE_##name] = WORD("dtype", value),

static const struct word kind_words[] = {ORR_COMMAND_KIND_LIST(KIND_WORD)};
static const struct word dtype_words[] = {ORR_DTYPE_LIST(DTYPE_WORD)};

static void put_word_arg(struct line *line, const struct word *word) {
    *line->at = line->separator;
    memcpy(line->at + 1, word->text, sizeof word->text);
    line->at += 1 + word->size;
    line->separator = ',';
}

/* ---------------------------------------------------------------------------------------------- */
/* Names */

/* A name that says no more than the kind ("record") is completed by the event. */
static void command_name(struct line *line, const struct orr_timeline_command *command) {
    const char *kind = orr_command_kind_text(command->kind);
    bool telling = command->name[0] != kind[0] || strcmp(command->name, kind) != 0;
    if (telling && command->name[0] != '\0') {
        put_text(line, command->name);
        return;
    }
    put_text(line, kind);
    if (command->event[0] != '\0') {
        PUT(line, " ");
        put_text(line, command->event);
    }
}

/* "wait E" or "resume E"; without an event, what the name says of it. */
static void wait_name(struct line *line, const char *verb,
                      const struct orr_timeline_command *command) {
    const char *event = command->event;
    if (event[0] == '\0' && strcmp(command->name, "wait") != 0) {
        event = strncmp(command->name, "wait ", 5) == 0 ? command->name + 5 : command->name;
    }
    put_text(line, verb);
    if (event[0] != '\0') {
        PUT(line, " ");
        put_text(line, event);
    }
}

static void text_or(struct line *line, const char *text, const char *fallback) {
    put_text(line, text[0] != '\0' ? text : fallback);
}

static void item_name(const struct orr__export *export, struct line *line,
                      const struct orr__item *item) {
    const struct orr_timeline *timeline = export->timeline;
    switch ((enum orr__item_kind)item->kind) {
    case ORR__ITEM_ENQUEUE:
        PUT(line, "enqueue ");
        command_name(line, &timeline->commands[item->index]);
        break;
    case ORR__ITEM_COMMAND:
        if (timeline->commands[item->index].kind == ORR_COMMAND_WAIT) {
            wait_name(line, "wait", &timeline->commands[item->index]);
        } else {
            command_name(line, &timeline->commands[item->index]);
        }
        break;
    case ORR__ITEM_RESUME: wait_name(line, "resume", &timeline->commands[item->index]); break;
    case ORR__ITEM_SYNC:
        PUT(line, "sync ");
        put_text(line, orr_sync_kind_text(timeline->syncs[item->index].kind));
        break;
    case ORR__ITEM_SYNCED: PUT(line, "synced"); break;
    case ORR__ITEM_PHASE: text_or(line, export->phases[item->index].class_name, "phase"); break;
    case ORR__ITEM_FINDING: text_or(line, timeline->findings[item->index].kind, "finding"); break;
    case ORR__ITEM_CALL: text_or(line, timeline->calls[item->index].name, "call"); break;
    case ORR__ITEM_SLICE: text_or(line, timeline->slices[item->index].name, "slice"); break;
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Args of single items */

static void collective_args(const struct orr__export *export, struct line *line, size_t command) {
    const struct orr_timeline *timeline = export->timeline;
    if (!export->collective_of || export->collective_of[command] == 0) {
        return;
    }
    const struct orr_timeline_collective *collective =
        &timeline->collectives[export->collective_of[command] - 1];
    const struct orr_timeline_communicator *communicator =
        orr_timeline_communicator(timeline, collective->communicator);
    COUNT_ARG(line, "collective", collective->id);
    if (communicator && communicator->name[0] != '\0') {
        TEXT_ARG(line, "communicator", communicator->name);
    } else {
        KEY(line, "communicator");
        put_integer(line, collective->communicator);
    }
    KEY(line, "seq");
    put_integer(line, collective->seq);
    TEXT_ARG(line, "algorithm", collective->algorithm);
    TEXT_ARG(line, "protocol", collective->protocol);
    COUNT_ARG(line, "emulated", collective->emulated);
    if (collective->modelled_ns != ORR_TIME_NONE) {
        KEY(line, "modelled_ns");
        put_integer(line, (uint64_t)collective->modelled_ns);
    }
}

/* May lie before time zero, which is the least time that is drawn. */
static void ready_arg(struct line *line, int64_t ready_ns) {
    KEY(line, "ready_ns");
    *line->at = '-';
    line->at += ready_ns < 0;
    uint64_t magnitude = (uint64_t)ready_ns;
    line->at = orr_json_put_u64(line->at, ready_ns < 0 ? 0 - magnitude : magnitude);
}

static void correlation_arg(struct line *line, uint64_t correlation) {
    if (correlation != ORR_CORRELATION_NONE) {
        KEY(line, "correlation");
        put_integer(line, correlation);
    }
}

static void command_args(const struct orr__export *export, struct line *line, size_t index) {
    const struct orr_timeline *timeline = export->timeline;
    const struct orr_timeline_command *command = &timeline->commands[index];
    const struct orr_timeline_op *op =
        command->op != 0 ? orr_timeline_op(timeline, command->op) : NULL;
    COUNT_ARG(line, "cmd", command->id);
    COUNT_ARG(line, "op", command->op);
    assert(command->kind < ORR_COMMAND_KIND_COUNT);
    put_word_arg(line, &kind_words[command->kind]);
    TEXT_ARG(line, "site", command->site);
    if (command->dtype < ORR_DTYPE_COUNT) {
        put_word_arg(line, &dtype_words[command->dtype]);
    }
    TEXT_ARG(line, "shape", op ? op->shape : "");
    COUNT_ARG(line, "flops", command->flops);
    COUNT_ARG(line, "bytes_read", command->bytes_read);
    COUNT_ARG(line, "bytes_written", command->bytes_written);
    if (command->ready_ns != ORR_TIME_NONE) {
        int64_t ready_ns = (int64_t)((uint64_t)command->ready_ns - (uint64_t) export->t0_ns);
        ready_arg(line, ready_ns);
    }
    TEXT_ARG(line, "ts_source", command->ts_source);
    collective_args(export, line, index);
    correlation_arg(line, command->correlation);
    COUNT_ARG(line, "graph", command->graph);
    TEXT_ARG(line, "grid", command->grid);
    if (command->finish_ns == ORR_TIME_NONE) {
        KEY(line, "unfinished");
        PUT(line, "1");
    }
}

/* The commands that a call owns, the first ORR__LIST_MAX of them. */
static void call_args(const struct orr__export *export, struct line *line, size_t index) {
    const struct orr_timeline *timeline = export->timeline;
    size_t first = export->call_first[index], count = export->call_first[index + 1] - first;
    if (count == 1) {
        COUNT_ARG(line, "cmd", timeline->commands[export->call_commands[first]].id);
    } else if (count > 1) {
        KEY(line, "cmds");
        for (size_t i = 0; i < count && i < ORR__LIST_MAX; i++) {
            line->at = orr_json_more(line->writer, line->at);
            *line->at++ = i == 0 ? '[' : ',';
            put_integer(line, timeline->commands[export->call_commands[first + i]].id);
        }
        PUT(line, "]");
    }
    TEXT_ARG(line, "kind", "call");
    correlation_arg(line, timeline->calls[index].correlation);
}

static void slice_args(struct line *line, const struct orr_timeline_slice *slice) {
    static const char *const kinds[] = {
#define KIND_TEXT(name, text) text,
        ORR_SLICE_KIND_LIST(KIND_TEXT)
#undef KIND_TEXT
    };
    COUNT_ARG(line, "op", slice->op);
    if (slice->kind < ORR_SLICE_KIND_COUNT) {
        TEXT_ARG(line, "kind", kinds[slice->kind]);
    }
}

static void finding_args(struct line *line, const struct orr_timeline_finding *finding) {
    COUNT_ARG(line, "id", finding->id);
    TEXT_ARG(line, "severity", finding->severity);
    TEXT_ARG(line, "message", finding->message);
    COUNT_ARG(line, "cmd_a", finding->cmd_a);
    COUNT_ARG(line, "cmd_b", finding->cmd_b);
    TEXT_ARG(line, "fix", finding->fix);
}

static void marked_args(struct line *line, uint64_t cmd, const char *kind) {
    COUNT_ARG(line, "cmd", cmd);
    TEXT_ARG(line, "kind", kind);
}

static void item_args(const struct orr__export *export, struct line *line,
                      const struct orr__item *item) {
    const struct orr_timeline *timeline = export->timeline;
    switch ((enum orr__item_kind)item->kind) {
    case ORR__ITEM_ENQUEUE: COUNT_ARG(line, "cmd", timeline->commands[item->index].id); break;
    case ORR__ITEM_COMMAND: command_args(export, line, item->index); break;
    case ORR__ITEM_RESUME: marked_args(line, timeline->commands[item->index].id, "resume"); break;
    case ORR__ITEM_SYNC: COUNT_ARG(line, "cmd", timeline->syncs[item->index].cmd); break;
    case ORR__ITEM_SYNCED: marked_args(line, timeline->syncs[item->index].cmd, "synced"); break;
    case ORR__ITEM_PHASE: TEXT_ARG(line, "why", export->phases[item->index].why); break;
    case ORR__ITEM_FINDING: finding_args(line, &timeline->findings[item->index]); break;
    case ORR__ITEM_CALL: call_args(export, line, item->index); break;
    case ORR__ITEM_SLICE: slice_args(line, &timeline->slices[item->index]); break;
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Slices that several items share */

/* The items of a slice, cut in two: enqueues first (of one call, if it is longer than 0), the
 * others behind. Each part is in order of commands. */
struct members {
    const struct orr__item *items;
    size_t enqueues, count;
};

static struct members members_of(const struct orr__export *export, const struct orr__slice *slice) {
    struct members members = {.items = &export->items[slice->first], .count = slice->count};
    while (members.enqueues < members.count &&
           members.items[members.enqueues].kind == ORR__ITEM_ENQUEUE) {
        members.enqueues++;
    }
    return members;
}

static void enqueues_name(const struct orr__export *export, struct line *line,
                          const struct members *members) {
    if (members->enqueues == 1) {
        item_name(export, line, &members->items[0]);
        return;
    }
    PUT(line, "enqueue ");
    put_integer(line, members->enqueues);
    PUT(line, " commands");
}

static void shared_name(const struct orr__export *export, struct line *line,
                        const struct members *members, bool findings) {
    if (members->enqueues == members->count) {
        enqueues_name(export, line, members);
    } else if (findings) {
        put_integer(line, members->count);
        PUT(line, " findings");
    } else {
        /* The enqueues of one moment are one mark among the others. */
        put_integer(line, members->count - members->enqueues + (members->enqueues > 0));
        PUT(line, " marks");
    }
}

/* The distinct commands of the members, in order, the first ORR__LIST_MAX of them. The members are
 * two sorted lists; `order` is the command, 0 for a sync of none. */
static void cmds_arg(struct line *line, const struct members *members) {
    size_t left = 0, right = members->enqueues, written = 0;
    uint64_t last = 0;
    while (written < ORR__LIST_MAX && (left < members->enqueues || right < members->count)) {
        bool from_left =
            left < members->enqueues &&
            (right == members->count || members->items[left].order <= members->items[right].order);
        uint64_t cmd = members->items[from_left ? left++ : right++].order;
        if (cmd == last) {
            continue;
        }
        if (written == 0) {
            KEY(line, "cmds");
        }
        line->at = orr_json_more(line->writer, line->at);
        *line->at++ = written++ == 0 ? '[' : ',';
        put_integer(line, cmd);
        last = cmd;
    }
    if (written > 0) {
        PUT(line, "]");
    }
}

static void what_arg(const struct orr__export *export, struct line *line,
                     const struct members *members) {
    size_t next = 0;
    KEY(line, "what");
    for (size_t written = 0; written < ORR__LIST_MAX && next < members->count; written++) {
        *line->at++ = written == 0 ? '[' : ',';
        *line->at++ = '"';
        if (next < members->enqueues) {
            enqueues_name(export, line, members);
            next = members->enqueues;
        } else {
            item_name(export, line, &members->items[next++]);
        }
        *line->at++ = '"';
        line->at = orr_json_more(line->writer, line->at);
    }
    PUT(line, "]");
}

static void finding_ids_arg(const struct orr__export *export, struct line *line,
                            const struct members *members) {
    KEY(line, "id");
    for (size_t i = 0; i < members->count && i < ORR__LIST_MAX; i++) {
        line->at = orr_json_more(line->writer, line->at);
        *line->at++ = i == 0 ? '[' : ',';
        put_integer(line, export->timeline->findings[members->items[i].index].id);
    }
    PUT(line, "]");
}

static void shared_args(const struct orr__export *export, struct line *line,
                        const struct members *members, bool findings) {
    if (members->enqueues == members->count) {
        cmds_arg(line, members);
    } else if (findings) {
        what_arg(export, line, members);
        finding_ids_arg(export, line, members);
    } else {
        cmds_arg(line, members);
        what_arg(export, line, members);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* The line */

static void put_category(struct line *line, enum orr__item_kind kind) {
    switch (kind) {
    case ORR__ITEM_PHASE: PUT(line, "\",\"cat\":\"phase\",\"args\":"); break;
    case ORR__ITEM_FINDING: PUT(line, "\",\"cat\":\"finding\",\"args\":"); break;
    default: PUT(line, "\",\"cat\":\"op\",\"args\":"); break;
    }
}

char *orr__perfetto_slice(const struct orr__export *export, struct orr_json_writer *writer,
                          char *at, const struct orr__slice *slice) {
    const struct orr__item *item = &export->items[slice->first];
    struct line line = {.writer = writer, .at = at, .separator = '{'};
    PUT(&line, "{\"ph\":\"X\",");
    line.at = orr__perfetto_place(export, line.at, slice->pid, slice->tid);
    PUT(&line, ",\"dur\":");
    line.at = orr_json_put_time(line.at, slice->dur_ns);
    PUT(&line, ",\"name\":\"");
    if (slice->count == 1) {
        item_name(export, &line, item);
        put_category(&line, (enum orr__item_kind)item->kind);
        item_args(export, &line, item);
    } else {
        struct members members = members_of(export, slice);
        bool findings = item->kind == ORR__ITEM_FINDING;
        shared_name(export, &line, &members, findings);
        put_category(&line, (enum orr__item_kind)item->kind);
        shared_args(export, &line, &members, findings);
    }
    if (line.separator == '{') {
        PUT(&line, "{");
    }
    PUT(&line, "}}");
    return line.at;
}
