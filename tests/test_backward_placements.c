/* Placements of the rows that training uses, one axis at a time: what is accepted, what the
 * result's is, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/placement.h"
#include "sim/sim.h"
#include "tests/support.h"

#define F32 ORR_DTYPE_F32
#define I64 ORR_DTYPE_I64
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

enum { INPUTS = 5 };

/* An attribute of an example; `name` NULL ends. */
struct setting {
    const char *name;
    int64_t integer;
    double real;
    struct orr_shape shape;
};

struct example {
    const char *op;
    struct orr_operand_info inputs[INPUTS];
    int input_count;
    struct setting settings[4];
};

static const struct orr_operator *settle(const struct example *example,
                                         struct orr_attributes *attributes) {
    const struct orr_operator *op = orr_operator_find(example->op);
    if (!op) {
        fail_msg("no operator '%s'", example->op);
    }
    orr_operator_defaults(op, attributes);
    for (int i = 0; i < 4 && example->settings[i].name; i++) {
        const struct setting *setting = &example->settings[i];
        int index = orr_operator_attribute(op, setting->name);
        assert_true(index >= 0);
        attributes->values[index] =
            (struct orr_attribute){setting->integer, setting->real, setting->shape};
    }
    return op;
}

#define X46                                                                                        \
    { F32, SHAPE(4, 6) }

