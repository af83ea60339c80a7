/* Conformance: failures, their first cause, and missing memory (contract point 4). */
#include "tests/conformance.h"

#include <stdio.h>
#include <string.h>

static struct orr_point breaks(struct fixture *f, uint32_t s, char *out_cause,
                               const struct orr_point *waits, uint32_t wait_count) {
    struct job *job = conformance_job(f, JOB_FAIL);
    snprintf(out_cause, ORR_ERROR_TEXT_MAX, "job %llu broke", (unsigned long long)job->id);
    return conformance_submit(f, s, job, waits, wait_count);
}

/* The command ended like this, and its cause says so. */
static void check_end(struct fixture *f, struct orr_point point, enum orr_command_status status,
                      const char *cause) {
    const struct outcome *outcome = conformance_outcome(f, point);
    check_text(f, outcome->record.header.c == status, "command %llu is %s, expected %s",
               (unsigned long long)outcome->record.id,
               orr_command_status_text(outcome->record.header.c), orr_command_status_text(status));
    check_text(f, !cause || strstr(outcome->cause, cause), "cause '%s', expected '%s'",
               outcome->cause, cause);
}

static void check_fail_of(struct fixture *f, uint32_t s, const char *cause) {
    struct orr_error error = {0};
    enum orr_status status = f->verbs->fail_of(f->backend, s, &error);
    check(f, status == (cause ? ORR_DEVICE_FAILED : ORR_OK));
    check_text(f, !cause || strstr(error.text, cause), "fail_of '%s', expected '%s'", error.text,
               cause);
}

static void a_failure_skips_the_rest_of_its_stream(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    char cause[ORR_ERROR_TEXT_MAX];
    struct orr_point before = conformance_quick(f, s, NULL, 0);
    struct orr_point broken = breaks(f, s, cause, NULL, 0), last = {0};
    struct job *later[10];
    for (int i = 0; i < 10; i++) {
        later[i] = conformance_job(f, JOB_NOTHING);
        last = conformance_submit(f, s, later[i], NULL, 0);
    }
    conformance_wait(f, last);
    check_end(f, before, ORR_COMMAND_STATUS_OK, NULL);
    check_end(f, broken, ORR_COMMAND_STATUS_FAILED, cause);
    for (int i = 0; i < 10; i++) {
        check(f, atomic_load(&later[i]->runs) == 0);
        check_end(f, f->outcomes[later[i]->id].point, ORR_COMMAND_STATUS_SKIPPED, cause);
    }
    check_fail_of(f, s, cause);
    conformance_close(f);
}

static void work_submitted_after_the_failure_is_skipped_too(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    char cause[ORR_ERROR_TEXT_MAX];
    conformance_wait(f, breaks(f, s, cause, NULL, 0));
    struct orr_point later = conformance_quick(f, s, NULL, 0);
    conformance_wait(f, later);
    check_end(f, later, ORR_COMMAND_STATUS_SKIPPED, cause);
    conformance_close(f);
}

static void a_failure_leaves_other_streams_alone(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0),
             c = conformance_stream(f, 1);
    char cause[ORR_ERROR_TEXT_MAX];
    conformance_wait(f, breaks(f, a, cause, NULL, 0));
    struct orr_point same = conformance_quick(f, b, NULL, 0);
    struct orr_point other = conformance_quick(f, c, &same, 1);
    conformance_wait(f, other);
    check_end(f, same, ORR_COMMAND_STATUS_OK, NULL);
    check_end(f, other, ORR_COMMAND_STATUS_OK, NULL);
    check_fail_of(f, b, NULL);
    check_fail_of(f, c, NULL);
    conformance_close(f);
}

static void whoever_awaits_a_failure_is_skipped_with_the_first_cause(struct fixture *f) {
    conformance_open(f, 2);
    enum { LENGTH = 5 };
    uint32_t s[LENGTH];
    char cause[ORR_ERROR_TEXT_MAX];
    for (uint32_t i = 0; i < LENGTH; i++)
        s[i] = conformance_stream(f, i % 2);
    struct orr_point good = conformance_quick(f, s[1], NULL, 0);
    struct orr_point last = breaks(f, s[0], cause, NULL, 0), chain[LENGTH];
    for (uint32_t i = 1; i < LENGTH; i++)
        chain[i] = last = conformance_quick(f, s[i], &last, 1);
    struct orr_point after = conformance_quick(f, s[1], NULL, 0);
    conformance_wait(f, last);
    conformance_wait(f, after);
    check_end(f, good, ORR_COMMAND_STATUS_OK, NULL);
    check_end(f, after, ORR_COMMAND_STATUS_SKIPPED, cause);
    for (uint32_t i = 1; i < LENGTH; i++) {
        check_end(f, chain[i], ORR_COMMAND_STATUS_SKIPPED, cause);
        check_fail_of(f, s[i], cause);
    }
    conformance_close(f);
}

