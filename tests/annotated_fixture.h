/* Timelines by hand with annotations, calls and processes: what other tools' traces have beside
 * those of our own. On top of timeline_fixture.h.
 *
 *     struct annotated t;
 *     annotated_start(&t);                        // threads 0, 1 of process 7 and 2, 3 of 8
 *     annotated_slice(&t, 0, "step 1", 0, 100);
 *     ... fixture_timeline(&t.f) ...
 *     annotated_finish(&t);
 *
 * Threads: one. */
#ifndef ORR_TESTS_ANNOTATED_FIXTURE_H
#define ORR_TESTS_ANNOTATED_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/timeline_fixture.h"

enum { ANNOTATED_MAX = 512 };

struct annotated {
    struct fixture f;
    struct orr_timeline_slice slices[ANNOTATED_MAX];
    struct orr_timeline_call calls[ANNOTATED_MAX];
};

static inline void annotated_start(struct annotated *t) {
    memset(t, 0, sizeof *t);
    fixture_init(&t->f);
    for (unsigned h = 0; h < 4; h++) {
        fixture_host(&t->f, "thread");
        t->f.timeline.hosts[h].process = 7 + h / 2;
    }
    t->f.timeline.slices = t->slices;
    t->f.timeline.calls = t->calls;
}

/* Returns the row, to change it. */
static inline struct orr_timeline_slice *annotated_slice(struct annotated *t, uint32_t host,
                                                         const char *name, int64_t begin_ns,
                                                         int64_t end_ns) {
    assert_true(t->f.timeline.slice_count < ANNOTATED_MAX);
    struct orr_timeline_slice *slice = &t->slices[t->f.timeline.slice_count++];
    *slice = (struct orr_timeline_slice){.begin_ns = begin_ns,
                                         .end_ns = end_ns,
                                         .name = name,
                                         .host = host,
                                         .stream = ORR_ID_NONE,
                                         .kind = ORR_SLICE_ANNOTATION};
    return slice;
}

/* A call with its correlation; returns its id. */
static inline uint64_t annotated_call(struct annotated *t, uint32_t host, const char *name,
                                      int64_t begin_ns, int64_t end_ns) {
    assert_true(t->f.timeline.call_count < ANNOTATED_MAX);
    uint64_t id = t->f.timeline.call_count + 1;
    t->calls[t->f.timeline.call_count++] = (struct orr_timeline_call){.id = id,
                                                                      .merged = id,
                                                                      .correlation = id,
                                                                      .name = name,
                                                                      .begin_ns = begin_ns,
                                                                      .end_ns = end_ns,
                                                                      .host = host};
    return id;
}

static inline void annotated_finish(struct annotated *t) {
    t->f.timeline.slices = NULL;
    t->f.timeline.calls = NULL;
    t->f.timeline.slice_count = t->f.timeline.call_count = 0;
    fixture_free(&t->f);
}

/* Memory that counts its blocks and fails one request. */
struct annotated_memory {
    size_t requests, fail_at, live;
};

static inline void *annotated_resize(void *context, void *block, size_t size) {
    struct annotated_memory *m = context;
    if (size == 0) {
        m->live -= block != NULL;
        free(block);
        return NULL;
    }
    if (++m->requests == m->fail_at) {
        return NULL;
    }
    void *resized = realloc(block, size);
    m->live += resized && !block;
    return resized;
}

/* Runs `use` with the 1st, 2nd, ... request failing until a run asks for fewer: it must then return
 * ORR_NO_MEMORY, and leave nothing behind. Returns how many requests a whole run has. */
static inline size_t annotated_fail_each(const struct annotated *t,
                                         enum orr_status (*use)(const struct annotated *t,
                                                                const struct orr_memory *m)) {
    struct annotated_memory state = {.fail_at = 1};
    struct orr_memory memory = {annotated_resize, &state};
    for (bool failed = true; failed; state.fail_at++) {
        state.requests = 0;
        enum orr_status status = use(t, &memory);
        failed = state.requests >= state.fail_at;
        assert_int_equal(status, failed ? ORR_NO_MEMORY : ORR_OK);
        assert_int_equal(state.live, 0);
    }
    return state.requests;
}

#endif
