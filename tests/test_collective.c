/* The arithmetic of collectives: what is special about it. (Every kind, dtype, root and size
 * against direct loops is in the conformance suite.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/collective.h"

enum { RANKS = 3 };

union cells {
    double f64[16];
    float f32[32];
    uint16_t u16[64];
    int64_t i64[16];
    int32_t i32[32];
    uint8_t u8[128];
};

struct group {
    struct orr_collective members[RANKS];
    const struct orr_collective *list[RANKS];
    union cells in[RANKS], out[RANKS];
};

/* A collective over three ranks with 128 bytes of input and output each. */
static void group_fill(struct group *g, enum orr_collective_kind kind, enum orr_dtype dtype,
                       uint64_t count) {
    memset(g, 0, sizeof *g);
    memset(g->out, 0x77, sizeof g->out);
    for (uint32_t i = 0; i < RANKS; i++) {
        g->members[i] = (struct orr_collective){.kind = kind,
                                                .dtype = dtype,
                                                .communicator = 4,
                                                .rank = i,
                                                .ranks = RANKS,
                                                .count = count,
                                                .in = &g->in[i],
                                                .out = &g->out[i]};
        g->list[i] = &g->members[i];
    }
}

static void run(struct group *g) {
    struct orr_error error = {0};
    enum orr_status status = orr_collective_run(g->list, RANKS, &error);
    if (status != ORR_OK)
        fail_msg("%s", error.text);
}

static void run_refuses(struct group *g, const char *words) {
    struct orr_error error = {0};
    struct group before = *g;
    assert_int_equal(orr_collective_run(g->list, RANKS, &error), ORR_INVALID);
    if (!strstr(error.text, words))
        fail_msg("'%s' does not say '%s'", error.text, words);
    assert_memory_equal(before.out, g->out, sizeof g->out);
}

static void sums_are_taken_in_rank_order_whatever_the_order_of_members(void **state) {
    (void)state;
    static const uint32_t orders[][RANKS] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    for (size_t k = 0; k < 3; k++) {
        struct group g;
        group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 1);
        g.in[0].f32[0] = 1e8f;
        g.in[1].f32[0] = 1.0f;
        g.in[2].f32[0] = -1e8f;
        for (uint32_t i = 0; i < RANKS; i++)
            g.list[i] = &g.members[orders[k][i]];
        run(&g);
        for (uint32_t i = 0; i < RANKS; i++)
            assert_true(g.out[i].f32[0] == 0.0f); /* 1e8 + 1 is 1e8 */
    }
}

static void half_precision_is_summed_in_f32_and_rounded_once(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F16, 1);
    /* 2048 + 0.75 + 0.75: each step rounded to f16 would stay at 2048. */
    g.in[0].u16[0] = orr_f16_from_f32(2048.0f);
    g.in[1].u16[0] = g.in[2].u16[0] = orr_f16_from_f32(0.75f);
    run(&g);
    assert_true(orr_f32_from_f16(g.out[0].u16[0]) == 2050.0f);
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_BF16, 1);
    g.in[0].u16[0] = orr_bf16_from_f32(256.0f);
    g.in[1].u16[0] = g.in[2].u16[0] = orr_bf16_from_f32(0.75f);
    run(&g);
    assert_true(orr_f32_from_bf16(g.out[2].u16[0]) == 258.0f);
}

static void integers_wrap_around(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_I32, 1);
    g.in[0].i32[0] = INT32_MAX;
    g.in[1].i32[0] = 1;
    run(&g);
    assert_int_equal(g.out[1].i32[0], INT32_MIN);
    group_fill(&g, ORR_COLLECTIVE_REDUCE_SCATTER, ORR_DTYPE_I64, 1);
    for (uint32_t i = 0; i < RANKS; i++)
        g.in[i].i64[2] = INT64_MIN + (int64_t)i;
    run(&g);
    assert_true(g.out[2].i64[0] == INT64_MIN + 3); /* 3 * 2^63 is 2^63, modulo 2^64 */
}

static void bools_are_joined_by_or_and_normalized(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_BOOL, 4);
    g.in[0].u8[0] = 2;
    g.in[1].u8[1] = 1;
    g.in[2].u8[1] = 255;
    run(&g);
    static const uint8_t expected[] = {1, 1, 0, 0};
    for (uint32_t i = 0; i < RANKS; i++)
        assert_memory_equal(g.out[i].u8, expected, sizeof expected);
}

