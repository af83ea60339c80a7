/* The monitor over real runs: each rule with a program that keeps it and one that does not. */
#include <stdio.h>

#include "hazards/monitor.h"
#include "tests/runtime_fixture.h"

/* --- a run that is watched --- */

struct watched {
    struct fixture f;
    struct orr_monitor *monitor;
    struct orr_stream *a, *b, *other; /* two streams of device 0, one of device 1 */
};

static void watch_with(struct watched *w, const struct orr_monitor_options *options) {
    fixture_prepare(&w->f, orr_sim_open, 2);
    assert_int_equal(orr_monitor_create(&w->f.memory.table, options, &w->monitor), ORR_OK);
    w->f.config.observer = orr_monitor_observer(w->monitor);
    fixture_start(&w->f);
    w->a = compute(&w->f, 0);
    w->b = communicate(&w->f, 0);
    w->other = compute(&w->f, 1);
}

static void watch(struct watched *w) {
    watch_with(w, NULL);
}

static void unwatch(struct watched *w) {
    assert_int_equal(orr_monitor_status(w->monitor), ORR_OK);
    orr_runtime_destroy(&w->f.runtime);
    orr_monitor_destroy(&w->monitor);
    fixture_close(&w->f);
}

/* Exactly these findings, as "kind", in order; NULL ends them. */
static void expect(struct watched *w, const char *const *kinds) {
    size_t count = 0;
    for (; kinds[count]; count++) {
        struct orr_monitor_finding finding;
        if (count >= orr_monitor_finding_count(w->monitor))
            fail_msg("expected %s, found nothing more", kinds[count]);
        orr_monitor_finding(w->monitor, count, &finding);
        if (strcmp(finding.kind_text, kinds[count]) != 0)
            fail_msg("expected %s, found %s: %s", kinds[count], finding.kind_text, finding.message);
        assert_true(strlen(finding.message) > 0 && strlen(finding.fix) > 0);
    }
    if (orr_monitor_finding_count(w->monitor) > count) {
        struct orr_monitor_finding finding;
        orr_monitor_finding(w->monitor, count, &finding);
        fail_msg("not expected: %s: %s", finding.kind_text, finding.message);
    }
}

#define EXPECT(w, ...) expect(w, (const char *const[]){__VA_ARGS__, NULL})
#define CLEAN(w)       expect(w, (const char *const[]){NULL})

static void range_kernel(struct orr_stream *stream, struct orr_buffer *buffer, uint64_t offset,
                         uint64_t bytes, enum orr_access_mode mode) {
    const struct orr_range range = {buffer, offset, bytes, mode};
    struct orr_kernel kernel = {.name = "k",
                                .dtype = ORR_DTYPE_F32,
                                .submit_ns = -1,
                                .service_ns = 1000,
                                .accesses = &range,
                                .access_count = 1};
    assert_int_equal(orr_stream_kernel(stream, &kernel, NULL), ORR_OK);
}

static void order(struct orr_stream *first, struct orr_stream *second) {
    assert_int_equal(orr_stream_wait_point(second, orr_stream_point(first)), ORR_OK);
}

/* --- streams and events --- */

static void a_reader_must_wait_for_the_producer(void **state) {
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        struct watched w;
        watch(&w);
        struct orr_buffer *x = alloc(w.a, 64, "x");
        launch(w.a, "produce", NULL, x);
        if (waits)
            order(w.a, w.b);
        launch(w.b, "consume", x, NULL);
        if (waits)
            CLEAN(&w);
        else
            EXPECT(&w, "race");
        unwatch(&w);
    }
}

static void a_wait_covers_the_event_as_it_was_recorded(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 64, "x"), *y = alloc(w.a, 64, "y");
    struct orr_event *event = create_event(&w.f, "e");
    launch(w.a, "x", NULL, x);
    assert_int_equal(orr_event_record(event, w.a), ORR_OK);
    launch(w.a, "y", NULL, y);
    assert_int_equal(orr_stream_wait(w.b, event), ORR_OK);
    launch(w.b, "read x", x, NULL);
    CLEAN(&w);
    launch(w.b, "read y", y, NULL);
    EXPECT(&w, "race");
    unwatch(&w);
}

