/* The rows that language models add to the operator table: exact costs, every dtype against f64,
 * references written apart from the library's code, messages, failing allocations.
 * (test_autograd_rules.c has their finite differences, test_model_gradients.c their gradients over
 * meshes, test_experts.c and test_attention_blocks.c what mixtures of experts and rings of
 * attention compute.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "tests/many_fixture.h"

#define BOOL ORR_DTYPE_BOOL

/* ---- Exact costs ---- */

static const struct cost_row costs[] = {
    /* 12 elements and 12 indices, not the 50,257 columns */
    {{"gather_last", {{BF16, SHAPE(4, 50257)}, {I64, SHAPE(4, 3)}}, 2, {{0}}},
     0,
     12 * 2 + 12 * 8,
     12 * 2,
     0,
     0},
    {{"scatter_last", {{BF16, SHAPE(4, 3)}, {I64, SHAPE(4, 3)}}, 2, {{"size", 50257, 0, {0}}}},
     12,
     12 * 2 + 12 * 8,
     4 * 50257 * 2,
     0,
     0},
    {{"topk", {{F32, SHAPE(10, 64)}}, 1, {{"k", 2, 0, {0}}}}, 640, 2560, 20 * 4 + 20 * 8, 0, 0},
    {{"dropout_mask", {{F16, SHAPE(100)}}, 1, {{0}}}, 100, 200, 200 + 100, 0, 0},
    {{"dropout_mask_backward", {{F16, SHAPE(100)}, {BOOL, SHAPE(100)}}, 2, {{0}}},
     100,
     200 + 100,
     200,
     0,
     0},
    /* 4 x 6 tokens with 2 experts of 8 have 48 rows of 16, which fit in 8 * 2 * 3 * 2 slots */
    {{"moe_dispatch",
      {{BF16, SHAPE(4, 6, 16)}, {I64, SHAPE(4, 6, 2)}},
      2,
      {{"experts", 8, 0, {0}}, {"capacity", 2, 0, {0}}, {"groups", 0, 0, SHAPE(2, 3)}}},
     0,
     48 * 32 + 48 * 8,
     96 * 32,
     0,
     0},
    {{"moe_dispatch", /* 12 slots */
      {{BF16, SHAPE(4, 6, 16)}, {I64, SHAPE(4, 6, 2)}, {BF16, SHAPE(4, 6, 2)}},
      3,
      {{"experts", 4, 0, {0}}, {"capacity", 3, 0, {0}}}},
     12 * 16,
     12 * 32 + 48 * 8 + 48 * 2,
     12 * 32,
     0,
     0},
    {{"moe_combine",
      {{BF16, SHAPE(8, 2, 3, 2, 16)}, {I64, SHAPE(4, 6, 2)}, {BF16, SHAPE(4, 6, 2)}},
      3,
      {{0}}},
     2 * 48 * 16,
     48 * 32 + 48 * 8 + 48 * 2,
     24 * 32,
     0,
     0},
    {{"moe_combine", {{BF16, SHAPE(8, 2, 3, 2, 16)}, {I64, SHAPE(4, 6, 2)}}, 2, {{0}}},
     48 * 16,
     48 * 32 + 48 * 8,
     24 * 32,
     0,
     0},
    {{"moe_dot",
      {{BF16, SHAPE(4, 6, 16)}, {BF16, SHAPE(8, 2, 3, 2, 16)}, {I64, SHAPE(4, 6, 2)}},
      3,
      {{0}}},
     2 * 48 * 16,
     24 * 32 + 48 * 8 + 48 * 32,
     48 * 2,
     0,
     0},
    {{"moe_load", {{I64, SHAPE(4, 6, 2)}}, 1, {{"experts", 8, 0, {0}}}}, 48, 48 * 8, 32, 0, 0},
    {{"sdpa_block",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)}},
      3,
      {{0}}},
     274877906944,
     33554432 + 2 * 8388608,
     33554432 + 32 * 4096 * 4,
     0,
     ORR_UNIT_MATRIX},
    /* 4 blocks of 1024: three see the block before them, the first one nothing */
    {{"sdpa_block",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)}},
      3,
      {{"causal", 1, 0, {0}}, {"blocks", 4, 0, {0}}, {"shift", 1, 0, {0}}}},
     274877906944 / 16 * 3,
     (33554432 + 2 * 8388608) / 4 * 3,
     33554432 + 32 * 4096 * 4,
     0,
     ORR_UNIT_MATRIX},
    /* each sees half of its own */
    {{"sdpa_block_backward",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 32, 4096, 128)},
       {F32, SHAPE(1, 32, 4096)}},
      6,
      {{"causal", 1, 0, {0}}, {"blocks", 4, 0, {0}}}},
     687194767360 / 16 * 4 / 2,
     3 * 33554432 + 2 * 8388608 + 32 * 4096 * 4,
     33554432 + 2 * 8388608,
     0,
     ORR_UNIT_MATRIX},
    {{"sdpa_merge",
      {{F32, SHAPE(1, 2, 10, 8)},
       {F32, SHAPE(1, 2, 10)},
       {BF16, SHAPE(1, 2, 10, 8)},
       {F32, SHAPE(1, 2, 10)}},
      4,
      {{0}}},
     3 * 160,
     640 + 80 + 320 + 80,
     640 + 80,
     0,
     0},
};
enum { COST_COUNT = sizeof costs / sizeof costs[0] };

