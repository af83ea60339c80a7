/* Replays and what-ifs: an unchanged replay gives every time of any model, sane or absurd; less
 * time never ends later; slack is exactly how far an op can move; and small models by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/replay.h"
#include "analyzer/whatif.h"
#include "tests/analyzer_model.h"
#include "tests/support.h"

enum { HORIZON = 400, ROUNDS = 400 };

static int64_t below(uint64_t *random, int64_t limit) {
    return (int64_t)random_below(random, (uint64_t)limit);
}

/* ------------------------------------------------------------------------------------------------
 * Random models */

static void add_calls(struct model *model, uint64_t *random, uint32_t threads) {
    static const char *const names[] = {
        "cudaLaunchKernel", "cudaLaunchKernel", "cudaMalloc",           "cudaEventRecord",
        "cudaMemcpy",       "cudaGraphLaunch",  "cudaDeviceSynchronize"};
    for (size_t i = 1 + random_below(random, 30); i > 0; i--) {
        int64_t begin = 1 + below(random, HORIZON);
        model_call(model, (uint32_t)random_below(random, threads), begin, begin + below(random, 50),
                   names[random_below(random, 7)]);
    }
}

static void add_ops(struct model *model, uint64_t *random, bool sane) {
    static const char *const names[] = {"gemm", "relu", "ncclAllReduce", "Memcpy HtoD"};
    struct orr_events *events = &model->events;
    int64_t ends[8] = {0};
    for (size_t i = random_below(random, 40); i > 0; i--) {
        uint32_t stream = (uint32_t)random_below(random, events->stream_count);
        uint32_t call = !sane && random_below(random, 8) == 0
                            ? ORR_EVENTS_NONE
                            : (uint32_t)random_below(random, events->call_count);
        int64_t start = 1 + below(random, HORIZON);
        if (sane) {
            int64_t called = events->calls[call].begin_ns + below(random, 40);
            start = ends[stream] > called ? ends[stream] : called;
        }
        int64_t end = start + below(random, 30);
        ends[stream] = end > ends[stream] ? end : ends[stream];
        struct orr_events_op *op = model_op(model, stream, call, start, end,
                                            names[random_below(random, sizeof names / 8)]);
        if (op && events->collective_count > 0 && random_below(random, 3) == 0) {
            op->collective = (uint32_t)random_below(random, events->collective_count);
        }
    }
}

static void add_dependencies(struct model *model, uint64_t *random) {
    struct orr_events *events = &model->events;
    for (size_t i = random_below(random, 8); i > 0; i--) {
        model_wait(model, (uint32_t)random_below(random, events->stream_count),
                   1 + below(random, HORIZON), (uint32_t)random_below(random, events->stream_count),
                   1 + below(random, HORIZON));
    }
    for (size_t i = events->op_count > 0 ? random_below(random, 6) : 0; i > 0; i--) {
        struct orr_events_op *op = &events->ops[random_below(random, events->op_count)];
        uint32_t source = (uint32_t)random_below(random, events->op_count);
        op->wait_ns = events->ops[source].end_ns;
        op->wait_op = source;
    }
    for (uint32_t c = 0; c < events->call_count; c++) {
        enum orr_sync_target kind = (enum orr_sync_target)random_below(random, 4);
        size_t targets = kind == ORR_SYNC_TARGET_OP       ? events->op_count
                         : kind == ORR_SYNC_TARGET_DEVICE ? events->device_count
                                                          : events->stream_count;
        if ((events->calls[c].flags & ORR_CALL_WAITING) && targets > 0) {
            model_sync(model, c, kind, (uint32_t)random_below(random, targets));
        }
    }
}

