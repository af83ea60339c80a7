/* What a runtime tells an observer: every call that orders work or touches memory, in order of
 * calls, with all that it waits for. */
#include <stdio.h>

#include "runtime/program.h"
#include "tests/runtime_fixture.h"
#include "tests/scenario_play.h"
#include "tests/told.h"

static void open_told(struct fixture *f, struct told *told, orr_backend_open open,
                      uint32_t device_count) {
    fixture_prepare(f, open, device_count);
    told_init(told);
    f->config.observer = &told->observer;
    fixture_start(f);
}

static void close_told(struct fixture *f, struct told *told) {
    fixture_close(f);
    told_free(told);
}

static void ok(enum orr_status status) {
    assert_int_equal(status, ORR_OK);
}

static void commands_are_told_with_ranges_and_waits(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 100, "a"), *b = alloc(s, 100, "b");
    assert_string_equal(told_new(&told), "host 0 'host'\n"
                                         "stream 0 'compute' device 0 nb\n"
                                         "stream 1 'communicate' device 0 nb\n"
                                         "buffer 1 'a' at 0:0+100 cmd 1 stream 0 host 0\n"
                                         "buffer 2 'b' at 0:512+100 cmd 2 stream 0 host 0\n");
    struct orr_event *e = create_event(&f, "e");
    launch(s, "k", NULL, a);
    ok(orr_event_record(e, s));
    ok(orr_stream_wait(t, e));
    ok(orr_stream_copy(t, b, 16, a, 32, 8));
    ok(orr_stream_fill(t, b, 4, 8, 1));
    assert_string_equal(told_new(&told), "kernel 3 'k' host 0 stream 0:1 w1[0:100]\n"
                                         "record 4 'record e' host 0 stream 0:2\n"
                                         "wait 5 'wait e' host 0 stream 1:1 waits 0:2\n"
                                         "copy 6 'copy' host 0 stream 1:2 r1[32:40] w2[16:24]\n"
                                         "fill 7 'fill' host 0 stream 1:3 w2[4:12]\n");
    set_site(&f, "main.lua:9");
    orr_buffer_free(&a);
    assert_string_equal(told_new(&told), "free 1 cmd 8 host 0 site main.lua:9\n");
    close_told(&f, &told);
}

static void nothing_is_told_of_a_call_that_failed(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *a = alloc(s, 100, "a");
    told_new(&told);
    manual_of(f.runtime)->block_acts = 1;
    struct orr_kernel kernel = {.name = "k", .service_ns = 1, .submit_ns = -1};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_BLOCKED);
    assert_int_equal(orr_stream_fill(s, a, 99, 2, 0), ORR_INVALID);
    assert_string_equal(told_new(&told), "");
    ok(orr_stream_kernel(s, &kernel, NULL));
    assert_string_equal(told_new(&told), "kernel 2 'k' host 0 stream 0:1\n");
    close_told(&f, &told);
}

static void a_command_that_retires_within_its_submit_is_told_whole(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *a = alloc(s, 100, "a");
    manual_of(f.runtime)->retire_in_submit = true;
    told_new(&told);
    launch(s, "k", a, NULL);
    launch(s, "l", NULL, a);
    assert_string_equal(told_new(&told), "kernel 2 'k' host 0 stream 0:1 r1[0:100]\n"
                                         "kernel 3 'l' host 0 stream 0:2 w1[0:100]\n");
    close_told(&f, &told);
}

static void whatever_the_host_has_seen_is_told(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_event *e = create_event(&f, "e");
    launch(s, "k", NULL, NULL);
    ok(orr_event_record(e, s));
    launch(s, "l", NULL, NULL);
    launch(t, "m", NULL, NULL);
    told_new(&told);
    assert_int_equal(orr_event_query(e), ORR_NOT_READY);
    assert_string_equal(told_new(&told), "");
    ok(orr_event_sync(e));
    assert_string_equal(told_new(&told), "observed host 0 0:2\n");
    ok(orr_stream_sync(t));
    assert_string_equal(told_new(&told), "observed host 0 1:1\n");
    ok(orr_event_query(e));
    assert_string_equal(told_new(&told), "observed host 0 0:2\n");
    ok(orr_device_sync(f.runtime, 0));
    assert_string_equal(told_new(&told), "observed host 0 0:3 1:1\n");
    ok(orr_runtime_finish(f.runtime));
    assert_string_equal(told_new(&told), "observed host 0 0:3 1:1\n");
    close_told(&f, &told);
}

