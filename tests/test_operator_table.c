/* What holds for every row of the operator table: exact costs, messages that name the operator and
 * its operands, empty tensors, and failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "tests/operator_fixture.h"

#define F64  ORR_DTYPE_F64
#define F32  ORR_DTYPE_F32
#define F16  ORR_DTYPE_F16
#define BF16 ORR_DTYPE_BF16
#define I32  ORR_DTYPE_I32
#define I64  ORR_DTYPE_I64
#define BOOL ORR_DTYPE_BOOL
#define SHAPE(...)                                                                                 \
    {                                                                                              \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                               \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define SCALAR                                                                                     \
    {                                                                                              \
        0, {                                                                                       \
            0                                                                                      \
        }                                                                                          \
    }

/* An attribute of an example; `name` NULL ends. */
struct setting {
    const char *name;
    int64_t integer;
    double real;
    struct orr_shape shape;
};

struct example {
    const char *op;
    struct orr_operand_info inputs[4];
    int input_count;
    struct setting settings[4];
};

static void apply(const struct example *example, struct call *call) {
    *call = call_open(example->op);
    for (int i = 0; i < 4 && example->settings[i].name; i++) {
        const struct setting *setting = &example->settings[i];
        int index = orr_operator_attribute(call->op, setting->name);
        assert_true(index >= 0);
        call->attributes.values[index] =
            (struct orr_attribute){setting->integer, setting->real, setting->shape};
    }
}

/* ---- Exact costs ---- */

