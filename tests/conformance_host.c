/* Conformance: what a host sees: waits, queries, records, memory, several hosts (contract points 2,
 * 5 and 6; races.md rules 7, 15, 26). */
#include "tests/conformance.h"

#include <string.h>

static enum orr_status wait_for(struct fixture *f, const struct orr_point *points, uint32_t count,
                                enum orr_wait_mode mode, int64_t deadline_ns) {
    f->error = (struct orr_error){0};
    return f->verbs->wait(f->backend, 0, points, count, mode, deadline_ns, &f->error);
}

static int64_t now(struct fixture *f) {
    return f->verbs->now(f->backend, 0);
}

/* ---- waits and queries -------------------------------------------------------------------- */

static void a_query_says_not_ready_until_the_point_has_retired(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point slow = conformance_slow(f, s, NULL, 0);
    for (int i = 0; i < 5; i++)
        check(f, conformance_query(f, slow) == ORR_NOT_READY);
    conformance_open_gate(f);
    int64_t begin_ns = now(f);
    while (conformance_query(f, slow) != ORR_OK)
        check(f, f->target->virtual_time || now(f) - begin_ns < 60000000000);
    check(f, conformance_status(f, slow) == ORR_COMMAND_STATUS_OK); /* and is handed back */
    conformance_close(f);
}

static void a_wait_for_all_ends_with_the_last(struct fixture *f) {
    conformance_open(f, 2);
    struct orr_point points[4];
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t s = conformance_stream(f, i % 2);
        points[i] = i == 2 ? conformance_slow(f, s, NULL, 0) : conformance_quick(f, s, NULL, 0);
    }
    conformance_open_gate(f);
    check(f, wait_for(f, points, 4, ORR_WAIT_ALL, ORR_TIME_MAX) == ORR_OK);
    for (uint32_t i = 0; i < 4; i++) {
        check(f, conformance_query(f, points[i]) == ORR_OK);
        check(f, now(f) >= conformance_record(f, points[i])->finish_ns);
    }
    conformance_close(f);
}

static void a_wait_for_any_ends_with_the_first(struct fixture *f) {
    conformance_open(f, 2);
    struct orr_point points[3];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t s = conformance_stream(f, i % 2);
        points[i] = i == 1 ? conformance_quick(f, s, NULL, 0) : conformance_slow(f, s, NULL, 0);
    }
    check(f, wait_for(f, points, 3, ORR_WAIT_ANY, ORR_TIME_MAX) == ORR_OK);
    check(f, conformance_query(f, points[0]) == ORR_NOT_READY);
    check(f, conformance_query(f, points[1]) == ORR_OK);
    check(f, conformance_query(f, points[2]) == ORR_NOT_READY);
    check(f, wait_for(f, &points[1], 1, ORR_WAIT_ANY, ORR_TIME_MAX) == ORR_OK);
    conformance_open_gate(f);
    conformance_close(f);
}

