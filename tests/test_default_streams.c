/* Default streams, pageable memory and synchronous copies (races.md rules 2-5, 16-18): what waits
 * for what, as an observer is told; and that it holds, in virtual time. */
#include <stdio.h>

#include "runtime/cpu/cpu.h"
#include "runtime/program.h"
#include "tests/runtime_fixture.h"
#include "tests/scenario_play.h"
#include "tests/told.h"

static void ok(enum orr_status status) {
    assert_int_equal(status, ORR_OK);
}

/* A device with a legacy stream 0, blocking streams 1 and 2, and a non-blocking one 3. */
struct streams {
    struct fixture f;
    struct told told;
    struct orr_stream *legacy, *s1, *s2, *nb;
};

static struct orr_stream *blocking(struct fixture *f, enum orr_stream_sync sync, const char *name) {
    struct orr_stream *stream;
    ok(orr_stream_create_blocking(f->runtime, 0, ORR_STREAM_COMPUTE, sync, name, &stream));
    return stream;
}

static void open_streams(struct streams *s, orr_backend_open open, enum orr_pageable pageable) {
    fixture_prepare(&s->f, open, 1);
    told_init(&s->told);
    s->f.config.observer = &s->told.observer;
    s->f.config.pageable = pageable;
    fixture_start(&s->f);
    s->legacy = orr_device_legacy_stream(s->f.runtime, 0);
    s->s1 = blocking(&s->f, ORR_STREAM_BL, "s1");
    s->s2 = blocking(&s->f, ORR_STREAM_PTDS, "s2");
    s->nb = blocking(&s->f, ORR_STREAM_NB, "nb");
    assert_string_equal(told_new(&s->told), "host 0 'host'\n"
                                            "stream 0 'legacy' device 0 legacy\n"
                                            "stream 1 's1' device 0 bl\n"
                                            "stream 2 's2' device 0 ptds\n"
                                            "stream 3 'nb' device 0 nb\n");
}

static void close_streams(struct streams *s) {
    fixture_close(&s->f);
    told_free(&s->told);
}

static void the_legacy_stream_is_a_barrier_between_blocking_ones(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, orr_sim_open, ORR_PAGEABLE_STRICT);
    launch(s.s1, "a", NULL, NULL);
    launch(s.nb, "n", NULL, NULL);
    launch(s.legacy, "b", NULL, NULL);
    launch(s.s2, "c", NULL, NULL);
    launch(s.s2, "d", NULL, NULL); /* comes after c: told once */
    launch(s.nb, "n", NULL, NULL);
    launch(s.legacy, "e", NULL, NULL);
    assert_string_equal(told_new(&s.told), "kernel 1 'a' host 0 stream 1:1\n"
                                           "kernel 2 'n' host 0 stream 3:1\n"
                                           "kernel 3 'b' host 0 stream 0:1 waits 1:1\n"
                                           "kernel 4 'c' host 0 stream 2:1 waits 0:1\n"
                                           "kernel 5 'd' host 0 stream 2:2\n"
                                           "kernel 6 'n' host 0 stream 3:2\n"
                                           "kernel 7 'e' host 0 stream 0:2 waits 2:2\n");
    ok(orr_runtime_finish(s.f.runtime));
    assert_true(command_record(&s.f, 3)->start_ns >= command_record(&s.f, 1)->finish_ns);
    assert_true(command_record(&s.f, 4)->start_ns >= command_record(&s.f, 3)->finish_ns);
    assert_true(command_record(&s.f, 7)->start_ns >= command_record(&s.f, 5)->finish_ns);
    assert_true(has_edge(&s.f, ORR_EDGE_EVENT, 1, 3));
    close_streams(&s);
}

/* A record in the legacy stream stands for the blocking streams, but orders nothing between them; a
 * wait there does. */