static void a_wait_before_the_record_is_none(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 64, "x");
    struct orr_event *event = create_event(&w.f, "e");
    launch(w.a, "x", NULL, x);
    assert_int_equal(orr_stream_wait(w.b, event), ORR_OK);
    assert_int_equal(orr_event_record(event, w.a), ORR_OK);
    launch(w.b, "read x", x, NULL);
    EXPECT(&w, "race");
    unwatch(&w);
}

static void order_is_transitive_over_devices(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 64, "x");
    launch(w.a, "x", NULL, x);
    order(w.a, w.other);
    order(w.other, w.b);
    launch(w.b, "overwrite", NULL, x);
    CLEAN(&w);
    unwatch(&w);
}

static void readers_and_disjoint_ranges_do_not_conflict(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 64, "x");
    range_kernel(w.a, x, 0, 32, ORR_ACCESS_WRITE);
    range_kernel(w.b, x, 32, 32, ORR_ACCESS_WRITE);
    order(w.a, w.b);
    range_kernel(w.a, x, 0, 32, ORR_ACCESS_READ);
    range_kernel(w.b, x, 0, 32, ORR_ACCESS_READ);
    CLEAN(&w);
    range_kernel(w.a, x, 31, 2, ORR_ACCESS_READ);
    EXPECT(&w, "race");
    unwatch(&w);
}

/* --- hosts --- */

static void a_host_reads_after_a_sync(void **state) {
    (void)state;
    for (int syncs = 0; syncs < 3; syncs++) {
        struct watched w;
        watch(&w);
        char bytes[64];
        struct orr_buffer *x = alloc(w.a, 64, "x"), *h = alloc_host(&w.f, 64, "h");
        launch(w.a, "x", NULL, x);
        assert_int_equal(orr_stream_copy(w.a, h, 0, x, 0, 64), ORR_OK);
        if (syncs == 1)
            assert_int_equal(orr_stream_sync(w.a), ORR_OK);
        while (syncs == 2 && orr_stream_query(w.a) == ORR_NOT_READY)
            assert_int_equal(orr_runtime_spend(w.f.runtime, 1000), ORR_OK);
        assert_int_equal(orr_buffer_read(h, 0, bytes, 64, -1), ORR_OK);
        if (syncs)
            CLEAN(&w);
        else
            EXPECT(&w, "race");
        unwatch(&w);
    }
}

/* The host's past precedes what it enqueues; what it enqueued does not precede the host. */
static void staging_memory_is_not_rewritten_under_a_copy(void **state) {
    (void)state;
    for (int syncs = 0; syncs < 2; syncs++) {
        struct watched w;
        watch(&w);
        char bytes[64] = {0};
        struct orr_buffer *x = alloc(w.a, 64, "x"), *h = alloc_host(&w.f, 64, "h");
        for (int i = 0; i < 2; i++) {
            assert_int_equal(orr_buffer_write(h, 0, bytes, 64, -1), ORR_OK);
            assert_int_equal(orr_stream_copy(w.a, x, 0, h, 0, 64), ORR_OK);
            if (syncs)
                assert_int_equal(orr_stream_sync(w.a), ORR_OK);
        }
        if (syncs)
            CLEAN(&w);
        else
            EXPECT(&w, "race");
        unwatch(&w);
    }
}

static void a_sync_covers_one_device(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 64, "x"), *h = alloc_host(&w.f, 64, "h");
    char bytes[64];
    launch(w.a, "x", NULL, x);
    assert_int_equal(orr_stream_copy(w.a, h, 0, x, 0, 64), ORR_OK);
    assert_int_equal(orr_device_sync(w.f.runtime, 1), ORR_OK);
    assert_int_equal(orr_buffer_read(h, 0, bytes, 64, -1), ORR_OK);
    EXPECT(&w, "race");
    unwatch(&w);
}