static void a_wait_for_nothing_returns_at_once(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point slow = conformance_slow(f, s, NULL, 0);
    check(f, wait_for(f, NULL, 0, ORR_WAIT_ALL, ORR_TIME_MAX) == ORR_OK);
    check(f, wait_for(f, NULL, 0, ORR_WAIT_ANY, ORR_TIME_MAX) == ORR_OK);
    check(f, conformance_query(f, slow) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_close(f);
}

static void a_wait_ends_at_its_deadline(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point slow = conformance_slow(f, s, NULL, 0);
    for (int i = 0; i < 3; i++) {
        int64_t deadline_ns = now(f) + 300000;
        check(f,
              wait_for(f, &slow, 1, i ? ORR_WAIT_ALL : ORR_WAIT_ANY, deadline_ns) == ORR_NOT_READY);
        check(f, now(f) >= deadline_ns);
    }
    conformance_open_gate(f);
    conformance_wait(f, slow);
    conformance_close(f);
}

static void a_deadline_in_the_past_does_not_hide_what_is_done(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    struct orr_point points[2] = {conformance_quick(f, a, NULL, 0),
                                  conformance_slow(f, b, NULL, 0)};
    conformance_wait(f, points[0]);
    check(f, wait_for(f, &points[0], 1, ORR_WAIT_ALL, 0) == ORR_OK);
    check(f, wait_for(f, &points[1], 1, ORR_WAIT_ALL, 0) == ORR_NOT_READY);
    check(f, wait_for(f, points, 2, ORR_WAIT_ALL, 0) == ORR_NOT_READY);
    check(f, wait_for(f, points, 2, ORR_WAIT_ANY, 0) == ORR_OK);
    conformance_open_gate(f);
    conformance_close(f);
}

static void a_wait_for_what_was_never_submitted_fails_with_a_reason(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    conformance_quick(f, s, NULL, 0);
    struct orr_point never = {.stream = s, .seq = 2};
    check(f, wait_for(f, &never, 1, ORR_WAIT_ALL, ORR_TIME_MAX) == ORR_DEVICE_FAILED);
    check_text(f, strstr(f->error.text, "2") && strstr(f->error.text, "hang"), "reason: %s",
               f->error.text);
    struct orr_point both[2] = {never, {.stream = s, .seq = 1}};
    check(f, wait_for(f, both, 2, ORR_WAIT_ANY, ORR_TIME_MAX) == ORR_OK);
    struct orr_point second = conformance_quick(f, s, NULL, 0); /* the backend still works */
    check(f, second.seq == 2);
    conformance_wait(f, never);
    conformance_close(f);
}

static void polling_hands_back_what_is_done(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1);
    struct orr_point first[10];
    for (int i = 0; i < 10; i++)
        first[i] = conformance_quick(f, a, NULL, 0);
    conformance_wait(f, conformance_quick(f, b, &first[9], 1)); /* so that all ten are done */
    f->verbs->poll(f->backend);
    for (int i = 0; i < 10; i++)
        check(f, conformance_status(f, first[i]) == ORR_COMMAND_STATUS_OK);
    f->verbs->poll(f->backend);
    conformance_close(f);
}

/* ---- records ------------------------------------------------------------------------------ */

static void enqueue_times_lie_within_the_call(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    for (int i = 0; i < 20; i++) {
        int64_t before_ns = now(f);
        struct orr_point point = conformance_quick(f, s, NULL, 0);
        int64_t after_ns = now(f);
        conformance_wait(f, point);
        const struct orr_record_command *r = conformance_record(f, point);
        check(f, before_ns <= r->enqueue_ns && r->enqueue_ns <= r->enqueued_ns);
        check(f, r->enqueued_ns <= after_ns);
    }
    conformance_close(f);
}

static void a_given_enqueue_time_is_kept(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    conformance_wait(f, conformance_quick(f, s, NULL, 0));
    struct job *job = conformance_job(f, JOB_NOTHING);
    int64_t begin_ns = now(f);
    job->command.record.enqueue_ns = begin_ns;
    conformance_query(f, (struct orr_point){.stream = s, .seq = 1}); /* time goes by */
    struct orr_point point = conformance_submit(f, s, job, NULL, 0);
    conformance_wait(f, point);
    check(f, conformance_record(f, point)->enqueue_ns == begin_ns);
    conformance_close(f);
}

/* z of analysis.md 2.2, computed again from the records: max of the call's end, the finish of the
 * command before, the finishes awaited, but never above the start. */
static int64_t ready_by_definition(struct fixture *f, struct orr_point point,
                                   const struct orr_point *waits, uint32_t count) {
    const struct orr_record_command *r = conformance_record(f, point);
    int64_t ready_ns = r->enqueued_ns;
    if (point.seq > 1) {
        struct orr_point before = {.stream = point.stream, .seq = point.seq - 1};
        int64_t finish_ns = conformance_record(f, before)->finish_ns;
        ready_ns = finish_ns > ready_ns ? finish_ns : ready_ns;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t finish_ns = conformance_record(f, waits[i])->finish_ns;
        ready_ns = finish_ns > ready_ns ? finish_ns : ready_ns;
    }
    return ready_ns < r->start_ns ? ready_ns : r->start_ns;
}

/* Some wait for others, some only for their stream. */
static uint32_t ready_wait_count(uint32_t i) {
    return i % 5 == 4 || i == 0 ? 0 : i == 1 ? 1 : 2;
}

