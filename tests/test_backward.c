/* The rows that training adds to the operator table: exact costs, every dtype against f64,
 * references written apart from the library's code, messages, failing allocations.
 * (test_autograd_rules.c has the finite differences.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "tests/many_fixture.h"

/* ---- Exact costs ---- */

static const struct cost_row costs[] = {
    {{"relu_backward", {{BF16, SHAPE(100)}, {BF16, SHAPE(100)}}, 2, {{0}}}, 100, 400, 200, 0, 0},
    {{"gelu_backward", {{F32, SHAPE(100)}, {F32, SHAPE(100)}}, 2, {{0}}}, 1100, 800, 400, 0, 0},
    {{"silu_backward", {{F32, SHAPE(100)}, {F32, SHAPE(100)}}, 2, {{0}}}, 900, 800, 400, 0, 0},
    {{"tanh_backward", {{F32, SHAPE(100)}, {F32, SHAPE(100)}}, 2, {{0}}}, 300, 800, 400, 0, 0},
    {{"sigmoid_backward", {{F32, SHAPE(100)}, {F32, SHAPE(100)}}, 2, {{0}}}, 300, 800, 400, 0, 0},
    {{"maximum_backward", {{F32, SHAPE(100)}, {F32, SHAPE(100)}}, 2, {{0}}}, 200, 800, 400, 0, 0},
    {{"softmax_backward", {{F32, SHAPE(10, 50)}, {F32, SHAPE(10, 50)}}, 2, {{0}}},
     2000,
     4000,
     2000,
     0,
     0},
    {{"layernorm_backward",
      {{F32, SHAPE(10, 50)}, {F32, SHAPE(10, 50)}, {F32, SHAPE(50)}},
      3,
      {{0}}},
     7000,
     4000,
     2000,
     200,
     0},
    {{"layernorm_backward", {{F32, SHAPE(10, 50)}, {F32, SHAPE(10, 50)}}, 2, {{0}}},
     6500,
     4000,
     2000,
     0,
     0},
    {{"layernorm_backward_weight", {{F32, SHAPE(10, 50)}, {F32, SHAPE(10, 50)}}, 2, {{0}}},
     4500,
     4000,
     400,
     0,
     0},
    {{"rmsnorm_backward",
      {{BF16, SHAPE(10, 50)}, {BF16, SHAPE(10, 50)}, {BF16, SHAPE(50)}},
      3,
      {{0}}},
     4500,
     2000,
     1000,
     100,
     0},
    {{"rmsnorm_backward_weight", {{BF16, SHAPE(10, 50)}, {BF16, SHAPE(10, 50)}}, 2, {{0}}},
     2500,
     2000,
     100,
     0,
     0},
    {{"rope_backward", {{BF16, SHAPE(2, 8, 100, 64)}}, 1, {{0}}}, 307200, 204800, 204800, 0, 0},
    /* 2.5 times 4 b h s t d */
    {{"sdpa_backward",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 32, 4096, 128)}},
      5,
      {{0}}},
     687194767360,
     3 * 33554432 + 2 * 8388608,
     33554432 + 2 * 8388608,
     0,
     ORR_UNIT_MATRIX},
    {{"sdpa_backward",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 32, 4096, 128)}},
      5,
      {{"causal", 1, 0, {0}}}},
     343597383680,
     3 * 33554432 + 2 * 8388608,
     33554432 + 2 * 8388608,
     0,
     ORR_UNIT_MATRIX},
    {{"matmul_backward_weight",
      {{BF16, SHAPE(2, 512, 4096)}, {BF16, SHAPE(2, 512, 1024)}},
      2,
      {{0}}},
     8589934592,
     8388608 + 2097152,
     8388608,
     0,
     ORR_UNIT_MATRIX},
    {{"matmul_backward_weight",
      {{BF16, SHAPE(8, 512, 64)}, {BF16, SHAPE(8, 512, 32)}},
      2,
      {{"batch", 1, 0, {0}}}},
     2 * 8 * 512 * 64 * 32,
     2 * 8 * 512 * (64 + 32),
     2 * 8 * 64 * 32,
     0,
     ORR_UNIT_MATRIX},
    {{"unbroadcast", {{F32, SHAPE(10, 50)}}, 1, {{"dims", 0, 0, SHAPE(0)}}}, 500, 2000, 200, 0, 0},
    {{"expand", {{F32, SHAPE(50)}}, 1, {{"shape", 0, 0, SHAPE(10, 50)}, {"dims", 0, 0, SHAPE(0)}}},
     0,
     0,
     2000,
     200,
     0},
    {{"max_backward", {{F16, SHAPE(100)}, {F16, SHAPE(10, 100)}}, 2, {{"dim", 0, 0, {0}}}},
     1000,
     2000,
     2000,
     200,
     0},
    /* the whole table's gradient is written, 12 rows are read */
    {{"embedding_backward",
      {{BF16, SHAPE(3, 4, 768)}, {I64, SHAPE(3, 4)}},
      2,
      {{"rows", 50257, 0, {0}}}},
     12 * 768,
     12 * 1536 + 96,
     50257 * 1536,
     0,
     0},
    {{"cross_entropy_backward",
      {{F32, SCALAR}, {BF16, SHAPE(100, 1000)}, {I64, SHAPE(100)}},
      3,
      {{"total", 100, 0, {0}}}},
     600000,
     200000 + 800,
     200000,
     4,
     0},
    {{"cross_entropy_backward",
      {{F32, SCALAR}, {BF16, SHAPE(100, 1000)}, {I64, SHAPE(100)}, {F32, SHAPE(100)}},
      4,
      {{"total", 100, 0, {0}}}},
     300000,
     200000 + 800 + 400,
     200000,
     4,
     0},
    {{"pad", {{F32, SHAPE(10, 50)}}, 1, {{"after", 0, 0, SHAPE(10)}}}, 0, 2000, 4000, 0, 0},
    {{"conv2d_backward_input",
      {{BF16, SHAPE(1, 128, 32, 32)}, {BF16, SHAPE(128, 64, 3, 3)}},
      2,
      {{"padding", 1, 0, {0}}, {"size", 0, 0, SHAPE(32, 32)}}},
     150994944,
     262144 + 147456,
     131072,
     0,
     ORR_UNIT_MATRIX},
    {{"conv2d_backward_weight",
      {{BF16, SHAPE(1, 128, 32, 32)}, {BF16, SHAPE(1, 64, 32, 32)}},
      2,
      {{"padding", 1, 0, {0}}, {"size", 0, 0, SHAPE(3, 3)}}},
     150994944,
     262144 + 131072,
     147456,
     0,
     ORR_UNIT_MATRIX},
    {{"groupnorm_backward",
      {{F32, SHAPE(2, 64, 8)}, {F32, SHAPE(2, 64, 8)}, {F32, SHAPE(64)}},
      3,
      {{0}}},
     14 * 1024,
     8192,
     4096,
     256,
     0},
    {{"groupnorm_backward_weight", {{F32, SHAPE(2, 64, 8)}, {F32, SHAPE(2, 64, 8)}}, 2, {{0}}},
     9 * 1024,
     8192,
     512,
     0,
     0},
    {{"quantize", {{BF16, SHAPE(10, 50)}}, 1, {{"dtype", ORR_DTYPE_F8E4M3, 0, {0}}}},
     2000,
     1000,
     500 + 40,
     0,
     0},
    {{"dequantize",
      {{ORR_DTYPE_I8, SHAPE(10, 50)}, {F32, SHAPE(10)}},
      2,
      {{"dtype", BF16, 0, {0}}}},
     500,
     500,
     1000,
     40,
     0},
    /* the weight is read as one byte an element */
    {{"linear_quantized",
      {{BF16, SHAPE(8, 4096)},
       {ORR_DTYPE_I8, SHAPE(1024, 4096)},
       {F32, SHAPE(1024)},
       {BF16, SHAPE(1024)}},
      4,
      {{0}}},
     67108864 + 2 * 8192,
     65536 + 4194304,
     16384,
     4096 + 2048,
     ORR_UNIT_MATRIX},
    /* the new rows, twice */
    {{"kv_append",
      {{BF16, SHAPE(8, 8, 4096, 128)}, {BF16, SHAPE(8, 8, 1, 128)}, {I64, SHAPE(8)}},
      3,
      {{0}}},
     0,
     16384,
     16384,
     64,
     0},
    /* 2 h (d + dv) keys, less half a pair for each query's triangle; keys and values once */
    {{"sdpa_decode",
      {{BF16, SHAPE(8, 32, 1, 128)},
       {BF16, SHAPE(8, 8, 4096, 128)},
       {BF16, SHAPE(8, 8, 4096, 128)},
       {I64, SHAPE(8)}},
      4,
      {{"keys", 8000, 0, {0}}}},
     32 * 256 * (16000 - 8),
     65536 + 8000 * 8 * 256 * 2,
     65536,
     64,
     ORR_UNIT_MATRIX},
    {{"sdpa_decode",
      {{BF16, SHAPE(1, 32, 1, 128)},
       {BF16, SHAPE(4, 8, 512, 128)},
       {BF16, SHAPE(4, 8, 512, 128)},
       {I64, SHAPE(1)},
       {I64, SHAPE(1)}},
      5,
      {{0}}},
     32 * 256 * (1024 - 1),
     8192 + 512 * 8 * 256 * 2,
     8192,
     16,
     ORR_UNIT_MATRIX},
    {{"rope_at", {{BF16, SHAPE(2, 8, 100, 64)}, {I64, SHAPE(2)}}, 2, {{0}}},
     307200,
     204800,
     204800,
     16,
     0},
    {{"sgd", {{F32, SHAPE(100)}, {BF16, SHAPE(100)}}, 2, {{"lr", 0, 1, {0}}}}, 400, 600, 400, 0, 0},
    {{"sgd_momentum",
      {{F32, SHAPE(100)}, {F32, SHAPE(100)}, {F32, SHAPE(100)}},
      3,
      {{"lr", 0, 1, {0}}}},
     600,
     1200,
     800,
     0,
     0},
    {{"sgd_momentum",
      {{F32, SHAPE(100)}, {F32, SHAPE(100)}, {F32, SHAPE(100)}},
      3,
      {{"lr", 0, 1, {0}}, {"nesterov", 1, 0, {0}}}},
     800,
     1200,
     800,
     0,
     0},
    {{"adamw",
      {{F32, SHAPE(100)}, {F32, SHAPE(100)}, {F32, SHAPE(100)}, {F32, SHAPE(100)}},
      4,
      {{"lr", 0, 1, {0}}}},
     1500,
     1600,
     1200,
     0,
     0},
    {{"adamw_master",
      {{F32, SHAPE(100)}, {BF16, SHAPE(100)}, {F32, SHAPE(100)}, {F32, SHAPE(100)}},
      4,
      {{"lr", 0, 1, {0}}}},
     1500,
     1400,
     1400,
     0,
     0},
    {{"count_nonfinite", {{BF16, SHAPE(100)}}, 1, {{0}}}, 100, 200, 4, 0, 0},
};
enum { COST_COUNT = sizeof costs / sizeof costs[0] };