static void of_any_points_the_host_knows_one(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_point points[] = {launch(s, "k", NULL, NULL), launch(t, "l", NULL, NULL),
                                 launch(t, "m", NULL, NULL)};
    manual_finish(manual_of(f.runtime), 1);
    manual_finish(manual_of(f.runtime), 1);
    told_new(&told);
    uint32_t index;
    ok(orr__runtime_wait(f.runtime, points, 3, ORR_WAIT_ANY, ORR_TIME_MAX, ORR_SYNC_FUTURE, 0,
                         &index));
    assert_int_equal(index, 1);
    assert_string_equal(told_new(&told), "observed host 0 1:1\n");
    close_told(&f, &told);
}

static void reused_bytes_come_after_what_they_were_held_for(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 1 << 20, "a");
    launch(t, "k", a, NULL);
    ok(orr_buffer_record_stream(a, t));
    ok(orr_buffer_record_stream(a, s)); /* its own stream: says nothing */
    launch(t, "l", NULL, NULL);
    orr_buffer_free(&a);
    launch(t, "m", NULL, NULL);
    for (int i = 0; i < 3; i++)
        manual_finish(manual_of(f.runtime), 1);
    told_new(&told);
    alloc(s, 1 << 20, "b");
    assert_string_equal(told_new(&told), "buffer 2 'b' at 0:0+1048576 cmd 8 stream 0 host 0 "
                                         "after 1:2\n");
    alloc(s, 256, "c");
    assert_string_equal(told_new(&told), "buffer 3 'c' at 0:1048576+256 cmd 9 stream 0 host 0\n");
    close_told(&f, &told);
}

/* An owner in between that is smaller leaves a part to whoever is larger. */
static void what_a_smaller_owner_leaves_is_still_held_for_something(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 1000, "a");
    launch(t, "k", a, NULL);
    ok(orr_buffer_record_stream(a, t));
    orr_buffer_free(&a);
    manual_finish(manual_of(f.runtime), 1);
    told_new(&told);
    struct orr_buffer *b = alloc(s, 600, "b");
    orr_buffer_free(&b);
    b = alloc(s, 600, "c"); /* these bytes have had an owner since */
    orr_buffer_free(&b);
    b = alloc(s, 1000, "d");
    orr_buffer_free(&b);
    b = alloc(s, 1024, "e"); /* what the block has beyond 1000 bytes nobody has used */
    assert_string_equal(told_new(&told),
                        "buffer 2 'b' at 0:0+600 cmd 5 stream 0 host 0 after 1:1\n"
                        "free 2 cmd 6 host 0\n"
                        "buffer 3 'c' at 0:0+600 cmd 7 stream 0 host 0\n"
                        "free 3 cmd 8 host 0\n"
                        "buffer 4 'd' at 0:0+1000 cmd 9 stream 0 host 0 after 1:1\n"
                        "free 4 cmd 10 host 0\n"
                        "buffer 5 'e' at 0:0+1024 cmd 11 stream 0 host 0\n");
    close_told(&f, &told);
}

static void a_wait_for_memory_is_no_order(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].memory_bytes = 2 << 20;
    told_init(&told);
    f.config.observer = &told.observer;
    fixture_start(&f);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 2 << 20, "a");
    launch(s, "k", NULL, a);
    launch(t, "l", NULL, NULL);
    orr_buffer_free(&a);
    told_new(&told);
    alloc(t, 2 << 20, "b");
    assert_string_equal(told_new(&told), "buffer 2 'b' at 1:0+2097152 cmd 5 stream 1 host 0\n");
    close_told(&f, &told);
}

static void host_memory_and_what_the_host_does_with_it(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, orr_sim_open, 1);
    struct orr_buffer *a = alloc_host(&f, 64, "a");
    char bytes[64] = {0};
    ok(orr_buffer_write(a, 8, bytes, 16, -1));
    ok(orr_buffer_read(a, 0, bytes, 24, -1));
    orr_buffer_free(&a);
    assert_string_equal(told_new(&told), "host 0 'host'\n"
                                         "buffer 1 'a' at 0:0+64 cmd 1 host 0\n"
                                         "hostwrite 2 'hostwrite' host 0 w1[8:24]\n"
                                         "hostread 3 'hostread' host 0 r1[0:24]\n"
                                         "free 1 cmd 4 host 0\n");
    close_told(&f, &told);
}