static void ready_is_when_nothing_was_awaited_any_more(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t s[3] = {conformance_stream(f, 0), conformance_stream(f, 1), conformance_stream(f, 0)};
    struct orr_point points[60], waits[60][2];
    for (uint32_t i = 0; i < 60; i++) {
        waits[i][0] = i > 0 ? points[i - 1] : (struct orr_point){0};
        waits[i][1] = i > 1 ? points[i - 2] : (struct orr_point){0};
        uint32_t count = ready_wait_count(i);
        points[i] = i % 7 == 3 ? conformance_slow(f, s[i % 3], waits[i], count)
                               : conformance_quick(f, s[i % 3], waits[i], count);
        if (i == 20)
            conformance_open_gate(f);
    }
    for (uint32_t i = 0; i < 60; i++)
        conformance_wait(f, points[i]);
    for (uint32_t i = 0; i < 60; i++) {
        int64_t expected_ns = ready_by_definition(f, points[i], waits[i], ready_wait_count(i));
        int64_t ready_ns = conformance_record(f, points[i])->ready_ns;
        check_text(f, ready_ns == expected_ns, "command %u: ready %lld, by definition %lld", i,
                   (long long)ready_ns, (long long)expected_ns);
    }
    conformance_close(f);
}

static void a_command_that_was_waited_for_finished_before_the_host_went_on(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    for (int i = 0; i < 20; i++) {
        struct orr_point point = conformance_quick(f, s, NULL, 0);
        conformance_wait(f, point);
        check(f, conformance_record(f, point)->finish_ns <= now(f));
    }
    conformance_close(f);
}

static void every_kind_of_command_goes_through_the_same_door(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point points[ORR_COMMAND_KIND_COUNT];
    uint32_t count = 0;
    for (int kind = 0; kind < ORR_COMMAND_KIND_COUNT; kind++)
        if (kind != ORR_COMMAND_COLLECTIVE && kind != ORR_COMMAND_HOSTREAD &&
            kind != ORR_COMMAND_HOSTWRITE)
            points[count++] = conformance_kind(f, s, (enum orr_command_kind)kind, NULL, 0);
    for (uint32_t i = 0; i < count; i++) {
        conformance_wait(f, points[i]);
        check(f, conformance_status(f, points[i]) == ORR_COMMAND_STATUS_OK);
    }
    conformance_close(f);
}

static void a_dispatch_host_per_device_launches_its_commands(struct fixture *f) {
    f->runner = ORR_RUNNER_PER_DEVICE;
    conformance_open(f, 2);
    uint32_t s[4], memory;
    for (uint32_t i = 0; i < 4; i++)
        s[i] = conformance_stream(f, i % 2);
    int64_t *cells = conformance_cells(f, ORR_ID_NONE, &memory);
    struct orr_point points[400], last = {0};
    uint64_t expected = 0;
    for (uint32_t i = 0; i < 400; i++) {
        struct job *job = conformance_job(f, JOB_MIX);
        job->value = (int64_t)i;
        conformance_writes(job, memory, cells, 0);
        points[i] = last = conformance_submit(f, s[i % 4], job, &last, i > 0);
        expected = expected * 3 + i;
    }
    conformance_wait(f, last);
    f->verbs->poll(f->backend);
    check(f, (uint64_t)cells[0] == expected);
    int64_t before_ns[2] = {0, 0};
    for (uint32_t i = 0; i < 400; i++) {
        const struct orr_record_command *r = conformance_record(f, points[i]);
        check(f, r->host == 1 + i % 2);
        check(f, r->enqueue_ns >= before_ns[i % 2]); /* its calls do not overlap */
        before_ns[i % 2] = r->enqueued_ns;
    }
    conformance_close(f);
}

static void a_full_queue_is_said_also_with_dispatch_hosts(struct fixture *f) {
    f->runner = ORR_RUNNER_PER_DEVICE;
    f->depth = 16;
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    uint64_t full = 0;
    for (int i = 0; i < 2000; i++) {
        struct job *job = conformance_job(f, JOB_NOTHING);
        struct orr_point point;
        job->slow = i == 0;
        while (conformance_try_submit(f, s, job, NULL, 0, &point) == ORR_FULL) {
            full++;
            conformance_open_gate(f);
            conformance_wait(f, point);
        }
        check(f, f->outcomes[job->id].submitted);
    }
    check(f, full > 0);
    conformance_close(f);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void memory_is_aligned_stable_and_apart(struct fixture *f) {
    conformance_open(f, 2);
    enum { BLOCKS = 60 };
    uint32_t ids[BLOCKS];
    char *pointers[BLOCKS];
    bool reachable[BLOCKS]; /* by the host */
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t device = i % 3 == 2 ? ORR_ID_NONE : i % 3;
        check(f, f->verbs->memory_create(f->backend, device, i * 7, &ids[i], &f->error) == ORR_OK);
        pointers[i] = f->verbs->memory_pointer(f->backend, ids[i]);
        check(f, pointers[i] && (uintptr_t)pointers[i] % 64 == 0);
        reachable[i] = !f->verbs->separate_memory || device == ORR_ID_NONE;
        if (reachable[i])
            memset(pointers[i], (int)i, i * 7);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check(f, f->verbs->memory_pointer(f->backend, ids[i]) == pointers[i]);
        for (uint32_t k = 0; reachable[i] && k < i * 7; k++)
            check(f, pointers[i][k] == (char)i);
    }
    for (uint32_t i = 0; i < BLOCKS; i += 2)
        f->verbs->memory_destroy(f->backend, ids[i]);
    conformance_close(f); /* frees the others */
}

