/* A wait that is left out on purpose: which one, and that everything else stays as it is. */
#include "runtime/program.h"
#include "tests/runtime_fixture.h"
#include "tests/told.h"

static void ok(enum orr_status status) {
    assert_int_equal(status, ORR_OK);
}

/* Three streams of a device; a, b and c in a ring of waits, with some that order nothing. */
static void play(struct fixture *f) {
    struct orr_stream *s = compute(f, 0), *t = communicate(f, 0);
    struct orr_event *e = create_event(f, "e"), *never = create_event(f, "never");
    launch(s, "a", NULL, NULL);
    ok(orr_event_record(e, s));
    ok(orr_stream_wait(s, e));                           /* its own stream: no order */
    ok(orr_stream_wait(t, never));                       /* nor this */
    ok(orr_stream_wait_point(t, (struct orr_point){0})); /* nor this */
    set_site(f, "demo.lua:7");
    ok(orr_stream_wait(t, e)); /* 1 */
    set_site(f, NULL);
    struct orr_point b = launch(t, "b", NULL, NULL);
    ok(orr_stream_wait_point(s, b)); /* 2 */
    launch(s, "c", NULL, NULL);
}

static void open_dropping(struct fixture *f, struct told *told, uint64_t drop_wait) {
    fixture_prepare(f, orr_sim_open, 1);
    told_init(told);
    f->config.observer = &told->observer;
    f->config.drop_wait = drop_wait;
    fixture_start(f);
}

static const char *meta_of(const struct fixture *f, const char *key) {
    const char *value = NULL;
    for (size_t i = 0; i < record_count(f, ORR_RECORD_META); i++) {
        const struct orr_record_meta *meta = record_at(f, ORR_RECORD_META, i);
        if (strcmp(name_text(f, meta->key), key) == 0)
            value = name_text(f, meta->value);
    }
    return value;
}

static void the_wait_is_gone_and_nothing_else(void **state) {
    (void)state;
    for (uint64_t drop = 0; drop <= 3; drop++) {
        struct fixture f;
        struct told told;
        open_dropping(&f, &told, drop);
        play(&f);
        assert_int_equal(strstr(told.text, "stream 1:3 waits 0:2\n") != NULL, drop != 1);
        assert_int_equal(strstr(told.text, "stream 0:4 waits 1:4\n") != NULL, drop != 2);
        assert_non_null(strstr(told.text, "stream 0:3 waits 0:2\n"));
        assert_int_equal(orr_runtime_wait_count(f.runtime), drop ? 2 : 0);
        ok(orr_runtime_finish(f.runtime));
        assert_int_equal(record_count(&f, ORR_RECORD_COMMAND), 9);
        if (drop > 0)
            assert_string_equal(meta_of(&f, "waits"), "2");
        assert_int_equal(has_edge(&f, ORR_EDGE_EVENT, 2, 6), drop != 1);
        if (drop == 0)
            assert_null(meta_of(&f, "drop_wait"));
        else
            assert_int_equal(*meta_of(&f, "drop_wait"), '0' + (int)drop);
        fixture_close(&f);
        told_free(&told);
    }
}

static void a_finding_says_which_it_was(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    open_dropping(&f, &told, 1);
    play(&f);
    assert_int_equal(record_count(&f, ORR_RECORD_FINDING), 2);
    const struct orr_record_finding *finding = record_at(&f, ORR_RECORD_FINDING, 1);
    assert_string_equal(name_text(&f, finding->kind), "dropped-wait");
    assert_string_equal(name_text(&f, finding->severity), "note");
    assert_string_equal(name_text(&f, finding->message),
                        "demo.lua:7: wait 1 of the run was left out on purpose: 'wait e' in stream "
                        "'communicate' of device 0 does not wait for stream 'compute' of device 0, "
                        "event e");
    assert_int_equal(finding->cmd_a, 2);
    assert_int_equal(finding->cmd_b, 6);
    fixture_close(&f);
    told_free(&told);
}