static const struct {
    struct example example;
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
    enum orr_unit unit;
} costs[] = {
    /* 2 m n k; (m k + k n + m n) times the size */
    {{"matmul", {{BF16, SHAPE(4096, 4096)}, {BF16, SHAPE(4096, 4096)}}, 2, {{0}}},
     137438953472,
     67108864,
     33554432,
     0,
     ORR_UNIT_MATRIX},
    {{"matmul", {{F32, SHAPE(8, 128, 64)}, {F32, SHAPE(64, 32)}}, 2, {{0}}},
     4194304,
     262144 + 8192,
     131072,
     0,
     ORR_UNIT_MATRIX},
    {{"matmul", {{F64, SHAPE(5, 3, 4)}, {F64, SHAPE(5, 4, 2)}}, 2, {{0}}},
     240,
     480 + 320,
     240,
     0,
     ORR_UNIT_MATRIX},
    {{"matmul", {{F16, SHAPE(64, 128)}, {F16, SHAPE(64, 32)}}, 2, {{"transpose_a", 1, 0, {0}}}},
     524288,
     16384 + 4096,
     8192,
     0,
     ORR_UNIT_MATRIX},
    {{"matmul", {{I64, SHAPE(2, 3)}, {I64, SHAPE(3, 4)}}, 2, {{0}}},
     48,
     48 + 96,
     64,
     0,
     ORR_UNIT_VECTOR},
    {{"linear", {{BF16, SHAPE(2, 512, 4096)}, {BF16, SHAPE(1024, 4096)}}, 2, {{0}}},
     8589934592,
     8388608 + 8388608,
     2097152,
     0,
     ORR_UNIT_MATRIX},
    {{"linear",
      {{BF16, SHAPE(1024, 4096)}, {BF16, SHAPE(1024, 4096)}, {BF16, SHAPE(1024)}},
      3,
      {{0}}},
     8589934592 + 1048576,
     16777216,
     2097152,
     2048,
     ORR_UNIT_MATRIX},
    {{"add", {{BF16, SHAPE(4096, 4096)}, {BF16, SHAPE(4096)}}, 2, {{0}}},
     16777216,
     33554432,
     33554432,
     8192,
     ORR_UNIT_VECTOR},
    {{"add", {{BF16, SHAPE(4096, 4096)}, {BF16, SHAPE(4096, 4096)}}, 2, {{0}}},
     16777216,
     67108864,
     33554432,
     0,
     ORR_UNIT_VECTOR},
    {{"mul", {{F32, SHAPE(10, 1)}, {F32, SHAPE(1, 20)}}, 2, {{0}}},
     200,
     0,
     800,
     120,
     ORR_UNIT_VECTOR},
    {{"sub", {{I32, SHAPE(10)}, {I32, SCALAR}}, 2, {{0}}}, 10, 40, 40, 4, ORR_UNIT_VECTOR},
    {{"div", {{F64, SHAPE(10)}, {F64, SHAPE(10)}}, 2, {{0}}}, 10, 160, 80, 0, ORR_UNIT_VECTOR},
    {{"maximum", {{F16, SHAPE(10)}, {F16, SHAPE(10)}}, 2, {{0}}}, 10, 40, 20, 0, ORR_UNIT_VECTOR},
    {{"relu", {{BF16, SHAPE(4096, 4096)}}, 1, {{0}}},
     16777216,
     33554432,
     33554432,
     0,
     ORR_UNIT_VECTOR},
    {{"gelu", {{F32, SHAPE(100)}}, 1, {{0}}}, 500, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"silu", {{F32, SHAPE(100)}}, 1, {{0}}}, 400, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"exp", {{F32, SHAPE(100)}}, 1, {{0}}}, 100, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"log", {{F32, SHAPE(100)}}, 1, {{0}}}, 100, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"tanh", {{F32, SHAPE(100)}}, 1, {{0}}}, 100, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"sigmoid", {{F32, SHAPE(100)}}, 1, {{0}}}, 400, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"neg", {{F32, SHAPE(100)}}, 1, {{0}}}, 100, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"scale", {{F32, SHAPE(100)}}, 1, {{"alpha", 0, 2, {0}}}}, 100, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"sqrt", {{F32, SHAPE(100)}}, 1, {{0}}}, 100, 400, 400, 0, ORR_UNIT_VECTOR},
    {{"dropout", {{F16, SHAPE(100)}}, 1, {{0}}}, 100, 200, 200, 0, ORR_UNIT_VECTOR},
    {{"softmax", {{F32, SHAPE(10, 50)}}, 1, {{0}}}, 2500, 2000, 2000, 0, ORR_UNIT_VECTOR},
    /* rows that see 3, 4, 5 and 6 of 6, twice */
    {{"softmax", {{F32, SHAPE(2, 4, 6)}}, 1, {{"causal", 1, 0, {0}}}},
     5 * 36,
     36 * 4,
     48 * 4,
     0,
     ORR_UNIT_VECTOR},
    {{"layernorm", {{F32, SHAPE(10, 50)}, {F32, SHAPE(50)}, {F32, SHAPE(50)}}, 3, {{0}}},
     4000,
     2000,
     2000,
     400,
     ORR_UNIT_VECTOR},
    {{"layernorm", {{F32, SHAPE(10, 50)}}, 1, {{0}}}, 3000, 2000, 2000, 0, ORR_UNIT_VECTOR},
    {{"rmsnorm", {{BF16, SHAPE(10, 50)}, {BF16, SHAPE(50)}}, 2, {{0}}},
     2000,
     1000,
     1000,
     100,
     ORR_UNIT_VECTOR},
    {{"rope", {{BF16, SHAPE(2, 8, 100, 64)}}, 1, {{0}}},
     307200,
     204800,
     204800,
     0,
     ORR_UNIT_VECTOR},
    /* 4 b h s t d, half of it with a mask over s = t, all but the diagonal's half in a decode */
    {{"sdpa",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)}},
      3,
      {{0}}},
     274877906944,
     33554432 + 2 * 8388608,
     33554432,
     0,
     ORR_UNIT_MATRIX},
    {{"sdpa",
      {{BF16, SHAPE(1, 32, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)},
       {BF16, SHAPE(1, 8, 4096, 128)}},
      3,
      {{"causal", 1, 0, {0}}}},
     137438953472,
     33554432 + 2 * 8388608,
     33554432,
     0,
     ORR_UNIT_MATRIX},
    {{"sdpa",
      {{F32, SHAPE(1, 4, 1, 64)}, {F32, SHAPE(1, 4, 100, 64)}, {F32, SHAPE(1, 4, 100, 64)}},
      3,
      {{"causal", 1, 0, {0}}}},
     4 * 4 * 64 * 100 - 2 * 4 * 64,
     1024 + 2 * 102400,
     1024,
     0,
     ORR_UNIT_MATRIX},
    {{"sum", {{F32, SHAPE(10, 50)}}, 1, {{"dim", 1, 0, {0}}}}, 500, 2000, 40, 0, ORR_UNIT_VECTOR},
    {{"mean", {{F32, SHAPE(10, 50)}}, 1, {{0}}}, 500, 2000, 4, 0, ORR_UNIT_VECTOR},
    {{"max", {{F16, SHAPE(10, 50)}}, 1, {{"dim", 0, 0, {0}}}}, 500, 1000, 100, 0, ORR_UNIT_VECTOR},
    {{"argmax", {{F16, SHAPE(10, 50)}}, 1, {{"dim", 0, 0, {0}}}},
     500,
     1000,
     400,
     0,
     ORR_UNIT_VECTOR},
    /* 12 rows of the table and 12 indices, not the table's 50,257 rows */
    {{"embedding", {{I64, SHAPE(3, 4)}, {BF16, SHAPE(50257, 768)}}, 2, {{0}}},
     0,
     12 * 1536 + 96,
     12 * 1536,
     0,
     ORR_UNIT_VECTOR},
    {{"cross_entropy", {{BF16, SHAPE(100, 1000)}, {I64, SHAPE(100)}}, 2, {{0}}},
     400000,
     200000 + 800,
     4,
     0,
     ORR_UNIT_VECTOR},
    {{"cast", {{F32, SHAPE(10, 50)}}, 1, {{"dtype", BF16, 0, {0}}}},
     0,
     2000,
     1000,
     0,
     ORR_UNIT_VECTOR},
    {{"transpose", {{F32, SHAPE(10, 50)}}, 1, {{0}}}, 0, 2000, 2000, 0, ORR_UNIT_VECTOR},
    {{"slice", {{F32, SHAPE(10, 50)}}, 1, {{"ends", 0, 0, SHAPE(2, 5)}}},
     0,
     40,
     40,
     0,
     ORR_UNIT_VECTOR},
    {{"concat", {{F32, SHAPE(10, 50)}, {F32, SHAPE(5, 50)}}, 2, {{0}}},
     0,
     3000,
     3000,
     0,
     ORR_UNIT_VECTOR},
    {{"reshape", {{F32, SHAPE(10, 50)}}, 1, {{"shape", 0, 0, SHAPE(-1)}}},
     0,
     0,
     0,
     0,
     ORR_UNIT_VECTOR},
    /* 2 n o oh ow (c / groups) kh kw, and the bias */
    {{"conv2d",
      {{BF16, SHAPE(1, 64, 32, 32)}, {BF16, SHAPE(128, 64, 3, 3)}},
      2,
      {{"padding", 1, 0, {0}}}},
     150994944,
     131072 + 147456,
     262144,
     0,
     ORR_UNIT_MATRIX},
    {{"conv2d",
      {{F32, SHAPE(2, 8, 9, 9)}, {F32, SHAPE(8, 1, 3, 3)}, {F32, SHAPE(8)}},
      3,
      {{"groups", 8, 0, {0}}, {"stride", 2, 0, {0}}}},
     2 * 2 * 8 * 16 * 9 + 256,
     5184 + 288,
     1024,
     32,
     ORR_UNIT_MATRIX},
    {{"groupnorm", {{BF16, SHAPE(2, 64, 8, 8)}, {BF16, SHAPE(64)}, {BF16, SHAPE(64)}}, 3, {{0}}},
     8 * 8192,
     16384,
     16384,
     256,
     ORR_UNIT_VECTOR},
    {{"zeros", {{0}}, 0, {{"shape", 0, 0, SHAPE(10, 50)}}}, 0, 0, 2000, 0, ORR_UNIT_VECTOR},
    {{"ones", {{0}}, 0, {{"shape", 0, 0, SHAPE(10, 50)}}}, 0, 0, 2000, 0, ORR_UNIT_VECTOR},
    {{"full", {{0}}, 0, {{"shape", 0, 0, SHAPE(10, 50)}}}, 0, 0, 2000, 0, ORR_UNIT_VECTOR},
    {{"arange", {{0}}, 0, {{"end", 10, 0, {0}}}}, 0, 0, 80, 0, ORR_UNIT_VECTOR},
    {{"rand", {{0}}, 0, {{"shape", 0, 0, SHAPE(10)}, {"dtype", BF16, 0, {0}}}},
     0,
     0,
     20,
     0,
     ORR_UNIT_VECTOR},
    {{"randn", {{0}}, 0, {{"shape", 0, 0, SHAPE(4096, 4096)}}}, 0, 0, 67108864, 0, ORR_UNIT_VECTOR},
};
enum { COST_COUNT = sizeof costs / sizeof costs[0] };

