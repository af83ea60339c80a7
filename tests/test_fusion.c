/* Fused kernels and the planner: numbers never change, traffic does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/fused.h"
#include "runtime/operators/gemm.h"
#include "tests/operator_fixture.h"

enum { CALLS_MAX = 64, OUTSIDE_MAX = 16 };

/* A list of calls over values: v >= 0 made by call v, v < 0 the outside tensor ~v. */
struct list {
    int count;
    struct orr_fusion_call calls[CALLS_MAX];
    struct orr_attributes attributes[CALLS_MAX];
    struct orr_operand_info operands[CALLS_MAX][ORR_INPUTS_MAX];
    struct orr_operand_info outside[OUTSIDE_MAX];
    int outside_count;
};

static struct orr_operand_info info_of(const struct list *list, int value) {
    return value >= 0 ? list->calls[value].result : list->outside[~value];
}

static int add_outside(struct list *list, enum orr_dtype dtype, struct orr_shape shape) {
    assert_true(list->outside_count < OUTSIDE_MAX);
    list->outside[list->outside_count] = (struct orr_operand_info){dtype, shape};
    return ~list->outside_count++;
}

/* Adds a call if its operator accepts the operands; returns its value, or -1000. */
static int try_call(struct list *list, const char *name, int count, int a, int b, int c) {
    int index = list->count, values[] = {a, b, c};
    struct orr_fusion_call *call = &list->calls[index];
    assert_true(index < CALLS_MAX);
    *call = (struct orr_fusion_call){.op = orr_operator_find(name),
                                     .attributes = &list->attributes[index],
                                     .input_count = count,
                                     .operands = list->operands[index]};
    orr_operator_defaults(call->op, &list->attributes[index]);
    if (strcmp(name, "scale") == 0)
        list->attributes[index].values[0].real = 0.75;
    for (int i = 0; i < count; i++) {
        call->inputs[i] = values[i];
        list->operands[index][i] = info_of(list, values[i]);
    }
    if (call->op->infer(call->operands, count, call->attributes, &call->result, NULL) != ORR_OK)
        return -1000;
    return list->count++;
}

static int add_call(struct list *list, const char *name, int count, int a, int b) {
    int value = try_call(list, name, count, a, b, 0);
    assert_true(value >= 0);
    return value;
}

static int plan(const struct list *list, enum orr_fusion_mode mode,
                struct orr_fusion_group *groups) {
    struct counting_memory memory;
    struct orr_error error = {0};
    int count;
    counting_memory_init(&memory, 0);
    assert_int_equal(
        orr_fusion_plan(list->calls, list->count, mode, &memory.table, groups, &count, &error),
        ORR_OK);
    assert_int_equal(memory.live, 0);
    return count;
}

/* relu(x @ w + b) with 4096 x 4096 bf16, x = ~0, w = ~1, b = ~2. */
static struct list *mlp_layer(void) {
    struct list *list = calloc(1, sizeof *list);
    assert_non_null(list);
    int x = add_outside(list, ORR_DTYPE_BF16, shape2(4096, 4096));
    int w = add_outside(list, ORR_DTYPE_BF16, shape2(4096, 4096));
    int b = add_outside(list, ORR_DTYPE_BF16, shape1(4096));
    int product = add_call(list, "matmul", 2, x, w);
    int sum = add_call(list, "add", 2, product, b);
    list->calls[add_call(list, "relu", 1, sum, 0)].kept = true;
    return list;
}

/* Streamed bytes (read and written) that the pointwise stages add: all of them without a product;
 * behind a product, what the kernel has beyond the product alone. */
static uint64_t pointwise_bytes(const struct orr_fused *fused,
                                const struct orr_operand_info *operands,
                                const struct orr_operand_info *result) {
    const struct orr_fused_stage *first = &fused->stages[0];
    struct orr_cost cost = orr_fused_cost(fused, operands, result), product = {0};
    if (first->op->class == ORR_OPERATOR_GEMM) {
        const struct orr_operand_info factors[2] = {operands[first->inputs[0]],
                                                    operands[first->inputs[1]]};
        product = first->op->cost(factors, 2, &first->attributes, result);
    }
    return cost.bytes_read + cost.bytes_written - product.bytes_read - product.bytes_written;
}