static void random_model(struct model *model, const struct orr_memory *memory, uint64_t *random,
                         bool sane) {
    model_init(model, memory);
    for (size_t d = 1 + random_below(random, 2); d > 0; d--) {
        uint32_t device = model_device(model);
        model_stream(model, device);
        for (size_t s = random_below(random, 3); s > 0; s--) {
            model_stream(model, device);
        }
    }
    model_thread(model, 0, "1/10");
    model_thread(model, 0, "1/9");
    for (size_t c = random_below(random, 4); c > 0; c--) {
        struct orr_events_collective row = {.kind = "all_reduce", .group = "", .size = 2};
        assert_int_equal(orr_events_add_collective(&model->events, &row, NULL), ORR_OK);
    }
    add_calls(model, random, 1 + (uint32_t)random_below(random, 2));
    add_ops(model, random, sane);
    add_dependencies(model, random);
}

/* ------------------------------------------------------------------------------------------------
 * Properties */

struct replayed {
    struct model model;
    struct orr_analysis *analysis;
    struct orr_replay *replay;
    struct orr_replay_times times;
    struct orr_replay_values values;
};

static void replay_start(struct replayed *r, const struct orr_memory *memory, bool latency) {
    struct orr_error error = {0};
    struct orr_replay_options options = {.latency = latency};
    r->analysis = model_analyze(&r->model, NULL);
    assert_int_equal(
        orr_replay_create(&r->analysis->events, NULL, &options, memory, &r->replay, &error),
        ORR_OK);
    assert_int_equal(orr_replay_times_create(r->replay, &r->times), ORR_OK);
    assert_int_equal(orr_replay_values_copy(r->replay, &r->values), ORR_OK);
    orr_replay_run(r->replay, &r->values, &r->times);
}

static void replay_end(struct replayed *r, const struct orr_memory *memory) {
    orr_replay_values_free(memory, &r->values);
    orr_replay_times_free(memory, &r->times);
    orr_replay_destroy(&r->replay);
    model_done(&r->model, &r->analysis);
}

static void unchanged_is_the_trace(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(20261);
    for (int round = 0; round < ROUNDS; round++) {
        struct replayed r;
        random_model(&r.model, &memory, &random, round % 2 == 0);
        replay_start(&r, &memory, round % 4 < 2);
        assert_int_equal(orr_replay_difference(r.replay, &r.times), 0);
        replay_end(&r, &memory);
    }
}

/* Takes some time off some values. */
static void take_off(struct replayed *r, uint64_t *random) {
    for (size_t p = 0; p < r->replay->point_count; p++) {
        if (!r->replay->points[p].first && r->values.delta[p] > 0) {
            r->values.delta[p] -= below(random, r->values.delta[p] + 1);
        }
    }
    for (size_t i = 0; i < r->replay->item_count; i++) {
        r->values.lag[i] -= below(random, r->values.lag[i] + 1);
        r->values.offset[i] -= below(random, r->values.offset[i] + 1);
        r->values.duration[i] -= below(random, r->values.duration[i] + 1);
    }
}

static void less_time_is_never_later(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(20262);
    for (int round = 0; round < ROUNDS; round++) {
        struct replayed r;
        random_model(&r.model, &memory, &random, round % 2 == 0);
        replay_start(&r, &memory, true);
        take_off(&r, &random);
        orr_replay_run(r.replay, &r.values, &r.times);
        for (size_t i = 0; i < r.replay->item_count; i++) {
            assert_true(r.times.start[i] <= r.replay->items[i].start_ns);
            assert_true(r.times.end[i] <= r.replay->items[i].end_ns);
        }
        replay_end(&r, &memory);
    }
}

