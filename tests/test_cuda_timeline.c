/* What the trace of a run over the CUDA backend says of time: sources, order, warnings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/cuda.h"
#include "runtime/stream.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/support.h"

enum { BYTES = 4096, DEEP = 1500, NOTES_MAX = 32, TEXT_MAX = 256 };

static struct orr_fake_cuda *fake;

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    return orr__cuda_open(orr_fake_cuda_api(fake), config, out_backend, error);
}

struct run {
    struct fixture f;
    struct memory_counting memory;
    struct orr_cuda_options options;
    uint64_t sources[ORR_TS_SOURCE_COUNT];
    char keys[NOTES_MAX][TEXT_MAX], values[NOTES_MAX][TEXT_MAX];
    size_t note_count;
};

static void run_open(struct run *run, struct orr_fake_cuda_options machine,
                     enum orr_cuda_timestamps timestamps) {
    struct orr_error error = {0};
    *run = (struct run){.options.timestamps = timestamps};
    memory_counting_init(&run->memory, 0);
    assert_int_equal(orr_fake_cuda_open(&machine, &run->memory.table, &fake, &error), ORR_OK);
    fixture_prepare(&run->f, open_over_fake, 2);
    run->f.config.options = &run->options;
    fixture_start(&run->f);
}

/* What the backend says of the run. */
static void note(void *context, const char *key, const char *value) {
    struct run *run = context;
    assert_true(run->note_count < NOTES_MAX);
    snprintf(run->keys[run->note_count], TEXT_MAX, "%s", key);
    snprintf(run->values[run->note_count++], TEXT_MAX, "%s", value);
}

/* The value of a note; NULL: there is none. */
static const char *noted(const struct run *run, const char *key) {
    for (size_t i = 0; i < run->note_count; i++)
        if (strcmp(run->keys[i], key) == 0)
            return run->values[i];
    return NULL;
}

/* Commands of streams: times in order, and by source. Nothing starts before what it follows. */
static void look(struct run *run) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(run->f.store, &cursor))) {
        if (record->kind == ORR_RECORD_EDGE) {
            const struct orr_record_edge *edge = (const void *)record;
            const struct orr_record_command *src = command_record(&run->f, edge->src);
            const struct orr_record_command *dst = command_record(&run->f, edge->dst);
            bool waits = dst->header.a == ORR_COMMAND_WAIT && record->a != ORR_EDGE_STREAM;
            assert_true((waits ? dst->finish_ns : dst->start_ns) >= src->finish_ns);
        }
        const struct orr_record_command *c = (const void *)record;
        if (record->kind != ORR_RECORD_COMMAND || c->seq == 0 || c->header.a == ORR_COMMAND_ALLOC ||
            c->header.a == ORR_COMMAND_FREE)
            continue;
        assert_true(c->enqueue_ns <= c->enqueued_ns && c->enqueue_ns <= c->start_ns);
        assert_true(c->ready_ns <= c->start_ns && c->start_ns <= c->finish_ns);
        for (int source = 0; source < ORR_TS_SOURCE_COUNT; source++)
            run->sources[source] += strcmp(name_text(&run->f, c->ts_source),
                                           orr_ts_source_text((enum orr_ts_source)source)) == 0;
    }
}

static void run_close(struct run *run) {
    fixture_close(&run->f);
    orr_fake_cuda_close(&fake);
    assert_int_equal(run->memory.live, 0);
}

/* Rounds of a kernel on each of two streams, of which one waits for the other now and then. */
static void program(struct run *run, int rounds) {
    struct orr_stream *a = orr_device_stream(run->f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *b = orr_device_stream(run->f.runtime, 1, ORR_STREAM_COMPUTE);
    struct orr_buffer *x = NULL, *y = NULL;
    struct orr_event *event = NULL;
    assert_int_equal(orr_buffer_alloc(a, BYTES, "x", &x), ORR_OK);
    assert_int_equal(orr_buffer_alloc(b, BYTES, "y", &y), ORR_OK);
    assert_int_equal(orr_event_create(run->f.runtime, "e", &event), ORR_OK);
    for (int i = 0; i < rounds; i++) {
        (void)launch(a, "left", NULL, x);
        (void)launch(b, "right", NULL, y);
        if (i % 10 != 0)
            continue;
        assert_int_equal(orr_event_record(event, a), ORR_OK);
        assert_int_equal(orr_stream_wait(b, event), ORR_OK);
    }
    assert_int_equal(orr_runtime_finish(run->f.runtime), ORR_OK);
    look(run);
    const struct orr_backend *backend = orr_runtime_backend(run->f.runtime);
    backend->verbs->notes(backend, note, run);
    /* And all of it is in the trace. */
    size_t before = record_count(&run->f, ORR_RECORD_META);
    orr_runtime_destroy(&run->f.runtime);
    assert_int_equal(record_count(&run->f, ORR_RECORD_META), before + run->note_count);
}

static void each_source_is_named(void **state) {
    (void)state;
    static const struct {
        enum orr_cuda_timestamps timestamps;
        enum orr_ts_source source;
    } cases[] = {{ORR_CUDA_TIMESTAMPS_AUTO, ORR_TS_CUPTI},
                 {ORR_CUDA_TIMESTAMPS_BOTH, ORR_TS_CUPTI},
                 {ORR_CUDA_TIMESTAMPS_EVENTS, ORR_TS_EVENT},
                 {ORR_CUDA_TIMESTAMPS_HOST, ORR_TS_HOST}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (enum orr_fake_engine engine = 0; engine <= ORR_FAKE_THREADS; engine++) {
            struct run run;
            run_open(&run, (struct orr_fake_cuda_options){.engine = engine}, cases[i].timestamps);
            program(&run, 20);
            assert_string_equal(noted(&run, "timestamps"), orr_ts_source_text(cases[i].source));
            assert_null(noted(&run, "timestamps_warning"));
            assert_int_equal(run.sources[cases[i].source], 40);
            assert_null(noted(&run, "timestamps_missing"));
            assert_int_equal(run.sources[ORR_TS_DERIVED], 4);
            run_close(&run);
        }
}

/* More commands than a stream holds: the host waits for room again and again, and what it waits for
 * is always among records that CUPTI still holds. */
static void a_host_far_ahead_keeps_most_records(void **state) {
    (void)state;
    struct run run;
    run_open(&run, (struct orr_fake_cuda_options){.engine = ORR_FAKE_SIMULATED},
             ORR_CUDA_TIMESTAMPS_AUTO);
    program(&run, DEEP);
    assert_in_range(run.sources[ORR_TS_CUPTI], 2 * DEEP * 9 / 10, 2 * DEEP);
    run_close(&run);
}

static void lost_records_are_in_the_trace(void **state) {
    (void)state;
    struct run run;
    run_open(&run, (struct orr_fake_cuda_options){.cupti_drops = 2}, ORR_CUDA_TIMESTAMPS_AUTO);
    program(&run, 20);
    assert_string_equal(noted(&run, "timestamps_dropped"), "2");
    assert_non_null(strstr(noted(&run, "timestamps_warning"), "2 records dropped"));
    assert_non_null(
        strstr(noted(&run, "timestamps_warning"), " device commands are those of events"));
    assert_true(run.sources[ORR_TS_EVENT] > 0);
    run_close(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_source_is_named),
        cmocka_unit_test(a_host_far_ahead_keeps_most_records),
        cmocka_unit_test(lost_records_are_in_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