static void costs_are_exact(void **state) {
    (void)state;
    check_costs(costs, COST_COUNT);
}

static void every_row_of_training_has_a_cost_here(void **state) {
    (void)state;
    bool behind = false;
    int rows = 0;
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        behind = behind || strcmp(op->name, "relu_backward") == 0;
        bool found = !behind;
        for (int k = 0; k < COST_COUNT; k++) {
            found = found || strcmp(costs[k].example.op, op->name) == 0;
        }
        if (!found) {
            fail_msg("no cost test for %s", op->name);
        }
        rows += behind;
    }
    assert_true(rows >= 24);
}

/* ---- Every row in every dtype ---- */

/* f32 stands for the dtype that is tried. Scalars of losses stay f32 below f64. */
static const struct example examples[] = {
    {"relu_backward", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"gelu_backward", {{F32, SHAPE(3, 200)}, {F32, SHAPE(3, 200)}}, 2, {{0}}},
    {"silu_backward", {{F32, SHAPE(3, 200)}, {F32, SHAPE(3, 200)}}, 2, {{0}}},
    {"tanh_backward", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"sigmoid_backward", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"maximum_backward", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"softmax_backward", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"layernorm_backward", {{F32, SHAPE(3, 9)}, {F32, SHAPE(3, 9)}, {F32, SHAPE(9)}}, 3, {{0}}},
    {"layernorm_backward_weight", {{F32, SHAPE(3, 9)}, {F32, SHAPE(3, 9)}}, 2, {{0}}},
    {"rmsnorm_backward", {{F32, SHAPE(3, 9)}, {F32, SHAPE(3, 9)}, {F32, SHAPE(9)}}, 3, {{0}}},
    {"rmsnorm_backward_weight", {{F32, SHAPE(3, 9)}, {F32, SHAPE(3, 9)}}, 2, {{0}}},
    {"rope_backward", {{F32, SHAPE(2, 3, 8)}}, 1, {{"offset", 7, 0, {0}}}},
    {"sdpa_backward",
     {{F32, SHAPE(1, 4, 3, 4)},
      {F32, SHAPE(1, 4, 3, 4)},
      {F32, SHAPE(1, 2, 3, 4)},
      {F32, SHAPE(1, 2, 3, 4)},
      {F32, SHAPE(1, 4, 3, 4)}},
     5,
     {{"causal", 1, 0, {0}}}},
    {"matmul_backward_weight", {{F32, SHAPE(2, 3, 4)}, {F32, SHAPE(2, 3, 5)}}, 2, {{0}}},
    {"matmul_backward_weight",
     {{F32, SHAPE(2, 2, 3, 4)}, {F32, SHAPE(2, 2, 3, 5)}},
     2,
     {{"batch", 1, 0, {0}}}},
    {"unbroadcast",
     {{F32, SHAPE(3, 5, 4)}},
     1,
     {{"dims", 0, 0, SHAPE(0, 2)}, {"leading", 1, 0, {0}}}},
    {"expand", {{F32, SHAPE(3)}}, 1, {{"shape", 0, 0, SHAPE(3, 4)}, {"dims", 0, 0, SHAPE(1)}}},
    {"max_backward", {{F32, SHAPE(3)}, {F32, SHAPE(3, 4)}}, 2, {{"dim", 1, 0, {0}}}},
    {"embedding_backward", {{F32, SHAPE(3, 4)}, {I64, SHAPE(3)}}, 2, {{"rows", 4, 0, {0}}}},
    {"cross_entropy_backward",
     {{F32, SCALAR}, {F32, SHAPE(3, 4)}, {I64, SHAPE(3)}},
     3,
     {{"total", 5, 0, {0}}}},
    {"pad", {{F32, SHAPE(3, 4)}}, 1, {{"before", 0, 0, SHAPE(1, 2)}, {"after", 0, 0, SHAPE(0, 3)}}},
    {"conv2d_backward_input",
     {{F32, SHAPE(3, 4, 5, 4)}, {F32, SHAPE(4, 2, 2, 2)}},
     2,
     {{"padding", 1, 0, {0}}, {"groups", 2, 0, {0}}, {"size", 0, 0, SHAPE(4, 3)}}},
    {"conv2d_backward_weight",
     {{F32, SHAPE(3, 4, 5, 5)}, {F32, SHAPE(3, 2, 4, 4)}},
     2,
     {{"padding", 1, 0, {0}}, {"size", 0, 0, SHAPE(2, 2)}}},
    {"groupnorm_backward",
     {{F32, SHAPE(3, 4, 5)}, {F32, SHAPE(3, 4, 5)}, {F32, SHAPE(4)}},
     3,
     {{"groups", 2, 0, {0}}}},
    {"groupnorm_backward_weight",
     {{F32, SHAPE(3, 4, 5)}, {F32, SHAPE(3, 4, 5)}},
     2,
     {{"groups", 2, 0, {0}}}},
    {"kv_append", {{F32, SHAPE(3, 2, 4, 4)}, {F32, SHAPE(3, 2, 2, 4)}, {I64, SHAPE(3)}}, 3, {{0}}},
    {"sdpa_decode",
     {{F32, SHAPE(3, 4, 1, 4)},
      {F32, SHAPE(3, 2, 4, 4)},
      {F32, SHAPE(3, 2, 4, 2)},
      {I64, SHAPE(3)}},
     4,
     {{0}}},
    {"rope_at", {{F32, SHAPE(3, 2, 2, 4)}, {I64, SHAPE(3)}}, 2, {{0}}},
    {"sgd",
     {{F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}},
     2,
     {{"lr", 0, 0.125, {0}}, {"weight_decay", 0, 0.25, {0}}}},
    {"sgd_momentum",
     {{F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}},
     3,
     {{"lr", 0, 0.125, {0}}}},
    {"adamw",
     {{F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}},
     4,
     {{"lr", 0, 0.125, {0}}, {"step", 3, 0, {0}}}},
    {"adamw_master",
     {{F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}, {F32, SHAPE(3, 100)}},
     4,
     {{"lr", 0, 0.125, {0}}, {"step", 3, 0, {0}}}},
    {"count_nonfinite", {{F32, SHAPE(3, 400)}}, 1, {{0}}},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

static const enum orr_dtype floats[] = {F64, F32, F16, BF16};

/* The loss's gradient is f32 however narrow the logits are. */
static struct many open_in(const struct example *example, enum orr_dtype dtype,
                           struct random *random) {
    struct many call = open_example(example, dtype, random, 0.1, 0.9);
    if (strcmp(example->op, "cross_entropy_backward") == 0 && dtype != F64) {
        double value = tensor_at(&call.inputs[0], 0);
        tensor_free(&call.inputs[0]);
        call.inputs[0] = tensor_make(F32, orr_shape_of(0, NULL));
        orr_dtype_store(F32, call.inputs[0].data, 0, value);
    }
    return call;
}

/* The same operands in f64 give the same results but for rounding. */
static void every_dtype_agrees_with_f64(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        for (size_t d = 0; d < 4; d++) {
            struct many call = open_in(&examples[i], floats[d], &random);
            struct many wide = call;
            for (int k = 0; k < call.input_count; k++) {
                const struct orr_tensor_view *from = &call.inputs[k];
                enum orr_dtype dtype = from->dtype == I64 ? I64 : F64;
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
                                tensor_at(&wide.outputs[k], e),
                                64 * compute + 0x1p-24 * (own > 1e-4), 0.51 * own + 16 * compute);
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
        for (size_t d = 0; d < 4; d++) {
            struct many call = open_in(&examples[i], floats[d], &random);
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
    }
    assert_true(failures > 40);
}

/* Each dimension that is 3 becomes 0: results, or an error, but no crash. */
static void every_row_takes_empty_tensors(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    int computed = 0;
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
        if (strcmp(empty.op, "expand") == 0) {
            empty.settings[0].shape.dims[0] = 0;
        }
        struct many call = open_in(&empty, F32, &random);
        enum orr_status status = try_run(&call, &memory, &error);
        assert_true(status == ORR_OK || status == ORR_INVALID);
        computed += status == ORR_OK;
        close_many(&call);
    }
    assert_true(computed >= EXAMPLE_COUNT - 2);
}

/* ---- References ---- */

/* Attention's gradient over several blocks of queries, from the definition: dense softmax, every
 * product a loop. */
static void sdpa_reference(const struct many *call, double *dq, double *dk, double *dv) {
    const struct orr_shape *q = &call->inputs[1].shape, *k = &call->inputs[2].shape;
    int64_t h = q->dims[1], s = q->dims[2], d = q->dims[3], hkv = k->dims[1], t = k->dims[2];
    bool causal = call->attributes.values[0].integer != 0;
    double scale = 1 / sqrt((double)d), *p = calloc((size_t)t, sizeof *p);
    double *dp = calloc((size_t)t, sizeof *dp);
    for (int64_t row = 0; row < h * s; row++) {
        int64_t head = row / s, i = row % s, kv = head / (h / hkv);
        int64_t visible = causal ? i + t - s + 1 : t;
        double sum = 0, delta = 0;
        for (int64_t j = 0; j < visible; j++) {
            double score = 0;
            dp[j] = 0;
            for (int64_t c = 0; c < d; c++) {
                score += tensor_at(&call->inputs[1], row * d + c) *
                         tensor_at(&call->inputs[2], (kv * t + j) * d + c);
                dp[j] += tensor_at(&call->inputs[0], row * d + c) *
                         tensor_at(&call->inputs[3], (kv * t + j) * d + c);
            }
            p[j] = exp(score * scale);
            sum += p[j];
        }
        for (int64_t j = 0; j < visible; j++) {
            p[j] /= sum;
            delta += p[j] * dp[j];
        }
        for (int64_t j = 0; j < visible; j++) {
            double ds = p[j] * (dp[j] - delta) * scale;
            for (int64_t c = 0; c < d; c++) {
                int64_t key = (kv * t + j) * d + c;
                dq[row * d + c] += ds * tensor_at(&call->inputs[2], key);
                dk[key] += ds * tensor_at(&call->inputs[1], row * d + c);
                dv[key] += p[j] * tensor_at(&call->inputs[0], row * d + c);
            }
        }
    }
    free(p);
    free(dp);
}

static void attention_over_several_blocks_equals_its_definition(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int causal = 0; causal < 2; causal++) {
        enum { H = 4, HKV = 2, S = 150, T = 170, D = 6 };
        struct example example = {"sdpa_backward",
                                  {{F64, SHAPE(1, H, S, D)},
                                   {F64, SHAPE(1, H, S, D)},
                                   {F64, SHAPE(1, HKV, T, D)},
                                   {F64, SHAPE(1, HKV, T, D)},
                                   {F64, SHAPE(1, H, S, D)}},
                                  5,
                                  {{"causal", causal, 0, {0}}}};
        struct many call = open_example(&example, F64, &random, -1, 1);
        struct call forward = call_open("sdpa");
        call_int(&forward, "causal", causal);
        for (int i = 1; i < 4; i++) {
            struct orr_tensor_view copy = tensor_make(F64, call.inputs[i].shape);
            memcpy(copy.data, call.inputs[i].data, (size_t)tensor_count(&copy) * 8);
            call_input(&forward, copy);
        }
        call_run(&forward);
        memcpy(call.inputs[4].data, forward.output.data, (size_t)H * S * D * 8);
        run_many(&call);
        static double dq[H * S * D], dk[HKV * T * D], dv[HKV * T * D];
        memset(dq, 0, sizeof dq);
        memset(dk, 0, sizeof dk);
        memset(dv, 0, sizeof dv);
        sdpa_reference(&call, dq, dk, dv);
        const double *wanted[3] = {dq, dk, dv};
        for (int i = 0; i < 3; i++) {
            for (int64_t e = 0; e < tensor_count(&call.outputs[i]); e++) {
                assert_near("sdpa_backward", e, tensor_at(&call.outputs[i], e), wanted[i][e], 1e-13,
                            1e-12);
            }
        }
        call_close(&forward);
        close_many(&call);
    }
}

