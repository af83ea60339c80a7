/* Each entry point of the CUDA runtime failing in turn, in the middle of a small training step:
 * whoever made the run hears which call it was, with name and number of the error; nothing leaks,
 * nothing hangs, and the trace has every command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/cuda.h"
#include "runtime/stream.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/support.h"

enum { DEVICES = 2, BYTES = 1024, ROUNDS = 3, WATCHDOG_S = 120 };

static struct orr_fake_cuda *fake;

static const char *const functions[] = {
#define NAME(function) #function,
    ORR__CUDA_RUNTIME_LIST(NAME) /* */
    ORR__CUDA_NCCL_LIST(NAME)    /* */
    ORR__CUDA_CUPTI_LIST(NAME)
#undef NAME
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

/* What is tried: which machine, and how much of a failure has to be heard. */
struct sweep {
    struct orr_fake_cuda_options machine;
    struct orr_cuda_options options;
    const char *prefix; /* "cuda", "nccl", "cupti": functions that begin so */
    bool must;          /* whoever makes the run hears of it, with the function's name */
    const char *code, *name, *sticky_code, *sticky_name;
};

static const struct sweep *sweep; /* the one under way */

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    struct orr_backend_config with_options = *config;
    with_options.options = &sweep->options;
    return orr__cuda_open(orr_fake_cuda_api(fake), &with_options, out_backend, error);
}

/* --- the program --- */

struct device {
    struct orr_stream *compute, *communicate;
    struct orr_buffer *weights, *gradients;
    struct orr_event *produced, *reduced;
};

struct step {
    struct fixture f;
    struct device devices[DEVICES];
    struct orr_buffer *pinned;
    struct orr_communicator *all;
    int called;             /* the host function, in this round */
    enum orr_status status; /* of the first call that failed; nothing is called after it */
    char text[ORR_ERROR_TEXT_MAX];
    uint64_t calls[FUNCTION_COUNT]; /* before the end */
};

static void note(struct step *s, enum orr_status status) {
    if (status == ORR_OK)
        return;
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", orr_runtime_error(s->f.runtime)->text);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (s->status == ORR_OK)                                                                   \
            note(s, (call));                                                                       \
    } while (0)

static enum orr_status stream_of(struct step *s, uint32_t device, enum orr_stream_kind kind,
                                 struct orr_stream **out_stream) {
    *out_stream = orr_device_stream(s->f.runtime, device, kind);
    return *out_stream ? ORR_OK : orr_runtime_error(s->f.runtime)->status;
}

static void prepare_device(struct step *s, uint32_t i) {
    struct device *d = &s->devices[i];
    struct orr_runtime *runtime = s->f.runtime;
    TRY(stream_of(s, i, ORR_STREAM_COMPUTE, &d->compute));
    TRY(stream_of(s, i, ORR_STREAM_COMMUNICATE, &d->communicate));
    TRY(orr_buffer_alloc(d->compute, BYTES, "weights", &d->weights));
    TRY(orr_buffer_alloc(d->compute, BYTES, "gradients", &d->gradients));
    TRY(orr_event_create(runtime, NULL, &d->produced));
    TRY(orr_event_create(runtime, NULL, &d->reduced));
    TRY(orr_stream_fill(d->compute, d->weights, 0, BYTES, 1));
}

static enum orr_status kernel(struct orr_stream *stream, const char *name, struct orr_buffer *from,
                              struct orr_buffer *to) {
    const struct orr_range ranges[2] = {{from, 0, BYTES, ORR_ACCESS_READ},
                                        {to, 0, BYTES, ORR_ACCESS_WRITE}};
    const struct orr_kernel kernel = {.name = name,
                                      .dtype = ORR_DTYPE_F32,
                                      .accesses = ranges,
                                      .access_count = 2,
                                      .submit_ns = -1,
                                      .service_ns = -1};
    return orr_stream_kernel(stream, &kernel, NULL);
}

static void count(void *context) {
    ++*(int *)context;
}

static void train(struct step *s) {
    struct orr_stream *streams[DEVICES];
    struct orr_piece pieces[DEVICES];
    s->called = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct device *d = &s->devices[i];
        streams[i] = d->communicate;
        pieces[i] = (struct orr_piece){d->gradients, 0};
        TRY(kernel(d->compute, "backward", d->weights, d->gradients));
        TRY(orr_event_record(d->produced, d->compute));
        TRY(orr_stream_wait(d->communicate, d->produced));
    }
    TRY(orr_collective_enqueue(s->all, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, BYTES / 4, 0,
                               streams, pieces, pieces, NULL, 0, NULL));
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct device *d = &s->devices[i];
        TRY(orr_event_record(d->reduced, d->communicate));
        TRY(orr_stream_wait(d->compute, d->reduced));
        TRY(kernel(d->compute, "update", d->gradients, d->weights));
    }
    struct device *first = &s->devices[0];
    TRY(orr_stream_copy(first->compute, s->pinned, 0, first->weights, 0, BYTES));
    TRY(orr_stream_hostfn(first->compute, "count", count, &s->called, NULL, 0));
    TRY(orr_stream_sync(first->compute));
    assert_true(s->status != ORR_OK || s->called == 1);
}