/* Moved by its slack, an op moves the end of nothing; by 1 ns more it does. */
static void slack_is_how_far_an_op_moves(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(20263);
    size_t tried = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct replayed r;
        int64_t slack[64], begin, end, moved;
        random_model(&r.model, &memory, &random, round % 4 > 0);
        replay_start(&r, &memory, round % 2 == 0);
        assert_true(r.analysis->events.op_count < 64);
        assert_int_equal(orr_replay_slack(r.replay, &r.values, &r.times, slack), ORR_OK);
        bool any = orr_replay_window(r.replay, &r.times, ORR_EVENTS_NONE, &begin, &end);
        for (size_t o = 0; any && o < r.analysis->events.op_count; o++) {
            uint32_t i = r.replay->item_of[o];
            assert_true(slack[o] >= 0);
            if (r.replay->items[i].pinned || r.replay->counts.circular > 0) {
                continue;
            }
            tried++;
            r.values.lag[i] += slack[o];
            orr_replay_run(r.replay, &r.values, &r.times);
            (void)orr_replay_window(r.replay, &r.times, ORR_EVENTS_NONE, &begin, &moved);
            assert_int_equal(moved, end);
            r.values.lag[i]++;
            orr_replay_run(r.replay, &r.values, &r.times);
            (void)orr_replay_window(r.replay, &r.times, ORR_EVENTS_NONE, &begin, &moved);
            assert_true(moved > end);
            r.values.lag[i] -= slack[o] + 1;
        }
        replay_end(&r, &memory);
    }
    assert_true(tried > ROUNDS); /* or nothing was tested */
}

/* ------------------------------------------------------------------------------------------------
 * What-ifs */

static struct orr_whatif *predict(const struct orr_analysis *analysis, const char *const *texts,
                                  size_t count, const struct orr_memory *memory) {
    struct orr_whatif_setting settings[8];
    struct orr_whatif_options options = {0};
    struct orr_error error = {0};
    struct orr_whatif *whatif = NULL;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(orr_whatif_parse(texts[i], &settings[i], &error), ORR_OK);
    }
    assert_int_equal(
        orr_whatif_compute(analysis, settings, count, &options, memory, &whatif, &error), ORR_OK);
    return whatif;
}

static void factors_of_one_change_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"launch_cost=x1",  "host=x1",       "kernel:*=x1",
                                        "class:comm=x1.0", "class:copy=x1", "network=x1"};
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(20264);
    for (int round = 0; round < ROUNDS; round++) {
        struct model model;
        random_model(&model, &memory, &random, round % 2 == 0);
        struct orr_analysis *analysis = model_analyze(&model, NULL);
        struct orr_whatif *whatif = predict(analysis, texts, 6, &memory);
        int64_t sum = 0;
        assert_int_equal(whatif->all.predicted_begin_ns, whatif->all.begin_ns);
        assert_int_equal(whatif->all.predicted_end_ns, whatif->all.end_ns);
        assert_int_equal(orr_replay_difference(whatif->replay, &whatif->times), 0);
        for (int k = 0; k < ORR_PATH_COUNT; k++) {
            assert_int_equal(whatif->path_before[k], whatif->path_after[k]);
            sum += whatif->path_after[k];
        }
        assert_int_equal(sum, whatif->all.end_ns - whatif->all.begin_ns);
        orr_whatif_destroy(&whatif);
        model_done(&model, &analysis);
    }
}

/* Any setting on any model: no crash, the path is the window, texts can be made. */
static void settings_hold_on_anything(void **state) {
    (void)state;
    static const char *const texts[] = {"launch_cost=0",    "launch_cost=7",    "host=x3",
                                        "kernel:g*=x0.001", "class:compute=x7", "bandwidth=x2",
                                        "network=x1000000", "overlap=perfect",  "straggler=none",
                                        "graph=on",         "fuse=elementwise", "fuse=gemm+relu"};
    struct orr_memory memory = orr_memory_system();
    uint64_t random = random_seed(20265);
    for (int round = 0; round < ROUNDS; round++) {
        struct model model;
        random_model(&model, &memory, &random, round % 2 == 0);
        struct orr_analysis *analysis = model_analyze(&model, NULL);
        const char *chosen[] = {texts[random_below(&random, 12)], texts[random_below(&random, 12)]};
        struct orr_whatif *whatif = predict(analysis, chosen, 2, &memory);
        assert_int_equal(whatif->replay_error_ns, 0);
        char *text = NULL;
        size_t length = 0;
        assert_int_equal(orr_whatif_text(whatif, NULL, &text, &length), ORR_OK);
        orr_memory_free(&memory, text);
        assert_int_equal(orr_whatif_json(whatif, NULL, &text, &length), ORR_OK);
        orr_memory_free(&memory, text);
        orr_whatif_destroy(&whatif);
        model_done(&model, &analysis);
    }
}