static void a_record_in_the_legacy_stream_is_no_barrier(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, orr_sim_open, ORR_PAGEABLE_STRICT);
    struct orr_event *e = create_event(&s.f, "e");
    launch(s.s1, "a", NULL, NULL);
    ok(orr_event_record(e, s.legacy));
    launch(s.s2, "b", NULL, NULL);
    ok(orr_stream_wait(s.nb, e));
    assert_string_equal(told_new(&s.told), "kernel 1 'a' host 0 stream 1:1\n"
                                           "record 2 'record e' host 0 stream 0:1 waits 1:1\n"
                                           "kernel 3 'b' host 0 stream 2:1\n"
                                           "wait 4 'wait e' host 0 stream 3:1 waits 0:1\n");
    ok(orr_stream_wait(s.legacy, e));
    launch(s.s1, "c", NULL, NULL);
    assert_string_equal(told_new(&s.told), "wait 5 'wait e' host 0 stream 0:2 waits 2:1 0:1\n"
                                           "kernel 6 'c' host 0 stream 1:2 waits 0:2\n");
    close_streams(&s);
}

/* A record in a blocking stream covers the legacy stream's earlier actions. */
static void a_record_in_a_blocking_stream_comes_after_the_legacy_one(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, orr_sim_open, ORR_PAGEABLE_STRICT);
    struct orr_event *e = create_event(&s.f, "e");
    launch(s.legacy, "a", NULL, NULL);
    ok(orr_event_record(e, s.s1));
    assert_string_equal(told_new(&s.told), "kernel 1 'a' host 0 stream 0:1\n"
                                           "record 2 'record e' host 0 stream 1:1 waits 0:1\n");
    close_streams(&s);
}

static void a_host_that_waits_for_one_waits_for_what_it_stands_for(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, manual_open, ORR_PAGEABLE_STRICT);
    launch(s.s1, "a", NULL, NULL);
    launch(s.nb, "n", NULL, NULL);
    told_new(&s.told);
    assert_int_equal(orr_stream_query(s.legacy), ORR_NOT_READY);
    ok(orr_stream_sync(s.legacy));
    assert_string_equal(told_new(&s.told), "observed host 0 0:0 1:1\n");
    ok(orr_stream_query(s.legacy));
    assert_string_equal(told_new(&s.told), "observed host 0 0:0 1:1\n");
    launch(s.legacy, "b", NULL, NULL);
    assert_int_equal(orr_stream_query(s.s2), ORR_NOT_READY);
    told_new(&s.told);
    ok(orr_stream_sync(s.s2)); /* nothing is in it; covers b, and with it a */
    assert_string_equal(told_new(&s.told), "observed host 0 2:0 0:1\n");
    ok(orr_stream_sync(s.nb));
    assert_string_equal(told_new(&s.told), "observed host 0 3:1\n");
    close_streams(&s);
}

static void a_destroyed_blocking_stream_is_still_waited_for(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, orr_sim_open, ORR_PAGEABLE_STRICT);
    launch(s.s1, "a", NULL, NULL);
    orr_stream_destroy(&s.s1);
    launch(s.legacy, "b", NULL, NULL);
    assert_string_equal(told_new(&s.told), "kernel 1 'a' host 0 stream 1:1\n"
                                           "kernel 2 'b' host 0 stream 0:1 waits 1:1\n");
    close_streams(&s);
}

static void there_is_one_legacy_stream_a_device(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_stream *first = orr_device_legacy_stream(f.runtime, 1), *second;
    assert_non_null(first);
    assert_ptr_equal(orr_device_legacy_stream(f.runtime, 1), first);
    assert_int_equal(orr_stream_create_blocking(f.runtime, 1, ORR_STREAM_COPY, ORR_STREAM_LEGACY,
                                                "other", &second),
                     ORR_INVALID);
    assert_string_equal(fixture_error(&f), "device 1 has its legacy default stream already");
    assert_null(orr_device_legacy_stream(f.runtime, 2));
    assert_string_equal(fixture_error(&f), "device 2 does not exist; there are 2");
    struct orr_stream *other = orr_device_legacy_stream(f.runtime, 0);
    struct orr_point point = launch(first, "a", NULL, NULL);
    launch(other, "b", NULL, NULL); /* of another device: waits for nothing */
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 0);
    assert_int_equal(point.seq, 1);
    fixture_close(&f);
}