/* No data is needed for a cost. */
static struct orr_cost cost_of(const struct example *example) {
    struct call call;
    struct orr_error error = {0};
    struct orr_operand_info result;
    apply(example, &call);
    if (call.op->infer(example->inputs, example->input_count, &call.attributes, &result, &error) !=
        ORR_OK)
        fail_msg("%s", error.text);
    return call.op->cost(example->inputs, example->input_count, &call.attributes, &result);
}

static void costs_are_exact(void **state) {
    (void)state;
    for (int i = 0; i < COST_COUNT; i++) {
        struct orr_cost cost = cost_of(&costs[i].example);
        if (cost.flops != costs[i].flops || cost.bytes_read != costs[i].bytes_read ||
            cost.bytes_written != costs[i].bytes_written ||
            cost.bytes_broadcast != costs[i].bytes_broadcast || cost.unit != costs[i].unit)
            fail_msg("row %d, %s: %llu FLOPs, %llu read, %llu written, %llu broadcast, unit %d", i,
                     costs[i].example.op, (unsigned long long)cost.flops,
                     (unsigned long long)cost.bytes_read, (unsigned long long)cost.bytes_written,
                     (unsigned long long)cost.bytes_broadcast, (int)cost.unit);
    }
}

/* Those behind randn have theirs in test_model_operators.c and, from relu_backward on, in
 * test_backward.c. */