/* Two hosts, a copy called by one and a write of its source by the other: called in this order if a
 * message says so, whatever their lines; else in the order of their lines. */
static const char *class_of_two_hosts(const char *copy_site, const char *write_site, bool tells) {
    static char message[ORR_MONITOR_TEXT_MAX];
    struct memory_counting memory;
    struct orr_monitor *monitor;
    struct orr_names *names;
    struct orr_monitor_finding finding;
    uint32_t copied, written;
    memory_counting_init(&memory, 0);
    assert_int_equal(orr_monitor_create(&memory.table, NULL, &monitor), ORR_OK);
    assert_int_equal(orr_names_create(&memory.table, &names), ORR_OK);
    assert_int_equal(orr_names_intern(names, copy_site, strlen(copy_site), &copied), ORR_OK);
    assert_int_equal(orr_names_intern(names, write_site, strlen(write_site), &written), ORR_OK);
    struct orr_observer *tell = orr_monitor_observer(monitor);
    tell->names = names;
    tell->host(tell, &(struct orr_observed_host){.id = 0, .name = "trainer"});
    tell->host(tell, &(struct orr_observed_host){.id = 1, .name = "loader"});
    tell->stream(tell, &(struct orr_record_stream){.id = 0});
    tell->buffer(tell, &(struct orr_observed_buffer){
                           .id = 1, .bytes = 64, .device = ORR_ID_NONE, .stream = ORR_ID_NONE});
    struct orr_observed_access access = {.buffer = 1, .bytes = 64, .mode = ORR_ACCESS_READ};
    struct orr_observed_command command = {
        .id = 1, .seq = 1, .site = copied, .accesses = &access, .access_count = 1};
    tell->command(tell, &command);
    if (tells) {
        tell->posted(tell, 0, 2);
        tell->taken(tell, 1, 2);
    }
    access.mode = ORR_ACCESS_WRITE;
    command = (struct orr_observed_command){.id = 3,
                                            .host = 1,
                                            .stream = ORR_ID_NONE,
                                            .site = written,
                                            .accesses = &access,
                                            .access_count = 1};
    tell->command(tell, &command);
    assert_int_equal(orr_monitor_finding_count(monitor), 1);
    orr_monitor_finding(monitor, 0, &finding);
    snprintf(message, sizeof message, "%s", finding.message);
    orr_monitor_destroy(&monitor);
    orr_names_destroy(&names);
    assert_int_equal(memory.live, 0);
    return message;
}

static void conflicts_are_told_in_the_order_of_the_calls(void **state) {
    (void)state;
    const char *told = "(write after read)";
    assert_non_null(strstr(class_of_two_hosts("a.lua:1", "a.lua:2", true), told));
    assert_non_null(strstr(class_of_two_hosts("a.lua:2", "a.lua:1", true), told));
    assert_non_null(strstr(class_of_two_hosts("a.lua:1", "a.lua:2", false), told));
    assert_non_null(strstr(class_of_two_hosts("a.lua:2", "a.lua:1", false), "read after write"));
}

/* --- lifetimes --- */

static void a_free_is_ordered_after_every_use(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct watched w;
        watch(&w);
        struct orr_buffer *x = alloc(w.a, 64, "x");
        launch(w.a, "x", NULL, x);
        order(w.a, w.b);
        launch(w.b, "use", x, NULL);
        if (way == 1)
            assert_int_equal(orr_buffer_record_stream(x, w.b), ORR_OK);
        if (way == 2)
            order(w.b, w.a);
        if (way == 3)
            assert_int_equal(orr_stream_sync(w.b), ORR_OK);
        orr_buffer_free(&x);
        if (way == 0)
            EXPECT(&w, "unordered-free");
        struct orr_buffer *y = alloc(w.a, 64, "y");
        launch(w.a, "y", NULL, y);
        if (way == 0)
            EXPECT(&w, "unordered-free", "use-after-free");
        else
            CLEAN(&w);
        unwatch(&w);
    }
}