static void scatter_adds_repeated_indices_in_order(void **state) {
    (void)state;
    struct example example = {
        "embedding_backward", {{F32, SHAPE(5, 2)}, {I64, SHAPE(5)}}, 2, {{"rows", 4, 0, {0}}}};
    struct random random = random_seeded();
    struct many call = open_example(&example, F32, &random, 0, 1);
    const int64_t indices[5] = {2, 0, 2, 2, 3};
    const float grad[10] = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50};
    const float wanted[8] = {2, 20, 0, 0, 8, 80, 5, 50};
    memcpy(call.inputs[0].data, grad, sizeof grad);
    memcpy(call.inputs[1].data, indices, sizeof indices);
    run_many(&call);
    assert_memory_equal(call.outputs[0].data, wanted, sizeof wanted);
    close_many(&call);
}

/* A piece of the classes, with the sums of whole rows, gives that piece of the gradient; a target
 * that another rank has is left out. */
static void sharded_classes_have_their_part_of_a_losss_gradient(void **state) {
    (void)state;
    enum { N = 3, CLASSES = 7, FIRST = 2, HERE = 3 };
    struct random random = random_seeded();
    struct example all = {"cross_entropy_backward",
                          {{F64, SCALAR}, {F64, SHAPE(N, CLASSES)}, {I64, SHAPE(N)}},
                          3,
                          {{"total", 5, 0, {0}}}};
    struct example part = {
        "cross_entropy_backward",
        {{F64, SCALAR}, {F64, SHAPE(N, HERE)}, {I64, SHAPE(N)}, {F64, SHAPE(N)}},
        4,
        {{"total", 5, 0, {0}}, {"first", FIRST, 0, {0}}, {"whole", CLASSES, 0, {0}}}};
    const int64_t targets[N] = {FIRST + 1, 0, CLASSES - 1};
    struct many whole = open_example(&all, F64, &random, -1, 1);
    struct many piece = open_example(&part, F64, &random, -1, 1);
    memcpy(whole.inputs[2].data, targets, sizeof targets);
    memcpy(piece.inputs[2].data, targets, sizeof targets);
    memcpy(piece.inputs[0].data, whole.inputs[0].data, sizeof(double));
    for (int64_t row = 0; row < N; row++) {
        double sum = 0, *logits = (double *)whole.inputs[1].data + row * CLASSES;
        for (int64_t i = 0; i < CLASSES; i++) {
            sum += exp(logits[i]);
        }
        ((double *)piece.inputs[3].data)[row] = log(sum);
        memcpy((double *)piece.inputs[1].data + row * HERE, logits + FIRST, HERE * sizeof(double));
    }
    run_many(&whole);
    run_many(&piece);
    for (int64_t i = 0; i < N * HERE; i++) {
        assert_near("cross_entropy_backward", i, tensor_at(&piece.outputs[0], i),
                    tensor_at(&whole.outputs[0], i / HERE * CLASSES + FIRST + i % HERE), 1e-15,
                    1e-14);
    }
    close_many(&whole);
    close_many(&piece);
}