static void nan_and_minus_zero_survive(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F64, 2);
    for (uint32_t i = 0; i < RANKS; i++)
        g.in[i].f64[0] = -0.0;
    g.in[1].f64[1] = NAN;
    run(&g);
    assert_true(g.out[0].f64[0] == 0 && signbit(g.out[0].f64[0]));
    assert_true(isnan(g.out[2].f64[1]));
}

static void extremes_keep_nan_and_the_first_of_equal_terms(void **state) {
    (void)state;
    static const enum orr_reduction reductions[] = {ORR_MAX, ORR_MIN};
    for (int k = 0; k < 2; k++) {
        for (uint32_t nan_at = 0; nan_at < RANKS; nan_at++) {
            struct group g;
            group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 2);
            for (uint32_t i = 0; i < RANKS; i++) {
                g.members[i].reduction = reductions[k];
                g.in[i].f32[0] = i == nan_at ? NAN : (float)i;
                g.in[i].f32[1] = i == 0 ? -0.0f : 0.0f;
            }
            run(&g);
            assert_true(isnan(g.out[1].f32[0]));
            assert_true(signbit(g.out[1].f32[1]));
        }
    }
}

static void averages_divide_once_and_cut_integers_towards_zero(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_REDUCE, ORR_DTYPE_I32, 2);
    for (uint32_t i = 0; i < RANKS; i++) {
        g.members[i].reduction = ORR_AVG;
        g.members[i].root = 2;
        g.in[i].i32[0] = -2;
        g.in[i].i32[1] = i == 0 ? -5 : 0;
    }
    run(&g);
    assert_int_equal(g.out[2].i32[0], -2);
    assert_int_equal(g.out[2].i32[1], -1);
    assert_int_equal(g.out[0].u8[0], 0x77); /* only the root has a result */
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F16, 1);
    for (uint32_t i = 0; i < RANKS; i++) {
        g.members[i].reduction = ORR_AVG;
        g.in[i].u16[0] = orr_f16_from_f32(60000.0f); /* the sum has no f16 */
    }
    run(&g);
    assert_true(orr_f32_from_f16(g.out[0].u16[0]) == 60000.0f);
}

static void a_root_needs_no_output_and_the_others_no_input(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_BROADCAST, ORR_DTYPE_I64, 2);
    for (uint32_t i = 0; i < RANKS; i++) {
        g.members[i].root = 1;
        g.members[i].in = i == 1 ? &g.in[1] : NULL;
    }
    g.members[1].out = NULL;
    g.in[1].i64[0] = 5;
    g.in[1].i64[1] = 6;
    run(&g);
    assert_true(g.out[0].i64[0] == 5 && g.out[2].i64[1] == 6);
    g.members[1].in = NULL;
    run_refuses(&g, "rank 1 has no input");
}

static void nothing_needs_no_buffers(void **state) {
    (void)state;
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++) {
        struct group g;
        group_fill(&g, (enum orr_collective_kind)kind, ORR_DTYPE_F32, 0);
        for (uint32_t i = 0; i < RANKS; i++) {
            g.members[i].in = NULL;
            g.members[i].out = NULL;
        }
        run(&g);
    }
}

static void quantized_values_move_but_are_not_added(void **state) {
    (void)state;
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
            struct group g;
            group_fill(&g, (enum orr_collective_kind)kind, (enum orr_dtype)dtype, 0);
            if (orr_collective_reduces((enum orr_collective_kind)kind) &&
                orr_dtype_is_storage((enum orr_dtype)dtype))
                run_refuses(&g, "no collective adds or compares quantized values; expected f64");
            else
                run(&g);
        }
}

