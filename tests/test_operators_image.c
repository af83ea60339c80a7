/* Convolutions and group norms against direct sums in f64, in every float dtype, with strides,
 * padding and groups; mistakes; placements that would need borders. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "runtime/tensor.h"
#include "sim/sim.h"
#include "tests/operator_fixture.h"
#include "tests/support.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};

static struct orr_tensor_view draw(enum orr_dtype dtype, struct orr_shape shape,
                                   struct random *random) {
    return tensor_random(dtype, shape, random, -1, 1);
}

static double pixel(const struct orr_tensor_view *x, int64_t image, int64_t channel, int64_t row,
                    int64_t column) {
    const int64_t *dims = x->shape.dims;
    bool inside = row >= 0 && row < dims[2] && column >= 0 && column < dims[3];
    return inside ? tensor_at(x, ((image * dims[1] + channel) * dims[2] + row) * dims[3] + column)
                  : 0;
}

/* One element of the result, by the definition. */
static double direct(const struct call *call, int64_t stride, int64_t padding, int64_t groups,
                     int64_t index) {
    const int64_t *out = call->output.shape.dims, *filter = call->inputs[1].shape.dims;
    int64_t ox = index % out[3], oy = index / out[3] % out[2];
    int64_t o = index / (out[3] * out[2]) % out[1], n = index / (out[3] * out[2] * out[1]);
    int64_t first = o / (out[1] / groups) * filter[1];
    double sum = call->input_count == 3 ? tensor_at(&call->inputs[2], o) : 0;
    for (int64_t c = 0; c < filter[1]; c++)
        for (int64_t i = 0; i < filter[2]; i++)
            for (int64_t j = 0; j < filter[3]; j++)
                sum += pixel(&call->inputs[1], o, c, i, j) * pixel(&call->inputs[0], n, first + c,
                                                                   oy * stride + i - padding,
                                                                   ox * stride + j - padding);
    return sum;
}

static void check_conv(enum orr_dtype dtype, struct random *random) {
    int64_t groups = random_int(random, 1, 3), stride = random_int(random, 1, 3);
    int64_t padding = random_int(random, 0, 2), kh = random_int(random, 1, 3);
    int64_t kw = random_int(random, 1, 3), channels = random_int(random, 1, 3);
    int64_t filters = random_int(random, 1, 3) * groups;
    struct call call = call_open("conv2d");
    call_int(&call, "stride", stride);
    call_int(&call, "padding", padding);
    call_int(&call, "groups", groups);
    call_input(&call, draw(dtype,
                           shape4(random_int(random, 1, 2), channels * groups,
                                  random_int(random, 3, 8), random_int(random, 3, 8)),
                           random));
    call_input(&call, draw(dtype, shape4(filters, channels, kh, kw), random));
    if (random_int(random, 0, 1))
        call_input(&call, draw(dtype, shape1(filters), random));
    call_run(&call);
    double own = dtype_epsilon(dtype), arithmetic = dtype == ORR_DTYPE_F64 ? 0x1p-50 : 0x1p-20;
    for (int64_t i = 0; i < tensor_count(&call.output); i++)
        assert_near("conv2d", i, tensor_at(&call.output, i),
                    direct(&call, stride, padding, groups, i), arithmetic + 0x1p-24 * (own > 1e-4),
                    0.51 * own + arithmetic);
    call_close(&call);
}

static void conv2d_is_the_sum_over_each_window(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 60; trial++)
        for (size_t d = 0; d < 4; d++)
            check_conv(floats[d], &random);
}

/* More positions than are worked on at a time: 2^20 / filter elements, at least 64. */
static void a_large_image_is_convolved_in_parts(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct call call = call_open("conv2d");
    call_input(&call, draw(ORR_DTYPE_F32, shape4(1, 2000, 24, 24), &random));
    call_input(&call, draw(ORR_DTYPE_F32, shape4(2, 2000, 5, 5), &random));
    call_run(&call);
    for (int64_t i = 0; i < tensor_count(&call.output); i += 7)
        assert_near("conv2d", i, tensor_at(&call.output, i), direct(&call, 1, 0, 1, i), 1e-2, 1e-4);
    call_close(&call);
}