/* Cost of all kernels of a plan, and the streamed bytes of its pointwise part. */
static struct orr_cost plan_cost(const struct list *list, enum orr_fusion_mode mode,
                                 uint64_t *out_pointwise) {
    struct orr_fusion_group groups[CALLS_MAX];
    struct orr_cost total = {0};
    *out_pointwise = 0;
    int count = plan(list, mode, groups);
    for (int i = 0; i < count; i++) {
        struct orr_fused fused;
        struct orr_operand_info infos[ORR_FUSED_OPERANDS_MAX], result;
        int values[ORR_FUSED_OPERANDS_MAX];
        struct orr_error error = {0};
        orr_fusion_build(list->calls, &groups[i], &fused, values, infos);
        assert_int_equal(orr_fused_infer(&fused, infos, fused.operand_count, &result, &error),
                         ORR_OK);
        total = orr_cost_add(total, orr_fused_cost(&fused, infos, &result));
        *out_pointwise += pointwise_bytes(&fused, infos, &result);
    }
    return total;
}

static void a_layers_traffic_shrinks_with_each_mode(void **state) {
    (void)state;
    struct list *list = mlp_layer();
    const uint64_t product_bytes = 100663296, product_flops = 137438953472;
    static const struct {
        enum orr_fusion_mode mode;
        uint64_t pointwise, pointwise_flops;
    } rows[] = {
        {ORR_FUSION_OFF, 134217728, 2 * 16777216},
        {ORR_FUSION_POINTWISE, 67108864, 2 * 16777216},
        {ORR_FUSION_EPILOGUE, 0, 0},
    };
    for (size_t i = 0; i < 3; i++) {
        uint64_t pointwise;
        struct orr_cost cost = plan_cost(list, rows[i].mode, &pointwise);
        assert_true(pointwise == rows[i].pointwise);
        assert_true(cost.bytes_read + cost.bytes_written == product_bytes + rows[i].pointwise);
        assert_true(cost.bytes_broadcast == 8192);
        assert_true(cost.flops == product_flops + rows[i].pointwise_flops);
        assert_int_equal(cost.unit, ORR_UNIT_MATRIX);
    }
    free(list);
}

static void an_unfused_group_costs_what_its_operator_costs(void **state) {
    (void)state;
    struct list *list = mlp_layer();
    for (int i = 0; i < list->count; i++) {
        const struct orr_fusion_call *call = &list->calls[i];
        struct orr_fusion_group group = {.call_count = 1, .calls = {i}};
        struct orr_operand_info infos[ORR_FUSED_OPERANDS_MAX];
        int values[ORR_FUSED_OPERANDS_MAX];
        struct orr_fused fused;
        orr_fusion_build(list->calls, &group, &fused, values, infos);
        struct orr_cost own =
            call->op->cost(call->operands, call->input_count, call->attributes, &call->result);
        struct orr_cost cost = orr_fused_cost(&fused, infos, &call->result);
        assert_true(own.flops == cost.flops && own.bytes_read == cost.bytes_read);
        assert_true(own.bytes_written == cost.bytes_written && own.unit == cost.unit);
        assert_true(own.bytes_broadcast == cost.bytes_broadcast);
    }
    free(list);
}

static void a_residual_behind_a_product_is_streamed(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int x = add_outside(list, ORR_DTYPE_F32, shape2(64, 32));
    int w = add_outside(list, ORR_DTYPE_F32, shape2(32, 16));
    int residual = add_outside(list, ORR_DTYPE_F32, shape2(64, 16));
    add_call(list, "add", 2, add_call(list, "matmul", 2, x, w), residual);
    uint64_t pointwise;
    struct orr_cost cost = plan_cost(list, ORR_FUSION_EPILOGUE, &pointwise);
    assert_true(pointwise == 64 * 16 * 4);
    assert_true(cost.bytes_read == (64 * 32 + 32 * 16 + 64 * 16) * 4);
    assert_true(cost.bytes_written == 64 * 16 * 4);
    free(list);
}

/* ---- What is grouped ---- */

