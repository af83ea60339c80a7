/* Random programs over streams of all kinds, host memory and copies: what a run of them is found to
 * be by the monitor, from the waits that the runtime puts in, is what the happens-before oracle
 * says of the same operations as a stream program, whose rules for default streams are its own. So
 * is what the trace of the run is found to be, of some of them.
 *
 *     ORR_TEST_SEED=1 build/release/tests/test_default_random [PROGRAMS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hazards/check.h"
#include "hazards/monitor.h"
#include "tests/program_text.h"
#include "tests/runtime_fixture.h"
#include "trace/observe.h"
#include "trace/sqlite_sink.h"

enum {
    STREAMS = 6,
    EVENTS = 3,
    BUFFERS = 6,
    BYTES = 8,
    OPS_MAX = 12,
    TEXT_MAX = 4096,
    TRACED_EVERY = 50
};

static const struct {
    const char *name, *kind;
    enum orr_stream_sync sync;
    uint32_t device;
} streams[STREAMS] = {{"L0", "legacy", ORR_STREAM_LEGACY, 0}, {"A", "bl", ORR_STREAM_BL, 0},
                      {"B", "ptds", ORR_STREAM_PTDS, 0},      {"N", "nb", ORR_STREAM_NB, 0},
                      {"L1", "legacy", ORR_STREAM_LEGACY, 1}, {"C", "bl", ORR_STREAM_BL, 1}};

enum where { DEVICE_0, DEVICE_1, PINNED, PAGEABLE };
static const struct {
    const char *name;
    enum where where;
} buffers[BUFFERS] = {{"X", DEVICE_0}, {"Y", DEVICE_0}, {"Z", DEVICE_1},
                      {"P", PINNED},   {"Q", PINNED},   {"G", PAGEABLE}};

/* A program that grows, as text and as a run. */
struct program {
    struct fixture f;
    struct orr_monitor *monitor;
    uint64_t state;
    struct orr_stream *streams[STREAMS];
    struct orr_buffer *buffers[BUFFERS];
    struct orr_event *events[EVENTS];
    char text[TEXT_MAX];
    size_t length;
    char path[64]; /* of its trace; "": it leaves none */
};

static uint64_t below(struct program *p, uint64_t count) {
    return random_below(&p->state, count);
}

__attribute__((format(printf, 2, 3))) static void say(struct program *p, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(p->text + p->length, TEXT_MAX - p->length, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && p->length + (size_t)length < TEXT_MAX);
    p->length += (size_t)length;
}

static void ok(enum orr_status status) {
    assert_int_equal(status, ORR_OK);
}

/* --- creation --- */

static struct orr_stream *make_stream(struct program *p, int i) {
    struct orr_stream *stream;
    say(p, "stream %s %s %u; ", streams[i].name, streams[i].kind, (unsigned)streams[i].device);
    ok(orr_stream_create_blocking(p->f.runtime, streams[i].device, ORR_STREAM_COMPUTE,
                                  streams[i].sync, streams[i].name, &stream));
    return stream;
}

static struct orr_buffer *make_buffer(struct program *p, int i) {
    struct orr_buffer *buffer;
    const char *name = buffers[i].name;
    switch (buffers[i].where) {
    case PINNED:
        say(p, "buffer %s pinned; ", name);
        ok(orr_buffer_alloc_host(p->f.runtime, BYTES, name, &buffer));
        return buffer;
    case PAGEABLE:
        say(p, "buffer %s pageable; ", name);
        ok(orr_buffer_alloc_pageable(p->f.runtime, BYTES, name, &buffer));
        return buffer;
    case DEVICE_0: return alloc(p->streams[3], BYTES, name);
    case DEVICE_1: return alloc(p->streams[5], BYTES, name);
    }
    return NULL;
}

static void open_trace(struct program *p) {
    snprintf(p->path, sizeof p->path, "/tmp/orrery-default-%ld.db", (long)getpid());
    ok(orr_sqlite_sink_open(p->path, NULL, &p->f.memory.table, &p->f.config.sink, &p->f.error));
}

static void begin(struct program *p, uint64_t seed, bool traced) {
    memset(p, 0, sizeof *p);
    p->state = seed;
    fixture_prepare(&p->f, orr_sim_open, 2);
    ok(orr_monitor_create(&p->f.memory.table, NULL, &p->monitor));
    p->f.config.observer = orr_monitor_observer(p->monitor);
    p->f.config.pageable = below(p, 2) ? ORR_PAGEABLE_STAGED : ORR_PAGEABLE_STRICT;
    p->f.config.sink = NULL;
    if (traced)
        open_trace(p);
    fixture_start(&p->f);
    if (p->f.config.pageable == ORR_PAGEABLE_STAGED)
        say(p, "option staged; ");
    for (int i = 0; i < STREAMS; i++)
        p->streams[i] = make_stream(p, i);
    for (int i = 0; i < BUFFERS; i++)
        p->buffers[i] = make_buffer(p, i);
    for (int i = 0; i < EVENTS; i++)
        p->events[i] = create_event(&p->f, NULL);
}

