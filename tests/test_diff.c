/* Comparing traces: the rank test against counting, planted changes that must be found and named,
 * chance that must not, mirrors, and what cannot be compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/diff.h"
#include "analyzer/rank_test.h"
#include "analyzer/sort.h"
#include "cli/cli.h"
#include "runtime/splitmix.h"
#include "tests/nsys_fixture.h"
#include "tests/support.h"
#include "trace/import/builder.h"

/* -- The rank test ----------------------------------------------------------------------------- */

static void the_rank_test_gives_known_values(void **state) {
    (void)state;
    int64_t a[8], b[8], same[8];
    for (int i = 0; i < 8; i++) {
        a[i] = i;
        b[i] = i + 8;
        same[i] = 5;
    }
    /* U = 0, mean 32, variance 8 x 8 x 17 / 12, continuity 0.5: z = 3.30823. */
    assert_true(near_f64(orr_rank_test(a, 8, b, 8), 0.000939106, 1e-8));
    assert_true(orr_rank_test(same, 8, same, 8) == 1);
    assert_true(orr_rank_test(a, 8, a, 8) == 1);
    assert_true(orr_rank_test(a, 0, b, 8) == 1);
    /* All equal on each side, different ones: U = 0, ties 2 x 504, z = 3.81266. */
    for (int i = 0; i < 8; i++)
        b[i] = 6;
    assert_true(near_f64(orr_rank_test(same, 8, b, 8), 0.000137586, 1e-8));
}

/* Twice the number of pairs (x of a, y of b) with x < y, ties half. */
static int pairs(const int64_t *values, unsigned mask, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if ((mask >> i & 1) && !(mask >> k & 1))
                sum += values[i] < values[k] ? 2 : values[i] == values[k];
    return sum;
}

/* Against the definition: of all ways to deal 14 values to two sides of 7, how many are as far
 * apart. */
static void the_rank_test_is_near_the_exact_one(void **state) {
    (void)state;
    uint64_t random = random_seed(20);
    for (int trial = 0; trial < 8; trial++) {
        int64_t values[14], a[7], b[7];
        for (int i = 0; i < 14; i++)
            values[i] = (int64_t)(orr_splitmix_next(&random) % (trial % 2 ? 1000 : 12)) +
                        (i < 7 ? 0 : trial);
        memcpy(a, values, sizeof a);
        memcpy(b, values + 7, sizeof b);
        struct orr_memory memory = orr_memory_system();
        assert_int_equal(orr__sort_times(&memory, a, 7), ORR_OK);
        assert_int_equal(orr__sort_times(&memory, b, 7), ORR_OK);
        int observed = abs(pairs(values, 0x7f, 14) - 49), all = 0, extreme = 0;
        for (unsigned mask = 0; mask < 1u << 14; mask++)
            if (__builtin_popcount(mask) == 7) {
                all++;
                extreme += abs(pairs(values, mask, 14) - 49) >= observed;
            }
        double exact = (double)extreme / all, p = orr_rank_test(a, 7, b, 7);
        assert_true(p - exact < 0.06 && exact - p < 0.06);
        assert_true(p == orr_rank_test(b, 7, a, 7));
    }
}

/* -- Programs with planted differences --------------------------------------------------------- */

struct program {
    unsigned steps, devices;
    bool annotated;    /* steps are marked */
    int64_t gemm_ns;   /* of one of three kernels a step; the others take 10 us */
    unsigned gemms;    /* of them a step */
    int64_t host_ns;   /* between two launches, beside the 4 us of a call */
    const char *grid;  /* of the gemms */
    const char *extra; /* a kernel more at the end of a step, or NULL */
    int64_t noise_ns;  /* up to it, added to each duration */
    uint64_t seed;
};

static const struct program usual = {.steps = 20,
                                     .devices = 1,
                                     .annotated = true,
                                     .gemm_ns = 50000,
                                     .gemms = 1,
                                     .host_ns = 1000,
                                     .grid = "[64, 1, 1] x [256, 1, 1]",
                                     .noise_ns = 100,
                                     .seed = 1};

struct maker {
    struct orr__builder *builder;
    const struct program *program;
    uint64_t random, correlation;
    int64_t host, device[4];
    uint32_t thread;
};

static const char *text(struct maker *m, const char *string) {
    return orr__builder_text(m->builder, string, strlen(string));
}

