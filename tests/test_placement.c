/* Operators over shards: whatever placements an operator accepts for its operands, the numbers are
 * those of one device. Every operator of a few shapes, with every placement of every operand, over
 * two and over three devices, so that shards are even, uneven and empty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tensor.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { INPUTS_MAX = 6, SETTINGS_MAX = 3, VALUES_MAX = 4096, PLACEMENTS_MAX = ORR_RANK_MAX + 2 };

struct setting {
    const char *name; /* NULL ends */
    int64_t integer;
    double real;
    struct orr_shape shape;
};

struct example {
    const char *op;
    struct orr_operand_info inputs[INPUTS_MAX];
    struct setting settings[SETTINGS_MAX];
};

#define F32(rank_, ...)                                                                            \
    {                                                                                              \
        ORR_DTYPE_F32, {                                                                           \
            .rank = rank_, .dims = { __VA_ARGS__ }                                                 \
        }                                                                                          \
    }
#define I64(rank_, ...)                                                                            \
    {                                                                                              \
        ORR_DTYPE_I64, {                                                                           \
            .rank = rank_, .dims = { __VA_ARGS__ }                                                 \
        }                                                                                          \
    }
#define I8(rank_, ...)                                                                             \
    {                                                                                              \
        ORR_DTYPE_I8, {                                                                            \
            .rank = rank_, .dims = { __VA_ARGS__ }                                                 \
        }                                                                                          \
    }
#define INT(name_, integer_)                                                                       \
    { .name = name_, .integer = integer_ }
#define REAL(name_, real_)                                                                         \
    { .name = name_, .real = real_ }
#define LIST(name_, rank_, ...)                                                                    \
    {                                                                                              \
        .name = name_, .shape = {.rank = rank_, .dims = {__VA_ARGS__} }                            \
    }

