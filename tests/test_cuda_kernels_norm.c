/* Kernels of softmax, cross-entropy, the norms and their gradients against the operators. */
#include "tests/cuda_kernel_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
enum { FLOATS = sizeof floats / sizeof floats[0] };

/* Of one thread, of less and more than a warp, of more than the threads of a block take. */
static const int64_t widths[] = {1, 33, 130, 600};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

/* ---- softmax ---- */

static void softmax_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 0; w < WIDTHS; w++) {
            struct call call = call_open("softmax");
            call_input(&call, tensor_random(floats[f], shape2(2, widths[w]), &random, -9, 9));
            kernel_check(*state, &call);
            call_close(&call);
        }
}

static void softmax_with_a_mask_sees_what_the_operator_sees(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++) {
        struct call call = call_open("softmax");
        call_int(&call, "causal", 1);
        call_input(&call, tensor_random(floats[f], shape3(2, 5, 40), &random, -3, 3));
        kernel_check(*state, &call);
        /* Rows 3 .. 7 of a matrix of 9. */
        call_int(&call, "start", 3);
        call_int(&call, "whole", 9);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

/* Fills row `row` of a matrix with a value, from column `first` on. */
static void fill_row(struct orr_tensor_view *x, int64_t row, int64_t first, double value) {
    int64_t width = x->shape.dims[1];
    for (int64_t i = first; i < width; i++)
        orr_dtype_store(x->dtype, x->data, (size_t)(row * width + i), value);
}

static struct orr_tensor_view extreme_rows(enum orr_dtype dtype, struct random *random) {
    struct orr_tensor_view x = tensor_random(dtype, shape2(7, 70), random, -1, 1);
    fill_row(&x, 0, 0, -INFINITY);
    fill_row(&x, 1, 69, INFINITY);
    fill_row(&x, 2, 35, -INFINITY);
    orr_dtype_store(dtype, x.data, 3 * 70, NAN); /* what comes after it is none */
    fill_row(&x, 4, 0, 60000);
    fill_row(&x, 5, 0, -60000);
    fill_row(&x, 6, 0, -INFINITY);
    fill_row(&x, 6, 69, 2);
    return x;
}

static void rows_with_infinities_and_nans_are_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++) {
        struct call call = call_open("softmax");
        call_input(&call, extreme_rows(floats[f], &random));
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void softmax_backward_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 0; w < WIDTHS; w++) {
            struct call call = call_open("softmax_backward");
            call_input(&call, tensor_random(floats[f], shape2(2, widths[w]), &random, -1, 1));
            call_input(&call, tensor_random(floats[f], shape2(2, widths[w]), &random, 0, 1));
            kernel_check(*state, &call);
            call_close(&call);
        }
}

/* ---- cross-entropy ---- */

static struct orr_tensor_view targets(enum orr_dtype dtype, int64_t count, int64_t classes,
                                      struct random *random) {
    struct orr_tensor_view view = tensor_make(dtype, shape1(count));
    for (int64_t i = 0; i < count; i++)
        orr_dtype_store(dtype, view.data, (size_t)i, (double)random_int(random, 0, classes - 1));
    return view;
}

static void cross_entropy_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 0; w < WIDTHS; w++) {
            enum orr_dtype index = w % 2 ? ORR_DTYPE_I32 : ORR_DTYPE_I64;
            struct call call = call_open("cross_entropy");
            call_input(&call, tensor_random(floats[f], shape2(5, widths[w]), &random, -9, 9));
            call_input(&call, targets(index, 5, widths[w], &random));
            kernel_check(*state, &call);
            call_int(&call, "total", 100);
            kernel_check(*state, &call);
            call_close(&call);
        }
}

static void the_loss_of_no_rows_is_zero(void **state) {
    struct random random = random_seeded();
    struct call call = call_open("cross_entropy");
    call_int(&call, "total", 8);
    call_input(&call, tensor_random(ORR_DTYPE_BF16, shape2(0, 9), &random, -1, 1));
    call_input(&call, tensor_make(ORR_DTYPE_I32, shape1(0)));
    kernel_check(*state, &call);
    call_close(&call);
}