static void ties_and_corners_have_the_documented_slopes(void **state) {
    (void)state;
    static const struct {
        const char *op;
        double x, wanted;
    } corners[] = {{"relu_backward", 0, 0},      {"relu_backward", -0.5, 0},
                   {"relu_backward", 0.5, 3},    {"relu_backward", NAN, 3},
                   {"maximum_backward", 0, 1.5}, {"maximum_backward", 2, 3},
                   {"maximum_backward", -2, 0}};
    for (size_t i = 0; i < sizeof corners / sizeof corners[0]; i++) {
        struct call call = call_open(corners[i].op);
        for (int k = 0; k < 2; k++) {
            struct orr_tensor_view one = tensor_make(F32, shape1(1));
            orr_dtype_store(F32, one.data, 0, k == 0 ? 3 : corners[i].x);
            call_input(&call, one);
        }
        call_run(&call);
        assert_near(corners[i].op, 0, tensor_at(&call.output, 0), corners[i].wanted, 0, 0);
        call_close(&call);
    }
    struct call max = call_open("max_backward"); /* the first of the largest gets all */
    call_int(&max, "dim", 0);
    struct orr_tensor_view grad = tensor_make(F32, orr_shape_of(0, NULL));
    struct orr_tensor_view x = tensor_make(F32, shape1(4));
    memcpy(x.data, (const float[]){1, 7, 7, 2}, 16);
    orr_dtype_store(F32, grad.data, 0, 5);
    call_input(&max, grad);
    call_input(&max, x);
    call_run(&max);
    assert_memory_equal(max.output.data, ((const float[]){0, 5, 0, 0}), 16);
    call_close(&max);
}