static void members_of_a_collective_say_who_they_are(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, orr_sim_open, 2);
    struct orr_communicator *comm;
    ok(orr_communicator_create(f.runtime, "c", (const uint32_t[]){1, 0}, 2, &comm));
    struct orr_stream *streams[2];
    struct orr_piece pieces[2];
    for (uint32_t rank = 0; rank < 2; rank++) {
        streams[rank] = communicate(&f, orr_communicator_device(comm, rank));
        pieces[rank] = (struct orr_piece){alloc(streams[rank], 64, "x"), 0};
    }
    told_new(&told);
    for (int i = 0; i < 2; i++)
        ok(orr_collective_enqueue(comm, ORR_COLLECTIVE_BROADCAST, ORR_DTYPE_F32, 16, 0, streams,
                                  pieces, pieces, "b", 0, NULL));
    assert_string_equal(
        told_new(&told),
        "collective 3 'b' host 0 stream 0:1 r1[0:64] comm 0 rank 0 seq 0 of 2 broadcast\n"
        "collective 4 'b' host 0 stream 1:1 w2[0:64] comm 0 rank 1 seq 0 of 2 broadcast\n"
        "collective 5 'b' host 0 stream 0:2 r1[0:64] comm 0 rank 0 seq 1 of 2 broadcast\n"
        "collective 6 'b' host 0 stream 1:2 w2[0:64] comm 0 rank 1 seq 1 of 2 broadcast\n");
    close_told(&f, &told);
}

/* Recorded commands are told when they are launched, each time. */
static void a_launch_tells_its_nodes(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_told(&f, &told, orr_sim_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 64, "a");
    struct orr_event *e = create_event(&f, "e");
    struct orr_program *program;
    told_new(&told);
    ok(orr_program_begin(f.runtime, &program));
    launch(s, "k", NULL, a);
    ok(orr_event_record(e, s));
    ok(orr_stream_wait(t, e));
    launch(t, "l", a, NULL);
    ok(orr_program_end(program));
    assert_string_equal(told_new(&told), "");
    ok(orr_program_launch(program, s));
    assert_string_equal(told_new(&told), "graph 2 'graph launch' host 0 stream 0:1\n"
                                         "kernel 3 'k' host 0 stream 0:2 w1[0:64]\n"
                                         "record 4 'record e' host 0 stream 0:3\n"
                                         "wait 5 'wait e' host 0 stream 1:1 waits 0:1 0:3\n"
                                         "kernel 6 'l' host 0 stream 1:2 r1[0:64]\n"
                                         "marker 7 'graph join' host 0 stream 0:4 waits 1:2\n");
    orr_program_destroy(&program);
    close_told(&f, &told);
}

static void with_dispatch_hosts_the_caller_is_told(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    fixture_prepare(&f, orr_sim_open, 2);
    f.config.runner = ORR_RUNNER_PER_DEVICE;
    told_init(&told);
    f.config.observer = &told.observer;
    fixture_start(&f);
    launch(compute(&f, 1), "k", NULL, NULL);
    assert_string_equal(told_new(&told), "host 0 'host'\n"
                                         "stream 0 'compute' device 1 nb\n"
                                         "kernel 1 'k' host 0 stream 0:1\n");
    close_told(&f, &told);
}

static const char *play_told(const char *text, uint32_t device_count, struct play *play,
                             struct told *told) {
    play_prepare(play, text, device_count);
    told_init(told);
    play->fixture.config.observer = &told->observer;
    play_run(play);
    assert_string_equal(play->error.text, "");
    return told_new(told);
}

static void messages_order_the_hosts_of_a_scenario(void **state) {
    (void)state;
    struct play play;
    struct told told;
    const char *text = "local m = orrery.mailbox()\n"
                       "orrery.host(function(rank)\n"
                       "    if rank == 0 then m:put(1) m:put(2) return end\n"
                       "    orrery.spend(5000)\n"
                       "    m:take() m:take()\n"
                       "end)\n"
                       "orrery.join()\n";
    assert_string_equal(play_told(text, 2, &play, &told),
                        "host 0 'host'\n"
                        "host 1 'rank 0'\n"
                        "posted host 0 message 1\n"
                        "taken host 1 message 1\n"
                        "host 2 'rank 1'\n"
                        "posted host 0 message 2\n"
                        "taken host 2 message 2\n"
                        "posted host 0 message 3\n" /* the program joins */
                        "posted host 1 message 4\n"
                        "posted host 1 message 5\n"
                        "posted host 1 message 6\n" /* rank 0 ends */
                        "taken host 2 message 4\n"
                        "taken host 2 message 5\n"
                        "posted host 2 message 7\n"
                        "host 3 'host, joined'\n"
                        "posted host 2 message 8\n"
                        "taken host 3 message 8\n"
                        "taken host 3 message 3\n"
                        "taken host 3 message 6\n"
                        "taken host 3 message 7\n");
    play_end(&play);
    told_free(&told);
}