/* Members of a collective wait for what their own streams stand for, and not for each other's. */
static void members_of_a_group_wait_in_their_own_streams(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    fixture_prepare(&f, orr_sim_open, 2);
    told_init(&told);
    f.config.observer = &told.observer;
    fixture_start(&f);
    struct orr_stream *streams[2] = {orr_device_legacy_stream(f.runtime, 0), communicate(&f, 1)};
    struct orr_stream *side = blocking(&f, ORR_STREAM_BL, "side");
    struct orr_communicator *comm;
    ok(orr_communicator_create(f.runtime, "c", (const uint32_t[]){0, 1}, 2, &comm));
    struct orr_piece pieces[2];
    for (int rank = 0; rank < 2; rank++)
        pieces[rank] = (struct orr_piece){alloc(streams[rank], 64, "x"), 0};
    launch(side, "a", NULL, NULL);
    told_new(&told);
    ok(orr_collective_enqueue(comm, ORR_COLLECTIVE_BROADCAST, ORR_DTYPE_F32, 16, 0, streams, pieces,
                              pieces, "b", 0, NULL));
    launch(side, "c", NULL, NULL);
    assert_string_equal(
        told_new(&told),
        "marker 4 'wait' host 0 stream 0:1 waits 2:1\n"
        "collective 5 'b' host 0 stream 0:2 r1[0:64] comm 0 rank 0 seq 0 of 2 broadcast\n"
        "collective 6 'b' host 0 stream 1:1 w2[0:64] comm 0 rank 1 seq 0 of 2 broadcast\n"
        "kernel 7 'c' host 0 stream 2:2 waits 0:2\n");
    ok(orr_runtime_finish(f.runtime));
    fixture_close(&f);
    told_free(&told);
}

static void the_legacy_stream_cannot_be_recorded(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, orr_sim_open, ORR_PAGEABLE_STRICT);
    struct orr_program *program;
    struct orr_kernel kernel = {.name = "k", .service_ns = 1, .submit_ns = -1};
    ok(orr_program_begin(s.f.runtime, &program));
    assert_int_equal(orr_stream_kernel(s.legacy, &kernel, NULL), ORR_UNSUPPORTED);
    assert_non_null(strstr(fixture_error(&s.f), "(code 900)"));
    ok(orr_stream_kernel(s.s1, &kernel, NULL));
    ok(orr_program_end(program));
    launch(s.s2, "a", NULL, NULL);
    launch(s.legacy, "b", NULL, NULL);
    told_new(&s.told);
    ok(orr_program_launch(program, s.s1)); /* the launch is an action of s1, its nodes follow it */
    launch(s.legacy, "c", NULL, NULL);
    assert_string_equal(told_new(&s.told), "graph 3 'graph launch' host 0 stream 1:1 waits 0:1\n"
                                           "kernel 4 'k' host 0 stream 1:2\n"
                                           "kernel 5 'c' host 0 stream 0:2 waits 1:2\n");
    orr_program_destroy(&program);
    close_streams(&s);
}

/* --- host memory --- */

