/* Costs of a framework's operators from what a profiler records of their inputs: the line that
 * importers make of it, and formulas against figures worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/imported_cost.h"
#include "runtime/cost.h"
#include "runtime/dtype.h"
#include "tests/random_numbers.h"
#include "trace/import/operator_inputs.h"

/* ------------------------------------------------------------------------------------------------
 * The line */

static struct orr__json_text json(const char *text) {
    return (struct orr__json_text){.at = text, .length = text ? strlen(text) : 0};
}

static void check_line(const char *dims, const char *types, const char *values,
                       const char *expected) {
    char buffer[ORR__INPUTS_MAX];
    size_t length = orr__operator_inputs(json(dims), json(types), json(values), buffer);
    assert_string_equal(buffer, expected);
    assert_int_equal(length, strlen(expected));
}

static void the_line_joins_shapes_types_and_values(void **state) {
    (void)state;
    check_line("[[16, 559, 1024], [], [], []]", "[\"float\", \"ScalarList\", \"Scalar\", \"\"]",
               "[\"\", \"[-1]\", \"True\", \"\"]", "f32[16, 559, 1024], [-1], True, -");
    check_line("[[1,559,64],[]]", "[\"c10::BFloat16\",\"double\"]", NULL,
               "bf16[1, 559, 64], f64[]");
    check_line("[ [ 2 , 3 ] , [ ] ]", "[\"c10::Half\", \"Scalar\"]", "[\"\", \"0.5\"]",
               "f16[2, 3], 0.5");
    check_line("[[[1, 2], [3]], []]", "[\"TensorList\", \"Scalar\"]", "[\"\", \"-1\"]",
               "(?[1, 2], ?[3]), -1");
    check_line("[[[4], [8]], []]", "[[\"float\", \"int\"], \"Scalar\"]", "[\"\", \"0\"]",
               "(f32[4], i32[8]), 0");
    check_line("[[3], []]", NULL, NULL, "?[3], -");
    check_line("[[3], [4]]", "[\"quint8\", \"Scalar\"]", "[\"\", \"a (long, \\\"bad\\\") value\"]",
               "?[3], -");
    check_line("[]", "[]", "[]", "");
    check_line(NULL, NULL, NULL, "");
}

static void what_is_no_such_array_gives_no_line(void **state) {
    (void)state;
    check_line("[[3], [4]", "[\"float\"]", NULL, ""); /* cut off */
    check_line("{}", NULL, NULL, "");
    check_line("[[3.5]]", "[\"float\"]", NULL, "");
    check_line("[[-3]]", "[\"float\"]", NULL, "");
    check_line("[[3]]", "\"float\"", NULL, "");
    char dims[3 * ORR__INPUTS_MAX] = "[";
    for (int i = 0; i < ORR__INPUTS_MAX / 4; i++) {
        strcat(dims, i ? ",[12345]" : "[12345]");
    }
    check_line(strcat(dims, "]"), NULL, NULL, ""); /* too long: nothing rather than half of it */
}

static void the_first_tensor_gives_the_element_type(void **state) {
    (void)state;
    assert_int_equal(orr__operator_dtype("0, 559, [1], bf16[4], f32[4]"), ORR_DTYPE_BF16);
    assert_int_equal(orr__operator_dtype("(f32[4], f32[8]), 0"), ORR_DTYPE_F32);
    assert_int_equal(orr__operator_dtype("?[4], f32[4]"), ORR_DTYPE_NONE);
    assert_int_equal(orr__operator_dtype(""), ORR_DTYPE_NONE);
}

/* ------------------------------------------------------------------------------------------------
 * Formulas */