/* One axis of two devices; `wanted` NULL: refused. */
static const struct {
    struct example example;
    const char *given[INPUTS];
    const char *wanted;
} placements[] = {
    {{"relu_backward", {X46, X46}, 2, {{0}}}, {"S(1)", "S(1)"}, "S(1)"},
    {{"gelu_backward", {X46, X46}, 2, {{0}}}, {"P", "R"}, "P(sum)"},
    {{"gelu_backward", {X46, X46}, 2, {{0}}}, {"R", "P"}, NULL},
    {{"softmax_backward", {X46, X46}, 2, {{0}}}, {"S(0)", "S(0)"}, "S(0)"},
    {{"softmax_backward", {X46, X46}, 2, {{0}}}, {"S(1)", "S(1)"}, NULL},
    {{"softmax_backward", {X46, X46}, 2, {{0}}}, {"S(0)", "R"}, NULL},
    {{"rmsnorm_backward", {X46, X46, {F32, SHAPE(6)}}, 3, {{0}}}, {"S(0)", "S(0)", "R"}, "S(0)"},
    {{"rmsnorm_backward", {X46, X46, {F32, SHAPE(6)}}, 3, {{0}}}, {"P", "R", "R"}, NULL},
    {{"rmsnorm_backward_weight", {X46, X46}, 2, {{0}}}, {"S(0)", "S(0)"}, "P(sum)"},
    {{"layernorm_backward_weight", {X46, X46}, 2, {{0}}}, {"R", "R"}, "R"},
    {{"rope_backward", {X46}, 1, {{0}}}, {"S(0)"}, "S(0)"},
    {{"rope_backward", {X46}, 1, {{0}}}, {"S(1)"}, NULL},
    {{"sdpa_backward",
      {{F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)}},
      5,
      {{0}}},
     {"S(1)", "S(1)", "S(1)", "S(1)", "S(1)"},
     "S(1)"},
    {{"sdpa_backward",
      {{F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)},
       {F32, SHAPE(2, 2, 3, 4)}},
      5,
      {{0}}},
     {"S(1)", "S(1)", "S(1)", "S(1)", "R"},
     NULL},
    {{"matmul_backward_weight", {X46, X46}, 2, {{0}}}, {"S(0)", "S(0)"}, "P(sum)"},
    {{"matmul_backward_weight", {X46, X46}, 2, {{0}}}, {"S(1)", "R"}, "S(0)"},
    {{"matmul_backward_weight", {X46, X46}, 2, {{0}}}, {"R", "S(1)"}, "S(1)"},
    {{"matmul_backward_weight", {X46, X46}, 2, {{0}}}, {"P", "R"}, "P(sum)"},
    {{"matmul_backward_weight", {X46, X46}, 2, {{0}}}, {"S(0)", "R"}, NULL},
    {{"matmul_backward_weight", {X46, X46}, 2, {{0}}}, {"S(1)", "S(1)"}, NULL},
    {{"unbroadcast", {X46}, 1, {{"dims", 0, 0, SHAPE(0)}, {"leading", 1, 0, {0}}}},
     {"S(0)"},
     "P(sum)"},
    {{"unbroadcast", {X46}, 1, {{"dims", 0, 0, SHAPE(0)}, {"leading", 1, 0, {0}}}},
     {"S(1)"},
     "S(0)"},
    {{"unbroadcast", {X46}, 1, {{"dims", 0, 0, SHAPE(0)}}}, {"S(1)"}, "S(1)"},
    {{"unbroadcast", {X46}, 1, {{"dims", 0, 0, SHAPE(0)}}}, {"P"}, "P(sum)"},
    {{"expand", {{F32, SHAPE(6)}}, 1, {{"shape", 0, 0, SHAPE(4, 6)}, {"dims", 0, 0, SHAPE(0)}}},
     {"S(0)"},
     "S(1)"},
    {{"expand",
      {{F32, SHAPE(6)}},
      1,
      {{"shape", 0, 0, SHAPE(4, 6)}, {"dims", 0, 0, SHAPE(0)}, {"shards", 0, 0, SHAPE(0)}}},
     {"R"},
     "S(0)"},
    {{"expand",
      {{F32, SHAPE(6)}},
      1,
      {{"shape", 0, 0, SHAPE(4, 6)}, {"dims", 0, 0, SHAPE(0)}, {"shards", 0, 0, SHAPE(1)}}},
     {"R"},
     NULL},
    {{"max_backward", {{F32, SHAPE(4)}, X46}, 2, {{"dim", 1, 0, {0}}}}, {"S(0)", "S(0)"}, "S(0)"},
    {{"max_backward", {{F32, SHAPE(6)}, X46}, 2, {{"dim", 0, 0, {0}}}}, {"S(0)", "S(1)"}, "S(1)"},
    {{"max_backward", {{F32, SHAPE(4)}, X46}, 2, {{"dim", 1, 0, {0}}}}, {"R", "S(1)"}, NULL},
    {{"embedding_backward", {X46, {I64, SHAPE(4)}}, 2, {{"rows", 9, 0, {0}}}},
     {"S(0)", "S(0)"},
     "P(sum)"},
    {{"embedding_backward", {X46, {I64, SHAPE(4)}}, 2, {{"rows", 9, 0, {0}}}},
     {"S(1)", "R"},
     "S(1)"},
    {{"embedding_backward",
      {X46, {I64, SHAPE(4)}},
      2,
      {{"rows", 9, 0, {0}}, {"shards", 0, 0, SHAPE(0)}}},
     {"R", "R"},
     "S(0)"},
    {{"embedding_backward",
      {X46, {I64, SHAPE(4)}},
      2,
      {{"rows", 9, 0, {0}}, {"shards", 0, 0, SHAPE(0)}}},
     {"S(0)", "S(0)"},
     NULL},
    {{"embedding_backward",
      {X46, {I64, SHAPE(4)}},
      2,
      {{"rows", 9, 0, {0}}, {"shards", 0, 0, SHAPE(1)}}},
     {"R", "R"},
     NULL},
    {{"embedding", {{I64, SHAPE(4)}, X46}, 2, {{0}}}, {"R", "S(0)"}, "P(sum)"},
    {{"embedding", {{I64, SHAPE(4)}, X46}, 2, {{0}}}, {"S(0)", "S(0)"}, NULL},
    {{"max", {X46}, 1, {{"dim", 1, 0, {0}}}}, {"S(1)"}, "P(max)"},
    {{"max", {X46}, 1, {{"dim", 1, 0, {0}}}}, {"P(max)"}, "P(max)"},
    {{"max", {X46}, 1, {{"dim", 1, 0, {0}}}}, {"P"}, NULL},
    {{"sum", {X46}, 1, {{"dim", 1, 0, {0}}}}, {"P(max)"}, NULL},
    {{"argmax", {X46}, 1, {{"dim", 1, 0, {0}}}}, {"S(1)"}, NULL},
    {{"cross_entropy_backward", {{F32, SCALAR}, X46, {I64, SHAPE(4)}}, 3, {{"total", 4, 0, {0}}}},
     {"R", "S(0)", "S(0)"},
     "S(0)"},
    {{"cross_entropy_backward", {{F32, SCALAR}, X46, {I64, SHAPE(4)}}, 3, {{"total", 4, 0, {0}}}},
     {"P", "S(0)", "S(0)"},
     NULL},
    {{"cross_entropy_backward",
      {{F32, SCALAR}, X46, {I64, SHAPE(4)}, {F32, SHAPE(4)}},
      4,
      {{"total", 4, 0, {0}}}},
     {"R", "S(1)", "R", "R"},
     "S(1)"},
    {{"cross_entropy_backward",
      {{F32, SCALAR}, X46, {I64, SHAPE(4)}, {F32, SHAPE(4)}},
      4,
      {{"total", 4, 0, {0}}}},
     {"R", "S(0)", "S(0)", "S(0)"},
     "S(0)"},
    {{"cross_entropy_backward", {{F32, SCALAR}, X46, {I64, SHAPE(4)}}, 3, {{"total", 4, 0, {0}}}},
     {"R", "S(1)", "R"},
     NULL},
    {{"pad", {X46}, 1, {{"before", 0, 0, SHAPE(1)}}}, {"S(1)"}, "S(1)"},
    {{"pad", {X46}, 1, {{"before", 0, 0, SHAPE(1)}}}, {"S(0)"}, NULL},
    {{"pad", {X46}, 1, {{"before", 0, 0, SHAPE(1)}}}, {"P"}, "P(sum)"},
    {{"matmul", {X46, {F32, SHAPE(3, 6, 2)}}, 2, {{0}}}, {"R", "S(0)"}, "S(0)"},
    {{"matmul", {{F32, SHAPE(3, 4, 6)}, {F32, SHAPE(1, 6, 2)}}, 2, {{0}}}, {"S(0)", "R"}, "S(0)"},
    {{"matmul", {{F32, SHAPE(3, 4, 6)}, {F32, SHAPE(3, 6, 2)}}, 2, {{0}}}, {"S(0)", "R"}, NULL},
    {{"adamw", {X46, X46, X46, X46}, 4, {{0}}}, {"S(0)", "S(0)", "S(0)", "S(0)"}, "S(0)"},
    {{"adamw", {X46, X46, X46, X46}, 4, {{0}}}, {"R", "P", "R", "R"}, NULL},
    {{"sgd", {X46, X46}, 2, {{0}}}, {"S(0)", "R"}, NULL},
    {{"count_nonfinite", {X46}, 1, {{0}}}, {"S(1)"}, "P(sum)"},
    {{"count_nonfinite", {X46}, 1, {{0}}}, {"P"}, NULL},
    {{"mean", {X46}, 1, {{0}}}, {"S(1)"}, "P(sum)"},
    {{"cross_entropy", {X46, {I64, SHAPE(4)}}, 2, {{0}}}, {"S(0)", "S(0)"}, "P(sum)"},
    {{"cross_entropy", {X46, {I64, SHAPE(4)}}, 2, {{0}}}, {"S(1)", "R"}, NULL},
    {{"reshape", {X46}, 1, {{"shape", 0, 0, SHAPE(2, 2, 6)}}}, {"S(0)"}, "S(0)"},
    {{"reshape", {X46}, 1, {{"shape", 0, 0, SHAPE(4, 2, 3)}}}, {"S(1)"}, "S(1)"},
    {{"reshape", {X46}, 1, {{"shape", 0, 0, SHAPE(4, 3, 2)}}}, {"S(1)"}, NULL},
    {{"reshape", {X46}, 1, {{"shape", 0, 0, SHAPE(1, 4, 6)}}}, {"S(0)"}, "S(1)"},
    {{"reshape", {X46}, 1, {{"shape", 0, 0, SHAPE(24)}}}, {"S(0)"}, "S(0)"},
    {{"reshape", {{F32, SHAPE(1, 5, 2)}}, 1, {{"shape", 0, 0, SHAPE(5, 2)}}}, {"S(1)"}, "S(0)"},
    {{"reshape", {{F32, SHAPE(5, 2)}}, 1, {{"shape", 0, 0, SHAPE(10)}}}, {"S(0)"}, NULL},
    {{"reshape", {{F32, SHAPE(1, 0, 2)}}, 1, {{"shape", 0, 0, SHAPE(0, 2)}}}, {"S(2)"}, "S(1)"},
    {{"reshape", {{F32, SHAPE(2, 5)}}, 1, {{"shape", 0, 0, SHAPE(2, 1, 5)}}}, {"S(1)"}, "S(2)"},
    {{"reshape", {X46}, 1, {{"shape", 0, 0, SHAPE(24)}}}, {"S(1)"}, NULL},
};