/* A replay must come after whoever read the results of the one before. Whether a reader is done by
 * then is chance, so that the order is told in any case. */
static void a_replay_comes_after_readers_that_are_done(void **state) {
    (void)state;
    struct play play;
    struct told told;
    const char *text =
        play_told("local mesh = orrery.mesh{ shape = {2}, names = {'dp'} }\n"
                  "local x = orrery.ones{ shape = {4, 4}, mesh = mesh, place = {'S(0)'} }\n"
                  "local f = orrery.capture(function(x) return orrery.relu(x) end)\n"
                  "for i = 1, 2 do\n"
                  "    local z = f(x):redistribute{ dp = 'R' }\n"
                  "    orrery.spend(100000000)\n"
                  "    orrery.device(0):alloc(8)\n" /* the runtime hears of it */
                  "end\n",
                  2, &play, &told);
    const char *first = strstr(text, "graph "),
               *second = first ? strstr(first + 1, "\ngraph ") : NULL;
    assert_non_null(second);
    const char *end = strchr(second + 1, '\n'), *waits = strstr(second, " waits ");
    assert_true(waits && waits < end);
    play_end(&play);
    told_free(&told);
}

/* What the runtime itself does with tensors is told like everything else: whoever copies to the
 * host waits for the copy. */
static void a_future_says_what_the_host_has_waited_for(void **state) {
    (void)state;
    struct play play;
    struct told told;
    const char *at = play_told("local f = orrery.ones{ shape = {4} }:future()\n"
                               "orrery.spend(1000000)\n"
                               "f:get()\n",
                               1, &play, &told);
    int count = 0;
    while ((at = strstr(at, "observed host 0 ")) != NULL) {
        at++;
        count++;
    }
    assert_int_equal(count, 2); /* the get, the end of the run */
    play_end(&play);
    told_free(&told);
}

/* --- the same in the trace --- */

/* The edges of kind host, in order: " 1>3 2>3". */
static const char *host_edges(const struct fixture *f, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < record_count(f, ORR_RECORD_EDGE); i++) {
        const struct orr_record_edge *edge = record_at(f, ORR_RECORD_EDGE, i);
        if (edge->header.a == ORR_EDGE_HOST && used < size)
            used += (size_t)snprintf(text + used, size - used, " %llu>%llu",
                                     (unsigned long long)edge->src, (unsigned long long)edge->dst);
    }
    return text;
}

static void what_a_host_has_seen_leads_to_its_next_command(void **state) {
    (void)state;
    char text[256];
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_event *e = create_event(&f, "e");
    launch(s, "1", NULL, NULL);
    ok(orr_event_record(e, s)); /* 2 */
    launch(s, "3", NULL, NULL);
    launch(t, "4", NULL, NULL);
    ok(orr_stream_sync(t));
    ok(orr_event_sync(e));
    ok(orr_stream_sync(s));
    ok(orr_event_query(e)); /* older than what is known */
    assert_string_equal(host_edges(&f, text, sizeof text), "");
    struct orr_buffer *a = alloc(s, 8, "a"); /* 5 */
    assert_string_equal(host_edges(&f, text, sizeof text), " 4>5 3>5");
    ok(orr_device_sync(f.runtime, 0)); /* nothing new */
    launch(t, "6", NULL, NULL);
    launch(t, "7", NULL, NULL);
    assert_string_equal(host_edges(&f, text, sizeof text), " 4>5 3>5");
    ok(orr_stream_sync(t));
    orr_buffer_free(&a); /* 8 */
    assert_string_equal(host_edges(&f, text, sizeof text), " 4>5 3>5 7>8");
    fixture_close(&f);
}

static void a_message_carries_what_its_host_has_seen(void **state) {
    (void)state;
    char text[256];
    struct play play;
    play_prepare(&play,
                 "local s, m = orrery.device(0):stream('compute'), orrery.mailbox()\n"
                 "orrery.host(function(rank)\n" /* 1, 2: the starts; the program ends: 3 */
                 "    if rank == 0 then\n"
                 "        s:kernel{ ns = 100000 }\n" /* 4 */
                 "        s:sync()\n"
                 "        m:put('done')\n" /* 5; rank 0 ends: 6 */
                 "    else\n"
                 "        m:take()\n"
                 "        s:kernel{ ns = 1 }\n" /* 7 */
                 "        s:sync()\n"
                 "    end\n"
                 "end)\n",
                 2);
    play_run(&play);
    assert_string_equal(play.error.text, "");
    assert_string_equal(host_edges(&play.fixture, text, sizeof text), " 1>4 4>5 2>7 5>7");
    const struct orr_record_command *marker = command_record(&play.fixture, 5);
    assert_int_equal(marker->header.a, ORR_COMMAND_MARKER);
    assert_int_equal(marker->stream, ORR_ID_NONE);
    assert_int_equal(marker->host, 1);
    play_end(&play);
}

