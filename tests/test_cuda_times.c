/* When commands ran, as the backend's sources of time tell it, over the fake CUDA devices: against
 * when the fake says they did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/times.h"
#include "sim/fake_devices/cuda/fake_internal.h"
#include "tests/support.h"

enum { STREAMS = 4, COMMANDS_MAX = 400, WORKS_MAX = 4096, BYTES_MAX = 1 << 20 };

/* A command, what is true of it, and what the source says. */
struct command {
    uint32_t stream;
    int awaits; /* index of a command; -1: none */
    bool is_wait, is_member, resolved;
    struct orr__cuda_stamp stamp;
    cudaEvent_t done;
    struct orr__cuda_bounds bounds;
    int64_t true_start_ns, true_finish_ns; /* ORR_TIME_NONE: nothing ran */
    struct orr_record_command record;
    enum orr_ts_source source;
};

struct rig {
    struct memory_counting memory;
    struct orr_fake_cuda *fake;
    struct orr__cuda_api *api;
    struct orr__cuda_times *times;
    struct orr__fake_observer inner; /* the fake CUPTI's */
    struct orr_error error;
    int64_t base_ns;
    void *device; /* BYTES_MAX for each stream */
    cudaStream_t streams[STREAMS];
    int last[STREAMS]; /* command of each stream, -1: none */
    struct command commands[COMMANDS_MAX];
    int count;
    int under_way;        /* command that is being enqueued, -1: none */
    int works[WORKS_MAX]; /* 1 + command, by number of the work */
    int members, member_first;
};

static void ok(cudaError_t code) {
    assert_int_equal(code, cudaSuccess);
}

/* --- what is true --- */

static void saw_call(void *context, const struct orr__fake_called *call) {
    struct rig *rig = context;
    if (rig->inner.called)
        rig->inner.called(rig->inner.context, call);
}

static bool takes_time(const struct orr__fake_work *work) {
    return work->task.kind == ORR__FAKE_KERNEL || work->task.kind == ORR__FAKE_MEMCPY ||
           work->task.kind == ORR__FAKE_MEMSET;
}

static void saw_enqueued(void *context, const struct orr__fake_work *work) {
    struct rig *rig = context;
    assert_true(work->number < WORKS_MAX);
    if (takes_time(work) && rig->under_way >= 0)
        rig->works[work->number] = 1 + rig->under_way;
    if (rig->inner.enqueued)
        rig->inner.enqueued(rig->inner.context, work);
}

static void saw_finished(void *context, const struct orr__fake_work *work) {
    struct rig *rig = context;
    if (rig->works[work->number] > 0) {
        struct command *command = &rig->commands[rig->works[work->number] - 1];
        int64_t start_ns = work->start_ns - rig->base_ns;
        int64_t finish_ns = work->finish_ns - rig->base_ns;
        if (command->true_start_ns == ORR_TIME_NONE || start_ns < command->true_start_ns)
            command->true_start_ns = start_ns;
        if (finish_ns > command->true_finish_ns)
            command->true_finish_ns = finish_ns;
    }
    if (rig->inner.finished)
        rig->inner.finished(rig->inner.context, work);
}

/* --- the rig --- */

static enum orr_status rig_try(struct rig *rig, struct orr_fake_cuda_options options,
                               enum orr_cuda_timestamps wanted) {
    *rig = (struct rig){.under_way = -1};
    memory_counting_init(&rig->memory, 0);
    assert_int_equal(orr_fake_cuda_open(&options, &rig->memory.table, &rig->fake, &rig->error),
                     ORR_OK);
    rig->api = orr_fake_cuda_api(rig->fake);
    rig->base_ns = rig->api->now(rig->api);
    return orr__cuda_times_open(rig->api, wanted, &rig->memory.table, &rig->times, &rig->error);
}

static void rig_open(struct rig *rig, struct orr_fake_cuda_options options,
                     enum orr_cuda_timestamps wanted) {
    assert_int_equal(rig_try(rig, options, wanted), ORR_OK);
    rig->inner = rig->fake->observer;
    rig->fake->observer = (struct orr__fake_observer){
        .called = saw_call, .enqueued = saw_enqueued, .finished = saw_finished, .context = rig};
    ok(rig->api->rt.cudaMalloc(&rig->device, (size_t)STREAMS * BYTES_MAX));
    for (int i = 0; i < STREAMS; i++) {
        ok(rig->api->rt.cudaStreamCreateWithPriority(&rig->streams[i], cudaStreamNonBlocking, 0));
        rig->last[i] = -1;
    }
}