/* That the allocator found bytes for which it had to wait for another stream is chance: what the
 * stream did elsewhere is ordered by it only if that is declared. */
static void a_reuse_that_waited_orders_its_bytes_and_nothing_else(void **state) {
    (void)state;
    for (int declared = 0; declared < 2; declared++) {
        struct watched w;
        watch_with(&w, &(struct orr_monitor_options){.reuse_orders_hosts = declared});
        struct orr_buffer *x = alloc(w.a, 64, "x"), *z = alloc(w.a, 64, "z");
        launch(w.a, "x", NULL, x);
        order(w.a, w.b);
        launch(w.b, "z", NULL, z);
        launch(w.b, "use", x, NULL);
        assert_int_equal(orr_buffer_record_stream(x, w.b), ORR_OK);
        uint64_t base = x->base;
        orr_buffer_free(&x);
        assert_int_equal(orr_runtime_spend(w.f.runtime, 1000000), ORR_OK);
        struct orr_buffer *y = alloc(w.a, 64, "y");
        assert_int_equal(y->base, base);
        launch(w.a, "y", NULL, y);
        CLEAN(&w);
        launch(w.a, "z again", NULL, z);
        if (declared)
            CLEAN(&w);
        else
            EXPECT(&w, "race");
        unwatch(&w);
    }
}

/* A smaller owner in between takes only its own bytes of what the block was held for. */
static void the_rest_of_a_block_is_held_for_its_next_owner(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 128, "x");
    uint64_t base = x->base;
    launch(w.a, "x", NULL, x);
    order(w.a, w.b);
    launch(w.b, "use", x, NULL);
    assert_int_equal(orr_buffer_record_stream(x, w.b), ORR_OK);
    orr_buffer_free(&x);
    assert_int_equal(orr_runtime_spend(w.f.runtime, 1000000), ORR_OK);
    for (uint64_t bytes = 64; bytes <= 128; bytes += 64) {
        struct orr_buffer *y = alloc(w.a, bytes, "y");
        assert_int_equal(y->base, base);
        launch(w.a, "y", NULL, y);
        orr_buffer_free(&y);
    }
    CLEAN(&w);
    unwatch(&w);
}

static void reuse_on_the_same_stream_needs_no_wait(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    for (int i = 0; i < 3; i++) {
        struct orr_buffer *x = alloc(w.a, 64, "x");
        launch(w.a, "x", NULL, x);
        orr_buffer_free(&x);
    }
    CLEAN(&w);
    unwatch(&w);
}

/* --- collectives --- */

static void run_collective(struct watched *w, enum orr_collective_kind kind,
                           struct orr_buffer *const *buffers) {
    const uint32_t devices[] = {0, 1};
    struct orr_communicator *communicator;
    assert_int_equal(orr_communicator_create(w->f.runtime, "c", devices, 2, &communicator), ORR_OK);
    struct orr_stream *streams[] = {w->a, w->other};
    const struct orr_piece pieces[] = {{buffers[0], 0}, {buffers[1], 0}};
    struct orr_collective_call call = {.kind = kind,
                                       .dtype = ORR_DTYPE_F32,
                                       .count = 16,
                                       .streams = streams,
                                       .inputs = pieces,
                                       .outputs = pieces};
    assert_int_equal(orr_communicator_enqueue(communicator, &call, NULL), ORR_OK);
}

/* Device 1 reads memory of device 0, which device 0 then overwrites: only a point at which both
 * meet makes that right. */
static size_t findings_across(enum orr_collective_kind kind, bool joint) {
    struct watched w;
    watch_with(&w, &(struct orr_monitor_options){.joint_collectives = joint});
    struct orr_buffer *x = alloc(w.a, 64, "x"), *y = alloc(w.other, 64, "y");
    struct orr_buffer *reduced[] = {alloc(w.a, 64, "r0"), alloc(w.other, 64, "r1")};
    launch(w.a, "x", NULL, x);
    launch(w.a, "r0", NULL, reduced[0]);
    launch(w.other, "r1", NULL, reduced[1]);
    order(w.a, w.other);
    assert_int_equal(orr_stream_copy(w.other, y, 0, x, 0, 64), ORR_OK);
    run_collective(&w, kind, reduced);
    launch(w.a, "overwrite", NULL, x);
    size_t count = orr_monitor_finding_count(w.monitor);
    unwatch(&w);
    return count;
}