static int64_t window_with(struct model *model, const char *setting) {
    struct orr_memory memory = orr_memory_system();
    struct orr_analysis *analysis = model_analyze(model, NULL);
    struct orr_whatif *whatif = predict(analysis, &setting, 1, &memory);
    int64_t window =
        whatif->answers ? whatif->all.predicted_end_ns - whatif->all.predicted_begin_ns : -1;
    orr_whatif_destroy(&whatif);
    model_done(model, &analysis);
    return window;
}

/* Four launches of 10 ns with 5 ns between them, each op starts 2 ns after its call and takes 4:
 *
 *     host  [--10--] 5 [--10--] 5 [--10--] 5 [--10--]
 *     ops            2[4]        2[4]        2[4]       2[4]      window 12 .. 61 = 49
 */
static void launches(struct model *model, const struct orr_memory *memory) {
    model_init(model, memory);
    uint32_t stream = model_stream(model, model_device(model));
    uint32_t thread = model_thread(model, 0, "1/1");
    for (int i = 0; i < 4; i++) {
        int64_t begin = 15 * i;
        uint32_t call = model_call(model, thread, begin, begin + 10, "cudaLaunchKernel");
        model_op(model, stream, call, begin + 12, begin + 16, i % 2 ? "relu" : "gemm");
    }
}

static void launches_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *setting;
        int64_t window_ns;
    } cases[] = {
        {"launch_cost=x1", 49},   {"launch_cost=0", 19}, /* 5 ns between the calls: 3 x 5 + 4 */
        {"launch_cost=x0.5", 34},                        /* 3 x (5 + 5) + 4 */
        {"launch_cost=1", 22},                           /* 3 x (1 + 5) + 4 */
        {"host=x2", 28},        /* calls of 5, and 2.5 rounded up between: 3 x 8 + 4 */
        {"kernel:gemm=x2", 49}, /* the last op is the other one */
        {"kernel:re?u=x2", 47}, /* 45 + 2 */
        {"kernel:*=x4", 46},      {"graph=on", 16},     /* behind each other: 4 x 4 */
        {"fuse=gemm+relu", 23},                         /* two calls with 5 ns between: 15 + 8 */
        {"overlap=perfect", 49},  {"bandwidth=x2", -1}, /* nothing is known about bytes */
        {"straggler=none", -1},                         /* one device */
        {"kernel:none=x2", -1},   {"fuse=relu+relu", -1},
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model model;
        launches(&model, &memory);
        int64_t window = window_with(&model, cases[i].setting);
        if (window != cases[i].window_ns) {
            fail_msg("%s: %lld, wanted %lld", cases[i].setting, (long long)window,
                     (long long)cases[i].window_ns);
        }
    }
}

/* Three devices join in a collective; the third one's gemm is slower:
 *
 *     device 0  [gemm 20][==== wait ====|transfer 10]
 *     device 1  [gemm 20][==== wait ====|transfer 10]
 *     device 2  [------ gemm 50 --------][transfer 10]
 */
static void collective(struct model *model, const struct orr_memory *memory) {
    model_init(model, memory);
    uint32_t thread = model_thread(model, 0, "1/1"), joined;
    struct orr_events_collective row = {.kind = "all_reduce", .group = "", .size = 3};
    assert_int_equal(orr_events_add_collective(&model->events, &row, &joined), ORR_OK);
    for (int d = 0; d < 3; d++) {
        uint32_t stream = model_stream(model, model_device(model));
        uint32_t first = model_call(model, thread, d, d + 1, "cudaLaunchKernel");
        uint32_t second = model_call(model, thread, 3 + d, 4 + d, "cudaLaunchKernel");
        int64_t end = 10 + (d == 2 ? 50 : 20);
        model_op(model, stream, first, 10, end, "gemm");
        model_op(model, stream, second, end, 70, "ncclAllReduce")->collective = joined;
    }
}

