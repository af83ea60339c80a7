#include "trace/perfetto_internal.h"

#include <assert.h>

/* An object of args in the making: '{' before the first, ',' before the others. */
struct args {
    struct orr_json_writer *writer;
    char separator;
};

static void key_bytes(struct args *args, const char *key, size_t size) {
    char *at = orr_json_reserve(args->writer, ORR_JSON_RESERVE_MAX);
    assert(size < ORR_JSON_RESERVE_MAX);
    *at = args->separator;
    args->writer->cursor = orr_json_put(at + 1, key, size);
    args->separator = ',';
}

#define KEY(args, name) key_bytes(args, "\"" name "\":", sizeof(name) + 2)

static void string_value(struct args *args, const char *text) {
    ORR_JSON_LITERAL(args->writer, "\"");
    orr_json_text(args->writer, text);
    ORR_JSON_LITERAL(args->writer, "\"");
}

/* An absent text, count or id is left out. */
#define TEXT_ARG(args, name, text)                                                                 \
    do {                                                                                           \
        const char *text_value = (text);                                                           \
        if (text_value[0] != '\0') {                                                               \
            KEY(args, name);                                                                       \
            string_value(args, text_value);                                                        \
        }                                                                                          \
    } while (0)

#define COUNT_ARG(args, name, count)                                                               \
    do {                                                                                           \
        uint64_t count_value = (count);                                                            \
        if (count_value != 0) {                                                                    \
            KEY(args, name);                                                                       \
            orr_json_u64((args)->writer, count_value);                                             \
        }                                                                                          \
    } while (0)

static void end_args(struct args *args) {
    if (args->separator == '{') {
        ORR_JSON_LITERAL(args->writer, "{");
    }
    ORR_JSON_LITERAL(args->writer, "}");
}

/* ---------------------------------------------------------------------------------------------- */
/* Names */

/* A name that says no more than the kind ("record") is completed by the event. */
static void command_name(struct orr_json_writer *writer,
                         const struct orr_timeline_command *command) {
    const char *kind = orr_command_kind_text(command->kind);
    if (command->name[0] != '\0' && strcmp(command->name, kind) != 0) {
        orr_json_text(writer, command->name);
        return;
    }
    orr_json_text(writer, kind);
    if (command->event[0] != '\0') {
        ORR_JSON_LITERAL(writer, " ");
        orr_json_text(writer, command->event);
    }
}

/* "wait E" or "resume E"; without an event, what the name says of it. */
static void wait_name(struct orr_json_writer *writer, const char *verb,
                      const struct orr_timeline_command *command) {
    const char *event = command->event;
    if (event[0] == '\0' && strcmp(command->name, "wait") != 0) {
        event = strncmp(command->name, "wait ", 5) == 0 ? command->name + 5 : command->name;
    }
    orr_json_text(writer, verb);
    if (event[0] != '\0') {
        ORR_JSON_LITERAL(writer, " ");
        orr_json_text(writer, event);
    }
}

static void text_or(struct orr_json_writer *writer, const char *text, const char *fallback) {
    orr_json_text(writer, text[0] != '\0' ? text : fallback);
}

static void item_name(const struct orr__export *export, struct orr_json_writer *writer,
                      const struct orr__item *item) {
    const struct orr_timeline *timeline = export->timeline;
    switch ((enum orr__item_kind)item->kind) {
    case ORR__ITEM_ENQUEUE:
        ORR_JSON_LITERAL(writer, "enqueue ");
        command_name(writer, &timeline->commands[item->index]);
        break;
    case ORR__ITEM_COMMAND:
        if (timeline->commands[item->index].kind == ORR_COMMAND_WAIT) {
            wait_name(writer, "wait", &timeline->commands[item->index]);
        } else {
            command_name(writer, &timeline->commands[item->index]);
        }
        break;
    case ORR__ITEM_RESUME: wait_name(writer, "resume", &timeline->commands[item->index]); break;
    case ORR__ITEM_SYNC:
        ORR_JSON_LITERAL(writer, "sync ");
        orr_json_text(writer, orr_sync_kind_text(timeline->syncs[item->index].kind));
        break;
    case ORR__ITEM_SYNCED: ORR_JSON_LITERAL(writer, "synced"); break;
    case ORR__ITEM_PHASE: text_or(writer, export->phases[item->index].class_name, "phase"); break;
    case ORR__ITEM_FINDING: text_or(writer, timeline->findings[item->index].kind, "finding"); break;
    }
}

static void plural_name(struct orr_json_writer *writer, const char *before, size_t count,
                        const char *after) {
    orr_json_text(writer, before);
    orr_json_u64(writer, count);
    orr_json_text(writer, after);
}