static void rig_close(struct rig *rig) {
    for (int i = 0; i < rig->count; i++)
        if (rig->commands[i].done)
            ok(rig->api->rt.cudaEventDestroy(rig->commands[i].done));
    for (int i = 0; i < STREAMS && rig->streams[i]; i++)
        ok(rig->api->rt.cudaStreamDestroy(rig->streams[i]));
    if (rig->device)
        ok(rig->api->rt.cudaFree(rig->device));
    rig->fake->observer = rig->inner;
    orr__cuda_times_close(&rig->times);
    struct orr_fake_cuda_census none = {0}, census = orr_fake_cuda_census(rig->fake);
    assert_memory_equal(&census, &none, sizeof none);
    orr_fake_cuda_close(&rig->fake);
    assert_int_equal(rig->memory.live, 0);
}

static int64_t now(const struct rig *rig) {
    return orr__cuda_times_now(rig->times);
}

static bool is_done(struct rig *rig, int command) {
    return command < 0 || rig->api->rt.cudaEventQuery(rig->commands[command].done) == cudaSuccess;
}

/* A command of a stream, behind `awaits` (-1: nothing), as far as its waits. */
static struct command *begin(struct rig *rig, uint32_t stream, int awaits) {
    assert_true(rig->count < COMMANDS_MAX);
    struct command *command = &rig->commands[rig->count++];
    *command = (struct command){.stream = stream,
                                .awaits = awaits,
                                .true_start_ns = ORR_TIME_NONE,
                                .true_finish_ns = ORR_TIME_NONE};
    command->bounds.enqueue_ns = now(rig);
    ok(rig->api->rt.cudaEventCreateWithFlags(&command->done,
                                             orr__cuda_times_event_flags(rig->times)));
    if (awaits >= 0)
        ok(rig->api->rt.cudaStreamWaitEvent(rig->streams[stream], rig->commands[awaits].done, 0));
    return command;
}

static void end(struct rig *rig, struct command *command) {
    ok(rig->api->rt.cudaEventRecord(command->done, rig->streams[command->stream]));
    command->bounds.enqueued_ns = now(rig);
    rig->last[command->stream] = (int)(command - rig->commands);
}

/* `works` fills of so many bytes: a command that takes a while. */
static int fill(struct rig *rig, uint32_t stream, int awaits, uint32_t works, size_t bytes) {
    bool busy = !is_done(rig, rig->last[stream]);
    struct command *command = begin(rig, stream, awaits);
    int index = (int)(command - rig->commands);
    orr__cuda_times_begin(rig->times, &command->stamp, 0, rig->streams[stream], busy);
    rig->under_way = index;
    for (uint32_t i = 0; i < works; i++)
        ok(rig->api->rt.cudaMemsetAsync((char *)rig->device + (size_t)stream * BYTES_MAX, 0, bytes,
                                        rig->streams[stream]));
    rig->under_way = -1;
    orr__cuda_times_end(rig->times, &command->stamp);
    end(rig, command);
    return index;
}

/* A wait: no work of its own. */
static int wait_for(struct rig *rig, uint32_t stream, int awaits) {
    struct command *command = begin(rig, stream, awaits);
    command->is_wait = true;
    command->record.header.a = ORR_COMMAND_WAIT;
    end(rig, command);
    return (int)(command - rig->commands);
}

/* --- handing commands back --- */

static int64_t finish_of(const struct rig *rig, int command) {
    return command < 0 ? ORR_TIME_NONE : rig->commands[command].record.finish_ns;
}

/* The command before it in its stream. */
static int before(const struct rig *rig, int index) {
    for (int i = index - 1; i >= 0; i--)
        if (rig->commands[i].stream == rig->commands[index].stream)
            return i;
    return -1;
}

