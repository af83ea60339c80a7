/* The simulator's times and poison, at the backend seam, to the nanosecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"

enum { COMMANDS_MAX = 256, TERA = 1000 };

struct fixture {
    struct orr_memory memory;
    struct orr_error error;
    struct orr_device_spec specs[2];
    struct orr_backend *backend;
    uint64_t ids;
    struct orr_record_command done[COMMANDS_MAX]; /* by id */
};

static void on_retire(void *context, const struct orr_command *command,
                      const struct orr_error *error) {
    struct fixture *f = context;
    (void)error;
    assert_in_range(command->record.id, 1, COMMANDS_MAX - 1);
    assert_int_equal(f->done[command->record.id].id, 0); /* exactly once */
    f->done[command->record.id] = command->record;
}

/* 2 TB/s, 500 TFLOP/s, 5 us a launch, 1 ns an event call, nothing fixed. */
static struct orr_device_spec teaching(void) {
    struct orr_device_spec spec = {.name = "teaching",
                                   .bandwidth = 2000000000000,
                                   .host_launch_ns = 5000,
                                   .copy_engines = 1,
                                   .host_bandwidth = 50000000000,
                                   .peer_bandwidth = 400000000000};
    for (int unit = 0; unit < 2; unit++) {
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
            spec.peak[unit][dtype] = 500000000000000;
        }
    }
    return spec;
}

static void open_with(struct fixture *f, bool timing_only, enum orr_runner runner) {
    *f = (struct fixture){.memory = orr_memory_system()};
    f->specs[0] = f->specs[1] = teaching();
    struct orr_backend_config config = {.memory = &f->memory,
                                        .specs = f->specs,
                                        .device_count = 2,
                                        .timing_only = timing_only,
                                        .runner = runner,
                                        .retire = {on_retire, f}};
    assert_int_equal(orr_sim_open(&config, &f->backend, &f->error), ORR_OK);
}

static uint32_t stream(struct fixture *f, uint32_t device) {
    uint32_t id;
    assert_int_equal(
        f->backend->verbs->stream_create(f->backend, device, ORR_STREAM_COMPUTE, &id, &f->error),
        ORR_OK);
    return id;
}

static struct orr_command command(struct fixture *f, enum orr_command_kind kind) {
    struct orr_command c = {.record = {.header = ORR_RECORD_HEADER(command, COMMAND),
                                       .id = ++f->ids,
                                       .enqueue_ns = ORR_TIME_NONE},
                            .submit_ns = -1,
                            .service_ns = -1};
    c.record.header.a = (uint8_t)kind;
    c.record.header.b = ORR_DTYPE_BF16;
    return c;
}

static struct orr_command kernel(struct fixture *f, uint64_t flops, uint64_t bytes) {
    struct orr_command c = command(f, ORR_COMMAND_KERNEL);
    c.record.flops = flops;
    c.record.bytes_read = bytes;
    return c;
}

static struct orr_point submit(struct fixture *f, uint32_t s, struct orr_command c,
                               const struct orr_point *waits, uint32_t count) {
    struct orr_point point;
    assert_int_equal(f->backend->verbs->submit(f->backend, s, &c, waits, count, &point, &f->error),
                     ORR_OK);
    return point;
}

static void wait_for(struct fixture *f, struct orr_point point) {
    assert_int_equal(
        f->backend->verbs->wait(f->backend, 0, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error),
        ORR_OK);
}

static void close_fixture(struct fixture *f) {
    f->backend->verbs->close(f->backend);
}

static void assert_times(const struct fixture *f, uint64_t id, int64_t start_ns,
                         int64_t finish_ns) {
    assert_int_equal(f->done[id].start_ns, start_ns);
    assert_int_equal(f->done[id].finish_ns, finish_ns);
}

static void the_worked_example_takes_its_times_to_the_ns(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t s = stream(&f, 0);
    submit(&f, s, kernel(&f, 137438953472, 100663296), NULL, 0); /* 274,877.906944 ns */
    submit(&f, s, kernel(&f, 16777216, 67108864), NULL, 0);      /* 33,554.432 ns */
    wait_for(&f, submit(&f, s, kernel(&f, 16777216, 67108864), NULL, 0));
    assert_times(&f, 1, 5000, 279878);
    assert_times(&f, 2, 279878, 313432); /* the remainder is carried */
    assert_times(&f, 3, 313432, 346987);
    close_fixture(&f);
}

static void a_record_between_kernels_does_not_lose_the_carried_remainder(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t s = stream(&f, 0);
    for (int i = 0; i < 4; i++) {
        submit(&f, s, kernel(&f, 0, 200000500), NULL, 0); /* 100,000.25 ns */
        submit(&f, s, command(&f, ORR_COMMAND_RECORD), NULL, 0);
    }
    f.backend->verbs->close(f.backend);
    assert_times(&f, 7, 305001, 405001);
    assert_int_equal(f.done[7].seq, 7);
}