static void a_convolution_of_patches_is_a_linear_layer(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct call conv = call_open("conv2d");
    call_int(&conv, "stride", 2);
    call_input(&conv, draw(ORR_DTYPE_F64, shape4(1, 3, 4, 6), &random));
    call_input(&conv, draw(ORR_DTYPE_F64, shape4(5, 3, 2, 2), &random));
    call_run(&conv);
    struct call linear = call_open("linear");
    call_input(&linear, tensor_make(ORR_DTYPE_F64, shape2(6, 12)));
    call_input(&linear, tensor_make(ORR_DTYPE_F64, shape2(5, 12)));
    memcpy(linear.inputs[1].data, conv.inputs[1].data, 60 * sizeof(double));
    double *patches = linear.inputs[0].data;
    for (int64_t i = 0; i < 72; i++) {
        int64_t patch = i / 12, k = i % 12;
        patches[i] =
            pixel(&conv.inputs[0], 0, k / 4, patch / 3 * 2 + k / 2 % 2, patch % 3 * 2 + k % 2);
    }
    call_run(&linear);
    for (int64_t i = 0; i < 30; i++)
        assert_near("patches", i, tensor_at(&conv.output, i),
                    tensor_at(&linear.output, i % 6 * 5 + i / 6), 1e-12, 1e-12);
    call_close(&conv);
    call_close(&linear);
}

static void check_groupnorm(enum orr_dtype dtype, struct random *random) {
    int64_t groups = random_int(random, 1, 3), channels = random_int(random, 1, 3);
    struct orr_shape shape = shape_random(random, (int)random_int(random, 2, 4), 5);
    shape.dims[1] = groups * channels;
    struct call call = call_open("groupnorm");
    call_int(&call, "groups", groups);
    call_real(&call, "eps", 0.01);
    call_input(&call, draw(dtype, shape, random));
    for (int64_t i = random_int(random, 0, 2); i > 0; i--)
        call_input(&call, draw(dtype, shape1(groups * channels), random));
    call_run(&call);
    int64_t places = tensor_count(&call.output) / (shape.dims[0] * shape.dims[1]);
    int64_t width = places * channels;
    double own = dtype_epsilon(dtype), arithmetic = dtype == ORR_DTYPE_F64 ? 0x1p-48 : 0x1p-19;
    for (int64_t i = 0; i < tensor_count(&call.output); i++) {
        int64_t first = i / width * width, channel = i / places % shape.dims[1];
        double mean = 0, variance = 0;
        for (int64_t k = 0; k < width; k++)
            mean += tensor_at(&call.inputs[0], first + k) / (double)width;
        for (int64_t k = 0; k < width; k++)
            variance += pow(tensor_at(&call.inputs[0], first + k) - mean, 2) / (double)width;
        double want = (tensor_at(&call.inputs[0], i) - mean) / sqrt(variance + 0.01);
        want *= call.input_count > 1 ? tensor_at(&call.inputs[1], channel) : 1;
        want += call.input_count > 2 ? tensor_at(&call.inputs[2], channel) : 0;
        assert_near("groupnorm", i, tensor_at(&call.output, i), want,
                    arithmetic + 0x1p-24 * (own > 1e-4), 0.51 * own + arithmetic);
    }
    call_close(&call);
}

static void groupnorm_has_the_moments_of_each_group(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 60; trial++)
        for (size_t d = 0; d < 4; d++)
            check_groupnorm(floats[d], &random);
}

struct mistake {
    const char *op;
    struct orr_shape shapes[3];
    const char *attribute;
    int64_t value;
    const char *text;
};