/* ---------------------------------------------------------------------------------------------- */
/* Args of single items */

static void collective_args(const struct orr__export *export, struct args *args, size_t command) {
    const struct orr_timeline *timeline = export->timeline;
    if (!export->collective_of || export->collective_of[command] == 0) {
        return;
    }
    const struct orr_timeline_collective *collective =
        &timeline->collectives[export->collective_of[command] - 1];
    const struct orr_timeline_communicator *communicator =
        orr_timeline_communicator(timeline, collective->communicator);
    COUNT_ARG(args, "collective", collective->id);
    if (communicator && communicator->name[0] != '\0') {
        TEXT_ARG(args, "communicator", communicator->name);
    } else {
        KEY(args, "communicator");
        orr_json_u64(args->writer, collective->communicator);
    }
    KEY(args, "seq");
    orr_json_u64(args->writer, collective->seq);
    TEXT_ARG(args, "algorithm", collective->algorithm);
    TEXT_ARG(args, "protocol", collective->protocol);
}

static void command_args(const struct orr__export *export, struct args *args, size_t index) {
    const struct orr_timeline *timeline = export->timeline;
    const struct orr_timeline_command *command = &timeline->commands[index];
    const struct orr_timeline_op *op =
        command->op != 0 ? orr_timeline_op(timeline, command->op) : NULL;
    COUNT_ARG(args, "cmd", command->id);
    COUNT_ARG(args, "op", command->op);
    TEXT_ARG(args, "kind", orr_command_kind_text(command->kind));
    TEXT_ARG(args, "site", command->site);
    if (command->dtype != ORR_DTYPE_NONE) {
        TEXT_ARG(args, "dtype", orr_dtype_name(command->dtype));
    }
    TEXT_ARG(args, "shape", op ? op->shape : "");
    COUNT_ARG(args, "flops", command->flops);
    COUNT_ARG(args, "bytes_read", command->bytes_read);
    COUNT_ARG(args, "bytes_written", command->bytes_written);
    if (command->ready_ns != ORR_TIME_NONE) {
        KEY(args, "ready_ns");
        orr_json_i64(args->writer,
                     (int64_t)((uint64_t)command->ready_ns - (uint64_t) export->t0_ns));
    }
    TEXT_ARG(args, "ts_source", command->ts_source);
    collective_args(export, args, index);
    if (command->finish_ns == ORR_TIME_NONE) {
        KEY(args, "unfinished");
        ORR_JSON_LITERAL(args->writer, "1");
    }
}

static void finding_args(struct args *args, const struct orr_timeline_finding *finding) {
    COUNT_ARG(args, "id", finding->id);
    TEXT_ARG(args, "severity", finding->severity);
    TEXT_ARG(args, "message", finding->message);
    COUNT_ARG(args, "cmd_a", finding->cmd_a);
    COUNT_ARG(args, "cmd_b", finding->cmd_b);
    TEXT_ARG(args, "fix", finding->fix);
}

static void marked_args(struct args *args, uint64_t cmd, const char *kind) {
    COUNT_ARG(args, "cmd", cmd);
    TEXT_ARG(args, "kind", kind);
}