static void launch_on(struct maker *m, uint32_t device, const char *name, const char *grid,
                      int64_t duration) {
    int64_t noise = m->program->noise_ns;
    duration += noise > 0 ? (int64_t)(orr_splitmix_next(&m->random) % (uint64_t)noise) : 0;
    struct orr_timeline_call *call = orr__builder_call(m->builder);
    struct orr_timeline_command *command;
    uint32_t stream = orr__builder_stream(m->builder, device, 7, 0, 7);
    if (!call || !(command = orr__builder_command(m->builder)))
        return;
    call->host = m->thread;
    call->name = text(m, "cudaLaunchKernel");
    call->begin_ns = m->host;
    call->end_ns = m->host + 4000;
    call->correlation = command->correlation = ++m->correlation;
    m->host += 4000 + m->program->host_ns;
    int64_t start = call->end_ns + 2000;
    start = start > m->device[device] ? start : m->device[device];
    command->kind = ORR_COMMAND_KERNEL;
    command->name = text(m, name);
    command->grid = text(m, grid);
    command->device = device;
    command->stream = stream;
    command->start_ns = start;
    command->finish_ns = m->device[device] = start + duration;
}

static void make_step(struct maker *m, unsigned step) {
    const struct program *p = m->program;
    int64_t begin = m->host;
    for (uint32_t d = 0; d < p->devices; d++) {
        launch_on(m, d, "norm", "[8, 1, 1] x [256, 1, 1]", 10000);
        for (unsigned i = 0; i < p->gemms; i++)
            launch_on(m, d, "gemm", p->grid, p->gemm_ns);
        launch_on(m, d, "add", "[8, 1, 1] x [256, 1, 1]", 10000);
        if (p->extra)
            launch_on(m, d, p->extra, "[8, 1, 1] x [256, 1, 1]", 20000);
    }
    struct orr_timeline_slice *slice = p->annotated ? orr__builder_slice(m->builder) : NULL;
    if (!slice)
        return;
    char name[32];
    int length = snprintf(name, sizeof name, "ProfilerStep#%u", step);
    slice->name = orr__builder_text(m->builder, name, (size_t)length);
    slice->kind = ORR_SLICE_ANNOTATION;
    slice->host = m->thread;
    slice->begin_ns = begin;
    slice->end_ns = m->host;
}

static struct orr_timeline *make(const struct program *p, const struct orr_memory *memory) {
    struct maker m = {.program = p, .random = p->seed};
    struct orr_timeline *timeline;
    assert_int_equal(orr__builder_create(memory, "kineto", &m.builder), ORR_OK);
    m.thread = orr__builder_host(m.builder, 7, "7/7", 3);
    for (unsigned step = 0; step < p->steps; step++)
        make_step(&m, step);
    assert_int_equal(orr__builder_finish(&m.builder, &timeline), ORR_OK);
    return timeline;
}

struct pair {
    struct memory_counting memory;
    struct orr_timeline *timelines[2];
    struct orr_analysis *analyses[2];
    struct orr_diff *diff;
};

static void analyze_pair(struct pair *pair) {
    for (int s = 0; s < 2; s++) {
        struct orr_analysis_options options = orr_analysis_options_default();
        struct orr_error error = {0};
        options.file = "trace";
        assert_int_equal(orr_analyze(pair->timelines[s], &options, &pair->memory.table,
                                     &pair->analyses[s], &error),
                         ORR_OK);
    }
}

static void compare_with(struct pair *pair, const struct orr_diff_options *options, bool mirrored) {
    struct orr_error error = {0};
    orr_diff_destroy(&pair->diff);
    assert_int_equal(orr_diff_make(pair->analyses[mirrored], pair->analyses[!mirrored], options,
                                   &pair->memory.table, &pair->diff, &error),
                     ORR_OK);
    assert_null(strchr(pair->diff->verdict, '\n'));
}

static void compare(struct pair *pair, const struct program *a, const struct program *b) {
    struct orr_diff_options options = orr_diff_options_default();
    *pair = (struct pair){.diff = NULL};
    memory_counting_init(&pair->memory, 0);
    pair->timelines[0] = make(a, &pair->memory.table);
    pair->timelines[1] = make(b, &pair->memory.table);
    analyze_pair(pair);
    compare_with(pair, &options, false);
}

