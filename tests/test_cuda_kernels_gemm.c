/* Matrix products and quantized weights on a CUDA queue, against the operators' own arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_blas_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
enum { FLOATS = sizeof floats / sizeof floats[0] };

static struct orr_shape with_batch(const struct orr_shape *batch, int64_t rows, int64_t columns) {
    struct orr_shape shape = *batch;
    shape.dims[shape.rank++] = rows;
    shape.dims[shape.rank++] = columns;
    return shape;
}

static void check_matmul(struct kernel_fixture *fixture, struct random *random,
                         enum orr_dtype dtype, struct orr_shape batch_x, struct orr_shape batch_w,
                         int64_t m, int64_t k, int64_t n, bool transpose_a, bool transpose_b) {
    struct call call = call_open("matmul");
    call_input(&call,
               tensor_random(dtype, with_batch(&batch_x, transpose_a ? k : m, transpose_a ? m : k),
                             random, -9, 9));
    call_input(&call,
               tensor_random(dtype, with_batch(&batch_w, transpose_b ? n : k, transpose_b ? k : n),
                             random, -9, 9));
    call_int(&call, "transpose_a", transpose_a);
    call_int(&call, "transpose_b", transpose_b);
    kernel_check(fixture, &call);
    call_close(&call);
}

static void products_are_the_cpus(void **state) {
    struct random random = random_seeded();
    struct orr_shape none = orr_shape_of(0, NULL);
    for (int i = 0; i < FLOATS; i++)
        for (int transposes = 0; transposes < 4; transposes++) {
            bool a = (transposes & 1) != 0, b = (transposes & 2) != 0;
            check_matmul(*state, &random, floats[i], none, none, 3, 5, 7, a, b);
            check_matmul(*state, &random, floats[i], none, none, 70, 129, 65, a, b);
        }
}

static void integers_wrap_around(void **state) {
    struct random random = random_seeded();
    struct orr_shape none = orr_shape_of(0, NULL);
    for (int transposes = 0; transposes < 4; transposes++) {
        bool a = (transposes & 1) != 0, b = (transposes & 2) != 0;
        check_matmul(*state, &random, ORR_DTYPE_I32, none, none, 3, 5, 7, a, b);
        check_matmul(*state, &random, ORR_DTYPE_I64, shape2(2, 3), shape1(3), 2, 5, 3, a, b);
    }
    struct call call = call_open("matmul");
    call_input(&call, tensor_make(ORR_DTYPE_I32, shape2(1, 2)));
    call_input(&call, tensor_make(ORR_DTYPE_I32, shape2(2, 1)));
    int32_t *x = call.inputs[0].data, *weight = call.inputs[1].data;
    x[0] = x[1] = weight[0] = weight[1] = INT32_MAX;
    kernel_check(*state, &call);
    call_close(&call);
}

static void batches_broadcast(void **state) {
    struct random random = random_seeded();
    const struct orr_shape pairs[][2] = {
        {shape1(4), shape1(4)},
        {shape1(4), orr_shape_of(0, NULL)},
        {orr_shape_of(0, NULL), shape1(4)},
        {shape2(2, 3), shape1(3)},
        {shape2(2, 1), shape2(1, 3)},
        {shape3(2, 1, 3), shape3(1, 4, 1)},
        {shape3(2, 3, 4), shape3(2, 1, 4)},
        {shape2(1, 1), shape1(1)},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int transposes = 0; transposes < 4; transposes++)
            check_matmul(*state, &random, i % 2 ? ORR_DTYPE_F32 : ORR_DTYPE_BF16, pairs[i][0],
                         pairs[i][1], 3, 4, 5, (transposes & 1) != 0, (transposes & 2) != 0);
}

static void random_products_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < 40; i++) {
        struct orr_shape batch_x = shape_random(&random, (int)random_int(&random, 0, 3), 3);
        struct orr_shape batch_w = batch_x;
        int dropped = (int)random_int(&random, 0, batch_x.rank);
        memmove(batch_w.dims, batch_w.dims + dropped,
                (size_t)(batch_w.rank - dropped) * sizeof batch_w.dims[0]);
        batch_w.rank -= dropped;
        for (int dim = 0; dim < batch_w.rank; dim++)
            if (random_int(&random, 0, 1))
                batch_w.dims[dim] = 1;
        check_matmul(*state, &random, floats[random_int(&random, 0, FLOATS - 1)], batch_x, batch_w,
                     random_int(&random, 1, 9), random_int(&random, 1, 9),
                     random_int(&random, 1, 9), random_int(&random, 0, 1) != 0,
                     random_int(&random, 0, 1) != 0);
    }
}

static void products_of_nothing_are_zeros(void **state) {
    struct random random = random_seeded();
    struct orr_shape none = orr_shape_of(0, NULL);
    check_matmul(*state, &random, ORR_DTYPE_F32, none, none, 3, 0, 4, false, false);
    check_matmul(*state, &random, ORR_DTYPE_F32, none, none, 0, 3, 4, false, true);
    check_matmul(*state, &random, ORR_DTYPE_F32, none, none, 3, 4, 0, true, false);
    check_matmul(*state, &random, ORR_DTYPE_BF16, shape2(2, 3), shape1(3), 2, 0, 4, false, false);
    check_matmul(*state, &random, ORR_DTYPE_F32, shape1(0), none, 2, 3, 4, false, false);
    check_matmul(*state, &random, ORR_DTYPE_I32, none, none, 3, 0, 4, false, false);
}

static void check_linear(struct kernel_fixture *fixture, struct random *random,
                         enum orr_dtype dtype, struct orr_shape x, int64_t out, bool bias) {
    struct call call = call_open("linear");
    call_input(&call, tensor_random(dtype, x, random, -2, 2));
    call_input(&call, tensor_random(dtype, shape2(out, x.dims[x.rank - 1]), random, -2, 2));
    if (bias)
        call_input(&call, tensor_random(dtype, shape1(out), random, -2, 2));
    kernel_check(fixture, &call);
    call_close(&call);
}

static void linear_adds_its_bias(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (int bias = 0; bias < 2; bias++) {
            check_linear(*state, &random, floats[i], shape3(2, 3, 9), 5, bias != 0);
            check_linear(*state, &random, floats[i], shape1(9), 5, bias != 0);
            check_linear(*state, &random, floats[i], shape2(4, 0), 5, bias != 0);
            check_linear(*state, &random, floats[i], shape2(0, 4), 5, bias != 0);
        }
}

static void gradients_of_weights_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (int batch = 0; batch < 3; batch++) {
            struct call call = call_open("matmul_backward_weight");
            call_input(&call, tensor_random(floats[i], shape4(2, 3, 4, 5), &random, -2, 2));
            call_input(&call, tensor_random(floats[i], shape4(2, 3, 4, 6), &random, -2, 2));
            call_int(&call, "batch", batch);
            kernel_check(*state, &call);
            call_close(&call);
        }
    struct call call = call_open("matmul_backward_weight");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(0, 5)));
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(0, 6)));
    kernel_check(*state, &call);
    call_close(&call);
}

/* ---- Quantized weights ---- */

