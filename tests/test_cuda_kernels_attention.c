/* Attention, rope and caches on a CUDA queue, against the operators' own arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_kernel_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
enum { FLOATS = sizeof floats / sizeof floats[0] };

struct sizes {
    int64_t b, h, hkv, s, t, d, dv;
};

/* Operands q, k, v. */
static void call_operands(struct call *call, struct random *random, enum orr_dtype dtype,
                          const struct sizes *sizes) {
    call_input(call,
               tensor_random(dtype, shape4(sizes->b, sizes->h, sizes->s, sizes->d), random, -2, 2));
    call_input(call, tensor_random(dtype, shape4(sizes->b, sizes->hkv, sizes->t, sizes->d), random,
                                   -2, 2));
    call_input(call, tensor_random(dtype, shape4(sizes->b, sizes->hkv, sizes->t, sizes->dv), random,
                                   -2, 2));
}

/* Copies of the operands of a call. */
static void call_same(struct call *call, const struct call *from) {
    for (int i = 0; i < from->input_count; i++) {
        struct orr_tensor_view copy = tensor_make(from->inputs[i].dtype, from->inputs[i].shape);
        memcpy(copy.data, from->inputs[i].data,
               (size_t)tensor_count(&copy) * orr_dtype_size(copy.dtype));
        call_input(call, copy);
    }
}

/* Forward and backward; gradients are small differences of large numbers, within `bound`. */
static void check_both(struct kernel_fixture *fixture, struct random *random, enum orr_dtype dtype,
                       const struct sizes *sizes, bool causal, double bound) {
    struct call forward = call_open("sdpa"), backward = call_open("sdpa_backward");
    call_operands(&forward, random, dtype, sizes);
    call_int(&forward, "causal", causal);
    kernel_check(fixture, &forward);
    call_run(&forward);
    call_input(&backward, tensor_random(dtype, forward.output.shape, random, -1, 1));
    call_same(&backward, &forward);
    struct orr_tensor_view out = forward.output;
    forward.output = (struct orr_tensor_view){.data = NULL};
    call_input(&backward, out);
    call_int(&backward, "causal", causal);
    kernel_check_within(fixture, &backward, bound);
    call_close(&forward);
    call_close(&backward);
}

static double bound_of(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_F64 ? 1e-11 : dtype == ORR_DTYPE_F32 ? 1e-4 : 2e-2;
}

/* Tiles that end where they don't, in every order of a block's threads. */
static void tiles_are_the_cpus(void **state) {
    static const struct sizes sizes[] = {{1, 1, 1, 1, 2, 1, 1},
                                         {2, 4, 2, 5, 5, 8, 8},
                                         {1, 4, 2, 33, 65, 4, 12},
                                         {1, 1, 1, 3, 4, 140, 70}};
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            if (j < 2 || floats[i] == ORR_DTYPE_F32)
                check_both(*state, &random, floats[i], &sizes[j], true, bound_of(floats[i]));
}