static void done(struct pair *pair) {
    orr_diff_destroy(&pair->diff);
    for (int s = 0; s < 2; s++) {
        orr_analysis_destroy(&pair->analyses[s]);
        orr_timeline_destroy(&pair->timelines[s]);
    }
    assert_int_equal(pair->memory.live, 0);
}

static const struct orr_diff_row *row_of(const struct orr_diff *diff, enum orr_diff_sort sort,
                                         const char *name) {
    for (size_t i = 0; i < diff->row_count; i++)
        if (diff->rows[i].sort == sort && strcmp(diff->rows[i].name, name) == 0)
            return &diff->rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void expect(const struct orr_diff *diff, enum orr_diff_outcome outcome, const char *part) {
    if (diff->outcome != outcome || !strstr(diff->verdict, part))
        fail_msg("'%s' is not %s with '%s'", diff->verdict, orr_diff_outcome_text(outcome), part);
}

static void a_slower_kernel_is_found_and_named(void **state) {
    (void)state;
    struct pair pair;
    struct program after = usual;
    after.gemm_ns = 60000;
    after.seed = 2;
    compare(&pair, &usual, &after);
    expect(pair.diff, ORR_DIFF_OUTCOME_SLOWER, "most of it is computing: +");
    expect(pair.diff, ORR_DIFF_OUTCOME_SLOWER, "; gemm: +");
    assert_int_equal(pair.diff->by, ORR_DIFF_UNIT_STEP);
    assert_int_equal(pair.diff->units[0], 18); /* without the first and the last */
    const struct orr_diff_row *row = row_of(pair.diff, ORR_DIFF_SORT_WORK, "gemm");
    assert_int_equal(row->status, ORR_DIFF_CHANGED);
    assert_true(row->p < 1e-5);
    assert_int_equal(row->sides[0].count, 18);
    assert_in_range(row->delta_ns, 9900, 10100);
    assert_in_range(row->sides[1].median_ns, 60000, 60100);
    assert_int_equal(row_of(pair.diff, ORR_DIFF_SORT_WORK, "norm")->status, ORR_DIFF_UNCHANGED);
    assert_int_equal(row_of(pair.diff, ORR_DIFF_SORT_CALL, "cudaLaunchKernel")->status,
                     ORR_DIFF_UNCHANGED);
    assert_int_equal(pair.diff->counts[ORR_DIFF_SORT_WORK][ORR_DIFF_CHANGED], 1);
    done(&pair);
}

static void a_slower_host_is_found_and_named(void **state) {
    (void)state;
    struct pair pair;
    struct program before = usual, after = usual;
    before.gemm_ns = after.gemm_ns = 10000;
    before.host_ns = 20000; /* kernels wait for launches */
    after.host_ns = 30000;
    compare(&pair, &before, &after);
    expect(pair.diff, ORR_DIFF_OUTCOME_SLOWER, "devices idle until their host launches: +");
    assert_int_equal(pair.diff->counts[ORR_DIFF_SORT_WORK][ORR_DIFF_CHANGED], 0);
    assert_int_equal(pair.diff->devices[0].classes[ORR_CLASS_HOST_OTHER].status, ORR_DIFF_CHANGED);
    done(&pair);
}

static void more_of_the_same_kernel_has_changed(void **state) {
    (void)state;
    struct pair pair;
    struct program after = usual;
    after.gemms = 2;
    compare(&pair, &usual, &after);
    const struct orr_diff_row *row = row_of(pair.diff, ORR_DIFF_SORT_WORK, "gemm");
    assert_int_equal(row->status, ORR_DIFF_CHANGED); /* by its sums: durations are alike */
    assert_int_equal(row->sides[1].count, 2 * row->sides[0].count);
    expect(pair.diff, ORR_DIFF_OUTCOME_SLOWER, "gemm");
    done(&pair);
}

static void rows_appear_vanish_and_change_their_shape(void **state) {
    (void)state;
    struct pair pair;
    struct program before = usual, after = usual;
    before.extra = "old";
    after.extra = "new";
    after.grid = "[128, 1, 1] x [256, 1, 1]";
    compare(&pair, &before, &after);
    assert_int_equal(row_of(pair.diff, ORR_DIFF_SORT_WORK, "old")->status, ORR_DIFF_VANISHED);
    assert_int_equal(row_of(pair.diff, ORR_DIFF_SORT_WORK, "new")->status, ORR_DIFF_APPEARED);
    const struct orr_diff_row *gemm = row_of(pair.diff, ORR_DIFF_SORT_WORK, "gemm");
    assert_true(gemm->reshaped);
    assert_int_equal(gemm->status, ORR_DIFF_UNCHANGED);
    assert_string_equal(gemm->shape, "");
    assert_int_equal(pair.diff->row_count, 6); /* and a row of calls; steps are no ranges of both */
    done(&pair);
}

static void what_repeats_is_compared_where_nothing_marks_steps(void **state) {
    (void)state;
    struct pair pair;
    struct program before = usual, after = usual;
    before.annotated = after.annotated = false;
    before.devices = after.devices = 2;
    before.steps = 40; /* twice as long */
    after.gemm_ns = 60000;
    compare(&pair, &before, &after);
    assert_int_equal(pair.diff->by, ORR_DIFF_UNIT_ITERATION);
    assert_string_equal(pair.diff->by_name[0], "gemm");
    assert_int_equal(pair.diff->units[0], 2 * 39);
    assert_int_equal(pair.diff->units[1], 2 * 19);
    expect(pair.diff, ORR_DIFF_OUTCOME_SLOWER, "most of it is computing: +");
    done(&pair);
}

static void chance_is_not_called_a_change(void **state) {
    (void)state;
    uint64_t random = random_seed(7);
    unsigned changed = 0;
    for (int trial = 0; trial < 20; trial++) {
        struct pair pair;
        struct program before = usual, after = usual;
        before.noise_ns = after.noise_ns = 40000;
        before.seed = orr_splitmix_next(&random);
        after.seed = orr_splitmix_next(&random);
        compare(&pair, &before, &after);
        changed += (unsigned)pair.diff->counts[ORR_DIFF_SORT_WORK][ORR_DIFF_CHANGED];
        done(&pair);
    }
    /* 60 rows at p < 0.01: five false ones have a probability below 1e-3. */
    assert_true(changed < 5);
}

static void too_few_steps_are_inconclusive_and_no_regression(void **state) {
    (void)state;
    struct pair pair;
    struct program before = usual, after = usual;
    before.steps = after.steps = 3;
    after.gemm_ns = 500000;
    compare(&pair, &before, &after);
    struct orr_diff_options options = orr_diff_options_default();
    options.max_regression = 5;
    compare_with(&pair, &options, false);
    expect(pair.diff, ORR_DIFF_OUTCOME_UNKNOWN, "a side has only 3 steps: a test needs 8");
    assert_false(pair.diff->regression);
    assert_int_equal(row_of(pair.diff, ORR_DIFF_SORT_WORK, "gemm")->status, ORR_DIFF_INCONCLUSIVE);
    done(&pair);
}

static void a_regression_is_what_grew_for_sure_and_by_more(void **state) {
    (void)state;
    struct pair pair;
    struct program after = usual;
    after.gemm_ns = 60000;
    compare(&pair, &usual, &after);
    struct orr_diff_options options = orr_diff_options_default();
    assert_false(pair.diff->regression);
    options.max_regression = 12;
    compare_with(&pair, &options, false);
    assert_true(pair.diff->regression); /* a step by 14 % */
    assert_string_equal(pair.diff->grown, "");
    options.max_regression = 18;
    compare_with(&pair, &options, false);
    assert_true(pair.diff->regression); /* the gemm by 20 % */
    assert_string_equal(pair.diff->grown, "gemm");
    options.max_regression = 25;
    compare_with(&pair, &options, false);
    assert_false(pair.diff->regression);
    options.max_regression = 0;
    compare_with(&pair, &options, true);
    assert_false(pair.diff->regression); /* it became faster */
    expect(pair.diff, ORR_DIFF_OUTCOME_FASTER, "most of it is computing: -");
    done(&pair);
}

static void without_work_nothing_is_compared(void **state) {
    (void)state;
    struct pair pair;
    struct program nothing = usual;
    nothing.steps = 0;
    compare(&pair, &nothing, &usual);
    expect(pair.diff, ORR_DIFF_OUTCOME_UNKNOWN, "the trace before has no work");
    done(&pair);
    compare(&pair, &usual, &nothing);
    expect(pair.diff, ORR_DIFF_OUTCOME_UNKNOWN, "the trace after has no work");
    done(&pair);
    compare(&pair, &nothing, &nothing);
    expect(pair.diff, ORR_DIFF_OUTCOME_UNKNOWN, "no work");
    done(&pair);
}

/* -- Properties -------------------------------------------------------------------------------- */

static struct program random_program(uint64_t *random) {
    static const char *const extras[] = {NULL, "softmax", "copy"};
    static const char *const grids[] = {"", "[64, 1, 1] x [256, 1, 1]", "[1, 1, 1] x [32, 1, 1]"};
    return (struct program){.steps = (unsigned)(orr_splitmix_next(random) % 25),
                            .devices = 1 + (unsigned)(orr_splitmix_next(random) % 3),
                            .annotated = orr_splitmix_next(random) % 2,
                            .gemm_ns = (int64_t)(orr_splitmix_next(random) % 100000),
                            .gemms = (unsigned)(orr_splitmix_next(random) % 3),
                            .host_ns = (int64_t)(orr_splitmix_next(random) % 40000),
                            .grid = grids[orr_splitmix_next(random) % 3],
                            .extra = extras[orr_splitmix_next(random) % 3],
                            .noise_ns = (int64_t)(orr_splitmix_next(random) % 50000),
                            .seed = orr_splitmix_next(random)};
}

static enum orr_diff_status mirror(enum orr_diff_status status) {
    return status == ORR_DIFF_APPEARED   ? ORR_DIFF_VANISHED
           : status == ORR_DIFF_VANISHED ? ORR_DIFF_APPEARED
                                         : status;
}

static void mirrors_figure(const struct orr_diff_figure *a, const struct orr_diff_figure *b) {
    assert_int_equal(a->unit_ns[0], b->unit_ns[1]);
    assert_int_equal(a->unit_ns[1], b->unit_ns[0]);
    assert_int_equal(a->delta_ns, -b->delta_ns);
    assert_true(a->p == b->p);
    assert_int_equal(a->status, b->status);
}

static const struct orr_diff_row *find_mirrored(const struct orr_diff *diff,
                                                const struct orr_diff_row *row) {
    for (size_t i = 0; i < diff->row_count; i++) {
        const struct orr_diff_row *r = &diff->rows[i];
        if (r->sort == row->sort && r->role == row->role && strcmp(r->name, row->name) == 0 &&
            strcmp(r->shape, row->shape) == 0)
            return r;
    }
    fail_msg("row %s has no mirror", row->name);
    return NULL;
}

static void mirrors(const struct orr_diff *a, const struct orr_diff *b) {
    assert_int_equal(a->by, b->by);
    assert_int_equal(a->row_count, b->row_count);
    assert_int_equal(a->device_count, b->device_count);
    mirrors_figure(&a->unit, &b->unit);
    enum orr_diff_outcome expected = a->outcome == ORR_DIFF_OUTCOME_SLOWER ? ORR_DIFF_OUTCOME_FASTER
                                     : a->outcome == ORR_DIFF_OUTCOME_FASTER
                                         ? ORR_DIFF_OUTCOME_SLOWER
                                         : a->outcome;
    assert_int_equal(b->outcome, expected);
    for (size_t d = 0; d < a->device_count; d++)
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++)
            mirrors_figure(&a->devices[d].classes[c], &b->devices[d].classes[c]);
    for (size_t i = 0; i < a->row_count; i++) {
        const struct orr_diff_row *x = &a->rows[i], *y = find_mirrored(b, x);
        assert_int_equal(x->delta_ns, -y->delta_ns);
        assert_int_equal(x->status, mirror(y->status));
        assert_true(x->p == y->p && x->tested == y->tested && x->reshaped == y->reshaped);
        assert_memory_equal(&x->sides[0], &y->sides[1], sizeof x->sides[0]);
        assert_memory_equal(&x->sides[1], &y->sides[0], sizeof x->sides[0]);
    }
}

