/* What tests of the host layer share, beside tests/support.h: calls that must work.
 *
 * Threads: one. */
#ifndef ORR_TESTS_RUNTIME_FIXTURE_H
#define ORR_TESTS_RUNTIME_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/runtime_internal.h"
#include "sim/sim.h"
#include "tests/manual_backend.h"
#include "tests/support.h"

static inline struct orr_buffer *alloc(struct orr_stream *stream, uint64_t bytes,
                                       const char *label) {
    struct orr_buffer *buffer;
    assert_int_equal(orr_buffer_alloc(stream, bytes, label, &buffer), ORR_OK);
    return buffer;
}

static inline struct orr_buffer *alloc_host(struct fixture *f, uint64_t bytes, const char *label) {
    struct orr_buffer *buffer;
    assert_int_equal(orr_buffer_alloc_host(f->runtime, bytes, label, &buffer), ORR_OK);
    return buffer;
}

static inline struct orr_event *create_event(struct fixture *f, const char *name) {
    struct orr_event *event;
    assert_int_equal(orr_event_create(f->runtime, name, &event), ORR_OK);
    return event;
}

static inline struct orr_stream *compute(struct fixture *f, uint32_t device) {
    struct orr_stream *stream = orr_device_stream(f->runtime, device, ORR_STREAM_COMPUTE);
    assert_non_null(stream);
    return stream;
}

static inline struct orr_stream *communicate(struct fixture *f, uint32_t device) {
    struct orr_stream *stream = orr_device_stream(f->runtime, device, ORR_STREAM_COMMUNICATE);
    assert_non_null(stream);
    return stream;
}

static inline void set_site(struct fixture *f, const char *site) {
    assert_int_equal(orr_runtime_set_caller(f->runtime, 0, site), ORR_OK);
}

static inline enum orr_command_status status_of(const struct fixture *f, uint64_t cmd) {
    return (enum orr_command_status)command_record(f, cmd)->header.c;
}

#endif
