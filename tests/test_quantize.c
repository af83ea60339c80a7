/* Quantized weights: codes and scales against their definition, the error that they may have,
 * products, mistakes, failing allocations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "tests/operator_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
static const enum orr_dtype codes[] = {ORR_DTYPE_I8, ORR_DTYPE_F8E4M3, ORR_DTYPE_F8E5M2};
static const double largest[] = {127, 448, 57344};

/* x with its codes and scales. */
struct quantized {
    struct orr_tensor_view x, both[2];
};

/* Takes x over. */
static struct quantized quantize(struct orr_tensor_view x, enum orr_dtype dtype) {
    const struct orr_operator *op = orr_operator_find("quantize");
    struct orr_operand_info info = {x.dtype, x.shape}, results[ORR_OUTPUTS_MAX];
    struct orr_attributes attributes;
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct quantized all = {.x = x};
    orr_operator_defaults(op, &attributes);
    attributes.values[0].integer = dtype;
    if (op->infer(&info, 1, &attributes, results, &error) != ORR_OK)
        fail_msg("%s", error.text);
    for (int i = 0; i < 2; i++)
        all.both[i] = tensor_make(results[i].dtype, results[i].shape);
    assert_int_equal(op->compute(&x, 1, &attributes, all.both, &memory, &error), ORR_OK);
    return all;
}

static void release(struct quantized *all) {
    tensor_free(&all->x);
    tensor_free(&all->both[0]);
    tensor_free(&all->both[1]);
}

static struct orr_tensor_view copy_of(const struct orr_tensor_view *from) {
    struct orr_tensor_view copy = tensor_make(from->dtype, from->shape);
    memcpy(copy.data, from->data, (size_t)tensor_count(from) * orr_dtype_size(from->dtype));
    return copy;
}

static void check_rows(const struct quantized *all, size_t code) {
    int64_t width = all->x.shape.dims[all->x.shape.rank - 1];
    for (int64_t row = 0; row < tensor_count(&all->both[1]); row++) {
        double most = 0, scale = tensor_at(&all->both[1], row);
        for (int64_t i = 0; i < width; i++)
            most = fmax(most, fabs(tensor_at(&all->x, row * width + i)));
        assert_true(scale == (double)(float)(most / largest[code]));
        for (int64_t i = 0; i < width; i++) {
            double value = tensor_at(&all->x, row * width + i) / scale, want = rint(value);
            if (codes[code] != ORR_DTYPE_I8) {
                uint8_t bits;
                orr_dtype_store(codes[code], &bits, 0, value);
                want = orr_dtype_load(codes[code], &bits, 0);
            }
            assert_true(tensor_at(&all->both[0], row * width + i) == want);
        }
    }
}

static void every_row_has_a_scale_and_the_nearest_codes(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 10; trial++)
        for (size_t code = 0; code < 3; code++)
            for (size_t d = 0; d < 4; d++) {
                struct orr_shape shape = shape_random(&random, (int)random_int(&random, 1, 3), 5);
                shape.dims[shape.rank - 1] = random_int(&random, 1, 700);
                struct quantized all =
                    quantize(tensor_random(floats[d], shape, &random, -3, 3), codes[code]);
                assert_int_equal(all.both[1].shape.rank, shape.rank - 1);
                assert_int_equal(all.both[1].dtype, ORR_DTYPE_F32);
                check_rows(&all, code);
                release(&all);
            }
}

/* Half a step: of i8 everywhere, of fp8 relative to the number. */
static void the_error_is_half_a_step(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (size_t code = 0; code < 3; code++) {
        struct quantized all =
            quantize(tensor_random(ORR_DTYPE_F64, shape2(20, 300), &random, -1, 1), codes[code]);
        struct call back = call_open("dequantize");
        call_int(&back, "dtype", ORR_DTYPE_F64);
        call_input(&back, copy_of(&all.both[0]));
        call_input(&back, copy_of(&all.both[1]));
        call_run(&back);
        for (int64_t i = 0; i < 6000; i++) {
            double want = tensor_at(&all.x, i), scale = tensor_at(&all.both[1], i / 300);
            double half = code == 0   ? 0.5 * scale
                          : code == 1 ? fmax(fabs(want) / 16, 0x1p-10 * scale)
                                      : fmax(fabs(want) / 8, 0x1p-17 * scale);
            assert_near("dequantize", i, tensor_at(&back.output, i), want, half * 1.0001, 0);
        }
        call_close(&back);
        release(&all);
    }
}

static void zeros_stay_zeros_and_nan_is_not_lost(void **state) {
    (void)state;
    for (size_t code = 0; code < 3; code++) {
        struct orr_tensor_view x = tensor_make(ORR_DTYPE_F32, shape2(3, 2));
        float *values = x.data;
        values[2] = 1;
        values[3] = NAN;
        values[5] = INFINITY;
        struct quantized all = quantize(x, codes[code]);
        struct call back = call_open("dequantize");
        call_input(&back, copy_of(&all.both[0]));
        call_input(&back, copy_of(&all.both[1]));
        call_run(&back);
        assert_true(tensor_at(&all.both[1], 0) == 1);
        assert_true(tensor_at(&back.output, 0) == 0 && tensor_at(&back.output, 1) == 0);
        assert_true(isnan(tensor_at(&back.output, 2)) && isnan(tensor_at(&back.output, 3)));
        assert_true(isnan(tensor_at(&back.output, 5)));
        call_close(&back);
        release(&all);
    }
}

