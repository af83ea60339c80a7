#include "tests/support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- memory --- */

static void *counting_resize(void *context, void *block, size_t size) {
    struct memory_counting *memory = context;
    if (size == 0) {
        if (block)
            memory->live--;
        free(block);
        return NULL;
    }
    size_t request = ++memory->requests;
    bool fails = memory->fail_at > 0 &&
                 (request == memory->fail_at || (memory->fail_later && request > memory->fail_at));
    void *result = fails ? NULL : realloc(block, size);
    if (result && !block)
        memory->live++;
    return result;
}

void memory_counting_init(struct memory_counting *memory, size_t fail_at) {
    memory->table = (struct orr_memory){.resize = counting_resize, .context = memory};
    memory->requests = 0;
    memory->live = 0;
    memory->fail_at = fail_at;
    memory->fail_later = false;
}

size_t fail_each_request(void (*program)(struct memory_counting *memory, void *context),
                         void *context) {
    for (size_t fail_at = 1;; fail_at++) {
        size_t requests = 0;
        for (int later = 0; later < 2; later++) {
            struct memory_counting memory;
            memory_counting_init(&memory, fail_at);
            memory.fail_later = later != 0;
            program(&memory, context);
            if (memory.live != 0)
                print_message("request %zu failed: %zu blocks left\n", fail_at, memory.live);
            assert_int_equal(memory.live, 0);
            if (memory.requests > requests)
                requests = memory.requests;
        }
        if (requests < fail_at)
            return requests;
    }
}

/* --- a runtime --- */

struct orr_device_spec spec_for_tests(void) {
    struct orr_device_spec spec = {.name = "test",
                                   .kind = "gpu",
                                   .memory_bytes = 1u << 30,
                                   .bandwidth = 2000000000000,
                                   .sm_count = 100,
                                   .copy_engines = 1,
                                   .host_launch_ns = 5000,
                                   .host_operator_ns = 8000,
                                   .host_event_ns = 500,
                                   .host_sync_ns = 1000,
                                   .host_bandwidth = 50000000000,
                                   .peer_bandwidth = 400000000000};
    for (int unit = 0; unit < 2; unit++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++)
            spec.peak[unit][dtype] = 500000000000000;
    return spec;
}

void fixture_prepare(struct fixture *f, orr_backend_open open, uint32_t device_count) {
    assert_in_range(device_count, 1, FIXTURE_DEVICES_MAX);
    *f = (struct fixture){0};
    memory_counting_init(&f->memory, 0);
    for (uint32_t i = 0; i < device_count; i++)
        f->specs[i] = spec_for_tests();
    assert_int_equal(orr_record_memory_create(&f->memory.table, &f->store), ORR_OK);
    f->config = (struct orr_runtime_config){.memory = &f->memory.table,
                                            .open = open,
                                            .specs = f->specs,
                                            .device_count = device_count,
                                            .sink = orr_record_memory_sink(f->store),
                                            .seed = 1,
                                            .trace_accesses = true};
}

void fixture_start(struct fixture *f) {
    enum orr_status status = orr_runtime_create(&f->config, &f->runtime, &f->error);
    if (status != ORR_OK)
        print_message("%s\n", f->error.text);
    assert_int_equal(status, ORR_OK);
}

void fixture_open(struct fixture *f, orr_backend_open open, uint32_t device_count) {
    fixture_prepare(f, open, device_count);
    fixture_start(f);
}

void fixture_close(struct fixture *f) {
    orr_runtime_destroy(&f->runtime);
    orr_record_memory_destroy(&f->store);
    assert_int_equal(f->memory.live, 0);
}

const char *fixture_error(const struct fixture *f) {
    return orr_runtime_error(f->runtime)->text;
}

size_t record_count(const struct fixture *f, enum orr_record_kind kind) {
    return orr_record_memory_count(f->store, kind);
}

const void *record_at(const struct fixture *f, enum orr_record_kind kind, size_t index) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(f->store, &cursor)))
        if (record->kind == kind && index-- == 0)
            return record;
    fail_msg("there is no such record of kind %d", (int)kind);
    return NULL;
}

const struct orr_record_command *command_record(const struct fixture *f, uint64_t id) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(f->store, &cursor))) {
        const struct orr_record_command *command = (const void *)record;
        if (record->kind == ORR_RECORD_COMMAND && command->id == id)
            return command;
    }
    fail_msg("command %d has no record", (int)id);
    return NULL;
}

bool has_edge(const struct fixture *f, enum orr_edge_kind kind, uint64_t src, uint64_t dst) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(f->store, &cursor))) {
        const struct orr_record_edge *edge = (const void *)record;
        if (record->kind == ORR_RECORD_EDGE && edge->header.a == kind && edge->src == src &&
            edge->dst == dst)
            return true;
    }
    return false;
}

const char *name_text(const struct fixture *f, uint32_t name) {
    return orr_names_text(orr_record_memory_sink(f->store)->names, name);
}

struct orr_point launch(struct orr_stream *stream, const char *name, struct orr_buffer *reads,
                        struct orr_buffer *writes) {
    struct orr_range ranges[2];
    uint32_t count = 0;
    if (reads)
        ranges[count++] = (struct orr_range){reads, 0, orr_buffer_bytes(reads), ORR_ACCESS_READ};
    if (writes)
        ranges[count++] = (struct orr_range){writes, 0, orr_buffer_bytes(writes), ORR_ACCESS_WRITE};
    struct orr_kernel kernel = {.name = name,
                                .dtype = ORR_DTYPE_F32,
                                .accesses = ranges,
                                .access_count = count,
                                .submit_ns = -1,
                                .service_ns = 1};
    struct orr_point point;
    enum orr_status status = orr_stream_kernel(stream, &kernel, &point);
    if (status != ORR_OK)
        print_message("%s\n", orr_runtime_error(orr_stream_runtime(stream))->text);
    assert_int_equal(status, ORR_OK);
    return point;
}

/* --- comparing --- */

bool near_f64(double a, double b, double tolerance) {
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b)
        return true;
    double scale = fabs(b) > 1 ? fabs(b) : 1;
    return fabs(a - b) <= tolerance * scale;
}

/* --- random numbers --- */

uint64_t random_seed(uint64_t usual) {
    const char *text = getenv("ORR_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : usual;
    print_message("# ORR_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed ? seed : 1;
}
