/* What only the CPU backend promises: threads for streams, order of handing back, limits, texts. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/cpu_internal.h"

enum { RECORDS_MAX = 40000 };

struct fixture {
    struct orr_memory memory;
    struct orr_device_spec specs[2];
    struct orr_backend *backend;
    const struct orr_backend_verbs *verbs;
    struct orr_error error;
    uint64_t ids, retired;
    struct orr_record_command *records; /* by id, after it has retired */
    void (*also)(struct fixture *f, const struct orr_command *command); /* at each retire */
    _Atomic int gate, arrived, wanted;
};

static void on_retire(void *context, const struct orr_command *command,
                      const struct orr_error *error) {
    struct fixture *f = context;
    (void)error;
    f->records[command->record.id] = command->record;
    f->retired++;
    if (f->also)
        f->also(f, command);
}

static void open_with(struct fixture *f, uint32_t depth, enum orr_runner runner) {
    *f = (struct fixture){.memory = orr_memory_system()};
    f->records = calloc(RECORDS_MAX + 1, sizeof *f->records);
    assert_non_null(f->records);
    f->specs[0].queue_depth = f->specs[1].queue_depth = depth;
    struct orr_backend_config config = {.memory = &f->memory,
                                        .specs = f->specs,
                                        .device_count = 2,
                                        .runner = runner,
                                        .retire = {on_retire, f}};
    assert_int_equal(orr_cpu_open(&config, &f->backend, &f->error), ORR_OK);
    f->verbs = f->backend->verbs;
}

static void close_all(struct fixture *f) {
    atomic_store(&f->gate, 1);
    f->verbs->close(f->backend);
    assert_int_equal(f->retired, f->ids);
    free(f->records);
}

static uint32_t stream(struct fixture *f, uint32_t device) {
    uint32_t id;
    assert_int_equal(
        f->verbs->stream_create(f->backend, device, ORR_STREAM_COMPUTE, &id, &f->error), ORR_OK);
    return id;
}

static struct orr_command command(struct fixture *f, orr_command_run run) {
    struct orr_command c = {.record = {.header = ORR_RECORD_HEADER(command, COMMAND),
                                       .id = ++f->ids,
                                       .enqueue_ns = ORR_TIME_NONE},
                            .submit_ns = -1,
                            .service_ns = -1,
                            .run = run,
                            .work = f};
    assert_true(f->ids <= RECORDS_MAX);
    c.record.header.a = ORR_COMMAND_KERNEL;
    return c;
}

static struct orr_point submit(struct fixture *f, uint32_t s, orr_command_run run,
                               const struct orr_point *waits, uint32_t wait_count) {
    struct orr_command c = command(f, run);
    struct orr_point point;
    enum orr_status status;
    while ((status = f->verbs->submit(f->backend, s, &c, waits, wait_count, &point, &f->error)) ==
           ORR_FULL)
        assert_int_equal(
            f->verbs->wait(f->backend, 0, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error),
            ORR_OK);
    assert_int_equal(status, ORR_OK);
    assert_int_equal(point.cmd, c.record.id);
    return point;
}

static void wait_for(struct fixture *f, struct orr_point point) {
    assert_int_equal(
        f->verbs->wait(f->backend, 0, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error), ORR_OK);
}

static enum orr_status nothing(const struct orr_command *c, struct orr_error *error) {
    (void)c;
    (void)error;
    return ORR_OK;
}

static enum orr_status until_gate(const struct orr_command *c, struct orr_error *error) {
    struct fixture *f = c->work;
    (void)error;
    while (!atomic_load(&f->gate))
        sched_yield();
    return ORR_OK;
}

/* ---- threads ------------------------------------------------------------------------------ */

static uint64_t threads(struct fixture *f) {
    struct orr_cpu_counters counters;
    orr_cpu_counters(f->backend, &counters);
    return counters.threads;
}

static void threads_are_started_when_streams_are_first_used(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    uint32_t s[5];
    for (int i = 0; i < 5; i++)
        s[i] = stream(&f, 0);
    assert_int_equal(threads(&f), 0);
    for (int i = 0; i < 3; i++)
        wait_for(&f, submit(&f, s[i], nothing, NULL, 0));
    assert_int_equal(threads(&f), 3);
    wait_for(&f, submit(&f, s[0], nothing, NULL, 0));
    assert_int_equal(threads(&f), 3);
    close_all(&f);
}

static void streams_that_come_and_go_use_the_same_thread(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    for (int i = 0; i < 100; i++) {
        uint32_t s = stream(&f, 0);
        wait_for(&f, submit(&f, s, nothing, NULL, 0));
        f.verbs->stream_destroy(f.backend, s);
    }
    assert_int_equal(threads(&f), 1);
    close_all(&f);
}