/* Every command that was accepted has one record, and those behind a failure say so. */
static void check_trace(struct step *s) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    uint64_t commands = 0, last = 0, failed = 0;
    while ((record = orr_record_memory_next(s->f.store, &cursor))) {
        const struct orr_record_command *command = (const void *)record;
        if (record->kind != ORR_RECORD_COMMAND)
            continue;
        assert_int_not_equal(record->c, ORR_COMMAND_STATUS_PENDING);
        failed += record->c == ORR_COMMAND_STATUS_FAILED;
        assert_true(command->enqueue_ns <= command->start_ns);
        assert_true(command->start_ns <= command->finish_ns);
        last = command->id > last ? command->id : last;
        commands++;
    }
    assert_int_equal(commands, last);
    assert_true(failed == 0 || s->status != ORR_OK);
}

static void run_step(struct step *s) {
    static const uint32_t devices[DEVICES] = {0, 1};
    memset(s, 0, sizeof *s);
    fixture_prepare(&s->f, open_over_fake, DEVICES);
    s->status = orr_runtime_create(&s->f.config, &s->f.runtime, &s->f.error);
    snprintf(s->text, sizeof s->text, "%s", s->f.error.text);
    for (uint32_t i = 0; i < DEVICES && s->f.runtime; i++)
        prepare_device(s, i);
    TRY(orr_communicator_create(s->f.runtime, "all", devices, DEVICES, &s->all));
    TRY(orr_buffer_alloc_host(s->f.runtime, BYTES, "pinned", &s->pinned));
    for (int round = 0; round < ROUNDS && s->f.runtime; round++)
        train(s);
    TRY(orr_runtime_finish(s->f.runtime));
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        s->calls[i] = orr_fake_cuda_calls(fake, functions[i]);
    orr_runtime_destroy(&s->f.runtime);
    check_trace(s);
    fixture_close(&s->f);
}

/* --- the sweep --- */

static void open_fake(const char *faults) {
    static struct orr_memory memory;
    memory = orr_memory_system();
    struct orr_fake_cuda_options machine = sweep->machine;
    machine.faults = faults;
    struct orr_error error = {0};
    assert_int_equal(orr_fake_cuda_open(&machine, &memory, &fake, &error), ORR_OK);
}

static void close_fake(const char *faults) {
    static const struct orr_fake_cuda_census nothing;
    struct orr_fake_cuda_census census = orr_fake_cuda_census(fake);
    if (memcmp(&census, &nothing, sizeof census) != 0)
        fail_msg("%s: left behind are %llu blocks, %llu of the host, %llu streams, %llu events, "
                 "%llu libraries, %llu pools",
                 faults, (unsigned long long)census.allocations,
                 (unsigned long long)census.host_allocations, (unsigned long long)census.streams,
                 (unsigned long long)census.events, (unsigned long long)census.libraries,
                 (unsigned long long)census.pools);
    orr_fake_cuda_close(&fake);
}

/* A run can do without these: texts and clean-up, and what has a next best way. */
static bool is_dispensable(const char *function) {
    static const char *const names[] = {"cudaGetLastError",
                                        "cudaGetErrorName",
                                        "cudaGetErrorString",
                                        "cudaEventDestroy",
                                        "cudaStreamDestroy",
                                        "cudaFree",
                                        "cudaFreeHost",
                                        "cudaFreeAsync",
                                        "cudaMemGetInfo",
                                        "cudaEventSynchronize",
                                        "cudaLibraryUnload",
                                        "cudaMemPoolDestroy",
                                        "cudaDeviceGetStreamPriorityRange",
                                        "cudaRuntimeGetVersion",
                                        "cudaDriverGetVersion",
                                        "cudaEventElapsedTime"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], function) == 0)
            return true;
    return false;
}

static void fail_once(const char *function, uint64_t nth, const char *code, const char *name,
                      bool must) {
    static struct step s;
    char faults[128];
    snprintf(faults, sizeof faults, "%s:%llu:%s", function, (unsigned long long)nth, code);
    open_fake(faults);
    run_step(&s);
    if (must && s.status == ORR_OK)
        fail_msg("%s: nobody heard of it", faults);
    bool told = strstr(s.text, name) && (!must || strstr(s.text, function));
    if (s.status != ORR_OK && !told)
        fail_msg("%s: the message is: %s", faults, s.text);
    close_fake(faults);
}

/* Some calls of a function: the first ones, some later ones, and one that is for closing only. */
static void fail_calls_of(const char *function, uint64_t calls, uint64_t all_calls) {
    bool must = sweep->must && !is_dispensable(function);
    for (uint64_t nth = 1; nth <= all_calls; nth = nth < 3 ? nth + 1 : nth * 2) {
        fail_once(function, nth, sweep->code, sweep->name, must && nth <= calls);
        fail_once(function, nth, sweep->sticky_code, sweep->sticky_name, must && nth <= calls);
    }
}