static void every_operator_has_a_row_here(void **state) {
    (void)state;
    bool behind = false;
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        bool found = behind;
        behind = behind || strcmp(op->name, "randn") == 0;
        for (int j = 0; j < COST_COUNT; j++)
            found = found || strcmp(costs[j].example.op, op->name) == 0;
        if (!found)
            fail_msg("no cost test for %s", op->name);
        assert_ptr_equal(orr_operator_find(op->name), op);
    }
    assert_null(orr_operator_find("gemm"));
}

static void rows_are_complete(void **state) {
    (void)state;
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        struct orr_attributes attributes;
        assert_true(op->infer && op->cost && op->input_names && op->attributes);
        assert_true((op->compute == NULL) == (op->class == ORR_OPERATOR_ALIAS));
        assert_true((op->class == ORR_OPERATOR_SOURCE) == (op->inputs_max == 0));
        assert_true(op->inputs_min <= op->inputs_max && op->inputs_max <= ORR_INPUTS_MAX);
        assert_true(op->outputs >= 1 && op->outputs <= ORR_OUTPUTS_MAX);
        for (int j = 0; j < op->inputs_max; j++)
            assert_non_null(op->input_names[j]);
        orr_operator_defaults(op, &attributes);
        for (int j = 0; op->attributes[j].name; j++) {
            assert_true(j < ORR_ATTRIBUTES_MAX);
            assert_int_equal(orr_operator_attribute(op, op->attributes[j].name), j);
        }
        assert_int_equal(orr_operator_attribute(op, "no such"), -1);
    }
}

static void huge_costs_saturate(void **state) {
    (void)state;
    struct example example = {
        "matmul",
        {{F32, SHAPE(1 << 30, 1 << 30)}, {F32, SHAPE(1 << 30, 1 << 30)}},
        2,
        {{0}},
    };
    assert_true(cost_of(&example).flops == UINT64_MAX);
}

/* ---- Messages ---- */