static void members_meet_in_a_barrier_and_elsewhere_if_declared(void **state) {
    (void)state;
    assert_int_equal(findings_across(ORR_COLLECTIVE_ALL_REDUCE, false), 1);
    assert_int_equal(findings_across(ORR_COLLECTIVE_ALL_REDUCE, true), 0);
    assert_int_equal(findings_across(ORR_COLLECTIVE_BARRIER, false), 0);
}

/* --- what is reported --- */

static void a_pair_of_sites_is_reported_once_with_its_count(void **state) {
    (void)state;
    struct watched w;
    watch(&w);
    struct orr_buffer *x = alloc(w.a, 64, "x");
    for (int i = 0; i < 5; i++) {
        set_site(&w.f, "p.lua:1");
        launch(w.a, "produce", NULL, x);
        set_site(&w.f, "p.lua:2");
        range_kernel(w.b, x, 8, 8, ORR_ACCESS_READ);
        order(w.b, w.a);
    }
    struct orr_monitor_finding finding;
    EXPECT(&w, "race");
    orr_monitor_finding(w.monitor, 0, &finding);
    assert_int_equal(finding.count, 5);
    assert_string_equal(finding.severity, "error");
    assert_string_equal(finding.site_a, "p.lua:1");
    assert_string_equal(finding.site_b, "p.lua:2");
    assert_string_equal(
        finding.message,
        "read after write: bytes [8, 16) of 'x': 'k' (p.lua:2, command 3) on stream 'communicate' "
        "of device 0 reads what 'produce' (p.lua:1, command 2) on stream 'compute' of device 0 "
        "writes, and nothing orders the two (5 times)");
    assert_string_equal(
        finding.fix, "record an event on stream 'compute' of device 0 after 'produce' (p.lua:1, "
                     "command 2) and make stream 'communicate' of device 0 wait for it before 'k' "
                     "(p.lua:2, command 3)");
    unwatch(&w);
}

static void more_findings_than_are_kept_are_counted(void **state) {
    (void)state;
    struct watched w;
    watch_with(&w, &(struct orr_monitor_options){.findings_max = 2});
    struct orr_buffer *x = alloc(w.a, 64, "x");
    for (int i = 0; i < 5; i++) {
        char site[32];
        snprintf(site, sizeof site, "p.lua:%d", i + 1);
        set_site(&w.f, site);
        launch(i % 2 ? w.a : w.b, "w", NULL, x);
    }
    EXPECT(&w, "race", "race");
    assert_true(orr_monitor_figures(w.monitor).dropped_findings > 0);
    unwatch(&w);
}

/* --- memory --- */

/* Two streams that wait for each other and never sync with a host. */
static uint64_t bytes_after(size_t rounds, uint64_t *out_blurred) {
    struct watched w;
    watch_with(&w, &(struct orr_monitor_options){.versions_max = 256});
    struct orr_buffer *x = alloc(w.a, 64, "x");
    struct orr_point old = {0};
    for (size_t i = 0; i < rounds; i++) {
        launch(w.a, "x", NULL, x);
        order(w.a, w.b);
        launch(w.b, "x", NULL, x);
        order(w.b, w.a);
        if (i == rounds / 3)
            old = orr_stream_point(w.b);
    }
    assert_int_equal(orr_stream_wait_point(w.other, old), ORR_OK);
    CLEAN(&w);
    struct orr_monitor_figures figures = orr_monitor_figures(w.monitor);
    *out_blurred = figures.blurred_waits;
    unwatch(&w);
    return figures.bytes;
}

