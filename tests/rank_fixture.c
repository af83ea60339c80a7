#include "tests/rank_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(struct rank_job *job, bool good) {
    if (!good && !job->may_fail)
        fail_msg("%s", job->error.text);
    job->failed = job->failed || !good;
}

void job_begin(struct rank_job *job, const struct orr_memory *memory, size_t count,
               uint64_t world_size) {
    bool may_fail = job->may_fail;
    *job = (struct rank_job){.memory = memory, .count = count, .may_fail = may_fail};
    for (size_t i = 0; i < count && !job->failed; i++) {
        check(job, orr__builder_create(memory, "kineto", &job->builders[i]) == ORR_OK);
        if (job->failed)
            return;
        struct orr_timeline_source *source = orr__builder_source(job->builders[i]);
        source->rank = i;
        source->world_size = world_size;
    }
}

static uint64_t add_kernel(struct rank_job *job, size_t place, int64_t number, const char *name,
                           int64_t start_ns, int64_t end_ns) {
    struct orr__builder *b = job->builders[place];
    if (job->failed)
        return 0;
    uint64_t correlation = ++job->correlations[place];
    int64_t shift = job->shifts[place];
    uint32_t host = orr__builder_host(b, 0, "1/1", 3);
    struct orr_timeline_call *call = orr__builder_call(b);
    if (call) {
        call->name = orr__builder_text(b, "cudaLaunchKernel", 16);
        call->host = host;
        call->begin_ns = start_ns - 20 + shift;
        call->end_ns = start_ns - 10 + shift;
        call->correlation = correlation;
    }
    orr__builder_device(b, (uint32_t)place);
    uint32_t stream = orr__builder_stream(b, (uint32_t)place, 0, 0, number);
    struct orr_timeline_command *command = orr__builder_command(b);
    if (!command) {
        check(job, false);
        return 0;
    }
    command->kind = ORR_COMMAND_KERNEL;
    command->status = ORR_COMMAND_STATUS_OK;
    command->name = orr__builder_text(b, name, strlen(name));
    command->device = (uint32_t)place;
    command->stream = stream;
    command->start_ns = start_ns + shift;
    command->finish_ns = end_ns + shift;
    command->correlation = correlation;
    return command->id;
}

uint64_t job_kernel(struct rank_job *job, size_t place, const char *name, int64_t start_ns,
                    int64_t end_ns) {
    return add_kernel(job, place, JOB_STREAM, name, start_ns, end_ns);
}

uint64_t job_comm(struct rank_job *job, size_t place, const char *name, int64_t start_ns,
                  int64_t end_ns) {
    return add_kernel(job, place, JOB_COMM_STREAM, name, start_ns, end_ns);
}

uint32_t job_group(struct rank_job *job, size_t place, const char *name, const uint32_t *ranks,
                   size_t count) {
    struct orr__builder *b = job->builders[place];
    struct orr_timeline_communicator *c = job->failed ? NULL : orr__builder_communicator(b);
    if (!c) {
        check(job, job->failed);
        job->failed = true;
        return 0;
    }
    uint32_t id = c->id;
    c->name = orr__builder_text(b, name, strlen(name));
    for (size_t i = 0; i < count; i++) {
        struct orr_timeline_member *member = orr__builder_member(b);
        if (member) {
            member->communicator = id;
            member->rank = ranks[i];
        }
    }
    return id;
}

void job_collective(struct rank_job *job, size_t place, uint64_t command, uint32_t group,
                    const char *kind, uint64_t seq, uint32_t source, uint32_t destination) {
    struct orr__builder *b = job->builders[place];
    struct orr_timeline_collective *c = job->failed ? NULL : orr__builder_collective(b);
    struct orr_timeline_collective_member *m = c ? orr__builder_collective_member(b) : NULL;
    if (!m) {
        check(job, job->failed);
        job->failed = true;
        return;
    }
    c->communicator = group;
    c->kind = orr__builder_text(b, kind, strlen(kind));
    c->seq = seq;
    c->bytes = 1024;
    c->root = source;
    c->peer = destination;
    m->collective = c->id;
    m->cmd = command;
}

void job_end(struct rank_job *job) {
    for (size_t i = 0; i < job->count && !job->failed; i++) {
        check(job, orr__builder_finish(&job->builders[i], &job->timelines[i]) == ORR_OK);
        if (job->failed)
            return;
        check(job, orr_events_from_timeline(job->timelines[i], job->memory, &job->events[i],
                                            &job->error) == ORR_OK);
        job->made += !job->failed;
        job->inputs[i] = (struct orr_ranks_input){job->timelines[i], &job->events[i], "a trace"};
    }
}

void job_ranks(struct rank_job *job) {
    if (!job->failed)
        check(job, orr_ranks_compute(job->inputs, job->count, job->memory, &job->ranks,
                                     &job->error) == ORR_OK);
}

void job_merge(struct rank_job *job) {
    const struct orr_ranks *ranks = &job->ranks;
    const struct orr_timeline *parts[JOB_RANKS_MAX];
    struct orr_merge_part how[JOB_RANKS_MAX];
    struct orr_merge_collective *collectives =
        calloc(ranks->collective_count + 1, sizeof *collectives);
    struct orr_merge_member *members = calloc(ranks->member_count + 1, sizeof *members);
    assert_non_null(collectives);
    assert_non_null(members);
    for (size_t p = 0; p < ranks->part_count; p++) {
        parts[p] = job->inputs[ranks->parts[p].input].timeline;
        how[p] = (struct orr_merge_part){.rank = ranks->parts[p].rank,
                                         .offset_ns = orr_ranks_shift(ranks, &ranks->parts[p])};
    }
    for (size_t i = 0; i < ranks->collective_count; i++) {
        const struct orr_ranks_collective *c = &ranks->collectives[i];
        collectives[i] =
            (struct orr_merge_collective){c->kind, c->group, c->seq, c->first, c->count};
    }
    for (size_t i = 0; i < ranks->member_count; i++) {
        const struct orr_ranks_member *m = &ranks->members[i];
        uint32_t part = ranks->items[m->rank].part;
        const struct orr_ranks_input *input = &job->inputs[ranks->parts[part].input];
        const struct orr_events_op *op = &input->events->ops[m->op];
        members[i] = (struct orr_merge_member){part, input->timeline->commands[op->command].id};
    }
    struct orr_merge_match match = {.collectives = collectives,
                                    .members = members,
                                    .collective_count = ranks->collective_count,
                                    .member_count = ranks->member_count,
                                    .world_size = (uint32_t)ranks->world_size};
    if (!job->failed)
        check(job, orr_timeline_merge(parts, how, ranks->part_count, &match, job->memory,
                                      &job->merged, &job->error) == ORR_OK);
    free(collectives);
    free(members);
}

void job_free(struct rank_job *job) {
    orr_ranks_free(job->memory, &job->ranks);
    orr_timeline_destroy(&job->merged);
    for (size_t i = 0; i < job->count; i++) {
        orr__builder_destroy(&job->builders[i]);
        if (i < job->made)
            orr_events_free(&job->events[i]);
        orr_timeline_destroy(&job->timelines[i]);
    }
}