static struct orr_tensor_view scalar(enum orr_dtype dtype, double value) {
    struct orr_tensor_view view = tensor_make(dtype, (struct orr_shape){.rank = 0});
    orr_dtype_store(dtype, view.data, 0, value);
    return view;
}

static void cross_entropy_backward_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 0; w < WIDTHS; w++) {
            enum orr_dtype wide = floats[f] == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
            struct call call = call_open("cross_entropy_backward");
            call_int(&call, "total", 5);
            call_input(&call, scalar(wide, 1.5));
            call_input(&call, tensor_random(floats[f], shape2(5, widths[w]), &random, -9, 9));
            call_input(&call, targets(ORR_DTYPE_I32, 5, widths[w], &random));
            kernel_check(*state, &call);
            /* With the sums of exponentials, and as the columns 40 and on of more. */
            call_input(&call, tensor_random(wide, shape1(5), &random, 1, 9));
            kernel_check(*state, &call);
            call_int(&call, "first", 40);
            call_int(&call, "whole", 40 + widths[w]);
            kernel_check(*state, &call);
            call_close(&call);
        }
}

static void a_target_out_of_range_is_a_fault(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    struct orr_error error = {0};
    for (int backward = 0; backward < 2; backward++) {
        struct call call = call_open(backward ? "cross_entropy_backward" : "cross_entropy");
        call_int(&call, "total", 3);
        if (backward)
            call_input(&call, scalar(ORR_DTYPE_F32, 1));
        call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(3, 9), &random, -1, 1));
        struct orr_tensor_view wrong = tensor_make(ORR_DTYPE_I32, shape1(3));
        ((int32_t *)wrong.data)[1] = backward ? -1 : 9;
        call_input(&call, wrong);
        memset(&fixture->fault, 0, sizeof fixture->fault);
        assert_int_equal(kernel_call_status(fixture, &call, &error), ORR_OK);
        assert_int_equal(fixture->fault.code, ORR__FAULT_INDEX);
        assert_int_equal(fixture->fault.value, backward ? -1 : 9);
        assert_int_equal(fixture->fault.bound, 9);
        call_close(&call);
    }
}

/* ---- Norms ---- */

/* One call with and without each optional operand. */
static void check_norm(void *state, const char *name, int tensors, int optional,
                       enum orr_dtype dtype, struct orr_shape shape, int64_t channels,
                       int64_t groups, double low, struct random *random) {
    struct call call = call_open(name);
    if (groups)
        call_int(&call, "groups", groups);
    for (int i = 0; i < tensors; i++)
        call_input(&call, tensor_random(dtype, shape, random, low, low + 2));
    for (int i = 0; i <= optional; i++) {
        if (i > 0)
            call_input(&call, tensor_random(dtype, shape1(channels), random, -1, 1));
        kernel_check(state, &call);
    }
    call_close(&call);
}

static void layernorm_and_rmsnorm_are_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 0; w < WIDTHS; w++) {
            struct orr_shape shape = shape3(1, 2, widths[w]);
            check_norm(*state, "layernorm", 1, 2, floats[f], shape, widths[w], 0, -1, &random);
            check_norm(*state, "rmsnorm", 1, 1, floats[f], shape, widths[w], 0, -1, &random);
        }
}

static void gradients_of_layernorm_and_rmsnorm_are_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 1; w < WIDTHS; w++) {
            struct orr_shape shape = shape3(1, 2, widths[w]);
            check_norm(*state, "layernorm_backward", 2, 1, floats[f], shape, widths[w], 0, -1,
                       &random);
            check_norm(*state, "rmsnorm_backward", 2, 1, floats[f], shape, widths[w], 0, -1,
                       &random);
        }
}