/* A recorded wait counts once, and is missing in every launch. What launches wait for themselves
 * is not for dropping. */
static void a_recorded_wait_is_missing_in_every_launch(void **state) {
    (void)state;
    for (uint64_t drop = 0; drop <= 1; drop++) {
        struct fixture f;
        struct told told;
        open_dropping(&f, &told, drop);
        struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
        struct orr_program *program;
        ok(orr_program_begin(f.runtime, &program));
        struct orr_point point = launch(s, "a", NULL, NULL);
        point = orr_stream_point(s);
        ok(orr_stream_wait_point(t, point));
        launch(t, "b", NULL, NULL);
        ok(orr_program_end(program));
        ok(orr_program_launch(program, s));
        ok(orr_program_launch(program, s));
        assert_int_equal(orr_runtime_wait_count(f.runtime), drop);
        assert_non_null(
            strstr(told.text, drop ? "stream 1:1 waits 0:1\n" : "stream 1:1 waits 0:1 0:2\n"));
        assert_non_null(
            strstr(told.text, drop ? "stream 1:3 waits 0:4\n" : "stream 1:3 waits 0:4 0:5\n"));
        assert_non_null(strstr(told.text, "'graph join' host 0 stream 0:3 waits 1:2\n"));
        assert_int_equal(record_count(&f, ORR_RECORD_FINDING), drop);
        orr_program_destroy(&program);
        fixture_close(&f);
        told_free(&told);
    }
}

static void a_call_that_is_repeated_counts_once(void **state) {
    (void)state;
    struct fixture f;
    struct told told;
    fixture_prepare(&f, manual_open, 1);
    told_init(&told);
    f.config.observer = &told.observer;
    f.config.drop_wait = 2;
    fixture_start(&f);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_point a = launch(s, "a", NULL, NULL);
    manual_of(f.runtime)->block_acts = 3;
    for (int i = 0; i < 3; i++)
        assert_int_equal(orr_stream_wait_point(t, a), ORR_BLOCKED);
    ok(orr_stream_wait_point(t, a));
    assert_int_equal(orr_runtime_wait_count(f.runtime), 1);
    struct orr_point b = launch(s, "b", NULL, NULL);
    assert_int_equal(record_count(&f, ORR_RECORD_FINDING), 0);
    manual_of(f.runtime)->block_acts = 1;
    assert_int_equal(orr_stream_wait_point(t, b), ORR_BLOCKED);
    ok(orr_stream_wait_point(t, b));
    assert_int_equal(record_count(&f, ORR_RECORD_FINDING), 1);
    assert_string_equal(told_new(&told), "host 0 'host'\n"
                                         "stream 0 'compute' device 0 nb\n"
                                         "stream 1 'communicate' device 0 nb\n"
                                         "kernel 1 'a' host 0 stream 0:1\n"
                                         "wait 2 'wait' host 0 stream 1:1 waits 0:1\n"
                                         "kernel 3 'b' host 0 stream 0:2\n"
                                         "wait 4 'wait' host 0 stream 1:2\n");
    fixture_close(&f);
    told_free(&told);
}

/* What a stream waits for anyway, or its host has seen done, is passed over: with a trace and
 * without. */
