/* What the analyzer says about parallel strategies, on timelines built by hand: communication by
 * mesh axis, exposed, waiting and overlapped, against a look at every nanosecond; bubbles of
 * pipelines, against the formula. */
#include "analyzer/report_json.h"
#include "tests/analyzer_fixture.h"

/* Streams of device d: compute 2 d, communicate 2 d + 1. */
static void start_devices(struct fixture *f, uint32_t count) {
    fixture_init(f);
    fixture_meta(f, "status", "ok");
    fixture_host(f, "main");
    for (uint32_t d = 0; d < count; d++) {
        fixture_device(f, fixture_text(f, "sim:test %u", d), "gpu");
        fixture_stream(f, d, "compute", ORR_STREAM_COMPUTE);
        fixture_stream(f, d, "communicate", ORR_STREAM_COMMUNICATE);
    }
}

static uint64_t compute(struct fixture *f, uint32_t device, int64_t begin, int64_t end) {
    return command(f, ORR_COMMAND_KERNEL, 2 * device, "k", 0, 0, begin, end);
}

/* A member of a collective. */
static uint64_t member(struct fixture *f, uint64_t collective, uint32_t device, int64_t begin,
                       int64_t end) {
    uint64_t id = command(f, ORR_COMMAND_COLLECTIVE, 2 * device + 1, "c", 0, 0, begin, end);
    fixture_collective_member(f, collective, device, id);
    return id;
}

static const struct orr_communication_row *row_of(const struct orr_analysis *a, const char *axis,
                                                  const char *kind) {
    for (size_t i = 0; i < a->communication.row_count; i++) {
        const struct orr_communication_row *row = &a->communication.rows[i];
        if (strcmp(row->axis, axis) == 0 && strcmp(row->kind, kind) == 0) {
            return row;
        }
    }
    fail_msg("no row %s %s", axis, kind);
    return NULL;
}

static void check_sums(const struct orr_communication_sums *sums, uint64_t ops, int64_t time,
                       int64_t exposed, int64_t waiting) {
    assert_int_equal(sums->ops, ops);
    assert_int_equal(sums->time_ns, time);
    assert_int_equal(sums->exposed_ns, exposed);
    assert_int_equal(sums->waiting_ns, waiting);
}

/* ------------------------------------------------------------------------------------------------
 * Communication */

static void an_instant_belongs_to_the_communication_that_began_last(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    uint32_t dp = fixture_communicator(&f, "dp 0"), tp = fixture_communicator(&f, "tp 1");
    compute(&f, 0, 0, 100);
    compute(&f, 0, 150, 300);
    uint64_t reduce = fixture_collective(&f, dp, "reduce_scatter", 1000)->id;
    uint64_t gather = fixture_collective(&f, tp, "all_reduce", 64)->id;
    member(&f, reduce, 0, 50, 320);  /* alone: 50-100 overlapped, 300-320 exposed */
    member(&f, gather, 0, 90, 200);  /* 90-100 overlapped, 100-150 exposed, 150-200 overlapped */
    member(&f, gather, 1, 130, 200); /* arrives at 130 */
    struct orr_analysis *a = analyze(&f);
    check_sums(&row_of(a, "dp", "reduce_scatter")->sums, 1, 40 + 120, 20, 0);
    check_sums(&row_of(a, "tp", "all_reduce")->sums, 2, 110 + 70, 50 + 70, 30);
    assert_true(row_of(a, "tp", "all_reduce")->bytes == 64);
    assert_int_equal(row_of(a, "tp", "all_reduce")->count, 1);
    assert_string_equal(a->communication.rows[0].axis, "tp"); /* the most exposed first */
    assert_int_equal(a->communication.first[1], 2);
    const struct orr_communication_cell *cell = &a->communication.cells[0];
    assert_int_equal(cell->row, 0);
    check_sums(&cell->sums, 1, 110, 50, 30);
    assert_true(cell->bytes == 64);
    assert_int_equal(a->devices[0].classes[ORR_CLASS_EXPOSED_COMM], 70);
    finish(&f, &a);
}