/* Classes of a unit add up to it, and causes to the mean of all, but for rounding. */
static void adds_up(const struct orr_diff *diff) {
    for (unsigned s = 0; s < 2; s++) {
        int64_t causes = 0;
        for (unsigned c = 0; c < ORR_DIFF_CAUSE_COUNT; c++)
            causes += diff->causes[s][c];
        assert_in_range(causes - diff->unit.unit_ns[s] + 100, 100 - ORR_DIFF_CAUSE_COUNT,
                        100 + ORR_DIFF_CAUSE_COUNT);
        for (size_t d = 0; d < diff->device_count; d++) {
            int64_t sum = 0;
            for (unsigned c = 0; c < ORR_CLASS_COUNT; c++)
                sum += diff->devices[d].classes[c].unit_ns[s];
            assert_in_range(sum - diff->devices[d].unit.unit_ns[s] + 100, 100 - ORR_CLASS_COUNT,
                            100 + ORR_CLASS_COUNT);
        }
    }
}

static void random_pairs_mirror_and_add_up(void **state) {
    (void)state;
    uint64_t random = random_seed(2026);
    struct orr_diff_options options = orr_diff_options_default();
    for (int trial = 0; trial < 60; trial++) {
        struct pair pair;
        struct program a = random_program(&random), b = random_program(&random);
        compare(&pair, &a, &b);
        adds_up(pair.diff);
        struct orr_diff *forward = pair.diff;
        pair.diff = NULL;
        compare_with(&pair, &options, true);
        mirrors(forward, pair.diff);
        orr_diff_destroy(&forward);
        done(&pair);
    }
}