/* --- operations --- */

static bool is_host(int buffer) {
    return buffers[buffer].where >= PINNED;
}

/* Any buffer, or one that a kernel of the device may use; its range is all or a half. */
static int draw_range(struct program *p, uint32_t device, enum orr_access_mode mode,
                      struct orr_range *out_range) {
    int buffer;
    do {
        buffer = (int)below(p, BUFFERS);
    } while (device != ORR_ID_NONE && !is_host(buffer) &&
             (uint32_t)buffers[buffer].where != device);
    uint64_t part = below(p, 3);
    *out_range = (struct orr_range){p->buffers[buffer], part == 2 ? BYTES / 2 : 0,
                                    part == 0 ? BYTES : BYTES / 2, mode};
    return buffer;
}

static void say_range(struct program *p, const char *before, int buffer,
                      const struct orr_range *range) {
    say(p, "%s%s[%llu:%llu]", before, buffers[buffer].name, (unsigned long long)range->offset,
        (unsigned long long)(range->offset + range->bytes));
}

static void add_kernel(struct program *p) {
    int s = (int)below(p, STREAMS);
    struct orr_range range;
    bool writes = below(p, 2);
    int buffer =
        draw_range(p, streams[s].device, writes ? ORR_ACCESS_WRITE : ORR_ACCESS_READ, &range);
    struct orr_kernel kernel = {
        .name = "k", .accesses = &range, .access_count = 1, .service_ns = 1, .submit_ns = -1};
    say(p, "k %s ", streams[s].name);
    say_range(p, writes ? "w:" : "r:", buffer, &range);
    ok(orr_stream_kernel(p->streams[s], &kernel, NULL));
}

static void add_fill(struct program *p) {
    struct orr_range range;
    int s = (int)below(p, STREAMS);
    bool sync = below(p, 2);
    int buffer = draw_range(p, streams[s].device, ORR_ACCESS_WRITE, &range);
    if (sync)
        say(p, "mssync ");
    else
        say(p, "ms %s ", streams[s].name);
    say_range(p, "", buffer, &range);
    if (sync)
        say(p, " dev=%u", (unsigned)streams[s].device);
    ok(sync ? orr_device_fill_sync(p->f.runtime, streams[s].device, range.buffer, range.offset,
                                   range.bytes, 1)
            : orr_stream_fill(p->streams[s], range.buffer, range.offset, range.bytes, 1));
}

static void add_copy(struct program *p) {
    struct orr_range to, from;
    int s = (int)below(p, STREAMS);
    bool sync = below(p, 2);
    int target = draw_range(p, ORR_ID_NONE, ORR_ACCESS_WRITE, &to);
    int source = draw_range(p, ORR_ID_NONE, ORR_ACCESS_READ, &from);
    if (target == source)
        return;
    uint64_t bytes = to.bytes < from.bytes ? to.bytes : from.bytes;
    to.bytes = from.bytes = bytes;
    if (sync)
        say(p, "cpsync ");
    else
        say(p, "cp %s ", streams[s].name);
    say_range(p, "", target, &to);
    say_range(p, "<", source, &from);
    if (sync)
        say(p, " dev=%u", (unsigned)streams[s].device);
    ok(sync
           ? orr_device_copy_sync(p->f.runtime, streams[s].device, to.buffer, to.offset,
                                  from.buffer, from.offset, bytes)
           : orr_stream_copy(p->streams[s], to.buffer, to.offset, from.buffer, from.offset, bytes));
}

static void add_host_access(struct program *p) {
    struct orr_range range;
    char bytes[BYTES] = {0};
    int buffer;
    do {
        buffer = draw_range(p, ORR_ID_NONE, ORR_ACCESS_READ, &range);
    } while (!is_host(buffer));
    bool writes = below(p, 2);
    say_range(p, writes ? "hw " : "hr ", buffer, &range);
    ok(writes ? orr_buffer_write(range.buffer, range.offset, bytes, range.bytes, -1)
              : orr_buffer_read(range.buffer, range.offset, bytes, range.bytes, -1));
}

