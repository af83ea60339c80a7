/* What commands do to memory. A step is whole, so nothing overlaps; what reads bytes that nobody
 * has written poisons what it writes. */
#include "runtime/collective.h"
#include "sim/untimed/untimed_internal.h"

bool orr__x_reads_undefined(const struct orr_untimed *x, const struct orr_access *accesses,
                            size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct orr_access *access = &accesses[i];
        if ((access->mode & ORR_ACCESS_READ) &&
            orr__range_touches_undefined(&x->memories[access->memory], access->offset,
                                         access->offset + access->bytes)) {
            return true;
        }
    }
    return false;
}

static void settle_writes(struct orr_untimed *x, const struct orr_command *command, bool poison) {
    if (!x->timing_only && orr__writes_settle(x->memories, x->memory, command, poison) != ORR_OK) {
        x->out_of_memory = true;
    }
}

void orr__x_skip(struct orr_untimed *x, const struct orr_command *command) {
    if (command) {
        settle_writes(x, command, true);
    }
}

/* The first failure of a stream. Without memory for it the cause has no text. */
static void fail(struct orr_untimed *x, struct orr__x_stream *stream,
                 const struct orr_error *error) {
    if (stream->failure) {
        return;
    }
    stream->failure = orr_memory_alloc(x->memory, sizeof *stream->failure);
    stream->owns_failure = stream->failure != NULL;
    if (stream->failure) {
        *stream->failure = *error;
    }
}

enum orr_command_status orr__x_compute(struct orr_untimed *x, uint32_t id,
                                       struct orr_command *command) {
    if (x->timing_only) {
        return ORR_COMMAND_STATUS_OK;
    }
    bool poison = orr__x_reads_undefined(x, command->accesses, command->access_count);
    x->steps[x->cause].undefined = poison;
    struct orr_error error;
    error.status = ORR_OK;
    if (!poison && command->run && command->run(command, &error) != ORR_OK) {
        settle_writes(x, command, true);
        fail(x, &x->streams[id], &error);
        return ORR_COMMAND_STATUS_FAILED;
    }
    settle_writes(x, command, poison);
    return poison ? ORR_COMMAND_STATUS_POISONED : ORR_COMMAND_STATUS_OK;
}

/* A member whose stream has failed makes the others skip too. */
static const struct orr__x_stream *failed_member(const struct orr_untimed *x,
                                                 const struct orr__x_group *group) {
    for (uint32_t i = 0; i < group->count; i++) {
        const struct orr__x_stream *stream = &x->streams[x->group_streams[group->first + i]];
        if (stream->failed) {
            return stream;
        }
    }
    return NULL;
}

enum orr_command_status orr__x_compute_group(struct orr_untimed *x,
                                             const struct orr__x_group *group) {
    const struct orr__x_stream *failed = failed_member(x, group);
    bool poison = false, broke = false;
    struct orr_error error;
    error.status = ORR_OK;
    for (uint32_t i = 0; i < group->count; i++) {
        struct orr__x_stream *stream = &x->streams[x->group_streams[group->first + i]];
        const struct orr_command *command = orr__x_head(stream)->command;
        x->members[i] = command->collective;
        if (!x->timing_only) {
            poison |= orr__x_reads_undefined(x, command->accesses, command->access_count);
        }
        if (failed && !stream->failure) {
            stream->failure = failed->failure;
        }
    }
    x->steps[x->cause].undefined = poison;
    if (!failed && !poison && !x->timing_only) {
        broke = orr_collective_run(x->members, group->count, &error) != ORR_OK;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        struct orr__x_stream *stream = &x->streams[x->group_streams[group->first + i]];
        settle_writes(x, orr__x_head(stream)->command, poison || broke || failed);
        if (broke) {
            fail(x, stream, &error);
        }
    }
    return failed   ? ORR_COMMAND_STATUS_SKIPPED
           : broke  ? ORR_COMMAND_STATUS_FAILED
           : poison ? ORR_COMMAND_STATUS_POISONED
                    : ORR_COMMAND_STATUS_OK;
}