static void a_wait_that_changes_nothing_does_not_count(void **state) {
    (void)state;
    for (int traced = 0; traced < 2; traced++) {
        struct fixture f;
        fixture_prepare(&f, orr_sim_open, 1);
        f.config.drop_wait = ORR_DROP_WAIT_NONE;
        if (!traced)
            f.config.sink = NULL;
        fixture_start(&f);
        struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
        struct orr_point a = launch(s, "a", NULL, NULL), b = launch(s, "b", NULL, NULL);
        ok(orr_stream_wait_point(t, b)); /* counts */
        ok(orr_stream_wait_point(t, b));
        ok(orr_stream_wait_point(t, a));
        assert_int_equal(orr_runtime_wait_count(f.runtime), 1);
        struct orr_point c = launch(s, "c", NULL, NULL);
        ok(orr_stream_sync(s));
        ok(orr_stream_wait_point(t, c));
        assert_int_equal(orr_runtime_wait_count(f.runtime), 1);
        ok(orr_stream_wait_point(t, launch(s, "d", NULL, NULL))); /* counts */
        assert_int_equal(orr_runtime_wait_count(f.runtime), 2);
        assert_int_equal(orr_runtime_finding_count(f.runtime), 0);
        fixture_close(&f);
    }
}

/* The first of two waits for one stream is superfluous unless work comes in between. */
static void a_wait_that_another_makes_superfluous_does_not_matter(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, orr_sim_open, 1);
    f.config.drop_wait = ORR_DROP_WAIT_NONE;
    fixture_start(&f);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0), *u;
    ok(orr_stream_create(f.runtime, 0, ORR_STREAM_COPY, "u", &u));
    struct orr_point points[5];
    for (int i = 0; i < 5; i++)
        points[i] = launch(s, "k", NULL, NULL);
    ok(orr_stream_wait_point(t, points[0]));                  /* 1 */
    ok(orr_stream_wait_point(t, launch(u, "u", NULL, NULL))); /* 2 */
    ok(orr_stream_wait_point(t, points[1]));                  /* 3 replaces 1 */
    launch(t, "work", NULL, NULL);
    ok(orr_stream_wait_point(t, points[2])); /* 4 */
    ok(orr_stream_wait_point(t, points[3])); /* 5 replaces 4 */
    ok(orr_stream_wait_point(u, points[4])); /* 6 */
    ok(orr_stream_wait_point(u, points[4])); /* the same again: without 6 it would do */
    ok(orr_stream_wait_point(u, points[4]));
    const bool matters[] = {false, false, true, true, false, true, false, false};
    for (uint64_t i = 0; i < sizeof matters; i++)
        assert_int_equal(orr_runtime_wait_matters(f.runtime, i), matters[i]);
    fixture_close(&f);
}

static void run_with_failures(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec spec = spec_for_tests();
    struct orr_runtime_config config = {.memory = &memory->table,
                                        .open = orr_sim_open,
                                        .specs = &spec,
                                        .device_count = 1,
                                        .drop_wait = 1};
    struct orr_runtime *runtime;
    struct orr_error error = {0};
    struct orr_stream *s = NULL, *t = NULL;
    if (orr_runtime_create(&config, &runtime, &error) == ORR_OK) {
        s = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
        t = orr_device_stream(runtime, 0, ORR_STREAM_COPY);
    }
    struct orr_kernel kernel = {.name = "k", .service_ns = 1, .submit_ns = 1};
    struct orr_point point;
    if (s && t && orr_stream_kernel(s, &kernel, &point) == ORR_OK) {
        enum orr_status status = orr_stream_wait_point(t, point);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_int_equal(orr_runtime_wait_count(runtime), status == ORR_OK);
    }
    if (runtime)
        (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
    orr_error_clear(&error);
}

static void without_memory_the_command_is_refused(void **state) {
    (void)state;
    assert_true(fail_each_request(run_with_failures, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wait_is_gone_and_nothing_else),
        cmocka_unit_test(a_finding_says_which_it_was),
        cmocka_unit_test(a_recorded_wait_is_missing_in_every_launch),
        cmocka_unit_test(a_call_that_is_repeated_counts_once),
        cmocka_unit_test(a_wait_that_changes_nothing_does_not_count),
        cmocka_unit_test(a_wait_that_another_makes_superfluous_does_not_matter),
        cmocka_unit_test(without_memory_the_command_is_refused),
    };
    return cmocka_run_group_tests_name("drop wait", tests, NULL, NULL);
}