static const struct example examples[] = {
    {"matmul", {F32(2, 4, 6), F32(2, 6, 5)}, {{0}}},
    {"matmul", {F32(2, 6, 4), F32(2, 6, 5)}, {INT("transpose_a", 1)}},
    {"matmul", {F32(2, 4, 6), F32(2, 5, 6)}, {INT("transpose_b", 1)}},
    {"matmul", {F32(3, 4, 2, 6), F32(3, 4, 6, 3)}, {{0}}},
    {"matmul", {F32(3, 4, 2, 6), F32(3, 1, 6, 3)}, {{0}}},
    {"matmul", {F32(3, 4, 2, 6), F32(2, 6, 3)}, {{0}}},
    {"matmul", {F32(4, 4, 2, 3, 5), F32(4, 4, 1, 5, 3)}, {{0}}},
    {"matmul", {F32(3, 1, 2, 6), F32(3, 4, 6, 3)}, {{0}}},
    {"linear", {F32(2, 4, 6), F32(2, 5, 6)}, {{0}}},
    {"linear", {F32(3, 2, 4, 6), F32(2, 4, 6), F32(1, 4)}, {{0}}},
    {"add", {F32(2, 4, 6), F32(2, 4, 6)}, {{0}}},
    {"add", {F32(2, 4, 6), F32(1, 6)}, {{0}}},
    {"sub", {F32(2, 4, 6), F32(2, 4, 1)}, {{0}}},
    {"sub", {F32(1, 6), F32(2, 4, 6)}, {{0}}},
    {"mul", {F32(2, 4, 6), F32(2, 1, 6)}, {{0}}},
    {"div", {F32(2, 5, 6), F32(2, 5, 6)}, {{0}}},
    {"maximum", {F32(2, 5, 6), F32(2, 5, 6)}, {{0}}},
    {"relu", {F32(2, 4, 5)}, {{0}}},
    {"neg", {F32(2, 4, 5)}, {{0}}},
    {"scale", {F32(2, 4, 5)}, {REAL("alpha", 2.5)}},
    {"gelu", {F32(2, 4, 5)}, {{0}}},
    {"dropout", {F32(3, 4, 5, 2)}, {INT("seed", 7)}},
    {"sigmoid", {F32(2, 4, 5)}, {{0}}},
    {"softmax", {F32(2, 4, 6)}, {{0}}},
    {"softmax", {F32(3, 2, 5, 6)}, {INT("causal", 1)}},
    {"layernorm", {F32(2, 4, 6), F32(1, 6), F32(1, 6)}, {{0}}},
    {"rmsnorm", {F32(3, 2, 4, 6), F32(1, 6)}, {{0}}},
    {"rope", {F32(4, 2, 2, 6, 4)}, {INT("offset", 3)}},
    {"sdpa", {F32(4, 2, 4, 4, 2), F32(4, 2, 2, 5, 2), F32(4, 2, 2, 5, 3)}, {{0}}},
    {"sdpa", {F32(4, 1, 12, 4, 2), F32(4, 1, 3, 4, 2), F32(4, 1, 3, 4, 2)}, {INT("causal", 1)}},
    {"sdpa", {F32(4, 3, 2, 4, 2), F32(4, 3, 2, 4, 2), F32(4, 3, 2, 4, 2)}, {INT("causal", 1)}},
    {"sum", {F32(3, 4, 6, 2)}, {{0}}},
    {"sum", {F32(3, 4, 6, 2)}, {INT("keepdim", 1)}},
    {"sum", {F32(3, 4, 6, 2)}, {INT("dim", 1)}},
    {"sum", {F32(3, 4, 6, 2)}, {INT("dim", -1), INT("keepdim", 1)}},
    {"sum", {F32(1, 5)}, {{0}}},
    {"sum", {F32(1, 5)}, {INT("dim", 0), INT("keepdim", 1)}},
    {"mean", {F32(2, 5, 4)}, {{0}}},
    {"mean", {F32(2, 5, 4)}, {INT("dim", 0)}},
    {"mean", {F32(2, 5, 4)}, {INT("keepdim", 1)}},
    {"max", {F32(2, 5, 4)}, {INT("dim", 1)}},
    {"max", {F32(2, 5, 4)}, {{0}}},
    {"argmax", {F32(2, 5, 4)}, {INT("dim", 0)}},
    {"embedding", {I64(1, 4), F32(2, 3, 6)}, {{0}}},
    {"embedding", {I64(2, 4, 3), F32(2, 3, 4)}, {{0}}},
    {"embedding", {I64(1, 4), F32(2, 8, 2)}, {{0}}},
    {"cross_entropy", {F32(2, 6, 3), I64(1, 6)}, {{0}}},
    {"cross_entropy", {F32(3, 4, 5, 3), I64(2, 4, 5)}, {{0}}},
    {"gather_last", {F32(2, 4, 5), I64(2, 4, 3)}, {{0}}},
    {"scatter_last", {F32(2, 4, 3), I64(2, 4, 3)}, {INT("size", 5)}},
    {"scatter_last", {F32(2, 4, 3), I64(2, 4, 3)}, {INT("size", 5), LIST("shards", 1, 1)}},
    {"topk", {F32(3, 2, 4, 5)}, {INT("k", 2)}},
    {"moe_dispatch",
     {F32(3, 6, 4, 2), I64(3, 6, 4, 2), F32(3, 6, 4, 2)},
     {INT("experts", 3), INT("capacity", 2), LIST("groups", 2, 6, 2)}},
    {"moe_dispatch",
     {F32(3, 4, 6, 5), I64(3, 4, 6, 1)},
     {INT("experts", 4), INT("capacity", 3), LIST("groups", 2, 2, 3)}},
    {"moe_combine", {F32(5, 3, 6, 2, 2, 4), I64(3, 6, 4, 2), F32(3, 6, 4, 2)}, {{0}}},
    {"moe_combine", {F32(5, 4, 2, 3, 2, 2), I64(3, 4, 6, 2)}, {{0}}},
    {"moe_dot", {F32(3, 6, 4, 4), F32(5, 3, 6, 2, 2, 4), I64(3, 6, 4, 2)}, {{0}}},
    {"sdpa_block",
     {F32(4, 2, 4, 6, 2), F32(4, 2, 2, 6, 2), F32(4, 2, 2, 6, 3)},
     {INT("causal", 1), INT("blocks", 6), INT("shift", 2)}},
    {"sdpa_block",
     {F32(4, 2, 2, 6, 2), F32(4, 2, 2, 12, 2), F32(4, 2, 2, 12, 3)},
     {INT("blocks", 2), INT("shift", 1)}},
    {"sdpa_merge",
     {F32(4, 2, 3, 4, 2), F32(3, 2, 3, 4), F32(4, 2, 3, 4, 2), F32(3, 2, 3, 4)},
     {{0}}},
    {"moe_load", {I64(2, 5, 4)}, {INT("experts", 3)}},
    {"dropout_mask", {F32(3, 4, 5, 2)}, {INT("seed", 7)}},
    {"cast", {F32(2, 4, 6)}, {INT("dtype", ORR_DTYPE_F64)}},
    {"transpose", {F32(3, 4, 6, 5)}, {{0}}},
    {"transpose", {F32(3, 4, 6, 5)}, {LIST("perm", 3, 2, 0, 1)}},
    {"transpose", {F32(3, 4, 6, 5)}, {LIST("perm", 3, -1, 0, -2)}},
    {"slice", {F32(2, 4, 6)}, {LIST("starts", 2, 0, 1), LIST("ends", 2, 4, 3)}},
    {"slice", {F32(2, 5, 6)}, {LIST("starts", 1, 2)}},
    {"slice", {F32(2, 5, 6)}, {LIST("ends", 2, INT64_MAX, -2)}},
    {"concat", {F32(2, 4, 6), F32(2, 2, 6)}, {{0}}},
    {"concat", {F32(2, 4, 6), F32(2, 4, 3)}, {INT("dim", -1)}},
    {"reshape", {F32(2, 4, 6)}, {LIST("shape", 3, 4, 2, 3)}},
    {"reshape", {F32(3, 4, 2, 3)}, {LIST("shape", 2, 8, -1)}},
    {"reshape", {F32(3, 4, 2, 3)}, {LIST("shape", 1, 24)}},
    {"conv2d", {F32(4, 4, 2, 5, 5), F32(4, 4, 2, 2, 2)}, {INT("padding", 1), INT("stride", 2)}},
    {"conv2d", {F32(4, 2, 3, 4, 4), F32(4, 3, 3, 2, 2), F32(1, 3)}, {{0}}},
    {"conv2d", {F32(4, 2, 12, 3, 3), F32(4, 12, 2, 2, 1), F32(1, 12)}, {INT("groups", 6)}},
    {"groupnorm", {F32(3, 4, 6, 2), F32(1, 6), F32(1, 6)}, {INT("groups", 6)}},
    {"groupnorm", {F32(4, 4, 6, 2, 2)}, {INT("groups", 2)}},
    {"conv2d_backward_input", {F32(4, 4, 4, 4, 4), F32(4, 4, 6, 2, 2)}, {LIST("size", 2, 5, 5)}},
    {"conv2d_backward_input",
     {F32(4, 1, 12, 2, 3), F32(4, 12, 2, 2, 1)},
     {INT("groups", 6), LIST("size", 2, 3, 3)}},
    {"conv2d_backward_weight", {F32(4, 4, 4, 4, 4), F32(4, 4, 6, 5, 5)}, {LIST("size", 2, 2, 2)}},
    {"conv2d_backward_weight",
     {F32(4, 1, 12, 2, 3), F32(4, 1, 12, 3, 3)},
     {INT("groups", 6), LIST("size", 2, 2, 1)}},
    {"groupnorm_backward", {F32(3, 4, 6, 2), F32(3, 4, 6, 2), F32(1, 6)}, {INT("groups", 6)}},
    {"groupnorm_backward_weight", {F32(3, 4, 6, 2), F32(3, 4, 6, 2)}, {INT("groups", 6)}},
    {"quantize", {F32(3, 4, 3, 6)}, {INT("dtype", ORR_DTYPE_F8E4M3)}},
    {"dequantize", {I8(2, 4, 6), F32(1, 4)}, {{0}}},
    {"linear_quantized", {F32(3, 2, 4, 6), I8(2, 4, 6), F32(1, 4)}, {{0}}},
    {"linear_quantized", {F32(2, 4, 6), I8(2, 4, 6), F32(1, 4), F32(1, 4)}, {{0}}},
    {"kv_append", {F32(4, 4, 2, 6, 2), F32(4, 4, 2, 2, 2), I64(1, 4)}, {{0}}},
    {"kv_append", {F32(4, 4, 3, 6, 2), F32(4, 2, 3, 2, 2), I64(1, 2), I64(1, 2)}, {{0}}},
    {"sdpa_decode", {F32(4, 4, 6, 1, 2), F32(4, 4, 3, 6, 2), F32(4, 4, 3, 6, 2), I64(1, 4)}, {{0}}},
    {"sdpa_decode",
     {F32(4, 2, 6, 1, 2), F32(4, 4, 3, 6, 2), F32(4, 4, 3, 6, 2), I64(1, 2), I64(1, 2)},
     {{0}}},
    {"rope_at", {F32(4, 4, 3, 2, 2), I64(1, 4)}, {{0}}},
    {"zeros", {{0}}, {LIST("shape", 2, 5, 4)}},
    {"full", {{0}}, {LIST("shape", 2, 5, 4), REAL("value", 3)}},
    {"arange", {{0}}, {INT("start", 3), INT("end", 17), INT("step", 2)}},
    {"arange",
     {{0}},
     {
         INT("start", 9),
         INT("end", -1),
         INT("step", -3),
     }},
    {"rand", {{0}}, {LIST("shape", 2, 5, 4), INT("seed", 3)}},
    {"randn", {{0}}, {LIST("shape", 2, 5, 4), INT("seed", 3)}},
    {"relu_backward", {F32(2, 4, 6), F32(2, 4, 6)}, {{0}}},
    {"softmax_backward", {F32(2, 4, 6), F32(2, 4, 6)}, {{0}}},
    {"layernorm_backward", {F32(2, 4, 6), F32(2, 4, 6), F32(1, 6)}, {{0}}},
    {"layernorm_backward_weight", {F32(3, 2, 4, 6), F32(3, 2, 4, 6)}, {{0}}},
    {"rmsnorm_backward_weight", {F32(2, 4, 6), F32(2, 4, 6)}, {{0}}},
    {"rope_backward", {F32(3, 2, 6, 4)}, {INT("offset", 3)}},
    {"sdpa_backward",
     {F32(4, 1, 12, 4, 2), F32(4, 1, 12, 4, 2), F32(4, 1, 3, 4, 2), F32(4, 1, 3, 4, 2),
      F32(4, 1, 12, 4, 2)},
     {{0}}},
    {"matmul_backward_weight", {F32(3, 2, 4, 6), F32(3, 2, 4, 5)}, {{0}}},
    {"matmul_backward_weight", {F32(4, 4, 2, 3, 6), F32(4, 4, 2, 3, 5)}, {INT("batch", 1)}},
    {"pad", {F32(2, 4, 6)}, {LIST("before", 2, 0, 1), LIST("after", 2, 0, 2)}},
    {"unbroadcast", {F32(3, 2, 4, 6)}, {LIST("dims", 2, 0, 1), INT("leading", 1)}},
    {"max_backward", {F32(1, 5), F32(2, 5, 4)}, {INT("dim", 1)}},
    {"embedding_backward", {F32(2, 4, 6), I64(1, 4)}, {INT("rows", 3)}},
    {"embedding_backward", {F32(2, 4, 6), I64(1, 4)}, {INT("rows", 8), LIST("shards", 1, 0)}},
    {"sgd_momentum", {F32(2, 4, 6), F32(2, 4, 6), F32(2, 4, 6)}, {REAL("lr", 0.1)}},
    {"count_nonfinite", {F32(2, 5, 4)}, {{0}}},
};