static void groups_are(const struct list *list, enum orr_fusion_mode mode, const char *want) {
    struct orr_fusion_group groups[CALLS_MAX];
    char text[512] = "";
    int count = plan(list, mode, groups);
    for (int i = 0; i < count; i++) {
        strcat(text, i > 0 ? " | " : "");
        for (int j = 0; j < groups[i].call_count; j++) {
            char number[16];
            snprintf(number, sizeof number, "%s%d", j > 0 ? " " : "", groups[i].calls[j]);
            strcat(text, number);
        }
    }
    assert_string_equal(text, want);
}

static void chains_join_and_products_take_epilogues(void **state) {
    (void)state;
    struct list *list = mlp_layer();
    groups_are(list, ORR_FUSION_OFF, "0 | 1 | 2");
    groups_are(list, ORR_FUSION_POINTWISE, "0 | 1 2");
    groups_are(list, ORR_FUSION_EPILOGUE, "0 1 2");
    list->calls[1].kept = true; /* somebody else reads x @ w + b */
    groups_are(list, ORR_FUSION_EPILOGUE, "0 1 | 2");
    list->calls[0].kept = true;
    groups_are(list, ORR_FUSION_EPILOGUE, "0 | 1 | 2");
    free(list);
}

static void a_value_with_two_readers_is_written(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int x = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int a = add_call(list, "exp", 1, x, 0);
    int b = add_call(list, "neg", 1, a, 0);
    int c = add_call(list, "tanh", 1, a, 0);
    add_call(list, "mul", 2, b, c);
    groups_are(list, ORR_FUSION_POINTWISE, "0 | 1 2 3");
    free(list);
}

static void a_call_may_read_one_value_twice(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int x = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int a = add_call(list, "exp", 1, x, 0);
    add_call(list, "mul", 2, a, a);
    groups_are(list, ORR_FUSION_POINTWISE, "0 1");
    free(list);
}

/* silu(x w1) * (x w3): only one product fits in a kernel; the other one's result is an operand. */
static void a_gated_layer_keeps_its_second_product_apart(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int x = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int w1 = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int w3 = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int gate = add_call(list, "silu", 1, add_call(list, "matmul", 2, x, w1), 0);
    int up = add_call(list, "matmul", 2, x, w3);
    add_call(list, "mul", 2, gate, up);
    groups_are(list, ORR_FUSION_EPILOGUE, "2 | 0 1 3");
    groups_are(list, ORR_FUSION_POINTWISE, "0 | 2 | 1 3");
    free(list);
}

/* A branch of pointwise calls joins behind a product that comes later in the program. */
static void a_product_comes_first_in_its_group(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int x = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int w = add_outside(list, ORR_DTYPE_F32, shape2(8, 8));
    int branch = add_call(list, "neg", 1, add_call(list, "exp", 1, x, 0), 0);
    int product = add_call(list, "matmul", 2, x, w);
    add_call(list, "add", 2, branch, product);
    groups_are(list, ORR_FUSION_EPILOGUE, "2 0 1 3");
    free(list);
}

static void results_that_change_shape_or_move_end_a_group(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int row = add_outside(list, ORR_DTYPE_F32, shape1(8));
    int x = add_outside(list, ORR_DTYPE_F32, shape2(4, 8));
    int a = add_call(list, "exp", 1, row, 0);
    int b = add_call(list, "add", 2, x, a); /* a is broadcast: not fused */
    int c = add_call(list, "softmax", 1, b, 0);
    add_call(list, "relu", 1, c, 0);
    groups_are(list, ORR_FUSION_EPILOGUE, "0 | 1 | 2 | 3");
    free(list);
}

static void long_chains_are_cut_at_the_largest_kernel(void **state) {
    (void)state;
    struct list *list = calloc(1, sizeof *list);
    int value = add_outside(list, ORR_DTYPE_F32, shape1(8));
    for (int i = 0; i < 40; i++)
        value = add_call(list, "neg", 1, value, 0);
    struct orr_fusion_group groups[CALLS_MAX];
    assert_int_equal(plan(list, ORR_FUSION_POINTWISE, groups), 3);
    assert_int_equal(groups[0].call_count, ORR_FUSED_STAGES_MAX);
    assert_int_equal(groups[2].call_count, 40 - 2 * ORR_FUSED_STAGES_MAX);
    free(list);
}

