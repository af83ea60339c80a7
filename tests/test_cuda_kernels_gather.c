/* Kernels of embedding, gather_last, scatter_last, topk and embedding_backward against the
 * operators, and the sort that sums over equal indices rest on. */
#include "tests/cuda_kernel_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/launch_order.h"

static const enum orr_dtype numbers[] = {ORR_DTYPE_F64,  ORR_DTYPE_F32, ORR_DTYPE_F16,
                                         ORR_DTYPE_BF16, ORR_DTYPE_I32, ORR_DTYPE_I64};
enum { FLOATS = 4, NUMBERS = sizeof numbers / sizeof numbers[0] };

static struct orr_tensor_view indices_random(enum orr_dtype dtype, struct orr_shape shape,
                                             int64_t bound, struct random *random) {
    struct orr_tensor_view view = tensor_make(dtype, shape);
    for (int64_t i = 0; i < tensor_count(&view); i++)
        orr_dtype_store(dtype, view.data, (size_t)i, (double)random_int(random, 0, bound - 1));
    return view;
}

static enum orr_dtype index_dtype(int round) {
    return round % 2 ? ORR_DTYPE_I32 : ORR_DTYPE_I64;
}

/* ---- The sort ---- */

/* Indices from 0 to 9 or so: enough equal ones, in tiles, at their ends, and over many merges. */
static void check_order(struct kernel_fixture *fixture, int64_t count, int64_t first,
                        struct random *random) {
    const int64_t bound = 9, keys = bound - first;
    struct orr_tensor_view indices = indices_random(ORR_DTYPE_I32, shape1(count), bound, random);
    struct orr__cuda_order order = {.indices = indices.data,
                                    .index_dtype = ORR_DTYPE_I32,
                                    .count = count,
                                    .bound = bound,
                                    .first = first,
                                    .keys = keys};
    struct orr_error error = {0};
    void *scratch;
    assert_int_equal(
        orr__cuda_scratch(&fixture->queue, orr__cuda_order_bytes(count, keys), &scratch, &error),
        ORR_OK);
    assert_int_equal(orr__cuda_order(&fixture->queue, &order, scratch, &error), ORR_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_in_range(order.order[i], 0, count - 1);
        assert_true(order.sorted[i] == ((int32_t *)indices.data)[order.order[i]] - first);
        if (i > 0 && order.sorted[i] == order.sorted[i - 1])
            assert_true(order.order[i - 1] < order.order[i]);
        else if (i > 0)
            assert_true(order.sorted[i - 1] < order.sorted[i]);
    }
    for (int64_t key = 0, i = 0; key <= keys; key++) {
        while (i < count && order.sorted[i] < key)
            i++;
        assert_int_equal(order.starts[key], i);
    }
    tensor_free(&indices);
}

static void indices_are_sorted_and_equal_ones_stay_in_order(void **state) {
    static const int64_t counts[] = {0, 1, 511, 512, 513, 1024, 1025, 5000};
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    for (int mode = 0; mode < 3; mode++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            fixture->emulation.mode = (enum orr_emulated_mode)mode;
            check_order(fixture, counts[i], (int64_t)i % 3, &random);
        }
}

/* ---- embedding ---- */

/* Widths whose rows are made of units of 16, 8, 4 and 2 bytes. */
static const int64_t widths[] = {1, 2, 5, 8, 100, 600};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void embedding_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int w = 0; w < WIDTHS; w++) {
            struct call call = call_open("embedding");
            call_input(&call, indices_random(index_dtype(w), shape2(3, 4), 20, &random));
            call_input(&call, tensor_random(numbers[f], shape2(20, widths[w]), &random, -1, 1));
            kernel_check_within(*state, &call, 0);
            /* The rows 7 .. 26 of 30. */
            call_int(&call, "first", 7);
            call_int(&call, "whole", 30);
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
}

static void embedding_backward_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int round = 0; round < 4; round++) {
            int64_t count = round == 3 ? 700 : 40, rows = round == 2 ? 1 : 25;
            struct call call = call_open("embedding_backward");
            call_int(&call, "rows", rows);
            call_input(&call, tensor_random(numbers[f], shape2(count, 13), &random, -1, 1));
            call_input(&call, indices_random(index_dtype(round), shape1(count), rows, &random));
            kernel_check(*state, &call);
            if (round == 1) {
                call_int(&call, "rows", 10);
                call_int(&call, "first", 8);
                call_int(&call, "whole", 25);
                kernel_check(*state, &call);
            }
            call_close(&call);
        }
}

/* ---- The last dimension ---- */