static void memory_does_not_grow_with_the_length_of_a_run(void **state) {
    (void)state;
    uint64_t blurred = 0;
    (void)bytes_after(30, &blurred);
    assert_int_equal(blurred, 0);
    uint64_t once = bytes_after(300, &blurred), more = bytes_after(3000, &blurred);
    assert_int_equal(blurred, 1); /* and it says so */
    assert_true(more <= 2 * once);
}

/* --- without memory --- */

static void small_run(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_monitor *monitor;
    if (orr_monitor_create(&memory->table, NULL, &monitor) != ORR_OK)
        return;
    struct orr_observer *observer = orr_monitor_observer(monitor);
    struct orr_names *names = NULL;
    const struct orr_point wait = {.stream = 0, .seq = 1};
    const struct orr_observed_access access = {1, 0, 64, ORR_ACCESS_WRITE};
    if (orr_names_create(&memory->table, &names) == ORR_OK) {
        observer->names = names;
        observer->host(observer, &(struct orr_observed_host){.id = 0, .name = "h"});
        observer->host(observer, &(struct orr_observed_host){.id = 1, .name = "i"});
        for (uint32_t i = 0; i < 2; i++)
            observer->stream(observer, &(struct orr_record_stream){.id = i});
        observer->buffer(observer, &(struct orr_observed_buffer){.id = 1, .bytes = 64});
        for (uint32_t i = 0; i < 6; i++) {
            struct orr_observed_command command = {.id = i + 1,
                                                   .seq = i / 2 + 1,
                                                   .stream = i % 2,
                                                   .host = i / 3,
                                                   .site = i,
                                                   .accesses = &access,
                                                   .access_count = 1,
                                                   .waits = &wait,
                                                   .wait_count = i == 3};
            observer->command(observer, &command);
        }
        observer->observed(observer, 0, &wait, 1);
        observer->posted(observer, 0, 7);
        observer->taken(observer, 1, 7);
        observer->record_stream(observer, 1, 1);
        observer->free(observer, 1, 9, 0, 0);
        observer->buffer(observer, &(struct orr_observed_buffer){.id = 2, .bytes = 32, .host = 1});
        if (memory->fail_at == 0 || orr_monitor_status(monitor) == ORR_OK)
            assert_int_equal(orr_monitor_finding_count(monitor), 5);
        else
            assert_int_equal(orr_monitor_status(monitor), ORR_NO_MEMORY);
    }
    orr_monitor_destroy(&monitor);
    orr_names_destroy(&names);
}

static void whatever_request_for_memory_fails_it_says_so(void **state) {
    (void)state;
    assert_true(fail_each_request(small_run, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_must_wait_for_the_producer),
        cmocka_unit_test(a_wait_covers_the_event_as_it_was_recorded),
        cmocka_unit_test(a_wait_before_the_record_is_none),
        cmocka_unit_test(order_is_transitive_over_devices),
        cmocka_unit_test(readers_and_disjoint_ranges_do_not_conflict),
        cmocka_unit_test(a_host_reads_after_a_sync),
        cmocka_unit_test(staging_memory_is_not_rewritten_under_a_copy),
        cmocka_unit_test(a_sync_covers_one_device),
        cmocka_unit_test(conflicts_are_told_in_the_order_of_the_calls),
        cmocka_unit_test(a_free_is_ordered_after_every_use),
        cmocka_unit_test(a_reuse_that_waited_orders_its_bytes_and_nothing_else),
        cmocka_unit_test(the_rest_of_a_block_is_held_for_its_next_owner),
        cmocka_unit_test(reuse_on_the_same_stream_needs_no_wait),
        cmocka_unit_test(members_meet_in_a_barrier_and_elsewhere_if_declared),
        cmocka_unit_test(a_pair_of_sites_is_reported_once_with_its_count),
        cmocka_unit_test(more_findings_than_are_kept_are_counted),
        cmocka_unit_test(memory_does_not_grow_with_the_length_of_a_run),
        cmocka_unit_test(whatever_request_for_memory_fails_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