static void costs_are_exact(void **state) {
    (void)state;
    check_costs(costs, COST_COUNT);
}

/* From behind randn up to relu_backward, where training's begin. */
static void every_row_of_models_has_a_cost_here(void **state) {
    (void)state;
    bool ours = false;
    int rows = 0;
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        ours = ours && strcmp(op->name, "relu_backward") != 0;
        bool found = !ours;
        for (int k = 0; k < COST_COUNT; k++) {
            found = found || strcmp(costs[k].example.op, op->name) == 0;
        }
        if (!found) {
            fail_msg("no cost test for %s", op->name);
        }
        rows += ours;
        ours = ours || strcmp(op->name, "randn") == 0;
    }
    assert_true(rows >= 5);
}

/* ---- Every row in every dtype ---- */

/* f32 stands for the dtype that is tried; indices are 0 or 1. */
static const struct example examples[] = {
    {"gather_last", {{F32, SHAPE(3, 4)}, {I64, SHAPE(3, 5)}}, 2, {{0}}},
    {"scatter_last", {{F32, SHAPE(3, 4)}, {I64, SHAPE(3, 4)}}, 2, {{"size", 6, 0, {0}}}},
    {"topk", {{F32, SHAPE(3, 9)}}, 1, {{"k", 4, 0, {0}}}},
    {"dropout_mask", {{F32, SHAPE(3, 400)}}, 1, {{"seed", 5, 0, {0}}}},
    {"dropout_mask_backward",
     {{F32, SHAPE(3, 400)}, {BOOL, SHAPE(3, 400)}},
     2,
     {{"p", 0, 0.25, {0}}}},
    {"moe_dispatch",
     {{F32, SHAPE(3, 4, 5)}, {I64, SHAPE(3, 4, 2)}, {F32, SHAPE(3, 4, 2)}},
     3,
     {{"experts", 2, 0, {0}}, {"capacity", 5, 0, {0}}}},
    {"moe_combine",
     {{F32, SHAPE(2, 1, 2, 9, 5)}, {I64, SHAPE(3, 4, 2)}, {F32, SHAPE(3, 4, 2)}},
     3,
     {{0}}},
    {"moe_dot",
     {{F32, SHAPE(3, 4, 5)}, {F32, SHAPE(2, 1, 1, 10, 5)}, {I64, SHAPE(3, 4, 2)}},
     3,
     {{0}}},
    {"moe_load", {{I64, SHAPE(3, 4)}}, 1, {{"experts", 2, 0, {0}}}},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

static const enum orr_dtype floats[] = {F64, F32, F16, BF16};

/* The same operands in f64 give the same results but for rounding. */
static void every_dtype_agrees_with_f64(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        for (size_t d = 0; d < 4; d++) {
            struct many call = open_example(&examples[i], floats[d], &random, 0.1, 0.9);
            struct many wide = call;
            for (int k = 0; k < call.input_count; k++) {
                const struct orr_tensor_view *from = &call.inputs[k];
                enum orr_dtype dtype = orr_dtype_is_float(from->dtype) ? F64 : from->dtype;
                wide.inputs[k] = tensor_make(dtype, from->shape);
                orr_dtype_convert(dtype, wide.inputs[k].data, from->dtype, from->data,
                                  (size_t)tensor_count(from));
            }
            run_many(&call);
            run_many(&wide);
            for (int k = 0; k < call.op->outputs; k++) {
                double own = dtype_epsilon(call.outputs[k].dtype);
                double compute = floats[d] == F64 ? 0x1p-52 : 0x1p-23;
                assert_int_equal(tensor_count(&call.outputs[k]), tensor_count(&wide.outputs[k]));
                for (int64_t e = 0; e < tensor_count(&call.outputs[k]); e++) {
                    assert_near(examples[i].op, e, tensor_at(&call.outputs[k], e),
                                tensor_at(&wide.outputs[k], e), 64 * compute,
                                0.51 * own + 16 * compute);
                }
            }
            close_many(&call);
            close_many(&wide);
        }
    }
}

