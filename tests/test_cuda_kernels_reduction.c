/* Kernels of sum, mean, max, argmax, unbroadcast and count_nonfinite against the operators. */
#include "tests/cuda_kernel_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const enum orr_dtype numbers[] = {ORR_DTYPE_F64,  ORR_DTYPE_F32, ORR_DTYPE_F16,
                                         ORR_DTYPE_BF16, ORR_DTYPE_I32, ORR_DTYPE_I64};
enum { FLOATS = 4, NUMBERS = sizeof numbers / sizeof numbers[0] };

/* More than a warp, and more than the rows of a column that a thread walks down. */
static const int64_t lengths[] = {33, 300};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/* Reduces [3, n, 5], [1, n] and [n, 1] along n, and [n, 7] as a whole. */
static void check_shapes(void *state, const char *name, enum orr_dtype dtype, int64_t n,
                         struct random *random) {
    const struct orr_shape shapes[] = {shape3(3, n, 5), shape2(2, n), shape2(n, 1), shape2(n, 7)};
    static const int64_t dims[] = {1, -1, 0, ORR_DIM_ALL};
    for (int i = 0; i < 4; i++) {
        struct call call = call_open(name);
        call_int(&call, "dim", dims[i]);
        call_int(&call, "keepdim", i % 2);
        call_input(&call, tensor_random(dtype, shapes[i], random, -4, 4));
        kernel_check(state, &call);
        call_close(&call);
    }
}

static void reductions_are_the_operators(void **state) {
    static const char *const names[] = {"sum", "mean", "max", "argmax"};
    struct random random = random_seeded();
    for (int k = 0; k < 4; k++)
        for (int d = 0; d < (k == 1 ? (int)FLOATS : (int)NUMBERS); d++)
            check_shapes(*state, names[k], numbers[d], lengths[d % LENGTHS], &random);
}

static void sums_of_bools_count(void **state) {
    struct random random = random_seeded();
    check_shapes(*state, "sum", ORR_DTYPE_BOOL, 500, &random);
}

/* Longer than one chunk: 8192 elements of a row, 128 rows of a column, 1024 chunks of one. */
static void long_sums_are_cut(void **state) {
    static const char *const names[] = {"sum", "max", "argmax"};
    const struct orr_shape shapes[] = {shape1(8193), shape2(2, 20000), shape2(1100, 3)};
    static const int64_t dims[] = {0, 1, 0};
    struct random random = random_seeded();
    for (int k = 0; k < 3; k++)
        for (int d = 1; d < NUMBERS; d += 3)
            for (int i = 0; i < 3; i++) {
                struct call call = call_open(names[k]);
                call_int(&call, "dim", dims[i]);
                call_input(&call, tensor_random(numbers[d], shapes[i], &random, -4, 4));
                kernel_check(*state, &call);
                call_close(&call);
            }
    struct call call = call_open("sum");
    call_int(&call, "dim", 0);
    call_input(&call, tensor_random(ORR_DTYPE_I32, shape2(140000, 2), &random, -4, 4));
    kernel_check(*state, &call);
    call_close(&call);
}

static void integers_wrap_around(void **state) {
    struct call call = call_open("sum");
    struct orr_tensor_view x = tensor_make(ORR_DTYPE_I64, shape1(100));
    for (int i = 0; i < 100; i++)
        ((int64_t *)x.data)[i] = INT64_MAX - i;
    call_input(&call, x);
    kernel_check(*state, &call);
    call_close(&call);
}

static void a_mean_may_be_part_of_another(void **state) {
    struct random random = random_seeded();
    struct call call = call_open("mean");
    call_int(&call, "total", 1000);
    call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(9, 7), &random, 0, 1));
    kernel_check(*state, &call);
    call_close(&call);
}

static void reductions_of_nothing_are_the_operators(void **state) {
    struct random random = random_seeded();
    const struct orr_shape shapes[] = {shape1(0), shape2(0, 3), shape2(3, 0), shape3(2, 0, 3)};
    static const int64_t dims[] = {ORR_DIM_ALL, 0, 1, 1};
    for (int d = 0; d < NUMBERS; d++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 3; k++) {
                static const char *const names[] = {"sum", "mean", "max"};
                if (k == 1 && d >= FLOATS)
                    continue;
                struct call call = call_open(names[k]);
                call_int(&call, "dim", dims[i]);
                if (k == 1)
                    call_int(&call, "total", 4);
                if (k == 2)
                    call_shape(&call, "whole", shapes[i]);
                call_input(&call, tensor_random(numbers[d], shapes[i], &random, 0, 1));
                kernel_check(*state, &call);
                call_close(&call);
            }
}