static int input_count(const struct example *example) {
    int count = 0;
    while (count < INPUTS_MAX && example->inputs[count].shape.rank > 0)
        count++;
    return count;
}

static struct orr_attributes attributes_of(const struct example *example,
                                           const struct orr_operator *op) {
    struct orr_attributes attributes;
    orr_operator_defaults(op, &attributes);
    for (int i = 0; i < SETTINGS_MAX && example->settings[i].name; i++) {
        const struct setting *setting = &example->settings[i];
        int at = orr_operator_attribute(op, setting->name);
        assert_true(at >= 0);
        attributes.values[at] = (struct orr_attribute){
            .integer = setting->integer, .real = setting->real, .shape = setting->shape};
    }
    return attributes;
}

/* Placement `index` of a tensor of some rank: R, S(0), S(1), ..., P. */
static struct orr_placement placement_of(int index, int rank) {
    if (index == 0)
        return (struct orr_placement){.kind = ORR_REPLICATE};
    if (index <= rank)
        return (struct orr_placement){.kind = ORR_SHARD, .dim = index - 1};
    return (struct orr_placement){.kind = ORR_PARTIAL};
}

static struct orr_tensor *from_values(struct fixture *f, const struct orr_operand_info *info,
                                      const struct orr_layout *layout, const double *values) {
    static double data[VALUES_MAX];
    struct orr_tensor *tensor;
    int64_t count = orr_shape_count(&info->shape);
    assert_true(count <= VALUES_MAX);
    for (int64_t i = 0; i < count; i++)
        orr_dtype_store(info->dtype, data, (size_t)i, values[i]);
    if (orr_tensor_from_host(f->runtime, info, layout, data, &tensor) != ORR_OK)
        fail_msg("%s", fixture_error(f));
    return tensor;
}