static void collectives_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *setting;
        int64_t window_ns;
    } cases[] = {
        {"straggler=none", 30},                            /* 20 + 10 */
        {"network=x2", 55},                                /* waiting stays */
        {"class:comm=x2", 55},   {"class:compute=x2", 35}, /* 25 + 10 */
        {"overlap=perfect", 50},                           /* the third gemm alone */
    };
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model model;
        collective(&model, &memory);
        int64_t window = window_with(&model, cases[i].setting);
        if (window != cases[i].window_ns) {
            fail_msg("%s: %lld, wanted %lld", cases[i].setting, (long long)window,
                     (long long)cases[i].window_ns);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Words, and no memory */

static void settings_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"launch_cost=0", NULL},
        {"launch_cost=x0.25", NULL},
        {"launch_cost=2500", NULL},
        {"kernel:a=b=x2", NULL},
        {"class:copy=x1.5", NULL},
        {"fuse=a+b+c", NULL},
        {"launch_cos=0", "unknown key 'launch_cos'; did you mean 'launch_cost'?"},
        {"launch_cost", "expected KEY=VALUE"},
        {"launch_cost=", "launch_cost takes 0, xF or a number of ns"},
        {"launch_cost=-1", "launch_cost takes 0, xF or a number of ns"},
        {"host=2", "host takes xF, as in x2 or x0.5"},
        {"host=x0", "host takes xF, as in x2 or x0.5"},
        {"host=x2000000", "host takes xF, as in x2 or x0.5"},
        {"kernel:=x2", "expected kernel:NAME=xF"},
        {"class:com=x2", "unknown class 'com'; did you mean 'comm'?"},
        {"graph=off", "graph takes on"},
        {"fuse=a", "fuse takes NAME+NAME or elementwise"},
        {"fuse=a++b", "fuse takes NAME+NAME or elementwise"},
        {"straggler=one", "straggler takes none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct orr_whatif_setting setting;
        struct orr_error error = {0};
        enum orr_status status = orr_whatif_parse(cases[i].text, &setting, &error);
        if (!cases[i].message) {
            assert_int_equal(status, ORR_OK);
        } else if (status != ORR_INVALID || !strstr(error.text, cases[i].message)) {
            fail_msg("%s: '%s', wanted '%s'", cases[i].text, error.text, cases[i].message);
        }
    }
    assert_true(orr_whatif_matches("a*b?", "axxbc") && orr_whatif_matches("*", ""));
    assert_true(orr_whatif_matches("*ab*ab", "abcabab") && !orr_whatif_matches("a?", "a"));
}

static void without_memory(struct memory_counting *counting, void *context) {
    struct orr_analysis *analysis = context;
    struct orr_whatif_setting settings[4];
    struct orr_whatif_options options = {0};
    struct orr_error error = {0};
    struct orr_whatif *whatif = NULL;
    static const char *const texts[] = {"graph=on", "fuse=gemm+relu", "straggler=none",
                                        "overlap=perfect"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(orr_whatif_parse(texts[i], &settings[i], &error), ORR_OK);
    }
    enum orr_status status =
        orr_whatif_compute(analysis, settings, 4, &options, &counting->table, &whatif, &error);
    char *text = NULL;
    size_t length = 0;
    if (status == ORR_OK && orr_whatif_json(whatif, NULL, &text, &length) == ORR_OK) {
        orr_memory_free(&counting->table, text);
    }
    assert_true(status == ORR_OK || (status == ORR_NO_MEMORY && !whatif));
    orr_whatif_destroy(&whatif);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct model model;
    collective(&model, &memory);
    struct orr_analysis *analysis = model_analyze(&model, NULL);
    assert_true(fail_each_request(without_memory, analysis) > 20);
    model_done(&model, &analysis);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_is_the_trace),
        cmocka_unit_test(less_time_is_never_later),
        cmocka_unit_test(slack_is_how_far_an_op_moves),
        cmocka_unit_test(factors_of_one_change_nothing),
        cmocka_unit_test(settings_hold_on_anything),
        cmocka_unit_test(launches_by_hand),
        cmocka_unit_test(collectives_by_hand),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("what-if", tests, NULL, NULL);
}