static void attention_is_the_cpus(void **state) {
    static const struct sizes sizes[] = {{2, 4, 2, 5, 5, 8, 8},
                                         {1, 2, 1, 3, 70, 16, 5},
                                         {1, 2, 2, 40, 40, 9, 3},
                                         {1, 6, 2, 33, 65, 4, 12}};
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    fixture->collapsed = true;
    for (int i = 0; i < FLOATS; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            for (int causal = 0; causal < 2; causal++)
                check_both(fixture, &random, floats[i], &sizes[j], causal != 0,
                           bound_of(floats[i]));
}

static void any_width_of_heads_will_do(void **state) {
    static const struct sizes sizes[] = {{1, 1, 1, 3, 4, 130, 131}, {1, 2, 1, 2, 3, 65, 300}};
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    fixture->collapsed = true;
    for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
        for (int i = 0; i < FLOATS; i++)
            check_both(fixture, &random, floats[i], &sizes[j], true, bound_of(floats[i]));
}

static void large_and_negative_scales_do_not_overflow(void **state) {
    static const struct sizes sizes = {1, 2, 1, 7, 40, 6, 5};
    static const double scales[] = {-40, 300};
    struct random random = random_seeded();
    for (int i = 0; i < 2; i++) {
        struct call call = call_open("sdpa");
        call_operands(&call, &random, ORR_DTYPE_F32, &sizes);
        call_real(&call, "scale", scales[i]);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void random_attention_is_the_cpus(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    fixture->collapsed = true;
    for (int i = 0; i < 30; i++) {
        struct sizes sizes = {
            .b = random_int(&random, 1, 2),
            .hkv = random_int(&random, 1, 3),
            .t = random_int(&random, 2, 70),
            .d = random_int(&random, 1, 20),
            .dv = random_int(&random, 1, 20),
        };
        enum orr_dtype dtype = floats[random_int(&random, 0, FLOATS - 1)];
        sizes.h = sizes.hkv * random_int(&random, 1, 3);
        sizes.s = random_int(&random, 1, sizes.t);
        check_both(fixture, &random, dtype, &sizes, random_int(&random, 0, 1) != 0,
                   bound_of(dtype));
    }
}

static void nothing_to_attend_to_is_no_error(void **state) {
    static const struct sizes sizes[] = {
        {0, 2, 1, 3, 4, 5, 6}, {1, 2, 1, 0, 4, 5, 6}, {1, 2, 1, 3, 4, 5, 0}};
    struct random random = random_seeded();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_both(*state, &random, ORR_DTYPE_F32, &sizes[i], false, 1e-5);
}

/* ---- Rings ---- */

/* A rank's part of a ring: `own` blocks from `first` on, of `total`. */
static void check_ring(struct kernel_fixture *fixture, struct random *random, enum orr_dtype dtype,
                       int64_t total, int64_t first, int64_t own, int64_t shift, bool causal) {
    struct sizes sizes = {2, 4, 2, own * 5, own * 5, 6, 7};
    enum orr_dtype sums = dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    struct call forward = call_open("sdpa_block"), backward = call_open("sdpa_block_backward");
    call_operands(&forward, random, dtype, &sizes);
    struct orr_shape out = shape4(2, 4, own * 5, 7);
    call_input(&backward, tensor_random(dtype, out, random, -1, 1));
    call_same(&backward, &forward);
    call_input(&backward, tensor_random(dtype, out, random, -1, 1));
    /* About log of a sum over the keys, so that probabilities are below 1. */
    call_input(&backward, tensor_random(sums, shape3(2, 4, own * 5), random, 9, 12));
    for (int i = 0; i < 2; i++) {
        struct call *call = i ? &backward : &forward;
        call_int(call, "causal", causal);
        call_int(call, "blocks", total);
        call_int(call, "shift", shift);
        call_int(call, "start", first * 5);
        call_int(call, "whole", total * 5);
        kernel_check(fixture, call);
        call_close(call);
    }
}

static void blocks_of_a_ring_are_the_cpus(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    fixture->collapsed = true;
    for (int64_t shift = 0; shift < 4; shift++)
        for (int causal = 0; causal < 2; causal++) {
            check_ring(*state, &random, ORR_DTYPE_F32, 4, 0, 4, shift, causal != 0);
            check_ring(*state, &random, ORR_DTYPE_F64, 4, 1, 2, shift, causal != 0);
            check_ring(*state, &random, ORR_DTYPE_BF16, 4, 3, 1, shift, causal != 0);
        }
    fixture->collapsed = false;
    check_ring(*state, &random, ORR_DTYPE_F32, 4, 1, 2, 1, true);
}

static void merged_results_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (int narrow = 0; narrow < 2; narrow++) {
            enum orr_dtype dtype = floats[i];
            enum orr_dtype sums = dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
            struct call call = call_open("sdpa_merge");
            for (int side = 0; side < 2; side++) {
                struct orr_tensor_view lse = tensor_random(sums, shape3(1, 2, 6), &random, -5, 5);
                orr_dtype_store(sums, lse.data, (size_t)side, -(double)INFINITY);
                orr_dtype_store(sums, lse.data, 2, -(double)INFINITY);
                orr_dtype_store(sums, lse.data, 3, side ? 700 : -700);
                call_input(&call, tensor_random(side && narrow ? ORR_DTYPE_BF16 : dtype,
                                                shape4(1, 2, 6, 9), &random, -1, 1));
                call_input(&call, lse);
            }
            kernel_check(*state, &call);
            call_close(&call);
        }
}

/* ---- Serving ---- */

static struct orr_tensor_view indices(enum orr_dtype dtype, const int64_t *values, int64_t count) {
    struct orr_tensor_view view = tensor_make(dtype, shape1(count));
    for (int64_t i = 0; i < count; i++)
        orr_dtype_store(dtype, view.data, (size_t)i, (double)values[i]);
    return view;
}

static struct call decode_call(struct random *random, enum orr_dtype dtype, int64_t s,
                               const int64_t *lengths, const int64_t *slots) {
    struct call call = call_open("sdpa_decode");
    call_input(&call, tensor_random(dtype, shape4(3, 4, s, 6), random, -2, 2));
    call_input(&call, tensor_random(dtype, shape4(slots ? 5 : 3, 2, 40, 6), random, -2, 2));
    call_input(&call, tensor_random(dtype, shape4(slots ? 5 : 3, 2, 40, 7), random, -2, 2));
    call_input(&call, indices(ORR_DTYPE_I32, lengths, 3));
    if (slots)
        call_input(&call, indices(ORR_DTYPE_I64, slots, 3));
    return call;
}

static void decoding_is_the_cpus(void **state) {
    static const int64_t lengths[] = {40, 0, 9}, slots[] = {4, 1, 0};
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (int64_t s = 1; s < 9; s += 4)
            for (int with = 0; with < 2; with++) {
                struct call call = decode_call(&random, floats[i], s, lengths, with ? slots : NULL);
                fixture->collapsed = s != 1 || i != 1;
                kernel_check(fixture, &call);
                call_close(&call);
            }
}

static void rows_of_a_cache_are_replaced(void **state) {
    static const int64_t positions[] = {3, -1, 0}, slots[] = {4, 1, 0};
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (int with = 0; with < 2; with++) {
            struct call call = call_open("kv_append");
            call_input(&call,
                       tensor_random(floats[i], shape4(with ? 5 : 3, 2, 6, 4), &random, -1, 1));
            call_input(&call, tensor_random(floats[i], shape4(3, 2, 3, 4), &random, -1, 1));
            call_input(&call, indices(ORR_DTYPE_I64, positions, 3));
            if (with)
                call_input(&call, indices(ORR_DTYPE_I32, slots, 3));
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
}

/* The call's fault, which is then cleared. */
static void assert_fault(struct kernel_fixture *fixture, struct call *call, int64_t value,
                         int64_t bound) {
    struct orr_error error = {0};
    assert_int_equal(kernel_call_status(fixture, call, &error), ORR_OK);
    assert_int_equal(fixture->fault.code, ORR__FAULT_INDEX);
    assert_int_equal(fixture->fault.value, value);
    assert_int_equal(fixture->fault.bound, bound);
    fixture->fault = (struct orr__cuda_fault){0};
    call_close(call);
}

static void indices_out_of_range_are_faults(void **state) {
    static const int64_t lengths[] = {40, 2, 41}, low[] = {40, 1, 9}, good[] = {40, 2, 9};
    static const int64_t slots[] = {4, -1, 0};
    struct random random = random_seeded();
    struct call call = decode_call(&random, ORR_DTYPE_F32, 2, lengths, NULL);
    assert_fault(*state, &call, 41, 41);
    call = decode_call(&random, ORR_DTYPE_F32, 2, low, NULL);
    assert_fault(*state, &call, 1, 41);
    call = decode_call(&random, ORR_DTYPE_F32, 2, good, slots);
    assert_fault(*state, &call, -1, 5);
    static const int64_t positions[] = {0, 3, 4};
    call = call_open("kv_append");
    call_input(&call, tensor_random(ORR_DTYPE_F32, shape4(3, 2, 6, 4), &random, -1, 1));
    call_input(&call, tensor_random(ORR_DTYPE_F32, shape4(3, 2, 3, 4), &random, -1, 1));
    call_input(&call, indices(ORR_DTYPE_I64, positions, 3));
    assert_fault(*state, &call, 4, 4);
}

/* ---- rope ---- */

static void rotations_are_the_cpus(void **state) {
    static const char *const names[] = {"rope", "rope_backward"};
    struct random random = random_seeded();
    for (int name = 0; name < 2; name++)
        for (int i = 0; i < FLOATS; i++)
            for (int64_t offset = 0; offset < 6000; offset += 4000) {
                struct call call = call_open(names[name]);
                call_input(&call, tensor_random(floats[i], shape4(2, 3, 5, 8), &random, -1, 1));
                call_int(&call, "offset", offset);
                call_real(&call, "theta", offset ? 500 : 10000);
                kernel_check(*state, &call);
                call_close(&call);
            }
    struct call call = call_open("rope");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape3(2, 0, 8)));
    kernel_check(*state, &call);
    call_close(&call);
}

static void rotations_at_positions_are_the_cpus(void **state) {
    static const int64_t positions[] = {7, 0, 1234};
    struct random random = random_seeded();
    for (int i = 0; i < FLOATS; i++)
        for (int rank = 3; rank < 5; rank++) {
            struct call call = call_open("rope_at");
            call_input(&call,
                       tensor_random(floats[i], rank == 3 ? shape3(3, 4, 6) : shape4(3, 2, 4, 6),
                                     &random, -1, 1));
            call_input(&call, indices(i % 2 ? ORR_DTYPE_I32 : ORR_DTYPE_I64, positions, 3));
            kernel_check(*state, &call);
            call_close(&call);
        }
}

/* ---- Failures ---- */

static void no_memory_for_scratch_is_an_error(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    struct orr_error error = {0};
    struct call call = call_open("rope");
    call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(3, 4), &random, -1, 1));
    fixture->device.fail_at = 1;
    assert_int_equal(kernel_call_status(fixture, &call, &error), ORR_NO_MEMORY);
    call_close(&call);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tiles_are_the_cpus, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(attention_is_the_cpus, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(any_width_of_heads_will_do, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(large_and_negative_scales_do_not_overflow, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(random_attention_is_the_cpus, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(nothing_to_attend_to_is_no_error, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(blocks_of_a_ring_are_the_cpus, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(merged_results_are_the_cpus, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(decoding_is_the_cpus, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(rows_of_a_cache_are_replaced, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(indices_out_of_range_are_faults, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(rotations_are_the_cpus, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(rotations_at_positions_are_the_cpus, kernel_setup,
                                        kernel_teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_scratch_is_an_error, kernel_setup,
                                        kernel_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