static void every_row_survives_failing_allocations(void **state) {
    (void)state;
    struct random random = random_seeded();
    size_t failures = 0;
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        struct many call = open_example(&examples[i], BF16, &random, 0.1, 0.9);
        enum orr_status status = ORR_NO_MEMORY;
        for (size_t fail_at = 1; status != ORR_OK; fail_at++) {
            struct counting_memory memory;
            struct orr_error error = {0};
            counting_memory_init(&memory, fail_at);
            status = try_run(&call, &memory.table, &error);
            assert_int_equal(memory.live, 0);
            if (status != ORR_OK) {
                failures++;
                assert_int_equal(status, ORR_NO_MEMORY);
                assert_memory_equal(error.text, examples[i].op, strlen(examples[i].op));
            }
        }
        close_many(&call);
    }
    assert_true(failures >= 2);
}

/* Each dimension that is 3 becomes 0. */
static void every_row_takes_empty_tensors(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        struct example empty = examples[i];
        struct orr_error error = {0};
        for (int k = 0; k < empty.input_count; k++) {
            for (int j = 0; j < empty.inputs[k].shape.rank; j++) {
                if (empty.inputs[k].shape.dims[j] == 3) {
                    empty.inputs[k].shape.dims[j] = 0;
                }
            }
        }
        struct many call = open_example(&empty, F32, &random, 0.1, 0.9);
        if (try_run(&call, &memory, &error) != ORR_OK) {
            fail_msg("%s", error.text);
        }
        close_many(&call);
    }
}

/* ---- Values ---- */

static void put(struct orr_tensor_view *tensor, const double *values) {
    for (int64_t i = 0; i < tensor_count(tensor); i++) {
        orr_dtype_store(tensor->dtype, tensor->data, (size_t)i, values[i]);
    }
}

static void assert_values(const struct orr_tensor_view *tensor, const double *wanted) {
    for (int64_t i = 0; i < tensor_count(tensor); i++) {
        assert_near("value", i, tensor_at(tensor, i), wanted[i], 0, 0);
    }
}