/* Ends only when as many kernels run at once as are wanted. */
static enum orr_status meet(const struct orr_command *c, struct orr_error *error) {
    struct fixture *f = c->work;
    (void)error;
    atomic_fetch_add(&f->arrived, 1);
    while (atomic_load(&f->arrived) < atomic_load(&f->wanted))
        sched_yield();
    return ORR_OK;
}

static void all_streams_can_run_at_the_same_time(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    uint32_t s[12];
    atomic_store(&f.wanted, 12);
    struct orr_point points[12];
    for (uint32_t i = 0; i < 12; i++)
        s[i] = stream(&f, i % 2);
    for (int round = 0; round < 20; round++) {
        atomic_store(&f.arrived, 0);
        for (int i = 0; i < 12; i++)
            points[i] = submit(&f, s[i], meet, NULL, 0);
        for (int i = 0; i < 12; i++)
            wait_for(&f, points[i]);
    }
    close_all(&f);
}

/* Whoever finishes what several streams wait for can run only one of them itself. */
static void streams_released_together_run_at_the_same_time(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    uint32_t first = stream(&f, 0), s[6];
    atomic_store(&f.wanted, 7);
    for (uint32_t i = 0; i < 6; i++)
        s[i] = stream(&f, i % 2);
    for (int round = 0; round < 20; round++) {
        atomic_store(&f.gate, 0);
        atomic_store(&f.arrived, 0);
        struct orr_point held = submit(&f, first, until_gate, NULL, 0), points[7];
        for (int i = 0; i < 6; i++)
            points[i] = submit(&f, s[i], meet, &held, 1);
        points[6] = submit(&f, first, meet, NULL, 0);
        atomic_store(&f.gate, 1);
        for (int i = 0; i < 7; i++)
            wait_for(&f, points[i]);
    }
    close_all(&f);
}

static void a_chain_over_streams_is_followed_by_one_thread(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    uint32_t s[4];
    for (uint32_t i = 0; i < 4; i++)
        s[i] = stream(&f, 0);
    struct orr_point last = submit(&f, s[0], until_gate, NULL, 0);
    for (uint32_t i = 1; i < 3000; i++)
        last = submit(&f, s[i % 4], nothing, &last, 1);
    struct orr_cpu_counters before, after;
    orr_cpu_counters(f.backend, &before);
    atomic_store(&f.gate, 1);
    wait_for(&f, last);
    orr_cpu_counters(f.backend, &after);
    /* Each had to wait for another stream; the first few threads may still be on their way to sleep
     * when the gate opens. */
    assert_true(after.handovers - before.handovers >= 2000);
    assert_true(after.wakeups - before.wakeups <= 10);
    close_all(&f);
}

static enum orr_status look_at_signals(const struct orr_command *c, struct orr_error *error) {
    struct fixture *f = c->work;
    sigset_t mask;
    (void)error;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&f->arrived, sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM));
    return ORR_OK;
}

static void worker_threads_leave_signals_to_the_host(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    wait_for(&f, submit(&f, stream(&f, 0), look_at_signals, NULL, 0));
    assert_int_equal(atomic_load(&f.arrived), 1);
    close_all(&f);
}

/* ---- times -------------------------------------------------------------------------------- */

static void ready_is_the_latest_of_call_stream_and_waits_but_not_after_start(void **state) {
    (void)state;
    const int64_t none = ORR_TIME_NONE;
    assert_int_equal(orr_record_ready_ns(10, none, none, 20), 10);
    assert_int_equal(orr_record_ready_ns(10, 15, none, 20), 15);
    assert_int_equal(orr_record_ready_ns(10, 5, none, 20), 10);
    assert_int_equal(orr_record_ready_ns(10, 12, 18, 20), 18);
    assert_int_equal(orr_record_ready_ns(10, 18, 12, 20), 18);
    assert_int_equal(orr_record_ready_ns(30, none, none, 20), 20); /* started during the call */
    assert_int_equal(orr_record_ready_ns(10, none, 20, 20), 20);
}

/* A stream remembers its last 1024 finishes; a wait for an older command had ended long before. */
static void a_wait_for_a_command_of_long_ago_does_not_count_as_late(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 8, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0), b = stream(&f, 0), c = stream(&f, 0);
    atomic_store(&f.wanted, 2);
    struct orr_point opened = submit(&f, c, until_gate, NULL, 0);
    struct orr_point early = submit(&f, a, nothing, &opened, 1);
    struct orr_point held = submit(&f, b, meet, NULL, 0); /* until the other one meets it */
    struct orr_point waited = submit(&f, b, nothing, &early, 1);
    atomic_store(&f.gate, 1);
    for (int i = 0; i < 3000; i++)
        submit(&f, a, nothing, NULL, 0);
    wait_for(&f, submit(&f, a, meet, NULL, 0));
    wait_for(&f, waited);
    const struct orr_record_command *r = &f.records[waited.cmd];
    assert_int_equal(r->ready_ns, f.records[held.cmd].finish_ns);
    close_all(&f);
}