static void groups_of_one_axis_are_one_row(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    static const char *const names[] = {"tp 0", "tp 12", "tp",    "0-3 and 4, 5, ...", "3",
                                        " 4",   "x1",    "tp 5a", "you and me",        "1 and "};
    static const char *const axes[] = {"tp", "tp", "tp",    "between meshes", "3",
                                       " 4", "x1", "tp 5a", "you and me",     "1 and "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t group = fixture_communicator(&f, names[i]);
        uint64_t id = fixture_collective(&f, group, "all_gather", 10)->id;
        member(&f, id, 0, (int64_t)(100 * i), (int64_t)(100 * i + 10));
    }
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->communication.row_count, 8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(row_of(a, axes[i], "all_gather")->count, i < 3 ? 3 : 1);
    }
    assert_true(row_of(a, "tp", "all_gather")->bytes == 30);
    finish(&f, &a);
}

static void communication_is_clipped_to_the_window(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 1);
    uint32_t dp = fixture_communicator(&f, "dp 0");
    for (int i = 0; i < 4; i++) {
        uint64_t id = fixture_collective(&f, dp, "all_reduce", 5)->id;
        member(&f, id, 0, 100 * i, 100 * i + 50);
    }
    struct orr_analysis_options options = orr_analysis_options_default();
    options.begin_ns = 120;
    options.end_ns = 230;
    struct orr_analysis *a = analyze_with(&f, &options);
    check_sums(&row_of(a, "dp", "all_reduce")->sums, 2, 30 + 30, 30 + 30, 0);
    assert_int_equal(row_of(a, "dp", "all_reduce")->count, 2);
    finish(&f, &a);
}

/* --- against a look at every nanosecond --- */

enum { END = 300, DEVICES = 3, GROUPS = 4 };

struct random_op {
    uint32_t device, group;
    uint64_t collective;
    int64_t begin, end;
    uint64_t id;
    bool comm;
};

static uint64_t random_next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static int64_t below(uint64_t *state, int64_t limit) {
    return (int64_t)(random_next(state) % (uint64_t)limit);
}

/* Ops in the order in which they begin; those that begin together by their end, then id. */
static bool begins_later(const struct random_op *x, const struct random_op *y) {
    if (x->begin != y->begin) {
        return x->begin > y->begin;
    }
    return x->end != y->end ? x->end > y->end : x->id > y->id;
}

static void look(const struct random_op *ops, size_t count, uint32_t device, int64_t now,
                 struct orr_communication_sums *by_group) {
    const struct random_op *last = NULL;
    bool computes = false, waits = false;
    for (size_t i = 0; i < count; i++) {
        const struct random_op *op = &ops[i];
        if (op->device != device || op->begin > now || op->end <= now) {
            continue;
        }
        computes = computes || !op->comm;
        if (op->comm && (!last || begins_later(op, last))) {
            last = op;
        }
    }
    for (size_t i = 0; last && i < count; i++) {
        waits =
            waits || (ops[i].comm && ops[i].collective == last->collective && ops[i].begin > now);
    }
    if (last) {
        by_group[last->group].time_ns++;
        by_group[last->group].exposed_ns += !computes;
        by_group[last->group].waiting_ns += !computes && waits;
    }
}

static size_t add_random_ops(struct fixture *f, uint64_t *state, struct random_op *ops) {
    size_t count = 0;
    uint32_t groups[GROUPS];
    for (uint32_t g = 0; g < GROUPS; g++) {
        groups[g] = fixture_communicator(f, fixture_text(f, "axis%u 0", g));
    }
    for (int64_t i = 3 + below(state, 9); i > 0; i--) {
        struct random_op op = {.device = (uint32_t)below(state, DEVICES),
                               .begin = below(state, END)};
        op.end = op.begin + below(state, END - op.begin);
        op.id = compute(f, op.device, op.begin, op.end);
        ops[count++] = op;
    }
    for (int64_t i = 1 + below(state, 9); i > 0; i--) {
        uint32_t g = (uint32_t)below(state, GROUPS);
        uint64_t collective = fixture_collective(f, groups[g], "all_reduce", 8)->id;
        for (uint32_t d = 0; d < DEVICES; d++) {
            struct random_op op = {.device = d,
                                   .group = g,
                                   .collective = collective,
                                   .begin = below(state, END),
                                   .comm = true};
            op.end = op.begin + below(state, END - op.begin);
            op.id = member(f, collective, d, op.begin, op.end);
            ops[count++] = op;
        }
    }
    return count;
}

