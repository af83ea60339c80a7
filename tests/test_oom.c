/* Host memory runs out: every request of a whole program fails once. Each time the failure must be
 * a status, leave nothing behind, and leave the runtime fit for further calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/runtime_internal.h"
#include "sim/sim.h"
#include "tests/manual_backend.h"
#include "tests/support.h"

enum { DEVICES = 2, BYTES = 4096 };

struct objects {
    struct memory_counting *memory;
    struct orr_runtime *runtime;
    struct orr_record_memory *store;
    struct orr_stream *compute[DEVICES], *side;
    struct orr_buffer *a[DEVICES], *b, *pinned;
    struct orr_event *event;
    struct orr_communicator *communicator;
    uint32_t released; /* work objects given back */
    uint32_t accepted; /* commands that own one */
};

/* A failure is what we asked for, or none. */
static bool went_well(enum orr_status status) {
    if (status != ORR_OK && status != ORR_NO_MEMORY)
        fail_msg("status '%s' for missing host memory", orr_status_text(status));
    return status == ORR_OK;
}

static void release(void *work) {
    ((struct objects *)work)->released++;
}

static enum orr_status run(void *work, struct orr_error *error) {
    (void)work, (void)error;
    return ORR_OK;
}

static void launch_with_work(struct objects *o, struct orr_stream *stream,
                             struct orr_buffer *buffer, uint32_t ranges) {
    struct orr_range accesses[16];
    for (uint64_t i = 0; i < ranges; i++)
        accesses[i] = (struct orr_range){buffer, 16 * i, 16, ORR_ACCESS_WRITE};
    struct orr_kernel kernel = {.name = "k",
                                .dtype = ORR_DTYPE_F32,
                                .cost = {.flops = 1000},
                                .accesses = accesses,
                                .access_count = ranges,
                                .submit_ns = -1,
                                .service_ns = -1,
                                .run = run,
                                .work = o,
                                .release = release};
    if (went_well(orr_stream_kernel(stream, &kernel, NULL)))
        o->accepted++;
}

static void create_objects(struct objects *o) {
    struct orr_runtime *runtime = o->runtime;
    const uint32_t devices[DEVICES] = {0, 1};
    for (uint32_t i = 0; i < DEVICES; i++) {
        o->compute[i] = orr_device_stream(runtime, i, ORR_STREAM_COMPUTE);
        if (!o->compute[i])
            went_well(orr_runtime_error(runtime)->status);
        else
            (void)went_well(orr_buffer_alloc(o->compute[i], BYTES, "a", &o->a[i]));
    }
    (void)went_well(orr_stream_create(runtime, 0, ORR_STREAM_COPY, "side", &o->side));
    if (o->compute[0])
        (void)went_well(orr_buffer_alloc(o->compute[0], BYTES, "b", &o->b));
    (void)went_well(orr_buffer_alloc_host(runtime, BYTES, "pinned", &o->pinned));
    (void)went_well(orr_event_create(runtime, NULL, &o->event));
    (void)went_well(orr_communicator_create(runtime, "tp", devices, DEVICES, &o->communicator));
}

static void enqueue_collective(struct objects *o) {
    if (!o->communicator || !o->compute[0] || !o->compute[1] || !o->a[0] || !o->a[1])
        return;
    const struct orr_piece pieces[DEVICES] = {{o->a[0], 0}, {o->a[1], 0}};
    (void)went_well(orr_collective_enqueue(o->communicator, ORR_COLLECTIVE_ALL_REDUCE,
                                           ORR_DTYPE_F32, BYTES / 4, 0, o->compute, pieces, pieces,
                                           NULL, 0, NULL));
}

static void enqueue_commands(struct objects *o) {
    struct orr_stream *s = o->compute[0];
    if (s && o->a[0]) {
        launch_with_work(o, s, o->a[0], 2);
        launch_with_work(o, s, o->a[0], 16);
    }
    if (s && o->event)
        (void)went_well(orr_event_record(o->event, s));
    if (o->side && o->event)
        (void)went_well(orr_stream_wait(o->side, o->event)); /* a finding if the record failed */
    if (o->side && o->a[0] && o->b) {
        (void)went_well(orr_buffer_record_stream(o->a[0], o->side));
        (void)went_well(orr_stream_copy(o->side, o->b, 0, o->a[0], 0, BYTES));
    }
    for (int i = 0; o->side && o->b && o->pinned && i < 40; i++) /* queues grow */
        (void)went_well(orr_stream_copy(o->side, o->pinned, 0, o->b, 0, BYTES));
    if (s && o->b)
        (void)went_well(orr_stream_fill(s, o->b, 0, 16, 1));
    enqueue_collective(o);
}

