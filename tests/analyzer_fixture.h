/* What the analyzer's tests on timelines share: a machine of two devices, commands with their
 * calls, and analyses that must work.
 *
 *     struct fixture f;
 *     start(&f);
 *     kernel(&f, 0, "k", 0, 10, 20, 40);
 *     struct orr_analysis *a = analyze(&f);
 *     ...
 *     finish(&f, &a);
 *
 * Threads: one. */
#ifndef ORR_TESTS_ANALYZER_FIXTURE_H
#define ORR_TESTS_ANALYZER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "tests/timeline_fixture.h"

/* Two simulated devices with a compute stream each (0, 1), a communicate stream of device 0 (2),
 * two hosts. */
static inline void start(struct fixture *f) {
    fixture_init(f);
    fixture_meta(f, "backend", "sim");
    fixture_meta(f, "status", "ok");
    fixture_host(f, "main");
    fixture_host(f, "runner");
    for (int d = 0; d < 2; d++) {
        uint32_t device = fixture_device(f, fixture_text(f, "sim:test %d", d), "gpu");
        struct orr_timeline_device *row = &f->timeline.devices[device];
        row->mem_bytes = 1000000;
        row->bandwidth = 2000000000000;
        row->peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] = 500000000000000;
        row->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 50000000000000;
        fixture_stream(f, device, "compute", ORR_STREAM_COMPUTE);
    }
    fixture_stream(f, 0, "communicate", ORR_STREAM_COMMUNICATE);
}

/* A command of host 0: its call, then its time on the device. Returns its id. */
static inline uint64_t command(struct fixture *f, enum orr_command_kind kind, uint32_t stream,
                               const char *name, int64_t enqueue, int64_t enqueued, int64_t begin,
                               int64_t end) {
    uint64_t id = fixture_command(f, kind, stream, name, begin, end)->id;
    fixture_enqueue(f, id, 0, enqueue, enqueued);
    return id;
}

static inline uint64_t kernel(struct fixture *f, uint32_t stream, const char *name, int64_t enqueue,
                              int64_t enqueued, int64_t begin, int64_t end) {
    return command(f, ORR_COMMAND_KERNEL, stream, name, enqueue, enqueued, begin, end);
}

static inline struct orr_analysis *analyze_with(struct fixture *f,
                                                const struct orr_analysis_options *options) {
    static struct orr_memory memory;
    memory = orr_memory_system();
    struct orr_analysis *analysis = NULL;
    struct orr_error error = {0};
    enum orr_status status = orr_analyze(fixture_timeline(f), options, &memory, &analysis, &error);
    if (status != ORR_OK) {
        fail_msg("%s", error.text);
    }
    return analysis;
}

static inline struct orr_analysis *analyze(struct fixture *f) {
    struct orr_analysis_options options = orr_analysis_options_default();
    return analyze_with(f, &options);
}

static inline void finish(struct fixture *f, struct orr_analysis **analysis) {
    orr_analysis_destroy(analysis);
    fixture_free(f);
}

static inline bool has_finding(const struct orr_analysis *a, const char *kind,
                               const char *severity) {
    for (size_t i = 0; i < a->findings.count; i++) {
        if (strcmp(a->findings.items[i].kind, kind) == 0) {
            assert_string_equal(a->findings.items[i].severity, severity);
            return true;
        }
    }
    return false;
}

static inline struct orr_split_parts parts_of(const struct orr_analysis *a, uint64_t command) {
    struct orr_split_parts parts = {0};
    for (uint32_t i = 0; i < a->events.op_count; i++) {
        if (a->events.ops[i].correlation == command) {
            assert_true(orr_split_of(&a->events, i, &parts));
            return parts;
        }
    }
    fail();
    return parts;
}

static inline void check_parts(const struct orr_analysis *a, uint64_t command, int64_t submit,
                               int64_t stream_wait, int64_t dep_wait, int64_t dispatch,
                               int64_t device) {
    struct orr_split_parts p = parts_of(a, command);
    assert_int_equal(p.submit, submit);
    assert_int_equal(p.stream_wait, stream_wait);
    assert_int_equal(p.dep_wait, dep_wait);
    assert_int_equal(p.dispatch, dispatch);
    assert_int_equal(p.device, device);
}

/* One space for several: how wide columns are does not matter. */
static inline void squeeze(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != ' ' || from[1] != ' ') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* Host memory that counts and fails one request. */
struct failing {
    struct orr_memory table;
    size_t requests, fail_at, live;
};

static inline void *failing_resize(void *context, void *block, size_t size) {
    struct failing *failing = context;
    if (size == 0) {
        failing->live -= block != NULL;
        free(block);
        return NULL;
    }
    if (++failing->requests == failing->fail_at) {
        return NULL;
    }
    failing->live += block == NULL;
    return realloc(block, size);
}

/* Analyses and reports with the 1st, 2nd, ... request for memory failing, until all are met;
 * asserts that nothing leaks. */
static inline void fail_each_allocation(struct fixture *f) {
    enum orr_status status = ORR_NO_MEMORY;
    size_t fail_at = 0;
    while (status != ORR_OK) {
        struct failing failing = {.table = {failing_resize, NULL}, .fail_at = ++fail_at};
        failing.table.context = &failing;
        struct orr_analysis_options options = orr_analysis_options_default();
        struct orr_analysis *a = NULL;
        struct orr_error error = {0};
        char *text = NULL, *json = NULL;
        size_t length;
        status = orr_analyze(fixture_timeline(f), &options, &failing.table, &a, &error);
        if (status == ORR_OK) {
            status = orr_report_text(a, &text, &length);
        }
        if (status == ORR_OK) {
            status = orr_report_json(a, &json, &length);
        }
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_memory_free(&failing.table, text);
        orr_memory_free(&failing.table, json);
        orr_analysis_destroy(&a);
        assert_int_equal(failing.live, 0);
    }
    assert_true(fail_at > 50);
}

#endif
