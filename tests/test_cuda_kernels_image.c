/* Convolutions on a CUDA queue, against the operators' own arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/cuda_blas_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
enum { FLOATS = sizeof floats / sizeof floats[0] };

/* c and o are per group. */
struct sizes {
    int64_t n, c, h, w, o, kh, kw, stride, padding, groups;
};

static void set_attributes(struct call *call, const struct sizes *sizes) {
    call_int(call, "stride", sizes->stride);
    call_int(call, "padding", sizes->padding);
    call_int(call, "groups", sizes->groups);
}

static void check_all(struct kernel_fixture *fixture, struct random *random, enum orr_dtype dtype,
                      const struct sizes *sizes) {
    struct orr_shape x = shape4(sizes->n, sizes->c * sizes->groups, sizes->h, sizes->w);
    struct orr_shape weight = shape4(sizes->o * sizes->groups, sizes->c, sizes->kh, sizes->kw);
    int64_t oh = (sizes->h + 2 * sizes->padding - sizes->kh) / sizes->stride + 1;
    int64_t ow = (sizes->w + 2 * sizes->padding - sizes->kw) / sizes->stride + 1;
    struct orr_shape y = shape4(sizes->n, sizes->o * sizes->groups, oh, ow);
    for (int bias = 0; bias < 2; bias++) {
        struct call call = call_open("conv2d");
        call_input(&call, tensor_random(dtype, x, random, -2, 2));
        call_input(&call, tensor_random(dtype, weight, random, -2, 2));
        if (bias)
            call_input(&call, tensor_random(dtype, shape1(weight.dims[0]), random, -2, 2));
        set_attributes(&call, sizes);
        kernel_check(fixture, &call);
        call_close(&call);
    }
    struct call input = call_open("conv2d_backward_input");
    call_input(&input, tensor_random(dtype, y, random, -2, 2));
    call_input(&input, tensor_random(dtype, weight, random, -2, 2));
    set_attributes(&input, sizes);
    call_shape(&input, "size", shape2(sizes->h, sizes->w));
    kernel_check(fixture, &input);
    call_close(&input);
    struct call own = call_open("conv2d_backward_weight");
    call_input(&own, tensor_random(dtype, y, random, -2, 2));
    call_input(&own, tensor_random(dtype, x, random, -2, 2));
    set_attributes(&own, sizes);
    call_shape(&own, "size", shape2(sizes->kh, sizes->kw));
    kernel_check(fixture, &own);
    call_close(&own);
}

static void convolutions_are_the_cpus(void **state) {
    static const struct sizes sizes[] = {
        {2, 3, 5, 6, 4, 3, 3, 1, 1, 1}, /* n c h w o kh kw stride padding groups */
        {2, 3, 7, 5, 4, 3, 2, 2, 0, 1}, {1, 2, 6, 6, 3, 2, 3, 3, 2, 2},
        {3, 1, 4, 4, 1, 3, 3, 1, 1, 5}, {2, 4, 3, 3, 5, 1, 1, 1, 0, 1},
        {2, 3, 3, 4, 2, 1, 1, 1, 0, 3}, {1, 2, 4, 4, 2, 1, 1, 2, 1, 1},
        {1, 1, 3, 3, 1, 3, 3, 1, 0, 1},
    };
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            check_all(*state, &random, floats[i], &sizes[j]);
}

static void random_convolutions_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < 20; i++) {
        struct sizes sizes = {
            .n = random_int(&random, 1, 3),
            .c = random_int(&random, 1, 4),
            .h = random_int(&random, 3, 7),
            .w = random_int(&random, 3, 7),
            .o = random_int(&random, 1, 4),
            .kh = random_int(&random, 1, 3),
            .kw = random_int(&random, 1, 3),
            .stride = random_int(&random, 1, 3),
            .padding = random_int(&random, 0, 3),
            .groups = random_int(&random, 1, 4),
        };
        check_all(*state, &random, floats[random_int(&random, 0, FLOATS - 1)], &sizes);
    }
}

static void nothing_to_convolve_is_no_error(void **state) {
    static const struct sizes sizes[] = {{0, 3, 5, 6, 4, 3, 3, 1, 1, 1},
                                         {2, 3, 5, 6, 0, 3, 3, 1, 1, 1},
                                         {2, 3, 5, 6, 0, 1, 1, 1, 0, 2}};
    struct random random = random_seeded();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_all(*state, &random, ORR_DTYPE_BF16, &sizes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(convolutions_are_the_cpus, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(random_convolutions_are_the_cpus, blas_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(nothing_to_convolve_is_no_error, blas_setup,
                                        kernel_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