static void gather_last_takes_and_scatter_last_adds_by_index(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct example gather = {"gather_last", {{F32, SHAPE(2, 3)}, {I64, SHAPE(2, 4)}}, 2, {{0}}};
    struct example scatter = {
        "scatter_last", {{F32, SHAPE(2, 4)}, {I64, SHAPE(2, 4)}}, 2, {{"size", 3, 0, {0}}}};
    const double x[6] = {1, 2, 3, 4, 5, 6}, indices[8] = {2, 0, 2, 1, 0, 0, 0, 2};
    const double grad[8] = {1, 10, 100, 1000, 2, 20, 200, 2000};
    struct many call = open_example(&gather, F32, &random, 0, 1);
    put(&call.inputs[0], x);
    put(&call.inputs[1], indices);
    run_many(&call);
    assert_values(&call.outputs[0], (const double[8]){3, 1, 3, 2, 4, 4, 4, 6});
    close_many(&call);
    call = open_example(&scatter, F32, &random, 0, 1);
    put(&call.inputs[0], grad);
    put(&call.inputs[1], indices);
    run_many(&call);
    assert_values(&call.outputs[0], (const double[6]){10, 1000, 101, 222, 0, 2000});
    close_many(&call);
}

static void topk_falls_and_prefers_the_lower_index(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct example example = {"topk", {{F32, SHAPE(2, 6)}}, 1, {{"k", 4, 0, {0}}}};
    struct many call = open_example(&example, F32, &random, 0, 1);
    put(&call.inputs[0], (const double[12]){1, 7, 3, 7, 3, 3, 2, NAN, 5, -1, NAN, INFINITY});
    run_many(&call);
    assert_values(&call.outputs[0], (const double[8]){7, 7, 3, 3, NAN, NAN, INFINITY, 5});
    assert_values(&call.outputs[1], (const double[8]){1, 3, 2, 4, 1, 4, 5, 2});
    close_many(&call);
}

/* Bit for bit, over several pieces and as a part of a larger tensor. */
static void dropout_mask_is_dropout_and_its_mask(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (size_t d = 0; d < 4; d++) {
        for (int part = 0; part < 2; part++) {
            struct example example = {"dropout_mask",
                                      {{F32, SHAPE(7, 300)}},
                                      1,
                                      {{"seed", 11, 0, {0}}, {"p", 0, 0.3, {0}}}};
            struct example again = {"dropout_mask_backward",
                                    {{F32, SHAPE(7, 300)}, {BOOL, SHAPE(7, 300)}},
                                    2,
                                    {{"p", 0, 0.3, {0}}}};
            if (part) {
                example.settings[2] = (struct setting){"global_shape", 0, 0, SHAPE(20, 400)};
                example.settings[3] = (struct setting){"starts", 0, 0, SHAPE(9, 77)};
            }
            struct many masked = open_example(&example, floats[d], &random, -1, 1);
            example.op = "dropout";
            struct many plain = open_example(&example, floats[d], &random, -1, 1);
            struct many back = open_example(&again, floats[d], &random, -1, 1);
            size_t bytes =
                (size_t)tensor_count(&plain.inputs[0]) * orr_dtype_size(plain.inputs[0].dtype);
            memcpy(plain.inputs[0].data, masked.inputs[0].data, bytes);
            memcpy(back.inputs[0].data, masked.inputs[0].data, bytes);
            run_many(&masked);
            run_many(&plain);
            memcpy(back.inputs[1].data, masked.outputs[1].data,
                   (size_t)tensor_count(&masked.outputs[1]));
            run_many(&back);
            for (int64_t i = 0; i < tensor_count(&plain.outputs[0]); i++) {
                double want = tensor_at(&plain.outputs[0], i);
                assert_near("y", i, tensor_at(&masked.outputs[0], i), want, 0, 0);
                assert_near("dropped again", i, tensor_at(&back.outputs[0], i), want, 0, 0);
                assert_true(tensor_at(&masked.outputs[1], i) == (want != 0) ||
                            tensor_at(&masked.inputs[0], i) == 0);
            }
            close_many(&masked);
            close_many(&plain);
            close_many(&back);
        }
    }
}