static void gradients_of_weights_are_the_operators(void **state) {
    static const int64_t rows[] = {1, 127, 129, 700};
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int r = 0; r < 4; r++) {
            struct orr_shape shape = shape2(rows[r], 13);
            check_norm(*state, "layernorm_backward_weight", 2, 0, floats[f], shape, 0, 0, -1,
                       &random);
            check_norm(*state, "rmsnorm_backward_weight", 2, 0, floats[f], shape, 0, 0, -1,
                       &random);
        }
}

static void rows_far_from_zero_keep_their_digits(void **state) {
    struct random random = random_seeded();
    struct call call = call_open("layernorm");
    call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(3, 500), &random, 1000, 1001));
    /* The mean itself is rounded to f32: an ulp of 1000 is 6e-5, of values that are 1 apart. */
    kernel_check_within(*state, &call, 2e-4);
    call_close(&call);
}

static void groupnorm_and_its_gradients_are_the_operators(void **state) {
    struct random random = random_seeded();
    const struct orr_shape shapes[] = {shape4(2, 6, 5, 7), shape3(1, 6, 90), shape2(2, 60)};
    for (int f = 0; f < FLOATS; f++)
        for (int s = 0; s < 3; s++)
            for (int64_t groups = 1; groups <= 3; groups++) {
                void *fixture = *state;
                enum orr_dtype dtype = floats[f];
                int64_t channels = shapes[s].dims[1];
                check_norm(fixture, "groupnorm", 1, 2, dtype, shapes[s], channels, groups, -1,
                           &random);
                check_norm(fixture, "groupnorm_backward", 2, 1, dtype, shapes[s], channels, groups,
                           -1, &random);
                check_norm(fixture, "groupnorm_backward_weight", 2, 0, dtype, shapes[s], channels,
                           groups, -1, &random);
            }
}

static void tensors_without_elements_launch_what_is_left(void **state) {
    static const char *const one[] = {"softmax", "layernorm", "rmsnorm"};
    static const char *const two[] = {"softmax_backward", "layernorm_backward", "rmsnorm_backward",
                                      "layernorm_backward_weight", "rmsnorm_backward_weight"};
    struct random random = random_seeded();
    for (int s = 0; s < 2; s++) {
        struct orr_shape shape = s ? shape2(0, 5) : shape2(4, 0);
        for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
            check_norm(*state, one[i], 1, 0, ORR_DTYPE_F32, shape, 0, 0, 0, &random);
        for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
            check_norm(*state, two[i], 2, 0, ORR_DTYPE_F32, shape, 0, 0, 0, &random);
        shape = s ? shape3(0, 4, 5) : shape3(2, 4, 0);
        check_norm(*state, "groupnorm", 1, 2, ORR_DTYPE_F32, shape, 4, 2, 0, &random);
        check_norm(*state, "groupnorm_backward", 2, 1, ORR_DTYPE_F32, shape, 4, 2, 0, &random);
        check_norm(*state, "groupnorm_backward_weight", 2, 0, ORR_DTYPE_F32, shape, 4, 2, 0,
                   &random);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(softmax_is_the_operators),
        CASE(softmax_with_a_mask_sees_what_the_operator_sees),
        CASE(rows_with_infinities_and_nans_are_the_operators),
        CASE(softmax_backward_is_the_operators),
        CASE(cross_entropy_is_the_operators),
        CASE(the_loss_of_no_rows_is_zero),
        CASE(cross_entropy_backward_is_the_operators),
        CASE(a_target_out_of_range_is_a_fault),
        CASE(layernorm_and_rmsnorm_are_the_operators),
        CASE(gradients_of_layernorm_and_rmsnorm_are_the_operators),
        CASE(gradients_of_weights_are_the_operators),
        CASE(rows_far_from_zero_keep_their_digits),
        CASE(groupnorm_and_its_gradients_are_the_operators),
        CASE(tensors_without_elements_launch_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