static void holds(const struct rig *rig, int index) {
    const struct command *c = &rig->commands[index];
    assert_true(c->record.start_ns >= c->bounds.enqueue_ns);
    assert_true(c->record.start_ns >= finish_of(rig, before(rig, index)) || before(rig, index) < 0);
    if (c->is_wait)
        assert_true(c->record.finish_ns >= finish_of(rig, c->awaits));
    else if (c->awaits >= 0)
        assert_true(c->record.start_ns >= finish_of(rig, c->awaits));
    assert_true(c->record.finish_ns >= c->record.start_ns);
    assert_true(c->record.finish_ns <= c->bounds.observed_ns);
}

static enum orr_status resolve(struct rig *rig, int index, bool must) {
    struct command *c = &rig->commands[index];
    c->bounds.before_ns = finish_of(rig, before(rig, index));
    c->bounds.awaited_ns = finish_of(rig, c->awaits);
    enum orr_status status = orr__cuda_times_resolve(rig->times, &c->stamp, c->done, &c->bounds,
                                                     must, &c->record, &c->source);
    if (status == ORR_OK) {
        c->resolved = true;
        holds(rig, index);
    }
    return status;
}

/* Waits for a command, and hands back what is done of all by then, in order of calls. */
static void retire(struct rig *rig, int up_to) {
    bool done[COMMANDS_MAX];
    bool stopped[STREAMS] = {false};
    ok(rig->api->rt.cudaEventSynchronize(rig->commands[up_to].done));
    for (int i = 0; i < rig->count; i++)
        done[i] = rig->commands[i].resolved || is_done(rig, i);
    int64_t observed_ns = now(rig);
    for (int i = 0; i < rig->count; i++) {
        struct command *c = &rig->commands[i];
        if (c->resolved)
            continue;
        stopped[c->stream] = stopped[c->stream] || !done[i] ||
                             (c->awaits >= 0 && !rig->commands[c->awaits].resolved);
        if (stopped[c->stream])
            continue;
        c->bounds.observed_ns = observed_ns;
        assert_int_equal(resolve(rig, i, true), ORR_OK);
    }
    assert_true(rig->commands[up_to].resolved);
}

static void retire_all(struct rig *rig) {
    for (int i = 0; i < STREAMS; i++)
        if (rig->last[i] >= 0)
            retire(rig, rig->last[i]);
}

/* --- programs --- */

static const struct orr_fake_cuda_options simulated = {.engine = ORR_FAKE_SIMULATED};

/* Two streams that wait for each other, with commands of one and of several kernels. */
static void small_program(struct rig *rig) {
    int a = fill(rig, 0, -1, 1, 100000);
    int b = fill(rig, 0, -1, 3, 50000);
    int c = fill(rig, 1, a, 1, 400000);
    wait_for(rig, 0, c);
    int d = fill(rig, 0, -1, 2, 1000);
    fill(rig, 1, b, 1, BYTES_MAX);
    fill(rig, 2, d, 1, 64);
    retire_all(rig);
}

static void random_program(struct rig *rig, uint64_t seed, int count) {
    uint64_t random = seed * 2 + 1;
    for (int i = 0; i < count; i++) {
        uint32_t stream = (uint32_t)random_below(&random, STREAMS);
        int awaits =
            i > 0 && random_below(&random, 3) == 0 ? (int)random_below(&random, (uint64_t)i) : -1;
        if (awaits >= 0 && random_below(&random, 2) == 0)
            wait_for(rig, stream, awaits);
        else
            fill(rig, stream, awaits, 1 + (uint32_t)random_below(&random, 3),
                 1 + random_below(&random, BYTES_MAX));
        if (random_below(&random, 12) == 0)
            retire(rig, (int)random_below(&random, (uint64_t)rig->count));
    }
    retire_all(rig);
}

static bool near_ns(int64_t a, int64_t b, int64_t tolerance_ns) {
    return a - b <= tolerance_ns && b - a <= tolerance_ns;
}