static const struct {
    const char *name, *inputs;
    uint64_t flops, read, written, broadcast;
} known[] = {
    /* 141 x 512 x 512: 2 m k n and m n for the bias */
    {"aten::addmm", "bf16[512], bf16[141, 512], bf16[512, 512], 1, 1",
     2 * 141 * 512 * 512 + 141 * 512, 2 * (141 * 512 + 512 * 512), 2 * 141 * 512, 2 * 512},
    {"aten::mm", "f32[3, 5], f32[5, 7]", 2 * 3 * 5 * 7, 4 * (15 + 35), 4 * 21, 0},
    {"aten::bmm", "f16[4, 3, 5], f16[4, 5, 7]", 4 * 2 * 3 * 5 * 7, 2 * 4 * (15 + 35), 2 * 4 * 21,
     0},
    {"aten::baddbmm", "f16[4, 3, 7], f16[4, 3, 5], f16[4, 5, 7], 1, 1", 4 * (210 + 21),
     2 * 4 * (21 + 15 + 35), 2 * 4 * 21, 0},
    {"aten::linear", "bf16[2, 3, 8], bf16[16, 8], bf16[16]", 2 * 6 * 8 * 16 + 96, 2 * (48 + 128),
     2 * 96, 2 * 16},
    {"aten::linear", "bf16[2, 3, 8], bf16[16, 8], -", 2 * 6 * 8 * 16, 2 * (48 + 128), 2 * 96, 0},
    {"aten::matmul", "f32[2, 1, 3, 5], f32[4, 5, 7]", 8 * 210, 4 * (30 + 140), 4 * 8 * 21, 0},
    {"aten::mv", "f32[3, 5], f32[5]", 30, 4 * 20, 12, 0},
    {"aten::dot", "f32[5], f32[5]", 10, 40, 4, 0},

    /* ResNet's first: 224 -> 112 with a window of 7, stride 2, padding 3 */
    {"aten::cudnn_convolution",
     "f16[8, 3, 224, 224], f16[64, 3, 7, 7], [3, 3], [2, 2], [1, 1], 1, True, False, True",
     UINT64_C(2) * 8 * 64 * 112 * 112 * 3 * 49, 2 * (8 * 3 * 224 * 224 + 64 * 3 * 49),
     2 * 8 * 64 * 112 * 112, 0},
    {"aten::convolution", "f32[1, 8, 10], f32[16, 2, 3], f32[16], [1], [0], [2], False, [0], 4",
     2 * 16 * 6 * 2 * 3 + 16 * 6, 4 * (80 + 96), 4 * 96, 4 * 16},
    {"aten::miopen_convolution", "f32[1, 1, 4, 4], f32[1, 1, 3, 3], -, [1, 1], [1], [1], 1, -, -",
     2 * 16 * 9, 4 * (16 + 9), 64, 0},
    {"aten::convolution_backward",
     "f32[1, 16, 6], f32[1, 8, 10], f32[16, 2, 3], [16], [1], [0], [2], False, [0], 4, "
     "[True, True, True]",
     2 * (2 * 96 * 6) + 96, 4 * (96 + 96 + 80), 4 * (80 + 96 + 16), 0},
    {"aten::convolution_backward",
     "f32[1, 16, 6], f32[1, 8, 10], f32[16, 2, 3], -, [1], [0], [2], False, [0], 4, "
     "[False, True, False]",
     2 * 96 * 6, 4 * (96 + 80), 4 * 96, 0},

    /* 1 x 8 heads x 141 tokens of 64 */
    {"aten::_flash_attention_forward",
     "bf16[1, 141, 8, 64], bf16[1, 141, 8, 64], bf16[1, 141, 8, 64], -, -, 141, 141, 0., False, "
     "False, -, -, -, -, -",
     2 * 8 * 141 * 141 * 128, 3 * 2 * 141 * 512, 2 * 141 * 512, 0},
    {"aten::_scaled_dot_product_flash_attention",
     "bf16[1, 2, 4, 8], bf16[1, 1, 6, 8], bf16[1, 1, 6, 8], 0., True, False, -",
     2 * 2 * (3 + 4 + 5 + 6) * 16, 2 * (64 + 48 + 48), 2 * 64, 0},
    {"aten::_scaled_dot_product_efficient_attention",
     "f32[1, 1, 6, 8], f32[1, 1, 4, 8], f32[1, 1, 4, 16], -, False, 0., True, -",
     2 * (1 + 2 + 3 + 4) * 24, 4 * (48 + 32 + 64), 4 * 96, 0},
    {"aten::_flash_attention_backward",
     "f16[1, 4, 2, 8], f16[1, 4, 2, 8], f16[1, 4, 2, 8], f16[1, 4, 2, 8], f16[1, 4, 2, 8], "
     "f32[1, 2, 4], -, -, 4, 4, 0., True, -, -, -, -, -",
     2 * 2 * 10 * 5 * 8, 2 * 5 * 64 + 4 * 8, 2 * 3 * 64, 0},

    {"aten::add", "bf16[1, 141, 512], bf16[1, 141, 512], 1", 72192, 2 * 2 * 72192, 2 * 72192, 0},
    {"aten::add", "f32[16, 559, 1], f64[], 1", 8944, 4 * 8944, 4 * 8944, 8},
    {"aten::add_", "f32[8], f32[8], 0.1", 16, 64, 32, 0},
    {"aten::mul", "bf16[2, 8], f32[2, 1]", 16, 32, 64, 8},
    {"aten::mul", "f16[3], bf16[3]", 3, 12, 12, 0},
    {"aten::eq", "i64[1, 141], 1", 141, 8 * 141, 141, 0},
    {"aten::gelu", "bf16[1, 141, 2048], -", 5 * 288768, 2 * 288768, 2 * 288768, 0},
    {"aten::silu", "bf16[4]", 16, 8, 8, 0},
    {"aten::pow", "f32[16, 4], 2", 64, 256, 256, 0},
    {"aten::where", "bool[4, 4], f32[4, 4], f32[]", 16, 16 + 64, 64, 4},
    {"aten::native_dropout", "bf16[10], 0.1, True", 20, 20, 30, 0},
    {"aten::copy_", "f32[1, 559], i64[1, 559], False", 0, 8 * 559, 4 * 559, 0},
    {"aten::fill_", "f32[10], 0", 0, 0, 40, 0},
    {"aten::cat", "(f32[4], f32[8]), 0", 0, 48, 48, 0},

    {"aten::mean", "f32[16, 559, 1024], [-1], True, -", 9158656, 4 * 9158656, 4 * 8944, 0},
    {"aten::sum", "i32[8, 4], -", 32, 128, 8, 0},
    {"aten::sum", "f32[8, 4], [0, 1], False, -", 32, 128, 4, 0},
    {"aten::all", "bool[16, 559]", 8944, 8944, 1, 0},
    {"aten::max", "f32[8, 4], 1, False", 32, 128, 8 * (4 + 8), 0},
    {"aten::argmax", "f32[8, 4], -1, False", 32, 128, 64, 0},
    {"aten::_softmax", "f16[8, 4], -1, True", 160, 64, 128, 0},
    {"aten::native_layer_norm", "bf16[1, 141, 512], [512], bf16[512], bf16[512], 9e-13", 8 * 72192,
     2 * 72192, 2 * 72192 + 2 * 4 * 141, 2 * 2 * 512},
    {"aten::embedding", "bf16[30522, 512], i64[1, 141], 0, False, False", 0, 2 * 72192 + 8 * 141,
     2 * 72192, 0},
    {"aten::index_select", "bf16[30522, 512], 0, i64[141]", 0, 2 * 72192 + 8 * 141, 2 * 72192, 0},
    {"aten::gather", "f32[8, 4], 1, i64[8, 2]", 0, 16 * 12, 64, 0},
};