/* ---- Numbers ---- */

/* A program of random calls over tensors of one dtype. */
static struct list *random_list(struct random *random, enum orr_dtype dtype) {
    static const char *const names[] = {
        "add",  "sub",  "mul", "maximum", "relu",    "neg",     "scale",     "tanh",
        "silu", "gelu", "exp", "matmul",  "softmax", "dropout", "transpose", "linear"};
    struct list *list = calloc(1, sizeof *list);
    int64_t m = random_int(random, 1, 40), n = random_int(random, 1, 40);
    assert_non_null(list);
    struct orr_shape shapes[] = {shape2(m, n), shape2(m, n), shape1(n),    shape2(m, 1),
                                 shape2(n, n), shape2(n, m), shape2(1, 1), shape1(1)};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        add_outside(list, dtype, shapes[i]);
    for (int tries = 0; tries < 60; tries++) {
        const struct orr_operator *op = orr_operator_find(names[random_int(random, 0, 15)]);
        int values[3];
        for (int i = 0; i < 3; i++) {
            bool made = list->count > 0 && random_int(random, 0, 3) > 0;
            int64_t newest = list->count - 1, oldest = newest > 3 ? newest - 3 : 0;
            values[i] = made ? (int)random_int(random, oldest, newest)
                             : ~(int)random_int(random, 0, list->outside_count - 1);
        }
        int value = try_call(list, op->name, op->inputs_max, values[0], values[1], values[2]);
        if (value >= 0)
            list->calls[value].kept = random_int(random, 0, 9) == 0;
    }
    return list;
}

/* The values of a list: outside tensors, and one for each call, made when its group has run. */
struct values {
    struct orr_tensor_view outside[OUTSIDE_MAX], made[CALLS_MAX];
};

static struct orr_tensor_view *view_of(struct values *values, int value) {
    return value >= 0 ? &values->made[value] : &values->outside[~value];
}

static void run_group(const struct list *list, const struct orr_fusion_group *group,
                      struct values *values, const struct orr_memory *memory) {
    int last = group->calls[group->call_count - 1];
    const struct orr_fusion_call *call = &list->calls[last];
    struct orr_tensor_view operands[ORR_FUSED_OPERANDS_MAX];
    struct orr_error error = {0};
    values->made[last] = tensor_make(call->result.dtype, call->result.shape);
    if (group->call_count == 1) {
        for (int i = 0; i < call->input_count; i++)
            operands[i] = *view_of(values, call->inputs[i]);
        assert_int_equal(call->op->compute(operands, call->input_count, call->attributes,
                                           &values->made[last], memory, &error),
                         ORR_OK);
        return;
    }
    struct orr_fused fused;
    struct orr_operand_info infos[ORR_FUSED_OPERANDS_MAX], result;
    int numbers[ORR_FUSED_OPERANDS_MAX];
    orr_fusion_build(list->calls, group, &fused, numbers, infos);
    assert_int_equal(orr_fused_infer(&fused, infos, fused.operand_count, &result, &error), ORR_OK);
    for (int i = 0; i < fused.operand_count; i++) {
        operands[i] = *view_of(values, numbers[i]);
        assert_non_null(operands[i].data); /* an earlier group has made it */
    }
    assert_int_equal(orr_fused_compute(&fused, operands, &values->made[last], memory, &error),
                     ORR_OK);
}

static void run_list(const struct list *list, enum orr_fusion_mode mode, struct values *values,
                     int *out_groups) {
    struct orr_memory memory = orr_memory_system();
    struct orr_fusion_group groups[CALLS_MAX];
    memset(values->made, 0, sizeof values->made);
    *out_groups = plan(list, mode, groups);
    int calls = 0;
    for (int i = 0; i < *out_groups; i++) {
        run_group(list, &groups[i], values, &memory);
        calls += groups[i].call_count;
    }
    assert_int_equal(calls, list->count); /* each call is in one group */
}

static void free_made(struct values *values) {
    for (int i = 0; i < CALLS_MAX; i++)
        tensor_free(&values->made[i]);
}