static void check_device(const struct orr_analysis *a, uint32_t device,
                         const struct orr_communication_sums *wanted) {
    const struct orr_communication *c = &a->communication;
    const struct orr_device_report *report = &a->devices[device];
    int64_t time = 0, exposed = 0;
    for (size_t i = c->first[device]; i < c->first[device + 1]; i++) {
        const struct orr_communication_sums *sums = &c->cells[i].sums;
        uint32_t group = (uint32_t)(c->rows[c->cells[i].row].axis[4] - '0');
        assert_int_equal(sums->time_ns, wanted[group].time_ns);
        assert_int_equal(sums->exposed_ns, wanted[group].exposed_ns);
        assert_int_equal(sums->waiting_ns, wanted[group].waiting_ns);
        time += sums->time_ns;
        exposed += sums->exposed_ns;
    }
    assert_int_equal(time, report->times.window_comm_ns);
    assert_int_equal(exposed, report->classes[ORR_CLASS_EXPOSED_COMM]);
}

static void every_nanosecond_of_communication_has_one_axis(void **state) {
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        struct fixture f;
        struct random_op ops[64];
        start_devices(&f, DEVICES);
        size_t count = add_random_ops(&f, &seed, ops);
        struct orr_analysis *a = analyze(&f);
        for (uint32_t d = 0; d < DEVICES; d++) {
            struct orr_communication_sums wanted[GROUPS] = {{0}};
            for (int64_t now = 0; now < END; now++) {
                look(ops, count, d, now, wanted);
            }
            check_device(a, d, wanted);
        }
        finish(&f, &a);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Pipelines */

/* An op of a stage that waits for one of another device, by an event: 0 for none. */
static uint64_t stage_op(struct fixture *f, uint32_t device, uint64_t waits_for, int64_t begin,
                         int64_t end) {
    uint64_t id = compute(f, device, begin, end);
    if (waits_for != 0) {
        fixture_edge(f, waits_for, id, ORR_EDGE_EVENT);
    }
    return id;
}

/* One forward pass through 1F1B or GPipe. Forward and backward take `forward` and `backward`. */
struct schedule {
    uint32_t stages, microbatches;
    int64_t forward, backward;
    bool gpipe;
};

enum { STAGES_MAX = 6, MICROBATCHES_MAX = 12 };

/* Plays a schedule, greedily in time, each stage's ops in its own order; returns the step's end. */
static int64_t play(struct fixture *f, const struct schedule *s) {
    uint64_t forward[STAGES_MAX][MICROBATCHES_MAX] = {{0}};
    uint64_t backward[STAGES_MAX][MICROBATCHES_MAX] = {{0}};
    int64_t end[1 + 2 * STAGES_MAX * MICROBATCHES_MAX] = {0}, free_at[STAGES_MAX] = {0}, last = 0;
    uint32_t made[STAGES_MAX][2] = {{0}};
    for (uint32_t left = 2 * s->stages * s->microbatches; left > 0;) {
        for (uint32_t d = 0; d < s->stages; d++) {
            uint32_t ahead = s->gpipe ? s->microbatches : s->stages - d;
            uint32_t *done = made[d];
            bool goes_forward = done[0] < s->microbatches && done[0] - done[1] < ahead;
            uint32_t m = goes_forward ? done[0] : done[1];
            if (m == s->microbatches) {
                continue;
            }
            uint64_t needs = goes_forward ? (d > 0 ? forward[d - 1][m] : 0)
                                          : (d + 1 < s->stages ? backward[d + 1][m] : 0);
            bool first = goes_forward ? d == 0 : d + 1 == s->stages;
            if (needs == 0 && !first) {
                continue;
            }
            int64_t begin = needs && end[needs] > free_at[d] ? end[needs] : free_at[d];
            int64_t length = goes_forward ? s->forward : s->backward;
            uint64_t id = stage_op(f, d, needs, begin, begin + length);
            (goes_forward ? forward : backward)[d][m] = id;
            end[id] = free_at[d] = begin + length;
            last = free_at[d] > last ? free_at[d] : last;
            done[goes_forward ? 0 : 1]++;
            left--;
        }
    }
    return last;
}

static void check_bubble(const struct schedule *s) {
    struct fixture f;
    start_devices(&f, s->stages + 1); /* one that is no stage */
    int64_t step = play(&f, s);
    int64_t work = s->microbatches * (s->forward + s->backward);
    assert_int_equal(step, (s->microbatches + s->stages - 1) * (s->forward + s->backward));
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->pipelines.count, 1);
    assert_int_equal(a->pipelines.items[0].devices, s->stages);
    assert_int_equal(a->pipelines.items[0].end_ns - a->pipelines.items[0].begin_ns, step);
    assert_int_equal(a->pipelines.items[0].bubble_ns, s->stages * (step - work));
    for (uint32_t d = 0; d < s->stages; d++) {
        const struct orr_stage *stage = &a->pipelines.stages[d];
        assert_int_equal(orr_stage_bubble(stage), step - work);
        assert_int_equal(stage->warm_up_ns, d * s->forward);
        assert_int_equal(stage->drain_ns, d * s->backward);
    }
    assert_int_equal(a->pipelines.stages[s->stages].pipeline, ORR_EVENTS_NONE);
    finish(&f, &a);
}