/* Over the simulator CUPTI's times are exactly what happened. */
static void cupti_is_exact(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, simulated, ORR_CUDA_TIMESTAMPS_CUPTI);
    assert_int_equal(orr__cuda_times_source(rig.times), ORR_TS_CUPTI);
    small_program(&rig);
    for (int i = 0; i < rig.count; i++) {
        const struct command *c = &rig.commands[i];
        assert_int_equal(c->source, c->is_wait ? ORR_TS_DERIVED : ORR_TS_CUPTI);
        if (c->is_wait)
            continue;
        assert_int_equal(c->record.start_ns, c->true_start_ns);
        assert_int_equal(c->record.finish_ns, c->true_finish_ns);
    }
    const struct orr__cuda_times_counts *counts = orr__cuda_times_counts(rig.times);
    assert_int_equal(counts->clamped + counts->missing + counts->late + counts->dropped, 0);
    assert_int_equal(counts->failed, 0);
    assert_true(counts->flushes > 0 && counts->flushes <= STREAMS);
    assert_true(counts->overhead_ns > 0);
    rig_close(&rig);
}

/* Those of events are too, but for one distance between the two clocks, the same for all. */
static void events_are_exact_but_for_the_clock(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, simulated, ORR_CUDA_TIMESTAMPS_EVENTS);
    small_program(&rig);
    const struct orr__cuda_times_counts *counts = orr__cuda_times_counts(rig.times);
    int64_t apart_ns = rig.commands[0].record.finish_ns - rig.commands[0].true_finish_ns;
    assert_true(near_ns(apart_ns, 0, counts->clock_error_ns));
    for (int i = 0; i < rig.count; i++) {
        const struct command *c = &rig.commands[i];
        assert_int_equal(c->source, c->is_wait ? ORR_TS_DERIVED : ORR_TS_EVENT);
        if (c->is_wait)
            continue;
        assert_true(near_ns(c->record.finish_ns - c->true_finish_ns, apart_ns, 1));
        /* Commands follow at once on what they waited for. */
        if (c->record.start_ns > c->bounds.enqueued_ns)
            assert_true(near_ns(c->record.start_ns - c->true_start_ns, apart_ns, 1));
        assert_true(near_ns(c->record.start_ns, c->true_start_ns, 5000));
    }
    assert_int_equal(counts->clamped + counts->failed, 0);
    assert_int_equal(counts->origins, 1);
    rig_close(&rig);
}

/* A wait lasts from where the stream has come to until what it waits for is done. */
static void waits_are_derived(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, simulated, ORR_CUDA_TIMESTAMPS_CUPTI);
    int a = fill(&rig, 0, -1, 40, BYTES_MAX);
    int b = fill(&rig, 1, -1, 1, 64);
    int w = wait_for(&rig, 1, a);
    int again = wait_for(&rig, 1, a);
    retire_all(&rig);
    assert_int_equal(rig.commands[w].record.finish_ns, rig.commands[a].record.finish_ns);
    assert_true(rig.commands[w].record.start_ns >= rig.commands[b].record.finish_ns);
    assert_true(rig.commands[w].record.start_ns < rig.commands[w].record.finish_ns);
    assert_int_equal(rig.commands[again].record.start_ns, rig.commands[w].record.finish_ns);
    assert_int_equal(rig.commands[again].record.finish_ns, rig.commands[w].record.finish_ns);
    rig_close(&rig);
}