/* An operand of small numbers; indices are 0, 1 or 2. */
static struct orr_tensor *operand(struct fixture *f, const struct orr_operand_info *info,
                                  const struct orr_layout *layout, int number) {
    static double values[VALUES_MAX];
    int64_t count = orr_shape_count(&info->shape);
    assert_true(count <= VALUES_MAX);
    for (int64_t i = 0; i < count; i++)
        values[i] = info->dtype == ORR_DTYPE_I64 ? (double)((i * 5 + 1) % 3)
                                                 : (double)((i * 7 + 3 * number) % 11) - 3.5;
    return from_values(f, info, layout, values);
}

static void read_output(struct fixture *f, struct orr_tensor *tensor, double *values) {
    static double data[VALUES_MAX];
    const struct orr_operand_info *info = orr_tensor_info(tensor);
    int64_t count = orr_shape_count(&info->shape);
    struct orr_future *future;
    assert_true(count <= VALUES_MAX);
    assert_int_equal(orr_tensor_future(tensor, &future), ORR_OK);
    if (orr_future_get(future, data, (size_t)count * orr_dtype_size(info->dtype)) != ORR_OK)
        fail_msg("%s", fixture_error(f));
    for (int64_t i = 0; i < count; i++)
        values[i] = orr_dtype_load(info->dtype, data, (size_t)i);
    orr_future_destroy(&future);
}

