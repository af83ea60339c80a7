/* What importers share: linking by (process, correlation), waits and syncs, numbers that do not
 * depend on the order of a file; and every allocation that may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support.h"
#include "trace/import/builder.h"

struct order {
    unsigned call[4]; /* the order in which the calls are told */
};

static void add_call(struct orr__builder *b, uint64_t process, const char *thread, uint64_t key,
                     const char *name, int64_t begin, int64_t end) {
    uint32_t host = orr__builder_host(b, process, thread, strlen(thread));
    struct orr_timeline_call *call = orr__builder_call(b);
    if (call) {
        call->host = host;
        call->correlation = key;
        call->name = orr__builder_text(b, name, strlen(name));
        call->begin_ns = begin;
        call->end_ns = end;
    }
}

static void add_command(struct orr__builder *b, uint32_t device, uint64_t process, int64_t stream,
                        uint64_t key, int64_t start, int64_t finish) {
    uint32_t number = orr__builder_stream(b, device, process, 0, stream);
    struct orr_timeline_command *command = orr__builder_command(b);
    if (command) {
        command->device = device;
        command->stream = number;
        command->correlation = key;
        command->start_ns = start;
        command->finish_ns = finish;
        command->name = orr__builder_text(b, "kernel", 6);
    }
}

/* Two processes that use the same correlations; one pair of calls shares one. */
static enum orr_status build(const struct orr_memory *memory, const struct order *order,
                             struct orr_timeline **out_timeline) {
    struct orr__builder *b;
    *out_timeline = NULL;
    if (orr__builder_create(memory, "kineto", &b) != ORR_OK)
        return ORR_NO_MEMORY;
    for (unsigned i = 0; i < 4; i++) {
        switch (order->call[i]) {
        case 0: add_call(b, 1, "1/9", 7, "cuLaunchKernel", 110, 130); break;
        case 1: add_call(b, 1, "1/10", 7, "cudaLaunchKernel", 100, 120); break;
        case 2: add_call(b, 2, "2/9", 7, "cudaLaunchKernel", 500, 510); break;
        default: add_call(b, 1, "1/9", ORR_CORRELATION_NONE, "cudaMalloc", 10, 20); break;
        }
    }
    add_command(b, 3, 1, 20, 7, 140, 150);
    add_command(b, 0, 2, 7, 7, 520, 530);
    add_command(b, 3, 1, 7, 8, 160, 170);
    add_command(b, 3, 1, 7, ORR_CORRELATION_NONE, 0, -1);
    struct orr__wait wait = {.process = 1, .correlation = 99, .record_correlation = 7, .ts_ns = 77};
    wait.stream = orr__builder_stream(b, 3, 1, 0, 20);
    wait.source = orr__builder_stream(b, 3, 1, 0, 7);
    orr__builder_wait(b, &wait);
    wait.correlation = 7;
    wait.record_correlation = ORR_CORRELATION_NONE;
    orr__builder_wait(b, &wait);
    struct orr_timeline_sync *sync = orr__builder_sync(b);
    if (sync) {
        sync->kind = ORR_SYNC_STREAM;
        sync->stream = wait.source;
    }
    orr__builder_link_sync(b, 2, 7);
    orr__builder_meta(b, "b", "1");
    orr__builder_meta(b, "a", "2");
    orr__builder_meta(b, "b", "3");
    orr__builder_finding(b, "import_repaired", "warning", "", "%d places", 3);
    return orr__builder_finish(&b, out_timeline);
}