static void a_wait_command_starts_at_the_head_and_ends_with_what_it_waits_for(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0), b = stream(&f, 0), other = stream(&f, 1);
    struct orr_point held = submit(&f, a, until_gate, NULL, 0), point;
    struct orr_command wait = command(&f, NULL);
    wait.record.header.a = ORR_COMMAND_WAIT;
    assert_int_equal(f.verbs->submit(f.backend, b, &wait, &held, 1, &point, &f.error), ORR_OK);
    struct orr_cpu_counters counters;
    do { /* until the wait is at the head */
        sched_yield();
        orr_cpu_counters(f.backend, &counters);
    } while (counters.blocks == 0);
    wait_for(&f, submit(&f, other, nothing, NULL, 0));
    int64_t opened_ns = f.verbs->now(f.backend, 0);
    atomic_store(&f.gate, 1);
    wait_for(&f, point);
    const struct orr_record_command *r = &f.records[point.cmd];
    assert_true(r->start_ns < opened_ns && r->finish_ns >= f.records[held.cmd].finish_ns);
    close_all(&f);
}

/* ---- random load -------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *state, uint32_t bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % bound);
}

enum { LOAD_STREAMS = 10, LOAD_COMMANDS = 15000, LOAD_WAITS = 3 };

struct load {
    struct orr_point points[LOAD_COMMANDS], waits[LOAD_COMMANDS][LOAD_WAITS];
    uint32_t counts[LOAD_COMMANDS];
    uint64_t retired_at[LOAD_COMMANDS + 1]; /* by id: position in the order of handing back */
};

static struct load *load_of_retire;

static void note_order(struct fixture *f, const struct orr_command *c) {
    load_of_retire->retired_at[c->record.id] = f->retired;
}

/* A random graph on queues of depth 32: FULL, blocking, handing over and sleeping all happen. */
static void run_load(enum orr_runner runner, uint64_t seed) {
    struct fixture f;
    struct load *load = calloc(1, sizeof *load);
    assert_non_null(load);
    load_of_retire = load;
    print_message("# seed %llu\n", (unsigned long long)seed);
    open_with(&f, 32, runner);
    f.also = note_order;
    uint32_t s[LOAD_STREAMS];
    for (uint32_t i = 0; i < LOAD_STREAMS; i++)
        s[i] = stream(&f, i % 2);
    for (uint32_t i = 0; i < LOAD_COMMANDS; i++) {
        uint32_t count = i > 0 ? draw(&seed, LOAD_WAITS + 1) : 0;
        for (uint32_t k = 0; k < count; k++)
            load->waits[i][k] = load->points[i - 1 - draw(&seed, i < 40 ? i : 40)];
        load->counts[i] = count;
        load->points[i] = submit(&f, s[draw(&seed, LOAD_STREAMS)], draw(&seed, 4) ? nothing : NULL,
                                 load->waits[i], count);
        if (draw(&seed, 500) == 0)
            wait_for(&f, load->points[i]);
    }
    for (uint32_t i = 0; i < LOAD_COMMANDS; i++)
        wait_for(&f, load->points[i]);
    for (uint32_t i = 0; i < LOAD_COMMANDS; i++) {
        for (uint32_t k = 0; k < load->counts[i]; k++) {
            uint64_t awaited = load->waits[i][k].cmd, id = load->points[i].cmd;
            assert_true(f.records[id].start_ns >= f.records[awaited].finish_ns);
            assert_true(load->retired_at[id] > load->retired_at[awaited]);
        }
    }
    close_all(&f);
    free(load);
}

static void random_graphs_keep_their_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_load(ORR_RUNNER_INLINE, seed);
}

static void random_graphs_with_dispatch_threads_keep_their_order(void **state) {
    (void)state;
    for (uint64_t seed = 11; seed <= 13; seed++)
        run_load(ORR_RUNNER_PER_DEVICE, seed);
}

/* ---- from within the callback ------------------------------------------------------------- */

static void submit_another(struct fixture *f, const struct orr_command *c) {
    if (f->ids >= 500)
        return;
    struct orr_command next = command(f, nothing);
    struct orr_point point;
    assert_int_equal(
        f->verbs->submit(f->backend, c->record.stream, &next, NULL, 0, &point, &f->error), ORR_OK);
    if (f->ids % 100 == 0)
        stream(f, 0);
}

