/* A command ends: its numbers, its record, and whoever waited for it. */
#include <assert.h>
#include <string.h>

#include "sim/perturb.h"

void orr__stream_fail(struct orr__sim *sim, struct orr__stream *stream,
                      const struct orr_error *error) {
    if (stream->failed) {
        return;
    }
    stream->failed = true;
    stream->failed_seq = stream->retired + 1;
    stream->cause = orr_memory_alloc(sim->memory, sizeof *stream->cause);
    if (stream->cause) {
        *stream->cause = *error;
        stream->owns_cause = true;
    } else {
        sim->out_of_memory = true;
    }
}

/* Computes the command on current memory, unless it raced or read undefined bytes. */
static enum orr_command_status compute(struct orr__sim *sim, struct orr__stream *stream,
                                       const struct orr_command *command, int64_t finish_ns) {
    bool poison = orr__uses_end(sim->memories, command, finish_ns);
    enum orr_command_status result = poison ? ORR_COMMAND_STATUS_POISONED : ORR_COMMAND_STATUS_OK;
    if (!poison && command->run) {
        struct orr_error error = {0};
        enum orr_status status = command->run(command, &error);
        if (status != ORR_OK) {
            orr_error_set(&error, status, "%s", orr_status_text(status));
            orr__stream_fail(sim, stream, &error);
            result = ORR_COMMAND_STATUS_FAILED;
        }
    }
    bool undefined = result != ORR_COMMAND_STATUS_OK;
    if (orr__writes_settle(sim->memories, sim->memory, command, undefined) != ORR_OK) {
        sim->out_of_memory = true;
    }
    return result;
}

static void wake_waiters(struct orr__sim *sim, struct orr__stream *stream) {
    struct orr__stream *waiter;
    while ((waiter = stream->waiters_first) && waiter->waiting_seq <= stream->retired) {
        stream->waiters_first = waiter->waiter_next;
        *(waiter->waiter_next ? &waiter->waiter_next->waiter_before : &stream->waiters_last) = NULL;
        waiter->waiting_on = ORR_ID_NONE;
        orr__engine_ready(sim, waiter);
    }
}

static void undefine(struct orr__sim *sim, uint32_t memory, uint64_t lo, uint64_t hi) {
    struct orr__memory *its = &sim->memories[memory];
    if (its->live && orr__range_undefine(its, sim->memory, lo, hi) != ORR_OK) {
        sim->out_of_memory = true;
    }
}

void orr__stream_undefine(struct orr__sim *sim, struct orr__stream *stream, uint32_t memory,
                          uint64_t lo, uint64_t hi) {
    if (stream->count == 0) {
        undefine(sim, memory, lo, hi);
        return;
    }
    if (orr_memory_grow(sim->memory, &stream->undefines, &stream->undefine_capacity,
                        stream->undefine_count + 1, sizeof *stream->undefines,
                        ORR__MEMORIES_MAX) != ORR_OK) {
        sim->out_of_memory = true;
        return;
    }
    stream->observed = true;
    stream->undefines[stream->undefine_count++] =
        (struct orr__undefine){.seq = stream->submitted, .lo = lo, .hi = hi, .memory = memory};
}

void orr__stream_undefine_due(struct orr__sim *sim, struct orr__stream *stream) {
    size_t done = 0;
    while (done < stream->undefine_count && stream->undefines[done].seq <= stream->retired) {
        const struct orr__undefine *due = &stream->undefines[done++];
        undefine(sim, due->memory, due->lo, due->hi);
    }
    stream->undefine_count -= done;
    memmove(stream->undefines, stream->undefines + done,
            stream->undefine_count * sizeof *stream->undefines);
}

/* Hands the head back, its record complete, and makes the next one the head. */
static void retire_head(struct orr__sim *sim, struct orr__stream *stream,
                        enum orr_command_status status) {
    struct orr__sim_command *head = orr__stream_head(stream);
    struct orr_command *command = head->command;
    struct orr_record_command *record = &command->record;
    uint8_t bits = head->bits;
    record->ready_ns = stream->ready_ns;
    record->start_ns = stream->start_ns;
    record->header.c = (uint8_t)status;
    if (bits & ORR__SLOT_LISTS) {
        orr_memory_free(sim->memory, head->list);
    }
    stream->start_ns = stream->ready_ns = ORR_TIME_NONE;
    stream->head = (stream->head + 1) & (stream->capacity - 1);
    stream->count--;
    stream->retired++;
    if (stream->observed && stream->undefine_count > 0) {
        orr__stream_undefine_due(sim, stream);
    }
    sim->retire.retired(sim->retire.context, command,
                        status >= ORR_COMMAND_STATUS_FAILED ? stream->cause : NULL);
    if (bits & ORR__SLOT_COPIED) {
        orr_memory_free(sim->memory, command);
    }
}

/* What a skipped command would have written is not there. */
static void skip(struct orr__sim *sim, const struct orr_command *command, int64_t finish_ns) {
    if (sim->timing_only) {
        return;
    }
    (void)orr__uses_end(sim->memories, command, finish_ns);
    if (orr__writes_settle(sim->memories, sim->memory, command, true) != ORR_OK) {
        sim->out_of_memory = true;
    }
}

/* A fault makes the head fail. */
static bool fails(struct orr__sim *sim, struct orr__stream *stream, int64_t finish_ns) {
    struct orr_error error = {0};
    if (orr__perturb_fate(sim, stream, finish_ns, &error) != ORR__FATE_FAILS) {
        return false;
    }
    orr__stream_fail(sim, stream, &error);
    return true;
}

static void tell_observers(struct orr__sim *sim, struct orr__stream *stream, int64_t finish_ns) {
    if (stream->waiters_first) {
        wake_waiters(sim, stream);
    }
    if (stream->watches) {
        orr__hosts_notice(sim, stream, finish_ns);
    }
    stream->observed = stream->waiters_first || stream->watches || stream->undefine_count > 0;
}

void orr__finish_head(struct orr__sim *sim, struct orr__stream *stream, int64_t finish_ns) {
    struct orr__sim_command *head = orr__stream_head(stream);
    enum orr_command_status status = ORR_COMMAND_STATUS_OK;
    assert(stream->start_ns <= finish_ns && stream->tail_ns <= finish_ns);
    head->command->record.finish_ns = finish_ns; /* what it computes may want to know */
    if (head->group) {
        status = orr__group_leave(sim, stream, finish_ns);
    } else if (stream->skipped) {
        status = ORR_COMMAND_STATUS_SKIPPED;
        skip(sim, head->command, finish_ns);
    } else if (sim->perturb && fails(sim, stream, finish_ns)) {
        status = ORR_COMMAND_STATUS_FAILED;
        skip(sim, head->command, finish_ns);
    } else if (!sim->timing_only && (head->command->access_count || head->command->run)) {
        status = compute(sim, stream, head->command, finish_ns);
    }
    stream->tail_ns = finish_ns;
    retire_head(sim, stream, status);
    if (stream->observed) {
        tell_observers(sim, stream, finish_ns);
    }
    if (stream->count) {
        orr__engine_ready(sim, stream);
    }
}

void orr__retire_pending(struct orr__sim *sim, struct orr__stream *stream) {
    while (stream->count) {
        if (!stream->in_service) {
            stream->start_ns = ORR_TIME_NONE;
        }
        stream->in_service = false;
        retire_head(sim, stream, ORR_COMMAND_STATUS_PENDING);
    }
}