static void members_that_differ_are_refused_by_name(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 8);
    g.members[2].count = 9;
    run_refuses(&g, "8 elements at rank 0, of 9 at rank 2");
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 8);
    g.members[1].kind = ORR_COLLECTIVE_ALL_GATHER;
    run_refuses(&g, "rank 0 calls all_reduce, rank 1 calls all_gather");
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 8);
    g.members[1].dtype = ORR_DTYPE_F16;
    run_refuses(&g, "f32 at rank 0, of f16 at rank 1");
    group_fill(&g, ORR_COLLECTIVE_BROADCAST, ORR_DTYPE_F32, 8);
    g.members[2].root = 2;
    run_refuses(&g, "root 0 at rank 0, root 2 at rank 2");
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 8);
    g.members[1].reduction = ORR_MIN;
    run_refuses(&g, "by sum at rank 0, by min at rank 1");
    const uint64_t some[RANKS] = {1, 2, 3}, others[RANKS] = {1, 2, 4};
    group_fill(&g, ORR_COLLECTIVE_ALL_GATHER, ORR_DTYPE_F32, 0);
    for (uint32_t i = 0; i < RANKS; i++)
        g.members[i].counts = i == 2 ? others : some;
    run_refuses(&g, "3 elements (piece 2) at rank 0, of 4 at rank 2");
    const struct orr_transfer there = {.source = 0, .target = 1}, back = {.source = 1};
    group_fill(&g, ORR_COLLECTIVE_SEND_RECEIVE, ORR_DTYPE_F32, 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        g.members[i].transfers = i == 1 ? &back : &there;
        g.members[i].transfer_count = 1;
    }
    run_refuses(&g, "ranks 0 and 1 have different transfers");
    group_fill(&g, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_NONE, 0);
    g.members[1].communicator = 5;
    run_refuses(&g, "communicators 4 (rank 0) and 5 (rank 1)");
}

static void impossible_groups_are_refused(void **state) {
    (void)state;
    struct group g;
    group_fill(&g, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_NONE, 0);
    g.members[2].rank = 1;
    run_refuses(&g, "no member of the group has rank 2");
    group_fill(&g, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_NONE, 0);
    g.members[0].ranks = g.members[1].ranks = g.members[2].ranks = 4;
    run_refuses(&g, "rank 0 of 4, in a group of 3");
    group_fill(&g, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_NONE, 0);
    g.members[1].rank = 3;
    run_refuses(&g, "rank 3 of 3");
    group_fill(&g, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_NONE, 1);
    run_refuses(&g, "without an element type");
    group_fill(&g, ORR_COLLECTIVE_BROADCAST, ORR_DTYPE_F32, 1);
    for (uint32_t i = 0; i < RANKS; i++)
        g.members[i].root = 3;
    run_refuses(&g, "root 3 of 3 ranks");
    const struct orr_transfer away = {.source = 0, .target = 3, .count = 1};
    group_fill(&g, ORR_COLLECTIVE_SEND_RECEIVE, ORR_DTYPE_F32, 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        g.members[i].transfers = &away;
        g.members[i].transfer_count = 1;
        g.members[i].ranks = 4;
    }
    run_refuses(&g, "from rank 0 to rank 3, which are not both members");
    group_fill(&g, ORR_COLLECTIVE_ALL_TO_ALL, ORR_DTYPE_F32, 1);
    g.members[1].out = &g.in[1];
    run_refuses(&g, "rank 1's input is its output");
    group_fill(&g, ORR_COLLECTIVE_ALL_GATHER, ORR_DTYPE_F32, 1);
    g.members[2].out = NULL;
    run_refuses(&g, "rank 2 has no output");
}

static void every_kind_has_a_name_of_its_own(void **state) {
    (void)state;
    for (int a = 0; a <= ORR_COLLECTIVE_KIND_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(orr_collective_kind_text((enum orr_collective_kind)a),
                                    orr_collective_kind_text((enum orr_collective_kind)b));
    assert_string_equal(orr_collective_kind_text(ORR_COLLECTIVE_REDUCE_SCATTER), "reduce_scatter");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_taken_in_rank_order_whatever_the_order_of_members),
        cmocka_unit_test(half_precision_is_summed_in_f32_and_rounded_once),
        cmocka_unit_test(integers_wrap_around),
        cmocka_unit_test(bools_are_joined_by_or_and_normalized),
        cmocka_unit_test(nan_and_minus_zero_survive),
        cmocka_unit_test(extremes_keep_nan_and_the_first_of_equal_terms),
        cmocka_unit_test(averages_divide_once_and_cut_integers_towards_zero),
        cmocka_unit_test(a_root_needs_no_output_and_the_others_no_input),
        cmocka_unit_test(nothing_needs_no_buffers),
        cmocka_unit_test(quantized_values_move_but_are_not_added),
        cmocka_unit_test(members_that_differ_are_refused_by_name),
        cmocka_unit_test(impossible_groups_are_refused),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