static void a_trace_does_not_differ_from_itself(void **state) {
    (void)state;
    uint64_t random = random_seed(11);
    for (int trial = 0; trial < 30; trial++) {
        struct pair pair;
        struct program program = random_program(&random);
        program.steps++;
        compare(&pair, &program, &program);
        assert_int_equal(pair.diff->outcome, ORR_DIFF_OUTCOME_SAME);
        for (size_t i = 0; i < pair.diff->row_count; i++) {
            assert_int_equal(pair.diff->rows[i].status, ORR_DIFF_UNCHANGED);
            assert_int_equal(pair.diff->rows[i].delta_ns, 0);
        }
        done(&pair);
    }
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void diff_once(struct memory_counting *memory, void *context) {
    struct pair *pair = context;
    struct orr_diff_options options = orr_diff_options_default();
    struct orr_diff *diff;
    struct orr_error error = {0};
    char *made = NULL;
    size_t length;
    enum orr_status status = orr_diff_make(pair->analyses[0], pair->analyses[1], &options,
                                           &memory->table, &diff, &error);
    assert_int_equal(status == ORR_OK, diff != NULL);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    if (status == ORR_OK && orr_diff_text(diff, &made, &length) == ORR_OK)
        assert_int_equal(strlen(made), length);
    orr_memory_free(&memory->table, made);
    made = NULL;
    if (status == ORR_OK && orr_diff_json(diff, &made, &length) == ORR_OK)
        assert_int_equal(strlen(made), length);
    orr_memory_free(&memory->table, made);
    orr_diff_destroy(&diff);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct pair pair;
    struct program after = usual;
    after.gemms = 2;
    after.annotated = false;
    after.steps = 10;
    compare(&pair, &usual, &after);
    assert_true(fail_each_request(diff_once, &pair) > 30);
    done(&pair);
}

/* -- The command ------------------------------------------------------------------------------- */

/* Steps named by NVTX, a launch and a kernel each; the second table of names has the kernel's. */
static void make_export(const struct nsys_fixture *f, int kernel_ns) {
    char sql[4096];
    snprintf(sql, sizeof sql,
             "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (20, 'gemm');"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)"
             " INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT i * 100000, i * 100000 + 5000, 0,"
             " " NSYS_TID_A ", i, 1, 0, NULL FROM n;"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)"
             " INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 100000 + 7000,"
             " i * 100000 + 7000 + %d + i * 7 %% 30, 0, 1, NULL, 7, i, " NSYS_PID_A
             ", 20, 20, 64, 1, 1, 256, 1, 1, NULL, NULL FROM n;"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)"
             " INSERT INTO NVTX_EVENTS SELECT i * 100000, i * 100000 + 50000, 59, 'step ' || i,"
             " " NSYS_TID_A ", 0, NULL, 0 FROM n;",
             kernel_ns);
    nsys_fixture_make(f, nsys_base_sql, sql);
}

