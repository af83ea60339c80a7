#include "cli/explain.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "trace/timeline.h"

/* Walks the commands in order of their ids; edges are sorted by destination. */
struct walk {
    const struct orr_timeline *timeline;
    size_t edge_at;
    size_t *
        last; /* of each stream, by position in the timeline: its last command so far + 1, 0 none */
};

struct cause {
    const struct orr_timeline_command *source; /* NULL: nothing but the host */
    enum orr_edge_kind kind;
};

static void consider(struct cause *cause, const struct orr_timeline_command *source,
                     enum orr_edge_kind kind) {
    if (source && source->finish_ns != ORR_TIME_NONE &&
        (!cause->source || source->finish_ns > cause->source->finish_ns))
        *cause = (struct cause){.source = source, .kind = kind};
}

/* What `commands[index]` waited for longest: the command before it in its stream, or an edge. */
static struct cause find_cause(struct walk *walk, size_t index) {
    const struct orr_timeline *timeline = walk->timeline;
    const struct orr_timeline_command *command = &timeline->commands[index];
    struct cause cause = {0};
    const struct orr_timeline_stream *stream = orr_timeline_stream(timeline, command->stream);
    if (stream) {
        size_t *last = &walk->last[stream - timeline->streams];
        consider(&cause, *last > 0 ? &timeline->commands[*last - 1] : NULL, ORR_EDGE_STREAM);
        *last = index + 1;
    }
    while (walk->edge_at < timeline->edge_count && timeline->edges[walk->edge_at].dst < command->id)
        walk->edge_at++;
    for (;
         walk->edge_at < timeline->edge_count && timeline->edges[walk->edge_at].dst == command->id;
         walk->edge_at++) {
        const struct orr_timeline_edge *edge = &timeline->edges[walk->edge_at];
        consider(&cause, orr_timeline_command(timeline, edge->src), edge->kind);
    }
    return cause;
}

static void print_cause(const struct orr_cli *cli, const struct orr_timeline_command *command,
                        struct cause cause) {
    static const char *const relations[] = {[ORR_EDGE_STREAM] = "behind",
                                            [ORR_EDGE_EVENT] = "waited for",
                                            [ORR_EDGE_HOST] = "the host saw",
                                            [ORR_EDGE_COLLECTIVE] = "joined by",
                                            [ORR_EDGE_ALLOCATOR] = "memory of"};
    if (command->start_ns == ORR_TIME_NONE)
        fputs("never started", cli->out);
    else if (cause.source && cause.source->finish_ns > command->enqueued_ns)
        fprintf(cli->out, "%s #%llu %s", relations[cause.kind],
                (unsigned long long)cause.source->id, cause.source->name);
    else if (command->start_ns > command->enqueued_ns)
        fprintf(cli->out, "launch: %lld ns after the call",
                (long long)(command->start_ns - command->enqueued_ns));
    else
        fputs("at once", cli->out);
    if (command->status != ORR_COMMAND_STATUS_OK)
        fprintf(cli->out, "; %s", orr_command_status_text(command->status));
    fputc('\n', cli->out);
}

static void print_command(const struct orr_cli *cli, const struct orr_timeline *timeline,
                          const struct orr_timeline_command *command, struct cause cause) {
    const struct orr_timeline_stream *stream = orr_timeline_stream(timeline, command->stream);
    char where[96] = "host";
    if (stream)
        snprintf(where, sizeof where, "%u/%s", stream->device, stream->name);
    fprintf(cli->out, "#%-5llu %-18s %-16s", (unsigned long long)command->id, command->name, where);
    if (command->start_ns != ORR_TIME_NONE)
        fprintf(cli->out, " call %lld start %lld finish %lld  ", (long long)command->enqueue_ns,
                (long long)command->start_ns, (long long)command->finish_ns);
    else
        fprintf(cli->out, " call %lld  ", (long long)command->enqueue_ns);
    print_cause(cli, command, cause);
}

/* Redistributions that are planned alike at the same line. */
struct redistribution {
    const struct orr_timeline_op *op; /* the first one */
    size_t count;
};

static int compare_plans(const void *left, const void *right) {
    const struct orr_timeline_op *a = ((const struct redistribution *)left)->op;
    const struct orr_timeline_op *b = ((const struct redistribution *)right)->op;
    int order = strcmp(a->name, b->name);
    order = order ? order : strcmp(a->site, b->site);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

static int compare_ids(const void *left, const void *right) {
    const struct orr_timeline_op *a = ((const struct redistribution *)left)->op;
    const struct orr_timeline_op *b = ((const struct redistribution *)right)->op;
    return (a->id > b->id) - (a->id < b->id);
}

/* Puts those that are alike together, the first of each where it was; returns how many are left. */
static size_t join_alike(struct redistribution *all, size_t count) {
    size_t kept = 0;
    qsort(all, count, sizeof *all, compare_plans);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(all[kept - 1].op->name, all[i].op->name) == 0 &&
            strcmp(all[kept - 1].op->site, all[i].op->site) == 0)
            all[kept - 1].count++;
        else
            all[kept++] = all[i];
    }
    qsort(all, kept, sizeof *all, compare_ids);
    return kept;
}

/* What was planned of each redistribution: its operator's name says it. False without memory. */
static bool print_redistributions(const struct orr_cli *cli, const struct orr_timeline *timeline) {
    struct redistribution *all =
        orr_memory_alloc(cli->memory, (timeline->op_count + 1) * sizeof *all);
    size_t count = 0;
    if (!all)
        return false;
    for (size_t i = 0; i < timeline->op_count; i++)
        if (strcmp(timeline->ops[i].kind, "redistribute") == 0)
            all[count++] = (struct redistribution){.op = &timeline->ops[i], .count = 1};
    if (count > 0)
        fputs("redistributions (bytes on the busiest link of the largest group):\n", cli->out);
    count = join_alike(all, count);
    for (size_t i = 0; i < count; i++) {
        const struct orr_timeline_op *op = all[i].op;
        fprintf(cli->out, "  %s%s%s", op->name, *op->site ? ", at " : "", op->site);
        if (all[i].count > 1)
            fprintf(cli->out, ", %zu times", all[i].count);
        fputc('\n', cli->out);
    }
    orr_memory_free(cli->memory, all);
    return true;
}

enum orr_exit orr_explain(const struct orr_cli *cli, const char *path) {
    struct orr_error error = {0};
    struct orr_timeline *timeline;
    if (orr_timeline_read(path, cli->memory, &timeline, &error) != ORR_OK)
        return orr_cli_fail(cli, &error);
    struct walk walk = {.timeline = timeline};
    walk.last = orr_memory_alloc(cli->memory, (timeline->stream_count + 1) * sizeof *walk.last);
    if (walk.last) {
        fputs("commands (times in ns):\n", cli->out);
        for (size_t i = 0; i < timeline->command_count; i++)
            print_command(cli, timeline, &timeline->commands[i], find_cause(&walk, i));
    }
    bool explained = walk.last && print_redistributions(cli, timeline);
    orr_memory_free(cli->memory, walk.last);
    orr_timeline_destroy(&timeline);
    if (explained)
        return ORR_EXIT_OK;
    (void)orr_error_set(&error, ORR_NO_MEMORY, "out of host memory for --explain");
    return orr_cli_fail(cli, &error);
}