/* ---- Messages ---- */

static const struct {
    struct example example;
    const char *text;
} mistakes[] = {
    {{"gather_last", {{F32, SHAPE(2, 3)}, {F32, SHAPE(2, 4)}}, 2, {{0}}},
     "gather_last: x [2, 3] f32 and indices [2, 4] f32: expected x of numbers and indices of i32 "
     "or i64"},
    {{"gather_last", {{F32, SHAPE(2, 3)}, {I64, SHAPE(3, 4)}}, 2, {{0}}},
     "gather_last: x [2, 3] f32 and indices [3, 4] i64: dimensions before the last one differ"},
    {{"gather_last", {{F32, SHAPE(2, 3)}, {I64, SHAPE(2)}}, 2, {{0}}},
     "gather_last: x [2, 3] f32 and indices [2] i64: expected x [..., n] and indices [..., k] of "
     "as many dimensions"},
    {{"scatter_last", {{F32, SHAPE(2, 3)}, {I64, SHAPE(2, 4)}}, 2, {{"size", 5, 0, {0}}}},
     "scatter_last: grad [2, 3] f32 and indices [2, 4] i64: expected equal shapes"},
    {{"topk", {{F32, SHAPE(2, 3)}}, 1, {{"k", 4, 0, {0}}}},
     "topk: x [2, 3] f32: k is 4, expected 1 to 3, the last dimension of x"},
    {{"moe_dispatch",
      {{F32, SHAPE(4, 6, 2)}, {I64, SHAPE(4, 6, 1)}},
      2,
      {{"experts", 3, 0, {0}}, {"capacity", 2, 0, {0}}, {"groups", 0, 0, SHAPE(2, 4)}}},
     "moe_dispatch: x [4, 6, 2] f32 and indices [4, 6, 1] i64: 6 tokens along dimension 1 are not "
     "4 equal groups"},
    {{"moe_dispatch",
      {{F32, SHAPE(4, 6, 2)}, {I64, SHAPE(4, 6, 1)}},
      2,
      {{"experts", 3, 0, {0}}, {"capacity", 0, 0, {0}}}},
     "moe_dispatch: x [4, 6, 2] f32 and indices [4, 6, 1] i64: 3 experts of capacity 0, expected 1 "
     "or more"},
    {{"moe_dispatch",
      {{F32, SHAPE(4, 6, 2)}, {I64, SHAPE(4, 5, 1)}},
      2,
      {{"experts", 3, 0, {0}}, {"capacity", 1, 0, {0}}}},
     "moe_dispatch: x [4, 6, 2] f32 and indices [4, 5, 1] i64: expected x [b, s, h] and indices "
     "[b, s, k]"},
    {{"moe_combine",
      {{F32, SHAPE(3, 1, 1, 2, 4)}, {I64, SHAPE(4, 6, 2)}, {F32, SHAPE(4, 6)}},
      3,
      {{0}}},
     "moe_combine: y [3, 1, 1, 2, 4] f32, indices [4, 6, 2] i64 and weights [4, 6] f32: expected "
     "weights of the indices' shape"},
    {{"moe_combine", {{F32, SHAPE(3, 2, 4)}, {I64, SHAPE(4, 6, 2)}}, 2, {{0}}},
     "moe_combine: y [3, 2, 4] f32 and indices [4, 6, 2] i64: expected y [experts, gb, gs, "
     "capacity, h]"},
    {{"sdpa_block",
      {{F32, SHAPE(1, 2, 6, 4)}, {F32, SHAPE(1, 2, 6, 4)}, {F32, SHAPE(1, 2, 6, 4)}},
      3,
      {{"blocks", 4, 0, {0}}}},
     "sdpa_block: q [1, 2, 6, 4] f32, k [1, 2, 6, 4] f32 and v [1, 2, 6, 4] f32: 6 queries are not "
     "4 equal blocks"},
    {{"sdpa_block",
      {{F32, SHAPE(1, 2, 6, 4)}, {F32, SHAPE(1, 2, 12, 4)}, {F32, SHAPE(1, 2, 12, 4)}},
      3,
      {{"blocks", 3, 0, {0}}, {"causal", 1, 0, {0}}}},
     "sdpa_block: q [1, 2, 6, 4] f32, k [1, 2, 12, 4] f32 and v [1, 2, 12, 4] f32: causal: "
     "expected as many keys as queries, not 12 and 6"},
    {{"sdpa_block",
      {{F32, SHAPE(1, 2, 6, 4)}, {F32, SHAPE(1, 2, 10, 4)}, {F32, SHAPE(1, 2, 10, 4)}},
      3,
      {{"blocks", 3, 0, {0}}}},
     "sdpa_block: q [1, 2, 6, 4] f32, k [1, 2, 10, 4] f32 and v [1, 2, 10, 4] f32: 6 queries and "
     "10 keys are not 3 equal blocks each"},
    {{"sdpa_merge",
      {{BF16, SHAPE(1, 2, 6, 4)},
       {F32, SHAPE(1, 2, 6)},
       {BF16, SHAPE(1, 2, 6, 4)},
       {BF16, SHAPE(1, 2, 6)}},
      4,
      {{0}}},
     "sdpa_merge: out_a [1, 2, 6, 4] bf16, lse_a [1, 2, 6] f32, out_b [1, 2, 6, 4] bf16 and lse_b "
     "[1, 2, 6] bf16: expected lse of f32"},
    {{"dropout_mask", {{F32, SHAPE(2)}}, 1, {{"p", 0, -1, {0}}}},
     "dropout_mask: x [2] f32: p is -1, expected 0 to 1"},
    {{"dropout_mask_backward", {{F32, SHAPE(2)}, {I64, SHAPE(2)}}, 2, {{0}}},
     "dropout_mask_backward: grad [2] f32 and mask [2] i64: expected grad of floats and mask of "
     "bool, of equal shapes"},
};