static const struct {
    struct example example;
    const char *text;
} mistakes[] = {
    {{"matmul", {{BF16, SHAPE(8, 4096)}, {BF16, SHAPE(4095, 4096)}}, 2, {{0}}},
     "matmul: x [8, 4096] bf16 and weight [4095, 4096] bf16: inner dimensions 4096 and 4095 "
     "differ"},
    {{"matmul", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
     "matmul: x [3, 4] f32: 1 operand given, expected 2: x, weight"},
    {{"matmul", {{F32, SHAPE(4)}, {F32, SHAPE(4, 4)}}, 2, {{0}}},
     "matmul: x [4] f32 and weight [4, 4] f32: expected at least 2 dimensions each: [..., m, k] "
     "and [..., k, n]"},
    {{"matmul", {{F32, SHAPE(2, 3, 4)}, {F32, SHAPE(3, 4, 5)}}, 2, {{0}}},
     "matmul: x [2, 3, 4] f32 and weight [3, 4, 5] f32: batch dimensions (all but the last two) "
     "don't broadcast"},
    {{"linear", {{F32, SHAPE(2, 4)}, {F32, SHAPE(4, 8)}}, 2, {{0}}},
     "linear: x [2, 4] f32 and weight [4, 8] f32: inner dimensions 4 and 8 differ; expected x "
     "[..., in], weight [out, in]"},
    {{"linear", {{F32, SHAPE(2, 8)}, {F32, SHAPE(4, 8)}, {F32, SHAPE(8)}}, 3, {{0}}},
     "linear: x [2, 8] f32, weight [4, 8] f32 and bias [8] f32: expected bias [4]"},
    {{"linear", {{F32, SHAPE(2)}, {F32, SHAPE(4, 8)}, {F32, SHAPE(8)}, {F32, SHAPE(8)}}, 4, {{0}}},
     "linear: x [2] f32, weight [4, 8] f32, bias [8] f32 and operand [8] f32: 4 operands given, "
     "expected 2 to 3: x, weight, bias (optional)"},
    {{"add", {{F32, SHAPE(2, 3)}, {BF16, SHAPE(3)}}, 2, {{0}}},
     "add: x [2, 3] f32 and y [3] bf16: dtypes f32 and bf16 differ; cast one of them"},
    {{"add", {{F32, SHAPE(2, 3)}, {F32, SHAPE(2)}}, 2, {{0}}},
     "add: x [2, 3] f32 and y [2] f32: shapes don't broadcast: from the right, dimensions must be "
     "equal or 1"},
    {{"div", {{I32, SHAPE(2)}, {I32, SHAPE(2)}}, 2, {{0}}},
     "div: x [2] i32 and y [2] i32: dtype of x is i32, expected f64, f32, f16 or bf16"},
    {{"relu", {{BOOL, SHAPE(2)}}, 1, {{0}}},
     "relu: x [2] bool: dtype of x is bool, expected f64, f32, f16, bf16, i32 or i64"},
    {{"mul", {{F32, SHAPE(1 << 30, 1)}, {F32, SHAPE(1, 1LL << 40)}}, 2, {{0}}},
     "mul: x [1073741824, 1] f32 and y [1, 1099511627776] f32: result: dimension 1 of a shape, "
     "1099511627776, makes the tensor larger than 2^63 bytes"},
    {{"relu", {{F32, SHAPE(2, -3)}}, 1, {{0}}},
     "relu: x [2, -3] f32: x: dimension 1 of a shape is -3; expected 0 or more"},
    {{"relu", {{ORR_DTYPE_NONE, SHAPE(2)}}, 1, {{0}}},
     "relu: x [2] none: dtype of x is none, expected f64, f32, f16, bf16, i32 or i64"},
    {{"dropout", {{F32, SHAPE(2)}}, 1, {{"p", 0, 1.5, {0}}}},
     "dropout: x [2] f32: p is 1.5, expected 0 to 1"},
    {{"dropout",
      {{F32, SHAPE(2, 4)}},
      1,
      {{"global_shape", 0, 0, SHAPE(4, 4)}, {"starts", 0, 0, SHAPE(3, 0)}}},
     "dropout: x [2, 4] f32: dimension 0: the part from 3 with 2 elements is not inside the "
     "global 4"},
    {{"softmax", {{F32, SCALAR}}, 1, {{0}}}, "softmax: x [] f32: expected at least 1 dimension"},
    {{"softmax", {{F32, SHAPE(5, 4)}}, 1, {{"causal", 1, 0, {0}}}},
     "softmax: x [5, 4] f32: causal: expected x [..., s, t] with no more rows than columns"},
    {{"rmsnorm", {{F32, SHAPE(2, 4)}, {F32, SHAPE(2)}}, 2, {{0}}},
     "rmsnorm: x [2, 4] f32 and weight [2] f32: expected weight [4], the last dimension of x"},
    {{"layernorm", {{F32, SHAPE(2, 4)}}, 1, {{"eps", 0, -1, {0}}}},
     "layernorm: x [2, 4] f32: eps is -1, expected 0 or more"},
    {{"rope", {{F32, SHAPE(2, 5)}}, 1, {{0}}},
     "rope: x [2, 5] f32: expected x [..., s, d] with an even d"},
    {{"sdpa",
      {{F32, SHAPE(1, 6, 3, 8)}, {F32, SHAPE(1, 4, 3, 8)}, {F32, SHAPE(1, 4, 3, 8)}},
      3,
      {{0}}},
     "sdpa: q [1, 6, 3, 8] f32, k [1, 4, 3, 8] f32 and v [1, 4, 3, 8] f32: 6 query heads are not "
     "a multiple of 4 key-value heads"},
    {{"sdpa",
      {{F32, SHAPE(1, 4, 5, 8)}, {F32, SHAPE(1, 4, 3, 8)}, {F32, SHAPE(1, 4, 3, 8)}},
      3,
      {{"causal", 1, 0, {0}}}},
     "sdpa: q [1, 4, 5, 8] f32, k [1, 4, 3, 8] f32 and v [1, 4, 3, 8] f32: causal with more "
     "queries than keys: 5 and 3"},
    {{"sum", {{F32, SHAPE(2, 3)}}, 1, {{"dim", 2, 0, {0}}}},
     "sum: x [2, 3] f32: dimension 2 of a tensor with 2 dimensions"},
    {{"max", {{F32, SHAPE(2, 0)}}, 1, {{"dim", 1, 0, {0}}}},
     "max: x [2, 0] f32: there are no elements to reduce"},
    {{"embedding", {{F32, SHAPE(2)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
     "embedding: indices [2] f32 and weight [3, 4] f32: expected indices of i32 or i64 and a "
     "weight of floats"},
    {{"cross_entropy", {{F32, SHAPE(2, 5)}, {I64, SHAPE(3)}}, 2, {{0}}},
     "cross_entropy: logits [2, 5] f32 and targets [3] i64: expected logits [..., classes] "
     "and targets [...]"},
    {{"cast", {{F32, SHAPE(2)}}, 1, {{"dtype", 99, 0, {0}}}},
     "cast: x [2] f32: dtype 99 is not one"},
    {{"transpose", {{F32, SHAPE(2, 3)}}, 1, {{"perm", 0, 0, SHAPE(1, 1)}}},
     "transpose: x [2, 3] f32: perm [1, 1] is not an order of the 2 dimensions"},
    {{"slice",
      {{F32, SHAPE(2, 3)}},
      1,
      {{"starts", 0, 0, SHAPE(0, 2)}, {"ends", 0, 0, SHAPE(2, 4)}}},
     "slice: x [2, 3] f32: dimension 1: from 2 to 4 is not inside 0 to 3"},
    {{"concat", {{F32, SHAPE(2, 3)}, {F32, SHAPE(3, 3)}}, 2, {{"dim", 1, 0, {0}}}},
     "concat: x [2, 3] f32 and x [3, 3] f32: operand 1 differs from the first in more than "
     "dimension 1"},
    {{"concat", {{0}}, 0, {{0}}},
     "concat: 0 operands given, expected 1 to 16: x, x (optional), x "
     "(optional), x (optional), ..."},
    {{"reshape", {{F32, SHAPE(2, 3)}}, 1, {{"shape", 0, 0, SHAPE(4)}}},
     "reshape: x [2, 3] f32: 6 elements don't fit shape [4]"},
    {{"rand", {{0}}, 0, {{"shape", 0, 0, SHAPE(4)}, {"dtype", I32, 0, {0}}}},
     "rand: dtype i32 is not supported"},
    {{"zeros", {{F32, SHAPE(2)}}, 1, {{0}}}, "zeros: operand [2] f32: 1 operand given, expected 0"},
    {{"arange", {{0}}, 0, {{"step", 0, 0, {0}}}}, "arange: step is 0"},
};

static void messages_name_operator_operands_and_shapes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const struct example *example = &mistakes[i].example;
        struct orr_error error = {0};
        struct orr_operand_info result;
        struct call call;
        apply(example, &call);
        enum orr_status status = call.op->infer(example->inputs, example->input_count,
                                                &call.attributes, &result, &error);
        assert_int_equal(status, ORR_INVALID);
        assert_string_equal(error.text, mistakes[i].text);
        assert_int_equal(
            call.op->infer(example->inputs, example->input_count, &call.attributes, &result, NULL),
            ORR_INVALID);
    }
}

/* The longest message there can be: 16 operands of 8 long dimensions, cut but still whole. */
static void a_message_about_many_operands_is_cut(void **state) {
    (void)state;
    struct orr_operand_info inputs[ORR_INPUTS_MAX], result;
    struct orr_error error = {0};
    const struct orr_operator *op = orr_operator_find("concat");
    struct orr_attributes attributes;
    orr_operator_defaults(op, &attributes);
    for (int i = 0; i < ORR_INPUTS_MAX; i++) {
        inputs[i] = (struct orr_operand_info){F32, {.rank = 8}};
        for (int j = 0; j < 8; j++)
            inputs[i].shape.dims[j] = INT64_MAX;
    }
    assert_int_equal(op->infer(inputs, ORR_INPUTS_MAX, &attributes, &result, &error), ORR_INVALID);
    assert_int_equal(strlen(error.text), ORR_ERROR_TEXT_MAX - 1);
    assert_string_equal(error.text + ORR_ERROR_TEXT_MAX - 4, "...");
}

/* ---- Running each row ---- */

/* Small cousins of the cost rows, one for each operator and dtype it takes. */
static const struct example examples[] = {
    {"matmul", {{F32, SHAPE(2, 3, 4)}, {F32, SHAPE(2, 4, 5)}}, 2, {{0}}},
    {"linear", {{F32, SHAPE(3, 4)}, {F32, SHAPE(5, 4)}, {F32, SHAPE(5)}}, 3, {{0}}},
    {"add", {{F32, SHAPE(3, 4)}, {F32, SHAPE(4)}}, 2, {{0}}},
    {"sub", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 1)}}, 2, {{0}}},
    {"mul", {{F32, SHAPE(3, 4)}, {F32, SCALAR}}, 2, {{0}}},
    {"div", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"maximum", {{F32, SHAPE(3, 4)}, {F32, SHAPE(3, 4)}}, 2, {{0}}},
    {"relu", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"gelu", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"silu", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"exp", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"log", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"tanh", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"sigmoid", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"neg", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"scale", {{F32, SHAPE(3, 4)}}, 1, {{"alpha", 0, 2, {0}}}},
    {"sqrt", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"dropout", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"softmax", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"softmax", {{F32, SHAPE(3, 4)}}, 1, {{"causal", 1, 0, {0}}}},
    {"layernorm", {{F32, SHAPE(3, 4)}, {F32, SHAPE(4)}, {F32, SHAPE(4)}}, 3, {{0}}},
    {"rmsnorm", {{F32, SHAPE(3, 4)}, {F32, SHAPE(4)}}, 2, {{0}}},
    {"rope", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"sdpa",
     {{F32, SHAPE(1, 2, 3, 4)}, {F32, SHAPE(1, 1, 3, 4)}, {F32, SHAPE(1, 1, 3, 4)}},
     3,
     {{0}}},
    {"sum", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"mean", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"max", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"argmax", {{F32, SHAPE(3, 4)}}, 1, {{"dim", 1, 0, {0}}}},
    {"embedding", {{I64, SHAPE(3)}, {F32, SHAPE(1, 4)}}, 2, {{0}}},
    {"cross_entropy", {{F32, SHAPE(3, 4)}, {I64, SHAPE(3)}}, 2, {{0}}},
    {"cast", {{F32, SHAPE(3, 4)}}, 1, {{"dtype", BF16, 0, {0}}}},
    {"transpose", {{F32, SHAPE(3, 4)}}, 1, {{0}}},
    {"slice", {{F32, SHAPE(3, 4)}}, 1, {{"starts", 0, 0, SHAPE(1)}}},
    {"concat", {{F32, SHAPE(3, 4)}, {F32, SHAPE(2, 4)}}, 2, {{0}}},
    {"conv2d",
     {{F32, SHAPE(3, 2, 4, 4)}, {F32, SHAPE(2, 2, 2, 2)}, {F32, SHAPE(2)}},
     3,
     {{"padding", 1, 0, {0}}}},
    {"groupnorm",
     {{F32, SHAPE(3, 4, 2)}, {F32, SHAPE(4)}, {F32, SHAPE(4)}},
     3,
     {{"groups", 2, 0, {0}}}},
    {"zeros", {{0}}, 0, {{"shape", 0, 0, SHAPE(3, 4)}}},
    {"ones", {{0}}, 0, {{"shape", 0, 0, SHAPE(3, 4)}}},
    {"full", {{0}}, 0, {{"shape", 0, 0, SHAPE(3, 4)}}},
    {"arange", {{0}}, 0, {{"end", 4, 0, {0}}}},
    {"rand", {{0}}, 0, {{"shape", 0, 0, SHAPE(3, 4)}}},
    {"randn", {{0}}, 0, {{"shape", 0, 0, SHAPE(3, 4)}}},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