static void figures_worked_out_by_hand_come_out(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct orr_imported_cost cost;
        orr_imported_cost(known[i].name, known[i].inputs, &cost);
        if (!cost.known) {
            fail_msg("%s(%s): %s", known[i].name, known[i].inputs, cost.why);
        }
        if (cost.flops != known[i].flops || cost.bytes_read != known[i].read ||
            cost.bytes_written != known[i].written || cost.bytes_broadcast != known[i].broadcast) {
            fail_msg("%s(%s): %llu FLOP, %llu read, %llu written, %llu broadcast", known[i].name,
                     known[i].inputs, (unsigned long long)cost.flops,
                     (unsigned long long)cost.bytes_read, (unsigned long long)cost.bytes_written,
                     (unsigned long long)cost.bytes_broadcast);
        }
        assert_string_equal(cost.why, "");
        assert_string_not_equal(cost.kind, "");
    }
}

static void units_and_types_are_those_of_the_operands(void **state) {
    (void)state;
    struct orr_imported_cost cost;
    orr_imported_cost("aten::mm", "bf16[3, 5], bf16[5, 7]", &cost);
    assert_int_equal(cost.unit, ORR_UNIT_MATRIX);
    assert_int_equal(cost.dtype, ORR_DTYPE_BF16);
    orr_imported_cost("aten::mm", "i32[3, 5], i32[5, 7]", &cost);
    assert_int_equal(cost.unit, ORR_UNIT_VECTOR);
    orr_imported_cost("aten::exp", "f64[3]", &cost);
    assert_int_equal(cost.unit, ORR_UNIT_VECTOR);
    assert_int_equal(cost.dtype, ORR_DTYPE_F64);
}