static void memory_ids_are_never_used_again(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t last = 0, id;
    for (uint32_t i = 0; i < 100; i++) {
        check(f, f->verbs->memory_create(f->backend, 0, 64, &id, &f->error) == ORR_OK);
        check(f, i == 0 || id > last);
        last = id;
        f->verbs->memory_destroy(f->backend, id);
    }
    conformance_close(f);
}

static void too_much_memory_is_refused_and_nothing_else_breaks(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t id = 0;
    for (uint64_t bytes = UINT64_MAX; bytes > (uint64_t)1 << 58; bytes >>= 1) {
        f->error = (struct orr_error){0};
        check(f, f->verbs->memory_create(f->backend, 0, bytes, &id, &f->error) == ORR_NO_MEMORY);
        check(f, f->error.text[0] != '\0');
    }
    uint32_t s = conformance_stream(f, 0);
    conformance_wait(f, conformance_quick(f, s, NULL, 0));
    conformance_close(f);
}

static void timing_only_computes_nothing_and_has_no_memory(struct fixture *f) {
    f->timing_only = true;
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1), memory;
    check(f,
          f->verbs->memory_create(f->backend, 0, (uint64_t)1 << 50, &memory, &f->error) == ORR_OK);
    check(f, f->verbs->memory_pointer(f->backend, memory) == NULL);
    struct job *breaks = conformance_job(f, JOB_FAIL);
    struct orr_point first = conformance_submit(f, a, breaks, NULL, 0);
    struct orr_point second = conformance_quick(f, b, &first, 1);
    conformance_wait(f, second);
    conformance_wait(f, first);
    check(f, atomic_load(&breaks->runs) == 0);
    check(f, conformance_status(f, first) == ORR_COMMAND_STATUS_OK);
    check(f, conformance_record(f, second)->start_ns >= conformance_record(f, first)->finish_ns);
    f->verbs->memory_destroy(f->backend, memory);
    conformance_close(f);
}

/* ---- host accesses ------------------------------------------------------------------------ */

static void need_host_access(struct fixture *f) {
    check_text(f, f->verbs->host_access != NULL, "the backend has no host_access");
}

static struct job *host_job(struct fixture *f, enum job_kind kind) {
    struct job *job = conformance_job(f, kind);
    job->command.record.header.a = ORR_COMMAND_HOSTREAD;
    job->command.record.device = job->command.record.stream = ORR_ID_NONE;
    job->command.service_ns = -1;
    f->outcomes[job->id].given = job->command.record;
    f->outcomes[job->id].submitted = true;
    return job;
}

static void a_host_access_is_done_at_once(struct fixture *f) {
    conformance_open(f, 1);
    need_host_access(f);
    uint32_t s = conformance_stream(f, 0), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    struct job *produce = conformance_job(f, JOB_STORE);
    produce->value = 9;
    conformance_writes(produce, memory, cells, 0);
    conformance_wait(f, conformance_submit(f, s, produce, NULL, 0));
    struct job *look = host_job(f, JOB_CHECK);
    conformance_reads(look, memory, cells, 0);
    int64_t before_ns = now(f);
    check(f, f->verbs->host_access(f->backend, &look->command, &f->error) == ORR_OK);
    check(f, look->seen == 9);
    const struct outcome *outcome = &f->outcomes[look->id];
    check(f, outcome->retired && outcome->record.seq == 0);
    check(f, outcome->record.header.c == ORR_COMMAND_STATUS_OK);
    check(f, before_ns <= outcome->record.start_ns && outcome->record.finish_ns <= now(f));
    conformance_close(f);
}