static void run_sweep(struct sweep wanted) {
    static struct step s;
    uint64_t calls[FUNCTION_COUNT], all_calls[FUNCTION_COUNT], tried = 0;
    sweep = &wanted;
    open_fake(NULL);
    run_step(&s);
    if (s.status != ORR_OK)
        fail_msg("without a fault: %s", s.text);
    memcpy(calls, s.calls, sizeof calls);
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        all_calls[i] = orr_fake_cuda_calls(fake, functions[i]);
    close_fake("no faults");
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        if (strncmp(functions[i], wanted.prefix, strlen(wanted.prefix)) != 0)
            continue;
        fail_calls_of(functions[i], calls[i], all_calls[i]);
        tried += all_calls[i] > 0;
    }
    assert_true(tried > 2);
}

#define CUDA_CODES                                                                                 \
    .code = "999", .name = "cudaErrorUnknown", .sticky_code = "700!",                              \
    .sticky_name = "cudaErrorIllegalAddress"

static void each_call_may_fail_in_virtual_time(void **state) {
    (void)state;
    run_sweep((struct sweep){.machine = {.engine = ORR_FAKE_SIMULATED},
                             .options = {.timestamps = ORR_CUDA_TIMESTAMPS_HOST},
                             .prefix = "cuda",
                             .must = true,
                             CUDA_CODES});
}

/* How often events are looked at differs from run to run here. */
static void each_call_may_fail_on_threads(void **state) {
    (void)state;
    run_sweep((struct sweep){.machine = {.engine = ORR_FAKE_THREADS},
                             .options = {.timestamps = ORR_CUDA_TIMESTAMPS_HOST},
                             .prefix = "cuda",
                             CUDA_CODES});
}

/* Without its events a command has the host's times, and the run goes on. */
static void each_call_may_fail_while_events_tell_the_time(void **state) {
    (void)state;
    run_sweep((struct sweep){.machine = {.engine = ORR_FAKE_SIMULATED},
                             .options = {.timestamps = ORR_CUDA_TIMESTAMPS_EVENTS},
                             .prefix = "cuda",
                             CUDA_CODES});
}

static void cupti_may_fail_at_any_call(void **state) {
    (void)state;
    run_sweep((struct sweep){.machine = {.engine = ORR_FAKE_SIMULATED},
                             .prefix = "cupti",
                             .code = "999",
                             .name = "CUPTI_ERROR_UNKNOWN",
                             .sticky_code = "999!",
                             .sticky_name = "CUPTI_ERROR_UNKNOWN"});
}

static void nccl_may_fail_at_any_call(void **state) {
    (void)state;
    static const uint32_t gpus[DEVICES] = {0, 1};
    for (int engine = 0; engine < 2; engine++)
        run_sweep(
            (struct sweep){.machine = {.engine = (enum orr_fake_engine)engine, .gpu_count = 2},
                           .options = {.gpus = gpus,
                                       .timestamps = ORR_CUDA_TIMESTAMPS_HOST,
                                       .collectives = ORR_CUDA_COLLECTIVES_NCCL},
                           .prefix = "nccl",
                           .code = "3",
                           .name = "ncclInternalError",
                           .sticky_code = "3!",
                           .sticky_name = "ncclInternalError"});
}

static void a_gpu_without_memory_says_how_much_was_asked_of_it(void **state) {
    (void)state;
    static struct step s;
    struct sweep wanted = {.options = {.timestamps = ORR_CUDA_TIMESTAMPS_HOST}};
    sweep = &wanted;
    open_fake("cudaMallocFromPoolAsync:1:2");
    run_step(&s);
    assert_int_equal(s.status, ORR_NO_MEMORY);
    if (!strstr(s.text, "device 0 on GPU 0: asked for") || !strstr(s.text, "free are"))
        fail_msg("the message is: %s", s.text);
    close_fake("no memory");
}

static void a_kernel_that_breaks_the_gpu_ends_the_run(void **state) {
    (void)state;
    for (int engine = 0; engine < 2; engine++) {
        struct sweep wanted = {.machine = {.engine = (enum orr_fake_engine)engine},
                               .options = {.timestamps = ORR_CUDA_TIMESTAMPS_HOST}};
        sweep = &wanted;
        for (uint64_t nth = 1; nth < 8; nth++)
            fail_once("synthetic_write", nth, "700", "cudaErrorIllegalAddress", false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_may_fail_in_virtual_time),
        cmocka_unit_test(each_call_may_fail_on_threads),
        cmocka_unit_test(each_call_may_fail_while_events_tell_the_time),
        cmocka_unit_test(cupti_may_fail_at_any_call),
        cmocka_unit_test(nccl_may_fail_at_any_call),
        cmocka_unit_test(a_gpu_without_memory_says_how_much_was_asked_of_it),
        cmocka_unit_test(a_kernel_that_breaks_the_gpu_ends_the_run),
    };
    alarm(WATCHDOG_S); /* a hang ends the test, not the suite */
    return cmocka_run_group_tests_name("cuda faults", tests, NULL, NULL);
}