static void a_wait_for_a_failure_that_is_over_skips_as_well(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    char cause[ORR_ERROR_TEXT_MAX];
    struct orr_point broken = breaks(f, a, cause, NULL, 0);
    conformance_wait(f, broken);
    f->verbs->poll(f->backend);
    struct orr_point consumed = conformance_quick(f, b, &broken, 1);
    conformance_wait(f, consumed);
    check_end(f, consumed, ORR_COMMAND_STATUS_SKIPPED, cause);
    conformance_close(f);
}

static void a_point_from_before_the_failure_is_a_good_one(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    char cause[ORR_ERROR_TEXT_MAX];
    struct orr_point good = conformance_quick(f, a, NULL, 0);
    struct orr_point broken = breaks(f, a, cause, NULL, 0);
    struct orr_point early = conformance_quick(f, b, &good, 1);
    conformance_wait(f, broken);
    struct orr_point late = conformance_quick(f, b, &good, 1);
    conformance_wait(f, late);
    check_end(f, early, ORR_COMMAND_STATUS_OK, NULL);
    check_end(f, late, ORR_COMMAND_STATUS_OK, NULL);
    conformance_close(f);
}

static void a_second_failure_does_not_replace_the_first(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0),
             c = conformance_stream(f, 0);
    char first[ORR_ERROR_TEXT_MAX], second[ORR_ERROR_TEXT_MAX];
    struct orr_point waits[2];
    waits[0] = breaks(f, a, first, NULL, 0);
    waits[1] = breaks(f, b, second, NULL, 0);
    conformance_wait(f, waits[0]);
    conformance_wait(f, waits[1]);
    struct orr_point skipped = conformance_quick(f, c, waits, 2);
    conformance_wait(f, skipped);
    check_end(f, skipped, ORR_COMMAND_STATUS_SKIPPED, first);
    struct orr_point again = conformance_quick(f, a, &waits[1], 1);
    conformance_wait(f, again);
    check_end(f, again, ORR_COMMAND_STATUS_SKIPPED, first);
    check_fail_of(f, a, first);
    conformance_close(f);
}

static void a_failure_without_a_text_gets_one(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point broken = conformance_submit(f, s, conformance_job(f, JOB_FAIL_MUTE), NULL, 0);
    conformance_wait(f, broken);
    check_end(f, broken, ORR_COMMAND_STATUS_FAILED, "failed");
    check_fail_of(f, s, "failed");
    conformance_close(f);
}

static void a_text_without_a_failure_is_no_failure(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    char cause[ORR_ERROR_TEXT_MAX];
    struct orr_point talk = conformance_submit(f, s, conformance_job(f, JOB_TALK), NULL, 0);
    conformance_wait(f, talk);
    check_end(f, talk, ORR_COMMAND_STATUS_OK, NULL);
    check_fail_of(f, s, NULL);
    struct orr_point broken = breaks(f, s, cause, NULL, 0);
    conformance_wait(f, broken);
    check_end(f, broken, ORR_COMMAND_STATUS_FAILED, cause);
    conformance_close(f);
}

static void a_wait_and_a_record_pass_a_failure_on(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1);
    char cause[ORR_ERROR_TEXT_MAX];
    breaks(f, a, cause, NULL, 0);
    struct orr_point recorded = conformance_kind(f, a, ORR_COMMAND_RECORD, NULL, 0);
    struct orr_point waited = conformance_kind(f, b, ORR_COMMAND_WAIT, &recorded, 1);
    struct orr_point later = conformance_quick(f, b, NULL, 0);
    conformance_wait(f, later);
    check_end(f, recorded, ORR_COMMAND_STATUS_SKIPPED, cause);
    check_end(f, waited, ORR_COMMAND_STATUS_SKIPPED, cause);
    check_end(f, later, ORR_COMMAND_STATUS_SKIPPED, cause);
    conformance_close(f);
}

static void a_failed_host_access_says_why(struct fixture *f) {
    conformance_open(f, 1);
    check_text(f, f->verbs->host_access != NULL, "the backend has no host_access");
    struct job *job = conformance_job(f, JOB_FAIL);
    job->command.record.header.a = ORR_COMMAND_HOSTWRITE;
    job->command.record.device = job->command.record.stream = ORR_ID_NONE;
    f->outcomes[job->id].given = job->command.record;
    f->outcomes[job->id].submitted = true;
    f->error = (struct orr_error){0};
    check(f, f->verbs->host_access(f->backend, &job->command, &f->error) == ORR_DEVICE_FAILED);
    check_text(f, strstr(f->error.text, "broke"), "text '%s'", f->error.text);
    check(f, f->outcomes[job->id].record.header.c == ORR_COMMAND_STATUS_FAILED);
    check(f, strstr(f->outcomes[job->id].cause, "broke") != NULL);
    conformance_close(f);
}

/* ---- missing memory ----------------------------------------------------------------------- */