static void add_order(struct program *p) {
    int s = (int)below(p, STREAMS), e = (int)below(p, EVENTS);
    switch (below(p, 6)) {
    case 0:
    case 1:
        say(p, "rec e%d %s", e, streams[s].name);
        ok(orr_event_record(p->events[e], p->streams[s]));
        return;
    case 2:
    case 3:
        say(p, "wait %s e%d", streams[s].name, e);
        ok(orr_stream_wait(p->streams[s], p->events[e]));
        return;
    case 4:
        say(p, "esync e%d", e);
        ok(orr_event_sync(p->events[e]));
        return;
    default:
        if (below(p, 4) > 0) {
            say(p, "ssync %s", streams[s].name);
            ok(orr_stream_sync(p->streams[s]));
        } else {
            say(p, "dsync %u", (unsigned)streams[s].device);
            ok(orr_device_sync(p->f.runtime, streams[s].device));
        }
    }
}

static void add_operation(struct program *p) {
    switch (below(p, 8)) {
    case 0:
    case 1:
    case 2: add_kernel(p); break;
    case 3: add_fill(p); break;
    case 4: add_copy(p); break;
    case 5: add_host_access(p); break;
    default: add_order(p); break;
    }
    say(p, "; ");
}

/* --- both answers --- */

static bool has_race(const struct orr_monitor *monitor) {
    for (size_t i = 0; i < orr_monitor_finding_count(monitor); i++) {
        struct orr_monitor_finding finding;
        orr_monitor_finding(monitor, i, &finding);
        if (finding.kind == ORR_MONITOR_RACE)
            return true;
    }
    return false;
}

static bool oracle_says_race(struct program *p, uint64_t seed) {
    struct orr_stream_program *program = stream_program_of(&p->f.memory.table, p->text);
    struct orr_check_verdict verdict;
    ok(orr_stream_program_check(program, NULL, &verdict));
    if (verdict.kind != ORR_CHECK_RACE && verdict.kind != ORR_CHECK_NO_RACE)
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed,
                 orr_check_verdict_text(verdict.kind), p->text);
    bool race = verdict.kind == ORR_CHECK_RACE;
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
    return race;
}

/* The run has ended. */
static bool trace_has_race(struct program *p) {
    const struct orr_memory *memory = &p->f.memory.table;
    struct orr_timeline *timeline;
    struct orr_monitor *monitor;
    struct orr_names *names;
    ok(p->f.config.sink->close(p->f.config.sink, "ok", &p->f.error));
    ok(orr_timeline_read(p->path, memory, &timeline, &p->f.error));
    ok(orr_monitor_create(memory, NULL, &monitor));
    ok(orr_timeline_observe(timeline, orr_monitor_observer(monitor), memory, &names, &p->f.error));
    bool race = has_race(monitor);
    orr_monitor_destroy(&monitor);
    orr_names_destroy(&names);
    orr_timeline_destroy(&timeline);
    unlink(p->path);
    return race;
}

static bool check_program(uint64_t seed, bool traced) {
    struct program p;
    begin(&p, seed, traced);
    uint64_t count = 2 + below(&p, OPS_MAX - 1);
    for (uint64_t i = 0; i < count; i++)
        add_operation(&p);
    bool race = has_race(p.monitor), wanted = oracle_says_race(&p, seed);
    if (race != wanted)
        fail_msg("seed %llu: the run %s, the oracle says %s: %s", (unsigned long long)seed,
                 race ? "races" : "does not race", wanted ? "race" : "no-race", p.text);
    ok(orr_runtime_finish(p.f.runtime));
    orr_runtime_destroy(&p.f.runtime);
    orr_monitor_destroy(&p.monitor);
    if (traced && trace_has_race(&p) != wanted)
        fail_msg("seed %llu: the trace says otherwise: %s", (unsigned long long)seed, p.text);
    fixture_close(&p.f);
    return race;
}

static uint64_t programs = 2000;

static void runs_race_as_the_oracle_says(void **state) {
    (void)state;
    uint64_t seed = random_seed(20261130), races = 0;
    for (uint64_t i = 0; i < programs; i++)
        races += check_program(seed * 1000000 + i + 1, i % TRACED_EVERY == 0);
    print_message("%llu programs, %llu with races\n", (unsigned long long)programs,
                  (unsigned long long)races);
    assert_in_range(races, programs / 10, programs - programs / 10);
}

int main(int argc, char **argv) {
    if (argc > 1)
        programs = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_race_as_the_oracle_says)};
    return cmocka_run_group_tests_name("default streams at random", tests, NULL, NULL);
}