static void the_callback_may_submit_and_create_streams(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    f.also = submit_another;
    uint32_t a = stream(&f, 0), b = stream(&f, 0);
    for (int i = 0; i < 20; i++) {
        submit(&f, a, nothing, NULL, 0);
        submit(&f, b, nothing, NULL, 0);
    }
    while (f.retired < 500)
        f.verbs->poll(f.backend);
    close_all(&f);
}

/* ---- refusals ----------------------------------------------------------------------------- */

static void refuses(struct fixture *f, enum orr_status status, const char *words) {
    assert_int_equal(status, ORR_INVALID);
    if (!strstr(f->error.text, words))
        fail_msg("'%s' does not say '%s'", f->error.text, words);
    f->error = (struct orr_error){0};
}

static void wrong_handles_are_refused_with_a_text(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 0, ORR_RUNNER_INLINE);
    const struct orr_backend_verbs *v = f.verbs;
    uint32_t s = stream(&f, 0), gone = stream(&f, 0), id;
    v->stream_destroy(f.backend, gone);
    struct orr_command c = command(&f, nothing);
    struct orr_point point, later = {.stream = s, .seq = 1}, unknown = {.stream = 9, .seq = 1};
    refuses(&f, v->submit(f.backend, 7, &c, NULL, 0, &point, &f.error), "no stream 7");
    refuses(&f, v->submit(f.backend, gone, &c, NULL, 0, &point, &f.error), "destroyed");
    refuses(&f, v->submit(f.backend, s, &c, &later, 1, &point, &f.error), "has only 0");
    refuses(&f, v->submit(f.backend, s, &c, &unknown, 1, &point, &f.error), "stream 9");
    refuses(&f, v->wait(f.backend, 0, &unknown, 1, ORR_WAIT_ALL, 0, &f.error), "stream 9");
    refuses(&f, v->stream_create(f.backend, 2, ORR_STREAM_COPY, &id, &f.error), "no device 2");
    refuses(&f, v->memory_create(f.backend, 2, 8, &id, &f.error), "no device 2");
    uint32_t twice[2] = {s, s};
    struct orr_command commands[2] = {c, c};
    struct orr_point points[2];
    refuses(&f, v->submit_group(f.backend, twice, commands, 2, NULL, 0, points, &f.error),
            "same stream");
    refuses(&f, v->submit_group(f.backend, twice, commands, 0, NULL, 0, points, &f.error),
            "without members");
    f.ids--; /* the command was never accepted */
    close_all(&f);
}

static void impossible_configurations_are_refused(void **state) {
    (void)state;
    struct fixture f = {.memory = orr_memory_system()};
    struct orr_backend_config config = {.memory = &f.memory, .specs = f.specs};
    refuses(&f, orr_cpu_open(&config, &f.backend, &f.error), "no devices");
    assert_null(f.backend);
    config.device_count = 2;
    f.specs[1].queue_depth = (1 << 20) + 1;
    refuses(&f, orr_cpu_open(&config, &f.backend, &f.error), "device 1: queue depth 1048577");
}

static void a_queue_of_one_works(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, 1, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0), b = stream(&f, 1);
    struct orr_point last = {0};
    for (uint32_t i = 0; i < 500; i++)
        last = submit(&f, i % 2 ? a : b, nothing, &last, i > 0);
    wait_for(&f, last);
    close_all(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_started_when_streams_are_first_used),
        cmocka_unit_test(streams_that_come_and_go_use_the_same_thread),
        cmocka_unit_test(all_streams_can_run_at_the_same_time),
        cmocka_unit_test(streams_released_together_run_at_the_same_time),
        cmocka_unit_test(a_chain_over_streams_is_followed_by_one_thread),
        cmocka_unit_test(worker_threads_leave_signals_to_the_host),
        cmocka_unit_test(ready_is_the_latest_of_call_stream_and_waits_but_not_after_start),
        cmocka_unit_test(a_wait_for_a_command_of_long_ago_does_not_count_as_late),
        cmocka_unit_test(a_wait_command_starts_at_the_head_and_ends_with_what_it_waits_for),
        cmocka_unit_test(random_graphs_keep_their_order),
        cmocka_unit_test(random_graphs_with_dispatch_threads_keep_their_order),
        cmocka_unit_test(the_callback_may_submit_and_create_streams),
        cmocka_unit_test(wrong_handles_are_refused_with_a_text),
        cmocka_unit_test(impossible_configurations_are_refused),
        cmocka_unit_test(a_queue_of_one_works),
    };
    return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