/* Two hosts that look at one stream in turn, and never call, must not add up. */
static void a_host_that_only_asks_keeps_one_entry_a_stream(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play,
                 "local s = orrery.device(0):stream('compute')\n"
                 "s:kernel{ ns = 1 }\n"
                 "orrery.host(function(rank)\n"
                 "    orrery.spend(100000 + rank)\n"
                 "    for i = 1, 1000 do s:query() end\n"
                 "end, 2)\n",
                 1);
    play_run(&play);
    assert_string_equal(play.error.text, "");
    const struct orr_runtime *runtime = play.fixture.runtime;
    assert_int_equal(runtime->host_count, 3);
    for (size_t i = 0; i < runtime->host_count; i++)
        assert_in_range(runtime->hosts[i].seen_count, 0, 2);
    play_end(&play);
}

static void what_a_dispatch_host_launches_says_who_called(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, orr_sim_open, 2);
    f.config.runner = ORR_RUNNER_PER_DEVICE;
    fixture_start(&f);
    launch(compute(&f, 1), "k", NULL, NULL);
    ok(orr_runtime_finish(f.runtime));
    assert_int_equal(command_record(&f, 1)->host, 2);
    assert_int_equal(command_record(&f, 1)->caller, 1);
    fixture_close(&f);
}

/* --- without memory --- */

static void run_with_failures(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec spec = spec_for_tests();
    struct told told;
    told_init(&told);
    struct orr_runtime_config config = {.memory = &memory->table,
                                        .open = orr_sim_open,
                                        .specs = &spec,
                                        .device_count = 1,
                                        .observer = &told.observer};
    struct orr_runtime *runtime;
    struct orr_error error = {0};
    enum orr_status status = orr_runtime_create(&config, &runtime, &error);
    struct orr_stream *s = status == ORR_OK ? orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE) : 0;
    struct orr_buffer *a = NULL;
    if (s && orr_buffer_alloc(s, 64, "a", &a) == ORR_OK) {
        struct orr_range ranges[20];
        for (uint32_t i = 0; i < 20; i++)
            ranges[i] = (struct orr_range){a, i, 1, ORR_ACCESS_READ};
        struct orr_kernel kernel = {
            .name = "k", .accesses = ranges, .access_count = 20, .service_ns = 1, .submit_ns = 1};
        status = orr_stream_kernel(s, &kernel, NULL);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_true((strstr(told.text, "kernel") != NULL) == (status == ORR_OK));
    }
    if (runtime)
        (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
    told_free(&told);
    orr_error_clear(&error);
}

static void without_memory_a_command_is_refused_and_not_told(void **state) {
    (void)state;
    assert_true(fail_each_request(run_with_failures, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_told_with_ranges_and_waits),
        cmocka_unit_test(nothing_is_told_of_a_call_that_failed),
        cmocka_unit_test(a_command_that_retires_within_its_submit_is_told_whole),
        cmocka_unit_test(whatever_the_host_has_seen_is_told),
        cmocka_unit_test(of_any_points_the_host_knows_one),
        cmocka_unit_test(reused_bytes_come_after_what_they_were_held_for),
        cmocka_unit_test(what_a_smaller_owner_leaves_is_still_held_for_something),
        cmocka_unit_test(a_wait_for_memory_is_no_order),
        cmocka_unit_test(host_memory_and_what_the_host_does_with_it),
        cmocka_unit_test(members_of_a_collective_say_who_they_are),
        cmocka_unit_test(a_launch_tells_its_nodes),
        cmocka_unit_test(with_dispatch_hosts_the_caller_is_told),
        cmocka_unit_test(messages_order_the_hosts_of_a_scenario),
        cmocka_unit_test(a_replay_comes_after_readers_that_are_done),
        cmocka_unit_test(a_future_says_what_the_host_has_waited_for),
        cmocka_unit_test(what_a_host_has_seen_leads_to_its_next_command),
        cmocka_unit_test(a_message_carries_what_its_host_has_seen),
        cmocka_unit_test(a_host_that_only_asks_keeps_one_entry_a_stream),
        cmocka_unit_test(what_a_dispatch_host_launches_says_who_called),
        cmocka_unit_test(without_memory_a_command_is_refused_and_not_told),
    };
    return cmocka_run_group_tests_name("observer", tests, NULL, NULL);
}