static void any_order_of_buffers(void **state) {
    (void)state;
    uint64_t first = random_seed(7), from_cupti = 0, missing = 0;
    for (uint64_t seed = first; seed < first + 60; seed++) {
        struct rig rig;
        int64_t jitter_ns = seed % 2 ? 0 : 9000; /* of events, too */
        rig_open(&rig,
                 (struct orr_fake_cuda_options){
                     .engine = ORR_FAKE_SIMULATED, .seed = seed, .jitter_ns = jitter_ns},
                 seed % 3 ? ORR_CUDA_TIMESTAMPS_BOTH : ORR_CUDA_TIMESTAMPS_CUPTI);
        random_program(&rig, seed, 120);
        const struct orr__cuda_times_counts *counts = orr__cuda_times_counts(rig.times);
        for (int i = 0; i < rig.count; i++) {
            const struct command *c = &rig.commands[i];
            int64_t off_ns = counts->missing > 0 ? counts->clock_error_ns : 0;
            if (c->is_wait)
                continue;
            assert_true(c->source == ORR_TS_CUPTI || c->source == ORR_TS_EVENT);
            if (c->source != ORR_TS_CUPTI)
                off_ns += 5000 + 6 * jitter_ns; /* of its wait, its start, its fills, its event */
            if (!near_ns(c->record.start_ns, c->true_start_ns, off_ns) ||
                !near_ns(c->record.finish_ns, c->true_finish_ns, off_ns))
                fail_msg("seed %llu, command %d of %s: %lld .. %lld instead of %lld .. %lld",
                         (unsigned long long)seed, i, orr_ts_source_text(c->source),
                         (long long)c->record.start_ns, (long long)c->record.finish_ns,
                         (long long)c->true_start_ns, (long long)c->true_finish_ns);
        }
        assert_int_equal(counts->dropped + counts->failed + counts->disagreements, 0);
        assert_true(counts->checked > 0 || seed % 3 == 0);
        from_cupti += counts->sources[ORR_TS_CUPTI];
        missing += counts->missing;
        rig_close(&rig);
    }
    /* Buffers with a record of a running kernel stay away. */
    assert_true(missing > 0 && from_cupti > missing);
}

static void threads_keep_the_order(void **state) {
    (void)state;
    static const enum orr_cuda_timestamps modes[] = {
        ORR_CUDA_TIMESTAMPS_BOTH, ORR_CUDA_TIMESTAMPS_EVENTS, ORR_CUDA_TIMESTAMPS_HOST};
    for (uint64_t i = 0; i < 6; i++) {
        struct rig rig;
        rig_open(&rig, (struct orr_fake_cuda_options){.engine = ORR_FAKE_THREADS, .seed = i},
                 modes[i % 3]);
        random_program(&rig, i, 60); /* `holds` judges every command */
        rig_close(&rig);
    }
}

/* --- what can go wrong --- */

struct notes {
    char warning[512], source[16], dropped[32], reason[512];
};

static void note(void *context, const char *key, const char *value) {
    struct notes *notes = context;
    if (strcmp(key, "timestamps") == 0)
        snprintf(notes->source, sizeof notes->source, "%s", value);
    else if (strcmp(key, "timestamps_warning") == 0)
        snprintf(notes->warning, sizeof notes->warning, "%s", value);
    else if (strcmp(key, "timestamps_dropped") == 0)
        snprintf(notes->dropped, sizeof notes->dropped, "%s", value);
    else if (strcmp(key, "timestamps_reason") == 0)
        snprintf(notes->reason, sizeof notes->reason, "%s", value);
    else
        assert_true(strncmp(key, "timestamps_", 11) == 0);
}

static struct notes notes_of(const struct rig *rig) {
    struct notes notes = {{0}, {0}, {0}, {0}};
    orr__cuda_times_notes(rig->times, note, &notes);
    return notes;
}

/* A command whose records are lost has its times from events, and says so. */
static void lost_records_are_told(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct rig rig;
        rig_open(&rig,
                 (struct orr_fake_cuda_options){
                     .engine = ORR_FAKE_SIMULATED, .seed = seed, .cupti_drops = 3},
                 ORR_CUDA_TIMESTAMPS_AUTO);
        random_program(&rig, seed, 60);
        const struct orr__cuda_times_counts *counts = orr__cuda_times_counts(rig.times);
        struct notes notes = notes_of(&rig);
        assert_int_equal(counts->dropped, 3);
        assert_true(counts->missing > 0);
        assert_int_equal(counts->sources[ORR_TS_EVENT], counts->missing);
        assert_true(counts->sources[ORR_TS_CUPTI] > 0);
        assert_string_equal(notes.source, "cupti");
        assert_string_equal(notes.dropped, "3");
        assert_non_null(strstr(notes.warning, "3 records dropped"));
        rig_close(&rig);
    }
}