/* Equal elements, NaNs and infinities, in each place of a row and of a column. */
static void of_equal_elements_the_first_is_the_largest(void **state) {
    struct random random = random_seeded();
    static const char *const names[] = {"max", "argmax"};
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < NUMBERS; d++)
            for (int round = 0; round < 6; round++) {
                struct orr_tensor_view x = tensor_make(numbers[d], shape2(70, 70));
                for (int64_t i = 0; i < 4900; i++) {
                    double value = (double)random_int(&random, 0, 3);
                    if (d < FLOATS && round % 3 == 1 && random_int(&random, 0, 60) == 0)
                        value = NAN;
                    if (d < FLOATS && round % 3 == 2)
                        value = -INFINITY;
                    orr_dtype_store(numbers[d], x.data, (size_t)i, value);
                }
                struct call call = call_open(names[k]);
                call_int(&call, "dim", round / 3);
                call_input(&call, x);
                kernel_check(*state, &call);
                call_close(&call);
            }
}

static void max_backward_is_the_operators(void **state) {
    struct random random = random_seeded();
    const struct orr_shape grads[] = {shape2(3, 5), shape1(130), (struct orr_shape){.rank = 0}};
    const struct orr_shape shapes[] = {shape3(3, 40, 5), shape2(130, 33), shape2(100, 100)};
    static const int64_t dims[] = {1, 1, ORR_DIM_ALL};
    for (int d = 0; d < FLOATS; d++)
        for (int i = 0; i < 3; i++) {
            struct orr_tensor_view x = tensor_make(numbers[d], shapes[i]);
            for (int64_t k = 0; k < tensor_count(&x); k++)
                orr_dtype_store(x.dtype, x.data, (size_t)k, (double)random_int(&random, 0, 9));
            struct call call = call_open("max_backward");
            call_int(&call, "dim", dims[i]);
            call_input(&call, tensor_random(numbers[d], grads[i], &random, -1, 1));
            call_input(&call, x);
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
}

static void unbroadcast_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 60; round++) {
        int rank = (int)random_int(&random, 1, 5);
        struct orr_shape dims = {.rank = 0};
        for (int i = 0; i < rank; i++)
            if (random_int(&random, 0, 1))
                dims.dims[dims.rank++] = i;
        int64_t leading = 0;
        while (leading < dims.rank && dims.dims[leading] == leading)
            leading++;
        struct orr_shape shape = shape_random(&random, rank, rank > 3 ? 5 : 20);
        if (round == 7)
            shape.dims[0] = 0;
        struct call call = call_open("unbroadcast");
        call_shape(&call, "dims", dims);
        call_int(&call, "leading", random_int(&random, 0, leading));
        call_input(&call, tensor_random(numbers[round % FLOATS], shape, &random, -1, 1));
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void what_is_not_finite_is_counted(void **state) {
    struct random random = random_seeded();
    for (int d = 0; d < FLOATS; d++)
        for (int64_t n = 0; n < 20000; n = n * 5 + 1) {
            struct orr_tensor_view x = tensor_random(numbers[d], shape1(n), &random, -1, 1);
            for (int64_t i = 0; i < n; i += 1 + random_int(&random, 0, 9))
                orr_dtype_store(x.dtype, x.data, (size_t)i, i % 2 ? NAN : -INFINITY);
            struct call call = call_open("count_nonfinite");
            call_input(&call, x);
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(reductions_are_the_operators),
        CASE(sums_of_bools_count),
        CASE(long_sums_are_cut),
        CASE(integers_wrap_around),
        CASE(a_mean_may_be_part_of_another),
        CASE(reductions_of_nothing_are_the_operators),
        CASE(of_equal_elements_the_first_is_the_largest),
        CASE(max_backward_is_the_operators),
        CASE(unbroadcast_is_the_operators),
        CASE(what_is_not_finite_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