static void a_wait_starts_as_head_and_ends_with_what_it_waits_for(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t producer = stream(&f, 0), consumer = stream(&f, 1);
    submit(&f, producer, kernel(&f, 0, 200000000), NULL, 0); /* 5,000 to 105,000 */
    struct orr_point recorded = submit(&f, producer, command(&f, ORR_COMMAND_RECORD), NULL, 0);
    submit(&f, consumer, command(&f, ORR_COMMAND_WAIT), &recorded, 1);
    wait_for(&f, submit(&f, consumer, kernel(&f, 0, 2000000), NULL, 0));
    assert_times(&f, 2, 105000, 105000);
    assert_times(&f, 3, 5002, 105000);
    assert_times(&f, 4, 105000, 106000);
    assert_int_equal(f.done[4].enqueued_ns, 10002);
    assert_int_equal(f.done[4].ready_ns, 105000);
    assert_int_equal(f.backend->verbs->now(f.backend, 0), 106000);
    close_fixture(&f);
}

static void two_memory_bound_kernels_share_the_bandwidth(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0), b = stream(&f, 0);
    submit(&f, a, kernel(&f, 0, 200000000), NULL, 0); /* 100 us alone, from 5,000 */
    submit(&f, b, kernel(&f, 0, 100000000), NULL, 0); /* 50 us alone, from 10,000 */
    f.backend->verbs->close(f.backend);
    assert_times(&f, 2, 10000, 110000); /* at half speed all along */
    assert_times(&f, 1, 5000, 155000);  /* 5 + 100/2 + 45 */
}

static void a_compute_bound_and_a_memory_bound_kernel_overlap_freely(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0), b = stream(&f, 0);
    submit(&f, a, kernel(&f, 50000000000, 0), NULL, 0); /* 100 us of arithmetic */
    submit(&f, b, kernel(&f, 0, 100000000), NULL, 0);   /* 50 us of memory */
    f.backend->verbs->close(f.backend);
    assert_times(&f, 1, 5000, 105000);
    assert_times(&f, 2, 10000, 60000);
}

static void copies_take_turns_on_a_single_copy_engine(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, false, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0), b = stream(&f, 0), host, device;
    const struct orr_backend_verbs *verbs = f.backend->verbs;
    assert_int_equal(verbs->memory_create(f.backend, ORR_ID_NONE, 1000000, &host, &f.error), 0);
    assert_int_equal(verbs->memory_create(f.backend, 0, 1000000, &device, &f.error), 0);
    struct orr_access accesses[2] = {{host, ORR_ACCESS_READ, 0, 1000000},
                                     {device, ORR_ACCESS_WRITE, 0, 500000}};
    for (int i = 0; i < 2; i++) {
        struct orr_command c = command(&f, ORR_COMMAND_COPY);
        c.record.bytes_read = c.record.bytes_written = 500000; /* 10 us at 50 GB/s */
        c.accesses = accesses;
        c.access_count = 1;
        c.submit_ns = 1;
        submit(&f, i ? b : a, c, NULL, 0);
    }
    verbs->close(f.backend);
    assert_times(&f, 1, 1, 19999 + 1 + 0); /* alone for 1 ns, then half speed */
    assert_times(&f, 2, 2, 20001);
}

static void a_collective_begins_with_its_last_member_and_ends_for_all(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t streams[2] = {stream(&f, 0), stream(&f, 1)};
    submit(&f, streams[1], kernel(&f, 0, 40000000), NULL, 0); /* 5,000 to 25,000 */
    struct orr_command members[2];
    struct orr_collective reduce[2];
    struct orr_point points[2];
    for (uint32_t i = 0; i < 2; i++) {
        reduce[i] = (struct orr_collective){.kind = ORR_COLLECTIVE_ALL_REDUCE,
                                            .dtype = ORR_DTYPE_F32,
                                            .rank = i,
                                            .ranks = 2,
                                            .count = 1000000};
        members[i] = command(&f, ORR_COMMAND_COLLECTIVE);
        members[i].collective = &reduce[i];
    }
    assert_int_equal(
        f.backend->verbs->submit_group(f.backend, streams, members, 2, NULL, 0, points, &f.error),
        ORR_OK);
    wait_for(&f, points[0]);
    f.backend->verbs->close(f.backend);
    assert_times(&f, 2, 10000, 35000); /* 4 MB over 400 GB/s = 10 us, from 25,000 */
    assert_times(&f, 3, 25000, 35000);
}