/* ---- Optimizers ---- */

/* Five steps of AdamW as the paper's algorithm 2 has it, in f64, with its own bookkeeping. */
static void adamw_follows_the_paper(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct example example = {"adamw",
                              {{F64, SHAPE(7)}, {F64, SHAPE(7)}, {F64, SHAPE(7)}, {F64, SHAPE(7)}},
                              4,
                              {{"lr", 0, 0.01, {0}}, {"weight_decay", 0, 0.1, {0}}}};
    struct many call = open_example(&example, F64, &random, -1, 1);
    double theta[7], m[7] = {0}, v[7] = {0};
    memcpy(theta, call.inputs[0].data, sizeof theta);
    memset(call.inputs[2].data, 0, sizeof m);
    memset(call.inputs[3].data, 0, sizeof v);
    for (int t = 1; t <= 5; t++) {
        call.attributes.values[5].integer = t;
        for (int i = 0; i < 7; i++) {
            double g = random_real(&random, -2, 2);
            orr_dtype_store(F64, call.inputs[1].data, (size_t)i, g);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            double mean = m[i] / (1 - pow(0.9, t)), square = v[i] / (1 - pow(0.999, t));
            theta[i] -= 0.01 * (mean / (sqrt(square) + 1e-8) + 0.1 * theta[i]);
        }
        run_many(&call);
        for (int k = 0; k < 3; k++) { /* the results become the operands */
            memcpy(call.inputs[k == 0 ? 0 : k + 1].data, call.outputs[k].data, sizeof m);
        }
    }
    for (int i = 0; i < 7; i++) {
        assert_near("adamw", i, tensor_at(&call.outputs[0], i), theta[i], 1e-14, 1e-12);
        assert_near("mean", i, tensor_at(&call.outputs[1], i), m[i], 1e-15, 1e-12);
        assert_near("square", i, tensor_at(&call.outputs[2], i), v[i], 1e-15, 1e-12);
    }
    close_many(&call);
}