/* "sdpa: S(1) S(1) S(1) over 2 devices" */
static void describe(const struct example *example, const int *chosen, int count, uint32_t devices,
                     char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s:", example->op);
    for (int i = 0; i < count; i++) {
        int rank = example->inputs[i].shape.rank;
        if (chosen[i] > 0 && chosen[i] <= rank)
            used += (size_t)snprintf(text + used, size - used, " S(%d)", chosen[i] - 1);
        else
            used += (size_t)snprintf(text + used, size - used, chosen[i] ? " P" : " R");
    }
    snprintf(text + used, size - used, " over %u devices", (unsigned)devices);
}

/* The tensor's values, replicated; takes the tensor over. */
static struct orr_tensor *replicated(struct fixture *f, struct orr_tensor *tensor) {
    static double values[VALUES_MAX];
    struct orr_layout whole = orr_layout_replicated(orr_mesh_default(f->runtime));
    read_output(f, tensor, values);
    struct orr_tensor *copy = from_values(f, orr_tensor_info(tensor), &whole, values);
    orr_tensor_destroy(&tensor);
    return copy;
}

/* Runs an example with operands placed as chosen or, not `placed`, with replicated ones of the same
 * values. Returns the status; the values of the outputs one after the other. */
static enum orr_status run(struct fixture *f, const struct example *example, const int *chosen,
                           bool placed, const struct orr_layout *source_layout, double *values) {
    const struct orr_operator *op = orr_operator_find(example->op);
    struct orr_attributes attributes = attributes_of(example, op);
    struct orr_layout layout = orr_layout_replicated(orr_mesh_default(f->runtime));
    struct orr_tensor *inputs[INPUTS_MAX], *outputs[ORR_OUTPUTS_MAX];
    int count = input_count(example);
    for (int i = 0; i < count; i++) {
        const struct orr_operand_info *info = &example->inputs[i];
        layout.axes[0] = placement_of(chosen[i], info->shape.rank);
        inputs[i] = operand(f, info, &layout, i);
        if (!placed)
            inputs[i] = replicated(f, inputs[i]);
    }
    enum orr_status status =
        orr_tensor_apply(f->runtime, op, inputs, count, &attributes,
                         op->class == ORR_OPERATOR_SOURCE ? source_layout : NULL, outputs);
    for (int i = 0; status == ORR_OK && i < op->outputs; i++) {
        read_output(f, outputs[i], values);
        values += orr_shape_count(&orr_tensor_info(outputs[i])->shape);
        orr_tensor_destroy(&outputs[i]);
    }
    for (int i = 0; i < count; i++)
        orr_tensor_destroy(&inputs[i]);
    return status;
}