static void the_bubble_of_a_pipeline_is_that_of_the_formula(void **state) {
    (void)state;
    for (uint32_t stages = 2; stages <= STAGES_MAX; stages++) {
        for (uint32_t microbatches = 1; microbatches <= MICROBATCHES_MAX; microbatches++) {
            check_bubble(&(struct schedule){stages, microbatches, 100, 100, true});
            check_bubble(&(struct schedule){stages, microbatches, 100, 200, true});
            if (microbatches >= stages) {
                check_bubble(&(struct schedule){stages, microbatches, 70, 70, false});
                check_bubble(&(struct schedule){stages, microbatches, 100, 200, false});
            }
        }
    }
}

/* A send from device 0 to device 1: its two members, from when each was there to a common end. */
static void send(struct fixture *f, uint64_t *out_send, uint64_t *out_receive, int64_t sender,
                 int64_t receiver, int64_t end) {
    uint64_t id = fixture_collective(f, 0, "send_receive", 8)->id;
    *out_send = member(f, id, 0, sender, end);
    *out_receive = member(f, id, 1, receiver, end);
    fixture_row(f, *out_send)->bytes_read = 8;
    fixture_row(f, *out_receive)->bytes_written = 8;
}

static void a_receive_that_waits_for_its_sender_is_bubble_and_the_transfer_is_not(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    fixture_communicator(&f, "pp 0");
    uint64_t s, r;
    uint64_t first = compute(&f, 0, 0, 100);
    send(&f, &s, &r, 100, 40, 130); /* the receiver is there at 40, the sender at 100 */
    fixture_edge(&f, first, s, ORR_EDGE_EVENT);
    uint64_t second = compute(&f, 1, 130, 180);
    fixture_edge(&f, r, second, ORR_EDGE_EVENT);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->pipelines.count, 1);
    const struct orr_stage *sender = &a->pipelines.stages[0], *receiver = &a->pipelines.stages[1];
    assert_int_equal(receiver->warm_up_ns, 60); /* 40 to 100: before, it was not called yet */
    assert_int_equal(orr_stage_bubble(receiver), 60);
    assert_int_equal(sender->drain_ns, 50); /* 130 to 180: the send itself is communication */
    assert_int_equal(orr_stage_bubble(sender), 50);
    check_sums(&row_of(a, "pp", "send_receive")->sums, 2, 30 + 90, 30 + 90, 60);
    finish(&f, &a);
}

static void a_ring_or_a_collective_makes_no_pipeline(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    fixture_communicator(&f, "cp 0");
    static const char *const kinds[] = {"send_receive", "all_reduce"};
    for (int i = 0; i < 2; i++) {
        int64_t at = 1000 * i;
        uint64_t before[2] = {compute(&f, 0, at, at + 50), compute(&f, 1, at, at + 100)};
        uint64_t id = fixture_collective(&f, 0, kinds[i], 8)->id;
        for (uint32_t d = 0; d < 2; d++) {
            uint64_t m = member(&f, id, d, at + 50 + 50 * d, at + 120);
            fixture_row(&f, m)->bytes_read = fixture_row(&f, m)->bytes_written = 8;
            fixture_edge(&f, before[d], m, ORR_EDGE_EVENT);
            fixture_edge(&f, m, compute(&f, d, at + 120, at + 150), ORR_EDGE_EVENT);
        }
    }
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->pipelines.count, 0);
    assert_int_equal(a->pipelines.stages[0].pipeline, ORR_EVENTS_NONE);
    finish(&f, &a);
}

