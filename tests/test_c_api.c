/* The library from C, from the machine to the report: the example of orrery.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "orrery.h"

static char folder[] = "/tmp/orrery-c-api-XXXXXX";

static const char *path_of(const char *name, char *buffer, size_t size) {
    snprintf(buffer, size, "%s/%s", folder, name);
    return buffer;
}

static void must(enum orr_status status, const struct orr_error *error) {
    if (status != ORR_OK) {
        fail_msg("%s: %s", orr_status_text(status), error->text);
    }
}

static void run_on(orr_backend_open open, const char *machine_name, const char *path) {
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_machine *machine;
    struct orr_sink *sink;
    struct orr_runtime *runtime;
    must(orr_machine_load(machine_name, &memory, &machine, &error), &error);
    must(orr_sqlite_sink_open(path, NULL, &memory, &sink, &error), &error);
    struct orr_device_spec specs[2] = {machine->spec, machine->spec};
    struct orr_runtime_config config = {
        .memory = &memory, .open = open, .specs = specs, .device_count = 2, .sink = sink};
    must(orr_runtime_create(&config, &runtime, &error), &error);
    const struct orr_error *why = orr_runtime_error(runtime);

    struct orr_stream *s = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *c = orr_device_stream(runtime, 0, ORR_STREAM_COMMUNICATE);
    struct orr_buffer *a;
    struct orr_event *e;
    must(orr_buffer_alloc(s, 1 << 20, "a", &a), why);
    must(orr_event_create(runtime, "produced", &e), why);
    struct orr_range write = {a, 0, 1 << 20, ORR_ACCESS_WRITE};
    struct orr_range read = {a, 0, 1 << 20, ORR_ACCESS_READ};
    struct orr_kernel produce = {.name = "produce",
                                 .dtype = ORR_DTYPE_NONE,
                                 .cost = {.flops = 1000000000, .bytes_written = 1 << 20},
                                 .accesses = &write,
                                 .access_count = 1,
                                 .submit_ns = -1,
                                 .service_ns = -1};
    struct orr_kernel consume = produce;
    consume.name = "consume";
    consume.accesses = &read;
    must(orr_stream_kernel(s, &produce, NULL), why);
    must(orr_event_record(e, s), why);
    must(orr_stream_wait(c, e), why);
    must(orr_stream_kernel(c, &consume, NULL), why);
    must(orr_runtime_finish(runtime), why);
    orr_event_destroy(&e);
    orr_buffer_free(&a);

    orr_runtime_destroy(&runtime);
    must(sink->close(sink, "ok", &error), &error);
    orr_machine_destroy(&machine);
}

/* Reads the trace back and returns the report; the caller frees it. */
static char *report_of(const char *path, const char *json) {
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_timeline *timeline;
    struct orr_analysis *analysis;
    struct orr_perfetto_counts counts;
    char *text;
    struct orr_analysis_options options = orr_analysis_options_default();
    must(orr_timeline_read(path, &memory, &timeline, &error), &error);
    must(orr_analyze(timeline, &options, &memory, &analysis, &error), &error);
    size_t length;
    must(orr_report_text(analysis, &text, &length), &error);
    assert_int_equal(strlen(text), length);
    must(orr_perfetto_write(timeline, NULL, 0, json, &memory, &counts, &error), &error);
    assert_true(counts.slices > 0);
    orr_analysis_destroy(&analysis);
    orr_timeline_destroy(&timeline);
    return text;
}

static void one_program_runs_on_simulated_and_cpu_devices_and_is_explained(void **state) {
    (void)state;
    static const struct {
        const char *name, *machine;
        orr_backend_open open;
    } targets[] = {{"sim", "h100", orr_sim_open}, {"cpu", "cpu", orr_cpu_open}};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char path[128], json[128];
        run_on(targets[i].open, targets[i].machine, path_of("run.db", path, sizeof path));
        char *text = report_of(path, path_of("run.json", json, sizeof json));
        assert_non_null(strstr(text, "verdict:"));
        assert_non_null(strstr(text, "produce"));
        assert_int_equal(strstr(text, "modelled") != NULL, i == 0);
        struct orr_memory memory = orr_memory_system();
        orr_memory_free(&memory, text);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(unlink(json), 0);
    }
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_program_runs_on_simulated_and_cpu_devices_and_is_explained)};
    return cmocka_run_group_tests_name("c api", tests, make_folder, remove_folder);
}