static void without_cupti_there_are_events(void **state) {
    (void)state;
    static const struct {
        struct orr_fake_cuda_options options;
        const char *reason;
    } cases[] = {
        {{.no_cupti = true}, "CUPTI is not installed"},
        {{.faults = "cuptiActivityEnable:1:39"}, "another profiler has it"},
        {{.faults = "cuptiActivityEnable:2:35"}, "profiling is for administrators"},
        {{.faults = "cuptiActivityRegisterTimestampCallback:1:999"}, "error 999"},
        {{.faults = "cuptiActivityPushExternalCorrelationId:1:1"}, "error 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        assert_int_equal(rig_try(&rig, cases[i].options, ORR_CUDA_TIMESTAMPS_CUPTI),
                         ORR_UNAVAILABLE);
        assert_non_null(strstr(rig.error.text, cases[i].reason));
        rig_close(&rig);
        rig_open(&rig, cases[i].options, ORR_CUDA_TIMESTAMPS_AUTO);
        assert_int_equal(orr__cuda_times_source(rig.times), ORR_TS_EVENT);
        assert_non_null(strstr(orr__cuda_times_reason(rig.times), cases[i].reason));
        small_program(&rig);
        struct notes notes = notes_of(&rig);
        assert_string_equal(notes.source, "event");
        assert_string_equal(notes.warning, "");
        assert_non_null(strstr(notes.reason, cases[i].reason));
        rig_close(&rig);
    }
}

static void a_second_run_has_events(void **state) {
    (void)state;
    struct rig rig;
    struct orr__cuda_times *second;
    rig_open(&rig, simulated, ORR_CUDA_TIMESTAMPS_AUTO);
    assert_int_equal(orr__cuda_times_open(rig.api, ORR_CUDA_TIMESTAMPS_AUTO, &rig.memory.table,
                                          &second, &rig.error),
                     ORR_OK);
    assert_int_equal(orr__cuda_times_source(second), ORR_TS_EVENT);
    assert_string_equal(orr__cuda_times_reason(second), "another run of this process uses CUPTI");
    orr__cuda_times_close(&second);
    small_program(&rig);
    assert_int_equal(orr__cuda_times_counts(rig.times)->missing, 0);
    rig_close(&rig);
}

/* Whatever call fails, once or for good: every command has times that hold, nothing leaks. */
static void any_call_may_fail(void **state) {
    (void)state;
    static const char *const functions[] = {
#define NAME(function) #function,
        ORR__CUDA_CUPTI_LIST(NAME)
#undef NAME
            "cudaEventElapsedTime",
        "cudaDeviceGetStreamPriorityRange"};
    uint64_t told = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int nth = 1; nth <= 5; nth += nth < 2 ? 1 : 3)
            for (int sticky = 0; sticky < (strncmp(functions[i], "cupti", 5) == 0 ? 2 : 1);
                 sticky++) {
                struct rig rig;
                char plan[96];
                snprintf(plan, sizeof plan, "%s:%d:8%s", functions[i], nth, sticky ? "!" : "");
                rig_open(
                    &rig,
                    (struct orr_fake_cuda_options){.engine = ORR_FAKE_SIMULATED, .faults = plan},
                    ORR_CUDA_TIMESTAMPS_AUTO);
                /* A second open, where the first call of each function is not the plan's. */
                if (i % 2 == 0)
                    orr__cuda_times_close(&rig.times);
                if (!rig.times &&
                    orr__cuda_times_open(rig.api, ORR_CUDA_TIMESTAMPS_BOTH, &rig.memory.table,
                                         &rig.times, &rig.error) != ORR_OK)
                    assert_int_equal(rig.error.status, ORR_UNAVAILABLE);
                if (rig.times) {
                    small_program(&rig);
                    struct notes notes = notes_of(&rig);
                    told += notes.warning[0] || notes.reason[0] ? 1 : 0;
                }
                rig_close(&rig);
            }
    assert_true(told > 10);
}

/* Origins are taken anew every second, and commands far from one keep their times. */
static void a_long_run_keeps_its_clock(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, simulated, ORR_CUDA_TIMESTAMPS_EVENTS);
    for (int i = 0; i < 20; i++) {
        fill(&rig, (uint32_t)(i % STREAMS), -1, 1, 100000);
        orr__fake_spend(rig.fake, 700000000);
    }
    retire_all(&rig);
    const struct orr__cuda_times_counts *counts = orr__cuda_times_counts(rig.times);
    assert_in_range(counts->origins, 7, 14);
    for (int i = 0; i < rig.count; i++) {
        const struct command *c = &rig.commands[i];
        int64_t off_ns = counts->clock_error_ns + 100; /* of floats of ms, a second away */
        assert_true(near_ns(c->record.finish_ns, c->true_finish_ns, off_ns));
        assert_true(near_ns(c->record.start_ns, c->true_start_ns, off_ns + 5000));
    }
    rig_close(&rig);
}

