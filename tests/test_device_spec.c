/* Look-ups in a device spec: peaks with their fallbacks, curves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/device_spec.h"

static void a_missing_peak_falls_back_to_the_vector_peak_and_then_to_f32(void **state) {
    (void)state;
    struct orr_device_spec spec = {.name = "none"};
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_BF16), 0);
    spec.peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 10;
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_VECTOR, ORR_DTYPE_F32), 10);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_VECTOR, ORR_DTYPE_I64), 10);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_F16), 10);
    spec.peak[ORR_UNIT_VECTOR][ORR_DTYPE_F16] = 20;
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_VECTOR, ORR_DTYPE_F16), 20);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_F16), 20);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_BF16), 10);
    spec.peak[ORR_UNIT_MATRIX][ORR_DTYPE_F16] = 400;
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_F16), 400);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_VECTOR, ORR_DTYPE_F16), 20);
}

static void a_command_without_a_dtype_counts_like_f32(void **state) {
    (void)state;
    struct orr_device_spec spec = {.peak = {{[ORR_DTYPE_F32] = 7}, {[ORR_DTYPE_F32] = 9}}};
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_VECTOR, ORR_DTYPE_NONE), 7);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_NONE), 9);
}

static void a_curve_without_points_is_one_everywhere(void **state) {
    (void)state;
    struct orr_curve curve = {.point_count = 0};
    assert_int_equal(orr_curve_at(&curve, 0), ORR_PPM);
    assert_int_equal(orr_curve_at(&curve, UINT64_MAX), ORR_PPM);
}

static void a_curve_is_constant_outside_its_points(void **state) {
    (void)state;
    struct orr_curve one = {.point_count = 1, .x = {1000}, .ppm = {250000}};
    assert_int_equal(orr_curve_at(&one, 0), 250000);
    assert_int_equal(orr_curve_at(&one, 1000), 250000);
    assert_int_equal(orr_curve_at(&one, UINT64_MAX), 250000);
    struct orr_curve two = {.point_count = 2, .x = {1000, 2000}, .ppm = {100000, 900000}};
    assert_int_equal(orr_curve_at(&two, 999), 100000);
    assert_int_equal(orr_curve_at(&two, 2001), 900000);
}

static void a_curve_is_linear_between_its_points_and_rounds_down(void **state) {
    (void)state;
    struct orr_curve curve = {.point_count = 3, .x = {0, 10, 13}, .ppm = {100000, 200000, 199990}};
    assert_int_equal(orr_curve_at(&curve, 0), 100000);
    assert_int_equal(orr_curve_at(&curve, 1), 110000);
    assert_int_equal(orr_curve_at(&curve, 10), 200000);
    assert_int_equal(orr_curve_at(&curve, 11), 199996); /* 199,996.67 */
    assert_int_equal(orr_curve_at(&curve, 12), 199993); /* 199,993.33 */
    assert_int_equal(orr_curve_at(&curve, 13), 199990);
}

static void a_curve_over_the_whole_range_does_not_overflow(void **state) {
    (void)state;
    struct orr_curve curve = {.point_count = 2, .x = {0, UINT64_MAX}, .ppm = {1, ORR_PPM}};
    assert_int_equal(orr_curve_at(&curve, UINT64_MAX / 2), 500000);
    assert_int_equal(orr_curve_at(&curve, UINT64_MAX - 1), ORR_PPM - 1);
    assert_int_equal(orr_curve_at(&curve, UINT64_MAX), ORR_PPM);
}

static void a_step_of_a_curve_takes_the_lower_point_at_its_place(void **state) {
    (void)state;
    struct orr_curve step = {
        .point_count = 4, .x = {0, 5, 5, 9}, .ppm = {100000, 100000, 300000, 300000}};
    assert_int_equal(orr_curve_at(&step, 5), 100000);
    assert_int_equal(orr_curve_at(&step, 6), 300000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_peak_falls_back_to_the_vector_peak_and_then_to_f32),
        cmocka_unit_test(a_command_without_a_dtype_counts_like_f32),
        cmocka_unit_test(a_curve_without_points_is_one_everywhere),
        cmocka_unit_test(a_curve_is_constant_outside_its_points),
        cmocka_unit_test(a_curve_is_linear_between_its_points_and_rounds_down),
        cmocka_unit_test(a_curve_over_the_whole_range_does_not_overflow),
        cmocka_unit_test(a_step_of_a_curve_takes_the_lower_point_at_its_place),
    };
    return cmocka_run_group_tests_name("device spec", tests, NULL, NULL);
}