/* Everything that allocates, tried once; each step may run out of memory. */
static enum orr_status one_of_everything(struct fixture *f) {
    uint32_t s[2], memory, host;
    enum orr_status status = conformance_try_open(f, 2);
    for (uint32_t i = 0; status == ORR_OK && i < 2; i++) {
        status = f->verbs->stream_create(f->backend, i, ORR_STREAM_COMPUTE, &s[i], &f->error);
        if (status == ORR_OK)
            f->streams[i] = (struct stream_note){.device = i};
    }
    if (status == ORR_OK)
        status = f->verbs->memory_create(f->backend, 0, 4096, &memory, &f->error);
    struct orr_point waits[5] = {{0}}, point;
    for (uint32_t i = 0; status == ORR_OK && i < 5; i++)
        status =
            conformance_try_submit(f, s[0], conformance_job(f, JOB_NOTHING), NULL, 0, &waits[i]);
    if (status == ORR_OK)
        status = conformance_try_submit(f, s[1], conformance_job(f, JOB_NOTHING), waits, 5, &point);
    struct orr_collective members[2] = {{.kind = ORR_COLLECTIVE_BARRIER, .ranks = 2},
                                        {.kind = ORR_COLLECTIVE_BARRIER, .rank = 1, .ranks = 2}};
    struct job *jobs[2] = {conformance_job(f, JOB_NOTHING), conformance_job(f, JOB_NOTHING)};
    struct orr_command commands[2];
    struct orr_point points[2];
    for (uint32_t i = 0; status == ORR_OK && i < 2; i++) {
        jobs[i]->command.record.header.a = ORR_COMMAND_COLLECTIVE;
        jobs[i]->command.collective = &members[i];
        jobs[i]->command.run = NULL;
        conformance_announce(f, &jobs[i]->command, s[i], waits, 5);
        commands[i] = jobs[i]->command;
    }
    if (status == ORR_OK)
        status = f->verbs->submit_group(f->backend, s, commands, 2, waits, 5, points, &f->error);
    for (uint32_t i = 0; status == ORR_OK && i < 2; i++)
        conformance_submitted(f, &commands[i], points[i]);
    if (status == ORR_OK && f->verbs->host_create)
        status = f->verbs->host_create(f->backend, &host);
    if (status == ORR_OK && f->verbs->host_done)
        f->verbs->host_done(f->backend, host);
    if (status == ORR_OK)
        status = f->verbs->wait(f->backend, 0, points, 2, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error);
    /* A backend that simulates may run out of memory later; it says so here. */
    for (uint32_t i = 0; status == ORR_OK && i < 2; i++)
        status = f->verbs->fail_of(f->backend, s[i], &f->error);
    return status;
}

static void any_allocation_may_fail(struct fixture *f) {
    conformance_open(f, 1);
    conformance_stream(f, 0); /* makes room for the notes of two streams */
    conformance_close(f);
    for (int runner = 0; runner < 2; runner++) {
        f->runner = (enum orr_runner)runner;
        enum orr_status status = ORR_NO_MEMORY;
        int64_t allowed = 0;
        for (; status == ORR_NO_MEMORY; allowed++) {
            check(f, allowed < 10000);
            f->allowances = allowed;
            f->error = (struct orr_error){0};
            status = one_of_everything(f);
            f->allowances = -1;
            check_text(f, status == ORR_OK || f->error.text[0] != '\0', "no text for %s",
                       orr_status_text(status));
            conformance_close(f);
        }
        check_text(f, status == ORR_OK, "with %lld allocations: %s %s", (long long)allowed,
                   orr_status_text(status), f->error.text);
        check(f, allowed > 5);
    }
}

static void a_submit_that_runs_out_of_memory_did_nothing(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1);
    conformance_wait(f, conformance_quick(f, b, NULL, 0));
    struct orr_point waits[64], point;
    for (int i = 0; i < 64; i++)
        waits[i] = conformance_slow(f, a, NULL, 0);
    f->allowances = 0; /* the list of waits needs memory */
    struct job *job = conformance_job(f, JOB_NOTHING);
    enum orr_status status = conformance_try_submit(f, b, job, waits, 64, &point);
    f->allowances = -1;
    check(f, status == ORR_NO_MEMORY || status == ORR_OK);
    struct orr_point next = conformance_quick(f, b, NULL, 0);
    check(f, next.seq == (status == ORR_OK ? 3 : 2));
    conformance_open_gate(f);
    conformance_wait(f, next);
    conformance_close(f);
}

#define CASE(name)                                                                                 \
    { #name, name }

const struct conformance_case conformance_failure_cases[] = {
    CASE(a_failure_skips_the_rest_of_its_stream),
    CASE(work_submitted_after_the_failure_is_skipped_too),
    CASE(a_failure_leaves_other_streams_alone),
    CASE(whoever_awaits_a_failure_is_skipped_with_the_first_cause),
    CASE(a_wait_for_a_failure_that_is_over_skips_as_well),
    CASE(a_point_from_before_the_failure_is_a_good_one),
    CASE(a_second_failure_does_not_replace_the_first),
    CASE(a_failure_without_a_text_gets_one),
    CASE(a_text_without_a_failure_is_no_failure),
    CASE(a_wait_and_a_record_pass_a_failure_on),
    CASE(a_failed_host_access_says_why),
    CASE(any_allocation_may_fail),
    CASE(a_submit_that_runs_out_of_memory_did_nothing),
    {NULL, NULL},
};