static void a_collective_starts_as_its_members_arrive(void **state) {
    (void)state;
    static const enum orr_cuda_timestamps modes[] = {ORR_CUDA_TIMESTAMPS_CUPTI,
                                                     ORR_CUDA_TIMESTAMPS_EVENTS};
    for (int mode = 0; mode < 2; mode++) {
        struct rig rig;
        struct orr__cuda_stamp *stamps[2];
        const uint32_t gpus[2] = {0, 0};
        rig_open(&rig, simulated, modes[mode]);
        int early = fill(&rig, 0, -1, 1, 64), late = fill(&rig, 1, -1, 60, BYTES_MAX);
        struct command *a = begin(&rig, 0, -1), *b = begin(&rig, 1, -1);
        stamps[0] = &a->stamp;
        stamps[1] = &b->stamp;
        orr__cuda_times_begin_group(rig.times, stamps, gpus, 2);
        ok(rig.api->rt.cudaStreamWaitEvent(rig.streams[2], rig.commands[late].done, 0));
        ok(rig.api->rt.cudaMemsetAsync(rig.device, 0, BYTES_MAX, rig.streams[2]));
        orr__cuda_times_end_group(rig.times, stamps, 2);
        cudaEvent_t together;
        ok(rig.api->rt.cudaEventCreateWithFlags(&together, cudaEventDefault));
        ok(rig.api->rt.cudaEventRecord(together, rig.streams[2]));
        ok(rig.api->rt.cudaStreamWaitEvent(rig.streams[0], together, 0));
        ok(rig.api->rt.cudaStreamWaitEvent(rig.streams[1], together, 0));
        end(&rig, a);
        end(&rig, b);
        retire_all(&rig);
        assert_true(a->record.start_ns >= rig.commands[early].record.finish_ns);
        assert_true(a->record.start_ns < b->record.start_ns);
        assert_true(b->record.start_ns >= rig.commands[late].record.finish_ns);
        assert_true(near_ns(a->record.finish_ns, b->record.finish_ns, mode == 0 ? 0 : 2000));
        assert_true(a->record.finish_ns > b->record.start_ns);
        ok(rig.api->rt.cudaEventDestroy(together));
        rig_close(&rig);
    }
}

/* --- clamping, with a clock and nothing else --- */

static int64_t still_clock(const struct orr__cuda_api *api) {
    (void)api;
    return 1000;
}