/* ---- several hosts ------------------------------------------------------------------------ */

static void need_hosts(struct fixture *f) {
    check_text(f,
               f->verbs->host_create && f->verbs->host_next && f->verbs->host_done &&
                   f->verbs->host_park && f->verbs->host_unpark,
               "the backend has no further hosts");
}

/* Two hosts as coroutines: the first waits for a slow command, so the second gets its turns until
 * it is done; then the first one's wait is over. */
static void a_host_that_waits_gives_its_turn_to_another(struct fixture *f) {
    conformance_open(f, 1);
    need_hosts(f);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0), second, next;
    check(f, f->verbs->host_create(f->backend, &second) == ORR_OK && second == 1);
    struct orr_point slow = {0};
    struct job *job = conformance_job(f, JOB_NOTHING);
    job->slow = true;
    int turns = 0, others = 0;
    bool first_is_done = false;
    while (f->verbs->host_next(f->backend, &next, &f->error) == ORR_OK) {
        check(f, ++turns < 1000);
        if (next == second) {
            struct job *work = conformance_job(f, JOB_NOTHING);
            struct orr_point point;
            work->command.record.host = second;
            enum orr_status status = conformance_try_submit(f, b, work, NULL, 0, &point);
            others += status == ORR_OK;
            if (status == ORR_OK && others == 5) {
                conformance_open_gate(f);
                f->verbs->host_done(f->backend, second);
            }
        } else if (slow.seq == 0) {
            (void)conformance_try_submit(f, a, job, NULL, 0, &slow);
        } else if (wait_for(f, &slow, 1, ORR_WAIT_ALL, ORR_TIME_MAX) == ORR_OK) {
            check(f, others == 5);
            f->verbs->host_done(f->backend, 0);
            first_is_done = true;
        }
    }
    check(f, first_is_done);
    check(f, f->verbs->host_next(f->backend, &next, &f->error) == ORR_NOT_READY);
    conformance_close(f);
}

static void hosts_that_wait_for_what_nobody_will_do_are_a_hang(struct fixture *f) {
    conformance_open(f, 1);
    need_hosts(f);
    uint32_t s = conformance_stream(f, 0), second, next;
    check(f, f->verbs->host_create(f->backend, &second) == ORR_OK);
    struct orr_point never = {.stream = s, .seq = 1};
    enum orr_status status;
    int turns = 0;
    while ((status = f->verbs->host_next(f->backend, &next, &f->error)) == ORR_OK) {
        check(f, ++turns < 100);
        (void)f->verbs->wait(f->backend, next, &never, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error);
    }
    check(f, status == ORR_DEVICE_FAILED);
    check_text(f, strstr(f->error.text, "hang"), "reason: %s", f->error.text);
    conformance_close(f);
}

/* The second host makes no call before the first one unparks it, and then goes on no earlier. */
static void a_parked_host_takes_no_turns(struct fixture *f) {
    conformance_open(f, 1);
    need_hosts(f);
    uint32_t second, next;
    int turns = 0;
    int64_t told_ns = -1;
    check(f, f->verbs->host_create(f->backend, &second) == ORR_OK);
    f->verbs->host_park(f->backend, second);
    while (f->verbs->host_next(f->backend, &next, &f->error) == ORR_OK) {
        check(f, ++turns < 100);
        check(f, (next == second) == (told_ns >= 0));
        if (next == second) {
            check(f, f->verbs->now(f->backend, second) >= told_ns);
            f->verbs->host_done(f->backend, second);
            continue;
        }
        struct orr_point point = conformance_quick(f, conformance_stream(f, 0), NULL, 0);
        while (turns == 1 && conformance_query(f, point) != ORR_OK)
            continue;
        if (turns == 3) {
            told_ns = now(f);
            f->verbs->host_unpark(f->backend, second, 0);
            f->verbs->host_done(f->backend, 0);
        }
    }
    check(f, turns == 4);
    conformance_close(f);
}

static void hosts_that_are_all_parked_are_a_hang(struct fixture *f) {
    conformance_open(f, 1);
    need_hosts(f);
    uint32_t second, next;
    check(f, f->verbs->host_create(f->backend, &second) == ORR_OK);
    f->verbs->host_park(f->backend, second);
    f->verbs->host_park(f->backend, 0);
    check(f, f->verbs->host_next(f->backend, &next, &f->error) == ORR_DEVICE_FAILED);
    check_text(f, strstr(f->error.text, "hang"), "reason: %s", f->error.text);
    f->verbs->host_unpark(f->backend, 0, second);
    check(f, f->verbs->host_next(f->backend, &next, &f->error) == ORR_OK && next == 0);
    conformance_close(f);
}