static void what_the_host_does_too_late_is_no_bubble(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    uint64_t a0 = compute(&f, 0, 0, 100);
    compute(&f, 1, 0, 10);
    uint64_t b0 = command(&f, ORR_COMMAND_KERNEL, 2, "k", 50, 60, 100, 200);
    fixture_edge(&f, a0, b0, ORR_EDGE_EVENT);
    uint64_t c0 = compute(&f, 0, 100, 260);
    uint64_t d0 = command(&f, ORR_COMMAND_KERNEL, 2, "k", 210, 300, 300, 400); /* it was late */
    fixture_edge(&f, c0, d0, ORR_EDGE_EVENT);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->pipelines.stages[1].warm_up_ns, 40); /* 60 to 100 */
    assert_int_equal(a->pipelines.stages[1].steady_ns, 0);
    assert_int_equal(a->pipelines.stages[0].drain_ns, 140);
    finish(&f, &a);
}

/* Two steps, after each of which the host waits for the last stage. */
static void a_stage_that_is_done_while_the_host_waits_for_another_drains(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    for (int64_t step = 0; step < 2; step++) {
        int64_t at = 1000 * step;
        uint64_t first = command(&f, ORR_COMMAND_KERNEL, 0, "k", at, at, at, at + 100);
        uint64_t second = command(&f, ORR_COMMAND_KERNEL, 2, "k", at, at, at + 100, at + 300);
        fixture_edge(&f, first, second, ORR_EDGE_EVENT);
        fixture_sync(&f, 0, ORR_SYNC_DEVICE, at, at + 1000, second)->target = "device 1";
    }
    struct orr_analysis *a = analyze(&f);
    /* Device 0 is idle from 100 to 1000; until 300 because device 1 still computes. */
    assert_int_equal(a->devices[0].classes[ORR_CLASS_HOST_SYNC], 900);
    assert_int_equal(a->pipelines.stages[0].drain_ns, 200 + 200);
    assert_int_equal(a->pipelines.stages[0].steady_ns, 0);
    assert_int_equal(a->pipelines.stages[1].warm_up_ns, 100);
    assert_int_equal(a->pipelines.stages[1].steady_ns, 100);
    assert_int_equal(a->pipelines.stages[1].drain_ns, 0);
    orr_analysis_destroy(&a);
    /* The second step alone. */
    struct orr_analysis_options options = orr_analysis_options_default();
    options.begin_ns = 1000;
    a = analyze_with(&f, &options);
    assert_int_equal(a->pipelines.items[0].begin_ns, 1000);
    assert_int_equal(a->pipelines.items[0].end_ns, 1300);
    assert_int_equal(a->pipelines.stages[0].drain_ns, 200);
    assert_int_equal(a->pipelines.stages[1].warm_up_ns, 100);
    assert_int_equal(a->pipelines.items[0].bubble_ns, 300);
    finish(&f, &a);
}

/* The same with a host for each device: that of device 0 is in no call, another one waits from 150
 * on. */
static void a_stage_drains_too_while_a_host_other_than_its_own_waits(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 2);
    uint32_t other = fixture_host(&f, "controller");
    for (int64_t step = 0; step < 2; step++) {
        int64_t at = 1000 * step;
        uint64_t first = command(&f, ORR_COMMAND_KERNEL, 0, "k", at, at, at, at + 100);
        uint64_t second = command(&f, ORR_COMMAND_KERNEL, 2, "k", at, at, at + 100, at + 300);
        fixture_edge(&f, first, second, ORR_EDGE_EVENT);
        fixture_sync(&f, other, ORR_SYNC_DEVICE, at + 150, at + 1000, second)->target = "device 1";
    }
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->devices[0].classes[ORR_CLASS_HOST_OTHER], 900);
    assert_int_equal(a->pipelines.stages[0].drain_ns, 150 + 200); /* of the last step all */
    assert_int_equal(a->pipelines.stages[0].steady_ns, 0);
    finish(&f, &a);
}

static void pipelines_beside_each_other_have_spans_of_their_own(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 4);
    stage_op(&f, 1, stage_op(&f, 0, 0, 0, 100), 100, 200);
    stage_op(&f, 3, stage_op(&f, 2, 0, 1000, 1010), 1010, 1020);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->pipelines.count, 2);
    assert_int_equal(a->pipelines.stages[3].pipeline, 1);
    assert_int_equal(a->pipelines.items[0].bubble_ns, 200);
    assert_int_equal(a->pipelines.items[1].begin_ns, 1000);
    assert_int_equal(a->pipelines.items[1].bubble_ns, 20);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Reports */

