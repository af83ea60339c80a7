/* Any timeline into a database and back: nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/timeline_random.h"
#include "tests/trace_support.h"
#include "trace/timeline_arrays.h"
#include "trace/timeline_write.h"

enum { DRAWS = 200 };

static void assert_round_trip(struct trace_fixture *f, const struct orr_timeline *timeline,
                              uint64_t seed) {
    char text[TIMELINE_DIFFERENCE_MAX];
    enum orr_status status = orr_timeline_write(timeline, f->path, &f->memory.table, &f->error);
    if (status != ORR_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, f->error.text);
    struct orr_timeline *read = trace_read(f, f->path);
    const char *difference = timeline_difference(timeline, read, text);
    if (difference)
        fail_msg("seed %llu: %s", (unsigned long long)seed, difference);
    orr_timeline_destroy(&read);
}

static void test_members_are_all_there(void **state) {
    (void)state;
    for (size_t i = 0; i < ORR__ARRAY_COUNT; i++) {
        size_t bytes = 0;
        for (size_t m = 0; m < orr__arrays[i].member_count; m++)
            bytes +=
                orr__member_size(&orr__arrays[i].members[m]) * orr__arrays[i].members[m].repeat;
        assert_true(bytes <= orr__arrays[i].size);
        if (orr__arrays[i].size - bytes >= sizeof(uint64_t))
            fail_msg("%s: %zu bytes that no member covers", orr__arrays[i].name,
                     orr__arrays[i].size - bytes);
    }
}

/* Of a run of ours meta says schema_version; the drawn ones have no such key. */
static void drop_version(struct orr_timeline *timeline) {
    for (size_t i = 0; i < timeline->meta_count; i++)
        if (strcmp(timeline->meta[i].key, "schema_version") == 0) {
            memmove(&timeline->meta[i], &timeline->meta[i + 1],
                    (timeline->meta_count - i - 1) * sizeof *timeline->meta);
            timeline->meta_count--;
            return;
        }
    fail_msg("no schema_version");
}

static void test_random_timelines(void **state) {
    struct trace_fixture *f = *state;
    char text[TIMELINE_DIFFERENCE_MAX];
    const uint64_t first = trace_seed();
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        uint64_t seed = first + draw;
        struct orr_timeline *timeline = timeline_random(&f->memory.table, seed, TIMELINE_IMPORTED);
        assert_round_trip(f, timeline, seed);
        orr_timeline_destroy(&timeline);
        timeline = timeline_random(&f->memory.table, seed, TIMELINE_OWN);
        assert_int_equal(orr_timeline_write(timeline, f->path, &f->memory.table, &f->error),
                         ORR_OK);
        struct orr_timeline *read = trace_read(f, f->path);
        drop_version(read);
        const char *difference = timeline_difference(timeline, read, text);
        if (difference)
            fail_msg("seed %llu: %s", (unsigned long long)seed, difference);
        orr_timeline_destroy(&read);
        orr_timeline_destroy(&timeline);
    }
}

/* A run's own file, read and written again, reads the same. */
static void test_a_run(void **state) {
    struct trace_fixture *f = *state;
    char text[TIMELINE_DIFFERENCE_MAX], path[PATH_MAX];
    const uint64_t begin = trace_seed();
    for (uint64_t draw = 0; draw < 5; draw++) {
        uint64_t seed = begin + draw;
        struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
        trace_write_random(sink, f->names, seed, 300);
        trace_close_sink(f, sink);
        struct orr_timeline *first = trace_read(f, f->path);
        trace_path(path, f->folder, "again.db");
        assert_int_equal(orr_timeline_write(first, path, &f->memory.table, &f->error), ORR_OK);
        struct orr_timeline *second = trace_read(f, path);
        const char *difference = timeline_difference(first, second, text);
        if (difference)
            fail_msg("seed %llu: %s", (unsigned long long)seed, difference);
        orr_timeline_destroy(&first);
        orr_timeline_destroy(&second);
    }
}

static void test_same_bytes(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 7, TIMELINE_IMPORTED);
    size_t sizes[2];
    unsigned char *bytes[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_timeline_write(timeline, f->path, &f->memory.table, &f->error),
                         ORR_OK);
        bytes[i] = trace_read_file(f->path, &sizes[i]);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
    orr_timeline_destroy(&timeline);
}