static struct call quantized_product(enum orr_dtype dtype, enum orr_dtype code, int64_t m,
                                     int64_t k, int64_t n, bool bias, struct random *random) {
    struct quantized all =
        quantize(tensor_random(ORR_DTYPE_F32, shape2(n, k), random, -1, 1), code);
    struct call call = call_open("linear_quantized");
    call_input(&call, tensor_random(dtype, shape3(2, m, k), random, -1, 1));
    call_input(&call, copy_of(&all.both[0]));
    call_input(&call, copy_of(&all.both[1]));
    if (bias)
        call_input(&call, tensor_random(dtype, shape1(n), random, -1, 1));
    release(&all);
    return call;
}

static void check_product(const struct call *call, int64_t step) {
    int64_t n = call->inputs[1].shape.dims[0], k = call->inputs[1].shape.dims[1];
    enum orr_dtype dtype = call->output.dtype;
    double own = dtype_epsilon(dtype), arithmetic = dtype == ORR_DTYPE_F64 ? 0x1p-46 : 0x1p-17;
    arithmetic *= k > 1000 ? 64 : 1; /* a long sum in f32 */
    for (int64_t i = 0; i < tensor_count(&call->output); i += step) {
        double sum = 0;
        for (int64_t at = 0; at < k; at++)
            sum += tensor_at(&call->inputs[0], i / n * k + at) *
                   tensor_at(&call->inputs[1], i % n * k + at);
        sum *= tensor_at(&call->inputs[2], i % n);
        sum += call->input_count > 3 ? tensor_at(&call->inputs[3], i % n) : 0;
        assert_near("linear_quantized", i, tensor_at(&call->output, i), sum, arithmetic,
                    0.51 * own + arithmetic);
    }
}

static void products_are_those_of_the_dequantized_weight(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 6; trial++)
        for (size_t code = 0; code < 3; code++)
            for (size_t d = 0; d < 4; d++) {
                struct call call = quantized_product(
                    floats[d], codes[code], random_int(&random, 1, 5), random_int(&random, 1, 40),
                    random_int(&random, 1, 9), trial % 2, &random);
                call_run(&call);
                check_product(&call, 1);
                call_close(&call);
            }
}

/* More channels and rows than are worked on at a time. */
static void a_large_product_is_made_of_tiles(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct call call =
        quantized_product(ORR_DTYPE_F32, ORR_DTYPE_I8, 200, 140000, 40, true, &random);
    call_run(&call);
    check_product(&call, 397);
    call_close(&call);
}

static void a_failing_allocation_is_reported(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct call call = quantized_product(ORR_DTYPE_BF16, ORR_DTYPE_I8, 2, 3, 4, true, &random);
    struct counting_memory memory;
    struct orr_error error = {0};
    counting_memory_init(&memory, 1);
    assert_int_equal(call_run_with(&call, &memory.table, &error), ORR_NO_MEMORY);
    assert_int_equal(memory.live, 0);
    call_close(&call);
}

#define F(rank, ...)                                                                               \
    {                                                                                              \
        ORR_DTYPE_F32, {                                                                           \
            rank, {                                                                                \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define Q(rank, ...)                                                                               \
    {                                                                                              \
        ORR_DTYPE_I8, {                                                                            \
            rank, {                                                                                \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

static void mistakes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *op;
        int dtype; /* -1: the default */
        struct orr_operand_info inputs[4];
        int count;
        const char *text;
    } mistakes[] = {
        {"quantize", ORR_DTYPE_BF16, {F(1, 4)}, 1, "dtype is bf16, expected i8, f8e4m3 or f8e5m2"},
        {"quantize", -1, {F(0, 0)}, 1, "expected at least 1 dimension"},
        {"quantize", -1, {Q(1, 4)}, 1, "dtype of x is i8, expected f64, f32, f16 or bf16"},
        {"dequantize", -1, {F(1, 4), F(0, 0)}, 2, "expected q in i8, f8e4m3 or f8e5m2 and scale"},
        {"dequantize", -1, {Q(2, 4, 5), F(1, 5)}, 2, "expected scale [4]"},
        {"dequantize", ORR_DTYPE_I8, {Q(2, 4, 5), F(1, 4)}, 2, "dtype is i8, expected f64"},
        {"linear_quantized", -1, {F(2, 2, 6), Q(2, 4, 5), F(1, 4)}, 3, "expected x [..., m, in]"},
        {"linear_quantized", -1, {F(1, 5), Q(2, 4, 5), F(1, 4)}, 3, "expected x [..., m, in]"},
        {"linear_quantized",
         -1,
         {F(2, 2, 5), Q(2, 4, 5), F(1, 4), F(1, 5)},
         4,
         "expected bias [4] in x's dtype"},
        {"linear_quantized", -1, {F(2, 2, 5), F(2, 4, 5), F(1, 4)}, 3, "expected q in i8"},
        {"linear_quantized", -1, {F(2, 2, 5)}, 1, "1 operand given, expected 3 to 4"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const struct orr_operator *op = orr_operator_find(mistakes[i].op);
        struct orr_operand_info results[ORR_OUTPUTS_MAX];
        struct orr_attributes attributes;
        struct orr_error error = {0};
        orr_operator_defaults(op, &attributes);
        if (mistakes[i].dtype >= 0)
            attributes.values[0].integer = mistakes[i].dtype;
        assert_int_equal(
            op->infer(mistakes[i].inputs, mistakes[i].count, &attributes, results, &error),
            ORR_INVALID);
        if (!strstr(error.text, mistakes[i].text))
            fail_msg("%s, not %s", error.text, mistakes[i].text);
    }
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_scale_and_the_nearest_codes),
        cmocka_unit_test(the_error_is_half_a_step),
        cmocka_unit_test(zeros_stay_zeros_and_nan_is_not_lost),
        cmocka_unit_test(products_are_those_of_the_dequantized_weight),
        cmocka_unit_test(a_large_product_is_made_of_tiles),
        cmocka_unit_test(a_failing_allocation_is_reported),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests_name("quantized weights", tests, NULL, NULL);
}
