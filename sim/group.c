/* Collectives: members arrive one by one as they reach the heads of their streams, the transfer
 * begins with the last of them, and all finish together. A member that has arrived occupies its
 * share of its device's multiprocessors while it waits for the others, as a spinning kernel
 * does. */
#include <assert.h>

#include "runtime/collective.h"
#include "sim/perturb.h"

/* When it ends; never, if a fault says so. */
static int64_t end_of(struct orr__sim *sim, struct orr__group *group) {
    struct orr_error error = {0};
    if (group->skipped) {
        group->work.work = 0;
    } else if (sim->perturb) {
        group->work.work = orr__perturb_group_work(sim, group, group->begin_ns);
    }
    int64_t finish_ns =
        group->begin_ns + (int64_t)((group->work.work + ORR__WORK_NS / 2) >> ORR__WORK_BITS);
    bool lost =
        sim->perturb && orr__perturb_group_fate(sim, group, finish_ns, &error) == ORR__FATE_LOST;
    return lost ? ORR_TIME_MAX : finish_ns;
}

static void begin_transfer(struct orr__sim *sim, struct orr__group *group) {
    int64_t finish_ns = end_of(sim, group);
    for (uint32_t i = 0; i < group->count; i++) {
        struct orr__stream *stream = sim->streams[group->streams[i]];
        stream->finish_ns = finish_ns;
        stream->lost = finish_ns == ORR_TIME_MAX;
        orr__service_reschedule(sim, stream->device);
    }
}

void orr__group_arrive(struct orr__sim *sim, struct orr__stream *stream, int64_t start_ns) {
    struct orr__group *group = orr__stream_head(stream)->group;
    orr__service_enter(sim, stream, start_ns);
    if (stream->failed) {
        group->skipped = true;
        group->cause = group->cause ? group->cause : stream->cause;
    }
    group->begin_ns =
        group->arrived == 0 || start_ns > group->begin_ns ? start_ns : group->begin_ns;
    group->arrived++;
    assert(group->arrived <= group->count);
    if (group->arrived == group->count) {
        begin_transfer(sim, group);
    } else {
        orr__service_reschedule(sim, stream->device);
    }
}

static void settle_member(struct orr__sim *sim, const struct orr_command *command, bool poison) {
    if (orr__writes_settle(sim->memories, sim->memory, command, poison) != ORR_OK) {
        sim->out_of_memory = true;
    }
}

static void fail_members(struct orr__sim *sim, struct orr__group *group,
                         const struct orr_error *error) {
    for (uint32_t i = 0; i < group->count; i++) {
        orr__stream_fail(sim, sim->streams[group->streams[i]], error);
    }
    group->failed = true;
}

/* Numbers of all members at once: nobody may have touched their operands before the common
 * finish. */
static void compute(struct orr__sim *sim, struct orr__group *group, int64_t finish_ns) {
    bool poison = group->skipped || group->failed;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct orr_command *command =
            orr__stream_head(sim->streams[group->streams[i]])->command;
        poison |= orr__uses_end(sim->memories, command, finish_ns);
        group->members[i] = command->collective;
    }
    struct orr_error error = {0};
    if (!poison && orr_collective_run(group->members, group->count, &error) != ORR_OK) {
        fail_members(sim, group, &error);
        poison = true;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        settle_member(sim, orr__stream_head(sim->streams[group->streams[i]])->command, poison);
    }
    group->poisoned = poison;
}

void orr__group_free(struct orr__sim *sim, struct orr__group *group) {
    *(group->before ? &group->before->next : &sim->groups) = group->next;
    if (group->next) {
        group->next->before = group->before;
    }
    orr_memory_free(sim->memory, group);
}

enum orr_command_status orr__group_leave(struct orr__sim *sim, struct orr__stream *stream,
                                         int64_t finish_ns) {
    struct orr__group *group = orr__stream_head(stream)->group;
    struct orr_error error = {0};
    if (group->finished == 0 && sim->perturb &&
        orr__perturb_group_fate(sim, group, finish_ns, &error) == ORR__FATE_FAILS) {
        fail_members(sim, group, &error);
    }
    if (group->finished == 0 && !sim->timing_only) {
        compute(sim, group, finish_ns);
    }
    enum orr_command_status status = ORR_COMMAND_STATUS_OK;
    if (group->failed) {
        status = ORR_COMMAND_STATUS_FAILED;
    } else if (group->skipped) {
        status = ORR_COMMAND_STATUS_SKIPPED;
        if (!stream->failed) {
            stream->failed = true;
            stream->failed_seq = stream->retired + 1;
            stream->cause = group->cause;
        }
    } else if (group->poisoned) {
        status = ORR_COMMAND_STATUS_POISONED;
    }
    if (++group->finished == group->count) {
        orr__group_free(sim, group);
    }
    return status;
}