/* ---- lifetimes ---------------------------------------------------------------------------- */

static void a_backend_opens_and_closes_with_nothing_done(struct fixture *f) {
    for (uint32_t devices = 1; devices <= CONFORMANCE_DEVICES_MAX; devices++) {
        for (int runner = 0; runner < 2; runner++) {
            f->runner = (enum orr_runner)runner;
            conformance_open(f, devices);
            f->verbs->poll(f->backend);
            conformance_close(f);
        }
    }
}

static void closing_ends_and_hands_back_what_is_in_flight(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1);
    struct orr_point points[20];
    for (int i = 0; i < 20; i++)
        points[i] = i == 0 ? conformance_slow(f, a, NULL, 0)
                           : conformance_quick(f, i % 2 ? b : a, &points[i - 1], 1);
    conformance_close(f);
    for (int i = 0; i < 20; i++)
        check(f, conformance_status(f, points[i]) == ORR_COMMAND_STATUS_OK);
}

static void destroying_a_stream_lets_its_work_complete(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    struct orr_point last[20];
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t s = conformance_stream(f, 0);
        for (int k = 0; k < 5; k++) {
            struct job *job = conformance_job(f, JOB_MIX);
            job->value = k;
            conformance_writes(job, memory, cells, i);
            last[i] = conformance_submit(f, s, job, NULL, 0);
        }
        f->verbs->stream_destroy(f->backend, s);
    }
    for (uint32_t i = 0; i < 20; i++) {
        conformance_wait(f, last[i]);
        check(f, cells[i] == 58); /* ((((0*3+0)*3+1)*3+2)*3+3)*3+4 */
        check(f, conformance_status(f, last[i]) == ORR_COMMAND_STATUS_OK);
    }
    conformance_close(f);
}

static void empty_streams_may_be_destroyed(struct fixture *f) {
    conformance_open(f, 1);
    for (int i = 0; i < 10; i++)
        f->verbs->stream_destroy(f->backend, conformance_stream(f, 0));
    conformance_wait(f, conformance_quick(f, conformance_stream(f, 0), NULL, 0));
    conformance_close(f);
}

#define CASE(name)                                                                                 \
    { #name, name }

const struct conformance_case conformance_host_cases[] = {
    CASE(a_query_says_not_ready_until_the_point_has_retired),
    CASE(a_wait_for_all_ends_with_the_last),
    CASE(a_wait_for_any_ends_with_the_first),
    CASE(a_wait_for_nothing_returns_at_once),
    CASE(a_wait_ends_at_its_deadline),
    CASE(a_deadline_in_the_past_does_not_hide_what_is_done),
    CASE(a_wait_for_what_was_never_submitted_fails_with_a_reason),
    CASE(polling_hands_back_what_is_done),
    CASE(enqueue_times_lie_within_the_call),
    CASE(a_given_enqueue_time_is_kept),
    CASE(ready_is_when_nothing_was_awaited_any_more),
    CASE(a_command_that_was_waited_for_finished_before_the_host_went_on),
    CASE(every_kind_of_command_goes_through_the_same_door),
    CASE(a_dispatch_host_per_device_launches_its_commands),
    CASE(a_full_queue_is_said_also_with_dispatch_hosts),
    CASE(memory_is_aligned_stable_and_apart),
    CASE(memory_ids_are_never_used_again),
    CASE(too_much_memory_is_refused_and_nothing_else_breaks),
    CASE(timing_only_computes_nothing_and_has_no_memory),
    CASE(a_host_access_is_done_at_once),
    CASE(a_host_that_waits_gives_its_turn_to_another),
    CASE(hosts_that_wait_for_what_nobody_will_do_are_a_hang),
    CASE(a_parked_host_takes_no_turns),
    CASE(hosts_that_are_all_parked_are_a_hang),
    CASE(a_backend_opens_and_closes_with_nothing_done),
    CASE(closing_ends_and_hands_back_what_is_in_flight),
    CASE(destroying_a_stream_lets_its_work_complete),
    CASE(empty_streams_may_be_destroyed),
    {NULL, NULL},
};