static void check_synchronous_copies(orr_backend_open open) {
    struct streams s;
    open_streams(&s, open, ORR_PAGEABLE_STRICT);
    struct orr_runtime *r = s.f.runtime;
    struct orr_buffer *pageable, *pinned = alloc_host(&s.f, 8, "pinned");
    ok(orr_buffer_alloc_pageable(r, 8, "pageable", &pageable));
    struct orr_buffer *a = alloc(s.legacy, 8, "a"), *b = alloc(s.legacy, 8, "b");
    launch(s.s1, "k", NULL, NULL);
    told_new(&s.told);
    ok(orr_device_copy_sync(r, 0, a, 0, pinned, 0, 8));
    assert_string_equal(told_new(&s.told),
                        "copy 6 'copy' host 0 stream 0:1 r1[0:8] w3[0:8] waits 1:1\n"
                        "observed host 0 0:1 1:1\n");
    ok(orr_device_copy_sync(r, 0, b, 0, a, 0, 8));
    assert_string_equal(told_new(&s.told), "copy 7 'copy' host 0 stream 0:2 r3[0:8] w4[0:8]\n");
    ok(orr_device_copy_sync(r, 0, pageable, 0, b, 0, 8));
    assert_string_equal(told_new(&s.told), "copy 8 'copy' host 0 stream 0:3 r4[0:8] w2[0:8]\n"
                                           "observed host 0 0:3 1:1\n");
    ok(orr_device_copy_sync(r, 0, a, 4, pageable, 0, 4));
    assert_string_equal(told_new(&s.told), "observed host 0 0:3 1:1\n"
                                           "buffer 5 'staging' at 3:0+4 cmd 9 host 0\n"
                                           "hostread 10 'hostread' host 0 r2[0:4]\n"
                                           "copy 11 'copy' host 0 stream 0:4 r5[0:4] w3[4:8]\n"
                                           "free 5 cmd 12 host 0\n");
    ok(orr_device_copy_sync(r, 0, pinned, 0, pageable, 0, 8));
    assert_string_equal(told_new(&s.told), "copy 13 'copy' host 0 stream 0:5 r2[0:8] w1[0:8]\n"
                                           "observed host 0 0:5 1:1\n");
    ok(orr_device_fill_sync(r, 0, a, 0, 8, 1));
    ok(orr_device_fill_sync(r, 0, pageable, 0, 8, 1));
    assert_string_equal(told_new(&s.told), "fill 14 'fill' host 0 stream 0:6 w3[0:8]\n"
                                           "fill 15 'fill' host 0 stream 0:7 w2[0:8]\n");
    ok(orr_device_fill_sync(r, 0, pinned, 0, 8, 1));
    assert_string_equal(told_new(&s.told), "fill 16 'fill' host 0 stream 0:8 w1[0:8]\n"
                                           "observed host 0 0:8 1:1\n");
    assert_int_equal(orr_device_copy_sync(r, 0, a, 4, pageable, 0, 8), ORR_INVALID);
    assert_int_equal(orr_device_copy_sync(r, 7, a, 4, pageable, 0, 4), ORR_INVALID);
    assert_string_equal(told_new(&s.told), "");
    close_streams(&s);
}

/* The host layer does it all: every backend gets the same. */
static void synchronous_copies_wait_as_their_ends_say(void **state) {
    (void)state;
    check_synchronous_copies(orr_sim_open);
    check_synchronous_copies(orr_cpu_open);
}

static void asynchronous_copies_of_host_memory(void **state) {
    (void)state;
    for (int staged = 0; staged < 2; staged++) {
        struct streams s;
        open_streams(&s, orr_sim_open, staged ? ORR_PAGEABLE_STAGED : ORR_PAGEABLE_STRICT);
        struct orr_buffer *a = alloc(s.nb, 8, "a"), *pageable, *pinned = alloc_host(&s.f, 8, "p");
        ok(orr_buffer_alloc_pageable(s.f.runtime, 8, "pageable", &pageable));
        told_new(&s.told);
        ok(orr_stream_copy(s.nb, a, 0, pinned, 0, 8));
        ok(orr_stream_copy(s.nb, pageable, 0, a, 0, 8));
        assert_string_equal(told_new(&s.told), "copy 4 'copy' host 0 stream 3:1 r2[0:8] w1[0:8]\n"
                                               "copy 5 'copy' host 0 stream 3:2 r1[0:8] w3[0:8]\n");
        ok(orr_stream_copy(s.nb, pinned, 0, pageable, 0, 8));
        assert_string_equal(told_new(&s.told), "copy 6 'copy' host 0 stream 3:3 r3[0:8] w2[0:8]\n"
                                               "observed host 0 3:3\n");
        ok(orr_stream_copy(s.nb, a, 0, pageable, 0, 8));
        assert_string_equal(told_new(&s.told),
                            staged ? "buffer 4 'staging' at 3:0+8 cmd 7 host 0\n"
                                     "hostread 8 'hostread' host 0 r3[0:8]\n"
                                     "copy 9 'copy' host 0 stream 3:4 r4[0:8] w1[0:8]\n"
                                     "free 4 cmd 10 host 0\n"
                                   : "copy 7 'copy' host 0 stream 3:4 r3[0:8] w1[0:8]\n");
        close_streams(&s);
    }
}

