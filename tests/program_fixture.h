/* What tests of recorded programs share: two simulated devices, and calls that must work.
 *
 *     struct machine m;
 *     open_machine(&m);
 *     struct orr_program *program = begin(&m);
 *     work(&m, m.a, "k", 1000);
 *     ok(&m, orr_program_end(program));
 *     ...
 *     close_machine(&m);
 *
 * Threads: one. */
#ifndef ORR_TESTS_PROGRAM_FIXTURE_H
#define ORR_TESTS_PROGRAM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { KB = 1024, GRAPH_NS = 5000, SYNC_NS = 1000, EVENT_NS = 500, LAUNCH_NS = 5000 };

struct machine {
    struct fixture f;
    struct orr_runtime *runtime;
    struct orr_stream *a, *b; /* compute streams of devices 0 and 1 */
    struct orr_stream *side;  /* communicate stream of device 0 */
};

static inline void start(struct machine *m) {
    fixture_start(&m->f);
    m->runtime = m->f.runtime;
    m->a = orr_device_stream(m->runtime, 0, ORR_STREAM_COMPUTE);
    m->b = orr_device_stream(m->runtime, 1, ORR_STREAM_COMPUTE);
    m->side = orr_device_stream(m->runtime, 0, ORR_STREAM_COMMUNICATE);
    assert_non_null(m->a);
    assert_non_null(m->b);
    assert_non_null(m->side);
}

static inline void prepare(struct machine *m) {
    fixture_prepare(&m->f, orr_sim_open, 2);
    for (int i = 0; i < 2; i++)
        m->f.specs[i].host_graph_ns = GRAPH_NS;
}

static inline void open_machine(struct machine *m) {
    prepare(m);
    start(m);
}

static inline void close_machine(struct machine *m) {
    fixture_close(&m->f);
}

static inline void ok(const struct machine *m, enum orr_status status) {
    if (status != ORR_OK)
        print_message("%s: %s\n", orr_status_text(status), fixture_error(&m->f));
    assert_int_equal(status, ORR_OK);
}

static inline void fails(const struct machine *m, enum orr_status status, enum orr_status expected,
                         const char *says) {
    assert_int_equal(status, expected);
    if (!strstr(fixture_error(&m->f), says))
        fail_msg("'%s' does not say '%s'", fixture_error(&m->f), says);
}

static inline struct orr_program *begin(struct machine *m) {
    struct orr_program *program;
    ok(m, orr_program_begin(m->runtime, &program));
    return program;
}

/* A kernel of exactly `ns` without memory. */
static inline struct orr_point work(struct machine *m, struct orr_stream *stream, const char *name,
                                    int64_t ns) {
    struct orr_kernel kernel = {
        .name = name, .dtype = ORR_DTYPE_NONE, .submit_ns = -1, .service_ns = ns};
    struct orr_point point;
    ok(m, orr_stream_kernel(stream, &kernel, &point));
    return point;
}

/* The `index`-th command record of a name, from 0, in the order of ids. */
static inline const struct orr_record_command *named(const struct machine *m, const char *name,
                                                     size_t index) {
    const struct orr_record_command *found = NULL;
    uint64_t after = 0;
    for (size_t k = 0; k <= index; k++) {
        found = NULL;
        for (size_t i = 0; i < record_count(&m->f, ORR_RECORD_COMMAND); i++) {
            const struct orr_record_command *c = record_at(&m->f, ORR_RECORD_COMMAND, i);
            const char *text = name_text(&m->f, c->name);
            size_t length = strlen(name); /* "record" also finds "record e1" */
            if (c->id > after && (!found || c->id < found->id) &&
                strncmp(text, name, length) == 0 && (text[length] == ' ' || text[length] == '\0'))
                found = c;
        }
        if (!found)
            fail_msg("there is no command '%s' number %zu", name, index);
        after = found->id;
    }
    return found;
}

static inline void assert_times(const struct orr_record_command *c, int64_t enqueue_ns,
                                int64_t enqueued_ns, int64_t start_ns, int64_t finish_ns) {
    assert_int_equal(c->enqueue_ns, enqueue_ns);
    assert_int_equal(c->enqueued_ns, enqueued_ns);
    assert_int_equal(c->start_ns, start_ns);
    assert_int_equal(c->finish_ns, finish_ns);
}

static inline struct orr_event *new_event(struct machine *m) {
    struct orr_event *event;
    ok(m, orr_event_create(m->runtime, NULL, &event));
    return event;
}

static inline struct orr_buffer *buffer(struct machine *m, struct orr_stream *stream,
                                        uint64_t bytes) {
    struct orr_buffer *buffer;
    ok(m, orr_buffer_alloc(stream, bytes, "buffer", &buffer));
    return buffer;
}

static inline struct orr_buffer *host_buffer(struct machine *m, uint64_t bytes) {
    struct orr_buffer *buffer;
    ok(m, orr_buffer_alloc_host(m->runtime, bytes, "host", &buffer));
    return buffer;
}

#endif