/* The first step goes lr in the direction of the gradient, however large it is. */
static void the_first_step_of_adamw_is_the_learning_rate(void **state) {
    (void)state;
    struct example example = {"adamw",
                              {{F32, SHAPE(2)}, {F32, SHAPE(2)}, {F32, SHAPE(2)}, {F32, SHAPE(2)}},
                              4,
                              {{"lr", 0, 0.5, {0}}, {"weight_decay", 0, 0, {0}}}};
    struct random random = random_seeded();
    struct many call = open_example(&example, F32, &random, 0, 1);
    memcpy(call.inputs[0].data, (const float[]){1, 1}, 8);
    memcpy(call.inputs[1].data, (const float[]){1e6F, -1e-3F}, 8);
    memset(call.inputs[2].data, 0, 8);
    memset(call.inputs[3].data, 0, 8);
    run_many(&call);
    assert_near("adamw", 0, tensor_at(&call.outputs[0], 0), 0.5, 1e-5, 0);
    assert_near("adamw", 1, tensor_at(&call.outputs[0], 1), 1.5, 1e-5, 0);
    close_many(&call);
}

static void sgd_and_momentum_follow_their_formulas(void **state) {
    (void)state;
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        struct example example = {"sgd_momentum",
                                  {{F64, SHAPE(1)}, {F64, SHAPE(1)}, {F64, SHAPE(1)}},
                                  3,
                                  {{"lr", 0, 0.5, {0}},
                                   {"momentum", 0, 0.75, {0}},
                                   {"weight_decay", 0, 0.25, {0}},
                                   {"nesterov", nesterov, 0, {0}}}};
        struct random random = random_seeded();
        struct many call = open_example(&example, F64, &random, 0, 1);
        orr_dtype_store(F64, call.inputs[0].data, 0, 2);
        orr_dtype_store(F64, call.inputs[1].data, 0, 1);
        orr_dtype_store(F64, call.inputs[2].data, 0, 4);
        run_many(&call); /* g = 1 + 0.25 * 2 = 1.5; m = 3 + 1.5 = 4.5 */
        assert_near("momentum", 0, tensor_at(&call.outputs[1], 0), 4.5, 0, 0);
        double step = nesterov ? 1.5 + 0.75 * 4.5 : 4.5;
        assert_near("param", 0, tensor_at(&call.outputs[0], 0), 2 - 0.5 * step, 0, 0);
        close_many(&call);
    }
    struct call sgd = call_open("sgd");
    call_real(&sgd, "lr", 0.5);
    call_real(&sgd, "weight_decay", 0.25);
    for (int i = 0; i < 2; i++) {
        struct orr_tensor_view one = tensor_make(F64, shape1(1));
        orr_dtype_store(F64, one.data, 0, i == 0 ? 2 : 1);
        call_input(&sgd, one);
    }
    call_run(&sgd);
    assert_near("sgd", 0, tensor_at(&sgd.output, 0), 2 - 0.5 * 1.5, 0, 0);
    call_close(&sgd);
}