/* What is undefined stays undefined on its way through a staging buffer. */
static void staging_hands_on_what_it_read(void **state) {
    (void)state;
    struct streams s;
    open_streams(&s, orr_sim_open, ORR_PAGEABLE_STAGED);
    struct orr_buffer *a = alloc(s.nb, 8, "a"), *from, *to = alloc_host(&s.f, 8, "to");
    ok(orr_buffer_alloc_pageable(s.f.runtime, 8, "from", &from));
    ok(orr_stream_copy(s.nb, a, 0, from, 0, 8)); /* 4 alloc, 5 read, 6 copy, 7 free */
    uint64_t value = 42, got = 0;
    ok(orr_buffer_write(from, 0, &value, 8, -1)); /* 8 */
    ok(orr_stream_copy(s.nb, a, 0, from, 0, 8));  /* 9 .. 12 */
    value = 43;
    ok(orr_buffer_write(from, 0, &value, 8, -1)); /* 13: too late to matter */
    ok(orr_stream_copy(s.nb, to, 0, a, 0, 8));
    ok(orr_stream_sync(s.nb));
    ok(orr_buffer_read(to, 0, &got, 8, -1));
    assert_int_equal(got, 42);
    assert_int_equal(status_of(&s.f, 5), ORR_COMMAND_STATUS_POISONED);
    assert_int_equal(status_of(&s.f, 6), ORR_COMMAND_STATUS_POISONED);
    assert_int_equal(status_of(&s.f, 11), ORR_COMMAND_STATUS_OK);
    close_streams(&s);
}

/* --- in scenarios --- */

/* Several hosts block in the middle of copies that have steps; each step happens once. */
static void a_blocked_copy_goes_on_where_it_stopped(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play,
                 "local d = orrery.device(0)\n"
                 "orrery.host(function(rank)\n"
                 "    local s = d:stream('s' .. rank, { sync = 'bl' })\n"
                 "    local from = orrery.host_alloc(64, { label = 'from', pageable = true })\n"
                 "    local to, a = orrery.host_alloc(64, 'to'), s:alloc(64)\n"
                 "    from:write(rank)\n"
                 "    for i = 1, 5 do\n"
                 "        s:kernel{ ns = 700 }\n"
                 "        s:copy{ to = a, from = from }\n"
                 "        d:copy_sync{ to = a, from = from }\n"
                 "        d:copy_sync{ to = to, from = a }\n"
                 "        s:copy{ to = from, from = to }\n"
                 "        d:fill_sync{ to = to }\n"
                 "        assert(from:f32(1) == rank and to:f32(0) == 0)\n"
                 "    end\n"
                 "end, 3)\n",
                 1);
    play.fixture.config.pageable = ORR_PAGEABLE_STAGED;
    play_run(&play);
    assert_string_equal(play.error.text, "");
    size_t copies = 0, fills = 0, staging = 0;
    for (size_t i = 0; i < record_count(&play.fixture, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *c = record_at(&play.fixture, ORR_RECORD_COMMAND, i);
        copies += c->header.a == ORR_COMMAND_COPY;
        fills += c->header.a == ORR_COMMAND_FILL;
        assert_int_equal(c->header.c, ORR_COMMAND_STATUS_OK);
    }
    for (size_t i = 0; i < record_count(&play.fixture, ORR_RECORD_BUFFER); i++) {
        const struct orr_record_buffer *b = record_at(&play.fixture, ORR_RECORD_BUFFER, i);
        staging += strcmp(name_text(&play.fixture, b->label), "staging") == 0;
    }
    assert_int_equal(copies, 3 * 5 * 4);
    assert_int_equal(fills, 3 * 5);
    assert_int_equal(staging, 3 * 5 * 2);
    play_end(&play);
}