static void gather_last_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int d = 0; d < NUMBERS; d++) {
        struct call call = call_open("gather_last");
        call_input(&call, tensor_random(numbers[d], shape3(2, 3, 50), &random, -9, 9));
        call_input(&call, indices_random(index_dtype(d), shape3(2, 3, 7), 50, &random));
        kernel_check_within(*state, &call, 0);
        call_int(&call, "first", 20);
        call_int(&call, "whole", 90);
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

static void scatter_last_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++) {
        struct call call = call_open("scatter_last");
        call_int(&call, "size", 6);
        call_input(&call, tensor_random(numbers[f], shape3(2, 3, 40), &random, -1, 1));
        call_input(&call, indices_random(index_dtype(f), shape3(2, 3, 40), 6, &random));
        kernel_check(*state, &call);
        call_int(&call, "size", 3);
        call_int(&call, "first", 2);
        call_int(&call, "whole", 6);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

/* Few different values, so that many are equal; and NaNs. */
static struct orr_tensor_view crowded(enum orr_dtype dtype, struct orr_shape shape,
                                      struct random *random) {
    struct orr_tensor_view x = tensor_make(dtype, shape);
    for (int64_t i = 0; i < tensor_count(&x); i++) {
        int64_t value = random_int(random, -1, 8);
        orr_dtype_store(dtype, x.data, (size_t)i,
                        value < 0   ? (double)NAN
                        : value > 7 ? -(double)INFINITY
                                    : (double)value);
    }
    return x;
}

static void topk_is_the_operators(void **state) {
    struct random random = random_seeded();
    static const int64_t lengths[] = {1, 8, 40, 300};
    for (int f = 0; f < FLOATS; f++)
        for (int n = 0; n < 4; n++) {
            struct call call = call_open("topk");
            call_int(&call, "k", lengths[n] < 9 ? lengths[n] : 9);
            call_input(&call, crowded(numbers[f], shape3(2, 2, lengths[n]), &random));
            kernel_check_within(*state, &call, 0);
            call_close(&call);
        }
}

/* ---- What can be wrong ---- */

/* Each operator with one index that is out of range, at either end. */
static void an_index_out_of_range_is_a_fault(void **state) {
    static const char *const names[] = {"embedding", "embedding_backward", "gather_last",
                                        "scatter_last"};
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    struct orr_error error = {0};
    for (int i = 0; i < 8; i++) {
        int which = i / 2, wrong = i % 2 ? -1 : 6;
        struct orr_tensor_view indices = indices_random(ORR_DTYPE_I32, shape2(2, 3), 6, &random);
        struct orr_tensor_view x = tensor_random(ORR_DTYPE_F32,
                                                 which == 0   ? shape2(6, 4)
                                                 : which == 1 ? shape3(2, 3, 4)
                                                 : which == 2 ? shape2(2, 6)
                                                              : shape2(2, 3),
                                                 &random, -1, 1);
        ((int32_t *)indices.data)[4] = wrong;
        struct call call = call_open(names[which]);
        if (which == 1)
            call_int(&call, "rows", 6);
        if (which == 3)
            call_int(&call, "size", 6);
        call_input(&call, which == 0 ? indices : x);
        call_input(&call, which == 0 ? x : indices);
        memset(&fixture->fault, 0, sizeof fixture->fault);
        assert_int_equal(kernel_call_status(fixture, &call, &error), ORR_OK);
        assert_int_equal(fixture->fault.code, ORR__FAULT_INDEX);
        assert_int_equal(fixture->fault.value, wrong);
        assert_int_equal(fixture->fault.bound, 6);
        call_close(&call);
    }
}

static void tensors_without_elements_launch_what_is_left(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < 2; i++) {
        int64_t count = i ? 0 : 3, width = i ? 3 : 0;
        struct call call = call_open("embedding");
        call_input(&call, indices_random(ORR_DTYPE_I32, shape1(count), 5, &random));
        call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(5, width), &random, -1, 1));
        kernel_check(*state, &call);
        call_close(&call);
        call = call_open("embedding_backward");
        call_int(&call, "rows", 5);
        call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(count, width), &random, -1, 1));
        call_input(&call, indices_random(ORR_DTYPE_I32, shape1(count), 5, &random));
        kernel_check(*state, &call);
        call_close(&call);
        call = call_open("gather_last");
        call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(count, 4), &random, -1, 1));
        call_input(&call, indices_random(ORR_DTYPE_I32, shape2(count, width), 4, &random));
        kernel_check(*state, &call);
        call_close(&call);
        call = call_open("scatter_last");
        call_int(&call, "size", 4);
        call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(count, width), &random, -1, 1));
        call_input(&call, indices_random(ORR_DTYPE_I32, shape2(count, width), 4, &random));
        kernel_check(*state, &call);
        call_close(&call);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(indices_are_sorted_and_equal_ones_stay_in_order),
        CASE(embedding_is_the_operators),
        CASE(embedding_backward_is_the_operators),
        CASE(gather_last_is_the_operators),
        CASE(scatter_last_is_the_operators),
        CASE(topk_is_the_operators),
        CASE(an_index_out_of_range_is_a_fault),
        CASE(tensors_without_elements_launch_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