static void times_keep_to_what_the_host_knows(void **state) {
    (void)state;
    static const int64_t none = ORR_TIME_NONE;
    static const struct {
        struct orr__cuda_bounds bounds; /* enqueue, enqueued, before, awaited, observed */
        int64_t host_start_ns, host_finish_ns, start_ns, finish_ns;
        bool is_wait, on_host, clamped;
    } cases[] = {
        {{10, 12, none, none, 99}, 20, 30, 20, 30, false, true, false},
        {{10, 12, none, none, 99}, 5, 30, 10, 30, false, true, true},
        {{10, 12, 25, none, 99}, 20, 30, 25, 30, false, true, true},
        {{10, 12, 25, 40, 99}, 20, 30, 40, 40, false, true, true},
        {{10, 12, none, none, 25}, 20, 30, 20, 25, false, true, true},
        {{10, 12, none, none, 25}, 40, 50, 25, 25, false, true, true},
        {{10, 12, 15, 20, 99}, 0, 0, 20, 20, false, false, false}, /* a record */
        {{10, 12, none, none, 99}, 0, 0, 12, 12, false, false, false},
        {{10, 12, 15, 20, 99}, 0, 0, 15, 20, true, false, false}, /* waits */
        {{10, 12, none, 20, 99}, 0, 0, 12, 20, true, false, false},
        {{10, 30, none, 20, 99}, 0, 0, 30, 30, true, false, false},
        {{10, 12, none, none, 99}, 0, 0, 12, 12, true, false, false},
    };
    struct memory_counting memory;
    struct orr__cuda_api api = {.now = still_clock};
    struct orr__cuda_times *times;
    struct orr_error error = {0};
    uint64_t clamped = 0;
    memory_counting_init(&memory, 0);
    assert_int_equal(
        orr__cuda_times_open(&api, ORR_CUDA_TIMESTAMPS_HOST, &memory.table, &times, &error),
        ORR_OK);
    assert_int_equal(orr__cuda_times_event_flags(times), cudaEventDisableTiming);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct orr__cuda_stamp stamp = {.on_host = cases[i].on_host,
                                        .host_start_ns = cases[i].host_start_ns,
                                        .host_finish_ns = cases[i].host_finish_ns};
        struct orr_record_command record = {.header.a = cases[i].is_wait ? ORR_COMMAND_WAIT
                                                                         : ORR_COMMAND_HOSTFN};
        enum orr_ts_source source;
        assert_int_equal(
            orr__cuda_times_resolve(times, &stamp, NULL, &cases[i].bounds, false, &record, &source),
            ORR_OK);
        assert_int_equal(record.start_ns, cases[i].start_ns);
        assert_int_equal(record.finish_ns, cases[i].finish_ns);
        assert_int_equal(source, cases[i].on_host ? ORR_TS_HOST : ORR_TS_DERIVED);
        clamped += cases[i].clamped ? 1 : 0;
        assert_int_equal(orr__cuda_times_counts(times)->clamped, clamped);
    }
    /* What runs on a GPU ends when the host learned of it, and begins as soon as it could. */
    struct orr__cuda_stamp stamp;
    struct orr_record_command record = {.header.a = ORR_COMMAND_KERNEL};
    enum orr_ts_source source;
    const struct orr__cuda_bounds bounds = {10, 12, 15, none, 99};
    orr__cuda_times_begin(times, &stamp, 0, NULL, false);
    orr__cuda_times_end(times, &stamp);
    assert_int_equal(orr__cuda_times_resolve(times, &stamp, NULL, &bounds, true, &record, &source),
                     ORR_OK);
    assert_int_equal(record.start_ns, 15);
    assert_int_equal(record.finish_ns, 99);
    assert_int_equal(source, ORR_TS_HOST);
    orr__cuda_times_close(&times);
    assert_int_equal(memory.live, 0);
}

/* --- memory --- */

static void short_of_memory(struct memory_counting *memory, void *context) {
    struct rig *rig = context;
    struct orr__cuda_times *kept = rig->times;
    for (int i = 0; i < STREAMS; i++)
        rig->last[i] = -1;
    rig->count = 0;
    enum orr_status status = orr__cuda_times_open(rig->api, ORR_CUDA_TIMESTAMPS_BOTH,
                                                  &memory->table, &rig->times, &rig->error);
    rig->error = (struct orr_error){0};
    if (status == ORR_OK)
        small_program(rig);
    else
        assert_int_equal(status, ORR_NO_MEMORY);
    for (int i = 0; i < rig->count; i++) {
        ok(rig->api->rt.cudaEventDestroy(rig->commands[i].done));
        rig->commands[i].done = NULL;
    }
    orr__cuda_times_close(&rig->times);
    rig->times = kept;
}

static void memory_may_be_short(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, simulated, ORR_CUDA_TIMESTAMPS_HOST);
    rig.fake->observer = rig.inner; /* numbers of works go on from program to program */
    assert_true(fail_each_request(short_of_memory, &rig) > 5);
    rig.count = 0;
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cupti_is_exact),
        cmocka_unit_test(events_are_exact_but_for_the_clock),
        cmocka_unit_test(waits_are_derived),
        cmocka_unit_test(any_order_of_buffers),
        cmocka_unit_test(threads_keep_the_order),
        cmocka_unit_test(lost_records_are_told),
        cmocka_unit_test(without_cupti_there_are_events),
        cmocka_unit_test(a_second_run_has_events),
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(a_long_run_keeps_its_clock),
        cmocka_unit_test(a_collective_starts_as_its_members_arrive),
        cmocka_unit_test(times_keep_to_what_the_host_knows),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