/* A bf16 parameter alone loses steps below its spacing; its master does not. */
static void a_master_copy_keeps_small_steps(void **state) {
    (void)state;
    struct example example = {"adamw_master",
                              {{F32, SHAPE(1)}, {BF16, SHAPE(1)}, {F32, SHAPE(1)}, {F32, SHAPE(1)}},
                              4,
                              {{"lr", 0, 1e-4, {0}}, {"weight_decay", 0, 0, {0}}}};
    struct random random = random_seeded();
    struct many call = open_example(&example, F32, &random, 1, 2);
    orr_dtype_store(F32, call.inputs[0].data, 0, 1);
    orr_dtype_store(BF16, call.inputs[1].data, 0, 1);
    memset(call.inputs[2].data, 0, 4);
    memset(call.inputs[3].data, 0, 4);
    for (int step = 1; step <= 100; step++) {
        call.attributes.values[5].integer = step;
        run_many(&call);
        assert_int_equal(call.outputs[0].dtype, BF16);
        if (step == 1) {
            assert_near("bf16 after one step", 0, tensor_at(&call.outputs[0], 0), 1, 0, 0);
        }
        for (int k = 1; k < 4; k++) {
            memcpy(call.inputs[k == 1 ? 0 : k].data, call.outputs[k].data, 4);
        }
    }
    assert_near("master", 0, tensor_at(&call.outputs[1], 0), 0.99, 1e-5, 0);
    assert_near("bf16", 0, tensor_at(&call.outputs[0], 0), 0.99, 0.002, 0);
    close_many(&call);
}

static void optimizers_write_over_their_operands(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        const struct orr_operator *op = orr_operator_find(examples[i].op);
        if (op->class != ORR_OPERATOR_UPDATE || strcmp(op->name, "adamw_master") == 0) {
            continue;
        }
        struct many call = open_in(&examples[i], BF16, &random);
        run_many(&call);
        struct orr_tensor_view over[ORR_OUTPUTS_MAX];
        struct orr_error error = {0};
        struct orr_memory memory = orr_memory_system();
        for (int k = 0; k < op->outputs; k++) {
            over[k] = call.inputs[k == 0 ? 0 : k + 1];
        }
        assert_int_equal(
            op->compute(call.inputs, call.input_count, &call.attributes, over, &memory, &error),
            ORR_OK);
        for (int k = 0; k < op->outputs; k++) {
            assert_true(tensor_equal(&over[k], &call.outputs[k]));
        }
        close_many(&call);
    }
}

static void infinities_and_nans_are_counted(void **state) {
    (void)state;
    for (size_t d = 0; d < 4; d++) {
        struct call call = call_open("count_nonfinite");
        struct orr_tensor_view x = tensor_make(floats[d], shape1(1000));
        const double odd[] = {INFINITY, -INFINITY, NAN, 1e300, 1, 0};
        for (size_t i = 0; i < 6; i++) {
            orr_dtype_store(floats[d], x.data, 300 + 100 * i, odd[i]);
        }
        call_input(&call, x);
        call_run(&call);
        assert_near("count", 0, tensor_at(&call.output, 0), floats[d] == F64 ? 3 : 4, 0, 0);
        call_close(&call);
    }
}

/* ---- Messages ---- */