static void dispatch_hosts_pay_for_launches(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_PER_DEVICE);
    uint32_t a = stream(&f, 0), b = stream(&f, 1);
    submit(&f, a, kernel(&f, 0, 2000000), NULL, 0);
    submit(&f, b, kernel(&f, 0, 2000000), NULL, 0);
    assert_int_equal(f.backend->verbs->now(f.backend, 0), 2);
    f.backend->verbs->close(f.backend);
    assert_times(&f, 1, 5001, 6001);
    assert_times(&f, 2, 5002, 6002);
    assert_int_equal(f.done[2].host, 2);
}

static void a_full_queue_names_the_point_that_makes_room(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    f.backend->verbs->close(f.backend);
    struct orr_device_spec spec = teaching();
    spec.queue_depth = 2;
    struct orr_backend_config config = {.memory = &f.memory,
                                        .specs = &spec,
                                        .device_count = 1,
                                        .timing_only = true,
                                        .retire = {on_retire, &f}};
    assert_int_equal(orr_sim_open(&config, &f.backend, &f.error), ORR_OK);
    uint32_t s = stream(&f, 0);
    submit(&f, s, kernel(&f, 0, 200000000), NULL, 0);
    submit(&f, s, kernel(&f, 0, 200000000), NULL, 0);
    struct orr_command third = kernel(&f, 0, 200000000);
    struct orr_point point;
    assert_int_equal(f.backend->verbs->submit(f.backend, s, &third, NULL, 0, &point, &f.error),
                     ORR_FULL);
    assert_int_equal(point.seq, 1);
    wait_for(&f, point);
    submit(&f, s, third, NULL, 0);
    f.backend->verbs->close(f.backend);
    assert_times(&f, 3, 205000, 305000);
}

static enum orr_status sum_up(const struct orr_command *c, struct orr_error *error) {
    (void)error;
    float **pointers = c->work;
    *pointers[1] = *pointers[0] + 1;
    return ORR_OK;
}

/* A kernel of 10 us that sets *to = *from + 1. */
static struct orr_command adder(struct fixture *f, struct orr_access accesses[2],
                                float **pointers) {
    struct orr_command c = kernel(f, 0, 20000000);
    c.accesses = accesses;
    c.access_count = 2;
    c.run = sum_up;
    c.work = pointers;
    return c;
}

static void a_missing_wait_shows_as_nan(void **state) {
    (void)state;
    for (int with_wait = 0; with_wait < 2; with_wait++) {
        struct fixture f;
        open_with(&f, false, ORR_RUNNER_INLINE);
        const struct orr_backend_verbs *verbs = f.backend->verbs;
        uint32_t a = stream(&f, 0), b = stream(&f, 0), memory;
        assert_int_equal(verbs->memory_create(f.backend, 0, 12, &memory, &f.error), ORR_OK);
        float *x = verbs->memory_pointer(f.backend, memory);
        x[0] = 1;
        verbs->memory_define(f.backend, memory, 0, 4);
        struct orr_access first[2] = {{memory, ORR_ACCESS_READ, 0, 4},
                                      {memory, ORR_ACCESS_WRITE, 4, 4}};
        struct orr_access second[2] = {{memory, ORR_ACCESS_READ, 4, 4},
                                       {memory, ORR_ACCESS_WRITE, 8, 4}};
        float *first_pointers[2] = {x, x + 1}, *second_pointers[2] = {x + 1, x + 2};
        struct orr_point made = submit(&f, a, adder(&f, first, first_pointers), NULL, 0);
        wait_for(&f, submit(&f, b, adder(&f, second, second_pointers), &made, with_wait ? 1 : 0));
        if (with_wait) {
            assert_true(x[2] == 3.0F);
            assert_int_equal(f.done[2].header.c, ORR_COMMAND_STATUS_OK);
        } else {
            assert_true(x[2] != x[2]);
            assert_int_equal(f.done[2].header.c, ORR_COMMAND_STATUS_POISONED);
        }
        assert_true(x[1] == 2.0F); /* the writer is not to blame */
        verbs->close(f.backend);
    }
}

static void reading_undefined_memory_poisons_the_result(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, false, ORR_RUNNER_INLINE);
    const struct orr_backend_verbs *verbs = f.backend->verbs;
    uint32_t a = stream(&f, 0), memory;
    assert_int_equal(verbs->memory_create(f.backend, 0, 8, &memory, &f.error), ORR_OK);
    float *x = verbs->memory_pointer(f.backend, memory);
    struct orr_access accesses[2] = {{memory, ORR_ACCESS_READ, 0, 4},
                                     {memory, ORR_ACCESS_WRITE, 4, 4}};
    float *pointers[2] = {x, x + 1};
    wait_for(&f, submit(&f, a, adder(&f, accesses, pointers), NULL, 0));
    assert_true(x[1] != x[1]);
    assert_int_equal(f.done[1].header.c, ORR_COMMAND_STATUS_POISONED);
    verbs->close(f.backend);
}