static void streams_of_scenarios_say_how_they_are_ordered(void **state) {
    (void)state;
    expect_printed("local d = orrery.device(0)\n"
                   "local s = d:stream('s', { kind = 'copy', sync = 'bl' })\n"
                   "print(s == d:stream('s'), s == d:stream('s', { sync = 'bl' }), d:legacy(),\n"
                   "    d:legacy() == d:stream('legacy'))\n",
                   "true\ttrue\tstream legacy of device 0\ttrue\n");
    expect_failure("orrery.device(0):stream('s', { sync = 'legacy' })",
                   "demo.lua:1: stream: the legacy default stream is d:legacy()");
    expect_failure("orrery.device(0):stream('s', { sync = 'blocking' })",
                   "demo.lua:1: unknown sync of a stream 'blocking'; known: nb, bl, ptds");
    expect_failure("orrery.device(0):stream('s') orrery.device(0):stream('s', { sync = 'bl' })",
                   "demo.lua:1: stream: 's' is there already, and its sync is \"nb\"");
    expect_failure("orrery.device(0):stream('copy', { sync = 'bl' })",
                   "demo.lua:1: stream: the device's own streams are \"nb\"");
    expect_failure("orrery.device(0):stream('legacy') orrery.device(0):legacy()",
                   "demo.lua:1: device 0 has a stream 'legacy' already");
    expect_failure("orrery.host_alloc(8, { pageable = 1 })",
                   "demo.lua:1: host_alloc: pageable: expected true or false, got number");
}

/* --- without memory --- */

static void run_with_failures(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec spec = spec_for_tests();
    struct orr_runtime_config config = {.memory = &memory->table,
                                        .open = orr_sim_open,
                                        .specs = &spec,
                                        .device_count = 1,
                                        .pageable = ORR_PAGEABLE_STAGED};
    struct orr_runtime *runtime;
    struct orr_error error = {0};
    enum orr_status status = orr_runtime_create(&config, &runtime, &error);
    struct orr_stream *legacy = NULL, *s = NULL;
    struct orr_buffer *from = NULL, *a = NULL;
    if (status == ORR_OK)
        legacy = orr_device_legacy_stream(runtime, 0);
    if (legacy)
        status = orr_stream_create_blocking(runtime, 0, ORR_STREAM_COPY, ORR_STREAM_BL, "s", &s);
    if (s)
        status = orr_buffer_alloc_pageable(runtime, 64, "from", &from);
    if (from)
        status = orr_buffer_alloc(s, 64, "a", &a);
    if (a)
        status = orr_stream_copy(s, a, 0, from, 0, 64);
    if (a && status == ORR_OK)
        status = orr_device_copy_sync(runtime, 0, from, 0, a, 0, 64);
    if (a && status == ORR_OK)
        status = orr_device_copy_sync(runtime, 0, a, 0, from, 0, 64);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    if (runtime)
        (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
    orr_error_clear(&error);
}

static void without_memory_a_copy_leaves_nothing_behind(void **state) {
    (void)state;
    assert_true(fail_each_request(run_with_failures, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_legacy_stream_is_a_barrier_between_blocking_ones),
        cmocka_unit_test(a_record_in_the_legacy_stream_is_no_barrier),
        cmocka_unit_test(a_record_in_a_blocking_stream_comes_after_the_legacy_one),
        cmocka_unit_test(a_host_that_waits_for_one_waits_for_what_it_stands_for),
        cmocka_unit_test(a_destroyed_blocking_stream_is_still_waited_for),
        cmocka_unit_test(there_is_one_legacy_stream_a_device),
        cmocka_unit_test(members_of_a_group_wait_in_their_own_streams),
        cmocka_unit_test(the_legacy_stream_cannot_be_recorded),
        cmocka_unit_test(synchronous_copies_wait_as_their_ends_say),
        cmocka_unit_test(asynchronous_copies_of_host_memory),
        cmocka_unit_test(staging_hands_on_what_it_read),
        cmocka_unit_test(a_blocked_copy_goes_on_where_it_stopped),
        cmocka_unit_test(streams_of_scenarios_say_how_they_are_ordered),
        cmocka_unit_test(without_memory_a_copy_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("default streams", tests, NULL, NULL);
}