/* Whatever is not decided by what is recorded. */
static const char *const unknown[][2] = {
    {"aten::mm", ""},
    {"aten::mm", "?[3, 5], ?[5, 7]"},
    {"aten::mm", "f32[3, 5], f32[6, 7]"},
    {"aten::mm", "f32[3, 5]"},
    {"aten::mm", "f32[3, 5, 5], f32[5, 7]"},
    {"aten::mm", "f32[99999999999, 99999999999], f32[99999999999, 7]"},
    {"aten::mm", "f32[3, 5"},
    {"aten::mm", "f32[3, 5],f32[5, 7]"},
    {"mm", "f32[3, 5], f32[5, 7]"},
    {"aten::unheard_of", "f32[3, 5]"},
    {"aten::", "f32[3, 5]"},
    {"aten::_", "f32[3, 5]"},
    {"vllm::rocm_unquantized_gemm", "f32[3, 5], f32[5, 7]"},
    {"aten::convolution", "f32[1, 8, 10], f32[16, 2, 3], f32[16], -, -, -, -, -, -"},
    {"aten::convolution", "f32[1, 8, 10], f32[16, 2, 3], -, [1], [0], [2], True, [0], 4"},
    {"aten::convolution", "f32[1, 8, 10], f32[16, 2, 3], -, [0], [0], [2], False, [0], 4"},
    {"aten::convolution", "f32[1, 8, 4], f32[16, 2, 3], -, [1], [0], [2], False, [0], 4"},
    {"aten::convolution_backward",
     "f32[1, 16, 6], f32[1, 8, 10], f32[16, 2, 3], [16], [1], [0], [2], False, [0], 4, -"},
    {"aten::_flash_attention_forward", /* sequences of different lengths */
     "f16[300, 8, 64], f16[300, 8, 64], f16[300, 8, 64], i32[4], i32[4], 141, 141, 0., False, "
     "False, -, -, -, -, -"},
    {"aten::_flash_attention_forward", /* a window */
     "f16[1, 9, 8, 64], f16[1, 9, 8, 64], f16[1, 9, 8, 64], -, -, 9, 9, 0., True, False, -, 4, 0, "
     "-, -"},
    {"aten::_flash_attention_forward",
     "f16[1, 9, 8, 64], f16[1, 9, 8, 64], f16[1, 9, 8, 64], -, -, -, -, -, -, -, -, -, -, -, -"},
    {"aten::exp", "i64[3]"},
    {"aten::div", "i64[3], i64[3]"},
    {"aten::mul", "i64[3], f64[]"},
    {"aten::mul", "i64[3], 1.5"},
    {"aten::mul", "f32[3], f32[4]"},
    {"aten::mean", "f32[16, 8], -, -, -"},
    {"aten::mean", "f32[16, 8], [2], True, -"},
    {"aten::sum", "f16[16, 8], [1], True, 6"},
    {"aten::max", "f32[8], f32[8]"},
    {"aten::_softmax", "f16[8, 4], -1, -"},
    {"aten::cat", "(?[4], ?[8]), 0"},
    {"aten::cat", "(f32[4], i32[8]), 0"},
    {"aten::index_select", "bf16[30522, 512], -, i64[141]"},
};

static void nothing_is_guessed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct orr_imported_cost cost;
        orr_imported_cost(unknown[i][0], unknown[i][1], &cost);
        if (cost.known) {
            fail_msg("%s(%s) has a cost", unknown[i][0], unknown[i][1]);
        }
        assert_string_not_equal(cost.why, "");
        assert_int_equal(cost.flops | cost.bytes_read | cost.bytes_written, 0);
    }
}

/* Lines changed at random: no crash (sanitizers watch), and either a cost or a reason. */
static void damaged_lines_never_crash(void **state) {
    (void)state;
    uint64_t random = 20240707;
    static const char letters[] = "[](), -f32b16i64?0.True9";
    for (unsigned round = 0; round < 40000; round++) {
        size_t which = random_below(&random, (uint64_t)(sizeof known / sizeof *known));
        char line[512], dims[256];
        snprintf(line, sizeof line, "%s", known[which].inputs);
        for (unsigned n = 0; n < 1 + round % 4; n++) {
            line[random_below(&random, strlen(line))] =
                letters[random_below(&random, sizeof letters - 1)];
        }
        struct orr_imported_cost cost;
        orr_imported_cost(known[which].name, line, &cost);
        assert_true(cost.known == (cost.why[0] == '\0'));
        snprintf(dims, sizeof dims, "[%.200s]", line);
        char buffer[ORR__INPUTS_MAX];
        (void)orr__operator_inputs(json(dims), json(line), json(dims), buffer);
        orr_imported_cost(known[which].name, buffer, &cost);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_joins_shapes_types_and_values),
        cmocka_unit_test(what_is_no_such_array_gives_no_line),
        cmocka_unit_test(the_first_tensor_gives_the_element_type),
        cmocka_unit_test(figures_worked_out_by_hand_come_out),
        cmocka_unit_test(units_and_types_are_those_of_the_operands),
        cmocka_unit_test(nothing_is_guessed),
        cmocka_unit_test(damaged_lines_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