static void check_says(const char *text, const char *part) {
    if (!strstr(text, part)) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static void build_small(struct fixture *f) {
    start_devices(f, 2);
    fixture_communicator(f, "pp 0");
    uint64_t s, r, first = compute(f, 0, 0, 100);
    send(f, &s, &r, 100, 40, 130);
    fixture_edge(f, first, s, ORR_EDGE_EVENT);
    fixture_edge(f, r, compute(f, 1, 130, 180), ORR_EDGE_EVENT);
}

static void the_reports_say_axis_and_bubble(void **state) {
    (void)state;
    struct fixture f;
    build_small(&f);
    struct orr_analysis *a = analyze(&f);
    char *text;
    size_t length;
    assert_int_equal(orr_report_text(a, &text, &length), ORR_OK);
    check_says(text,
               "  pp    send_receive      1    8 B  120 ns   120 ns  100.00 %    60 ns        "
               "0 ns\n");
    check_says(text, "       0  180 ns   50 ns  27.78 %     0 ns    0 ns  50 ns\n"
                     "       1  180 ns   60 ns  33.33 %    60 ns    0 ns   0 ns\n"
                     "  1 pipeline of 2 devices in all: bubble 110 ns of 360 ns");
    orr_memory_free(a->memory, text);
    assert_int_equal(orr_report_json(a, &text, &length), ORR_OK);
    check_says(text, "\"communication\": [\n {\"axis\": \"pp\", \"kind\": \"send_receive\", "
                     "\"count\": 1, \"bytes\": 8, \"ops\": 2, \"time_ns\": 120, \"exposed_ns\": "
                     "120, \"overlapped_ns\": 0, \"waiting_ns\": 60}]");
    check_says(text, "\"pipelines\": [\n {\"devices\": 2, \"begin_ns\": 0, \"end_ns\": 180, "
                     "\"bubble_ns\": 110, \"share\": 0.305555556}]");
    check_says(text, "\"bubble\": {\"pipeline\": 0, \"bubble_ns\": 60, \"share\": 0.333333333, "
                     "\"warm_up_ns\": 60, \"steady_ns\": 0, \"drain_ns\": 0}");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

/* Even devices compute all the time, odd ones a half of it, one of them 0.01 % less. */
static void many_devices_share_rows_with_those_alike(void **state) {
    (void)state;
    struct fixture f;
    start_devices(&f, 20);
    for (uint32_t d = 0; d < 20; d++) {
        compute(&f, d, 0, d % 2 == 0 ? 10000 : d == 19 ? 4999 : 5000);
    }
    struct orr_analysis *a = analyze(&f);
    char *text;
    size_t length;
    assert_int_equal(orr_report_text(a, &text, &length), ORR_OK);
    squeeze(text);
    check_says(text, "\n 0,2,4,6,8,10,12,14,16,18 10 100.00 % 0.00 %");
    check_says(text, "\n 1,3,5,7,9,11,13,15,17 9 50.00 % 0.00 %");
    check_says(text, "\n 19 sim:test 19 1 49.99 % 0.00 %");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

static void a_failed_allocation_leaks_nothing(void **state) {
    (void)state;
    struct fixture f;
    build_small(&f);
    fail_each_allocation(&f);
    fixture_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_instant_belongs_to_the_communication_that_began_last),
        cmocka_unit_test(groups_of_one_axis_are_one_row),
        cmocka_unit_test(communication_is_clipped_to_the_window),
        cmocka_unit_test(every_nanosecond_of_communication_has_one_axis),
        cmocka_unit_test(the_bubble_of_a_pipeline_is_that_of_the_formula),
        cmocka_unit_test(a_receive_that_waits_for_its_sender_is_bubble_and_the_transfer_is_not),
        cmocka_unit_test(a_ring_or_a_collective_makes_no_pipeline),
        cmocka_unit_test(what_the_host_does_too_late_is_no_bubble),
        cmocka_unit_test(a_stage_that_is_done_while_the_host_waits_for_another_drains),
        cmocka_unit_test(a_stage_drains_too_while_a_host_other_than_its_own_waits),
        cmocka_unit_test(pipelines_beside_each_other_have_spans_of_their_own),
        cmocka_unit_test(the_reports_say_axis_and_bubble),
        cmocka_unit_test(many_devices_share_rows_with_those_alike),
        cmocka_unit_test(a_failed_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests_name("analyzer: strategies", tests, NULL, NULL);
}