/* Whatever is fused, every value that reaches memory is the same, bit for bit; and so is every one
 * that somebody asked to be kept. */
static void fusion_never_changes_a_number(void **state) {
    (void)state;
    static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                            ORR_DTYPE_BF16};
    struct random random = random_seeded();
    int eager_groups = 0, fused_groups = 0;
    for (int trial = 0; trial < 200; trial++) {
        struct list *list = random_list(&random, floats[trial % 4]);
        struct values eager = {0}, fused = {0};
        for (int i = 0; i < list->outside_count; i++)
            fused.outside[i] = eager.outside[i] =
                tensor_random(list->outside[i].dtype, list->outside[i].shape, &random, -1.5, 1.5);
        int count;
        run_list(list, ORR_FUSION_OFF, &eager, &count);
        assert_int_equal(count, list->count);
        for (int mode = ORR_FUSION_POINTWISE; mode <= ORR_FUSION_EPILOGUE; mode++) {
            eager_groups += list->count;
            run_list(list, (enum orr_fusion_mode)mode, &fused, &count);
            fused_groups += count;
            for (int i = 0; i < list->count; i++) {
                assert_true(fused.made[i].data || !list->calls[i].kept);
                if (fused.made[i].data && !tensor_equal(&fused.made[i], &eager.made[i]))
                    fail_msg("trial %d, mode %d, call %d (%s)", trial, mode, i,
                             list->calls[i].op->name);
            }
            free_made(&fused);
        }
        free_made(&eager);
        for (int i = 0; i < list->outside_count; i++)
            tensor_free(&eager.outside[i]);
        free(list);
    }
    assert_true(fused_groups < eager_groups * 4 / 5); /* the test did fuse something */
}

static void a_fused_chain_may_write_over_its_operand(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_fused fused = {.operand_count = 2, .stage_count = 2};
    fused.stages[0] = (struct orr_fused_stage){
        .op = orr_operator_find("add"), .input_count = 2, .inputs = {0, 1}};
    fused.stages[1] = (struct orr_fused_stage){
        .op = orr_operator_find("mul"), .input_count = 2, .inputs = {2, 0}};
    struct orr_tensor_view operands[2] = {
        tensor_random(ORR_DTYPE_BF16, shape2(30, 70), &random, -1, 1),
        tensor_random(ORR_DTYPE_BF16, shape1(70), &random, -1, 1)};
    struct orr_tensor_view result = tensor_make(ORR_DTYPE_BF16, shape2(30, 70));
    assert_int_equal(orr_fused_compute(&fused, operands, &result, &memory, &error), ORR_OK);
    assert_int_equal(orr_fused_compute(&fused, operands, &operands[0], &memory, &error), ORR_OK);
    assert_true(tensor_equal(&operands[0], &result));
    tensor_free(&operands[0]);
    tensor_free(&operands[1]);
    tensor_free(&result);
}

/* ---- Failures ---- */