static void placements_follow_their_rules(void **state) {
    (void)state;
    struct fixture f;
    struct orr_mesh *mesh;
    fixture_open(&f, orr_sim_open, 2);
    mesh = orr_mesh_default(f.runtime);
    for (size_t i = 0; i < sizeof placements / sizeof placements[0]; i++) {
        const struct example *example = &placements[i].example;
        struct orr_layout layouts[INPUTS], got;
        const struct orr_layout *pointers[INPUTS];
        struct orr_attributes attributes;
        struct orr_operand_info results[ORR_OUTPUTS_MAX];
        struct orr_error error = {0};
        const struct orr_operator *op = settle(example, &attributes);
        for (int k = 0; k < example->input_count; k++) {
            layouts[k] = orr_layout_replicated(mesh);
            pointers[k] = &layouts[k];
            assert_int_equal(
                orr_placement_parse(placements[i].given[k], &layouts[k].axes[0], &error), ORR_OK);
        }
        if (strcmp(op->name, "adamw") == 0 || strcmp(op->name, "sgd") == 0) {
            attributes.values[0].real = 1;
        }
        if (op->infer(example->inputs, example->input_count, &attributes, results, &error) !=
            ORR_OK) {
            fail_msg("%s", error.text);
        }
        enum orr_status status =
            orr_placement_infer(op, example->inputs, pointers, example->input_count, &attributes,
                                results, &got, &error);
        char text[ORR_PLACEMENT_TEXT_MAX] = "refused";
        if (status == ORR_OK) {
            orr_layout_text(&got, text);
        }
        if (strcmp(text, placements[i].wanted ? placements[i].wanted : "refused") != 0) {
            fail_msg("row %d, %s: %s", (int)i, op->name, text);
        }
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_follow_their_rules),
    };
    return cmocka_run_group_tests_name("backward placements", tests, NULL, NULL);
}
