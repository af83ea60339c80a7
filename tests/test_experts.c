/* What mixtures of experts compute: slots in the order of tokens within their group, against a
 * reference that asks for each slot who takes it; what does not fit is dropped; ranks route their
 * own groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"
#include "tests/many_fixture.h"

enum { B = 4, S = 6, K = 2, H = 3, EXPERTS = 3, GB = 2, GS = 3, CAPACITY = 3 };

/* The pair of token and choice, as an index into [b, s, k], that takes a slot, or -1: the `slot`-th
 * of the group's pairs that are for the expert. */
static int64_t taker(const struct orr_tensor_view *indices, int64_t expert, int64_t gb, int64_t gs,
                     int64_t slot) {
    for (int64_t b = gb * B / GB; b < (gb + 1) * B / GB; b++) {
        for (int64_t s = gs * S / GS; s < (gs + 1) * S / GS; s++) {
            for (int64_t k = 0; k < K; k++) {
                int64_t pair = (b * S + s) * K + k;
                if ((int64_t)tensor_at(indices, pair) == expert && slot-- == 0) {
                    return pair;
                }
            }
        }
    }
    return -1;
}

static struct example dispatch_example(bool weighted) {
    return (struct example){"moe_dispatch",
                            {{F64, SHAPE(B, S, H)}, {I64, SHAPE(B, S, K)}, {F64, SHAPE(B, S, K)}},
                            weighted ? 3 : 2,
                            {{"experts", EXPERTS, 0, {0}},
                             {"capacity", CAPACITY, 0, {0}},
                             {"groups", 0, 0, SHAPE(GB, GS)}}};
}

static void draw_experts(struct orr_tensor_view *indices, struct random *random) {
    for (int64_t i = 0; i < tensor_count(indices); i++) {
        orr_dtype_store(indices->dtype, indices->data, (size_t)i,
                        (double)random_int(random, 0, EXPERTS - 1));
    }
}

/* Position in [experts, gb, gs, capacity]. */
static int64_t row_of(int64_t expert, int64_t gb, int64_t gs, int64_t slot) {
    return ((expert * GB + gb) * GS + gs) * CAPACITY + slot;
}

/* Calls visit for every slot with the pair that takes it, or -1. */
static void each_slot(const struct orr_tensor_view *indices,
                      void (*visit)(void *context, int64_t row, int64_t pair), void *context) {
    for (int64_t expert = 0; expert < EXPERTS; expert++) {
        for (int64_t gb = 0; gb < GB; gb++) {
            for (int64_t gs = 0; gs < GS; gs++) {
                for (int64_t slot = 0; slot < CAPACITY; slot++) {
                    visit(context, row_of(expert, gb, gs, slot),
                          taker(indices, expert, gb, gs, slot));
                }
            }
        }
    }
}

static void check_slot(void *context, int64_t row, int64_t pair) {
    const struct many *call = context;
    for (int64_t i = 0; i < H; i++) {
        double weight = call->input_count > 2 && pair >= 0 ? tensor_at(&call->inputs[2], pair) : 1;
        double wanted = pair < 0 ? 0 : weight * tensor_at(&call->inputs[0], pair / K * H + i);
        assert_near("slot", row, tensor_at(&call->outputs[0], row * H + i), wanted, 0, 1e-15);
    }
}

static void tokens_take_slots_in_their_order_and_the_rest_is_dropped(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int weighted = 0; weighted < 2; weighted++) {
        struct example example = dispatch_example(weighted);
        struct many call = open_example(&example, F64, &random, -1, 1);
        draw_experts(&call.inputs[1], &random);
        run_many(&call);
        each_slot(&call.inputs[1], check_slot, &call);
        close_many(&call);
    }
}

/* What a slot adds to its token, and to its weight's gradient. */
struct sums {
    const struct orr_tensor_view *x, *y, *weights;
    double tokens[B * S * H], dots[B * S * K];
};

static void add_slot(void *context, int64_t row, int64_t pair) {
    struct sums *sums = context;
    for (int64_t i = 0; i < H && pair >= 0; i++) {
        double value = tensor_at(sums->y, row * H + i);
        sums->tokens[pair / K * H + i] += value * tensor_at(sums->weights, pair);
        sums->dots[pair] += value * tensor_at(sums->x, pair / K * H + i);
    }
}