static void a_host_write_under_a_running_reader_is_a_race(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, false, ORR_RUNNER_INLINE);
    const struct orr_backend_verbs *verbs = f.backend->verbs;
    uint32_t a = stream(&f, 0), memory;
    assert_int_equal(verbs->memory_create(f.backend, ORR_ID_NONE, 8, &memory, &f.error), ORR_OK);
    float *x = verbs->memory_pointer(f.backend, memory);
    verbs->memory_define(f.backend, memory, 0, 4);
    struct orr_access accesses[2] = {{memory, ORR_ACCESS_READ, 0, 4},
                                     {memory, ORR_ACCESS_WRITE, 4, 4}};
    float *pointers[2] = {x, x + 1};
    struct orr_point read = submit(&f, a, adder(&f, accesses, pointers), NULL, 0);
    struct orr_access rewrite = {memory, ORR_ACCESS_WRITE, 0, 4};
    struct orr_command c = command(&f, ORR_COMMAND_HOSTWRITE);
    c.accesses = &rewrite;
    c.access_count = 1;
    assert_int_equal(verbs->host_access(f.backend, &c, &f.error), ORR_OK);
    wait_for(&f, read);
    assert_true(x[1] != x[1]);
    verbs->close(f.backend);
}

static void waiting_for_what_nobody_enqueued_is_a_hang_not_a_freeze(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    uint32_t a = stream(&f, 0);
    struct orr_point never = {.stream = a, .seq = 1};
    assert_int_equal(
        f.backend->verbs->wait(f.backend, 0, &never, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f.error),
        ORR_DEVICE_FAILED);
    assert_non_null(strstr(f.error.text, "hang"));
    close_fixture(&f);
}

static void the_earliest_host_acts_first(void **state) {
    (void)state;
    struct fixture f;
    open_with(&f, true, ORR_RUNNER_INLINE);
    const struct orr_backend_verbs *verbs = f.backend->verbs;
    uint32_t s = stream(&f, 0), second, next;
    assert_int_equal(verbs->host_create(f.backend, &second), ORR_OK);
    verbs->host_spend(f.backend, 0, 100);
    struct orr_command c = kernel(&f, 0, 2000000);
    struct orr_point point;
    assert_int_equal(verbs->submit(f.backend, s, &c, NULL, 0, &point, &f.error), ORR_BLOCKED);
    assert_int_equal(verbs->host_next(f.backend, &next, &f.error), ORR_OK);
    assert_int_equal(next, second);
    struct orr_command own = kernel(&f, 0, 2000000);
    own.record.host = second;
    assert_int_equal(verbs->submit(f.backend, s, &own, NULL, 0, &point, &f.error), ORR_OK);
    assert_int_equal(
        verbs->wait(f.backend, second, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f.error),
        ORR_BLOCKED);
    assert_int_equal(verbs->host_next(f.backend, &next, &f.error), ORR_OK);
    assert_int_equal(next, 0);
    verbs->host_done(f.backend, 0);
    assert_int_equal(verbs->host_next(f.backend, &next, &f.error), ORR_OK);
    assert_int_equal(next, second);
    assert_int_equal(
        verbs->wait(f.backend, second, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f.error), ORR_OK);
    assert_int_equal(verbs->now(f.backend, second), 6000);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_takes_its_times_to_the_ns),
        cmocka_unit_test(a_record_between_kernels_does_not_lose_the_carried_remainder),
        cmocka_unit_test(a_wait_starts_as_head_and_ends_with_what_it_waits_for),
        cmocka_unit_test(two_memory_bound_kernels_share_the_bandwidth),
        cmocka_unit_test(a_compute_bound_and_a_memory_bound_kernel_overlap_freely),
        cmocka_unit_test(copies_take_turns_on_a_single_copy_engine),
        cmocka_unit_test(a_collective_begins_with_its_last_member_and_ends_for_all),
        cmocka_unit_test(dispatch_hosts_pay_for_launches),
        cmocka_unit_test(a_full_queue_names_the_point_that_makes_room),
        cmocka_unit_test(a_missing_wait_shows_as_nan),
        cmocka_unit_test(reading_undefined_memory_poisons_the_result),
        cmocka_unit_test(a_host_write_under_a_running_reader_is_a_race),
        cmocka_unit_test(waiting_for_what_nobody_enqueued_is_a_hang_not_a_freeze),
        cmocka_unit_test(the_earliest_host_acts_first),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