static const struct {
    struct example example;
    const char *text;
} mistakes[] = {
    {{"gelu_backward", {{F32, SHAPE(3)}, {F32, SHAPE(4)}}, 2, {{0}}},
     "gelu_backward: grad [3] f32 and x [4] f32: expected equal shapes"},
    {{"softmax_backward", {{F32, SCALAR}, {F32, SCALAR}}, 2, {{0}}},
     "softmax_backward: grad [] f32 and y [] f32: expected equal shapes of at least 1 dimension"},
    {{"layernorm_backward", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}, {F32, SHAPE(3)}}, 3, {{0}}},
     "layernorm_backward: grad [3, 4] f32, x [3, 4] f32 and weight [3] f32: expected weight [4], "
     "the last dimension of x"},
    {{"rope_backward", {{F32, SHAPE(2, 5)}}, 1, {{0}}},
     "rope_backward: grad [2, 5] f32: rope: x [2, 5] f32: expected x [..., s, d] with an even d"},
    {{"matmul_backward_weight", {{F32, SHAPE(3, 4)}, {F32, SHAPE(2, 4)}}, 2, {{0}}},
     "matmul_backward_weight: x [3, 4] f32 and y [2, 4] f32: expected x [..., m] and y [..., n] "
     "with equal leading dimensions"},
    {{"unbroadcast", {{F32, SHAPE(3, 4)}}, 1, {{"dims", 0, 0, SHAPE(2)}}},
     "unbroadcast: x [3, 4] f32: dims [2] are not some of the 2 dimensions"},
    {{"unbroadcast", {{F32, SHAPE(3, 4)}}, 1, {{"dims", 0, 0, SHAPE(1)}, {"leading", 1, 0, {0}}}},
     "unbroadcast: x [3, 4] f32: the first 1 dimensions are not all among dims"},
    {{"expand", {{F32, SHAPE(3)}}, 1, {{"shape", 0, 0, SHAPE(4, 4)}, {"dims", 0, 0, SHAPE(0)}}},
     "expand: x [3] f32: x repeated along dimensions [0] does not have shape [4, 4]"},
    {{"max_backward", {{F32, SHAPE(3)}, {F32, SHAPE(3, 4)}}, 2, {{"dim", 0, 0, {0}}}},
     "max_backward: grad [3] f32 and x [3, 4] f32: expected grad of shape [4]"},
    {{"embedding_backward", {{F32, SHAPE(3, 4)}, {I64, SHAPE(2)}}, 2, {{"rows", 4, 0, {0}}}},
     "embedding_backward: grad [3, 4] f32 and indices [2] i64: expected grad [..., width] and "
     "indices [...]"},
    {{"cross_entropy_backward",
      {{F64, SCALAR}, {F32, SHAPE(3, 4)}, {I64, SHAPE(3)}},
      3,
      {{"total", 1, 0, {0}}}},
     "cross_entropy_backward: grad [] f64, logits [3, 4] f32 and targets [3] i64: expected grad [] "
     "of f32"},
    {{"cross_entropy_backward", {{F32, SCALAR}, {F32, SHAPE(3, 4)}, {I64, SHAPE(3)}}, 3, {{0}}},
     "cross_entropy_backward: grad [] f32, logits [3, 4] f32 and targets [3] i64: total is 0, "
     "expected 1 or more"},
    {{"pad", {{F32, SHAPE(3)}}, 1, {{"before", 0, 0, SHAPE(-1)}}},
     "pad: x [3] f32: dimension 0: -1 zeros before and 0 after"},
    {{"sgd", {{F32, SHAPE(3)}, {F32, SHAPE(4)}}, 2, {{0}}},
     "sgd: param [3] f32 and grad [4] f32: expected equal shapes"},
    {{"sgd", {{F32, SHAPE(3)}, {F32, SHAPE(3)}}, 2, {{"lr", 0, -1, {0}}}},
     "sgd: param [3] f32 and grad [3] f32: lr is -1, expected 0 or more"},
    {{"adamw",
      {{F32, SHAPE(1)}, {F32, SHAPE(1)}, {F32, SHAPE(1)}, {F32, SHAPE(1)}},
      4,
      {{"step", 0, 0, {0}}}},
     "adamw: param [1] f32, grad [1] f32, mean [1] f32 and square [1] f32: step is 0, expected 1 "
     "or more"},
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
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        bool embedding = strcmp(examples[i].op, "embedding_backward") == 0;
        if (!embedding && strcmp(examples[i].op, "cross_entropy_backward") != 0) {
            continue;
        }
        struct many call = open_in(&examples[i], F32, &random);
        struct orr_error error = {0};
        ((int64_t *)call.inputs[embedding ? 1 : 2].data)[1] = 4;
        assert_int_equal(try_run(&call, &memory, &error), ORR_INVALID);
        assert_non_null(strstr(error.text, "4 at position 1"));
        assert_non_null(strstr(error.text, "expected 0 to 3"));
        close_many(&call);
    }
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_exact),
        cmocka_unit_test(every_row_of_training_has_a_cost_here),
        cmocka_unit_test(every_dtype_agrees_with_f64),
        cmocka_unit_test(every_row_survives_failing_allocations),
        cmocka_unit_test(every_row_takes_empty_tensors),
        cmocka_unit_test(attention_over_several_blocks_equals_its_definition),
        cmocka_unit_test(scatter_adds_repeated_indices_in_order),
        cmocka_unit_test(sharded_classes_have_their_part_of_a_losss_gradient),
        cmocka_unit_test(ties_and_corners_have_the_documented_slopes),
        cmocka_unit_test(adamw_follows_the_paper),
        cmocka_unit_test(the_first_step_of_adamw_is_the_learning_rate),
        cmocka_unit_test(sgd_and_momentum_follow_their_formulas),
        cmocka_unit_test(a_master_copy_keeps_small_steps),
        cmocka_unit_test(optimizers_write_over_their_operands),
        cmocka_unit_test(infinities_and_nans_are_counted),
        cmocka_unit_test(messages_name_operator_operands_and_shapes),
        cmocka_unit_test(indices_out_of_range_are_named),
    };
    return cmocka_run_group_tests_name("backward", tests, NULL, NULL);
}