/* A call of an example with its float operands in `dtype`; indices are all 0. */
static struct call open_example(const struct example *example, enum orr_dtype dtype,
                                struct random *random) {
    struct call call;
    apply(example, &call);
    for (int i = 0; i < example->input_count; i++) {
        const struct orr_operand_info *info = &example->inputs[i];
        call_input(&call, info->dtype == F32 ? tensor_random(dtype, info->shape, random, 0.5, 2)
                                             : tensor_make(info->dtype, info->shape));
    }
    return call;
}

/* Whichever allocation fails: ORR_NO_MEMORY with a text, nothing leaked, and the next run works. */
static void every_operator_survives_failing_allocations(void **state) {
    (void)state;
    static const enum orr_dtype floats[] = {F64, F32, F16, BF16};
    struct random random = random_seeded();
    size_t failures = 0;
    for (int i = 0; i < EXAMPLE_COUNT; i++)
        for (size_t d = 0; d < 4; d++) {
            struct call call = open_example(&examples[i], floats[d], &random);
            call_run(&call);
            struct orr_tensor_view want = call.output;
            call.output.data = NULL;
            enum orr_status status = ORR_NO_MEMORY;
            for (size_t fail_at = 1; status != ORR_OK; fail_at++) {
                struct counting_memory memory;
                struct orr_error error = {0};
                counting_memory_init(&memory, fail_at);
                status = call_run_with(&call, &memory.table, &error);
                assert_int_equal(memory.live, 0);
                if (status == ORR_OK)
                    break;
                failures++;
                assert_int_equal(status, ORR_NO_MEMORY);
                assert_int_equal(error.status, ORR_NO_MEMORY);
                assert_memory_equal(error.text, examples[i].op, strlen(examples[i].op));
            }
            assert_true(tensor_equal(&call.output, &want));
            tensor_free(&want);
            call_close(&call);
        }
    assert_true(failures > 60);
}