static const enum orr_dtype codes[] = {ORR_DTYPE_I8, ORR_DTYPE_F8E4M3, ORR_DTYPE_F8E5M2};

static void codes_are_the_cpus_bit_for_bit(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++) {
            struct call call = call_open("quantize");
            struct orr_tensor_view x = tensor_random(floats[i], shape2(5, 300), &random, -3, 3);
            for (int64_t j = 0; j < 300; j++) /* a row of zeros, and one with a NaN */
                orr_dtype_store(floats[i], x.data, (size_t)j, 0);
            orr_dtype_store(floats[i], x.data, 310, (double)NAN);
            orr_dtype_store(floats[i], x.data, 610, 1e-7);
            call_input(&call, x);
            call_int(&call, "dtype", (int64_t)codes[code]);
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
    struct call call = call_open("quantize");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(3, 0)));
    kernel_check_within(*state, &call, 0);
    call_close(&call);
}

/* Codes and scales of random weights. */
static void call_codes(struct call *call, struct random *random, enum orr_dtype code, int64_t rows,
                       int64_t width) {
    struct call quantize = call_open("quantize");
    call_input(&quantize, tensor_random(ORR_DTYPE_F32, shape2(rows, width), random, -3, 3));
    struct orr_tensor_view results[2] = {tensor_make(code, shape2(rows, width)),
                                         tensor_make(ORR_DTYPE_F32, shape1(rows))};
    struct orr_error error = {0};
    struct orr_memory memory = orr_memory_system();
    assert_int_equal(
        quantize.op->compute(quantize.inputs, 1, &quantize.attributes, results, &memory, &error),
        ORR_OK);
    call_input(call, results[0]);
    call_input(call, results[1]);
    call_close(&quantize);
}

static void values_of_codes_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++) {
            struct call call = call_open("dequantize");
            call_codes(&call, &random, codes[code], 3, 50);
            call_int(&call, "dtype", (int64_t)floats[i]);
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
}

static void products_with_codes_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++)
            for (int bias = 0; bias < 2; bias++) {
                struct call call = call_open("linear_quantized");
                call_input(&call, tensor_random(floats[i], shape3(2, 3, 40), &random, -2, 2));
                call_codes(&call, &random, codes[code], 7, 40);
                if (bias)
                    call_input(&call, tensor_random(floats[i], shape1(7), &random, -2, 2));
                kernel_check(*state, &call);
                call_close(&call);
            }
}

/* ---- Failures ---- */

static void no_memory_for_scratch_is_an_error(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    struct call call = call_open("linear_quantized");
    struct orr_error error = {0};
    call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(3, 8), &random, -2, 2));
    call_codes(&call, &random, ORR_DTYPE_I8, 4, 8);
    for (size_t i = 1; i <= 2; i++) { /* the scratch, cuBLAS's workspace */
        fixture->device.requests = 0;
        fixture->device.fail_at = i;
        assert_int_equal(kernel_call_status(fixture, &call, &error), ORR_NO_MEMORY);
        assert_non_null(strstr(error.text, "cudaMallocFromPoolAsync"));
    }
    fixture->device.fail_at = 0;
    assert_int_equal(kernel_call_status(fixture, &call, &error), ORR_OK);
    call_close(&call);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_are_the_cpus, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(integers_wrap_around, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(batches_broadcast, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(random_products_are_the_cpus, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(products_of_nothing_are_zeros, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(linear_adds_its_bias, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(gradients_of_weights_are_the_cpus, blas_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(codes_are_the_cpus_bit_for_bit, blas_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(values_of_codes_are_the_cpus, blas_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(products_with_codes_are_the_cpus, blas_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_scratch_is_an_error, blas_setup,
                                        kernel_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