static void finish_and_reuse(struct objects *o) {
    char byte;
    orr_buffer_free(&o->a[0]); /* while it is in use, and by two streams */
    if (o->side)
        (void)went_well(orr_stream_sync(o->side));
    if (o->pinned && !orr_runtime_timing_only(o->runtime))
        (void)went_well(orr_buffer_read(o->pinned, 0, &byte, 1, -1));
    if (o->compute[0])
        (void)went_well(orr_buffer_alloc(o->compute[0], BYTES, "again", &o->a[0]));
    for (uint32_t i = 0; o->compute[1] && i < 3; i++)
        launch_with_work(o, o->compute[1], NULL, 0);
    orr_event_destroy(&o->event);
    (void)went_well(orr_runtime_finish(o->runtime));
}

struct variant {
    orr_backend_open open;
    enum orr_runner runner;
    bool timing_only, traced;
};

static void run_program(struct memory_counting *memory, void *context) {
    const struct variant *variant = context;
    struct objects o = {.memory = memory};
    struct orr_error error = {0};
    struct orr_device_spec specs[DEVICES] = {spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = {.memory = &memory->table,
                                        .open = variant->open,
                                        .specs = specs,
                                        .device_count = DEVICES,
                                        .runner = variant->runner,
                                        .timing_only = variant->timing_only,
                                        .trace_accesses = variant->traced};
    if (variant->traced && went_well(orr_record_memory_create(&memory->table, &o.store)))
        config.sink = orr_record_memory_sink(o.store);
    if (went_well(orr_runtime_create(&config, &o.runtime, &error))) {
        create_objects(&o);
        enqueue_commands(&o);
        finish_and_reuse(&o);
    } else {
        assert_null(o.runtime);
        assert_int_equal(error.status, ORR_NO_MEMORY);
    }
    orr_runtime_destroy(&o.runtime);
    orr_record_memory_destroy(&o.store);
    assert_int_equal(o.released, o.accepted); /* each exactly once */
}

static void check(struct variant variant, size_t least) {
    size_t requests = fail_each_request(run_program, &variant);
    print_message("# %zu requests failed one by one\n", requests);
    assert_true(requests >= least);
}

static void a_program_over_the_manual_backend_survives_each_failure(void **state) {
    (void)state;
    check((struct variant){.open = manual_open, .traced = true}, 40);
}

static void a_program_over_the_simulator_survives_each_failure(void **state) {
    (void)state;
    check((struct variant){.open = orr_sim_open, .traced = true}, 50);
}

static void a_program_with_a_runner_for_each_device_survives_each_failure(void **state) {
    (void)state;
    check((struct variant){.open = orr_sim_open, .runner = ORR_RUNNER_PER_DEVICE}, 40);
}

static void a_program_that_is_timing_only_survives_each_failure(void **state) {
    (void)state;
    check((struct variant){.open = orr_sim_open, .timing_only = true, .traced = true}, 40);
}

/* After warm-up a command costs no host memory. */
static void a_warm_runtime_allocates_nothing(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, orr_sim_open, 1);
    f.config.sink = NULL;
    fixture_start(&f);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    size_t requests = 0;
    for (int round = 0; round < 4; round++) {
        struct orr_buffer *buffer;
        assert_int_equal(orr_buffer_alloc(s, BYTES, "a", &buffer), ORR_OK);
        for (int i = 0; i < 100; i++)
            launch(s, "k", NULL, buffer);
        orr_buffer_free(&buffer);
        assert_int_equal(orr_stream_sync(s), ORR_OK);
        if (round == 1)
            requests = f.memory.requests;
    }
    assert_int_equal(f.memory.requests, requests);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_over_the_manual_backend_survives_each_failure),
        cmocka_unit_test(a_program_over_the_simulator_survives_each_failure),
        cmocka_unit_test(a_program_with_a_runner_for_each_device_survives_each_failure),
        cmocka_unit_test(a_program_that_is_timing_only_survives_each_failure),
        cmocka_unit_test(a_warm_runtime_allocates_nothing),
    };
    return cmocka_run_group_tests_name("oom", tests, NULL, NULL);
}