/* Each dimension of each operand that is 3 becomes 0: no results, or an error, but no crash. */
static void every_operator_takes_empty_tensors(void **state) {
    (void)state;
    struct random random = random_seeded();
    int computed = 0;
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        struct example empty = examples[i];
        struct orr_error error = {0};
        struct orr_memory memory = orr_memory_system();
        for (int j = 0; j < empty.input_count; j++)
            for (int k = 0; k < empty.inputs[j].shape.rank; k++)
                if (empty.inputs[j].shape.dims[k] == 3)
                    empty.inputs[j].shape.dims[k] = 0;
        for (int j = 0; j < 4; j++)
            if (empty.settings[j].name && strcmp(empty.settings[j].name, "shape") == 0)
                empty.settings[j].shape.dims[0] = 0;
        struct call call = open_example(&empty, F32, &random);
        enum orr_status status = call_run_with(&call, &memory, &error);
        assert_true(status == ORR_OK || status == ORR_INVALID);
        computed += status == ORR_OK;
        call_close(&call);
    }
    assert_true(computed >= EXAMPLE_COUNT - 6);
}

/* Results do not depend on where the operands lie: only the element's alignment is promised. */
static void every_operator_reads_operands_at_any_aligned_place(void **state) {
    (void)state;
    static const enum orr_dtype floats[] = {F64, F32, F16, BF16};
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    for (int i = 0; i < EXAMPLE_COUNT; i++)
        for (size_t d = 0; d < 4; d++) {
            struct call call = open_example(&examples[i], floats[d], &random);
            call_run(&call);
            _Alignas(16) unsigned char places[3][1024];
            struct orr_tensor_view moved[3];
            for (int j = 0; j < call.input_count; j++) {
                size_t size = orr_dtype_size(call.inputs[j].dtype);
                moved[j] = call.inputs[j];
                moved[j].data = places[j] + size;
                memcpy(moved[j].data, call.inputs[j].data, (size_t)tensor_count(&moved[j]) * size);
            }
            struct orr_tensor_view output = tensor_make(call.output.dtype, call.output.shape);
            struct orr_error error = {0};
            assert_int_equal(call.op->compute(moved, call.input_count, &call.attributes, &output,
                                              &memory, &error),
                             ORR_OK);
            assert_true(tensor_equal(&output, &call.output));
            tensor_free(&output);
            call_close(&call);
        }
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_exact),
        cmocka_unit_test(every_operator_has_a_row_here),
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(huge_costs_saturate),
        cmocka_unit_test(messages_name_operator_operands_and_shapes),
        cmocka_unit_test(a_message_about_many_operands_is_cut),
        cmocka_unit_test(every_operator_survives_failing_allocations),
        cmocka_unit_test(every_operator_takes_empty_tensors),
        cmocka_unit_test(every_operator_reads_operands_at_any_aligned_place),
    };
    return cmocka_run_group_tests_name("operator table", tests, NULL, NULL);
}