/* The views say what the arrays do; and what the reader does not use, the index, is there. */
static void test_views(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 4, TIMELINE_IMPORTED);
    assert_int_equal(orr_timeline_write(timeline, f->path, &f->memory.table, &f->error), ORR_OK);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM cmd"), timeline->command_count);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM call"), timeline->call_count);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM slice"), timeline->slice_count);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM overhead"),
                     timeline->overhead_count);
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM stream_wait"),
                     timeline->stream_wait_count);
    assert_true(timeline->sync_count > 2);
    for (size_t i = 0; i < timeline->sync_count; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT coalesce(target, '') FROM sync WHERE id = %llu",
                 (unsigned long long)timeline->syncs[i].id);
        char *target = trace_query_text(f->path, sql);
        assert_string_equal(target, timeline->syncs[i].target);
        free(target);
    }
    assert_int_equal(trace_query_int(f->path, "SELECT count(*) FROM sqlite_schema WHERE "
                                              "name = 'sync_by_target'"),
                     1);
    orr_timeline_destroy(&timeline);
}

/* -- Failures ---------------------------------------------------------------------------------- */

static void assert_refused(struct trace_fixture *f, const char *path, enum orr_status expected) {
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 1, TIMELINE_IMPORTED);
    assert_int_equal(orr_timeline_write(timeline, path, &f->memory.table, &f->error), expected);
    assert_true(strlen(f->error.text) > 0);
    assert_false(trace_exists(path, ".part"));
    orr_timeline_destroy(&timeline);
}

static void test_places(void **state) {
    struct trace_fixture *f = *state;
    char path[PATH_MAX];
    trace_write_file(f->path, "not ours", 8);
    assert_refused(f, f->path, ORR_INVALID);
    size_t size;
    unsigned char *bytes = trace_read_file(f->path, &size);
    assert_int_equal(size, 8);
    free(bytes);
    assert_refused(f, f->folder, ORR_IO);
    assert_refused(f, trace_path(path, f->folder, "no/such/folder.db"), ORR_IO);
    assert_refused(f, "", ORR_INVALID);
}

/* A trace of a killed run has a journal beside it, which must not be applied to the new file. */
static void test_replaces_a_trace_and_its_journal(void **state) {
    struct trace_fixture *f = *state;
    char journal[PATH_MAX + 16];
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 1, TIMELINE_IMPORTED);
    assert_int_equal(orr_timeline_write(timeline, f->path, &f->memory.table, &f->error), ORR_OK);
    snprintf(journal, sizeof journal, "%s-journal", f->path);
    trace_write_file(journal, "", 0);
    assert_round_trip(f, timeline, 1);
    assert_false(trace_exists(f->path, "-journal"));
    assert_false(trace_exists(f->path, ".part"));
    orr_timeline_destroy(&timeline);
}

static void test_an_id_twice(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 2, TIMELINE_IMPORTED);
    assert_true(timeline->command_count > 1);
    timeline->commands[1].id = timeline->commands[0].id;
    assert_int_equal(orr_timeline_write(timeline, f->path, &f->memory.table, &f->error), ORR_IO);
    assert_non_null(strstr(f->error.text, "cmd_row"));
    assert_false(trace_exists(f->path, ""));
    assert_false(trace_exists(f->path, ".part"));
    orr_timeline_destroy(&timeline);
}

static void test_no_memory(void **state) {
    struct trace_fixture *f = *state;
    struct orr_memory system = orr_memory_system();
    struct orr_timeline *timeline = timeline_random(&system, 5, TIMELINE_IMPORTED);
    enum orr_status status = ORR_NO_MEMORY;
    size_t fail_at = 1;
    for (; status != ORR_OK && fail_at < 100; fail_at++) {
        struct trace_memory memory;
        trace_memory_init(&memory, fail_at);
        status = orr_timeline_write(timeline, f->path, &memory.table, &f->error);
        assert_int_equal(memory.live, 0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_int_equal(trace_exists(f->path, ""), status == ORR_OK);
        assert_false(trace_exists(f->path, ".part"));
    }
    assert_true(fail_at > 3 && fail_at < 100);
    orr_timeline_destroy(&timeline);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, trace_set_up, trace_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_members_are_all_there),
        CASE(test_random_timelines),
        CASE(test_a_run),
        CASE(test_same_bytes),
        CASE(test_views),
        CASE(test_places),
        CASE(test_replaces_a_trace_and_its_journal),
        CASE(test_an_id_twice),
        CASE(test_no_memory),
    };
    return cmocka_run_group_tests_name("timeline_write", tests, NULL, NULL);
}