static void mistakes_are_named(void **state) {
    (void)state;
    const struct mistake mistakes[] = {
        {"conv2d", {shape3(1, 2, 3), shape4(1, 2, 1, 1)}, NULL, 0, "expected x [n, c, h, w]"},
        {"conv2d",
         {shape4(1, 4, 5, 5), shape4(2, 3, 1, 1)},
         NULL,
         0,
         "filters of 3 channels, expected 4"},
        {"conv2d", {shape4(1, 4, 5, 5), shape4(2, 4, 7, 1)}, NULL, 0, "filters of 7 x 1"},
        {"conv2d", {shape4(1, 4, 5, 5), shape4(2, 4, 1, 1)}, "stride", 0, "stride 0"},
        {"conv2d", {shape4(1, 4, 5, 5), shape4(2, 4, 1, 1)}, "padding", -1, "padding -1"},
        {"conv2d", {shape4(1, 4, 5, 5), shape4(2, 4, 1, 1)}, "groups", 3, "3 groups do not divide"},
        {"conv2d",
         {shape4(1, 4, 5, 5), shape4(2, 4, 1, 1), shape1(4)},
         NULL,
         0,
         "expected bias [2]"},
        {"groupnorm", {shape1(4)}, "groups", 2, "expected x [n, c, ...]"},
        {"groupnorm", {shape3(1, 6, 2)}, "groups", 4, "6 channels don't make 4 groups"},
        {"groupnorm", {shape3(1, 6, 2), shape1(2)}, "groups", 2, "expected weight [6]"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const struct mistake *mistake = &mistakes[i];
        struct call call = call_open(mistake->op);
        struct orr_operand_info result;
        struct orr_error error = {0};
        for (int k = 0; k < 3 && mistake->shapes[k].rank > 0; k++)
            call_input(&call, tensor_make(ORR_DTYPE_F32, mistake->shapes[k]));
        if (mistake->attribute)
            call_int(&call, mistake->attribute, mistake->value);
        assert_int_equal(call_infer(&call, &result, &error), ORR_INVALID);
        if (!strstr(error.text, mistake->text))
            fail_msg("%s, not %s", error.text, mistake->text);
        call_close(&call);
    }
}

static struct orr_tensor *placed(struct fixture *f, struct orr_shape shape, int dim) {
    struct orr_layout layout = orr_layout_replicated(orr_mesh_default(f->runtime));
    if (dim >= 0)
        layout.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
    struct orr_operand_info info = {ORR_DTYPE_F32, shape};
    double zeros[512] = {0};
    struct orr_tensor *tensor;
    assert_int_equal(orr_tensor_from_host(f->runtime, &info, &layout, zeros, &tensor), ORR_OK);
    return tensor;
}

static void check_refused(struct fixture *f, const char *name, int64_t groups, struct orr_tensor *x,
                          struct orr_tensor *weight, const char *text) {
    const struct orr_operator *op = orr_operator_find(name);
    struct orr_tensor *inputs[2] = {x, weight}, *out[ORR_OUTPUTS_MAX];
    struct orr_attributes attributes;
    orr_operator_defaults(op, &attributes);
    attributes.values[orr_operator_attribute(op, "groups")].integer = groups;
    assert_int_equal(orr_tensor_apply(f->runtime, op, inputs, 2, &attributes, NULL, out),
                     ORR_INVALID);
    if (!strstr(fixture_error(f), text))
        fail_msg("%s", fixture_error(f));
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&weight);
}

static void shards_that_need_borders_or_parts_of_groups_are_refused(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    check_refused(&f, "conv2d", 1, placed(&f, shape4(2, 4, 4, 4), 2),
                  placed(&f, shape4(2, 4, 1, 1), -1), "rows and columns stay whole");
    check_refused(&f, "conv2d", 3, placed(&f, shape4(2, 6, 4, 4), 1),
                  placed(&f, shape4(3, 2, 1, 1), 0), "whole groups S(1),S(0),S(0)");
    check_refused(&f, "conv2d", 2, placed(&f, shape4(2, 4, 4, 4), -1),
                  placed(&f, shape4(2, 2, 1, 1), 0), "legal: images S(0),R,R");
    check_refused(&f, "groupnorm", 3, placed(&f, shape4(2, 6, 2, 2), 1), placed(&f, shape1(6), 0),
                  "whole groups lie on each rank");
    check_refused(&f, "groupnorm", 2, placed(&f, shape4(2, 6, 2, 2), 2), placed(&f, shape1(6), -1),
                  "S(0) with weights R");
    fixture_close(&f);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d_is_the_sum_over_each_window),
        cmocka_unit_test(a_large_image_is_convolved_in_parts),
        cmocka_unit_test(a_convolution_of_patches_is_a_linear_layer),
        cmocka_unit_test(groupnorm_has_the_moments_of_each_group),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(shards_that_need_borders_or_parts_of_groups_are_refused),
    };
    return cmocka_run_group_tests_name("image operators", tests, NULL, NULL);
}