static void combine_adds_what_the_slots_hold_and_dot_multiplies_it(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct example combine = {
        "moe_combine",
        {{F64, SHAPE(EXPERTS, GB, GS, CAPACITY, H)}, {I64, SHAPE(B, S, K)}, {F64, SHAPE(B, S, K)}},
        3,
        {{0}}};
    struct example dot = {
        "moe_dot",
        {{F64, SHAPE(B, S, H)}, {F64, SHAPE(EXPERTS, GB, GS, CAPACITY, H)}, {I64, SHAPE(B, S, K)}},
        3,
        {{0}}};
    struct many call = open_example(&combine, F64, &random, -1, 1);
    struct many dots = open_example(&dot, F64, &random, -1, 1);
    draw_experts(&call.inputs[1], &random);
    memcpy(dots.inputs[2].data, call.inputs[1].data, (size_t)tensor_count(&call.inputs[1]) * 8);
    memcpy(dots.inputs[1].data, call.inputs[0].data, (size_t)tensor_count(&call.inputs[0]) * 8);
    run_many(&call);
    run_many(&dots);
    struct sums sums = {.x = &dots.inputs[0], .y = &call.inputs[0], .weights = &call.inputs[2]};
    each_slot(&call.inputs[1], add_slot, &sums);
    for (int64_t i = 0; i < B * S * H; i++) {
        assert_near("token", i, tensor_at(&call.outputs[0], i), sums.tokens[i], 1e-15, 1e-14);
    }
    for (int64_t i = 0; i < B * S * K; i++) {
        assert_near("dot", i, tensor_at(&dots.outputs[0], i), sums.dots[i], 1e-15, 1e-14);
    }
    close_many(&call);
    close_many(&dots);
}

static void an_expert_that_is_not_there_is_named(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    struct example example = dispatch_example(false);
    struct many call = open_example(&example, F64, &random, -1, 1);
    struct orr_error error = {0};
    orr_dtype_store(I64, call.inputs[1].data, 5, EXPERTS);
    assert_int_equal(try_run(&call, &memory, &error), ORR_INVALID);
    assert_string_equal(error.text,
                        "moe_dispatch: x [4, 6, 3] f64 and indices [4, 6, 2] i64: index "
                        "3 at position 5 is not an expert, expected 0 to 2");
    close_many(&call);
}

static void load_counts_each_choice_over_all_ranks(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_mesh *mesh = orr_mesh_default(f.runtime);
    struct orr_layout rows = place(mesh, "S(0)", NULL), whole = place(mesh, "R", NULL);
    struct op call = op_of("moe_load");
    double values[EXPERTS];
    at(&call, "experts")->integer = EXPERTS;
    struct orr_tensor *indices =
        upload(&f, I64, dims(2, 4, 2, 0, 0), (const double[]){0, 2, 2, 0, 2, 0, 0, 0}, &rows);
    struct orr_tensor *load = run(&f, &call, &indices, 1);
    assert_layout(load, "P(sum)");
    load = moved(&f, load, &whole);
    download(&f, load, values);
    assert_true(values[0] == 5 && values[1] == 0 && values[2] == 3);
    orr_tensor_destroy(&indices);
    orr_tensor_destroy(&load);
    fixture_close(&f);
}

static void groups_that_a_rank_would_have_a_part_of_are_refused(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_layout rows = place(orr_mesh_default(f.runtime), "S(0)", NULL);
    static const double zeros[64];
    struct op call = op_of("moe_dispatch");
    at(&call, "experts")->integer = 2;
    at(&call, "capacity")->integer = 2;
    at(&call, "groups")->shape = dims(2, 3, 1, 0, 0);
    struct orr_tensor *inputs[2] = {upload(&f, F64, dims(3, 6, 2, 1, 0), zeros, &rows),
                                    upload(&f, I64, dims(3, 6, 2, 1, 0), zeros, &rows)};
    struct orr_tensor *out;
    assert_int_equal(orr_tensor_apply(f.runtime, call.op, inputs, 2, &call.attributes, NULL, &out),
                     ORR_INVALID);
    assert_non_null(strstr(fixture_error(&f), "3 groups of tokens don't divide into 2 pieces"));
    orr_tensor_destroy(&inputs[0]);
    orr_tensor_destroy(&inputs[1]);
    fixture_close(&f);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_take_slots_in_their_order_and_the_rest_is_dropped),
        cmocka_unit_test(combine_adds_what_the_slots_hold_and_dot_multiplies_it),
        cmocka_unit_test(an_expert_that_is_not_there_is_named),
        cmocka_unit_test(load_counts_each_choice_over_all_ranks),
        cmocka_unit_test(groups_that_a_rank_would_have_a_part_of_are_refused),
    };
    return cmocka_run_group_tests_name("experts", tests, NULL, NULL);
}