static int64_t value_count(const struct example *example) {
    const struct orr_operator *op = orr_operator_find(example->op);
    struct orr_attributes attributes = attributes_of(example, op);
    struct orr_operand_info outputs[ORR_OUTPUTS_MAX];
    struct orr_error error = {0};
    if (op->infer(example->inputs, input_count(example), &attributes, outputs, &error) != ORR_OK)
        fail_msg("%s", error.text);
    int64_t count = 0;
    for (int i = 0; i < op->outputs; i++)
        count += orr_shape_count(&outputs[i].shape);
    return count;
}

/* One choice of placements. Returns true if the operator accepted it. */
static bool check_choice(struct fixture *f, const struct example *example, const int *chosen,
                         uint32_t devices) {
    static double wanted[VALUES_MAX], got[VALUES_MAX];
    int count = input_count(example);
    char text[128];
    describe(example, chosen, count, devices, text, sizeof text);
    enum orr_status status = run(f, example, chosen, true, NULL, got);
    if (status == ORR_INVALID || status == ORR_UNSUPPORTED)
        return false;
    if (status != ORR_OK || run(f, example, chosen, false, NULL, wanted) != ORR_OK)
        fail_msg("%s: %s", text, fixture_error(f));
    int64_t values = value_count(example);
    for (int64_t i = 0; i < values; i++)
        if (!near_f64(got[i], wanted[i], 1e-5))
            fail_msg("%s: value %lld is %g, not %g", text, (long long)i, got[i], wanted[i]);
    return true;
}

/* The next choice in the order of numbers, digit by digit; false after the last. */
static bool next_choice(const struct example *example, int count, int *chosen) {
    for (int i = 0; i < count; i++) {
        bool may_be_partial = orr_dtype_is_float(example->inputs[i].dtype);
        int most = example->inputs[i].shape.rank + (may_be_partial ? 1 : 0);
        if (chosen[i] < most) {
            chosen[i]++;
            return true;
        }
        chosen[i] = 0;
    }
    return false;
}

static void check_example(const struct example *example, uint32_t devices) {
    struct fixture f;
    int chosen[INPUTS_MAX] = {0}, accepted = 0;
    fixture_open(&f, orr_sim_open, devices);
    do
        accepted += check_choice(&f, example, chosen, devices);
    while (next_choice(example, input_count(example), chosen));
    assert_true(accepted >= 1);
    fixture_close(&f);
}

static void check_source(const struct example *example, uint32_t devices) {
    static double wanted[VALUES_MAX], got[VALUES_MAX];
    struct fixture f;
    fixture_open(&f, orr_sim_open, devices);
    struct orr_layout layout = orr_layout_replicated(orr_mesh_default(f.runtime));
    int64_t values = value_count(example);
    assert_int_equal(run(&f, example, NULL, false, &layout, wanted), ORR_OK);
    layout.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    if (run(&f, example, NULL, false, &layout, got) != ORR_OK)
        fail_msg("%s", fixture_error(&f));
    for (int64_t i = 0; i < values; i++)
        if (got[i] != wanted[i])
            fail_msg("%s over %u devices: value %lld is %g, not %g", example->op, (unsigned)devices,
                     (long long)i, got[i], wanted[i]);
    fixture_close(&f);
}

static void accepted_placements_never_change_a_number(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        for (uint32_t devices = 2; devices <= 3; devices++)
            if (input_count(&examples[i]) > 0)
                check_example(&examples[i], devices);
}

static void sources_make_the_shards_of_one_tensor(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        for (uint32_t devices = 2; devices <= 3; devices++)
            if (input_count(&examples[i]) == 0)
                check_source(&examples[i], devices);
}

