/* Optimizers on a CUDA queue, against the operators' own arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/cuda_kernel_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
enum { FLOATS = sizeof floats / sizeof floats[0] };

/* An optimizer's call for `count` elements; `square` is never negative. */
static struct call open_update(const char *name, struct random *random, enum orr_dtype param,
                               enum orr_dtype grad, enum orr_dtype state, int64_t count) {
    struct call call = call_open(name);
    call_input(&call, tensor_random(param, shape1(count), random, -1, 1));
    call_input(&call, tensor_random(grad, shape1(count), random, -1, 1));
    for (int i = 2; i < call.op->inputs_max; i++)
        call_input(&call, tensor_random(state, shape1(count), random, 0, 1));
    call_real(&call, "lr", 0.05);
    call_real(&call, "weight_decay", 0.1);
    return call;
}

static const char *const names[] = {"sgd", "sgd_momentum", "adamw", "adamw_master"};

static void updates_are_the_cpus(void **state) {
    struct random random = random_seeded();
    for (size_t name = 0; name < sizeof names / sizeof names[0]; name++)
        for (int i = 0; i < FLOATS; i++) {
            struct call call =
                open_update(names[name], &random, floats[i], floats[i], floats[i], 700);
            kernel_check(*state, &call);
            call_close(&call);
        }
}

static void dtypes_may_differ(void **state) {
    struct random random = random_seeded();
    for (size_t name = 0; name < sizeof names / sizeof names[0]; name++) {
        struct call call =
            open_update(names[name], &random, ORR_DTYPE_F32, ORR_DTYPE_BF16, ORR_DTYPE_F16, 33);
        kernel_check(*state, &call);
        call_close(&call);
        call = open_update(names[name], &random, ORR_DTYPE_F64, ORR_DTYPE_F16, ORR_DTYPE_F32, 33);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void attributes_count(void **state) {
    struct random random = random_seeded();
    struct call call =
        open_update("sgd_momentum", &random, ORR_DTYPE_F32, ORR_DTYPE_F32, ORR_DTYPE_F32, 33);
    call_int(&call, "nesterov", 1);
    call_real(&call, "momentum", 0.7);
    kernel_check(*state, &call);
    call_close(&call);
    for (int64_t step = 1; step < 1000; step *= 9) {
        call = open_update("adamw", &random, ORR_DTYPE_F32, ORR_DTYPE_F32, ORR_DTYPE_F32, 33);
        call_int(&call, "step", step);
        call_real(&call, "beta1", 0.8);
        call_real(&call, "beta2", 0.95);
        call_real(&call, "eps", 1e-3);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void nothing_is_updated_at_once(void **state) {
    struct random random = random_seeded();
    struct call call =
        open_update("adamw", &random, ORR_DTYPE_F32, ORR_DTYPE_F32, ORR_DTYPE_F32, 0);
    kernel_check(*state, &call);
    call_close(&call);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(updates_are_the_cpus, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(dtypes_may_differ, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(attributes_count, kernel_setup, kernel_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_updated_at_once, kernel_setup, kernel_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