struct answer {
    int exit;
    char out[1 << 16], err[4096];
};

static void run(struct answer *answer, int argc, const char *const *words) {
    struct orr_memory memory = orr_memory_system();
    struct orr_cli cli = {.memory = &memory, .out = tmpfile(), .err = tmpfile()};
    char *argv[8] = {NULL};
    assert_true(cli.out && cli.err && argc < 8);
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    answer->exit = orr_cli_main(&cli, argc, argv);
    rewind(cli.out);
    rewind(cli.err);
    answer->out[fread(answer->out, 1, sizeof answer->out - 1, cli.out)] = '\0';
    answer->err[fread(answer->err, 1, sizeof answer->err - 1, cli.err)] = '\0';
    fclose(cli.out);
    fclose(cli.err);
}

#define RUN(answer, ...)                                                                           \
    run(answer, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),                     \
        (const char *[]){__VA_ARGS__})

static void the_command_says_it_and_exits_by_it(void **state) {
    (void)state;
    static struct answer answer;
    struct nsys_fixture before, after;
    nsys_fixture_open(&before, "before.sqlite");
    nsys_fixture_open(&after, "after.sqlite");
    make_export(&before, 20000);
    make_export(&after, 26000);
    RUN(&answer, "orrery", "diff", before.path, after.path);
    assert_int_equal(answer.exit, ORR_EXIT_OK);
    assert_non_null(strstr(answer.out, "Compared by steps"));
    assert_non_null(strstr(answer.out, "of 1 rows of work 1 changed"));
    assert_non_null(strstr(answer.out, "After:  after.sqlite"));
    RUN(&answer, "orrery", "diff", before.path, after.path, "--max-regression", "20");
    assert_int_equal(answer.exit, ORR_EXIT_NO);
    assert_non_null(strstr(answer.out, "Regression: gemm takes 29.98 % longer"));
    RUN(&answer, "orrery", "diff", before.path, after.path, "--max-regression=40%");
    assert_int_equal(answer.exit, ORR_EXIT_OK);
    assert_non_null(strstr(answer.out, "No regression above 40 %"));
    RUN(&answer, "orrery", "diff", before.path, after.path, "--json");
    assert_int_equal(answer.exit, ORR_EXIT_OK);
    assert_memory_equal(answer.out, "{\"before\": \"before.sqlite\"", 26);
    RUN(&answer, "orrery", "diff", before.path, before.path);
    assert_memory_equal(answer.out, "unchanged: ", 11);
    assert_int_equal(truncate(after.path, 60000), 0);
    RUN(&answer, "orrery", "diff", before.path, after.path);
    assert_non_null(strstr(answer.out, "After, error: the file is cut at byte 60000"));
    RUN(&answer, "orrery", "diff", "--strict", before.path, after.path);
    assert_int_equal(answer.exit, ORR_EXIT_INPUT);
    RUN(&answer, "orrery", "diff", before.path);
    assert_int_equal(answer.exit, ORR_EXIT_USAGE);
    RUN(&answer, "orrery", "diff", before.path, after.path, "--max-regression", "much");
    assert_int_equal(answer.exit, ORR_EXIT_USAGE);
    RUN(&answer, "orrery", "diff", before.path, "/nowhere.db");
    assert_int_equal(answer.exit, ORR_EXIT_INPUT);
    assert_non_null(strstr(answer.err, "/nowhere.db"));
    nsys_fixture_close(&before);
    nsys_fixture_close(&after);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_test_gives_known_values),
        cmocka_unit_test(the_rank_test_is_near_the_exact_one),
        cmocka_unit_test(a_slower_kernel_is_found_and_named),
        cmocka_unit_test(a_slower_host_is_found_and_named),
        cmocka_unit_test(more_of_the_same_kernel_has_changed),
        cmocka_unit_test(rows_appear_vanish_and_change_their_shape),
        cmocka_unit_test(what_repeats_is_compared_where_nothing_marks_steps),
        cmocka_unit_test(chance_is_not_called_a_change),
        cmocka_unit_test(too_few_steps_are_inconclusive_and_no_regression),
        cmocka_unit_test(a_regression_is_what_grew_for_sure_and_by_more),
        cmocka_unit_test(without_work_nothing_is_compared),
        cmocka_unit_test(random_pairs_mirror_and_add_up),
        cmocka_unit_test(a_trace_does_not_differ_from_itself),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_command_says_it_and_exits_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