static void messages_name_operator_operands_and_shapes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const struct example *example = &mistakes[i].example;
        struct orr_attributes attributes;
        struct orr_operand_info results[ORR_OUTPUTS_MAX];
        struct orr_error error = {0};
        const struct orr_operator *op = settle(example, &attributes);
        assert_int_equal(
            op->infer(example->inputs, example->input_count, &attributes, results, &error),
            ORR_INVALID);
        assert_string_equal(error.text, mistakes[i].text);
    }
}

static void indices_out_of_range_are_named(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    struct example example = {"gather_last", {{F32, SHAPE(2, 3)}, {I64, SHAPE(2, 2)}}, 2, {{0}}};
    struct many call = open_example(&example, F32, &random, 0, 1);
    struct orr_error error = {0};
    put(&call.inputs[1], (const double[4]){0, 2, 3, 0});
    assert_int_equal(try_run(&call, &memory, &error), ORR_INVALID);
    assert_string_equal(error.text, "gather_last: x [2, 3] f32 and indices [2, 2] i64: index 3 at "
                                    "position 2, expected 0 to 2");
    close_many(&call);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_exact),
        cmocka_unit_test(every_row_of_models_has_a_cost_here),
        cmocka_unit_test(every_dtype_agrees_with_f64),
        cmocka_unit_test(every_row_survives_failing_allocations),
        cmocka_unit_test(every_row_takes_empty_tensors),
        cmocka_unit_test(gather_last_takes_and_scatter_last_adds_by_index),
        cmocka_unit_test(topk_falls_and_prefers_the_lower_index),
        cmocka_unit_test(dropout_mask_is_dropout_and_its_mask),
        cmocka_unit_test(messages_name_operator_operands_and_shapes),
        cmocka_unit_test(indices_out_of_range_are_named),
    };
    return cmocka_run_group_tests_name("model operators", tests, NULL, NULL);
}