static void calls_of_one_correlation_are_one(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    static const struct order orders[] = {{{0, 1, 2, 3}}, {{3, 2, 1, 0}}, {{1, 3, 0, 2}}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct orr_timeline *t;
        assert_int_equal(build(&memory, &orders[o], &t), ORR_OK);
        const struct orr_timeline_command *c = &t->commands[0];
        assert_true(c->enqueue_ns == 100 && c->enqueued_ns == 130);
        assert_string_equal(t->hosts[c->host].label, "1/10");
        assert_string_equal(t->calls[c->call - 1].name, "cudaLaunchKernel");
        assert_true(t->commands[1].enqueue_ns == 500);
        assert_true(t->commands[1].call != c->call);
        assert_true(t->commands[2].call == 0 && t->commands[2].enqueue_ns == ORR_TIME_NONE);
        assert_true(t->commands[3].call == 0 && t->commands[3].finish_ns == -1);
        unsigned alone = 0;
        for (size_t i = 0; i < t->call_count; i++)
            alone += t->calls[i].merged == t->calls[i].id;
        assert_int_equal(alone, 3);
        orr_timeline_destroy(&t);
    }
}

static void numbers_do_not_depend_on_the_order(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    static const struct order orders[] = {{{0, 1, 2, 3}}, {{3, 2, 1, 0}}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct orr_timeline *t;
        assert_int_equal(build(&memory, &orders[o], &t), ORR_OK);
        assert_int_equal(t->device_count, 2);
        assert_int_equal(t->devices[0].id, 0);
        assert_int_equal(t->devices[1].id, 3);
        assert_int_equal(t->stream_count, 3);
        static const char *const streams[] = {"stream 7", "stream 7", "stream 20"};
        static const char *const hosts[] = {"1/10", "1/9", "2/9"};
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(t->streams[i].id, i);
            assert_string_equal(t->streams[i].name, streams[i]);
            assert_int_equal(t->hosts[i].id, i);
            assert_string_equal(t->hosts[i].label, hosts[i]);
        }
        assert_int_equal(t->commands[0].stream, 2);
        assert_int_equal(t->commands[1].stream, 0);
        assert_string_equal(t->meta[0].key, "a");
        assert_string_equal(orr_timeline_meta(t, "b"), "3");
        assert_int_equal(t->meta_count, 2);
        orr_timeline_destroy(&t);
    }
}

static void waits_and_syncs_get_their_times_from_calls(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_timeline *t;
    assert_int_equal(build(&memory, &(struct order){{0, 1, 2, 3}}, &t), ORR_OK);
    const struct orr_timeline_stream_wait *w = t->stream_waits;
    assert_true(w[0].resolved && w[0].at_ns == 77 && w[0].record_ns == 100);
    assert_true(w[0].stream == 2 && w[0].source == 1);
    assert_true(!w[1].resolved && w[1].at_ns == 100 && w[1].record_ns == ORR_TIME_NONE);
    assert_true(t->syncs[0].begin_ns == 500 && t->syncs[0].end_ns == 510);
    assert_string_equal(t->hosts[t->syncs[0].host].label, "2/9");
    assert_int_equal(t->syncs[0].stream, 1);
    assert_string_equal(t->findings[0].message, "3 places");
    orr_timeline_destroy(&t);
}

static void build_and_drop(struct memory_counting *memory, void *context) {
    struct orr_timeline *t;
    enum orr_status status = build(&memory->table, context, &t);
    assert_int_equal(status == ORR_OK, t != NULL);
    orr_timeline_destroy(&t);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct order order = {{0, 1, 2, 3}};
    assert_true(fail_each_request(build_and_drop, &order) > 20);
}

static void many_texts_are_stored_once(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr__builder *b;
    assert_int_equal(orr__builder_create(&memory, "kineto", &b), ORR_OK);
    enum { COUNT = 20000 };
    const char **first = calloc(COUNT, sizeof *first);
    assert_non_null(first);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < COUNT; i++) {
            char text[40];
            int length = snprintf(text, sizeof text, "%*s%u", (int)(i % 17), "", i);
            const char *stored = orr__builder_text(b, text, (size_t)length);
            assert_string_equal(stored, text);
            if (round == 0)
                first[i] = stored;
            assert_ptr_equal(stored, first[i]);
        }
    free(first);
    orr__builder_destroy(&b);
    assert_null(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_one_correlation_are_one),
        cmocka_unit_test(numbers_do_not_depend_on_the_order),
        cmocka_unit_test(waits_and_syncs_get_their_times_from_calls),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(many_texts_are_stored_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