static void item_args(const struct orr__export *export, struct args *args,
                      const struct orr__item *item) {
    const struct orr_timeline *timeline = export->timeline;
    switch ((enum orr__item_kind)item->kind) {
    case ORR__ITEM_ENQUEUE: COUNT_ARG(args, "cmd", timeline->commands[item->index].id); break;
    case ORR__ITEM_COMMAND: command_args(export, args, item->index); break;
    case ORR__ITEM_RESUME: marked_args(args, timeline->commands[item->index].id, "resume"); break;
    case ORR__ITEM_SYNC: COUNT_ARG(args, "cmd", timeline->syncs[item->index].cmd); break;
    case ORR__ITEM_SYNCED: marked_args(args, timeline->syncs[item->index].cmd, "synced"); break;
    case ORR__ITEM_PHASE: TEXT_ARG(args, "why", export->phases[item->index].why); break;
    case ORR__ITEM_FINDING: finding_args(args, &timeline->findings[item->index]); break;
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

static bool is_findings(const struct orr__export *export, const struct orr__slice *slice) {
    return export->lanes[export->items[slice->first].lane].kind == ORR__LANE_FINDINGS;
}

static void enqueues_name(const struct orr__export *export, struct orr_json_writer *writer,
                          const struct members *members) {
    if (members->enqueues == 1) {
        item_name(export, writer, &members->items[0]);
    } else {
        plural_name(writer, "enqueue ", members->enqueues, " commands");
    }
}

/* Marks, with the enqueues of one moment as one of them. */
static size_t mark_count(const struct members *members) {
    return members->count - members->enqueues + (members->enqueues > 0);
}

static void slice_name(const struct orr__export *export, struct orr_json_writer *writer,
                       const struct orr__slice *slice) {
    struct members members = members_of(export, slice);
    if (members.count == 1) {
        item_name(export, writer, members.items);
    } else if (members.enqueues == members.count) {
        enqueues_name(export, writer, &members);
    } else if (is_findings(export, slice)) {
        plural_name(writer, "", members.count, " findings");
    } else {
        plural_name(writer, "", mark_count(&members), " marks");
    }
}

/* The distinct commands of the members, in order, the first ORR__LIST_MAX of them. Member items are
 * two sorted lists; `order` is the command, 0 for a sync of none. */
static void cmds_arg(struct args *args, const struct members *members) {
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
        if (written++ == 0) {
            KEY(args, "cmds");
        }
        orr_json_bytes(args->writer, written == 1 ? "[" : ",", 1);
        orr_json_u64(args->writer, cmd);
        last = cmd;
    }
    if (written > 0) {
        ORR_JSON_LITERAL(args->writer, "]");
    }
}

static void what_arg(const struct orr__export *export, struct args *args,
                     const struct members *members) {
    size_t next = 0, written = 0;
    KEY(args, "what");
    while (written < ORR__LIST_MAX && next < members->count) {
        orr_json_bytes(args->writer, written == 0 ? "[\"" : ",\"", 2);
        if (next < members->enqueues) {
            enqueues_name(export, args->writer, members);
            next = members->enqueues;
        } else {
            item_name(export, args->writer, &members->items[next++]);
        }
        ORR_JSON_LITERAL(args->writer, "\"");
        written++;
    }
    ORR_JSON_LITERAL(args->writer, "]");
}

static void finding_ids_arg(const struct orr__export *export, struct args *args,
                            const struct members *members) {
    KEY(args, "id");
    for (size_t i = 0; i < members->count && i < ORR__LIST_MAX; i++) {
        orr_json_bytes(args->writer, i == 0 ? "[" : ",", 1);
        orr_json_u64(args->writer, export->timeline->findings[members->items[i].index].id);
    }
    ORR_JSON_LITERAL(args->writer, "]");
}

static void slice_args(const struct orr__export *export, struct args *args,
                       const struct orr__slice *slice) {
    struct members members = members_of(export, slice);
    if (members.count == 1) {
        item_args(export, args, members.items);
    } else if (members.enqueues == members.count) {
        cmds_arg(args, &members);
    } else if (is_findings(export, slice)) {
        what_arg(export, args, &members);
        finding_ids_arg(export, args, &members);
    } else {
        cmds_arg(args, &members);
        what_arg(export, args, &members);
    }
}

static void category(const struct orr__export *export, struct orr_json_writer *writer,
                     const struct orr__slice *slice) {
    switch ((enum orr__item_kind) export->items[slice->first].kind) {
    case ORR__ITEM_PHASE: ORR_JSON_LITERAL(writer, "\",\"cat\":\"phase\",\"args\":"); break;
    case ORR__ITEM_FINDING: ORR_JSON_LITERAL(writer, "\",\"cat\":\"finding\",\"args\":"); break;
    default: ORR_JSON_LITERAL(writer, "\",\"cat\":\"op\",\"args\":"); break;
    }
}

#define PUT(at, text) orr_json_put(at, "" text, sizeof(text) - 1)

void orr__perfetto_slice(const struct orr__export *export, struct orr_json_writer *writer,
                         const struct orr__slice *slice) {
    char *at = orr_json_reserve(writer, 256);
    at = PUT(at, "{\"ph\":\"X\",\"pid\":");
    at = orr_json_put_u64(at, slice->pid);
    at = PUT(at, ",\"tid\":");
    at = orr_json_put_u64(at, slice->tid);
    at = PUT(at, ",\"ts\":");
    at = orr_json_put_time(at, slice->start_ns);
    at = PUT(at, ",\"dur\":");
    at = orr_json_put_time(at, slice->dur_ns);
    at = PUT(at, ",\"name\":\"");
    writer->cursor = at;
    slice_name(export, writer, slice);
    category(export, writer, slice);
    struct args args = {.writer = writer, .separator = '{'};
    slice_args(export, &args, slice);
    end_args(&args);
    ORR_JSON_LITERAL(writer, "}");
}