static void placements_that_are_legal_are_accepted(void **state) {
    (void)state;
    static const struct {
        struct example example;
        int chosen[INPUTS_MAX];
    } legal[] = {
        {{"sum", {F32(2, 4, 6)}, {INT("keepdim", 1)}}, {1}},
        {{"mean", {F32(2, 4, 6)}, {INT("keepdim", 1)}}, {2}},
        {{"concat", {F32(2, 4, 6), F32(2, 4, 3)}, {INT("dim", -1)}}, {1, 1}},
        {{"concat", {F32(2, 4, 6), F32(2, 4, 3)}, {INT("dim", -1)}}, {3, 3}},
        {{"slice", {F32(2, 4, 6)}, {LIST("starts", 2, 1, 2), LIST("ends", 2, 3, 5)}}, {3}},
        {{"pad", {F32(2, 4, 6)}, {LIST("before", 2, 1, 2)}}, {3}},
        {{"sdpa", {F32(4, 1, 4, 4, 2), F32(4, 1, 2, 4, 2), F32(4, 1, 2, 4, 2)}, {{0}}}, {2, 2, 2}},
        {{"rope", {F32(3, 2, 6, 4)}, {{0}}}, {2}},
        {{"embedding", {I64(1, 4), F32(2, 3, 6)}, {{0}}}, {0, 1}},
        {{"max", {F32(2, 4, 6)}, {{0}}}, {2}},
        {{"max", {F32(2, 1, 6)}, {INT("dim", 0)}}, {1}}, /* the second piece is empty */
        {{"max", {I64(2, 1, 6)}, {INT("dim", 0)}}, {1}},
        {{"max", {F32(2, 4, 1)}, {INT("dim", 1)}}, {2}},
        {{"mean", {F32(2, 1, 6)}, {INT("dim", 0)}}, {1}},
        {{"max", {F32(2, 4, 6)}, {INT("dim", 1)}}, {2}},
        {{"softmax", {F32(3, 2, 4, 6)}, {INT("causal", 1)}}, {2}},
        {{"gather_last", {F32(2, 4, 6), I64(2, 4, 3)}, {{0}}}, {2, 0}},
        {{"gather_last", {F32(2, 4, 6), I64(2, 4, 3)}, {{0}}}, {1, 1}},
        {{"gather_last", {F32(2, 4, 6), I64(2, 4, 3)}, {{0}}}, {3, 0}},
        {{"scatter_last", {F32(2, 4, 3), I64(2, 4, 3)}, {INT("size", 5)}}, {1, 1}},
        {{"moe_dispatch",
          {F32(3, 4, 2, 3), I64(3, 4, 2, 2)},
          {INT("experts", 3), INT("capacity", 2), LIST("groups", 2, 2, 1)}},
         {1, 1}},
        {{"moe_combine", {F32(5, 3, 2, 2, 2, 4), I64(3, 4, 2, 2), F32(3, 4, 2, 2)}, {{0}}},
         {3, 2, 2}},
        {{"moe_dot", {F32(3, 4, 2, 4), F32(5, 3, 2, 2, 2, 4), I64(3, 4, 2, 2)}, {{0}}}, {3, 5, 0}},
        {{"sdpa_block",
          {F32(4, 2, 4, 4, 2), F32(4, 2, 2, 4, 2), F32(4, 2, 2, 4, 3)},
          {INT("causal", 1), INT("blocks", 4), INT("shift", 1)}},
         {3, 3, 3}},
        {{"sdpa_block_backward",
          {F32(4, 2, 4, 4, 3), F32(4, 2, 4, 4, 2), F32(4, 2, 2, 4, 2), F32(4, 2, 2, 4, 3),
           F32(4, 2, 4, 4, 3), F32(3, 2, 4, 4)},
          {INT("causal", 1), INT("blocks", 2), INT("shift", 1)}},
         {3, 3, 3, 3, 3, 3}},
        {{"sdpa_block_backward",
          {F32(4, 2, 4, 4, 3), F32(4, 2, 4, 4, 2), F32(4, 2, 2, 4, 2), F32(4, 2, 2, 4, 3),
           F32(4, 2, 4, 4, 3), F32(3, 2, 4, 4)},
          {INT("blocks", 2)}},
         {2, 2, 2, 2, 2, 2}},
        {{"sdpa_merge",
          {F32(4, 2, 3, 4, 2), F32(3, 2, 3, 4), F32(4, 2, 3, 4, 2), F32(3, 2, 3, 4)},
          {{0}}},
         {3, 3, 3, 3}},
        {{"topk", {F32(2, 4, 6)}, {INT("k", 2)}}, {1}},
        {{"dropout_mask", {F32(2, 4, 6)}, {INT("seed", 7)}}, {2}},
        {{"matmul", {F32(4, 2, 4, 3, 6), F32(4, 2, 1, 6, 5)}, {{0}}}, {1, 1}},
        {{"matmul", {F32(4, 2, 4, 3, 6), F32(4, 2, 1, 6, 5)}, {{0}}}, {2, 0}},
        {{"matmul", {F32(3, 1, 3, 6), F32(3, 2, 6, 5)}, {{0}}}, {0, 1}},
        {{"linear", {F32(2, 4, 6), F32(2, 4, 6), F32(1, 4)}, {{0}}}, {0, 1, 1}},
        {{"conv2d", {F32(4, 2, 2, 3, 3), F32(4, 2, 2, 1, 1), F32(1, 2)}, {{0}}}, {1, 0, 0}},
        {{"conv2d", {F32(4, 2, 2, 3, 3), F32(4, 2, 2, 1, 1), F32(1, 2)}, {{0}}}, {0, 1, 1}},
        {{"conv2d", {F32(4, 2, 2, 3, 3), F32(4, 2, 2, 1, 1)}, {{0}}}, {2, 2}},
        {{"quantize", {F32(2, 4, 6)}, {{0}}}, {1}},
        {{"kv_append", {F32(4, 4, 2, 6, 2), F32(4, 4, 2, 2, 2), I64(1, 4)}, {{0}}}, {1, 1, 1}},
        {{"kv_append", {F32(4, 4, 2, 6, 2), F32(4, 4, 2, 2, 2), I64(1, 4)}, {{0}}}, {2, 2, 0}},
        {{"sdpa_decode",
          {F32(4, 2, 4, 1, 2), F32(4, 4, 2, 6, 2), F32(4, 4, 2, 6, 2), I64(1, 2), I64(1, 2)},
          {{0}}},
         {2, 2, 2, 0, 0}},
        {{"rope_at", {F32(4, 4, 2, 2, 2), I64(1, 4)}, {{0}}}, {2, 0}},
        {{"dequantize", {I8(2, 4, 6), F32(1, 4)}, {{0}}}, {1, 1}},
        {{"dequantize", {I8(2, 4, 6), F32(1, 4)}, {{0}}}, {2, 0}},
        {{"linear_quantized", {F32(2, 4, 6), I8(2, 4, 6), F32(1, 4)}, {{0}}}, {2, 2, 0}},
        {{"linear_quantized", {F32(2, 4, 6), I8(2, 4, 6), F32(1, 4)}, {{0}}}, {3, 0, 0}},
        {{"linear_quantized", {F32(2, 4, 6), I8(2, 4, 6), F32(1, 4), F32(1, 4)}, {{0}}},
         {0, 1, 1, 1}},
        {{"linear_quantized", {F32(2, 4, 6), I8(2, 4, 6), F32(1, 4), F32(1, 4)}, {{0}}},
         {1, 0, 0, 0}},
        {{"conv2d", {F32(4, 1, 4, 3, 3), F32(4, 2, 2, 1, 1)}, {INT("groups", 2)}}, {2, 1}},
        {{"groupnorm", {F32(3, 2, 4, 3), F32(1, 4), F32(1, 4)}, {INT("groups", 2)}}, {2, 1, 1}},
        {{"groupnorm_backward_weight", {F32(3, 2, 4, 3), F32(3, 2, 4, 3)}, {INT("groups", 2)}},
         {2, 2}},
        {{"conv2d_backward_input",
          {F32(4, 2, 2, 3, 3), F32(4, 2, 2, 1, 1)},
          {LIST("size", 2, 3, 3)}},
         {2, 1}},
        {{"conv2d_backward_weight",
          {F32(4, 2, 2, 3, 3), F32(4, 2, 2, 3, 3)},
          {LIST("size", 2, 1, 1)}},
         {1, 1}},
    };
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        struct fixture f;
        fixture_open(&f, orr_sim_open, 2);
        if (!check_choice(&f, &legal[i].example, legal[i].chosen, 2))
            fail_msg("%s", fixture_error(&f));
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_placements_never_change_a_number),
        cmocka_unit_test(sources_make_the_shards_of_one_tensor),
        cmocka_unit_test(placements_that_are_legal_are_accepted),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
