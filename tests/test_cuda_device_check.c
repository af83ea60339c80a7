/* The steps of the device check, over the fake devices: their own logic, what they print, and that
 * the negative control of step 3 sees a missing wait. Nothing here says anything about a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/device/check.h"

/* Of step 2; 0: few. `test_cuda_device_check 1000` runs so many. */
static int asked_programs;

/* Runs one step over a fresh fake; returns what it wrote. */
static const char *run_step(int number, void (*step)(struct check *check), struct check *check) {
    static char text[1 << 16];
    static struct check_points points;
    const struct orr_fake_cuda_options options = {.engine = ORR_FAKE_SIMULATED};
    struct orr_fake_cuda *fake;
    struct orr_error error;
    points.count = 0;
    *check = (struct check){.memory = orr_memory_system(),
                            .points = &points,
                            .step = number,
                            .quick = true,
                            .fake = true,
                            .programs = asked_programs,
                            .seed = 1};
    assert_int_equal(orr_fake_cuda_open(&options, &check->memory, &fake, &error), ORR_OK);
    check->api = orr_fake_cuda_api(fake);
    check->results = tmpfile();
    assert_non_null(check->results);
    step(check);
    rewind(check->results);
    text[fread(text, 1, sizeof text - 1, check->results)] = '\0';
    fclose(check->results);
    struct orr_fake_cuda_census census = orr_fake_cuda_census(fake);
    static const struct orr_fake_cuda_census none;
    assert_memory_equal(&census, &none, sizeof census);
    orr_fake_cuda_close(&fake);
    return text;
}

static void expect_line(const char *text, const char *line) {
    if (!strstr(text, line))
        fail_msg("no line '%s' in:\n%s", line, text);
}

static void test_probe(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(0, check_probe, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,0,probe,pass,1 GPU(s)");
    expect_line(text, "Fake CUDA device");
}

static void test_images(void **state) {
    (void)state;
    struct check check;
    expect_line(run_step(1, check_images, &check), "check,1,images,pass,");
}

static void test_numbers(void **state) {
    (void)state;
    struct check check;
    expect_line(run_step(2, check_numbers, &check), "check,2,numbers,pass,");
}

static void test_order_and_its_negative_control(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(3, check_order, &check);
    expect_line(text, "check,3,order,pass,with the wait 5 of 5 right, 0 findings");
    expect_line(text, "check,3,order, negative control,pass,without it 0 of 5 right, 1 findings");
}

static void test_overlap_is_skipped(void **state) {
    (void)state;
    struct check check;
    expect_line(run_step(4, check_overlap, &check), "check,4,overlap,skip,");
}

static void test_clocks(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(5, check_clocks, &check);
    assert_int_equal(check.failed, 0);
    assert_int_equal(check.passed, 4);
    expect_line(text, "0 early, 0 overlapping");
}

static void test_launches(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(6, check_launches, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,6,graph node,skip,");
}

static void points_and_model(struct check *check) {
    check_points(check);
    check_model(check);
}

static void test_points_and_model(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(7, points_and_model, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,7,points,skip,");
    expect_line(text, "device copy,note,fitted to ");
    expect_line(text, "kernel,note,fitted to 8 points");
}

static void test_limits(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(8, check_limits, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,8,out of memory,pass,");
    expect_line(text, "two ranks on one GPU give code 5");
}

int main(int argc, char **argv) {
    asked_programs = argc > 1 ? atoi(argv[1]) : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_order_and_its_negative_control),
        cmocka_unit_test(test_overlap_is_skipped),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_points_and_model),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("device check over fake devices", tests, NULL, NULL);
}