static void impossible_kernels_are_refused(void **state) {
    (void)state;
    const struct orr_operator *relu = orr_operator_find("relu"), *add = orr_operator_find("add");
    const struct orr_operator *matmul = orr_operator_find("matmul");
    const struct orr_operator *softmax = orr_operator_find("softmax");
    struct orr_operand_info operands[2] = {{ORR_DTYPE_F32, shape2(4, 4)},
                                           {ORR_DTYPE_F32, shape2(4, 4)}};
    struct orr_operand_info row[2] = {{ORR_DTYPE_F32, shape1(4)}, {ORR_DTYPE_F32, shape2(4, 4)}};
    const struct {
        struct orr_fused fused;
        const struct orr_operand_info *operands;
        const char *text;
    } rows[] = {
        {{.operand_count = 2, .stage_count = 0}, operands, "fused: 0 stages, expected 1 to 16"},
        {{.operand_count = 1, .stage_count = 1}, operands, "fused: 2 operands given, expected 1"},
        {{.operand_count = 2, .stage_count = 1, .stages = {{.op = NULL}}},
         operands,
         "fused: stage 0 has no operator"},
        {{.operand_count = 2,
          .stage_count = 1,
          .stages = {{.op = softmax, .input_count = 1, .inputs = {0}}}},
         operands,
         "fused: stage 0 is softmax, expected a pointwise operator or a matrix product"},
        {{.operand_count = 2,
          .stage_count = 2,
          .stages = {{.op = relu, .input_count = 1, .inputs = {0}},
                     {.op = matmul, .input_count = 2, .inputs = {0, 2}}}},
         operands,
         "fused: stage 1 is matmul, expected a pointwise operator"},
        {{.operand_count = 2,
          .stage_count = 1,
          .stages = {{.op = add, .input_count = 2, .inputs = {0, 2}}}},
         operands,
         "fused: stage 0, add, reads slot 2, expected 0 to 1"},
        {{.operand_count = 2,
          .stage_count = 1,
          .stages = {{.op = add, .input_count = 1, .inputs = {0}}}},
         operands,
         "fused: stage 0, add, has 1 operands"},
        {{.operand_count = 2,
          .stage_count = 2,
          .stages = {{.op = relu, .input_count = 1, .inputs = {0}},
                     {.op = add, .input_count = 2, .inputs = {2, 1}}}},
         row,
         "fused: stage 0, relu, gives [4] but the last one [4, 4]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct orr_operand_info result;
        struct orr_error error = {0};
        assert_int_equal(orr_fused_infer(&rows[i].fused, rows[i].operands, 2, &result, &error),
                         ORR_INVALID);
        assert_string_equal(error.text, rows[i].text);
    }
}

static void planner_and_kernels_survive_failing_allocations(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_fused fused = {.operand_count = 3, .stage_count = 2};
    fused.stages[0] = (struct orr_fused_stage){
        .op = orr_operator_find("matmul"), .input_count = 2, .inputs = {0, 1}};
    fused.stages[1] = (struct orr_fused_stage){
        .op = orr_operator_find("add"), .input_count = 2, .inputs = {3, 2}};
    struct orr_tensor_view operands[3], result = tensor_make(ORR_DTYPE_F16, shape2(5, 5));
    for (int i = 0; i < 3; i++)
        operands[i] = tensor_random(ORR_DTYPE_F16, shape2(5, 5), &random, -1, 1);
    size_t fail_at = 1;
    for (;; fail_at++) {
        struct counting_memory memory;
        struct orr_error error = {0};
        counting_memory_init(&memory, fail_at);
        enum orr_status status =
            orr_fused_compute(&fused, operands, &result, &memory.table, &error);
        assert_int_equal(memory.live, 0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    assert_int_equal(fail_at, 3); /* the product's scratch, the chain's */
    for (int i = 0; i < 3; i++)
        tensor_free(&operands[i]);
    tensor_free(&result);
    struct list *list = mlp_layer();
    struct counting_memory memory;
    struct orr_fusion_group groups[CALLS_MAX];
    struct orr_error error = {0};
    int count;
    counting_memory_init(&memory, 1);
    assert_int_equal(orr_fusion_plan(list->calls, list->count, ORR_FUSION_EPILOGUE, &memory.table,
                                     groups, &count, &error),
                     ORR_NO_MEMORY);
    assert_int_equal(count, 0);
    free(list);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layers_traffic_shrinks_with_each_mode),
        cmocka_unit_test(an_unfused_group_costs_what_its_operator_costs),
        cmocka_unit_test(a_residual_behind_a_product_is_streamed),
        cmocka_unit_test(chains_join_and_products_take_epilogues),
        cmocka_unit_test(a_value_with_two_readers_is_written),
        cmocka_unit_test(a_call_may_read_one_value_twice),
        cmocka_unit_test(a_gated_layer_keeps_its_second_product_apart),
        cmocka_unit_test(a_product_comes_first_in_its_group),
        cmocka_unit_test(results_that_change_shape_or_move_end_a_group),
        cmocka_unit_test(long_chains_are_cut_at_the_largest_kernel),
        cmocka_unit_test(fusion_never_changes_a_number),
        cmocka_unit_test(a_fused_chain_may_write_over_its_operand),
        cmocka_unit_test(impossible_kernels_are_refused),
        cmocka_unit_test(planner_and_kernels_survive_failing_allocations),
    };
    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
