/* Kernels of mixtures of experts against the operators. */
#include "tests/cuda_kernel_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
enum { FLOATS = sizeof floats / sizeof floats[0] };

/* Tokens [b, s] in gb x gs groups, k of `experts` experts each, slots of `capacity`. */
struct routing {
    int64_t b, s, k, h, experts, gb, gs, capacity;
};

static const struct routing routings[] = {
    {2, 6, 2, 10, 4, 1, 1, 3},   /* most are dropped */
    {4, 6, 2, 33, 3, 2, 3, 16},  /* none is dropped; free slots */
    {2, 160, 2, 8, 5, 2, 1, 50}, /* more pairs than are sorted at once */
    {3, 5, 1, 150, 1, 3, 5, 1},  /* one expert, a group to each token */
    {2, 0, 2, 4, 3, 1, 1, 2},    /* no tokens */
};
enum { ROUTINGS = sizeof routings / sizeof routings[0] };

/* Expert 0 is the busiest. */
static struct orr_tensor_view experts_of(const struct routing *routing, enum orr_dtype dtype,
                                         struct random *random) {
    struct orr_tensor_view view = tensor_make(dtype, shape3(routing->b, routing->s, routing->k));
    for (int64_t i = 0; i < tensor_count(&view); i++) {
        int64_t expert = random_int(random, 0, 2 * routing->experts - 1);
        orr_dtype_store(dtype, view.data, (size_t)i,
                        expert < routing->experts ? (double)expert : 0);
    }
    return view;
}

static struct orr_tensor_view slots_of(const struct routing *routing, enum orr_dtype dtype,
                                       struct random *random) {
    const int64_t dims[] = {routing->experts, routing->gb, routing->gs, routing->capacity,
                            routing->h};
    return tensor_random(dtype, orr_shape_of(5, dims), random, -1, 1);
}

static struct orr_tensor_view tokens_of(const struct routing *routing, enum orr_dtype dtype,
                                        int64_t width, struct random *random) {
    return tensor_random(dtype, shape3(routing->b, routing->s, width), random, -1, 1);
}

/* Without weights, and with them. */
static void check_weighted(void *state, struct call *call, const struct routing *routing,
                           enum orr_dtype dtype, struct random *random) {
    kernel_check(state, call);
    call_input(call, tokens_of(routing, dtype, routing->k, random));
    kernel_check(state, call);
    call_close(call);
}

static void dispatch_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int i = 0; i < ROUTINGS; i++) {
            const struct routing *routing = &routings[i];
            enum orr_dtype index = i % 2 ? ORR_DTYPE_I32 : ORR_DTYPE_I64;
            struct call call = call_open("moe_dispatch");
            call_int(&call, "experts", routing->experts);
            call_int(&call, "capacity", routing->capacity);
            call_shape(&call, "groups", shape2(routing->gb, routing->gs));
            call_input(&call, tokens_of(routing, floats[f], routing->h, &random));
            call_input(&call, experts_of(routing, index, &random));
            check_weighted(*state, &call, routing, floats[f], &random);
        }
}

static void dispatch_of_a_piece_is_the_operators(void **state) {
    struct random random = random_seeded();
    const struct routing routing = {.b = 2, .s = 6, .k = 2, .h = 7, .experts = 3};
    struct call call = call_open("moe_dispatch");
    call_int(&call, "experts", 3);
    call_int(&call, "capacity", 4);
    call_shape(&call, "groups", shape2(4, 2));
    call_shape(&call, "whole", shape3(8, 6, 2));
    call_input(&call, tokens_of(&routing, ORR_DTYPE_F32, 7, &random));
    call_input(&call, experts_of(&routing, ORR_DTYPE_I32, &random));
    kernel_check(*state, &call);
    call_close(&call);
}

static void combine_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int i = 0; i < ROUTINGS; i++) {
            enum orr_dtype index = i % 2 ? ORR_DTYPE_I64 : ORR_DTYPE_I32;
            struct call call = call_open("moe_combine");
            call_input(&call, slots_of(&routings[i], floats[f], &random));
            call_input(&call, experts_of(&routings[i], index, &random));
            check_weighted(*state, &call, &routings[i], floats[f], &random);
        }
}

static void dot_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int f = 0; f < FLOATS; f++)
        for (int i = 0; i < ROUTINGS; i++) {
            struct call call = call_open("moe_dot");
            call_input(&call, tokens_of(&routings[i], floats[f], routings[i].h, &random));
            call_input(&call, slots_of(&routings[i], floats[f], &random));
            call_input(&call, experts_of(&routings[i], ORR_DTYPE_I32, &random));
            kernel_check(*state, &call);
            call_close(&call);
        }
}

static void load_is_the_operators(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < ROUTINGS; i++) {
        struct call call = call_open("moe_load");
        call_int(&call, "experts", routings[i].experts + 2);
        call_input(&call, experts_of(&routings[i], i % 2 ? ORR_DTYPE_I64 : ORR_DTYPE_I32, &random));
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

static void an_expert_that_is_none_is_a_fault(void **state) {
    static const char *const names[] = {"moe_dispatch", "moe_combine", "moe_dot", "moe_load"};
    const struct routing routing = routings[0];
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    struct orr_error error = {0};
    for (int i = 0; i < 8; i++) {
        int which = i / 2, wrong = i % 2 ? -5 : 4;
        struct orr_tensor_view indices = experts_of(&routing, ORR_DTYPE_I32, &random);
        ((int32_t *)indices.data)[7] = wrong;
        struct call call = call_open(names[which]);
        if (which == 0 || which == 3)
            call_int(&call, "experts", routing.experts);
        if (which == 0)
            call_int(&call, "capacity", routing.capacity);
        if (which == 0 || which == 2)
            call_input(&call, tokens_of(&routing, ORR_DTYPE_F32, routing.h, &random));
        if (which == 1 || which == 2)
            call_input(&call, slots_of(&routing, ORR_DTYPE_F32, &random));
        call_input(&call, indices);
        memset(&fixture->fault, 0, sizeof fixture->fault);
        assert_int_equal(kernel_call_status(fixture, &call, &error), ORR_OK);
        assert_int_equal(fixture->fault.code, ORR__FAULT_INDEX);
        assert_int_equal(fixture->fault.value, wrong);
        assert_int_equal(fixture->fault.bound, 4);
        call_close(&call);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(dispatch_is_the_operators), CASE(dispatch_of_a_piece_is_the_operators),
        CASE(combine_is_the_operators),  CASE(dot_is_the_operators),
        CASE(load_is_the_operators),     CASE(an_expert_that_is_none_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
